//! A thread that starts processes: what the sandbox starts ends with the thread that started it, and a question's thread
//! ends with the question.

use std::process::{Child, Command};
use std::sync::mpsc::{Sender, channel};
use std::{io, thread};

/// The thread; the processes that it started end when this is dropped.
pub(in crate::tools) struct Spawner {
    orders: Sender<(Command, Sender<io::Result<Child>>)>,
}

impl Spawner {
    pub(in crate::tools) fn new() -> Self {
        let (orders, ordered) = channel::<(Command, Sender<io::Result<Child>>)>();
        thread::spawn(move || {
            for (mut command, to) in ordered {
                // If the caller is gone, the child isn't wanted: dropping it leaves it to the end of the sandbox.
                let _ = to.send(command.spawn());
            }
        });
        Self { orders }
    }

    pub(in crate::tools) fn spawn(&self, command: Command) -> io::Result<Child> {
        let gone = || io::Error::other("the thread that starts programs has ended");
        let (to, from) = channel();
        self.orders.send((command, to)).map_err(|_| gone())?;
        from.recv().map_err(|_| gone())?
    }
}
