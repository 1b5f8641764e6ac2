//! The sessions of one repository, and one of them: their parts, how they are found and listed, and which of their tips are
//! retained.

use parking_lot::Mutex;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::disk::{self, Desk, Left};
use super::error::{SessionError, unknown};
use super::history::{LogEntry, View};
use super::names::{
    self, BRANCHES, FETCHED, FETCHED_SESSION, HIDDEN, KEPT, ON, SUMMARIES, kept_number, label, short_id,
};
use super::wire::{Meta, TurnReport};
use crate::files::Locked;
use crate::git::{GitError, Identity, Mode, Objects as _, Oid, Repo};
use crate::tree::{Changed, Draft, RECORDS};

/// Limit on the commits that are followed back along a branch to the beginning of a session.
const MOVED_MAX: usize = 1_000;
/// The sessions of one repository.
#[derive(Clone, Debug)]
pub struct Sessions {
    pub(super) repo: Arc<Repo>,
    /// The folder for files outside of git.
    pub(super) folder: PathBuf,
    /// The directory that drafts represent.
    pub(super) work_dir: PathBuf,
    pub(super) home: Option<PathBuf>,
    pub(super) who: Identity,
    /// `true` if git has no name for the person, so that their login is used instead.
    pub(super) is_nameless: bool,
    pub(super) options: Options,
    /// Messages about repaired references.
    pub(super) mended: Vec<String>,
}

/// The person's wishes for sessions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// New sessions get hidden references instead of branches; existing ones don't change.
    pub hides: bool,
    /// The model is the author of its turns' commits.
    pub is_by_model: bool,
    /// A merge with one commit names the models in its message.
    pub names_models: bool,
    /// Number of days for which abandoned tips are retained.
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
    /// True if a shell has it open.
    pub is_open: bool,
    /// The number of that shell's process.
    pub holder: Option<u32>,
    /// True if a turn has begun and isn't committed: it runs in another shell, or was cut off.
    pub has_draft: bool,
    /// The question that its person is asked just now.
    pub asks: Option<String>,
    /// True if its record can't be read.
    pub is_damaged: bool,
    /// True if it was abandoned, so that only its newest commit remains.
    pub is_left: bool,
    /// The remote that it was fetched from, if its branch doesn't belong to this repository: its record and its files are a
    /// stranger's.
    pub fetched_from: Option<String>,
}

impl Listed {
    /// The word for its state: `damaged`, `foreign`, `left`, `asking`, `running`, `open`, `cut`, `conflicted`, `merged` or `idle`.
    #[must_use]
    pub fn state(&self) -> &'static str {
        match self {
            Self { is_damaged: true, .. } => "damaged",
            Self { fetched_from: Some(_), .. } => "foreign",
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

pub(super) fn newest_first(one: &Listed, other: &Listed) -> std::cmp::Ordering {
    (other.time_s, &other.meta.id).cmp(&(one.time_s, &one.meta.id))
}

/// A session that this process writes.
#[derive(Debug)]
pub struct Session {
    pub(super) sessions: Sessions,
    pub(super) meta: Meta,
    /// The reference that its turns move.
    pub(super) name: String,
    pub(super) tip: Oid,
    pub(super) desk: Desk,
    pub(super) draft: Arc<Draft>,
    /// The newest commit that was made of the draft, with the changes that the draft had then.
    pub(super) written: Mutex<Option<(Oid, Vec<Changed>)>>,
    /// The newest turn if it couldn't be written: it is tried again before the next one.
    pub(super) owed: Option<TurnReport>,
    /// Report of the turn that was cut off, from a store that had it.
    pub(super) recalled: Option<TurnReport>,
    /// Messages about what an earlier process left, or a power cut.
    pub(super) notices: Vec<String>,
    pub(super) _lock: Locked<std::fs::File>,
}

impl Sessions {
    /// The lines of the ignore files outside of the tree: the user's own, then the repository's.
    pub(super) fn excludes(&self) -> Vec<String> {
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

    /// The sessions of the repository at `workspace`. `state` is the state directory; `login` replaces an identity that git
    /// doesn't have.
    ///
    /// # Errors
    /// There is no repository, or it is of a kind that isn't supported.
    pub fn at(workspace: &Path, state: &Path, home: Option<&Path>, login: &str) -> Result<Self, SessionError> {
        let repo = Repo::open(workspace)?;
        let fallback = || Identity { name: login.to_owned(), email: format!("{login}@localhost") };
        let known = repo.identity();
        let is_nameless = known.is_none();
        let who = known.unwrap_or_else(fallback);
        let folder = disk::folder(state, repo.common_dir());
        let work_dir = repo.work_dir().unwrap_or(workspace).to_owned();
        Ok(Self {
            repo: Arc::new(repo),
            folder,
            work_dir,
            home: home.map(Path::to_owned),
            who,
            is_nameless,
            options: Options::default(),
            mended: Vec::new(),
        })
    }

    /// Sets the person's wishes.
    #[must_use]
    pub fn with(self, options: Options) -> Self {
        Self { options, ..self }
    }

    /// Repairs references that a power failure has damaged: a session's is set to its newest recorded commit that is complete.
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
    pub(super) fn reference(&self, id: &str) -> String {
        if let Some(branch) = self.repo.link(&format!("{ON}{id}")) {
            return branch;
        }
        let (shown, hidden) = (format!("{BRANCHES}{id}"), format!("{HIDDEN}{id}"));
        // A power cut can leave an empty file, which names no commit and yet is the reference.
        let exists = |name: &str| self.repo.common_dir().join(name).is_file() || self.repo.tip(name) != Ok(None);
        match (exists(&hidden), exists(&shown)) {
            (true, false) => hidden,
            (false, false) => self.new_reference(id),
            _ => shown,
        }
    }

    /// Checks that no work tree has the branch of a session checked out.
    pub(super) fn not_in_use(&self, id: &str, name: &str) -> Result<(), SessionError> {
        self.repo.use_of(name).map_or(Ok(()), |it| Err(SessionError::InUse(short_id(id).to_owned(), it)))
    }

    /// The reference that a new session gets.
    pub(super) fn new_reference(&self, id: &str) -> String {
        format!("{}{id}", if self.options.hides { HIDDEN } else { BRANCHES })
    }

    /// The person whose commits the turns are.
    #[must_use]
    pub fn identity(&self) -> &Identity {
        &self.who
    }

    /// Returns whether git has no name for the person, so that their login is used instead.
    #[must_use]
    pub fn is_nameless(&self) -> bool {
        self.is_nameless
    }

    /// The repository.
    #[must_use]
    pub fn repo(&self) -> &Arc<Repo> {
        &self.repo
    }

    /// Every session, the most recently used one first.
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

    /// Every session that was abandoned and whose commits still exist, the most recently used one first.
    ///
    /// # Errors
    /// The references can't be read.
    pub fn list_left(&self) -> Result<Vec<Listed>, SessionError> {
        let references = self.repo.refs(KEPT)?;
        let mut ids: Vec<&str> =
            references.iter().filter_map(|(name, _)| Some(name.strip_prefix(KEPT)?.rsplit_once('/')?.0)).collect();
        ids.sort_unstable();
        ids.dedup();
        let mut all = Vec::new();
        for id in ids {
            if self.repo.tip(&self.reference(id))?.is_none() {
                all.extend(self.newest_former(id)?.map(|tip| self.listed(id, tip, true)));
            }
        }
        all.sort_by(newest_first);
        Ok(all)
    }

    /// Every session whose branch was fetched and doesn't belong to this repository, the most recently used one first. It can be
    /// viewed, and a fork can continue it.
    ///
    /// # Errors
    /// The references can't be read.
    pub fn list_foreign(&self) -> Result<Vec<Listed>, SessionError> {
        let mut all: Vec<Listed> = Vec::new();
        for (name, tip) in self.repo.refs(FETCHED)? {
            let Some((remote, id)) = name.strip_prefix(FETCHED).and_then(|it| it.split_once(FETCHED_SESSION)) else {
                continue;
            };
            let is_known = all.iter().any(|it| it.meta.id == id) || !names::is_id(id) || self.own_tip(id)?.is_some();
            if !is_known {
                all.push(Listed { fetched_from: Some(remote.to_owned()), ..self.listed(id, tip, false) });
            }
        }
        all.sort_by(newest_first);
        Ok(all)
    }

    /// The newest commit of a session of this repository, also of an abandoned one.
    fn own_tip(&self, id: &str) -> Result<Option<Oid>, SessionError> {
        let tip = self.repo.tip(&self.reference(id))?;
        tip.map_or_else(|| self.newest_former(id), |tip| Ok(Some(tip)))
    }

    /// Refuses a session whose branch was only fetched.
    pub(super) fn is_own(&self, id: &str) -> Result<(), SessionError> {
        // A tip that can't be read is damaged, but exists here.
        if !matches!(self.own_tip(id), Ok(None)) {
            return Ok(());
        }
        match self.list_foreign()?.into_iter().find(|it| it.meta.id == id).and_then(|it| it.fetched_from) {
            Some(remote) => Err(SessionError::Foreign(short_id(id).to_owned(), remote)),
            None => Ok(()),
        }
    }

    /// Returns whether a session other than `id` waits for its person's answer. It only reads the state directory.
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

    /// Number of commits that the branch at which a session began has since; `None` if that branch is gone or was rewritten.
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

    pub(super) fn listed(&self, id: &str, tip: Oid, is_left: bool) -> Listed {
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
        Listed { meta, tip, time_s, is_open, holder, has_draft, asks, is_damaged, is_left, fetched_from: None }
    }

    /// The most recently retained tip of a session.
    pub(super) fn newest_former(&self, id: &str) -> Result<Option<Oid>, SessionError> {
        let references = self.repo.refs(&format!("{KEPT}{id}/"))?;
        Ok(references.into_iter().max_by_key(|(name, _)| kept_number(name)).map(|(_, tip)| tip))
    }

    /// The id of the session that `wanted` means: its id, the beginning or the end of it, the beginning of the digits that are
    /// shown, a part of its title, or the name that the prompt shows.
    ///
    /// # Errors
    /// No session or several sessions match.
    pub fn find(&self, wanted: &str) -> Result<String, SessionError> {
        if wanted.is_empty() {
            return Err(SessionError::Unknown("which session?".to_owned()));
        }
        // A whole id needs no list.
        if names::is_id(wanted) && self.repo.tip(&self.reference(wanted))?.is_some() {
            return Ok(wanted.to_owned());
        }
        let mut all = self.list()?;
        all.extend(self.list_left()?);
        all.extend(self.list_foreign()?);
        let is_id = |it: &&Listed| {
            let id = &it.meta.id;
            id.starts_with(wanted) || id.ends_with(wanted) || short_id(id).starts_with(wanted)
        };
        let lower = wanted.to_lowercase();
        let is_titled = |it: &&Listed| {
            let title = &it.meta.title;
            title.to_lowercase().contains(&lower) || label(title).is_some_and(|label| label == lower)
        };
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

    /// A session to look at, without a lock.
    ///
    /// # Errors
    /// There is none of this id.
    pub fn look(&self, id: &str) -> Result<View, SessionError> {
        let tip = match self.own_tip(id)? {
            Some(tip) => Some(tip),
            None => self.list_foreign()?.into_iter().find(|it| it.meta.id == id).map(|it| it.tip),
        };
        let tip = tip.ok_or_else(|| unknown(id))?;
        Ok(View::new(self.repo.clone(), id.to_owned(), tip))
    }

    /// Ends a session: its branch moves to the retained tips, and nothing is lost. A branch of the user's remains.
    ///
    /// # Errors
    /// It is open in a shell, its branch is checked out, or the references can't be moved.
    pub fn abandon(&self, id: &str) -> Result<String, SessionError> {
        self.is_own(id)?;
        let desk = Desk::of(&self.folder, id);
        let _lock = desk.lock()?;
        let tip = self.look(id)?.tip();
        if self.repo.link(&format!("{ON}{id}")).is_none() {
            if self.repo.tip(&self.reference(id))?.is_none() {
                return Err(SessionError::Refused(format!("session {} is abandoned already", short_id(id))));
            }
            self.not_in_use(id, &self.reference(id))?;
        }
        self.repo.clear_lock(&self.reference(id), None);
        // Opening it again finds the tip by its number, so a tip that was retained earlier needs a newer name.
        let reference =
            self.keep_as(id, tip, |reference| reference.iter().max_by_key(|(name, _)| kept_number(name)))?;
        desk.forget_tip();
        match self.repo.link(&format!("{ON}{id}")) {
            // The branch is the user's own.
            Some(_) => self.repo.set_link(&format!("{ON}{id}"), None, &self.who)?,
            None => self.repo.swap(&self.reference(id), Some(tip), None, &self.who)?,
        }
        Ok(reference)
    }

    /// Removes a session with its retained tips and its files outside of git; only git's `gc` can still find its objects.
    ///
    /// # Errors
    /// It is open in a shell, its branch is checked out, or the references can't be removed.
    pub fn drop_for_good(&self, id: &str) -> Result<(), SessionError> {
        self.is_own(id)?;
        let desk = Desk::of(&self.folder, id);
        let lock = desk.lock()?;
        let name = self.reference(id);
        if self.repo.link(&format!("{ON}{id}")).is_none() {
            self.not_in_use(id, &name)?;
        }
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

    /// The tips of a session that a rewind, an undo or its end left, each with its number.
    ///
    /// # Errors
    /// A reference or a commit can't be read.
    pub fn former_tips(&self, id: &str) -> Result<Vec<(u64, LogEntry)>, SessionError> {
        let mut all = Vec::new();
        for (name, tip) in self.repo.refs(&format!("{KEPT}{id}/"))? {
            all.push((kept_number(&name), View::new(self.repo.clone(), id.to_owned(), tip).turn(None)?));
        }
        all.sort_by_key(|(number, _)| *number);
        Ok(all)
    }

    /// Retains a tip under a name of its own.
    pub(super) fn keep(&self, id: &str, tip: Oid) -> Result<String, SessionError> {
        self.keep_as(id, tip, |saved| saved.iter().find(|(_, it)| *it == tip))
    }

    /// Retains a tip unless `known` finds it among the retained ones.
    pub(super) fn keep_as(
        &self,
        id: &str,
        tip: Oid,
        known: impl Fn(&[(String, Oid)]) -> Option<&(String, Oid)>,
    ) -> Result<String, SessionError> {
        let prefix = format!("{KEPT}{id}/");
        let saved = self.repo.refs(&prefix)?;
        if let Some((name, _)) = known(&saved).filter(|(_, it)| *it == tip) {
            return Ok(name.clone());
        }
        let next = saved.iter().map(|(name, _)| kept_number(name)).max().unwrap_or(0) + 1;
        let name = format!("{prefix}{next}");
        self.repo.swap(&name, None, Some(tip), &self.who)?;
        Ok(name)
    }

    pub(super) fn meta(&self, id: &str, tip: Oid) -> Result<Meta, SessionError> {
        View::new(self.repo.clone(), id.to_owned(), tip).meta()
    }

    /// The folder of the trees that the commands of all sessions share.
    pub(super) fn shared_trees(&self) -> PathBuf {
        self.folder.join("trees")
    }

    /// The records that a tree holds.
    pub(super) fn records_in(&self, tree: Oid) -> Result<Option<Oid>, SessionError> {
        Ok(self.entry(tree, Path::new(RECORDS)).unwrap_or(None))
    }

    /// The directory at a path of a tree.
    pub(super) fn entry(&self, mut tree: Oid, path: &Path) -> Result<Option<Oid>, GitError> {
        for part in path.iter() {
            let entries = self.repo.entries(tree)?;
            let found = entries.into_iter().find(|it| it.name == part.as_encoded_bytes() && it.mode == Mode::Directory);
            match found {
                Some(found) => tree = found.id,
                None => return Ok(None),
            }
        }
        Ok(Some(tree))
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

    /// Shows other shells that the person of the running turn is being asked `what`; `None` ends this.
    pub fn ask(&self, what: Option<&str>) {
        self.desk.ask(what);
    }

    /// Takes the messages about the draft of an earlier process, and about the damage of a power failure.
    pub fn take_notices(&mut self) -> Vec<String> {
        std::mem::take(&mut self.notices)
    }

    /// Adds a message about what an earlier process left.
    pub fn add_notice(&mut self, notice: String) {
        self.notices.push(notice);
    }

    /// Returns the remains of an interrupted turn; `None` if there are none.
    #[must_use]
    pub fn left(&self) -> Option<Left> {
        self.desk.left(self.draft.changes().map_or(0, |it| it.len()))
    }

    /// Notes the number of the stored conversation in which the running turn was asked, if there is one.
    pub fn note_conversation(&self, number: Option<i64>) {
        number.into_iter().for_each(|number| self.desk.note_conversation(number));
    }

    /// The number that was noted for an interrupted turn.
    #[must_use]
    pub fn conversation_of_left(&self) -> Option<i64> {
        self.desk.conversation()
    }

    /// Adds the answer and the calls to an interrupted turn, for its commit. A report of another question is ignored.
    pub fn recall_left(&mut self, report: TurnReport) {
        self.recalled = Some(report);
    }

    /// The report of an interrupted turn, for its commit.
    pub(super) fn report_of_left(&mut self, left: Left) -> TurnReport {
        let recalled = self.recalled.take().filter(|it| it.question == left.question);
        recalled.unwrap_or_else(|| TurnReport::cut_off(left.question))
    }

    /// The directory in which commands of this session work.
    #[must_use]
    pub fn bench(&self) -> PathBuf {
        self.desk.bench()
    }

    /// The folder of the trees that the commands of all sessions of this repository share.
    #[must_use]
    pub fn shared_trees(&self) -> PathBuf {
        self.sessions.shared_trees()
    }
}
