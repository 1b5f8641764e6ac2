//! A client of the Agent Client Protocol: starts `reedclaw acp`, sends the messages of a test, and checks every message that
//! arrives against the protocol's published schema.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use reedclaw::schema::Schema;
use serde_json::{Value, json};

use crate::need::TEST_PATH;
use crate::pty::program;
use crate::wait::wait_for_end;

/// Maximum wait: the machine may be busy.
const PATIENCE: Duration = Duration::from_secs(60);

/// A test's reaction to a request of the agent.
pub type Responder = Box<dyn FnMut(&Client, &Value) -> Option<Value>>;

/// A running agent, and its messages.
pub struct Client {
    child: RefCell<Child>,
    input: RefCell<Option<ChildStdin>>,
    lines: Receiver<String>,
    last: RefCell<u64>,
    /// The methods of requests that have no response yet.
    asked: RefCell<BTreeMap<u64, String>>,
    /// All messages that arrived, in order.
    pub seen: RefCell<Vec<Value>>,
    responder: RefCell<Option<Responder>>,
}

/// The definitions that describe a method's parameters and its result.
fn definitions(method: &str) -> (&'static str, &'static str) {
    match method {
        "initialize" => ("InitializeRequest", "InitializeResponse"),
        "session/new" => ("NewSessionRequest", "NewSessionResponse"),
        "session/load" => ("LoadSessionRequest", "LoadSessionResponse"),
        "session/resume" => ("ResumeSessionRequest", "ResumeSessionResponse"),
        "session/list" => ("ListSessionsRequest", "ListSessionsResponse"),
        "session/close" => ("CloseSessionRequest", "CloseSessionResponse"),
        "session/delete" => ("DeleteSessionRequest", "DeleteSessionResponse"),
        "session/prompt" => ("PromptRequest", "PromptResponse"),
        "session/set_mode" => ("SetSessionModeRequest", "SetSessionModeResponse"),
        "session/set_config_option" => ("SetSessionConfigOptionRequest", "SetSessionConfigOptionResponse"),
        "session/update" => ("SessionNotification", ""),
        "session/request_permission" => ("RequestPermissionRequest", "RequestPermissionResponse"),
        "elicitation/create" => ("CreateElicitationRequest", "CreateElicitationResponse"),
        "fs/read_text_file" => ("ReadTextFileRequest", "ReadTextFileResponse"),
        "$/cancel_request" => ("CancelRequestNotification", ""),
        other => panic!("no agent sends {other}"),
    }
}

#[track_caller]
fn hold(definition: &str, value: &Value) {
    let text = include_str!("../../data/acp/schema.json");
    let mut root: Value = serde_json::from_str(text).expect("the schema");
    let whole = json!({"$ref": format!("#/$defs/{definition}"), "$defs": root["$defs"].take()});
    let schema = Schema::foreign(&whole).expect("a schema that can be checked");
    assert_eq!(schema.problems(value), Vec::<String>::new(), "{definition}: {value}");
}

/// Checks an update against the schema of its kind.
fn hold_update(update: &Value) {
    let kind = update["sessionUpdate"].as_str().expect("the kind of an update");
    let definition = match kind {
        "user_message_chunk" | "agent_message_chunk" | "agent_thought_chunk" => "ContentChunk",
        "tool_call" => "ToolCall",
        "tool_call_update" => "ToolCallUpdate",
        "available_commands_update" => "AvailableCommandsUpdate",
        "current_mode_update" => "CurrentModeUpdate",
        "config_option_update" => "ConfigOptionUpdate",
        "session_info_update" => "SessionInfoUpdate",
        "usage_update" => "UsageUpdate",
        "plan" => "Plan",
        "notice" => "Notice",
        other => panic!("an update {other}: {update}"),
    };
    hold(definition, update);
}

impl Client {
    /// Starts an agent for the user of `home`, and sends nothing yet.
    pub fn start(home: &Path) -> Self {
        let mut command = Command::new(program());
        command.arg("acp").env_clear().env("PATH", TEST_PATH).env("HOME", home).env("LANG", "C.UTF-8");
        command.current_dir("/").stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::inherit());
        let mut child = command.spawn().expect("it starts");
        let output = child.stdout.take().expect("its output");
        let input = child.stdin.take();
        let (sender, lines) = channel();
        std::thread::spawn(move || {
            for line in BufReader::new(output).lines() {
                let Ok(line) = line else { return };
                if sender.send(line).is_err() {
                    return;
                }
            }
        });
        Self {
            child: RefCell::new(child),
            input: RefCell::new(input),
            lines,
            last: RefCell::new(0),
            asked: RefCell::default(),
            seen: RefCell::default(),
            responder: RefCell::default(),
        }
    }

    /// Starts one and initializes it; `capabilities` are the client's.
    pub fn connected(home: &Path, capabilities: Value) -> Self {
        let client = Self::start(home);
        let params = json!({"protocolVersion": 1, "clientCapabilities": capabilities,
            "clientInfo": {"name": "test", "version": "1"}});
        assert_eq!(client.request("initialize", params)["result"]["protocolVersion"], 1);
        client
    }

    /// Answers requests of the agent from now on.
    pub fn respond(&self, responder: impl FnMut(&Self, &Value) -> Option<Value> + 'static) {
        *self.responder.borrow_mut() = Some(Box::new(responder));
    }

    /// Writes a line unchanged.
    pub fn raw(&self, line: &[u8]) {
        let mut input = self.input.borrow_mut();
        let input = input.as_mut().expect("an open input");
        input.write_all(line).and_then(|()| input.write_all(b"\n")).and_then(|()| input.flush()).expect("it reads");
    }

    /// Sends a request and returns its id.
    pub fn send(&self, method: &str, params: Value) -> u64 {
        let id = *self.last.borrow() + 1;
        *self.last.borrow_mut() = id;
        self.asked.borrow_mut().insert(id, method.to_owned());
        self.raw(json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}).to_string().as_bytes());
        id
    }

    pub fn notify(&self, method: &str, params: Value) {
        self.raw(json!({"jsonrpc": "2.0", "method": method, "params": params}).to_string().as_bytes());
    }

    /// Sends a request and waits for its response; answers the agent's requests meanwhile.
    pub fn request(&self, method: &str, params: Value) -> Value {
        let id = self.send(method, params);
        self.response(id)
    }

    /// Waits for the response to a request.
    pub fn response(&self, id: u64) -> Value {
        let is_it = |message: &&Value| message["id"] == id && message.get("method").is_none();
        if let Some(found) = self.seen.borrow().iter().find(is_it) {
            return found.clone();
        }
        self.until(&format!("a response to {id}"), |message| message["id"] == id && message.get("method").is_none())
    }

    /// Waits for an update of a kind.
    pub fn update(&self, kind: &str) -> Value {
        let found = self.until(kind, |message| message.pointer("/params/update/sessionUpdate") == Some(&json!(kind)));
        found["params"]["update"].clone()
    }

    /// Waits for a message, and processes those before it, too.
    pub fn until(&self, what: &str, is_it: impl Fn(&Value) -> bool) -> Value {
        let until = Instant::now() + PATIENCE;
        loop {
            let message = self.next(until).unwrap_or_else(|| panic!("no {what}; it said {:#?}", self.seen.borrow()));
            let is_found = is_it(&message);
            self.answer(&message);
            if is_found {
                return message;
            }
        }
    }

    fn answer(&self, message: &Value) {
        if message.get("method").is_none() || message.get("id").is_none() {
            return;
        }
        let responder = self.responder.borrow_mut().take();
        if let Some(mut responder) = responder {
            if let Some(result) = responder(self, message) {
                let method = message["method"].as_str().expect("a method");
                hold(definitions(method).1, &result);
                self.raw(json!({"jsonrpc": "2.0", "id": message["id"], "result": result}).to_string().as_bytes());
            }
            self.responder.borrow_mut().get_or_insert(responder);
        }
    }

    /// The next message, checked against the schema; `None` if there are no more.
    fn next(&self, until: Instant) -> Option<Value> {
        let line = match self.lines.recv_timeout(until.saturating_duration_since(Instant::now())) {
            Ok(line) => line,
            Err(RecvTimeoutError::Timeout) => panic!("it is silent; it said {:#?}", self.seen.borrow()),
            Err(RecvTimeoutError::Disconnected) => return None,
        };
        let message: Value = serde_json::from_str(&line).unwrap_or_else(|_| panic!("no message: {line}"));
        assert_eq!(message["jsonrpc"], "2.0", "{line}");
        match (message["method"].as_str(), message.get("error"), message["id"].as_u64()) {
            (Some(method), ..) => {
                hold(definitions(method).0, &message["params"]);
                if method == "session/update" {
                    hold_update(&message["params"]["update"]);
                }
            }
            (None, Some(error), _) => hold("Error", error),
            (None, None, id) => {
                let id = id.expect("the id of a request");
                let method = self.asked.borrow_mut().remove(&id).expect("a response to a request, and only one");
                hold(definitions(&method).1, &message["result"]);
            }
        }
        self.seen.borrow_mut().push(message.clone());
        Some(message)
    }

    /// Opens a session in a directory.
    pub fn session(&self, cwd: &Path) -> String {
        let opened = self.request("session/new", json!({"cwd": cwd, "mcpServers": []}));
        opened["result"]["sessionId"].as_str().unwrap_or_else(|| panic!("no session: {opened}")).to_owned()
    }

    /// Sends a prompt of one text, and waits for its end.
    pub fn prompt(&self, session: &str, text: &str) -> Value {
        self.request("session/prompt", text_prompt(session, text))
    }

    /// The updates of a kind that arrived, the oldest first.
    pub fn updates(&self, kind: &str) -> Vec<Value> {
        let seen = self.seen.borrow();
        let updates = seen.iter().filter_map(|message| message.pointer("/params/update"));
        updates.filter(|update| update["sessionUpdate"] == kind).cloned().collect()
    }

    /// The text of all pieces of a kind.
    pub fn text(&self, kind: &str) -> String {
        let of = |update: &Value| update["content"]["text"].as_str().unwrap_or_default().to_owned();
        self.updates(kind).iter().map(of).collect()
    }

    /// The requests that arrived for a method.
    pub fn requests(&self, method: &str) -> Vec<Value> {
        let seen = self.seen.borrow();
        let all = seen.iter().filter(|message| message["method"] == method && message.get("id").is_some());
        all.map(|message| message["params"].clone()).collect()
    }

    /// Closes the agent's input.
    pub fn hang_up(&self) {
        self.input.borrow_mut().take();
    }

    pub fn pid(&self) -> u32 {
        self.child.borrow().id()
    }

    /// Waits for the end of the process; returns its status and how long the end took.
    pub fn end(&self) -> (ExitStatus, Duration) {
        let began = Instant::now();
        (wait_for_end(&mut self.child.borrow_mut()), began.elapsed())
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        let mut child = self.child.borrow_mut();
        let _ = child.kill();
        let _ = child.wait();
    }
}

pub fn text_prompt(session: &str, text: &str) -> Value {
    json!({"sessionId": session, "prompt": [{"type": "text", "text": text}]})
}

/// The answer to a request for permission.
pub fn chosen(option: &str) -> Value {
    json!({"outcome": {"outcome": "selected", "optionId": option}})
}
