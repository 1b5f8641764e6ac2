//! Where a command reads and prints: redirections, what files hold that the script wrote, substitutions, and the
//! expressions that bash calculates.

use std::rc::Rc;

use super::run::{Run, Streams, Value, joined};
use super::state::Var;
use super::text::{self, ANY, FILE, NAME, NET, OUTPUT, has_open};
use crate::bash::{Part, Redirect, RedirectOp, Script, Word};
use crate::proto::action::WriteKind;

impl Run<'_, '_> {
    /// Applies redirections to the streams.
    pub(super) fn redirect(&mut self, redirects: &[Redirect], lasts: bool) {
        for redirect in redirects {
            let targets = self.with_unset(|run| run.value(&redirect.target));
            let reads = matches!(redirect.fd.as_deref(), None | Some("0"));
            let prints = matches!(redirect.fd.as_deref(), None | Some("1")) || redirect.fd.is_none();
            if redirect.op == RedirectOp::Here {
                match &redirect.fd {
                    _ if reads => self.streams.input = Some(targets),
                    Some(fd) => _ = self.written.insert(format!("/dev/fd/{fd}"), targets),
                    None => {}
                }
                continue;
            }
            for target in targets {
                self.redirect_one(redirect, &target, reads, prints, lasts);
            }
        }
    }

    fn redirect_one(&mut self, redirect: &Redirect, target: &str, reads: bool, prints: bool, lasts: bool) {
        let is_descriptor = || {
            let digits = target.trim_end_matches('-');
            digits.bytes().all(|byte| byte.is_ascii_digit())
        };
        if matches!(redirect.op, RedirectOp::DuplicateIn | RedirectOp::DuplicateOut) && is_descriptor() {
            let is_socket = self.state.sockets.iter().any(|fd| fd == target.trim_end_matches('-'));
            if is_socket {
                self.streams.is_net = true;
                if reads && redirect.op == RedirectOp::DuplicateIn || redirect.fd.as_deref() == Some("0") {
                    self.streams.input = Some(vec![NET.to_string()]);
                }
            }
            // What stands behind a descriptor that a redirection opened before.
            let held = self.written.get(&format!("/dev/fd/{}", target.trim_end_matches('-'))).cloned();
            if let Some(data) = held.filter(|_| reads && redirect.op == RedirectOp::DuplicateIn) {
                self.streams.input = Some(data);
            }
            if redirect.op == RedirectOp::DuplicateOut && prints && target == "2" {
                self.streams.is_away = true;
            }
            return;
        }
        if target.starts_with("/dev/tcp/") || target.starts_with("/dev/udp/") {
            let host = target.split('/').nth(3).unwrap_or_default().to_owned();
            self.net(&host);
            self.streams.is_net = true;
            if matches!(redirect.op, RedirectOp::Read | RedirectOp::Both | RedirectOp::DuplicateIn) && reads {
                self.streams.input = Some(vec![NET.to_string()]);
            }
            if lasts || redirect.fd.is_some() {
                self.state.sockets.push(redirect.fd.clone().unwrap_or_else(|| "0".to_owned()));
            }
            return;
        }
        // It goes where it went.
        if matches!(target, "/dev/stdout" | "/dev/fd/1" | "/proc/self/fd/1") && redirect.op != RedirectOp::Read {
            return;
        }
        match redirect.op {
            RedirectOp::Read | RedirectOp::DuplicateIn => {
                self.reads(target);
                if reads {
                    self.streams.input = Some(self.content(target));
                } else if let Some(fd) =
                    redirect.fd.as_deref().filter(|fd| fd.bytes().all(|byte| byte.is_ascii_digit()))
                {
                    let data = self.content(target);
                    self.written.insert(format!("/dev/fd/{fd}"), data);
                }
            }
            RedirectOp::Both => {
                self.writes(target, WriteKind::Write);
            }
            RedirectOp::Append | RedirectOp::Write | RedirectOp::DuplicateOut => {
                let appends = redirect.op == RedirectOp::Append;
                let how = match appends {
                    true => WriteKind::Append,
                    false => WriteKind::Write,
                };
                self.writes(target, how);
                if prints {
                    self.streams.is_away = true;
                    self.streams.files.push((target.to_owned(), appends));
                }
            }
            RedirectOp::Here => {}
        }
    }

    /// Puts what a command printed where its output goes; gives what comes back.
    pub(super) fn deliver(&mut self, printed: Value) -> Value {
        for (file, appends) in std::mem::take(&mut self.streams.files) {
            self.store(&file, &printed, appends);
        }
        if self.streams.is_away { vec![String::new()] } else { printed }
    }

    /// Remembers what a file holds now; hands it to the script behind `>(…)`.
    pub(super) fn store(&mut self, file: &str, data: &Value, appends: bool) {
        if let Some((script, is_fed)) = self.sinks.get_mut(file) {
            *is_fed = true;
            let script = Rc::clone(script);
            return self.feed(&script, data.clone());
        }
        for path in self.absolute(file) {
            let before = match (appends, self.written.get(&path)) {
                (true, Some(before)) => before.clone(),
                (true, None) => vec![FILE.to_string()],
                _ => vec![String::new()],
            };
            // A hook runs when nobody looks: what it would do is done by who writes it.
            if path.contains("/.git/hooks/")
                || self.hooks.iter().any(|directory| path.starts_with(directory))
                || path.ends_with("/.envrc")
            {
                self.script_text(None, data, &[]);
            }
            if path.ends_with("/.git/config") {
                let lines: Vec<String> = data.iter().flat_map(|text| text.lines()).map(str::to_owned).collect();
                for (_, code) in lines.iter().filter_map(|line| line.split_once('!')).take(16) {
                    self.embedded(code.trim_end_matches('"'), true);
                }
            }
            self.written.insert(path, joined(before, data.clone()));
        }
    }

    fn feed(&mut self, script: &Script, data: Value) {
        let outer = self.streams.clone();
        self.streams = Streams { input: Some(data), ..Streams::default() };
        self.spawns += 1;
        self.subshell(|run| run.script(script));
        self.spawns -= 1;
        self.streams = outer;
    }

    /// Walks through each `>(…)` that got nothing which is followed, such as errors: it runs all the same.
    pub(super) fn feed_the_rest(&mut self) {
        for (script, is_fed) in std::mem::take(&mut self.sinks).into_values() {
            if !is_fed {
                self.feed(&script, vec![OUTPUT.to_string()]);
            }
        }
    }

    /// What a file holds, as far as it is known.
    pub(super) fn content(&self, path: &str) -> Value {
        if path == "/dev/null" {
            return vec![String::new()];
        }
        if matches!(path, "/dev/stdin" | "/proc/self/fd/0" | "/dev/fd/0" | "-") {
            return self.streams.input.clone().unwrap_or_else(|| vec![ANY.to_string()]);
        }
        for path in self.absolute(path) {
            if let Some(data) = self.written.get(&path) {
                return data.clone();
            }
            if path.starts_with("/dev/tcp/") || path.starts_with("/dev/udp/") {
                return vec![NET.to_string()];
            }
        }
        // A name that was found, as by `find`: one of the files that this very script wrote.
        let base = super::exec::base(path);
        if path.contains(NAME) && !base.contains(NAME) {
            let found = self.written.iter().find(|(own, _)| super::exec::base(own) == base);
            if let Some((_, data)) = found {
                return data.clone();
            }
        }
        vec![if has_open(path) { OUTPUT } else { FILE }.to_string()]
    }

    /// Walks through `$(…)`.
    pub(super) fn substitution(&mut self, script: &Script) -> Value {
        let outer = self.streams.clone();
        self.streams = Streams { input: outer.input.clone(), ..Streams::default() };
        let printed = self.deeper(|run| run.subshell(|run| run.script(script)), vec![ANY.to_string()]);
        self.streams = outer;
        // What was decoded is judged by what it says, where that is known.
        let substituted =
            |text: String| text.replace([text::DECODED_MARK, '\0'], "").replace(FILE, &OUTPUT.to_string());
        printed.into_iter().map(substituted).collect()
    }

    /// Walks through `<(…)` or `>(…)`; gives the name that the command gets.
    pub(super) fn process(&mut self, script: &Rc<Script>, is_output: bool) -> String {
        let name = format!("/dev/fd/{}", 100 + self.written.len() + self.sinks.len());
        let outer = self.streams.clone();
        let input = is_output.then(|| vec![OUTPUT.to_string()]);
        self.streams = Streams { input, ..Streams::default() };
        if is_output {
            self.sinks.insert(name.clone(), (Rc::clone(script), false));
            self.streams = outer;
            return name;
        }
        self.spawns += 1;
        let printed = self.deeper(|run| run.subshell(|run| run.script(script)), vec![ANY.to_string()]);
        self.spawns -= 1;
        self.streams = outer;
        self.written.insert(name.clone(), printed);
        name
    }

    /// Expands the substitutions of an expression; gives its value, where it is a plain number.
    pub(super) fn arithmetic(&mut self, word: &Word) -> String {
        let ways = self.value(word);
        self.evaluated(&ways);
        match ways.as_slice() {
            [one] => self.calculated(one).map_or_else(|| NAME.to_string(), |number| number.to_string()),
            _ => NAME.to_string(),
        }
    }

    /// Gives the value of a number in an expansion.
    pub(super) fn number(&mut self, word: &Word) -> Option<i64> {
        let ways = self.value(word);
        self.evaluated(&ways);
        match ways.as_slice() {
            [one] => self.calculated(one),
            _ => None,
        }
    }

    fn calculated(&self, text: &str) -> Option<i64> {
        let look = |name: &str| match self.state.vars.get(name).and_then(Var::first) {
            Some(ways) if ways.len() == 1 => ways[0].trim().parse().ok(),
            _ => None,
        };
        crate::bash::calculate(text, &look)
    }

    /// An expression is evaluated, and what the variables hold that it names.
    fn evaluated(&mut self, ways: &[String]) {
        self.subscripts_in(ways);
        for name in ways.iter().flat_map(|text| text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_')).take(32) {
            let held = self.state.vars.get(name).and_then(Var::first);
            if let Some(value) = held.filter(|value| value.iter().any(|text| text.contains('['))) {
                self.subscripts_in(&value);
            }
        }
    }

    /// bash evaluates the subscripts of a text that it takes for an expression.
    pub(super) fn subscripts_in(&mut self, ways: &[String]) {
        for text in ways {
            if !(text.contains("$(") || text.contains('`') || text.contains("${")) {
                continue;
            }
            if text.contains('[') {
                self.signal("subscript", "a subscript that is evaluated");
                self.value(&crate::bash::quoted(text, self.depth));
            }
        }
    }

    /// The key of an array's element: a known number is calculated.
    pub(super) fn subscript(&mut self, key: &str) -> String {
        self.subscripts_in(&[key.to_owned()]);
        match self.calculated(key) {
            Some(number) => number.to_string(),
            None => key.trim_matches(['"', '\'']).to_owned(),
        }
    }
}
