//! The files that a check depends on, as far as its command tells: the names in it, and those that its programs read without
//! being named. Words that name nothing are harmless: the caller looks which of them are there.

use std::collections::BTreeMap;

/// Files that no grant covers: what other programs do with the work, and the versions that it is built with.
pub(super) const NEVER_GRANTED: [&str; 12] = [
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
];

/// A file that pytest reads in every directory.
const IN_ANY_DIRECTORY: &str = "conftest.py";

/// Levels of `sh -c '…'` inside each other.
const DEPTH_MAX: usize = 3;

/// Stands for a part of a word that only the shell knows: any text.
const UNKNOWN: char = '\u{1}';

/// Words after which a file is run, and not only looked at.
const RUNS: [&str; 17] = [
    "bash", "sh", "dash", "zsh", "ksh", "fish", "python", "python3", "node", "ruby", "perl", "source", ".", "in",
    "bats", "pytest", "prove",
];

/// The files that a program reads without being told to.
struct Implied {
    programs: &'static [&'static str],
    /// Those that it needs; making one may be the goal.
    needed: &'static [&'static str],
    /// Those that it works without; a new one changes what the program does.
    optional: &'static [&'static str],
    /// Patterns of the tests that it looks for; making one may be the goal.
    tests: &'static [&'static str],
}

const NOTHING: Implied = Implied { programs: &[], needed: &[], optional: &[], tests: &[] };

const IMPLIED: [Implied; 11] = [
    Implied { programs: &["make", "gmake"], needed: &["Makefile", "makefile", "GNUmakefile"], ..NOTHING },
    Implied { programs: &["just"], needed: &["justfile", "Justfile", ".justfile"], ..NOTHING },
    Implied { programs: &["npm", "npx", "yarn", "pnpm", "bun"], needed: &["package.json"], ..NOTHING },
    Implied {
        programs: &["pytest", "py.test"],
        needed: &["pyproject.toml"],
        optional: &["conftest.py", "pytest.ini", "tox.ini", "setup.cfg", "tests/conftest.py", "test/conftest.py"],
        tests: &["**/test_*.py", "**/*_test.py"],
    },
    Implied { programs: &["unittest"], tests: &["**/test*.py"], ..NOTHING },
    Implied { programs: &["go"], needed: &["go.mod"], tests: &["**/*_test.go"], ..NOTHING },
    Implied { programs: &["tox"], needed: &["tox.ini"], ..NOTHING },
    Implied { programs: &["nox"], needed: &["noxfile.py"], ..NOTHING },
    Implied {
        programs: &["cargo"],
        needed: &["Cargo.toml"],
        optional: &[".cargo/config.toml", "clippy.toml"],
        ..NOTHING
    },
    Implied { programs: &["rake"], needed: &["Rakefile"], ..NOTHING },
    Implied { programs: &["ctest"], needed: &["CTestTestfile.cmake"], ..NOTHING },
];

/// The names of a check's inputs, as paths below the workspace.
#[derive(Debug, Default)]
pub(super) struct Names {
    /// Words of the command that may name files, and the files that its programs need.
    pub(super) words: Vec<String>,
    /// Files that its programs work without, and read if they are there.
    pub(super) optional: Vec<String>,
    /// Patterns of files that it runs, and those of the tests that its programs look for.
    pub(super) patterns: Vec<String>,
    /// Those of the patterns of which only the first match is run.
    pub(super) first: Vec<String>,
}

/// The directories that a command's words may be about.
#[derive(Clone, Copy, Debug)]
pub(super) struct Places<'p> {
    pub(super) workspace: &'p str,
    pub(super) home: &'p str,
}

/// Returns the names of a check's inputs, each once.
pub(super) fn of(check: &str, places: Places<'_>) -> Names {
    let variables = [("PWD", places.workspace), ("HOME", places.home)];
    let variables = variables.into_iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
    let mut reader = Reader { places, variables, found: Names::default() };
    reader.read(check, DEPTH_MAX);
    let mut found = reader.found;
    for names in [&mut found.words, &mut found.optional, &mut found.patterns, &mut found.first] {
        names.sort();
        names.dedup();
    }
    found
}

/// Returns the patterns of files that checks read wherever they are.
pub(super) fn anywhere(checks: &[String]) -> Vec<String> {
    let nowhere = Places { workspace: "", home: "" };
    let reads_it = checks.iter().any(|check| of(check, nowhere).optional.iter().any(|name| name == IN_ANY_DIRECTORY));
    reads_it.then(|| format!("**/{IN_ANY_DIRECTORY}")).into_iter().collect()
}

/// Reads the words of a command, and of the commands in them.
struct Reader<'p> {
    places: Places<'p>,
    /// The values of variables, as far as they are known.
    variables: BTreeMap<String, String>,
    found: Names,
}

impl Reader<'_> {
    fn read(&mut self, text: &str, depth: usize) {
        // Operators stand alone, so that `(cd sub;./test)` has the words of its parts.
        let (spaced, inner) = spaced(text);
        if depth > 0 {
            inner.iter().for_each(|inner| self.read(inner, depth - 1));
        }
        let (mut before, mut is_module) = (String::new(), false);
        for word in shlex::split(&spaced).unwrap_or_default() {
            if word.contains(char::is_whitespace) && depth > 0 {
                self.read(&word, depth - 1);
            }
            let word = self.expanded(&word);
            let program = word.rsplit('/').next().unwrap_or(&word);
            for implied in IMPLIED.iter().filter(|implied| implied.programs.contains(&program)) {
                let owned = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
                self.found.words.extend(owned(implied.needed));
                self.found.optional.extend(owned(implied.optional));
                self.found.patterns.extend(owned(implied.tests));
            }
            if std::mem::take(&mut is_module) {
                self.module(&word);
            }
            let flags = word.strip_prefix('-').and_then(|flags| flags.split_once('m'));
            if let Some((_, module)) = flags.filter(|(before, _)| before.chars().all(char::is_alphabetic)) {
                self.module(module);
                is_module = module.is_empty();
            }
            if let Some((name, value)) = word.split_once('=') {
                self.assign(name, value);
                self.name(value, false);
            }
            // pytest names a test in a file as `file::test`.
            if let Some((file, _)) = word.split_once("::") {
                self.name(file, false);
            }
            self.name(&word, RUNS.contains(&before.as_str()));
            if !word.starts_with('-') {
                before = program.to_owned();
            }
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
            // Which of two values it has isn't known.
            if known != value {
                *known = UNKNOWN.to_string();
            }
        }
    }

    /// Adds a word as a name or as a pattern.
    fn name(&mut self, word: &str, is_run: bool) {
        let Some(path) = self.below(word) else { return };
        // The workspace itself, or any of its files, is what the goal is about.
        if path.chars().all(|c| matches!(c, '*' | '?' | '.' | '/' | '{' | '}' | ',' | UNKNOWN)) {
            return;
        }
        // What a pattern that isn't run matches may well be what the goal is about.
        if is_run && path.contains(['*', '?', '[', '{', UNKNOWN]) {
            let pattern = path.replace(UNKNOWN, "**");
            self.found.first.push(pattern.clone());
            self.found.patterns.push(pattern);
        }
        self.found.words.push(path);
    }

    /// A word as a path below the workspace, if it may be one.
    fn below(&self, word: &str) -> Option<String> {
        let relative = match word.strip_prefix('/') {
            Some(_) => word.strip_prefix(self.places.workspace).filter(|rest| rest.is_empty() || rest.starts_with('/')),
            None => Some(word),
        };
        let mut parts = Vec::new();
        for part in relative?.split('/') {
            match part {
                "" | "." => {}
                // It may begin in any directory below the workspace.
                ".." => drop(parts.pop()),
                part => parts.push(part),
            }
        }
        Some(parts.join("/"))
    }

    /// A word with the values of its variables; those that aren't known may be anything.
    fn expanded(&self, word: &str) -> String {
        let word = match word.strip_prefix('~') {
            Some(rest) if rest.is_empty() || rest.starts_with('/') => format!("{}{rest}", self.places.home),
            _ => word.to_owned(),
        };
        let (mut text, mut rest) = (String::new(), word.as_str());
        while let Some((plain, after)) = rest.split_once('$') {
            text.push_str(plain);
            let (name, length) = match after.strip_prefix('{').and_then(|inner| inner.split_once('}')) {
                Some((name, _)) => (name, name.len() + 2),
                None => {
                    let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_';
                    let length = after.find(|c| !is_part(c)).unwrap_or(after.len());
                    // `$?`, `$@` and the like are one sign.
                    let sign = usize::from(length == 0 && after.starts_with(['?', '@', '*', '#', '!', '$', '-']));
                    (&after[..length + sign], length + sign)
                }
            };
            match (name, self.variables.get(name)) {
                ("", _) => text.push('$'),
                (_, Some(value)) => text.push_str(value),
                (_, None) => text.push(UNKNOWN),
            }
            rest = &after[length..];
        }
        text.push_str(rest);
        with_open_ranges(&text)
    }
}

/// A word whose ranges (`{1..9}`) may be anything.
fn with_open_ranges(word: &str) -> String {
    let (mut text, mut rest) = (String::new(), word);
    while let Some((plain, after)) = rest.split_once('{') {
        text.push_str(plain);
        match after.split_once('}').filter(|(inner, _)| inner.contains("..") && !inner.contains([',', '{'])) {
            Some((_, after)) => {
                text.push(UNKNOWN);
                rest = after;
            }
            None => {
                text.push('{');
                rest = after;
            }
        }
    }
    text + rest
}

/// Puts spaces around operators outside of quotes. The commands whose output becomes part of a word are returned apart.
fn spaced(text: &str) -> (String, Vec<String>) {
    let (mut spaced, mut inner) = (String::with_capacity(text.len()), Vec::new());
    let (mut quote, mut is_escaped, mut rest) = (None, false, text);
    while let Some(c) = rest.chars().next() {
        if quote != Some('\'')
            && !is_escaped
            && let Some((command, length)) = substituted(rest)
        {
            spaced.push_str(if command.trim() == "pwd" { "$PWD" } else { "\u{1}" });
            inner.push(command.to_owned());
            rest = &rest[length..];
            continue;
        }
        rest = &rest[c.len_utf8()..];
        let is_operator = quote.is_none() && !is_escaped && matches!(c, ';' | '&' | '|' | '(' | ')' | '<' | '>');
        if is_operator {
            spaced.push(' ');
            continue;
        }
        match quote {
            None if !is_escaped && matches!(c, '\'' | '"') => quote = Some(c),
            Some(open) if c == open && !is_escaped => quote = None,
            _ => {}
        }
        is_escaped = c == '\\' && !is_escaped && quote != Some('\'');
        spaced.push(c);
    }
    (spaced, inner)
}

/// The command in `$(…)` or between backticks at the beginning of a text, and the bytes that it takes with them.
fn substituted(text: &str) -> Option<(&str, usize)> {
    if let Some(after) = text.strip_prefix('`') {
        return after.split_once('`').map(|(command, _)| (command, command.len() + 2));
    }
    let after = text.strip_prefix("$(")?;
    let mut open = 1;
    for (at, c) in after.char_indices() {
        match c {
            '(' => open += 1,
            ')' => open -= 1,
            _ => {}
        }
        if open == 0 {
            return Some((&after[..at], at + 3));
        }
    }
    None
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
            ("(cd sub;./test.sh)>log", &["sub", "test.sh", "log"]),
            ("sh -c 'a && ./b.sh'", &["b.sh"]),
            ("bash -c \"sh -c './deep.sh x'\"", &["deep.sh"]),
            (
                "pytest -q tests/test_a.py::test_b --config=conf/x.ini",
                &["tests/test_a.py", "conf/x.ini", "conftest.py"],
            ),
            ("make -C sub test", &["Makefile", "sub"]),
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
        assert!(at_w("echo 'open").words.is_empty(), "a command that can't be read names nothing");
    }

    #[test]
    fn words_that_the_shell_expands_are_patterns() {
        for (check, pattern, is_run) in [
            ("bash tests/*.sh", Some("tests/*.sh"), true),
            ("test -z \"$(ls -d o* 2>/dev/null)\"", None, false),
            ("for it in tests/*.sh; do bash $it; done", Some("tests/*.sh"), true),
            ("bash {check,other}.sh", Some("{check,other}.sh"), true),
            ("bash t{1..3}.sh", Some("t**.sh"), true),
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
}
