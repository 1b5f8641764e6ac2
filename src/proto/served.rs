//! A server of tools, resources, and prompts (Model Context Protocol), as the rooms above exchange it: plain data. Every text in
//! it comes from the server and must be escaped when it is shown.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Map, Value};

/// Everything that a server offers, fetched as a whole.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Manifest {
    /// The version of the protocol that was agreed on, such as `2025-11-25`.
    pub version: String,
    /// The server's own name and version, for lists.
    pub title: String,
    /// The server's instructions for its use.
    pub instructions: String,
    /// Its tools, in its order; shared, since lists of thousands are made from them.
    pub tools: Vec<Arc<Definition>>,
    /// Its resources.
    pub resources: Vec<Link>,
    /// Its prompts.
    pub prompts: Vec<PromptSpec>,
    /// Parts of the lists that were left out, in words, because they exceed a limit or can't be read.
    pub left_out: Vec<String>,
}

/// A JSON value as the text that `serde_json` writes for it, with sorted names. For a schema, that takes a fifth of the value's
/// memory.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Json(Box<RawValue>);

impl Json {
    /// The value.
    #[must_use]
    pub fn value(&self) -> Value {
        serde_json::from_str(self.text()).unwrap_or_default()
    }

    /// Its text.
    #[must_use]
    pub fn text(&self) -> &str {
        self.0.get()
    }

    /// Returns whether it is null.
    #[must_use]
    pub fn is_null(&self) -> bool {
        self.text() == "null"
    }
}

impl From<&Value> for Json {
    fn from(value: &Value) -> Self {
        Self(to_raw_value(value).unwrap_or_default())
    }
}

impl From<&Map<String, Value>> for Json {
    fn from(object: &Map<String, Value>) -> Self {
        Self(to_raw_value(object).unwrap_or_default())
    }
}

impl Default for Json {
    fn default() -> Self {
        Self::from(&Value::Null)
    }
}

impl PartialEq for Json {
    fn eq(&self, other: &Self) -> bool {
        self.text() == other.text()
    }
}

/// A tool, as its server defines it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Definition {
    /// Its name at the server.
    pub name: String,
    /// A title for people; may be empty.
    pub title: String,
    /// The description for the model; may be empty.
    pub description: String,
    /// The JSON Schema of its arguments.
    pub input: Json,
    /// The JSON Schema of its structured result; null if it declares none.
    pub output: Json,
    /// Hints such as `readOnlyHint`; null if there are none. They never lower a risk.
    pub annotations: Json,
}

impl Definition {
    /// Returns whether a boolean hint is set.
    #[must_use]
    pub fn hint(&self, name: &str) -> bool {
        self.annotations.value().get(name).and_then(Value::as_bool).unwrap_or(false)
    }
}

/// A resource in a list, or a link to one in a result.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Link {
    /// Its address at the server.
    pub uri: String,
    /// Its name.
    pub name: String,
    /// Its description; may be empty.
    pub description: String,
    /// Its media type; may be empty.
    pub media_type: String,
}

/// A prompt that a server offers to people.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PromptSpec {
    /// Its name.
    pub name: String,
    /// Its description; may be empty.
    pub description: String,
    /// The names of its arguments, each with whether it is required.
    pub arguments: Vec<(String, bool)>,
}

/// The state of a person's approval of a tool's definition.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PinStanding {
    /// A person allowed exactly this definition from exactly this server.
    Pinned,
    /// A person allowed another definition of this name.
    Changed,
    /// No tool of this name has been allowed.
    New,
}

/// The reach of a server's tools.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Reach {
    /// The program runs in the sandbox, without a network.
    Held,
    /// The program runs in the sandbox, with the network.
    Network,
    /// The program runs outside any sandbox.
    Free,
    /// The tool runs on another machine.
    Remote,
}

impl Reach {
    /// The place where a tool runs, for a person.
    #[must_use]
    pub fn place(self) -> &'static str {
        match self {
            Self::Held => "in the sandbox",
            Self::Network => "in the sandbox, with the network",
            Self::Free => "outside any sandbox",
            Self::Remote => "on another machine",
        }
    }
}

/// A field of a form that a server wants filled in.
#[derive(Clone, Debug, PartialEq)]
pub struct Field {
    /// Its name in the answer.
    pub name: String,
    /// Its name for people; may be empty.
    pub title: String,
    /// Its subject; may be empty.
    pub description: String,
    /// The kind of its value.
    pub kind: FieldKind,
    /// `true` if the form can't be sent without it.
    pub is_required: bool,
    /// `true` if it asks for a secret, which must not be typed into a form.
    pub is_secret: bool,
    /// The default value.
    pub default: Option<Value>,
}

/// The kind of a field's value.
#[derive(Clone, Debug, PartialEq)]
pub enum FieldKind {
    /// A text, with limits on its length in characters.
    Text {
        /// The shortest.
        least: Option<usize>,
        /// The longest.
        most: Option<usize>,
        /// `email`, `uri`, `date`, or `date-time`; may be empty.
        format: String,
    },
    /// A number.
    Number {
        /// `true` if it allows no fraction.
        is_whole: bool,
        /// The smallest.
        least: Option<f64>,
        /// The largest.
        most: Option<f64>,
    },
    /// Yes or no.
    Bool,
    /// One of these values, each with its words for people.
    One(Vec<(String, String)>),
    /// Any of these values, each with its words for people.
    Several(Vec<(String, String)>),
}

/// A person's answer to a form.
#[derive(Clone, Debug, PartialEq)]
pub enum FormAnswer {
    /// Sends it with these values.
    Sent(serde_json::Map<String, Value>),
    /// Refuses to fill it in.
    Declined,
    /// Cancels without an answer.
    Cancelled,
}

/// Answers questions of a server while one of its tools works. The default answer is to decline.
pub trait Asks {
    /// Fills in a form.
    fn form(&mut self, _server: &str, _message: &str, _fields: &[Field]) -> FormAnswer {
        FormAnswer::Declined
    }

    /// Returns whether the person agrees to open an address that a server names.
    fn link(&mut self, _server: &str, _message: &str, _url: &str) -> bool {
        false
    }

    /// Receives the progress of a tool.
    fn progress(&mut self, _message: &str, _share: Option<f64>) {}
}

/// Declines every question, for channels without a person.
#[derive(Clone, Copy, Debug, Default)]
pub struct Unasked;

impl Asks for Unasked {}

/// The user's settings for logins at a server (OAuth).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OAuth {
    /// `true` if logins are tried at all.
    pub is_on: bool,
    /// The client id under which the user has registered this program at the server.
    pub client_id: Option<String>,
    /// The address of a document that describes this program.
    pub client_id_url: Option<String>,
    /// The permissions to request; if empty, those that the server names.
    pub scopes: Vec<String>,
    /// The port of this machine to which the browser returns; 0 means any free one.
    pub port: u16,
}

impl Default for OAuth {
    fn default() -> Self {
        Self { is_on: true, client_id: None, client_id_url: None, scopes: Vec::new(), port: 0 }
    }
}
