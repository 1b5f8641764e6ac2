//! The loop: reads a line, decides, acts on it, and takes the shell's events meanwhile.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use reedline::{EditCommand, Signal};

use super::editing::editor::Shape;
use super::editing::programs::{ProgramsThread, first_names};
use super::editing::prompt::{Facts, Heading, ReedPrompt, Who, with_tilde};
use super::editing::state::{EditorState, SharedState};
use super::editing::writer::{Writer, WriterThread};
use super::hooks::{KEY_COMMAND, SharedHooks};
use super::hub::{Memories, NO_MODEL, Repl, Spending, Tooling};
use super::keys::{FLIP, OPEN, SHELL_KEY, TURNS, WAKE};
use super::line::Links;
use super::rules::configure::Configured;
use super::screen::Screen;
use super::terminal::{self, Flow, Goals, Terminal};
use crate::app::{Channel, Runtime};
use crate::config::{HookContext, HookEvent};
use crate::console::Console;
use crate::host;
use crate::manual::Manual;
use crate::ops::commands::has_row_of_its_own;
use crate::ops::history;
use crate::project::{Head, Repository};
use crate::proto::{HumanLine, LineKind, Route};
use crate::repl::act;
use crate::repl::answer;
use crate::repl::editing::editor;
use crate::repl::editing::state;
use crate::repl::hooks::acts;
use crate::repl::offer;
use crate::repl::outside;
use crate::repl::records::conversations;
use crate::repl::records::cost;
use crate::repl::records::leftover;
use crate::repl::records::memory;
use crate::repl::records::sessions::begin;
use crate::repl::route;
use crate::repl::rules::configure;
use crate::repl::rules::project;
use crate::repl::rules::secrets;
use crate::repl::rules::served;
use crate::shell::Session;
use crate::shell::spawn::Dialect;
use crate::shell::supervise::Ending;

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

/// The parts of the loop that its terminal is made with.
struct Parts<'a> {
    runtime: &'a Runtime,
    screen: &'a Screen,
    state: &'a SharedState,
    hooks: &'a SharedHooks,
    heading: &'a Heading,
}

impl Parts<'_> {
    fn terminal(&self, session: Session, console: Console) -> Terminal {
        let Self { runtime, screen, state, hooks, heading } = *self;
        let programs = ProgramsThread::new(SharedState::clone(state), session.handle());
        let links = Links { pump: Some(session.handle()), ..Links::default() };
        let writer = Writer::new(Arc::clone(runtime.store()));
        let editor = editor::make(&Shape::of(runtime, hooks), state, heading, &session.handle(), &writer, &links);
        Terminal {
            options: terminal::Options::of(runtime.settings()),
            env: runtime.env().clone(),
            session,
            console,
            state: SharedState::clone(state),
            beside: screen.beside(),
            sharing: screen.sharing(),
            hooks: hooks.clone(),
            heading: heading.clone(),
            editor,
            links,
            programs,
            history: WriterThread::new(writer),
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
            is_editor_stale: false,
            drawn_rows: None,
            first_column: false,
            finished: None,
            last_outcome: None,
        }
    }
}

/// Puts the loop together.
pub(super) fn start(
    screen: Screen,
    channel: Arc<dyn Channel + Send + Sync>,
    mut runtime: Runtime,
    session: Session,
    console: Console,
) -> Repl {
    let hooks = SharedHooks::default();
    hooks.set_ignore_space(runtime.settings().history.ignore_space);
    let configured = Configured::new(runtime.config_mut(), &hooks);
    let home = runtime.variable("HOME").map(PathBuf::from);
    let heading = Heading::new(runtime.settings().route.words);
    let state = first_state(&runtime, &hooks);
    let state = SharedState::new(state.into());
    let parts = Parts { runtime: &runtime, screen: &screen, state: &state, hooks: &hooks, heading: &heading };
    let terminal = parts.terminal(session, console.clone());
    let who = Who::of(runtime.env());
    let manual = Manual::new(crate::app::manual_options(runtime.settings(), runtime.env()));
    let mut repl = Repl {
        runtime,
        terminal,
        screen,
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
        looks_around: true,
    };
    show_problems(&repl);
    repl.terminal.go_to_first_column();
    repl
}

/// Shows the problems of the start.
fn show_problems(repl: &Repl) {
    repl.runtime.problems().iter().for_each(|problem| repl.console.failure(problem));
    configure::tell_config(repl);
    // Shown once, and not in each window of a person who wants no model.
    if repl.runtime.agent().models().is_empty() && history::is_empty(&repl.store()) {
        repl.console.notice(NO_MODEL);
    }
}

/// Runs until the shell ends or the terminal goes.
pub(super) fn run(mut repl: Repl) -> Ending {
    let ending = loop {
        if let Flow::End(ending) = step(&mut repl) {
            break ending;
        }
    };
    repl.leave_goal();
    memory::note_ended(&mut repl);
    // The history is pruned at the end, when nothing waits. This fails only if adding a line fails, too, which has been reported.
    let entries_max = u64::try_from(repl.runtime.settings().history.entries_max).unwrap_or(u64::MAX);
    let _ = repl.store().prune(entries_max);
    repl.terminal.session.close();
    let store = Arc::clone(repl.runtime.store());
    drop(repl);
    store.lock().finish();
    ending
}

/// Starts the threads that list the programs and look for leftovers, once: the first prompt doesn't share the processors with them.
fn look_around(repl: &mut Repl) {
    if std::mem::take(&mut repl.looks_around) {
        let path = repl.runtime.env().get(std::ffi::OsStr::new("PATH")).cloned();
        repl.terminal.programs.refresh_first(path);
        leftover::look(&repl.runtime, repl.screen.clone(), repl.terminal.session.handle());
    }
}

fn step(repl: &mut Repl) -> Flow {
    let mut flow = repl.terminal.take_pending(None);
    if flow == Flow::Continue && repl.terminal.start_asks {
        look_around(repl);
        flow = repl.wait_for_names();
    }
    let is_fresh = flow == Flow::Continue && repl.configured.project.take_due();
    if is_fresh {
        flow = project::look_for_project(repl);
        // A project's file that asks for the shell's own prompt has the shell draw it.
        if flow == Flow::Continue {
            flow = repl.terminal.take_pending(None);
        }
    }
    if flow != Flow::Continue {
        return flow;
    }
    tell_store_problem(repl);
    repl.terminal.tell_beside(None);
    memory::take_memory(repl);
    if is_fresh {
        tell_directory(repl);
    }
    if std::mem::take(&mut repl.terminal.is_editor_stale) {
        configure::remake_editor(repl);
    }
    let prompt = make_prompt(repl);
    if is_fresh {
        acts::tell_hook_failures(repl);
    }
    repl.terminal.show_prompt_early(&prompt);
    look_around(repl);
    let signal = repl.terminal.read_line(&prompt);
    let entered = matches!(signal, Ok(Signal::Success(_)));
    let flow = take_signal(repl, signal, &prompt);
    repl.terminal.first_column &= entered;
    flow
}

/// Handles the signal with which the editor ended.
fn take_signal(repl: &mut Repl, signal: std::io::Result<Signal>, prompt: &ReedPrompt) -> Flow {
    match signal {
        Ok(Signal::Success(line)) => {
            repl.terminal.drawn_rows = Some(prompt.rows(&line, repl.console.width_columns()));
            take_line(repl, &line, prompt)
        }
        Ok(Signal::CtrlC) => interrupted(repl),
        Ok(Signal::CtrlD) => end_of_file(repl),
        Ok(Signal::HostCommand(command)) if command == FLIP => {
            flip(repl);
            Flow::Continue
        }
        Ok(Signal::HostCommand(command)) if command == OPEN => outside::edit_line(repl, prompt),
        Ok(Signal::HostCommand(command)) if command == TURNS => conversations::choose_turn(repl, prompt),
        Ok(Signal::HostCommand(command)) if command.starts_with(SHELL_KEY) => {
            outside::press_in_shell(repl, &command[SHELL_KEY.len()..], "", prompt)
        }
        Ok(Signal::HostCommand(command)) if command == WAKE => {
            repl.terminal.session.woken();
            if outside::shell_completes(repl) {
                return outside::press_in_shell(repl, "\\C-i", "", prompt);
            }
            if state::read(&repl.state).asks_about_failure(repl.terminal.editor.current_buffer_contents()) {
                repl.terminal.editor.run_edit_commands(&[EditCommand::Clear]);
                return route::ask_about_failure(repl);
            }
            repl.terminal.take_pending(Some(prompt))
        }
        Ok(Signal::HostCommand(command)) if command.starts_with(KEY_COMMAND) => {
            acts::key_pressed(repl, &command[KEY_COMMAND.len()..], prompt)
        }
        Ok(_) => repl.terminal.take_pending(Some(prompt)),
        Err(error) => Flow::End(Ending::NotStarted(format!("the line editor can't read the terminal: {error}"))),
    }
}

/// Drops the line and the proposals for it.
fn interrupted(repl: &mut Repl) -> Flow {
    repl.interrupted_again();
    repl.proposals.clear();
    repl.editing_proposal = false;
    repl.set_forced(None);
    repl.terminal.took = None;
    repl.interrupt_shell()
}

/// Sends the line in the editor the other way; once more, back to what the rules say.
fn flip(repl: &mut Repl) {
    let mut state = repl.state.write();
    state.forced = match state.forced {
        Some(_) => None,
        None => match state.verdict(repl.terminal.editor.current_buffer_contents()).route {
            Route::Ask => Some(Route::Shell),
            _ => Some(Route::Ask),
        },
    };
}

/// Carries out a line.
fn take_line(repl: &mut Repl, line: &str, prompt: &ReedPrompt) -> Flow {
    served::start_servers(repl);
    let flow = repl.settle();
    if flow != Flow::Continue {
        return flow;
    }
    repl.terminal.took = None;
    let verdict = state::read(&repl.state).verdict(line);
    repl.set_forced(None);
    repl.configured.project.line_done();
    let was_edited = std::mem::take(&mut repl.editing_proposal);
    let hidden =
        line.starts_with(' ') && repl.runtime.settings().history.ignore_space || !state::read(&repl.state).keeps(line);
    let settled = if was_edited { Ok(Some(verdict)) } else { route::settle_route(repl, line, verdict, hidden) };
    let verdict = match settled {
        Ok(Some(verdict)) => verdict,
        Ok(None) => return Flow::Continue,
        Err(flow) => return flow,
    };
    let flow = match verdict.route {
        Route::Empty => repl.run_empty_line(),
        Route::Confirm => Flow::Continue,
        Route::Meta => {
            if !has_row_of_its_own(&verdict.text) {
                repl.terminal.remember(&secrets::kept_meta(repl, line, &verdict.text), LineKind::Meta);
            }
            let before = repl.last.take();
            let flow = act::meta(repl, &verdict.text, hidden, before.as_ref());
            // `:why` is about the line before.
            repl.last = before;
            flow
        }
        Route::Shell => {
            let before = repl.last.replace((line.to_owned(), verdict.clone()));
            let expanded = match outside::expanded(repl, &verdict.text, prompt) {
                Ok(expanded) => expanded,
                Err(flow) => return flow,
            };
            if expanded {
                repl.last = before;
                return Flow::Continue;
            }
            repl.run_command(&HumanLine::typed(verdict.text), !hidden)
        }
        Route::Ask => {
            repl.last = Some((line.to_owned(), verdict.clone()));
            match begin::begin_by_setting(repl) {
                Flow::Continue => answer::ask(repl, Some(line), &verdict.text),
                end => end,
            }
        }
    };
    repl.terminal.first_column &= verdict.route == Route::Shell && !was_edited;
    if was_edited && flow == Flow::Continue { offer::offer_proposals(repl) } else { flow }
}

/// Reports a new working directory to the hooks, including those of a project.
fn tell_directory(repl: &mut Repl) {
    let cwd = state::read(&repl.state).cwd.clone();
    if cwd != repl.told_cwd {
        let path = cwd.display().to_string();
        repl.told_cwd = cwd;
        repl.terminal.tell_hooks(HookEvent::Directory(&path));
    }
}

fn end_of_file(repl: &mut Repl) -> Flow {
    let flow = repl.settle();
    if flow != Flow::Continue {
        return flow;
    }
    repl.terminal.session.end_of_file();
    repl.terminal.finished = None;
    while repl.terminal.finished.is_none() {
        let event = repl.terminal.session.next_event();
        let flow = repl.terminal.take_event(event, None);
        if flow != Flow::Continue {
            return flow;
        }
    }
    Flow::Continue
}

fn make_prompt(repl: &Repl) -> ReedPrompt {
    let (color, unicode) = (repl.console.options().color, repl.console.options().unicode);
    let console = &repl.runtime.settings().console;
    let facts = |cwd: &Path| {
        let branch = Repository::find(cwd).and_then(|repository| repository.head());
        Facts {
            environment: crate::render::sanitise(&repl.terminal.environment).into_owned(),
            directory: with_tilde(cwd, repl.home.as_deref()),
            branch: branch
                .map(|head| match head {
                    Head::Branch(name) | Head::Detached(name) => crate::render::sanitise(&name).into_owned(),
                })
                .into_iter()
                .chain(repl.session_mark(unicode))
                .chain(repl.goal_mark(unicode))
                .reduce(|branch, session| format!("{branch} {session}")),
            status: repl.terminal.status,
            took: repl.terminal.took.filter(|took| console.duration_s > 0 && took.as_secs() >= console.duration_s),
            who: Some(&repl.who).filter(|who| who.is_shown(console.who)).cloned(),
            model: repl.runtime.agent().current_model().map(str::to_owned),
        }
    };
    let cwd = state::read(&repl.state).cwd.clone();
    let prompt = match &repl.terminal.shell_prompt {
        Some(rendered) => ReedPrompt::from_shell(rendered, repl.heading.clone(), color, unicode),
        None => ReedPrompt::from_facts(&facts(&cwd), repl.heading.clone(), color, unicode)
            .with_texts(None, cost::edge_text(repl, unicode)),
    };
    repl.hooks.decorate(prompt, || {
        let Facts { directory, branch, status, model, .. } = facts(&cwd);
        let (path, duration_ms) = (cwd.display().to_string(), repl.terminal.duration_ms);
        let columns = repl.console.width_columns();
        HookContext { path, directory, branch, status, duration_ms, model, columns, line: None }
    })
}

fn tell_store_problem(repl: &Repl) {
    // While a line is being written the prompt doesn't wait: its problem is shown at the next one.
    let problem = repl.runtime.store().try_lock().and_then(|mut store| store.take_problem());
    if let Some(problem) = problem {
        repl.console.failure(&problem.into());
    }
}
