//! Sessions among conversations: in the list of both, and in the place of a conversation. The file of `:session` must
//! not know this one.

use crate::app::sessions_here;
use crate::ask::ask_yes_or_no;
use crate::base::text::{age, counted};
use crate::host;
use crate::render::text::escape_visible;
use crate::repl::hub::{Flow, Repl};
use crate::repl::rules::tooling;
use crate::sessions::{Listed, short_id};

/// Shortest word, in digits, that is read as a session's id rather than as the number of a conversation.
const ID_DIGITS_MIN: usize = 8;

/// The sessions of this repository as rows of the list of conversations, the one used last at the end.
pub(in crate::repl) fn rows_of_sessions(repl: &Repl) -> Vec<Vec<String>> {
    let here = repl.runtime.on_git().map(|it| it.session.id().to_owned());
    let now = host::now_unix_ms();
    let row = |it: &Listed| {
        let mark = if here.as_ref() == Some(&it.meta.id) { "*" } else { " " };
        let turns = counted(usize::try_from(it.meta.turns).unwrap_or(usize::MAX), "turn");
        let title = escape_visible(&it.meta.title);
        let title = if title.is_empty() { "untitled".to_owned() } else { title };
        let title = format!("{title} · a session, with its own branch");
        vec![format!("{mark} {}", short_id(&it.meta.id)), age(now - it.time_s * 1000), turns, title]
    };
    sessions_here(repl.runtime.env(), &tooling::workspace(repl)).iter().rev().map(row).collect()
}

/// Opens the session of this repository that `wanted` names by its id; `None` if it names none.
pub(in crate::repl) fn resume_session(repl: &mut Repl, wanted: &str) -> Option<Flow> {
    let is_id = wanted.len() >= ID_DIGITS_MIN && wanted.bytes().all(|it| it.is_ascii_hexdigit() || it == b'-');
    let all = if is_id { sessions_here(repl.runtime.env(), &tooling::workspace(repl)) } else { Vec::new() };
    let found = all.into_iter().find(|it| it.meta.id == wanted || short_id(&it.meta.id) == wanted)?;
    Some(repl.session_open(&found.meta.id))
}

/// Begins a session before the first question of a conversation in a repository, if the settings want that.
pub(in crate::repl) fn begin_by_setting(repl: &mut Repl) -> Flow {
    let wanted = repl.runtime.settings().sessions.auto.clone();
    let has_begun = repl.runtime.on_git().is_some() || repl.runtime.agent().conversation().is_some();
    if wanted == "never" || has_begun || repl.runtime.sessions(&tooling::workspace(repl)).is_err() {
        return Flow::Continue;
    }
    if wanted == "ask" {
        let question = "Begin a session, so that each turn becomes a commit on a separate branch?";
        match ask_yes_or_no(&mut repl.terminal, question) {
            Err(flow) => return flow,
            Ok(Some(true)) => {}
            Ok(_) => return Flow::Continue,
        }
    }
    if let Err(failure) = repl.session_start("") {
        repl.console.failure(&failure);
    }
    Flow::Continue
}
