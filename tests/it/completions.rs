//! `reedclaw completions`: Tab's suggestions for reedclaw's own words in bash, zsh and fish, and inside ReedClaw itself.

use std::path::Path;
use std::process::Command;

use crate::need::{TEST_PATH, find, require};
use crate::pty::{Key, PROMPT, Session, Spawn, left_of_cursor};

/// A config with two models, one of which has an alias.
const CONFIG: &str = "return { models = { [\"local\"] = { endpoint = \"http://127.0.0.1:1\", aliases = { \"nearby\" } }, \
                      cloud = { endpoint = \"http://127.0.0.1:1\" } }, editor = { autosuggest = false, \
                      completion_timeout_ms = 10000 } }";

/// A search path on which `reedclaw` is the program under test.
fn path() -> String {
    let folder = Path::new(env!("CARGO_BIN_EXE_reedclaw")).parent().expect("a folder").display().to_string();
    format!("{folder}:{TEST_PATH}")
}

fn home() -> tempfile::TempDir {
    let home = tempfile::tempdir().expect("a home");
    let folder = home.path().join(".config/reedclaw");
    std::fs::create_dir_all(&folder).expect("a folder");
    std::fs::write(folder.join("config.lua"), CONFIG).expect("a config");
    home
}

/// The lines that a script prints in a shell.
fn lines(home: &Path, program: &str, script: &str) -> Vec<String> {
    let output = Command::new(find(program).expect("a shell"))
        .args(["-c", script])
        .env_clear()
        .envs([("PATH", path()), ("HOME", home.display().to_string()), ("TERM", "dumb".to_owned())])
        .current_dir(home)
        .output()
        .expect("the shell starts");
    assert!(output.stderr.is_empty(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).lines().map(str::to_owned).collect()
}

#[test]
fn bash_offers_commands_values_models_and_files() {
    let home = home();
    std::fs::create_dir(home.path().join("folder")).expect("a folder");
    for (words, wanted) in [
        ("rou", &["route"][..]),
        ("agent --autonomy ''", &["full", "readonly", "supervised"]),
        ("agent --autonomy = f", &["full"]),
        ("agent --model ''", &["cloud", "local", "nearby"]),
        ("provider test lo", &["local"]),
        ("agent --path fol", &["folder"]),
        ("plugin install fol", &["folder"]),
    ] {
        let script = format!(
            "eval \"$(reedclaw completions bash)\"; COMP_WORDS=(reedclaw {words}); COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1)); \
             _reedclaw reedclaw; printf '%s\\n' \"${{COMPREPLY[@]}}\""
        );
        let found: Vec<String> =
            lines(home.path(), "bash", &script).into_iter().filter(|line| !line.is_empty()).collect();
        assert_eq!(found, wanted, "{words}");
    }
}

#[test]
fn fish_offers_candidates_with_their_help() {
    if !require(&["fish"]) {
        return;
    }
    let home = home();
    std::fs::create_dir(home.path().join("folder")).expect("a folder");
    let offered = |line: &str| {
        let script = format!("reedclaw completions fish | source; complete -C '{line}'");
        lines(home.path(), "fish", &script)
    };
    assert_eq!(offered("reedclaw rou"), ["route\tSays where a line would go, and why; runs nothing"]);
    assert_eq!(offered("reedclaw agent --model c"), ["cloud"]);
    assert_eq!(offered("reedclaw agent --autonomy=f"), ["--autonomy=full"]);
    assert!(offered("reedclaw plugin install fol").iter().any(|line| line.starts_with("folder/")));
}

/// Presses Tab in a shell at a terminal.
#[track_caller]
fn completes(session: &Session, typed: &str, wanted: &str) {
    session.type_text(&format!("{typed}\t"));
    session.expect(&format!("{wanted} in the line"), |screen| left_of_cursor(screen).trim_end().ends_with(wanted));
    session.press(Key::Ctrl('u'));
    session.expect("an empty line", |screen| left_of_cursor(screen).trim_end().ends_with(PROMPT));
}

#[test]
fn bash_at_a_terminal_completes() {
    let rc = "PS1='❯ '\neval \"$(reedclaw completions bash)\"\n";
    let spawn = Spawn::bash().env("PATH", &path()).file(".bashrc", rc).file(".config/reedclaw/config.lua", CONFIG);
    let session = Session::spawn(spawn.file("script.lua", "return {}\n"));
    session.expect_prompt();
    completes(&session, "reedclaw esto", "reedclaw estop");
    completes(&session, "reedclaw agent --autonomy=re", "reedclaw agent --autonomy=readonly");
    completes(&session, "reedclaw config validate scr", "reedclaw config validate script.lua");
}

#[test]
fn zsh_at_a_terminal_completes() {
    if !require(&["zsh"]) {
        return;
    }
    let rc = "PS1='❯ '\nautoload -Uz compinit; compinit -u\neval \"$(reedclaw completions zsh)\"\n";
    let spawn = Spawn::new(find("zsh").expect("just found")).env("PATH", &path()).file(".zshrc", rc);
    let session = Session::spawn(spawn.file(".config/reedclaw/config.lua", CONFIG).file("script.lua", "return {}\n"));
    session.expect_prompt();
    completes(&session, "reedclaw esto", "reedclaw estop");
    completes(&session, "reedclaw agent --autonomy re", "reedclaw agent --autonomy readonly");
    completes(&session, "reedclaw agent --model=ne", "reedclaw agent --model=nearby");
    completes(&session, "reedclaw config validate scr", "reedclaw config validate script.lua");
}

#[test]
fn tab_inside_reedclaw_completes_reedclaw() {
    let rc = "PS1='❯ '\neval \"$(reedclaw completions bash)\"\n";
    let spawn = Spawn::reedclaw().env("PATH", &path()).file(".bashrc", rc).file(".config/reedclaw/config.lua", CONFIG);
    let session = Session::spawn(spawn.file("script.lua", "return {}\n"));
    session.run("echo ready");
    session.expect_line("ready");
    completes(&session, "reedclaw provider test nea", "reedclaw provider test nearby");
    completes(&session, "reedclaw doctor --exp", "reedclaw doctor --export");
    completes(&session, "reedclaw config validate scr", "reedclaw config validate script.lua");
}
