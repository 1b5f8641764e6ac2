//! Gates of a team before the policy: the gate asks them when it admits a call. Knows nothing of the sources of their facts.

use super::Call;
use crate::proto::action::PolicyVerdict;

/// Gates that are asked about each call before it is admitted.
pub trait Chain: Send + Sync {
    /// Decides about a call, and reserves what it needs.
    ///
    /// # Errors
    /// A gate blocks.
    fn decide(&self, call: &Call, verdict: &PolicyVerdict) -> Result<(), Blocked>;
}

/// A gate blocks a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Blocked {
    /// The gate's name.
    pub gate: &'static str,
    /// The reason, one line.
    pub why: String,
}
