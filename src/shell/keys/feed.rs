//! The destination of the person's keys: the editor, the shell, or a buffer until the receiver is known.

use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use crate::shell::bytes::input::{Keys, cut_report_bytes, take_cursor_reports, to_legacy};
use crate::shell::event::{Event, Gate, KeysTo};
use crate::shell::sys;

/// A key that no keyboard sends (F35 of the kitty protocol): bound in the editor to hand control to the loop.
pub const WAKE_KEY: &[u8] = b"\x1b[57398u";
/// A second such key (F34), bound to nothing.
pub(in crate::shell) const NUDGE_KEY: &[u8] = b"\x1b[57397u";
/// Limit on the buffered keys; further ones are left in the terminal.
const KEPT_BYTES_MAX: usize = 1024 * 1024;
/// After an Enter the editor may draw once more before it accepts; if it stays silent longer, the Enter didn't end the line.
const VERDICT_WAIT: Duration = Duration::from_millis(15);
/// Delay of the keys after a key other than Enter that the editor ignores without drawing.
const SILENCE_WAIT: Duration = Duration::from_secs(1);

/// Time for which keys are held for a wake key that the editor may have lost among keys of one batch.
const STALE_WAKE_WAIT: Duration = Duration::from_millis(100);

/// Time in which a terminal that has never answered may report the cursor's position; slow links answer within it.
const REPORT_WAIT: Duration = Duration::from_millis(1500);

/// The routing of the keys.
pub struct Feed {
    whom: KeysTo,
    keys: Keys,
    gate: Arc<Gate>,
    /// Keys for the next receiver.
    held: Vec<u8>,
    /// Keys from before a question: they answer neither it nor the command that it runs, and wait for the editor.
    aside: Vec<u8>,
    /// Keys on their way to the editor.
    to_editor: Vec<u8>,
    /// The terminal's answers to the editor, which are sent first.
    reports: Vec<u8>,
    /// Tracks the bytes that the editor has received.
    got: Keys,
    /// Bytes on their way to the shell.
    pub(in crate::shell) to_shell: Vec<u8>,
    /// `true` if the command in the foreground has been sent keys, which it may leave unread.
    pub(in crate::shell) forwarded: bool,
    /// `true` if the command in the foreground may have asked the terminal for the cursor's position.
    position_asked: bool,
    wake_wanted: bool,
    wake_sent: bool,
    /// Number of wake keys that were sent, and of those that the loop has seen.
    wakes_sent: u64,
    wakes_seen: u64,
    /// Time after which held keys go to the editor after all.
    pub(in crate::shell) deadline: Option<Instant>,
    /// The record of whether the terminal answers questions about the cursor.
    hearing: Hearing,
    /// `true` if a question of the editor was answered in the terminal's place: a later answer of the terminal is dropped.
    answered_for: bool,
    /// Deadline for the terminal's report of the cursor, while it is not known whether the terminal ever reports it.
    pub(in crate::shell) report_due: Option<Instant>,
}

/// The state of the terminal's answers.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Hearing {
    Unknown,
    Answers,
    Deaf,
}

impl Feed {
    pub(in crate::shell) fn new(gate: Arc<Gate>) -> Self {
        Self {
            whom: KeysTo::Hold,
            keys: Keys::default(),
            gate,
            held: Vec::new(),
            aside: Vec::new(),
            to_editor: Vec::new(),
            reports: Vec::new(),
            got: Keys::default(),
            to_shell: Vec::new(),
            forwarded: false,
            position_asked: false,
            wake_wanted: false,
            wake_sent: false,
            wakes_sent: 0,
            wakes_seen: 0,
            deadline: None,
            hearing: Hearing::Unknown,
            answered_for: false,
            report_due: None,
        }
    }

    /// Returns whether more keys can be taken.
    pub(in crate::shell) fn has_room(&self) -> bool {
        self.held.len() + self.aside.len() < KEPT_BYTES_MAX && self.to_shell.len() < KEPT_BYTES_MAX
    }

    /// Changes who gets the keys.
    pub(in crate::shell) fn keys_to(&mut self, whom: KeysTo) {
        self.whom = whom;
        self.report_due = None;
        if whom == KeysTo::Editor {
            match self.hearing {
                Hearing::Unknown => self.report_due = Some(Instant::now() + REPORT_WAIT),
                Hearing::Deaf => self.answer_for_terminal(),
                Hearing::Answers => {}
            }
        }
        self.deadline = None;
        self.gate.enter_pending.store(false, Ordering::Release);
        match whom {
            KeysTo::Editor => {
                self.keys = Keys::default();
                self.wake_sent = false;
                self.aside.append(&mut self.held);
                std::mem::swap(&mut self.aside, &mut self.held);
                if !self.send_wake() {
                    self.feed_editor();
                }
            }
            KeysTo::Shell => {
                let keys = to_legacy(&std::mem::take(&mut self.held));
                self.forward(keys);
            }
            KeysTo::Question => self.aside.append(&mut self.held),
            KeysTo::HoldFresh => self.aside.clear(),
            KeysTo::Hold | KeysTo::Cancel => {}
        }
    }

    /// Passes keys to the shell. A terminal's late answer to the editor isn't passed on, unless the command has asked too.
    fn forward(&mut self, mut keys: Vec<u8>) {
        if !self.position_asked {
            let mut rest = keys.clone();
            // In the first row it may also be F3 with Shift, Alt or Ctrl, which is encoded in the same way.
            if !take_cursor_reports(&mut rest).starts_with(b"\x1b[1;") {
                keys = rest;
            }
        }
        self.forwarded |= !keys.is_empty();
        self.to_shell.append(&mut keys);
    }

    /// Notes that a command is about to start.
    pub(in crate::shell) fn command_begins(&mut self) {
        self.forwarded = false;
        self.position_asked = false;
    }

    /// Looks for the question about the cursor's position in a command's output, which may be split anywhere.
    pub(in crate::shell) fn note_output(&mut self, output: &[u8]) {
        const CUT: [&[u8]; 5] = [b"\x1b", b"\x1b[", b"\x1b[?", b"\x1b[6", b"\x1b[?6"];
        self.position_asked = self.position_asked
            || memchr::memmem::find(output, b"6n").is_some()
            || CUT.iter().any(|start| output.ends_with(start));
    }

    /// Passes the keys to the editor, which `wakes_seen` wake keys have ended so far. If the editor ended without reading a wake
    /// key, that key is still in its input: the editor would end at once, and the keys after it would be lost.
    pub(in crate::shell) fn edit(&mut self, wakes_seen: u64) {
        if wakes_seen >= self.wakes_sent {
            self.wakes_sent = wakes_seen;
            return self.keys_to(KeysTo::Editor);
        }
        self.wakes_seen = wakes_seen;
        self.keys_to(KeysTo::Hold);
        self.whom = KeysTo::Editor;
        self.aside.append(&mut self.held);
        std::mem::swap(&mut self.aside, &mut self.held);
        self.keys = Keys::default();
        self.wake_sent = true;
        self.deadline = Some(Instant::now() + STALE_WAKE_WAIT);
    }

    /// Handles the loss of the wake key that was thought to be in the editor's input.
    fn forget_wake(&mut self) {
        self.deadline = None;
        self.wakes_sent = self.wakes_seen;
        self.wake_sent = false;
        if !self.send_wake() {
            self.feed_editor();
        }
    }

    /// Reports, in a deaf terminal's place, that the cursor is in the last row: the editor would wait two seconds at each prompt,
    /// and the last row is the only guess with which it never draws over output.
    fn answer_for_terminal(&mut self) {
        let rows = sys::window_size(std::io::stdout().as_fd()).map_or(24, |size| size.rows.max(1));
        self.reports.extend_from_slice(format!("\x1b[{rows};1R").as_bytes());
        self.answered_for = true;
    }

    fn set_hearing(&mut self, hearing: Hearing) {
        self.hearing = hearing;
        self.gate.deaf.store(hearing == Hearing::Deaf, Ordering::Release);
    }

    /// Drops a late answer to a question that was answered in the terminal's place: the editor would take it for the answer to
    /// its next question, and be one answer off from then on.
    fn drop_late_report(&mut self, keys: &mut Vec<u8>) {
        let mut rest = keys.clone();
        let reports = take_cursor_reports(&mut rest);
        let Some(end) = reports.iter().position(|byte| *byte == b'R') else { return };
        self.set_hearing(Hearing::Answers);
        self.answered_for = false;
        *keys = [&reports[end + 1..], &rest].concat();
    }

    /// Returns whether a prompt is on the screen that the editor will now draw elsewhere, because the terminal hasn't reported
    /// the cursor's position in time: it counts as deaf from then on.
    pub(in crate::shell) fn report_is_late(&mut self, now: Instant) -> bool {
        let is_late = self.report_due.is_some_and(|at| at <= now);
        if is_late {
            self.report_due = None;
            self.set_hearing(Hearing::Deaf);
            self.answer_for_terminal();
        }
        is_late && self.gate.shown.swap(false, Ordering::AcqRel)
    }

    /// Returns whether everything has been sent to the editor.
    pub(in crate::shell) fn editor_has_all(&self) -> bool {
        self.to_editor.is_empty() && self.reports.is_empty()
    }

    /// Sends the editor the next piece, of at most `bytes_max`, with `write`, which leaves the bytes that it could not write. An
    /// answer of the terminal never goes into a paste, as a part of which it would be read.
    pub(in crate::shell) fn give_editor(&mut self, bytes_max: usize, write: impl FnOnce(&mut Vec<u8>)) {
        // The editor has read all of its input, so it took an escape at the end for the Escape key.
        let answers = !self.reports.is_empty() && self.got.at_key_end();
        let pending = if answers { &mut self.reports } else { &mut self.to_editor };
        let mut length = if answers { pending.len() } else { pending.len().min(bytes_max) };
        // An escape at the end of a piece would be read as the Escape key.
        while length < pending.len() && length > 1 && pending[length - 1] == 0x1b {
            length -= 1;
        }
        let mut left = pending[..length].to_vec();
        write(&mut left);
        for byte in pending.drain(..length - left.len()) {
            self.got.step(byte);
        }
    }

    /// Returns whether keys wait for a command.
    pub(in crate::shell) fn holds_keys(&self) -> bool {
        !self.held.is_empty()
    }

    /// Takes the Ctrl-C out of the held keys, if there is one: its receiver is about to listen.
    pub(in crate::shell) fn take_held_interrupt(&mut self) -> bool {
        let keys = to_legacy(&self.held);
        let Some(after) = self.drop_interrupted(&keys) else { return false };
        self.held = after.to_vec();
        true
    }

    /// Returns the keys after the last Ctrl-C, if there is one, and drops the keys held before it: a terminal discards what was
    /// typed before a Ctrl-C, and the person expects that none of it runs.
    fn drop_interrupted<'k>(&mut self, keys: &'k [u8]) -> Option<&'k [u8]> {
        let at = keys.iter().rposition(|key| *key == 3)?;
        self.held.clear();
        self.aside.clear();
        Some(&keys[at + 1..])
    }

    /// Returns whether a Ctrl-C waits for a command.
    pub(in crate::shell) fn holds_interrupt(&self) -> bool {
        to_legacy(&self.held).contains(&3)
    }

    /// Returns the present receiver of the keys.
    pub(in crate::shell) fn whom(&self) -> KeysTo {
        self.whom
    }

    /// Puts keys that a command left unread in front of the held ones. An answer of the terminal among them was for the command:
    /// the editor would take it for the answer to its next question. A NUL was an end of file before the line discipline changed
    /// it; it was the command's too, and at an empty line it would end the shell.
    pub(in crate::shell) fn give_back(&mut self, mut keys: Vec<u8>) {
        take_cursor_reports(&mut keys);
        take_cursor_reports(&mut self.held);
        keys.retain(|key| *key != 0);
        // The line discipline had turned Enter into a line feed.
        keys.iter_mut().filter(|key| **key == b'\n').for_each(|key| *key = b'\r');
        keys.append(&mut self.held);
        self.held = keys;
    }

    /// Takes keys from the terminal.
    pub(in crate::shell) fn take(&mut self, keys: &[u8]) -> Option<Event> {
        let now = Instant::now();
        *self.gate.last_keys.lock() = Some(now);
        let mut in_time = keys.to_vec();
        if self.answered_for {
            self.drop_late_report(&mut in_time);
        }
        let keys = in_time.as_slice();
        match self.whom {
            KeysTo::Shell => {
                self.forward(keys.to_vec());
                None
            }
            KeysTo::Editor => {
                let mut keys = keys.to_vec();
                if self.hearing != Hearing::Answers && !take_cursor_reports(&mut keys.clone()).is_empty() {
                    self.set_hearing(Hearing::Answers);
                    self.report_due = None;
                }
                self.held.append(&mut keys);
                // The answer to the editor's own question must not wait for keys that are held back.
                self.reports.extend(take_cursor_reports(&mut self.held));
                let cut = self.held.split_off(self.held.len() - cut_report_bytes(&self.held));
                self.feed_editor();
                self.held.extend(cut);
                None
            }
            KeysTo::Cancel => {
                let mut keys = to_legacy(keys);
                take_cursor_reports(&mut keys);
                let after = self.drop_interrupted(&keys);
                self.held.extend_from_slice(after.unwrap_or(&keys));
                after.map(|_| Event::Cancel)
            }
            KeysTo::Question => Some(Event::Keys(to_legacy(keys), now)),
            KeysTo::Hold | KeysTo::HoldFresh => {
                self.held.extend_from_slice(keys);
                None
            }
        }
    }

    /// Passes held keys to the editor, up to and including an Enter.
    fn feed_editor(&mut self) {
        let closed = self.wake_sent || self.gate.enter_pending.load(Ordering::Acquire);
        if self.whom != KeysTo::Editor || closed || self.held.is_empty() {
            return;
        }
        let cut = self.keys.next(&self.held, &self.gate.stops.lock());
        self.to_editor.extend(self.held.drain(..cut.length));
        if cut.enter {
            if !self.to_editor.ends_with(b"\r") && !self.to_editor.ends_with(b"\n") {
                self.deadline = Some(Instant::now() + SILENCE_WAIT);
            }
            self.gate.enter_pending.store(true, Ordering::Release);
        }
        if self.wake_wanted && self.keys.between_keys() {
            self.send_wake();
        }
    }

    /// Handles an Enter that didn't end the line: the editor wants more.
    pub(in crate::shell) fn release(&mut self) {
        self.deadline = None;
        self.gate.enter_pending.store(false, Ordering::Release);
        if !(self.keys.between_keys() && self.send_wake()) {
            self.feed_editor();
        }
    }

    /// Notes that the editor has drawn itself while an Enter was pending.
    pub(in crate::shell) fn editor_drawn(&mut self) {
        if self.gate.enter_pending.load(Ordering::Acquire) {
            self.deadline = Some(Instant::now() + VERDICT_WAIT);
        }
    }

    /// Releases keys whose deadline has passed; `editor_idles` returns whether the editor has read all of its input and waits for
    /// more. On a busy machine that may take any time.
    pub(in crate::shell) fn handle_time(&mut self, now: Instant, editor_idles: impl FnOnce() -> bool) {
        if self.deadline.is_none_or(|at| at > now) {
            return;
        }
        if self.gate.accepted.load(Ordering::Acquire) {
            // The line has ended: the loop decides who gets the keys.
            self.deadline = None;
            return;
        }
        match (self.wake_sent, editor_idles()) {
            (false, true) => self.release(),
            (true, true) => self.forget_wake(),
            (false, false) => self.deadline = Some(now + VERDICT_WAIT),
            (true, false) => self.deadline = Some(now + STALE_WAKE_WAIT),
        }
    }

    /// Makes the editor hand control to the loop, once, between two keys.
    pub(in crate::shell) fn wake_editor(&mut self) {
        self.wake_wanted = true;
        if self.keys.between_keys() {
            self.send_wake();
        }
    }

    /// Notes that the loop has seen every event so far.
    pub(in crate::shell) fn events_seen(&mut self) {
        self.wake_wanted = false;
    }

    /// Makes the editor hand control to the loop in any state, because no more keys will come: a paste is closed, a wait for the
    /// cursor's position ends, and if half a sequence swallows the first wake key, the second one remains.
    pub(in crate::shell) fn end_editor(&mut self) {
        if self.whom == KeysTo::Editor {
            self.to_editor.extend_from_slice(b"\x1b[201~\x1b[1;1R");
            self.to_editor.extend_from_slice(WAKE_KEY);
            self.to_editor.extend_from_slice(WAKE_KEY);
        }
    }

    /// Sends the wake key. The editor forgets keys that come after it in one batch, so they are held back until the editor is
    /// entered again. After an Enter the wake key would be left for the next line.
    fn send_wake(&mut self) -> bool {
        let closed = self.wake_sent || self.gate.enter_pending.load(Ordering::Acquire);
        let send = self.whom == KeysTo::Editor && self.wake_wanted && !closed;
        if send {
            self.wake_wanted = false;
            self.wake_sent = true;
            self.wakes_sent += 1;
            self.to_editor.extend_from_slice(WAKE_KEY);
        }
        send
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn feed() -> Feed {
        Feed::new(Arc::new(Gate::default()))
    }

    /// Returns the editor's next input, at most `bytes_max`.
    fn given_in(feed: &mut Feed, bytes_max: usize) -> Vec<u8> {
        let mut passed = Vec::new();
        while !feed.editor_has_all() {
            feed.give_editor(bytes_max, |piece| passed.append(piece));
        }
        passed
    }

    fn fed(feed: &mut Feed) -> Vec<u8> {
        given_in(feed, 1000)
    }

    #[test]
    fn a_late_answer_to_the_editor_is_not_the_command_s() {
        for (output, expected) in [
            (&[][..], &b"ab"[..]),
            (&[&b"plain \x1b[1mtext"[..]], b"ab"),
            (&[&b"\x1b[6n"[..]], b"a\x1b[4;5Rb"),
            (&[&b"\x1b[?6n"[..]], b"a\x1b[4;5Rb"),
            (&[&b"x\x1b["[..], b"6n"], b"a\x1b[4;5Rb"),
            (&[&b"x\x1b[6"[..], b"n"], b"a\x1b[4;5Rb"),
        ] {
            let mut feed = feed();
            feed.command_begins();
            feed.keys_to(KeysTo::Shell);
            output.iter().for_each(|piece| feed.note_output(piece));
            feed.take(b"a\x1b[4;5Rb");
            assert_eq!(feed.to_shell, expected, "{output:?}");
        }
        let mut feed = feed();
        feed.keys_to(KeysTo::Shell);
        feed.take(b"\x1b[1;5R");
        assert_eq!(feed.to_shell, b"\x1b[1;5R", "Ctrl-F3");
    }

    /// Between a question's answer and the work that continued, the key was left for the next prompt.
    #[test]
    fn a_ctrl_c_that_nobody_was_there_for_is_taken_once_and_the_keys_after_it_stay() {
        for interrupt in [&b"\x03"[..], b"\x1b[99;5u"] {
            let mut feed = feed();
            feed.take(&[b"rm x\r", interrupt, b"ls"].concat());
            assert!(feed.take_held_interrupt());
            assert!(!feed.take_held_interrupt());
            feed.keys_to(KeysTo::Shell);
            assert_eq!(feed.to_shell, b"ls");
        }
    }

    /// The line that was typed before a Ctrl-C ran afterwards, and a Ctrl-D before it ended the shell.
    #[test]
    fn a_ctrl_c_during_an_answer_drops_the_keys_before_it() {
        let mut feed = feed();
        feed.take(b"a question\r");
        feed.keys_to(KeysTo::Question);
        feed.keys_to(KeysTo::Cancel);
        assert!(feed.take(b"rm x\r\x04").is_none());
        assert!(matches!(feed.take(b"y\r\x03ls"), Some(Event::Cancel)));
        assert!(feed.take(b" -l\r").is_none());
        feed.edit(0);
        assert_eq!(feed.to_editor, b"ls -l\r");
    }

    #[test]
    fn keys_behind_a_wake_key_wait_until_the_loop_has_seen_it() {
        let mut feed = feed();
        feed.edit(0);
        feed.wake_editor();
        feed.take(b"ls\r");
        assert_eq!(feed.to_editor, WAKE_KEY);
        feed.edit(0);
        assert_eq!(feed.to_editor, WAKE_KEY, "it ended for another reason: the key still lies there");
        feed.edit(1);
        assert_eq!(feed.to_editor, [WAKE_KEY, b"ls\r"].concat());
    }

    #[test]
    fn no_wake_key_goes_behind_an_enter() {
        let mut feed = feed();
        feed.edit(0);
        feed.take(b"ls\r");
        feed.wake_editor();
        assert_eq!(feed.to_editor, b"ls\r");
        feed.release();
        assert_eq!(feed.to_editor, [b"ls\r", WAKE_KEY].concat());
    }

    #[test]
    fn keys_behind_an_enter_wait_while_the_editor_is_busy_or_has_accepted() {
        let mut feed = feed();
        feed.edit(0);
        feed.take(b"ls\rcat\r");
        feed.editor_drawn();
        let until = feed.deadline.expect("a limit");
        feed.handle_time(until, || false);
        assert_eq!(feed.to_editor, b"ls\r", "it hasn't come to the Enter yet");
        let until = feed.deadline.expect("a limit");
        feed.handle_time(until, || true);
        assert_eq!(feed.to_editor, b"ls\rcat\r", "the Enter was for a menu");
        feed.editor_drawn();
        feed.gate.accepted.store(true, Ordering::Release);
        feed.take(b"x");
        let until = feed.deadline.expect("a limit");
        feed.handle_time(until, || true);
        assert_eq!((feed.to_editor.as_slice(), feed.held.as_slice()), (&b"ls\rcat\r"[..], &b"x"[..]));
    }

    #[test]
    fn a_late_answer_of_the_terminal_is_not_taken_for_the_next_one() {
        let mut feed = feed();
        feed.edit(0);
        feed.report_is_late(Instant::now() + REPORT_WAIT);
        assert!(feed.gate.deaf.load(Ordering::Acquire));
        let answered = fed(&mut feed);
        assert!(answered.starts_with(b"\x1b[") && answered.ends_with(b";1R"), "{answered:?}");
        feed.take(b"l\x1b[5;1Rs");
        assert_eq!(fed(&mut feed), b"ls");
        assert!(!feed.gate.deaf.load(Ordering::Acquire), "late, but it answers");
        feed.take(b"\x1b[6;1R");
        assert_eq!(fed(&mut feed), b"\x1b[6;1R", "the next one is in time");
        feed.edit(0);
        assert_eq!(fed(&mut feed), b"", "the terminal answers by itself now");
    }

    #[test]
    fn the_terminal_s_answer_overtakes_the_keys_that_wait() {
        let mut feed = feed();
        feed.edit(0);
        feed.take(b"ls\r\x1b[1;10R");
        assert_eq!(fed(&mut feed), b"\x1b[1;10Rls\r", "in one piece with an Enter");
        feed.take(b"x\x1b[2;");
        feed.take(b"10Ry");
        assert_eq!(fed(&mut feed), b"\x1b[2;10R", "cut in two");
        feed.release();
        assert_eq!(fed(&mut feed), b"xy");
    }

    #[test]
    fn the_terminal_s_answer_is_no_part_of_a_paste_or_a_key() {
        for bytes_max in 1..40 {
            let mut feed = feed();
            feed.edit(0);
            feed.take(b"\x1b[200~begin");
            let mut passed = Vec::new();
            feed.give_editor(7, |piece| passed.append(piece));
            feed.take(b"mid\x1b[3;");
            feed.take(b"4Rdle");
            feed.take(b"end\x1b[201~x\x1b[1;5C");
            passed.extend(given_in(&mut feed, bytes_max));
            let text = String::from_utf8_lossy(&passed).into_owned();
            let (before, behind) = text.split_once("\x1b[3;4R").expect(&text);
            assert_eq!(format!("{before}{behind}"), "\x1b[200~beginmiddleend\x1b[201~x\x1b[1;5C");
            assert!(before.ends_with("\x1b[201~") || before.ends_with('x') || before.ends_with('C'), "{before:?}");
        }
    }

    #[test]
    fn a_cut_key_is_given_with_its_rest() {
        let mut feed = feed();
        feed.edit(0);
        feed.take(b"a\x1b[1;5");
        assert_eq!(fed(&mut feed), b"a");
        feed.take(b"C");
        assert_eq!(fed(&mut feed), b"\x1b[1;5C");
        feed.take(b"\x1b");
        assert_eq!(fed(&mut feed), b"\x1b", "the Escape key waits for nothing");
    }

    #[test]
    fn an_answer_that_a_command_left_unread_is_nobody_s() {
        let mut feed = feed();
        feed.keys_to(KeysTo::Shell);
        feed.keys_to(KeysTo::Hold);
        feed.take(b"b\x1b[3;4R");
        feed.give_back(b"a\x1b[5;6R".to_vec());
        feed.edit(0);
        assert_eq!(feed.to_editor, b"ab");
    }

    #[test]
    fn an_end_of_file_that_a_command_left_unread_ends_nothing() {
        let mut feed = feed();
        feed.give_back(b"\0ls\n\0cat\n".to_vec());
        feed.keys_to(KeysTo::Shell);
        assert_eq!(feed.to_shell, b"ls\rcat\r");
    }

    #[test]
    fn a_lost_wake_key_delays_keys_and_loses_none() {
        let mut feed = feed();
        feed.edit(0);
        feed.wake_editor();
        feed.edit(0);
        feed.take(b"ls\r");
        let until = feed.deadline.expect("a limit");
        feed.handle_time(until, || false);
        assert_eq!(feed.to_editor, WAKE_KEY, "it may still lie there");
        let until = feed.deadline.expect("a limit");
        feed.handle_time(until, || true);
        assert_eq!(feed.wakes_sent, 0);
        assert_eq!(feed.to_editor, [WAKE_KEY, b"ls\r"].concat());
    }
}
