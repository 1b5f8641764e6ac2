//! The loop: reads a line, decides, does it, and takes what the shell says meanwhile.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, TryLockError};
use std::time::Duration;

use reedline::{EditCommand, Reedline, Signal};

use super::channel::Shell;
use super::configure::Configured;
use super::cost::Spending;
use super::editor::Shape;
use super::goal::Goals;
use super::hooks::{KEY_COMMAND, SharedHooks};
use super::keys::{FLIP, OPEN, SHELL_KEY, WAKE};
use super::line::Links;
use super::memory::Memories;
use super::programs::{ProgramsThread, first_names};
use super::prompt::{Facts, Heading, ReedPrompt, Who, split_titles, with_tilde};
use super::route::Failed;
use super::state::{EditorState, SharedState};
use super::tooling::Tooling;
use super::writer::{Ticket, WRITE_AFTER, Writer, WriterThread};
use super::{editor, state};
use crate::app::{Runtime, make_title};
use crate::config::{HookContext, PromptStyle, Told};
use crate::console::Console;
use crate::host;
use crate::manual::Manual;
use crate::ops::commands::has_row_of_its_own;
use crate::project::{Head, Repository};
use crate::proto::{CommandOutcome, Failure, HumanLine, LineKind, ModelCommand, Route, RouteVerdict};
use crate::route::ends_with_question;
use crate::shell::session::KeysTo;
use crate::shell::spawn::Dialect;
use crate::shell::supervise::Ending;
use crate::shell::{Event, Session, ShellPrompt};
use crate::store::{Entry, Store};
use crate::turn;

/// Whether the loop goes on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Flow {
    Continue,
    End(Ending),
}

/// The prompt's loop.
pub(super) struct Repl {
    /// Has questions answered.
    pub(super) runtime: Runtime,
    /// Draws answers.
    pub(super) channel: Shell,
    pub(super) session: Session,
    pub(super) console: Console,
    pub(super) state: SharedState,
    pub(super) deferred: VecDeque<Event>,
    /// Commands of the last answer that are still to be offered.
    pub(super) proposals: VecDeque<ModelCommand>,
    pub(super) proposals_total: usize,
    /// The last answer, raw, as far as it came.
    pub(super) last_answer: String,
    pub(super) tooling: Tooling,
    /// The run towards a goal.
    pub(super) goals: Goals,
    /// Answers where no model does.
    pub(super) manual: Manual,
    /// What it came to, and what the model thought before it.
    pub(super) spending: Spending,
    pub(super) last: Option<(String, RouteVerdict)>,
    /// The last command that failed.
    pub(super) failed: Option<Failed>,
    pub(super) editor: Reedline,
    /// What the editor's keys and menus know together.
    pub(super) links: Links,
    pub(super) heading: Heading,
    pub(super) configured: Configured,
    pub(super) hooks: SharedHooks,
    pub(super) memories: Memories,
    pub(super) home: Option<PathBuf>,
    status: i32,
    environment: String,
    /// How long the last command took, in milliseconds.
    duration_ms: u64,
    /// The last line was a command, and took so long.
    took: Option<Duration>,
    who: Who,
    /// The directory that the hooks were told of last.
    told_cwd: PathBuf,
    pub(super) shell_prompt: Option<ShellPrompt>,
    /// The shell has read its start-up files.
    ready: bool,
    /// The shell has told its names.
    named: bool,
    /// Its names and the programs on its `PATH` are known, so that a first word can be judged.
    resolves: bool,
    /// A start-up file has written a part of a line, as one does that asks.
    start_asks: bool,
    programs: ProgramsThread,
    pub(super) history: WriterThread,
    /// The line in the editor is a proposal that the person edits.
    editing_proposal: bool,
    /// The rows of the prompt and the line entered last.
    drawn_rows: Option<usize>,
    /// How the command in the foreground ended.
    finished: Option<Finished>,
}

/// What a person without a model is told, in one line.
pub(super) const NO_MODEL: &str = "No model set up yet. Run \":onboard\" to find one; everything else works as usual.";

/// How the line in the shell ended.
enum Finished {
    Outcome(CommandOutcome),
    Incomplete,
}

/// What is known before the shell has told anything.
fn first_state(runtime: &Runtime, hooks: &SharedHooks) -> EditorState {
    let known = runtime.settings().shell.known_commands.iter().cloned().collect();
    EditorState {
        names: Arc::new(crate::proto::Names { known, ..first_names() }),
        other_grammar: runtime
            .settings()
            .shell
            .program
            .as_deref()
            .is_some_and(|program| Dialect::of(program) != Some(Dialect::Bash)),
        cwd: host::working_directory(),
        home: runtime.variable("HOME").map(PathBuf::from),
        first_path: runtime.env().get(std::ffi::OsStr::new("PATH")).cloned(),
        route_hook: hooks.route_hook(),
        mode: runtime.settings().route.mode,
        session: host::now_unix_ms(),
        host: host::host_name(),
        ..EditorState::default()
    }
}

/// Exit code after the terminal has gone: 128 + SIGHUP.
const HUNG_UP: i32 = 129;

impl Repl {
    /// Puts the loop together.
    pub(super) fn new(channel: Shell, mut runtime: Runtime, session: Session, console: Console) -> Self {
        let hooks = SharedHooks::default();
        let configured = Configured::new(runtime.config_mut(), &hooks);
        let home = runtime.variable("HOME").map(PathBuf::from);
        let state = first_state(&runtime, &hooks);
        let state = SharedState::new(state.into());
        let programs = ProgramsThread::start(SharedState::clone(&state), session.handle());
        programs.refresh(runtime.env().get(std::ffi::OsStr::new("PATH")).cloned());
        let links = Links { pump: Some(session.handle()), ..Links::default() };
        let heading = Heading::new(runtime.settings().route.words);
        let writer = Writer::new(Arc::clone(runtime.store()));
        let editor = editor::make(&Shape::of(&runtime, &hooks), &state, &heading, &session.handle(), &writer, &links);
        super::leftover::look(&runtime, channel.clone(), session.handle());
        let who = Who::of(runtime.env());
        let manual = Manual::new(crate::app::manual_options(runtime.env()));
        let repl = Self {
            runtime,
            channel,
            session,
            console,
            state,
            deferred: VecDeque::new(),
            proposals: VecDeque::new(),
            proposals_total: 0,
            last_answer: String::new(),
            tooling: Tooling::default(),
            goals: Goals::default(),
            manual,
            spending: Spending::default(),
            last: None,
            failed: None,
            editor,
            links,
            heading,
            configured,
            hooks,
            memories: Memories::default(),
            home,
            status: 0,
            environment: String::new(),
            duration_ms: 0,
            took: None,
            who,
            told_cwd: host::working_directory(),
            shell_prompt: None,
            ready: false,
            named: false,
            resolves: false,
            start_asks: false,
            programs,
            history: WriterThread::start(writer),
            editing_proposal: false,
            drawn_rows: None,
            finished: None,
        };
        repl.runtime.problems().iter().for_each(|problem| repl.console.failure(problem));
        repl.tell_config();
        if repl.runtime.agent().models().is_empty() {
            repl.console.notice(NO_MODEL);
        }
        repl
    }

    /// Runs until the shell ends or the terminal goes.
    pub(super) fn run(mut self) -> Ending {
        let ending = loop {
            if let Flow::End(ending) = self.step() {
                break ending;
            }
        };
        self.leave_goal();
        self.note_ended();
        // At the end, where nobody waits. It fails where adding a line fails too, which has been told.
        let entries_max = u64::try_from(self.runtime.settings().history.entries_max).unwrap_or(u64::MAX);
        let _ = self.store().prune(entries_max);
        self.session.close();
        let store = Arc::clone(self.runtime.store());
        drop(self);
        store.lock().unwrap_or_else(PoisonError::into_inner).finish();
        ending
    }

    fn step(&mut self) -> Flow {
        let mut flow = self.take_pending(None);
        if flow == Flow::Continue && self.start_asks {
            flow = self.wait_for_names();
        }
        let is_fresh = flow == Flow::Continue && self.configured.project.take_due();
        if is_fresh {
            flow = self.look_for_project();
            // A file that asks for the shell's own prompt has it drawn.
            if flow == Flow::Continue {
                flow = self.take_pending(None);
            }
        }
        if flow != Flow::Continue {
            return flow;
        }
        self.tell_store_problem();
        self.tell_beside(None);
        self.take_memory();
        if is_fresh {
            self.tell_directory();
        }
        let prompt = self.make_prompt();
        if is_fresh {
            self.tell_hook_failures();
        }
        let signal = self.read_line(&prompt);
        match signal {
            Ok(Signal::Success(line)) => {
                self.drawn_rows = Some(prompt.rows(&line, self.console.width_columns()));
                self.line(&line)
            }
            Ok(Signal::CtrlC) => {
                self.proposals.clear();
                self.editing_proposal = false;
                self.set_forced(None);
                self.status = 130;
                Flow::Continue
            }
            Ok(Signal::CtrlD) => self.end_of_file(),
            Ok(Signal::HostCommand(command)) if command == FLIP => {
                self.flip();
                Flow::Continue
            }
            Ok(Signal::HostCommand(command)) if command == OPEN => self.edit_line(&prompt),
            Ok(Signal::HostCommand(command)) if command.starts_with(SHELL_KEY) => {
                self.press_in_shell(&command[SHELL_KEY.len()..], "")
            }
            Ok(Signal::HostCommand(command)) if command == WAKE => {
                self.session.woken();
                if self.shell_completes() {
                    return self.press_in_shell("\\C-i", "");
                }
                if state::read(&self.state).asks_about_failure(self.editor.current_buffer_contents()) {
                    self.editor.run_edit_commands(&[EditCommand::Clear]);
                    return self.ask_about_failure();
                }
                self.take_pending(Some(&prompt))
            }
            Ok(Signal::HostCommand(command)) if command.starts_with(KEY_COMMAND) => {
                self.key_pressed(&command[KEY_COMMAND.len()..], &prompt)
            }
            Ok(_) => self.take_pending(Some(&prompt)),
            Err(error) => Flow::End(Ending::NotStarted(format!("the line editor can't read the terminal: {error}"))),
        }
    }

    pub(super) fn read_line(&mut self, prompt: &ReedPrompt) -> std::io::Result<Signal> {
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

    /// Sends the line in the editor the other way; once more, back to what the rules say.
    fn flip(&mut self) {
        let mut state = self.state.write().unwrap_or_else(PoisonError::into_inner);
        state.forced = match state.forced {
            Some(_) => None,
            None => match state.verdict(self.editor.current_buffer_contents()).route {
                Route::Ask => Some(Route::Shell),
                _ => Some(Route::Ask),
            },
        };
    }

    fn set_forced(&self, route: Option<Route>) {
        self.state.write().unwrap_or_else(PoisonError::into_inner).forced = route;
    }

    /// Does what a line asks for.
    fn line(&mut self, line: &str) -> Flow {
        self.start_servers();
        let flow = self.settle();
        if flow != Flow::Continue {
            return flow;
        }
        self.took = None;
        let verdict = state::read(&self.state).verdict(line);
        self.set_forced(None);
        self.configured.project.line_done();
        let was_edited = std::mem::take(&mut self.editing_proposal);
        let hidden = line.starts_with(' ') && self.runtime.settings().history.ignore_space;
        let settled = if was_edited { Ok(Some(verdict)) } else { self.settle_route(line, verdict, hidden) };
        let verdict = match settled {
            Ok(Some(verdict)) => verdict,
            Ok(None) => return Flow::Continue,
            Err(flow) => return flow,
        };
        let flow = match verdict.route {
            Route::Empty | Route::Confirm => Flow::Continue,
            Route::Meta => {
                if !has_row_of_its_own(&verdict.text) {
                    self.remember(&self.kept_meta(line, &verdict.text), LineKind::Meta);
                }
                let before = self.last.take();
                let flow = self.meta(&verdict.text, hidden, before.as_ref());
                // `:why` is about the line before.
                self.last = before;
                flow
            }
            Route::Shell => {
                self.last = Some((line.to_owned(), verdict.clone()));
                self.run_command(&HumanLine::typed(verdict.text), !hidden)
            }
            Route::Ask => {
                self.last = Some((line.to_owned(), verdict.clone()));
                self.ask(Some(line), &verdict.text)
            }
        };
        if was_edited && flow == Flow::Continue { self.offer_proposals() } else { flow }
    }

    /// Waits until lines can be judged and run, which is so from the first one on.
    pub(super) fn settle(&mut self) -> Flow {
        if self.resolves { Flow::Continue } else { self.wait_for_names() }
    }

    /// Waits until the shell has read its start-up files. The keys are the shell's meanwhile, for a file that asks.
    fn wait_for_names(&mut self) -> Flow {
        self.session.keys_to(KeysTo::Shell);
        while !(self.named && self.programs.is_fresh()) {
            let event = self.session.next_event();
            let flow = self.take_event(event, None);
            if flow != Flow::Continue {
                return flow;
            }
        }
        self.start_asks = false;
        self.resolves = true;
        self.session.keys_to(KeysTo::Hold);
        Flow::Continue
    }

    /// Runs a command in the live shell and waits until it has ended.
    pub(super) fn run_command(&mut self, line: &HumanLine, keep: bool) -> Flow {
        self.run_kept(line, keep.then_some(line.text()))
    }

    /// The same; `kept` is what the history keeps, where it keeps the line at all.
    pub(super) fn run_kept(&mut self, line: &HumanLine, kept: Option<&str>) -> Flow {
        let keep = kept.is_some();
        let want_names = self.may_change_names(line.text());
        let submitted = self.session.submit(line, want_names);
        let row = kept.and_then(|kept| self.remember(kept, line.kind()));
        if let Err(error) = submitted {
            self.console.failure(&Failure {
                kind: crate::proto::FailureKind::User,
                message: format!("the line can't be handed to the shell: {error}"),
                hint: String::new(),
            });
            return Flow::Continue;
        }
        self.finished = None;
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
                    self.command_ended(&outcome, row, keep, want_names);
                    return Flow::Continue;
                }
                Some(Finished::Incomplete) => {
                    if let Some(row) = row {
                        self.history.delete(row);
                    }
                    // The editor draws it anew, with one more row, where it stands.
                    if let Some(rows) = self.drawn_rows.take() {
                        self.console.raw(format!("\x1b[{rows}A\r\x1b[J").as_bytes());
                    }
                    self.editor.run_edit_commands(&[EditCommand::InsertString(format!("{}\n", line.text()))]);
                    return Flow::Continue;
                }
            }
        }
    }

    fn command_ended(&mut self, outcome: &CommandOutcome, row: Option<Ticket>, keep: bool, names: bool) {
        self.status = outcome.status;
        self.environment.clone_from(&outcome.environment);
        self.configured.project.line_done();
        self.took = Some(outcome.duration);
        self.duration_ms = u64::try_from(outcome.duration.as_millis()).unwrap_or(u64::MAX);
        self.note_failure(outcome, keep);
        if let Some(cwd) = &outcome.cwd {
            self.state.write().unwrap_or_else(PoisonError::into_inner).cwd.clone_from(cwd);
            self.runtime.stand_in(cwd.clone());
        }
        self.tooling.last_outcome = Some(outcome.clone());
        if let Some(row) = row {
            self.history.note(row, outcome.status, self.duration_ms, host::now_unix_ms());
        }
        if keep && self.runtime.settings().shell.capture_output {
            self.runtime.agent_mut().note_outcome(outcome);
        }
        if names || outcome.duration.as_millis() > 200 {
            // A program may have been installed.
            self.programs.refresh(None);
        }
        if keep {
            self.show_to_agents(outcome);
            self.tell_hooks(Told::Command(outcome));
        }
    }

    /// Tells the hooks of a new working directory, a project's among them.
    fn tell_directory(&mut self) {
        let cwd = state::read(&self.state).cwd.clone();
        if cwd != self.told_cwd {
            let path = cwd.display().to_string();
            self.told_cwd = cwd;
            self.tell_hooks(Told::Directory(&path));
        }
    }

    /// Whether a line may change what the shell resolves: anything but one plain program, or a builtin that only looks.
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
        !(plain && harmless)
    }

    /// Asks the model, and offers the commands that it proposes; `line` is what the history keeps.
    pub(super) fn ask(&mut self, line: Option<&str>, question: &str) -> Flow {
        if let Some(line) = line {
            // It is sent, so it is kept as it is sent.
            self.remember(&self.runtime.agent().redacted(line), LineKind::Question);
        }
        self.proposals.clear();
        self.refresh_tools();
        if let Some(runner) = self.runtime.agent_mut().runner() {
            runner.look_ahead();
        }
        self.pause_memory();
        if let Flow::End(ending) = self.look_for_model() {
            return Flow::End(ending);
        }
        let reply = match self.answer(question) {
            Ok(reply) => reply,
            Err(flow) => return flow,
        };
        if reply.is_unanswered {
            return self.answer_without_model(question);
        }
        self.state.write().unwrap_or_else(PoisonError::into_inner).model_asked = ends_with_question(&reply.text);
        if reply.whole {
            make_title(self.runtime.agent(), self.runtime.store());
            self.catch_up_memory();
            self.tell_hooks(Told::Answer(&reply.text));
            let (commands, dropped) = turn::proposals(&reply.text);
            dropped.iter().for_each(|notice| self.console.notice(notice));
            self.proposals_total = commands.len();
            self.proposals = commands.into();
        }
        self.keep_spending(reply.spent.as_ref(), reply.thoughts);
        self.last_answer = reply.text;
        self.offer_proposals()
    }

    /// Puts a proposal into the editor; what comes back is the person's own line.
    pub(super) fn edit_next(&mut self, text: &str) {
        self.editor.run_edit_commands(&[EditCommand::Clear, EditCommand::InsertString(text.to_owned())]);
        self.set_forced(Some(Route::Shell));
        self.editing_proposal = true;
    }

    fn end_of_file(&mut self) -> Flow {
        let flow = self.settle();
        if flow != Flow::Continue {
            return flow;
        }
        self.session.end_of_file();
        self.finished = None;
        while self.finished.is_none() {
            let event = self.session.next_event();
            let flow = self.take_event(event, None);
            if flow != Flow::Continue {
                return flow;
            }
        }
        Flow::Continue
    }

    pub(super) fn take_pending(&mut self, editing: Option<&ReedPrompt>) -> Flow {
        let mut output = Vec::new();
        while let Some(event) = self.deferred.pop_front().or_else(|| self.session.pending_event()) {
            if let Event::Output(bytes) = event {
                output.extend_from_slice(&bytes);
                continue;
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
    pub(super) fn take_event(&mut self, event: Event, editing: Option<&ReedPrompt>) -> Flow {
        match event {
            Event::Ready => self.ready = true,
            Event::Names(names, path) => self.take_names(*names, path),
            // One that was drawn before a project's file was left isn't wanted any more.
            Event::Prompt(_) if self.runtime.settings().prompt != PromptStyle::Shell => {}
            Event::Prompt(rendered) => {
                let (left, titles) = split_titles(&rendered.left);
                self.console.raw(titles.as_bytes());
                let (right, more) = (split_titles(&rendered.right).0, split_titles(&rendered.more).0);
                self.shell_prompt = Some(ShellPrompt { left, right, more });
            }
            Event::Output(bytes) => self.show_above(&bytes, editing),
            Event::Finished(outcome) => self.finished = Some(Finished::Outcome(outcome)),
            Event::Incomplete => self.finished = Some(Finished::Incomplete),
            Event::Replaced(None) => {}
            Event::Replaced(Some(row)) => {
                self.console.raw(b"\r\x1b[K");
                self.console
                    .notice("the shell was replaced (exec): keys and output pass straight through until it ends");
                // The prompt that stood there stands under it.
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
        let mut state = self.state.write().unwrap_or_else(PoisonError::into_inner);
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

    /// Shows output above the line that is being edited, which is then drawn again below. reedline draws over whatever
    /// lies in the two rows from the prompt's start, so output of one line leaves the old prompt, or a blank, above it.
    pub(super) fn show_above(&mut self, bytes: &[u8], editing: Option<&ReedPrompt>) {
        if let Some(prompt) = editing {
            let buffer = self.editor.current_buffer_contents();
            let columns = self.console.width_columns();
            let short = memchr::memchr_iter(b'\n', bytes).count() < 2;
            match prompt.rows_below_cursor(buffer, self.editor.current_insertion_point(), columns) {
                None if !short => self.console.raw(b"\r\x1b[J"),
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
            }
        }
    }

    fn make_prompt(&self) -> ReedPrompt {
        let (color, unicode) = (self.console.options().color, self.console.options().unicode);
        let console = &self.runtime.settings().console;
        let facts = |cwd: &Path| {
            let branch = Repository::find(cwd).and_then(|repository| repository.head());
            Facts {
                environment: crate::render::sanitise(&self.environment).into_owned(),
                directory: with_tilde(cwd, self.home.as_deref()),
                branch: branch
                    .map(|head| match head {
                        Head::Branch(name) | Head::Detached(name) => crate::render::sanitise(&name).into_owned(),
                    })
                    .into_iter()
                    .chain(self.session_mark(unicode))
                    .chain(self.goal_mark(unicode))
                    .reduce(|branch, session| format!("{branch} {session}")),
                status: self.status,
                took: self.took.filter(|took| console.duration_s > 0 && took.as_secs() >= console.duration_s),
                who: Some(&self.who).filter(|who| who.is_shown(console.who)).cloned(),
                model: self.runtime.agent().current_model().map(str::to_owned),
            }
        };
        let cwd = state::read(&self.state).cwd.clone();
        let prompt = match &self.shell_prompt {
            Some(rendered) => ReedPrompt::from_shell(rendered, self.heading.clone(), color, unicode),
            None => ReedPrompt::from_facts(&facts(&cwd), self.heading.clone(), color, unicode)
                .with_texts(None, self.edge_text()),
        };
        self.hooks.decorate(prompt, || {
            let Facts { directory, branch, status, model, .. } = facts(&cwd);
            let (path, duration_ms) = (cwd.display().to_string(), self.duration_ms);
            let columns = self.console.width_columns();
            HookContext { path, directory, branch, status, duration_ms, model, columns, line: None }
        })
    }

    /// Keeps a line in the history, unless it begins with a space.
    pub(super) fn remember(&mut self, line: &str, kind: LineKind) -> Option<Ticket> {
        let hidden = self.runtime.settings().history.ignore_space && line.starts_with(' ');
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
    pub(super) fn store(&self) -> std::sync::MutexGuard<'_, Store> {
        self.history.writer().store()
    }

    fn tell_store_problem(&self) {
        // While a line is being written the prompt doesn't wait: a problem of it is told at the next one.
        let problem = match self.runtime.store().try_lock() {
            Ok(mut store) => store.take_problem(),
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner().take_problem(),
            Err(TryLockError::WouldBlock) => None,
        };
        if let Some(problem) = problem {
            self.console.failure(&problem.into());
        }
    }
}
