//! Memories beyond a conversation: `:memory`, those that precede a conversation's first question, those that a model
//! would remember, and the memory of an ended conversation, which is written in the background.

use std::sync::Arc;

use super::run::{Flow, Repl};
use super::state;
use crate::agent::{Agent, MemoryJob, Written};
use crate::app::{StoreRecorder, past_turns};
use crate::base::text::{age, one_line};
use crate::host;
use crate::ops;
use crate::ops::commands::MEMORY_WORDS;
use crate::ops::memory::{Change, Found};
use crate::project::Repository;
use crate::proto::{Event, Failure, FailureKind, Role};
use crate::render::sanitise;
use crate::render::text::table;
use crate::store::{ConversationId, Hit, MemoryOrigin, StoredMemory, StoredMessage, ToRemember};

/// Turns from which on a conversation is remembered by itself: of a shorter one there is little to say.
const TURNS_MIN: usize = 3;

/// Places in conversations that a search shows.
const HITS: usize = 20;

/// The session's state about memories.
#[derive(Debug, Default)]
pub(super) struct Memories {
    /// The memory that is being written.
    job: Option<(ToRemember, MemoryJob)>,
    /// Whether the session has looked for conversations that an earlier session left to be remembered.
    has_caught_up: bool,
}

impl Repl {
    /// Carries out `:memory`.
    pub(super) fn memory(&mut self, argument: &str) -> Flow {
        let (word, rest) = argument.split_once(char::is_whitespace).unwrap_or((argument, ""));
        let rest = rest.trim();
        let (number, text) = rest.split_once(char::is_whitespace).unwrap_or((rest, ""));
        match (word, number.parse::<i64>()) {
            ("", _) => self.list_memories(true),
            ("inbox", _) if rest.is_empty() => self.list_memories(false),
            ("save", _) if rest.is_empty() => return self.save_memory(),
            ("add", _) if !rest.is_empty() => self.add_memory(rest),
            ("edit", Ok(id)) => self.edit_memory(id, text.trim()),
            ("show", Ok(id)) => self.show_memory(id),
            ("forget", Ok(id)) if text.is_empty() => self.change_memory(id, Change::Forget),
            ("take", Ok(id)) if text.is_empty() => self.change_memory(id, Change::Take),
            ("drop", Ok(id)) if text.is_empty() => self.change_memory(id, Change::Drop),
            _ if !MEMORY_WORDS.contains(&word) => self.search_memory(argument),
            _ => self.console.failure(&failure(
                format!(":memory doesn't know {argument}"),
                "save, add TEXT, edit N [TEXT], show N, forget N, inbox, take N, drop N, words to look for, or nothing",
            )),
        }
        Flow::Continue
    }

    fn list_memories(&self, taken: bool) {
        let found = match ops::memory::list(&self.store(), taken) {
            Ok(found) => found,
            Err(failure) => return self.console.failure(&failure),
        };
        if found.is_empty() {
            let nothing = if taken { "nothing is remembered yet" } else { "the inbox is empty" };
            return self.console.notice(nothing);
        }
        let now = host::now_unix_ms();
        let row = |memory: &StoredMemory| {
            let mark = if self.runtime.carried().contains(&memory.id) { "*" } else { " " };
            let place = memory.place.as_deref().map_or("everywhere".to_owned(), |place| sanitise(place).into_owned());
            let from = match memory.origin {
                MemoryOrigin::User => "yours".to_owned(),
                MemoryOrigin::Model => "model's".to_owned(),
                MemoryOrigin::Summary => memory.conversation.map_or("summary".to_owned(), |id| format!("of {}", id.0)),
            };
            vec![format!("{mark} {}", memory.id), age(now - memory.time), from, place, one_line(&memory.text)]
        };
        self.console.write(&table(&found.iter().map(row).collect::<Vec<_>>(), self.console.width_columns()));
        self.console.notice(if taken {
            "* went in front of this conversation; :memory edit N, forget N, add TEXT; :memory inbox lists what a model would add"
        } else {
            "a model would remember these; :memory take N remembers one, :memory drop N deletes it"
        });
    }

    /// Looks for words in what is remembered and in all conversations.
    fn search_memory(&self, query: &str) {
        let found = ops::memory::find(&mut self.store(), query, HITS);
        let Found { memories, hits } = match found {
            Ok(found) => found,
            Err(failure) => return self.console.failure(&failure),
        };
        let now = host::now_unix_ms();
        let memory =
            |it: StoredMemory| vec![format!("memory {}", it.id), age(now - it.time), String::new(), one_line(&it.text)];
        let hit = |it: Hit| {
            let said_by = if it.role == Role::Assistant { "answer" } else { "question" };
            vec![format!("in {}", it.conversation.0), age(now - it.time), said_by.to_owned(), one_line(&it.excerpt)]
        };
        let rows: Vec<Vec<String>> = memories.into_iter().map(memory).chain(hits.into_iter().map(hit)).collect();
        if rows.is_empty() {
            return self.console.notice("nothing was found; word* finds beginnings");
        }
        self.console.write(&table(&rows, self.console.width_columns()));
        self.console.notice(":memory show N shows a memory, :resume ID goes on with a conversation");
    }

    fn show_memory(&self, id: i64) {
        match ops::memory::show(&self.store(), id) {
            Ok(memory) => self.console.outside(&format!("{}\n", memory.text)),
            Err(failure) => self.console.failure(&failure),
        }
    }

    fn add_memory(&self, text: &str) {
        let stored = ops::memory::add(&mut self.store(), self.runtime.agent(), text);
        self.show_stored(stored);
    }

    /// Changes the text of a memory; without a text it puts the present one into the editor.
    fn edit_memory(&mut self, id: i64, text: &str) {
        let known = ops::memory::show(&self.store(), id);
        match known {
            Err(failure) => self.console.failure(&failure),
            Ok(known) if text.is_empty() => {
                let line = format!(":memory edit {id} {}", sanitise(&one_line(&known.text)));
                self.insert_text(&line);
            }
            Ok(_) => self.change_memory(id, Change::Edit(text)),
        }
    }

    fn change_memory(&self, id: i64, change: Change<'_>) {
        let changed = ops::memory::change(&mut self.store(), self.runtime.agent(), id, change);
        match changed {
            Ok(done) => self.console.notice(&format!("memory {id} is {done}")),
            Err(failure) => self.console.failure(&failure),
        }
    }

    /// A memory of this place, which goes no farther than the model that answers.
    fn new_memory(&self, conversation: ConversationId, text: String) -> StoredMemory {
        ops::memory::written(self.runtime.agent(), self.memory_place(), Some(conversation), text)
    }

    fn remember_memory(&self, memory: StoredMemory) {
        let stored = ops::memory::remember(&mut self.store(), memory);
        self.show_stored(stored);
    }

    fn show_stored(&self, stored: Result<Option<StoredMemory>, Failure>) {
        match stored {
            Ok(stored) => self.console.notice(&ops::memory::stored_line(stored.as_ref())),
            Err(failure) => self.console.failure(&failure),
        }
    }

    /// `:memory save`: the present conversation, while the user waits.
    pub(super) fn save_memory(&mut self) -> Flow {
        let Some((id, turns)) = self.present_turns() else { return Flow::Continue };
        let turns = past_turns(turns);
        let mut written = None;
        let done = self.ask_aside(|agent, cancel, draw| match agent.write_memory(&turns, cancel, draw) {
            Ok(text) => written = Some(text),
            Err(failure) => draw(Event::Failed { text: String::new(), failure }),
        });
        match written {
            Some(Some(text)) => self.remember_memory(self.new_memory(id, text)),
            Some(None) => self.console.notice("the model found nothing worth remembering"),
            None => {}
        }
        done.err().unwrap_or(Flow::Continue)
    }

    /// The repository around the working directory, else that directory.
    fn memory_place(&self) -> Option<String> {
        let cwd = state::read(&self.state).cwd.clone();
        let place = Repository::find(&cwd).map_or(cwd, |repository| repository.root);
        place.to_str().map(str::to_owned)
    }

    /// Lets the conversation end as `end` ends it, and be remembered while the prompt is free again.
    pub(super) fn end_conversation(&mut self, end: impl FnOnce(&mut Agent)) {
        let is_remembered = self.note_ended();
        end(self.runtime.agent_mut());
        if is_remembered {
            self.remember_next();
        }
    }

    /// Notes that the conversation ends here, where it is to be remembered; without waiting for anything.
    pub(super) fn note_ended(&mut self) -> bool {
        let Some(conversation) = self.runtime.agent().conversation().filter(|_| self.runtime.settings().memory.auto)
        else {
            return false;
        };
        let place = self.memory_place();
        let mut store = self.store();
        let messages = store.messages(conversation).unwrap_or_default();
        let is_answer =
            |it: &StoredMessage| it.message.role == Role::Assistant && !it.message.content.trim().is_empty();
        let models: Vec<String> = messages.into_iter().filter(is_answer).filter_map(|it| it.model).collect();
        let Some(model) = models.last().filter(|_| models.len() >= TURNS_MIN).cloned() else { return false };
        // A store that can't be written is told with the next line of the history.
        store.note_ended(&ToRemember { conversation, place, model }, host::now_unix_ms()).is_ok()
    }

    /// Begins to write the memory of the conversation that ended last, unless one is being written.
    fn remember_next(&mut self) {
        if self.memories.job.is_some() || !self.runtime.settings().memory.auto {
            return;
        }
        let next = {
            let store = self.store();
            let next = store.next_to_remember().ok().flatten();
            next.and_then(|next| Some((store.turns(next.conversation).ok()?, next)))
        };
        let Some((turns, next)) = next else { return };
        if self.runtime.agent().conversation() == Some(next.conversation) {
            return;
        }
        let recorder = StoreRecorder::in_background(Arc::clone(self.runtime.store()), next.conversation);
        match self.runtime.agent_mut().begin_memory(&past_turns(turns), &next.model, Box::new(recorder)) {
            Some(job) => self.memories.job = Some((next, job)),
            // Its model has left the config, and no other one has seen it.
            None => drop(self.store().no_longer_to_remember(next.conversation)),
        }
    }

    /// A question goes first: what is being written is written another time.
    pub(super) fn pause_memory(&mut self) {
        self.take_memory();
        self.memories.job = None;
        if let Some(conversation) = self.runtime.agent().conversation() {
            // It goes on after all.
            let _ = self.store().no_longer_to_remember(conversation);
        }
    }

    /// Remembers conversations that an earlier session left, once a first answer has shown that the model is there.
    pub(super) fn catch_up_memory(&mut self) {
        if !std::mem::replace(&mut self.memories.has_caught_up, true) {
            self.remember_next();
        }
    }

    /// Keeps the memory that has been written meanwhile, if one has.
    pub(super) fn take_memory(&mut self) {
        let Some((of, job)) = self.memories.job.take() else { return };
        let conversation = of.conversation;
        let noted = match job.poll() {
            Written::Pending => {
                self.memories.job = Some((of, job));
                return;
            }
            Written::Stopped => Ok(()),
            Written::Failed(why) => {
                self.console.notice(&format!("[memory] conversation {} isn't remembered: {why}", conversation.0));
                self.store().note_not_remembered(conversation)
            }
            Written::Done(text) => {
                if let Some(text) = text {
                    let reach = self.runtime.agent().reach(Some(&of.model));
                    let new = self.new_memory(conversation, text);
                    self.remember_memory(StoredMemory { place: of.place, reach, ..new });
                }
                self.store().no_longer_to_remember(conversation)
            }
        };
        if let Err(problem) = noted {
            self.console.failure(&problem.into());
        }
    }
}

fn failure(message: String, hint: &str) -> Failure {
    Failure { kind: FailureKind::User, message, hint: hint.to_owned() }
}
