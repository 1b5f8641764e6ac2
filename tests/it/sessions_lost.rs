//! Sessions on git after a loss: a process that was killed in the middle of a turn, and a machine whose database is gone. Git has all
//! that was committed, and nothing is asked twice.

use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::Stdio;

use serde_json::{Value, json};

use crate::need::require;
use crate::pty::{Session, Spawn};
use crate::server::{Server, Step, answer, end, head, piece, tool_call};
use crate::sessions_cli::{output, reedclaw};
use crate::sessions_contract::{Running, asks, begun, command, home_with, in_home, repository};

/// Asks "go on" in a session, and kills the process when the server has the second request, after a call that wrote `path`.
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

/// Two sessions were asked the same, and both processes were killed. Whatever makes a commit of such a turn, it has the calls of its
/// own conversation, and the model isn't asked again (statement 19).
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

/// The database is an index: without it, sessions are listed, shown and gone on with as before, and `doctor --repair` brings their
/// conversations back into the history.
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
    // A question goes on with the conversation that git has.
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
