//! The thread that carries bytes between the person's terminal, the editor's PTY and the shell's.
//!
//! This file owns the descriptors and the waiting; `feed` decides where keys go, `flow` what output means.

use std::io::{self, PipeReader, Read, Seek, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender};
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::pty::PtyMaster;

use super::around::Around;
use super::bytes::capture::Recorder;
use super::bytes::modes::Modes;
use super::bytes::scan::Scanner;
use super::bytes::typed::TypedEcho;
use super::event::{Asked, Event, Gate, KeysTo, Options, ShellPrompt, Tap, Wanted};
use super::phase::{Current, Drawn, Phase};
use super::regain::Lost;
use super::session::write_fully;
use super::spawn::{Dialect, Running};
use super::sys;
use crate::shell::keys::editor::{
    EDITOR_BYTES_MAX, EDITOR_READS, OVERHEARD_LOOK, OVERHEARD_LOOKS, editor_has_unread, editor_idles, is_readable,
    keys_are_left, nudge_overhearing, set_nonblocking, write_some,
};
use crate::shell::keys::feed::Feed;
use crate::shell::keys::pressed::Pressed;
use crate::shell::lookup::names;

/// Four reads of a PTY, each of at most 4,095 bytes, are gathered into one write. With room for a few bytes more, a fifth read
/// would fetch only those, and the program that displays the output would read them separately, too.
const OUTPUT_BYTES_GATHERED: usize = 4 * 4095;
/// A read shorter than this has emptied the PTY: a full one returns nearly 4 KiB.
const SHORT_READ_BYTES: usize = 2 * 1024;
/// A PTY holds some 64 KiB of unread bytes: 16 reads of 16 KiB are more than that.
const READS_SO_FAR_MAX: usize = 16;
/// Time for which the start of a possible marker is held back.
const HELD_OUTPUT: Duration = Duration::from_millis(8);
/// Time in which the loop must notice that the session is over.
const CLOSE_WAIT: Duration = Duration::from_secs(5);
/// Time in which the shell must mark that a line has started or that it reads again, before we go on without the mark: long for a
/// busy machine, short if the previous mark was missing too (`exec 2>file`).
const MARK_WAIT: Duration = Duration::from_secs(1);
const MISSING_MARK_WAIT: Duration = Duration::from_millis(50);
/// Limit on a report, beyond which it is dropped: the names of a sane session take a few 10 KiB.
const REPORT_BYTES_MAX: usize = 4 * 1024 * 1024;
/// Time for which a report that is being written is left alone. The shell writes each name separately, and waking for each would
/// cost both sides more than the report.
const REPORT_WAIT: Duration = Duration::from_millis(10);

/// A request of the prompt's loop to the pump.
#[derive(Debug)]
pub enum Command {
    /// The receiver of the keys, and how many events and wake keys the loop has seen.
    KeysTo {
        whom: KeysTo,
        events_seen: u64,
        wakes_seen: u64,
    },
    ReleaseKeys,
    EditorDrawn,
    Submit {
        id: u64,
        nonce: String,
        line: String,
        want_names: bool,
    },
    EndOfFile,
    /// Ctrl-C for the shell's line editor.
    Interrupt,
    /// A key for the shell's own line editor, as its request.
    Press {
        id: u64,
        record: String,
        /// The prompt as it is drawn.
        prompt: String,
    },
    Ask {
        what: Asked,
        reply: Sender<Vec<String>>,
    },
    /// The shell's own prompt, as its report.
    DrawPrompt {
        reply: Sender<Vec<String>>,
    },
    AbandonCompletion,
    Want(Wanted),
    Tap(Option<Box<dyn Tap>>),
    Nudge,
    Close,
}

/// Flags that signal handlers set.
#[derive(Default)]
struct Signals {
    window: Arc<AtomicBool>,
    child: Arc<AtomicBool>,
    end: Arc<AtomicBool>,
}

/// The pump's state.
pub struct Pump {
    pub(super) shell: Running,
    terminal: OwnedFd,
    editor: PtyMaster,
    events: Sender<Event>,
    signals: Signals,
    signal_pipe: UnixStream,
    pub(super) feed: Feed,
    pub(super) phase: Phase,
    pub(super) current: Option<Current>,
    pub(super) scanner: Scanner,
    pub(super) modes: Modes,
    pub(super) recorder: Recorder,
    /// The terminal's echo of keys that are sent to a command.
    pub(super) typed: TypedEcho,
    pub(super) options: Options,
    /// Output gathered for one write.
    pub(super) out: Vec<u8>,
    /// Gets the output of commands, once the terminal has it.
    pub(super) tap: Option<Box<dyn Tap>>,
    /// Bytes that the tap hasn't seen yet.
    pub(super) untapped: Vec<u8>,
    report: Vec<u8>,
    /// Time until which a report that is being written is left alone.
    pub(super) report_after: Option<Instant>,
    /// Buffer for reads from the shell's terminal; reused, because it is large.
    buffer: Vec<u8>,
    /// `true` if names are wanted with the next prompt.
    pub(super) want_names: bool,
    scanner_deadline: Option<Instant>,
    /// The pending completion: its number, and the receiver of its answer.
    pub(super) completion: Option<(u64, Sender<Vec<String>>)>,
    completions: u64,
    /// The key that the shell's own line editor presses.
    pub(super) pressed: Option<Pressed>,
    /// `true` if the shell was let go on after such a key since its line editor last read.
    pub(super) release_acknowledged: bool,
    /// Number of events that were sent.
    sent_events: u64,
    /// The request that waits until readline reads.
    waiting: Option<Command>,
    /// The nonce of the last line handed over, until the scanner has it.
    pub(super) next_nonce: Option<String>,
    ended: bool,
    /// `true` if the loop has ended the session.
    closed: bool,
    /// The shell's command line at its start, to notice when `exec` replaces the shell.
    pub(super) command_line: Vec<u8>,
    pub(super) replaced: bool,
    /// `true` if readline's last prompt reached the terminal.
    pub(super) prompt_marked: bool,
    /// `true` if that mark may still arrive although we stopped waiting for it.
    pub(super) prompt_mark_late: bool,
    /// The reports to the terminal.
    pub(super) around: Around,
    /// `true` if the shell prints the lines that it reads.
    pub(super) verbose: bool,
    /// `true` if the shell reads lines without its line editor.
    pub(super) plain: bool,
    /// `true` if the last line's start was marked.
    pub(super) start_marked: bool,
    /// The state of a shell's prompt that isn't ours.
    pub(super) lost: Lost,
    /// A prompt that the shell draws itself.
    pub(super) drawn: Drawn,
    /// Time of the next check whether the editor has missed keys, and the number of checks left.
    overheard_look: Option<(Instant, u32)>,
    /// Time of the next check whether fish has handed its terminal over, and the number of checks left.
    pub(super) hand_over_look: Option<(Instant, u32)>,
    /// Time by which all work of the start is done, some time after the first prompt.
    pub(super) started: Option<Instant>,
}

impl Pump {
    pub(super) fn new(
        options: &Options,
        shell: Running,
        nonce: &str,
        terminal: OwnedFd,
        editor: PtyMaster,
        events: Sender<Event>,
        gate: Arc<Gate>,
    ) -> io::Result<Self> {
        for master in [&shell.master, &editor] {
            set_nonblocking(master)?;
        }
        let (signal_pipe, writer) = UnixStream::pair()?;
        let signals = Signals::default();
        use signal_hook::consts::{SIGCHLD, SIGHUP, SIGTERM, SIGWINCH};
        for (signal, flag) in
            [(SIGWINCH, &signals.window), (SIGCHLD, &signals.child), (SIGHUP, &signals.end), (SIGTERM, &signals.end)]
        {
            signal_hook::flag::register(signal, Arc::clone(flag))?;
            signal_hook::low_level::pipe::register(signal, writer.try_clone()?)?;
        }
        let mut scanner = Scanner::default();
        scanner.expect_nonce(nonce);
        Ok(Self {
            shell,
            terminal,
            editor,
            events,
            signals,
            signal_pipe,
            feed: Feed::new(gate),
            phase: Phase::Starting,
            current: None,
            scanner,
            modes: Modes::default(),
            recorder: Recorder::new(options.wanted.capture_head_bytes, options.wanted.capture_tail_bytes),
            typed: TypedEcho::default(),
            options: options.clone(),
            out: Vec::with_capacity(OUTPUT_BYTES_GATHERED),
            tap: None,
            untapped: Vec::new(),
            report: Vec::new(),
            report_after: None,
            buffer: vec![0; OUTPUT_BYTES_GATHERED],
            want_names: true,
            scanner_deadline: None,
            completion: None,
            completions: 0,
            pressed: None,
            release_acknowledged: false,
            sent_events: 0,
            waiting: None,
            next_nonce: None,
            ended: false,
            closed: false,
            command_line: Vec::new(),
            replaced: false,
            prompt_marked: true,
            prompt_mark_late: false,
            drawn: Drawn::default(),
            around: Around::new(options.start.front.clone(), options.wanted.notify),
            verbose: false,
            plain: false,
            start_marked: true,
            lost: Lost::default(),
            overheard_look: None,
            hand_over_look: None,
            started: None,
        })
    }

    /// Carries bytes until the shell has ended, the terminal has disappeared or the session is closed.
    pub(super) fn run(&mut self, commands: &Receiver<Command>, wake: &PipeReader) {
        while !self.ended {
            let ready = self.wait(wake);
            if ready[3] {
                self.handle_signals();
            }
            if ready[2] {
                let mut drain = [0; 64];
                let _ = (&*wake).read(&mut drain);
                while let Ok(command) = commands.try_recv() {
                    self.obey(command);
                }
            }
            if keys_are_left(ready[0], ready[2], &self.terminal) {
                self.read_keys();
            }
            if ready[4] {
                self.read_report();
            }
            if ready[1] {
                self.read_output();
            }
            self.handle_time();
            self.write_pending();
        }
        self.await_close(commands);
    }

    /// Holds the editor's terminal open, and the editor awake, until the loop has seen the end: an editor whose terminal has
    /// disappeared would read its end of file for ever. If the loop doesn't return in time, the process is ended.
    fn await_close(&mut self, commands: &Receiver<Command>) {
        let until = Instant::now() + CLOSE_WAIT;
        while !self.closed {
            self.feed.end_editor();
            // The terminal's answers, then the keys.
            (0..2).for_each(|_| self.feed.give_editor(usize::MAX, |piece| write_some(&self.editor, piece)));
            match commands.recv_timeout(until.saturating_duration_since(Instant::now())) {
                Ok(Command::KeysTo { whom, .. }) => self.feed.keys_to(whom),
                Ok(Command::Nudge) => self.tell(Event::Nudged),
                Ok(Command::Close) | Err(RecvTimeoutError::Disconnected) => self.closed = true,
                Ok(_) => {}
                Err(RecvTimeoutError::Timeout) => std::process::exit(128 + signal_hook::consts::SIGHUP),
            }
        }
    }

    /// Waits for something to do. The result: keys, output, a command, a signal, a report.
    fn wait(&mut self, wake: &PipeReader) -> [bool; 5] {
        let timeout = match self.next_deadline() {
            None => PollTimeout::NONE,
            Some(deadline) => {
                let left = deadline.saturating_duration_since(Instant::now());
                PollTimeout::try_from(left + Duration::from_millis(1)).unwrap_or(PollTimeout::MAX)
            }
        };
        let mut master_wants = PollFlags::POLLIN;
        if !self.feed.to_shell.is_empty() {
            master_wants |= PollFlags::POLLOUT;
        }
        let keys_wanted = if self.feed.has_room() { PollFlags::POLLIN } else { PollFlags::empty() };
        let report_wanted = if self.report_after.is_none() { PollFlags::POLLIN } else { PollFlags::empty() };
        let mut set = [
            PollFd::new(self.terminal.as_fd(), keys_wanted),
            PollFd::new(self.shell.master.as_fd(), master_wants),
            PollFd::new(wake.as_fd(), PollFlags::POLLIN),
            PollFd::new(self.signal_pipe.as_fd(), PollFlags::POLLIN),
            PollFd::new(self.shell.channels.report.as_fd(), report_wanted),
        ];
        if poll(&mut set, timeout).is_err() {
            return [false; 5];
        }
        let any = PollFlags::POLLIN | PollFlags::POLLHUP | PollFlags::POLLERR;
        std::array::from_fn(|index| set[index].revents().is_some_and(|flags| flags.intersects(any)))
    }

    fn next_deadline(&self) -> Option<Instant> {
        let mark = self.mark_deadline();
        let editor = (!self.feed.editor_has_all()).then(|| Instant::now() + EDITOR_READS);
        let hand_over = self.hand_over_look.map(|(at, _)| at);
        let overheard = self.overheard_look.map(|(at, _)| at);
        [
            self.scanner_deadline,
            self.lost.deadline(),
            mark,
            hand_over,
            overheard,
            self.feed.deadline,
            self.feed.report_due,
            self.replaced_deadline(),
            self.report_after,
            self.started,
            self.around.next_look(),
            editor,
        ]
        .into_iter()
        .flatten()
        .min()
    }

    pub(super) fn is_fish(&self) -> bool {
        self.options.dialect == Dialect::Fish
    }

    /// Asks the shell's own line editor for the line of a key.
    pub(super) fn release(&mut self) {
        self.feed.to_shell.extend_from_slice(self.options.dialect.release_keys());
    }

    fn is_incomplete(&self) -> bool {
        self.options.dialect != Dialect::Fish && self.current.as_ref().is_some_and(Current::is_incomplete)
    }

    fn mark_deadline(&self) -> Option<Instant> {
        // fish marks on the terminal itself: the mark is missing only if fish hangs.
        let fish = self.options.dialect == Dialect::Fish;
        let (since, usual) = match &self.phase {
            // A line for which the shell wants more lines never starts: it is left by Ctrl-C, which an editor that is only just
            // starting may not notice.
            Phase::Sent { since } if self.is_incomplete() => return Some(*since + MISSING_MARK_WAIT),
            Phase::Sent { since } => (since, self.start_marked || fish),
            Phase::Prompting { since, .. } => (since, self.prompt_marked || fish),
            _ => return None,
        };
        Some(*since + if usual { MARK_WAIT } else { MISSING_MARK_WAIT })
    }

    fn handle_time(&mut self) {
        let now = Instant::now();
        let mark_missing = self.mark_deadline().is_some_and(|at| at <= now);
        if self.scanner_deadline.is_some_and(|at| at <= now) {
            self.scanner_deadline = None;
            self.with_scanner(|scanner, sink| scanner.release(sink));
            self.show_held();
            self.flush_output();
        }
        match self.phase {
            Phase::Sent { .. } if mark_missing && self.is_incomplete() => {
                self.feed.to_shell.push(3);
                self.phase = Phase::Sent { since: now };
            }
            // No start mark: the shell's standard error goes elsewhere, or it is busy. Everything is passed on.
            Phase::Sent { .. } if mark_missing => {
                self.start_marked = false;
                self.command_started();
            }
            // No prompt mark, for the same reason.
            Phase::Prompting { .. } if mark_missing => {
                self.prompt_marked = false;
                self.prompt_mark_late = true;
                self.readline_reads();
            }
            _ => {}
        }
        if let Some((_, looks_left)) = self.hand_over_look.filter(|(at, _)| *at <= now) {
            self.look_for_hand_over(looks_left);
        }
        if let Some((_, looks_left)) = self.overheard_look.filter(|(at, _)| *at <= now) {
            self.look_for_overheard(now, looks_left);
        }
        if self.replaced_deadline().is_some_and(|at| at <= now) {
            self.check_replaced();
        }
        self.look_for_lost_prompt(now);
        self.look_at_foreground(now);
        if self.report_after.is_some_and(|at| at <= now) {
            self.report_after = None;
        }
        if self.started.is_some_and(|at| at <= now) {
            // Memory that only the start needed is released: a session may last for days.
            self.started = None;
            sys::release_program_pages();
            sys::release_free_memory();
        }
        if self.feed.report_is_late(now) {
            self.out.extend_from_slice(b"\r\x1b[K");
            self.flush_output();
        }
        let editor_has_all = self.feed.editor_has_all();
        self.feed.handle_time(now, || editor_has_all && editor_idles());
    }

    fn obey(&mut self, command: Command) {
        match command {
            Command::KeysTo { whom, events_seen, wakes_seen } => {
                if events_seen == self.sent_events {
                    self.feed.events_seen();
                }
                if whom == KeysTo::Editor {
                    return self.feed.edit(wakes_seen);
                }
                if whom == KeysTo::Question {
                    self.read_keys_so_far();
                }
                // If the shell's readline waits, it would treat the keys as a line of its own.
                let is_busy = matches!(self.phase, Phase::Starting | Phase::Sent { .. } | Phase::Running { .. });
                self.feed.keys_to(if whom == KeysTo::Shell && !is_busy { KeysTo::Hold } else { whom });
                if whom == KeysTo::Cancel && self.feed.take_held_interrupt() {
                    self.tell(Event::Cancel);
                }
            }
            Command::ReleaseKeys => self.feed.release(),
            Command::EditorDrawn => self.feed.editor_drawn(),
            Command::Submit { .. } | Command::EndOfFile | Command::Interrupt | Command::Press { .. } => {
                match self.phase {
                    Phase::Reading => self.hand_over(command),
                    // Readline isn't ready yet: it gets the line as soon as it is.
                    _ => self.waiting = Some(command),
                }
            }
            // If the shell can't be asked, the dropped reply is the answer.
            Command::Ask { .. } | Command::DrawPrompt { .. } => match self.phase {
                Phase::Reading => self.hand_over(command),
                // The prompt is drawn a moment before the shell's editor reads; the same is true of the answer to a completion.
                Phase::Prompting { .. } | Phase::Completing { answered: true } if self.waiting.is_none() => {
                    self.waiting = Some(command);
                }
                _ => {}
            },
            Command::AbandonCompletion => {
                self.waiting.take_if(|waiting| matches!(waiting, Command::Ask { .. } | Command::DrawPrompt { .. }));
                if self.completion.take().is_some() && matches!(self.phase, Phase::Completing { .. }) {
                    self.feed.to_shell.push(3);
                    // After an interrupt, zsh and fish draw their prompt again but may still owe us the answer.
                    if self.options.dialect != Dialect::Bash {
                        self.completion_done();
                    }
                }
            }
            Command::Want(wanted) => {
                self.options.wanted = wanted;
                self.recorder = Recorder::new(wanted.capture_head_bytes, wanted.capture_tail_bytes);
                self.around.announce(wanted.notify);
            }
            Command::Tap(tap) => self.tap = tap,
            Command::Nudge => self.tell(Event::Nudged),
            Command::Close => (self.ended, self.closed) = (true, true),
        }
    }

    pub(super) fn hand_over_waiting(&mut self) {
        if let Some(command) = self.waiting.take() {
            self.hand_over(command);
        }
    }

    fn hand_over(&mut self, command: Command) {
        match command {
            Command::Submit { line, .. } if self.plain => {
                // No private key works without the line editor, so the nonce stays; and the names may change in any way.
                self.want_names = true;
                self.line_sent(line.clone());
                self.type_plain_line(&line);
            }
            Command::Ask { .. } | Command::DrawPrompt { .. } if self.plain => {}
            Command::Submit { id, nonce, line, want_names } => {
                self.learn_place();
                self.want_names |= want_names;
                let record =
                    [id.to_string().as_bytes(), b"\0", nonce.as_bytes(), b"\0", line.as_bytes(), b"\0"].concat();
                if self.write_request(&record).is_ok() {
                    self.next_nonce = Some(nonce);
                    self.line_sent(line);
                    self.feed.to_shell.extend_from_slice(self.options.dialect.submit_keys());
                }
            }
            Command::Ask { what, reply } => {
                if let Some(fields) = what.fields() {
                    self.ask_shell(&fields, reply);
                }
            }
            // A completion is never requested with the letter `p`.
            Command::DrawPrompt { reply } => self.ask_shell("\0p\0", reply),
            Command::Press { id, record, prompt } if self.write_request(record.as_bytes()).is_ok() => {
                self.press(Pressed::new(id, &prompt));
            }
            Command::EndOfFile => {
                self.line_sent(String::new());
                self.feed.keys_to(KeysTo::Shell);
                self.command_started();
                self.feed.to_shell.push(4);
            }
            Command::Interrupt => self.interrupt(),
            _ => {}
        }
    }

    /// Asks the shell for a value without running a line, by its report.
    fn ask_shell(&mut self, what: &str, reply: Sender<Vec<String>>) {
        self.completions += 1;
        let id = self.completions;
        if self.write_request(format!("{id}\0{what}").as_bytes()).is_ok() {
            self.completion = Some((id, reply));
            self.phase = Phase::Completing { answered: false };
            self.feed.to_shell.extend_from_slice(self.options.dialect.complete_keys());
        }
    }

    fn write_request(&mut self, record: &[u8]) -> io::Result<()> {
        let file = &mut self.shell.channels.request;
        file.set_len(0)?;
        file.rewind()?;
        file.write_all(record)
    }

    fn read_keys(&mut self) {
        let mut keys = [0; 4096];
        match nix::unistd::read(&self.terminal, &mut keys) {
            Ok(0) => self.hang_up(),
            Ok(count) => {
                let keys = self.around.without_focus(&keys[..count], self.modes.reports_focus());
                self.note_interrupt(&keys);
                if let Some(event) = self.feed.take(&keys) {
                    self.tell(event);
                }
            }
            Err(Errno::EINTR | Errno::EAGAIN) => {}
            Err(_) => self.hang_up(),
        }
    }

    /// Takes the keys that are already in the terminal: keys typed before a question don't answer it.
    fn read_keys_so_far(&mut self) {
        while !self.ended && self.feed.has_room() && is_readable(&self.terminal) {
            self.read_keys();
        }
    }

    fn read_output(&mut self) {
        let mut buffer = std::mem::take(&mut self.buffer);
        let mut filled = 0;
        let mut gone = false;
        while filled < buffer.len() {
            match nix::unistd::read(&self.shell.master, &mut buffer[filled..]) {
                Ok(0) => gone = true,
                // A short read has emptied the terminal; another attempt would only cost time.
                Ok(count) => {
                    filled += count;
                    if count >= SHORT_READ_BYTES {
                        continue;
                    }
                }
                Err(Errno::EINTR) => continue,
                Err(Errno::EAGAIN) => {}
                Err(_) => gone = true,
            }
            break;
        }
        if filled > 0 {
            self.take_output(&buffer[..filled]);
        }
        self.buffer = buffer;
        if gone {
            if self.shell.child.has_stopped() {
                self.shell_stopped();
            }
            self.shell_ended();
        }
    }

    /// Reads the shell's output so far; polling makes the kernel transfer the last written bytes. A background job may go on
    /// writing, so the number of reads is limited.
    pub(super) fn read_output_so_far(&mut self) {
        for _ in 0..READS_SO_FAR_MAX {
            let readable = poll(&mut [PollFd::new(self.shell.master.as_fd(), PollFlags::POLLIN)], PollTimeout::ZERO);
            if self.ended || readable != Ok(1) {
                break;
            }
            self.read_output();
        }
    }

    pub(super) fn take_output(&mut self, bytes: &[u8]) {
        if let Some(nonce) = self.next_nonce.take() {
            self.scanner.expect_nonce(&nonce);
        }
        self.with_scanner(|scanner, sink| scanner.feed(bytes, sink));
        self.note_output_of_command();
        self.scanner_deadline = (self.scanner.holds() || self.holds_line()).then(|| Instant::now() + HELD_OUTPUT);
        self.flush_output();
    }

    /// Writes the gathered output to the person's terminal.
    pub(super) fn flush_output(&mut self) {
        if !self.out.is_empty() {
            if write_fully(io::stdout().as_fd(), &self.out).is_err() {
                self.hang_up();
            }
            self.out.clear();
        }
        if let Some(tap) = self.tap.as_ref().filter(|_| !self.untapped.is_empty()) {
            tap.output(&self.untapped);
            self.untapped.clear();
        }
    }

    fn write_pending(&mut self) {
        if !self.feed.to_shell.is_empty() {
            let mut keys = self.feed.to_shell.clone();
            write_some(&self.shell.master, &mut self.feed.to_shell);
            keys.truncate(keys.len() - self.feed.to_shell.len());
            self.note_typed(&keys);
        }
        self.write_to_editor();
    }

    fn write_to_editor(&mut self) {
        if !self.feed.editor_has_all() && !editor_has_unread() {
            self.feed.give_editor(EDITOR_BYTES_MAX, |piece| write_some(&self.editor, piece));
        }
    }

    /// Makes an editor that sleeps although it has unread keys read them, with a key that means nothing to it.
    fn look_for_overheard(&mut self, now: Instant, looks_left: u32) {
        let looks_left = nudge_overhearing(&self.editor, &self.feed, looks_left);
        self.overheard_look = (looks_left > 0).then(|| (now + OVERHEARD_LOOK, looks_left));
    }

    fn read_report(&mut self) {
        let Ok(count) = (&self.shell.channels.report).read(&mut self.buffer) else { return };
        self.report.extend_from_slice(&self.buffer[..count]);
        while let Some(end) = self.report.iter().position(|byte| *byte == 0) {
            let record: Vec<u8> = self.report.drain(..=end).collect();
            self.take_report(&record[..end]);
        }
        if self.report.len() > REPORT_BYTES_MAX {
            self.report.clear();
        }
        if !self.report.is_empty() && matches!(self.phase, Phase::Prompting { .. }) && count < self.buffer.len() {
            self.await_report();
        }
    }

    /// Leaves the report alone until the shell has had time to write it completely.
    pub(super) fn await_report(&mut self) {
        self.report_after = Some(Instant::now() + REPORT_WAIT);
    }

    fn take_report(&mut self, record: &[u8]) {
        let head = record.iter().position(|byte| *byte == b'\n').unwrap_or(record.len());
        let body = record.get(head + 1..).unwrap_or_default();
        match &record[..head] {
            b"names" => {
                let (names, path) = names::parse(body);
                self.tell(Event::Names(Box::new(names), path));
            }
            b"found" => self.prompt_found(body),
            // fish reads keys only after it has done all the work that the key has queued. Meanwhile it draws its line several
            // times, without our prompt.
            b"later" => {
                self.read_output_so_far();
                if let Some(pressed) = &mut self.pressed {
                    pressed.is_released = true;
                    pressed.draws_unseen = true;
                    self.release();
                }
                // Only now may it continue drawing.
                let _ = self.shell.channels.acknowledge.write_all(b"\n");
                self.release_acknowledged = true;
            }
            b"line" => self.line_released(&String::from_utf8_lossy(body)),
            b"prompt" => {
                let body = String::from_utf8_lossy(body);
                self.tell(Event::Prompt(ShellPrompt::of_report(&body, self.options.dialect)));
            }
            b"edit" => self.tell(Event::Edit(String::from_utf8_lossy(body).into_owned())),
            b"complete" => {
                let text = String::from_utf8_lossy(body);
                let mut lines = text.lines();
                let id = lines.next().and_then(|line| line.parse().ok());
                if let Some((_, reply)) = self.completion.take_if(|(wanted, _)| Some(*wanted) == id) {
                    let _ = reply.send(lines.filter(|line| !line.is_empty()).map(str::to_owned).collect());
                }
                self.completion_done();
            }
            _ => {}
        }
    }

    fn handle_signals(&mut self) {
        let mut drain = [0; 64];
        let _ = (&self.signal_pipe).read(&mut drain);
        if self.signals.window.swap(false, Ordering::AcqRel)
            && let Ok(size) = sys::window_size(self.terminal.as_fd())
        {
            let _ = sys::set_window_size(self.shell.master.as_fd(), size.bearable());
            if let Some(tap) = &self.tap {
                tap.resized(size.bearable().columns, size.bearable().rows);
            }
            self.overheard_look = Some((Instant::now() + OVERHEARD_LOOK, OVERHEARD_LOOKS));
        }
        if self.signals.end.swap(false, Ordering::AcqRel) {
            self.hang_up();
        }
        if self.signals.child.swap(false, Ordering::AcqRel) {
            if self.shell.child.has_stopped() {
                self.shell_stopped();
            }
            self.shell_ended();
        }
    }

    /// Continues a shell that has been stopped: it leads its session, so no other process would continue it.
    fn shell_stopped(&mut self) {
        // The mark of the line's start may be in the output.
        self.read_output_so_far();
        if matches!(self.phase, Phase::Running { .. }) {
            self.show(b"a shell in ReedClaw can't be suspended; `exit` leaves it\r\n");
            self.flush_output();
        }
        self.shell.child.go_on();
    }

    /// Handles the shell's end: shows its remaining output, then reports the end.
    fn shell_ended(&mut self) {
        let Some(status) = self.shell.child.try_wait() else { return };
        let mut buffer = [0; 4096];
        while let Ok(count @ 1..) = nix::unistd::read(&self.shell.master, &mut buffer) {
            self.take_output(&buffer[..count]);
        }
        self.with_scanner(|scanner, sink| scanner.release(sink));
        self.reset_modes();
        self.out.extend_from_slice(self.around.over().as_bytes());
        self.flush_output();
        self.tell(Event::Ended(status));
        self.ended = true;
    }

    fn hang_up(&mut self) {
        if !self.ended {
            self.ended = true;
            self.tell(Event::Hangup);
            self.write_pending();
        }
    }

    /// Sends an event, and wakes the editor if it wouldn't notice it otherwise.
    pub(super) fn tell(&mut self, event: Event) {
        self.sent_events += 1;
        let quiet = matches!(event, Event::Cancel | Event::Keys(..));
        let _ = self.events.send(event);
        if !quiet {
            self.feed.wake_editor();
        }
    }
}
