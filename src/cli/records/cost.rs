//! `reedclaw cost`: the cost of today's and this month's questions, by model, without a session.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Arg, ArgAction, ArgMatches, Command};
use serde::Serialize;

use crate::app::{Request, Runtime};
use crate::cli::exit;
use crate::cli::out::{out, report};
use crate::ops::cost::{Cost, Span, of_days, rows};
use crate::proto::Failure;
use crate::render::text::table;
use crate::store::SpentSum;

/// Columns of the table; it is read by people, and in a pipe nothing is cut.
const COLUMNS: usize = 10_000;

/// The subcommand, as clap knows it.
pub(in crate::cli) fn definition() -> Command {
    Command::new("cost").about("Shows the cost of today's and this month's questions, by model").arg(
        Arg::new("json")
            .long("json")
            .action(ArgAction::SetTrue)
            .help("Prints a JSON object for each model and period, one a line"),
    )
}

/// Carries it out; `config` is what `--config` named.
pub(in crate::cli) fn run(matches: &ArgMatches, config: Option<PathBuf>) -> ExitCode {
    match act(matches.get_flag("json"), config) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => exit::failed(&failure),
    }
}

/// One line for programs. The kinds of tokens don't overlap; `cost_usd` covers the requests that have a price.
#[derive(Serialize)]
struct Line<'a> {
    period: &'a str,
    model: &'a str,
    requests: u64,
    unpriced_requests: u64,
    input_tokens: u64,
    cache_read_tokens: u64,
    cache_write_tokens: u64,
    output_tokens: u64,
    reasoning_tokens: u64,
    cost_usd: f64,
}

fn act(is_json: bool, config: Option<PathBuf>) -> Result<(), Failure> {
    let runtime = Runtime::start(&Request { config, ..Request::default() })?;
    runtime.problems().iter().for_each(report);
    runtime.check_stored()?;
    let store = runtime.lock_store();
    let costs = of_days(&store)?;
    let mut out = String::new();
    if is_json {
        for Cost { span, by_model } in &costs {
            by_model.iter().for_each(|(model, sum)| out.push_str(&line(*span, model, sum)));
        }
    } else {
        out = table(&rows(&costs, runtime.agent(), ""), COLUMNS);
    }
    out!("{out}");
    Ok(())
}

fn line(span: Span, model: &str, sum: &SpentSum) -> String {
    let line = Line {
        period: if span == Span::Day { "day" } else { "month" },
        model,
        requests: sum.requests,
        unpriced_requests: sum.unpriced,
        input_tokens: sum.uncached_in,
        cache_read_tokens: sum.cache_read,
        cache_write_tokens: sum.cache_write,
        output_tokens: sum.visible_out,
        reasoning_tokens: sum.reasoning_out,
        cost_usd: sum.cost.usd(),
    };
    // Text and numbers in named fields: nothing that could fail.
    serde_json::to_string(&line).unwrap_or_default() + "\n"
}
