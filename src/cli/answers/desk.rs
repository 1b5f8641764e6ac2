//! A terminal with a person at it, for a command without a session: keys and lines arrive as in a session, and
//! typed-ahead text waits. It must not know the questions.

use std::borrow::Cow;
use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;

use reedline::{EditCommand, Highlighter, Prompt, PromptEditMode, PromptHistorySearch, Reedline, Signal, StyledText};

use crate::ask::Asking;
use crate::config::Env;
use crate::console::{Console, Options};
use crate::repl::editor_program;
use crate::share::Elsewhere;
use crate::shell::session::KeysTo;
use crate::shell::{Event, Handle, Session};

/// The use of a terminal.
#[derive(Clone, Debug)]
pub(in crate::cli) struct Manner {
    /// The appearance of the output.
    pub(in crate::cli) options: Options,
    /// `true` if a line can be edited there; else the terminal's own line editing is used.
    pub(in crate::cli) can_edit: bool,
    /// `true` if keys are listened to between lines and questions, or the terminal is left as it is.
    pub(in crate::cli) listens: bool,
    /// The environment: it names the editor.
    pub(in crate::cli) env: Env,
}

/// A terminal with a person at it.
pub(in crate::cli) struct Desk {
    session: Session,
    console: Console,
    editor: Option<Reedline>,
    tty: File,
    env: Env,
    /// The receiver of keys between questions.
    idle: KeysTo,
    /// The question that others may answer, too.
    elsewhere: Option<Arc<Elsewhere>>,
}

impl Desk {
    /// Takes the terminal into use. From then on descriptor 0 belongs to its editor.
    pub(in crate::cli) fn at(tty: File, manner: &Manner) -> io::Result<Self> {
        let session = Session::without_shell(tty.try_clone()?.into())?;
        let console = Console::on(manner.options, Arc::new(tty.try_clone()?));
        let highlighter = DrawnSignal(session.handle());
        let editor = manner
            .can_edit
            .then(|| Reedline::create().use_bracketed_paste(true).with_highlighter(Box::new(highlighter)));
        let idle = if manner.listens && manner.can_edit { KeysTo::Cancel } else { KeysTo::Shell };
        let desk = Self { session, console, editor, tty, env: manner.env.clone(), idle, elsewhere: None };
        desk.rest();
        Ok(desk)
    }

    /// Sets where else the next question can be answered.
    pub(super) fn ask_elsewhere(&mut self, elsewhere: Option<Arc<Elsewhere>>) {
        self.elsewhere = elsewhere;
    }

    /// Notes that no question is open any more: Ctrl-C stops the running work.
    pub(in crate::cli) fn rest(&self) {
        self.session.keys_to(self.idle);
    }

    /// Reads a line that begins with `text`; `None` at the end of the input, `Some(None)` if Ctrl-C cancelled it.
    pub(in crate::cli) fn line(&mut self, label: &str, text: &str) -> io::Result<Option<Option<String>>> {
        let Some(editor) = &mut self.editor else {
            // Keys typed as soon as the label appears must reach the read below.
            self.lend();
            self.console.write(label);
            let mut line = String::new();
            if BufReader::new(&self.tty).read_line(&mut line)? == 0 {
                self.console.line("");
                return Ok(None);
            }
            return Ok(Some(Some(line.trim_end_matches(['\n', '\r']).to_owned())));
        };
        editor.run_edit_commands(&[EditCommand::Clear, EditCommand::InsertString(text.to_owned())]);
        self.session.keys_to(KeysTo::Editor);
        let signal = editor.read_line(&Label(label));
        self.session.editor_ended();
        Ok(match signal? {
            Signal::Success(line) => Some(Some(line)),
            Signal::CtrlD => None,
            _ => Some(None),
        })
    }

    /// Lends the terminal, and waits until this program has stopped reading it.
    fn lend(&self) {
        self.session.keys_to(KeysTo::Shell);
        while self.session.pending_event().is_some() {}
        self.session.handle().nudge();
        while !matches!(self.session.next_event(), Event::Nudged | Event::Hangup) {}
    }
}

impl Drop for Desk {
    fn drop(&mut self) {
        self.session.close();
    }
}

impl Asking for Desk {
    type Hangup = ();

    fn session(&self) -> &Session {
        &self.session
    }

    fn console(&self) -> &Console {
        &self.console
    }

    fn env(&self) -> &Env {
        &self.env
    }

    fn happened(&mut self, event: Event) -> Result<(), ()> {
        if matches!(event, Event::Hangup) { Err(()) } else { Ok(()) }
    }

    fn write_line(&mut self, label: &str, text: &str) -> Result<Option<String>, ()> {
        // Text typed earlier mustn't submit it.
        self.session.keys_to(KeysTo::HoldFresh);
        self.line(label, text).map(Option::flatten).map_err(|_| ())
    }

    fn open_in_editor(&mut self, path: &Path) -> Result<Option<i32>, ()> {
        let program = editor_program(&self.env);
        let mut words = shlex::split(&program).unwrap_or_default().into_iter();
        let Some(first) = words.next() else {
            self.console.notice("VISUAL or EDITOR can't be read as a command");
            return Ok(None);
        };
        self.lend();
        let stream = || self.tty.try_clone().map_or_else(|_| Stdio::null(), Stdio::from);
        let mut command = Command::new(&first);
        let ended = command.args(words).arg(path).stdin(stream()).stdout(stream()).stderr(stream()).status();
        self.session.keys_to(KeysTo::Hold);
        match ended {
            Ok(status) => {
                use std::os::unix::process::ExitStatusExt;
                Ok(Some(status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or_default())))
            }
            Err(error) => {
                self.console.notice(&format!("{first} can't be started: {error}"));
                Ok(None)
            }
        }
    }

    fn has_shell(&self) -> bool {
        false
    }

    fn elsewhere(&self) -> Option<Arc<Elsewhere>> {
        self.elsewhere.clone()
    }
}

/// Reports to the keyboard each time that the editor has drawn itself.
struct DrawnSignal(Handle);

impl Highlighter for DrawnSignal {
    fn highlight(&self, line: &str, _: usize) -> StyledText {
        self.0.editor_drawn();
        let mut styled = StyledText::new();
        let shown = line.chars().map(|c| if c.is_ascii_control() && c != '\n' && c != '\t' { '?' } else { c });
        styled.push((nu_ansi_term::Style::new(), shown.collect()));
        styled
    }
}

/// A prompt of one word.
struct Label<'a>(&'a str);

impl Prompt for Label<'_> {
    fn render_prompt_left(&self) -> Cow<'_, str> {
        "".into()
    }

    fn render_prompt_right(&self) -> Cow<'_, str> {
        "".into()
    }

    fn render_prompt_indicator(&self, _: PromptEditMode) -> Cow<'_, str> {
        self.0.into()
    }

    fn render_prompt_multiline_indicator(&self) -> Cow<'_, str> {
        "… ".into()
    }

    fn render_prompt_history_search_indicator(&self, search: PromptHistorySearch) -> Cow<'_, str> {
        format!("({}) ", search.term).into()
    }
}
