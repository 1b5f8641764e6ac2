//! The session as the prompt's loop sees it: hands lines over, waits for events.

use std::cell::Cell;
use std::fs::File;
use std::io::{self, BufReader, PipeReader, PipeWriter, Read, Write};
use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use nix::pty::PtyMaster;

pub use super::event::{Asked, Event, Gate, KeysTo, Notify, Options, ShellPrompt, Tap, Wanted};
use super::pump::{Command, Pump};
use super::spawn::{self, Start};
use super::sys;
use crate::base::hex;
use crate::proto::HumanLine;
use crate::shell::keys::keyboard::Keyboard;

/// Number of random bytes that are fetched at once.
const RANDOM_BYTES_READ: usize = 512;

/// A handle to the pump for the editor's slots and other threads.
#[derive(Clone)]
pub struct Handle {
    sender: Sender<Command>,
    wake: Arc<PipeWriter>,
    gate: Arc<Gate>,
}

impl Handle {
    pub(super) fn send(&self, command: Command) {
        self.queue(command);
        let _ = (&*self.wake).write(&[0]);
    }

    /// Queues a message that the pump may read together with the next command.
    fn queue(&self, command: Command) {
        // A pump that has ended has reported it by Event::Ended or Hangup; no one is left to notify.
        let _ = self.sender.send(command);
    }

    /// Reports that the editor has accepted the line that an Enter submitted, or another key at which it hands over control.
    pub fn editor_accepted(&self) {
        self.gate.accepted.store(true, Ordering::Release);
    }

    /// Sets the keys at which the editor hands over control, as a terminal sends them: it would forget the keys after them.
    pub fn stop_at(&self, keys: Vec<Vec<u8>>) {
        *self.gate.stops.lock() = keys;
    }

    /// Reports that the editor wants another line after an Enter.
    pub fn line_continues(&self) {
        self.send(Command::ReleaseKeys);
    }

    /// Reports that the editor has drawn itself: if an Enter was passed on and the line isn't accepted, the Enter was for a menu
    /// or a search, and the keys after it still belong to the editor.
    pub fn editor_drawn(&self) {
        if self.gate.enter_pending.load(Ordering::Acquire) && !self.gate.accepted.load(Ordering::Acquire) {
            self.send(Command::EditorDrawn);
        }
    }

    /// Asks the live shell a question and waits for the answer, at most `timeout`; after that the shell is interrupted.
    #[must_use]
    pub fn ask(&self, what: Asked, timeout: Duration) -> Vec<String> {
        let (reply, answer) = channel();
        self.send(Command::Ask { what, reply });
        answer.recv_timeout(timeout).unwrap_or_else(|_| {
            self.send(Command::AbandonCompletion);
            Vec::new()
        })
    }

    /// Makes the live shell draw its own prompt, and waits at most `timeout` for the [`Event::Prompt`].
    pub fn draw_prompt(&self, timeout: Duration) {
        let (reply, answer) = channel();
        self.send(Command::DrawPrompt { reply });
        if answer.recv_timeout(timeout).is_err() {
            self.send(Command::AbandonCompletion);
        }
    }

    /// Makes the pump answer with [`Event::Nudged`].
    pub fn nudge(&self) {
        self.send(Command::Nudge);
    }
}

/// A key for the shell's own line editor.
#[derive(Clone, Copy, Debug)]
pub struct Press<'a> {
    /// The line that is being typed.
    pub line: &'a str,
    /// The characters before the cursor.
    pub point: usize,
    /// The key, as readline writes it.
    pub key: &'a str,
    /// A function that runs instead of the key's own binding, with `READLINE_LINE` and `READLINE_POINT`; empty for the binding.
    pub function: &'a str,
    /// The prompt as displayed. Commands that the key runs find it in `PS1`.
    pub prompt: &'a str,
}

/// The running session.
pub struct Session {
    handle: Handle,
    events: Receiver<Event>,
    random: BufReader<File>,
    next_id: u64,
    /// Number of events that were received.
    seen: Cell<u64>,
    /// Number of wake keys that ended the editor.
    wakes_seen: Cell<u64>,
    thread: Option<JoinHandle<()>>,
    shell: Option<u32>,
    /// Held so that the editor always has something to read from.
    _editor_slave: OwnedFd,
}

impl Session {
    /// Starts the shell and the thread that carries the bytes; descriptor 0 becomes the editor's own terminal.
    ///
    /// # Errors
    /// A PTY, a pipe, the thread or the shell can't be made.
    pub fn start(options: &Options, terminal: OwnedFd, before: &nix::sys::termios::Termios) -> io::Result<Self> {
        let mut random = BufReader::with_capacity(RANDOM_BYTES_READ, File::open("/dev/urandom")?);
        let nonce = make_nonce(&mut random)?;
        let start = Start { size: options.start.size.bearable(), ..options.start.clone() };
        let running = spawn::start(&start, options.dialect, &nonce, before)?;
        let shell = running.child.id();
        let session = Self::carried("pump", random, |editor, events, gate| {
            let mut pump = Pump::new(options, running, &nonce, terminal, editor, events, gate)?;
            Ok(move |commands: &Receiver<Command>, wake: &PipeReader| pump.run(commands, wake))
        })?;
        Ok(Self { shell: Some(shell), ..session })
    }

    /// Reads the keys of a terminal without a shell; descriptor 0 becomes the editor's own terminal. At first the terminal is
    /// lent ([`KeysTo::Shell`]). SIGTERM, SIGHUP and the terminal's end terminate the process, after restoring the original
    /// modes.
    ///
    /// # Errors
    /// It is no terminal, or a PTY, a pipe or the thread can't be made.
    pub fn without_shell(terminal: OwnedFd) -> io::Result<Self> {
        let random = BufReader::with_capacity(RANDOM_BYTES_READ, File::open("/dev/urandom")?);
        Self::carried("keyboard", random, |editor, events, gate| {
            let mut keyboard = Keyboard::new(terminal, editor, events, gate)?;
            Ok(move |commands: &Receiver<Command>, wake: &PipeReader| keyboard.run(commands, wake))
        })
    }

    /// A session whose keys and bytes are carried by a thread of this name.
    fn carried<R: FnOnce(&Receiver<Command>, &PipeReader) + Send + 'static>(
        name: &str,
        random: BufReader<File>,
        carrier: impl FnOnce(PtyMaster, Sender<Event>, Arc<Gate>) -> io::Result<R>,
    ) -> io::Result<Self> {
        let editor = spawn::open_pty()?;
        let mut raw = nix::sys::termios::tcgetattr(&editor.slave)?;
        nix::sys::termios::cfmakeraw(&mut raw);
        nix::sys::termios::tcsetattr(&editor.slave, nix::sys::termios::SetArg::TCSANOW, &raw)?;
        sys::replace_standard(std::os::fd::AsFd::as_fd(&editor.slave), 0)?;
        let (sender, commands) = channel();
        let (event_sender, events) = channel();
        let (wake_reader, wake) = io::pipe()?;
        let gate = Arc::new(Gate::default());
        let handle = Handle { sender, wake: Arc::new(wake), gate: Arc::clone(&gate) };
        let run = carrier(editor.master, event_sender, gate)?;
        let thread = std::thread::Builder::new().name(name.into()).spawn(move || run(&commands, &wake_reader))?;
        Ok(Self {
            handle,
            events,
            random,
            next_id: 0,
            seen: Cell::new(0),
            wakes_seen: Cell::new(0),
            thread: Some(thread),
            shell: None,
            _editor_slave: editor.slave,
        })
    }

    /// A session without a terminal, for tests: these events occur, then its end; commands to it are ignored.
    #[cfg(test)]
    pub(crate) fn of_events(scripted: impl IntoIterator<Item = Event>) -> io::Result<Self> {
        let (sender, events) = channel();
        for event in scripted {
            let _ = sender.send(event);
        }
        Ok(Self {
            handle: Handle { sender: channel().0, wake: Arc::new(io::pipe()?.1), gate: Arc::default() },
            events,
            random: BufReader::new(File::open("/dev/urandom")?),
            next_id: 0,
            seen: Cell::new(0),
            wakes_seen: Cell::new(0),
            thread: None,
            shell: None,
            _editor_slave: File::open("/dev/null")?.into(),
        })
    }

    /// The process of the shell, if there is one.
    #[must_use]
    pub fn shell(&self) -> Option<u32> {
        self.shell
    }

    /// A handle to the pump for the editor's slots.
    #[must_use]
    pub fn handle(&self) -> Handle {
        self.handle.clone()
    }

    /// Returns whether the terminal reports the cursor's position, as far as is known.
    #[must_use]
    pub fn terminal_answers(&self) -> bool {
        !self.handle.gate.deaf.load(Ordering::Acquire)
    }

    /// Reports that the prompt is on the screen before the editor has drawn it.
    pub fn prompt_shown(&self) {
        self.handle.gate.shown.store(true, Ordering::Release);
    }

    /// Time when the terminal last sent keys, whoever received them.
    #[must_use]
    pub fn last_keys(&self) -> Option<Instant> {
        *self.handle.gate.last_keys.lock()
    }

    /// Ignores keys that were read at that time: they answered a question, so the person was typing no line.
    pub fn forget_keys(&self, read: Instant) {
        let mut last = self.handle.gate.last_keys.lock();
        *last = last.filter(|at| *at > read);
    }

    /// Sets the receiver of the person's keys.
    pub fn keys_to(&self, whom: KeysTo) {
        if whom == KeysTo::Editor {
            self.handle.gate.accepted.store(false, Ordering::Release);
        }
        let (events_seen, wakes_seen) = (self.seen.get(), self.wakes_seen.get());
        self.handle.send(Command::KeysTo { whom, events_seen, wakes_seen });
    }

    /// Reports that the editor has ended: from now on keys are held.
    pub fn editor_ended(&self) {
        self.handle.gate.shown.store(false, Ordering::Release);
        let command =
            Command::KeysTo { whom: KeysTo::Hold, events_seen: self.seen.get(), wakes_seen: self.wakes_seen.get() };
        // After an Enter the pump holds the keys anyway; waking it twice for one line would cost time.
        if self.handle.gate.enter_pending.load(Ordering::Acquire) {
            self.handle.gate.accepted.store(true, Ordering::Release);
            self.handle.queue(command);
        } else {
            self.handle.send(command);
        }
    }

    /// Changes the options for all further commands.
    pub fn want(&self, wanted: Wanted) {
        self.handle.send(Command::Want(wanted));
    }

    /// Sets or removes the tap that sees the output of commands from now on.
    pub fn tap(&self, tap: Option<Box<dyn Tap>>) {
        self.handle.send(Command::Tap(tap));
    }

    /// Reports that the pump's wake key ended the editor.
    pub fn woken(&self) {
        self.wakes_seen.set(self.wakes_seen.get() + 1);
    }

    /// Hands a line to the shell and lends it the terminal. Progress is reported by events, the last one of which is
    /// [`Event::Finished`], [`Event::Incomplete`] or [`Event::Ended`].
    ///
    /// # Errors
    /// The line contains a NUL byte, which no shell can take, or the system provides no random bytes.
    pub fn submit(&mut self, line: &HumanLine, want_names: bool) -> io::Result<()> {
        if line.text().contains('\0') {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "the line holds a NUL byte"));
        }
        self.next_id += 1;
        let nonce = make_nonce(&mut self.random)?;
        self.handle.send(Command::Submit { id: self.next_id, nonce, line: line.text().to_owned(), want_names });
        Ok(())
    }

    /// Makes the shell's own line editor press a key on a line, and lends it the terminal until [`Event::Line`].
    pub fn press(&mut self, press: &Press<'_>) {
        self.next_id += 1;
        let (id, point) = (self.next_id.to_string(), press.point.to_string());
        let fields = [&id, press.line, &point, press.key, press.function, press.prompt];
        let record = fields.map(|field| field.replace('\0', "") + "\0").concat();
        self.handle.send(Command::Press { id: self.next_id, record, prompt: press.prompt.to_owned() });
    }

    /// Sends the shell an end of file, as Ctrl-D on an empty line does: it ends, or reports why not.
    pub fn end_of_file(&self) {
        self.handle.send(Command::EndOfFile);
    }

    /// Sends the shell's line editor Ctrl-C, which sets the status and runs a trap and the hooks. It ends as a line does:
    /// with [`Event::Finished`], or [`Event::Incomplete`] if the shell doesn't heed it.
    pub fn interrupt(&self) {
        self.handle.send(Command::Interrupt);
    }

    /// Waits for the next event.
    #[must_use]
    pub fn next_event(&self) -> Event {
        let event = self.events.recv().unwrap_or(Event::Hangup);
        self.seen.set(self.seen.get() + 1);
        event
    }

    /// Waits for the next event, at most `timeout`.
    #[must_use]
    pub fn next_event_within(&self, timeout: Duration) -> Option<Event> {
        match self.events.recv_timeout(timeout) {
            Ok(event) => {
                self.seen.set(self.seen.get() + 1);
                Some(event)
            }
            Err(RecvTimeoutError::Timeout) => None,
            Err(RecvTimeoutError::Disconnected) => Some(Event::Hangup),
        }
    }

    /// Returns an event that has already arrived.
    #[must_use]
    pub fn pending_event(&self) -> Option<Event> {
        let event = self.events.try_recv().ok()?;
        self.seen.set(self.seen.get() + 1);
        Some(event)
    }

    /// Ends the pump. The shell's terminal closes with it.
    pub fn close(&mut self) {
        self.handle.send(Command::Close);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// 128 random bits as hexadecimal text.
fn make_nonce(random: &mut impl Read) -> io::Result<String> {
    let mut bytes = [0; 16];
    random.read_exact(&mut bytes)?;
    Ok(hex::encode(&bytes))
}

/// Writes all bytes to a terminal, waiting while it can't take more.
///
/// # Errors
/// The terminal has gone.
pub(super) fn write_fully(descriptor: BorrowedFd, mut bytes: &[u8]) -> io::Result<()> {
    use nix::errno::Errno;
    use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
    while !bytes.is_empty() {
        match nix::unistd::write(descriptor, bytes) {
            Ok(count) => bytes = &bytes[count..],
            Err(Errno::EINTR) => {}
            Err(Errno::EAGAIN) => {
                let _ = poll(&mut [PollFd::new(descriptor, PollFlags::POLLOUT)], PollTimeout::NONE);
            }
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}
