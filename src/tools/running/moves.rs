//! Files that a command renamed: a deleted one, and a new one with the same content and mode.

use std::collections::{HashMap, HashSet};
use std::path::Path;

use crate::base::hash::sha256;
use crate::base::text::in_sentence;
use crate::files::{Layers, Stamp};
use crate::proto::known_paths;
use crate::sandbox::{Change, ChangeKind};

/// Limit on deleted files and on new files for which contents are compared.
const FILES_MAX: usize = 2000;
/// Limit on the bytes of one file.
const FILE_BYTES_MAX: u64 = 16 * 1024 * 1024;
/// Limit on the bytes of all files.
const ALL_BYTES_MAX: u64 = 64 * 1024 * 1024;

/// Renamed files: each new path with the old one.
#[derive(Debug, Default)]
pub(super) struct Moves<'a> {
    old_names: HashMap<&'a Path, &'a Path>,
    gone: HashSet<&'a Path>,
}

/// A deleted or new file, with its mode and hash.
struct Moved<'a> {
    path: &'a Path,
    likeness: (u32, [u8; 32]),
}

impl<'a> Moves<'a> {
    /// Compares the deleted files with the new ones. Git's own files and those that tools generate are shown in another way.
    pub(super) fn of(changes: &[&'a Change], before: Option<&Layers>) -> Self {
        let Some(before) = before else { return Self::default() };
        let is_git_s = |it: &Change| it.path.iter().any(|part| part.eq_ignore_ascii_case(".git"));
        let is_plain = |it: &&'a Change| {
            let is_ordinary = it.protected.is_none() && it.other_names == 0 && !it.has_privilege && !it.is_cleared;
            is_ordinary && known_paths::derived(&it.path).is_none() && !is_git_s(it)
        };
        let plain = || changes.iter().copied().filter(is_plain);
        let gone: Vec<(&Change, u64, u32)> = plain().filter_map(file_gone).collect();
        let new: Vec<(&Change, u64, u32)> = plain().filter_map(file_new).collect();
        let sizes = |files: &[(&Change, u64, u32)]| files.iter().map(|it| (it.1, it.2)).collect::<HashSet<_>>();
        let (of_gone, of_new) = (sizes(&gone), sizes(&new));
        let gone: Vec<_> = gone.into_iter().filter(|it| of_new.contains(&(it.1, it.2))).collect();
        let new: Vec<_> = new.into_iter().filter(|it| of_gone.contains(&(it.1, it.2))).collect();
        let bytes: u64 = gone.iter().chain(&new).map(|it| it.1).sum();
        if gone.len() > FILES_MAX || new.len() > FILES_MAX || bytes > ALL_BYTES_MAX {
            return Self::default();
        }
        let old = |change: &Change| Some(before.held(&change.path, FILE_BYTES_MAX).ok()?.1);
        let mut waiting: Vec<Moved<'a>> = gone.into_iter().filter_map(|it| moved(it, &old)).collect();
        let mut moves = Self::default();
        for file in new.into_iter().filter_map(|it| moved(it, &content)) {
            let is_like = |it: &Moved<'_>| it.likeness == file.likeness;
            let has_its_name = |it: &Moved<'_>| is_like(it) && it.path.file_name() == file.path.file_name();
            let at = waiting.iter().position(has_its_name).or_else(|| waiting.iter().position(is_like));
            if let Some(at) = at {
                let old = waiting.remove(at).path;
                moves.gone.insert(old);
                moves.old_names.insert(file.path, old);
            }
        }
        moves
    }

    /// Returns whether a deleted file was renamed.
    pub(super) fn has_gone(&self, change: &Change) -> bool {
        self.gone.contains(change.path.as_path())
    }

    /// Returns the row about a renamed file.
    pub(super) fn row(&self, change: &Change) -> Option<String> {
        let old = self.old_names.get(change.path.as_path())?;
        let name = |path: &Path| in_sentence(&path.to_string_lossy());
        Some(format!("R  {}  renamed to {}, with the same content", old.display(), name(&change.path)))
    }
}

fn file_gone(change: &Change) -> Option<(&Change, u64, u32)> {
    let old = change.before.filter(Stamp::is_file).filter(|_| change.kind == ChangeKind::Deleted)?;
    is_compared(old.size).then_some((change, old.size, old.permissions()))
}

fn file_new(change: &Change) -> Option<(&Change, u64, u32)> {
    match &change.kind {
        ChangeKind::File { mode, bytes, .. } if change.before.is_none() && is_compared(*bytes) => {
            Some((change, *bytes, *mode))
        }
        _ => None,
    }
}

/// Empty files are like each other by chance.
fn is_compared(bytes: u64) -> bool {
    (1..=FILE_BYTES_MAX).contains(&bytes)
}

fn content(change: &Change) -> Option<Vec<u8>> {
    match &change.kind {
        ChangeKind::File { source, .. } => std::fs::read(source).ok(),
        _ => None,
    }
}

fn moved<'a>(
    (change, _, mode): (&'a Change, u64, u32),
    content: &dyn Fn(&Change) -> Option<Vec<u8>>,
) -> Option<Moved<'a>> {
    let held = content(change)?;
    Some(Moved { path: &change.path, likeness: (mode, sha256(&held)) })
}
