//! The queue of a shared session: output at a bounded rate, and frames. Adding to it never waits. If output comes too fast, only
//! the newest remains, since it is what the screen shows at the end; the rest is counted.

use parking_lot::{Condvar, Mutex, MutexGuard};
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use serde_json::Value;

use super::elsewhere::Elsewhere;
use crate::host::Hangup;

/// Pieces of output that wait.
const OUTPUTS_MAX: usize = 256;
/// Frames that wait beside them.
const FRAMES_MAX: usize = 4_096;
/// Bytes of output and the time after which it is sent.
const GATHERED_BYTES: usize = 16 * 1024;
const GATHERED: Duration = Duration::from_millis(33);
/// Bytes of output that are shared whole, and how many more after each second. Hiding secrets in output, sending and drawing it
/// takes far more processor time than printing it, which a command that prints a large file would wait for.
const WHOLE_BYTES: usize = 1024 * 1024;
const WHOLE_BYTES_A_SECOND: usize = 256 * 1024;
/// Bytes of output beyond the limit that are left: more than a screen has.
const NEWEST_BYTES: usize = 16 * 1024;
/// Interval for handling output that comes too fast.
const GATHERED_FAST: Duration = Duration::from_millis(250);

/// A waiting item, with the time since the beginning in milliseconds.
#[derive(Debug)]
pub(super) enum Item {
    Output(u64, Vec<u8>),
    Frame(u64, Value),
    /// Number of dropped bytes of output.
    Gap(u64),
}

/// The items that have gathered.
#[derive(Debug, Default)]
pub(super) struct Batch {
    pub items: VecDeque<Item>,
    pub is_over: bool,
}

#[derive(Debug)]
struct Waiting {
    items: VecDeque<Item>,
    outputs: usize,
    bytes: usize,
    /// Bytes that may be shared whole, at that time.
    allowance: (usize, Instant),
    /// Newest output after the items, which came too fast, with the bytes dropped before it.
    newest: VecDeque<(u64, Vec<u8>)>,
    newest_bytes: usize,
    lost: u64,
    /// True if a line of which a part was dropped hasn't ended yet. Its rest isn't shared: that may be half a secret, or half a
    /// sequence for the terminal.
    is_within_line: bool,
    /// True if an item mustn't wait until more has gathered.
    is_urgent: bool,
    /// The sender waits for this, so that it must be woken.
    is_awaited: bool,
    is_over: bool,
    over_by_gateway: Option<String>,
    /// True if the gateway answers again: the connection should be made at once.
    is_back: bool,
}

/// The queue of a session, and its number of viewers.
#[derive(Debug)]
pub(super) struct Queue {
    waiting: Mutex<Waiting>,
    woken: Condvar,
    began: Instant,
    viewers: AtomicUsize,
    /// The gateway doesn't answer now.
    is_waiting: AtomicBool,
    open: Mutex<Option<Arc<Elsewhere>>>,
    /// The connection of the control thread.
    control: Mutex<Option<Hangup>>,
}

impl Default for Queue {
    fn default() -> Self {
        Self {
            waiting: Mutex::new(Waiting::new()),
            woken: Condvar::new(),
            began: Instant::now(),
            viewers: AtomicUsize::new(0),
            is_waiting: AtomicBool::new(false),
            open: Mutex::default(),
            control: Mutex::default(),
        }
    }
}

impl Waiting {
    fn new() -> Self {
        Self {
            items: VecDeque::new(),
            outputs: 0,
            bytes: 0,
            allowance: (WHOLE_BYTES, Instant::now()),
            newest: VecDeque::new(),
            newest_bytes: 0,
            lost: 0,
            is_within_line: false,
            is_urgent: false,
            is_awaited: false,
            is_over: false,
            over_by_gateway: None,
            is_back: false,
        }
    }

    /// Deducts bytes from the allowance for complete output; returns `false` if that is used up.
    fn may_be_whole(&mut self, bytes: usize) -> bool {
        let (left, since) = self.allowance;
        let passed = usize::try_from(since.elapsed().as_micros()).unwrap_or(usize::MAX);
        let more = (WHOLE_BYTES_A_SECOND / 1_000).saturating_mul(passed) / 1_000;
        let left = left.saturating_add(more).min(WHOLE_BYTES);
        // An interval that is too short for one byte must still be counted.
        let since = if more > 0 { Instant::now() } else { since };
        self.allowance = (left.saturating_sub(bytes), since);
        left >= bytes
    }

    /// Stores output that came too fast, and drops older output.
    fn keep_newest(&mut self, at: u64, bytes: &[u8]) {
        self.newest.push_back((at, bytes.to_vec()));
        self.newest_bytes += bytes.len();
        while self.newest_bytes > NEWEST_BYTES && self.newest.len() > 1 {
            let gone = self.newest.pop_front().map_or(0, |(_, bytes)| bytes.len());
            self.newest_bytes -= gone;
            self.lost += gone as u64;
        }
    }

    /// Puts the newest output after the items: from now on its place is known.
    fn settle(&mut self) {
        self.is_within_line |= self.lost > 0;
        while self.is_within_line
            && let Some((_, first)) = self.newest.front_mut()
        {
            let end = first.iter().position(|byte| *byte == b'\n');
            let cut = end.map_or(first.len(), |end| end + 1);
            first.drain(..cut);
            self.lost += cut as u64;
            self.is_within_line = end.is_none();
            if self.is_within_line {
                self.newest.pop_front();
            }
        }
        if self.lost > 0 {
            self.items.push_back(Item::Gap(std::mem::take(&mut self.lost)));
        }
        self.items.extend(self.newest.drain(..).map(|(at, bytes)| Item::Output(at, bytes)));
        self.newest_bytes = 0;
    }
}

impl Queue {
    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock()
    }

    fn at_ms(&self) -> u64 {
        u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    /// Adds output, if there is room.
    pub fn push_output(&self, bytes: &[u8]) {
        let at = self.at_ms();
        let mut waiting = self.waiting();
        if waiting.is_over || bytes.is_empty() {
            return;
        }
        let has_place = waiting.newest.is_empty() && !waiting.is_within_line && waiting.outputs < OUTPUTS_MAX;
        if !waiting.may_be_whole(bytes.len()) || !has_place {
            waiting.keep_newest(at, bytes);
        } else {
            waiting.outputs += 1;
            waiting.bytes += bytes.len();
            waiting.items.push_back(Item::Output(at, bytes.to_vec()));
        }
        self.wake(waiting);
    }

    /// Adds a frame.
    pub fn push(&self, frame: Value, is_urgent: bool) {
        let at = self.at_ms();
        let mut waiting = self.waiting();
        if waiting.is_over || waiting.items.len() >= OUTPUTS_MAX + FRAMES_MAX {
            return;
        }
        waiting.settle();
        waiting.items.push_back(Item::Frame(at, frame));
        waiting.is_urgent |= is_urgent;
        self.wake(waiting);
    }

    fn wake(&self, mut waiting: MutexGuard<'_, Waiting>) {
        if std::mem::take(&mut waiting.is_awaited) {
            drop(waiting);
            self.woken.notify_all();
        }
    }

    /// Waits until there is an item, at most `longest`, and a short time more to gather others.
    pub fn take(&self, longest: Duration) -> Batch {
        let mut waiting = self.waiting();
        let is_idle = |it: &Waiting| it.items.is_empty() && it.newest.is_empty() && !it.is_over;
        waiting = self.wait(waiting, longest, is_idle);
        if !is_idle(&waiting) {
            let gathers = |it: &Waiting| it.bytes < GATHERED_BYTES && !it.is_urgent && !it.is_over;
            let gathered = if waiting.newest.is_empty() { GATHERED } else { GATHERED_FAST };
            waiting = self.wait(waiting, gathered, gathers);
        }
        waiting.settle();
        (waiting.outputs, waiting.bytes, waiting.is_urgent) = (0, 0, false);
        Batch { items: std::mem::take(&mut waiting.items), is_over: waiting.is_over }
    }

    fn wait<'q>(
        &self,
        mut waiting: MutexGuard<'q, Waiting>,
        longest: Duration,
        is_wanting: impl Fn(&Waiting) -> bool,
    ) -> MutexGuard<'q, Waiting> {
        let until = Instant::now() + longest;
        while is_wanting(&waiting) {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            waiting.is_awaited = true;
            self.woken.wait_for(&mut waiting, left);
        }
        waiting.is_awaited = false;
        waiting
    }

    /// Ends it: the threads send what waits, and end.
    pub fn end(&self) {
        self.waiting().is_over = true;
        self.woken.notify_all();
        self.end_control();
    }

    /// The gateway has ended it.
    pub fn end_by_gateway(&self, why: String) {
        {
            let mut waiting = self.waiting();
            waiting.is_over = true;
            waiting.over_by_gateway.get_or_insert(why);
        }
        self.woken.notify_all();
        self.end_control();
        self.viewers.store(0, Ordering::Relaxed);
    }

    fn end_control(&self) {
        if let Some(connection) = self.control.lock().take() {
            connection.end();
        }
    }

    /// Reason why it is over, if the gateway has ended it.
    pub fn over_by_gateway(&self) -> Option<String> {
        self.waiting().over_by_gateway.clone()
    }

    pub fn is_over(&self) -> bool {
        self.waiting().is_over
    }

    /// Sets the connection to close at the end.
    pub fn hears_by(&self, connection: Option<Hangup>) {
        *self.control.lock() = connection;
        if self.is_over() {
            self.end_control();
        }
    }

    pub fn viewers(&self) -> usize {
        self.viewers.load(Ordering::Relaxed)
    }

    pub fn set_viewers(&self, count: usize) {
        self.viewers.store(count, Ordering::Relaxed);
    }

    /// Returns whether the gateway doesn't answer now, so that frames wait for it.
    pub fn is_waiting(&self) -> bool {
        self.is_waiting.load(Ordering::Relaxed)
    }

    pub fn set_waiting(&self, is_waiting: bool) {
        self.is_waiting.store(is_waiting, Ordering::Relaxed);
    }

    /// Sets the question that may be answered elsewhere.
    pub fn open(&self, question: Option<Arc<Elsewhere>>) {
        *self.open.lock() = question;
    }

    /// The question that may be answered elsewhere.
    pub fn opened(&self) -> Option<Arc<Elsewhere>> {
        self.open.lock().clone()
    }

    /// Waits a moment, or until it is over or the gateway has it again.
    pub fn rest(&self, longest: Duration) {
        let mut waiting = self.waiting();
        self.woken.wait_while_for(&mut waiting, |it| !it.is_over && !it.is_back, longest);
        waiting.is_back = false;
    }

    /// Records that the restarted gateway has the session again.
    pub fn is_back(&self) {
        self.waiting().is_back = true;
        self.woken.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn of_output_that_comes_too_fast_the_newest_is_left_and_frames_keep_their_places() {
        let queue = Queue::default();
        let line = [&[b'x'; 1_023][..], b"\n"].concat();
        let pieces = WHOLE_BYTES / line.len();
        for piece in 0..pieces {
            queue.push_output(&line);
            if piece % OUTPUTS_MAX == 0 {
                assert!(queue.take(Duration::ZERO).items.iter().all(|item| matches!(item, Item::Output(..))));
            }
        }
        queue.take(Duration::ZERO);
        // More than a second's allowance, so that a slow machine doesn't fail the test.
        let fast = 4 * WHOLE_BYTES_A_SECOND / line.len();
        for _ in 0..fast {
            queue.push_output(&line);
        }
        queue.push_output(b"half a line\nthe last one");
        queue.push(json!({"k": "c"}), true);
        let batch = queue.take(Duration::ZERO);
        let mut bytes = 0;
        let mut kinds: Vec<&str> = Vec::new();
        for item in &batch.items {
            match item {
                Item::Output(_, output) => bytes += output.len(),
                Item::Gap(lost) => {
                    bytes += usize::try_from(*lost).expect("a count");
                    kinds.push("gap");
                }
                Item::Frame(..) => kinds.push("frame"),
            }
        }
        assert_eq!(kinds, ["gap", "frame"]);
        assert_eq!(bytes, fast * line.len() + 24, "each byte is shared or counted");
        let last = batch.items.iter().rev().nth(1);
        assert!(matches!(last, Some(Item::Output(_, output)) if output.ends_with(b"the last one")), "{last:?}");
        let shared: usize = batch.items.iter().map(|it| if let Item::Output(_, it) = it { it.len() } else { 0 }).sum();
        assert!(shared < WHOLE_BYTES_A_SECOND * 4, "{shared}");
        queue.end();
        queue.push_output(b"late");
        let batch = queue.take(Duration::from_secs(60));
        assert_eq!((batch.items.len(), batch.is_over), (0, true));
    }

    #[test]
    fn after_a_gap_the_output_begins_with_a_line() {
        let mut waiting = Waiting::new();
        waiting.keep_newest(1, &[b'x'; NEWEST_BYTES]);
        waiting.keep_newest(2, b"31mred\nnext");
        waiting.settle();
        let gap = NEWEST_BYTES as u64 + 7;
        assert!(matches!(&waiting.items[0], Item::Gap(lost) if *lost == gap), "{:?}", waiting.items[0]);
        assert!(matches!(&waiting.items[1], Item::Output(2, bytes) if bytes == b"next"));
    }

    #[test]
    fn the_rest_of_a_line_after_a_gap_is_not_shared_whatever_its_pieces() {
        let mut waiting = Waiting::new();
        for (at, piece) in
            [(1, &[b'x'; NEWEST_BYTES][..]), (2, b"half a "), (3, b"secret"), (4, b" and\nthe next line")]
        {
            waiting.keep_newest(at, piece);
        }
        waiting.settle();
        let gap = NEWEST_BYTES as u64 + 18;
        assert!(matches!(&waiting.items[0], Item::Gap(lost) if *lost == gap), "{:?}", waiting.items[0]);
        assert!(
            matches!(&waiting.items[1], Item::Output(4, bytes) if bytes == b"the next line"),
            "{:?}",
            waiting.items[1]
        );
        assert_eq!(waiting.items.len(), 2);

        let mut waiting = Waiting::new();
        waiting.keep_newest(1, &[b'x'; NEWEST_BYTES]);
        waiting.keep_newest(2, b"no end of a line");
        waiting.settle();
        assert!(matches!(&waiting.items[0], Item::Gap(lost) if *lost == NEWEST_BYTES as u64 + 16));
        assert!(waiting.items.len() == 1 && waiting.newest.is_empty());
        // The line goes on: what comes of it before its end is still the rest of it.
        waiting.keep_newest(3, b"of this line\nbut this");
        waiting.settle();
        assert!(matches!(&waiting.items[2], Item::Output(3, bytes) if bytes == b"but this"), "{:?}", waiting.items);
    }

    #[test]
    fn the_sender_is_woken_by_what_is_urgent() {
        let queue = Queue::default();
        let batch = std::thread::scope(|scope| {
            let batch = scope.spawn(|| queue.take(Duration::from_secs(60)));
            queue.push(json!({"k": "q"}), true);
            batch.join().expect("a batch")
        });
        assert!(matches!(&batch.items[0], Item::Frame(_, frame) if frame["k"] == "q"));
    }
}
