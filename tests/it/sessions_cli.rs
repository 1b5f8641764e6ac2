//! `reedclaw session` and `reedclaw agent --session`: git sessions without the shell, their exit statuses and JSON.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::{MetadataExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use reedclaw::schema::Schema;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::need::{TEST_PATH, require};
use crate::pty::program;
use crate::sessions::{calls, git};

/// A home with a repository of one commit, and a model with these answers.
pub fn home(answers: &[Value], more: &str) -> TempDir {
    let home = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a home");
    let lines: Vec<String> = answers.iter().map(Value::to_string).collect();
    let script = home.path().join("answers.jsonl");
    fs::write(&script, lines.join("\n")).expect("a script");
    let config = format!(
        "return {{ memory = {{auto = false}}, context = {{project = false}}, {more}\n\
         models = {{ m = {{ kind = \"mock\", script = {:?} }} }} }}",
        script.display().to_string()
    );
    fs::create_dir_all(home.path().join(".config/reedclaw")).expect("a directory");
    fs::write(home.path().join(".config/reedclaw/config.lua"), config).expect("a config");
    let project = home.path().join("project");
    fs::create_dir_all(&project).expect("a directory");
    fs::write(project.join("a.txt"), "old\n").expect("a file");
    git(&project, &["init", "-q", "-b", "main"]);
    git(&project, &["add", "-A"]);
    git(&project, &["commit", "-q", "-m", "first"]);
    home
}

pub fn reedclaw(home: &Path, arguments: &[&str]) -> (Option<i32>, String, String) {
    let mut command = Command::new(program());
    command.args(arguments).env_clear().env("PATH", TEST_PATH).env("HOME", home).env("LANG", "C.UTF-8");
    let done = command.current_dir(home.join("project")).stdin(Stdio::null()).output().expect("it runs");
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("UTF-8");
    (done.status.code(), text(done.stdout), text(done.stderr))
}

/// Runs a command that must succeed, and returns its standard output.
pub fn output(home: &Path, arguments: &[&str]) -> String {
    let (code, out, err) = reedclaw(home, arguments);
    assert_eq!(code, Some(0), "{arguments:?}: {out}{err}");
    out
}

pub fn write(when: &str, path: &str, content: &str) -> Value {
    calls(when, "file_write", json!({"path": path, "content": content}))
}

/// Files with the time of their last change and their content.
pub type Held = BTreeMap<PathBuf, (i64, i64, Vec<u8>)>;

/// Every file below a directory.
pub fn held(top: &Path) -> Held {
    let (mut found, mut waiting) = (BTreeMap::new(), vec![top.to_owned()]);
    while let Some(at) = waiting.pop() {
        for entry in fs::read_dir(at).expect("a directory").flatten() {
            let data = entry.path().symlink_metadata().expect("an entry");
            if data.is_dir() {
                waiting.push(entry.path());
            } else {
                let bytes = fs::read(entry.path()).unwrap_or_default();
                // Git sets the time of an object that it needs to now, so that no `gc` removes it.
                let is_object = entry.path().components().any(|it| it.as_os_str() == "objects");
                let time = if is_object { (0, 0) } else { (data.mtime(), data.mtime_nsec()) };
                found.insert(entry.path(), (time.0, time.1, bytes));
            }
        }
    }
    found
}

/// The paths that differ.
pub fn differing<'a>(one: &'a Held, two: &'a Held) -> Vec<&'a PathBuf> {
    let is_other =
        |from: &'a Held, to: &'a Held| from.iter().filter(|(path, it)| to.get(*path) != Some(it)).map(|it| it.0);
    let mut all: Vec<&PathBuf> = is_other(one, two).chain(is_other(two, one)).collect();
    all.dedup();
    all
}

/// A home with a session of two turns, and the session's id.
pub fn with_two_turns() -> (TempDir, String) {
    let home = home(&[write("first", "a.txt", "new\n"), write("second", "more.txt", "more\n")], "");
    let (code, _, told) = reedclaw(home.path(), &["agent", "--session", "new", "-m", "first change"]);
    assert_eq!(code, Some(0), "{told}");
    let id = told.lines().find_map(|line| line.strip_prefix("[session] ")).expect("the id").to_owned();
    assert!(told.contains("turn 1 · 1 file"), "{told}");
    let (code, _, told) = reedclaw(home.path(), &["agent", "--session", &id, "-m", "second change"]);
    assert_eq!((code, told.contains("turn 2 · 1 file")), (Some(0), true), "{told}");
    (home, id)
}

/// Once, a question without a yes named only a number, messages contained error numbers, and an empty list and a removed session
/// were not reported.
#[test]
fn what_a_person_sees_before_and_after_a_command_is_said() {
    if !require(&["git"]) {
        return;
    }
    let (home, id) = with_two_turns();
    let at = home.path();
    let err_of = |arguments: &[&str], wanted: i32| {
        let (code, out, err) = reedclaw(at, &[&["session"], arguments].concat());
        assert_eq!(code, Some(wanted), "{arguments:?}: {out}{err}");
        err
    };
    let err = err_of(&["rewind", &id, "0"], 3);
    assert!(err.contains("  1  first change\n  2  second change\n"), "{err}");
    assert!(err_of(&["cat", &id, "nothing"], 2).contains("reedclaw session files ID [DIR] lists"));
    fs::create_dir(at.join("there")).expect("a directory");
    let there = at.join("there").display().to_string();
    let err = err_of(&["dir", &id, &there], 2);
    assert!(err.contains("is there already") && !err.contains("os error"), "{err}");
    let err = err_of(&["dir", &id, "no/such/place"], 2);
    assert!(err.contains("can't be made") && !err.contains("os error"), "{err}");
    // A commit of the person reports its changes, as a turn does.
    output(at, &["session", "undo", &id, "--files"]);
    let log = output(at, &["session", "log", &id]);
    let own = log.lines().find(|line| line.starts_with("user")).expect("a commit of the person's");
    assert!(own.contains("1 file"), "{log}");
    let json = output(at, &["session", "log", &id, "--json"]);
    let own: Vec<Value> = json.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    assert_eq!(own.iter().find(|it| it["act"] == "user").expect("it is there")["files"], json!(1));
    assert!(err_of(&["drop", &id, "--yes"], 0).contains("is removed"));
    assert!(err_of(&["list"], 0).contains("no session yet"));
    let untitled = output(at, &["session", "start"]);
    assert!(output(at, &["session", "list"]).contains("  untitled  "));
    // Commits of the session's branch contain the conversation, and starting the first session in a repository with a remote
    // reports that.
    output(at, &["session", "drop", untitled.trim(), "--yes"]);
    git(&at.join("project"), &["remote", "add", "origin", "/nowhere"]);
    assert!(err_of(&["start"], 0).contains("git push --all would send it"));
    assert!(!err_of(&["start"], 0).contains("git push --all"));
}

#[test]
fn a_session_is_asked_looked_at_and_rewound_without_a_terminal() {
    if !require(&["git"]) {
        return;
    }
    let (home, id) = with_two_turns();
    let (at, project) = (home.path(), home.path().join("project"));
    assert_eq!(git(&project, &["status", "--porcelain"]), "", "the checkout stays as it is");
    assert_eq!(output(at, &["session", "cat", &id, "a.txt"]), "new\n");
    assert_eq!(output(at, &["session", "cat", &id, "a.txt", "0"]), "old\n");
    let shown = output(at, &["session", "show", &id, "1"]);
    assert!(shown.contains("? first change") && shown.contains("file_write") && shown.contains("+new"), "{shown}");
    assert!(shown.contains("  receipt-"), "{shown}");
    let first = shown.lines().next().expect("a line");
    assert!(first.starts_with("turn 1 · ") && first.contains(" · m"), "{shown}");
    let diff = output(at, &["session", "diff", &id]);
    assert!(diff.contains("+++ b/a.txt") && diff.contains("+++ b/more.txt"), "{diff}");
    assert!(!output(at, &["session", "diff", &id, "1..2"]).contains("a.txt"));
    let log = output(at, &["session", "log", &id]);
    assert!(log.contains("first change") && log.contains("second change"), "{log}");
    let row = log.lines().find(|line| line.contains("first change")).expect("a row");
    assert!(row.split_whitespace().any(|word| word == "m"), "its model: {log}");
    let fork = output(at, &["session", "fork", &id, "1"]);
    assert_ne!(fork.trim(), id);
    let (code, _, told) = reedclaw(at, &["session", "rewind", &id, "1"]);
    assert_eq!((code, told.contains("is at turn 1")), (Some(0), true), "{told}");
    assert_eq!(reedclaw(at, &["session", "cat", &id, "more.txt"]).0, Some(2));
    output(at, &["session", "undo", &id]);
    assert_eq!(output(at, &["session", "cat", &id, "more.txt"]), "more\n");
    let diff = output(at, &["session", "diff", &id, "more.txt"]);
    assert!(diff.contains("+++ b/more.txt") && !diff.contains("a.txt"), "{diff}");
    assert_eq!(output(at, &["session", "diff", &id, "2", "more.txt"]), diff);
    fs::write(project.join("b.txt"), "theirs\n").expect("a file");
    git(&project, &["add", "-A"]);
    git(&project, &["commit", "-q", "-m", "theirs"]);
    let diff = output(at, &["session", "diff", &id, "--against", "main"]);
    assert!(diff.contains("+new") && diff.contains("+++ b/more.txt") && !diff.contains("b.txt"), "{diff}");
    output(at, &["session", "rewind", &id, "1", "--code"]);
    assert_eq!(reedclaw(at, &["session", "cat", &id, "more.txt"]).0, Some(2));
    assert!(output(at, &["session", "log", &id]).contains("return to the files of turn 1"));
    output(at, &["session", "undo", &id]);
    output(at, &["session", "rewind", &id, "1", "--talk"]);
    assert_eq!(output(at, &["session", "cat", &id, "more.txt"]), "more\n");
    let log = output(at, &["session", "log", &id]);
    assert!(log.lines().filter(|line| line.contains("second change")).all(|line| line.contains("kept")), "{log}");
    output(at, &["session", "undo", &id]);
    // Exit statuses.
    for (arguments, status) in [
        (&["session", "log", "nothing-like-this"][..], 2),
        (&["session", "show", &id, "99"], 2),
        (&["session", "diff", &id, "nothing.txt"], 2),
        (&["session", "diff", &id, "1", "--against", "main"], 3),
        (&["session", "diff", &id, "--against", "nothing"], 2),
        (&["session", "rewind", &id, "1", "--code", "--talk"], 2),
        (&["session", "rewind", &id, "0"], 3),
        (&["session", "drop", &id], 3),
        (&["session", "merge", &id], 3),
        (&["session", "frobnicate"], 2),
        (&["session", "list", "--workspace", "/"], 7),
    ] {
        let (code, out, err) = reedclaw(at, arguments);
        assert_eq!(code, Some(status), "{arguments:?}: {out}{err}");
    }
    output(at, &["session", "abandon", fork.trim()]);
    let left = output(at, &["session", "list", "--all"]);
    assert!(left.contains("abandoned; open takes it up again"), "{left}");
    output(at, &["session", "drop", &id, "--yes"]);
    assert_eq!(output(at, &["session"]), "");
    output(at, &["session", "drop", fork.trim(), "--yes"]);
    assert_eq!(output(at, &["session", "list", "--all"]), "");
}

#[test]
fn programs_read_the_session_and_its_commit_from_events() {
    if !require(&["git"]) {
        return;
    }
    let home = home(&[write("first", "b.txt", "one\ntwo\n")], "");
    let at = home.path();
    let (code, out, _) = reedclaw(at, &["agent", "--json", "--session", "new", "-m", "first change"]);
    assert_eq!(code, Some(0));
    let events: Vec<Value> = out.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    let of = |name: &str| events.iter().find(|it| it["event"] == name).unwrap_or_else(|| panic!("{name}: {out}"));
    let (started, turn) = (of("session_started"), of("turn_committed"));
    assert_eq!(of("draft_changed")["paths"], json!(["b.txt"]));
    let id = started["session"].as_str().expect("an id");
    assert_eq!((&turn["session"], &turn["turn"], &turn["state"]), (&started["session"], &json!(1), &json!("whole")));
    assert_eq!((&turn["files"], &turn["added"], &turn["removed"]), (&json!(1), &json!(2), &json!(0)));
    let project = at.join("project");
    assert_eq!(git(&project, &["rev-parse", &format!("reedclaw/session/{id}")]), turn["commit"]);
    // A conflict is known before the model is asked.
    assert!(!out.contains("session_conflict"), "{out}");
    fs::write(project.join("b.txt"), "mine\n").expect("a file");
    git(&project, &["add", "-A"]);
    git(&project, &["commit", "-q", "-m", "mine"]);
    assert_eq!(reedclaw(at, &["session", "sync", id]).0, Some(6));
    let (_, out, _) = reedclaw(at, &["agent", "--json", "--session", id, "-m", "solve it"]);
    let second = out.lines().nth(1).and_then(|line| serde_json::from_str::<Value>(line).ok());
    assert_eq!(second, Some(json!({"event": "session_conflict", "session": id, "paths": ["b.txt"]})), "{out}");
}

#[test]
fn a_session_is_asked_and_its_open_files_are_listed_and_changed() {
    if !require(&["git"]) {
        return;
    }
    let home = home(&[write("first", "b.txt", "new\n")], "sessions = {record = \"talk\"},");
    let at = home.path();
    let id = output(at, &["session", "start", "a title"]).trim().to_owned();
    assert_eq!(output(at, &["session", "context", &id]), "");
    let open = output(at, &["session", "context", &id, "--add", "a.txt"]);
    assert!(open.contains("a.txt") && open.contains("about 1 token"), "{open}");
    let (code, _, told) = reedclaw(at, &["session", "ask", &id, "-m", "first change"]);
    assert_eq!((code, told.contains("turn 1 · 1 file")), (Some(0), true), "{told}");
    let shown = output(at, &["session", "show", &id, "1", "--json"]);
    let record: Value = serde_json::from_str(&shown).expect("JSON");
    assert_eq!(record["record"]["calls"], json!([]), "the talk alone is recorded");
    assert_eq!(record["record"]["question"], "first change");
    let listed = output(at, &["session", "list"]);
    assert!(listed.contains("a title") && listed.contains("1 file"), "{listed}");
    git(&at.join("project"), &["commit", "-q", "--allow-empty", "-m", "on"]);
    assert!(output(at, &["session", "list"]).contains("main has 1 commit more"));
    assert!(output(at, &["session", "context", &id]).contains("a.txt"), "the commit has the list");
    assert_eq!(output(at, &["session", "context", &id, "--remove", "a.txt"]), "");
    output(at, &["session", "rewind", &id, "0"]);
    assert!(output(at, &["session", "log", &id]).contains("kept 1"));
}

/// The schema of the JSON lines, and the kinds of lines that were seen.
struct Lines {
    schema: Schema,
    seen: BTreeSet<String>,
}

impl Lines {
    fn new() -> Self {
        let text = fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/config/schema/sessions.json"));
        let schema = serde_json::from_str(&text.expect("the schema")).expect("JSON");
        Self { schema: Schema::new(schema).expect("a schema"), seen: BTreeSet::new() }
    }

    fn kinds(&self) -> impl Iterator<Item = (&str, &Value)> {
        let all = self.schema.as_value()["oneOf"].as_array().expect("kinds");
        all.iter().map(|it| (it["properties"]["kind"]["const"].as_str().expect("a kind"), it))
    }

    /// Runs a command and checks that each line is of a known kind, with all its fields and no others.
    fn run(&mut self, home: &Path, arguments: &[&str]) {
        let (_, out, err) = reedclaw(home, &[&["session"], arguments, &["--json"]].concat());
        assert!(!out.is_empty(), "{arguments:?}: {err}");
        for line in out.lines() {
            let value: Value = serde_json::from_str(line).expect("JSON");
            assert_eq!(self.schema.problems(&value), Vec::<String>::new(), "{arguments:?}: {line}");
            let kind = value["kind"].as_str().expect("a kind").to_owned();
            let (_, known) = self.kinds().find(|(name, _)| *name == kind).expect("a known kind");
            let known: Vec<&String> = known["properties"].as_object().expect("properties").keys().collect();
            let had: Vec<&String> = value.as_object().expect("an object").keys().collect();
            assert_eq!(had, known, "{kind}");
            self.seen.insert(kind);
        }
    }
}

/// Statement 41: the lines of every command with `--json`, of all existing kinds.
#[test]
fn the_json_of_sessions_is_what_its_schema_says() {
    if !require(&["git"]) {
        return;
    }
    let (home, id) = with_two_turns();
    let (at, project, mut lines) = (home.path(), home.path().join("project"), Lines::new());
    git(&project, &["commit", "-q", "--allow-empty", "-m", "the user goes on"]);
    let beside = fs::read_dir(at.join(".local/state/reedclaw/sessions")).expect("a folder").flatten().next();
    let gone = beside.expect("one repository").path().join("01234567-0123-7123-8123-0123456789ab");
    fs::create_dir(&gone).expect("what is left of a session");
    let looks: [&[&str]; 9] = [
        &["list", "--all"],
        &["show", &id, "2"],
        &["diff", &id],
        &["diff", &id, "--against", "main"],
        &["files", &id],
        &["context", &id, "--add", "a.txt"],
        &["gc", "--dry-run"],
        &["gc"],
        &["sync", &id],
    ];
    looks.iter().for_each(|look| lines.run(at, look));
    lines.run(at, &["merge", &id, "--dry-run"]);
    lines.run(at, &["apply", &id, "--yes"]);
    output(at, &["undo"]);
    // A tool of the repository with a test, in commits of the person.
    let tool = "return { api = 1, name = \"shout\", description = \"x\", schema = { type = \"object\" }, \
                execute = function() return 1 end }";
    for (path, text) in [("tools/shout.luau", tool), ("tools/shout.test.luau", "return { works = function() end }")] {
        let copy = format!("mkdir -p tools; printf '%s' '{text}' >{path}");
        output(at, &["session", "run", &id, "--yes", &copy]);
    }
    lines.run(at, &["tools", &id]);
    lines.run(at, &["tools", &id, "test", "shout"]);
    // Every kind of commit.
    output(at, &["session", "rewind", &id, "1", "--code"]);
    output(at, &["session", "rewind", &id, "2", "--talk"]);
    let fork = output(at, &["session", "fork", &id, "1"]);
    for it in [&id, fork.trim()] {
        lines.run(at, &["log", it]);
    }
    // The user changes the same line: nothing is merged, and the paths are reported.
    fs::write(project.join("a.txt"), "mine\n").expect("a file");
    git(&project, &["commit", "-q", "-am", "mine"]);
    for command in [&["merge", &id, "--yes"][..], &["apply", &id, "--yes"], &["sync", &id]] {
        lines.run(at, command);
    }
    lines.run(at, &["list"]);
    git(&project, &["reset", "-q", "--hard", "HEAD~1"]);
    lines.run(at, &["merge", fork.trim(), "--yes"]);
    // A record that was damaged.
    let branch = format!("reedclaw/session/{}", fork.trim());
    git(&project, &["worktree", "add", "-q", "../tree", &branch]);
    let record = at.join("tree/.reedclaw/sessions").join(fork.trim()).join("session.json");
    fs::write(record, "{").expect("a file");
    git(&at.join("tree"), &["commit", "-q", "-am", "damage"]);
    git(&project, &["worktree", "remove", "--force", "../tree"]);
    lines.run(at, &["doctor"]);
    lines.run(at, &["doctor", "--repair"]);
    lines.run(at, &["log", fork.trim()]);
    let unseen: Vec<&str> = lines.kinds().map(|(kind, _)| kind).filter(|kind| !lines.seen.contains(*kind)).collect();
    assert_eq!(unseen, Vec::<&str>::new(), "kinds that no command has shown");
}

/// The metadata of each entry that a write would change, also of a directory in which something was created and removed again.
fn stamps(top: &Path) -> BTreeMap<PathBuf, [i64; 5]> {
    let (mut found, mut waiting) = (BTreeMap::new(), vec![top.to_owned()]);
    while let Some(at) = waiting.pop() {
        let data = at.symlink_metadata().expect("an entry");
        if data.is_dir() {
            waiting.extend(fs::read_dir(&at).expect("a directory").flatten().map(|it| it.path()));
        }
        // Git sets the time of an object that it needs to now.
        let is_object = data.is_file() && at.components().any(|it| it.as_os_str() == "objects");
        let times = [data.mtime(), data.mtime_nsec(), data.ctime(), data.ctime_nsec()];
        let [m, m_ns, c, c_ns] = if is_object { [0; 4] } else { times };
        found.insert(at, [m, m_ns, c, c_ns, i64::try_from(data.len()).expect("a length")]);
    }
    found
}

/// Statement 41: read-only commands write nothing in the checkout, in git's directory, or elsewhere in the home outside of the
/// state.
#[test]
fn looks_and_dry_runs_write_nothing_outside_the_state_directory() {
    if !require(&["git"]) {
        return;
    }
    let (home, id) = with_two_turns();
    let (at, project) = (home.path(), home.path().join("project"));
    fs::write(project.join("mine.txt"), "mine\n").expect("a file");
    let looks: [&[&str]; 14] = [
        &["list", "--all"],
        &["log", &id],
        &["show", &id, "1"],
        &["diff", &id],
        &["diff", &id, "--against", "main"],
        &["cat", &id, "a.txt"],
        &["files", &id],
        &["context", &id],
        &["doctor"],
        &["gc", "--dry-run"],
        &["merge", &id, "--dry-run"],
        &["merge", &id, "--rebase", "--dry-run", "--json"],
        &["apply", &id],
        &["tools", &id],
    ];
    // The state directory, the cache, and the database.
    let places = [".local/state", ".cache", ".local/share/reedclaw"].map(|it| at.join(it));
    let is_state = |path: &Path| places.iter().any(|it| path.starts_with(it));
    let seen = || -> BTreeMap<PathBuf, [i64; 5]> {
        stamps(at).into_iter().filter(|(path, _)| !is_state(path) && path != at).collect()
    };
    for look in looks {
        let before = seen();
        let (_, out, err) = reedclaw(at, &[&["session"], look].concat());
        let after = seen();
        let differ: Vec<&PathBuf> =
            after.iter().filter(|(path, it)| before.get(*path) != Some(it)).map(|it| it.0).collect();
        assert_eq!(differ, Vec::<&PathBuf>::new(), "{look:?}: {out}{err}");
        assert_eq!(before.len(), after.len(), "{look:?}");
    }
}

#[test]
fn a_dry_run_writes_nothing_and_a_conflict_has_its_own_status() {
    if !require(&["git"]) {
        return;
    }
    let (home, id) = with_two_turns();
    let (at, project) = (home.path(), home.path().join("project"));
    let before = held(&project);
    let plan = output(at, &["session", "merge", &id, "--dry-run"]);
    assert!(plan.contains("into main: 2 files"), "{plan}");
    assert_eq!(differing(&before, &held(&project)), Vec::<&PathBuf>::new());
    fs::write(project.join("a.txt"), "mine\n").expect("a file");
    git(&project, &["commit", "-q", "-am", "mine"]);
    let before = held(&project);
    let (code, out, err) = reedclaw(at, &["session", "merge", &id, "--yes", "--json"]);
    assert_eq!(code, Some(6), "{out}{err}");
    assert!(err.contains("session sync"), "the way on is named: {err}");
    let conflict: Value = serde_json::from_str(out.trim()).expect("JSON");
    assert_eq!((&conflict["kind"], &conflict["path"]), (&json!("conflict"), &json!("a.txt")));
    assert_eq!(conflict["conflict"], json!("contents"));
    assert_eq!(differing(&before, &held(&project)), Vec::<&PathBuf>::new(), "nothing has moved");
    assert_eq!(reedclaw(at, &["session", "sync", &id]).0, Some(6));
    let marked = output(at, &["session", "cat", &id, "a.txt"]);
    assert!(marked.contains("<<<<<<<") && marked.contains("mine"), "{marked}");
    output(at, &["session", "undo", &id]);
    assert_eq!(output(at, &["session", "cat", &id, "a.txt"]), "new\n");
    git(&project, &["reset", "-q", "--hard", "HEAD~1"]);
    output(at, &["session", "merge", &id, "--yes"]);
    assert_eq!(fs::read_to_string(project.join("more.txt")).expect("a file"), "more\n");
    assert_eq!(git(&project, &["ls-files"]), "a.txt\nmore.txt");
}

/// Text that looks like a secret is in a commit of the session, and leaves it only after a separate yes.
#[test]
fn likely_secrets_and_a_missing_name_are_asked_about_before_a_merge() {
    if !require(&["git"]) {
        return;
    }
    let token = ["ghp_", "x7Kq2mZp9LwR4tVb8N", "cY1dHf6GjS3aQe5uTi"].concat();
    let text = format!("first = 1\ntoken = \"{token}\"\n");
    let home = home(&[write("write", "settings.py", &text)], "");
    let (at, project) = (home.path(), home.path().join("project"));
    let id = output(at, &["session", "start"]).trim().to_owned();
    output(at, &["session", "ask", &id, "-m", "write"]);
    let shown = output(at, &["session", "show", &id]);
    assert!(shown.contains("Looks like a secret: settings.py, line 2: GitHub token\n"), "{shown}");
    let plan = output(at, &["session", "merge", &id, "--dry-run", "--json"]);
    let plan: Value = serde_json::from_str(plan.trim()).expect("JSON");
    assert_eq!((&plan["path"], &plan["secrets"]), (&json!("settings.py"), &json!([2])));
    for command in ["merge", "apply"] {
        let (code, _, err) = reedclaw(at, &["session", command, &id]);
        assert_eq!(code, Some(3), "{err}");
        assert!(err.contains("looks like a secret: settings.py, line 2") && !err.contains(&token), "{err}");
    }
    assert_eq!(git(&project, &["rev-list", "--count", "main"]), "1");
    let (code, _, err) = reedclaw(at, &["session", "merge", &id, "--yes"]);
    assert_eq!((code, err.contains("looks like a secret")), (Some(0), true), "{err}");
    assert_eq!(git(&project, &["log", "-1", "--format=%ce", "main"]), "user@localhost");
}

/// Once, a name that isn't UTF-8 ended the JSON of a merge with a panic.
#[test]
fn a_name_that_is_no_text_is_in_the_json_of_a_merge() {
    if !require(&["git"]) {
        return;
    }
    use std::os::unix::ffi::OsStrExt as _;
    let home = home(&[], "");
    let project = home.path().join("project");
    fs::write(project.join(std::ffi::OsStr::from_bytes(b"no \xff text")), "x").expect("a file");
    let id = output(home.path(), &["session", "start", "--with-changes"]).trim().to_owned();
    let plan = output(home.path(), &["session", "merge", &id, "--dry-run", "--json"]);
    let plan: Value = serde_json::from_str(plan.trim()).expect("JSON");
    assert_eq!((&plan["change"], &plan["path"]), (&json!("added"), &json!("no \u{fffd} text")));
}

#[test]
fn files_that_are_not_committed_are_counted_when_a_session_starts() {
    if !require(&["git"]) {
        return;
    }
    let home = home(&[], "");
    let (at, project) = (home.path(), home.path().join("project"));
    let start = |more: &[&str]| reedclaw(at, &[&["session", "start"], more].concat()).2;
    assert_eq!(start(&[]), "", "all is committed");
    fs::write(project.join("a.txt"), "mine\n").expect("a file");
    fs::write(project.join("new.txt"), "mine\n").expect("a file");
    let told = start(&[]);
    assert!(told.contains("aren't part of it: 1 changed, 1 untracked (--with-changes"), "{told}");
    assert_eq!(start(&["--with-changes"]), "");
}

#[test]
fn session_apply_is_one_step_that_undo_reverts() {
    if !require(&["git"]) {
        return;
    }
    let (home, id) = with_two_turns();
    let (at, project) = (home.path(), home.path().join("project"));
    let (head, index) =
        (git(&project, &["rev-parse", "HEAD"]), fs::read(project.join(".git/index")).expect("an index"));
    let (code, out, err) = reedclaw(at, &["session", "apply", &id]);
    assert_eq!((code, out.contains("~ a.txt"), out.contains("+ more.txt")), (Some(3), true, true), "{out}{err}");
    assert!(!project.join("more.txt").exists());
    let (code, _, told) = reedclaw(at, &["session", "apply", &id, "--yes"]);
    assert_eq!((code, told.contains("2 files changed in the checkout")), (Some(0), true), "{told}");
    let text = |name: &str| fs::read_to_string(project.join(name)).unwrap_or_default();
    assert_eq!((text("a.txt"), text("more.txt")), ("new\n".into(), "more\n".into()));
    assert_eq!(git(&project, &["rev-parse", "HEAD"]), head);
    assert_eq!(fs::read(project.join(".git/index")).expect("an index"), index);
    output(at, &["undo"]);
    assert_eq!((text("a.txt"), project.join("more.txt").exists()), ("old\n".into(), false));
    fs::write(project.join("a.txt"), "mine\n").expect("a file");
    assert_eq!(reedclaw(at, &["session", "apply", &id, "--yes"]).0, Some(6));
    assert_eq!((text("a.txt"), project.join("more.txt").exists()), ("mine\n".into(), false));
}

#[test]
fn session_apply_creates_directories_and_replaces_files() {
    if !require(&["git", "bwrap"]) {
        return;
    }
    let (home, id) = with_two_turns();
    let (at, project) = (home.path(), home.path().join("project"));
    let line = "mkdir -p d/e; echo x >d/e/y; echo z >d/z; rm a.txt; mkdir a.txt; echo below >a.txt/below";
    output(at, &["session", "run", &id, "--yes", line]);
    let told = reedclaw(at, &["session", "apply", &id, "--yes"]).2;
    assert!(told.contains("5 files changed in the checkout"), "{told}");
    let text = |name: &str| fs::read_to_string(project.join(name)).unwrap_or_default();
    assert_eq!((text("d/e/y"), text("d/z"), text("a.txt/below")), ("x\n".into(), "z\n".into(), "below\n".into()));
    output(at, &["undo"]);
    assert_eq!(
        (text("a.txt").as_str(), project.join("d").exists(), project.join("more.txt").exists()),
        ("old\n", false, false)
    );
    assert_eq!(git(&project, &["status", "--porcelain"]), "");
}

#[test]
fn a_difference_shows_empty_files_modes_and_links() {
    if !require(&["git", "bwrap"]) {
        return;
    }
    let (home, id) = with_two_turns();
    let at = home.path();
    let line = "touch empty; chmod +x a.txt; ln -s a.txt link; printf '\\0' >data; echo key >.envrc";
    let (code, out, err) = reedclaw(at, &["session", "run", &id, line]);
    assert_eq!((code, out.as_str()), (Some(3), ""), "a protected file needs a yes: {err}");
    let (code, _, err) = reedclaw(at, &["session", "run", &id, "--yes", line]);
    assert_eq!(code, Some(0), "{err}");
    let shown = output(at, &["session", "diff", &id]);
    for wanted in [
        "diff --git a/empty b/empty\nnew file mode 100644\n",
        "diff --git a/a.txt b/a.txt\nold mode 100644\nnew mode 100755\n",
        "diff --git a/link b/link\nnew file mode 120000\n",
        "diff --git a/data b/data\nnew file mode 100644\nBinary file data differs\n",
        "+++ b/.envrc\n",
    ] {
        assert!(shown.contains(wanted), "{wanted}: {shown}");
    }
}

#[test]
fn links_of_the_session_lead_to_protected_files_and_those_of_the_checkout_nowhere() {
    if !require(&["git"]) {
        return;
    }
    let home = home(
        &[
            write("one", "conf/tasks.json", "evil\n"),
            write("two", "src/k.txt", "fine\n"),
            write("three", ".reedclaw/tools.json", "[]\n"),
        ],
        "",
    );
    let (at, project) = (home.path(), home.path().join("project"));
    git(&project, &["switch", "-q", "-c", "linked"]);
    fs::create_dir(project.join(".vscode")).expect("a directory");
    fs::write(project.join(".vscode/settings.json"), "{}\n").expect("a file");
    symlink(".vscode", project.join("conf")).expect("a link");
    git(&project, &["add", "-fA"]);
    git(&project, &["commit", "-q", "-m", "links"]);
    git(&project, &["switch", "-q", "main"]);
    symlink("/etc", project.join("src")).expect("a link");
    let id = output(at, &["session", "start", "--from", "linked"]).trim().to_owned();
    for question in ["one", "two", "three"] {
        reedclaw(at, &["agent", "--session", &id, "-m", question]);
    }
    let diff = output(at, &["session", "diff", &id]);
    assert!(diff.contains("+++ b/src/k.txt") && !diff.contains(".vscode") && !diff.contains("tools.json"), "{diff}");
}

#[test]
fn a_turn_that_cant_be_committed_ends_with_a_failure_that_says_so() {
    if !require(&["git"]) {
        return;
    }
    let (home, id) = with_two_turns();
    let (at, project) = (home.path(), home.path().join("project"));
    let lock = project.join(format!(".git/refs/heads/reedclaw/session/{id}.lock"));
    fs::write(&lock, "").expect("a lock");
    let (code, _, err) = reedclaw(at, &["agent", "--session", &id, "-m", "another"]);
    assert_eq!(code, Some(1), "{err}");
    assert!(err.contains("this turn is in no commit, and its files stay in the draft"), "{err}");
}

#[test]
fn a_commit_reads_well_without_reedclaw() {
    if !require(&["git"]) {
        return;
    }
    let more = "";
    let answers = [
        json!({"when": "Question:", "rounds": [[{"text": "Say hello in a.txt"}]]}),
        write("greet", "a.txt", "hello\n"),
    ];
    let home = home(&answers, more);
    let config = home.path().join(".config/reedclaw/config.lua");
    let text = fs::read_to_string(&config).expect("the config");
    let with_router = text.replace(
        "models = {",
        "default_model = \"all\", models = { all = { kind = \"router\", rules = { default = \"m\", summary = \"m\" } },",
    );
    fs::write(&config, with_router).expect("a config");
    let (code, _, told) = reedclaw(home.path(), &["agent", "--session", "new", "-m", "greet the world\nplease"]);
    assert_eq!(code, Some(0), "{told}");
    let project = home.path().join("project");
    let branch = git(&project, &["for-each-ref", "--format=%(refname)", "refs/heads/reedclaw"]);
    let message = git(&project, &["log", "-1", "--format=%B", &branch]);
    assert!(
        message.starts_with("Say hello in a.txt\n\nAsked: greet the world\nplease\n\ndone\n\nReedClaw-Session: "),
        "{message}"
    );
    for trailer in ["ReedClaw-Turn: 1", "ReedClaw-Act: turn", "ReedClaw-State: whole", "ReedClaw-Model: "] {
        assert!(message.lines().any(|line| line.starts_with(trailer)), "{trailer}: {message}");
    }
    assert_eq!(git(&project, &["log", "-1", "--format=%(trailers:key=ReedClaw-Turn,valueonly)", &branch]), "1");
}

#[test]
fn a_persons_command_runs_on_the_bench_and_its_changes_become_a_commit_after_a_yes() {
    if !require(&["git", "bwrap"]) {
        return;
    }
    let (home, id) = with_two_turns();
    let (at, project) = (home.path(), home.path().join("project"));
    let before = held(&project.join(".git/refs/heads"));
    let run = |arguments: &[&str]| reedclaw(at, &[&["session", "run"][..], arguments].concat());
    let (code, out, err) = run(&[&id, "cat a.txt; echo told >&2; echo mine > a.txt; rm more.txt"]);
    assert_eq!((code, out.as_str()), (Some(3), "new\n"), "{err}");
    assert!(err.contains("told") && err.contains("~ a.txt") && err.contains("- more.txt"), "{err}");
    assert_eq!(differing(&held(&project.join(".git/refs/heads")), &before), Vec::<&PathBuf>::new());
    assert_eq!(output(at, &["session", "cat", &id, "a.txt"]), "new\n", "without a yes nothing is kept");
    let (code, _, err) = run(&[&id, "--yes", "sh", "-c", "echo \"a b\" > a.txt; exit 3"]);
    assert_eq!(code, Some(1), "the command's failure: {err}");
    assert!(err.contains("its changes are in the session as commit"), "{err}");
    assert_eq!(output(at, &["session", "cat", &id, "a.txt"]), "a b\n");
    assert_eq!(fs::read_to_string(project.join("a.txt")).expect("a file"), "old\n", "the checkout stays as it is");
    let log = output(at, &["session", "log", &id, "--json"]);
    let last: Value = serde_json::from_str(log.lines().last().expect("a line")).expect("JSON");
    assert_eq!((last["act"].as_str(), last["turn"].as_u64()), (Some("user"), None));
    assert!(last["subject"].as_str().expect("a subject").starts_with("run sh -c"), "{last}");
    // Files that git ignores still exist for the next command.
    run(&[&id, "--yes", "echo built/ > .gitignore; mkdir built; echo 1 > built/x"]);
    let (code, out, err) = run(&[&id, "cat built/x"]);
    assert_eq!((code, out.as_str()), (Some(0), "1\n"), "{err}");
    output(at, &["session", "amend", &id, "-m", "with mine"]);
    let log = output(at, &["session", "log", &id]);
    assert!(log.contains("with mine") && !log.contains("run sh"), "{log}");
}

#[test]
fn a_command_in_a_partial_clone_names_what_is_missing_and_the_way_to_it() {
    if !require(&["git", "bwrap"]) {
        return;
    }
    let home = home(&[], "");
    let (origin, project) = (home.path().join("origin"), home.path().join("project"));
    fs::rename(&project, &origin).expect("renamed");
    git(&origin, &["config", "uploadpack.allowFilter", "true"]);
    let url = format!("file://{}", origin.display());
    git(home.path(), &["clone", "-q", "--filter=blob:none", "--no-checkout", &url, "project"]);
    let id = output(home.path(), &["session", "start", "partial"]);
    let run = ["session", "run", id.trim(), "--yes", "cat a.txt"];
    let (code, out, err) = reedclaw(home.path(), &run);
    assert_ne!(code, Some(0), "{out}{err}");
    assert!(err.contains("was never fetched: this is a partial clone"), "{out}{err}");
    let (_, way) = err.split_once("`git ").expect("a way out");
    let (way, _) = way.split_once('`').expect("its end");
    git(&project, &way.split(' ').collect::<Vec<_>>());
    assert_eq!(output(home.path(), &run), "old\n");
}

/// Once, it was reported that a good repository couldn't be used.
#[test]
fn without_a_home_no_repository_is_blamed() {
    let home = home(&[], "");
    let mut command = Command::new(program());
    command.args(["session", "list"]).env_clear().env("PATH", TEST_PATH).env("LANG", "C.UTF-8");
    let done = command.current_dir(home.path().join("project")).stdin(Stdio::null()).output().expect("it runs");
    let told = String::from_utf8_lossy(&done.stderr);
    assert_eq!(done.status.code(), Some(1), "{told}");
    assert!(told.contains("no HOME is set, so there is no state directory"), "{told}");
}
