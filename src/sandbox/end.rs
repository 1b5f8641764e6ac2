//! Ends a program that was started in a sandbox, and everything that it started.

use std::collections::HashSet;
use std::fs;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

/// The name of bubblewrap's own processes.
const BUBBLEWRAP: &str = "bwrap";
/// Longest wait for killed processes to be gone: one in the middle of a disk operation ends only after it.
const KILLED_TIME: Duration = Duration::from_secs(2);
/// Poll interval for their end.
const LOOK_EVERY: Duration = Duration::from_millis(5);

/// Ends a program that [`Sandbox::command`](super::Sandbox::command) started, and everything in its session or below it: SIGTERM,
/// and SIGKILL for what is left after `patience`. `leader` is the program's process id, not waited for yet: the caller reaps it
/// afterwards. Returns true if nothing is left.
#[must_use]
pub fn end(leader: u32, patience: Duration) -> bool {
    end_all(&[leader], patience)
}

/// Ends several such programs at once, which takes no longer than one of them.
#[must_use]
pub fn end_all(leaders: &[u32], patience: Duration) -> bool {
    let Ok(leaders) = leaders.iter().map(|leader| i32::try_from(*leader)).collect::<Result<Vec<i32>, _>>() else {
        return false;
    };
    let began = Instant::now();
    // bubblewrap itself would end its programs at once; it ends after them.
    let asked: Vec<Process> = found(&leaders).into_iter().filter(|it| it.name != BUBBLEWRAP).collect();
    signal(&asked, &[Signal::SIGTERM, Signal::SIGCONT]);
    while began.elapsed() < patience {
        if found(&leaders).is_empty() {
            return true;
        }
        std::thread::park_timeout(LOOK_EVERY);
    }
    let began = Instant::now();
    loop {
        // This finds processes that were started since the last search.
        let left = found(&leaders);
        if left.is_empty() || began.elapsed() > KILLED_TIME {
            return left.is_empty();
        }
        signal(&left, &[Signal::SIGKILL]);
        std::thread::park_timeout(LOOK_EVERY);
    }
}

fn signal(processes: &[Process], signals: &[Signal]) {
    for process in processes {
        for signal in signals {
            // It may have ended in the meantime.
            let _ = kill(Pid::from_raw(process.id), *signal);
        }
    }
}

/// The processes of the leaders' sessions, and those below them, that have not ended.
pub(super) fn found(leaders: &[i32]) -> Vec<Process> {
    let Ok(entries) = fs::read_dir("/proc") else { return Vec::new() };
    let all: Vec<Process> = entries
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .filter_map(Process::read)
        .collect();
    let is_theirs = |it: &&Process| leaders.contains(&it.session) || leaders.contains(&it.id);
    let mut ours: HashSet<i32> = all.iter().filter(is_theirs).map(|it| it.id).collect();
    loop {
        let more: Vec<i32> =
            all.iter().filter(|it| ours.contains(&it.parent) && !ours.contains(&it.id)).map(|it| it.id).collect();
        if more.is_empty() {
            break;
        }
        ours.extend(more);
    }
    all.into_iter().filter(|it| ours.contains(&it.id) && !it.has_ended).collect()
}

/// A process, as described in `/proc`.
pub(super) struct Process {
    pub(super) id: i32,
    name: String,
    parent: i32,
    session: i32,
    has_ended: bool,
    /// Processor time that it has used, in the kernel's ticks.
    pub(super) ticks: u64,
}

impl Process {
    fn read(id: i32) -> Option<Self> {
        let text = fs::read_to_string(format!("/proc/{id}/stat")).ok()?;
        // The name, in brackets, may contain anything; the other fields follow the last bracket (proc(5)).
        let (before, behind) = text.rsplit_once(") ")?;
        let name = before.split_once('(')?.1.to_owned();
        let mut fields = behind.split(' ');
        let has_ended = matches!(fields.next()?, "Z" | "X");
        let parent = fields.next()?.parse().ok()?;
        let session = fields.nth(1)?.parse().ok()?;
        let user: u64 = fields.nth(7)?.parse().ok()?;
        let system: u64 = fields.next()?.parse().ok()?;
        Some(Self { id, name, parent, session, has_ended, ticks: user + system })
    }
}
