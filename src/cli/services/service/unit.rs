//! The service as a part of the machine's start: its text in the place of systemd, launchd or OpenRC, and the calls of
//! their programs. An installation that fails is undone.

use std::ffi::OsStr;
use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::process::Command;

use clap::ArgMatches;

use super::place;
use super::texts::{LABEL, Start};
use crate::app::{self, ChannelKind, Request, Runtime};
use crate::base::directories::{self, Kind};
use crate::base::program::find_program;
use crate::cli::answers::agent::say;
use crate::cli::exit;
use crate::cli::out::{is_yes, out, outln};
use crate::config::Env;
use crate::files::replace_private;
use crate::host;
use crate::proto::Failure;

/// The name of systemd's unit.
const UNIT: &str = "reedclaw.service";
/// The name of OpenRC's script.
const SCRIPT: &str = "reedclaw";
/// Lines of the log that are printed.
const LOG_LINES: usize = 200;
/// The file that notes that ReedClaw switched on lingering.
const LINGERS: &str = "service-lingers";
/// The way without a service manager.
const FOREGROUND: &str =
    "reedclaw service run works in the foreground, for example in a container or from cron's @reboot";

/// The program that starts services.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Keeper {
    Systemd,
    Launchd,
    OpenRc,
}

/// The service's place in the machine's start.
struct Unit {
    keeper: Keeper,
    place: PathBuf,
    env: Env,
}

/// Carries out a word about the unit.
pub(super) fn act(word: &str, matches: &ArgMatches, config: Option<&Path>, path: Option<&Path>) -> Result<u8, Failure> {
    let env = host::environment();
    if let Some(kind) = matches.try_get_one::<String>("print").ok().flatten() {
        let start = start_of(config, path, &env)?;
        let text = match kind.as_str() {
            "systemd" => start.systemd(),
            "launchd" => start.launchd(),
            "openrc" => start.openrc(),
            _ => start.crontab(),
        }?;
        out!("{text}");
        return Ok(exit::DONE);
    }
    let Some(unit) = Unit::of(&env)? else { return without_keeper(word, config, path, &env) };
    match word {
        "install" => {
            let start = start_of(config, path, &env)?;
            unit.install(&start)?;
            explain_keys(config)?;
            unit.linger(matches.get_flag("linger"));
            Ok(exit::DONE)
        }
        "uninstall" => unit.uninstall(),
        "logs" => unit.logs(),
        _ if !unit.place.exists() => Err(Failure::unavailable(format!("{} isn't installed", unit.place.display()))
            .hint("reedclaw service install, or reedclaw service run")),
        word => {
            unit.call(word)?;
            outln!("{word}: done");
            Ok(exit::DONE)
        }
    }
}

/// Prints the ways to start the service without a manager of services.
fn without_keeper(word: &str, config: Option<&Path>, path: Option<&Path>, env: &Env) -> Result<u8, Failure> {
    if word == "install" {
        outln!(
            "There is no systemd, launchd or OpenRC here. A line for crontab -e starts the service with the machine:"
        );
        out!("{}", start_of(config, path, env)?.crontab()?);
        outln!(
            "In a container the command is `reedclaw service run`, with an init that reaps processes (docker run --init)."
        );
    }
    Err(Failure::unavailable("no program that keeps services is on the PATH").hint(FOREGROUND))
}

/// The command line of the service, with the options of this one.
fn start_of(config: Option<&Path>, path: Option<&Path>, env: &Env) -> Result<Start, Failure> {
    let mut arguments = Vec::new();
    for (name, value) in [("--config", config), ("--path", path)] {
        if let Some(value) = value {
            let whole =
                value.canonicalize().map_err(|error| Failure::unavailable(format!("{}: {error}", value.display())))?;
            arguments.extend([name.to_owned(), whole.display().to_string()]);
        }
    }
    arguments.extend(["service".to_owned(), "run".to_owned()]);
    let search = env.get(OsStr::new("PATH")).and_then(|path| path.to_str());
    let path = search.unwrap_or("/usr/local/bin:/usr/bin:/bin").to_owned();
    Ok(Start { program: host::executable(), arguments, path })
}

/// Names the models whose key is in a variable, which the service won't have.
fn explain_keys(config: Option<&Path>) -> Result<(), Failure> {
    let request = Request { config: config.map(Path::to_owned), channel: ChannelKind::Service, ..Request::default() };
    let runtime = Runtime::start(&request)?;
    for (model, variable) in app::models_with_variable(runtime.settings()) {
        outln!(
            "The service won't have the key of {model}, which is in ${variable}: key_command or key_file works there."
        );
    }
    Ok(())
}

impl Unit {
    /// The first manager whose program is on the `PATH`.
    fn of(env: &Env) -> Result<Option<Self>, Failure> {
        let path = env.get(OsStr::new("PATH")).and_then(|path| path.to_str()).unwrap_or_default();
        let has = |name: &str| find_program(name, path, Path::new("/")).is_some();
        let keeper = match () {
            () if has("systemctl") => Keeper::Systemd,
            () if has("launchctl") => Keeper::Launchd,
            () if has("rc-service") => Keeper::OpenRc,
            () => return Ok(None),
        };
        let no_home = || Failure::unavailable("no HOME is set").hint("set HOME");
        let home = env.get(OsStr::new("HOME")).map(PathBuf::from).ok_or_else(no_home);
        let config = || directories::of(env, Kind::Config).ok_or_else(no_home);
        let place = match keeper {
            Keeper::Systemd => config()?.join("systemd/user").join(UNIT),
            Keeper::Launchd => home.clone()?.join("Library/LaunchAgents").join(format!("{LABEL}.plist")),
            Keeper::OpenRc => config()?.join("rc/init.d").join(SCRIPT),
        };
        Ok(Some(Self { keeper, place, env: env.clone() }))
    }

    /// Writes the text and starts the service; a failure removes the text again.
    fn install(&self, start: &Start) -> Result<(), Failure> {
        let text = match self.keeper {
            Keeper::Systemd => start.systemd(),
            Keeper::Launchd => start.launchd(),
            Keeper::OpenRc => start.openrc(),
        }?;
        let failed = |error: std::io::Error| Failure::unavailable(format!("{}: {error}", self.place.display()));
        let before = std::fs::read(&self.place).ok();
        replace_private(&self.place, text.as_bytes()).map_err(failed)?;
        if self.keeper == Keeper::OpenRc {
            let mode = std::os::unix::fs::PermissionsExt::from_mode(0o700);
            std::fs::set_permissions(&self.place, mode).map_err(failed)?;
        }
        if let Err(failure) = self.begin(before.is_some()) {
            match before {
                Some(before) => drop(replace_private(&self.place, &before)),
                None => drop(std::fs::remove_file(&self.place)),
            }
            if self.keeper == Keeper::Systemd {
                let _ = self.run("systemctl", &["--user", "daemon-reload"]);
            }
            return Err(failure);
        }
        outln!("{} is installed, and the service runs.", self.place.display());
        Ok(())
    }

    /// Makes the manager read the text, and start the service now and at each start.
    fn begin(&self, was_there: bool) -> Result<(), Failure> {
        match self.keeper {
            Keeper::Systemd => {
                self.run("systemctl", &["--user", "daemon-reload"])?;
                self.run("systemctl", &["--user", "enable", UNIT])?;
                // A service that is already running has the old text.
                self.run("systemctl", &["--user", if was_there { "restart" } else { "start" }, UNIT])
            }
            Keeper::Launchd => {
                if was_there {
                    let _ = self.run("launchctl", &["bootout", &self.target()]);
                }
                self.run("launchctl", &["bootstrap", &domain(), &self.place.display().to_string()])
            }
            Keeper::OpenRc => {
                self.run("rc-update", &["--user", "add", SCRIPT, "default"])?;
                self.run("rc-service", &["--user", SCRIPT, if was_there { "restart" } else { "start" }])
            }
        }
    }

    fn uninstall(&self) -> Result<u8, Failure> {
        match self.keeper {
            Keeper::Systemd => drop(self.run("systemctl", &["--user", "disable", "--now", UNIT])),
            Keeper::Launchd => drop(self.run("launchctl", &["bootout", &self.target()])),
            Keeper::OpenRc => {
                let _ = self.run("rc-service", &["--user", SCRIPT, "stop"]);
                let _ = self.run("rc-update", &["--user", "del", SCRIPT]);
            }
        }
        let was_there = match std::fs::remove_file(&self.place) {
            Ok(()) => true,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => false,
            Err(error) => return Err(Failure::unavailable(format!("{}: {error}", self.place.display()))),
        };
        if self.keeper == Keeper::Systemd {
            let _ = self.run("systemctl", &["--user", "daemon-reload"]);
            // systemd remembers a start that failed too often.
            let _ = self.run("systemctl", &["--user", "reset-failed", UNIT]);
        }
        let lingers = place(&self.env, LINGERS)?;
        if lingers.exists() && self.run("loginctl", &["disable-linger"]).is_ok() {
            let _ = std::fs::remove_file(lingers);
            outln!("Lingering is off again.");
        }
        outln!("{}", if was_there { "The unit is gone." } else { "There was no unit." });
        Ok(exit::DONE)
    }

    /// Starts, stops or restarts the service.
    fn call(&self, word: &str) -> Result<(), Failure> {
        let target = self.target();
        match (self.keeper, word) {
            (Keeper::Systemd, word) => self.run("systemctl", &["--user", word, UNIT]),
            (Keeper::Launchd, "start") => self.run("launchctl", &["kickstart", &target]),
            (Keeper::Launchd, "stop") => self.run("launchctl", &["kill", "SIGTERM", &target]),
            (Keeper::Launchd, _) => self.run("launchctl", &["kickstart", "-k", &target]),
            (Keeper::OpenRc, word) => self.run("rc-service", &["--user", SCRIPT, word]),
        }
    }

    fn logs(&self) -> Result<u8, Failure> {
        if self.keeper == Keeper::Systemd {
            let mut journalctl = Command::new("journalctl");
            let lines = LOG_LINES.to_string();
            let done = journalctl.args(["--user", "-u", UNIT, "-n", &lines, "--no-pager"]).envs(self.bus()).status();
            let hint = "a service in the foreground prints its log";
            let done = done.map_err(|error| Failure::unavailable(format!("journalctl: {error}")).hint(hint))?;
            return Ok(if done.success() { exit::DONE } else { exit::FAILED });
        }
        let path = place(&self.env, crate::log::FILE_NAME)?;
        let text = host::read_text(&path).map_err(|why| Failure::unavailable(format!("{}: {why}", path.display())))?;
        let lines: Vec<&str> = text.lines().collect();
        lines[lines.len().saturating_sub(LOG_LINES)..].iter().for_each(|it| outln!("{}", crate::render::sanitise(it)));
        Ok(exit::DONE)
    }

    /// Explains that a user's manager ends with the last session, and lets it linger if the person wants that.
    fn linger(&self, is_wanted: bool) {
        if self.keeper != Keeper::Systemd {
            return;
        }
        let user = nix::unistd::geteuid().to_string();
        let shown = Command::new("loginctl").args(["show-user", &user, "--property=Linger"]).output();
        let lingers = shown.is_ok_and(|it| String::from_utf8_lossy(&it.stdout).trim() == "Linger=yes");
        if lingers {
            outln!("It runs without a session of yours too: lingering is on.");
            return;
        }
        say("systemd ends your services with your last session, unless your account lingers.");
        let can_ask = std::io::stdin().is_terminal() && std::io::stderr().is_terminal();
        if !(is_wanted || can_ask && is_yes("Let it run without a session too (loginctl enable-linger)?")) {
            say("It ends with your last session, and starts with the next. loginctl enable-linger changes that.");
            return;
        }
        match self.run("loginctl", &["enable-linger"]) {
            Ok(()) => {
                let noted = place(&self.env, LINGERS).map(|path| replace_private(&path, b"on\n"));
                outln!("Lingering is on; reedclaw service uninstall switches it off again.");
                if !matches!(noted, Ok(Ok(()))) {
                    say("That couldn't be noted, so uninstall will leave it on.");
                }
            }
            Err(failure) => crate::cli::answers::agent::tell(&failure),
        }
    }

    /// The variables by which a user's manager is found, if a session's program would have them and this one hasn't.
    fn bus(&self) -> Vec<(&'static str, PathBuf)> {
        let has = |name: &str| self.env.get(OsStr::new(name)).is_some_and(|value| !value.is_empty());
        let usual = || PathBuf::from(format!("/run/user/{}", nix::unistd::geteuid()));
        let directory = self.env.get(OsStr::new("XDG_RUNTIME_DIR")).map_or_else(usual, PathBuf::from);
        let mut found = Vec::new();
        if !has("XDG_RUNTIME_DIR") && directory.is_dir() {
            found.push(("XDG_RUNTIME_DIR", directory.clone()));
        }
        let bus = directory.join("bus");
        if !has("DBUS_SESSION_BUS_ADDRESS") && bus.exists() {
            found.push(("DBUS_SESSION_BUS_ADDRESS", PathBuf::from(format!("unix:path={}", bus.display()))));
        }
        found
    }

    /// The service's name for launchd.
    fn target(&self) -> String {
        format!("{}/{LABEL}", domain())
    }

    fn run(&self, program: &str, words: &[&str]) -> Result<(), Failure> {
        let done = Command::new(program).args(words).envs(self.bus()).output();
        let done = done
            .map_err(|error| Failure::unavailable(format!("{program} can't be started: {error}")).hint(FOREGROUND))?;
        if done.status.success() {
            return Ok(());
        }
        let errors = String::from_utf8_lossy(&done.stderr);
        Err(Failure::unavailable(format!("{program} {}: {}", words.join(" "), errors.trim())).hint(FOREGROUND))
    }
}

/// The user's domain of launchd.
fn domain() -> String {
    format!("gui/{}", nix::unistd::geteuid())
}
