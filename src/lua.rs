//! The sandbox in which a config and a repository's tools run: Luau without files, processes or network, with limits on memory
//! and time. It must not know settings, nor a tool's arguments.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use mlua::chunk::ChunkMode;
use mlua::{Error, Lua, LuaOptions, LuaString, StdLib, Table, Value, VmState};
use nix::sys::resource::{UsageWho, getrusage};

use crate::base::text::shorten;

/// The environment, as a value.
type Env = BTreeMap<OsString, OsString>;

/// Memory limit for a config. The largest honest one needs some hundred KiB; this much still loads at once.
pub const MEMORY_BYTES_MAX: usize = 32 * 1024 * 1024;
/// Time limit for loading a config. It runs before the first prompt, for which people wait.
pub const LOAD_TIME: TimeLimit = TimeLimit { cpu: Duration::from_millis(50), wall: Duration::from_secs(2) };
/// Time limit for one call of a hook, which delays the drawing after a key.
pub const HOOK_TIME: TimeLimit = TimeLimit { cpu: Duration::from_millis(5), wall: Duration::from_millis(250) };
/// Limit on the product of the lengths of text and word in a plain search, which Luau can't interrupt: about 50 ms at worst.
const SEARCH_COST_MAX: usize = 64 * 1024 * 1024;
/// Limit on the part of Lua's message that is shown, in characters.
const MESSAGE_CHARS_MAX: usize = 200;
/// The script's name in Lua's messages; the caller knows its true name.
const CHUNK: &str = "config";

/// Memory limit for a tool of a repository.
pub const TOOL_MEMORY_BYTES_MAX: usize = 64 * 1024 * 1024;
/// Time limit for one call of such a tool.
pub const TOOL_TIME: TimeLimit = TimeLimit { cpu: Duration::from_secs(5), wall: Duration::from_secs(30) };
/// Time limit for reading such a tool's description of itself.
pub const TOOL_LOAD_TIME: TimeLimit = TimeLimit { cpu: Duration::from_millis(250), wall: Duration::from_secs(5) };
/// The seed of a tool's random numbers: the same call on the same files has the same result.
const SEED: u32 = 1;

/// A text as a Lua string literal: everything but plain ASCII as decimal escapes.
#[must_use]
pub fn quoted(text: &str) -> String {
    let mut quoted = String::from('"');
    for byte in text.bytes() {
        match byte {
            b'"' | b'\\' => {
                quoted.push('\\');
                quoted.push(char::from(byte));
            }
            b' '..=b'~' => quoted.push(char::from(byte)),
            _ => quoted.push_str(&format!("\\{byte:03}")),
        }
    }
    quoted.push('"');
    quoted
}

/// Names of the base library that could reach outside, inspect the interpreter or print.
const CLOSED: &[&str] =
    &["print", "require", "loadstring", "collectgarbage", "getfenv", "setfenv", "newproxy", "dofile", "loadfile"];

/// The limits of a run.
#[derive(Clone, Copy, Debug)]
pub struct TimeLimit {
    /// Processor time.
    pub cpu: Duration,
    /// Wall-clock time, more generous, so that a busy machine doesn't prevent the config from loading.
    pub wall: Duration,
}

/// The reason why a script didn't run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunError {
    /// The line, counted from 1, if Lua reports one.
    pub line: Option<u32>,
    /// The error.
    pub message: String,
}

/// A sandboxed interpreter. It is dropped after the load, unless its functions are hooks.
pub struct Sandbox {
    lua: Lua,
    memory_bytes_max: usize,
}

/// Returns the text of a module; `None` for an unknown name.
type ReadModule = dyn Fn(&str) -> Option<String> + Send + Sync;

impl Sandbox {
    /// Builds an interpreter whose `os.getenv` reads `env`.
    ///
    /// # Errors
    /// The interpreter can't be made.
    pub fn new(env: &Env) -> Result<Self, RunError> {
        let lua = Self::of_config(env).map_err(|error| explain(&error, None))?;
        Ok(Self { lua, memory_bytes_max: MEMORY_BYTES_MAX })
    }

    /// Builds an interpreter for a tool of a repository: it has neither a clock nor an environment, and its random numbers are
    /// the same in every run. `require` reads the tool's own modules: it gets a name and returns the text.
    /// `more` adds further global values.
    ///
    /// # Errors
    /// The interpreter can't be made.
    pub fn of_tool(
        module: impl Fn(&str) -> Option<String> + Send + Sync + 'static,
        more: impl FnOnce(&Lua) -> mlua::Result<Vec<(&'static str, Value)>>,
    ) -> Result<Self, RunError> {
        let lua = Self::built_for_tool(Arc::new(module), more).map_err(|error| explain(&error, None))?;
        Ok(Self { lua, memory_bytes_max: TOOL_MEMORY_BYTES_MAX })
    }

    fn built_for_tool(
        module: Arc<ReadModule>,
        more: impl FnOnce(&Lua) -> mlua::Result<Vec<(&'static str, Value)>>,
    ) -> mlua::Result<Lua> {
        let lua = Self::closed(StdLib::TABLE | StdLib::STRING | StdLib::MATH | StdLib::UTF8 | StdLib::BIT, "tool")?;
        let globals = lua.globals();
        let seed: mlua::Function = globals.raw_get::<Table>("math")?.raw_get("randomseed")?;
        seed.call::<()>(SEED)?;
        let loaded = lua.create_table()?;
        let require = lua.create_function(move |lua, name: String| {
            let known: Value = loaded.raw_get(name.as_str())?;
            if !known.is_nil() {
                return Ok(known);
            }
            let text = module(&name).ok_or_else(|| {
                Error::runtime(format!("require: {name} is no module of this tool; name it in a literal string"))
            })?;
            let value: Value = lua.load(text).set_name(format!("={name}")).set_mode(ChunkMode::Text).eval()?;
            loaded.raw_set(name, value.clone())?;
            Ok(value)
        })?;
        globals.raw_set("require", require)?;
        for (name, value) in more(&lua)? {
            globals.raw_set(name, value)?;
        }
        lua.set_memory_limit(TOOL_MEMORY_BYTES_MAX)?;
        lua.sandbox(true)?;
        Ok(lua)
    }

    /// An interpreter without the functions that could reach outside.
    fn closed(libs: StdLib, place: &'static str) -> mlua::Result<Lua> {
        let lua = Lua::new_with(libs, LuaOptions::default())?;
        let globals = lua.globals();
        for name in CLOSED {
            let closed = lua.create_function(move |_, ()| -> mlua::Result<()> {
                Err(Error::runtime(format!("{name} is not available in a {place}")))
            })?;
            globals.raw_set(*name, closed)?;
        }
        bound_searches(&lua, &globals, place)?;
        Ok(lua)
    }

    fn of_config(env: &Env) -> mlua::Result<Lua> {
        let libs = StdLib::TABLE | StdLib::STRING | StdLib::MATH | StdLib::OS | StdLib::UTF8 | StdLib::BIT;
        let lua = Self::closed(libs, "config")?;
        let globals = lua.globals();
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
        lua.set_memory_limit(MEMORY_BYTES_MAX)?;
        lua.sandbox(true)?;
        Ok(lua)
    }

    /// Runs a script of the user's within the limits and returns its first value.
    ///
    /// # Errors
    /// The script's own error, or a limit.
    pub fn run(&self, text: &str) -> Result<Value, RunError> {
        self.within(LOAD_TIME, || self.run_unbounded(text))
    }

    /// Runs a piece of the user's code within a time limit.
    ///
    /// # Errors
    /// The code's own error, or a limit.
    pub fn within<T>(&self, limit: TimeLimit, work: impl FnOnce() -> mlua::Result<T>) -> Result<T, RunError> {
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
            // Once the time has expired every step fails, so that a `pcall` gains one step and no more.
            if !over {
                return Ok(VmState::Continue);
            }
            let line = lua.inspect_stack(0, |frame| frame.current_line()).flatten();
            Err(Error::runtime(line.map_or_else(String::new, |line| format!("{CHUNK}:{line}: out of time"))))
        });
        let result = work();
        self.lua.remove_interrupt();
        let expired = has_expired.load(Ordering::Relaxed).then_some(limit);
        // If a script caught the timeout, it was interrupted somewhere: its result can't be trusted.
        match (result, expired) {
            (Ok(value), None) => Ok(value),
            (Ok(_), Some(limit)) => Err(RunError { line: None, message: out_of_time(limit) }),
            (Err(error), expired) => Err(explain_within(&error, expired, self.memory_bytes_max)),
        }
    }

    /// Evaluates the text of a tool; the caller bounds it by [`Sandbox::within`].
    ///
    /// # Errors
    /// The script's own error.
    pub fn evaluate(&self, text: &str) -> mlua::Result<Value> {
        self.run_unbounded(text)
    }

    /// Returns the interpreter, to make the arguments of a hook.
    #[must_use]
    pub fn lua(&self) -> &Lua {
        &self.lua
    }

    /// Runs the built-in defaults, without a time limit: they must load even on the busiest machine.
    ///
    /// # Errors
    /// The script's own error.
    pub fn run_trusted(&self, text: &str) -> Result<Value, RunError> {
        self.run_unbounded(text).map_err(|error| explain(&error, None))
    }

    fn run_unbounded(&self, text: &str) -> mlua::Result<Value> {
        // `=` leaves the name unchanged in messages; text mode, since forged bytecode can break the interpreter.
        self.lua.load(text).set_name(format!("={CHUNK}")).set_mode(ChunkMode::Text).eval::<Value>()
    }
}

/// Limits the two searches that run in one step however long they take.
fn bound_searches(lua: &Lua, globals: &Table, place: &'static str) -> mlua::Result<()> {
    let string: Table = globals.raw_get("string")?;
    for name in ["find", "split"] {
        let inner: mlua::Function = string.raw_get(name)?;
        let bounded = lua.create_function(move |_, args: mlua::MultiValue| {
            let bytes = |at: usize| match args.get(at) {
                Some(Value::String(text)) => text.as_bytes().len(),
                _ => 0,
            };
            if bytes(0).saturating_mul(bytes(1)) > SEARCH_COST_MAX {
                return Err(Error::runtime(format!("string.{name} of so much text is not allowed in a {place}")));
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

/// Describes a Lua error: its first line, without the chunk's name, which the caller replaces by the file's name.
fn explain(error: &Error, expired: Option<TimeLimit>) -> RunError {
    explain_within(error, expired, MEMORY_BYTES_MAX)
}

fn explain_within(error: &Error, expired: Option<TimeLimit>, memory_bytes_max: usize) -> RunError {
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
        let message = format!("needs more than {} MiB of memory", memory_bytes_max / (1024 * 1024));
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
