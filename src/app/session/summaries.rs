//! Summaries of a repository's files by the model for summaries. They are first made when the person asks for them;
//! from then on the files that each turn changes get theirs in the background, and questions carry the new ones.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::{OnGit, no_session, session_failure};
use crate::agent::{Cancel, Titler};
use crate::app::{Runtime, StoreRecorder};
use crate::git::{Objects as _, Oid};
use crate::proto::Failure;
use crate::sessions::{Sessions, add_summaries, has_summaries, summaries};

/// Files of one request.
const FILES_MAX: usize = 20;
/// Bytes of a file that are read for its summary.
const READ_BYTES: usize = 6_000;
/// Bytes of all summaries that go with a question.
const NOTE_BYTES_MAX: usize = 32 * 1024;

/// The summaries that are still to be made.
pub struct ToSummarise {
    sessions: Sessions,
    missing: Vec<(String, Oid)>,
    /// An estimate of the tokens that will be sent.
    pub tokens: usize,
}

impl ToSummarise {
    /// The number of files.
    #[must_use]
    pub fn files(&self) -> usize {
        self.missing.len()
    }
}

/// The beginning of a file; `None` if it is no text.
fn beginning(sessions: &Sessions, id: Oid) -> Option<String> {
    let text = String::from_utf8(sessions.repo().blob(id, 1024 * 1024).ok()?).ok()?;
    (!text.contains('\0')).then(|| text[..text.floor_char_boundary(READ_BYTES)].to_owned())
}

/// The model for summaries, with what a request needs.
pub struct Maker {
    titler: Titler,
    hide: Box<dyn Fn(&str) -> String + Send>,
    recorder: StoreRecorder,
}

/// Returns the model for summaries.
///
/// # Errors
/// There is none.
pub fn maker(runtime: &mut Runtime) -> Result<Maker, Failure> {
    let conversation = runtime.agent_mut().begin();
    let (Some(titler), Some(conversation)) = (runtime.agent().titler(), conversation) else {
        return Err(no_model());
    };
    let hide = Box::new(runtime.agent().redactor().hiding());
    let recorder = StoreRecorder::in_background(Arc::clone(&runtime.store), conversation);
    Ok(Maker { titler, hide, recorder })
}

fn no_model() -> Failure {
    Failure::no_model("no model makes summaries").hint("choose a router whose rules have a model for `summary`")
}

/// Makes the summaries of some files by one request, and stores them.
fn make(
    sessions: &Sessions,
    titler: &Titler,
    hide: &(dyn Fn(&str) -> String + Send),
    files: &[(String, Oid)],
    recorder: &mut StoreRecorder,
) -> Result<(), String> {
    let mut made: Vec<(Oid, String)> = Vec::new();
    let mut asked: Vec<(String, String, Oid)> = Vec::new();
    for (path, id) in files {
        match beginning(sessions, *id) {
            Some(text) if !text.trim().is_empty() => asked.push((path.clone(), hide(&text), *id)),
            _ => made.push((*id, "no text".to_owned())),
        }
    }
    if !asked.is_empty() {
        let texts: Vec<(&str, &str)> = asked.iter().map(|(path, text, _)| (path.as_str(), text.as_str())).collect();
        let lines = titler.summaries(&texts, recorder)?;
        for (number, (_, _, id)) in asked.iter().enumerate() {
            // A file that the model left out isn't asked about again, since each turn would pay for that.
            let line = lines.iter().find(|(it, _)| *it == number).map_or("no summary", |(_, text)| text);
            made.push((*id, hide(line)));
        }
    }
    add_summaries(sessions, &made).map_err(|error| error.to_string())
}

/// The files of the session that is on without a summary.
///
/// # Errors
/// No session is on, there is no model for summaries, or a tree can't be read.
pub fn to_summarise(runtime: &Runtime) -> Result<ToSummarise, Failure> {
    let on_git = runtime.on_git().ok_or_else(no_session)?;
    if runtime.agent().titler().is_none() {
        return Err(no_model());
    }
    let sessions = on_git.session.sessions().clone();
    let found = summaries(&sessions, on_git.session.tip()).map_err(session_failure)?;
    let is_open = |path: &std::path::Path| runtime.may_bring(&on_git.workspace().join(path)).is_ok();
    let missing: Vec<(String, Oid)> = found
        .missing
        .into_iter()
        .filter(|(path, _)| is_open(path))
        .filter_map(|(path, id)| Some((path.to_str()?.to_owned(), id)))
        .collect();
    let size = |id: &Oid| usize::try_from(sessions.repo().size(*id).unwrap_or(0)).unwrap_or(0).min(READ_BYTES);
    let tokens = missing.iter().map(|(_, id)| size(id) / 4).sum();
    Ok(ToSummarise { sessions, missing, tokens })
}

/// Makes the summaries, twenty files a request; stops at the first request that fails. Returns the number of summaries.
///
/// # Errors
/// A request failed, in the model's words, or a budget forbids it; the summaries so far are stored.
pub fn summarise(maker: Maker, wanted: &ToSummarise, cancel: &Cancel) -> Result<usize, Failure> {
    let failed = |made: usize, message: String| {
        Failure::unavailable(format!("{made} of {} files have a summary: {message}", wanted.missing.len()))
            .hint("questions of sessions carry the names of the others")
    };
    if !has_summaries(&wanted.sessions) {
        // The person has agreed, whatever a budget says now.
        add_summaries(&wanted.sessions, &[]).map_err(session_failure)?;
    }
    let Maker { titler, hide, mut recorder } = maker;
    let mut made = 0;
    for files in wanted.missing.chunks(FILES_MAX) {
        if cancel.is_cancelled() {
            return Err(failed(made, "stopped".into()));
        }
        make(&wanted.sessions, &titler, &hide, files, &mut recorder).map_err(|why| failed(made, why))?;
        made += files.len();
    }
    Ok(made)
}

/// Makes the summaries of files that a turn has changed, in the background, if the person has had some made before.
pub(super) fn follow_up(runtime: &Runtime) {
    let is_wanted = runtime.on_git().is_some_and(|it| has_summaries(it.session.sessions()));
    let Some(mut wanted) = is_wanted.then(|| to_summarise(runtime).ok()).flatten() else { return };
    let (Some(titler), Some(conversation)) = (runtime.agent().titler(), runtime.agent().conversation()) else { return };
    wanted.missing.truncate(FILES_MAX);
    if wanted.missing.is_empty() {
        return;
    }
    let (store, hide) = (Arc::clone(&runtime.store), runtime.agent().redactor().hiding());
    // If no thread can be started, the next turn tries again.
    let _ = std::thread::Builder::new().name("summaries".to_owned()).spawn(move || {
        let mut recorder = StoreRecorder::in_background(store, conversation);
        if let Err(why) = make(&wanted.sessions, &titler, &hide, &wanted.missing, &mut recorder) {
            tracing::info!(event = "summaries_failed", why = why.as_str());
        }
    });
}

impl OnGit {
    /// The summaries for the next question, and the names of files without one: first all of them, later the new ones.
    pub(in crate::app) fn summaries_note(&mut self) -> Option<String> {
        if !has_summaries(self.session.sessions()) {
            return None;
        }
        let found = summaries(self.session.sessions(), self.session.tip()).ok()?;
        let without = found.missing.into_iter().map(|(path, _)| (path, String::new()));
        let all = found.known.into_iter().chain(without);
        let known: BTreeMap<String, String> = all.map(|(path, text)| (path.display().to_string(), text)).collect();
        let is_first = self.summarised.is_empty();
        let (mut lines, mut left) = (String::new(), 0);
        for (path, text) in known.iter().filter(|(path, text)| self.summarised.get(*path) != Some(text)) {
            let sign = if text.is_empty() { "" } else { ": " };
            let line = format!("{}{sign}{text}\n", path.escape_debug());
            if lines.len() + line.len() > NOTE_BYTES_MAX {
                left += 1;
            } else {
                lines.push_str(&line);
            }
        }
        self.summarised = known;
        if lines.is_empty() {
            return None;
        }
        let heading = if is_first { "[summaries of the repository's files]" } else { "[summaries of changed files]" };
        let more = if left > 0 { format!("[{left} more files]\n") } else { String::new() };
        Some(format!("{heading}\n{lines}{more}[end of them]\n"))
    }
}
