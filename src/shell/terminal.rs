//! The person's terminal: its modes before us, and raw for the whole session.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use nix::sys::termios::{self, SetArg, Termios};

/// The person's terminal, raw until this is dropped or restored.
#[derive(Debug)]
pub struct RawTerminal {
    descriptor: OwnedFd,
    before: Termios,
}

impl RawTerminal {
    /// Makes the terminal on `descriptor` raw and remembers how it was.
    ///
    /// # Errors
    /// It is no terminal.
    pub fn enter(descriptor: OwnedFd) -> io::Result<Self> {
        let terminal = Self::of(descriptor)?;
        let mut raw = terminal.before.clone();
        termios::cfmakeraw(&mut raw);
        // TCSADRAIN, not FLUSH: what was typed ahead stays.
        termios::tcsetattr(&terminal.descriptor, SetArg::TCSADRAIN, &raw)?;
        Ok(terminal)
    }

    /// Remembers how the terminal on `descriptor` is, and leaves it so.
    ///
    /// # Errors
    /// It is no terminal.
    pub fn of(descriptor: OwnedFd) -> io::Result<Self> {
        let before = termios::tcgetattr(&descriptor)?;
        Ok(Self { descriptor, before })
    }

    /// Makes it raw but for its output, which others write in lines.
    pub(super) fn make_raw(&self) {
        let mut raw = self.before.clone();
        termios::cfmakeraw(&mut raw);
        raw.output_flags = self.before.output_flags;
        // A terminal that has gone is noticed where keys are read.
        let _ = termios::tcsetattr(self.descriptor.as_fd(), SetArg::TCSADRAIN, &raw);
    }

    /// The modes from before.
    #[must_use]
    pub fn before(&self) -> &Termios {
        &self.before
    }

    /// Puts the modes from before back.
    pub fn restore(&self) {
        let _ = termios::tcsetattr(self.descriptor.as_fd(), SetArg::TCSADRAIN, &self.before);
    }
}

impl AsFd for RawTerminal {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.descriptor.as_fd()
    }
}

impl Drop for RawTerminal {
    fn drop(&mut self) {
        self.restore();
    }
}
