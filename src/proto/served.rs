//! A server of tools, resources, and prompts (Model Context Protocol), as the rooms above exchange it: plain data. Every
//! text in it is the server's own; whoever shows it escapes it.

use serde_json::Value;

/// Everything that a server offers, fetched as a whole.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Manifest {
    /// The version of the protocol that was agreed on, such as `2025-11-25`.
    pub version: String,
    /// The server's own name and version, for lists.
    pub title: String,
    /// How the server wants to be used.
    pub instructions: String,
    /// Its tools, in its order.
    pub tools: Vec<Definition>,
    /// Its resources.
    pub resources: Vec<Link>,
    /// Its prompts.
    pub prompts: Vec<PromptSpec>,
    /// Parts of the lists that were left out, in words, because they exceed a limit or can't be read.
    pub left_out: Vec<String>,
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
    pub input: Value,
    /// The JSON Schema of its structured result; null if it declares none.
    pub output: Value,
    /// Hints such as `readOnlyHint`; null if there are none. They never lower a risk.
    pub annotations: Value,
}

impl Definition {
    /// Whether a boolean hint is set.
    #[must_use]
    pub fn hint(&self, name: &str) -> bool {
        self.annotations.get(name).and_then(Value::as_bool).unwrap_or(false)
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

/// Whether a person has seen a tool as it is now.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PinStanding {
    /// A person allowed exactly this definition from exactly this server.
    Pinned,
    /// A person allowed another definition of this name.
    Changed,
    /// Nobody has allowed a tool of this name.
    New,
}

/// How far a server's tools can reach.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Reach {
    /// Its program runs in the sandbox, without a network.
    Held,
    /// Its program runs in the sandbox, with the network.
    Network,
    /// Its program runs outside any sandbox.
    Free,
    /// It runs on another machine.
    Remote,
}
