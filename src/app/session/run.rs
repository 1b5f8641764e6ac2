//! A run towards a goal on a git session: each attempt at a task that changes something is a commit, and the report is the
//! session's last turn. It must not know how a run works.

use parking_lot::Mutex;
use std::path::Path;
use std::sync::Arc;

use super::{OnGit, Runtime, doubts_of_turn, key_test, last_report, open_to_write, session_failure, without_keys};
use crate::agent::Agent;
use crate::agent::goal::Turns;
use crate::host::now_unix_ms;
use crate::norris::Goal;
use crate::proto::Failure;
use crate::sessions::{State, TurnReport, short_id};
use crate::store::Store;

/// The git session of a run.
pub struct RunOnGit {
    pub(super) on_git: OnGit,
    pub(super) store: Arc<Mutex<Store>>,
    /// `true` if commits hold the calls, `false` if they hold only question and answer.
    pub(super) keeps_calls: bool,
}

impl RunOnGit {
    /// The session's name in lists.
    #[must_use]
    pub fn name(&self) -> &str {
        short_id(self.on_git.session.id())
    }

    /// Adds the report of the run as the session's last turn.
    ///
    /// # Errors
    /// The commit can't be made.
    pub fn report(&mut self, agent: &Agent, run: i64, state: &str, lines: &[String]) -> Result<(), Failure> {
        let log = self.on_git.session.view().log().map_err(session_failure)?;
        if log.iter().any(|it| it.subject.starts_with(&report_subject(run, state))) {
            return Ok(());
        }
        let question = format!("The report of run {run}");
        self.on_git.session.begin_turn(&question).map_err(session_failure)?;
        let report = TurnReport {
            subject: Some(report_subject(run, state)),
            answer: agent.redacted(&lines.join("\n")),
            question,
            state: State::Whole,
            model: None,
            calls: Vec::new(),
            time_ms: now_unix_ms(),
            tokens: [0; 2],
            cost: None,
            left_out: Vec::new(),
            doubts: Vec::new(),
        };
        self.on_git.session.end_turn(&report).map(drop).map_err(session_failure)
    }
}

/// Takes the session of a run back to the turn before the run, and returns a line about it; its commits stay under a reference.
///
/// # Errors
/// The session can't be opened or moved, or has turns after the run.
pub fn rewind_run_session(runtime: &Runtime, goal: &Goal, run: i64, began: i64) -> Result<Vec<String>, Failure> {
    let sessions = runtime.sessions(Path::new(&goal.workspace))?;
    let mut session = open_to_write(runtime, &sessions, &goal.session).map_err(session_failure)?;
    let log = session.view().log().map_err(session_failure)?;
    let (id, report) = (short_id(&goal.session).to_owned(), report_subject(run, ""));
    let newest = log.iter().find(|it| it.turn.is_some());
    let has_report = log.iter().any(|it| it.subject.starts_with(&report));
    if has_report && newest.is_some_and(|it| !it.subject.starts_with(&report)) {
        let message = format!("session {id} has turns after run {run}");
        let hint = format!("reedclaw session log {id} lists them, and reedclaw session rewind {id} TURN goes back");
        return Err(Failure::user(message).hint(hint));
    }
    let before = log.iter().filter(|it| it.time_s < began / 1000).find_map(|it| it.turn).unwrap_or(0);
    if newest.and_then(|it| it.turn) == Some(before) {
        let message = format!("run {run} has no commits in session {id}, or it was undone");
        return Err(Failure::user(message));
    }
    let reference = session.rewind(before).map_err(session_failure)?;
    Ok(vec![format!(
        "session {id} is at turn {before}, as before run {run}; the newest commit is saved as {reference}"
    )])
}

/// The subject of the commit with the report of a run; `state` says how the run ended.
fn report_subject(run: i64, state: &str) -> String {
    format!("report of run {run}: {state}")
}

impl Turns for RunOnGit {
    fn begin(&mut self, agent: &Agent, task: &str) -> Result<(), Failure> {
        self.on_git.session.draft().guard(key_test(agent));
        self.on_git.session.begin_turn(&agent.redacted(task)).map_err(session_failure)?;
        self.on_git.session.note_conversation(agent.conversation().map(|it| it.0));
        Ok(())
    }

    fn end(&mut self, agent: &Agent, task: &str) -> Result<(), Failure> {
        let Some(mut report) = last_report(agent, &self.store) else { return Ok(()) };
        report.left_out = without_keys(&self.on_git, agent)?;
        report.doubts = doubts_of_turn(agent, &self.on_git.session);
        // An attempt that was cut off and changed nothing makes no commit; the next attempt uses the same turn.
        if report.state != State::Whole && self.on_git.session.draft().is_unchanged() {
            self.on_git.session.forget_turn();
            return Ok(());
        }
        if !self.keeps_calls {
            report.calls.clear();
        }
        report.question = agent.redacted(task);
        report.subject = Some(report.question.clone());
        self.on_git.session.end_turn(&report).map(drop).map_err(session_failure)
    }
}
