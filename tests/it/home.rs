//! Homes of test users: a config, files, a model that plays a script; and the program, run in such a home without a terminal.

use std::fs;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use serde_json::Value;
use tempfile::TempDir;

use crate::need::TEST_PATH;
use crate::pty::program;
use crate::server::Server;

/// The config, below the home.
const CONFIG: &str = ".config/reedclaw/config.lua";
/// The script of a model that plays one, below the home.
const SCRIPT: &str = "answers.jsonl";

/// A home under construction; [`TestHome::done`] returns it.
pub struct TestHome(TempDir);

impl TestHome {
    /// An empty home in the system's temporary directory, outside any repository.
    pub fn new() -> Self {
        Self(TempDir::new().expect("a home"))
    }

    /// An empty home outside `/tmp`, which is private for a command in a sandbox.
    pub fn for_commands() -> Self {
        Self(tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a home"))
    }

    /// Writes a file, and makes the directories above it.
    pub fn file(self, path: &str, bytes: impl AsRef<[u8]>) -> Self {
        let path = self.0.path().join(path);
        fs::create_dir_all(path.parent().expect("a parent")).expect("directories");
        fs::write(path, bytes).expect("a file");
        self
    }

    /// Makes a directory.
    pub fn directory(self, path: &str) -> Self {
        fs::create_dir_all(self.0.path().join(path)).expect("a directory");
        self
    }

    /// Writes the config: `lines` are the contents of its table.
    pub fn config(self, lines: &str) -> Self {
        self.file(CONFIG, format!("return {{{lines}}}\n"))
    }

    /// Makes a server the only model, called `name`; `model` are lines of the model, `rest` of the config.
    pub fn asks(self, server: &Server, name: &str, model: &str, rest: &str) -> Self {
        let endpoint = server.endpoint();
        self.config(&format!("models = {{{name} = {{endpoint = \"{endpoint}\", {model}}}}}, {rest}"))
    }

    /// Makes a script of these answers the only model, called `name`; `rest` are lines of the config.
    pub fn plays(self, name: &str, answers: &[Value], rest: &str) -> Self {
        let script = self.0.path().join(SCRIPT).display().to_string();
        let lines: Vec<String> = answers.iter().map(Value::to_string).collect();
        self.file(SCRIPT, lines.join("\n"))
            .config(&format!("models = {{{name} = {{kind = \"mock\", script = {script:?}}}}}, {rest}"))
    }

    /// The same, with `m` as the name, and with questions that carry no context.
    pub fn plays_alone(self, answers: &[Value], rest: &str) -> Self {
        let quiet = "console = {usage = false}, memory = {auto = false}, context = {project = false}";
        self.plays("m", answers, &format!("{quiet},\n{rest}"))
    }

    /// Returns the home, which is removed when the value is dropped.
    pub fn done(self) -> TempDir {
        self.0
    }
}

/// The program with these arguments, ready to be started in a home, with pipes and without input.
pub fn command(home: &Path, args: &[&str]) -> Command {
    let mut command = Command::new(program());
    command.args(args).env_clear().env("PATH", TEST_PATH).env("HOME", home).env("LANG", "C.UTF-8");
    command.current_dir(home).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// The exit status and the two outputs of a program.
pub fn seen(output: &Output) -> (Option<i32>, String, String) {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (output.status.code(), text(&output.stdout), text(&output.stderr))
}

/// Runs the program in a home; returns its exit status and its two outputs.
pub fn run(home: &Path, args: &[&str]) -> (Option<i32>, String, String) {
    seen(&command(home, args).output().expect("it runs"))
}
