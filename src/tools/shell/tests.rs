//! The end of an overdue command, by the person's choice: no test here waits for a clock, but for what the command has done or
//! still lacks.

use std::fs;
use std::time::Duration;

use nix::sys::stat::Mode;
use nix::unistd::mkfifo;

use super::*;
use crate::files::Root;
use crate::tools::{Found, Limits, Memory, Replies, Spill};

/// Prints a line, stores its process number, and waits until something is written to `go`.
const WAITS: &str = "echo one; here=yes; echo $$ > pid.new; mv pid.new pid; cat go; echo two";

/// A workspace with a pipe named `go`, and a shell tool for it.
struct Scene {
    top: tempfile::TempDir,
    shell: Shell,
    is_stopped: Arc<AtomicBool>,
    /// The questions to the person, in order.
    asked: Vec<Overdue>,
}

/// A person who answers.
struct Person<'a, F>(&'a mut Vec<Overdue>, F);

impl<F: FnMut(&AtomicBool) -> Option<OverdueChoice>> Replies for Person<'_, F> {
    fn reply(&mut self, _: &str, _: &[String]) -> Option<String> {
        None
    }

    fn overdue(&mut self, command: &Overdue, has_ended: &Arc<AtomicBool>) -> Option<OverdueChoice> {
        self.0.push(command.clone());
        (self.1)(has_ended)
    }
}

struct NoMemory;

impl Memory for NoMemory {
    fn search(&mut self, _: &str, _: usize) -> Result<Vec<Found>, String> {
        Ok(Vec::new())
    }
}

impl Scene {
    fn new() -> Self {
        let top = tempfile::tempdir().expect("a directory");
        mkfifo(&top.path().join("go"), Mode::S_IRWXU).expect("a pipe");
        let shell = Shell::new(Launcher::plain(), Arc::new(|| false));
        Self { top, shell, is_stopped: Arc::default(), asked: Vec::new() }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.top.path().join(name)
    }

    /// Lets the tool do something, with a person who answers like this.
    fn with<T>(
        &mut self,
        limit: Duration,
        answer: impl FnMut(&AtomicBool) -> Option<OverdueChoice>,
        act: impl FnOnce(&mut Shell, &Path, &mut Work<'_>) -> T,
    ) -> T {
        let (root, spill) = (Root::open(self.top.path(), None).expect("a root"), Spill::new(self.top.path()));
        let limits = Limits { shell: limit, ..Limits::default() };
        let is_stopped = || self.is_stopped.load(Ordering::SeqCst);
        let mut work = Work {
            place: Place { tree: &root, spill: &spill },
            limits: &limits,
            is_stopped: &is_stopped,
            person: &mut Person(&mut self.asked, answer),
            memory: &mut NoMemory,
            notes: &mut Vec::new(),
            used: &[],
            is_again: false,
            copied: None,
            new_in_home: Vec::new(),
            jobs: None,
            no_helper: None,
        };
        act(&mut self.shell, self.top.path(), &mut work)
    }

    /// Runs a command whose time is over at once.
    fn run(&mut self, command: &str, answer: impl FnMut(&AtomicBool) -> Option<OverdueChoice>) -> Outcome {
        self.run_within(Duration::from_millis(1), command, answer)
    }

    fn run_within(
        &mut self,
        limit: Duration,
        command: &str,
        answer: impl FnMut(&AtomicBool) -> Option<OverdueChoice>,
    ) -> Outcome {
        self.with(limit, answer, |shell, cwd, work| {
            let wish = Wish {
                command,
                cwd,
                terms: Terms::default(),
                limit,
                in_background: false,
                is_alone: false,
                names_loopback: false,
                is_by_words: false,
            };
            shell.command(&wish, work).unwrap_or_else(Outcome::from)
        })
    }

    /// Waits until a job has ended; returns all that it printed, and how it ended.
    fn awaited(&mut self, number: usize) -> (String, Outcome) {
        let mut printed = String::new();
        until(|| {
            let outcome = self.with(
                Duration::from_millis(1),
                |_| panic!("a job isn't asked about again"),
                |shell, _, work| shell.job(number, false, work),
            );
            printed.push_str(&outcome.output);
            (error(&outcome).0 != STILL_RUNNING).then(|| (std::mem::take(&mut printed), outcome))
        })
    }
}

/// Waits until `look` returns a value.
#[track_caller]
fn until<T>(mut look: impl FnMut() -> Option<T>) -> T {
    let began = Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(began.elapsed() < Duration::from_secs(60), "it never came");
        thread::park_timeout(Duration::from_millis(2));
    }
}

fn error(outcome: &Outcome) -> (&str, &str) {
    outcome.error.as_ref().map_or(("", ""), |error| (error.code, error.message.as_str()))
}

/// Returns the process number that the command has stored, once it runs.
fn pid(path: &Path) -> i32 {
    until(|| fs::read_to_string(path).ok()?.trim().parse().ok())
}

fn lives(pid: i32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(") ").is_some_and(|(_, rest)| !rest.starts_with(['Z', 'X']))
}

#[test]
fn a_command_that_ends_during_the_question_returns_its_whole_output() {
    let mut scene = Scene::new();
    let go = scene.path("go");
    let outcome = scene.run(WAITS, |has_ended| {
        assert!(!has_ended.load(Ordering::SeqCst), "it waits for somebody");
        fs::write(&go, "between\n").expect("it reads");
        until(|| has_ended.load(Ordering::SeqCst).then_some(()));
        None
    });
    assert_eq!((outcome.success, outcome.output.as_str()), (true, "one\nbetween\ntwo"), "{outcome:?}");
    assert_eq!((outcome.metadata["exitCode"].clone(), outcome.metadata.get("job")), (0.into(), None));
    assert_eq!((scene.asked.len(), scene.asked[0].command.as_str(), scene.asked[0].no_job), (1, WAITS, None));
    // Its variables are available to the next command.
    let limit = Duration::from_secs(60);
    let (command, terms) = ("echo here=$here", Terms::default());
    let next = Wish {
        command,
        cwd: Path::new("/"),
        terms,
        limit,
        in_background: false,
        is_alone: false,
        names_loopback: false,
        is_by_words: false,
    };
    let outcome = scene.with(limit, |_| None, |shell, _, work| shell.command(&next, work)).expect("it runs");
    assert_eq!(outcome.output, "here=yes");
}

/// The time grows until the first line arrives before the question.
#[test]
fn output_from_before_the_question_is_shown_and_returned() {
    for choice in [None, Some(OverdueChoice::End), Some(OverdueChoice::Job)] {
        for doubled in 0.. {
            assert!(doubled < 16, "it was never shown");
            let mut scene = Scene::new();
            let go = scene.path("go");
            let outcome = scene.run_within(Duration::from_millis(1 << doubled), WAITS, |has_ended| {
                if choice.is_none() {
                    fs::write(&go, "between\n").expect("it reads");
                    until(|| has_ended.load(Ordering::SeqCst).then_some(()));
                }
                choice
            });
            if scene.asked[0].last_line.as_deref() == Some("one") {
                assert!(outcome.output.starts_with("one"), "{choice:?}: {outcome:?}");
                break;
            }
        }
    }
}

#[test]
fn waiting_returns_the_whole_output() {
    let mut scene = Scene::new();
    let go = scene.path("go");
    let mut writer = None;
    let outcome = scene.run(WAITS, |_| {
        let go = go.clone();
        writer = Some(thread::spawn(move || fs::write(go, "between\n")));
        Some(OverdueChoice::Wait)
    });
    assert_eq!((outcome.success, outcome.output.as_str()), (true, "one\nbetween\ntwo"), "{outcome:?}");
    writer.expect("somebody was asked").join().expect("no panic").expect("it was read");
}

#[test]
fn a_continued_command_becomes_a_job_without_further_questions() {
    for (choice, words) in
        [(Some(OverdueChoice::Job), "; the user lets it continue as job 1"), (None, "; it continues as job 1")]
    {
        let mut scene = Scene::new();
        let outcome = scene.run(WAITS, |_| choice);
        let (code, message) = error(&outcome);
        assert!(code == STILL_RUNNING && message.ends_with(words), "{choice:?}: {message}");
        assert_eq!((outcome.success, outcome.metadata["job"].clone()), (false, 1.into()));
        let go = scene.path("go");
        let writer = thread::spawn(move || fs::write(go, "between\n"));
        let (printed, last) = scene.awaited(1);
        writer.join().expect("no panic").expect("it was read");
        let all = outcome.output + &printed;
        assert_eq!(all.replace('\n', ""), "onebetweentwo", "nothing is lost");
        assert!(last.success, "{last:?}");
    }
}

#[test]
fn ending_an_overdue_command_stops_it_and_informs_the_model() {
    let mut scene = Scene::new();
    let (noted, mut process) = (scene.path("pid"), 0);
    let outcome = scene.run(WAITS, |_| {
        process = pid(&noted);
        assert!(lives(process), "it runs on while the question stands");
        Some(OverdueChoice::End)
    });
    assert!(!lives(process), "{process}");
    let (code, message) = error(&outcome);
    assert!(code == ENDED_BY_USER && message.starts_with("the user ended it after "), "{message}");
    assert_eq!(outcome.output, "one");
    assert!(!outcome.success && scene.shell.left().jobs.is_empty());
    let outcome = scene.run("true", |_| Some(OverdueChoice::Wait));
    assert!(outcome.success, "the next one has a bash of its own: {outcome:?}");
}

#[test]
fn a_stop_ends_it_under_the_question() {
    // By Ctrl-C, which answers the question too, or from outside: then it is withdrawn.
    for is_answered in [true, false] {
        let mut scene = Scene::new();
        let (noted, stop, mut process) = (scene.path("pid"), Arc::clone(&scene.is_stopped), 0);
        let outcome = scene.run(WAITS, |has_ended| {
            process = pid(&noted);
            stop.store(true, Ordering::SeqCst);
            if !is_answered {
                until(|| has_ended.load(Ordering::SeqCst).then_some(()));
            }
            None
        });
        assert_eq!(error(&outcome).0, "stopped", "{outcome:?}");
        assert!(!lives(process) && scene.shell.left().jobs.is_empty(), "{is_answered}");
    }
}

#[test]
fn a_shorter_time_of_the_models_own_makes_a_job_unasked_and_too_many_are_ended() {
    let mut scene = Scene::new();
    let (limit, shorter) = (Duration::from_secs(3600), Duration::from_millis(1));
    for number in 1..=JOBS_MAX {
        let outcome = scene.with(
            limit,
            |_| panic!("it is the model's own wish"),
            |shell, cwd, work| {
                let (command, terms) = ("cat go", Terms::default());
                let wish = Wish {
                    command,
                    cwd,
                    terms,
                    limit: shorter,
                    in_background: false,
                    is_alone: false,
                    names_loopback: false,
                    is_by_words: false,
                };
                shell.command(&wish, work).expect("it runs")
            },
        );
        assert_eq!(outcome.metadata["job"], number, "{outcome:?}");
    }
    let outcome = scene.run(WAITS, |_| Some(OverdueChoice::End));
    assert_eq!(error(&outcome).0, ENDED_BY_USER);
    let outcome = scene.run(WAITS, |_| None);
    assert_eq!(error(&outcome).0, "timeout", "{outcome:?}");
    assert_eq!(scene.asked.iter().map(|it| it.no_job).collect::<Vec<_>>(), [Some("too many run already"); 2]);
    assert_eq!(scene.shell.left().jobs.len(), JOBS_MAX);
}

#[test]
fn ended_jobs_that_nobody_has_read_leave_room_for_new_ones() {
    let mut scene = Scene::new();
    let all = JOBS_MAX + RESULTS_MAX + 1;
    for number in 1..=all {
        let outcome = scene.run("cat go", |_| None);
        assert_eq!(outcome.metadata["job"], number, "{outcome:?}");
        // It ends as soon as the pipe is written to, and waits to be read.
        drop(fs::OpenOptions::new().write(true).open(scene.path("go")).expect("a pipe"));
        until(|| scene.shell.left().jobs.iter_mut().all(|job| !job.bash.is_running()).then_some(()));
    }
    let numbers: Vec<usize> = scene.shell.left().jobs.iter().map(|job| job.number).collect();
    assert_eq!(numbers, (all + 1 - RESULTS_MAX..=all).collect::<Vec<_>>(), "the newest");
    assert_eq!(error(&scene.awaited(all).1).0, "", "its result is still there");
}

#[test]
fn the_last_line_is_of_what_came_last_and_is_still_there_afterwards() {
    for (printed, last) in [
        ("echo first; echo second", "second"),
        ("echo first; printf 'part of one'", "part of one"),
        ("printf '10%%\\r20%%\\r' >&2", "20%"),
        ("printf '\\033[31mred\\033[0m\\n\\n  \\n'", "red"),
        ("echo to the terminal > /dev/tty", "to the terminal"),
    ] {
        let scene = Scene::new();
        let line = format!("{printed}; cat go");
        let (state, terms) = (State::default(), Terms::default());
        let request = Request { command: &line, cwd: scene.top.path(), state: &state, terms };
        let mut bash = Bash::start(&scene.shell.launcher, &scene.shell.spawner, &request).expect("bash");
        let mut ran = bash.wait(Instant::now(), &|| false).expect("it runs");
        let found = until(|| {
            let Ran::Running(output) = std::mem::replace(&mut ran, Ran::Done(Output::default())) else {
                panic!("it waits");
            };
            bash.take_back(output);
            let found = bash.last_line();
            ran = bash.wait(Instant::now() + Duration::from_millis(10), &|| false).expect("it waits");
            found.filter(|found| found == last)
        });
        assert_eq!(found, last);
        let Ran::Running(output) = ran else { panic!("it waits") };
        assert!(outcome(&output, &Note::None, Duration::ZERO).output.contains(last), "{printed}");
    }
}

/// The state of one command must neither replace the next one nor prevent it from running.
#[test]
fn no_state_takes_the_place_of_the_next_command() {
    let long = "x=$(head -c 3000000 /dev/zero | tr '\\0' a)";
    let longer = "x=$(head -c 30000000 /dev/zero | tr '\\0' a)";
    for trick in [
        "readonly __rc_c='echo evil' __rc_o='echo evil' __rc_d=/ PWD",
        "readonly __RC_COMMAND='echo evil' __RC_DIR=/",
        "readonly __rc_r=1 __rc_s=2 __rc_v=3",
        "PROMPT_COMMAND='echo evil'; trap 'echo evil >/dev/null' DEBUG",
        "trap 'true' EXIT",
        "builtin() { :; }; eval() { echo evil; }; trap() { :; }",
        "shopt -s expand_aliases; alias builtin='echo evil' set='echo evil' echo='echo evil'; unalias echo",
        "set -- evil; set -euo pipefail",
        long,
        longer,
    ] {
        let mut scene = Scene::new();
        let mut says = |command: &str| scene.run_within(Duration::from_secs(60), command, |_| None).output;
        assert_eq!(says("before=yes"), "");
        let _ = says(trick);
        // With a read-only PWD each command reports that, and runs.
        let after = says("printf '%s %s %s' \"$before\" $# \"${x:+set}\"");
        assert!(after.starts_with("yes 0 ") && !after.contains("evil"), "{trick}: {after}");
        let after = says("printf '%s' still");
        assert!(after.starts_with("still"), "{trick}: {after}");
    }
}

/// `set -e` and an error of an expansion closed the pipe; one function that can't be read without `extglob` ended the reading of
/// all, of aliases and options; the trace of a command began with lines of ours.
#[test]
fn nothing_of_a_state_is_lost_without_a_note() {
    let mut scene = Scene::new();
    fs::create_dir(scene.path("sub")).expect("a directory");
    let mut run = |command: &str| scene.run_within(Duration::from_secs(60), command, |_| None);
    for failing in ["set -euo pipefail; cd sub; V=1; echo $nope", "set -e; cd sub; V=1; : ${nope:?}"] {
        let outcome = run(failing);
        assert!(outcome.metadata["cwd"].as_str().is_some_and(|cwd| cwd.ends_with("/sub")), "{failing}: {outcome:?}");
        assert_eq!(run("set +eu; echo $V").output, "1", "{failing}");
        assert_eq!(run("unset V").output, "");
    }
    run("shopt -s extglob; one=1");
    run("a1() { echo a; }; m1() { case $1 in @(a|b)) echo m;; esac; }; z1() { echo z; }; alias ll='ls -l'");
    run("shopt -s nullglob");
    assert_eq!(run("a1; m1 b; z1; alias ll; shopt -q nullglob && echo $one").output, "a\nm\nz\nalias ll='ls -l'\n1");
    run("set -x");
    assert_eq!(run("echo one; set +x").output, "one\n[stderr]\n++ echo one\n++ set +x");
    assert_eq!(run("trap 'echo bye' EXIT; W=1").output, "bye");
    assert_eq!(run("set -e; echo $W; trap 'true' EXIT; W=2; false").output, "1\n".to_owned() + STATE_LOST);
    assert_eq!(run("unset W; exit 3").metadata["exitCode"], 3);
    assert_eq!(run("x=$(head -c 1500000 /dev/zero | tr '\\0' a)").output, STATE_TOO_LONG);
    assert_eq!(run("echo ${W-}$one").output, "1");
}

/// `trap` printed the trap that saves the state, and a trap on DEBUG the commands around the model's. A command's own trap on
/// EXIT, or an `exit`, lost the state.
#[test]
fn a_command_sees_its_own_traps_alone() {
    let mut scene = Scene::new();
    let limit = Duration::from_secs(60);
    let mut run = |command: &str| {
        scene.with(
            limit,
            |_| None,
            |shell, top, work| {
                let cwd = shell.carried.cwd.clone().unwrap_or(top.to_owned());
                let (terms, in_background, is_alone) = (Terms::default(), false, false);
                let (names_loopback, is_by_words) = (false, false);
                let wish =
                    Wish { command, cwd: &cwd, terms, limit, in_background, is_alone, names_loopback, is_by_words };
                shell.command(&wish, work).unwrap_or_else(Outcome::from)
            },
        )
    };
    for (command, printed, status) in [
        ("trap; trap -p", "", 0),
        ("trap 'echo \"bye $?\"' EXIT; trap -p EXIT; (exit 4)", "trap -- 'echo \"bye $?\"' EXIT\nbye 4", 4),
        ("trap 'echo \"+ $BASH_COMMAND\"' DEBUG; V=1; false", "+ V=1\n+ false", 1),
        ("set -T; trap 'echo \"+ $BASH_COMMAND\"' DEBUG; V=$((V + 1))", "+ V=$((V + 1))", 0),
        ("set +T; trap 'echo failed' ERR; trap 'echo int' INT; false", "failed", 1),
        ("trap", "trap -- 'echo int' SIGINT\ntrap -- 'echo failed' ERR", 0),
        ("echo $V; trap - INT ERR; sleep 0 & (exit 3)", "2", 3),
        ("f() { trap -p EXIT; }; f", "", 0),
        ("f; unset -f f; cd /", "", 0),
        ("bootstrap=1; cd /usr; exit 5", "", 5),
        ("trap 'true' USR1; false; set -e; pwd", "/usr", 0),
        (
            "trap; pwd; trap - USR1; set +e; umask 027; shopt -s nullglob; cd bin; V=3; exit 6",
            "trap -- 'true' SIGUSR1\n/usr",
            6,
        ),
        ("echo $V $bootstrap $PWD; umask; shopt nullglob", "3 1 /usr/bin\n0027\nnullglob       \ton", 0),
        ("trap 'echo \"bye $?\"; exit 9' EXIT; g() { cd /; V=4; (exit 2); echo $?; false; exit; }; g", "2\nbye 1", 9),
        ("echo $V $PWD; false; (trap 'true' EXIT; exit 7); echo $?; exit", "4 /\n7", 0),
        ("exit() { echo mine; builtin exit 8; }; trap 'true' EXIT; exit 3", "mine", 8),
    ] {
        let outcome = run(command);
        let printed_first = outcome.output.replace(&format!("\n{STATE_LOST}"), "").replace(STATE_LOST, "");
        assert_eq!((printed_first.trim_end(), &outcome.metadata["exitCode"]), (printed, &status.into()), "{command}");
        assert_eq!(outcome.output.contains(STATE_LOST), command.contains("mine"), "{command}: {}", outcome.output);
    }
}

/// An unasked command left a function called `make` and a `PATH` of its own; the command that a person agreed to, which works
/// on the workspace itself, ran these instead of what the question named.
#[test]
fn leftovers_of_unasked_commands_do_not_affect_an_approved_one() {
    let mut scene = Scene::new();
    let limit = Duration::from_secs(60);
    let mut run = |command: &str, is_by_words: bool| {
        let terms = Terms::default();
        let act = |shell: &mut Shell, cwd: &Path, work: &mut Work<'_>| {
            let (in_background, is_alone, names_loopback) = (false, false, false);
            let wish = Wish { command, cwd, terms, limit, in_background, is_alone, names_loopback, is_by_words };
            shell.command(&wish, work).unwrap_or_else(Outcome::from)
        };
        scene.with(limit, |_| None, act)
    };
    let plant = "ls() { echo led; }; alias cat='echo led'; export BASH_ENV=$PWD/led GIT_PAGER=led; trap 'echo led' ERR; \
                 PATH=$PWD:$PATH; set -f";
    assert!(run(plant, false).success);
    assert_eq!(run("ls", false).output, "led", "the model's own commands have its state");
    let asked = "mine=yes; shopt -s expand_aliases; ls | grep led; cat </dev/null; echo ${BASH_ENV-} ${GIT_PAGER-}; \
                 case $PATH in $PWD:*) echo led;; esac; echo $-";
    let outcome = run(asked, true);
    assert!(!outcome.output.contains("led") && !outcome.output.contains('f'), "{}", outcome.output);
    // The state that it leaves itself is passed on, also to commands that a person agreed to.
    assert_eq!(run("echo $mine", true).output, "yes");
    assert!(run("mine=no", false).success);
    let failed = run("echo $mine; false", true);
    assert!(failed.output.starts_with("yes\n[it started without the variables"), "{}", failed.output);
}
