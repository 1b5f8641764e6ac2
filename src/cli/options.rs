//! Options that several subcommands have.

use clap::builder::PossibleValuesParser;
use clap::{Arg, ArgMatches};

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

/// Applies `--autonomy` to this run. The person has typed it, so it may also raise the config's autonomy.
pub(super) fn set_autonomy(runtime: &mut Runtime, matches: &ArgMatches) {
    if let Some(autonomy) = autonomy_of(matches) {
        runtime.set_autonomy(autonomy);
    }
}
