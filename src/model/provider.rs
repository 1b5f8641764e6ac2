//! What every provider is: a name, what it can do, and one way to be asked. Knows no wire and no config.

use super::cancel::Cancel;
use super::error::ModelError;
use super::request::{Request, Response};
use crate::proto::Failure;

/// Answers requests.
pub trait Provider: Send + Sync {
    /// What the user calls it (`models.NAME`).
    fn name(&self) -> &str;

    /// What it can do, and where it is.
    fn capabilities(&self) -> Capabilities;

    /// Answers one request and returns when it is over; `sink` hears the answer as it comes. A cancel of the sink's ends
    /// it within 100 ms, wherever it hangs.
    ///
    /// # Errors
    /// Any [`super::Fault`], with the model's name; [`super::Fault::Cancelled`] after a cancel. The sink has heard what
    /// came before it.
    fn chat(&self, request: &Request, sink: &mut dyn Sink) -> Result<Response, Box<ModelError>>;

    /// Asks the server once how much its model reads at once, where nobody has said it and the server can: a llama.cpp
    /// server that isn't on the internet. [`Self::capabilities`] tells it from then on; a cancel ends the wait.
    fn learn(&self, _: &Cancel) {}

    /// Counts tokens as the model does, where that is known. It may ask the server; a cancel ends that.
    fn count(&self, _: Countable<'_>, _: &Cancel) -> Option<Count> {
        None
    }
}

/// Who hears an answer as it comes.
pub trait Sink {
    /// Takes the next event.
    fn event(&mut self, event: ChatEvent);

    /// The handle that stops the request.
    fn cancel(&self) -> &Cancel;

    /// Is told of each request before it is sent, by the model that sends it. May limit the tokens of the answer.
    ///
    /// # Errors
    /// Why it must not be sent: [`super::Fault::NotAllowed`].
    fn permit(&mut self, sending: &Sending<'_>) -> Result<Option<u64>, Failure>;

    /// Asks the person whether a request may leave for a model that is farther away; no where nobody can be asked.
    fn consent(&mut self, crossing: &Crossing) -> bool;
}

/// A request that is about to be sent, and by whom.
pub struct Sending<'a> {
    /// The model's name in the config.
    pub model: &'a str,
    /// The server's name for it.
    pub served_as: &'a str,
    /// The server's host, without its port; empty where there is none.
    pub host: &'a str,
    /// How far it goes.
    pub reach: Reach,
    /// The most tokens that it may write, where it says so.
    pub output_tokens_max: Option<u64>,
    /// What is sent.
    pub request: &'a Request,
    /// Counts its tokens as exactly as can be; it may take a while.
    pub count: &'a dyn Fn() -> Option<Count>,
}

/// What is counted.
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
    /// Whether the model counts the same.
    pub is_exact: bool,
}

/// What a sink hears.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ChatEvent {
    /// More of the answer, raw as the model sent it.
    Text(String),
    /// More of the model's thoughts, raw.
    Thought(String),
    /// Nothing came for a moment behind a piece.
    Pause,
    /// What the person should know: another try, a fall-back.
    Notice(String),
}

/// A fall-back that would carry the request farther than the person asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Crossing {
    /// The model that failed.
    pub from: String,
    /// The one that would be asked.
    pub to: String,
    /// Where that one is.
    pub place: String,
}

/// What a provider can do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Capabilities {
    /// Its word in `models.NAME.kind`.
    pub kind: &'static str,
    /// The answer comes in pieces.
    pub streaming: bool,
    /// It can ask for tools.
    pub tools: bool,
    /// It takes pictures; `None` if that isn't known.
    pub images: Option<bool>,
    /// It marks what the server's cache may keep.
    pub caching: bool,
    /// It sends thoughts back to the byte.
    pub keeps_state: bool,
    /// The most tokens of a request and its answer, where that is known.
    pub context_tokens: Option<u64>,
    /// How far a request goes.
    pub reach: Reach,
    /// Where that is, in words: host and port, or the names of other models.
    pub place: String,
}

/// How far a request goes; a larger one is farther.
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
