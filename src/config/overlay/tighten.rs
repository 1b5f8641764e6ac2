//! The rights of a project's file: the only way for its values and hooks to take effect. Values of the user's own config and of a
//! project are two types, so that nothing from a project can apply unless it passed here.

use std::collections::BTreeMap;

use crate::config::hooks::{FoundHooks, HOOKS, KeyHook, KeyName};
use crate::config::reading::check::{self, Checked};
use crate::config::reading::checked::{Setting, Tree};
use crate::config::reading::problem::Problems;
use crate::config::schema::{self, Place, Project as Policy, Row};

/// The values in force: those of the user's own config, and the accepted ones of a project.
#[derive(Clone, Debug, Default, PartialEq)]
pub(in crate::config) struct Own(Tree);

impl Own {
    /// Wraps the values of a config that the user chose.
    pub(in crate::config) fn chosen(tree: Tree) -> Self {
        Self(tree)
    }

    /// The values.
    pub(in crate::config) fn tree(&self) -> &Tree {
        &self.0
    }

    /// Sets the default model if nothing else does: a second model must not replace the first one.
    pub(in crate::config) fn keep_default_model(&mut self, name: Option<String>) {
        if let Some(name) = name {
            self.0.entry(vec!["default_model".to_owned()]).or_insert(Setting::Text(name));
        }
    }
}

/// Values and hooks of a file that merely lies in a directory. They apply only after [`tighten`].
pub(in crate::config) struct Project(Checked);

impl Project {
    /// Wraps the values of a project's file.
    pub(in crate::config) fn of(checked: Checked) -> Self {
        Self(checked)
    }
}

/// Hooks of a project, without the forbidden ones. Their answers are still a project's answers.
pub(in crate::config) struct ProjectHooks(pub(in crate::config) FoundHooks);

/// Merges a project's values over the user's, key by key. A value that would grant something is refused with a problem
/// that names its line. `changed` are the keys that were accepted.
pub(in crate::config) fn tighten(own: &Own, defaults: &Tree, project: Project, problems: &mut Problems) -> Tightened {
    let Project(Checked { tree, hooks }) = project;
    let mut merged = own.clone();
    let mut changed = Vec::new();
    // Addresses come first, since other keys of a model depend on them.
    let (addresses, rest): (Tree, Tree) = tree.into_iter().partition(|(key, _)| is_address(key));
    for (key, value) in addresses.into_iter().chain(rest) {
        let Place::Leaf(row) = schema::place(&key) else { continue };
        let held = merged.0.get(&key).or_else(|| defaults.get(&key));
        if held == Some(&value) {
            continue;
        }
        let value = match (row.project, value) {
            (Policy::StricterEach(words), Setting::WordMap(wanted)) => {
                stricter_each(words, &key, held, wanted, problems)
            }
            (policy, value) => {
                allowed(policy, &key, held, value, own).map_err(|why| problems.key(&key, refusal(&why))).ok()
            }
        };
        let Some(value) = value else { continue };
        if let [models, name, _] = &key[..]
            && models == "models"
            && !["endpoint", "kind"].iter().any(|part| merged.0.contains_key(&key_of(name, part)))
            && !is_address(&key)
        {
            problems.key(&key, "there is no such model in your config; ignored".into());
            continue;
        }
        merged.0.insert(key.clone(), value);
        changed.push(key);
    }
    Tightened { own: merged, hooks: tighten_hooks(hooks, problems), changed }
}

/// The message for a part of a project's file that is refused.
fn refusal(why: &str) -> String {
    format!("refused: a project can't {why}; only your own config can")
}

/// The user's table with the project's stricter entries over it; `None` if nothing changes. Each entry that isn't stricter is a
/// problem of its own, so that it doesn't affect the others.
fn stricter_each(
    words: &[&str],
    key: &[String],
    held: Option<&Setting>,
    wanted: BTreeMap<String, String>,
    problems: &mut Problems,
) -> Option<Setting> {
    let before = match held {
        Some(Setting::WordMap(held)) => held.clone(),
        _ => BTreeMap::new(),
    };
    let mut merged = before.clone();
    for (name, word) in wanted {
        match is_stricter(words, merged.get(&name), &word) {
            true => drop(merged.insert(name, word)),
            false => problems.key(&[key, &[name]].concat(), refusal(&loosens(&word))),
        }
    }
    (merged != before).then_some(Setting::WordMap(merged))
}

/// Returns whether a word is at least as strict as the user's. If the user has set none, any word but the loosest is.
fn is_stricter(words: &[&str], held: Option<&String>, word: &str) -> bool {
    let place = |word: &str| words.iter().position(|own| *own == word);
    match held {
        Some(held) => place(word) <= place(held),
        None => words.last() != Some(&word),
    }
}

fn loosens(word: &str) -> String {
    format!("loosen this to {word}")
}

/// The result of merging a project's file.
pub(in crate::config) struct Tightened {
    /// The user's values with the project's over them.
    pub(in crate::config) own: Own,
    /// The project's hooks.
    pub(in crate::config) hooks: ProjectHooks,
    /// The keys that the project set.
    pub(in crate::config) changed: Vec<Vec<String>>,
}

fn allowed(
    policy: Policy,
    key: &[String],
    held: Option<&Setting>,
    value: Setting,
    own: &Own,
) -> Result<Setting, String> {
    match (policy, held, value) {
        (Policy::May, _, value) => Ok(value),
        (Policy::Not(what), ..) => Err(what.to_owned()),
        (Policy::Only(only), _, Setting::Bool(value)) if value == only => Ok(Setting::Bool(value)),
        (Policy::Only(only), ..) => Err(format!("set this to {}", !only)),
        (Policy::Less, Some(Setting::Integer(most)), Setting::Integer(value)) if value <= *most => {
            Ok(Setting::Integer(value))
        }
        (Policy::Less, Some(Setting::Number(most)), Setting::Number(value)) if value <= *most => {
            Ok(Setting::Number(value))
        }
        // An unlimited value gets a limit.
        (Policy::Less, None, value) => Ok(value),
        (Policy::Less, ..) => Err("make this larger".into()),
        (Policy::Adds, held, Setting::Words(added)) => {
            let mut words = match held {
                Some(Setting::Words(words)) => words.clone(),
                _ => Vec::new(),
            };
            let count = added.len();
            let new: Vec<String> = added.into_iter().filter(|word| !words.contains(word)).collect();
            // A list that adds nothing and lacks some words can only be meant to remove them.
            if new.is_empty() && count < words.len() {
                return Err("make this shorter".into());
            }
            words.extend(new);
            Ok(Setting::Words(words))
        }
        (Policy::Adds, ..) => Err("make this shorter".into()),
        // If the user has set no list, it contains everything.
        (Policy::Drops, None, value) => Ok(value),
        (Policy::Drops, Some(Setting::Words(held)), Setting::Words(value))
            if value.iter().all(|it| held.contains(it)) =>
        {
            Ok(Setting::Words(value))
        }
        (Policy::Drops, Some(Setting::Ports(held)), Setting::Ports(value))
            if value.iter().all(|it| held.contains(it)) =>
        {
            Ok(Setting::Ports(value))
        }
        (Policy::Drops, ..) => Err("add to this".into()),
        (Policy::Stricter(words), Some(Setting::Text(held)), Setting::Text(value)) => {
            if is_stricter(words, Some(held), &value) { Ok(Setting::Text(value)) } else { Err(loosens(&value)) }
        }
        (Policy::Stricter(_) | Policy::StricterEach(_), ..) => Err("set this".into()),
        (Policy::NewLocal, _, Setting::Text(address)) => {
            // The user's model may have a key, and a project must not choose where it is sent.
            if own.0.keys().any(|have| have.len() == 3 && have[..2] == key[..2]) {
                Err("change where a model of yours is".into())
            } else if !check::is_loopback(&address) {
                Err("send your questions to another machine".into())
            } else {
                Ok(Setting::Text(address))
            }
        }
        (Policy::NewLocal, ..) => Err("set this".into()),
    }
}

fn tighten_hooks(mut hooks: FoundHooks, problems: &mut Problems) -> ProjectHooks {
    for row in HOOKS {
        if let Policy::Not(what) = row.project
            && hooks.functions.remove(row.name).is_some()
        {
            let at_top = [row.name.to_owned()];
            let key = if problems.line(&at_top).is_some() { at_top.to_vec() } else { under("hooks", row.name) };
            problems.key(&key, refusal(what));
        }
    }
    hooks.keys.retain(|key, hook| {
        let does = match hook {
            KeyHook::Shell(_) => Some("shell"),
            KeyHook::Meta(_) => Some("meta"),
            _ => None,
        };
        let what = refused_key(key, does);
        if let Some(what) = what {
            problems.key(&under("keys", &key.to_string()), refusal(what));
        }
        what.is_none()
    });
    ProjectHooks(hooks)
}

fn under(table: &str, name: &str) -> Vec<String> {
    vec![table.to_owned(), name.to_owned()]
}

fn is_address(key: &[String]) -> bool {
    matches!(key, [models, _, last] if models == "models" && last == "endpoint")
}

fn key_of(name: &str, part: &str) -> Vec<String> {
    ["models", name, part].map(str::to_owned).to_vec()
}

/// The reason why a project can't bind a key of the keyboard to what a field names.
fn refused_key(key: &KeyName, does: Option<&str>) -> Option<&'static str> {
    match does {
        Some("shell") => Some("run commands of your shell by a key"),
        Some("meta") => Some("give ReedClaw orders by a key"),
        _ if key.is_own() => Some("take one of ReedClaw's keys"),
        _ => None,
    }
}

/// The reason why a project's file can't set a key, whatever the value is; `None` if it can.
pub(in crate::config) fn refused(key: &[String]) -> Option<&'static str> {
    // `route = { … }` is a table of settings; alone it is the hook.
    let hook = match key {
        [name] => Some(name),
        [hooks, name] if hooks == "hooks" => Some(name),
        _ => None,
    };
    if let Some(row) = hook.and_then(|name| HOOKS.iter().find(|row| row.name == name))
        && let Policy::Not(what) = row.project
    {
        return Some(what);
    }
    if let [keys, name, rest @ ..] = key
        && keys == "keys"
        && let Ok(name) = KeyName::parse(name)
    {
        return refused_key(&name, rest.first().map(String::as_str));
    }
    let row = (1..=key.len()).find_map(|length| match schema::place(&key[..length]) {
        Place::Leaf(row) => Some(row),
        _ => None,
    });
    match row?.project {
        Policy::Not(what) => Some(what),
        _ => None,
    }
}

/// The reason as in [`refused`], also for a refused value: a word, a number or a boolean, written out.
pub(in crate::config) fn refused_as(key: &[String], source: &str, own: &Own, defaults: &Tree) -> Option<String> {
    if let Some(what) = refused(key) {
        return Some(what.to_owned());
    }
    let held = |key: &[String]| own.0.get(key).or_else(|| defaults.get(key));
    if let Some((name, table)) = key.split_last()
        && let Place::Leaf(Row { project: Policy::StricterEach(words), .. }) = schema::place(table)
        && let Some(Setting::Text(word)) = literal(source.trim(), false)
    {
        let held = match held(table) {
            Some(Setting::WordMap(held)) => held.get(name),
            _ => None,
        };
        return (!is_stricter(words, held, &word)).then(|| loosens(&word));
    }
    let Place::Leaf(row) = schema::place(key) else { return None };
    let held = held(key);
    let value = literal(source.trim(), matches!(held, Some(Setting::Number(_))))?;
    if held == Some(&value) {
        return None;
    }
    allowed(row.project, key, held, value, own).err()
}

/// Returns whether a project's file can only add to the value of a key.
pub(in crate::config) fn only_adds(key: &[String]) -> bool {
    matches!(schema::place(key), Place::Leaf(row) if row.project == Policy::Adds)
}

/// The value of a Lua literal.
fn literal(source: &str, is_number: bool) -> Option<Setting> {
    let quoted = |quote: char| source.strip_prefix(quote)?.strip_suffix(quote);
    if let Some(text) = quoted('"').or_else(|| quoted('\'')) {
        return (!text.contains(['\\', '"', '\''])).then(|| Setting::Text(text.to_owned()));
    }
    match source {
        "true" => Some(Setting::Bool(true)),
        "false" => Some(Setting::Bool(false)),
        _ if is_number => source.parse().ok().map(Setting::Number),
        _ => source.parse().ok().map(Setting::Integer),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_written_out_value_is_refused_before_anything_runs() {
        let own = Own::chosen(Tree::from([
            (key("shell.confirm_cmd"), Setting::Bool(true)),
            (key("limits.response_bytes"), Setting::Integer(4096)),
            (key("models.mine.endpoint"), Setting::Text("http://127.0.0.1:1/v1".into())),
        ]));
        let why = |path: &str, source: &str| refused_as(&key(path), source, &own, &Tree::new());
        for (path, source, what) in [
            ("shell.program", "anything()", Some("choose the shell")),
            ("shell.confirm_cmd", "false", Some("set this to false")),
            ("shell.confirm_cmd", "true", None),
            ("limits.response_bytes", "8192", Some("make this larger")),
            ("limits.response_bytes", "2048", None),
            ("models.new.endpoint", "'http://192.0.2.1/v1'", Some("send your questions to another machine")),
            ("models.new.endpoint", "\"http://127.0.0.1:9/v1\"", None),
            ("models.mine.endpoint", "\"http://127.0.0.1:9/v1\"", Some("change where a model of yours is")),
            // The result of code is unknown before it runs.
            ("models.new.endpoint", "'http://' .. host", None),
            ("context.max_turns", "7", None),
        ] {
            assert_eq!(why(path, source).as_deref(), what, "{path} = {source}");
        }
    }

    fn key(path: &str) -> Vec<String> {
        path.split('.').map(str::to_owned).collect()
    }

    fn tree(values: &[(&str, Setting)]) -> Tree {
        values.iter().map(|(path, value)| (key(path), value.clone())).collect()
    }

    fn text(text: &str) -> Setting {
        Setting::Text(text.into())
    }

    #[test]
    fn a_project_tightens_and_grants_nothing() {
        let own = Own::chosen(tree(&[
            ("models.cloud.endpoint", text("https://api")),
            ("models.cloud.key_env", text("K")),
            ("models.half.key_env", text("K")),
            ("budget.per_day.usd", Setting::Number(5.0)),
            ("shell.capture_output", Setting::Bool(false)),
            ("tools_allow.shell", Setting::Words(vec!["time".into(), "shell".into()])),
        ]));
        let defaults = tree(&[
            ("shell.capture_output", Setting::Bool(true)),
            ("shell.capture_head_bytes", Setting::Integer(100)),
            ("budget.warn_at", Setting::Number(0.8)),
            ("history.ignore_space", Setting::Bool(true)),
            ("shell.known_commands", Setting::Words(vec!["a".into()])),
            ("tools.http_post", Setting::Bool(false)),
            ("tools.http_ports", Setting::Ports(vec![80, 443])),
            ("limits.tool_rounds", Setting::Integer(25)),
            ("security.autonomy", text("supervised")),
            ("security.high", text("ask")),
            ("security.sandbox", text("prefer")),
            ("security.workspace_only", Setting::Bool(true)),
            ("security.forbidden_commands", Setting::Words(vec!["rm".into(), "dd".into()])),
        ]);
        let words = |words: &[&str]| Setting::Words(words.iter().map(|word| (*word).to_owned()).collect());
        for (path, value, holds) in [
            ("prompt", text("shell"), true),
            ("context.max_turns", Setting::Integer(3), true),
            ("models.cloud.temperature", Setting::Number(0.5), true),
            ("models.cloud.endpoint", text("http://127.0.0.1:1"), false),
            ("models.half.endpoint", text("http://127.0.0.1:1"), false),
            ("models.cloud.key_env", text("OTHER"), false),
            ("models.cloud.key_command", Setting::Argv(vec!["sh".into()]), false),
            ("models.new.endpoint", text("http://127.0.0.1:1"), true),
            ("models.new.endpoint", text("http://evil"), false),
            ("models.new.temperature", Setting::Number(0.5), false),
            ("shell.program", Setting::Path("/bin/sh".into()), false),
            ("shell.capture_output", Setting::Bool(true), false),
            ("shell.capture_head_bytes", Setting::Integer(50), true),
            ("shell.capture_head_bytes", Setting::Integer(500), false),
            ("budget.per_day.usd", Setting::Number(2.0), true),
            ("budget.per_day.usd", Setting::Number(6.0), false),
            ("budget.per_turn.tokens", Setting::Integer(1), true),
            ("budget.warn_at", Setting::Number(0.9), false),
            ("prices.cloud.input", Setting::Number(0.0), false),
            ("history.ignore_space", Setting::Bool(false), false),
            ("history.entries_max", Setting::Integer(0), false),
            ("history.dir", Setting::Path("/p".into()), false),
            ("workspace_dir", Setting::Path("/p".into()), false),
            ("security.autonomy", text("readonly"), true),
            ("security.autonomy", text("full"), false),
            ("security.high", text("deny"), true),
            ("security.sandbox", text("off"), false),
            ("security.workspace_only", Setting::Bool(false), false),
            ("security.forbidden_commands", words(&["scp"]), true),
            ("security.forbidden_commands", words(&["rm"]), false),
            ("security.forbidden_commands", words(&[]), false),
            ("security.allow_domains", Setting::Words(vec!["evil.example".into()]), false),
            ("editor.abbreviations", Setting::WordMap([("ls".into(), "evil".into())].into()), false),
            ("tools.http_post", Setting::Bool(true), false),
            ("tools.http_ports", Setting::Ports(vec![443]), true),
            ("tools.http_ports", Setting::Ports(vec![443, 22]), false),
            ("tools_allow.agent", words(&["time"]), true),
            ("tools_allow.shell", words(&["time"]), true),
            ("tools_allow.shell", words(&[]), true),
            ("tools_allow.shell", words(&["time", "http"]), false),
            ("limits.tool_rounds", Setting::Integer(3), true),
            ("limits.tool_rounds", Setting::Integer(26), false),
        ] {
            let mut problems = Problems::of("f");
            let project = Project::of(Checked { tree: tree(&[(path, value)]), hooks: FoundHooks::default() });
            let result = tighten(&own, &defaults, project, &mut problems);
            let shown = problems.finish();
            assert_eq!(result.changed.len() == 1, holds, "{path} {shown:?}");
            assert_eq!(shown.is_empty(), holds, "{path} {shown:?}");
            assert_eq!(result.own != own, holds, "{path}");
        }
    }

    #[test]
    fn the_rules_of_a_table_become_stricter_one_by_one() {
        let rules = |rules: &[(&str, &str)]| {
            Setting::WordMap(rules.iter().map(|(name, word)| ((*name).to_owned(), (*word).to_owned())).collect())
        };
        let table = key("mcp.servers.one.tools");
        let held = rules(&[("read", "run"), ("write", "ask"), ("list", "run")]);
        let own = Own::chosen(Tree::from([(table.clone(), held.clone())]));
        let merged = |wanted: &[(&str, &str)]| {
            let mut problems = Problems::of("f");
            let checked = Checked { tree: Tree::from([(table.clone(), rules(wanted))]), hooks: FoundHooks::default() };
            let result = tighten(&own, &Tree::new(), Project::of(checked), &mut problems);
            let shown: Vec<String> = problems.finish().iter().map(|it| format!("{}: {}", it.key, it.message)).collect();
            assert_eq!(result.changed.is_empty(), result.own == own);
            (result.own.tree()[&table].clone(), shown)
        };
        let (now, shown) = merged(&[("read", "ask"), ("write", "run"), ("new", "run"), ("other", "deny")]);
        assert_eq!(now, rules(&[("read", "ask"), ("write", "ask"), ("list", "run"), ("other", "deny")]));
        let refused = |name: &str| {
            format!(
                "mcp.servers.one.tools.{name}: refused: a project can't loosen this to run; only your own config can"
            )
        };
        assert_eq!(shown, [refused("new"), refused("write")]);
        assert_eq!(merged(&[("read", "run")]), (held.clone(), Vec::new()), "nothing is changed");
        assert_eq!(merged(&[("write", "run")]).0, held);
        // The list of changes shows it before anything runs.
        for (path, source, what) in [
            ("mcp.servers.one.tools.write", "'run'", Some("loosen this to run")),
            ("mcp.servers.one.tools.new", "'run'", Some("loosen this to run")),
            ("mcp.servers.one.tools.new", "'ask'", None),
            ("mcp.servers.one.tools.read", "'deny'", None),
        ] {
            assert_eq!(refused_as(&key(path), source, &own, &Tree::new()).as_deref(), what, "{path} = {source}");
        }
    }

    #[test]
    fn a_list_grows_and_known_entries_are_no_change() {
        let own = Own::chosen(tree(&[("shell.program", Setting::Path("/bin/zsh".into()))]));
        let defaults = tree(&[("shell.known_commands", Setting::Words(vec!["a".into()]))]);
        let project = Project::of(Checked {
            tree: tree(&[
                ("shell.program", Setting::Path("/bin/zsh".into())),
                ("shell.known_commands", Setting::Words(vec!["b".into()])),
            ]),
            hooks: FoundHooks::default(),
        });
        let mut problems = Problems::of("f");
        let result = tighten(&own, &defaults, project, &mut problems);
        assert_eq!(problems.finish(), []);
        let words = Setting::Words(vec!["a".into(), "b".into()]);
        assert_eq!(result.own.tree()[&key("shell.known_commands")], words);
        assert_eq!(result.changed, [key("shell.known_commands")]);
    }

    #[test]
    fn every_setting_has_the_rights_of_a_project() {
        // A row that grants something is refused before its value is read; the author of a new row has to choose its policy
        // deliberately.
        for path in [
            "shell.program",
            "history.dir",
            "models.x.key",
            "models.x.key_file",
            "editor.abbreviations.gs",
            "route",
            "hooks.route",
            "keys.f7.meta",
            "keys.f7.shell",
            "keys.ctrl-t",
        ] {
            assert!(refused(&key(path)).is_some(), "{path}");
        }
        for path in [
            "prompt",
            "context.max_turns",
            "hooks.prompt",
            "models.x.endpoint",
            "keys.f5",
            "keys.f5.insert",
            "nonsense",
        ] {
            assert!(refused(&key(path)).is_none(), "{path}");
        }
    }
}
