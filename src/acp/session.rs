//! A session: its thread, its runtime, and the client's operations on it. Each has a conversation, a workspace and tools of its
//! own; the store is shared.

use parking_lot::{Mutex, MutexGuard};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};

use serde_json::{Value, json};

use super::channel::{Editor, End, Parts, without_session};
use super::commands::{self, Here, PromptKind};
use super::options::{CONFIGURED, MODE, MODEL, THINKING, effort, mode, mode_state, options};
use super::person::AtEditor;
use super::servers::Brought;
use super::wire::{Abilities, Block};
use super::{AUTH_REQUIRED, NOT_FOUND};
use super::{content, replay, servers};
use crate::agent::Cancel;
use crate::app::{self, ChannelKind, Request, Resume, Runtime};
use crate::base::time::utc;
use crate::gate::Ceiling;
use crate::host;
use crate::ops::{conversations, cost, editors};
use crate::proto::action::Autonomy;
use crate::proto::{Failure, FailureKind, Shortfall, Spent};
use crate::render::sanitise;
use crate::rpc::{INTERNAL_ERROR, INVALID_PARAMS, INVALID_REQUEST, Peer, RpcError};
use crate::store::{ConversationId, EditorSession, Store};

/// Commands that wait for a session.
const COMMANDS_MAX: usize = 16;
/// Further directories of a session.
const DIRECTORIES_MAX: usize = 16;

/// The work of a session; each item is a request with an id.
pub(super) enum Command {
    Prompt { id: Value, blocks: Vec<Block> },
    Set { id: Value, change: Change },
}

/// A choice that counts from the next prompt on.
pub(super) enum Change {
    Model(String),
    /// An effort, as the option has it.
    Thinking(&'static str),
}

/// A session's handle for the connection.
pub(super) struct Handle {
    /// `None` once the session should end.
    commands: Mutex<Option<SyncSender<Command>>>,
    cancel: Cancel,
    ceiling: Ceiling,
    most: Autonomy,
    /// The request of the prompt that is being answered.
    prompt: Mutex<Option<Value>>,
    /// The models that the client was last sent.
    models: Mutex<Vec<crate::agent::ModelInfo>>,
    /// The thinking effort, as in the option.
    thinking: Mutex<&'static str>,
    /// The request that closes it.
    closing: Mutex<Option<Value>>,
}

impl Handle {
    fn prompt(&self) -> MutexGuard<'_, Option<Value>> {
        self.prompt.lock()
    }

    /// The current mode.
    fn current(&self) -> Autonomy {
        self.ceiling.lowered(self.most)
    }

    fn options(&self) -> Vec<Value> {
        let thinking = *self.thinking.lock();
        options(self.current(), self.most, &self.models.lock(), thinking)
    }

    fn send(&self, command: Command) -> Result<(), RpcError> {
        let ended = || RpcError::new(INVALID_REQUEST, "this session has ended");
        let commands = self.commands.lock();
        commands.as_ref().ok_or_else(ended)?.try_send(command).map_err(|error| match error {
            TrySendError::Full(_) => RpcError::new(INVALID_REQUEST, "too many requests wait for this session"),
            TrySendError::Disconnected(_) => ended(),
        })
    }

    /// Takes a prompt; one is answered at a time.
    pub(super) fn ask(&self, id: &Value, blocks: Vec<Block>) -> Result<(), RpcError> {
        let mut prompt = self.prompt();
        if prompt.is_some() {
            return Err(RpcError::new(INVALID_REQUEST, "a prompt of this session is being answered"));
        }
        self.cancel.rearm();
        self.send(Command::Prompt { id: id.clone(), blocks })?;
        *prompt = Some(id.clone());
        Ok(())
    }

    /// Stops the prompt that is being answered, if there is one; with `id` only that one.
    pub(super) fn stop(&self, id: Option<&Value>) {
        let prompt = self.prompt();
        if prompt.is_some() && id.is_none_or(|id| prompt.as_ref() == Some(id)) {
            self.cancel.cancel();
        }
    }

    /// Ends it, with all of its work.
    pub(super) fn end(&self) {
        self.commands.lock().take();
        self.cancel.cancel();
    }

    /// Closes it for a request, which is answered when it has ended.
    pub(super) fn close(&self, id: &Value) -> Result<(), RpcError> {
        let mut closing = self.closing.lock();
        if closing.is_some() {
            return Err(RpcError::new(INVALID_REQUEST, "this session is being closed"));
        }
        *closing = Some(id.clone());
        self.end();
        Ok(())
    }

    /// The request that closes it.
    pub(super) fn closed_by(&self) -> Option<Value> {
        self.closing.lock().take()
    }

    /// Changes the mode, immediately: it already applies to the next call of a tool.
    pub(super) fn set_mode(&self, name: &str, peer: &Peer, id: &str) -> Result<(), RpcError> {
        let Some(autonomy) = mode(id, self.most) else {
            let message = format!("the config allows no mode called {id:?}: security.autonomy is {}", self.most);
            return Err(RpcError::new(INVALID_PARAMS, message));
        };
        self.ceiling.set(autonomy);
        let update = |update: Value| peer.notify("session/update", &json!({"sessionId": name, "update": update}));
        update(json!({"sessionUpdate": "current_mode_update", "currentModeId": autonomy.word()}));
        update(json!({"sessionUpdate": "config_option_update", "configOptions": self.options()}));
        Ok(())
    }

    /// Changes an option; returns the answer if there is one now.
    pub(super) fn set_option(
        &self,
        name: &str,
        peer: &Peer,
        id: &Value,
        (option, value): (&str, &Value),
    ) -> Result<Option<Value>, RpcError> {
        let Some(value) = value.as_str() else {
            return Err(RpcError::new(INVALID_PARAMS, "the value of this option is a string"));
        };
        match option {
            MODE => {
                self.set_mode(name, peer, value)?;
                Ok(Some(json!({"configOptions": self.options()})))
            }
            // The model can't change in the middle of an answer: it is answered when it has.
            MODEL => self.send(Command::Set { id: id.clone(), change: Change::Model(value.to_owned()) }).map(|()| None),
            THINKING => {
                let unknown = || RpcError::new(INVALID_PARAMS, format!("there is no effort {value:?}"));
                let change = Change::Thinking(effort(value).ok_or_else(unknown)?);
                self.send(Command::Set { id: id.clone(), change }).map(|()| None)
            }
            _ => Err(RpcError::new(INVALID_PARAMS, format!("there is no option {option:?}"))),
        }
    }
}

/// Way in which a session is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Opening {
    New,
    /// With the text of the conversation.
    Load,
    /// Without it.
    Resume,
}

/// The parameters that open a session.
pub(super) struct Wanted {
    pub(super) id: Value,
    pub(super) opening: Opening,
    pub(super) name: String,
    /// The conversation, with the name under which it is stored if it has one.
    pub(super) known: Known,
    pub(super) cwd: PathBuf,
    /// The client's spelling of the same directory.
    pub(super) written: PathBuf,
    pub(super) config: Option<PathBuf>,
    pub(super) store: Arc<Mutex<Store>>,
    pub(super) peer: Arc<Peer>,
    pub(super) abilities: Abilities,
    /// Further directories that tools may read.
    pub(super) readable: Vec<PathBuf>,
    /// The client's own servers of tools.
    pub(super) servers: Vec<Value>,
}

/// Opens a session on this thread and serves it until it ends. `register` is called with its handle before the client is
/// informed.
pub(super) fn serve(wanted: Wanted, register: &dyn Fn(Arc<Handle>) -> Result<(), RpcError>) {
    let (id, peer) = (wanted.id.clone(), Arc::clone(&wanted.peer));
    if let Err(error) = open(wanted, register) {
        peer.answer(&id, Err(error));
    }
}

fn open(wanted: Wanted, register: &dyn Fn(Arc<Handle>) -> Result<(), RpcError>) -> Result<(), RpcError> {
    let Wanted { id, opening, name, known, cwd, written, config, store, peer, abilities, readable, servers } = wanted;
    let resume = known.conversation().map(|conversation| Resume::Id(conversation.0));
    let request = Request {
        config,
        resume,
        channel: ChannelKind::Acp,
        cwd: Some(cwd.clone()),
        store: Some(Arc::clone(&store)),
        ..Request::default()
    };
    let mut runtime = Runtime::start(&request).map_err(|failure| match failure.kind {
        FailureKind::User => RpcError::new(NOT_FOUND, failure_text(&failure)),
        _ => RpcError::new(INTERNAL_ERROR, failure_text(&failure)),
    })?;
    if runtime.agent().models().is_empty() && abilities.has_terminal {
        return Err(RpcError::new(AUTH_REQUIRED, "no model is set up: `reedclaw onboard` does that"));
    }
    let configured = app::workspace_dir(runtime.settings(), runtime.env());
    let workspace = app::workspace_named(runtime.env(), &cwd).unwrap_or(configured);
    let invalid = |failure: Failure| RpcError::new(INVALID_PARAMS, failure_text(&failure));
    // A directory that can't be opened is never silently left out.
    runtime.add_readable(&workspace, readable).map_err(invalid)?;
    let mut problems = runtime.take_problems();
    problems.extend(runtime.take_tools(&workspace));
    let workspace = runtime.agent_mut().runner().map_or(workspace, |runner| runner.workspace().to_owned());
    let most = runtime.settings().security.autonomy;
    let (servers, refused) = servers::take(&mut runtime, &servers, abilities.has_forms);
    problems.extend(refused);
    let servers = Mutex::new(servers);
    let (commands, received) = sync_channel(COMMANDS_MAX);
    let handle = Arc::new(Handle {
        commands: Mutex::new(Some(commands)),
        cancel: Cancel::new(),
        ceiling: runtime.ceiling().clone(),
        most,
        prompt: Mutex::new(None),
        models: Mutex::new(runtime.agent().models()),
        thinking: Mutex::new(CONFIGURED),
        closing: Mutex::new(None),
    });
    register(Arc::clone(&handle))?;
    let loaded = runtime.agent().conversation().filter(|_| opening == Opening::Load);
    let turns = loaded.and_then(|it| conversations::turns(&store.lock(), it).ok()).unwrap_or_default();
    let of_session = Arc::clone(&handle);
    let editor = Editor::new(Parts {
        name: name.clone(),
        peer: Arc::clone(&peer),
        abilities,
        workspace: workspace.clone(),
        written: (cwd, written),
        known,
        commands: received,
        serve: Box::new(move |editor, runtime| {
            let servers = std::mem::take(&mut *servers.lock());
            take_commands(editor, runtime, &of_session, servers);
        }),
    });
    replay::updates(&turns, &workspace).iter().for_each(|update| editor.update(update));
    let mut result = json!({"modes": mode_state(handle.current(), most), "configOptions": handle.options()});
    if opening == Opening::New {
        result["sessionId"] = name.into();
    }
    peer.answer(&id, Ok(result));
    problems.iter().for_each(|failure| editor.notice(&failure_text(failure), "warning"));
    runtime.run(&editor);
    Ok(())
}

/// The conversation of a session, from the moment when it has one, and the name under which it is stored.
#[derive(Clone, Default)]
pub(super) struct Known {
    conversation: Arc<Mutex<Option<ConversationId>>>,
    stored: Option<String>,
}

impl Known {
    /// The conversation that a client names: by its stored name, or by the number that a ReedClaw shell shows.
    ///
    /// # Errors
    /// There is none, or the store can't be read.
    pub(super) fn of(store: &Mutex<Store>, name: &str) -> Result<Self, RpcError> {
        let found = editors::find(&store.lock(), name);
        let found = found.map_err(|failure| RpcError::new(INTERNAL_ERROR, failure.message))?;
        let (conversation, stored) = found.ok_or_else(|| RpcError::new(NOT_FOUND, "there is no such session"))?;
        Ok(Self { conversation: Arc::new(Mutex::new(Some(conversation))), stored })
    }

    pub(super) fn conversation(&self) -> Option<ConversationId> {
        *self.conversation.lock()
    }

    fn begun(&self, conversation: ConversationId) {
        *self.conversation.lock() = Some(conversation);
    }
}

/// A failure as a short text for a person.
fn failure_text(failure: &Failure) -> String {
    let hint = if failure.hint.is_empty() { String::new() } else { format!(" ({})", failure.hint) };
    sanitise(&without_session(&format!("{}{hint}", failure.message))).into_owned()
}

/// Carries out a session's commands until it is closed.
fn take_commands(editor: &Editor, mut runtime: Runtime, handle: &Handle, mut servers: Vec<Brought>) {
    let received: MutexGuard<'_, Receiver<Command>> = editor.commands.lock();
    let configured = runtime.settings().clone();
    let mut title = String::new();
    let mut commands = Vec::new();
    tell_commands(editor, &mut runtime, &mut commands);
    runtime.look_ahead();
    while let Ok(command) = received.recv() {
        match command {
            Command::Set { id, change } => {
                let used = match change {
                    Change::Model(model) => runtime.agent_mut().use_model(&model),
                    Change::Thinking(effort) => {
                        runtime.set_thinking(Some(effort).filter(|it| *it != CONFIGURED), &configured);
                        *handle.thinking.lock() = effort;
                        Ok(())
                    }
                };
                note_models(handle, &runtime);
                let result = used.map(|()| json!({"configOptions": handle.options()}));
                editor
                    .peer()
                    .answer(&id, result.map_err(|failure| RpcError::new(INVALID_PARAMS, failure_text(&failure))));
            }
            Command::Prompt { id, blocks } => {
                let unanswered = Unanswered { editor, handle, id: Some(id) };
                let result = prompt(editor, &mut runtime, handle, blocks, &mut servers);
                unanswered.answer(result);
                tell_title(editor, &mut runtime, &mut title);
                tell_commands(editor, &mut runtime, &mut commands);
            }
        }
    }
}

/// An unanswered prompt. If the thread dies, the client still gets an answer.
struct Unanswered<'a> {
    editor: &'a Editor,
    handle: &'a Handle,
    id: Option<Value>,
}

impl Unanswered<'_> {
    fn answer(mut self, result: Result<Value, RpcError>) {
        self.put(result);
    }

    fn put(&mut self, result: Result<Value, RpcError>) {
        if let Some(id) = self.id.take() {
            // The next prompt may come as soon as this one is answered.
            *self.handle.prompt() = None;
            self.editor.peer().answer(&id, result);
        }
    }
}

impl Drop for Unanswered<'_> {
    fn drop(&mut self) {
        self.put(Err(RpcError::new(INTERNAL_ERROR, "a fault of ReedClaw: see its log")));
    }
}

fn note_models(handle: &Handle, runtime: &Runtime) {
    *handle.models.lock() = runtime.agent().models();
}

/// Answers a prompt; returns the reason for its end.
fn prompt(
    editor: &Editor,
    runtime: &mut Runtime,
    handle: &Handle,
    blocks: Vec<Block>,
    servers: &mut Vec<Brought>,
) -> Result<Value, RpcError> {
    let stopped = |why: &str| Ok(json!({"stopReason": why}));
    let (question, notes) = content::question(runtime, &editor.workspace(), blocks)?;
    editor.begin(runtime.agent().redactor().hiding());
    notes.iter().for_each(|note| editor.notice(note, "info"));
    let mut person = AtEditor { editor, cancel: &handle.cancel };
    let question = match commands::read(runtime, question, &handle.cancel) {
        PromptKind::Question(question) => {
            servers::ask_about(runtime, &mut person, servers);
            question
        }
        PromptKind::OfServer(named) => {
            servers::ask_about(runtime, &mut person, servers);
            match named.text(runtime, &handle.cancel) {
                Ok(Some((title, text))) if person.agrees(&title, &text, "Send it") => text,
                Ok(_) => return stopped(if handle.cancel.is_cancelled() { "cancelled" } else { "end_turn" }),
                Err(failure) => {
                    editor.say(&failure_text(&failure));
                    return stopped("end_turn");
                }
            }
        }
        PromptKind::Goal(words) => {
            let here = Here { desk: &person, ceiling: &handle.ceiling };
            let done = commands::work_on_goal(runtime, &words, &here);
            editor.say(&done.unwrap_or_else(|failure| failure_text(&failure)));
            return stopped(if handle.cancel.is_cancelled() { "cancelled" } else { "end_turn" });
        }
        PromptKind::Done(done) => {
            editor.say(&done.unwrap_or_else(|failure| failure_text(&failure)));
            note_changed_model(editor, runtime, handle);
            return stopped(if handle.cancel.is_cancelled() { "cancelled" } else { "end_turn" });
        }
    };
    let received = runtime.receive(editor, &question);
    note_session(editor, runtime, received.conversation);
    received.answer(runtime.agent_mut(), editor, &handle.cancel, &mut person);
    let (end, spent) = editor.ended();
    tell_usage(editor, runtime, spent);
    match end {
        Some(End::Answered) => stopped(match runtime.agent().shortfall() {
            None => "end_turn",
            Some(Shortfall::Length) => "max_tokens",
            Some(Shortfall::Rounds) => "max_turn_requests",
            Some(Shortfall::Filtered) => "refusal",
        }),
        Some(End::Failed(failure)) if !handle.cancel.is_cancelled() => {
            let why = match (runtime.agent().shortfall(), failure.kind) {
                (Some(Shortfall::Length), _) => "max_tokens",
                (Some(Shortfall::Rounds), _) | (_, FailureKind::Budget) => "max_turn_requests",
                (_, FailureKind::Refused) => "refusal",
                (_, FailureKind::NoModel) => return Err(RpcError::new(AUTH_REQUIRED, failure_text(&failure))),
                _ => return Err(RpcError::new(INTERNAL_ERROR, failure_text(&failure))),
            };
            editor.say(&failure_text(&failure));
            stopped(why)
        }
        _ => stopped("cancelled"),
    }
}

/// Informs the client of a model that was chosen by a command.
fn note_changed_model(editor: &Editor, runtime: &Runtime, handle: &Handle) {
    let before = handle.options();
    note_models(handle, runtime);
    let now = handle.options();
    if before != now {
        editor.update(&json!({"sessionUpdate": "config_option_update", "configOptions": now}));
    }
}

/// Records the client's name for the conversation.
fn note_session(editor: &Editor, runtime: &Runtime, conversation: Option<ConversationId>) {
    let Some(conversation) = conversation else { return };
    let directory = runtime.cwd().display().to_string();
    let further = runtime.readable().iter().map(|path| path.display().to_string()).collect();
    editor.known().begun(conversation);
    // The client may have opened it by its number; another name would take it from the client that knows this one.
    let name = editor.known().stored.clone().unwrap_or_else(|| editor.name().to_owned());
    let session = EditorSession { name, conversation, directory, further };
    editors::note(&mut runtime.lock_store(), &session);
}

/// Reports the size of the context, and the cost of the session.
fn tell_usage(editor: &Editor, runtime: &mut Runtime, spent: Option<Spent>) {
    let Some(spent) = spent else { return };
    let used = spent.usage.total_in().saturating_add(spent.usage.total_out());
    let mut update = json!({
        "sessionUpdate": "usage_update", "used": used, "size": runtime.agent_mut().window_tokens(),
    });
    let sum = runtime.agent().conversation().and_then(|id| cost::sum_of(&runtime.lock_store(), id));
    if let Some(sum) = sum.filter(|sum| sum.unpriced == 0) {
        update["cost"] = json!({"amount": sum.cost.usd(), "currency": "USD"});
    }
    editor.update(&update);
}

/// Reports the title of the session if it has changed, after having one made.
fn tell_title(editor: &Editor, runtime: &mut Runtime, shown: &mut String) {
    app::make_title(runtime.agent(), runtime.store());
    let Some(conversation) = runtime.agent().conversation() else { return };
    let stored = conversations::stored(&runtime.lock_store(), conversation);
    if let Ok(Some(stored)) = stored
        && stored.title != *shown
    {
        shown.clone_from(&stored.title);
        editor.update(&json!({
            "sessionUpdate": "session_info_update", "title": sanitise(&stored.title), "updatedAt": utc(stored.updated),
        }));
    }
}

/// Reports the commands if they have changed: servers of tools may have added or removed prompts.
fn tell_commands(editor: &Editor, runtime: &mut Runtime, shown: &mut Vec<Value>) {
    let now = commands::available(runtime);
    if now != *shown {
        editor.update(&json!({"sessionUpdate": "available_commands_update", "availableCommands": now}));
        *shown = now;
    }
}

/// The further directories of a session that a client names, without those inside its own one.
pub(super) fn further(cwd: &Path, paths: &[PathBuf]) -> Result<Vec<PathBuf>, RpcError> {
    if paths.len() > DIRECTORIES_MAX {
        let message = format!("a session takes {DIRECTORIES_MAX} further directories");
        return Err(RpcError::new(INVALID_PARAMS, message));
    }
    let mut found: Vec<PathBuf> = Vec::new();
    for path in paths {
        let path = directory("additionalDirectories", path)?;
        if !path.starts_with(cwd) && !found.contains(&path) {
            found.push(path);
        }
    }
    Ok(found)
}

/// A directory of a session, as a client names it in a field.
pub(super) fn directory(field: &str, path: &Path) -> Result<PathBuf, RpcError> {
    let invalid = |why: &str| RpcError::new(INVALID_PARAMS, format!("{field} {}: {why}", path.display()));
    if !path.is_absolute() {
        return Err(invalid("it must be an absolute path"));
    }
    let real = path.canonicalize().map_err(|error| invalid(&error.to_string()))?;
    if real.is_dir() { Ok(real) } else { Err(invalid("it is no directory")) }
}

/// A name for a new session.
pub(super) fn new_name(number: u64) -> String {
    format!("reedclaw-{:x}-{:x}-{number:x}", host::now_unix_ms(), std::process::id())
}
