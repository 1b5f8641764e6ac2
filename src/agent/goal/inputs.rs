//! The files that a check depends on, as far as its command tells: the names in it, and those that its programs read without
//! being named. Words that name nothing are harmless: the caller looks which of them are there.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use crate::bash::{self, Assign, AssignValue, Change, Command, Item, Kind, Part, Pipeline, RedirectOp, Script, Word};

/// Files that no grant covers: what other programs do with the work, and the versions that it is built with.
pub(super) const NEVER_GRANTED: [&str; 17] = [
    ".github/**",
    ".gitlab-ci.yml",
    ".gitlab/**",
    ".circleci/**",
    ".ci/**",
    "Jenkinsfile",
    "**/*.lock",
    "**/package-lock.json",
    "**/npm-shrinkwrap.json",
    "**/pnpm-lock.yaml",
    "**/go.sum",
    "**/uv.lock",
    "**/go.work.sum",
    "**/bun.lockb",
    "**/gradle.lockfile",
    "**/Package.resolved",
    "**/.terraform.lock.hcl",
];

/// A file that pytest reads in every directory.
const IN_ANY_DIRECTORY: &str = "conftest.py";

/// Levels of `sh -c '…'` inside each other.
const DEPTH_MAX: usize = 3;

/// Directories that a command may be in, as far as they are followed.
const DIRECTORIES_MAX: usize = 8;

/// Calls of functions that are followed.
const CALLS_MAX: usize = 64;

/// Programs that work in another directory by `-C`, `--directory` or `--prefix`.
const MOVERS: [&str; 7] = ["make", "gmake", "ninja", "go", "npm", "pnpm", "git"];

/// Stands for a part of a word that only the shell knows: any text.
const UNKNOWN: char = '\u{1}';
/// The same as a text.
const UNKNOWN_TEXT: &str = "\u{1}";

/// Words after which a file is run, and not only looked at.
const RUNS: [&str; 16] = [
    "bash", "sh", "dash", "zsh", "ksh", "fish", "python", "python3", "node", "ruby", "perl", "source", ".", "bats",
    "pytest", "prove",
];

/// The files that a program reads by default.
struct Implied {
    programs: &'static [&'static str],
    /// Those that it needs; making one may be the goal.
    needed: &'static [&'static str],
    /// Optional ones; a new one changes what the program does.
    optional: &'static [&'static str],
    /// Patterns of the tests that it looks for; making one may be the goal.
    tests: &'static [&'static str],
    /// Patterns of files that may contain tests beside the work itself.
    beside: &'static [&'static str],
}

const NOTHING: Implied = Implied { programs: &[], needed: &[], optional: &[], tests: &[], beside: &[] };

const IMPLIED: [Implied; 11] = [
    Implied {
        programs: &["make", "gmake"],
        needed: &["Makefile"],
        // They take precedence over the needed one.
        optional: &["GNUmakefile", "makefile"],
        ..NOTHING
    },
    Implied { programs: &["just"], needed: &["justfile", "Justfile", ".justfile"], ..NOTHING },
    Implied {
        programs: &["npm", "npx", "yarn", "pnpm", "bun"],
        needed: &["package.json"],
        optional: &[".npmrc", ".yarnrc", ".yarnrc.yml", ".pnpmfile.cjs", "bunfig.toml"],
        ..NOTHING
    },
    Implied {
        programs: &["pytest", "py.test"],
        needed: &["pyproject.toml"],
        optional: &[
            "conftest.py",
            "pytest.ini",
            ".pytest.ini",
            "tox.ini",
            "setup.cfg",
            "tests/conftest.py",
            "test/conftest.py",
            // `python3 -m pytest` would run these.
            "pytest.py",
            "pytest/__init__.py",
        ],
        tests: &["**/test_*.py", "**/*_test.py"],
        ..NOTHING
    },
    Implied {
        programs: &["unittest"],
        optional: &["unittest.py", "unittest/__init__.py"],
        tests: &["**/test*.py"],
        ..NOTHING
    },
    Implied { programs: &["go"], needed: &["go.mod"], optional: &["go.work"], tests: &["**/*_test.go"], ..NOTHING },
    Implied { programs: &["tox"], needed: &["tox.ini"], ..NOTHING },
    Implied { programs: &["nox"], needed: &["noxfile.py"], ..NOTHING },
    Implied {
        programs: &["cargo"],
        needed: &["Cargo.toml"],
        optional: &[".cargo/config.toml", ".cargo/config", "clippy.toml", "rust-toolchain.toml", "rust-toolchain"],
        tests: &["**/tests/**/*.rs", "**/tests.rs"],
        beside: &["**/*.rs"],
    },
    Implied { programs: &["rake"], needed: &["Rakefile"], optional: &["rakefile"], ..NOTHING },
    Implied { programs: &["ctest"], needed: &["CTestTestfile.cmake"], ..NOTHING },
];

/// The names of a check's inputs, as paths below the workspace.
#[derive(Debug, Default)]
pub(super) struct Names {
    /// Words of the command that may name files, and the files that its programs need.
    pub(super) words: Vec<String>,
    /// Optional files of its programs, which are read if they exist.
    pub(super) optional: Vec<String>,
    /// Patterns of files that it runs, and those of the tests that its programs look for.
    pub(super) patterns: Vec<String>,
    /// Those of the patterns of which only the first match is run.
    pub(super) first: Vec<String>,
    /// Absolute paths outside the workspace, which may be links back into it.
    pub(super) outside: Vec<String>,
    /// Patterns of files that may contain tests beside the work itself.
    pub(super) beside: Vec<String>,
}

/// The directories that a command's words may be about.
#[derive(Clone, Copy, Debug)]
pub(super) struct Places<'p> {
    pub(super) workspace: &'p str,
    pub(super) home: &'p str,
}

/// Returns the names of a check's inputs, each once.
pub(super) fn of(check: &str, places: Places<'_>) -> Names {
    let variables = BTreeMap::from([("HOME".to_owned(), places.home.to_owned())]);
    let mut reader = Reader {
        places,
        variables,
        directories: vec![String::new()],
        functions: BTreeMap::new(),
        calls: BTreeSet::new(),
        found: Names::default(),
    };
    reader.text(check, DEPTH_MAX);
    let mut found = reader.found;
    let Names { words, optional, patterns, first, outside, beside } = &mut found;
    for names in [words, optional, patterns, first, outside, beside] {
        names.sort();
        names.dedup();
    }
    found
}

/// Returns the commands that a script runs, as far as they can be found: those of a shell script, of a Makefile's or justfile's
/// recipes, and of a `package.json`. None for any other file.
pub(super) fn script(path: &str, content: &[u8]) -> Option<String> {
    let text = std::str::from_utf8(content).ok()?;
    let (directory, name) = path.rsplit_once('/').unwrap_or(("", path));
    let first = text.lines().next().unwrap_or_default();
    let is_shell = first.starts_with("#!") && first.trim_end().ends_with("sh");
    match name {
        "package.json" => {
            let value: serde_json::Value = serde_json::from_str(text).ok()?;
            let scripts = value.get("scripts")?.as_object()?.values().filter_map(serde_json::Value::as_str);
            Some(scripts.map(|it| format!("( {}\n{it}\n)\n", entered(directory))).collect())
        }
        "Makefile" | "makefile" | "GNUmakefile" | "justfile" | "Justfile" | ".justfile" => {
            let recipes = text.lines().filter(|line| line.starts_with(char::is_whitespace));
            let recipes = recipes.map(|line| line.trim_start().trim_start_matches(['@', '-', '+']));
            Some(entered(directory) + "\n" + &recipes.collect::<Vec<_>>().join("\n"))
        }
        _ if is_shell || name.ends_with(".sh") || name.ends_with(".bash") => Some(text.to_owned()),
        _ => None,
    }
}

/// The command that enters a directory below the workspace.
fn entered(directory: &str) -> String {
    if directory.is_empty() { String::new() } else { format!("cd '{}'", directory.replace('\'', r"'\''")) }
}

/// Returns the patterns of files that checks read wherever they are.
pub(super) fn anywhere(checks: &[String]) -> Vec<String> {
    let nowhere = Places { workspace: "", home: "" };
    let reads_it =
        checks.iter().any(|check| of(check, nowhere).optional.iter().any(|name| name.ends_with(IN_ANY_DIRECTORY)));
    reads_it.then(|| format!("**/{IN_ANY_DIRECTORY}")).into_iter().collect()
}

/// Reads the words of a command, and of the commands in them.
struct Reader<'p> {
    places: Places<'p>,
    /// The values of variables, as far as they are known.
    variables: BTreeMap<String, String>,
    /// The directories below the workspace that the next command may be in.
    directories: Vec<String>,
    /// The bodies of functions, by name.
    functions: BTreeMap<String, Rc<Command>>,
    /// Their calls that were followed, each with the directories that it may be in.
    calls: BTreeSet<(String, Vec<String>)>,
    found: Names,
}

impl Reader<'_> {
    /// Reads the text of a script. After a mistake it is read on as well as it can be: bash runs the lines before one.
    fn text(&mut self, text: &str, depth: usize) {
        let (script, _) = bash::parse(text, 0);
        self.script(&script, depth);
    }

    fn script(&mut self, script: &Script, depth: usize) {
        for Item { first, rest, .. } in &script.items {
            self.pipeline(first, depth);
            for (_, pipeline) in rest {
                self.perhaps(|reader| reader.pipeline(pipeline, depth));
            }
        }
    }

    fn pipeline(&mut self, pipeline: &Pipeline, depth: usize) {
        match pipeline.commands.as_slice() {
            [command] => self.command(command, depth),
            commands => commands.iter().for_each(|command| self.apart(|reader| reader.command(command, depth))),
        }
    }

    /// Reads code that runs in a shell of its own, which also has its own directory.
    fn apart(&mut self, read: impl FnOnce(&mut Self)) {
        let directories = self.directories.clone();
        read(self);
        self.directories = directories;
    }

    /// Reads code that may or may not run: after it, the directory is one of two.
    fn perhaps(&mut self, read: impl FnOnce(&mut Self)) {
        let before = self.directories.clone();
        read(self);
        let new: Vec<String> = before.into_iter().filter(|it| !self.directories.contains(it)).collect();
        self.directories.extend(new);
        if self.directories.len() > DIRECTORIES_MAX {
            self.directories = vec![UNKNOWN_TEXT.to_owned()];
        }
    }

    fn command(&mut self, command: &Command, depth: usize) {
        for redirect in &command.redirects {
            self.substitutions(&redirect.target.parts, depth);
            for text in self.texts(&redirect.target) {
                match redirect.op {
                    // Perhaps a script for the standard input of a shell.
                    RedirectOp::Here if depth > 0 => self.apart(|reader| reader.text(&text, depth - 1)),
                    _ => self.name(&text, false),
                }
            }
        }
        match &command.kind {
            Kind::Simple { assigns, words } => {
                assigns.iter().for_each(|assign| self.assignment(assign, depth));
                self.simple(words, depth);
            }
            Kind::Group(script) => self.script(script, depth),
            Kind::Subshell(script) => self.apart(|reader| reader.script(script, depth)),
            Kind::If { tests, otherwise } => {
                for (test, then) in tests {
                    self.script(test, depth);
                    self.perhaps(|reader| reader.script(then, depth));
                }
                self.perhaps(|reader| otherwise.iter().for_each(|script| reader.script(script, depth)));
            }
            Kind::While { test, body } => {
                self.script(test, depth);
                self.perhaps(|reader| reader.script(body, depth));
            }
            Kind::For { name, words, body } => {
                for word in words.iter().flatten() {
                    self.substitutions(&word.parts, depth);
                    for text in self.texts(word) {
                        self.assign(name, &text);
                        self.name(&text, true);
                    }
                }
                self.perhaps(|reader| reader.script(body, depth));
            }
            Kind::ArithmeticFor { head, body } => {
                self.substitutions(&head.parts, depth);
                self.perhaps(|reader| reader.script(body, depth));
            }
            Kind::Case { word, arms } => {
                self.substitutions(&word.parts, depth);
                for (patterns, script) in arms {
                    patterns.iter().for_each(|pattern| self.substitutions(&pattern.parts, depth));
                    self.perhaps(|reader| reader.script(script, depth));
                }
            }
            Kind::Function { name, body } => {
                self.functions.insert(name.clone(), Rc::clone(body));
                self.apart(|reader| reader.command(body, depth));
            }
            Kind::Test(words) => {
                for word in words {
                    self.substitutions(&word.parts, depth);
                    self.texts(word).iter().for_each(|text| self.name(text, false));
                }
            }
            Kind::Coprocess(command) => self.apart(|reader| reader.command(command, depth)),
            Kind::Arithmetic(word) => self.substitutions(&word.parts, depth),
        }
    }

    fn assignment(&mut self, assign: &Assign, depth: usize) {
        let words: Vec<&Word> = match &assign.value {
            AssignValue::Scalar(word) => vec![word],
            AssignValue::Array(items) => items.iter().map(|(_, word)| word).collect(),
        };
        assign.index.iter().for_each(|index| self.substitutions(&index.parts, depth));
        let is_plain = matches!(assign.value, AssignValue::Scalar(_)) && assign.index.is_none() && !assign.append;
        for word in words {
            self.substitutions(&word.parts, depth);
            let text = self.expanded(&word.parts);
            self.name(&text, false);
            self.assign(&assign.name, if is_plain { &text } else { UNKNOWN_TEXT });
        }
    }

    fn simple(&mut self, words: &[Word], depth: usize) {
        words.iter().for_each(|word| self.substitutions(&word.parts, depth));
        let texts: Vec<String> = words.iter().flat_map(|word| self.texts(word)).collect();
        if let Some("cd" | "pushd") = texts.first().map(String::as_str) {
            let place = texts.iter().skip(1).find(|it| !(it.starts_with('-') && it.len() > 1));
            self.enter(place.map_or(self.places.home, String::as_str));
            return;
        }
        // The command may have entered another directory since the function was defined.
        if let Some((name, body)) = texts.first().and_then(|name| self.functions.get_key_value(name))
            && depth > 0
            && self.calls.len() < CALLS_MAX
        {
            let (call, body) = ((name.clone(), self.directories.clone()), Rc::clone(body));
            if self.calls.insert(call) {
                self.command(&body, depth - 1);
            }
        }
        self.apart_unless(texts.first().is_some_and(|it| it == "eval" || it == "source" || it == "."), |reader| {
            let (mut before, mut is_module, mut is_first) = (String::new(), false, true);
            let (mut rest, mut mover): (&[String], Option<&str>) = (&texts, None);
            while let [word, after @ ..] = rest {
                rest = after;
                if let (Some(mover), Some((place, after))) = (mover, other_directory(word, after)) {
                    reader.enter(place);
                    reader.implied(mover);
                    rest = after;
                    continue;
                }
                if word.contains(char::is_whitespace) && depth > 0 {
                    reader.text(word, depth - 1);
                }
                let program = word.rsplit('/').next().unwrap_or(word);
                reader.implied(program);
                if MOVERS.contains(&program) {
                    mover = Some(program);
                }
                if std::mem::take(&mut is_module) {
                    reader.module(word);
                }
                let flags = word.strip_prefix('-').and_then(|flags| flags.split_once('m'));
                if let Some((_, module)) = flags.filter(|(before, _)| before.chars().all(char::is_alphabetic)) {
                    reader.module(module);
                    is_module = module.is_empty();
                }
                if let Some((name, value)) = word.split_once('=') {
                    reader.assign(name, value);
                    reader.name(value, false);
                }
                // pytest names a test in a file as `file::test`.
                if let Some((file, _)) = word.split_once("::") {
                    reader.name(file, false);
                }
                reader.name(word, RUNS.contains(&before.as_str()) || std::mem::take(&mut is_first));
                if !word.starts_with('-') {
                    before = program.to_owned();
                }
            }
        });
    }

    fn apart_unless(&mut self, is_here: bool, read: impl FnOnce(&mut Self)) {
        if is_here { read(self) } else { self.apart(read) }
    }

    /// Adds the files that a program reads by default.
    fn implied(&mut self, program: &str) {
        for implied in IMPLIED.iter().filter(|implied| implied.programs.contains(&program)) {
            for directory in &self.directories {
                let found = |names: &[&str]| names.iter().map(|name| joined(directory, name)).collect::<Vec<_>>();
                if directory.starts_with('/') {
                    let all = found(implied.needed).into_iter().chain(found(implied.optional));
                    self.found.outside.extend(all);
                } else if directory.contains(UNKNOWN) {
                    let all = found(implied.needed).into_iter().chain(found(implied.optional));
                    self.found.patterns.extend(all.map(|it| it.replace(UNKNOWN, "**")));
                } else {
                    self.found.words.extend(found(implied.needed));
                    self.found.optional.extend(found(implied.optional));
                }
            }
            self.found.patterns.extend(implied.tests.iter().map(|name| (*name).to_owned()));
            self.found.beside.extend(implied.beside.iter().map(|name| (*name).to_owned()));
        }
    }

    /// Adds the files of a module that an interpreter runs by its name.
    fn module(&mut self, name: &str) {
        if !name.is_empty() {
            let path = name.replace('.', "/");
            self.name(&format!("{path}.py"), false);
            self.name(&path, false);
        }
    }

    fn assign(&mut self, name: &str, value: &str) {
        let is_name = !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
        if is_name {
            let known = self.variables.entry(name.to_owned()).or_insert_with(|| value.to_owned());
            // It isn't known which of two values it has.
            if known != value {
                *known = UNKNOWN_TEXT.to_owned();
            }
        }
    }

    /// Follows a change of the directory.
    fn enter(&mut self, place: &str) {
        let is_known = place != "-" && !place.contains(UNKNOWN);
        let mut entered: Vec<String> = self.directories.iter().map(|it| self.place(place, it)).collect();
        if !is_known {
            entered = vec![UNKNOWN_TEXT.to_owned()];
        }
        entered.dedup();
        self.directories = entered;
    }

    /// Adds a word as a name or as a pattern.
    fn name(&mut self, word: &str, is_run: bool) {
        let is_open = word.contains(['*', '?', '[', UNKNOWN]);
        for directory in self.directories.clone() {
            let path = self.place(word, &directory);
            if path.starts_with('/') {
                self.found.outside.push(path);
                continue;
            }
            // The directory itself, or any of its files, is the subject of the goal.
            let is_any = |text: &str| text.chars().all(|c| matches!(c, '*' | '?' | '.' | '/' | UNKNOWN));
            if is_any(&path) || (is_any(word) && !(is_run && word.contains(['*', '?']))) {
                continue;
            }
            let pattern = path.replace(UNKNOWN, "**");
            // The matches of a pattern that isn't run may well be the subject of the goal.
            if is_run && is_open {
                self.found.first.push(pattern.clone());
                self.found.patterns.push(pattern);
            } else if directory.contains(UNKNOWN) && !is_open {
                self.found.patterns.push(pattern);
            }
            self.found.words.push(path);
        }
    }

    /// The path that a word names in a directory: below the workspace, or absolute if it is outside. It may leave the workspace
    /// and come back.
    fn place(&self, word: &str, directory: &str) -> String {
        let top: Vec<&str> = self.places.workspace.split('/').filter(|part| !part.is_empty()).collect();
        let is_absolute = word.starts_with('/') || directory.starts_with('/');
        let mut parts = if is_absolute { Vec::new() } else { top.clone() };
        let before = if word.starts_with('/') { "" } else { directory };
        for part in before.split('/').chain(word.split('/')) {
            match part {
                "" | "." => {}
                // The directory above an unknown directory is unknown, too.
                ".." if parts.last() == Some(&UNKNOWN_TEXT) => {}
                ".." => drop(parts.pop()),
                part => parts.push(part),
            }
        }
        match parts.strip_prefix(top.as_slice()) {
            Some(below) => below.join("/"),
            None => format!("/{}", parts.join("/")),
        }
    }

    /// Reads the commands whose output becomes part of a word.
    fn substitutions(&mut self, parts: &[Part], depth: usize) {
        for part in parts {
            match part {
                Part::Double(inner) => self.substitutions(inner, depth),
                Part::Command(script) | Part::Process { script, .. } => {
                    self.apart(|reader| reader.script(script, depth));
                }
                Part::Parameter(parameter) => {
                    let words = words_of(&parameter.change);
                    words.chain(&parameter.index).for_each(|word| self.substitutions(&word.parts, depth));
                    if let Change::Default { word, .. } = &parameter.change {
                        let text = self.expanded(&word.parts);
                        self.name(&text, false);
                    }
                }
                Part::Arithmetic(word) => self.substitutions(&word.parts, depth),
                Part::Plain(_) | Part::Dead(_) => {}
            }
        }
    }

    /// The words that a word becomes by its braces, with the values of its variables.
    fn texts(&self, word: &Word) -> Vec<String> {
        match bash::braces(&word.parts) {
            None => vec![self.expanded(&word.parts)],
            Some(Some(words)) => words.iter().map(|parts| self.expanded(parts)).collect(),
            Some(None) => vec![UNKNOWN_TEXT.to_owned()],
        }
    }

    /// Expands a word's parts with the values of its variables; an unknown part may be anything.
    fn expanded(&self, parts: &[Part]) -> String {
        let mut text = String::new();
        for (at, part) in parts.iter().enumerate() {
            match part {
                Part::Plain(plain) => match plain.strip_prefix('~').filter(|_| at == 0) {
                    Some(rest) if rest.is_empty() || rest.starts_with('/') => {
                        text += &(self.places.home.to_owned() + rest)
                    }
                    _ => text += plain,
                },
                Part::Dead(dead) => text += dead,
                Part::Double(inner) => text += &self.expanded(inner),
                Part::Parameter(parameter) if matches!(parameter.change, Change::None | Change::Default { .. }) => {
                    let is_whole = !parameter.indirect && !parameter.length && parameter.index.is_none();
                    let value = if is_whole { self.value(&parameter.name) } else { None };
                    text += value.as_deref().unwrap_or(UNKNOWN_TEXT);
                }
                Part::Command(script) if is_pwd(script) => text += self.value("PWD").as_deref().unwrap_or(UNKNOWN_TEXT),
                Part::Parameter(_) | Part::Command(_) | Part::Arithmetic(_) | Part::Process { .. } => {
                    text.push(UNKNOWN)
                }
            }
        }
        text
    }

    fn value(&self, name: &str) -> Option<String> {
        match (name, self.directories.as_slice()) {
            ("PWD", [directory]) if directory.starts_with('/') => Some(directory.clone()),
            ("PWD", [directory]) => Some(joined(self.places.workspace, directory)),
            ("PWD", _) => None,
            _ => self.variables.get(name).cloned(),
        }
    }
}

/// The words of an operation on a parameter's value.
fn words_of(change: &Change) -> impl Iterator<Item = &Word> {
    let (first, second) = match change {
        Change::Default { word, .. } => (Some(word), None),
        Change::Trim { pattern, .. } | Change::Case { pattern, .. } => (Some(pattern), None),
        Change::Replace { pattern, with, .. } => (Some(pattern), Some(with)),
        Change::Slice { offset, length } => (Some(offset), length.as_ref()),
        Change::None | Change::Names | Change::Transform(_) | Change::Unknown => (None, None),
    };
    first.into_iter().chain(second)
}

/// The directory that an option at the beginning of some words names, and the words after it.
fn other_directory<'w>(word: &'w str, after: &'w [String]) -> Option<(&'w str, &'w [String])> {
    if let ("-C" | "--directory" | "--prefix", [place, rest @ ..]) = (word, after) {
        return Some((place, rest));
    }
    let place = ["--directory=", "--prefix=", "-C"].iter().find_map(|option| word.strip_prefix(option))?;
    (!place.is_empty()).then_some((place, after))
}

fn is_pwd(script: &Script) -> bool {
    let [Item { first, rest, .. }] = script.items.as_slice() else { return false };
    let [Command { kind: Kind::Simple { words, assigns }, redirects }] = first.commands.as_slice() else {
        return false;
    };
    let is_word = matches!(words.as_slice(), [word] if bash::unquoted(word) == "pwd");
    is_word && assigns.is_empty() && redirects.is_empty() && rest.is_empty()
}

fn joined(directory: &str, name: &str) -> String {
    match (directory, name) {
        ("", name) => name.to_owned(),
        (directory, "") => directory.to_owned(),
        (directory, name) => format!("{directory}/{name}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at_w(check: &str) -> Names {
        of(check, Places { workspace: "/w", home: "" })
    }

    #[test]
    fn the_names_in_a_command_are_found() {
        for (check, names) in [
            ("bash check.sh", &["check.sh"][..]),
            ("(cd sub;./test.sh)>log", &["sub/test.sh", "log"]),
            ("cd sub && (cd deep; make) && ./a.sh", &["sub/deep/Makefile", "sub/a.sh"]),
            ("test -d sub && cd sub; ./a.sh", &["sub/a.sh", "a.sh"]),
            ("cd sub && bash $PWD/a.sh", &["sub/a.sh"]),
            ("bash <<'END'\n./a.sh\nEND", &["a.sh"]),
            ("case $x in (a) ./a.sh;; *) ./b.sh; esac", &["a.sh", "b.sh"]),
            ("f() { ./a.sh; }; f", &["a.sh"]),
            ("f() { ./a.sh; }; cd sub && f", &["sub/a.sh"]),
            ("f() { f; ./a.sh; }; f", &["a.sh"]),
            ("echo $'don\\'t'; bash check.sh", &["check.sh"]),
            ("./a.sh; done; ./b.sh", &["a.sh", "b.sh"]),
            ("case $(./a.sh) in $(./b.sh)) ;; esac", &["a.sh", "b.sh"]),
            ("(( $(./a.sh) == 0 )); for ((i = $(./b.sh); i; i--)); do :; done", &["a.sh", "b.sh"]),
            ("[ $(($(./a.sh))) = 0 ] && x[$(./b.sh)]=1", &["a.sh", "b.sh"]),
            ("echo ${x%$(./a.sh)} ${x/$(./b.sh)/} ${x:$(./c.sh)}", &["a.sh", "b.sh", "c.sh"]),
            ("diff <(./a.sh) \"${X:-b.txt}\"", &["a.sh", "b.txt"]),
            ("bash {check,other}.sh t{1..3}.sh", &["check.sh", "other.sh", "t2.sh"]),
            ("sh -c 'a && ./b.sh'", &["b.sh"]),
            ("bash -c \"sh -c './deep.sh x'\"", &["deep.sh"]),
            (
                "pytest -q tests/test_a.py::test_b --config=conf/x.ini",
                &["tests/test_a.py", "conf/x.ini", "conftest.py"],
            ),
            ("make -j4 test -C sub", &["sub/Makefile"]),
            ("npm --prefix=sub test", &["sub/package.json"]),
            ("/usr/bin/npm test", &["package.json"]),
            ("test -e 'a;b'", &["a;b"]),
            ("bash \"$PWD\"/tests/a.sh", &["tests/a.sh"]),
            ("bash ${PWD}/tests/a.sh", &["tests/a.sh"]),
            ("bash $(pwd)/a.sh", &["a.sh"]),
            ("bash \"`pwd`/a.sh\"", &["a.sh"]),
            ("bash ~/w/a.sh", &["a.sh"]),
            ("bash /w/tests/a.sh", &["tests/a.sh"]),
            ("bash ./sub/../check.sh", &["check.sh"]),
            ("cd sub && bash ../check.sh", &["check.sh"]),
            ("bash ../w/check.sh", &["check.sh"]),
            ("cd ..; bash w/check.sh", &["check.sh"]),
            ("cd /; (cd w/sub && ./a.sh)", &["sub/a.sh"]),
            ("T=check; bash $T.sh", &["check.sh"]),
            ("T=check bash -c 'bash $T.sh'", &["check.sh"]),
            ("python3 -m check", &["check.py"]),
            ("python3 -Bm a.check", &["a/check.py"]),
        ] {
            let found = at_w(check);
            for name in names {
                let is_there = found.words.iter().chain(&found.optional).any(|it| it == name);
                assert!(is_there, "{check}: {name} is missing in {found:?}");
            }
        }
    }

    #[test]
    fn a_directory_that_is_only_entered_is_no_input() {
        for check in ["cd sub && pytest -q", "make -C sub", "cd sub; pytest .", "(cd ./sub && cargo test)"] {
            assert!(!at_w(check).words.iter().any(|it| it == "sub"), "{check}");
        }
    }

    #[test]
    fn words_that_the_shell_expands_are_patterns() {
        for (check, pattern, is_run) in [
            ("bash tests/*.sh", Some("tests/*.sh"), true),
            ("test -z \"$(ls -d o* 2>/dev/null)\"", None, false),
            ("for it in tests/*.sh; do bash $it; done", Some("tests/*.sh"), true),
            ("cd sub; for it in *; do bash $it; done", Some("sub/*"), true),
            ("cd $X; bash tests/*.sh", Some("**/tests/*.sh"), true),
            ("cd $X; make", Some("**/Makefile"), false),
            ("bash t{1..999}.sh", None, false),
            ("cd sub && $CC x.c", None, false),
            ("for it in a b; do bash $it.sh; done", Some("**.sh"), true),
            ("if x; then T=a; else T=b; fi; bash $T.sh", Some("**.sh"), true),
            ("bash $(echo check).sh", Some("**.sh"), true),
            ("python3 -m unittest", Some("**/test*.py"), false),
            ("go test ./...", Some("**/*_test.go"), false),
            ("grep -q '.*' out", None, false),
            ("ls *; test $? = 0", None, false),
        ] {
            let found = at_w(check);
            let is_there = |names: &[String]| pattern.is_some_and(|it| names.iter().any(|name| name == it));
            assert_eq!(is_there(&found.patterns), pattern.is_some(), "{check}: {found:?}");
            assert_eq!(is_there(&found.first), is_run, "{check}: {found:?}");
            assert!(pattern.is_some() || found.patterns.is_empty(), "{check}: {found:?}");
        }
    }

    #[test]
    fn the_commands_of_a_script_are_known() {
        for (path, content, names) in [
            ("check.sh", "sh helper.sh\n", &["helper.sh"][..]),
            ("run", "#!/usr/bin/env bash\n./a.sh\n", &["a.sh"]),
            ("sub/package.json", r#"{"scripts": {"test": "node check.js", "lint": "x ../a"}}"#, &["sub/check.js", "a"]),
            ("Makefile", "test: all\n\t@sh helper.sh\nall:\n\t-pytest t.py\n", &["helper.sh", "t.py"]),
            ("sub/justfile", "test:\n    ./a.sh\n", &["sub/a.sh"]),
        ] {
            let found = at_w(&script(path, content.as_bytes()).expect(path));
            for name in names {
                assert!(found.words.iter().any(|it| it == name), "{path}: {name} is missing in {found:?}");
            }
        }
        for (path, content) in [("a.py", "import b\n"), ("run", "\u{7f}ELF"), ("package.json", "[]")] {
            assert_eq!(script(path, content.as_bytes()), None, "{path}");
        }
        assert_eq!(at_w("bash /opt/x/a.sh").outside, ["/opt/x/a.sh"]);
        assert_eq!(at_w("cargo test").beside, ["**/*.rs"]);
    }
}
