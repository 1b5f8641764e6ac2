//! The terminal of the model's own bash, which has no user: it provides what programs expect of a terminal, stores what they
//! write to it, and detects when one of them waits for a person. No key is ever sent to it.

use std::fs::File;
use std::io::{ErrorKind, Read};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::process::Command;
use std::time::{Duration, Instant};

use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::sys::termios::{LocalFlags, tcgetattr};

use crate::sandbox::{AtTerminal, at_terminal};
use crate::shell::spawn::open_pty;
use crate::shell::sys::{WindowSize, lead_session_at, set_window_size};

/// The size of the terminal that programs see: the one that all of them support.
const SIZE: WindowSize = WindowSize { rows: 24, columns: 80, width_pixels: 0, height_pixels: 0 };
/// Limit on the stored bytes that were written to it: the last ones, which have the question.
const KEPT_BYTES_MAX: usize = 16 * 1024;
/// Interval of the checks of the programs: a check takes some milliseconds.
const LOOK_EVERY: Duration = Duration::from_millis(200);
/// Silence after which a program is assumed to wait: one that reads single keys sleeps until one arrives, and a busy one isn't
/// silent and idle for so long.
const SILENCE: Duration = Duration::from_secs(3);

/// The terminal.
pub(in crate::tools) struct Terminal {
    master: File,
    /// Kept open, so that reading never ends before the session does.
    slave: OwnedFd,
    device: u64,
    written: Vec<u8>,
    is_over: bool,
    /// Time of the last check, and its result.
    looked: Instant,
    seen: AtTerminal,
    /// Since when nothing was printed and no processor time used.
    silent_since: Instant,
}

impl Terminal {
    /// Makes one, and lets `command` start with it as its controlling terminal.
    pub(in crate::tools) fn give(command: &mut Command) -> std::io::Result<Self> {
        let pty = open_pty()?;
        set_window_size(pty.slave.as_fd(), SIZE)?;
        lead_session_at(command, pty.slave.try_clone()?);
        let master = File::from(OwnedFd::from(pty.master));
        let flags = OFlag::from_bits_truncate(fcntl(&master, FcntlArg::F_GETFL)?);
        fcntl(&master, FcntlArg::F_SETFL(flags | OFlag::O_NONBLOCK))?;
        Ok(Self {
            device: File::from(pty.slave.try_clone()?).metadata()?.rdev(),
            master,
            slave: pty.slave,
            written: Vec::new(),
            is_over: false,
            looked: Instant::now(),
            seen: AtTerminal::default(),
            silent_since: Instant::now(),
        })
    }

    /// Returns the descriptor to wait at for more; `None` once its session has ended.
    pub(in crate::tools) fn fd(&self) -> Option<BorrowedFd<'_>> {
        (!self.is_over).then(|| self.master.as_fd())
    }

    /// Reads what was written to it.
    pub(in crate::tools) fn read(&mut self) {
        let mut buffer = [0; 4096];
        while !self.is_over {
            match self.master.read(&mut buffer) {
                Ok(count @ 1..) => {
                    self.written.extend_from_slice(&buffer[..count]);
                    let surplus = self.written.len().saturating_sub(KEPT_BYTES_MAX);
                    self.written.drain(..surplus);
                    self.silent_since = Instant::now();
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                // The kernel says EIO of a terminal that was hung up.
                Ok(_) | Err(_) => self.is_over = true,
            }
        }
    }

    /// Takes note that the programs printed something, here or elsewhere.
    pub(in crate::tools) fn heard(&mut self) {
        self.silent_since = Instant::now();
    }

    /// Returns whether a program of the session that `leader` leads waits for a person: it blocks in reading a line in two
    /// consecutive checks, or it has changed the terminal's modes and has been silent and idle since.
    pub(in crate::tools) fn is_awaited(&mut self, leader: u32) -> bool {
        if self.looked.elapsed() < LOOK_EVERY {
            return false;
        }
        self.looked = Instant::now();
        let now = at_terminal(leader, self.device);
        let before = std::mem::replace(&mut self.seen, now);
        if now.used != before.used {
            self.silent_since = Instant::now();
        }
        let still_reads = now.reader.is_some() && now.reader == before.reader;
        still_reads || (self.has_other_modes() && self.silent_since.elapsed() >= SILENCE)
    }

    /// Returns the bytes written to it since the last call.
    pub(in crate::tools) fn take(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.written)
    }

    /// Puts those bytes back. Nothing may have been written in between.
    pub(in crate::tools) fn take_back(&mut self, written: Vec<u8>) {
        self.written = written;
    }

    /// Returns the same bytes without removing them.
    pub(in crate::tools) fn written(&self) -> &[u8] {
        &self.written
    }

    /// Returns whether the echo is off, or keys are read one by one.
    fn has_other_modes(&self) -> bool {
        let of_lines = LocalFlags::ECHO | LocalFlags::ICANON;
        tcgetattr(&self.slave).is_ok_and(|modes| !modes.local_flags.contains(of_lines))
    }
}
