//! Changes that were made elsewhere, on a copy of the workspace, made real as one: with the same journal as an undo, each
//! path only if it still is what it was when the changes were collected. The step that results takes them back.

use std::path::{Path, PathBuf};

use gix::ObjectId;

use super::packs::Packer;
use super::state::{Kind, State, Why};
use super::store::{Store, name_of};
use super::undo::{Source, Sources};
use super::{Change, Made, Steps, StepsError, cut};
use crate::host::Stamp;

/// So many contents go into a pack; fewer get a file each.
const PACKED_MIN: usize = 64;

/// What a path is to become.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NewContent {
    /// A file whose content lies in a file of the same user, from where it may be moved.
    File {
        /// Permission bits.
        mode: u32,
        /// Where the content lies.
        source: PathBuf,
    },
    /// A file with this content; its permission bits stay, those of a new one are these.
    Bytes {
        /// Permission bits.
        mode: u32,
        /// The content.
        bytes: Vec<u8>,
    },
    /// A symbolic link.
    Link {
        /// Where it leads.
        target: PathBuf,
    },
    /// A directory.
    Directory {
        /// Permission bits.
        mode: u32,
    },
    /// Nothing.
    Nothing,
}

/// One change that is to be made real.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Incoming {
    /// Relative to the workspace.
    pub path: PathBuf,
    /// What was there when the change was collected.
    pub expected: Option<Stamp>,
    /// What is to be there.
    pub content: NewContent,
}

/// What came of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Adopted {
    /// The step.
    pub made: Made,
    /// Paths that were left as they are, and why.
    pub left: Vec<(PathBuf, String)>,
}

impl Steps {
    /// Makes changes real, and a step of them unless it isn't wanted.
    ///
    /// # Errors
    /// A file can't be read or written, or the store: nothing was changed then.
    pub fn adopt(&mut self, text: &str, incoming: Vec<Incoming>, is_recorded: bool) -> Result<Adopted, StepsError> {
        self.adopt_in_steps(text, incoming, is_recorded, &mut || ())
    }

    /// Calls `step` wherever a crash would leave another state behind.
    pub(super) fn adopt_in_steps(
        &mut self,
        text: &str,
        incoming: Vec<Incoming>,
        is_recorded: bool,
        step: &mut dyn FnMut(),
    ) -> Result<Adopted, StepsError> {
        let _held = self.enter()?;
        let (mut changes, mut sources, mut left) = (Vec::new(), Sources::new(), Vec::new());
        let store = self.store.clone();
        let mut keeping = Keeping(if incoming.len() >= PACKED_MIN { Some(store.packer()) } else { None });
        for Incoming { path, expected, content } in incoming {
            let now = self.root.stamp(&path).map_err(|error| StepsError::Path { path: path.clone(), error })?;
            if !is_as_expected(now, expected) {
                left.push((path, "somebody else has changed it meanwhile".to_owned()));
                continue;
            }
            let before = keeping.state(self, &path)?;
            let after = self.state_of(&path, content, &mut sources, &mut keeping)?;
            if before != after {
                changes.push(Change { path, before, after });
            }
        }
        keeping.finish(&self.store)?;
        if changes.is_empty() {
            return Ok(Adopted { made: Made::default(), left });
        }
        left.extend(self.carry_out(Vec::new(), changes.clone(), &sources, step)?);
        changes.retain(|change| !left.iter().any(|(path, _)| *path == change.path));
        for change in &mut changes {
            if change.after.id().is_some_and(|id| id.is_null()) {
                change.after = State::Unknown(Why::Large);
            }
        }
        if !is_recorded {
            // What a person doesn't want to be kept was needed only as long as it could fail.
            if self.list().is_empty() {
                self.store.forget_contents();
            }
            return Ok(Adopted { made: Made::default(), left });
        }
        let made = self.make(Kind::Command, cut(text), Vec::new(), changes)?;
        self.written += 1;
        Ok(Adopted { made: Made { pruned: self.make_room()?, ..made }, left })
    }

    /// What a path will be, with the place of its content.
    fn state_of(
        &self,
        path: &Path,
        content: NewContent,
        sources: &mut Sources,
        keeping: &mut Keeping<'_>,
    ) -> Result<State, StepsError> {
        Ok(match content {
            NewContent::Nothing => State::Nothing,
            NewContent::Directory { mode } => State::Directory { mode },
            NewContent::Link { target } => {
                let target = target.into_os_string().into_encoded_bytes();
                let id = keeping.keep(&self.store, &target)?;
                sources.insert(path.to_owned(), Source::Bytes(target));
                State::Link { id }
            }
            NewContent::Bytes { mode, bytes } => {
                let id = keeping.keep(&self.store, &bytes)?;
                sources.insert(path.to_owned(), Source::Bytes(bytes));
                State::File { mode, id }
            }
            NewContent::File { mode, source } => {
                let failed = |error| StepsError::io("a change on the copy", &error);
                let size = std::fs::symlink_metadata(&source).map_err(failed)?.len();
                // Its name is only needed to compare it later, which isn't done with so large a file.
                let id = if size > self.limits.file_bytes_max {
                    ObjectId::null(gix::hash::Kind::Sha1)
                } else {
                    keeping.keep(&self.store, &std::fs::read(&source).map_err(failed)?)?
                };
                sources.insert(path.to_owned(), Source::File(source));
                State::File { mode, id }
            }
        })
    }
}

/// Keeps contents: many of them in packs.
struct Keeping<'a>(Option<Packer<'a>>);

impl Keeping<'_> {
    fn keep(&mut self, store: &Store, bytes: &[u8]) -> Result<ObjectId, StepsError> {
        let Some(packer) = &mut self.0 else { return Ok(store.keep(bytes)?.0) };
        let id = name_of(bytes).ok_or(StepsError::Collision)?;
        if !store.holds(&id) {
            packer.add(id, bytes).map_err(|error| StepsError::io("the store of steps", &error))?;
        }
        Ok(id)
    }

    /// Keeps what is at a path now, and says what that is.
    fn state(&mut self, steps: &Steps, path: &Path) -> Result<State, StepsError> {
        let failed = |error| StepsError::Path { path: path.to_owned(), error };
        let Some(stamp) = steps.root.stamp(path).map_err(failed)? else { return Ok(State::Nothing) };
        if self.0.is_none() || stamp.is_directory() {
            return steps.keep_state(path);
        }
        match steps.root.held(path, steps.limits.file_bytes_max) {
            Ok((stamp, bytes)) => {
                let (id, mode) = (self.keep(&steps.store, &bytes)?, stamp.permissions());
                Ok(if stamp.is_link() { State::Link { id } } else { State::File { mode, id } })
            }
            Err(_) => steps.keep_state(path),
        }
    }

    fn finish(self, store: &Store) -> Result<(), StepsError> {
        if let Some(mut packer) = self.0 {
            packer.finish().map_err(|error| StepsError::io("the store of steps", &error))?;
            store.packed();
        }
        Ok(())
    }
}

/// Whether what is there is what was there. The time of a directory changes with each name in it.
fn is_as_expected(now: Option<Stamp>, expected: Option<Stamp>) -> bool {
    match (now, expected) {
        (Some(now), Some(expected)) if now.is_directory() => expected.is_directory(),
        (now, expected) => now == expected,
    }
}
