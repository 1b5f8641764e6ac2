//! Links the C++ runtime of the config's interpreter, and the unwinder, statically where the compiler has them as
//! archives: to load and relocate them takes 0.8 ms of processor time at each start, also of `reedclaw -c`, and a system
//! without them could not start a login shell at all.
//!
//! In a release build, functions with the same instructions become one, if the linker is LLVM's, as Rust's own for x86-64 is.
//!
//! Packs the relocations where the system's loader reads the packed form: 0.7 MB less to read at each start.
//!
//! On x86-64 with glibc the program starts at an entry of its own, which loads the C library's loader only after `-c` has
//! been decided (`src/shell/entry.rs`). `REEDCLAW_PLAIN_ENTRY=1` leaves that to the kernel, for debuggers that expect it.

#![allow(
    clippy::disallowed_methods,
    reason = "a build script asks cargo by the environment and the compiler by a process"
)]

use std::path::PathBuf;
use std::process::Command;

/// The archives by the names that a linker's `-l` knows. The unwinder comes after the library that calls it.
const ARCHIVES: [&str; 2] = ["stdc++", "gcc_eh"];

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-env-changed=CXX");
    println!("cargo:rerun-if-env-changed=REEDCLAW_PLAIN_ENTRY");
    println!("cargo:rustc-check-cfg=cfg(own_entry)");
    let linux = std::env::var("CARGO_CFG_TARGET_OS").is_ok_and(|system| system == "linux");
    let native = std::env::var("HOST").ok() == std::env::var("TARGET").ok();
    if !linux || !native {
        return;
    }
    if loader_reads_packed_relocations() {
        println!("cargo:rustc-link-arg-bins=-Wl,-z,pack-relative-relocs");
    }
    if std::env::var("PROFILE").is_ok_and(|profile| profile == "release") && linked_by_llvm() {
        println!("cargo:rustc-link-arg-bins=-Wl,--icf=all");
    }
    let glibc = std::env::var("TARGET").is_ok_and(|target| target == "x86_64-unknown-linux-gnu");
    if glibc
        && std::env::var_os("REEDCLAW_PLAIN_ENTRY").is_none_or(|value| value.is_empty())
        && let Some(loader) = own_loader()
    {
        println!("cargo:rustc-cfg=own_entry");
        println!("cargo:rustc-env=REEDCLAW_LOADER={loader}");
        println!("cargo:rustc-link-arg-bins=-Wl,--entry=reedclaw_entry,--no-dynamic-linker");
    }
    let compiler = std::env::var_os("CXX").unwrap_or_else(|| "c++".into());
    for name in ARCHIVES {
        let Ok(said) = Command::new(&compiler).arg(format!("-print-file-name=lib{name}.a")).output() else { return };
        let path = PathBuf::from(String::from_utf8_lossy(&said.stdout).trim());
        // A compiler that hasn't got it gives the bare name back.
        if let (true, Some(directory)) = (path.is_file(), path.parent()) {
            println!("cargo:rustc-link-search=native={}", directory.display());
            println!("cargo:rustc-link-lib=static:-bundle={name}");
        }
    }
}

/// Whether the system's C library is glibc 2.36 or newer: the first whose loader reads `DT_RELR`.
fn loader_reads_packed_relocations() -> bool {
    let Ok(said) = Command::new("getconf").arg("GNU_LIBC_VERSION").output() else { return false };
    let said = String::from_utf8_lossy(&said.stdout);
    let Some((major, minor)) = said.trim().strip_prefix("glibc ").and_then(|version| version.split_once('.')) else {
        return false;
    };
    let number = |text: &str| text.parse::<u32>().unwrap_or(0);
    (number(major), number(minor.split('.').next().unwrap_or(""))) >= (2, 36)
}

/// Whether LLVM's linker has made this very program: it writes its name and version there.
fn linked_by_llvm() -> bool {
    const NAME: &[u8] = b"Linker: LLD ";
    let is_version = |bytes: &[u8]| bytes.strip_prefix(NAME).is_some_and(|rest| rest[0].is_ascii_digit());
    std::fs::read("/proc/self/exe").is_ok_and(|file| file.windows(NAME.len() + 1).any(is_version))
}

/// The loader that the linker has named in this very program: 64 bits, little-endian, as elf(5) says.
fn own_loader() -> Option<String> {
    /// `PT_INTERP` of elf.h.
    const INTERPRETER: u64 = 3;
    let file = std::fs::read("/proc/self/exe").ok()?;
    let number = |at: usize, bytes: usize| {
        let field = file.get(at..at + bytes)?;
        Some(field.iter().rev().fold(0_u64, |number, byte| number << 8 | u64::from(*byte)))
    };
    let place = |at: usize| usize::try_from(number(at, 8)?).ok();
    let (first, count) = (place(32)?, number(56, 2)?);
    let mut headers = (0..usize::try_from(count).ok()?).map(|index| first + 56 * index);
    let header = headers.find(|at| number(*at, 4) == Some(INTERPRETER))?;
    let path = file.get(place(header + 8)?..)?.split(|byte| *byte == 0).next()?;
    String::from_utf8(path.to_vec()).ok().filter(|path| path.starts_with('/') && !path.contains('\n'))
}
