//! The stand-in for the person whom a run doesn't have: it says yes to calls that a person approved by their fingerprint, and
//! otherwise halts the run or says no.

use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use super::OnHalt;
use super::review::Reviewer;
use crate::agent::{Cancel, Person};
use crate::base::hash::sha256_hex;
use crate::norris::Halt;
use crate::proto::Event;
use crate::proto::action::Risk;
use crate::proto::tool::{Answer, Overdue, OverdueChoice, Question, Step};
use crate::tools::served::Changed;

/// Reason of a call that has halted its run; the run itself says that, so faces don't.
pub const WAITS: &str = "the run waits for you to answer";

/// Characters of a preview that a halted run keeps.
const PREVIEW_CHARS_MAX: usize = 16 * 1024;

/// The call that a question is about, according to the events of the answer.
#[derive(Clone, Default)]
pub(in crate::agent) struct Calls(Arc<Mutex<(String, String)>>);

impl Calls {
    /// Sees what happens in an answer.
    pub(in crate::agent) fn sees(&self, event: &Event) {
        if let Event::Tool(tool) = event
            && let Step::Requested { intent, planned } = &tool.step
        {
            let newest = (planned.arguments.to_string(), intent.clone());
            *self.0.lock() = newest;
        }
    }

    /// Makes a halt of the newest call: its tool isn't the one any more that the person allowed.
    pub(super) fn halt_of_changed(&self, tool: &str, changed: Changed) -> Halt {
        let (arguments, intent) = self.0.lock().clone();
        Halt {
            digest: sha256_hex(format!("{tool} {arguments}").as_bytes()),
            tool: tool.to_owned(),
            arguments,
            intent,
            risk: Risk::Blocked.word().to_owned(),
            reasons: changed.reasons(),
            preview: changed.difference,
            conversation: None,
        }
    }
}

/// The stand-in.
pub(in crate::agent) struct StandIn {
    on_halt: OnHalt,
    cancel: Cancel,
    /// Fingerprints of calls that a person approved; each counts once.
    approved: Vec<String>,
    calls: Calls,
    /// True if an overdue command is waited for until its step's time is over; otherwise it continues as a job.
    pub(in crate::agent) waits: bool,
    /// The call that halts the run.
    pub(in crate::agent) halt: Option<Halt>,
    /// The second opinion on calls that would run without a question.
    pub(super) reviewer: Option<Reviewer>,
}

impl StandIn {
    pub(in crate::agent) fn new(on_halt: OnHalt, cancel: Cancel, approved: Vec<String>) -> Self {
        Self { on_halt, cancel, approved, calls: Calls::default(), waits: false, halt: None, reviewer: None }
    }

    /// Returns the observer of the answer's events.
    pub(in crate::agent) fn calls(&self) -> Calls {
        self.calls.clone()
    }
}

impl Person for StandIn {
    fn can_ask(&self) -> bool {
        // What the grant covers is asked about as far as the policy knows.
        true
    }

    fn can_reply(&self) -> bool {
        // A run waits for a yes, not for an answer: a tool that asks would only cost a call.
        false
    }

    fn overdue(&mut self, _: &Overdue, _: &Arc<AtomicBool>) -> Option<OverdueChoice> {
        self.waits.then_some(OverdueChoice::Wait)
    }

    fn doubt(&mut self, question: &Question) -> Option<String> {
        if self.approved.contains(&question.digest) {
            return Some("a person was asked about it".to_owned());
        }
        self.reviewer.as_mut()?.doubt(question)
    }

    fn approve(&mut self, question: &Question) -> Answer {
        if let Some(at) = self.approved.iter().position(|digest| *digest == question.digest) {
            self.approved.swap_remove(at);
            return Answer::Once;
        }
        if self.on_halt == OnHalt::Deny {
            return Answer::Unanswered("no one can be asked during this run".to_owned());
        }
        if self.halt.is_none() {
            let (arguments, intent) = self.calls.0.lock().clone();
            self.halt = Some(Halt {
                digest: question.digest.clone(),
                tool: question.tool.clone(),
                arguments,
                intent,
                risk: question.verdict.risk.word().to_owned(),
                reasons: question.verdict.reasons.iter().map(|reason| reason.text.clone()).collect(),
                preview: question.preview.chars().take(PREVIEW_CHARS_MAX).collect(),
                conversation: None,
            });
        }
        self.cancel.cancel();
        Answer::Unanswered(WAITS.to_owned())
    }
}
