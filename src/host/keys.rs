//! Reads a key: from a file that only the user can read, or from the output of a program. It must not know the key's
//! use.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::OpenOptions;
use std::io::Read;
use std::os::fd::AsFd;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;

/// Longest key, in bytes; the longest tokens are some KiB.
pub const KEY_BYTES_MAX: usize = 16 * 1024;
/// Time limit for a program: a password store that asks an agent answers in far less.
pub const KEY_COMMAND_TIME: Duration = Duration::from_secs(10);
/// Interval at which a wait for a silent program checks whether the person has stopped it.
const LOOK_MS: u16 = 50;
/// The same interval for the end of a program whose output has ended: most end at once.
const END_LOOK_MS: u16 = 2;
/// The permissions of everyone but the owner.
const OTHERS: u32 = 0o077;

/// Reads the key in a file: its first line, which must not be empty.
///
/// # Errors
/// The problem, in words that follow the path: the file doesn't exist, others can read it, it is another user's, it is empty.
pub fn key_from_file(path: &Path) -> Result<String, String> {
    let open = OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK | libc::O_NOCTTY).open(path);
    let file = open.map_err(|error| error.to_string())?;
    // The metadata are those of the open file, so that it can't be replaced after the check.
    let data = file.metadata().map_err(|error| error.to_string())?;
    if !data.is_file() {
        return Err("it is not a plain file".into());
    }
    if data.uid() != nix::unistd::geteuid().as_raw() {
        return Err("it belongs to another user".into());
    }
    if data.mode() & OTHERS != 0 {
        return Err("others can read it (chmod 600 makes it yours alone)".into());
    }
    let mut bytes = Vec::new();
    file.take(KEY_BYTES_MAX as u64 + 1).read_to_end(&mut bytes).map_err(|error| error.to_string())?;
    first_line(&bytes)
}

/// Runs a program without a terminal and returns the first line that it prints. `is_stopped` ends it early.
///
/// # Errors
/// The error, in words that follow the program's name. Its output is never repeated.
pub fn key_from_command(
    words: &[String],
    env: &BTreeMap<OsString, OsString>,
    is_stopped: &dyn Fn() -> bool,
) -> Result<String, String> {
    let (program, arguments) = words.split_first().ok_or("there is no program")?;
    let mut child = Command::new(program)
        .args(arguments)
        .env_clear()
        .envs(env)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        // Its messages may contain a part of the key, and would disturb the screen.
        .stderr(Stdio::null())
        .process_group(0)
        .spawn()
        .map_err(|error| error.to_string())?;
    let deadline = Instant::now() + KEY_COMMAND_TIME;
    let may_go_on = || {
        if is_stopped() {
            Err("it was stopped".to_owned())
        } else if Instant::now() >= deadline {
            Err(format!("it did not end within {} s", KEY_COMMAND_TIME.as_secs()))
        } else {
            Ok(())
        }
    };
    let read = read_output(&mut child, &may_go_on).and_then(|bytes| Ok((bytes, ended(&mut child, &may_go_on)?)));
    if read.is_err() {
        // The whole group, because a script's own children hold the pipe, too. The group may have ended already.
        let _ = killpg(Pid::from_raw(i32::try_from(child.id()).unwrap_or(i32::MAX)), Signal::SIGKILL);
        let _ = child.wait();
    }
    let (bytes, status) = read?;
    if !status.success() {
        return Err(format!("it failed ({status})"));
    }
    first_line(&bytes)
}

/// Waits for the end of a program that has closed its output.
fn ended(child: &mut Child, may_go_on: &dyn Fn() -> Result<(), String>) -> Result<ExitStatus, String> {
    loop {
        if let Some(status) = child.try_wait().map_err(|error| error.to_string())? {
            return Ok(status);
        }
        may_go_on()?;
        std::thread::park_timeout(Duration::from_millis(u64::from(END_LOOK_MS)));
    }
}

fn read_output(child: &mut Child, may_go_on: &dyn Fn() -> Result<(), String>) -> Result<Vec<u8>, String> {
    let mut output = child.stdout.take().ok_or("it has no output")?;
    let mut bytes = Vec::new();
    let mut buffer = [0; 4096];
    loop {
        may_go_on()?;
        let ready = poll(&mut [PollFd::new(output.as_fd(), PollFlags::POLLIN)], PollTimeout::from(LOOK_MS));
        if ready != Ok(1) {
            continue;
        }
        match output.read(&mut buffer) {
            Ok(0) => return Ok(bytes),
            Ok(count) => bytes.extend_from_slice(&buffer[..count]),
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error.to_string()),
        }
        if bytes.len() > KEY_BYTES_MAX {
            return Err(format!("it printed more than {KEY_BYTES_MAX} bytes"));
        }
    }
}

fn first_line(bytes: &[u8]) -> Result<String, String> {
    if bytes.len() > KEY_BYTES_MAX {
        return Err(format!("it has more than {KEY_BYTES_MAX} bytes"));
    }
    let text = std::str::from_utf8(bytes).map_err(|_| "it isn't text")?;
    let line = text.lines().next().unwrap_or_default().trim();
    let clean = !line.is_empty() && line.chars().all(|c| !c.is_control());
    if clean { Ok(line.to_owned()) } else { Err("its first line isn't a key".into()) }
}

#[cfg(test)]
mod tests {
    use std::fs::{self, Permissions};
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn a_key_file_is_the_users_alone() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("key");
        fs::write(&path, " sk-1 \nsecond\n").expect("a file");
        for (mode, readable) in [(0o600, true), (0o400, true), (0o640, false), (0o604, false), (0o620, false)] {
            fs::set_permissions(&path, Permissions::from_mode(mode)).expect("permissions");
            let read = key_from_file(&path);
            assert_eq!(read.as_deref() == Ok("sk-1"), readable, "{mode:o} {read:?}");
            assert!(readable || read.is_err_and(|why| why.contains("others can read it")), "{mode:o}");
        }
        fs::write(&path, "\n").expect("a file");
        fs::set_permissions(&path, Permissions::from_mode(0o600)).expect("permissions");
        assert_eq!(key_from_file(&path), Err("its first line isn't a key".into()));
        assert!(key_from_file(dir.path()).is_err());
        assert!(key_from_file(&dir.path().join("nope")).is_err());
    }

    #[test]
    fn a_program_prints_a_key_or_fails_without_showing_it() {
        let run = |script: &str| {
            let words = ["/bin/sh", "-c", script].map(str::to_owned);
            key_from_command(&words, &BTreeMap::from([("K".into(), "v".into())]), &|| false)
        };
        assert_eq!(run("echo sk-$K; echo more").as_deref(), Ok("sk-v"));
        assert!(run("echo sk-secret; exit 3").is_err_and(|why| why.contains('3') && !why.contains("secret")));
        assert!(run("head -c 100000 /dev/zero").is_err_and(|why| why.contains("more than")));
        assert!(run("true").is_err());
        assert!(key_from_command(&["/nonexistent".into()], &BTreeMap::new(), &|| false).is_err());
        assert!(key_from_command(&[], &BTreeMap::new(), &|| false).is_err());
    }

    #[test]
    fn a_program_that_hangs_is_stopped_with_its_children() {
        for script in ["sleep 100 & sleep 100", "echo k; exec >&-; sleep 100"] {
            let words = ["/bin/sh", "-c", script].map(str::to_owned);
            let started = Instant::now();
            let looks = std::cell::Cell::new(0);
            let stopped = || {
                looks.set(looks.get() + 1);
                looks.get() > 20
            };
            assert_eq!(key_from_command(&words, &BTreeMap::new(), &stopped), Err("it was stopped".into()), "{script}");
            assert!(started.elapsed() < KEY_COMMAND_TIME);
        }
    }
}
