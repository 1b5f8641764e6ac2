//! Makefiles that a script wrote: their variables and functions, and the lines that recipes hand to a shell. make puts text
//! in place of `$(X)` before a shell reads the line: so does this. A variable may hold several texts; each is followed.

use std::collections::BTreeMap;
use std::rc::Rc;

use super::run::{Run, Value};
use super::state::Var;
use super::text::{self, ANY};

/// Ways that a line may turn out, before it counts as unknown.
const WAYS_MAX: usize = 8;
/// References within references.
const DEPTH_MAX: u32 = 12;
/// Texts that are put in place, in one Makefile, before it is refused.
const STEPS_MAX: u32 = 4_000;
/// What a line for a shell weighs among them.
const LINE_STEPS: u32 = 4;
/// Calls of make within make.
const CALLS_MAX: usize = 3;
/// Lines that are looked at for files which they include; one that includes itself ends here.
const INCLUDES_MAX: usize = 512;
/// What variables hold that make itself defines.
const DEFAULTS: [(&str, &str); 12] = [
    ("CC", "cc"),
    ("CXX", "c++"),
    ("CPP", "cc -E"),
    ("AR", "ar"),
    ("AS", "as"),
    ("LD", "ld"),
    ("FC", "f77"),
    ("RM", "rm -f"),
    ("MAKE", "make"),
    ("SHELL", "/bin/sh"),
    ("LEX", "lex"),
    ("YACC", "yacc"),
];
/// Words in front of an assignment.
const BEFORE_ASSIGNMENT: &str = " export override private unexport ";

/// A Makefile that is followed, and all that its lines depend on: the directories, the variables of the shell and those given.
#[derive(PartialEq)]
pub(super) struct Call {
    text: String,
    given: Vec<String>,
    vars: Rc<BTreeMap<String, Var>>,
    cwd: Vec<String>,
}

/// A Makefile as it is read.
#[derive(Default)]
struct Makefile {
    /// The texts that each variable may hold, not expanded.
    vars: BTreeMap<String, Vec<String>>,
    /// Lines of recipes, each with its rule's target, where there is one.
    recipes: Vec<(Option<String>, String)>,
    /// Other lines, for what they run while they are read.
    others: Vec<String>,
    steps: u32,
    /// Whether what isn't defined counts as empty, in place of unknown.
    unset_is_empty: bool,
}

impl Run<'_, '_> {
    /// Judges each line that a Makefile hands to a shell; `given` stands on the command line: `NAME=value`.
    pub(super) fn makefile(&mut self, text: &str, given: &[String]) {
        let given: Vec<String> = given.iter().filter(|word| word.contains('=')).cloned().collect();
        let (vars, cwd) = (Rc::clone(&self.state.vars), self.state.cwd.clone());
        let call = Call { text: text.to_owned(), given: given.clone(), vars, cwd };
        // make that calls itself so does nothing that isn't looked at already.
        let is_over = self.reasons.iter().any(|reason| matches!(reason.rule, "too-deep" | "too-complex"));
        if self.makes.contains(&call) || is_over {
            return;
        }
        if self.makes.len() >= CALLS_MAX {
            return self.block("too-deep", "make calls itself more deeply than is looked at");
        }
        self.makes.push(call);
        let mut file = Makefile::default();
        file.read(text, &|name| self.variable(name));
        for (name, value) in given.iter().filter_map(|word| word.split_once('=')) {
            file.add(name.trim_end_matches([':', '?', '+']), value);
        }
        self.included(&mut file);
        let (others, recipes) = (std::mem::take(&mut file.others), std::mem::take(&mut file.recipes));
        for line in others {
            self.made(&mut file, None, &line, 0);
        }
        let is_shell = |text: &String| super::exec::is_shell(super::exec::base(text.trim()));
        let mut shells = self.held_by(&mut file, None, "SHELL", 0);
        shells.retain(|shell| text::is_known(shell) && !is_shell(shell));
        for (target, recipe) in recipes {
            let sign = ['@', '-', '+', ' ', '\t'];
            let mut lines = self.made(&mut file, target.as_deref(), recipe.trim_start_matches(sign), 0);
            file.unset_is_empty = true;
            lines.extend(self.made(&mut file, target.as_deref(), recipe.trim_start_matches(sign), 0));
            file.unset_is_empty = false;
            for line in unlike(lines) {
                file.steps += LINE_STEPS;
                if file.steps >= STEPS_MAX {
                    break;
                }
                self.code_elsewhere(line.trim_start_matches(sign));
                shells.iter().for_each(|shell| self.other_code(super::exec::base(shell), &line));
            }
        }
        if file.steps >= STEPS_MAX {
            self.block("too-complex", "a Makefile puts more together than is looked at");
        }
        self.makes.pop();
    }

    /// Reads the files that a Makefile includes, as far as this very script wrote them.
    fn included(&mut self, file: &mut Makefile) {
        let mut at = 0;
        while at < file.others.len() && at < INCLUDES_MAX {
            let line = file.others[at].trim().trim_start_matches(['-', 's']).to_owned();
            at += 1;
            let Some(names) = line.strip_prefix("include ") else { continue };
            for name in self.made(file, None, names, 0).iter().flat_map(|names| names.split_whitespace()) {
                for text in self.content(name).iter().filter(|text| !text.chars().all(text::is_open)) {
                    file.read(text, &|name| self.variable(name));
                }
            }
        }
    }

    /// The same for a justfile, whose recipes are indented, and whose `{{X}}` is make's `$(X)`.
    pub(super) fn justfile(&mut self, text: &str, given: &[String]) {
        let line = |line: &str| match line.strip_prefix([' ', '\t']) {
            Some(recipe) => format!("\t{}\n", recipe.trim_start()),
            None => format!("{line}\n"),
        };
        let assignments = text.lines().filter(|line| !line.starts_with([' ', '\t']));
        for code in assignments.flat_map(|line| line.split('`').skip(1).step_by(2)) {
            self.code_elsewhere(code);
        }
        let text: String = text.lines().map(line).collect();
        self.makefile(&text.replace('$', "$$").replace("{{", "$(").replace("}}", ")"), given);
    }

    /// What comes of a text when make has put everything in place.
    fn made(&mut self, file: &mut Makefile, target: Option<&str>, text: &str, depth: u32) -> Value {
        file.steps += 1;
        if depth > DEPTH_MAX || file.steps >= STEPS_MAX || text.len() > super::SCRIPT_BYTES_MAX {
            return vec![ANY.to_string()];
        }
        let mut ways = vec![String::new()];
        let mut rest = text;
        while let Some((before, behind)) = rest.split_once('$') {
            let (more, after) = match behind.chars().next() {
                Some('$') => (vec!["$".to_owned()], &behind[1..]),
                Some(open @ ('(' | '{')) => match closed(behind, open) {
                    Some(length) => {
                        let inner = &behind[1..length];
                        (self.reference(file, target, inner, depth + 1), &behind[length + 1..])
                    }
                    None => (vec![ANY.to_string()], ""),
                },
                Some(letter) => {
                    let (name, after) = behind.split_at(letter.len_utf8());
                    (self.held_by(file, target, name, depth + 1), after)
                }
                None => (vec![String::new()], ""),
            };
            ways.iter_mut().for_each(|way| way.push_str(before));
            ways = each_with_each(&ways, &more);
            rest = after;
        }
        ways.iter_mut().for_each(|way| way.push_str(rest));
        ways
    }

    /// `$(…)`: a function, a variable with a change of its words, or a variable.
    fn reference(&mut self, file: &mut Makefile, target: Option<&str>, inner: &str, depth: u32) -> Value {
        let inner = inner.trim();
        let name_length = inner.find(|c: char| !c.is_ascii_alphanumeric() && c != '-').unwrap_or(inner.len());
        if let (name, arguments) = inner.split_at(name_length)
            && arguments.starts_with([' ', '\t'])
        {
            return self.function(file, target, (name, arguments.trim_start()), depth);
        }
        if let Some((name, change)) = inner.split_once(':').filter(|(_, change)| change.contains('=')) {
            let (from, to) = change.split_once('=').unwrap_or_default();
            let (from, to) = match from.contains('%') {
                true => (from.to_owned(), to.to_owned()),
                false => (format!("%{from}"), format!("%{to}")),
            };
            let held = self.held_by(file, target, name, depth);
            return self.patterns(file, target, [&from, &to], held, depth);
        }
        let mut names = self.made(file, target, inner, depth);
        names.truncate(WAYS_MAX);
        let held = names.iter().flat_map(|name| self.held_by(file, target, name, depth)).collect();
        limited(held)
    }

    /// What a variable holds. One that isn't defined may come from the environment, or be empty; so may `$<` and its like.
    fn held_by(&mut self, file: &mut Makefile, target: Option<&str>, name: &str, depth: u32) -> Value {
        if let Some(texts) = file.vars.get(name).cloned() {
            let target = target.map(str::to_owned);
            return limited(
                texts.iter().flat_map(|text| self.made(file, target.as_deref(), text, depth + 1)).collect(),
            );
        }
        match (name, target) {
            ("@", Some(target)) => vec![target.to_owned()],
            ("CURDIR" | "PWD", _) => vec![self.cwd()],
            ("HOME", _) => vec![self.map.rules.home.clone()],
            _ => match DEFAULTS.iter().find(|(own, _)| *own == name) {
                Some((_, text)) => vec![(*text).to_owned()],
                None if file.unset_is_empty => vec![String::new()],
                None => vec![self.variable(name).unwrap_or_else(|| ANY.to_string())],
            },
        }
    }

    fn function(
        &mut self,
        file: &mut Makefile,
        target: Option<&str>,
        (name, arguments): (&str, &str),
        depth: u32,
    ) -> Value {
        let parts = arguments_of(arguments);
        if name == "shell" {
            let lines = self.made(file, target, arguments, depth);
            let printed = lines.iter().flat_map(|line| self.with_input(None, |run| run.code_elsewhere(line))).collect();
            let one_line = |text: String| text.trim_end().replace('\n', " ").replace(text::FILE, &ANY.to_string());
            return limited(printed).into_iter().map(one_line).collect();
        }
        if let ("call", [called, values @ ..]) = (name, parts.as_slice()) {
            let (vars, steps, unset_is_empty) = (file.vars.clone(), file.steps, file.unset_is_empty);
            let mut inner = Makefile { vars, steps, unset_is_empty, ..Makefile::default() };
            for (at, value) in values.iter().enumerate() {
                let value = self.made(file, target, value, depth);
                let escaped = value.iter().map(|text| text.replace('$', "$$")).collect();
                inner.vars.insert((at + 1).to_string(), escaped);
            }
            let called = self.held_by(&mut inner, target, called.trim(), depth);
            file.steps = inner.steps;
            return called;
        }
        let made: Vec<Value> = parts.iter().map(|part| self.made(file, target, part, depth)).collect();
        match (name, made.as_slice()) {
            // A pattern of names stays one: the shell finds the same names.
            ("wildcard" | "strip" | "sort", [one]) => one.clone(),
            ("patsubst", [from, to, words]) => {
                let (Some(from), Some(to)) = (from.first(), to.first()) else { return vec![ANY.to_string()] };
                self.patterns(file, target, [from, to], words.clone(), depth)
            }
            ("addprefix", [prefix, words]) => each_word(prefix, words, |prefix, word| format!("{prefix}{word}")),
            ("addsuffix", [suffix, words]) => each_word(suffix, words, |suffix, word| format!("{word}{suffix}")),
            ("subst", [from, to, text]) => {
                let (Some(from), Some(to)) = (from.first(), to.first()) else { return vec![ANY.to_string()] };
                match from.is_empty() {
                    true => text.clone(),
                    false => text.iter().map(|text| text.replace(from, to)).collect(),
                }
            }
            ("abspath" | "realpath", [paths]) => {
                let absolute = |run: &Self, text: &String| {
                    text.split_whitespace().flat_map(|path| run.absolute(path)).collect::<Vec<_>>().join(" ")
                };
                paths.iter().map(|text| absolute(self, text)).collect()
            }
            // Something that the words say, or part of it.
            _ => limited(made.into_iter().flatten().chain([ANY.to_string()]).collect()),
        }
    }

    /// Words in which `%` of one pattern is put into another.
    fn patterns(
        &mut self,
        file: &mut Makefile,
        target: Option<&str>,
        [from, to]: [&str; 2],
        words: Value,
        depth: u32,
    ) -> Value {
        let (from, to) = (self.made(file, target, from, depth), self.made(file, target, to, depth));
        let ([from], [to]) = (from.as_slice(), to.as_slice()) else { return vec![ANY.to_string()] };
        let (head, tail) = from.split_once('%').unwrap_or((from, ""));
        let change = |word: &str| match word.strip_prefix(head).and_then(|rest| rest.strip_suffix(tail)) {
            Some(stem) if from.contains('%') => to.replacen('%', stem, 1),
            Some("") => to.clone(),
            // A word that isn't known may fit, whatever comes of it then.
            _ if text::has_open(word) => ANY.to_string(),
            _ => word.to_owned(),
        };
        words.iter().map(|text| text.split_whitespace().map(change).collect::<Vec<_>>().join(" ")).collect()
    }
}

impl Makefile {
    /// Reads rules and assignments. `environment` says what a variable of the shell holds.
    fn read(&mut self, text: &str, environment: &dyn Fn(&str) -> Option<String>) {
        let own = text.lines().find_map(|line| line.strip_prefix(".RECIPEPREFIX"));
        let own = own.and_then(|behind| behind.trim_start_matches([' ', ':', '=', '?']).chars().next());
        let is_one_shell = text.lines().any(|line| line.starts_with(".ONESHELL"));
        let recipe_of = |line: &'_ str| {
            let is_recipe = line.starts_with(|c| c == '\t' || Some(c) == own);
            is_recipe.then(|| line.chars().skip(1).collect::<String>())
        };
        let (mut target, mut is_definition, mut goes_on) = (None, false, false);
        let mut lines = text.lines();
        while let Some(line) = lines.next() {
            let recipe = recipe_of(line).or_else(|| is_definition.then(|| line.to_owned()));
            let is_recipe = recipe.is_some();
            let mut whole = recipe.unwrap_or_else(|| line.to_owned());
            while whole.ends_with('\\')
                && let Some(more) = lines.next()
            {
                if is_recipe || line.contains(';') {
                    whole = format!("{whole}\n{}", recipe_of(more).unwrap_or_else(|| more.to_owned()));
                } else {
                    whole.pop();
                    whole = format!("{whole} {}", more.trim_start());
                }
            }
            match whole.trim() {
                "endef" => is_definition = false,
                _ if is_recipe => match self.recipes.last_mut().filter(|_| is_one_shell && goes_on) {
                    Some((_, recipe)) => *recipe = format!("{recipe}\n{whole}"),
                    None => self.recipes.push((target.clone(), whole)),
                },
                other if other.starts_with("define ") => is_definition = true,
                _ => target = self.line(&whole, environment).or(target),
            }
            goes_on = is_recipe;
        }
    }

    /// Reads a line that is no recipe; gives the target of a rule that has only one.
    fn line(&mut self, line: &str, environment: &dyn Fn(&str) -> Option<String>) -> Option<String> {
        let line = without_comment(line);
        self.others.push(line.to_owned());
        let assigned = line.find('=').filter(|at| !line[..*at].contains(['(', '{', ';']));
        if let Some(at) = assigned {
            let (left, value) = (&line[..at], line[at + 1..].trim());
            let name = left.trim_end_matches([':', '?', '+', '!']);
            let name = name.rsplit([':', ' ', '\t']).find(|word| !word.is_empty()).unwrap_or_default();
            if text::listed(BEFORE_ASSIGNMENT, name) {
                return None;
            }
            match left.chars().last() {
                Some('+') => {
                    let before = self.vars.get(name).cloned().unwrap_or_else(|| vec![ANY.to_string(), String::new()]);
                    before.iter().for_each(|text| self.add(name, &format!("{text} {value}")));
                }
                Some('!') => self.add(name, &format!("$(shell {value})")),
                Some('?') => {
                    self.add(name, value);
                    if let Some(own) = environment(name) {
                        self.add(name, &own);
                    }
                }
                _ => self.add(name, value),
            }
            return None;
        }
        let (targets, behind) = line.split_once(':')?;
        if let Some((_, recipe)) = behind.split_once(';') {
            self.recipes.push((None, recipe.to_owned()));
        }
        let mut targets = targets.split_whitespace();
        let one = targets.next().filter(|one| targets.next().is_none() && !one.contains(['%', '$']));
        Some(one.map_or(ANY.to_string(), str::to_owned))
    }

    fn add(&mut self, name: &str, text: &str) {
        let texts = self.vars.entry(name.to_owned()).or_default();
        // What refers to itself is what it was before, which is one of the others.
        let own = [format!("$({name})"), format!("${{{name}}}")];
        let before = texts.first().cloned().unwrap_or_default();
        let text = own.iter().fold(text.to_owned(), |text, own| text.replace(own, &before));
        match texts.len() < WAYS_MAX {
            true => texts.push(text),
            false => *texts = vec![ANY.to_string()],
        }
    }
}

/// A line up to its comment: `#` within a reference begins none.
fn without_comment(line: &str) -> &str {
    let (mut depth, mut before) = (0_i32, ' ');
    for (at, c) in line.char_indices() {
        match c {
            '(' | '{' => depth += 1,
            ')' | '}' => depth -= 1,
            '#' if depth <= 0 && before != '\\' => return &line[..at],
            _ => {}
        }
        before = c;
    }
    line
}

/// Where the bracket ends that opens a text.
fn closed(text: &str, open: char) -> Option<usize> {
    let close = if open == '(' { ')' } else { '}' };
    let mut depth = 0_usize;
    for (at, c) in text.char_indices() {
        if c == open {
            depth += 1;
        } else if c == close {
            depth -= 1;
            if depth == 0 {
                return Some(at);
            }
        }
    }
    None
}

/// The arguments of a function: commas within brackets part nothing.
fn arguments_of(text: &str) -> Vec<&str> {
    let (mut depth, mut start, mut parts) = (0_i32, 0, Vec::new());
    for (at, c) in text.char_indices() {
        match c {
            '(' | '{' => depth += 1,
            ')' | '}' => depth -= 1,
            ',' if depth == 0 => {
                parts.push(&text[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    parts.push(&text[start..]);
    parts
}

fn each_with_each(ways: &[String], more: &[String]) -> Value {
    let length = |ways: &[String]| ways.iter().map(String::len).max().unwrap_or_default();
    if ways.len() * more.len() > WAYS_MAX || length(ways) + length(more) > super::SCRIPT_BYTES_MAX {
        return vec![ANY.to_string()];
    }
    ways.iter().flat_map(|way| more.iter().map(move |text| format!("{way}{text}"))).collect()
}

fn each_word(part: &[String], words: &[String], change: impl Fn(&str, &str) -> String) -> Value {
    let [part] = part else { return vec![ANY.to_string()] };
    let changed = |text: &String| text.split_whitespace().map(|word| change(part, word)).collect::<Vec<_>>().join(" ");
    words.iter().map(changed).collect()
}

fn unlike(mut ways: Value) -> Value {
    ways.sort();
    ways.dedup();
    ways
}

fn limited(ways: Value) -> Value {
    let ways = unlike(ways);
    match ways.len() {
        0 => vec![String::new()],
        1..=WAYS_MAX => ways,
        _ => vec![ANY.to_string()],
    }
}
