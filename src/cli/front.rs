//! An interactive session from start to end: supervised, and a plain shell wherever ours can't be.

use crate::cli::out::{err, errln};
use crate::render::sanitise;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use super::backing;
use super::dispatch::Interactive;
use crate::app::{self, Request, Runtime};
use crate::proto::Failure;
use crate::repl::Shell;
use crate::shell::spawn::{Dialect, Start};
use crate::shell::supervise::{Ending, Front, end_by_signal, supervise};
use crate::shell::sys;

/// Terminals on which no line can be edited.
const DUMB: [&str; 2] = ["dumb", ""];
/// Runs an interactive session and ends as the shell in it ended.
#[must_use]
pub fn interactive(how: &Interactive) -> ExitCode {
    if let Some(path) = &how.own.path
        && let Err(error) = std::env::set_current_dir(path)
    {
        let failed = crate::render::sanitise(&format!("--path {}: {error}", Path::new(path).display())).into_owned();
        errln!("reedclaw: {failed}\n  name an existing directory");
        return ExitCode::from(2);
    }
    let term = std::env::var("TERM").unwrap_or_default();
    if DUMB.contains(&term.as_str()) {
        let reason = match term.as_str() {
            "" => "TERM isn't set, so it is unknown whether this terminal can edit a line",
            _ => "TERM says that this terminal can't edit a line",
        };
        return plain(how, reason);
    }
    let session = how.clone();
    let ignored = sys::Ignored::now();
    match supervise(ignored, move |last_word| {
        let ending = front_end(&session, ignored, last_word.front());
        last_word.end(&ending);
    }) {
        Ok(Ending::Exit(code)) => ExitCode::from(u8::try_from(code & 255).unwrap_or(1)),
        Ok(Ending::Signal(signal)) => end_by_signal(signal),
        Ok(Ending::NotStarted(reason)) => plain(how, &reason),
        Ok(Ending::Crashed(how_it_ended)) => plain(how, &format!("the session {how_it_ended} and is gone")),
        Err(error) => plain(how, &format!("no session could be set up: {error}")),
    }
}

/// Becomes the plain backing shell, with one line that says why.
fn plain(how: &Interactive, reason: &str) -> ExitCode {
    let program = backing::find(super::configured_shell());
    errln!("reedclaw: {}; this is plain {}", crate::render::sanitise(reason), program.display());
    let mut arguments: Vec<OsString> = how.shell_arguments.clone();
    if how.login && program.file_name().is_some_and(|name| name == "bash") {
        arguments.insert(0, "--login".into());
    }
    let error = backing::become_shell(&program, how.login, &arguments);
    errln!("reedclaw: {}: {error}", program.display());
    ExitCode::from(126)
}

/// The session itself, in the supervised process.
fn front_end(how: &Interactive, ignored: sys::Ignored, front: Option<Front>) -> Ending {
    start(how, ignored, front).unwrap_or_else(Ending::NotStarted)
}

fn start(how: &Interactive, ignored: sys::Ignored, front: Option<Front>) -> Result<Ending, String> {
    let text = |word: &Option<OsString>| word.as_ref().map(|word| word.to_string_lossy().into_owned());
    for unknown in app::start_log(&crate::host::environment(), false, text(&how.own.log_level).as_deref()) {
        errln!("reedclaw: {}", sanitise(&unknown));
    }
    let config = how.own.config.clone().map(PathBuf::from);
    let request = Request { config, model: text(&how.own.model), ..Request::default() };
    let mut runtime = Runtime::start(&request).map_err(|failure| one_line(&failure.message, &failure.hint))?;
    if how.own.path.is_some() {
        tell_where_tools_work(&mut runtime);
    }
    let configured = runtime.settings().shell.program.clone();
    if let Some(why) = backing::why_another(configured.as_deref()) {
        let hint = "name the absolute path of bash, zsh or fish";
        runtime.add_problem(Failure::config(format!("shell.program: {why}")).hint(hint));
    }
    let program = backing::find(configured);
    let dialect = dialect_of(&program)?;
    install_panic_hook();
    let size = sys::WindowSize::default();
    let start = Start { program, login: how.login, arguments: how.shell_arguments.clone(), size, ignored, front };
    Ok(runtime.run(&Shell::new(start, dialect)))
}

/// Reports the directory in which tools work, if it isn't the one of `--path`.
fn tell_where_tools_work(runtime: &mut Runtime) {
    let configured = app::workspace_dir(runtime.settings(), runtime.env());
    let is_taken = app::workspace_for(runtime.env(), runtime.cwd(), &configured) != configured;
    if !is_taken && !runtime.cwd().starts_with(&configured) && !runtime.agent().models().is_empty() {
        let (cwd, configured) = (runtime.cwd().display(), configured.display());
        let message = format!("--path {cwd}: tools don't work there, but in {configured}");
        let hint = "they work in a directory of your own that is neither your home nor the system's";
        runtime.add_problem(Failure::user(message).hint(hint));
    }
}

fn dialect_of(program: &Path) -> Result<Dialect, String> {
    Dialect::of(program).ok_or_else(|| format!("there is no integration for {}", program.display()))
}

fn one_line(message: &str, hint: &str) -> String {
    if hint.is_empty() { message.to_owned() } else { format!("{message} ({hint})") }
}

/// Shortens a panic's message to one line. A panic of the main thread ends the front-end by itself; one of the pump
/// must end it too, because keys would no longer arrive. The supervisor then restores the terminal.
fn install_panic_hook() {
    std::panic::set_hook(Box::new(|info| {
        err!("\r\nreedclaw: {}\r\n", info.to_string().replace('\n', " "));
        if std::thread::current().name() == Some("pump") {
            std::process::exit(101);
        }
    }));
}
