//! The emergency stop: a file in the state directory. As long as it exists, no tool starts, and running ones are cancelled.
//!
//! It owns that file and the thread that watches for it. It must not know what is cancelled, or why. If in doubt, tools are
//! stopped: for a file that can't be examined, a link, a directory, a state directory of another user.
//!
//! ```
//! # let dir = tempfile::tempdir()?;
//! use reedclaw::estop::Estop;
//! let estop = Estop::new(dir.path().join("reedclaw"));
//! estop.check()?; // before every call
//! let (sender, receiver) = std::sync::mpsc::channel();
//! let watch = estop.watch(move |stopped| drop(sender.send(stopped.clone()))); // while it runs
//! estop.stop()?;
//! assert!(receiver.recv()?.why.contains("emergency stop"));
//! drop(watch);
//! estop.clear()?; // only at a person's request
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use parking_lot::Mutex;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread::JoinHandle;
use std::time::Duration;

use crate::base::time;
use crate::host;
use crate::proto::Failure;

/// The name of the file in the state directory.
pub const FILE_NAME: &str = "ESTOP";
/// Interval of a watcher's checks. A stop must reach running calls within 500 ms; a check costs some microseconds.
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// Limit on the bytes of the file that are read to report the time of the stop.
const NOTE_BYTES_MAX: u64 = 200;
/// Write permission for everyone: with it on the state directory anyone could clear a stop.
const EVERYBODY_WRITES: u32 = 0o002;

/// The emergency stop of a state directory.
#[derive(Clone, Debug)]
pub struct Estop {
    directory: PathBuf,
}

/// The error that tools are stopped.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{why}")]
pub struct Stopped {
    /// The reason, and the file or directory that shows it; one line.
    pub why: String,
}

impl From<Stopped> for Failure {
    fn from(stopped: Stopped) -> Self {
        Self::refused(stopped.why).hint("reedclaw estop --clear, at a terminal, lets tools run again")
    }
}

impl Estop {
    /// Returns the stop of this state directory, which doesn't have to exist.
    #[must_use]
    pub fn new(state: PathBuf) -> Self {
        Self { directory: state }
    }

    /// Returns the path of the file.
    #[must_use]
    pub fn path(&self) -> PathBuf {
        self.directory.join(FILE_NAME)
    }

    /// Checks that tools may run.
    ///
    /// # Errors
    /// They may not; the error has the reason.
    pub fn check(&self) -> Result<(), Stopped> {
        let odd =
            |path: &Path, what: &str| Err(Stopped { why: format!("tools are stopped: {} {what}", path.display()) });
        match self.directory.metadata() {
            Err(problem) if problem.kind() == io::ErrorKind::NotFound => match self.directory.symlink_metadata() {
                // A directory that was never made contains no stop.
                Err(_) => return Ok(()),
                // It has just been made, perhaps by a stop.
                Ok(data) if data.is_dir() => return self.check(),
                Ok(_) => return odd(&self.directory, &format!("can't be looked at: {problem}")),
            },
            Err(problem) => return odd(&self.directory, &format!("can't be looked at: {problem}")),
            Ok(data) if !data.is_dir() => return odd(&self.directory, "is not a directory"),
            Ok(data) if data.uid() != nix::unistd::geteuid().as_raw() => {
                return odd(&self.directory, "belongs to another user");
            }
            Ok(data) if data.mode() & EVERYBODY_WRITES != 0 => {
                return odd(&self.directory, "can be written by everybody (chmod o-w)");
            }
            Ok(_) => {}
        }
        let path = self.path();
        match path.symlink_metadata() {
            Err(problem) if problem.kind() == io::ErrorKind::NotFound => Ok(()),
            Err(problem) => odd(&path, &format!("can't be looked at: {problem}")),
            Ok(data) if data.is_file() => {
                Err(Stopped { why: format!("tools are stopped by the emergency stop{}", note(&path)) })
            }
            Ok(_) => odd(&path, "is there, and isn't a plain file"),
        }
    }

    /// The time and origin of the stop, as the file records them; `None` unless it records both.
    #[must_use]
    pub fn noted(&self) -> Option<(String, String)> {
        let line = note(&self.path());
        let (since, by) = line.strip_prefix(", since ")?.split_once(", by ")?;
        Some((since.to_owned(), by.to_owned()))
    }

    /// Stops all tools of this user, in every session.
    ///
    /// # Errors
    /// The file can't be made.
    pub fn stop(&self) -> io::Result<()> {
        DirBuilder::new().recursive(true).mode(0o700).create(&self.directory)?;
        let path = self.path();
        let mut file = match OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path) {
            // Anything at this path stops tools already.
            Err(problem) if problem.kind() == io::ErrorKind::AlreadyExists => return Ok(()),
            file => file?,
        };
        // Only the file's existence counts; its text is for a person.
        let now = time::utc(host::now_unix_ms());
        let _ = writeln!(file, "since {now}, by process {}", std::process::id()).and_then(|()| file.sync_all());
        File::open(&self.directory)?.sync_all()
    }

    /// Lets tools run again. Only for the request of a person at a terminal.
    ///
    /// # Errors
    /// The file can't be removed.
    pub fn clear(&self) -> io::Result<()> {
        match fs::remove_file(self.path()) {
            Err(problem) if problem.kind() == io::ErrorKind::NotFound => Ok(()),
            Err(problem) => Err(problem),
            Ok(()) => File::open(&self.directory)?.sync_all(),
        }
    }

    /// Calls `cancel` once when tools are stopped, within 500 ms, on a separate thread. Dropping the returned value ends the
    /// watch; `cancel` isn't called after that.
    pub fn watch(&self, cancel: impl FnOnce(&Stopped) + Send + 'static) -> Watch {
        let (end, ended) = mpsc::channel::<()>();
        let estop = self.clone();
        // Shared, because without a thread there would be no watcher, which counts as stopped.
        let cancel = Arc::new(Mutex::new(Some(cancel)));
        let handle = Arc::clone(&cancel);
        let look = move || {
            let stopped = loop {
                match estop.check() {
                    Err(stopped) => break stopped,
                    Ok(()) => match ended.recv_timeout(LOOK_EVERY) {
                        Err(RecvTimeoutError::Timeout) => {}
                        _ => return,
                    },
                }
            };
            call(&handle, &stopped);
        };
        let thread = std::thread::Builder::new().name("estop".into()).spawn(look);
        if let Err(error) = &thread {
            call(&cancel, &Stopped { why: format!("tools are stopped: the emergency stop can't be watched: {error}") });
        }
        Watch { end: Some(end), thread: thread.ok() }
    }
}

/// Calls `cancel` if it hasn't been called.
fn call(cancel: &Mutex<Option<impl FnOnce(&Stopped)>>, stopped: &Stopped) {
    let cancel = cancel.lock().take();
    if let Some(cancel) = cancel {
        cancel(stopped);
    }
}

/// The time and origin of the stop, as the file records them.
fn note(path: &Path) -> String {
    let mut text = String::new();
    let opened = OpenOptions::new().read(true).custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK).open(path);
    let read = opened.and_then(|file| file.take(NOTE_BYTES_MAX).read_to_string(&mut text));
    let line = text.lines().next().unwrap_or_default();
    if read.is_ok() && !line.is_empty() { format!(", {line}") } else { String::new() }
}

/// A watch that continues until this is dropped.
#[derive(Debug)]
pub struct Watch {
    end: Option<mpsc::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.end.take();
        if let Some(thread) = self.thread.take()
            && thread.thread().id() != std::thread::current().id()
        {
            // The thread of `cancel` has reported its own panic.
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    fn estop() -> (tempfile::TempDir, Estop) {
        let dir = tempfile::tempdir().unwrap();
        let estop = Estop::new(dir.path().join("state/reedclaw"));
        (dir, estop)
    }

    #[test]
    fn a_stop_lasts_until_it_is_cleared() {
        let (_dir, estop) = estop();
        assert_eq!(estop.check(), Ok(()));
        estop.clear().unwrap();
        estop.stop().unwrap();
        estop.stop().unwrap();
        let why = estop.check().unwrap_err().why;
        assert!(why.starts_with("tools are stopped by the emergency stop, since 2"), "{why}");
        let (since, by) = estop.noted().unwrap();
        assert!(why.contains(&since) && by == format!("process {}", std::process::id()), "{since} {by}");
        assert_eq!(fs::metadata(&estop.directory).unwrap().permissions().mode() & 0o777, 0o700);
        estop.clear().unwrap();
        assert_eq!((estop.check(), estop.noted()), (Ok(()), None));
    }

    #[test]
    fn whatever_is_odd_means_stopped() {
        let (dir, estop) = estop();
        fs::create_dir_all(&estop.directory).unwrap();
        let path = estop.path();
        for (what, make) in [
            ("an empty file", (|path| fs::write(path, "").unwrap()) as fn(&Path)),
            ("a link to nowhere", |path| symlink("/nowhere", path).unwrap()),
            ("a link to a file", |path| symlink("/etc/passwd", path).unwrap()),
            ("a pipe", |path| nix::unistd::mkfifo(path, nix::sys::stat::Mode::S_IRWXU).unwrap()),
            ("a file that nobody may read", |path| {
                fs::write(path, "since \u{1}").unwrap();
                fs::set_permissions(path, fs::Permissions::from_mode(0o0)).unwrap();
            }),
        ] {
            assert_eq!(estop.check(), Ok(()), "{what}");
            make(&path);
            assert!(estop.check().is_err(), "{what}");
            estop.clear().unwrap();
        }
        fs::create_dir(&path).unwrap();
        assert!(estop.check().is_err() && estop.clear().is_err());
        fs::remove_dir(&path).unwrap();
        fs::set_permissions(&estop.directory, fs::Permissions::from_mode(0o777)).unwrap();
        assert!(estop.check().is_err());
        fs::remove_dir(&estop.directory).unwrap();
        symlink(dir.path().join("gone"), &estop.directory).unwrap();
        assert!(estop.check().is_err(), "a state directory that leads nowhere");
        fs::remove_file(&estop.directory).unwrap();
        fs::write(&estop.directory, "").unwrap();
        assert!(estop.check().is_err(), "a state directory that is a file");
    }

    #[test]
    fn a_state_directory_of_another_user_means_stopped() {
        // Root owns `/`; a test that runs as root has to make a directory of another user.
        let dir = tempfile::tempdir().unwrap();
        let directory = if nix::unistd::geteuid().is_root() {
            std::os::unix::fs::chown(dir.path(), Some(65_534), None).unwrap();
            dir.path()
        } else {
            Path::new("/")
        };
        assert!(Estop::new(directory.to_owned()).check().unwrap_err().why.contains("another user"));
    }

    #[test]
    fn a_watch_cancels_in_time_and_once() {
        let (_dir, estop) = estop();
        let (sender, receiver) = mpsc::channel();
        let watch = estop.watch(move |stopped| sender.send(stopped.clone()).unwrap());
        assert_eq!(receiver.recv_timeout(LOOK_EVERY * 3), Err(RecvTimeoutError::Timeout));
        estop.stop().unwrap();
        assert!(receiver.recv().is_ok());
        // Within 500 ms, if the machine runs the thread on time.
        assert!(LOOK_EVERY * 2 <= Duration::from_millis(500), "{LOOK_EVERY:?}");
        drop(watch);
        // Stopped before the watch begins: called at once.
        let (sender, receiver) = mpsc::channel();
        let watch = estop.watch(move |_| sender.send(()).unwrap());
        receiver.recv().unwrap();
        drop(watch);
        // Ended before a stop: never called.
        estop.clear().unwrap();
        let (sender, receiver) = mpsc::channel::<()>();
        drop(estop.watch(move |_| sender.send(()).unwrap()));
        estop.stop().unwrap();
        assert_eq!(receiver.recv(), Err(mpsc::RecvError));
    }
}
