//! The rules of the project, checked against the source files: floors and imports, headers, sizes, `unsafe`, banned words.

mod documented;
mod generated;
mod inside;
mod man;
mod scanners;
mod shape;
mod source;
mod stores;
mod words;

use std::fs;
use std::path::{Path, PathBuf};

use source::{Token, code_only, find_words, functions, imports, lines_beside_tests, tokens, unreasoned_unsafe};

/// Limit on a file's lines, not counting test modules.
const FILE_LINES_MAX: usize = 800;
/// Limit on a function's lines.
const FUNCTION_LINES_MAX: usize = 70;
/// Files that may be longer, each with its reason.
const LONG_FILES: &[(&str, &str)] = &[];
/// Functions that may be longer, as `path::name`, each with its reason.
const LONG_FUNCTIONS: &[(&str, &str)] = &[];
/// The only file that may contain `unsafe`.
const UNSAFE_FILE: &str = "src/shell/sys.rs";

/// A room, its floor, the rooms that it may import besides itself, and the reason.
struct Room {
    name: &'static str,
    floor: u8,
    may_import: &'static [&'static str],
    #[expect(dead_code, reason = "it is there for the reader")]
    why: &'static str,
}

const fn room(name: &'static str, floor: u8, may_import: &'static [&'static str], why: &'static str) -> Room {
    Room { name, floor, may_import, why }
}

/// All rooms. A new room gets its row here in the commit that makes it.
const ROOMS: &[Room] = &[
    room("base", 0, &[], "limits, ids and newtypes stand under everything"),
    room("bash", 1, &["base"], "pure: the grammar of a script; what its commands do is another room's"),
    room("proto", 1, &["base"], "the nouns are data: they can't know who exchanges them"),
    room("redact", 1, &["base"], "pure: a text and the known secrets in, the text without them out"),
    room("schema", 1, &["base"], "pure: a JSON Schema and a value in, the problems out"),
    room(
        "syntax",
        1,
        &["base"],
        "pure: a text and its language in, its parts out; whoever shows or searches it may ask",
    ),
    room("web", 1, &["base"], "files of a page: it knows no server"),
    room("canvas", 2, &["base", "schema"], "pure: a board and operations in, the next board out"),
    room("chain", 2, &["proto"], "pure: facts and a call in, the word of each gate out"),
    room("money", 2, &["base", "proto"], "pure: tokens, prices and sums in, a cost or a refusal out"),
    room("norris", 2, &["base", "proto"], "pure: events in, the next step out; models, disk and clock are a driver's"),
    room("policy", 2, &["base", "bash", "proto"], "pure: an action and the rules in, effects and a verdict out"),
    room("render", 2, &["base", "proto", "syntax"], "pure: text in, styled lines out"),
    room("route", 2, &["base", "proto"], "pure: a line and what is known about names in, a verdict out"),
    room("sop", 2, &["base", "schema"], "pure: a file and events in, the next step of a procedure out"),
    room("tokens", 2, &["base", "proto"], "pure: a text and a vocabulary in, a number out"),
    room(
        "turn",
        2,
        &["base", "proto", "redact", "syntax"],
        "pure: the agent as a state machine has never heard of HTTP or SQLite",
    ),
    room("files", 3, &["base"], "files as bytes and paths; which of them may be touched is another room's question"),
    room("host", 3, &["base"], "the door out has no nouns of ours: bytes, paths and time"),
    room("log", 3, &["base"], "what happened, whoever says so"),
    room("lua", 3, &["base"], "it bounds a script, and knows neither settings nor tools"),
    room("rpc", 3, &[], "messages in lines; their methods are another room's"),
    room("config", 4, &["base", "proto", "files", "lua"], "settings are read through the door; nobody else reads them"),
    room("estop", 4, &["base", "proto", "host"], "a file that stops tools knows no tool"),
    room("git", 4, &["files"], "a repository's objects know no session"),
    room(
        "ledger",
        4,
        &["base", "proto", "canvas", "chain", "host"],
        "the team's stores keep nouns; HTTP, agents and tools are other rooms'",
    ),
    room(
        "manual",
        4,
        &["base", "proto", "files"],
        "it finds lines and runs none; the history and the jail for --help are handed to it",
    ),
    room(
        "mcp",
        4,
        &["base", "proto", "files", "host"],
        "it speaks with servers and knows neither what is allowed nor who asks",
    ),
    room("model", 4, &["base", "proto", "tokens", "host"], "a provider sees messages, not the shell or the store"),
    room(
        "project",
        4,
        &["base", "files", "syntax"],
        "it reads a stranger's repository and knows nobody whom it could tell",
    ),
    room(
        "receipts",
        4,
        &["base", "proto", "files", "host"],
        "the record of what was let run knows no rule and no tool",
    ),
    room("sandbox", 4, &["base", "proto", "files"], "it holds a program without knowing which, or why"),
    room(
        "share",
        4,
        &["base", "proto", "redact", "host"],
        "it shows a session to others and knows neither who they are nor what a key is",
    ),
    room("shell", 4, &["base", "proto", "host"], "the backing shell sees no model and no history"),
    room(
        "skills",
        4,
        &["base", "files"],
        "it reads texts; whether they may speak to a model is another room's question",
    ),
    room("steps", 4, &["base", "proto", "files", "host"], "it takes back what was changed, whoever changed it"),
    room("store", 4, &["base", "proto"], "the store keeps nouns, whoever made them"),
    room(
        "gate",
        5,
        &["base", "proto", "policy", "files", "host", "receipts"],
        "it judges and writes down; it asks nobody",
    ),
    room("tree", 5, &["base", "files", "git"], "files that lie in git's objects; whoever changes them may ask"),
    room(
        "sessions",
        6,
        &["base", "proto", "render", "files", "host", "git", "tree"],
        "turns become commits; who asks and answers is another room's",
    ),
    room(
        "tools",
        6,
        &[
            "base", "proto", "redact", "schema", "render", "turn", "files", "host", "lua", "mcp", "project", "sandbox",
            "shell", "gate",
        ],
        "a tool sees a permit and its place, not the session or the model",
    ),
    room(
        "agent",
        7,
        &[
            "base", "proto", "bash", "redact", "money", "norris", "sop", "turn", "files", "model", "sandbox", "steps",
            "store", "gate", "tree", "tools",
        ],
        "it performs what turn asks for, and never prints",
    ),
    room(
        "app",
        8,
        &[
            "git", "tree", "sessions", "base", "proto", "syntax", "money", "norris", "policy", "sop", "turn", "files",
            "host", "log", "config", "estop", "manual", "mcp", "model", "project", "receipts", "sandbox", "share",
            "shell", "skills", "steps", "store", "gate", "tools", "agent",
        ],
        "the composition root: settings become options here and nowhere else",
    ),
    room("console", 9, &["base", "proto", "render"], "the only writer draws what it is given and starts nothing"),
    room(
        "ops",
        9,
        &[
            "base", "proto", "policy", "render", "route", "turn", "host", "config", "estop", "git", "project",
            "receipts", "skills", "steps", "store", "gate", "sessions", "agent", "app",
        ],
        "what a user can ask for, as data; a face says it in its own words",
    ),
    room(
        "acp",
        10,
        &["base", "proto", "norris", "render", "host", "rpc", "shell", "steps", "store", "gate", "agent", "app", "ops"],
        "an editor's face: it asks and shows, and neither answers nor runs anything itself",
    ),
    room(
        "ask",
        10,
        &["base", "proto", "render", "host", "config", "share", "shell", "agent", "console"],
        "it asks a person and reads the keys; what becomes of the answer is another room's question",
    ),
    room(
        "gateway",
        10,
        &[
            "base", "proto", "redact", "web", "canvas", "chain", "render", "schema", "turn", "host", "log", "config",
            "ledger", "receipts", "share", "shell", "store", "gate", "tools", "agent", "app", "ops",
        ],
        "HTTP in front of the same agent, gate and receipts; it knows neither the terminal nor the line editor",
    ),
    room(
        "serve",
        10,
        &[
            "base", "proto", "schema", "render", "files", "host", "rpc", "config", "receipts", "steps", "store",
            "tools", "agent", "app", "ops",
        ],
        "another agent's face: it hands calls to the gate, and a person in a session answers what the gate asks",
    ),
    room(
        "repl",
        11,
        &[
            "git", "sessions", "base", "bash", "proto", "redact", "norris", "render", "route", "turn", "host",
            "config", "estop", "manual", "project", "share", "shell", "steps", "store", "gate", "agent", "app",
            "console", "ops", "ask", "serve",
        ],
        "the prompt brings the rooms together; it asks no provider itself",
    ),
    room(
        "cli",
        12,
        &[
            "base", "proto", "schema", "norris", "policy", "render", "route", "sop", "turn", "files", "host", "log",
            "config", "git", "ledger", "model", "project", "receipts", "sandbox", "share", "shell", "steps", "store",
            "gate", "sessions", "tools", "agent", "app", "console", "ops", "acp", "ask", "gateway", "serve", "repl",
        ],
        "the top: everything below it",
    ),
];

/// The rooms that the executable may name: it looks at argv and enters a room at once.
const EXECUTABLE_MAY_NAME: &[&str] = &["cli", "shell"];

/// A file of the project.
struct SourceFile {
    /// Its path from the root of the project, with `/`.
    path: String,
    text: String,
    code: String,
    tokens: Vec<Token>,
}

impl SourceFile {
    fn read(path: &Path) -> Self {
        let text = fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        let code = code_only(&text);
        let tokens = tokens(&code);
        let path = path.strip_prefix(root()).expect("a file of the project").to_str().expect("a path in UTF-8");
        Self { path: path.to_string(), text, code, tokens }
    }

    /// The path of its module below the root of the crate; `None` for the roots themselves.
    fn module(&self) -> Option<Vec<&str>> {
        let path = self.path.strip_prefix("src/")?.strip_suffix(".rs")?;
        let path = path.strip_suffix("/mod").unwrap_or(path);
        (!matches!(path, "lib" | "main")).then(|| path.split('/').collect())
    }

    fn is_tests(&self) -> bool {
        let is_module = self.path.ends_with("/tests.rs") || self.path.ends_with("_tests.rs");
        is_module || self.path.contains("/tests/") || self.path.starts_with("tests/")
    }
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Every Rust file below a folder of the project, in order.
fn files(folder: &str) -> Vec<SourceFile> {
    let mut paths = Vec::new();
    collect(&root().join(folder), &mut paths);
    let mut files: Vec<SourceFile> = paths
        .iter()
        .filter(|path| path.extension().is_some_and(|end| end == "rs"))
        .map(|path| SourceFile::read(path))
        .collect();
    files.sort_by(|left, right| left.path.cmp(&right.path));
    assert!(!files.is_empty(), "no source under {folder}");
    files
}

fn collect(folder: &Path, paths: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display())) {
        let path = entry.expect("an entry").path();
        if path.is_dir() { collect(&path, paths) } else { paths.push(path) }
    }
}

#[track_caller]
fn hold(rule: &str, problems: &[String]) {
    assert!(problems.is_empty(), "{rule}:\n  {}", problems.join("\n  "));
}

#[test]
fn the_table_of_rooms_goes_down_only() {
    let floor = |name: &str| ROOMS.iter().find(|room| room.name == name).map(|room| room.floor);
    for room in ROOMS {
        for below in room.may_import {
            let below_floor =
                floor(below).unwrap_or_else(|| panic!("{below}, which {} may import, isn't a room", room.name));
            assert!(below_floor < room.floor, "{} on floor {} may not import {below}", room.name, room.floor);
        }
    }
}

#[test]
fn the_table_of_rooms_is_the_library() {
    let library = SourceFile::read(&root().join("src/lib.rs"));
    let mods = find_words(&library.tokens, &["mod"]);
    let mods: Vec<&str> = mods.iter().map(|at| library.tokens[at + 1].text.as_str()).collect();
    let rooms: Vec<&str> = ROOMS.iter().map(|room| room.name).collect();
    assert_eq!(mods, rooms, "the rooms in src/lib.rs and the table of tests/it/tidy, each in the order of floors");
}

#[test]
fn imports_go_down_only() {
    let mut problems = Vec::new();
    for file in files("src") {
        problems.extend(import_problems(&file));
    }
    hold("imports go down only, and rooms of one floor don't see each other", &problems);
}

fn import_problems(file: &SourceFile) -> Vec<String> {
    let (room, named) = match file.module() {
        Some(module) => {
            let Some(room) = ROOMS.iter().find(|room| room.name == module[0]) else {
                return vec![format!("{}: {} isn't in the table of rooms", file.path, module[0])];
            };
            let allowed: Vec<&str> = room.may_import.iter().copied().chain([room.name]).collect();
            (allowed, imports(&file.tokens, &module, "crate"))
        }
        None if file.path == "src/main.rs" => {
            let mut named = imports(&file.tokens, &[], "reedclaw");
            named.extend(imports(&file.tokens, &[], "crate"));
            (EXECUTABLE_MAY_NAME.to_vec(), named)
        }
        None => (Vec::new(), imports(&file.tokens, &[], "crate")),
    };
    named
        .iter()
        .filter(|import| !room.contains(&import.room.as_str()))
        .map(|import| format!("{}:{} names {}", file.path, import.line, import.room))
        .collect()
}

#[test]
fn each_file_says_what_it_owns() {
    let mut problems = Vec::new();
    for file in files("src").iter().chain(&files("tests")) {
        if !file.text.starts_with("//! ") {
            problems.push(file.path.clone());
        }
    }
    hold("a file opens with `//!`: what it owns, what it must not know", &problems);
}

#[test]
fn files_and_functions_are_short() {
    let mut problems = Vec::new();
    let mut used = Vec::new();
    for file in files("src").iter().filter(|file| !file.is_tests()) {
        let lines = lines_beside_tests(&file.text, &file.tokens);
        if lines > FILE_LINES_MAX {
            match LONG_FILES.iter().find(|(path, _)| *path == file.path) {
                Some((path, _)) => used.push(*path),
                None => problems.push(format!("{}: {lines} lines, {FILE_LINES_MAX} at most", file.path)),
            }
        }
        for function in functions(&file.tokens).iter().filter(|function| function.lines > FUNCTION_LINES_MAX) {
            let name = format!("{}::{}", file.path, function.name);
            match LONG_FUNCTIONS.iter().find(|(known, _)| *known == name) {
                Some((known, _)) => used.push(*known),
                None => problems.push(format!(
                    "{}:{} {} has {} lines, {FUNCTION_LINES_MAX} at most",
                    file.path, function.line, function.name, function.lines
                )),
            }
        }
    }
    let unused = LONG_FILES.iter().chain(LONG_FUNCTIONS).filter(|(name, _)| !used.contains(name));
    problems.extend(unused.map(|(name, _)| format!("{name} no longer needs its exception")));
    hold("what doesn't fit in a head is cut", &problems);
}

#[test]
fn unsafe_is_in_one_file_and_gives_its_reason() {
    let mut problems = Vec::new();
    for file in files("src").iter().chain(&files("tests")) {
        if file.path == UNSAFE_FILE {
            let unreasoned = unreasoned_unsafe(&file.text, &file.tokens);
            problems.extend(unreasoned.iter().map(|line| format!("{}:{line} has no SAFETY comment", file.path)));
        } else {
            let lines = find_words(&file.tokens, &["unsafe"]);
            problems.extend(lines.iter().map(|&at| format!("{}:{}", file.path, file.tokens[at].line)));
        }
    }
    hold(&format!("unsafe only in {UNSAFE_FILE}, each with its reason"), &problems);
}

#[test]
fn banned_words_are_absent() {
    let mut problems = Vec::new();
    for file in files("src").iter().chain(&files("tests")) {
        problems.extend(banned(&file.text, &file.tokens).iter().map(|problem| format!("{}:{problem}", file.path)));
    }
    hold("unfinished, ignored or slept over", &problems);
}

/// Unfinished work in code or comments, tests that don't run, and sleep as a way to wait: `line word`.
fn banned(text: &str, tokens: &[Token]) -> Vec<String> {
    let mut found = Vec::new();
    for words in [
        ["todo", "!"].as_slice(),
        &["dbg", "!"],
        &["unimplemented", "!"],
        &["#", "[", "ignore"],
        &["thread", "::", "sleep"],
        &["thread", "::", "{", "sleep"],
    ] {
        found.extend(find_words(tokens, words).iter().map(|&at| format!("{} {}", tokens[at].line, words.concat())));
    }
    // In two pieces, because otherwise this file would contain the word itself.
    let unfinished = concat!("FIX", "ME");
    let lines = text.lines().enumerate().filter(|(_, line)| line.contains(unfinished));
    found.extend(lines.map(|(index, _)| format!("{} {unfinished}", index + 1)));
    found
}

#[test]
fn no_path_of_a_developers_machine() {
    let mut paths: Vec<PathBuf> = ["Cargo.toml", "ARCHITECTURE.md", ".ci/run"].map(|file| root().join(file)).into();
    for folder in ["src", "tests"] {
        collect(&root().join(folder), &mut paths);
    }
    for optional in ["config", "examples", "benches", "README.md"].map(|name| root().join(name)) {
        if optional.is_dir() {
            collect(&optional, &mut paths);
        } else if optional.is_file() {
            paths.push(optional);
        }
    }
    let mut own = vec![env!("CARGO_MANIFEST_DIR").to_string()];
    if let Some(home) = std::env::var_os("HOME").filter(|home| home.len() > 1) {
        own.push(format!("{}/.", home.display()));
    }
    let mut problems = Vec::new();
    for path in paths {
        let text = fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        let text = String::from_utf8_lossy(&text);
        problems.extend(
            own.iter().filter(|own| text.contains(own.as_str())).map(|own| format!("{} has {own}", path.display())),
        );
    }
    hold("no path of the machine that the project is made on", &problems);
}
