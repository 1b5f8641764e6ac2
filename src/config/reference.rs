//! The reference of all settings, generated from the tables that the program itself reads. It fills `docs/settings.md`, and a
//! test fails if that file is stale.

use std::fmt::Write as _;
use std::sync::Arc;

use super::hooks::{ACTIONS, CONTEXT, HOOKS};
use super::overlay::layers::Layers;
use super::overlay::tighten::Own;
use super::reading::expand::PROJECT_VARIABLES;
use super::reading::find::FILE_BYTES_MAX;
use super::reading::problem::PROBLEMS_MAX;
use super::schema::{Kind, Project, ROWS};
use super::{Env, engine};
use crate::config::reading::check;
use crate::lua::{HOOK_TIME, LOAD_TIME, MEMORY_BYTES_MAX};

/// The limits of a config, with the effect of reaching each. The numbers come from the code.
fn limits() -> Vec<(&'static str, String, &'static str)> {
    let ms = |time: std::time::Duration| format!("{} ms", time.as_millis());
    let kib = |bytes: usize| format!("{} KiB", bytes / 1024);
    let off = "it is stopped, reported once, and off until `:config reload`";
    let busy = "the same, on a busy machine";
    vec![
        (
            "the config file",
            format!("{} KiB", FILE_BYTES_MAX / 1024),
            "it isn't used; the defaults apply, with `readonly`",
        ),
        ("loading it: processor time", ms(LOAD_TIME.cpu), "it is stopped; the defaults apply, with `readonly`"),
        ("loading it: elapsed time", ms(LOAD_TIME.wall), busy),
        ("its memory, hooks included", kib(MEMORY_BYTES_MAX), "the script, or the hook, ends with an error"),
        ("one call of a hook: processor time", ms(HOOK_TIME.cpu), off),
        ("one call of a hook: elapsed time", ms(HOOK_TIME.wall), busy),
        ("a text that a hook returns", kib(engine::TEXT_BYTES_MAX), "it counts as an error of the hook"),
        ("candidates that a hook returns", engine::CANDIDATES_MAX.to_string(), "the rest is not shown"),
        ("entries of one table", check::ENTRIES_MAX.to_string(), "the rest is ignored and reported"),
        ("a text of a setting", kib(check::TEXT_BYTES_MAX), "it is refused"),
        ("a name or a word", format!("{} bytes", check::WORD_BYTES_MAX), "it is refused"),
        ("reported problems", PROBLEMS_MAX.to_string(), "the rest is counted"),
    ]
}

/// Defaults that are in no table, because they depend on the machine or on other settings.
const UNSET: &[(&str, &str)] = &[
    ("default_model", "the only model, if there is just one"),
    ("models.NAME.kind", "`\"openai-compatible\"`"),
    ("models.NAME.endpoint", "the provider's own; required for `\"openai-compatible\"`"),
    ("models.NAME.model", "NAME"),
    ("models.NAME.temperature", "`model_defaults.temperature`"),
    ("models.NAME.images", "llama.cpp is asked; known for some by `model`"),
    ("models.NAME.no_training", "false"),
    ("models.NAME.context_tokens", "llama.cpp is asked; known for some by `model`"),
    ("models.NAME.max_output_tokens", "the server's own"),
    ("models.NAME.thinking", "the server's own"),
    ("models.NAME.key_env", "none: no key is sent"),
    ("models.NAME.system_prompt", "`system_prompt`"),
    ("models.NAME.connect_timeout_ms", "`model_defaults.connect_timeout_ms`"),
    ("models.NAME.first_byte_timeout_ms", "`model_defaults.first_byte_timeout_ms`"),
    ("models.NAME.busy_timeout_ms", "`model_defaults.busy_timeout_ms`"),
    ("models.NAME.idle_timeout_ms", "`model_defaults.idle_timeout_ms`"),
    ("models.NAME.retries", "`model_defaults.retries`"),
    ("models.NAME.allow_remote", "you are asked"),
    ("model_defaults.temperature", "the server's own"),
    ("prices.NAME.input", "`config/prices.lua`"),
    ("prices.NAME.cache_read", "`config/prices.lua`"),
    ("prices.NAME.cache_write", "`config/prices.lua`"),
    ("prices.NAME.output", "`config/prices.lua`"),
    ("system_prompt", "`config/prompts/system.txt`"),
    ("shell.program", "your bash, else `/bin/sh`"),
    ("history.dir", "`~/.local/share/reedclaw`"),
    ("receipts.path", "`receipts.jsonl` in the state directory"),
    ("workspace_dir", "`~/reedclaw-workspace`"),
    ("mcp.servers.NAME.command", "none: a server has a command or an address"),
    ("mcp.servers.NAME.oauth.mode", "`\"auto\"`"),
    ("mcp.servers.NAME.oauth.scopes", "those that the server names"),
    ("mcp.servers.NAME.oauth.port", "`0`"),
    ("mcp.servers.NAME.elicit", "`true`"),
    ("mcp.servers.NAME.resources", "`true`"),
    ("mcp.servers.NAME.prompts", "`true`"),
    ("mcp.servers.NAME.sandbox", "`\"workspace\"`"),
    ("mcp.servers.NAME.network", "`false`"),
    ("mcp.servers.NAME.cwd", "the workspace"),
    ("mcp.servers.NAME.era", "`\"auto\"`"),
    ("mcp.servers.NAME.transport", "`\"http\"`"),
    ("mcp.servers.NAME.start_ms", "`30000`"),
    ("mcp.servers.NAME.call_ms", "`60000`"),
    ("mcp.servers.NAME.call_max_ms", "`600000`"),
    ("mcp.servers.NAME.idle_ms", "`600000`"),
    ("gateway.hooks.NAME.question", "none: the model sees the request alone"),
    ("gateway.hooks.NAME.persona", "`\"default\"`"),
];

/// The table of settings.
#[must_use]
pub fn settings_table() -> String {
    let mut text = String::from("| key | value | default | meaning | project |\n|---|---|---|---|---|\n");
    let defaults = defaults();
    for row in ROWS {
        let unset = UNSET.iter().find(|(key, _)| *key == row.path).map(|(_, words)| (*words).to_owned());
        let shown = defaults.iter().find(|(key, _)| key == row.path).map(|(_, value)| format!("`{value}`"));
        let default = unset.or(shown).unwrap_or_else(|| match (row.project, row.kind) {
            (Project::Drops, Kind::Words) => "all tools".to_owned(),
            _ => "none".to_owned(),
        });
        let (kind, project) = (cell(&row.kind.to_string()), project_may(row.project));
        let _ = writeln!(text, "| `{}` | {kind} | {} | {} | {project} |", row.path, cell(&default), cell(row.doc));
    }
    text
}

/// The tables of hooks, of the actions that they may return, and of the fields that they can read.
#[must_use]
pub fn hooks_tables() -> String {
    let mut text = String::from("| name | written as | returns | meaning | project |\n|---|---|---|---|---|\n");
    for row in HOOKS {
        let (usage, gives, project) = (cell(row.usage), cell(row.gives), project_may(row.project));
        let _ = writeln!(text, "| `{}` | `{usage}` | {gives} | {} | {project} |", row.name, cell(row.doc));
    }
    text.push_str("\nAn action, from a key's function or a meta command:\n\n| action | effect |\n|---|---|\n");
    for (action, meaning) in ACTIONS {
        let _ = writeln!(text, "| `{action}` | {meaning} |");
    }
    text.push_str("\nThe fields of `ctx`:\n\n| field | value |\n|---|---|\n");
    for (field, meaning) in CONTEXT {
        let _ = writeln!(text, "| `{field}` | {meaning} |");
    }
    text
}

/// The table of a config's limits.
#[must_use]
pub fn limits_table() -> String {
    let mut text = String::from("| limit | value | when it is reached |\n|---|---|---|\n");
    for (what, limit, happens) in limits() {
        let _ = writeln!(text, "| {what} | {limit} | {happens} |");
    }
    text
}

/// The environment variables that a project's file can read.
#[must_use]
pub fn project_variables() -> String {
    let variables = PROJECT_VARIABLES.map(|name| format!("`{name}`")).join(", ");
    format!("A project's file can read these environment variables only:\n{variables}.\n")
}

/// The defaults on a machine where no variable is set.
fn defaults() -> Vec<(String, String)> {
    let env: Env = [("HOME".into(), "/home".into())].into();
    let (tree, _) = super::defaults(&env).unwrap_or_default();
    let layers = Layers::new(tree, Own::default(), Arc::default(), Vec::new());
    layers.rows().into_iter().map(|row| (row.key, row.value)).collect()
}

/// Describes a project's rights to a setting.
fn project_may(project: Project) -> String {
    match project {
        Project::May => "may set it".into(),
        Project::Not(what) => format!("can't {what}"),
        Project::Only(only) => format!("may set `{only}`"),
        Project::Less => "may make it smaller".into(),
        Project::Adds => "may add to it".into(),
        Project::Drops => "may make it shorter".into(),
        Project::Stricter(words) => format!("may only go towards `{}`", words[0]),
        Project::StricterEach(words) => format!("may set entries, each only towards `{}`", words[0]),
        Project::NewLocal => "may add a model on this machine".into(),
    }
}

/// Makes text fit for a table's cell.
fn cell(text: &str) -> String {
    text.replace('|', "\\|")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Without a list all tools are offered. The table claimed "none", and a reader would rely on that.
    #[test]
    fn a_missing_list_of_tools_means_all_tools() {
        let table = settings_table();
        let lists: Vec<&str> = table.lines().filter(|line| line.starts_with("| `tools_allow.")).collect();
        assert_eq!(lists.len(), 6);
        for list in lists {
            assert!(list.contains(" | all tools | "), "{list}");
        }
    }
}
