//! A request to a model and its response, in one form for every provider: plain data. Knows no wire.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::endpoint::Secret;
use crate::proto;

pub use crate::proto::{Image, Task, Usage};

/// Characters as long as a picture: providers count 700 to 1,600 tokens for one of usual size.
const IMAGE_CHARS: u64 = 4 * 1_200;

/// One question with its whole context.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Request {
    /// The system prompt, if there is one.
    pub system: Option<String>,
    /// The conversation, oldest first; the last item is the one to be answered.
    pub messages: Vec<Item>,
    /// The tools that the model may call.
    /// They are sent in this order: a provider keeps the beginning of a request, and what is added comes last.
    pub tools: Vec<Tool>,
    /// The model's name for the server, if it isn't the configured one.
    pub model: Option<String>,
    /// The sampling temperature, if it isn't the configured one.
    pub temperature: Option<f64>,
    /// The limit of the answer in tokens, if it isn't the configured one.
    pub max_output_tokens: Option<u64>,
    /// Facts by which a router chooses; never sent.
    pub metadata: Metadata,
    /// The JSON schema that the answer is to fit, as text; servers that can hold the model to it do.
    pub answer_schema: Option<String>,
    /// The value of W3C's header `traceparent`, if the request belongs to a trace.
    pub trace: Option<String>,
    /// Pictures; each goes with the person's messages that hold its mark.
    pub images: Vec<Arc<Image>>,
    /// `true` if the answer comes in one piece.
    pub whole: bool,
}

/// One step of a conversation.
#[derive(Clone, Debug, PartialEq)]
pub enum Item {
    /// Instructions inside the conversation.
    System(String),
    /// The person's words.
    User(String),
    /// The model's answer.
    Assistant {
        /// Its words.
        text: String,
        /// The tools that it called.
        calls: Vec<ToolCall>,
        /// Data that its provider wants back unchanged.
        state: Option<State>,
    },
    /// The result of a tool.
    Tool(ToolResult),
}

/// A tool that a model may call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tool {
    /// Its name.
    pub name: String,
    /// Its purpose, for the model.
    pub description: String,
    /// The JSON schema of its arguments, as text; an object.
    pub schema: String,
}

/// A model's request to call a tool.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ToolCall {
    /// The id that its result refers to.
    pub id: String,
    /// The tool.
    pub name: String,
    /// The arguments, JSON as the model wrote it; `{}` if it wrote none.
    pub arguments: String,
}

/// A tool's result for a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToolResult {
    /// The call.
    pub id: String,
    /// The tool.
    pub name: String,
    /// The text of the result.
    pub content: String,
    /// `true` if it failed.
    pub is_error: bool,
}

/// An answer's own parts as its provider sent them (signed thoughts, reasoning items, signatures), which must go back
/// unchanged. Only the same model of the same protocol gets them; others get text and calls.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct State {
    /// The name of the model in the config.
    pub model: String,
    /// The protocol's word, as in `models.NAME.kind`.
    pub protocol: &'static str,
    /// The parts in order, each as the JSON text that came.
    pub parts: Vec<String>,
}

/// The purpose of a request; a router chooses by it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Metadata {
    /// The kind of work.
    pub task: Task,
    /// Free words; a router's rule for one of them comes before the task's.
    pub hints: BTreeSet<String>,
}

/// A whole answer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Response {
    /// The name in the config of the model that answered.
    pub model: String,
    /// Its text, raw.
    pub text: String,
    /// The tools that it wants called, in order.
    pub calls: Vec<ToolCall>,
    /// Its tokens, if the server reported them.
    pub usage: Option<Usage>,
    /// Reason why it ended.
    pub stop: Stop,
    /// Data for the next request, if the provider wants some back.
    pub state: Option<State>,
    /// The body as it came, at most 4 MiB.
    pub raw: String,
}

/// Reason why an answer ended.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stop {
    /// The reason.
    pub reason: StopReason,
    /// The server's own words; one clean line, empty if there are none.
    pub server_text: String,
}

/// The reasons for which answers end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum StopReason {
    /// The model has finished.
    #[default]
    Done,
    /// The limit of tokens was reached.
    Length,
    /// Waits for tools.
    ToolCalls,
    /// A filter of the provider stopped it, or the model refused.
    Filtered,
    /// The context is full.
    ContextFull,
    /// Paused: the model continues when its answer is sent back unchanged.
    Paused,
    /// Another reason, in the server's word.
    Other,
}

impl Request {
    /// Makes a request of a conversation whose first messages may be instructions.
    #[must_use]
    pub fn of(messages: &[proto::Message]) -> Self {
        let mut request = Self::default();
        for message in messages {
            let text = message.content.clone();
            request.messages.push(match message.role {
                proto::Role::System if request.messages.is_empty() => {
                    request.system = Some(request.system.map_or(text.clone(), |before| format!("{before}\n\n{text}")));
                    continue;
                }
                proto::Role::System => Item::System(text),
                proto::Role::User => Item::User(text),
                proto::Role::Assistant => Item::Assistant { text, calls: Vec::new(), state: None },
            });
        }
        request
    }

    /// Returns the request without a key that it repeats; `None` if it doesn't.
    pub(super) fn without(&self, key: &Secret) -> Option<Self> {
        const LEAST_BYTES: usize = 6;
        let key = Some(key.reveal()).filter(|key| key.len() >= LEAST_BYTES)?;
        let is_in = |text: &String| memchr::memmem::find(text.as_bytes(), key.as_bytes()).is_some();
        let mut request = self.clone();
        let mut has_changed = false;
        let texts = request.messages.iter_mut().map(|item| match item {
            Item::System(text) | Item::User(text) | Item::Assistant { text, .. } => text,
            Item::Tool(result) => &mut result.content,
        });
        for text in request.system.iter_mut().chain(texts).filter(|text| is_in(text)) {
            *text = text.replace(key, "***");
            has_changed = true;
        }
        has_changed.then_some(request)
    }

    /// All texts of the request that the model reads.
    pub(super) fn texts(&self) -> Vec<String> {
        let of_item = |item: &Item| match item {
            Item::System(text) | Item::User(text) => text.clone(),
            Item::Assistant { text, calls, .. } => {
                let calls = calls.iter().map(|call| format!("{} {}", call.name, call.arguments));
                std::iter::once(text.clone()).chain(calls).collect::<Vec<_>>().join("\n")
            }
            Item::Tool(result) => result.content.clone(),
        };
        let tools = self.tools.iter().map(|tool| format!("{} {} {}", tool.name, tool.description, tool.schema));
        self.system.iter().cloned().chain(self.messages.iter().map(of_item)).chain(tools).collect()
    }

    /// The length in characters and in bytes.
    #[must_use]
    pub fn length(&self) -> (u64, u64) {
        let texts = self.texts();
        let chars: u64 = texts.iter().map(|text| text.chars().count() as u64).sum();
        let images = self.images.len() as u64 * IMAGE_CHARS;
        (chars + images, texts.iter().map(|text| text.len() as u64).sum::<u64>() + images)
    }

    /// The pictures that go with a text of the person.
    pub(super) fn images_in(&self, text: &str) -> impl Iterator<Item = &Image> {
        self.images.iter().map(AsRef::as_ref).filter(move |image| text.contains(&image.mark()))
    }

    /// Returns the person's last message.
    #[must_use]
    pub fn question(&self) -> &str {
        let user = |item: &'_ Item| matches!(item, Item::User(_));
        match self.messages.iter().rev().find(|item| user(item)) {
            Some(Item::User(text)) => text,
            _ => "",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_leaves_no_request() {
        let message = |role, content: &str| proto::Message { role, content: content.to_owned() };
        let request = Request::of(&[message(proto::Role::System, "s"), message(proto::Role::User, "is it k-12345?")]);
        let hidden = request.without(&Secret::new("k-12345")).expect("it stands there");
        assert_eq!((hidden.question(), hidden.system.as_deref()), ("is it ***?", Some("s")));
        assert_eq!((request.without(&Secret::new("k-99999")), request.without(&Secret::new("is"))), (None, None));
    }

    #[test]
    fn leading_instructions_become_the_system_prompt() {
        let message = |role, content: &str| proto::Message { role, content: content.to_owned() };
        use proto::Role::{Assistant, System, User};
        let request = Request::of(&[
            message(System, "a"),
            message(System, "b"),
            message(User, "q"),
            message(System, "later"),
            message(Assistant, "x"),
        ]);
        assert_eq!(request.system.as_deref(), Some("a\n\nb"));
        assert_eq!(request.messages[..2], [Item::User("q".into()), Item::System("later".into())]);
        assert_eq!(request.question(), "q");
    }
}
