//! Options that several subcommands have.

use clap::builder::PossibleValuesParser;
use clap::{Arg, ArgMatches, value_parser};

use crate::app::Runtime;
use crate::proto::Failure;
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

/// Applies `--autonomy` to this run. The person has typed it, so it may also raise the config's autonomy, unless that is low because
/// the config has a mistake: what else it forbids isn't known then.
pub(super) fn set_autonomy(runtime: &mut Runtime, matches: &ArgMatches) -> Result<(), Failure> {
    let Some(autonomy) = autonomy_of(matches) else { return Ok(()) };
    let security = &runtime.settings().security;
    if autonomy > security.autonomy && !security.mistake.is_empty() {
        let (word, mistake) = (autonomy.word(), &security.mistake);
        let failure = Failure::user(format!("--autonomy {word} isn't taken while the config has a mistake: {mistake}"));
        return Err(failure.hint("mend the config, or leave the option out"));
    }
    runtime.set_autonomy(autonomy);
    Ok(())
}
