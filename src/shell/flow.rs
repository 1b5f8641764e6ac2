//! The meaning of the shell's output: the phase of the shell, and the effect of each marker.

use std::io::Write;
use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

use nix::fcntl::OFlag;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::termios::{self, LocalFlags, SetArg, SpecialCharacterIndices};

use super::bytes::drawing::{
    Echo, OwnLines, around_abandoned_line, ends_in_first_column, ends_open, without_drawing, without_interrupt,
};
use super::bytes::modes::without_modes;
use super::bytes::scan::{Mark, Piece, Scanner};
use super::event::{Event, KeysTo};
use super::phase::{Current, Drawn, Interrupt, Phase};
use super::pump::Pump;
use super::spawn::Dialect;
use super::sys;
use crate::proto::CommandOutcome;
use crate::shell::keys::editor::{sleeps, times_slept};
use crate::shell::keys::pressed::Pressed;

/// Time after the first prompt by which all work of the start is done.
const START_WAIT: Duration = Duration::from_millis(500);

/// Time from a command's start to the check whether `exec` has replaced the shell.
const REPLACED_LOOK: Duration = Duration::from_millis(300);

/// Interval and number of the checks whether the shell has handed its terminal to the command: fish may take a while; the others
/// do it right after the start mark. For a builtin (`read`, a loop) it is never handed over.
const HAND_OVER_LOOK: Duration = Duration::from_millis(2);
const HAND_OVER_LOOKS_FISH: u32 = 100;
const HAND_OVER_LOOKS: u32 = 25;

/// Time that a key of the shell's own line editor may take; after that, further keys go to the program that it has started.
const PRESSED_LOOK: Duration = Duration::from_millis(50);

/// Interval and number of the checks, after a Ctrl-C, at which the shell must wait for a line before the Ctrl-C counts as
/// ignored: under `trap '' INT`, or with a trap of zsh's own, no prompt follows.
const INTERRUPT_LOOK: Duration = Duration::from_millis(25);
const INTERRUPT_LOOKS: u32 = 20;

/// Number of those checks at which zsh must have woken and waited again, until it is certain that no prompt follows.
const PASSED_OVER_LOOKS: u32 = 2;

/// Interval for checking that the shell already waits, so that Ctrl-C can be sent to it.
const LISTENING_LOOK: Duration = Duration::from_millis(1);

impl Pump {
    /// Runs the scanner over some bytes and handles each piece.
    pub(super) fn with_scanner(&mut self, scan: impl FnOnce(&mut Scanner, &mut dyn FnMut(Piece))) {
        let mut scanner = std::mem::take(&mut self.scanner);
        scan(&mut scanner, &mut |piece| match piece {
            Piece::Bytes(bytes) => self.plain(bytes),
            Piece::Mark(mark) => self.mark(mark),
        });
        self.scanner = scanner;
        if let Some(nonce) = self.next_nonce.take() {
            self.scanner.expect_nonce(&nonce);
        }
    }

    fn plain(&mut self, bytes: &[u8]) {
        let reads = matches!(self.phase, Phase::Prompting { .. } | Phase::Reading);
        if reads && self.is_fish() {
            // fish 4 sets modes of the keyboard even on a terminal without capabilities.
            self.plain_of_phase(&without_modes(bytes));
        } else {
            self.plain_of_phase(bytes);
        }
    }

    fn plain_of_phase(&mut self, bytes: &[u8]) {
        if let Some(pressed) = self.pressed.as_mut().filter(|_| self.current.is_none()) {
            pressed.note(bytes);
            if pressed.draws_unseen {
                return;
            }
        }
        match self.phase {
            Phase::Completing { .. } => {}
            Phase::Prompting { .. } if self.drawn.note(bytes) => {}
            // A key that runs a command makes the editor draw the rest of its line.
            Phase::Prompting { .. } | Phase::Reading if self.pressed.is_some() => {}
            Phase::Prompting { first: false, .. } if self.current.is_some() => {
                self.show(without_drawing(bytes, self.options.dialect));
            }
            Phase::Starting | Phase::Prompting { .. } | Phase::Reading => {
                if self.feed.whom() == KeysTo::Shell {
                    self.show(bytes);
                } else {
                    let bytes = without_drawing(bytes, self.options.dialect);
                    if !bytes.is_empty() {
                        self.tell(Event::Output(bytes.to_vec()));
                    }
                }
            }
            Phase::Sent { .. } | Phase::Running { .. } => {
                let mut bytes = bytes;
                let unseen;
                if let Some(current) = &mut self.current {
                    // fish draws a line of several rows in full, and its answer to a line that it won't run comes after the mark.
                    if current.echo.is_open() && self.options.dialect == Dialect::Fish {
                        return;
                    }
                    bytes = current.echo.take(bytes);
                    if let Some(interrupt) = current.interrupt.as_mut().filter(|it| !it.has_shown) {
                        bytes = without_interrupt(bytes);
                        interrupt.has_shown = !bytes.is_empty();
                    }
                    if let Some(own) = &mut current.verbose {
                        unseen = own.without(bytes);
                        bytes = &unseen;
                    }
                }
                if self.is_fish() && matches!(self.phase, Phase::Running { recording: false, .. }) {
                    let (before, after) = around_abandoned_line(bytes);
                    if before.iter().chain(after).all(u8::is_ascii_whitespace) {
                        return;
                    }
                    self.show(before);
                    bytes = after;
                }
                self.show(bytes);
            }
        }
    }

    /// Shows output and records a copy of it.
    pub(super) fn show(&mut self, bytes: &[u8]) {
        if bytes.is_empty() {
            return;
        }
        self.around.quiet = false;
        let alternate = self.modes.alternate_screen();
        // Nearly all output of most programs is plain text.
        if memchr::memchr(0x1b, bytes).is_some() {
            self.feed.note_output(bytes);
            self.modes.feed(bytes);
        } else if self.modes.is_cut() {
            self.modes.feed(bytes);
        }
        if let Phase::Running { recording: true, .. } | Phase::Sent { .. } = self.phase {
            // The drawing of a full-screen program is of no use to a model.
            if !alternate && !self.modes.alternate_screen() {
                self.recorder.push(&self.typed.without(bytes, Instant::now()));
            }
        }
        if let Some(current) = &mut self.current {
            current.open_line = ends_open(bytes, current.open_line);
            current.first_column = ends_in_first_column(bytes, current.first_column);
        }
        self.out.extend_from_slice(bytes);
        self.leave_to_tap(bytes);
    }

    /// Passes bytes on to the display of commands' output.
    pub(super) fn leave_to_tap(&mut self, bytes: &[u8]) {
        if self.tap.is_some() {
            self.untapped.extend_from_slice(bytes);
        }
    }

    /// Shows the start of a line that was held back because it might have been one of ours.
    pub(super) fn show_held(&mut self) {
        let own = self.current.as_mut().and_then(|current| current.verbose.as_mut());
        let held = own.map(OwnLines::release).unwrap_or_default();
        self.show(&held);
    }

    /// Returns whether the start of a line is held back.
    pub(super) fn holds_line(&self) -> bool {
        self.current.as_ref().and_then(|current| current.verbose.as_ref()).is_some_and(OwnLines::holds)
    }

    fn mark(&mut self, mark: Mark) {
        self.show_held();
        match mark {
            _ if self.passes_over(&mark) => {}
            Mark::Started { newest } => {
                self.start_marked = true;
                self.prompt_mark_late = false;
                // Anything printed before belongs to the line, not to its output (the echo of a history expansion).
                let _ = self.recorder.take();
                self.line_of_key_starts(newest);
                if let Some(current) = &mut self.current
                    && current.ended.is_none()
                {
                    current.echo.close();
                    current.started = Instant::now();
                }
                if matches!(self.phase, Phase::Sent { .. }) {
                    if let Some(current) = &self.current {
                        self.out.extend_from_slice(self.around.started(&current.line).as_bytes());
                    }
                    self.command_started();
                }
            }
            Mark::Done { status, environment, cwd } => {
                if let Some(cwd) = &cwd {
                    self.around.at(cwd);
                }
                let draws_late = self.is_fish();
                if let Some(current) = &mut self.current {
                    current.interrupt = None;
                    // The drawing of an empty line has no text by which to recognise it; what follows is the output of hooks.
                    if !draws_late {
                        current.echo.close();
                    }
                    current.environment = environment;
                    current.ended = Some((current.started.elapsed(), status));
                    current.cwd = cwd.or(current.cwd.take());
                }
                if let Phase::Running { recording, look_at } = &mut self.phase {
                    *recording = false;
                    *look_at = None;
                }
            }
            Mark::Incomplete { left } => {
                if let Some(current) = &mut self.current {
                    current.incomplete = true;
                    // A shell that sends this mark also marks starts; this line will have none.
                    self.start_marked = true;
                    if left {
                        self.finish();
                        self.phase = Phase::Reading;
                    } else {
                        self.feed.to_shell.push(3);
                    }
                }
            }
            Mark::Prompt { status, quiet, own_rows } => {
                self.prompt_is_ours();
                self.end_without_hook(status);
                self.prompt_reached(quiet, own_rows);
            }
            Mark::PromptAgain => {
                let _ = self.shell.channels.acknowledge.write_all(b"\n");
            }
            Mark::Reading { status, verbose, plain } => {
                (self.verbose, self.plain) = (verbose, plain);
                self.reading(status);
            }
        }
    }

    /// Ends the line without the first hook's report: the person has changed the hooks, and a later hook reports the status.
    fn end_without_hook(&mut self, status: Option<i32>) {
        let (Some(current), Some(status)) = (&mut self.current, status) else { return };
        current.ended.get_or_insert_with(|| (current.started.elapsed(), status));
    }

    /// Handles the mark that readline reads.
    fn reading(&mut self, status: Option<i32>) {
        // The report of the names, if one was requested, is complete.
        self.report_after = None;
        if let Some(pressed) = &mut self.pressed {
            pressed.draws();
        }
        if std::mem::take(&mut self.release_acknowledged) {
            self.shell.channels.drop_acknowledgements();
        }
        if std::mem::take(&mut self.prompt_mark_late) {
            self.prompt_marked = true;
            if let (Phase::Sent { .. }, Some(current)) = (&self.phase, &mut self.current) {
                current.echo = Echo::new(true);
            }
            return;
        }
        if self.lost.is_awaited() {
            // Readline draws its present prompt once more.
            return;
        }
        if matches!(self.phase, Phase::Completing { .. }) && self.completion.is_none() {
            // A completion that was abandoned and interrupted may never answer.
            self.phase = Phase::Completing { answered: true };
        }
        match self.phase {
            Phase::Prompting { .. } | Phase::Completing { answered: true } => {
                self.prompt_marked = true;
                self.readline_reads();
            }
            // A command has removed the hooks.
            Phase::Running { .. } if self.current.is_some() && self.lost.is_new() && !self.is_fish() => {
                self.end_without_hook(status);
                self.regain();
            }
            // fish may draw its prompt again for an earlier key.
            Phase::Sent { .. } if self.is_fish() => {}
            // A failed history expansion leads straight back to readline, without the hooks.
            Phase::Sent { .. } | Phase::Running { .. } if self.current.is_some() => {
                if matches!(self.phase, Phase::Running { .. }) {
                    self.end_without_hook(status);
                }
                if let Some(current) = &mut self.current {
                    current.ended.get_or_insert((Duration::ZERO, 1));
                }
                self.finish();
                self.phase = Phase::Reading;
            }
            _ => {}
        }
    }

    /// Notes that a line was handed over.
    pub(super) fn line_sent(&mut self, line: String) {
        self.remember_command_line();
        self.feed.command_begins();
        self.typed.clear();
        let _ = self.recorder.take();
        // If readline's prompt doesn't reach the terminal (`exec 2>file`), its drawing of the line doesn't either.
        let is_drawn = self.prompt_marked || self.drawn.is_seen;
        self.current = Some(Current::new(line, is_drawn && !self.plain, self.verbose));
        self.phase = Phase::Sent { since: Instant::now() };
    }

    /// Notes that the command runs: from now on the keys are its own.
    pub(super) fn command_started(&mut self) {
        if let Some(current) = &mut self.current {
            current.echo.close();
        }
        self.phase = Phase::Running { look_at: Some(Instant::now() + REPLACED_LOOK), recording: true };
        if !self.wait_for_hand_over() {
            self.keys_to_command();
        }
    }

    /// Holds the keys until the command has the terminal if passing them on earlier would be wrong: fish's own modes would garble
    /// them, and a shell that is about to start a program swallows Ctrl-C. Returns whether they are held.
    fn wait_for_hand_over(&mut self) -> bool {
        let is_garbled = self.is_fish() && self.feed.holds_keys() && self.is_raw();
        let early = is_garbled || self.feed.holds_interrupt() && self.is_shell_in_front();
        if early {
            self.feed.keys_to(KeysTo::Hold);
            let looks = if self.is_fish() { HAND_OVER_LOOKS_FISH } else { HAND_OVER_LOOKS };
            self.hand_over_look = Some((Instant::now() + HAND_OVER_LOOK, looks));
        }
        early
    }

    /// Checks whether the shell has handed its terminal over.
    pub(super) fn look_for_hand_over(&mut self, looks_left: u32) {
        self.hand_over_look = None;
        if self.pressed.is_some() {
            return self.feed.keys_to(KeysTo::Shell);
        }
        if !matches!(self.phase, Phase::Running { recording: true, .. }) {
            return;
        }
        if self.current.as_ref().is_some_and(|current| current.interrupt.is_some()) {
            return self.look_at_interrupted(looks_left);
        }
        let left = match looks_left {
            0 => return self.keys_to_command(),
            _ if self.is_fish() && self.is_raw() => looks_left - 1,
            _ if self.is_fish() && !self.feed.holds_interrupt() => return self.keys_to_command(),
            // The other programs of a pipeline may end a moment later: this check is the last.
            _ if !self.is_shell_in_front() => 0,
            _ => HAND_OVER_LOOKS.min(looks_left - 1),
        };
        self.hand_over_look = Some((Instant::now() + HAND_OVER_LOOK, left));
    }

    /// Handles a Ctrl-C that arrives at the moment when a command starts.
    pub(super) fn note_interrupt(&mut self, keys: &[u8]) {
        let starting = matches!(self.phase, Phase::Running { recording: true, .. })
            && self.feed.whom() == KeysTo::Shell
            && keys.contains(&3)
            && self.current.as_ref().is_some_and(|it| it.started.elapsed() < HAND_OVER_LOOK * HAND_OVER_LOOKS);
        if starting && self.is_shell_in_front() {
            self.feed.keys_to(KeysTo::Hold);
            self.hand_over_look = Some((Instant::now() + HAND_OVER_LOOK, HAND_OVER_LOOKS));
        }
    }

    /// The output since the last line feed; none on the alternate screen.
    pub(super) fn open_row(&mut self) -> Option<Vec<u8>> {
        let shown = self.recorder.take();
        self.recorder.push(&shown.head);
        self.recorder.push(&shown.tail);
        let all = [shown.head, shown.tail].concat();
        let start = memchr::memrchr(b'\n', &all).map_or(0, |at| at + 1);
        (!self.modes.alternate_screen()).then(|| all[start..].to_vec())
    }

    /// Checks which program has the terminal.
    pub(super) fn look_at_foreground(&mut self, now: Instant) {
        let (master, shell) = (&self.shell.master, self.shell.child.id());
        let seen = self.around.look(now, || {
            let leader = nix::unistd::tcgetpgrp(master).ok()?.as_raw();
            (i64::from(leader) != i64::from(shell) || self.replaced)
                .then(|| std::fs::read(format!("/proc/{leader}/cmdline")).ok())?
        });
        self.out.extend_from_slice(seen.as_bytes());
        self.flush_output();
    }

    /// Returns whether the terminal still belongs to the shell, or to its forked copy that hasn't become the program yet: both
    /// swallow Ctrl-C. For a builtin and a subshell that doesn't change.
    pub(super) fn is_shell_in_front(&self) -> bool {
        let Ok(leader) = nix::unistd::tcgetpgrp(&self.shell.master) else { return false };
        let is_shell = i32::try_from(self.shell.child.id()).is_ok_and(|shell| shell == leader.as_raw());
        is_shell || std::fs::read(format!("/proc/{leader}/cmdline")).is_ok_and(|line| line == self.read_command_line())
    }

    pub(super) fn is_raw(&self) -> bool {
        let modes = termios::tcgetattr(&self.shell.master);
        modes.is_ok_and(|modes| !modes.local_flags.contains(LocalFlags::ICANON))
    }

    fn keys_to_command(&mut self) {
        if self.feed.holds_keys() {
            // The person saw these keys when typing them, or will see them when they are read: the line discipline must not echo
            // them once more.
            self.type_ahead_silently();
        }
        self.feed.keys_to(KeysTo::Shell);
    }

    /// Notes keys that were sent to the command: the terminal may echo them.
    pub(super) fn note_typed(&mut self, keys: &[u8]) {
        if matches!(self.phase, Phase::Running { recording: true, .. })
            && let Ok(modes) = termios::tcgetattr(&self.shell.master)
        {
            self.typed.expect(keys, &modes, Instant::now());
        }
    }

    /// Types a line for a shell that reads without its line editor.
    pub(super) fn type_plain_line(&mut self, line: &str) {
        self.feed.to_shell.extend_from_slice(line.as_bytes());
        self.feed.to_shell.push(b'\n');
        if let Some(current) = &mut self.current {
            current.echo = Echo::of_terminal(line.lines().count());
        }
    }

    fn type_ahead_silently(&mut self) {
        let Ok(slave) = self.open_slave() else { return };
        let Ok(modes) = termios::tcgetattr(&slave) else { return };
        let mut silent = modes.clone();
        silent.local_flags.remove(LocalFlags::ECHO | LocalFlags::ECHONL);
        if termios::tcsetattr(&slave, SetArg::TCSANOW, &silent).is_ok() {
            self.feed.keys_to(KeysTo::Shell);
            let pending = std::mem::take(&mut self.feed.to_shell);
            let mut written = 0;
            while written < pending.len() {
                match nix::unistd::write(&self.shell.master, &pending[written..]) {
                    Ok(count) => written += count,
                    Err(_) => break,
                }
            }
            self.feed.to_shell.extend_from_slice(&pending[written..]);
            // The line discipline processes the keys in a thread of the kernel; poll waits until that is done.
            let _ = poll(&mut [PollFd::new(slave.as_fd(), PollFlags::POLLIN)], PollTimeout::ZERO);
            // A builtin that has removed our hooks may have ended meanwhile: then these are readline's modes.
            if termios::tcgetattr(&slave).is_ok_and(|now| now.local_flags == silent.local_flags) {
                let _ = termios::tcsetattr(&slave, SetArg::TCSANOW, &modes);
            }
        }
    }

    /// The shell's hooks are done and it waits for us: fetches the unread keys, then lets it go on. If it prints nothing more
    /// (`quiet`) and nothing is asked of it, the line is over: our prompt is drawn while readline starts, and a line that arrives
    /// sooner waits for it.
    fn prompt_reached(&mut self, quiet: bool, own_rows: Option<usize>) {
        self.drawn = Drawn::of(own_rows);
        // A prompt that readline redraws because of Ctrl-C isn't the end of a line.
        let first = matches!(self.phase, Phase::Starting | Phase::Prompting { first: true, .. });
        if self.feed.whom() == KeysTo::Shell {
            self.feed.keys_to(KeysTo::Hold);
        }
        self.fetch_unread_keys();
        self.reset_modes();
        let mut go_on = Vec::new();
        if std::mem::take(&mut self.want_names) {
            go_on.push(b'n');
            self.await_report();
        }
        if self.options.wanted.shell_prompt {
            go_on.push(b'p');
        }
        go_on.push(b'\n');
        self.prompt_mark_late = false;
        self.phase = Phase::Prompting { since: Instant::now(), first };
        // The loop is notified first, so that the prompt doesn't have to wait for the shell to wake.
        if quiet && go_on == b"\n" && self.pressed.is_none() && !self.plain {
            self.finish();
        }
        let _ = self.shell.channels.acknowledge.write_all(&go_on);
    }

    /// Switches off the modes that a program has left on.
    pub(super) fn reset_modes(&mut self) {
        if self.modes.stopped_focus() {
            self.around.stopped_watching();
        }
        let reset = self.modes.reset();
        if let Some(current) = &mut self.current {
            // Leaving the alternate screen, for example, moves the cursor back to its earlier position.
            current.first_column &= reset.is_empty();
        }
        self.out.extend_from_slice(reset.as_bytes());
        self.leave_to_tap(reset.as_bytes());
    }

    /// Readline reads, or should by now: ends the previous line and hands over the request that waits.
    pub(super) fn readline_reads(&mut self) {
        let first = matches!(self.phase, Phase::Prompting { first: true, .. });
        let above = self.drawn.above();
        self.plain_of_phase(&above);
        self.phase = Phase::Reading;
        self.finish();
        if first {
            self.out.extend_from_slice(self.around.ended(None).as_bytes());
            self.flush_output();
            self.remember_command_line();
            self.started = Some(Instant::now() + START_WAIT);
            self.tell(Event::Ready);
        }
        if self.pressed.is_some() {
            // The key has run a command, or was interrupted: then nothing else returns the line.
            return self.release();
        }
        self.hand_over_waiting();
    }

    /// Sends Ctrl-C to the shell's line editor. The keys wait, unless a trap takes its time.
    pub(super) fn interrupt(&mut self) {
        // fish clears its line itself. A handler runs at the signal, because fish doesn't treat it as a key.
        if self.is_fish() {
            self.shell.child.interrupt();
            return self.tell(Event::Incomplete);
        }
        self.line_sent(String::new());
        if let Some(current) = &mut self.current {
            current.echo.close();
            current.interrupt = Some(Interrupt::default());
        }
        self.phase = Phase::Running { look_at: None, recording: true };
        self.look_at_interrupted(INTERRUPT_LOOKS);
    }

    /// Sends Ctrl-C once the shell waits for keys, and checks the effect. If it arrives before the line editor waits, it is only
    /// heeded at the next key, or sets another status.
    fn look_at_interrupted(&mut self, looks_left: u32) {
        let place = format!("/proc/{}", self.shell.child.id());
        let waits = sleeps(&place);
        let is_reading = waits && (self.plain || self.is_raw() && self.is_shell_in_front());
        let Some(interrupt) = self.current.as_mut().and_then(|current| current.interrupt.as_mut()) else { return };
        // bash may have ignored the previous one.
        let sends = is_reading && (!interrupt.is_sent || self.options.dialect == Dialect::Bash && !self.plain);
        interrupt.is_sent |= sends;
        if sends {
            interrupt.sleeps = times_slept(&place);
        } else if is_reading && self.options.dialect == Dialect::Zsh && times_slept(&place) > interrupt.sleeps {
            // zsh has had Ctrl-C, and only its trap has run.
            interrupt.passed_over += 1;
        }
        let is_sent = interrupt.is_sent;
        if is_reading && (looks_left == 0 || interrupt.passed_over == PASSED_OVER_LOOKS) {
            self.flush_output();
            self.phase = Phase::Reading;
            if let Some(current) = &mut self.current {
                current.incomplete = true;
            }
            return self.finish();
        }
        if sends {
            self.feed.to_shell.push(3);
        }
        if is_sent && !self.plain && !self.is_raw() && self.feed.whom() != KeysTo::Shell {
            // A trap is running, and may read keys.
            self.keys_to_command();
        }
        let wait = if is_sent { INTERRUPT_LOOK } else { LISTENING_LOOK };
        self.hand_over_look = Some((Instant::now() + wait, looks_left - u32::from(is_reading && looks_left > 0)));
    }

    /// Makes the shell's own line editor press a key. Keys typed meanwhile are for a program that the key starts, unless it
    /// finishes at once.
    pub(super) fn press(&mut self, pressed: Pressed) {
        self.pressed = Some(pressed);
        self.feed.command_begins();
        self.phase = Phase::Running { look_at: None, recording: false };
        self.feed.to_shell.extend_from_slice(self.options.dialect.press_keys());
        self.hand_over_look = Some((Instant::now() + PRESSED_LOOK, 0));
    }

    /// A key makes the shell run a line, which counts as one that the person has entered.
    fn line_of_key_starts(&mut self, newest: Option<(String, bool)>) {
        let Some(pressed) = self.pressed.take_if(|_| self.current.is_none()) else { return };
        if let Some(line) = newest.and_then(|(line, is_new)| pressed.line(line, is_new)) {
            // zsh draws the prompt itself, readline draws one row without it, and fish's drawings aren't shown.
            let rows = match self.options.dialect {
                Dialect::Zsh => None,
                Dialect::Bash => Some(1),
                Dialect::Fish => Some(0),
            };
            if let Some(rows) = rows {
                let drawn = pressed.redrawn(&line, rows);
                self.out.extend_from_slice(drawn.as_bytes());
                self.leave_to_tap(drawn.as_bytes());
            }
            self.line_sent(line);
        }
        self.pressed = Some(pressed);
    }

    /// The shell's own line editor returns the line of a key: its number, the cursor, the text.
    pub(super) fn line_released(&mut self, body: &str) {
        // The shell has marked prompts of its line editor before this report: they don't mean that it reads now.
        self.read_output_so_far();
        let mut fields = body.splitn(3, '\n');
        let (id, point) = (fields.next().and_then(|id| id.parse().ok()), fields.next());
        let ended = self.pressed.take_if(|pressed| Some(pressed.id) == id);
        let is_expected = ended.is_some();
        if is_expected {
            // A line that the key has run may have changed the names: they are fetched with the next one.
            self.want_names |= self.current.is_some();
            self.finish();
            self.hand_over_look = None;
            if self.feed.whom() == KeysTo::Shell {
                self.feed.keys_to(KeysTo::Hold);
            }
            self.fetch_unread_keys();
        }
        // Readline may read only now: it would treat those keys as a line of its own.
        let _ = self.shell.channels.acknowledge.write_all(b"\n");
        self.release_acknowledged = true;
        if !is_expected {
            return;
        }
        // Readline draws its prompt once more; that drawing is dropped.
        self.phase = Phase::Completing { answered: true };
        self.reset_modes();
        self.flush_output();
        let cwd = std::fs::read_link(format!("/proc/{}/cwd", self.shell.child.id())).ok();
        let point = point.and_then(|point| point.parse().ok()).unwrap_or(usize::MAX);
        // The line editors of the other shells draw lines of several rows.
        let rows = ended.filter(|_| self.options.dialect == Dialect::Bash).map_or(0, |it| it.rows_printed());
        self.tell(Event::Line { text: fields.next().unwrap_or_default().to_owned(), point, rows, cwd });
    }

    /// Reports how the line that was handed over ended.
    fn finish(&mut self) {
        let Some(current) = self.current.take() else { return };
        if self.feed.whom() == KeysTo::Shell {
            self.feed.keys_to(KeysTo::Hold);
        }
        if current.incomplete {
            self.out.clear();
            self.tell(Event::Incomplete);
            return;
        }
        if current.open_line {
            self.close_open_line();
        }
        let status = current.ended.map_or(0, |(_, status)| status);
        let (duration, status) = current.ended.unwrap_or((current.started.elapsed(), status));
        let announced = self.around.announcement(&current.line, status, duration);
        self.out.extend_from_slice(announced.as_bytes());
        self.out.extend_from_slice(self.around.ended(Some(status)).as_bytes());
        self.flush_output();
        let cwd = current.cwd.or_else(|| std::fs::read_link(format!("/proc/{}/cwd", self.shell.child.id())).ok());
        let outcome = CommandOutcome {
            command: current.line,
            status,
            duration,
            cwd,
            environment: current.environment,
            output: self.recorder.take(),
        };
        let first_column = current.open_line || current.first_column;
        self.tell(Event::Finished { outcome, first_column });
    }

    /// Marks output that didn't end its last line, and leaves the cursor at the start of a line in any case: the mark, then
    /// blanks to the edge, which wrap only if the line wasn't empty.
    fn close_open_line(&mut self) {
        let columns = sys::window_size(std::io::stdout().as_fd()).map_or(0, |size| size.columns);
        if columns < 2 {
            self.out.extend_from_slice(b"\r\n");
            return;
        }
        let mark = if self.options.unicode { "\x1b[2m⏎\x1b[0m" } else { "\x1b[7m%\x1b[0m" };
        self.out.extend_from_slice(mark.as_bytes());
        self.out.resize(self.out.len() + usize::from(columns) - 1, b' ');
        self.out.extend_from_slice(b"\r\x1b[K");
    }

    /// Ends the wait for a completion's answer; anything that readline still draws is dropped until its prompt appears again.
    pub(super) fn completion_done(&mut self) {
        if let Phase::Completing { answered } = &mut self.phase {
            *answered = true;
        }
    }

    fn open_slave(&self) -> nix::Result<OwnedFd> {
        nix::fcntl::open(
            &self.shell.slave_path,
            OFlag::O_RDWR | OFlag::O_NOCTTY | OFlag::O_NONBLOCK | OFlag::O_CLOEXEC,
            nix::sys::stat::Mode::empty(),
        )
    }

    /// Takes back the unread keys that were sent to the shell's terminal. The shell waits meanwhile.
    pub(super) fn fetch_unread_keys(&mut self) {
        let is_released = self.pressed.as_mut().is_some_and(|pressed| std::mem::take(&mut pressed.is_released));
        if self.feed.forwarded || is_released || !self.feed.to_shell.is_empty() {
            let mut unread = self.read_unread_keys();
            unread.append(&mut self.feed.to_shell);
            let own = self.options.dialect.release_keys();
            if let Some(at) = memchr::memmem::find(&unread, own).filter(|_| is_released) {
                unread.drain(at..at + own.len());
            }
            self.feed.give_back(unread);
            self.feed.forwarded = false;
        }
    }

    /// Reads the keys that are unread in the shell's terminal, including half lines.
    pub(super) fn read_unread_keys(&self) -> Vec<u8> {
        let mut unread = Vec::new();
        let Ok(slave) = self.open_slave() else { return unread };
        let Ok(modes) = termios::tcgetattr(&slave) else { return unread };
        let mut raw = modes.clone();
        termios::cfmakeraw(&mut raw);
        raw.control_chars[SpecialCharacterIndices::VMIN as usize] = 0;
        raw.control_chars[SpecialCharacterIndices::VTIME as usize] = 0;
        if termios::tcsetattr(&slave, SetArg::TCSANOW, &raw).is_ok() {
            let mut buffer = [0; 4096];
            while let Ok(count @ 1..) = nix::unistd::read(&slave, &mut buffer) {
                unread.extend_from_slice(&buffer[..count]);
            }
            let _ = termios::tcsetattr(&slave, SetArg::TCSANOW, &modes);
        }
        unread
    }
}
