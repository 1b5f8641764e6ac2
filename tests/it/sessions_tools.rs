//! Statements 31 and 33 of the contract of git sessions: tools in a repository run only in the form that its user has allowed, in
//! that repository, and nothing in a tree or a branch grants anything.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};

use crate::need::require;
use crate::sessions::{at_repository, calls, git};
use crate::sessions_cli::{home, output, reedclaw, write};

const SHOUT: &str = "return { api = 1, name = \"shout\", description = \"Writes a text in capitals.\",\n\
    schema = { type = \"object\", properties = { path = { type = \"string\" } }, required = { \"path\" } },\n\
    writes = { \"src/**\", \"*.txt\" },\n\
    execute = function(files, args)\n\
    \x20 files.write(args.path, string.upper(files.read(args.path)))\n\
    \x20 return { written = args.path }\n\
    end }\n";

fn asks(at: &Path, session: &str, question: &str) -> String {
    let (code, _, told) = reedclaw(at, &["agent", "--session", session, "-m", question]);
    assert_eq!(code, Some(0), "{told}");
    told
}

/// The newest call of a session: whether it succeeded, and its result.
fn last_call(at: &Path, id: &str) -> (bool, String) {
    let record: Value = serde_json::from_str(&output(at, &["session", "show", id, "--json"])).expect("JSON");
    let call = record["record"]["calls"].as_array().expect("calls").last().expect("a call").clone();
    (call["success"].as_bool().expect("a truth"), call["result"].as_str().expect("text").to_owned())
}

fn state(at: &Path, id: &str) -> String {
    let line = output(at, &["session", "tools", id, "--json"]);
    let tool: Value = serde_json::from_str(line.lines().next().expect("a tool")).expect("JSON");
    tool["state"].as_str().expect("a state").to_owned()
}

/// Statement 31.
#[test]
fn a_tool_of_the_repository_runs_only_in_the_form_that_was_allowed() {
    if !require(&["git"]) {
        return;
    }
    let home = home(
        &[
            write("make", "tools/shout.luau", SHOUT),
            calls("use", "shout", json!({"path": "a.txt"})),
            write("change", "tools/shout.luau", &SHOUT.replace("upper", "lower")),
        ],
        "",
    );
    let at = home.path();
    let told = asks(at, "new", "make a tool");
    let id = told.lines().find_map(|line| line.strip_prefix("[session] ")).expect("the id").to_owned();
    assert_eq!(state(at, &id), "unknown");
    asks(at, &id, "use it");
    let (done, result) = last_call(at, &id);
    assert!(!done && result.contains("shout"), "nobody has allowed it: {result}");
    assert_eq!(output(at, &["session", "cat", &id, "a.txt"]), "old\n");
    let (code, out, err) = reedclaw(at, &["session", "tools", &id, "approve", "shout"]);
    assert_eq!(code, Some(3), "without a yes: {err}");
    assert!(out.contains("+return { api = 1") && out.contains("it may change src/**, *.txt"), "{out}");
    assert_eq!(state(at, &id), "unknown");
    output(at, &["session", "tools", &id, "approve", "shout", "--yes"]);
    let commits = || git(&home.path().join("project"), &["rev-list", "--count", &format!("reedclaw/session/{id}")]);
    let before = commits();
    let (_, _, err) = reedclaw(at, &["session", "tools", &id, "approve", "shout", "--yes"]);
    assert!(err.contains("already") && commits() == before, "a yes that changes nothing is no commit: {err}");
    assert_eq!(state(at, &id), "allowed");
    let log = output(at, &["session", "log", &id, "--json"]);
    let last: Value = serde_json::from_str(log.lines().last().expect("a line")).expect("JSON");
    assert_eq!((last["act"].as_str(), last["subject"].as_str()), (Some("user"), Some("approve tool shout")));
    let told = asks(at, &id, "use it");
    assert!(told.contains("1 file"), "{told}");
    let (done, result) = last_call(at, &id);
    assert!(done && result.contains("written"), "{result}");
    assert_eq!(output(at, &["session", "cat", &id, "a.txt"]), "OLD\n");
    asks(at, &id, "change the tool");
    assert_eq!(state(at, &id), "changed");
    asks(at, &id, "use it");
    assert!(!last_call(at, &id).0, "it is another tool now");
    let (_, out, _) = reedclaw(at, &["session", "tools", &id, "approve", "shout"]);
    assert!(out.contains("-  files.write(args.path, string.upper") && out.contains("+  files.write"), "{out}");
    output(at, &["session", "rewind", &id, "3", "--yes"]);
    assert_eq!(state(at, &id), "allowed", "the old text needs no other question");
    asks(at, &id, "use it");
    assert!(last_call(at, &id).0);
    output(at, &["session", "tools", &id, "revoke", "shout"]);
    let (_, _, err) = reedclaw(at, &["session", "tools", &id, "revoke", "shout"]);
    assert!(err.contains("nothing of it was allowed"), "{err}");
    assert_eq!(state(at, &id), "unknown");
    asks(at, &id, "use it");
    assert!(!last_call(at, &id).0);
    output(at, &["session", "tools", &id, "reject", "shout"]);
    assert_eq!(state(at, &id), "refused");
    let project = at.join("project");
    assert_eq!(git(&project, &["status", "--porcelain"]), "", "the checkout stays as it is");
}

/// Statement 33.
#[test]
fn a_tool_that_was_allowed_in_one_repository_is_unknown_in_another_and_on_a_strangers_branch() {
    if !require(&["git"]) {
        return;
    }
    let home = home(&[], "");
    let (at, project) = (home.path(), home.path().join("project"));
    fs::create_dir_all(project.join("tools")).expect("a directory");
    fs::write(project.join("tools/shout.luau"), SHOUT).expect("a file");
    git(&project, &["add", "-A"]);
    git(&project, &["commit", "-q", "-m", "a tool"]);
    let id = output(at, &["session", "start"]).trim().to_owned();
    output(at, &["session", "tools", &id, "approve", "shout", "--yes"]);
    assert_eq!(state(at, &id), "allowed");
    // Another person's clone contains the log of decisions, and a tool that claims to be allowed there.
    let stranger = at.join("stranger");
    git(at, &["clone", "-q", "-b", &format!("reedclaw/session/{id}"), "project", "stranger"]);
    let there = |arguments: &[&str]| {
        let place = stranger.display().to_string();
        output(at, &[&["session"][..], arguments, &["--workspace", &place]].concat())
    };
    let other = there(&["start"]).trim().to_owned();
    assert!(there(&["tools", &other]).contains("not allowed yet"));
    fs::write(stranger.join("tools/shout.luau"), SHOUT.replace("upper", "reverse")).expect("a file");
    let log = fs::read_to_string(stranger.join(".reedclaw/tools.json")).expect("the log");
    fs::write(stranger.join(".reedclaw/tools.json"), log.replace("approve", "approve it")).expect("a file");
    git(&stranger, &["add", "-A"]);
    git(&stranger, &["commit", "-q", "-m", "evil"]);
    git(&project, &["fetch", "-q", &stranger.display().to_string(), "HEAD:refs/heads/theirs"]);
    let foreign = output(at, &["session", "start", "--from", "theirs"]).trim().to_owned();
    assert_eq!(state(at, &foreign), "changed");
}

#[test]
fn a_new_tool_is_shown_after_the_turn_and_asked_about() {
    if !require(&["git"]) {
        return;
    }
    let session =
        at_repository(&[write("make", "tools/shout.luau", SHOUT), calls("use", "shout", json!({"path": "a.txt"}))]);
    session.run(":session start");
    session.expect_text("begins at");
    session.line("?make a tool");
    session.expect_text("the repository has a tool that you haven't allowed: shout");
    session.expect_text("it may change src/**, *.txt");
    session.expect_text("yes [y]");
    session.type_text("y");
    session.expect_text("the model has it from the next turn on");
    session.expect_prompt();
    session.run("clear");
    session.run("?use it");
    session.expect_text("turn 2 · 1 file");
    session.run("clear");
    session.run(":session cat a.txt");
    session.expect_line("OLD");
}

const SHOUT_TESTS: &str = r#"return {
  writes_capitals = function(files, call)
    files.write("src/a.txt", "low")
    assert(call({ path = "src/a.txt" }).written == "src/a.txt")
    assert(files.read("src/a.txt") == "LOW")
  end,
  begins_without_files = function(files, call)
    assert(not files.exists("src/a.txt") and #files.list() == 0)
    local done, why = pcall(call, { path = "src/none.txt" })
    assert(not done and string.find(tostring(why), "no such file"))
    assert(not pcall(call, {}), "the schema counts")
  end,
  fails = function(files, call)
    files.write("b.md", "low")
    call({ path = "b.md" })
  end,
}
"#;

#[test]
fn tests_of_a_tool_run_in_memory_before_anybody_allows_it() {
    if !require(&["git"]) {
        return;
    }
    let home = home(
        &[
            write("make", "tools/shout.luau", SHOUT),
            write("test", "tools/shout.test.luau", SHOUT_TESTS),
            write("mend", "tools/shout.test.luau", &SHOUT_TESTS.replace("b.md", "b.txt")),
        ],
        "",
    );
    let at = home.path();
    let told = asks(at, "new", "make a tool");
    let id = told.lines().find_map(|line| line.strip_prefix("[session] ")).expect("the id").to_owned();
    let test = |more: &[&str]| reedclaw(at, &[&["session", "tools", &id, "test", "shout"], more].concat());
    let (code, _, err) = test(&[]);
    assert_eq!(code, Some(2), "{err}");
    assert!(err.contains("tools/shout.test.luau: there is no such file"), "{err}");
    asks(at, &id, "test it");
    let (code, out, err) = test(&[]);
    assert_eq!(code, Some(1), "{err}");
    let (good, bad) = out.split_once("FAILED  ").expect("one failed");
    assert_eq!(good, "ok      begins_without_files\n", "{out}");
    assert!(bad.starts_with("fails: line 15: "), "{out}");
    assert!(bad.contains("b.md isn't among the paths of `writes`\nok      writes_capitals\n"), "{out}");
    let (code, out, _) = test(&["--json"]);
    let lines: Vec<Value> = out.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    let why: Vec<(&str, bool)> =
        lines.iter().map(|it| (it["name"].as_str().expect("a name"), it["why"].is_null())).collect();
    assert_eq!(
        (code, why),
        (Some(1), vec![("begins_without_files", true), ("fails", false), ("writes_capitals", true)])
    );
    asks(at, &id, "mend it");
    assert_eq!(test(&[]).0, Some(0));
    assert_eq!(state(at, &id), "unknown", "nobody has allowed it");
    assert_eq!(output(at, &["session", "cat", &id, "a.txt"]), "old\n");
    assert!(!output(at, &["session", "files", &id]).contains("src"), "the files of a test are gone");
}
