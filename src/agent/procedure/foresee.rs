//! A preview of a procedure: how the rules would judge each step now. Nothing runs, and nothing is written.

use super::hands::{grant_of, plan_step};
use super::{Agent, no_tools};
use crate::proto::Failure;
use crate::proto::action::Decision;
use crate::sop::{Act, Covered, Mode, Run, Step};

/// Outlook of a step by now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outlook {
    /// Would run without a question.
    Runs,
    /// Would wait for a person.
    Asks,
    /// Denied by the rules.
    Denied,
    /// Its call isn't known before earlier steps have run.
    Later,
    /// Can't be planned.
    Fails,
}

impl Outlook {
    /// The word for it.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Runs => "run",
            Self::Asks => "ask",
            Self::Denied => "deny",
            Self::Later => "later",
            Self::Fails => "fail",
        }
    }
}

/// A step as it would be done by now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Foreseen {
    /// Its id.
    pub step: String,
    /// Its kind.
    pub kind: &'static str,
    /// Its outlook.
    pub outlook: Outlook,
    /// Its call, or its subject.
    pub call: Covered,
}

/// Plans and judges every step of a run that hasn't begun.
///
/// # Errors
/// There are no tools, or a step's pattern can't be understood.
pub fn foresee(agent: &mut Agent, run: &Run) -> Result<Vec<Foreseen>, Failure> {
    let Some(definition) = run.definition() else { return Ok(Vec::new()) };
    let steps = definition.steps.iter().enumerate();
    let seen = steps.map(|(at, step)| step_foreseen(agent, run, (at, step), definition.mode)).collect();
    agent.runner().ok_or_else(no_tools)?.gate().grant(None);
    seen
}

fn step_foreseen(agent: &mut Agent, run: &Run, (at, step): (usize, &Step), mode: Mode) -> Result<Foreseen, Failure> {
    let about = |intent: &str| Covered { step: step.id.clone(), intent: intent.to_owned(), ..Covered::default() };
    let (outlook, call) = match &step.act {
        Act::Tool { .. } | Act::Shell { .. } => call_foreseen(agent, run, (at, step), mode)?,
        Act::Model { prompt, .. } => (Outlook::Runs, about(prompt)),
        Act::Approval { prompt, .. } => (Outlook::Asks, about(prompt)),
        Act::Goal { goal, .. } => (Outlook::Runs, about(goal)),
        Act::Procedure { name, .. } => (Outlook::Runs, about(&format!("the procedure {name}"))),
        Act::Wait { ms } => (Outlook::Runs, about(&format!("{} s pass", ms / 1_000))),
        Act::Condition { .. } => (Outlook::Later, about("its test decides whether the run continues")),
    };
    let asks = mode == Mode::StepByStep && step.act.has_output() && outlook == Outlook::Runs;
    let outlook = if asks { Outlook::Asks } else { outlook };
    Ok(Foreseen { step: step.id.clone(), kind: step.act.word(), outlook, call })
}

fn call_foreseen(
    agent: &mut Agent,
    run: &Run,
    (at, step): (usize, &Step),
    mode: Mode,
) -> Result<(Outlook, Covered), Failure> {
    let about = |intent: String| Covered { step: step.id.clone(), intent, ..Covered::default() };
    let Some(args) = run.known_arguments(at) else {
        return Ok((Outlook::Later, about("an earlier step's result decides its call".into())));
    };
    let grant = grant_of(step, mode == Mode::Auto && step.act.is_literal())?;
    let runner = agent.runner().ok_or_else(no_tools)?;
    if let Act::Tool { tool, .. } = &step.act
        && !runner.registry().is_tool(tool)
    {
        // A preview starts nothing.
        return Ok((Outlook::Later, about(format!("{tool} is known once its server was started"))));
    }
    runner.gate().grant(Some(grant));
    Ok(match plan_step(runner, step, &args, None) {
        Ok(planned) => {
            let outlook = match planned.decision() {
                Decision::Run => Outlook::Runs,
                Decision::Ask => Outlook::Asks,
                Decision::Deny => Outlook::Denied,
            };
            (outlook, planned.covered(&step.id))
        }
        Err(error) => (Outlook::Fails, about(format!("it can't be planned: {error}"))),
    })
}
