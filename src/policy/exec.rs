//! One command: its name under every plain disguise, builtins of the shell, and the acts of its plan.

use std::rc::Rc;

use super::Elsewhere;
use super::builtins;
use super::piece::{Piece, Source, Text};
use super::place::Zone;
use super::plan::{Act, Call, only_tells, plan};
use super::programs;
use super::programs::listed;
use super::shell::{CALLS_MAX, Var};
use super::walk::Walk;
use crate::proto::action::{Effect, Need, Risk, WriteKind};
use crate::proto::program_rule::Wants;

pub(super) fn nothing() -> Text {
    Text::default()
}

fn base(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

fn is_shell(name: &str) -> bool {
    programs::handler_of(name) == "shell"
}

impl Walk<'_, '_> {
    /// Runs a command that is neither a function nor an alias.
    pub(super) fn exec_program(&mut self, argv: Vec<Text>) -> Text {
        self.exec(argv, false)
    }

    /// Runs a command by its words.
    pub(super) fn exec(&mut self, argv: Vec<Text>, may_be_function: bool) -> Text {
        if !self.takes(1 + argv.len() / 4) {
            return Source::Any.into();
        }
        self.deeper(|walk| walk.exec_here(argv, may_be_function))
    }

    fn exec_here(&mut self, mut argv: Vec<Text>, may_be_function: bool) -> Text {
        let Some(first) = argv.first() else { return nothing() };
        // A variable that nothing sets is empty.
        if first.has_unset() {
            let set = first.without_unset();
            if set.is_empty() && argv.len() > 1 {
                self.found.high("unknown-command", "which command runs isn't known");
                return self.exec_here(argv[1..].to_vec(), true);
            }
            if !set.is_empty() {
                argv[0] = set;
            }
        }
        for word in &mut argv[1..] {
            if word.has_unset() && word.without_unset().head().starts_with('-') {
                *word = word.without_unset();
            }
        }
        if argv[0].is_empty() {
            return nothing();
        }
        self.found.effect(Effect::Exec { argv: argv.iter().map(Text::shown).collect() });
        let Some(name) = argv[0].as_str().map(str::to_owned) else { return self.unknown_command(&argv) };
        if may_be_function {
            if let Some(text) = self.shell.aliases.get(&name).cloned().filter(|_| !self.budget.called.contains(&name)) {
                let words: Vec<String> = argv[1..].iter().map(Text::quoted).collect();
                return self.aliased(name, |walk| walk.text(&format!("{text} {}", words.join(" "))));
            }
            if let Some(body) = self.shell.functions.get(&name).cloned() {
                return self.call(&name, &body, &argv);
            }
        }
        if name.contains('/') { self.exec_path(&name, &argv) } else { self.named(&name, &argv) }
    }

    /// Judges a command whose name is unknown.
    fn unknown_command(&mut self, argv: &[Text]) -> Text {
        let name = &argv[0];
        if name.is_foreign() {
            self.found.block("unknown-command", "runs a command that came over the network or out of a decoder");
            return Source::Program.into();
        }
        self.found.high("unknown-command", format!("which command runs isn't known: {}", name.shown()));
        let last = name.split(|c| c == '/').pop().unwrap_or_default();
        let is_pattern = last.has_pattern() && !last.is_open();
        let names: Vec<&str> = match last.as_str() {
            Some(known) => vec![known],
            None => listed("destroyers").iter().copied().filter(|it| is_pattern && last.may_match(it, false)).collect(),
        };
        for name in names {
            self.suspect(|walk| walk.exec_program([vec![name.into()], argv[1..].to_vec()].concat()));
        }
        // The unknown word may be `sudo` or empty.
        if name.is_all_unknown() && argv.get(1).is_some_and(|word| programs::is_known(word.lossy())) {
            self.suspect(|walk| walk.exec_program(argv[1..].to_vec()));
        }
        Source::Program.into()
    }

    /// Walks only for reasons to block: other reasons, effects and needs are discarded.
    pub(super) fn suspect(&mut self, walk: impl FnOnce(&mut Self) -> Text) {
        let known = self.found.reasons.len();
        let (effects, needs) = (self.found.effects.len(), self.found.needs.len());
        self.subshell(walk);
        self.found.keep_blocked(known);
        if self.found.reasons.len() == known {
            self.found.effects.truncate(effects);
        }
        self.found.needs.truncate(needs);
    }

    /// Walks through the meaning of an alias, in which the alias itself isn't expanded again.
    pub(super) fn aliased(&mut self, name: String, walk: impl FnOnce(&mut Self) -> Text) -> Text {
        self.budget.called.push(name);
        let printed = walk(self);
        self.budget.called.pop();
        printed
    }

    fn call(&mut self, name: &str, body: &Rc<crate::bash::Command>, argv: &[Text]) -> Text {
        if let Some((_, spawns)) = self.budget.calls.iter().find(|(own, _)| Rc::ptr_eq(own, body)) {
            if self.budget.spawns > *spawns {
                self.found.block("fork-bomb", format!("{name} starts itself again and again"));
            }
            return Source::Program.into();
        }
        if self.budget.calls.len() >= CALLS_MAX {
            self.found.block("too-deep", "functions call each other deeper than is looked at");
            return Source::Program.into();
        }
        self.budget.calls.push((Rc::clone(body), self.budget.spawns));
        let positional = self.shell.positional.replace(argv[1..].to_vec());
        let printed = self.command(body);
        self.shell.positional = positional;
        self.budget.calls.pop();
        printed
    }

    fn exec_path(&mut self, written: &str, argv: &[Text]) -> Text {
        let paths = self.absolute(&argv[0]);
        if let Some(text) = self.written(&argv[0]) {
            return self.script_text(written, &text, &argv[1..]);
        }
        let name = paths.first().map_or(written, |path| base(path.lossy())).to_owned();
        let zone = paths.iter().map(|path| self.found.map.zone(path)).max().unwrap_or(Zone::Unknown);
        if !matches!(zone, Zone::System) || name.is_empty() {
            self.forbidden_command(&name, &argv[1..]);
            self.found.high("local-program", format!("runs a program whose contents aren't known: {written}"));
            paths.iter().filter(|_| zone > Zone::Unknown).for_each(|path| self.found.reads(path));
            // A copy of a program is that program.
            if listed("destroyers").contains(&name.as_str()) && zone != Zone::Own {
                self.suspect(|walk| walk.named(&name, argv));
            }
            return Source::Program.into();
        }
        self.named(&name, argv)
    }

    /// Takes the user's own rules about a command.
    fn own_rules(&mut self, name: &str, words: &[Text]) {
        let known: Vec<Option<&str>> = words.iter().map(Text::as_str).collect();
        for rule in self.context.rules.programs.iter().filter(|rule| rule.holds_for(name, &known)) {
            match rule.wants {
                Wants::Deny => self.found.block("programs", format!("security.programs has \"{rule}\"")),
                Wants::Network => self.found.net(""),
                Wants::Host => self.found.host(rule.to_string()),
                Wants::Ask => {}
            }
            self.found.high(super::ASKED, format!("security.programs has \"{rule}\""));
        }
    }

    fn forbidden_command(&mut self, name: &str, words: &[Text]) {
        self.own_rules(name, words);
        let is_forbidden =
            |own: &String| name == own || name.strip_prefix(own.as_str()).is_some_and(|rest| rest.starts_with('.'));
        if self.context.rules.forbidden_commands.iter().any(is_forbidden) {
            self.found.block("forbidden-command", format!("{name} is in security.forbidden_commands"));
        }
    }

    /// Runs the builtin or program of this name.
    pub(super) fn named(&mut self, name: &str, argv: &[Text]) -> Text {
        let words = &argv[1..];
        if !only_tells(words) {
            self.forbidden_command(name, words);
        }
        if let Some(printed) = builtins::builtin(self, name, words) {
            return printed;
        }
        let rules = self.context.rules;
        let written = |path: &Text| match path.lossy() {
            "/dev/stdin" | "/dev/fd/0" => self.input.clone(),
            _ => self.written(path),
        };
        let (input, home, workspace) = (self.input.as_ref(), &rules.home, &rules.workspace);
        let acts = plan(&Call { name, words, input, home, workspace, written: &written });
        let Some(acts) = acts else { return self.unknown_program(name, words) };
        self.outside(name, &acts);
        match programs::handler_of(name) {
            "shell" if !only_tells(words) => return self.shell_program(name, words),
            "echo" | "printf" | "test" | "remote-copy" => {}
            _ if matches!(name, "ssh" | "ssh-add" | "ssh-keygen" | "ssh-copy-id") => {}
            _ => self.secrets(words, &acts),
        }
        self.apply(name, acts)
    }

    /// Words that name keys or passwords, whatever they are for.
    fn secrets(&mut self, words: &[Text], acts: &[Act]) {
        let is_build = acts.iter().any(|act| matches!(act, Act::Note(_, rule, _) if listed("builds").contains(rule)));
        let is_fed = words.iter().any(|word| matches!(word.lossy(), "-" | "-f-" | "/dev/stdin"));
        if is_build && (is_fed || !self.created.files.is_empty()) {
            self.found.high("script", "builds or runs what this command has just written");
        }
        let named = |path: &Text| acts.iter().any(|act| matches!(act, Act::List(own) | Act::Read(own) if own == path));
        let gives = |piece: &Piece| matches!(piece, Piece::Known(text) if text.contains("=/"));
        let may_name = |word: &&Text| word.head().starts_with('/') || word.pieces().iter().any(gives);
        for word in words.iter().filter(may_name) {
            let path = word.split_once('=').map_or_else(|| word.clone(), |(_, value)| value);
            if named(&path) || !path.head().starts_with('/') || path.head().contains(char::is_whitespace) {
                continue;
            }
            match self.found.map.zone(&path) {
                Zone::Credentials | Zone::Own => self.suspect_path(&path, false),
                Zone::Forbidden | Zone::Startup if is_build => {
                    self.found.high("unknown-path", format!("may read or write {}", path.shown()));
                }
                _ => {}
            }
        }
    }

    /// A program that works in a directory outside.
    fn outside(&mut self, name: &str, acts: &[Act]) {
        let cwd = self.shell.cwd();
        if cwd.lossy() == self.context.rules.workspace
            || matches!(name, "echo" | "printf" | "pwd" | "true" | "false" | "date" | "sleep")
            || cwd.is_open()
        {
            return;
        }
        let zone = self.found.map.zone(&cwd);
        if zone <= Zone::Unknown || matches!(cwd.lossy(), "/tmp" | "/var/tmp") {
            return;
        }
        let changes = acts.iter().any(|act| matches!(act, Act::Note(risk, rule, _) if *risk >= Risk::Medium && !matches!(*rule, "network" | "privilege" | "host")));
        if zone == Zone::System && !changes {
            return;
        }
        self.found.lists(&cwd);
        if changes && zone == Zone::System {
            let inside = cwd.clone().then(&"/file".into());
            self.found.writes(&inside, WriteKind::Write);
        }
        if changes && self.found.elsewhere == Elsewhere::Here {
            self.found.high("outside", format!("{name} works outside the workspace, in {}", cwd.shown()));
            self.found.need(Need::Write { path: cwd.shown() });
        }
    }

    /// A program that the table doesn't have: its words may be a command, code or a path.
    fn unknown_program(&mut self, name: &str, words: &[Text]) -> Text {
        // A script that this very one wrote, found by a `PATH` that leads here.
        let local = Text::from(format!("./{name}"));
        if let Some(text) = self.written(&local) {
            return self.script_text(name, &text, words);
        }
        self.found.high("unknown-program", format!("{name} isn't a program that ReedClaw knows"));
        let runs = listed("exec-runs");
        let mut is_code = false;
        for (at, word) in words.iter().enumerate().take(32) {
            let value = word.split_once('=').filter(|(name, _)| runs.contains(&name.lossy())).map(|(_, value)| value);
            if is_code && word.head().contains(' ') || value.is_some() {
                let code = value.unwrap_or_else(|| word.clone());
                self.suspect(|walk| walk.code(&code));
            } else if (is_code || at == 0) && programs::is_known(base(word.lossy())) {
                self.suspect(|walk| walk.exec_program(words[at..].to_vec()));
            }
            is_code = runs.contains(&word.lossy());
            if word.head().starts_with(['/', '~', '.']) {
                self.suspect_path(word, false);
            }
        }
        let fed = self.input.as_ref().and_then(Text::source).filter(|source| *source >= Source::Decoded);
        fed.unwrap_or(Source::Program).into()
    }

    /// A path in code that isn't followed.
    fn suspect_path(&mut self, path: &Text, writes: bool) {
        let home = &self.context.rules.home;
        let path = match path.strip_prefix("~") {
            Some(rest) if rest.is_empty() || rest.head().starts_with('/') => Text::from(home.as_str()).then(&rest),
            _ => path.clone(),
        };
        for path in self.absolute(&path) {
            let is_deep = path.as_str().is_some_and(|it| it.matches('/').count() > 1);
            match self.found.map.zone(&path) {
                Zone::Credentials | Zone::Own | Zone::Device => self.suspect_file(&path, writes),
                Zone::System | Zone::Startup | Zone::Forbidden if writes && is_deep => self.suspect_file(&path, true),
                Zone::Forbidden => self.suspect_file(&path, false),
                Zone::Home | Zone::Startup => self.found.need(Need::Read { path: path.shown() }),
                _ => {}
            }
        }
    }

    fn suspect_file(&mut self, path: &Text, writes: bool) {
        self.suspect(|walk| {
            match writes {
                true => walk.found.writes(path, WriteKind::Write),
                false => walk.found.reads(path),
            }
            nothing()
        });
    }

    /// Carries out a plan; returns the output.
    fn apply(&mut self, name: &str, acts: Vec<Act>) -> Text {
        let cwd = self.shell.cwd.clone();
        let mut printed = nothing();
        let mut assigned: Vec<(String, Option<Var>)> = Vec::new();
        for act in acts {
            if let Some(more) = self.act(name, act, &mut assigned) {
                printed = more;
            }
        }
        self.shell.cwd = if name == "eval" { std::mem::take(&mut self.shell.cwd) } else { cwd };
        assigned.into_iter().for_each(|(name, var)| self.shell.put(&name, var));
        printed
    }

    fn act(&mut self, name: &str, act: Act, assigned: &mut Vec<(String, Option<Var>)>) -> Option<Text> {
        match act {
            Act::Note(risk, rule, text) => self.found.note(risk, rule, text),
            Act::Read(path) => self.absolute(&path).iter().for_each(|path| self.found.reads(path)),
            Act::List(path) => self.absolute(&path).iter().for_each(|path| self.found.lists(path)),
            Act::Write(path, how) => self.changes(&path, how),
            // If its variable is unset, it isn't a path at all.
            Act::Tree(path, _) if path.has_unset() && path.without_unset().is_empty() => {
                self.found.high("unknown-tree", format!("changes all below a path that isn't known: {}", path.shown()));
            }
            Act::Tree(path, _) if path.is_empty() => {}
            Act::Tree(path, how) => self.absolute(&path).iter().for_each(|path| self.found.whole_tree(path, how)),
            Act::Move(from, to) => {
                let into =
                    self.absolute(&to).iter().map(|path| self.found.map.zone(path)).max().unwrap_or(Zone::Unknown);
                self.absolute(&from).iter().for_each(|path| self.found.moves_away(path, into));
                self.follow(&from, &to);
            }
            Act::Copy(from, to) => self.follow(&from, &to),
            Act::Link(from, to) => self.link(&from, &to),
            Act::Store(path, text) => self.store(&path, &text, false),
            Act::Net(host) => self.found.net(&host),
            Act::Host(what) => self.found.host(what),
            Act::Signal(target) => self.found.effect(Effect::Signal { target }),
            Act::In(path) => {
                self.shell.cwd = self.absolute(&path);
                self.shell.cwd.clone().iter().for_each(|path| self.found.lists(path));
            }
            Act::Assign(variable, value) => {
                let variable = variable.shown();
                builtins::sets(self, &variable, std::slice::from_ref(&value), true);
                assigned.push((variable.clone(), self.shell.vars.get(&variable).cloned()));
                self.shell.set(&variable, vec![value]);
            }
            Act::Code(code) => return Some(self.subshell(|walk| walk.code(&code))),
            Act::Here(code) => return Some(self.code(&code)),
            Act::Run(words) => return Some(self.run(name, words)),
            Act::Script(path, words) => return Some(self.script_file(name, &path, &words)),
            Act::Suspect(code) => self.suspect(|walk| walk.code(&code)),
            Act::SuspectRun(words) => {
                let is_program = |name: &Text| programs::is_known(base(name.lossy())) || name.head().contains(' ');
                if words.first().is_some_and(is_program) {
                    self.suspect(|walk| walk.exec_program(words));
                }
            }
            Act::SuspectPath(path, writes) => self.suspect_path(&path, writes),
            Act::There(place, acts) => {
                let outer = std::mem::replace(&mut self.found.elsewhere, place);
                self.subshell(|walk| walk.apply(name, acts));
                self.found.elsewhere = outer;
            }
            Act::Alias(alias, meaning) => self.git_alias(&alias, meaning),
            Act::Prints(text) => return Some(text),
        }
        None
    }

    /// Notes a changed file, whose content is no longer known.
    fn changes(&mut self, path: &Text, how: WriteKind) {
        for path in self.absolute(path) {
            self.found.writes(&path, how);
            if how != WriteKind::Mode
                && let Some(text) = path.as_str().and_then(|name| self.created.files.get_mut(name))
            {
                *text = text.source().unwrap_or(Source::File).into();
            }
        }
    }

    /// The command of a program that runs another.
    fn run(&mut self, name: &str, words: Vec<Text>) -> Text {
        let mut words = words.as_slice();
        if programs::handler_of(name) == "assign" {
            let mut assigned = Vec::new();
            while let Some((variable, value)) =
                words.first().and_then(|word| word.split_once('=')).filter(|(it, _)| !it.head().starts_with('-'))
            {
                self.act(name, Act::Assign(variable, value), &mut assigned);
                words = &words[1..];
            }
            let printed = if words.is_empty() { Source::Program.into() } else { self.exec_program(words.to_vec()) };
            assigned.into_iter().for_each(|(name, var)| self.shell.put(&name, var));
            return printed;
        }
        match words {
            [] => nothing(),
            [option, code] if matches!(option.lossy(), "-c" | "--command") => self.subshell(|walk| walk.code(code)),
            [option, rest @ ..] if matches!(option.lossy(), "-e" | "-x") => self.run(name, rest.to_vec()),
            [code] if code.head().contains(' ') && !is_shell(name) => self.subshell(|walk| walk.code(code)),
            _ => self.exec_program(words.to_vec()),
        }
    }

    /// Notes another name of a file: running or changing it affects the file.
    fn link(&mut self, target: &Text, name: &Text) {
        let base_name: Text = base(target.lossy()).into();
        let inside = Text::join(&[name.clone(), base_name], "/");
        for target in self.absolute(target) {
            if self.found.map.zone(&target) == Zone::Credentials {
                self.found.reads(&target);
            }
            self.found.lists(&target);
            let names = [name, &inside].into_iter().flat_map(|name| self.shell.absolute(name));
            for name in names.filter(|name| *name != target && target.as_str().is_some()) {
                if let (Some(name), true) = (name.as_str(), self.created.links.len() < 64) {
                    self.created.links.insert(name.to_owned(), target.clone());
                }
            }
        }
    }

    /// Notes that a copied or moved file has the same content; a copy of a program is that program.
    fn follow(&mut self, from: &Text, to: &Text) {
        let inside = Text::join(&[to.clone(), base(from.lossy()).into()], "/");
        if let Some(text) = self.written(from) {
            self.store(to, &text, false);
            self.store(&inside, &text, false);
        }
        let is_program = from.as_str().is_some_and(|path| path.starts_with('/') && path.contains("bin/"));
        if is_program {
            self.link(from, to);
        }
    }

    fn git_alias(&mut self, alias: &str, meaning: String) {
        let name = format!("git {alias}");
        if !meaning.is_empty() {
            Rc::make_mut(&mut self.shell.aliases).insert(name, meaning);
        } else if let Some(meaning) =
            self.shell.aliases.get(&name).cloned().filter(|_| !self.budget.called.contains(&name))
        {
            let code = meaning.strip_prefix('!').map_or_else(|| format!("git {meaning}"), str::to_owned);
            self.aliased(name, |walk| walk.subshell(|walk| walk.code(&code.into())));
        }
    }

    /// Runs text as code of this very shell.
    pub(super) fn code(&mut self, code: &Text) -> Text {
        if code.is_foreign() {
            self.found.block("fed-code", "a shell runs what came over the network or out of a decoder");
            return Source::Program.into();
        }
        match code.source() {
            Some(Source::File) if code.is_all_unknown() => {
                self.found.high("script", "runs a script whose contents aren't known")
            }
            Some(_) => self.found.high("unknown-code", "runs code of which a part isn't known"),
            None => {}
        }
        let text = code.code();
        if code.is_all_unknown() {
            return Source::Program.into();
        }
        if !self.budget.take_text(&text) {
            self.found.block("too-complex", "it does more than is looked at");
            return Source::Any.into();
        }
        self.deeper(|walk| walk.text(&text))
    }

    /// Runs the contents of a file as its first line asks for, under the name that it was called by.
    fn script_text(&mut self, called: &str, text: &Text, arguments: &[Text]) -> Text {
        let head = text.head().to_owned();
        let first = head.lines().next().unwrap_or_default();
        let interpreter = first
            .strip_prefix("#!")
            .and_then(|line| line.split_whitespace().map(base).rfind(|word| *word != "env" && !word.starts_with('-')));
        if let Some(language) = interpreter.filter(|name| !is_shell(name)) {
            let language = language.to_owned();
            return self.foreign(&language, text);
        }
        if self.shell.name == called && self.budget.spawns > 0 {
            self.found.block("fork-bomb", "a script starts itself again and again");
            return nothing();
        }
        self.subshell(|walk| {
            walk.shell.positional = Some(arguments.to_vec());
            walk.shell.name = called.to_owned();
            walk.code(text)
        })
    }

    fn foreign(&mut self, language: &str, text: &Text) -> Text {
        let mut acts = Vec::new();
        super::plan::foreign::code(language, text, &mut acts);
        self.apply(language, acts);
        Source::Program.into()
    }

    fn script_file(&mut self, name: &str, path: &Text, arguments: &[Text]) -> Text {
        self.absolute(path).iter().for_each(|path| self.found.reads(path));
        let text = self.content(path);
        let is_code =
            is_shell(name) || matches!(programs::handler_of(name), "later") || name == "script" || name == "run-parts";
        if text.is_all_unknown() && !text.is_foreign() {
            self.found.high("script", format!("{name} runs {}, whose contents aren't known", path.shown()));
            return Source::Program.into();
        }
        match is_code {
            true => self.script_text(&path.shown(), &text, arguments),
            false => self.foreign(name, &text),
        }
    }

    /// Runs a shell: `sh -c`, a script, or its input.
    fn shell_program(&mut self, name: &str, words: &[Text]) -> Text {
        let words: Vec<Text> = words.iter().filter(|word| !word.head().starts_with('+')).cloned().collect();
        let words = words.as_slice();
        let Some(parsed) = programs::read(name, words) else { return nothing() };
        let (mut is_code, mut reads_input, mut only_parses) = (false, false, false);
        for word in words.iter().take(words.len() - parsed.rest.len()) {
            is_code |= word.as_str() == Some("--command") || word.has_letter('c') || word.has_letter('C');
            reads_input |= word.has_letter('s');
            only_parses |= word.has_letter('n') && name != "pwsh";
        }
        for file in parsed.values("script").cloned().collect::<Vec<_>>() {
            self.subshell(|walk| walk.script_file("bash", &file, &[]));
        }
        if let Some(file) = self.shell.vars.get("BASH_ENV").or_else(|| self.shell.vars.get("ENV")).map(Var::ways) {
            file.iter().for_each(|file| _ = self.subshell(|walk| walk.script_file("bash", file, &[])));
        }
        if only_parses {
            return nothing();
        }
        let input = self.input.clone();
        match parsed.rest {
            [code, rest @ ..] if is_code => {
                let code = code.clone();
                self.subshell(|walk| {
                    walk.shell.positional = Some(rest.get(1..).unwrap_or_default().to_vec());
                    walk.shell.name = rest.first().map_or_else(|| name.to_owned(), Text::shown);
                    walk.code(&code)
                })
            }
            [script, rest @ ..] if !reads_input => self.script_file(name, script, rest),
            rest => match input {
                Some(input) => self.with_input(None, |walk| {
                    walk.subshell(|walk| {
                        walk.shell.positional = Some(rest.to_vec());
                        walk.code(&input)
                    })
                }),
                None => {
                    self.found.high("interactive", format!("{name} waits for commands"));
                    nothing()
                }
            },
        }
    }
}
