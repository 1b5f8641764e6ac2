//! Leftovers of a session that was killed, and requests of other agents: a thread of its own looks for them, so that no
//! prompt waits for it.

use crate::app::{
    Runtime, cut_off_turns, recover, resting_runs, unknown_outcomes, waiting_sops, workspace_dir, workspace_for,
};
use crate::config::state_directory;
use crate::host::working_directory;
use crate::proto::Event;
use crate::repl::screen::Screen;
use crate::serve::Asks;
use crate::shell::Handle;

/// Lines that are shown; `reedclaw doctor` has all.
const SHOWN_MAX: usize = 5;

/// Looks for leftovers in the background, and sends lines about them to the screen.
pub(in crate::repl) fn look(runtime: &Runtime, screen: Screen, pump: Handle) {
    let (settings, env) = (runtime.settings().clone(), runtime.env().clone());
    let store = std::sync::Arc::clone(runtime.store());
    let asks = state_directory(&env).map(|state| Asks::at(&state));
    let work = move || {
        let workspace = workspace_for(&env, &working_directory(), &workspace_dir(&settings, &env));
        let mut lines = recover(&settings, &env, &workspace);
        lines.extend(cut_off_turns(&env, &workspace).into_iter().take(SHOWN_MAX));
        lines.extend(resting_runs(&store, &env, &workspace).into_iter().take(SHOWN_MAX));
        lines.extend(waiting_sops(&settings, &env, &store, &workspace).into_iter().take(SHOWN_MAX));
        drop(store);
        let unknown = unknown_outcomes(&settings, &env);
        lines.extend(unknown.iter().take(SHOWN_MAX).cloned());
        if !unknown.is_empty() {
            lines.push("it may have run or not: check its effects; reedclaw receipt list".to_owned());
        }
        if unknown.len() > SHOWN_MAX {
            lines.push(format!("and {} more; reedclaw doctor lists them", unknown.len() - SHOWN_MAX));
        }
        if !lines.is_empty() {
            lines.into_iter().for_each(|line| screen.send(None, Event::Notice(line)));
            pump.nudge();
        }
        // From here on the thread waits for calls of other agents that need a person.
        if let Some(asks) = asks {
            asks.listen(&mut |line| {
                screen.send(None, Event::Notice(line));
                pump.nudge();
            });
        }
    };
    // Without a thread nothing is shown; the receipts have the calls, and the next question finishes the interrupted work.
    let _ = std::thread::Builder::new().name("leftover".into()).spawn(work);
}
