//! The loop: reads a line, decides, does it, and takes what the shell says meanwhile.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, TryLockError};

use reedline::{EditCommand, Signal};

use super::channel::Shell;
use super::configure::Configured;
use super::cost::Spending;
use super::editor::Shape;
use super::hooks::{KEY_COMMAND, SharedHooks};
use super::keys::{FLIP, OPEN, SHELL_KEY, TURNS, WAKE};
use super::line::Links;
use super::memory::Memories;
use super::programs::{ProgramsThread, first_names};
use super::prompt::{Facts, Heading, ReedPrompt, Who, with_tilde};
use super::route::Failed;
use super::state::{EditorState, SharedState};
pub(super) use super::terminal::Flow;
use super::terminal::{self, Goals, Terminal};
use super::tooling::Tooling;
use super::writer::{Writer, WriterThread};
use super::{editor, state};
use crate::app::{Runtime, make_title};
use crate::ask::put_row;
use crate::config::{HookContext, HookEvent};
use crate::console::Console;
use crate::host;
use crate::manual::Manual;
use crate::ops::commands::has_row_of_its_own;
use crate::project::{Head, Repository};
use crate::proto::{CommandOutcome, HumanLine, LineKind, ModelCommand, Route, RouteVerdict};
use crate::route::ends_with_question;
use crate::shell::Session;
use crate::shell::session::KeysTo;
use crate::shell::spawn::Dialect;
use crate::shell::supervise::Ending;
use crate::store::Store;
use crate::turn;

/// The prompt's loop.
pub(super) struct Repl {
    /// The runtime that answers questions.
    pub(super) runtime: Runtime,
    /// The terminal, with the live shell and the editor; the next ones are handles of its parts.
    pub(super) terminal: Terminal,
    /// Draws answers.
    pub(super) channel: Shell,
    pub(super) console: Console,
    pub(super) state: SharedState,
    /// Commands of the last answer that are still to be offered.
    pub(super) proposals: VecDeque<ModelCommand>,
    pub(super) proposals_total: usize,
    /// The last answer, raw, as far as it came.
    pub(super) last_answer: String,
    pub(super) tooling: Tooling,
    /// Answers where no model does.
    pub(super) manual: Manual,
    /// The cost of the last answer, and the model's thoughts before it.
    pub(super) spending: Spending,
    pub(super) last: Option<(String, RouteVerdict)>,
    /// The last command that failed.
    pub(super) failed: Option<Failed>,
    pub(super) heading: Heading,
    pub(super) configured: Configured,
    pub(super) hooks: SharedHooks,
    pub(super) memories: Memories,
    pub(super) home: Option<PathBuf>,
    who: Who,
    /// The directory that the hooks were told of last.
    told_cwd: PathBuf,
    /// Its names and the programs on its `PATH` are known, so that a first word can be judged.
    resolves: bool,
    /// The line in the editor is a proposal that the person edits.
    editing_proposal: bool,
}

/// The notice for a person without a model, in one line.
pub(super) const NO_MODEL: &str = "No model set up yet. Run \":onboard\" to find one; everything else works as usual.";

/// Returns the state before the shell has reported anything.
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
        let terminal = Terminal {
            options: terminal::Options::of(runtime.settings()),
            env: runtime.env().clone(),
            session,
            console: console.clone(),
            state: SharedState::clone(&state),
            beside: channel.beside(),
            hooks: hooks.clone(),
            heading: heading.clone(),
            editor,
            links,
            programs,
            history: WriterThread::start(writer),
            goals: Goals::default(),
            deferred: VecDeque::new(),
            status: 0,
            environment: String::new(),
            duration_ms: 0,
            took: None,
            shell_prompt: None,
            ready: false,
            named: false,
            start_asks: false,
            drawn_rows: None,
            finished: None,
            last_outcome: None,
        };
        let repl = Self {
            runtime,
            terminal,
            channel,
            console,
            state,
            proposals: VecDeque::new(),
            proposals_total: 0,
            last_answer: String::new(),
            tooling: Tooling::default(),
            manual,
            spending: Spending::default(),
            last: None,
            failed: None,
            heading,
            configured,
            hooks,
            memories: Memories::default(),
            home,
            who,
            told_cwd: host::working_directory(),
            resolves: false,
            editing_proposal: false,
        };
        repl.show_problems();
        repl
    }

    /// Shows the problems of the start.
    fn show_problems(&self) {
        self.runtime.problems().iter().for_each(|problem| self.console.failure(problem));
        self.tell_config();
        if self.runtime.agent().models().is_empty() {
            self.console.notice(NO_MODEL);
        }
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
        self.terminal.session.close();
        let store = Arc::clone(self.runtime.store());
        drop(self);
        store.lock().unwrap_or_else(PoisonError::into_inner).finish();
        ending
    }

    fn step(&mut self) -> Flow {
        let mut flow = self.terminal.take_pending(None);
        if flow == Flow::Continue && self.terminal.start_asks {
            flow = self.wait_for_names();
        }
        let is_fresh = flow == Flow::Continue && self.configured.project.take_due();
        if is_fresh {
            flow = self.look_for_project();
            // A file that asks for the shell's own prompt has it drawn.
            if flow == Flow::Continue {
                flow = self.terminal.take_pending(None);
            }
        }
        if flow != Flow::Continue {
            return flow;
        }
        self.tell_store_problem();
        self.terminal.tell_beside(None);
        self.take_memory();
        if is_fresh {
            self.tell_directory();
        }
        let prompt = self.make_prompt();
        if is_fresh {
            self.tell_hook_failures();
        }
        let signal = self.terminal.read_line(&prompt);
        match signal {
            Ok(Signal::Success(line)) => {
                self.terminal.drawn_rows = Some(prompt.rows(&line, self.console.width_columns()));
                self.take_line(&line)
            }
            Ok(Signal::CtrlC) => {
                self.proposals.clear();
                self.editing_proposal = false;
                self.set_forced(None);
                self.terminal.status = 130;
                Flow::Continue
            }
            Ok(Signal::CtrlD) => self.end_of_file(),
            Ok(Signal::HostCommand(command)) if command == FLIP => {
                self.flip();
                Flow::Continue
            }
            Ok(Signal::HostCommand(command)) if command == OPEN => self.edit_line(&prompt),
            Ok(Signal::HostCommand(command)) if command == TURNS => self.choose_turn(&prompt),
            Ok(Signal::HostCommand(command)) if command.starts_with(SHELL_KEY) => {
                self.press_in_shell(&command[SHELL_KEY.len()..], "", &prompt)
            }
            Ok(Signal::HostCommand(command)) if command == WAKE => {
                self.terminal.session.woken();
                if self.shell_completes() {
                    return self.press_in_shell("\\C-i", "", &prompt);
                }
                if state::read(&self.state).asks_about_failure(self.terminal.editor.current_buffer_contents()) {
                    self.terminal.editor.run_edit_commands(&[EditCommand::Clear]);
                    return self.ask_about_failure();
                }
                self.terminal.take_pending(Some(&prompt))
            }
            Ok(Signal::HostCommand(command)) if command.starts_with(KEY_COMMAND) => {
                self.key_pressed(&command[KEY_COMMAND.len()..], &prompt)
            }
            Ok(_) => self.terminal.take_pending(Some(&prompt)),
            Err(error) => Flow::End(Ending::NotStarted(format!("the line editor can't read the terminal: {error}"))),
        }
    }

    /// Sends the line in the editor the other way; once more, back to what the rules say.
    fn flip(&mut self) {
        let mut state = self.state.write().unwrap_or_else(PoisonError::into_inner);
        state.forced = match state.forced {
            Some(_) => None,
            None => match state.verdict(self.terminal.editor.current_buffer_contents()).route {
                Route::Ask => Some(Route::Shell),
                _ => Some(Route::Ask),
            },
        };
    }

    fn set_forced(&self, route: Option<Route>) {
        self.state.write().unwrap_or_else(PoisonError::into_inner).forced = route;
    }

    /// Does what a line asks for.
    fn take_line(&mut self, line: &str) -> Flow {
        self.start_servers();
        let flow = self.settle();
        if flow != Flow::Continue {
            return flow;
        }
        self.terminal.took = None;
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
                    self.terminal.remember(&self.kept_meta(line, &verdict.text), LineKind::Meta);
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
        self.terminal.session.keys_to(KeysTo::Shell);
        while !(self.terminal.named && self.terminal.programs.is_fresh()) {
            let event = self.terminal.session.next_event();
            let flow = self.terminal.take_event(event, None);
            if flow != Flow::Continue {
                return flow;
            }
        }
        self.terminal.start_asks = false;
        self.resolves = true;
        self.terminal.session.keys_to(KeysTo::Hold);
        Flow::Continue
    }

    /// Runs a command of the person in the live shell and waits until it has ended.
    pub(super) fn run_command(&mut self, line: &HumanLine, keep: bool) -> Flow {
        self.run_kept(line, keep.then_some(line.text()))
    }

    /// The same; `kept` is the line in the history, if it belongs there at all.
    pub(super) fn run_kept(&mut self, line: &HumanLine, kept: Option<&str>) -> Flow {
        let flow = self.terminal.run_kept(line, kept);
        if let Some(outcome) = self.terminal.last_outcome.take() {
            self.command_ended(&outcome, kept.is_some());
        }
        flow
    }

    fn command_ended(&mut self, outcome: &CommandOutcome, keep: bool) {
        self.configured.project.line_done();
        self.note_failure(outcome, keep);
        if let Some(cwd) = &outcome.cwd {
            self.runtime.stand_in(cwd.clone());
        }
        if keep && self.runtime.settings().shell.capture_output {
            self.runtime.agent_mut().note_outcome(outcome);
        }
        if keep {
            self.show_to_agents(outcome);
            self.terminal.tell_hooks(HookEvent::Command(outcome));
        }
    }

    /// Puts a question by its row of keys, and waits for one that answers it; `stop` is what Ctrl-C says. The keys are kept
    /// from then on.
    pub(super) fn put_question<T: Clone>(
        &mut self,
        keys: &str,
        choice: impl Fn(&[u8]) -> Option<T>,
        stop: T,
    ) -> Result<T, Flow> {
        put_row(&mut self.terminal, keys, choice, false, stop)
    }

    /// As [`Self::put_question`], about a line of the person's own: it follows their Enter at once, and no answer does more
    /// than they asked for, so keys count from the drawing on.
    pub(super) fn put_own_question<T: Clone>(
        &mut self,
        keys: &str,
        choice: impl Fn(&[u8]) -> Option<T>,
        stop: T,
    ) -> Result<T, Flow> {
        put_row(&mut self.terminal, keys, choice, true, stop)
    }

    /// The store, with every line in it.
    pub(super) fn store(&self) -> std::sync::MutexGuard<'_, Store> {
        self.terminal.store()
    }

    /// Tells the hooks of a new working directory, a project's among them.
    fn tell_directory(&mut self) {
        let cwd = state::read(&self.state).cwd.clone();
        if cwd != self.told_cwd {
            let path = cwd.display().to_string();
            self.told_cwd = cwd;
            self.terminal.tell_hooks(HookEvent::Directory(&path));
        }
    }

    /// Asks the model, and offers the commands that it proposes; `line` is what the history keeps.
    pub(super) fn ask(&mut self, line: Option<&str>, question: &str) -> Flow {
        if let Some(line) = line {
            // It is sent, so it is kept as it is sent.
            self.terminal.remember(&self.runtime.agent().redacted(line), LineKind::Question);
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
            self.terminal.tell_hooks(HookEvent::Answer(&reply.text));
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
        self.terminal.editor.run_edit_commands(&[EditCommand::Clear, EditCommand::InsertString(text.to_owned())]);
        self.set_forced(Some(Route::Shell));
        self.editing_proposal = true;
    }

    fn end_of_file(&mut self) -> Flow {
        let flow = self.settle();
        if flow != Flow::Continue {
            return flow;
        }
        self.terminal.session.end_of_file();
        self.terminal.finished = None;
        while self.terminal.finished.is_none() {
            let event = self.terminal.session.next_event();
            let flow = self.terminal.take_event(event, None);
            if flow != Flow::Continue {
                return flow;
            }
        }
        Flow::Continue
    }

    fn make_prompt(&self) -> ReedPrompt {
        let (color, unicode) = (self.console.options().color, self.console.options().unicode);
        let console = &self.runtime.settings().console;
        let facts = |cwd: &Path| {
            let branch = Repository::find(cwd).and_then(|repository| repository.head());
            Facts {
                environment: crate::render::sanitise(&self.terminal.environment).into_owned(),
                directory: with_tilde(cwd, self.home.as_deref()),
                branch: branch
                    .map(|head| match head {
                        Head::Branch(name) | Head::Detached(name) => crate::render::sanitise(&name).into_owned(),
                    })
                    .into_iter()
                    .chain(self.session_mark(unicode))
                    .chain(self.goal_mark(unicode))
                    .reduce(|branch, session| format!("{branch} {session}")),
                status: self.terminal.status,
                took: self.terminal.took.filter(|took| console.duration_s > 0 && took.as_secs() >= console.duration_s),
                who: Some(&self.who).filter(|who| who.is_shown(console.who)).cloned(),
                model: self.runtime.agent().current_model().map(str::to_owned),
            }
        };
        let cwd = state::read(&self.state).cwd.clone();
        let prompt = match &self.terminal.shell_prompt {
            Some(rendered) => ReedPrompt::from_shell(rendered, self.heading.clone(), color, unicode),
            None => ReedPrompt::from_facts(&facts(&cwd), self.heading.clone(), color, unicode)
                .with_texts(None, self.edge_text()),
        };
        self.hooks.decorate(prompt, || {
            let Facts { directory, branch, status, model, .. } = facts(&cwd);
            let (path, duration_ms) = (cwd.display().to_string(), self.terminal.duration_ms);
            let columns = self.console.width_columns();
            HookContext { path, directory, branch, status, duration_ms, model, columns, line: None }
        })
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
