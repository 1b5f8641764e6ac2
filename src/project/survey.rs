//! Facts that require reading every file or the history: languages, and the files that are changed most. A separate thread finds
//! them; a question waits for it only a short time, and the result is stored under its commit.

use crate::files::walk;
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use ignore::WalkState;

use super::clean;
use super::closed::Closed;
use super::languages::{by_name, is_foreign};
use super::repository::heat::{Bounds, heat};
use super::storage::put;
use super::symbols::index_file;
use crate::project::repository::git;

/// Time limit for the whole survey; the results found by then count.
const TIME: Duration = Duration::from_secs(30);
/// Limit for the languages and files in the card.
const LANGUAGES_MAX: usize = 6;
const FILES_MAX: usize = 8;
/// Limit on the newest commits that count: the card is about current work.
const COMMITS_MAX: usize = 1_000;
/// The first line of the stored file; the number grows with each new format.
const MAGIC: &str = "reedcard2";
/// Limit for the stored file.
const KEPT_BYTES_MAX: u64 = 64 * 1024;

/// The findings, one line each; empty if there are none.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Survey {
    pub languages: String,
    pub hot: String,
}

/// A survey in progress.
#[derive(Debug)]
pub(super) struct Pending {
    pub root: PathBuf,
    pub head: String,
    receiver: Receiver<Survey>,
    since: Instant,
}

impl Pending {
    /// Starts a survey.
    pub(super) fn begin(root: &Path, head: &str, closed: &Closed, kept_in: Option<PathBuf>) -> Self {
        let (sender, receiver) = channel();
        let (own_root, own_head, closed) = (root.to_owned(), head.to_owned(), closed.clone());
        std::thread::spawn(move || {
            let survey = make(&own_root, &closed);
            if let Some(directory) = kept_in {
                keep(&directory, &own_root, &own_head, &closed, &survey);
            }
            let _ = sender.send(survey);
        });
        Self { root: root.to_owned(), head: head.to_owned(), receiver, since: Instant::now() }
    }

    /// A survey that never finishes while the returned sender is held.
    #[cfg(test)]
    pub(super) fn endless(root: &Path, head: &str) -> (std::sync::mpsc::Sender<Survey>, Self) {
        let (sender, receiver) = channel();
        (sender, Self { root: root.to_owned(), head: head.to_owned(), receiver, since: Instant::now() })
    }

    /// Waits for the survey, at most until `time` after its start.
    pub(super) fn wait(&self, time: Duration) -> Option<Survey> {
        self.receiver.recv_timeout(time.saturating_sub(self.since.elapsed())).ok()
    }
}

/// Returns the stored survey of a root at a commit, if the same paths were closed.
pub(super) fn stored(directory: &Path, root: &Path, head: &str, closed: &Closed) -> Option<Survey> {
    let text = git::read_bounded(&index_file(directory, root), KEPT_BYTES_MAX)?;
    let mut lines = text.strip_prefix(MAGIC)?.strip_prefix('\n')?.split('\n');
    let is_same = lines.next()? == root.to_str()? && lines.next()? == head && lines.next()? == closed.line();
    let survey = Survey { languages: lines.next()?.to_owned(), hot: lines.next()?.to_owned() };
    (is_same && lines.next() == Some("") && lines.next().is_none()).then_some(survey)
}

/// Stores the survey, if possible; otherwise it is made again.
fn keep(directory: &Path, root: &Path, head: &str, closed: &Closed, survey: &Survey) {
    let Some(place) = root.to_str().filter(|place| !place.contains('\n')) else { return };
    let text = format!("{MAGIC}\n{place}\n{head}\n{}\n{}\n{}\n", closed.line(), survey.languages, survey.hot);
    let _ = put(&index_file(directory, root), text.as_bytes());
}

fn make(root: &Path, closed: &Closed) -> Survey {
    let history = || {
        let bounds = Bounds { commits: COMMITS_MAX, with_lines: 0, time: TIME, is_stopped: &|| false };
        let files = heat(root, bounds).unwrap_or_default();
        let is_told = |path: &Path| path.symlink_metadata().is_ok() && !closed.is_reached_by(path);
        let own = files.iter().filter(|it| !is_foreign(&it.path) && is_told(&root.join(&it.path)));
        own.take(FILES_MAX).map(|it| clean(&it.path.to_string_lossy())).collect::<Vec<_>>().join(" · ")
    };
    std::thread::scope(|scope| {
        let hot = scope.spawn(history);
        Survey { languages: languages(root, closed), hot: hot.join().unwrap_or_default() }
    })
}

/// The languages by their number of bytes, the most frequent first.
fn languages(root: &Path, closed: &Closed) -> String {
    let deadline = Instant::now() + TIME;
    let sums: Mutex<BTreeMap<&'static str, u64>> = Mutex::new(BTreeMap::new());
    let seen = AtomicUsize::new(0);
    walk(root).parents(false).git_global(false).same_file_system(true).build_parallel().run(|| {
        let mut own = Sums { own: BTreeMap::new(), all: &sums };
        let seen = &seen;
        Box::new(move |entry| {
            if seen.fetch_add(1, Ordering::Relaxed).is_multiple_of(1024) && Instant::now() > deadline {
                return WalkState::Quit;
            }
            let Ok(entry) = entry else { return WalkState::Continue };
            if entry.file_type().is_some_and(|kind| kind.is_file())
                && let Some(language) = by_name(entry.path())
                && entry.path().strip_prefix(root).is_ok_and(|path| !is_foreign(path))
                && !closed.holds(entry.path())
            {
                *own.own.entry(language).or_default() += entry.metadata().map_or(0, |data| data.len());
            }
            WalkState::Continue
        })
    });
    let sums = sums.into_inner();
    let all: u64 = sums.values().sum::<u64>().max(1);
    let mut sums: Vec<(&str, u64)> = sums.into_iter().filter(|(_, bytes)| bytes * 100 >= all).collect();
    sums.sort_by_key(|(_, bytes)| std::cmp::Reverse(*bytes));
    let share_text = |(language, bytes): &(&str, u64)| format!("{language} {} %", (bytes * 100 + all / 2) / all);
    sums.iter().take(LANGUAGES_MAX).map(share_text).collect::<Vec<_>>().join(", ")
}

/// The counts of one thread; when the thread ends, they are added to the total.
struct Sums<'a> {
    own: BTreeMap<&'static str, u64>,
    all: &'a Mutex<BTreeMap<&'static str, u64>>,
}

impl Drop for Sums<'_> {
    fn drop(&mut self) {
        let mut all = self.all.lock();
        self.own.iter().for_each(|(language, bytes)| *all.entry(language).or_default() += bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::repository;
    use super::*;

    #[test]
    fn a_survey_is_stored_by_commit() {
        let dir = repository(&[("src/a.rs", "fn main() {}\n"), ("b.py", "x\n"), ("vendor/c.go", &"x".repeat(5000))]);
        let kept_in = tempfile::tempdir().expect("a directory");
        let root = dir.path().canonicalize().expect("a path");
        let repository = git::Repository::find(&root).expect("a repository");
        let head = repository.head_commit().unwrap_or_default();
        assert_eq!(head.len(), 40, "{head}");
        let make = |closed: &Closed| {
            let pending = Pending::begin(&root, &head, closed, Some(kept_in.path().to_owned()));
            pending.wait(Duration::from_secs(60)).expect("a survey")
        };
        let open = Closed::default();
        let survey = make(&open);
        assert_eq!(survey.languages, "Rust 87 %, Python 13 %");
        assert_eq!(survey.hot, "b.py · src/a.rs");
        assert_eq!(stored(kept_in.path(), &root, &head, &open), Some(survey));
        assert_eq!(stored(kept_in.path(), &root, "another", &open), None);
        assert_eq!(stored(kept_in.path(), Path::new("/"), &head, &open), None);
        let closed = Closed::new(&[root.join("src")]);
        assert_eq!(stored(kept_in.path(), &root, &head, &closed), None, "other rules");
        assert_eq!(make(&closed), Survey { languages: "Python 100 %".into(), hot: "b.py".into() });
    }
}
