//! Memories, and the search through conversations: `:memory`, `/memory`, `reedclaw memory`, `GET /memory/search`. It must
//! not know how a memory is drawn, or when one is proposed.

use crate::agent::Agent;
use crate::base::text::one_line;
use crate::host;
use crate::proto::{Failure, Role};
use crate::store::{
    ConversationId, Hit, MemoryOrigin, Store, StoreError, StoredMemory, StoredMessage, StoredTurn, ToRemember,
};

/// Longest memory in characters; a longer text is a document.
const TEXT_CHARS_MAX: usize = 4_000;

/// Shortest conversation, in turns, that is remembered without a request; a shorter one says too little.
const TURNS_MIN: usize = 3;

/// The memories in use, or with `is_taken` false the proposed ones in the inbox.
///
/// # Errors
/// The store can't be read.
pub fn list(store: &Store, is_taken: bool) -> Result<Vec<StoredMemory>, Failure> {
    Ok(store.memories(is_taken)?)
}

/// All memories, those of the inbox last.
///
/// # Errors
/// The store can't be read.
pub fn all(store: &Store) -> Result<Vec<StoredMemory>, Failure> {
    Ok([store.memories(true)?, store.memories(false)?].concat())
}

/// The result of a search.
#[derive(Debug)]
pub struct Found {
    /// The memories with the words, the best first.
    pub memories: Vec<StoredMemory>,
    /// The places in conversations, the best first.
    pub hits: Vec<Hit>,
}

impl Found {
    /// Returns whether nothing was found.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.memories.is_empty() && self.hits.is_empty()
    }
}

/// Searches the memories and all conversations for words, beginnings (`word*`) or phrases; at most `limit` of each.
///
/// # Errors
/// The store can't be read.
pub fn find(store: &mut Store, query: &str, limit: usize) -> Result<Found, Failure> {
    let mut memories = store.find_memories(query)?;
    memories.truncate(limit);
    Ok(Found { memories, hits: recall(store, query, limit)? })
}

/// Searches all conversations alone.
///
/// # Errors
/// The store can't be read.
pub fn recall(store: &mut Store, query: &str, limit: usize) -> Result<Vec<Hit>, StoreError> {
    store.recall(query, limit)
}

/// The memory with a number.
///
/// # Errors
/// There is none, or the store can't be read.
pub fn show(store: &Store, id: i64) -> Result<StoredMemory, Failure> {
    all(store)?.into_iter().find(|memory| memory.id == id).ok_or_else(|| unknown(id))
}

/// A change of a stored memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change<'a> {
    /// The memory gets another text.
    Edit(&'a str),
    /// The memory is deleted.
    Forget,
    /// The memory leaves the inbox and counts from now on.
    Take,
    /// The memory leaves the inbox and is deleted.
    Drop,
}

/// Changes a memory, and returns the word for what was done.
///
/// # Errors
/// No memory has the number, the new text is too long, or the store can't be written.
pub fn change(store: &mut Store, agent: &Agent, id: i64, change: Change<'_>) -> Result<&'static str, Failure> {
    let (is_done, word) = match change {
        Change::Edit(text) => (store.edit_memory(id, &fitting(agent, text)?, host::now_unix_ms())?, "changed"),
        Change::Forget => (store.forget_memory(id, true)?, "forgotten"),
        Change::Take => (store.take_memory(id)?, "taken"),
        Change::Drop => (store.forget_memory(id, false)?, "dropped"),
    };
    if is_done { Ok(word) } else { Err(unknown(id)) }
}

/// Remembers a person's own text everywhere, and returns its number; `None` if it is remembered already.
///
/// # Errors
/// The text is too long, or the store can't be written.
pub fn add(store: &mut Store, agent: &Agent, text: &str) -> Result<Option<StoredMemory>, Failure> {
    let text = fitting(agent, text)?;
    remember(
        store,
        StoredMemory { origin: MemoryOrigin::User, place: None, reach: 2, ..written(agent, None, None, text) },
    )
}

/// Makes the memory that a model has written at a place, usually about a conversation; it goes to no model farther away
/// than the one that answers.
#[must_use]
pub fn written(
    agent: &Agent,
    place: Option<String>,
    conversation: Option<ConversationId>,
    text: String,
) -> StoredMemory {
    StoredMemory {
        id: 0,
        time: host::now_unix_ms(),
        place,
        origin: MemoryOrigin::Summary,
        conversation,
        is_accepted: true,
        reach: agent.reach(None),
        text,
    }
}

/// Stores a memory, and returns it with its number; `None` if its text is remembered already.
///
/// # Errors
/// The store can't be written.
pub fn remember(store: &mut Store, memory: StoredMemory) -> Result<Option<StoredMemory>, Failure> {
    Ok(store.remember(&memory)?.map(|id| StoredMemory { id, ..memory }))
}

/// Queues a conversation that ends for a memory note about `place`; returns whether it did. One of few turns isn't queued.
pub fn note_ended(store: &mut Store, conversation: ConversationId, place: Option<String>) -> bool {
    let messages = store.messages(conversation).unwrap_or_default();
    let is_answer = |it: &StoredMessage| it.message.role == Role::Assistant && !it.message.content.trim().is_empty();
    let models: Vec<String> = messages.into_iter().filter(is_answer).filter_map(|it| it.model).collect();
    let Some(model) = models.last().filter(|_| models.len() >= TURNS_MIN).cloned() else { return false };
    // The next line of the history reports a store that can't be written.
    store.note_ended(&ToRemember { conversation, place, model }, host::now_unix_ms()).is_ok()
}

/// The queued conversation that ended last, with its turns.
#[must_use]
pub fn next_ended(store: &Store) -> Option<(ToRemember, Vec<StoredTurn>)> {
    let next = store.next_to_remember().ok().flatten()?;
    let turns = store.turns(next.conversation).ok()?;
    Some((next, turns))
}

/// The end of a queued conversation's memory note.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Noted {
    /// Written, or not wanted: the conversation leaves the queue.
    Done,
    /// Not written: the conversation is tried again, a few times.
    Failed,
}

/// Records the end of a conversation's memory note.
///
/// # Errors
/// The store can't be written.
pub fn note_tried(store: &mut Store, conversation: ConversationId, noted: Noted) -> Result<(), StoreError> {
    match noted {
        Noted::Done => store.no_longer_to_remember(conversation),
        Noted::Failed => store.note_not_remembered(conversation),
    }
}

/// The line about a memory that was stored.
#[must_use]
pub fn stored_line(memory: Option<&StoredMemory>) -> String {
    match memory {
        Some(memory) => format!("[memory] {}: {}", memory.id, one_line(&memory.text)),
        None => "that is remembered already".to_owned(),
    }
}

/// Returns the text without its secrets.
fn fitting(agent: &Agent, text: &str) -> Result<String, Failure> {
    let text = agent.redacted(text);
    if text.chars().count() <= TEXT_CHARS_MAX {
        return Ok(text);
    }
    let message = format!("a memory has at most {TEXT_CHARS_MAX} characters");
    Err(Failure::user(message).hint("several short ones are found better"))
}

fn unknown(id: i64) -> Failure {
    let message = format!("no memory has the number {id}");
    Failure::user(message).hint(":memory and :memory inbox list them")
}
