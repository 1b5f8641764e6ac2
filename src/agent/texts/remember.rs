//! A memory of a conversation, written by the small model if there is one: while the user waits, or on a thread of its
//! own that the next question ends. Knows nothing of where memories are stored.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, TryRecvError, channel};

use crate::agent::asked::Quiet;
use crate::agent::purse::Purse;
use crate::agent::recorder::Recorder;
use crate::agent::{Agent, Cancel, choose};
use crate::model::{Fault, Metadata, Models, Provider, Reach, Request, Task};
use crate::proto::{Event, Failure};
use crate::turn::{PastTurn, memory_request, written_memory};

/// Maximum number of tokens of a memory: 120 words are asked for, and some models think before they write.
pub(in crate::agent) const MEMORY_TOKENS_MAX: u64 = 4096;

/// A memory that is being written.
#[derive(Debug)]
pub struct MemoryJob {
    cancel: Cancel,
    receiver: Receiver<Written>,
}

/// The progress of a memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Written {
    /// Still being written.
    Pending,
    /// Written; `None` if the model found nothing worth remembering.
    Done(Option<String>),
    /// No memory could be written, for this reason.
    Failed(String),
    /// Stopped.
    Stopped,
}

impl MemoryJob {
    /// Returns its progress.
    #[must_use]
    pub fn poll(&self) -> Written {
        match self.receiver.try_recv() {
            Ok(written) => written,
            Err(TryRecvError::Empty) => Written::Pending,
            Err(TryRecvError::Disconnected) => Written::Failed("its thread ended early".into()),
        }
    }
}

impl Drop for MemoryJob {
    /// Cancels the request, since the memory isn't wanted any more.
    fn drop(&mut self) {
        self.cancel.cancel();
    }
}

impl Agent {
    /// Hides data about persons, too, from models and from the record, or no longer does.
    pub fn hide_personal(&mut self, hides_personal: bool) {
        self.secrets.redactor = std::mem::take(&mut self.secrets.redactor).hiding_personal(hides_personal);
        self.conversation.redact_with(self.secrets.redactor.clone());
    }

    /// Lets a model write a memory of these turns, and waits for it; `None` if nothing is worth remembering.
    ///
    /// # Errors
    /// The turns have no answer, or no memory could be made.
    pub fn write_memory(
        &mut self,
        turns: &[PastTurn],
        cancel: &Cancel,
        sink: &mut dyn FnMut(Event),
    ) -> Result<Option<String>, Failure> {
        let provider = choose(&self.models, self.current.as_deref())?;
        let writer = writer(&self.models, &provider);
        let Some(messages) = memory_request(turns, self.material_tokens(&*writer)) else {
            return Err(Failure::user("this conversation holds no answer yet")
                .hint(":memory add TEXT remembers what you write yourself"));
        };
        let text = self.written(&*writer, &messages, cancel, sink)?;
        Ok(written_memory(&text).map(str::to_owned))
    }

    /// Starts to write a memory of these turns on a separate thread, with the model that answered them or a nearer one;
    /// `recorder` gets the cost. `None` if that model is no longer configured, or the turns have no answer.
    #[must_use]
    pub fn begin_memory(
        &mut self,
        turns: &[PastTurn],
        model: &str,
        mut recorder: Box<dyn Recorder>,
    ) -> Option<MemoryJob> {
        let provider = Arc::clone(self.models.get(model)?);
        let writer = writer(&self.models, &provider);
        let messages = memory_request(turns, self.material_tokens(&*writer))?;
        let metadata = Metadata { task: Task::Summary, ..Metadata::default() };
        let mut request = Request { metadata, max_output_tokens: Some(MEMORY_TOKENS_MAX), ..Request::of(&messages) };
        self.learn_keys();
        self.secrets.hide_in(&mut request);
        let redactor = self.secrets.redactor.clone();
        let money = self.purse.options().clone();
        let cancel = Cancel::new();
        let (sender, receiver) = channel();
        let stop = cancel.clone();
        std::thread::spawn(move || {
            let mut purse = Purse::default();
            purse.configure(money);
            let (sink, recorder) = (&mut |_| {}, &mut *recorder);
            let mut quiet = Quiet { cancel: &stop, sink, purse: &mut purse, recorder };
            let end = writer.chat(&request, &mut quiet);
            let text = end.as_ref().map_or("", |response| response.text.as_str());
            // The store reports its own failures.
            let _ = purse.settle(end.as_ref().map_err(|error| &**error), (text, ""), recorder);
            let written = match end {
                Ok(response) => {
                    let text = redactor.redact(&response.text).text;
                    Written::Done(written_memory(&text).map(str::to_owned))
                }
                Err(error) if error.fault == Fault::Cancelled => Written::Stopped,
                Err(error) => Written::Failed(error.to_failure().message),
            };
            // Fails if the session has ended.
            let _ = sender.send(written);
        });
        Some(MemoryJob { cancel, receiver })
    }

    /// The distance to a model, by default the answering one: 0 this machine, 1 the private network, 2 beyond it. An
    /// unknown model counts as distant.
    #[must_use]
    pub fn reach(&self, model: Option<&str>) -> u8 {
        let name = model.or(self.current.as_deref());
        match name.and_then(|name| self.models.get(name)).map(|model| model.capabilities().reach) {
            Some(Reach::Machine) => 0,
            Some(Reach::Network) => 1,
            Some(Reach::Internet) | None => 2,
        }
    }

    /// Returns whether the conversation holds no turn yet.
    #[must_use]
    pub fn is_new(&self) -> bool {
        self.conversation.is_empty()
    }

    /// Tokens of material that a writer can read beside its instructions and its answer.
    fn material_tokens(&self, writer: &dyn Provider) -> usize {
        let window = writer.capabilities().context_tokens.and_then(|tokens| usize::try_from(tokens).ok());
        window.map_or(self.conversation.budget(), |window| window.min(self.conversation.budget())) * 3 / 4
    }
}

/// The writing model: the one for summaries, else the answering one.
fn writer(models: &Models, provider: &Arc<dyn Provider>) -> Arc<dyn Provider> {
    models.for_task(&**provider, Task::Summary).unwrap_or_else(|| Arc::clone(provider))
}
