//! Writes lines and how they ended to the history, on a thread of its own, so that no command and no prompt waits for
//! the disk. Readers of the history use [`Writer::store`], which first writes the rows that still wait, so that no
//! reader misses the last line. It must not know what a line means.

use parking_lot::{Mutex, MutexGuard};
use std::cell::OnceCell;
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use crate::store::{Entry, HistoryId, Store};

/// Stands for a line that may not have its row yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::repl) struct Ticket(u64);

/// Idle time before waiting rows are written: the time of a short command and its prompt, which would otherwise share
/// the processor with the disk. A crash loses no more than that.
pub(in crate::repl) const WRITE_AFTER: Duration = Duration::from_millis(15);

/// A task of the writer.
enum Job {
    Append(Ticket, Entry),
    Outcome { ticket: Ticket, status: i32, duration_ms: u64, now_unix_ms: i64 },
    Delete(Ticket),
}

/// The tasks that are left, and the row of the line that was written last.
#[derive(Default)]
struct Queue {
    jobs: VecDeque<Job>,
    written: Option<(Ticket, HistoryId)>,
}

/// The history's writing side; clones share it.
#[derive(Clone)]
pub struct Writer {
    store: Arc<Mutex<Store>>,
    queue: Arc<Mutex<Queue>>,
}

/// A panic elsewhere leaves complete values, so a poisoned lock can be used.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock()
}

impl Writer {
    /// Makes a writer without a thread: queued rows are written at the next access to the store.
    #[must_use]
    pub fn new(store: Arc<Mutex<Store>>) -> Self {
        Self { store, queue: Arc::default() }
    }

    /// The store, as it is shared.
    pub(in crate::repl) fn shared(&self) -> &Arc<Mutex<Store>> {
        &self.store
    }

    /// Returns the store, after writing all waiting rows.
    pub fn store(&self) -> MutexGuard<'_, Store> {
        // Jobs are taken and done under the store's lock alone, so their order holds in any thread.
        let mut store = lock(&self.store);
        loop {
            let Some(job) = lock(&self.queue).jobs.pop_front() else { return store };
            let row_of = |ticket| lock(&self.queue).written.filter(|(known, _)| *known == ticket).map(|(_, row)| row);
            match job {
                Job::Append(ticket, entry) => {
                    let row = store.append(&entry);
                    lock(&self.queue).written = Some((ticket, row));
                }
                Job::Outcome { ticket, status, duration_ms, now_unix_ms } => {
                    if let Some(row) = row_of(ticket) {
                        store.set_outcome(row, Some(status), Some(duration_ms), now_unix_ms);
                    }
                }
                Job::Delete(ticket) => {
                    if let Some(row) = row_of(ticket) {
                        let _ = store.delete(row);
                    }
                }
            }
        }
    }
}

/// The thread. It begins when it is first woken. All its jobs are in the store once this is dropped.
pub(in crate::repl) struct WriterThread {
    writer: Writer,
    /// The inner `None` means that the system has no thread left: then the caller that asks for the store writes.
    thread: OnceCell<Option<(Sender<()>, JoinHandle<()>)>>,
    tickets: u64,
}

impl WriterThread {
    /// Makes it; the thread begins later.
    pub(in crate::repl) fn new(writer: Writer) -> Self {
        Self { writer, thread: OnceCell::new(), tickets: 0 }
    }

    fn begin(&self) -> Option<(Sender<()>, JoinHandle<()>)> {
        let (wake, woken) = channel::<()>();
        let own = self.writer.clone();
        let work = move || {
            while woken.recv().is_ok() {
                // A command that ends at once is written together with its outcome, when its prompt is drawn.
                while woken.recv_timeout(WRITE_AFTER).is_ok() {}
                drop(own.store());
            }
        };
        Some((wake, std::thread::Builder::new().name("history".into()).spawn(work).ok()?))
    }

    /// The writer, for those that read.
    pub(in crate::repl) fn writer(&self) -> &Writer {
        &self.writer
    }

    /// Adds a line; the next job, or [`WriterThread::wake`], notifies the thread.
    pub(in crate::repl) fn append(&mut self, entry: Entry) -> Ticket {
        self.tickets += 1;
        let ticket = Ticket(self.tickets);
        lock(&self.writer.queue).jobs.push_back(Job::Append(ticket, entry));
        ticket
    }

    /// Notes how the line that was added last ended.
    pub(in crate::repl) fn note(&self, ticket: Ticket, status: i32, duration_ms: u64, now_unix_ms: i64) {
        self.push(Job::Outcome { ticket, status, duration_ms, now_unix_ms });
    }

    /// Deletes the line that was added last.
    pub(in crate::repl) fn delete(&self, ticket: Ticket) {
        self.push(Job::Delete(ticket));
    }

    /// Wakes the thread, which writes the rest.
    pub(in crate::repl) fn wake(&self) {
        if let Some((wake, _)) = self.thread.get_or_init(|| self.begin()) {
            let _ = wake.send(());
        }
    }

    fn push(&self, job: Job) {
        lock(&self.writer.queue).jobs.push_back(job);
        self.wake();
    }
}

impl Drop for WriterThread {
    fn drop(&mut self) {
        if let Some(Some((wake, thread))) = self.thread.take() {
            drop(wake);
            let _ = thread.join();
        }
        drop(self.writer.store());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proto::LineKind;

    fn entry(time: i64) -> Entry {
        Entry {
            time,
            session: 1,
            cwd: None,
            hostname: None,
            line: format!("line {time}"),
            kind: LineKind::Command,
            status: None,
            duration_ms: None,
        }
    }

    fn writer() -> Writer {
        Writer::new(Arc::new(Mutex::new(Store::in_memory().expect("a store"))))
    }

    #[test]
    fn dropping_the_writer_stores_every_line_first() {
        let writer = writer();
        let mut thread = WriterThread::new(writer.clone());
        for (time, status) in (0..50).zip(0..) {
            let ticket = thread.append(entry(time));
            thread.note(ticket, status, 7, time);
        }
        drop(thread);
        let rows = lock(&writer.store).recent(100).expect("readable");
        assert_eq!(rows.len(), 50);
        for (row, status) in rows.iter().rev().zip(0..) {
            assert_eq!((row.entry.status, row.entry.duration_ms), (Some(status), Some(7)));
        }
    }

    #[test]
    fn a_reader_sees_lines_that_are_still_to_be_written() {
        let writer = writer();
        let mut unwoken = WriterThread { writer: writer.clone(), thread: OnceCell::from(None), tickets: 0 };
        let first = unwoken.append(entry(1));
        unwoken.note(first, 3, 9, 2);
        let newest = writer.store().recent(1).expect("readable").pop().expect("there").entry;
        assert_eq!((newest.line.as_str(), newest.status), ("line 1", Some(3)));
        let second = unwoken.append(entry(2));
        unwoken.delete(second);
        unwoken.note(second, 0, 0, 3);
        assert_eq!(writer.store().count().expect("readable"), 1);
    }
}
