//! The OpenAI chat completions protocol as data: what is sent and what is read. Unknown fields are ignored, absent ones are
//! allowed, because servers differ.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::proto::{Message, Role};

/// The body of a request.
#[derive(Serialize)]
pub(super) struct Request<'a> {
    model: &'a str,
    messages: Vec<RequestMessage<'a>>,
    stream: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    temperature: Option<f64>,
}

#[derive(Serialize)]
struct RequestMessage<'a> {
    role: &'static str,
    content: &'a str,
}

impl<'a> Request<'a> {
    /// Makes the body for a conversation.
    pub(super) fn new(model: &'a str, messages: &'a [Message], stream: bool, temperature: Option<f64>) -> Self {
        let messages = messages
            .iter()
            .map(|message| RequestMessage { role: role(message.role), content: &message.content })
            .collect();
        Self { model, messages, stream, temperature }
    }
}

fn role(role: Role) -> &'static str {
    match role {
        Role::System => "system",
        Role::User => "user",
        Role::Assistant => "assistant",
    }
}

/// A whole answer or one piece of a streamed one.
#[derive(Debug, Deserialize)]
pub(super) struct Chunk {
    choices: Option<Vec<Choice>>,
    error: Option<Value>,
}

#[derive(Debug, Deserialize)]
struct Choice {
    delta: Option<Said>,
    message: Option<Said>,
    finish_reason: Option<String>,
}

#[derive(Debug, Deserialize)]
struct Said {
    content: Option<Content>,
}

#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum Content {
    Text(String),
    Parts(Vec<Part>),
}

#[derive(Debug, Deserialize)]
struct Part {
    text: Option<String>,
}

impl Chunk {
    /// Takes the error out, where the server put one in.
    pub(super) fn error(&self) -> Option<Problem> {
        self.error.as_ref().map(Problem::of)
    }

    /// Tells whether it has the form of an answer at all.
    pub(super) fn is_answer(&self) -> bool {
        self.choices.is_some()
    }

    /// Adds the first choice's text to `text` and gives its finish reason.
    pub(super) fn take(self, text: &mut String) -> Option<String> {
        let choice = self.choices?.into_iter().next()?;
        match choice.delta.or(choice.message).and_then(|said| said.content) {
            Some(Content::Text(piece)) => text.push_str(&piece),
            Some(Content::Parts(parts)) => {
                parts.into_iter().filter_map(|part| part.text).for_each(|it| text.push_str(&it))
            }
            None => {}
        }
        choice.finish_reason
    }
}

/// A server's error object: its words and the codes that tell what it is.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Problem {
    /// Its words, raw.
    pub message: String,
    /// `type` and `code`, where they are text.
    pub codes: Vec<String>,
}

impl Problem {
    /// Reads an error body of any of the usual forms; text that is none of them is taken as it is.
    pub(super) fn of_body(body: &[u8]) -> Self {
        match serde_json::from_slice::<Value>(body) {
            Ok(value) => {
                let value = value.get(0).unwrap_or(&value);
                Self::of(value.get("error").unwrap_or(value))
            }
            Err(_) => {
                let text = String::from_utf8_lossy(body);
                let message = if text.trim_start().starts_with('<') { title(&text) } else { &text };
                Self { message: message.to_owned(), codes: Vec::new() }
            }
        }
    }

    /// Reads an error object.
    pub(super) fn of(error: &Value) -> Self {
        let text = |key: &str| error.get(key).and_then(Value::as_str).map(str::to_owned);
        let message = ["message", "detail", "error"].into_iter().find_map(text);
        let message = message.or_else(|| error.as_str().map(str::to_owned)).unwrap_or_else(|| error.to_string());
        Self { message, codes: ["type", "code"].into_iter().filter_map(text).collect() }
    }

    /// Tells whether it says that the conversation is longer than the model's context.
    pub(super) fn is_context_overflow(&self) -> bool {
        const CODES: [&str; 2] = ["exceed_context_size_error", "context_length_exceeded"];
        const WORDS: [&str; 3] = ["context size", "context length", "context window"];
        let message = self.message.to_ascii_lowercase();
        self.codes.iter().any(|code| CODES.contains(&code.as_str()))
            || WORDS.iter().any(|words| message.contains(words))
    }
}

/// The title of a web page: a proxy's error page says there what it has to say.
fn title(page: &str) -> &str {
    let title = page.split_once("<title>").and_then(|(_, rest)| rest.split_once("</title>"));
    title.map_or("", |(title, _)| title)
}
