//! The run towards a goal that works in the background of a session, and the news about it.

use parking_lot::Mutex;
use std::sync::Arc;
use std::time::Instant;

use crate::app::{Background, find_run};
use crate::store::Store;

/// The runs towards goals of this session.
#[derive(Default)]
pub(in crate::repl) struct Goals {
    /// The one that works now.
    pub(in crate::repl) running: Option<Background>,
    /// The newest one that worked here.
    pub(in crate::repl) last: Option<i64>,
    /// Time of the Ctrl-C that paused it.
    pub(in crate::repl) interrupted_at: Option<Instant>,
}

impl Goals {
    /// The line about the run in the background, once it rests.
    pub(in crate::repl) fn news(&mut self, store: &Arc<Mutex<Store>>) -> Option<String> {
        let mut running = self.running.take_if(|it| it.is_over())?;
        running.join();
        let Some(id) = running.run() else {
            return running.progress().failure.map(|failure| format!("[norris] {}", failure.message));
        };
        self.last = Some(id);
        let run = find_run(store, Some(id)).and_then(|journal| journal.state()).ok()?;
        let next = if run.end.is_some() { "show" } else { "answer" };
        Some(format!("[norris] run {id}: {}; :norris {next} {id}", run.word()))
    }
}
