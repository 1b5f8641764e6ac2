//! Files and directories that a step closed to their own owner, open while the step is turned. Only root could read them.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::base::Steps;
use super::store::state::{Record, State};
use super::store::table::Change;

/// Rights that the owner needs: to read and change the contents of a directory, and to read a file.
const OF_DIRECTORY: u32 = 0o700;
const OF_FILE: u32 = 0o400;

/// The modes of the opened paths: the original one and the present one.
#[derive(Default)]
pub(super) struct Opened(BTreeMap<PathBuf, (u32, u32)>);

impl Opened {
    /// Opens paths that these steps left closed, if they still have the mode that the steps left. The outer ones come first.
    pub(super) fn by(here: &Steps, steps: &[Record], is_undone: bool) -> Self {
        let mut opened = Self::default();
        if nix::unistd::geteuid().is_root() {
            return opened;
        }
        let left = |it: &Change| match if is_undone { it.after } else { it.before } {
            State::Directory { mode } => Some((it.path.clone(), mode, mode | OF_DIRECTORY)),
            State::File { mode, .. } => Some((it.path.clone(), mode, mode | OF_FILE)),
            _ => None,
        };
        let mut closed: Vec<_> = steps.iter().flat_map(|step| &step.changes).filter_map(left).collect();
        closed.retain(|(_, mode, open)| mode != open);
        closed.sort();
        for (path, mode, open) in closed {
            if has_mode(here, &path, mode) && here.root.set_mode(&path, open).is_ok() {
                opened.0.insert(path, (mode, open));
            }
        }
        opened
    }

    /// Returns a state with the mode that it had before.
    pub(super) fn as_before(&self, path: &Path, now: State) -> State {
        match (self.0.get(path), now) {
            (Some((mode, open)), State::Directory { mode: now }) if now == *open => State::Directory { mode: *mode },
            (Some((mode, open)), State::File { mode: now, id }) if now == *open => State::File { mode: *mode, id },
            _ => now,
        }
    }

    /// Forgets the paths that have got their new mode.
    pub(super) fn settle(&mut self, changes: &[Change]) {
        for change in changes.iter().filter(|it| it.after != State::Nothing) {
            self.0.remove(&change.path);
        }
    }

    /// Closes the paths that still have the opened mode, the inner ones first.
    pub(super) fn close(self, here: &Steps) {
        for (path, (mode, open)) in self.0.into_iter().rev() {
            if has_mode(here, &path, open) {
                let _ = here.root.set_mode(&path, mode);
            }
        }
    }
}

fn has_mode(here: &Steps, path: &Path, mode: u32) -> bool {
    here.root.stamp(path).is_ok_and(|it| it.is_some_and(|it| !it.is_link() && it.permissions() == mode))
}
