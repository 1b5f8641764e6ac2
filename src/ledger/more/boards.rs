//! Canvases in memory, so that a command on a large one needn't read and hash it again. The log is the truth: the hash of a state
//! here is compared with that of the newest commit before it is used.

use parking_lot::Mutex;
use std::sync::Arc;

use crate::canvas::State;

/// Canvases in memory.
const BOARDS_MAX: usize = 64;
/// The atoms of all of them: at some hundred bytes an atom, a few ten megabytes.
const ATOMS_MAX: usize = 100_000;

/// A state, the position of its commit, and its hash.
pub type Known = (Arc<State>, i64, String);

/// The canvases, the most recently used one at the end.
#[derive(Default)]
pub struct Boards(Mutex<Vec<Board>>);

struct Board {
    tenant: String,
    id: String,
    known: Known,
}

impl Boards {
    /// A canvas.
    pub fn get(&self, tenant: &str, id: &str) -> Option<Known> {
        let mut all = self.0.lock();
        let at = all.iter().position(|board| board.tenant == tenant && board.id == id)?;
        let board = all.remove(at);
        let known = board.known.clone();
        all.push(board);
        Some(known)
    }

    /// Stores a canvas; the least recently used ones are dropped.
    pub fn put(&self, tenant: &str, id: &str, known: Known) {
        self.forget(tenant, id);
        let mut all = self.0.lock();
        all.push(Board { tenant: tenant.to_owned(), id: id.to_owned(), known });
        let mut atoms: usize = all.iter().map(|board| board.known.0.atoms.len()).sum();
        while (all.len() > BOARDS_MAX || atoms > ATOMS_MAX) && all.len() > 1 {
            atoms -= all.remove(0).known.0.atoms.len();
        }
    }

    /// Forgets a canvas.
    pub fn forget(&self, tenant: &str, id: &str) {
        let mut all = self.0.lock();
        all.retain(|board| board.tenant != tenant || board.id != id);
    }
}
