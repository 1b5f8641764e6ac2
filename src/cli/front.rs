//! An interactive session from start to end: supervised, and a plain shell wherever ours can't be.

use std::ffi::OsString;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use super::backing;
use super::dispatch::Interactive;
use crate::app::{self, App, Request};
use crate::console::{Console, Options};
use crate::log::{self, Level};
use crate::repl::{Parts, Repl, first_names};
use crate::shell::spawn::{Dialect, Start};
use crate::shell::supervise::{Ending, end_by_signal, supervise};
use crate::shell::terminal::RawTerminal;
use crate::shell::{Session, sys};

/// Terminals on which no line can be edited.
const DUMB: [&str; 2] = ["dumb", ""];
/// Terminals that know the kitty keyboard protocol, by the beginning of `TERM`.
const KEYBOARD_TERMS: [&str; 5] = ["xterm-kitty", "foot", "xterm-ghostty", "alacritty", "wezterm"];

/// Runs an interactive session and ends as the shell in it ended.
#[must_use]
pub fn interactive(how: &Interactive) -> ExitCode {
    if let Some(path) = &how.own.path
        && let Err(error) = std::env::set_current_dir(path)
    {
        let failed = crate::render::sanitise(&format!("--path {}: {error}", Path::new(path).display())).into_owned();
        eprintln!("reedclaw: {failed}\n  it names a directory that is there");
        return ExitCode::from(2);
    }
    let term = std::env::var("TERM").unwrap_or_default();
    if DUMB.contains(&term.as_str()) {
        return plain(how, "TERM says that this terminal can't edit a line");
    }
    let session = how.clone();
    let ignored = sys::Ignored::now();
    match supervise(ignored, move |last_word| {
        let ending = front_end(&session, ignored);
        last_word.end(&ending);
    }) {
        Ok(Ending::Exit(code)) => ExitCode::from(u8::try_from(code & 255).unwrap_or(1)),
        Ok(Ending::Signal(signal)) => end_by_signal(signal),
        Ok(Ending::NotStarted(reason)) => plain(how, &reason),
        Ok(Ending::Crashed(how_it_ended)) => {
            plain(how, &format!("the front-end {how_it_ended}; the shell under it was sent SIGHUP"))
        }
        Err(error) => plain(how, &format!("no session could be set up: {error}")),
    }
}

/// Becomes the plain backing shell, with one line that says why.
fn plain(how: &Interactive, reason: &str) -> ExitCode {
    let program = backing::find(super::configured_shell());
    eprintln!("reedclaw: {}; this is plain {}", crate::render::sanitise(reason), program.display());
    let mut arguments: Vec<OsString> = how.shell_arguments.clone();
    if how.login && program.file_name().is_some_and(|name| name == "bash") {
        arguments.insert(0, "--login".into());
    }
    let error = backing::become_shell(&program, how.login, &arguments);
    eprintln!("reedclaw: {}: {error}", program.display());
    ExitCode::from(126)
}

/// The session itself, in the supervised process.
fn front_end(how: &Interactive, ignored: sys::Ignored) -> Ending {
    match start(how, ignored) {
        // The terminal is restored when the guard goes, after the shell's last output.
        Ok((repl, _raw)) => repl.run(),
        Err(reason) => Ending::NotStarted(reason),
    }
}

fn start(how: &Interactive, ignored: sys::Ignored) -> Result<(Repl, RawTerminal), String> {
    let text = |word: &Option<OsString>| word.as_ref().map(|word| word.to_string_lossy().into_owned());
    app::start_log(&crate::host::environment(), false, text(&how.own.log_level).as_deref());
    let config = how.own.config.clone().map(PathBuf::from);
    let request = Request { config, model: text(&how.own.model), ..Request::default() };
    let app = App::start(&request).map_err(|failure| one_line(&failure.message, &failure.hint))?;
    let program = backing::find(app.settings.shell.program.clone());
    let dialect = dialect_of(&program)?;
    let terminal = std::io::stdin().as_fd().try_clone_to_owned().map_err(|error| error.to_string())?;
    let copy = terminal.try_clone().map_err(|error| error.to_string())?;
    let size = sys::window_size(terminal.as_fd()).unwrap_or_default();
    let raw = RawTerminal::enter(copy).map_err(|error| format!("the terminal can't be made raw: {error}"))?;
    install_panic_hook();
    let start = Start { program, login: how.login, arguments: how.shell_arguments.clone(), size, ignored };
    let options = app.shell_options(start, dialect);
    let session = Session::start(&options, terminal, raw.before())
        .map_err(|error| format!("the shell {} can't be started: {error}", options.start.program.display()))?;
    let console = Console::new(Options {
        color: app.color(),
        markdown: app.settings.console.markdown,
        unicode: app.unicode(),
        accessible: app.settings.console.accessible,
        keyboard_protocol: app
            .variable("TERM")
            .is_some_and(|term| KEYBOARD_TERMS.iter().any(|known| term.starts_with(known))),
    });
    let parts = Parts { app, session, console, first_names: first_names() };
    log::event(Level::Info, "channel_started", &[("channel", "shell".into())]);
    Ok((Repl::new(parts), raw))
}

fn dialect_of(program: &Path) -> Result<Dialect, String> {
    Dialect::of(program).ok_or_else(|| format!("there is no integration for {}", program.display()))
}

fn one_line(message: &str, hint: &str) -> String {
    if hint.is_empty() { message.to_owned() } else { format!("{message} ({hint})") }
}

/// Keeps a panic's message to one line. A panic of the main thread ends the front-end by itself, one of the pump must
/// end it too, for nobody would carry keys any more; the supervisor then restores the terminal.
fn install_panic_hook() {
    std::panic::set_hook(Box::new(|info| {
        eprint!("\r\nreedclaw: {}\r\n", info.to_string().replace('\n', " "));
        if std::thread::current().name() == Some("pump") {
            std::process::exit(101);
        }
    }));
}
