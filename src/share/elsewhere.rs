//! A question that is open in two places at once: at the terminal and at those who watch. The first answer counts, wherever it
//! comes from, and only for exactly the call that was shown.

use parking_lot::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Time for an answer from elsewhere.
pub const ELSEWHERE_WAIT: Duration = Duration::from_secs(120);

/// An answer that came from elsewhere.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RemoteAnswer {
    /// `true` if the call may run, this once.
    pub is_yes: bool,
    /// The person's reason.
    pub note: String,
    /// The person.
    pub by: String,
}

/// Reason why an answer from elsewhere doesn't count.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// Already answered: by a person elsewhere, or by the one at the terminal.
    Answered(Option<String>),
    /// The answer names another call.
    OtherCall,
    /// The question has expired.
    Late,
}

/// The other side of a question that a person is asked at the terminal.
#[derive(Debug)]
pub struct Elsewhere {
    /// Its number in the session.
    pub number: u64,
    /// The fingerprint of the call.
    pub digest: String,
    /// The persons who may answer, in words.
    pub whom: String,
    state: Mutex<State>,
    withdrawn: AtomicBool,
    until: Instant,
}

#[derive(Debug)]
enum State {
    Open,
    AnsweredHere,
    AnsweredThere(RemoteAnswer),
}

impl Elsewhere {
    /// A question that is open from now on.
    #[must_use]
    pub fn new(number: u64, digest: String, whom: String) -> Self {
        let until = Instant::now() + ELSEWHERE_WAIT;
        Self { number, digest, whom, state: Mutex::new(State::Open), withdrawn: AtomicBool::new(false), until }
    }

    fn state(&self) -> parking_lot::MutexGuard<'_, State> {
        self.state.lock()
    }

    /// The flag that withdraws the question at the terminal.
    #[must_use]
    pub fn withdrawn(&self) -> &AtomicBool {
        &self.withdrawn
    }

    /// Takes the answer of the person at the terminal.
    ///
    /// # Errors
    /// The answer that came from elsewhere before.
    pub fn answer_here(&self) -> Result<(), RemoteAnswer> {
        let mut state = self.state();
        match &*state {
            State::AnsweredThere(answer) => Err(answer.clone()),
            State::Open | State::AnsweredHere => {
                *state = State::AnsweredHere;
                Ok(())
            }
        }
    }

    /// Takes an answer from elsewhere, for the call with this fingerprint.
    ///
    /// # Errors
    /// It came too late, or is for another call.
    pub fn answer_there(&self, digest: &str, answer: RemoteAnswer) -> Result<(), Refusal> {
        let mut state = self.state();
        match &*state {
            State::AnsweredHere => return Err(Refusal::Answered(None)),
            State::AnsweredThere(first) => return Err(Refusal::Answered(Some(first.by.clone()))),
            State::Open if digest != self.digest => return Err(Refusal::OtherCall),
            State::Open if Instant::now() > self.until => return Err(Refusal::Late),
            State::Open => *state = State::AnsweredThere(answer),
        }
        self.withdrawn.store(true, Ordering::Release);
        Ok(())
    }

    /// The answer from elsewhere, if it was first.
    #[must_use]
    pub fn answer(&self) -> Option<RemoteAnswer> {
        match &*self.state() {
            State::AnsweredThere(answer) => Some(answer.clone()),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Barrier;
    use std::thread;

    use super::*;

    fn yes(by: &str) -> RemoteAnswer {
        RemoteAnswer { is_yes: true, note: String::new(), by: by.to_owned() }
    }

    #[test]
    fn scenario_54_of_answers_at_the_terminal_and_elsewhere_at_once_one_counts() {
        for round in 0..1_000 {
            let open = Elsewhere::new(1, "d".into(), "anna".into());
            let start = Barrier::new(3);
            let (at_terminal, anna, ben) = thread::scope(|scope| {
                let go = |by: &'static str| {
                    let (open, start) = (&open, &start);
                    scope.spawn(move || {
                        start.wait();
                        open.answer_there("d", yes(by))
                    })
                };
                let (anna, ben) = (go("anna"), go("ben"));
                start.wait();
                let at_terminal = open.answer_here();
                (at_terminal, anna.join().expect("an answer"), ben.join().expect("an answer"))
            });
            let counted = [at_terminal.is_ok(), anna.is_ok(), ben.is_ok()];
            assert_eq!(counted.iter().filter(|it| **it).count(), 1, "{round}: {counted:?}");
            match (&at_terminal, open.answer()) {
                (Ok(()), None) => {}
                (Err(answer), Some(stored)) => assert_eq!(*answer, stored),
                other => panic!("{round}: {other:?}"),
            }
            assert_eq!(open.withdrawn().load(Ordering::Acquire), at_terminal.is_err());
        }
    }

    #[test]
    fn an_answer_for_another_call_counts_for_nothing() {
        let open = Elsewhere::new(1, "d".into(), "anna".into());
        assert_eq!(open.answer_there("e", yes("anna")), Err(Refusal::OtherCall));
        assert_eq!(open.answer(), None);
        assert_eq!(open.answer_there("d", yes("anna")), Ok(()));
        assert_eq!(open.answer_there("d", yes("ben")), Err(Refusal::Answered(Some("anna".into()))));
        assert_eq!(open.answer_here(), Err(yes("anna")));
    }
}
