//! bash's own commands: those that change what the shell knows, and those that run text as code.

use std::rc::Rc;

use super::exec::{nothing, output, quote};
use super::options::Options;
use super::run::{Run, Value};
use super::state::Var;
use super::text::{self, ANY, NAME, has_open, is_known};
use crate::proto::action::{Effect, Risk, WriteKind};

/// Whether a command's arguments are assignments that last.
pub(super) fn declares(name: &str) -> bool {
    matches!(name, "declare" | "typeset" | "local" | "export" | "readonly" | "command" | "builtin")
}

/// Whether a command makes names of other variables: `declare -n`, `local -n`.
pub(super) fn makes_refs(argv: &[String]) -> bool {
    argv.iter().any(|word| matches!(word.as_str(), "declare" | "typeset" | "local"))
        && argv.iter().any(|word| word.starts_with('-') && word.contains('n'))
}

/// Whether a name is one of these with a version behind it, as `python3.11`.
pub(super) fn is_versioned(name: &str, names: &[&str]) -> bool {
    names.iter().any(|base| {
        name.strip_prefix(base)
            .is_some_and(|rest| rest.trim_start_matches('-').bytes().all(|byte| byte.is_ascii_digit() || byte == b'.'))
    })
}

impl Run<'_, '_> {
    /// Runs a builtin; `None` where it isn't one that needs care.
    pub(super) fn builtin(&mut self, name: &str, words: &[String]) -> Option<Value> {
        Some(match name {
            "cd" | "pushd" | "chdir" => self.change_directory(words),
            "popd" => {
                self.state.cwd = vec![ANY.to_string()];
                nothing()
            }
            "eval" => {
                let code = words.strip_prefix(&["--".to_owned()][..]).unwrap_or(words).join(" ");
                self.code(&code)
            }
            "source" | "." => self.source(words),
            "trap" => {
                self.trap(words);
                nothing()
            }
            "command" if words.first().is_some_and(|word| matches!(word.as_str(), "-v" | "-V" | "-pv")) => {
                self.which(&words[1..])
            }
            "command" | "builtin" => {
                let words = words.strip_prefix(&["-p".to_owned()][..]).unwrap_or(words);
                let words = words.strip_prefix(&["--".to_owned()][..]).unwrap_or(words);
                self.exec_program(words.to_vec())
            }
            "hash" if words.first().is_some_and(|word| word == "-p") => {
                if let [_, path, name, ..] = words {
                    self.define_alias(name, path);
                }
                nothing()
            }
            "which" | "type" | "whereis" | "hash" => {
                let words: Vec<String> = words.iter().filter(|word| !word.starts_with('-')).cloned().collect();
                self.which(&words)
            }
            "test" | "[" => {
                self.subscripts_in(words);
                nothing()
            }
            "true" | ":" | "false" | "wait" | "jobs" | "return" | "exit" | "break" | "continue" | "times" | "umask"
            | "ulimit" | "suspend" | "logout" | "caller" | "dirs" | "disown" | "bg" | "fg" | "compgen" | "complete"
            | "compopt" | "shopt" | "enable" | "help" | "sleep" | "bind" | "history" | "fc" => self.minor(name, words),
            _ => return self.definer(name, words),
        })
    }

    /// Builtins that set variables, arguments and aliases.
    fn definer(&mut self, name: &str, words: &[String]) -> Option<Value> {
        match name {
            "alias" => {
                self.define_aliases(words);
            }
            "unalias" => {
                for word in words {
                    Rc::make_mut(&mut self.state.aliases).remove(word);
                }
            }
            "set" => {
                self.set(words);
            }
            "shift" => {
                let count = words.first().map_or(Some(1), |word| word.parse().ok());
                self.state.positional = match (self.state.positional.take(), count) {
                    (Some(values), Some(count)) => Some(values.into_iter().skip(count).collect()),
                    _ => None,
                };
            }
            "export" | "declare" | "typeset" | "local" | "readonly" => {
                self.declare(words);
            }
            "unset" => {
                self.unset(words);
            }
            "read" => return Some(self.read(words)),
            "mapfile" | "readarray" => return Some(self.read_array(words)),
            "getopts" => {
                if let Some(name) = words.get(1) {
                    self.assign_scalar(name, vec![NAME.to_string()]);
                }
                self.assign_scalar("OPTARG", vec![ANY.to_string()]);
            }
            "let" => {
                self.subscripts_in(words);
                for word in words {
                    if let Some((name, _)) = word.split_once('=') {
                        let name = name.trim_end_matches(['+', '-', '*', '/', '%']);
                        self.assign_scalar(name, vec![NAME.to_string()]);
                    }
                }
            }
            _ => return None,
        }
        Some(nothing())
    }

    fn minor(&mut self, name: &str, words: &[String]) -> Value {
        match name {
            "bind" => {
                for word in words.iter().filter(|word| word.contains(':')) {
                    let code = word.split_once(':').map_or("", |(_, code)| code).trim().trim_matches('"');
                    self.signal("environment", "ties a command to a key");
                    // Keys in place of a command: return ends a line.
                    let typed = ["\\C-m", "\\C-M", "\\C-j", "\\C-J"]
                        .iter()
                        .fold(code.to_owned(), |it, key| it.replace(key, "\n"));
                    self.code_elsewhere(&crate::bash::unescaped(&typed, true).replace('\r', "\n"));
                }
            }
            "complete" | "compgen" => {
                let options = Options::read(words, "oAGWFCXPS", "");
                for code in options.values("C", "").map(str::to_owned).collect::<Vec<_>>() {
                    self.code_elsewhere(&code);
                }
                for function in options.values("F", "").map(str::to_owned).collect::<Vec<_>>() {
                    if self.state.functions.contains_key(&function) {
                        self.code_elsewhere(&function);
                    }
                }
                // A list of words is expanded once more.
                let lists: Vec<String> =
                    options.values("W", "").filter(|list| is_known(list)).map(str::to_owned).collect();
                self.prompt_expansion(&lists);
                if name == "compgen" {
                    return output();
                }
            }
            "enable" if words.iter().any(|word| word.starts_with("-f")) => {
                self.signal("environment", "loads code into the shell");
            }
            "history" => {
                let options = Options::read(words, "darwnps", "");
                if options.has("cdwr", "") || words.iter().any(|word| word.starts_with("-c")) {
                    self.signal("history", "changes the shell's history");
                }
                options.values("wa", "").for_each(|path| self.writes(path, WriteKind::Append));
                return output();
            }
            "fc" => {
                let options = Options::read(words, "e", "");
                if options.has("s", "") {
                    self.block_unknown("unknown-command", "runs a line of the history, which isn't known");
                }
                for code in options.values("e", "").map(str::to_owned).collect::<Vec<_>>() {
                    self.code_elsewhere(&code);
                }
                return output();
            }
            _ => {}
        }
        nothing()
    }

    fn change_directory(&mut self, words: &[String]) -> Value {
        let operand = words.iter().find(|word| !word.starts_with('-') || *word == "-");
        let targets = match operand.map(String::as_str) {
            None => vec![self.map.rules.home.clone()],
            Some("-") => match self.variable("OLDPWD") {
                Some(before) => vec![before],
                None => vec![ANY.to_string()],
            },
            Some(path) if path.starts_with('+') => vec![ANY.to_string()],
            Some(path) => self.absolute(path),
        };
        let before = self.cwd();
        self.assign_scalar("OLDPWD", vec![before]);
        self.state.cwd = targets;
        nothing()
    }

    fn source(&mut self, words: &[String]) -> Value {
        let words = words.strip_prefix(&["--".to_owned()][..]).unwrap_or(words);
        let Some(file) = words.first() else { return nothing() };
        self.note(Risk::High, "script", format!("runs the script {file}"));
        if words.len() > 1 {
            let arguments = words[1..].iter().map(|word| vec![word.clone()]).collect();
            return self.with_arguments(None, arguments, |run| run.script_file(file));
        }
        self.script_file(file)
    }

    fn trap(&mut self, words: &[String]) {
        let words = words.strip_prefix(&["--".to_owned()][..]).unwrap_or(words);
        if let [code, _, ..] = words
            && !matches!(code.as_str(), "-" | "-p" | "-l" | "")
        {
            // It may run at once, when not all is known yet that is at the end.
            let code = code.clone();
            let outer = std::mem::replace(&mut self.defining, true);
            self.code_elsewhere(&code);
            self.defining = outer;
            self.traps.push(code);
        }
    }

    /// Walks through what was kept for the end, with what the variables hold then.
    pub(super) fn run_traps(&mut self) {
        for code in std::mem::take(&mut self.traps) {
            self.code(&code);
        }
    }

    fn define_aliases(&mut self, words: &[String]) {
        for (name, text) in words.iter().filter_map(|word| word.split_once('=')) {
            self.define_alias(name, text);
        }
    }

    pub(super) fn define_alias(&mut self, name: &str, text: &str) {
        self.effect(Effect::Define { name: format!("alias {name}") });
        self.note(Risk::High, "environment", format!("gives {name} another meaning"));
        self.called.push(name.to_owned());
        let outer = std::mem::replace(&mut self.defining, true);
        self.code_elsewhere(text);
        self.defining = outer;
        self.called.pop();
        Rc::make_mut(&mut self.state.aliases).insert(name.to_owned(), vec![text.to_owned()]);
    }

    /// `BASH_ALIASES[name]=text` and `BASH_CMDS[name]=path` give a name a meaning as `alias` and `hash` do.
    pub(super) fn command_table(&mut self, table: &str, name: &str, value: &Value) {
        if matches!(table, "BASH_ALIASES" | "BASH_CMDS") {
            value.iter().for_each(|text| self.define_alias(name, text));
            Rc::make_mut(&mut self.state.aliases).insert(name.to_owned(), value.clone());
        }
    }

    fn set(&mut self, words: &[String]) {
        let mut words = words.iter();
        let mut values: Option<Vec<Value>> = None;
        while let Some(word) = words.next() {
            match word.as_str() {
                "--" | "-" => {
                    values = Some(words.by_ref().map(|word| vec![word.clone()]).collect());
                }
                "-o" | "+o" => _ = words.next(),
                option if option.starts_with(['-', '+']) && option.len() > 1 => {}
                first => {
                    let rest = words.by_ref().map(|word| vec![word.clone()]);
                    values = Some([vec![first.to_owned()]].into_iter().chain(rest).collect());
                }
            }
        }
        if values.is_some() {
            self.state.positional = values;
        }
    }

    fn declare(&mut self, words: &[String]) {
        let (mut upper, mut lower, mut is_array) = (false, false, false);
        for word in words {
            if let Some(letters) = word.strip_prefix('-') {
                is_array |= letters.contains(['a', 'A']);
                upper |= letters.contains('u');
                lower |= letters.contains('l');
                continue;
            }
            // Words that only came about by expansion: `export "$name=$value"`.
            match word.split_once('=') {
                // `declare -a x='(a b)'` is read once more, as an array.
                Some((_, value)) if is_array && value.starts_with('(') => _ = self.text(word),
                Some((name, value)) if is_known(name) => {
                    self.subscripts_in(&[name.to_owned()]);
                    let value = vec![value.to_owned()];
                    self.environment_rules(name, &value, true);
                    self.assign_scalar(name, value);
                }
                Some(_) => self.doubt("sets a variable whose name isn't known"),
                None if has_open(word) => self.doubt("declares what isn't known"),
                None => {
                    Rc::make_mut(&mut self.state.refs).remove(word);
                    self.subscripts_in(std::slice::from_ref(word));
                }
            }
        }
        if upper || lower {
            self.redeclare(upper);
        }
    }

    /// `declare -u`, `-l` change the values that were just assigned.
    fn redeclare(&mut self, upper: bool) {
        let names: Vec<String> = self.state.vars.keys().cloned().collect();
        for name in names {
            let Some(Var::Scalar(ways)) = self.state.vars.get(&name).cloned() else { continue };
            let change = |way: &String| if upper { way.to_uppercase() } else { way.to_lowercase() };
            let mut changed: Value = ways.iter().map(change).collect();
            changed.extend(ways);
            self.assign_scalar(&name, changed);
        }
    }

    fn unset(&mut self, words: &[String]) {
        self.subscripts_in(words);
        for word in words {
            Rc::make_mut(&mut self.state.refs).remove(word);
            Rc::make_mut(&mut self.state.vars).remove(word);
            Rc::make_mut(&mut self.state.functions).remove(word);
        }
    }

    fn read(&mut self, words: &[String]) -> Value {
        let options = Options::read(words, "adinNptu", "");
        self.subscripts_in(&options.operands);
        let delimiter = options.values("d", "").next().map_or("\n", |text| text).to_owned();
        let (line, rest) = match &self.streams.input {
            None => (ANY.to_string(), None),
            Some(ways) => match ways.as_slice() {
                [one] => match one.split_once(delimiter.chars().next().unwrap_or('\0')) {
                    Some((line, rest)) => (line.to_owned(), Some(vec![rest.to_owned()])),
                    None => (one.clone(), Some(nothing())),
                },
                many => (ANY.to_string(), Some(many.to_vec())),
            },
        };
        // Of what isn't known there may be more lines.
        let rest = if text::has_open(&line) { self.streams.input.clone() } else { rest };
        if rest.is_some() {
            self.streams.input = rest;
        }
        if options.has("u", "") && !self.state.sockets.is_empty() {
            for name in &options.operands {
                self.assign_scalar(name, vec![text::NET.to_string()]);
            }
            return nothing();
        }
        let separators = self.variable("IFS").unwrap_or_else(|| " \t\n".to_owned());
        let fields: Vec<&str> = if separators.is_empty() {
            vec![line.as_str()]
        } else {
            line.split(|c| separators.contains(c)).filter(|field| !field.is_empty()).collect()
        };
        if let Some(array) = options.values("a", "").next() {
            let items = fields.iter().enumerate().map(|(at, field)| (at.to_string(), vec![(*field).to_owned()]));
            let items = items.collect();
            self.assign_items(array, items);
            return nothing();
        }
        let names = if options.operands.is_empty() { vec!["REPLY".to_owned()] } else { options.operands };
        for (at, name) in names.iter().enumerate() {
            let value = if at + 1 == names.len() {
                fields.get(at..).unwrap_or_default().join(" ")
            } else {
                fields.get(at).map_or(String::new(), |field| (*field).to_owned())
            };
            let value = if text::has_open(&line) && value.is_empty() { line.clone() } else { value };
            self.assign_scalar(name, vec![value]);
        }
        nothing()
    }

    fn read_array(&mut self, words: &[String]) -> Value {
        let options = Options::read(words, "dnOsucC", "");
        let name = options.operands.first().cloned().unwrap_or_else(|| "MAPFILE".to_owned());
        let data = self.streams.input.take().unwrap_or_else(|| vec![ANY.to_string()]);
        for code in options.values("C", "").map(str::to_owned).collect::<Vec<_>>() {
            self.code_elsewhere(&code);
        }
        let items = match data.as_slice() {
            [one] if options.has("d", "") => {
                let delimiter = options.values("d", "").next().and_then(|text| text.chars().next()).unwrap_or('\0');
                let fields = one.trim_end_matches('\n').split(delimiter);
                fields.enumerate().map(|(at, field)| (at.to_string(), vec![field.to_owned()])).collect()
            }
            [one] => one.lines().enumerate().map(|(at, line)| (at.to_string(), vec![line.to_owned()])).collect(),
            _ => vec![("0".to_owned(), data)],
        };
        self.assign_items(&name, items);
        nothing()
    }

    fn assign_items(&mut self, name: &str, items: Vec<(String, Value)>) {
        let name = self.state.meant(name).to_owned();
        let values: Value = items.iter().flat_map(|(_, value)| value.clone()).collect();
        self.environment_rules(&name, &values, true);
        Rc::make_mut(&mut self.state.vars).insert(name, Var::Array(items));
    }

    /// `which`, `command -v`: the name itself stands for the path.
    fn which(&mut self, words: &[String]) -> Value {
        match words {
            [one] if is_known(one) => vec![format!("{one}\n")],
            _ => output(),
        }
    }

    /// A wrapper such as `xargs`: runs a command with more words, or once for each.
    pub(super) fn with_words(&mut self, command: &[String], more: &[String]) -> Value {
        let mut argv = command.to_vec();
        argv.extend(more.iter().cloned());
        self.exec_program(argv)
    }

    /// Text that is put between quotes for another shell.
    pub(super) fn line_of(words: &[String]) -> String {
        words.iter().map(|word| quote(word)).collect::<Vec<_>>().join(" ")
    }

    /// Removes files one by one.
    pub(super) fn delete_each(&mut self, paths: &[String]) {
        for path in paths {
            self.writes(path, WriteKind::Delete);
        }
    }
}
