//! Standard output of the subcommands, and their questions for a yes. If its reader has gone (`| head`), a subcommand
//! continues silently, so that its status stays its own; any other failure to write, such as a full disk, is reported
//! and ends it with status 1. A failure to write to standard error can't be reported anywhere, and changes nothing.

use std::fmt;
use std::io::{self, BufRead, BufWriter, IsTerminal, StdoutLock, Write};
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};

use nix::sys::termios::{FlushArg, tcflush};

use super::exit;
use crate::proto::Failure;
use crate::render::sanitise;
use crate::render::text::escape_json;

/// Prints to standard output.
macro_rules! out {
    ($($text:tt)*) => { $crate::cli::out::print(format_args!($($text)*)) };
}
/// Prints a line to standard output.
macro_rules! outln {
    () => { $crate::cli::out::print(format_args!("\n")) };
    ($($text:tt)*) => { $crate::cli::out::print_line(format_args!($($text)*)) };
}
/// Prints to standard error.
macro_rules! err {
    ($($text:tt)*) => { $crate::cli::out::print_error(format_args!($($text)*)) };
}
/// Prints a line to standard error.
macro_rules! errln {
    ($($text:tt)*) => { $crate::cli::out::print_error(format_args!("{}\n", format_args!($($text)*))) };
}
pub(super) use {err, errln, out, outln};

/// Columns of a table that isn't printed to a terminal.
const COLUMNS: usize = 100;

/// The reader of standard output has gone.
static HAS_GONE: AtomicBool = AtomicBool::new(false);

/// The columns of a table on standard output.
pub(super) fn columns() -> usize {
    let is_terminal = io::stdout().is_terminal();
    let size = if is_terminal { crate::console::terminal_size() } else { None };
    size.map_or(COLUMNS, |(columns, _)| usize::from(columns).max(40))
}

/// Returns whether the reader of standard output has gone; a command that prints without an end may then stop.
pub(super) fn has_gone() -> bool {
    HAS_GONE.load(Ordering::Relaxed)
}

/// Standard output for many lines, with a buffer.
pub(super) struct Out(BufWriter<StdoutLock<'static>>);

impl Out {
    pub(super) fn new() -> Self {
        Self(BufWriter::new(io::stdout().lock()))
    }

    /// Writes a line.
    pub(super) fn line(&mut self, line: impl fmt::Display) {
        settle(writeln!(self.0, "{line}"));
    }

    /// Writes the buffer out.
    pub(super) fn flush(&mut self) {
        settle(self.0.flush());
    }
}

/// Answers each line of standard input with an object in a line. Each answer is flushed at once, because the reader may
/// wait for it before it writes the next line; the reader may also stop early.
pub(super) fn answer_each_line(answer: impl Fn(&[u8]) -> serde_json::Value) -> ExitCode {
    let mut output = Out::new();
    for line in io::stdin().lock().split(b'\n') {
        match line {
            Ok(line) => output.line(answer(&line)),
            Err(error) => {
                errln!("reedclaw: standard input can't be read: {error}");
                return ExitCode::from(exit::FAILED);
            }
        }
        output.flush();
        if has_gone() {
            break;
        }
    }
    ExitCode::SUCCESS
}

pub(super) fn print(text: fmt::Arguments<'_>) {
    if !has_gone() {
        let mut out = io::stdout().lock();
        settle(out.write_fmt(text).and_then(|()| out.flush()));
    }
}

pub(super) fn print_line(text: fmt::Arguments<'_>) {
    if !has_gone() {
        settle(writeln!(io::stdout().lock(), "{text}"));
    }
}

pub(super) fn print_error(text: fmt::Arguments<'_>) {
    let _ = io::stderr().lock().write_fmt(text);
}

/// JSON for standard output: on a terminal without characters that it would obey or hide, otherwise as it is.
pub(super) fn shown_json(json: String) -> String {
    if io::stdout().is_terminal() { escape_json(&json) } else { json }
}

/// Prints lines.
pub(super) fn print_lines(lines: impl Iterator<Item = String>) {
    let mut out = Out::new();
    lines.for_each(|line| out.line(line));
    out.flush();
}

/// Ends the process after a failed write, unless the reader has gone.
pub(super) fn settle(written: io::Result<()>) {
    let Err(error) = written else { return };
    if error.kind() == io::ErrorKind::BrokenPipe {
        HAS_GONE.store(true, Ordering::Relaxed);
        return;
    }
    errln!("reedclaw: standard output can't be written: {error}");
    std::process::exit(exit::FAILED.into())
}

/// Prints a failure on standard error, as every subcommand does.
pub(super) fn report(failure: &Failure) {
    errln!("reedclaw: {}", sanitise(&failure.message));
    if !failure.hint.is_empty() {
        errln!("  {}", sanitise(&without_meta_commands(&failure.hint)));
    }
}

/// Returns the failure with a hint for people outside of the shell.
pub(super) fn outside_the_shell(failure: Failure) -> Failure {
    Failure { hint: without_meta_commands(&failure.hint), ..failure }
}

/// A hint or a notice in which options and subcommands replace meta commands.
pub(super) fn without_meta_commands(hint: &str) -> String {
    const INSTEAD: [(&str, &str); 13] = [
        (":models lists", "reedclaw config show says"),
        (":model NAME", "--model NAME"),
        ("start again with :new", "leave out --conversation"),
        (":onboard", "`reedclaw onboard`"),
        (":session files", "reedclaw session files ID"),
        (":session log", "reedclaw session log ID"),
        (":session diff", "reedclaw session diff ID"),
        (":session sync", "reedclaw session sync ID"),
        (":session tools", "reedclaw session tools ID"),
        (":skills trust", "in the shell: :skills trust"),
        (":mcp allow", "reedclaw mcp allow"),
        (":mcp login", "reedclaw mcp login"),
        // The space excludes `:sessions`, the conversations, which no subcommand lists.
        (":session ", "reedclaw session "),
    ];
    INSTEAD.iter().fold(hint.to_owned(), |hint, (meta, instead)| hint.replace(meta, instead))
}

/// Asks a question on standard error and reads a line; only the whole word yes counts.
pub(super) fn says_yes(question: &str) -> bool {
    let _ = tcflush(io::stdin(), FlushArg::TCIFLUSH);
    err!("{} ", sanitise(question));
    let _ = io::stderr().flush();
    let mut answer = String::new();
    io::stdin().lock().read_line(&mut answer).is_ok() && answer.trim() == "yes"
}

/// Asks a question on standard error and reads a line; anything but a plain yes is no. Keys typed before the question are
/// no answer to it.
pub(super) fn is_yes(question: &str) -> bool {
    let _ = tcflush(io::stdin(), FlushArg::TCIFLUSH);
    err!("{} [y/N] ", sanitise(question));
    let _ = io::stderr().flush();
    let mut answer = String::new();
    io::stdin().lock().read_line(&mut answer).is_ok() && matches!(answer.trim(), "y" | "Y" | "yes")
}
