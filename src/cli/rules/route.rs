//! `reedclaw route`: the route of a line, with reasons, for a person or as JSON, for one line or a stream of them.

use parking_lot::Mutex;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use clap::{Arg, ArgAction, ArgMatches, Command};
use serde_json::json;

use crate::cli::backing;
use crate::cli::exit;
use crate::cli::out::{answer_each_line, errln, outln};
use crate::config::{HookContext, Hooks, LoadRequest, load};
use crate::host;
use crate::ops::routes;
use crate::proto::{Failure, Names, Route, RouteVerdict};
use crate::repl::state::{EditorState, Learned, RouteHook};
use crate::repl::{first_names, validate::is_incomplete};
use crate::route::lex::{Reading, TokenKind, tokens};
use crate::route::{Context, decide};
use crate::shell::programs::Programs;
use crate::shell::survey;
use crate::store::{FILE_NAME, Store};

/// The subcommand as clap knows it.
pub(in crate::cli) fn definition() -> Command {
    let file =
        |name: &'static str| Arg::new(name).long(name).value_name("FILE").value_parser(clap::value_parser!(PathBuf));
    Command::new("route")
        .about("Says where a line would go, and why; runs nothing")
        .after_help(
            "The names are those of your shell; your config's route.mode and route hook count, and the lines that you \
             sent the other way before. With --names or --session only the files count.",
        )
        .arg(Arg::new("json").long("json").action(ArgAction::SetTrue).help("Answers with one JSON object"))
        .arg(
            Arg::new("batch")
                .long("batch")
                .action(ArgAction::SetTrue)
                .conflicts_with("line")
                .help("Reads lines from standard input (\\n, \\t and \\\\ are escapes); one JSON object a line"),
        )
        .arg(file("names").help("The names that resolve, one a line, instead of those of your shell"))
        .arg(file("session").help("`alias NAME` and `function NAME` lines, instead of those of your shell"))
        .arg(
            Arg::new("line")
                .value_name("LINE")
                .required_unless_present("batch")
                .num_args(1..)
                .trailing_var_arg(true)
                .help("The line; several words are joined by spaces"),
        )
}

/// Runs the subcommand; `config` is the file that `--config` named.
pub(in crate::cli) fn run(matches: &ArgMatches, config: Option<PathBuf>) -> ExitCode {
    let path = |name: &str| matches.get_one::<PathBuf>(name).map(PathBuf::as_path);
    let known = match Known::find(path("names"), path("session"), config) {
        Ok(known) => known,
        Err(failure) => {
            return exit::failed(&failure);
        }
    };
    if matches.get_flag("batch") {
        // Bytes that are no UTF-8 count as marks of an unknown character.
        return answer_each_line(|line| object(&known.decide(&unescaped(&String::from_utf8_lossy(line)))));
    }
    let words: Vec<String> = matches.get_many::<String>("line").unwrap_or_default().cloned().collect();
    let verdict = known.decide(&words.join(" "));
    if matches.get_flag("json") {
        outln!("{}", object(&verdict));
    } else {
        let destination = match verdict.route {
            Route::Empty => "nowhere",
            Route::Meta => "meta",
            Route::Shell => "shell",
            Route::Ask => "model",
            Route::Confirm => "a question first",
        };
        outln!("{destination}: {} ({})", crate::render::sanitise(&verdict.reason), verdict.rule);
    }
    ExitCode::SUCCESS
}

fn unescaped(line: &str) -> String {
    let mut out = String::with_capacity(line.len());
    let mut rest = line;
    while let Some(at) = rest.find('\\') {
        out.push_str(&rest[..at]);
        let (plain, length) = match rest.as_bytes().get(at + 1) {
            Some(b'n') => ("\n", 2),
            Some(b't') => ("\t", 2),
            Some(b'\\') => ("\\", 2),
            _ => ("\\", 1),
        };
        out.push_str(plain);
        rest = &rest[at + length..];
    }
    out.push_str(rest);
    out
}

fn object(verdict: &RouteVerdict) -> serde_json::Value {
    let route = match verdict.route {
        Route::Shell if is_unfinished(&verdict.text) => "incomplete",
        Route::Shell => "shell",
        Route::Ask => "ask",
        Route::Meta => "meta",
        Route::Confirm => "confirm",
        Route::Empty => "incomplete",
    };
    let score = (f64::from(verdict.score) * 100.0).round() / 100.0;
    json!({"route": route, "score": score, "reason": crate::render::sanitise(&verdict.reason), "rule": verdict.rule})
}

/// Returns whether bash would refuse `line` as unfinished at the end of its input: `echo 'a`, `for i in *; do`. A
/// backslash at the end and a here-document without its text are run as they are.
fn is_unfinished(line: &str) -> bool {
    let document = tokens(line, Reading::Shell)
        .iter()
        .any(|token| token.kind == TokenKind::Redirect && token.text.contains("<<") && !token.text.contains("<<<"));
    let line = line.trim_end();
    let continued = line.bytes().rev().take_while(|&byte| byte == b'\\').count() % 2 == 1;
    !document && is_incomplete(if continued { &line[..line.len() - 1] } else { line })
}

/// The facts by which lines are decided.
enum Known {
    /// Names from files, and nothing of this machine.
    Given(Names),
    /// The user's own shell and directory.
    Own(EditorState),
}

impl Known {
    fn find(names: Option<&Path>, session: Option<&Path>, config: Option<PathBuf>) -> Result<Self, Failure> {
        if names.is_none() && session.is_none() {
            return Ok(Self::Own(own(config)?));
        }
        let text = |path: Option<&Path>| path.map_or(Ok(String::new()), read);
        let programs = text(names)?.lines().map(str::trim).filter(|name| !name.is_empty()).collect();
        let mut found = Names { programs: Arc::new(programs), ..Names::default() };
        for line in text(session)?.lines() {
            match line.trim().split_once(char::is_whitespace) {
                Some(("alias", name)) => _ = found.aliases.insert(name.trim().to_owned(), String::new()),
                Some(("function", name)) => _ = found.functions.insert(name.trim().to_owned()),
                _ => {}
            }
        }
        Ok(Self::Given(found))
    }

    fn decide(&self, line: &str) -> RouteVerdict {
        match self {
            Self::Given(names) => decide(line, &Context::new(names)),
            Self::Own(state) => state.verdict(line),
        }
    }
}

fn read(path: &Path) -> Result<String, Failure> {
    let bytes = std::fs::read(path).map_err(|error| {
        Failure::user(format!("{} can't be read: {error}", path.display()))
            .hint("a file with one name a line, or `alias NAME` and `function NAME` lines")
    })?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// Asks the user's own shell once; if it doesn't answer, the names of every bash and the programs on `PATH` are used.
fn own(config: Option<PathBuf>) -> Result<EditorState, Failure> {
    let env = host::environment();
    let program = backing::find(crate::cli::configured_shell());
    let path = || env.get(std::ffi::OsStr::new("PATH")).cloned().unwrap_or_default();
    let (names, path) = survey::names_of(&program).unwrap_or_else(|| (first_names(), path()));
    let cwd = host::working_directory();
    let home = env.get(std::ffi::OsStr::new("HOME")).map(PathBuf::from);
    let loaded = load(&LoadRequest { explicit: config, env, cwd: cwd.clone() })?;
    for problem in &loaded.problems {
        errln!("reedclaw: {}", crate::render::sanitise(&problem.to_string()));
    }
    let (settings, hooks) = (loaded.settings, loaded.hooks);
    let mode = settings.route.mode;
    let learned = settings.history.dir.as_deref().and_then(learned).unwrap_or_default();
    let ignores_space = settings.history.ignore_space;
    let known = settings.shell.known_commands.into_iter().collect();
    let names = Names { programs: Programs::new().refresh(&path), known, ..names };
    let route_hook = hooks.has("route").then(|| ask_hook(hooks, &cwd, ignores_space));
    let learned = learned.into();
    Ok(EditorState { names: names.into(), cwd, home, route_hook, mode, learned, ..EditorState::default() })
}

/// The lessons learned in sessions, if there were any.
fn learned(dir: &Path) -> Option<Learned> {
    let mut store = dir.join(FILE_NAME).exists().then(|| Store::open(dir))?.ok()?;
    routes::learned(&mut store).map(Learned::of)
}

/// The route hook of the user's config, as a session asks it. A failure is reported once; the hook is off then.
fn ask_hook(hooks: Hooks, cwd: &Path, ignores_space: bool) -> RouteHook {
    let context = HookContext { path: cwd.display().to_string(), ..HookContext::default() };
    let hooks = Mutex::new(hooks);
    RouteHook::new(move |line| {
        if ignores_space && line.starts_with(' ') {
            return None;
        }
        let answer = hooks.lock().route(line, &context);
        answer.unwrap_or_else(|failure| {
            errln!("reedclaw: {failure}");
            None
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escapes_are_line_feeds_tabs_and_backslashes() {
        for (line, plain) in
            [("a\\nb\\tc", "a\nb\tc"), ("\\\\n", "\\n"), ("s/a\\(b\\)/c/\\", "s/a\\(b\\)/c/\\"), ("é\\", "é\\")]
        {
            assert_eq!(unescaped(line), plain);
        }
    }

    #[test]
    fn an_object_has_its_four_keys() {
        let names = Names { programs: Arc::new(["cat"].into()), ..Names::default() };
        let known = Known::Given(names);
        for (line, route) in [
            ("cat x", "shell"),
            ("cat 'x", "incomplete"),
            ("cat x |", "incomplete"),
            ("cat x \\", "shell"),
            ("cat <<EOF", "shell"),
            ("cat <<<'x", "incomplete"),
            ("what is this", "ask"),
            (":help", "meta"),
            ("", "incomplete"),
        ] {
            let object = object(&known.decide(line));
            assert_eq!(object["route"], route, "{line}");
            assert!(object["score"].is_number() && object["reason"].is_string() && object["rule"].is_string());
        }
    }
}
