//! The shell itself as a channel: starts the backing shell on the terminal, and draws what it is sent there. It must not know
//! how a question is answered.

use std::os::fd::AsFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::answer::Drawing;
use super::run::Repl;
use super::terminal::Beside;
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
    face: Arc<Mutex<Face>>,
    beside: Beside,
}

/// The part that several threads share.
#[derive(Default)]
struct Face {
    /// The conversation in which an answer is awaited, and what draws it.
    drawn: Option<(Option<ConversationId>, Drawing)>,
}

impl Shell {
    /// A shell that is started so, on the terminal that is standard input; the size is the terminal's.
    #[must_use]
    pub fn new(start: Start, dialect: Dialect) -> Self {
        Self { start, dialect, face: Arc::default(), beside: Beside::default() }
    }

    /// Starts it, and gives what makes the terminal as it was before.
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
        Ok((Repl::new(self.clone(), runtime, session, console), raw))
    }

    /// The lines that come beside an answer.
    pub(super) fn beside(&self) -> Beside {
        self.beside.clone()
    }

    fn face(&self) -> MutexGuard<'_, Face> {
        self.face.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Lets what is sent in a conversation be drawn.
    pub(super) fn draw(&self, conversation: Option<ConversationId>, drawing: Drawing) {
        self.face().drawn = Some((conversation, drawing));
    }

    /// Ends that; gives what was drawn.
    pub(super) fn drawn(&self) -> Option<Drawing> {
        self.face().drawn.take().map(|(_, drawing)| drawing)
    }
}

impl Channel for Shell {
    fn name(&self) -> &'static str {
        ChannelKind::Shell.word()
    }

    fn start(&self, runtime: Runtime) -> Ending {
        match self.begin(runtime) {
            // The terminal is restored when the guard goes, after the shell's last output.
            Ok((repl, _raw)) => repl.run(),
            Err(reason) => Ending::NotStarted(reason),
        }
    }

    /// Draws an event of the awaited answer. Lines beside it wait for the next prompt, since they must not get between a
    /// question and its keys.
    fn send(&self, conversation: Option<ConversationId>, message: Event) {
        let mut face = self.face();
        match &mut face.drawn {
            Some((awaited, drawing)) if *awaited == conversation => drawing.take(message),
            _ => match message {
                Event::Notice(text) => self.beside.push(text),
                Event::Failed { failure, .. } => self.beside.push(failure.message),
                // The record has it.
                _ => {}
            },
        }
    }

    fn supports_draft_updates(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;

    use super::*;
    use crate::console::Waiting;

    #[test]
    fn what_belongs_to_no_awaited_answer_waits_for_the_prompt() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("terminal");
        let options =
            Options { color: false, markdown: false, unicode: true, accessible: false, keyboard_protocol: false };
        let console = Console::on(options, Arc::new(File::create(&path).expect("a file")));
        let (ignored, size) = (sys::Ignored::default(), sys::WindowSize::default());
        let start =
            Start { program: "/bin/bash".into(), login: false, arguments: Vec::new(), size, ignored, front: None };
        let shell = Shell::new(start, Dialect::Bash);
        let drawn = || std::fs::read_to_string(&path).expect("what was drawn");
        let awaited = Some(ConversationId(1));
        shell.draw(awaited, Drawing::new(console, Arc::<Waiting>::default(), 1));
        for (conversation, text) in
            [(None, "left behind"), (awaited, "of the answer"), (Some(ConversationId(2)), "other")]
        {
            shell.send(conversation, Event::Notice(text.to_owned()));
        }
        assert_eq!(drawn(), "of the answer\r\n");
        assert!(shell.drawn().is_some());
        shell.send(awaited, Event::Text("late".into()));
        shell.send(awaited, Event::Notice("later".into()));
        assert_eq!(
            (drawn().as_str(), shell.beside().take().join(", ")),
            ("of the answer\r\n", "left behind, other, later".into())
        );
    }
}
