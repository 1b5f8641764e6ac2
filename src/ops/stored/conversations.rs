//! Stored conversations: listing, finding, printing and exporting them, forking, rewinding, titles, deleting all. It must not
//! know which conversation is on the screen.

use std::io::{self, Write};
use std::ops::DerefMut;
use std::path::Path;

use crate::agent::Agent;
use crate::app::{past_summary, past_turns};
use crate::host;
use crate::proto::Failure;
use crate::render::sanitise;
use crate::store::export::{self, Format};
use crate::store::{ConversationId, Store, StoredConversation, StoredTurn};

/// Conversations in a list, and in completion.
pub const LISTED: usize = 20;
/// Conversations whose titles are compared before the search in their texts.
const TITLES_SEARCHED: usize = 500;

/// The conversations that completion offers after `:resume`: number and title, the last used first.
#[must_use]
pub fn recent(store: &Store) -> Vec<(String, String)> {
    let found = store.conversations(LISTED).unwrap_or_default();
    found.into_iter().map(|it| (it.id.0.to_string(), it.title)).collect()
}

/// Finds a conversation by its number or by words; without either, the newest besides `current`.
///
/// # Errors
/// There is none, or the store can't be read.
pub fn find(store: &mut Store, current: Option<ConversationId>, wanted: &str) -> Result<StoredConversation, Failure> {
    if let Ok(id) = wanted.parse::<i64>() {
        let missing = || Failure::user(format!("no conversation has the number {id}")).hint(":sessions lists them");
        return store.conversation(ConversationId(id))?.ok_or_else(missing);
    }
    let known = store.conversations(if wanted.is_empty() { 2 } else { TITLES_SEARCHED })?;
    let lower = wanted.to_lowercase();
    let fits = |it: &&StoredConversation| Some(it.id) != current && it.title.to_lowercase().contains(&lower);
    if let Some(found) = known.iter().find(fits) {
        return Ok(found.clone());
    }
    if wanted.is_empty() {
        return Err(Failure::user("there is no earlier conversation").hint("ask something, and it will be kept"));
    }
    for hit in store.recall(wanted, 1)? {
        if let Some(found) = store.conversation(hit.conversation)? {
            return Ok(found);
        }
    }
    let message = format!("no conversation has {wanted}");
    Err(Failure::user(message).hint(":sessions lists them; word* finds beginnings, \"two words\" a phrase"))
}

/// Continues a conversation as it is stored, and returns its turns. The agent reads the store, too, so `store` opens it
/// only while it is needed.
///
/// # Errors
/// The store can't be read; the agent stays in the conversation that it had.
pub fn go_on<S: DerefMut<Target = Store>>(
    store: impl Fn() -> S,
    agent: &mut Agent,
    id: ConversationId,
) -> Result<Vec<StoredTurn>, Failure> {
    let (turns, summary) = {
        let store = store();
        (store.turns(id)?, past_summary(&store, id)?)
    };
    agent.go_on_in(id, past_turns(turns.clone()), summary);
    Ok(turns)
}

/// Copies the first turns of a conversation into a new one, in which the agent continues.
///
/// # Errors
/// The store can't be written.
pub fn fork<S: DerefMut<Target = Store>>(
    store: impl Fn() -> S,
    agent: &mut Agent,
    id: ConversationId,
    turns: usize,
) -> Result<ConversationId, Failure> {
    let fork = store().fork(id, u32::try_from(turns).unwrap_or(u32::MAX), host::now_unix_ms())?;
    agent.branch_into(fork);
    go_on(store, agent, fork)?;
    Ok(fork)
}

/// Sets the turns after the first `turns` aside; the agent continues without them.
///
/// # Errors
/// The store can't be written.
pub fn rewind<S: DerefMut<Target = Store>>(
    store: impl Fn() -> S,
    agent: &mut Agent,
    id: ConversationId,
    turns: usize,
) -> Result<(), Failure> {
    store().rewind(id, u32::try_from(turns).unwrap_or(u32::MAX))?;
    go_on(store, agent, id)?;
    Ok(())
}

/// Reads the number of a turn; `None` if there is no argument.
///
/// # Errors
/// The conversation has no such turn.
pub fn turn_number(argument: &str, turns: usize) -> Result<Option<usize>, Failure> {
    match argument.parse::<usize>() {
        _ if argument.is_empty() => Ok(None),
        Ok(number) if number <= turns => Ok(Some(number)),
        _ => {
            let message = format!("{} is no turn of this conversation", sanitise(argument));
            Err(Failure::user(message).hint(format!("it has {turns}; :rewind lists them")))
        }
    }
}

/// Sets the title of a conversation, without secrets, or reads it if `title` is empty; `None` if the conversation is no
/// longer stored.
///
/// # Errors
/// The store can't be used.
pub fn title(store: &mut Store, agent: &Agent, id: ConversationId, title: &str) -> Result<Option<String>, Failure> {
    let title: String = agent.redacted(title).chars().filter(|c| !c.is_control()).collect();
    if title.is_empty() {
        return Ok(store.conversation(id)?.map(|found| found.title));
    }
    Ok(store.set_title(id, &title)?.then_some(title))
}

/// The conversations that were used last, the newest first.
///
/// # Errors
/// The store can't be read.
pub fn list(store: &Store, limit: usize) -> Result<Vec<StoredConversation>, Failure> {
    Ok(store.conversations(limit)?)
}

/// The turns of a conversation that aren't set aside.
///
/// # Errors
/// The store can't be read.
pub fn turns(store: &Store, id: ConversationId) -> Result<Vec<StoredTurn>, Failure> {
    Ok(store.turns(id)?)
}

/// A whole conversation as Markdown, with the turns that were set aside; `None` if no conversation has the number.
///
/// # Errors
/// The store can't be read.
pub fn as_markdown(store: &Store, id: ConversationId) -> Result<Option<String>, Failure> {
    let Some(found) = store.conversation(id)? else { return Ok(None) };
    let mut text = Vec::new();
    let record = store.record(found.id)?;
    export::write_conversation(&found, &record, Format::Markdown, &mut text)
        .map_err(|error| cannot_write("the text", &error))?;
    Ok(Some(String::from_utf8_lossy(&text).trim_end().to_owned()))
}

/// Writes all conversations to a new file, the oldest first, and returns how many there are.
///
/// # Errors
/// The file's name shows no format, the file is there already or can't be written, or the store can't be read.
pub fn export(store: &Store, path: &Path) -> Result<usize, Failure> {
    let format = Format::of(path).ok_or_else(|| {
        Failure::user(format!("{} ends with neither .jsonl nor .md", path.display()))
            .hint("the ending decides the format")
    })?;
    let place = path.display().to_string();
    let mut out = export::create(path).map_err(|error| cannot_write(&place, &error))?;
    write_all(store, format, &mut out)?.map_err(|error| cannot_write(&place, &error))
}

/// Writes all conversations, the oldest first; the inner result is of the writing, with how many there are.
///
/// # Errors
/// The store can't be read.
pub fn write_all(store: &Store, format: Format, out: &mut dyn Write) -> Result<io::Result<usize>, Failure> {
    let mut conversations = store.conversations(usize::MAX)?;
    conversations.reverse();
    let mut out = io::BufWriter::new(out);
    for conversation in &conversations {
        let record = store.record(conversation.id)?;
        if let Err(error) = export::write_conversation(conversation, &record, format, &mut out) {
            return Ok(Err(error));
        }
    }
    Ok(out.flush().map(|()| conversations.len()))
}

fn cannot_write(place: &str, error: &io::Error) -> Failure {
    Failure::unavailable(format!("{place} can't be written: {error}"))
}

/// The stored facts about a conversation; `None` if it isn't stored any more.
///
/// # Errors
/// The store can't be read.
pub fn stored(store: &Store, id: ConversationId) -> Result<Option<StoredConversation>, Failure> {
    Ok(store.conversation(id)?)
}

/// Deletes a conversation with all that belongs to it.
///
/// # Errors
/// The store can't be written.
pub fn delete(store: &mut Store, id: ConversationId) -> Result<(), Failure> {
    store.delete_conversation(id)?;
    Ok(())
}

/// Deletes all conversations, and returns how many there were.
///
/// # Errors
/// The store can't be written.
pub fn delete_all(store: &mut Store) -> Result<usize, Failure> {
    Ok(store.clear_conversations()?)
}

/// The number of stored conversations.
///
/// # Errors
/// The store can't be read.
pub fn count(store: &Store) -> Result<usize, Failure> {
    Ok(store.conversations(usize::MAX)?.len())
}
