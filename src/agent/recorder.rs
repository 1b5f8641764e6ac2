//! What the agent tells whoever keeps the conversation. Knows nothing of how it is kept.

use crate::money::Spending;
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

/// A summary, and the first turn behind it.
pub type SummaryUpTo<'a> = (&'a str, Option<(&'a str, &'a str)>);

/// A call of a tool that is over; its texts are without secrets.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PastCall {
    /// Its name for the model.
    pub id: String,
    /// The tool.
    pub tool: String,
    /// The arguments, JSON as the model wrote it.
    pub arguments: String,
    /// What came of it, JSON.
    pub result: String,
    /// Whether it did what it should.
    pub is_done: bool,
    /// The receipt that tells of it.
    pub receipt: Option<String>,
}

/// Keeps a conversation as it happens, so that a crash loses nothing. Called in order: one `question`, any number of
/// `answer_piece` and `spent`, one `finished`.
///
/// A failure to keep is told to the user once per question, and the answer goes on.
pub trait Recorder: Send {
    /// A question is about to be asked, of that model where one is chosen: begins a conversation where none has begun.
    fn begin(&mut self, _: Option<&str>) -> Option<ConversationId> {
        None
    }

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

    /// A tool was called, and this came of it.
    ///
    /// # Errors
    /// What kept it from being recorded.
    fn tool(&mut self, _: &PastCall) -> Result<(), Failure> {
        Ok(())
    }

    /// The calls that the recorded conversation's answers took, by the question, in order; those without calls left out.
    ///
    /// # Errors
    /// What keeps them from being known.
    fn calls(&mut self) -> Result<Vec<(String, Vec<PastCall>)>, Failure> {
        Ok(Vec::new())
    }

    /// A request is about to be sent that may come to so much; `spent` or `release` says what became of it. A second one
    /// takes the place of the first.
    ///
    /// # Errors
    /// What kept it from being recorded.
    fn reserve(&mut self, _: &Spent) -> Result<(), Failure> {
        Ok(())
    }

    /// What was reserved was not spent.
    ///
    /// # Errors
    /// What kept it from being recorded.
    fn release(&mut self) -> Result<(), Failure> {
        Ok(())
    }

    /// What this conversation and this day have cost by now, by all sessions.
    ///
    /// # Errors
    /// What keeps it from being known.
    fn spending(&mut self) -> Result<Spending, Failure> {
        Ok(Spending::default())
    }

    /// By how much a model counts otherwise than we estimate, where that was learnt.
    fn token_factor(&mut self, _: &str) -> Option<f64> {
        None
    }

    /// It was learnt.
    ///
    /// # Errors
    /// What kept it from being recorded.
    fn learn_token_factor(&mut self, _: &str, _: f64) -> Result<(), Failure> {
        Ok(())
    }

    /// The number of the present day, as [`crate::money::day_of`] counts.
    fn today(&self) -> i64 {
        0
    }

    /// It ended.
    ///
    /// # Errors
    /// What kept it from being recorded.
    fn finished(&mut self, ending: Ending<'_>) -> Result<(), Failure>;

    /// A summary stands for all turns before the first that is still sent to the letter, which is given by what was asked,
    /// with what went in front of it, and its answer; without one the turns stand for themselves again.
    ///
    /// # Errors
    /// What kept it from being recorded.
    fn summarised(&mut self, _: Option<SummaryUpTo<'_>>) -> Result<(), Failure> {
        Ok(())
    }

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
