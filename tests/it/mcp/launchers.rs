//! Servers that a package launcher installs: never without a question, and without the network from then on. The registry runs on
//! this machine.

use std::fs;
use std::process::{Child, Command, Stdio};

use super::{at, has_python, run};
use crate::changes::home;
use crate::need::{mcp_servers, require, require_that};
use crate::pty::{Session, Spawn, program, status_code};
use crate::wait::wait_until;

/// A registry with one package, which runs until the value is dropped.
struct Registry {
    child: Child,
    port: String,
    place: tempfile::TempDir,
}

impl Registry {
    fn start() -> Self {
        let place = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a directory");
        let (port, asked) = (place.path().join("port"), fs::File::create(place.path().join("asked")));
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/mcp/registry.py");
        let mut command = Command::new("/usr/bin/python3");
        command.args(["-IS", script]).arg(&port).stdin(Stdio::null()).stdout(asked.expect("a file"));
        let child = command.spawn().expect("it starts");
        wait_until(|| port.exists());
        Self { child, port: fs::read_to_string(port).expect("a port"), place }
    }

    /// The paths that were requested.
    fn asked(&self) -> String {
        fs::read_to_string(self.place.path().join("asked")).expect("a list")
    }

    fn end(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for Registry {
    fn drop(&mut self) {
        self.end();
    }
}

/// Checks a server that a launcher starts: the command in Lua, the variable that names the registry, and the package's path
/// there.
fn is_installed_by_word(command: &str, registry_variable: &str, registry_path: &str, package: &str) {
    let mut registry = Registry::start();
    let address = format!("http://127.0.0.1:{}/{registry_path}", registry.port);
    let home = home(
        &[],
        &format!(
            "mcp = {{ servers = {{ packed = {{ command = {{ {command} }}, \
             start_ms = 120000, env = {{ {registry_variable} = \"{address}\" }} }} }} }}"
        ),
    );
    let entries = || {
        let names = fs::read_dir(at(&home)).expect("a home").map(|entry| entry.expect("an entry").file_name());
        let mut names: Vec<String> = names.map(|name| name.to_string_lossy().into_owned()).collect();
        // These contain ReedClaw's own directories, among them the server's and that of a session at a terminal.
        names.retain(|name| ![".cache", ".local", ".run"].contains(&name.as_str()));
        names.sort();
        names
    };
    let before = entries();

    let (code, out, err) = run(at(&home), &["mcp", "test", "packed"]);
    assert!(code == Some(1) && format!("{out}{err}").contains("mcp fetch packed"), "{code:?}{out}{err}");
    assert_eq!(registry.asked(), "", "there is no network without a word");

    let (code, out, err) = run(at(&home), &["mcp", "fetch", "packed"]);
    assert!(code == Some(3) && err.contains("only a person at a terminal"), "{code:?}{out}{err}");
    assert_eq!(registry.asked(), "", "nobody has said yes");
    let spawn = Spawn::new(program()).args(&["mcp", "fetch", "packed"]).home(at(&home)).cwd(&at(&home).join("work"));
    let session = Session::spawn(spawn.size(40, 160));
    session.expect_text("your answer: ");
    session.line("1");
    session.expect_text("starts without the network");
    assert_eq!(status_code(session.expect_exit()), 0);
    assert!(registry.asked().contains(package), "{}", registry.asked());

    registry.end();
    let (code, out, err) = run(at(&home), &["mcp", "test", "packed"]);
    assert!(
        code == Some(3) && out.contains("connected in") && out.contains("echo is not allowed"),
        "{code:?}{out}{err}"
    );
    assert_eq!(entries(), before, "the home is as it was");
}

#[test]
fn a_launcher_installs_its_server_once_by_word_and_starts_it_offline_afterwards() {
    if has_python() && require(&["node", "npx"]) {
        let command = "\"npx\", \"-y\", \"reedclaw-test-server@1.0.0\"";
        is_installed_by_word(command, "npm_config_registry", "", "/reedclaw-test-server.tgz");
    }
}

/// The index's answers expire at once, so that the server starts only if the launcher doesn't ask again.
#[test]
fn uvx_installs_its_server_once_by_word_and_starts_it_offline_afterwards() {
    if !has_python() {
        return;
    }
    let Some(servers) = mcp_servers() else { return };
    let uvx = servers.join("python/bin/uvx");
    if require_that(uvx.is_file(), "uvx is not installed beside the servers of tools") {
        let command =
            format!("\"{}\", \"--python\", \"/usr/bin/python3\", \"reedclaw-test-server@1.0.0\"", uvx.display());
        is_installed_by_word(&command, "UV_DEFAULT_INDEX", "simple", "/files/reedclaw_test_server-1.0.0");
    }
}
