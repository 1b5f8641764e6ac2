//! The end of a turn: objects, journal, one compare-and-swap of the branch. Before a person is asked in the middle of a turn, its
//! changes so far are committed, and the approval is a commit of its own.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::base::{Session, Sessions};
use super::disk::is_part;
use super::error::SessionError;
use super::history::{View, record_path};
use super::names::{self, kept_number, short_id};
use super::wire::{self, CallFile, ChangeFile, Meta, State, TurnFile, TurnReport};
use crate::base::text::counted;
use crate::files::{Change, Journals, PathError, Tree as _};
use crate::git::{Batch, GitError, Identity, Mode, NewCommit, Objects as _, Oid, TreeEdit, short};
use crate::host::now_unix_ms;
use crate::render::diff::{Line, diff_bytes};
use crate::tree::{Changed, Content, FILE_BYTES_MAX, RECORDS};

/// Beginning of a line that marks a conflict.
const MARK: &[u8] = b"<<<<<<< ";
/// Characters of a commit's subject.
const SUBJECT_CHARS_MAX: usize = 72;
/// Lines of a question in a commit's message.
const ASKED_LINES_MAX: usize = 4;
/// Lines of an answer in a commit's message.
const BODY_LINES_MAX: usize = 8;
/// Characters of a line there.
const LINE_CHARS_MAX: usize = 200;
/// Limit on a tool's result in a record, in bytes; a longer result is reduced to both ends.
const RESULT_BYTES_MAX: usize = 1024 * 1024;
/// The address of a model as an author; git requires one, but no mail is read there.
const MODEL_EMAIL: &str = "noreply@localhost";
/// Bytes of a file whose lines are counted, and of all files of a turn together.
const COUNTED_BYTES_MAX: u64 = 1024 * 1024;
const COUNTED_ALL_BYTES_MAX: usize = 16 * 1024 * 1024;
/// Records aren't compared line by line in a checkout of the branch; git reads such rules from a work tree only.
const ATTRIBUTES: &str = "** -diff linguist-generated\n";

/// A turn that was committed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Committed {
    /// Its number.
    pub turn: u64,
    /// Its commit.
    pub commit: Oid,
    /// Files that it changed.
    pub files: usize,
    /// Lines that it added and removed; `None` if they weren't counted.
    pub lines: Option<[u64; 2]>,
    /// The new id of the session if its branch had moved, so that the turn went to a fork.
    pub forked: Option<String>,
}

/// The origin of a session.
pub(super) enum Origin {
    Start,
    Fork { turns: Option<Oid>, from: String },
}

impl Sessions {
    /// Writes the commit that a session begins with.
    pub(super) fn first_commit(
        &self,
        meta: &Meta,
        tree: Oid,
        parents: Vec<Oid>,
        origin: Origin,
        now_ms: i64,
    ) -> Result<Oid, SessionError> {
        let mut batch = self.repo.batch();
        let own = Path::new(RECORDS).join(&meta.id);
        let mut edits = vec![file(&mut batch, Path::new(RECORDS).join(".gitattributes"), ATTRIBUTES.as_bytes())?];
        edits.push(file(&mut batch, own.join("session.json"), &json(meta))?);
        let (subject, act, turn) = match origin {
            Origin::Start => {
                let record =
                    TurnFile { v: wire::VERSION, kind: "base".into(), state: "whole".into(), ..TurnFile::default() };
                let record = TurnFile { time_ms: now_ms, ..record };
                edits.push(file(&mut batch, record_path(&meta.id, 0), &json(&record))?);
                let at = parents.first().map_or_else(|| "an empty repository".to_owned(), |it| short(*it));
                (format!("session {} begins at {at}", short_id(&meta.id)), "base", 0)
            }
            Origin::Fork { turns, from } => {
                edits.push((Path::new(RECORDS).join(&from), None));
                edits.extend(turns.map(|turns| (own.join("turns"), Some((Mode::Directory, turns)))));
                (format!("session {} is forked from {}", short_id(&meta.id), short_id(&from)), "fork", meta.turns)
            }
        };
        let tree = batch.tree(tree, &edits)?;
        let message = format!("{subject}\n\n{}", trailers(&meta.id, Some(turn), act, "whole", None));
        let commit = batch.commit(&self.new_commit(tree, parents, now_ms, message))?;
        batch.settle()?;
        Ok(commit)
    }

    pub(super) fn new_commit(&self, tree: Oid, parents: Vec<Oid>, now_ms: i64, message: String) -> NewCommit {
        let who = || Identity { name: self.who.name.clone(), email: self.who.email.clone() };
        let model = Some(&message).filter(|_| self.options.is_by_model).and_then(|message| model_of(message));
        let by_model = |model| Identity { name: format!("{model} via ReedClaw"), email: MODEL_EMAIL.to_owned() };
        let author = model.map_or_else(who, by_model);
        NewCommit { tree, parents, author, committer: who(), time_s: now_ms / 1000, message }
    }
}

impl Session {
    /// Records that a turn begins, so that its question survives a crash. An interrupted turn is committed first.
    ///
    /// # Errors
    /// The state directory can't be written, or the branch is checked out, or has moved and can't be followed.
    pub fn begin_turn(&mut self, question: &str) -> Result<Option<String>, SessionError> {
        self.sessions.repo.write_again()?;
        let mut notice = self.follow()?;
        if let Some(owed) = self.owed.take() {
            // If it fails again, the turn that begins has its files.
            let _ = self.end_turn(&owed);
        } else if let Some(left) = self.left() {
            self.commit_left()?;
            let (turn, files) = (self.meta.turns, counted(left.files, "file"));
            let cut = format!("turn {turn} was cut off before ({files}): it is now a separate commit");
            notice = Some(notice.map_or_else(|| cut.clone(), |notice| format!("{notice}; {cut}")));
        }
        self.desk.begin(question)?;
        Ok(notice)
    }

    /// Forgets the running turn: it has changed nothing, and will be repeated.
    pub fn forget_turn(&self) {
        self.desk.clear_draft();
    }

    /// Follows the branch if commits were added to it: they become part of the session.
    pub(super) fn follow(&mut self) -> Result<Option<String>, SessionError> {
        self.not_in_use()?;
        let now = self.sessions.repo.tip(&self.name)?;
        if now == Some(self.tip) {
            return Ok(None);
        }
        let Some(now) = now else {
            return Err(SessionError::Refused(format!(
                "the branch of session {} was deleted; its newest commit is {}",
                short_id(&self.meta.id),
                short(self.tip)
            )));
        };
        let id = short_id(&self.meta.id).to_owned();
        if self.sessions.repo.merge_base(self.tip, now) != Some(self.tip) {
            let number = kept_number(&self.sessions.keep(&self.meta.id, self.tip)?);
            return Err(SessionError::MadeAnew { id, at: short(now), number });
        }
        if !self.draft.is_unchanged() {
            return Err(SessionError::Overtaken(id));
        }
        self.draft.go_on(self.sessions.repo.commit(now)?.tree, &[])?;
        self.tip = now;
        self.watch();
        Ok(Some(format!("session {} continues at {}, which someone committed", short_id(&self.meta.id), short(now))))
    }

    /// Ends a turn: its files and texts become one commit.
    ///
    /// # Errors
    /// The turn can't be written. Then the branch doesn't move, and the draft remains.
    pub fn end_turn(&mut self, report: &TurnReport) -> Result<Committed, SessionError> {
        let written = self.write_turn(report);
        let written = written.and_then(|(meta, done)| match self.publish(done.commit) {
            Ok(()) => {
                self.meta = meta;
                Ok(done)
            }
            Err(SessionError::Git(GitError::Moved { .. }) | SessionError::InUse(..)) => {
                self.published_as_fork(meta, done)
            }
            Err(error) => Err(error),
        });
        self.owed = written.is_err().then(|| report.clone());
        written
    }

    /// Replaces a file's content for the person, as a separate commit between turns. The remains of an interrupted turn are
    /// committed first.
    ///
    /// # Errors
    /// The file doesn't match `old`, git can't store it, or the branch can't be moved.
    pub fn edit_by_user(&mut self, path: &str, old: Option<&[u8]>, new: &[u8]) -> Result<Oid, SessionError> {
        self.begin_own()?;
        let change = Change { path, old, new: Some(new) };
        let changed = self.draft.change(&Journals::new(self.desk.scratch()), &[change]);
        changed.map_err(|it| SessionError::Refused(format!("{path}: {}", it.error)))?;
        self.commit_own(&format!("{} {path}", if old.is_some() { "edit" } else { "add" }))
    }

    /// Prepares for changes of the person's own between turns: the remains of an interrupted turn are committed.
    ///
    /// # Errors
    /// It can't be written, or the branch has moved and can't be followed.
    pub fn begin_own(&mut self) -> Result<(), SessionError> {
        self.commit_left()?;
        self.follow().map(drop)
    }

    /// Drops the changes of the draft.
    pub fn drop_own(&mut self) {
        self.draft.start_over(self.draft.base());
        self.desk.clear_draft();
    }

    /// Gives the session another title, as a commit of the person's own.
    ///
    /// # Errors
    /// As of [`Session::begin_own`] and [`Session::commit_own`].
    pub fn set_title(&mut self, title: &str) -> Result<Oid, SessionError> {
        self.begin_own()?;
        self.meta.title = names::title(title);
        self.commit_own(&format!("title: {title}"))
    }

    /// Commits the changes of the draft as the person's own.
    ///
    /// # Errors
    /// They can't be written, or the branch can't be moved; then they remain in the draft.
    pub fn commit_own(&mut self, subject: &str) -> Result<Oid, SessionError> {
        let meta = Meta { active: self.draft.open_names(), conflicts: self.unsolved(), ..self.meta.clone() };
        let state = if meta.conflicts.is_empty() { "whole" } else { "conflicted" };
        let subject = names::title(subject);
        let message = format!("{subject}\n\n{}", trailers(&meta.id, None, "user", state, None));
        let written = self.draft.changes().map_err(SessionError::from);
        let written = written.and_then(|changes| self.write_draft(&meta, None, changes, message));
        if let Err(error) = written
            .as_ref()
            .map_err(ToString::to_string)
            .and_then(|commit| self.publish(*commit).map_err(|error| error.to_string()))
        {
            // The text stays in the draft, so it isn't lost.
            return Err(SessionError::Refused(format!("{error}; the next turn includes the changes")));
        }
        self.meta = meta;
        written
    }

    /// Commits the changes of the running turn so far. Returns the commit; `None` if there are none, or no turn runs.
    ///
    /// # Errors
    /// It can't be written, or the branch has moved. The draft stays as it is then.
    pub fn commit_so_far(&mut self) -> Result<Option<Oid>, SessionError> {
        let changes = self.draft.changes()?;
        let Some(left) = self.left().filter(|_| !changes.is_empty()) else { return Ok(None) };
        let subject = format!("so far: {}", left.question);
        self.commit_part(&subject, "part", changes).map(Some)
    }

    /// Commits a person's approval of a call of the running turn; `what` describes the call. Returns the commit; `None` if no
    /// turn runs.
    ///
    /// # Errors
    /// As of [`Session::commit_so_far`].
    pub fn note_approval(&mut self, what: &str) -> Result<Option<Oid>, SessionError> {
        if self.left().is_none() {
            return Ok(None);
        }
        let changes = self.draft.changes()?;
        let what = if self.draft.holds_key(what.as_bytes()) { "a call with a key in it" } else { what };
        self.commit_part(&format!("approve: {what}"), "approve", changes).map(Some)
    }

    /// Commits in the middle of a turn, whose question remains stored for the case of a crash.
    fn commit_part(&mut self, subject: &str, act: &str, changes: Vec<Changed>) -> Result<Oid, SessionError> {
        let meta = Meta { active: self.draft.open_names(), conflicts: self.unsolved(), ..self.meta.clone() };
        let mut subject = names::title(subject);
        if let Some((end, _)) = subject.char_indices().nth(SUBJECT_CHARS_MAX - 1) {
            subject = format!("{}…", subject[..end].trim_end());
        }
        let message = format!("{subject}\n\n{}", trailers(&meta.id, None, act, "whole", None));
        let commit = self.write_draft(&meta, None, changes, message)?;
        self.publish(commit)?;
        self.meta = meta;
        Ok(commit)
    }

    /// Returns the changes of the running turn: its draft, and the parts that were committed before questions to a person.
    ///
    /// # Errors
    /// A tree can't be read.
    pub fn changes_of_turn(&self) -> Result<Vec<Changed>, SessionError> {
        let (view, draft, from) = (self.view(), self.draft.changes()?, self.before_turn()?);
        if from == self.tip {
            return Ok(draft);
        }
        let committed = view
            .differ(from, self.tip)?
            .into_iter()
            .map(|it| Changed { path: it.path, now: it.new.map(|(mode, id)| (mode, Content::Object(id))) });
        let all: BTreeMap<PathBuf, Changed> = committed.chain(draft).map(|it| (it.path.clone(), it)).collect();
        Ok(all.into_values().collect())
    }

    /// The commit that the running turn began at.
    ///
    /// # Errors
    /// A commit can't be read.
    pub fn before_turn(&self) -> Result<Oid, SessionError> {
        self.view().before_parts(self.tip)
    }

    /// Counts the lines that changes since a commit add and remove; those of files that are no text don't count. `None` if
    /// that would take long.
    pub(super) fn lines_since(&self, from: Oid, changes: &[Changed]) -> Result<Option<[u64; 2]>, SessionError> {
        let before = self.view().files_at(from)?;
        let is_text = |bytes: &Vec<u8>| !bytes.contains(&0);
        let (mut lines, mut all) = ([0; 2], 0);
        for Changed { path, now } in changes {
            let old = match before.leaf(path, COUNTED_BYTES_MAX) {
                Ok((_, bytes)) => bytes,
                Err(PathError::Long(_)) => continue,
                Err(_) => Vec::new(),
            };
            let new = match now {
                None => Vec::new(),
                Some((_, Content::New(bytes, _))) => bytes.to_vec(),
                Some((Mode::Submodule, _)) => continue,
                Some((_, Content::Object(id))) => match self.sessions.repo.blob(*id, COUNTED_BYTES_MAX) {
                    Ok(bytes) => bytes,
                    Err(_) => continue,
                },
            };
            all += old.len() + new.len();
            if all > COUNTED_ALL_BYTES_MAX {
                return Ok(None);
            }
            if is_text(&old) && is_text(&new) && new.len() as u64 <= COUNTED_BYTES_MAX {
                for line in diff_bytes(&old, &new) {
                    match line {
                        Line::New(_) => lines[0] += 1,
                        Line::Gone(_) => lines[1] += 1,
                        Line::Kept(_) => {}
                    }
                }
            }
        }
        Ok(Some(lines))
    }

    /// Writes the commit of a turn, still unreferenced.
    pub(super) fn write_turn(&self, report: &TurnReport) -> Result<(Meta, Committed), SessionError> {
        let turn = self.meta.turns + 1;
        let (changes, of_turn) = (self.draft.changes()?, self.changes_of_turn()?);
        let lines = self.lines_since(self.view().before_parts(self.tip)?, &of_turn)?;
        let active = self.draft.open_names();
        let mut meta = Meta { turns: turn, active, conflicts: self.unsolved(), ..self.meta.clone() };
        if meta.title.is_empty() {
            meta.title = names::title(&report.question);
        }
        let state =
            if report.state == State::Whole && !meta.conflicts.is_empty() { State::Conflicted } else { report.state };
        let report = &TurnReport { state, ..report.clone() };
        let message = message_of(&meta, turn, report, (of_turn.len(), lines));
        let commit = self.write_draft(&meta, Some(&record_of(turn, report, &of_turn)), changes, message)?;
        Ok((meta, Committed { turn, commit, files: of_turn.len(), lines, forked: None }))
    }

    /// Writes a turn with the files of an earlier one, still unreferenced.
    pub(super) fn write_files_of(
        &self,
        earlier: u64,
        changes: &[Changed],
        conflicts: Vec<String>,
    ) -> Result<Oid, SessionError> {
        let turn = self.meta.turns + 1;
        let report = TurnReport {
            subject: Some(format!("return to the files of turn {earlier}")),
            answer: format!("The files are those of turn {earlier} again."),
            state: State::Whole,
            ..TurnReport::cut_off(format!("Return to the files of turn {earlier}."))
        };
        let meta = Meta { turns: turn, active: self.draft.open_names(), conflicts, ..self.meta.clone() };
        let record = record_of(turn, &report, changes);
        let lines = self.lines_since(self.tip, changes)?;
        self.write_commit(&meta, Some(&record), changes, message_of(&meta, turn, &report, (changes.len(), lines)))
    }

    /// Writes a commit of the draft's changes over the tip, and the journal of the branch's move to it; nothing else names it yet.
    fn write_draft(
        &self,
        meta: &Meta,
        record: Option<&TurnFile>,
        changes: Vec<Changed>,
        message: String,
    ) -> Result<Oid, SessionError> {
        let (batch, commit) = self.batch_of(meta, record, &changes, message)?;
        // The journal is valid only if its whole commit exists, so both can be synced at once.
        let (desk, name, tip) = (&self.desk, &*self.name, self.tip);
        let (settled, noted) = std::thread::scope(|scope| {
            let noted = scope.spawn(|| desk.write_journal(name, tip, commit));
            (batch.settle(), noted.join())
        });
        let noted = noted.unwrap_or_else(|_| Err(SessionError::Refused("a thread panicked".to_owned())));
        if let Err(error) = settled.map_err(SessionError::from).and(noted) {
            self.desk.clear_journal();
            return Err(error);
        }
        *self.written.lock() = Some((commit, changes));
        Ok(commit)
    }

    /// Writes a commit on the tip, still unreferenced.
    pub(super) fn write_commit(
        &self,
        meta: &Meta,
        record: Option<&TurnFile>,
        changes: &[Changed],
        message: String,
    ) -> Result<Oid, SessionError> {
        let (batch, commit) = self.batch_of(meta, record, changes, message)?;
        batch.settle()?;
        Ok(commit)
    }

    /// Makes the objects of a commit on the tip, without writing them yet.
    fn batch_of(
        &self,
        meta: &Meta,
        record: Option<&TurnFile>,
        changes: &[Changed],
        message: String,
    ) -> Result<(Batch<'_>, Oid), SessionError> {
        let repo = &self.sessions.repo;
        let mut batch = repo.batch();
        let mut edits: Vec<TreeEdit> = Vec::with_capacity(changes.len() + 2);
        for Changed { path, now } in changes {
            if let Some((_, Content::New(bytes, _))) = now {
                batch.blob_of(bytes)?;
            }
            edits.push((path.clone(), now.as_ref().map(|(mode, content)| (*mode, content.id()))));
        }
        edits.push(file(&mut batch, Path::new(RECORDS).join(&meta.id).join("session.json"), &json(meta))?);
        if let Some(record) = record {
            edits.push(file(&mut batch, record_path(&meta.id, record.turn), &json(record))?);
        }
        let tree = batch.tree(repo.commit(self.tip)?.tree, &edits)?;
        let commit = batch.commit(&self.sessions.new_commit(tree, vec![self.tip], now_unix_ms(), message))?;
        Ok((batch, commit))
    }

    /// Moves the branch to a written commit, with the journal.
    pub(super) fn publish(&mut self, commit: Oid) -> Result<(), SessionError> {
        let repo = self.sessions.repo.clone();
        self.not_in_use().inspect_err(|_| self.desk.clear_journal())?;
        if self.written.lock().as_ref().is_none_or(|(id, _)| *id != commit) {
            self.desk.write_journal(&self.name, self.tip, commit)?;
        }
        let swapped = repo.swap(&self.name, Some(self.tip), Some(commit), &self.sessions.who);
        if let Err(error) = swapped {
            self.desk.clear_journal();
            return Err(error.into());
        }
        let whole = repo.write_again();
        self.moved_to(commit, Some(commit))?;
        Ok(whole?)
    }

    /// Checks that no work tree has the branch checked out: there a move would look like changes of the user's.
    pub(super) fn not_in_use(&self) -> Result<(), SessionError> {
        self.sessions.not_in_use(&self.meta.id, &self.name)
    }

    /// The files with conflicts that still have git's marks in them.
    pub(super) fn unsolved(&self) -> Vec<String> {
        let has_mark = |path: &&String| {
            let read = self.draft.leaf(Path::new(path), FILE_BYTES_MAX);
            read.is_ok_and(|(_, bytes)| bytes.split(|byte| *byte == b'\n').any(|line| line.starts_with(MARK)))
        };
        self.meta.conflicts.iter().filter(has_mark).cloned().collect()
    }

    /// Continues at a new tip of the branch: the draft starts over, except for changes since `written`, the commit that was made
    /// from it.
    pub(super) fn moved_to(&mut self, commit: Oid, written: Option<Oid>) -> Result<(), SessionError> {
        let made = self.sessions.repo.commit(commit)?;
        let is_over = self.draft.go_on(made.tree, &self.changes_made_into(written))?;
        *self.written.lock() = None;
        self.tip = commit;
        self.watch();
        match is_part(&made) {
            true => self.desk.clear_changes(),
            false => self.desk.clear_draft(),
        }
        if !is_over && !self.draft.tell() {
            let message = "what was changed meanwhile can't be kept in the state directory";
            return Err(SessionError::Refused(message.to_owned()));
        }
        self.desk.settle_journal();
        Ok(())
    }

    /// The changes of the draft from which a commit was made; none if it was made from others.
    fn changes_made_into(&self, commit: Option<Oid>) -> Vec<Changed> {
        let written = self.written.lock();
        let of_commit = written.as_ref().filter(|(id, _)| Some(*id) == commit);
        of_commit.map(|(_, changes)| changes.clone()).unwrap_or_default()
    }

    /// Stores changes of the draft from now on, for the current tip.
    pub(super) fn watch(&self) {
        let (keeper, tip) = (self.desk.clone(), self.tip);
        self.draft.note_commit(tip);
        self.draft.watch(Box::new(move |draft| keeper.keep_draft(draft, tip).is_ok()));
    }

    /// The branch was moved by another process during the turn: the turn gets a session of its own, and none of it is lost.
    fn published_as_fork(&mut self, meta: Meta, done: Committed) -> Result<Committed, SessionError> {
        let reference = self.sessions.keep(&meta.id, done.commit)?;
        let turn = meta.turns;
        let view = View::new(self.sessions.repo.clone(), meta.id.clone(), done.commit);
        let mut fork = self.sessions.fork_of(&view, &meta, Some(turn)).map_err(|error| {
            SessionError::Refused(format!("the turn was saved as {reference}, but can't continue: {error}"))
        })?;
        self.desk.clear_draft();
        let id = fork.meta.id.clone();
        // Tools hold this draft: their further changes belong to the fork.
        fork.draft = Arc::clone(&self.draft);
        let is_over =
            fork.draft.go_on(fork.sessions.repo.commit(fork.tip)?.tree, &self.changes_made_into(Some(done.commit)))?;
        fork.watch();
        if !is_over {
            fork.draft.tell();
        }
        *self = fork;
        Ok(Committed { forked: Some(id), ..done })
    }
}

pub(super) fn file(batch: &mut Batch<'_>, path: PathBuf, bytes: &[u8]) -> Result<TreeEdit, SessionError> {
    Ok((path, Some((Mode::File, batch.blob_of(bytes)?))))
}

/// A record as text: fields in the order of their names, and one line break at the end.
pub(super) fn json(value: &impl serde::Serialize) -> Vec<u8> {
    let mut bytes = serde_json::to_vec_pretty(value).unwrap_or_default();
    bytes.push(b'\n');
    bytes
}

fn record_of(turn: u64, report: &TurnReport, changes: &[Changed]) -> TurnFile {
    let change = |it: &Changed| ChangeFile {
        path: it.path.display().to_string(),
        mode: it.now.as_ref().map(|(mode, _)| mode.octal().to_owned()),
        now: it.now.as_ref().map(|(_, content)| content.id().to_string()),
    };
    TurnFile {
        v: wire::VERSION,
        turn,
        kind: "ask".into(),
        state: report.state.word().into(),
        time_ms: report.time_ms,
        question: report.question.clone(),
        answer: report.answer.clone(),
        model: report.model.clone(),
        calls: report.calls.iter().map(|it| CallFile { result: both_ends(&it.result), ..it.clone() }).collect(),
        changes: changes.iter().map(change).collect(),
        tokens: report.tokens,
        cost: report.cost.clone(),
        left_out: report.left_out.clone(),
        doubts: report.doubts.clone(),
    }
}

/// A long result without its middle.
fn both_ends(text: &str) -> String {
    if text.len() <= RESULT_BYTES_MAX {
        return text.to_owned();
    }
    let (head, tail) =
        (text.floor_char_boundary(RESULT_BYTES_MAX / 2), text.ceil_char_boundary(text.len() - RESULT_BYTES_MAX / 2));
    format!("{}\n[{} bytes are left out here]\n{}", &text[..head], tail - head, &text[tail..])
}

/// The message of a turn's commit: what was asked, the beginning of the answer, trailers.
fn message_of(meta: &Meta, turn: u64, report: &TurnReport, (files, lines): (usize, Option<[u64; 2]>)) -> String {
    let cut = |line: &str, most: usize| match line.char_indices().nth(most) {
        Some((end, _)) => format!("{}…", line[..end].trim_end()),
        None => line.to_owned(),
    };
    let plain = |text: &str| text.chars().filter(|it| !it.is_control() || *it == '\n').collect::<String>();
    let one_line = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    let question = one_line(&report.question);
    let subject = report.subject.as_deref().map(one_line).filter(|it| !it.is_empty());
    let asks_in_body = subject.is_some() || question.chars().count() >= SUBJECT_CHARS_MAX;
    let subject = match subject.unwrap_or_else(|| question.clone()) {
        empty if empty.is_empty() => format!("turn {turn}"),
        subject => cut(&subject, SUBJECT_CHARS_MAX - 1),
    };
    let some_lines = |text: &str, lines_max: usize| {
        let all: Vec<&str> = text.lines().filter(|line| !line.trim().is_empty()).collect();
        let mut some: Vec<String> = all.iter().take(lines_max).map(|line| cut(line, LINE_CHARS_MAX)).collect();
        some.extend((all.len() > lines_max).then(|| "…".to_owned()));
        if some.is_empty() { String::new() } else { format!("{}\n\n", some.join("\n")) }
    };
    let asked =
        if asks_in_body { some_lines(&format!("Asked: {}", report.question), ASKED_LINES_MAX) } else { String::new() };
    let body = format!("{asked}{}", some_lines(&report.answer, BODY_LINES_MAX));
    let model = report.model.as_deref();
    let mut trailers = trailers(&meta.id, Some(turn), "turn", report.state.word(), model);
    trailers.push_str(&format!("ReedClaw-Files: {files}\n"));
    if let Some([more, less]) = lines {
        trailers.push_str(&format!("ReedClaw-Lines: {more}/{less}\n"));
    }
    let [sent, received] = report.tokens;
    if sent + received > 0 {
        trailers.push_str(&format!("ReedClaw-Tokens: {sent}/{received}\n"));
    }
    if let Some(cost) = &report.cost {
        trailers.push_str(&format!("ReedClaw-Cost: {}\n", names::title(cost)));
    }
    plain(&format!("{subject}\n\n{body}{trailers}"))
}

/// The model that a turn's message names.
fn model_of(message: &str) -> Option<&str> {
    message.lines().rev().take_while(|line| !line.is_empty()).find_map(|line| line.strip_prefix("ReedClaw-Model: "))
}

/// A turn's message with other numbers of files and lines.
pub(super) fn with_numbers(files: usize, lines: Option<[u64; 2]>, message: &str) -> String {
    let new = lines.map(|[more, less]| format!("ReedClaw-Lines: {more}/{less}"));
    let line = |line: &str| match line.split_once(": ") {
        Some(("ReedClaw-Files", _)) => Some(format!("ReedClaw-Files: {files}")),
        Some(("ReedClaw-Lines", _)) => new.clone(),
        _ => Some(line.to_owned()),
    };
    let lines: Vec<String> = message.lines().filter_map(line).collect();
    lines.join("\n") + "\n"
}

/// A commit's message with another first line.
pub(super) fn with_subject(subject: &str, message: &str) -> String {
    format!("{subject}{}", &message[message.find('\n').unwrap_or(message.len())..])
}

pub(super) fn trailers(id: &str, turn: Option<u64>, act: &str, state: &str, model: Option<&str>) -> String {
    let turn = turn.map(|turn| format!("ReedClaw-Turn: {turn}\n")).unwrap_or_default();
    let model = model.map(|model| format!("ReedClaw-Model: {}\n", names::title(model))).unwrap_or_default();
    format!("ReedClaw-Session: {id}\n{turn}ReedClaw-Act: {act}\nReedClaw-State: {state}\n{model}")
}
