//! The only writer to the terminal, except for the commands to which `shell` lends it and the line editor's own drawing.
//!
//! The terminal is raw for the whole session, so a line feed is written as CR LF here. Text from outside passes the
//! sanitiser before it comes here (`render`), or is shown with [`Console::outside`].

mod waiting;

use std::fs::File;
use std::io::{self, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use nu_ansi_term::{Color, Style};

use crate::proto::Failure;
use crate::render;

pub use waiting::Waiting;

/// Moves to the top left and clears the screen.
pub const CLEAR_SCREEN: &[u8] = b"\x1b[H\x1b[2J";

/// Returns the terminal's columns and rows, if there is a terminal that knows them. The library's `size` runs `tput` without one,
/// twice and from wherever `PATH` leads.
#[must_use]
pub fn terminal_size() -> Option<(u16, u16)> {
    let size = crossterm::terminal::window_size().ok()?;
    (size.columns > 0 && size.rows > 0).then_some((size.columns, size.rows))
}

/// The appearance of the console's output.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// `true` if colours are used.
    pub color: bool,
    /// `true` if the markdown of answers is drawn.
    pub markdown: bool,
    /// `true` if characters outside ASCII are drawn.
    pub unicode: bool,
    /// `true` if the output is for a screen reader: nothing is drawn over, and words replace colours.
    pub accessible: bool,
    /// `true` if the terminal understands the kitty keyboard protocol's push and pop, or at least ignores them.
    pub keyboard_protocol: bool,
}

/// The terminal, as everything above the shell writes to it.
#[derive(Clone, Debug)]
pub struct Console {
    options: Options,
    /// The terminal, if standard output may be something else.
    terminal: Option<Arc<File>>,
    /// Columns of an unfinished row that the next line continues.
    open_columns: Arc<AtomicUsize>,
}

impl Console {
    /// Makes the console.
    #[must_use]
    pub fn new(options: Options) -> Self {
        Self { options, terminal: None, open_columns: Arc::default() }
    }

    /// Makes the console on a terminal that was opened separately.
    #[must_use]
    pub fn on(options: Options, terminal: Arc<File>) -> Self {
        Self { options, terminal: Some(terminal), open_columns: Arc::default() }
    }

    /// Returns this console with other options.
    #[must_use]
    pub fn with(&self, options: Options) -> Self {
        Self { options, ..self.clone() }
    }

    /// Returns the console's options.
    #[must_use]
    pub fn options(&self) -> Options {
        self.options
    }

    /// The terminal's width in columns; 80 if it doesn't say.
    #[must_use]
    pub fn width_columns(&self) -> usize {
        terminal_size().map_or(80, |(columns, _)| usize::from(columns))
    }

    /// The terminal's height in rows; 24 if it doesn't say.
    #[must_use]
    pub fn height_rows(&self) -> usize {
        terminal_size().map_or(24, |(_, rows)| usize::from(rows))
    }

    /// Writes text of our own making.
    pub fn write(&self, text: &str) {
        self.raw(text.replace('\n', "\r\n").as_bytes());
    }

    /// Clears the screen; what scrolled out of it stays.
    pub fn clear(&self) {
        self.raw(CLEAR_SCREEN);
    }

    /// Writes bytes as they are.
    pub fn raw(&self, bytes: &[u8]) {
        // The code that reads keys notices if the terminal has gone.
        let _ = match &self.terminal {
            Some(terminal) => (&**terminal).write_all(bytes),
            None => {
                let mut out = io::stdout().lock();
                out.write_all(bytes).and_then(|()| out.flush())
            }
        };
    }

    /// Writes a line of our own making. It begins on a new row if it doesn't fit after an unfinished one.
    pub fn line(&self, text: &str) {
        let open = self.open_columns.swap(0, Ordering::Relaxed);
        let fits = || {
            let first = render::sanitise(text.split('\n').next().unwrap_or_default());
            open + render::text::width(&first) < self.width_columns()
        };
        let start = if open == 0 || fits() { "" } else { "\n" };
        self.write(&format!("{start}{text}\n"));
    }

    /// Writes text that the next line continues; `columns` is the width of its last row.
    pub fn write_open(&self, text: &str, columns: usize) {
        self.write(text);
        self.open_columns.store(columns, Ordering::Relaxed);
    }

    /// Returns whether the next line continues a row.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.open_columns.load(Ordering::Relaxed) > 0
    }

    /// Writes a sentence of our own, in as many rows as it needs.
    pub fn paragraph(&self, text: &str) {
        self.wrapped(Style::new(), &render::sanitise(text), "  ");
    }

    /// Writes text from outside, sanitised.
    pub fn outside(&self, text: &str) {
        self.write(&render::sanitise(text));
    }

    /// Prints a notice for the person.
    pub fn notice(&self, text: &str) {
        let text = render::sanitise(text);
        let text = if self.options.accessible { format!("note: {text}").into() } else { text };
        self.wrapped(Color::DarkGray.normal(), &text, "  ");
    }

    /// Prints what failed, and on its own line what to do next.
    pub fn failure(&self, failure: &Failure) {
        let head = if self.options.accessible { "error:" } else { "reedclaw:" };
        let message = format!("{head} {}", render::sanitise(&failure.message));
        let rows = render::text::wrap(&message, self.width_columns(), "  ");
        self.line(&format!("{}{}", self.paint(Color::Red.bold(), head), rows.trim_start_matches(head)));
        if !failure.hint.is_empty() {
            self.wrapped(Color::DarkGray.normal(), &format!("  {}", render::sanitise(&failure.hint)), "  ");
        }
    }

    /// Writes safe text, broken at spaces to the terminal's width. Each row is coloured by itself; rows after the first
    /// get the indent.
    pub fn wrapped(&self, style: Style, text: &str, indent: &str) {
        for row in render::text::wrap(text, self.width_columns(), indent).split('\n') {
            self.line(&self.paint(style, row));
        }
    }

    /// Colours text, if colours are used.
    #[must_use]
    pub fn paint(&self, style: Style, text: &str) -> String {
        if self.options.color { style.paint(text).to_string() } else { text.to_owned() }
    }
}
