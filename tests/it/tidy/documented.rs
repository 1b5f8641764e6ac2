//! What a user can set, type or pass is in the README: every setting of `config/default.lua`, every flag of `--help`,
//! every meta command of `:help`. A missing file or an empty list is a failure, not an excuse.

use std::fs;
use std::process::Command;

use super::root;
use crate::pty::{Session, Spawn};

fn readme() -> String {
    fs::read_to_string(root().join("README.md")).expect("README.md")
}

/// The names that don't stand in the README as code: between backticks, or in a block of code.
fn missing(names: &[String], readme: &str) -> Vec<String> {
    let spans: Vec<&str> =
        readme.split('`').enumerate().filter(|(index, _)| index % 2 == 1).map(|(_, span)| span).collect();
    let is_part = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-' | '.');
    let stands_in = |span: &str, name: &str| {
        span.match_indices(name).any(|(at, _)| {
            !span[..at].chars().next_back().is_some_and(is_part)
                && !span[at + name.len()..].chars().next().is_some_and(|c| is_part(c) && c != '.')
        })
    };
    // A block's fence has three backticks, so that what stands in it is an odd piece too.
    names.iter().filter(|name| !spans.iter().any(|span| stands_in(span, name))).cloned().collect()
}

/// The dotted names of the settings in a Lua table: `shell.program` for `shell = { program = … }`. What stands in an
/// entry of a list or below a computed key isn't a setting by name.
fn settings(lua: &str) -> Vec<String> {
    let code = lua_code(lua);
    let mut found = Vec::new();
    let mut path: Vec<Option<String>> = Vec::new();
    let mut word = String::new();
    let mut key: Option<String> = None;
    for c in code.chars().chain([' ']) {
        if c.is_alphanumeric() || c == '_' {
            word.push(c);
            continue;
        }
        let last = std::mem::take(&mut word);
        if !last.is_empty() && last.parse::<f64>().is_err() {
            key = Some(last);
        }
        match c {
            '=' => {
                // A setting only inside the returned table, and only where each table around it has a name.
                if let (Some(name), [_, around @ ..]) = (key.clone(), path.as_slice())
                    && let Some(around) = around.iter().cloned().collect::<Option<Vec<_>>>()
                {
                    found.push(around.into_iter().chain([name]).collect::<Vec<_>>().join("."));
                }
                // The name stays: it waits for a table, and the next comma takes it away.
            }
            '{' => path.push(key.take()),
            '}' => drop(path.pop()),
            ',' | ';' => key = None,
            _ => {}
        }
    }
    // A table that holds settings is documented by them.
    let all = found.clone();
    found.retain(|name| !all.iter().any(|other| other.starts_with(&format!("{name}."))));
    found
}

/// The Lua without comments and strings.
fn lua_code(lua: &str) -> String {
    let mut code = String::new();
    let mut rest = lua;
    while let Some(c) = rest.chars().next() {
        let skipped = if rest.starts_with("--[[") {
            rest.find("]]").map_or(rest.len(), |at| at + 2)
        } else if rest.starts_with("--") {
            rest.find('\n').unwrap_or(rest.len())
        } else if rest.starts_with("[[") {
            rest.find("]]").map_or(rest.len(), |at| at + 2)
        } else if c == '"' || c == '\'' {
            let mut escaped = false;
            let end = rest[1..].char_indices().find(|&(_, inner)| {
                let ends = inner == c && !escaped;
                escaped = inner == '\\' && !escaped;
                ends
            });
            end.map_or(rest.len(), |(at, _)| at + 2)
        } else {
            code.push(c);
            rest = &rest[c.len_utf8()..];
            continue;
        };
        code.push(' ');
        rest = &rest[skipped..];
    }
    code
}

/// The words of a text that begin with `start` and go on with a letter, each once.
fn words_with(text: &str, start: &str) -> Vec<String> {
    let mut found: Vec<String> = text
        .split(|c: char| {
            c.is_whitespace() || matches!(c, ',' | '[' | ']' | '(' | ')' | '=' | '<' | '>' | '|' | '`' | '│')
        })
        .filter(|word| word.strip_prefix(start).is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_alphabetic())))
        .map(|word| word.trim_end_matches(['.', ';', ':']).to_string())
        .collect();
    found.sort();
    found.dedup();
    found
}

#[test]
fn every_setting_is_in_the_readme() {
    let settings = settings(&fs::read_to_string(root().join("config/default.lua")).expect("config/default.lua"));
    assert!(settings.len() > 5, "only {settings:?}");
    assert_eq!(missing(&settings, &readme()), Vec::<String>::new(), "settings that the README doesn't name");
}

#[test]
fn every_flag_is_in_the_readme() {
    let output = Command::new(env!("CARGO_BIN_EXE_reedclaw")).arg("--help").output().expect("it runs");
    let flags = words_with(&String::from_utf8_lossy(&output.stdout), "--");
    assert!(flags.contains(&"--help".to_string()), "{flags:?}");
    assert_eq!(missing(&flags, &readme()), Vec::<String>::new(), "flags that the README doesn't name");
}

#[test]
fn every_meta_command_is_in_the_readme() {
    let session = Session::spawn(Spawn::reedclaw().size(60, 120));
    session.expect_prompt();
    session.line(":help");
    session.expect_text(":quit");
    session.expect_prompt();
    let commands = words_with(&session.screen_text(), ":");
    assert!(commands.len() > 5, "only {commands:?}");
    assert_eq!(missing(&commands, &readme()), Vec::<String>::new(), "meta commands that the README doesn't name");
}

#[test]
fn the_readers_of_documents_find_what_is_missing() {
    let lua = "-- shell = { not = 1 }\nreturn {\n default_model = 'a = { b = 1',\n shell = { program = nil, \
               known_commands = { 'a', 'b' } },\n models = { local_one = { endpoint = \"x\" } },\n --[[ no = 1 ]]\n}\n";
    assert_eq!(settings(lua), ["default_model", "shell.program", "shell.known_commands", "models.local_one.endpoint"]);
    assert_eq!(
        words_with("  -l, --login  be one\n  --config <PATH>, --config=x -- end", "--"),
        ["--config", "--login"]
    );
    assert_eq!(words_with(":quit, :q  leave: now :3", ":"), [":q", ":quit"]);
    let names = ["shell.program", "--config", ":q", "absent", "prog"].map(String::from);
    let readme = "Set `shell.program`, or\n```\nreedclaw --config PATH\n```\nand `:quit`. Plain absent.";
    assert_eq!(missing(&names, readme), [":q", "absent", "prog"]);
}
