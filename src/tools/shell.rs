//! `shell`: a command in a bash within the sandbox, on a copy of the workspace if the machine has copies. A command that still
//! runs when its time is over continues as a job.

mod job;
#[cfg(test)]
mod tests;

use parking_lot::{Mutex, MutexGuard};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::{Brief, Offer, Place, Plan, Spec, Tool, Work, number, text};
use crate::gate::Permit;
use crate::proto::action::{Action, Hold, Risk};
use crate::proto::tool::{ENDED_BY_USER, Outcome, Overdue, OverdueChoice, STILL_RUNNING, ToolError};
use crate::render::strip_controls;
use crate::sandbox::{Area, View};
use crate::tools::running::bash::{Bash, Output, Ran, Request, State, last_line};
use crate::tools::running::copied::Copied;
use crate::tools::running::launcher::{Launcher, Terms};
use crate::tools::running::refused::{looked, refused, tried};
use crate::tools::running::spawner::Spawner;

/// Limit on the jobs that run at once.
const JOBS_MAX: usize = 8;
/// Limit on jobs that have ended and whose output is unread: the newest ones stay.
const RESULTS_MAX: usize = 8;
/// Poll interval for the emergency stop between calls: everything must have ended 500 ms after it.
const LOOK: Duration = Duration::from_millis(100);
/// Time in which a command that starts as a job may still fail at once.
const AT_ONCE: Duration = Duration::from_millis(500);
/// Fact about a job, for the question about it.
const IN_BACKGROUND: &str = "it runs in the background until ReedClaw exits";
/// Characters of a program's question that are reported.
const ASKED_CHARS_MAX: usize = 200;
/// Note for the model about variables and functions that a command started without.
const WITHOUT_STATE: &str = "[it started without the variables, functions and aliases of commands that the user wasn't asked \
                             about; what it needs must be on its own line]";
/// Notes for the model about a state that the next command doesn't have.
const STATE_LOST: &str = "[its directory, variables and functions weren't kept: its shell was ended by exec or a signal, or by an \
                          error with a trap on EXIT of its own]";
const STATE_TOO_LONG: &str = "[its variables and functions weren't kept: they are more than 1 MiB]";
/// Note for the model about files in `/tmp` that a command started without.
const WITHOUT_FILES: &str = "[it started without the files in /tmp and the home that commands left which the user wasn't \
                             asked about; what it needs must be in the workspace]";
/// Reason why there are no background jobs on a bench whose commands run one at a time.
const NO_JOBS: &str =
    "commands of this session work in one directory, one after the other, so none can run in the background";
const NO_JOBS_HINT: &str = "start it and use it within one command; what is left then is ended";
/// Note for the model about a path that couldn't be opened to the command.
const LOST: &str =
    "can't be opened to a sandbox: nothing was written there outside of it; the user can run this in their own shell";
/// Note for the model about a new path of the home that stays in the private one.
const NOT_PLACED: &str = "was made in the sandbox alone, since the command was refused something";
/// Messages of programs that want a terminal, or a password from one.
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

pub use job::{Job, Jobs, ShellJob};

/// Returns whether everything is to stop.
pub type IsStopped = Arc<dyn Fn() -> bool + Send + Sync>;

/// The tool.
pub struct Shell {
    launcher: Launcher,
    spawner: Spawner,
    is_stopped: IsStopped,
    /// True if a thread polls for the emergency stop between calls.
    is_watched: bool,
    left: Arc<Mutex<Left>>,
    /// The traces of the last command, and of the one before it.
    carried: Carried,
    carried_before: Carried,
    next_job: usize,
}

/// The traces of a command that the next one starts from.
#[derive(Clone, Default)]
struct Carried {
    /// Variables, functions, aliases, options.
    state: State,
    /// The same, but only from commands that a person agreed to.
    agreed: State,
    /// The directory in which it ended.
    cwd: Option<PathBuf>,
}

/// The programs that run on between two calls; the emergency stop ends all of them.
#[derive(Default)]
struct Left {
    jobs: Vec<Going>,
    /// True while a call waits for a job that works on the workspace itself and isn't in `jobs` meanwhile.
    is_followed: bool,
}

impl Left {
    /// Makes room for another job; returns whether it may run. Jobs that have ended only wait for their output to be read, so
    /// they don't count; the oldest of them are dropped if there are too many.
    fn make_room(&mut self) -> bool {
        let mut ended: Vec<usize> = Vec::new();
        for job in &mut self.jobs {
            ended.extend((!job.bash.is_running()).then_some(job.number));
        }
        let running = self.jobs.len() - ended.len();
        ended.sort_unstable();
        ended.truncate((ended.len() + 1).saturating_sub(RESULTS_MAX));
        self.jobs.retain(|job| !ended.contains(&job.number));
        running < JOBS_MAX
    }

    /// Returns whether a job that works on the workspace itself is still running.
    fn is_working(&mut self) -> bool {
        self.is_followed || self.jobs.iter_mut().any(|job| job.bash.is_working())
    }
}

/// A command with the terms of its permit.
struct Wish<'a> {
    command: &'a str,
    cwd: &'a Path,
    terms: Terms,
    /// Its time limit.
    limit: Duration,
    /// True if it starts as a job.
    in_background: bool,
    /// True for a step of a procedure, which knows nothing of earlier commands.
    is_alone: bool,
    /// True if its words name this machine as the one that it contacts.
    names_loopback: bool,
    /// True if a person has agreed to its words.
    is_by_words: bool,
}

impl Wish<'_> {
    /// Returns whether it changes the workspace itself because a person agreed to its words: then nothing that an
    /// unasked command left, such as a function called `make`, may give these words another meaning.
    fn needs_agreed(&self) -> bool {
        self.is_by_words && matches!(self.terms.view, View::Work)
    }

    fn area(&self) -> Area {
        if self.needs_agreed() { Area::Agreed } else { Area::Session }
    }

    /// Returns whether it starts without any trace of earlier commands.
    fn is_fresh(&self) -> bool {
        self.terms.is_wide() || self.is_alone
    }
}

/// A command that runs as a job.
struct Going {
    number: usize,
    command: String,
    bash: Bash,
}

impl Shell {
    /// Makes the tool; bash is started with the first command.
    #[must_use]
    pub fn new(launcher: Launcher, is_stopped: IsStopped) -> Self {
        Self {
            launcher,
            spawner: Spawner::new(),
            is_stopped,
            is_watched: false,
            left: Arc::default(),
            carried: Carried::default(),
            carried_before: Carried::default(),
            next_job: 1,
        }
    }

    fn left(&self) -> MutexGuard<'_, Left> {
        self.left.lock()
    }

    /// Starts a thread that ends the remaining programs as soon as everything is to stop; the thread ends with the tool.
    fn watch(&mut self) -> std::io::Result<()> {
        if self.is_watched {
            return Ok(());
        }
        let (left, is_stopped) = (Arc::downgrade(&self.left), self.is_stopped.clone());
        let look = move || {
            while let Some(left) = left.upgrade() {
                if is_stopped() {
                    end_all(std::mem::take(&mut *left.lock()));
                }
                drop(left);
                thread::park_timeout(LOOK);
            }
        };
        thread::Builder::new().name("shell-estop".into()).spawn(look)?;
        self.is_watched = true;
        Ok(())
    }

    fn command(&mut self, wish: &Wish<'_>, work: &mut Work<'_>) -> Result<Outcome, ToolError> {
        self.watch().map_err(failed)?;
        let is_reduced = wish.needs_agreed() && !wish.is_alone && self.carried.state != self.carried.agreed;
        let mut outcome = self.started(wish, work)?;
        let is_failed = outcome.error.as_ref().is_some_and(|error| error.code != STILL_RUNNING);
        if is_reduced && is_failed {
            add_line(&mut outcome, WITHOUT_STATE);
        }
        let is_agreed = wish.needs_agreed() || wish.terms.is_wide();
        if is_failed && is_agreed && wish.command.contains("/tmp/") && self.launcher.has_jail() {
            add_line(&mut outcome, WITHOUT_FILES);
        }
        Ok(outcome)
    }

    /// Starts a command and waits for its end, or until it is a job.
    fn started(&mut self, wish: &Wish<'_>, work: &mut Work<'_>) -> Result<Outcome, ToolError> {
        let Wish { command, cwd, limit, .. } = *wish;
        // What was approved is what runs: no function or variable of an earlier command reaches one with the network.
        let fresh = State::default();
        let state = match wish {
            _ if wish.is_fresh() => &fresh,
            _ if wish.needs_agreed() => &self.carried.agreed,
            _ => &self.carried.state,
        };
        let terms = Terms { area: wish.area(), ..self.with_jobs(&wish.terms) };
        let request = Request { command, cwd, state, terms };
        let mut bash = Bash::start(&self.launcher, &self.spawner, &request).map_err(|error| not_started(&error))?;
        let started = Instant::now();
        if wish.in_background {
            let ran = bash.wait(started + AT_ONCE, work.is_stopped).map_err(failed)?;
            return Ok(self.outcome(ran, bash, wish, None, started, work));
        }
        let mut ran = bash.wait(started + limit, work.is_stopped).map_err(failed)?;
        let mut choice = None;
        // With a shorter limit, the model itself wants the command to become a job soon.
        if limit >= work.limits.shell
            && let Ran::Running(output) = ran
        {
            bash.take_back(output);
            let overdue = Overdue {
                command: command.to_owned(),
                ran_for: started.elapsed(),
                last_line: bash.last_line(),
                no_job: match self.launcher.whole() {
                    Some(_) => Some("the next command of the session has to wait for it"),
                    None => (!self.left().make_room()).then_some("too many run already"),
                },
            };
            (ran, choice) = offered(&mut bash, &overdue, work).map_err(failed)?;
        }
        Ok(self.outcome(ran, bash, wish, choice, started, work))
    }

    /// Returns how a command sees the workspace, and what else its permit allows it to use.
    fn terms(&self, permit: &Permit, command: &str, in_background: bool) -> Result<Terms, String> {
        let view = match self.launcher.hold() {
            // A copy would become stale for a program that runs while the person works.
            Hold::Copy if !in_background || self.launcher.is_on_bench() => {
                View::Copy(self.launcher.layer(Some(command))?)
            }
            Hold::Walls if permit.is_look() => View::First(self.launcher.layer(None)?),
            // No question was asked about changes.
            Hold::Copy | Hold::Walls if permit.risk() == Risk::Low => View::Look,
            Hold::Copy | Hold::Walls | Hold::Off | Hold::Nothing => View::Work,
        };
        let (readable, writable) = permit.paths();
        let new_in_home = match view {
            View::Copy(_) if self.launcher.has_jail() => self.launcher.may_make(permit.unopened().0),
            _ => Vec::new(),
        };
        let variables = variables(permit.arguments());
        Ok(Terms {
            new_in_home,
            network: permit.has_network(),
            view,
            readable,
            writable,
            variables,
            ..Terms::default()
        })
    }

    /// Returns the same terms with the loopback of a running job, so that its server can be reached.
    fn with_jobs(&self, terms: &Terms) -> Terms {
        let network_of = self.left().jobs.last().map(|job| job.bash.id()).filter(|_| !terms.network);
        Terms { network_of, ..terms.clone() }
    }

    fn outcome(
        &mut self,
        ran: Ran,
        bash: Bash,
        wish: &Wish<'_>,
        choice: Option<OverdueChoice>,
        started: Instant,
        work: &mut Work<'_>,
    ) -> Outcome {
        let (mut lost, mut made) = (None, Vec::new());
        let (output, note) = match ran {
            Ran::Done(output) => {
                lost = self.carry(wish, &output);
                work.copied = self.copied(wish, &bash, &output, work.place.tree.path());
                made = self.launcher.made_in_home(&wish.terms.new_in_home);
                (output, Note::None)
            }
            Ran::Stopped(output) => (output, Note::Stopped),
            Ran::Awaited(output) => (output, Note::Awaited),
            Ran::Overfull(output) => (output, Note::Overfull),
            Ran::Running(output) => match self.further(wish.command, bash, choice) {
                Note::Job(number) if wish.in_background => (output, Note::Begun(number)),
                note => (output, note),
            },
        };
        let mut outcome = outcome(&output, &note, started.elapsed());
        lost.into_iter().for_each(|note| add_line(&mut outcome, note));
        if work.copied.as_ref().is_some_and(Copied::lacks_something) {
            // Once that is granted, the command may run again from the start.
            made.drain(..).for_each(|it| add_line(&mut outcome, &format!("[{} {NOT_PLACED}]", it.place().display())));
        }
        work.new_in_home = made;
        outcome
    }

    /// Records the state that the next command starts from; returns a note about a state that can't be passed on.
    fn carry(&mut self, wish: &Wish<'_>, output: &Output) -> Option<&'static str> {
        self.carried_before = self.carried.clone();
        if wish.is_alone {
            return None;
        }
        let Some(cwd) = &output.cwd else { return Some(STATE_LOST) };
        self.carried.cwd = Some(cwd.clone());
        if wish.is_fresh() {
            return None;
        }
        let Some(state) = &output.state else { return Some(STATE_TOO_LONG) };
        self.carried.state = state.clone();
        if wish.needs_agreed() {
            self.carried.agreed = state.clone();
        }
        None
    }

    /// Returns the directory in which a command starts after one that ended in `cwd`. A directory of the workspace that doesn't
    /// exist any more is replaced by the nearest one above that does. Outside it is as the jail shows it: a `/tmp` of the
    /// session's own, or a new one each time.
    fn start_directory(&self, cwd: &Path, place: Place<'_>) -> PathBuf {
        let workspace = place.tree.path();
        let is_there = |path: &&Path| match self.launcher.is_on_bench() {
            true => path.to_str().is_some_and(|path| place.tree.list(path).is_ok()),
            false => path.is_dir(),
        };
        let is_inside = cwd.starts_with(workspace);
        let mut above = cwd.ancestors().take_while(|it| it.starts_with(workspace));
        let found = match is_inside {
            true => above.find(is_there),
            false if self.launcher.has_jail() => Some(cwd),
            false => Some(cwd).filter(|it| it.is_dir()),
        };
        found.unwrap_or(workspace).to_owned()
    }

    /// Ends an overdue command or lets it continue as a job: as the person chose, otherwise as a job.
    fn further(&mut self, command: &str, mut bash: Bash, choice: Option<OverdueChoice>) -> Note {
        if self.launcher.whole().is_some() {
            bash.kill();
            return if choice.is_some() { Note::Ended } else { Note::Late };
        }
        let is_full = !self.left().make_room();
        if choice == Some(OverdueChoice::End) || is_full {
            bash.kill();
            return if choice.is_some() { Note::Ended } else { Note::TooMany };
        }
        let number = self.next_job;
        self.next_job += 1;
        self.left().jobs.push(Going { number, command: command.to_owned(), bash });
        if choice.is_some() { Note::LetGoOn(number) } else { Note::Job(number) }
    }

    #[cfg(test)]
    fn job(&mut self, number: usize, kill: bool, work: &mut Work<'_>) -> Outcome {
        follow(&self.left, number, kill, work)
    }

    /// Makes the tool that waits for jobs, or ends them.
    #[must_use]
    pub fn jobs(&self) -> ShellJob {
        ShellJob(Arc::clone(&self.left))
    }
}

/// Waits for a job, or ends it.
fn follow(left: &Mutex<Left>, number: usize, kill: bool, work: &mut Work<'_>) -> Outcome {
    let lock = || left.lock();
    let found = {
        let mut left = lock();
        let Left { jobs, is_followed } = &mut *left;
        let at = jobs.iter().position(|job| job.number == number);
        let mut found = at.map(|at| jobs.remove(at)).ok_or_else(|| {
            let numbers: Vec<String> = jobs.iter().map(|job| format!("{} ({})", job.number, job.command)).collect();
            if numbers.is_empty() { "none runs".to_owned() } else { numbers.join(", ") }
        });
        *is_followed = found.as_mut().is_ok_and(|job| job.bash.is_working());
        found
    };
    let outcome = match found {
        Ok(job) => followed(left, job, kill, work),
        Err(there) => ToolError::new("no-job", format!("there is no job {number}"), there).into(),
    };
    lock().is_followed = false;
    outcome
}

/// Waits for a job that was removed from the list, or ends it.
fn followed(left: &Mutex<Left>, mut job: Going, kill: bool, work: &mut Work<'_>) -> Outcome {
    let number = job.number;
    if kill {
        job.bash.kill();
        return Outcome::of(format!("job {number} was ended"));
    }
    let started = Instant::now();
    match job.bash.wait(started + work.limits.shell, work.is_stopped) {
        Ok(Ran::Done(output)) => {
            let layer = job.bash.layer().map(Arc::clone);
            work.copied = layer.map(|layer| Copied { command: job.command.clone(), layer, refused: None });
            outcome(&output, &Note::None, started.elapsed())
        }
        Ok(Ran::Stopped(output)) => outcome(&output, &Note::Stopped, started.elapsed()),
        Ok(Ran::Awaited(output)) => outcome(&output, &Note::Awaited, started.elapsed()),
        Ok(Ran::Overfull(output)) => outcome(&output, &Note::Overfull, started.elapsed()),
        Ok(Ran::Running(output)) => {
            left.lock().jobs.push(job);
            outcome(&output, &Note::Job(number), started.elapsed())
        }
        Err(error) => failed(error).into(),
    }
}

/// Asks the person what to do with an overdue command while it runs on; if it ends meanwhile, the question is withdrawn. Returns
/// the command's progress, and the person's choice.
fn offered(bash: &mut Bash, overdue: &Overdue, work: &mut Work<'_>) -> std::io::Result<(Ran, Option<OverdueChoice>)> {
    let (has_ended, is_over) = (Arc::new(AtomicBool::new(false)), AtomicBool::new(false));
    let is_stopped = work.is_stopped;
    let time_left = || if is_over.load(Ordering::Acquire) { Duration::ZERO } else { Duration::MAX };
    let (ran, choice) = thread::scope(|scope| {
        let waits = scope.spawn(|| {
            let ran = bash.wait_while(&time_left, is_stopped);
            has_ended.store(true, Ordering::Release);
            ran
        });
        let choice = work.person.overdue(overdue, &has_ended);
        is_over.store(choice != Some(OverdueChoice::Wait), Ordering::Release);
        (waits.join().unwrap_or_else(|_| Err(std::io::Error::other("the thread that waits has panicked"))), choice)
    });
    Ok(match ran? {
        // Ctrl-C answered the question, and the time was over before the stop was noticed.
        Ran::Running(output) if is_stopped() => {
            bash.kill();
            (Ran::Stopped(output), choice)
        }
        ran => (ran, choice),
    })
}

fn failed(error: std::io::Error) -> ToolError {
    ToolError::new("shell", format!("bash: {error}"), "")
}

fn not_started(error: &std::io::Error) -> ToolError {
    ToolError::new("sandbox", error.to_string(), "")
}

impl Shell {
    /// Returns the changes of an ended command on its copy; `None` if it had no copy.
    fn copied(&self, wish: &Wish<'_>, bash: &Bash, output: &Output, workspace: &Path) -> Option<Copied> {
        let layer = Arc::clone(bash.layer()?);
        let is_failed = output.status != Some(0);
        let (errors, printed) = (strip_controls(&output.err), strip_controls(&output.out));
        let cwd = output.cwd.as_deref().unwrap_or(wish.cwd);
        let outside = |path: &Path| self.launcher.outside(path);
        let granted =
            |path: &Path| wish.terms.readable.iter().chain(&wish.terms.writable).any(|open| path.starts_with(open));
        // A path that it was granted is refused for another reason.
        let closed = |path: &Path| outside(path).filter(|_| !granted(path));
        let missed = layer.missed();
        let refused = if matches!(wish.terms.view, View::First(_)) {
            looked(missed.as_deref(), &errors, &printed, (workspace, cwd), is_failed)
        } else {
            let by_words = missed.is_none() && !wish.terms.network;
            tried(&missed.unwrap_or_default(), &outside, (is_failed, wish.names_loopback), self.launcher.has_jail())
                .or_else(|| is_failed.then(|| refused(&errors, &printed, cwd, by_words, &closed)).flatten())
        };
        Some(Copied { command: wish.command.to_owned(), layer, refused })
    }
}

impl Tool for Shell {
    fn spec(&self) -> Spec {
        let description = "Runs a command line with bash in the workspace. Directory and variables stay for the next one. \
                           No one can type into it. Start servers with background: true.";
        Spec {
            name: "shell".into(),
            aliases: &["shell_run"],
            description: description.into(),
            schema: json!({
                "type": "object",
                "properties": {
                    "command": {"type": "string", "minLength": 1, "maxLength": 65536},
                    "cwd": {"type": "string", "minLength": 1},
                    "timeout_ms": {"type": "integer", "minimum": 1, "maximum": 600_000},
                    "background": {"type": "boolean"},
                    // For models that know the call from before `shell_job` existed.
                    "job": {"type": "integer", "minimum": 1, "deprecated": true},
                    "kill": {"type": "boolean", "deprecated": true},
                },
                "anyOf": [{"required": ["command"]}, {"required": ["job"]}],
                "additionalProperties": false,
            }),
        }
    }

    fn brief(&self) -> Option<Brief> {
        Some(Brief { description: "Runs a command line with bash in the workspace.", arguments: &["command"] })
    }

    fn offer(&self) -> Offer {
        Offer::Core
    }

    fn plan(&self, arguments: &Value, place: Place<'_>) -> Result<Plan, ToolError> {
        let (command, job) = (text(arguments, "command"), number(arguments, "job"));
        match (command.trim(), job) {
            ("", None) => return Err(ToolError::new("bad-arguments", "the command is missing", "")),
            ("", Some(_)) => return Ok(Plan::of(Action::Inert { name: "shell".into() })),
            // A model that fills in every argument names a job as well.
            _ => {}
        }
        if is_in_background(arguments) && self.launcher.whole().is_some() {
            return Err(ToolError::new("no-jobs", NO_JOBS, NO_JOBS_HINT));
        }
        let cwd = match text(arguments, "cwd") {
            "" => self.carried.cwd.as_ref().map(|cwd| self.start_directory(cwd, place)),
            path => Some(directory(path, place)?),
        };
        // The question about a copy of the workspace comes when the command has ended.
        let preview = match is_in_background(arguments) {
            true if self.launcher.is_on_bench() => IN_BACKGROUND.to_owned(),
            true => format!("{IN_BACKGROUND}, on the workspace itself"),
            false => String::new(),
        };
        Ok(Plan { cwd, preview, ..Plan::of(Action::Shell { command: command.to_owned() }) })
    }

    fn run(&mut self, permit: &Permit, work: &mut Work<'_>) -> Outcome {
        let outcome = self.run_permitted(permit, work);
        work.jobs = Some(Jobs(Arc::downgrade(&self.left)));
        outcome
    }
}

impl Shell {
    fn run_permitted(&mut self, permit: &Permit, work: &mut Work<'_>) -> Outcome {
        match (permit.action(), number(permit.arguments(), "job")) {
            (Action::Shell { command }, _) => {
                let asked = number(permit.arguments(), "timeout_ms");
                let most = work.limits.shell.max(Duration::from_secs(600));
                let limit = asked.map_or(work.limits.shell, |ms| Duration::from_millis(ms as u64).min(most));
                let in_background = is_in_background(permit.arguments());
                if work.is_again {
                    self.carried = self.carried_before.clone();
                }
                let terms = match self.terms(permit, command, in_background) {
                    Ok(terms) => terms,
                    Err(why) => return ToolError::new("sandbox", why, "").into(),
                };
                // Only a procedure's arguments have variables: a model's schema has none.
                let is_alone = permit.arguments().get("env").is_some();
                let names_loopback = permit.names_loopback();
                let is_by_words = permit.is_by_words();
                let cwd = permit.cwd();
                let (in_home, others) = permit.unopened();
                let is_lost = |path: &PathBuf| !terms.new_in_home.iter().any(|above| path.starts_with(above));
                let lost: Vec<PathBuf> = others.into_iter().chain(in_home.into_iter().filter(is_lost)).collect();
                let wish = Wish { command, cwd, terms, limit, in_background, is_alone, names_loopback, is_by_words };
                let mut outcome = self.command(&wish, work).unwrap_or_else(Outcome::from);
                if matches!(self.launcher.hold(), Hold::Copy | Hold::Walls) {
                    lost.iter().for_each(|path| add_line(&mut outcome, &format!("[{} {LOST}]", path.display())));
                }
                outcome
            }
            (_, Some(number)) => {
                let kill = permit.arguments().get("kill").and_then(Value::as_bool).unwrap_or(false);
                follow(&self.left, number, kill, work)
            }
            _ => ToolError::new("bad-arguments", "the command is missing", "").into(),
        }
    }
}

fn add_line(outcome: &mut Outcome, line: &str) {
    outcome.output.push_str(if outcome.output.is_empty() { "" } else { "\n" });
    outcome.output.push_str(line);
}

/// Ends all remaining jobs in parallel, since one that resists takes its time.
fn end_all(left: Left) {
    thread::scope(|scope| {
        for bash in left.jobs.into_iter().map(|job| job.bash) {
            scope.spawn(move || drop(bash));
        }
    });
}

/// Returns whether a command is to be a job from its start.
fn is_in_background(arguments: &Value) -> bool {
    arguments.get("background").and_then(Value::as_bool).unwrap_or(false)
}

/// The variables of a procedure's command.
fn variables(arguments: &Value) -> Vec<(String, OsString)> {
    let variables = arguments.get("env").and_then(Value::as_object).into_iter().flatten();
    variables.filter_map(|(name, value)| Some((name.clone(), value.as_str()?.into()))).collect()
}

/// A directory of the workspace, as an absolute path.
fn directory(path: &str, place: Place<'_>) -> Result<PathBuf, ToolError> {
    let wrong = |error| ToolError::new("bad-directory", format!("{path}: {error}"), "a directory of the workspace");
    place.tree.list(path).map_err(|error| wrong(error.to_string()))?;
    let beneath = place.tree.beneath(path).map_err(|error| wrong(error.to_string()))?;
    Ok(without_dots(&place.tree.path().join(beneath)))
}

/// Returns a path without `.` parts and a trailing slash.
fn without_dots(path: &Path) -> PathBuf {
    path.components().filter(|part| !matches!(part, std::path::Component::CurDir)).collect()
}

/// Further facts about a command.
pub(super) enum Note {
    None,
    Stopped,
    Awaited,
    /// Its copy took too much disk space.
    Overfull,
    Job(usize),
    /// Started as a job on request.
    Begun(usize),
    /// The person lets it continue as this job.
    LetGoOn(usize),
    /// The person has ended it.
    Ended,
    TooMany,
    /// Its time was over.
    Late,
}

/// Returns the question of a program that waits for a person: the last line that it wrote, to the terminal or else
/// anywhere.
fn asked(output: &Output) -> Option<String> {
    let last = [&output.terminal, &output.err, &output.out].into_iter().find_map(|bytes| last_line(bytes))?;
    Some(last.chars().take(ASKED_CHARS_MAX).collect())
}

/// The copy of a command grew too large.
fn overfull() -> ToolError {
    let hint = "write less with one command; with background: true it works on the workspace itself, after a question";
    let message = "its copy of the workspace, its home and /tmp took too much disk space; it was ended, its changes are dropped, \
                   and its home and /tmp were emptied";
    ToolError::new("too-large", message, hint)
}

/// The outcome of a command that is a job from its start.
fn begun(mut outcome: Outcome, number: usize) -> Outcome {
    add_line(&mut outcome, &format!("[started as job {number}; shell_job waits for it, or ends it with kill: true]"));
    outcome.with("job", number)
}

/// Adds a command's status, the number of processes that were ended with it, and its last directory.
fn with_facts(mut outcome: Outcome, output: &Output) -> Outcome {
    if let Some(status) = output.status {
        outcome = outcome.with("exitCode", status);
    }
    if output.background > 0 {
        outcome = outcome.with("ended_in_background", output.background);
    }
    match &output.cwd {
        Some(cwd) => outcome.with("cwd", cwd.display().to_string()),
        None => outcome,
    }
}

/// Returns the outcome of a command.
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
    if output.is_on_copy && !matches!(note, Note::None | Note::Job(_) | Note::Begun(_) | Note::LetGoOn(_)) {
        shown.push_str("\n[what it had changed so far was dropped]");
    }
    if output.dropped > 0 {
        shown.push_str(&format!("\n[{} bytes were too many to be kept]", output.dropped));
    }
    let took_ms = u64::try_from(took.as_millis()).unwrap_or(u64::MAX);
    let mut outcome =
        Outcome::of(shown).with("durationMs", took_ms).with("stdout", out.as_str()).with("stderr", err.as_str());
    outcome = with_facts(outcome, output);
    let lower = err.to_lowercase();
    let error = match note {
        Note::Begun(number) => return begun(outcome, *number),
        Note::Stopped => ToolError::new("stopped", "it was stopped, and all that it had started", ""),
        Note::Job(number) | Note::LetGoOn(number) => {
            let hint = format!("shell_job with job: {number} waits for more of it; with kill: true it ends it");
            outcome = outcome.with("job", *number);
            let who = if matches!(note, Note::Job(_)) { "it continues" } else { "the user lets it continue" };
            let message = format!("still running after {} s; {who} as job {number}", took.as_secs());
            ToolError::new(STILL_RUNNING, message, hint)
        }
        Note::Ended => {
            let hint = "ask them before you run it again";
            ToolError::new(ENDED_BY_USER, format!("the user ended it after {} s", took.as_secs()), hint)
        }
        Note::TooMany => ToolError::new("timeout", "its time was over and it was ended: too many jobs run", ""),
        Note::Awaited => {
            let asked = asked(output).map(|asked| format!(": {asked}")).unwrap_or_default();
            let hint = "the user can run it in their own shell; ask them to";
            ToolError::new(
                "needs-terminal",
                format!("it waits for someone at a terminal, so it was ended{asked}"),
                hint,
            )
        }
        Note::Overfull => overfull(),
        Note::Late => ToolError::new("timeout", format!("it was ended after {} s", took.as_secs()), ""),
        _ if output.status != Some(0) && WANTS_TERMINAL.iter().any(|sign| lower.contains(sign)) => {
            let hint = "the user can run it in their own shell; ask them to";
            ToolError::new("needs-terminal", "it wants a terminal, which it has not", hint)
        }
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
