//! Threads for the synchronous side of requests: a bounded queue and a fixed number of threads. A full queue is an answer, and
//! a panic ends its request only.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::oneshot;

use super::problem::Problem;

type Job = Box<dyn FnOnce() + Send>;

/// A pool of threads.
pub struct Pool {
    jobs: SyncSender<Job>,
    waiting: Arc<AtomicUsize>,
}

impl Pool {
    /// Starts `threads` threads that take jobs from a queue of `queue` places. They end when the pool is dropped.
    ///
    /// # Errors
    /// The system has no more threads.
    pub fn start(name: &str, threads: usize, queue: usize) -> std::io::Result<Self> {
        let (jobs, receiver) = sync_channel::<Job>(queue);
        let (receiver, waiting) = (Arc::new(Mutex::new(receiver)), Arc::new(AtomicUsize::new(0)));
        for number in 0..threads {
            let (receiver, waiting) = (Arc::clone(&receiver), Arc::clone(&waiting));
            std::thread::Builder::new().name(format!("{name}-{number}")).spawn(move || take(&receiver, &waiting))?;
        }
        Ok(Self { jobs, waiting })
    }

    /// Jobs that wait.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.waiting.load(Ordering::Relaxed)
    }

    /// Runs a job on a thread of the pool and waits for its result.
    ///
    /// # Errors
    /// The queue is full (503), or the job panics (500).
    pub async fn run<T: Send + 'static>(&self, job: impl FnOnce() -> T + Send + 'static) -> Result<T, Problem> {
        let (answer, answered) = oneshot::channel();
        let job: Job = Box::new(move || {
            let done = catch_unwind(AssertUnwindSafe(job));
            let _ = answer.send(done.ok());
        });
        self.waiting.fetch_add(1, Ordering::Relaxed);
        if let Err(TrySendError::Full(_) | TrySendError::Disconnected(_)) = self.jobs.try_send(job) {
            self.waiting.fetch_sub(1, Ordering::Relaxed);
            return Err(Problem::overloaded());
        }
        let failed = || Problem::new(500, "internal", "the gateway failed at this request; its log has more");
        answered.await.ok().flatten().ok_or_else(failed)
    }
}

fn take(receiver: &Mutex<Receiver<Job>>, waiting: &AtomicUsize) {
    loop {
        let next = receiver.lock().unwrap_or_else(PoisonError::into_inner).recv();
        let Ok(job) = next else { return };
        waiting.fetch_sub(1, Ordering::Relaxed);
        job();
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;
    use std::task::Poll;

    use super::*;

    fn block_on<T>(future: impl Future<Output = T>) -> T {
        tokio::runtime::Builder::new_current_thread().build().expect("a runtime").block_on(future)
    }

    #[test]
    fn scenario_42_a_panic_is_an_internal_error_and_the_thread_goes_on() {
        let pool = Pool::start("test", 1, 4).expect("threads");
        let problem = block_on(pool.run(|| -> u8 { panic!("planted") })).expect_err("it panics");
        assert_eq!((problem.status, problem.code), (500, "internal"));
        assert_eq!(block_on(pool.run(|| 7)), Ok(7));
    }

    #[test]
    fn a_full_queue_is_answered_at_once() {
        let pool = Pool::start("test", 1, 1).expect("threads");
        let (release, held) = std::sync::mpsc::channel::<()>();
        let (started, has_started) = std::sync::mpsc::channel::<()>();
        block_on(async {
            let first = pool.run(move || {
                let _ = started.send(());
                held.recv().ok()
            });
            let second = pool.run(|| None::<()>);
            let mut first = std::pin::pin!(first);
            let mut second = std::pin::pin!(second);
            let is_pending = poll_fn(|context| Poll::Ready(first.as_mut().poll(context).is_pending()));
            assert!(is_pending.await);
            has_started.recv().expect("the first job");
            let is_pending = poll_fn(|context| Poll::Ready(second.as_mut().poll(context).is_pending()));
            assert!(is_pending.await);
            let third = pool.run(|| ()).await.expect_err("it is full");
            assert_eq!((third.status, third.code), (503, "overloaded"));
            release.send(()).expect("the job waits");
            first.await.expect("it ends");
            second.await.expect("it ends");
        });
    }
}
