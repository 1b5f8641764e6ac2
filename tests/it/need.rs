//! What a test needs from the machine, and what happens when it isn't there: loud in both cases, and a failure where
//! `REEDCLAW_TEST_REQUIRE_ALL` is set. Must not decide what a test means.

use std::fs::OpenOptions;
use std::io::Write as _;
use std::path::{Path, PathBuf};

/// Where test programs look for programs. Short on purpose: what a user's own PATH adds isn't part of a test.
pub const TEST_PATH: &str = "/usr/local/bin:/usr/bin:/bin:/usr/local/sbin:/usr/sbin:/sbin";

/// Finds `program` on [`TEST_PATH`].
pub fn find(program: &str) -> Option<PathBuf> {
    TEST_PATH.split(':').map(|folder| Path::new(folder).join(program)).find(|path| path.is_file())
}

/// Tells whether every named program is installed; a test returns where it isn't.
///
/// # Panics
/// Where one is missing and `REEDCLAW_TEST_REQUIRE_ALL=1`.
#[must_use]
pub fn require(programs: &[&str]) -> bool {
    programs.iter().all(|program| find(program).is_some() || skip(&format!("{program} is not installed")))
}

/// Tells whether the tests run as root, which making a test user needs.
///
/// # Panics
/// Where they don't and `REEDCLAW_TEST_REQUIRE_ALL=1`.
#[must_use]
pub fn require_root() -> bool {
    nix::unistd::geteuid().is_root() || skip("not running as root")
}

/// Tells whether something else that a test needs is true; `what` says what isn't.
///
/// # Panics
/// Where it isn't and `REEDCLAW_TEST_REQUIRE_ALL=1`.
#[must_use]
pub fn require_that(is_so: bool, what: &str) -> bool {
    is_so || skip(what)
}

/// The address of a real model server, which `.ci/run` starts (`tests/llama`). None is a skip even where everything is
/// required: not every release of the distribution has the package.
pub fn llama() -> Option<String> {
    server("REEDCLAW_TEST_LLAMA", "llama.cpp server")
}

/// The same of a model that understands what it is told: SmolLM2-135M-Instruct, with the template in `tests/llama`.
pub fn instruct() -> Option<String> {
    server("REEDCLAW_TEST_INSTRUCT", "llama.cpp server with a real model")
}

/// The directory of clients of the Agent Client Protocol, which `.ci/run` makes: `node_modules` and a Python environment in
/// `python`. None is a skip even where everything is required: they come from the network.
pub fn acp_clients() -> Option<PathBuf> {
    server("REEDCLAW_TEST_ACP_CLIENTS", "directory of editor clients").map(PathBuf::from)
}

/// The directory of published servers of the Model Context Protocol, which `.ci/run` makes in the same way.
pub fn mcp_servers() -> Option<PathBuf> {
    server("REEDCLAW_TEST_MCP_SERVERS", "directory of servers of tools").map(PathBuf::from)
}

/// The Python environment with schemathesis, which `.ci/run` makes in the same way.
pub fn schemathesis() -> Option<PathBuf> {
    server("REEDCLAW_TEST_SCHEMATHESIS", "environment with schemathesis").map(PathBuf::from)
}

/// The directory of a Neovim that can talk with agents, with its plugins, which `.ci/run` makes in the same way.
pub fn neovim() -> Option<PathBuf> {
    server("REEDCLAW_TEST_NEOVIM", "directory of a Neovim with plugins").map(PathBuf::from)
}

fn server(variable: &str, what: &str) -> Option<String> {
    let address = std::env::var(variable).ok().filter(|address| !address.is_empty());
    if address.is_none() {
        record(&format!("{variable} names no {what}"));
    }
    address
}

/// Skips a test, unless none may be; always false.
fn skip(why: &str) -> bool {
    let test = std::thread::current().name().unwrap_or("?").to_string();
    let all_required = std::env::var_os("REEDCLAW_TEST_REQUIRE_ALL").is_some_and(|value| value == "1");
    assert!(!all_required, "{test} can't run: {why} (and REEDCLAW_TEST_REQUIRE_ALL=1)");
    record(why);
    false
}

/// Records a skipped test, for the summary of `.ci/run`.
fn record(why: &str) {
    let test = std::thread::current().name().unwrap_or("?").to_string();
    let line = format!("SKIPPED {test}: {why}\n");
    // Written to the descriptor itself: the test runner captures what `eprintln!` says, and this must be seen.
    std::io::stderr().write_all(line.as_bytes()).expect("stderr takes a line");
    let list = Path::new(env!("CARGO_TARGET_TMPDIR")).join("skipped.txt");
    match OpenOptions::new().create(true).append(true).open(list) {
        Ok(mut file) => file.write_all(line.as_bytes()).expect("the list of skipped tests takes a line"),
        // A test that runs again as another user: it is skipped there alone, and doesn't fail for the list's sake.
        Err(error) => assert_eq!(error.kind(), std::io::ErrorKind::PermissionDenied, "the list of skipped tests"),
    }
}
