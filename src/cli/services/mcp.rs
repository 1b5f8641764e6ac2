//! `reedclaw mcp`: the servers of tools that the configuration names.

use std::io::{self, IsTerminal};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use clap::{Arg, ArgMatches, Command};

use crate::agent::{Cancel, Person};
use crate::app::{self, ChannelKind, Request, Runtime};
use crate::cli::answers::agent::watch_interrupts;
use crate::cli::answers::person::AtTty;
use crate::cli::exit;
use crate::cli::out::{columns, errln, is_yes, out, outln, report};
use crate::cli::rules::tool::{called, status};
use crate::proto::Failure;
use crate::proto::served::Definition;
use crate::render::text::{escape_visible, table};
use crate::serve;
use crate::tools::Replies;
use crate::tools::served::{
    Done, Face, MCP_WORDS, NO_NETWORK, Servers, TestEnd, allow_tools, import_file, mcp_command, mcp_usage,
};

/// Exit status of a test that found new or changed tools.
const NEW_TOOLS: u8 = 3;
/// Exit status of a server that needs a login.
const NEEDS_LOGIN: u8 = 4;

/// Words that act on a running server, which belongs to a session.
const OF_SESSION: [&str; 3] = ["log", "disconnect", "restart"];

/// The subcommand, as clap knows it.
pub(in crate::cli) fn definition() -> Command {
    let command = Command::new("mcp").about("Manages tool servers (MCP); lists them without a subcommand");
    let words = MCP_WORDS.iter().filter(|(word, ..)| !OF_SESSION.contains(word));
    let of_session = OF_SESSION.map(|word| Command::new(word).hide(true).arg(Arg::new("words").num_args(0..)));
    let command = command.subcommand(serve_definition()).subcommands(of_session);
    words.fold(command, |command, (word, usage, help)| {
        // A subcommand has neither a session nor a line to fill in.
        let help = match *word {
            "connect" => {
                "starts a server and shows what it offers; an address or a program is tried for this command only"
            }
            "prompt" => "prints a server's prompt",
            _ => help,
        };
        let mut chars = help.chars();
        let about: String = chars.next().into_iter().flat_map(char::to_uppercase).chain(chars).collect();
        // The table says what may be left out and what may follow; clap's own marks would say something else.
        let words = Arg::new("words").value_name(usage.to_owned()).num_args(0..);
        let words = words.hide_short_help(true).hide_long_help(true);
        let subcommand = Command::new(*word).about(about);
        let subcommand = subcommand.override_usage(format!("reedclaw mcp {word} {usage}").trim_end().to_owned());
        command.subcommand(match *word {
            _ if usage.is_empty() => subcommand,
            "connect" => subcommand.arg(words).arg(Arg::new("program").last(true).num_args(1..).hide(true)),
            _ => subcommand.arg(words),
        })
    })
}

/// `mcp serve`, as clap knows it.
fn serve_definition() -> Command {
    Command::new("serve")
        .about("Serves other agents: an MCP server on standard input and output")
        .after_help(
            "The other agent starts it. `observe` lets it look at sessions, history, policy, receipts, steps and costs; `tools` \
             adds the built-in tools in one workspace. A call that the policy doesn't let run unasked waits for your yes in a \
             ReedClaw session (:approve).",
        )
        .arg(
            Arg::new("offer")
                .long("offer")
                .value_name("WHAT")
                .value_parser(["observe", "tools"])
                .help("What is offered, in place of mcp.serve.offer of the config"),
        )
        .arg(
            Arg::new("workspace")
                .long("workspace")
                .value_name("DIR")
                .value_parser(clap::value_parser!(PathBuf))
                .help("Where the tools work, instead of the project around the working directory"),
        )
}

fn served(matches: &ArgMatches, config: Option<PathBuf>) -> ExitCode {
    let offer = matches.get_one::<String>("offer");
    let offer = offer.map(|word| if word == "tools" { serve::Offer::Tools } else { serve::Offer::Observe });
    let workspace = matches.get_one::<PathBuf>("workspace").cloned();
    match serve::run(serve::Options { config, offer, workspace }) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => exit::failed(&failure),
    }
}

/// Carries it out; `config` is the file that `--config` names.
pub(in crate::cli) fn run(matches: &ArgMatches, config: Option<PathBuf>) -> ExitCode {
    let (word, matches) = matches.subcommand().unwrap_or(("list", matches));
    if word == "serve" {
        return served(matches, config);
    }
    if OF_SESSION.contains(&word) {
        let message = format!("mcp {word} works only in a session, where servers keep running");
        let hint = format!(
            "there it is :mcp {word} NAME; here, reedclaw mcp test NAME shows what a server prints if it fails"
        );
        return exit::failed(&Failure::user(message).hint(hint));
    }
    let of = |id: &str| matches.try_get_many::<String>(id).ok().flatten().into_iter().flatten().cloned();
    let mut words: Vec<String> = std::iter::once(word.to_owned()).chain(of("words")).collect();
    let program: Vec<String> = of("program").collect();
    if !program.is_empty() {
        words.push("--".to_owned());
        words.extend(program);
    }
    match carried_out(&words, config) {
        Ok(status) => ExitCode::from(status),
        Err(failure) => exit::failed(&failure),
    }
}

fn carried_out(words: &[String], config: Option<PathBuf>) -> Result<u8, Failure> {
    let mut runtime = Runtime::start(&Request { config, channel: ChannelKind::Agent, ..Request::default() })?;
    runtime.problems().iter().for_each(report);
    let workspace = runtime.workspace_around(runtime.cwd());
    // Another client's file needs no server, and the person's own program or address brings one.
    let may_add = words.len() > 1 && ["connect", "import"].contains(&words[0].as_str());
    let Some(servers) = app::servers(runtime.settings(), runtime.env(), &workspace, may_add) else {
        return without_servers(words, runtime.settings().mcp.enabled);
    };
    let cancel = Cancel::new();
    let mut tty = AtTty::new(&runtime, false, cancel.clone());
    if !tty.can_ask() {
        servers.ask_nobody();
    }
    watch_interrupts(&cancel, tty.modes());
    let env = runtime.env().clone();
    let stop = || cancel.is_cancelled();
    let mut person = TtyReplies(&mut tty);
    let mut face = Face { typed: "reedclaw mcp", stop: &stop, person: &mut person, env: &env, read: &read };
    let done = mcp_command(&servers, words, &mut face)?;
    drop(tty);
    match done {
        Done::Lines(lines) => lines.iter().for_each(|line| outln!("{line}")),
        Done::Rows(rows) => {
            out!("{}", table(&rows, columns()));
        }
        Done::Insert(text) => outln!("{text}"),
        Done::Ask { server, tools, lines } => {
            lines.iter().for_each(|line| outln!("{line}"));
            ask(&servers, &server, &tools)?;
        }
        Done::Tested { lines, end } => {
            lines.iter().for_each(|line| outln!("{line}"));
            return Ok(match end {
                TestEnd::Good => exit::DONE,
                TestEnd::NoConnection => exit::FAILED,
                TestEnd::NewTools => NEW_TOOLS,
                TestEnd::NeedsLogin => NEEDS_LOGIN,
            });
        }
        Done::Call { name, arguments } => {
            drop(servers);
            let outcome = called(&mut runtime, &workspace, name, arguments, true)?;
            outln!("{}", outcome.output.trim_end_matches('\n'));
            if let Some(error) = &outcome.error {
                errln!("{}", escape_visible(&error.message));
                if error.code == NO_NETWORK {
                    errln!("  {}", escape_visible(&error.hint));
                }
            }
            let is_login = outcome.error.as_ref().is_some_and(|error| error.code == "login");
            return Ok(if is_login { NEEDS_LOGIN } else { status(&outcome) });
        }
    }
    Ok(exit::DONE)
}

/// Carries out a line if there are no servers.
fn without_servers(words: &[String], is_on: bool) -> Result<u8, Failure> {
    let user = |message: &str, hint: &str| Failure::user(message.to_owned()).hint(hint);
    match words {
        // The file is only read as text.
        [word, path @ ..] if word == "import" && !path.is_empty() => {
            import_file(&path.join(" "), &read)?.iter().for_each(|line| outln!("{line}"));
            Ok(exit::DONE)
        }
        [word] if word == "import" => Err(mcp_usage(word)),
        [word] if word == "list" && !is_on => {
            outln!("Servers of tools are switched off: mcp.enabled.");
            Ok(exit::DONE)
        }
        _ if !is_on => Err(user("servers of tools are switched off: mcp.enabled", "the config can switch them on")),
        [word] if word == "list" => {
            outln!(
                "No servers are configured. mcp.servers in the config names them, and reedclaw mcp import FILE reads another client's; see \
                 the documentation's page on tools."
            );
            Ok(exit::DONE)
        }
        _ => Err(user(
            "no servers are configured",
            "mcp.servers in the config names them; see the documentation's page on tools",
        )),
    }
}

fn read(path: &str) -> Result<String, String> {
    crate::host::read_text(std::path::Path::new(path))
}

/// The person at the terminal, as servers ask them.
struct TtyReplies<'t>(&'t mut AtTty);

impl Replies for TtyReplies<'_> {
    fn reply(&mut self, question: &str, choices: &[String]) -> Option<String> {
        self.0.reply(question, choices)
    }

    fn reply_to(&mut self, heading: &str, question: &str, choices: &[String]) -> Option<String> {
        self.0.reply_to(heading, question, choices)
    }

    fn tell(&mut self, line: &str) {
        outln!("{line}");
    }
}

fn ask(servers: &Servers, server: &str, tools: &[Arc<Definition>]) -> Result<(), Failure> {
    let refused = |message: &str, hint: &str| Failure::refused(message).hint(hint);
    if !io::stdin().is_terminal() {
        return Err(refused(
            "tools are allowed only by a person at a terminal; nothing was allowed",
            "run it at a terminal",
        ));
    }
    if is_yes("Let a model call these tools, as they are?") {
        outln!("{}", allow_tools(servers, server, tools)?);
        return Ok(());
    }
    Err(refused("nothing was allowed", ""))
}
