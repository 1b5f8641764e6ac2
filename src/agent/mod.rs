//! One question from asking to answer: joins turn, model and tools, and tells a recorder; never prints, reads no settings,
//! and runs nothing but through the gate.
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

mod asked;
mod calls;
mod choice;
pub mod goal;
mod person;
pub mod procedure;
mod purse;
mod recorder;
mod rounds;
mod secrets;
mod stopwatch;
#[cfg(test)]
mod tests;
mod texts;
mod tracer;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::model::{
    Countable, Image, Item, Metadata, Models, Provider, Reach, Request, Response, Spec, StopReason, Task, ToolCall,
    ToolResult,
};
use crate::money::Limit;
use crate::proto::{CommandOutcome, Event, Failure, FailureKind, Message, Shortfall};
use crate::store::{Charge, ConversationId};
use crate::turn::{self, Conversation, Scale};

pub use crate::model::{Cancel, Count, Crossing};
pub use crate::turn::{Options as ConversationOptions, Part, PastSummary, PastTurn};
pub use calls::cut_off::take_over_cut_off;
pub use calls::runner::{Later, ToolRunner, ToolRunnerOptions};
pub use calls::snapshots::{changed_line, changed_words};
use choice::choose;
pub use choice::unknown_model;
pub use person::{Nobody, Person};
pub use purse::MoneyOptions;
pub use recorder::{Ending, Forgetful, PastCall, Recorder, SummaryUpTo};
pub use rounds::Limits;
pub use secrets::Finding;
pub use texts::compact::ContextReport;
pub use texts::remember::{MemoryJob, Written};
pub use texts::title::Titler;
pub use tracer::{Answer, Tracer};

use asked::{Asked, Parts, Record};
use purse::Purse;
use rounds::{Broken, Turn, Turned, is_small};
use secrets::Secrets;
use texts::scribe::{Counted, Shorter, with_trails};
use tracer::Traced;

/// Characters of a conversation from which on a request is `long` to a router: some 16,000 tokens.
const LONG_CHARS: usize = 64_000;
/// A first question up to this length is sent without asking the server for its window.
const SHORT_BYTES: usize = 2_000;

/// Bytes of tool results of earlier questions that go with the next one; the oldest leave first.
const TRAIL_BYTES_MAX: usize = 64 * 1024;
/// Limit for the bytes of one such result.
const TRAIL_RESULT_BYTES: usize = 4 * 1024;
/// Bytes of a conversation's pictures; the oldest leave first. Each goes with every request while its question does.
const IMAGES_BYTES_MAX: usize = 16 * 1024 * 1024;

/// Instructions for a model after its system prompt.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Prompts {
    /// For a model with tools.
    pub tools: String,
    /// For a model without tools, which proposes commands in its text.
    pub commands: String,
}

/// The parts of an agent.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// The models, in the order in which they are listed.
    pub models: Vec<Spec>,
    /// The name of the model that answers; without it, the only model. Among several none is chosen, because a question
    /// may not be meant for just any machine.
    pub default_model: Option<String>,
    /// The system prompts of models that have one of their own, by the model's name.
    pub system_prompts: BTreeMap<String, String>,
    /// Other names of models, and whose they are.
    pub aliases: BTreeMap<String, String>,
    /// The limits and the system prompt of the conversation.
    pub conversation: turn::Options,
    /// Values that are hidden wherever they appear, beside the models' keys: each with its name.
    pub secrets: Vec<(String, String)>,
    /// Instructions for a model after its system prompt.
    pub prompts: Prompts,
    /// The limits of one question.
    pub limits: Limits,
    /// Prices and budgets.
    pub money: MoneyOptions,
    /// Reason why questions are refused; `None` if they are accepted.
    pub closed: Option<Failure>,
}

/// One configured model, for a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModelInfo {
    /// Its name in the config.
    pub name: String,
    /// Its name for the server.
    pub model: String,
    /// The server's address as configured, without a password; for a combination, its models.
    pub endpoint: String,
    /// True if it answers now.
    pub is_current: bool,
    /// True if it is on this machine or in the user's network.
    pub is_near: bool,
}

/// The server's own words about the size of requests to a model.
#[derive(Clone, Copy, Debug, Default)]
struct Learnt {
    /// Tokens that it counted for one that was estimated, in the newest request.
    factor: Option<f64>,
    /// Tokens of a request that it refused for its size.
    refused: Option<usize>,
}

/// A server that counts otherwise by more than this doesn't count the whole request.
const FACTORS: std::ops::RangeInclusive<f64> = 0.2..=10.0;

/// Answers questions, one at a time, in one conversation.
pub struct Agent {
    models: Models,
    /// The person's answers about more distant models, by name: asked once per session.
    consents: BTreeMap<String, bool>,
    default_model: Option<String>,
    current: Option<String>,
    conversation: Conversation,
    /// The system prompt of models that have none of their own.
    system_prompt: String,
    system_prompts: BTreeMap<String, String>,
    /// The system prompt of all models, in the place of these.
    persona: Option<String>,
    aliases: BTreeMap<String, String>,
    recorder: Box<dyn Recorder>,
    secrets: Secrets,
    /// The values that the options named.
    named_secrets: Vec<(String, String)>,
    prompts: Prompts,
    limits: Limits,
    /// Tools; without them a model proposes commands in text.
    runner: Option<ToolRunner>,
    /// Models that turned out to have no tools.
    toolless: BTreeSet<String>,
    /// Models of which the person knows that they have no room for tools.
    roomless: BTreeSet<String>,
    /// The servers' ways of counting, and the sizes that they refused, by model.
    learnt: BTreeMap<String, Learnt>,
    /// Calls and results of earlier questions, by the question as it was sent.
    trails: Vec<(String, Vec<Item>)>,
    /// Pictures of the conversation.
    images: Vec<Arc<Image>>,
    compact_at_percent: usize,
    /// The JSON schema that answers are to fit.
    answer_schema: Option<String>,
    /// Follows requests, for traces.
    tracer: Traced,
    /// Summaries that failed in this conversation, one after the other.
    summary_failures: u8,
    purse: Purse,
    /// Reason why the newest answer isn't all that it could have been.
    shortfall: Option<Shortfall>,
    closed: Option<Failure>,
    /// A run towards a goal is on: commands in a model's text are calls, since no person will run them.
    is_in_run: bool,
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
            persona: None,
            aliases: BTreeMap::new(),
            recorder,
            secrets: Secrets::default(),
            named_secrets: Vec::new(),
            prompts: Prompts::default(),
            limits: Limits::default(),
            runner: None,
            toolless: BTreeSet::new(),
            roomless: BTreeSet::new(),
            learnt: BTreeMap::new(),
            trails: Vec::new(),
            images: Vec::new(),
            compact_at_percent: 0,
            answer_schema: None,
            tracer: None,
            summary_failures: 0,
            purse: Purse::default(),
            shortfall: None,
            closed: None,
            is_in_run: false,
        };
        agent.configure(options);
        agent
    }

    /// Continues with other options: the conversation stays, and so does the model that answers, unless it was removed or
    /// answered only as the default.
    pub fn configure(&mut self, options: Options) {
        let Options { models, default_model, system_prompts, aliases, conversation, secrets, prompts, limits, .. } =
            options;
        self.closed = options.closed;
        self.purse.configure(options.money);
        (self.prompts, self.limits) = (prompts, limits);
        let default_model = default_model.or_else(|| match &models[..] {
            [only] => Some(only.name().to_owned()),
            _ => None,
        });
        let chosen = self.current.take().filter(|name| {
            Some(name) != self.default_model.as_ref() && models.iter().any(|model| model.name() == name)
        });
        self.current = chosen.or_else(|| default_model.clone());
        self.default_model = default_model;
        self.models = Models::new(models);
        self.system_prompt.clone_from(&conversation.system_prompt);
        self.system_prompts = system_prompts;
        self.aliases = aliases;
        self.compact_at_percent = conversation.compact_at_percent;
        self.conversation.limit(conversation);
        self.named_secrets = secrets;
        self.learn_keys();
    }

    /// Hides the models' keys too, those that are known by now: some are read with the first question only.
    fn learn_keys(&mut self) {
        let values = self.named_secrets.iter().cloned().chain(self.models.keys()).collect();
        if self.secrets.know(values) {
            self.conversation.redact_with(self.secrets.redactor.clone());
        }
    }

    /// Returns a text without its secrets, for storage.
    #[must_use]
    pub fn redacted(&self, text: &str) -> String {
        self.secrets.redactor.redact(text).text.into_owned()
    }

    /// Hides them, and lists them as hidden at this place.
    #[must_use]
    pub fn hidden(&mut self, place: &str, text: &str) -> String {
        self.secrets.hide_shown(place, text)
    }

    /// Finds the secrets that are known by now.
    #[must_use]
    pub fn redactor(&self) -> &crate::redact::Redactor {
        &self.secrets.redactor
    }

    /// Reason why the newest answer isn't all that it could have been; `None` if nothing was missing.
    #[must_use]
    pub fn shortfall(&self) -> Option<Shortfall> {
        self.shortfall
    }

    /// The secrets hidden in this session, the oldest first.
    pub fn findings(&self) -> impl Iterator<Item = &Finding> {
        self.secrets.findings()
    }

    /// The writer of titles, if the answering model is a router with a model for summaries.
    #[must_use]
    pub fn titler(&self) -> Option<Titler> {
        let name = self.current_model()?;
        let spec = self.models.specs().iter().find(|spec| spec.name() == name)?;
        let Spec::Router { rules, .. } = spec else { return None };
        let provider = rules.contains_key(Task::Summary.word()).then(|| self.models.get(name).cloned())??;
        Some(Titler::new(provider, self.purse.options().clone()))
    }

    /// The writer of short texts of a model, within a limit of the run that is on.
    pub(super) fn writer(&self, name: &str, limit: Limit) -> Option<Titler> {
        let name = self.aliases.get(name).map_or(name, String::as_str);
        let mut money = self.purse.options().clone();
        money.budget.per_run = limit;
        self.models.get(name).cloned().map(|provider| Titler::new(provider, money))
    }

    /// Returns whether one model is farther away than another; the one that answers stands for an empty name.
    pub(super) fn is_farther(&self, name: &str, than: &str) -> bool {
        let reach = |name: &str| {
            let name = Some(name).filter(|name| !name.is_empty()).or(self.current.as_deref())?;
            let name = self.aliases.get(name).map_or(name, String::as_str);
            self.models.get(name).map(|model| model.capabilities().reach)
        };
        !name.is_empty() && reach(name) > reach(than)
    }

    /// A recorder for requests beside the answer.
    pub(super) fn recorder_beside(&self) -> Option<Box<dyn Recorder>> {
        self.recorder.beside()
    }

    /// Counts a text's tokens as the model does that answers, or estimates them; may ask its server.
    pub fn count_tokens(&mut self, text: &str, cancel: &Cancel) -> Count {
        let name = self.current_model().unwrap_or_default().to_owned();
        let provider = self.models.get(&name);
        let count = provider.and_then(|provider| provider.count(Countable::Text(text), cancel));
        count.unwrap_or_else(|| self.purse.estimate(text, &name, &mut *self.recorder))
    }

    /// Makes answers fit a JSON schema from now on, without tools; servers that can hold the model to it do.
    pub fn answer_as(&mut self, schema: Option<String>) {
        self.answer_schema = schema;
    }

    /// Sets the system prompt of all models, or restores their own.
    pub fn speak_as(&mut self, persona: Option<String>) {
        self.persona = persona;
    }

    /// Returns whether tools go with the next question.
    #[must_use]
    pub fn offers_tools(&self) -> bool {
        choose(&self.models, self.current.as_deref()).is_ok_and(|it| self.has_tools(&*it))
    }

    /// Follows the requests of the next questions to models, which belong to a trace then.
    pub fn trace_by(&mut self, tracer: Option<Arc<dyn Tracer>>) {
        self.tracer = tracer;
    }

    /// Sets the tools, or removes them; returns the previous ones.
    pub fn replace_tools(&mut self, runner: Option<ToolRunner>) -> Option<ToolRunner> {
        std::mem::replace(&mut self.runner, runner)
    }

    /// The tool runner, if there is one.
    pub fn runner(&mut self) -> Option<&mut ToolRunner> {
        self.runner.as_mut()
    }

    /// Asks one question and returns when it is over. `sink` gets notices, then pieces as they arrive, then exactly one
    /// of `Answered`, `Cancelled` and `Failed`. A call that would need a person's consent is denied.
    pub fn ask(&mut self, question: &str, cancel: &Cancel, sink: &mut dyn FnMut(Event)) {
        self.ask_with(question, cancel, sink, &mut Nobody);
    }

    /// Does the same as [`Self::ask`], with a person who is asked what must be asked.
    pub fn ask_with(&mut self, question: &str, cancel: &Cancel, sink: &mut dyn FnMut(Event), person: &mut dyn Person) {
        match self.closed.clone() {
            Some(failure) => sink(Event::Failed { text: String::new(), failure }),
            None => self.answer(question, cancel, sink, person),
        }
    }

    fn answer(&mut self, question: &str, cancel: &Cancel, sink: &mut dyn FnMut(Event), person: &mut dyn Person) {
        self.learn_keys();
        let question = &self.secrets.hide("your question", question);
        self.make_ready(question, cancel, sink);
        let has_tools = self.offers_tools();
        let mut record = Record { recorder: &mut *self.recorder, has_failed: false };
        record.keep(sink, |it| it.question(question, self.current.as_deref()));
        let provider = match choose(&self.models, self.current.as_deref()) {
            Ok(provider) => provider,
            Err(failure) => {
                record.keep(sink, |it| it.finished(Ending::Failed(&failure)));
                return sink(Event::Failed { text: String::new(), failure });
            }
        };
        tracing::info!(event = "provider_selected", provider = provider.name());
        let Prompts { tools: tool_prompt, commands: command_prompt } = &self.prompts;
        let mut request = request_for(&mut self.conversation, question, sink);
        request.answer_schema.clone_from(&self.answer_schema);
        with_images(&mut request, &mut self.images, &*provider);
        with_trails(&mut request, &self.trails);
        let runner = self.runner.as_mut().filter(|_| (has_tools || self.is_in_run) && request.answer_schema.is_none());
        let is_small = is_small(&provider.capabilities());
        let offering = runner.as_ref().filter(|_| has_tools);
        request.tools = offering.map(|it| it.tools(is_small, person.can_reply())).unwrap_or_default();
        let sent = request.question().to_owned();
        let conversation = record.recorder.conversation().map(|id| id.0);
        self.purse.begin_turn();
        let (consents, secrets, purse) = (&mut self.consents, &mut self.secrets, &mut self.purse);
        let (bytes_max, tracer) = (self.limits.response_bytes_max, self.tracer.clone());
        let mut asked = Asked::new(Parts { sink, record, cancel, person, consents, secrets, purse, tracer, bytes_max });
        let is_tired = self.summary_failures >= texts::compact::FAILURES_MAX;
        let compact_at = self.conversation.compact_at_tokens().filter(|_| !is_tired);
        let mut shorter = Shorter {
            conversation: &mut self.conversation,
            models: &self.models,
            trails: &self.trails,
            compact_at,
            has_run: false,
            refused: None,
        };
        let turn = Turn {
            provider: &*provider,
            shorter: &mut shorter,
            asked: &mut asked,
            runner,
            limits: &self.limits,
            roomless: &mut self.roomless,
            command_prompt,
            tool_prompt,
            conversation,
            is_small,
            is_in_run: self.is_in_run,
            by_lines: !has_tools && self.is_in_run,
        };
        let Turned { end, trail, has_no_tools, counted, shortfall } = turn.run(request);
        self.learnt.entry(provider.name().to_owned()).or_default().learn(counted, shorter.refused);
        asked.settle_rest();
        let Asked { text, sink, record, secrets, person, .. } = asked;
        self.shortfall = shortfall;
        let _ = self.runner.as_mut().and_then(|runner| calls::guard::guarded(runner, person, sink));
        let redacted = secrets.redactor.redact(&text).text.into_owned();
        if has_no_tools {
            self.toolless.insert(provider.name().to_owned());
        }
        // Without an answer neither the question nor its calls are sent again.
        if !redacted.trim().is_empty() {
            keep_trail(&mut self.trails, sent, trail);
        }
        close(&mut self.conversation, (end, shortfall), (text, &redacted), sink, record);
    }

    /// Takes over the turns that another session added to this conversation or rewound.
    fn catch_up(&mut self, sink: &mut dyn FnMut(Event)) {
        let Some(conversation) = self.recorder.conversation() else { return };
        if let Some((turns, summary)) = self.recorder.changed_beside() {
            sink(Event::Notice("[history] another session has changed this conversation".to_owned()));
            self.go_on_in(conversation, turns, summary);
        }
    }

    /// Finds out what the answering model can read, and makes the conversation fit.
    fn make_ready(&mut self, question: &str, cancel: &Cancel, sink: &mut dyn FnMut(Event)) {
        self.shortfall = None;
        self.catch_up(sink);
        let Ok(provider) = choose(&self.models, self.current.as_deref()) else { return };
        let has_tools = self.has_tools(&*provider);
        if let (true, Some(runner)) = (has_tools, &mut self.runner) {
            runner.prepare(cancel, sink);
        }
        let runner = self.runner.as_ref().filter(|runner| runner.has_tools() && (has_tools || !self.is_in_run));
        let servers = runner.and_then(ToolRunner::servers);
        let note = servers.and_then(|it| if has_tools { it.instructions() } else { it.by_command() });
        if let Some(note) = note {
            self.conversation.attach_also(self.secrets.hide("a server of tools", &note));
        }
        let offers_tools = self.runner.as_ref().is_some_and(ToolRunner::has_tools);
        // A short first question without tools fits every window, so it doesn't wait for one.
        if offers_tools || !self.conversation.is_empty() || question.len() > SHORT_BYTES {
            provider.learn(cancel);
        }
        let name = provider.name();
        if offers_tools && !provider.capabilities().tools && self.toolless.insert(name.to_owned()) {
            sink(Event::Notice(rounds::proposes_instead(name, "takes no tools", self.is_in_run)));
        }
        self.prepare(&*provider);
        // The window of the model is known only now.
        if let (true, Some(runner)) = (has_tools, &mut self.runner) {
            runner.fit_window(self.conversation.window_tokens(), self.conversation.budget(), sink);
        }
        self.compact_if_due(&*provider, question, cancel, sink);
    }

    /// Makes the conversation fit the model that is asked.
    fn prepare(&mut self, provider: &dyn Provider) {
        let Prompts { tools, commands } = &self.prompts;
        let own = self.system_prompts.get(provider.name()).unwrap_or(&self.system_prompt);
        let system = self.persona.as_ref().unwrap_or(own);
        let more = if self.has_tools(provider) { tools } else { commands };
        self.conversation.instruct(&instructions(system, more));
        let window = provider.capabilities().context_tokens.and_then(|tokens| usize::try_from(tokens).ok());
        // A server that has refused a request for its size has a smaller window than that, whatever else is known.
        let refused = self.learnt.get(provider.name()).and_then(|learnt| learnt.refused);
        self.conversation.fit_window(window.into_iter().chain(refused.map(|tokens| tokens * 9 / 10)).min());
        self.conversation.scale(self.scale(provider));
    }

    /// Returns whether a model gets tools.
    fn has_tools(&self, provider: &dyn Provider) -> bool {
        self.runner.as_ref().is_some_and(ToolRunner::has_tools)
            && provider.capabilities().tools
            && !self.toolless.contains(provider.name())
    }

    /// Puts notes before the next question, each with the place that it is from. The model gets only those that it doesn't have
    /// yet, so that nothing before the question changes.
    pub fn attach(&mut self, notes: &[(&str, String)]) {
        self.learn_keys();
        let notes = notes.iter().filter(|(_, text)| !text.is_empty());
        let notes = notes.map(|(place, text)| self.secrets.hide(place, text)).collect();
        self.conversation.attach(notes);
    }

    /// Returns whether the model that answers takes pictures; its server may be asked.
    ///
    /// # Errors
    /// Why it gets none.
    pub fn takes_images(&self) -> Result<(), String> {
        let Ok(provider) = choose(&self.models, self.current.as_deref()) else { return Ok(()) };
        provider.learn(&Cancel::new());
        let name = provider.name();
        match provider.capabilities().images {
            Some(true) => Ok(()),
            Some(false) => Err(format!("{name} takes no pictures")),
            None => Err(format!(
                "it isn't known whether {name} takes pictures; models.{name}.images = true in the config says that it does"
            )),
        }
    }

    /// Returns whether the conversation holds a picture.
    pub fn has_image(&self, image: &Image) -> bool {
        self.conversation.has_note(&image.mark())
    }

    /// Sends pictures with the messages that hold their marks, from the next question on.
    pub fn attach_images(&mut self, images: Vec<Image>) {
        for image in images {
            if !self.images.iter().any(|it| **it == image) {
                self.images.push(Arc::new(image));
            }
        }
        let bytes = |images: &[Arc<Image>]| images.iter().map(|it| it.bytes().len()).sum::<usize>();
        while bytes(&self.images) > IMAGES_BYTES_MAX {
            self.images.remove(0);
        }
    }

    /// Keeps a command's outcome for the next question.
    pub fn note_outcome(&mut self, outcome: &CommandOutcome) {
        let hidden = self.conversation.ran(outcome);
        self.secrets.note(hidden.into_iter().map(|(place, hidden)| Finding { place, hidden }), true);
    }

    /// Lets another model answer from now on; the conversation continues.
    ///
    /// # Errors
    /// A failure of kind `User` if no model has that name.
    pub fn use_model(&mut self, name: &str) -> Result<(), Failure> {
        let name = self.aliases.get(name).map_or(name, String::as_str);
        if self.models.get(name).is_some() {
            self.current = Some(name.to_owned());
            return Ok(());
        }
        Err(unknown_model(FailureKind::User, name, &self.models))
    }

    /// Returns whether a model is set up and chosen.
    ///
    /// # Errors
    /// A failure of kind `NoModel`.
    pub(super) fn answering(&self) -> Result<(), Failure> {
        if self.models.specs().is_empty() {
            return Err(Failure::no_model("no model is set up")
                .hint("models in the config lists them; reedclaw init writes a config to begin with"));
        }
        choose(&self.models, self.current_model()).map(|_| ())
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
            is_near: self.models.get(it.name()).is_some_and(|it| it.capabilities().reach != Reach::Internet),
        };
        self.models.specs().iter().map(info).collect()
    }

    /// Names the answering model, if it is configured.
    #[must_use]
    pub fn current_model(&self) -> Option<&str> {
        self.current.as_deref().filter(|name| self.models.get(name).is_some())
    }

    /// Begins a new conversation; outputs of commands since the last question stay for its first one.
    pub fn clear_conversation(&mut self) {
        self.trails.clear();
        self.conversation.clear();
        self.summary_failures = 0;
        self.recorder.turn_to(None);
    }

    /// Begins a new conversation, discards outputs too, and returns to the default model.
    pub fn reset(&mut self) {
        self.trails.clear();
        self.conversation.reset();
        self.summary_failures = 0;
        self.recorder.turn_to(None);
        self.current.clone_from(&self.default_model);
    }

    /// Goes on in a recorded conversation that holds these turns. Outputs that the model saw are known for turns that
    /// this very agent asked in it, and lost for others.
    pub fn go_on_in(&mut self, conversation: ConversationId, turns: Vec<PastTurn>, summary: Option<PastSummary>) {
        if self.recorder.conversation() != Some(conversation) {
            self.conversation.clear();
            self.summary_failures = 0;
        }
        self.conversation.restore(turns, summary);
        self.recorder.turn_to(Some(conversation));
        self.trails.clear();
        // Without its calls an answer still names their results.
        let servers = self.runner.as_ref().and_then(|runner| runner.servers().cloned());
        for (question, calls) in self.recorder.calls().unwrap_or_default() {
            // A server's tool that was found for the conversation stays with it.
            servers.iter().for_each(|servers| calls.iter().for_each(|call| servers.offer(&call.tool)));
            keep_trail(&mut self.trails, question, calls.into_iter().flat_map(as_items).collect());
        }
    }

    /// Records into a copy of the present conversation from now on; the model's context doesn't change.
    pub fn branch_into(&mut self, conversation: ConversationId) {
        self.recorder.turn_to(Some(conversation));
    }

    /// Begins the conversation, unless it has begun, so that it exists before its first question is answered.
    pub fn begin(&mut self) -> Option<ConversationId> {
        self.recorder.begin(self.current.as_deref())
    }

    /// Charges the following requests to a run, within its limit; without a run, only to the conversation.
    pub(super) fn charge_run(&mut self, charge: Option<Charge>, limit: Limit) {
        self.is_in_run = charge.is_some();
        self.recorder.charge(charge);
        self.purse.limit_run(limit);
    }

    /// The conversation that is recorded, once its first question was asked.
    #[must_use]
    pub fn conversation(&self) -> Option<ConversationId> {
        self.recorder.conversation()
    }
}

impl Learnt {
    /// Updates what is known about a model's counting: the server's count, and the estimate of a refused request.
    fn learn(&mut self, counted: Option<Counted>, refused: Option<usize>) {
        let factor = counted.map(|counted| counted.scale().factor).filter(|factor| FACTORS.contains(factor));
        self.factor = factor.or(self.factor);
        if let Some(tokens) = refused {
            let scale = Scale { factor: self.factor.unwrap_or(1.0), beside: 0 };
            self.refused = Some(scale.counted(tokens)).into_iter().chain(self.refused).min();
        }
    }
}

/// Ends a question: the conversation stores the answer so far, and the recorder and the user interface learn how it ended.
fn close(
    conversation: &mut Conversation,
    (end, missing): (Result<Response, Broken>, Option<Shortfall>),
    (text, redacted): (String, &str),
    sink: &mut dyn FnMut(Event),
    mut record: Record<'_>,
) {
    match end {
        Ok(response) if text.trim().is_empty() => {
            let message = shortfall(&response).unwrap_or("the model gave no answer");
            let hint = "ask in another way, or another model";
            let failure = Failure::unavailable(message.to_owned()).hint(hint);
            close(conversation, (Err(Broken::Failed(failure)), missing), (text, redacted), sink, record);
        }
        Ok(response) => {
            conversation.answered(redacted);
            if let Some(notice) = shortfall(&response) {
                sink(Event::Notice(format!("[model] {notice}")));
            }
            record.keep(sink, |it| it.finished(Ending::Answered));
            sink(Event::Answered { text, shortfall: missing });
        }
        Err(Broken::Cancelled) => {
            conversation.cancelled(redacted);
            record.keep(sink, |it| it.finished(Ending::Cancelled));
            sink(Event::Cancelled { text });
        }
        Err(Broken::Failed(failure)) => {
            let (kind, message) = (format!("{:?}", failure.kind), failure.message.as_str());
            tracing::warn!(event = "answer_failed", kind, message, shown = true);
            conversation.broke_off(redacted);
            record.keep(sink, |it| it.finished(Ending::Failed(&failure)));
            sink(Event::Failed { text, failure });
        }
    }
}

/// A system prompt and the text after it; empty if the person wants none.
fn instructions(system: &str, more: &str) -> String {
    if system.trim().is_empty() || more.is_empty() {
        return system.to_owned();
    }
    format!("{}\n{more}", system.trim_end())
}

/// Converts a recorded call to items of a request. A server would refuse arguments that were cut and are no longer JSON.
fn as_items(call: PastCall) -> [Item; 2] {
    let PastCall { id, tool: name, arguments, result, is_done, .. } = call;
    let is_whole = serde_json::from_str::<serde_json::Value>(&arguments).is_ok_and(|value| value.is_object());
    let arguments = if is_whole { arguments } else { serde_json::json!({"shortened": arguments}).to_string() };
    let result = ToolResult { id: id.clone(), name: name.clone(), content: result, is_error: !is_done };
    let calls = vec![ToolCall { id, name, arguments }];
    [Item::Assistant { text: String::new(), calls, state: None }, Item::Tool(result)]
}

/// Stores the calls of a question for the following ones, within limits.
fn keep_trail(trails: &mut Vec<(String, Vec<Item>)>, question: String, mut trail: Vec<Item>) {
    if trail.is_empty() {
        return;
    }
    let bytes = |trail: &mut Vec<Item>| -> usize {
        let length = |item: &mut Item| match item {
            Item::Tool(result) => {
                let end = result.content.floor_char_boundary(TRAIL_RESULT_BYTES);
                if end < result.content.len() {
                    result.content.truncate(end);
                    result.content.push_str("\n[shortened]");
                }
                result.content.len()
            }
            Item::Assistant { text, calls, .. } => {
                text.len() + calls.iter().map(|call| call.arguments.len()).sum::<usize>()
            }
            Item::System(text) | Item::User(text) => text.len(),
        };
        trail.iter_mut().map(length).sum()
    };
    bytes(&mut trail);
    trails.push((question, trail));
    let mut total: usize = trails.iter_mut().map(|(_, trail)| bytes(trail)).sum();
    while total > TRAIL_BYTES_MAX && !trails.is_empty() {
        let (_, mut oldest) = trails.remove(0);
        total -= bytes(&mut oldest);
    }
}

/// Opens a question in a conversation and builds its request.
fn request_for(conversation: &mut Conversation, question: &str, sink: &mut dyn FnMut(Event)) -> Request {
    let (messages, notices) = conversation.messages_for(question);
    notices.into_iter().for_each(|notice| sink(Event::Notice(notice)));
    let metadata = Metadata { task: turn::task::of_question(question), hints: hints(&messages) };
    Request { metadata, ..Request::of(&messages) }
}

/// Adds the pictures whose marks the messages still hold, if the model takes any; forgets the others.
fn with_images(request: &mut Request, images: &mut Vec<Arc<Image>>, provider: &dyn Provider) {
    let has = |mark: &str| request.messages.iter().any(|item| matches!(item, Item::User(text) if text.contains(mark)));
    images.retain(|image| has(&image.mark()));
    if !images.is_empty() && provider.capabilities().images == Some(true) {
        request.images.clone_from(images);
        request.metadata.hints.insert("images".to_owned());
    }
}

/// The words by which a router may choose.
fn hints(messages: &[Message]) -> BTreeSet<String> {
    let length = messages.iter().map(|message| message.content.len()).sum::<usize>();
    (length > LONG_CHARS).then(|| "long".to_owned()).into_iter().collect()
}

/// The fault of an answer that seems to have ended well.
fn shortfall(response: &Response) -> Option<&'static str> {
    match response.stop.reason {
        StopReason::Length => Some("the answer stopped at the server's limit of tokens"),
        StopReason::Filtered => Some("the server's content filter stopped the answer"),
        StopReason::ContextFull => Some("the answer stopped because the model's context is full"),
        _ => None,
    }
}
