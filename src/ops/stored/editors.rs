//! The conversations that editors know by names of their own: listed, found, noted.

use crate::proto::Failure;
use crate::store::{ConversationId, EditorSession, Store, StoredConversation};

/// The conversations of editors, the one used last first, each with its stored facts: at most `limit`, after the first
/// `skipped`; with `directory` only those of that directory. The second part tells whether there are more.
///
/// # Errors
/// The store can't be read.
pub fn list(
    store: &Store,
    directory: Option<&str>,
    (skipped, limit): (usize, usize),
) -> Result<(Vec<(EditorSession, StoredConversation)>, bool), Failure> {
    let all = store.editor_sessions()?.into_iter();
    let mut wanted = all.filter(|it| directory.is_none_or(|directory| it.directory == directory)).skip(skipped);
    let mut found = Vec::new();
    for session in wanted.by_ref().take(limit) {
        if let Some(stored) = store.conversation(session.conversation)? {
            found.push((session, stored));
        }
    }
    Ok((found, wanted.next().is_some()))
}

/// The conversation with an editor's name or with a number, and its name in an editor, if it has one; `None` if there is no
/// such conversation.
///
/// # Errors
/// The store can't be read.
pub fn find(store: &Store, name: &str) -> Result<Option<(ConversationId, Option<String>)>, Failure> {
    let sessions = store.editor_sessions()?;
    let by_name = sessions.iter().find(|session| session.name == name).map(|session| session.conversation);
    let Some(id) = by_name.or_else(|| name.parse().ok().map(ConversationId)) else { return Ok(None) };
    if store.conversation(id)?.is_none() {
        return Ok(None);
    }
    let named = sessions.into_iter().find(|session| session.conversation == id);
    Ok(Some((id, named.map(|session| session.name))))
}

/// Notes the name of a conversation in an editor. The name is for later, so a failure is logged and stops nothing.
pub fn note(store: &mut Store, session: &EditorSession) {
    if let Err(error) = store.note_editor_session(session) {
        tracing::warn!(event = "editor_session_not_noted", message = error.to_string());
    }
}
