//! A kill at every step of a question with a tool: before each system call with a lasting effect, in a separate run each,
//! and while the person is asked and while a command runs. After each kill the chain of receipts is valid, everything that
//! happened has an intent, the next start reports exactly the open intents, and the conversation continues.
//!
//! A library that is loaded before the C library counts the calls and sends the signal; the executable isn't involved.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{Command, Output};

use nix::sys::signal::Signal;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::home::{TestHome, command};
use crate::need::require;
use crate::pty::{Session, Spawn, program};

/// Kills its process before call number `KILL_BEFORE` of those that write, sync, rename or remove.
pub const KILLER: &str = r#"
#define _GNU_SOURCE
#include <dlfcn.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

static void step(void) {
    static int count;
    const char *wanted = getenv("KILL_BEFORE");
    if (wanted && __atomic_add_fetch(&count, 1, __ATOMIC_SEQ_CST) == atoi(wanted)) kill(getpid(), SIGKILL);
}
#define STEP(type, name, parameters, arguments)                    \
    type name parameters {                                         \
        static type (*next) parameters;                            \
        if (!next) next = (type (*) parameters)dlsym(RTLD_NEXT, #name); \
        step();                                                    \
        return next arguments;                                     \
    }
STEP(ssize_t, write, (int fd, const void *bytes, size_t length), (fd, bytes, length))
STEP(ssize_t, writev, (int fd, const struct iovec *parts, int count), (fd, parts, count))
STEP(ssize_t, pwrite, (int fd, const void *bytes, size_t length, off_t at), (fd, bytes, length, at))
STEP(ssize_t, pwrite64, (int fd, const void *bytes, size_t length, off_t at), (fd, bytes, length, at))
STEP(int, fsync, (int fd), (fd))
STEP(int, fdatasync, (int fd), (fd))
STEP(int, ftruncate64, (int fd, off_t length), (fd, length))
STEP(int, rename, (const char *from, const char *to), (from, to))
STEP(int, renameat, (int a, const char *from, int b, const char *to), (a, from, b, to))
STEP(int, renameat2, (int a, const char *from, int b, const char *to, unsigned f), (a, from, b, to, f))
STEP(int, linkat, (int a, const char *from, int b, const char *to, int f), (a, from, b, to, f))
STEP(int, unlink, (const char *path), (path))
STEP(int, unlinkat, (int a, const char *path, int f), (a, path, f))
"#;

/// The stage of a run when it was killed, judged by the traces that it left.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Place {
    /// Nothing is in the database yet.
    BeforeTheQuestion,
    /// The question is stored; the call isn't in the receipts.
    BeforeTheIntent,
    /// The intent is in the receipts; the file isn't written.
    BeforeTheRun,
    /// The file is written; nothing is settled.
    BeforeTheOutcome,
    /// The call is settled; the answer isn't stored.
    BeforeTheAnswer,
    /// Part of the answer, or all of it, is stored.
    InTheAnswer,
}

struct Left {
    home: TempDir,
}

impl Left {
    fn path(&self, name: &str) -> PathBuf {
        self.home.path().join(name)
    }

    fn run(&self, args: &[&str]) -> (Option<i32>, String) {
        let output = command(self.home.path(), args).output().expect("it runs");
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        (output.status.code(), text(&output.stdout) + &text(&output.stderr))
    }

    /// The ids of the intents, and of those that have an outcome.
    fn receipts(&self) -> (Vec<String>, Vec<String>) {
        let text = fs::read_to_string(self.path(".local/state/reedclaw/receipts.jsonl")).unwrap_or_default();
        let records: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).expect(line)).collect();
        let of = |kind: &str, field: &str| {
            let those = records.iter().filter(|record| record["kind"] == kind);
            those.map(|record| record[field].as_str().expect(field).to_owned()).collect()
        };
        (of("intent", "id"), of("outcome", "intent"))
    }

    fn place(&self) -> Place {
        let (intents, outcomes) = self.receipts();
        let shown = self.run(&["memory", "show", "1"]).1;
        match (intents.len(), outcomes.len()) {
            (_, 1) if shown.contains("all") => Place::InTheAnswer,
            (_, 1) => Place::BeforeTheAnswer,
            (1, 0) if self.path("reedclaw-workspace/made.txt").exists() => Place::BeforeTheOutcome,
            (1, 0) => Place::BeforeTheRun,
            _ if shown.contains("> write it") => Place::BeforeTheIntent,
            _ => Place::BeforeTheQuestion,
        }
    }

    /// Checks everything that must be true, whenever the run was killed.
    fn check(&self, what: &str) {
        let (intents, outcomes) = self.receipts();
        let is_made = self.path("reedclaw-workspace/made.txt").exists();
        assert!(!is_made || intents.len() == 1, "{what}: an effect without an intent");
        assert!(outcomes.is_empty() || is_made, "{what}: settled and not done");
        let (code, told) = self.run(&["receipt", "verify", "--json"]);
        let report: Value = serde_json::from_str(told.trim()).unwrap_or_else(|_| panic!("{what}: {told}"));
        let open = intents.len() - outcomes.len();
        let unknown = report["unknown_outcome"].as_array().map_or(0, Vec::len);
        assert_eq!((code, unknown), (Some(0), open), "{what}: {told}");
        let (code, told) = self.run(&["doctor"]);
        assert_eq!((code, told.matches("unknown outcome").count()), (Some(0), open), "{what}: {told}");
        let is_stored = self.run(&["memory", "show", "1"]).1.contains("> write it");
        let (code, told) = self.run(&["agent", "-m", "go on", "--conversation", "last"]);
        let expected = if is_stored { (Some(0), "gone on\n") } else { (Some(2), "there is no conversation") };
        assert!(code == expected.0 && told.contains(expected.1), "{what}: {code:?} {told}");
    }

    /// Checks the reports of the next session at its start.
    fn check_start(&self, what: &str) {
        let (intents, outcomes) = self.receipts();
        let open: Vec<&String> = intents.iter().filter(|id| !outcomes.contains(id)).collect();
        let session = Session::spawn(Spawn::reedclaw().home(self.home.path()).size(24, 160));
        for id in &open {
            session.expect_text("unknown outcome: file_write at ");
            session.expect_text(id);
        }
        session.run("echo on with it");
        session.run("echo further");
        let told = session.screen_text().matches("unknown outcome").count();
        assert_eq!(told, open.len(), "{what}: {}", session.screen_text());
        session.line("exit");
        session.expect_exit();
    }
}

fn home(autonomy: &str, answers: &[Value]) -> TempDir {
    let security = format!("security = {{autonomy = \"{autonomy}\"}}");
    TestHome::for_commands().plays_alone(answers, &security).directory("reedclaw-workspace").done()
}

/// Builds a library that kills its process.
pub fn killer(source_text: &str) -> (TempDir, PathBuf) {
    let place = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a directory");
    let (source, library) = (place.path().join("killer.c"), place.path().join("killer.so"));
    fs::write(&source, source_text).expect("a source");
    let mut compiler = Command::new("cc");
    let Output { status, stderr, .. } =
        compiler.args(["-shared", "-fPIC", "-o"]).arg(&library).arg(&source).output().expect("cc runs");
    assert!(status.success(), "{}", String::from_utf8_lossy(&stderr));
    (place, library)
}

fn answers() -> [Value; 2] {
    let write = json!({"tool_call": {"name": "file_write", "arguments": {"path": "made.txt", "content": "x"}}});
    let said = json!([{"text": "It is "}, {"text": "all done "}, {"text": "now."}]);
    [
        json!({"when": "write it", "rounds": [[{"text": "I will. "}, write], said]}),
        json!({"when": "go on", "steps": [{"text": "gone on"}]}),
    ]
}

#[test]
fn a_question_with_a_tool_is_killed_before_each_call_that_leaves_something_behind() {
    if !require(&["cc"]) {
        return;
    }
    let (_place, library) = killer(KILLER);
    let mut seen: BTreeMap<Place, usize> = BTreeMap::new();
    for number in 1_usize.. {
        assert!(number < 2_000, "it never comes to an end");
        let left = Left { home: home("full", &answers()) };
        let mut asking = command(left.home.path(), &["agent", "--json", "-m", "write it"]);
        asking.env("LD_PRELOAD", &library).env("KILL_BEFORE", number.to_string());
        let output = asking.output().expect("it runs");
        if output.status.success() {
            break;
        }
        assert_eq!(output.status.signal(), Some(9), "{number}: {output:?}");
        let place = left.place();
        let what = format!("call {number}, {place:?}");
        left.check(&what);
        let times = seen.entry(place).or_default();
        *times += 1;
        if *times == 1 {
            left.check_start(&what);
        }
    }
    use Place::{BeforeTheAnswer, BeforeTheIntent, BeforeTheOutcome, BeforeTheQuestion, BeforeTheRun, InTheAnswer};
    let all = [BeforeTheQuestion, BeforeTheIntent, BeforeTheRun, BeforeTheOutcome, BeforeTheAnswer, InTheAnswer];
    assert_eq!(seen.keys().copied().collect::<Vec<_>>(), all, "each step was met: {seen:?}");
}

#[test]
fn a_kill_while_the_person_is_asked_leaves_no_intent() {
    let left = Left { home: home("supervised", &answers()) };
    let spawn = Spawn::new(program()).args(&["agent", "-m", "write it"]).home(left.home.path()).size(24, 110);
    let session = Session::spawn(spawn);
    session.expect_text("accept [y]");
    session.kill(Signal::SIGKILL);
    session.expect_exit();
    assert_eq!(left.place(), Place::BeforeTheIntent);
    left.check("asking");
    left.check_start("asking");
}

#[test]
fn a_kill_while_a_command_runs_leaves_its_intent_open_and_ends_it() {
    let run = json!({"tool_call": {"name": "shell", "arguments": {"command": "sleep 1000"}}});
    let left = Left {
        home: home("full", &[json!({"when": "run it", "rounds": [[run], [{"text": "ran"}]]}), answers()[1].clone()]),
    };
    let spawn = Spawn::new(program()).args(&["agent", "-m", "run it"]).home(left.home.path()).size(24, 110);
    let session = Session::spawn(spawn);
    let below = session.expect_outside("the command runs", || {
        Some(session.descendants()).filter(|below| below.iter().any(|process| process.name == "sleep"))
    });
    session.kill(Signal::SIGKILL);
    session.expect_exit();
    let has_ended = || {
        let now = crate::procs::all();
        let is_left = |it: &crate::procs::Process| {
            now.iter().any(|other| (other.pid, other.started_ticks) == (it.pid, it.started_ticks) && other.state != 'Z')
        };
        (!below.iter().any(is_left)).then_some(())
    };
    // A chat counts as a start, too.
    let next = Session::spawn(Spawn::new(program()).arg("agent").home(left.home.path()).size(24, 160));
    next.expect_text("unknown outcome: shell at ");
    next.expect_outside("all that it had started has ended", has_ended);
    next.line("/exit");
    next.expect_exit();
    assert_eq!(left.run(&["receipt", "verify"]).0, Some(0));
    let (code, told) = left.run(&["agent", "-m", "go on", "--conversation", "last"]);
    assert!(code == Some(0) && told.contains("gone on"), "{told}");
}

/// Kills its process as soon as a file whose path ends in `KILL_AFTER` has been renamed into place.
const KILLER_OF_EDITS: &str = r#"
#define _GNU_SOURCE
#include <dlfcn.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void named(const char *to) {
    const char *wanted = getenv("KILL_AFTER");
    size_t length = wanted ? strlen(wanted) : 0, whole = strlen(to);
    if (wanted && whole >= length && !strcmp(to + whole - length, wanted)) kill(getpid(), SIGKILL);
}
#define STEP(name, parameters, arguments)                          \
    int name parameters {                                          \
        static int (*next) parameters;                             \
        if (!next) next = (int (*) parameters)dlsym(RTLD_NEXT, #name); \
        int result = next arguments;                               \
        if (!result) named(to);                                    \
        return result;                                             \
    }
STEP(rename, (const char *from, const char *to), (from, to))
STEP(renameat, (int a, const char *from, int b, const char *to), (a, from, b, to))
STEP(renameat2, (int a, const char *from, int b, const char *to, unsigned f), (a, from, b, to, f))
STEP(linkat, (int a, const char *from, int b, const char *to, int f), (a, from, b, to, f))
"#;

#[test]
fn an_edit_that_was_killed_half_way_is_a_step_that_can_be_undone() {
    if !require(&["cc"]) {
        return;
    }
    let (_place, library) = killer(KILLER_OF_EDITS);
    let left = Left { home: home("full", &answers()) };
    let mut asking = command(left.home.path(), &["agent", "-m", "write it"]);
    let output = asking.env("LD_PRELOAD", &library).env("KILL_AFTER", "made.txt").output().expect("it runs");
    assert_eq!(output.status.signal(), Some(9), "{output:?}");
    assert_eq!(left.place(), Place::BeforeTheOutcome);
    let made = left.path("reedclaw-workspace/made.txt");
    let in_workspace = |args: &[&str]| {
        let mut command = command(left.home.path(), args);
        let output = command.current_dir(left.path("reedclaw-workspace")).output().expect("it runs");
        String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned()
    };
    let told = in_workspace(&["steps"]);
    assert!(told.contains("an edit of made.txt was cut off; it changed 1 file, which is step 1"), "{told}");
    assert_eq!(fs::read_to_string(&made).expect("the file"), "x");
    let told = in_workspace(&["undo"]);
    assert!(told.contains("Undid step 1") && !made.exists(), "{told}");
}
