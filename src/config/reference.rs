//! The reference of everything that a config can hold, made from the tables that the program itself reads:
//! `config/reference.md`, which a test keeps equal.

use std::fmt::Write as _;

use super::find::FILE_BYTES_MAX;
use super::hooks::{ACTIONS, CONTEXT, HOOKS};
use super::layers::Layers;
use super::lua::{self, HOOK_TIME, LOAD_TIME, MEMORY_BYTES_MAX, Sandbox};
use super::problem::PROBLEMS_MAX;
use super::schema::{Project, ROWS};
use super::tighten::Own;
use super::{Env, check, engine};

/// The limits of a config: what is bounded, by how much, and what happens there. The numbers are the code's own.
#[must_use]
pub fn limits() -> Vec<(&'static str, String, &'static str)> {
    let ms = |time: std::time::Duration| format!("{} ms", time.as_millis());
    let kib = |bytes: usize| format!("{} KiB", bytes / 1024);
    let off = "it is stopped, told once, and off until `:config reload`";
    let busy = "the same, for a machine that is busy";
    vec![
        ("a config's file", format!("{} KiB", FILE_BYTES_MAX / 1024), "it is not used; the defaults hold, readonly"),
        ("loading it: processor time", ms(LOAD_TIME.cpu), "it is stopped; the defaults hold, readonly"),
        ("loading it: time on the wall", ms(LOAD_TIME.wall), busy),
        ("its memory, hooks included", kib(MEMORY_BYTES_MAX), "the script, or the hook, ends with an error"),
        ("one call of a hook: processor time", ms(HOOK_TIME.cpu), off),
        ("one call of a hook: time on the wall", ms(HOOK_TIME.wall), busy),
        ("a text that a hook gives", kib(engine::TEXT_BYTES_MAX), "it is an error of the hook"),
        ("candidates that a hook gives", engine::CANDIDATES_MAX.to_string(), "the rest is not shown"),
        ("entries of one table", check::ENTRIES_MAX.to_string(), "the rest is ignored, and told"),
        ("a text of a setting", kib(check::TEXT_BYTES_MAX), "it is refused"),
        ("a name or a word", format!("{} bytes", check::WORD_BYTES_MAX), "it is refused"),
        ("problems that are told", PROBLEMS_MAX.to_string(), "the rest is counted"),
    ]
}

/// Writes the reference.
#[must_use]
pub fn reference() -> String {
    let mut text = String::from(
        "# Every key, hook, default and limit of a config\n\n\
         This file is made from the program's own tables. Don't edit it: change the tables, then run\n\
         `REEDCLAW_WRITE_REFERENCE=1 cargo test --lib reference`. `config/default.lua` explains each setting at length.\n\n\
         A config is a Luau script that returns a table. Another value is told with its file and line, and costs its own\n\
         key only: `reedclaw config validate` lists all problems, `reedclaw config show --origin` what holds and why.\n\n\
         ## Settings\n\n\
         \"Project\" says what a project's file (`.reedclaw.lua`) may do with it.\n\n\
         | key | value | default | meaning | project |\n|---|---|---|---|---|\n",
    );
    let defaults = defaults();
    for row in ROWS {
        let shown = defaults.iter().find(|(key, _)| key == row.path).map(|(_, value)| format!("`{value}`"));
        let default = match row.path {
            "system_prompt" => "in `config/prompts/system.txt`".to_owned(),
            "history.dir" => "`~/.local/share/reedclaw`".to_owned(),
            "workspace_dir" => "`~/reedclaw-workspace`".to_owned(),
            _ => shown.unwrap_or_else(|| "none".to_owned()),
        };
        let project = told(row.project);
        let _ = writeln!(
            text,
            "| `{}` | {} | {default} | {} | {project} |",
            row.path,
            cell(&row.kind.to_string()),
            row.doc
        );
    }
    text.push_str(
        "\n## Hooks\n\nA function stands at the top or in `hooks`, as in `hooks = { route = function(line, ctx) … end }`. \
         A hook that fails or\ntakes too long is told once and is off until `:config reload`.\n\n\
         | name | written as | gives | meaning | project |\n|---|---|---|---|---|\n",
    );
    for row in HOOKS {
        let usage = cell(row.usage);
        let _ = writeln!(
            text,
            "| `{}` | `{usage}` | {} | {} | {} |",
            row.name,
            cell(row.gives),
            cell(row.doc),
            told(row.project)
        );
    }
    text.push_str("\nAn action, from a key's function or a meta command:\n\n| action | what happens |\n|---|---|\n");
    for (action, meaning) in ACTIONS {
        let _ = writeln!(text, "| `{action}` | {meaning} |");
    }
    text.push_str("\nWhat `ctx` holds:\n\n| field | value |\n|---|---|\n");
    for (field, meaning) in CONTEXT {
        let _ = writeln!(text, "| `{field}` | {meaning} |");
    }
    text.push_str("\n## Limits\n\n| what | how much | what happens there |\n|---|---|---|\n");
    for (what, limit, happens) in limits() {
        let _ = writeln!(text, "| {what} | {limit} | {happens} |");
    }
    let variables = lua::PROJECT_VARIABLES.map(|name| format!("`{name}`")).join(", ");
    let _ = write!(
        text,
        "\n## What a script finds\n\n`os.getenv`, `os.time`, `os.date`, `os.clock`, and the libraries `string`, `table`, \
         `math`, `utf8` and `bit32`. No files,\nno processes, no network, no `require`, `loadstring` or `print`. A \
         project's file reads these variables only:\n{variables}.\n",
    );
    text
}

/// The defaults, as a machine with nothing set has them.
fn defaults() -> Vec<(String, String)> {
    let env: Env = [("HOME".into(), "/home".into())].into();
    let tree = Sandbox::new(&env).ok().and_then(|sandbox| super::defaults(&sandbox, &env).ok());
    let (tree, _) = tree.unwrap_or_default();
    let layers = Layers::new(tree, Own::default(), "", &|_| None, Vec::new());
    layers.rows().into_iter().map(|row| (row.key, row.value)).collect()
}

fn told(project: Project) -> String {
    match project {
        Project::May => "may set it".into(),
        Project::Not(what) => format!("can't {what}"),
        Project::Only(only) => format!("may set `{only}`"),
        Project::Less => "may make it smaller".into(),
        Project::Adds => "may add to it".into(),
        Project::Drops => "may make it shorter".into(),
        Project::Stricter(words) => format!("may only go towards `{}`", words[0]),
        Project::NewLocal => "may add a model on this machine".into(),
    }
}

/// Makes text fit for a table's cell.
fn cell(text: &str) -> String {
    text.replace('|', "\\|")
}
