//! The interface of every provider: a name, its capabilities, and one way to ask. Knows no wire and no config.

use super::cancel::Cancel;
use super::error::ModelError;
use super::request::{Request, Response};
use crate::proto::Failure;

/// Answers requests.
pub trait Provider: Send + Sync {
    /// The user's name for it (`models.NAME`).
    fn name(&self) -> &str;

    /// Its abilities and its place.
    fn capabilities(&self) -> Capabilities;

    /// Answers one request and returns when it is over; `sink` receives the answer while it arrives. A cancel of the
    /// sink's ends it within 100 ms, at any point.
    ///
    /// # Errors
    /// Any [`super::Fault`], with the model's name; [`super::Fault::Cancelled`] after a cancel. The sink has received
    /// the part before it.
    fn chat(&self, request: &Request, sink: &mut dyn Sink) -> Result<Response, Box<ModelError>>;

    /// Asks the server once for its window, unless it is known: only a llama.cpp server that isn't on the internet can
    /// answer. From then on [`Self::capabilities`] contains it; a cancel ends the wait.
    fn learn(&self, _: &Cancel) {}

    /// Counts tokens as the model does, if there is an exact way. It may ask the server; a cancel ends that.
    fn count(&self, _: Countable<'_>, _: &Cancel) -> Option<Count> {
        None
    }
}

/// Receives an answer while it arrives.
pub trait Sink {
    /// Takes the next event.
    fn event(&mut self, event: ChatEvent);

    /// The handle that stops the request.
    fn cancel(&self) -> &Cancel;

    /// Decides about each request before it is sent, and may limit the tokens of the answer.
    ///
    /// # Errors
    /// The reason against sending: [`super::Fault::NotAllowed`].
    fn permit(&mut self, sending: &Sending<'_>) -> Result<Option<u64>, Failure>;

    /// Asks the person whether a request may go to a more distant model; false if no person can be asked.
    fn consent(&mut self, crossing: &Crossing) -> bool;
}

/// A request that is about to be sent, and by whom.
pub struct Sending<'a> {
    /// The model's name in the config.
    pub model: &'a str,
    /// The server's name for it.
    pub served_as: &'a str,
    /// The server's protocol, in the config's word for it.
    pub kind: &'static str,
    /// The server's host, without its port; empty if there is none.
    pub host: &'a str,
    /// The distance to the model.
    pub reach: Reach,
    /// The request's own limit for the answer.
    pub output_tokens_max: Option<u64>,
    /// The request itself.
    pub request: &'a Request,
    /// Counts its tokens as exactly as can be; it may take a while.
    pub count: &'a dyn Fn() -> Option<Count>,
}

/// The text, or the request, whose tokens are counted.
#[derive(Clone, Copy, Debug)]
pub enum Countable<'a> {
    /// A text alone.
    Text(&'a str),
    /// A request with all that goes with it.
    Request(&'a Request),
}

/// A number of tokens, and how it was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Count {
    /// The tokens.
    pub tokens: u64,
    /// The way, in words.
    pub method: String,
    /// `true` if the model counts the same.
    pub is_exact: bool,
}

/// A part of an answer, or a report about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ChatEvent {
    /// More of the answer, raw as the model sent it.
    Text(String),
    /// More of the model's thoughts, raw.
    Thought(String),
    /// A short silence after a piece.
    Pause,
    /// A report for the person: another try, a fall-back.
    Notice(String),
}

/// A fall-back that would send the request further away than the person asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Crossing {
    /// The model that failed.
    pub from: String,
    /// The one that would be asked.
    pub to: String,
    /// The place of the other model.
    pub place: String,
}

/// A provider's abilities.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Capabilities {
    /// Its word in `models.NAME.kind`.
    pub kind: &'static str,
    /// The answer comes in pieces.
    pub streaming: bool,
    /// Can ask for tools.
    pub tools: bool,
    /// Takes pictures; `None` if that isn't known.
    pub images: Option<bool>,
    /// Marks the part that the server may cache.
    pub caching: bool,
    /// Its thoughts must be sent back unchanged.
    pub keeps_state: bool,
    /// The window: limit of a request and its answer together, if known.
    pub context_tokens: Option<u64>,
    /// The distance to the model.
    pub reach: Reach,
    /// The place of the model in words: host and port, or the names of other models.
    pub place: String,
}

impl Capabilities {
    /// The capabilities of several models of which any may answer: what all of them can, and the farthest distance.
    #[must_use]
    pub(in crate::model) fn of_all(kind: &'static str, all: &[Self], place: String) -> Self {
        let every = |can: fn(&Self) -> bool| all.iter().all(can);
        Self {
            kind,
            streaming: every(|it| it.streaming),
            tools: every(|it| it.tools),
            images: all.iter().map(|it| it.images).min().flatten(),
            caching: every(|it| it.caching),
            keeps_state: every(|it| it.keeps_state),
            context_tokens: all.iter().filter_map(|it| it.context_tokens).min(),
            reach: all.iter().map(|it| it.reach).max().unwrap_or_default(),
            place,
        }
    }
}

/// The distance that a request travels; the order is by distance.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Reach {
    /// This machine.
    #[default]
    Machine,
    /// A private network.
    Network,
    /// Beyond it.
    Internet,
}

impl Reach {
    /// Its words.
    #[must_use]
    pub fn words(self) -> &'static str {
        match self {
            Self::Machine => "this machine",
            Self::Network => "your network",
            Self::Internet => "the internet",
        }
    }
}
