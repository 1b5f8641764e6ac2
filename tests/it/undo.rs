//! Undo of a model's changes: the built executable with a scripted model, in a session and without one.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::need::{TEST_PATH, require};
use crate::pty::{Session, Spawn, program};

const CONFIG: &str = "return { console = {usage = false}, memory = {auto = false}, context = {project = false},\n\
    editor = {autosuggest = false}, security = {autonomy = \"full\"}, models = { m = { kind = \"mock\", script = SCRIPT } }, MORE }";

/// A home with a workspace and a model that runs these commands, each for its question.
fn home(answers: &[Value], more: &str) -> TempDir {
    let home = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a home");
    let script = home.path().join("answers.jsonl");
    let lines: Vec<String> = answers.iter().map(Value::to_string).collect();
    fs::write(&script, lines.join("\n")).expect("a script");
    let config = CONFIG.replace("SCRIPT", &format!("{:?}", script.display().to_string())).replace("MORE", more);
    fs::create_dir_all(home.path().join(".config/reedclaw")).expect("a directory");
    fs::write(home.path().join(".config/reedclaw/config.lua"), config).expect("a config");
    fs::create_dir_all(home.path().join("reedclaw-workspace")).expect("a workspace");
    home
}

/// The same, with a sandbox that works on the files directly.
fn asked_before(answers: &[Value], more: &str) -> TempDir {
    let home = home(answers, more);
    let path = home.path().join(".config/reedclaw/config.lua");
    let config = fs::read_to_string(&path).expect("the config");
    fs::write(path, config.replace("security = {", "security = {tier = \"landlock\", ")).expect("a config");
    home
}

fn calls(when: &str, tool: &str, arguments: Value) -> Value {
    json!({"when": when, "rounds": [[{"tool_call": {"name": tool, "arguments": arguments}}], [{"text": "done"}]]})
}

fn runs(when: &str, command: &str) -> Value {
    calls(when, "shell", json!({"command": command}))
}

fn reedclaw(home: &Path, args: &[&str]) -> (Option<i32>, String, String) {
    let mut command = Command::new(program());
    command.args(args).env_clear().env("PATH", TEST_PATH).env("HOME", home).env("LANG", "C.UTF-8");
    command.current_dir(home.join("reedclaw-workspace"));
    let Output { status, stdout, stderr } = command.stdin(Stdio::null()).output().expect("it runs");
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("UTF-8");
    (status.code(), text(stdout), text(stderr))
}

fn ask(home: &Path, question: &str) -> String {
    let (code, out, err) = reedclaw(home, &["agent", "-m", question]);
    assert_eq!(code, Some(0), "{out}{err}");
    err
}

/// Every file below a directory, with its mode.
fn held(top: &Path) -> BTreeMap<PathBuf, (u32, Vec<u8>)> {
    let mut found = BTreeMap::new();
    let mut waiting = vec![top.to_owned()];
    while let Some(at) = waiting.pop() {
        for entry in fs::read_dir(at).expect("a directory").flatten() {
            let data = entry.metadata().expect("an entry");
            let bytes = if data.is_dir() { Vec::new() } else { fs::read(entry.path()).unwrap_or_default() };
            if data.is_dir() {
                waiting.push(entry.path());
            }
            let path = entry.path().strip_prefix(top).expect("below").to_owned();
            found.insert(path, (data.permissions().mode(), bytes));
        }
    }
    found
}

#[test]
fn a_command_and_an_edit_are_undone_without_a_session() {
    let answers = [
        runs("mess", "printf 'new\\n' >a.txt; mkdir -p sub/deep; echo made >sub/deep/b; mv gone sub; chmod 600 kept"),
        calls("edit", "edit_replace_exact", json!({"path": "a.txt", "old": "new", "new": "edited"})),
    ];
    let home = home(&answers, "");
    let ws = home.path().join("reedclaw-workspace");
    for (name, text) in [("a.txt", "old\n"), ("gone", "gone\n"), ("kept", "kept\n")] {
        fs::write(ws.join(name), text).expect("a file");
    }
    let before = held(&ws);
    let told = ask(home.path(), "mess it up");
    assert!(told.contains("changed 5 files · reedclaw undo"), "{told}");
    let told = ask(home.path(), "edit it");
    assert!(told.contains("changed 1 file · reedclaw undo"), "{told}");
    let after = held(&ws);
    let (_, out, _) = reedclaw(home.path(), &["steps"]);
    assert!(out.contains("edited a.txt") && out.contains("printf") && out.contains("5 files"), "{out}");
    let (_, out, _) = reedclaw(home.path(), &["steps", "--diff", "2"]);
    assert!(out.contains("-new\n+edited\n"), "{out}");
    let (code, out, err) = reedclaw(home.path(), &["undo", "2"]);
    assert_eq!(code, Some(0), "{out}{err}");
    assert_eq!(held(&ws), before);
    let (code, out, err) = reedclaw(home.path(), &["redo", "2"]);
    assert_eq!(code, Some(0), "{out}{err}");
    assert_eq!(held(&ws), after);
    // Only the store of steps has the text.
    let undo = home.path().join(".local/state/reedclaw/undo");
    let mode = fs::metadata(&undo).expect("the store").permissions().mode();
    assert_eq!(mode & 0o077, 0, "{mode:o}");
}

/// Once, a new line in a name began a line of the difference, which could show another change than the real one.
#[test]
fn a_name_with_a_new_line_is_one_line_of_a_steps_difference() {
    let command = r"echo made >$'a\n+++ b.txt'; echo plain >c.txt; echo run >d; chmod +x d; : >e";
    let home = home(&[runs("mess", command)], "");
    let _ = ask(home.path(), "mess it up");
    let (_, out, _) = reedclaw(home.path(), &["steps", "--diff", "1"]);
    assert!(out.contains("+++ a\\n+++ b.txt\n"), "{out}");
    assert!(!out.lines().any(|line| line.starts_with("+++ b.txt")), "{out}");
    // The lines of a file show that it is new; they don't show a mode, or a file without lines.
    let modes: Vec<&str> = out.lines().filter(|line| line.contains(" → ")).collect();
    assert_eq!(modes, ["d: nothing → file 755", "e: nothing → file 644"], "{out}");
}

#[test]
fn no_edit_is_made_over_what_was_written_since_the_model_read() {
    let edit = |old: &str, new: &str| {
        let arguments = json!({"path": "a.txt", "old": old, "new": new});
        json!([{"tool_call": {"name": "edit_replace_exact", "arguments": arguments}}])
    };
    let read = json!([{"tool_call": {"name": "read_file", "arguments": {"path": "./a.txt", "range": "1"}}}]);
    let append = json!([{"tool_call": {"name": "shell", "arguments": {"command": "echo theirs >>a.txt"}}}]);
    // The model's own edit is expected; another program's change isn't, until the model has read it.
    let rounds = [&read, &edit("one", "two"), &edit("two", "three"), &append, &edit("three", "lost"), &read];
    let mut rounds: Vec<Value> = rounds.into_iter().cloned().collect();
    rounds.extend([edit("three", "four"), json!([{"text": "done"}])]);
    let home = home(&[json!({"when": "edit", "rounds": rounds})], "limits = {tool_rounds_once = 9}");
    let file = home.path().join("reedclaw-workspace/a.txt");
    fs::write(&file, "one\n").expect("a file");
    let told = ask(home.path(), "edit it");
    assert_eq!(told.matches("a.txt has changed since it was read: 2 lines now").count(), 1, "{told}");
    assert_eq!(fs::read_to_string(&file).expect("the file"), "four\ntheirs\n", "{told}");
}

#[test]
fn the_suggested_undo_works_from_the_persons_directory() {
    let home = home(&[runs("mess", "echo new >a.txt")], "");
    let elsewhere = home.path().join("elsewhere");
    fs::create_dir_all(elsewhere.join(".git")).expect("a repository");
    let in_it = |line: &str| {
        let mut command = Command::new("bash");
        command.args(["-c", line]).env_clear().env("PATH", TEST_PATH).env("HOME", home.path());
        let output = command.current_dir(&elsewhere).stdin(Stdio::null()).output().expect("it runs");
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    let file = home.path().join("reedclaw-workspace/a.txt");
    let told = in_it(&format!("{} agent -m mess", program().display()));
    assert!(file.exists(), "{told}");
    let undo = told.split_once(" · reedclaw undo").and_then(|(_, rest)| rest.lines().next());
    let undo = undo.unwrap_or_else(|| panic!("no undo is told: {told}"));
    let told = in_it(&format!("{} undo{undo}", program().display()));
    assert!(!file.exists(), "{undo}: {told}");
}

#[test]
fn git_s_own_state_is_never_touched() {
    if !require(&["git"]) {
        return;
    }
    let home = home(&[runs("mess", "echo new >tracked; echo new >ignored; echo new >untracked; mv staged moved")], "");
    let ws = home.path().join("reedclaw-workspace");
    let git = |words: &str| {
        let mut command = Command::new("git");
        command.args(words.split(' ')).current_dir(&ws).env_clear().env("PATH", TEST_PATH).env("HOME", home.path());
        for (name, value) in [
            ("GIT_AUTHOR_NAME", "n"),
            ("GIT_AUTHOR_EMAIL", "e"),
            ("GIT_COMMITTER_NAME", "n"),
            ("GIT_COMMITTER_EMAIL", "e"),
        ] {
            command.env(name, value);
        }
        let output = command.output().expect("git");
        assert!(output.status.success(), "{words}: {output:?}");
        String::from_utf8(output.stdout).expect("UTF-8")
    };
    git("init -q");
    fs::write(ws.join(".gitignore"), "/ignored\n").expect("a file");
    fs::write(ws.join("tracked"), "stashed\n").expect("a file");
    git("add .");
    git("commit -q -m first");
    fs::write(ws.join("tracked"), "in the stash\n").expect("a file");
    git("stash -q");
    fs::write(ws.join("staged"), "staged\n").expect("a file");
    git("add staged");
    fs::write(ws.join("tracked"), "worked on\n").expect("a file");
    fs::write(ws.join("ignored"), "a secret\n").expect("a file");
    let before = held(&ws);
    let status = git("--no-optional-locks status --porcelain");
    ask(home.path(), "mess it up");
    assert_eq!(fs::read_to_string(ws.join("ignored")).expect("a file"), "new\n");
    let (code, out, err) = reedclaw(home.path(), &["undo"]);
    assert_eq!(code, Some(0), "{out}{err}");
    // Index, references, stash, logs, hooks and objects are also identical.
    assert_eq!(held(&ws), before);
    assert_eq!(git("--no-optional-locks status --porcelain"), status);
    // A step is a pair of trees that git itself can read.
    let store = fs::read_dir(home.path().join(".local/state/reedclaw/undo")).expect("a store").flatten().next();
    let store = store.expect("one workspace").path();
    let step = fs::read_to_string(store.join("steps/000001")).expect("a record");
    let tree = |name: &str| step.lines().find_map(|line| line.strip_prefix(name)).expect("a tree").to_owned();
    let told = git(&format!(
        "--git-dir {} diff --name-status -M100% {} {}",
        store.join("git").display(),
        tree("before "),
        tree("after ")
    ));
    assert_eq!(told, "M\tignored\nR100\tstaged\tmoved\nM\ttracked\nA\tuntracked\n");
}

#[test]
fn undo_leaves_the_persons_own_changes_alone() {
    let ws = "reedclaw-workspace";
    let script = runs("mess", "echo new >a.txt; echo new >b.txt").to_string();
    let config = CONFIG.replace("SCRIPT", "os.getenv(\"HOME\") .. \"/answers.jsonl\"").replace("MORE", "");
    let spawn = Spawn::reedclaw().size(40, 100).file(".config/reedclaw/config.lua", &config);
    let spawn = spawn.file("answers.jsonl", &script);
    let session = Session::spawn(spawn.file(&format!("{ws}/a.txt"), "old\n").file(&format!("{ws}/b.txt"), "old\n"));
    session.expect_prompt();
    session.run(&format!("cd ~/{ws}"));
    session.run("?mess it up");
    session.expect_text("changed 2 files · :undo");
    session.expect_prompt();
    session.run("clear");
    session.run(":steps");
    session.expect_text("echo new >a.txt");
    session.run("clear");
    session.run(":diff 1");
    session.expect_text("1 + new");
    session.run("clear");
    session.run("echo mine >a.txt");
    session.run(":undo");
    session.expect_line("+mine");
    session.expect_text("a.txt has changed since");
    session.expect_text(":undo --force");
    session.run("clear; cat a.txt b.txt");
    session.expect("nothing was done", |screen| screen.contents().contains("mine\nnew"));
    session.run("clear");
    session.run(":undo --file b.txt");
    session.expect_text("Restored one file");
    session.run(":undo 2 --force");
    session.expect_text("saved as step 3");
    session.run("clear; cat a.txt b.txt");
    session.expect("all is old", |screen| screen.contents().contains("old\nold"));
    session.run(":undo");
    session.expect_text("Undid step 3");
    session.run("clear; cat a.txt");
    session.expect_line("mine");
}

/// The records of steps of the only workspace.
fn records(home: &Path) -> usize {
    let folders = fs::read_dir(home.join(".local/state/reedclaw/undo")).into_iter().flatten().flatten();
    let steps = folders.flat_map(|folder| fs::read_dir(folder.path().join("steps")).into_iter().flatten().flatten());
    steps.filter(|step| step.path().extension().is_none()).count()
}

/// Once, the changes of a job were recorded only when the model asked for it, or at the end of the session: the person's changes
/// since then counted as the job's, and an undo deleted them.
#[test]
fn a_job_s_step_is_made_at_its_end_and_later_changes_are_the_person_s() {
    let job = json!({"command": "read -r line <go; echo \"$line\" >job.txt", "background": true});
    let home = home(&[calls("begin", "shell", job), calls("ask", "shell_job", json!({"job": 1}))], "");
    let ws = home.path().join("reedclaw-workspace");
    fs::write(ws.join("kept.txt"), "old\n").expect("a file");
    nix::unistd::mkfifo(&ws.join("go"), nix::sys::stat::Mode::S_IRWXU).expect("a pipe");
    let session = Session::spawn(Spawn::reedclaw().home(home.path()).cwd(&ws).size(40, 100));
    session.expect_prompt();
    session.run("?begin it");
    session.expect_text("done");
    session.expect_prompt();
    session.run("clear; echo from the job >go");
    session.expect_outside("the step of the job", || (records(home.path()) == 1).then_some(()));
    session.run("echo mine >>kept.txt; echo mine >mine.txt");
    session.run(":steps");
    session.expect_text("[as a job, until its end]");
    session.run("?ask for it");
    session.expect_text("changed 1 file");
    session.expect_prompt();
    session.run("clear");
    session.run(":undo");
    session.expect_text("Undid step 1");
    let read = |name: &str| fs::read_to_string(ws.join(name)).unwrap_or_default();
    assert_eq!(
        (read("job.txt"), read("kept.txt"), read("mine.txt")),
        (String::new(), "old\nmine\n".into(), "mine\n".into())
    );
    session.line("exit");
    session.expect_exit();
    assert_eq!(records(home.path()), 1, "nothing is the job's any more");
}

#[test]
fn without_undo_no_contents_are_stored() {
    let home = home(&[runs("mess", "echo new >a.txt")], "undo = {enabled = false}");
    let told = ask(home.path(), "mess it up");
    assert!(!told.contains("undo"), "{told}");
    let kept = held(&home.path().join(".local/state/reedclaw/undo"));
    assert!(!kept.keys().any(|path| path.to_string_lossy().contains("/objects/")), "{kept:?}");
}

#[test]
fn a_workspace_that_is_too_large_is_reported_once() {
    let home = asked_before(&[runs("mess", "echo new >a.txt")], "undo = {files_max = 3}");
    let ws = home.path().join("reedclaw-workspace");
    (0..10).for_each(|number| fs::write(ws.join(number.to_string()), "x").expect("a file"));
    let told = ask(home.path(), "mess it up");
    assert!(told.contains("can't be undone: the workspace has more than 3 files"), "{told}");
    assert_eq!(fs::read_to_string(ws.join("a.txt")).expect("it ran"), "new\n");
}

#[test]
fn a_command_of_an_answer_that_the_person_runs_is_a_step_too() {
    let script = json!({"when": "mess", "rounds": [[{"text": "CMD: echo new >a.txt"}]]}).to_string();
    let config = CONFIG.replace("SCRIPT", "os.getenv(\"HOME\") .. \"/answers.jsonl\"").replace("MORE", "");
    let spawn = Spawn::reedclaw().file(".config/reedclaw/config.lua", &config).file("answers.jsonl", &script);
    let session = Session::spawn(spawn.file("reedclaw-workspace/a.txt", "old\n"));
    session.expect_prompt();
    session.run("cd ~/reedclaw-workspace");
    session.type_text("?mess it up\r");
    session.expect_text("run [r]");
    session.type_text("r");
    session.expect_text("changed 1 file · :undo");
    session.expect_prompt();
    session.run("clear");
    session.run(":undo");
    session.expect_text("Undid step 1");
    session.run("clear; cat a.txt");
    session.expect_line("old");
}

#[test]
fn the_first_question_in_a_repository_begins_the_look_and_elsewhere_it_does_not() {
    if !require(&["git"]) {
        return;
    }
    let script = json!({"when": "hello", "rounds": [[{"text": "hi there"}]]}).to_string();
    let config = CONFIG.replace("SCRIPT", "os.getenv(\"HOME\") .. \"/answers.jsonl\"").replace("MORE", "");
    let spawn = Spawn::reedclaw().file(".config/reedclaw/config.lua", &config).file("answers.jsonl", &script);
    let look =
        "cd ~/.local/state/reedclaw\nuntil cat undo/*/table >/dev/null 2>&1; do :; done\ncat undo/*/workspace; echo\n";
    let session = Session::spawn(spawn.size(24, 120).file("reedclaw-workspace/a.txt", "old\n").file("look", look));
    session.expect_prompt();
    session.run("mkdir ~/repo; cd ~/repo; git init -q; echo a >a; git add a");
    session.type_text("?hello\r");
    session.expect_text("hi there");
    session.expect_prompt();
    session.run("clear; sh ~/look");
    session.expect_text("/repo");
    session.run("clear; cd ~/reedclaw-workspace");
    session.type_text("?hello\r");
    session.expect_text("hi there");
    session.expect_prompt();
    session.run("clear; ls ~/.local/state/reedclaw/undo | wc -l");
    session.expect_line("1");
}

#[test]
fn if_undo_is_impossible_the_person_is_asked() {
    let script = runs("mess", "echo new >a.txt").to_string();
    let config = CONFIG.replace("SCRIPT", "os.getenv(\"HOME\") .. \"/answers.jsonl\"").replace("MORE", "");
    let config = config.replace("security = {", "security = {tier = \"landlock\", ");
    let spawn = Spawn::reedclaw().file(".config/reedclaw/config.lua", &config).file("answers.jsonl", &script);
    // A file at the path of the store.
    let spawn = spawn.file(".local/state/reedclaw/undo", "in the way").file("reedclaw-workspace/a.txt", "old\n");
    let session = Session::spawn(spawn);
    session.expect_prompt();
    session.run("cd ~/reedclaw-workspace");
    session.type_text("?mess it up\r");
    session.expect_text("can't be undone");
    session.expect_text("your answer:");
    session.type_text("2\r");
    session.expect_text("denied");
    session.expect_prompt();
    session.run("clear; cat a.txt");
    session.expect_line("old");
}

/// Ten calls change the same line of one file, and ten others a file each, all concurrently.
#[test]
fn edits_at_the_same_time_wait_for_each_other_and_only_what_was_done_is_a_step() {
    let home = home(&[], "");
    let ws = home.path().join("reedclaw-workspace");
    let edit_all = |path: &(dyn Fn(usize) -> String + Sync)| -> usize {
        std::thread::scope(|scope| {
            let edit = |number: usize| {
                let call = json!({"path": path(number), "old": "start", "new": format!("by {number}")}).to_string();
                reedclaw(home.path(), &["tool", "run", "edit_replace_exact", "--workspace", ".", "--json", &call]).0
            };
            let running: Vec<_> = (0..10).map(|number| scope.spawn(move || edit(number))).collect();
            running.into_iter().filter_map(|it| it.join().expect("no panic")).filter(|code| *code == 0).count()
        })
    };
    for name in (0..10).map(|number| format!("{number}.txt")).chain(["one.txt".to_owned()]) {
        fs::write(ws.join(name), "start\n").expect("a file");
    }
    assert_eq!(edit_all(&|_| "one.txt".to_owned()), 1, "the text is there once");
    assert_eq!(edit_all(&|number| format!("{number}.txt")), 10, "different files only wait");
    let (_, out, _) = reedclaw(home.path(), &["steps"]);
    assert_eq!(out.lines().filter(|line| line.contains("1 file ")).count(), 11, "{out}");
    for number in 0..10 {
        assert_eq!(fs::read_to_string(ws.join(format!("{number}.txt"))).expect("a file"), format!("by {number}\n"));
    }
    // The oldest step is that of the one edit that was made.
    let (code, out, err) = reedclaw(home.path(), &["undo", "11"]);
    assert_eq!(code, Some(0), "{out}{err}");
    for name in ["one.txt", "0.txt", "9.txt"] {
        assert_eq!(fs::read_to_string(ws.join(name)).expect("a file"), "start\n", "{name}");
    }
}
