//! Programs with a small language of their own that can run commands (m4, dc, ed and the editors), and what the words of a
//! program that isn't known say by custom: options that name a command, and a command behind them.

use super::exec::{base, nothing, output};
use super::options::Options;
use super::run::{Run, Value};
use super::text;
use crate::proto::action::{Risk, WriteKind};

/// Options whose value is a command, by custom.
const RUNS: &str = " -c -e -E -a -x --exec --execute --command --cmd --eval --run --shell --hook --preview --program --filter --action \
    --up --down --handler --callback --shell-command --run-command --sh --script -exec -command --batch-string --python-expr \
    --pager --editor --helper --wrapper --launcher ";
/// Words in front of a command, by custom.
const BEFORE_COMMAND: &str = " exec run cmd command sh shell start spawn execute do ";

impl Run<'_, '_> {
    /// Runs a program with a small language of its own; `None` where it isn't one.
    pub(super) fn script_program(&mut self, name: &str, words: &[String]) -> Option<Value> {
        match name {
            "m4" | "gm4" => self.m4(words),
            "dc" => {
                let options = Options::read(words, "ef", "expression file");
                let mut codes: Vec<String> = options.values("e", "expression").map(str::to_owned).collect();
                let files: Vec<&str> =
                    options.values("f", "file").chain(options.operands.iter().map(String::as_str)).collect();
                codes.extend(files.iter().flat_map(|file| self.content(file)));
                codes.extend(self.streams.input.iter().flatten().cloned());
                for line in codes.iter().flat_map(|code| code.lines()).filter_map(|line| line.trim().strip_prefix('!'))
                {
                    self.embedded(line, true);
                }
                files.iter().for_each(|file| self.reads(file));
            }
            _ => return None,
        }
        Some(output())
    }

    fn m4(&mut self, words: &[String]) {
        let options = Options::read(words, "DUItFRBSHL", "define undefine include trace freeze-state reload-state");
        let mut codes: Vec<String> = options.values("D", "define").map(str::to_owned).collect();
        for file in &options.operands {
            self.reads(file);
            codes.extend(self.content(file));
        }
        if options.operands.is_empty() || options.operands.iter().any(|file| file == "-") {
            codes.extend(self.streams.input.iter().flatten().cloned());
        }
        for code in &codes {
            if code.contains([text::NET, text::DECODED, text::DECODED_MARK]) {
                self.block("fed-code", "m4 runs what came over the network or out of a decoder");
            }
            // `syscmd` is in `esyscmd` too.
            for (at, _) in code.match_indices("syscmd(") {
                let inner = &code[at + "syscmd(".len()..];
                let inner = inner.split_once(')').map_or(inner, |(inner, _)| inner);
                let line = inner.replace(['`', '\''], "");
                self.embedded(line.trim(), true);
            }
        }
        self.note(Risk::High, "code", "m4 expands macros, which may run commands");
    }

    /// One command of an editor: what it runs and which file it writes.
    pub(super) fn editor_line(&mut self, line: &str) {
        let line = line.trim().trim_start_matches(|c: char| c == ':' || c.is_ascii_digit() || "%.,$+-' ".contains(c));
        if let Some(shell) = line.strip_prefix('!') {
            _ = self.code_elsewhere(shell);
            return;
        }
        let length = line.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(line.len());
        let (verb, rest) = line.split_at(length);
        let rest = rest.trim_start_matches('!').trim_start_matches('>').trim();
        let bang = line[length..].trim_start().strip_prefix('!');
        let takes_file = text::listed("w wq W x sav write saveas update exit f file", verb);
        match bang {
            Some(shell) if text::listed("r w e read write term terminal", verb) && !shell.trim().is_empty() => {
                // `w! FILE` and `w !COMMAND`.
                if line[length..].starts_with('!') {
                    self.writes(rest, WriteKind::Write);
                } else {
                    self.code_elsewhere(shell);
                }
            }
            _ if text::listed("terminal term", verb) && !rest.is_empty() => _ = self.code_elsewhere(rest),
            _ if takes_file && !rest.is_empty() && !verb.is_empty() => self.writes(rest, WriteKind::Write),
            _ => {}
        }
    }

    /// `python -m MODULE`
    pub(super) fn python_module(&mut self, module: &str, words: &[String]) -> Value {
        match module {
            "timeit" => words.iter().for_each(|code| self.other_code("python", code)),
            "json.tool" | "this" | "calendar" | "tokenize" | "ast" | "dis" | "platform" | "site" => {}
            "pytest" | "unittest" | "venv" | "virtualenv" | "compileall" | "py_compile" | "build" | "mypy"
            | "black" | "ruff" | "flake8" | "isort" | "pylint" | "coverage" | "doctest" | "tox" | "nox" | "pdb"
            | "cProfile" | "sphinx" | "zipfile" | "tarfile" | "django" => {
                self.note(Risk::Medium, "build", format!("runs {module}"));
                if matches!(module, "pdb" | "cProfile" | "coverage") {
                    let codes = words.iter().skip(1).filter(|word| word.contains('('));
                    codes.for_each(|code| self.other_code("python", code.trim_start_matches('!')));
                }
                if matches!(module, "venv" | "virtualenv") {
                    words
                        .iter()
                        .filter(|word| !word.starts_with('-'))
                        .for_each(|path| self.writes(path, WriteKind::Write));
                }
                if matches!(module, "zipfile" | "tarfile")
                    && let Some(at) = words.iter().position(|word| word == "-e" || word == "--extract")
                {
                    words.iter().skip(at + 2).for_each(|path| self.writes(path, WriteKind::Write));
                }
            }
            "pip" | "pipx" => {
                let argv = std::iter::once(module).chain(words.iter().map(String::as_str)).map(str::to_owned);
                return self.exec_program(argv.collect());
            }
            "ensurepip" => self.note(Risk::High, "install", "installs packages"),
            // The file behind the options is run, step by step or with a clock.
            "trace" | "profile" | "runpy" | "bdb" => {
                self.note(Risk::High, "script", format!("{module} runs a script"));
                let codes: Vec<String> =
                    words.iter().filter(|word| !word.starts_with('-')).flat_map(|file| self.content(file)).collect();
                codes.iter().filter(|code| text::is_known(code)).for_each(|code| self.other_code("python", code));
            }
            _ => {
                self.note(Risk::High, "unknown-program", format!("runs the module {module}"));
                self.written_module(module);
            }
        }
        output()
    }

    /// A module of python that this very script wrote is run where it is named.
    pub(super) fn written_module(&mut self, module: &str) {
        let file = format!("{}.py", module.trim().replace('.', "/"));
        if self.is_written(&file) && !self.called.contains(&file) {
            let codes = self.content(&file);
            self.called.push(file);
            codes.iter().for_each(|code| self.other_code("python", code));
            self.called.pop();
        }
    }

    /// Code writes to a file that a variable names: one of its strings, perhaps behind the home.
    pub(super) fn may_write_one_of(&mut self, literals: &[String], names_home: bool) {
        for path in literals.iter().filter(|path| path.starts_with('/') && path.len() > 1 && !path.contains(' ')) {
            let below = format!("{}{path}", self.map.rules.home);
            for path in [path, &below].into_iter().take(1 + usize::from(names_home)) {
                if self.zone_of(path) > super::place::Zone::Outside {
                    self.writes(path, WriteKind::Write);
                }
            }
        }
    }

    /// A file of an editor's commands, or its input where it takes commands from there.
    pub(super) fn editor_script(&mut self, name: &str, file: &str) {
        if file == "NONE" || file == "-" && self.streams.input.is_none() {
            return;
        }
        self.reads(file);
        let texts = self.content(file);
        for text in &texts {
            if text.contains([text::NET, text::DECODED, text::DECODED_MARK]) {
                self.block("fed-code", format!("{name} runs what came over the network or out of a decoder"));
            }
            text.lines().take(64).for_each(|line| self.editor_line(line));
            if file != "-" && text::is_known(text) {
                self.other_code(if name == "emacs" { name } else { "vim" }, text);
            }
        }
    }

    /// A file of a debugger's commands.
    pub(super) fn debugger_script(&mut self, file: &str) {
        self.reads(file);
        for text in self.content(file) {
            self.other_code("gdb", &text);
            for line in text.lines().take(64).map(str::trim) {
                if let Some(code) = line.strip_prefix('!') {
                    self.embedded(code, true);
                }
            }
        }
    }

    /// What the words of a program that isn't known say by custom. Only what it is blocked for counts.
    pub(super) fn scan_commands(&mut self, words: &[String]) {
        for (at, word) in words.iter().enumerate().take(24) {
            let (option, inline) =
                word.split_once('=').map_or((word.as_str(), None), |(option, value)| (option, Some(value)));
            let is_hook = option.starts_with("--on-") || option.starts_with("--pre-") || option.starts_with("--post-");
            if text::listed(RUNS, option) || is_hook {
                let value = inline.map(str::to_owned).or_else(|| words.get(at + 1).cloned()).unwrap_or_default();
                self.embedded(value.trim_start_matches('!'), false);
                self.embedded_code(&value);
            } else if let Some(list) = words.get(at + 1).filter(|_| option == "-wrapper") {
                self.exec_program(list.split(',').map(str::to_owned).collect());
            } else if word == "eval" && at == 0 {
                self.embedded_code(&words[1..].join(" "));
            }
            // TeX and rpm have signs of their own.
            for (open, close) in [
                ("write18{", '}'),
                ("%(", ')'),
                ("os.execute(", ')'),
                ("execute(", ')'),
                ("become(", ')'),
                ("reload(", ')'),
            ] {
                if let Some(code) = word.split_once(open).and_then(|(_, inner)| inner.rsplit_once(close)) {
                    self.embedded(code.0.trim_matches(['"', '\'']), false);
                }
            }
            if let Some((_, code)) = words.get(at + 1).filter(|_| word == "--config").and_then(|it| it.split_once('='))
            {
                self.embedded(code.trim_start_matches('!'), false);
            }
            if word == "--" && at + 1 < words.len() {
                let line = Self::line_of(&words[at + 1..]);
                self.embedded(&line, true);
            }
        }
        // A wrapper that isn't known: the command stands first, behind options, or behind a word that says so.
        let starts = words.iter().enumerate().take(10).filter(|(at, word)| {
            let before = at.checked_sub(1).and_then(|at| words.get(at)).map(String::as_str);
            let further = at.checked_sub(2).and_then(|at| words.get(at)).map(String::as_str);
            let is_start = |word: Option<&str>| {
                word.is_none_or(|word| word.starts_with('-') || text::listed(BEFORE_COMMAND, word))
            };
            let name = base(word);
            (is_start(before)
                || further.is_some_and(|word| word.starts_with('-') || text::listed(BEFORE_COMMAND, word)))
                && (super::files::is_destroyer(name) || super::exec::is_shell(name))
        });
        let lines: Vec<String> = starts.map(|(at, _)| Self::line_of(&words[at..])).collect();
        lines.iter().for_each(|line| _ = self.embedded(line, true));
    }

    /// Code in a language that isn't known: only what it is blocked for counts.
    fn embedded_code(&mut self, code: &str) {
        let before = self.reasons.len();
        self.other_code("", code);
        let mut at = 0;
        self.reasons.retain(|reason| {
            at += 1;
            at <= before || reason.risk == Risk::Blocked && !matches!(reason.rule, "unknown-code" | "outside-workspace")
        });
    }

    /// What a program that isn't known is fed with: lines that begin with a sign for a shell, and code.
    pub(super) fn scan_input(&mut self) {
        let input = self.streams.input.replace(nothing());
        let known: Vec<String> = input.into_iter().flatten().filter(|text| text::is_known(text)).collect();
        for text in &known {
            let marks = ["!", ".sy ", "exec ", "\\!", "shell "];
            for line in
                text.lines().filter_map(|line| marks.iter().find_map(|mark| line.trim().strip_prefix(mark))).take(16)
            {
                self.embedded(line, false);
            }
            self.embedded_code(text);
        }
    }

    /// A program that isn't known, or that only tells, is pointed at keys: but not by an option that says which key to use.
    pub(super) fn scan_secrets(&mut self, words: &[String]) {
        let uses_key = |word: &String| {
            let name = word.trim_start_matches('-').to_ascii_lowercase();
            word.starts_with('-')
                && (name == "i"
                    || ["key", "ident", "cert", "config", "private", "kube", "credential", "cookie", "netrc"]
                        .iter()
                        .any(|part| name.contains(part)))
        };
        for (at, word) in words.iter().enumerate() {
            if uses_key(word) || at.checked_sub(1).and_then(|at| words.get(at)).is_some_and(uses_key) {
                continue;
            }
            let path = word.rsplit(['=', '@', ':']).next().unwrap_or(word);
            let place = |path: &str| self.zone_of(path) == super::place::Zone::Credentials;
            if path.contains('/') && !text::has_open(path) && !word.contains("://") && place(path) {
                self.reads(path);
            }
        }
    }

    /// A program that builds from files which this very script wrote: what it makes will do what they say.
    pub(super) fn builds_known(&mut self, name: &str, words: &[String]) {
        if text::listed("npm yarn pnpm bun", name) {
            self.known_scripts("package.json");
        }
        for word in words
            .iter()
            .filter(|word| *word == "-" || word.starts_with("/dev/fd/") || word.contains('.') && !word.starts_with('-'))
            .take(16)
        {
            let known: Vec<String> = self.content(word).into_iter().filter(|text| text::is_known(text)).collect();
            known.iter().for_each(|code| self.other_code(name, code));
        }
    }

    /// The lines that an editor reads as commands from its input.
    pub(super) fn editor_input(&mut self) -> Value {
        let lines: Vec<String> =
            self.streams.input.iter().flatten().flat_map(|text| text.lines()).map(str::to_owned).collect();
        lines.iter().take(64).for_each(|line| self.editor_line(line));
        nothing()
    }
}
