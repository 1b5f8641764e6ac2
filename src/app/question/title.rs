//! The title of a new conversation, made in the background: nothing waits for it, and a session that ends does without.

use parking_lot::Mutex;
use std::sync::Arc;
use std::thread;

use super::StoreRecorder;
use crate::agent::Agent;
use crate::store::{MessageState, Store};

/// Starts a title for the agent's conversation if it holds one whole turn and there is a model for summaries. A title
/// that the person sets meanwhile stays.
pub fn make_title(agent: &Agent, store: &Arc<Mutex<Store>>) {
    let (Some(titler), Some(conversation)) = (agent.titler(), agent.conversation()) else { return };
    let turns = store.lock().turns(conversation).unwrap_or_default();
    let [turn] = &turns[..] else { return };
    if turn.state != MessageState::Complete {
        return;
    }
    let (turn, store) = (turn.clone(), Arc::clone(store));
    // If no thread can be started, there is no title.
    let _ = thread::Builder::new().name("title".to_owned()).spawn(move || {
        let mut recorder = StoreRecorder::in_background(Arc::clone(&store), conversation);
        if let Some(title) = titler.title(&turn.question, &turn.answer, &mut recorder) {
            let store = store.lock();
            // A title that can't be stored is no greater loss than one that wasn't made.
            let _ = store.suggest_title(conversation, &title);
        }
    });
}
