//! The agent's reports to the store of conversations. Knows nothing of how they are stored.

use crate::money::Spending;
use crate::proto::{Failure, Spent};
use crate::store::{Charge, ConversationId};
use crate::turn::{PastSummary, PastTurn};

/// The end of a question, for the record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending<'a> {
    /// The answer is whole.
    Answered,
    /// The user stopped it.
    Cancelled,
    /// Failed.
    Failed(&'a Failure),
}

/// A summary, and the first turn after it.
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
    /// Its result, JSON.
    pub result: String,
    /// True if it succeeded.
    pub is_done: bool,
    /// The id of its receipt.
    pub receipt: Option<String>,
}

/// Records a conversation as it happens, so that a crash loses nothing. Called in order: one `question`, any number of
/// `answer_piece` and `spent`, one `finished`.
///
/// A failure is reported to the user once per question, and the answer continues.
pub trait Recorder: Send {
    /// Begins a conversation for a question of this model, if none has begun.
    fn begin(&mut self, _: Option<&str>) -> Option<ConversationId> {
        None
    }

    /// Records a question, with its model if one is chosen.
    ///
    /// # Errors
    /// The failure to record.
    fn question(&mut self, text: &str, model: Option<&str>) -> Result<(), Failure>;

    /// Records a piece of the answer, unchanged.
    ///
    /// # Errors
    /// The failure to record.
    fn answer_piece(&mut self, text: &str) -> Result<(), Failure>;

    /// Writes the pieces that were held back, since none came for a moment.
    ///
    /// # Errors
    /// The failure to record.
    fn answer_pauses(&mut self) -> Result<(), Failure> {
        Ok(())
    }

    /// Records the cost of a request, and the model's thoughts during it.
    ///
    /// # Errors
    /// The failure to record.
    fn spent(&mut self, _: &Spent, _: &str) -> Result<(), Failure> {
        Ok(())
    }

    /// Records a tool's call with its result.
    ///
    /// # Errors
    /// The failure to record.
    fn tool(&mut self, _: &PastCall) -> Result<(), Failure> {
        Ok(())
    }

    /// The calls of the recorded conversation's answers, by question, in order; questions without calls are omitted.
    ///
    /// # Errors
    /// The calls can't be read.
    fn calls(&mut self) -> Result<Vec<(String, Vec<PastCall>)>, Failure> {
        Ok(Vec::new())
    }

    /// Reserves the highest cost of a request before it is sent; `spent` or `release` ends the reservation. A second
    /// one replaces the first.
    ///
    /// # Errors
    /// The failure to record.
    fn reserve(&mut self, _: &Spent) -> Result<(), Failure> {
        Ok(())
    }

    /// Cancels the reservation, since nothing was spent.
    ///
    /// # Errors
    /// The failure to record.
    fn release(&mut self) -> Result<(), Failure> {
        Ok(())
    }

    /// The cost of this conversation and of this day by now, in all sessions.
    ///
    /// # Errors
    /// The sums can't be read.
    fn spending(&mut self) -> Result<Spending, Failure> {
        Ok(Spending::default())
    }

    /// The ratio of a model's own count to our estimate, if it was learnt.
    fn token_factor(&mut self, _: &str) -> Option<f64> {
        None
    }

    /// Records that ratio.
    ///
    /// # Errors
    /// The failure to record.
    fn learn_token_factor(&mut self, _: &str, _: f64) -> Result<(), Failure> {
        Ok(())
    }

    /// The number of the present day, as [`crate::money::day_of`] counts.
    fn today(&self) -> i64 {
        0
    }

    /// Records the end of the question.
    ///
    /// # Errors
    /// The failure to record.
    fn finished(&mut self, ending: Ending<'_>) -> Result<(), Failure>;

    /// Records a summary of all turns before the first that is still sent in full. That turn is identified by its
    /// question, with the context before it, and its answer. `None` removes the summary.
    ///
    /// # Errors
    /// The failure to record.
    fn summarised(&mut self, _: Option<SummaryUpTo<'_>>) -> Result<(), Failure> {
        Ok(())
    }

    /// Records into this conversation from now on; into a new one for `None`.
    fn turn_to(&mut self, _: Option<ConversationId>) {}

    /// The turns of the recorded conversation and its summary, if another session has added or rewound some since this
    /// one turned to it or asked in it.
    fn changed_beside(&mut self) -> Option<(Vec<PastTurn>, Option<PastSummary>)> {
        None
    }

    /// Charges the requests that follow to a run, and to a part of its work.
    fn charge(&mut self, _: Option<Charge>) {}

    /// Returns a recorder for requests beside the answer, for the same conversation; `None` if nothing is stored.
    fn beside(&self) -> Option<Box<dyn Recorder>> {
        None
    }

    /// The conversation that is recorded, once it has begun.
    fn conversation(&self) -> Option<ConversationId> {
        None
    }
}

/// A recorder that stores nothing, if there is no store.
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
