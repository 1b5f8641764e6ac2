//! Clients built on the libraries that editors use, if they are installed: `.ci/run` installs them.

use std::io::Read;
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::{Value, json};

use super::{work, write};
use crate::changes::{home, rounds};
use crate::need::{self, TEST_PATH, require};
use crate::pty::program;

/// Runs a client and checks what it saw.
fn run(home: &Path, command: &mut Command) {
    command.env_clear().env("PATH", TEST_PATH).env("HOME", home).env("LANG", "C.UTF-8");
    let output = command.stdin(Stdio::null()).output().expect("it runs");
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{out}{err}");
    let seen: Value = serde_json::from_str(out.trim()).unwrap_or_else(|_| panic!("no JSON: {out}{err}"));
    let expected = json!({
        "version": 1, "hello": "end_turn", "make": "end_turn", "slow": "cancelled", "replayed": 3, "asked": 1,
        "exit": 0, "text": "Hi|made|begun|Hi|made|begun\n\n[This answer was cut off.]",
    });
    assert_eq!(seen, expected, "{err}");
}

fn scene() -> tempfile::TempDir {
    let answers = [
        json!({"when": "hello", "steps": [{"thought": "hm"}, {"text": "Hi"}]}),
        rounds("make", &[write("a.txt", "one\n")], "made"),
        json!({"when": "slow", "steps": [{"text": "begun"}, {"delay_ms": 120_000}]}),
    ];
    home(&answers, "")
}

#[test]
fn the_typescript_library_understands_every_message() {
    let Some(clients) = need::acp_clients() else { return };
    if !require(&["node"]) {
        return;
    }
    let home = scene();
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/acp/client.mjs");
    run(home.path(), Command::new("node").arg(script).arg(clients).arg(program()).arg(work(home.path())));
}

#[test]
fn the_python_library_understands_every_message() {
    let Some(clients) = need::acp_clients() else { return };
    let home = scene();
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/acp/client.py");
    let python = clients.join("python/bin/python");
    run(home.path(), Command::new(python).arg(script).arg(program()).arg(work(home.path())));
}

/// The command-line client `acpx`, for a user of `home`.
fn acpx(place: &Path, home: &Path, words: &[&str]) -> Command {
    let mut command = Command::new(place.join("node_modules/.bin/acpx"));
    // Its background process waits a second for more and ends.
    command.args(["--ttl", "1", "--agent", &format!("{} acp", program().display())]).args(words);
    command.env_clear().env("PATH", TEST_PATH).env("HOME", home).env("LANG", "C.UTF-8").current_dir(work(home));
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

#[test]
fn acpx_prompts_approves_refuses_cancels_and_loads() {
    let Some(clients) = need::acp_clients() else { return };
    if !require(&["node"]) {
        return;
    }
    let home = scene();
    let said = |words: &[&str]| {
        let output = acpx(&clients, home.path(), words).output().expect("acpx runs");
        let said = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
        // It reports a refusal as a failure.
        assert_eq!(output.status.success(), !words.contains(&"--deny-all"), "{words:?}: {said}");
        said
    };
    let hello = said(&["exec", "hello"]);
    assert!(hello.contains("[thinking] hm") && hello.contains("Hi") && hello.contains("[done] end_turn"), "{hello}");
    let file = || std::fs::read_to_string(work(home.path()).join("a.txt")).ok();
    let denied = said(&["--deny-all", "exec", "make"]);
    assert!(denied.contains("the user said no") && file().is_none(), "{denied}");
    let made = said(&["--approve-all", "exec", "make"]);
    assert_eq!(file().as_deref(), Some("one\n"), "{made}");

    said(&["sessions", "new"]);
    said(&["prompt", "hello"]);
    let mut slow = acpx(&clients, home.path(), &["prompt", "slow"]).spawn().expect("acpx runs");
    let mut output = slow.stdout.take().expect("its output");
    let mut shown = String::new();
    let mut piece = [0; 4096];
    while !shown.contains("[done]") {
        let length = output.read(&mut piece).expect("output");
        assert!(length > 0, "it ended early: {shown}");
        let had_begun = shown.contains("begun");
        shown.push_str(&String::from_utf8_lossy(&piece[..length]));
        if !had_begun && shown.contains("begun") {
            said(&["cancel"]);
        }
    }
    slow.wait().expect("it ends");
    assert!(shown.contains("[done] cancelled"), "{shown}");
    said(&["sessions", "close"]);
}

#[test]
fn codecompanion_in_neovim_is_served_with_the_documented_set_up() {
    let Some(place) = need::neovim() else { return };
    let answers = [
        json!({"when": "hello", "steps": [{"thought": "hm"}, {"text": "Hi"}]}),
        rounds("make", &[write("a.txt", "one\n")], "made"),
        rounds("refuse", &[write("b.txt", "one\n")], "not made"),
        json!({"when": "slow", "steps": [{"text": "begun"}, {"delay_ms": 120_000}]}),
    ];
    let home = home(&answers, "");
    let here = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/acp/neovim.lua");
    let mut command = Command::new(place.join("python/bin/nvim"));
    command.args(["--headless", "-u", "NONE", "-l", here]).current_dir(work(home.path()));
    command.env_clear().env("PATH", TEST_PATH).env("HOME", home.path()).env("LANG", "C.UTF-8");
    command.env("PLUGINS", &place).env("REEDCLAW", program());
    command.env("SETUP", concat!(env!("CARGO_MANIFEST_DIR"), "/examples/acp/codecompanion.lua"));
    let output = command.stdin(Stdio::null()).output().expect("it runs");
    let said = [output.stdout, output.stderr].concat();
    let said = String::from_utf8_lossy(&said);
    let seen = said.lines().find_map(|line| serde_json::from_str::<Value>(line).ok());
    assert_eq!(seen, Some(json!({"thought": true})), "{said}");
    let file = |name: &str| std::fs::read_to_string(work(home.path()).join(name)).ok();
    assert_eq!((file("a.txt").as_deref(), file("b.txt")), (Some("one\n"), None));
}

#[test]
fn the_set_ups_of_editors_start_the_program_and_are_the_documented_ones() {
    let documented = include_str!("../../../docs/editors.md");
    for text in [include_str!("../../../examples/acp/zed.json"), include_str!("../../../examples/acp/jetbrains.json")] {
        assert!(documented.contains(text.trim_end()), "{text}");
        let set_up: Value = serde_json::from_str(text).expect("JSON");
        let agent = &set_up["agent_servers"]["ReedClaw"];
        assert!(agent["command"].as_str().is_some_and(|command| command.ends_with("reedclaw")), "{agent}");
        assert_eq!(agent["args"], json!(["acp"]));
    }
}
