//! The person who answers a question, as the agent sees them: the code that shows events also asks the person.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use crate::gate::{Approver, Call, Lasting};
use crate::model::Crossing;
use crate::proto::tool::{Answer, FileChange, Outcome, Overdue, OverdueChoice, Question};
use crate::tools::Replies;

/// A person who can be asked while a question is answered. The default answer is no.
pub trait Person {
    /// Returns whether a person is there; otherwise each call that needs their consent is denied.
    fn can_ask(&self) -> bool {
        false
    }

    /// Returns whether they can be asked a question of the model's.
    fn can_reply(&self) -> bool {
        self.can_ask()
    }

    /// Their name, if they answer elsewhere than at the terminal; known once they have answered.
    fn name(&self) -> Option<String> {
        None
    }

    /// Returns whether a question may go to a more distant model.
    fn consent(&mut self, _: &Crossing) -> bool {
        false
    }

    /// Returns whether a call may run.
    fn approve(&mut self, _: &Question) -> Answer {
        Answer::No(String::new())
    }

    /// A second opinion on a call of medium risk that would run without a question: the reason why it is put to them all
    /// the same.
    fn doubt(&mut self, _: &Question) -> Option<String> {
        None
    }

    /// Their answer to a question of the model's; `None` if they don't answer.
    fn reply(&mut self, question: &str, choices: &[String]) -> Option<String> {
        self.reply_to("The model asks:", question, choices)
    }

    /// The same for a question from elsewhere; the heading names its origin.
    fn reply_to(&mut self, _heading: &str, _question: &str, _choices: &[String]) -> Option<String> {
        None
    }

    /// Their choice about an overdue command: asked until it `has_ended`; `None` if they don't answer.
    fn overdue(&mut self, _command: &Overdue, _has_ended: &Arc<AtomicBool>) -> Option<OverdueChoice> {
        None
    }

    /// Shows them the progress of a call.
    fn progress(&mut self, _text: &str) {}

    /// Returns whether a file's text in their editor is, or may be, another than the one on the disk, which is
    /// `on_disk`: words for the place after its path.
    fn unsaved(&mut self, _path: &Path, _on_disk: Option<&[u8]>) -> Option<&'static str> {
        None
    }

    /// Returns whether they have a shell of their own, in which a command can be run.
    fn has_shell(&self) -> bool {
        false
    }

    /// Runs an approved command in their own shell; `None` if they have none here.
    fn run_in_own_shell(&mut self, _: &str) -> Option<Outcome> {
        None
    }
}

/// Stands in for a person who isn't there.
#[derive(Clone, Copy, Debug, Default)]
pub struct Nobody;

impl Person for Nobody {}

/// Reason why a change would be lost or would lose another: the person's editor has changes of that file that aren't
/// saved.
pub(super) fn unsaved(root: &Path, call: &Call, person: &mut dyn Person) -> Option<String> {
    let why = |change: &FileChange| {
        let why = person.unsaved(&root.join(&change.path), change.old.as_deref())?;
        Some(format!("{} {why}", change.path))
    };
    call.changes.iter().find_map(why)
}

/// Their yes to the call with a fingerprint, this once.
pub(super) fn yes(digest: String, person: &dyn Person) -> Approver {
    Approver::Person { digest, lasting: Lasting::Once, by: person.name() }
}

/// A person, and how long they were asked.
pub(super) struct Timed<'a> {
    person: &'a mut dyn Person,
    pub(super) waited: Duration,
}

impl<'a> Timed<'a> {
    pub(super) fn new(person: &'a mut dyn Person) -> Self {
        Self { person, waited: Duration::ZERO }
    }

    fn timed<T>(&mut self, ask: impl FnOnce(&mut dyn Person) -> T) -> T {
        let began = Instant::now();
        let reply = ask(self.person);
        self.waited += began.elapsed();
        reply
    }
}

impl Person for Timed<'_> {
    fn can_ask(&self) -> bool {
        self.person.can_ask()
    }

    fn can_reply(&self) -> bool {
        self.person.can_reply()
    }

    fn name(&self) -> Option<String> {
        self.person.name()
    }

    fn consent(&mut self, crossing: &Crossing) -> bool {
        self.timed(|person| person.consent(crossing))
    }

    fn approve(&mut self, question: &Question) -> Answer {
        self.timed(|person| person.approve(question))
    }

    fn doubt(&mut self, question: &Question) -> Option<String> {
        self.timed(|person| person.doubt(question))
    }

    fn reply(&mut self, question: &str, choices: &[String]) -> Option<String> {
        self.timed(|person| person.reply(question, choices))
    }

    fn reply_to(&mut self, heading: &str, question: &str, choices: &[String]) -> Option<String> {
        self.timed(|person| person.reply_to(heading, question, choices))
    }

    // The command continues meanwhile.
    fn overdue(&mut self, command: &Overdue, has_ended: &Arc<AtomicBool>) -> Option<OverdueChoice> {
        self.person.overdue(command, has_ended)
    }

    fn progress(&mut self, text: &str) {
        self.person.progress(text);
    }

    fn unsaved(&mut self, path: &Path, on_disk: Option<&[u8]>) -> Option<&'static str> {
        self.person.unsaved(path, on_disk)
    }

    fn has_shell(&self) -> bool {
        self.person.has_shell()
    }

    fn run_in_own_shell(&mut self, command: &str) -> Option<Outcome> {
        self.person.run_in_own_shell(command)
    }
}

/// The part of a person that a tool sees.
pub(super) struct Asking<'a>(pub(super) &'a mut dyn Person);

impl Replies for Asking<'_> {
    fn reply(&mut self, question: &str, choices: &[String]) -> Option<String> {
        self.0.reply(question, choices)
    }

    fn reply_to(&mut self, heading: &str, question: &str, choices: &[String]) -> Option<String> {
        self.0.reply_to(heading, question, choices)
    }

    fn overdue(&mut self, command: &Overdue, has_ended: &Arc<AtomicBool>) -> Option<OverdueChoice> {
        self.0.overdue(command, has_ended)
    }

    fn progress(&mut self, text: &str) {
        self.0.progress(text);
    }
}
