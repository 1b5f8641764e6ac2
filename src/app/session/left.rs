//! A turn that a crash cut off: what the store of conversations has of it goes into its commit. It must not know how either keeps it.

use parking_lot::Mutex;

use super::report_of;
use crate::agent::Agent;
use crate::sessions::{Session, State, TurnReport};
use crate::store::Store;

/// Conversations, the newest first, among whose last turns it is looked for.
const CONVERSATIONS_SEEN: usize = 50;

/// Gives the turn of a session that was cut off its answer and its calls, if the store has them.
pub(super) fn recall(session: &mut Session, agent: &Agent, store: &Mutex<Store>) {
    let Some(left) = session.left() else { return };
    let conversations = store.lock().conversations(CONVERSATIONS_SEEN).unwrap_or_default();
    let is_it = |report: &TurnReport| report.question == left.question && report.state == State::Cancelled;
    if let Some(report) = conversations.into_iter().find_map(|it| report_of(agent, store, it.id).filter(is_it)) {
        // The model that answered then isn't known.
        session.recall_left(TurnReport { state: State::Cut, model: None, ..report });
    }
}
