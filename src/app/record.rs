//! Keeps a conversation in the store as it happens.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::Resume;
use crate::agent::{Ending, Recorder};
use crate::host::now_unix_ms;
use crate::proto::{Failure, FailureKind, Message, Role};
use crate::store::{ConversationId, MessageState, OpenMessage, Store};

/// Writes questions and the pieces of answers to the store.
pub struct StoreRecorder {
    store: Arc<Mutex<Store>>,
    model: String,
    /// Begun with the first question, so that a session without questions leaves nothing behind.
    conversation: Option<ConversationId>,
    open: Option<OpenMessage>,
}

impl StoreRecorder {
    /// Makes a recorder; the conversation begins with the first question.
    #[must_use]
    pub fn new(store: Arc<Mutex<Store>>, model: String) -> Self {
        Self { store, model, conversation: None, open: None }
    }

    /// Goes on with a stored conversation and gives what was said in it.
    pub(super) fn resume(&mut self, which: Resume) -> Result<Vec<Message>, Failure> {
        let store = Self::store(&self.store);
        let missing = |message: String, hint: &str| Failure { kind: FailureKind::User, message, hint: hint.to_owned() };
        let id = match which {
            Resume::Id(id) => ConversationId(id),
            Resume::Last => match store.conversations(1)?.first() {
                Some(newest) => newest.id,
                None => return Err(missing("there is no conversation to go on with".into(), "ask without it first")),
            },
        };
        let messages: Vec<Message> = store.messages(id)?.into_iter().map(|stored| stored.message).collect();
        if messages.is_empty() {
            return Err(missing(format!("there is no conversation {}", id.0), "`last` is the newest one"));
        }
        drop(store);
        self.conversation = Some(id);
        Ok(messages)
    }

    /// A panic elsewhere leaves whole rows behind, so a poisoned lock is as good as another.
    fn store(store: &Arc<Mutex<Store>>) -> MutexGuard<'_, Store> {
        store.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Recorder for StoreRecorder {
    fn question(&mut self, text: &str) -> Result<(), Failure> {
        let now = now_unix_ms();
        let mut store = Self::store(&self.store);
        let conversation = *self.conversation.get_or_insert_with(|| store.begin_conversation(now, &self.model));
        store.add_message(conversation, now, &Message { role: Role::User, content: text.to_owned() });
        self.open = Some(store.begin_message(conversation, now, Role::Assistant));
        store.take_problem().map_or(Ok(()), |problem| Err(problem.into()))
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
