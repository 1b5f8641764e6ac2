//! `reedclaw receipt`: what tools did, listed, shown and verified, without a session.

use std::io::{self, IsTerminal};
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Arg, ArgAction, ArgMatches, Command, value_parser};
use serde_json::{Value, json};

use crate::cli::exit;
use crate::cli::options::{limit, limit_of};
use crate::cli::out::{errln, outln, print_lines};
use crate::config::{self, LoadRequest};
use crate::host;
use crate::ops::receipts::{Checked, log};
use crate::proto::Failure;
use crate::receipts::{self, Check, Record, Status, Stored, Verdict};
use crate::render::sanitise;

/// Characters of an id that a row shows.
const ID_SHOWN: usize = 40;

/// The subcommand, as clap knows it.
pub(in crate::cli) fn definition() -> Command {
    let json = |help: &'static str| Arg::new("json").long("json").action(ArgAction::SetTrue).help(help);
    let head = Arg::new("expect-head")
        .long("expect-head")
        .value_name("HASH")
        .help("A hash noted earlier, which must be that of a receipt");
    let key = Arg::new("key")
        .long("key")
        .value_name("FILE")
        .value_parser(value_parser!(PathBuf))
        .help("The verification key, if it isn't in the state directory");
    Command::new("receipt")
        .about("Lists and verifies the receipts of tool calls")
        .subcommand_required(true)
        .subcommand(
            Command::new("list")
                .about("Lists the newest receipts, the newest at the end")
                .arg(limit())
                .arg(json("Prints the receipts as in the log, one JSON object a line")),
        )
        .subcommand(
            Command::new("verify")
                .about("Checks every receipt; exits with 1 if one is broken, 8 at a torn end, 9 if the end is missing or can't be confirmed")
                .arg(head)
                .arg(key)
                .arg(json("Answers with one JSON object")),
        )
        .subcommand(
            Command::new("show")
                .about("Prints a receipt by its id or number")
                .arg(Arg::new("id").value_name("ID").required(true)),
        )
}

/// Carries it out; `config` is what `--config` named.
pub(in crate::cli) fn run(matches: &ArgMatches, config: Option<PathBuf>) -> ExitCode {
    match act(matches, config) {
        Ok(code) => code,
        Err(failure) => exit::failed(&failure),
    }
}

fn act(matches: &ArgMatches, explicit: Option<PathBuf>) -> Result<ExitCode, Failure> {
    let request = LoadRequest { explicit, env: host::environment(), cwd: host::working_directory() };
    let settings = config::load(&request)?.settings;
    let Some(options) = log(&settings, &request.env)? else { return Ok(ExitCode::SUCCESS) };
    match matches.subcommand() {
        Some(("list", matches)) => {
            let limit = limit_of(matches);
            let rows = receipts::newest(&options, limit)?;
            if rows.is_empty() && limit > 0 {
                errln!("reedclaw: there are no receipts yet");
            }
            // Exactly as stored for a program; a terminal would obey some of the bytes.
            let is_exact = matches.get_flag("json") && !io::stdout().is_terminal();
            put_lines(rows.iter().map(|stored| match matches.get_flag("json") {
                true if is_exact => stored.line.clone(),
                true => sanitise(&stored.line).into_owned(),
                false => sanitise(&row(stored)).into_owned(),
            }))
        }
        Some(("show", matches)) => {
            let id = matches.get_one::<String>("id").map(String::as_str).unwrap_or_default();
            let found = receipts::find(&options, id)?.ok_or_else(|| {
                Failure::user(format!("no receipt is called {id}")).hint("reedclaw receipt list lists them")
            })?;
            put_lines(fields(&found).into_iter().map(|line| sanitise(&line).into_owned()))
        }
        Some(("verify", matches)) => {
            let check = Check {
                expect_head: matches.get_one::<String>("expect-head").cloned(),
                key: matches.get_one::<PathBuf>("key").cloned(),
            };
            let checked = Checked::of(options, &check)?;
            if matches.get_flag("json") {
                outln!("{}", as_json(&checked));
            } else {
                checked.lines().iter().for_each(|line| outln!("{}", sanitise(line)));
            }
            Ok(ExitCode::from(checked.report.verdict.exit_code()))
        }
        _ => Ok(ExitCode::from(exit::USAGE)),
    }
}

fn row(stored: &Stored) -> String {
    let Some(record) = &stored.record else { return format!("{:>6}  not a receipt", stored.number) };
    let Record { timestamp, kind, .. } = record;
    let text = |text: &Option<std::borrow::Cow<'_, str>>| text.as_deref().unwrap_or("-").to_owned();
    let (tool, risk, rule) = (text(&record.tool), text(&record.risk), text(&record.rule));
    let status = record.status.map_or("-", Status::name);
    let id: String = record.id.chars().take(ID_SHOWN).collect();
    format!("{:>6}  {timestamp}  {:8}  {status:7}  {risk:7}  {tool}  {rule}  {id}", stored.number, kind.name())
}

/// A receipt's fields, one a line; a line that isn't a receipt is shown as it is.
fn fields(stored: &Stored) -> Vec<String> {
    match serde_json::from_str::<Value>(&stored.line) {
        Ok(Value::Object(fields)) => fields
            .into_iter()
            .map(|(key, value)| match value {
                Value::String(text) => format!("{key:16}{text}"),
                other => format!("{key:16}{other}"),
            })
            .collect(),
        _ => vec![format!("line {} is not a receipt: {}", stored.number, stored.line)],
    }
}

fn as_json(Checked { options, report }: &Checked) -> Value {
    let (verdict, broken, why) = match &report.verdict {
        Verdict::Whole => ("ok", None, None),
        Verdict::Broken { receipt, why } => ("broken", Some(receipt), Some(why.clone())),
        Verdict::Torn { bytes } => ("torn", None, Some(format!("{bytes} bytes at the end aren't a whole line"))),
        Verdict::Cut { why, .. } => ("truncated", None, Some(why.clone())),
        Verdict::Unconfirmed { why } => ("unconfirmed", None, Some(why.clone())),
    };
    let unknown: Vec<Value> = report
        .unknown
        .iter()
        .map(|open| json!({"seq": open.seq, "id": open.id, "timestamp": open.timestamp, "tool": open.tool}))
        .collect();
    json!({
        "verdict": verdict, "receipt": broken, "why": why, "receipts": report.receipts, "log_id": report.log_id,
        "head": report.head, "missing": report.missing, "unknown_outcome": unknown,
        "notes": report.warnings.iter().chain(&report.notes).collect::<Vec<_>>(),
        "path": options.path.to_string_lossy(),
    })
}

/// Prints lines.
fn put_lines(lines: impl Iterator<Item = String>) -> Result<ExitCode, Failure> {
    print_lines(lines);
    Ok(ExitCode::SUCCESS)
}
