//! The door to everything outside that has no room of its own: environment, clock, host name, sources of keys, TLS authorities,
//! connections, the desktop's clipboard, a private copy for an editor, programs that are notified of events.

mod authorities;
mod clipboard;
mod copy;
mod keys;
mod notify;
mod wire;

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rustix::time::{ClockId, clock_gettime};

pub use authorities::{Authorities, certificate_problem};
pub use clipboard::copy_to_clipboard;
pub use copy::PrivateCopy;
pub use keys::{KEY_BYTES_MAX, KEY_COMMAND_TIME, key_from_command, key_from_file};
pub use notify::notify;
pub use wire::{Hangup, Wire};

/// Returns the environment as a value, without a `HOME` that doesn't exist: it may be mounted later, and ReedClaw must not create
/// it.
#[must_use]
pub fn environment() -> BTreeMap<OsString, OsString> {
    let mut all: BTreeMap<_, _> = std::env::vars_os().collect();
    let is_missing = |home: &OsString| std::fs::metadata(home).is_err_and(|error| error.kind() == ErrorKind::NotFound);
    if all.get(OsStr::new("HOME")).is_some_and(is_missing) {
        all.remove(OsStr::new("HOME"));
    }
    all
}

/// Returns the time, in milliseconds since the Unix epoch.
#[must_use]
pub fn now_unix_ms() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
}

/// Returns the time, in nanoseconds since the Unix epoch.
#[must_use]
pub fn now_unix_ns() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| u64::try_from(since.as_nanos()).unwrap_or(u64::MAX))
}

/// Returns the time since the machine was started, including the time in which it was suspended.
#[must_use]
pub fn boot_time() -> Duration {
    clock_gettime(ClockId::Boottime).try_into().unwrap_or_default()
}

/// Returns the machine's name.
#[must_use]
pub fn host_name() -> Option<String> {
    let name = nix::unistd::gethostname().ok()?.into_string().ok()?;
    Some(name).filter(|name| !name.is_empty())
}

/// Returns an id of the network in which loopback addresses are valid: equal for two processes if each finds the other's listener
/// at `127.0.0.1`.
#[must_use]
pub fn loopback() -> Option<String> {
    let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
    let network = std::fs::read_link("/proc/self/ns/net").ok()?;
    Some(format!("{} {}", boot.trim(), network.display()))
}

/// Limit on a program that is read completely, in bytes.
const PROGRAM_BYTES_MAX: u64 = 512 * 1024 * 1024;

/// Reads a program's file; `None` if it can't be read or is too long.
#[must_use]
pub fn read_program(path: &Path) -> Option<Vec<u8>> {
    let is_short = std::fs::metadata(path).is_ok_and(|data| data.is_file() && data.len() <= PROGRAM_BYTES_MAX);
    is_short.then(|| std::fs::read(path).ok()).flatten()
}

/// Limit on a text file that is read completely, in bytes.
const TEXT_BYTES_MAX: u64 = 4 * 1024 * 1024;

/// Reads a plain file of text.
///
/// # Errors
/// The reason in words: the file doesn't exist, isn't a plain file, is too long, or isn't UTF-8.
pub fn read_text(path: &Path) -> Result<String, String> {
    let data = std::fs::metadata(path).map_err(|error| match error.kind() {
        std::io::ErrorKind::NotFound => "there is no such file".to_owned(),
        _ => error.to_string(),
    })?;
    if !data.is_file() {
        return Err("it is not a plain file".to_owned());
    }
    if data.len() > TEXT_BYTES_MAX {
        return Err(format!("it is longer than {TEXT_BYTES_MAX} bytes"));
    }
    std::fs::read_to_string(path).map_err(|error| error.to_string())
}

/// Returns the path of this program; its bare name, to be searched for, if the system doesn't know the path.
#[must_use]
pub fn executable() -> PathBuf {
    std::env::current_exe().unwrap_or_else(|_| "reedclaw".into())
}

/// Returns the working directory, or `/` if it is gone.
#[must_use]
pub fn working_directory() -> PathBuf {
    std::env::current_dir().unwrap_or_else(|_| "/".into())
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_clock_runs_in_this_century() {
        assert!(super::now_unix_ms() > 1_700_000_000_000);
    }
}
