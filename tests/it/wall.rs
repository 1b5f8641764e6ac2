//! A model's command runs at once on a copy of the workspace; the person is asked only about its changes and refusals. The built
//! executable with a scripted model, in a session and without one.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::changes::{home, numbered, read, rounds, work};
use crate::need::TEST_PATH;
use crate::pty::{Session, Spawn, program};
use crate::sessions::git;

/// The key that accepts the changes of a command.
pub const KEEP: &str = "accept [y]";

/// A home whose model runs these commands, one per round, when it is asked to `please`.
pub fn scene(commands: &[&str], rest: &str) -> TempDir {
    let calls: Vec<(&str, Value)> = commands.iter().map(|it| ("shell", json!({"command": it}))).collect();
    let home = home(&[rounds("please", &calls, "that was it")], &format!("limits = {{tool_rounds_once = 30}}, {rest}"));
    fs::write(work(home.path(), "a.txt"), numbered(30)).expect("a file");
    fs::create_dir(work(home.path(), "old")).expect("a directory");
    fs::write(work(home.path(), "old/x"), "x\n").expect("a file");
    home
}

pub fn reedclaw(home: &Path, args: &[&str]) -> (Option<i32>, String, String) {
    let mut command = Command::new(program());
    command.args(args).env_clear().env("PATH", TEST_PATH).env("HOME", home).env("LANG", "C.UTF-8");
    command.current_dir(home.join("work"));
    let Output { status, stdout, stderr } = command.stdin(Stdio::null()).output().expect("it runs");
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("UTF-8");
    (status.code(), text(stdout), text(stderr))
}

/// The results that the model got, without a person to ask.
pub fn results(home: &Path) -> Vec<Value> {
    let (code, out, err) = reedclaw(home, &["agent", "--json", "--path", ".", "-m", "please"]);
    assert_eq!(code, Some(0), "{out}{err}");
    let lines = out.lines().map(|line| serde_json::from_str::<Value>(line).expect("JSON"));
    lines.filter(|line| line["event"] == "tool_done").map(|line| line["result"].clone()).collect()
}

pub fn session(home: &Path) -> Session {
    let session = Session::spawn(Spawn::reedclaw().home(home).cwd(&home.join("work")).size(50, 110));
    session.expect_prompt();
    session
}

pub fn output(result: &Value) -> &str {
    result["output"].as_str().unwrap_or_default()
}

#[test]
fn looking_commands_run_unasked_in_every_autonomy() {
    let looks = [
        "sh -c 'wc -l < a.txt'",
        "./tool",
        "awk 'NR == 2' a.txt | tr a-z A-Z",
        "find . -name '*.txt' -exec cat {} + | tail -n 1",
        "touch a.txt; cat a.txt > a.new; mv a.new a.txt; chmod 644 a.txt; head -n 1 a.txt",
        "mkdir t && cd t && echo 1 > x && cat x && cd .. && rm -r t",
    ];
    for autonomy in ["readonly", "supervised", "full"] {
        let home = scene(&looks, &format!("security = {{autonomy = \"{autonomy}\", forbidden_commands = {{}}}}"));
        let tool = work(home.path(), "tool");
        fs::write(&tool, "#!/bin/sh\necho from a program of the workspace\n").expect("a program");
        fs::set_permissions(&tool, fs::Permissions::from_mode(0o755)).expect("its mode");
        fs::set_permissions(work(home.path(), "a.txt"), fs::Permissions::from_mode(0o644)).expect("its mode");
        let results = results(home.path());
        let expected = ["30", "from a program of the workspace", "LINE 2", "line 30", "line 1", "1"];
        for (result, expected) in results.iter().zip(expected) {
            assert_eq!((output(result), &result["success"]), (expected, &json!(true)), "{autonomy}: {result}");
        }
        assert_eq!(results.len(), looks.len());
        assert_eq!(read(home.path(), "a.txt"), numbered(30));
    }
}

#[test]
fn readonly_drops_changes_and_tells_the_model() {
    let home = scene(&["echo more >> a.txt; echo new > b.txt; echo done"], "security = {autonomy = \"readonly\"}");
    let result = &results(home.path())[0];
    assert!(output(result).starts_with("done\n[dropped, it would have changed: M a.txt, + b.txt; "), "{result}");
    assert_eq!((&result["success"], &result["error"]["code"]), (&json!(false), &json!("changes-dropped")));
    assert_eq!((read(home.path(), "a.txt"), read(home.path(), "b.txt")), (numbered(30), "(no file)".to_owned()));
}

#[test]
fn full_keeps_changes_unasked_but_for_protected_files() {
    let commands = [
        "echo more >> a.txt; rm -r old; mkdir -p src; echo new > src/b.txt; ln -s src/b.txt link; echo evil > .envrc",
        "cat src/b.txt link; ls",
    ];
    let home = scene(&commands, "security = {autonomy = \"full\", forbidden_commands = {}}");
    let results = results(home.path());
    let first = output(&results[0]);
    assert!(first.contains("[kept: ") && first.contains("M a.txt") && first.contains("D old/x"), "{first}");
    assert!(first.contains("[dropped, it would have changed: + .envrc; "), "{first}");
    assert!(output(&results[1]).starts_with("new\nnew\n"), "{results:?}");
    assert_eq!(read(home.path(), "a.txt"), numbered(30) + "more\n");
    assert_eq!(read(home.path(), ".envrc"), "(no file)");
    assert!(!work(home.path(), "old").exists());
    assert_eq!(fs::read_link(work(home.path(), "link")).expect("a link"), Path::new("src/b.txt"));
    let (code, out, err) = reedclaw(home.path(), &["undo"]);
    assert_eq!(code, Some(0), "{out}{err}");
    assert_eq!((read(home.path(), "a.txt"), read(home.path(), "old/x")), (numbered(30), "x\n".to_owned()));
    assert!(!work(home.path(), "src").exists() && !work(home.path(), "link").is_symlink());
}

#[test]
fn full_changes_no_file_unasked_that_gits_configuration_names() {
    let commands = ["mkdir -p tools; for f in tools/clean tools/other a.inc monitor; do echo new > $f; done"];
    let home = scene(&commands, "security = {autonomy = \"full\", forbidden_commands = {}}");
    let at = work(home.path(), ".");
    git(&at, &["init", "-q"]);
    git(&at, &["config", "filter.x.clean", "tools/clean %f"]);
    git(&at, &["config", "include.path", "../a.inc"]);
    fs::write(work(home.path(), "a.inc"), "# nothing yet\n").expect("a file");
    fs::write(home.path().join(".gitconfig"), "[core]\n fsmonitor = ./monitor\n").expect("a file");
    let results = results(home.path());
    let told = "[dropped, it would have changed: M a.inc, + monitor, + tools/clean; ";
    assert!(output(&results[0]).contains(told), "{results:?}");
    assert_eq!(read(home.path(), "tools/other"), "new\n", "the rest was kept");
    assert_eq!(read(home.path(), "a.inc"), "# nothing yet\n");
    assert!(!work(home.path(), "tools/clean").exists() && !work(home.path(), "monitor").exists());
}

/// Once, the user's next `git commit` wrote its message over their `.bashrc`, and `git status` below `docs` ran a program that
/// the model had put into a config there.
#[test]
fn full_makes_no_link_out_of_the_workspace_and_no_bare_repository_unasked() {
    let commands = [
        "sh plant.sh; ln -s old/x in; echo kept >b.txt",
        "git init -q --bare docs; ls docs/HEAD",
        "python3 -m venv --without-pip .venv; .venv/bin/python3 -c 'print(1)'",
    ];
    let home = scene(&commands, "security = {autonomy = \"full\", forbidden_commands = {}}");
    git(&work(home.path(), "."), &["init", "-q"]);
    let script = "ln -s ../../.bashrc .git/COMMIT_EDITMSG; ln -s ~/new out; ln -s .envrc other\n";
    fs::write(work(home.path(), "plant.sh"), script).expect("a script");
    let results = results(home.path());
    let first = output(&results[0]);
    assert!(first.contains("[dropped, it would have changed: + .git/COMMIT_EDITMSG, + other, + out; "), "{first}");
    assert!(work(home.path(), "in").is_symlink() && read(home.path(), "b.txt") == "kept\n", "{first}");
    assert!([".git/COMMIT_EDITMSG", "other", "out"].iter().all(|link| !work(home.path(), link).is_symlink()));
    assert!(output(&results[1]).contains("[dropped, it would have changed: + docs/HEAD; "), "{results:?}");
    assert!(!work(home.path(), "docs/HEAD").exists());
    assert!(work(home.path(), ".venv/bin/python3").exists(), "{results:?}");
}

#[test]
fn full_removes_no_repository_unasked() {
    let commands = ["python3 -c 'import shutil; shutil.rmtree(\".git\")'; rm old/x", "mv .git g; ln -s g .git"];
    for command in commands {
        let home = scene(&[command], "security = {autonomy = \"full\", forbidden_commands = {}}");
        let at = work(home.path(), ".");
        for words in [&["init", "-q"][..], &["add", "-A"], &["commit", "-qm", "all"]] {
            git(&at, words);
        }
        let results = results(home.path());
        assert!(output(&results[0]).contains("[dropped, it would have changed: "), "{command}: {results:?}");
        git(&at, &["fsck", "--full"]);
        git(&at, &["log", "--oneline"]);
        assert_eq!(work(home.path(), "old/x").exists(), !command.contains("rm old/x"), "the rest was kept");
    }
}

#[test]
fn changes_are_asked_about_with_their_differences() {
    let home = scene(&["sed -i 's/line 5$/line five/' a.txt; echo new > b.txt; rm -r old; echo x > .envrc"], {
        "security = {forbidden_commands = {}}"
    });
    let session = session(home.path());
    session.send(b"?please do\r");
    session.expect_text(KEEP);
    session.expect("all that it did", |screen| {
        let text = screen.contents();
        [
            "The command ran on a copy. Keep its changes?",
            "exit 0",
            "!  .envrc  new, 2 bytes  PROTECTED: ",
            "D  old/  1 file",
            "line five",
            "b.txt",
        ]
        .iter()
        .all(|part| text.contains(part))
    });
    assert_eq!(read(home.path(), "b.txt"), "(no file)", "nothing is real before the answer");
    session.send(b"n");
    session.expect_text("that was it");
    assert_eq!((read(home.path(), "a.txt"), read(home.path(), "old/x")), (numbered(30), "x\n".to_owned()));
    session.expect_prompt();
    session.run("clear");

    session.send(b"?please do\r");
    session.expect_text(KEEP);
    session.send(b"y");
    session.expect_text("that was it");
    assert_eq!(read(home.path(), "a.txt"), numbered(30).replace("line 5\n", "line five\n"));
    assert_eq!((read(home.path(), "b.txt"), read(home.path(), ".envrc")), ("new\n".to_owned(), "x\n".to_owned()));
    assert!(!work(home.path(), "old").exists());
    session.expect_prompt();
    session.run(":undo");
    session.expect_text("Undid step 1");
    assert_eq!((read(home.path(), "a.txt"), read(home.path(), "old/x")), (numbered(30), "x\n".to_owned()));
}

/// Once, a renamed file was a deletion and a new file, each with all its lines, which had to be paged through.
#[test]
fn a_file_with_another_name_is_one_row_of_the_question() {
    let command =
        "mv a.txt b.txt; mv old new; cp c.txt e.txt; rm c.txt; chmod +x e.txt; mv d.txt f.txt; echo x >> f.txt";
    let home = scene(&[command], "");
    ["c.txt", "d.txt"].iter().for_each(|name| fs::write(work(home.path(), name), "1\n").expect("a file"));
    let session = session(home.path());
    session.send(b"?please do\r");
    session.expect_text(KEEP);
    session.expect("one row for each", |screen| {
        let text = screen.contents();
        let rows =
            ["R  a.txt  renamed to b.txt, with the same content", "R  old/x  renamed to new/x, with the same content"];
        // A file with another mode or other content is shown as usual.
        let others = ["c.txt  +0 −1  deleted", "e.txt  new, 2 bytes, executable", "f.txt  +2 −0  new file"];
        rows.iter().chain(&others).all(|part| text.contains(part)) && !text.contains("line 5")
    });
    session.send(b"y");
    session.expect_text("that was it");
    assert_eq!((read(home.path(), "a.txt"), read(home.path(), "b.txt")), ("(no file)".to_owned(), numbered(30)));
    assert_eq!(read(home.path(), "new/x"), "x\n");
    session.expect_prompt();
    session.run(":undo");
    session.expect_text("Undid step 1");
    assert_eq!((read(home.path(), "a.txt"), read(home.path(), "b.txt")), (numbered(30), "(no file)".to_owned()));
}

#[test]
fn a_file_that_the_user_changes_meanwhile_is_left_to_the_user() {
    let home = scene(&["echo theirs > a.txt; echo new > b.txt"], "");
    let session = session(home.path());
    session.send(b"?please do\r");
    session.expect_text(KEEP);
    fs::write(work(home.path(), "a.txt"), "mine\n").expect("the user's edit");
    session.send(b"y");
    session.expect_text("that was it");
    session.expect_text("[left as they are: a.txt (");
    assert_eq!((read(home.path(), "a.txt"), read(home.path(), "b.txt")), ("mine\n".to_owned(), "new\n".to_owned()));
}

#[test]
fn the_shell_keeps_its_state_from_command_to_command() {
    let commands = [
        "x=5; export Y=7; list=(1 '2 3'); greet() { echo \"hello $1\"; }; alias ll='ls -l'; umask 027; cd old",
        "echo $x $Y \"${list[1]}\"; greet you; alias ll; umask; pwd | sed 's:.*/::'; set -o pipefail",
        "shopt -qo pipefail && echo piped; exit 3",
        "echo \"still $x\"; sh -c 'echo $Y'",
    ];
    let home = scene(&commands, "");
    let results = results(home.path());
    assert_eq!(output(&results[1]), "5 7 2 3\nhello you\nalias ll='ls -l'\n0027\nold", "{results:?}");
    assert_eq!((output(&results[2]), &results[2]["metadata"]["exitCode"]), ("piped", &json!(3)));
    assert_eq!(output(&results[3]), "still 5\n7", "{results:?}");
}

/// Once, an activated virtual environment, and the additions of start-up files to `PATH`, didn't count for the model.
#[test]
fn commands_find_programs_where_the_live_shell_does() {
    let home = scene(&["greet; export MINE=1; true", "greet"], "");
    for (name, word) in [("venv/bin/greet", "hello from the environment"), ("other/greet", "hello from elsewhere")] {
        let program = work(home.path(), name);
        fs::create_dir_all(program.parent().expect("a directory")).expect("a directory");
        fs::write(&program, format!("#!/bin/sh\necho {word}\n")).expect("a program");
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).expect("a mode");
    }
    fs::write(work(home.path(), "venv/activate"), "PATH=$PWD/venv/bin:$PATH\n").expect("a file");
    let session = session(home.path());
    let ask = |numbers: [usize; 2], text: &str| {
        session.run("clear");
        session.send(b"?please do\r");
        session.expect_text("that was it");
        session.expect_prompt();
        for number in numbers {
            session.run("clear");
            session.run(&format!(":show {number}"));
            session.expect_text(text);
        }
    };
    ask([1, 2], "greet: command not found");
    session.run(". venv/activate");
    ask([3, 4], "hello from the environment");
    session.run("export PATH=$PWD/other:$PATH");
    ask([5, 6], "hello from elsewhere");
}

#[test]
fn files_left_in_a_private_home_do_not_reach_network_commands() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("an address").port();
    let speaks = format!("sh fetch.sh; (exec 3<>/dev/tcp/127.0.0.1/{port})");
    let home = scene(&["sh plant.sh", &speaks, "sh look.sh"], "");
    for (name, script) in [
        ("plant.sh", "echo 'url = http://elsewhere.example' > ~/.settings"),
        ("fetch.sh", "test -e ~/.settings && touch led; echo fetched > ~/.cached; touch ran"),
        ("look.sh", "cat ~/.cached >> ran"),
    ] {
        fs::write(work(home.path(), name), script).expect("a script");
    }
    let session = session(home.path());
    session.send(b"?please do\r");
    session.expect_text("run once [y]");
    for shown in [&[KEEP][..], &["accepted", KEEP], &["that was it"]] {
        session.send(b"y");
        shown.iter().for_each(|text| session.expect_text(text));
    }
    assert!(!work(home.path(), "led").exists());
    assert_eq!(read(home.path(), "ran"), "fetched\n", "later commands find what was downloaded");
}

#[test]
fn files_left_in_a_private_home_do_not_reach_approved_jobs() {
    let shell = |command: &str| ("shell", json!({"command": command}));
    let job = |command: &str| ("shell", json!({"command": command, "background": true}));
    let wait = |number: u32| ("shell_job", json!({"job": number}));
    let calls = [shell("sh plant.sh"), job("sh serve.sh"), wait(1), shell("sh change.sh"), job("sh serve.sh"), wait(2)];
    let home = home(&[rounds("please", &calls, "that was it")], "limits = {tool_rounds_once = 30}");
    for (name, script) in [
        ("plant.sh", "mkdir -p ~/.config/planted; echo '[alias]' > ~/.config/planted/config; touch /tmp/planted"),
        (
            "serve.sh",
            "ls -A ~ ~/.config /tmp >> seen; cat ~/.cached >> seen 2>&1; echo fetched > ~/.cached; touch /tmp/log",
        ),
        ("change.sh", "cat ~/.cached ~/.config/planted/config; ls /tmp; echo changed > ~/.cached; cat ~/.cached"),
    ] {
        fs::write(work(home.path(), name), script).expect("a script");
    }
    let session = session(home.path());
    session.send(b"?please do\r");
    for next in ["sh change.sh", "that was it"] {
        session.expect_text("run once [y]");
        session.send(b"y");
        session.expect_text(next);
    }
    session.expect_prompt();
    let seen = read(home.path(), "seen");
    assert!(!["planted", "changed"].iter().any(|it| seen.contains(it)) && seen.contains("log"), "{seen}");
    assert!(seen.ends_with("fetched\n"), "what an earlier job left is there: {seen}");
    session.run(":show 4");
    for text in ["fetched", "[alias]", "log", "planted", "changed"] {
        session.expect_text(text);
    }
}

#[test]
fn an_agreed_command_that_misses_a_file_in_tmp_tells_the_model_why() {
    let listed = "cat /tmp/list; exec 3<>/dev/tcp/192.0.2.7/9";
    let home = scene(&["echo one > /tmp/list", listed], "");
    let session = session(home.path());
    session.send(b"?please do\r");
    session.expect_text("run once [y]");
    session.send(b"y");
    session.expect_text("that was it");
    session.expect_prompt();
    session.run(":show 2");
    session.expect_text("[it started without the files in /tmp and the home");
}

#[test]
fn an_action_is_written_down_when_it_starts_and_when_it_is_kept() {
    let home = scene(&["echo new > b.txt"], "security = {autonomy = \"full\"}");
    results(home.path());
    let text = fs::read_to_string(home.path().join(".local/state/reedclaw/receipts.jsonl")).expect("receipts");
    let receipts: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    let row = |it: &Value| format!("{} {}", it["kind"].as_str().unwrap_or("?"), it["tool"].as_str().unwrap_or("?"));
    let rows: Vec<String> = receipts.iter().map(row).collect();
    assert_eq!(rows, ["intent shell", "outcome shell", "intent shell", "outcome shell"]);
    assert_eq!(receipts[0]["sandbox"], "overlay");
    assert_ne!(receipts[0]["args_hash"], receipts[2]["args_hash"]);
    assert_eq!(reedclaw(home.path(), &["receipt", "verify"]).0, Some(0));
}

#[test]
fn the_jail_hides_the_home_the_network_and_other_processes() {
    let commands = [
        "sh look.sh",
        "cat .hidden/x; grep -r hush .; ls .hidden",
        "sh net.sh",
        "ls /proc | grep -c '^[0-9]'",
        "sh write.sh",
        "cat /tmp/note",
    ];
    let hidden = work(Path::new("~"), ".hidden").display().to_string();
    let home = scene(&commands, &format!("security = {{forbidden_paths = {{{hidden:?}}}}}"));
    fs::write(home.path().join("secret.txt"), "hush").expect("a file");
    // The effects of the script aren't known before it runs.
    fs::write(work(home.path(), "look.sh"), "cat ~/secret.txt; ls -A ~").expect("a script");
    let write = "echo kept for the session > /tmp/note; echo > ~/private; cat /tmp/note";
    fs::write(work(home.path(), "write.sh"), write).expect("a script");
    fs::create_dir(work(home.path(), ".hidden")).expect("a directory");
    fs::write(work(home.path(), ".hidden/x"), "hush").expect("a file");
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("an address").port();
    let script = format!("bash -c 'exec 3<>/dev/tcp/127.0.0.1/{port}' && echo reached");
    fs::write(work(home.path(), "net.sh"), script).expect("a script");
    let results = results(home.path());
    assert!(results[..2].iter().all(|it| !it.to_string().contains("hush\"")), "{results:?}");
    assert!(!results[..2].iter().any(|it| output(it).contains("hush")), "{results:?}");
    assert!(!output(&results[2]).contains("reached"), "{results:?}");
    let seen: usize = output(&results[3]).trim().parse().expect("a number");
    assert!(seen <= 4, "{seen} processes");
    assert_eq!(output(&results[4]).lines().next(), Some("kept for the session"), "{results:?}");
    assert_eq!(output(&results[5]), "kept for the session", "{results:?}");
    assert!(!home.path().join("private").exists());
}

#[test]
fn always_keeps_the_same_commands_changes_at_the_same_paths() {
    let home = scene(&["cat seed >> a.txt; [ -s more ] && cp more b.txt; true"], "");
    fs::write(work(home.path(), "seed"), "x\n").expect("a file");
    let session = session(home.path());
    session.send(b"?please do\r");
    session.expect_text("always, in this project [a]");
    session.send(b"a");
    session.expect_text("press a again [a]");
    session.send(b"a");
    session.expect_text("that was it");
    session.expect_prompt();
    session.run("clear");
    session.send(b"?please do\r");
    session.expect_text("that was it");
    assert_eq!(read(home.path(), "a.txt"), numbered(30) + "x\nx\n", "the second time nobody is asked");
    session.expect_prompt();
    session.run("echo new > more; clear");
    session.send(b"?please do\r");
    session.expect_text(KEEP);
    session.expect_text("b.txt");
    session.send(b"n");
    session.expect_text("that was it");
    assert_eq!(read(home.path(), "b.txt"), "(no file)", "another path is asked about");
}

#[test]
fn protected_files_that_a_job_makes_are_put_back() {
    let job = "until test -e go; do sleep 0.05; done; echo evil > .envrc; mkdir -p .github/workflows sub/.git/hooks; \
               echo evil > .github/workflows/x.yml; echo evil > sub/.git/hooks/pre-push; mkdir deep; ln -s ../../.bashrc deep/lk; \
               ln -s ../../../.bashrc sub/.git/COMMIT_EDITMSG; echo fine > plain.txt";
    let calls = [
        ("shell", json!({"command": "sh job.sh", "background": true})),
        ("shell", json!({"command": "touch go; echo mine > AGENTS.md"})),
        ("shell", json!({"job": 1})),
        ("shell", json!({"command": "cat plain.txt"})),
    ];
    let config = "limits = {tool_rounds_once = 30}, security = {autonomy = \"full\", forbidden_commands = {}}";
    let home = home(&[rounds("please", &calls, "that was it")], config);
    fs::write(work(home.path(), "job.sh"), job).expect("a script");
    let results = results(home.path());
    // The job may end before the command that waits for it: any result may contain the report, anywhere.
    let told: String = results.iter().map(Value::to_string).collect();
    for name in [
        ".envrc: new",
        ".github/workflows/x.yml: new",
        "sub/.git/hooks/pre-push: new",
        "deep/lk: new, a link",
        "sub/.git/COMMIT_EDITMSG: new, a link",
    ] {
        assert!(told.contains(name) && told.contains("were restored"), "{name}: {results:?}");
    }
    let made = [".envrc", ".github/workflows/x.yml", "sub/.git/hooks/pre-push", "deep/lk", "sub/.git/COMMIT_EDITMSG"];
    for name in made {
        assert!(work(home.path(), name).symlink_metadata().is_err(), "{name}");
    }
    // Some of the files may have been the person's.
    let (_, steps, _) = reedclaw(home.path(), &["steps"]);
    assert!(steps.contains("files that other programs run, restored"), "{steps}");
    assert_eq!(output(&results[3]), "fine");
    assert!(!told.contains("AGENTS.md: "), "what was dropped is no change: {told}");
}

#[test]
fn a_checker_in_the_background_can_only_read_the_workspace() {
    let calls = [("shell", json!({"command": "make -n", "background": true})), ("shell", json!({"job": 1}))];
    for autonomy in ["readonly", "supervised"] {
        let config = format!("security = {{autonomy = \"{autonomy}\"}}");
        let home = home(&[rounds("please", &calls, "that was it")], &config);
        // Reading this file runs code of the repository, which the person wasn't asked about.
        let makefile = "X := $(shell echo evil > planted; echo seen)\nall:\n\techo $(X)\n";
        fs::write(work(home.path(), "Makefile"), makefile).expect("a file");
        let results = results(home.path());
        let told: String = results.iter().map(output).collect();
        assert!(told.contains("echo seen"), "{autonomy}: it ran: {results:?}");
        assert_eq!(read(home.path(), "planted"), "(no file)", "{autonomy}");
    }
}

#[test]
fn a_look_of_git_that_refreshes_its_index_changes_nothing() {
    let home = scene(&["git diff --stat && cmp -s .git/index before; echo $?", "git add b.txt"], "");
    fs::write(work(home.path(), "b.txt"), "b\n").expect("a file");
    for words in [&["init", "-q"][..], &["add", "a.txt"], &["commit", "-qm", "one"]] {
        git(&work(home.path(), "."), words);
    }
    fs::copy(work(home.path(), ".git/index"), work(home.path(), "before")).expect("a copy");
    let file = fs::File::options().write(true).open(work(home.path(), "a.txt")).expect("a file");
    file.set_modified(std::time::SystemTime::now() - std::time::Duration::from_secs(600)).expect("a time");
    let results = results(home.path());
    // Git has written its index on the copy, which then differs.
    assert_eq!((output(&results[0]), &results[0]["metadata"]["changes"]), ("1", &json!(0)), "{results:?}");
    // An addition to the index is a change.
    assert!(output(&results[1]).contains(".git/index"), "{results:?}");
}

#[test]
fn late_changes_of_a_job_become_a_step_at_its_end() {
    let job = "until test -e go; do sleep 0.05; done; echo late > late.txt; echo more >> a.txt";
    let calls = [
        ("shell", json!({"command": job, "background": true})),
        ("shell", json!({"command": "echo mine > go"})),
        ("shell_job", json!({"job": 1})),
    ];
    let config = "limits = {tool_rounds_once = 30}, security = {autonomy = \"full\"}";
    let home = home(&[rounds("please", &calls, "that was it")], config);
    fs::write(work(home.path(), "a.txt"), "a\n").expect("a file");
    let results = results(home.path());
    assert_eq!(results[2]["metadata"]["files_changed"], json!(2), "{results:?}");
    let (_, steps, _) = reedclaw(home.path(), &["steps"]);
    assert!(steps.contains("2 files    until test -e go"), "{steps}");
    let (_, difference, _) = reedclaw(home.path(), &["steps", "--diff", "2"]);
    assert!(difference.contains("+late\n") && !difference.contains("mine"), "{difference}");
    assert_eq!(reedclaw(home.path(), &["undo"]).0, Some(0));
    let now = ["a.txt", "late.txt", "go"].map(|name| read(home.path(), name));
    assert_eq!(now, ["a\n", "(no file)", "mine\n"]);
}

/// Once, the option reopened what an unreadable config had closed.
#[test]
fn the_option_of_autonomy_does_not_open_what_a_mistake_closed() {
    let home = scene(&[], "");
    fs::write(home.path().join(".config/reedclaw/config.lua"), "return { security = { autonomy = 'full', ")
        .expect("a config");
    let call = |autonomy: &str| {
        let call = [
            "tool",
            "run",
            "--workspace",
            ".",
            "--autonomy",
            autonomy,
            "shell",
            "--json",
            "{\"command\":\"echo w > new\"}",
        ];
        reedclaw(home.path(), &call)
    };
    let (_, _, told) = call("full");
    assert!(told.contains("--autonomy full isn't taken while the config has a mistake: "), "{told}");
    let (_, out, _) = call("readonly");
    assert!(out.contains("dropped"), "{out}");
    assert!(!work(home.path(), "new").exists());
}
