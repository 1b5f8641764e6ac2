//! Sessions on git, joined to conversations: a session begins and ends, each turn that was answered becomes a commit, and
//! the conversation goes where its branch goes.

use std::path::Path;
use std::sync::{Arc, PoisonError};

use super::{Runtime, past_turns};
use crate::agent::Agent;
use crate::config::state_directory;
use crate::host::now_unix_ms;
use crate::proto::{Failure, FailureKind};
use crate::sessions::wire::CallFile;
use crate::sessions::{Said, Session, SessionError, Sessions, State, short_id};
use crate::store::{ConversationId, MessageState, StoredTurn};
use crate::tree::Bench;

/// A session that is on.
pub struct OnGit {
    /// It.
    pub session: Session,
    pub(super) bench: Arc<Bench>,
}

impl OnGit {
    /// The directory whose files the session works on.
    #[must_use]
    pub fn workspace(&self) -> &Path {
        crate::files::Tree::path(&**self.session.draft())
    }

    fn new(session: Session) -> Self {
        let excludes = session.sessions().repo().common_dir().join("info/exclude");
        let excludes = crate::host::read_text(&excludes).unwrap_or_default();
        let lines = excludes.lines().map(str::to_owned).collect();
        let bench = Arc::new(Bench::new(session.bench(), session.draft().clone(), lines));
        Self { session, bench }
    }
}

/// A failure of sessions, in words for a person.
#[must_use]
pub fn session_failure(error: SessionError) -> Failure {
    let (kind, hint) = match &error {
        SessionError::Unknown(_) => (FailureKind::User, "list shows the sessions of this repository"),
        SessionError::NoTurn { .. } => (FailureKind::User, "log lists its turns"),
        SessionError::Held(..) => (FailureKind::Refused, "fork goes on from it here; show and diff look at it"),
        SessionError::Refused(_) => (FailureKind::Refused, ""),
        SessionError::Conflicts(_) => (FailureKind::Refused, "nothing was changed"),
        SessionError::Damaged(_) => (FailureKind::Unavailable, "its files are whole; git log shows its commits"),
        SessionError::Git(_) => (FailureKind::Unavailable, ""),
        SessionError::Disk(..) => (FailureKind::Unavailable, "free some disk space, or look at the permissions there"),
    };
    Failure { kind, message: error.to_string(), hint: hint.to_owned() }
}

impl Runtime {
    /// The sessions of the repository at `workspace`.
    ///
    /// # Errors
    /// There is none that can be used.
    pub fn sessions(&self, workspace: &Path) -> Result<Sessions, Failure> {
        let state = state_directory(&self.env).ok_or_else(|| Failure {
            kind: FailureKind::Unavailable,
            message: "no HOME is set, so there is no state directory".into(),
            hint: "set HOME".into(),
        })?;
        let home = self.variable("HOME").map(Path::new);
        let login = self.variable("USER").or_else(|| self.variable("LOGNAME")).unwrap_or("user");
        Sessions::at(workspace, &state, home, login).map_err(session_failure)
    }

    /// Begins a session, and a conversation of its own with it.
    ///
    /// # Errors
    /// There is no repository, no such revision, or it can't be written.
    pub fn start_session(&mut self, workspace: &Path, from: Option<&str>, title: &str) -> Result<(), Failure> {
        let title = self.agent.redacted(title);
        let session = self.sessions(workspace)?.start(from, &title).map_err(session_failure)?;
        self.agent.clear();
        self.on_git = Some(OnGit::new(session));
        Ok(())
    }

    /// Goes on with a session and its conversation.
    ///
    /// # Errors
    /// There is none that is meant, or another shell has it open.
    pub fn open_session(&mut self, workspace: &Path, wanted: &str) -> Result<(), Failure> {
        let sessions = self.sessions(workspace)?;
        let id = sessions.find(wanted).map_err(session_failure)?;
        // One that is open here is closed first: its lock is ours.
        self.on_git = None;
        let session = sessions.open(&id).map_err(session_failure)?;
        self.take_session(session)
    }

    /// Takes a session up that was opened, and the conversation that its record holds.
    ///
    /// # Errors
    /// A record can't be read, or the conversation not be stored.
    pub fn take_session(&mut self, session: Session) -> Result<(), Failure> {
        let records = session.view().records(session.meta().turns).map_err(session_failure)?;
        self.on_git = Some(OnGit::new(session));
        let turns: Vec<StoredTurn> = records
            .into_iter()
            .map(|it| StoredTurn {
                question: it.question,
                answer: it.answer,
                state: match it.state.as_str() {
                    "whole" => MessageState::Complete,
                    "failed" => MessageState::Failed,
                    _ => MessageState::Partial,
                },
                time: it.time_ms,
                calls: it.calls.into_iter().map(|call| stored_call(call, it.time_ms)).collect(),
            })
            .collect();
        self.agent.clear();
        if turns.is_empty() {
            return Ok(());
        }
        let id = self.conversation_of(&turns)?;
        self.agent.go_on_in(id, past_turns(turns), None);
        Ok(())
    }

    /// The stored conversation with exactly these turns; one is stored if there is none, as for a session that came from
    /// another machine.
    fn conversation_of(&self, turns: &[StoredTurn]) -> Result<ConversationId, Failure> {
        let mut store = self.store.lock().unwrap_or_else(PoisonError::into_inner);
        let said = |turns: &[StoredTurn]| -> Vec<(String, String)> {
            turns.iter().map(|it| (it.question.clone(), it.answer.clone())).collect()
        };
        let wanted = said(turns);
        for known in store.conversations(CONVERSATIONS_SEEN)? {
            if usize::try_from(known.turns) == Ok(turns.len()) && said(&store.turns(known.id)?) == wanted {
                return Ok(known.id);
            }
        }
        let id = store.begin_conversation(now_unix_ms(), "");
        for turn in turns {
            let mut open = store.ask(id, turn.time, &turn.question, None);
            for call in &turn.calls {
                store.add_call(&open, call);
            }
            store.push_piece(&mut open, &turn.answer, turn.time);
            store.finish_message(open, turn.state, turn.time);
        }
        Ok(id)
    }

    /// Leaves the session; it stays in git.
    pub fn leave_session(&mut self) -> Option<String> {
        let left = self.on_git.take()?;
        self.agent.clear();
        Some(short_id(left.session.id()).to_owned())
    }

    /// Notes that a turn begins; returns a notice.
    pub(super) fn begin_turn(&mut self, question: &str) -> Result<Option<String>, Failure> {
        let question = self.agent.redacted(question);
        match &mut self.on_git {
            Some(on_git) => on_git.session.begin_turn(&question).map_err(session_failure),
            None => Ok(None),
        }
    }

    /// Commits the turn that was answered, failed or stopped; returns a line about it.
    ///
    /// # Errors
    /// It can't be written. The draft stays, and the next turn includes it.
    pub fn end_turn(&mut self) -> Result<Option<String>, Failure> {
        let Some(on_git) = &mut self.on_git else { return Ok(None) };
        let Some(said) = said_last(&self.agent, &self.store) else { return Ok(None) };
        let done = on_git.session.end_turn(&said).map_err(session_failure)?;
        let files = crate::base::text::counted(done.files, "file");
        let mut line = format!("turn {} · {files} · {}", done.turn, crate::git::short(done.commit));
        if said.state != State::Whole {
            line.push_str(&format!(" · {}", said.state.word()));
        }
        if let Some(id) = done.forked {
            line.push_str(&format!(" · the branch had moved, so this is session {} now", short_id(&id)));
        }
        Ok(Some(line))
    }
}

/// Conversations among which that of a session is looked for.
const CONVERSATIONS_SEEN: usize = 500;

fn stored_call(call: CallFile, time: i64) -> crate::store::StoredCall {
    let CallFile { arguments, id: call_id, receipt, result, success, tool } = call;
    crate::store::StoredCall { time, call_id, tool, arguments, result, success, receipt }
}

/// The last turn as it is stored; its texts are redacted once more.
fn said_last(agent: &Agent, store: &std::sync::Mutex<crate::store::Store>) -> Option<Said> {
    let turns = store.lock().unwrap_or_else(PoisonError::into_inner).turns(agent.conversation()?).ok()?;
    let last = turns.into_iter().next_back()?;
    let call = |it: crate::store::StoredCall| CallFile {
        arguments: agent.redacted(&it.arguments),
        id: it.call_id,
        receipt: it.receipt,
        result: agent.redacted(&it.result),
        success: it.success,
        tool: it.tool,
    };
    Some(Said {
        question: agent.redacted(&last.question),
        answer: agent.redacted(&last.answer),
        state: match last.state {
            MessageState::Complete => State::Whole,
            MessageState::Partial => State::Cancelled,
            MessageState::Failed => State::Failed,
        },
        model: agent.current_model().map(str::to_owned),
        calls: last.calls.into_iter().map(call).collect(),
        time_ms: last.time,
        tokens: [0; 2],
        cost: None,
        left_out: Vec::new(),
    })
}
