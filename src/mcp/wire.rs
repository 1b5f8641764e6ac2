//! The file of what a server offered, as it lies on the disk. An unknown or broken file counts as none.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{Era, Server};
use crate::proto::served::{Definition, Link, Manifest, PromptSpec};

/// The file's content.
#[derive(Serialize, Deserialize)]
pub(super) struct Record {
    seen_ms: i64,
    pub(super) place: String,
    discover: bool,
    version: String,
    title: String,
    instructions: String,
    tools: Vec<Tool>,
    resources: Vec<Resource>,
    prompts: Vec<Prompt>,
    left_out: Vec<String>,
}

/// The part of the file that says which version the server spoke.
#[derive(Deserialize)]
pub(super) struct Spoken {
    pub(super) seen_ms: i64,
    pub(super) place: String,
    discover: bool,
}

impl Spoken {
    pub(super) fn era(&self) -> Era {
        if self.discover { Era::Discover } else { Era::Initialize }
    }
}

#[derive(Serialize, Deserialize)]
struct Tool {
    name: String,
    title: String,
    description: String,
    input: Value,
    output: Value,
    annotations: Value,
}

#[derive(Serialize, Deserialize)]
struct Resource {
    uri: String,
    name: String,
    description: String,
    media_type: String,
}

#[derive(Serialize, Deserialize)]
struct Prompt {
    name: String,
    description: String,
    arguments: Vec<(String, bool)>,
}

impl Record {
    pub(super) fn new(server: &Server, era: Era, manifest: &Manifest, seen_ms: i64) -> Self {
        let Manifest { version, title, instructions, tools, resources, prompts, left_out } = manifest.clone();
        Self {
            seen_ms,
            place: server.place.line(),
            discover: era == Era::Discover,
            version,
            title,
            instructions,
            tools: tools.into_iter().map(Tool::from).collect(),
            resources: resources.into_iter().map(Resource::from).collect(),
            prompts: prompts.into_iter().map(Prompt::from).collect(),
            left_out,
        }
    }

    pub(super) fn into_manifest(self) -> Manifest {
        Manifest {
            version: self.version,
            title: self.title,
            instructions: self.instructions,
            tools: self.tools.into_iter().map(Definition::from).collect(),
            resources: self.resources.into_iter().map(Link::from).collect(),
            prompts: self.prompts.into_iter().map(PromptSpec::from).collect(),
            left_out: self.left_out,
        }
    }
}

macro_rules! both_ways {
    ($ours:ident, $theirs:ident, $($field:ident),+) => {
        impl From<$theirs> for $ours {
            fn from(from: $theirs) -> Self {
                let $theirs { $($field),+ } = from;
                Self { $($field),+ }
            }
        }
        impl From<$ours> for $theirs {
            fn from(from: $ours) -> Self {
                let $ours { $($field),+ } = from;
                Self { $($field),+ }
            }
        }
    };
}

both_ways!(Tool, Definition, name, title, description, input, output, annotations);
both_ways!(Resource, Link, uri, name, description, media_type);
both_ways!(Prompt, PromptSpec, name, description, arguments);
