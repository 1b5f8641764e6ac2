//! One command: its name found out behind every disguise, and handed to the rules of that program.

use std::rc::Rc;

use super::builtin;
use super::expand::Fields;
use super::run::{Run, Streams, Value};
use super::state::Var;
use super::text::{self, ANY, DECODED, FILE, NET, OUTPUT, SETTINGS, has_open, has_pattern, is_known};
use crate::bash::Command;
use crate::proto::action::{Effect, Risk};

/// Functions inside each other.
const CALLS_MAX: usize = 16;
/// Words of a program's own that weigh as much as a command.
const STEP_WORDS: usize = 4;

/// What nobody prints: what a command gives back that prints nothing.
pub(super) fn nothing() -> Value {
    vec![String::new()]
}

/// What a program prints that isn't followed.
pub(super) fn output() -> Value {
    vec![OUTPUT.to_string()]
}

/// The last part of a path.
pub(super) fn base(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

impl Run<'_, '_> {
    /// Runs a command by its words.
    pub(super) fn exec(&mut self, argv: Fields) -> Value {
        self.deeper(|run| run.exec_here(argv, true), vec![ANY.to_string()])
    }

    /// Runs a command that is neither a function nor an alias.
    pub(super) fn exec_program(&mut self, argv: Fields) -> Value {
        // A program that runs another may be looked at in several ways, and so may that one: together they are bounded.
        if !self.takes_steps(1 + argv.len() / STEP_WORDS) {
            return vec![ANY.to_string()];
        }
        self.deeper(|run| run.exec_here(argv, false), vec![ANY.to_string()])
    }

    fn exec_here(&mut self, argv: Fields, may_be_function: bool) -> Value {
        let Some(name) = argv.first().filter(|name| !name.is_empty()) else { return nothing() };
        self.effect(Effect::Exec { argv: argv.iter().map(|word| text::shown(word)).collect() });
        if let Some(value) = self.unknown_command(name) {
            return value;
        }
        if *name == self.state.name && self.spawns > 0 && self.state.name != "bash" {
            self.block("fork-bomb", "a script starts itself again and again");
        }
        if may_be_function {
            if let Some(ways) = self.state.aliases.get(name).cloned()
                && !self.called.contains(name)
            {
                let mut printed = Value::new();
                ways.iter().for_each(|text| printed.extend(self.alias(name.clone(), text, &argv)));
                // In quotes, and on the line that defines it, the name means what it did before.
                let known = self.reasons.len();
                self.named(name, &argv);
                self.keep_blocked(known);
                return super::run::limited(printed);
            }
            if let Some(body) = self.state.functions.get(name).cloned() {
                return self.call(name.clone(), &body, &argv);
            }
        }
        if name.contains('/') {
            return self.exec_path(argv);
        }
        let name = name.clone();
        self.named(&name, &argv)
    }

    /// What is known of a command whose name isn't.
    fn unknown_command(&mut self, name: &str) -> Option<Value> {
        let last = base(name);
        if name.contains([NET, DECODED]) {
            self.block("unknown-command", "runs a command that came over the network or out of a decoder");
            return Some(output());
        }
        if last.chars().all(|c| c == SETTINGS) && !last.is_empty() {
            self.note(Risk::High, "settings", "runs settings that a program prints");
            return Some(nothing());
        }
        if has_open(last) || has_pattern(last) || last.contains(text::NAME) {
            // The name behind an unknown directory is known; an unknown name isn't.
            self.block_unknown("unknown-command", format!("which command runs isn't known: {name}"));
            return Some(output());
        }
        None
    }

    fn alias(&mut self, name: String, text: &str, argv: &[String]) -> Value {
        self.called.push(name);
        let mut code = text.to_owned();
        for word in &argv[1..] {
            code.push(' ');
            code.push_str(&quote(word));
        }
        let printed = self.text(&code);
        self.called.pop();
        printed
    }

    fn call(&mut self, name: String, body: &Rc<Command>, argv: &[String]) -> Value {
        if let Some((_, spawns)) = self.calls.iter().find(|(own, _)| Rc::ptr_eq(own, body)) {
            if self.spawns > *spawns {
                self.block("fork-bomb", format!("{name} starts itself again and again"));
            }
            return output();
        }
        if self.calls.len() >= CALLS_MAX {
            self.block("too-deep", "functions call each other deeper than is looked at");
            return output();
        }
        self.calls.push((Rc::clone(body), self.spawns));
        let refs = Rc::clone(&self.state.refs);
        let positional = self.state.positional.take();
        self.state.positional = Some(argv[1..].iter().map(|word| vec![word.clone()]).collect());
        let printed = self.command(body);
        self.state.positional = positional;
        self.state.refs = refs;
        self.calls.pop();
        printed
    }

    /// A command that is named by its path.
    fn exec_path(&mut self, mut argv: Fields) -> Value {
        let written = argv[0].clone();
        let paths = self.absolute(&written);
        for path in &paths {
            if let Some(data) = self.written.get(path).cloned() {
                return self.script_text(Some(&written), &data, &argv[1..]);
            }
        }
        let name = base(paths.first().map_or(written.as_str(), String::as_str)).to_owned();
        let is_own = paths
            .iter()
            .all(|path| matches!(self.map.zone(path), super::place::Zone::Workspace | super::place::Zone::Temporary));
        if is_own && base(&written) == name {
            self.forbidden_command(&name);
            self.note(Risk::High, "local-program", format!("runs a program whose contents aren't known: {written}"));
            // A program of the workspace may be called like one of the system, and may be a copy of it.
            if super::system::is_power(&name) || is_shell(&name) || super::interpret::is_interpreter(&name) {
                return output();
            }
            if !super::files::is_destroyer(&name) {
                return output();
            }
        }
        argv[0] = name.clone();
        self.named(&name, &argv)
    }

    fn forbidden_command(&mut self, name: &str) {
        let is_forbidden =
            |own: &String| name == own || name.strip_prefix(own.as_str()).is_some_and(|rest| rest.starts_with('.'));
        if self.map.rules.forbidden_commands.iter().any(is_forbidden) {
            self.block("forbidden-command", format!("{name} is in security.forbidden_commands"));
        }
    }

    /// Runs the builtin or program of this name.
    fn named(&mut self, name: &str, argv: &[String]) -> Value {
        self.forbidden_command(name);
        let words = &argv[1..];
        if let Some(printed) = self.builtin(name, words) {
            return printed;
        }
        if !super::wrap::is_plain(name) {
            self.named_outputs(name, words);
        }
        if let Some(printed) = self.wrapper(name, words) {
            return printed;
        }
        if is_shell(name) {
            return self.shell(name, words);
        }
        if let Some(printed) = self.interpreter(name, words) {
            return printed;
        }
        // `--help` and `--version` alone do nothing, whatever the program.
        if matches!(words, [only] if matches!(only.as_str(), "--help" | "--version" | "-?")) {
            return output();
        }
        let found = self
            .script_program(name, words)
            .or_else(|| self.printer(name, words))
            .or_else(|| self.file_program(name, words))
            .or_else(|| self.net_program(name, words))
            .or_else(|| self.system_program(name, words))
            .or_else(|| self.developer_program(name, words))
            .or_else(|| self.own_program(name, words));
        found.unwrap_or_else(|| {
            // A script that this very one wrote, found by a `PATH` that leads here.
            let path = format!("./{name}");
            if let Some(data) = self.absolute(&path).first().and_then(|path| self.written.get(path)).cloned() {
                return self.script_text(Some(name), &data, words);
            }
            self.note(Risk::High, "unknown-program", format!("{name} isn't a program that ReedClaw knows"));
            self.scan_operands(words);
            self.scan_commands(words);
            self.scan_secrets(words);
            self.scan_input();
            output()
        })
    }

    /// Looks at the words of a program that isn't known for what it would be handed: files to write by the usual options.
    pub(super) fn scan_operands(&mut self, words: &[String]) {
        let options = super::options::Options::read(words, "o", "output output-file out outfile output-dir");
        let targets: Vec<String> =
            options.values("o", "output").chain(options.values("", "outfile")).map(str::to_owned).collect();
        for target in targets.iter().filter(|target| target.contains('/')) {
            if !matches!(self.zone_of(target), super::place::Zone::Home | super::place::Zone::Outside) {
                self.writes(target, crate::proto::action::WriteKind::Write);
            }
        }
        for word in &options.operands {
            if word.contains('/')
                && self.absolute(word).iter().any(|path| self.map.zone(path) == super::place::Zone::Device)
            {
                self.writes(word, crate::proto::action::WriteKind::Write);
            }
        }
    }

    pub(super) fn zone_of(&self, path: &str) -> super::place::Zone {
        self.absolute(path).iter().map(|path| self.map.zone(path)).max().unwrap_or(super::place::Zone::Unknown)
    }

    /// Runs text as a shell's code, in a shell of its own.
    pub(super) fn code_elsewhere(&mut self, code: &str) -> Value {
        self.subshell(|run| run.code(code))
    }

    /// Runs text as code of this very shell.
    pub(super) fn code(&mut self, code: &str) -> Value {
        if code.contains([NET, DECODED, text::DECODED_MARK]) {
            self.block("fed-code", "a shell runs what came over the network or out of a decoder");
            return output();
        }
        let body = code.trim();
        if !body.is_empty() && body.chars().all(|c| text::is_open(c) || c.is_whitespace()) {
            match text::weightiest(body) {
                FILE => self.note(Risk::High, "script", "runs a script whose contents aren't known"),
                SETTINGS => self.note(Risk::High, "settings", "runs settings that a program prints"),
                _ => self.block_unknown("unknown-code", "runs code that isn't known before it runs"),
            }
            return output();
        }
        if has_open(code) {
            self.note(Risk::High, "unknown-code", "runs code of which a part isn't known");
        }
        if !self.takes_text(code) {
            return output();
        }
        self.deeper(|run| run.text(code), output())
    }

    /// Runs the contents of a file as its first line asks for, under the name that it was called by.
    pub(super) fn script_text(&mut self, called: Option<&str>, data: &Value, arguments: &[String]) -> Value {
        let mut printed = nothing();
        for text in data.clone() {
            let first = text.lines().next().unwrap_or_default();
            let interpreter = first
                .strip_prefix("#!")
                .map(|line| line.split_whitespace().map(base).rfind(|word| *word != "env" && !word.starts_with('-')));
            match interpreter.flatten() {
                Some(name) if !is_shell(name) => {
                    self.other_code(name, &text);
                }
                _ => {
                    let arguments = arguments.iter().map(|word| vec![word.clone()]).collect();
                    let called = called.map(str::to_owned);
                    printed = self.with_arguments(called, arguments, |run| run.code_elsewhere(&text));
                }
            }
        }
        printed
    }

    /// Walks with other positional parameters.
    pub(super) fn with_arguments<T>(
        &mut self,
        name: Option<String>,
        values: Vec<Value>,
        walk: impl FnOnce(&mut Self) -> T,
    ) -> T {
        let before = (self.state.positional.replace(values), self.state.name.clone());
        if let Some(name) = name {
            self.state.name = name;
        }
        let value = walk(self);
        (self.state.positional, self.state.name) = before;
        value
    }

    /// A file that a shell reads as code.
    pub(super) fn script_file(&mut self, path: &str) -> Value {
        self.reads(path);
        let data = self.content(path);
        let mut printed = nothing();
        for text in data {
            printed = self.code(&text);
        }
        printed
    }

    /// A shell: `sh -c`, a script, or what it reads.
    fn shell(&mut self, name: &str, words: &[String]) -> Value {
        let mut words = words.iter();
        let (mut is_code, mut reads_input, mut init) = (false, false, None);
        let (mut only_parses, mut is_interactive) = (false, false);
        let mut rest: Fields = Vec::new();
        while let Some(word) = words.next() {
            match word.as_str() {
                "--rcfile" | "--init-file" => init = words.next().cloned(),
                "-o" | "+o" | "-O" | "+O" => _ = words.next(),
                "--" | "-" => {
                    rest.extend(words.by_ref().cloned());
                }
                "--version" | "--help" => return output(),
                "--command" => is_code = true,
                option if option.starts_with("--") => {}
                option if option.starts_with(['-', '+']) && option.len() > 1 => {
                    is_code |= option.contains('c') || name == "pwsh" && option.starts_with("-C");
                    only_parses |= option.starts_with('-') && option.contains('n') && name != "pwsh";
                    is_interactive |= option.contains('i');
                    reads_input |= option.contains('s');
                    if option.ends_with(['o', 'O']) {
                        words.next();
                    }
                }
                _ => {
                    rest.push(word.clone());
                    rest.extend(words.by_ref().cloned());
                }
            }
        }
        // A file that is read first, and that this very script may have written since it was named.
        let first = self.variable("BASH_ENV").filter(|_| name == "bash").or_else(|| self.variable("ENV"));
        for file in init.into_iter().chain(first) {
            self.subshell(|run| run.script_file(&file));
        }
        if only_parses && !is_interactive {
            if let Some(file) = rest.first().filter(|_| !is_code && !reads_input) {
                self.reads(file);
            }
            return output();
        }
        let operands = |from: usize| rest.iter().skip(from).map(|word| vec![word.clone()]).collect::<Vec<_>>();
        if is_code {
            let Some(code) = rest.first().cloned() else { return output() };
            let zeroth = rest.get(1).cloned().unwrap_or_else(|| name.to_owned());
            let arguments = operands(2);
            return self.with_arguments(Some(zeroth), arguments, |run| run.code_elsewhere(&code));
        }
        if let Some(file) = rest.first().filter(|_| !reads_input).cloned() {
            if file == "-" || file == "/dev/stdin" {
                return self.fed(name);
            }
            if let [.., last] = self.calls.as_slice()
                && self.spawns > last.1
                && file == self.state.name
            {
                self.block("fork-bomb", "a script starts itself again and again");
            }
            if file == self.state.name && self.spawns > 0 {
                self.block("fork-bomb", "a script starts itself again and again");
            }
            self.reads(&file);
            let data = self.content(&file);
            self.note(Risk::High, "script", format!("runs the script {file}"));
            let arguments = operands(1);
            return self.with_arguments(Some(file), arguments, |run| run.subshell(|run| run.all_code(&data)));
        }
        let arguments = operands(0);
        self.with_arguments(None, arguments, |run| run.fed(name))
    }

    fn all_code(&mut self, data: &Value) -> Value {
        let mut printed = nothing();
        for text in data.clone() {
            printed = self.code(&text);
        }
        printed
    }

    /// A shell that reads its code from its input.
    fn fed(&mut self, name: &str) -> Value {
        if self.streams.is_net {
            self.block("network-shell", format!("{name} is tied to the network"));
        }
        match self.streams.input.take() {
            None => {
                self.note(Risk::High, "interactive", format!("{name} waits for commands"));
                output()
            }
            Some(data) => {
                self.streams.input = None;
                if std::mem::take(&mut self.streams.is_endless) {
                    data.iter().for_each(|text| self.fed_without_end(text));
                }
                self.subshell(|run| run.all_code(&data))
            }
        }
    }

    /// Runs a command with other streams.
    pub(super) fn with_input<T>(&mut self, input: Option<Value>, walk: impl FnOnce(&mut Self) -> T) -> T {
        let outer = std::mem::replace(&mut self.streams, Streams { input, ..Streams::default() });
        let value = walk(self);
        self.streams = outer;
        value
    }

    /// A variable with one known value.
    pub(super) fn variable(&self, name: &str) -> Option<String> {
        match self.state.vars.get(self.state.meant(name)).and_then(Var::first)?.as_slice() {
            [one] if is_known(one) => Some(one.clone()),
            _ => None,
        }
    }
}

/// Whether a name is a shell's.
pub(super) fn is_shell(name: &str) -> bool {
    text::listed("sh bash dash zsh ksh mksh ash rbash fish csh tcsh ksh93 yash pwsh rksh posh elvish nu xonsh", name)
        || builtin::is_versioned(name, &["bash", "zsh", "ksh"])
}

/// Writes a word so that a shell reads it as it is; a word that is nothing but an unknown stays one word.
pub(super) fn quote(word: &str) -> String {
    format!("'{}'", word.replace('\'', "'\\''"))
}
