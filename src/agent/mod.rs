//! One question from asking to answer: joins turn and model, and tells a recorder; never prints, reads no settings, runs no
//! command.
//!
//! ```no_run
//! use reedclaw::agent::{Agent, Cancel, Forgetful, Options};
//! use reedclaw::model::Endpoint;
//! use reedclaw::proto::Event;
//!
//! let models = vec![Endpoint::new("local", "http://127.0.0.1:8080", "default").into()];
//! let options = Options { models, ..Options::default() };
//! let mut agent = Agent::new(options, Box::new(Forgetful));
//! let cancel = Cancel::new(); // a clone of it stops the question from another thread
//! agent.ask("what is a shell?", &cancel, &mut |event| {
//!     if let Event::Text(_piece) = event { /* draw it */ }
//! });
//! ```

mod recorder;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::model::{
    ChatEvent, Fault, Metadata, Mock, Models, Provider, Request, Response, Sink, Spec, StopReason, Task,
};
use crate::proto::{CommandOutcome, Event, Failure, FailureKind, Spent};
use crate::store::ConversationId;
use crate::turn::{self, Conversation};

pub use crate::model::{Cancel, Crossing};
pub use crate::turn::{Options as ConversationOptions, PastTurn};
pub use recorder::{Ending, Forgetful, Recorder};

/// Characters of a conversation from which on a request is `long` to a router: some 16,000 tokens.
const LONG_CHARS: usize = 64_000;

/// What an agent is made of.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// The models, in the order in which they are listed.
    pub models: Vec<Spec>,
    /// The name of the one that answers. Where absent it is the only one; among several none is chosen, because a
    /// question may not be meant for just any machine.
    pub default_model: Option<String>,
    /// The system prompts of models that have one of their own, by the model's name.
    pub system_prompts: BTreeMap<String, String>,
    /// Other names of models, and whose they are.
    pub aliases: BTreeMap<String, String>,
    /// The limits and the system prompt of the conversation.
    pub conversation: turn::Options,
}

/// Asks the person whether a question may go to a farther model; called while a question is being answered.
pub type Consent<'a> = &'a mut dyn FnMut(&Crossing) -> bool;

/// One configured model, for a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModelInfo {
    /// Its name in the config.
    pub name: String,
    /// Its name for the server.
    pub model: String,
    /// The server's address, as configured but for a password in it; the models behind it, where it has no server.
    pub endpoint: String,
    /// Whether it answers now.
    pub is_current: bool,
}

/// Answers questions, one at a time, in one conversation.
pub struct Agent {
    models: Models,
    /// What the person said about models that are farther away, by name: asked once per session.
    consents: BTreeMap<String, bool>,
    default_model: Option<String>,
    current: Option<String>,
    conversation: Conversation,
    /// The system prompt of models that have none of their own.
    system_prompt: String,
    system_prompts: BTreeMap<String, String>,
    aliases: BTreeMap<String, String>,
    recorder: Box<dyn Recorder>,
}

impl Agent {
    /// Makes an agent with an empty conversation.
    #[must_use]
    pub fn new(options: Options, recorder: Box<dyn Recorder>) -> Self {
        let mut agent = Self {
            models: Models::default(),
            consents: BTreeMap::new(),
            default_model: None,
            current: None,
            conversation: Conversation::new(options.conversation.clone()),
            system_prompt: String::new(),
            system_prompts: BTreeMap::new(),
            aliases: BTreeMap::new(),
            recorder,
        };
        agent.configure(options);
        agent
    }

    /// Goes on with other options: the conversation stays, and so does the model that answers, unless it has gone or
    /// answered only because it was the default.
    pub fn configure(&mut self, options: Options) {
        let Options { models, default_model, system_prompts, aliases, conversation } = options;
        let default_model = default_model.or_else(|| match &models[..] {
            [only] => Some(only.name().to_owned()),
            _ => None,
        });
        let kept = self.current.take().filter(|name| {
            Some(name) != self.default_model.as_ref() && models.iter().any(|model| model.name() == name)
        });
        self.current = kept.or_else(|| default_model.clone());
        self.default_model = default_model;
        self.models = Models::new(models);
        self.system_prompt.clone_from(&conversation.system_prompt);
        self.system_prompts = system_prompts;
        self.aliases = aliases;
        self.conversation.limit(conversation);
    }

    /// Asks one question and returns when it is over. `sink` gets notices, then pieces as they come, then exactly one of
    /// `Answered`, `Cancelled` and `Failed`. Where a question could only go on to a farther model, it doesn't.
    pub fn ask(&mut self, question: &str, cancel: &Cancel, sink: &mut dyn FnMut(Event)) {
        self.ask_with(question, cancel, sink, &mut |_| false);
    }

    /// As [`Self::ask`]; `consent` puts the question whether it may go on to a farther model.
    pub fn ask_with(&mut self, question: &str, cancel: &Cancel, sink: &mut dyn FnMut(Event), consent: Consent<'_>) {
        let mut record = Record { recorder: &mut *self.recorder, has_failed: false };
        let model = self.current.as_deref();
        record.keep(sink, |it| it.question(question, model));
        let provider = match choose(&self.models, self.current.as_deref()) {
            Ok(provider) => provider,
            Err(failure) => {
                record.keep(sink, |it| it.finished(Ending::Failed(&failure)));
                return sink(Event::Failed { text: String::new(), failure });
            }
        };
        self.conversation.instruct(self.system_prompts.get(provider.name()).unwrap_or(&self.system_prompt));
        let (messages, notices) = self.conversation.messages_for(question);
        notices.into_iter().for_each(|notice| sink(Event::Notice(notice)));
        let length = messages.iter().map(|message| message.content.len()).sum::<usize>();
        let hints = (length > LONG_CHARS).then(|| "long".to_owned()).into_iter().collect();
        let metadata = Metadata { task: Task::of_question(question), hints };
        let request = Request { metadata, ..Request::of(&messages) };
        drop(messages);
        let consents = &mut self.consents;
        let mut asked = Asked { text: String::new(), thoughts: String::new(), sink, record, cancel, consent, consents };
        let end = provider.chat(&request, &mut asked);
        if let Ok(response) = &end {
            asked.spent(response);
        }
        let Asked { text, sink, mut record, .. } = asked;
        match end {
            Ok(response) => {
                self.conversation.answered(&text);
                if let Some(notice) = shortfall(&text, &response) {
                    sink(Event::Notice(notice));
                }
                record.keep(sink, |it| it.finished(Ending::Answered));
                sink(Event::Answered { text });
            }
            Err(error) if error.fault == Fault::Cancelled => {
                self.conversation.cancelled(&text);
                record.keep(sink, |it| it.finished(Ending::Cancelled));
                sink(Event::Cancelled { text });
            }
            Err(error) => {
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
        if self.models.get(name).is_some() {
            self.current = Some(name.to_owned());
            return Ok(());
        }
        Err(unknown_model(FailureKind::User, name, &self.models))
    }

    /// Lists the configured models.
    #[must_use]
    pub fn models(&self) -> Vec<ModelInfo> {
        let info = |it: &Spec| ModelInfo {
            name: it.name().to_owned(),
            model: it.model().to_owned(),
            endpoint: match it {
                Spec::Server(endpoint) => endpoint.shown().to_owned(),
                _ => self.models.get(it.name()).map(|it| it.capabilities().place).unwrap_or_default(),
            },
            is_current: self.current.as_deref() == Some(it.name()),
        };
        self.models.specs().iter().map(info).collect()
    }

    /// Names the model that answers, where it is configured.
    #[must_use]
    pub fn current_model(&self) -> Option<&str> {
        self.current.as_deref().filter(|name| self.models.get(name).is_some())
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

/// A question that is being answered, as its provider sees it.
struct Asked<'a> {
    text: String,
    /// The thoughts of the request that runs.
    thoughts: String,
    sink: &'a mut dyn FnMut(Event),
    record: Record<'a>,
    cancel: &'a Cancel,
    consent: Consent<'a>,
    consents: &'a mut BTreeMap<String, bool>,
}

impl Asked<'_> {
    /// Tells what one request came to; to be called after each.
    fn spent(&mut self, response: &Response) {
        let thoughts = std::mem::take(&mut self.thoughts);
        let Some(usage) = response.usage.clone() else { return };
        let tools = response.calls.iter().map(|call| call.name.clone()).collect();
        let spent = Spent { model: response.model.clone(), tools, usage };
        self.record.keep(self.sink, |it| it.spent(&spent, &thoughts));
        (self.sink)(Event::Usage(Box::new(spent)));
    }
}

impl Sink for Asked<'_> {
    fn event(&mut self, event: ChatEvent) {
        match event {
            ChatEvent::Text(piece) => {
                self.text.push_str(&piece);
                let at = self.text.len() - piece.len();
                (self.sink)(Event::Text(piece));
                self.record.keep(self.sink, |it| it.answer_piece(&self.text[at..]));
            }
            ChatEvent::Thought(piece) => {
                self.thoughts.push_str(&piece);
                (self.sink)(Event::Thought(piece));
            }
            ChatEvent::Pause => self.record.keep(self.sink, |it| it.answer_pauses()),
            ChatEvent::Notice(text) => (self.sink)(Event::Notice(text)),
        }
    }

    fn cancel(&self) -> &Cancel {
        self.cancel
    }

    fn consent(&mut self, crossing: &Crossing) -> bool {
        if let Some(said) = self.consents.get(&crossing.to) {
            return *said;
        }
        let yes = (self.consent)(crossing);
        // To stop the whole question says nothing of the next one.
        if !self.cancel.is_cancelled() {
            self.consents.insert(crossing.to.clone(), yes);
        }
        yes
    }
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
fn shortfall(text: &str, response: &Response) -> Option<String> {
    match response.stop.reason {
        StopReason::Length => Some("[model] the answer stopped at the server's limit of tokens".to_owned()),
        StopReason::Filtered => Some("[model] the server's content filter stopped the answer".to_owned()),
        StopReason::ContextFull => Some("[model] the answer stopped because the model's context is full".to_owned()),
        _ if text.trim().is_empty() => Some("[model] the answer is empty".to_owned()),
        _ => None,
    }
}

/// The model that answers. Where none is configured, it is one that says so.
fn choose(models: &Models, name: Option<&str>) -> Result<Arc<dyn Provider>, Failure> {
    let Some(name) = name else {
        if models.specs().is_empty() {
            return Ok(Arc::new(Mock::unconnected()));
        }
        return Err(Failure {
            kind: FailureKind::NoModel,
            message: "several models are configured and none is chosen".to_owned(),
            hint: format!(":model NAME chooses one of {}; default_model in the config does so for good", names(models)),
        });
    };
    models.get(name).cloned().ok_or_else(|| unknown_model(FailureKind::NoModel, name, models))
}

fn names(models: &Models) -> String {
    models.specs().iter().map(Spec::name).collect::<Vec<_>>().join(", ")
}

fn unknown_model(kind: FailureKind, name: &str, models: &Models) -> Failure {
    let is_empty = models.specs().is_empty();
    let hint = if is_empty { "no model is configured".to_owned() } else { format!("there is {}", names(models)) };
    // The name is the user's own, but what it holds is drawn on their terminal.
    let name: String = name.chars().filter(|c| !c.is_control()).take(80).collect();
    Failure { kind, message: format!("no model is called {name}"), hint }
}
