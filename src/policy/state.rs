//! What a shell knows while a script is walked through, and how the states of two ways become one.

use std::collections::BTreeMap;
use std::rc::Rc;

use super::run::{Value, limited};
use super::text::{ANY, is_known};
use crate::bash::Command;

/// Working directories that are followed.
const CWD_WAYS_MAX: usize = 4;
/// Names of names that are followed.
const REFS_MAX: usize = 8;

/// A variable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Var {
    Scalar(Value),
    Array(Vec<(String, Value)>),
}

impl Var {
    pub(super) fn scalar(&self) -> Option<&Value> {
        match self {
            Self::Scalar(value) => Some(value),
            Self::Array(_) => None,
        }
    }

    pub(super) fn first(&self) -> Option<Value> {
        self.element("0")
    }

    pub(super) fn element(&self, key: &str) -> Option<Value> {
        match self {
            Self::Scalar(value) => (key == "0").then(|| value.clone()),
            Self::Array(items) if is_known(key) => {
                let last = key.strip_prefix('-').and_then(|back| back.parse::<usize>().ok());
                match last {
                    Some(back) => items.len().checked_sub(back).and_then(|at| items.get(at)).map(|(_, it)| it.clone()),
                    None => items.iter().find(|(own, _)| own == key).map(|(_, value)| value.clone()),
                }
            }
            // Any of them.
            Self::Array(items) => Some(limited(items.iter().flat_map(|(_, value)| value.clone()).collect())),
        }
    }

    pub(super) fn elements(&self) -> Vec<Value> {
        match self {
            Self::Scalar(value) => vec![value.clone()],
            Self::Array(items) => items.iter().map(|(_, value)| value.clone()).collect(),
        }
    }
}

/// What a shell knows.
#[derive(Clone, PartialEq)]
pub(super) struct State {
    pub(super) vars: Rc<BTreeMap<String, Var>>,
    pub(super) functions: Rc<BTreeMap<String, Rc<Command>>>,
    /// What each alias means, in each way that it may turn out.
    pub(super) aliases: Rc<BTreeMap<String, Value>>,
    /// Variables that are other names of variables: `declare -n`.
    pub(super) refs: Rc<BTreeMap<String, String>>,
    /// `$1` and so on; `None` where they aren't known.
    pub(super) positional: Option<Vec<Value>>,
    /// `$0`
    pub(super) name: String,
    /// The working directory, in each way that it may turn out.
    pub(super) cwd: Value,
    /// Descriptors that are connections.
    pub(super) sockets: Vec<String>,
}

impl State {
    /// The variable that a name means: another one's where it was declared so.
    pub(super) fn meant<'a>(&'a self, name: &'a str) -> &'a str {
        let mut name = name;
        for _ in 0..REFS_MAX {
            match self.refs.get(name) {
                Some(target) => name = target,
                None => break,
            }
        }
        name
    }

    /// Takes in the state of a way that may have been gone instead.
    pub(super) fn merge(&mut self, other: Self) {
        for way in other.cwd {
            if !self.cwd.contains(&way) {
                self.cwd.push(way);
            }
        }
        if self.cwd.len() > CWD_WAYS_MAX {
            self.cwd = vec![ANY.to_string()];
        }
        if !Rc::ptr_eq(&self.vars, &other.vars) {
            merge_vars(Rc::make_mut(&mut self.vars), &other.vars);
        }
        if !Rc::ptr_eq(&self.functions, &other.functions) {
            let functions = Rc::make_mut(&mut self.functions);
            for (name, body) in other.functions.iter() {
                functions.entry(name.clone()).or_insert_with(|| Rc::clone(body));
            }
        }
        if !Rc::ptr_eq(&self.aliases, &other.aliases) {
            let aliases = Rc::make_mut(&mut self.aliases);
            for (name, ways) in other.aliases.iter() {
                let own = aliases.entry(name.clone()).or_default();
                own.extend(ways.iter().filter(|way| !own.contains(way)).cloned().collect::<Vec<_>>());
            }
        }
        if !Rc::ptr_eq(&self.refs, &other.refs) {
            let refs = Rc::make_mut(&mut self.refs);
            for (name, target) in other.refs.iter() {
                refs.entry(name.clone()).or_insert_with(|| target.clone());
            }
        }
    }
}

/// Takes in the variables of a way that may have been gone instead.
fn merge_vars(own: &mut BTreeMap<String, Var>, other: &BTreeMap<String, Var>) {
    let missing = Var::Scalar(vec![String::new()]);
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
        (Var::Scalar(value), Var::Scalar(more)) => {
            for way in more {
                if !value.contains(way) {
                    value.push(way.clone());
                }
            }
            *value = limited(std::mem::take(value));
        }
        (own, other) if own == other => {}
        (own @ Var::Array(_), Var::Scalar(value)) if value.iter().all(String::is_empty) => _ = own,
        (own, other) => {
            let mut ways = own.elements();
            ways.extend(other.elements());
            *own = Var::Scalar(limited(ways.concat()));
        }
    }
}
