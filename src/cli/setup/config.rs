//! `reedclaw config`: the config's problems, the settings in force with their origins, the config's path. Runs no
//! untrusted file of a project.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Arg, ArgAction, ArgMatches, Command};

use crate::app;
use crate::base::text::counted;
use crate::cli::backing;
use crate::cli::exit;
use crate::cli::out::{errln, outln};
use crate::config::{self, Effective, Env, Layers, LoadRequest, Loaded, Look, Problem, Trust, TrustVerdict};
use crate::host;
use crate::ops::commands::name_problem;
use crate::proto::Failure;
use crate::render::sanitise;

/// The subcommand, as clap knows it.
pub(in crate::cli) fn definition() -> Command {
    Command::new("config")
        .about("Shows and checks the config")
        .subcommand_required(true)
        .subcommand(
            Command::new("validate").about("Lists all mistakes in the config; exits with 1 if there are any").arg(
                Arg::new("file")
                    .value_name("FILE")
                    .value_parser(clap::value_parser!(PathBuf))
                    .help("A config other than the one in use"),
            ),
        )
        .subcommand(
            Command::new("show").about("Prints the settings in force; secrets are stars").arg(
                Arg::new("origin")
                    .long("origin")
                    .action(ArgAction::SetTrue)
                    .help("Adds the file and line that each setting comes from"),
            ),
        )
        .subcommand(Command::new("path").about("Prints the path of the config, or where ReedClaw would look for it"))
}

/// Carries it out; `explicit` is what `--config` named.
pub(in crate::cli) fn run(matches: &ArgMatches, explicit: Option<PathBuf>) -> ExitCode {
    let env = host::environment();
    let request = LoadRequest { explicit, env, cwd: host::working_directory() };
    match matches.subcommand() {
        Some(("validate", matches)) => {
            let file = matches.get_one::<PathBuf>("file").cloned();
            let request = LoadRequest { explicit: file.or_else(|| request.explicit.clone()), ..request };
            with_config(&request, |loaded| validate(&loaded, &request))
        }
        Some(("show", matches)) => with_config(&request, |loaded| show(&loaded, &request, matches.get_flag("origin"))),
        Some(("path", _)) => path(&request),
        _ => ExitCode::from(exit::USAGE),
    }
}

fn with_config(request: &LoadRequest, act: impl FnOnce(Loaded) -> ExitCode) -> ExitCode {
    match config::load(request) {
        Ok(loaded) => act(loaded),
        Err(error) => exit::failed(&Failure::from(error)),
    }
}

fn validate(loaded: &Loaded, request: &LoadRequest) -> ExitCode {
    let mut problems: Vec<Problem> = loaded.problems.clone();
    let mut effective = Effective::plain(&loaded.layers);
    match project(request, loaded) {
        None => {}
        Some(Ok(TrustVerdict::Trusted(trusted))) => effective = loaded.layers.with(&trusted, &request.env),
        Some(Ok(TrustVerdict::Never)) => outln!("{}: not looked at: never", config::PROJECT_FILE),
        Some(Ok(TrustVerdict::Unknown { overlay, .. })) => {
            outln!("{}: not run: you have not trusted it", sanitise(overlay.shown()));
        }
        Some(Err(refused)) => outln!("{}: not used: {}", sanitise(&refused.file), sanitise(&refused.why)),
    }
    problems.append(&mut effective.problems);
    problems.extend(taken_metas(&effective.layers));
    problems.extend(unknown_tools(loaded, &request.env));
    problems.extend(unusable_shell(loaded));
    for problem in &problems {
        outln!("{}", sanitise(&problem.to_string()));
    }
    let wrong = problems.iter().filter(|problem| !problem.is_warning).count();
    let warnings = problems.len() - wrong;
    match (wrong, warnings) {
        (0, 0) => outln!("no problems{}", loaded.path.as_deref().map(in_file(&request.env)).unwrap_or_default()),
        (0, warnings) => outln!("no problems, {}", counted(warnings, "warning")),
        (wrong, 0) => outln!("{}", counted(wrong, "problem")),
        (wrong, warnings) => outln!("{}, {}", counted(wrong, "problem"), counted(warnings, "warning")),
    }
    if wrong == 0 { ExitCode::SUCCESS } else { ExitCode::from(exit::FAILED) }
}

/// A configured shell that can't be run.
fn unusable_shell(loaded: &Loaded) -> Option<Problem> {
    let message = backing::why_another(loaded.settings.shell.program.as_deref())?;
    let key = "shell.program".to_owned();
    let origin = loaded.layers.rows().into_iter().find(|row| row.key == key).map(|row| row.origin).unwrap_or_default();
    Some(Problem { file: origin, line: None, key, message, is_warning: false })
}

/// Names in `tools_allow` that no tool has.
fn unknown_tools(loaded: &Loaded, env: &Env) -> Vec<Problem> {
    let rows = loaded.layers.rows();
    let problem = |(key, name): (String, String)| {
        let origin = rows.iter().find(|row| row.key == key).map(|row| row.origin.clone()).unwrap_or_default();
        let message = format!("there is no tool {name}; reedclaw tool list lists them");
        Problem { file: origin, line: None, key, message, is_warning: false }
    };
    app::unknown_tools(&loaded.settings, env).into_iter().map(problem).collect()
}

/// The config's meta commands whose names belong to ReedClaw's own.
fn taken_metas(layers: &Layers) -> impl Iterator<Item = Problem> {
    layers.rows().into_iter().filter_map(|row| {
        let message = name_problem(row.key.strip_prefix("meta.")?)?;
        Some(Problem { file: row.origin, line: None, key: row.key, message, is_warning: false })
    })
}

fn in_file(env: &Env) -> impl Fn(&Path) -> String {
    move |path| format!(" in {}", sanitise(&config::display_path(path, env)))
}

fn show(loaded: &Loaded, request: &LoadRequest, with_origin: bool) -> ExitCode {
    let effective = match project(request, loaded) {
        Some(Ok(TrustVerdict::Trusted(trusted))) => loaded.layers.with(&trusted, &request.env),
        _ => Effective::plain(&loaded.layers),
    };
    for line in effective.layers.lines(with_origin) {
        outln!("{}", sanitise(&line));
    }
    let count = loaded.problems.len() + effective.problems.len();
    if count > 0 {
        errln!("reedclaw: the config has mistakes ({count}); reedclaw config validate lists them");
    }
    ExitCode::SUCCESS
}

fn path(request: &LoadRequest) -> ExitCode {
    let found = config::find_path(request);
    match found.clone().or_else(|| config::own_path(&request.env)) {
        Some(path) => {
            outln!("{}", path.display());
            if found.is_none() {
                errln!("reedclaw: there is no such file; using the defaults");
            }
            ExitCode::SUCCESS
        }
        None => {
            errln!("reedclaw: no HOME is set, so a config has no place");
            ExitCode::from(exit::FAILED)
        }
    }
}

/// The nearest project's file, and the person's decision about it.
fn project(request: &LoadRequest, loaded: &Loaded) -> Option<Result<TrustVerdict, config::Refused>> {
    let look = Look::of_request(request, loaded)?;
    Some(look.read(&request.env).map(|overlay| Trust::of(&request.env).judge(overlay)))
}
