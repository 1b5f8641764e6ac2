//! What a user can set, type or pass is in the README, word for word as the program's own tables have it, and nothing else is:
//! settings with their defaults, flags and subcommands, meta commands, keys. ARCHITECTURE.md has the table of rooms and every
//! dependency. A missing section is a failure, not an excuse.

use std::fs;

use clap::{Arg, Command};
use mlua::{Lua, Table, Value};
use reedclaw::cli::command::definition;
use reedclaw::config::{DEFAULT_LUA, ROWS};
use reedclaw::repl::keys::KEYS;
use reedclaw::repl::meta::METAS;
use reedclaw::turn::schema::KEYWORDS;

use super::{ROOMS, root};

/// Settings whose default is too long for a cell, or depends on the machine; the README says where it is.
const DEFAULTS_ELSEWHERE: &[(&str, &str)] = &[
    ("system_prompt", "in `config/prompts/system.txt`"),
    ("history.dir", "`~/.local/share/reedclaw`"),
    ("tools.http_ports", "`{ 80, 443 }`"),
];

fn readme() -> String {
    fs::read_to_string(root().join("README.md")).expect("README.md")
}

/// The text of a section, without its heading.
fn section<'a>(readme: &'a str, heading: &str) -> &'a str {
    let (_, rest) = readme.split_once(&format!("\n## {heading}\n")).unwrap_or_else(|| panic!("no section {heading}"));
    rest.split_once("\n## ").map_or(rest, |(body, _)| body)
}

/// The rows of a section's first table, below its head, cell by cell.
fn table(section: &str) -> Vec<Vec<String>> {
    let rows = section.lines().skip_while(|line| !line.starts_with('|')).take_while(|line| line.starts_with('|'));
    rows.skip(2)
        .map(|line| {
            line.trim_start_matches('|')
                .trim_end()
                .trim_end_matches('|')
                .split('|')
                .map(|cell| cell.trim().to_owned())
                .collect()
        })
        .collect()
}

/// The lines of a section's first block of code.
fn code_block(section: &str) -> Vec<&str> {
    section.lines().skip_while(|line| !line.starts_with("```")).skip(1).take_while(|line| *line != "```").collect()
}

/// Whether a name stands in the text between backticks, as a whole word.
fn stands_as_code(name: &str, readme: &str) -> bool {
    let is_part = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-');
    // A block's fence has three backticks, so that what stands in it is an odd piece too.
    readme.split('`').skip(1).step_by(2).any(|span| {
        span.match_indices(name).any(|(at, _)| {
            !span[..at].chars().next_back().is_some_and(is_part)
                && !span[at + name.len()..].chars().next().is_some_and(is_part)
        })
    })
}

/// The value that `config/default.lua` gives a setting, as the README writes it; none where it gives none.
fn default_of(defaults: &Table, path: &str) -> Option<String> {
    let (parents, key) = path.rsplit_once('.').unwrap_or(("", path));
    let mut at = defaults.clone();
    for part in parents.split('.').filter(|part| !part.is_empty()) {
        at = at.get::<Option<Table>>(part).expect("a table")?;
    }
    let text = match at.get::<Value>(key).expect("a value") {
        Value::Nil => return None,
        Value::String(text) => format!("\"{}\"", text.to_string_lossy()),
        Value::Table(table) => {
            assert_eq!(
                table.raw_len(),
                table.pairs::<Value, Value>().count(),
                "{path}: write down how the README shows it"
            );
            let words = table.sequence_values::<String>().map(|word| format!("\"{}\"", word.expect("a word")));
            let words: Vec<String> = words.collect();
            if words.is_empty() { "{}".to_owned() } else { format!("{{ {} }}", words.join(", ")) }
        }
        other => other.to_string().expect("a plain value"),
    };
    Some(format!("`{text}`"))
}

#[test]
fn every_setting_is_in_the_readme() {
    let lua = Lua::new();
    let defaults: Table =
        lua.load(format!("os = {{ getenv = function() end }}\n{DEFAULT_LUA}")).eval().expect("the defaults load");
    let readme = readme();
    let rows = table(section(&readme, "Config"));
    let told: Vec<(&str, &str)> = rows.iter().map(|row| (row[0].as_str(), row[2].as_str())).collect();
    let names: Vec<String> = ROWS.iter().map(|row| format!("`{}`", row.path)).collect();
    let settings: Vec<(&str, &str)> = names.iter().map(String::as_str).zip(ROWS.iter().map(|row| row.doc)).collect();
    assert_eq!(told, settings, "the table of settings and the program's");
    for (row, setting) in rows.iter().zip(ROWS) {
        let elsewhere = DEFAULTS_ELSEWHERE.iter().find(|(path, _)| *path == setting.path);
        if let Some((_, words)) = elsewhere {
            assert_eq!(row[1], *words, "{}", setting.path);
            continue;
        }
        match default_of(&defaults, setting.path) {
            Some(default) => assert_eq!(row[1], default, "{}", setting.path),
            None => assert!(!row[1].is_empty(), "{}: what holds without it?", setting.path),
        }
    }
}

#[test]
fn every_flag_and_subcommand_is_in_the_readme() {
    let readme = readme();
    let told = section(&readme, "Command line");
    let mut missing = Vec::new();
    let mut need = |words: &str, about: &str| {
        let row = told.lines().any(|line| stands_as_code(words, line) && line.contains(about));
        if !row {
            missing.push(format!("{words}: {about}"));
        }
    };
    each_command(&definition(), "", &mut |path, command| {
        if command.get_subcommands().next().is_none() {
            need(path, &command.get_about().map(ToString::to_string).unwrap_or_default());
        }
        for argument in command.get_arguments().filter(|argument| !argument.is_positional()) {
            let help = argument.get_help().map(ToString::to_string).unwrap_or_default();
            spellings(argument).iter().for_each(|flag| need(flag, &help));
        }
    });
    assert_eq!(missing, Vec::<String>::new(), "flags and subcommands that the README doesn't tell as --help does");
}

/// Every command below `command`, with its words.
fn each_command(command: &Command, path: &str, take: &mut dyn FnMut(&str, &Command)) {
    let mut built = command.clone();
    built.build();
    let path = format!("{path} {}", built.get_name()).trim().to_owned();
    take(&path, &built);
    built.get_subcommands().for_each(|inner| each_command(inner, &path, take));
}

fn spellings(argument: &Arg) -> Vec<String> {
    let long = argument.get_long().map(|long| format!("--{long}"));
    let short = argument.get_short().map(|short| format!("-{short}"));
    long.into_iter().chain(short).collect()
}

#[test]
fn every_keyword_of_a_schema_is_in_the_readme() {
    let readme = readme();
    let told = section(&readme, "Without a terminal");
    let missing: Vec<&str> = KEYWORDS.into_iter().filter(|keyword| !told.contains(&format!("`{keyword}`"))).collect();
    assert_eq!(missing, [""; 0]);
}

#[test]
fn every_meta_command_is_in_the_readme() {
    let usage = |names: &[&str], usage: &str| {
        let names: Vec<String> = names.iter().map(|name| format!(":{name}")).collect();
        format!("`{}`", format!("{} {usage}", names.join(" ")).trim())
    };
    let metas: Vec<Vec<String>> =
        METAS.iter().map(|meta| vec![usage(meta.names, meta.usage), meta.help.to_owned()]).collect();
    assert_eq!(table(section(&readme(), "Meta commands")), metas);
}

#[test]
fn every_key_is_in_the_readme() {
    let keys: Vec<Vec<String>> = KEYS.iter().map(|key| vec![format!("`{}`", key.name), key.help.to_owned()]).collect();
    assert_eq!(table(section(&readme(), "Keys")), keys);
}

#[test]
fn a_fresh_machine_needs_two_commands() {
    assert_eq!(code_block(section(&readme(), "Run it")), ["cargo run --release", "cargo test"]);
    // The picture is there, too.
    let readme = readme();
    let picture = readme.split_once("](").and_then(|(_, rest)| rest.split_once(')')).expect("a picture").0;
    assert!(root().join(picture).is_file(), "{picture}");
}

#[test]
fn the_minimum_rust_is_the_manifests() {
    let manifest = fs::read_to_string(root().join("Cargo.toml")).expect("Cargo.toml");
    let version = manifest.lines().find_map(|line| line.strip_prefix("rust-version = ")).expect("a rust-version");
    let told = section(&readme(), "Run it").contains(&format!("({} or newer)", version.trim_matches('"')));
    assert!(told, "the README names another Rust than {version}");
}

fn architecture() -> String {
    fs::read_to_string(root().join("ARCHITECTURE.md")).expect("ARCHITECTURE.md")
}

/// The words between backticks.
fn code_words(cell: &str) -> Vec<&str> {
    cell.split('`').skip(1).step_by(2).flat_map(str::split_whitespace).collect()
}

#[test]
fn the_architecture_has_the_table_of_rooms() {
    let text = architecture();
    let rows = table(section(&text, "Rooms, by floor"));
    let told: Vec<(String, Vec<&str>)> = rows.iter().map(|row| (row[0].clone(), code_words(&row[1]))).collect();
    let rooms: Vec<(String, Vec<&str>)> = ROOMS.iter().map(|room| (room.floor.to_string(), vec![room.name])).collect();
    assert_eq!(told, rooms);
    for (row, room) in rows.iter().zip(ROOMS) {
        let mut allowed: Vec<&str> =
            room.may_import.iter().copied().filter(|name| !matches!(*name, "base" | "proto")).collect();
        let mut told = code_words(&row[4]);
        if row[4] == "everything below" {
            let below = ROOMS.iter().filter(|other| other.floor < room.floor).map(|other| other.name);
            told = below.filter(|name| !matches!(*name, "base" | "proto")).collect();
        }
        allowed.sort_unstable();
        told.sort_unstable();
        assert_eq!(told, allowed, "{}", room.name);
    }
}

#[test]
fn the_architecture_says_what_each_dependency_is_for() {
    let manifest = fs::read_to_string(root().join("Cargo.toml")).expect("Cargo.toml");
    let text = architecture();
    let rows = table(section(&text, "Dependencies"));
    let mut told: Vec<&str> = rows.iter().flat_map(|row| code_words(&row[0])).collect();
    let mut needed: Vec<&str> = Vec::new();
    for part in manifest.split("\n[").filter(|part| part.starts_with("dependencies]") || part.starts_with("dev-dep")) {
        needed.extend(part.lines().skip(1).filter_map(|line| line.split_once(" =")).map(|(name, _)| name));
    }
    told.sort_unstable();
    needed.sort_unstable();
    assert!(needed.len() > 10, "{needed:?}");
    assert_eq!(told, needed);
}

#[test]
fn the_readers_of_documents_find_what_is_missing() {
    let text = "# T\n\n## One\n\nx\n\n```sh\nfirst\nsecond\n```\n\n| a | b |\n|---|---|\n| `k` | v, w |\n| `:q N` | |\n\n\
                | c |\n|---|\n| other |\n\n## Two\n| h |\n|---|\n| `z` |\n";
    assert_eq!(table(section(text, "One")), [["`k`", "v, w"], ["`:q N`", ""]]);
    assert_eq!(table(section(text, "Two")), [["`z`"]]);
    assert_eq!(code_block(section(text, "One")), ["first", "second"]);
    assert!(stands_as_code("--config", "| `-c`, `--config PATH` |"));
    assert!(!stands_as_code("--conf", "| `--config PATH` |"));
    assert!(!stands_as_code("plain", "a plain word and `code`"));
    let lua = Lua::new();
    let defaults: Table = lua.load("return { a = { b = 1, c = 'x', d = {}, e = true } }").eval().expect("a table");
    let seen = ["a.b", "a.c", "a.d", "a.e", "a.z", "q.r"].map(|path| default_of(&defaults, path));
    assert_eq!(
        seen,
        [Some("`1`"), Some("`\"x\"`"), Some("`{}`"), Some("`true`"), None, None].map(|it| it.map(String::from))
    );
}
