//! Memories beyond conversations, proposals of a model, and the ended conversations that have no memory yet. Knows
//! nothing of which memory belongs to a question.

use rusqlite::{OptionalExtension, Row, params};

use crate::store::history::truncate_log;
use crate::store::overlay::OVERLAY_ID_MIN;
use crate::store::{ConversationId, Store, StoreError};

/// Limit on the proposals that wait for the user; beyond it, the oldest are removed.
const INBOX_MAX: i64 = 100;
/// Limit for the tries of a conversation's memory.
const TRIES_MAX: i64 = 3;

const COLUMNS: &str = "id, time, place, origin, conversation, taken, content, reach";
/// May go anywhere.
const ANYWHERE: u8 = 2;

/// The author of a memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemoryOrigin {
    /// The user wrote it.
    User,
    /// A model wrote it of a conversation that ended.
    Summary,
    /// A model proposed it.
    Model,
}

/// A memory, or the proposal of one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredMemory {
    /// Its number; 0 if it isn't stored yet.
    pub id: i64,
    /// Time when it was written, Unix milliseconds.
    pub time: i64,
    /// The directory or repository that it belongs to; none if it belongs everywhere.
    pub place: Option<String>,
    /// Its author.
    pub origin: MemoryOrigin,
    /// The conversation that it came from.
    pub conversation: Option<ConversationId>,
    /// `true` if it counts; a proposal waits.
    pub is_accepted: bool,
    /// The greatest distance that it may be sent: 0 this machine, 1 the private network, 2 anywhere; no further than
    /// the conversation that it came from.
    pub reach: u8,
    /// Its text.
    pub text: String,
}

/// A conversation that ended and isn't remembered yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToRemember {
    /// The conversation.
    pub conversation: ConversationId,
    /// The place where the conversation ended.
    pub place: Option<String>,
    /// The model that answered last: it has seen the conversation.
    pub model: String,
}

impl Store {
    /// Stores a memory; returns its number, or `None` if the same text is there already. The memory of a conversation
    /// replaces its previous one.
    ///
    /// # Errors
    /// The database can't be written: nothing is stored.
    pub fn remember(&mut self, memory: &StoredMemory) -> Result<Option<i64>, StoreError> {
        let StoredMemory { time, place, origin, conversation, is_accepted, reach, text, .. } = memory;
        let conversation = conversation.map(|id| self.moved.conversation(id.0));
        let keep = || -> rusqlite::Result<Option<i64>> {
            let transaction = self.main.unchecked_transaction()?;
            if *origin == MemoryOrigin::Summary {
                let sql = "DELETE FROM memory WHERE origin = 'summary' AND conversation = ?1";
                transaction.execute(sql, [conversation])?;
            }
            let known: Option<i64> = transaction
                .query_row("SELECT id FROM memory WHERE content = ?1 AND place IS ?2", params![text, place], |row| {
                    row.get(0)
                })
                .optional()?;
            let id = if known.is_some() {
                None
            } else {
                let sql = "INSERT INTO memory (time, place, origin, conversation, taken, reach, content)
                    VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)";
                Some(transaction.prepare_cached(sql)?.insert(params![
                    time,
                    place,
                    origin_text(*origin),
                    conversation,
                    is_accepted,
                    reach,
                    text
                ])?)
            };
            let oldest = "DELETE FROM memory WHERE taken = 0 AND id NOT IN
                (SELECT id FROM memory WHERE taken = 0 ORDER BY id DESC LIMIT ?1)";
            transaction.execute(oldest, [INBOX_MAX])?;
            transaction.commit().map(|()| id)
        };
        keep().map_err(|problem| self.fail("write", &problem))
    }

    /// Reads the memories, or the waiting proposals, the oldest first.
    ///
    /// # Errors
    /// The database can't be read.
    pub fn memories(&self, taken: bool) -> Result<Vec<StoredMemory>, StoreError> {
        let read = || -> rusqlite::Result<Vec<StoredMemory>> {
            let sql = format!("SELECT {COLUMNS} FROM memory WHERE taken = ?1 ORDER BY id");
            self.main.prepare_cached(&sql)?.query_map([taken], memory_of)?.collect()
        };
        read().map_err(|problem| self.fail("read", &problem))
    }

    /// The memories, and those that wait in the inbox, that have every word of a query, the newest first.
    ///
    /// # Errors
    /// The database can't be read.
    pub fn find_memories(&self, query: &str) -> Result<Vec<StoredMemory>, StoreError> {
        let words: Vec<String> =
            query.split_whitespace().map(|word| word.trim_matches(['"', '*']).to_lowercase()).collect();
        let has_all = |memory: &StoredMemory| {
            let text = memory.text.to_lowercase();
            words.iter().all(|word| text.contains(word))
        };
        let mut found: Vec<StoredMemory> = self.memories(true)?.into_iter().chain(self.memories(false)?).collect();
        found.retain(has_all);
        found.sort_by_key(|memory| std::cmp::Reverse(memory.time));
        Ok(found)
    }

    /// Changes the text of a memory; it becomes the user's own, and may go anywhere. Returns false if there is none.
    ///
    /// # Errors
    /// The database can't be written: the memory is unchanged.
    pub fn edit_memory(&mut self, id: i64, text: &str, now: i64) -> Result<bool, StoreError> {
        let sql = "UPDATE memory SET content = ?2, origin = 'user', time = ?3, reach = ?4 WHERE id = ?1";
        self.changed(self.main.execute(sql, params![id, text, now, ANYWHERE]))
    }

    /// Takes a proposal. False where none waits under this number.
    ///
    /// # Errors
    /// The database can't be written: it waits on.
    pub fn take_memory(&mut self, id: i64) -> Result<bool, StoreError> {
        self.changed(self.main.execute("UPDATE memory SET taken = 1 WHERE id = ?1 AND taken = 0", [id]))
    }

    /// Deletes a memory, or a proposal if `taken` is false, also from the file's free space. Returns false if there is none.
    ///
    /// # Errors
    /// The database can't be written: it is still there.
    pub fn forget_memory(&mut self, id: i64, taken: bool) -> Result<bool, StoreError> {
        let done = self.main.execute("DELETE FROM memory WHERE id = ?1 AND taken = ?2", params![id, taken]);
        truncate_log(&self.main);
        self.changed(done)
    }

    /// Notes that a conversation has ended and is to be remembered.
    ///
    /// # Errors
    /// The database can't be written.
    pub fn note_ended(&mut self, ended: &ToRemember, now: i64) -> Result<(), StoreError> {
        let id = self.moved.conversation(ended.conversation.0);
        // A conversation that the file couldn't store may never reach it.
        if id >= OVERLAY_ID_MIN {
            return Ok(());
        }
        let sql =
            "INSERT OR REPLACE INTO to_remember (conversation, time, place, model, tries) VALUES (?1, ?2, ?3, ?4, 0)";
        self.changed(self.main.execute(sql, params![id, now, ended.place, ended.model])).map(drop)
    }

    /// Returns the conversation that ended last and isn't remembered yet.
    ///
    /// # Errors
    /// The database can't be read.
    pub fn next_to_remember(&self) -> Result<Option<ToRemember>, StoreError> {
        let sql = "SELECT conversation, place, model FROM to_remember ORDER BY time DESC LIMIT 1";
        let row = |row: &Row<'_>| {
            Ok(ToRemember { conversation: ConversationId(row.get(0)?), place: row.get(1)?, model: row.get(2)? })
        };
        self.main.query_row(sql, [], row).optional().map_err(|problem| self.fail("read", &problem))
    }

    /// Records that a conversation is remembered, or continues after all.
    ///
    /// # Errors
    /// The database can't be written.
    pub fn no_longer_to_remember(&mut self, conversation: ConversationId) -> Result<(), StoreError> {
        let id = self.moved.conversation(conversation.0);
        self.changed(self.main.execute("DELETE FROM to_remember WHERE conversation = ?1", [id])).map(drop)
    }

    /// Records that a memory of a conversation wasn't written; after three times it isn't tried again.
    ///
    /// # Errors
    /// The database can't be written.
    pub fn note_not_remembered(&mut self, conversation: ConversationId) -> Result<(), StoreError> {
        let id = self.moved.conversation(conversation.0);
        let count = self.main.execute("UPDATE to_remember SET tries = tries + 1 WHERE conversation = ?1", [id]);
        let done = count.and_then(|_| self.main.execute("DELETE FROM to_remember WHERE tries >= ?1", [TRIES_MAX]));
        self.changed(done).map(drop)
    }

    fn changed(&self, done: rusqlite::Result<usize>) -> Result<bool, StoreError> {
        done.map(|count| count > 0).map_err(|problem| self.fail("write", &problem))
    }
}

fn memory_of(row: &Row<'_>) -> rusqlite::Result<StoredMemory> {
    let origin: String = row.get(3)?;
    Ok(StoredMemory {
        id: row.get(0)?,
        time: row.get(1)?,
        place: row.get(2)?,
        origin: match origin.as_str() {
            "summary" => MemoryOrigin::Summary,
            "model" => MemoryOrigin::Model,
            _ => MemoryOrigin::User,
        },
        conversation: row.get::<_, Option<i64>>(4)?.map(ConversationId),
        is_accepted: row.get(5)?,
        text: row.get(6)?,
        reach: row.get(7)?,
    })
}

fn origin_text(origin: MemoryOrigin) -> &'static str {
    match origin {
        MemoryOrigin::User => "user",
        MemoryOrigin::Summary => "summary",
        MemoryOrigin::Model => "model",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn memory(text: &str, origin: MemoryOrigin, is_accepted: bool) -> StoredMemory {
        let text = text.to_owned();
        StoredMemory {
            id: 0,
            time: 5,
            place: Some("/a".into()),
            origin,
            conversation: None,
            is_accepted,
            reach: 0,
            text,
        }
    }

    fn texts(store: &Store, taken: bool) -> Vec<String> {
        store.memories(taken).unwrap().into_iter().map(|it| it.text).collect()
    }

    #[test]
    fn memories_are_stored_changed_accepted_and_forgotten() {
        let dir = tempfile::tempdir().unwrap();
        let mut store = Store::open(dir.path()).unwrap();
        let first = store.remember(&memory("one", MemoryOrigin::User, true)).unwrap().unwrap();
        assert_eq!(store.remember(&memory("one", MemoryOrigin::Model, false)).unwrap(), None, "it is there already");
        let proposed = store.remember(&memory("two", MemoryOrigin::Model, false)).unwrap().unwrap();
        drop(store);
        let mut store = Store::open(dir.path()).unwrap();
        assert_eq!((texts(&store, true), texts(&store, false)), (vec!["one".into()], vec!["two".into()]));
        assert!(store.take_memory(proposed).unwrap() && !store.take_memory(proposed).unwrap());
        assert!(!store.forget_memory(proposed, false).unwrap(), "it is no proposal any more");
        assert!(store.edit_memory(proposed, "zwei", 9).unwrap() && !store.edit_memory(77, "x", 9).unwrap());
        let edited = store.memories(true).unwrap().pop().unwrap();
        assert_eq!(
            (edited.text.as_str(), edited.origin, edited.time, edited.reach),
            ("zwei", MemoryOrigin::User, 9, 2)
        );
        assert!(store.forget_memory(first, true).unwrap());
        assert_eq!(texts(&store, true), ["zwei"]);
        for number in 0..INBOX_MAX + 5 {
            store.remember(&memory(&format!("p{number}"), MemoryOrigin::Model, false)).unwrap();
        }
        let waiting = texts(&store, false);
        assert_eq!((waiting.len() as i64, waiting[0].as_str()), (INBOX_MAX, "p5"));
    }

    #[test]
    fn a_conversation_has_one_memory_and_waits_for_it() {
        let mut store = Store::in_memory().unwrap();
        let talk = store.begin_conversation(1, "m");
        let other = store.begin_conversation(2, "m");
        let of_talk =
            |text: &str| StoredMemory { conversation: Some(talk), ..memory(text, MemoryOrigin::Summary, true) };
        store.remember(&of_talk("first")).unwrap();
        store.remember(&of_talk("second")).unwrap();
        assert_eq!(texts(&store, true), ["second"]);
        let ended = |conversation| ToRemember { conversation, place: Some("/a".into()), model: "m".into() };
        store.note_ended(&ended(talk), 10).unwrap();
        store.note_ended(&ended(other), 11).unwrap();
        assert_eq!(store.next_to_remember().unwrap(), Some(ended(other)));
        store.no_longer_to_remember(other).unwrap();
        for _ in 0..TRIES_MAX {
            assert_eq!(store.next_to_remember().unwrap(), Some(ended(talk)));
            store.note_not_remembered(talk).unwrap();
        }
        assert_eq!(store.next_to_remember().unwrap(), None);
    }

    #[test]
    fn a_file_that_cannot_be_written_is_an_error_and_loses_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let mut store = Store::open(dir.path()).unwrap();
        store.remember(&memory("one", MemoryOrigin::User, true)).unwrap();
        store.main.pragma_update(None, "query_only", true).unwrap();
        assert!(store.remember(&memory("two", MemoryOrigin::User, true)).is_err());
        assert!(store.forget_memory(1, true).is_err() && store.edit_memory(1, "x", 1).is_err());
        assert_eq!(texts(&store, true), ["one"]);
    }
}
