//! The shell's present activity, and the line that it was handed. Pure.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use super::bytes::drawing::{Echo, OwnLines};

/// The shell's present activity.
#[derive(Debug)]
pub enum Phase {
    /// Reads its start-up files.
    Starting,
    /// Its hooks are done; readline is about to read. What is printed now (job notices) still belongs above the prompt.
    Prompting {
        /// Since when.
        since: Instant,
        /// Whether the shell has read its start-up files just now.
        first: bool,
    },
    /// Readline reads: a line can be handed over.
    Reading,
    /// Readline completes for us; what it draws is for nobody.
    Completing {
        /// Whether the answer is here; readline then draws its prompt once more.
        answered: bool,
    },
    /// A line was handed over and hasn't started.
    Sent {
        /// Time when it was handed over.
        since: Instant,
    },
    /// A command runs, or the hooks behind it.
    Running {
        /// Time to look whether the shell was replaced.
        look_at: Option<Instant>,
        /// Whether its output is still recorded.
        recording: bool,
    },
}

/// The line that was handed over.
#[derive(Debug)]
pub struct Current {
    pub(super) line: String,
    pub(super) started: Instant,
    /// Time and manner of its end, once the shell has said.
    pub(super) ended: Option<(Duration, i32)>,
    pub(super) cwd: Option<PathBuf>,
    pub(super) environment: String,
    /// Readline's own drawing of the line.
    pub(super) echo: Echo,
    /// The shell prints the lines that it reads, or may from now on.
    pub(super) verbose: Option<OwnLines>,
    /// Whether the shell asked for more lines.
    pub(super) incomplete: bool,
    /// The state of a Ctrl-C in the place of a line.
    pub(super) interrupt: Option<Interrupt>,
    /// Whether the last byte shown wasn't a line feed.
    pub(super) open_line: bool,
    /// Whether the cursor is certainly in the first column.
    pub(super) first_column: bool,
}

/// A Ctrl-C for the shell's line editor.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Interrupt {
    pub(super) is_sent: bool,
    /// Number of times that the shell had gone to sleep when it was sent.
    pub(super) sleeps: u64,
    /// Number of looks at which the shell had woken since, and waited for a line again.
    pub(super) passed_over: u32,
    /// Whether anything came but its drawing.
    pub(super) has_shown: bool,
}

impl Current {
    /// Whether the shell asked for more lines.
    pub(super) fn is_incomplete(&self) -> bool {
        self.incomplete
    }

    pub(super) fn new(line: String, has_echo: bool, is_verbose: bool) -> Self {
        // `set -v` counts from the next line that the shell reads, which is one of ours.
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
