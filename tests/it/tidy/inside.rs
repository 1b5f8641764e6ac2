//! The structure inside rooms, read from the source: which file of a room uses which other, by paths and by methods of a shared
//! type, and how a type's `impl` blocks are distributed over files. Must not know the limits that are checked with it.

use std::collections::{BTreeMap, BTreeSet};

use super::SourceFile;
use super::source::{Token, behind_closing, test_modules};

/// The files of one room and what they use of each other.
pub struct Inside<'a> {
    files: Vec<&'a SourceFile>,
    /// For each file, its tokens without test modules.
    code: Vec<Vec<Token>>,
    /// For each file, the files that it uses.
    uses: Vec<BTreeSet<usize>>,
}

impl<'a> Inside<'a> {
    /// Reads a room; `files` are those of the whole source.
    pub fn of(room: &str, files: &'a [SourceFile]) -> Self {
        let files: Vec<&SourceFile> = files
            .iter()
            .filter(|file| !file.is_tests())
            .filter(|file| file.module().is_some_and(|module| module[0] == room))
            .collect();
        let code = files.iter().map(|file| without_tests(&file.tokens)).collect();
        let mut inside = Self { uses: vec![BTreeSet::new(); files.len()], files, code };
        inside.add_paths();
        inside.add_methods();
        for (file, uses) in inside.uses.iter_mut().enumerate() {
            uses.remove(&file);
        }
        inside
    }

    fn module(&self, file: usize) -> Vec<&'a str> {
        self.files[file].module().unwrap_or_default()
    }

    /// The file of this module, or of the nearest one above it.
    fn file_of(&self, path: &[&str]) -> Option<(usize, usize)> {
        (1..=path.len()).rev().find_map(|length| {
            (0..self.files.len()).find(|&file| self.module(file) == path[..length]).map(|file| (file, length))
        })
    }

    fn add_paths(&mut self) {
        let shown: Vec<BTreeMap<String, Vec<String>>> =
            (0..self.files.len()).map(|file| shown(&self.code[file], &self.module(file))).collect();
        for file in 0..self.files.len() {
            let module = self.module(file);
            for mut path in paths(&self.code[file], &module) {
                // A name that a module re-exports is looked up in the module that it comes from.
                for _ in 0..4 {
                    let names: Vec<&str> = path.iter().map(String::as_str).collect();
                    let Some((target, length)) = self.file_of(&names) else { break };
                    match path.get(length).and_then(|name| shown[target].get(name)) {
                        Some(real) if *real != path[..=length] => {
                            path = real.iter().chain(&path[length + 1..]).cloned().collect();
                        }
                        _ => {
                            self.uses[file].insert(target);
                            break;
                        }
                    }
                }
            }
        }
    }

    /// Counts a call of a method that another file adds to a type as a use of that file.
    fn add_methods(&mut self) {
        let mut homes: BTreeMap<String, BTreeSet<usize>> = BTreeMap::new();
        let impls = self.impls();
        for (name, file, methods) in &impls {
            let is_shared = impls.iter().any(|(other, at, _)| other == name && at != file);
            for method in methods {
                let home = homes.entry(method.clone()).or_default();
                home.insert(if is_shared { *file } else { usize::MAX });
            }
        }
        for file in 0..self.files.len() {
            for pair in self.code[file].windows(3) {
                if pair[0].text == "." && pair[2].text == "(" {
                    // A name that several types or files have is ambiguous.
                    if let Some(home) = homes.get(&pair[1].text).filter(|home| home.len() == 1) {
                        self.uses[file].extend(home.iter().filter(|&&at| at != usize::MAX));
                    }
                }
            }
        }
    }

    /// The inherent `impl` blocks: the type, the file, the methods.
    fn impls(&self) -> Vec<(String, usize, Vec<String>)> {
        let mut found = Vec::new();
        for (file, tokens) in self.code.iter().enumerate() {
            for at in 0..tokens.len() {
                let starts = at == 0 || matches!(tokens[at - 1].text.as_str(), "}" | ";" | "]" | "{");
                if tokens[at].text != "impl" || !starts {
                    continue;
                }
                let Some(open) = (at..tokens.len()).find(|&at| tokens[at].text == "{") else { continue };
                let head: Vec<&str> = tokens[at + 1..open].iter().map(|token| token.text.as_str()).collect();
                // A trait's methods are called by the trait, wherever the type is.
                if head.iter().take_while(|word| **word != "where").any(|word| *word == "for") {
                    continue;
                }
                let Some(name) = type_name(&head) else { continue };
                let body = &tokens[open..behind_closing(tokens, open)];
                let methods = body.windows(2).filter(|pair| pair[0].text == "fn").map(|pair| pair[1].text.clone());
                found.push((name, file, methods.collect()));
            }
        }
        found
    }

    /// The types with `impl` blocks in files other than the one that defines them, with those files.
    pub fn spread(&self) -> BTreeMap<String, Vec<String>> {
        let mut found: BTreeMap<String, BTreeSet<usize>> = BTreeMap::new();
        for (name, file, _) in self.impls() {
            let is_own = self.code[file]
                .windows(2)
                .any(|pair| matches!(pair[0].text.as_str(), "struct" | "enum" | "union") && pair[1].text == name);
            if !is_own {
                found.entry(name).or_default().insert(file);
            }
        }
        let path = |file: usize| self.files[file].path.clone();
        found.into_iter().map(|(name, files)| (name, files.into_iter().map(path).collect())).collect()
    }

    /// The files of the largest cycle.
    pub fn largest_circle(&self) -> Vec<String> {
        let count = self.uses.len();
        let reaches: Vec<Vec<bool>> = (0..count).map(|from| self.reached(from)).collect();
        let circle = |file: usize| (0..count).filter(|&to| reaches[file][to] && reaches[to][file]).collect::<Vec<_>>();
        let largest = (0..count).map(circle).max_by_key(Vec::len).unwrap_or_default();
        largest.into_iter().map(|file| self.files[file].path.clone()).collect()
    }

    fn reached(&self, from: usize) -> Vec<bool> {
        let mut reached = vec![false; self.uses.len()];
        let mut open = vec![from];
        while let Some(file) = open.pop() {
            for &next in &self.uses[file] {
                if !reached[next] {
                    reached[next] = true;
                    open.push(next);
                }
            }
        }
        reached
    }
}

/// The tokens of a file without its test modules.
pub fn without_tests(tokens: &[Token]) -> Vec<Token> {
    let tests = test_modules(tokens);
    let is_test = |at: usize| tests.iter().any(|range| range.contains(&at));
    tokens.iter().enumerate().filter(|(at, _)| !is_test(*at)).map(|(_, token)| token.clone()).collect()
}

/// The type of an `impl`'s head: its last name before generics, or before `where`.
fn type_name(head: &[&str]) -> Option<String> {
    let mut depth = 0_i32;
    let mut name = None;
    for word in head {
        match *word {
            "<" => depth += 1,
            ">" => depth -= 1,
            "where" => break,
            word if depth == 0 && word.starts_with(char::is_alphabetic) => name = Some(word.to_owned()),
            _ => {}
        }
    }
    name
}

/// The crate's paths that the code names outside of `pub use`, from the crate's root.
fn paths(tokens: &[Token], module: &[&str]) -> Vec<Vec<String>> {
    let mut found = Vec::new();
    let mut at = 0;
    while at < tokens.len() {
        let is_start = at == 0 || tokens[at - 1].text != "::";
        let next_is_path = tokens.get(at + 1).is_some_and(|next| next.text == "::");
        if is_start && next_is_path && matches!(tokens[at].text.as_str(), "crate" | "self" | "super") {
            let mut base: Vec<String> = module.iter().map(|name| (*name).to_owned()).collect();
            let mut here = at;
            loop {
                match tokens[here].text.as_str() {
                    "crate" => base.clear(),
                    "super" => drop(base.pop()),
                    "self" => {}
                    _ => break,
                }
                here += 2;
                if here >= tokens.len() || tokens[here - 1].text != "::" {
                    break;
                }
            }
            if !is_shown_use(tokens, at) && !is_visibility(tokens, at) {
                tree(tokens, here, &base, &mut found);
            }
        }
        at += 1;
    }
    // `child::name`, for the modules that this file declares.
    for declared in tokens.windows(3).filter(|words| words[0].text == "mod" && words[2].text == ";") {
        let child = &declared[1].text;
        for at in 0..tokens.len().saturating_sub(1) {
            let is_start = at == 0 || tokens[at - 1].text != "::";
            if is_start && tokens[at].text == *child && tokens[at + 1].text == "::" && !is_shown_use(tokens, at) {
                let base: Vec<String> = module.iter().map(|name| (*name).to_owned()).collect();
                tree(tokens, at, &base, &mut found);
            }
        }
    }
    found
}

/// Returns whether the path at `at` is in a `pub use`: re-exporting a name isn't using it.
fn is_shown_use(tokens: &[Token], at: usize) -> bool {
    let Some(start) = at.checked_sub(1).filter(|&before| tokens[before].text == "use") else { return false };
    start > 0 && matches!(tokens[start - 1].text.as_str(), "pub" | ")")
}

/// Returns whether the path at `at` belongs to a visibility, as in `pub(in crate::room)`.
fn is_visibility(tokens: &[Token], at: usize) -> bool {
    at > 1 && tokens[at - 1].text == "in" && tokens[at - 2].text == "("
}

/// Reads a path and its groups: `a::b`, `a::{b, c::d}`.
fn tree(tokens: &[Token], at: usize, base: &[String], found: &mut Vec<Vec<String>>) {
    let mut path = base.to_vec();
    let mut at = at;
    while let Some(token) = tokens.get(at) {
        if token.text == "{" {
            let end = behind_closing(tokens, at);
            let mut inner = at + 1;
            while inner + 1 < end {
                tree(tokens, inner, &path, found);
                while inner + 1 < end && tokens[inner].text != "," {
                    inner = if tokens[inner].text == "{" { behind_closing(tokens, inner) } else { inner + 1 };
                }
                inner += 1;
            }
            return;
        }
        if token.text != "self" {
            path.push(token.text.clone());
        }
        if tokens.get(at + 1).is_none_or(|next| next.text != "::") {
            break;
        }
        at += 2;
    }
    found.push(path);
}

/// The names that a module re-exports with `pub use`, with their origins.
fn shown(tokens: &[Token], module: &[&str]) -> BTreeMap<String, Vec<String>> {
    let mut found = BTreeMap::new();
    for at in 1..tokens.len() {
        // A parent's private `use` is visible to its children too.
        if tokens[at - 1].text != "use" {
            continue;
        }
        let mut base: Vec<String> = module.iter().map(|name| (*name).to_owned()).collect();
        let mut here = at;
        while matches!(tokens[here].text.as_str(), "crate" | "self" | "super") {
            match tokens[here].text.as_str() {
                "crate" => base.clear(),
                "super" => drop(base.pop()),
                _ => {}
            }
            here += 2;
            if here >= tokens.len() {
                break;
            }
        }
        let mut paths = Vec::new();
        tree(tokens, here, &base, &mut paths);
        found.extend(paths.into_iter().filter_map(|path| Some((path.last()?.clone(), path))));
    }
    found
}
