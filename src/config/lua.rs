//! The sandbox that a config runs in: Luau without files, processes or network, with bounds on memory and time.
//! It knows nothing of settings.

use std::os::unix::ffi::OsStrExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use mlua::chunk::ChunkMode;
use mlua::{Error, Lua, LuaOptions, LuaString, StdLib, Table, Value, VmState};
use nix::sys::resource::{UsageWho, getrusage};

use super::expand::Env;
use super::problem::shorten;

/// Memory of a config. The largest honest one needs some hundred KiB; this still loads at once.
pub(super) const MEMORY_BYTES_MAX: usize = 32 * 1024 * 1024;
/// Time limit for loading a config. It runs before the first prompt, for which people wait.
pub(super) const LOAD_TIME: TimeLimit = TimeLimit { cpu: Duration::from_millis(50), wall: Duration::from_secs(2) };
/// Time limit for one call of a hook, which delays the drawing after a key.
pub(super) const HOOK_TIME: TimeLimit = TimeLimit { cpu: Duration::from_millis(5), wall: Duration::from_millis(250) };
/// Longest product of text and word in a plain search, which Luau can't interrupt: about 50 ms at worst.
const SEARCH_COST_MAX: usize = 64 * 1024 * 1024;
/// Longest message of Lua's that is shown, in characters.
const MESSAGE_CHARS_MAX: usize = 200;
/// The file's name in Lua's messages; the caller knows its true name.
const CHUNK: &str = "config";

/// Names of the base library that could reach outside, look inside or print.
const CLOSED: &[&str] =
    &["print", "require", "loadstring", "collectgarbage", "getfenv", "setfenv", "newproxy", "dofile", "loadfile"];

/// Variables that a project's file may read: what its commands are written for, and nothing that may be a secret.
pub(super) const PROJECT_VARIABLES: [&str; 16] = [
    "HOME",
    "USER",
    "LOGNAME",
    "SHELL",
    "LANG",
    "LC_ALL",
    "LC_CTYPE",
    "TERM",
    "COLORTERM",
    "NO_COLOR",
    "TZ",
    "EDITOR",
    "VISUAL",
    "XDG_CONFIG_HOME",
    "XDG_DATA_HOME",
    "XDG_CACHE_HOME",
];

/// The limits of a run.
#[derive(Clone, Copy, Debug)]
pub(super) struct TimeLimit {
    /// Processor time.
    pub(super) cpu: Duration,
    /// The clock on the wall, more generous, so that a busy machine doesn't take the config away.
    pub(super) wall: Duration,
}

/// The part of the environment that a project's file sees.
pub(super) fn project_env(env: &Env) -> Env {
    let known = |name: &std::ffi::OsString| PROJECT_VARIABLES.iter().any(|variable| name == *variable);
    env.iter().filter(|(name, _)| known(name)).map(|(name, value)| (name.clone(), value.clone())).collect()
}

/// Why a config didn't run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct RunError {
    /// The line, counted from 1, if Lua reports one.
    pub(super) line: Option<u32>,
    /// The error.
    pub(super) message: String,
}

/// One sandboxed interpreter. It is dropped after the load, unless its functions are hooks.
pub(super) struct Sandbox {
    lua: Lua,
}

impl Sandbox {
    /// Builds an interpreter whose `os.getenv` reads `env`.
    pub(super) fn new(env: &Env) -> Result<Self, RunError> {
        Ok(Self { lua: Self::build(env).map_err(|error| explain(&error, None))? })
    }

    fn build(env: &Env) -> mlua::Result<Lua> {
        let libs = StdLib::TABLE | StdLib::STRING | StdLib::MATH | StdLib::OS | StdLib::UTF8 | StdLib::BIT;
        let lua = Lua::new_with(libs, LuaOptions::default())?;
        let globals = lua.globals();
        for name in CLOSED {
            let closed = lua.create_function(move |_, ()| -> mlua::Result<()> {
                Err(Error::runtime(format!("{name} is not available in a config")))
            })?;
            globals.raw_set(*name, closed)?;
        }
        let os: Table = globals.raw_get("os")?;
        let env = env.clone();
        let getenv = lua.create_function(move |lua, name: LuaString| {
            let name: &[u8] = &name.as_bytes();
            match env.get(std::ffi::OsStr::from_bytes(name)) {
                Some(value) => Ok(Value::String(lua.create_string(value.as_bytes())?)),
                None => Ok(Value::Nil),
            }
        })?;
        os.raw_set("getenv", getenv)?;
        bound_searches(&lua, &globals)?;
        lua.set_memory_limit(MEMORY_BYTES_MAX)?;
        lua.sandbox(true)?;
        Ok(lua)
    }

    /// Runs a script of the user's within the limits and returns its first value.
    pub(super) fn run(&self, text: &str) -> Result<Value, RunError> {
        self.within(LOAD_TIME, || self.run_unbounded(text))
    }

    /// Runs something of the user's within a limit of time.
    pub(super) fn within<T>(&self, limit: TimeLimit, work: impl FnOnce() -> mlua::Result<T>) -> Result<T, RunError> {
        let started = Instant::now();
        let cpu_started = cpu_time();
        let has_expired = Arc::new(AtomicBool::new(false));
        let expired = Arc::clone(&has_expired);
        self.lua.set_interrupt(move |lua| {
            let mut over = expired.load(Ordering::Relaxed);
            if !over && started.elapsed() > limit.cpu {
                over = cpu_time().saturating_sub(cpu_started) > limit.cpu || started.elapsed() > limit.wall;
                expired.store(over, Ordering::Relaxed);
            }
            // Once it has expired every step fails, so that a `pcall` gains one step and no more.
            if !over {
                return Ok(VmState::Continue);
            }
            let line = lua.inspect_stack(0, |frame| frame.current_line()).flatten();
            Err(Error::runtime(line.map_or_else(String::new, |line| format!("{CHUNK}:{line}: out of time"))))
        });
        let result = work();
        self.lua.remove_interrupt();
        let expired = has_expired.load(Ordering::Relaxed).then_some(limit);
        // A script that caught the end of its time was interrupted somewhere: its result can't be trusted.
        match (result, expired) {
            (Ok(value), None) => Ok(value),
            (Ok(_), Some(limit)) => Err(RunError { line: None, message: out_of_time(limit) }),
            (Err(error), expired) => Err(explain(&error, expired)),
        }
    }

    /// The interpreter, to make the arguments of a hook.
    pub(super) fn lua(&self) -> &Lua {
        &self.lua
    }

    /// Runs the built-in defaults, which need no limit on time: they must load on the busiest machine.
    pub(super) fn run_trusted(&self, text: &str) -> Result<Value, RunError> {
        self.run_unbounded(text).map_err(|error| explain(&error, None))
    }

    fn run_unbounded(&self, text: &str) -> mlua::Result<Value> {
        // `=` keeps the name as it is in messages; text mode, since forged bytecode can break the interpreter.
        self.lua.load(text).set_name(format!("={CHUNK}")).set_mode(ChunkMode::Text).eval::<Value>()
    }
}

/// Wraps the two searches that run in one step however long they take.
fn bound_searches(lua: &Lua, globals: &Table) -> mlua::Result<()> {
    let string: Table = globals.raw_get("string")?;
    for name in ["find", "split"] {
        let inner: mlua::Function = string.raw_get(name)?;
        let bounded = lua.create_function(move |_, args: mlua::MultiValue| {
            let bytes = |at: usize| match args.get(at) {
                Some(Value::String(text)) => text.as_bytes().len(),
                _ => 0,
            };
            if bytes(0).saturating_mul(bytes(1)) > SEARCH_COST_MAX {
                return Err(Error::runtime(format!("string.{name} of so much text is not allowed in a config")));
            }
            inner.call::<mlua::MultiValue>(args)
        })?;
        string.raw_set(name, bounded)?;
    }
    Ok(())
}

/// Processor time of this thread so far; zero if the system doesn't report it, and then the wall clock decides.
fn cpu_time() -> Duration {
    let Ok(usage) = getrusage(UsageWho::RUSAGE_THREAD) else { return Duration::ZERO };
    let time = |value: nix::sys::time::TimeVal| {
        Duration::new(u64::try_from(value.tv_sec()).unwrap_or(0), 0)
            + Duration::from_micros(u64::try_from(value.tv_usec()).unwrap_or(0))
    };
    time(usage.user_time()) + time(usage.system_time())
}

fn out_of_time(limit: TimeLimit) -> String {
    format!("did not end within {} ms (an endless loop?)", limit.cpu.as_millis())
}

/// Puts an error of Lua's in words: its first line, without the chunk's name, which the file's own replaces.
fn explain(error: &Error, expired: Option<TimeLimit>) -> RunError {
    let full = match error {
        Error::SyntaxError { message, .. } | Error::RuntimeError(message) => message.clone(),
        Error::CallbackError { traceback, cause } => format!("{cause}\n{traceback}"),
        other => other.to_string(),
    };
    let line = line_number(&full);
    if let Some(limit) = expired {
        return RunError { line, message: out_of_time(limit) };
    }
    let memory = matches!(error, Error::MemoryError(_)) || full.contains("not enough memory");
    if memory {
        let message = format!("needs more than {} MiB of memory", MEMORY_BYTES_MAX / (1024 * 1024));
        return RunError { line, message };
    }
    let first = full.lines().next().unwrap_or_default();
    let first = first.strip_prefix("runtime error: ").unwrap_or(first);
    let bare = match line {
        Some(line) => first.strip_prefix(&format!("{CHUNK}:{line}: ")).unwrap_or(first),
        None => first,
    };
    RunError { line, message: shorten(bare, MESSAGE_CHARS_MAX) }
}

/// Finds the first `config:LINE` in a message with its traceback.
fn line_number(text: &str) -> Option<u32> {
    text.match_indices(CHUNK).find_map(|(at, _)| {
        let after = text[at + CHUNK.len()..].strip_prefix(':')?;
        let end = after.find(|c: char| !c.is_ascii_digit()).unwrap_or(after.len());
        after[..end].parse().ok()
    })
}
