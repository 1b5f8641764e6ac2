//! Conversations: stored while they happen, so that a crash loses at most the last tenth of a second of an answer.
//! Nothing here deletes; `:clear` and `:reset` begin a new conversation. Knows nothing of context or budgets.

use rusqlite::{Connection, params};

use super::overlay::OVERLAY_ID_MIN;
use super::{Store, StoreError};
use crate::proto::{Message, Role};

/// A piece waits at most so long before it is written, measured when the next one comes; where none comes, the caller
/// says so by [`Store::write_pieces`].
const WRITE_AFTER_MS: i64 = 100;
/// So many bytes are written at once, however quickly they came.
const WRITE_BYTES: usize = 4 * 1024;

pub(super) const INSERT_MESSAGE: &str = "
    INSERT INTO message (conversation, seq, time, role, content, state)
    VALUES (?1, (SELECT coalesce(max(seq), 0) + 1 FROM message WHERE conversation = ?1), ?2, ?3, ?4, ?5)";

/// The id of a conversation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ConversationId(pub i64);

/// How far a message got.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MessageState {
    /// Whole.
    Complete,
    /// Still coming, stopped by the user, or cut by a crash.
    Partial,
    /// It ended with a failure.
    Failed,
}

/// A message that is still coming; give it back to [`Store::finish_message`].
#[derive(Debug)]
#[must_use]
pub struct OpenMessage {
    id: i64,
    conversation: ConversationId,
    time: i64,
    role: Role,
    pending: String,
    written_at: i64,
}

/// A conversation, as it is read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredConversation {
    /// Its id.
    pub id: ConversationId,
    /// When it began, Unix milliseconds.
    pub started: i64,
    /// The model it began with.
    pub model: String,
}

/// A message, as it is read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredMessage {
    /// Its place in the conversation, from 1.
    pub seq: u32,
    /// When it began, Unix milliseconds.
    pub time: i64,
    /// Who said what.
    pub message: Message,
    /// How far it got.
    pub state: MessageState,
}

impl Store {
    /// Begins a conversation at `started` (Unix milliseconds); it never fails, see [`Store::take_problem`].
    pub fn begin_conversation(&mut self, started: i64, model: &str) -> ConversationId {
        let sql = "INSERT INTO conversation (started, model) VALUES (?1, ?2)";
        let insert =
            |_: &Self, connection: &Connection| connection.prepare_cached(sql)?.insert(params![started, model]);
        ConversationId(self.write(started, insert).unwrap_or(0))
    }

    /// Stores a whole message, such as a question.
    pub fn add_message(&mut self, conversation: ConversationId, time: i64, message: &Message) {
        self.insert_message(conversation, time, message.role, &message.content, MessageState::Complete);
    }

    /// Begins a message whose text comes in pieces; it is there at once, empty and partial.
    pub fn begin_message(&mut self, conversation: ConversationId, time: i64, role: Role) -> OpenMessage {
        let id = self.insert_message(conversation, time, role, "", MessageState::Partial);
        OpenMessage { id, conversation, time, role, pending: String::new(), written_at: time }
    }

    /// Adds a piece. It is written with others after 100 ms or 4 KiB, by the caller's clock.
    pub fn push_piece(&mut self, open: &mut OpenMessage, piece: &str, now: i64) {
        open.pending.push_str(piece);
        let waited = now.abs_diff(open.written_at) >= WRITE_AFTER_MS.unsigned_abs();
        if waited || open.pending.len() >= WRITE_BYTES {
            self.write_pending(open, MessageState::Partial, now);
        }
    }

    /// Writes the pieces that wait; the message stays open.
    pub fn write_pieces(&mut self, open: &mut OpenMessage, now: i64) {
        if !open.pending.is_empty() {
            self.write_pending(open, MessageState::Partial, now);
        }
    }

    /// Writes what is left and how the message ended.
    pub fn finish_message(&mut self, mut open: OpenMessage, state: MessageState, now: i64) {
        self.write_pending(&mut open, state, now);
    }

    /// Reads the newest conversations, newest first.
    ///
    /// # Errors
    /// The database can't be read.
    pub fn conversations(&self, limit: usize) -> Result<Vec<StoredConversation>, StoreError> {
        let mut found = Vec::new();
        let overlay = self.overlay.as_ref().map(|overlay| &overlay.connection);
        for connection in overlay.into_iter().chain([&self.main]) {
            let more = read_conversations(connection, limit).map_err(|problem| self.fail("read", &problem))?;
            found.extend(more);
        }
        found.truncate(limit);
        Ok(found)
    }

    /// Reads a conversation's messages in order, the partial ones too.
    ///
    /// # Errors
    /// The database can't be read.
    pub fn messages(&self, conversation: ConversationId) -> Result<Vec<StoredMessage>, StoreError> {
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
        let number = |(seq, (_, message))| StoredMessage { seq, ..message };
        Ok((1..).zip(found).map(number).collect())
    }

    fn insert_message(
        &mut self,
        conversation: ConversationId,
        time: i64,
        role: Role,
        content: &str,
        state: MessageState,
    ) -> i64 {
        let insert = |store: &Self, connection: &Connection| {
            let conversation = store.moved.conversation(conversation.0);
            let values = params![conversation, time, role_text(role), content, state_text(state)];
            connection.prepare_cached(INSERT_MESSAGE)?.insert(values)
        };
        self.write(time, insert).unwrap_or(0)
    }

    fn write_pending(&mut self, open: &mut OpenMessage, state: MessageState, now: i64) {
        let OpenMessage { id, conversation, time, role, pending, .. } = &*open;
        let append = |store: &Self, connection: &Connection| {
            let id = store.moved.message(*id);
            if std::ptr::eq(connection, &raw const store.main) || id >= OVERLAY_ID_MIN {
                let sql = "UPDATE message SET content = content || ?2, state = ?3 WHERE id = ?1";
                return connection.prepare_cached(sql)?.execute(params![id, pending, state_text(state)]);
            }
            // The message began in the file, which can't take its rest: that is kept under the same id.
            let conversation = store.moved.conversation(conversation.0);
            connection.execute(
                "INSERT INTO message (id, conversation, seq, time, role, content, state)
                 VALUES (?1, ?2, -?1, ?3, ?4, ?5, ?6)
                 ON CONFLICT (id) DO UPDATE SET content = content || excluded.content, state = excluded.state",
                params![id, conversation, time, role_text(*role), pending, state_text(state)],
            )
        };
        self.write(now, append);
        open.pending.clear();
        open.written_at = now;
    }
}

fn read_conversations(connection: &Connection, limit: usize) -> rusqlite::Result<Vec<StoredConversation>> {
    connection
        .prepare_cached("SELECT id, started, model FROM conversation ORDER BY id DESC LIMIT ?1")?
        .query_map([i64::try_from(limit).unwrap_or(-1)], |row| {
            Ok(StoredConversation { id: ConversationId(row.get(0)?), started: row.get(1)?, model: row.get(2)? })
        })?
        .collect()
}

fn read_messages(connection: &Connection, conversation: i64) -> rusqlite::Result<Vec<(i64, StoredMessage)>> {
    connection
        .prepare_cached("SELECT id, time, role, content, state FROM message WHERE conversation = ?1 ORDER BY seq")?
        .query_map([conversation], |row| {
            let role = match row.get_ref(2)?.as_str()? {
                "system" => Role::System,
                "user" => Role::User,
                _ => Role::Assistant,
            };
            let state = match row.get_ref(4)?.as_str()? {
                "complete" => MessageState::Complete,
                "failed" => MessageState::Failed,
                _ => MessageState::Partial,
            };
            let message = Message { role, content: row.get(3)? };
            Ok((row.get(0)?, StoredMessage { seq: 0, time: row.get(1)?, message, state }))
        })?
        .collect()
}

fn role_text(role: Role) -> &'static str {
    match role {
        Role::System => "system",
        Role::User => "user",
        Role::Assistant => "assistant",
    }
}

fn state_text(state: MessageState) -> &'static str {
    match state {
        MessageState::Complete => "complete",
        MessageState::Partial => "partial",
        MessageState::Failed => "failed",
    }
}
