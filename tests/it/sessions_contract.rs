//! Statements of the contract of git sessions (`docs/decisions/sessions.md`) that only the whole program can show: with a model
//! server that stores each request, with commands in the sandbox, and with two concurrent processes.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::need::{TEST_PATH, require};
use crate::pty::program;
use crate::server::{Request, Server, Step, answer, end, head, piece, tool_call};
use crate::sessions::{calls, git};
use crate::sessions_cli::{Held, differing, held, home, output, reedclaw, with_two_turns, write};

/// The id of a session that a command has begun.
pub fn begun(told: &str) -> String {
    told.lines().find_map(|line| line.strip_prefix("[session] ")).expect("the id").to_owned()
}

/// Makes a home at `at` whose only model is `server`.
pub fn home_with(server: &Server, at: &Path, more: &str) {
    fs::create_dir_all(at.join(".config/reedclaw")).expect("a directory");
    let config = format!(
        "return {{ memory = {{auto = false}}, context = {{project = false}}, {more}\n\
         models = {{ tiny = {{ endpoint = {:?}, key_env = \"TINY_KEY\" }} }} }}",
        server.endpoint()
    );
    fs::write(at.join(".config/reedclaw/config.lua"), config).expect("a config");
}

/// Makes a repository of these files with one commit.
pub fn repository(at: &Path, files: &[(&str, &str)]) {
    for (path, text) in files {
        let path = at.join(path);
        fs::create_dir_all(path.parent().expect("a parent")).expect("a directory");
        fs::write(path, text).expect("a file");
    }
    for arguments in [&["init", "-q", "-b", "main"][..], &["add", "-A"], &["commit", "-q", "-m", "first"]] {
        git(at, arguments);
    }
}

pub fn in_home() -> (TempDir, PathBuf) {
    let top = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a directory");
    let home = top.path().join("home");
    (top, home)
}

pub fn command(home: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(program());
    command.args(arguments).env_clear().env("PATH", TEST_PATH).env("HOME", home).env("LANG", "C.UTF-8");
    command.env("TINY_KEY", KEY).current_dir(home.join("project")).stdin(Stdio::null());
    command
}

/// Asks with the key in the environment; returns the text on standard error.
pub fn asks(home: &Path, session: &str, question: &str) -> String {
    let done = command(home, &["agent", "--session", session, "-m", question]).output().expect("it runs");
    let told = String::from_utf8_lossy(&done.stderr).into_owned();
    assert!(done.status.success(), "{question}: {told}");
    told
}

const KEY: &str = "topsecret-key-of-tiny";

/// Statement 3.
#[test]
fn a_fork_in_a_clone_sends_the_request_that_the_original_sends() {
    if !require(&["git"]) {
        return;
    }
    let (server, (top, home)) = (Server::start(), in_home());
    home_with(&server, &home, "");
    repository(&home.join("project"), &[("a.txt", "lemons\n"), ("b.txt", "b\n")]);
    server.reply(tool_call("file_write", &json!({"path": "b.txt", "content": "limes\n"}).to_string()));
    server.reply(answer("written"));
    let id = begun(&asks(&home, "new", "write it"));
    server.reply(tool_call("update_context", &json!({"open": ["a.txt"]}).to_string()));
    server.reply(tool_call("file_read", &json!({"path": "none.txt"}).to_string()));
    server.reply(answer("seen"));
    asks(&home, &id, "open it");
    asks(&home, &id, "and now?");
    let original = server.request(6);
    // Another machine: the same path, with only a clone that has the branch.
    let before = top.path().join("before");
    fs::rename(&home, &before).expect("renamed");
    home_with(&server, &home, "");
    let project = home.join("project");
    git(top.path(), &["clone", "-q", before.join("project").to_str().expect("text"), project.to_str().expect("text")]);
    git(&project, &["fetch", "-q", "origin", "refs/heads/reedclaw/*:refs/heads/reedclaw/*"]);
    let fork = output(&home, &["session", "fork", &id, "2"]);
    asks(&home, fork.trim(), "and now?");
    let there = server.request(7);
    assert!(original.raw.contains("limes") && original.raw.contains("lemons"), "{}", original.raw);
    assert_eq!(there.raw, original.raw);
}

/// Calls of tools that work on files. Deletions aren't among them, since they need a person's consent in a directory.
fn file_calls() -> Vec<(&'static str, Value)> {
    let path = |path: &str| json!({"path": path});
    let pattern = |pattern: &str| json!({"pattern": pattern});
    vec![
        ("file_list", json!({})),
        ("file_list", path("src")),
        ("file_list", path("none")),
        ("file_read", path("a.txt")),
        ("file_read", path("src")),
        ("file_read", path("none.txt")),
        ("file_read", path("../outside")),
        ("file_read", path("link")),
        ("file_read", path("away")),
        ("file_read", path("binary")),
        ("file_read", path("crlf.txt")),
        ("file_read", json!({"path": "a.txt", "start_line": 2, "end_line": 2})),
        ("read_readme", json!({})),
        ("find_files", pattern("*.rs")),
        ("find_files", pattern("none*")),
        ("search_text", pattern("two")),
        ("search_text", json!({"pattern": "fn \\w+", "path": "src"})),
        ("symbols", json!({"path": "src"})),
        ("detect_languages", json!({})),
        ("edit_replace_exact", json!({"path": "a.txt", "old": "two", "new": "TWO"})),
        ("edit_replace_exact", json!({"path": "a.txt", "old": "none", "new": "x"})),
        ("edit_replace_exact", json!({"path": "crlf.txt", "old": "two", "new": "TWO"})),
        ("edit_insert_at_line", json!({"path": "a.txt", "line": 1, "content": "zero\n"})),
        ("edit_insert_at_line", json!({"path": "a.txt", "line": 99, "content": "x\n"})),
        ("edit_create_file", json!({"path": "new/deep/file.txt", "content": "new\n"})),
        ("edit_create_file", json!({"path": "a.txt", "content": "x\n"})),
        ("edit_create_file", json!({"path": "a.txt/below", "content": "x\n"})),
        ("edit_create_file", json!({"path": ".git/hooks/x", "content": "x\n"})),
        ("file_write", json!({"path": "w.txt", "content": "w\n"})),
        ("file_write", json!({"path": "run.sh", "content": "#!/bin/sh\necho\n"})),
        ("file_write", json!({"path": "../outside", "content": "x\n"})),
        (
            "edit_apply_batch",
            json!({"edits": [{"kind": "create", "path": "c1", "content": "1\n"}, {"kind": "insert", "path": "w.txt", "line": 1, "content": "v\n"}]}),
        ),
        (
            "edit_apply_batch",
            json!({"edits": [{"kind": "create", "path": "c2", "content": "1\n"}, {"kind": "insert", "path": "none", "line": 1, "content": "v\n"}]}),
        ),
        ("search_text", pattern("new")),
        ("file_list", path("new")),
        ("file_list", json!({})),
    ]
}

/// The results of a question with these calls, as the model read them, and the resulting files.
fn results_of(calls: &[(&str, Value)], is_session: bool) -> (Vec<String>, Vec<(String, String)>) {
    let (server, (_top, home)) = (Server::start(), in_home());
    home_with(
        &server,
        &home,
        "security = {autonomy = \"full\"}, limits = {tool_rounds = 100, tool_rounds_once = 100},",
    );
    let project = home.join("project");
    fs::create_dir_all(&project).expect("a directory");
    fs::write(project.join("binary"), [0, 1, 2, 255]).expect("a file");
    std::os::unix::fs::symlink("a.txt", project.join("link")).expect("a link");
    std::os::unix::fs::symlink("/etc/hostname", project.join("away")).expect("a link");
    fs::write(project.join("run.sh"), "#!/bin/sh\n").expect("a file");
    fs::set_permissions(project.join("run.sh"), std::os::unix::fs::PermissionsExt::from_mode(0o755)).expect("a mode");
    let files = [
        ("a.txt", "one\ntwo\nthree\n"),
        ("crlf.txt", "one\r\ntwo\r\n"),
        ("src/b.rs", "fn b() {}\n"),
        ("src/c.rs", "/// Two.\npub fn two() {}\n"),
        ("README.md", "# A project\n"),
    ];
    repository(&project, &files);
    for (tool, arguments) in calls {
        server.reply(tool_call(tool, &arguments.to_string()));
    }
    server.reply(answer("done"));
    let files = if is_session {
        let id = begun(&asks(&home, "new", "do it"));
        let branch = format!("reedclaw/session/{id}");
        let names = git(&project, &["ls-tree", "-r", "--name-only", &branch]);
        let text = |name: &str| git(&project, &["cat-file", "blob", &format!("{branch}:{name}")]);
        let own = names.lines().filter(|name| !name.starts_with(".reedclaw"));
        own.map(|name| (name.to_owned(), text(name))).collect()
    } else {
        let done = command(&home, &["agent", "--path", project.to_str().expect("text"), "-m", "do it"])
            .output()
            .expect("it runs");
        assert!(done.status.success(), "{done:?}");
        git(&project, &["add", "-A"]);
        let tree = git(&project, &["write-tree"]);
        let names = git(&project, &["ls-tree", "-r", "--name-only", &tree]);
        let text = |name: &str| git(&project, &["cat-file", "blob", &format!("{tree}:{name}")]);
        names.lines().map(|name| (name.to_owned(), text(name))).collect()
    };
    let last: Request = server.request(calls.len() + 1);
    let messages = last.body["messages"].as_array().expect("messages");
    // The session's tree contains its record, and the checkout contains git's own directory; so some names differ.
    let text = |it: &Value| {
        let text = it["content"].as_str().expect("a text").replace(home.to_str().expect("text"), "HOME");
        let text = text.replace(".reedclaw/\n", "").replace("\n[1 ignored: .git]", "");
        text.split("in the workspace there is").next().unwrap_or_default().to_owned()
    };
    let results = messages.iter().filter(|it| it["role"] == "tool").map(text).collect();
    (results, files)
}

/// Statement 11.
#[test]
fn file_tools_answer_alike_in_a_directory_and_in_a_session() {
    if !require(&["git"]) {
        return;
    }
    let calls = file_calls();
    let (in_directory, files) = results_of(&calls, false);
    let (in_session, drafted) = results_of(&calls, true);
    assert_eq!(in_directory.len(), calls.len());
    let all = calls.iter().zip(in_directory.iter().zip(&in_session));
    let differing: Vec<_> = all.filter(|(_, (one, other))| one != other).collect();
    assert!(differing.is_empty(), "{differing:#?}");
    assert_eq!(files, drafted);
}

/// The parts of a checkout that a session must not change: everything except objects and the sessions' references.
pub fn checkout(project: &Path) -> Held {
    let is_ours = |path: &Path| {
        let inside = path.strip_prefix(project.join(".git")).unwrap_or(Path::new(""));
        inside.starts_with("objects") || inside.iter().any(|part| part == "reedclaw")
    };
    held(project).into_iter().filter(|(path, _)| !is_ours(path)).collect()
}

/// Statements 12 and 14.
#[test]
fn a_command_that_removes_the_project_empties_the_draft_and_not_the_checkout() {
    if !require(&["git"]) {
        return;
    }
    let home = home(&[], "");
    let (at, project) = (home.path(), home.path().join("project"));
    let place = project.display().to_string();
    // The policy refuses such a line, but not a script.
    fs::write(project.join("clean.sh"), "cd /; rm -rf \"$1\"/* \"$1\"/.git*; ls -A \"$1\"\n").expect("a file");
    git(&project, &["add", "-A"]);
    git(&project, &["commit", "-q", "-m", "a script"]);
    fs::write(project.join("untracked.txt"), "mine\n").expect("a file");
    let answers = [
        calls("absolute", "shell", json!({"command": format!("echo x >{place}/made.txt; cat {place}/a.txt")})),
        calls("remove", "shell", json!({"command": format!("sh clean.sh {place}")})),
    ];
    let lines: Vec<String> = answers.iter().map(Value::to_string).collect();
    fs::write(at.join("answers.jsonl"), lines.join("\n")).expect("a script");
    let before = checkout(&project);
    let (code, _, told) = reedclaw(at, &["agent", "--session", "new", "-m", "absolute paths"]);
    assert_eq!((code, told.contains("turn 1 · 1 file")), (Some(0), true), "{told}");
    let id = begun(&told);
    assert!(output(at, &["session", "show", &id, "1"]).contains("+++ b/made.txt"));
    let record: Value = serde_json::from_str(&output(at, &["session", "show", &id, "1", "--json"])).expect("JSON");
    assert!(record["record"]["calls"][0]["result"].to_string().contains("old"), "{record}");
    let (code, _, told) = reedclaw(at, &["agent", "--session", &id, "-m", "remove all"]);
    assert_eq!((code, told.contains("turn 2 · 3 files")), (Some(0), true), "{told}");
    assert_eq!(output(at, &["session", "files", &id]), ".reedclaw/\n", "the draft is empty");
    assert_eq!(differing(&before, &checkout(&project)), Vec::<&PathBuf>::new(), "the checkout is whole");
    let (code, _, told) = reedclaw(at, &["session", "undo", &id, "--files"]);
    assert_eq!((code, told.contains("took back: remove all (3 files)")), (Some(0), true), "{told}");
    assert_eq!(output(at, &["session", "cat", &id, "a.txt"]), "old\n", "one undo brings it back");
    assert!(output(at, &["session", "log", &id]).contains("remove all"), "the conversation stays");
    output(at, &["session", "redo", &id, "--files"]);
    assert_eq!(output(at, &["session", "files", &id]), ".reedclaw/\n");
    assert_eq!(reedclaw(at, &["session", "redo", &id, "--files"]).0, Some(3));
}

/// Statement 28.
#[test]
fn a_known_key_is_in_no_object_of_the_repository() {
    if !require(&["git"]) {
        return;
    }
    let (server, (_top, home)) = (Server::start(), in_home());
    home_with(&server, &home, "");
    let project = home.join("project");
    repository(&project, &[("a.txt", "old\n")]);
    let (one, other) = KEY.split_at(9);
    let line = format!("printf %s%s {one} {other} >key.txt; cat key.txt; echo fine >fine.txt");
    server.reply(tool_call(
        "file_write",
        &json!({"path": "code.rs", "content": format!("const K: &str = \"{KEY}\";\n")}).to_string(),
    ));
    server.reply(tool_call("edit_create_file", &json!({"path": format!("{KEY}.txt"), "content": "x\n"}).to_string()));
    server.reply(tool_call("shell", &json!({"command": line}).to_string()));
    server.reply(tool_call("file_write", &json!({"path": "more.txt", "content": "more\n"}).to_string()));
    server.reply(answer(&format!("the key is {KEY}")));
    let told = asks(&home, "new", &format!("what about {KEY}?"));
    let id = begun(&told);
    assert!(told.contains("turn 1 · 2 files"), "{told}");
    let list = git(&project, &["cat-file", "--batch-all-objects", "--batch-check=%(objectname) %(objecttype)"]);
    for line in list.lines() {
        let (object, kind) = line.split_once(' ').expect("two fields");
        let content = git(&project, &["cat-file", kind, object]);
        assert!(!content.contains(KEY) && !content.contains("b3BzZWNyZXQta2V5"), "{line}: {content}");
    }
    assert_eq!(output(&home, &["session", "cat", &id, "fine.txt"]), "fine\n");
    let record: Value = serde_json::from_str(&output(&home, &["session", "show", &id, "1", "--json"])).expect("JSON");
    let record = &record["record"];
    assert!(record["calls"][0]["result"].to_string().contains("key that is known"), "{record}");
    assert!(record["left_out"].to_string().contains("key.txt"), "{record}");
    // Nor can the person's own text bring the key in.
    let done = command(&home, &["session", "start", KEY]).output().expect("it runs");
    assert!(done.status.success(), "{done:?}");
    assert_eq!(git(&project, &["log", "--all", "-F", "--grep", KEY, "--format=%H"]), "");
}

/// Statement 29.
#[test]
fn large_files_and_secrets_stay_on_the_bench_and_are_named() {
    if !require(&["git"]) {
        return;
    }
    let command = "echo k >.env; echo k >.env.local; echo k >id_rsa; truncate -s 2G large; echo fine >fine.txt";
    let home = home(
        &[calls("make", "shell", json!({"command": command})), write("again", "b.txt", "b\n")],
        "security = {autonomy = \"full\"},",
    );
    let (at, project) = (home.path(), home.path().join("project"));
    let before = held(&project.join(".git/objects")).len();
    let (code, _, told) = reedclaw(at, &["agent", "--session", "new", "-m", "make them"]);
    assert_eq!(code, Some(0), "{told}");
    let id = begun(&told);
    let record: Value = serde_json::from_str(&output(at, &["session", "show", &id, "1", "--json"])).expect("JSON");
    let (left, call) = (record["record"]["left_out"].to_string(), record["record"]["calls"][0]["result"].to_string());
    for named in [".env", ".env.local", "id_rsa", "large"] {
        assert!(left.contains(&format!("\"{named} (")), "{named}: {left} {call}");
        assert!(call.contains(&format!("{named} (")), "the model reads of {named}: {call}");
    }
    let branch = format!("reedclaw/session/{id}");
    let names = git(&project, &["ls-tree", "-r", "--name-only", &branch]);
    assert!(!names.contains(".env") && !names.contains("large"), "{names}");
    let made = held(&project.join(".git/objects"));
    let bytes: usize = made.values().map(|it| it.2.len()).sum();
    assert!(made.len() - before < 30 && bytes < 1024 * 1024, "{} objects, {bytes} bytes", made.len());
    // The next command finds the files.
    assert_eq!(reedclaw(at, &["agent", "--session", &id, "-m", "again"]).0, Some(0));
    assert!(!output(at, &["session", "files", &id]).contains("large"));
}

/// Statement 29, with directories that are moved as a whole and one that isn't; a further command and a rewind still work.
#[test]
fn a_flood_of_new_files_stays_on_the_bench_with_its_directories_and_a_known_file_is_committed() {
    if !require(&["git"]) {
        return;
    }
    let make = "mkdir -p data/deep data/mixed && (cd data/deep && seq 5200 | split -a 4 -l 1) && cp data/deep/xaaaa data/mixed/a \
                && ln -s a data/mixed/link && echo k >data/deep/.env && echo new >a.txt";
    let look = "ls data/deep | wc -l && cat data/mixed/link && git status --short | head -3 && rm -r data/deep && echo two >>a.txt";
    let home = home(
        &[calls("make", "shell", json!({"command": make})), calls("look", "shell", json!({"command": look}))],
        "security = {autonomy = \"full\"},",
    );
    let (at, project) = (home.path(), home.path().join("project"));
    let before = held(&project.join(".git/objects")).len();
    let (code, _, told) = reedclaw(at, &["agent", "--session", "new", "-m", "make"]);
    assert_eq!(code, Some(0), "{told}");
    let id = begun(&told);
    let turn = |number: &str| -> Value {
        serde_json::from_str(&output(at, &["session", "show", &id, number, "--json"])).expect("JSON")
    };
    let record = turn("1")["record"].to_string();
    assert!(
        record.contains("data/ (5201 of more than 5,000 new files)") && record.contains("data/deep/.env ("),
        "{record}"
    );
    let tree = |path: &str| git(&project, &["show", &format!("reedclaw/session/{id}:{path}")]);
    assert_eq!(tree("a.txt").trim(), "new", "a known file is taken");
    assert!(held(&project.join(".git/objects")).len() - before < 40);
    assert_eq!(reedclaw(at, &["agent", "--session", &id, "-m", "look"]).0, Some(0));
    let result = turn("2")["record"]["calls"][0]["result"].to_string();
    assert!(result.contains("5200\\n1\\n") && result.contains("?? data/"), "{result}");
    assert_eq!(tree("a.txt").trim(), "new\ntwo");
    assert_eq!(fs::read_to_string(project.join("a.txt")).expect("a file"), "old\n", "the checkout stays as it is");
    assert!(!project.join("data").exists());
}

/// A process that ends with the test.
pub struct Running(pub Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Statement 40.
#[test]
fn looks_are_answered_while_a_turn_runs_in_another_process() {
    if !require(&["git"]) {
        return;
    }
    let (server, (_top, home)) = (Server::start(), in_home());
    home_with(&server, &home, "");
    repository(&home.join("project"), &[("a.txt", "old\n")]);
    server.reply(tool_call("file_write", &json!({"path": "a.txt", "content": "new\n"}).to_string()));
    server.reply(answer("written"));
    let id = begun(&asks(&home, "new", "write it"));
    server.reply(tool_call("file_write", &json!({"path": "b.txt", "content": "b\n"}).to_string()));
    server.reply(vec![head(), piece("so"), Step::Gate(1), piece(" far"), end()]);
    let mut asked = command(&home, &["agent", "--session", &id, "-m", "go on"]);
    let mut asked = Running(asked.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("it runs"));
    server.request(4);
    for (arguments, shows) in [
        (&["session", "list", "--json"][..], "\"state\":\"running\""),
        (&["session", "show", &id, "1"], "? write it"),
        (&["session", "diff", &id], "+new"),
        (&["session", "log", &id], "write it"),
        (&["session", "cat", &id, "a.txt"], "new"),
        (&["session", "files", &id], "a.txt"),
    ] {
        let shown = output(&home, arguments);
        assert!(shown.contains(shows), "{arguments:?}: {shown}");
    }
    assert!(!output(&home, &["session", "files", &id]).contains("b.txt"), "the turn isn't committed yet");
    for arguments in
        [&["session", "rewind", &id, "0"][..], &["session", "drop", &id, "--yes"], &["session", "undo", &id]]
    {
        let (code, _, told) = reedclaw(&home, arguments);
        assert_eq!(code, Some(3), "{arguments:?}: {told}");
        assert!(told.contains("is open in another shell"), "{told}");
    }
    server.open(1);
    assert!(asked.0.wait().expect("it ends").success());
    assert!(output(&home, &["session", "files", &id]).contains("b.txt"));
}

/// Statement 41.
#[test]
fn each_command_has_the_exit_status_that_its_outcome_means() {
    if !require(&["git"]) {
        return;
    }
    let (home, id) = with_two_turns();
    let at = home.path();
    let help = output(at, &["session", "--help"]);
    let commands: Vec<&str> = help
        .lines()
        .skip_while(|line| !line.starts_with("Commands:"))
        .skip(1)
        .take_while(|line| line.starts_with("  "))
        .filter(|line| line.starts_with("  ") && !line.starts_with("   "))
        .filter_map(|line| line.split_whitespace().next())
        .filter(|name| *name != "help")
        .collect();
    // Each command with arguments for success, in an order in which each finds what it needs.
    let mut succeed: Vec<(&str, Vec<&str>)> = vec![
        ("list", vec![]),
        ("start", vec!["a title"]),
        ("log", vec![&id]),
        ("show", vec![&id, "1"]),
        ("diff", vec![&id, "1..2"]),
        ("cat", vec![&id, "a.txt", "1"]),
        ("files", vec![&id]),
        ("fork", vec![&id, "1"]),
        ("rewind", vec![&id, "1"]),
        ("undo", vec![&id]),
        ("redo", vec![&id]),
        ("undo", vec![&id]),
        ("message", vec![&id, "1", "-m", "other words"]),
        ("amend", vec![&id, "-m", "newest words"]),
        ("run", vec![&id, "true"]),
        ("tools", vec![&id]),
        ("dir", vec![&id, "out"]),
        ("doctor", vec![]),
        ("gc", vec!["--dry-run"]),
        ("merge", vec![&id, "--dry-run"]),
        ("apply", vec![&id, "--yes"]),
        ("abandon", vec![&id]),
    ];
    succeed.insert(2, ("context", vec![&id, "--add", "a.txt"]));
    for (name, arguments) in &succeed {
        output(at, &[&["session", name][..], arguments].concat());
    }
    let is_tried =
        |name: &&&str| succeed.iter().any(|(tried, _)| tried == *name) || ["ask", "sync", "drop"].contains(*name);
    let untried: Vec<&&str> = commands.iter().filter(|name| !is_tried(name)).collect();
    assert_eq!(untried, Vec::<&&str>::new(), "commands without a row here");
    let needs_more = |name: &str| match name {
        "cat" => vec!["a.txt"],
        "rewind" => vec!["1"],
        "dir" => vec!["out"],
        "ask" | "message" => vec!["-m", "x"],
        "run" => vec!["true"],
        _ => vec![],
    };
    for name in commands.iter().filter(|name| !["list", "start", "doctor", "gc"].contains(name)) {
        let unknown = [&["session", name, "nothing-like-this"][..], &needs_more(name)].concat();
        let (code, out, err) = reedclaw(at, &unknown);
        assert_eq!((code, out.as_str()), (Some(2), ""), "{name}: {err}");
        assert!(err.contains("no session here is called nothing-like-this"), "{name}: {err}");
        assert!(err.contains("reedclaw session list shows"), "{name}: {err}");
        let (code, _, err) = reedclaw(at, &["session", name]);
        assert_eq!(code, Some(2), "{name} without an id: {err}");
        assert!(err.contains("Usage:") || err.contains("required"), "{name}: {err}");
    }
    let (home, id) = with_two_turns();
    let at = home.path();
    let refused = [
        ("undo", vec![id.as_str()]),
        ("redo", vec![&id]),
        ("drop", vec![&id]),
        ("apply", vec![&id]),
        ("amend", vec![&id]),
        ("run", vec![&id, "touch", "made"]),
        ("start", vec!["--on", "main"]),
    ];
    for (name, arguments) in &refused {
        let (code, _, err) = reedclaw(at, &[&["session", name][..], arguments].concat());
        assert_eq!(code, Some(3), "{name}: {err}");
    }
    // A request for a state that already exists is no failure.
    output(at, &["session", "merge", &id, "--yes"]);
    for arguments in
        [&["sync", &id][..], &["sync", &id, "--rebase"], &["merge", &id, "--yes"], &["merge", &id, "--pick", "2"]]
    {
        let (code, out, err) = reedclaw(at, &[&["session"], arguments].concat());
        assert_eq!((code, out.as_str()), (Some(0), ""), "{arguments:?}: {err}");
        assert!(err.contains(" has "), "{arguments:?}: {err}");
    }
    output(at, &["session", "drop", &id, "--yes"]);
    let bare = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a directory");
    let place = bare.path().display().to_string();
    let (code, out, err) = reedclaw(at, &["session", "list", "--workspace", &place]);
    assert_eq!((code, out.as_str()), (Some(7), ""), "{err}");
    assert!(err.contains("there is no git repository at"), "{err}");
}

#[test]
fn git_in_a_session_shows_its_newest_commit_and_makes_nothing_in_the_repository() {
    if !require(&["git", "bwrap"]) {
        return;
    }
    let (_top, home) = in_home();
    let server = Server::start();
    home_with(&server, &home, "");
    let project = home.join("project");
    repository(&project, &[("a.txt", "old\n"), (".gitignore", "built/\n")]);
    let before = git(&project, &["for-each-ref"]);
    let shell = |line: &str| tool_call("shell", &json!({"command": line}).to_string());
    server.reply(tool_call("file_write", &json!({"path": "a.txt", "content": "new\n"}).to_string()));
    server.reply(shell("git log --format=%s; git status --short; git diff --stat | tail -1; git branch"));
    server.reply(answer("done"));
    let id = begun(&asks(&home, "new", "write"));
    let told = server.request(3).whole_content(-1);
    let lines: Vec<&str> = told.lines().collect();
    assert!(lines[0].starts_with("session ") && lines[1] == "first" && lines[2] == " M a.txt", "{told}");
    assert!(told.contains("1 insertion(+), 1 deletion(-)") && told.contains("main"), "{told}");
    assert!(!told.contains("kept:"), "git's looks are no change: {told}");
    // The next turn sees the commit of this one; a commit that git makes isn't adopted, but the files are.
    server.reply(shell("git status --short; git log --format=%s -1; echo mine > b.txt; git add -A; git commit -qm own && git stash list"));
    server.reply(answer("done"));
    asks(&home, &id, "commit");
    let told = server.request(5).whole_content(-1);
    assert!(told.starts_with("write\n"), "{told}");
    assert!(told.contains("commits, branches and stashes that git makes in this session aren't kept"), "{told}");
    assert!(told.contains("+ b.txt") && !told.contains(".git/"), "{told}");
    let branch = format!("reedclaw/session/{id}");
    assert_eq!(git(&project, &["log", "--format=%s", &format!("main..{branch}")]).lines().next(), Some("commit"));
    assert_eq!(git(&project, &["show", &format!("{branch}:b.txt")]), "mine");
    git(&project, &["update-ref", "-d", &format!("refs/heads/{branch}")]);
    assert_eq!(git(&project, &["for-each-ref"]), before, "git made no reference");
    git(&project, &["fsck", "--strict", "--no-dangling"]);
    assert_eq!(git(&project, &["status", "--porcelain"]), "");
}
