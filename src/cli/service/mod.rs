//! `reedclaw service`: begins procedures at their times and when their files change, in the foreground or as a user's unit of
//! systemd. One runs at a time. It ends at SIGTERM after the step at hand.

mod notify;
mod unit;

use std::collections::BTreeMap;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use clap::{Arg, ArgAction, ArgMatches, Command};
use serde_json::{Value, json};
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use crate::agent::Cancel;
use crate::agent::procedure::Journal;
use crate::app::{self, ChannelKind, Due, Request, Runtime, Schedule, SopJournal};
use crate::base::time::utc;
use crate::cli::agent::{say, tell};
use crate::cli::exit;
use crate::cli::out::outln;
use crate::config::{self, Env};
use crate::files::{Locked, replace_private};
use crate::host::now_unix_ms;
use crate::proto::{Failure, FailureKind};

use notify::Manager;

/// How often times are looked at.
const LOOK: Duration = Duration::from_secs(10);
/// How often files are.
const LOOK_AT_FILES: Duration = Duration::from_secs(1);
/// The longest wait for the step at hand when the service is to end.
const STEP_WAIT: Duration = Duration::from_secs(15);
/// Unfinished runs that are taken up again at the start.
const RECENT_MAX: usize = 200;

/// The subcommand, as clap knows it.
pub fn definition() -> Command {
    let json = || Arg::new("json").long("json").action(ArgAction::SetTrue).help("Prints JSON");
    Command::new("service")
        .about("Runs procedures at their times and when their files change")
        .subcommand_required(true)
        .after_help("Exit status of status: 0 it runs, 1 it doesn't, 9 it runs and the emergency stop is on.")
        .subcommands([
            Command::new("run").about("Runs in the foreground until SIGTERM or Ctrl-C; only one runs at a time"),
            Command::new("install").about("Writes a systemd user unit, and starts it"),
            Command::new("uninstall").about("Stops the unit and removes it"),
            Command::new("start").about("Starts the installed unit"),
            Command::new("stop").about("Stops the installed unit after the step at hand"),
            Command::new("restart").about("Stops the installed unit after the step at hand, and starts it anew"),
            Command::new("status").about("Prints whether the service runs, and its triggers").arg(json()),
            Command::new("logs").about("Prints the unit's newest log lines"),
        ])
}

/// Carries it out; `config` is the file that `--config` names, `path` the workspace.
pub fn run(matches: &ArgMatches, config: Option<PathBuf>, path: Option<PathBuf>) -> ExitCode {
    let done = match matches.subcommand() {
        Some(("run", _)) => serve(config, path),
        Some(("status", inner)) => status(inner.get_flag("json"), config, path),
        Some((word, _)) => unit::act(word, config.as_deref(), path.as_deref()),
        None => Ok(exit::USAGE),
    };
    done.map_or_else(|failure| exit::failed(&failure), ExitCode::from)
}

/// The workspace whose procedures are looked after.
fn workspace(runtime: &Runtime, path: Option<PathBuf>) -> Result<PathBuf, Failure> {
    let Some(path) = path else { return Ok(app::workspace_dir(runtime.settings(), runtime.env())) };
    path.canonicalize().map_err(|error| Failure {
        kind: FailureKind::User,
        message: format!("{}: {error}", path.display()),
        hint: "--path names a directory".into(),
    })
}

fn place(env: &Env, name: &str) -> Result<PathBuf, Failure> {
    let state = config::state_directory(env).ok_or_else(|| unavailable("no HOME is set".into(), "set HOME"))?;
    Ok(state.join(name))
}

fn hold(env: &Env) -> Result<Locked<File>, Failure> {
    Locked::open(&place(env, "service.lock")?)
        .map_err(|_| unavailable("the service runs already".into(), "reedclaw service status shows it"))
}

/// The state that the loop and the worker share.
struct Shared {
    /// Runs that wait, the oldest first.
    queue: Mutex<Vec<SopJournal>>,
    changed: Condvar,
    stops: AtomicBool,
    cancel: Cancel,
}

fn serve(config: Option<PathBuf>, path: Option<PathBuf>) -> Result<u8, Failure> {
    let mut signals = Signals::new([SIGINT, SIGTERM])
        .map_err(|error| unavailable(format!("signals can't be received: {error}"), ""))?;
    let request = Request { config: config.clone(), channel: ChannelKind::Agent, ..Request::default() };
    let runtime = Runtime::start(&request)?;
    runtime.problems().iter().for_each(tell);
    if let Some(failure) = app::closed(runtime.settings(), ChannelKind::Agent) {
        return Err(failure);
    }
    let workspace = workspace(&runtime, path)?;
    let held = hold(runtime.env())?;
    let facts = json!({"pid": std::process::id(), "since": utc(now_unix_ms()), "workspace": workspace});
    replace_private(&place(runtime.env(), "service.json")?, facts.to_string().as_bytes())
        .map_err(|error| unavailable(format!("service.json can't be written: {error}"), ""))?;
    let shared = Arc::new(Shared {
        queue: Mutex::default(),
        changed: Condvar::new(),
        stops: AtomicBool::new(false),
        cancel: Cancel::new(),
    });
    let worker = {
        let (shared, request) = (Arc::clone(&shared), Request { store: Some(Arc::clone(runtime.store())), ..request });
        std::thread::Builder::new().name("service-sop".into()).spawn(move || work(&shared, &request))
    };
    let worker = worker.map_err(|error| unavailable(format!("no thread could be started: {error}"), ""))?;
    let stopper = {
        let shared = Arc::clone(&shared);
        move || {
            if signals.forever().next().is_some() {
                shared.stops.store(true, Ordering::SeqCst);
                shared.changed.notify_all();
            }
        }
    };
    std::thread::Builder::new()
        .name("service-end".into())
        .spawn(stopper)
        .map_err(|error| unavailable(format!("no thread could be started: {error}"), ""))?;
    take_up(&runtime, &shared)?;
    let mut schedule = Schedule::default();
    begin_due(&runtime, &workspace, &shared, &mut schedule);
    let manager = Manager::of(runtime.env());
    manager.report(notify::READY);
    say(&format!("the service runs for {}; Ctrl-C or SIGTERM ends it", workspace.display()));
    let often = |look: Duration| manager.every.map_or(look, |every| every.min(look));
    while rest(&shared, often(if schedule.has_files() { LOOK_AT_FILES } else { LOOK })) {
        begin_due(&runtime, &workspace, &shared, &mut schedule);
        // Without its worker it is of no use, and the manager starts it anew.
        if !worker.is_finished() {
            manager.report(notify::ALIVE);
        }
    }
    manager.report(notify::STOPPING);
    // The step at hand may end by itself.
    let until = Instant::now() + STEP_WAIT;
    while !worker.is_finished() && Instant::now() < until {
        std::thread::park_timeout(Duration::from_millis(50));
    }
    shared.cancel.cancel();
    let _ = worker.join();
    drop(held);
    say("the service has ended");
    Ok(exit::DONE)
}

/// Takes up the runs that were cut off, or that rest because a service ended.
fn take_up(runtime: &Runtime, shared: &Shared) -> Result<(), Failure> {
    let mut left: Vec<SopJournal> = Vec::new();
    for journal in app::sop_runs(runtime.settings(), runtime.env(), runtime.store(), RECENT_MAX)? {
        let run = journal.state()?;
        // The run of a step is its outer run's matter.
        let is_ours = run.trigger.kind != "manual" && run.trigger.parent.is_none() && app::may_take_up(&run);
        if is_ours {
            say(&format!("run {} of {} is taken up again", run.id, journal.name));
            left.insert(0, journal);
        }
    }
    shared.queue.lock().unwrap_or_else(PoisonError::into_inner).extend(left);
    shared.changed.notify_all();
    Ok(())
}

/// Waits; false if the service is to end.
fn rest(shared: &Shared, time: Duration) -> bool {
    let queue = shared.queue.lock().unwrap_or_else(PoisonError::into_inner);
    let goes_on = |_: &mut Vec<SopJournal>| !shared.stops.load(Ordering::SeqCst);
    drop(shared.changed.wait_timeout_while(queue, time, goes_on));
    !shared.stops.load(Ordering::SeqCst)
}

/// Begins the runs that are due by their times or files.
fn begin_due(runtime: &Runtime, workspace: &Path, shared: &Shared, schedule: &mut Schedule) {
    let is_stopped = app::estop(runtime.env()).map_or(true, |estop| estop.check().is_err());
    for procedure in app::procedures(runtime.env(), workspace) {
        let last = |prefix: &str| app::last_fire(runtime.store(), &procedure, prefix);
        let due = schedule.due(&procedure, workspace, now_unix_ms(), &last);
        // What falls into an emergency stop is left out.
        for Due { slot, fired } in due.into_iter().filter(|_| !is_stopped) {
            let (parts, none) = ((runtime.settings(), runtime.env()), BTreeMap::new());
            let with = (&none, fired, Some(slot.as_str()));
            match app::begin_procedure(parts, runtime.store(), &procedure, workspace, with) {
                Ok(Some(journal)) => {
                    say(&format!("run {} of {} begins ({slot})", journal.run(), procedure.name));
                    shared.queue.lock().unwrap_or_else(PoisonError::into_inner).push(journal);
                    shared.changed.notify_all();
                }
                // Another service has begun it.
                Ok(None) => {}
                Err(failure) => tell(&failure),
            }
        }
    }
    schedule.take_stopped().iter().for_each(|why| say(why));
}

/// Works on the runs, one after the other.
fn work(shared: &Shared, request: &Request) {
    loop {
        let journal = {
            let mut queue = shared.queue.lock().unwrap_or_else(PoisonError::into_inner);
            while queue.is_empty() && !shared.stops.load(Ordering::SeqCst) {
                queue = shared.changed.wait(queue).unwrap_or_else(PoisonError::into_inner);
            }
            if shared.stops.load(Ordering::SeqCst) {
                return;
            }
            queue.remove(0)
        };
        match app::work_procedure(request.clone(), &journal, &shared.cancel, &shared.stops) {
            Ok(Some(run)) => say(&format!("run {} of {}: {}", run.id, journal.name, run.word())),
            Ok(None) => {}
            Err(failure) => tell(&failure),
        }
    }
}

fn status(is_json: bool, config: Option<PathBuf>, path: Option<PathBuf>) -> Result<u8, Failure> {
    let runtime = Runtime::start(&Request { config, channel: ChannelKind::Agent, ..Request::default() })?;
    let is_alive = hold(runtime.env()).is_err();
    let facts: Value = std::fs::read_to_string(place(runtime.env(), "service.json")?)
        .ok()
        .filter(|_| is_alive)
        .and_then(|text| serde_json::from_str(&text).ok())
        .unwrap_or_default();
    let stop = app::estop(runtime.env())?.check().err().map(|stopped| stopped.why);
    let at = facts["workspace"].as_str().map(PathBuf::from);
    let workspace = at.map_or_else(|| workspace(&runtime, path), Ok)?;
    let mut waiting = 0;
    let mut active = 0;
    for journal in app::sop_runs(runtime.settings(), runtime.env(), runtime.store(), RECENT_MAX)? {
        match journal.state()?.word() {
            "waiting" | "unknown" => waiting += 1,
            "running" => active += 1,
            _ => {}
        }
    }
    let triggers: Vec<Value> = app::procedures(runtime.env(), &workspace)
        .iter()
        .map(|it| json!({"name": it.name, "standing": it.standing(), "next": app::next_time(it, now_unix_ms()).map(utc)}))
        .collect();
    if is_json {
        let version = env!("CARGO_PKG_VERSION");
        outln!(
            "{}",
            json!({"alive": is_alive, "pid": facts["pid"], "since": facts["since"], "version": version, "estop": stop,
                "workspace": workspace, "procedures": triggers, "runs": {"active": active, "waiting": waiting}})
        );
    } else {
        match is_alive {
            true => {
                outln!("The service runs since {} (process {}).", facts["since"].as_str().unwrap_or("?"), facts["pid"])
            }
            false => outln!("The service doesn't run. Triggers begin nothing until it does."),
        }
        stop.iter().for_each(|why| outln!("{}", crate::render::sanitise(why)));
        outln!("{active} runs go on, {waiting} wait for a person; procedures of {}:", workspace.display());
        for trigger in &triggers {
            let next = trigger["next"].as_str().map_or_else(String::new, |next| format!(", next at {next}"));
            outln!(
                "  {} ({}){next}",
                trigger["name"].as_str().unwrap_or_default(),
                trigger["standing"].as_str().unwrap_or_default()
            );
        }
    }
    Ok(match (is_alive, stop) {
        (false, _) => exit::FAILED,
        (true, Some(_)) => exit::ESTOP,
        (true, None) => exit::DONE,
    })
}

fn unavailable(message: String, hint: &str) -> Failure {
    Failure { kind: FailureKind::Unavailable, message, hint: hint.to_owned() }
}
