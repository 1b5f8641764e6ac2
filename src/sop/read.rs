//! Reads a file of a procedure: a definition, and every problem with its line, in one pass.

use std::collections::BTreeMap;
use std::ops::Range;

use serde_json::{Map, Number, Value};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::source::{argument_names, sources_in};
use super::{
    Act, Budget, Caution, Definition, FILE_BYTES_MAX, INPUTS_MAX, Input, Mode, NAME_BYTES_MAX, OUTPUT_BYTES_MAX,
    OnFailure, Problem, RUN_MINUTES_MAX, STEP_MS, STEP_MS_MAX, STEPS_MAX, Source, Step, TRIGGERS_MAX, Test, Trigger,
    cron,
};
use crate::schema::Schema;

/// The kinds of steps. A question to a model has two names: the format's first examples call it an agent.
const KINDS: [(&str, u8); 10] = [
    ("tool", 0),
    ("shell", 1),
    ("model", 2),
    ("agent", 2),
    ("approval", 3),
    ("wait", 4),
    ("condition", 5),
    ("norris", 6),
    ("sop", 7),
    ("check", 8),
];
/// Limit on the attempts after a failure.
const RETRIES_MAX: u64 = 20;
/// Variables that influence what a program does, and so can't be set by a procedure.
const OWN_VARIABLES: [&str; 9] =
    ["PATH", "HOME", "IFS", "ENV", "SHELL", "SHELLOPTS", "BASHOPTS", "PROMPT_COMMAND", "CDPATH"];
/// The beginnings of such names.
const OWN_PREFIXES: [&str; 8] = ["LD_", "BASH", "PYTHON", "PERL", "RUBY", "NODE_", "GIT_", "REEDCLAW"];

/// Reads the text of a file. Returns a definition if there are no problems.
#[must_use]
pub fn read(text: &str) -> (Option<Definition>, Vec<Problem>) {
    let (definition, problems) = read_partly(text);
    (definition.filter(|_| problems.is_empty()), problems)
}

/// Reads the text of a file. The definition contains as much as could be read, so that one pass can check all of it; a definition
/// with problems never runs.
#[must_use]
pub fn read_partly(text: &str) -> (Option<Definition>, Vec<Problem>) {
    let mut reader = Reader { text, problems: Vec::new(), covers: Vec::new(), cover_all: Vec::new() };
    if text.len() > FILE_BYTES_MAX {
        reader.problem(0, format!("the file is longer than {FILE_BYTES_MAX} bytes"), "split it into two procedures");
        return (None, reader.problems);
    }
    let (table, errors) = DeTable::parse_recoverable(text);
    for error in &errors {
        let at = error.span().map_or(0, |span| span.start);
        reader.problem(at, format!("this is no TOML: {}", error.message().trim()), "toml.io describes the format");
    }
    let definition = reader.definition(table.get_ref());
    reader.problems.sort_by_key(|problem| problem.line);
    (definition, reader.problems)
}

struct Reader<'t> {
    text: &'t str,
    problems: Vec<Problem>,
    /// The approval step, the id that it covers, and its position.
    covers: Vec<(String, String, usize)>,
    /// The positions of approvals that name no steps.
    cover_all: Vec<usize>,
}

/// A table whose keys are removed one by one; the remaining ones are unknown.
struct Fields<'a, 't> {
    table: &'a DeTable<'t>,
    at: usize,
    /// The table, in words.
    name: String,
    known: Vec<&'static str>,
}

impl<'a, 't> Fields<'a, 't> {
    fn new(table: &'a DeTable<'t>, at: usize, name: impl Into<String>) -> Self {
        Self { table, at, name: name.into(), known: Vec::new() }
    }

    fn take(&mut self, key: &'static str) -> Option<(&'a DeValue<'t>, Range<usize>)> {
        if !self.known.contains(&key) {
            self.known.push(key);
        }
        self.table.get(key).map(|value| (value.get_ref(), value.span()))
    }

    fn has(&self, key: &str) -> bool {
        self.table.contains_key(key)
    }
}

impl Reader<'_> {
    fn line(&self, at: usize) -> usize {
        self.text.as_bytes()[..at.min(self.text.len())].iter().filter(|byte| **byte == b'\n').count() + 1
    }

    fn problem(&mut self, at: usize, what: impl Into<String>, hint: impl Into<String>) {
        let line = self.line(at);
        self.problems.push(Problem { line, what: what.into(), hint: hint.into() });
    }

    fn unknown_keys(&mut self, fields: &Fields<'_, '_>) {
        for key in fields.table.keys() {
            if !fields.known.iter().any(|known| key.get_ref() == known) {
                let known = fields.known.join(", ");
                self.problem(
                    key.span().start,
                    format!("{} has no key {}", fields.name, key.get_ref()),
                    format!("the keys are {known}"),
                );
            }
        }
    }

    fn text(&mut self, fields: &mut Fields<'_, '_>, key: &'static str) -> Option<(String, usize)> {
        let (value, span) = fields.take(key)?;
        let Some(text) = value.as_str() else {
            let kind = value.type_str();
            let article = if kind.starts_with(['a', 'i']) { "an" } else { "a" };
            let what = format!("{key} of {} is {article} {kind}", fields.name);
            self.problem(span.start, what, format!("write {key} = \"…\""));
            return None;
        };
        if text.contains('\0') {
            self.problem(span.start, format!("{key} of {} holds a null character", fields.name), "leave it out");
            return None;
        }
        Some((text.to_owned(), span.start))
    }

    fn needed(&mut self, fields: &mut Fields<'_, '_>, key: &'static str) -> (String, usize) {
        let found = self.text(fields, key);
        if found.is_none() && !fields.has(key) {
            let (at, name) = (fields.at, fields.name.clone());
            self.problem(at, format!("{name} has no {key}"), format!("add {key} = \"…\""));
        }
        let (text, at) = found.unwrap_or_else(|| (String::new(), fields.at));
        if text.trim().is_empty() && fields.has(key) && fields.table.get(key).is_some_and(|it| it.get_ref().is_str()) {
            self.problem(at, format!("{key} of {} is empty", fields.name), format!("write {key} = \"…\""));
        }
        (text, at)
    }

    fn whole(&mut self, fields: &mut Fields<'_, '_>, key: &'static str, most: u64) -> Option<u64> {
        let (value, span) = fields.take(key)?;
        let number = value.as_integer().and_then(|it| u64::from_str_radix(it.as_str(), it.radix()).ok());
        let number = number.filter(|number| *number <= most);
        if number.is_none() {
            self.problem(span.start, format!("{key} of {} must be a whole number from 0 to {most}", fields.name), "");
        }
        number
    }

    fn amount(&mut self, fields: &mut Fields<'_, '_>, key: &'static str) -> Option<f64> {
        let (value, span) = fields.take(key)?;
        let text = value.as_float().map(|it| it.as_str().to_owned());
        let text = text.or_else(|| value.as_integer().map(|it| it.as_str().to_owned()));
        let number = text.and_then(|it| it.parse::<f64>().ok()).filter(|it| it.is_finite() && *it >= 0.0);
        if number.is_none() {
            self.problem(span.start, format!("{key} of {} must be a number that isn't negative", fields.name), "");
        }
        number
    }

    fn flag(&mut self, fields: &mut Fields<'_, '_>, key: &'static str) -> bool {
        let Some((value, span)) = fields.take(key) else { return false };
        value.as_bool().unwrap_or_else(|| {
            self.problem(span.start, format!("{key} of {} must be true or false", fields.name), "");
            false
        })
    }

    fn texts(&mut self, fields: &mut Fields<'_, '_>, key: &'static str) -> Vec<(String, usize)> {
        let Some((value, span)) = fields.take(key) else { return Vec::new() };
        let Some(items) = value.as_array() else {
            self.problem(span.start, format!("{key} of {} must be a list of texts", fields.name), "");
            return Vec::new();
        };
        let mut texts = Vec::new();
        for item in items.iter() {
            match item.get_ref().as_str() {
                Some(text) => texts.push((text.to_owned(), item.span().start)),
                None => self.problem(item.span().start, format!("{key} of {} must hold texts", fields.name), ""),
            }
        }
        texts
    }

    fn one_of<T: Copy>(&mut self, fields: &mut Fields<'_, '_>, key: &'static str, words: &[(&str, T)]) -> Option<T> {
        let (text, at) = self.text(fields, key)?;
        let found = words.iter().find(|(word, _)| *word == text).map(|(_, value)| *value);
        if found.is_none() {
            let list = words.iter().map(|(word, _)| format!("{word:?}")).collect::<Vec<_>>().join(", ");
            let what = format!("{key} of {} can't be {text:?}", fields.name);
            self.problem(at, what, format!("it is one of {list}"));
        }
        found
    }

    fn tables<'a, 't>(
        &mut self,
        fields: &mut Fields<'a, 't>,
        key: &'static str,
        most: usize,
    ) -> Vec<(&'a DeTable<'t>, usize)> {
        let Some((value, span)) = fields.take(key) else { return Vec::new() };
        let items: Vec<&Spanned<DeValue<'t>>> = value.as_array().into_iter().flat_map(|it| it.iter()).collect();
        if value.as_array().is_none() {
            self.problem(span.start, format!("{key} must be a list of tables"), format!("write [[{key}]]"));
        }
        if items.len() > most {
            self.problem(span.start, format!("there are more than {most} {key}"), "split it into two procedures");
        }
        let mut tables = Vec::new();
        for item in items.into_iter().take(most) {
            match item.get_ref().as_table() {
                Some(table) => {
                    // The span of a table in a list begins with the list; its first key is closer.
                    let first = table.iter().map(|(name, _)| name.span().start).min();
                    tables.push((table, first.unwrap_or(item.span().start)));
                }
                None => self.problem(item.span().start, format!("{key} must hold tables"), format!("write [[{key}]]")),
            }
        }
        tables
    }

    fn definition(&mut self, table: &DeTable<'_>) -> Option<Definition> {
        let mut top = Fields::new(table, 0, "the procedure");
        let (name, at) = self.needed(&mut top, "name");
        if !name.is_empty() && !is_name(&name) {
            let hint = format!("use a-z, 0-9 and hyphens, at most {NAME_BYTES_MAX}");
            self.problem(at, format!("{name:?} can't be a name"), hint);
        }
        let description = self.text(&mut top, "description").map_or_else(String::new, |(text, _)| text);
        let modes = [("auto", Mode::Auto), ("supervised", Mode::Supervised), ("step", Mode::StepByStep)];
        let mode = self.one_of(&mut top, "mode", &modes).unwrap_or_default();
        // The file format has only one version so far.
        if let (Some(version), Some((_, span))) = (self.whole(&mut top, "version", u64::MAX), top.take("version"))
            && version != 1
        {
            self.problem(span.start, format!("version {version} of this format isn't known"), "write version = 1");
        }
        let cautions = [("readonly", Caution::Readonly), ("supervised", Caution::Supervised)];
        let caution = self.one_of(&mut top, "autonomy", &cautions);
        let workspace = self.workspace(&mut top);
        let overlaps = self.one_of(&mut top, "overlap", &[("skip", false), ("queue", true)]).unwrap_or(false);
        let timeout_minutes = self.whole(&mut top, "timeout_minutes", RUN_MINUTES_MAX);
        let notifies = self.flag(&mut top, "notify") || !top.has("notify");
        let model = self.text(&mut top, "model").map_or_else(String::new, |(text, _)| text);
        let budget = self.budget(&mut top);
        let inputs = self.inputs(&mut top);
        let triggers = self.tables(&mut top, "triggers", TRIGGERS_MAX);
        let triggers = triggers.into_iter().filter_map(|(table, at)| self.trigger(table, at)).collect();
        let mut steps: Vec<Step> = Vec::new();
        for (number, (table, at)) in self.tables(&mut top, "steps", STEPS_MAX).into_iter().enumerate() {
            let step = self.step(table, at, number + 1, &steps, &inputs);
            steps.extend(step);
        }
        if !top.has("steps") {
            self.problem(0, "there are no steps", "add [[steps]]");
        }
        self.unknown_keys(&top);
        self.check_covers(&steps);
        self.cover_the_rest(&mut steps);
        Some(Definition {
            name,
            description,
            mode,
            caution,
            workspace,
            overlaps,
            timeout_minutes,
            notifies,
            model,
            budget,
            inputs,
            triggers,
            steps,
        })
    }

    fn workspace(&mut self, top: &mut Fields<'_, '_>) -> String {
        let Some((text, at)) = self.text(top, "workspace") else { return String::new() };
        if !text.starts_with('/') && !text.starts_with("~/") {
            self.problem(at, format!("the workspace {text:?} isn't an absolute path"), "write workspace = \"~/work\"");
        }
        text
    }

    fn budget(&mut self, top: &mut Fields<'_, '_>) -> Budget {
        let usual = Budget::default();
        let Some((value, span)) = top.take("budget") else { return usual };
        let Some(table) = value.as_table() else {
            self.problem(span.start, "budget must be a table", "write budget = { usd = 0.5, tokens = 300000 }");
            return usual;
        };
        let mut fields = Fields::new(table, span.start, "budget");
        let usd = self.amount(&mut fields, "usd").unwrap_or(usual.usd);
        let tokens = self.whole(&mut fields, "tokens", u64::MAX).unwrap_or(usual.tokens);
        let minutes = self.amount(&mut fields, "minutes").unwrap_or(usual.minutes);
        self.unknown_keys(&fields);
        Budget { usd, tokens, minutes }
    }

    fn inputs(&mut self, top: &mut Fields<'_, '_>) -> BTreeMap<String, Input> {
        let Some((value, span)) = top.take("inputs") else { return BTreeMap::new() };
        let Some(table) = value.as_table() else {
            self.problem(span.start, "inputs must be tables", "write [inputs.NAME]");
            return BTreeMap::new();
        };
        if table.len() > INPUTS_MAX {
            self.problem(span.start, format!("there are more than {INPUTS_MAX} inputs"), "take fewer");
        }
        let mut inputs = BTreeMap::new();
        for (name, value) in table.iter() {
            let (at, name) = (name.span().start, name.get_ref().to_string());
            if !is_name(&name) {
                self.problem(at, format!("{name:?} can't be the name of an input"), "use a-z, 0-9 and hyphens");
            }
            let Some(table) = value.get_ref().as_table() else {
                self.problem(at, format!("the input {name} must be a table"), format!("write [inputs.{name}]"));
                continue;
            };
            let mut fields = Fields::new(table, at, format!("input {name}"));
            let default = self.text(&mut fields, "default").map(|(text, _)| text);
            let description = self.text(&mut fields, "description").map_or_else(String::new, |(text, _)| text);
            self.unknown_keys(&fields);
            inputs.insert(name, Input { default, description });
        }
        inputs
    }

    fn trigger(&mut self, table: &DeTable<'_>, at: usize) -> Option<Trigger> {
        let mut fields = Fields::new(table, at, "a trigger");
        let kinds = [("manual", 0), ("cron", 1), ("file", 2), ("webhook", 3)];
        if !fields.has("kind") {
            self.problem(at, "a trigger has no kind", "add kind = \"cron\", \"file\", \"webhook\" or \"manual\"");
        }
        let kind = self.one_of(&mut fields, "kind", &kinds)?;
        fields.name = format!("a {} trigger", kinds[kind].0);
        let trigger = match kind {
            0 => Some(Trigger::Manual),
            1 => {
                let (text, at) = self.needed(&mut fields, "at");
                let zone = self.text(&mut fields, "tz").map_or_else(String::new, |(text, _)| text);
                let catch_up = [("once", true), ("skip", false)];
                let catches_up = self.one_of(&mut fields, "catch_up", &catch_up).unwrap_or(false);
                match cron::Spec::parse(&text) {
                    Ok(at) => Some(Trigger::Cron { at, zone, catches_up }),
                    Err(_) if text.is_empty() => None,
                    Err(why) => {
                        self.problem(at, format!("{text:?} is no time: {why}"), "write minute hour day month weekday");
                        // It never runs; this value lets the zone be checked.
                        let at = cron::Spec::parse("@daily").ok()?;
                        Some(Trigger::Cron { at, zone, catches_up })
                    }
                }
            }
            2 => {
                let paths = self.texts(&mut fields, "paths");
                let is_list =
                    fields.table.get("paths").is_none_or(|it| it.get_ref().as_array().is_some_and(|it| it.is_empty()));
                if paths.is_empty() && is_list {
                    self.problem(at, "a file trigger has no paths", "add paths = [\"inbox/*.csv\"]");
                }
                for (path, at) in &paths {
                    self.pattern(path, *at);
                }
                let settle_ms = self.whole(&mut fields, "settle_ms", 3_600_000).unwrap_or(2_000);
                Some(Trigger::File { paths: paths.into_iter().map(|(path, _)| path).collect(), settle_ms })
            }
            _ => {
                let (secret_env, at) = self.needed(&mut fields, "secret_env");
                let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_';
                if !secret_env.trim().is_empty()
                    && (!secret_env.chars().all(is_part) || secret_env.starts_with(|c: char| c.is_ascii_digit()))
                {
                    let what = format!("secret_env: {secret_env:?} can't be the name of a variable");
                    self.problem(at, what, "name the variable that holds the secret");
                }
                Some(Trigger::Webhook { secret_env })
            }
        };
        self.unknown_keys(&fields);
        trigger
    }

    /// Checks that a pattern is valid and stays below the workspace.
    fn pattern(&mut self, pattern: &str, at: usize) {
        let what = if pattern.trim().is_empty() {
            "a path is empty".to_owned()
        } else if pattern.starts_with('/') || pattern.split('/').any(|part| part == "..") {
            format!("{pattern:?} leads out of the workspace")
        } else if let Err(error) = globset::Glob::new(pattern) {
            format!("{pattern:?} is no pattern: {}", error.kind())
        } else {
            return;
        };
        self.problem(at, what, "write a path from the top of the workspace, such as inbox/*.csv");
    }

    fn step(
        &mut self,
        table: &DeTable<'_>,
        at: usize,
        number: usize,
        earlier: &[Step],
        inputs: &BTreeMap<String, Input>,
    ) -> Option<Step> {
        let mut fields = Fields::new(table, at, format!("step {number}"));
        let (id, id_at) = self.needed(&mut fields, "id");
        if !id.is_empty() {
            fields.name = format!("step {id}");
            if !is_name(&id) || matches!(id.as_str(), "input" | "run" | "trigger") {
                self.problem(
                    id_at,
                    format!("{id:?} can't be an id"),
                    "use a-z, 0-9 and hyphens, not input, run or trigger",
                );
            }
            if let Some(first) = earlier.iter().find(|step| step.id == id) {
                let what = format!("there is another step {id} in line {}", first.line);
                self.problem(id_at, what, "give each step a different id");
            }
        }
        let scope = Scope { earlier, inputs };
        let act = self.act(&mut fields, &scope);
        let failure = [("abort", OnFailure::Abort), ("continue", OnFailure::Continue)];
        let on_failure = self.one_of(&mut fields, "on_failure", &failure).unwrap_or_default();
        let retry = self.retry(&mut fields);
        let when = self.text(&mut fields, "when").and_then(|(text, at)| self.test(&text, at, &scope));
        let timeout_ms = self.whole(&mut fields, "timeout_ms", STEP_MS_MAX).unwrap_or_else(|| match &act {
            // Its budget limits the time.
            Some(act) if act.is_run() => STEP_MS_MAX,
            _ => STEP_MS,
        });
        let is_check = matches!(act, Some(Act::Shell { is_check: true, .. }));
        let is_repeatable = self.flag(&mut fields, "idempotent") || is_check;
        let (mut schema, mut keep_bytes) = (None, None);
        if act.as_ref().is_some_and(Act::has_output) {
            schema = self.schema(&mut fields);
            let bytes = self.whole(&mut fields, "keep_bytes", OUTPUT_BYTES_MAX as u64);
            keep_bytes = bytes.and_then(|bytes| usize::try_from(bytes).ok());
        }
        if act.is_some() {
            self.unknown_keys(&fields);
        }
        let line = self.line(at);
        Some(Step { id, line, act: act?, on_failure, retry, when, timeout_ms, is_repeatable, schema, keep_bytes })
    }

    fn schema(&mut self, fields: &mut Fields<'_, '_>) -> Option<Schema> {
        let (value, span) = fields.take("schema")?;
        if !value.is_table() {
            let what = format!("schema of {} must be a table", fields.name);
            self.problem(span.start, what, "write schema = { type = \"object\", required = [\"name\"] }");
            return None;
        }
        let schema = Schema::new(json(value));
        schema.map_err(|why| self.problem(span.start, format!("schema of {}: {why}", fields.name), "")).ok()
    }

    fn retry(&mut self, fields: &mut Fields<'_, '_>) -> (u32, u64) {
        let Some((value, span)) = fields.take("retry") else { return (0, 0) };
        let Some(table) = value.as_table() else {
            self.problem(span.start, "retry must be a table", "write retry = { max = 2, delay_ms = 1000 }");
            return (0, 0);
        };
        let mut inner = Fields::new(table, span.start, "retry");
        let max = self.whole(&mut inner, "max", RETRIES_MAX).unwrap_or(0);
        let delay_ms = self.whole(&mut inner, "delay_ms", STEP_MS_MAX).unwrap_or(0);
        self.unknown_keys(&inner);
        (u32::try_from(max).unwrap_or(0), delay_ms)
    }

    fn act(&mut self, fields: &mut Fields<'_, '_>, scope: &Scope<'_>) -> Option<Act> {
        if !fields.has("kind") {
            let (at, name) = (fields.at, fields.name.clone());
            self.problem(at, format!("{name} has no kind"), "add kind = \"tool\", \"shell\", \"model\" or another");
        }
        Some(match self.one_of(fields, "kind", &KINDS)? {
            0 => {
                let tool = self.needed(fields, "tool").0;
                Act::Tool { tool, args: self.arguments(fields, "args", scope)? }
            }
            kind @ (1 | 8) => self.shell(fields, scope, kind == 8),
            2 => {
                let prompt = self.needed(fields, "prompt").0;
                let model = self.text(fields, "model").map_or_else(String::new, |(text, _)| text);
                let tools = self.texts(fields, "tools").into_iter().map(|(tool, _)| tool).collect();
                Act::Model { prompt, model, tools }
            }
            3 => {
                let prompt = self.needed(fields, "prompt").0;
                let covers = self.texts(fields, "covers");
                let of = fields.name.clone();
                self.covers.extend(covers.iter().map(|(id, at)| (of.clone(), id.clone(), *at)));
                let covers = covers.into_iter().map(|(id, _)| id).collect();
                if !fields.has("covers") {
                    self.cover_all.push(fields.at);
                }
                Act::Approval { prompt, covers }
            }
            4 => {
                let ms = self.whole(fields, "seconds", STEP_MS_MAX / 1_000);
                if !fields.has("seconds") {
                    let (at, name) = (fields.at, fields.name.clone());
                    self.problem(at, format!("{name} has no seconds"), "add seconds = 30");
                }
                Act::Wait { ms: ms? * 1_000 }
            }
            6 => {
                let goal = self.needed(fields, "goal").0;
                let checks = self.texts(fields, "checks");
                for (_, at) in
                    checks.iter().filter(|(check, _)| check.trim().is_empty() || check.trim().starts_with('#'))
                {
                    self.problem(*at, format!("a check of {} is empty", fields.name), "write checks = [\"make test\"]");
                }
                let writes = self.texts(fields, "writes");
                writes.iter().for_each(|(pattern, at)| self.pattern(pattern, *at));
                let commands = self.texts(fields, "commands");
                let texts = |it: Vec<(String, usize)>| it.into_iter().map(|(text, _)| text).collect::<Vec<_>>();
                let (checks, writes, commands) = (texts(checks), texts(writes), texts(commands));
                Act::Goal { goal, checks, writes, commands, budget: self.budget(fields) }
            }
            7 => {
                let (name, at) = self.needed(fields, "sop");
                if !name.is_empty() && !is_name(&name) {
                    self.problem(at, format!("{name:?} can't be a procedure's name"), "name one of reedclaw sop list");
                }
                Act::Procedure { name, inputs: self.arguments(fields, "inputs", scope)? }
            }
            _ => {
                let (text, at) = self.needed(fields, "test");
                let otherwise = [("end", false), ("fail", true)];
                let fails = self.one_of(fields, "otherwise", &otherwise).unwrap_or(false);
                Act::Condition { test: self.test(&text, at, scope)?, fails }
            }
        })
    }

    /// Reads a table of values, some of them from a source.
    fn arguments(&mut self, fields: &mut Fields<'_, '_>, key: &'static str, scope: &Scope<'_>) -> Option<Value> {
        let Some((value, span)) = fields.take(key) else { return Some(Value::Object(Map::new())) };
        if !value.is_table() {
            let what = format!("{key} of {} must be a table", fields.name);
            self.problem(span.start, what, format!("write {key} = {{ path = \".\" }}"));
            return None;
        }
        let values = json(value);
        for (name, source) in sources_in(&values) {
            self.source(source, span.start, &format!("{name} of {}", fields.name), scope);
        }
        let names = argument_names(&values);
        let twice = names.iter().enumerate().find(|(at, name)| names[at + 1..].contains(name));
        if let Some((_, name)) = twice {
            let what = format!("{key} of {} has both {name} and {name}_from", fields.name);
            self.problem(span.start, what, "leave one of them out");
        }
        Some(values)
    }

    fn shell(&mut self, fields: &mut Fields<'_, '_>, scope: &Scope<'_>, is_check: bool) -> Act {
        let command = self.needed(fields, "command").0;
        let (cwd, at) = self.text(fields, "cwd").unwrap_or_else(|| (".".to_owned(), fields.at));
        if leads_out(&cwd) {
            let what = format!("cwd of {}: {cwd:?} leads out of the workspace", fields.name);
            self.problem(at, what, "write a directory of the workspace, such as cwd = \"sub\"");
        }
        let mut env = BTreeMap::new();
        if let Some((value, span)) = fields.take("env_from") {
            let entries = value.as_table().into_iter().flat_map(|table| table.iter());
            if !value.is_table() {
                self.problem(span.start, "env_from must be a table", "write env_from = { DAY = \"input.day\" }");
            }
            for (name, value) in entries {
                let (at, name) = (name.span().start, name.get_ref().to_string());
                if !is_variable(&name) {
                    self.problem(at, format!("{name} can't be a variable of a step"), "use another name in capitals");
                }
                let source = value.get_ref().as_str().ok_or_else(|| format!("{name} must be a text"));
                let place = format!("{name} of {}", fields.name);
                let source = self.source(source.and_then(Source::parse), at, &place, scope);
                env.extend(source.map(|source| (name, source)));
            }
        }
        // A check changes nothing.
        let writes = if is_check { Vec::new() } else { self.texts(fields, "writes") };
        for (pattern, at) in &writes {
            self.pattern(pattern, *at);
        }
        Act::Shell { is_check, command, cwd, env, writes: writes.into_iter().map(|(pattern, _)| pattern).collect() }
    }

    fn test(&mut self, text: &str, at: usize, scope: &Scope<'_>) -> Option<Test> {
        if text.is_empty() {
            return None;
        }
        match Test::parse(text) {
            Ok(test) => {
                self.source(Ok(test.source().clone()), at, "the test", scope)?;
                Some(test)
            }
            Err(why) => {
                self.problem(at, format!("{text:?} is no test: {why}"), "write step.success or input.day == \"today\"");
                None
            }
        }
    }

    /// Checks that a source names an earlier step or an existing input.
    fn source(&mut self, source: Result<Source, String>, at: usize, place: &str, scope: &Scope<'_>) -> Option<Source> {
        let source = match source {
            Ok(source) => source,
            Err(why) => {
                self.problem(at, format!("{place}: {why}"), "write a step's id, step.field, input.name or run.id");
                return None;
            }
        };
        let is_known = match &source {
            Source::Input(name) => scope.inputs.contains_key(name),
            source => source.step().is_none_or(|id| scope.earlier.iter().any(|step| step.id == id)),
        };
        if !is_known {
            let what = format!("{place} comes from {source}, which isn't an earlier step or an input");
            self.problem(at, what, "name an earlier step, or add [inputs.NAME]");
            return None;
        }
        Some(source)
    }

    /// Makes an approval that names no steps cover the calls after it, up to the next approval.
    fn cover_the_rest(&mut self, steps: &mut [Step]) {
        let lines: Vec<usize> = std::mem::take(&mut self.cover_all).into_iter().map(|at| self.line(at)).collect();
        for at in 0..steps.len() {
            let (before, after) = steps.split_at_mut(at + 1);
            let Step { line, act: Act::Approval { covers, .. }, .. } = &mut before[at] else { continue };
            if lines.contains(line) {
                let until = after.iter().take_while(|step| !matches!(step.act, Act::Approval { .. }));
                covers.extend(until.filter(|step| step.act.is_call()).map(|step| step.id.clone()));
            }
        }
    }

    /// Checks that an approval covers later steps that make calls.
    fn check_covers(&mut self, steps: &[Step]) {
        for (of, id, at) in std::mem::take(&mut self.covers) {
            let from = steps.iter().position(|step| of == format!("step {}", step.id)).unwrap_or(0);
            if !steps[from..].iter().any(|later| later.id == id && later.act.is_call()) {
                let what = format!("{of} covers {id}, which is no later tool or shell step");
                self.problem(at, what, "name a step after this one");
            }
        }
    }
}

/// Names that a step may use.
struct Scope<'a> {
    earlier: &'a [Step],
    inputs: &'a BTreeMap<String, Input>,
}

/// Returns whether a text can be a name or an id.
#[must_use]
pub fn is_name(text: &str) -> bool {
    let is_plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-' || c == '_';
    !text.is_empty() && text.len() <= NAME_BYTES_MAX && !text.starts_with('-') && text.chars().all(is_plain)
}

/// Returns whether a relative path leads above its start.
fn leads_out(path: &str) -> bool {
    let mut depth = 0i32;
    !path.starts_with('/')
        && path.split('/').any(|part| {
            depth += match part {
                "" | "." => 0,
                ".." => -1,
                _ => 1,
            };
            depth < 0
        })
}

/// Returns whether a step may set a variable: not one that influences what a program does.
fn is_variable(name: &str) -> bool {
    let is_plain = |c: char| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_';
    name.starts_with(|c: char| c.is_ascii_uppercase())
        && name.chars().all(is_plain)
        && !OWN_VARIABLES.contains(&name)
        && !OWN_PREFIXES.iter().any(|prefix| name.starts_with(prefix))
}

/// A value of the file as JSON.
fn json(value: &DeValue<'_>) -> Value {
    match value {
        DeValue::String(text) => text.to_string().into(),
        DeValue::Integer(number) => {
            i64::from_str_radix(number.as_str(), number.radix()).map_or(Value::Null, Value::from)
        }
        DeValue::Float(number) => {
            number.as_str().parse().ok().and_then(Number::from_f64).map_or(Value::Null, Value::Number)
        }
        DeValue::Boolean(flag) => (*flag).into(),
        DeValue::Datetime(time) => time.to_string().into(),
        DeValue::Array(items) => items.iter().map(|item| json(item.get_ref())).collect(),
        DeValue::Table(table) => {
            let fields = table.iter().map(|(name, value)| (name.get_ref().to_string(), json(value.get_ref())));
            Value::Object(fields.collect())
        }
    }
}
