//! The calls of tools for an answer, with their results: they belong to the answer's message and are copied with it.
//! Knows nothing of tools; arguments and results are text of limited length.

use rusqlite::{Connection, params};

use crate::store::statements::{CALL_COLUMNS, INSERT_CALL};
use crate::store::{ConversationId, OpenMessage, Store, StoreError};

/// Limit on the stored arguments, and on the stored result. The model's part of an output is usually shorter
/// (`limits.output_bytes`).
const TEXT_BYTES_MAX: usize = 1024 * 1024;
/// The end of a truncated text.
const CUT: &str = "\n[the rest is not kept]";

/// A call and its result.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StoredCall {
    /// Time when it was over, Unix milliseconds.
    pub time: i64,
    /// Its name for the model.
    pub call_id: String,
    /// The tool.
    pub tool: String,
    /// The arguments, JSON as the model wrote it.
    pub arguments: String,
    /// The result, JSON.
    pub result: String,
    /// `true` if it succeeded.
    pub success: bool,
    /// The id of its receipt.
    pub receipt: Option<String>,
}

impl Store {
    /// Adds a call to the answer in which it was made; long texts are truncated, with a notice at the end.
    pub fn add_call(&mut self, answer: &OpenMessage, call: &StoredCall) {
        let StoredCall { time, call_id, tool, arguments, result, success, receipt } = call;
        let (arguments, result) = (bounded(arguments), bounded(result));
        let insert = |store: &Self, connection: &Connection| {
            let (id, conversation) = (store.moved.message(answer.id), store.moved.conversation(answer.conversation.0));
            let values = params![conversation, id, time, call_id, tool, arguments, result, success, receipt];
            connection.prepare_cached(INSERT_CALL)?.execute(values)
        };
        self.write(*time, insert);
    }

    /// Reads the calls of a conversation in order, each with the number of its message.
    pub(in crate::store) fn calls(&self, conversation: ConversationId) -> Result<Vec<(i64, StoredCall)>, StoreError> {
        let id = self.moved.conversation(conversation.0);
        let mut found = Vec::new();
        for connection in self.readers() {
            found.extend(read(connection, id).map_err(|problem| self.fail("read", &problem))?);
        }
        Ok(found)
    }
}

fn read(connection: &Connection, conversation: i64) -> rusqlite::Result<Vec<(i64, StoredCall)>> {
    let sql = format!("SELECT {CALL_COLUMNS} FROM tool_call WHERE conversation = ?1 ORDER BY message, seq");
    connection
        .prepare_cached(&sql)?
        .query_map([conversation], |row| {
            let call = StoredCall {
                time: row.get(2)?,
                call_id: row.get(3)?,
                tool: row.get(4)?,
                arguments: row.get(5)?,
                result: row.get(6)?,
                success: row.get(7)?,
                receipt: row.get(8)?,
            };
            Ok((row.get(1)?, call))
        })?
        .collect()
}

/// Copies calls to another message.
pub(in crate::store) fn copy(
    connection: &Connection,
    conversation: i64,
    message: i64,
    calls: &[StoredCall],
) -> rusqlite::Result<()> {
    let mut insert = connection.prepare_cached(INSERT_CALL)?;
    for StoredCall { time, call_id, tool, arguments, result, success, receipt } in calls {
        insert.execute(params![conversation, message, time, call_id, tool, arguments, result, success, receipt])?;
    }
    Ok(())
}

fn bounded(text: &str) -> std::borrow::Cow<'_, str> {
    if text.len() <= TEXT_BYTES_MAX {
        return text.into();
    }
    format!("{}{CUT}", &text[..text.floor_char_boundary(TEXT_BYTES_MAX)]).into()
}

#[cfg(test)]
mod tests {
    use rusqlite::Connection;

    use super::*;
    use crate::store::exchange::doctor::{check, rescue};
    use crate::store::{FILE_NAME, MessageState};

    fn call(id: &str, time: i64) -> StoredCall {
        StoredCall {
            time,
            call_id: id.to_owned(),
            tool: "file_list".into(),
            arguments: "{\"path\":\".\"}".into(),
            result: "{\"success\":true}".into(),
            success: id != "bad",
            receipt: Some(format!("receipt-{id}")),
        }
    }

    fn ids(store: &Store, conversation: ConversationId) -> Vec<Vec<String>> {
        let ids = |calls: Vec<StoredCall>| calls.into_iter().map(|call| call.call_id).collect();
        store.turns(conversation).unwrap().into_iter().map(|turn| ids(turn.calls)).collect()
    }

    fn asked(store: &mut Store, talk: ConversationId, calls: &[&str], now: i64) {
        let mut open = store.ask(talk, now, "q", None);
        calls.iter().for_each(|id| store.add_call(&open, &call(id, now)));
        store.push_piece(&mut open, "a", now);
        store.finish_message(open, MessageState::Complete, now);
    }

    #[test]
    fn calls_stay_with_their_answer_through_forks_rewinds_and_deletion() {
        let dir = tempfile::tempdir().unwrap();
        let mut store = Store::open(dir.path()).unwrap();
        let talk = store.begin_conversation(1, "m");
        asked(&mut store, talk, &["one", "bad"], 5);
        asked(&mut store, talk, &[], 6);
        asked(&mut store, talk, &["three"], 7);
        assert_eq!(ids(&store, talk), [vec!["one", "bad"], vec![], vec!["three"]]);
        assert_eq!(store.turns(talk).unwrap()[0].calls, [call("one", 5), call("bad", 5)]);
        let fork = store.fork(talk, 2, 8).unwrap();
        assert_eq!(ids(&store, fork), [vec!["one", "bad"], vec![]]);
        store.rewind(talk, 1).unwrap();
        assert_eq!(ids(&store, talk), [vec!["one", "bad"]]);
        assert_eq!(store.record(talk).unwrap().last().unwrap().calls.len(), 1, "the record keeps what was rewound");
        assert!(check(dir.path()).facts.contains(&"tool calls: 5".to_owned()));
        let (rescued, lost) = rescue(dir.path()).unwrap();
        assert_eq!((ids(&rescued, talk), lost), (vec![vec!["one".to_owned(), "bad".to_owned()]], 0));
        store.clear_conversations().unwrap();
        assert!(check(dir.path()).facts.contains(&"tool calls: 0".to_owned()));
    }

    #[test]
    fn a_long_text_is_cut_with_a_mark() {
        let mut store = Store::in_memory().unwrap();
        let talk = store.begin_conversation(1, "m");
        let open = store.ask(talk, 1, "q", None);
        store.add_call(&open, &StoredCall { result: "é".repeat(TEXT_BYTES_MAX), ..call("long", 1) });
        let stored = &store.messages(talk).unwrap()[1].calls[0].result;
        assert!(stored.len() <= TEXT_BYTES_MAX + CUT.len() && stored.ends_with(CUT), "{}", stored.len());
    }

    #[test]
    fn calls_that_the_file_cannot_take_stay_in_memory_and_move_to_it_later() {
        let dir = tempfile::tempdir().unwrap();
        let mut store = Store::open(dir.path()).unwrap();
        let talk = store.begin_conversation(1, "m");
        let mut open = store.ask(talk, 1, "q", None);
        store.add_call(&open, &call("before", 1));
        let other = Connection::open(dir.path().join(FILE_NAME)).unwrap();
        other.execute_batch("BEGIN IMMEDIATE").unwrap();
        store.add_call(&open, &call("during", 2));
        assert!(store.take_problem().is_some() && !store.is_durable());
        asked(&mut store, talk, &["new"], 3);
        assert_eq!(ids(&store, talk), [vec!["before", "during"], vec!["new"]]);
        other.execute_batch("ROLLBACK").unwrap();
        // By the caller's clock it is time for another try.
        store.add_call(&open, &call("after", 100_000));
        assert!(store.is_durable());
        store.push_piece(&mut open, "a", 100_000);
        store.finish_message(open, MessageState::Complete, 100_001);
        drop(store);
        let store = Store::open(dir.path()).unwrap();
        assert_eq!(ids(&store, talk), [vec!["before", "during", "after"], vec!["new"]]);
    }

    #[test]
    fn a_file_from_before_gets_the_table() {
        let dir = tempfile::tempdir().unwrap();
        drop(Store::open(dir.path()).unwrap());
        let old = Connection::open(dir.path().join(FILE_NAME)).unwrap();
        old.execute_batch("DROP TABLE tool_call; DROP TABLE editor_session; PRAGMA user_version = 5").unwrap();
        old.execute_batch(crate::store::tests::WITHOUT_RUNS).unwrap();
        drop(old);
        let mut store = Store::open(dir.path()).unwrap();
        let talk = store.begin_conversation(1, "m");
        asked(&mut store, talk, &["one"], 5);
        assert_eq!(ids(&store, talk), [["one"]]);
    }
}
