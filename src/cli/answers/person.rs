//! The person at the terminal of a command without a session, asked with the keys and pages of a session. Any answer
//! but a plain yes is no; without a terminal, no person can be asked.

use std::fs::{File, OpenOptions};
use std::io::{self, IsTerminal};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use crate::agent::{Cancel, Crossing, Person};
use crate::app::Runtime;
use crate::ask::{approve, ask_overdue, ask_yes_or_no, crossing_question, words};
use crate::cli::answers::desk::{Desk, Manner};
use crate::console::Options;
use crate::proto::tool::{Answer, Overdue, OverdueChoice, Question};
use crate::share::Share;
use crate::shell::terminal::RawTerminal;

/// A person at the controlling terminal.
pub(in crate::cli) struct AtTty {
    tty: Option<File>,
    manner: Manner,
    /// Opened when it is first needed.
    desk: Option<Desk>,
    cancel: Cancel,
    /// Others who see it, and may answer.
    share: Option<Rc<Share>>,
    /// The person who answered the last question elsewhere.
    by: Option<String>,
}

impl AtTty {
    /// Finds the terminal, if standard input is one. With `listens` its keys come here until the end, not only in
    /// questions.
    pub(in crate::cli) fn new(runtime: &Runtime, listens: bool, cancel: Cancel) -> Self {
        let open = || OpenOptions::new().read(true).write(true).open("/dev/tty").ok();
        let can_draw = runtime.variable("TERM").is_some_and(|term| term != "dumb");
        let options = Options {
            color: runtime.color(),
            markdown: false,
            unicode: runtime.unicode(),
            accessible: runtime.settings().console.accessible || !can_draw,
            keyboard_protocol: false,
        };
        let can_edit = can_draw && io::stderr().is_terminal();
        let manner = Manner { options, can_edit, listens, env: runtime.env().clone() };
        let tty = io::stdin().is_terminal().then(open).flatten();
        Self { tty, manner, desk: None, cancel, share: None, by: None }
    }

    /// Lets others see this person's questions, too.
    pub(super) fn shared(self, share: Option<Rc<Share>>) -> Self {
        Self { share, ..self }
    }

    /// The terminal's present modes, to be restored if the process ends in the middle of a question.
    pub(in crate::cli) fn modes(&self) -> Option<RawTerminal> {
        self.tty.as_ref().and_then(|tty| RawTerminal::of(tty.try_clone().ok()?.into()).ok())
    }

    fn desk(&mut self) -> io::Result<&mut Desk> {
        if self.desk.is_none() {
            let tty = self.tty.as_ref().ok_or(io::ErrorKind::NotFound)?;
            self.desk = Some(Desk::at(tty.try_clone()?, &self.manner)?);
        }
        self.desk.as_mut().ok_or(io::ErrorKind::NotFound.into())
    }

    /// Takes the terminal into use, so that typed keys are neither lost nor echoed.
    pub(in crate::cli) fn listen(&mut self) -> io::Result<()> {
        self.desk().map(drop)
    }

    /// The next line, which Ctrl-C doesn't end; `None` at the end of the input.
    pub(in crate::cli) fn line(&mut self) -> io::Result<Option<String>> {
        let cancel = self.cancel.clone();
        let desk = self.desk()?;
        let line = loop {
            match desk.line("> ", "")? {
                Some(None) => {}
                Some(line) => break line,
                None => break None,
            }
        };
        // From here on, Ctrl-C stops the work for this line; one from before doesn't.
        cancel.rearm();
        desk.rest();
        Ok(line)
    }

    /// Asks the person; `None` if everything was stopped or no person is there.
    fn ask<T>(&mut self, ask: impl FnOnce(&mut Desk, &Cancel) -> Result<T, ()>) -> Option<T> {
        let cancel = self.cancel.clone();
        if cancel.is_cancelled() {
            return None;
        }
        let desk = self.desk().ok()?;
        let reply = ask(desk, &cancel).ok();
        desk.rest();
        reply
    }
}

impl Person for AtTty {
    fn can_ask(&self) -> bool {
        self.tty.is_some()
    }

    fn name(&self) -> Option<String> {
        self.by.clone()
    }

    fn consent(&mut self, crossing: &Crossing) -> bool {
        let reply = self.ask(|desk, cancel| {
            let reply = ask_yes_or_no(desk, &crossing_question(crossing))?;
            if reply.is_none() {
                cancel.cancel();
            }
            Ok(reply)
        });
        reply.flatten().unwrap_or(false)
    }

    fn approve(&mut self, question: &Question) -> Answer {
        let share = self.share.clone();
        let open = share.as_ref().and_then(|share| share.ask(question));
        let answer = self.ask(|desk, cancel| {
            desk.ask_elsewhere(open.clone());
            let answer = approve(desk, question, cancel);
            desk.ask_elsewhere(None);
            answer
        });
        let answer = answer.unwrap_or(Answer::No(String::new()));
        self.by = open.and_then(|open| open.answer()).map(|answer| answer.by);
        if let Some(share) = share {
            let is_yes = matches!(answer, Answer::Once | Answer::Always | Answer::AlwaysFilled | Answer::InMyShell);
            share.answered(if is_yes { "once" } else { "no" }, self.by.as_deref());
        }
        answer
    }

    fn reply_to(&mut self, heading: &str, question: &str, choices: &[String]) -> Option<String> {
        self.ask(|desk, _| words(desk, heading, question, choices)).flatten()
    }

    fn overdue(&mut self, command: &Overdue, has_ended: &Arc<AtomicBool>) -> Option<OverdueChoice> {
        self.ask(|desk, cancel| ask_overdue(desk, command, has_ended, cancel)).flatten()
    }
}
