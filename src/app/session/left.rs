//! A turn that a crash cut off: what the store of conversations has of it goes into its commit. It must not know how either keeps it.

use parking_lot::Mutex;

use super::report_of;
use crate::agent::Agent;
use crate::app::Runtime;
use crate::sessions::{Session, SessionError, Sessions, State, TurnReport};
use crate::store::{ConversationId, Store};

/// Conversations, the newest first, among whose last turns it is looked for if the one in which it was asked isn't known.
const CONVERSATIONS_SEEN: usize = 50;

/// Opens a session for writing. A turn of it that was cut off has its answer and its calls then, if the store has them, so that they
/// get into its commit, whatever makes that.
///
/// # Errors
/// As of [`Sessions::open`].
pub fn open_to_write(runtime: &Runtime, sessions: &Sessions, id: &str) -> Result<Session, SessionError> {
    let mut session = sessions.open(id)?;
    if runtime.settings.sessions.record != "talk" {
        recall(&mut session, &runtime.agent, &runtime.store);
    }
    Ok(session)
}

/// Gives the turn of a session that was cut off its answer and its calls, if the store has them: in the conversation in which it was
/// asked, or if that isn't known, as of a run, among the newest ones.
fn recall(session: &mut Session, agent: &Agent, store: &Mutex<Store>) {
    let Some(left) = session.left() else { return };
    let asked_in = match session.conversation_of_left() {
        Some(number) => vec![ConversationId(number)],
        None => {
            let newest = store.lock().conversations(CONVERSATIONS_SEEN).unwrap_or_default();
            newest.into_iter().map(|it| it.id).collect()
        }
    };
    let is_it = |report: &TurnReport| report.question == left.question && report.state == State::Cancelled;
    if let Some(report) = asked_in.into_iter().find_map(|it| report_of(agent, store, it).filter(is_it)) {
        // The model that answered then isn't known.
        session.recall_left(TurnReport { state: State::Cut, model: None, ..report });
    }
}
