//! Memories beyond a conversation: `:memory`, those that precede a conversation's first question, those that a model
//! would remember, and the memory of an ended conversation, which is written in the background.

use std::path::Path;
use std::sync::Arc;

use crate::agent::{Agent, Written};
use crate::app::{StoreRecorder, past_turns};
use crate::base::text::{age, one_line};
use crate::config::display_path;
use crate::host;
use crate::ops;
use crate::ops::commands::MEMORY_WORDS;
use crate::ops::memory::{Change, Found, Noted};
use crate::project::Repository;
use crate::proto::{Event, Failure, Role};
use crate::render::sanitise;
use crate::render::text::table;
use crate::repl::answer;
use crate::repl::editing::state;
use crate::repl::hub::{Flow, Repl};
use crate::repl::records::conversations;
use crate::store::{ConversationId, Hit, MemoryOrigin, StoredMemory};

/// The place that `:redact` shows for a secret hidden in a memory.
const PLACE: &str = "a memory";

/// Places in conversations that a search shows.
const HITS: usize = 20;

/// Carries out `:memory`.
pub(in crate::repl) fn memory(repl: &mut Repl, argument: &str) -> Flow {
    let (word, rest) = argument.split_once(char::is_whitespace).unwrap_or((argument, ""));
    let rest = rest.trim();
    let (number, text) = rest.split_once(char::is_whitespace).unwrap_or((rest, ""));
    match (word, number.parse::<i64>()) {
        ("" | "list", _) if rest.is_empty() => list_memories(repl, true),
        ("inbox", _) if rest.is_empty() => list_memories(repl, false),
        ("save", _) if rest.is_empty() => return save_memory(repl),
        ("add", _) if !rest.is_empty() => add_memory(repl, rest),
        ("edit", Ok(id)) => edit_memory(repl, id, text.trim()),
        ("show", Ok(id)) => show_memory(repl, id),
        ("forget", Ok(id)) if text.is_empty() => change_memory(repl, id, Change::Forget),
        ("take", Ok(id)) if text.is_empty() => change_memory(repl, id, Change::Take),
        ("drop", Ok(id)) if text.is_empty() => change_memory(repl, id, Change::Drop),
        _ if !MEMORY_WORDS.contains(&word) => search_memory(repl, argument),
        _ => repl.console.failure(
            &Failure::user(match word {
                "add" => ":memory add needs a text".to_owned(),
                "inbox" | "save" => format!(":memory {word} takes no argument"),
                _ => format!(":memory {word} needs the number of a memory"),
            })
            .hint(
                "usage: :memory [save | add TEXT | edit N [TEXT] | show N | forget N | inbox | take N | drop N | WORDS]",
            ),
        ),
    }
    Flow::Continue
}

fn list_memories(repl: &Repl, is_taken: bool) {
    let found = match ops::memory::list(&repl.store(), is_taken) {
        Ok(found) => found,
        Err(failure) => return repl.console.failure(&failure),
    };
    if found.is_empty() {
        let nothing = if is_taken { "nothing is remembered yet" } else { "the inbox is empty" };
        return repl.console.notice(nothing);
    }
    let now = host::now_unix_ms();
    let row = |memory: &StoredMemory| {
        let mark = if repl.runtime.carried().contains(&memory.id) { "*" } else { " " };
        let env = repl.runtime.env();
        let place = memory.place.as_deref().map(|place| sanitise(&display_path(Path::new(place), env)).into_owned());
        let place = place.unwrap_or_else(|| "everywhere".to_owned());
        let from = match memory.origin {
            MemoryOrigin::User => "yours".to_owned(),
            MemoryOrigin::Model => "model's".to_owned(),
            MemoryOrigin::Summary => memory.conversation.map_or("summary".to_owned(), |id| format!("of {}", id.0)),
        };
        vec![format!("{mark} {}", memory.id), age(now - memory.time), from, place, one_line(&memory.text)]
    };
    repl.console.write(&table(&found.iter().map(row).collect::<Vec<_>>(), repl.console.width_columns()));
    repl.console.notice(if is_taken {
        "* went in front of this conversation; :memory edit N, forget N, add TEXT; :memory inbox lists what a model would add"
    } else {
        "a model would remember these; :memory take N remembers one, :memory drop N deletes it"
    });
}

/// Looks for words in what is remembered and in all conversations.
fn search_memory(repl: &Repl, query: &str) {
    let found = ops::memory::find(&mut repl.store(), query, HITS);
    let Found { memories, hits } = match found {
        Ok(found) => found,
        Err(failure) => return repl.console.failure(&failure),
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
        let hint = match query.split_whitespace().next().unwrap_or_default() {
            "delete" | "remove" | "rm" => ":memory forget N forgets one",
            "clear" => ":memory forget N forgets one, reedclaw memory clear all",
            _ => "word* finds beginnings",
        };
        return repl.console.notice(&format!("nothing was found; {hint}"));
    }
    repl.console.write(&table(&rows, repl.console.width_columns()));
    repl.console.notice(":memory show N shows a memory, :resume ID continues a conversation");
}

fn show_memory(repl: &Repl, id: i64) {
    match ops::memory::show(&repl.store(), id) {
        Ok(memory) => repl.console.outside(&format!("{}\n", memory.text)),
        Err(failure) => repl.console.failure(&failure),
    }
}

fn add_memory(repl: &mut Repl, text: &str) {
    let text = repl.runtime.agent_mut().hidden(PLACE, text);
    let stored = ops::memory::add(&mut repl.store(), repl.runtime.agent(), &text);
    show_stored(repl, stored);
}

/// Changes the text of a memory; without a text it puts the present one into the editor.
fn edit_memory(repl: &mut Repl, id: i64, text: &str) {
    let known = ops::memory::show(&repl.store(), id);
    match known {
        Err(failure) => repl.console.failure(&failure),
        Ok(known) if text.is_empty() => {
            let line = format!(":memory edit {id} {}", sanitise(&one_line(&known.text)));
            repl.insert_text(&line);
        }
        Ok(_) => {
            let text = repl.runtime.agent_mut().hidden(PLACE, text);
            change_memory(repl, id, Change::Edit(&text));
        }
    }
}

fn change_memory(repl: &Repl, id: i64, change: Change<'_>) {
    let changed = ops::memory::change(&mut repl.store(), repl.runtime.agent(), id, change);
    match changed {
        Ok(done) => repl.console.notice(&format!("memory {id} is {done}")),
        Err(failure) => repl.console.failure(&failure),
    }
}

/// Makes a memory of this place, which goes to no model farther away than the one that answers.
fn new_memory(repl: &Repl, conversation: ConversationId, text: String) -> StoredMemory {
    ops::memory::written(repl.runtime.agent(), memory_place(repl), Some(conversation), text)
}

fn remember_memory(repl: &Repl, memory: StoredMemory) {
    let stored = ops::memory::remember(&mut repl.store(), memory);
    show_stored(repl, stored);
}

fn show_stored(repl: &Repl, stored: Result<Option<StoredMemory>, Failure>) {
    match stored {
        Ok(stored) => repl.console.notice(&ops::memory::stored_line(stored.as_ref())),
        Err(failure) => repl.console.failure(&failure),
    }
}

/// `:memory save`: the present conversation, while the user waits.
pub(in crate::repl) fn save_memory(repl: &mut Repl) -> Flow {
    let Some((id, turns)) = conversations::present_turns(repl) else { return Flow::Continue };
    let turns = past_turns(turns);
    let mut written = None;
    let done = answer::ask_aside(repl, |agent, cancel, draw| match agent.write_memory(&turns, cancel, draw) {
        Ok(text) => written = Some(text),
        Err(failure) => draw(Event::Failed { text: String::new(), failure }),
    });
    match written {
        Some(Some(text)) => remember_memory(repl, new_memory(repl, id, text)),
        Some(None) => repl.console.notice("the model found nothing worth remembering"),
        None => {}
    }
    done.err().unwrap_or(Flow::Continue)
}

/// The repository around the working directory, else that directory.
fn memory_place(repl: &Repl) -> Option<String> {
    let cwd = state::read(&repl.state).cwd.clone();
    let place = Repository::find(&cwd).map_or(cwd, |repository| repository.root);
    place.to_str().map(str::to_owned)
}

/// Ends the conversation by `end`, and lets a memory of it be written while the prompt is free again.
pub(in crate::repl) fn end_conversation(repl: &mut Repl, end: impl FnOnce(&mut Agent)) {
    let is_remembered = note_ended(repl);
    end(repl.runtime.agent_mut());
    if is_remembered {
        remember_next(repl);
    }
}

/// Queues the conversation that ends here for a memory note, without waiting; returns whether it did.
pub(in crate::repl) fn note_ended(repl: &mut Repl) -> bool {
    let Some(conversation) = repl.runtime.agent().conversation().filter(|_| repl.runtime.settings().memory.auto) else {
        return false;
    };
    let place = memory_place(repl);
    ops::memory::note_ended(&mut repl.store(), conversation, place)
}

/// Begins to write the memory of the conversation that ended last, unless one is being written.
fn remember_next(repl: &mut Repl) {
    if repl.memories.job.is_some() || !repl.runtime.settings().memory.auto {
        return;
    }
    let next = ops::memory::next_ended(&repl.store());
    let Some((next, turns)) = next else { return };
    if repl.runtime.agent().conversation() == Some(next.conversation) {
        return;
    }
    let recorder = StoreRecorder::in_background(Arc::clone(repl.runtime.store()), next.conversation);
    match repl.runtime.agent_mut().begin_memory(&past_turns(turns), &next.model, Box::new(recorder)) {
        Some(job) => repl.memories.job = Some((next, job)),
        // Its model has left the config, and no other one has seen it.
        None => drop(ops::memory::note_tried(&mut repl.store(), next.conversation, Noted::Done)),
    }
}

/// Interrupts the writing of a memory for a question; the memory is written later.
pub(in crate::repl) fn pause_memory(repl: &mut Repl) {
    take_memory(repl);
    repl.memories.job = None;
    if let Some(conversation) = repl.runtime.agent().conversation() {
        // The conversation continues after all.
        let _ = ops::memory::note_tried(&mut repl.store(), conversation, Noted::Done);
    }
}

/// Remembers conversations that an earlier session left, once a first answer has shown that the model is there.
pub(in crate::repl) fn catch_up_memory(repl: &mut Repl) {
    if !std::mem::replace(&mut repl.memories.has_caught_up, true) {
        remember_next(repl);
    }
}

/// Stores the memory that was written in the background, if it is ready.
pub(in crate::repl) fn take_memory(repl: &mut Repl) {
    let Some((of, job)) = repl.memories.job.take() else { return };
    let conversation = of.conversation;
    let end = match job.poll() {
        Written::Pending => {
            repl.memories.job = Some((of, job));
            return;
        }
        Written::Stopped => return,
        Written::Failed(why) => {
            repl.console.notice(&format!("[memory] conversation {} isn't remembered: {why}", conversation.0));
            Noted::Failed
        }
        Written::Done(text) => {
            if let Some(text) = text {
                let reach = repl.runtime.agent().reach(Some(&of.model));
                let new = new_memory(repl, conversation, text);
                remember_memory(repl, StoredMemory { place: of.place, reach, ..new });
            }
            Noted::Done
        }
    };
    let noted = ops::memory::note_tried(&mut repl.store(), conversation, end);
    if let Err(problem) = noted {
        repl.console.failure(&problem.into());
    }
}
