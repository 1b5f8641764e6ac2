//! Work of several threads that one of them does for all: while it works, the others gather for the next round. It must not know
//! what the work is.

use parking_lot::{Mutex, MutexGuard};
use std::sync::mpsc::{SyncSender, sync_channel};

/// Items that wait to be worked on together.
pub struct Gather<T, R>(Mutex<State<T, R>>);

struct State<T, R> {
    waiting: Vec<(T, SyncSender<Turn<R>>)>,
    /// True if a thread works, or is about to.
    is_led: bool,
}

/// A message to a waiting thread.
enum Turn<R> {
    /// An order to work next, for all that wait by then.
    Lead,
    /// The result of its own item.
    Done(R),
}

impl<T, R> Default for Gather<T, R> {
    fn default() -> Self {
        Self(Mutex::new(State { waiting: Vec::new(), is_led: false }))
    }
}

impl<T, R> Gather<T, R> {
    /// Works on an item together with all others that wait, in this thread by `work` or in another one by its own. `work` returns
    /// a result for each item, in their order. Returns `None` if the thread that worked on the item panicked.
    pub fn add(&self, item: T, work: impl FnOnce(Vec<T>) -> Vec<R>) -> Option<R> {
        let (answer, answered) = sync_channel(1);
        let leads = {
            let mut state = self.state();
            state.waiting.push((item, answer));
            !std::mem::replace(&mut state.is_led, true)
        };
        if !leads && let Turn::Done(result) = answered.recv().ok()? {
            return Some(result);
        }
        let (answers, results) = {
            // This wakes the next thread, even if this one panics.
            let _next = Next(self);
            let (items, answers): (Vec<T>, Vec<_>) = std::mem::take(&mut self.state().waiting).into_iter().unzip();
            (answers, work(items))
        };
        for (answer, result) in answers.into_iter().zip(results) {
            let _ = answer.send(Turn::Done(result));
        }
        match answered.recv() {
            Ok(Turn::Done(result)) => Some(result),
            _ => None,
        }
    }

    fn state(&self) -> MutexGuard<'_, State<T, R>> {
        self.0.lock()
    }
}

/// Wakes the thread that has waited longest when this is dropped.
struct Next<'g, T, R>(&'g Gather<T, R>);

impl<T, R> Drop for Next<'_, T, R> {
    fn drop(&mut self) {
        let mut state = self.0.state();
        while let Some((_, answer)) = state.waiting.first() {
            if answer.send(Turn::Lead).is_ok() {
                return;
            }
            state.waiting.remove(0);
        }
        state.is_led = false;
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
    use std::sync::mpsc::channel;
    use std::thread;

    use super::*;

    #[test]
    fn each_gets_its_own_result_and_one_works_at_a_time() {
        let (gather, is_busy, rounds) = (Gather::default(), AtomicBool::new(false), AtomicUsize::new(0));
        thread::scope(|scope| {
            for start in 0..8 {
                let (gather, is_busy, rounds) = (&gather, &is_busy, &rounds);
                scope.spawn(move || {
                    for item in (start * 1_000)..(start * 1_000 + 500) {
                        let work = |items: Vec<i32>| {
                            assert!(!is_busy.swap(true, Ordering::AcqRel), "two work at once");
                            rounds.fetch_add(1, Ordering::Relaxed);
                            thread::yield_now();
                            is_busy.store(false, Ordering::Release);
                            items.iter().map(|item| item * 2).collect()
                        };
                        assert_eq!(gather.add(item, work), Some(item * 2));
                    }
                });
            }
        });
        assert!((1..=4_000).contains(&rounds.load(Ordering::Relaxed)));
    }

    #[test]
    fn those_that_wait_during_a_round_are_in_the_next_one_together() {
        let gather = Gather::default();
        let (begun, begins) = channel();
        let (go_on, goes_on) = channel::<()>();
        thread::scope(|scope| {
            let gather = &gather;
            let first = scope.spawn(move || {
                gather.add(0, |items: Vec<i32>| {
                    begun.send(()).expect("the test waits");
                    goes_on.recv().expect("the test goes on");
                    items.iter().map(|_| items.len()).collect()
                })
            });
            begins.recv().expect("it begins");
            let others: Vec<_> = (1..5)
                .map(|item| scope.spawn(move || gather.add(item, |items| vec![items.len(); items.len()])))
                .collect();
            while gather.state().waiting.len() < 4 {
                thread::yield_now();
            }
            go_on.send(()).expect("it waits");
            assert_eq!(first.join().expect("no panic"), Some(1));
            let all: Vec<_> = others.into_iter().map(|it| it.join().expect("no panic")).collect();
            assert_eq!(all, [Some(4); 4]);
        });
        assert_eq!(gather.add(9, |items| items.iter().map(|_| 1).collect()), Some(1), "and it begins anew");
    }

    #[test]
    fn a_panic_ends_one_round_and_no_other() {
        let gather = Gather::<i32, i32>::default();
        let (begun, begins) = channel();
        let (go_on, goes_on) = channel::<()>();
        thread::scope(|scope| {
            let gather = &gather;
            let first = scope.spawn(move || {
                gather.add(0, |_| {
                    begun.send(()).expect("the test waits");
                    goes_on.recv().expect("the test goes on");
                    panic!("as the test wants")
                })
            });
            begins.recv().expect("it begins");
            let other = scope.spawn(move || gather.add(1, |items| items));
            while gather.state().waiting.is_empty() {
                thread::yield_now();
            }
            go_on.send(()).expect("it waits");
            assert!(first.join().is_err());
            assert_eq!(other.join().expect("no panic"), Some(1));
        });
    }
}
