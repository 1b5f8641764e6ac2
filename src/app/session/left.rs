//! A turn that a crash cut off: its stored part of the conversation, and the changes of its commands, go into its commit.

use std::path::Path;
use std::sync::Arc;

use parking_lot::Mutex;
use serde_json::json;

use super::{bench_of, key_test, report_of};
use crate::agent::{Agent, Nobody, Person, take_over_cut_off};
use crate::app::Runtime;
use crate::app::limits::sandbox::Chosen;
use crate::app::tooling::runner::{RunnerOf, tool_runner};
use crate::base::text::one_line;
use crate::files::Tree;
use crate::proto::tool::Outcome;
use crate::sandbox::Layer;
use crate::sessions::wire::CallFile;
use crate::sessions::{Session, SessionError, Sessions, State, TurnReport};
use crate::store::{ConversationId, Store};

/// Number of newest conversations whose last turns are searched for the turn if the conversation of its question isn't known.
const CONVERSATIONS_SEEN: usize = 50;

/// Opens a session for writing. If a turn was cut off, the session takes over the changes of the turn's commands, and
/// the answer and the calls that the store has, so that they get into the turn's commit, whoever makes it.
///
/// # Errors
/// The errors of [`Sessions::open`].
pub fn open_to_write(runtime: &Runtime, sessions: &Sessions, id: &str) -> Result<Session, SessionError> {
    open_asking(runtime, sessions, id, &mut Nobody)
}

/// Opens a session like [`open_to_write`] with a person who can be asked: about changes of a command that waited for an
/// answer when the process was killed, or that would have needed a question.
///
/// # Errors
/// The errors of [`Sessions::open`].
pub fn open_asking(
    runtime: &Runtime,
    sessions: &Sessions,
    id: &str,
    person: &mut dyn Person,
) -> Result<Session, SessionError> {
    let mut session = sessions.open(id)?;
    let calls = take_over(runtime, &mut session, person);
    if runtime.settings.sessions.record != "talk" {
        recall(&mut session, &runtime.agent, &runtime.store, calls);
    }
    Ok(session)
}

/// Takes over what commands of the session had changed when a crash cut them off. Returns their calls, for the record.
fn take_over(runtime: &Runtime, session: &mut Session, person: &mut dyn Person) -> Vec<CallFile> {
    let bench = bench_of(session, &runtime.settings.sessions);
    let copies = Layer::left_in(&bench.copies());
    if copies.is_empty() {
        return Vec::new();
    }
    let bench = Arc::new(bench);
    session.draft().guard(key_test(&runtime.agent));
    let mut calls = Vec::new();
    for (layer, note) in copies {
        // Without a turn the command was the person's own, or the branch has moved since.
        let is_of_turn = session.left().is_some();
        let done = is_of_turn.then(|| taken_over(runtime, session, (&bench, layer, &note), person)).flatten();
        let Some((command, outcome)) = done else {
            session.add_notice("a command was cut off, and what it had changed is lost".to_owned());
            continue;
        };
        let (command, result) = (runtime.agent.redacted(&command), runtime.agent.redacted(&outcome.output));
        let result = if result.is_empty() { "it had changed nothing" } else { result.trim() };
        session.add_notice(format!("the command {} was cut off: {}", one_line(&command), one_line(result)));
        calls.push(CallFile {
            arguments: json!({"command": command}).to_string(),
            id: format!("cut-off-{}", calls.len() + 1),
            receipt: None,
            result: format!("[a crash cut it off]\n{result}"),
            success: false,
            tool: "shell".to_owned(),
        });
    }
    calls
}

/// Takes over the changes of one command; returns the command and the outcome.
fn taken_over(
    runtime: &Runtime,
    session: &Session,
    (bench, layer, note): (&Arc<crate::tree::Bench>, Layer, &[u8]),
    person: &mut dyn Person,
) -> Option<(String, Outcome)> {
    let workspace: &Path = session.draft().path();
    Chosen::for_workspace(&runtime.settings, &runtime.env, workspace).judged_on(bench);
    let built = tool_runner(&RunnerOf {
        settings: &runtime.settings,
        env: &runtime.env,
        workspace,
        store: &runtime.store,
        channel: None,
        config: runtime.config.path.as_deref(),
        ceiling: runtime.ceiling.clone(),
        bench: Some(bench),
        readable: &[],
    });
    let asked = (session.conversation_of_left(), person);
    take_over_cut_off(&mut built.ok()?.runner, bench, (layer, note), asked)
}

/// Adds the answer and the calls that the store has to a turn of the session that was cut off. The turn is searched for
/// in the conversation of its question or, if that isn't known, as for a run, among the newest ones. `calls` are those
/// that no store has.
fn recall(session: &mut Session, agent: &Agent, store: &Mutex<Store>, calls: Vec<CallFile>) {
    let Some(left) = session.left() else { return };
    let asked_in = match session.conversation_of_left() {
        Some(number) => vec![ConversationId(number)],
        None => {
            let newest = store.lock().conversations(CONVERSATIONS_SEEN).unwrap_or_default();
            newest.into_iter().map(|it| it.id).collect()
        }
    };
    let is_it = |report: &TurnReport| report.question == left.question && report.state == State::Cancelled;
    let found = asked_in.into_iter().find_map(|it| report_of(agent, store, it).filter(is_it));
    if found.is_none() && calls.is_empty() {
        return;
    }
    let mut report = found.unwrap_or_else(|| TurnReport::cut_off(left.question));
    report.calls.extend(calls);
    // The model that answered then isn't known.
    session.recall_left(TurnReport { state: State::Cut, model: None, ..report });
}
