//! Files beside git for one session, in the state directory: its lock, the journal of a reference that is about to
//! move, the draft of the turn that runs, and the operations that can be undone. All but the operations go with the turn.

use std::collections::{BTreeSet, HashMap};
use std::fs::{DirBuilder, File, TryLockError};
use std::io::{BufWriter, Seek as _, Write};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{DirBuilderExt, FileExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};

use super::error::SessionError;
use super::names::{BRANCHES, HIDDEN, KEPT, ON, short_id};
use crate::base::hash::path_name;
use crate::base::hex;
use crate::files::{Locked, lock_file};
use crate::git::{Commit, Identity, Mode, Objects as _, Oid, Repo, diff, empty_tree, fault, oid_of, short};
use crate::tree::{Changed, Content, Draft, remove_bench};

/// First and last line of a journal that is whole.
const JOURNAL: (&str, &str) = ("reedclaw-session 1", "end");
/// The file that records the commit of the reference, as a journal from this commit to itself or of its last move.
const SETTLED: &str = "settled";
/// The file with the number of the conversation in which the running turn was asked.
const CONVERSATION: &str = "draft/conversation";
/// The file of the draft's lists, each a line; the last one counts.
const LISTS: &str = "draft/list";
/// Size from which on it may be rewritten, in bytes, and the number of lists of the current length that it must have for that.
const LISTS_BYTES_MIN: u64 = 64 * 1024;
const LISTS_MAX: u64 = 16;
/// Bytes of a file of ours that are read.
const BYTES_MAX: u64 = 64 * 1024 * 1024;
/// Time for which locking is tried: a process that only checks the lock holds it briefly.
const LOOKED_AT: Duration = Duration::from_millis(100);
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
    stored: Arc<Mutex<Option<Stored>>>,
}

/// The stored contents of the draft, one after the other in a file of this process: a file for each would be slow if a command
/// changes many.
#[derive(Debug)]
struct Stored {
    file: File,
    number: u32,
    end: u64,
    places: HashMap<Oid, Place>,
}

impl Stored {
    /// Returns whether the file still exists.
    fn is_there(&self) -> bool {
        self.file.metadata().is_ok_and(|data| data.nlink() > 0)
    }

    /// The same file without contents; `None` if it was removed or can't be emptied.
    fn emptied(mut self) -> Option<Self> {
        self.places.clear();
        self.end = 0;
        (self.is_there() && self.file.set_len(0).is_ok() && self.file.rewind().is_ok()).then_some(self)
    }
}

/// The place of a stored content.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
struct Place {
    file: u32,
    from: u64,
    bytes: u64,
}

/// A move of the session's reference.
struct Moved {
    name: String,
    old: Oid,
    new: Oid,
}

/// The remains of an interrupted turn.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Left {
    /// The question.
    pub question: String,
    /// Files that it changed.
    pub files: usize,
}

/// The stored form of the draft.
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
    /// `true` if git doesn't have its content yet.
    is_new: bool,
    /// The place of a new content; an older version had a file for each.
    #[serde(default)]
    place: Option<Place>,
}

/// The list of operations that can be undone.
pub(super) const DONE: &str = "operations";
/// The list of operations that were undone and can be done again.
pub(super) const UNDONE: &str = "undone";

/// An operation that can be undone: the tip moved.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Operation {
    /// Its description.
    pub(super) what: String,
    pub(super) from: String,
    pub(super) to: String,
}

impl Desk {
    pub(super) fn of(folder: &Path, id: &str) -> Self {
        Self { folder: folder.join(id), id: id.to_owned(), stored: Arc::default() }
    }

    pub(super) fn id(&self) -> &str {
        &self.id
    }

    fn failed(&self, error: std::io::Error) -> SessionError {
        SessionError::Disk(self.folder.clone(), error)
    }

    /// Locks the session for writing; the error names the process that holds the lock.
    pub(super) fn lock(&self) -> Result<Locked<File>, SessionError> {
        self.make_folder().map_err(|error| self.failed(error))?;
        let path = self.folder.join("lock");
        let file = lock_file(&path).map_err(|error| self.failed(error))?;
        let lock = Locked::take(file, false, LOOKED_AT).map_err(|error| match error {
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

    /// Makes the folder, and waits until its name is on the disk: a journal in it must survive a power cut.
    fn make_folder(&self) -> std::io::Result<()> {
        let missing: Vec<&Path> = self.folder.ancestors().take_while(|it| !it.exists()).collect();
        DirBuilder::new().recursive(true).mode(0o700).create(&self.folder)?;
        for above in missing.iter().filter_map(|it| it.parent()) {
            fault::sync(&File::open(above)?, above)?;
        }
        Ok(())
    }

    /// Locks the session if its folder exists and no process holds the lock.
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

    /// Returns whether there are changes that are in no commit: a turn's draft, or changes between turns.
    pub(super) fn holds_changes(&self) -> bool {
        // A list that can't be read may have contained changes.
        self.has_draft() || self.list().is_some_and(|file| file.map_or(true, |file| !file.changes.is_empty()))
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
        // A command may have left unreadable directories there.
        let _ = remove_bench(&self.bench());
        match std::fs::remove_dir_all(&self.folder) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(self.failed(error)),
            _ => Ok(()),
        }
    }

    fn put(&self, name: &str, bytes: &[u8], is_durable: bool) -> std::io::Result<()> {
        self.put_all(&[(name, bytes)], is_durable)
    }

    /// Replaces files, one after the other; the waits for the disk are shared.
    fn put_all(&self, files: &[(&str, &[u8])], is_durable: bool) -> std::io::Result<()> {
        let temporary = |name: &str| self.folder.join(format!("{name}.new"));
        for (name, bytes) in files {
            // An existing file is overwritten: it may be the file of an older note.
            let mut file =
                File::options().write(true).create(true).truncate(false).mode(0o600).open(temporary(name))?;
            fault::point();
            fault::write()?;
            file.write_all(bytes)?;
            file.set_len(bytes.len() as u64)?;
            if is_durable {
                fault::sync(&file, &temporary(name))?;
            }
        }
        let mut folders = BTreeSet::new();
        for (name, _) in files {
            let path = self.folder.join(name);
            fault::point();
            std::fs::rename(temporary(name), &path)?;
            folders.extend(path.parent().filter(|_| is_durable).map(Path::to_owned));
        }
        fault::point();
        folders.iter().try_for_each(|folder| fault::sync(&File::open(folder)?, folder))
    }

    fn text(&self, name: &str) -> Option<String> {
        let path = self.folder.join(name);
        (std::fs::metadata(&path).ok()?.len() <= BYTES_MAX).then(|| std::fs::read_to_string(path).ok())?
    }

    /// Records that the person of the running turn is being asked; `None` ends this.
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

    /// Notes the number of the conversation in which the running turn was asked.
    pub(super) fn note_conversation(&self, number: i64) {
        // This only helps the commit of an interrupted turn.
        let _ = self.put(CONVERSATION, number.to_string().as_bytes(), false);
    }

    /// The recorded number.
    pub(super) fn conversation(&self) -> Option<i64> {
        self.text(CONVERSATION)?.trim().parse().ok()
    }

    /// Stores the current draft, so that it survives a crash of this process.
    pub(super) fn keep_draft(&self, draft: &Draft, tip: Oid) -> Result<(), SessionError> {
        let all = draft.changes()?;
        let places = self.store(&all).map_err(|error| self.failed(error))?;
        let stored = |Changed { path, now }: &Changed| KeptChange {
            path: hex::encode(path.as_os_str().as_bytes()),
            mode: now.as_ref().map(|(mode, _)| mode.octal().to_owned()),
            id: now.as_ref().map(|(_, content)| content.id().to_string()),
            is_new: matches!(now, Some((_, Content::New(..)))),
            place: now.as_ref().and_then(|(_, content)| places.get(&content.id()).copied()),
        };
        let changes = all.iter().map(stored).collect();
        let file = DraftFile { v: 1, tip: tip.to_string(), changes, open: Some(draft.open_names()) };
        // An earlier interrupted write may have left a part of a line.
        let line = format!("\n{}\n", serde_json::to_string(&file).unwrap_or_default());
        self.add_list(&line).map_err(|error| self.failed(error))
    }

    /// Appends a list of the draft, which is faster than replacing the file. A file that has become long is rewritten.
    fn add_list(&self, line: &str) -> std::io::Result<()> {
        let path = self.folder.join(LISTS);
        let length = std::fs::metadata(&path).map_or(0, |data| data.len());
        if length > LISTS_BYTES_MIN && length > LISTS_MAX * line.len() as u64 {
            return self.put(LISTS, line.as_bytes(), false);
        }
        let mut lists = File::options().append(true).create(true).mode(0o600).open(&path)?;
        fault::point();
        fault::write()?;
        lists.write_all(line.as_bytes())?;
        fault::point();
        Ok(())
    }

    /// The newest list of the draft; `None` if there is none, and an error if none can be read.
    fn list(&self) -> Option<Result<DraftFile, ()>> {
        let text = self.text(LISTS)?;
        let found = text.lines().rev().find_map(|line| serde_json::from_str(line).ok());
        Some(found.ok_or(()))
    }

    /// Writes new contents of a draft that aren't stored yet. Returns the places of those that the changes name.
    fn store(&self, changes: &[Changed]) -> std::io::Result<HashMap<Oid, Place>> {
        let mut stored = self.stored.lock();
        let mut current = match stored.take().filter(Stored::is_there) {
            Some(current) => current,
            None => self.new_stored()?,
        };
        let contents = || changes.iter().filter_map(|it| it.now.as_ref()).map(|(_, content)| content);
        let mut out = BufWriter::new(&current.file);
        for content in contents() {
            let Content::New(bytes, id) = content else { continue };
            if current.places.contains_key(id) {
                continue;
            }
            let place = Place { file: current.number, from: current.end, bytes: bytes.len() as u64 };
            fault::point();
            fault::write()?;
            out.write_all(bytes)?;
            current.end += place.bytes;
            current.places.insert(*id, place);
        }
        out.flush()?;
        drop(out);
        fault::point();
        let places = contents().filter_map(|it| Some((it.id(), *current.places.get(&it.id())?))).collect();
        *stored = Some(current);
        Ok(places)
    }

    /// Begins a file for contents beside those of processes that have ended.
    fn new_stored(&self) -> std::io::Result<Stored> {
        DirBuilder::new().recursive(true).mode(0o700).create(self.folder.join("draft/blobs"))?;
        let mut number = 0;
        loop {
            let path = self.stored_file(number);
            match File::create_new(path) {
                Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => number += 1,
                opened => return Ok(Stored { file: opened?, number, end: 0, places: HashMap::new() }),
            }
        }
    }

    fn stored_file(&self, number: u32) -> PathBuf {
        self.folder.join(format!("draft/blobs/all-{number}"))
    }

    /// Reads a stored content, or the part of it that survived a power failure.
    fn stored_content(&self, id: Oid, place: Option<Place>) -> Vec<u8> {
        let Some(Place { file, from, bytes }) = place else {
            return std::fs::read(self.folder.join(format!("draft/blobs/{id}"))).unwrap_or_default();
        };
        let read = || {
            let mut content = vec![0; usize::try_from(bytes).ok().filter(|_| bytes <= BYTES_MAX)?];
            File::open(self.stored_file(file)).ok()?.read_exact_at(&mut content, from).ok()?;
            Some(content)
        };
        read().unwrap_or_default()
    }

    /// The commit on which a stored draft was based.
    pub(super) fn draft_tip(&self) -> Option<Oid> {
        oid_of(&self.list()?.ok()?.tip)
    }

    /// Loads a stored draft into `draft`, if it was based on this tip. Returns its files whose content is lost.
    pub(super) fn load_draft(&self, draft: &Draft, tip: Oid) -> Result<Vec<String>, SessionError> {
        let file = match self.list() {
            None => return Ok(Vec::new()),
            Some(Err(())) => return Ok(vec!["the list of its files".to_owned()]),
            Some(Ok(file)) => file,
        };
        if oid_of(&file.tip) != Some(tip) {
            return Err(SessionError::Refused(format!(
                "the draft of an interrupted turn belongs to {}, and the session has moved since; it is saved in {}",
                file.tip,
                self.folder.join("draft").display()
            )));
        }
        file.open.iter().for_each(|open| draft.start_open(open));
        let (mut changes, mut lost) = (Vec::new(), Vec::new());
        for change in file.changes {
            let Some(path) = bytes_of_hex(&change.path) else {
                lost.push("a file whose name can't be read".to_owned());
                continue;
            };
            let path = PathBuf::from(std::ffi::OsString::from_vec(path));
            let now = match (change.mode.as_deref().and_then(mode_of), change.id.as_deref().and_then(oid_of)) {
                (Some(mode), Some(id)) if change.is_new => {
                    let bytes = self.stored_content(id, change.place);
                    // A power cut can leave an empty file, or zeros.
                    let Some(content) = draft.content(&bytes).filter(|it| it.id() == id) else {
                        lost.push(path.display().to_string());
                        continue;
                    };
                    Some((mode, content))
                }
                (Some(mode), Some(id)) => Some((mode, Content::Object(id))),
                _ => None,
            };
            changes.push(Changed { path, now });
        }
        draft.apply(&changes)?;
        Ok(lost)
    }

    /// Returns the remains of an interrupted turn.
    pub(super) fn left(&self, files: usize) -> Option<Left> {
        // A power cut can leave zeros.
        Some(Left { question: self.text("draft/question")?.replace('\0', ""), files })
    }

    /// Forgets the draft: its turn is committed, or dropped.
    pub(super) fn clear_draft(&self) {
        // The list goes first: blobs without it mean nothing.
        let _ = std::fs::remove_file(self.folder.join(LISTS));
        fault::point();
        let _ = std::fs::remove_file(self.folder.join("draft/question"));
        let _ = std::fs::remove_file(self.folder.join(CONVERSATION));
        self.clear_contents();
    }

    /// Removes the changes of the draft, which are committed, while its turn continues.
    pub(super) fn clear_changes(&self) {
        let _ = std::fs::remove_file(self.folder.join(LISTS));
        fault::point();
        self.clear_contents();
    }

    /// Removes the stored contents. The file of this process remains, empty: removing it and making another one would be slower.
    fn clear_contents(&self) {
        let mut stored = self.stored.lock();
        *stored = stored.take().and_then(Stored::emptied);
        let own = stored.as_ref().map(|it| self.stored_file(it.number));
        let entries = std::fs::read_dir(self.folder.join("draft/blobs")).into_iter().flatten().flatten();
        for path in entries.map(|it| it.path()).filter(|path| Some(path) != own.as_ref()) {
            let _ = std::fs::remove_file(path);
        }
    }

    /// Writes down that the reference is about to move.
    pub(super) fn write_journal(&self, name: &str, old: Oid, new: Oid) -> Result<(), SessionError> {
        self.put_move("journal", name, old, new)
    }

    /// Returns whether there is a record of an unfinished move of the reference.
    pub(super) fn has_journal(&self) -> bool {
        self.noted("journal").is_some()
    }

    /// Records the commit of the reference, so that it can be found if the reference is damaged later.
    pub(super) fn note_tip(&self, name: &str, tip: Oid) -> Result<(), SessionError> {
        match self.noted(SETTLED) {
            Some(it) if it.name == name && it.new == tip => Ok(()),
            _ => self.put_move(SETTLED, name, tip, tip),
        }
    }

    fn put_move(&self, file: &str, name: &str, old: Oid, new: Oid) -> Result<(), SessionError> {
        let text = format!("{}\n{name}\n{old}\n{new}\n{}\n", JOURNAL.0, JOURNAL.1);
        self.put(file, text.as_bytes(), true).map_err(|error| self.failed(error))
    }

    /// The move of the reference that a file notes; `None` if there is no such file, or it isn't whole.
    fn noted(&self, file: &str) -> Option<Moved> {
        let text = self.text(file)?;
        let lines: Vec<&str> = text.lines().collect();
        let [head, name, old, new, end] = lines[..] else { return None };
        let is_whole = (head, end) == JOURNAL && text.ends_with('\n');
        is_whole.then(|| Some(Moved { name: name.to_owned(), old: oid_of(old)?, new: oid_of(new)? }))?
    }

    /// Ends a journal after its move was made: it becomes the record of the reference's commit.
    pub(super) fn settle_journal(&self) {
        let [journal, next, settled] = ["journal", "journal.new", SETTLED].map(|name| self.folder.join(name));
        if !journal.exists() {
            return;
        }
        fault::point();
        // The file of the previous record is reused for the next journal: removing it and making another one would be slower.
        let _ = std::fs::rename(&settled, next);
        fault::point();
        let _ = std::fs::rename(journal, settled);
    }

    /// Forgets a move that wasn't made.
    pub(super) fn clear_journal(&self) {
        fault::point();
        let _ = std::fs::remove_file(self.folder.join("journal"));
    }

    /// Removes the record of the reference's commit, so that nothing restores the reference.
    pub(super) fn forget_tip(&self) {
        self.clear_journal();
        let _ = std::fs::remove_file(self.folder.join(SETTLED));
    }

    /// The last recorded commit of a reference.
    pub(super) fn noted_tip(&self, name: &str) -> Option<Oid> {
        self.noted(SETTLED).filter(|it| it.name == name).map(|it| it.new)
    }

    /// The last recorded name of the reference.
    pub(super) fn noted_name(&self) -> Option<String> {
        Some(self.noted("journal").or_else(|| self.noted(SETTLED))?.name)
    }

    /// Completes an interrupted move: either the reference is at the new commit, or the draft is found again. A damaged reference
    /// is set to the newest recorded commit that is complete; returns a message about that.
    pub(super) fn recover(&self, repo: &Repo, name: &str, who: &Identity) -> Result<Option<String>, SessionError> {
        let of_name = |it: &Moved| it.name == name;
        let (begun, settled) = (self.noted("journal").filter(of_name), self.noted(SETTLED).filter(of_name));
        repo.clear_lock(name, begun.as_ref().map(|it| it.new));
        let mut notice = None;
        if repo.is_torn(name) {
            let noted = begun.iter().chain(&settled).flat_map(|it| [it.new, it.old]);
            let found = noted.into_iter().find(|it| is_whole(repo, *it));
            // A branch of the user's own is never removed.
            if found.is_some() || name.starts_with(BRANCHES) || name.starts_with(HIDDEN) {
                repo.mend(name, found)?;
            }
            let what = match found {
                Some(id) => format!("; it is at {} again, the newest commit that was noted and is whole", short(id)),
                None if repo.is_torn(name) => " and its newest commit can't be read".to_owned(),
                None => " and named no commit, so it was removed".to_owned(),
            };
            notice =
                Some(format!("the reference of session {} was damaged, as by a power cut{what}", short_id(&self.id)));
        }
        if let Some(Moved { old, new, .. }) = begun {
            let at = repo.tip(name)?;
            if at == Some(old) && is_whole(repo, new) {
                repo.swap(name, Some(old), Some(new), who)?;
            }
            if repo.tip(name)? == Some(new) {
                match repo.commit(new).is_ok_and(|commit| is_part(&commit)) {
                    true => self.clear_changes(),
                    false => self.clear_draft(),
                }
                self.settle_journal();
            }
        }
        self.clear_journal();
        Ok(notice)
    }

    /// The operations of a list, the oldest first.
    pub(super) fn operations(&self, list: &str) -> Vec<Operation> {
        let text = self.text(list).unwrap_or_default();
        text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
    }

    /// Writes the operations that can be undone, and those that can be done again.
    pub(super) fn put_operations(&self, done: &[Operation], undone: &[Operation]) -> Result<(), SessionError> {
        let text = |all: &[Operation]| {
            let newest = &all[all.len().saturating_sub(OPERATIONS_MAX)..];
            newest.iter().map(|it| serde_json::to_string(it).unwrap_or_default() + "\n").collect::<String>()
        };
        let (done, undone) = (text(done), text(undone));
        let mut files = vec![(DONE, done.as_bytes())];
        // Mostly nothing was undone before, and nothing is now.
        files.extend((self.text(UNDONE).unwrap_or_default() != undone).then_some((UNDONE, undone.as_bytes())));
        self.put_all(&files, true).map_err(|error| self.failed(error))
    }
}

/// Finds the remains of killed merges, starts and moves of references in a folder: the name of each has the number of a process
/// that has ended.
pub(super) fn left_over(folder: &Path) -> Vec<PathBuf> {
    let number = |name: &str| {
        let number = ["scratch.", "changes-", "packed-refs.rc"].iter().find_map(|it| name.strip_prefix(it))?;
        number.split('-').next()?.parse::<u32>().ok()
    };
    let is_gone = |number: u32| !Path::new("/proc").join(number.to_string()).exists();
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let gone = entries.filter(|it| it.file_name().to_str().and_then(number).is_some_and(is_gone));
    gone.map(|it| it.path()).collect()
}

/// Repairs the references of sessions that a power failure has damaged, and removes those of ours that name nothing, since they
/// stop git's own commands. `folder` is the repository's. Sessions that are open in another shell were repaired there.
pub(super) fn mend(repo: &Repo, folder: &Path, who: &Identity, summaries: &str) -> Vec<String> {
    let mut names = [BRANCHES, HIDDEN].map(|prefix| repo.torn_below(prefix)).concat();
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let ids = entries.filter_map(|it| it.file_name().into_string().ok());
    // A session's branch may be the user's, or be gone with the table of packed references.
    let noted = ids.filter_map(|id| Some((Desk::of(folder, &id).noted_name()?, id)));
    let mut torn: Vec<(String, String)> = noted.filter(|(name, _)| repo.is_torn(name)).collect();
    names.retain(|name| !torn.iter().any(|(other, _)| other == name));
    let id_of = |name: &str| name.rsplit('/').next().unwrap_or_default().to_owned();
    torn.extend(names.into_iter().map(|name| (name.clone(), id_of(&name))));
    let mut notices = Vec::new();
    for (name, id) in torn {
        let desk = Desk::of(folder, &id);
        if !desk.folder.is_dir() {
            notices.extend(remove_torn(repo, &name));
            continue;
        }
        let Ok(_lock) = desk.lock() else { continue };
        match desk.recover(repo, &name, who) {
            Ok(line) => notices.extend(line),
            Err(error) => notices.push(format!("{name} is damaged and can't be mended: {error}")),
        }
    }
    let summaries = Some(summaries.to_owned()).filter(|it| repo.is_torn(it));
    let others = [ON, KEPT].map(|prefix| repo.torn_below(prefix)).concat();
    notices.extend(others.iter().chain(&summaries).filter_map(|name| remove_torn(repo, name)));
    notices
}

/// Removes retained tips of a session that name nothing, and the locks of a crash. The caller holds the session's own lock.
pub(super) fn mend_kept(repo: &Repo, id: &str) -> Vec<String> {
    let prefix = format!("{KEPT}{id}/");
    repo.clear_locks_below(&prefix);
    repo.torn_below(&prefix).iter().filter_map(|name| remove_torn(repo, name)).collect()
}

fn remove_torn(repo: &Repo, name: &str) -> Option<String> {
    let path = repo.common_dir().join(name);
    (path.exists() && repo.mend(name, None).is_ok() && !path.exists())
        .then(|| format!("{name} was damaged, as by a power cut, and named nothing, so it was removed"))
}

/// Returns whether a commit can be read, with all that it has and its first parent hasn't.
pub(super) fn is_whole(repo: &Repo, id: Oid) -> bool {
    let Ok(commit) = repo.commit(id) else { return false };
    let before = commit.parents.first().map_or(Ok(empty_tree()), |parent| repo.commit(*parent).map(|it| it.tree));
    let changes = before.and_then(|before| diff(repo, before, commit.tree));
    let is_there = |(mode, id): (Mode, Oid)| mode == Mode::Submodule || repo.size(id).is_ok();
    changes.is_ok_and(|all| all.into_iter().filter_map(|it| it.new).all(is_there))
}

/// Returns whether a commit was made in the middle of a turn.
pub(super) fn is_part(commit: &Commit) -> bool {
    let mut trailers = commit.message.lines().rev().take_while(|line| !line.is_empty());
    trailers.any(|line| matches!(line.strip_prefix("ReedClaw-Act: "), Some("part" | "approve")))
}

fn mode_of(octal: &str) -> Option<Mode> {
    [Mode::File, Mode::Executable, Mode::Link, Mode::Submodule].into_iter().find(|mode| mode.octal() == octal)
}

fn bytes_of_hex(text: &str) -> Option<Vec<u8>> {
    let pair = |pair: &[u8]| hex::decode::<1>(std::str::from_utf8(pair).ok()?).map(|[byte]| byte);
    text.as_bytes().chunks(2).map(pair).collect()
}
