//! What requests to models came to, one row each: kept apart from conversations, so that a fork pays nothing twice and a
//! cleared conversation doesn't make money come back. Knows no prices.

use rusqlite::{Connection, params};

use super::{ConversationId, Store};
use crate::proto::Spent;

impl Store {
    /// Keeps what a request came to; it never fails, see [`Store::take_problem`].
    pub fn add_request(&mut self, conversation: Option<ConversationId>, now: i64, spent: &Spent, thoughts: &str) {
        let Spent { model, tools, usage } = spent;
        let sql = "INSERT INTO request (time, conversation, model, uncached_in, cache_read, cache_write, visible_out,
            reasoning_out, usage, tools, thoughts) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)";
        let insert = |store: &Self, connection: &Connection| {
            let conversation = conversation.map(|id| store.moved.conversation(id.0));
            connection.prepare_cached(sql)?.execute(params![
                now,
                conversation,
                model,
                stored(usage.uncached_in),
                stored(usage.cache_read),
                stored(usage.cache_write),
                stored(usage.visible_out),
                stored(usage.reasoning_out),
                usage.raw,
                tools.join("\n"),
                thoughts,
            ])
        };
        self.write(now, insert);
    }
}

/// A number of tokens as the database takes it; no server tells more in earnest.
fn stored(tokens: u64) -> i64 {
    i64::try_from(tokens).unwrap_or(i64::MAX)
}
