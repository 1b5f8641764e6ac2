//! `reedclaw metrics`: the counts on this machine, as text for Prometheus. Nothing is started, and nothing leaves the machine.

use std::fmt::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Command;

use crate::app::{ChannelKind, Request, Runtime};
use crate::cli::exit;
use crate::cli::out::{out, report};
use crate::ops::{cost, receipts};
use crate::proto::Failure;
use crate::receipts::Tally;
use crate::store::SpentSum;

/// The subcommand, as clap knows it.
pub fn metrics_definition() -> Command {
    Command::new("metrics").about("Prints what was counted on this machine, as text for Prometheus").after_help(
        "The numbers are those of the store and of the receipts: they count what every session and service did. Only receipts \
        since the last count are checked for that; reedclaw receipt verify checks all of them.",
    )
}

/// Carries it out; `config` is the file that `--config` names.
pub fn metrics(config: Option<PathBuf>) -> ExitCode {
    match text(config) {
        Ok(text) => {
            out!("{text}");
            ExitCode::SUCCESS
        }
        Err(failure) => exit::failed(&failure),
    }
}

fn text(config: Option<PathBuf>) -> Result<String, Failure> {
    let runtime = Runtime::start(&Request { config, channel: ChannelKind::Agent, ..Request::default() })?;
    runtime.problems().iter().for_each(report);
    let cost::Ever { counted, by_model: spent } = cost::ever(&runtime.lock_store())?;
    let receipts = receipts::tally(runtime.settings(), runtime.env())?;
    let mut made = String::new();
    let calls = |count: fn(&Tally) -> u64| receipts.as_ref().map_or(0, count);
    for (name, help, value) in [
        ("reedclaw_conversations_total", "Conversations that began.", counted.conversations),
        ("reedclaw_tool_calls_total", "Calls of tools that ran.", calls(|it| it.calls)),
        ("reedclaw_tool_denials_total", "Calls of tools that were refused.", calls(|it| it.denials)),
        ("reedclaw_provider_errors_total", "Questions to models that failed.", counted.failures),
    ] {
        let _ = writeln!(made, "# HELP {name} {help}\n# TYPE {name} counter\n{name} {value}");
    }
    if let Some(tally) = &receipts {
        let name = "reedclaw_receipt_chain_valid";
        let is_valid = u8::from(tally.broken.is_none());
        let _ = writeln!(
            made,
            "# HELP {name} Whether the chain of receipts holds.\n# TYPE {name} gauge\n{name} {is_valid}"
        );
    }
    of_models(&mut made, &spent);
    Ok(made)
}

/// Adds requests, tokens and known costs by model.
fn of_models(made: &mut String, spent: &[(String, SpentSum)]) {
    let mut series = |name: &str, help: &str, row: &dyn Fn(&SpentSum) -> Vec<(&'static str, String)>| {
        let _ = writeln!(made, "# HELP {name} {help}\n# TYPE {name} counter");
        for (model, sum) in spent {
            for (more, value) in row(sum) {
                let _ = writeln!(made, "{name}{{model=\"{}\"{more}}} {value}", label(model));
            }
        }
    };
    series("reedclaw_requests_total", "Requests to models.", &|sum| vec![("", sum.requests.to_string())]);
    series("reedclaw_tokens_total", "Tokens read and written.", &|sum| {
        vec![(",direction=\"in\"", sum.total_in().to_string()), (",direction=\"out\"", sum.total_out().to_string())]
    });
    series("reedclaw_cost_usd_total", "Dollars, where the price is known.", &|sum| {
        vec![("", sum.cost.usd().to_string())]
    });
}

/// A value of a label: backslash, quote and line break are escaped, as the text format has it.
fn label(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_models_name_can_not_end_its_label() {
        let mut made = String::new();
        of_models(&mut made, &[("a\"} 1\nb\\".to_owned(), SpentSum { requests: 2, ..SpentSum::default() })]);
        assert!(made.contains("reedclaw_requests_total{model=\"a\\\"} 1\\nb\\\\\"} 2\n"), "{made}");
    }
}
