//! Values by reference: the source of a step's value, and the tests that compare one. A value is never inserted into a text.

use std::fmt;

use serde_json::{Map, Value};

use super::Run;

/// The ending of a key whose value is a source.
const FROM: &str = "_from";
/// Limit on the levels of arguments that are searched for sources.
const DEPTH_MAX: usize = 16;

/// The source of a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// The output of a step.
    Output(String),
    /// A part of a step's result.
    Field(String, Vec<String>),
    /// An input.
    Input(String),
    /// The number of the run.
    RunId,
    /// The day on which the run began, in UTC.
    RunDate,
    /// The path of the file that began the run.
    TriggerPath,
    /// The body of the request that began the run.
    TriggerBody,
}

impl Source {
    /// Reads a source.
    ///
    /// # Errors
    /// It isn't a source.
    pub fn parse(text: &str) -> Result<Self, String> {
        let parts: Vec<&str> = text.split('.').collect();
        // Anything else is a comparison, or a text that is here by mistake.
        let is_plain = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-' | '$' | '@' | ':');
        if parts.iter().any(|part| part.is_empty() || !part.chars().all(is_plain)) {
            return Err(format!("{text:?} is no source of a value"));
        }
        let own = |parts: &[&str]| parts.iter().map(|part| (*part).to_owned()).collect();
        Ok(match parts[..] {
            ["input", name] => Self::Input(name.to_owned()),
            ["run", "id"] => Self::RunId,
            ["run", "date"] => Self::RunDate,
            ["trigger", "path"] => Self::TriggerPath,
            ["trigger", "body"] => Self::TriggerBody,
            ["input" | "run" | "trigger", ..] => return Err(format!("{text:?} is no source of a value")),
            [step] => Self::Output(step.to_owned()),
            [step, ref fields @ ..] => Self::Field(step.to_owned(), own(fields)),
            [] => return Err("a source is missing".to_owned()),
        })
    }

    /// The step that it depends on.
    #[must_use]
    pub fn step(&self) -> Option<&str> {
        match self {
            Self::Output(step) | Self::Field(step, _) => Some(step),
            _ => None,
        }
    }

    /// Returns the value in a run.
    ///
    /// # Errors
    /// There is no such value.
    pub fn value(&self, run: &Run) -> Result<Value, String> {
        let missing = |what: &str| format!("{self} has no value: {what}");
        match self {
            Self::Input(name) => run.inputs.get(name).cloned().map(Value::from).ok_or_else(|| missing("no such input")),
            Self::RunId => Ok(run.id.to_string().into()),
            Self::RunDate => Ok(crate::base::time::utc(run.began).chars().take(10).collect::<String>().into()),
            Self::TriggerPath => {
                run.trigger.path.clone().map(Value::from).ok_or_else(|| missing("no file began this run"))
            }
            Self::TriggerBody => {
                run.trigger.body.clone().map(Value::from).ok_or_else(|| missing("no webhook began this run"))
            }
            Self::Output(id) => {
                let step = run.step(id).ok_or_else(|| missing("no such step"))?;
                step.output.clone().map(Value::from).ok_or_else(|| missing("the step has no output"))
            }
            Self::Field(id, fields) => {
                let step = run.step(id).ok_or_else(|| missing("no such step"))?;
                if let ["success"] = fields.iter().map(String::as_str).collect::<Vec<_>>()[..] {
                    return Ok(Value::from(step.has_succeeded()));
                }
                let parsed = || serde_json::from_str(step.output.as_deref().unwrap_or_default()).ok();
                let found = at(&Value::Object(step.metadata.clone()), fields);
                found.or_else(|| at(&parsed()?, fields)).ok_or_else(|| missing("the step's result has no such part"))
            }
        }
    }
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Output(step) => f.write_str(step),
            Self::Field(step, fields) => write!(f, "{step}.{}", fields.join(".")),
            Self::Input(name) => write!(f, "input.{name}"),
            Self::RunId => f.write_str("run.id"),
            Self::RunDate => f.write_str("run.date"),
            Self::TriggerPath => f.write_str("trigger.path"),
            Self::TriggerBody => f.write_str("trigger.body"),
        }
    }
}

fn at(value: &Value, fields: &[String]) -> Option<Value> {
    let found = fields.iter().try_fold(value, |value, field| match value {
        Value::Array(items) => items.get(field.parse::<usize>().ok()?),
        value => value.get(field),
    })?;
    Some(found.clone())
}

/// A comparison, or a test whether a step succeeded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Test {
    /// The value is true, or a text that isn't empty; with `false`, the opposite.
    Is(Source, bool),
    /// The value equals the text; with `false`, it doesn't.
    Equals(Source, String, bool),
}

impl Test {
    /// Reads a test: `SOURCE`, `!SOURCE`, `SOURCE == "TEXT"` or `SOURCE != "TEXT"`.
    ///
    /// # Errors
    /// It is none of these.
    pub fn parse(text: &str) -> Result<Self, String> {
        for (operator, is_equal) in [("==", true), ("!=", false)] {
            if let Some((left, right)) = text.split_once(operator) {
                let right: String = serde_json::from_str(right.trim())
                    .map_err(|_| format!("{operator} needs a text in double quotes on its right"))?;
                return Ok(Self::Equals(Source::parse(left.trim())?, right, is_equal));
            }
        }
        match text.trim().strip_prefix('!') {
            Some(rest) => Ok(Self::Is(Source::parse(rest.trim())?, false)),
            None => Ok(Self::Is(Source::parse(text.trim())?, true)),
        }
    }

    /// The source that it compares.
    #[must_use]
    pub fn source(&self) -> &Source {
        match self {
            Self::Is(source, _) | Self::Equals(source, ..) => source,
        }
    }

    /// Returns whether it holds in a run.
    ///
    /// # Errors
    /// Its value is missing.
    pub fn holds(&self, run: &Run) -> Result<bool, String> {
        let value = self.source().value(run)?;
        Ok(match self {
            Self::Is(_, wanted) => {
                let is_true = !matches!(value, Value::Null | Value::Bool(false)) && value.as_str() != Some("");
                is_true == *wanted
            }
            Self::Equals(_, text, wanted) => {
                let shown = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
                (shown.trim_end_matches('\n') == text) == *wanted
            }
        })
    }
}

/// The sources in arguments, each with its text.
pub(super) fn sources_in(args: &Value) -> Vec<(String, Result<Source, String>)> {
    let mut found = Vec::new();
    collect(args, DEPTH_MAX, &mut found);
    found
}

fn collect(args: &Value, depth: usize, found: &mut Vec<(String, Result<Source, String>)>) {
    if depth == 0 {
        return;
    }
    match args {
        Value::Object(fields) => {
            for (name, value) in fields {
                match (name.strip_suffix(FROM), value) {
                    (Some(_), Value::String(text)) => found.push((name.clone(), Source::parse(text))),
                    (Some(_), _) => found.push((name.clone(), Err(format!("{name} must be a text")))),
                    (None, value) => collect(value, depth - 1, found),
                }
            }
        }
        Value::Array(items) => items.iter().for_each(|item| collect(item, depth - 1, found)),
        _ => {}
    }
}

/// Arguments with sources replaced by their values.
pub(super) fn resolved(args: &Value, run: &Run) -> Result<Value, String> {
    Ok(match args {
        Value::Object(fields) => {
            let mut whole = Map::new();
            for (name, value) in fields {
                match (name.strip_suffix(FROM), value) {
                    (Some(name), Value::String(text)) => {
                        whole.insert(name.to_owned(), Source::parse(text)?.value(run)?);
                    }
                    (_, value) => {
                        whole.insert(name.clone(), resolved(value, run)?);
                    }
                }
            }
            Value::Object(whole)
        }
        Value::Array(items) => Value::Array(items.iter().map(|item| resolved(item, run)).collect::<Result<_, _>>()?),
        value => value.clone(),
    })
}

/// The names of the arguments at the top; a source counts under the name of the argument that it sets.
#[must_use]
pub fn argument_names(args: &Value) -> Vec<&str> {
    let names = args.as_object().into_iter().flat_map(Map::keys);
    names.map(|name| name.strip_suffix(FROM).unwrap_or(name)).collect()
}
