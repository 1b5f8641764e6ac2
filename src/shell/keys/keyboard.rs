//! The keys of a terminal without a backing shell: one thread reads them and passes each to the receiver for which it was typed,
//! as in a session. It must not know what a key means.

use std::io::{self, PipeReader, Read};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender};
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::pty::PtyMaster;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGWINCH};

use crate::shell::event::{Event, Gate, KeysTo};
use crate::shell::keys::editor::{
    EDITOR_BYTES_MAX, EDITOR_READS, OVERHEARD_LOOK, OVERHEARD_LOOKS, editor_idles, is_readable, keys_are_left,
    nudge_overhearing, set_nonblocking, write_some,
};
use crate::shell::keys::feed::Feed;
use crate::shell::pump::Command;
use crate::shell::terminal::RawTerminal;

/// Reads the keys. While the terminal is lent, it reads none, and the terminal is in its original modes.
pub(in crate::shell) struct Keyboard {
    terminal: RawTerminal,
    is_lent: bool,
    editor: PtyMaster,
    feed: Feed,
    events: Sender<Event>,
    /// The signals that it handles, each with a flag that is set when it arrives.
    signals: [(i32, Arc<AtomicBool>); 4],
    signal_pipe: UnixStream,
    /// Time of the next check whether the editor has missed keys, and the number of checks left.
    overheard_look: Option<(Instant, u32)>,
    is_closed: bool,
}

impl Keyboard {
    pub(in crate::shell) fn new(
        terminal: OwnedFd,
        editor: PtyMaster,
        events: Sender<Event>,
        gate: Arc<Gate>,
    ) -> io::Result<Self> {
        set_nonblocking(&editor)?;
        let (signal_pipe, writer) = UnixStream::pair()?;
        let signals = [SIGWINCH, SIGINT, SIGTERM, SIGHUP].map(|signal| (signal, Arc::new(AtomicBool::new(false))));
        for (signal, flag) in &signals {
            signal_hook::flag::register(*signal, Arc::clone(flag))?;
            signal_hook::low_level::pipe::register(*signal, writer.try_clone()?)?;
        }
        let terminal = RawTerminal::of(terminal)?;
        let feed = Feed::new(gate);
        Ok(Self {
            terminal,
            is_lent: true,
            editor,
            feed,
            events,
            signals,
            signal_pipe,
            overheard_look: None,
            is_closed: false,
        })
    }

    /// Carries keys until the session is closed. If the terminal disappears, the process ends, as it would without us.
    pub(in crate::shell) fn run(&mut self, commands: &Receiver<Command>, wake: &PipeReader) {
        while !self.is_closed {
            let [keys, command, signal] = self.wait(wake);
            if signal {
                self.take_signals();
            }
            if command {
                let mut drain = [0; 64];
                let _ = (&*wake).read(&mut drain);
                while let Ok(command) = commands.try_recv() {
                    self.obey(command);
                }
            }
            if !self.is_lent && keys_are_left(keys, command, &self.terminal) {
                self.read_keys();
            }
            let now = Instant::now();
            if let Some((_, looks_left)) = self.overheard_look.filter(|(at, _)| *at <= now) {
                let looks_left = nudge_overhearing(&self.editor, &self.feed, looks_left);
                self.overheard_look = (looks_left > 0).then(|| (now + OVERHEARD_LOOK, looks_left));
            }
            let _ = self.feed.report_is_late(now);
            let editor_has_all = self.feed.editor_has_all();
            self.feed.handle_time(now, || editor_has_all && editor_idles());
            // The terminal's answers, then the keys.
            (0..2).for_each(|_| self.feed.give_editor(EDITOR_BYTES_MAX, |piece| write_some(&self.editor, piece)));
        }
        self.terminal.restore();
    }

    /// Waits for something to do: keys, a command, a signal.
    fn wait(&self, wake: &PipeReader) -> [bool; 3] {
        let overheard = self.overheard_look.map(|(at, _)| at);
        let editor = (!self.feed.editor_has_all()).then(|| Instant::now() + EDITOR_READS);
        let deadline = [overheard, editor, self.feed.deadline, self.feed.report_due].into_iter().flatten().min();
        let timeout = deadline.map_or(PollTimeout::NONE, |at| {
            let left = at.saturating_duration_since(Instant::now()) + Duration::from_millis(1);
            PollTimeout::try_from(left).unwrap_or(PollTimeout::MAX)
        });
        let mut set = [
            PollFd::new(wake.as_fd(), PollFlags::POLLIN),
            PollFd::new(self.signal_pipe.as_fd(), PollFlags::POLLIN),
            PollFd::new(self.terminal.as_fd(), PollFlags::POLLIN),
        ];
        // While the terminal is lent, another program reads it, and notices its end.
        let listens = !self.is_lent && self.feed.has_room();
        let count = if listens { 3 } else { 2 };
        if poll(&mut set[..count], timeout).is_err() {
            return [false; 3];
        }
        let any = PollFlags::POLLIN | PollFlags::POLLHUP | PollFlags::POLLERR;
        let [wake, signal, keys] = set.map(|it| it.revents().is_some_and(|flags| flags.intersects(any)));
        [keys && listens, wake, signal]
    }

    fn obey(&mut self, command: Command) {
        match command {
            Command::KeysTo { whom: KeysTo::Shell, .. } => {
                self.feed.keys_to(KeysTo::Hold);
                self.terminal.restore();
                self.is_lent = true;
            }
            Command::KeysTo { whom, wakes_seen, .. } => {
                if std::mem::take(&mut self.is_lent) {
                    self.terminal.make_raw();
                }
                match whom {
                    KeysTo::Editor => return self.feed.edit(wakes_seen),
                    KeysTo::Question => self.read_keys_so_far(),
                    _ => {}
                }
                self.feed.keys_to(whom);
                if whom == KeysTo::Cancel && self.feed.take_held_interrupt() {
                    self.cancel();
                }
            }
            Command::ReleaseKeys => self.feed.release(),
            Command::EditorDrawn => self.feed.editor_drawn(),
            Command::Nudge => self.tell(Event::Nudged),
            Command::Close => self.is_closed = true,
            Command::Submit { .. }
            | Command::EndOfFile
            | Command::Interrupt
            | Command::Ask { .. }
            | Command::Press { .. }
            | Command::DrawPrompt { .. }
            | Command::AbandonCompletion
            | Command::Tap(_)
            | Command::Want(_) => {}
        }
    }

    fn read_keys(&mut self) {
        let mut keys = [0; 4096];
        match nix::unistd::read(&self.terminal, &mut keys) {
            Ok(count @ 1..) => match self.feed.take(&keys[..count]) {
                Some(Event::Cancel) => self.cancel(),
                Some(event) => self.tell(event),
                None => {}
            },
            Err(Errno::EINTR | Errno::EAGAIN) => {}
            Ok(_) | Err(_) => self.end_by(SIGHUP),
        }
    }

    /// Cancels an answer. While it runs, no events are read: Ctrl-C arrives as it does on a terminal that isn't raw.
    fn cancel(&self) {
        let _ = kill(Pid::this(), Signal::SIGINT);
    }

    /// Takes the keys that are already in the terminal: keys typed before a question don't answer it.
    fn read_keys_so_far(&mut self) {
        while self.feed.has_room() && is_readable(&self.terminal) {
            self.read_keys();
        }
    }

    fn take_signals(&mut self) {
        let mut drain = [0; 64];
        let _ = (&self.signal_pipe).read(&mut drain);
        for (signal, flag) in self.signals.clone() {
            match (flag.swap(false, Ordering::AcqRel), signal) {
                (false, _) => {}
                (true, SIGWINCH) => self.overheard_look = Some((Instant::now() + OVERHEARD_LOOK, OVERHEARD_LOOKS)),
                (true, SIGINT) if self.feed.whom() == KeysTo::Question => self.tell(Event::Cancel),
                (true, SIGINT) => {}
                (true, signal) => self.end_by(signal),
            }
        }
    }

    /// Restores the terminal, and ends the process as the unhandled signal does.
    fn end_by(&mut self, signal: i32) {
        self.terminal.restore();
        let _ = signal_hook::low_level::emulate_default_handler(signal);
    }

    fn tell(&self, event: Event) {
        // If the receiver is gone, no one has to be notified.
        let _ = self.events.send(event);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;
    use std::thread;

    use super::*;
    use crate::shell::spawn::open_pty;

    /// Longer than a busy machine needs for something immediate.
    const PATIENCE: Duration = Duration::from_secs(20);

    /// A key and a command are both available when the loop looks. The command reads the key, which is from before its question;
    /// the loop must not wait for another one.
    #[test]
    fn a_key_that_a_command_has_read_is_not_waited_for_again() {
        let (person, editor) = (open_pty().expect("a terminal"), open_pty().expect("another"));
        let (events, received) = channel();
        let (commands, orders) = channel();
        let (wake, waker) = io::pipe().expect("a pipe");
        let terminal = RawTerminal::of(person.slave).expect("it is a terminal");
        terminal.make_raw();
        let (signal_pipe, _signals) = UnixStream::pair().expect("a pair");
        let mut keyboard = Keyboard {
            terminal,
            is_lent: false,
            editor: editor.master,
            feed: Feed::new(Arc::default()),
            events,
            signals: [SIGWINCH, SIGINT, SIGTERM, SIGHUP].map(|signal| (signal, Arc::default())),
            signal_pipe,
            overheard_look: None,
            is_closed: false,
        };
        let order = |order: Command| {
            commands.send(order).expect("it listens");
            nix::unistd::write(&waker, b"w").expect("it is woken");
        };
        nix::unistd::write(&person.master, b"x").expect("a key is typed");
        let mut typed = [PollFd::new(keyboard.terminal.as_fd(), PollFlags::POLLIN)];
        assert_eq!(poll(&mut typed, PollTimeout::try_from(PATIENCE).expect("a time")), Ok(1), "the key arrives");
        order(Command::KeysTo { whom: KeysTo::Question, events_seen: 0, wakes_seen: 0 });
        order(Command::Nudge);
        let carrying = thread::spawn(move || keyboard.run(&orders, &wake));
        for time in ["first", "second"] {
            let event = received.recv_timeout(PATIENCE);
            assert!(matches!(event, Ok(Event::Nudged)), "the {time} time: {event:?}");
            order(Command::Nudge);
        }
        order(Command::Close);
        carrying.join().expect("it ends");
    }
}
