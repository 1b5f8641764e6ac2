//! Summaries that replace the first turns of conversations in requests. The turns themselves stay; knows nothing of the
//! summary's author.

use rusqlite::{Connection, OptionalExtension, params};

use crate::store::{ConversationId, Store, StoreError};

/// The summary of a conversation's first turns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredSummary {
    /// The number of turns that it replaces, of those that [`Store::turns`] returns.
    pub turns: u32,
    /// The summary.
    pub text: String,
}

impl Store {
    /// Stores the summary of a conversation, replacing the previous one; `None` only removes that.
    ///
    /// # Errors
    /// The database can't be written: the summary is unchanged.
    pub fn set_summary(
        &mut self,
        conversation: ConversationId,
        summary: Option<&StoredSummary>,
        now: i64,
    ) -> Result<(), StoreError> {
        let id = self.moved.conversation(conversation.0);
        let home = self.home_of(id);
        let written = match summary {
            Some(StoredSummary { turns, text }) => home.execute(
                "INSERT OR REPLACE INTO summary (conversation, turns, time, content) VALUES (?1, ?2, ?3, ?4)",
                params![id, turns, now, text],
            ),
            None => home.execute("DELETE FROM summary WHERE conversation = ?1", [id]),
        };
        written.map(drop).map_err(|problem| self.fail("write", &problem))
    }

    /// Reads the summary of a conversation.
    ///
    /// # Errors
    /// The database can't be read.
    pub fn summary(&self, conversation: ConversationId) -> Result<Option<StoredSummary>, StoreError> {
        let id = self.moved.conversation(conversation.0);
        read(self.home_of(id), id).map_err(|problem| self.fail("read", &problem))
    }
}

pub(in crate::store) fn read(connection: &Connection, conversation: i64) -> rusqlite::Result<Option<StoredSummary>> {
    let sql = "SELECT turns, content FROM summary WHERE conversation = ?1";
    let row = |row: &rusqlite::Row<'_>| Ok(StoredSummary { turns: row.get(0)?, text: row.get(1)? });
    connection.query_row(sql, [conversation], row).optional()
}

/// Removes the summary of a conversation if it covers more than the first `turns`.
pub(in crate::store) fn fit(connection: &Connection, conversation: i64, turns: u32) -> rusqlite::Result<()> {
    // Most have none, in which case the file needn't be writable.
    if read(connection, conversation)?.is_some_and(|summary| summary.turns > turns) {
        connection.execute("DELETE FROM summary WHERE conversation = ?1", [conversation])?;
    }
    Ok(())
}

/// Copies the summary that fits the copy of a conversation, its first `turns` turns.
pub(in crate::store) fn copy(connection: &Connection, from: i64, to: i64, turns: u32) -> rusqlite::Result<()> {
    let sql = "INSERT OR REPLACE INTO summary (conversation, turns, time, content)
        SELECT ?2, turns, time, content FROM summary WHERE conversation = ?1 AND turns <= ?3";
    connection.execute(sql, params![from, to, turns]).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::MessageState;

    fn talk(store: &mut Store, turns: i64) -> ConversationId {
        let talk = store.begin_conversation(1, "m");
        for number in 0..turns {
            let mut open = store.ask(talk, number, "q", None);
            store.push_piece(&mut open, "a", number);
            store.finish_message(open, MessageState::Complete, number);
        }
        talk
    }

    #[test]
    fn a_summary_follows_its_conversation_through_forks_rewinds_and_deletion() {
        let dir = tempfile::tempdir().unwrap();
        let mut store = Store::open(dir.path()).unwrap();
        let first = talk(&mut store, 6);
        let summary = |text: &str| Some(StoredSummary { turns: 4, text: text.to_owned() });
        assert_eq!(store.summary(first).unwrap(), None);
        store.set_summary(first, summary("one").as_ref(), 7).unwrap();
        store.set_summary(first, summary("two").as_ref(), 8).unwrap();
        drop(store);
        let mut store = Store::open(dir.path()).unwrap();
        assert_eq!(store.summary(first).unwrap(), summary("two"));
        let long = store.fork(first, 5, 9).unwrap();
        let short = store.fork(first, 3, 9).unwrap();
        assert_eq!((store.summary(long).unwrap(), store.summary(short).unwrap()), (summary("two"), None));
        store.rewind(first, 4).unwrap();
        assert_eq!(store.summary(first).unwrap(), summary("two"));
        store.rewind(first, 3).unwrap();
        assert_eq!(store.summary(first).unwrap(), None);
        store.set_summary(long, None, 9).unwrap();
        assert_eq!(store.summary(long).unwrap(), None);
        store.set_summary(long, summary("three").as_ref(), 9).unwrap();
        store.clear_conversations().unwrap();
        assert_eq!(store.summary(long).unwrap(), None);
    }

    #[test]
    fn a_summary_of_a_conversation_in_memory_moves_to_the_file_with_it() {
        let dir = tempfile::tempdir().unwrap();
        let mut store = Store::open(dir.path()).unwrap();
        let other = Connection::open(dir.path().join(crate::store::FILE_NAME)).unwrap();
        other.execute_batch("BEGIN EXCLUSIVE").unwrap();
        let first = talk(&mut store, 2);
        assert!(!store.is_durable());
        let summary = Some(StoredSummary { turns: 2, text: "s".into() });
        store.set_summary(first, summary.as_ref(), 3).unwrap();
        assert_eq!(store.summary(first).unwrap(), summary);
        other.execute_batch("ROLLBACK").unwrap();
        let _ = store.begin_conversation(100_000, "m");
        assert!(store.is_durable());
        assert_eq!(store.summary(first).unwrap(), summary);
    }
}
