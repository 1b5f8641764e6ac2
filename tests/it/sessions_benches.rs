//! Statements 10 and 12 to 15 of the contract of git sessions (`docs/decisions/sessions.md`) if the sandbox can't show the layers
//! of a bench: in bubblewrap, which binds a directory with all files at the project's path; with Landlock alone, with that
//! directory at its own path; and without a sandbox.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::need::{TEST_PATH, require};
use crate::pty::program;
use crate::sessions::{calls, git};
use crate::sessions_cli::{Held, differing, held, home, output, reedclaw};
use crate::sessions_contract::{begun, checkout};
use crate::sessions_real::{changes_equal, shared_tree};

const TIERS: [&str; 2] = ["bubblewrap", "landlock"];

/// A home whose strongest sandbox is this one.
fn home_of(tier: &str, answers: &[Value]) -> TempDir {
    home(answers, &format!("security = {{autonomy = \"full\", tier = \"{tier}\"}},"))
}

/// The record of a turn.
fn record(home: &Path, id: &str, turn: u32) -> Value {
    let shown = output(home, &["session", "show", id, &turn.to_string(), "--json"]);
    serde_json::from_str::<Value>(&shown).expect("JSON")["record"].clone()
}

/// The directory in which commands of a session work.
fn whole_of(home: &Path) -> PathBuf {
    let below = |at: &Path| fs::read_dir(at).expect("a directory").flatten().map(|it| it.path()).collect::<Vec<_>>();
    let sessions = below(&home.join(".local/state/reedclaw/sessions")).into_iter().flat_map(|it| below(&it));
    sessions.map(|it| it.join("bench.whole")).find(|it| it.is_dir()).expect("a directory with all files")
}

fn rounds(when: &str, commands: &[&str]) -> Value {
    let call = |line: &&str| json!([{"tool_call": {"name": "shell", "arguments": {"command": line}}}]);
    let mut rounds: Vec<Value> = commands.iter().map(call).collect();
    rounds.push(json!([{"text": "done"}]));
    json!({"when": when, "rounds": rounds})
}

#[test]
fn absolute_paths_lead_to_the_bench_in_bubblewrap_and_are_refused_by_the_kernel_with_landlock() {
    if !require(&["git", "bwrap"]) {
        return;
    }
    for tier in TIERS {
        let home = home_of(tier, &[]);
        let (at, project) = (home.path(), home.path().join("project"));
        let place = project.display();
        let absolute = format!("echo x >{place}/made.txt");
        let lines = [&*absolute, "pwd; echo y >>a.txt; mkdir sub && cd sub && echo z >z", "pwd; cat ../a.txt"];
        fs::write(at.join("answers.jsonl"), rounds("write", &lines).to_string()).expect("a script");
        let before = checkout(&project);
        let (code, _, told) = reedclaw(at, &["agent", "--session", "new", "-m", "write"]);
        assert_eq!(code, Some(0), "{tier}: {told}");
        let id = begun(&told);
        let record = record(at, &id, 1);
        let call = |number: usize| record["calls"][number]["result"].to_string();
        let is_made = reedclaw(at, &["session", "cat", &id, "made.txt"]).0 == Some(0);
        assert_eq!(output(at, &["session", "cat", &id, "a.txt"]), "old\ny\n", "{tier}");
        assert!(call(2).contains("old\\ny"), "{tier}: {record}");
        match tier {
            "bubblewrap" => {
                assert!(is_made && record["calls"][0]["success"] == true, "{record}");
                assert!(
                    call(1).contains(&format!("{place}\\n")) && call(2).contains(&format!("{place}/sub")),
                    "{record}"
                );
                assert!(!record.to_string().contains("bench.whole"), "{record}");
            }
            _ => {
                assert!(!is_made && record["calls"][0]["success"] == false, "{record}");
                assert!(call(0).contains("Permission denied"), "{record}");
                let named = "work in ";
                assert!(call(0).contains(named) && !call(1).contains(named), "only the first call says it: {record}");
                assert!(call(1).contains("bench.whole\\n") && call(2).contains("bench.whole/sub"), "{record}");
            }
        }
        assert_eq!(differing(&before, &checkout(&project)), Vec::<&PathBuf>::new(), "{tier}");
    }
}

#[test]
fn without_a_sandbox_commands_are_refused_with_the_reason_and_file_tools_work() {
    if !require(&["git"]) {
        return;
    }
    let home = home(&[], "security = {autonomy = \"full\", sandbox = \"off\"},");
    let (at, project) = (home.path(), home.path().join("project"));
    let command = format!("echo x >{}/made.txt; echo y >>a.txt", project.display());
    let rounds = json!([
        [{"tool_call": {"name": "shell", "arguments": {"command": command}}}],
        [{"tool_call": {"name": "file_write", "arguments": {"path": "b.txt", "content": "b\n"}}}],
        [{"text": "done"}]
    ]);
    fs::write(at.join("answers.jsonl"), json!({"when": "both", "rounds": rounds}).to_string()).expect("a script");
    let before = checkout(&project);
    let (code, _, told) = reedclaw(at, &["agent", "--session", "new", "-m", "both"]);
    assert_eq!((code, told.contains("turn 1 · 1 file")), (Some(0), true), "{told}");
    let id = begun(&told);
    let call = &record(at, &id, 1)["calls"][0];
    assert_eq!(call["success"], false, "{call}");
    assert_eq!(output(at, &["session", "cat", &id, "b.txt"]), "b\n");
    let (code, _, told) = reedclaw(at, &["session", "run", &id, "--yes", "echo x >x"]);
    assert!(code != Some(0) && told.contains("sandbox"), "{told}");
    assert_eq!(differing(&before, &checkout(&project)), Vec::<&PathBuf>::new());
}

#[test]
fn changes_of_a_command_equal_those_that_git_finds_on_a_copied_bench() {
    if !require(&["git", "bwrap", "bash"]) {
        return;
    }
    for tier in TIERS {
        changes_equal(&format!("security = {{tier = \"{tier}\"}},"));
    }
}

#[test]
fn writing_in_place_never_changes_the_shared_files_of_a_copied_bench() {
    if !require(&["git", "bwrap", "python3"]) {
        return;
    }
    for tier in TIERS {
        let home = home_of(tier, &[]);
        let (at, project) = (home.path(), home.path().join("project"));
        for path in ["sed", "append", "cut", "mapped", "linked", "d/gone"] {
            fs::create_dir_all(project.join(path).parent().expect("a parent")).expect("a directory");
            fs::write(project.join(path), "one\n").expect("a file");
        }
        git(&project, &["add", "-A"]);
        git(&project, &["commit", "-q", "-m", "files"]);
        let [one, two] = ["one", "two"].map(|title| output(at, &["session", "start", title]).trim().to_owned());
        output(at, &["session", "run", &two, "--yes", "cat sed"]);
        let (shared, before) = (shared_tree(at), checkout(&project));
        let lower = held(&shared);
        let script = "sed -i s/one/two/ sed; echo more >>append; truncate -s 1 cut; rm d/gone; ln linked other; echo 2 >>other\n\
            python3 -c 'import mmap\nf = open(\"mapped\", \"r+b\")\nm = mmap.mmap(f.fileno(), 0)\nm[0:3] = b\"two\"\nm.flush()'";
        output(at, &["session", "run", &one, "--yes", script]);
        let cat = |id: &str, path: &str| output(at, &["session", "cat", id, path]);
        let all = ["sed", "append", "cut", "mapped", "linked", "other"];
        assert_eq!(
            all.map(|path| cat(&one, path)),
            ["two\n", "one\nmore\n", "o", "two\n", "one\n2\n", "one\n2\n"],
            "{tier}"
        );
        assert_eq!(reedclaw(at, &["session", "cat", &one, "d/gone"]).0, Some(2));
        // The next command of each sees its own files, and the one that changed nothing sees none of the other's changes.
        let seen = |id: &str| output(at, &["session", "run", id, "--yes", "cat sed append cut mapped linked"]);
        assert!(seen(&one).contains("two\none\nmore\notwo\none\n2\n"), "{tier}: {}", seen(&one));
        assert!(seen(&two).contains("one\none\none\none\none\n"), "{tier}: {}", seen(&two));
        assert_eq!(differing(&lower, &held(&shared)), Vec::<&PathBuf>::new(), "{tier}");
        assert_eq!(differing(&before, &checkout(&project)), Vec::<&PathBuf>::new(), "{tier}");
    }
}

#[test]
fn ignored_files_stay_on_a_copied_bench_and_what_is_refused_leaves_it() {
    if !require(&["git", "bwrap"]) {
        return;
    }
    for tier in TIERS {
        // The policy judges a line before it runs; the effects of a script are judged afterwards.
        let scripts = [
            ("build", "mkdir built && echo 1 >built/x; echo k >.env; truncate -s 20M large; echo 2 >a.txt"),
            ("look", "cat built/x .env a.txt; stat -c %s large"),
            ("plant", "mkdir -p .vscode; echo '{}' >.vscode/tasks.json; echo 3 >b.txt; echo 4 >built/x"),
            ("again", "ls -A . .vscode; cat built/x b.txt; git status --short"),
        ];
        let answers = scripts.map(|(name, _)| calls(name, "shell", json!({"command": format!("sh {name}.sh")})));
        let home = home_of(tier, &answers);
        let (at, project) = (home.path(), home.path().join("project"));
        fs::write(project.join(".gitignore"), "built/\n").expect("a file");
        for (name, script) in scripts {
            fs::write(project.join(format!("{name}.sh")), script).expect("a script");
        }
        git(&project, &["add", "-A"]);
        git(&project, &["commit", "-q", "-m", "ignore"]);
        let (_, _, told) = reedclaw(at, &["agent", "--session", "new", "-m", "build it"]);
        assert!(told.contains("turn 1 · 1 file"), "{tier}: {told}");
        let id = begun(&told);
        let left_out = record(at, &id, 1)["left_out"].to_string();
        assert!(left_out.contains(".env") && left_out.contains("large") && !left_out.contains("built"), "{left_out}");
        reedclaw(at, &["agent", "--session", &id, "-m", "look at it"]);
        let seen = record(at, &id, 2)["calls"][0]["result"].to_string();
        assert!(seen.contains("1\\nk\\n2\\n20971520"), "{tier}: {seen}");
        // There is no person to ask about a file that editors run.
        let (_, _, told) = reedclaw(at, &["agent", "--session", &id, "-m", "plant it"]);
        assert!(told.contains("turn 3 · 1 file"), "{tier}: {told}");
        reedclaw(at, &["agent", "--session", &id, "-m", "again"]);
        let seen = record(at, &id, 4)["calls"][0]["result"].to_string();
        assert!(!seen.contains("tasks.json") && seen.contains("4\\n3\\n"), "{tier}: {seen}");
        assert!(seen.contains("?? .env") && !seen.contains("b.txt\\n?"), "{tier}: {seen}");
    }
}

#[test]
fn a_command_that_removes_everything_takes_the_draft_and_not_the_checkout() {
    if !require(&["git", "bwrap"]) {
        return;
    }
    for tier in TIERS {
        let home = home_of(tier, &[]);
        let (at, project) = (home.path(), home.path().join("project"));
        fs::write(project.join("untracked.txt"), "mine\n").expect("a file");
        // A link that leads out, and one that leads to the checkout itself.
        symlink(&project, project.join("self")).expect("a link");
        fs::write(project.join("clean.sh"), "rm -rf ./* \"$1\"/* .git/refs .git/HEAD; chmod 0 .; true\n")
            .expect("a file");
        git(&project, &["add", "clean.sh", "self", "a.txt"]);
        git(&project, &["commit", "-q", "-m", "a script"]);
        let before = checkout(&project);
        let id = output(at, &["session", "start"]).trim().to_owned();
        let place = project.display().to_string();
        output(at, &["session", "run", &id, "--yes", &format!("sh clean.sh {place}")]);
        assert_eq!(output(at, &["session", "files", &id]), ".reedclaw/\n", "{tier}: the draft is empty");
        assert_eq!(differing(&before, &checkout(&project)), Vec::<&PathBuf>::new(), "{tier}: the checkout is whole");
        output(at, &["session", "undo", &id, "--files"]);
        assert_eq!(output(at, &["session", "cat", &id, "a.txt"]), "old\n", "{tier}");
        assert!(output(at, &["session", "run", &id, "--yes", "cat a.txt"]).contains("old"), "{tier}");
    }
}

/// Every file of a home, except for those of a project and of the programs that tests run.
fn of_home(home: &Path) -> Held {
    let state = home.join(".local/state/reedclaw");
    held(home)
        .into_iter()
        .filter(|(path, _)| !path.starts_with(&state) && !path.starts_with(home.join("project/.git")))
        .collect()
}

#[test]
fn commands_on_a_copied_bench_reach_nothing_else_of_the_home() {
    if !require(&["git", "bwrap"]) {
        return;
    }
    for tier in TIERS {
        let home = home_of(tier, &[]);
        let (at, project) = (home.path(), home.path().join("project"));
        for (path, text) in
            [(".ssh/id_rsa", "SECRET\n"), ("notes.txt", "PRIVATE\n"), (".local/state/reedclaw/x", "SECRET\n")]
        {
            fs::create_dir_all(at.join(path).parent().expect("a parent")).expect("a directory");
            fs::write(at.join(path), text).expect("a file");
        }
        let one = output(at, &["session", "start", "one"]).trim().to_owned();
        output(at, &["session", "run", &one, "--yes", "echo other >other.txt; git log -1"]);
        let (others, shared) = (whole_of(at), shared_tree(at));
        let script = format!(
            "cat ~/.ssh/id_rsa ~/notes.txt ~/.local/state/reedclaw/x; ls ~/.local/state/reedclaw {0} {1}; cat {0}/a.txt\n\
             echo x >~/x; echo x >{0}/a.txt; rm -rf {0} {1}; ln {2}/a.txt hard; ln -s {0} soft; echo x >soft/a.txt\n\
             cp -r {0} stolen; mkdir -p ~/.config/reedclaw && echo x >~/.config/reedclaw/config.lua; echo fine >fine.txt\n\
             test {3} = landlock && {{ mv {2}/a.txt taken; rm -rf {2}; echo x >{2}/x; }}\n\
             git commit -q --allow-empty -m x; git update-ref refs/heads/main HEAD; git gc -q\n\
             (sleep 0.2; echo late >late.txt) & disown; true\n",
            others.display(),
            shared.display(),
            project.display(),
            tier
        );
        // The policy refuses such lines, but not a script.
        fs::write(project.join("try.sh"), script).expect("a script");
        git(&project, &["add", "-A"]);
        git(&project, &["commit", "-q", "-m", "a script"]);
        let two = output(at, &["session", "start", "two"]).trim().to_owned();
        let (before, theirs, lower) = (of_home(at), held(&others), held(&shared));
        let (_, out, told) = reedclaw(at, &["session", "run", &two, "--yes", "bash try.sh"]);
        assert!(!out.contains("SECRET") && !out.contains("PRIVATE") && !out.contains("other.txt"), "{tier}: {out}");
        assert_eq!(output(at, &["session", "cat", &two, "fine.txt"]), "fine\n", "{tier}: {told}");
        assert_eq!(differing(&before, &of_home(at)), Vec::<&PathBuf>::new(), "{tier}");
        assert_eq!(differing(&theirs, &held(&others)), Vec::<&PathBuf>::new(), "{tier}: another session's");
        assert_eq!(differing(&lower, &held(&shared)), Vec::<&PathBuf>::new(), "{tier}");
        assert_eq!(git(&project, &["log", "-1", "--format=%s", "main"]), "a script", "{tier}");
        let files = output(at, &["session", "files", &two]);
        assert!(!files.contains("stolen") && !files.contains("late"), "{tier}: {files}");
    }
}

#[test]
fn a_bench_whose_making_was_killed_is_made_anew() {
    if !require(&["git", "bwrap"]) {
        return;
    }
    let home = home_of("bubblewrap", &[]);
    let (at, project) = (home.path(), home.path().join("project"));
    for number in 0..3_000 {
        let path = project.join(format!("{}/{number}.txt", number % 30));
        fs::create_dir_all(path.parent().expect("a parent")).expect("a directory");
        fs::write(path, format!("{number}\n")).expect("a file");
    }
    git(&project, &["add", "-A"]);
    git(&project, &["commit", "-q", "-m", "files"]);
    let id = output(at, &["session", "start"]).trim().to_owned();
    // The files that all sessions share exist already, so that only the session's own directory has to be created.
    output(at, &["session", "run", output(at, &["session", "start"]).trim(), "--yes", "true"]);
    let half = |at: &Path| {
        let all = fs::read_dir(at).into_iter().flatten().flatten().map(|it| it.path());
        all.flat_map(|it| fs::read_dir(it).into_iter().flatten().flatten())
            .any(|it| it.path().join("bench.whole-new").is_dir())
    };
    let mut command = Command::new(program());
    command.args(["session", "run", &id, "--yes", "echo killed >killed.txt"]).env_clear().env("PATH", TEST_PATH);
    command.env("HOME", at).env("LANG", "C.UTF-8").current_dir(&project);
    let mut child =
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("it starts");
    let (began, sessions) = (Instant::now(), at.join(".local/state/reedclaw/sessions"));
    while !half(&sessions)
        && child.try_wait().expect("its state").is_none()
        && began.elapsed() < Duration::from_secs(60)
    {
        std::thread::park_timeout(Duration::from_millis(1));
    }
    child.kill().expect("killed");
    child.wait().expect("its end");
    let count = output(at, &["session", "run", &id, "--yes", "find . -name '*.txt' | wc -l; cat 29/29.txt"]);
    assert!(count.contains("3001") && count.contains("29"), "{count}");
    assert!(!half(&sessions), "what was left is gone");
    // A bench that lost files gets them back, and the session lost none.
    let whole = whole_of(at);
    fs::remove_dir_all(whole.join("7")).expect("gone");
    fs::remove_file(whole.join("a.txt")).expect("gone");
    let count = output(at, &["session", "run", &id, "--yes", "find . -name '*.txt' | wc -l; echo new >new.txt"]);
    assert!(count.contains("3001"), "{count}");
    assert_eq!(output(at, &["session", "cat", &id, "a.txt"]), "old\n");
}

#[test]
fn variables_of_the_config_reach_commands_of_sessions() {
    if !require(&["git", "bwrap"]) {
        return;
    }
    for tier in ["overlay", "bubblewrap", "landlock"] {
        let own = "sessions = {env = {OWN_WORD = \"lemons\", [\"NO-NAME\"] = \"x\"}},";
        let home = home(&[], &format!("security = {{tier = \"{tier}\"}}, {own}"));
        let id = output(home.path(), &["session", "start"]).trim().to_owned();
        let printed = output(
            home.path(),
            &["session", "run", &id, "--yes", "echo \"word: $OWN_WORD\"; env | grep -c NO-NAME; true"],
        );
        assert!(printed.contains("word: lemons\n0"), "{tier}: {printed}");
    }
}
