//! Runs a program of the person's config to notify it of an event. It must not know which event.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::io::{self, Write};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;

/// Time limit for such a program.
const TIME: Duration = Duration::from_secs(10);
/// Interval for checking whether it has ended.
const LOOK: Duration = Duration::from_millis(20);

/// Runs a program without a terminal, with `input` as its standard input; its output is dropped. Does nothing if `words` is
/// empty.
///
/// # Errors
/// The program can't be started, or failed, or didn't end within ten seconds: it is killed then, with its children.
pub fn notify(words: &[String], env: &BTreeMap<OsString, OsString>, input: &str) -> Result<(), String> {
    notify_within(TIME, words, env, input)
}

/// Starts a program with a pipe to its standard input, in a process group of its own and without our terminal.
pub(super) fn start(
    program: &str,
    arguments: &[impl AsRef<OsStr>],
    env: &BTreeMap<OsString, OsString>,
) -> io::Result<Child> {
    let mut command = Command::new(program);
    command.args(arguments).env_clear().envs(env).process_group(0);
    command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null()).spawn()
}

fn notify_within(
    time: Duration,
    words: &[String],
    env: &BTreeMap<OsString, OsString>,
    input: &str,
) -> Result<(), String> {
    let Some((program, arguments)) = words.split_first() else { return Ok(()) };
    let mut child = start(program, arguments, env).map_err(|error| format!("{program}: {error}"))?;
    if let Some(mut pipe) = child.stdin.take() {
        let input = input.to_owned();
        // A program that doesn't read its input may have ended, or not read until it is killed.
        std::thread::spawn(move || pipe.write_all(input.as_bytes()));
    }
    ended(&mut child, time).map_err(|why| format!("{program}: {why}"))
}

fn ended(child: &mut Child, time: Duration) -> Result<(), String> {
    let until = Instant::now() + time;
    loop {
        match child.try_wait() {
            Ok(Some(status)) if status.success() => return Ok(()),
            Ok(Some(status)) => return Err(format!("it failed ({status})")),
            Ok(None) if Instant::now() < until => std::thread::park_timeout(LOOK),
            Ok(None) => break,
            Err(error) => return Err(error.to_string()),
        }
    }
    let _ = killpg(Pid::from_raw(i32::try_from(child.id()).unwrap_or(i32::MAX)), Signal::SIGKILL);
    let _ = child.wait();
    Err(format!("it did not end within {} s", time.as_secs()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_gets_its_input_and_its_failure_is_returned() {
        let dir = tempfile::tempdir().expect("a directory");
        let file = dir.path().join("heard");
        let env = crate::host::environment();
        let words = |line: String| vec!["sh".to_owned(), "-c".to_owned(), line];
        assert_eq!(notify(&words(format!("cat > '{}'", file.display())), &env, "{\"run\":1}"), Ok(()));
        assert_eq!(crate::host::read_text(&file).as_deref(), Ok("{\"run\":1}"));
        assert!(notify(&words("exit 3".into()), &env, "x").is_err_and(|why| why.contains("3")));
        assert!(notify(&["/nowhere/at-all".to_owned()], &env, "x").is_err_and(|why| why.starts_with("/nowhere")));
        assert_eq!(notify(&[], &env, "x"), Ok(()));
        let long = "x".repeat(1024 * 1024);
        let deaf = notify_within(Duration::from_millis(200), &words("sleep 60".into()), &env, &long);
        assert!(deaf.is_err_and(|why| why.contains("did not end within")), "more than a pipe holds");
    }
}
