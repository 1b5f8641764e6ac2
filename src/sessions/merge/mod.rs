//! Merging: a session's changes become commits on a branch of the user's. Everything is planned in a directory of ours first; at
//! the end the target moves at once, and only if it hasn't moved since the plan.

pub(in crate::sessions) mod checkout;
pub(in crate::sessions) mod rework;
pub(in crate::sessions) mod sync;
mod twins;

use std::collections::BTreeSet;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use super::base::Sessions;
use super::disk::Desk;
use super::error::{SessionError, no_branch};
use super::history::{LogEntry, View};
use super::names::short_id;
use super::wire::Meta;
use crate::git::{BranchUse, Changed, GitError, NewCommit, Oid, Program, Repo, TreeEdit, diff, empty_tree, short};
use crate::git::{Mode, Objects};
use crate::host::now_unix_ms;
use crate::proto::known_paths::protected;
use crate::tree::RECORDS;

/// Subjects of turns that a squash names.
const SUBJECTS_MAX: usize = 30;

/// Way in which a session becomes commits of a branch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum How {
    /// One commit with everything.
    Squash,
    /// A merge with the session's own history.
    Merge,
    /// A commit for each turn that changed files.
    Rebase,
    /// The same for these turns only.
    Pick(Vec<u64>),
}

/// A requested merge.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MergeWish {
    /// The way.
    pub how: How,
    /// The branch; by default the one at which the session began.
    pub into: Option<String>,
    /// True if the record of the conversation is merged, too.
    pub keeps_record: bool,
}

impl From<How> for MergeWish {
    fn from(how: How) -> Self {
        Self { how, into: None, keeps_record: false }
    }
}

/// A merge that was tried out and not made.
#[derive(Debug)]
pub struct MergePlan {
    /// The way.
    pub how: How,
    /// The branch that would move: its full name.
    pub target: String,
    /// Files that would change there.
    pub files: Vec<Changed>,
    /// New files next to an entry whose name differs only in case or Unicode form.
    pub twins: Vec<(PathBuf, PathBuf)>,
    /// Place where that branch is checked out.
    pub checked_out: Option<PathBuf>,
    target_tip: Option<Oid>,
    session: String,
    session_tip: Oid,
    commit: Oid,
    /// True if the commit has all that the session changed.
    is_whole: bool,
    scratch: Scratch,
}

/// A directory of ours that goes with its owner.
#[derive(Debug)]
pub(in crate::sessions) struct Scratch {
    repo: Repo,
    pub(in crate::sessions) path: PathBuf,
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.path);
    }
}

impl Scratch {
    /// A bare repository of ours that reads the objects of `repo`.
    pub(in crate::sessions) fn beside(repo: &Repo, path: &Path) -> Result<Self, SessionError> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let path = path.with_extension(format!("{}-{number}", std::process::id()));
        let failed = |error| SessionError::Disk(path.clone(), error);
        crate::git::make_bare(&path, repo).map_err(failed)?;
        Ok(Self { repo: Repo::open(&path)?, path })
    }
}

impl MergePlan {
    /// One side of a change as text; `None` if it doesn't exist or isn't text.
    #[must_use]
    pub fn text(&self, side: Option<(Mode, Oid)>) -> Option<String> {
        let bytes = self.scratch.repo.blob(side?.1, 16 * 1024 * 1024).ok()?;
        String::from_utf8(bytes).ok().filter(|text| !text.contains('\0'))
    }

    /// The tip of the session that the plan was made for.
    pub(in crate::sessions) fn session_tip(&self) -> Oid {
        self.session_tip
    }

    /// Returns whether the target gets all that the session changed.
    pub(in crate::sessions) fn is_whole(&self) -> bool {
        self.is_whole
    }

    /// The target's name for people.
    #[must_use]
    pub fn target_name(&self) -> &str {
        self.target.trim_start_matches("refs/heads/")
    }

    /// Files that later run on people's machines: hooks, continuous integration, build scripts, editor tasks. They come
    /// first among the files.
    #[must_use]
    pub fn that_run(&self) -> Vec<&Path> {
        self.files.iter().filter(|it| runs_elsewhere(it)).map(|it| it.path.as_path()).collect()
    }
}

/// Folders whose files run on people's machines or on servers.
const RUNNING_FOLDERS: [&str; 8] =
    [".github/", ".gitlab/", ".circleci/", ".husky/", ".vscode/", ".idea/", ".devcontainer/", ".cargo/"];
/// Names of files that do.
const RUNNING_NAMES: [&str; 25] = [
    "Cargo.toml",
    "pyproject.toml",
    "tox.ini",
    "pom.xml",
    "build.gradle",
    "build.gradle.kts",
    "flake.nix",
    "Jenkinsfile",
    ".travis.yml",
    "azure-pipelines.yml",
    ".gitmodules",
    "Makefile",
    "justfile",
    "build.rs",
    "package.json",
    "setup.py",
    "conftest.py",
    ".envrc",
    ".gitlab-ci.yml",
    "Dockerfile",
    "Rakefile",
    "CMakeLists.txt",
    ".pre-commit-config.yaml",
    ".reedclaw.lua",
    ".gitattributes",
];

/// Returns whether a changed file later runs on people's machines: by its place or name, or since it is executable or a link.
#[must_use]
pub fn runs_elsewhere(change: &Changed) -> bool {
    let path = change.path.to_string_lossy();
    let name = change.path.file_name().map(|it| it.to_string_lossy().into_owned()).unwrap_or_default();
    let is_executable = matches!(change.new, Some((Mode::Executable, _)));
    let is_tool = path.starts_with("tools/") && path.ends_with(".luau");
    let becomes_link = matches!(change.new, Some((Mode::Link, _)));
    change.new.is_some()
        && (protected(change.path.as_os_str().as_bytes()).is_some()
            || RUNNING_FOLDERS.iter().any(|folder| path.starts_with(folder) || path.contains(&format!("/{folder}")))
            || RUNNING_NAMES.contains(&&*name)
            || is_executable
            || is_tool
            || becomes_link)
}

/// # Errors
/// Files of the session have conflict markers, which must not reach any branch or checkout.
fn solved(meta: &Meta) -> Result<(), SessionError> {
    if meta.conflicts.is_empty() {
        return Ok(());
    }
    Err(SessionError::Refused(format!("conflicts in the session aren't solved yet: {}", meta.conflicts.join(", "))))
}

/// Tries out a merge of a session into `into`, the branch that it began at if none is named. Nothing changes.
///
/// # Errors
/// [`SessionError::Conflicts`]; or there is no such branch, nothing to merge, or git refuses.
pub fn plan_merge(
    sessions: &Sessions,
    id: &str,
    wish: impl Into<MergeWish>,
    program: &Program,
) -> Result<MergePlan, SessionError> {
    let MergeWish { how, into, keeps_record } = wish.into();
    sessions.is_own(id)?;
    let view = sessions.look(id)?;
    let meta = view.meta()?;
    solved(&meta)?;
    let target = match into.as_deref() {
        Some(name) if name.starts_with("refs/heads/") => name.to_owned(),
        Some(name) => format!("refs/heads/{name}"),
        None => meta.base_branch.clone().ok_or_else(|| {
            SessionError::Refused("the session began at no branch; name one with --into BRANCH".to_owned())
        })?,
    };
    let target_tip = sessions.repo.tip(&target)?;
    if target_tip.is_none() && sessions.repo.head()?.branch.as_deref() != Some(&target) {
        return Err(match into.as_deref() {
            Some(name) => no_branch(name),
            None => SessionError::Missing(
                format!("{} is gone, the branch at which the session began", target.trim_start_matches("refs/heads/")),
                "--into BRANCH names another",
            ),
        });
    }
    let scratch = Scratch::beside(&sessions.repo, &Desk::of(&sessions.folder, id).scratch())?;
    let work = Work { sessions, scratch: &scratch, program, meta: &meta, target_tip, keeps_record, tip: view.tip() };
    let commit = match &how {
        How::Squash | How::Merge => work.whole(&view, how == How::Merge)?,
        How::Rebase => work.turns(&view, None)?,
        How::Pick(turns) => work.turns(&view, Some(turns))?,
    };
    let old = target_tip.map_or(Ok(empty_tree()), |tip| sessions.repo.commit(tip).map(|it| it.tree))?;
    let made = scratch.repo.commit(commit)?.tree;
    let is_whole = match (&how, target_tip) {
        (How::Rebase, Some(ours)) => work.merged(None, ours, view.tip()).is_ok_and(|tree| tree == made),
        (how, _) => !matches!(how, How::Pick(_)),
    };
    let mut files = diff(&scratch.repo, old, made)?;
    files.sort_by_key(|it| !runs_elsewhere(it));
    if files.is_empty() {
        return Err(nothing_new(target.trim_start_matches("refs/heads/"), &how, id));
    }
    let twins = twins::twins(&scratch.repo, made, files.iter().filter(|it| it.old.is_none()).map(|it| &*it.path))?;
    let checked_out = checkout_of(sessions, &target)?;
    let session_tip = view.tip();
    let session = id.to_owned();
    Ok(MergePlan {
        how,
        target,
        files,
        twins,
        checked_out,
        target_tip,
        session,
        session_tip,
        commit,
        is_whole,
        scratch,
    })
}

/// The error for a branch that already has the changes of a merge.
fn nothing_new(branch: &str, how: &How, id: &str) -> SessionError {
    let what = match how {
        How::Pick(turns) => match &turns[..] {
            [turn] => format!("what turn {turn} changed"),
            turns => format!("what turns {} changed", turns.iter().map(u64::to_string).collect::<Vec<_>>().join(", ")),
        },
        _ => format!("all that session {} changed", short_id(id)),
    };
    SessionError::Nothing(format!("{branch} has {what}"))
}

/// Place where a branch is checked out; `None` if it is nowhere.
///
/// # Errors
/// A rebase or a bisection will come back to the branch, and would lose the merged changes.
fn checkout_of(sessions: &Sessions, branch: &str) -> Result<Option<PathBuf>, SessionError> {
    match sessions.repo.use_of(branch) {
        None => Ok(None),
        Some(BranchUse::CheckedOut(at)) => Ok(Some(at)),
        Some(in_use) => {
            let name = branch.trim_start_matches("refs/heads/");
            Err(SessionError::Refused(format!("{name} {in_use}; finish or abort that first")))
        }
    }
}

/// Makes a merge that was planned: the objects first, then the target moves. A branch that is checked out is moved by
/// git's own program, which refuses to overwrite local changes.
///
/// # Errors
/// The target or the session has moved since the plan, or git refuses. Nothing has moved then.
pub fn merge(sessions: &Sessions, plan: &MergePlan, with_hooks: bool, program: &Program) -> Result<Oid, SessionError> {
    if sessions.repo.tip(&plan.target)? != plan.target_tip || sessions.look(&plan.session)?.tip() != plan.session_tip {
        let message = format!("{} or the session has moved since; look at the merge again", plan.target_name());
        return Err(SessionError::Refused(message));
    }
    if checkout_of(sessions, &plan.target)? != plan.checked_out {
        let message = format!("{} was checked out elsewhere since; look at the merge again", plan.target_name());
        return Err(SessionError::Refused(message));
    }
    let mut batch = sessions.repo.batch();
    batch.add_from(&plan.scratch.repo, plan.commit)?;
    batch.settle()?;
    let commit = as_user_commits(sessions, plan, with_hooks, program)?;
    match &plan.checked_out {
        Some(at) => {
            program.fast_forward(at, commit).map_err(|error| {
                SessionError::Refused(format!(
                    "{error}; nothing was changed, and the merge is there as commit {}",
                    short(commit)
                ))
            })?;
            // The branch has moved. What can't be written now is tried again when it is read.
            let _ = sessions.repo.secure(plan.commit).and_then(|()| sessions.repo.secure(commit));
        }
        None => sessions.repo.swap(&plan.target, plan.target_tip, Some(commit), &sessions.who)?,
    }
    Ok(commit)
}

/// The commit of a plan as the user's own git would make it: checked by the hooks, and signed if that is configured.
fn as_user_commits(
    sessions: &Sessions,
    plan: &MergePlan,
    with_hooks: bool,
    program: &Program,
) -> Result<Oid, SessionError> {
    let at = plan.checked_out.as_deref().unwrap_or(&sessions.work_dir);
    let signs = sessions.repo.signs();
    let made = sessions.repo.commit(plan.commit)?;
    if !matches!(plan.how, How::Squash | How::Merge) {
        let message = if signs {
            "commits are to be signed here (commit.gpgsign); squash or merge, which sign one"
        } else if with_hooks && program.has_commit_hooks(at)? {
            "hooks of the repository check commits (pre-commit, commit-msg); squash or merge, which make one that they \
             check, or switch them off (sessions.hooks)"
        } else {
            return Ok(plan.commit);
        };
        return Err(SessionError::Refused(message.to_owned()));
    }
    let (tree, message) = match with_hooks {
        true => {
            let place = plan.scratch.path.join("hooks");
            let checked = program.checked_by_hooks((&sessions.repo, at), &place, (made.tree, &made.message));
            checked.map_err(|error| {
                let GitError::Other(words) = error else { return SessionError::Git(error) };
                SessionError::Refused(format!(
                    "a hook of the repository refuses the commit: {words}; nothing was changed"
                ))
            })?
        }
        false => (made.tree, made.message.clone()),
    };
    if signs {
        return Ok(program.sign(at, &sessions.who, (tree, &made.parents, &message))?);
    }
    if (tree, &message) == (made.tree, &made.message) {
        return Ok(plan.commit);
    }
    let mut batch = sessions.repo.batch();
    let commit = batch.commit(&sessions.new_commit(tree, made.parents, now_unix_ms(), message))?;
    batch.settle()?;
    Ok(commit)
}

/// A merge that is being planned.
struct Work<'a> {
    sessions: &'a Sessions,
    scratch: &'a Scratch,
    program: &'a Program,
    meta: &'a Meta,
    target_tip: Option<Oid>,
    keeps_record: bool,
    tip: Oid,
}

impl Work<'_> {
    /// One commit with everything.
    fn whole(&self, view: &View, keeps_history: bool) -> Result<Oid, SessionError> {
        // The log is read while git's program merges.
        let (merged, log) = std::thread::scope(|scope| {
            let log = scope.spawn(|| view.log());
            let merged = match self.target_tip {
                Some(ours) => self.merged(None, ours, view.tip()),
                None => self.scratch.repo.commit(view.tip()).map(|it| it.tree).map_err(SessionError::from),
            };
            (merged, log.join().unwrap_or_else(|_| view.log()))
        });
        let (merged, log) = (merged?, log?);
        let log = self.since_merged(view, &log)?;
        let parents = self.target_tip.into_iter().chain(keeps_history.then(|| view.tip())).collect();
        self.commit(merged, parents, self.message(log))
    }

    /// The message of a commit with several turns.
    fn message(&self, log: &[LogEntry]) -> String {
        let turns = || log.iter().rev().filter(|it| it.act == "turn").filter_map(|it| Some((it.turn?, &it.subject)));
        let subjects: Vec<String> = turns().map(|(_, subject)| format!("- {subject}\n")).take(SUBJECTS_MAX).collect();
        let subjects = if subjects.is_empty() { String::new() } else { format!("{}\n", subjects.concat()) };
        let range = match (turns().next(), turns().next_back()) {
            (Some((first, _)), Some((last, _))) if first < last => format!("ReedClaw-Turns: {first}-{last}\n"),
            (Some((only, _)), _) => format!("ReedClaw-Turns: {only}\n"),
            _ => String::new(),
        };
        let title = if self.meta.title.is_empty() { "changes of a session" } else { &self.meta.title };
        let mut message = format!("{title}\n\n{subjects}ReedClaw-Session: {}\n{range}", self.meta.id);
        if self.sessions.options.names_models {
            let models: BTreeSet<&str> = log.iter().map(|it| it.model.as_str()).filter(|it| !it.is_empty()).collect();
            message.extend(models.into_iter().map(|model| format!("Assisted-by: {model} via ReedClaw\n")));
        }
        message
    }

    /// A commit for each turn, or for some of them.
    fn turns(&self, view: &View, wanted: Option<&Vec<u64>>) -> Result<Oid, SessionError> {
        let Some(target) = self.target_tip else {
            return Err(SessionError::Refused("the branch has no commit yet; --squash makes its first one".to_owned()));
        };
        let log = view.log()?;
        if let Some(missing) = wanted.into_iter().flatten().find(|turn| !log.iter().any(|it| it.turn == Some(**turn))) {
            let id = short_id(&self.meta.id).to_owned();
            return Err(SessionError::NoTurn { id, turn: *missing, last: self.meta.turns });
        }
        let log = if wanted.is_some() { &log } else { self.since_merged(view, &log)? };
        let replayed = self.replayed(view, target, log, wanted);
        // Turns from before a sync may conflict with its changes; a later turn has solved that.
        if let (Err(SessionError::Conflicts(_)), None, Some(solved)) = (&replayed, wanted, self.solved(target, log)) {
            let tree = self.merged(None, target, log[solved].id)?;
            let first = self.commit(tree, vec![target], self.message(&log[solved..]))?;
            return self.replayed(view, first, &log[..solved], None);
        }
        replayed
    }

    /// The place in the log of the commit that solved the conflicts of a sync with the whole target.
    fn solved(&self, target: Oid, log: &[LogEntry]) -> Option<usize> {
        let repo = &self.sessions.repo;
        let has_target = |it: &LogEntry| {
            it.act == "sync" && it.parents.get(1).is_some_and(|theirs| repo.merge_base(*theirs, target) == Some(target))
        };
        let sync = log.iter().position(has_target)?;
        (0..=sync).rev().find(|at| log[*at].state != "conflicted")
    }

    /// Makes the changes of each wanted commit again, over `at`.
    fn replayed(
        &self,
        view: &View,
        mut at: Oid,
        log: &[LogEntry],
        wanted: Option<&Vec<u64>>,
    ) -> Result<Oid, SessionError> {
        // The first commit of a session has files that weren't committed, if it began with them.
        let is_wanted = |it: &&LogEntry| match wanted {
            Some(turns) => it.act == "turn" && it.turn.is_some_and(|turn| turns.contains(&turn)),
            None => matches!(&*it.act, "turn" | "user" | "code" | "base"),
        };
        for entry in log.iter().rev().filter(is_wanted) {
            let Some(parent) = entry.parents.first() else { continue };
            let parent = if entry.act == "turn" { view.before_parts(*parent)? } else { *parent };
            if view.differ(parent, entry.id)?.is_empty() {
                continue;
            }
            let tree = self.merged(Some(parent), at, entry.id)?;
            if tree == self.scratch.repo.commit(at)?.tree {
                continue;
            }
            let message = match &*entry.act {
                "base" => format!("files that weren't committed\n\nReedClaw-Session: {}\n", self.meta.id),
                _ => self.scratch.repo.commit(entry.id)?.message,
            };
            at = self.commit(tree, vec![at], message)?;
        }
        Ok(at)
    }

    /// Returns the commits since the last merge of the session into the target, from a log with the newest first.
    fn since_merged<'l>(&self, view: &View, log: &'l [LogEntry]) -> Result<&'l [LogEntry], SessionError> {
        let Some(target) = self.target_tip else { return Ok(log) };
        for (at, entry) in log.iter().enumerate().filter(|(_, it)| it.act == "sync") {
            let Some(merged) = entry.parents.get(1) else { continue };
            // In that case it has nothing that the target lacked.
            let is_in_target = self.sessions.repo.merge_base(*merged, target) == Some(*merged);
            if is_in_target && view.differ(*merged, entry.id)?.is_empty() {
                return Ok(&log[..at]);
            }
        }
        Ok(log)
    }

    /// The tree of a merge, with the target's records instead of the session's.
    fn merged(&self, base: Option<Oid>, ours: Oid, theirs: Oid) -> Result<Oid, SessionError> {
        let merged = self.program.merge(&self.scratch.path, base, (ours, theirs))?;
        let conflicts: Vec<_> = merged.conflicts.into_iter().filter(|it| !it.path.starts_with(RECORDS)).collect();
        if !conflicts.is_empty() {
            return Err(SessionError::Conflicts(conflicts));
        }
        // Another process wrote the objects: a repository that was opened before may not know them yet.
        let fresh = Repo::open(&self.scratch.path)?;
        self.with_records_of(&fresh, merged.tree, Some(ours))
    }

    fn with_records_of(&self, repo: &Repo, tree: Oid, target: Option<Oid>) -> Result<Oid, SessionError> {
        let records = match target {
            Some(target) => {
                self.sessions.records_in(self.sessions.repo.commit(target).or_else(|_| repo.commit(target))?.tree)?
            }
            None => None,
        };
        let mut edits: Vec<TreeEdit> = vec![(Path::new(RECORDS).to_owned(), records.map(|id| (Mode::Directory, id)))];
        if self.keeps_record {
            let own = Path::new(RECORDS).join(&self.meta.id);
            let record = self.sessions.entry(self.sessions.repo.commit(self.tip)?.tree, &own)?;
            edits.push((own, record.map(|id| (Mode::Directory, id))));
        }
        let mut batch = repo.batch();
        let tree = batch.tree(tree, &edits)?;
        batch.settle_unsynced()?;
        Ok(tree)
    }

    fn commit(&self, tree: Oid, parents: Vec<Oid>, message: String) -> Result<Oid, SessionError> {
        let fresh = Repo::open(&self.scratch.path)?;
        let tree = if self.target_tip.is_some() { tree } else { self.with_records_of(&fresh, tree, None)? };
        let new: NewCommit = self.sessions.new_commit(tree, parents, now_unix_ms(), message);
        let mut batch = fresh.batch();
        let commit = batch.commit(&new)?;
        batch.settle_unsynced()?;
        Ok(commit)
    }
}
