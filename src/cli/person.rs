//! The person at the terminal of a command without a session: questions on the terminal itself, answers as lines from it.
//! What isn't plainly yes is no; where there is no terminal, nobody can be asked.

use std::fs::{File, OpenOptions};
use std::io::{BufRead, BufReader, Write};
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::termios::{FlushArg, tcflush};

use crate::agent::{Cancel, Crossing, Person};
use crate::app::App;
use crate::proto::action::Action;
use crate::proto::tool::{Answer, Question};
use crate::render::patch::{FilePatch, patches};
use crate::render::sheet::{Look, Sheet};
use crate::render::text::escape_visible;
use crate::render::{asked_rows, chosen, question_rows};

/// How long an answer is waited for; none is no.
const WAIT: Duration = Duration::from_secs(120);
/// How often is looked whether everything was stopped.
const LOOK: Duration = Duration::from_millis(50);
/// Columns where the terminal doesn't say.
const COLUMNS: usize = 80;

/// How a terminal shows what would change.
pub(super) fn look_of(app: &App, color: bool) -> Look {
    Look { color, unicode: app.unicode(), accessible: app.settings.console.accessible, ..Look::plain(COLUMNS) }
}

/// Somebody at the controlling terminal.
pub(super) struct AtTty {
    tty: Option<File>,
    cancel: Cancel,
    look: Look,
}

impl AtTty {
    /// Finds the terminal; `is_wanted` is false where nobody is to be asked.
    pub(super) fn new(is_wanted: bool, cancel: Cancel, look: Look) -> Self {
        let open = || OpenOptions::new().read(true).write(true).open("/dev/tty").ok();
        Self { tty: is_wanted.then(open).flatten(), cancel, look }
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

    /// Has hunks taken one by one; what isn't said isn't taken.
    fn hunks(&mut self, question: &Question) -> Answer {
        let patches = patches(&question.changes);
        let total: usize = patches.iter().map(FilePatch::choices).sum();
        let (mut wanted, mut number) = (Vec::new(), 0);
        for patch in &patches {
            let mut of_file = Vec::new();
            for hunk in 0..patch.choices() {
                number += 1;
                let head = vec![format!("hunk {number} of {total}")];
                let sheet = Sheet::new(self.look(), head, vec![patch.only(hunk)], Vec::new());
                self.put(&sheet.rows(0..sheet.len()));
                let said = self.line("y take; q take none of all; anything else leaves it: ");
                match said.as_deref().map(str::trim) {
                    None | Some("q" | "Q") => return Answer::No(String::new()),
                    said => of_file.push(matches!(said, Some("y" | "Y" | "yes"))),
                }
            }
            wanted.push(of_file);
        }
        Answer::Partly(wanted)
    }

    fn look(&self) -> Look {
        Look { width_columns: Self::width_columns(), ..self.look }
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
        let edit = match (is_command, question.changes.is_empty()) {
            (true, _) => "e edit; ",
            (false, false) => "h by hunk; ",
            (false, true) => "",
        };
        let yes = if question.changes.is_empty() { "run once" } else { "accept" };
        let label = format!("y {yes}; {always}{edit}n no; anything else is no and tells the model why: ");
        match self.line(&label).as_deref().map(str::trim) {
            Some("y" | "Y" | "yes") => Answer::Once,
            Some("a" | "A" | "always") if question.may_always => Answer::Always,
            Some("e" | "E" | "edit") if is_command => match self.line("run instead: ") {
                Some(command) => Answer::Edited(command),
                None => Answer::No(String::new()),
            },
            Some("h" | "H") if !question.changes.is_empty() => self.hunks(question),
            None | Some("n" | "N" | "no" | "a" | "A" | "e" | "E") => Answer::No(String::new()),
            Some(why) => Answer::No(why.to_owned()),
        }
    }

    fn reply(&mut self, question: &str, choices: &[String]) -> Option<String> {
        self.put(&asked_rows(question, choices, Self::width_columns(), self.look.color));
        let said = self.line("your answer: ")?;
        (!said.trim().is_empty()).then(|| chosen(said, choices))
    }
}
