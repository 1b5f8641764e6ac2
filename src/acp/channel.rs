//! An editor's session as a channel: takes its prompts one after the other, and sends what happens as updates.

use parking_lot::{Mutex, MutexGuard};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::Receiver;

use serde_json::{Value, json};

use super::calls::{begun, ended};
use super::wire::{Abilities, Voice, call_text, chunk};
use crate::app::{Channel, ChannelKind, Runtime};
use crate::proto::tool::{Step, ToolEvent};
use crate::proto::{Event, Failure, Spent};
use crate::render::Sanitiser;
use crate::rpc::Peer;
use crate::shell::supervise::Ending;
use crate::store::ConversationId;

use super::session::{Command, Known};

/// End of a prompt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum End {
    Answered,
    Cancelled,
    Failed(Failure),
}

/// An editor's session, shared by the thread that answers and the questions that it puts.
pub(super) struct Editor {
    name: String,
    peer: Arc<Peer>,
    abilities: Abilities,
    workspace: PathBuf,
    /// The working directory, and the client's spelling of it.
    written: (PathBuf, PathBuf),
    known: Known,
    pub(super) commands: Mutex<Receiver<Command>>,
    face: Mutex<Face>,
    pub(super) serve: Serve,
}

/// Carries out the commands of a session until there are no more.
pub(super) type Serve = Box<dyn Fn(&Editor, Runtime) + Send + Sync>;

/// The part of an answer that the editor has been sent.
struct Face {
    /// Numbers messages, and questions beside calls.
    last: u64,
    /// The last speaker, and the number of that message.
    voice: Option<(Voice, u64)>,
    sanitiser: Sanitiser,
    /// The current call.
    call: Option<Call>,
    redact: Box<dyn Fn(&str) -> String + Send>,
    end: Option<End>,
    spent: Option<Spent>,
}

/// The current call. A model may reuse its ids in the next answer; an editor's ids must be unique.
struct Call {
    id: String,
    model_id: String,
    title: String,
    arguments: Value,
    has_difference: bool,
}

/// The parts of a session.
pub(super) struct Parts {
    pub(super) name: String,
    pub(super) peer: Arc<Peer>,
    pub(super) abilities: Abilities,
    pub(super) workspace: PathBuf,
    pub(super) written: (PathBuf, PathBuf),
    pub(super) known: Known,
    pub(super) commands: Receiver<Command>,
    pub(super) serve: Serve,
}

impl Editor {
    pub(super) fn new(parts: Parts) -> Self {
        let Parts { name, peer, abilities, workspace, written, known, commands, serve } = parts;
        let face = Face {
            last: 0,
            voice: None,
            sanitiser: Sanitiser::new(),
            call: None,
            redact: Box::new(str::to_owned),
            end: None,
            spent: None,
        };
        let (commands, face) = (Mutex::new(commands), Mutex::new(face));
        Self { name, peer, abilities, workspace, written, known, commands, face, serve }
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    pub(super) fn peer(&self) -> &Peer {
        &self.peer
    }

    pub(super) fn abilities(&self) -> Abilities {
        self.abilities
    }

    pub(super) fn workspace(&self) -> PathBuf {
        self.workspace.clone()
    }

    pub(super) fn known(&self) -> &Known {
        &self.known
    }

    /// The paths under which the client may know a file: the one based on its spelling of the working directory, if links lead
    /// there, and the real one.
    pub(super) fn spellings(&self, path: &Path) -> Vec<PathBuf> {
        let (real, written) = (self.written.0.ancestors(), self.written.1.ancestors());
        let is_link = |(real, written): &(&Path, &Path)| written.canonicalize().is_ok_and(|found| found == *real);
        let mut pairs = real.zip(written).take_while(|(real, written)| real != written).take_while(is_link);
        let own = pairs.find_map(|(real, written)| Some(written.join(path.strip_prefix(real).ok()?)));
        own.into_iter().chain([path.to_owned()]).collect()
    }

    fn face(&self) -> MutexGuard<'_, Face> {
        self.face.lock()
    }

    /// Sends an update.
    pub(super) fn update(&self, update: &Value) {
        self.peer.notify("session/update", &json!({"sessionId": self.name, "update": update}));
    }

    /// Begins a prompt.
    pub(super) fn begin(&self, redact: Box<dyn Fn(&str) -> String + Send>) {
        let mut face = self.face();
        (face.redact, face.end, face.call, face.voice, face.spent) = (redact, None, None, None, None);
    }

    /// End of the prompt, once it has one, and the newest request to a model.
    pub(super) fn ended(&self) -> (Option<End>, Option<Spent>) {
        let mut face = self.face();
        (face.end.take(), face.spent.take())
    }

    /// The call that a question is about: id, title, arguments.
    pub(super) fn asked_about(&self) -> (String, String, Value) {
        let mut face = self.face();
        match &face.call {
            Some(call) => (call.id.clone(), call.title.clone(), call.arguments.clone()),
            None => (face.next("question"), String::new(), Value::Null),
        }
    }

    /// The id of the current call.
    pub(super) fn current_call(&self) -> Option<String> {
        self.face().call.as_ref().map(|call| call.id.clone())
    }

    /// Reports the progress of the current call, which its end replaces.
    pub(super) fn progress(&self, text: &str) {
        let face = self.face();
        let Some(id) = face.call.as_ref().map(|call| call.id.clone()) else { return };
        let content = [call_text(&(face.redact)(text))];
        drop(face);
        self.update(&json!({
            "sessionUpdate": "tool_call_update", "toolCallId": id, "status": "in_progress", "content": content,
        }));
    }

    /// An id for a question that is no call.
    pub(super) fn next_question(&self) -> String {
        self.face().next("question")
    }

    /// Sends a text as a separate message of the agent.
    pub(super) fn say(&self, text: &str) {
        self.speak(Voice::Agent, text);
        self.face().voice = None;
    }

    /// Sends a notice beside the answer: as a notice, or as a thought to a client without notices, so that a copied answer
    /// contains only the answer.
    pub(super) fn notice(&self, text: &str, severity: &str) {
        let text = crate::render::sanitise(text);
        if self.abilities.has_notices {
            return self.update(&json!({"sessionUpdate": "notice", "severity": severity, "title": text.trim()}));
        }
        self.face().voice = None;
        self.speak(Voice::Thought, &format!("{}\n", text.trim()));
        self.face().voice = None;
    }

    fn speak(&self, voice: Voice, text: &str) {
        let update = {
            let mut face = self.face();
            let number = match face.voice {
                Some((last, number)) if last == voice => number,
                _ => {
                    face.last += 1;
                    face.sanitiser = Sanitiser::new();
                    face.last
                }
            };
            face.voice = Some((voice, number));
            let clean = face.sanitiser.push(text).into_owned();
            (!clean.is_empty()).then(|| chunk(voice, &format!("message-{number}"), &clean))
        };
        if let Some(update) = update {
            self.update(&update);
        }
    }

    fn tool(&self, ToolEvent { id: model_id, tool, step }: &ToolEvent) {
        let mut face = self.face();
        let update = match step {
            Step::Requested { intent, planned } => {
                let id = face.next("call");
                let update = begun(&id, tool, intent, planned, &self.workspace);
                face.voice = None;
                face.call = Some(Call {
                    id,
                    model_id: model_id.clone(),
                    title: intent.clone(),
                    arguments: planned.arguments.clone(),
                    has_difference: !planned.changes.is_empty(),
                });
                update
            }
            Step::Approved => {
                let Some(call) = &face.call else { return };
                json!({"sessionUpdate": "tool_call_update", "toolCallId": call.id, "status": "in_progress"})
            }
            // The end of the call also has the reason.
            Step::Denied { .. } => return,
            Step::Done { outcome, .. } => match face.call.take_if(|call| call.model_id == *model_id) {
                Some(call) => ended(&call.id, outcome, call.has_difference, &face.redact),
                None => {
                    // It never began: no tool understands it.
                    let mut whole = ended(&face.next("call"), outcome, false, &face.redact);
                    whole["sessionUpdate"] = "tool_call".into();
                    whole["title"] = crate::render::text::escape_visible(&format!("Calling {tool}")).into();
                    whole
                }
            },
        };
        drop(face);
        self.update(&update);
    }
}

impl Face {
    fn next(&mut self, what: &str) -> String {
        self.last += 1;
        format!("{what}-{}", self.last)
    }
}

impl Channel for Editor {
    fn name(&self) -> &'static str {
        ChannelKind::Acp.word()
    }

    fn start(&self, runtime: Runtime) -> Ending {
        (self.serve)(self, runtime);
        Ending::Exit(0)
    }

    fn send(&self, _: Option<ConversationId>, message: Event) {
        match message {
            Event::Text(text) => self.speak(Voice::Agent, &text),
            Event::Thought(text) => self.speak(Voice::Thought, &text),
            Event::Notice(text) => self.notice(&without_session(&text), "info"),
            Event::Session(event) => event.text().iter().for_each(|text| self.notice(text, "info")),
            Event::Tool(event) => self.tool(&event),
            Event::Usage(spent) => self.face().spent = Some(*spent),
            Event::Answered { .. } => self.face().end = Some(End::Answered),
            Event::Cancelled { .. } => self.face().end = Some(End::Cancelled),
            Event::Failed { failure, .. } => self.face().end = Some(End::Failed(failure)),
        }
    }

    fn supports_draft_updates(&self) -> bool {
        true
    }
}

/// A hint for an editor: the effect of a meta command, a command line or a slash command.
pub(super) fn without_session(text: &str) -> String {
    const INSTEAD: [(&str, &str); 7] = [
        (":models lists", "/model lists"),
        (":model NAME", "/model NAME"),
        ("start again with :new", "begin a new session"),
        (":onboard", "`reedclaw onboard`"),
        (":mcp allow", "in a terminal: reedclaw mcp allow"),
        (":mcp login", "in a terminal: reedclaw mcp login"),
        (":skills trust", "in a ReedClaw shell: :skills trust"),
    ];
    INSTEAD.iter().fold(text.to_owned(), |text, (meta, here)| text.replace(meta, here))
}
