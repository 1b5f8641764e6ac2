//! Walks through a script as bash would, without running anything: what each command gets as words, as input and as
//! working directory, and what it prints. Every branch is taken; where branches differ, both are followed.

use std::collections::BTreeMap;
use std::rc::Rc;

use super::Context;
use super::place::Map;
use super::state::{State, Var};
use super::text::{self, ANY, NAME, is_known};
use crate::bash::{Assign, AssignValue, Command, Item, Joint, Kind, Pipeline, Redirect, Script, Trouble, Word};
use crate::proto::action::{Effect, Reason, Risk};

/// What something may be, one entry for each way that it may turn out.
pub(super) type Value = Vec<String>;

/// Ways of one value that are followed.
const VALUE_WAYS_MAX: usize = 8;
/// Commands that are looked at, those in loops each time.
const STEPS_MAX: usize = 3000;
/// Bytes of text within text that weigh as much as a command: what is read again and again ends too.
const STEP_BYTES: usize = 64;
/// Constructs, substitutions, calls and scripts inside each other.
const DEPTH_MAX: usize = 64;
/// Turns of a loop that are followed one by one, in all loops together.
const TURNS_MAX: usize = 256;
/// Turns of one loop.
const LOOP_TURNS_MAX: usize = 16;
/// Effects that are told.
const EFFECTS_MAX: usize = 200;
/// Reasons that are told.
const REASONS_MAX: usize = 40;

/// The standard streams of one command.
#[derive(Clone, Default)]
pub(super) struct Streams {
    /// What it can read; `None` where that is the terminal.
    pub(super) input: Option<Value>,
    /// Whether it speaks to the network through a redirection.
    pub(super) is_net: bool,
    /// Files that its output goes to.
    pub(super) files: Vec<(String, bool)>,
    /// Whether its output doesn't come back.
    pub(super) is_away: bool,
    /// Whether what it can read has no end.
    pub(super) is_endless: bool,
}

/// One judgement.
pub(super) struct Run<'m, 'a> {
    pub(super) map: &'m Map<'a>,
    pub(super) context: &'m Context<'a>,
    pub(super) state: State,
    pub(super) reasons: Vec<Reason>,
    pub(super) effects: Vec<Effect>,
    /// What files hold that this very script wrote or fetched.
    pub(super) written: BTreeMap<String, Value>,
    /// Links and copies that it made: which file another name leads to.
    pub(super) links: BTreeMap<String, String>,
    /// Scripts behind `>(…)`, and whether one got what is followed.
    pub(super) sinks: BTreeMap<String, (Rc<Script>, bool)>,
    pub(super) streams: Streams,
    pub(super) depth: usize,
    steps: usize,
    turns: usize,
    /// Functions that are being called, and how many background jobs and pipelines stood open at each call.
    pub(super) calls: Vec<(Rc<Command>, usize)>,
    pub(super) spawns: usize,
    /// Whether commands run on another machine or in a container.
    pub(super) elsewhere: usize,
    /// Whether a function is looked at that nobody has called: its arguments aren't known.
    pub(super) defining: bool,
    pub(super) met_unset: bool,
    pub(super) unset_is_empty: bool,
    /// Aliases that are being followed.
    pub(super) called: Vec<String>,
    /// Makefiles that are being followed.
    pub(super) makes: Vec<super::make::Call>,
    /// Directories of git's hooks beside its own.
    pub(super) hooks: Vec<String>,
    /// Whether what was printed last has no end.
    pub(super) flows: bool,
    /// `$_`: the last word of the command before.
    pub(super) last_word: Value,
    /// What runs at the end of the shell that is being followed, or on a signal.
    pub(super) traps: Vec<String>,
}

impl<'m, 'a> Run<'m, 'a> {
    pub(super) fn new(map: &'m Map<'a>, context: &'m Context<'a>) -> Self {
        let state = State {
            vars: Rc::default(),
            functions: Rc::default(),
            aliases: Rc::default(),
            refs: Rc::default(),
            positional: None,
            name: "bash".to_owned(),
            cwd: vec![context.cwd.to_owned()],
            sockets: Vec::new(),
        };
        Self {
            map,
            context,
            state,
            reasons: Vec::new(),
            effects: Vec::new(),
            written: BTreeMap::new(),
            links: BTreeMap::new(),
            sinks: BTreeMap::new(),
            streams: Streams::default(),
            depth: 0,
            steps: 0,
            turns: 0,
            calls: Vec::new(),
            spawns: 0,
            elsewhere: 0,
            defining: false,
            met_unset: false,
            unset_is_empty: false,
            called: Vec::new(),
            makes: Vec::new(),
            hooks: Vec::new(),
            flows: false,
            last_word: vec![ANY.to_string()],
            traps: Vec::new(),
        }
    }

    /// Notes a reason.
    pub(super) fn note(&mut self, risk: Risk, rule: &'static str, text: impl Into<String>) {
        let text = text::shown(&text.into());
        let alike = |reason: &Reason| {
            reason.rule == rule && reason.risk >= risk && (reason.text == text || self.reasons.len() > 8)
        };
        if self.reasons.iter().any(alike) {
            return;
        }
        if self.reasons.len() < REASONS_MAX || risk == Risk::Blocked {
            self.reasons.push(Reason { rule, risk, text });
        }
    }

    pub(super) fn block(&mut self, rule: &'static str, text: impl Into<String>) {
        self.note(Risk::Blocked, rule, text);
    }

    /// Of the reasons behind the first so many keeps what something is blocked for.
    pub(super) fn keep_blocked(&mut self, known: usize) {
        let mut at = 0;
        self.reasons.retain(|reason| {
            at += 1;
            at <= known || reason.risk == Risk::Blocked
        });
    }

    /// Blocks what isn't known well enough; in a function that nobody has called yet it is only doubtful.
    pub(super) fn block_unknown(&mut self, rule: &'static str, text: impl Into<String>) {
        self.note(if self.defining { Risk::High } else { Risk::Blocked }, rule, text);
    }

    pub(super) fn signal(&mut self, rule: &'static str, text: &str) {
        self.note(Risk::High, rule, text);
    }

    /// Notes that something isn't understood.
    pub(super) fn doubt(&mut self, what: &str) {
        self.note(Risk::High, "not-understood", what);
    }

    pub(super) fn effect(&mut self, effect: Effect) {
        if self.effects.len() < EFFECTS_MAX {
            if !self.effects.contains(&effect) {
                self.effects.push(effect);
            }
        } else {
            self.doubt("it does more than is told here");
        }
    }

    /// The working directory, where there is but one way.
    pub(super) fn cwd(&self) -> String {
        match self.state.cwd.as_slice() {
            [one] => one.clone(),
            _ => ANY.to_string(),
        }
    }

    /// The absolute paths that a path may mean, links that the script made followed.
    pub(super) fn absolute(&self, path: &str) -> Vec<String> {
        let mut made: Vec<String> = if path.starts_with('/') || path.starts_with(text::is_open) {
            vec![path.to_owned()]
        } else {
            self.state.cwd.iter().map(|cwd| format!("{cwd}/{path}")).collect()
        };
        for path in &mut made {
            *path = super::place::Place::of(path).text();
            for _ in 0..4 {
                let leads = self.links.iter().find(|(from, _)| {
                    path.strip_prefix(from.as_str()).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
                });
                let Some((from, to)) = leads else { break };
                *path = format!("{to}{}", &path[from.len()..]);
            }
        }
        made
    }

    /// Reads a script and walks through it.
    pub(super) fn text(&mut self, text: &str) -> Value {
        if text.len() > super::SCRIPT_BYTES_MAX {
            self.block("too-long", "the script is longer than is looked at");
            return vec![ANY.to_string()];
        }
        let (script, trouble) = crate::bash::parse(text, self.depth);
        match trouble {
            Some(Trouble::Depth) => self.block("too-deep", "it is nested deeper than is looked at"),
            Some(Trouble::Syntax) => self.note(Risk::High, "syntax", "bash's grammar doesn't have it so"),
            None => {}
        }
        self.script(&script)
    }

    /// Walks one level deeper; false where that is too deep.
    pub(super) fn deeper<T>(&mut self, walk: impl FnOnce(&mut Self) -> T, otherwise: T) -> T {
        if self.depth >= DEPTH_MAX {
            self.block("too-deep", "it is nested deeper than is looked at");
            return otherwise;
        }
        self.depth += 1;
        let value = walk(self);
        self.depth -= 1;
        value
    }

    /// Walks in a shell of its own: what is set there is gone behind.
    pub(super) fn subshell<T>(&mut self, walk: impl FnOnce(&mut Self) -> T) -> T {
        let state = self.state.clone();
        let outer = std::mem::take(&mut self.traps);
        let value = walk(self);
        self.run_traps();
        self.traps = outer;
        self.state = state;
        value
    }

    pub(super) fn script(&mut self, script: &Script) -> Value {
        let mut printed = vec![String::new()];
        for item in &script.items {
            let more = self.item(item);
            printed = joined(printed, more);
        }
        printed
    }

    fn item(&mut self, item: &Item) -> Value {
        if item.background {
            self.spawns += 1;
            let printed = self.subshell(|run| run.and_or(item));
            self.spawns -= 1;
            return printed;
        }
        self.and_or(item)
    }

    /// Each command of a list gets the state of the way that leads to it: behind `&&` what was before went well.
    fn and_or(&mut self, item: &Item) -> Value {
        let mut printed = self.pipeline(&item.first);
        if item.rest.is_empty() {
            return printed;
        }
        let mut failed = self.state.clone();
        for (joint, pipeline) in &item.rest {
            let other = match joint {
                Joint::And => failed,
                Joint::Or => std::mem::replace(&mut self.state, failed),
            };
            let more = self.pipeline(pipeline);
            printed = joined(printed, more);
            failed = self.state.clone();
            match joint {
                Joint::And => failed.merge(other),
                Joint::Or => self.state.merge(other),
            }
        }
        self.state.merge(failed);
        printed
    }

    fn pipeline(&mut self, pipeline: &Pipeline) -> Value {
        let [command] = pipeline.commands.as_slice() else {
            let outer = self.streams.clone();
            self.spawns += 1;
            let mut data = outer.input.clone();
            self.flows = outer.is_endless;
            for command in &pipeline.commands {
                let is_endless = std::mem::take(&mut self.flows);
                self.streams = Streams { input: data, is_endless, ..Streams::default() };
                data = Some(self.subshell(|run| run.command(command)));
            }
            self.spawns -= 1;
            self.streams = outer;
            return data.unwrap_or_default();
        };
        self.command(command)
    }

    /// Counts steps; `false` where there are more than are looked at.
    pub(super) fn takes_steps(&mut self, steps: usize) -> bool {
        self.steps += steps;
        if self.steps > STEPS_MAX {
            self.block("too-complex", "it does more than is looked at");
        }
        self.steps <= STEPS_MAX
    }

    /// Counts a text that is read as code, before it is.
    pub(super) fn takes_text(&mut self, text: &str) -> bool {
        self.takes_steps(text.len() / STEP_BYTES)
    }

    pub(super) fn command(&mut self, command: &Command) -> Value {
        if !self.takes_steps(1) {
            return vec![ANY.to_string()];
        }
        if let Kind::Simple { assigns, words } = &command.kind {
            return self.deeper(|run| run.simple(assigns, words, &command.redirects), vec![ANY.to_string()]);
        }
        let outer = self.streams.clone();
        self.redirect(&command.redirects, false);
        // What the commands inside print is put there at their end, all of it.
        let files = std::mem::take(&mut self.streams.files);
        let is_away = std::mem::replace(&mut self.streams.is_away, false);
        let printed = self.deeper(|run| run.compound(&command.kind), vec![ANY.to_string()]);
        self.streams.files = files;
        self.streams.is_away = is_away;
        let printed = self.deliver(printed);
        let rest = self.streams.input.take();
        self.streams = outer;
        if command.redirects.is_empty() && self.streams.input.is_some() {
            self.streams.input = rest;
        }
        printed
    }

    fn compound(&mut self, kind: &Kind) -> Value {
        match kind {
            Kind::Simple { .. } => vec![String::new()],
            Kind::Group(script) => self.script(script),
            Kind::Subshell(script) => self.subshell(|run| run.script(script)),
            Kind::If { tests, otherwise } => self.branches(tests, otherwise.as_ref()),
            Kind::While { test, body } => self.repeat(test, body),
            Kind::For { name, words, body } => self.each(name, words.as_deref(), body),
            Kind::ArithmeticFor { head, body } => {
                self.arithmetic(head);
                let head = crate::bash::unquoted(head);
                let is_endless = head.split(';').nth(1).is_some_and(|test| matches!(test.trim(), "" | "1"));
                self.endless(is_endless, body);
                self.counts(head.split(';').next().unwrap_or_default());
                self.forget_assigned(body);
                let before = self.state.clone();
                let printed = self.script(body);
                self.turns += 1;
                // Once more, for what a turn carries on.
                match self.state == before || self.turns > TURNS_MAX {
                    true => printed,
                    false => joined(printed, self.script(body)),
                }
            }
            Kind::Case { word, arms } => self.choices(word, arms),
            Kind::Function { name, body } => {
                self.define(name, body);
                vec![String::new()]
            }
            Kind::Arithmetic(word) => {
                self.arithmetic(word);
                vec![String::new()]
            }
            Kind::Test(words) => {
                for word in words {
                    let value = self.value(word);
                    self.subscripts_in(&value);
                }
                vec![String::new()]
            }
            Kind::Coprocess(command) => {
                self.spawns += 1;
                self.subshell(|run| run.command(command));
                self.spawns -= 1;
                vec![String::new()]
            }
        }
    }

    fn branches(&mut self, tests: &[(Script, Script)], otherwise: Option<&Script>) -> Value {
        let mut printed = vec![String::new()];
        let mut ends: Vec<State> = Vec::new();
        for (test, body) in tests {
            let from_test = self.script(test);
            let before = self.state.clone();
            let from_body = self.script(body);
            printed = either(printed, joined(from_test, from_body));
            ends.push(std::mem::replace(&mut self.state, before));
        }
        if let Some(script) = otherwise {
            let more = self.script(script);
            printed = either(printed, more);
        }
        for end in ends {
            self.state.merge(end);
        }
        printed
    }

    fn choices(&mut self, subject: &Word, arms: &[(Vec<Word>, Script)]) -> Value {
        self.value(subject);
        let before = self.state.clone();
        let mut printed = vec![String::new()];
        for (patterns, script) in arms {
            let reached = std::mem::replace(&mut self.state, before.clone());
            for pattern in patterns {
                self.value(pattern);
            }
            let more = self.script(script);
            printed = either(printed, more);
            self.state.merge(reached);
        }
        printed
    }

    fn repeat(&mut self, test: &Script, body: &Script) -> Value {
        let is_endless = super::flood::never_ends(test) || self.streams.is_endless && super::flood::reads_a_line(test);
        self.endless(is_endless, body);
        let mut printed = vec![String::new()];
        for turn in 0..LOOP_TURNS_MAX {
            let left = self.streams.input.clone();
            let before = self.state.clone();
            let from_test = self.script(test);
            let from_body = self.script(body);
            printed = joined(joined(printed, from_test), from_body);
            self.turns += 1;
            // A loop that reads known lines goes on while there are some; another is walked twice, for what it carries on.
            let reads =
                self.streams.input != left && self.streams.input.as_ref().is_some_and(|left| !left[0].is_empty());
            let carries = turn == 0 && self.state != before;
            if !(reads || carries) || self.turns > TURNS_MAX {
                break;
            }
        }
        self.flows |= is_endless;
        printed
    }

    fn each(&mut self, name: &str, words: Option<&[Word]>, body: &Script) -> Value {
        let values: Vec<String> = match words {
            Some(words) => self.with_unset(|run| run.fields(words)).into_iter().flatten().collect(),
            None => match &self.state.positional {
                Some(values) => values.iter().flatten().cloned().collect(),
                None => vec![ANY.to_string()],
            },
        };
        let mut distinct: Vec<String> = Vec::new();
        for value in values {
            if !distinct.contains(&value) {
                distinct.push(value);
            }
        }
        if distinct.is_empty() {
            // Nothing to go through, as far as is known here.
            distinct.push(ANY.to_string());
        }
        let mut printed = vec![String::new()];
        if distinct.len() <= LOOP_TURNS_MAX && self.turns + distinct.len() <= TURNS_MAX {
            for value in distinct {
                self.turns += 1;
                self.assign_scalar(name, vec![value]);
                let more = self.script(body);
                printed = joined(printed, more);
            }
            return printed;
        }
        // Too many: each value is one way, the body is walked once.
        for values in distinct.chunks(VALUE_WAYS_MAX).take(16) {
            self.assign_scalar(name, values.to_vec());
            let more = self.script(body);
            printed = joined(printed, more);
        }
        if distinct.len() > 16 * VALUE_WAYS_MAX {
            self.assign_scalar(name, vec![ANY.to_string()]);
            self.script(body);
        }
        printed
    }

    /// What the head of a loop sets to begin with is a number, whatever is calculated.
    fn counts(&mut self, start: &str) {
        if start.contains(['(', '?', '&', '|', '[', '$', '`']) {
            return;
        }
        for (name, value) in start.split(',').filter_map(|part| part.split_once('=')) {
            let name = name.trim();
            let is_name = !name.starts_with(|c: char| c.is_ascii_digit())
                && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
            if is_name && !name.is_empty() && !value.starts_with('=') {
                self.assign_scalar(name, vec![NAME.to_string()]);
            }
        }
    }

    /// What a loop assigns has another value in its next turn.
    fn forget_assigned(&mut self, body: &Script) {
        for item in &body.items {
            for command in &item.first.commands {
                if let Kind::Simple { assigns, words } = &command.kind
                    && words.is_empty()
                {
                    for assign in assigns {
                        Rc::make_mut(&mut self.state.vars).remove(&assign.name);
                    }
                }
            }
        }
    }

    fn define(&mut self, name: &str, body: &Rc<Command>) {
        if !is_known(name) || name.is_empty() {
            self.doubt("a function whose name isn't known");
            return;
        }
        self.effect(Effect::Define { name: format!("{name}()") });
        Rc::make_mut(&mut self.state.functions).insert(name.to_owned(), Rc::clone(body));
        // The shell lives on: what nobody calls here may be called later.
        let outer = (self.defining, self.state.clone(), self.streams.clone());
        self.defining = true;
        self.state.positional = None;
        self.calls.push((Rc::clone(body), self.spawns));
        self.streams = Streams { input: Some(vec![ANY.to_string()]), ..Streams::default() };
        self.command(body);
        self.calls.pop();
        (self.defining, self.state, self.streams) = outer;
    }

    /// Walks with unset variables unknown, and once more with them empty where one was met.
    pub(super) fn with_unset<T: Clone>(&mut self, mut walk: impl FnMut(&mut Self) -> Vec<T>) -> Vec<T> {
        let outer = std::mem::take(&mut self.met_unset);
        let mut ways = walk(self);
        if self.met_unset && !self.unset_is_empty {
            self.unset_is_empty = true;
            ways.append(&mut walk(self));
            self.unset_is_empty = false;
        }
        self.met_unset |= outer;
        ways
    }

    fn simple(&mut self, assigns: &[Assign], words: &[Word], redirects: &[Redirect]) -> Value {
        let mut ways = self.with_unset(|run| run.fields(words));
        ways.dedup();
        let outer = self.streams.clone();
        let is_exec = words.len() == 1 && crate::bash::unquoted(&words[0]) == "exec";
        self.redirect(redirects, is_exec);
        let is_bare = words.is_empty();
        let kept: Vec<(String, Option<Var>)> = match is_bare {
            true => Vec::new(),
            false => assigns.iter().map(|it| (it.name.clone(), self.state.vars.get(&it.name).cloned())).collect(),
        };
        self.flows = false;
        let declares = ways.first().and_then(|way| way.first()).is_some_and(|name| super::builtin::declares(name));
        let makes_refs = declares && ways.first().is_some_and(|way| super::builtin::makes_refs(way));
        for assign in assigns {
            if declares {
                Rc::make_mut(&mut self.state.refs).remove(&assign.name);
            }
            if !makes_refs || !self.refer(assign) {
                self.assign(assign, is_bare || declares);
            }
            if declares {
                self.compound_text(&assign.name, ways.first().map_or(&[], Vec::as_slice));
            }
        }
        let last_word: Value = ways.iter().map(|way| way.last().cloned().unwrap_or_default()).collect();
        let printed = self.each_way(ways, is_bare && !redirects.is_empty());
        if !is_bare {
            self.last_word = limited(last_word);
        }
        let printed = self.deliver(printed);
        let rest = self.streams.input.take();
        self.streams = outer;
        if redirects.is_empty() && self.streams.input.is_some() {
            self.streams.input = rest;
        }
        if !declares {
            for (name, var) in kept {
                match var {
                    Some(var) => _ = Rc::make_mut(&mut self.state.vars).insert(name, var),
                    None => _ = Rc::make_mut(&mut self.state.vars).remove(&name),
                }
            }
        }
        printed
    }

    /// Runs a command in each way that its words may turn out, each from the same state, and puts together what comes of it.
    /// What isn't known comes last: it is what stays where two ways can't become one.
    fn each_way(&mut self, ways: Vec<Vec<String>>, passes_input: bool) -> Value {
        let before = (ways.len() > 1).then(|| self.state.clone());
        let mut ends: Vec<State> = Vec::new();
        let mut printed: Option<Value> = None;
        for way in ways.into_iter().rev() {
            if let Some(before) = before.as_ref().filter(|_| printed.is_some()) {
                ends.push(std::mem::replace(&mut self.state, before.clone()));
            }
            // A word that came out empty and unquoted is no word.
            let more = match way.is_empty() {
                true if passes_input => self.streams.input.clone().unwrap_or_default(),
                true => vec![String::new()],
                false => self.exec(way),
            };
            printed = Some(match printed {
                Some(before) => either(before, more),
                None => more,
            });
        }
        ends.into_iter().for_each(|end| self.state.merge(end));
        printed.unwrap_or_else(|| vec![String::new()])
    }

    /// `declare -a x='(a b)'`: the text is read once more, as an array.
    fn compound_text(&mut self, name: &str, argv: &[String]) {
        let is_array = argv.iter().any(|word| word.starts_with('-') && word.contains(['a', 'A']));
        let value = self.variable(name).filter(|value| is_array && value.starts_with('(') && value.ends_with(')'));
        if let Some(value) = value {
            self.text(&format!("{name}={value}"));
        }
    }

    /// Makes one variable another's name; `false` where it isn't known whose.
    fn refer(&mut self, assign: &Assign) -> bool {
        let AssignValue::Scalar(word) = &assign.value else { return false };
        let ways = self.plain_value(word);
        let [target] = ways.as_slice() else { return false };
        let is_name = target.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
        if is_name && !target.is_empty() && *target != assign.name {
            Rc::make_mut(&mut self.state.refs).insert(assign.name.clone(), target.clone());
            return true;
        }
        false
    }

    fn assign(&mut self, assign: &Assign, lasts: bool) {
        match self.state.meant(&assign.name) {
            target if target == assign.name => self.assign_itself(assign, lasts),
            // Names may go round in a circle: what it leads to is taken as it is.
            target => {
                let target = Assign { name: target.to_owned(), ..assign.clone() };
                self.assign_itself(&target, lasts);
            }
        }
    }

    fn assign_itself(&mut self, assign: &Assign, lasts: bool) {
        let index = assign.index.as_ref().map(|word| {
            let key = self.value(word).into_iter().next().unwrap_or_default();
            self.subscript(&key)
        });
        match &assign.value {
            AssignValue::Scalar(word) => {
                let value = limited(self.with_unset(|run| run.plain_value(word)));
                self.environment_rules(&assign.name, &value, lasts);
                if let Some(name) = &index {
                    self.command_table(&assign.name, name, &value);
                }
                let before = self.state.vars.get(&assign.name).cloned();
                let value = match (assign.append, &before) {
                    (true, Some(before)) => {
                        joined(before.element(index.as_deref().unwrap_or("0")).unwrap_or_default(), value)
                    }
                    _ => value,
                };
                match (index, before) {
                    (None, Some(Var::Array(mut items))) => {
                        items.retain(|(key, _)| key != "0");
                        items.insert(0, ("0".to_owned(), value));
                        Rc::make_mut(&mut self.state.vars).insert(assign.name.clone(), Var::Array(items));
                    }
                    (None, _) => self.set_scalar(&assign.name, value),
                    (Some(key), before) => {
                        let mut items = match before {
                            Some(Var::Array(items)) => items,
                            Some(Var::Scalar(value)) => vec![("0".to_owned(), value)],
                            None => Vec::new(),
                        };
                        items.retain(|(own, _)| *own != key);
                        items.push((key, value));
                        items.sort_by_key(|(key, _)| key.parse::<u64>().unwrap_or(u64::MAX));
                        Rc::make_mut(&mut self.state.vars).insert(assign.name.clone(), Var::Array(items));
                    }
                }
            }
            AssignValue::Array(items) => self.assign_array(assign, items),
        }
    }

    fn assign_array(&mut self, assign: &Assign, items: &[(Option<Word>, Word)]) {
        let mut made: Vec<(String, Value)> = match (assign.append, self.state.vars.get(&assign.name)) {
            (true, Some(Var::Array(before))) => before.clone(),
            (true, Some(Var::Scalar(value))) => vec![("0".to_owned(), value.clone())],
            _ => Vec::new(),
        };
        let mut next = made.len();
        for (index, word) in items {
            if let Some(index) = index {
                let key = self.value(index).into_iter().next().unwrap_or_default();
                let value = self.plain_value(word);
                next = key.parse::<usize>().map_or(next, |at| at + 1);
                made.push((key, value));
                continue;
            }
            let ways = self.fields(std::slice::from_ref(word));
            let longest = ways.iter().map(Vec::len).max().unwrap_or(0);
            for at in 0..longest {
                let value = ways.iter().filter_map(|way| way.get(at)).cloned().collect();
                made.push((next.to_string(), limited(value)));
                next += 1;
            }
        }
        made.sort_by_key(|(key, _)| key.parse::<u64>().unwrap_or(u64::MAX));
        for (key, value) in &made {
            self.command_table(&assign.name, key, value);
        }
        let values: Value = made.iter().flat_map(|(_, value)| value.clone()).collect();
        self.environment_rules(&assign.name, &values, true);
        Rc::make_mut(&mut self.state.vars).insert(assign.name.clone(), Var::Array(made));
    }

    /// Sets a variable in another way than by an assignment: `read`, `for`, `printf -v`, `${x:=…}`.
    pub(super) fn assign_scalar(&mut self, name: &str, value: Value) {
        let target = self.state.meant(name).to_owned();
        self.environment_rules(&target, &value, true);
        self.set_scalar(&target, value);
    }

    fn set_scalar(&mut self, name: &str, value: Value) {
        let name = self.state.meant(name).to_owned();
        Rc::make_mut(&mut self.state.vars).insert(name, Var::Scalar(limited(value)));
    }
}

/// Keeps a value within the ways that are followed.
pub(super) fn limited(mut value: Value) -> Value {
    value.dedup();
    if value.len() > VALUE_WAYS_MAX {
        return vec![ANY.to_string()];
    }
    if value.iter().any(|way| way.len() > super::SCRIPT_BYTES_MAX) {
        return vec![ANY.to_string()];
    }
    value
}

/// What is printed by one after the other.
pub(super) fn joined(first: Value, second: Value) -> Value {
    match (first.as_slice(), second.as_slice()) {
        (_, [only]) if only.is_empty() => first,
        ([only], _) if only.is_empty() => second,
        _ => {
            let mut made = Value::new();
            for one in &first {
                for two in &second {
                    made.push(format!("{one}{two}"));
                }
            }
            limited(made)
        }
    }
}

/// What is printed by one or the other.
pub(super) fn either(mut first: Value, second: Value) -> Value {
    for way in second {
        if !first.contains(&way) {
            first.push(way);
        }
    }
    limited(first)
}
