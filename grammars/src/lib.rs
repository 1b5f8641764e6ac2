//! Ten tree-sitter grammars with compressed tables: 9.7 MB become 0.8. The tables of a grammar are zeroes, which take no space in
//! the executable, until the grammar is first used.
//!
//! `build.rs` takes the tables from the grammars' own crates and compiles the grammars' code without them.

use std::sync::Once;

use flate2::{Decompress, FlushDecompress, Status};
use tree_sitter_language::LanguageFn;

/// A function for each grammar: its documentation, its name, its C function, its tables.
macro_rules! grammars {
    ($($(#[$about:meta])* $name:ident $entry:ident $tables:ident;)*) => {$(
        $(#[$about])*
        #[must_use]
        pub fn $name() -> LanguageFn {
            static UNPACKED: Once = Once::new();
            const PACKED: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/", stringify!($name), "/tables"));
            unsafe extern "C" {
                fn $entry() -> *const ();
                static mut $tables: [u8; 0];
            }
            // SAFETY: build.rs writes the size of `$tables`, as C has it, in front of the packed bytes. Nothing else
            // has their address before they are unpacked, which happens once.
            UNPACKED.call_once(|| unsafe { unpack(PACKED, (&raw mut $tables).cast()) });
            // SAFETY: the grammar's own function returns its language.
            unsafe { LanguageFn::from_raw($entry) }
        }
    )*};
}

grammars! {
    /// Bash.
    bash tree_sitter_bash reedclaw_bash_tables;
    /// C.
    c tree_sitter_c reedclaw_c_tables;
    /// C++.
    cpp tree_sitter_cpp reedclaw_cpp_tables;
    /// Go.
    go tree_sitter_go reedclaw_go_tables;
    /// Java.
    java tree_sitter_java reedclaw_java_tables;
    /// JavaScript, with JSX.
    javascript tree_sitter_javascript reedclaw_javascript_tables;
    /// Lua.
    lua tree_sitter_lua reedclaw_lua_tables;
    /// Python.
    python tree_sitter_python reedclaw_python_tables;
    /// Rust.
    rust tree_sitter_rust reedclaw_rust_tables;
    /// TypeScript with JSX.
    tsx tree_sitter_tsx reedclaw_tsx_tables;
    /// TypeScript.
    typescript tree_sitter_typescript reedclaw_typescript_tables;
}

/// Unpacks tables to their address.
///
/// # Safety
///
/// `place` must point to as many bytes as the first eight of `packed` specify, and nothing else may have a reference to them.
unsafe fn unpack(packed: &[u8], place: *mut u8) {
    let (size, packed) = packed.split_first_chunk().expect("a size");
    let size = usize::try_from(u64::from_le_bytes(*size)).expect("a size that fits into memory");
    // SAFETY: the caller's promise.
    let tables = unsafe { std::slice::from_raw_parts_mut(place, size) };
    let mut reader = Decompress::new(false);
    let end = reader.decompress(packed, tables, FlushDecompress::Finish);
    assert!(matches!(end, Ok(Status::StreamEnd)) && reader.total_out() == size as u64, "whole tables");
}
