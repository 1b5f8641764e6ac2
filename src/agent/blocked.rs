//! A call that a gate of a team blocks before the policy's word counts: refused with a receipt, like any other.

use super::ToolRunner;
use crate::gate::{Blocked, Call};
use crate::proto::tool::Outcome;

impl ToolRunner {
    /// Refuses a planned call because a gate of a team blocks it.
    pub fn block(&mut self, call: Call, blocked: &Blocked) -> Outcome {
        let cwd = self.cwd_of(&call);
        let ticket = self.options.gate.judge(call, &cwd, false);
        self.options.gate.block(ticket, blocked)
    }
}
