//! A parallel walk over the files below a place in the workspace, selected as ripgrep selects them: none that `.gitignore` or
//! `.ignore` names, none that is hidden, no link, nothing on another file system. A place that is requested by name is searched
//! in any case.

use parking_lot::Mutex;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use crate::files::{Tree, Walked};
use crate::tools::Work;

/// Interval at which it is asked whether to stop: less than a person notices.
const TICK: Duration = Duration::from_millis(20);

/// End of a walk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::tools) enum End {
    /// Everything was seen.
    Whole,
    /// A visitor ended it.
    Enough,
    /// Stopped from outside.
    Stopped,
    /// Its time was over.
    Late,
}

/// Range and time of a walk.
pub(in crate::tools) struct Walk<'a> {
    /// The workspace.
    tree: &'a dyn Tree,
    /// Its start, from the workspace: a directory or a file, without links.
    below: PathBuf,
    is_stopped: &'a (dyn Fn() -> bool + Sync),
    time: Duration,
}

impl<'a> Walk<'a> {
    /// A walk of a call.
    pub(in crate::tools) fn new(below: &Path, work: &Work<'a>) -> Self {
        Self { tree: work.place.tree, below: below.to_owned(), is_stopped: work.is_stopped, time: work.limits.tool }
    }

    /// Passes each file to a visitor; each thread has its own. A visitor gets the file, a list for its results, and a flag that
    /// ends the walk when set. Returns the results in no particular order.
    pub(in crate::tools) fn each_file<T, V>(&self, visitor: impl Fn() -> V + Sync) -> (Vec<T>, End)
    where
        T: Send,
        V: FnMut(&Walked<'_>, &mut Vec<T>, &AtomicBool) + Send,
    {
        let found = Mutex::new(Vec::new());
        let halt = AtomicBool::new(false);
        let run = || {
            self.tree.walk(&self.below, &|| {
                let mut visit = visitor();
                let mut own = Batch { items: Vec::new(), all: &found };
                let halt = &halt;
                Box::new(move |file| {
                    if halt.load(Ordering::Relaxed) {
                        return false;
                    }
                    visit(file, &mut own.items, halt);
                    true
                })
            });
        };
        let end = self.watched(run, &halt);
        (found.into_inner(), end)
    }

    /// Runs a walk in a thread, and ends it when that is due.
    fn watched(&self, run: impl FnOnce() + Send, halt: &AtomicBool) -> End {
        let deadline = Instant::now() + self.time;
        let mut end = None;
        std::thread::scope(|scope| {
            let (sender, ended) = channel::<()>();
            scope.spawn(move || {
                run();
                drop(sender);
            });
            while ended.recv_timeout(TICK) == Err(RecvTimeoutError::Timeout) {
                let why = if (self.is_stopped)() {
                    End::Stopped
                } else if Instant::now() > deadline {
                    End::Late
                } else {
                    continue;
                };
                end = end.or(Some(why));
                halt.store(true, Ordering::Relaxed);
            }
        });
        end.unwrap_or(if halt.load(Ordering::Relaxed) { End::Enough } else { End::Whole })
    }
}

/// The results of one thread; they join the rest when the thread ends.
struct Batch<'a, T> {
    items: Vec<T>,
    all: &'a Mutex<Vec<T>>,
}

impl<T> Drop for Batch<'_, T> {
    fn drop(&mut self) {
        self.all.lock().append(&mut self.items);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Walks over two files with a visitor that waits for the signal to end, or ends the walk itself.
    fn end(is_stopped: bool, time: Duration, ends_itself: bool) -> End {
        let dir = tempfile::tempdir().expect("a directory");
        for name in ["a", "b"] {
            std::fs::write(dir.path().join(name), name).expect("a file");
        }
        let root = crate::files::Root::open(dir.path(), None).expect("a root");
        let began = AtomicBool::new(false);
        // The walk isn't stopped, nor out of time, before it has reached a file.
        let is_stopped_then = || {
            while !began.load(Ordering::Relaxed) {
                std::thread::yield_now();
            }
            is_stopped
        };
        let walk = Walk { tree: &root, below: PathBuf::new(), is_stopped: &is_stopped_then, time };
        let (found, end) = walk.each_file(|| {
            let began = &began;
            move |file: &Walked<'_>, found: &mut Vec<PathBuf>, halt: &AtomicBool| {
                began.store(true, Ordering::Relaxed);
                halt.fetch_or(ends_itself, Ordering::Relaxed);
                while (is_stopped || time.is_zero()) && !halt.load(Ordering::Relaxed) {
                    std::thread::yield_now();
                }
                found.push(file.path.to_owned());
            }
        });
        assert!(!found.is_empty(), "what was found by then is given");
        end
    }

    #[test]
    fn a_walk_ends_when_it_is_stopped_or_late_or_has_enough() {
        let minute = Duration::from_secs(60);
        assert_eq!(end(true, minute, false), End::Stopped);
        assert_eq!(end(false, Duration::ZERO, false), End::Late);
        assert_eq!(end(false, minute, true), End::Enough);
        assert_eq!(end(false, minute, false), End::Whole);
    }
}
