//! Processes of a session that wait for input at its terminal, by what the kernel reports of them.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::time::Duration;

use super::end::found;

/// The device number of `/dev/tty`: the controlling terminal of the process that opens it.
const OWN_TERMINAL: u64 = libc::makedev(5, 0);

/// The activity of a session's processes, at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AtTerminal {
    /// One that hangs in reading from the terminal.
    pub reader: Option<i32>,
    /// Processor time that all of them have used.
    pub used: Duration,
}

/// Examines the session of `leader`, and the processes below it. `terminal` is the device number of its terminal.
///
/// If the kernel doesn't reveal what a process waits for, there is no reader.
#[must_use]
pub fn at_terminal(leader: u32, terminal: u64) -> AtTerminal {
    /// The kernel reports them in hundredths of a second on all machines (`USER_HZ`).
    const MS_PER_TICK: u64 = 10;
    let processes = i32::try_from(leader).map(|leader| found(&[leader])).unwrap_or_default();
    let ticks: u64 = processes.iter().map(|process| process.ticks).sum();
    let reader = processes.iter().map(|process| process.id).find(|id| {
        reading(*id).is_some_and(|descriptor| {
            let device = fs::metadata(format!("/proc/{id}/fd/{descriptor}")).map(|data| data.rdev());
            device.is_ok_and(|device| device == terminal || device == OWN_TERMINAL)
        })
    });
    AtTerminal { reader, used: Duration::from_millis(ticks.saturating_mul(MS_PER_TICK)) }
}

/// The descriptor from which a process is reading at this moment, by its first thread.
fn reading(process: i32) -> Option<u32> {
    // The number of the call and, hexadecimal, its arguments; "running" if it isn't in one.
    let text = fs::read_to_string(format!("/proc/{process}/syscall")).ok()?;
    let mut words = text.split_whitespace();
    let call: i64 = words.next()?.parse().ok()?;
    let descriptor = u32::from_str_radix(words.next()?.strip_prefix("0x")?, 16).ok()?;
    [libc::SYS_read, libc::SYS_readv].contains(&call).then_some(descriptor)
}
