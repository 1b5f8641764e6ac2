//! Results that a run takes over from an earlier one, so that it begins at a later step.

use super::event::{EarlierEnd, EarlierResult};
use super::run::StepState;
use super::{Act, Definition, Run, Step};

impl Run {
    /// Returns the results of the steps before `from`, for a new run of `definition`. Approvals aren't included: an approval
    /// counts only in its own run.
    ///
    /// # Errors
    /// There is no such step, or an earlier step hasn't ended in this run or was a different one.
    pub fn results_before(&self, from: &str, definition: &Definition) -> Result<Vec<EarlierResult>, String> {
        let Some(end) = definition.position(from) else {
            return Err(format!("{} has no step {from}", definition.name));
        };
        let earlier = definition.steps[..end].iter().filter(|step| !matches!(step.act, Act::Approval { .. }));
        earlier.map(|step| self.result_of(step)).collect()
    }

    fn result_of(&self, step: &Step) -> Result<EarlierResult, String> {
        let (id, run) = (&step.id, self.id);
        let before = self.definition().and_then(|it| Some((it.position(id)?, it)));
        let Some((at, before)) = before else { return Err(format!("run {run} had no step {id}")) };
        if before.steps[at] != (Step { line: before.steps[at].line, ..step.clone() }) {
            return Err(format!("step {id} is another one than in run {run}"));
        }
        let state = &self.steps[at];
        let end = match state.state {
            StepState::Done => EarlierEnd::Done,
            StepState::Skipped => EarlierEnd::Skipped,
            StepState::Failed if self.is_over(at) => EarlierEnd::Failed,
            _ => return Err(format!("step {id} isn't done in run {run}")),
        };
        let (output, metadata, error) = (state.output.clone(), state.metadata.clone(), state.error.clone());
        Ok(EarlierResult { step: id.clone(), run, end, output, metadata, error })
    }
}
