//! Words → what they may become: braces, tildes, parameters, substitutions, splitting. A word may turn out in several
//! ways; each is followed, up to a limit, behind which it is unknown.

use std::collections::BTreeSet;

use super::run::{Run, Value};
use super::state::Var;
use super::text::{self, ANY, NAME, alive, dead, has_open, is_known};
use crate::bash::{Change, Parameter, Part, Word};

/// Ways that a command's words may turn out, followed separately.
pub(super) const WAYS_MAX: usize = 16;
/// Programs that variables of the environment usually name.
const PROGRAM_VARIABLES: [&str; 22] = [
    "EDITOR", "VISUAL", "PAGER", "BROWSER", "CC", "CXX", "CPP", "LD", "AR", "NM", "MAKE", "PYTHON", "PYTHON3", "CARGO",
    "RUSTC", "GO", "NODE", "NPM", "JAVA", "KUBECTL", "DOCKER", "TERMINAL",
];

/// Variables that are in every environment.
const ENVIRONMENT: [&str; 8] = ["HOME", "LOGNAME", "OLDPWD", "PATH", "PWD", "SHELL", "TERM", "USER"];

/// One way that words may turn out.
pub(super) type Fields = Vec<String>;

/// What a parameter holds.
enum Held {
    One(Value),
    /// `$@`, `${a[@]}`: each element is a field of its own.
    Many(Vec<Value>),
    Unset,
}

/// A word under construction.
#[derive(Clone, Default)]
struct Build {
    fields: Fields,
    current: Option<String>,
}

impl Build {
    fn add(&mut self, text: &str) {
        self.current.get_or_insert_default().push_str(text);
    }

    /// Adds the value of an expansion outside quotes.
    fn split(&mut self, text: &str, separators: &str) {
        let is_blank = |c: char| separators.contains(c) && c.is_ascii_whitespace();
        let pieces = text.split(|c: char| separators.contains(c));
        let mut is_first = true;
        for piece in pieces {
            if !is_first {
                self.fields.extend(self.current.take());
            }
            is_first = false;
            if !piece.is_empty() {
                self.add(&alive(piece));
            }
        }
        if text.ends_with(is_blank) {
            self.fields.extend(self.current.take());
        }
    }
}

impl Run<'_, '_> {
    /// Expands words into fields, in each way that they may turn out.
    pub(super) fn fields(&mut self, words: &[Word]) -> Vec<Fields> {
        let mut ways = vec![Fields::new()];
        for word in words {
            let each = self.word_fields(word);
            ways = product(ways, &each, |fields, more| fields.extend(more.iter().cloned()));
        }
        ways
    }

    fn word_fields(&mut self, word: &Word) -> Vec<Fields> {
        if let [Part::Plain(text)] = word.parts.as_slice()
            && !text.contains(['{', '~', '*', '?', '['])
        {
            return vec![vec![text.clone()]];
        }
        let words = match crate::bash::braces(&word.parts) {
            Some(Some(words)) => words,
            Some(None) => return vec![vec![ANY.to_string()]],
            None => return self.unbraced_fields(&word.parts),
        };
        let mut ways = vec![Fields::new()];
        for parts in &words {
            let each = self.unbraced_fields(parts);
            ways = product(ways, &each, |fields, more| fields.extend(more.iter().cloned()));
        }
        ways
    }

    fn unbraced_fields(&mut self, parts: &[Part]) -> Vec<Fields> {
        let mut builds = vec![Build::default()];
        self.build(parts, &mut builds, false, true);
        builds
            .into_iter()
            .map(|mut build| {
                build.fields.extend(build.current.take());
                build.fields.into_iter().map(settled).collect()
            })
            .collect()
    }

    /// Expands a word that isn't split: the value of an assignment, a file's name, a here-document.
    pub(super) fn value(&mut self, word: &Word) -> Value {
        let mut builds = vec![Build::default()];
        self.build(&word.parts, &mut builds, false, false);
        let mut value: Value = builds
            .into_iter()
            .map(|build| build.fields.into_iter().chain(build.current).collect::<Vec<_>>().join(" "))
            .collect();
        value.dedup();
        value
    }

    /// Expands a word that isn't split, with its patterns dead.
    pub(super) fn plain_value(&mut self, word: &Word) -> Value {
        self.value(word).into_iter().map(dead).collect()
    }

    /// Expands a word of which one way is enough: the others make it unknown.
    fn single(&mut self, word: &Word) -> String {
        let mut ways = self.value(word);
        if ways.len() == 1 { ways.swap_remove(0) } else { ANY.to_string() }
    }

    fn build(&mut self, parts: &[Part], builds: &mut Vec<Build>, quoted: bool, splits: bool) {
        for (at, part) in parts.iter().enumerate() {
            match part {
                Part::Plain(text) => {
                    let mut text = text.as_str();
                    let tilde;
                    if at == 0 && !quoted && text.contains('~') {
                        // Behind the word of `<<<` stands the line's end.
                        let is_whole = match &parts[1..] {
                            [] => true,
                            [Part::Dead(end)] => end == "\n",
                            _ => false,
                        };
                        tilde = self.tildes(text, is_whole);
                        text = &tilde;
                    }
                    let text = alive(text);
                    builds.iter_mut().for_each(|build| build.add(&text));
                }
                Part::Dead(text) => builds.iter_mut().for_each(|build| build.add(text)),
                Part::Double(inner) => {
                    // `"$@"` without arguments is no word at all.
                    if !matches!(inner.as_slice(), [Part::Parameter(one)] if is_list(one)) {
                        builds.iter_mut().for_each(|build| build.add(""));
                    }
                    self.build(inner, builds, true, splits);
                }
                Part::Parameter(parameter) => {
                    let held = self.parameter(parameter, quoted);
                    let index = parameter.index.as_ref().map(crate::bash::unquoted);
                    let joins = index.as_deref().unwrap_or(&parameter.name) == "*";
                    self.append(builds, held, quoted, splits, joins);
                }
                Part::Command(script) => {
                    let output = self.substitution(script);
                    let held = Held::One(output.iter().map(|text| text.trim_end_matches('\n').to_owned()).collect());
                    self.append(builds, held, quoted, splits, false);
                }
                Part::Arithmetic(word) => {
                    let value = self.arithmetic(word);
                    builds.iter_mut().for_each(|build| build.add(&value));
                }
                Part::Process { script, is_output } => {
                    let name = self.process(script, *is_output);
                    builds.iter_mut().for_each(|build| build.add(&name));
                }
            }
        }
    }

    fn append(&mut self, builds: &mut Vec<Build>, held: Held, quoted: bool, splits: bool, joins: bool) {
        let separators = self.separators();
        let add = |build: &mut Build, text: &str| {
            if quoted {
                build.add(text);
            } else if splits {
                build.split(text, &separators);
            } else {
                build.add(text);
            }
        };
        match held {
            Held::One(ways) => {
                *builds = product(std::mem::take(builds), &ways, |build, text| add(build, text));
            }
            Held::Many(values) => {
                let between = separators.chars().next().map(String::from).unwrap_or_default();
                for (at, ways) in values.iter().enumerate() {
                    if at > 0 {
                        builds.iter_mut().for_each(|build| match (quoted && joins) || !splits {
                            true => build.add(&between),
                            false => build.fields.extend(build.current.take()),
                        });
                    }
                    *builds = product(std::mem::take(builds), ways, |build, text| add(build, text));
                }
            }
            Held::Unset => {
                self.met_unset = true;
                if !self.unset_is_empty {
                    builds.iter_mut().for_each(|build| build.add(&ANY.to_string()));
                }
            }
        }
    }

    /// Expands a tilde at the beginning of a word, or of the value of what looks like an assignment.
    fn tildes(&self, text: &str, is_whole: bool) -> String {
        if text.starts_with('~') {
            return self.tilde(text, is_whole);
        }
        match text.split_once("=~") {
            Some((name, value)) if name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_') => {
                format!("{name}={}", self.tilde(&format!("~{value}"), is_whole))
            }
            _ => text.to_owned(),
        }
    }

    fn tilde(&self, text: &str, is_whole: bool) -> String {
        let (user, below) = match text.find('/') {
            Some(at) => text.split_at(at),
            None if is_whole => (text, ""),
            None => return text.to_owned(),
        };
        let directory = match &user[1..] {
            "" => match self.state.vars.get("HOME").and_then(|var| var.scalar()) {
                Some(ways) if ways.len() == 1 => ways[0].clone(),
                Some(_) => ANY.to_string(),
                None => self.map.rules.home.clone(),
            },
            "+" => self.cwd(),
            "-" => ANY.to_string(),
            "root" => "/root".to_owned(),
            user if user.chars().all(|c| c.is_alphanumeric() || "_-.".contains(c)) => format!("/home/{user}"),
            _ => return text.to_owned(),
        };
        format!("{directory}{below}")
    }

    fn separators(&self) -> String {
        match self.state.vars.get("IFS").and_then(|var| var.scalar()) {
            Some(ways) if ways.len() == 1 && is_known(&ways[0]) => ways[0].clone(),
            _ => " \t\n".to_owned(),
        }
    }

    /// What a parameter gives, with all that is done to it.
    fn parameter(&mut self, parameter: &Parameter, quoted: bool) -> Held {
        if parameter.change == Change::Names {
            let named = self.state.vars.keys().map(String::as_str).chain(ENVIRONMENT);
            let named: BTreeSet<&str> = named.filter(|name| name.starts_with(&parameter.name)).collect();
            return Held::Many(named.into_iter().map(|name| vec![name.to_owned()]).collect());
        }
        let mut held = self.held(parameter);
        if parameter.indirect {
            held = self.indirect(parameter, held);
        }
        if parameter.length {
            return Held::One(vec![match held {
                Held::One(ways) if ways.len() == 1 && is_known(&ways[0]) => ways[0].chars().count().to_string(),
                Held::Many(values) => values.len().to_string(),
                _ => NAME.to_string(),
            }]);
        }
        match &parameter.change {
            Change::None | Change::Names => held,
            Change::Unknown => {
                self.doubt("an expansion that isn't followed");
                Held::One(vec![ANY.to_string()])
            }
            Change::Default { letter, colon, word } => self.default(parameter, held, *letter, *colon, word, quoted),
            Change::Transform(letter) => self.transform(*letter, held),
            Change::Slice { offset, length } => {
                let first = usize::from(matches!(parameter.name.as_str(), "@" | "*"));
                self.slice(held, offset, length.as_ref(), first)
            }
            change => {
                let change = self.changer(change);
                each(held, |text| change.apply(text))
            }
        }
    }

    fn held(&mut self, parameter: &Parameter) -> Held {
        let target = self.state.meant(&parameter.name).to_owned();
        let name = target.as_str();
        let is_whole = matches!(parameter.index.as_ref().map(crate::bash::unquoted).as_deref(), Some("@" | "*"));
        if let Some(index) = parameter.index.as_ref().filter(|_| !is_whole) {
            let key = self.single(index);
            let key = self.subscript(&key);
            return match self.state.vars.get(name) {
                Some(var) => var.element(&key).map_or(Held::Unset, Held::One),
                None => Held::Unset,
            };
        }
        match name {
            "@" | "*" => match &self.state.positional {
                Some(values) => Held::Many(values.clone()),
                None => Held::Unset,
            },
            "#" => Held::One(vec![match &self.state.positional {
                Some(values) => values.len().to_string(),
                None => NAME.to_string(),
            }]),
            "?" | "$" | "!" => Held::One(vec![NAME.to_string()]),
            "-" => Held::One(vec!["hB".to_owned()]),
            "_" => Held::One(self.last_word.clone()),
            "0" => Held::One(vec![self.state.name.clone()]),
            _ if name.bytes().all(|byte| byte.is_ascii_digit()) => match &self.state.positional {
                Some(values) => {
                    let at: usize = name.parse().unwrap_or(usize::MAX);
                    values.get(at.wrapping_sub(1)).map_or(Held::Many(Vec::new()), |value| Held::One(value.clone()))
                }
                None => Held::Unset,
            },
            _ => match self.state.vars.get(name) {
                Some(var) if is_whole => Held::Many(var.elements()),
                Some(var) => var.first().map_or(Held::Unset, Held::One),
                None => self.environment(name),
            },
        }
    }

    fn environment(&self, name: &str) -> Held {
        let home = &self.map.rules.home;
        let value = match name {
            "HOME" => home.clone(),
            "PWD" => self.cwd(),
            "SHELL" | "BASH" => "/bin/bash".to_owned(),
            "PATH" => "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin".to_owned(),
            "USER" | "LOGNAME" => home.rsplit('/').next().unwrap_or("user").to_owned(),
            "IFS" => " \t\n".to_owned(),
            "TMPDIR" => "/tmp".to_owned(),
            "XDG_CONFIG_HOME" => format!("{home}/.config"),
            "XDG_DATA_HOME" => format!("{home}/.local/share"),
            "XDG_STATE_HOME" => format!("{home}/.local/state"),
            "XDG_CACHE_HOME" => format!("{home}/.cache"),
            // What is there is the person's own.
            "PROMPT_COMMAND" => String::new(),
            "OSTYPE" => "linux-gnu".to_owned(),
            "HOSTNAME" | "HOSTTYPE" | "MACHTYPE" | "RANDOM" | "SRANDOM" | "SECONDS" | "LINENO" | "UID" | "EUID"
            | "PPID" | "BASHPID" | "EPOCHSECONDS" | "EPOCHREALTIME" | "COLUMNS" | "LINES" | "LANG" | "TERM" => {
                NAME.to_string()
            }
            _ if PROGRAM_VARIABLES.contains(&name) && !self.unset_is_empty => format!("${name}"),
            _ => return Held::Unset,
        };
        Held::One(vec![value])
    }

    fn indirect(&mut self, parameter: &Parameter, held: Held) -> Held {
        if parameter.index.is_some() {
            return match self.state.vars.get(self.state.meant(&parameter.name)) {
                Some(Var::Array(items)) => Held::Many(items.iter().map(|(key, _)| vec![key.clone()]).collect()),
                Some(Var::Scalar(_)) => Held::One(vec!["0".to_owned()]),
                None => Held::One(vec![NAME.to_string()]),
            };
        }
        self.signal("indirect", "an indirect expansion");
        // Of another name it is the name itself.
        if let Some(target) = self.state.refs.get(&parameter.name) {
            return Held::One(vec![target.clone()]);
        }
        match held {
            Held::One(ways) if ways.len() == 1 && is_known(&ways[0]) => {
                let (name, index) = match ways[0].split_once('[') {
                    Some((name, index)) => (name, Some(index.trim_end_matches(']').to_owned())),
                    None => (ways[0].as_str(), None),
                };
                let index = index.map(|index| Word { parts: vec![Part::Dead(index)] });
                self.held(&Parameter { name: name.to_owned(), index, ..parameter.clone() })
            }
            _ => Held::One(vec![ANY.to_string()]),
        }
    }

    fn default(
        &mut self,
        parameter: &Parameter,
        held: Held,
        letter: char,
        colon: bool,
        word: &Word,
        quoted: bool,
    ) -> Held {
        let other = |run: &mut Self| {
            if quoted {
                return Held::One(run.plain_value(word));
            }
            // Outside quotes the word is split like any other.
            match run.fields(std::slice::from_ref(word)) {
                ways if ways.len() == 1 => Held::Many(ways[0].iter().map(|field| vec![dead(field.clone())]).collect()),
                _ => Held::One(run.plain_value(word)),
            }
        };
        let is_empty = match &held {
            Held::Unset => true,
            Held::Many(values) => values.is_empty(),
            Held::One(ways) => colon && ways.iter().any(String::is_empty),
        };
        let is_surely_empty = match &held {
            Held::One(ways) => colon && ways.iter().all(String::is_empty),
            _ => is_empty,
        };
        match letter {
            '+' => {
                if matches!(held, Held::Unset) || is_surely_empty {
                    // Where it isn't known whether it is set, both are possible.
                    return Held::One([self.plain_value(word), vec![String::new()]].concat());
                }
                other(self)
            }
            '?' => {
                // What is said where it is empty.
                if is_empty || matches!(&held, Held::One(ways) if ways.iter().any(|way| has_open(way))) {
                    other(self);
                }
                held
            }
            _ if !is_empty => match held {
                // It may be empty as well.
                Held::One(mut ways) if colon && ways.iter().any(|way| has_open(way)) => {
                    ways.extend(flat(&other(self)));
                    Held::One(ways)
                }
                held => held,
            },
            _ => {
                let found = other(self);
                if letter == '=' {
                    let value = flat(&found);
                    self.assign_scalar(&parameter.name, value);
                }
                match (held, found) {
                    // Set in one way, empty in another.
                    (Held::One(mut ways), found) if !is_surely_empty => {
                        ways.retain(|way| !way.is_empty());
                        ways.extend(flat(&found));
                        Held::One(ways)
                    }
                    (_, found) => found,
                }
            }
        }
    }

    fn transform(&mut self, letter: char, held: Held) -> Held {
        match letter {
            'P' => {
                self.prompt_expansion(&flat(&held));
                Held::One(vec![ANY.to_string()])
            }
            'U' => each(held, |text| text.to_uppercase()),
            'u' => each(held, |text| case(text, '^', false)),
            'L' => each(held, |text| text.to_lowercase()),
            'E' => each(held, |text| crate::bash::unescaped(text, true)),
            'Q' => each(held, |text| format!("'{}'", text.replace('\'', "'\\''"))),
            _ => Held::One(vec![ANY.to_string()]),
        }
    }

    /// `first` is the number of the first element.
    fn slice(&mut self, held: Held, offset: &Word, length: Option<&Word>, first: usize) -> Held {
        let offset = self.number(offset);
        let length = length.map(|word| self.number(word));
        let (Some(offset), Some(length)) = (offset, length.map_or(Some(None), |length| length.map(Some))) else {
            return Held::One(vec![ANY.to_string()]);
        };
        match held {
            Held::Many(values) => {
                let offset = usize::try_from(offset).unwrap_or(0).saturating_sub(first);
                let taken = values.into_iter().skip(offset);
                Held::Many(match length {
                    Some(length) => taken.take(usize::try_from(length).unwrap_or(0)).collect(),
                    None => taken.collect(),
                })
            }
            held => each(held, |text| cut(text, offset, length)),
        }
    }

    fn changer(&mut self, change: &Change) -> Changer {
        match change {
            Change::Trim { from_end, longest, pattern } => {
                Changer::Trim { from_end: *from_end, longest: *longest, pattern: self.single(pattern) }
            }
            Change::Replace { all, anchor, pattern, with } => Changer::Replace {
                all: *all,
                anchor: *anchor,
                pattern: self.single(pattern),
                with: dead(self.single(with)),
            },
            Change::Case { letter, all, .. } => Changer::Case { letter: *letter, all: *all },
            _ => Changer::Case { letter: '~', all: false },
        }
    }
}

/// A change of text that is ready to be applied.
enum Changer {
    Trim { from_end: bool, longest: bool, pattern: String },
    Replace { all: bool, anchor: Option<char>, pattern: String, with: String },
    Case { letter: char, all: bool },
}

impl Changer {
    fn apply(&self, text: &str) -> String {
        if text.len() > text::TEXT_BYTES_MAX {
            return ANY.to_string();
        }
        if let Self::Trim { pattern, .. } | Self::Replace { pattern, .. } = self
            && pattern.contains(text::BRACKET)
        {
            // Which characters a bracket means isn't followed.
            return ANY.to_string();
        }
        match self {
            Self::Trim { from_end, longest, pattern } => {
                if has_open(pattern) || has_open(text) && !*from_end {
                    return ANY.to_string();
                }
                trim(text, pattern, *from_end, *longest)
            }
            Self::Replace { all, anchor, pattern, with } => {
                if has_open(pattern) || has_open(text) {
                    return ANY.to_string();
                }
                replace(text, pattern, with, *all, *anchor)
            }
            Self::Case { letter: '~', .. } => ANY.to_string(),
            Self::Case { letter, all } => case(text, *letter, *all),
        }
    }
}

/// A bracket that nothing closes is no pattern: `[` is a command.
fn settled(field: String) -> String {
    match field.find(text::BRACKET) {
        Some(at) if !field[at..].contains(']') => field.replace(text::BRACKET, "["),
        _ => field,
    }
}

fn flat(held: &Held) -> Value {
    match held {
        Held::One(ways) => ways.clone(),
        Held::Many(values) => {
            vec![values.iter().map(|ways| ways.first().cloned().unwrap_or_default()).collect::<Vec<_>>().join(" ")]
        }
        Held::Unset => vec![ANY.to_string()],
    }
}

fn each(held: Held, change: impl Fn(&str) -> String) -> Held {
    let all = |ways: Value| ways.iter().map(|text| change(text)).collect();
    match held {
        Held::One(ways) => Held::One(all(ways)),
        Held::Many(values) => Held::Many(values.into_iter().map(all).collect()),
        Held::Unset => Held::Unset,
    }
}

fn is_list(parameter: &Parameter) -> bool {
    parameter.change == Change::None
        && !parameter.length
        && (parameter.name == "@" || parameter.index.as_ref().map(crate::bash::unquoted).as_deref() == Some("@"))
}

/// Combines each way with each other; beyond the limit what is added is unknown.
fn product<T: Clone, U: Unknown>(ways: Vec<T>, more: &[U], mut add: impl FnMut(&mut T, &U)) -> Vec<T> {
    if let [one] = more {
        let mut ways = ways;
        ways.iter_mut().for_each(|way| add(way, one));
        return ways;
    }
    if ways.len() * more.len() > WAYS_MAX {
        let mut ways = ways;
        let unknown = U::unknown();
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

trait Unknown {
    fn unknown() -> Self;
}

impl Unknown for String {
    fn unknown() -> Self {
        ANY.to_string()
    }
}

impl Unknown for Fields {
    fn unknown() -> Self {
        vec![ANY.to_string()]
    }
}

fn cut(text: &str, offset: i64, length: Option<i64>) -> String {
    let characters: Vec<char> = text.chars().collect();
    let total = i64::try_from(characters.len()).unwrap_or(i64::MAX);
    let from = if offset < 0 { total + offset } else { offset };
    let to = match length {
        None => total,
        Some(length) if length < 0 => total + length,
        Some(length) => from.saturating_add(length),
    };
    if from < 0 || to < from {
        return String::new();
    }
    let (from, to) = (from.min(total), to.min(total));
    let open = characters.iter().position(|c| text::is_reserved(*c)).map_or(total, |at| at as i64);
    if to > open || offset < 0 && open < total {
        return ANY.to_string();
    }
    characters[from as usize..to as usize].iter().collect()
}

fn trim(text: &str, pattern: &str, from_end: bool, longest: bool) -> String {
    let mut cuts: Vec<usize> = text.char_indices().map(|(at, _)| at).chain([text.len()]).collect();
    // The shortest match first; from the end that is the last place.
    if from_end != longest {
        cuts.reverse();
    }
    for at in cuts {
        let (head, tail) = text.split_at(at);
        let (matched, kept) = if from_end { (tail, head) } else { (head, tail) };
        if text::may_match(pattern, matched) {
            return kept.to_owned();
        }
    }
    text.to_owned()
}

fn replace(text: &str, pattern: &str, with: &str, all: bool, anchor: Option<char>) -> String {
    if pattern.is_empty() {
        return match anchor {
            Some('#') => format!("{with}{text}"),
            Some('%') => format!("{text}{with}"),
            _ => text.to_owned(),
        };
    }
    if is_known(pattern) && anchor.is_none() {
        return if all { text.replace(pattern, with) } else { text.replacen(pattern, with, 1) };
    }
    match anchor {
        Some('#') => {
            let kept = trim(text, pattern, false, true);
            return if kept.len() < text.len() { format!("{with}{kept}") } else { text.to_owned() };
        }
        Some('%') => {
            let kept = trim(text, pattern, true, true);
            return if kept.len() < text.len() { format!("{kept}{with}") } else { text.to_owned() };
        }
        _ => {}
    }
    if text.len() > 256 {
        return ANY.to_string();
    }
    let mut made = String::new();
    let mut rest = text;
    while !rest.is_empty() {
        let ends = rest.char_indices().map(|(at, _)| at).chain([rest.len()]).skip(1);
        match ends.rev_find(|end| text::may_match(pattern, &rest[..*end])) {
            Some(end) => {
                made.push_str(with);
                rest = &rest[end..];
                if !all {
                    break;
                }
            }
            None => {
                let c = rest.chars().next().unwrap_or_default();
                made.push(c);
                rest = &rest[c.len_utf8()..];
            }
        }
    }
    made + rest
}

trait RevFind: Iterator<Item = usize> + Sized {
    /// The last that fits.
    fn rev_find(self, fits: impl Fn(&usize) -> bool) -> Option<usize> {
        self.filter(|at| fits(at)).last()
    }
}

impl<T: Iterator<Item = usize>> RevFind for T {}

fn case(text: &str, letter: char, all: bool) -> String {
    let change = |text: &str| if letter == '^' { text.to_uppercase() } else { text.to_lowercase() };
    if all {
        return change(text);
    }
    let first = text.chars().next().map_or(0, char::len_utf8);
    format!("{}{}", change(&text[..first]), &text[first..])
}
