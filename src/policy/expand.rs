//! Expands words: braces, tildes, parameters, substitutions, splitting. A word may have several possible values; each is
//! followed, up to a limit, beyond which it is unknown.

use super::builtins;
use super::piece::{Piece, Source, Text};
use super::programs::listed;
use super::shell::{Var, limited};
use super::walk::Walk;
use crate::bash::{self, Change, Parameter, Part, Word};

/// Ways that a command's words may turn out, followed separately.
const WAYS_MAX: usize = 16;
/// Longest text that is changed character by character, in bytes.
const CHANGED_BYTES_MAX: usize = 4096;

#[derive(Clone)]
enum Held {
    /// One value, with its alternatives.
    One(Vec<Text>),
    /// `$@`, `${a[@]}`: each element is a field of its own.
    Many(Vec<Text>),
    Unset,
}

/// A word under construction.
#[derive(Clone, Default)]
struct Build {
    fields: Vec<Text>,
    current: Option<Text>,
}

impl Build {
    fn add(&mut self, text: &Text) {
        self.current.get_or_insert_default().append(text);
    }

    fn add_str(&mut self, text: &str) {
        self.current.get_or_insert_default().push_str(text);
    }

    /// Adds the value of an expansion outside quotes.
    fn split(&mut self, text: &Text, separators: &str) {
        let is_cut = |c: char| separators.contains(c);
        for (at, piece) in text.split(is_cut).into_iter().enumerate() {
            if at > 0 {
                self.fields.extend(self.current.take());
            }
            if !piece.is_empty() {
                self.add(&piece.alive());
            }
        }
    }
}

impl Walk<'_, '_> {
    /// Expands words into fields, with all alternatives.
    pub(super) fn fields(&mut self, words: &[Word]) -> Vec<Vec<Text>> {
        words.iter().fold(vec![Vec::with_capacity(words.len())], |ways, word| added(ways, &self.word_fields(word)))
    }

    fn word_fields(&mut self, word: &Word) -> Vec<Vec<Text>> {
        if let [Part::Plain(text)] = word.parts.as_slice()
            && !text.contains(['{', '~', '*', '?', '['])
        {
            return vec![vec![text.as_str().into()]];
        }
        let words = match bash::braces(&word.parts) {
            Some(Some(words)) => words,
            Some(None) => return vec![vec![Source::Any.into()]],
            None => return self.unbraced_fields(&word.parts),
        };
        words.iter().fold(vec![Vec::new()], |ways, parts| added(ways, &self.unbraced_fields(parts)))
    }

    fn unbraced_fields(&mut self, parts: &[Part]) -> Vec<Vec<Text>> {
        let mut builds = vec![Build::default()];
        self.build(parts, &mut builds, false, true);
        builds
            .into_iter()
            .map(|mut build| {
                build.fields.extend(build.current.take());
                build.fields
            })
            .collect()
    }

    /// Expands a word that isn't split: the value of an assignment, a file's name, a here-document.
    pub(super) fn value(&mut self, word: &Word) -> Vec<Text> {
        let mut builds = vec![Build::default()];
        self.build(&word.parts, &mut builds, false, false);
        let whole = |build: Build| Text::join(&build.fields.into_iter().chain(build.current).collect::<Vec<_>>(), " ");
        limited(builds.into_iter().map(whole).collect())
    }

    /// Expands a word that isn't split, with its patterns dead.
    pub(super) fn plain_value(&mut self, word: &Word) -> Vec<Text> {
        self.value(word).iter().map(Text::dead).collect()
    }

    /// Expands a word of which one way is enough: the others make it unknown.
    pub(super) fn single(&mut self, word: &Word) -> Text {
        let mut ways = self.value(word);
        if ways.len() == 1 { ways.swap_remove(0) } else { Source::Any.into() }
    }

    fn build(&mut self, parts: &[Part], builds: &mut Vec<Build>, quoted: bool, splits: bool) {
        for (at, part) in parts.iter().enumerate() {
            match part {
                Part::Plain(text) => {
                    let mut made = Text::default();
                    let tilde = if at == 0 && !quoted { self.tildes(text, parts.len() == 1) } else { None };
                    match tilde {
                        Some((directory, rest)) => {
                            made = directory;
                            made.push_living(rest);
                        }
                        None => made.push_living(text),
                    }
                    builds.iter_mut().for_each(|build| build.add(&made));
                }
                Part::Dead(text) => builds.iter_mut().for_each(|build| build.add_str(text)),
                Part::Double(inner) => {
                    // `"$@"` without arguments is no word.
                    if !matches!(inner.as_slice(), [Part::Parameter(one)] if is_list(one)) {
                        builds.iter_mut().for_each(|build| build.add_str(""));
                    }
                    self.build(inner, builds, true, splits);
                }
                Part::Parameter(parameter) => {
                    let held = self.parameter(parameter, quoted);
                    let index = parameter.index.as_ref().map(bash::unquoted);
                    let joins = index.as_deref().unwrap_or(&parameter.name) == "*";
                    self.append(builds, held, quoted, splits, joins);
                }
                Part::Command(script) => {
                    let output = self.substitution(script).trim_end_lines();
                    self.append(builds, Held::One(vec![output]), quoted, splits, false);
                }
                Part::Arithmetic(word) => {
                    let value = self.arithmetic(word);
                    builds.iter_mut().for_each(|build| build.add(&value));
                }
                Part::Process { script, is_output } => {
                    let name = self.process(script, *is_output);
                    builds.iter_mut().for_each(|build| build.add_str(&name));
                }
            }
        }
    }

    fn append(&mut self, builds: &mut Vec<Build>, held: Held, quoted: bool, splits: bool, joins: bool) {
        let separators = self.shell.variable("IFS").unwrap_or_else(|| " \t\n".to_owned());
        let add = |build: &mut Build, text: &Text| match quoted || !splits {
            true => build.add(text),
            false => build.split(text, &separators),
        };
        match held {
            Held::One(ways) => {
                *builds = product(std::mem::take(builds), &ways, |build, text| add(build, text), || Source::Any.into());
            }
            Held::Many(values) => {
                let between = separators.chars().next().map(String::from).unwrap_or_default();
                for (at, value) in values.iter().enumerate() {
                    for build in builds.iter_mut() {
                        if at > 0 && (quoted && joins || !splits) {
                            build.add_str(&between);
                        } else if at > 0 {
                            build.fields.extend(build.current.take());
                        }
                        add(build, value);
                    }
                }
            }
            Held::Unset => builds.iter_mut().for_each(|build| build.add(&Source::Unset.into())),
        }
    }

    /// Expands a tilde at the beginning of a word or of an assigned value; returns the directory and the rest of the text.
    fn tildes<'t>(&self, text: &'t str, is_whole: bool) -> Option<(Text, &'t str)> {
        if let Some((name, value)) = text.split_once("=~") {
            let is_name = name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
            let value = is_name.then(|| &text[text.len() - value.len() - 1..])?;
            let (directory, rest) = self.tildes(value, is_whole)?;
            return Some((Text::from(format!("{name}=")).then(&directory), rest));
        }
        let (user, rest) = match text.strip_prefix('~')?.find('/') {
            Some(at) => (&text[1..=at], &text[at + 1..]),
            None if is_whole => (&text[1..], ""),
            None => return None,
        };
        let directory: Text = match user {
            "" => match self.shell.vars.get("HOME").map(Var::ways).as_deref() {
                Some([one]) => one.clone(),
                Some(_) => Source::Any.into(),
                None => self.context.rules.home.as_str().into(),
            },
            "+" => self.shell.cwd(),
            "-" => Source::Any.into(),
            "root" => "/root".into(),
            user if user.chars().all(|c| c.is_alphanumeric() || "_-.".contains(c)) => format!("/home/{user}").into(),
            _ => return None,
        };
        Some((directory, rest))
    }

    /// Returns the value of a parameter, with all its operations.
    fn parameter(&mut self, parameter: &Parameter, quoted: bool) -> Held {
        let mut held = self.held(parameter);
        if parameter.indirect {
            held = self.indirect(parameter, held);
        }
        if parameter.length {
            return match held {
                Held::One(ways) if ways.len() == 1 && ways[0].as_str().is_some() => {
                    Held::One(vec![ways[0].lossy().chars().count().to_string().into()])
                }
                Held::Many(values) => Held::One(vec![values.len().to_string().into()]),
                _ => Held::One(vec![Source::Name.into()]),
            };
        }
        match &parameter.change {
            Change::None => held,
            Change::Names | Change::Unknown => Held::One(vec![Source::Any.into()]),
            Change::Default { letter, colon, word } => self.default(parameter, held, (*letter, *colon), word, quoted),
            Change::Transform('P') => {
                for way in flat(held) {
                    self.prompt(&way);
                }
                Held::One(vec![Source::Any.into()])
            }
            Change::Transform(letter) => each(held, |text| match letter {
                'U' => text.to_uppercase(),
                'L' => text.to_lowercase(),
                'E' => bash::unescaped(text, true),
                'Q' => format!("'{}'", text.replace('\'', "'\\''")),
                _ => text.to_owned(),
            }),
            Change::Slice { offset, length } => {
                let offset = self.number(offset);
                let length = length.as_ref().map(|length| self.number(length));
                let first = usize::from(matches!(parameter.name.as_str(), "@" | "*"));
                slice(held, offset, length, first)
            }
            Change::Trim { from_end, longest, pattern } => {
                let pattern = self.single(pattern);
                each_text(held, |text| trim(text, &pattern, *from_end, *longest))
            }
            Change::Replace { all, anchor, pattern, with } => {
                let (pattern, with) = (self.single(pattern), self.single(with));
                match (pattern.as_str(), with.as_str(), anchor) {
                    (Some(pattern), Some(with), None) if !pattern.is_empty() => {
                        let count = if *all { usize::MAX } else { 1 };
                        each(held, |text| text.replacen(pattern, with, count))
                    }
                    _ => each_text(held, |_| Source::Any.into()),
                }
            }
            Change::Case { letter, all, .. } => each(held, |text| bash::cased(text, *letter, *all)),
        }
    }

    fn held(&mut self, parameter: &Parameter) -> Held {
        let name = parameter.name.as_str();
        let is_whole = matches!(parameter.index.as_ref().map(bash::unquoted).as_deref(), Some("@" | "*"));
        if let Some(index) = parameter.index.as_ref().filter(|_| !is_whole) {
            let key = self.subscript(index);
            return match self.shell.vars.get(name) {
                Some(var) => match key.as_str() {
                    Some(key) => var.element(key).map_or(Held::Unset, |item| Held::One(vec![item])),
                    None => Held::One(limited(var.elements())),
                },
                None => Held::Unset,
            };
        }
        match name {
            "@" | "*" => match &self.shell.positional {
                Some(values) => Held::Many(values.clone()),
                None => self.argument(),
            },
            "#" => Held::One(vec![match &self.shell.positional {
                Some(values) => values.len().to_string().into(),
                None => Source::Name.into(),
            }]),
            "?" | "$" | "!" => Held::One(vec![Source::Name.into()]),
            "-" => Held::One(vec!["hB".into()]),
            "_" => Held::One(vec![self.shell.last_word.clone()]),
            "0" => Held::One(vec![self.shell.name.as_str().into()]),
            _ if name.bytes().all(|byte| byte.is_ascii_digit()) => match &self.shell.positional {
                Some(values) => {
                    let at: usize = name.parse().unwrap_or(usize::MAX);
                    values
                        .get(at.wrapping_sub(1))
                        .map_or(Held::Many(Vec::new()), |value| Held::One(vec![value.clone()]))
                }
                None => self.argument(),
            },
            _ => match self.shell.vars.get(name) {
                Some(var) if is_whole => Held::Many(var.elements()),
                Some(var) => Held::One(var.ways()),
                None => self.environment(name),
            },
        }
    }

    /// Returns the value of an unknown argument: anything for a function that isn't called here; the shell has no arguments.
    fn argument(&self) -> Held {
        if self.budget.calls.is_empty() { Held::Unset } else { Held::One(vec![Source::Any.into()]) }
    }

    fn environment(&self, name: &str) -> Held {
        let home = &self.context.rules.home;
        if let Some(source) = Source::of_variable(name) {
            return Held::One(vec![source.into()]);
        }
        let value: Text = match name {
            "HOME" => home.as_str().into(),
            "PWD" => self.shell.cwd(),
            "OLDPWD" => Source::Any.into(),
            "USER" | "LOGNAME" => home.rsplit('/').next().unwrap_or("user").into(),
            "IFS" => " \t\n".into(),
            _ if listed("named-variables").contains(&name) => Source::Name.into(),
            _ if listed("program-variables").contains(&name) => format!("${name}").into(),
            _ => match listed("environment").iter().filter_map(|pair| pair.split_once('=')).find(|pair| pair.0 == name)
            {
                Some((_, value)) => value.replace('~', home).into(),
                None => return Held::Unset,
            },
        };
        Held::One(vec![value])
    }

    fn indirect(&mut self, parameter: &Parameter, held: Held) -> Held {
        if parameter.index.is_some() {
            return match self.shell.vars.get(&parameter.name) {
                Some(Var::Array(items)) => Held::Many(items.iter().map(|(key, _)| key.as_str().into()).collect()),
                _ => Held::One(vec![Source::Any.into()]),
            };
        }
        match held {
            Held::One(ways) if ways.len() == 1 && ways[0].as_str().is_some() => {
                let text = ways[0].lossy().to_owned();
                let (name, index) = match text.split_once('[') {
                    Some((name, index)) => (name, Some(index.trim_end_matches(']').to_owned())),
                    None => (text.as_str(), None),
                };
                let index = index.map(|index| Word { parts: vec![Part::Dead(index)] });
                self.held(&Parameter { name: name.to_owned(), index, ..parameter.clone() })
            }
            _ => Held::One(vec![Source::Any.into()]),
        }
    }

    fn default(
        &mut self,
        parameter: &Parameter,
        held: Held,
        (letter, colon): (char, bool),
        word: &Word,
        quoted: bool,
    ) -> Held {
        let is_empty = |ways: &[Text]| colon && ways.iter().any(Text::is_empty);
        let is_missing = match &held {
            Held::Unset => true,
            Held::Many(values) => values.is_empty(),
            Held::One(ways) => is_empty(ways) || ways.iter().any(Text::has_unset),
        };
        let other = |walk: &mut Self| match quoted {
            true => Held::One(walk.plain_value(word)),
            // Outside quotes the word is split like any other.
            false => match walk.fields(std::slice::from_ref(word)) {
                ways if ways.len() == 1 => Held::Many(ways[0].iter().map(Text::dead).collect()),
                _ => Held::One(walk.plain_value(word)),
            },
        };
        match letter {
            '+' if is_missing => {
                let ways = flat(other(self));
                Held::One([ways, vec![Text::default()]].concat())
            }
            '+' => other(self),
            '?' => {
                if is_missing {
                    other(self);
                }
                match held {
                    // The shell ends if it isn't set.
                    Held::Unset => Held::One(vec![Source::Any.into()]),
                    held => held,
                }
            }
            _ if !is_missing => match held {
                // It may be empty as well.
                Held::One(ways) if colon && ways.iter().any(Text::is_open) => {
                    Held::One(limited([ways, flat(other(self))].concat()))
                }
                held => held,
            },
            _ => {
                let found = other(self);
                let ways = match (held, found) {
                    (Held::One(ways), found) => {
                        let set = ways.into_iter().filter(|way| !way.is_empty() && !way.has_unset());
                        Held::One(limited(set.chain(flat(found)).collect()))
                    }
                    (_, found) => found,
                };
                if letter == '=' {
                    let value = flat(ways.clone());
                    builtins::sets(self, &parameter.name, &value, false);
                    self.shell.set(&parameter.name, value);
                }
                ways
            }
        }
    }

    /// The key of an array's element: a known number is calculated.
    pub(super) fn subscript(&mut self, index: &Word) -> Text {
        let key = self.single(index);
        self.subscripts(&key);
        match key.as_str().and_then(|text| self.calculated(text)) {
            Some(number) => number.to_string().into(),
            None => key.as_str().map_or(key.clone(), |text| text.trim_matches(['"', '\'']).into()),
        }
    }

    pub(super) fn calculated(&self, text: &str) -> Option<i64> {
        let look = |name: &str| self.shell.variable(name)?.trim().parse().ok();
        bash::calculate(text, &look)
    }

    fn number(&mut self, word: &Word) -> Option<i64> {
        let text = self.single(word);
        self.calculated(text.as_str()?)
    }

    pub(super) fn arithmetic(&mut self, word: &Word) -> Text {
        let text = self.single(word);
        self.subscripts(&text);
        // Names in it refer to their values, which are expressions again.
        let shown = text.shown();
        let names =
            shown.split(|c: char| !c.is_ascii_alphanumeric() && c != '_').filter(|name| !name.is_empty()).take(16);
        let values: Vec<Text> = names.filter_map(|name| self.shell.vars.get(name)).flat_map(Var::ways).collect();
        values.iter().for_each(|value| self.subscripts(value));
        if let Some((name, value)) = shown.split_once('=').filter(|(_, value)| !value.starts_with('=')) {
            let name = name.trim().trim_end_matches(['+', '-', '*', '/', '%']);
            if !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_') {
                let value =
                    self.calculated(value).map_or_else(|| Source::Name.into(), |value| Text::from(value.to_string()));
                self.shell.set(name, vec![value]);
            }
        }
        match text.as_str().and_then(|text| self.calculated(text)) {
            Some(number) => number.to_string().into(),
            None => Source::Name.into(),
        }
    }

    /// Bash evaluates the subscripts of a text that it takes for an expression or a name.
    pub(super) fn subscripts(&mut self, text: &Text) {
        let Some(known) = text.as_str() else { return };
        if known.contains('[') && (known.contains("$(") || known.contains('`')) {
            self.prompt(text);
        }
    }

    /// Expands a text as a prompt is expanded: its substitutions run.
    pub(super) fn prompt(&mut self, text: &Text) {
        let code = text.code();
        if code.contains(['$', '`']) && self.budget.take_text(&code) && !self.budget.is_deep() {
            self.doubt("a text whose substitutions run as in a prompt");
            self.budget.depth += 1;
            let word = bash::quoted(&code, self.budget.depth);
            self.value(&word);
            self.budget.depth -= 1;
        }
    }
}

fn flat(held: Held) -> Vec<Text> {
    match held {
        Held::One(ways) => ways,
        Held::Many(values) => vec![Text::join(&values, " ")],
        Held::Unset => vec![Source::Unset.into()],
    }
}

fn each_text(held: Held, change: impl Fn(&Text) -> Text) -> Held {
    match held {
        Held::One(ways) => Held::One(ways.iter().map(change).collect()),
        Held::Many(values) => Held::Many(values.iter().map(change).collect()),
        Held::Unset => Held::Unset,
    }
}

/// Changes known values; unknown ones stay unknown.
fn each(held: Held, change: impl Fn(&str) -> String) -> Held {
    each_text(held, |text| match text.as_str() {
        Some(known) if known.len() <= CHANGED_BYTES_MAX => change(known).into(),
        _ => text.source().unwrap_or(Source::Any).into(),
    })
}

fn is_list(parameter: &Parameter) -> bool {
    parameter.change == Change::None
        && !parameter.length
        && (parameter.name == "@" || parameter.index.as_ref().map(bash::unquoted).as_deref() == Some("@"))
}

/// The fields of one word after those of the words before.
fn added(ways: Vec<Vec<Text>>, each: &[Vec<Text>]) -> Vec<Vec<Text>> {
    product(ways, each, |fields, more| fields.extend(more.iter().cloned()), || vec![Source::Any.into()])
}

/// Combines each alternative with each other; beyond the limit the added part is unknown.
fn product<T: Clone, U>(ways: Vec<T>, more: &[U], mut add: impl FnMut(&mut T, &U), unknown: impl Fn() -> U) -> Vec<T> {
    let mut ways = ways;
    if let [one] = more {
        ways.iter_mut().for_each(|way| add(way, one));
        return ways;
    }
    if ways.len() * more.len() > WAYS_MAX {
        let unknown = unknown();
        ways.iter_mut().for_each(|way| add(way, &unknown));
        return ways;
    }
    let mut all = Vec::with_capacity(ways.len() * more.len());
    for way in &ways {
        for one in more {
            let mut way = way.clone();
            add(&mut way, one);
            all.push(way);
        }
    }
    all
}

fn slice(held: Held, offset: Option<i64>, length: Option<Option<i64>>, first: usize) -> Held {
    let (Some(offset), false) = (offset, length == Some(None)) else { return each_text(held, |_| Source::Any.into()) };
    let length = length.flatten();
    match held {
        Held::Many(values) => {
            let rest = values.into_iter().skip(usize::try_from(offset).unwrap_or(0).saturating_sub(first));
            Held::Many(rest.take(length.map_or(usize::MAX, |length| usize::try_from(length).unwrap_or(0))).collect())
        }
        held => each(held, |text| bash::sliced(text, offset, length)),
    }
}

fn trim(text: &Text, pattern: &Text, from_end: bool, longest: bool) -> Text {
    if let Some(rest) = pattern.as_str().filter(|_| !from_end).and_then(|pattern| text.strip_prefix(pattern)) {
        return rest;
    }
    let Some(known) = text.as_str().filter(|known| known.len() <= 256 && !pattern.is_open()) else {
        // `${path%/*}` of an unknown text.
        return text.source().unwrap_or(Source::Any).into();
    };
    let mut cuts: Vec<usize> = known.char_indices().map(|(at, _)| at).chain([known.len()]).collect();
    // The shortest match first; from the end that is the last place.
    if from_end != longest {
        cuts.reverse();
    }
    // A pattern's star matches a dot here.
    let is_closed = !matches!(pattern.pieces().last(), Some(Piece::Unknown(_)));
    let anchored = Text::from("x").then(pattern);
    let matches = |part: &str| is_closed && anchored.may_match(&format!("x{part}"), false);
    for at in cuts {
        let (head, tail) = known.split_at(at);
        let (matched, rest) = if from_end { (tail, head) } else { (head, tail) };
        if matches(matched) {
            return rest.into();
        }
    }
    known.into()
}
