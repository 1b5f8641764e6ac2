//! Programs in `PATH`, read again only if a directory changed. It must not know its caller, nor any environment: the value of
//! `PATH` is an argument, since it is the live shell's and not this process's.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use crate::base::program::is_executable;
use crate::proto::NameList;

/// Limit on the directories of `PATH` that are read; more is a mistake in a profile.
const DIRECTORIES_MAX: usize = 256;
/// Limit on the programs of one directory. The largest `/usr/bin` of a full distribution has some 5,000.
const PROGRAMS_MAX: usize = 50_000;
/// A directory that changed shortly before it was read may change again within the same tick of its clock.
const SETTLED: Duration = Duration::from_secs(2);

/// The programs on `PATH`, with the data for refreshing them cheaply. `Send`, so that a thread may own it.
#[derive(Debug, Default)]
pub struct Programs {
    directories: HashMap<PathBuf, Listing>,
    order: Vec<PathBuf>,
    all: Arc<NameList>,
}

#[derive(Debug)]
struct Listing {
    /// `None` if it couldn't be read, or is so recent that the next change may not be visible.
    modified: Option<SystemTime>,
    /// The names, separated by `/`, which no file name contains.
    names: String,
}

impl Listing {
    fn names(&self) -> impl Iterator<Item = &str> {
        self.names.split('/').filter(|name| !name.is_empty())
    }
}

impl Programs {
    /// Makes an empty index.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Lists every executable file in the directories of `path_value`, reading only directories that are new or whose
    /// modification time changed. Relative and missing directories are skipped. If nothing changed, it returns the same `Arc`. A
    /// file of which only the mode changed is noticed at the directory's next change.
    pub fn refresh(&mut self, path_value: &OsStr) -> Arc<NameList> {
        // A relative entry means a different place after each `cd`, and running from it is a risk; bash resolves it anyway.
        let order: Vec<PathBuf> =
            std::env::split_paths(path_value).filter(|path| path.is_absolute()).take(DIRECTORIES_MAX).collect();
        let mut changed = order != self.order;
        for directory in &order {
            changed |= self.refresh_directory(directory);
        }
        if changed {
            self.directories.retain(|directory, _| order.contains(directory));
            self.all = Arc::new(self.directories.values().flat_map(Listing::names).collect());
            self.order = order;
        }
        Arc::clone(&self.all)
    }

    fn refresh_directory(&mut self, directory: &Path) -> bool {
        let Some(modified) = std::fs::metadata(directory).and_then(|data| data.modified()).ok() else {
            return self.directories.remove(directory).is_some_and(|listing| !listing.names.is_empty());
        };
        if self.directories.get(directory).is_some_and(|listing| listing.modified == Some(modified)) {
            return false;
        }
        let settled = modified.elapsed().is_ok_and(|age| age >= SETTLED);
        let names = executables(directory);
        let changed = self.directories.get(directory).is_none_or(|listing| listing.names != names);
        self.directories.insert(directory.to_owned(), Listing { modified: settled.then_some(modified), names });
        changed
    }
}

/// The names of the executable files in a directory, in order and separated by `/`.
fn executables(directory: &Path) -> String {
    let Ok(entries) = std::fs::read_dir(directory) else { return String::new() };
    let mut names: Vec<String> = entries
        .flatten()
        .filter(|entry| {
            // Through symbolic links, as a shell looks.
            std::fs::metadata(entry.path()).is_ok_and(|data| is_executable(&data))
        })
        .filter_map(|entry| entry.file_name().into_string().ok())
        .take(PROGRAMS_MAX)
        .collect();
    names.sort_unstable();
    names.join("/")
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn program(directory: &Path, name: &str, mode: u32) {
        let path = directory.join(name);
        fs::write(&path, "").expect("a file in a temporary directory");
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).expect("its mode");
    }

    fn age(directory: &Path, seconds: u64) {
        let past = SystemTime::now() - Duration::from_secs(seconds);
        fs::File::open(directory).and_then(|file| file.set_modified(past)).expect("the directory's time");
    }

    #[test]
    fn only_executable_files_count_and_missing_directories_are_passed_over() {
        let one = tempfile::tempdir().expect("a directory");
        let two = tempfile::tempdir().expect("a directory");
        program(one.path(), "run", 0o755);
        program(one.path(), "data", 0o644);
        program(two.path(), "other", 0o700);
        fs::create_dir(one.path().join("folder")).expect("a directory");
        std::os::unix::fs::symlink(two.path().join("other"), one.path().join("linked")).expect("a link");
        std::os::unix::fs::symlink("/nowhere/at/all", one.path().join("dangling")).expect("a link");
        let path =
            std::env::join_paths([one.path(), Path::new("/nowhere"), two.path(), Path::new("rel")]).expect("a PATH");
        let mut programs = Programs::new();
        let found = programs.refresh(&path);
        assert_eq!(found.iter().collect::<BTreeSet<_>>(), BTreeSet::from(["run", "linked", "other"]));
        assert!(programs.refresh(OsStr::new("")).is_empty());
        assert!(programs.refresh(OsStr::new("::rel:/nowhere")).is_empty());
    }

    #[test]
    fn a_settled_directory_is_not_read_again_and_a_changed_one_is() {
        let directory = tempfile::tempdir().expect("a directory");
        program(directory.path(), "one", 0o755);
        age(directory.path(), 60);
        let mut programs = Programs::new();
        let first = programs.refresh(directory.path().as_os_str());
        assert!(Arc::ptr_eq(&first, &programs.refresh(directory.path().as_os_str())));
        // A change with the old time restored: the result shows that the directory wasn't read.
        program(directory.path(), "two", 0o755);
        let held = fs::metadata(directory.path()).and_then(|data| data.modified()).expect("its time");
        let known = programs.directories[directory.path()].modified.expect("it had settled");
        fs::File::open(directory.path()).and_then(|file| file.set_modified(known)).expect("the directory's time");
        assert!(!programs.refresh(directory.path().as_os_str()).contains("two"));
        fs::File::open(directory.path()).and_then(|file| file.set_modified(held)).expect("the directory's time");
        assert!(programs.refresh(directory.path().as_os_str()).contains("two"));
    }

    #[test]
    fn a_directory_that_changed_just_now_is_read_until_it_settles() {
        let directory = tempfile::tempdir().expect("a directory");
        program(directory.path(), "one", 0o755);
        let mut programs = Programs::new();
        assert_eq!(programs.refresh(directory.path().as_os_str()).len(), 1);
        let now = fs::metadata(directory.path()).and_then(|data| data.modified()).expect("its time");
        program(directory.path(), "two", 0o755);
        fs::File::open(directory.path()).and_then(|file| file.set_modified(now)).expect("the directory's time");
        assert_eq!(programs.refresh(directory.path().as_os_str()).len(), 2);
        fs::remove_file(directory.path().join("one")).expect("removed");
        assert_eq!(programs.refresh(directory.path().as_os_str()).iter().collect::<Vec<_>>(), ["two"]);
        fs::remove_dir_all(directory.path()).expect("removed");
        assert!(programs.refresh(directory.path().as_os_str()).is_empty());
    }

    #[test]
    fn a_search_for_programs_may_live_on_another_thread() {
        fn sendable<T: Send + 'static>(_: &T) {}
        sendable(&Programs::new());
    }
}
