//! Tools that lie in a repository (`tools/NAME.luau`): Luau without processes, disk or network. Such a tool runs only if the
//! person has allowed exactly its text; it changes files by the same edits as other tools, all of them or none. Each call
//! is tried out first, and the gate judges the paths that it really changes. It must not know sessions.

mod api;
mod grants;
mod json;
mod source;
#[cfg(test)]
mod tests;
mod trial;

use std::path::PathBuf;
use std::sync::Arc;

use globset::{GlobBuilder, GlobSet, GlobSetBuilder};
use mlua::{Function, Table, Value as LuaValue};
use serde_json::Value;

use super::edit::Whole;
use super::{Offer, Place, Plan, Reads, Spec, Tool, Work};
use crate::files::{Journals, Tree};
use crate::gate::Permit;
use crate::lua::{RunError, Sandbox, TOOL_LOAD_TIME, TOOL_TIME, TimeLimit};
use crate::proto::action::Action;
use crate::proto::tool::{Outcome, ToolError};
use crate::schema::Schema;

pub use api::MayRead;
pub use grants::{Grants, Standing};
pub use source::{FOLDER, Source, names, tests_of};
pub use trial::Tested;

/// Bytes of a result.
const RESULT_BYTES_MAX: usize = 256 * 1024;
/// Characters of a description.
const DESCRIPTION_CHARS_MAX: usize = 2_000;
/// Patterns of paths that a tool may write.
const WRITES_MAX: usize = 50;
/// Version of the functions that a tool gets.
const API: i64 = 1;

/// A tool of a repository.
pub struct Script {
    source: Source,
    spec: Spec,
    writes: GlobSet,
    patterns: Vec<String>,
    may_read: Arc<MayRead>,
    journals: Journals,
    reads: Reads,
    time: TimeLimit,
}

/// The outcome of a trial call.
struct Tried {
    result: String,
    log: Vec<String>,
    /// None if it changes nothing.
    files: Option<Whole>,
}

impl Script {
    /// Reads a tool's description of itself.
    ///
    /// # Errors
    /// Why it can't be used: an error with its line, a wrong member, a schema that isn't understood.
    pub fn load(source: Source, may_read: Arc<MayRead>, journals: Journals, reads: Reads) -> Result<Self, String> {
        let sandbox = sandbox_of(&source)?;
        let (spec, patterns) = sandbox
            .within(TOOL_LOAD_TIME, || {
                let table = table_of(&sandbox, source.text())?;
                Ok(described(&source, &table))
            })
            .map_err(with_line)??;
        let mut writes = GlobSetBuilder::new();
        for pattern in &patterns {
            let glob = GlobBuilder::new(pattern).literal_separator(true).build();
            writes.add(glob.map_err(|error| format!("writes: {error}"))?);
        }
        let writes = writes.build().map_err(|error| format!("writes: {error}"))?;
        Schema::new(spec.schema.clone()).map_err(|why| format!("schema: {why}"))?;
        Ok(Self { source, spec, writes, patterns, may_read, journals, reads, time: TOOL_TIME })
    }

    /// The patterns of the paths that it may write.
    #[must_use]
    pub fn writes(&self) -> &[String] {
        &self.patterns
    }

    /// Tries a call out; nothing is written.
    fn tried(&self, arguments: &Value, tree: &dyn Tree) -> Result<Tried, ToolError> {
        let files = api::Files::new(tree, &self.writes, &*self.may_read);
        let result = self.execute(arguments, &files)?.to_string();
        let (changed, log) = files.done();
        let name = |path: PathBuf| path.into_os_string().into_string().unwrap_or_default();
        let changed: Vec<_> = changed.into_iter().map(|(path, new)| (name(path), new)).collect();
        let files = Whole::of(changed, tree)?;
        Ok(Tried { result, log, files })
    }

    /// Calls the tool's function on files, which then hold its changes.
    fn execute(&self, arguments: &Value, files: &api::Files<'_>) -> Result<Value, ToolError> {
        let failed = |message: String| ToolError::new("tool", message, "the tool's own text has to be mended");
        let sandbox = sandbox_of(&self.source).map_err(failed)?;
        let lua = sandbox.lua();
        let result = sandbox.within(self.time, || {
            let execute: Function = table_of(&sandbox, self.source.text())?.raw_get("execute")?;
            lua.scope(|scope| {
                let (table, ctx) = api::tables(lua, scope, files)?;
                let result: LuaValue = execute.call((table, json::to_lua(lua, arguments)?, ctx))?;
                json::of_lua(&result).map_err(|why| mlua::Error::runtime(format!("the result: {why}")))
            })
        });
        let result = result.map_err(|error| match error.line {
            Some(line) => failed(format!("{}, line {line}: {}", self.spec.name, error.message)),
            None => failed(format!("{}: {}", self.spec.name, error.message)),
        })?;
        if result.to_string().len() > RESULT_BYTES_MAX {
            return Err(failed(format!("{}: its result is longer than 256 KiB", self.spec.name)));
        }
        Ok(result)
    }

    /// Refuses a call if the text in the tree isn't the one that the person has allowed.
    fn is_unchanged(&self, tree: &dyn Tree) -> Result<(), ToolError> {
        if Source::read(tree, self.source.name()).is_ok_and(|now| now == self.source) {
            return Ok(());
        }
        let message = format!("{} has changed since the user allowed it", self.spec.name);
        Err(ToolError::new("changed", message, "the user has to look at it again"))
    }
}

fn sandbox_of(source: &Source) -> Result<Sandbox, String> {
    let modules = source.clone();
    let sandbox =
        Sandbox::of_tool(move |name| modules.module(name).map(str::to_owned), |lua| api::globals(lua).map(Vec::from));
    sandbox.map_err(|error| error.message)
}

/// An error of Luau in words, with its line.
fn with_line(error: RunError) -> String {
    match error.line {
        Some(line) => format!("line {line}: {}", error.message),
        None => error.message,
    }
}

/// The table that a text returns.
fn table_of(sandbox: &Sandbox, text: &str) -> mlua::Result<Table> {
    match sandbox.evaluate(text)? {
        LuaValue::Table(table) => Ok(table),
        other => Err(mlua::Error::runtime(format!("it returns a {}, not a table", other.type_name()))),
    }
}

/// Reads a tool's members: its description for a model, and the patterns of what it may write.
fn described(source: &Source, table: &Table) -> Result<(Spec, Vec<String>), String> {
    let member = |name: &str| table.raw_get::<LuaValue>(name).map_err(|error| error.to_string());
    let text = |name: &str| match member(name)? {
        LuaValue::String(it) => it.to_str().map(|it| it.to_owned()).map_err(|_| format!("{name} isn't UTF-8")),
        _ => Err(format!("{name} has to be a text")),
    };
    if json::of_lua(&member("api")?)? != API {
        return Err(format!("api has to be {API}"));
    }
    let name = text("name")?;
    if name != source.name() {
        return Err(format!("its name is {name:?}, and its file is called {}.luau", source.name()));
    }
    let description: String = text("description")?.chars().take(DESCRIPTION_CHARS_MAX).collect();
    if !matches!(member("execute")?, LuaValue::Function(_)) {
        return Err("execute has to be a function".to_owned());
    }
    let schema = json::of_lua(&member("schema")?).map_err(|why| format!("schema: {why}"))?;
    if schema["type"] != "object" {
        return Err("schema has to be that of an object".to_owned());
    }
    let writes = match json::of_lua(&member("writes")?).map_err(|why| format!("writes: {why}"))? {
        Value::Null => Vec::new(),
        Value::Object(empty) if empty.is_empty() => Vec::new(),
        Value::Array(items) if items.len() <= WRITES_MAX => {
            let pattern = |it: &Value| it.as_str().map(str::to_owned).ok_or("writes has to be a list of patterns");
            items.iter().map(pattern).collect::<Result<Vec<_>, _>>()?
        }
        _ => return Err(format!("writes has to be a list of at most {WRITES_MAX} patterns")),
    };
    Ok((Spec { name, aliases: &[], description, schema }, writes))
}

impl Tool for Script {
    fn spec(&self) -> Spec {
        self.spec.clone()
    }

    fn offer(&self) -> Offer {
        Offer::Core
    }

    fn plan(&self, arguments: &Value, place: Place<'_>) -> Result<Plan, ToolError> {
        self.is_unchanged(place.tree)?;
        let inert = || Action::Inert { name: self.spec.name.clone() };
        let plan = |action| Plan::of(action).saying(format!("Running the repository's tool `{}`", self.spec.name));
        Ok(match self.tried(arguments, place.tree) {
            Err(error) => Plan { refusal: Some(error.into()), ..plan(inert()) },
            Ok(Tried { files: None, .. }) => plan(inert()),
            Ok(Tried { files: Some(files), .. }) => {
                Plan { preview: files.preview(), changes: files.file_changes(), ..plan(files.action()) }
            }
        })
    }

    fn run(&mut self, permit: &Permit, work: &mut Work<'_>) -> Outcome {
        let tree = work.place.tree;
        let tried = self.is_unchanged(tree).and_then(|()| self.tried(permit.arguments(), tree));
        let Tried { result, log, files } = match tried {
            Ok(tried) => tried,
            Err(error) => return error.into(),
        };
        let shown = files.as_ref().map(Whole::preview).unwrap_or_default();
        if shown != permit.preview() {
            let message = "a file has changed meanwhile: the difference that was shown was made from another";
            return ToolError::new("changed", message, "call it again").into();
        }
        let mut text = result;
        let mut outcome = match files {
            None => Outcome::of(""),
            Some(files) => match files.apply(tree, &self.journals, &self.reads) {
                Ok(summary) => {
                    text.push_str(&format!("\n{summary}"));
                    files.outcome(work.limits.output_bytes)
                }
                Err(error) => return error.into(),
            },
        };
        log.iter().for_each(|line| text.push_str(&format!("\n[log] {line}")));
        outcome.output = text;
        outcome
    }
}
