//! Builtins of the shell: what they change of its state, and what a variable's value does to other programs.

use std::rc::Rc;

use super::exec::nothing;
use super::piece::{Source, Text};
use super::programs::{self, listed};
use super::shell::Var;
use super::walk::Walk;
use crate::proto::action::Effect;

/// The words without this one at their beginning.
fn without<'w>(words: &'w [Text], first: &str) -> &'w [Text] {
    words.split_first().filter(|(word, _)| word.as_str() == Some(first)).map_or(words, |(_, rest)| rest)
}

impl Walk<'_, '_> {
    /// Runs a builtin; `None` if it isn't one that needs the shell's state.
    pub(super) fn builtin(&mut self, name: &str, words: &[Text]) -> Option<Text> {
        match name {
            "cd" | "pushd" | "chdir" => self.change_directory(words),
            "exit" => self.shell.is_over = true,
            "export" | "declare" | "typeset" | "local" | "readonly" => self.declare(name, words),
            "unset" => {
                words.iter().for_each(|word| self.subscripts(word));
                for word in words.iter().filter_map(Text::as_str) {
                    self.shell.put(word, None);
                    Rc::make_mut(&mut self.shell.functions).remove(word);
                }
            }
            "alias" => {
                for (name, text) in words.iter().filter_map(|word| word.split_once('=')) {
                    self.define_alias(name.lossy(), &text);
                }
            }
            "source" | "." => return self.source(words),
            "trap" => self.trap(words),
            "read" => self.read(words),
            "mapfile" | "readarray" => self.read_array(words),
            "command" if words.first().is_some_and(|word| matches!(word.lossy(), "-v" | "-V")) => {
                return Some(self.which(&words[1..]));
            }
            "command" | "builtin" => {
                let words = without(words, "-p");
                return Some(if words.is_empty() { nothing() } else { self.exec_program(words.to_vec()) });
            }
            "which" => return Some(self.which(words)),
            "pwd" => return Some(self.shell.cwd().then(&"\n".into())),
            "printenv" | "env" | "set" if words.is_empty() => return Some(Source::Program.into()),
            "set" => self.set(words),
            "shift" => {
                let count = words.first().map_or(Some(1), |word| word.lossy().parse().ok()).unwrap_or(usize::MAX);
                if let Some(values) = &mut self.shell.positional {
                    values.drain(..count.min(values.len()));
                }
            }
            "printf" if words.first().is_some_and(|word| word.as_str() == Some("-v")) => {
                let words_after = words.get(2..).unwrap_or_default().to_vec();
                let printed = self.named("printf", &[vec!["printf".into()], words_after].concat());
                let name = words.get(1)?;
                self.subscripts(name);
                self.gives(name.lossy(), printed, false);
            }
            "test" | "[" => {
                words.iter().for_each(|word| self.subscripts(word));
                return None;
            }
            _ if listed("quiet").contains(&name) => self.minor(name, words),
            _ => return None,
        }
        Some(nothing())
    }

    fn source(&mut self, words: &[Text]) -> Option<Text> {
        let words = without(words, "--");
        let Some(file) = words.first().cloned() else { return Some(nothing()) };
        self.found.high("script", format!("runs the script {}", file.shown()));
        self.absolute(&file).iter().for_each(|path| self.found.reads(path));
        let text = self.content(&file);
        let outer = self.shell.positional.clone();
        if words.len() > 1 {
            self.shell.positional = Some(words[1..].to_vec());
        }
        let printed = self.code(&text);
        self.shell.positional = outer;
        Some(printed)
    }

    fn trap(&mut self, words: &[Text]) {
        let words = without(words, "--");
        if let [code, _, ..] = words
            && !matches!(code.as_str(), Some("-" | "-p" | "-l" | ""))
        {
            self.subshell(|walk| walk.code(code));
            self.shell.traps.push(code.clone());
        }
    }

    fn minor(&mut self, name: &str, words: &[Text]) {
        words.iter().for_each(|word| self.subscripts(word));
        match name {
            "let" | "getopts" => {
                for word in words {
                    let target = word.split_once('=').map_or_else(|| word.shown(), |(name, _)| name.shown());
                    self.shell.set(target.trim_end_matches(['+', '-', '*', '/', '%']), vec![Source::Name.into()]);
                }
            }
            "enable" if words.iter().any(|word| word.head().starts_with("-f")) => {
                self.doubt("loads code into the shell")
            }
            "bind" | "complete" | "compgen" if !words.is_empty() => {
                self.doubt("ties a command to a key or a completion");
            }
            _ => {}
        }
    }

    fn change_directory(&mut self, words: &[Text]) {
        let operand = words.iter().find(|word| !word.head().starts_with('-') || word.as_str() == Some("-"));
        let before = self.shell.cwd();
        let targets = match operand {
            None if self.shell.vars.contains_key("HOME") => self.shell.vars["HOME"].ways(),
            None => vec![self.context.rules.home.as_str().into()],
            Some(path) if path.as_str() == Some("-") => {
                self.shell.vars.get("OLDPWD").map_or_else(|| vec![Source::Any.into()], Var::ways)
            }
            Some(path) if path.head().starts_with('+') => vec![Source::Any.into()],
            // A variable that nothing sets leads home.
            Some(path) if path.has_unset() && path.without_unset().is_empty() => vec![Source::Any.into()],
            Some(path) => self.absolute(path),
        };
        self.shell.set("OLDPWD", vec![before]);
        self.shell.cwd = targets;
    }

    fn set(&mut self, words: &[Text]) {
        let mut words = words.iter();
        while let Some(word) = words.next() {
            match word.lossy() {
                "--" | "-" => return self.shell.positional = Some(words.cloned().collect()),
                "-o" | "+o" => _ = words.next(),
                option if option.starts_with(['-', '+']) && option.len() > 1 => {}
                _ => return self.shell.positional = Some([vec![word.clone()], words.cloned().collect()].concat()),
            }
        }
    }

    fn declare(&mut self, builtin: &str, words: &[Text]) {
        let flags: String = words.iter().filter_map(|word| word.as_str()?.strip_prefix('-')).collect();
        let is_export = builtin == "export" || flags.contains('x');
        for word in words.iter().filter(|word| !word.head().starts_with('-')) {
            self.subscripts(word);
            match word.split_once('=') {
                // `declare -a x='(a b)'` is read once more, as an array.
                Some((_, value)) if flags.contains(['a', 'A']) && value.head().starts_with('(') => _ = self.code(word),
                Some((name, value)) if name.as_str().is_some() => {
                    self.gives(name.lossy(), value, is_export);
                }
                Some(_) => self.doubt("sets a variable whose name isn't known"),
                None if word.as_str().is_none() => self.doubt("declares what isn't known"),
                None if is_export => {
                    let value = self.shell.vars.get(word.lossy()).map(Var::ways).unwrap_or_default();
                    self.sets(word.lossy(), &value, true);
                }
                None => {}
            }
        }
        if flags.contains(['n', 'u', 'l', 'c']) && builtin != "export" {
            self.doubt("gives a variable another name or other letters");
        }
    }

    fn gives(&mut self, name: &str, value: Text, is_environment: bool) {
        self.sets(name, std::slice::from_ref(&value), is_environment);
        self.shell.set(name, vec![value]);
    }

    /// A variable is set: what that changes for other programs, or for the shell itself.
    pub(super) fn sets(&mut self, name: &str, value: &[Text], is_environment: bool) {
        let of_shell = listed("of-the-shell").contains(&name)
            || ["LD_", "GIT_", "BASH_FUNC_", "DYLD_"].iter().any(|it| name.starts_with(it));
        let is_harmless = listed("harmless").contains(&name) || name.starts_with("LC_");
        if name == "IFS" || !(of_shell || is_environment && !is_harmless) {
            return;
        }
        self.found.effect(Effect::Define { name: name.to_owned() });
        self.found.high("environment", format!("sets {name}, which may change what other programs run"));
        for way in value {
            if name.starts_with("PS") || name == "PROMPT_COMMAND" {
                self.prompt(way);
            }
            // What other programs may run.
            let is_code = !way.is_empty() && listed("run-by-others").iter().any(|part| name.contains(part));
            if let Some((_, body)) = way.lossy().split_once("() {") {
                self.suspect(|walk| walk.code(&body.trim_end_matches('}').into()));
            } else if is_code {
                self.suspect(|walk| walk.code(&way.strip_prefix("!").unwrap_or_else(|| way.clone())));
            }
        }
    }

    pub(super) fn define_alias(&mut self, name: &str, text: &Text) {
        self.found.effect(Effect::Define { name: format!("alias {name}") });
        self.found.high("environment", format!("gives {name} another meaning"));
        self.aliased(name.to_owned(), |walk| {
            walk.suspect(|walk| walk.code(text));
            nothing()
        });
        Rc::make_mut(&mut self.shell.aliases).insert(name.to_owned(), text.code());
    }

    /// The first line of what comes in; the rest stays.
    fn take_line(&mut self) -> Text {
        let Some(input) = self.input.clone() else { return Source::Any.into() };
        match input.split_once('\n') {
            Some((line, rest)) => {
                self.input = Some(rest);
                line
            }
            // Of what isn't known there may be more lines.
            None if input.as_str().is_none() => input,
            None => {
                self.input = Some(nothing());
                input
            }
        }
    }

    fn read(&mut self, words: &[Text]) {
        let Some(given) = programs::read("read", words) else { return };
        given.operands.iter().for_each(|name| self.subscripts(name));
        let line = self.take_line();
        let fields: Vec<Text> = line.split(char::is_whitespace).into_iter().filter(|field| !field.is_empty()).collect();
        if let Some(array) = given.values("array").next() {
            let items = fields.into_iter().enumerate().map(|(at, field)| (at.to_string(), field)).collect();
            return self.shell.put(&array.shown(), Some(Var::Array(items)));
        }
        let names = if given.operands.is_empty() { vec!["REPLY".into()] } else { given.operands };
        for (at, name) in names.iter().enumerate() {
            let value = match at + 1 == names.len() {
                true => Text::join(fields.get(at..).unwrap_or_default(), " "),
                false => fields.get(at).cloned().unwrap_or_default(),
            };
            let value = if line.is_open() && value.is_empty() { line.clone() } else { value };
            self.gives(name.lossy(), value, false);
        }
    }

    fn read_array(&mut self, words: &[Text]) {
        let name = words.last().filter(|word| !word.head().starts_with('-')).map_or("MAPFILE".to_owned(), Text::shown);
        if words.iter().any(|word| word.as_str() == Some("-C")) {
            self.doubt("runs code at each line that is read");
        }
        let data = self.input.take().unwrap_or_else(|| Source::Any.into());
        self.sets(&name, std::slice::from_ref(&data), false);
        let items = data.split(|c| c == '\n' || c == '\0').into_iter().filter(|item| !item.is_empty()).take(64);
        let items = items.enumerate().map(|(at, item)| (at.to_string(), item)).collect();
        self.shell.put(&name, Some(Var::Array(items)));
    }

    /// `which`, `command -v`: the name itself stands for the path.
    fn which(&self, words: &[Text]) -> Text {
        match words {
            [one] if one.as_str().is_some() => one.clone().then(&"\n".into()),
            _ => Source::Program.into(),
        }
    }
}
