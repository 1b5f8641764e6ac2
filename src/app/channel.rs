//! Channels: where messages come from and where what becomes of them goes. A runtime has each message answered, in the
//! conversation that it belongs to, and sends what happens back to the channel; it doesn't know how anything is drawn.

use std::path::{Path, PathBuf};
use std::sync::PoisonError;

use super::{App, Around, Attaching, Remembered, hands};
use crate::agent::{Cancel, Person};
use crate::host;
use crate::log::{self, Level};
use crate::proto::{Event, Failure};
use crate::store::ConversationId;

/// Where messages come from, and where answers go.
pub trait Channel {
    /// Its name, as the log and the config have it.
    fn name(&self) -> &'static str;

    /// Takes messages and has them answered, until no more come; gives how that ended.
    ///
    /// # Errors
    /// It can't be begun.
    fn start(&mut self, runtime: &mut Runtime) -> Result<u8, Failure>;

    /// Sends what happened to a message of a conversation, in order; the end of an answer has all of its text.
    fn send(&mut self, conversation: Option<ConversationId>, message: Event);

    /// Whether an answer is shown while it comes. Where it isn't, its pieces aren't sent.
    fn supports_draft_updates(&self) -> bool;
}

/// Has messages answered.
pub struct Runtime {
    /// Settings, store and agent.
    pub app: App,
    /// Where a question is asked: what it names with `@` is looked up there.
    pub cwd: PathBuf,
    around: Around,
}

impl Runtime {
    /// A runtime over these parts.
    #[must_use]
    pub fn new(app: App) -> Self {
        Self { app, cwd: host::working_directory(), around: Around::default() }
    }

    /// Begins to look at what a question will carry that comes at once.
    pub fn look_ahead(&mut self) {
        let App { agent, settings, env, .. } = &self.app;
        if settings.context.project && agent.current_model().is_some() {
            self.around.begin(settings, env, &self.cwd);
        }
    }

    /// Gives the model its tools, in `workspace`; tells what is wrong with them. Where no model is configured nobody would
    /// use them.
    pub fn take_tools(&mut self, workspace: &Path) -> Vec<Failure> {
        let App { agent, settings, env, store, channel, config, .. } = &mut self.app;
        if agent.models().is_empty() {
            return Vec::new();
        }
        match hands(settings, env, workspace, store, Some(*channel), config.path.as_deref()) {
            Ok(handed) => {
                drop(agent.take_up(Some(handed.hands)));
                handed.problems
            }
            Err(failure) => vec![failure],
        }
    }

    /// Lets a channel begin, and waits for its end.
    ///
    /// # Errors
    /// It couldn't be begun.
    pub fn run(&mut self, channel: &mut dyn Channel) -> Result<u8, Failure> {
        log::event(Level::Info, "channel_started", &[("channel", channel.name().into())]);
        channel.start(self)
    }

    /// Lets the next question carry what is remembered, what is known of the repository around, as the settings have it, and
    /// what it names with `@`; gives what is to be told of that.
    fn attach(&mut self, question: &str) -> Vec<String> {
        let App { agent, settings, env, store, config, .. } = &mut self.app;
        if agent.current_model().is_none() {
            return Vec::new();
        }
        let cwd = &self.cwd;
        let store = store.lock().unwrap_or_else(PoisonError::into_inner);
        let remembered = Remembered::choose(agent, settings, &store, question, cwd);
        drop(store);
        let around = settings.context.project.then(|| self.around.notes(settings, env, cwd)).flatten();
        let mut told: Vec<String> = remembered.told().into_iter().collect();
        let mut parts = vec![("a memory", remembered.note)];
        if let Some(notes) = around {
            told.extend(
                notes.told.map(|told| format!("{told}; context.project = false in the config leaves that out")),
            );
            parts.extend(notes.parts);
        }
        let attached = Attaching { settings, env, config: config.path.as_deref(), cwd }.attach(question);
        told.extend(attached.told);
        parts.extend(attached.notes.iter().map(|(place, text)| (place.as_str(), text.clone())));
        agent.attach(&parts);
        told
    }

    /// Has a message answered: the conversation is begun or goes on, and all that happens is sent to the channel.
    pub fn answer(&mut self, channel: &mut dyn Channel, message: &str, cancel: &Cancel, person: &mut dyn Person) {
        let conversation = self.app.agent.begin();
        for told in self.attach(message) {
            channel.send(conversation, Event::Notice(told));
        }
        let has_drafts = channel.supports_draft_updates();
        let mut send = |event| {
            if has_drafts || !matches!(event, Event::Text(_)) {
                channel.send(conversation, event);
            }
        };
        self.app.agent.ask_with(message, cancel, &mut send, person);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::app::Request;

    /// Takes one message and keeps what it is sent.
    struct Letterbox {
        has_drafts: bool,
        sent: Vec<(Option<ConversationId>, Event)>,
    }

    impl Channel for Letterbox {
        fn name(&self) -> &'static str {
            "letterbox"
        }

        fn start(&mut self, runtime: &mut Runtime) -> Result<u8, Failure> {
            runtime.answer(self, "hello", &Cancel::new(), &mut crate::agent::Nobody);
            runtime.answer(self, "again", &Cancel::new(), &mut crate::agent::Nobody);
            Ok(7)
        }

        fn send(&mut self, conversation: Option<ConversationId>, message: Event) {
            self.sent.push((conversation, message));
        }

        fn supports_draft_updates(&self) -> bool {
            self.has_drafts
        }
    }

    #[test]
    fn a_channel_is_sent_the_conversation_and_pieces_only_where_it_shows_them() {
        for has_drafts in [true, false] {
            let home = tempfile::tempdir().expect("a home");
            let script = home.path().join("answers.jsonl");
            std::fs::write(&script, "{\"steps\": [{\"text\": \"yes\"}]}").expect("a script");
            let config = home.path().join("config.lua");
            let text = format!(
                "return {{models = {{mine = {{kind = \"mock\", script = \"{}\"}}}}, history = {{dir = \"{}\"}}}}",
                script.display(),
                home.path().join("store").display()
            );
            std::fs::write(&config, text).expect("a config");
            let app = App::start(&Request { config: Some(config), ..Request::default() }).expect("it starts");
            let mut channel = Letterbox { has_drafts, sent: Vec::new() };
            assert_eq!(Runtime::new(app).run(&mut channel).expect("it runs"), 7);
            assert!(channel.sent.iter().all(|(conversation, _)| *conversation == Some(ConversationId(1))));
            let pieces = channel.sent.iter().filter(|(_, event)| *event == Event::Text("yes".into())).count();
            let ends =
                channel.sent.iter().filter(|(_, event)| *event == Event::Answered { text: "yes".into() }).count();
            assert_eq!((pieces, ends), (if has_drafts { 2 } else { 0 }, 2), "{:?}", channel.sent);
        }
    }
}
