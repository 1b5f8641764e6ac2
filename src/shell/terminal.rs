//! The person's terminal: its modes before us, and raw for the whole session.

use std::io;
use std::os::fd::{AsFd, OwnedFd};

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
        let before = termios::tcgetattr(&descriptor)?;
        let mut raw = before.clone();
        termios::cfmakeraw(&mut raw);
        // TCSADRAIN, not FLUSH: what was typed ahead stays.
        termios::tcsetattr(&descriptor, SetArg::TCSADRAIN, &raw)?;
        Ok(Self { descriptor, before })
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

impl Drop for RawTerminal {
    fn drop(&mut self) {
        self.restore();
    }
}
