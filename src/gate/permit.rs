//! The permit of a call. Only the gate makes one, and a tool reads from it what it may do.

use std::path::{Path, PathBuf};

use serde_json::Value;

use super::{Call, Disk, unopened, writable};
use crate::policy::{self, Context, Rules};
use crate::proto::action::{Action, Effect, Hold, Need, PolicyVerdict, Risk};
use crate::receipts::Opened;

/// Permission to run one call: exactly its contents run. Only the gate makes one.
#[derive(Debug)]
#[must_use]
pub struct Permit {
    pub(super) call: Call,
    pub(super) verdict: PolicyVerdict,
    pub(super) cwd: PathBuf,
    pub(super) rules: Rules,
    pub(super) is_look: bool,
    pub(super) has_network: bool,
    pub(super) is_by_words: bool,
    pub(super) digest: String,
    pub(super) opened: Option<Opened>,
}

impl Permit {
    /// The call that may run.
    #[must_use]
    pub fn call(&self) -> &Call {
        &self.call
    }

    /// The tool's name.
    #[must_use]
    pub fn tool(&self) -> &str {
        &self.call.tool
    }

    /// The arguments.
    #[must_use]
    pub fn arguments(&self) -> &Value {
        &self.call.arguments
    }

    /// The action of the call.
    #[must_use]
    pub fn action(&self) -> &Action {
        &self.call.action
    }

    /// The changes of the call, as the person saw them.
    #[must_use]
    pub fn preview(&self) -> &str {
        &self.call.preview
    }

    /// The fingerprint of exactly this call, as its question had it.
    #[must_use]
    pub fn digest(&self) -> &str {
        &self.digest
    }

    /// The directory that it was judged in.
    #[must_use]
    pub fn cwd(&self) -> &Path {
        &self.cwd
    }

    /// Returns whether a person has agreed to its words, now or by a lasting rule.
    #[must_use]
    pub fn is_by_words(&self) -> bool {
        self.is_by_words
    }

    /// Returns whether a file that the call came upon may be read without asking anybody: for tools that look through
    /// many.
    #[must_use]
    pub fn may_read(&self, path: &Path) -> bool {
        let (Some(path), Some(cwd)) = (path.to_str(), self.cwd.to_str()) else { return false };
        let context = Context { rules: &self.rules, cwd, can_ask: false, hold: Hold::Walls, files: &Disk::default() };
        policy::judge(&Action::Read { path: path.to_owned() }, &context).risk == Risk::Low
    }

    /// Returns whether the network of this machine was part of what was allowed.
    #[must_use]
    pub fn has_network(&self) -> bool {
        self.has_network
    }

    /// Returns whether its words name this machine as the place that it speaks to.
    #[must_use]
    pub fn names_loopback(&self) -> bool {
        speaks(&self.verdict) && !needs_network(&self.verdict)
    }

    /// Paths outside the workspace that were part of what was judged and allowed, as far as they can be opened: to be read,
    /// and to be written. For a file that isn't there yet that is its directory, unless this is a whole home.
    #[must_use]
    pub fn paths(&self) -> (Vec<PathBuf>, Vec<PathBuf>) {
        let read = self.verdict.needs.iter().filter_map(|need| match need {
            Need::Read { path } | Need::Socket { path } => Some(PathBuf::from(path)),
            Need::Write { .. } | Need::Network { .. } | Need::Host { .. } => None,
        });
        (read.collect(), writable(&self.verdict, &self.rules))
    }

    /// Paths outside the workspace that were allowed to be written and can't be opened: what is written there is lost.
    #[must_use]
    pub fn lost_paths(&self) -> Vec<PathBuf> {
        unopened(&self.verdict, &self.rules).map(Path::to_owned).collect()
    }

    /// Returns whether nobody knows what the command does, so that it may only look.
    #[must_use]
    pub fn is_look(&self) -> bool {
        self.is_look
    }

    /// The risk of the call.
    #[must_use]
    pub fn risk(&self) -> Risk {
        self.verdict.risk
    }
}

/// Returns whether a call speaks to a machine, be it this one.
pub(super) fn speaks(verdict: &PolicyVerdict) -> bool {
    verdict.effects.iter().any(|effect| matches!(effect, Effect::Net { .. }))
}

/// Returns whether a call speaks to another machine.
pub(super) fn needs_network(verdict: &PolicyVerdict) -> bool {
    verdict.needs.iter().any(|need| matches!(need, Need::Network { .. }))
}
