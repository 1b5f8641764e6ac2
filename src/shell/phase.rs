//! The shell's current activity, and the line that was handed to it. Pure.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use super::bytes::drawing::{Echo, OwnLines};

/// The shell's current activity.
#[derive(Debug)]
pub enum Phase {
    /// Reads its start-up files.
    Starting,
    /// Its hooks are done; readline is about to read. Output printed now (job notices) still belongs above the prompt.
    Prompting {
        /// Time when this began.
        since: Instant,
        /// `true` if the shell has just read its start-up files.
        first: bool,
    },
    /// Readline reads: a line can be handed over.
    Reading,
    /// Readline completes for us; its drawing is dropped.
    Completing {
        /// `true` if the answer has arrived; readline then draws its prompt once more.
        answered: bool,
    },
    /// A line was handed over and hasn't started.
    Sent {
        /// Time when it was handed over.
        since: Instant,
    },
    /// A command runs, or the hooks after it.
    Running {
        /// Time to check whether the shell was replaced.
        look_at: Option<Instant>,
        /// `true` if its output is still recorded.
        recording: bool,
    },
}

/// The line that was handed over.
#[derive(Debug)]
pub struct Current {
    pub(super) line: String,
    pub(super) started: Instant,
    /// Duration and status at its end, once the shell has reported them.
    pub(super) ended: Option<(Duration, i32)>,
    pub(super) cwd: Option<PathBuf>,
    pub(super) environment: String,
    /// Readline's own drawing of the line.
    pub(super) echo: Echo,
    /// Our own lines in the output, if the shell prints the lines that it reads, or may from now on.
    pub(super) verbose: Option<OwnLines>,
    /// `true` if the shell asked for more lines.
    pub(super) incomplete: bool,
    /// The state of a Ctrl-C that was sent instead of a line.
    pub(super) interrupt: Option<Interrupt>,
    /// `true` if the last byte shown wasn't a line feed.
    pub(super) open_line: bool,
    /// `true` if the cursor is certainly in the first column.
    pub(super) first_column: bool,
}

/// A Ctrl-C for the shell's line editor.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Interrupt {
    pub(super) is_sent: bool,
    /// Number of times that the shell had gone to sleep when Ctrl-C was sent.
    pub(super) sleeps: u64,
    /// Number of checks at which the shell had woken since, and waited for a line again.
    pub(super) passed_over: u32,
    /// `true` if anything but its drawing was printed.
    pub(super) has_shown: bool,
}

/// A prompt that the shell draws itself, and the output above it: neither is shown before the prompt is complete.
#[derive(Debug, Default)]
pub(super) struct Drawn {
    bytes: Vec<u8>,
    /// The number of rows above the last one; `None` if the prompt is ours.
    rows: Option<usize>,
    /// `true` if it has reached the terminal.
    pub(super) is_seen: bool,
}

impl Drawn {
    pub(super) fn of(rows: Option<usize>) -> Self {
        Self { rows, ..Self::default() }
    }

    /// Holds bytes back; returns `false` if the prompt is ours.
    pub(super) fn note(&mut self, bytes: &[u8]) -> bool {
        if self.rows.is_some() {
            self.bytes.extend_from_slice(bytes);
        }
        self.rows.is_some()
    }

    /// Returns the rows above the prompt, which is complete.
    pub(super) fn above(&mut self) -> Vec<u8> {
        let mut bytes = std::mem::take(&mut self.bytes);
        self.is_seen |= !bytes.is_empty();
        let end = self.rows.take().and_then(|rows| memchr::memrchr_iter(b'\n', &bytes).nth(rows));
        bytes.truncate(end.map_or(0, |at| at + 1));
        bytes
    }
}

impl Current {
    /// Returns whether the shell asked for more lines.
    pub(super) fn is_incomplete(&self) -> bool {
        self.incomplete
    }

    pub(super) fn new(line: String, has_echo: bool, is_verbose: bool) -> Self {
        // `set -v` takes effect at the next line that the shell reads, which is one of ours.
        let verbose = (is_verbose || line.contains("set ")).then(OwnLines::default);
        Self {
            line,
            verbose,
            started: Instant::now(),
            ended: None,
            cwd: None,
            environment: String::new(),
            echo: Echo::new(has_echo),
            incomplete: false,
            interrupt: None,
            open_line: false,
            first_column: true,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prompt_of_the_shells_is_taken_from_what_stands_above_it() {
        for (rows, printed, above) in [
            (Some(0), "[1]+  Done\r\nu@h $ ", "[1]+  Done\r\n"),
            (Some(0), "u@h $ ", ""),
            (Some(1), "[1]+  Done\r\nabove\r\n$ ", "[1]+  Done\r\n"),
            (Some(1), "above\r\n$ ", ""),
        ] {
            let mut drawn = Drawn::of(rows);
            assert!(drawn.note(printed.as_bytes()) && !drawn.is_seen);
            assert_eq!((drawn.above(), drawn.is_seen), (above.as_bytes().to_vec(), true), "{printed}");
        }
        assert!(!Drawn::default().note(b"x"));
    }
}
