//! `reedclaw completions`: a script for bash, zsh or fish that completes the words of `reedclaw` itself. The scripts are small:
//! they ask `reedclaw completions --words` for the candidates, which come from the definition of the command line.

use std::any::TypeId;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Arg, ArgAction, ArgMatches, Command};

use crate::app::OWN_TOOLS;
use crate::cli::command;
use crate::cli::out::{out, outln};
use crate::config::{self, LoadRequest};
use crate::host;
use crate::tools::Registry;

/// The scripts, by the name of their shell.
const SCRIPTS: [(&str, &str); 3] = [
    ("bash", include_str!("../../../config/completions/reedclaw.bash")),
    ("zsh", include_str!("../../../config/completions/reedclaw.zsh")),
    ("fish", include_str!("../../../config/completions/reedclaw.fish")),
];

/// The subcommand, as clap knows it.
pub(in crate::cli) fn definition() -> Command {
    Command::new("completions")
        .about("Prints a script that completes reedclaw's own words; eval \"$(reedclaw completions bash)\" in ~/.bashrc uses it")
        .arg(
            Arg::new("shell")
                .value_name("SHELL")
                .value_parser(SCRIPTS.map(|(name, _)| name))
                .required_unless_present("words")
                .help("The shell that the script is for"),
        )
        .arg(Arg::new("words").long("words").action(ArgAction::SetTrue).conflicts_with("shell").hide(true))
        .arg(Arg::new("line").last(true).num_args(0..).requires("words").hide(true))
}

/// Prints a script, or the candidates for the last of some words. `config` is the file that `--config` named; it may be
/// among the words, too.
pub(in crate::cli) fn run(matches: &ArgMatches, config: Option<PathBuf>) -> ExitCode {
    if let Some(shell) = matches.get_one::<String>("shell") {
        let script = SCRIPTS.iter().find(|(name, _)| name == shell).map_or("", |(_, script)| script);
        out!("{script}");
        return ExitCode::SUCCESS;
    }
    let words: Vec<String> = matches.get_many::<String>("line").into_iter().flatten().cloned().collect();
    let config = config.or_else(|| written_config(&words));
    for (value, help) in candidates(&words, &|of| names(of, config.clone())) {
        if help.is_empty() { outln!("{value}") } else { outln!("{value}\t{help}") }
    }
    ExitCode::SUCCESS
}

/// The file that `--config` names among words that are typed.
fn written_config(words: &[String]) -> Option<PathBuf> {
    let at = words.iter().position(|word| word == "--config" || word.starts_with("--config="))?;
    let value = match words[at].split_once('=') {
        Some((_, value)) => value,
        // bash splits off the `=` as a word of its own.
        None => words[at + 1..].iter().find(|word| *word != "=")?,
    };
    (at + 1 < words.len()).then(|| PathBuf::from(value))
}

/// Names that only this machine knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Names {
    /// The models of the config, with their other names.
    Models,
    /// The tools of a model.
    Tools,
}

/// Arguments whose values are such names: the command, the argument's id, and the names.
const NAMED: [(&str, &str, Names); 3] =
    [("provider test", "name", Names::Models), ("tool run", "name", Names::Tools), ("agent", "model", Names::Models)];

/// Reads names from this machine. A config with mistakes still has names.
fn names(of: Names, config: Option<PathBuf>) -> Vec<String> {
    match of {
        Names::Tools => {
            let registry = Registry::new();
            let every = registry.specs().map(|spec| spec.name.clone());
            every.chain(OWN_TOOLS.map(str::to_owned)).collect()
        }
        Names::Models => {
            let request = LoadRequest { explicit: config, env: host::environment(), cwd: host::working_directory() };
            let Ok(loaded) = config::load(&request) else { return Vec::new() };
            let each = |(name, model): (&String, &config::ModelSettings)| {
                std::iter::once(name.clone()).chain(model.aliases.clone()).collect::<Vec<_>>()
            };
            loaded.settings.models.iter().flat_map(each).collect()
        }
    }
}

/// The candidates for the last of the words after `reedclaw`, each with its help. A single `/` asks the shell for file names,
/// `/dir` for directories.
fn candidates(words: &[String], names: &dyn Fn(Names) -> Vec<String>) -> Vec<(String, String)> {
    let Some((current, before)) = words.split_last() else { return Vec::new() };
    let mut root = command::definition();
    root.build();
    let mut place = Place { command: &root, path: Vec::new(), pending: None, operands: 0, options_end: false };
    before.iter().for_each(|word| place.pass(word));
    let mut found = place.offered(current, names);
    found.sort();
    found.dedup();
    found
}

/// The position in a command line that is being read.
struct Place<'a> {
    command: &'a Command,
    /// The names of the subcommands so far.
    path: Vec<&'a str>,
    /// The option whose value comes next.
    pending: Option<&'a Arg>,
    /// The number of operands of the subcommand up to here.
    operands: usize,
    /// `true` if `--` was read.
    options_end: bool,
}

impl<'a> Place<'a> {
    /// Reads a whole word.
    fn pass(&mut self, word: &str) {
        // bash splits off the `=` between an option and its value as a word of its own.
        if word == "=" && self.pending.is_some() {
            return;
        }
        if self.pending.take().is_some() {
            return;
        }
        if !self.options_end && word.starts_with('-') && word.len() > 1 {
            self.options_end = word == "--";
            if !word.contains('=') {
                self.pending = self.option(word).filter(|option| option.get_action().takes_values());
            }
        } else if let Some(inner) = self.command.find_subcommand(word).filter(|_| self.operands == 0) {
            self.command = inner;
            self.path.push(inner.get_name());
        } else {
            self.operands += 1;
        }
    }

    fn option(&self, word: &str) -> Option<&'a Arg> {
        let is_named = |argument: &&Arg| match word.strip_prefix("--") {
            Some(long) => argument.get_long() == Some(long),
            None => {
                argument.get_short().is_some_and(|short| word.strip_prefix('-') == Some(short.to_string().as_str()))
            }
        };
        self.command.get_arguments().find(is_named)
    }

    /// The candidates for the word at the cursor.
    fn offered(&self, current: &str, names: &dyn Fn(Names) -> Vec<String>) -> Vec<(String, String)> {
        if let Some(option) = self.pending {
            let current = current.strip_prefix('=').unwrap_or(current);
            return self.values(option, current, "", names);
        }
        if !self.options_end && current.starts_with('-') {
            return match current.split_once('=') {
                Some((name, value)) => self
                    .option(name)
                    .map(|option| self.values(option, value, &format!("{name}="), names))
                    .unwrap_or_default(),
                None => self.options(current),
            };
        }
        let inner = self.command.get_subcommands().filter(|inner| !inner.is_hide_set() && self.operands == 0);
        let inner = inner.map(|inner| (inner.get_name().to_owned(), first_line(inner.get_about())));
        let mut found: Vec<_> = inner.filter(|(name, _)| name.starts_with(current)).collect();
        let operand = self.command.get_positionals().filter(|operand| !operand.is_hide_set());
        let operand = operand.enumerate().find(|(at, operand)| {
            *at == self.operands
                || (*at < self.operands && operand.get_num_args().is_some_and(|range| range.max_values() > 1))
        });
        found.extend(operand.into_iter().flat_map(|(_, operand)| self.values(operand, current, "", names)));
        found
    }

    fn options(&self, current: &str) -> Vec<(String, String)> {
        let mut found = Vec::new();
        for argument in self.command.get_arguments().filter(|argument| !argument.is_hide_set()) {
            let long = argument.get_long().map(|long| format!("--{long}"));
            let short = argument.get_short().map(|short| format!("-{short}"));
            let help = first_line(argument.get_help());
            let spellings = long.into_iter().chain(short).filter(|spelling| spelling.starts_with(current));
            found.extend(spellings.map(|spelling| (spelling, help.clone())));
        }
        found
    }

    /// The values of an argument, after `prefix`.
    fn values(
        &self,
        argument: &Arg,
        current: &str,
        prefix: &str,
        names: &dyn Fn(Names) -> Vec<String>,
    ) -> Vec<(String, String)> {
        let path = self.path.join(" ");
        let named = NAMED.iter().find(|(command, id, _)| *command == path && argument.get_id() == id);
        let is_model_of_the_session = path.is_empty() && argument.get_id() == "model";
        let values: Vec<String> = match named.map(|(.., names)| *names) {
            Some(of) => names(of),
            None if is_model_of_the_session => names(Names::Models),
            None => argument.get_possible_values().iter().map(|value| value.get_name().to_owned()).collect(),
        };
        if values.is_empty() && argument.get_value_parser().type_id() == TypeId::of::<PathBuf>() {
            let is_directory = argument.get_value_names().is_some_and(|names| names[..] == ["DIR"]);
            return vec![(if is_directory { "/dir" } else { "/" }.to_owned(), String::new())];
        }
        let values = values.into_iter().filter(|value| value.starts_with(current));
        values.map(|value| (format!("{prefix}{value}"), String::new())).collect()
    }
}

/// A help text as one line without a tab, which separates it from the candidate.
fn first_line(text: Option<&clap::builder::StyledStr>) -> String {
    text.map(ToString::to_string).unwrap_or_default().replace(['\t', '\n'], " ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn offered(line: &str) -> Vec<String> {
        let words: Vec<String> = line.split(' ').map(str::to_owned).collect();
        let names = |of: Names| match of {
            Names::Models => vec!["local".to_owned(), "cloud".to_owned()],
            Names::Tools => vec!["file_read".to_owned()],
        };
        candidates(&words, &names).into_iter().map(|(value, _)| value).collect()
    }

    #[test]
    fn candidates_fit_the_place_in_the_line() {
        let table: [(&str, &[&str]); 21] = [
            ("ro", &["route"]),
            ("history ", &["import"]),
            ("history import z", &["zsh"]),
            ("history import zsh --fi", &["--file"]),
            ("history import zsh --file ", &["/"]),
            ("agent --pa", &["--path"]),
            ("agent --path ", &["/dir"]),
            ("agent --path=x", &["/dir"]),
            ("agent --autonomy f", &["full"]),
            ("agent --autonomy=f", &["--autonomy=full"]),
            ("agent --autonomy = f", &["full"]),
            ("agent --autonomy =", &["full", "readonly", "supervised"]),
            ("agent --model ", &["cloud", "local"]),
            ("--model lo", &["local"]),
            ("--model local agent --js", &["--json"]),
            ("provider test c", &["cloud"]),
            ("tool run ", &["file_read"]),
            ("config validate ", &["/"]),
            ("agent -m route", &[]),
            ("agent -- --js", &[]),
            ("completions f", &["fish"]),
        ];
        for (line, wanted) in table {
            assert_eq!(offered(line), wanted, "{line}");
        }
        assert!(offered("").len() > 20 && offered("").contains(&"doctor".to_owned()));
        assert!(!offered("completions --w").contains(&"--words".to_owned()), "it is for the scripts alone");
        assert_eq!(candidates(&[], &|_| Vec::new()), []);
    }

    #[test]
    fn a_config_among_the_words_is_found() {
        for (line, config) in [
            ("--config a.lua --model ", Some("a.lua")),
            ("--config=a.lua agent --model ", Some("a.lua")),
            ("--config = a.lua agent --model ", Some("a.lua")),
            ("agent --model ", None),
            ("--config", None),
        ] {
            let words: Vec<String> = line.split(' ').map(str::to_owned).collect();
            assert_eq!(written_config(&words), config.map(PathBuf::from), "{line}");
        }
    }

    #[test]
    fn a_candidate_has_its_help_on_one_line() {
        let found = candidates(&["esto".to_owned()], &|_| Vec::new());
        assert_eq!(found.len(), 1);
        assert!(!found[0].1.is_empty() && !found[0].1.contains(['\t', '\n']));
    }

    #[test]
    fn every_named_argument_is_there() {
        let mut root = command::definition();
        root.build();
        for (path, id, _) in NAMED {
            let inner = path.split(' ').fold(&root, |command, name| command.find_subcommand(name).expect(path));
            assert!(inner.get_arguments().any(|argument| argument.get_id() == id), "{path} {id}");
        }
    }
}
