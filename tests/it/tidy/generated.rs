//! The parts of the documents that are generated from the program's own tables: settings, hooks, subcommands, keys, meta
//! commands, tools. Such a part is between two comments, so that the text around it can be written by hand:
//!
//! ```text
//! <!-- BEGIN generated: keys -->
//! <!-- END generated -->
//! ```
//!
//! A test fails if a part is stale. `REEDCLAW_WRITE_DOCS=1 cargo test --test it generated` writes all of them again.

use std::fmt::Write as _;
use std::fs;
use std::process;

use clap::error::{ContextKind, ContextValue};
use clap::{Arg, ArgAction, Command};
use reedclaw::cli::command::definition;
use reedclaw::cli::exit;
use reedclaw::config;
use reedclaw::ops::commands::{Group, of_shell};
use reedclaw::repl::keys::KEYS;
use reedclaw::schema::KEYWORDS;
use serde_json::Value;

use super::{ROOMS, hold, man, root};

/// A document, the name of a generated part in it, and the function that writes the part.
type Part = (&'static str, &'static str, fn() -> String);

/// Every generated part.
const PARTS: &[Part] = &[
    ("docs/cli.md", "options", options),
    ("docs/cli.md", "subcommands", subcommands),
    ("docs/cli.md", "schema keywords", schema_keywords),
    ("docs/cli.md", "exit statuses", exit_statuses),
    ("docs/settings.md", "settings", config::settings_table),
    ("docs/settings.md", "hooks", config::hooks_tables),
    ("docs/settings.md", "limits", config::limits_table),
    ("docs/settings.md", "project variables", config::project_variables),
    ("docs/keys.md", "keys", keys),
    ("docs/meta-commands.md", "meta commands", meta_commands),
    ("docs/tools-and-plugins.md", "tools", tools),
    ("docs/decisions/README.md", "index", decisions),
    ("docs/escape-suite.md", "escape suite", crate::escape::table),
];

#[test]
fn generated_documents_are_fresh() {
    let write = std::env::var_os("REEDCLAW_WRITE_DOCS").is_some();
    let mut stale = Vec::new();
    for (file, name, make) in PARTS {
        let path = root().join(file);
        let text = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{file}: {error}"));
        let fresh = with_part(&text, name, &make()).unwrap_or_else(|| panic!("{file} has no part {name}"));
        match fresh == text {
            true => {}
            false if write => fs::write(&path, fresh).unwrap_or_else(|error| panic!("{file}: {error}")),
            false => stale.push(format!("{file}: {name}")),
        }
    }
    for (file, fresh) in [("docs/reedclaw.1", man::page()), ("config/default.tsv", defaults())] {
        let path = root().join(file);
        match fs::read_to_string(&path).unwrap_or_default() == fresh {
            true => {}
            false if write => fs::write(&path, fresh).unwrap_or_else(|error| panic!("{file}: {error}")),
            false => stale.push(file.to_owned()),
        }
    }
    hold("write these again with `REEDCLAW_WRITE_DOCS=1 cargo test --test it generated`", &stale);
}

/// The defaults that the program reads without an interpreter.
fn defaults() -> String {
    let lines = config::defaults_lines().expect("the defaults");
    format!("# Generated from default.lua: REEDCLAW_WRITE_DOCS=1 cargo test --test it generated\n{lines}")
}

/// A document with new content between the comments of a part; `None` if the comments are missing.
fn with_part(text: &str, name: &str, part: &str) -> Option<String> {
    let begin = format!("<!-- BEGIN generated: {name} -->\n");
    let (before, rest) = text.split_once(&begin)?;
    let (_, after) = rest.split_once("<!-- END generated -->")?;
    Some(format!("{before}{begin}\n{}\n\n<!-- END generated -->{after}", part.trim_end()))
}

/// Makes text fit for a table's cell.
fn cell(text: &str) -> String {
    text.replace('|', "\\|").replace('\n', " ")
}

fn keys() -> String {
    let mut text = String::from("| key | effect |\n|---|---|\n");
    for key in &KEYS {
        let _ = writeln!(text, "| `{}` | {} |", key.name, cell(key.help));
    }
    text
}

fn meta_commands() -> String {
    let mut text = String::new();
    for group in Group::ALL {
        let _ = write!(text, "## {}\n\n| command | effect |\n|---|---|\n", group.heading());
        for meta in of_shell().filter(|meta| meta.group == group) {
            let usage = meta.form();
            let _ = writeln!(text, "| `{}` | {} |", cell(usage.trim()), cell(meta.help));
        }
        text.push('\n');
    }
    text
}

fn exit_statuses() -> String {
    let mut text = "| status | meaning |\n|---|---|\n".to_owned();
    for (status, meaning) in exit::TABLE {
        let _ = writeln!(text, "| {status} | {} |", cell(meaning));
    }
    text
}

fn schema_keywords() -> String {
    let words = KEYWORDS.map(|keyword| format!("`{keyword}`"));
    let lines: Vec<String> = words.chunks(8).map(|line| line.join(", ")).collect();
    format!("{}.\n", lines.join(",\n"))
}

/// The tools that a model has without a config, as `reedclaw tool list` prints them.
fn tools() -> String {
    let home = tempfile::tempdir().expect("a home");
    let output = process::Command::new(env!("CARGO_BIN_EXE_reedclaw"))
        .args(["tool", "list", "--json"])
        .env_clear()
        .env("HOME", home.path())
        .current_dir(home.path())
        .output()
        .expect("reedclaw starts");
    let listed: Vec<Value> = serde_json::from_slice(&output.stdout).expect("a list of tools");
    let mut text = String::from("| tool | arguments | purpose |\n|---|---|---|\n");
    for tool in listed {
        let names = [&tool["name"]].into_iter().chain(tool["aliases"].as_array().into_iter().flatten());
        let names: Vec<String> = names.map(|name| format!("`{}`", name.as_str().unwrap_or_default())).collect();
        let arguments = tool["schema"]["properties"].as_object().into_iter().flat_map(|properties| properties.keys());
        let arguments: Vec<String> = arguments.map(|name| format!("`{name}`")).collect();
        let description = tool["description"].as_str().unwrap_or_default();
        let purpose = description.split_inclusive(". ").next().unwrap_or_default().trim();
        let _ = writeln!(text, "| {} | {} | {} |", names.join(", "), arguments.join(", "), cell(purpose));
    }
    text
}

/// The headings of the pages of decisions, in the order of the rooms.
fn decisions() -> String {
    let mut text = String::new();
    for name in ROOMS.iter().map(|room| room.name) {
        let Ok(page) = fs::read_to_string(root().join("docs/decisions").join(format!("{name}.md"))) else { continue };
        let headings: Vec<&str> = page.lines().filter_map(|line| line.strip_prefix("## ")).collect();
        let _ = writeln!(text, "- [{name}]({name}.md): {}.", headings.join("; "));
    }
    text
}

fn options() -> String {
    let mut built = definition();
    built.build();
    format!("{OPTIONS_HEAD}{}", rows(&built, ""))
}

const OPTIONS_HEAD: &str = "| option | meaning |\n|---|---|\n";

/// A section for each subcommand: its own options and arguments, then those of the commands below it.
fn subcommands() -> String {
    let mut built = definition();
    built.build();
    let mut text = String::new();
    for command in built.get_subcommands().filter(|command| !command.is_hide_set()) {
        let _ = write!(text, "### `{}`\n\n{}.\n\n", usage(command), about(command));
        let mut table = rows(command, "");
        nested(command, "", &mut table);
        if !table.is_empty() {
            let _ = writeln!(text, "{OPTIONS_HEAD}{table}");
        }
    }
    text
}

/// The rows of the commands below a command.
fn nested(command: &Command, path: &str, text: &mut String) {
    for inner in command.get_subcommands().filter(|inner| !inner.is_hide_set()) {
        let words = format!("{path}{}", inner.get_name());
        let others: String = inner.get_visible_aliases().map(|other| format!(" (or `{path}{other}`)")).collect();
        let usage = cell(&usage_after(inner, &words));
        let _ = writeln!(text, "| **`{usage}`**{others} | {} |", cell(&about(inner)));
        let words = format!("{words} ");
        text.push_str(&rows(inner, &words));
        nested(inner, &words, text);
    }
}

/// The usage of a command: `reedclaw NAME [OPTIONS] ARGUMENTS`.
fn usage(command: &Command) -> String {
    usage_after(command, &format!("reedclaw {}", command.get_name()))
}

pub(super) fn usage_after(command: &Command, words: &str) -> String {
    let mut usage = words.to_owned();
    for argument in command.get_positionals().filter(|argument| !argument.is_hide_set()) {
        let name = value(argument).unwrap_or_else(|| argument.get_id().to_string());
        // Some arguments describe themselves which parts are optional.
        let is_plain = argument.is_required_set() || argument.get_id() == "words" || is_missed(command, &name);
        let _ = if is_plain { write!(usage, " {name}") } else { write!(usage, " [{name}]") };
    }
    if command.has_subcommands() {
        usage.push_str(if command.is_args_conflicts_with_subcommands_set() { " | COMMAND" } else { " COMMAND" });
    }
    usage
}

/// Returns whether a command without arguments fails because this one is missing: an argument that only an option can replace is
/// not optional.
fn is_missed(command: &Command, name: &str) -> bool {
    let Err(error) = command.clone().try_get_matches_from([command.get_name()]) else { return false };
    let Some(ContextValue::Strings(missing)) = error.get(ContextKind::InvalidArg) else { return false };
    missing.iter().any(|missing| missing.trim_end_matches("...") == format!("<{name}>"))
}

fn about(command: &Command) -> String {
    command.get_about().map(ToString::to_string).unwrap_or_default()
}

/// A row for each option, and for each argument that has a help text, after the words of their command.
fn rows(command: &Command, words: &str) -> String {
    let mut text = String::new();
    let is_common = |argument: &Arg| {
        command.get_name() != "reedclaw" && matches!(argument.get_action(), ArgAction::Help | ArgAction::Version)
    };
    for argument in command.get_arguments().filter(|argument| !argument.is_hide_set() && !is_common(argument)) {
        let help = argument.get_help().map(ToString::to_string).unwrap_or_default();
        if !help.is_empty() {
            let usage = cell(&spelling(argument));
            let _ = writeln!(text, "| `{words}{usage}` | {} |", cell(&help_with_values(argument, &help)));
        }
    }
    text
}

/// The notation of an argument: `-m MESSAGE`, `--message MESSAGE`; for a positional one, only its name.
pub(super) fn spelling(argument: &Arg) -> String {
    let short = argument.get_short().map(|short| format!("-{short}"));
    let long = argument.get_long().map(|long| format!("--{long}"));
    let flags: Vec<String> = short.into_iter().chain(long).collect();
    let value = value(argument).filter(|_| argument.get_action().takes_values());
    let words: Vec<String> = (!flags.is_empty()).then(|| flags.join("`, `")).into_iter().chain(value).collect();
    words.join(" ")
}

fn value(argument: &Arg) -> Option<String> {
    argument.get_value_names().map(|names| names.join(" "))
}

/// The help of an argument, with the values that it can have if the help doesn't name them.
pub(super) fn help_with_values(argument: &Arg, help: &str) -> String {
    let values: Vec<String> = argument.get_possible_values().iter().map(|value| value.get_name().to_owned()).collect();
    let is_named = values.iter().all(|value| help.contains(value.as_str()));
    if values.is_empty() || is_named || !argument.get_action().takes_values() {
        return help.to_owned();
    }
    format!("{help}: {}", values.iter().map(|value| format!("`{value}`")).collect::<Vec<_>>().join(", "))
}

#[test]
fn a_part_is_replaced_and_a_missing_one_is_found() {
    let text = "a\n<!-- BEGIN generated: x -->\nold\n<!-- END generated -->\nb\n";
    let fresh = "a\n<!-- BEGIN generated: x -->\n\nnew\n\n<!-- END generated -->\nb\n";
    assert_eq!(with_part(text, "x", "new\n").as_deref(), Some(fresh));
    assert_eq!(with_part(fresh, "x", "new\n").as_deref(), Some(fresh));
    assert_eq!(with_part(text, "y", "new\n"), None);
}
