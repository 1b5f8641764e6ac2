//! Steps that are runs of their own: another procedure, or work towards a goal. Each has a journal of its own, so that it
//! survives a crash as any run does; the outer run waits as long as its step's run waits.

use serde_json::Value;

use super::{Journal, Work, work};
use crate::agent::Agent;
use crate::agent::goal::{self, OnHalt};
use crate::norris::{self, Goal};
use crate::proto::{Event, Failure};
use crate::sop::{self, Budget};

/// The wish of a step for a run.
pub struct Order<'a> {
    /// The run that it has begun before.
    pub known: Option<i64>,
    /// The arguments of the step.
    pub args: &'a Value,
    /// The part of the outer run's budget that is left.
    pub left: Budget,
}

/// The run of a step.
pub enum InnerRun {
    /// One of a procedure.
    Procedure(Box<dyn Journal>),
    /// One towards a goal.
    Goal(Box<dyn goal::Journal>, Box<Goal>),
}

impl InnerRun {
    /// The number of the run.
    pub(super) fn inner_number(&self) -> i64 {
        match self {
            Self::Procedure(journal) => journal.run(),
            Self::Goal(journal, _) => journal.run(),
        }
    }

    /// Requests the end of the run.
    pub(super) fn ends(&self) -> Result<(), Failure> {
        match self {
            Self::Procedure(journal) => journal.add(&sop::Event::CancelAsked),
            Self::Goal(journal, _) => journal.add(&norris::Event::StopAsked),
        }
    }
}

/// Progress of the run of a step.
pub(super) struct Standing {
    /// Its end: the word, the reason, the exit status.
    pub(super) end: Option<(&'static str, String, u8)>,
    /// The output of its last step.
    pub(super) output: String,
    /// The person's way to let it continue.
    pub(super) hint: String,
}

impl Standing {
    fn of_procedure(run: &sop::Run) -> Self {
        let end = run.end.as_ref().map(|end| (end.word(), end.why().to_owned(), end.status()));
        let outputs = run.steps.iter().rev().filter_map(|step| step.output.as_ref());
        let output = outputs.into_iter().find(|output| !output.is_empty()).cloned().unwrap_or_default();
        Self { end, output, hint: format!("reedclaw sop status {}", run.id) }
    }

    fn of_goal(number: i64, run: &norris::Run) -> Self {
        let end = run.end.as_ref().map(|end| (end.word(), end.why().to_owned(), end.status()));
        let output = end.as_ref().map_or_else(String::new, |(word, why, _)| format!("{word} {why}").trim().to_owned());
        let hint =
            format!("reedclaw norris show {number} tells why; after norris approve {number}, reedclaw sop resume");
        Self { end, output, hint }
    }
}

/// Works on the run of a step until it ends or waits.
pub(super) fn work_inner(agent: &mut Agent, outer: Work<'_>, inner: &InnerRun) -> Result<Standing, Failure> {
    match inner {
        InnerRun::Procedure(journal) => {
            let Work { watcher, cancel, stops, .. } = outer;
            let parts = Work { journal: &**journal, watcher, cancel, stops };
            work(agent, parts).map(|run| Standing::of_procedure(&run))
        }
        InnerRun::Goal(journal, goal) => {
            goal::ready(agent, goal)?;
            let Work { watcher, cancel, .. } = outer;
            let mut watcher = |event: Event| watcher.event(event);
            let parts =
                goal::Work { journal: &**journal, watcher: &mut watcher, on_halt: OnHalt::Halt, cancel, turns: None };
            goal::work(agent, parts).map(|run| Standing::of_goal(journal.run(), &run))
        }
    }
}
