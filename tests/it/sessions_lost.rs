//! Git sessions after a loss: a process that was killed in the middle of a turn, and a machine whose database is gone. Git has
//! everything that was committed, and no request is sent twice.

use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::Stdio;

use serde_json::{Value, json};

use crate::need::require;
use crate::pty::{Session, Spawn};
use crate::server::{Server, Step, answer, end, head, piece, tool_call};
use crate::sessions::git;
use crate::sessions_cli::{home, output, reedclaw};
use crate::sessions_contract::{Running, asks, begun, command, home_with, in_home, repository};
use crate::wait::wait_until;

/// Asks "go on" in a session, and kills the process when the server has received the second request, after a call that wrote
/// `path`.
fn cut_off(server: &Server, home: &Path, session: &str, path: &str, gate: usize) {
    let requests = server.requests();
    server.reply(tool_call("file_write", &json!({"path": path, "content": "new\n"}).to_string()));
    server.reply(vec![head(), piece("so far"), Step::Gate(gate), end()]);
    let mut asked = command(home, &["agent", "--session", session, "-m", "go on"]);
    let mut asked = Running(asked.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("it runs"));
    server.request(requests + 2);
    asked.0.kill().expect("killed");
    assert_eq!(asked.0.wait().expect("it ends").signal(), Some(9));
}

fn record(home: &Path, id: &str, turn: &str) -> Value {
    let shown: Value = serde_json::from_str(&output(home, &["session", "show", id, turn, "--json"])).expect("JSON");
    shown["record"].clone()
}

/// Two sessions were asked the same question, and both processes were killed. Whichever command commits such a turn, the commit
/// has the calls of its own conversation, and the model isn't asked again (statement 19).
#[test]
fn a_killed_turn_becomes_a_commit_with_its_own_calls_by_any_command_and_nothing_is_asked_twice() {
    if !require(&["git"]) {
        return;
    }
    let (server, (_top, home)) = (Server::start(), in_home());
    home_with(&server, &home, "");
    repository(&home.join("project"), &[("a.txt", "old\n")]);
    let sessions: Vec<String> =
        ["one", "two"].into_iter().map(|title| output(&home, &["session", "start", title]).trim().to_owned()).collect();
    for (gate, id) in sessions.iter().enumerate() {
        cut_off(&server, &home, id, &format!("{gate}.txt"), gate + 1);
    }
    let asked = server.requests();
    assert!(output(&home, &["session", "list"]).matches("a turn was cut off").count() == 2);
    for (number, (id, words)) in sessions.iter().zip([["message", "-m"], ["amend", "-m"]]).enumerate() {
        let _ = reedclaw(&home, &["session", words[0], id, words[1], "other words"]);
        let record = record(&home, id, "1");
        assert_eq!((&record["question"], &record["state"]), (&json!("go on"), &json!("cut")), "{record}");
        let calls = record["calls"].as_array().expect("calls");
        let arguments = calls[0]["arguments"].as_str().expect("text");
        assert!(calls.len() == 1 && arguments.contains(&format!("{number}.txt")), "{record}");
        assert_eq!(output(&home, &["session", "cat", id, &format!("{number}.txt")]), "new\n");
        assert!(!output(&home, &["session", "files", id]).contains(&format!("{}.txt", 1 - number)));
    }
    assert_eq!(output(&home, &["session", "doctor"]), "", "nothing waits for a repair");
    assert_eq!(server.requests(), asked, "nothing was sent again");
}

/// The database is an index: without it, sessions are listed, shown and continued as before, and `doctor --repair` restores their
/// conversations in the history.
#[test]
fn sessions_are_whole_without_the_database_and_their_conversations_come_back_into_it() {
    if !require(&["git"]) {
        return;
    }
    let (server, (_top, home)) = (Server::start(), in_home());
    home_with(&server, &home, "");
    let project = home.join("project");
    repository(&project, &[("a.txt", "lemons\n")]);
    server.reply(tool_call("file_write", &json!({"path": "b.txt", "content": "limes\n"}).to_string()));
    server.reply(answer("oranges"));
    let id = begun(&asks(&home, "new", "write grapefruits"));
    server.reply(answer("pomelos"));
    let other = begun(&asks(&home, "new", "name mandarins"));
    let looks: [&[&str]; 6] = [
        &["session", "list", "--json"],
        &["session", "log", &id],
        &["session", "show", &id],
        &["session", "show", &id, "1", "--json"],
        &["session", "diff", &id],
        &["session", "cat", &id, "b.txt"],
    ];
    let before = looks.map(|look| output(&home, look));
    let found = |word: &str| reedclaw(&home, &["memory", "search", word]).1.contains(word);
    assert!(found("mandarins"));
    let database = home.join(".local/share/reedclaw");
    fs::remove_dir_all(&database).expect("removed");
    assert_eq!(looks.map(|look| output(&home, look)), before);
    // A question continues the conversation that git has.
    server.reply(answer("and more"));
    asks(&home, &id, "and now?");
    let request = server.request(server.requests()).raw;
    for text in ["write grapefruits", "limes", "oranges", "and now?"] {
        assert!(request.contains(text), "{text}: {request}");
    }
    fs::remove_dir_all(&database).expect("removed");
    assert!(!found("mandarins"));
    for is_first in [true, false] {
        let (code, _, told) = reedclaw(&home, &["session", "doctor", "--repair"]);
        let restored = told.matches("is in the history of this machine again").count();
        assert_eq!((code, restored), (Some(0), if is_first { 2 } else { 0 }), "{told}");
    }
    assert!(found("mandarins") && found("grapefruits"));
    let shell = Session::spawn(Spawn::reedclaw().size(40, 110).home(&home).cwd(&project));
    shell.expect_prompt();
    shell.run(":resume mandarins");
    shell.expect_text("pomelos");
    shell.run(&format!(":session open {other}"));
    shell.expect_text("name mandarins");
}

/// Returns whether a command has written this file on its copy, or in the directory in which it works. At first the file is empty
/// for a moment.
fn has_written(home: &Path, name: &str) -> bool {
    let below = |at: &Path| fs::read_dir(at).into_iter().flatten().flatten().map(|it| it.path()).collect::<Vec<_>>();
    let sessions = below(&home.join(".local/state/reedclaw/sessions")).into_iter().flat_map(|it| below(&it));
    sessions.into_iter().any(|session| {
        let copies = below(&session.join("bench.copies")).into_iter().map(|it| it.join("upper"));
        copies.chain([session.join("bench.whole")]).any(|it| fs::read(it.join(name)).is_ok_and(|it| !it.is_empty()))
    })
}

/// A command that runs when the process is killed may have changed files. These are in the session afterwards, except for those
/// that need a question, and the record has the command (the row "while a command ran" of the contract).
#[test]
fn what_a_command_had_changed_when_its_process_was_killed_is_in_the_commit_of_its_turn() {
    if !require(&["git", "bwrap"]) {
        return;
    }
    for tier in ["overlay", "bubblewrap", "landlock"] {
        let line = "echo new >made.txt; rm a.txt; mkdir -p deep/er; echo d >deep/er/d.txt; echo x >.envrc; echo b >>b.txt; \
                    echo 1 >ready; sleep 600";
        let rounds = json!([
            [{"tool_call": {"name": "file_write", "arguments": {"path": "first.txt", "content": "first\n"}}}],
            [{"tool_call": {"name": "shell", "arguments": {"command": line}}}],
            [{"text": "done"}],
        ]);
        let own = format!("security = {{autonomy = \"full\", tier = \"{tier}\"}},");
        let home = home(&[json!({"when": "go on", "rounds": rounds})], &own);
        let (at, project) = (home.path(), home.path().join("project"));
        fs::write(project.join("b.txt"), "b\n").expect("a file");
        git(&project, &["add", "b.txt"]);
        git(&project, &["commit", "-q", "-m", "b"]);
        let id = output(at, &["session", "start"]).trim().to_owned();
        let mut asked = command(at, &["agent", "--session", &id, "-m", "go on"]);
        let mut asked = Running(asked.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("it runs"));
        wait_until(|| has_written(at, "ready"));
        asked.0.kill().expect("killed");
        asked.0.wait().expect("its end");
        let (_, _, told) = reedclaw(at, &["session", "message", &id, "-m", "other words"]);
        assert!(told.contains("was cut off") && told.contains("made.txt") && told.contains(".envrc"), "{tier}: {told}");
        let cat = |name: &str| reedclaw(at, &["session", "cat", &id, name]);
        for (name, text) in [
            ("first.txt", "first\n"),
            ("made.txt", "new\n"),
            ("deep/er/d.txt", "d\n"),
            ("b.txt", "b\nb\n"),
            ("ready", "1\n"),
        ] {
            assert_eq!(cat(name).1, text, "{tier}: {name}");
        }
        for name in ["a.txt", ".envrc"] {
            assert_ne!(cat(name).0, Some(0), "{tier}: {name}");
        }
        let record = record(at, &id, "1");
        assert_eq!(record["state"], json!("cut"), "{tier}: {record}");
        let calls = record["calls"].as_array().expect("calls");
        let last = calls.last().expect("a call").to_string();
        assert!(
            calls.len() == 2 && last.contains("sleep 600") && last.contains("a crash cut it off"),
            "{tier}: {record}"
        );
        assert_eq!(output(at, &["session", "doctor"]), "", "{tier}: nothing waits for a repair");
        // The command's changes count once, and the next command sees them.
        let (_, printed, told) = reedclaw(at, &["session", "run", &id, "--yes", "ls; cat b.txt"]);
        assert!(!told.contains("was cut off") && printed.contains("made.txt") && !printed.contains("a.txt"), "{told}");
        assert!(
            printed.ends_with("b\nb\n") && git(&project, &["status", "--porcelain"]).is_empty(),
            "{tier}: {printed}"
        );
    }
}
