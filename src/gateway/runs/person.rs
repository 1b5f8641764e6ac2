//! The persons who use the gateway: a row in the database asks them, and they answer once over HTTP.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::chained::TeamChain;
use crate::agent::{Cancel, Person};
use crate::gateway::Gateway;
use crate::ledger::{Asked, LedgerError, uuid_v7};
use crate::proto::tool::{Answer, Question};
use crate::share::card;

/// Limit on the content of a question, in bytes. A person wouldn't read more, so a longer question isn't asked at all.
const CARD_BYTES_MAX: usize = 512 * 1024;

/// Called with the id of a question that was asked.
pub type OnAsked = Box<dyn FnMut(&str) + Send>;

/// The persons of a tenant, during one call or run.
pub struct Remote {
    /// The gateway.
    pub gateway: Arc<Gateway>,
    /// The gates, which are asked before any person is.
    pub chain: Arc<TeamChain>,
    /// Ends the wait.
    pub cancel: Cancel,
    /// Called for each question.
    pub on_asked: OnAsked,
    /// The last question.
    pub question_id: Option<String>,
    /// The person who answered it.
    pub by: Option<String>,
}

impl Person for Remote {
    fn can_ask(&self) -> bool {
        true
    }

    fn name(&self) -> Option<String> {
        self.by.clone()
    }

    fn approve(&mut self, question: &Question) -> Answer {
        let no = |why: &str| Answer::Unanswered(why.to_owned());
        // A gate that blocks asks no person. The chain remembers it, so this yes admits nothing.
        if self.chain.holds_personal(&question.action, &question.preview).is_some()
            || self.chain.peek(&question.tool, Some(&question.verdict)).is_err()
        {
            return Answer::Once;
        }
        if question.only_own_shell {
            return no("it needs a terminal");
        }
        let card = card(question).to_string();
        if card.len() > CARD_BYTES_MAX {
            return no("it is too long to be read through, so no one was asked");
        }
        let id = uuid_v7();
        let wait_ms = self.gateway.question_timeout_ms();
        let asked = Asked {
            question_id: id.clone(),
            stream: self.chain.stream(),
            digest: question.digest.clone(),
            card,
            wait_ms,
        };
        if let Err(error) = self.gateway.ledger.questions().ask(&self.chain.who(), &asked) {
            return no(&format!("no one could be asked: {error}"));
        }
        self.question_id = Some(id.clone());
        (self.on_asked)(&id);
        self.gateway.metrics.questions_open.fetch_add(1, Ordering::Relaxed);
        let answer = self.wait(&id, &question.tool);
        self.gateway.metrics.questions_open.fetch_sub(1, Ordering::Relaxed);
        answer
    }
}

impl Remote {
    /// Waits for the answer to a question about a tool.
    fn wait(&mut self, id: &str, tool: &str) -> Answer {
        let (ledger, who) = (&self.gateway.ledger, &self.chain.who());
        loop {
            let seen = self.gateway.bell.count();
            match ledger.questions().answer_of(who, id) {
                Ok(Some(answer)) => {
                    self.by = Some(answer.by.clone());
                    let why =
                        if answer.note.is_empty() { answer.by } else { format!("{}: {}", answer.by, answer.note) };
                    return if answer.is_yes { Answer::Once } else { Answer::No(why) };
                }
                Ok(None) => {}
                Err(LedgerError::Late) => return Answer::Unanswered("no one answered in time".into()),
                Err(error) => return Answer::Unanswered(format!("the answer can't be read: {error}")),
            }
            let stopped = match () {
                () if self.cancel.is_cancelled() => Some("it was stopped".to_owned()),
                () if *self.gateway.stopping.borrow() => Some("the gateway ends".to_owned()),
                () => self.gateway.stopped().or_else(|| self.killed(tool)),
            };
            if let Some(why) = stopped {
                if let Err(error) = ledger.questions().close(&self.chain.who_at_end(), id, &why) {
                    tracing::warn!(event = "question_not_closed", why = error.to_string());
                }
                return Answer::Unanswered(why);
            }
            self.gateway.bell.wait(seen);
        }
    }

    /// Reason why a kill switch stops the tool, as any session may set one while a person is asked.
    fn killed(&self, tool: &str) -> Option<String> {
        match self.gateway.ledger.safety().kill_switch(&self.chain.who(), tool) {
            Ok(stop) => stop.map(|stop| format!("a kill switch was set ({}), by {}", stop.scope, stop.by)),
            Err(error) => Some(format!("the kill switches can't be read: {error}")),
        }
    }
}
