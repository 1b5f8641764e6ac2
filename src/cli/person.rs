//! The person at the terminal of a command without a session: questions on the terminal itself, answers as lines from it.
//! What isn't plainly yes is no; where there is no terminal, nobody can be asked.

use std::fs::{File, OpenOptions};
use std::io::{BufRead, BufReader, Write};
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::termios::{FlushArg, tcflush};

use crate::agent::{Cancel, Crossing, Person};
use crate::proto::action::Action;
use crate::proto::tool::{Answer, Question};
use crate::render::sheet::Look;
use crate::render::text::escape_visible;
use crate::render::{asked_rows, chosen, question_rows};

/// How long an answer is waited for; none is no.
const WAIT: Duration = Duration::from_secs(120);
/// How often is looked whether everything was stopped.
const LOOK: Duration = Duration::from_millis(50);
/// Columns where the terminal doesn't say.
const COLUMNS: usize = 80;

/// Somebody at the controlling terminal.
pub(super) struct AtTty {
    tty: Option<File>,
    cancel: Cancel,
    color: bool,
}

impl AtTty {
    /// Finds the terminal; `is_wanted` is false where nobody is to be asked.
    pub(super) fn new(is_wanted: bool, cancel: Cancel, color: bool) -> Self {
        let open = || OpenOptions::new().read(true).write(true).open("/dev/tty").ok();
        Self { tty: is_wanted.then(open).flatten(), cancel, color }
    }

    fn put(&mut self, rows: &[String]) {
        if let Some(tty) = &mut self.tty {
            let _ = tty.write_all((rows.join("\n") + "\n").as_bytes());
        }
    }

    /// Asks for a line; nothing where none came in time, or everything was stopped. Keys from before don't count.
    fn line(&mut self, label: &str) -> Option<String> {
        let tty = self.tty.as_mut()?;
        let _ = tcflush(tty.as_fd(), FlushArg::TCIFLUSH);
        tty.write_all(label.as_bytes()).ok()?;
        let deadline = Instant::now() + WAIT;
        loop {
            if self.cancel.is_cancelled() || Instant::now() >= deadline {
                return None;
            }
            let wait = PollTimeout::try_from(LOOK).unwrap_or(PollTimeout::ZERO);
            if matches!(poll(&mut [PollFd::new(tty.as_fd(), PollFlags::POLLIN)], wait), Ok(count) if count > 0) {
                break;
            }
        }
        let mut line = String::new();
        let count = BufReader::new(tty).read_line(&mut line).ok()?;
        (count > 0).then(|| line.trim_end_matches(['\n', '\r']).to_owned())
    }

    fn look(&self) -> Look {
        Look { color: self.color, ..Look::plain(Self::width_columns()) }
    }

    fn width_columns() -> usize {
        crossterm::terminal::size().map_or(COLUMNS, |(columns, _)| usize::from(columns).max(20))
    }
}

impl Person for AtTty {
    fn can_ask(&self) -> bool {
        self.tty.is_some()
    }

    fn consent(&mut self, Crossing { from, to, place }: &Crossing) -> bool {
        let text = format!("{from} doesn't answer. Send this conversation to {to} ({place})? [y/N] ");
        self.line(&escape_visible(&text)).is_some_and(|said| matches!(said.trim(), "y" | "Y" | "yes"))
    }

    fn approve(&mut self, question: &Question) -> Answer {
        self.put(&question_rows(question, self.look()));
        let is_command = matches!(question.action, Action::Shell { .. });
        let always = if question.may_always { "a always, in this project; " } else { "" };
        let edit = if is_command { "e edit; " } else { "" };
        let yes = if question.changes.is_empty() { "run once" } else { "accept" };
        let label = format!("y {yes}; {always}{edit}n no; anything else is no and tells the model why: ");
        match self.line(&label).as_deref().map(str::trim) {
            Some("y" | "Y" | "yes") => Answer::Once,
            Some("a" | "A" | "always") if question.may_always => Answer::Always,
            Some("e" | "E" | "edit") if is_command => match self.line("run instead: ") {
                Some(command) => Answer::Edited(command),
                None => Answer::No(String::new()),
            },
            None | Some("n" | "N" | "no" | "a" | "A" | "e" | "E") => Answer::No(String::new()),
            Some(why) => Answer::No(why.to_owned()),
        }
    }

    fn reply(&mut self, question: &str, choices: &[String]) -> Option<String> {
        self.put(&asked_rows(question, choices, Self::width_columns(), self.color));
        let said = self.line("your answer: ")?;
        (!said.trim().is_empty()).then(|| chosen(said, choices))
    }
}
