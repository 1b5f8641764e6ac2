//! What the agent tells whoever keeps the conversation. Knows nothing of how it is kept.

use crate::proto::{Failure, Spent};
use crate::store::ConversationId;

/// How a question ended, for the record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending<'a> {
    /// The answer is whole.
    Answered,
    /// The user stopped it.
    Cancelled,
    /// It failed.
    Failed(&'a Failure),
}

/// Keeps a conversation as it happens, so that a crash loses nothing. Called in order: one `question`, any number of
/// `answer_piece` and `spent`, one `finished`.
///
/// A failure to keep is told to the user once per question, and the answer goes on.
pub trait Recorder {
    /// A question was asked; of that model, where one is chosen.
    ///
    /// # Errors
    /// What kept it from being recorded.
    fn question(&mut self, text: &str, model: Option<&str>) -> Result<(), Failure>;

    /// A piece of its answer came, raw.
    ///
    /// # Errors
    /// What kept it from being recorded.
    fn answer_piece(&mut self, text: &str) -> Result<(), Failure>;

    /// No piece came for a moment: what was held back is written now.
    ///
    /// # Errors
    /// What kept it from being recorded.
    fn answer_pauses(&mut self) -> Result<(), Failure> {
        Ok(())
    }

    /// A request of it is over: what it came to, and what the model thought meanwhile.
    ///
    /// # Errors
    /// What kept it from being recorded.
    fn spent(&mut self, _: &Spent, _: &str) -> Result<(), Failure> {
        Ok(())
    }

    /// It ended.
    ///
    /// # Errors
    /// What kept it from being recorded.
    fn finished(&mut self, ending: Ending<'_>) -> Result<(), Failure>;

    /// What follows belongs to this conversation; to a new one where none is named.
    fn turn_to(&mut self, _: Option<ConversationId>) {}

    /// The conversation that is recorded, once it has begun.
    fn conversation(&self) -> Option<ConversationId> {
        None
    }
}

/// A recorder that keeps nothing, for where there is no store.
#[derive(Clone, Copy, Debug, Default)]
pub struct Forgetful;

impl Recorder for Forgetful {
    fn question(&mut self, _: &str, _: Option<&str>) -> Result<(), Failure> {
        Ok(())
    }

    fn answer_piece(&mut self, _: &str) -> Result<(), Failure> {
        Ok(())
    }

    fn finished(&mut self, _: Ending<'_>) -> Result<(), Failure> {
        Ok(())
    }
}
