//! The person's terminal: its original modes, and raw mode for the whole session.

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
    /// Makes the terminal on `descriptor` raw and remembers its modes.
    ///
    /// # Errors
    /// It is no terminal.
    pub fn enter(descriptor: OwnedFd) -> io::Result<Self> {
        let terminal = Self::of(descriptor)?;
        let mut raw = terminal.before.clone();
        termios::cfmakeraw(&mut raw);
        // TCSADRAIN, not FLUSH: keys typed ahead aren't lost.
        termios::tcsetattr(&terminal.descriptor, SetArg::TCSADRAIN, &raw)?;
        Ok(terminal)
    }

    /// Remembers the modes of the terminal on `descriptor`, and doesn't change them.
    ///
    /// # Errors
    /// It is no terminal.
    pub fn of(descriptor: OwnedFd) -> io::Result<Self> {
        let before = termios::tcgetattr(&descriptor)?;
        Ok(Self { descriptor, before })
    }

    /// Makes the terminal raw except for its output, to which other programs write lines.
    pub(super) fn make_raw(&self) {
        let mut raw = self.before.clone();
        termios::cfmakeraw(&mut raw);
        raw.output_flags = self.before.output_flags;
        // A terminal that has disappeared is noticed when keys are read.
        let _ = termios::tcsetattr(self.descriptor.as_fd(), SetArg::TCSADRAIN, &raw);
    }

    /// The original modes.
    #[must_use]
    pub fn before(&self) -> &Termios {
        &self.before
    }

    /// Restores the original modes.
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
