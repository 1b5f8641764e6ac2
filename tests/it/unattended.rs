//! Unattended work: in `full` everything inside the workspace runs without a person, and calls that need more are refused with a
//! reason. Everyday tasks, each done by a scripted model that makes no mistakes: every failure is the program's fault.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::{Value, json};

use crate::changes::{home, read, rounds, work};
use crate::need::{TEST_PATH, require};
use crate::pty::program;

/// A task: its files, its commands, and the expected result.
struct Task {
    name: &'static str,
    files: &'static [(&'static str, &'static str)],
    commands: &'static [&'static str],
    /// The expected files of the workspace; `None` means that the path must not exist.
    left: &'static [(&'static str, Option<&'static str>)],
    /// Text that the last command must print.
    says: &'static str,
}

const CALC: &str = "def add(a, b):\n    return a - b\n";
const TEST: &str = "from calc import add\nassert add(2, 3) == 5, add(2, 3)\nprint('ok')\n";

const TASKS: &[Task] = &[
    Task {
        name: "create",
        files: &[],
        commands: &["printf 'port = 8080\\n' > settings.ini"],
        left: &[("settings.ini", Some("port = 8080\n"))],
        says: "",
    },
    Task {
        name: "edit in place",
        files: &[("a.ini", "port = 1\n")],
        commands: &["sed -i 's/port = 1/port = 2/' a.ini && cat a.ini"],
        left: &[("a.ini", Some("port = 2\n"))],
        says: "port = 2",
    },
    Task {
        name: "python inline",
        files: &[("n.txt", "1\n2\n3\n")],
        commands: &["python3 -c 'print(sum(int(line) for line in open(\"n.txt\")))'"],
        left: &[],
        says: "6",
    },
    Task {
        name: "run a script",
        files: &[("s.sh", "echo made > made.txt; echo ran\n")],
        commands: &["bash s.sh"],
        left: &[("made.txt", Some("made\n"))],
        says: "ran",
    },
    Task {
        name: "make a program executable and run it",
        files: &[("say", "#!/bin/sh\necho said\n")],
        commands: &["chmod +x say", "./say"],
        left: &[],
        says: "said",
    },
    Task {
        name: "build and run",
        files: &[("a.c", "#include <stdio.h>\nint main(void) { puts(\"built\"); return 0; }\n")],
        commands: &["cc -o a a.c", "./a"],
        left: &[],
        says: "built",
    },
    Task {
        name: "delete files",
        files: &[("a.tmp", "x"), ("b.tmp", "x"), ("c.txt", "x")],
        commands: &["rm -f *.tmp; ls"],
        left: &[("a.tmp", None), ("b.tmp", None), ("c.txt", Some("x"))],
        says: "c.txt",
    },
    Task {
        name: "delete a directory",
        files: &[("build/out/x.o", "x"), ("src/x.c", "x")],
        commands: &["rm -rf build", "test -e build || echo gone"],
        left: &[("build", None), ("src/x.c", Some("x"))],
        says: "gone",
    },
    Task {
        name: "move and rename",
        files: &[("old/a.txt", "a")],
        commands: &["mkdir new && mv old/a.txt new/b.txt && rmdir old"],
        left: &[("old", None), ("new/b.txt", Some("a"))],
        says: "",
    },
    Task {
        name: "sort",
        files: &[("names.txt", "mallory\nalice\nbob\n")],
        commands: &["sort names.txt > sorted.txt"],
        left: &[("sorted.txt", Some("alice\nbob\nmallory\n"))],
        says: "",
    },
    Task {
        name: "mend what its test finds",
        files: &[("calc.py", CALC), ("test.py", TEST)],
        commands: &["python3 test.py", "sed -i 's/a - b/a + b/' calc.py", "python3 test.py"],
        left: &[("calc.py", Some("def add(a, b):\n    return a + b\n"))],
        says: "ok",
    },
    Task {
        name: "rename in many files",
        files: &[("a.py", "old_name()\n"), ("lib/b.py", "old_name()\n")],
        commands: &["grep -rl old_name . | xargs sed -i s/old_name/new_name/g"],
        left: &[("a.py", Some("new_name()\n")), ("lib/b.py", Some("new_name()\n"))],
        says: "",
    },
    Task {
        name: "commit",
        files: &[("a.txt", "a\n")],
        commands: &[
            "git init -q . && git add a.txt && git -c user.name=a -c user.email=a@b.example commit -qm one",
            "git log --format=%s",
        ],
        left: &[],
        says: "one",
    },
    Task {
        name: "make",
        files: &[("Makefile", "out.txt: in.txt\n\ttr a-z A-Z < in.txt > out.txt\n"), ("in.txt", "abc\n")],
        commands: &["make && cat out.txt"],
        left: &[("out.txt", Some("ABC\n"))],
        says: "ABC",
    },
    Task {
        name: "archive",
        files: &[("d/a", "a"), ("d/b", "b")],
        commands: &["tar czf d.tar.gz d && rm -r d && tar xzf d.tar.gz && ls d"],
        left: &[("d/a", Some("a")), ("d/b", Some("b"))],
        says: "b",
    },
    Task {
        name: "many steps",
        files: &[],
        commands: &[
            "echo 1 > n",
            "echo 2 >> n",
            "echo 3 >> n",
            "echo 4 >> n",
            "echo 5 >> n",
            "echo 6 >> n",
            "echo 7 >> n",
            "echo 8 >> n; wc -l < n",
        ],
        left: &[("n", Some("1\n2\n3\n4\n5\n6\n7\n8\n"))],
        says: "8",
    },
    Task {
        name: "keep variables and directories",
        files: &[("d/x", "x\n")],
        commands: &["cd d; export WORD=kept", "echo $WORD >> x; cat x"],
        left: &[("d/x", Some("x\nkept\n"))],
        says: "kept",
    },
];

/// Ten more tasks of the kinds that depend on the jail itself: links to the system, a private loopback, git's own directories,
/// many files, names that need quotes.
const HARDER: &[Task] = &[
    Task {
        name: "a virtual environment, used by the next command",
        files: &[("m.py", "import sys\nprint('own' if sys.prefix.endswith('.venv') else 'system')\n")],
        commands: &["python3 -m venv --without-pip .venv", ".venv/bin/python m.py"],
        left: &[],
        says: "own",
    },
    Task {
        name: "a server and its client in one command",
        files: &[("page.txt", "served\n")],
        commands: &["python3 -m http.server 8765 >/dev/null 2>&1 & \
             python3 -c '
import urllib.request
while True:
    try:
        print(urllib.request.urlopen(\"http://127.0.0.1:8765/page.txt\").read().decode())
        break
    except OSError:
        pass
'; kill %1"],
        left: &[("page.txt", Some("served\n"))],
        says: "served",
    },
    Task {
        name: "branches, a conflict, a merge, a tag",
        files: &[("a.txt", "one\n")],
        commands: &[
            "git init -q -b main . && git add a.txt \
             && git -c user.name=a -c user.email=a@b.example commit -qm one && git switch -qc other && echo two > a.txt \
             && git -c user.name=a -c user.email=a@b.example commit -qam two && git switch -q main && echo three > a.txt \
             && git -c user.name=a -c user.email=a@b.example commit -qam three",
            "git -c user.name=a -c user.email=a@b.example merge other; git checkout --theirs a.txt && git add a.txt \
             && git -c user.name=a -c user.email=a@b.example commit -qm merged && git tag v1 && git log --format=%s -1 v1",
        ],
        left: &[("a.txt", Some("two\n"))],
        says: "merged",
    },
    Task {
        name: "find the commit that broke it",
        files: &[],
        commands: &[
            "git init -q . && g='git -c user.name=a -c user.email=a@b.example' && for n in 1 2 3 4 5; do echo $n > n; \
             git add n; $g commit -qm \"to $n\"; done",
            "git bisect start HEAD HEAD~4 >/dev/null && git bisect run sh -c 'test $(cat n) -lt 4' | grep 'first bad'; \
             git show -s --format=%s refs/bisect/bad; git bisect reset >/dev/null",
        ],
        left: &[("n", Some("5\n"))],
        says: "to 4",
    },
    Task {
        name: "put changes aside and take them back",
        files: &[("a.txt", "a\n")],
        commands: &[
            "git init -q . && git add . && git -c user.name=a -c user.email=a@b.example commit -qm one && echo b >> a.txt \
             && git -c user.name=a -c user.email=a@b.example stash -q && cat a.txt",
            "git stash pop -q && cat a.txt && git stash list | wc -l",
        ],
        left: &[("a.txt", Some("a\nb\n"))],
        says: "b",
    },
    Task {
        name: "a database",
        files: &[],
        commands: &[
            "python3 -c 'import sqlite3; c = sqlite3.connect(\"d.db\"); c.execute(\"create table t(n)\"); \
             c.executemany(\"insert into t values (?)\", [(n,) for n in range(100)]); c.commit()'",
            "python3 -c 'import sqlite3; print(sqlite3.connect(\"d.db\").execute(\"select sum(n) from t\").fetchone()[0])'",
        ],
        left: &[],
        says: "4950",
    },
    Task {
        name: "a patch",
        files: &[
            ("a.txt", "one\ntwo\nthree\n"),
            ("fix.patch", "--- a/a.txt\n+++ b/a.txt\n@@ -1,3 +1,3 @@\n one\n-two\n+2\n three\n"),
        ],
        commands: &["patch -p1 < fix.patch && rm fix.patch && cat a.txt"],
        left: &[("a.txt", Some("one\n2\nthree\n")), ("fix.patch", None)],
        says: "2",
    },
    Task {
        name: "names that need quotes",
        files: &[("a b's.txt", "x\n"), ("d/ü.txt", "u\n")],
        commands: &[
            "mv \"a b's.txt\" 'new name.txt'; mv d/ü.txt 'd/$x.txt'; find . -name '*.txt' -print0 | xargs -0 cat",
        ],
        left: &[("new name.txt", Some("x\n")), ("d/$x.txt", Some("u\n")), ("d/ü.txt", None)],
        says: "u",
    },
    Task {
        name: "thousands of files, by several processes",
        files: &[],
        commands: &[
            "mkdir out; seq 3000 | xargs -P 4 -n 100 sh -c 'for n; do echo $n > out/$n; done' _",
            "find out -type f | wc -l; rm -r out",
        ],
        left: &[("out", None)],
        says: "3000",
    },
    Task {
        name: "modes and links",
        files: &[("run.sh", "#!/bin/sh\nreadlink latest; cat latest/v\n"), ("v2/v", "two\n")],
        commands: &["ln -s v2 latest; chmod 700 run.sh; ln run.sh again.sh", "./again.sh; stat -c %a run.sh"],
        left: &[("latest/v", Some("two\n"))],
        says: "700",
    },
];

/// The results of these commands, without a person to ask.
fn run(home: &Path) -> Vec<Value> {
    let mut command = Command::new(program());
    command.args(["agent", "--json", "--autonomy", "full", "--path", ".", "-m", "please"]).env_clear();
    command.env("PATH", TEST_PATH).env("HOME", home).env("LANG", "C.UTF-8").current_dir(home.join("work"));
    let done = command.stdin(Stdio::null()).output().expect("it runs");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert!(done.status.success(), "{}{}", text(&done.stdout), text(&done.stderr));
    let lines = text(&done.stdout);
    let lines = lines.lines().map(|line| serde_json::from_str::<Value>(line).expect("JSON"));
    lines.filter(|line| line["event"] == "tool_done").map(|line| line["result"].clone()).collect()
}

fn calls(commands: &[&str]) -> Vec<(&'static str, Value)> {
    commands.iter().map(|command| ("shell", json!({"command": command}))).collect()
}

#[test]
fn everyday_tasks_need_nobody() {
    if require(&["python3", "cc", "git", "make"]) {
        done_by_nobody(TASKS);
    }
}

#[test]
fn tasks_that_lean_on_the_jail_need_nobody() {
    if require(&["python3", "git", "patch"]) {
        done_by_nobody(HARDER);
    }
}

#[test]
fn a_server_in_the_background_answers_later_commands() {
    if !require(&["python3"]) {
        return;
    }
    let server = json!({"command": "exec python3 -m http.server 8766", "background": true});
    let client = "python3 -c '
import urllib.request
while True:
    try:
        print(urllib.request.urlopen(\"http://127.0.0.1:8766/page.txt\").read().decode())
        break
    except OSError:
        pass
'";
    let end = json!({"job": 1, "kill": true});
    let calls = [("shell", server), ("shell", json!({"command": client})), ("shell_job", end)];
    let home = home(&[rounds("please", &calls, "that was it")], "");
    fs::write(work(home.path(), "page.txt"), "served\n").expect("a file");
    let results = run(home.path());
    assert_eq!(results.len(), 3, "{results:#?}");
    assert!(results[1]["output"].as_str().unwrap_or_default().contains("served"), "{results:#?}");
    assert_eq!(results[2]["success"], json!(true), "{results:#?}");
}

/// Does each task in a fresh workspace, and checks that all of it is done.
fn done_by_nobody(tasks: &[Task]) {
    let mut failed = Vec::new();
    for task in tasks {
        let home = home(&[rounds("please", &calls(task.commands), "that was it")], "");
        fs::remove_dir(home.path().join("work/.git")).expect("the empty one");
        for (name, text) in task.files {
            let path = work(home.path(), name);
            fs::create_dir_all(path.parent().expect("a parent")).expect("a directory");
            fs::write(path, text).expect("a file");
        }
        let results = run(home.path());
        let last = results.last().and_then(|it| it["output"].as_str()).unwrap_or_default().to_owned();
        let says = task.says.is_empty() || last.lines().any(|line| line.contains(task.says));
        let holds = task.left.iter().all(|(name, text)| match text {
            Some(text) => read(home.path(), name) == *text,
            None => !work(home.path(), name).exists(),
        });
        if results.len() != task.commands.len() || !says || !holds {
            failed.push(format!("{}: {results:#?}", task.name));
        }
    }
    assert!(failed.is_empty(), "{} of {} failed: {}", failed.len(), tasks.len(), failed.join("\n"));
}

#[test]
fn unattended_calls_beyond_the_workspace_are_refused_with_a_reason() {
    let home =
        home(&[rounds("please", &calls(&["git push", "echo x > ../outside.txt", "cat ../other.txt"]), "no")], "");
    fs::write(home.path().join("other.txt"), "not for a model").expect("a file");
    for result in run(home.path()) {
        assert_eq!((&result["success"], &result["error"]["code"]), (&json!(false), &json!("denied")), "{result}");
        let message = result["error"]["message"].as_str().unwrap_or_default();
        assert!(message.contains("no one can be asked here (") || message.contains("outside"), "{result}");
        assert!(!result.to_string().contains("not for a model"), "{result}");
    }
    assert!(!home.path().join("outside.txt").exists());
}
