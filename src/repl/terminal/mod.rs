//! The terminal of a session, with its live shell and its line editor: runs commands, takes events, writes the history.
//! It must not know the agent, so that an answer can borrow the agent while the terminal goes on.

mod asking;
mod attended;
mod goals;

use parking_lot::{Mutex, MutexGuard};
use std::collections::VecDeque;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use reedline::{EditCommand, Reedline, Signal};

use super::hooks::SharedHooks;
use super::keys::{self, Wanted};
use super::line::Links;
use crate::config::{EditorSettings, Env, HookEvent, PromptStyle, Settings};
use crate::console::Console;
use crate::host;
use crate::ops::routes;
use crate::proto::{CommandOutcome, Failure, HumanLine, LineKind, Route};
use crate::render::text::{escape_visible, wrap};
use crate::repl::editing::editor;
use crate::repl::editing::programs::ProgramsThread;
use crate::repl::editing::prompt::{Heading, ReedPrompt, split_titles};
use crate::repl::editing::slots::tell_heading;
use crate::repl::editing::state::{self, Learned, SharedState};
use crate::repl::editing::writer::{Ticket, WRITE_AFTER, WriterThread};
use crate::repl::rules::sharing::Sharing;
use crate::shell::session::KeysTo;
use crate::shell::supervise::Ending;
use crate::shell::{Asked, Event, Session, ShellPrompt};
use crate::store::{Entry, Store};

pub(super) use goals::Goals;

/// Time limit for the shell's reply about the value of a variable.
const VALUE_WAIT: Duration = Duration::from_secs(1);
/// Editors that are tried if no variable names one.
const EDITORS: [&str; 2] = ["sensible-editor", "vi"];
/// Exit code after the terminal has gone: 128 + SIGHUP.
const HUNG_UP: i32 = 129;

/// The decision whether the loop goes on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Flow {
    Continue,
    End(Ending),
}

/// Lines that came beside an answer, for the next prompt.
#[derive(Clone, Default)]
pub(super) struct Beside(Arc<Mutex<Vec<String>>>);

impl Beside {
    /// Adds a line.
    pub(super) fn push(&self, line: String) {
        self.0.lock().push(line);
    }

    /// Takes the lines.
    pub(super) fn take(&self) -> Vec<String> {
        std::mem::take(&mut *self.0.lock())
    }
}

/// The settings that the terminal needs itself.
pub(super) struct Options {
    editor: EditorSettings,
    /// True if the prompt is the shell's own.
    shell_prompt: bool,
    /// True if a line that begins with a space stays out of the history.
    ignore_space: bool,
}

impl Options {
    /// The options of these settings.
    pub(super) fn of(settings: &Settings) -> Self {
        Self {
            editor: settings.editor.clone(),
            shell_prompt: settings.prompt == PromptStyle::Shell,
            ignore_space: settings.history.ignore_space,
        }
    }
}

/// The terminal of a session.
pub(super) struct Terminal {
    pub(super) options: Options,
    pub(super) env: Env,
    pub(super) session: Session,
    pub(super) console: Console,
    pub(super) state: SharedState,
    pub(super) beside: Beside,
    /// The session as others see it.
    pub(super) sharing: Sharing,
    pub(super) hooks: SharedHooks,
    pub(super) heading: Heading,
    pub(super) editor: Reedline,
    /// The state that the editor's keys and menus share.
    pub(super) links: Links,
    pub(super) programs: ProgramsThread,
    pub(super) history: WriterThread,
    /// The runs towards goals.
    pub(super) goals: Goals,
    /// Events that came while only some were taken.
    pub(super) deferred: VecDeque<Event>,
    /// The status of the last command.
    pub(super) status: i32,
    pub(super) environment: String,
    /// The duration of the last command, in milliseconds.
    pub(super) duration_ms: u64,
    /// The duration of the last line, if it was a command.
    pub(super) took: Option<Duration>,
    pub(super) shell_prompt: Option<ShellPrompt>,
    /// True if the shell has read its start-up files.
    pub(super) ready: bool,
    /// True if the shell has reported its names.
    pub(super) named: bool,
    /// True if a start-up file has written a part of a line, as one does that asks.
    pub(super) start_asks: bool,
    /// True if a new editor must be made, so that it doesn't draw over a row of a start-up file.
    pub(super) is_editor_stale: bool,
    /// The rows of the prompt and the line that was entered last.
    pub(super) drawn_rows: Option<usize>,
    /// True if the cursor is certainly in the first column: nothing has run yet, or a line was entered and ran as a command
    /// that left it there.
    pub(super) first_column: bool,
    /// The end of the command in the foreground.
    pub(super) finished: Option<Finished>,
    /// The outcome of the last command, until it is taken.
    pub(super) last_outcome: Option<CommandOutcome>,
}

/// The end of a line in the shell.
pub(super) enum Finished {
    /// Ran.
    Outcome(CommandOutcome),
    /// Incomplete and returns to the editor.
    Incomplete,
}

impl Terminal {
    /// Runs a command in the live shell and waits until it has ended.
    pub(in crate::repl) fn run_command(&mut self, line: &HumanLine, keep: bool) -> Flow {
        self.run_recorded(line, keep.then_some(line.text()))
    }

    /// Runs a command like [`Self::run_command`]; `record` is its line for the history, if the history stores it at all.
    pub(in crate::repl) fn run_recorded(&mut self, line: &HumanLine, record: Option<&str>) -> Flow {
        let want_names = self.may_change_names(line.text());
        // Those who watch see the line before its output, even if the shell is faster than this thread.
        self.sharing.line(line.text(), Route::Shell, record.is_none());
        let submitted = self.session.submit(line, want_names);
        let row = record.and_then(|record| self.remember(record, line.kind()));
        if let Err(error) = submitted {
            self.console.failure(&Failure::user(format!("the line can't be handed to the shell: {error}")));
            return Flow::Continue;
        }
        (self.finished, self.last_outcome) = (None, None);
        // The disk is written while the command runs, unless it has ended by then.
        let mut event = self.session.next_event_within(WRITE_AFTER);
        if event.is_none() {
            self.history.wake();
        }
        loop {
            let event = event.take().unwrap_or_else(|| self.session.next_event());
            let flow = self.take_event(event, None);
            if flow != Flow::Continue {
                return flow;
            }
            match self.finished.take() {
                None => {}
                Some(Finished::Outcome(outcome)) => {
                    self.command_ended(outcome, row, want_names);
                    return Flow::Continue;
                }
                Some(Finished::Incomplete) => {
                    if let Some(row) = row {
                        self.history.delete(row);
                    }
                    // The editor draws the line again in the same place, with one more row.
                    if let Some(rows) = self.drawn_rows.take() {
                        self.console.raw(format!("\x1b[{rows}A\r\x1b[J").as_bytes());
                    }
                    self.editor.run_edit_commands(&[EditCommand::InsertString(format!("{}\n", line.text()))]);
                    return Flow::Continue;
                }
            }
        }
    }

    /// Reports a Ctrl-C at the prompt to the shell, for its status, traps and hooks.
    pub(in crate::repl) fn interrupt(&mut self) -> Flow {
        self.session.interrupt();
        (self.finished, self.last_outcome) = (None, None);
        let outcome = loop {
            let event = self.session.next_event();
            let flow = self.take_event(event, None);
            if flow != Flow::Continue {
                return flow;
            }
            match self.finished.take() {
                None => {}
                Some(Finished::Incomplete) => return Flow::Continue,
                Some(Finished::Outcome(outcome)) => break outcome,
            }
        };
        self.line_ended(&outcome);
        self.last_outcome = Some(outcome);
        Flow::Continue
    }

    /// Takes over a line that the shell ran for a key, like one that was entered: returns its end, and whether the
    /// history stores it.
    pub(in crate::repl) fn line_of_key_ended(&mut self) -> Option<(CommandOutcome, bool)> {
        let Some(Finished::Outcome(outcome)) = self.finished.take() else { return None };
        let row = self.remember(&outcome.command, LineKind::Command);
        let is_kept = row.is_some();
        self.sharing.line(&outcome.command, Route::Shell, !is_kept);
        self.command_ended(outcome, row, true);
        self.last_outcome.take().map(|outcome| (outcome, is_kept))
    }

    /// Takes over the facts about the end of a line that the prompt shows.
    fn line_ended(&mut self, outcome: &CommandOutcome) {
        self.status = outcome.status;
        self.environment.clone_from(&outcome.environment);
        if let Some(cwd) = &outcome.cwd {
            self.state.write().cwd.clone_from(cwd);
        }
    }

    fn command_ended(&mut self, outcome: CommandOutcome, row: Option<Ticket>, names: bool) {
        self.sharing.command_ended(&outcome);
        self.line_ended(&outcome);
        self.took = Some(outcome.duration);
        self.duration_ms = u64::try_from(outcome.duration.as_millis()).unwrap_or(u64::MAX);
        if let Some(row) = row {
            self.history.note(row, outcome.status, self.duration_ms, host::now_unix_ms());
        }
        if names || outcome.duration.as_millis() > 200 {
            // A program may have been installed.
            self.programs.refresh(None);
        }
        self.last_outcome = Some(outcome);
    }

    /// Returns whether a line may change what the shell resolves: anything but one plain program, or a builtin that
    /// only looks.
    fn may_change_names(&self, line: &str) -> bool {
        const LOOKING: [&str; 10] = [":", "[", "dirs", "echo", "false", "jobs", "pwd", "test", "true", "type"];
        let first = line.split_whitespace().next().unwrap_or_default();
        let state = state::read(&self.state);
        let plain = !line.contains([';', '|', '&', '(', ')', '{', '}', '=', '`', '$', '\n']);
        let harmless = match state.names.kind(first) {
            Some(crate::proto::NameKind::Program) => true,
            Some(crate::proto::NameKind::Builtin) => LOOKING.contains(&first),
            _ => false,
        };
        !(plain && (harmless || first.is_empty()))
    }

    pub(in crate::repl) fn take_pending(&mut self, editing: Option<&ReedPrompt>) -> Flow {
        let mut output = Vec::new();
        while let Some(event) = self.deferred.pop_front().or_else(|| self.session.pending_event()) {
            if let Event::Output(bytes) = event {
                output.extend_from_slice(&bytes);
                continue;
            }
            // Output before this event comes from the start-up files, and is shown as theirs.
            if matches!(event, Event::Ready) && !output.is_empty() {
                self.show_above(&std::mem::take(&mut output), editing);
            }
            let flow = self.take_event(event, editing);
            if flow != Flow::Continue {
                return flow;
            }
        }
        if !output.is_empty() {
            self.show_above(&output, editing);
        }
        Flow::Continue
    }

    /// Takes an event; `editing` is the prompt of the editor that waits below, if one does.
    pub(in crate::repl) fn take_event(&mut self, event: Event, editing: Option<&ReedPrompt>) -> Flow {
        match event {
            Event::Ready => self.ready = true,
            Event::Names(names, path) => self.take_names(*names, path),
            // A prompt that was drawn before a project's file was left isn't wanted any more.
            Event::Prompt(_) if !self.options.shell_prompt => {}
            Event::Prompt(rendered) => {
                let (left, titles) = split_titles(&rendered.left);
                self.console.raw(titles.as_bytes());
                let (right, more) = (split_titles(&rendered.right).0, split_titles(&rendered.more).0);
                self.shell_prompt = Some(ShellPrompt { left, right, more });
            }
            Event::Output(bytes) => self.show_above(&bytes, editing),
            Event::Finished { outcome, first_column } => {
                self.finished = Some(Finished::Outcome(outcome));
                self.first_column = first_column;
            }
            Event::Incomplete => self.finished = Some(Finished::Incomplete),
            Event::Replaced(None) => {}
            Event::Replaced(Some(row)) => {
                self.console.raw(b"\r\x1b[K");
                self.console
                    .notice("the shell was replaced (exec): keys and output pass straight through until it ends");
                // The prompt that was in this row follows below.
                self.console.raw(&row);
            }
            Event::Ended(status) => return Flow::End(Ending::mirror(status)),
            Event::Hangup => return Flow::End(Ending::Exit(HUNG_UP)),
            Event::Edit(text) => self.editor.run_edit_commands(&[EditCommand::InsertString(text)]),
            Event::Nudged => self.tell_beside(editing),
            Event::Cancel | Event::Keys(..) | Event::Line { .. } => {}
        }
        Flow::Continue
    }

    fn take_names(&mut self, mut names: crate::proto::Names, path: std::ffi::OsString) {
        if !std::mem::replace(&mut self.named, true) {
            self.load_learned();
        }
        let mut state = self.state.write();
        names.programs = Arc::clone(&state.names.programs);
        names.known.clone_from(&state.names.known);
        let other_keys = state.names.keys != names.keys;
        state.names = Arc::new(names);
        drop(state);
        if other_keys {
            self.set_keys();
        }
        self.programs.refresh(Some(path));
    }

    /// Reads what was learned in earlier sessions.
    pub(in crate::repl) fn load_learned(&mut self) {
        let memory = routes::learned(&mut self.store());
        if let Some(memory) = memory {
            self.state.write().learned = Arc::new(Learned::of(memory));
        }
    }

    /// Shows output above the line that is being edited, which is then drawn again below. reedline draws over whatever
    /// lies in the two rows from the prompt's start, so output of one line leaves the old prompt, or a blank, above it.
    pub(in crate::repl) fn show_above(&mut self, bytes: &[u8], editing: Option<&ReedPrompt>) {
        if let Some(prompt) = editing {
            let buffer = self.editor.current_buffer_contents();
            let columns = self.console.width_columns();
            let short = memchr::memchr_iter(b'\n', bytes).count() < 2;
            match prompt.rows_below_cursor(buffer, self.editor.current_insertion_point(), columns) {
                None if !short => self.console.raw(b"\r\x1b[J"),
                // Nothing was typed yet: a new editor draws where the cursor is.
                None if buffer.is_empty() && !self.ready => {
                    self.console.raw(b"\r\x1b[J");
                    self.is_editor_stale = true;
                }
                None if buffer.is_empty() => self.console.raw(b"\r\x1b[J\r\n"),
                None => self.console.raw(b"\r\n"),
                Some(rows) => {
                    if rows > 0 {
                        self.console.raw(format!("\x1b[{rows}B").as_bytes());
                    }
                    self.console.raw(b"\r\n");
                }
            }
        }
        self.console.raw(bytes);
        if !bytes.ends_with(b"\n") {
            if self.ready {
                self.console.raw(b"\r\n");
            } else {
                // It may be a question: the keys are the start-up file's until it has ended.
                self.start_asks = true;
                self.first_column = false;
            }
        }
    }

    /// Shows the lines that arrived beside an answer, above the editor if it waits.
    pub(in crate::repl) fn tell_beside(&mut self, editing: Option<&ReedPrompt>) {
        let mut lines = self.beside.take();
        lines.extend(self.sharing.lost().map(|why| format!("[share] it is over: {why}")));
        let news = self.goals.news(self.history.writer().shared());
        lines.extend(news);
        if lines.is_empty() {
            return;
        }
        let escaped: Vec<String> = lines.iter().map(|line| escape_visible(line)).collect();
        match editing {
            None => escaped.iter().for_each(|line| self.console.notice(line)),
            Some(_) => {
                let columns = self.console.width_columns();
                let rows: Vec<String> = escaped.iter().map(|line| wrap(line, columns, "  ")).collect();
                let text = rows.join("\n").replace('\n', "\r\n");
                self.show_above((text + "\r\n").as_bytes(), editing);
            }
        }
    }

    /// Reports an event to the hooks, and shows their texts.
    pub(in crate::repl) fn tell_hooks(&mut self, event: HookEvent<'_>) {
        for text in self.hooks.tell(event) {
            self.console.notice(&text);
        }
    }

    /// Goes to the first column before the first prompt, on a new row if the cursor is in another one: blanks to the edge wrap
    /// only then. So that prompt needn't wait for the terminal either.
    pub(in crate::repl) fn go_to_first_column(&mut self) {
        let columns = self.console.width_columns();
        self.first_column = columns > 1 && !self.console.options().accessible;
        if self.first_column {
            self.console.raw(format!("{:1$}\r\x1b[K", "", columns - 1).as_bytes());
        }
    }

    /// Shows the next prompt at once after a command, if it is sure to look the same: the editor first asks the
    /// terminal where the cursor is, which takes as long as the link to it, and draws over this.
    pub(in crate::repl) fn show_prompt_early(&mut self, prompt: &ReedPrompt) {
        let sure = std::mem::take(&mut self.first_column)
            && self.session.terminal_answers()
            && !self.console.options().accessible
            && !self.console.is_open()
            && self.editor.current_buffer_contents().is_empty();
        if !sure {
            return;
        }
        let state = state::read(&self.state);
        tell_heading(&self.heading, "", &state.verdict(""), &state);
        drop(state);
        // A terminal may draw some characters wider than they are counted here, so half a row stays free. The editor
        // shows the cursor again when it has drawn itself.
        if prompt.rows("", self.console.width_columns() / 2) == 1 {
            self.console.raw(format!("\x1b[0m\x1b[?25l{}\x1b[0m\r", prompt.drawn()).as_bytes());
            self.session.prompt_shown();
        }
    }

    pub(in crate::repl) fn read_line(&mut self, prompt: &ReedPrompt) -> std::io::Result<Signal> {
        self.first_column = false;
        if self.console.options().keyboard_protocol {
            self.console.raw(b"\x1b[>1u");
        }
        self.session.keys_to(KeysTo::Editor);
        let signal = self.editor.read_line(prompt);
        self.session.editor_ended();
        if self.console.options().keyboard_protocol {
            self.console.raw(b"\x1b[<u");
        }
        signal
    }

    /// Stores a line in the history, unless it begins with a space.
    pub(in crate::repl) fn remember(&mut self, line: &str, kind: LineKind) -> Option<Ticket> {
        let hidden = self.options.ignore_space && line.starts_with(' ') || !state::read(&self.state).keeps(line);
        if hidden || line.trim().is_empty() {
            return None;
        }
        let state = state::read(&self.state);
        let (cwd, session, hostname) = (state.cwd.display().to_string(), state.session, state.host.clone());
        drop(state);
        let ticket = self.history.append(Entry {
            time: host::now_unix_ms(),
            session,
            cwd: Some(cwd),
            hostname,
            line: line.to_owned(),
            kind,
            status: None,
            duration_ms: None,
        });
        // A command has its row written once it has run a while or ended, whichever is first.
        if matches!(kind, LineKind::Meta | LineKind::Question) {
            self.history.wake();
        }
        Some(ticket)
    }

    /// The store, with every line in it.
    pub(in crate::repl) fn store(&self) -> MutexGuard<'_, Store> {
        self.history.writer().store()
    }

    /// Sets the editor's keys from the config and the shell; the line stays as it is.
    pub(in crate::repl) fn set_keys(&mut self) {
        let shell = state::read(&self.state).names.keys.clone();
        let settings = &self.options.editor;
        let wanted = Wanted {
            vi: editor::is_vi(settings, &shell),
            word: editor::word_key(settings),
            hooks: &self.hooks.keys(),
            shell: &shell,
            links: &self.links,
        };
        let mode = keys::edit_mode(&wanted);
        self.session.handle().stop_at(keys::stops(wanted.hooks, &shell));
        let editor = std::mem::replace(&mut self.editor, Reedline::create());
        self.editor = editor.with_edit_mode(mode);
    }

    /// The user's editor: from the live shell's variables, which start-up files set, or an installed one.
    pub(in crate::repl) fn live_editor(&self) -> Option<String> {
        let handle = self.session.handle();
        let value = |name: &str| {
            let found = handle.ask(Asked::Value(format!("${name}")), VALUE_WAIT).into_iter().next();
            found.filter(|value| !value.trim().is_empty())
        };
        let installed = || {
            let programs = &state::read(&self.state).names.programs;
            EDITORS.iter().find(|name| programs.contains(name)).map(|name| (*name).to_owned())
        };
        value("VISUAL").or_else(|| value("EDITOR")).or_else(installed)
    }

    /// The command that opens a file in the user's editor.
    ///
    /// # Errors
    /// Reason why there is none.
    pub(in crate::repl) fn editor_command(&self, path: &Path) -> Result<String, &'static str> {
        let Some(program) = self.live_editor() else {
            return Err("no editor: VISUAL and EDITOR are empty, and neither sensible-editor nor vi is installed");
        };
        let quoted = path.to_str().and_then(|path| shlex::try_quote(path).ok());
        quoted.map(|path| format!("{program} {path}")).ok_or("the file's path can't be written as a command")
    }
}
