//! On a machine without copies, an unknown command runs first in a mode that only allows reading. If it was refused anything in
//! the workspace, the person is asked before it runs again. The built executable with a scripted model.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::changes::{home, rounds, work};
use crate::need::TEST_PATH;
use crate::pty::{Session, Spawn, program};

/// Programs of the workspace that the policy doesn't know: one only reads, one writes and reports a failure, one hides the
/// failure.
const PROGRAMS: [(&str, &str); 3] = [
    ("looks", "#!/bin/sh\nwc -l <a.txt\n"),
    ("writes", "#!/bin/sh\nset -e\nexport SEEN=1\necho written >made.txt\nrm a.txt\necho done\n"),
    ("hides", "#!/bin/sh\necho written >made.txt 2>/dev/null || :\nmv a.txt b.txt 2>/dev/null\necho done\n"),
];

/// A home in the tier of Landlock whose model runs these commands, one per round, when the question is `please`.
fn scene(commands: &[&str], autonomy: &str) -> TempDir {
    let calls: Vec<(&str, Value)> = commands.iter().map(|it| ("shell", json!({"command": it}))).collect();
    let rest = format!("security = {{tier = \"landlock\", autonomy = \"{autonomy}\"}}");
    let home = home(&[rounds("please", &calls, "that was it")], &rest);
    fs::write(work(home.path(), "a.txt"), "one\ntwo\n").expect("a file");
    fs::write(home.path().join("notes.txt"), "PRIVATE-NOTE\n").expect("a file");
    for (name, text) in PROGRAMS {
        let path = work(home.path(), name);
        fs::write(&path, text).expect("a program");
        fs::set_permissions(path, fs::Permissions::from_mode(0o755)).expect("its mode");
    }
    home
}

/// The results that the model gets without a person to ask.
fn results(home: &Path) -> Vec<Value> {
    let mut command = Command::new(program());
    command.args(["agent", "--json", "--path", ".", "-m", "please"]).env_clear().current_dir(home.join("work"));
    command.env("PATH", TEST_PATH).env("HOME", home).env("LANG", "C.UTF-8").stdin(Stdio::null());
    let Output { status, stdout, stderr } = command.output().expect("it runs");
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("UTF-8");
    let (out, err) = (text(stdout), text(stderr));
    assert!(status.success(), "{out}{err}");
    let lines = out.lines().map(|line| serde_json::from_str::<Value>(line).expect("JSON"));
    lines.filter(|line| line["event"] == "tool_done").map(|line| line["result"].clone()).collect()
}

fn output(result: &Value) -> &str {
    result["output"].as_str().unwrap_or_default()
}

#[test]
fn a_command_that_only_looks_needs_no_question() {
    for autonomy in ["readonly", "supervised"] {
        let home = scene(&["./looks", "python3 -c 'print(len(open(\"a.txt\").read()))' | cat"], autonomy);
        let results = results(home.path());
        let seen: Vec<(&str, &Value)> = results.iter().map(|it| (output(it), &it["success"])).collect();
        assert_eq!(seen, [("2", &json!(true)), ("8", &json!(true))], "{autonomy}: {results:?}");
    }
}

/// If a jail shows tools of the home and the system anyway, reading them needs no question; credentials among them stay masked.
#[test]
fn tools_of_the_home_and_files_of_the_system_are_read_unasked() {
    let commands = [
        "ls ~/.cargo/registry/src/*/ | grep ^tokio-",
        "cat ~/.cargo/registry/src/one/tokio-1/lib.rs",
        "cat /proc/sys/kernel/ostype",
        "cat ~/.cargo/credentials.toml",
        "cat ~/.cargo/registry/key",
        "cat ~/notes.txt",
    ];
    for tier in ["overlay", "landlock"] {
        let calls: Vec<(&str, Value)> = commands.iter().map(|it| ("shell", json!({"command": it}))).collect();
        let home = home(&[rounds("please", &calls, "that was it")], &format!("security = {{tier = \"{tier}\"}}"));
        let registry = home.path().join(".cargo/registry");
        fs::create_dir_all(registry.join("src/one/tokio-1")).expect("directories");
        fs::write(registry.join("src/one/tokio-1/lib.rs"), "a library\n").expect("a file");
        fs::write(home.path().join(".cargo/credentials.toml"), "PRIVATE-TOKEN\n").expect("a file");
        fs::write(home.path().join("notes.txt"), "PRIVATE-NOTE\n").expect("a file");
        std::os::unix::fs::symlink("../credentials.toml", registry.join("key")).expect("a link");
        let results = results(home.path());
        let seen: Vec<&str> = results[..3].iter().map(output).collect();
        assert_eq!(seen, ["tokio-1", "a library", "Linux"], "{tier}: {results:?}");
        for result in &results[3..] {
            assert!(!result.to_string().contains("PRIVATE") && result["success"] == false, "{tier}: {result}");
        }
        assert_eq!(results.len(), commands.len());
    }
}

/// A build program first runs read-only if its options announce that it only reads. The kernel checks whether that is true.
#[test]
fn a_command_that_announces_a_look_is_asked_about_only_if_it_changes_something() {
    let on_path = "PATH=$PWD/bin:$PATH";
    let (looks, lies) = (format!("{on_path}; black --check a.txt"), format!("{on_path}; jest --listTests"));
    let (changes, named) = (format!("{on_path}; black a.txt"), format!("{on_path}; black --check a.txt >out.txt"));
    for autonomy in ["readonly", "supervised"] {
        let home = scene(&[&looks, &lies, &changes, &named], autonomy);
        fs::create_dir(work(home.path(), "bin")).expect("a directory");
        for (name, text) in [("black", "#!/bin/sh\nwc -l <\"$2\"\n"), ("jest", PROGRAMS[1].1)] {
            let path = work(home.path(), "bin").join(name);
            fs::write(&path, text).expect("a program");
            fs::set_permissions(path, fs::Permissions::from_mode(0o755)).expect("its mode");
        }
        let results = results(home.path());
        assert_eq!((output(&results[0]), &results[0]["success"]), ("2", &json!(true)), "{autonomy}: {results:?}");
        let is_refused = output(&results[1]).contains("[changing the workspace was refused: ");
        assert!(is_refused && results[1]["success"] == false, "{autonomy}: {results:?}");
        // A program without such an option, and a change that the words name, wait for a person.
        for result in &results[2..] {
            assert!(result["success"] == false && !output(result).contains('2'), "{autonomy}: {result}");
        }
        assert_eq!(fs::read_to_string(work(home.path(), "a.txt")).expect("the file"), "one\ntwo\n");
        assert!(!work(home.path(), "made.txt").exists() && !work(home.path(), "out.txt").exists());
    }
}

#[test]
fn needs_found_by_a_first_look_are_refused_without_a_person() {
    for autonomy in ["readonly", "supervised"] {
        let home =
            scene(&["./writes", "./hides", "cat ../notes.txt; python3 -c 'open(\"../notes.txt\").read()'"], autonomy);
        let results = results(home.path());
        let refused = "[changing the workspace was refused: ";
        for (result, success) in results.iter().zip([false, true]) {
            assert!(output(result).contains(refused) && result["success"] == success, "{autonomy}: {result}");
        }
        assert!(!output(&results[2]).contains("PRIVATE-NOTE") && results[2]["success"] == false, "{:?}", results[2]);
        assert_eq!(fs::read_to_string(work(home.path(), "a.txt")).expect("the file"), "one\ntwo\n");
        assert!(!work(home.path(), "made.txt").exists() && !work(home.path(), "b.txt").exists());
    }
}

#[test]
fn with_a_yes_the_command_runs_again_and_may_change_the_workspace() {
    let home = scene(&["LAST=first; ./hides", "echo again-$LAST"], "supervised");
    let session = Session::spawn(Spawn::reedclaw().home(home.path()).cwd(&home.path().join("work")).size(50, 110));
    session.expect_prompt();
    session.send(b"?please\r");
    session.expect("the question after the look", |screen| {
        let text = screen.contents();
        text.contains("it tried to write made.txt") && text.contains("may change the workspace") && text.contains("[y]")
    });
    assert!(!work(home.path(), "made.txt").exists(), "nothing was changed by the look");
    session.send(b"y");
    session.expect_text("that was it");
    session.expect_prompt();
    assert_eq!(fs::read_to_string(work(home.path(), "made.txt")).expect("the file"), "written\n");
    assert!(work(home.path(), "b.txt").exists() && !work(home.path(), "a.txt").exists());
    session.run(":show 2");
    session.expect_text("again-first");
    session.run(":undo");
    session.expect_outside("the undo", || work(home.path(), "a.txt").exists().then_some(()));
    assert!(!work(home.path(), "made.txt").exists());
}

#[test]
fn the_explanation_of_a_command_says_that_it_looks_first() {
    let explained = |tier: &str, line: &str| -> Value {
        let mut command = Command::new(program());
        command.args([
            "policy",
            "explain",
            "--json",
            "--tier",
            tier,
            "--home",
            "/home/u",
            "--workspace",
            "/home/u/w",
            line,
        ]);
        let output = command.env_clear().env("PATH", TEST_PATH).env("HOME", "/nowhere").output().expect("it runs");
        serde_json::from_slice(&output.stdout).expect("JSON")
    };
    for tier in ["landlock", "bubblewrap"] {
        let unknown = explained(tier, "./report.sh");
        assert_eq!((&unknown["decision"], &unknown["looks_first"]), (&json!("run"), &json!(true)), "{tier}");
        let known = explained(tier, "touch a");
        assert_eq!((&known["decision"], known.get("looks_first")), (&json!("ask"), None), "{tier}");
    }
    for tier in ["overlay", "none", "off"] {
        assert_eq!(explained(tier, "./report.sh").get("looks_first"), None, "{tier}");
    }
}
