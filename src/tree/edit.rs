//! Changes of a draft: all or none, each only if the file is what the change expects.

use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use super::node::Content;
use super::read::{Found, bytes_of, of_git};
use super::rules::{Rules, may_hold_secrets};
use super::{Changed, Draft, FILE_BYTES_MAX};
use crate::files::{Change, CommitError, PathError, Tree};
use crate::git::{GitError, Mode};

/// The directory in which sessions keep their records; nothing else writes there.
pub const RECORDS: &str = ".reedclaw/sessions";
/// The log of a person's decisions about tools of the repository; only they write it.
pub const DECISIONS: &str = ".reedclaw/tools.json";
/// Reason why a file with a key of the config or of the environment is refused.
const KEY: PathError = PathError::Reserved("it holds a key that is known here, and a commit would keep it");
/// The beginning of a pointer of Git LFS, as its specification says.
const LFS: &[u8] = b"version https://git-lfs.github.com/spec/";
/// Longest file of rules that is read, in bytes.
pub(super) const RULES_BYTES_MAX: u64 = 1024 * 1024;
/// A pointer is shorter than that, as the specification says.
const POINTER_BYTES_MAX: u64 = 1024;

/// A path and its new entry; `None` for no entry.
type Put = (PathBuf, Option<(Mode, Content)>);

impl Draft {
    /// Changes several files as one.
    pub(super) fn edit(&self, changes: &[Change<'_>]) -> Result<(), CommitError> {
        let failed = |change: &Change<'_>, error| CommitError { path: change.path.to_owned(), error };
        // Another thread's change of the same file would be lost between the look at it and the change.
        let _alone = self.editing.lock();
        let mut puts: Vec<Put> = Vec::new();
        for change in changes {
            let put = self.put_of(change).map_err(|error| failed(change, error))?;
            if puts.iter().any(|(path, _)| *path == put.0) {
                return Err(failed(change, PathError::Changed));
            }
            puts.push(put);
        }
        self.has_no_twins(changes, &puts)?;
        let mut state = self.state();
        let before = state.top.clone();
        for ((path, leaf), change) in puts.into_iter().zip(changes) {
            let parts: Vec<&[u8]> = path.iter().map(OsStrExt::as_bytes).collect();
            let names: Vec<OsString> = path.iter().map(ToOwned::to_owned).collect();
            // A change of the same batch may have put a file above, or files below.
            let is_in_the_way = leaf.is_some()
                && (matches!(state.at(&*self.objects, &names), Ok(Found::Directory))
                    || (1..names.len())
                        .any(|count| matches!(state.at(&*self.objects, &names[..count]), Ok(Found::Leaf(..)))));
            let done = if is_in_the_way {
                Err(PathError::NotDirectory)
            } else {
                state.top.put(&*self.objects, &parts, leaf).map_err(|error| of_git(&error))
            };
            if let Err(error) = done {
                state.top = before;
                return Err(failed(change, error));
            }
        }
        drop(state);
        if self.tell() {
            return Ok(());
        }
        // A change that can't survive a crash isn't made.
        self.state().top = before;
        let path = changes.first().map(|it| it.path.to_owned()).unwrap_or_default();
        Err(CommitError { path, error: PathError::Reserved("the draft can't be kept in the state directory") })
    }

    /// Refuses new files whose names another entry has in another case or Unicode form, unless the same changes take that away.
    fn has_no_twins(&self, changes: &[Change<'_>], puts: &[Put]) -> Result<(), CommitError> {
        let goes = |path: &Path| puts.iter().any(|(it, leaf)| leaf.is_none() && it == path);
        for ((path, leaf), change) in puts.iter().zip(changes).filter(|(_, change)| change.old.is_none()) {
            let twin = leaf.as_ref().and_then(|_| self.state().twin(&*self.objects, path)).filter(|it| !goes(it));
            if let Some(twin) = twin {
                let error = PathError::Twin(twin.display().to_string());
                return Err(CommitError { path: change.path.to_owned(), error });
            }
        }
        Ok(())
    }

    /// Returns the target of a change and its new content; fails if the file isn't what the change expects.
    fn put_of(&self, change: &Change<'_>) -> Result<Put, PathError> {
        if self.is_read_only {
            return Err(PathError::Reserved("a commit can't be changed"));
        }
        let path = self.resolve(change.path)?;
        may_hold(&path)?;
        if path.starts_with(DECISIONS) {
            return Err(PathError::Reserved("it lists a person's decisions about tools, and only these add to it"));
        }
        if self.holds_key(path.as_os_str().as_bytes()) || change.new.is_some_and(|new| self.holds_key(new)) {
            return Err(KEY);
        }
        let (path, found) = self.state().locate(&*self.objects, &path, false).or_else(|error| match error {
            PathError::Missing => Ok((path, Found::Missing)),
            error => Err(error),
        })?;
        let (mode, old) = match found {
            Found::Missing => {
                self.may_begin(&path)?;
                (Mode::File, None)
            }
            Found::Directory | Found::Submodule => return Err(PathError::Directory),
            Found::Leaf(Mode::Link, _) => return Err(PathError::Outside),
            Found::Leaf(mode, content) => (mode, Some(bytes_of(&*self.objects, &content, FILE_BYTES_MAX)?)),
        };
        if old.as_deref() != change.old {
            return Err(PathError::Changed);
        }
        if old.is_some_and(|old| old.starts_with(LFS)) {
            return Err(PathError::Reserved("it is a pointer of Git LFS; its content isn't in the session"));
        }
        if change.new.is_some() && self.rules().filters(&path) {
            return Err(PathError::Reserved("git would run a filter on it (.gitattributes), and a session runs none"));
        }
        let leaf = match change.new {
            None => None,
            Some(bytes) if bytes.len() as u64 > FILE_BYTES_MAX => return Err(PathError::Long(FILE_BYTES_MAX)),
            Some(bytes) => Some((mode, Content::new(&*self.objects, bytes).ok_or(PathError::Changed)?)),
        };
        Ok((path, leaf))
    }

    /// The rules about its paths.
    pub(super) fn rules(&self) -> Rules<'_> {
        Rules::new(self.excludes(), Box::new(|path| self.rules_text(path).unwrap_or_default()))
    }

    /// The text of a file of rules; `None` if there is none.
    pub(super) fn rules_text(&self, path: &Path) -> Option<String> {
        let (_, bytes) = self.leaf(path, RULES_BYTES_MAX).ok()?;
        Some(String::from_utf8_lossy(&bytes).into_owned())
    }

    /// Returns whether a new file may become part of a commit.
    fn may_begin(&self, path: &Path) -> Result<(), PathError> {
        if may_hold_secrets(path) {
            return Err(PathError::Reserved("a file of its name may hold secrets, so no commit of a session takes it"));
        }
        if self.rules().ignores(path) {
            return Err(PathError::Reserved("git ignores it, so no commit takes it; a command can write it"));
        }
        Ok(())
    }

    /// Returns whether a pointer of Git LFS is at a path.
    pub(super) fn is_pointer(&self, path: &Path) -> bool {
        self.leaf(path, POINTER_BYTES_MAX).is_ok_and(|(_, bytes)| bytes.starts_with(LFS))
    }

    /// Puts a file or a link at a path as it is, or removes anything that is there: a change by a command.
    ///
    /// # Errors
    /// Git can't hold such a path, or a tree on the way can't be read.
    pub fn put(&self, path: &Path, leaf: Option<(Mode, &[u8])>) -> Result<(), PathError> {
        may_hold(path)?;
        if leaf.is_some_and(|(_, bytes)| self.holds_key(bytes) || self.holds_key(path.as_os_str().as_bytes())) {
            return Err(KEY);
        }
        let leaf = match leaf {
            Some((mode, bytes)) => Some((mode, Content::new(&*self.objects, bytes).ok_or(PathError::Changed)?)),
            None => None,
        };
        let parts: Vec<&[u8]> = path.iter().map(OsStrExt::as_bytes).collect();
        self.state().top.put(&*self.objects, &parts, leaf).map_err(|error| of_git(&error))
    }

    /// Applies changes to it, as [`Draft::changes`] gave them.
    ///
    /// # Errors
    /// A tree on the way can't be read.
    pub fn apply(&self, changes: &[Changed]) -> Result<(), GitError> {
        let mut state = self.state();
        // Removals make room first.
        for change in changes.iter().filter(|it| it.now.is_none()).chain(changes.iter().filter(|it| it.now.is_some())) {
            let parts: Vec<&[u8]> = change.path.iter().map(OsStrExt::as_bytes).collect();
            state.top.put(&*self.objects, &parts, change.now.clone())?;
        }
        Ok(())
    }

    /// Returns the entry at a path of the draft, without following links: its kind and its bytes, at most `bytes_max`.
    ///
    /// # Errors
    /// There is nothing, or no file or link.
    pub fn leaf(&self, path: &Path, bytes_max: u64) -> Result<(Mode, Vec<u8>), PathError> {
        let (mode, content) = self.walked(path)?;
        Ok((mode, bytes_of(&*self.objects, &content, bytes_max)?))
    }
}

/// Returns whether git can hold a path, and a session lets others write it.
fn may_hold(path: &Path) -> Result<(), PathError> {
    let is_gits = |name: &[u8]| {
        let name = name.to_ascii_lowercase();
        name == b".git" || name == b"git~1" || name.is_empty() || name == b"." || name == b".."
    };
    if path.as_os_str().is_empty() || path.iter().any(|name| is_gits(name.as_bytes())) {
        return Err(PathError::Reserved("git can't hold a file of this name"));
    }
    if path.starts_with(RECORDS) {
        return Err(PathError::Reserved("only the session itself writes its record"));
    }
    Ok(())
}
