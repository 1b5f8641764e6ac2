//! `reedclaw service`: begins procedures at their times and when their files change, in the foreground or as a user's unit of
//! systemd. One runs at a time. It ends at SIGTERM after the step at hand.

mod daemon;
mod health;
mod metrics;
mod notify;
mod status;
mod texts;
mod unit;
mod workers;

use std::fs::File;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use clap::{Arg, ArgAction, ArgMatches, Command};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use crate::app::{self, ChannelKind, Request, Runtime};
use crate::cli::answers::agent::{say, tell};
use crate::cli::exit;
use crate::config::{self, Env};
use crate::files::Locked;
use crate::proto::Failure;

pub use metrics::{metrics, metrics_definition};

use daemon::Service;
use notify::Manager;
use workers::Shared;

/// The longest wait for the step at hand when the service is to end.
const STEP_WAIT: Duration = Duration::from_secs(15);
/// The longest wait for the service's lock, and the time between two looks at it.
const LOCK_WAIT: Duration = Duration::from_secs(1);
const LOCK_LOOK: Duration = Duration::from_millis(50);

/// The subcommand, as clap knows it.
pub fn definition() -> Command {
    let json = || Arg::new("json").long("json").action(ArgAction::SetTrue).help("Prints JSON");
    Command::new("service")
        .about("Runs procedures at their times and when their files change")
        .subcommand_required(true)
        .after_help("Exit status of status: 0 it runs, 1 it doesn't, 3 it runs but can't do all that it should, 9 it runs and the emergency stop is on.")
        .subcommands([
            Command::new("run").about("Runs in the foreground until SIGTERM or Ctrl-C; only one runs at a time"),
            Command::new("install").about("Writes a unit for systemd, launchd or OpenRC, and starts it").args([
                Arg::new("linger")
                    .long("linger")
                    .action(ArgAction::SetTrue)
                    .help("Lets systemd run it without a session of yours too, and asks nothing"),
                Arg::new("print")
                    .long("print")
                    .value_name("KIND")
                    .value_parser(["systemd", "launchd", "openrc", "crontab"])
                    .help("Prints the text for a service manager, and writes nothing"),
            ]),
            Command::new("uninstall").about("Stops the unit and removes it"),
            Command::new("start").about("Starts the installed unit"),
            Command::new("stop").about("Stops the installed unit after the current step"),
            Command::new("restart").about("Stops the installed unit after the current step, and starts it again"),
            Command::new("status").about("Prints whether the service runs, and its triggers").arg(json()),
            Command::new("logs").about("Prints the unit's newest log lines"),
        ])
}

/// Carries it out; `config` is the file that `--config` names, `path` the workspace.
pub fn run(matches: &ArgMatches, config: Option<PathBuf>, path: Option<PathBuf>) -> ExitCode {
    let done = match matches.subcommand() {
        Some(("run", _)) => serve(config, path),
        Some(("status", inner)) => status::status(inner.get_flag("json"), config, path),
        Some((word, inner)) => unit::act(word, inner, config.as_deref(), path.as_deref()),
        None => Ok(exit::USAGE),
    };
    done.map_or_else(|failure| exit::failed(&failure), ExitCode::from)
}

/// The workspace whose procedures are looked after.
fn workspace(runtime: &Runtime, path: Option<PathBuf>) -> Result<PathBuf, Failure> {
    let Some(path) = path else { return Ok(app::workspace_dir(runtime.settings(), runtime.env())) };
    path.canonicalize()
        .map_err(|error| Failure::user(format!("{}: {error}", path.display())).hint("--path names a directory"))
}

fn place(env: &Env, name: &str) -> Result<PathBuf, Failure> {
    let state = config::state_directory(env).ok_or_else(|| Failure::unavailable("no HOME is set").hint("set HOME"))?;
    Ok(state.join(name))
}

/// Returns whether the service runs.
pub(super) fn runs(env: &Env) -> bool {
    hold(env).is_err()
}

fn hold(env: &Env) -> Result<Locked<File>, Failure> {
    Locked::open(&place(env, "service.lock")?)
        .map_err(|_| Failure::unavailable("the service runs already").hint("reedclaw service status shows it"))
}

/// Holds the lock of the service; another process may hold it for a moment to look whether the service runs.
fn hold_for_work(env: &Env) -> Result<Locked<File>, Failure> {
    let until = Instant::now() + LOCK_WAIT;
    loop {
        match hold(env) {
            Err(_) if Instant::now() < until => std::thread::park_timeout(LOCK_LOOK),
            held => return held,
        }
    }
}

fn serve(config: Option<PathBuf>, path: Option<PathBuf>) -> Result<u8, Failure> {
    let signals = Signals::new([SIGINT, SIGTERM, SIGHUP])
        .map_err(|error| Failure::unavailable(format!("signals can't be received: {error}")))?;
    let request = Request { config, channel: ChannelKind::Service, ..Request::default() };
    let runtime = Runtime::start(&request)?;
    runtime.problems().iter().for_each(tell);
    if let Some(failure) = app::closed(runtime.settings(), ChannelKind::Service) {
        return Err(failure);
    }
    let workspace = workspace(&runtime, path)?;
    let held = hold_for_work(runtime.env())?;
    let health = place(runtime.env(), "service.json")?;
    let manager = Manager::of(runtime.env());
    let mut service = Service::new(runtime, request, workspace, health);
    listen(signals, Arc::clone(service.shared()))?;
    let worked = service.work(&manager);
    manager.report(notify::STOPPING);
    service.shared().end(STEP_WAIT);
    drop(held);
    tracing::info!(event = "service_ended", pid = std::process::id());
    say("the service has ended");
    worked.map(|()| exit::DONE)
}

/// Receives signals on a thread of its own: SIGHUP reads the config again, the others end the service.
fn listen(mut signals: Signals, shared: Arc<Shared>) -> Result<(), Failure> {
    let hear = move || {
        for signal in signals.forever() {
            let flag = if signal == SIGHUP { &shared.reloads } else { &shared.stops };
            flag.store(true, Ordering::SeqCst);
            shared.wake();
        }
    };
    let spawned = std::thread::Builder::new().name("service-end".into()).spawn(hear);
    spawned.map(drop).map_err(|error| Failure::unavailable(format!("no thread could be started: {error}")))
}
