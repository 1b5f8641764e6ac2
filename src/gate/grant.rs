//! A person's grant to a run in advance: a value that is bound to the run and never a higher autonomy. It covers calls
//! of medium risk whose effects all lie inside; everything else is asked about as ever.

use std::path::Path;

use globset::{Glob, GlobSet, GlobSetBuilder};

use super::{Approver, Call, Decision};
use crate::proto::action::{Action, Effect, PolicyVerdict, Risk, WriteKind};
use crate::proto::known_paths;

/// A person's grant to a run.
#[derive(Clone, Debug)]
pub struct Grant {
    writes: GlobSet,
    protected: GlobSet,
    commands: Vec<String>,
    checks: Vec<String>,
    calls_left: Option<u64>,
}

/// A pattern that can't be understood.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct GrantError(String);

impl Grant {
    /// Makes one: patterns of paths below the workspace that may be changed, and that never may without a question; command
    /// lines that may run, and those that are checks, each exactly; calls that are left, if they are counted.
    ///
    /// # Errors
    /// A pattern can't be understood.
    pub fn new(
        writes: &[String],
        protected: &[String],
        commands: &[String],
        checks: &[String],
        calls_left: Option<u64>,
    ) -> Result<Self, GrantError> {
        let (commands, checks) = (commands.to_vec(), checks.to_vec());
        Ok(Self { writes: set_of(writes)?, protected: set_of(protected)?, commands, checks, calls_left })
    }

    /// Whether a judged call lies inside.
    pub(super) fn covers(&self, call: &Call, verdict: &PolicyVerdict, workspace: &Path) -> bool {
        if verdict.risk == Risk::Blocked || verdict.decision == Decision::Deny {
            return false;
        }
        if let Action::Shell { command } = &call.action
            && call.needs.is_empty()
            && self.commands.iter().any(|granted| granted == command.trim())
        {
            return true;
        }
        let is_inside = |effect: &Effect| match effect {
            Effect::Exec { .. } | Effect::Read { .. } | Effect::Define { .. } => true,
            // A directory with all that is in it is no change of a file: a person says yes to exactly that.
            Effect::Write { how: WriteKind::DeleteTree, .. } => false,
            Effect::Write { path, .. } => self.may_write(path, workspace),
            Effect::Net { .. } | Effect::Signal { .. } => false,
        };
        verdict.risk < Risk::High
            && !removes_directory(&call.action, workspace)
            && verdict.needs.is_empty()
            && call.needs.is_empty()
            && verdict.effects.iter().all(is_inside)
            && match &call.action {
                Action::Shell { .. } => true,
                action => {
                    changed(action).is_some_and(|paths| paths.iter().all(|path| self.may_write(path, workspace)))
                        && directories(action).iter().all(|path| self.may_make(path, workspace))
                }
            }
    }

    /// Whether a call names a file that never changes without a question.
    pub(super) fn protects(&self, call: &Call, workspace: &Path) -> bool {
        let is_protected = |path: &str| relative(path, workspace).is_some_and(|path| self.protected.is_match(path));
        changed(&call.action).is_some_and(|paths| paths.iter().any(|path| is_protected(path)))
    }

    /// Whether a command is one of the run's checks.
    pub(super) fn is_check(&self, command: &str) -> bool {
        self.checks.iter().any(|check| check == command)
    }

    /// Calls that are left, if they are counted.
    pub(super) fn calls_left(&self) -> Option<u64> {
        self.calls_left
    }

    /// Reason why a call may not run any more.
    pub(super) fn used_up(&self, call: &Call, approver: &Approver) -> Option<&'static str> {
        let is_over = self.calls_left == Some(0) && is_counted(call, approver);
        is_over.then_some("the run's budget of calls is used up")
    }

    /// Counts a call that runs.
    pub(super) fn count(&mut self, call: &Call, approver: &Approver) {
        if is_counted(call, approver) {
            self.calls_left = self.calls_left.map(|left| left.saturating_sub(1));
        }
    }

    /// Whether a directory itself, or what would be in it, may be written.
    fn may_make(&self, path: &str, workspace: &Path) -> bool {
        self.may_write(path, workspace) || self.may_write(&format!("{path}/x"), workspace)
    }

    fn may_write(&self, path: &str, workspace: &Path) -> bool {
        let Some(path) = relative(path, workspace) else { return false };
        known_paths::protected(path.as_os_str().as_encoded_bytes()).is_none()
            && self.writes.is_match(path)
            && !self.protected.is_match(path)
    }
}

/// Whether a call is one of the model's: a check isn't, and the changes of a command belong to its call.
fn is_counted(call: &Call, approver: &Approver) -> bool {
    *approver != Approver::Check && !matches!(call.action, Action::Keep { .. })
}

/// Whether a directory with all that is in it would go; on a copy of the workspace only the result tells that.
fn removes_directory(action: &Action, workspace: &Path) -> bool {
    let deletes = match action {
        Action::Edit { deletes, .. } | Action::Keep { deletes, .. } => deletes.as_slice(),
        Action::Delete { path } => std::slice::from_ref(path),
        _ => &[],
    };
    deletes.iter().any(|path| workspace.join(path).is_dir())
}

/// The files that a call changes, as it names them; none for an action of which that can't be said.
fn changed(action: &Action) -> Option<Vec<&str>> {
    match action {
        Action::Write { path } | Action::Delete { path } => Some(vec![path]),
        Action::Edit { writes, deletes } | Action::Keep { writes, deletes, .. } => {
            Some(writes.iter().chain(deletes).map(String::as_str).collect())
        }
        Action::Read { .. } | Action::Open { .. } | Action::List { .. } => Some(Vec::new()),
        _ => None,
    }
}

/// The directories that a call makes, or changes the mode of.
fn directories(action: &Action) -> &[String] {
    if let Action::Keep { directories, .. } = action { directories } else { &[] }
}

/// A path below the workspace, relative to it.
fn relative<'p>(path: &'p str, workspace: &Path) -> Option<&'p Path> {
    let path = Path::new(path);
    let path = if path.is_absolute() { path.strip_prefix(workspace).ok()? } else { path };
    path.components()
        .all(|part| matches!(part, std::path::Component::Normal(_) | std::path::Component::CurDir))
        .then(|| path.strip_prefix(".").unwrap_or(path))
}

fn set_of(patterns: &[String]) -> Result<GlobSet, GrantError> {
    let mut set = GlobSetBuilder::new();
    for pattern in patterns {
        set.add(Glob::new(pattern).map_err(|error| GrantError(error.to_string()))?);
    }
    set.build().map_err(|error| GrantError(error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(action: Action) -> Call {
        Call {
            tool: "shell".into(),
            arguments: serde_json::json!({}),
            action,
            preview: String::new(),
            changes: [].into(),
            conversation: None,
            needs: Vec::new(),
        }
    }

    #[test]
    fn a_grant_covers_medium_risk_inside_its_paths_and_nothing_else() {
        let list = |items: &[&str]| items.iter().map(|it| (*it).to_owned()).collect::<Vec<_>>();
        let grant =
            Grant::new(&list(&["src/**"]), &list(&["src/test.py"]), &list(&["make all"]), &[], None).expect("patterns");
        let keep = |path: &str| Action::Keep {
            command: "x".into(),
            writes: vec![path.into()],
            deletes: Vec::new(),
            directories: Vec::new(),
            guarded: Vec::new(),
            special: Vec::new(),
            others: Vec::new(),
        };
        let shell = |command: &str| Action::Shell { command: command.into() };
        let write = |path: &str| vec![Effect::Write { path: path.into(), how: WriteKind::Write }];
        let net = vec![Effect::Net { host: String::new() }];
        for (action, risk, effects, is_covered) in [
            (keep("src/a.py"), Risk::Medium, write("/w/src/a.py"), true),
            (keep("./src/a.py"), Risk::Medium, vec![], true),
            (keep("other/a.py"), Risk::Medium, vec![], false),
            (keep("src/test.py"), Risk::Medium, vec![], false),
            (keep("src/../other"), Risk::Medium, vec![], false),
            (keep("/elsewhere/src/a"), Risk::Medium, vec![], false),
            (keep("src/a.py"), Risk::High, vec![], false),
            (shell("sed -i x src/a.py"), Risk::Medium, write("/w/src/a.py"), true),
            (shell("sed -i x a.py"), Risk::Medium, write("/w/a.py"), false),
            (
                shell("rm -rf src/a"),
                Risk::Medium,
                vec![Effect::Write { path: "/w/src/a".into(), how: WriteKind::DeleteTree }],
                false,
            ),
            (shell("curl x"), Risk::Medium, net.clone(), false),
            (shell("make all"), Risk::High, net.clone(), true),
            (shell("make all; x"), Risk::High, vec![], false),
            (shell("make all"), Risk::Blocked, vec![], false),
            (Action::External { name: "x".into() }, Risk::Medium, vec![], false),
        ] {
            let verdict =
                PolicyVerdict { risk, decision: Decision::Ask, reasons: Vec::new(), effects, needs: Vec::new() };
            assert_eq!(grant.covers(&call(action.clone()), &verdict, Path::new("/w")), is_covered, "{action:?} {risk}");
        }
    }
}
