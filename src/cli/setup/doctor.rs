//! `reedclaw doctor`: reports problems with advice, repairs the database, and saves readable rows. Works even if no
//! session could open the store.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Arg, ArgAction, ArgMatches, Command, value_parser};

use crate::app;
use crate::base::text::counted;
use crate::cli::exit;
use crate::cli::out::outln;
use crate::cli::setup::checkup;
use crate::config::{self, LoadRequest};
use crate::host;
use crate::ops::{estop, receipts};
use crate::proto::Failure;
use crate::receipts::Verdict;
use crate::render::sanitise;
use crate::sandbox::{Mode, Sandbox, Tier};
use crate::store::doctor::{check, repair, rescue};
use crate::store::export::{self, Format};

/// The subcommand, as clap knows it.
pub(in crate::cli) fn definition() -> Command {
    Command::new("doctor")
        .about("Checks everything and says what to do; exits with 1 if something is wrong")
        .arg(
            Arg::new("repair")
                .long("repair")
                .action(ArgAction::SetTrue)
                .help("Repairs; a damaged file is replaced by a new one with everything readable, and stays beside it"),
        )
        .arg(
            Arg::new("export")
                .long("export")
                .value_name("FILE")
                .conflicts_with("repair")
                .value_parser(value_parser!(PathBuf))
                .help("Writes all readable lines and conversations to a new file (.jsonl or .md)"),
        )
}

/// Carries it out; `explicit` is what `--config` named.
pub(in crate::cli) fn run(matches: &ArgMatches, explicit: Option<PathBuf>) -> ExitCode {
    match act(matches, explicit) {
        Ok(is_well) => ExitCode::from(u8::from(!is_well)),
        Err(failure) => exit::failed(&failure),
    }
}

fn act(matches: &ArgMatches, explicit: Option<PathBuf>) -> Result<bool, Failure> {
    let request = LoadRequest { explicit, env: host::environment(), cwd: host::working_directory() };
    let loaded = config::load(&request)?;
    let settings = &loaded.settings;
    let dir = settings.history.dir.clone().ok_or_else(|| {
        Failure::unavailable("no HOME is set, so there is no database").hint("set history.dir in the config")
    })?;
    if let Some(file) = matches.get_one::<PathBuf>("export") {
        return save(&dir, file);
    }
    if matches.get_flag("repair") {
        let done = repair(&dir, host::now_unix_ms())?;
        say(&format!("the database holds {} rows", done.rows));
        if let Some(damaged) = done.damaged {
            say(&format!("{} rows could not be read; the damaged file is kept: {}", done.lost, damaged.display()));
            say("sessions that are open still write to that one: start them again");
        }
    }
    let around = checkup::look(&loaded, &request.env, &request.cwd);
    around.lines.iter().for_each(|line| say(line));
    let found = check(&dir);
    found.facts.iter().for_each(|fact| say(fact));
    found.faults.iter().for_each(|fault| say(&format!("wrong: {fault}")));
    if !found.faults.is_empty() {
        say("reedclaw doctor --repair repairs what it can; --export FILE saves what can be read");
    }
    let is_well = guards(settings, &request.env) && found.faults.is_empty() && !around.is_ill;
    if is_well {
        say("nothing is wrong");
    }
    Ok(is_well)
}

/// Reports the state of the tools' guards: receipts, sandbox, emergency stop. False if one of them has a problem.
fn guards(settings: &config::Settings, env: &config::Env) -> bool {
    // Without a HOME no receipt can be written, and other lines say so.
    let are_receipts_well = app::receipt_options(settings, env).is_err() || tell_receipts(settings, env);
    let is_sandbox_well = tell_sandbox(settings, env);
    match estop::reason(env) {
        Ok(reason) => {
            let is_stopped = reason.is_some();
            say(&estop::status(reason));
            if is_stopped {
                say("reedclaw estop --clear, at a terminal, lets them run again");
            }
        }
        Err(failure) => say(&format!("{}: no tool runs", failure.message)),
    }
    are_receipts_well && is_sandbox_well
}

/// Reports whether the receipts hold. False if they don't.
fn tell_receipts(settings: &config::Settings, env: &config::Env) -> bool {
    match receipts::verify(settings, env) {
        Ok(None) => {
            say("receipts: none are written (receipts.enabled)");
            true
        }
        Err(failure) => {
            say(&format!("wrong: {}", failure.message));
            false
        }
        Ok(Some(checked)) => {
            let is_well = matches!(checked.report.verdict, Verdict::Whole | Verdict::Torn { .. });
            let mark = if is_well { "receipts" } else { "wrong: receipts" };
            checked.lines().iter().for_each(|line| say(&format!("{mark}: {line}")));
            is_well
        }
    }
}

/// Reports the confinement of a model's programs, by the config. False if a sandbox is required and there is none.
fn tell_sandbox(settings: &config::Settings, env: &config::Env) -> bool {
    let mode = app::sandbox_mode(settings);
    if mode == Mode::Off {
        say("sandbox: none, for security.sandbox is \"off\"");
        return true;
    }
    let place = app::sandbox_place(settings, env, &host::working_directory());
    let sandbox = Sandbox::detect(mode, "/proc/self/exe".into(), &place);
    say(&format!("sandbox: {}", sandbox.tier().name()));
    sandbox.notes().iter().for_each(|note| say(&format!("sandbox: not {note}")));
    let advice = match sandbox.tier() {
        Tier::Overlay => "commands run on a copy of the workspace; you are asked about their changes afterwards",
        Tier::Bubblewrap => {
            "a command that isn't known looks first, read-only; you are asked before one changes anything (not with \"full\")"
        }
        Tier::Landlock => {
            "a command that isn't known looks first, read-only; you are asked before one changes anything (not with \"full\"). One that may write \
             in the workspace can change modes, owners, times and attributes of your files outside"
        }
        Tier::None => {
            "install bubblewrap: without a sandbox only commands that provably just read run without a question"
        }
    };
    say(&format!("sandbox: {advice}"));
    if sandbox.tier() == Tier::Landlock && place.strongest.is_none_or(|it| it == Tier::Overlay) {
        say(
            "sandbox: install bubblewrap, or let this user make user namespaces: the Debian package brings a profile for AppArmor (docs/safety.md)",
        );
    }
    let is_missing = mode == Mode::Require && sandbox.tier() == Tier::None;
    if is_missing {
        say("wrong: security.sandbox is \"require\" and none works here, so no program of a model runs");
    }
    !is_missing
}

fn save(dir: &Path, file: &Path) -> Result<bool, Failure> {
    let format = Format::of(file).ok_or_else(|| {
        Failure::user(format!("{} ends with neither .jsonl nor .md", file.display()))
            .hint("the ending decides the format")
    })?;
    let (store, lost) = rescue(dir)?;
    let (lines, conversations) = export::write_all(&store, file, format)?;
    let (lines, conversations) = (counted(lines, "line"), counted(conversations, "conversation"));
    say(&format!("{lines} and {conversations} in {}", file.display()));
    if lost > 0 {
        say(&format!("{lost} rows could not be read"));
    }
    Ok(lost == 0)
}

fn say(text: &str) {
    outln!("{}", sanitise(text));
}
