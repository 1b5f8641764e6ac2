//! The present limit of the autonomy, shared with a face, so that a mode which a person chooses there counts at once,
//! even in the middle of an answer. It can only lower the autonomy of the rules.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use crate::proto::action::Autonomy;

/// The highest autonomy for now; without a limit at first. Clones share it.
#[derive(Clone, Debug)]
pub struct Ceiling(Arc<AtomicU8>);

const ALL: [Autonomy; 3] = [Autonomy::Readonly, Autonomy::Supervised, Autonomy::Full];

impl Default for Ceiling {
    fn default() -> Self {
        Self(Arc::new(AtomicU8::new(Autonomy::Full as u8)))
    }
}

impl Ceiling {
    /// Sets the highest autonomy from now on.
    pub fn set(&self, most: Autonomy) {
        self.0.store(most as u8, Ordering::SeqCst);
    }

    /// Returns an autonomy, lowered to the present maximum.
    #[must_use]
    pub fn lowered(&self, autonomy: Autonomy) -> Autonomy {
        let most = self.0.load(Ordering::SeqCst);
        autonomy.min(ALL[usize::from(most).min(ALL.len() - 1)])
    }
}
