//! The permit of a call: only the gate makes one, and a tool reads from it what it may do. Also the calls to which a person may
//! say "always".

use std::path::{Path, PathBuf};

use serde_json::Value;

use super::{Call, Disk, command, unopened, writable};
use crate::policy::{self, Context, Rules};
use crate::proto::action::{Action, Effect, Hold, KeptPaths, Need, PolicyVerdict, Reason, Risk};
use crate::receipts::Opened;

/// Limit on the paths of changes that may be allowed with "always".
const KEPT_ALWAYS_MAX: usize = 200;
/// Rules of the policy whose commands may be allowed permanently despite their high risk: the commands are only
/// unknown.
const MAY_ALWAYS_RULES: &[&str] = &["unknown-program"];
/// Longest arguments of a server's tool, in bytes, for which "always" is possible: a person has read them.
const SERVED_BYTES_MAX: usize = 4 << 10;

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

    /// Returns whether a file that the call found may be read without a question: for tools that search many files.
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

    /// Returns the paths outside the workspace that were part of what was judged and allowed, as far as they can be opened: for
    /// reading, and for writing. For a missing file that is its directory, unless this is a whole home.
    #[must_use]
    pub fn paths(&self) -> (Vec<PathBuf>, Vec<PathBuf>) {
        let read = self.verdict.needs.iter().filter_map(|need| match need {
            Need::Read { path } | Need::Socket { path } => Some(PathBuf::from(path)),
            Need::Write { .. } | Need::Network { .. } | Need::Host { .. } => None,
        });
        (read.collect(), writable(&self.verdict, &self.rules))
    }

    /// Paths outside the workspace that were allowed to be written and can't be opened, by whether they lie in the home: a jail
    /// lets a program make those. What is written at the others is lost.
    #[must_use]
    pub fn unopened(&self) -> (Vec<PathBuf>, Vec<PathBuf>) {
        let paths = unopened(&self.verdict, &self.rules).map(Path::to_owned);
        paths.partition(|path| path.starts_with(&self.rules.home))
    }

    /// Returns whether the effects of the command are unknown, so that it may only read.
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

/// The command whose changes a call applies, and their paths.
pub(super) fn changed_paths(call: &Call) -> Option<(&str, KeptPaths)> {
    let Action::Keep { command, .. } = &call.action else { return None };
    Some((command, call.action.kept_paths()?))
}

/// The directories that tools fill, each with a slash at its end, if a call changes nothing else.
pub(super) fn filled(call: &Call) -> Vec<String> {
    let KeptPaths { written, removed, has_special } = call.action.kept_paths().unwrap_or_default();
    let is_only = removed.is_empty() && !has_special && written.iter().all(|path| path.ends_with('/'));
    if is_only { written } else { Vec::new() }
}

/// The call of a server's tool in a line, with the mark of what was allowed of the tool; `None` for another action, and if the
/// config wants the question each time.
pub(super) fn served_call(call: &Call) -> Option<(String, &str)> {
    let Action::Served { server, tool, pin, is_asked: false, .. } = &call.action else { return None };
    let arguments = call.arguments.to_string();
    let may_be = !pin.is_empty() && arguments.len() <= SERVED_BYTES_MAX;
    may_be.then(|| (format!("{server}.{tool} {arguments}"), pin.as_str()))
}

/// Returns whether "always" is a possible answer for a call: a call of a server's tool, for the very same arguments; new content
/// and deletions at some paths, none of them protected; or one plain, understood command that reaches neither the network nor a
/// guarded place, and whose program isn't one that runs any code in its arguments.
pub(super) fn may_always(call: &Call, verdict: &PolicyVerdict) -> bool {
    let is_plain =
        |effect: &Effect| !matches!(effect, Effect::Net { .. } | Effect::Define { .. } | Effect::Signal { .. });
    if let Some(KeptPaths { written, removed, has_special }) = call.action.kept_paths() {
        return verdict.risk < Risk::High && !has_special && written.len() + removed.len() <= KEPT_ALWAYS_MAX;
    }
    if served_call(call).is_some() {
        return verdict.risk < Risk::Blocked;
    }
    let commands = verdict.effects.iter().filter(|effect| matches!(effect, Effect::Exec { .. })).count();
    let is_known = |reason: &Reason| reason.risk < Risk::High || MAY_ALWAYS_RULES.contains(&reason.rule);
    command(call).is_some_and(|command| !command.contains('\n'))
        && verdict.risk < Risk::Blocked
        && commands == 1
        && verdict.effects.iter().all(is_plain)
        && verdict.reasons.iter().all(is_known)
}
