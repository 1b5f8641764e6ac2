//! Sessions on git, joined to conversations: a session begins and ends, each turn that was answered becomes a commit, and
//! the conversation goes where its branch goes.

mod asked_first;
mod back;
mod failure;
mod left;
mod run;
mod stored;
mod summaries;
mod tools;

use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use super::tooling::workspace::strangers_top;
use super::{BuiltRunner, Runtime, past_turns};
use crate::agent::{Agent, Nobody, Person};
use crate::config::{Env, SessionSettings, state_directory};
use crate::files::{PathError, Root, Tree};
use crate::git::{GitError, Mode};
use crate::norris::Goal;
use crate::proto::action::Action;
use crate::proto::tool::{Answer, Overdue, OverdueChoice, Question};
use crate::proto::{Failure, Money, TurnCommitted};
use crate::sessions::wire::CallFile;
use crate::sessions::{
    Listed, Options, Session, SessionError, Sessions, State, ToApply, TurnReport, has_commands_copy, plan_apply,
    short_id, start_with_changes,
};
use crate::steps::{Incoming, NewContent};
use crate::store::{ConversationId, MessageState, Store};
use crate::tree::{Bench, Draft, Guard};

pub use crate::tools::script::{FOLDER, Tested};
use asked_first::doubts_of_turn;
pub use asked_first::{Doubt, doubts, left_behind};
pub use back::{undo_in_session, undoes_in_session};
pub use failure::session_failure;
pub use left::{open_asking, open_to_write};
pub use run::{RunOnGit, rewind_run_session};
pub use stored::restore_conversations;
pub use summaries::{Maker, ToSummarise, maker, summarise, to_summarise};
pub use tools::{RepositoryTool, Ruling, ToolAsked, session_on};

/// Bytes of open files that go with a question, all together: some 32,000 tokens.
const OPEN_BYTES_MAX: u64 = 128 * 1024;

/// Limit on the left-out files that the line about a turn names; the turn's record has all.
const LEFT_OUT_SHOWN: usize = 3;

/// A session that is on.
pub struct OnGit {
    /// The session.
    pub session: Session,
    pub(super) bench: Arc<Bench>,
    /// The summaries of files that questions have carried, by path.
    summarised: BTreeMap<String, String>,
}

impl OnGit {
    /// The directory whose files the session works on.
    #[must_use]
    pub fn workspace(&self) -> &Path {
        crate::files::Tree::path(&**self.session.draft())
    }

    fn new(session: Session, wanted: &SessionSettings) -> Self {
        Self { bench: Arc::new(bench_of(&session, wanted)), session, summarised: BTreeMap::new() }
    }
}

/// The bench of a session.
fn bench_of(session: &Session, wanted: &SessionSettings) -> Bench {
    let trees = (wanted.bench == "shared").then(|| session.shared_trees());
    let closed = (wanted.bench == "off").then_some("commands of sessions are off (sessions.bench)");
    Bench::new(session.bench(), trees, session.draft().clone())
        .with_git(session.sessions().repo().clone(), session.sessions().identity().clone())
        .with_copies(&wanted.share)
        .closed(closed)
}

/// The changes by a command of the person's own.
pub struct OwnChanges {
    /// The files of the session, each with a sign: new, changed or gone.
    pub files: Vec<(PathBuf, char)>,
    /// The files that the commit leaves out, with the reason.
    pub left_out: Vec<String>,
}

/// The files of a session that were put into the checkout.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Applied {
    /// The number of files that were changed.
    pub files: usize,
    /// The step that undo takes back.
    pub step: Option<u64>,
    /// The files that were left as they are, with the reason.
    pub left: Vec<(PathBuf, String)>,
}

impl std::fmt::Display for Applied {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} changed in the checkout", crate::base::text::counted(self.files, "file"))?;
        if let Some(step) = self.step {
            write!(f, " as step {step}; undo reverts it")?;
        }
        let left: Vec<String> = self.left.iter().map(|(path, why)| format!("{} ({why})", path.display())).collect();
        if left.is_empty() { Ok(()) } else { write!(f, "; left as they are: {}", left.join(", ")) }
    }
}

fn no_session() -> Failure {
    Failure::user("no session is active").hint(":session lists them")
}

/// The person who has typed a command for the bench: the command may run without a question, anything else is asked about.
pub struct OwnCommand<'p> {
    person: &'p mut dyn Person,
    has_run: bool,
    /// `true` if the person has said yes to all that the command changes.
    has_yes: bool,
    /// `true` if something was refused because the person can't be asked.
    pub lacks_yes: bool,
}

impl<'p> OwnCommand<'p> {
    /// The command of `person`.
    pub fn of(person: &'p mut dyn Person) -> Self {
        Self { person, has_run: false, has_yes: false, lacks_yes: false }
    }

    /// Sets whether the person wants the command's changes, whatever they are.
    #[must_use]
    pub fn with_yes(self, has_yes: bool) -> Self {
        Self { has_yes, ..self }
    }
}

impl Person for OwnCommand<'_> {
    fn can_ask(&self) -> bool {
        true
    }

    fn approve(&mut self, question: &Question) -> Answer {
        let is_typed = matches!(question.action, Action::Shell { .. }) && !self.has_run;
        self.has_run = true;
        if is_typed || self.has_yes && matches!(question.action, Action::Keep { .. }) {
            return Answer::Once;
        }
        self.lacks_yes |= !self.person.can_ask();
        self.person.approve(question)
    }

    fn overdue(&mut self, command: &Overdue, has_ended: &Arc<AtomicBool>) -> Option<OverdueChoice> {
        let command = Overdue { no_job: Some("its changes are collected when it ends"), ..command.clone() };
        self.person.overdue(&command, has_ended)
    }
}

/// Commits for a session's branch while its person is asked in the middle of a turn; none if no session is on.
pub struct Approvals<'a> {
    on_git: Option<&'a mut OnGit>,
    hide: Box<dyn Fn(&str) -> String + Send>,
    announce: Box<dyn Fn(&str) + Send>,
}

impl Approvals<'_> {
    /// Approvals of calls that belong to no session.
    #[must_use]
    pub fn none() -> Self {
        Self { on_git: None, hide: Box::new(str::to_owned), announce: Box::new(|_| {}) }
    }

    /// Sets the way to announce each question to the person's other shells.
    pub fn announce_by(&mut self, announce: impl Fn(&str) + Send + 'static) {
        self.announce = Box::new(announce);
    }

    /// Commits what the running turn has changed so far, since the person is about to be asked `what`. Other shells see that.
    ///
    /// # Errors
    /// It can't be written, or the branch has moved; the draft stays as it is.
    pub fn begin(&mut self, what: &str) -> Result<(), Failure> {
        let what = (self.hide)(what);
        let Some(on_git) = &mut self.on_git else { return Ok(()) };
        let committed = on_git.session.commit_so_far().map(drop).map_err(session_failure);
        on_git.session.ask(Some(&what));
        let (id, what) = (short_id(on_git.session.id()), crate::base::text::one_line(&what));
        (self.announce)(&format!("[session] {id} in {} waits for your answer: {what}", on_git.workspace().display()));
        committed
    }

    /// Notes that the person has answered.
    pub fn end(&mut self) {
        if let Some(on_git) = &self.on_git {
            on_git.session.ask(None);
        }
    }

    /// Commits that the person has agreed to a call of the running turn.
    ///
    /// # Errors
    /// The errors of [`Approvals::begin`].
    pub fn note(&mut self, what: &str) -> Result<(), Failure> {
        let what = (self.hide)(what);
        let Some(on_git) = &mut self.on_git else { return Ok(()) };
        on_git.session.note_approval(&what).map(drop).map_err(session_failure)
    }
}

impl Runtime {
    /// The sessions of the repository at `workspace`.
    ///
    /// # Errors
    /// There is no usable repository.
    pub fn sessions(&self, workspace: &Path) -> Result<Sessions, Failure> {
        let state = state_directory(&self.env)
            .ok_or_else(|| Failure::unavailable("no HOME is set, so there is no state directory").hint("set HOME"))?;
        let home = self.variable("HOME").map(Path::new);
        let login = self.variable("USER").or_else(|| self.variable("LOGNAME")).unwrap_or("user");
        let sessions = Sessions::at(workspace, &state, home, login);
        let sessions = sessions.map_err(|error| match (&error, strangers_top(&self.env, &self.cwd)) {
            (SessionError::Git(GitError::None(_)), Some(top)) => {
                Failure::unavailable(format!("the repository at {} belongs to another user", top.display()))
                    .hint("sessions work in repositories of your own: work as its owner, or copy it")
            }
            _ => session_failure(error),
        })?;
        let wanted = &self.settings.sessions;
        let sessions = sessions.with(Options {
            hides: wanted.refs == "hidden",
            is_by_model: wanted.author == "model",
            names_models: wanted.assisted_by,
            keep_days: u32::try_from(wanted.keep_days).unwrap_or(u32::MAX),
        });
        Ok(sessions.mend())
    }

    /// Begins a session, and a conversation of its own with it.
    ///
    /// # Errors
    /// There is no repository, no such revision, or it can't be written.
    pub fn start_session(&mut self, workspace: &Path, from: Option<&str>, title: &str) -> Result<(), Failure> {
        let title = self.agent.redacted(title);
        let session = self.sessions(workspace)?.start(from, &title).map_err(session_failure)?;
        self.begin_in(session);
        Ok(())
    }

    /// Begins a session with the uncommitted files of the checkout.
    ///
    /// # Errors
    /// The errors of [`Runtime::start_session`].
    pub fn start_session_with_changes(&mut self, workspace: &Path, title: &str) -> Result<(), Failure> {
        let missing = || Failure::unavailable("git isn't installed").hint("install git");
        let program = crate::git::Program::find(&self.env).ok_or_else(missing)?;
        let title = self.agent.redacted(title);
        let begun = start_with_changes(&self.sessions(workspace)?, &title, &program, &key_test(&self.agent));
        self.begin_in(begun.map_err(session_failure)?);
        Ok(())
    }

    /// Returns a test whether bytes contain a key that is known by now.
    #[must_use]
    pub fn key_guard(&self) -> Guard {
        key_test(&self.agent)
    }

    fn begin_in(&mut self, session: Session) {
        self.agent.clear_conversation();
        self.on_git = Some(OnGit::new(session, &self.settings.sessions));
    }

    /// Begins a session on a branch of the user's that is checked out nowhere.
    ///
    /// # Errors
    /// The errors of [`Sessions::start_on`].
    pub fn start_session_on(&mut self, workspace: &Path, branch: &str, title: &str) -> Result<(), Failure> {
        let title = self.agent.redacted(title);
        let session = self.sessions(workspace)?.start_on(branch, &title).map_err(session_failure)?;
        // In a clone the branch already has the turns of its session.
        self.agent.clear_conversation();
        self.take_session(session)
    }

    /// Continues a session and its conversation.
    ///
    /// # Errors
    /// There is no such session, or another shell has it open.
    pub fn open_session(&mut self, workspace: &Path, wanted: &str) -> Result<(), Failure> {
        self.open_session_asking(workspace, wanted, &mut Nobody)
    }

    /// Continues a session like [`Runtime::open_session`], with a person who can be asked about changes that waited for
    /// an answer when a process was killed.
    ///
    /// # Errors
    /// The errors of [`Runtime::open_session`].
    pub fn open_session_asking(
        &mut self,
        workspace: &Path,
        wanted: &str,
        person: &mut dyn Person,
    ) -> Result<(), Failure> {
        let sessions = self.sessions(workspace)?;
        let id = sessions.find(wanted).map_err(session_failure)?;
        // A session that is open here is closed first, since its lock is ours.
        self.on_git = None;
        let session = open_asking(self, &sessions, &id, person).map_err(session_failure)?;
        self.take_session(session)
    }

    /// Returns whether a session may have changes of a command that a crash cut off, so that opening it asks something.
    #[must_use]
    pub fn may_ask_on_opening(&self, workspace: &Path, wanted: &str) -> bool {
        let found = self.sessions(workspace).ok().and_then(|it| Some((it.find(wanted).ok()?, it)));
        found.is_some_and(|(id, sessions)| has_commands_copy(&sessions, &id))
    }

    /// Takes up an opened session, and the conversation in its record.
    ///
    /// # Errors
    /// A record can't be read, or the conversation can't be stored.
    pub fn take_session(&mut self, session: Session) -> Result<(), Failure> {
        let records = session.view().records(session.meta().turns).map_err(session_failure)?;
        self.on_git = Some(OnGit::new(session, &self.settings.sessions));
        let turns = stored::turns_of(records);
        self.agent.clear_conversation();
        if turns.is_empty() {
            return Ok(());
        }
        let id = stored::conversation_of(&mut self.store.lock(), &turns)?.0;
        self.agent.go_on_in(id, past_turns(turns), None);
        Ok(())
    }

    /// Leaves the session; it stays in git.
    pub fn leave_session(&mut self) -> Option<String> {
        let left = self.on_git.take()?;
        self.agent.clear_conversation();
        Some(short_id(left.session.id()).to_owned())
    }

    /// Begins the session of a run that wants a new one, or continues the one that it names; the next tools of the
    /// agent work on it. Sets its id in the goal.
    ///
    /// # Errors
    /// There is no repository, no such session, or another process has it open.
    pub fn begin_run_session(&mut self, workspace: &Path, goal: &mut Goal) -> Result<(), Failure> {
        match goal.session.as_str() {
            "" => return Ok(()),
            "new" => self.start_session(workspace, None, &goal.text)?,
            wanted => self.open_session(workspace, wanted)?,
        }
        goal.session = self.on_git().map(|on_git| on_git.session.id().to_owned()).unwrap_or_default();
        Ok(())
    }

    /// Hands the session over to the run.
    #[must_use]
    pub fn take_run_session(&mut self) -> Option<RunOnGit> {
        let on_git = self.take_on_git()?;
        let keeps_calls = self.settings.sessions.record != "talk";
        Some(RunOnGit { on_git, store: Arc::clone(self.store()), keeps_calls })
    }

    /// The open files of the session that is on, each as a note for a question. A file that the policy closes isn't
    /// sent; a file that is too long, or beyond the limit for all files together, is only named.
    pub(super) fn open_files(&self) -> Vec<String> {
        let Some(on_git) = &self.on_git else { return Vec::new() };
        let (draft, mut left) = (on_git.session.draft(), OPEN_BYTES_MAX);
        let mut notes = Vec::new();
        for path in draft.open_files().unwrap_or_default() {
            let name = path.display().to_string();
            let heading = format!("[open file {}]", name.escape_debug().to_string().replace(['[', ']'], "?"));
            if self.may_bring(&on_git.workspace().join(&path)).is_err() {
                continue;
            }
            let text = draft.read(&name, left).ok().and_then(|it| String::from_utf8(it.bytes).ok());
            notes.push(match text {
                Some(text) => {
                    left = left.saturating_sub(text.len() as u64);
                    format!("{heading} as it is in the session now\n{}\n[end of it]\n", text.trim_end())
                }
                None => format!("{heading} isn't sent: it is gone, no text, or too long with the others; close it\n"),
            });
        }
        notes
    }

    /// Opens and closes files of the session that is on, as a person names them. Returns all that are open, each with its
    /// estimated tokens.
    ///
    /// # Errors
    /// No session is on, a path can't be used, or the policy closes it.
    pub fn update_open_files(&self, opened: &[&str], closed: &[&str]) -> Result<Vec<(String, usize)>, Failure> {
        let on_git = self.on_git.as_ref().ok_or_else(|| Failure::user("no session is active"))?;
        let draft = on_git.session.draft();
        let place = |path: &&str| match draft.look(path) {
            Ok((_, true)) => Err(Failure::user(format!("{path} is a directory"))),
            Ok((found, _)) => {
                let may = self.may_bring(&on_git.workspace().join(&found));
                may.map(|()| found).map_err(|why| Failure::user(format!("{path}: {why}")))
            }
            Err(error) => Err(Failure::user(format!("{path}: {error}"))),
        };
        let opened = opened.iter().map(place).collect::<Result<Vec<_>, _>>()?;
        let beneath = |path: &&str| draft.beneath(path).map_err(|error| Failure::user(format!("{path}: {error}")));
        let closed = closed.iter().map(beneath).collect::<Result<Vec<_>, _>>()?;
        draft.set_open_files(&opened, &closed).map_err(|error| Failure::user(error.to_string()))?;
        let tokens = |name: &str| {
            let read = draft.read(name, crate::sessions::FILE_BYTES_MAX);
            read.map_or(0, |it| crate::turn::estimate_tokens(&String::from_utf8_lossy(&it.bytes)))
        };
        Ok(draft.open_names().into_iter().map(|name| (name.clone(), tokens(&name))).collect())
    }

    /// A file of the session that is on; `None` if there is none at the path.
    ///
    /// # Errors
    /// No session is on, or it can't be read.
    pub fn session_file(&self, path: &str) -> Result<Option<Vec<u8>>, Failure> {
        let on_git = self.on_git.as_ref().ok_or_else(|| Failure::user("no session is active"))?;
        match on_git.session.draft().read(path, crate::sessions::FILE_BYTES_MAX) {
            Ok(it) => Ok(Some(it.bytes)),
            Err(PathError::Missing) => Ok(None),
            Err(error) => Err(Failure::user(format!("{path}: {error}"))),
        }
    }

    /// Commits a file of the session as its person wrote it. Returns a line about the commit.
    ///
    /// # Errors
    /// The errors of [`Session::edit_by_user`].
    pub fn edit_session_file(&mut self, path: &str, old: Option<&[u8]>, new: &[u8]) -> Result<String, Failure> {
        let guard = key_test(&self.agent);
        let Some(on_git) = &mut self.on_git else { return Ok(String::new()) };
        on_git.session.draft().guard(guard);
        let commit = on_git.session.edit_by_user(path, old, new).map_err(session_failure)?;
        let left = &on_git.session.meta().conflicts;
        let left = if left.is_empty() { String::new() } else { format!(" · conflicts left in {}", left.join(", ")) };
        Ok(format!("{path} is in the session as commit {}{left}", crate::git::short(commit)))
    }

    /// Makes the tools for a command of the person's own on the bench of the session that is on.
    ///
    /// # Errors
    /// No session is on, its branch can't be followed, or tools can't be used.
    pub fn runner_on_bench(&mut self) -> Result<BuiltRunner, Failure> {
        let guard = key_test(&self.agent);
        let on_git = self.on_git.as_mut().ok_or_else(no_session)?;
        on_git.session.begin_own().map_err(session_failure)?;
        on_git.session.draft().guard(guard);
        let on_git = &*on_git;
        super::tool_runner(&super::RunnerOf {
            settings: &self.settings,
            env: &self.env,
            workspace: on_git.workspace(),
            store: &self.store,
            channel: None,
            config: self.config.path.as_deref(),
            ceiling: self.ceiling.clone(),
            bench: Some(&on_git.bench),
            readable: &[],
        })
    }

    /// Returns the files that a command of the person's own has changed, and those that the commit leaves out.
    ///
    /// # Errors
    /// No session is on, or its files can't be read.
    pub fn own_changes(&self) -> Result<OwnChanges, Failure> {
        let on_git = self.on_git.as_ref().ok_or_else(no_session)?;
        let draft = on_git.session.draft();
        let failed = |error: crate::git::GitError| session_failure(error.into());
        let mut left_out = on_git.bench.take_left_out();
        let taken_back = draft.take_back_keys().map_err(failed)?;
        left_out.extend(taken_back.iter().map(|path| format!("{} (it holds a key)", path.display())));
        let repo = on_git.session.sessions().repo();
        let tree = repo.commit(on_git.session.tip()).map_err(failed)?.tree;
        let before = Draft::read_only(repo.clone(), tree, Path::new("/"), None);
        let sign = |it: &crate::tree::Changed| match &it.now {
            None => '-',
            Some(_) if before.has(&it.path) => '~',
            Some(_) => '+',
        };
        let files = draft.changes().map_err(failed)?;
        Ok(OwnChanges { files: files.into_iter().map(|it| (it.path.clone(), sign(&it))).collect(), left_out })
    }

    /// Commits what a command of the person's own has changed, or drops it. Returns a line about the commit.
    ///
    /// # Errors
    /// The commit can't be made.
    pub fn end_own_command(&mut self, command: &str, is_wanted: bool) -> Result<String, Failure> {
        let subject = format!("run {}", self.agent.redacted(command));
        let on_git = self.on_git.as_mut().ok_or_else(no_session)?;
        if !is_wanted {
            on_git.session.drop_own();
            on_git.bench.settle();
            return Ok("its changes were dropped".to_owned());
        }
        let commit = on_git.session.commit_own(&subject).map_err(session_failure)?;
        on_git.bench.settle();
        Ok(format!("its changes are in the session as commit {}", crate::git::short(commit)))
    }

    /// Returns the agent, and the approvals for the turn that it is asked for.
    pub fn agent_and_approvals(&mut self) -> (&mut Agent, Approvals<'_>) {
        let hide = self.agent.redactor().hiding();
        (&mut self.agent, Approvals { on_git: self.on_git.as_mut(), hide, ..Approvals::none() })
    }

    /// Notes that a turn begins; returns a notice.
    pub(super) fn begin_turn(&mut self, question: &str) -> Result<Option<String>, Failure> {
        let question = self.agent.redacted(question);
        let guard = key_test(&self.agent);
        let Some(on_git) = &mut self.on_git else { return Ok(None) };
        on_git.session.draft().guard(guard);
        let notice = on_git.session.begin_turn(&question).map_err(session_failure)?;
        on_git.session.note_conversation(self.agent.conversation().map(|it| it.0));
        let files = on_git.session.sessions().repo().files_in_index();
        if files.is_some_and(|files| u64::from(files) <= self.settings.sessions.prepare) {
            let bench = Arc::clone(&on_git.bench);
            // A command that arrives before the bench is ready waits for it.
            let _ = std::thread::Builder::new().name("bench".to_owned()).spawn(move || bench.prepare());
        }
        Ok(notice)
    }

    /// The files of the checkout that would change if a session's files were put there.
    ///
    /// # Errors
    /// The user has changed the same lines since, or a file can't be read.
    pub fn plan_apply(&self, sessions: &Sessions, id: &str) -> Result<Vec<ToApply>, SessionError> {
        let bare = || SessionError::Refused("this repository has no checkout".to_owned());
        let checkout = sessions.repo().work_dir().ok_or_else(bare)?;
        let failed = |error: crate::files::PathError| {
            SessionError::Disk(checkout.to_owned(), std::io::Error::other(error.to_string()))
        };
        let program = crate::git::Program::find(&self.env);
        plan_apply(sessions, id, &Root::open(checkout, None).map_err(failed)?, program.as_ref())
    }

    /// Puts a session's files into the checkout, as one step that `:undo` takes back.
    ///
    /// # Errors
    /// The checkout or the store of steps can't be written; nothing was changed then.
    pub fn apply(&self, sessions: &Sessions, id: &str, plan: Vec<ToApply>) -> Result<Applied, Failure> {
        let checkout = sessions.repo().work_dir().unwrap_or_else(|| Path::new("/")).to_owned();
        let incoming = |it: ToApply| Incoming {
            path: it.path,
            expected: it.expected,
            content: match it.now {
                None => NewContent::Nothing,
                Some((Mode::Link, target)) => NewContent::Link { target: std::ffi::OsString::from_vec(target).into() },
                Some((Mode::Executable, bytes)) => NewContent::Bytes { mode: 0o755, bytes },
                Some((_, bytes)) => NewContent::Bytes { mode: 0o644, bytes },
            },
        };
        let mut steps = super::steps(&self.settings, &self.env, &checkout)?;
        let text = format!("session {}", short_id(id));
        let count = plan.len();
        let incoming = with_directories(&checkout, plan.into_iter().map(incoming).collect())?;
        let adopted = steps.adopt(&text, incoming, self.settings.undo.enabled);
        let adopted = adopted.map_err(|error| super::steps_failure(&error, ""))?;
        Ok(Applied { files: count - adopted.left.len(), step: adopted.report.step, left: adopted.left })
    }

    /// Returns the first line of a turn's commit by the model for summaries, if there is one and it answers in time.
    fn subject_of(&self, report: &TurnReport) -> Option<String> {
        let wait = Duration::from_millis(self.settings.sessions.message_ms);
        if report.state != State::Whole || wait.is_zero() {
            return None;
        }
        let (titler, conversation) = (self.agent.titler()?, self.agent.conversation()?);
        let (store, question, answer) = (Arc::clone(&self.store), report.question.clone(), report.answer.clone());
        let (to, from) = std::sync::mpsc::channel();
        let asked = std::thread::Builder::new().name("subject".to_owned()).spawn(move || {
            let mut recorder = super::StoreRecorder::in_background(store, conversation);
            let _ = to.send(titler.subject(&question, &answer, &mut recorder));
        });
        asked.ok().and_then(|_| from.recv_timeout(wait).ok())?
    }

    /// Commits the turn that was answered, failed or stopped; `None` if no session is on.
    ///
    /// # Errors
    /// It can't be written. The draft stays, and the next turn includes it.
    pub fn end_turn(&mut self) -> Result<Option<TurnCommitted>, Failure> {
        let Some(on_git) = &self.on_git else { return Ok(None) };
        let Some(mut report) = last_report(&self.agent, &self.store) else { return Ok(None) };
        report.left_out = without_keys(on_git, &self.agent)?;
        report.doubts = doubts_of_turn(&self.agent, &on_git.session);
        if self.settings.sessions.record == "talk" {
            report.calls.clear();
        }
        if !on_git.session.draft().is_unchanged() {
            report.subject = self.subject_of(&report).map(|it| self.agent.redacted(&it));
        }
        let Some(mut on_git) = self.on_git.take() else { return Ok(None) };
        let done = on_git.session.end_turn(&report).map_err(session_failure);
        if done.as_ref().is_ok_and(|it| it.forked.is_some()) {
            // From now on the files of commands belong to the fork.
            on_git = OnGit { summarised: on_git.summarised, ..OnGit::new(on_git.session, &self.settings.sessions) };
        }
        let on_git = self.on_git.insert(on_git);
        let done = done.map_err(|failure| Failure {
            message: format!("this turn is in no commit, and its files stay in the draft: {}", failure.message),
            ..failure
        })?;
        on_git.bench.settle();
        let conflicts = on_git.session.meta().conflicts.clone();
        let mut turn = TurnCommitted {
            session: on_git.session.id().to_owned(),
            turn: done.turn,
            commit: done.commit.to_string(),
            files: done.files,
            lines: done.lines,
            state: if conflicts.is_empty() || report.state != State::Whole { report.state } else { State::Conflicted }
                .word(),
            conflicts,
            text: String::new(),
        };
        summaries::follow_up(self);
        turn.text = line_about(&turn, &report, done.forked.as_deref());
        Ok(Some(turn))
    }
}

/// Adds the directories in which new files lie, each before its content. A file in the place of a directory is replaced.
fn with_directories(checkout: &Path, all: Vec<Incoming>) -> Result<Vec<Incoming>, Failure> {
    let failed = |error: PathError| Failure::unavailable(format!("{}: {error}", checkout.display()));
    let root = Root::open(checkout, None).map_err(failed)?;
    let parents = |it: &Incoming| it.path.ancestors().skip(1).map(Path::to_owned).collect::<Vec<_>>();
    let new = all.iter().filter(|it| it.content != NewContent::Nothing).flat_map(parents);
    let mut directories: BTreeSet<PathBuf> = new.filter(|it| !it.as_os_str().is_empty()).collect();
    directories.retain(|it| !root.stamp(it).is_ok_and(|it| it.is_some_and(|it| it.is_directory())));
    let mut by_path: BTreeMap<PathBuf, Incoming> = all.into_iter().map(|it| (it.path.clone(), it)).collect();
    for path in directories {
        let content = NewContent::Directory { mode: 0o755 };
        let expected = by_path.get(&path).and_then(|it| it.expected);
        by_path.insert(path.clone(), Incoming { path, expected, content });
    }
    Ok(by_path.into_values().collect())
}

/// Describes a turn that became a commit in a line.
fn line_about(turn: &TurnCommitted, report: &TurnReport, forked: Option<&str>) -> String {
    let files = crate::base::text::counted(turn.files, "file");
    let [more, less] = turn.lines.unwrap_or_default();
    let lines = if more + less > 0 { format!(" +{more} -{less}") } else { String::new() };
    let commit = &turn.commit[..turn.commit.len().min(8)];
    let mut line = format!("turn {} · {files}{lines} · {commit}", turn.turn);
    if !turn.conflicts.is_empty() {
        line.push_str(&format!(" · conflicts left in {}", turn.conflicts.join(", ")));
    }
    line.extend(report.cost.iter().map(|cost| format!(" · {cost}")));
    if !report.left_out.is_empty() {
        let more = report.left_out.len().saturating_sub(LEFT_OUT_SHOWN);
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        let named = &report.left_out[..report.left_out.len().min(LEFT_OUT_SHOWN)];
        line.push_str(&format!(" · in no commit: {}{more}", named.join(", ")));
    }
    if report.state != State::Whole {
        line.push_str(&format!(" · {}", report.state.word()));
    }
    if let Some(id) = forked {
        line.push_str(&format!(" · its branch has moved or is checked out, so this is session {} now", short_id(id)));
    }
    line
}

/// The sessions of the repository at `workspace`; none if there is no repository.
#[must_use]
pub fn sessions_here(env: &Env, workspace: &Path) -> Vec<Listed> {
    // Without a session so far there is no such directory, and no repository is opened.
    let state = state_directory(env).filter(|state| state.join("sessions").is_dir());
    let sessions = state.and_then(|state| Sessions::at(workspace, &state, None, "user").ok());
    sessions.and_then(|sessions| sessions.list().ok()).unwrap_or_default()
}

/// A line for each session of the repository at `workspace` with a turn that a crash cut off.
#[must_use]
pub fn cut_off_turns(env: &Env, workspace: &Path) -> Vec<String> {
    let all = sessions_here(env, workspace);
    let line = |it: &Listed| {
        let id = short_id(&it.meta.id);
        let turn = it.meta.turns + 1;
        format!("session {id}: turn {turn} was cut off; :session open {id} continues with its files")
    };
    all.iter().filter(|it| it.state() == "cut").map(line).collect()
}

/// Removes keys from the changes of the turn that ends; returns the names of what its commit leaves out.
fn without_keys(on_git: &OnGit, agent: &Agent) -> Result<Vec<String>, Failure> {
    let mut left_out = on_git.bench.take_left_out();
    // Some keys are read only with the first question.
    on_git.session.draft().guard(key_test(agent));
    let taken_back = on_git.session.draft().take_back_keys().map_err(|error| session_failure(error.into()))?;
    left_out.extend(taken_back.iter().map(|path| format!("{} (it holds a key)", path.display())));
    left_out.iter_mut().for_each(|it| *it = agent.redacted(it));
    Ok(left_out)
}

/// Returns a test whether bytes contain a key that is known by now.
fn key_test(agent: &Agent) -> Guard {
    let redactor = agent.redactor().clone();
    Box::new(move |bytes| redactor.holds_known(bytes))
}

/// Returns the use of the requests since a time: tokens sent and received, and the cost if each has a price.
fn spent_since(store: &Store, conversation: ConversationId, time_ms: i64) -> ([u64; 2], Option<String>) {
    let requests = store.requests(conversation).unwrap_or_default();
    let (mut tokens, mut cost) = ([0; 2], Some(Money::default()));
    for request in requests.iter().filter(|it| it.time >= time_ms) {
        let usage = &request.spent.usage;
        tokens[0] += usage.uncached_in + usage.cache_read + usage.cache_write;
        tokens[1] += usage.visible_out + usage.reasoning_out;
        cost = cost.zip(request.spent.cost).map(|(all, one)| all.plus(one));
    }
    let cost = cost.filter(|cost| *cost > Money::default());
    (tokens, cost.map(|cost| cost.to_string()))
}

/// The last turn of the conversation at hand.
fn last_report(agent: &Agent, store: &parking_lot::Mutex<Store>) -> Option<TurnReport> {
    report_of(agent, store, agent.conversation()?)
}

/// The last turn of a conversation as it is stored; its texts are redacted once more.
fn report_of(agent: &Agent, store: &parking_lot::Mutex<Store>, conversation: ConversationId) -> Option<TurnReport> {
    let store = store.lock();
    let last = store.turns(conversation).ok()?.into_iter().next_back()?;
    let (tokens, cost) = spent_since(&store, conversation, last.time);
    let call = |it: crate::store::StoredCall| CallFile {
        arguments: agent.redacted(&it.arguments),
        id: it.call_id,
        receipt: it.receipt,
        result: agent.redacted(&it.result),
        success: it.success,
        tool: it.tool,
    };
    Some(TurnReport {
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
        tokens,
        cost,
        left_out: Vec::new(),
        doubts: Vec::new(),
        subject: None,
    })
}
