//! The log: events with a few plain fields, in a file of the state directory and, without a session, on standard error. It owns
//! that file, and the format of such files for other rooms. It must not know its callers.
//!
//! Other rooms write events with the macros of `tracing`; this room is the layer that collects them. It writes an event's fields:
//! names, numbers, ReedClaw's own paths, and the message of an error, which may repeat a line of a server. Text of a person or a
//! model, arguments, contents and keys never go into a field, and events of libraries are ignored. No file is opened before the
//! first event that counts, and none at all without [`init`]. If the log can't be written, that causes no error.
//!
//! An event also has the fields of the spans in which it occurs, such as the ids of a run.
//!
//! Three fields have a meaning: `event` is the event's name, `shown = true` marks an event that the user sees in other words
//! anyway (standard error then shows it only if the log was requested), and a field of bytes is JSON.
//!
//! ```
//! tracing::info!(event = "receipt_written", tool = "time", ms = 3, shown = true);
//! ```

use parking_lot::Mutex;
use std::fmt;
use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use serde_json::{Map, Value};
use tracing::field::{Field, Visit};
use tracing::level_filters::LevelFilter;
use tracing::span::{Attributes, Id};
use tracing::{Event, Level, Metadata, Subscriber};
use tracing_subscriber::layer::{Context, Layer, SubscriberExt};
use tracing_subscriber::registry::{LookupSpan, Scope};

use crate::base::time::utc;

/// The name of the file in the state directory; the previous one ends in `.1`.
pub const FILE_NAME: &str = "reedclaw.log";
/// The words for levels, as `REEDCLAW_LOG_LEVEL` uses them.
pub const LEVELS: [&str; 4] = ["error", "warn", "info", "debug"];
/// Size of the file in bytes after which a new one is started.
const FILE_BYTES_MAX: u64 = 1024 * 1024;
/// Limit on a field in characters; a path fits.
const FIELD_CHARS_MAX: usize = 300;

/// The outputs for events, and their selection.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// The directory of the file; without it no file is written.
    pub directory: Option<PathBuf>,
    /// `true` if standard error is free for events.
    pub to_stderr: bool,
    /// The value of `REEDCLAW_LOG`: `json` for JSON lines on standard error, from `info` on.
    pub form: Option<String>,
    /// The value of `REEDCLAW_LOG_LEVEL`: the lowest level that is written, or `off`. By default the file gets `info`, standard
    /// error `warn`.
    pub level: Option<String>,
    /// Returns the time, in Unix milliseconds.
    pub clock: Option<fn() -> i64>,
}

/// Starts the log. Only the first call counts.
pub fn init(options: Options) {
    let log = Log::new(options, Box::new(io::stderr()));
    let _ = tracing::subscriber::set_global_default(tracing_subscriber::registry().with(log));
}

struct Log {
    clock: Option<fn() -> i64>,
    file_level: LevelFilter,
    stderr_level: LevelFilter,
    is_json: bool,
    /// `true` if the user requested the log, so that standard error also gets events that were shown already.
    is_wanted: bool,
    file: Mutex<Option<Bounded>>,
    stderr: Mutex<Box<dyn Write + Send>>,
}

/// A private file of lines with limited size: when it has grown too long, a new one is started, and the previous one ends in
/// `.1`. It isn't made before its first line.
#[derive(Debug)]
pub struct Bounded {
    path: PathBuf,
    bytes_max: u64,
    open: Option<Open>,
}

/// The open file and its size.
#[derive(Debug)]
struct Open {
    file: File,
    bytes: u64,
}

impl Bounded {
    /// Describes the file at a path, which is replaced by the next one after `bytes_max` bytes.
    #[must_use]
    pub fn new(path: PathBuf, bytes_max: u64) -> Self {
        Self { path, bytes_max, open: None }
    }

    /// Appends lines to the file, and starts a new one if it has grown too long. After a failure the next line tries again.
    ///
    /// # Errors
    /// The file can't be written, or isn't a plain one.
    pub fn append(&mut self, lines: &str) -> io::Result<()> {
        let done = self.try_append(lines);
        if done.is_err() {
            self.open = None;
        }
        done
    }

    fn try_append(&mut self, lines: &str) -> io::Result<()> {
        if self.open.as_ref().is_some_and(|open| open.bytes >= self.bytes_max) {
            self.open = None;
        }
        if self.open.is_none() {
            self.open = Some(open_file(&self.path, self.bytes_max)?);
        }
        let Some(open) = &mut self.open else { return Ok(()) };
        open.file.write_all(lines.as_bytes())?;
        open.bytes += lines.len() as u64;
        Ok(())
    }
}

impl Log {
    fn new(options: Options, stderr: Box<dyn Write + Send>) -> Self {
        let Options { directory, to_stderr, form, level, clock } = options;
        let is_wanted = form.is_some() || level.is_some();
        let level = level.as_deref().filter(|word| *word == "off" || LEVELS.contains(word));
        // These are tracing's own words.
        let level: Option<LevelFilter> = level.and_then(|word| word.parse().ok());
        let is_json = form.as_deref() == Some("json");
        // A program that reads JSON wants all events, not only the warnings.
        let on_stderr = level.unwrap_or(if is_json { LevelFilter::INFO } else { LevelFilter::WARN });
        Self {
            clock,
            file_level: if directory.is_some() { level.unwrap_or(LevelFilter::INFO) } else { LevelFilter::OFF },
            stderr_level: if to_stderr { on_stderr } else { LevelFilter::OFF },
            is_json,
            is_wanted,
            file: Mutex::new(directory.map(|directory| Bounded::new(directory.join(FILE_NAME), FILE_BYTES_MAX))),
            stderr: Mutex::new(stderr),
        }
    }

    fn write(&self, level: Level, fields: Fields) {
        let in_file = level <= self.file_level;
        let on_stderr = level <= self.stderr_level && (!fields.is_shown || self.is_wanted);
        if !in_file && !on_stderr {
            return;
        }
        let json = as_json(self.clock.map_or(0, |clock| clock()), level, &fields);
        if on_stderr {
            let line = if self.is_json { json.clone() } else { as_text(level, &fields) };
            let _ = self.stderr.lock().write_all(line.as_bytes());
        }
        if let Some(file) = self.file.lock().as_mut().filter(|_| in_file) {
            let _ = file.append(&json);
        }
    }
}

impl<S: Subscriber + for<'span> LookupSpan<'span>> Layer<S> for Log {
    /// Accepts only ReedClaw's own events and spans: a library may include a server's words in its own.
    fn enabled(&self, metadata: &Metadata<'_>, _: Context<'_, S>) -> bool {
        let is_ours = metadata.target().split("::").next() == Some("reedclaw");
        is_ours && *metadata.level() <= self.file_level.max(self.stderr_level)
    }

    fn max_level_hint(&self) -> Option<LevelFilter> {
        Some(self.file_level.max(self.stderr_level))
    }

    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        let Some(span) = context.span(id) else { return };
        let mut fields = Fields::default();
        attributes.record(&mut fields);
        span.extensions_mut().insert(fields);
    }

    /// Writes an event with its own fields and those of the spans in which it occurs.
    fn on_event(&self, event: &Event<'_>, context: Context<'_, S>) {
        let mut fields = Fields::default();
        event.record(&mut fields);
        for span in context.event_scope(event).into_iter().flat_map(Scope::from_root) {
            let known = span.extensions();
            fields.rest.extend(known.get::<Fields>().into_iter().flat_map(|it| it.rest.iter().cloned()));
        }
        self.write(*event.metadata().level(), fields);
    }
}

/// The fields of an event, in their order.
#[derive(Default)]
struct Fields {
    event: String,
    is_shown: bool,
    rest: Vec<(&'static str, Value)>,
}

impl Fields {
    fn add(&mut self, field: &Field, value: Value) {
        match (field.name(), value) {
            ("event", Value::String(name)) => self.event = name,
            ("shown", Value::Bool(is_shown)) => self.is_shown = is_shown,
            (name, value) => self.rest.push((name, bounded(value))),
        }
    }
}

impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.add(field, format!("{value:?}").into());
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.add(field, value.into());
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.add(field, value.into());
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.add(field, value.into());
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.add(field, value.into());
    }

    fn record_bytes(&mut self, field: &Field, value: &[u8]) {
        self.add(field, serde_json::from_slice(value).unwrap_or_default());
    }
}

fn word(level: Level) -> String {
    level.as_str().to_ascii_lowercase()
}

fn as_json(now: i64, level: Level, fields: &Fields) -> String {
    let mut object = Map::new();
    object.insert("time".into(), utc(now).into());
    object.insert("level".into(), word(level).into());
    object.insert("event".into(), fields.event.as_str().into());
    object.insert("pid".into(), std::process::id().into());
    object.extend(fields.rest.iter().map(|(name, value)| ((*name).to_owned(), value.clone())));
    Value::Object(object).to_string() + "\n"
}

fn as_text(level: Level, fields: &Fields) -> String {
    let mut line = format!("reedclaw: {}: {}", word(level), fields.event);
    for (name, value) in &fields.rest {
        // A text in JSON form contains no control characters that move the cursor.
        line.push_str(&format!(" {name}={value}"));
    }
    line + "\n"
}

fn bounded(value: Value) -> Value {
    match value {
        Value::String(text) if text.chars().count() > FIELD_CHARS_MAX => {
            format!("{}…", text.chars().take(FIELD_CHARS_MAX).collect::<String>()).into()
        }
        other => other,
    }
}

fn open_file(path: &Path, bytes_max: u64) -> io::Result<Open> {
    if let Some(directory) = path.parent() {
        DirBuilder::new().recursive(true).mode(0o700).create(directory)?;
    }
    // Another process may have started a new file meanwhile; then this checks the new one.
    if path.symlink_metadata().is_ok_and(|data| data.is_file() && data.len() >= bytes_max) {
        let mut previous = path.as_os_str().to_owned();
        previous.push(".1");
        std::fs::rename(path, previous)?;
    }
    let mut how = OpenOptions::new();
    how.append(true).create(true).mode(0o600).custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK);
    let file = how.open(path)?;
    let data = file.metadata()?;
    if !data.is_file() {
        return Err(io::Error::other("it isn't a plain file"));
    }
    Ok(Open { file, bytes: data.len() })
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;
    use std::sync::Arc;

    use tracing::subscriber::with_default;

    use super::*;

    #[derive(Clone, Default)]
    struct Written(Arc<Mutex<Vec<u8>>>);

    impl Write for Written {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().write(bytes)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn options(directory: Option<&Path>, form: Option<&str>, level: Option<&str>) -> Options {
        let owned = |text: Option<&str>| text.map(str::to_owned);
        let directory = directory.map(Path::to_owned);
        Options { directory, to_stderr: true, form: owned(form), level: owned(level), clock: None }
    }

    /// Returns the text on standard error after the events.
    fn logged(options: Options, events: impl FnOnce()) -> String {
        let written = Written::default();
        let log = Log::new(options, Box::new(written.clone()));
        with_default(tracing_subscriber::registry().with(log), events);
        String::from_utf8(written.0.lock().clone()).expect("text")
    }

    fn warn() {
        tracing::warn!(event = "it_happened", path = %"/a \u{1b}[2J", ms = 5);
    }

    fn warn_shown() {
        tracing::warn!(event = "it_happened", path = %"/a \u{1b}[2J", ms = 5, shown = true);
    }

    fn info() {
        tracing::info!(event = "it_happened", path = %"/a \u{1b}[2J", ms = 5);
    }

    #[test]
    fn standard_error_has_the_level_asked_for_and_nothing_twice() {
        let plain = || options(None, None, None);
        let line = "reedclaw: warn: it_happened path=\"/a \\u001b[2J\" ms=5\n";
        assert_eq!(logged(plain(), warn), line);
        assert_eq!(logged(plain(), warn_shown), "", "the user saw it already");
        assert_eq!(logged(plain(), info), "");
        assert_eq!(logged(options(None, None, Some("info")), warn_shown), line);
        assert_eq!(logged(options(None, None, Some("info")), info), line.replace("warn", "info"));
        assert_eq!(logged(options(None, None, Some("error")), warn), "");
        assert_eq!(logged(options(None, None, Some("off")), warn), "");
        assert_eq!(logged(options(None, None, Some("loud")), warn), line, "an unknown word changes no level");
        let json = logged(options(None, Some("json"), None), warn_shown);
        let value: Value = serde_json::from_str(&json).expect("JSON");
        assert_eq!(
            (&value["level"], &value["event"], &value["ms"]),
            (&"warn".into(), &"it_happened".into(), &5.into())
        );
        assert_eq!((&value["time"], value.get("shown")), (&"1970-01-01T00:00:00Z".into(), None));
        assert_eq!(logged(Options { to_stderr: false, ..options(None, None, Some("debug")) }, warn), "");
    }

    #[test]
    fn a_field_of_bytes_is_json_and_an_absent_value_is_no_field() {
        let event = || {
            tracing::info!(event = "x", bytes = br#"{"zone":3}"#.as_slice(), path = None::<&str>);
        };
        let value: Value = serde_json::from_str(&logged(options(None, Some("json"), None), event)).expect("JSON");
        assert_eq!((&value["bytes"]["zone"], value.get("path")), (&3.into(), None));
    }

    #[test]
    fn an_event_has_the_fields_of_the_spans_around_it() {
        let event = || {
            let span = tracing::info_span!("run", run_id = "r-1", trace_id = "t-1");
            span.in_scope(|| tracing::info!(event = "inside", ms = 5));
            tracing::info!(event = "after");
        };
        let text = logged(options(None, Some("json"), None), event);
        let lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
        let ids = |line: &Value| (line["run_id"].clone(), line["trace_id"].clone(), line["ms"].clone());
        assert_eq!(ids(&lines[0]), ("r-1".into(), "t-1".into(), 5.into()));
        assert_eq!(ids(&lines[1]), (Value::Null, Value::Null, Value::Null));
    }

    #[test]
    fn events_of_libraries_are_left_out() {
        let of_a_library = || tracing::error!(target: "rmcp::service", "words of a server");
        assert_eq!(logged(options(None, None, Some("debug")), of_a_library), "");
        let of_another = || tracing::error!(target: "reedclaw_other", event = "x");
        assert_eq!(logged(options(None, None, Some("debug")), of_another), "");
    }

    #[test]
    fn the_file_is_private_bounded_and_made_with_the_first_event_that_counts() {
        let top = tempfile::tempdir().expect("a directory");
        let directory = top.path().join("state");
        let path = directory.join(FILE_NAME);
        logged(options(Some(&directory), None, None), || {
            tracing::debug!(event = "detail");
            assert!(!directory.exists());
            info();
            assert_eq!(path.metadata().expect("a file").permissions().mode() & 0o777, 0o600);
            let line = std::fs::read_to_string(&path).expect("text");
            (0..2 * FILE_BYTES_MAX / line.len() as u64 + 2).for_each(|_| info());
        });
        let bytes = |name: &str| directory.join(name).metadata().expect("a file").len();
        assert!(bytes("reedclaw.log.1") < FILE_BYTES_MAX + 1000 && bytes(FILE_NAME) < FILE_BYTES_MAX);
        assert_eq!(std::fs::read_dir(&directory).expect("a directory").count(), 2);
    }

    #[test]
    fn a_file_that_cannot_be_written_causes_no_error() {
        let top = tempfile::tempdir().expect("a directory");
        let (path, target) = (top.path().join(FILE_NAME), top.path().join("target"));
        std::os::unix::fs::symlink(&target, &path).expect("a link");
        logged(options(Some(top.path()), None, None), || {
            info();
            assert!(!target.exists());
            std::fs::remove_file(&path).expect("removed");
            info();
        });
        assert!(path.exists(), "the next event tries again");
    }

    #[test]
    fn a_long_field_is_cut() {
        let text = logged(options(None, None, None), || tracing::warn!(event = "x", path = "é".repeat(1_000)));
        assert_eq!(text.matches('é').count(), FIELD_CHARS_MAX);
    }
}
