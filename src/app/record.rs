//! Keeps a conversation in the store as it happens.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::agent::{Ending, PastTurn, Recorder};
use crate::host::now_unix_ms;
use crate::proto::{Failure, Spent};
use crate::store::{ConversationId, MessageState, OpenMessage, Store, StoredTurn};

/// What the agent needs to know of stored turns.
#[must_use]
pub fn past_turns(turns: Vec<StoredTurn>) -> Vec<PastTurn> {
    let past = |turn: StoredTurn| PastTurn {
        question: turn.question,
        answer: turn.answer,
        is_whole: turn.state == MessageState::Complete,
    };
    turns.into_iter().map(past).collect()
}

/// Writes questions and the pieces of answers to the store.
pub struct StoreRecorder {
    store: Arc<Mutex<Store>>,
    /// Begun with the first question, so that a session without questions leaves nothing behind.
    conversation: Option<ConversationId>,
    open: Option<OpenMessage>,
}

impl StoreRecorder {
    /// Makes a recorder; the conversation begins with the first question.
    #[must_use]
    pub fn new(store: Arc<Mutex<Store>>) -> Self {
        Self { store, conversation: None, open: None }
    }

    /// A panic elsewhere leaves whole rows behind, so a poisoned lock is as good as another.
    fn store(store: &Arc<Mutex<Store>>) -> MutexGuard<'_, Store> {
        store.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Recorder for StoreRecorder {
    fn question(&mut self, text: &str, model: Option<&str>) -> Result<(), Failure> {
        let now = now_unix_ms();
        let mut store = Self::store(&self.store);
        let begin = || store.begin_conversation(now, model.unwrap_or_default());
        let conversation = *self.conversation.get_or_insert_with(begin);
        self.open = Some(store.ask(conversation, now, text, model));
        store.take_problem().map_or(Ok(()), |problem| Err(problem.into()))
    }

    fn turn_to(&mut self, conversation: Option<ConversationId>) {
        self.conversation = conversation;
    }

    fn conversation(&self) -> Option<ConversationId> {
        self.conversation
    }

    fn answer_piece(&mut self, text: &str) -> Result<(), Failure> {
        let mut store = Self::store(&self.store);
        if let Some(open) = &mut self.open {
            store.push_piece(open, text, now_unix_ms());
        }
        store.take_problem().map_or(Ok(()), |problem| Err(problem.into()))
    }

    fn answer_pauses(&mut self) -> Result<(), Failure> {
        let mut store = Self::store(&self.store);
        if let Some(open) = &mut self.open {
            store.write_pieces(open, now_unix_ms());
        }
        store.take_problem().map_or(Ok(()), |problem| Err(problem.into()))
    }

    fn spent(&mut self, spent: &Spent, thoughts: &str) -> Result<(), Failure> {
        let mut store = Self::store(&self.store);
        store.add_request(self.conversation, now_unix_ms(), spent, thoughts);
        store.take_problem().map_or(Ok(()), |problem| Err(problem.into()))
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
        }
        store.take_problem().map_or(Ok(()), |problem| Err(problem.into()))
    }
}
