//! Changes in directories, reported by the kernel: a wait that ends when an entry was made, moved in, or completely written. It
//! must not know what is looked for; a reader checks the directories itself, and occasionally without a change, since the
//! kernel's queue may overflow and its watches may run out.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{self, Read};
use std::path::PathBuf;

use rustix::fs::inotify::{self, CreateFlags, WatchFlags};

/// Bytes of reports that are read at once; their content doesn't matter.
const BUFFER_BYTES: usize = 64 * 1024;

/// Directories that are watched.
#[derive(Debug)]
pub struct Watch {
    queue: File,
    watched: BTreeMap<PathBuf, i32>,
}

/// The reports of a [`Watch`], for a thread of their own.
#[derive(Debug)]
pub struct Reports(File);

impl Watch {
    /// Begins with no directory.
    ///
    /// # Errors
    /// The system has no room for another queue.
    pub fn new() -> io::Result<Self> {
        let queue = inotify::init(CreateFlags::CLOEXEC)?;
        Ok(Self { queue: File::from(queue), watched: BTreeMap::new() })
    }

    /// The reports about these directories.
    ///
    /// # Errors
    /// The system has no room for another handle.
    pub fn reports(&self) -> io::Result<Reports> {
        self.queue.try_clone().map(Reports)
    }

    /// Watches these directories and no others. Returns whether one of them wasn't watched before, so that a look at it may have
    /// been too early; a directory that was replaced by another of its name counts as such. One that can't be watched is left
    /// out.
    pub fn set(&mut self, directories: &BTreeSet<PathBuf>) -> bool {
        let wanted = WatchFlags::CREATE | WatchFlags::MOVED_TO | WatchFlags::CLOSE_WRITE | WatchFlags::ONLYDIR;
        let mut is_new = false;
        for directory in directories {
            if let Ok(number) = inotify::add_watch(&self.queue, directory, wanted) {
                is_new |= self.watched.insert(directory.clone(), number) != Some(number);
            }
        }
        let gone: Vec<PathBuf> = self.watched.keys().filter(|it| !directories.contains(*it)).cloned().collect();
        for directory in gone {
            let number = self.watched.remove(&directory);
            // Two names of one directory have one watch.
            if let Some(number) = number.filter(|number| self.watched.values().all(|other| other != number)) {
                // It has none any more if the directory was removed.
                let _ = inotify::remove_watch(&self.queue, number);
            }
        }
        is_new
    }
}

impl Reports {
    /// Waits for a change, and drops the reports about it.
    ///
    /// # Errors
    /// The queue can't be read.
    pub fn wait(&mut self) -> io::Result<()> {
        let mut buffer = vec![0; BUFFER_BYTES];
        loop {
            match self.0.read(&mut buffer) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                read => return read.map(drop),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_ends_at_a_change_of_a_watched_directory_alone() {
        let top = tempfile::tempdir().expect("a directory");
        let place = |name: &str| top.path().join(name);
        std::fs::create_dir(place("seen")).expect("a directory");
        std::fs::create_dir(place("left")).expect("a directory");
        let mut watch = Watch::new().expect("a queue");
        let mut reports = watch.reports().expect("reports");
        assert!(watch.set(&[place("seen"), place("left"), place("none")].into()));
        assert!(!watch.set(&[place("seen")].into()));
        let (sender, receiver) = std::sync::mpsc::channel();
        std::thread::spawn(move || while reports.wait().is_ok() && sender.send(()).is_ok() {});
        // The end of a watch is a report too.
        receiver.recv().expect("a report");
        std::fs::write(place("left/a"), "x").expect("a file");
        assert!(receiver.recv_timeout(std::time::Duration::from_millis(100)).is_err());
        std::fs::write(place("seen/a"), "x").expect("a file");
        receiver.recv().expect("a report");
        std::fs::write(place("b"), "x").expect("a file");
        std::fs::rename(place("b"), place("seen/b")).expect("it is moved");
        receiver.recv().expect("a report");
    }
}
