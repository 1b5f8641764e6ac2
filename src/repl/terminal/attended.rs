//! Long work beside the terminal: a thread of its own asks the model, and the loop's thread stays with the terminal, so
//! that the person can be asked meanwhile.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;

use super::{Flow, Terminal};
use crate::agent::{Cancel, Crossing, Person};
use crate::app::Approvals;
use crate::ask::{approve, ask_overdue, ask_yes_or_no, crossing_question, words};
use crate::console::{Console, Waiting};
use crate::proto::action::Action;
use crate::proto::tool::{Answer, Outcome, Overdue, OverdueChoice, Question};
use crate::proto::{Event, Failure};
use crate::shell;
use crate::shell::session::{Handle, KeysTo};

/// An answer about a call, and who has given it if that isn't the person at the terminal.
type Approved = (Answer, Option<String>);

/// A request of the thread that asks the model to the person, with the sender for the answer.
enum Wanted {
    /// A yes or a no.
    Consent(String, Sender<bool>),
    /// An approval of a call.
    Approval(Box<Question>, Sender<Approved>),
    /// A reply in words.
    Words(String, String, Vec<String>, Sender<Option<String>>),
    /// The choice about an overdue command; the question is shown until the command has ended.
    OverdueChoice(Overdue, Arc<AtomicBool>, Sender<Option<OverdueChoice>>),
    /// A command in the person's own shell.
    Command(String, Sender<Option<Outcome>>),
}

impl Terminal {
    /// Runs work that may take long beside the terminal: Ctrl-C stops it, and it can ask the person, whose yes goes to
    /// `approvals`. Returns its result, or that the session ends.
    pub(in crate::repl) fn attended<T: Send>(
        &mut self,
        waiting: &Arc<Waiting>,
        approvals: &mut Approvals<'_>,
        work: impl FnOnce(&Cancel, &mut dyn Person) -> T + Send,
    ) -> Result<T, Flow> {
        self.session.keys_to(KeysTo::Cancel);
        let (cancel, pump) = (Cancel::new(), self.session.handle());
        let console = &self.console.clone();
        let is_over = &AtomicBool::new(false);
        let (wants, wanted) = channel();
        let (flow, done) = thread::scope(|scope| {
            scope.spawn(|| waiting.draw(console));
            let cancel_too = cancel.clone();
            let working = scope.spawn(move || {
                let mut person = AtTerminal { wants, pump: pump.clone(), waiting, console, by: None };
                let done = work(&cancel_too, &mut person);
                waiting.end(console);
                is_over.store(true, Ordering::Release);
                pump.nudge();
                done
            });
            (self.attend(&wanted, is_over, &cancel, approvals), working.join())
        });
        self.session.keys_to(KeysTo::Hold);
        match flow {
            Flow::Continue => Ok(done.unwrap_or_else(|panic| std::panic::resume_unwind(panic))),
            flow => Err(flow),
        }
    }

    /// Handles the terminal's events while a model answers, and asks the person for the work.
    fn attend(
        &mut self,
        wanted: &Receiver<Wanted>,
        is_over: &AtomicBool,
        cancel: &Cancel,
        approvals: &mut Approvals<'_>,
    ) -> Flow {
        let mut ending = Flow::Continue;
        loop {
            while let Ok(wanted) = wanted.try_recv() {
                let flow = self.ask_person(wanted, cancel, approvals);
                if flow != Flow::Continue {
                    cancel.cancel();
                    ending = flow;
                }
                self.session.keys_to(KeysTo::Cancel);
            }
            match self.session.next_event() {
                // Other threads nudge, too, such as the one that lists programs.
                shell::Event::Nudged if is_over.load(Ordering::Acquire) => return ending,
                shell::Event::Nudged => {}
                shell::Event::Cancel => cancel.cancel(),
                shell::Event::Keys(keys, _) if keys.contains(&3) => cancel.cancel(),
                shell::Event::Keys(..) => {}
                event => {
                    if matches!(event, shell::Event::Hangup | shell::Event::Ended(_)) {
                        cancel.cancel();
                    }
                    self.deferred.push_back(event);
                }
            }
        }
    }

    /// Reports that a part of the session's turn couldn't be committed; the end of the turn commits it all the same.
    fn committed(&self, done: Result<(), Failure>) {
        if let Err(failure) = done {
            self.console.failure(&failure);
        }
    }

    /// Puts a request to the person; Ctrl-C says no and stops the whole question.
    fn ask_person(&mut self, wanted: Wanted, cancel: &Cancel, approvals: &mut Approvals<'_>) -> Flow {
        // A Ctrl-C that came just before says no to this, too.
        if cancel.is_cancelled() {
            if let Wanted::Approval(_, to) = wanted {
                let _ = to.send((Answer::No(String::new()), None));
            }
            return Flow::Continue;
        }
        let flow = match wanted {
            Wanted::Consent(text, to) => ask_yes_or_no(self, &text).map(|reply| {
                let yes = reply.unwrap_or(false);
                if reply.is_none() {
                    cancel.cancel();
                }
                let _ = to.send(yes);
            }),
            Wanted::Approval(question, to) => {
                self.committed(approvals.begin(&agreed_to(&question)));
                self.sharing.ask(&question);
                let answer = approve(self, &question, cancel);
                let by = self.sharing.asked(answer.as_ref().ok());
                approvals.end();
                answer.map(|answer| {
                    if matches!(answer, Answer::Once | Answer::Always | Answer::AlwaysFilled | Answer::InMyShell) {
                        self.committed(approvals.note(&agreed_to(&question)));
                    }
                    let _ = to.send((answer, by));
                })
            }
            Wanted::Words(heading, question, choices, to) => {
                // Viewers see why the session waits; the answer is written here.
                self.sharing.event(&Event::Notice(waits_for_words(&heading, &question, &choices)));
                words(self, &heading, &question, &choices).map(|reply| {
                    let _ = to.send(reply);
                })
            }
            Wanted::OverdueChoice(command, has_ended, to) => {
                ask_overdue(self, &command, &has_ended, cancel).map(|reply| {
                    let _ = to.send(reply);
                })
            }
            Wanted::Command(command, to) => self.run_for_model(command).map(|outcome| {
                let _ = to.send(outcome);
            }),
        };
        // If it failed, there is no reply.
        flow.err().unwrap_or(Flow::Continue)
    }
}

/// A question that is answered in words, for those who watch.
fn waits_for_words(heading: &str, question: &str, choices: &[String]) -> String {
    let choices = if choices.is_empty() { String::new() } else { format!(" ({})", choices.join(", ")) };
    format!("{heading} {question}{choices}; this is answered at the terminal")
}

/// Describes a call that a person agreed to, for a commit.
fn agreed_to(question: &Question) -> String {
    match &question.action {
        Action::Shell { command } => command.clone(),
        Action::Keep { command, .. } => format!("the changes of {command}"),
        Action::Write { path } => format!("write {path}"),
        Action::Delete { path } => format!("delete {path}"),
        Action::Edit { writes, deletes } => {
            let paths: Vec<&str> = writes.iter().chain(deletes).map(String::as_str).collect();
            format!("edit {}", paths.join(", "))
        }
        Action::Http { method, url } => format!("{method} {url}"),
        _ => question.tool.clone(),
    }
}

/// The person at this terminal, for the thread that asks the model.
struct AtTerminal<'a> {
    wants: Sender<Wanted>,
    pump: Handle,
    waiting: &'a Waiting,
    console: &'a Console,
    /// The person who answered the last question elsewhere.
    by: Option<String>,
}

impl AtTerminal<'_> {
    /// Asks the person through the loop, and waits; `None` if the terminal has gone.
    fn want<T>(&self, make: impl FnOnce(Sender<T>) -> Wanted) -> Option<T> {
        self.waiting.rest(self.console);
        let (to, from) = channel();
        let sent = self.wants.send(make(to));
        self.pump.nudge();
        let answer = sent.ok().and_then(|()| from.recv().ok());
        self.waiting.go_on();
        answer
    }
}

impl Person for AtTerminal<'_> {
    fn can_ask(&self) -> bool {
        true
    }

    fn name(&self) -> Option<String> {
        self.by.clone()
    }

    fn consent(&mut self, crossing: &Crossing) -> bool {
        let text = crossing_question(crossing);
        self.want(|answer| Wanted::Consent(text, answer)).unwrap_or(false)
    }

    fn approve(&mut self, question: &Question) -> Answer {
        self.waiting.note_question();
        let question = Box::new(question.clone());
        let gone = || (Answer::Unanswered("the terminal has gone".to_owned()), None);
        let (answer, by) = self.want(|answer| Wanted::Approval(question, answer)).unwrap_or_else(gone);
        self.by = by;
        answer
    }

    fn reply_to(&mut self, heading: &str, question: &str, choices: &[String]) -> Option<String> {
        let (heading, question, choices) = (heading.to_owned(), question.to_owned(), choices.to_vec());
        self.want(|answer| Wanted::Words(heading, question, choices, answer)).flatten()
    }

    fn overdue(&mut self, command: &Overdue, has_ended: &Arc<AtomicBool>) -> Option<OverdueChoice> {
        let (command, has_ended) = (command.clone(), Arc::clone(has_ended));
        self.want(|answer| Wanted::OverdueChoice(command, has_ended, answer)).flatten()
    }

    fn progress(&mut self, text: &str) {
        self.waiting.note(text);
    }

    fn has_shell(&self) -> bool {
        true
    }

    fn run_in_own_shell(&mut self, command: &str) -> Option<Outcome> {
        let command = command.to_owned();
        self.want(|answer| Wanted::Command(command, answer)).flatten()
    }
}
