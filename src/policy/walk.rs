//! Walks through a script as bash would, without running anything: the words, input and working directory of each command, and
//! its output. Every branch is walked; if branches differ, both results are followed.

use std::rc::Rc;

use super::Context;
use super::builtins;
use super::findings::Findings;
use super::piece::{Source, Text};
use super::place::Map;
use super::shell::{Budget, ScriptFiles, Shell, Var, limited};
use crate::bash::{
    self, Assign, AssignValue, Command, Item, Joint, Kind, Pipeline, Redirect, RedirectOp, Script, Trouble, Word,
};
use crate::proto::action::{Effect, Risk, WriteKind};

/// Turns of one loop that are followed one by one.
const LOOP_TURNS_MAX: usize = 16;
/// Longest output that is followed, in pieces of text.
const OUTPUT_PIECES_MAX: usize = 64;

pub(super) struct Walk<'m, 'a> {
    pub(super) context: &'m Context<'a>,
    pub(super) shell: Shell,
    pub(super) budget: Budget,
    pub(super) found: Findings<'m, 'a>,
    pub(super) created: ScriptFiles,
    /// The text that the present command can read; `None` if that is the terminal.
    pub(super) input: Option<Text>,
}

/// Destinations of a command's output, according to its redirections.
#[derive(Default)]
struct Outputs {
    /// Files that it is written to, and whether it is appended.
    files: Vec<(Text, bool)>,
    /// True if none of it is returned.
    is_away: bool,
}

impl<'m, 'a> Walk<'m, 'a> {
    pub(super) fn new(map: &'m Map<'a>, context: &'m Context<'a>) -> Self {
        Self {
            context,
            shell: Shell::new(context.cwd),
            budget: Budget::default(),
            found: Findings::new(map),
            created: ScriptFiles::default(),
            input: None,
        }
    }

    /// Notes that something isn't understood.
    pub(super) fn doubt(&mut self, what: &str) {
        self.found.high("not-understood", what);
    }

    /// Takes steps of the budget; `false` if there are none left.
    pub(super) fn takes(&mut self, steps: usize) -> bool {
        let has = self.budget.take(steps);
        if !has {
            self.found.block("too-complex", "it does more than is looked at");
        }
        has
    }

    /// Reads a script and walks through it.
    pub(super) fn text(&mut self, text: &str) -> Text {
        if text.len() > bash::SCRIPT_BYTES_MAX {
            self.found.block("too-long", "the script is longer than is looked at");
            return Source::Any.into();
        }
        let (script, trouble) = bash::parse(text, self.budget.depth);
        match trouble {
            Some(Trouble::Depth) => self.found.block("too-deep", "it is nested deeper than is looked at"),
            Some(Trouble::Syntax) => self.found.high("syntax", "bash's grammar doesn't have it so"),
            None => {}
        }
        self.script(&script)
    }

    pub(super) fn deeper(&mut self, walk: impl FnOnce(&mut Self) -> Text) -> Text {
        if self.budget.is_deep() {
            self.found.block("too-deep", "it is nested deeper than is looked at");
            return Source::Any.into();
        }
        self.budget.depth += 1;
        let value = walk(self);
        self.budget.depth -= 1;
        value
    }

    /// Walks in a subshell: its settings are gone afterwards.
    pub(super) fn subshell(&mut self, walk: impl FnOnce(&mut Self) -> Text) -> Text {
        let shell = self.shell.clone();
        self.shell.traps.clear();
        let value = walk(self);
        self.run_traps();
        self.shell = shell;
        value
    }

    /// Walks in the background or in a pipeline.
    fn spawned<T>(&mut self, walk: impl FnOnce(&mut Self) -> T) -> T {
        self.budget.spawns += 1;
        let value = walk(self);
        self.budget.spawns -= 1;
        value
    }

    pub(super) fn with_input(&mut self, input: Option<Text>, walk: impl FnOnce(&mut Self) -> Text) -> Text {
        let outer = std::mem::replace(&mut self.input, input);
        let value = walk(self);
        self.input = outer;
        value
    }

    /// Walks through the traps for the end, with the variables at that time.
    pub(super) fn run_traps(&mut self) {
        for code in std::mem::take(&mut self.shell.traps) {
            self.code(&code);
        }
    }

    pub(super) fn script(&mut self, script: &Script) -> Text {
        let mut printed = Text::default();
        for item in &script.items {
            // Code after an end is examined too.
            self.shell.is_over = false;
            printed = joined(printed, &self.item(item));
        }
        printed
    }

    fn item(&mut self, item: &Item) -> Text {
        match item.background {
            true => self.spawned(|walk| walk.subshell(|walk| walk.and_or(item))),
            false => self.and_or(item),
        }
    }

    /// Walks a list, whose commands each get the state of the path that leads to it: after `&&` the previous command succeeded.
    fn and_or(&mut self, item: &Item) -> Text {
        if item.rest.is_empty() {
            return self.pipeline(&item.first);
        }
        let before = self.shell.clone();
        let mut printed = self.pipeline(&item.first);
        let mut failed = before;
        for (joint, pipeline) in &item.rest {
            let other = match joint {
                Joint::And => failed,
                Joint::Or => std::mem::replace(&mut self.shell, failed),
            };
            let start = self.shell.clone();
            printed = joined(printed, &self.pipeline(pipeline));
            failed = start;
            match joint {
                Joint::And => failed.merge(other),
                Joint::Or => self.shell.merge(other),
            }
        }
        self.shell.merge(failed);
        printed
    }

    fn pipeline(&mut self, pipeline: &Pipeline) -> Text {
        if let [command] = pipeline.commands.as_slice() {
            return self.command(command);
        }
        let outer = self.input.clone();
        let mut data = outer.clone();
        for command in &pipeline.commands {
            self.input = data;
            data = Some(self.spawned(|walk| walk.subshell(|walk| walk.command(command))));
        }
        self.input = outer;
        data.unwrap_or_default()
    }

    pub(super) fn command(&mut self, command: &Command) -> Text {
        if !self.takes(1) {
            return Source::Any.into();
        }
        if let Kind::Simple { assigns, words } = &command.kind {
            return self.deeper(|walk| walk.simple(assigns, words, &command.redirects));
        }
        self.redirected(&command.redirects, |walk| walk.deeper(|walk| walk.compound(&command.kind)))
    }

    /// Walks with the redirections of a command.
    fn redirected(&mut self, redirects: &[Redirect], walk: impl FnOnce(&mut Self) -> Text) -> Text {
        let outer = self.input.clone();
        let outputs = self.redirect(redirects);
        let printed = walk(self);
        let printed = self.deliver(printed, &outputs);
        if !redirects.is_empty() || outer.is_none() {
            self.input = outer;
        }
        printed
    }

    fn compound(&mut self, kind: &Kind) -> Text {
        match kind {
            Kind::Simple { .. } => {}
            Kind::Group(script) => return self.script(script),
            Kind::Subshell(script) => return self.subshell(|walk| walk.script(script)),
            Kind::If { tests, otherwise } => return self.branches(tests, otherwise.as_ref()),
            Kind::While { test, body } => return self.repeat(test, body),
            Kind::For { name, words, body } => return self.each(name, words.as_deref(), body),
            Kind::Case { word, arms } => return self.choices(word, arms),
            Kind::ArithmeticFor { head, body } => {
                self.arithmetic(head);
                let text = bash::unquoted(head);
                self.endless(text.split(';').nth(1).is_some_and(|test| matches!(test.trim(), "" | "1")), body);
                for (name, _) in text.split([';', ',']).filter_map(|part| part.split_once('=')) {
                    self.shell.set(name.trim().trim_matches(['(', '<', '>', '!', '+', '-']), vec![Source::Name.into()]);
                }
                let first = self.script(body);
                return joined(first, &self.script(body));
            }
            Kind::Function { name, body } => self.define(name, body),
            Kind::Arithmetic(word) => _ = self.arithmetic(word),
            Kind::Test(words) => {
                for word in words {
                    let value = self.single(word);
                    self.subscripts(&value);
                }
            }
            Kind::Coprocess(command) => _ = self.spawned(|walk| walk.subshell(|walk| walk.command(command))),
        }
        Text::default()
    }

    fn branches(&mut self, tests: &[(Script, Script)], otherwise: Option<&Script>) -> Text {
        let mut printed: Option<Text> = None;
        let mut ends: Vec<Shell> = Vec::new();
        for (test, body) in tests {
            let from_test = self.script(test);
            let before = self.shell.clone();
            let more = self.script(body);
            printed = Some(either(printed, joined(from_test, &more)));
            ends.push(std::mem::replace(&mut self.shell, before));
        }
        if let Some(script) = otherwise {
            printed = Some(either(printed, self.script(script)));
        }
        ends.into_iter().for_each(|end| self.shell.merge(end));
        printed.unwrap_or_default()
    }

    fn choices(&mut self, subject: &Word, arms: &[(Vec<Word>, Script)]) -> Text {
        self.value(subject);
        let before = self.shell.clone();
        let mut printed = None;
        for (patterns, script) in arms {
            let reached = std::mem::replace(&mut self.shell, before.clone());
            for pattern in patterns {
                self.value(pattern);
            }
            printed = Some(either(printed, self.script(script)));
            self.shell.merge(reached);
        }
        printed.unwrap_or_default()
    }

    fn repeat(&mut self, test: &Script, body: &Script) -> Text {
        self.endless(bash::never_ends(test), body);
        let mut printed = Text::default();
        for turn in 0..LOOP_TURNS_MAX {
            let left = self.input.clone();
            let before = self.shell.clone();
            let from_test = self.script(test);
            let from_body = self.script(body);
            printed = joined(joined(printed, &from_test), &from_body);
            if bash::never_ends(test) && !printed.is_empty() {
                printed.push(super::piece::Piece::Unknown(Source::Program));
            }
            // A loop that reads known lines continues while there are some; others are walked twice, for the state they carry on.
            let reads = self.input != left && self.input.as_ref().is_some_and(|left| !left.is_empty());
            if !(reads || turn == 0 && self.shell != before) || !self.takes(1) {
                break;
            }
        }
        printed
    }

    /// A loop that starts something in the background each time, perhaps without an end.
    fn endless(&mut self, is_endless: bool, body: &Script) {
        if bash::starts_jobs(body) && !bash::waits(body) {
            let risk = if is_endless { Risk::Blocked } else { Risk::High };
            self.found.note(risk, "fork-bomb", "a loop starts ever more processes");
        }
    }

    fn each(&mut self, name: &str, words: Option<&[Word]>, body: &Script) -> Text {
        let mut values: Vec<Text> = match words {
            Some(words) => self.fields(words).into_iter().flatten().collect(),
            None => self.shell.positional.clone().unwrap_or_else(|| vec![Source::Any.into()]),
        };
        values.dedup();
        if values.is_empty() {
            // Nothing to go through, as far as is known here.
            values.push(Source::Any.into());
        }
        let mut printed = Text::default();
        // Too many: several values are ways of one turn.
        let width = if values.len() > LOOP_TURNS_MAX { 8 } else { 1 };
        for ways in values.chunks(width).take(LOOP_TURNS_MAX) {
            builtins::sets(self, name, ways, false);
            self.shell.set(name, ways.to_vec());
            printed = joined(printed, &self.script(body));
        }
        printed
    }

    fn define(&mut self, name: &str, body: &Rc<Command>) {
        if name.is_empty() {
            return self.doubt("a function whose name isn't known");
        }
        self.found.effect(Effect::Define { name: format!("{name}()") });
        Rc::make_mut(&mut self.shell.functions).insert(name.to_owned(), Rc::clone(body));
        // The shell continues: a function that isn't called here may be called later.
        let outer = self.shell.clone();
        self.shell.positional = None;
        self.budget.calls.push((Rc::clone(body), self.budget.spawns));
        self.with_input(Some(Source::Any.into()), |walk| walk.command(body));
        self.budget.calls.pop();
        self.shell = outer;
    }

    fn simple(&mut self, assigns: &[Assign], words: &[Word], redirects: &[Redirect]) -> Text {
        let ways = self.fields(words);
        self.redirected(redirects, |walk| walk.assigned(assigns, ways, words.is_empty(), !redirects.is_empty()))
    }

    fn assigned(&mut self, assigns: &[Assign], ways: Vec<Vec<Text>>, is_bare: bool, is_redirected: bool) -> Text {
        let name = ways.first().and_then(|way| way.first()).map_or("", |name| name.lossy());
        let declares = matches!(name, "declare" | "typeset" | "local" | "export" | "readonly");
        let before: Vec<(String, Option<Var>)> = match is_bare || declares {
            true => Vec::new(),
            false => assigns.iter().map(|it| (it.name.clone(), self.shell.vars.get(&it.name).cloned())).collect(),
        };
        for assign in assigns {
            // `local` and `declare` set variables of the shell alone.
            self.assign(assign, !is_bare && (!declares || name == "export"));
        }
        let last_word = ways.last().and_then(|way| way.last()).cloned();
        let printed = match ways.as_slice() {
            [way] if way.is_empty() && is_redirected => self.input.clone().unwrap_or_default(),
            _ => self.each_way(ways),
        };
        self.shell.last_word = last_word.unwrap_or_default();
        before.into_iter().for_each(|(name, var)| self.shell.put(&name, var));
        printed
    }

    /// Runs a command in each way that its words may turn out, each from the same state.
    fn each_way(&mut self, mut ways: Vec<Vec<Text>>) -> Text {
        ways.dedup();
        let Some(last) = ways.pop() else { return Text::default() };
        if ways.is_empty() {
            return self.exec(last, true);
        }
        let before = self.shell.clone();
        let mut printed = Some(self.exec(last, true));
        for way in ways {
            let end = std::mem::replace(&mut self.shell, before.clone());
            printed = Some(either(printed, self.exec(way, true)));
            self.shell.merge(end);
        }
        printed.unwrap_or_default()
    }

    /// Assigns a variable; `is_environment` if programs get it.
    fn assign(&mut self, assign: &Assign, is_environment: bool) {
        let key = assign.index.as_ref().map(|index| self.subscript(index));
        let items = match &assign.value {
            AssignValue::Array(items) => items,
            AssignValue::Scalar(word) => {
                let mut value = self.plain_value(word);
                if assign.append && key.is_none() {
                    let before = self.shell.vars.get(&assign.name).map(Var::ways).unwrap_or_default();
                    let all = before.iter().flat_map(|one| value.iter().map(move |two| one.clone().then(two)));
                    value = if before.is_empty() { value } else { limited(all.collect()) };
                }
                builtins::sets(self, &assign.name, &value, is_environment);
                let Some(key) = key else { return self.shell.set(&assign.name, value) };
                if matches!(assign.name.as_str(), "BASH_ALIASES" | "BASH_CMDS") {
                    value.iter().for_each(|text| builtins::define_alias(self, key.lossy(), text));
                }
                let mut items = match self.shell.vars.get(&assign.name) {
                    Some(Var::Array(items)) => items.clone(),
                    Some(var) => var.ways().into_iter().take(1).map(|item| ("0".to_owned(), item)).collect(),
                    None => Vec::new(),
                };
                let key = key.shown();
                items.retain(|(own, _)| *own != key);
                items.push((key, value.into_iter().next().unwrap_or_default()));
                return self.shell.put(&assign.name, Some(Var::Array(items)));
            }
        };
        let mut made = match self.shell.vars.get(&assign.name).filter(|_| assign.append) {
            Some(Var::Array(items)) => items.clone(),
            _ => Vec::new(),
        };
        for (index, word) in items {
            if let Some(index) = index {
                let key = self.subscript(index).shown();
                let value = self.plain_value(word).into_iter().next().unwrap_or_default();
                if matches!(assign.name.as_str(), "BASH_ALIASES" | "BASH_CMDS") {
                    builtins::define_alias(self, &key, &value);
                }
                made.push((key, value));
                continue;
            }
            for field in self.fields(std::slice::from_ref(word)).into_iter().next().unwrap_or_default() {
                let key = made.iter().filter_map(|(key, _)| key.parse::<usize>().ok()).max().map_or(0, |last| last + 1);
                if made.len() < 256 {
                    made.push((key.to_string(), field));
                }
            }
        }
        let values: Vec<Text> = made.iter().map(|(_, value)| value.clone()).collect();
        builtins::sets(self, &assign.name, &values, is_environment);
        self.shell.put(&assign.name, Some(Var::Array(made)));
    }

    /// Reads the redirections of a command: its input, and the destinations of its output.
    fn redirect(&mut self, redirects: &[Redirect]) -> Outputs {
        let mut outputs = Outputs::default();
        for redirect in redirects {
            let is_output = redirect.fd.as_deref().is_none_or(|fd| fd == "1");
            let descriptor = format!("/dev/fd/{}", redirect.fd.as_deref().unwrap_or_default());
            match redirect.op {
                RedirectOp::Here => {
                    let text = self.value(&redirect.target).into_iter().next().unwrap_or_default();
                    match redirect.fd.as_deref() {
                        None | Some("0") => self.input = Some(text.dead()),
                        Some(_) => _ = self.created.files.insert(descriptor, text.dead()),
                    }
                    continue;
                }
                RedirectOp::DuplicateIn | RedirectOp::DuplicateOut => {
                    let target = self.single(&redirect.target);
                    let is_number = |text: &str| text.trim_end_matches('-').bytes().all(|byte| byte.is_ascii_digit());
                    let is_descriptor = target.as_str().is_some_and(is_number);
                    if is_descriptor {
                        let open = self.created.files.get(&format!("/dev/fd/{}", target.shown())).cloned();
                        if let (RedirectOp::DuplicateIn, Some(text)) = (redirect.op, open) {
                            self.input = Some(text);
                        }
                        let to_error = redirect.op == RedirectOp::DuplicateOut && target.as_str() == Some("2");
                        outputs.is_away |= to_error && is_output;
                        continue;
                    }
                }
                _ => {}
            }
            for target in self.value(&redirect.target) {
                self.redirect_to(redirect.op, &target, &descriptor, &mut outputs);
            }
        }
        outputs
    }

    fn redirect_to(&mut self, op: RedirectOp, target: &Text, descriptor: &str, outputs: &mut Outputs) {
        let is_output = matches!(descriptor, "/dev/fd/1" | "/dev/fd/");
        let shown = target.shown();
        let reads = matches!(op, RedirectOp::Read | RedirectOp::DuplicateIn | RedirectOp::Both);
        if let Some(rest) = shown.strip_prefix("/dev/tcp/").or_else(|| shown.strip_prefix("/dev/udp/")) {
            self.found.net(rest.split('/').next().unwrap_or_default());
            if reads || op == RedirectOp::DuplicateOut {
                self.input = Some(Source::Net.into());
                self.created.files.insert(descriptor.to_owned(), Source::Net.into());
            }
            outputs.is_away |= !reads && is_output;
            return;
        }
        if reads {
            self.absolute(target).iter().for_each(|path| self.found.reads(path));
            let text = self.content(target);
            self.created.files.insert(descriptor.to_owned(), text.clone());
            self.input = Some(text);
        }
        if op == RedirectOp::Read || op == RedirectOp::DuplicateIn {
            return;
        }
        let appends = op == RedirectOp::Append;
        let how = if appends { WriteKind::Append } else { WriteKind::Write };
        self.absolute(target).iter().for_each(|path| self.found.writes(path, how));
        if is_output && op != RedirectOp::Both && !matches!(shown.as_str(), "/dev/stdout" | "/dev/fd/1") {
            outputs.is_away = true;
            outputs.files.push((target.clone(), appends));
        }
    }

    /// Sends a command's output to the destinations of its redirections; returns the rest.
    fn deliver(&mut self, printed: Text, outputs: &Outputs) -> Text {
        for (target, appends) in &outputs.files {
            self.store(target, &printed, *appends);
        }
        if outputs.is_away { Text::default() } else { printed }
    }

    /// The absolute paths that a path may mean, links that the script made followed.
    pub(super) fn absolute(&self, path: &Text) -> Vec<Text> {
        self.shell.absolute(path).into_iter().map(|path| self.created.follow(path)).collect()
    }

    /// Returns the content of a file: the text that this script wrote, or unknown.
    pub(super) fn content(&self, path: &Text) -> Text {
        if matches!(path.lossy(), "-" | "/dev/stdin" | "/dev/fd/0" | "/proc/self/fd/0") {
            return self.input.clone().unwrap_or_else(|| Source::Any.into());
        }
        self.written(path).unwrap_or_else(|| Source::File.into())
    }

    /// Returns the text that this script wrote to a file.
    pub(super) fn written(&self, path: &Text) -> Option<Text> {
        let path = self.absolute(path).into_iter().next()?;
        self.created.files.get(path.as_str()?).cloned()
    }

    pub(super) fn store(&mut self, path: &Text, text: &Text, appends: bool) {
        for path in self.absolute(path) {
            let Some(name) = path.as_str().map(str::to_owned) else { continue };
            if let Some(script) = self.created.sinks.get(&name).cloned() {
                let input = Some(text.clone());
                self.spawned(|walk| walk.with_input(input, |walk| walk.subshell(|walk| walk.script(&script))));
                continue;
            }
            let before = self.created.files.get(&name).filter(|_| appends).cloned().unwrap_or_default();
            if self.created.files.len() < 256 && !name.starts_with("/dev/") {
                self.created.files.insert(name, joined(before, text));
            }
        }
    }

    /// Returns the output of the commands in `$(…)`.
    pub(super) fn substitution(&mut self, script: &Rc<Script>) -> Text {
        self.deeper(|walk| walk.subshell(|walk| walk.script(script)))
    }

    /// Returns the name of the pipe for `<(…)` and `>(…)`.
    pub(super) fn process(&mut self, script: &Rc<Script>, is_output: bool) -> String {
        let name = format!("/dev/fd/{}", 63 + self.created.files.len() + self.created.sinks.len());
        if is_output {
            let input = Some(self.input.clone().unwrap_or_else(|| Source::Program.into()));
            self.spawned(|walk| walk.with_input(input, |walk| walk.substitution(script)));
            self.created.sinks.insert(name.clone(), Rc::clone(script));
        } else {
            let printed = self.spawned(|walk| walk.substitution(script));
            self.created.files.insert(name.clone(), printed);
        }
        name
    }
}

/// Returns the output of one command after the other.
fn joined(first: Text, second: &Text) -> Text {
    if first.pieces().len() + second.pieces().len() > OUTPUT_PIECES_MAX
        || first.head().len() + second.head().len() > bash::SCRIPT_BYTES_MAX
    {
        return first.source().max(second.source()).unwrap_or(Source::Any).into();
    }
    first.then(second)
}

/// Returns the output of one command or the other.
fn either(first: Option<Text>, second: Text) -> Text {
    match first {
        None => second,
        Some(first) if first == second || second.is_empty() => first,
        Some(first) if first.is_empty() => second,
        Some(first) => first.source().max(second.source()).unwrap_or(Source::Program).into(),
    }
}
