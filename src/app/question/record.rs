//! Stores a conversation as it happens.

use parking_lot::{Mutex, MutexGuard};
use std::sync::Arc;

use crate::agent::{Ending, PastCall, PastSummary, PastTurn, Recorder, SummaryUpTo};
use crate::host::now_unix_ms;
use crate::money::{Spending, Sum};
use crate::proto::{Failure, Spent};
use crate::store::{
    Charge, ConversationId, MessageState, OpenMessage, Period, RequestId, Store, StoreError, StoredCall, StoredSummary,
    StoredTurn, TurnCounts,
};

const DAY_MS: i64 = 24 * 60 * 60 * 1000;

/// The agent's view of stored turns.
#[must_use]
pub fn past_turns(turns: Vec<StoredTurn>) -> Vec<PastTurn> {
    let past = |turn: StoredTurn| PastTurn {
        question: turn.question,
        answer: turn.answer,
        is_whole: turn.state == MessageState::Complete,
    };
    turns.into_iter().map(past).collect()
}

/// Returns the summary with which a conversation continues.
///
/// # Errors
/// The database can't be read.
pub fn past_summary(store: &Store, id: ConversationId) -> Result<Option<PastSummary>, StoreError> {
    let past = |StoredSummary { turns, text }| PastSummary { text, turns: turns as usize };
    Ok(store.summary(id)?.map(past))
}

/// The number of turns before the given one, which is identified by its question, with the context before it, and its
/// answer. Another shell may have added turns meanwhile, so the search begins at the end.
fn turns_before(turns: &[StoredTurn], first: Option<(&str, &str)>) -> usize {
    let Some((question, answer)) = first else { return turns.len() };
    let is_first = |turn: &StoredTurn| question.ends_with(&turn.question) && answer.starts_with(turn.answer.trim_end());
    turns.iter().rposition(is_first).unwrap_or(turns.len())
}

/// Writes questions and the pieces of answers to the store.
pub struct StoreRecorder {
    store: Arc<Mutex<Store>>,
    /// Begun with the first question, so that a session without questions stores nothing.
    conversation: Option<ConversationId>,
    open: Option<OpenMessage>,
    /// The turns that the agent knows of.
    known: TurnCounts,
    /// The row of a request that is on its way.
    reserved: Option<RequestId>,
    /// `true` if another part of the program reports the store's problems.
    is_quiet: bool,
    /// The run that requests are made for.
    charge: Option<Charge>,
}

impl StoreRecorder {
    /// Makes a recorder; the conversation begins with the first question.
    #[must_use]
    pub fn new(store: Arc<Mutex<Store>>) -> Self {
        let known = TurnCounts::default();
        Self { store, conversation: None, open: None, known, reserved: None, is_quiet: false, charge: None }
    }

    /// Makes a recorder for background work of a session, for one of its conversations.
    #[must_use]
    pub fn in_background(store: Arc<Mutex<Store>>, conversation: ConversationId) -> Self {
        Self { conversation: Some(conversation), is_quiet: true, ..Self::new(store) }
    }

    /// The store's problem, if this recorder is the one to report it.
    fn store_problem(is_quiet: bool, store: &mut Store) -> Result<(), Failure> {
        if is_quiet { Ok(()) } else { store.take_problem().map_or(Ok(()), |problem| Err(problem.into())) }
    }

    /// After a panic in another thread all rows are whole, so a poisoned lock is as good as another.
    fn store(store: &Arc<Mutex<Store>>) -> MutexGuard<'_, Store> {
        store.lock()
    }
}

impl StoreRecorder {
    /// Returns the conversation at hand, and begins one if there is none.
    fn begun(
        conversation: &mut Option<ConversationId>,
        store: &mut Store,
        now: i64,
        model: Option<&str>,
    ) -> ConversationId {
        *conversation.get_or_insert_with(|| {
            let begun = store.begin_conversation(now, model.unwrap_or_default());
            tracing::info!(event = "conversation_started", conversation = begun.0);
            begun
        })
    }
}

impl Recorder for StoreRecorder {
    fn begin(&mut self, model: Option<&str>) -> Option<ConversationId> {
        let mut store = Self::store(&self.store);
        Some(Self::begun(&mut self.conversation, &mut store, now_unix_ms(), model))
    }

    fn question(&mut self, text: &str, model: Option<&str>) -> Result<(), Failure> {
        let now = now_unix_ms();
        let mut store = Self::store(&self.store);
        let conversation = Self::begun(&mut self.conversation, &mut store, now, model);
        self.open = Some(store.ask(conversation, now, text, model));
        self.known.asked += 1;
        Self::store_problem(self.is_quiet, &mut store)
    }

    fn turn_to(&mut self, conversation: Option<ConversationId>) {
        self.conversation = conversation;
        self.known = conversation.and_then(|id| Self::store(&self.store).turn_counts(id)).unwrap_or_default();
    }

    fn changed_beside(&mut self) -> Option<(Vec<PastTurn>, Option<PastSummary>)> {
        let conversation = self.conversation?;
        let store = Self::store(&self.store);
        if !store.turn_counts(conversation)?.is_after(self.known) {
            return None;
        }
        let turns = store.turns(conversation).ok()?;
        Some((past_turns(turns), past_summary(&store, conversation).ok()?))
    }

    fn charge(&mut self, charge: Option<Charge>) {
        self.charge = charge;
    }

    fn beside(&self) -> Option<Box<dyn Recorder>> {
        let beside = Self { conversation: self.conversation, is_quiet: true, ..Self::new(Arc::clone(&self.store)) };
        Some(Box::new(beside))
    }

    fn conversation(&self) -> Option<ConversationId> {
        self.conversation
    }

    fn summarised(&mut self, summary: Option<SummaryUpTo<'_>>) -> Result<(), Failure> {
        let Some(conversation) = self.conversation else { return Ok(()) };
        let mut store = Self::store(&self.store);
        let stored = match summary {
            None => None,
            Some((text, first)) => {
                let turns = turns_before(&store.turns(conversation)?, first);
                Some(StoredSummary { turns: u32::try_from(turns).unwrap_or(u32::MAX), text: text.to_owned() })
            }
        };
        Ok(store.set_summary(conversation, stored.as_ref(), now_unix_ms())?)
    }

    fn answer_piece(&mut self, text: &str) -> Result<(), Failure> {
        let mut store = Self::store(&self.store);
        if let Some(open) = &mut self.open {
            store.push_piece(open, text, now_unix_ms());
        }
        Self::store_problem(self.is_quiet, &mut store)
    }

    fn answer_pauses(&mut self) -> Result<(), Failure> {
        let mut store = Self::store(&self.store);
        if let Some(open) = &mut self.open {
            store.write_pieces(open, now_unix_ms());
        }
        Self::store_problem(self.is_quiet, &mut store)
    }

    fn spent(&mut self, spent: &Spent, thoughts: &str) -> Result<(), Failure> {
        self.release()?;
        let mut store = Self::store(&self.store);
        store.add_request_for(self.charge, self.conversation, now_unix_ms(), spent, thoughts);
        Self::store_problem(self.is_quiet, &mut store)
    }

    fn tool(&mut self, call: &PastCall) -> Result<(), Failure> {
        let PastCall { id, tool, arguments, result, is_done, receipt } = call.clone();
        let mut store = Self::store(&self.store);
        if let Some(open) = &self.open {
            let time = now_unix_ms();
            let call = StoredCall { time, call_id: id, tool, arguments, result, success: is_done, receipt };
            store.add_call(open, &call);
        }
        store.take_problem().map_or(Ok(()), |problem| Err(problem.into()))
    }

    fn calls(&mut self) -> Result<Vec<(String, Vec<PastCall>)>, Failure> {
        let Some(conversation) = self.conversation else { return Ok(Vec::new()) };
        let past = |call: StoredCall| {
            let StoredCall { call_id: id, tool, arguments, result, success: is_done, receipt, .. } = call;
            PastCall { id, tool, arguments, result, is_done, receipt }
        };
        let turns = Self::store(&self.store).turns(conversation)?;
        let with_calls = turns.into_iter().filter(|turn| !turn.calls.is_empty() && !turn.answer.trim().is_empty());
        Ok(with_calls.map(|turn| (turn.question, turn.calls.into_iter().map(past).collect())).collect())
    }

    fn reserve(&mut self, spent: &Spent) -> Result<(), Failure> {
        self.release()?;
        let mut store = Self::store(&self.store);
        self.reserved = Some(store.add_request_for(self.charge, self.conversation, now_unix_ms(), spent, ""));
        Self::store_problem(self.is_quiet, &mut store)
    }

    fn release(&mut self) -> Result<(), Failure> {
        let Some(reserved) = self.reserved.take() else { return Ok(()) };
        let mut store = Self::store(&self.store);
        store.drop_request(reserved, now_unix_ms());
        Self::store_problem(self.is_quiet, &mut store)
    }

    fn spending(&mut self) -> Result<Spending, Failure> {
        let store = Self::store(&self.store);
        let sum = |period| -> Result<Sum, Failure> {
            let spent = store.spent(period)?;
            Ok(Sum { money: spent.cost, tokens: spent.total_in() + spent.total_out() })
        };
        let conversation = self.conversation.map(|id| sum(Period::Conversation(id))).transpose()?.unwrap_or_default();
        let run = self.charge.map(|(run, _)| sum(Period::Run(run))).transpose()?.unwrap_or_default();
        Ok(Spending { conversation, day: sum(Period::Day(now_unix_ms()))?, run, ..Spending::default() })
    }

    fn token_factor(&mut self, model: &str) -> Option<f64> {
        Self::store(&self.store).token_factor(model)
    }

    fn learn_token_factor(&mut self, model: &str, factor: f64) -> Result<(), Failure> {
        let mut store = Self::store(&self.store);
        store.learn_token_factor(model, factor, now_unix_ms());
        Self::store_problem(self.is_quiet, &mut store)
    }

    fn today(&self) -> i64 {
        now_unix_ms() / DAY_MS
    }

    fn finished(&mut self, ending: Ending<'_>) -> Result<(), Failure> {
        let state = match ending {
            Ending::Answered => MessageState::Complete,
            Ending::Cancelled => MessageState::Partial,
            Ending::Failed(_) => MessageState::Failed,
        };
        let mut store = Self::store(&self.store);
        if let Some(open) = self.open.take() {
            store.finish_message(open, state, now_unix_ms());
            self.known.ended += u32::from(state != MessageState::Partial);
            let conversation = self.conversation.map(|id| id.0);
            tracing::info!(event = "memory_persisted", conversation, durable = store.is_durable());
        }
        Self::store_problem(self.is_quiet, &mut store)
    }
}
