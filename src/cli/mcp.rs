//! `reedclaw mcp`: the servers of tools that the configuration names.

use std::io::{self, BufRead, IsTerminal, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Arg, ArgMatches, Command};
use nix::sys::termios::{FlushArg, tcflush};

use super::command::report;
use crate::app::{self, ChannelKind, Request, Runtime};
use crate::proto::{Failure, FailureKind};
use crate::render::text::table;
use crate::tools::served::{Done, MCP_WORDS, Servers, allow_tools, mcp_command};

/// Exit status of a line that can't be understood.
const USAGE: u8 = 2;
/// Columns of a table if the terminal doesn't say.
const COLUMNS: usize = 100;

/// The subcommand, as clap knows it.
pub(super) fn definition() -> Command {
    let command = Command::new("mcp").about("Servers of tools (Model Context Protocol)").subcommand_required(true);
    // A log and a running server belong to a session.
    let words = MCP_WORDS.iter().filter(|(word, ..)| !matches!(*word, "log" | "disconnect" | "restart"));
    words.fold(command, |command, (word, usage, help)| {
        let mut chars = help.chars();
        let about: String = chars.next().into_iter().flat_map(char::to_uppercase).chain(chars).collect();
        let words = Arg::new("words").value_name(usage.to_owned()).num_args(0..);
        let subcommand = Command::new(*word).about(about);
        command.subcommand(if usage.is_empty() { subcommand } else { subcommand.arg(words) })
    })
}

/// Carries it out; `config` is the file that `--config` names.
pub(super) fn run(matches: &ArgMatches, config: Option<PathBuf>) -> ExitCode {
    let Some((word, matches)) = matches.subcommand() else { return ExitCode::from(USAGE) };
    let words = matches.try_get_many::<String>("words").ok().flatten().into_iter().flatten();
    let line = std::iter::once(word).chain(words.map(String::as_str)).collect::<Vec<_>>().join(" ");
    match carried_out(&line, config) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            report(&failure);
            ExitCode::from(if matches!(failure.kind, FailureKind::User | FailureKind::Config) { USAGE } else { 1 })
        }
    }
}

fn carried_out(line: &str, config: Option<PathBuf>) -> Result<(), Failure> {
    let runtime = Runtime::start(&Request { config, channel: ChannelKind::Agent, ..Request::default() })?;
    runtime.problems.iter().for_each(report);
    let workspace =
        app::workspace_for(&runtime.env, &runtime.cwd, &app::workspace_dir(&runtime.settings, &runtime.env));
    let Some(servers) = app::servers(&runtime.settings, &runtime.env, &workspace) else {
        println!("No servers are configured. mcp.servers in the config names them; see docs/tools-and-plugins.md.");
        return Ok(());
    };
    match mcp_command(&servers, line, &|| false)? {
        Done::Lines(lines) => lines.iter().for_each(|line| println!("{line}")),
        Done::Rows(rows) => {
            let columns = crossterm::terminal::size().map_or(COLUMNS, |(columns, _)| usize::from(columns).max(40));
            print!("{}", table(&rows, columns));
        }
        Done::Insert(text) => println!("{text}"),
        Done::Ask { server, tools, lines } => {
            lines.iter().for_each(|line| println!("{line}"));
            ask(&servers, &server, &tools)?;
        }
    }
    Ok(())
}

fn ask(servers: &Servers, server: &str, tools: &[crate::proto::served::Definition]) -> Result<(), Failure> {
    let user =
        |message: &str, hint: &str| Failure { kind: FailureKind::User, message: message.into(), hint: hint.into() };
    if !io::stdin().is_terminal() {
        return Err(user(
            "tools are allowed only by a person at a terminal; nothing was allowed",
            "run it at a terminal",
        ));
    }
    let _ = tcflush(io::stdin(), FlushArg::TCIFLUSH);
    print!("Let a model call these tools, as they are? [y/N] ");
    let _ = io::stdout().flush();
    let mut said = String::new();
    if io::stdin().lock().read_line(&mut said).is_ok() && matches!(said.trim(), "y" | "Y" | "yes") {
        println!("{}", allow_tools(servers, server, tools)?);
        return Ok(());
    }
    Err(user("nothing was allowed", ""))
}
