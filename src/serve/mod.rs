//! ReedClaw as a server of tools for other agents (Model Context Protocol), over standard input and output. It owns the
//! connection, the choice of the offered tools, and questions that a person answers in a session. It must not know how a tool
//! works, and the gate decides about every call.

mod asks;
mod observe;
mod outputs;
mod person;
mod protocol;

use parking_lot::{Condvar, Mutex, MutexGuard};
use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use crate::agent::{Cancel, ToolRunner};
use crate::app::{self, ChannelKind, Request, Runtime, ToolCall};
use crate::config::state_directory;
use crate::proto::Failure;
use crate::proto::tool::Outcome;
use crate::render::sanitise;
use crate::rpc::{INTERNAL_ERROR, INVALID_REQUEST, Incoming, LINE_BYTES_MAX, Peer, RpcError};
pub use asks::{Ask, Asks};
pub use outputs::Outputs;
use person::AtSession;
use protocol::{ClientRequest, Connection, mark};

/// Calls that wait for their turn; they run one after another.
const CALLS_MAX: usize = 64;
/// Time that a call may take to end when the client has gone.
const END_WAIT: Duration = Duration::from_millis(1_800);
/// Built-in tools that aren't offered: what they reach belongs to the user's own conversations.
const KEPT_BACK: [&str; 2] = ["ask_user", "memory_search"];

/// The offer to other agents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Offer {
    /// Read access to the user's sessions.
    Observe,
    /// Observing, and the built-in tools in one workspace.
    Tools,
}

/// The parts of a server.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// The config's file, if the command line names one.
    pub config: Option<PathBuf>,
    /// The offer; if none is named, the config's.
    pub offer: Option<Offer>,
    /// The directory in which tools work; by default the project around the working directory.
    pub workspace: Option<PathBuf>,
}

/// Serves the client at standard input and output until it closes the one, or a signal ends the process.
///
/// # Errors
/// The config or the workspace can't be used, or there are no threads.
pub fn run(options: Options) -> Result<(), Failure> {
    let (ready, started) = sync_channel(1);
    // The tools' programs end with the thread that starts them, so it stays as long as there are calls.
    let work = move || match prepared(&options) {
        Ok((server, received, mut work)) => {
            let _ = ready.send(Ok(Arc::clone(&server)));
            while let Ok(call) = received.recv() {
                let result = if call.cancel.is_cancelled() { json!({}) } else { work.carry_out(&call, &server.peer) };
                server.finish(&call, result);
            }
        }
        Err(failure) => {
            let _ = ready.send(Err(failure));
        }
    };
    spawn("serve", work)?;
    let server = started.recv().map_err(|_| Failure::internal("the server ended"))??;
    let writer = Arc::clone(&server);
    spawn("serve-out", move || writer.write())?;
    let reader = Arc::clone(&server);
    spawn("serve-in", move || reader.read())?;
    if let Ok(mut signals) = Signals::new([SIGTERM, SIGINT, SIGHUP]) {
        let signalled = Arc::clone(&server);
        let wait = move || {
            if signals.forever().next().is_some() {
                signalled.over();
            }
        };
        spawn("serve-signals", wait)?;
    }
    server.wait();
    Ok(())
}

fn spawn(name: &str, work: impl FnOnce() + Send + 'static) -> Result<(), Failure> {
    let spawned = thread::Builder::new().name(name.to_owned()).spawn(work);
    spawned.map(drop).map_err(|error| Failure::internal(format!("a thread can't be started: {error}")))
}
/// Puts the server together, and the parts that carry its calls out.
fn prepared(options: &Options) -> Result<(Arc<Server>, Receiver<Waiting>, Work), Failure> {
    let request = Request { config: options.config.clone(), channel: ChannelKind::Serve, ..Request::default() };
    let runtime = Runtime::start(&request)?;
    for problem in runtime.problems() {
        tracing::warn!(event = "config_problem", message = problem.message);
    }
    let workspace = match &options.workspace {
        Some(named) => {
            let place = named.canonicalize().map_err(|error| {
                Failure::user(format!("the workspace {} can't be used: {error}", named.display()))
                    .hint("--workspace takes an existing directory")
            })?;
            app::workspace_named(runtime.env(), &place)?
        }
        None => runtime.workspace_around(runtime.cwd()),
    };
    let serve = runtime.settings().mcp.serve;
    let offer = options.offer.unwrap_or(if serve.has_tools { Offer::Tools } else { Offer::Observe });
    let runner = match offer {
        Offer::Observe => None,
        Offer::Tools => Some(runner(&runtime, &workspace)?),
    };
    let mut tools = observe::definitions(serve.has_outputs);
    tools.extend(runner.iter().flat_map(definitions));
    let (calls, received) = sync_channel(CALLS_MAX);
    let server = Server {
        peer: Peer::default(),
        tools,
        instructions: instructions(offer, &workspace),
        calls: Mutex::new(Some(calls)),
        state: Mutex::default(),
        changed: Condvar::new(),
    };
    let asks = state_directory(runtime.env()).map(|state| Asks::at(&state));
    Ok((Arc::new(server), received, Work { runtime, runner, workspace, asks }))
}

fn runner(runtime: &Runtime, workspace: &Path) -> Result<ToolRunner, Failure> {
    let built = runtime.runner_in(workspace, Some(ChannelKind::Serve))?;
    for problem in &built.problems {
        tracing::warn!(event = "tools_problem", message = problem.message);
    }
    Ok(built.runner)
}

/// The definitions of the built-in tools.
fn definitions(runner: &ToolRunner) -> Vec<Value> {
    let specs = runner.registry().specs().filter(|spec| !KEPT_BACK.contains(&spec.name.as_str()));
    let definition = |spec: &crate::tools::Spec| json!({"name": spec.name, "description": spec.description, "inputSchema": spec.schema});
    specs.map(definition).collect()
}

fn instructions(offer: Offer, workspace: &Path) -> String {
    let looks = "ReedClaw is the user's shell. These tools look at its sessions, history, policy, receipts and costs.";
    match offer {
        Offer::Observe => looks.to_owned(),
        Offer::Tools => format!(
            "{looks} The others work in {}. Each call is judged by the user's policy; one that needs a yes waits for the \
             user at a ReedClaw session, for two minutes at most.",
            workspace.display()
        ),
    }
}

/// A call that waits for its turn.
struct Waiting {
    id: Value,
    name: String,
    arguments: Value,
    progress: Value,
    is_modern: bool,
    client: String,
    cancel: Cancel,
}

#[derive(Default)]
struct State {
    connection: Connection,
    /// The calls without an answer, by their ids as JSON.
    open: BTreeMap<String, Cancel>,
    /// True if the client has disconnected.
    is_over: bool,
}

/// The server, as one client has it.
struct Server {
    peer: Peer,
    tools: Vec<Value>,
    instructions: String,
    /// `None` once the client has disconnected.
    calls: Mutex<Option<SyncSender<Waiting>>>,
    state: Mutex<State>,
    changed: Condvar,
}

impl Server {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }

    fn write(&self) {
        if self.peer.write_to(&mut io::stdout()).is_err() {
            self.over();
        }
    }

    /// Reads the client's messages until there are no more.
    fn read(&self) {
        self.peer.read(io::stdin(), LINE_BYTES_MAX, |message| self.take(message));
        self.over();
    }

    /// Ends all work; the process follows.
    fn over(&self) {
        self.calls.lock().take();
        let mut state = self.state();
        state.is_over = true;
        state.open.values().for_each(Cancel::cancel);
        self.changed.notify_all();
    }

    /// Waits for the end, and then for calls, but not for long.
    fn wait(&self) {
        let mut state = self.state();
        while !state.is_over {
            self.changed.wait(&mut state);
        }
        let until = Instant::now() + END_WAIT;
        while !state.open.is_empty() && Instant::now() < until {
            let left = until.saturating_duration_since(Instant::now());
            self.changed.wait_for(&mut state, left);
        }
        drop(state);
        self.peer.drain(until);
        self.peer.close();
    }

    fn take(&self, message: Incoming) {
        match message {
            Incoming::Empty | Incoming::Response { .. } => {}
            Incoming::Bad { id, error } => self.peer.answer(&id, Err(error)),
            Incoming::Notification { method, params } => {
                if method == "notifications/cancelled"
                    && let Some(cancel) = self.state().open.get(&params["requestId"].to_string())
                {
                    cancel.cancel();
                }
            }
            Incoming::Request { id, method, params } => {
                if let Some(answer) = self.asked(&id, &method, &params).transpose() {
                    self.peer.answer(&id, answer);
                }
            }
        }
    }

    /// Answers a request, or hands a call on.
    fn asked(&self, id: &Value, method: &str, params: &Value) -> Result<Option<Value>, RpcError> {
        let mut state = self.state();
        let meant = state.connection.understand(method, params, &self.tools, &self.instructions)?;
        let (name, arguments, progress, is_modern) = match meant {
            ClientRequest::Answer(result) => return Ok(Some(result)),
            ClientRequest::Call { name, arguments, progress, is_modern } => (name, arguments, progress, is_modern),
        };
        let key = id.to_string();
        if state.open.contains_key(&key) {
            return Err(RpcError::new(INVALID_REQUEST, "a call with this id is still running"));
        }
        let (cancel, client) = (Cancel::new(), state.connection.client.clone());
        let call = Waiting { id: id.clone(), name, arguments, progress, is_modern, client, cancel: cancel.clone() };
        let ends = || RpcError::new(INTERNAL_ERROR, "the server ends");
        let calls = self.calls.lock();
        calls.as_ref().ok_or_else(ends)?.try_send(call).map_err(|error| match error {
            TrySendError::Full(_) => RpcError::new(INVALID_REQUEST, "too many calls wait already"),
            TrySendError::Disconnected(_) => ends(),
        })?;
        state.open.insert(key, cancel);
        Ok(None)
    }

    /// Answers a call that has ended, unless the client has cancelled it.
    fn finish(&self, call: &Waiting, mut result: Value) {
        mark(&mut result, call.is_modern);
        let mut state = self.state();
        state.open.remove(&call.id.to_string());
        if !call.cancel.is_cancelled() {
            self.peer.answer(&call.id, Ok(result));
        }
        self.changed.notify_all();
    }
}

/// The parts that carry calls out.
struct Work {
    runtime: Runtime,
    runner: Option<ToolRunner>,
    workspace: PathBuf,
    asks: Option<Asks>,
}

impl Work {
    fn carry_out(&mut self, call: &Waiting, peer: &Peer) -> Value {
        let began = Instant::now();
        let redact = self.runtime.agent().redactor().hiding();
        let clean = |text: &str| sanitise(&redact(text)).into_owned();
        let seen = observe::call(&call.name, &call.arguments, &self.runtime, &self.workspace);
        let (result, is_error) = match (seen, &mut self.runner) {
            (Some(Ok(value)), _) => {
                let value = cleaned(value, &clean);
                let text = value.to_string();
                (json!({"content": [text_part(&text)], "structuredContent": value}), false)
            }
            (Some(Err(why)), _) => (json!({"content": [text_part(&clean(&why))]}), true),
            (None, Some(runner)) => {
                let wish = ToolCall {
                    id: call.id.to_string(),
                    name: call.name.clone(),
                    arguments: call.arguments.to_string(),
                };
                let mut person = AtSession {
                    asks: self.asks.as_ref(),
                    client: &call.client,
                    cancel: &call.cancel,
                    peer,
                    progress: &call.progress,
                };
                let outcome = runner.call(&wish, None, &call.cancel, &mut person, &mut |_| {});
                result_object(&outcome, &clean)
            }
            (None, None) => (json!({"content": [text_part("there is no such tool")]}), true),
        };
        let (client, took_ms) = (sanitise(&call.client), began.elapsed().as_millis());
        tracing::info!(event = "served_call", client = &*client, tool = call.name, is_error, took_ms = %took_ms);
        let mut result = result;
        result["isError"] = is_error.into();
        result
    }
}

/// A tool's outcome for another agent.
fn result_object(outcome: &Outcome, clean: &dyn Fn(&str) -> String) -> (Value, bool) {
    let mut text = clean(&outcome.output);
    if let Some(error) = &outcome.error {
        let hint = if error.hint.is_empty() { String::new() } else { format!(" ({})", error.hint) };
        text = format!("{}: {}{hint}\n{text}", error.code, clean(&error.message));
    }
    let mut result = json!({"content": [text_part(text.trim_end())]});
    if let Some(receipt) = &outcome.receipt_id {
        result["_meta"] = json!({"reedclaw/receipt": receipt});
    }
    (result, !outcome.success)
}

fn text_part(text: &str) -> Value {
    json!({"type": "text", "text": text})
}

/// A value with each of its texts cleaned.
fn cleaned(value: Value, clean: &dyn Fn(&str) -> String) -> Value {
    match value {
        Value::String(text) => clean(&text).into(),
        Value::Array(items) => items.into_iter().map(|item| cleaned(item, clean)).collect(),
        Value::Object(fields) => fields.into_iter().map(|(name, value)| (name, cleaned(value, clean))).collect(),
        other => other,
    }
}
