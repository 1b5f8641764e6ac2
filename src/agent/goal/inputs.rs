//! The files that a check depends on, as far as its command tells: the names in it, and those that its programs read without
//! being named. Words that name nothing are harmless: the caller looks which of them are there.

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

/// The files that a program reads without being told to.
struct Implied {
    programs: &'static [&'static str],
    /// Those that it needs; making one may be the goal.
    needed: &'static [&'static str],
    /// Those that it works without; a new one changes what the program does.
    optional: &'static [&'static str],
}

const IMPLIED: [Implied; 9] = [
    Implied { programs: &["make", "gmake"], needed: &["Makefile", "makefile", "GNUmakefile"], optional: &[] },
    Implied { programs: &["just"], needed: &["justfile", "Justfile", ".justfile"], optional: &[] },
    Implied { programs: &["npm", "npx", "yarn", "pnpm", "bun"], needed: &["package.json"], optional: &[] },
    Implied {
        programs: &["pytest", "py.test"],
        needed: &["pyproject.toml"],
        optional: &["conftest.py", "pytest.ini", "tox.ini", "setup.cfg", "tests/conftest.py", "test/conftest.py"],
    },
    Implied { programs: &["tox"], needed: &["tox.ini"], optional: &[] },
    Implied { programs: &["nox"], needed: &["noxfile.py"], optional: &[] },
    Implied { programs: &["cargo"], needed: &["Cargo.toml"], optional: &[".cargo/config.toml", "clippy.toml"] },
    Implied { programs: &["rake"], needed: &["Rakefile"], optional: &[] },
    Implied { programs: &["ctest"], needed: &["CTestTestfile.cmake"], optional: &[] },
];

/// The names of a check's inputs.
#[derive(Debug, Default)]
pub(super) struct Names {
    /// Words of the command that may name files, and the files that its programs need.
    pub(super) words: Vec<String>,
    /// Files that its programs work without, and read if they are there.
    pub(super) optional: Vec<String>,
}

/// Returns the names of a check's inputs, each once.
pub(super) fn of(check: &str) -> Names {
    let mut found = Names::default();
    collect(check, DEPTH_MAX, &mut found);
    for names in [&mut found.words, &mut found.optional] {
        names.sort();
        names.dedup();
    }
    found
}

/// Returns the patterns of files that checks read wherever they are.
pub(super) fn anywhere(checks: &[String]) -> Vec<String> {
    let reads_it = checks.iter().any(|check| of(check).optional.iter().any(|name| name == IN_ANY_DIRECTORY));
    reads_it.then(|| format!("**/{IN_ANY_DIRECTORY}")).into_iter().collect()
}

fn collect(text: &str, depth: usize, found: &mut Names) {
    // Operators stand alone, so that `(cd sub;./test)` has the words of its parts.
    let spaced: String = spaced(text);
    for word in shlex::split(&spaced).unwrap_or_default() {
        if word.contains(char::is_whitespace) && depth > 0 {
            collect(&word, depth - 1, found);
        }
        let program = word.rsplit('/').next().unwrap_or(&word);
        for implied in IMPLIED.iter().filter(|implied| implied.programs.contains(&program)) {
            found.words.extend(implied.needed.iter().map(|file| (*file).to_owned()));
            found.optional.extend(implied.optional.iter().map(|file| (*file).to_owned()));
        }
        if let Some((_, value)) = word.split_once('=') {
            found.words.push(value.to_owned());
        }
        // pytest names a test in a file as `file::test`.
        if let Some((file, _)) = word.split_once("::") {
            found.words.push(file.to_owned());
        }
        found.words.push(word);
    }
}

/// Puts spaces around operators outside of quotes.
fn spaced(text: &str) -> String {
    let (mut spaced, mut quote, mut is_escaped) = (String::with_capacity(text.len()), None, false);
    for c in text.chars() {
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
    spaced
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_names_in_a_command_are_found() {
        for (check, names) in [
            ("bash check.sh", &["check.sh"][..]),
            ("(cd sub;./test.sh)>log", &["sub", "./test.sh", "log"]),
            ("sh -c 'a && ./b.sh'", &["./b.sh"]),
            ("bash -c \"sh -c './deep.sh x'\"", &["./deep.sh"]),
            (
                "pytest -q tests/test_a.py::test_b --config=conf/x.ini",
                &["tests/test_a.py", "conf/x.ini", "conftest.py"],
            ),
            ("make -C sub test", &["Makefile", "sub"]),
            ("/usr/bin/npm test", &["package.json"]),
            ("test -e 'a;b'", &["a;b"]),
        ] {
            let found = of(check);
            for name in names {
                let is_there = found.words.iter().chain(&found.optional).any(|it| it == name);
                assert!(is_there, "{check}: {name} is missing in {found:?}");
            }
        }
        assert!(of("echo 'open").words.is_empty(), "a command that can't be read names nothing");
    }
}
