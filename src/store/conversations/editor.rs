//! The names by which editors know conversations: noted with the first question, looked up when an editor opens one again.
//! It must not know the protocol.

use rusqlite::{Connection, OptionalExtension, TransactionBehavior, params};

use crate::store::history::truncate_log;
use crate::store::{ConversationId, Store, StoreError};

/// A conversation that an editor knows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EditorSession {
    /// Its name in the editor.
    pub name: String,
    /// The conversation.
    pub conversation: ConversationId,
    /// The directory that it works in.
    pub directory: String,
    /// Further directories that it may read.
    pub further: Vec<String>,
}

impl Store {
    /// Stores the name of a conversation in an editor. It is only needed later, so callers may ignore a failure.
    ///
    /// # Errors
    /// The database can't be written.
    pub fn note_editor_session(&mut self, session: &EditorSession) -> Result<(), StoreError> {
        let EditorSession { name, conversation, directory, further } = session;
        let id = self.moved.conversation(conversation.0);
        let further = serde_json::json!(further).to_string();
        let sql =
            "INSERT OR REPLACE INTO editor_session (name, conversation, directory, further) VALUES (?1, ?2, ?3, ?4)";
        let written = self.home_of(id).execute(sql, params![name, id, directory, further]);
        written.map(drop).map_err(|problem| self.fail("write", &problem))
    }

    /// Reads the sessions of editors whose conversations still exist, the most recently used one first.
    ///
    /// # Errors
    /// The database can't be read.
    pub fn editor_sessions(&self) -> Result<Vec<EditorSession>, StoreError> {
        let sql = "SELECT name, conversation, directory, further FROM editor_session AS e
            JOIN conversation AS c ON c.id = e.conversation ORDER BY c.updated DESC, c.id DESC";
        let read = |connection: &Connection| -> rusqlite::Result<Vec<EditorSession>> {
            let row = |row: &rusqlite::Row<'_>| {
                let conversation = ConversationId(row.get(1)?);
                let further = serde_json::from_str(&row.get::<_, String>(3)?).unwrap_or_default();
                Ok(EditorSession { name: row.get(0)?, conversation, directory: row.get(2)?, further })
            };
            connection.prepare_cached(sql)?.query_map([], row)?.collect()
        };
        let mut found = Vec::new();
        for connection in self.readers() {
            found.extend(read(connection).map_err(|problem| self.fail("read", &problem))?);
        }
        Ok(found)
    }

    /// Deletes a conversation with all of its data; the sums of its cost remain. Returns whether it existed.
    ///
    /// # Errors
    /// The database can't be written: it is still there.
    pub fn delete_conversation(&mut self, conversation: ConversationId) -> Result<bool, StoreError> {
        let id = self.moved.conversation(conversation.0);
        let delete = |connection: &Connection| -> rusqlite::Result<bool> {
            let transaction = rusqlite::Transaction::new_unchecked(connection, TransactionBehavior::Immediate)?;
            for table in ["message", "tool_call", "summary", "to_remember", "editor_session"] {
                transaction.execute(&format!("DELETE FROM {table} WHERE conversation = ?1"), [id])?;
            }
            let forget = "UPDATE request SET conversation = NULL, thoughts = '' WHERE conversation = ?1";
            transaction.execute(forget, [id])?;
            let row: Option<i64> = transaction
                .query_row("DELETE FROM conversation WHERE id = ?1 RETURNING id", [id], |row| row.get(0))
                .optional()?;
            transaction.commit().map(|()| row.is_some())
        };
        let deleted = delete(self.home_of(id));
        truncate_log(&self.main);
        deleted.map_err(|problem| self.fail("delete", &problem))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::MessageState;

    fn talk(store: &mut Store, name: &str, at: i64) -> ConversationId {
        let conversation = store.begin_conversation(at, "m");
        let mut open = store.ask(conversation, at, &format!("a question about {name}"), None);
        store.push_piece(&mut open, "an answer", at);
        store.finish_message(open, MessageState::Complete, at);
        let (directory, further) = (format!("/srv/{name}"), vec![format!("/srv/more \"{name}\"")]);
        let session = EditorSession { name: name.into(), conversation, directory, further };
        store.note_editor_session(&session).expect("noted");
        conversation
    }

    #[test]
    fn sessions_are_found_again_and_deleted_with_all_messages() {
        let directory = tempfile::tempdir().expect("a directory");
        let (old, new) = {
            let mut store = Store::open(directory.path()).expect("a store");
            (talk(&mut store, "old", 1), talk(&mut store, "new", 2))
        };
        let mut store = Store::open(directory.path()).expect("a store");
        let names = |store: &Store| -> Vec<String> {
            store.editor_sessions().expect("read").into_iter().map(|it| it.name).collect()
        };
        assert_eq!(names(&store), ["new", "old"]);
        let session = store.editor_sessions().expect("read").remove(1);
        assert_eq!(
            (session.directory.as_str(), &session.further[..]),
            ("/srv/old", &["/srv/more \"old\"".to_owned()][..])
        );
        assert!(store.delete_conversation(old).expect("deleted"));
        assert!(!store.delete_conversation(old).expect("nothing is left"));
        assert_eq!(names(&store), ["new"]);
        assert_eq!(store.turns(old).expect("read"), []);
        assert_eq!(store.recall("old", 9).expect("searched").len(), 0);
        assert_eq!(store.turns(new).expect("read").len(), 1);
    }
}
