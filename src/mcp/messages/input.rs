//! A program's input, which can tell whether the program has read anything. A program that ended without reading would end in the
//! same way whatever it is sent.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};

use tokio::io::AsyncWrite;
use tokio::net::unix::pipe;

/// The pipe to a program.
pub(in crate::mcp) struct Input {
    pipe: pipe::Sender,
    /// The number of bytes that were written.
    written: Arc<AtomicU64>,
}

/// A second descriptor of the same pipe. The program's input doesn't end as long as it is there.
pub(in crate::mcp) struct Probe {
    pipe: OwnedFd,
    written: Arc<AtomicU64>,
}

impl Input {
    /// Takes a pipe to a program.
    ///
    /// # Errors
    /// No descriptor is left.
    pub(in crate::mcp) fn new(pipe: OwnedFd) -> io::Result<(Self, Probe)> {
        let written = Arc::<AtomicU64>::default();
        let probe = Probe { pipe: pipe.as_fd().try_clone_to_owned()?, written: Arc::clone(&written) };
        Ok((Self { pipe: pipe::Sender::from_owned_fd(pipe)?, written }, probe))
    }
}

impl Probe {
    /// Returns whether all that was written is still in the pipe.
    pub(in crate::mcp) fn is_untouched(&self) -> bool {
        rustix::io::ioctl_fionread(&self.pipe).is_ok_and(|left| left == self.written.load(Ordering::Relaxed))
    }
}

impl AsyncWrite for Input {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.pipe).poll_write(context, bytes);
        if let Poll::Ready(Ok(count)) = &written {
            self.written.fetch_add(*count as u64, Ordering::Relaxed);
        }
        written
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.pipe).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.pipe).poll_shutdown(context)
    }
}
