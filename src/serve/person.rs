//! The person who answers for another agent's call at a ReedClaw session. The client can't answer for them.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::asks::{Asks, WAIT};
use crate::agent::{Cancel, Person};
use crate::proto::tool::{Answer, Question};
use crate::rpc::Peer;

/// Interval at which the answer is looked for.
const LOOK: Duration = Duration::from_millis(50);
/// Interval of the signs of life that keep a client from giving up.
const SIGN: Duration = Duration::from_secs(10);

/// The person at a session, for one call.
pub(super) struct AtSession<'a> {
    /// The place of the questions; without one no question can be asked.
    pub(super) asks: Option<&'a Asks>,
    pub(super) client: &'a str,
    pub(super) cancel: &'a Cancel,
    pub(super) peer: &'a Peer,
    /// The token for signs of progress; null if the client wants none.
    pub(super) progress: &'a Value,
}

impl AtSession<'_> {
    fn sign(&self, number: u32, seconds: u64) {
        if !self.progress.is_null() {
            let message = format!("waits for the user: in a ReedClaw session, :approve {number}");
            let params = json!({
                "progressToken": self.progress, "progress": seconds, "total": WAIT.as_secs(), "message": message,
            });
            self.peer.notify("notifications/progress", &params);
        }
    }
}

impl Person for AtSession<'_> {
    fn can_ask(&self) -> bool {
        self.asks.is_some()
    }

    fn approve(&mut self, question: &Question) -> Answer {
        let no = |why: &str| Answer::Unanswered(why.to_owned());
        // Only the person's own shell would do, and this isn't it.
        if question.only_own_shell {
            return no("it needs a terminal");
        }
        let Some(asks) = self.asks else { return no("no one can be asked") };
        let ask = match asks.put(self.client, question) {
            Ok(ask) => ask,
            Err(error) => return no(&format!("no one could be asked: {error}")),
        };
        let began = Instant::now();
        let mut next_sign = Duration::ZERO;
        let answer = loop {
            let waited = began.elapsed();
            if waited >= next_sign {
                self.sign(ask.number, waited.as_secs());
                next_sign += SIGN;
            }
            match asks.answered(&ask) {
                Some(true) => break Answer::Once,
                Some(false) => break Answer::No(String::new()),
                None if self.cancel.is_cancelled() => break no("the call was cancelled"),
                None if waited >= WAIT => {
                    break no("no one answered at a ReedClaw session within two minutes");
                }
                None => std::thread::park_timeout(LOOK),
            }
        };
        asks.remove(&ask);
        answer
    }
}
