//! Sessions on git: a conversation whose every turn is a commit on a branch of its own, with the code and what was said.
//!
//! The order in which rules pull apart: the user's checkout, index and branches stay untouched → nothing said or written is
//! lost → truthful → fast. A turn is written as objects → journal → one compare-and-swap of one reference; a crash at any
//! point leaves the old tip and the draft, or the new tip.
//!
//! | place | holds |
//! |---|---|
//! | `refs/heads/reedclaw/session/ID` | the newest turn; `refs/reedclaw/session/ID` if references are hidden |
//! | `refs/reedclaw/on/ID` | leads to the branch of the user's that a session works on, if it doesn't have its own |
//! | `refs/reedclaw/summaries` | summaries of files by the names of their contents, for all sessions |
//! | `refs/reedclaw/kept/ID/N` | tips that a rewind, an undo or the end of a session left |
//! | `.reedclaw/sessions/ID/` in the tree | `session.json`, `turns/00/0007.json` |
//! | state directory, `sessions/REPOSITORY/ID/` | lock, journal, the draft of the turn that runs, operations |
//!
//! It must not know HTTP, SQLite, the terminal or how a model is asked.

mod care;
#[cfg(test)]
mod crash_tests;
mod disk;
mod history;
#[cfg(test)]
mod join_tests;
mod merge;
mod names;
mod rework;
#[cfg(test)]
mod rework_tests;
mod summaries;
mod sync;
#[cfg(test)]
mod tests;
mod time;
mod turn;
#[cfg(test)]
mod untouched_tests;
pub mod wire;

use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use crate::files::Locked;
use crate::git::{GitError, Identity, Objects as _, Oid, Program, Repo, Unnamed, diff, empty_tree};
use crate::host::now_unix_ms;
use crate::tree::{Draft, may_hold_secrets};

pub use crate::tree::FILE_BYTES_MAX;
pub use care::{Finding, clear_up, examine};
pub use disk::Left;
pub use history::{LogEntry, View};
pub use merge::{How, MergePlan, MergeWish};
pub use names::short_id;
pub use rework::{Half, amend, replay, rewind_half};
pub use summaries::{SUMMARIES, Summaries, add_summaries, drop_summaries, has_summaries, summaries};
pub use sync::{Synced, ToApply};
pub use turn::{Committed, State, TurnReport};

use disk::Desk;
use wire::Meta;

/// The beginning of the branches of sessions.
pub const BRANCHES: &str = "refs/heads/reedclaw/session/";
/// The beginning of their names if they are hidden: no branches, so `git branch` doesn't list them, and
/// `git push --all` doesn't send them.
pub const HIDDEN: &str = "refs/reedclaw/session/";
/// The beginning of the names of references that lead to a branch of the user's, which a session works on.
pub const ON: &str = "refs/reedclaw/on/";
/// The beginning of the names of tips that were left.
pub const KEPT: &str = "refs/reedclaw/kept/";

/// Reason why something of a session can't be done.
#[derive(Debug, thiserror::Error)]
pub enum SessionError {
    /// Git's reason.
    #[error("{0}")]
    Git(#[from] GitError),
    /// The state directory's reason.
    #[error("{path}: {error}", path = .0.display(), error = .1)]
    Disk(PathBuf, std::io::Error),
    /// No session, or several, have such an id.
    #[error("{0}")]
    Unknown(String),
    /// Another shell writes it.
    #[error("session {0} is open in another shell{1}")]
    Held(String, String),
    /// There is no such turn.
    #[error("session {id} has no turn {turn}; it has 0 to {last}")]
    NoTurn {
        /// The session, in short.
        id: String,
        /// The turn.
        turn: u64,
        /// Its newest turn.
        last: u64,
    },
    /// Nothing has changed at a path.
    #[error("nothing has changed at {0}")]
    NoChange(String),
    /// Not possible now.
    #[error("{0}")]
    Refused(String),
    /// Both sides changed the same.
    #[error("both sides changed {}", list(.0))]
    Conflicts(Vec<PathBuf>),
    /// A record that can't be read.
    #[error("the record of turn {0} can't be read")]
    Damaged(u64),
}

/// Commits by which a branch is followed back to where a session began.
const MOVED_MAX: usize = 1_000;
/// Paths that a message names.
const NAMED_MAX: usize = 8;

fn list(paths: &[PathBuf]) -> String {
    let named: Vec<String> = paths.iter().take(NAMED_MAX).map(|path| path.display().to_string()).collect();
    let more = paths.len().saturating_sub(NAMED_MAX);
    if more == 0 { named.join(", ") } else { format!("{} and {more} more", named.join(", ")) }
}

/// The sessions of one repository.
#[derive(Clone, Debug)]
pub struct Sessions {
    repo: Arc<Repo>,
    /// Place where what lies beside git is kept.
    folder: PathBuf,
    /// The directory that drafts stand for.
    work_dir: PathBuf,
    home: Option<PathBuf>,
    who: Identity,
    options: Options,
    /// Messages about references that were mended.
    mended: Vec<String>,
}

/// The person's wishes for sessions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// New sessions get hidden references instead of branches; those that exist stay as they are.
    pub hides: bool,
    /// The model is the author of its turns' commits.
    pub is_by_model: bool,
    /// A merge with one commit names the models in its message.
    pub names_models: bool,
    /// Days for which tips that were left are kept.
    pub keep_days: u32,
}

impl Default for Options {
    fn default() -> Self {
        Self { hides: false, is_by_model: false, names_models: false, keep_days: 30 }
    }
}

/// A session in a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listed {
    /// The content of its record.
    pub meta: Meta,
    /// Its newest commit.
    pub tip: Oid,
    /// Time when that was made, in seconds of Unix time.
    pub time_s: i64,
    /// Whether a shell has it open.
    pub is_open: bool,
    /// The number of that shell's process.
    pub holder: Option<u32>,
    /// Whether a turn has begun and isn't committed: it runs in another shell, or was cut off.
    pub has_draft: bool,
    /// The question that its person is asked just now.
    pub asks: Option<String>,
    /// Whether its record can't be read.
    pub is_damaged: bool,
    /// Whether it was abandoned, so that only its newest commit is kept.
    pub is_left: bool,
}

impl Listed {
    /// The word for its state: `damaged`, `left`, `asking`, `running`, `open`, `cut`, `conflicted`, `merged` or `idle`.
    #[must_use]
    pub fn state(&self) -> &'static str {
        match self {
            Self { is_damaged: true, .. } => "damaged",
            Self { is_left: true, .. } => "left",
            Self { asks: Some(_), .. } => "asking",
            Self { is_open: true, has_draft: true, .. } => "running",
            Self { is_open: true, .. } => "open",
            Self { has_draft: true, .. } => "cut",
            it if !it.meta.conflicts.is_empty() => "conflicted",
            it if it.meta.merged.as_ref().is_some_and(|merged| merged.turns == it.meta.turns) => "merged",
            _ => "idle",
        }
    }
}

fn newest_first(one: &Listed, other: &Listed) -> std::cmp::Ordering {
    (other.time_s, &other.meta.id).cmp(&(one.time_s, &one.meta.id))
}

/// The number at the end of a kept tip's name.
fn kept_number(name: &str) -> u64 {
    name.rsplit('/').next().and_then(|it| it.parse().ok()).unwrap_or(0)
}

fn unknown(id: &str) -> SessionError {
    SessionError::Unknown(format!("no session here has the id {}", short_id(id)))
}

/// A session that this process writes.
#[derive(Debug)]
pub struct Session {
    sessions: Sessions,
    meta: Meta,
    /// The reference that its turns move.
    name: String,
    tip: Oid,
    desk: Desk,
    draft: Arc<Draft>,
    /// The newest commit that was written, with its objects, until the branch names it.
    unnamed: Mutex<Option<(Oid, Unnamed)>>,
    /// Messages about what an earlier process left, or a power cut.
    told: Vec<String>,
    _lock: Locked<std::fs::File>,
}

impl Sessions {
    /// The lines of the ignore files that lie outside of the tree: the user's own, then the repository's.
    fn excludes(&self) -> Vec<String> {
        let home = self.home.as_deref();
        let named = self.repo.excludes_file().map(|name| match (name.strip_prefix("~/"), home) {
            (Some(below), Some(home)) => home.join(below),
            _ => PathBuf::from(name),
        });
        let own = named.or_else(|| Some(home?.join(".config/git/ignore")));
        let files = own.into_iter().chain([self.repo.common_dir().join("info/exclude")]);
        let texts = files.filter_map(|path| std::fs::read_to_string(path).ok());
        texts.flat_map(|text| text.lines().map(str::to_owned).collect::<Vec<_>>()).collect()
    }

    /// The sessions of the repository at `workspace`. `state` is the state directory; `login` stands in for an identity
    /// that git doesn't know.
    ///
    /// # Errors
    /// There is no repository, or it is of a kind that isn't supported.
    pub fn at(workspace: &Path, state: &Path, home: Option<&Path>, login: &str) -> Result<Self, SessionError> {
        let repo = Repo::open(workspace)?;
        let fallback = || Identity { name: login.to_owned(), email: format!("{login}@localhost") };
        let who = repo.identity().unwrap_or_else(fallback);
        let folder = disk::folder(state, repo.common_dir());
        let work_dir = repo.work_dir().unwrap_or(workspace).to_owned();
        Ok(Self {
            repo: Arc::new(repo),
            folder,
            work_dir,
            home: home.map(Path::to_owned),
            who,
            options: Options::default(),
            mended: Vec::new(),
        })
    }

    /// Sets the person's wishes.
    #[must_use]
    pub fn with(self, options: Options) -> Self {
        Self { options, ..self }
    }

    /// Mends references that a power cut has torn: a session's is set to the newest commit that was noted for it and is whole.
    #[must_use]
    pub fn mend(self) -> Self {
        let mended = disk::mend(&self.repo, &self.folder, &self.who, SUMMARIES);
        Self { mended, ..self }
    }

    /// Messages about what [`Sessions::mend`] found.
    #[must_use]
    pub fn mended(&self) -> &[String] {
        &self.mended
    }

    /// The reference of a session: the one that exists, or else the one that it would get.
    fn reference(&self, id: &str) -> String {
        if let Some(branch) = self.repo.link(&format!("{ON}{id}")) {
            return branch;
        }
        let (shown, hidden) = (format!("{BRANCHES}{id}"), format!("{HIDDEN}{id}"));
        // A power cut can leave an empty file, which names no commit and yet is the reference.
        let exists = |name: &str| self.repo.common_dir().join(name).is_file() || self.repo.tip(name) != Ok(None);
        match (exists(&hidden), exists(&shown)) {
            (true, false) => hidden,
            (false, false) if self.options.hides => hidden,
            _ => shown,
        }
    }

    /// The person whose commits the turns are.
    #[must_use]
    pub fn identity(&self) -> &Identity {
        &self.who
    }

    /// The repository.
    #[must_use]
    pub fn repo(&self) -> &Arc<Repo> {
        &self.repo
    }

    /// Every session, the one that was used last first.
    ///
    /// # Errors
    /// The references can't be read.
    pub fn list(&self) -> Result<Vec<Listed>, SessionError> {
        let mut all = Vec::new();
        let mut names = self.repo.refs(BRANCHES)?;
        names.extend(self.repo.refs(HIDDEN)?);
        for (name, branch) in self.repo.links(ON)? {
            names.extend(self.repo.tip(&branch)?.map(|tip| (name, tip)));
        }
        for (name, tip) in names {
            let id = name.trim_start_matches(BRANCHES).trim_start_matches(HIDDEN).trim_start_matches(ON);
            all.push(self.listed(id, tip, false));
        }
        all.sort_by(newest_first);
        Ok(all)
    }

    /// Every session that was abandoned and whose commits are still kept, the one that was used last first.
    ///
    /// # Errors
    /// The references can't be read.
    pub fn list_left(&self) -> Result<Vec<Listed>, SessionError> {
        let kept = self.repo.refs(KEPT)?;
        let mut ids: Vec<&str> =
            kept.iter().filter_map(|(name, _)| Some(name.strip_prefix(KEPT)?.rsplit_once('/')?.0)).collect();
        ids.sort_unstable();
        ids.dedup();
        let mut all = Vec::new();
        for id in ids {
            if self.repo.tip(&self.reference(id))?.is_none() {
                all.extend(self.newest_kept(id)?.map(|tip| self.listed(id, tip, true)));
            }
        }
        all.sort_by(newest_first);
        Ok(all)
    }

    /// Whether a session other than `id` waits for its person's answer. Only the state directory is looked at.
    #[must_use]
    pub fn others_ask(&self, id: &str) -> bool {
        let entries = std::fs::read_dir(&self.folder).into_iter().flatten().flatten();
        let names = entries.filter_map(|it| it.file_name().into_string().ok());
        names.filter(|it| it != id && names::is_id(it)).any(|it| Desk::of(&self.folder, &it).asks().is_some())
    }

    /// Number of files that a session has changed since it began, and of commits as [`Sessions::moved`] says.
    ///
    /// # Errors
    /// A tree or commit can't be read.
    pub fn progress(&self, of: &Listed) -> Result<(usize, Option<usize>), SessionError> {
        let files = View::new(self.repo.clone(), of.meta.id.clone(), of.tip).changes()?.len();
        Ok((files, self.moved(&of.meta)?))
    }

    /// Number of commits that the branch at which a session began has since; `None` if that branch has gone or been made
    /// anew.
    ///
    /// # Errors
    /// A commit can't be read.
    pub fn moved(&self, meta: &Meta) -> Result<Option<usize>, SessionError> {
        let base = meta.base.as_deref().and_then(crate::git::oid_of);
        let branch = meta.base_branch.as_deref().map(|name| self.repo.tip(name)).transpose()?.flatten();
        let (Some(base), Some(mut at)) = (base, branch) else { return Ok(None) };
        for count in 0..=MOVED_MAX {
            if at == base {
                return Ok(Some(count));
            }
            let Some(parent) = self.repo.commit(at)?.parents.first().copied() else { break };
            at = parent;
        }
        Ok(None)
    }

    fn listed(&self, id: &str, tip: Oid, is_left: bool) -> Listed {
        let desk = Desk::of(&self.folder, id);
        let (holder, has_draft) = (desk.holder(), desk.has_draft());
        let is_open = holder.is_some();
        let holder = holder.and_then(|it| it.trim().parse().ok());
        let time_s = self.repo.commit(tip).map_or(0, |it| it.time_s);
        let (meta, is_damaged) = match self.meta(id, tip) {
            Ok(meta) => (meta, false),
            Err(_) => (Meta { id: id.to_owned(), ..Meta::default() }, true),
        };
        let asks = desk.asks().filter(|_| has_draft);
        Listed { meta, tip, time_s, is_open, holder, has_draft, asks, is_damaged, is_left }
    }

    /// The tip of a session that was kept last.
    fn newest_kept(&self, id: &str) -> Result<Option<Oid>, SessionError> {
        let kept = self.repo.refs(&format!("{KEPT}{id}/"))?;
        Ok(kept.into_iter().max_by_key(|(name, _)| kept_number(name)).map(|(_, tip)| tip))
    }

    /// The id of the session that `wanted` means: its id, the beginning or the end of it, or a part of its title.
    ///
    /// # Errors
    /// None or several are meant.
    pub fn find(&self, wanted: &str) -> Result<String, SessionError> {
        // A whole id needs no list.
        if names::is_id(wanted) && self.repo.tip(&self.reference(wanted))?.is_some() {
            return Ok(wanted.to_owned());
        }
        let mut all = self.list()?;
        all.extend(self.list_left()?);
        let is_id = |it: &&Listed| it.meta.id.starts_with(wanted) || it.meta.id.ends_with(wanted);
        let lower = wanted.to_lowercase();
        let is_titled = |it: &&Listed| it.meta.title.to_lowercase().contains(&lower);
        let mut found: Vec<&Listed> = all.iter().filter(is_id).collect();
        if found.is_empty() {
            found = all.iter().filter(is_titled).collect();
        }
        match &found[..] {
            [one] => Ok(one.meta.id.clone()),
            [] => Err(SessionError::Unknown(format!("no session here is called {wanted}"))),
            several => {
                let ids: Vec<&str> = several.iter().map(|it| short_id(&it.meta.id)).collect();
                Err(SessionError::Unknown(format!("{wanted} could be {}", ids.join(" or "))))
            }
        }
    }

    /// Begins a session at a revision, HEAD if none is named: a branch and turn 0, and nothing in the checkout.
    ///
    /// # Errors
    /// The revision names no commit, or the repository can't be written.
    pub fn start(&self, from: Option<&str>, title: &str) -> Result<Session, SessionError> {
        self.start_with(from, title, None)
    }

    /// Begins a session with the checkout's uncommitted files that git doesn't ignore; the checkout is only read.
    ///
    /// # Errors
    /// As of [`Sessions::start`]; or git can't read the checkout.
    pub fn start_with_changes(&self, title: &str, program: &Program) -> Result<Session, SessionError> {
        let place = self.folder.join(format!("changes-{}", std::process::id()));
        let taken = self.uncommitted(&place, program);
        let _ = std::fs::remove_dir_all(&place);
        self.start_with(None, title, Some(taken?))
    }

    /// The tree of the checkout's files: what is tracked or new, without ignored files and those that hold secrets.
    fn uncommitted(&self, place: &Path, program: &Program) -> Result<Oid, SessionError> {
        let bare = || SessionError::Refused("this repository has no checkout".to_owned());
        let checkout = self.repo.work_dir().ok_or_else(bare)?;
        let failed = |error| SessionError::Disk(place.to_owned(), error);
        std::fs::DirBuilder::new().recursive(true).mode(0o700).create(place).map_err(failed)?;
        let tree = program.tree_of_checkout(checkout, &self.repo, &place.join("index"))?;
        let head = self.repo.head()?.commit;
        let before = head.map_or(Ok(empty_tree()), |head| self.repo.commit(head).map(|it| it.tree))?;
        let fresh = Repo::open(checkout)?;
        let is_left_out = |it: &crate::git::Changed| {
            it.new.is_some_and(|(_, id)| {
                it.old.is_none() && may_hold_secrets(&it.path)
                    || fresh.size(id).is_ok_and(|bytes| bytes > FILE_BYTES_MAX)
            })
        };
        let changes = diff(&fresh, before, tree)?;
        let edits: Vec<_> = changes.into_iter().filter(is_left_out).map(|it| (it.path, it.old)).collect();
        let mut batch = fresh.batch();
        let tree = batch.tree(tree, &edits)?;
        batch.settle()?;
        Ok(tree)
    }

    fn start_with(&self, from: Option<&str>, title: &str, files: Option<Oid>) -> Result<Session, SessionError> {
        let head = self.repo.head()?;
        let base = match from {
            Some(revision) => Some(self.repo.find_commit(revision)?),
            None => head.commit,
        };
        let (id, tip) = self.first(base, title, files)?;
        self.repo.swap(&self.reference(&id), None, Some(tip), &self.who)?;
        self.open(&id)
    }

    /// Begins a session on a branch of the user's that is checked out nowhere: each turn becomes a commit on it. If its
    /// newest commit is a session's, as in a clone, that session goes on.
    ///
    /// # Errors
    /// There is no such branch, it is checked out, or another session works on it.
    pub fn start_on(&self, branch: &str, title: &str) -> Result<Session, SessionError> {
        let refused = |message: String| SessionError::Refused(message);
        let name = format!("refs/heads/{}", branch.trim_start_matches("refs/heads/"));
        let tip = self.repo.tip(&name)?.ok_or_else(|| refused(format!("there is no branch {branch}")))?;
        if name.starts_with(BRANCHES) {
            return Err(refused(format!("{branch} is the branch of a session, which open goes on with")));
        }
        if let Some(in_use) = self.repo.use_of(&name) {
            return Err(refused(format!("{branch} {in_use}; a turn would change it there")));
        }
        if let Some((link, _)) = self.repo.links(ON)?.into_iter().find(|(_, target)| *target == name) {
            let id = short_id(link.trim_start_matches(ON)).to_owned();
            return Err(refused(format!("session {id} works on {branch} already; open it")));
        }
        let held = View::new(self.repo.clone(), String::new(), tip).turn(None)?.session;
        let goes_on = names::is_id(&held) && self.repo.tip(&self.reference(&held))?.is_none();
        if goes_on && self.meta(&held, tip).is_ok() {
            self.repo.set_link(&format!("{ON}{held}"), Some(&name), &self.who)?;
            return self.open(&held);
        }
        let (id, first) = self.first(Some(tip), title, None)?;
        self.repo.swap(&name, Some(tip), Some(first), &self.who)?;
        self.repo.set_link(&format!("{ON}{id}"), Some(&name), &self.who)?;
        self.open(&id)
    }

    /// Writes the first commit of a new session at `base`; returns the session's id and the commit, which nothing names yet.
    fn first(&self, base: Option<Oid>, title: &str, files: Option<Oid>) -> Result<(String, Oid), SessionError> {
        let (head, now) = (self.repo.head()?, now_unix_ms());
        let id = names::new_id(now);
        let meta = Meta {
            v: wire::VERSION,
            id: id.clone(),
            title: names::title(title),
            base: base.map(|it| it.to_string()),
            base_branch: head.branch,
            started_ms: now,
            ..Meta::default()
        };
        let tree = match (files, base) {
            (Some(files), _) => files,
            (None, Some(base)) => self.repo.commit(base)?.tree,
            (None, None) => empty_tree(),
        };
        let parents: Vec<Oid> = base.into_iter().collect();
        let tip = self.first_commit(&meta, tree, parents, turn::Origin::Start, now)?;
        Ok((id, tip))
    }

    /// Opens a session for writing. A turn that a crash cut off is finished or found again: see [`Session::left`].
    ///
    /// # Errors
    /// There is none of this id, another shell has it open, or its branch is checked out.
    pub fn open(&self, id: &str) -> Result<Session, SessionError> {
        let desk = Desk::of(&self.folder, id);
        let lock = desk.lock()?;
        let name = self.reference(id);
        let mut told = self.mended.clone();
        told.extend(desk.recover(&self.repo, &name, &self.who)?);
        told.extend(disk::mend_kept(&self.repo, id));
        let tip = match self.repo.tip(&name)? {
            Some(tip) => tip,
            None => {
                // It was abandoned: whoever opens it takes it up again.
                let tip = self.newest_kept(id)?.ok_or_else(|| unknown(id))?;
                self.repo.swap(&name, None, Some(tip), &self.who)?;
                tip
            }
        };
        if let Some(in_use) = self.repo.use_of(&name) {
            let id = short_id(id);
            let message = format!("the branch of session {id} {in_use}: a turn would change it under that work");
            return Err(SessionError::Refused(message));
        }
        // A draft belongs to the commit that it was made over, wherever the branch is now.
        let at = desk.draft_tip().filter(|at| self.repo.has(*at)).unwrap_or(tip);
        let meta = self.meta(id, at)?;
        let tree = self.repo.commit(at)?.tree;
        let draft = Draft::on(self.repo.clone(), tree, &self.work_dir, self.home.as_deref());
        draft.start_open(&meta.active);
        draft.exclude(self.excludes());
        let lost = desk.load_draft(&draft, at)?;
        told.extend((!lost.is_empty()).then(|| {
            format!("of the turn that was cut off, as by a power cut, this is lost: {}", names::title(&lost.join(", ")))
        }));
        let draft = Arc::new(draft);
        let mut session = Session {
            sessions: Self { mended: Vec::new(), ..self.clone() },
            meta,
            name,
            tip: at,
            desk,
            draft,
            unnamed: Mutex::default(),
            told,
            _lock: lock,
        };
        session.watch();
        if at != tip {
            session.keep_draft_elsewhere(tip)?;
        }
        session.desk.note_tip(&session.name, session.tip)?;
        Ok(session)
    }

    /// A session to look at, without a lock.
    ///
    /// # Errors
    /// There is none of this id.
    pub fn look(&self, id: &str) -> Result<View, SessionError> {
        let tip = self.repo.tip(&self.reference(id))?;
        let tip = tip.map_or_else(|| self.newest_kept(id), |tip| Ok(Some(tip)))?.ok_or_else(|| unknown(id))?;
        Ok(View::new(self.repo.clone(), id.to_owned(), tip))
    }

    /// Ends a session: its branch moves to the tips that are kept, and nothing is lost. A branch of the user's stays.
    ///
    /// # Errors
    /// It is open in a shell, or the references can't be moved.
    pub fn abandon(&self, id: &str) -> Result<String, SessionError> {
        let desk = Desk::of(&self.folder, id);
        let _lock = desk.lock()?;
        let tip = self.look(id)?.tip();
        self.repo.clear_lock(&self.reference(id), None);
        // Opening it again finds the tip by its number, so one that was kept earlier needs a newer name.
        let kept = self.keep_as(id, tip, |kept| kept.iter().max_by_key(|(name, _)| kept_number(name)))?;
        desk.forget_tip();
        match self.repo.link(&format!("{ON}{id}")) {
            // The branch is the user's own.
            Some(_) => self.repo.set_link(&format!("{ON}{id}"), None, &self.who)?,
            None => self.repo.swap(&self.reference(id), Some(tip), None, &self.who)?,
        }
        Ok(kept)
    }

    /// Removes a session with its kept tips and what lies beside git; only git's `gc` still finds its objects.
    ///
    /// # Errors
    /// It is open in a shell, or the references can't be removed.
    pub fn drop_for_good(&self, id: &str) -> Result<(), SessionError> {
        let desk = Desk::of(&self.folder, id);
        let lock = desk.lock()?;
        let name = self.reference(id);
        self.repo.clear_lock(&name, None);
        self.repo.clear_locks_below(&format!("{KEPT}{id}/"));
        if self.repo.link(&format!("{ON}{id}")).is_some() {
            self.repo.set_link(&format!("{ON}{id}"), None, &self.who)?;
        } else if let Some(tip) = self.repo.tip(&name)? {
            self.repo.swap(&name, Some(tip), None, &self.who)?;
        }
        for (name, tip) in self.repo.refs(&format!("{KEPT}{id}/"))? {
            self.repo.swap(&name, Some(tip), None, &self.who)?;
        }
        desk.remove()?;
        drop(lock);
        Ok(())
    }

    /// The tips of a session that a rewind, an undo or its end left, each with the number under which it is kept.
    ///
    /// # Errors
    /// A reference or a commit can't be read.
    pub fn kept_tips(&self, id: &str) -> Result<Vec<(u64, LogEntry)>, SessionError> {
        let mut all = Vec::new();
        for (name, tip) in self.repo.refs(&format!("{KEPT}{id}/"))? {
            all.push((kept_number(&name), View::new(self.repo.clone(), id.to_owned(), tip).turn(None)?));
        }
        all.sort_by_key(|(number, _)| *number);
        Ok(all)
    }

    /// Keeps a tip under a name of its own.
    fn keep(&self, id: &str, tip: Oid) -> Result<String, SessionError> {
        self.keep_as(id, tip, |kept| kept.iter().find(|(_, it)| *it == tip))
    }

    /// Keeps a tip unless `known`, one of those that are kept, is it already.
    fn keep_as(
        &self,
        id: &str,
        tip: Oid,
        known: impl Fn(&[(String, Oid)]) -> Option<&(String, Oid)>,
    ) -> Result<String, SessionError> {
        let prefix = format!("{KEPT}{id}/");
        let kept = self.repo.refs(&prefix)?;
        if let Some((name, _)) = known(&kept).filter(|(_, it)| *it == tip) {
            return Ok(name.clone());
        }
        let next = kept.iter().map(|(name, _)| kept_number(name)).max().unwrap_or(0) + 1;
        let name = format!("{prefix}{next}");
        self.repo.swap(&name, None, Some(tip), &self.who)?;
        Ok(name)
    }

    fn meta(&self, id: &str, tip: Oid) -> Result<Meta, SessionError> {
        View::new(self.repo.clone(), id.to_owned(), tip).meta()
    }
}

impl Session {
    /// The reference that its turns move: a branch, or a hidden one.
    #[must_use]
    pub fn reference(&self) -> &str {
        &self.name
    }

    /// Its id.
    #[must_use]
    pub fn id(&self) -> &str {
        &self.meta.id
    }

    /// Returns the content of its record.
    #[must_use]
    pub fn meta(&self) -> &Meta {
        &self.meta
    }

    /// Its newest commit.
    #[must_use]
    pub fn tip(&self) -> Oid {
        self.tip
    }

    /// The files of the turn that runs, for tools.
    #[must_use]
    pub fn draft(&self) -> &Arc<Draft> {
        &self.draft
    }

    /// The sessions of its repository.
    #[must_use]
    pub fn sessions(&self) -> &Sessions {
        &self.sessions
    }

    /// Its turns, to look at.
    #[must_use]
    pub fn view(&self) -> View {
        View::new(self.sessions.repo.clone(), self.meta.id.clone(), self.tip)
    }

    /// Lets other shells see that the person of the running turn is asked, and what; `None`: no more.
    pub fn ask(&self, what: Option<&str>) {
        self.desk.ask(what);
    }

    /// Takes the messages about a draft that an earlier process left, and about what a power cut has damaged.
    pub fn take_told(&mut self) -> Vec<String> {
        std::mem::take(&mut self.told)
    }

    /// Returns the remains of an interrupted turn; `None` if there are none.
    #[must_use]
    pub fn left(&self) -> Option<Left> {
        self.desk.left(self.draft.changes().map_or(0, |it| it.len()))
    }
}
