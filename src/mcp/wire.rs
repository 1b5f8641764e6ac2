//! The file with a server's offer. An unknown or broken file is ignored.

use std::borrow::Cow;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::{Era, Server};
use crate::proto::served::{Definition, Json, Link, Manifest, PromptSpec};

/// The file's content.
#[derive(Serialize, Deserialize)]
pub(super) struct Record<'m> {
    seen_ms: i64,
    pub(super) place: String,
    discover: bool,
    version: Cow<'m, str>,
    title: Cow<'m, str>,
    instructions: Cow<'m, str>,
    tools: Vec<Tool<'m>>,
    resources: Vec<Resource<'m>>,
    prompts: Vec<Prompt<'m>>,
    left_out: Cow<'m, [String]>,
}

/// The part of the file with the version that the server spoke.
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
struct Tool<'m> {
    name: Cow<'m, str>,
    title: Cow<'m, str>,
    description: Cow<'m, str>,
    input: Cow<'m, Json>,
    output: Cow<'m, Json>,
    annotations: Cow<'m, Json>,
}

#[derive(Serialize, Deserialize)]
struct Resource<'m> {
    uri: Cow<'m, str>,
    name: Cow<'m, str>,
    description: Cow<'m, str>,
    media_type: Cow<'m, str>,
}

#[derive(Serialize, Deserialize)]
struct Prompt<'m> {
    name: Cow<'m, str>,
    description: Cow<'m, str>,
    arguments: Cow<'m, [(String, bool)]>,
}

impl<'m> Record<'m> {
    pub(super) fn new(server: &Server, era: Era, manifest: &'m Manifest, seen_ms: i64) -> Self {
        let Manifest { version, title, instructions, tools, resources, prompts, left_out } = manifest;
        Self {
            seen_ms,
            place: server.place.line(),
            discover: era == Era::Discover,
            version: version.into(),
            title: title.into(),
            instructions: instructions.into(),
            tools: tools.iter().map(|tool| Tool::from(&**tool)).collect(),
            resources: resources.iter().map(Resource::from).collect(),
            prompts: prompts.iter().map(Prompt::from).collect(),
            left_out: left_out.into(),
        }
    }

    pub(super) fn into_manifest(self) -> Manifest {
        Manifest {
            version: self.version.into_owned(),
            title: self.title.into_owned(),
            instructions: self.instructions.into_owned(),
            tools: self.tools.into_iter().map(|tool| Arc::new(Definition::from(tool))).collect(),
            resources: self.resources.into_iter().map(Link::from).collect(),
            prompts: self.prompts.into_iter().map(PromptSpec::from).collect(),
            left_out: self.left_out.into_owned(),
        }
    }
}

macro_rules! both_ways {
    ($ours:ident, $theirs:ident, $($field:ident),+) => {
        impl<'m> From<&'m $theirs> for $ours<'m> {
            fn from(from: &'m $theirs) -> Self {
                let $theirs { $($field),+ } = from;
                Self { $($field: Cow::Borrowed($field)),+ }
            }
        }
        impl From<$ours<'_>> for $theirs {
            fn from(from: $ours<'_>) -> Self {
                let $ours { $($field),+ } = from;
                Self { $($field: $field.into_owned()),+ }
            }
        }
    };
}

both_ways!(Tool, Definition, name, title, description, input, output, annotations);
both_ways!(Resource, Link, uri, name, description, media_type);
both_ways!(Prompt, PromptSpec, name, description, arguments);
