//! The session as others see it, if it is shared: the events for others, and who gets them. It must not know the terminal.

use parking_lot::{Mutex, MutexGuard};
use std::sync::Arc;

use crate::proto::tool::{Answer, Question};
use crate::proto::{CommandOutcome, Event, Route};
use crate::redact::Redactor;
use crate::share::{EVERYBODY, Elsewhere, Output, Place, Share, ShareError, Wanted};
use crate::shell::Tap;

/// The sharing of a session; clones are the same one.
#[derive(Clone, Default)]
pub(in crate::repl) struct Sharing(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    share: Option<Share>,
    /// The question that is open at the terminal, if others may answer it.
    open: Option<Arc<Elsewhere>>,
}

/// Sends the output of commands to those who watch.
#[derive(Debug)]
struct Shown(Output);

impl Tap for Shown {
    fn output(&self, bytes: &[u8]) {
        self.0.write(bytes);
    }

    fn resized(&self, columns: u16, rows: u16) {
        self.0.resize(columns, rows);
    }
}

impl Sharing {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock()
    }

    /// Begins sharing, and calls `ended` once it is over; returns the tap for the output of commands, and a line about
    /// the sharing.
    pub fn begin(
        &self,
        place: &Place,
        wanted: Wanted,
        redactor: Redactor,
        ended: Box<dyn Fn() + Send>,
    ) -> Result<(Box<dyn Tap>, String), ShareError> {
        // A session that stays shared at the old address would be reported twice.
        let before = if self.end() { " · the address before has ended" } else { "" };
        let share = Share::begin(place, wanted, redactor, ended)?;
        let strangers = match share.unknown() {
            [] => String::new(),
            [user] => format!(" · {user} is no member there"),
            users => format!(" · {} are no members there", users.join(", ")),
        };
        let line =
            format!("{} · {}{strangers} · recorded · :share off ends it{before}", share.url(), whom(share.wanted()));
        let tap = Box::new(Shown(share.output()));
        self.state().share = Some(share);
        Ok((tap, line))
    }

    /// Ends the sharing; returns whether there was one.
    pub fn end(&self) -> bool {
        let share = self.state().share.take();
        share.is_some()
    }

    /// A line about it.
    pub fn summary(&self) -> Option<String> {
        let state = self.state();
        let share = state.share.as_ref()?;
        let count = share.viewers();
        let now = if count == 1 { "1 watches".to_owned() } else { format!("{count} watch") };
        let away = if share.is_waiting() { " · the gateway doesn't answer now, and what is shared waits" } else { "" };
        Some(format!("{} · {} · {now}{away}", share.url(), whom(share.wanted())))
    }

    /// The mark at the prompt's edge: how many watch.
    pub fn mark(&self, is_unicode: bool) -> Option<String> {
        let state = self.state();
        let share = state.share.as_ref()?;
        Some(format!("{} {}", if is_unicode { "◉" } else { "shared" }, share.viewers()))
    }

    /// Reason why the gateway has ended the sharing, once.
    pub fn lost(&self) -> Option<String> {
        let mut state = self.state();
        let why = state.share.as_ref()?.is_over()?;
        state.share = None;
        Some(why)
    }

    fn with(&self, act: impl FnOnce(&Share)) {
        if let Some(share) = &self.state().share {
            act(share);
        }
    }

    /// Reports that a line was submitted.
    pub fn line(&self, text: &str, route: Route, is_hidden: bool) {
        let to = match route {
            Route::Ask => "model",
            Route::Meta => "reedclaw",
            _ => "shell",
        };
        self.with(|share| share.line(text, to, is_hidden));
    }

    /// Reports that a command ended.
    pub fn command_ended(&self, outcome: &CommandOutcome) {
        self.with(|share| share.command_ended(outcome.status, outcome.duration, outcome.cwd.as_deref()));
    }

    /// Reports an event of an answer.
    pub fn event(&self, event: &Event) {
        self.with(|share| share.event(event));
    }

    /// Reports that the person is about to be asked.
    pub fn ask(&self, question: &Question) {
        let mut state = self.state();
        state.open = state.share.as_ref().and_then(|share| share.ask(question));
    }

    /// The question that others may answer.
    pub fn open(&self) -> Option<Arc<Elsewhere>> {
        self.state().open.clone()
    }

    /// Reports the person's answer; returns who has answered, if it was somebody elsewhere.
    pub fn asked(&self, answer: Option<&Answer>) -> Option<String> {
        let mut state = self.state();
        let by = state.open.take().and_then(|open| open.answer()).map(|answer| answer.by);
        if let Some(share) = &state.share {
            share.answered(word(answer), by.as_deref());
        }
        by
    }
}

/// The answer as those who watch see it; without one the terminal has gone, which doesn't count as a no.
fn word(answer: Option<&Answer>) -> &'static str {
    match answer {
        Some(Answer::Once | Answer::Always | Answer::AlwaysFilled | Answer::InMyShell) => "once",
        None | Some(Answer::Unanswered(_)) => "none",
        Some(_) => "no",
    }
}

/// Those who may see it, in words.
fn whom(wanted: &Wanted) -> String {
    let named = |users: &[String], all: &str| match users {
        users if users.iter().any(|user| user == EVERYBODY) => all.to_owned(),
        users => users.join(", "),
    };
    match (wanted.watch.is_empty(), wanted.approve.is_empty()) {
        (_, true) => format!("{} may watch", named(&wanted.watch, "every member")),
        (true, false) => format!("{} may watch and answer", named(&wanted.approve, "every approver")),
        (false, false) => format!(
            "{} may watch, {} may answer, too",
            named(&wanted.watch, "every member"),
            named(&wanted.approve, "every approver")
        ),
    }
}

/// The wish in the words after `:share`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::repl) enum Wish {
    /// A word about the present state.
    Tell,
    /// An end.
    End,
    /// A beginning: who may watch, and who may answer.
    Begin(Vec<String>, Vec<String>),
}

/// Reads the words after `:share`; `None` if they mean nothing.
pub(in crate::repl) fn wish(argument: &str) -> Option<Wish> {
    let mut words = argument.split([' ', ',']).filter(|word| !word.is_empty());
    let verb = words.next();
    let users: Vec<String> = words.map(str::to_owned).collect();
    let named = |users: Vec<String>| if users.is_empty() { vec![EVERYBODY.to_owned()] } else { users };
    match verb {
        None => Some(Wish::Tell),
        Some("off" | "stop") if users.is_empty() => Some(Wish::End),
        Some("watch") => Some(Wish::Begin(named(users), Vec::new())),
        Some("approve") => Some(Wish::Begin(Vec::new(), named(users))),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_words_after_share_say_who_may_watch_and_answer() {
        let users = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        for (argument, wanted) in [
            ("", Some(Wish::Tell)),
            ("off", Some(Wish::End)),
            ("stop", Some(Wish::End)),
            ("watch", Some(Wish::Begin(users(&["*"]), vec![]))),
            ("watch anna, ben", Some(Wish::Begin(users(&["anna", "ben"]), vec![]))),
            ("approve anna", Some(Wish::Begin(vec![], users(&["anna"])))),
            ("off anna", None),
            ("anna", None),
        ] {
            assert_eq!(wish(argument), wanted, "{argument}");
        }
        let wanted = |watch: &[&str], approve: &[&str]| Wanted {
            watch: users(watch),
            approve: users(approve),
            ..Wanted::default()
        };
        assert_eq!(whom(&wanted(&["*"], &[])), "every member may watch");
        assert_eq!(whom(&wanted(&[], &["anna", "ben"])), "anna, ben may watch and answer");
        assert_eq!(Sharing::default().mark(true), None);
    }

    #[test]
    fn a_closed_terminal_answers_neither_yes_nor_no() {
        let no = Answer::No(String::new());
        assert_eq!([word(None), word(Some(&no)), word(Some(&Answer::Once))], ["none", "no", "once"]);
    }
}
