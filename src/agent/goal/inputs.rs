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

/// Levels of `sh -c '…'` inside each other.
const DEPTH_MAX: usize = 3;

/// Programs and the files that decide what they do.
const IMPLIED: [(&[&str], &[&str]); 9] = [
    (&["make", "gmake"], &["Makefile", "makefile", "GNUmakefile"]),
    (&["just"], &["justfile", "Justfile", ".justfile"]),
    (&["npm", "npx", "yarn", "pnpm", "bun"], &["package.json"]),
    (
        &["pytest", "py.test"],
        &["conftest.py", "pytest.ini", "tox.ini", "setup.cfg", "tests/conftest.py", "test/conftest.py"],
    ),
    (&["tox"], &["tox.ini"]),
    (&["nox"], &["noxfile.py"]),
    (&["cargo"], &[".cargo/config.toml", "clippy.toml"]),
    (&["rake"], &["Rakefile"]),
    (&["ctest"], &["CTestTestfile.cmake"]),
];

/// Returns the words of a check's command that may name files, and the files that its programs read unnamed.
pub(super) fn of(check: &str) -> Vec<String> {
    let mut found = Vec::new();
    collect(check, DEPTH_MAX, &mut found);
    found.sort();
    found.dedup();
    found
}

fn collect(text: &str, depth: usize, found: &mut Vec<String>) {
    // Operators stand alone, so that `(cd sub;./test)` has the words of its parts.
    let spaced: String = spaced(text);
    for word in shlex::split(&spaced).unwrap_or_default() {
        if word.contains(char::is_whitespace) && depth > 0 {
            collect(&word, depth - 1, found);
        }
        let program = word.rsplit('/').next().unwrap_or(&word);
        let implied = IMPLIED.iter().filter(|(programs, _)| programs.contains(&program));
        found.extend(implied.flat_map(|(_, files)| files.iter().map(|file| (*file).to_owned())));
        if let Some((_, value)) = word.split_once('=') {
            found.push(value.to_owned());
        }
        // pytest names a test in a file as `file::test`.
        if let Some((file, _)) = word.split_once("::") {
            found.push(file.to_owned());
        }
        found.push(word);
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
                assert!(found.iter().any(|it| it == name), "{check}: {name} is missing in {found:?}");
            }
        }
        assert!(of("echo 'open").is_empty(), "a command that can't be read names nothing");
    }
}
