//! A git repository: objects, references and trees, with the library `gix`, or with git's own program if it can do more. It must
//! not know sessions. Opening a repository runs nothing that its configuration names.

mod diff;
mod durable;
pub mod fault;
mod index;
mod pack;
mod program;
mod recent;
mod tables;
#[cfg(test)]
mod tests;
mod uses;
mod view;
mod write;

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use gix::bstr::{BString, ByteSlice};
use gix::objs::tree::EntryKind as GixKind;
use gix::refs::transaction::{Change, LogChange, PreviousValue, RefEdit, RefLog};
use gix::refs::{FullName, Target};

pub use diff::{Changed, diff};
use durable::EditError;
#[cfg(test)]
pub use fault::in_memory;
pub use gix::ObjectId as Oid;
pub use index::{IndexEntry, index, stat_of};
pub use program::{Conflict, Merged, Program, make_bare};
use tables::Tables;
pub use uses::BranchUse;
use view::{View, as_committed};
pub use write::{Batch, NewCommit, TreeEdit};

/// Time for which moving a reference is tried while others hold its lock, or remove the empty folders above it. A `git gc` does
/// both, and on a busy machine holds a lock for more than a second.
const LOCKED_MAX: Duration = Duration::from_secs(5);
/// First pause before another try; each one is twice as long.
const PAUSE: Duration = Duration::from_millis(2);
/// Longest pause between two tries.
const PAUSE_MAX: Duration = Duration::from_millis(100);
/// Limit on the entries of a tree; no real tree has more.
const ENTRIES_MAX: usize = 1_000_000;

/// Reason why an operation on a repository fails.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum GitError {
    /// There is no repository.
    #[error("there is no git repository at {0}")]
    None(String),
    /// A kind of repository that isn't supported.
    #[error("this repository can't be used: {0}")]
    Unsupported(String),
    /// A revision that names no commit.
    #[error("{0} names no commit")]
    NoCommit(String),
    /// A reference isn't where it was expected.
    #[error("{name} has moved meanwhile{}", .is.map(|is| format!(" to {}", short(is))).unwrap_or_default())]
    Moved {
        /// The reference.
        name: String,
        /// The commit that it names now.
        is: Option<Oid>,
    },
    /// An object is missing or damaged.
    #[error("object {0} can't be read")]
    Object(Oid),
    /// An object that a partial clone has left with its server.
    #[error(
        "object {0} was never fetched: this is a partial clone; `git fetch --refetch --no-filter` fetches all it lacks"
    )]
    NotFetched(Oid),
    /// A file exceeds the limit for reading.
    #[error("it is longer than {0} bytes")]
    Long(u64),
    /// Another error of git or the system.
    #[error("git: {0}")]
    Other(String),
}

fn other(error: impl std::fmt::Display) -> GitError {
    GitError::Other(error.to_string())
}

/// An error of the library with all its causes.
fn with_causes(error: &gix::Error) -> GitError {
    let mut causes: Vec<String> = error.iter_errors().map(ToString::to_string).collect();
    causes.dedup();
    GitError::Other(causes.join(": "))
}

/// Returns whether another process may have interfered for a moment, although the reference had its expected value: a lock is
/// held, an empty folder was removed just before the lock was made in it, or references were packed just while the library
/// searched, so that it found none, or the one of an older pack.
fn will_pass(error: &gix::Error) -> bool {
    let is_folder_race = |error: &std::io::Error| error.kind() == std::io::ErrorKind::NotADirectory;
    let is_folder_race = error.downcast_any_ref::<std::io::Error>().is_some_and(is_folder_race);
    error.is_retryable() || error.is_not_found() || error.is_conflict() || is_folder_race
}

/// Shows the first digits of an object's name.
#[must_use]
pub fn short(id: Oid) -> String {
    id.to_hex_with_len(8).to_string()
}

/// Kinds of entries of a tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Mode {
    /// A regular file.
    File,
    /// A file that can be executed.
    Executable,
    /// A symbolic link.
    Link,
    /// A directory.
    Directory,
    /// A commit of another repository.
    Submodule,
}

impl Mode {
    fn of(kind: GixKind) -> Self {
        match kind {
            GixKind::Tree => Self::Directory,
            GixKind::Blob => Self::File,
            GixKind::BlobExecutable => Self::Executable,
            GixKind::Link => Self::Link,
            GixKind::Commit => Self::Submodule,
        }
    }

    fn entry_kind(self) -> GixKind {
        match self {
            Self::File => GixKind::Blob,
            Self::Executable => GixKind::BlobExecutable,
            Self::Link => GixKind::Link,
            Self::Directory => GixKind::Tree,
            Self::Submodule => GixKind::Commit,
        }
    }

    /// Returns whether it is a regular file.
    #[must_use]
    pub fn is_file(self) -> bool {
        matches!(self, Self::File | Self::Executable)
    }

    /// The word for it in git's own listings.
    #[must_use]
    pub fn octal(self) -> &'static str {
        match self {
            Self::File => "100644",
            Self::Executable => "100755",
            Self::Link => "120000",
            Self::Directory => "040000",
            Self::Submodule => "160000",
        }
    }
}

/// An entry of a tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Its name.
    pub name: Vec<u8>,
    /// The kind of entry.
    pub mode: Mode,
    /// The object that it names.
    pub id: Oid,
}

/// A commit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Commit {
    /// Its tree.
    pub tree: Oid,
    /// Its parents.
    pub parents: Vec<Oid>,
    /// The author's name.
    pub author: String,
    /// Time when it was made, in seconds of Unix time.
    pub time_s: i64,
    /// Its message.
    pub message: String,
}

/// Position of HEAD.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Head {
    /// The full name of the branch; `None` if HEAD is detached.
    pub branch: Option<String>,
    /// The commit; `None` before the first one.
    pub commit: Option<Oid>,
}

/// A name and an address, for commits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// The name.
    pub name: String,
    /// The address.
    pub email: String,
}

/// Number of times that references are read while others pack them.
const PACKED_TRIES_MAX: usize = 5;

/// A repository. It is shared by threads; each borrows a handle.
pub struct Repo {
    view: View,
    work_dir: Option<PathBuf>,
    common_dir: PathBuf,
    git_dir: PathBuf,
    /// The hash by which its objects are named.
    hash: gix::hash::Kind,
    /// Its references, if the library can't read them.
    tables: Option<Tables>,
    recent: recent::Recent,
}

impl std::fmt::Debug for Repo {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Repo").field("common_dir", &self.common_dir).finish_non_exhaustive()
    }
}

impl Repo {
    /// Opens the repository whose work tree, or whose own directory, is `path`. Only its own configuration is read, and
    /// nothing that it names is run.
    ///
    /// # Errors
    /// There is no repository, or it is of an unsupported kind: another owner's, or with references in tables if git's program
    /// isn't installed.
    pub fn open(path: &Path) -> Result<Self, GitError> {
        let repo = gix::open_opts(path, as_committed()).map_err(|error| why_unusable(path, &error))?;
        let storage = repo.config_snapshot().string("extensions.refStorage").map(|it| it.to_string());
        let tables = match storage.filter(|it| it != "files") {
            None => None,
            Some(storage) if storage == "reftable" => Some(Tables::of(repo.git_dir()).ok_or_else(|| {
                GitError::Unsupported("its references are kept as reftable, and git isn't installed".into())
            })?),
            Some(storage) => {
                return Err(GitError::Unsupported(format!("its references are kept in the form {storage}")));
            }
        };
        if repo.git_dir_trust() != gix::sec::Trust::Full {
            return Err(GitError::Unsupported("it belongs to another user".into()));
        }
        let real = |path: &Path| path.canonicalize().unwrap_or_else(|_| path.to_owned());
        let (git_dir, common_dir) = (real(repo.git_dir()), real(repo.common_dir()));
        Ok(Self {
            work_dir: repo.workdir().map(real),
            common_dir: common_dir.clone(),
            git_dir: git_dir.clone(),
            hash: repo.object_hash(),
            tables,
            recent: recent::Recent::default(),
            view: View::of(repo, git_dir, &common_dir),
        })
    }

    /// The directory of the work tree; `None` for a bare repository.
    #[must_use]
    pub fn work_dir(&self) -> Option<&Path> {
        self.work_dir.as_deref()
    }

    /// Git's directory of this work tree.
    #[must_use]
    pub fn git_dir(&self) -> &Path {
        &self.git_dir
    }

    /// Number of batches of objects that are in memory.
    #[cfg(test)]
    pub(crate) fn held(&self) -> usize {
        self.recent.count()
    }

    /// The directory that all work trees share.
    #[must_use]
    pub fn common_dir(&self) -> &Path {
        &self.common_dir
    }

    /// The hash by which its objects are named.
    fn hash(&self) -> gix::hash::Kind {
        self.hash
    }

    /// Position of HEAD.
    ///
    /// # Errors
    /// HEAD can't be read.
    pub fn head(&self) -> Result<Head, GitError> {
        if let Some(tables) = &self.tables {
            return tables.head();
        }
        self.view.with(|repo| {
            let head = repo.head().map_err(other)?;
            let branch = head.referent_name().map(|name| name.as_bstr().to_string());
            Ok(Head { branch, commit: head.id().map(gix::Id::detach) })
        })
    }

    /// Returns whether the repository's config names a remote for pushing.
    #[must_use]
    pub fn has_remote(&self) -> bool {
        self.view.with(|repo| Ok::<bool, GitError>(!repo.remote_names().is_empty())).unwrap_or(false)
    }

    /// The commit that a revision names, as `git rev-parse REV^{commit}`.
    ///
    /// # Errors
    /// It names no commit.
    pub fn find_commit(&self, revision: &str) -> Result<Oid, GitError> {
        let missing = || GitError::NoCommit(revision.to_owned());
        if let Some(tables) = &self.tables {
            return tables.find_commit(revision)?.ok_or_else(missing);
        }
        self.view.with(|repo| {
            let id = repo.rev_parse_single(revision).map_err(|_| missing())?;
            let object = id.object().map_err(|_| missing())?;
            Ok(object.peel_to_kind(gix::objs::Kind::Commit).map_err(|_| missing())?.id)
        })
    }

    /// The commit that a reference names; `None` if there is no such reference.
    ///
    /// # Errors
    /// It can't be read.
    pub fn tip(&self, name: &str) -> Result<Option<Oid>, GitError> {
        if let Some(tables) = &self.tables {
            return tables.tip(name);
        }
        self.view.with(|repo| {
            let find = || -> Result<Option<Oid>, GitError> {
                let found = repo.try_find_reference(name).map_err(other)?;
                Ok(found.and_then(|found| found.try_id().map(gix::Id::detach)))
            };
            let found = find()?;
            if found.is_some() && self.common_dir.join(name).exists() {
                return Ok(found);
            }
            // The library reads the table of packed ones first: a `git gc` may have moved the reference into another one since.
            let _ = repo.refs.force_refresh_packed_buffer();
            find()
        })
    }

    /// References whose names begin with `prefix`, which ends with a slash, and the objects that they name.
    ///
    /// # Errors
    /// They can't be read.
    pub fn refs(&self, prefix: &str) -> Result<Vec<(String, Oid)>, GitError> {
        if let Some(tables) = &self.tables {
            return tables.refs(prefix);
        }
        self.view.with(|repo| {
            let read = || {
                let platform = repo.references().map_err(other)?;
                let found = platform.prefixed(prefix).map_err(other)?;
                let one = |it: gix::Reference<'_>| Some((it.name().as_bstr().to_string(), it.try_id()?.detach()));
                Ok(found.flatten().filter_map(one).collect())
            };
            let (mut before, mut all) = (self.packed_refs(), read()?);
            for _ in 1..PACKED_TRIES_MAX {
                // References may have moved into another table meanwhile, in which the library didn't see them.
                let now = self.packed_refs();
                if now == before {
                    break;
                }
                let _ = repo.refs.force_refresh_packed_buffer();
                (before, all) = (now, read()?);
            }
            Ok(all)
        })
    }

    /// Moves one reference from `old` to `new` if it is at `old` (`None`: it doesn't exist), and waits until the move is on the
    /// disk. A concurrent move by another process succeeds or fails as a whole; a mere lock is waited for.
    ///
    /// # Errors
    /// [`GitError::Moved`] if it isn't at `old`; another error of git or the system.
    pub fn swap(&self, name: &str, old: Option<Oid>, new: Option<Oid>, who: &Identity) -> Result<(), GitError> {
        if old == new {
            return Ok(());
        }
        self.swap_unsecured(name, old, new, who)?;
        // The reference has moved: an error now would mean that it hasn't. Missing objects are written when they are read.
        let _ = new.map(|new| self.secure(new));
        Ok(())
    }

    fn swap_unsecured(&self, name: &str, old: Option<Oid>, new: Option<Oid>, who: &Identity) -> Result<(), GitError> {
        if old.is_none() {
            self.is_free(name)?;
        }
        if let Some(tables) = &self.tables {
            fault::point();
            fault::write().map_err(other)?;
            tables.swap(name, (old, new), who)?;
            fault::point();
            return Ok(());
        }
        let full = FullName::try_from(BString::from(name)).map_err(other)?;
        let expected =
            old.map_or(PreviousValue::MustNotExist, |id| PreviousValue::MustExistAndMatch(Target::Object(id)));
        let change = match new {
            Some(new) => {
                let log =
                    LogChange { mode: RefLog::AndReference, force_create_reflog: false, message: "session".into() };
                Change::Update { log, expected, new: Target::Object(new) }
            }
            None => Change::Delete { expected, log: RefLog::AndReference },
        };
        let time = gix::date::Time::now_utc();
        let by = gix::actor::Signature { name: who.name.clone().into(), email: who.email.clone().into(), time };
        let mut buffer = gix::date::parse::TimeBuf::default();
        let edit = RefEdit { change, name: full, deref: false };
        fault::point();
        fault::write().map_err(other)?;
        let (deadline, mut pause) = (Instant::now() + LOCKED_MAX, PAUSE);
        while let Err(error) = self.edit(edit.clone(), by.to_ref(&mut buffer)) {
            let is = self.tip(name)?;
            if is != old {
                return Err(GitError::Moved { name: name.to_owned(), is });
            }
            let is_passing = matches!(&error, EditError::Refs(error) if will_pass(error));
            if !is_passing || Instant::now() >= deadline {
                return Err(durable::failed(&error));
            }
            std::thread::park_timeout(pause);
            pause = PAUSE_MAX.min(pause * 2);
        }
        Ok(())
    }

    /// The full name of the target of a symbolic reference; `None` if there is none of this name.
    #[must_use]
    pub fn link(&self, name: &str) -> Option<String> {
        if let Some(tables) = &self.tables {
            return tables.link(name);
        }
        self.view.with(|repo| {
            let found = repo.try_find_reference(name).ok()??;
            found.target().try_name().map(|target| target.as_bstr().to_string())
        })
    }

    /// The symbolic references whose names begin with `prefix`, which ends with a slash, with their targets.
    ///
    /// # Errors
    /// They can't be read.
    pub fn links(&self, prefix: &str) -> Result<Vec<(String, String)>, GitError> {
        if let Some(tables) = &self.tables {
            return tables.links(prefix);
        }
        self.view.with(|repo| {
            let platform = repo.references().map_err(other)?;
            let found = platform.prefixed(prefix).map_err(other)?;
            let one = |it: gix::Reference<'_>| {
                Some((it.name().as_bstr().to_string(), it.target().try_name()?.as_bstr().to_string()))
            };
            Ok(found.flatten().filter_map(one).collect())
        })
    }

    /// Makes a symbolic reference that leads to `target`, or removes it.
    ///
    /// # Errors
    /// There is one already, or the repository can't be written.
    pub fn set_link(&self, name: &str, target: Option<&str>, who: &Identity) -> Result<(), GitError> {
        if let Some(tables) = &self.tables {
            fault::point();
            fault::write().map_err(other)?;
            return tables.set_link(name, target);
        }
        let full = |name: &str| FullName::try_from(BString::from(name)).map_err(other);
        let change = match target {
            Some(target) => {
                let log =
                    LogChange { mode: RefLog::AndReference, force_create_reflog: false, message: "session".into() };
                let new = Target::Symbolic(full(target)?);
                Change::Update { log, expected: PreviousValue::MustNotExist, new }
            }
            None => Change::Delete { expected: PreviousValue::Any, log: RefLog::AndReference },
        };
        let time = gix::date::Time::now_utc();
        let by = gix::actor::Signature { name: who.name.clone().into(), email: who.email.clone().into(), time };
        let mut buffer = gix::date::parse::TimeBuf::default();
        let edit = RefEdit { change, name: full(name)?, deref: false };
        fault::point();
        fault::write().map_err(other)?;
        self.edit(edit, by.to_ref(&mut buffer)).map_err(|error| durable::failed(&error))
    }

    /// Refuses a new reference below another one: git can't hold both `refs/heads/a` and `refs/heads/a/b`.
    fn is_free(&self, name: &str) -> Result<(), GitError> {
        let above = name.match_indices('/').skip(2).map(|(end, _)| &name[..end]);
        for above in above {
            // A directory there is no reference, also while others make and remove it.
            if matches!(self.tip(above), Ok(Some(_))) {
                let short = above.trim_start_matches("refs/heads/");
                return Err(GitError::Other(format!("the branch {short} stands in the way of {name}; rename it")));
            }
        }
        Ok(())
    }

    /// A commit.
    ///
    /// # Errors
    /// It can't be read.
    pub fn commit(&self, id: Oid) -> Result<Commit, GitError> {
        if let Some(bytes) = write::loose_commit(&self.common_dir.join("objects"), id) {
            let commit = gix::objs::CommitRef::from_bytes(&bytes, self.hash);
            return commit.map(|it| commit_of(&it)).map_err(|_| GitError::Object(id));
        }
        self.read(id, |repo| {
            let commit = repo.find_commit(id).ok()?;
            Some(commit.decode().map(|it| commit_of(&it)).map_err(|_| GitError::Object(id)))
        })?
    }

    /// The newest commit that both have among their ancestors; `None` if there is none.
    #[must_use]
    pub fn merge_base(&self, one: Oid, two: Oid) -> Option<Oid> {
        self.view.find(|repo| repo.merge_base(one, two).ok().flatten().map(gix::Id::detach))
    }

    /// The name and address of the user's own git configuration; `None` if none is set.
    #[must_use]
    pub fn identity(&self) -> Option<Identity> {
        // This reads the configuration of the user and of the repository, and never runs anything from it.
        let repo = gix::open_opts(&self.git_dir, gix::open::Options::default()).ok()?;
        let config = repo.config_snapshot();
        let value = |name: &str| config.string(name).map(|it| it.to_string()).filter(|it| !it.is_empty());
        Some(Identity { name: value("user.name")?, email: value("user.email")? })
    }

    /// The file of the user's own with paths that git ignores everywhere, as their configuration names it.
    #[must_use]
    pub fn excludes_file(&self) -> Option<String> {
        let repo = gix::open_opts(&self.git_dir, gix::open::Options::default()).ok()?;
        repo.config_snapshot().string("core.excludesFile").map(|it| it.to_string()).filter(|it| !it.is_empty())
    }

    /// Returns whether the permission to execute a file counts in a checkout (`core.fileMode`).
    #[must_use]
    pub fn trusts_modes(&self) -> bool {
        let repo = gix::open_opts(&self.git_dir, gix::open::Options::default());
        repo.map_or(true, |repo| repo.config_snapshot().boolean("core.fileMode").unwrap_or(true))
    }

    /// Returns whether git changes the ends of lines between its content and a checkout (`core.autocrlf`).
    #[must_use]
    pub fn converts_line_ends(&self) -> bool {
        let repo = gix::open_opts(&self.git_dir, gix::open::Options::default());
        repo.is_ok_and(|repo| repo.config_snapshot().string("core.autocrlf").is_some_and(|it| it != "false"))
    }

    /// Returns whether the repository has attributes of its own, outside of its files.
    #[must_use]
    pub fn has_own_attributes(&self) -> bool {
        self.common_dir.join("info/attributes").metadata().is_ok_and(|data| data.len() > 0)
    }

    /// The use of a branch, by its full name, in any work tree of the repository; `None` if none uses it.
    #[must_use]
    pub fn use_of(&self, branch: &str) -> Option<BranchUse> {
        // Most branches are checked out nowhere, which small files show without opening each work tree.
        let may_be = self.tables.is_some() || uses::is_head(&self.common_dir, branch);
        let checked_out = may_be.then(|| self.checked_out().into_iter().find(|(it, _)| it == branch)).flatten();
        let checked_out = checked_out.map(|(_, at)| BranchUse::CheckedOut(at));
        checked_out.or_else(|| uses::unfinished_use(&self.common_dir, branch))
    }

    /// The names of branches that are checked out, each with its work tree.
    fn checked_out(&self) -> Vec<(String, PathBuf)> {
        if let Some(tables) = &self.tables {
            return tables.checked_out();
        }
        self.view.with(|repo| {
            let Ok(all) = repo.worktrees_including_main() else { return Vec::new() };
            let one = |it: gix::Repository| {
                let branch = it.head_name().ok()??.as_bstr().to_string();
                Some((branch, it.workdir()?.to_owned()))
            };
            all.flatten().filter_map(one).collect()
        })
    }

    /// Returns whether the user's configuration requires signed commits.
    #[must_use]
    pub fn signs(&self) -> bool {
        let repo = gix::open_opts(&self.git_dir, gix::open::Options::default());
        repo.is_ok_and(|repo| repo.config_snapshot().boolean("commit.gpgsign").unwrap_or(false))
    }

    /// An object with its kind.
    fn raw(&self, id: Oid) -> Result<(gix::objs::Kind, Vec<u8>), GitError> {
        self.read(id, |repo| repo.find_object(id).ok().map(|object| (object.kind, object.data.clone())))
    }

    /// Reads from an object. An object that a collection has removed since this process wrote it is written again first.
    fn read<T>(&self, id: Oid, read: impl Fn(&gix::Repository) -> Option<T>) -> Result<T, GitError> {
        if let Some(found) = self.view.find(&read) {
            return Ok(found);
        }
        let is_back = self.recent.holds(id) && self.write_again().is_ok();
        is_back.then(|| self.view.with(&read)).flatten().ok_or_else(|| self.lacks(id))
    }

    /// The reason why an object can't be read.
    fn lacks(&self, id: Oid) -> GitError {
        // Git marks the packs of a server that has promised the rest.
        let is_mark = |it: std::fs::DirEntry| it.path().extension().is_some_and(|it| it == "promisor");
        let packs = std::fs::read_dir(self.common_dir.join("objects/pack"));
        let is_partial = packs.is_ok_and(|packs| packs.flatten().any(is_mark));
        if is_partial && !self.has(id) { GitError::NotFetched(id) } else { GitError::Object(id) }
    }

    /// The number of files that the index of this work tree names; `None` if there is no index.
    #[must_use]
    pub fn files_in_index(&self) -> Option<u32> {
        use std::io::Read as _;
        // Signature, version and number are four bytes each (gitformat-index(5)).
        let mut head = [0; 12];
        std::fs::File::open(self.git_dir.join("index")).ok()?.read_exact(&mut head).ok()?;
        let [.., a, b, c, d] = head;
        head.starts_with(b"DIRC").then_some(u32::from_be_bytes([a, b, c, d]))
    }

    /// Returns whether it is a shallow clone, which lacks old commits.
    #[must_use]
    pub fn is_shallow(&self) -> bool {
        self.common_dir.join("shallow").exists()
    }

    /// Returns whether git's program shows other objects or parents than those that were committed: by `git replace`, or by the
    /// file of grafts.
    #[must_use]
    pub fn has_replacements(&self) -> bool {
        let is_graft = |line: &str| !line.trim().is_empty() && !line.starts_with('#');
        let grafts = std::fs::read_to_string(self.common_dir.join("info/grafts"));
        grafts.is_ok_and(|text| text.lines().any(is_graft)) || self.refs("refs/replace/").is_ok_and(|it| !it.is_empty())
    }

    /// Returns whether an object exists.
    #[must_use]
    pub fn has(&self, id: Oid) -> bool {
        self.view.find(|repo| repo.has_object(id).then_some(())).is_some() && !self.is_cut_off(id)
    }

    /// Returns whether an object exists in the known packs. At worst, an unknown one is written again.
    fn has_known(&self, id: Oid) -> bool {
        self.view.with(|repo| repo.has_object(id)) && !self.is_cut_off(id)
    }

    /// Returns whether the file of an object was truncated by a crash.
    fn is_cut_off(&self, id: Oid) -> bool {
        let loose = write::place(&self.common_dir.join("objects"), id);
        loose.exists() && !durable::is_written(&loose)
    }
}

fn commit_of(commit: &gix::objs::CommitRef<'_>) -> Commit {
    let time = commit.committer().ok().and_then(|it| it.time().ok());
    Commit {
        tree: commit.tree(),
        parents: commit.parents().collect(),
        author: commit.author().map(|it| it.name.to_string()).unwrap_or_default(),
        time_s: time.map_or(0, |time| time.seconds),
        message: commit.message.to_str_lossy().into_owned(),
    }
}

/// Reason why the library can't open the repository at `path`: there is none, or it is of an unknown kind.
fn why_unusable(path: &Path, error: &dyn std::error::Error) -> GitError {
    if !path.join(".git").exists() && !path.join("objects").is_dir() {
        return GitError::None(path.display().to_string());
    }
    let causes = std::iter::successors(Some(error), |it| it.source()).map(ToString::to_string);
    GitError::Unsupported(causes.collect::<Vec<_>>().join(": "))
}

/// A source of the objects of trees: a repository, or memory.
pub trait Objects: Send + Sync {
    /// The entries of a tree, in git's order.
    ///
    /// # Errors
    /// It can't be read.
    fn entries(&self, tree: Oid) -> Result<Vec<Entry>, GitError>;

    /// The content of a blob of at most `bytes_max` bytes.
    ///
    /// # Errors
    /// It can't be read, or is longer.
    fn blob(&self, id: Oid, bytes_max: u64) -> Result<Vec<u8>, GitError>;

    /// The length of a blob.
    ///
    /// # Errors
    /// It can't be read.
    fn size(&self, id: Oid) -> Result<u64, GitError>;

    /// The name of a content here; `None` for one that was forged to collide with another.
    fn blob_id(&self, bytes: &[u8]) -> Option<Oid> {
        blob_id(gix::hash::Kind::Sha1, bytes)
    }
}

impl Objects for Repo {
    fn entries(&self, tree: Oid) -> Result<Vec<Entry>, GitError> {
        if is_empty_tree(tree) {
            return Ok(Vec::new());
        }
        self.read(tree, |repo| {
            let tree_object = repo.find_tree(tree).ok()?;
            let entry = |entry: Result<gix::object::tree::EntryRef<'_, '_>, _>| {
                let entry = entry.map_err(|_| GitError::Object(tree))?;
                let (name, id) = (entry.filename().to_vec(), entry.id().detach());
                Ok(Entry { name, mode: Mode::of(entry.kind()), id })
            };
            Some(tree_object.iter().take(ENTRIES_MAX).map(entry).collect())
        })?
    }

    fn blob(&self, id: Oid, bytes_max: u64) -> Result<Vec<u8>, GitError> {
        if self.size(id)? > bytes_max {
            return Err(GitError::Long(bytes_max));
        }
        self.read(id, |repo| Some(repo.find_blob(id).ok()?.take_data()))
    }

    fn size(&self, id: Oid) -> Result<u64, GitError> {
        self.read(id, |repo| Some(repo.find_header(id).ok()?.size()))
    }

    fn blob_id(&self, bytes: &[u8]) -> Option<Oid> {
        blob_id(self.hash, bytes)
    }
}

/// The empty tree, by its name in most repositories: under this name it is read as empty in all of them.
#[must_use]
pub fn empty_tree() -> Oid {
    Oid::empty_tree(gix::hash::Kind::Sha1)
}

/// Reads an object's name.
#[must_use]
pub fn oid_of(text: &str) -> Option<Oid> {
    Oid::from_hex(text.trim().as_bytes()).ok()
}

/// Returns whether a tree is the empty one.
#[must_use]
pub fn is_empty_tree(id: Oid) -> bool {
    id == Oid::empty_tree(id.kind())
}

/// The name of a content; `None` for one that was forged to collide with another.
fn blob_id(hash: gix::hash::Kind, bytes: &[u8]) -> Option<Oid> {
    gix::objs::compute_hash(hash, gix::objs::Kind::Blob, bytes).ok()
}
