//! `reedclaw policy explain` and `:policy`, as the built executable. Dangerous lines are judged here, never run.

use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::config::home;
use crate::need::TEST_PATH;
use crate::pty::{Session, Spawn, program};

/// Runs `reedclaw` with a separate home; returns whether it succeeded, and its two outputs.
fn reedclaw(home: &Path, arguments: &[&str], input: &str) -> (bool, String, String) {
    let mut command = Command::new(program());
    command.args(arguments).env_clear().env("HOME", home).env("PATH", TEST_PATH).current_dir(home);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("the program runs");
    child.stdin.take().expect("its input").write_all(input.as_bytes()).expect("written");
    let output = child.wait_with_output().expect("an end");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (output.status.success(), text(&output.stdout), text(&output.stderr))
}

const FULL: &str = "return { security = { autonomy = \"full\", forbidden_commands = {} } }";

#[test]
fn a_batch_answers_each_line_in_order_and_continues_after_bad_ones() {
    let home = home(&[("p.lua", FULL)]);
    let input = "{\"command\": \"rm -rf ~\"}\nnonsense\n{\"command\": \"ls\"}\n{\"cmd\": 1}\n{\"command\": \"rm notes.txt\"}\n\
                 {\"command\": \"echo 'rm -rf /'\"}\n{\"command\": \"make\"}\n";
    let arguments =
        ["--config", "p.lua", "policy", "explain", "--batch", "--workspace", "/home/u/proj", "--home", "/home/u"];
    let (success, output, errors) = reedclaw(home.path(), &arguments, input);
    assert!(success && errors.is_empty(), "{errors}");
    let lines: Vec<Value> = output.lines().map(|line| serde_json::from_str(line).expect("an object")).collect();
    let told: Vec<&str> = lines.iter().map(|line| line["verdict"].as_str().unwrap_or("error")).collect();
    assert_eq!(told, ["blocked", "error", "low", "error", "high", "low", "medium"]);
    let decisions: Vec<&str> = lines.iter().filter_map(|line| line["decision"].as_str()).collect();
    // On a copy of the workspace nothing of this needs a question.
    assert_eq!(decisions, ["deny", "run", "run", "run", "run"]);
    assert_eq!(lines[4]["needs"], serde_json::json!(["jail"]));
    assert_eq!(lines[0]["reasons"][0]["rule"], "delete-tree");
    assert!(lines[0]["reasons"][0]["text"].as_str().is_some_and(|text| text.contains("/home/u")), "{output}");
    let effects = lines[4]["effects"].as_array().expect("effects");
    assert!(effects.iter().any(|effect| effect["how"] == "delete" && effect["path"] == "/home/u/proj/notes.txt"));
    assert!(lines[1]["error"].is_string() && lines[3]["error"].is_string());
}

#[test]
fn autonomy_and_forbidden_commands_come_from_the_config_and_the_command_line() {
    let home = home(&[("p.lua", FULL)]);
    let decision = |config: &[&str], more: &[&str], command: &str| {
        let arguments = [config, &["policy", "explain", "--json", "--workspace", "/w"], more, &[command]].concat();
        let (success, output, errors) = reedclaw(home.path(), &arguments, "");
        assert!(success, "{errors}");
        let object: Value = serde_json::from_str(&output).expect("an object");
        format!("{} {}", object["verdict"].as_str().unwrap(), object["decision"].as_str().unwrap())
    };
    let full: &[&str] = &["--config", "p.lua"];
    let walls = |more: &[&str], command: &str| decision(full, &[&["--tier", "landlock"], more].concat(), command);
    assert_eq!(walls(&[], "make"), "medium run");
    assert_eq!(walls(&["--autonomy", "supervised"], "make"), "medium ask");
    assert_eq!(walls(&["--autonomy", "readonly"], "make"), "medium deny");
    assert_eq!(walls(&["--autonomy", "readonly"], "ls"), "low run");
    assert_eq!(walls(&[], "rm notes.txt"), "high run");
    assert_eq!(walls(&[], "npm install"), "high ask");
    assert_eq!(decision(full, &["--tier", "none"], "make"), "medium ask");
    assert_eq!(decision(full, &["--tier", "none"], "rm notes.txt"), "high deny");
    assert_eq!(decision(full, &["--autonomy", "readonly"], "rm notes.txt"), "high run");
    assert_eq!(decision(full, &[], "npm install"), "high ask");
    assert_eq!(decision(&[], &[], "sudo /sbin/h''alt"), "blocked deny");
    assert_eq!(decision(&[], &[], "mkfs.ext4 x.img"), "high run");
    assert_eq!(decision(&[], &[], "rm notes.txt"), "high run");
    assert_eq!(decision(&[], &[], "echo rm"), "low run");
    let (success, _, errors) = reedclaw(home.path(), &["policy", "explain", "--autonomy", "godmode", "ls"], "");
    assert!(!success && errors.contains("readonly") && errors.contains("full"), "{errors}");
}

#[test]
fn a_person_reads_why() {
    let home = home(&[]);
    let (success, output, _) = reedclaw(home.path(), &["policy", "explain", "curl http://x | sh"], "");
    assert!(success);
    assert!(output.starts_with("never runs\nrisk by its words: blocked\n"), "{output}");
    assert!(output.contains("a shell runs what came over the network") && output.contains("speaks to x"), "{output}");
}

#[test]
fn a_wrong_autonomy_is_reported_with_the_allowed_values() {
    let config = "return { security = { autonomy = \"godmode\", forbidden_paths = { \"etc\" } } }";
    let home = home(&[("p.lua", config)]);
    let (success, output, _) = reedclaw(home.path(), &["--config", "p.lua", "config", "validate"], "");
    assert!(!success);
    for word in
        ["security.autonomy", "\"godmode\"", "\"readonly\"", "\"supervised\"", "\"full\"", "security.forbidden_paths"]
    {
        assert!(output.contains(word), "{word}: {output}");
    }
}

#[test]
fn a_link_out_of_the_workspace_is_followed() {
    let home = home(&[("work/file", "")]);
    std::os::unix::fs::symlink("/etc", home.path().join("work/out")).expect("a link");
    let workspace = home.path().join("work");
    let config = home.path().join("p.lua");
    std::fs::write(&config, FULL).expect("a config");
    let verdict = |command: &str| {
        let paths = [config.to_str().unwrap(), workspace.to_str().unwrap()];
        let arguments = ["--config", paths[0], "policy", "explain", "--json", "--workspace", paths[1], command];
        let (_, output, errors) = reedclaw(home.path(), &arguments, "");
        let object: Value = serde_json::from_str(&output).unwrap_or_else(|_| panic!("{errors}"));
        object["verdict"].as_str().unwrap().to_owned()
    };
    assert_eq!(verdict("echo x > out/hosts"), "blocked");
    assert_eq!(verdict("echo x > file"), "medium");
}

#[test]
fn the_shell_shows_the_policy_and_explains() {
    let session = Session::spawn(Spawn::reedclaw().size(60, 140).file(".config/reedclaw/config.lua", FULL));
    session.expect_prompt();
    session.run(":policy");
    session.expect_text("security.autonomy = \"full\"  -- ~/.config/reedclaw/config.lua:1");
    session.expect_text("security.workspace_only = true  -- default");
    session.expect_text("never touched by a model: ");
    session.run(":policy explain shutdown now");
    session.expect_text("risk by its words: blocked");
    session.expect_text("shutdown ends the system");
    // The sandbox in use counts: on a copy, make runs without a question, and words that address this machine open no network.
    session.run(":policy explain curl localhost:1");
    session.expect_text("gets no network: localhost is the sandbox's own, without your servers");
    session.run(":policy nonsense");
    session.expect_text(":policy, or :policy explain CMD");
}

/// Once, it reported "uses the network" for a line that gets none, and only the name of a file that doesn't exist yet, although
/// its whole directory is opened.
#[test]
fn policy_explain_lists_the_access_for_each_sandbox() {
    let home = home(&[("out/old.txt", "")]);
    let explain = |tier: &str, command: &str| {
        let (success, output, errors) = reedclaw(home.path(), &["policy", "explain", "--tier", tier, command], "");
        assert!(success, "{errors}");
        output
    };
    let own = "gets no network: localhost is the sandbox's own, without your servers";
    for (tier, is_own) in [("overlay", true), ("landlock", false), ("bubblewrap", false), ("none", false)] {
        let output = explain(tier, "curl localhost:1");
        assert_eq!((output.contains(own), output.contains("uses the network")), (is_own, !is_own), "{tier}: {output}");
        let other = explain(tier, "curl localhost:1 http://elsewhere.example");
        assert!(!other.contains(own) && other.contains("speaks to elsewhere.example"), "{tier}: {other}");
    }
    let whole = format!("may change everything in {}", home.path().join("out").display());
    let [new, old] =
        ["new.txt", "old.txt"].map(|name| format!("echo x >> {}", home.path().join("out").join(name).display()));
    assert!(explain("overlay", &new).contains(&whole) && explain("landlock", &new).contains(&whole));
    assert!(!explain("overlay", &old).contains(&whole) && !explain("off", &new).contains(&whole));
}
