//! Messages between a session and its pump: the options, the events, the receiver of the keys.

use parking_lot::Mutex;
use std::process::ExitStatus;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use super::spawn::{Dialect, Start};
use crate::proto::{CommandOutcome, Names};

/// Options of the session.
#[derive(Clone, Debug)]
pub struct Options {
    /// The way in which the shell is started.
    pub start: Start,
    /// The shell's integration.
    pub dialect: Dialect,
    /// `true` if the terminal draws characters outside ASCII.
    pub unicode: bool,
    /// The options that may change while it runs.
    pub wanted: Wanted,
}

/// The options for all further commands.
#[derive(Clone, Copy, Debug)]
pub struct Wanted {
    /// Limit on the bytes that are recorded from the start of a command's output.
    pub capture_head_bytes: usize,
    /// Limit on the bytes that are recorded from the end of a command's output.
    pub capture_tail_bytes: usize,
    /// `true` if the shell's own prompt is wanted with each prompt.
    pub shell_prompt: bool,
    /// The announcement of a command's end to a person who is looking elsewhere; `None` if it is off.
    pub notify: Option<Notify>,
}

/// The way in which the end of a command is announced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Notify {
    /// Only for commands that took longer.
    pub after: Duration,
    /// `true` to use the bell, even if the terminal can show a notification.
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
    /// Reads the shell's report: the three prompts, with a unit separator between them. fish omits the line feed that ends one.
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

/// An event for the prompt's loop.
#[derive(Debug)]
pub enum Event {
    /// The shell has read its start-up files and accepts lines.
    Ready,
    /// The line that was handed over has ended.
    Finished {
        /// Its end.
        outcome: CommandOutcome,
        /// `true` if the cursor is certainly in the first column.
        first_column: bool,
    },
    /// The shell needs more lines to complete the line; nothing has run.
    Incomplete,
    /// Output that doesn't come from a command in the foreground: a background job's, or a start-up file's.
    Output(Vec<u8>),
    /// The names that the shell resolves, and its `PATH`.
    Names(Box<Names>, std::ffi::OsString),
    /// The shell's own prompts.
    Prompt(ShellPrompt),
    /// Text with which the shell's line editor would begin (`print -z` of zsh).
    Edit(String),
    /// The work of a key that [`Session::press`] requested is done.
    Line {
        /// The rest of the line.
        text: String,
        /// The cursor's position in the line, in characters.
        point: usize,
        /// The number of rows that the key has printed, if known.
        rows: usize,
        /// The shell's current directory.
        cwd: Option<std::path::PathBuf>,
    },
    /// The answer to [`Handle::nudge`], which wakes the receiver of events.
    Nudged,
    /// Ctrl-C while a model answers.
    Cancel,
    /// Keys that arrived while a question is open, with the time when they were read.
    Keys(Vec<u8>, Instant),
    /// The shell has replaced itself by another program: keys and output pass through until it ends. The value is the row that
    /// the program has begun, perhaps its prompt; `None` if it draws on the whole screen.
    Replaced(Option<Vec<u8>>),
    /// The shell has ended.
    Ended(ExitStatus),
    /// The person's terminal has gone, or a signal asked us to end.
    Hangup,
}

/// The receiver of the person's keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeysTo {
    /// No receiver yet: the keys wait for the next editor or command.
    Hold,
    /// The line editor.
    Editor,
    /// The shell and its commands, unchanged; without a shell, the program that has borrowed the terminal in its previous modes.
    Shell,
    /// Ctrl-C becomes [`Event::Cancel`]; other keys wait.
    Cancel,
    /// Each key becomes [`Event::Keys`]. Keys typed before wait for the next editor.
    Question,
    /// As `Hold`; keys typed before the last question are dropped.
    HoldFresh,
}

/// Gets the output of commands once the terminal has it. It must not block: the shell would be blocked too.
pub trait Tap: std::fmt::Debug + Send {
    /// Bytes were printed.
    fn output(&self, bytes: &[u8]);
    /// The terminal's size has changed.
    fn resized(&self, columns: u16, rows: u16);
}

/// The state that the editor's slots share with the pump about an Enter that they passed on.
#[derive(Debug, Default)]
pub struct Gate {
    /// `true` if an Enter has been passed on; the keys after it are held back.
    pub(super) enter_pending: AtomicBool,
    /// `true` if the editor has accepted the line, or a key at which it hands over control: the loop decides who gets the keys
    /// after it.
    pub(super) accepted: AtomicBool,
    /// `true` if the terminal is known not to answer questions about the cursor's position.
    pub(super) deaf: AtomicBool,
    /// `true` if the prompt is on the screen, and the editor has yet to draw over it.
    pub(super) shown: AtomicBool,
    /// Keys, besides Enter and its like, at which the editor hands over control.
    pub(super) stops: Mutex<Vec<Vec<u8>>>,
    /// Time when the terminal last sent keys, whoever received them.
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
