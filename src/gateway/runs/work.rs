//! Threads for the synchronous side of requests: a bounded queue and a fixed number of threads. If the queue is full, the request
//! is refused, and a panic ends its request only. Tenants take turns, so that one with many requests doesn't hold up the others.
//! Of the idle threads, the one that worked last takes the next job: its memory is still in the processor's cache.
//!
//! While a thread of the pool is idle, the caller may do its job itself in that thread's place: the runtime continues in another
//! thread meanwhile, and it saves waking two threads, one for the job and one for its result.

use parking_lot::{Condvar, Mutex, MutexGuard};
use std::collections::{HashMap, VecDeque};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use tokio::runtime::{Handle, RuntimeFlavor};
use tokio::sync::oneshot;
use tokio::task::block_in_place;

use crate::gateway::http::problem::Problem;

type Job = Box<dyn FnOnce() + Send>;

/// A pool of threads.
pub struct Pool(Arc<Shared>);

struct Shared {
    waiting: Mutex<Waiting>,
    /// A bell for each thread.
    bells: Vec<Condvar>,
    /// Jobs that may wait.
    most: usize,
}

/// Jobs that wait, in lanes that take turns.
#[derive(Default)]
struct Waiting {
    lanes: HashMap<String, VecDeque<Job>>,
    /// The lanes with jobs, the next one first.
    turns: VecDeque<String>,
    count: usize,
    /// Idle threads, the one that worked last at the end.
    idle: Vec<usize>,
    is_closed: bool,
}

impl Shared {
    fn new(threads: usize, most: usize) -> Self {
        let bells = (0..threads).map(|_| Condvar::new()).collect();
        Self { waiting: Mutex::default(), bells, most }
    }

    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock()
    }

    /// Adds a job; returns false if the queue is full. A single lane can't fill the whole queue.
    fn put(&self, lane: &str, job: Job) -> bool {
        let mut waiting = self.waiting();
        let own = waiting.lanes.get(lane).map_or(0, VecDeque::len);
        if waiting.count >= self.most || own >= (self.most * 3 / 4).max(1) {
            return false;
        }
        if own == 0 {
            waiting.turns.push_back(lane.to_owned());
        }
        waiting.lanes.entry(lane.to_owned()).or_default().push_back(job);
        waiting.count += 1;
        if let Some(thread) = waiting.idle.pop() {
            self.bells[thread].notify_one();
        }
        true
    }

    /// Takes the place of an idle thread; `None` if all are working.
    fn place(&self) -> Option<Place<'_>> {
        let thread = self.waiting().idle.pop()?;
        Some(Place { shared: self, thread })
    }

    /// The next job for a thread; `None` at the end.
    fn next(&self, thread: usize) -> Option<Job> {
        let mut waiting = self.waiting();
        loop {
            if let Some(lane) = waiting.turns.pop_front() {
                waiting.count -= 1;
                let jobs = waiting.lanes.get_mut(&lane)?;
                let job = jobs.pop_front();
                if jobs.is_empty() {
                    waiting.lanes.remove(&lane);
                } else {
                    waiting.turns.push_back(lane);
                }
                return job;
            }
            if waiting.is_closed {
                return None;
            }
            waiting.idle.push(thread);
            self.bells[thread].wait(&mut waiting);
            // This covers spurious wake-ups, too.
            waiting.idle.retain(|it| *it != thread);
        }
    }
}

/// The place of an idle thread of the pool, which stays idle until this is dropped.
struct Place<'s> {
    shared: &'s Shared,
    thread: usize,
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        let mut waiting = self.shared.waiting();
        if waiting.count > 0 || waiting.is_closed {
            // It was idle but not in the list of idle threads, so it must be woken here.
            self.shared.bells[self.thread].notify_one();
        } else {
            waiting.idle.push(self.thread);
        }
    }
}

/// Returns whether the caller may block while a job is done: its runtime then continues in another thread.
fn may_stand_still() -> bool {
    Handle::try_current().is_ok_and(|runtime| runtime.runtime_flavor() == RuntimeFlavor::MultiThread)
}

impl Pool {
    /// Starts `threads` threads that take jobs from a queue of `queue` places. They end when the pool is dropped.
    ///
    /// # Errors
    /// The system has no more threads.
    pub fn start(name: &str, threads: usize, queue: usize) -> std::io::Result<Self> {
        let pool = Self(Arc::new(Shared::new(threads, queue)));
        for number in 0..threads {
            let shared = Arc::clone(&pool.0);
            let work = move || {
                while let Some(job) = shared.next(number) {
                    job();
                }
            };
            std::thread::Builder::new().name(format!("{name}-{number}")).spawn(work)?;
        }
        Ok(pool)
    }

    /// Jobs that wait.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.0.waiting().count
    }

    /// Runs a job of a lane on a thread of the pool, or in the place of one, and waits for its result.
    ///
    /// # Errors
    /// The queue is full (503), or the job panics (500).
    pub async fn run<T: Send + 'static>(
        &self,
        lane: &str,
        job: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, Problem> {
        let failed = || Problem::new(500, "internal", "the gateway failed at this request; its log has more");
        if let Some(_place) = may_stand_still().then(|| self.0.place()).flatten() {
            return block_in_place(|| catch_unwind(AssertUnwindSafe(job))).map_err(|_| failed());
        }
        let (answer, answered) = oneshot::channel();
        let job: Job = Box::new(move || {
            let done = catch_unwind(AssertUnwindSafe(job));
            let _ = answer.send(done.ok());
        });
        if !self.0.put(lane, job) {
            return Err(Problem::overloaded());
        }
        answered.await.ok().flatten().ok_or_else(failed)
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        self.0.waiting().is_closed = true;
        for bell in &self.0.bells {
            bell.notify_one();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;
    use std::task::Poll;

    use super::*;
    use crate::gateway::WORK;

    fn block_on<T>(future: impl Future<Output = T>) -> T {
        tokio::runtime::Builder::new_current_thread().build().expect("a runtime").block_on(future)
    }

    #[test]
    fn scenario_42_a_panic_is_an_internal_error_and_the_thread_goes_on() {
        let pool = Pool::start("test", 1, 4).expect("threads");
        let problem = block_on(pool.run("a", || -> u8 { panic!("planted") })).expect_err("it panics");
        assert_eq!((problem.status, problem.code), (500, "internal"));
        assert_eq!(block_on(pool.run("a", || 7)), Ok(7));
    }

    #[test]
    fn a_full_queue_is_answered_at_once() {
        let pool = Pool::start("test", 1, 1).expect("threads");
        let (release, held) = std::sync::mpsc::channel::<()>();
        let (started, has_started) = std::sync::mpsc::channel::<()>();
        block_on(async {
            let first = pool.run("a", move || {
                let _ = started.send(());
                held.recv().ok()
            });
            let second = pool.run("a", || None::<()>);
            let mut first = std::pin::pin!(first);
            let mut second = std::pin::pin!(second);
            let is_pending = poll_fn(|context| Poll::Ready(first.as_mut().poll(context).is_pending()));
            assert!(is_pending.await);
            has_started.recv().expect("the first job");
            let is_pending = poll_fn(|context| Poll::Ready(second.as_mut().poll(context).is_pending()));
            assert!(is_pending.await);
            let third = pool.run("a", || ()).await.expect_err("it is full");
            assert_eq!((third.status, third.code), (503, "overloaded"));
            release.send(()).expect("the job waits");
            first.await.expect("it ends");
            second.await.expect("it ends");
        });
    }

    #[test]
    fn the_thread_that_has_worked_last_takes_the_next_job() {
        let pool = Pool::start("test", 4, 8).expect("threads");
        let idle = |count| {
            while pool.0.waiting().idle.len() < count {
                std::thread::yield_now();
            }
        };
        idle(4);
        let worked: Vec<_> = (0..50)
            .map(|_| {
                let thread = block_on(pool.run("a", || std::thread::current().id())).expect("it ends");
                idle(4);
                thread
            })
            .collect();
        assert!(worked.iter().all(|thread| *thread == worked[0]), "{worked:?}");
        // With more jobs at once each of the others works, too.
        let (begun, begins) = std::sync::mpsc::channel();
        let (release, held) = std::sync::mpsc::channel::<()>();
        let held = Arc::new(Mutex::new(held));
        let jobs = (0..4).map(|_| {
            let (begun, held) = (begun.clone(), Arc::clone(&held));
            pool.run("a", move || {
                let _ = begun.send(());
                let _ = held.lock().recv();
            })
        });
        block_on(async {
            let mut all = futures::future::join_all(jobs);
            let is_pending = poll_fn(|context| Poll::Ready(std::pin::Pin::new(&mut all).poll(context).is_pending()));
            assert!(is_pending.await);
            for _ in 0..4 {
                begins.recv_timeout(std::time::Duration::from_secs(20)).expect("all of them at once");
            }
            (0..4).for_each(|_| release.send(()).expect("the jobs wait"));
            assert!(all.await.iter().all(Result::is_ok));
        });
    }

    #[test]
    fn scenario_63_tenants_take_turns_and_one_does_not_get_all_places() {
        let (threads, places) = WORK;
        let shared = Shared::new(1, places);
        let done = Arc::new(Mutex::new(Vec::new()));
        let job = |lane: &'static str| {
            let done = Arc::clone(&done);
            Box::new(move || done.lock().push(lane)) as Job
        };
        let accepted = (0..300).filter(|_| shared.put("busy", job("busy"))).count();
        assert_eq!(accepted, places * 3 / 4, "the rest of the queue is for others");
        assert!((0..10).all(|_| shared.put("quiet", job("quiet"))));
        // One thread takes the jobs in the same order as all threads would.
        (0..accepted + 10).for_each(|_| shared.next(0).expect("a job")());
        let order = done.lock().clone();
        let quiet: Vec<usize> = (0..order.len()).filter(|at| order[*at] == "quiet").collect();
        assert_eq!(
            quiet,
            (0..10).map(|number| 2 * number + 1).collect::<Vec<_>>(),
            "each waits for one of the other tenant"
        );
        assert!(threads > 1 && shared.waiting().count == 0);
        // A lane that was empty takes its turn again.
        assert!(shared.put("quiet", job("quiet")));
        shared.next(0).expect("a job")();
        assert_eq!(done.lock().last(), Some(&"quiet"));
    }
}
