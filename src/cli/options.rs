//! Options that several subcommands have.

use clap::builder::PossibleValuesParser;
use clap::{Arg, ArgMatches, value_parser};

use crate::app::Runtime;
use crate::proto::action::Autonomy;

/// `--autonomy LEVEL`.
pub(super) fn autonomy(help: &'static str) -> Arg {
    Arg::new("autonomy")
        .long("autonomy")
        .value_name("LEVEL")
        .value_parser(PossibleValuesParser::new(Autonomy::WORDS))
        .help(help)
}

/// The autonomy that `--autonomy` names.
pub(super) fn autonomy_of(matches: &ArgMatches) -> Option<Autonomy> {
    matches.get_one::<String>("autonomy").and_then(|word| Autonomy::of(word))
}

/// `--limit N`, for a list.
pub(super) fn limit() -> Arg {
    Arg::new("limit")
        .long("limit")
        .value_name("N")
        .value_parser(value_parser!(usize))
        .default_value("50")
        .help("Prints at most N; the default is 50")
}

/// The number that `--limit` names.
pub(super) fn limit_of(matches: &ArgMatches) -> usize {
    matches.get_one::<usize>("limit").copied().unwrap_or_default()
}

/// Applies `--autonomy` to this run. The person has typed it, so it may also raise the config's autonomy.
pub(super) fn set_autonomy(runtime: &mut Runtime, matches: &ArgMatches) {
    if let Some(autonomy) = autonomy_of(matches) {
        runtime.set_autonomy(autonomy);
    }
}
