//! `reedclaw memory`: the stored conversations, listed, searched, shown, exported and deleted without a session.

use parking_lot::MutexGuard;
use std::io;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Arg, ArgAction, ArgMatches, Command, value_parser};

use crate::app::{Request, Runtime};
use crate::base::text::{counted, one_line};
use crate::base::time::utc;
use crate::cli::exit;
use crate::cli::options::{limit, limit_of};
use crate::cli::out::{errln, outln, print_lines, report, settle};
use crate::ops::{self, conversations};
use crate::proto::{Failure, Role};
use crate::render::sanitise;
use crate::store::export::Format;
use crate::store::{ConversationId, Store, StoredMemory};

/// The subcommand, as clap knows it.
pub(in crate::cli) fn definition() -> Command {
    Command::new("memory")
        .about("Lists, searches and exports the stored conversations")
        .subcommand_required(true)
        .subcommand(Command::new("list").about("Lists the conversations, the most recent first").arg(limit()))
        .subcommand(
            Command::new("search")
                .about("Finds messages by words, beginnings (word*) or phrases (\"two words\"); the best first")
                .arg(Arg::new("query").value_name("QUERY").required(true).num_args(1..))
                .arg(limit()),
        )
        .subcommand(
            Command::new("show")
                .about("Prints a conversation, including rewound turns")
                .arg(Arg::new("id").value_name("ID").required(true).value_parser(value_parser!(i64))),
        )
        .subcommand(Command::new("notes").about("Lists the memories, and the proposed ones in the inbox"))
        .subcommand(
            Command::new("clear").about("Deletes all conversations; the history of lines and the memories stay").arg(
                Arg::new("yes")
                    .long("yes")
                    .action(ArgAction::SetTrue)
                    .help("Deletes; without it the command only says what it would delete"),
            ),
        )
        .subcommand(
            Command::new("export")
                .about("Writes all conversations to a new file, or to standard output")
                .arg(
                    Arg::new("file")
                        .value_name("FILE")
                        .value_parser(value_parser!(PathBuf))
                        .help("A new file that ends with .jsonl or .md"),
                )
                .arg(
                    Arg::new("markdown")
                        .long("markdown")
                        .action(ArgAction::SetTrue)
                        .conflicts_with("file")
                        .help("Markdown on standard output, instead of JSON lines"),
                ),
        )
}

/// Carries it out; `config` is what `--config` named.
pub(in crate::cli) fn run(matches: &ArgMatches, config: Option<PathBuf>) -> ExitCode {
    match act(matches, config) {
        Ok(code) => code,
        Err(failure) => exit::failed(&failure),
    }
}

fn act(matches: &ArgMatches, config: Option<PathBuf>) -> Result<ExitCode, Failure> {
    let runtime = Runtime::start(&Request { config, ..Request::default() })?;
    runtime.problems().iter().for_each(report);
    runtime.check_stored()?;
    let mut store: MutexGuard<'_, Store> = runtime.lock_store();
    match matches.subcommand() {
        Some(("list", matches)) => list(&store, limit_of(matches)),
        Some(("search", matches)) => {
            let words: Vec<&str> =
                matches.get_many::<String>("query").into_iter().flatten().map(String::as_str).collect();
            search(&mut store, &words.join(" "), limit_of(matches))
        }
        Some(("show", matches)) => show(&store, matches.get_one::<i64>("id").copied().unwrap_or_default()),
        Some(("notes", _)) => notes(&store),
        Some(("clear", matches)) => clear(&mut store, matches.get_flag("yes")),
        Some(("export", matches)) => {
            let file = matches.get_one::<PathBuf>("file");
            let on_output = if matches.get_flag("markdown") { Format::Markdown } else { Format::JsonLines };
            export_all(&store, file, on_output)
        }
        _ => Ok(ExitCode::from(exit::USAGE)),
    }
}

fn list(store: &Store, limit: usize) -> Result<ExitCode, Failure> {
    print_safely(conversations::list(store, limit)?.into_iter().map(|it| {
        let turns = if it.turns == 1 { "turn " } else { "turns" };
        format!("{:>6}  {}  {:>4} {turns}  {}", it.id.0, utc(it.updated), it.turns, it.title)
    }))
}

pub(in crate::cli) fn search(store: &mut Store, query: &str, limit: usize) -> Result<ExitCode, Failure> {
    let found = ops::memory::find(store, query, limit)?;
    if found.is_empty() {
        errln!("reedclaw: nothing was found; word* finds beginnings");
        return Ok(ExitCode::from(exit::FAILED));
    }
    let line =
        |id: i64, time: i64, kind: &str, text: &str| format!("{id:>6}  {}  {kind}  {}", utc(time), one_line(text));
    let memories = found.memories.into_iter().map(|it| line(it.id, it.time, "memory  ", &it.text));
    let hits = found.hits.into_iter().map(|hit| {
        let kind = if hit.role == Role::Assistant { "answer  " } else { "question" };
        line(hit.conversation.0, hit.time, kind, &hit.excerpt)
    });
    print_safely(memories.chain(hits))
}

fn show(store: &Store, id: i64) -> Result<ExitCode, Failure> {
    let text = conversations::as_markdown(store, ConversationId(id))?.ok_or_else(|| {
        Failure::user(format!("no conversation has the number {id}")).hint("reedclaw memory list lists them")
    })?;
    print_safely(std::iter::once(text))
}

pub(in crate::cli) fn notes(store: &Store) -> Result<ExitCode, Failure> {
    let line = |it: StoredMemory| {
        let state = if it.is_accepted { "" } else { "(in the inbox) " };
        format!(
            "{:>6}  {}  {}  {state}{}",
            it.id,
            utc(it.time),
            it.place.as_deref().unwrap_or("everywhere"),
            one_line(&it.text)
        )
    };
    print_safely(ops::memory::all(store)?.into_iter().map(line))
}

fn clear(store: &mut Store, is_sure: bool) -> Result<ExitCode, Failure> {
    if is_sure {
        let count = conversations::delete_all(store)?;
        outln!("{} deleted", counted(count, "conversation"));
        return Ok(ExitCode::SUCCESS);
    }
    let count = conversations::count(store)?;
    let conversations = counted(count, "conversation");
    errln!("reedclaw: this would delete {conversations} for good\n  reedclaw memory clear --yes does it");
    Ok(ExitCode::from(exit::USAGE))
}

fn export_all(store: &Store, file: Option<&PathBuf>, on_output: Format) -> Result<ExitCode, Failure> {
    match file {
        None => settle(conversations::write_all(store, on_output, &mut io::stdout().lock())?.map(drop)),
        Some(path) => {
            let count = conversations::export(store, path)?;
            outln!("{} in {}", counted(count, "conversation"), sanitise(&path.display().to_string()));
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Prints lines without control characters.
fn print_safely(lines: impl Iterator<Item = String>) -> Result<ExitCode, Failure> {
    print_lines(lines.map(|line| sanitise(&line).into_owned()));
    Ok(ExitCode::SUCCESS)
}
