//! A person's grant to a run in advance: a value that is bound to the run and never a higher autonomy. It covers calls
//! of medium risk whose effects all lie inside; everything else is asked about as ever.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use globset::{Glob, GlobSet, GlobSetBuilder};
use parking_lot::Mutex;

use super::{Approver, Call, Decision};
use crate::policy::Files;
use crate::proto::action::{Action, Effect, PolicyVerdict, Risk, WriteKind};
use crate::proto::known_paths;

/// Calls that a run may still make; unlimited by default. A person may change them while the run works.
#[derive(Clone, Debug, Default)]
pub struct CallsLeft(Arc<Mutex<Option<u64>>>);

impl CallsLeft {
    /// Sets them; `None` counts none.
    pub fn set(&self, left: Option<u64>) {
        *self.0.lock() = left;
    }

    fn get(&self) -> Option<u64> {
        *self.0.lock()
    }
}

/// A person's grant to a run.
#[derive(Clone, Debug)]
pub struct Grant {
    writes: GlobSet,
    protected: GlobSet,
    commands: Vec<String>,
    checks: Vec<String>,
    calls_left: CallsLeft,
}

/// A pattern that can't be understood.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct GrantError(String);

impl Grant {
    /// Makes one: patterns of paths below the workspace that may be changed, and that never may without a question; command
    /// lines that may run, and those that are checks, each exactly; calls that are left.
    ///
    /// # Errors
    /// A pattern can't be understood.
    pub fn new(
        writes: &[String],
        protected: &[String],
        commands: &[String],
        checks: &[String],
        calls_left: CallsLeft,
    ) -> Result<Self, GrantError> {
        let (commands, checks) = (commands.to_vec(), checks.to_vec());
        Ok(Self { writes: set_of(writes)?, protected: set_of(protected)?, commands, checks, calls_left })
    }

    /// Returns whether a judged call lies inside.
    pub(super) fn covers(&self, call: &Call, verdict: &PolicyVerdict, workspace: &Path, files: &dyn Files) -> bool {
        let may_write = |path: &str| self.may_write(path, workspace, files);
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
            // A directory with everything in it isn't a change of a file: a person must say yes to exactly that.
            Effect::Write { how: WriteKind::DeleteTree, .. } => false,
            Effect::Write { path, .. } => may_write(path),
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
                    // A directory itself, or what would be in it.
                    let may_make = |path: &String| may_write(path) || may_write(&format!("{path}/x"));
                    changed(action).is_some_and(|paths| paths.into_iter().all(may_write))
                        && directories(action).iter().all(may_make)
                }
            }
    }

    /// Returns whether a call changes a file that never changes without a question, by its name or through a link.
    pub(super) fn protects(&self, call: &Call, workspace: &Path, files: &dyn Files) -> bool {
        let is_protected = |path: &str| {
            relative(path, workspace).is_some_and(|named| {
                // A link that leads to nothing may make any file.
                let through = target(named, workspace, files);
                self.protected.is_match(named) || through.is_none_or(|path| self.protected.is_match(path))
            })
        };
        changed(&call.action).is_some_and(|paths| paths.iter().any(|path| is_protected(path)))
    }

    /// Returns whether a command is one of the run's checks.
    pub(super) fn is_check(&self, command: &str) -> bool {
        self.checks.iter().any(|check| check == command)
    }

    /// Calls that are left, if they are counted.
    pub(super) fn calls_left(&self) -> Option<u64> {
        self.calls_left.get()
    }

    /// Reason why a call may not run any more.
    pub(super) fn used_up(&self, call: &Call, approver: &Approver) -> Option<&'static str> {
        let is_over = self.calls_left.get() == Some(0) && is_counted(call, approver);
        is_over.then_some("the run's budget of calls is used up")
    }

    /// Counts a call that runs.
    pub(super) fn count(&mut self, call: &Call, approver: &Approver) {
        if is_counted(call, approver) {
            self.calls_left.set(self.calls_left.get().map(|left| left.saturating_sub(1)));
        }
    }

    /// Returns whether a path may be written: by its name, and by the target of its links.
    fn may_write(&self, path: &str, workspace: &Path, files: &dyn Files) -> bool {
        let Some(named) = relative(path, workspace) else { return false };
        let Some(through) = target(named, workspace, files) else { return false };
        [named, &through].into_iter().all(|path| {
            known_paths::protected(path.as_os_str().as_encoded_bytes()).is_none()
                && self.writes.is_match(path)
                && !self.protected.is_match(path)
        })
    }
}

/// Returns whether a call is one of the model's: a check isn't, and the changes of a command belong to its call.
fn is_counted(call: &Call, approver: &Approver) -> bool {
    *approver != Approver::Check && !matches!(call.action, Action::Keep { .. })
}

/// Returns whether a directory with everything in it would be removed; on a copy of the workspace only the result shows that.
fn removes_directory(action: &Action, workspace: &Path) -> bool {
    let deletes = match action {
        Action::Edit { deletes, .. } | Action::Keep { deletes, .. } => deletes.as_slice(),
        Action::Delete { path } => std::slice::from_ref(path),
        _ => &[],
    };
    deletes.iter().any(|path| workspace.join(path).is_dir())
}

/// Returns the files that a call changes, as it names them; `None` for an action for which they aren't known.
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

/// The place to which links lead a path below the workspace, relative to it; none if that is outside or can't be known.
fn target(named: &Path, workspace: &Path, files: &dyn Files) -> Option<PathBuf> {
    let top = files.canonical(workspace.to_str()?)?;
    let found = files.canonical(workspace.join(named).to_str()?)?;
    Path::new(&found).strip_prefix(top).ok().map(Path::to_owned)
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
    use super::super::Disk;
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
            Grant::new(&list(&["src/**"]), &list(&["src/test.py"]), &list(&["make all"]), &[], CallsLeft::default())
                .expect("patterns");
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
            assert_eq!(
                grant.covers(&call(action.clone()), &verdict, Path::new("/w"), &Disk::default()),
                is_covered,
                "{action:?} {risk}"
            );
        }
    }

    /// By its name alone a link led out of the paths that may change.
    #[test]
    fn a_grant_judges_a_path_by_where_its_links_lead_too() {
        let top = tempfile::tempdir().expect("a directory");
        let top = std::fs::canonicalize(top.path()).expect("a path");
        std::fs::create_dir_all(top.join("src/real")).expect("a directory");
        std::fs::write(top.join("Cargo.lock"), "").expect("a file");
        for (target, link) in
            [("../Cargo.lock", "file"), ("..", "dir"), ("/etc", "outside"), ("real", "inside"), ("nowhere", "dangling")]
        {
            std::os::unix::fs::symlink(target, top.join("src").join(link)).expect("a link");
        }
        let patterns = |pattern: &str| vec![pattern.to_owned()];
        let grant = Grant::new(&patterns("src/**"), &patterns("Cargo.lock"), &[], &[], CallsLeft::default());
        let grant = grant.expect("patterns");
        for (path, is_covered, is_protected) in [
            ("src/new", true, false),
            ("src/inside/new", true, false),
            ("src/file", false, true),
            ("src/dir/other", false, false),
            ("src/dir/Cargo.lock", false, true),
            ("src/outside/x", false, true),
            ("src/dangling", false, true),
        ] {
            let call = call(Action::Write { path: path.into() });
            let (risk, decision) = (Risk::Medium, Decision::Ask);
            let verdict = PolicyVerdict { risk, decision, reasons: Vec::new(), effects: Vec::new(), needs: Vec::new() };
            let files = Disk::default();
            assert_eq!(grant.covers(&call, &verdict, &top, &files), is_covered, "{path}");
            assert_eq!(grant.protects(&call, &top, &files), is_protected, "{path}");
        }
    }
}
