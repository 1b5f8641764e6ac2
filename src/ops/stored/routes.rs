//! The lessons that routing learned from a person's answers: read, added, forgotten.

use crate::host;
use crate::proto::Failure;
use crate::route::FINGERPRINT;
use crate::store::{RouteMemory, Store};

/// The lessons, for the weights in use; `None` if they can't be read, which the next line of the history reports.
#[must_use]
pub fn learned(store: &mut Store) -> Option<RouteMemory> {
    store.route_memory(FINGERPRINT).map_err(|problem| store.note_read_problem(problem)).ok()
}

/// Remembers where a line goes, and moves some weights by a step each. The next line of the history reports a store that
/// can't be written.
pub fn learn(store: &mut Store, line: &str, to_shell: bool, steps: &[(u16, i8)]) {
    if let Err(problem) = store.remember_route(line, to_shell, (FINGERPRINT, steps), host::now_unix_ms()) {
        store.note_read_problem(problem);
    }
}

/// Forgets all lessons, and returns how many lines there were.
///
/// # Errors
/// The store can't be written.
pub fn forget(store: &mut Store) -> Result<usize, Failure> {
    Ok(store.forget_routes()?)
}
