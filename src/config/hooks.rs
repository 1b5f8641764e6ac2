//! The table of hooks, the values that a config may put into them, and the notation of keys. It runs nothing (`engine`
//! does) and must not know a hook's purpose.

use std::collections::BTreeMap;
use std::fmt;

use mlua::{Function, Value};

use super::schema::Project;

/// The kind of value under a hook's name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HookKind {
    /// A function that ReedClaw calls.
    Function,
    /// A table from keys to their actions.
    Keys,
    /// A table of the user's own meta commands.
    Metas,
    /// A setting like any other, which needs no function; it is in the table of settings.
    Setting,
}

/// One hook.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct HookRow {
    /// Its name in the config; the function may be at the top level or in `hooks`.
    pub name: &'static str,
    /// The kind of value.
    pub kind: HookKind,
    /// Its form, with its arguments.
    pub usage: &'static str,
    /// The values that it may return.
    pub gives: &'static str,
    /// Its purpose, in one line.
    pub doc: &'static str,
    /// `true` if a project's file may have it.
    pub project: Project,
}

/// Every hook.
pub const HOOKS: &[HookRow] = &[
    hook(
        "prompt",
        "function(ctx) return TEXT end",
        "a string, or nil for the prompt that `prompt` chooses",
        "the text before the glyph",
        Project::May,
    ),
    hook(
        "right_prompt",
        "function(ctx) return TEXT end",
        "a string, or nil for none",
        "the text at the right edge",
        Project::May,
    ),
    hook(
        "route",
        "function(line, ctx) return \"shell\" end",
        "\"shell\", \"ask\", or nil for the rules",
        "where a line without a prefix goes; asked while it is typed",
        Project::Not("say where a line goes"),
    ),
    hook(
        "complete",
        "function(line, pos, ctx) return { \"word\" } end",
        "a list of strings or of { value = …, description = … }, or nil for ReedClaw's own",
        "candidates at the cursor, `pos` bytes after the start; the chosen one replaces the word there",
        Project::May,
    ),
    hook(
        "on_command",
        "function(cmd, outcome) end",
        "nothing, or a string that is shown",
        "called after each command; outcome has status, duration_ms, directory",
        Project::May,
    ),
    hook(
        "on_directory",
        "function(path) end",
        "nothing, or a string that is shown",
        "called for each new working directory",
        Project::May,
    ),
    hook(
        "on_answer",
        "function(text) end",
        "nothing, or a string that is shown",
        "called for each complete answer of a model",
        Project::May,
    ),
    HookRow {
        name: "keys",
        kind: HookKind::Keys,
        usage: "{ [\"ctrl-g\"] = { insert = \"text\" } }",
        gives: "{ insert = TEXT }, { meta = \":…\" } or function(ctx), which returns an action",
        doc: "what a key does: ctrl-, alt- or shift- and a character or a name (f5, left, home …)",
        project: Project::May,
    },
    HookRow {
        name: "meta",
        kind: HookKind::Metas,
        usage: "{ deploy = { help = \"…\", run = function(args) return { exec = \"…\" } end } }",
        gives: "`run` returns an action",
        doc: "your own meta commands: `:deploy now` calls run(\"now\")",
        project: Project::May,
    },
    HookRow {
        name: "editor.abbreviations",
        kind: HookKind::Setting,
        usage: "{ gs = \"git status\" }",
        gives: "abbreviations and their expansions",
        doc: "words that expand when a space or Enter follows",
        project: Project::Not("put commands into your lines"),
    },
    HookRow {
        name: "models.NAME.aliases",
        kind: HookKind::Setting,
        usage: "{ \"fast\", \"f\" }",
        gives: "a list of words",
        doc: "other names of a model",
        project: Project::May,
    },
];

/// The actions of a key or a meta command, for the reference.
pub const ACTIONS: &[(&str, &str)] = &[
    ("{ exec = CMD }", "runs CMD in the live shell, as if it had been typed; not for a project's file"),
    ("{ insert = TEXT }", "puts TEXT into the line, to be read before Enter"),
    ("{ ask = TEXT }", "asks the model; not for a project's file"),
    ("{ print = TEXT }", "shows TEXT, and so does a plain string"),
    ("nil", "nothing"),
];

/// The fields of every hook's `ctx`, for the reference.
pub const CONTEXT: &[(&str, &str)] = &[
    ("ctx.path", "the working directory"),
    ("ctx.directory", "the same with `~` for home"),
    ("ctx.branch", "the git branch, or nil"),
    ("ctx.status", "the status of the last command"),
    ("ctx.duration_ms", "how long it took"),
    ("ctx.model", "the model that answers, or nil"),
    ("ctx.columns", "the terminal's width"),
    ("ctx.line", "the line that is being typed (keys only); empty if it begins with a space"),
];

/// ReedClaw's own keys, which a project's file can't rebind. A test compares this with the line editor's table.
pub const OWN_KEYS: [&str; 9] =
    ["ctrl-t", "tab", "shift-tab", "ctrl-r", "alt-enter", "shift-enter", "alt-n", "alt-s", "ctrl-x"];
/// Keys that can't be bound to anything else: a shell without them would trap its user.
const FIXED_KEYS: [&str; 11] =
    ["enter", "ctrl-c", "ctrl-d", "ctrl-m", "ctrl-j", "ctrl-i", "ctrl-h", "ctrl-[", "escape", "tab", "f35"];

const fn hook(
    name: &'static str,
    usage: &'static str,
    gives: &'static str,
    doc: &'static str,
    project: Project,
) -> HookRow {
    HookRow { name, kind: HookKind::Function, usage, gives, doc, project }
}

/// Finds the hook of a name that holds a function.
pub(super) fn function_hook(name: &str) -> Option<&'static HookRow> {
    HOOKS.iter().find(|row| row.kind == HookKind::Function && row.name == name)
}

/// The names of the hooks that hold a function, for a message.
pub(super) fn names() -> String {
    let functions = HOOKS.iter().filter(|row| row.kind == HookKind::Function).map(|row| row.name);
    functions.collect::<Vec<_>>().join(", ")
}

/// A key as a config names it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct KeyName {
    /// With Ctrl.
    pub ctrl: bool,
    /// With Alt.
    pub alt: bool,
    /// With Shift.
    pub shift: bool,
    /// The key.
    pub code: KeyCode,
}

/// The key without the modifiers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum KeyCode {
    /// A character, lower case.
    Character(char),
    /// F1 to F24.
    Function(u8),
    /// A key with a name: one of `NAMED_KEYS`.
    Named(&'static str),
}

/// Names of keys that aren't characters.
pub const NAMED_KEYS: [&str; 15] = [
    "enter",
    "tab",
    "escape",
    "space",
    "backspace",
    "insert",
    "delete",
    "home",
    "end",
    "pageup",
    "pagedown",
    "up",
    "down",
    "left",
    "right",
];

impl KeyName {
    /// Reads `ctrl-g`, `alt-shift-f5`, `ctrl-space`.
    ///
    /// # Errors
    /// Its problem, in words that follow the key.
    pub fn parse(text: &str) -> Result<Self, &'static str> {
        let lower = text.to_lowercase();
        let mut rest = lower.as_str();
        let (mut ctrl, mut alt, mut shift) = (false, false, false);
        loop {
            let flag = match rest.split_once('-') {
                Some(("ctrl", after)) if !after.is_empty() => (&mut ctrl, after),
                Some(("alt", after)) if !after.is_empty() => (&mut alt, after),
                Some(("shift", after)) if !after.is_empty() => (&mut shift, after),
                _ => break,
            };
            *flag.0 = true;
            rest = flag.1;
        }
        let number = rest.strip_prefix('f').and_then(|digits| digits.parse::<u8>().ok());
        let mut characters = rest.chars();
        let code = match (number, NAMED_KEYS.iter().find(|name| **name == rest)) {
            (Some(number @ 1..=24), _) => KeyCode::Function(number),
            (_, Some(name)) => KeyCode::Named(name),
            _ => match (characters.next(), characters.next()) {
                (Some(one), None) if !one.is_control() && !one.is_whitespace() => KeyCode::Character(one),
                _ => return Err("is not a key such as ctrl-g, alt-left or f5"),
            },
        };
        let key = Self { ctrl, alt, shift, code };
        if FIXED_KEYS.contains(&key.to_string().as_str()) {
            return Err("is a key that a shell can't do without");
        }
        let types = !ctrl && !alt && matches!(code, KeyCode::Character(_) | KeyCode::Named("space" | "backspace"));
        if types { Err("types itself; add ctrl- or alt-") } else { Ok(key) }
    }

    /// Returns whether this is one of ReedClaw's own keys.
    #[must_use]
    pub fn is_own(&self) -> bool {
        OWN_KEYS.contains(&self.to_string().as_str())
    }
}

impl fmt::Display for KeyName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (held, name) in [(self.ctrl, "ctrl-"), (self.alt, "alt-"), (self.shift, "shift-")] {
            if held {
                f.write_str(name)?;
            }
        }
        match self.code {
            KeyCode::Character(character) => write!(f, "{character}"),
            KeyCode::Function(number) => write!(f, "f{number}"),
            KeyCode::Named(name) => f.write_str(name),
        }
    }
}

/// The effect of a key that the config binds.
#[derive(Clone)]
pub(super) enum KeyHook {
    Insert(String),
    Meta(String),
    Shell(String),
    Call(Function),
}

/// A meta command that the config defines.
#[derive(Clone)]
pub(super) struct MetaHook {
    pub(super) help: String,
    pub(super) run: Function,
}

/// The hooks of a config, checked.
#[derive(Default)]
pub(super) struct FoundHooks {
    pub(super) functions: BTreeMap<&'static str, Function>,
    pub(super) keys: BTreeMap<KeyName, KeyHook>,
    pub(super) metas: BTreeMap<String, MetaHook>,
}

impl FoundHooks {
    pub(super) fn is_empty(&self) -> bool {
        self.functions.is_empty() && self.keys.is_empty() && self.metas.is_empty()
    }

    /// The names of all hooks, as `config show` writes them.
    pub(super) fn names(&self) -> Vec<Vec<String>> {
        let under = |table: &str, name: String| vec![table.to_owned(), name];
        let functions = self.functions.keys().map(|name| under("hooks", (*name).to_owned()));
        let keys = self.keys.keys().map(|name| under("keys", name.to_string()));
        functions.chain(keys).chain(self.metas.keys().map(|name| under("meta", name.clone()))).collect()
    }
}

/// The value as a Lua function, if it is one.
pub(super) fn function(value: &Value) -> Option<Function> {
    match value {
        Value::Function(function) => Some(function.clone()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_read_and_the_shells_own_stay() {
        for (text, want) in [
            ("ctrl-g", "ctrl-g"),
            ("Ctrl-G", "ctrl-g"),
            ("shift-ctrl-alt-x", "ctrl-alt-shift-x"),
            ("f5", "f5"),
            ("alt-f12", "alt-f12"),
            ("alt--", "alt--"),
            ("ctrl-space", "ctrl-space"),
            ("alt-left", "alt-left"),
            ("ctrl-t", "ctrl-t"),
        ] {
            assert_eq!(KeyName::parse(text).map(|key| key.to_string()).as_deref(), Ok(want), "{text}");
        }
        for text in ["ctrl-c", "ctrl-d", "enter", "tab", "x", "space", "f35", "f99", "ctrl-", "ctrl-foo", "", "ctrl- "]
        {
            assert!(KeyName::parse(text).is_err(), "{text}");
        }
        assert!(KeyName::parse("ctrl-t").is_ok_and(|key| key.is_own()));
        assert!(KeyName::parse("ctrl-g").is_ok_and(|key| !key.is_own()));
    }

    #[test]
    fn each_hook_has_its_words() {
        for (index, row) in HOOKS.iter().enumerate() {
            assert!(!row.doc.is_empty() && !row.gives.is_empty() && !row.usage.is_empty());
            assert!(HOOKS[..index].iter().all(|other| other.name != row.name));
            let is_setting = super::super::ROWS.iter().any(|setting| setting.path == row.name);
            assert!((row.kind == HookKind::Setting) == is_setting || row.name == "prompt", "{}", row.name);
        }
    }
}
