//! `shell`: a command in the model's own bash, within the sandbox. What still runs when its time is over goes on as a job.

#[cfg(test)]
mod tests;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::bash::{Bash, Output, Ran, last_line};
use super::spawner::Spawner;
use super::{Place, Plan, Spec, Tool, Work, number, text};
use crate::gate::Permit;
use crate::proto::action::Action;
use crate::proto::tool::{ENDED_BY_USER, Fate, Outcome, Overdue, STILL_RUNNING, ToolError};
use crate::render::strip_controls;

/// Commands that go on after their time, at once.
const JOBS_MAX: usize = 8;
/// How often is looked for the emergency stop between calls: what runs must have ended 500 ms after it.
const LOOK: Duration = Duration::from_millis(100);
/// Characters that are told of what a program asks.
const ASKED_CHARS_MAX: usize = 200;
/// What programs say that want a terminal, or a password from one.
const WANTS_TERMINAL: &[&str] = &[
    "a terminal is required",
    "no tty present",
    "not a tty",
    "must be run from a terminal",
    "could not open /dev/tty",
    "cannot open /dev/tty",
    "can't open /dev/tty",
    "no such device or address: /dev/tty",
    "/dev/tty: no such device or address",
    "terminal is dumb",
    "output is not to a terminal",
    "failed tty get",
    "error opening terminal",
    "could not read username",
    "could not read password",
    "host key verification failed",
    "stdin is not a terminal",
    "standard input is not a terminal",
];

/// Starts programs for a model: the program, its arguments, whether it may use the network. It fails, in words, where they
/// can't be held as they must be.
pub type Start = Arc<dyn Fn(&str, &[&str], bool) -> Result<Command, String> + Send + Sync>;

/// Says whether everything is stopped.
pub type IsStopped = Arc<dyn Fn() -> bool + Send + Sync>;

/// The tool.
pub struct Shell {
    start: Start,
    spawner: Spawner,
    is_stopped: IsStopped,
    /// Whether somebody looks for the emergency stop between calls.
    is_watched: bool,
    left: Arc<Mutex<Left>>,
    /// Whether that bash may use the network.
    has_network: bool,
    /// Where bash is.
    cwd: Option<PathBuf>,
    next_job: usize,
}

/// What is left running between two calls; the emergency stop ends all of it.
#[derive(Default)]
struct Left {
    bash: Option<Bash>,
    jobs: Vec<Job>,
}

/// A command, as its permit has it.
struct Wish<'a> {
    command: &'a str,
    cwd: &'a Path,
    has_network: bool,
    /// Its time.
    limit: Duration,
}

/// A command that goes on.
struct Job {
    number: usize,
    mark: String,
    command: String,
    bash: Bash,
}

impl Shell {
    /// Makes the tool; bash is started with the first command.
    #[must_use]
    pub fn new(start: Start, is_stopped: IsStopped) -> Self {
        Self {
            start,
            spawner: Spawner::new(),
            is_stopped,
            is_watched: false,
            left: Arc::default(),
            has_network: false,
            cwd: None,
            next_job: 1,
        }
    }

    fn left(&self) -> MutexGuard<'_, Left> {
        self.left.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Has a thread end what is left as soon as everything is stopped; it ends with the tool.
    fn watch(&mut self) -> std::io::Result<()> {
        if self.is_watched {
            return Ok(());
        }
        let (left, is_stopped) = (Arc::downgrade(&self.left), self.is_stopped.clone());
        let look = move || {
            while let Some(left) = left.upgrade() {
                if is_stopped() {
                    end_all(std::mem::take(&mut *left.lock().unwrap_or_else(PoisonError::into_inner)));
                }
                drop(left);
                thread::park_timeout(LOOK);
            }
        };
        thread::Builder::new().name("shell-estop".into()).spawn(look)?;
        self.is_watched = true;
        Ok(())
    }

    /// The bash that the last command has left, or a new one.
    fn bash(&mut self, has_network: bool) -> Result<Bash, ToolError> {
        self.watch().map_err(failed)?;
        let kept = self.left().bash.take();
        // A bash with the network mustn't stay for a command that was judged without it.
        let kept = kept.filter(|_| self.has_network == has_network).and_then(Bash::there);
        self.has_network = has_network;
        kept.map_or_else(
            || {
                let start = (self.start)("bash", &Bash::arguments(), has_network);
                Bash::start(start.map_err(|why| ToolError::new("sandbox", why, ""))?, &self.spawner).map_err(failed)
            },
            Ok,
        )
    }

    fn command(&mut self, wish: &Wish<'_>, work: &mut Work<'_>) -> Result<Outcome, ToolError> {
        let Wish { command, cwd, has_network, limit } = *wish;
        let mut bash = self.bash(has_network)?;
        let started = Instant::now();
        let (mark, mut ran) = bash.run(command, cwd, started + limit, work.is_stopped).map_err(failed)?;
        let mut said = None;
        // A shorter time is the model's own wish to have it as a job soon.
        if limit >= work.limits.shell
            && let Ran::Running(output) = ran
        {
            bash.take_back(output);
            let overdue = Overdue {
                command: command.to_owned(),
                ran_for: started.elapsed(),
                last_line: bash.last_line(),
                no_job: (self.left().jobs.len() >= JOBS_MAX).then_some("too many run already"),
            };
            (ran, said) = offered(&mut bash, &mark, &overdue, work).map_err(failed)?;
        }
        let (output, note) = match ran {
            Ran::Done(output) => {
                self.left().bash = Some(bash);
                self.cwd.clone_from(&output.cwd);
                (output, Note::None)
            }
            Ran::Gone(output) => (output, Note::Gone),
            Ran::Stopped(output) => (output, Note::Stopped),
            Ran::Awaited(output) => (output, Note::Awaited),
            Ran::Running(output) => (output, self.further(mark, command, bash, said)),
        };
        Ok(outcome(&output, &note, started.elapsed()))
    }

    /// Ends a command, or lets it go on as a job: as the person said, else as a job.
    fn further(&mut self, mark: String, command: &str, mut bash: Bash, said: Option<Fate>) -> Note {
        let is_full = self.left().jobs.len() >= JOBS_MAX;
        if said == Some(Fate::End) || is_full {
            bash.kill();
            return if said.is_some() { Note::Ended } else { Note::TooMany };
        }
        let number = self.next_job;
        self.next_job += 1;
        self.left().jobs.push(Job { number, mark, command: command.to_owned(), bash });
        if said.is_some() { Note::LetGoOn(number) } else { Note::Job(number) }
    }

    fn job(&mut self, number: usize, kill: bool, work: &Work<'_>) -> Outcome {
        let taken = {
            let jobs = &mut self.left().jobs;
            let at = jobs.iter().position(|job| job.number == number);
            at.map(|at| jobs.remove(at)).ok_or_else(|| {
                let numbers: Vec<String> = jobs.iter().map(|job| format!("{} ({})", job.number, job.command)).collect();
                if numbers.is_empty() { "none runs".to_owned() } else { numbers.join(", ") }
            })
        };
        let mut job = match taken {
            Ok(job) => job,
            Err(there) => return ToolError::new("no-job", format!("there is no job {number}"), there).into(),
        };
        if kill {
            job.bash.kill();
            return Outcome::of(format!("job {number} was ended"));
        }
        let started = Instant::now();
        match job.bash.wait(&job.mark, started + work.limits.shell, work.is_stopped) {
            Ok(Ran::Done(output)) => outcome(&output, &Note::None, started.elapsed()),
            Ok(Ran::Gone(output)) => outcome(&output, &Note::Gone, started.elapsed()),
            Ok(Ran::Stopped(output)) => outcome(&output, &Note::Stopped, started.elapsed()),
            Ok(Ran::Awaited(output)) => outcome(&output, &Note::Awaited, started.elapsed()),
            Ok(Ran::Running(output)) => {
                self.left().jobs.push(job);
                outcome(&output, &Note::Job(number), started.elapsed())
            }
            Err(error) => failed(error).into(),
        }
    }
}

/// Asks the person what is to become of a command whose time is over, while it runs on; where it ends meanwhile the
/// question is withdrawn. Gives how far it got, and what they said.
fn offered(
    bash: &mut Bash,
    mark: &str,
    overdue: &Overdue,
    work: &mut Work<'_>,
) -> std::io::Result<(Ran, Option<Fate>)> {
    let (has_ended, is_over) = (Arc::new(AtomicBool::new(false)), AtomicBool::new(false));
    let is_stopped = work.is_stopped;
    let time_left = || if is_over.load(Ordering::Acquire) { Duration::ZERO } else { Duration::MAX };
    let (ran, said) = thread::scope(|scope| {
        let waits = scope.spawn(|| {
            let ran = bash.wait_while(mark, &time_left, is_stopped);
            has_ended.store(true, Ordering::Release);
            ran
        });
        let said = work.person.fate(overdue, &has_ended);
        is_over.store(said != Some(Fate::Wait), Ordering::Release);
        (waits.join().unwrap_or_else(|_| Err(std::io::Error::other("the thread that waits has panicked"))), said)
    });
    Ok(match ran? {
        // The question was left by Ctrl-C, and the time was over before that was seen.
        Ran::Running(output) if is_stopped() => {
            bash.kill();
            (Ran::Stopped(output), said)
        }
        ran => (ran, said),
    })
}

fn failed(error: std::io::Error) -> ToolError {
    ToolError::new("shell", format!("bash: {error}"), "")
}

impl Tool for Shell {
    fn spec(&self) -> Spec {
        let description = "Runs a command line with bash in the workspace; directory and variables stay for the next \
                           one. Nobody sits at its terminal: what asks there is ended. Of what runs longer than its time \
                           the user may decide, else it goes on as a job: {\"job\": N} waits for more of it, with \
                           \"kill\": true ends it. With a short timeoutMs it is a job at once.";
        Spec {
            name: "shell".into(),
            aliases: &["shell_run"],
            description: description.into(),
            schema: json!({
                "type": "object",
                "properties": {
                    "command": {"type": "string", "minLength": 1, "maxLength": 65536},
                    "cwd": {"type": "string", "description": "where absent, where the last one left it"},
                    "timeout_ms": {"type": "integer", "minimum": 1, "maximum": 600_000, "deprecated": true},
                    "timeoutMs": {"type": "integer", "minimum": 1, "maximum": 600_000},
                    "job": {"type": "integer", "minimum": 1},
                    "kill": {"type": "boolean"},
                },
                "additionalProperties": false,
            }),
        }
    }

    fn plan(&self, arguments: &Value, place: Place<'_>) -> Result<Plan, ToolError> {
        let (command, job) = (text(arguments, "command"), number(arguments, "job"));
        if command.trim().is_empty() == job.is_none() {
            return Err(ToolError::new("bad-arguments", "either a command or a job is needed", ""));
        }
        if job.is_some() {
            return Ok(Plan::of(Action::Inert { name: "shell".into() }));
        }
        let cwd = match text(arguments, "cwd") {
            "" => self.cwd.clone().filter(|cwd| cwd.is_dir()),
            path => Some(directory(path, place)?),
        };
        Ok(Plan { cwd, ..Plan::of(Action::Shell { command: command.to_owned() }) })
    }

    fn run(&mut self, permit: &Permit, work: &mut Work<'_>) -> Outcome {
        match (permit.action(), number(permit.arguments(), "job")) {
            (Action::Shell { command }, _) => {
                let asked = number(permit.arguments(), "timeout_ms").or(number(permit.arguments(), "timeoutMs"));
                let most = work.limits.shell.max(Duration::from_secs(600));
                let limit = asked.map_or(work.limits.shell, |ms| Duration::from_millis(ms as u64).min(most));
                let wish = Wish { command, cwd: permit.cwd(), has_network: permit.has_network(), limit };
                self.command(&wish, work).unwrap_or_else(Outcome::from)
            }
            (_, Some(number)) => {
                let kill = permit.arguments().get("kill").and_then(Value::as_bool).unwrap_or(false);
                self.job(number, kill, work)
            }
            _ => ToolError::new("bad-arguments", "either a command or a job is needed", "").into(),
        }
    }
}

/// Ends what is left, all at once: what doesn't want to end takes its time.
fn end_all(left: Left) {
    thread::scope(|scope| {
        for bash in left.bash.into_iter().chain(left.jobs.into_iter().map(|job| job.bash)) {
            scope.spawn(move || drop(bash));
        }
    });
}

/// A directory of the workspace, as an absolute path.
fn directory(path: &str, place: Place<'_>) -> Result<PathBuf, ToolError> {
    let wrong = |error| ToolError::new("bad-directory", format!("{path}: {error}"), "a directory of the workspace");
    place.root.list(path).map_err(|error| wrong(error.to_string()))?;
    let beneath = place.root.beneath(path).map_err(|error| wrong(error.to_string()))?;
    Ok(normal(&place.root.path().join(beneath)))
}

/// A path without its `.` parts and a slash at its end.
fn normal(path: &Path) -> PathBuf {
    path.components().filter(|part| !matches!(part, std::path::Component::CurDir)).collect()
}

/// What else there is to say of a command.
pub(super) enum Note {
    None,
    Gone,
    Stopped,
    Awaited,
    Job(usize),
    /// The person lets it go on as this job.
    LetGoOn(usize),
    /// The person has ended it.
    Ended,
    TooMany,
    /// Its time was over.
    Late,
}

/// What a program asked that waits for a person: the last line that it wrote, to the terminal or else anywhere.
fn asked(output: &Output) -> Option<String> {
    let last = [&output.terminal, &output.err, &output.out].into_iter().find_map(|bytes| last_line(bytes))?;
    Some(last.chars().take(ASKED_CHARS_MAX).collect())
}

/// What came of a command.
pub(super) fn outcome(output: &Output, note: &Note, took: Duration) -> Outcome {
    let (out, err) = (strip_controls(&output.out), strip_controls(&output.err));
    let mut shown = out.trim_end_matches('\n').to_owned();
    if !err.trim().is_empty() {
        let separator = if shown.is_empty() { "" } else { "\n" };
        shown.push_str(&format!("{separator}[stderr]\n{}", err.trim_end_matches('\n')));
    }
    let terminal = strip_controls(&output.terminal);
    if !terminal.trim().is_empty() {
        let separator = if shown.is_empty() { "" } else { "\n" };
        shown.push_str(&format!("{separator}[terminal]\n{}", terminal.trim_end_matches('\n')));
    }
    if output.dropped > 0 {
        shown.push_str(&format!("\n[{} bytes were too many to be kept]", output.dropped));
    }
    let took_ms = u64::try_from(took.as_millis()).unwrap_or(u64::MAX);
    let mut outcome = Outcome::of(shown).with("durationMs", took_ms);
    if let Some(status) = output.status {
        outcome = outcome.with("exitCode", status);
    }
    if let Some(cwd) = &output.cwd {
        outcome = outcome.with("cwd", cwd.display().to_string());
    }
    let lower = err.to_lowercase();
    let error = match note {
        Note::Stopped => ToolError::new("stopped", "it was stopped, and all that it had started", ""),
        Note::Job(number) | Note::LetGoOn(number) => {
            let hint = format!("{{\"job\": {number}}} waits for more of it, with \"kill\": true ends it");
            outcome = outcome.with("job", *number);
            let how = if matches!(note, Note::Job(_)) { "," } else { "; the user lets it go on" };
            let message = format!("it still runs after {} s{how} as job {number}", took.as_secs());
            ToolError::new(STILL_RUNNING, message, hint)
        }
        Note::Ended => {
            let hint = "ask them before you run it again; the variables of this shell are gone with it";
            ToolError::new(ENDED_BY_USER, format!("the user ended it after {} s", took.as_secs()), hint)
        }
        Note::TooMany => ToolError::new("timeout", "its time was over and it was ended: too many jobs run", ""),
        Note::Awaited => {
            let asked = asked(output).map(|asked| format!(": {asked}")).unwrap_or_default();
            let hint =
                "the user can run it in their own shell; ask them to. The variables of this shell are gone with it";
            ToolError::new(
                "needs-terminal",
                format!("it waits for somebody at a terminal, so it was ended{asked}"),
                hint,
            )
        }
        Note::Late => ToolError::new("timeout", format!("it was ended after {} s", took.as_secs()), ""),
        _ if output.status != Some(0) && WANTS_TERMINAL.iter().any(|sign| lower.contains(sign)) => {
            let hint = "the user can run it in their own shell; ask them to";
            ToolError::new("needs-terminal", "it wants a terminal, which it has not", hint)
        }
        Note::Gone => ToolError::new("shell-ended", "it ended the shell; the next command gets a new one", ""),
        Note::None if output.status == Some(0) => return outcome,
        Note::None => {
            let status = output.status.map_or_else(|| "no status".to_owned(), |status| format!("status {status}"));
            ToolError::new("exit", format!("it ended with {status}"), "")
        }
    };
    outcome.success = false;
    outcome.error = Some(error);
    outcome
}
