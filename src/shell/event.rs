//! Messages between a session and its pump: the options, the events, the receiver of the keys.

use parking_lot::Mutex;
use std::process::ExitStatus;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use super::spawn::{Dialect, Start};
use crate::proto::{CommandOutcome, Names};

/// Wanted properties of the session.
#[derive(Clone, Debug)]
pub struct Options {
    /// Way to start the shell.
    pub start: Start,
    /// The integration that it gets.
    pub dialect: Dialect,
    /// True if the terminal draws characters outside ASCII.
    pub unicode: bool,
    /// The options that may change while it runs.
    pub wanted: Wanted,
}

/// The options for the commands from now on.
#[derive(Clone, Copy, Debug)]
pub struct Wanted {
    /// Bytes of a command's output kept from its start.
    pub capture_head_bytes: usize,
    /// Bytes of a command's output kept from its end.
    pub capture_tail_bytes: usize,
    /// True if the shell's own prompt is wanted with each prompt.
    pub shell_prompt: bool,
    /// Announcement of a command's end to somebody who looks elsewhere; `None` if it is off.
    pub notify: Option<Notify>,
}

/// Way in which the end of a command is announced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Notify {
    /// Only if the command took longer.
    pub after: Duration,
    /// By the bell, even if the terminal can show a notification.
    pub bell_only: bool,
}

/// The prompts that the shell itself would show, rendered.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ShellPrompt {
    /// The one before the line.
    pub left: String,
    /// The one at the right edge.
    pub right: String,
    /// The one before further rows of the line.
    pub more: String,
}

impl ShellPrompt {
    /// Reads the shell's report: the three, with a unit separator between them. fish leaves out the line feed that ends one.
    pub(super) fn of_report(body: &str, dialect: Dialect) -> Self {
        let mut fields = body.split('\x1f');
        let mut next = || {
            let field = fields.next().unwrap_or_default();
            field.strip_suffix('\n').filter(|_| dialect == Dialect::Fish).unwrap_or(field).to_owned()
        };
        Self { left: next(), right: next(), more: next() }
    }
}

/// A question that the live shell answers without running a line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Asked {
    /// The candidates for the word before a position, in bytes.
    Completion(String, usize),
    /// The value of `$NAME`, `${NAME}` or `~USER`.
    Value(String),
    /// The names of users that begin with the word.
    Users(String),
}

impl Asked {
    /// The request's fields, ended by NUL: a text, and a position or a letter.
    pub(super) fn fields(&self) -> Option<String> {
        let (text, what) = match self {
            Self::Completion(line, position) => (line, position.to_string()),
            Self::Value(text) => (text, "e".to_owned()),
            Self::Users(text) => (text, "u".to_owned()),
        };
        (!text.contains('\0')).then(|| format!("{text}\0{what}\0"))
    }
}

/// An event, as the prompt's loop receives it.
#[derive(Debug)]
pub enum Event {
    /// The shell has read its start-up files and takes lines.
    Ready,
    /// The line that was handed over has ended.
    Finished {
        /// Its end.
        outcome: CommandOutcome,
        /// True if the cursor is certainly in the first column.
        first_column: bool,
    },
    /// The shell says that the line needs more lines; nothing has run.
    Incomplete,
    /// Output that no command in the foreground made: a background job's, or a start-up file's.
    Output(Vec<u8>),
    /// The names that the shell resolves, and its `PATH`.
    Names(Box<Names>, std::ffi::OsString),
    /// The shell's own prompts.
    Prompt(ShellPrompt),
    /// Text that the shell's line editor would begin with (`print -z` of zsh).
    Edit(String),
    /// A key that [`Session::press`] has had pressed has done its work.
    Line {
        /// The rest of the line.
        text: String,
        /// Place where the cursor is in it, in characters.
        point: usize,
        /// The number of rows that the key has printed, if that is known.
        rows: usize,
        /// The shell's present directory.
        cwd: Option<std::path::PathBuf>,
    },
    /// The answer to [`Handle::nudge`]: the receiver of events wakes.
    Nudged,
    /// Ctrl-C while a model answers.
    Cancel,
    /// Keys while a question is open, and when they were read.
    Keys(Vec<u8>, Instant),
    /// The shell has replaced itself by another program: keys and output pass through until it ends. With the row that the
    /// program has begun, its prompt perhaps; `None` if it draws on the whole screen.
    Replaced(Option<Vec<u8>>),
    /// The shell has ended.
    Ended(ExitStatus),
    /// The person's terminal has gone, or a signal asked us to end.
    Hangup,
}

/// The receiver of the person's keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeysTo {
    /// Nobody yet: they are kept for the next editor or command.
    Hold,
    /// The line editor.
    Editor,
    /// The shell and its commands, byte for byte; without a shell whoever the terminal is lent to, as it was before.
    Shell,
    /// Ctrl-C becomes [`Event::Cancel`]; the rest is kept.
    Cancel,
    /// Each key becomes [`Event::Keys`]. What was typed before waits for the next editor.
    Question,
    /// As `Hold`; what was typed before the last question is dropped.
    HoldFresh,
}

/// Sees what commands print, once the terminal has it. It must not wait: the shell would wait with it.
pub trait Tap: std::fmt::Debug + Send {
    /// Bytes were printed.
    fn output(&self, bytes: &[u8]);
    /// The terminal has another size.
    fn resized(&self, columns: u16, rows: u16);
}

/// The state that the editor's slots share with the pump about an Enter that they passed on.
#[derive(Debug, Default)]
pub struct Gate {
    /// An Enter has been passed on; the keys after it are held back.
    pub(super) enter_pending: AtomicBool,
    /// The editor has accepted the line, or a key at which it hands over control: the loop decides who gets the keys after it.
    pub(super) accepted: AtomicBool,
    /// The terminal is known not to say where the cursor is.
    pub(super) deaf: AtomicBool,
    /// The prompt is on the screen, and the editor is still to draw over it.
    pub(super) shown: AtomicBool,
    /// Keys at which the editor hands over control, beside Enter and its like.
    pub(super) stops: Mutex<Vec<Vec<u8>>>,
    /// Time when the terminal last sent keys, whoever they were for.
    pub(super) last_keys: Mutex<Option<Instant>>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_feed_at_the_end_of_a_prompt_counts_but_in_fish() {
        let of = |dialect| ShellPrompt::of_report("a\nb> \n\x1f12:30\n", dialect);
        let fish = of(Dialect::Fish);
        assert_eq!((fish.left.as_str(), fish.right.as_str(), fish.more.as_str()), ("a\nb> ", "12:30", ""));
        assert_eq!(of(Dialect::Bash).left, "a\nb> \n");
    }
}
