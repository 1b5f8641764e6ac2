//! The log: what happened, as events with a few plain fields, in a file of the state directory and, without a session, on
//! standard error. It owns that file. It must not know who logs.
//!
//! What goes in is chosen by whoever calls: names, numbers, paths of our own, and the message of an error, which may hold a
//! line of a server's own words. Never what a person or a model wrote, never arguments, contents or keys. Nothing is opened before the first event that counts, and nothing at all where [`init`]
//! wasn't called. A log that can't be written disturbs nobody.
//!
//! ```
//! use reedclaw::log::{self, Level};
//! log::event(Level::Info, "receipt_written", &[("tool", "time".into()), ("ms", 3.into())]);
//! ```

use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, OnceLock, PoisonError};

use serde_json::{Map, Value};

use crate::base::time::utc;

/// The name of the file in the state directory; the one before has `.1` behind it.
pub const FILE_NAME: &str = "reedclaw.log";
/// Bytes of the file from which on a new one is begun.
const FILE_BYTES_MAX: u64 = 1024 * 1024;
/// Characters of a field; a path has room.
const FIELD_CHARS_MAX: usize = 300;

/// How much an event matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// Something is wrong.
    Error,
    /// Something didn't go as it should.
    Warn,
    /// Something happened.
    Info,
    /// How it happened.
    Debug,
}

impl Level {
    /// The words for them, as `REEDCLAW_LOG_LEVEL` has them.
    pub const WORDS: [&str; 4] = ["error", "warn", "info", "debug"];

    /// The level of this name.
    #[must_use]
    pub fn of(word: &str) -> Option<Self> {
        let all = [Self::Error, Self::Warn, Self::Info, Self::Debug];
        Self::WORDS.iter().position(|known| *known == word).map(|at| all[at])
    }

    /// The word for it.
    #[must_use]
    pub fn word(self) -> &'static str {
        Self::WORDS[self as usize]
    }
}

/// Where events go, and which.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// The directory of the file; none is written without.
    pub directory: Option<PathBuf>,
    /// Whether standard error is free for it.
    pub to_stderr: bool,
    /// What `REEDCLAW_LOG` says: `json` for JSON lines on standard error, from `info` on.
    pub form: Option<String>,
    /// What `REEDCLAW_LOG_LEVEL` says: the least that counts, or `off`. Without it the file has `info`, standard error
    /// `warn`.
    pub level: Option<String>,
    /// Gives the time, in Unix milliseconds.
    pub clock: Option<fn() -> i64>,
}

struct Log {
    clock: Option<fn() -> i64>,
    file_level: Option<Level>,
    stderr_level: Option<Level>,
    is_json: bool,
    /// The user asked for the log, so that it also says what was said already.
    is_wanted: bool,
    directory: Option<PathBuf>,
    file: Mutex<Option<Open>>,
}

/// The file, as far as it is ours.
struct Open {
    file: File,
    bytes: u64,
}

static LOG: OnceLock<Log> = OnceLock::new();

/// Says where events go. Only the first call counts.
pub fn init(options: Options) {
    let _ = LOG.set(Log::new(options));
}

/// Notes an event that nobody is told otherwise.
pub fn event(level: Level, name: &str, fields: &[(&str, Value)]) {
    note(level, name, fields, false);
}

/// Notes an event that the person is told in other words: standard error has it only where they asked for the log.
pub fn told(level: Level, name: &str, fields: &[(&str, Value)]) {
    note(level, name, fields, true);
}

fn note(level: Level, name: &str, fields: &[(&str, Value)], is_told: bool) {
    if let Some(log) = LOG.get() {
        let now = log.clock.map_or(0, |clock| clock());
        log.note(now, level, name, fields, is_told, &mut io::stderr());
    }
}

impl Log {
    fn new(options: Options) -> Self {
        let Options { directory, to_stderr, form, level, clock } = options;
        let (least, is_off) = (level.as_deref().and_then(Level::of), level.as_deref() == Some("off"));
        let is_json = form.as_deref() == Some("json");
        let or = |default| (!is_off).then(|| least.unwrap_or(default));
        Self {
            clock,
            file_level: or(Level::Info),
            // A reader of JSON wants what happened, not the warnings alone.
            stderr_level: or(if is_json { Level::Info } else { Level::Warn }).filter(|_| to_stderr),
            is_json,
            is_wanted: form.is_some() || level.is_some(),
            directory,
            file: Mutex::new(None),
        }
    }

    fn note(
        &self,
        now: i64,
        level: Level,
        name: &str,
        fields: &[(&str, Value)],
        is_told: bool,
        stderr: &mut dyn Write,
    ) {
        let counts = |least: Option<Level>| least.is_some_and(|least| level <= least);
        let (in_file, on_stderr) = (counts(self.file_level), counts(self.stderr_level) && (!is_told || self.is_wanted));
        if !in_file && !on_stderr {
            return;
        }
        let json = as_json(now, level, name, fields);
        if on_stderr {
            let line = if self.is_json { json.clone() } else { as_text(level, name, fields) };
            let _ = stderr.write_all(line.as_bytes());
        }
        if let Some(directory) = self.directory.as_ref().filter(|_| in_file) {
            let mut file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
            // Where it can't be written, the next event tries again.
            if append(directory, &mut file, &json).is_err() {
                *file = None;
            }
        }
    }
}

fn as_json(now: i64, level: Level, name: &str, fields: &[(&str, Value)]) -> String {
    let mut object = Map::new();
    object.insert("time".into(), utc(now).into());
    object.insert("level".into(), level.word().into());
    object.insert("event".into(), name.into());
    object.insert("pid".into(), std::process::id().into());
    for (key, value) in fields {
        object.insert((*key).to_owned(), bounded(value));
    }
    Value::Object(object).to_string() + "\n"
}

fn as_text(level: Level, name: &str, fields: &[(&str, Value)]) -> String {
    let mut line = format!("reedclaw: {}: {name}", level.word());
    for (key, value) in fields {
        // JSON's form of a text: no byte of it moves a cursor.
        line.push_str(&format!(" {key}={}", bounded(value)));
    }
    line + "\n"
}

fn bounded(value: &Value) -> Value {
    match value {
        Value::String(text) if text.chars().count() > FIELD_CHARS_MAX => {
            format!("{}…", text.chars().take(FIELD_CHARS_MAX).collect::<String>()).into()
        }
        other => other.clone(),
    }
}

/// Puts a line at the end of the file, and begins a new one where it has grown long.
fn append(directory: &Path, open: &mut Option<Open>, line: &str) -> io::Result<()> {
    if open.as_ref().is_some_and(|open| open.bytes >= FILE_BYTES_MAX) {
        *open = None;
    }
    if open.is_none() {
        *open = Some(open_file(directory)?);
    }
    let Some(open) = open else { return Ok(()) };
    open.file.write_all(line.as_bytes())?;
    open.bytes += line.len() as u64;
    Ok(())
}

fn open_file(directory: &Path) -> io::Result<Open> {
    DirBuilder::new().recursive(true).mode(0o700).create(directory)?;
    let path = directory.join(FILE_NAME);
    // Another session may have begun a new one meanwhile; then this looks at that.
    if path.symlink_metadata().is_ok_and(|data| data.is_file() && data.len() >= FILE_BYTES_MAX) {
        std::fs::rename(&path, directory.join(format!("{FILE_NAME}.1")))?;
    }
    let mut how = OpenOptions::new();
    how.append(true).create(true).mode(0o600).custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK);
    let file = how.open(&path)?;
    let data = file.metadata()?;
    if !data.is_file() {
        return Err(io::Error::other("it is no plain file"));
    }
    Ok(Open { file, bytes: data.len() })
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn log(directory: Option<&Path>, form: Option<&str>, level: Option<&str>) -> Log {
        let owned = |text: Option<&str>| text.map(str::to_owned);
        let directory = directory.map(Path::to_owned);
        Log::new(Options { directory, to_stderr: true, form: owned(form), level: owned(level), clock: None })
    }

    fn said(log: &Log, level: Level, is_told: bool) -> String {
        let mut out = Vec::new();
        let fields = [("path", "/a \u{1b}[2J".into()), ("ms", 5.into())];
        log.note(0, level, "it_happened", &fields, is_told, &mut out);
        String::from_utf8(out).expect("text")
    }

    #[test]
    fn standard_error_has_what_the_variables_say_and_nothing_twice_unasked() {
        let plain = log(None, None, None);
        let line = "reedclaw: warn: it_happened path=\"/a \\u001b[2J\" ms=5\n";
        assert_eq!(said(&plain, Level::Warn, false), line);
        assert_eq!(said(&plain, Level::Warn, true), "", "it was told");
        assert_eq!(said(&plain, Level::Info, false), "");
        assert_eq!(said(&log(None, None, Some("info")), Level::Info, true), line.replace("warn", "info"));
        assert_eq!(said(&log(None, None, Some("error")), Level::Warn, false), "");
        assert_eq!(said(&log(None, None, Some("off")), Level::Error, false), "");
        let json = said(&log(None, Some("json"), None), Level::Warn, true);
        let value: Value = serde_json::from_str(&json).expect("JSON");
        assert_eq!(
            (&value["level"], &value["event"], &value["ms"]),
            (&"warn".into(), &"it_happened".into(), &5.into())
        );
        assert_eq!(value["time"], "1970-01-01T00:00:00Z");
        let silent = Log::new(Options { level: Some("debug".into()), ..Options::default() });
        assert_eq!(said(&silent, Level::Error, false), "", "a session draws there");
    }

    #[test]
    fn the_file_is_private_bounded_and_made_with_the_first_event_that_counts() {
        let top = tempfile::tempdir().expect("a directory");
        let directory = top.path().join("state");
        let log = log(Some(&directory), None, None);
        said(&log, Level::Debug, false);
        assert!(!directory.exists());
        said(&log, Level::Info, true);
        let path = directory.join(FILE_NAME);
        assert_eq!(path.metadata().expect("a file").permissions().mode() & 0o777, 0o600);
        let line = std::fs::read_to_string(&path).expect("text");
        let count = 2 * FILE_BYTES_MAX / line.len() as u64 + 2;
        (0..count).for_each(|_| drop(said(&log, Level::Info, false)));
        let bytes = |name: &str| directory.join(name).metadata().expect("a file").len();
        assert!(bytes("reedclaw.log.1") < FILE_BYTES_MAX + 1000 && bytes(FILE_NAME) < FILE_BYTES_MAX);
        assert_eq!(std::fs::read_dir(&directory).expect("a directory").count(), 2);
    }

    #[test]
    fn a_file_that_cannot_be_written_disturbs_nobody() {
        let top = tempfile::tempdir().expect("a directory");
        let target = top.path().join("target");
        std::os::unix::fs::symlink(&target, top.path().join(FILE_NAME)).expect("a link");
        let log = log(Some(top.path()), None, None);
        said(&log, Level::Info, false);
        assert!(!target.exists());
        std::fs::remove_file(top.path().join(FILE_NAME)).expect("removed");
        said(&log, Level::Info, false);
        assert!(top.path().join(FILE_NAME).exists(), "it goes on where it can");
    }

    #[test]
    fn a_long_field_is_cut() {
        let text = as_text(Level::Info, "x", &[("path", "é".repeat(1_000).into())]);
        assert_eq!(text.matches('é').count(), FIELD_CHARS_MAX);
    }
}
