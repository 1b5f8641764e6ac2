//! Compiles each grammar without its large tables, and writes the tables, compressed, to a file beside it.
//!
//! The sources that tree-sitter generates contain three large tables as C text. The same grammars are linked into this program,
//! so it reads the tables from its own memory, and replaces their text by uninitialised space.

#![allow(
    clippy::disallowed_methods,
    reason = "a build script asks cargo by the environment and a process, and reads and writes files"
)]

use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs, io::Write, slice, thread};

use tree_sitter_language::LanguageFn;

/// A grammar: its name, its crate, the directory of its sources there, its language.
struct Grammar(&'static str, &'static str, &'static str, LanguageFn);

const GRAMMARS: [Grammar; 11] = [
    Grammar("bash", "tree-sitter-bash", "src", tree_sitter_bash::LANGUAGE),
    Grammar("c", "tree-sitter-c", "src", tree_sitter_c::LANGUAGE),
    Grammar("cpp", "tree-sitter-cpp", "src", tree_sitter_cpp::LANGUAGE),
    Grammar("go", "tree-sitter-go", "src", tree_sitter_go::LANGUAGE),
    Grammar("java", "tree-sitter-java", "src", tree_sitter_java::LANGUAGE),
    Grammar("javascript", "tree-sitter-javascript", "src", tree_sitter_javascript::LANGUAGE),
    Grammar("lua", "tree-sitter-lua", "src", tree_sitter_lua::LANGUAGE),
    Grammar("python", "tree-sitter-python", "src", tree_sitter_python::LANGUAGE),
    Grammar("rust", "tree-sitter-rust", "src", tree_sitter_rust::LANGUAGE),
    Grammar("tsx", "tree-sitter-typescript", "tsx/src", tree_sitter_typescript::LANGUAGE_TSX),
    Grammar("typescript", "tree-sitter-typescript", "typescript/src", tree_sitter_typescript::LANGUAGE_TYPESCRIPT),
];

/// The beginnings of the tables' definitions; each definition ends with a line `};`. In this order the tables need no padding.
const ACTIONS: &str = "static const TSParseActionEntry ts_parse_actions[] = {\n";
const DENSE: &str = "static const uint16_t ts_parse_table[LARGE_STATE_COUNT][SYMBOL_COUNT] = {\n";
const SMALL: &str = "static const uint16_t ts_small_parse_table[] = {\n";

/// The beginning of `TSLanguage` in tree-sitter's `parser.h`, for the versions below.
#[repr(C)]
struct Language {
    version: u32,
    symbols: u32,
    aliases: u32,
    tokens: u32,
    external_tokens: u32,
    states: u32,
    large_states: u32,
    productions: u32,
    fields: u32,
    alias_sequence: u16,
    dense: *const u16,
    small: *const u16,
    small_map: *const u32,
    actions: *const [u8; ACTION_BYTES],
}

const VERSIONS: std::ops::RangeInclusive<u32> = 14..=15;
/// The size of a `TSParseActionEntry`.
const ACTION_BYTES: usize = 8;

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    let packages = packages();
    thread::scope(|scope| {
        for grammar in &GRAMMARS {
            scope.spawn(|| grammar.build(&packages));
        }
    });
}

impl Grammar {
    fn build(&self, packages: &str) {
        let Self(name, package, directory, language) = self;
        let sources = source_of(packages, package).join(directory);
        let directory = Path::new(&env::var("OUT_DIR").expect("OUT_DIR")).join(name);
        fs::create_dir_all(&directory).expect("a directory for the grammar");
        let (actions, small, tables) = tables(*language);
        let text = fs::read_to_string(sources.join("parser.c")).expect("parser.c");
        let code = without_tables(&text, name, actions, small);
        fs::write(directory.join("parser.c"), code).expect("parser.c without tables");
        fs::write(directory.join("tables"), packed(&tables)).expect("the tables");
        let mut compiler = cc::Build::new();
        compiler.std("c11").warnings(false).include(&sources).file(directory.join("parser.c"));
        let scanner = sources.join("scanner.c");
        if scanner.is_file() {
            compiler.file(scanner);
        }
        compiler.compile(&format!("reedclaw-{name}"));
    }
}

/// The packages of this build with the paths of their sources, as JSON. Cargo lists those of tests, too, and downloads those that
/// a build alone has not needed yet; nothing is downloaded if all are present.
fn packages() -> String {
    let variable = |name: &str| env::var(name).unwrap_or_else(|_| panic!("cargo sets {name}"));
    let metadata = |more: &[&str]| {
        let mut cargo = Command::new(variable("CARGO"));
        cargo.args(["metadata", "--format-version=1", "--locked", "--filter-platform", &variable("HOST")]).args(more);
        cargo.current_dir(variable("CARGO_MANIFEST_DIR")).output().expect("cargo metadata")
    };
    let mut output = metadata(&["--offline"]);
    if !output.status.success() {
        output = metadata(&[]);
    }
    assert!(output.status.success(), "cargo metadata: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("cargo writes UTF-8")
}

/// The directory of a package's sources.
fn source_of(packages: &str, name: &str) -> PathBuf {
    const PATH: &str = "\"manifest_path\":\"";
    let at = packages.find(&format!("{{\"name\":\"{name}\",\"version\":")).expect("a package of this build");
    let path =
        packages[at..].split_once(PATH).and_then(|(_, rest)| rest.split('"').next()).expect("the package's path");
    Path::new(&path.replace("\\\\", "\\")).parent().expect("a directory").to_owned()
}

/// A grammar's code with space in place of its tables.
fn without_tables(text: &str, name: &str, actions: usize, small: usize) -> String {
    let room = format!(
        "struct {{\n  TSParseActionEntry actions[{actions}];\n  uint16_t dense[LARGE_STATE_COUNT][SYMBOL_COUNT];\n  \
         uint16_t small[{small}];\n}} reedclaw_{name}_tables;\n\
         #define ts_parse_actions reedclaw_{name}_tables.actions\n\
         #define ts_parse_table reedclaw_{name}_tables.dense\n\
         #define ts_small_parse_table reedclaw_{name}_tables.small\n"
    );
    let text = replaced(text, DENSE, &room);
    let text = replaced(&text, SMALL, "");
    replaced(&text, ACTIONS, "")
}

/// A source with one definition replaced.
fn replaced(text: &str, definition: &str, by: &str) -> String {
    let (before, rest) = text.split_once(definition).expect("a table as tree-sitter writes it");
    let (_, after) = rest.split_once("\n};\n").expect("the table's end");
    [before, by, "\n", after].concat()
}

/// The number of actions and of elements in the small table, and the bytes of all tables, in this processor's byte order.
fn tables(language: LanguageFn) -> (usize, usize, Vec<u8>) {
    // SAFETY: a grammar's function returns its `TSLanguage`, and the version says that it begins as `Language` does.
    let language = unsafe { &*language.into_raw()().cast::<Language>() };
    assert!(VERSIONS.contains(&language.version), "a version of tree-sitter's tables that is known");
    let (symbols, large, states) =
        (language.symbols as usize, language.large_states as usize, language.states as usize);
    let is_token = |symbol: usize| symbol < language.tokens as usize;
    // SAFETY: the table has a row for each large state, and in it an element for each symbol.
    let dense = unsafe { slice::from_raw_parts(language.dense, large * symbols) };
    let tokens = dense.iter().enumerate().filter(|(at, _)| is_token(at % symbols));
    let mut last_action = tokens.map(|(_, action)| usize::from(*action)).max().unwrap_or(0);
    // SAFETY: the loop below stays within the lengths that the table itself has.
    let element = |at: usize| usize::from(unsafe { *language.small.add(at) });
    let mut small_end = 0;
    for state in 0..states - large {
        // SAFETY: the map has an element for each state that isn't large.
        let mut at = unsafe { *language.small_map.add(state) } as usize;
        let groups = element(at);
        at += 1;
        for _ in 0..groups {
            let (action, count) = (element(at), element(at + 1));
            let mut members = (at + 2..at + 2 + count).map(element);
            if members.any(is_token) {
                last_action = last_action.max(action);
            }
            at += 2 + count;
        }
        small_end = small_end.max(at);
    }
    // SAFETY: an entry of the table begins with the number of entries that follow it and belong to it.
    let following = unsafe { (*language.actions.add(last_action))[0] };
    let action_count = last_action + 1 + usize::from(following);
    // SAFETY: both ends were found above.
    let (actions, small) = unsafe {
        (slice::from_raw_parts(language.actions, action_count), slice::from_raw_parts(language.small, small_end))
    };
    let halves = |numbers: &[u16]| numbers.iter().flat_map(|number| number.to_ne_bytes()).collect::<Vec<_>>();
    (action_count, small_end, [actions.concat(), halves(dense), halves(small)].concat())
}

/// Tables as they are stored in the executable: their size, and the compressed bytes.
fn packed(tables: &[u8]) -> Vec<u8> {
    let mut packed = (tables.len() as u64).to_le_bytes().to_vec();
    let mut writer = flate2::write::DeflateEncoder::new(&mut packed, flate2::Compression::best());
    writer.write_all(tables).and_then(|()| writer.try_finish()).expect("compressed tables");
    drop(writer);
    packed
}
