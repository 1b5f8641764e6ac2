//! Sessions on git in a repository of 100,000 files, without starting a program: the cost of each step of a turn, compared with
//! the methods of other tools in the same run: a worktree in which all changes are added and committed, and a shadow repository
//! that takes a snapshot of the checkout.
//!
//! `cargo bench --bench turns` measures; `--files N` makes a repository of another size, `--json` prints one object per line. As
//! a test it does each thing once in a small one. It writes some GB below the temporary directory.

#![allow(clippy::disallowed_methods)]

mod timing;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use reedclaw::files::{Change, Journals, Tree};
use reedclaw::git::Program;
use reedclaw::sessions::{How, Options, Session, Sessions, State, TurnReport, plan_merge};
use reedclaw::tree::{Bench, Did};

use timing::{percentile, times};

/// The options of a run.
struct Plan {
    /// A small repository, in which each thing is done once.
    once: bool,
    json: bool,
    files: usize,
}

impl Plan {
    fn read() -> Self {
        let mut plan = Self { once: true, json: false, files: 100_000 };
        let mut words = std::env::args().skip(1);
        while let Some(word) = words.next() {
            match word.as_str() {
                "--bench" => plan.once = false,
                "--json" => plan.json = true,
                "--files" => plan.files = words.next().and_then(|it| it.parse().ok()).expect("a number of files"),
                _ => {}
            }
        }
        if plan.once {
            plan.files = 300;
        }
        plan
    }

    fn turns(&self, turns: usize) -> usize {
        if self.once { 2 } else { turns }
    }

    /// Measures `work` several times.
    fn measure(&self, name: &str, turns: usize, work: impl FnMut(usize)) {
        let times = times(self.turns(turns), work);
        self.report(name, times);
    }

    fn report(&self, name: &str, mut times: Vec<Duration>) {
        if self.once {
            return;
        }
        times.sort_unstable();
        let at = |part: usize| percentile(&times, part).as_secs_f64() * 1e3;
        let (n, p50, p99) = (times.len(), at(50), at(99));
        if self.json {
            println!("{{\"name\":\"{name}\",\"n\":{n},\"p50_ms\":{p50:.3},\"p99_ms\":{p99:.3}}}");
        } else {
            println!("{name:46} p50 {p50:10.3} ms   p99 {p99:10.3}   n {n:5}");
        }
    }
}

fn git(at: &Path, words: &[&str]) {
    let mut command = Command::new("git");
    command.args(words).current_dir(at).env("GIT_CONFIG_GLOBAL", "/dev/null").stdout(Stdio::null());
    assert!(command.status().expect("git runs").success(), "git {words:?}");
}

/// A repository with one commit of small files, 100 per directory.
fn make_repository(at: &Path, files: usize) {
    std::fs::create_dir_all(at).expect("a directory");
    git(at, &["init", "-q", "-b", "main"]);
    for (name, value) in [("user.name", "x"), ("user.email", "x@y")] {
        git(at, &["config", name, value]);
    }
    let mut out = String::from("commit refs/heads/main\ncommitter x <x@y> 1700000000 +0000\ndata 1\nx\n");
    for number in 0..files {
        let text = format!("file {number}\n").repeat(20);
        let length = text.len();
        out.push_str(&format!("M 100644 inline {}\ndata {length}\n{text}\n", place(number)));
    }
    let mut import = Command::new("git")
        .args(["fast-import", "--quiet"])
        .current_dir(at)
        .stdin(Stdio::piped())
        .spawn()
        .expect("git runs");
    import.stdin.take().expect("a pipe").write_all(out.as_bytes()).expect("written");
    assert!(import.wait().expect("it ends").success());
    git(at, &["reset", "-q", "--hard"]);
}

fn place(number: usize) -> String {
    format!("d{}/e{}/f{number}.txt", number / 10_000, number / 100 % 100)
}

fn said(question: &str) -> TurnReport {
    TurnReport {
        question: question.to_owned(),
        subject: None,
        answer: "the answer".to_owned(),
        state: State::Whole,
        model: Some("m".to_owned()),
        calls: Vec::new(),
        time_ms: 1_700_000_000_000,
        tokens: [1_000, 100],
        cost: None,
        left_out: Vec::new(),
        doubts: Vec::new(),
    }
}

/// Changes a file of the draft as a tool call does; returns the time, including that for storing the change.
fn change(session: &Session, number: usize, text: &str) -> Duration {
    let path = place(number);
    let old = session.draft().read(&path, 1 << 20).expect("a file").bytes;
    let change = Change { path: &path, old: Some(&old), new: Some(text.as_bytes()) };
    let began = Instant::now();
    session.draft().change(&Journals::new("/nonexistent".into()), &[change]).expect("changed");
    began.elapsed()
}

/// A turn of three files; returns the times of the three calls, and of the commit.
fn turn(session: &mut Session, files: usize, number: usize) -> ([Duration; 3], Duration) {
    session.begin_turn("a question").expect("begun");
    let calls = [0, 1, 2].map(|file| change(session, (number * 37 + file * 11) % files, &format!("{number} {file}\n")));
    let began = Instant::now();
    session.end_turn(&said("a question")).expect("committed");
    (calls, began.elapsed())
}

fn main() {
    let plan = Plan::read();
    let place_of_all = tempfile::tempdir().expect("a directory");
    let at = place_of_all.path().join("repository");
    make_repository(&at, plan.files);
    let state = place_of_all.path().join("state");
    let sessions = Sessions::at(&at, &state, None, "x").expect("a repository").with(Options::default());
    let env: BTreeMap<OsString, OsString> = [("PATH".into(), std::env::var_os("PATH").expect("a path"))].into();
    let program = Program::find(&env).expect("git");
    plan.measure("start a session", 20, |_| drop(sessions.start(None, "x").expect("begun")));
    plan.measure("files that aren't committed counted", 10, |_| {
        let counts = sessions.count_uncommitted(Duration::from_secs(60)).expect("counted");
        assert!(counts.is_whole && counts.to_string().is_empty(), "{counts}");
    });
    turns(&plan, &sessions, &program, &at);
    benches(&plan, &sessions);
    peers(&plan, place_of_all.path(), &at);
}

fn turns(plan: &Plan, sessions: &Sessions, program: &Program, at: &Path) {
    let mut session = sessions.start(None, "measured").expect("begun");
    let (mut calls, mut commits) = (Vec::new(), Vec::new());
    for number in 0..plan.turns(100) {
        let (of_calls, commit) = turn(&mut session, plan.files, number);
        calls.extend(of_calls);
        commits.push(commit);
    }
    plan.report("a call's change kept", calls);
    plan.report("a turn's commit of 3 files on the disk", commits.clone());
    let id = session.id().to_owned();
    plan.measure("fork", 20, |_| drop(sessions.fork(&id, None).expect("forked")));
    git(at, &["commit", "-q", "--allow-empty", "-m", "the user goes on"]);
    plan.measure("plan a merge of 100 turns", 10, |_| {
        drop(plan_merge(sessions, &id, How::Squash, program).expect("a plan"));
    });
    plan.measure("rewind by one turn, and undo it", 10, |_| {
        session.rewind(session.meta().turns - 1).expect("back");
        session.undo().expect("undone");
    });
    let mut newest = Vec::new();
    for number in plan.turns(100)..plan.turns(1_000) {
        newest.push(turn(&mut session, plan.files, number).1);
    }
    if newest.len() > 20 {
        plan.report("turns 10 to 30", commits[9..29].to_vec());
        plan.report("turns 980 to 1,000", newest[newest.len() - 20..].to_vec());
    }
    plan.measure("log of all turns", 10, |_| drop(session.view().log().expect("a log")));
}

/// The files for commands: for the first session of a commit, for the second, and after changes to ten files.
fn benches(plan: &Plan, sessions: &Sessions) {
    let ready_of = |session: &Session| {
        let bench = Bench::new(session.bench(), Some(session.shared_trees()), Arc::clone(session.draft()));
        let began = Instant::now();
        bench.ready().expect("ready");
        (bench, began.elapsed())
    };
    let first = sessions.start(None, "first").expect("begun");
    plan.report("files for commands, first session", vec![ready_of(&first).1]);
    let seconds = (0..plan.turns(10)).map(|_| ready_of(&sessions.start(None, "next").expect("begun")).1).collect();
    plan.report("files for commands, next session", seconds);
    let (bench, _) = ready_of(&first);
    let (mut ready, mut taken) = (Vec::new(), Vec::new());
    let sources = first.bench().with_extension("sources");
    std::fs::create_dir_all(&sources).expect("a directory");
    for round in 0..plan.turns(20) {
        for file in 0..10 {
            change(&first, (round * 53 + file * 7) % plan.files, &format!("{round} {file}\n"));
        }
        let began = Instant::now();
        bench.ready().expect("ready");
        ready.push(began.elapsed());
        let paths: Vec<String> = (0..100).map(|file| place((round * 17 + file) % plan.files)).collect();
        // A command's file is moved, so each path needs its own.
        let made = |number: usize| {
            let source = sources.join(number.to_string());
            std::fs::write(&source, "by a command\n").expect("a file");
            Did::File(source, 0o644)
        };
        let did: Vec<(&Path, Did)> =
            paths.iter().enumerate().map(|(number, path)| (Path::new(path), made(number))).collect();
        let began = Instant::now();
        bench.adopt(&did).expect("adopted");
        taken.push(began.elapsed());
    }
    plan.report("files for commands, 10 changed", ready);
    plan.report("100 changes of a command taken", taken);
}

/// The same work as other tools do it: one worktree per session with a commit per turn; a snapshot of the checkout per turn.
fn peers(plan: &Plan, place_of_all: &Path, at: &Path) {
    let tree = place_of_all.join("worktree");
    let tree_text = tree.display().to_string();
    plan.measure("peer: git worktree add", 1, |turn| {
        if turn == 0 {
            git(at, &["worktree", "add", "-q", "--detach", &tree_text]);
        }
    });
    let write = |top: &Path, turn: usize| {
        for file in 0..3 {
            let path = top.join(place((turn * 37 + file * 11) % plan.files));
            std::fs::write(path, format!("peer {turn} {file}\n")).expect("a file");
        }
    };
    plan.measure("peer: 3 files, git add -A, git commit", 10, |turn| {
        write(&tree, turn);
        git(&tree, &["add", "-A"]);
        git(&tree, &["commit", "-q", "-m", "turn"]);
    });
    let shadow = place_of_all.join("shadow");
    git(place_of_all, &["init", "-q", "--bare", "shadow"]);
    let at_shadow = [format!("--git-dir={}", shadow.display()), format!("--work-tree={}", at.display())];
    let snapshot = |turn: usize| {
        write(at, turn);
        let words: [&[&str]; 2] = [&["add", "-A"], &["commit", "-q", "-m", "turn"]];
        for more in words {
            let who = ["-c", "user.name=x", "-c", "user.email=x@y"];
            git(at, &[&[&*at_shadow[0], &*at_shadow[1]], &who[..], more].concat());
        }
    };
    plan.measure("peer: shadow repository, first snapshot", 1, |turn| {
        if turn == 0 {
            snapshot(1_000);
        }
    });
    plan.measure("peer: shadow repository, snapshot of 3 files", 10, snapshot);
}
