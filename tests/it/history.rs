//! The history: which parts of a line are stored, who sees it, and import from other shells.

use std::path::Path;
use std::process::{Command, Output};

use crate::need::require;
use crate::pty::{Key, Session, Spawn, cursor_line, program};
use crate::server::Server;

/// A row of the history: the line, its kind, its status, whether it has a duration, its directory.
type Row = (String, String, Option<i64>, bool, Option<String>);

fn rows(home: &Path) -> Vec<Row> {
    let path = home.join(".local/share/reedclaw/reedclaw.db");
    let database = rusqlite::Connection::open(path).expect("the database opens");
    let sql = "SELECT line, kind, status, duration_ms IS NOT NULL, cwd FROM history ORDER BY id";
    let mut rows = database.prepare(sql).expect("the history");
    let rows = rows.query_map([], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?, row.get(4)?)));
    rows.expect("rows").map(|row| row.expect("a row")).collect()
}

#[test]
fn a_line_is_stored_with_its_outcome() {
    let server = Server::start();
    server.reply(crate::server::answer("CMD: false\n"));
    let session = Session::spawn(server.shell("", ""));
    session.run("mkdir sub; cd sub");
    session.run("(exit 7)");
    session.expect_prompt();
    session.line("what is next?");
    session.expect_text("stop [t]");
    session.type_text("r");
    session.run(":why");
    session.run(" echo secret");
    session.run("what is last?");
    session.line("exit");
    session.expect_exit();
    let home = session.home().display().to_string();
    let sub = format!("{home}/sub");
    let row = |line: &str, kind: &str, status: Option<i64>, timed: bool, cwd: &str| -> Row {
        (line.into(), kind.into(), status, timed, Some(cwd.to_owned()))
    };
    let expected = [
        row("mkdir sub; cd sub", "command", Some(0), true, &home),
        row("(exit 7)", "command", Some(7), true, &sub),
        row("what is next?", "question", None, false, &sub),
        row("false", "model-command", Some(1), true, &sub),
        row(":why", "meta", None, false, &sub),
        row("what is last?", "question", None, false, &sub),
        row("exit", "command", None, false, &sub),
    ];
    let kept = rows(session.home());
    assert_eq!(kept, expected);
}

#[test]
fn up_brings_lines_back_and_ctrl_r_searches_all_of_them() {
    let session = Session::spawn(Spawn::reedclaw());
    session.run("echo alpha-$((1+1))");
    session.run("echo beta-$((1+1))");
    session.run("clear");
    session.press(Key::Up);
    session.expect("the last line", |screen| cursor_line(screen).ends_with("❯ clear"));
    session.press(Key::Up);
    session.expect("the one before", |screen| cursor_line(screen).ends_with("❯ echo beta-$((1+1))"));
    session.press(Key::Up);
    session.press(Key::Down);
    session.press(Key::Up);
    session.expect("the first", |screen| cursor_line(screen).ends_with("❯ echo alpha-$((1+1))"));
    session.press(Key::Enter);
    session.expect_line("alpha-2");
    session.expect_prompt();
    session.press(Key::Ctrl('r'));
    session.type_text("beta");
    session.expect("the one hit", |screen| {
        let text = screen.contents();
        text.contains("echo beta-$((1+1))") && text.matches("alpha").count() == 2
    });
    session.press(Key::Enter);
    session.expect("the chosen line", |screen| cursor_line(screen).ends_with("❯ echo beta-$((1+1))"));
    session.press(Key::Enter);
    session.expect_line("beta-2");
}

#[test]
fn a_suggestion_appears_and_right_takes_it() {
    let session = Session::spawn(Spawn::reedclaw());
    session.run("echo suggested-$((1+1))");
    session.run("clear");
    session.type_text("echo su");
    session.expect("the suggestion", |screen| cursor_line(screen).ends_with("❯ echo suggested-$((1+1))"));
    session.send(b"\x1b[C");
    session.press(Key::Enter);
    session.expect_line("suggested-2");
}

#[test]
fn a_session_sees_the_lines_of_another_one() {
    let home = tempfile::TempDir::new().expect("a home");
    let first = Session::spawn(Spawn::reedclaw().home(home.path()));
    let second = Session::spawn(Spawn::reedclaw().home(home.path()));
    second.expect_prompt();
    first.run("echo from-the-first");
    // The disk is written a moment after the prompt.
    first.expect_outside("the line in the file", || {
        lines(home.path()).iter().any(|line| line == "echo from-the-first").then_some(())
    });
    second.press(Key::Ctrl('r'));
    second.type_text("from-the");
    second.expect_text("echo from-the-first");
}

/// The shell without suggestions, which would be part of a row.
fn plain() -> Spawn {
    Spawn::reedclaw().file(".config/reedclaw/config.lua", "return { editor = {autosuggest = false} }")
}

#[test]
fn an_expansion_is_shown_before_it_runs_if_histverify_says_so() {
    let session = Session::spawn(plain().file(".bashrc", "shopt -s histverify\n"));
    session.run("echo a-$((1+1))");
    session.expect_line("a-2");
    session.run("echo other");
    session.line("!-2 && touch verified");
    session.expect("the line in the editor", |screen| {
        cursor_line(screen).trim_end().ends_with("echo a-$((1+1)) && touch verified")
    });
    assert!(!session.home().join("verified").exists(), "it hasn't run");
    session.press(Key::Enter);
    session.expect_outside("the file", || session.home().join("verified").exists().then_some(()));
    session.expect_prompt();
    // Without an expansion the line runs at once; and a person can turn the expansion off.
    session.run("touch 'plain!'");
    session.expect_outside("the file", || session.home().join("plain!").exists().then_some(()));
    session.run("shopt -u histverify");
    session.run("true");
    session.run("echo b-$((2+1))");
    session.run("!! && touch at-once");
    session.expect_outside("the file", || session.home().join("at-once").exists().then_some(()));
}

#[test]
fn a_printed_expansion_leads_to_a_prompt_at_which_sentences_are_sentences() {
    let session = Session::spawn(plain());
    session.run("echo pp");
    session.run("!!:p");
    session.line("touch the old-files1 please");
    session.expect_text("No model");
    session.expect_prompt();
    assert!(!session.home().join("old-files1").exists());
}

#[test]
fn lines_that_bash_leaves_out_of_its_history_are_not_stored() {
    let session = Session::spawn(plain());
    session.run("HISTIGNORE='*vaultword*:ls'");
    session.run("echo vaultword-7");
    session.run("ls");
    session.run("echo kept-1");
    session.run("set +o history");
    session.run("echo offrecord-8");
    session.run("set -o history");
    session.run("echo kept-2");
    session.line("exit");
    session.expect_exit();
    let stored: Vec<String> = rows(session.home()).into_iter().map(|row| row.0).collect();
    assert!(stored.iter().any(|it| it == "echo kept-2") && stored.iter().any(|it| it == "echo kept-1"), "{stored:?}");
    assert!(
        !stored.iter().any(|it| it.contains("vaultword-7") || it.contains("offrecord") || it == "ls"),
        "{stored:?}"
    );
}

fn import(home: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new(program());
    command
        .args(["history", "import"])
        .args(arguments)
        .env_clear()
        .env("HOME", home)
        .env("PATH", crate::need::TEST_PATH);
    command.output().expect("it runs")
}

fn lines(home: &Path) -> Vec<String> {
    rows(home).into_iter().map(|row| row.0).collect()
}

/// Runs a shell that writes its own history file, as a person would: at a terminal.
fn write_history(shell: &str, home: &Path, rc: (&str, &str), prompt: &str, typed: &[&str]) {
    let spawn = Spawn::new(crate::need::find(shell).expect("it is installed")).arg("-i").home(home).file(rc.0, rc.1);
    let session = Session::spawn(spawn);
    for line in typed {
        session.expect("its prompt", |screen| cursor_line(screen).ends_with(prompt));
        session.send(format!("{line}\r").as_bytes());
        if line.starts_with("echo ") {
            let word = line.split('-').next().expect("a word").trim_start_matches("echo ").trim_start_matches('\'');
            session.expect_text(word);
        }
    }
    session.expect("its prompt", |screen| cursor_line(screen).ends_with(prompt));
    session.line("exit");
    session.expect_exit();
}

#[test]
fn a_history_of_bash_is_imported_once() {
    let home = tempfile::TempDir::new().expect("a home");
    let rc = (".bashrc", "PS1='BASH> '\nHISTTIMEFORMAT='%F '\nshopt -s cmdhist lithist\n");
    write_history("bash", home.path(), rc, "BASH>", &["echo one-$((1+1))", "echo 'naïve 漢字'"]);
    let output = import(home.path(), &["bash"]);
    assert!(output.status.success(), "{output:?}");
    assert_eq!(lines(home.path()), ["echo one-$((1+1))", "echo 'naïve 漢字'", "exit"]);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(text.contains("bash: 3 lines added, 0 already known"), "{text}");
    let again = import(home.path(), &["bash"]);
    assert!(String::from_utf8_lossy(&again.stdout).contains("0 lines added, 3 already known"), "{again:?}");
    let session = Session::spawn(Spawn::reedclaw().home(home.path()));
    session.expect_prompt();
    session.press(Key::Ctrl('r'));
    session.type_text("one-");
    session.expect_text("echo one-$((1+1))");
}

#[test]
fn a_history_of_zsh_is_imported() {
    if !require(&["zsh"]) {
        return;
    }
    for options in ["setopt extended_history", ""] {
        let home = tempfile::TempDir::new().expect("a home");
        let rc = format!("PS1='ZSH> '\nHISTFILE=~/.zsh_history\nSAVEHIST=100\nHISTSIZE=100\n{options}\n");
        write_history("zsh", home.path(), (".zshrc", &rc), "ZSH>", &["echo one-$((1+1))", "echo 'naïve 漢字'"]);
        let output = import(home.path(), &["zsh"]);
        assert!(output.status.success(), "{output:?}");
        let lines = lines(home.path());
        assert_eq!(lines[..2], ["echo one-$((1+1))", "echo 'naïve 漢字'"], "{options}: {lines:?}");
    }
}

#[test]
fn a_history_of_fish_is_imported() {
    if !require(&["fish"]) {
        return;
    }
    let home = tempfile::TempDir::new().expect("a home");
    let rc = (".config/fish/config.fish", "function fish_prompt; echo 'FISH> '; end\nfunction fish_greeting; end\n");
    write_history("fish", home.path(), rc, "FISH>", &["echo one-(math 1+1)", "echo 'naïve 漢字'"]);
    let output = import(home.path(), &["fish"]);
    assert!(output.status.success(), "{output:?}");
    let lines = lines(home.path());
    assert!(lines.starts_with(&["echo one-(math 1+1)".into(), "echo 'naïve 漢字'".into()]), "{lines:?}");
}

#[test]
fn an_import_of_nothing_says_so() {
    let home = tempfile::TempDir::new().expect("a home");
    let output = import(home.path(), &[]);
    assert!(!output.status.success());
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(text.contains("no history of bash, zsh or fish was found"), "{text}");
    let output = import(home.path(), &["bash", "--file", "/nowhere/at/all"]);
    assert!(!output.status.success());
    assert!(String::from_utf8_lossy(&output.stderr).contains("/nowhere/at/all"), "{output:?}");
}
