//! The facts that a newcomer needs first about a repository: its description, and the commands to build and test it. Reads the
//! readme and the files at its top that name commands; runs nothing. The text comes from strangers: it is shortened and cleaned.

use std::path::{Path, PathBuf};

use serde_json::Value;

use super::clean;
use super::closed::Closed;
use super::instructions::text_inside;

/// Limit for the readme, in characters.
const README_CHARS_MAX: usize = 800;
/// Limit for the commands of one file.
const COMMANDS_MAX: usize = 8;
/// Limit for one command, in characters.
const COMMAND_CHARS_MAX: usize = 100;
/// Names of a readme, the more frequent ones first.
const READMES: [&str; 8] =
    ["README.md", "readme.md", "Readme.md", "README.rst", "README.adoc", "README.org", "README.txt", "README"];
/// A file's name, the commands that its presence implies, and the reader for further commands in it.
type Manifest = (&'static str, &'static [&'static str], Option<Read>);
type Read = fn(&str) -> Vec<String>;
/// Files at the top that reveal how the repository is built and tested; files with a reader name the commands themselves.
const MANIFESTS: &[Manifest] = &[
    ("Cargo.toml", &["cargo build", "cargo test"], None),
    ("go.mod", &["go build ./...", "go test ./..."], None),
    ("package.json", &[], Some(npm_scripts)),
    ("deno.json", &["deno test"], None),
    ("pyproject.toml", &[], Some(pyproject)),
    ("tox.ini", &["tox"], None),
    ("setup.py", &["pip install -e ."], None),
    ("CMakeLists.txt", &["cmake -B build", "cmake --build build", "ctest --test-dir build"], None),
    ("meson.build", &["meson setup build", "meson test -C build"], None),
    ("configure.ac", &["./configure", "make", "make check"], None),
    ("pom.xml", &["mvn package", "mvn test"], None),
    ("gradlew", &["./gradlew build", "./gradlew test"], None),
    ("mix.exs", &["mix compile", "mix test"], None),
    ("Gemfile", &["bundle install"], None),
    ("Rakefile", &["rake", "rake test"], None),
    ("composer.json", &["composer install"], None),
    ("Makefile", &[], Some(make_targets)),
    ("GNUmakefile", &[], Some(make_targets)),
    ("makefile", &[], Some(make_targets)),
    ("justfile", &[], Some(just_recipes)),
    ("Justfile", &[], Some(just_recipes)),
];
/// Targets of a Makefile and scripts that a newcomer needs; they are listed first.
const WANTED: [&str; 10] = ["build", "test", "check", "lint", "all", "ci", "fmt", "format", "run", "install"];

/// The paths that it reads: their times show whether they must be read again.
pub(super) fn places(root: &Path) -> Vec<PathBuf> {
    let names = READMES.iter().copied().chain(MANIFESTS.iter().map(|(name, ..)| *name));
    names.map(|name| root.join(name)).collect()
}

/// The first paragraph of the readme, without badges and pictures.
pub(super) fn readme(root: &Path, closed: &Closed) -> Option<String> {
    let text = READMES.iter().find_map(|name| text_inside(root, &root.join(name), closed))?;
    let excerpt = excerpt(&text);
    (!excerpt.is_empty()).then_some(excerpt)
}

fn excerpt(text: &str) -> String {
    let mut excerpt = String::new();
    let mut is_code = false;
    for line in text.lines() {
        let line = line.trim();
        if line.starts_with("```") || line.starts_with("~~~") {
            is_code = !is_code;
            continue;
        }
        let is_picture =
            line.starts_with("[![") || line.starts_with("![") || line.starts_with('<') || line.starts_with("[!");
        let is_rule = !line.is_empty() && line.chars().all(|c| "=-~*_#".contains(c));
        if is_code || is_picture || is_rule || line.is_empty() {
            continue;
        }
        let line = clean(line);
        let left = README_CHARS_MAX - excerpt.chars().count();
        if line.chars().count() + 1 > left {
            excerpt.extend(line.chars().take(left.saturating_sub(2)));
            excerpt.push('…');
            break;
        }
        excerpt.push_str(&line);
        excerpt.push('\n');
    }
    excerpt.trim_end().to_owned()
}

/// The commands to build and test: one line for each file that has any.
pub(super) fn commands(root: &Path, closed: &Closed) -> Vec<String> {
    let line = |(name, fixed, read): &Manifest| {
        let path = root.join(name);
        let mut commands: Vec<String> = fixed.iter().map(|&command| command.to_owned()).collect();
        if let Some(read) = read {
            commands.extend(read(&text_inside(root, &path, closed)?));
        } else if closed.holds(&path) || !path.symlink_metadata().ok()?.is_file() {
            return None;
        }
        if *name == "package.json" {
            let runner = runner(root);
            commands.iter_mut().for_each(|script| *script = format!("{runner} run {script}"));
        }
        commands.truncate(COMMANDS_MAX);
        let short = |command: String| clean(&command).chars().take(COMMAND_CHARS_MAX).collect::<String>();
        let commands: Vec<String> = commands.into_iter().map(short).collect();
        (!commands.is_empty()).then(|| format!("{name}: {}", commands.join(" · ")))
    };
    MANIFESTS.iter().filter_map(line).collect()
}

/// The program that runs the scripts of `package.json`, chosen by the lock file.
fn runner(root: &Path) -> &'static str {
    let locks = [("pnpm-lock.yaml", "pnpm"), ("yarn.lock", "yarn"), ("bun.lockb", "bun"), ("bun.lock", "bun")];
    let found = locks.iter().find(|(lock, _)| root.join(lock).symlink_metadata().is_ok());
    found.map_or("npm", |(_, runner)| runner)
}

fn npm_scripts(text: &str) -> Vec<String> {
    let value: Value = serde_json::from_str(text).unwrap_or_default();
    let scripts = value.get("scripts").and_then(Value::as_object);
    wanted_first(scripts.map(|scripts| scripts.keys().cloned().collect()).unwrap_or_default())
}

fn pyproject(text: &str) -> Vec<String> {
    let has = |table: &str| text.lines().any(|line| line.trim().starts_with(table));
    let commands = [
        ("[tool.poetry", "poetry install"),
        ("[tool.uv", "uv sync"),
        ("[tool.hatch", "hatch build"),
        ("[tool.tox", "tox"),
        ("[tool.pytest", "pytest"),
        ("[tool.ruff", "ruff check"),
    ];
    let mut found: Vec<String> =
        commands.iter().filter(|(table, _)| has(table)).map(|(_, command)| (*command).to_owned()).collect();
    if found.is_empty() {
        found.push("pip install -e .".into());
    }
    found
}

fn make_targets(text: &str) -> Vec<String> {
    let target = |line: &str| {
        let (names, rest) = line.split_once(':')?;
        let is_plain =
            !names.is_empty() && names.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte));
        (is_plain && !rest.starts_with('=') && !rest.starts_with(":=")).then(|| format!("make {names}"))
    };
    let targets: Vec<String> = text.lines().filter_map(target).collect();
    only_wanted(targets)
}

fn just_recipes(text: &str) -> Vec<String> {
    let recipe = |line: &str| {
        let (head, rest) = line.split_once(':')?;
        let name = head.split_whitespace().next()?.trim_start_matches('@');
        let is_plain = head.trim_start_matches('@').starts_with(name)
            && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte));
        (is_plain && !rest.starts_with('=')).then(|| format!("just {name}"))
    };
    wanted_first(text.lines().filter_map(recipe).collect())
}

fn last_word(command: &str) -> &str {
    command.rsplit(' ').next().unwrap_or_default()
}

fn wanted_first(mut commands: Vec<String>) -> Vec<String> {
    commands.dedup();
    commands
        .sort_by_key(|command| WANTED.iter().position(|wanted| *wanted == last_word(command)).unwrap_or(WANTED.len()));
    commands
}

/// Leaves only the targets that a newcomer needs: a Makefile has a target for each file that it makes.
fn only_wanted(mut commands: Vec<String>) -> Vec<String> {
    commands.retain(|command| WANTED.contains(&last_word(command)));
    wanted_first(commands)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn a_readme_is_shown_without_its_decoration() {
        let text = "<p align=center>\n[![badge](x)](y)\n# Title\n\nSays what\nit is.\n```\ncode\n```\n---\n![pic](z)\nMore\u{200b}.\n";
        assert_eq!(excerpt(text), "# Title\nSays what\nit is.\nMore.");
        let long = excerpt(&"word ".repeat(1000));
        assert!(long.ends_with('…') && long.chars().count() <= README_CHARS_MAX, "{}", long.chars().count());
        assert_eq!(excerpt(""), "");
    }

    #[test]
    fn commands_are_found_in_files_at_the_top() {
        let dir = tempfile::tempdir().expect("a directory");
        for (name, text) in [
            ("Cargo.toml", ""),
            ("package.json", r#"{"scripts": {"zip": "z", "test": "t", "build": "b"}}"#),
            ("yarn.lock", ""),
            ("Makefile", "CC := gcc\nall: x.o\nx.o: x.c\n\tcc\ntest: all\n.PHONY: test\nevil\u{1b}: x\n"),
            ("pyproject.toml", "[project]\n[tool.pytest.ini_options]\n"),
            ("justfile", "x := '1'\n@fmt:\n  a\nbuild target:\n  b\n"),
        ] {
            fs::write(dir.path().join(name), text).expect("a file");
        }
        std::os::unix::fs::symlink("/etc/hostname", dir.path().join("go.mod")).expect("a link");
        let root = dir.path().canonicalize().expect("a path");
        assert_eq!(
            commands(&root, &Closed::default()),
            [
                "Cargo.toml: cargo build · cargo test",
                "package.json: yarn run build · yarn run test · yarn run zip",
                "pyproject.toml: pytest",
                "Makefile: make test · make all",
                "justfile: just build · just fmt",
            ]
        );
        let closed = Closed::new(&["Cargo.toml", "Makefile", "package.json"].map(|name| root.join(name)));
        assert_eq!(commands(&root, &closed), ["pyproject.toml: pytest", "justfile: just build · just fmt"]);
        assert_eq!(npm_scripts("no JSON"), Vec::<String>::new());
        assert!(places(&root).contains(&root.join("Cargo.toml")));
    }
}
