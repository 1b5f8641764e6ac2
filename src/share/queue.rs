//! The queue of a shared session: output in a bounded number of pieces, and frames. Nobody waits to put something in: what has no
//! place is dropped and counted.

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
/// Output is sent once so much has gathered, or after so long.
const GATHERED_BYTES: usize = 16 * 1024;
const GATHERED: Duration = Duration::from_millis(33);

/// Something that waits, with the time since the beginning in milliseconds.
#[derive(Debug)]
pub(super) enum Item {
    Output(u64, Vec<u8>),
    Frame(u64, Value),
}

/// The items that have gathered.
#[derive(Debug, Default)]
pub(super) struct Batch {
    pub items: VecDeque<Item>,
    /// Bytes of output after these that had no place.
    pub lost: u64,
    pub is_over: bool,
}

#[derive(Debug, Default)]
struct Waiting {
    items: VecDeque<Item>,
    outputs: usize,
    bytes: usize,
    lost: u64,
    /// Something mustn't wait until more has gathered.
    is_urgent: bool,
    /// The sender waits for this, so that it must be woken.
    is_awaited: bool,
    is_over: bool,
    over_by_gateway: Option<String>,
    /// Whoever hears from the gateway should connect at once.
    is_back: bool,
}

/// The queue of a session, and what is known of those who watch.
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
            waiting: Mutex::default(),
            woken: Condvar::new(),
            began: Instant::now(),
            viewers: AtomicUsize::new(0),
            is_waiting: AtomicBool::new(false),
            open: Mutex::default(),
            control: Mutex::default(),
        }
    }
}

impl Queue {
    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock()
    }

    fn at_ms(&self) -> u64 {
        u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    /// Puts output in, if it has a place.
    pub fn push_output(&self, bytes: &[u8]) {
        let at = self.at_ms();
        let mut waiting = self.waiting();
        if waiting.is_over || bytes.is_empty() {
            return;
        }
        if waiting.outputs >= OUTPUTS_MAX || waiting.lost > 0 {
            waiting.lost += bytes.len() as u64;
        } else {
            waiting.outputs += 1;
            waiting.bytes += bytes.len();
            waiting.items.push_back(Item::Output(at, bytes.to_vec()));
        }
        self.wake(waiting);
    }

    /// Puts a frame in.
    pub fn push(&self, frame: Value, is_urgent: bool) {
        let at = self.at_ms();
        let mut waiting = self.waiting();
        if waiting.is_over || waiting.items.len() >= OUTPUTS_MAX + FRAMES_MAX {
            return;
        }
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

    /// Waits until there is something, at most `longest`, and a moment more in which it gathers.
    pub fn take(&self, longest: Duration) -> Batch {
        let mut waiting = self.waiting();
        let is_idle = |it: &Waiting| it.items.is_empty() && it.lost == 0 && !it.is_over;
        waiting = self.wait(waiting, longest, is_idle);
        if !is_idle(&waiting) {
            let gathers = |it: &Waiting| it.bytes < GATHERED_BYTES && !it.is_urgent && !it.is_over;
            waiting = self.wait(waiting, GATHERED, gathers);
        }
        (waiting.outputs, waiting.bytes, waiting.is_urgent) = (0, 0, false);
        Batch {
            items: std::mem::take(&mut waiting.items),
            lost: std::mem::take(&mut waiting.lost),
            is_over: waiting.is_over,
        }
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

    /// Notes the connection that is to be closed at the end.
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

    /// The gateway was started anew and has the session again.
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
    fn output_without_a_place_is_counted_and_frames_still_come() {
        let queue = Queue::default();
        for _ in 0..OUTPUTS_MAX + 3 {
            queue.push_output(b"four");
        }
        queue.push(json!({"k": "l"}), true);
        let batch = queue.take(Duration::ZERO);
        assert_eq!((batch.items.len(), batch.lost, batch.is_over), (OUTPUTS_MAX + 1, 12, false));
        queue.push_output(b"again");
        queue.end();
        queue.push_output(b"late");
        let batch = queue.take(Duration::from_secs(60));
        assert_eq!((batch.items.len(), batch.lost, batch.is_over), (1, 0, true));
    }

    #[test]
    fn the_sender_is_woken_by_what_is_urgent() {
        let queue = Queue::default();
        let batch = std::thread::scope(|scope| {
            let taken = scope.spawn(|| queue.take(Duration::from_secs(60)));
            queue.push(json!({"k": "q"}), true);
            taken.join().expect("a batch")
        });
        assert!(matches!(&batch.items[0], Item::Frame(_, frame) if frame["k"] == "q"));
    }
}
