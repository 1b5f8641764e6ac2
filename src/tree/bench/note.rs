//! The note about a command that works on a bench. It is beside the command's copy as long as that exists, so that after a crash
//! the next process knows the command and finds its changes.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::{Bench, COPIES, Did, Known, Lowers, empty_tree, name_in};
use crate::files::Table;
use crate::tree::FILE_BYTES_MAX;

/// A command that a crash cut off, as its note has it.
#[derive(Debug)]
pub struct CutOff {
    /// The command.
    pub command: String,
    /// Changes that were judged already and were being adopted; `None` if the command was running.
    pub changes: Option<Vec<(PathBuf, Did)>>,
}

/// The first line of a note. If commands work in a directory with all files, and no other file has its table, that follows.
#[derive(Serialize, Deserialize)]
struct Note {
    command: String,
    /// The name of the tree below the bench.
    over: Option<String>,
    /// The changes that are being adopted.
    changes: Option<Vec<(OsString, Entry)>>,
}

/// A change of a path.
#[derive(Serialize, Deserialize)]
enum Entry {
    File(OsString, u32),
    Bytes(Vec<u8>, u32),
    Link(OsString),
    Directory,
    Gone,
}

impl Entry {
    fn of(did: &Did) -> Self {
        match did {
            Did::File(source, bits) => Self::File(source.clone().into(), *bits),
            Did::Bytes(bytes, bits) => Self::Bytes(bytes.clone(), *bits),
            Did::Link(target) => Self::Link(target.clone().into()),
            Did::Directory => Self::Directory,
            Did::Gone => Self::Gone,
        }
    }

    /// The change, of which a part may have been made before the crash: then the file isn't at its source any more but `there`.
    fn change(self, there: &Path) -> Option<Did> {
        Some(match self {
            Self::File(source, bits) if Path::new(&source).symlink_metadata().is_ok() => Did::File(source.into(), bits),
            Self::File(_, bits) => {
                there.symlink_metadata().ok().filter(|it| it.is_file() && it.len() <= FILE_BYTES_MAX)?;
                Did::Bytes(fs::read(there).ok()?, bits)
            }
            Self::Bytes(bytes, bits) => Did::Bytes(bytes, bits),
            Self::Link(target) => Did::Link(target.into()),
            Self::Directory => Did::Directory,
            Self::Gone => Did::Gone,
        })
    }
}

/// The folder for the copies of commands that work on a bench.
#[must_use]
pub fn copies_beside(bench: &Path) -> PathBuf {
    bench.with_extension(COPIES)
}

/// Removes the trees in the folder `shared` that no bench uses, except the newest. `states` are the files beside benches that
/// record their state; a tree that an interrupted command was working on is in use, too. If `only_names`, none is removed.
/// Returns the names.
#[must_use]
pub fn clear_up_shared(shared: &Path, states: &[PathBuf], only_names: bool) -> Vec<String> {
    let texts: Vec<String> = states.iter().filter_map(|path| fs::read_to_string(path).ok()).collect();
    let mut used: Vec<String> = texts.iter().filter_map(|text| name_in(text)).map(str::to_owned).collect();
    used.extend(states.iter().flat_map(|state| trees_below(&state.with_extension(COPIES))));
    Lowers(shared.to_owned()).clear_up(&used, only_names)
}

/// Returns the names of the trees in the notes of a folder of copies: a command's changes are relative to the tree below it.
fn trees_below(folder: &Path) -> Vec<String> {
    let entries = |at: &Path| fs::read_dir(at).into_iter().flatten().flatten().map(|it| it.path());
    // A note is the only file of a copy; a command's files are in directories.
    let files = entries(folder).flat_map(|copy| entries(&copy)).filter(|it| it.is_file());
    let tree = |file: PathBuf| {
        let note = fs::read(file).ok()?;
        let line = note.split(|byte| *byte == b'\n').next()?;
        serde_json::from_slice::<Note>(line).ok()?.over
    };
    files.filter_map(tree).collect()
}

impl Bench {
    /// The folder for the copies of commands that work on it.
    #[must_use]
    pub fn copies(&self) -> PathBuf {
        copies_beside(&self.dir)
    }

    /// The note about a command that is about to run; with its changes, if they are about to be taken over.
    #[must_use]
    pub fn note(&self, command: &str, changes: Option<&[(&Path, Did)]>) -> Vec<u8> {
        let over = self.known.lock().as_ref().and_then(|it| it.lower.as_ref().map(|lower| lower.name.clone()));
        let entry = |(path, did): &(&Path, Did)| (path.as_os_str().to_owned(), Entry::of(did));
        let changes = changes.map(|all| all.iter().map(entry).collect());
        let mut note = serde_json::to_vec(&Note { command: command.to_owned(), over, changes }).unwrap_or_default();
        note.push(b'\n');
        note.extend(self.whole().and_then(super::Whole::unwritten).unwrap_or_default());
        note
    }

    /// Takes the bench up as it was when a command on it was cut off. It must not have been used since. `None` if the note or
    /// the bench isn't whole.
    #[must_use]
    pub fn resume(&self, note: &[u8]) -> Option<CutOff> {
        let (line, table) = note.split_at(note.iter().position(|it| *it == b'\n')? + 1);
        let note: Note = serde_json::from_slice(line).ok()?;
        let lower = match (&note.over, &self.shared) {
            (Some(name), Some(shared)) => Some(Arc::new(shared.take(name)?)),
            (None, None) => None,
            _ => return None,
        };
        self.dir.is_dir().then_some(())?;
        if let Some(whole) = self.whole() {
            whole.resume(Table::read(table))?;
        }
        *self.known.lock() = Some(Known { base: empty_tree(), changed: Default::default(), lower });
        let change = |(path, entry): (OsString, Entry)| {
            let path = PathBuf::from(path);
            let did = entry.change(&self.dir.join(&path))?;
            Some((path, did))
        };
        Some(CutOff {
            command: note.command,
            changes: note.changes.map(|all| all.into_iter().filter_map(change).collect()),
        })
    }
}
