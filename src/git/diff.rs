//! The difference of two trees, by path; equal subtrees are not entered.

use std::cmp::Ordering;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use super::{Entry, GitError, Mode, Objects, Oid, is_empty_tree};

/// One path that differs. A directory is represented by its entries.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Changed {
    /// The path.
    pub path: PathBuf,
    /// The entry before.
    pub old: Option<(Mode, Oid)>,
    /// The entry after.
    pub new: Option<(Mode, Oid)>,
}

/// Lists what differs between two trees, by path.
///
/// # Errors
/// A tree can't be read.
pub fn diff(objects: &dyn Objects, old: Oid, new: Oid) -> Result<Vec<Changed>, GitError> {
    let mut all = Vec::new();
    walk(objects, Path::new(""), Some(old), Some(new), &mut all)?;
    all.sort_by(|left, right| left.path.cmp(&right.path));
    Ok(all)
}

fn walk(
    objects: &dyn Objects,
    at: &Path,
    old: Option<Oid>,
    new: Option<Oid>,
    all: &mut Vec<Changed>,
) -> Result<(), GitError> {
    if old == new {
        return Ok(());
    }
    let is_some = |tree: Option<Oid>| tree.filter(|it| !is_empty_tree(*it));
    let (old, new) = (is_some(old), is_some(new));
    let entries = |tree: Option<Oid>| {
        let mut entries = tree.map_or(Ok(Vec::new()), |tree| objects.entries(tree))?;
        entries.sort_by(|left, right| left.name.cmp(&right.name));
        Ok::<_, GitError>(entries)
    };
    let (old, new) = (entries(old)?, entries(new)?);
    let (mut old, mut new) = (old.into_iter().peekable(), new.into_iter().peekable());
    loop {
        let (before, after) = match (old.peek(), new.peek()) {
            (None, None) => return Ok(()),
            (Some(_), None) => (old.next(), None),
            (None, Some(_)) => (None, new.next()),
            (Some(left), Some(right)) => match left.name.cmp(&right.name) {
                Ordering::Less => (old.next(), None),
                Ordering::Greater => (None, new.next()),
                Ordering::Equal => (old.next(), new.next()),
            },
        };
        one(objects, at, before, after, all)?;
    }
}

fn one(
    objects: &dyn Objects,
    at: &Path,
    before: Option<Entry>,
    after: Option<Entry>,
    all: &mut Vec<Changed>,
) -> Result<(), GitError> {
    let Some(name) = before.as_ref().or(after.as_ref()).map(|entry| at.join(OsStr::from_bytes(&entry.name))) else {
        return Ok(());
    };
    let tree = |entry: &Option<Entry>| entry.as_ref().filter(|it| it.mode == Mode::Directory).map(|it| it.id);
    let leaf =
        |entry: &Option<Entry>| entry.as_ref().filter(|it| it.mode != Mode::Directory).map(|it| (it.mode, it.id));
    let (old, new) = (leaf(&before), leaf(&after));
    if old != new {
        all.push(Changed { path: name.clone(), old, new });
    }
    walk(objects, &name, tree(&before), tree(&after), all)
}
