//! Conversations of sessions in the store. There they are an index, for lists and recall: git has them, and missing
//! ones are made again from git. It must not know how the store saves them.

use std::collections::HashSet;

use super::session_failure;
use crate::app::{Runtime, is_on_disk};
use crate::host::now_unix_ms;
use crate::proto::Failure;
use crate::sessions::wire::{CallFile, TurnFile};
use crate::sessions::{Sessions, short_id};
use crate::store::{ConversationId, MessageState, Store, StoreError, StoredCall, StoredTurn};

/// Conversations among which that of a session is looked for.
const CONVERSATIONS_SEEN: usize = 500;

/// The turns of a record as the store has them.
pub(super) fn turns_of(records: Vec<TurnFile>) -> Vec<StoredTurn> {
    let turn = |it: TurnFile| StoredTurn {
        question: it.question,
        answer: it.answer,
        state: match it.state.as_str() {
            "whole" => MessageState::Complete,
            "failed" => MessageState::Failed,
            _ => MessageState::Partial,
        },
        time: it.time_ms,
        calls: it.calls.into_iter().map(|call| stored_call(call, it.time_ms)).collect(),
    };
    records.into_iter().map(turn).collect()
}

fn stored_call(call: CallFile, time: i64) -> StoredCall {
    let CallFile { arguments, id: call_id, receipt, result, success, tool } = call;
    StoredCall { time, call_id, tool, arguments, result, success, receipt }
}

/// Questions and answers.
fn texts(turns: &[StoredTurn]) -> Vec<(String, String)> {
    turns.iter().map(|it| (it.question.clone(), it.answer.clone())).collect()
}

/// Returns the stored conversation with exactly these turns, and whether it is new: if there is none, as for a session
/// from another machine, it is stored.
pub(super) fn conversation_of(store: &mut Store, turns: &[StoredTurn]) -> Result<(ConversationId, bool), StoreError> {
    let wanted = texts(turns);
    for known in store.conversations(CONVERSATIONS_SEEN)? {
        if usize::try_from(known.turns) == Ok(turns.len()) && texts(&store.turns(known.id)?) == wanted {
            return Ok((known.id, false));
        }
    }
    Ok((add(store, turns), true))
}

fn add(store: &mut Store, turns: &[StoredTurn]) -> ConversationId {
    let id = store.begin_conversation(turns.first().map_or_else(now_unix_ms, |it| it.time), "");
    for turn in turns {
        let mut open = store.ask(id, turn.time, &turn.question, None);
        for call in &turn.calls {
            store.add_call(&open, call);
        }
        store.push_piece(&mut open, &turn.answer, turn.time);
        store.finish_message(open, turn.state, turn.time);
    }
    id
}

/// Stores the conversations of sessions that the store lacks, as after its file was lost. Returns the sessions' short
/// ids. Sessions that were only fetched, whose records can't be read, or whose turn was cut off, are left out.
///
/// # Errors
/// The repository or the store can't be read.
pub fn restore_conversations(runtime: &Runtime, sessions: &Sessions) -> Result<Vec<String>, Failure> {
    if !is_on_disk(&runtime.store) {
        return Ok(Vec::new());
    }
    let mut all = sessions.list().map_err(session_failure)?;
    all.extend(sessions.list_left().map_err(session_failure)?);
    let mut store = runtime.store.lock();
    let mut known = HashSet::new();
    for it in store.conversations(usize::MAX >> 1)? {
        known.insert(texts(&store.turns(it.id)?));
    }
    let mut restored = Vec::new();
    // The oldest first, as they were asked.
    for it in all.iter().rev().filter(|it| !it.is_damaged && !it.has_draft) {
        let Ok(records) = sessions.look(&it.meta.id).and_then(|view| view.records(it.meta.turns)) else { continue };
        let turns = turns_of(records);
        if !turns.is_empty() && known.insert(texts(&turns)) {
            add(&mut store, &turns);
            restored.push(short_id(&it.meta.id).to_owned());
        }
    }
    store.take_problem().map_or(Ok(restored), |problem| Err(problem.into()))
}
