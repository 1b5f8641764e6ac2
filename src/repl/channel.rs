//! The shell itself as a channel: starts the backing shell on the terminal and the loop over it. It must not know how a
//! question is answered.

use std::os::fd::AsFd;
use std::sync::Arc;

use super::hub::Repl;
use super::run;
use super::screen::Screen;
use crate::app::{Channel, ChannelKind, Runtime};
use crate::console::{Console, Options};
use crate::proto::Event;
use crate::shell::spawn::{Dialect, Start};
use crate::shell::supervise::Ending;
use crate::shell::terminal::RawTerminal;
use crate::shell::{Session, sys};
use crate::store::ConversationId;

/// Terminals that know the kitty keyboard protocol, by the beginning of `TERM`.
const KEYBOARD_TERMS: [&str; 5] = ["xterm-kitty", "foot", "xterm-ghostty", "alacritty", "wezterm"];

/// The shell at a person's terminal.
#[derive(Clone)]
pub struct Shell {
    start: Start,
    dialect: Dialect,
    screen: Screen,
}

impl Shell {
    /// Makes a shell that starts in this way, on the terminal at standard input and with its size.
    #[must_use]
    pub fn new(start: Start, dialect: Dialect) -> Self {
        Self { start, dialect, screen: Screen::default() }
    }

    /// Starts the shell; returns the loop and the guard that restores the terminal.
    fn begin(&self, runtime: Runtime) -> Result<(Repl, RawTerminal), String> {
        let terminal = std::io::stdin().as_fd().try_clone_to_owned().map_err(|error| error.to_string())?;
        let copy = terminal.try_clone().map_err(|error| error.to_string())?;
        let size = sys::window_size(terminal.as_fd()).unwrap_or_default();
        let raw = RawTerminal::enter(copy).map_err(|error| format!("the terminal can't be made raw: {error}"))?;
        let options = runtime.shell_options(Start { size, ..self.start.clone() }, self.dialect);
        let session = Session::start(&options, terminal, raw.before())
            .map_err(|error| format!("the shell {} can't be started: {error}", self.start.program.display()))?;
        let console = Console::new(Options {
            color: runtime.color(),
            markdown: runtime.settings().console.markdown,
            unicode: runtime.unicode(),
            accessible: runtime.settings().console.accessible,
            keyboard_protocol: runtime
                .variable("TERM")
                .is_some_and(|term| KEYBOARD_TERMS.iter().any(|known| term.starts_with(known))),
        });
        Ok((run::start(self.screen.clone(), Arc::new(self.clone()), runtime, session, console), raw))
    }
}

impl Channel for Shell {
    fn name(&self) -> &'static str {
        ChannelKind::Shell.word()
    }

    fn start(&self, runtime: Runtime) -> Ending {
        match self.begin(runtime) {
            // The terminal is restored when the guard is dropped, after the shell's last output.
            Ok((repl, _raw)) => run::run(repl),
            Err(reason) => Ending::NotStarted(reason),
        }
    }

    fn send(&self, conversation: Option<ConversationId>, message: Event) {
        self.screen.send(conversation, message);
    }

    fn supports_draft_updates(&self) -> bool {
        true
    }
}
