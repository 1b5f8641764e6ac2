//! Requirements of a test on the machine, and the handling of a missing one: a loud report, and a failure if
//! `REEDCLAW_TEST_REQUIRE_ALL` is set. Must not decide what a test means.

use std::fs::OpenOptions;
use std::io::Write as _;
use std::path::{Path, PathBuf};

/// The directories in which test programs look for programs. Short on purpose: a user's additions to PATH aren't part of a test.
pub const TEST_PATH: &str = "/usr/local/bin:/usr/bin:/bin:/usr/local/sbin:/usr/sbin:/sbin";

/// Finds `program` on [`TEST_PATH`].
pub fn find(program: &str) -> Option<PathBuf> {
    TEST_PATH.split(':').map(|folder| Path::new(folder).join(program)).find(|path| path.is_file())
}

/// Returns whether every named program is installed; if not, the test returns.
///
/// # Panics
/// If one is missing and `REEDCLAW_TEST_REQUIRE_ALL=1`.
#[must_use]
pub fn require(programs: &[&str]) -> bool {
    programs.iter().all(|program| find(program).is_some() || skip(&format!("{program} is not installed")))
}

/// Returns whether the tests run as root, which is needed to create a test user.
///
/// # Panics
/// If they don't and `REEDCLAW_TEST_REQUIRE_ALL=1`.
#[must_use]
pub fn require_root() -> bool {
    nix::unistd::geteuid().is_root() || skip("not running as root")
}

/// Returns whether another requirement of a test is met; `what` describes the failure.
///
/// # Panics
/// If it isn't and `REEDCLAW_TEST_REQUIRE_ALL=1`.
#[must_use]
pub fn require_that(is_so: bool, what: &str) -> bool {
    is_so || skip(what)
}

/// The address of a real model server, which `.ci/run` starts (`tests/llama`). A missing server is a skip even if everything is
/// required: not every release of the distribution has the package.
pub fn llama() -> Option<String> {
    server("REEDCLAW_TEST_LLAMA", "llama.cpp server")
}

/// The address of a server with a model that follows instructions: SmolLM2-135M-Instruct, with the template in `tests/llama`.
pub fn instruct() -> Option<String> {
    server("REEDCLAW_TEST_INSTRUCT", "llama.cpp server with a real model")
}

/// The directory of clients of the Agent Client Protocol, which `.ci/run` creates: `node_modules` and a Python environment in
/// `python`. A missing one is a skip even if everything is required: they come from the network.
pub fn acp_clients() -> Option<PathBuf> {
    server("REEDCLAW_TEST_ACP_CLIENTS", "directory of editor clients").map(PathBuf::from)
}

/// The directory of published servers of the Model Context Protocol, which `.ci/run` creates in the same way.
pub fn mcp_servers() -> Option<PathBuf> {
    server("REEDCLAW_TEST_MCP_SERVERS", "directory of servers of tools").map(PathBuf::from)
}

/// The Python environment with schemathesis, which `.ci/run` creates in the same way.
pub fn schemathesis() -> Option<PathBuf> {
    server("REEDCLAW_TEST_SCHEMATHESIS", "environment with schemathesis").map(PathBuf::from)
}

/// The directory of a Neovim that can talk with agents, with its plugins, which `.ci/run` creates in the same way.
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

/// Skips a test, or fails it if no test may be skipped; always returns false.
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
    // Written to the descriptor directly: the test runner captures the output of `eprintln!`, and this must be seen.
    std::io::stderr().write_all(line.as_bytes()).expect("stderr takes a line");
    let list = Path::new(env!("CARGO_TARGET_TMPDIR")).join("skipped.txt");
    match OpenOptions::new().create(true).append(true).open(list) {
        Ok(mut file) => file.write_all(line.as_bytes()).expect("the list of skipped tests takes a line"),
        // A test that runs again as another user: it is skipped only there, and doesn't fail because of the list.
        Err(error) => assert_eq!(error.kind(), std::io::ErrorKind::PermissionDenied, "the list of skipped tests"),
    }
}
