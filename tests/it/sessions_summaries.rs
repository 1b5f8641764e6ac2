//! Statement 34 of the contract of git sessions: summaries of files are made once for each content, and a question carries them.

use crate::need::require;
use crate::pty::{Session, Spawn};
use crate::server::{Server, answer, tool_call};
use crate::sessions::git;

use serde_json::json;

/// The requests for summaries that a server received.
fn asked(server: &Server) -> Vec<String> {
    let all = (1..=server.requests()).map(|number| server.request(number).content(-1));
    all.filter(|text| text.starts_with("File 1:")).collect()
}

fn at_repository(big: &Server, small: &Server, more: &str) -> Session {
    let config = format!(
        "return {{default_model = 'auto', console = {{usage = false}}, memory = {{auto = false}},\n\
         context = {{project = false}}, editor = {{autosuggest = false}}, sessions = {{message_ms = 0}}, {more}\n\
         models = {{ big = {{endpoint = '{}'}}, small = {{endpoint = '{}', max_output_tokens = 4000}},\n\
         auto = {{kind = 'router', rules = {{default = 'big', summary = 'small'}}}}}}}}\n",
        big.endpoint(),
        small.endpoint()
    );
    let spawn = Spawn::reedclaw().size(40, 110).file(".config/reedclaw/config.lua", &config);
    let spawn = ["a", "b", "c"].iter().fold(spawn, |spawn, name| spawn.file(&format!("project/{name}.txt"), name));
    let session = Session::spawn(spawn.file("project/picture", "\0").file("project/.env", "SECRET=1"));
    let project = session.home().join("project");
    git(&project, &["init", "-q", "-b", "main"]);
    git(&project, &["add", "-A"]);
    git(&project, &["commit", "-q", "-m", "first"]);
    session.expect_prompt();
    session.run("cd ~/project");
    session
}

#[test]
fn summaries_are_made_once_for_each_content_and_go_with_questions() {
    if !require(&["git"]) {
        return;
    }
    let (big, small) = (Server::start(), Server::start());
    // Titles are requested from this model, too: each answer fits both.
    for _ in 0..8 {
        small.reply(answer("1: about lemons\n2: about limes\n3: about plums"));
    }
    let session = at_repository(&big, &small, "");
    session.run(":session start");
    session.expect_text("begins at");
    session.run("?before");
    session.expect_text("turn 1 ·");
    assert_eq!(asked(&small).len(), 0, "nothing is sent before the person has agreed");
    session.line(":session summaries");
    session.expect_text("Send 4 files (about");
    session.expect_text("yes [y]");
    session.type_text("y");
    session.expect_text("4 files have a summary");
    session.expect_prompt();
    let first = asked(&small);
    assert_eq!(first.len(), 1, "{first:?}");
    assert!(first[0].contains("File 3: c.txt") && !first[0].contains("SECRET"), "{}", first[0]);
    session.run("?first");
    session.expect_text("turn 2 ·");
    let question = big.request(2).content(-1);
    assert!(question.contains("a.txt: about lemons") && question.contains("c.txt: about plums"), "{question}");
    assert!(question.contains("picture: no text"), "{question}");
    session.run("?again");
    session.expect_text("turn 3 ·");
    assert_eq!(big.request(3).content(-1), "again", "they are sent once");
    // Another session gets them without a request.
    session.run(":session start");
    session.run("?second");
    session.expect_text("turn 1 ·");
    assert!(big.request(4).content(-1).contains("b.txt: about limes"));
    assert_eq!(asked(&small).len(), 1);
    // One request makes the summaries for the files of a turn.
    let file =
        |name: &str| json!({"tool": "edit_create_file", "args": {"path": name, "content": name, "overwrite": true}});
    let edits = json!({"edits": [file("a.txt"), file("d.txt"), file("e.txt")]});
    big.reply(tool_call("edit_apply_batch", &edits.to_string()));
    big.reply(answer("changed"));
    session.run("?change");
    session.expect_text("turn 2 · 3 files");
    session.expect_outside("a request for three files", || (asked(&small).len() == 2).then_some(()));
    let second = &asked(&small)[1];
    assert!(second.contains("File 3: e.txt") && !second.contains("File 4"), "{second}");
    let project = session.home().join("project");
    let stored = || git(&project, &["ls-tree", "-r", "--name-only", "refs/reedclaw/summaries"]).lines().count();
    session.expect_outside("seven summaries", || (stored() == 7).then_some(()));
    session.run("?third");
    session.expect_text("turn 3 ·");
    let question = big.request(7).content(-1);
    assert!(question.contains("[summaries of changed files]") && question.contains("e.txt: about plums"), "{question}");
    assert!(!question.contains("b.txt"), "{question}");
    assert_eq!(git(&project, &["status", "--porcelain"]), "");
    session.run("clear");
    session.run(":session summaries drop");
    session.expect_text("no summaries any more");
    assert_eq!(git(&project, &["for-each-ref", "--format=%(refname)", "refs/reedclaw/summaries"]), "");
}

#[test]
fn names_of_files_replace_summaries_that_a_budget_forbids() {
    if !require(&["git"]) {
        return;
    }
    let (big, small) = (Server::start(), Server::start());
    let prices = "prices = { small = { input = 1000, output = 1000 }, big = { input = 0, output = 0 } },\n\
                  budget = { per_day = { usd = 0.001 } },";
    let session = at_repository(&big, &small, prices);
    session.run(":session start");
    session.expect_text("begins at");
    session.line(":session summaries");
    session.expect_text("yes [y]");
    session.type_text("y");
    session.expect_text("0 of 4 files have a summary");
    session.expect_text("could cost");
    assert_eq!(asked(&small).len(), 0);
    session.expect_prompt();
    session.run("?first");
    session.expect_text("turn 1 ·");
    let question = big.request(1).content(-1);
    assert!(question.contains("[summaries of the repository's files]\na.txt\nb.txt\nc.txt\npicture\n"), "{question}");
    assert!(!question.contains(".env"), "{question}");
}
