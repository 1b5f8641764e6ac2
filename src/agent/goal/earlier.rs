//! Files that may be tests, as they were when a run began: a check that passes runs once more with these, since scripts of the
//! check, and programs that find their tests themselves, may have run changed ones. Of a Rust source, only its tests count.

use std::path::{Path, PathBuf};

use super::hands::{FILE_BYTES_MAX, search_in};
use super::{inputs, rust_tests};
use crate::agent::calls::runner::ToolRunner;
use crate::files::{FileContent, PathError, Tree};
use crate::norris::{Run, looks_like_test};
use crate::steps::State;
use crate::tools::EarlierFile;

/// Files that lead a test runner wherever they are. A new one is emptied, which is as good as none.
const LEADS_TESTS: [&str; 7] =
    ["conftest.py", "pytest.ini", ".pytest.ini", "tox.ini", "setup.cfg", "pyproject.toml", ".coveragerc"];
/// Beginnings of the names of others, which can't be empty.
const LEADS_TESTS_TOO: [&str; 8] = [
    "jest.config.",
    "vitest.config.",
    "vitest.workspace.",
    "karma.conf.",
    "playwright.config.",
    ".mocharc",
    "phpunit.xml",
    ".rspec",
];
/// Permission bits of a file that is emptied.
const PLAIN: u32 = 0o644;

/// The tests that a run has changed.
#[derive(Debug, Default)]
pub(super) struct EarlierTests {
    /// Their files as they were when the run began.
    pub(super) files: Vec<EarlierFile>,
    /// Changed tests whose earlier content isn't known.
    pub(super) unknown: Vec<String>,
}

impl EarlierTests {
    /// The names of all of them.
    pub(super) fn names(&self) -> Vec<String> {
        let known = self.files.iter().map(|file| file.path.clone());
        known.chain(self.unknown.iter().cloned()).collect()
    }
}

/// The state of a file when a run began.
enum Start {
    Nothing,
    File(FileContent),
    Unknown,
}

/// Finds the tests that a run has changed by now.
pub(super) fn earlier_tests(runner: &ToolRunner, run: &Run, number: i64) -> EarlierTests {
    let mut tests = EarlierTests::default();
    for (path, start) in starts(runner, run, number) {
        let is_reached = run.reached.contains(&path);
        let now = runner.tree().read(&path, FILE_BYTES_MAX).map(|file| file.bytes).ok();
        match start {
            Start::Nothing if leads_tests(&path) && now.is_some() => {
                tests.files.push(EarlierFile { path, content: Vec::new(), mode: PLAIN });
            }
            Start::File(FileContent { bytes, mode }) if now.as_ref() != Some(&bytes) => {
                if is_test(&path) || is_reached && inputs::script(&path, &bytes).is_some() {
                    tests.files.push(EarlierFile { path, content: bytes, mode });
                } else if path.ends_with(".rs") {
                    match now.map(|now| rust_tests::put_back(&bytes, &now)) {
                        Some(Some(content)) => tests.files.push(EarlierFile { path, content, mode }),
                        Some(None) => {}
                        None if rust_tests::has_tests(&bytes) => tests.unknown.push(path),
                        None => {}
                    }
                }
            }
            Start::Unknown if is_test(&path) => tests.unknown.push(path),
            Start::Nothing | Start::File(_) | Start::Unknown => {}
        }
    }
    tests
}

/// The files that a run may have changed, with their state when it began.
fn starts(runner: &ToolRunner, run: &Run, number: i64) -> Vec<(String, Start)> {
    let unknown = || run.reached.iter().map(|path| (path.clone(), Start::Unknown)).collect();
    if let Some(bench) = &runner.options.bench {
        let Some(before) = bench.draft().earlier(&run.base) else { return unknown() };
        let mut names = run.reached.clone();
        let may_count = |path: &Path| path.to_str().is_some_and(|it| it.ends_with(".rs") || is_test(it));
        names.extend(search_in(&before, &may_count));
        names.extend(search_in(runner.tree(), &|path: &Path| path.to_str().is_some_and(leads_tests)));
        names.sort();
        names.dedup();
        return names.into_iter().map(|path| (path.clone(), start_of(before.read(&path, FILE_BYTES_MAX)))).collect();
    }
    if !runner.keeper.has_undo() {
        return unknown();
    }
    let text = |(path, state): (PathBuf, State)| Some((path.into_os_string().into_string().ok()?, state));
    let start = |state| match state {
        State::Nothing | State::Directory { .. } => Start::Nothing,
        State::File { mode, .. } => {
            let bytes = runner.keeper.content(state);
            bytes.map_or(Start::Unknown, |bytes| Start::File(FileContent { bytes, mode }))
        }
        State::Link { .. } | State::Unknown(_) => Start::Unknown,
    };
    runner
        .keeper
        .starts_of(number, &run.allowed_steps)
        .into_iter()
        .filter_map(text)
        .map(|(path, state)| (path, start(state)))
        .collect()
}

fn name_of(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

fn leads_tests(path: &str) -> bool {
    LEADS_TESTS.contains(&name_of(path))
}

fn is_test(path: &str) -> bool {
    let leads_too = LEADS_TESTS_TOO.iter().any(|start| name_of(path).starts_with(start));
    leads_tests(path) || leads_too || looks_like_test(path)
}

fn start_of(read: Result<FileContent, PathError>) -> Start {
    match read {
        Ok(file) => Start::File(file),
        Err(PathError::Missing) => Start::Nothing,
        Err(_) => Start::Unknown,
    }
}
