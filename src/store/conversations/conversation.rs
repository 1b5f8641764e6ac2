//! Conversations: stored while they happen, so that a crash loses at most the last tenth of a second of an answer.
//! A new conversation, a rewound and a forked one delete nothing. Knows nothing of context or budgets.

use rusqlite::{Connection, TransactionBehavior, params};

use crate::proto::{Message, Role};
use crate::store::conversations::calls;
use crate::store::conversations::summary;
use crate::store::history::truncate_log;
use crate::store::overlay::OVERLAY_ID_MIN;
use crate::store::statements::{APPEND, INSERT_MESSAGE, TOUCH};
use crate::store::{Store, StoreError, StoredCall};

/// Longest time that a piece waits before it is written, measured when the next one arrives; if none arrives, the caller calls
/// [`Store::write_pieces`].
const WRITE_AFTER_MS: i64 = 100;
/// So many bytes are written at once, however quickly they came.
const WRITE_BYTES: usize = 4 * 1024;

/// Characters of the first question that serve as a title.
const TITLE_CHARS: usize = 80;

/// The id of a conversation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConversationId(pub i64);

/// The state of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MessageState {
    /// Whole.
    Complete,
    /// Still coming, stopped by the user, or cut by a crash.
    Partial,
    /// Ended with a failure.
    Failed,
}

/// An unfinished message; to be passed to [`Store::finish_message`].
#[derive(Debug)]
#[must_use]
pub struct OpenMessage {
    pub(in crate::store) id: i64,
    pub(in crate::store) conversation: ConversationId,
    time: i64,
    pending: String,
    written_at: i64,
}

/// A conversation, as it is read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredConversation {
    /// Its id.
    pub id: ConversationId,
    /// Time when it began, Unix milliseconds.
    pub started: i64,
    /// The time of its last question, Unix milliseconds.
    pub updated: i64,
    /// The model it began with; empty if none was chosen.
    pub model: String,
    /// Its title, else the beginning of its first question.
    pub title: String,
    /// The conversation it was forked from, and how many of its turns it began with.
    pub parent: Option<(ConversationId, u32)>,
    /// The number of its questions, without rewound ones.
    pub turns: u32,
}

/// A message, as it is read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredMessage {
    /// Its place in the conversation, from 1.
    pub seq: u32,
    /// Time when it began, Unix milliseconds.
    pub time: i64,
    /// The message with its speaker.
    pub message: Message,
    /// `true` if it is complete.
    pub state: MessageState,
    /// The model that wrote it, if it is known.
    pub model: Option<String>,
    /// True if the conversation was rewound past it: it is in the record, but not in the conversation.
    pub rewound: bool,
    /// The calls of tools that it took.
    pub calls: Vec<StoredCall>,
}

/// A question and its answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredTurn {
    /// The question.
    pub question: String,
    /// The answer, up to its end or break.
    pub answer: String,
    /// `true` if it is complete.
    pub state: MessageState,
    /// Time when the question was asked, Unix milliseconds.
    pub time: i64,
    /// The calls of tools that the answer took.
    pub calls: Vec<StoredCall>,
}

/// Numbers that show whether a conversation has changed: none of them decreases while it is stored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TurnCounts {
    /// Questions, rewound ones too.
    pub asked: u32,
    /// Questions that were rewound.
    pub rewound: u32,
    /// Answers that are whole or failed.
    pub ended: u32,
}

impl TurnCounts {
    /// Returns whether turns were added or rewound since `earlier`. A conversation that another session has deleted counts as
    /// unchanged.
    #[must_use]
    pub fn is_after(self, earlier: Self) -> bool {
        self != earlier && self.asked >= earlier.asked && self.rewound >= earlier.rewound && self.ended >= earlier.ended
    }
}

impl Store {
    /// Begins a conversation at `started` (Unix milliseconds); it never fails, see [`Store::take_problem`].
    pub fn begin_conversation(&mut self, started: i64, model: &str) -> ConversationId {
        let sql = "INSERT INTO conversation (started, updated, model) VALUES (?1, ?1, ?2)";
        let insert =
            |_: &Self, connection: &Connection| connection.prepare_cached(sql)?.insert(params![started, model]);
        ConversationId(self.write(started, insert).unwrap_or(0))
    }

    /// Stores a question and begins its answer, whose text comes in pieces. Both are stored together and next to each other, even
    /// if another session adds to the same conversation.
    pub fn ask(&mut self, conversation: ConversationId, now: i64, question: &str, model: Option<&str>) -> OpenMessage {
        let insert = |store: &Self, connection: &Connection| {
            let id = store.moved.conversation(conversation.0);
            let transaction = connection.unchecked_transaction()?;
            let known = transaction.prepare_cached(TOUCH)?.execute(params![id, now])?;
            if known == 0 && std::ptr::eq(connection, &raw const store.main) {
                // Another session has deleted it; it continues without its earlier content.
                let sql = "INSERT INTO conversation (id, started, updated, model) VALUES (?1, ?2, ?2, ?3)";
                transaction.execute(sql, params![id, now, model.unwrap_or_default()])?;
            }
            let mut insert = transaction.prepare_cached(INSERT_MESSAGE)?;
            insert.execute(params![id, now, "user", question, "complete", None::<&str>, false, true])?;
            let answer = insert.insert(params![id, now, "assistant", "", "partial", model, false, false])?;
            drop(insert);
            transaction.commit().map(|()| answer)
        };
        let id = self.write(now, insert).unwrap_or(0);
        OpenMessage { id, conversation, time: now, pending: String::new(), written_at: now }
    }

    /// Copies a conversation's first `turns` turns into a new one.
    ///
    /// # Errors
    /// The conversation can't be read.
    pub fn fork(&mut self, from: ConversationId, turns: u32, now: i64) -> Result<ConversationId, StoreError> {
        let messages = self.messages(from)?;
        let model = self.conversation(from)?.map(|found| found.model).unwrap_or_default();
        let mut questions = 0;
        let copied: Vec<&StoredMessage> = messages
            .iter()
            .take_while(|stored| {
                questions += u32::from(stored.message.role == Role::User);
                questions <= turns
            })
            .collect();
        let copy = |store: &Self, connection: &Connection| {
            let parent = store.moved.conversation(from.0);
            let transaction = connection.unchecked_transaction()?;
            let sql = "INSERT INTO conversation (started, updated, model, parent, parent_turns)
                VALUES (?1, ?1, ?2, ?3, ?4)";
            let id = transaction.prepare_cached(sql)?.insert(params![now, model, parent, turns])?;
            let mut insert = transaction.prepare_cached(INSERT_MESSAGE)?;
            for StoredMessage { time, message, state, model, calls, .. } in &copied {
                let (role, state) = (role_text(message.role), state_text(*state));
                let copied = insert.insert(params![id, time, role, message.content, state, model, false, true])?;
                calls::copy(&transaction, id, copied, calls)?;
            }
            drop(insert);
            summary::copy(&transaction, parent, id, turns)?;
            transaction.commit().map(|()| id)
        };
        Ok(ConversationId(self.write(now, copy).unwrap_or(0)))
    }

    /// Removes all turns after the first `turns` from a conversation; they stay in its record.
    ///
    /// # Errors
    /// The database can't be read or written: nothing was removed.
    pub fn rewind(&mut self, conversation: ConversationId, turns: u32) -> Result<(), StoreError> {
        let mut questions = 0;
        let behind: Vec<i64> = self
            .record_with_ids(conversation)?
            .into_iter()
            .filter(|(_, stored)| !stored.rewound)
            .filter_map(|(id, stored)| {
                questions += u32::from(stored.message.role == Role::User);
                (questions > turns).then_some(id)
            })
            .collect();
        let mark = |connection: &Connection| {
            let transaction = connection.unchecked_transaction()?;
            for id in
                behind.iter().filter(|id| (**id >= OVERLAY_ID_MIN) != std::ptr::eq(connection, &raw const self.main))
            {
                transaction.execute("UPDATE message SET rewound = 1 WHERE id = ?1", [id])?;
            }
            let id = self.moved.conversation(conversation.0);
            if std::ptr::eq(connection, self.home_of(id)) {
                summary::fit(&transaction, id, turns)?;
            }
            transaction.commit()
        };
        let overlay = self.overlay.as_ref().map(|overlay| &overlay.connection);
        [&self.main].into_iter().chain(overlay).try_for_each(mark).map_err(|problem| self.fail("write", &problem))
    }

    /// Sets the title of a conversation; an empty one removes it. False if there is no such conversation.
    ///
    /// # Errors
    /// The database can't be written: the title is unchanged.
    pub fn set_title(&mut self, conversation: ConversationId, title: &str) -> Result<bool, StoreError> {
        let id = self.moved.conversation(conversation.0);
        let title = Some(title).filter(|title| !title.is_empty());
        self.home_of(id)
            .execute("UPDATE conversation SET title = ?2 WHERE id = ?1", params![id, title])
            .map(|changed| changed > 0)
            .map_err(|problem| self.fail("write", &problem))
    }

    /// Sets the title of a conversation that has none. False if it has one, or there is no such conversation.
    ///
    /// # Errors
    /// The database can't be written.
    pub fn suggest_title(&self, conversation: ConversationId, title: &str) -> Result<bool, StoreError> {
        let id = self.moved.conversation(conversation.0);
        self.home_of(id)
            .execute("UPDATE conversation SET title = ?2 WHERE id = ?1 AND title IS NULL", params![id, title])
            .map(|changed| changed > 0)
            .map_err(|problem| self.fail("write", &problem))
    }

    /// Deletes conversations and all data derived from them, also from the file's free space. Returns their number.
    ///
    /// # Errors
    /// The database can't be written: some may be gone.
    pub fn delete_conversations(&mut self, ids: &[ConversationId]) -> Result<usize, StoreError> {
        let delete = |connection: &Connection, id: i64| {
            let transaction = rusqlite::Transaction::new_unchecked(connection, TransactionBehavior::Immediate)?;
            for sql in [
                "DELETE FROM message WHERE conversation = ?1",
                "UPDATE request SET conversation = NULL, thoughts = '' WHERE conversation = ?1",
                "DELETE FROM summary WHERE conversation = ?1",
                "DELETE FROM memory WHERE conversation = ?1",
                "DELETE FROM to_remember WHERE conversation = ?1",
                "DELETE FROM editor_session WHERE conversation = ?1",
                "DELETE FROM tool_call WHERE conversation = ?1",
            ] {
                transaction.execute(sql, [id])?;
            }
            let count = transaction.execute("DELETE FROM conversation WHERE id = ?1", [id])?;
            transaction.commit().map(|()| count)
        };
        let mut count = 0;
        for id in ids {
            let id = self.moved.conversation(id.0);
            let deleted = delete(self.home_of(id), id);
            count += deleted.map_err(|problem| self.fail("delete", &problem))?;
        }
        truncate_log(&self.main);
        Ok(count)
    }

    /// Deletes all conversations, also from the file's free space; lines remain. Returns their number.
    ///
    /// # Errors
    /// The database can't be written: all of them are still there.
    pub fn clear_conversations(&mut self) -> Result<usize, StoreError> {
        // The text index goes at once: its triggers would take it apart message by message.
        let clear = |connection: &Connection| {
            let transaction = rusqlite::Transaction::new_unchecked(connection, TransactionBehavior::Immediate)?;
            transaction.execute_batch(
                "INSERT INTO message_text(message_text) VALUES ('delete-all');
                 UPDATE message SET indexed = 0;
                 DELETE FROM message;
                 UPDATE request SET conversation = NULL, thoughts = '';
                 DELETE FROM summary;
                 DELETE FROM to_remember;
                 DELETE FROM editor_session;
                 DELETE FROM run;
                 DELETE FROM run_event; DELETE FROM run_fire;
                 DELETE FROM tool_call;",
            )?;
            let count = transaction.execute("DELETE FROM conversation", [])?;
            transaction.commit().map(|()| count)
        };
        let overlay = self.overlay.as_ref().map_or(Ok(0), |overlay| clear(&overlay.connection));
        let cleared = clear(&self.main).and_then(|count| Ok(count + overlay?));
        truncate_log(&self.main);
        cleared.map_err(|problem| self.fail("clear", &problem))
    }

    /// Adds a piece. It is written with others after 100 ms or 4 KiB, by the caller's clock.
    pub fn push_piece(&mut self, open: &mut OpenMessage, piece: &str, now: i64) {
        open.pending.push_str(piece);
        let waited = now.abs_diff(open.written_at) >= WRITE_AFTER_MS.unsigned_abs();
        if waited || open.pending.len() >= WRITE_BYTES {
            self.write_pending(open, MessageState::Partial, false, now);
        }
    }

    /// Writes the pieces that wait; the message stays open.
    pub fn write_pieces(&mut self, open: &mut OpenMessage, now: i64) {
        if !open.pending.is_empty() {
            self.write_pending(open, MessageState::Partial, false, now);
        }
    }

    /// Writes the rest of the message and its state.
    pub fn finish_message(&mut self, mut open: OpenMessage, state: MessageState, now: i64) {
        self.write_pending(&mut open, state, true, now);
    }

    /// Reads the most recently used conversations, the last one first.
    ///
    /// # Errors
    /// The database can't be read.
    pub fn conversations(&self, limit: usize) -> Result<Vec<StoredConversation>, StoreError> {
        let limit_rows = i64::try_from(limit).unwrap_or(-1);
        let mut found = Vec::new();
        for connection in self.readers() {
            let more = read_conversations(connection, "ORDER BY updated DESC, id DESC LIMIT ?1", limit_rows);
            found.extend(more.map_err(|problem| self.fail("read", &problem))?);
        }
        found.sort_by_key(|it| std::cmp::Reverse((it.updated, it.id.0)));
        found.truncate(limit);
        Ok(found)
    }

    /// Reads one conversation.
    ///
    /// # Errors
    /// The database can't be read.
    pub fn conversation(&self, id: ConversationId) -> Result<Option<StoredConversation>, StoreError> {
        let id = self.moved.conversation(id.0);
        let found = read_conversations(self.home_of(id), "WHERE id = ?1", id);
        Ok(found.map_err(|problem| self.fail("read", &problem))?.pop())
    }

    /// Reads a conversation's messages in order, the partial ones too, the rewound ones not.
    ///
    /// # Errors
    /// The database can't be read.
    pub fn messages(&self, conversation: ConversationId) -> Result<Vec<StoredMessage>, StoreError> {
        let record = self.record_with_ids(conversation)?;
        let live = record.into_iter().map(|(_, stored)| stored).filter(|stored| !stored.rewound);
        Ok((1..).zip(live).map(|(seq, stored)| StoredMessage { seq, ..stored }).collect())
    }

    /// Reads all messages that a conversation ever held, in order.
    ///
    /// # Errors
    /// The database can't be read.
    pub fn record(&self, conversation: ConversationId) -> Result<Vec<StoredMessage>, StoreError> {
        let record = self.record_with_ids(conversation)?;
        Ok((1..).zip(record).map(|(seq, (_, stored))| StoredMessage { seq, ..stored }).collect())
    }

    /// Reads a conversation's turns in order.
    ///
    /// # Errors
    /// The database can't be read.
    pub fn turns(&self, conversation: ConversationId) -> Result<Vec<StoredTurn>, StoreError> {
        let mut turns: Vec<StoredTurn> = Vec::new();
        for StoredMessage { time, message: Message { role, content }, state, calls, .. } in
            self.messages(conversation)?
        {
            match role {
                Role::User => {
                    turns.push(StoredTurn { question: content, answer: String::new(), state, time, calls: Vec::new() });
                }
                Role::Assistant => {
                    if let Some(turn) = turns.last_mut() {
                        (turn.answer, turn.state, turn.calls) = (content, state, calls);
                    }
                }
                Role::System => {}
            }
        }
        Ok(turns)
    }

    /// Counts a conversation's turns; `None` if the database can't be read, which the next read reports.
    #[must_use]
    pub fn turn_counts(&self, conversation: ConversationId) -> Option<TurnCounts> {
        let sql = "SELECT count(CASE WHEN role = 'user' THEN 1 END),
            count(CASE WHEN role = 'user' AND rewound THEN 1 END),
            count(CASE WHEN role = 'assistant' AND state <> 'partial' THEN 1 END)
            FROM message WHERE conversation = ?1";
        let conversation = self.moved.conversation(conversation.0);
        let mut counts = TurnCounts::default();
        for connection in self.readers() {
            let read = connection.prepare_cached(sql).and_then(|mut statement| {
                statement.query_row([conversation], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))
            });
            let (asked, rewound, ended): (u32, u32, u32) = read.ok()?;
            counts.asked += asked;
            counts.rewound += rewound;
            counts.ended += ended;
        }
        Some(counts)
    }

    fn record_with_ids(&self, conversation: ConversationId) -> Result<Vec<(i64, StoredMessage)>, StoreError> {
        let calls = self.calls(conversation)?;
        let conversation = self.moved.conversation(conversation.0);
        let fail = |problem: rusqlite::Error| self.fail("read", &problem);
        let mut found = read_messages(&self.main, conversation).map_err(fail)?;
        if let Some(overlay) = &self.overlay {
            for (id, rest) in read_messages(&overlay.connection, conversation).map_err(fail)? {
                match found.iter_mut().find(|(known, _)| *known == id) {
                    Some((_, message)) => {
                        message.message.content.push_str(&rest.message.content);
                        message.state = rest.state;
                    }
                    None => found.push((id, rest)),
                }
            }
        }
        for (message, call) in calls {
            // Calls and messages are in the same order, and most calls are of the message before.
            if let Some((_, stored)) = found.iter_mut().rfind(|(id, _)| *id == message) {
                stored.calls.push(call);
            }
        }
        Ok(found)
    }

    /// The databases that hold rows: the file, and the one in memory for rows that the file could not take.
    pub(in crate::store) fn readers(&self) -> impl Iterator<Item = &Connection> {
        [&self.main].into_iter().chain(self.overlay.as_ref().map(|overlay| &overlay.connection))
    }

    /// The database that holds the row of an id.
    pub(in crate::store) fn home_of(&self, id: i64) -> &Connection {
        match &self.overlay {
            Some(overlay) if id >= OVERLAY_ID_MIN => &overlay.connection,
            _ => &self.main,
        }
    }

    fn write_pending(&mut self, open: &mut OpenMessage, state: MessageState, is_end: bool, now: i64) {
        let OpenMessage { id, conversation, time, pending, .. } = &*open;
        let append = |store: &Self, connection: &Connection| {
            let id = store.moved.message(*id);
            if std::ptr::eq(connection, &raw const store.main) || id >= OVERLAY_ID_MIN {
                return connection.prepare_cached(APPEND)?.execute(params![id, pending, state_text(state), is_end]);
            }
            // The message began in the file, which can't take its rest: that is stored in memory under the same id.
            let conversation = store.moved.conversation(conversation.0);
            connection.execute(
                "INSERT INTO message (id, conversation, seq, time, role, content, state, indexed)
                 VALUES (?1, ?2, -?1, ?3, 'assistant', ?4, ?5, ?6)
                 ON CONFLICT (id) DO UPDATE SET content = content || excluded.content, state = excluded.state,
                 indexed = max(indexed, excluded.indexed)",
                params![id, conversation, time, pending, state_text(state), is_end],
            )
        };
        self.write(now, append);
        open.pending.clear();
        open.written_at = now;
    }
}

fn read_conversations(connection: &Connection, which: &str, value: i64) -> rusqlite::Result<Vec<StoredConversation>> {
    let sql = format!(
        "SELECT id, started, updated, model, parent, parent_turns, coalesce(title, (SELECT content FROM message
            WHERE conversation = c.id AND role = 'user' AND rewound = 0 ORDER BY seq LIMIT 1), ''),
            (SELECT count(*) FROM message WHERE conversation = c.id AND role = 'user' AND rewound = 0)
         FROM conversation AS c {which}"
    );
    connection
        .prepare_cached(&sql)?
        .query_map([value], |row| {
            let parent: Option<i64> = row.get(4)?;
            let title: String = row.get(6)?;
            let words: Vec<&str> = title.split_whitespace().collect();
            Ok(StoredConversation {
                id: ConversationId(row.get(0)?),
                started: row.get(1)?,
                updated: row.get(2)?,
                model: row.get(3)?,
                parent: parent.map(ConversationId).zip(row.get(5)?),
                title: words.join(" ").chars().take(TITLE_CHARS).collect(),
                turns: row.get(7)?,
            })
        })?
        .collect()
}

fn read_messages(connection: &Connection, conversation: i64) -> rusqlite::Result<Vec<(i64, StoredMessage)>> {
    let sql = "SELECT id, time, role, content, state, model, rewound FROM message WHERE conversation = ?1 ORDER BY seq";
    connection
        .prepare_cached(sql)?
        .query_map([conversation], |row| {
            let state = match row.get_ref(4)?.as_str()? {
                "complete" => MessageState::Complete,
                "failed" => MessageState::Failed,
                _ => MessageState::Partial,
            };
            let message = Message { role: role_of(row.get_ref(2)?.as_str()?), content: row.get(3)? };
            let (model, rewound) = (row.get(5)?, row.get(6)?);
            Ok((
                row.get(0)?,
                StoredMessage { seq: 0, time: row.get(1)?, message, state, model, rewound, calls: Vec::new() },
            ))
        })?
        .collect()
}

/// The role of a name in the database.
pub(in crate::store) fn role_of(text: &str) -> Role {
    match text {
        "system" => Role::System,
        "user" => Role::User,
        _ => Role::Assistant,
    }
}

/// The role's name in the database, part of its format.
pub(in crate::store) fn role_text(role: Role) -> &'static str {
    match role {
        Role::System => "system",
        Role::User => "user",
        Role::Assistant => "assistant",
    }
}

/// The state's name in the database, part of its format.
pub(in crate::store) fn state_text(state: MessageState) -> &'static str {
    match state {
        MessageState::Complete => "complete",
        MessageState::Partial => "partial",
        MessageState::Failed => "failed",
    }
}
