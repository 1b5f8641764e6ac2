//! The changes of a session's command that made thousands of new files: they stay on the session's bench and are in no commit, so
//! they are neither read nor judged one by one if one file of a directory can represent the others. It decides nothing.

use std::collections::HashSet;
use std::path::Path;

use serde_json::json;

use crate::base::hash::Hasher;
use crate::gate::{Call, Disk, Gate, is_plain_name};
use crate::proto::action::Action;
use crate::sandbox::{Change, ChangeKind};
use crate::tree::{Bench, Flood, NewEntry, NewEntryKind};

/// Odd names beside a flood, which are refused one by one.
const ODD_MAX: usize = 100;
/// Longest path, as the policy has it.
const PATH_BYTES_MAX: usize = 4095;

/// The changes of a command with a flood among them.
pub(super) struct Flooded<'a> {
    pub(super) flood: Flood,
    /// The changes that the flood takes along.
    covered: Vec<&'a Change>,
    /// The others, without those of odd names.
    pub(super) rest: Vec<&'a Change>,
}

impl<'a> Flooded<'a> {
    /// Finds the flood in a command's changes, which are sorted by path; `None` if there is none, or one of them is protected:
    /// what needs a question is shown with all that belongs to it. `odd` are those that are refused by their names.
    pub(super) fn of(bench: &Bench, all: &'a [Change], odd: &[&Change]) -> Option<Self> {
        if odd.len() > ODD_MAX || all.iter().any(|it| it.protected.is_some()) {
            return None;
        }
        let is_odd = |it: &Change| odd.iter().any(|odd| std::ptr::eq(*odd, it));
        let made: Vec<NewEntry<'_>> =
            all.iter().map(|it| NewEntry { path: &it.path, kind: made_kind(it, is_odd(it)) }).collect();
        let flood = bench.flood(&made)?;
        let (mut covered, mut rest) = (Vec::with_capacity(all.len()), Vec::new());
        for (change, takes) in all.iter().zip(&flood.takes) {
            match takes {
                true => covered.push(change),
                false if !is_odd(change) => rest.push(change),
                false => {}
            }
        }
        Some(Self { flood, covered, rest })
    }

    /// Adds the flood to the call that keeps the rest: to its question, to the paths that are judged, and to what its receipt and
    /// fingerprint are about, which is each path with its mode and size. The contents aren't hashed.
    pub(super) fn add_to(&self, keep: &mut Call, gate: &Gate) {
        let mut all = Hasher::new();
        let (mut files, mut total) = (0_u64, 0_u64);
        for change in &self.covered {
            let (word, mode, bytes) = match &change.kind {
                ChangeKind::File { mode, bytes, .. } => {
                    (files, total) = (files + 1, total + bytes);
                    (b'f', *mode, *bytes)
                }
                ChangeKind::Directory { mode } => (b'd', *mode, 0),
                _ => continue,
            };
            all.update(change.path.as_os_str().as_encoded_bytes());
            all.update(&[0, word]);
            all.update(&mode.to_be_bytes());
            all.update(&bytes.to_be_bytes());
        }
        keep.arguments["flood"] = json!({"files": files, "bytes": total, "listing_sha256": all.finish_hex()});
        let rows = self.flood.rows();
        for row in &rows {
            keep.preview.push('\n');
            keep.preview.push_str(row);
        }
        if let Action::Keep { writes, others, .. } = &mut keep.action {
            writes.extend(judged(gate, &self.covered));
            others.extend(rows);
        }
    }
}

/// Classifies a change for the search for a flood.
fn made_kind(change: &Change, is_odd: bool) -> NewEntryKind<'_> {
    let is_new = change.before.is_none();
    match &change.kind {
        ChangeKind::File { mode, bytes, source } if is_new && !is_odd => {
            let is_plain = !change.has_privilege && mode & 0o1000 == 0;
            NewEntryKind::File { source, mode: *mode, bytes: *bytes, is_plain }
        }
        ChangeKind::Directory { mode } if !is_odd && (is_new || change.before.is_some_and(|it| it.is_directory())) => {
            let is_plain = is_new && !change.has_privilege && mode & 0o1700 == 0o700;
            NewEntryKind::Directory { is_plain }
        }
        _ => NewEntryKind::Other,
    }
}

/// Returns the paths of a flood that are judged: one of each directory if it can represent the others.
fn judged(gate: &Gate, covered: &[&Change]) -> Vec<String> {
    let (disk, mut seen) = (Disk::default(), HashSet::new());
    let mut paths = Vec::new();
    // The directory of the last file, whether one file can represent the others there, and whether one was judged.
    let mut last = (Path::new(""), false, false);
    for change in covered.iter().filter(|it| matches!(it.kind, ChangeKind::File { .. })) {
        let parent = change.path.parent().unwrap_or(Path::new(""));
        if last.0.as_os_str() != parent.as_os_str() || paths.is_empty() {
            last = (parent, gate.judges_alike(&disk, parent), false);
        }
        let name = change.path.file_name().and_then(|it| it.to_str());
        let is_plain = change.path.as_os_str().len() <= PATH_BYTES_MAX && name.is_some_and(is_plain_name);
        // The first file of each directory is always judged.
        if !(last.1 && is_plain) || !std::mem::replace(&mut last.2, true) && seen.insert(parent) {
            paths.push(change.path.display().to_string());
        }
    }
    paths
}
