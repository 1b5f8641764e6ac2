//! The terminal between us and the line editor: how much is sent at once, and whether the editor has read it. It must not know
//! what a key means.

use std::io;
use std::os::fd::AsFd;
use std::time::Duration;

use nix::errno::Errno;
use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::pty::PtyMaster;

use crate::shell::event::KeysTo;
use crate::shell::keys::feed::{Feed, NUDGE_KEY};

/// Limit on the bytes sent to the editor at once: it reads at most 1024 bytes when it wakes, and only new bytes wake it. It gets
/// fewer than that, and more once it has read them.
pub(in crate::shell) const EDITOR_BYTES_MAX: usize = 1000;
/// Interval for checking that the editor has read its piece.
pub(in crate::shell) const EDITOR_READS: Duration = Duration::from_millis(1);
/// Interval and number of the checks, after a change of the window's size, whether the editor has missed keys: if both arrive at
/// once, its reader forgets the keys until new ones come.
pub(in crate::shell) const OVERHEARD_LOOK: Duration = Duration::from_millis(20);
pub(in crate::shell) const OVERHEARD_LOOKS: u32 = 15;

/// Returns whether the editor has unread keys. Descriptor 0 is its end; polling it also makes the kernel transfer the last
/// written bytes.
pub(in crate::shell) fn editor_has_unread() -> bool {
    poll(&mut [PollFd::new(io::stdin().as_fd(), PollFlags::POLLIN)], PollTimeout::ZERO) != Ok(0)
}

/// Returns whether a read of the terminal would return at once.
pub(in crate::shell) fn is_readable(terminal: &impl AsFd) -> bool {
    poll(&mut [PollFd::new(terminal.as_fd(), PollFlags::POLLIN)], PollTimeout::ZERO).is_ok_and(|count| count > 0)
}

/// Returns whether a terminal that was found ready still has keys after commands were carried out: one of them may have read the
/// keys, and another read would wait for the next one.
pub(in crate::shell) fn keys_are_left(was_ready: bool, commands_came: bool, terminal: &impl AsFd) -> bool {
    was_ready && (!commands_came || is_readable(terminal))
}

/// Returns whether the editor's thread, the first of the process, waits for something; `true` if the system doesn't report it.
fn editor_sleeps() -> bool {
    sleeps(&format!("/proc/self/task/{}", std::process::id()))
}

/// Returns whether a process or a thread, named by its directory in `/proc`, waits for something; `true` if the system doesn't
/// report it.
pub(in crate::shell) fn sleeps(place: &str) -> bool {
    let stat = std::fs::read_to_string(format!("{place}/stat")).unwrap_or_default();
    // The state follows the name in brackets, which may hold anything. Source: proc_pid_stat(5).
    stat.rsplit_once(") ").is_none_or(|(_, rest)| rest.starts_with('S'))
}

/// Number of times that a process, named by its directory in `/proc`, has gone to sleep; 0 if the system doesn't report it.
pub(in crate::shell) fn times_slept(place: &str) -> u64 {
    let status = std::fs::read_to_string(format!("{place}/status")).unwrap_or_default();
    let count = status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
    count.and_then(|count| count.trim().parse().ok()).unwrap_or(0)
}

/// Returns whether the editor has read all of its input, and waits for more.
pub(in crate::shell) fn editor_idles() -> bool {
    !editor_has_unread() && editor_sleeps()
}

/// Wakes an editor that sleeps although it has unread keys; returns the number of checks that are left.
pub(in crate::shell) fn nudge_overhearing(editor: &PtyMaster, feed: &Feed, looks_left: u32) -> u32 {
    // If the editor isn't active, it doesn't read: its input waits for the next prompt.
    let has_unread = feed.whom() == KeysTo::Editor && editor_has_unread();
    if has_unread && editor_sleeps() {
        write_some(editor, &mut NUDGE_KEY.to_vec());
    }
    if has_unread { OVERHEARD_LOOKS } else { looks_left.saturating_sub(1) }
}

/// Makes writes to a PTY non-blocking.
pub(in crate::shell) fn set_nonblocking(master: &PtyMaster) -> io::Result<()> {
    let flags = OFlag::from_bits_retain(fcntl(master, FcntlArg::F_GETFL)?);
    fcntl(master, FcntlArg::F_SETFL(flags | OFlag::O_NONBLOCK))?;
    Ok(())
}

/// Writes as much as a non-blocking PTY accepts now.
pub(in crate::shell) fn write_some(master: &PtyMaster, pending: &mut Vec<u8>) {
    while !pending.is_empty() {
        match nix::unistd::write(master, pending) {
            Ok(count) => drop(pending.drain(..count)),
            Err(Errno::EINTR) => {}
            Err(Errno::EAGAIN) => return,
            Err(_) => pending.clear(),
        }
    }
}
