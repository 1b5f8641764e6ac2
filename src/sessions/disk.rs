//! Files beside git for one session, in the state directory: its lock, the journal of a reference that is about to
//! move, the draft of the turn that runs, and the operations that can be undone. All but the operations go with the turn.

use std::fs::{DirBuilder, File, TryLockError};
use std::io::Write;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::{SessionError, short_id};
use crate::base::hash::path_name;
use crate::base::hex;
use crate::files::Locked;
use crate::git::{Identity, Mode, Oid, Repo, fault, oid_of};
use crate::tree::{Changed, Content, Draft};

/// First and last line of a journal that is whole.
const JOURNAL: (&str, &str) = ("reedclaw-session 1", "end");
/// Bytes of a file of ours that are read.
const BYTES_MAX: u64 = 64 * 1024 * 1024;
/// Operations that can be undone.
const OPERATIONS_MAX: usize = 100;

/// The folder of a repository's sessions.
pub(super) fn folder(state: &Path, common_dir: &Path) -> PathBuf {
    state.join("sessions").join(path_name(common_dir))
}

/// The folder of one session.
#[derive(Clone, Debug)]
pub(super) struct Desk {
    folder: PathBuf,
    id: String,
}

/// The remains of an interrupted turn.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Left {
    /// The question.
    pub question: String,
    /// Files that it changed.
    pub files: usize,
}

/// The draft as it is kept.
#[derive(Serialize, Deserialize)]
struct DraftFile {
    v: u32,
    tip: String,
    changes: Vec<KeptChange>,
    #[serde(default)]
    open: Option<Vec<String>>,
}

#[derive(Serialize, Deserialize)]
struct KeptChange {
    /// The path's bytes in hexadecimal digits: a name in git needn't be text.
    path: String,
    mode: Option<String>,
    id: Option<String>,
    is_new: bool,
}

/// The list of operations that can be undone.
pub(super) const DONE: &str = "operations";
/// The list of operations that were undone and can be done again.
pub(super) const UNDONE: &str = "undone";

/// An operation that can be undone: the tip moved.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Operation {
    /// In words.
    pub(super) what: String,
    pub(super) from: String,
    pub(super) to: String,
}

impl Desk {
    pub(super) fn of(folder: &Path, id: &str) -> Self {
        Self { folder: folder.join(id), id: id.to_owned() }
    }

    fn failed(&self, error: std::io::Error) -> SessionError {
        SessionError::Disk(self.folder.clone(), error)
    }

    /// Takes the lock for writing; the process that holds it is named.
    pub(super) fn lock(&self) -> Result<Locked<File>, SessionError> {
        let made = DirBuilder::new().recursive(true).mode(0o700).create(&self.folder);
        made.map_err(|error| self.failed(error))?;
        let path = self.folder.join("lock");
        let open = File::options().read(true).write(true).create(true).truncate(false).mode(0o600).open(&path);
        let file = open.map_err(|error| self.failed(error))?;
        let lock = Locked::take(file, false, Duration::ZERO).map_err(|error| match error {
            TryLockError::WouldBlock => {
                let holder = std::fs::read_to_string(&path).unwrap_or_default();
                let process = holder.trim().parse::<u32>().map(|it| format!(" (process {it})")).unwrap_or_default();
                SessionError::Held(short_id(&self.id).to_owned(), process)
            }
            TryLockError::Error(error) => self.failed(error),
        })?;
        std::fs::write(&path, std::process::id().to_string()).map_err(|error| self.failed(error))?;
        Ok(lock)
    }

    /// Takes the lock if there is such a folder and nobody holds it.
    pub(super) fn lock_if_there(&self) -> Option<Locked<File>> {
        self.folder.is_dir().then(|| self.lock().ok())?
    }

    /// The process that holds the lock.
    pub(super) fn holder(&self) -> Option<String> {
        let path = self.folder.join("lock");
        let file = File::open(&path).ok()?;
        match Locked::take(file, true, Duration::ZERO) {
            Err(TryLockError::WouldBlock) => Some(std::fs::read_to_string(path).unwrap_or_default()),
            _ => None,
        }
    }

    pub(super) fn has_draft(&self) -> bool {
        self.folder.join("draft/question").exists()
    }

    /// A private directory for merges, which the caller removes.
    pub(super) fn scratch(&self) -> PathBuf {
        self.folder.join("scratch")
    }

    /// The directory that commands work on.
    pub(super) fn bench(&self) -> PathBuf {
        self.folder.join("bench")
    }

    pub(super) fn remove(&self) -> Result<(), SessionError> {
        match std::fs::remove_dir_all(&self.folder) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(self.failed(error)),
            _ => Ok(()),
        }
    }

    fn put(&self, name: &str, bytes: &[u8], is_durable: bool) -> std::io::Result<()> {
        let (path, temporary) = (self.folder.join(name), self.folder.join(format!("{name}.new")));
        let mut file = File::options().write(true).create(true).truncate(true).mode(0o600).open(&temporary)?;
        fault::point();
        fault::write()?;
        file.write_all(bytes)?;
        if is_durable {
            file.sync_all()?;
        }
        fault::point();
        std::fs::rename(&temporary, &path)?;
        fault::point();
        match path.parent().filter(|_| is_durable) {
            Some(parent) => File::open(parent)?.sync_all(),
            None => Ok(()),
        }
    }

    fn text(&self, name: &str) -> Option<String> {
        let path = self.folder.join(name);
        (std::fs::metadata(&path).ok()?.len() <= BYTES_MAX).then(|| std::fs::read_to_string(path).ok())?
    }

    /// Notes that the person of the running turn is asked, or no more.
    pub(super) fn ask(&self, what: Option<&str>) {
        // Only a help for other shells.
        let _ = match what {
            Some(what) => self.put("asks", what.as_bytes(), false),
            None => std::fs::remove_file(self.folder.join("asks")),
        };
    }

    /// The question that the person of the running turn is asked.
    pub(super) fn asks(&self) -> Option<String> {
        self.text("asks").filter(|_| self.holder().is_some())
    }

    /// Notes the question of a turn that begins.
    pub(super) fn begin(&self, question: &str) -> Result<(), SessionError> {
        let made = DirBuilder::new().recursive(true).mode(0o700).create(self.folder.join("draft/blobs"));
        made.and_then(|()| self.put("draft/question", question.as_bytes(), false)).map_err(|error| self.failed(error))
    }

    /// Keeps the draft as it is now, against a crash of this process.
    pub(super) fn keep_draft(&self, draft: &Draft, tip: Oid) -> Result<(), SessionError> {
        let made = DirBuilder::new().recursive(true).mode(0o700).create(self.folder.join("draft/blobs"));
        made.map_err(|error| self.failed(error))?;
        let mut changes = Vec::new();
        for Changed { path, now } in draft.changes()? {
            let is_new = matches!(&now, Some((_, Content::New(..))));
            if let Some((_, Content::New(bytes, id))) = &now {
                let name = format!("draft/blobs/{id}");
                if !self.folder.join(&name).exists() {
                    self.put(&name, bytes, false).map_err(|error| self.failed(error))?;
                }
            }
            changes.push(KeptChange {
                path: hex::encode(path.as_os_str().as_bytes()),
                mode: now.as_ref().map(|(mode, _)| mode.octal().to_owned()),
                id: now.as_ref().map(|(_, content)| content.id().to_string()),
                is_new,
            });
        }
        let file = DraftFile { v: 1, tip: tip.to_string(), changes, open: Some(draft.open_names()) };
        let text = serde_json::to_string(&file).unwrap_or_default();
        self.put("draft/list", text.as_bytes(), false).map_err(|error| self.failed(error))
    }

    /// The commit that a draft which was kept was made over.
    pub(super) fn draft_tip(&self) -> Option<Oid> {
        let file = self.text("draft/list").and_then(|text| serde_json::from_str::<DraftFile>(&text).ok())?;
        oid_of(&file.tip)
    }

    /// Puts a draft that was kept onto `draft`, if it was made over this tip.
    pub(super) fn load_draft(&self, draft: &Draft, tip: Oid) -> Result<(), SessionError> {
        let Some(file) = self.text("draft/list").and_then(|text| serde_json::from_str::<DraftFile>(&text).ok()) else {
            return Ok(());
        };
        if oid_of(&file.tip) != Some(tip) {
            return Err(SessionError::Refused(format!(
                "the draft of a turn that was cut off belongs to {}, and the session is elsewhere now; it is kept in {}",
                file.tip,
                self.folder.join("draft").display()
            )));
        }
        file.open.iter().for_each(|open| draft.start_open(open));
        let mut changes = Vec::new();
        for change in file.changes {
            let damaged =
                || SessionError::Refused(format!("{} can't be read", self.folder.join("draft/list").display()));
            let path = bytes_of_hex(&change.path).ok_or_else(damaged)?;
            let path = PathBuf::from(std::ffi::OsString::from_vec(path));
            let now = match (change.mode.as_deref().and_then(mode_of), change.id.as_deref().and_then(oid_of)) {
                (Some(mode), Some(_)) if change.is_new => {
                    let name = format!("draft/blobs/{}", change.id.unwrap_or_default());
                    let bytes = std::fs::read(self.folder.join(name)).map_err(|error| self.failed(error))?;
                    Some((mode, draft.content(&bytes).ok_or_else(damaged)?))
                }
                (Some(mode), Some(id)) => Some((mode, Content::Object(id))),
                _ => None,
            };
            changes.push(Changed { path, now });
        }
        Ok(draft.apply(&changes)?)
    }

    /// Returns the remains of an interrupted turn.
    pub(super) fn left(&self, files: usize) -> Option<Left> {
        Some(Left { question: self.text("draft/question")?, files })
    }

    /// Forgets the draft: its turn is committed, or dropped.
    pub(super) fn clear_draft(&self) {
        // The list goes first: blobs without it mean nothing.
        let _ = std::fs::remove_file(self.folder.join("draft/list"));
        fault::point();
        let _ = std::fs::remove_dir_all(self.folder.join("draft"));
    }

    /// Writes down that the reference is about to move.
    pub(super) fn write_journal(&self, old: Oid, new: Oid) -> Result<(), SessionError> {
        let text = format!("{}\n{old}\n{new}\n{}\n", JOURNAL.0, JOURNAL.1);
        self.put("journal", text.as_bytes(), true).map_err(|error| self.failed(error))
    }

    pub(super) fn clear_journal(&self) {
        fault::point();
        let _ = std::fs::remove_file(self.folder.join("journal"));
    }

    /// Finishes what a crash cut off between the journal and its end: the reference is at the new commit then, or the
    /// draft is found again.
    pub(super) fn recover(&self, repo: &Repo, name: &str, who: &Identity) -> Result<(), SessionError> {
        let Some(text) = self.text("journal") else { return Ok(()) };
        let lines: Vec<&str> = text.lines().collect();
        if let [head, old, new, end] = lines[..]
            && (head, end) == JOURNAL
            && let (Some(old), Some(new)) = (oid_of(old), oid_of(new))
        {
            // A power cut can leave an empty file where the reference was.
            let path = repo.common_dir().join(name);
            let is_torn = std::fs::read_to_string(&path).is_ok_and(|text| oid_of(&text).is_none());
            if is_torn {
                std::fs::remove_file(&path).map_err(|error| self.failed(error))?;
            }
            let at = repo.tip(name)?;
            let is_there = repo.has(new);
            if is_torn && at.is_none() {
                repo.swap(name, None, Some(if is_there { new } else { old }), who)?;
            } else if at == Some(old) && is_there {
                repo.swap(name, Some(old), Some(new), who)?;
            }
            if repo.tip(name)? == Some(new) {
                self.clear_draft();
            }
        }
        self.clear_journal();
        Ok(())
    }

    /// The operations of a list, the oldest first.
    pub(super) fn operations(&self, list: &str) -> Vec<Operation> {
        let text = self.text(list).unwrap_or_default();
        text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
    }

    pub(super) fn put_operations(&self, list: &str, all: &[Operation]) -> Result<(), SessionError> {
        let newest = &all[all.len().saturating_sub(OPERATIONS_MAX)..];
        let lines = newest.iter().map(|it| serde_json::to_string(it).unwrap_or_default() + "\n");
        self.put(list, lines.collect::<String>().as_bytes(), true).map_err(|error| self.failed(error))
    }
}

fn mode_of(octal: &str) -> Option<Mode> {
    [Mode::File, Mode::Executable, Mode::Link, Mode::Submodule].into_iter().find(|mode| mode.octal() == octal)
}

fn bytes_of_hex(text: &str) -> Option<Vec<u8>> {
    let pair = |pair: &[u8]| hex::decode::<1>(std::str::from_utf8(pair).ok()?).map(|[byte]| byte);
    text.as_bytes().chunks(2).map(pair).collect()
}
