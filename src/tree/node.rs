//! The nodes of a draft: directories are read from objects when they are entered, and written again only if something below them
//! changed.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;

use super::Changed;
use crate::git::{Entry, GitError, Mode, Objects, Oid};

/// The content of a file or the target of a link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Content {
    /// An object of the store.
    Object(Oid),
    /// Bytes that aren't in the store yet, and their name in git.
    New(Arc<[u8]>, Oid),
}

impl Content {
    /// A content that isn't in the store yet; `None` for one that was made to have another's name.
    #[must_use]
    pub fn new(objects: &dyn Objects, bytes: &[u8]) -> Option<Self> {
        Some(Self::New(bytes.into(), objects.blob_id(bytes)?))
    }

    /// Its name in git.
    #[must_use]
    pub fn id(&self) -> Oid {
        match self {
            Self::Object(id) | Self::New(_, id) => *id,
        }
    }
}

/// The entry at a path.
#[derive(Clone, Debug)]
pub(super) enum Node {
    /// A directory of the store that hasn't been entered.
    Unread(Oid),
    /// A directory, and its tree in the store if nothing below it has changed since it was read: after a search, a draft has all
    /// directories in memory, and looking for changes must not enter each of them.
    Directory(BTreeMap<Vec<u8>, Node>, Option<Oid>),
    /// A file, a link or another repository's commit.
    Leaf(Mode, Content),
}

impl Node {
    pub(super) fn of_tree(id: Oid) -> Self {
        if crate::git::is_empty_tree(id) { Self::Directory(BTreeMap::new(), None) } else { Self::Unread(id) }
    }

    fn of_entry(entry: &Entry) -> Self {
        match entry.mode {
            Mode::Directory => Self::Unread(entry.id),
            mode => Self::Leaf(mode, Content::Object(entry.id)),
        }
    }

    /// The entries of a directory, read if they weren't; `None` for a leaf.
    pub(super) fn enter(&mut self, objects: &dyn Objects) -> Result<Option<&mut BTreeMap<Vec<u8>, Self>>, GitError> {
        if let Self::Unread(id) = self {
            let (id, entries) = (*id, objects.entries(*id)?);
            let below = entries.iter().map(|it| (it.name.clone(), Self::of_entry(it))).collect();
            *self = Self::Directory(below, Some(id));
        }
        Ok(match self {
            Self::Directory(below, _) => Some(below),
            _ => None,
        })
    }

    /// Returns whether it is a directory with nothing in it, which git doesn't have.
    fn is_empty(&self) -> bool {
        matches!(self, Self::Directory(below, _) if below.is_empty())
    }

    /// Puts a leaf at a path, or removes what is there; directories that become empty are removed, too.
    pub(super) fn put(
        &mut self,
        objects: &dyn Objects,
        parts: &[&[u8]],
        leaf: Option<(Mode, Content)>,
    ) -> Result<(), GitError> {
        let Some((name, rest)) = parts.split_first() else { return Ok(()) };
        if self.enter(objects)?.is_none() {
            if leaf.is_none() {
                return Ok(());
            }
            *self = Self::Directory(BTreeMap::new(), None);
        }
        let Self::Directory(below, tree) = self else { return Ok(()) };
        if rest.is_empty() {
            *tree = None;
            match leaf {
                Some((mode, content)) => drop(below.insert(name.to_vec(), Self::Leaf(mode, content))),
                None => drop(below.remove(*name)),
            }
            return Ok(());
        }
        if leaf.is_none() && !below.contains_key(*name) {
            return Ok(());
        }
        let child = below.entry(name.to_vec()).or_insert_with(|| Self::Directory(BTreeMap::new(), None));
        *tree = None;
        child.put(objects, rest, leaf)?;
        if child.is_empty() {
            below.remove(*name);
        }
        Ok(())
    }

    /// Lists what differs from a tree of the store.
    pub(super) fn changes(
        &self,
        objects: &dyn Objects,
        base: Option<Oid>,
        at: &Path,
        all: &mut Vec<Changed>,
    ) -> Result<(), GitError> {
        let Self::Directory(below, tree) = self else { return Ok(()) };
        if tree.is_some() && *tree == base {
            return Ok(());
        }
        let before = base.map_or(Ok(Vec::new()), |base| objects.entries(base))?;
        let before: BTreeMap<&[u8], &Entry> = before.iter().map(|it| (&it.name[..], it)).collect();
        for (name, node) in below {
            let path = at.join(OsStr::from_bytes(name));
            let old = before.get(&name[..]).copied();
            let old_tree = old.filter(|it| it.mode == Mode::Directory).map(|it| it.id);
            match node {
                Self::Unread(id) if old_tree == Some(*id) => {}
                Self::Unread(id) => {
                    // A directory of the store that was put here as a whole.
                    let mut node = Self::Unread(*id);
                    node.enter(objects)?;
                    node.changes(objects, old_tree, &path, all)?;
                }
                Self::Directory(..) => {
                    // The old file needs no entry: the new entries replace it.
                    node.changes(objects, old_tree, &path, all)?;
                }
                Self::Leaf(mode, content) => {
                    if let Some(old_tree) = old_tree {
                        gone(objects, &path, old_tree, all)?;
                    }
                    if old.is_none_or(|it| it.mode != *mode || it.id != content.id()) {
                        all.push(Changed { path, now: Some((*mode, content.clone())) });
                    }
                }
            }
        }
        for (name, entry) in &before {
            let is_kept = below.get(*name).is_some_and(|node| match node {
                Self::Leaf(..) => true,
                // A file that became a directory has gone.
                _ => entry.mode == Mode::Directory,
            });
            if !is_kept {
                let path = at.join(OsStr::from_bytes(name));
                match entry.mode {
                    Mode::Directory => gone(objects, &path, entry.id, all)?,
                    _ => all.push(Changed { path, now: None }),
                }
            }
        }
        Ok(())
    }
}

/// Lists everything below a deleted directory.
fn gone(objects: &dyn Objects, at: &Path, tree: Oid, all: &mut Vec<Changed>) -> Result<(), GitError> {
    for entry in objects.entries(tree)? {
        let path = at.join(OsStr::from_bytes(&entry.name));
        match entry.mode {
            Mode::Directory => gone(objects, &path, entry.id, all)?,
            _ => all.push(Changed { path, now: None }),
        }
    }
    Ok(())
}
