//! The four protocols as data: requests and responses. Unknown fields and events are ignored, absent ones are allowed,
//! because servers differ. Knows nothing of sockets.

mod anthropic;
mod gemini;
mod inline;
mod openai;
mod responses;
#[cfg(test)]
mod tests;

pub(super) use inline::Fresh;
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use super::endpoint::{Endpoint, Protocol};
use super::error::one_line;
use super::request::{Image, Request, State, Stop, StopReason, Tool, ToolCall, Usage};
use crate::base::base64;
use crate::proto::Money;

/// Limit for the text of one answer, in bytes: a hundred times as much as a person reads. Reaching it ends the answer
/// with a notice.
pub(super) const ANSWER_BYTES_MAX: usize = 4 * 1024 * 1024;

/// Fields that some servers refuse; each is left out after the server's first refusal.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Without {
    /// `stream_options`.
    pub stream_options: bool,
    /// The schema that the answer must fit.
    pub answer_schema: bool,
    /// `include` of encrypted reasoning.
    pub encrypted_reasoning: bool,
    /// The form for thinking that it refused.
    pub thinking: ThinkingForm,
}

/// Form of the field for the thinking effort.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum ThinkingForm {
    /// The one that fits the configuration.
    #[default]
    Usual,
    /// The other form, if the protocol has two; else none.
    Other,
    /// None at all.
    Unsaid,
}

impl ThinkingForm {
    /// The form to try after this one.
    pub(super) fn next(self) -> Self {
        match self {
            Self::Usual => Self::Other,
            Self::Other | Self::Unsaid => Self::Unsaid,
        }
    }
}

/// Limit for an answer in tokens, if the request or the config has one.
pub(super) fn output_tokens_max(request: &Request, endpoint: &Endpoint) -> Option<u64> {
    request.max_output_tokens.or(endpoint.max_output_tokens)
}

/// Writes the body of a request.
pub(super) fn body(request: &Request, endpoint: &Endpoint, without: Without) -> serde_json::Result<Vec<u8>> {
    match endpoint.protocol {
        Protocol::OpenAi => openai::body(request, endpoint, without),
        Protocol::Responses => responses::body(request, endpoint, without),
        Protocol::Anthropic => anthropic::body(request, endpoint, without),
        Protocol::Gemini => gemini::body(request, endpoint, without),
    }
}

/// Makes the reader of one response.
pub(super) fn reader(protocol: Protocol) -> Box<dyn Read> {
    match protocol {
        Protocol::OpenAi => Box::<openai::Reader>::default(),
        Protocol::Responses => Box::<responses::Reader>::default(),
        Protocol::Anthropic => Box::<anthropic::Reader>::default(),
        Protocol::Gemini => Box::<gemini::Reader>::default(),
    }
}

/// Reads one response of one protocol.
pub(super) trait Read: Send + std::fmt::Debug {
    /// Takes the data of one event of a stream.
    fn event(&mut self, data: &str, got: &mut Gathered) -> Result<(), Bad>;

    /// Takes a response that is one object.
    fn object(&mut self, body: &[u8], got: &mut Gathered) -> Result<(), Bad>;

    /// Assembles the parts.
    fn finish(&mut self, got: &mut Gathered);
}

/// The reason why a piece of a response isn't a piece of an answer.
#[derive(Debug)]
pub(super) enum Bad {
    Json(serde_json::Error),
    Reported(Problem),
}

impl From<serde_json::Error> for Bad {
    fn from(error: serde_json::Error) -> Self {
        Self::Json(error)
    }
}

/// The parts of an answer that have arrived.
#[derive(Debug, Default)]
pub(super) struct Gathered {
    /// Text and thoughts that were not handed on yet.
    pub fresh: Fresh,
    /// The whole text.
    pub text: String,
    /// The tools called.
    pub calls: Vec<ToolCall>,
    /// Its tokens.
    pub usage: Option<Usage>,
    /// Reason why it ended.
    pub stop: Option<Stop>,
    /// Its parts unchanged, for a protocol that wants them back.
    pub parts: Vec<String>,
    /// A piece of an answer has come.
    pub saw_answer: bool,
    /// True if the server reported that it is complete.
    pub is_done: bool,
    /// Longer than [`ANSWER_BYTES_MAX`]; the rest was dropped.
    pub is_over_limit: bool,
    kept_bytes: usize,
    inline: inline::Inline,
}

impl Gathered {
    /// Takes more of the text.
    pub(super) fn say(&mut self, piece: &str) {
        let piece = self.within_limit(piece);
        let fresh = self.inline.push(piece);
        self.add(&fresh);
    }

    /// Ends the text: an unfinished mark is text.
    pub(super) fn end_text(&mut self) {
        let fresh = self.inline.finish();
        self.add(&fresh);
    }

    fn add(&mut self, fresh: &Fresh) {
        self.text.push_str(&fresh.text);
        self.fresh.text.push_str(&fresh.text);
        self.fresh.thought.push_str(&fresh.thought);
    }

    /// Takes more of the thoughts.
    pub(super) fn think(&mut self, piece: &str) {
        let piece = self.within_limit(piece);
        self.fresh.thought.push_str(piece);
    }

    /// Counts a piece and cuts it at the limit.
    pub(super) fn within_limit<'a>(&mut self, piece: &'a str) -> &'a str {
        let room = ANSWER_BYTES_MAX - self.kept_bytes;
        let within = if piece.len() <= room {
            piece
        } else {
            self.is_over_limit = true;
            &piece[..piece.floor_char_boundary(room)]
        };
        self.kept_bytes += within.len();
        within
    }

    /// Stores a part that goes back unchanged; a part over the limit is dropped as a whole.
    pub(super) fn keep_part(&mut self, part: &str) {
        if self.within_limit(part).len() == part.len() {
            self.parts.push(part.to_owned());
        }
    }

    /// Stores the reason for the end.
    pub(super) fn stopped(&mut self, reason: StopReason, server_text: &str) {
        self.stop = Some(Stop { reason, server_text: one_line(server_text) });
    }

    /// Takes a call with complete arguments. A call without an id from the server gets one of ours.
    pub(super) fn call(&mut self, id: &str, name: &str, arguments: &str) {
        let id = if id.is_empty() { format!("{MADE_UP_ID}{}", self.calls.len()) } else { id.to_owned() };
        let arguments = if arguments.trim().is_empty() { "{}" } else { arguments };
        self.calls.push(ToolCall { id, name: name.to_owned(), arguments: arguments.to_owned() });
    }
}

/// Name of the tool by whose arguments a model answers that is held to a schema in this way.
const ANSWER_TOOL: &str = "reedclaw_answer";

/// The schema that an answer must fit, unless the server has refused to hold the model to it.
fn answer_schema(request: &Request, without: Without) -> Option<Value> {
    let schema = request.answer_schema.as_ref().filter(|_| !without.answer_schema)?;
    serde_json::from_str(schema).ok()
}

/// Prefix of the ids that we make up because the server sent none.
const MADE_UP_ID: &str = "reedclaw-";

/// A picture as the URL of its bytes.
fn data_url(image: &Image) -> String {
    format!("data:image/{};base64,{}", image.format(), base64::encode(image.bytes()))
}

/// A number of tokens; zero if the server reported none.
fn tokens(usage: &Value, path: &str) -> u64 {
    usage.pointer(path).and_then(Value::as_u64).unwrap_or(0)
}

/// The cost in dollars that a server reports with its tokens, as gateways to several providers do.
fn cost(usage: &Value) -> Option<Money> {
    let dollars = usage.get("cost").and_then(Value::as_f64);
    dollars.filter(|dollars| dollars.is_finite() && *dollars >= 0.0).map(Money::from_usd)
}

/// The parts that go back as they are: only to the model and protocol that they came from.
fn own_parts<'a>(state: Option<&'a State>, endpoint: &Endpoint) -> Option<&'a [String]> {
    let state = state.filter(|it| it.model == endpoint.name && it.protocol == endpoint.protocol.word())?;
    (!state.parts.is_empty()).then_some(&state.parts)
}

fn raw(text: &str) -> serde_json::Result<Box<RawValue>> {
    RawValue::from_string(text.to_owned())
}

/// A tool's arguments as an object, as most protocols require; empty if the model wrote no object.
fn arguments_object(arguments: &str) -> serde_json::Result<Box<RawValue>> {
    match serde_json::from_str::<Map<String, Value>>(arguments) {
        Ok(_) => raw(arguments),
        Err(_) => raw("{}"),
    }
}

fn schema(tool: &Tool) -> serde_json::Result<Box<RawValue>> {
    match serde_json::from_str::<Map<String, Value>>(&tool.schema) {
        Ok(_) => raw(&tool.schema),
        Err(_) => raw(r#"{"type":"object","properties":{}}"#),
    }
}

/// A server's error object: its words and its codes.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Problem {
    /// Its words, raw.
    pub message: String,
    /// `type`, `code` and `status`, numbers as text.
    pub codes: Vec<String>,
    /// The wait in seconds, if the body names one.
    pub retry_after: Option<String>,
}

impl Problem {
    /// Reads an error body of any of the usual forms; any other text is used as it is.
    pub(super) fn of_body(body: &[u8]) -> Self {
        match serde_json::from_slice::<Value>(body) {
            Ok(value) => {
                let value = value.get(0).unwrap_or(&value);
                Self::of(value.get("error").filter(|error| !error.is_null()).unwrap_or(value))
            }
            Err(_) => {
                let text = String::from_utf8_lossy(body);
                let message = if text.trim_start().starts_with('<') { title(&text) } else { &text };
                Self { message: message.to_owned(), ..Self::default() }
            }
        }
    }

    /// Reads an error object.
    pub(super) fn of(error: &Value) -> Self {
        let text = |key: &str| error.get(key).and_then(Value::as_str).map(str::to_owned);
        let message = ["message", "detail", "error"].into_iter().find_map(text);
        let message = message.or_else(|| error.as_str().map(str::to_owned)).unwrap_or_else(|| error.to_string());
        // Gemini puts it into the details, as "30s".
        let details = error.get("details").and_then(Value::as_array).into_iter().flatten();
        let retry_after = details
            .filter_map(|detail| detail.get("retryDelay")?.as_str()?.strip_suffix('s'))
            .filter_map(|seconds| seconds.parse::<f64>().ok())
            .map(|seconds| format!("{:.0}", seconds.ceil()))
            .next();
        let code = |key: &str| match error.get(key)? {
            Value::String(text) => Some(text.clone()),
            Value::Number(number) => Some(number.to_string()),
            _ => None,
        };
        Self { message, codes: ["type", "code", "status"].into_iter().filter_map(code).collect(), retry_after }
    }

    /// Returns the first of its codes that is an HTTP status for a failure of the server.
    pub(super) fn server_status(&self) -> Option<u16> {
        self.codes.iter().filter_map(|code| code.parse().ok()).find(|status| (500..600).contains(status))
    }

    /// Returns whether one of these codes is among its own.
    pub(super) fn has_code(&self, codes: &[&str]) -> bool {
        self.codes.iter().any(|code| codes.contains(&code.as_str()))
    }

    /// Returns whether the error means that the conversation is longer than the model's context.
    pub(super) fn is_context_overflow(&self) -> bool {
        const CODES: [&str; 3] =
            ["exceed_context_size_error", "context_length_exceeded", "model_context_window_exceeded"];
        const WORDS: [&str; 6] = [
            "context size",
            "context length",
            "context window",
            "prompt is too long",
            "input is too long",
            "exceeds the maximum number of tokens",
        ];
        let message = self.message.to_ascii_lowercase();
        self.has_code(&CODES) || WORDS.iter().any(|words| message.contains(words))
    }
}

/// The title of a web page: a proxy's error page has its message there.
fn title(page: &str) -> &str {
    let title = page.split_once("<title>").and_then(|(_, rest)| rest.split_once("</title>"));
    title.map_or("", |(title, _)| title)
}
