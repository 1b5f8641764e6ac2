//! The state of a shell during the walk through a script, the union of two states, and the limit of a judgement's work.

use std::collections::BTreeMap;
use std::rc::Rc;

use super::piece::{Piece, Source, Text};
use crate::bash::{Command, Script};

const WAYS_MAX: usize = 8;
const CWD_WAYS_MAX: usize = 4;
/// Longest value that is followed, in pieces of text.
const VALUE_BYTES_MAX: usize = 16 * 1024;
/// Limit on the commands that are followed, counting each turn of a loop.
const STEPS_MAX: usize = 3000;
/// Number of bytes of nested text that count as a command, so that repeated reading ends, too.
const STEP_BYTES: usize = 64;
/// Constructs, substitutions, calls and scripts inside each other.
const DEPTH_MAX: usize = 64;
pub(super) const CALLS_MAX: usize = 16;

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Var {
    /// One value, with its alternatives.
    Scalar(Vec<Text>),
    Array(Vec<(String, Text)>),
}

impl Var {
    /// The value of `$name`.
    pub(super) fn ways(&self) -> Vec<Text> {
        match self {
            Self::Scalar(ways) => ways.clone(),
            Self::Array(_) => self.element("0").into_iter().collect(),
        }
    }

    pub(super) fn element(&self, key: &str) -> Option<Text> {
        match self {
            Self::Scalar(ways) => (key == "0").then(|| ways.first().cloned().unwrap_or_default()),
            Self::Array(items) => match key.strip_prefix('-').and_then(|back| back.parse::<usize>().ok()) {
                Some(back) => items.len().checked_sub(back).and_then(|at| items.get(at)).map(|(_, item)| item.clone()),
                None => items.iter().find(|(own, _)| own == key).map(|(_, item)| item.clone()),
            },
        }
    }

    pub(super) fn elements(&self) -> Vec<Text> {
        match self {
            Self::Scalar(ways) => ways.first().cloned().into_iter().collect(),
            Self::Array(items) => items.iter().map(|(_, item)| item.clone()).collect(),
        }
    }
}

/// The state of a shell.
#[derive(Clone, PartialEq)]
pub(super) struct Shell {
    pub(super) vars: Rc<BTreeMap<String, Var>>,
    pub(super) functions: Rc<BTreeMap<String, Rc<Command>>>,
    /// The text of each alias; those of git by `git NAME`.
    pub(super) aliases: Rc<BTreeMap<String, String>>,
    /// `$1` and so on; `None` if they aren't known.
    pub(super) positional: Option<Vec<Text>>,
    pub(super) name: String,
    /// The working directory, with its alternatives.
    pub(super) cwd: Vec<Text>,
    /// `true` if the shell has ended on this way.
    pub(super) is_over: bool,
    /// `$_`: the last word of the command before.
    pub(super) last_word: Text,
    /// The commands that run at the end, or on a signal.
    pub(super) traps: Vec<Text>,
}

impl Shell {
    pub(super) fn new(cwd: &str) -> Self {
        Self {
            vars: Rc::default(),
            functions: Rc::default(),
            aliases: Rc::default(),
            positional: None,
            name: "bash".to_owned(),
            cwd: vec![cwd.into()],
            is_over: false,
            last_word: Source::Any.into(),
            traps: Vec::new(),
        }
    }

    /// The only way of the working directory.
    pub(super) fn cwd(&self) -> Text {
        match self.cwd.as_slice() {
            [one] => one.clone(),
            _ => Source::Any.into(),
        }
    }

    pub(super) fn set(&mut self, name: &str, ways: Vec<Text>) {
        self.put(name, Some(Var::Scalar(limited(ways))));
    }

    /// Sets a variable, or takes it away.
    pub(super) fn put(&mut self, name: &str, var: Option<Var>) {
        let vars = Rc::make_mut(&mut self.vars);
        match var {
            Some(var) => vars.insert(name.to_owned(), var),
            None => vars.remove(name),
        };
    }

    /// The known value of a variable.
    pub(super) fn variable(&self, name: &str) -> Option<String> {
        match self.vars.get(name)?.ways().as_slice() {
            [one] => one.as_str().map(str::to_owned),
            _ => None,
        }
    }

    /// The absolute paths that a path may mean.
    pub(super) fn absolute(&self, path: &Text) -> Vec<Text> {
        // Most paths need no more.
        let is_plain = |path: &&str| !path.split('/').any(|part| matches!(part, "" | "." | ".."));
        let known = path.as_str().filter(|known| is_plain(&known.strip_prefix('/').unwrap_or(known)));
        match (known, self.cwd.as_slice()) {
            (Some(known), _) if known.starts_with('/') => return vec![path.clone()],
            (Some(known), [cwd]) if cwd.as_str().is_some_and(|cwd| cwd.len() > 1) => {
                return vec![format!("{}/{known}", cwd.lossy()).into()];
            }
            _ => {}
        }
        let is_open = matches!(path.pieces().first(), Some(Piece::Unknown(from)) if *from > Source::Name);
        if path.head().starts_with('/') || is_open {
            return vec![super::place::Place::of(path).text_or(path)];
        }
        let below = |cwd: &Text| {
            let whole = cwd.clone().then(&"/".into()).then(path);
            super::place::Place::of(&whole).text_or(&whole)
        };
        self.cwd.iter().map(below).collect()
    }

    /// Merges the state of a branch that may have run instead.
    pub(super) fn merge(&mut self, other: Self) {
        if other.is_over {
            return;
        }
        if self.is_over {
            *self = other;
            return;
        }
        for way in other.cwd {
            if !self.cwd.contains(&way) {
                self.cwd.push(way);
            }
        }
        if self.cwd.len() > CWD_WAYS_MAX {
            self.cwd = vec![Source::Any.into()];
        }
        if !Rc::ptr_eq(&self.vars, &other.vars) {
            merge_vars(Rc::make_mut(&mut self.vars), &other.vars);
        }
        merge_map(&mut self.functions, &other.functions);
        merge_map(&mut self.aliases, &other.aliases);
        self.traps.extend(other.traps.into_iter().filter(|trap| !self.traps.contains(trap)).collect::<Vec<_>>());
    }
}

/// Adds the entries that only the other map has.
fn merge_map<V: Clone>(own: &mut Rc<BTreeMap<String, V>>, other: &Rc<BTreeMap<String, V>>) {
    if !Rc::ptr_eq(own, other) {
        let own = Rc::make_mut(own);
        other.iter().for_each(|(name, value)| _ = own.entry(name.clone()).or_insert_with(|| value.clone()));
    }
}

/// Merges the variables of a branch that may have run instead.
fn merge_vars(own: &mut BTreeMap<String, Var>, other: &BTreeMap<String, Var>) {
    let missing = Var::Scalar(vec![Source::Unset.into()]);
    for (name, var) in own.iter_mut() {
        let more = other.get(name).unwrap_or(&missing);
        if var != more {
            merge_var(var, more);
        }
    }
    for (name, var) in other {
        if !own.contains_key(name) {
            let mut var = var.clone();
            merge_var(&mut var, &missing);
            own.insert(name.clone(), var);
        }
    }
}

fn merge_var(own: &mut Var, other: &Var) {
    match (own, other) {
        (Var::Scalar(ways), Var::Scalar(more)) => {
            ways.extend(more.iter().filter(|way| !ways.contains(way)).cloned().collect::<Vec<_>>());
            *ways = limited(std::mem::take(ways));
        }
        (Var::Array(_), Var::Scalar(_)) => {}
        (own, other) => *own = other.clone(),
    }
}

/// Limits a value to the number of alternatives that are followed.
pub(super) fn limited(mut ways: Vec<Text>) -> Vec<Text> {
    ways.dedup();
    let is_long =
        |way: &Text| way.pieces().len() > 256 || way.as_str().is_some_and(|text| text.len() > VALUE_BYTES_MAX);
    if ways.len() > WAYS_MAX || ways.iter().any(is_long) {
        let source = ways.iter().filter_map(Text::source).max().unwrap_or(Source::Any);
        return vec![source.max(Source::Any).into()];
    }
    ways
}

/// The limit of a judgement's work.
#[derive(Default)]
pub(super) struct Budget {
    steps: usize,
    pub(super) depth: usize,
    /// Functions that are being called, each with the background jobs and pipelines that stood open at the call.
    pub(super) calls: Vec<(Rc<Command>, usize)>,
    /// Number of open background jobs and pipelines.
    pub(super) spawns: usize,
    /// Aliases that are being followed.
    pub(super) called: Vec<String>,
}

impl Budget {
    /// Uses up steps; `false` if there are more than the limit.
    pub(super) fn take(&mut self, steps: usize) -> bool {
        self.steps = self.steps.saturating_add(steps);
        self.steps <= STEPS_MAX
    }

    /// Takes the steps of a text that is read as code, before it is.
    pub(super) fn take_text(&mut self, text: &str) -> bool {
        self.take(1 + text.len() / STEP_BYTES)
    }

    pub(super) fn is_deep(&self) -> bool {
        self.depth >= DEPTH_MAX
    }
}

/// The files that this script wrote, as far as later commands read or run them.
#[derive(Default)]
pub(super) struct ScriptFiles {
    pub(super) files: BTreeMap<String, Text>,
    /// Other names of files: what each leads to.
    pub(super) links: BTreeMap<String, Text>,
    /// Scripts of `>(…)`.
    pub(super) sinks: BTreeMap<String, Rc<Script>>,
}

impl ScriptFiles {
    /// A path with the links that the script made followed.
    pub(super) fn follow(&self, path: Text) -> Text {
        let mut path = path;
        for _ in 0..4 {
            let known = path.head();
            let leads = self.links.iter().find(|(from, _)| {
                known.strip_prefix(from.as_str()).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
            });
            let Some((from, to)) = leads else { return path };
            path = to.clone().then(&path.strip_prefix(from).unwrap_or_default());
        }
        path
    }
}
