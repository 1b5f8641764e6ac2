//! One question from asking to answer: joins turn and model, and tells a recorder; never prints, reads no settings, runs no
//! command.
//!
//! ```no_run
//! use reedclaw::agent::{Agent, Cancel, Forgetful, Options};
//! use reedclaw::model::Endpoint;
//! use reedclaw::proto::Event;
//!
//! let models = vec![Endpoint::new("local", "http://127.0.0.1:8080", "default")];
//! let options = Options { models, ..Options::default() };
//! let mut agent = Agent::new(options, Box::new(Forgetful));
//! let cancel = Cancel::new(); // a clone of it stops the question from another thread
//! agent.ask("what is a shell?", &cancel, &mut |event| {
//!     if let Event::Text(_piece) = event { /* draw it */ }
//! });
//! ```

mod cancel;
mod recorder;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::time::Duration;

use crate::model::{Endpoint, Finish, ModelError, Piece, Secret, start};
use crate::proto::{CommandOutcome, Event, Failure, FailureKind};
use crate::store::ConversationId;
use crate::turn::{self, Conversation};

pub use crate::turn::{Options as ConversationOptions, PastTurn};
pub use cancel::Cancel;
pub use recorder::{Ending, Forgetful, Recorder};

/// Longest single wait for a piece. Nothing is polled: a piece, the end, a time-out and a cancel all end the wait.
const WAIT: Duration = Duration::from_secs(60 * 60);
/// Silence behind a piece after which the recorder is told, so that a crash finds all that came written down.
const PAUSE: Duration = Duration::from_millis(100);

/// What an agent is made of.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// The models, in the order in which they are listed.
    pub models: Vec<Endpoint>,
    /// The name of the one that answers. Where absent it is the only one; among several none is chosen, because a
    /// question may not be meant for just any machine.
    pub default_model: Option<String>,
    /// The system prompts of models that have one of their own, by the model's name.
    pub system_prompts: BTreeMap<String, String>,
    /// Other names of models, and whose they are.
    pub aliases: BTreeMap<String, String>,
    /// How the keys are read that aren't known yet, by the model's name: once, with the first question.
    pub keys: BTreeMap<String, KeyReader>,
    /// The limits and the system prompt of the conversation.
    pub conversation: turn::Options,
}

/// Reads a key when it is needed; it looks now and then at whether the question was cancelled.
#[derive(Clone)]
pub struct KeyReader(std::sync::Arc<ReadKey>);

type ReadKey = dyn Fn(&Cancel) -> Result<Secret, Failure> + Send + Sync;

impl KeyReader {
    /// Wraps a way to read a key.
    pub fn new(read: impl Fn(&Cancel) -> Result<Secret, Failure> + Send + Sync + 'static) -> Self {
        Self(std::sync::Arc::new(read))
    }
}

impl std::fmt::Debug for KeyReader {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("KeyReader")
    }
}

/// One configured model, for a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModelInfo {
    /// Its name in the config.
    pub name: String,
    /// Its name for the server.
    pub model: String,
    /// The server's address, as configured but for a password in it.
    pub endpoint: String,
    /// Whether it answers now.
    pub is_current: bool,
}

/// Answers questions, one at a time, in one conversation.
pub struct Agent {
    models: Vec<Endpoint>,
    default_model: Option<String>,
    current: Option<String>,
    conversation: Conversation,
    /// The system prompt of models that have none of their own.
    system_prompt: String,
    system_prompts: BTreeMap<String, String>,
    aliases: BTreeMap<String, String>,
    keys: BTreeMap<String, KeyReader>,
    recorder: Box<dyn Recorder>,
}

/// How the stream of an answer ended.
enum End {
    Whole(Finish),
    Cancelled,
    Failed(Box<ModelError>),
}

impl Agent {
    /// Makes an agent with an empty conversation.
    #[must_use]
    pub fn new(options: Options, recorder: Box<dyn Recorder>) -> Self {
        let mut agent = Self {
            models: Vec::new(),
            default_model: None,
            current: None,
            conversation: Conversation::new(options.conversation.clone()),
            system_prompt: String::new(),
            system_prompts: BTreeMap::new(),
            aliases: BTreeMap::new(),
            keys: BTreeMap::new(),
            recorder,
        };
        agent.configure(options);
        agent
    }

    /// Goes on with other options: the conversation stays, and so does the model that answers, unless it has gone or
    /// answered only because it was the default.
    pub fn configure(&mut self, options: Options) {
        let Options { models, default_model, system_prompts, aliases, keys, conversation } = options;
        let default_model = default_model.or_else(|| match &models[..] {
            [only] => Some(only.name.clone()),
            _ => None,
        });
        let kept = self
            .current
            .take()
            .filter(|name| Some(name) != self.default_model.as_ref() && models.iter().any(|model| &model.name == name));
        self.current = kept.or_else(|| default_model.clone());
        self.default_model = default_model;
        self.models = models;
        self.system_prompt.clone_from(&conversation.system_prompt);
        self.system_prompts = system_prompts;
        self.aliases = aliases;
        self.keys = keys;
        self.conversation.limit(conversation);
    }

    /// Reads the key of the model that answers, where it has one that isn't known yet.
    fn read_key(&mut self, cancel: &Cancel) -> Result<(), Failure> {
        let Some(name) = &self.current else { return Ok(()) };
        let (Some(reader), Some(model)) =
            (self.keys.get(name), self.models.iter_mut().find(|model| &model.name == name))
        else {
            return Ok(());
        };
        if model.key.is_none() {
            model.key = Some((reader.0)(cancel)?);
        }
        Ok(())
    }

    /// Asks one question and returns when it is over. `sink` gets notices, then pieces as they come, then exactly one of
    /// `Answered`, `Cancelled` and `Failed`.
    pub fn ask(&mut self, question: &str, cancel: &Cancel, sink: &mut dyn FnMut(Event)) {
        let mut record = Record { recorder: &mut *self.recorder, has_failed: false };
        let model = self.current.as_deref();
        record.keep(sink, |it| it.question(question, model));
        let has_failed = record.has_failed;
        let key = self.read_key(cancel);
        let mut record = Record { recorder: &mut *self.recorder, has_failed };
        let endpoint = match key.and_then(|()| find(&self.models, self.current.as_deref())) {
            Ok(endpoint) => endpoint,
            Err(_) if cancel.is_cancelled() => {
                record.keep(sink, |it| it.finished(Ending::Cancelled));
                return sink(Event::Cancelled { text: String::new() });
            }
            Err(failure) => {
                record.keep(sink, |it| it.finished(Ending::Failed(&failure)));
                return sink(Event::Failed { text: String::new(), failure });
            }
        };
        self.conversation.instruct(self.system_prompts.get(&endpoint.name).unwrap_or(&self.system_prompt));
        let (messages, notices) = self.conversation.messages_for(question);
        notices.into_iter().for_each(|notice| sink(Event::Notice(notice)));
        let mut text = String::new();
        let end = if cancel.is_cancelled() {
            End::Cancelled
        } else {
            let stream = start(endpoint, &messages);
            // The request is on its way; what was copied for it is not kept through a long answer.
            drop(messages);
            follow(stream, cancel, &mut |heard| match heard {
                Some(piece) => {
                    text.push_str(&piece);
                    let at = text.len() - piece.len();
                    sink(Event::Text(piece));
                    record.keep(sink, |it| it.answer_piece(&text[at..]));
                }
                None => record.keep(sink, |it| it.answer_pauses()),
            })
        };
        match end {
            End::Whole(finish) => {
                self.conversation.answered(&text);
                if let Some(notice) = shortfall(&text, &finish) {
                    sink(Event::Notice(notice));
                }
                record.keep(sink, |it| it.finished(Ending::Answered));
                sink(Event::Answered { text });
            }
            End::Cancelled => {
                self.conversation.cancelled(&text);
                record.keep(sink, |it| it.finished(Ending::Cancelled));
                sink(Event::Cancelled { text });
            }
            End::Failed(error) => {
                self.conversation.broke_off(&text);
                let failure = error.to_failure();
                record.keep(sink, |it| it.finished(Ending::Failed(&failure)));
                sink(Event::Failed { text, failure });
            }
        }
    }

    /// Keeps a command's outcome for the next question.
    pub fn note_outcome(&mut self, outcome: &CommandOutcome) {
        self.conversation.ran(outcome);
    }

    /// Lets another model answer from now on; the conversation goes on.
    ///
    /// # Errors
    /// A failure of kind `User` where no model has that name.
    pub fn use_model(&mut self, name: &str) -> Result<(), Failure> {
        let name = self.aliases.get(name).map_or(name, String::as_str);
        if self.models.iter().any(|it| it.name == name) {
            self.current = Some(name.to_owned());
            return Ok(());
        }
        Err(unknown_model(FailureKind::User, name, &self.models))
    }

    /// Lists the configured models.
    #[must_use]
    pub fn models(&self) -> Vec<ModelInfo> {
        let info = |it: &Endpoint| ModelInfo {
            name: it.name.clone(),
            model: it.model.clone(),
            endpoint: it.shown().to_owned(),
            is_current: self.current.as_ref() == Some(&it.name),
        };
        self.models.iter().map(info).collect()
    }

    /// Names the model that answers, where it is configured.
    #[must_use]
    pub fn current_model(&self) -> Option<&str> {
        find(&self.models, self.current.as_deref()).ok().map(|it| it.name.as_str())
    }

    /// Begins a new conversation; outputs of commands since the last question stay for its first one.
    pub fn clear(&mut self) {
        self.conversation.clear();
        self.recorder.turn_to(None);
    }

    /// Begins a new conversation, outputs too, and goes back to the default model.
    pub fn reset(&mut self) {
        self.conversation.reset();
        self.recorder.turn_to(None);
        self.current.clone_from(&self.default_model);
    }

    /// Goes on in a recorded conversation that holds these turns. Outputs that the model saw are known for turns that
    /// this very agent asked in it, and lost for others.
    pub fn go_on_in(&mut self, conversation: ConversationId, turns: Vec<PastTurn>) {
        if self.recorder.conversation() != Some(conversation) {
            self.conversation.clear();
        }
        self.conversation.restore(turns);
        self.recorder.turn_to(Some(conversation));
    }

    /// Records into a copy of the present conversation from now on; what the model was told stays as it is.
    pub fn branch_into(&mut self, conversation: ConversationId) {
        self.recorder.turn_to(Some(conversation));
    }

    /// The conversation that is recorded, once its first question was asked.
    #[must_use]
    pub fn conversation(&self) -> Option<ConversationId> {
        self.recorder.conversation()
    }
}

/// Follows a stream to its end or to a cancel, whichever is first. `heard` gets each piece, and `None` once where a
/// piece is followed by a pause.
fn follow(mut stream: crate::model::Stream, cancel: &Cancel, heard: &mut dyn FnMut(Option<String>)) -> End {
    cancel.attach(Some(stream.waker()));
    let mut flows = false;
    let end = loop {
        if cancel.is_cancelled() {
            break End::Cancelled;
        }
        match stream.recv_timeout(if flows { PAUSE } else { WAIT }) {
            Ok(Some(Piece::Text(text))) => {
                flows = true;
                heard(Some(text));
            }
            Ok(Some(Piece::Done(finish))) => break End::Whole(finish),
            Ok(None) => {
                if std::mem::take(&mut flows) {
                    heard(None);
                }
            }
            Err(error) => break End::Failed(error),
        }
    };
    cancel.attach(None);
    end
}

/// Tells the recorder, and the user once where that fails.
struct Record<'a> {
    recorder: &'a mut dyn Recorder,
    has_failed: bool,
}

impl Record<'_> {
    fn keep(&mut self, sink: &mut dyn FnMut(Event), tell: impl FnOnce(&mut dyn Recorder) -> Result<(), Failure>) {
        if let Err(failure) = tell(self.recorder)
            && !std::mem::replace(&mut self.has_failed, true)
        {
            sink(Event::Notice(format!("[history] this conversation is not being stored: {}", failure.message)));
        }
    }
}

/// What an answer that ended well still lacks.
fn shortfall(text: &str, finish: &Finish) -> Option<String> {
    match finish.reason.as_deref() {
        Some("length") => Some("[model] the answer stopped at the server's limit of tokens".to_owned()),
        Some("content_filter") => Some("[model] the server's content filter stopped the answer".to_owned()),
        _ if text.trim().is_empty() => Some("[model] the answer is empty".to_owned()),
        _ => None,
    }
}

fn find<'a>(models: &'a [Endpoint], name: Option<&str>) -> Result<&'a Endpoint, Failure> {
    let names = || models.iter().map(|it| it.name.as_str()).collect::<Vec<_>>().join(", ");
    let Some(name) = name.filter(|_| !models.is_empty()) else {
        if !models.is_empty() {
            return Err(Failure {
                kind: FailureKind::NoModel,
                message: "several models are configured and none is chosen".to_owned(),
                hint: format!(":model NAME chooses one of {}; default_model in the config does so for good", names()),
            });
        }
        return Err(Failure {
            kind: FailureKind::NoModel,
            message: "no model is configured".to_owned(),
            hint: "connect one: put return {models = {mine = {endpoint = \"http://127.0.0.1:8080\"}}} into the config"
                .to_owned(),
        });
    };
    models.iter().find(|it| it.name == name).ok_or_else(|| unknown_model(FailureKind::NoModel, name, models))
}

fn unknown_model(kind: FailureKind, name: &str, models: &[Endpoint]) -> Failure {
    let names: Vec<&str> = models.iter().map(|it| it.name.as_str()).collect();
    let hint =
        if names.is_empty() { "no model is configured".to_owned() } else { format!("there is {}", names.join(", ")) };
    // The name is the user's own, but what it holds is drawn on their terminal.
    let name: String = name.chars().filter(|c| !c.is_control()).take(80).collect();
    Failure { kind, message: format!("no model is called {name}"), hint }
}
