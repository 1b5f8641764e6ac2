//! The definitions in a repository's sources, and the importance of each: read with the grammars, stored for the next time,
//! ranked by their users and by the words of a search.
//!
//! Files are chosen as a search tool chooses them: files that are ignored by `.gitignore`, hidden, vendored or generated are left
//! out. A file is read again if its time, size or inode has changed.

mod cache;
mod outlines;
mod rank;

use crate::files::walk;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::fs::{Metadata, OpenOptions};
use std::io::Read;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use ignore::WalkState;

use super::languages::is_foreign;
use crate::syntax::{Definition, Language, outline};

pub use outlines::{Outline, map, of_file};
pub use rank::{Ranked, Sought, ranked};

/// Limit on the files that are read; beyond it, the first by path count.
pub const FILES_MAX: usize = 20_000;
/// Limit on the bytes of a file; a longer one was hardly written by hand.
pub const FILE_BYTES_MAX: u64 = 512 * 1024;
/// Limit on the names that complete the typed text.
const NAMES_MAX: usize = 30;
/// Limit on the threads.
const THREADS_MAX: usize = 8;

/// The time limit for reading, and the place of the stored results.
pub struct Options<'a> {
    /// The file with the stored results; `None` stores nothing.
    pub kept_in: Option<PathBuf>,
    /// Time limit.
    pub time: Duration,
    /// Returns `true` if the reading should stop.
    pub is_stopped: &'a (dyn Fn() -> bool + Sync),
    /// Opens a file by its path from the root; a path that leads elsewhere isn't opened.
    pub open: &'a (dyn Fn(&Path) -> Option<Box<dyn Read + Send>> + Sync),
    /// Lists the sources if they don't lie in a real directory: those that [`is_source`] accepts, at most [`FILE_BYTES_MAX`]
    /// long.
    pub files: Option<&'a (dyn Fn() -> Vec<(PathBuf, Stamp)> + Sync)>,
}

/// Opens a file directly in a directory, not through a link.
pub fn open_plainly(root: &Path, path: &Path) -> Option<Box<dyn Read + Send>> {
    let flags = nix::libc::O_NOFOLLOW | nix::libc::O_NONBLOCK | nix::libc::O_CLOEXEC;
    let file = OpenOptions::new().read(true).custom_flags(flags).open(root.join(path)).ok()?;
    file.metadata().ok()?.is_file().then(|| Box::new(file) as Box<dyn Read + Send>)
}

/// Returns the file for the results about a root, below a directory for all of them.
#[must_use]
pub fn index_file(directory: &Path, root: &Path) -> PathBuf {
    let (high, low) =
        root.as_os_str().as_encoded_bytes().iter().fold((number("a"), number("b")), |(high, low), byte| {
            ((high ^ u32::from(*byte)).wrapping_mul(0x0100_0193), (low ^ u32::from(*byte)).wrapping_mul(0x0100_0193))
        });
    directory.join(format!("{high:08x}{low:08x}"))
}

/// Names that begin with the typed text, each with its place, from the stored results for a root: no source is read.
#[must_use]
pub fn names_like(index: &Path, root: &Path, typed: &str) -> Vec<(String, String)> {
    let typed = typed.to_lowercase();
    let mut found: Vec<(String, String)> = Vec::new();
    for source in cache::read(index, root).unwrap_or_default() {
        for it in source.definitions.iter().filter(|it| it.name.to_lowercase().starts_with(&typed)) {
            found.push((it.name.clone(), format!("{}:{}", source.path.display(), it.lines.0)));
        }
    }
    found.sort_by(|left, right| (left.0.len(), left).cmp(&(right.0.len(), right)));
    found.dedup_by(|left, right| left.0 == right.0);
    found.truncate(NAMES_MAX);
    found
}

/// A source with its definitions and uses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Source {
    /// Its path from the root.
    pub path: PathBuf,
    /// The file's identity when it was read.
    stamp: Stamp,
    /// Its definitions, in order.
    pub definitions: Vec<Definition>,
    /// Names that it uses, as numbers, each with the number of uses.
    references: Vec<(u32, u16)>,
}

/// The identity of a file: time in nanoseconds, size, inode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stamp {
    /// Time of the last change in nanoseconds.
    pub time_ns: i128,
    /// Bytes.
    pub bytes: u64,
    /// The inode, or the beginning of the content's hash.
    pub inode: u64,
}

impl Stamp {
    fn of(data: &Metadata) -> Self {
        let time_ns = i128::from(data.mtime()) * 1_000_000_000 + i128::from(data.mtime_nsec());
        Self { time_ns, bytes: data.len(), inode: data.ino() }
    }
}

/// The definitions and uses in a repository's sources.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Symbols {
    /// The sources, by path.
    pub sources: Vec<Source>,
    /// Number of files that weren't read: too many, or no time.
    pub left_out: usize,
    /// `true` if it was stopped by the caller.
    pub is_stopped: bool,
}

/// Reads the definitions of the sources below a root.
pub fn symbols(root: &Path, options: &Options<'_>) -> Symbols {
    let deadline = Instant::now() + options.time;
    let is_over = || (options.is_stopped)() || Instant::now() >= deadline;
    let mut files = options.files.map_or_else(|| files(root, &is_over), |files| files());
    files.sort_unstable_by(|left, right| left.0.cmp(&right.0));
    let mut left_out = files.len().saturating_sub(FILES_MAX);
    files.truncate(FILES_MAX);
    let known = options.kept_in.as_deref().and_then(|path| cache::read(path, root)).unwrap_or_default();
    let count_before = known.len();
    let mut known: HashMap<PathBuf, Source> = known.into_iter().map(|it| (it.path.clone(), it)).collect();
    let (mut sources, mut wanted) = (Vec::new(), Vec::new());
    for (path, stamp) in files {
        match known.remove(&path).filter(|source| source.stamp == stamp) {
            Some(source) => sources.push(source),
            None => wanted.push((path, stamp)),
        }
    }
    let (read, not_read) = read_all(&wanted, options, &is_over);
    left_out += not_read;
    let has_changed = !read.is_empty() || sources.len() != count_before;
    sources.extend(read);
    sources.sort_unstable_by(|left, right| left.path.cmp(&right.path));
    if let Some(path) = options.kept_in.as_deref().filter(|_| has_changed) {
        // If they can't be stored, the sources are read again the next time.
        let _ = cache::write(path, root, &sources);
    }
    Symbols { sources, left_out, is_stopped: (options.is_stopped)() }
}

/// Returns whether a file is a hand-written source in a known language.
#[must_use]
pub fn is_source(path: &Path) -> bool {
    Language::of_path(path).is_some() && !is_foreign(path)
}

/// Returns the sources below a root, in no particular order.
fn files(root: &Path, is_over: &(dyn Fn() -> bool + Sync)) -> Vec<(PathBuf, Stamp)> {
    let found = Mutex::new(Vec::new());
    let halt = AtomicBool::new(false);
    walk(root).same_file_system(true).build_parallel().run(|| {
        let mut seen = 0_usize;
        let (found, halt) = (&found, &halt);
        Box::new(move |entry| {
            seen += 1;
            if halt.load(Ordering::Relaxed) || (seen.is_multiple_of(256) && is_over()) {
                halt.store(true, Ordering::Relaxed);
                return WalkState::Quit;
            }
            let Ok(entry) = entry else { return WalkState::Continue };
            if !entry.file_type().is_some_and(|kind| kind.is_file()) {
                return WalkState::Continue;
            }
            let path = entry.path().strip_prefix(root).ok().filter(|path| is_source(path));
            let (Some(path), Ok(data)) = (path, entry.metadata()) else { return WalkState::Continue };
            if data.len() <= FILE_BYTES_MAX {
                let file = (path.to_owned(), Stamp::of(&data));
                found.lock().push(file);
            }
            WalkState::Continue
        })
    });
    found.into_inner()
}

/// Reads sources in parallel; returns them, and the number of files that were left out because the time was over.
fn read_all(
    wanted: &[(PathBuf, Stamp)],
    options: &Options<'_>,
    is_over: &(dyn Fn() -> bool + Sync),
) -> (Vec<Source>, usize) {
    let next = AtomicUsize::new(0);
    let not_read = AtomicUsize::new(0);
    let threads = std::thread::available_parallelism().map_or(1, usize::from).min(THREADS_MAX).min(wanted.len());
    let work = || {
        let mut own = Vec::new();
        while let Some((path, stamp)) = wanted.get(next.fetch_add(1, Ordering::Relaxed)) {
            if is_over() {
                not_read.fetch_add(1, Ordering::Relaxed);
            } else {
                own.push(read(path, *stamp, options));
            }
        }
        own
    };
    let read = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        workers.into_iter().flat_map(|worker| worker.join().unwrap_or_default()).collect()
    });
    (read, not_read.into_inner())
}

/// Reads one source; one that can't be read, isn't text or takes too long has no definitions.
fn read(path: &Path, stamp: Stamp, options: &Options<'_>) -> Source {
    let text = || {
        let file = (options.open)(path)?;
        let mut text = String::new();
        file.take(FILE_BYTES_MAX).read_to_string(&mut text).ok()?;
        Some(text)
    };
    let outline = Language::of_path(path).and_then(|language| outline(language, &text()?)).unwrap_or_default();
    let count = |count: u32| u16::try_from(count).unwrap_or(u16::MAX);
    let references = outline.references.iter().map(|(name, times)| (number(name), count(*times))).collect();
    Source { path: path.to_owned(), stamp, definitions: outline.definitions, references }
}

/// The number of a name among references: FNV-1a. A collision makes a rank slightly wrong.
fn number(name: &str) -> u32 {
    name.bytes().fold(0x811c_9dc5, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn look(root: &Path, kept_in: &Path) -> Symbols {
        let opened = AtomicUsize::new(0);
        let open = |path: &Path| {
            opened.fetch_add(1, Ordering::Relaxed);
            open_plainly(root, path)
        };
        let options = Options {
            kept_in: Some(kept_in.to_owned()),
            time: Duration::from_secs(60),
            is_stopped: &|| false,
            open: &open,
            files: None,
        };
        let found = symbols(root, &options);
        fs::write(root.join("opened"), opened.load(Ordering::Relaxed).to_string()).expect("a file");
        found
    }

    fn opened(root: &Path) -> String {
        fs::read_to_string(root.join("opened")).expect("a count")
    }

    fn names(symbols: &Symbols) -> Vec<String> {
        let of = |source: &Source| {
            let path = source.path.display().to_string();
            source.definitions.iter().map(move |it| format!("{path}:{}", it.name)).collect::<Vec<_>>()
        };
        symbols.sources.iter().flat_map(of).collect()
    }

    #[test]
    fn sources_are_read_once_and_again_after_a_change() {
        let dir = tempfile::tempdir().expect("a directory");
        let root = dir.path().join("repo");
        fs::create_dir_all(root.join(".git")).expect("a directory");
        fs::create_dir_all(root.join("vendor")).expect("a directory");
        for (path, text) in [
            ("a.rs", "fn one() {}"),
            ("b.py", "def two(): pass"),
            ("out.rs", "fn ignored() {}"),
            ("vendor/c.rs", "fn foreign() {}"),
            (".hidden.rs", "fn hidden() {}"),
            ("notes.txt", "fn no() {}"),
            (".gitignore", "out.rs\n"),
        ] {
            fs::write(root.join(path), text).expect("a file");
        }
        std::os::unix::fs::symlink("/etc/hostname", root.join("link.rs")).expect("a link");
        let kept_in = dir.path().join("kept/symbols");
        assert_eq!(names(&look(&root, &kept_in)), ["a.rs:one", "b.py:two"]);
        assert_eq!(opened(&root), "2");
        assert_eq!(names(&look(&root, &kept_in)), ["a.rs:one", "b.py:two"]);
        assert_eq!(opened(&root), "0", "what is kept is used");
        fs::write(root.join("a.rs"), "fn three() {}").expect("a file");
        fs::remove_file(root.join("b.py")).expect("removed");
        assert_eq!(names(&look(&root, &kept_in)), ["a.rs:three"]);
        assert_eq!(opened(&root), "1");
        fs::write(&kept_in, b"nonsense").expect("a file");
        assert_eq!(names(&look(&root, &kept_in)), ["a.rs:three"]);
    }

    #[test]
    fn a_look_ends_in_time_and_counts_the_rest() {
        let dir = tempfile::tempdir().expect("a directory");
        for name in ["a.rs", "b.rs"] {
            fs::write(dir.path().join(name), "fn f() {}").expect("a file");
        }
        let open = |path: &Path| open_plainly(dir.path(), path);
        let options = Options { kept_in: None, time: Duration::ZERO, is_stopped: &|| false, open: &open, files: None };
        let found = symbols(dir.path(), &options);
        assert_eq!((found.sources.len(), found.left_out, found.is_stopped), (0, 2, false));
        assert!(symbols(dir.path(), &Options { is_stopped: &|| true, ..options }).is_stopped);
    }
}
