//! Tools from third parties: a directory with a manifest and programs. A person allows each plugin with exactly its present
//! files; a plugin that has changed since is off. Must not know how the person is asked, nor how a program is confined.

mod folder;
mod manifest;
#[cfg(test)]
mod tests;

use std::path::PathBuf;

use serde_json::{Value, json};

use super::{Copied, Launcher, Offer, Place, Plan, Spec, Terms, Tool, Work};
use crate::gate::Permit;
use crate::proto::action::Action;
use crate::proto::tool::{Outcome, ToolError};
use crate::render::strip_controls;
use crate::sandbox::View;
use crate::tools::running::program::{self, Bounds, Ended};

pub use folder::{Bundle, PluginError, PluginState, Plugins, Standing};
pub use manifest::{Manifest, ToolEntry};

/// The code of an error that a program has printed.
const OWN_ERROR: &str = "plugin";
/// Bytes that a program may print.
const OUTPUT_BYTES_MAX: usize = 1024 * 1024;

/// One tool of a plugin.
pub struct PluginTool {
    plugin: String,
    version: String,
    directory: PathBuf,
    /// The hash that the person allowed.
    sha256: String,
    has_network: bool,
    entry: ToolEntry,
    launcher: Launcher,
}

impl PluginTool {
    /// Makes the tools of a plugin that a person has allowed; none of another.
    pub fn of(state: &PluginState, launcher: &Launcher) -> Vec<Self> {
        let Standing::Allowed(bundle) = &state.standing else { return Vec::new() };
        let manifest = bundle.manifest();
        let tool = |entry: &ToolEntry| Self {
            plugin: manifest.name.clone(),
            version: manifest.version.clone(),
            directory: state.directory.clone(),
            sha256: bundle.sha256(),
            has_network: manifest.has_network(),
            entry: entry.clone(),
            launcher: launcher.clone(),
        };
        manifest.tools.iter().map(tool).collect()
    }
}

impl Tool for PluginTool {
    fn spec(&self) -> Spec {
        Spec {
            name: self.entry.full_name.clone(),
            aliases: &[],
            description: self.entry.shown_description(&self.plugin),
            schema: self.entry.schema.clone(),
        }
    }

    fn offer(&self) -> Offer {
        Offer::Core
    }

    fn plan(&self, arguments: &Value, _: Place<'_>) -> Result<Plan, ToolError> {
        let network = if self.has_network { ", with the network" } else { "" };
        let preview = format!(
            "the plugin {} {} runs {}{network}\n{arguments:#}",
            self.plugin,
            self.version,
            self.entry.command.join(" ")
        );
        let action = Action::External { name: self.entry.full_name.clone() };
        Ok(Plan { preview, ..Plan::of(action) })
    }

    fn run(&mut self, permit: &Permit, work: &mut Work<'_>) -> Outcome {
        // The plugin that the person allowed, and not the one that may be there now.
        match Bundle::read(&self.directory) {
            Ok(bundle) if bundle.sha256() == self.sha256 => {}
            _ => {
                let message = format!("the plugin {} has changed since the user allowed it", self.plugin);
                return ToolError::new("changed", message, "the user can allow it again: reedclaw plugin install")
                    .into();
            }
        }
        let (program, arguments) = match self.entry.command.split_first() {
            Some((program, arguments)) => (self.directory.join(program), arguments),
            None => return ToolError::new("internal", "it has no command", "").into(),
        };
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        let mut terms = Terms { network: self.has_network, ..Terms::default() };
        // Its changes belong to the turn, as a command's do.
        let name = format!("plugin {}", self.entry.full_name);
        let layer = match self.launcher.is_on_bench().then(|| self.launcher.layer(Some(&name))).transpose() {
            Ok(layer) => layer,
            Err(why) => return ToolError::new("sandbox", why, "tell the user").into(),
        };
        terms.view = layer.clone().map_or(terms.view, View::Copy);
        let command = match self.launcher.command(&program.display().to_string(), &arguments, &terms) {
            Ok(command) => command,
            Err(why) => return ToolError::new("sandbox", why, "tell the user").into(),
        };
        let own_name = &self.entry.full_name[self.plugin.len() + 1..];
        let input = json!({"tool": own_name, "arguments": permit.arguments(), "workspace": work.place.tree.path()});
        let bounds = Bounds { time: work.limits.tool, output_bytes_max: OUTPUT_BYTES_MAX, is_stopped: work.is_stopped };
        let ran = program::run(command, input.to_string().into_bytes(), bounds);
        work.copied = layer.map(|layer| Copied { command: name, layer, refused: None });
        match ran {
            Ok(ended) => ended_outcome(ended),
            Err(error) => error.into(),
        }
    }
}

/// Reads what a program printed. If it failed and printed an error of its own, that is the reason.
fn ended_outcome(ended: Ended) -> Outcome {
    let of_failed = ended.failure.is_some().then(|| outcome(&String::from_utf8_lossy(&ended.output)));
    let own = of_failed.filter(|it| it.error.as_ref().is_some_and(|error| error.code == OWN_ERROR));
    match (own, ended.text()) {
        (Some(own), _) => Outcome { success: false, ..own },
        (None, Ok(printed)) => outcome(&printed),
        (None, Err(error)) => error.into(),
    }
}

/// Reads what a program printed: `{"output": …, "success"?, "error"?, "metadata"?}`, or any JSON, which is the output then.
fn outcome(printed: &str) -> Outcome {
    let value: Value = match serde_json::from_str(printed.trim()) {
        Ok(value) => value,
        Err(error) => {
            return ToolError::new("bad-output", format!("what it printed is no JSON: {error}"), "").into();
        }
    };
    let text = |value: &Value| match value {
        Value::String(text) => strip_controls(text.as_bytes()),
        Value::Null => String::new(),
        other => other.to_string(),
    };
    let fields = value.as_object().filter(|it| it.contains_key("output") || it.contains_key("error"));
    let Some(fields) = fields else { return Outcome::of(text(&value)) };
    let mut outcome = Outcome::of(fields.get("output").map(text).unwrap_or_default());
    if let Some(error) = fields.get("error").filter(|error| !error.is_null()) {
        let message = error.get("message").unwrap_or(error);
        outcome.error = Some(ToolError::new(OWN_ERROR, text(message), ""));
    }
    outcome.success = fields.get("success").and_then(Value::as_bool).unwrap_or(outcome.error.is_none());
    if let Some(Value::Object(metadata)) = fields.get("metadata") {
        outcome.metadata = metadata.clone();
    }
    outcome
}
