//! ReedClaw inside an editor: an agent of the Agent Client Protocol, version 1, over standard input and output. It owns the
//! connection, the sessions and the client's requests to them. It must not know how an answer is made, and writes only messages
//! of the protocol to standard output.

mod calls;
mod channel;
mod commands;
mod content;
mod options;
mod person;
mod replay;
mod servers;
mod session;
mod wire;

use parking_lot::{Condvar, Mutex, MutexGuard};
use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};
use std::thread;
use std::time::{Duration, Instant};

use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use crate::app::{ChannelKind, Request, Runtime};
use crate::base::time::utc;
use crate::ops::{conversations, editors};
use crate::proto::Failure;
use crate::render::sanitise;
use crate::rpc::{
    INTERNAL_ERROR, INVALID_PARAMS, INVALID_REQUEST, Incoming, LINE_BYTES_MAX, METHOD_NOT_FOUND, Peer, RpcError,
};
use crate::store::{EditorSession, Store, StoredConversation};
use session::{Handle, Known, Opening, Wanted};
use wire::{Abilities, CancelRequest, Initialize, List, OfSession, Open, Prompt, SetMode, SetOption, VERSION};

/// The protocol's error codes beyond those of JSON-RPC.
const AUTH_REQUIRED: i64 = -32_000;
const NOT_FOUND: i64 = -32_002;
/// Sessions at once.
const SESSIONS_MAX: usize = 8;
/// Sessions of one page of a list.
const LIST_ROWS: usize = 50;
/// Time that sessions may take to end when the client has gone.
const END_WAIT: Duration = Duration::from_millis(1_800);

/// The options of an agent.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// `--config PATH`.
    pub config: Option<PathBuf>,
}

/// Serves the client at standard input and output until it closes the one, or a signal ends the process.
///
/// # Errors
/// The config can't be read, or there are no threads.
pub fn run(options: Options) -> Result<(), Failure> {
    let request = Request { config: options.config.clone(), channel: ChannelKind::Acp, ..Request::default() };
    let runtime = Runtime::start(&request)?;
    let agent = Arc::new(Agent {
        config: options.config,
        store: Arc::clone(runtime.store()),
        has_models: !runtime.agent().models().is_empty(),
        peer: Arc::default(),
        abilities: OnceLock::new(),
        sessions: Mutex::default(),
        changed: Condvar::new(),
    });
    for problem in runtime.problems() {
        tracing::warn!(event = "config_problem", message = problem.message);
    }
    drop(runtime);
    let thread = |name: &str, work: Box<dyn FnOnce() + Send>| {
        thread::Builder::new()
            .name(name.to_owned())
            .spawn(work)
            .map(drop)
            .map_err(|error| Failure::internal(format!("a thread can't be started: {error}")))
    };
    let writer = Arc::clone(&agent);
    thread("acp-out", Box::new(move || writer.write()))?;
    let reader = Arc::clone(&agent);
    thread("acp-in", Box::new(move || reader.read()))?;
    if let Ok(mut signals) = Signals::new([SIGTERM, SIGINT, SIGHUP]) {
        let signalled = Arc::clone(&agent);
        thread(
            "acp-signals",
            Box::new(move || {
                if signals.forever().next().is_some() {
                    signalled.over();
                }
            }),
        )?;
    }
    agent.wait();
    Ok(())
}

#[derive(Default)]
struct Sessions {
    open: BTreeMap<String, Slot>,
    last: u64,
    /// True if the client has disconnected.
    is_over: bool,
}

/// The place of an open session.
struct Slot {
    /// Its handle, once it is ready.
    handle: Option<Arc<Handle>>,
    known: Known,
}

impl Sessions {
    fn handles(&self) -> impl Iterator<Item = &Arc<Handle>> {
        self.open.values().filter_map(|slot| slot.handle.as_ref())
    }

    /// Returns whether a session of this name, or another one with the same conversation, is open.
    fn has(&self, name: &str, known: &Known) -> bool {
        let conversation = known.conversation();
        let is_same = |slot: &Slot| conversation.is_some() && slot.known.conversation() == conversation;
        self.open.contains_key(name) || self.open.values().any(is_same)
    }
}

/// The agent, as one client has it.
struct Agent {
    config: Option<PathBuf>,
    store: Arc<Mutex<Store>>,
    has_models: bool,
    peer: Arc<Peer>,
    abilities: OnceLock<Abilities>,
    sessions: Mutex<Sessions>,
    changed: Condvar,
}

/// The result of a request that is answered at once, or `None` if a session answers it.
type Answer = Result<Option<Value>, RpcError>;

impl Agent {
    fn sessions(&self) -> MutexGuard<'_, Sessions> {
        self.sessions.lock()
    }

    fn write(&self) {
        if self.peer.write_to(&mut io::stdout()).is_err() {
            self.over();
        }
    }

    /// Reads the client's messages until there are no more.
    fn read(self: &Arc<Self>) {
        self.peer.read(io::stdin(), LINE_BYTES_MAX, |message| self.take(message));
        self.over();
    }

    /// Ends all work; the process follows.
    fn over(&self) {
        let mut sessions = self.sessions();
        sessions.is_over = true;
        sessions.handles().for_each(|handle| handle.end());
        self.changed.notify_all();
    }

    /// Waits for the end, and then for the sessions, but not for long.
    fn wait(&self) {
        let mut sessions = self.sessions();
        while !sessions.is_over {
            self.changed.wait(&mut sessions);
        }
        let until = Instant::now() + END_WAIT;
        while !sessions.open.is_empty() && Instant::now() < until {
            let left = until.saturating_duration_since(Instant::now());
            self.changed.wait_for(&mut sessions, left);
        }
        let left = sessions.open.len();
        drop(sessions);
        self.peer.drain(until);
        self.peer.close();
        tracing::info!(event = "editor_gone", sessions_cut = left);
    }

    fn take(self: &Arc<Self>, message: Incoming) {
        match message {
            Incoming::Empty => {}
            Incoming::Bad { id, error } => self.peer.answer(&id, Err(error)),
            Incoming::Response { id, result } => self.peer.responded(&id, result),
            Incoming::Notification { method, params } => self.noted(&method, params),
            Incoming::Request { id, method, params } => match self.asked(&id, &method, params) {
                Ok(None) => {}
                Ok(Some(result)) => self.peer.answer(&id, Ok(result)),
                Err(error) => self.peer.answer(&id, Err(error)),
            },
        }
    }

    fn noted(&self, method: &str, params: Value) {
        match method {
            "session/cancel" => {
                if let Ok(handle) = read::<OfSession>(params).and_then(|it| self.session(&it.session_id)) {
                    handle.stop(None);
                }
            }
            "$/cancel_request" => {
                if let Ok(CancelRequest { request_id }) = read(params) {
                    let sessions = self.sessions();
                    sessions.handles().for_each(|handle| handle.stop(Some(&request_id)));
                }
            }
            // Other messages are ignored.
            _ => {}
        }
    }

    fn asked(self: &Arc<Self>, id: &Value, method: &str, params: Value) -> Answer {
        if method == "initialize" {
            return self.initialize(read(params)?).map(Some);
        }
        let Some(abilities) = self.abilities.get() else {
            return Err(RpcError::new(INVALID_REQUEST, "initialize comes first"));
        };
        match method {
            "authenticate" => Err(RpcError::new(INVALID_PARAMS, "there is nothing to authenticate")),
            "session/new" => self.open(id, Opening::New, read(params)?, *abilities),
            "session/load" => self.open(id, Opening::Load, read(params)?, *abilities),
            "session/resume" => self.open(id, Opening::Resume, read(params)?, *abilities),
            "session/list" => self.list(read(params)?).map(Some),
            "session/delete" => self.delete(&read::<OfSession>(params)?.session_id).map(Some),
            "session/close" => {
                let OfSession { session_id } = read(params)?;
                let handle = self.session(&session_id)?;
                handle.close(id)?;
                Ok(None)
            }
            "session/prompt" => {
                let Prompt { session_id, prompt } = read(params)?;
                self.session(&session_id)?.ask(id, prompt).map(|()| None)
            }
            "session/set_mode" => {
                let SetMode { session_id, mode_id } = read(params)?;
                self.session(&session_id)?.set_mode(&session_id, &self.peer, &mode_id).map(|()| Some(json!({})))
            }
            "session/set_config_option" => {
                let SetOption { session_id, config_id, value } = read(params)?;
                let handle = self.session(&session_id)?;
                handle.set_option(&session_id, &self.peer, id, (&config_id, &value))
            }
            _ => Err(RpcError::new(METHOD_NOT_FOUND, format!("there is no method {method:?}"))),
        }
    }

    fn initialize(&self, params: Initialize) -> Result<Value, RpcError> {
        let abilities = Abilities::of(&params.client_capabilities);
        if self.abilities.set(abilities).is_err() {
            return Err(RpcError::new(INVALID_REQUEST, "this connection is initialized already"));
        }
        let name = params.client_info.get("name").and_then(Value::as_str).unwrap_or("unknown");
        tracing::info!(event = "editor_connected", name = &*sanitise(name));
        let methods = if !self.has_models && abilities.has_terminal {
            json!([{
                "type": "terminal", "id": "setup", "name": "Set up a model",
                "description": "Asks in a terminal which model answers", "args": ["--setup"],
            }])
        } else {
            json!([])
        };
        Ok(json!({
            "protocolVersion": VERSION,
            "agentInfo": {"name": "reedclaw", "title": "ReedClaw", "version": env!("CARGO_PKG_VERSION")},
            "agentCapabilities": {
                "loadSession": true,
                "promptCapabilities": {"image": true, "audio": false, "embeddedContext": true},
                "mcpCapabilities": {"http": true, "sse": false},
                "sessionCapabilities": {
                    "list": {}, "delete": {}, "resume": {}, "close": {}, "additionalDirectories": {},
                },
            },
            "authMethods": methods,
        }))
    }

    /// The session of a name.
    fn session(&self, name: &str) -> Result<Arc<Handle>, RpcError> {
        let found = self.sessions().open.get(name).and_then(|slot| slot.handle.clone());
        found.ok_or_else(|| RpcError::new(INVALID_PARAMS, "there is no such session; session/load opens one again"))
    }

    /// Opens a session on a thread of its own, which answers.
    fn open(self: &Arc<Self>, id: &Value, opening: Opening, params: Open, abilities: Abilities) -> Answer {
        let Open { session_id, cwd: written, additional_directories, mcp_servers } = params;
        let cwd = session::directory("cwd", &written)?;
        let readable = session::further(&cwd, &additional_directories)?;
        let known = match (opening, &session_id) {
            (Opening::New, _) => Known::default(),
            (_, Some(name)) => Known::of(&self.store, name)?,
            (_, None) => return Err(RpcError::new(INVALID_PARAMS, "sessionId is missing")),
        };
        let name = {
            let mut sessions = self.sessions();
            if sessions.open.len() >= SESSIONS_MAX {
                let message = format!("{SESSIONS_MAX} sessions are open; close one first");
                return Err(RpcError::new(INVALID_REQUEST, message));
            }
            sessions.last += 1;
            let new = session::new_name(sessions.last);
            let name = session_id.filter(|_| opening != Opening::New).unwrap_or(new);
            if sessions.has(&name, &known) {
                return Err(RpcError::new(INVALID_REQUEST, "this session is open already"));
            }
            sessions.open.insert(name.clone(), Slot { handle: None, known: known.clone() });
            name
        };
        let wanted = Wanted {
            id: id.clone(),
            opening,
            name: name.clone(),
            known,
            cwd,
            written,
            config: self.config.clone(),
            store: Arc::clone(&self.store),
            peer: Arc::clone(&self.peer),
            abilities,
            readable,
            servers: mcp_servers,
        };
        let agent = Arc::clone(self);
        let started = thread::Builder::new().name("acp-session".to_owned()).spawn(move || {
            // In any case its place is free afterwards.
            let place = Place { agent: &agent, name };
            session::serve(wanted, &|handle| place.take(handle));
        });
        match started {
            Ok(_) => Ok(None),
            Err(error) => Err(RpcError::new(INTERNAL_ERROR, format!("a thread can't be started: {error}"))),
        }
    }

    fn list(&self, params: List) -> Result<Value, RpcError> {
        let from: usize = match params.cursor.as_deref() {
            None => 0,
            Some(cursor) => cursor.parse().map_err(|_| RpcError::new(INVALID_PARAMS, "this cursor isn't ours"))?,
        };
        let directory = params.cwd.map(|cwd| cwd.canonicalize().unwrap_or(cwd).display().to_string());
        let listed = editors::list(&self.store.lock(), directory.as_deref(), (from, LIST_ROWS));
        let (sessions, has_more) = listed.map_err(|failure| RpcError::new(INTERNAL_ERROR, failure.message))?;
        let row = |(session, stored): (EditorSession, StoredConversation)| {
            json!({
                "sessionId": session.name, "cwd": session.directory, "title": sanitise(&stored.title),
                "updatedAt": utc(stored.updated), "additionalDirectories": session.further,
            })
        };
        let mut result = json!({"sessions": sessions.into_iter().map(row).collect::<Vec<_>>()});
        if has_more {
            result["nextCursor"] = (from + LIST_ROWS).to_string().into();
        }
        Ok(result)
    }

    fn delete(&self, name: &str) -> Result<Value, RpcError> {
        let open = || RpcError::new(INVALID_REQUEST, "this session is open; session/close ends it");
        // A conversation without a question isn't stored yet.
        if self.sessions().open.contains_key(name) {
            return Err(open());
        }
        let known = Known::of(&self.store, name)?;
        let conversation = known.conversation().filter(|_| !self.sessions().has(name, &known)).ok_or_else(open)?;
        let deleted = conversations::delete(&mut self.store.lock(), conversation);
        deleted.map(|()| json!({})).map_err(|failure| RpcError::new(INTERNAL_ERROR, failure.message))
    }
}

/// A session's place among the open ones.
struct Place<'a> {
    agent: &'a Agent,
    name: String,
}

impl Place<'_> {
    fn take(&self, handle: Arc<Handle>) -> Result<(), RpcError> {
        let mut sessions = self.agent.sessions();
        if sessions.is_over {
            return Err(RpcError::new(INVALID_REQUEST, "the client has gone"));
        }
        if let Some(slot) = sessions.open.get_mut(&self.name) {
            slot.handle = Some(handle);
        }
        Ok(())
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        let handle = self.agent.sessions().open.remove(&self.name).and_then(|slot| slot.handle);
        // Its name is free by now, so that the client may open it again.
        if let Some(id) = handle.and_then(|handle| handle.closed_by()) {
            self.agent.peer.answer(&id, Ok(json!({})));
        }
        self.agent.changed.notify_all();
    }
}

/// Reads the parameters of a method.
fn read<T: DeserializeOwned>(params: Value) -> Result<T, RpcError> {
    let params = if params.is_null() { json!({}) } else { params };
    T::deserialize(&params).map_err(|error| {
        let message = error.to_string();
        let field = wrong_field::<T>(&params, &message);
        RpcError::new(INVALID_PARAMS, field.map_or_else(|| message.clone(), |field| format!("{field}: {message}")))
    })
}

/// The parameter that an error is about: without it the error is gone, or another one comes.
fn wrong_field<T: DeserializeOwned>(params: &Value, message: &str) -> Option<String> {
    // It names the field itself.
    if message.starts_with("missing field") {
        return None;
    }
    let is_wrong = |name: &String| {
        let mut others = params.as_object().cloned().unwrap_or_default();
        others.remove(name);
        serde_json::from_value::<T>(others.into()).map_or_else(|error| error.to_string() != message, |_| true)
    };
    params.as_object()?.keys().find(|name| is_wrong(name)).cloned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_about_parameters_names_the_wrong_one() {
        let table = [
            (json!({ "cwd": "/", "mcpServers": "x" }), "mcpServers: invalid type: string \"x\", expected a sequence"),
            (json!({ "cwd": 1, "mcpServers": [] }), "cwd: invalid type: integer `1`, expected path string"),
            (json!({ "cwd": 1, "sessionId": 2 }), "cwd: invalid type: integer `1`, expected path string"),
            (json!({ "mcpServers": [] }), "missing field `cwd`"),
        ];
        for (params, expected) in table {
            let error = read::<wire::Open>(params.clone()).expect_err("wrong parameters");
            assert_eq!(error.message, expected, "{params}");
        }
    }
}
