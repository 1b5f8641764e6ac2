//! The state of the prompt's loop, and what every command needs of it: the live shell, questions to the person, the line in
//! the editor. It must not know any command.

use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::Arc;

use reedline::EditCommand;

use super::editing::prompt::{Heading, ReedPrompt, Who};
use super::editing::state::{self, SharedState};
use super::hooks::SharedHooks;
use super::rules::configure::Configured;
use super::screen::{Screen, ToolOutput};
pub(super) use super::terminal::Flow;
use super::terminal::Terminal;
use crate::agent::MemoryJob;
use crate::app::{Channel, Runtime, Servers};
use crate::ask::put_row;
use crate::config::{HookEvent, state_directory};
use crate::console::Console;
use crate::manual::Manual;
use crate::proto::{CommandOutcome, HumanLine, ModelCommand, Route, RouteVerdict};
use crate::serve::Outputs;
use crate::shell::session::KeysTo;
use crate::store::{ConversationId, Store, ToRemember};

/// The state of the prompt's loop.
pub(super) struct Repl {
    /// The runtime that answers questions.
    pub(super) runtime: Runtime,
    /// The terminal, with the live shell and the editor; the next ones are handles of its parts.
    pub(super) terminal: Terminal,
    /// Draws answers.
    pub(super) screen: Screen,
    /// The shell as the agent's channel, which sends to the screen.
    pub(super) channel: Arc<dyn Channel + Send + Sync>,
    pub(super) console: Console,
    pub(super) state: SharedState,
    /// Commands of the last answer that are still to be offered.
    pub(super) proposals: VecDeque<ModelCommand>,
    pub(super) proposals_total: usize,
    /// The last answer, raw, as far as it came.
    pub(super) last_answer: String,
    pub(super) tooling: Tooling,
    /// Answers questions that no model answers.
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
    pub(super) who: Who,
    /// The directory of the last call of the hooks.
    pub(super) told_cwd: PathBuf,
    /// The shell's names and the programs on its `PATH` are known, so that a first word can be judged.
    pub(super) resolves: bool,
    /// The line in the editor is a proposal that the person edits.
    pub(super) editing_proposal: bool,
    /// The search for programs and leftovers hasn't started yet.
    pub(super) looks_around: bool,
}

/// The notice for a person without a model, in one line.
pub(super) const NO_MODEL: &str = "No model is set up. Run \":onboard\" to find one; everything else works as usual.";

/// The cost and the thoughts of the last answer.
#[derive(Debug, Default)]
pub(super) struct Spending {
    /// The text at the right edge, for this conversation.
    pub(super) edge: Option<(ConversationId, String)>,
    /// The model's raw thoughts.
    pub(super) thoughts: String,
}

/// The session's state about memories.
#[derive(Debug, Default)]
pub(super) struct Memories {
    /// The memory that is being written.
    pub(super) job: Option<(ToRemember, MemoryJob)>,
    /// True if the session has looked for conversations that an earlier session left to be remembered.
    pub(super) has_caught_up: bool,
}

/// Exit status of the shell for a command that it doesn't find.
pub(super) const NOT_FOUND: i32 = 127;

/// The last command that failed.
#[derive(Clone, Debug)]
pub(super) struct Failed {
    pub(super) command: String,
    pub(super) status: i32,
}

/// The session's state about tools.
#[derive(Default)]
pub(super) struct Tooling {
    /// The servers were started with the first line.
    pub(super) are_servers_started: bool,
    /// The servers of a session without a model, and the workspace that they were made for.
    pub(super) servers_alone: Option<(PathBuf, Arc<Servers>)>,
    /// The outputs for `:show`.
    pub outputs: Vec<ToolOutput>,
    /// Shows the last output to other agents, if the config lets them see it.
    pub(super) shown_to_agents: Option<Outputs>,
}

impl Repl {
    /// Waits until lines can be judged and run; after the first line that is always so.
    pub(super) fn settle(&mut self) -> Flow {
        if self.resolves { Flow::Continue } else { self.wait_for_names() }
    }

    /// Waits until the shell has read its start-up files. The keys are the shell's meanwhile, for a file that asks.
    pub(super) fn wait_for_names(&mut self) -> Flow {
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
        self.run_recorded(line, keep.then_some(line.text()))
    }

    /// Runs a command like [`Self::run_command`]; `record` is its line for the history, if it belongs there at all.
    pub(super) fn run_recorded(&mut self, line: &HumanLine, record: Option<&str>) -> Flow {
        let flow = self.terminal.run_recorded(line, record);
        if let Some(outcome) = self.terminal.last_outcome.take() {
            self.command_ended(&outcome, record.is_some());
        }
        flow
    }

    /// Lets the shell read an empty line: it reports jobs that have ended, and its hooks see what has changed. The last
    /// failure stays the one that can be asked about. Nothing waits for the start-up files.
    pub(super) fn run_empty_line(&mut self) -> Flow {
        if !self.terminal.ready {
            return Flow::Continue;
        }
        let flow = self.terminal.run_command(&HumanLine::typed(String::new()), true);
        self.stand_where_line_ended();
        flow
    }

    /// Takes over a line that the shell ran for a key; returns whether there was one.
    pub(super) fn line_of_key_ended(&mut self) -> bool {
        let ended = self.terminal.line_of_key_ended();
        if let Some((outcome, is_kept)) = &ended {
            self.command_ended(outcome, *is_kept);
        }
        ended.is_some()
    }

    /// Reports a Ctrl-C at the prompt to the shell.
    pub(super) fn interrupt_shell(&mut self) -> Flow {
        if !self.terminal.ready {
            self.terminal.status = 130;
            return Flow::Continue;
        }
        let flow = self.terminal.interrupt();
        self.stand_where_line_ended();
        flow
    }

    fn stand_where_line_ended(&mut self) {
        if let Some(cwd) = self.terminal.last_outcome.take().and_then(|outcome| outcome.cwd) {
            self.runtime.stand_in(cwd);
        }
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

    /// Lets other agents see a command that has ended, if the config says so.
    pub(super) fn show_to_agents(&mut self, outcome: &CommandOutcome) {
        let settings = self.runtime.settings();
        if !settings.mcp.serve.has_outputs || !settings.shell.capture_output {
            self.tooling.shown_to_agents = None;
            return;
        }
        if self.tooling.shown_to_agents.is_none()
            && let (Some(state), Some(shell)) = (state_directory(self.runtime.env()), self.terminal.session.shell())
        {
            let offered = Outputs::offer(&state, state::read(&self.state).session, shell);
            if let Err(error) = &offered {
                tracing::warn!(event = "outputs_not_offered", %error);
            }
            self.tooling.shown_to_agents = offered.ok();
        }
        if let Some(outputs) = &self.tooling.shown_to_agents {
            outputs.note(outcome);
        }
    }

    /// Notes the last failure, and offers the model if the command wasn't found.
    pub(super) fn note_failure(&mut self, outcome: &CommandOutcome, keep: bool) {
        let failed = outcome.status != 0 && keep;
        let can_ask = failed && self.runtime.agent().current_model().is_some();
        self.state.write().failed = can_ask;
        self.failed = failed.then(|| Failed { command: outcome.command.clone(), status: outcome.status });
        if can_ask && outcome.status == NOT_FOUND {
            self.console.notice("Alt-Enter on an empty line, or :why, asks the model about it");
        }
    }

    /// Asks a question by its row of keys, and waits for a key that answers it; `stop` is the answer of Ctrl-C. Later
    /// keys are held back.
    pub(super) fn put_question<T: Clone>(
        &mut self,
        keys: &str,
        choice: impl Fn(&[u8]) -> Option<T>,
        stop: T,
    ) -> Result<T, Flow> {
        put_row(&mut self.terminal, keys, choice, false, stop)
    }

    /// Asks like [`Self::put_question`] about a line of the person's own: the question follows their Enter at once, and
    /// no answer does more than they asked for, so keys count as soon as it is drawn.
    pub(super) fn put_own_question<T: Clone>(
        &mut self,
        keys: &str,
        choice: impl Fn(&[u8]) -> Option<T>,
        stop: T,
    ) -> Result<T, Flow> {
        put_row(&mut self.terminal, keys, choice, true, stop)
    }

    /// The store, with every line in it.
    pub(super) fn store(&self) -> parking_lot::MutexGuard<'_, Store> {
        self.terminal.store()
    }

    /// Sends the line in the editor this way, whatever the rules say; `None` leaves it to them.
    pub(super) fn set_forced(&self, route: Option<Route>) {
        self.state.write().forced = route;
    }

    /// Puts a proposal into the editor; what comes back is the person's own line.
    pub(super) fn edit_next(&mut self, text: &str) {
        self.terminal.editor.run_edit_commands(&[EditCommand::Clear, EditCommand::InsertString(text.to_owned())]);
        self.set_forced(Some(Route::Shell));
        self.editing_proposal = true;
    }

    /// Puts text into the line, where the cursor is.
    pub(super) fn insert_text(&mut self, text: &str) {
        let clean: String = text.chars().filter(|c| !c.is_control() || *c == '\n' || *c == '\t').collect();
        if !clean.is_empty() {
            self.terminal.editor.run_edit_commands(&[reedline::EditCommand::InsertString(clean)]);
        }
    }

    /// The line in the editor.
    pub(super) fn typed_line(&self) -> String {
        self.terminal.editor.current_buffer_contents().to_owned()
    }

    /// Moves far enough below the line that was being typed after `rows` rows were printed over it: reedline would draw
    /// over the rows of the prompt and the next one, see `show_above`.
    pub(super) fn leave_rows(&self, rows: usize, (line, at): (&str, usize), prompt: &ReedPrompt) {
        let below = prompt.rows_below_cursor(line, at, self.console.width_columns()).unwrap_or(0);
        if rows > 0 {
            let missing = (below + 2).saturating_sub(rows);
            self.console.raw(format!("\x1b[J{}", "\r\n".repeat(missing)).as_bytes());
        }
    }

    /// Goes to a fresh row below the line that is being typed.
    pub(super) fn step_below(&self, prompt: &ReedPrompt) {
        let buffer = self.terminal.editor.current_buffer_contents();
        let at = self.terminal.editor.current_insertion_point();
        if let Some(rows) = prompt.rows_below_cursor(buffer, at, self.console.width_columns()).filter(|rows| *rows > 0)
        {
            self.console.raw(format!("\x1b[{rows}B").as_bytes());
        }
        self.console.raw(b"\r\n");
    }
}
