//! The output of a session's last command and its jobs, for other agents whom the user's config lets see them. They stay in the
//! session's memory; a client of its private socket gets them once. The socket is in the state directory, which no
//! sandboxed program sees.

use parking_lot::Mutex;
use std::fs;
use std::io::{self, Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use nix::sys::socket::{getsockopt, sockopt::PeerCredentials};
use serde_json::{Value, json};

use crate::files::make_private;
use crate::proto::CommandOutcome;

/// Limit on a stored output, in bytes: its end, in which errors are.
const OUTPUT_BYTES_MAX: usize = 64 << 10;
/// Limit on a session's answer, in bytes. Escapes in JSON are longer than the characters that they represent.
const ANSWER_BYTES_MAX: u64 = 1 << 20;
/// Time for a session to answer, and for another agent to take the answer.
const WAIT: Duration = Duration::from_secs(1);
/// Sessions of one answer.
const SESSIONS_MAX: usize = 20;
/// Jobs of one session.
const JOBS_MAX: usize = 100;
/// The ending of a socket's name.
const ENDING: &str = "outputs";

/// A session's side. Other agents no longer see anything once it is dropped.
pub struct Outputs {
    path: PathBuf,
    latest: Arc<Mutex<Value>>,
    is_over: Arc<AtomicBool>,
}

impl Outputs {
    /// Lets other agents see the noted commands from now on. `session` is its number in the history, `shell` the process of its
    /// shell.
    ///
    /// # Errors
    /// The socket or the thread that answers can't be made.
    pub fn offer(state: &Path, session: i64, shell: u32) -> io::Result<Self> {
        let directory = state.join("serve");
        make_private(&directory)?;
        let path = directory.join(format!("{}.{ENDING}", std::process::id()));
        // The socket belongs to an earlier process with this number.
        let _ = fs::remove_file(&path);
        let socket = UnixListener::bind(&path)?;
        let outputs = Self { path, latest: Arc::default(), is_over: Arc::default() };
        let (latest, is_over) = (Arc::clone(&outputs.latest), Arc::clone(&outputs.is_over));
        let answer = move || {
            for stream in socket.incoming() {
                if is_over.load(Ordering::Acquire) {
                    return;
                }
                let Ok(mut stream) = stream else { continue };
                if is_own(&stream) && stream.set_write_timeout(Some(WAIT)).is_ok() {
                    let last = latest.lock().clone();
                    let answer = json!({"session": session.to_string(), "last_output": last, "jobs": jobs(shell)});
                    let _ = stream.write_all(answer.to_string().as_bytes());
                }
            }
        };
        std::thread::Builder::new().name("outputs".into()).spawn(answer)?;
        Ok(outputs)
    }

    /// Notes a command that has ended. Its output is stored unchanged; it is cleaned when it is sent to an agent.
    pub fn note(&self, outcome: &CommandOutcome) {
        let output = &outcome.output;
        let bytes = [&output.head[..], &output.tail[..]].concat();
        let start = bytes.len().saturating_sub(OUTPUT_BYTES_MAX);
        let left_out = u64::try_from(start).unwrap_or_default() + output.omitted_bytes;
        let latest = json!({
            "line": outcome.command, "cwd": outcome.cwd, "status": outcome.status,
            "duration_ms": u64::try_from(outcome.duration.as_millis()).unwrap_or(u64::MAX),
            "output": String::from_utf8_lossy(&bytes[start..]), "left_out_bytes": left_out,
        });
        *self.latest.lock() = latest;
    }
}

impl Drop for Outputs {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Release);
        // Wakes the thread, so that it ends.
        let _ = UnixStream::connect(&self.path);
        let _ = fs::remove_file(&self.path);
    }
}

/// Returns the outputs that running sessions let other agents see, a value for each session.
pub(super) fn of_sessions(state: &Path) -> Vec<Value> {
    let Ok(files) = fs::read_dir(state.join("serve")) else { return Vec::new() };
    let sockets =
        files.flatten().map(|file| file.path()).filter(|path| path.extension().is_some_and(|it| it == ENDING));
    sockets.filter_map(|path| asked(&path)).take(SESSIONS_MAX).collect()
}

fn asked(path: &Path) -> Option<Value> {
    let stream = match UnixStream::connect(path) {
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
            // Its session was killed.
            let _ = fs::remove_file(path);
            return None;
        }
        other => other.ok().filter(is_own)?,
    };
    stream.set_read_timeout(Some(WAIT)).ok()?;
    let mut bytes = Vec::new();
    stream.take(ANSWER_BYTES_MAX).read_to_end(&mut bytes).ok()?;
    serde_json::from_slice(&bytes).ok()
}

/// Returns whether the process at the other end is the user's own.
fn is_own(stream: &UnixStream) -> bool {
    let own = nix::unistd::geteuid().as_raw();
    getsockopt(stream, PeerCredentials).is_ok_and(|peer| peer.uid() == own)
}

/// The process groups that a shell has started, as it would list its jobs.
fn jobs(shell: u32) -> Vec<Value> {
    let Ok(processes) = fs::read_dir("/proc") else { return Vec::new() };
    let ids = processes.flatten().filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let shell_text = shell.to_string();
    let job = |id: u32| {
        let stat = fs::read_to_string(format!("/proc/{id}/stat")).ok()?;
        // The program's name may hold blanks and brackets; after it come state, parent, group, session, terminal, and the
        // terminal's group (proc_pid_stat(5)).
        let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
        let [state, parent, group, _, _, foreground, ..] = fields[..] else { return None };
        if parent != shell_text || group != id.to_string() {
            return None;
        }
        let line = fs::read(format!("/proc/{id}/cmdline")).ok()?;
        let words = line.split(|byte| *byte == 0).filter(|word| !word.is_empty()).map(String::from_utf8_lossy);
        let state = match state {
            "T" | "t" => "stopped",
            "Z" | "X" => return None,
            _ => "running",
        };
        Some(json!({
            "pid": id, "state": state, "is_in_foreground": group == foreground,
            "command": words.collect::<Vec<_>>().join(" "),
        }))
    };
    ids.filter_map(job).take(JOBS_MAX).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proto::Capture;

    fn outcome(command: &str, head: &[u8], tail: &[u8], omitted_bytes: u64) -> CommandOutcome {
        CommandOutcome {
            command: command.into(),
            status: 3,
            duration: Duration::from_millis(7),
            cwd: Some("/w".into()),
            environment: String::new(),
            output: Capture { head: head.into(), tail: tail.into(), omitted_bytes },
        }
    }

    #[test]
    fn a_session_shows_its_last_output_until_it_stops_to() {
        let state = tempfile::tempdir().expect("a directory");
        let outputs = Outputs::offer(state.path(), 42, std::process::id()).expect("it is offered");
        assert_eq!(of_sessions(state.path())[0]["last_output"], Value::Null);
        outputs.note(&outcome("make", b"one\n", b"two\n", 5));
        let seen = of_sessions(state.path());
        assert_eq!((seen.len(), &seen[0]["session"]), (1, &json!("42")));
        let expected = json!({"line": "make", "cwd": "/w", "status": 3, "duration_ms": 7, "output": "one\ntwo\n",
            "left_out_bytes": 5});
        assert_eq!(seen[0]["last_output"], expected);
        outputs.note(&outcome("yes", &vec![b'\x1b'; 1 << 20], b"end", 0));
        let last = &of_sessions(state.path())[0]["last_output"];
        assert!(last["output"].as_str().expect("text").ends_with("end"));
        assert_eq!(last["left_out_bytes"], (1 << 20) + 3 - (64 << 10));
        drop(outputs);
        assert!(of_sessions(state.path()).is_empty());
    }

    #[test]
    fn the_socket_of_a_session_that_was_killed_is_removed() {
        let state = tempfile::tempdir().expect("a directory");
        make_private(&state.path().join("serve")).expect("a directory");
        let path = state.path().join(format!("serve/1.{ENDING}"));
        drop(UnixListener::bind(&path).expect("a socket"));
        assert!(of_sessions(state.path()).is_empty() && !path.exists());
    }

    #[test]
    fn jobs_are_the_groups_that_a_shell_started() {
        use std::os::unix::process::CommandExt;
        let sleep =
            |group| std::process::Command::new("sleep").arg("600").process_group(group).spawn().expect("a sleep");
        let mut job = sleep(0);
        // Of the same group as this process: no job.
        let mut part = std::process::Command::new("sleep").arg("600").spawn().expect("a sleep");
        let found = jobs(std::process::id());
        let of = |id: u32| found.iter().find(|job| job["pid"] == id);
        assert_eq!(of(job.id()).expect("a job")["command"], "sleep 600");
        assert_eq!(of(job.id()).expect("a job")["state"], "running");
        assert!(of(part.id()).is_none());
        for child in [&mut job, &mut part] {
            child.kill().expect("it is killed");
            child.wait().expect("it has ended");
        }
    }
}
