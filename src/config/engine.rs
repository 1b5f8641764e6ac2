//! Runs the hooks, each call within its limits. An interpreter stays alive only if a config has hooks. A hook that
//! fails is off until the config is read again. The answer of a project's hook has a type of its own.

use std::collections::BTreeSet;
use std::fmt;
use std::marker::PhantomData;

use mlua::{Function, IntoLuaMulti, Lua, MultiValue, Table, Value};

use super::hooks::{FoundHooks, KeyHook, KeyName};
use super::overlay::tighten::ProjectHooks;
use super::reading::problem::{quoted, shorten};
use crate::lua::{HOOK_TIME, RunError, Sandbox};
use crate::proto::{CommandOutcome, Route};

/// Longest text that a hook returns, in bytes.
pub(super) const TEXT_BYTES_MAX: usize = 64 * 1024;
/// Most candidates of one completion.
pub(super) const CANDIDATES_MAX: usize = 2_000;
/// Longest message of a failure, in characters.
const MESSAGE_CHARS_MAX: usize = 200;

/// The session's facts for a hook.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HookContext {
    /// The working directory.
    pub path: String,
    /// The same, with `~` for home.
    pub directory: String,
    /// The current git branch.
    pub branch: Option<String>,
    /// The status of the last command.
    pub status: i32,
    /// The duration of the last command, in milliseconds.
    pub duration_ms: u64,
    /// The model that answers.
    pub model: Option<String>,
    /// The terminal's width.
    pub columns: usize,
    /// The line that is being typed.
    pub line: Option<String>,
}

/// The action that a key or meta command of the user's own config requests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Nothing.
    Nothing,
    /// Run a command in the live shell.
    Exec(String),
    /// Put text into the line.
    Insert(String),
    /// Ask the model.
    Ask(String),
    /// Show text.
    Print(String),
}

/// The action that a project's key or meta command requests: nothing that runs or is sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ProjectAction {
    /// Nothing.
    Nothing,
    /// Put text into the line, for a person to read.
    Insert(String),
    /// Show text.
    Print(String),
}

impl From<ProjectAction> for Action {
    fn from(action: ProjectAction) -> Self {
        match action {
            ProjectAction::Nothing => Self::Nothing,
            ProjectAction::Insert(text) => Self::Insert(text),
            ProjectAction::Print(text) => Self::Print(text),
        }
    }
}

/// A candidate that a completion hook returned.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Suggested {
    /// The replacement of the word.
    pub value: String,
    /// Its description.
    pub description: Option<String>,
}

/// An event that a hook receives.
#[derive(Clone, Copy, Debug)]
pub enum HookEvent<'a> {
    /// A command has ended.
    Command(&'a CommandOutcome),
    /// The working directory has changed.
    Directory(&'a str),
    /// A model's answer is complete.
    Answer(&'a str),
}

impl HookEvent<'_> {
    fn hook(self) -> &'static str {
        match self {
            Self::Command(_) => "on_command",
            Self::Directory(_) => "on_directory",
            Self::Answer(_) => "on_answer",
        }
    }
}

/// The failure of a hook, reported once, since the hook is off afterwards.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HookFailure {
    file: String,
    hook: String,
    line: Option<u32>,
    message: String,
    is_off: bool,
}

impl fmt::Display for HookFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.file)?;
        if let Some(line) = self.line {
            write!(f, ":{line}")?;
        }
        write!(f, ": {}: {}", self.hook, self.message)?;
        if self.is_off { f.write_str("; it is off until :config reload") } else { Ok(()) }
    }
}

/// The effect of a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KeyDoes {
    /// Puts text into the line.
    Insert(String),
    /// Carries out a meta line.
    Meta(String),
    /// Runs a command of the live shell on the line, with `READLINE_LINE` and `READLINE_POINT`.
    Shell(String),
    /// Calls a function.
    Call,
}

/// The actions that hooks return; the type says whose hooks they are.
pub trait Answer: Sized {
    /// Converts an action.
    ///
    /// # Errors
    /// The action that needs the user's own config, in words that follow "a project can't".
    fn take(action: Action) -> Result<Self, &'static str>;
}

impl Answer for Action {
    fn take(action: Action) -> Result<Self, &'static str> {
        Ok(action)
    }
}

impl Answer for ProjectAction {
    fn take(action: Action) -> Result<Self, &'static str> {
        match action {
            Action::Nothing => Ok(Self::Nothing),
            Action::Insert(text) => Ok(Self::Insert(text)),
            Action::Print(text) => Ok(Self::Print(text)),
            Action::Exec(_) => Err("run a command by a hook"),
            Action::Ask(_) => Err("ask the model by a hook"),
        }
    }
}

/// The hooks of one file.
pub struct HookSet<A> {
    engine: Option<Engine>,
    answers: PhantomData<fn() -> A>,
}

/// The hooks of the user's own config.
pub type Hooks = HookSet<Action>;
/// The hooks of a project's file.
pub type OverlayHooks = HookSet<ProjectAction>;

struct Engine {
    sandbox: Sandbox,
    found: FoundHooks,
    file: String,
    off: BTreeSet<String>,
}

impl<A> Default for HookSet<A> {
    fn default() -> Self {
        Self { engine: None, answers: PhantomData }
    }
}

impl<A> fmt::Debug for HookSet<A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("HookSet").field(&self.engine.as_ref().map(|engine| engine.found.names())).finish()
    }
}

impl Hooks {
    /// Holds the interpreter for the session if there are hooks, and drops it otherwise.
    pub(super) fn own(sandbox: Sandbox, found: FoundHooks, file: &str) -> Self {
        Self::of(sandbox, found, file)
    }
}

impl OverlayHooks {
    /// Holds the interpreter of a project's file if the file has hooks.
    pub(super) fn project(sandbox: Sandbox, hooks: ProjectHooks, file: &str) -> Self {
        Self::of(sandbox, hooks.0, file)
    }
}

impl<A: Answer> HookSet<A> {
    fn of(sandbox: Sandbox, found: FoundHooks, file: &str) -> Self {
        let engine = Engine { sandbox, found, file: file.to_owned(), off: BTreeSet::new() };
        Self { engine: Some(engine).filter(|engine| !engine.found.is_empty()), answers: PhantomData }
    }

    /// Returns whether the hook is a function that hasn't been switched off.
    #[must_use]
    pub fn has(&self, name: &str) -> bool {
        self.engine.as_ref().is_some_and(|engine| engine.function(name).is_some())
    }

    /// Calls `prompt` or `right_prompt`.
    ///
    /// # Errors
    /// The hook failed; it is off now.
    pub fn text(&mut self, name: &'static str, context: &HookContext) -> Result<Option<String>, HookFailure> {
        self.call(
            name,
            |lua| Ok((context_table(lua, context)?,)),
            |value| match value {
                Value::Nil => Ok(None),
                other => text(&other).map(Some).ok_or("a string or nil"),
            },
        )
    }

    /// Calls `route` for a line; `None` leaves the decision to the rules.
    ///
    /// # Errors
    /// The hook failed; it is off now.
    pub fn route(&mut self, line: &str, context: &HookContext) -> Result<Option<Route>, HookFailure> {
        self.call(
            "route",
            |lua| Ok((line, context_table(lua, context)?)),
            |value| match &value {
                Value::Nil => Ok(None),
                other => match text(other).as_deref() {
                    Some("shell") => Ok(Some(Route::Shell)),
                    Some("ask") => Ok(Some(Route::Ask)),
                    _ => Err("\"shell\", \"ask\" or nil"),
                },
            },
        )
    }

    /// Calls `complete` for the words that can continue a line at `position_bytes`; `None` leaves it to ReedClaw's own
    /// completion.
    ///
    /// # Errors
    /// The hook failed; it is off now.
    pub fn complete(
        &mut self,
        line: &str,
        position_bytes: usize,
        context: &HookContext,
    ) -> Result<Option<Vec<Suggested>>, HookFailure> {
        let arguments = |lua: &Lua| Ok((line, position_bytes, context_table(lua, context)?));
        self.call("complete", arguments, |value| match value {
            Value::Nil => Ok(None),
            Value::Table(list) => suggestions(&list).map(Some),
            _ => Err(SUGGESTIONS),
        })
    }

    /// Reports an event to its hook, which may return text to show.
    ///
    /// # Errors
    /// The hook failed; it is off now.
    pub fn tell(&mut self, event: HookEvent<'_>) -> Result<Option<String>, HookFailure> {
        let arguments = |lua: &Lua| -> mlua::Result<MultiValue> {
            match event {
                HookEvent::Command(outcome) => {
                    (outcome.command.as_str(), outcome_table(lua, outcome)?).into_lua_multi(lua)
                }
                HookEvent::Directory(path) => path.into_lua_multi(lua),
                HookEvent::Answer(text) => text.into_lua_multi(lua),
            }
        };
        self.call(event.hook(), arguments, |value| match value {
            Value::Nil => Ok(None),
            other => text(&other).map(Some).ok_or("a string or nil"),
        })
    }

    /// The keys with their effects.
    #[must_use]
    pub fn keys(&self) -> Vec<(KeyName, KeyDoes)> {
        let does = |hook: &KeyHook| match hook {
            KeyHook::Insert(text) => KeyDoes::Insert(text.clone()),
            KeyHook::Meta(line) => KeyDoes::Meta(line.clone()),
            KeyHook::Shell(command) => KeyDoes::Shell(command.clone()),
            KeyHook::Call(_) => KeyDoes::Call,
        };
        let keys = self.engine.iter().flat_map(|engine| &engine.found.keys);
        keys.map(|(key, hook)| (key.clone(), does(hook))).collect()
    }

    /// The meta commands, with their help.
    #[must_use]
    pub fn metas(&self) -> Vec<(String, String)> {
        let metas = self.engine.iter().flat_map(|engine| &engine.found.metas);
        metas.map(|(name, meta)| (name.clone(), meta.help.clone())).collect()
    }

    /// Calls the function of a key; `None` if the key has none.
    ///
    /// # Errors
    /// The hook failed and is off now, or it asked for something that a project can't have.
    pub fn press(&mut self, key: &KeyName, context: &HookContext) -> Option<Result<A, HookFailure>> {
        let engine = self.engine.as_mut()?;
        let Some(KeyHook::Call(function)) = engine.found.keys.get(key).cloned() else { return None };
        let name = format!("keys[\"{key}\"]");
        Some(engine.act(name, &function, |lua| Ok((context_table(lua, context)?,))))
    }

    /// Runs a meta command of the config; `None` if none has that name.
    ///
    /// # Errors
    /// The hook failed and is off now, or it asked for something that a project can't have.
    pub fn meta(&mut self, name: &str, argument: &str) -> Option<Result<A, HookFailure>> {
        let engine = self.engine.as_mut()?;
        let function = engine.found.metas.get(name)?.run.clone();
        Some(engine.act(format!("meta.{name}"), &function, |_| Ok((argument,))))
    }

    fn call<T: Default, Args: IntoLuaMulti>(
        &mut self,
        name: &'static str,
        arguments: impl FnOnce(&Lua) -> mlua::Result<Args>,
        read: impl FnOnce(Value) -> Result<T, &'static str>,
    ) -> Result<T, HookFailure> {
        let Some(engine) = &mut self.engine else { return Ok(T::default()) };
        let Some(function) = engine.function(name).cloned() else { return Ok(T::default()) };
        engine.run(name.to_owned(), &function, arguments, read)
    }
}

impl Engine {
    fn function(&self, name: &str) -> Option<&Function> {
        self.found.functions.get(name).filter(|_| !self.off.contains(name))
    }

    /// Calls a function within the limits and reads its result. A function that fails is off afterwards.
    fn run<T, Args: IntoLuaMulti>(
        &mut self,
        name: String,
        function: &Function,
        arguments: impl FnOnce(&Lua) -> mlua::Result<Args>,
        read: impl FnOnce(Value) -> Result<T, &'static str>,
    ) -> Result<T, HookFailure> {
        let lua = self.sandbox.lua();
        let called = self.sandbox.within(HOOK_TIME, || function.call::<Value>(arguments(lua)?));
        let (line, message) = match called {
            Err(RunError { line, message }) => (line, message),
            Ok(value) => {
                let value_shown = shown(&value);
                match read(value) {
                    Ok(read) => return Ok(read),
                    Err(wanted) => (None, format!("gave {value_shown}, not {wanted}")),
                }
            }
        };
        let message = shorten(&message, MESSAGE_CHARS_MAX);
        self.off.insert(name.clone());
        Err(HookFailure { file: self.file.clone(), hook: name, line, message, is_off: true })
    }

    /// Calls a function that returns an action.
    fn act<A: Answer, Args: IntoLuaMulti>(
        &mut self,
        name: String,
        function: &Function,
        arguments: impl FnOnce(&Lua) -> mlua::Result<Args>,
    ) -> Result<A, HookFailure> {
        if self.off.contains(&name) {
            let message = "it failed before".to_owned();
            return Err(HookFailure { file: self.file.clone(), hook: name, line: None, message, is_off: true });
        }
        let action = self.run(name.clone(), function, arguments, |value| action(&value))?;
        A::take(action).map_err(|what| {
            let message = format!("refused: a project can't {what}; only your own config can");
            HookFailure { file: self.file.clone(), hook: name, line: None, message, is_off: false }
        })
    }
}

fn context_table(lua: &Lua, context: &HookContext) -> mlua::Result<Table> {
    let table = lua.create_table()?;
    table.raw_set("path", context.path.as_str())?;
    table.raw_set("directory", context.directory.as_str())?;
    table.raw_set("branch", context.branch.as_deref())?;
    table.raw_set("status", context.status)?;
    table.raw_set("duration_ms", context.duration_ms)?;
    table.raw_set("model", context.model.as_deref())?;
    table.raw_set("columns", context.columns)?;
    table.raw_set("line", context.line.as_deref())?;
    Ok(table)
}

fn outcome_table(lua: &Lua, outcome: &CommandOutcome) -> mlua::Result<Table> {
    let table = lua.create_table()?;
    table.raw_set("status", outcome.status)?;
    table.raw_set("duration_ms", u64::try_from(outcome.duration.as_millis()).unwrap_or(u64::MAX))?;
    table.raw_set("directory", outcome.cwd.as_ref().map(|cwd| cwd.display().to_string()))?;
    Ok(table)
}

const ACTION: &str = "nil, a string, or one of { exec = … }, { insert = … }, { ask = … }, { print = … }";
const SUGGESTIONS: &str = "a list of strings or of { value = …, description = … }, or nil";

fn action(value: &Value) -> Result<Action, &'static str> {
    if let Some(text) = text(value) {
        return Ok(Action::Print(text));
    }
    let table = match value {
        Value::Nil => return Ok(Action::Nothing),
        Value::Table(table) => table,
        _ => return Err(ACTION),
    };
    let mut found = None;
    for (name, make) in [
        ("exec", Action::Exec as fn(String) -> Action),
        ("insert", Action::Insert),
        ("ask", Action::Ask),
        ("print", Action::Print),
    ] {
        match table.raw_get::<Value>(name) {
            Ok(Value::Nil) => {}
            Ok(value) if found.is_none() => found = Some(make(text(&value).ok_or(ACTION)?)),
            _ => return Err(ACTION),
        }
    }
    found.ok_or(ACTION)
}

fn suggestions(list: &Table) -> Result<Vec<Suggested>, &'static str> {
    let mut found = Vec::new();
    for index in 1..=CANDIDATES_MAX {
        let suggested = match list.raw_get::<Value>(index).map_err(|_| SUGGESTIONS)? {
            Value::Nil => break,
            Value::Table(entry) => Suggested {
                value: entry.raw_get::<Value>("value").ok().and_then(|value| text(&value)).ok_or(SUGGESTIONS)?,
                description: entry.raw_get::<Value>("description").ok().and_then(|value| text(&value)),
            },
            value => Suggested { value: text(&value).ok_or(SUGGESTIONS)?, description: None },
        };
        found.push(suggested);
    }
    Ok(found)
}

/// The text of a Lua string, if it is UTF-8 and not longer than `TEXT_BYTES_MAX`.
fn text(value: &Value) -> Option<String> {
    let Value::String(text) = value else { return None };
    Some(text.to_str().ok()?.to_owned()).filter(|text| text.len() <= TEXT_BYTES_MAX)
}

fn shown(value: &Value) -> String {
    match value {
        Value::String(text) if text.as_bytes().len() > TEXT_BYTES_MAX => "a very long string".into(),
        Value::String(text) => quoted(&text.to_string_lossy()),
        Value::Integer(number) => number.to_string(),
        Value::Number(number) => number.to_string(),
        other => format!("a {}", other.type_name()),
    }
}
