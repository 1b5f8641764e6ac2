//! A disk that loses unsynced writes in a power failure. A process of a test records in a folder what it has synced; the test
//! then reduces the files to what the disk would have.

use parking_lot::Mutex;
use std::collections::HashMap;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use serde_json::{Value, json};

/// The variable that names the folder of the notes.
pub const NOTES: &str = "REEDCLAW_TEST_SYNCED";

/// The unsynced data that survives a power failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cut {
    /// Nothing: neither names nor contents.
    Nothing,
    /// The names of files, which are empty.
    Empty,
    /// The names and lengths; the contents are zeros.
    Zeros,
    /// The names, and the first half of each content.
    Half,
}

/// Time for which the machine is off.
const OFF: Duration = Duration::from_secs(120);
/// Begins the inode of a folder.
const FOLDER: &str = "folder ";

/// A file or folder by its number and the time at which it was made: the system uses numbers again.
fn inode(path: &Path) -> String {
    let about = std::fs::symlink_metadata(path);
    let kind = if path.is_dir() { FOLDER } else { "" };
    about.map_or_else(|_| String::new(), |it| format!("{kind}{} {:?}", it.ino(), it.created().ok()))
}

fn entries(folder: &Path) -> Vec<PathBuf> {
    std::fs::read_dir(folder).into_iter().flatten().flatten().map(|it| it.path()).collect()
}

fn name(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

/// Returns the content at a path: the names of a folder, or the bytes of a file.
fn content(path: &Path) -> Value {
    if path.is_dir() {
        entries(path).iter().map(|it| (name(it), Value::from(inode(it)))).collect::<serde_json::Map<_, _>>().into()
    } else {
        std::fs::read(path).unwrap_or_default().into()
    }
}

/// Records that the current state of `path` is on the disk.
pub fn note(path: &Path) {
    static NEXT: Mutex<u64> = Mutex::new(0);
    let Some(notes) = std::env::var_os(NOTES) else { return };
    // A later note must not contain less than an earlier one of another thread.
    let mut next = NEXT.lock();
    let note = json!([inode(path), content(path)]).to_string();
    let place = Path::new(&notes).join(format!("{next:06}"));
    *next += 1;
    let _ = std::fs::write(place.with_extension("new"), note);
    // A process that is killed just now leaves no half of a note.
    let _ = std::fs::rename(place.with_extension("new"), place);
}

/// The content of a disk at a place, by inode.
pub struct Disk {
    at: PathBuf,
    known: HashMap<String, Value>,
}

impl Disk {
    /// The disk of a place on which all files are as they are now.
    #[must_use]
    pub fn of(at: &Path) -> Self {
        let (mut known, mut waiting) = (HashMap::new(), vec![at.to_owned()]);
        while let Some(path) = waiting.pop() {
            known.insert(inode(&path), content(&path));
            waiting.extend(entries(&path));
        }
        Self { at: at.to_owned(), known }
    }

    /// Changes the files to the state that a power failure leaves after the syncs in the notes.
    pub fn cut(mut self, notes: &Path, cut: Cut) {
        let mut all = entries(notes);
        all.retain(|it| it.extension().is_none());
        all.sort();
        for note in all {
            let text = std::fs::read_to_string(note).expect("a note");
            let (inode, content): (String, Value) = serde_json::from_str(&text).expect("a note");
            self.known.insert(inode, content);
        }
        let mut left = Vec::new();
        match cut {
            Cut::Nothing => self.known_below(&inode(&self.at), &self.at, &mut left),
            cut => self.named_below(&self.at, cut, &mut left),
        }
        for path in entries(&self.at) {
            let _ = if path.is_dir() { std::fs::remove_dir_all(path) } else { std::fs::remove_file(path) };
        }
        for (path, bytes) in left {
            match bytes {
                Some(bytes) => {
                    std::fs::write(&path, bytes).expect("written");
                    let file = std::fs::File::options().write(true).open(&path).expect("opened");
                    file.set_modified(SystemTime::now() - OFF).expect("a time");
                }
                None => std::fs::create_dir_all(path).expect("a folder"),
            }
        }
    }

    /// The files below a folder as the disk knows them.
    fn known_below(&self, folder: &str, at: &Path, left: &mut Vec<(PathBuf, Option<Vec<u8>>)>) {
        left.push((at.to_owned(), None));
        let Some(Value::Object(names)) = self.known.get(folder) else { return };
        for (name, inode) in names {
            let inode = inode.as_str().unwrap_or_default();
            match self.known.get(inode) {
                _ if inode.starts_with(FOLDER) => self.known_below(inode, &at.join(name), left),
                // The name of an unsynced file may exist.
                known => left.push((at.join(name), Some(known.and_then(|_| self.bytes(inode)).unwrap_or_default()))),
            }
        }
    }

    /// The files below a folder by their names of now.
    fn named_below(&self, at: &Path, cut: Cut, left: &mut Vec<(PathBuf, Option<Vec<u8>>)>) {
        left.push((at.to_owned(), None));
        for path in entries(at) {
            if path.is_dir() {
                self.named_below(&path, cut, left);
                continue;
            }
            let bytes = self.bytes(&inode(&path)).unwrap_or_else(|| {
                let bytes = std::fs::read(&path).unwrap_or_default();
                match cut {
                    Cut::Zeros => vec![0; bytes.len()],
                    Cut::Half => bytes[..bytes.len() / 2].to_vec(),
                    Cut::Nothing | Cut::Empty => Vec::new(),
                }
            });
            left.push((path, Some(bytes)));
        }
    }

    fn bytes(&self, inode: &str) -> Option<Vec<u8>> {
        serde_json::from_value(self.known.get(inode)?.clone()).ok()
    }
}
