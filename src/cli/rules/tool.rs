//! `reedclaw tool`: a model's tools without a model. They are listed, or one is called on the same path as a model's
//! calls: judged, asked about, logged.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use clap::{Arg, ArgAction, ArgMatches, Command};
use serde_json::{Value, json};

use crate::agent::{Cancel, Person};
use crate::app::{self, ChannelKind, Request, Runtime};
use crate::cli::answers::agent::watch_interrupts;
use crate::cli::answers::person::AtTty;
use crate::cli::exit;
use crate::cli::options::{autonomy, set_autonomy};
use crate::cli::out::{columns, errln, out, report, shown_json};
use crate::model::ToolCall;
use crate::proto::Failure;
use crate::proto::tool::{Answer, Outcome, Overdue, OverdueChoice, Question};
use crate::render::text::{escape_visible, table};
use crate::tools::Spec;

/// Limit for the output of a call. It is high, because the rest can't be read later.
pub(in crate::cli) const OUTPUT_BYTES_MAX: usize = 64 * 1024 * 1024;

/// The subcommand, as clap knows it.
pub(in crate::cli) fn definition() -> Command {
    Command::new("tool")
        .about("Lists and runs the model's tools")
        .subcommand_required(true)
        .subcommand(
            Command::new("list").about("Lists the tools, with their other names and where they may be used").arg(
                Arg::new("json")
                    .long("json")
                    .action(ArgAction::SetTrue)
                    .help("Prints a JSON array with the tools' schemas"),
            ),
        )
        .subcommand(
            Command::new("run")
                .about("Calls a tool as a model would, with policy, questions and receipts; prints its result as JSON")
                .after_help("Exit status: 0 done, 1 failed, 2 usage, 3 denied.")
                .arg(Arg::new("name").value_name("NAME").required(true).help("The tool, by one of its names"))
                .arg(
                    Arg::new("json")
                        .long("json")
                        .value_name("ARGS")
                        .default_value("{}")
                        .hide_default_value(true)
                        .allow_hyphen_values(true)
                        .help("The tool's arguments, a JSON object; the default is {}"),
                )
                .arg(
                    Arg::new("workspace")
                        .long("workspace")
                        .value_name("DIR")
                        .value_parser(clap::value_parser!(PathBuf))
                        .help("The workspace, instead of the configured one"),
                )
                .arg(autonomy("The autonomy, instead of the config's setting"))
                .arg(
                    Arg::new("yes")
                        .long("yes")
                        .action(ArgAction::SetTrue)
                        .help("Answers one question with yes; never allows a blocked call"),
                ),
        )
}

/// Carries it out; `config` is what `--config` named.
pub(in crate::cli) fn run(matches: &ArgMatches, config: Option<PathBuf>) -> ExitCode {
    let done = match matches.subcommand() {
        Some(("list", matches)) => list(matches.get_flag("json"), config),
        Some(("run", matches)) => call(matches, config),
        _ => Ok(exit::USAGE),
    };
    ExitCode::from(done.unwrap_or_else(|failure| {
        report(&failure);
        exit::of(&failure)
    }))
}

fn start(config: Option<PathBuf>, cwd: Option<PathBuf>) -> Result<Runtime, Failure> {
    let runtime = Runtime::start(&Request { config, channel: ChannelKind::Agent, cwd, ..Request::default() })?;
    runtime.problems().iter().for_each(report);
    Ok(runtime)
}

fn list(is_json: bool, config: Option<PathBuf>) -> Result<u8, Failure> {
    let runtime = start(config, None)?;
    let (settings, env) = (runtime.settings(), runtime.env());
    let (mut registry, problems) = app::tools_alone(settings, env);
    problems.iter().for_each(report);
    // The tools as their servers last offered them.
    let servers = app::servers(settings, env, &runtime.workspace_around(runtime.cwd()), false);
    let left_out = registry.set_served(servers.map(|servers| servers.allowed_tools()).unwrap_or_default());
    left_out.iter().for_each(|why| errln!("{}", escape_visible(why)));
    let text = if is_json {
        let tool = |spec: &Spec| {
            json!({
                "name": spec.name,
                "aliases": spec.aliases,
                "description": spec.description,
                "schema": spec.schema,
                "channels": app::tool_channels(settings, spec),
            })
        };
        shown_json(Value::from(registry.specs().map(tool).collect::<Vec<_>>()).to_string() + "\n")
    } else {
        let row = |spec: &Spec| {
            let names = std::iter::once(spec.name.as_str()).chain(spec.aliases.iter().copied());
            let channels = match app::tool_channels(settings, spec)[..] {
                [] => "nowhere".to_owned(),
                [only] => format!("{only} only"),
                _ => String::new(),
            };
            vec![names.collect::<Vec<_>>().join(", "), channels, escape_visible(&spec.description)]
        };
        table(&registry.specs().map(row).collect::<Vec<_>>(), columns())
    };
    put(&text)?;
    Ok(exit::DONE)
}

fn call(matches: &ArgMatches, config: Option<PathBuf>) -> Result<u8, Failure> {
    let named = matches.get_one::<PathBuf>("workspace").map(|named| canonical(named)).transpose()?;
    let mut runtime = start(config, named.clone())?;
    set_autonomy(&mut runtime, matches)?;
    let text = |name: &str| matches.get_one::<String>(name).cloned().unwrap_or_default();
    let workspace = named.unwrap_or_else(|| app::workspace_dir(runtime.settings(), runtime.env()));
    let outcome = called(&mut runtime, &workspace, text("name"), text("json"), matches.get_flag("yes"))?;
    put(&shown_json(outcome.to_value().to_string() + "\n"))?;
    Ok(status(&outcome))
}

/// The exit status of a call.
pub(in crate::cli) fn status(outcome: &Outcome) -> u8 {
    match &outcome.error {
        _ if outcome.success => exit::DONE,
        // A command has run, but its changes weren't wanted, or no person could be asked.
        Some(error) if ["denied", "changes-dropped", "changes-refused"].contains(&error.code) => exit::REFUSED,
        _ => exit::FAILED,
    }
}

/// Calls a tool, as a model would; `says_yes` answers the question whether it may run.
pub(in crate::cli) fn called(
    runtime: &mut Runtime,
    workspace: &Path,
    name: String,
    arguments: String,
    says_yes: bool,
) -> Result<Outcome, Failure> {
    runtime.allow_output_bytes(OUTPUT_BYTES_MAX);
    let app::BuiltRunner { mut runner, problems } = runtime.runner_in(workspace, None)?;
    problems.iter().for_each(report);
    let cancel = Cancel::new();
    let tty = AtTty::new(runtime, false, cancel.clone());
    watch_interrupts(&cancel, tty.modes());
    if let Some(servers) = runner.servers().filter(|_| !tty.can_ask()) {
        servers.ask_nobody();
    }
    let mut person = Caller { tty, says_yes };
    let wish = ToolCall { id: "cli".into(), name, arguments };
    if !runner.registry().specs().any(|spec| spec.is_in(std::slice::from_ref(&wish.name))) {
        if let Some(servers) = runner.servers() {
            servers.offer(&wish.name);
        }
        runner.prepare(&cancel, &mut |_| {});
    }
    Ok(runner.call(&wish, None, &cancel, &mut person, &mut |_| {}))
}

/// The caller: perhaps a person at the terminal, who may have agreed beforehand.
struct Caller {
    tty: AtTty,
    says_yes: bool,
}

impl Person for Caller {
    fn can_ask(&self) -> bool {
        self.says_yes || self.tty.can_ask()
    }

    fn approve(&mut self, question: &Question) -> Answer {
        if self.says_yes { Answer::Once } else { self.tty.approve(question) }
    }

    fn reply_to(&mut self, heading: &str, question: &str, choices: &[String]) -> Option<String> {
        self.tty.reply_to(heading, question, choices)
    }

    fn overdue(&mut self, command: &Overdue, has_ended: &Arc<AtomicBool>) -> Option<OverdueChoice> {
        let command = Overdue { no_job: Some("it would end with this call"), ..command.clone() };
        self.tty.overdue(&command, has_ended)
    }
}

fn canonical(path: &Path) -> Result<PathBuf, Failure> {
    std::fs::canonicalize(path).map_err(|error| {
        Failure::user(format!("the workspace {} can't be used: {error}", path.display()))
            .hint("--workspace takes an existing directory")
    })
}

fn put(text: &str) -> Result<(), Failure> {
    out!("{text}");
    Ok(())
}
