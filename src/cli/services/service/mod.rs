//! `reedclaw service`: begins procedures at their times and when their files change, in the foreground or as a user's unit of
//! systemd. One runs at a time. It ends at SIGTERM after the step at hand.

mod health;
mod metrics;
mod notify;
mod unit;
mod workers;

use std::collections::BTreeMap;
use std::fs::File;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use clap::{Arg, ArgAction, ArgMatches, Command};
use serde_json::{Value, json};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use crate::agent::procedure::Journal;
use crate::app::{self, ChannelKind, Due, Request, Runtime, Schedule, SopJournal, SopStart};
use crate::base::time::utc;
use crate::cli::answers::agent::{say, tell};
use crate::cli::exit;
use crate::cli::out::outln;
use crate::config::{self, Env};
use crate::files::Locked;
use crate::host::now_unix_ms;
use crate::proto::{Failure, FailureKind};

pub use metrics::{metrics, metrics_definition};

use health::{Health, config_digest, problems};
use notify::Manager;
use workers::Shared;

/// Interval at which times are looked at.
const LOOK: Duration = Duration::from_secs(10);
/// Interval at which files are looked at.
const LOOK_AT_FILES: Duration = Duration::from_secs(1);
/// The longest wait for the step at hand when the service is to end.
const STEP_WAIT: Duration = Duration::from_secs(15);
/// Reason why a service with a config that has a mistake isn't well.
const BROKEN_CONFIG: &str = "the config has a mistake: reedclaw config check shows it";
/// The time in which failed runs are counted, in milliseconds: a day.
const RECENT_MS: i64 = 86_400_000;
/// Unfinished runs that are taken up again at the start.
const RECENT_MAX: usize = 200;

/// The subcommand, as clap knows it.
pub fn definition() -> Command {
    let json = || Arg::new("json").long("json").action(ArgAction::SetTrue).help("Prints JSON");
    Command::new("service")
        .about("Runs procedures at their times and when their files change")
        .subcommand_required(true)
        .after_help("Exit status of status: 0 it runs, 1 it doesn't, 3 it runs but can't do all that it should, 9 it runs and the emergency stop is on.")
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

fn serve(config: Option<PathBuf>, path: Option<PathBuf>) -> Result<u8, Failure> {
    let signals = Signals::new([SIGINT, SIGTERM, SIGHUP])
        .map_err(|error| unavailable(format!("signals can't be received: {error}"), ""))?;
    let request = Request { config, channel: ChannelKind::Agent, ..Request::default() };
    let runtime = Runtime::start(&request)?;
    runtime.problems().iter().for_each(tell);
    if let Some(failure) = app::closed(runtime.settings(), ChannelKind::Agent) {
        return Err(failure);
    }
    let workspace = workspace(&runtime, path)?;
    let held = hold(runtime.env())?;
    let mut health = Health::new(place(runtime.env(), "service.json")?, &workspace, config_digest(&runtime));
    if runtime.has_broken_config() {
        health.config = Some(BROKEN_CONFIG.into());
    }
    let request = Request { store: Some(Arc::clone(runtime.store())), ..request };
    let shared = Shared::new(runtime.env().clone(), request.clone());
    shared.set_settings(runtime.settings());
    listen(signals, Arc::clone(&shared))?;
    take_up(&runtime, &shared)?;
    let mut service = Service { runtime, request, workspace, shared, health, schedule: Schedule::default() };
    let manager = Manager::of(service.runtime.env());
    service.begin_due();
    service.health.update(&service.runtime, service.shared.working());
    manager.report(notify::READY);
    say(&format!("the service runs for {}; Ctrl-C or SIGTERM ends it", service.workspace.display()));
    let often = |look: Duration| manager.every.map_or(look, |every| every.min(look));
    while service.shared.rest(often(if service.schedule.has_files() { LOOK_AT_FILES } else { LOOK })) {
        service.reload_if_asked();
        service.begin_due();
        service.health.update(&service.runtime, service.shared.working());
        manager.report(notify::ALIVE);
    }
    manager.report(notify::STOPPING);
    service.shared.end(STEP_WAIT);
    drop(held);
    say("the service has ended");
    Ok(exit::DONE)
}

/// Hears signals on a thread of its own: SIGHUP reads the config again, the others end the service.
fn listen(mut signals: Signals, shared: Arc<Shared>) -> Result<(), Failure> {
    let hear = move || {
        for signal in signals.forever() {
            let flag = if signal == SIGHUP { &shared.reloads } else { &shared.stops };
            flag.store(true, Ordering::SeqCst);
            shared.wake();
        }
    };
    let spawned = std::thread::Builder::new().name("service-end".into()).spawn(hear);
    spawned.map(drop).map_err(|error| unavailable(format!("no thread could be started: {error}"), ""))
}

/// The service at work.
struct Service {
    runtime: Runtime,
    request: Request,
    workspace: PathBuf,
    shared: Arc<Shared>,
    health: Health,
    schedule: Schedule,
}

impl Service {
    /// Reads the config again at SIGHUP, and when its file has changed. If it can't be used, the settings from before count.
    fn reload_if_asked(&mut self) {
        let digest = config_digest(&self.runtime);
        let is_asked = self.shared.reloads.swap(false, Ordering::SeqCst);
        if !is_asked && self.health.digest == digest {
            return;
        }
        self.health.digest = digest;
        match Runtime::start(&self.request) {
            Ok(next) if !next.has_broken_config() => {
                next.problems().iter().for_each(tell);
                self.shared.set_settings(next.settings());
                (self.runtime, self.health.config) = (next, None);
                say("the config was read again");
            }
            Ok(next) => {
                next.problems().iter().for_each(tell);
                self.health.config = Some(BROKEN_CONFIG.into());
            }
            Err(failure) => {
                tell(&failure);
                self.health.config = Some(failure.message);
            }
        }
        if self.health.config.is_some() {
            say("the settings from before count until the config is mended");
        }
    }

    /// Begins the runs that are due by their times or files.
    fn begin_due(&mut self) {
        let Self { runtime, workspace, shared, schedule, .. } = self;
        let is_stopped = app::estop(runtime.env()).map_or(true, |estop| estop.check().is_err());
        let now = jiff::Zoned::now();
        let minute = u16::try_from(i32::from(now.hour()) * 60 + i32::from(now.minute())).unwrap_or(0);
        let is_quiet = runtime.settings().service.is_quiet_at(minute);
        for procedure in app::procedures(runtime.env(), workspace) {
            let last = |prefix: &str| app::last_fire(runtime.store(), &procedure, prefix);
            let due = schedule.due(&procedure, workspace, (now_unix_ms(), is_quiet), &last);
            // What falls into an emergency stop is left out.
            for Due { slot, fired } in due.into_iter().filter(|_| !is_stopped) {
                let (parts, none) = ((runtime.settings(), runtime.env()), BTreeMap::new());
                let with = SopStart { inputs: &none, trigger: fired, slot: Some(&slot), taken: Vec::new() };
                match app::begin_procedure(parts, runtime.store(), &procedure, workspace, with) {
                    Ok(Some(journal)) => {
                        say(&format!("run {} of {} begins ({slot})", journal.run(), procedure.name));
                        shared.add([journal]);
                    }
                    // Another service has begun it.
                    Ok(None) => {}
                    Err(failure) => tell(&failure),
                }
            }
        }
        schedule.take_stopped().iter().for_each(|why| say(why));
    }
}

/// Takes up the runs that were cut off, or that rest because a service ended.
fn take_up(runtime: &Runtime, shared: &Arc<Shared>) -> Result<(), Failure> {
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
    shared.add(left);
    Ok(())
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
    let (mut waiting, mut active, mut failed) = (0, 0, 0);
    let wrong = problems(&facts);
    for journal in app::sop_runs(runtime.settings(), runtime.env(), runtime.store(), RECENT_MAX)? {
        let run = journal.state()?;
        match run.word() {
            "waiting" | "unknown" => waiting += 1,
            "running" => active += 1,
            "failed" if now_unix_ms() - run.began < RECENT_MS => failed += 1,
            _ => {}
        }
    }
    let triggers: Vec<Value> = app::procedures(runtime.env(), &workspace)
        .iter()
        .map(|it| json!({"name": it.name, "standing": it.standing(), "next": app::next_time(it, now_unix_ms()).map(utc)}))
        .collect();
    if is_json {
        outln!(
            "{}",
            json!({"alive": is_alive, "pid": facts["pid"], "since": facts["since"], "version": facts["version"],
                "config_sha256": facts["config_sha256"], "store": facts["store"], "degraded": wrong, "estop": stop,
                "workspace": workspace, "procedures": triggers,
                "runs": {"active": active, "waiting": waiting, "failed_24h": failed}})
        );
    } else {
        match is_alive {
            true => {
                outln!("The service runs since {} (process {}).", facts["since"].as_str().unwrap_or("?"), facts["pid"])
            }
            false => outln!("The service doesn't run. Triggers begin nothing until it does."),
        }
        stop.iter().for_each(|why| outln!("{}", crate::render::sanitise(why)));
        wrong.iter().for_each(|why| outln!("It isn't well: {}.", crate::render::sanitise(why)));
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
        (true, None) if !wrong.is_empty() => exit::REFUSED,
        (true, None) => exit::DONE,
    })
}

fn unavailable(message: String, hint: &str) -> Failure {
    Failure { kind: FailureKind::Unavailable, message, hint: hint.to_owned() }
}
