//! `reedclaw policy explain`: the verdict on a command, with reasons, for a person or as JSON, for one command or a
//! stream of them. Nothing is run, and no file is opened.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Arg, ArgAction, ArgMatches, Command};
use serde_json::{Value, json};

use crate::cli::answers::wire::verdict_object;
use crate::cli::exit;
use crate::cli::options::{autonomy, autonomy_of};
use crate::cli::out::{answer_each_line, outln};
use crate::config::{self, Effective, LoadRequest, Look, Trust, TrustVerdict};
use crate::gate::Disk;
use crate::host;
use crate::ops::policy::{self, Explained, explain, explain_in, verdict_lines};
use crate::policy::{Context, Files, NoFiles, Rules};
use crate::proto::Failure;
use crate::proto::action::Hold;
use crate::render::sanitise;

/// Longest line of a batch, in bytes: a command of 64 KiB with every byte escaped fits.
const LINE_BYTES_MAX: usize = 512 * 1024;

/// The tiers of the sandbox, and what each holds.
const TIERS: [(&str, Hold); 5] = [
    ("overlay", Hold::Copy),
    ("bubblewrap", Hold::Walls),
    ("landlock", Hold::Walls),
    ("none", Hold::Nothing),
    ("off", Hold::Off),
];

/// The subcommand, as clap knows it.
pub(in crate::cli) fn definition() -> Command {
    let directory = |name: &'static str, help: &'static str| {
        Arg::new(name).long(name).value_name("DIR").value_parser(clap::value_parser!(PathBuf)).help(help)
    };
    let explain =
        Command::new("explain")
            .about("Says how the policy would judge a model's command, and why; runs nothing")
            .arg(Arg::new("json").long("json").action(ArgAction::SetTrue).help("Answers with one JSON object"))
            .arg(Arg::new("batch").long("batch").action(ArgAction::SetTrue).conflicts_with("command").help(
                "Reads objects like {\"command\": \"…\"} from standard input, one a line; one JSON object a line",
            ))
            .arg(directory("workspace", "The workspace and working directory, instead of the configured one"))
            .arg(directory("home", "The home, instead of yours; the disk isn't examined then"))
            .arg(autonomy("The autonomy, instead of the configured one"))
            .arg(
                Arg::new("tier")
                    .long("tier")
                    .value_name("NAME")
                    .value_parser(clap::builder::PossibleValuesParser::new(TIERS.map(|(name, _)| name)))
                    .default_value(TIERS[0].0)
                    .help("Judges for another sandbox: overlay (the default), bubblewrap, landlock, none, or off as in security.sandbox"),
            )
            .arg(
                Arg::new("command")
                    .value_name("COMMAND")
                    .required_unless_present("batch")
                    .num_args(1..)
                    .trailing_var_arg(true)
                    .help("The command; several words are joined by spaces"),
            );
    Command::new("policy").about("Explains what a model may do").subcommand_required(true).subcommand(explain)
}

/// Carries it out; `explicit` is what `--config` named.
pub(in crate::cli) fn run(matches: &ArgMatches, explicit: Option<PathBuf>) -> ExitCode {
    let Some(("explain", matches)) = matches.subcommand() else { return ExitCode::from(exit::USAGE) };
    let (rules, is_of_disk) = match rules(matches, explicit) {
        Ok(found) => found,
        Err(failure) => {
            return exit::failed(&failure);
        }
    };
    let disk = Disk::default();
    let files: &dyn Files = if is_of_disk { &disk } else { &NoFiles };
    let tier = matches.get_one::<String>("tier").map_or(TIERS[0].0, String::as_str);
    let hold = TIERS.iter().find(|(name, _)| *name == tier).map_or(Hold::Nothing, |(_, hold)| *hold);
    let context = Context { files, hold, ..Context::new(&rules) };
    if matches.get_flag("batch") {
        return answer_each_line(|line| answer(&context, line));
    }
    let words: Vec<String> = matches.get_many::<String>("command").unwrap_or_default().cloned().collect();
    let command = words.join(" ");
    let explained = if is_of_disk { explain(&rules, hold, &command) } else { explain_in(&context, &command) };
    if matches.get_flag("json") {
        outln!("{}", judged_object(&explained));
    } else {
        for line in verdict_lines(&explained) {
            outln!("{}", sanitise(&line));
        }
    }
    ExitCode::SUCCESS
}

fn judged_object(explained: &Explained) -> Value {
    let mut object = verdict_object(&explained.verdict);
    if explained.is_look {
        object["looks_first"] = true.into();
    }
    object
}

/// The rules of the config, with a trusted project's file and the command line on top.
fn rules(matches: &ArgMatches, explicit: Option<PathBuf>) -> Result<(Rules, bool), Failure> {
    let mut env = host::environment();
    let home = matches.get_one::<PathBuf>("home");
    let path = explicit.clone();
    if home.is_some_and(|home| !home.is_absolute()) {
        return Err(relative("home"));
    }
    let cwd = host::working_directory();
    let request = LoadRequest { explicit, env: env.clone(), cwd: cwd.clone() };
    let loaded = config::load(&request)?;
    let trusted = home.is_none().then(|| Look::of_request(&request, &loaded));
    let trusted = trusted.flatten().and_then(|look| look.read(&env).ok()).map(|overlay| Trust::of(&env).judge(overlay));
    let settings = match trusted {
        Some(TrustVerdict::Trusted(trusted)) => loaded.layers.with(&trusted, &env).settings,
        _ => Effective::plain(&loaded.layers).settings,
    };
    if let Some(home) = home {
        // The settings are this user's; the directories are those of the other home.
        for name in ["XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME"] {
            env.remove(std::ffi::OsStr::new(name));
        }
        env.insert("HOME".into(), home.clone().into_os_string());
    }
    let mut rules = policy::rules(&settings, &env, path.as_deref().or(loaded.path.as_deref()));
    if let Some(workspace) = matches.get_one::<PathBuf>("workspace") {
        if !workspace.is_absolute() {
            return Err(relative("workspace"));
        }
        rules.workspace = workspace.to_string_lossy().into_owned();
    }
    rules.autonomy = autonomy_of(matches).unwrap_or(rules.autonomy);
    Ok((rules, home.is_none()))
}

fn relative(option: &str) -> Failure {
    Failure::user(format!("--{option} needs an absolute path")).hint("write it from the root, such as /home/you/proj")
}

/// The answer to a line of a batch: the verdict, or the problem of a line that can't be read.
fn answer(context: &Context<'_>, line: &[u8]) -> Value {
    match command_of(line) {
        Ok(command) => judged_object(&explain_in(context, &command)),
        Err(why) => json!({"error": why}),
    }
}

/// The command in a line of a batch.
fn command_of(line: &[u8]) -> Result<String, String> {
    if line.len() > LINE_BYTES_MAX {
        return Err(format!("the line is longer than {LINE_BYTES_MAX} bytes"));
    }
    let value: Value = serde_json::from_slice(line).map_err(|error| format!("the line isn't JSON: {error}"))?;
    match value.get("command") {
        Some(Value::String(command)) => Ok(command.clone()),
        Some(_) => Err("\"command\" isn't a string".into()),
        None => Err("the object has no \"command\"".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_a_batch_is_an_object_with_a_command() {
        assert_eq!(command_of(br#"{"command": "ls -l", "id": 7}"#), Ok("ls -l".to_owned()));
        for wrong in ["", "{", "[]", "{}", r#"{"command": 7}"#, "ls"] {
            assert!(command_of(wrong.as_bytes()).is_err(), "{wrong}");
        }
    }
}
