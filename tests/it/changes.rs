//! A model's proposal at the terminal, from its difference to the files: accepted, rejected, chosen by hunk, changed in the
//! editor, scrolled, checked; and attempts to deceive.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::home::TestHome;
use crate::pty::{Key, Session, Spawn};

const KEYS: &str = "accept [y]";

/// A home with a project `work`, and a model that plays these answers; `rest` are lines of the config.
pub fn home(answers: &[Value], rest: &str) -> TempDir {
    TestHome::for_commands().plays_alone(answers, rest).directory("work/.git").done()
}

pub fn rounds(when: &str, calls: &[(&str, Value)], text: &str) -> Value {
    let mut rounds: Vec<Value> =
        calls.iter().map(|(tool, arguments)| json!([{"tool_call": {"name": tool, "arguments": arguments}}])).collect();
    rounds.push(json!([{"text": text}]));
    json!({"when": when, "rounds": rounds})
}

pub fn work(home: &Path, name: &str) -> PathBuf {
    home.join("work").join(name)
}

pub fn read(home: &Path, name: &str) -> String {
    fs::read_to_string(work(home, name)).unwrap_or_else(|_| "(no file)".to_owned())
}

fn spawn(home: &Path) -> Spawn {
    Spawn::reedclaw().home(home).cwd(&home.join("work")).size(40, 100)
}

fn session(spawn: Spawn) -> Session {
    let session = Session::spawn(spawn);
    session.expect_prompt();
    session
}

/// A session that shows the difference of an edit and asks about it.
fn asked(home: &Path) -> Session {
    let session = session(spawn(home));
    session.send(b"?please do\r");
    session.expect_text(KEYS);
    session
}

pub fn numbered(to: usize) -> String {
    (1..=to).map(|line| format!("line {line}\n")).collect()
}

pub fn batch() -> Value {
    let replace = |path: &str, old: &str, new: &str| json!({"toolName": "edit_replace_exact", "args": {"path": path, "old": old, "new": new}});
    json!({"edits": [
        replace("a.txt", "line 5\n", "line five\n"),
        replace("a.txt", "line 25\n", "line twenty-five\n"),
        replace("b.txt", "old", "new"),
    ]})
}

pub fn batch_home() -> TempDir {
    let home = home(&[rounds("please", &[("edit_apply_batch", batch())], "that was it")], "");
    fs::write(work(home.path(), "a.txt"), numbered(30)).expect("a file");
    fs::write(work(home.path(), "b.txt"), "old\n").expect("a file");
    home
}

#[test]
fn a_proposal_is_shown_by_file_and_accepted_as_a_whole() {
    let home = batch_home();
    let session = session(spawn(home.path()));
    session.send(b"?please do\r");
    session.expect_text("Preparing edits in `a.txt`, `b.txt`");
    session.expect_text(KEYS);
    session.expect("the difference", |screen| {
        let text = screen.contents();
        ["2 files, +3 −3", "a.txt  +2 −2", "  5     - line 5", "      5 + line five", "… 13 lines", "b.txt  +1 −1"]
            .iter()
            .all(|part| text.contains(part))
    });
    session.send(b"y");
    session.expect_text("that was it");
    assert_eq!(
        read(home.path(), "a.txt"),
        numbered(30).replace("line 5\n", "line five\n").replace("25", "twenty-five")
    );
    assert_eq!(read(home.path(), "b.txt"), "new\n");
    session.expect("what was decided is left, and no keys", |screen| {
        let text = screen.contents();
        text.contains("accepted") && text.contains("2 files, +3 −3") && !text.contains(KEYS)
    });
}

#[test]
fn whatever_is_not_plainly_yes_rejects() {
    for keys in [&b"\r"[..], b"\x1b", b"n", b"\x04"] {
        let home = batch_home();
        let session = asked(home.path());
        session.send(keys);
        session.expect_text("that was it");
        session.expect_text("denied: the user said no");
        assert_eq!((read(home.path(), "a.txt"), read(home.path(), "b.txt")), (numbered(30), "old\n".to_owned()));
    }
}

#[test]
fn a_rejection_with_words_reaches_the_model() {
    let home = batch_home();
    let session = asked(home.path());
    session.send(b"w");
    session.expect_text("tell the model:");
    session.send(b"leave b alone\r");
    session.expect_text("the user said no: leave b alone");
    session.expect_text("that was it");
    assert_eq!(read(home.path(), "b.txt"), "old\n");
}

#[test]
fn keys_typed_ahead_pasted_or_in_a_burst_accept_nothing() {
    let rounds = json!([[{"delay_ms": 400}, {"tool_call": {"name": "edit_apply_batch", "arguments": batch()}}],
        [{"text": "over"}]]);
    let home = batch_home();
    let script = home.path().join("answers.jsonl");
    fs::write(script, json!({"when": "please", "rounds": rounds}).to_string()).expect("a script");
    let session = session(spawn(home.path()));
    session.send(b"?please do\ryyyhy");
    session.expect_text(KEYS);
    session.send(b"yy");
    session.send(b"hyyy");
    session.send(b"\x1b[200~y\x1b[201~");
    session.press(Key::Ctrl('c'));
    session.expect_text("Stopped.");
    assert_eq!((read(home.path(), "a.txt"), read(home.path(), "b.txt")), (numbered(30), "old\n".to_owned()));
}

/// Waits until a question about a hunk appears and keys count.
#[track_caller]
pub fn expect_hunk(session: &Session, head: &str) {
    session.expect(head, |screen| screen.contents().contains(head) && screen.contents().contains("take [y]"));
}

#[test]
fn hunks_are_accepted_one_by_one_and_the_model_learns_which() {
    let home = batch_home();
    let session = asked(home.path());
    session.send(b"h");
    expect_hunk(&session, "hunk 1 of 3");
    session.send(b"n");
    expect_hunk(&session, "hunk 2 of 3");
    session.expect_text("line twenty-five");
    session.send(b"y");
    expect_hunk(&session, "hunk 3 of 3");
    session.send(b"y");
    session.expect_text("2 of 3 hunks accepted");
    session.expect_text("that was it");
    assert_eq!(read(home.path(), "a.txt"), numbered(30).replace("25", "twenty-five"));
    assert_eq!(read(home.path(), "b.txt"), "new\n");
    session.expect_prompt();
    session.run("clear");
    session.run(":show 1");
    session.expect("what the model was told", |screen| {
        let text = screen.contents();
        text.contains("The user took 2 of 3 hunks")
            && text.contains("a.txt: made: 2; not made: 1")
            && text.contains("-line five")
    });
}

#[test]
fn hunks_do_not_undo_later_changes_of_others() {
    let home = batch_home();
    let session = asked(home.path());
    session.send(b"h");
    expect_hunk(&session, "hunk 1 of 3");
    session.send(b"n");
    expect_hunk(&session, "hunk 2 of 3");
    fs::write(work(home.path(), "a.txt"), "somebody else's\n").expect("another writer");
    session.send(b"a");
    session.expect_text("has changed meanwhile");
    session.expect_text("that was it");
    assert_eq!((read(home.path(), "a.txt"), read(home.path(), "b.txt")), ("somebody else's\n".into(), "old\n".into()));
}

/// Between the question and the choice the path was changed to lead elsewhere: the same bytes, but the part is judged riskier
/// than the whole was, so a key pressed for the whole doesn't approve the part.
#[test]
fn a_part_that_is_riskier_than_the_whole_was_is_asked_about_anew() {
    let replace = |old: &str, new: &str| json!({"toolName": "edit_replace_exact", "args": {"path": "sub/run", "old": old, "new": new}});
    let edits = json!({"edits": [replace("line 5\n", "line five\n"), replace("line 25\n", "line twenty-five\n")]});
    let home = home(&[rounds("please", &[("edit_apply_batch", edits)], "that was it")], "");
    let (sub, hooks) = (work(home.path(), "sub"), work(home.path(), ".git/hooks"));
    for directory in [&sub, &hooks] {
        fs::create_dir_all(directory).expect("a directory");
        fs::write(directory.join("run"), numbered(30)).expect("a file");
    }
    let session = session(spawn(home.path()));
    session.send(b"?please do\r");
    session.expect_text("(risk: medium)");
    session.expect_text(KEYS);
    session.send(b"h");
    expect_hunk(&session, "hunk 1 of 2");
    session.send(b"n");
    expect_hunk(&session, "hunk 2 of 2");
    fs::rename(&sub, work(home.path(), "aside")).expect("another name");
    std::os::unix::fs::symlink(".git/hooks", &sub).expect("a link");
    session.send(b"y");
    session.expect_text("(risk: high)");
    session.expect_text("(protected)");
    session.expect_text(KEYS);
    assert_eq!(read(home.path(), ".git/hooks/run"), numbered(30), "nothing is written without a new yes");
    session.send(b"n");
    session.expect_text("that was it");
    assert_eq!(read(home.path(), ".git/hooks/run"), numbered(30));
    assert_eq!(read(home.path(), "aside/run"), numbered(30));
}

#[test]
fn hunks_can_be_left_altogether() {
    let home = batch_home();
    let session = asked(home.path());
    session.send(b"h");
    expect_hunk(&session, "hunk 1 of 3");
    session.send(b"y");
    expect_hunk(&session, "hunk 2 of 3");
    session.send(b"\x1b");
    session.expect_text("denied: the user said no");
    assert_eq!((read(home.path(), "a.txt"), read(home.path(), "b.txt")), (numbered(30), "old\n".to_owned()));
}

#[test]
fn a_proposal_is_changed_in_the_editor_and_asked_about_again() {
    let edit = json!({"path": "a.txt", "old": "line 5\n", "new": "line five\n"});
    let home = home(&[rounds("please", &[("edit_replace_exact", edit)], "that was it")], "");
    fs::write(work(home.path(), "a.txt"), numbered(9)).expect("a file");
    let editor = home.path().join("editor");
    let script = "#!/bin/sh\nls -l \"$1\" | cut -c1-10 >~/mode\nls -ld \"${1%/*}\" | cut -c1-10 >>~/mode\necho \"$1\" >~/path\n\
        sed -i 's/line five/line FIVE/' \"$1\"\n";
    fs::write(&editor, script).expect("an editor");
    fs::set_permissions(&editor, fs::Permissions::from_mode(0o755)).expect("permissions");
    let session = session(spawn(home.path()).env("EDITOR", &editor.display().to_string()));
    session.send(b"?please do\r");
    session.expect_text("+ line five");
    session.expect_text(KEYS);
    session.send(b"e");
    session.expect_text("you changed the proposal");
    session.expect_text("+ line FIVE");
    session.expect_text(KEYS);
    assert_eq!(read(home.path(), "a.txt"), numbered(9), "it is asked about first");
    session.send(b"y");
    session.expect_text("that was it");
    assert_eq!(read(home.path(), "a.txt"), numbered(9).replace("line 5", "line FIVE"));
    assert_eq!(fs::read_to_string(home.path().join("mode")).expect("modes"), "-rw-------\ndrwx------\n");
    let copy = fs::read_to_string(home.path().join("path")).expect("a path");
    assert!(copy.trim_end().ends_with("/a.txt") && !Path::new(copy.trim_end()).exists(), "{copy}");
    session.expect_prompt();
    session.run("clear");
    session.run(":show 1");
    session.expect("what the model was told", |screen| {
        let text = screen.contents();
        text.contains("The user changed your proposal") && text.contains("-line five") && text.contains("+line FIVE")
    });
}

#[test]
fn an_editor_that_fails_or_changes_nothing_leaves_the_question_open() {
    for (editor, said) in [("false", "ended with status 1"), ("true", "nothing was changed in the editor")] {
        let edit = json!({"path": "a.txt", "old": "line 5\n", "new": "line five\n"});
        let home = home(&[rounds("please", &[("edit_replace_exact", edit)], "that was it")], "");
        fs::write(work(home.path(), "a.txt"), numbered(9)).expect("a file");
        let session = session(spawn(home.path()).env("EDITOR", editor));
        session.send(b"?please do\r");
        session.expect_text(KEYS);
        session.send(b"e");
        session.expect_text(said);
        session.expect("the question again", |screen| {
            screen.contents().rsplit(said).next().is_some_and(|text| text.contains(KEYS))
        });
        session.send(b"\r");
        session.expect_text("denied: the user said no");
        assert_eq!(read(home.path(), "a.txt"), numbered(9));
    }
}

#[test]
fn a_narrow_terminal_without_colours_has_one_number_and_words() {
    let home = batch_home();
    let session = session(spawn(home.path()).size(30, 40).env("NO_COLOR", "1"));
    session.send(b"?please do\r");
    session.expect_text("end [G]");
    let from = session.raw().len();
    session.send(b"g");
    session.expect("one number", |screen| screen.contents().contains("\n  5 - line 5\n  5 + line five\n"));
    session.send(b"G");
    session.expect_text(KEYS);
    session.expect("no row is cut", |screen| screen.contents().contains("b.txt  +1 −1"));
    let drawn = String::from_utf8_lossy(&session.raw()[from..]).into_owned();
    assert!(!drawn.contains("\u{1b}[3") && !drawn.contains("\u{1b}[7"), "{drawn:?}");
    session.send(b"y");
    session.expect_text("that was it");
    assert_eq!(read(home.path(), "b.txt"), "new\n");
}

#[test]
fn a_long_difference_is_scrolled_in_place_and_leaves_little_behind() {
    let write = json!({"path": "long.txt", "content": numbered(200)});
    let home = home(&[rounds("please", &[("file_write", write)], "that was it")], "");
    let session = session(spawn(home.path()).size(24, 80));
    session.run("echo above-it");
    session.send(b"?please do\r");
    session.expect_text("lines 1-");
    session.expect_text("end [G]");
    // No key accepts before the end was seen.
    session.send(b"y");
    session.expect_text("first go to the end");
    session.send(b"jjj");
    session.expect_text("lines 4-");
    session.send(b"\x1b[6~");
    session.expect_text("+ line 30");
    session.send(b"k");
    session.send(b"\x1b[H");
    session.expect_text("lines 1-");
    session.resize(20, 60);
    session.send(b" ");
    session.expect_text("lines 20-35");
    session.send(b"G");
    session.expect_text("+ line 200");
    session.expect_text(KEYS);
    assert_eq!(read(home.path(), "long.txt"), "(no file)");
    session.send(b"y");
    session.expect_text("that was it");
    assert_eq!(read(home.path(), "long.txt"), numbered(200));
    session.expect("what was decided, in short", |screen| {
        let text = screen.contents();
        text.contains("long.txt  +200 −0  new file") && text.contains("accepted") && !text.contains("+ line 199")
    });
}

/// Wrapped rows are counted, so that the previous drawing is erased completely.
#[test]
fn a_question_in_a_narrow_window_is_drawn_over_itself() {
    let command = json!({"command": "touch new-file; true and a text that needs several rows of this window"});
    let home = home(&[rounds("please", &[("shell", command)], "that was it")], "");
    let session = session(spawn(home.path()).size(12, 32));
    session.send(b"?please do\r");
    session.expect_text("end [G]");
    session.send(b"y");
    session.expect_text("first go");
    assert_eq!(session.screen_text().matches("The command ran").count(), 1, "{}", session.screen_text());
}

#[test]
fn the_whole_file_can_be_looked_at() {
    let home = batch_home();
    let session = asked(home.path());
    session.send(b"f");
    session.expect_text("back [q, Enter]");
    session.expect("lines far from any change", |screen| screen.contents().contains(" 15  15   line 15"));
    session.send(b"\r");
    session.expect_text(KEYS);
    session.send(b"\r");
    session.expect_text("denied: the user said no");
}

#[test]
fn a_deceptive_difference_is_shown_with_its_hidden_characters() {
    let evil = "if is\u{200b}Admin { // \u{202e} }\u{1b}[2J\u{1b}]0;owned\u{7} p\u{430}ypal\r\nnext\n";
    let write = json!({"path": "evil.rs", "content": evil});
    let home = home(&[rounds("please", &[("file_write", write)], "that was it")], "");
    let session = asked(home.path());
    session.expect("escapes", |screen| {
        let text = screen.contents().replace('\n', "");
        ["is\\u{200b}Admin", "\\u{202e}", "\\x1b[2J", "\\x1b]0;owned\\x07", "p\\u{430}ypal", "\\r"]
            .iter()
            .all(|sign| text.contains(sign))
    });
    assert!(!session.raw().windows(6).any(|bytes| bytes == b"\x1b]0;ow"));
    session.send(b"\r");
    session.expect_text("that was it");
}

/// A check that fails until a file contains "good"; it records that it ran.
fn with_check(answers: &[Value]) -> TempDir {
    let home =
        home(answers, "project = {check = 'echo ran >> ran; grep -q good a.txt || { echo it is bad; exit 3; }'}");
    fs::write(work(home.path(), "a.txt"), "old\n").expect("a file");
    home
}

#[test]
fn after_accepted_edits_the_projects_check_runs_and_its_failure_is_mended() {
    let replace = |old: &str, new: &str| ("edit_replace_exact", json!({"path": "a.txt", "old": old, "new": new}));
    let home = with_check(&[rounds("please", &[replace("old", "bad"), replace("bad", "good")], "that was it")]);
    let session = session(spawn(home.path()).size(40, 140));
    session.send(b"?please do\r");
    session.expect_text("- old");
    session.expect_text(KEYS);
    session.send(b"y");
    session.expect_text("failed: it ended with status 3");
    session.expect_text("- bad");
    session.expect_text(KEYS);
    session.send(b"y");
    session.expect_text("passed, ");
    session.expect_text("that was it");
    // It ran on a copy: the file that it wrote is dropped.
    assert_eq!((read(home.path(), "a.txt"), read(home.path(), "ran")), ("good\n".into(), "(no file)".into()));
    let receipts = fs::read_to_string(home.path().join(".local/state/reedclaw/receipts.jsonl")).expect("receipts");
    let approvers = receipts.matches("\"approver\":\"config\"").count();
    assert!(approvers >= 2 && receipts.contains("project_check"), "{receipts}");
}

#[test]
fn the_check_does_not_run_without_an_edit_or_on_a_models_wish() {
    let look = ("file_list", json!({}));
    let call = ("project_check", json!({}));
    let edit = ("edit_replace_exact", json!({"path": "a.txt", "old": "old", "new": "good"}));
    let home = with_check(&[rounds("look", &[look, call], "I looked"), rounds("please", &[edit], "that was it")]);
    let session = session(spawn(home.path()));
    session.send(b"?look around\r");
    session.expect_text("there is no tool called project_check");
    session.expect_text("I looked");
    session.send(b"?please do\r");
    session.expect_text(KEYS);
    session.send(b"n");
    session.expect_text("that was it");
    assert_eq!(read(home.path(), "ran"), "(no file)");
}

#[test]
fn ctrl_c_stops_the_check() {
    let edit = ("edit_replace_exact", json!({"path": "a.txt", "old": "old", "new": "new"}));
    let home = home(&[rounds("please", &[edit], "that was it")], "project = {check = 'sleep 1000'}");
    fs::write(work(home.path(), "a.txt"), "old\n").expect("a file");
    let session = asked(home.path());
    session.send(b"y");
    session.expect_outside("the check runs", || session.descendants().into_iter().find(|it| it.name == "sleep"));
    session.press(Key::Ctrl('c'));
    session.expect_text("Stopped.");
    session.expect_prompt();
    assert_eq!(read(home.path(), "a.txt"), "new\n");
}

#[test]
fn a_projects_file_can_not_have_a_check_run() {
    let home = batch_home();
    fs::write(work(home.path(), ".reedclaw.lua"), "return { project = { check = 'touch ran' } }\n").expect("a file");
    let session = Session::spawn(spawn(home.path()));
    session.expect_text("will be refused, a project can't have a command run after");
}

#[test]
fn uncommitted_changes_are_drawn_and_nothing_of_the_repository_runs() {
    let home = home(&[], "");
    let git = |words: &[&str]| {
        let mut command = std::process::Command::new("git");
        command.args(words).current_dir(home.path().join("work")).env_clear().env("PATH", crate::need::TEST_PATH);
        let done = command.env("HOME", home.path()).output().expect("git");
        assert!(done.status.success(), "{words:?} {done:?}");
    };
    fs::remove_dir(home.path().join("work/.git")).expect("the empty one");
    git(&["init", "-q"]);
    fs::write(work(home.path(), "a.rs"), "fn a() {}\nfn b() {}\n").expect("a file");
    fs::write(work(home.path(), "run.sh"), "echo\n").expect("a file");
    git(&["add", "."]);
    git(&["-c", "user.name=x", "-c", "user.email=x@y", "commit", "-qm", "first"]);
    let session = session(spawn(home.path()));
    session.run(":diff");
    session.expect_text("nothing differs from the last commit");
    fs::write(work(home.path(), "a.rs"), "fn a() {}\nfn c() {}\n").expect("a file");
    fs::write(work(home.path(), "new.txt"), "x\n").expect("a file");
    fs::set_permissions(work(home.path(), "run.sh"), fs::Permissions::from_mode(0o755)).expect("a mode");
    let ran = home.path().join("ran");
    git(&["config", "diff.external", &format!("touch {}", ran.display())]);
    session.run("clear");
    session.run(":diff");
    session.expect("the changes", |screen| {
        let text = screen.contents();
        [
            "2 files, +1 −1",
            "a.rs  +1 −1",
            "  2     - fn b() {}",
            "      2 + fn c() {}",
            "mode 100644, then 100755",
            "not in git: new.txt",
        ]
        .iter()
        .all(|part| text.contains(part))
    });
    assert!(!ran.exists());
    fs::write(work(home.path(), "a.rs"), numbered(100)).expect("a file");
    session.run("clear");
    session.send(b":diff\r");
    session.expect_text("leave [q, Enter]");
    session.send(b"G");
    session.expect_text("not in git: new.txt");
    session.send(b"q");
    session.expect_prompt();
}

#[test]
fn a_screen_reader_hears_the_difference() {
    let home = batch_home();
    let config = home.path().join(".config/reedclaw/config.lua");
    let text =
        fs::read_to_string(&config).expect("a config").replace("usage = false", "usage = false, accessible = true");
    fs::write(&config, text).expect("a config");
    let session = asked(home.path());
    session.expect("words", |screen| {
        let text = screen.contents();
        text.contains("2 files, 3 lines added, 3 removed")
            && text.contains("line 5 removed: line 5")
            && text.contains("line 5 added: line five")
    });
    session.send(b"y");
    session.expect_text("that was it");
    assert_eq!(read(home.path(), "b.txt"), "new\n");
}
