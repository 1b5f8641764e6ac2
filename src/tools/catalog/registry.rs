//! The available tools: found by name, their arguments checked against their schemas, long outputs shortened.

use serde_json::Value;

use crate::gate::Permit;
use crate::proto::tool::{FileChange, Outcome, ToolError};
use crate::schema::Schema;
use crate::tools::catalog::fit;
use crate::tools::reading::files;
use crate::tools::reading::survey;
use crate::tools::{Brief, Place, Plan, Reads, Spec, Tool, ToolSet, Work, ask, memory, search, time};

/// The tools, by name.
pub struct Registry {
    tools: Vec<Entry>,
    /// Tools of servers, which come and go. They follow the others, so that the beginning of a request stays the same.
    served: Vec<Entry>,
    /// The only tools that are allowed; `None` if there is no restriction.
    only: Option<Vec<String>>,
    /// Names of the tools that are offered; all are if it is empty.
    narrowed: Vec<String>,
    reads: Reads,
}

struct Entry {
    spec: Spec,
    schema: Schema,
    tool: Box<dyn Tool>,
    /// True for tools that only ReedClaw itself calls.
    is_ours: bool,
}

impl Registry {
    /// Makes a registry of the built-in tools that need no settings.
    #[must_use]
    pub fn new() -> Self {
        let reads = Reads::default();
        let mut registry =
            Self { tools: Vec::new(), served: Vec::new(), only: None, narrowed: Vec::new(), reads: reads.clone() };
        let built_in: [Box<dyn Tool>; 10] = [
            Box::new(time::Time),
            Box::new(files::List),
            Box::new(files::Read(reads.clone())),
            Box::new(files::Readme(reads)),
            Box::new(search::Find),
            Box::new(search::Search),
            Box::new(survey::HotFiles),
            Box::new(survey::Languages),
            Box::new(memory::Search),
            Box::new(ask::Ask),
        ];
        for tool in built_in {
            let added = registry.add(tool);
            debug_assert_eq!(added, Ok(()));
        }
        registry
    }

    /// Returns the contents that its tools have read, for those that edit.
    #[must_use]
    pub fn reads(&self) -> &Reads {
        &self.reads
    }

    /// Adds a tool.
    ///
    /// # Errors
    /// Its name is in use, or its schema isn't supported.
    pub fn add(&mut self, tool: Box<dyn Tool>) -> Result<(), String> {
        self.add_for(tool, false)
    }

    /// Adds a tool that no model sees or calls.
    ///
    /// # Errors
    /// As [`Self::add`].
    pub fn add_ours(&mut self, tool: Box<dyn Tool>) -> Result<(), String> {
        self.add_for(tool, true)
    }

    fn add_for(&mut self, tool: Box<dyn Tool>, is_ours: bool) -> Result<(), String> {
        let spec = tool.spec();
        let mut names = std::iter::once(spec.name.as_str()).chain(spec.aliases.iter().copied());
        if let Some(known) = names.find(|name| self.find(name).is_some()) {
            return Err(format!("there is a tool called {known} already"));
        }
        let schema = Schema::new(spec.schema.clone())?;
        self.tools.push(Entry { spec, schema, tool, is_ours });
        self.tools.sort_by(|left, right| left.spec.name.cmp(&right.spec.name));
        Ok(())
    }

    /// Adds or removes a tool that is there for a while; one that the list of [`Self::keep_only`] leaves out isn't added.
    pub fn lend(&mut self, tool: Box<dyn Tool>, is_there: bool) {
        let spec = tool.spec();
        self.tools.retain(|entry| entry.spec.name != spec.name);
        if is_there && self.only.as_ref().is_none_or(|only| spec.is_in(only)) {
            let added = self.add(tool);
            debug_assert_eq!(added, Ok(()));
        }
    }

    /// The name of the tool that a model means by a name.
    #[must_use]
    pub fn name_of(&self, name: &str) -> Option<&str> {
        self.meant(name).map(|entry| entry.spec.name.as_str())
    }

    /// Replaces the tools of servers. A tool whose name is in use or whose schema can't be checked is left out and reported in
    /// the result.
    pub fn set_served(&mut self, tools: Vec<Box<dyn Tool>>) -> Vec<String> {
        let mut problems = Vec::new();
        let mut served: Vec<Entry> = Vec::new();
        for tool in tools {
            let spec = tool.spec();
            if self.only.as_ref().is_some_and(|only| !spec.is_in(only)) {
                continue;
            }
            let is_taken = self.tools.iter().chain(&served).any(|entry| entry.spec.name == spec.name);
            match Schema::foreign(&spec.schema) {
                _ if is_taken => problems.push(format!("there is another tool called {}", spec.name)),
                Ok(schema) => served.push(Entry { spec, schema, tool, is_ours: false }),
                Err(why) => problems.push(format!("{}: {why}", spec.name)),
            }
        }
        // Tools that were there before stay in the same order.
        let place = |entry: &Entry| self.served.iter().position(|old| old.spec.name == entry.spec.name);
        served.sort_by_key(|entry| place(entry).unwrap_or(usize::MAX));
        self.served = served;
        problems
    }

    /// Returns whether tools of servers may be among those that [`Self::keep_only`] left.
    #[must_use]
    pub fn may_have_served(&self) -> bool {
        self.only.as_ref().is_none_or(|only| only.iter().any(|name| name.contains("__")))
    }

    /// Leaves only the tools whose name or alias is in the list.
    pub fn keep_only(&mut self, names: &[String]) {
        self.only = Some(names.to_vec());
        self.tools.retain(|entry| entry.is_ours || entry.spec.is_in(names));
    }

    /// Lets a model use only these tools until the next call of this; all if none are named.
    pub fn narrow(&mut self, names: &[String]) {
        self.narrowed = names.to_vec();
    }

    fn is_within(&self, entry: &Entry) -> bool {
        self.narrowed.is_empty() || entry.spec.is_in(&self.narrowed)
    }

    /// Returns the descriptions, by name.
    pub fn specs(&self) -> impl Iterator<Item = &Spec> {
        self.tools.iter().chain(&self.served).filter(|entry| !entry.is_ours).map(|entry| &entry.spec)
    }

    /// The tools that a model is offered, with their briefs for a small one.
    pub fn offered(&self, set: ToolSet, is_small: bool, can_ask: bool) -> impl Iterator<Item = (&Spec, Option<Brief>)> {
        let is_offered = move |entry: &&Entry| {
            !entry.is_ours && self.is_within(entry) && set.has(entry.tool.offer(), is_small, can_ask)
        };
        let brief = move |entry: &Entry| if is_small { entry.tool.brief() } else { None };
        self.tools.iter().chain(&self.served).filter(is_offered).map(move |entry| (&entry.spec, brief(entry)))
    }

    /// Understands a call of a model: finds its tool by name or alias, holds the arguments against the schema, and
    /// plans. Returns the tool's own name and the arguments too.
    ///
    /// # Errors
    /// There is no such tool, or the call isn't valid; the model reads the reason and may correct the call.
    pub fn plan(&self, name: &str, arguments: &str, place: Place<'_>) -> Result<(String, Value, Plan), ToolError> {
        let entry = self.meant(name).ok_or_else(|| self.unknown(name))?;
        let wrong =
            |what: String| ToolError::new("bad-arguments", what, format!("the schema is {}", entry.spec.schema_text()));
        let (value, left_out) = fit::read(arguments, entry.schema.as_value())
            .map_err(|error| wrong(format!("the arguments are no JSON: {error}")))?;
        let problems = entry.schema.problems(&value);
        if !problems.is_empty() {
            let unknown = left_out.iter().map(|name| format!("unknown: {name}"));
            return Err(wrong(problems.into_iter().chain(unknown).collect::<Vec<_>>().join("; ")));
        }
        if let Some(path) = unexpanded(&value) {
            let hint = "write the path itself, relative to the workspace; variables aren't expanded here".to_owned();
            return Err(ToolError::new("bad-arguments", format!("{path} begins with a variable of the shell"), hint));
        }
        let plan = Plan { left_out, ..entry.tool.plan(&value, place)? };
        Ok((entry.spec.name.clone(), value, plan))
    }

    /// Returns whether there is a tool that only we call.
    #[must_use]
    pub fn has_ours(&self, name: &str) -> bool {
        self.find(name).is_some_and(|entry| entry.is_ours)
    }

    /// Plans a call with arguments that ReedClaw made, or with a model's that have already passed the schema.
    ///
    /// # Errors
    /// There is no such tool, or the call makes no sense.
    pub fn plan_again(&self, name: &str, arguments: &Value, place: Place<'_>) -> Result<Plan, ToolError> {
        self.find(name).ok_or_else(|| self.unknown(name))?.tool.plan(arguments, place)
    }

    /// Returns the arguments of a call that writes the contents a person wants; `None` if its tool can't do that.
    #[must_use]
    pub fn revised(&self, name: &str, arguments: &Value, files: &[FileChange]) -> Option<Value> {
        self.find(name)?.tool.revised(arguments, files)
    }

    /// Runs the call that a permit allows.
    pub fn run(&mut self, permit: &Permit, work: &mut Work<'_>) -> Outcome {
        let found = self.tools.iter_mut().chain(&mut self.served).find(|entry| entry.spec.name == permit.tool());
        match found {
            Some(entry) => shortened(entry.tool.run(permit, work), work),
            None => self.unknown(permit.tool()).into(),
        }
    }

    /// The tool that a model means, also by a name in another style or with a prefix such as `functions.`.
    fn meant(&self, name: &str) -> Option<&Entry> {
        let mut theirs = self.tools.iter().filter(|entry| !entry.is_ours);
        let last = name.rsplit(['.', ':', '/']).next().unwrap_or(name);
        let exact = self.find(name).filter(|entry| !entry.is_ours);
        let meant = exact.or_else(|| {
            theirs.find(|Entry { spec, .. }| {
                std::iter::once(spec.name.as_str())
                    .chain(spec.aliases.iter().copied())
                    .any(|it| fit::same_name(it, last))
            })
        });
        meant.filter(|entry| self.is_within(entry))
    }

    /// Returns whether this name would find a tool for a model.
    #[must_use]
    pub fn is_tool(&self, name: &str) -> bool {
        self.meant(name).is_some()
    }

    fn find(&self, name: &str) -> Option<&Entry> {
        let mut all = self.tools.iter().chain(&self.served);
        all.find(|entry| entry.spec.name == name || entry.spec.aliases.contains(&name))
    }

    fn unknown(&self, name: &str) -> ToolError {
        // More than these would fill a small window; a model that was offered others has their names.
        let names: Vec<&str> = self.offered(ToolSet::Core, true, false).map(|(spec, _)| spec.name.as_str()).collect();
        let hint = format!("for most work there is {}", names.join(", "));
        ToolError::new("no-such-tool", format!("there is no tool called {name}"), hint)
    }
}

impl Default for Registry {
    fn default() -> Self {
        Self::new()
    }
}

/// Reduces a long output to its head and tail, and stores the whole of it for `file_read`.
fn shortened(mut outcome: Outcome, work: &Work<'_>) -> Outcome {
    let limit = work.limits.output_bytes;
    for name in ["stdout", "stderr"] {
        if let Some(serde_json::Value::String(text)) = outcome.metadata.get_mut(name)
            && text.len() > limit
        {
            let left_out = text.len() - text.floor_char_boundary(limit);
            text.truncate(text.floor_char_boundary(limit));
            text.push_str(&format!("\n[{left_out} bytes are left out here]"));
        }
    }
    if outcome.output.len() <= limit {
        return outcome;
    }
    let whole = std::mem::take(&mut outcome.output);
    let head = &whole[..whole.floor_char_boundary(limit * 2 / 3)];
    let tail = &whole[whole.ceil_char_boundary(whole.len() - limit / 3)..];
    let left_out = whole.len() - head.len() - tail.len();
    let (where_it_is, name) = match work.place.spill.keep(&whole) {
        Ok(name) => (format!("; file_read {name} with start_line and end_line reads on"), Some(name)),
        Err(why) => (format!("; it could not be kept: {why}"), None),
    };
    outcome.output = format!("{head}\n[{left_out} bytes are left out here{where_it_is}]\n{tail}");
    outcome.metadata.insert("bytes".into(), whole.len().into());
    if let Some(name) = name {
        outcome.metadata.insert("whole_output".into(), name.into());
    }
    outcome
}

/// Returns a path among the arguments that begins with a shell variable: used literally it would name a directory that the model
/// didn't mean.
fn unexpanded(arguments: &Value) -> Option<&str> {
    // A file may have that name; a directory with it is a slip.
    let is_variable = |path: &&str| {
        let first = path.split_once('/').and_then(|(first, _)| first.strip_prefix('$'));
        first.is_some_and(|name| name.starts_with(|c: char| c == '{' || c.is_ascii_uppercase()))
    };
    match arguments {
        Value::Object(fields) => fields.iter().find_map(|(name, value)| match value {
            Value::String(path) if name == "path" => Some(path.as_str()).filter(is_variable),
            _ => unexpanded(value),
        }),
        Value::Array(items) => items.iter().find_map(unexpanded),
        _ => None,
    }
}
