//! Connections that stay open after an answer, so that the next question to the same server needs no look-up of its name and no
//! handshake. Each HTTP client has one connection, because ending a question closes all connections of its client.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::{Condvar, Mutex};

use crate::host::now_unix_ms;

/// Longest time for which a connection stays open without a question: enough for a tool between two questions.
pub(in crate::model) const IDLE_MAX: Duration = Duration::from_secs(15);
/// Longest time for the end of a response after the end of its answer, once another question is asked.
const END_MAX: Duration = Duration::from_secs(1);
/// Connections that stay open to one server.
const FREE_MAX: usize = 4;

/// The open connections to one server.
#[derive(Clone, Debug, Default)]
pub(in crate::model) struct Connections(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    closed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    /// Clients with an open, unused connection, and the time since which it is unused, in Unix milliseconds: the wall clock
    /// includes the time during which the machine sleeps.
    free: Vec<(ureq::Agent, i64)>,
    /// Questions whose answer is whole but whose response hasn't ended yet.
    ending: Vec<(InUse, i64)>,
    /// `true` while a thread waits to close unused connections.
    closes: bool,
    /// No further question will come.
    is_closed: bool,
}

/// The HTTP client of a question. It has two owners, the caller and the request's thread; the first one to take it decides its
/// fate.
#[derive(Clone, Debug)]
pub(in crate::model) struct InUse(Arc<Mutex<Option<ureq::Agent>>>);

impl InUse {
    pub(in crate::model) fn new(agent: ureq::Agent) -> Self {
        Self(Arc::new(Mutex::new(Some(agent))))
    }

    /// Closes the connection at once, even in the middle of a transfer.
    pub(in crate::model) fn hang_up(&self) {
        if let Some(agent) = self.0.lock().take() {
            agent.shutdown();
        }
    }
}

impl Connections {
    /// Takes a client with an open connection, if there is one.
    pub(in crate::model) fn take(&self) -> Option<ureq::Agent> {
        let mut state = self.0.state.lock();
        let now = now_unix_ms();
        state.ending.retain(|(question, since)| {
            let in_time = is_younger(*since, now, END_MAX);
            if !in_time {
                question.hang_up();
            }
            in_time
        });
        state.drop_old(now);
        state.free.pop().map(|(agent, _)| agent)
    }

    /// Leaves a question whose answer is whole to its thread, which reads the end of the response.
    pub(in crate::model) fn leave(&self, question: &InUse) {
        if question.0.lock().is_some() {
            self.0.state.lock().ending.push((question.clone(), now_unix_ms()));
        }
    }

    /// Takes over the connection of a response that has been read to its end. The calling thread may have to wait for a while, to
    /// close unused connections.
    pub(in crate::model) fn give_back(&self, question: &InUse) {
        let Some(agent) = question.0.lock().take() else { return };
        let mut state = self.0.state.lock();
        let now = now_unix_ms();
        state.ending.retain(|(other, _)| !Arc::ptr_eq(&other.0, &question.0));
        state.drop_old(now);
        if state.free.len() < FREE_MAX && !state.is_closed {
            state.free.push((agent, now));
        }
        if std::mem::replace(&mut state.closes, true) {
            return;
        }
        while !state.free.is_empty() {
            self.0.closed.wait_for(&mut state, IDLE_MAX);
            state.drop_old(now_unix_ms());
        }
        state.closes = false;
    }

    /// Closes all connections except those of questions in progress.
    pub(in crate::model) fn close(&self) {
        let mut state = self.0.state.lock();
        state.is_closed = true;
        state.free.clear();
        self.0.closed.notify_all();
        for (question, _) in state.ending.drain(..) {
            question.hang_up();
        }
    }

    /// Returns how many connections are open and unused.
    #[cfg(test)]
    pub(in crate::model) fn free(&self) -> usize {
        self.0.state.lock().free.len()
    }
}

impl State {
    fn drop_old(&mut self, now: i64) {
        self.free.retain(|(_, since)| is_younger(*since, now, IDLE_MAX));
    }
}

/// Returns whether less than `most` has passed; false if the clock was set back.
fn is_younger(since: i64, now: i64, most: Duration) -> bool {
    u64::try_from(now - since).is_ok_and(|age_ms| Duration::from_millis(age_ms) < most)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn agent() -> ureq::Agent {
        ureq::Agent::new_with_defaults()
    }

    #[test]
    fn connections_stay_open_for_a_while_and_not_through_a_sleep() {
        let open = Connections::default();
        open.0.state.lock().free.push((agent(), now_unix_ms()));
        assert!(open.take().is_some());
        assert!(open.take().is_none(), "each has one user");
        for since in [0, now_unix_ms() + 3_600_000] {
            open.0.state.lock().free.push((agent(), since));
            assert!(open.take().is_none(), "{since}");
        }
    }

    #[test]
    fn a_response_that_does_not_end_is_closed_when_another_question_comes() {
        let open = Connections::default();
        let (new, old) = (InUse::new(agent()), InUse::new(agent()));
        open.0.state.lock().ending.extend([(new.clone(), now_unix_ms()), (old.clone(), 0)]);
        assert!(open.take().is_none());
        assert!(new.0.lock().is_some() && old.0.lock().is_none());
    }

    #[test]
    fn a_connection_that_was_closed_is_not_given_back() {
        let open = Connections::default();
        let question = InUse::new(agent());
        question.hang_up();
        open.give_back(&question);
        open.leave(&question);
        assert!(open.0.state.lock().free.is_empty() && open.0.state.lock().ending.is_empty());
    }
}
