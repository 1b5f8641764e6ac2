//! The state of the workspace before and after a call, stored so that undo can revert the call.

use parking_lot::{Mutex, MutexGuard};
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::{Arc, Weak};
use std::thread;
use std::time::Duration;

use crate::agent::person::Person;
use crate::base::text::{counted, is_odd};
use crate::files::Root;
use crate::gate::CHANGED_OUTSIDE;
use crate::proto::Event;
use crate::proto::action::Action;
use crate::proto::tool::{OWN_HEADING, Outcome};
use crate::redact::Redactor;
use crate::sandbox::MadeInHome;
use crate::steps::{Adopted, Before, Incoming, Job, Open, OpenOutside, Record, State, StepReport, Steps, StepsError};
use crate::tools::Jobs;

/// The answer that lets a command run although it can't be reverted.
const RUN: &str = "run it all the same";

/// Names that are reported because a character hides what they are.
const NAMES_MAX: usize = 20;

/// Maximum number of paths in one step of what was set aside.
const SET_ASIDE_AT_ONCE: usize = 1000;

/// Tools that wait for a job: the second one did so before there was the first.
const FOLLOWING: [&str; 2] = ["shell_job", "shell"];

/// Poll interval for the end of a job.
const JOB_LOOK: Duration = Duration::from_millis(50);

/// Steps of the workspace, and the problems that were reported about them.
pub(in crate::agent) struct Keeper {
    steps: Option<Steps>,
    /// True if what calls change can be undone.
    has_undo: bool,
    redactor: Redactor,
    /// The reason why undo doesn't work here, once it has been reported.
    reported: Option<StepsError>,
    has_looked_ahead: bool,
    /// A job that works on the workspace itself.
    watched: Arc<Mutex<Watched>>,
    /// The job whose changes so far were recorded before a call, while that call runs.
    interrupted: Option<String>,
}

/// The state before a call.
pub(in crate::agent) enum Snapshot {
    /// The call's changes aren't stored.
    Nothing,
    /// Everything, before a command.
    Command(Open),
    /// The files of an edit; its writes aren't attributed to a job.
    Edit(Before, Arc<()>),
    /// Nothing: the call asks for the end of a job.
    Job,
}

/// A job that works on the workspace itself. Its changes after its call are recorded at its end: what changes later is the
/// user's.
#[derive(Default)]
struct Watched {
    job: Option<Job>,
    /// True if a thread waits for its end.
    is_watched: bool,
    /// Alive while an edit is being made.
    edit: Weak<()>,
    /// The step of a job that has ended, until it is reported.
    ended: Option<Result<StepReport, StepsError>>,
}

/// Waits for the end of all jobs, and then records their changes.
fn watch(mut steps: Steps, watched: &Mutex<Watched>, jobs: &Jobs) {
    loop {
        thread::park_timeout(JOB_LOOK);
        if jobs.are_working() {
            continue;
        }
        let mut watched = watched.lock();
        // Another job may have begun just now.
        if jobs.are_working() || watched.edit.strong_count() > 0 {
            continue;
        }
        if let Some(job) = watched.job.take() {
            watched.ended = Some(steps.after_job(job));
        }
        watched.is_watched = false;
        return;
    }
}

/// The person was asked and declined.
pub(in crate::agent) struct Refused;

impl Keeper {
    pub(in crate::agent) fn new(steps: Option<Steps>, has_undo: bool) -> Self {
        Self {
            steps,
            has_undo,
            redactor: Redactor::new::<&str, &str>([]),
            reported: None,
            has_looked_ahead: false,
            watched: Arc::default(),
            interrupted: None,
        }
    }

    fn watched(&self) -> MutexGuard<'_, Watched> {
        self.watched.lock()
    }

    /// Says to which run towards a goal the next steps belong.
    pub(in crate::agent) fn work_for(&mut self, run: Option<i64>) {
        if let Some(steps) = &mut self.steps {
            steps.work_for(run);
        }
    }

    /// The paths that steps since a time have changed, relative to the workspace.
    pub(in crate::agent) fn changed_since(&self, time: i64) -> BTreeSet<PathBuf> {
        let records = self.steps.as_ref().map(Steps::list).unwrap_or_default();
        let since = records.into_iter().filter(|record| record.time >= time);
        since.flat_map(|record| record.changes).map(|change| change.path).collect()
    }

    /// The state of each path that steps of a run have changed, as it was before the first of them; or after the last of those
    /// that its person has allowed.
    pub(in crate::agent) fn starts_of(&self, run: i64, allowed: &[u64]) -> BTreeMap<PathBuf, State> {
        let mut states = BTreeMap::new();
        for step in self.steps_of(run) {
            let is_allowed = allowed.contains(&step.number);
            for change in step.changes {
                if is_allowed {
                    states.insert(change.path, change.after);
                } else {
                    states.entry(change.path).or_insert(change.before);
                }
            }
        }
        states
    }

    /// The numbers of a run's steps after one of them.
    pub(in crate::agent) fn steps_after(&self, run: i64, step: u64) -> Vec<u64> {
        self.steps_of(run).map(|it| it.number).filter(|number| *number > step).collect()
    }

    fn steps_of(&self, run: i64) -> impl Iterator<Item = Record> {
        let records = self.steps.as_ref().map(Steps::list).unwrap_or_default();
        records.into_iter().filter(move |it| it.run() == Some(run))
    }

    /// A content that a state names.
    pub(in crate::agent) fn content(&self, state: State) -> Option<Vec<u8>> {
        self.steps.as_ref()?.content(&state.id()?).ok()
    }

    /// Returns the limits of a snapshot of the workspace; `None` if undo is off.
    pub(in crate::agent) fn limits(&self) -> Option<&crate::steps::Limits> {
        self.steps.as_ref().map(Steps::limits)
    }

    /// Takes a snapshot of the workspace in the background, once; a command that comes meanwhile waits for it.
    pub(in crate::agent) fn look_ahead(&mut self) {
        if let Some(Ok(mut steps)) =
            self.steps.as_ref().filter(|_| self.has_undo && !self.has_looked_ahead).map(Steps::again)
        {
            // Problems are reported before a command, the moment at which they matter.
            std::thread::spawn(move || drop(steps.ahead()));
        }
        self.has_looked_ahead = true;
    }

    /// Stores the state that a call may change. If that fails, this is reported, and a person who can be asked decides whether to
    /// continue.
    pub(in crate::agent) fn before(
        &mut self,
        action: &Action,
        root: &Root,
        person: &mut dyn Person,
        sink: &mut dyn FnMut(Event),
    ) -> Result<Snapshot, Refused> {
        let is_looked_at =
            matches!(action, Action::Shell { .. } | Action::External { .. } | Action::Served { may_write: true, .. });
        let job = self.watched().job.take_if(|_| is_looked_at);
        let (held, watched) = (Arc::new(()), Arc::clone(&self.watched));
        let Some(steps) = self.steps.as_mut().filter(|_| self.has_undo) else { return Ok(Snapshot::Nothing) };
        if let Some(job) = job {
            self.interrupted = Some(job.text().to_owned());
            let _ = steps.after_job(job);
        }
        let edit = |steps: &mut Steps, paths: Vec<&String>| {
            let places: Vec<PathBuf> = paths.iter().filter_map(|path| root.resolve(path).ok()).collect();
            let names: Vec<String> = places.iter().map(|path| path.display().to_string()).collect();
            watched.lock().edit = Arc::downgrade(&held);
            steps.before_edit(&names.join(", "), &places).map(|before| Snapshot::Edit(before, held))
        };
        let snapshot = match action {
            Action::Shell { command } => steps.before(&self.redactor.redact(command).text).map(Snapshot::Command),
            Action::External { name } => steps.before(name).map(Snapshot::Command),
            Action::Served { may_write: false, .. } => return Ok(Snapshot::Nothing),
            Action::Served { server, tool, .. } => steps.before(&format!("{server}.{tool}")).map(Snapshot::Command),
            Action::Write { path } | Action::Delete { path } => edit(steps, vec![path]),
            // Applying the changes of a copy makes a step of its own.
            Action::Keep { .. } => return Ok(Snapshot::Nothing),
            Action::Edit { writes, deletes } => edit(steps, writes.iter().chain(deletes).collect()),
            Action::Inert { name } if FOLLOWING.contains(&name.as_str()) => return Ok(Snapshot::Job),
            Action::Read { .. }
            | Action::Open { .. }
            | Action::List { .. }
            | Action::Http { .. }
            | Action::Canvas { .. }
            | Action::Inert { .. } => return Ok(Snapshot::Nothing),
        };
        snapshot.or_else(|error| self.without(error, person, sink))
    }

    /// Records the changes of a job that has ended, at once.
    pub(in crate::agent) fn settle_job(&mut self) {
        let job = self.watched().job.take();
        if let (Some(steps), Some(job)) = (&mut self.steps, job) {
            let ended = steps.after_job(job);
            self.watched().ended = Some(ended);
        }
    }

    /// Records the state of paths outside the workspace that a command may write.
    pub(in crate::agent) fn before_outside(
        &mut self,
        action: &Action,
        paths: &[PathBuf],
        person: &mut dyn Person,
        sink: &mut dyn FnMut(Event),
    ) -> Result<Option<OpenOutside>, Refused> {
        let Some(steps) = self.steps.as_mut().filter(|_| self.has_undo) else { return Ok(None) };
        steps.without_outside();
        let Action::Shell { command } = action else { return Ok(None) };
        if paths.is_empty() {
            return Ok(None);
        }
        match steps.before_outside(&self.redactor.redact(command).text, paths) {
            Ok(open) => Ok(Some(open)),
            Err(error) => self.without(error, person, sink).map(|_| None),
        }
    }

    /// Moves what a command made in its private home to its place. The previous state there is recorded first, as for the paths
    /// in `open`.
    pub(in crate::agent) fn place_in_home(
        &self,
        action: &Action,
        made: &[MadeInHome],
        open: &mut Option<OpenOutside>,
        (outcome, sink): (&mut Outcome, &mut dyn FnMut(Event)),
    ) {
        let Action::Shell { command } = action else { return };
        let mut report = |note: String| {
            outcome.output.push_str(&format!("\n{note}"));
            sink(Event::Notice(note));
        };
        for it in made {
            let place = it.place().display();
            if let Err(error) = it.make_place() {
                report(format!("[what the command made can't be moved to {place}: {error}]"));
                continue;
            }
            let steps = self.steps.as_ref().filter(|_| self.has_undo);
            let text = || self.redactor.redact(command).text;
            match steps.map(|steps| steps.before_outside(&text(), &[it.place().to_owned()])) {
                None => {}
                Some(Ok(before)) => *open = Some(before.after(open.take())),
                Some(Err(error)) => report(format!("[undo can't revert {place}: {error}]")),
            }
            if let Err(error) = it.move_to_place() {
                report(format!("[not all that the command made could be moved to {place}: {error}]"));
            }
            if steps.is_some() && it.place().join(".git").symlink_metadata().is_ok() {
                report(format!("[undo leaves {place}/.git as it is]"));
            }
        }
    }

    /// Compares the outside paths after a command, and adds the changes to the outcome.
    pub(in crate::agent) fn after_outside(
        &mut self,
        open: Option<OpenOutside>,
        outcome: &mut Outcome,
        sink: &mut dyn FnMut(Event),
    ) {
        let Some((steps, open)) = self.steps.as_mut().zip(open) else { return };
        match steps.after_outside(open) {
            Ok((_, paths)) if paths.is_empty() => {}
            Ok((made, paths)) => {
                let names: Vec<String> = paths.iter().map(|path| path.display().to_string()).collect();
                outcome.metadata.insert(CHANGED_OUTSIDE.into(), names.join(", ").into());
                note_step(outcome, &made, sink);
            }
            Err(error) => sink(Event::Notice(format!("[undo] what this changed can't be undone: {error}"))),
        }
    }

    /// Stores the state of paths of the workspace as a step while `restore` writes other contents there, even if undo is off: the
    /// user's own work may be among it.
    pub(in crate::agent) fn set_aside(
        &mut self,
        paths: &[PathBuf],
        restore: &mut dyn FnMut(),
    ) -> Result<(), StepsError> {
        const TEXT: &str = "files that other programs run, restored";
        let mut steps = self.steps.as_mut();
        let mut part = |paths| steps.as_mut().map(|steps| steps.before_edit(TEXT, paths));
        let open: Vec<_> = paths.chunks(SET_ASIDE_AT_ONCE).filter_map(&mut part).collect();
        restore();
        let Some(steps) = &mut self.steps else { return Ok(()) };
        open.into_iter().try_for_each(|before| steps.after_edit(before?).map(drop))
    }

    /// Returns whether changes by calls can be reverted.
    pub(in crate::agent) fn has_undo(&self) -> bool {
        self.has_undo && self.steps.is_some()
    }

    /// Continues without undo, unless the person objects.
    fn without(
        &mut self,
        error: StepsError,
        person: &mut dyn Person,
        sink: &mut dyn FnMut(Event),
    ) -> Result<Snapshot, Refused> {
        if self.reported.as_ref() == Some(&error) {
            return Ok(Snapshot::Nothing);
        }
        let is_lasting = matches!(error, StepsError::TooMany(_) | StepsError::Slow(_));
        let message = format!("[undo] its changes can't be undone: {error}");
        if is_lasting {
            sink(Event::Notice(message + "; this notice appears once"));
            self.reported = Some(error);
            return Ok(Snapshot::Nothing);
        }
        if !person.can_ask() {
            sink(Event::Notice(message));
            return Ok(Snapshot::Nothing);
        }
        let choices = [RUN.to_owned(), "don't".to_owned()];
        let question = format!("The changes of this call can't be undone: {error}. Run it?");
        match person.reply_to(OWN_HEADING, &question, &choices) {
            Some(answer) if answer == RUN => Ok(Snapshot::Nothing),
            _ => Err(Refused),
        }
    }

    /// Applies the changes that a command made on its copy.
    pub(in crate::agent) fn adopt(&mut self, command: &str, incoming: Vec<Incoming>) -> Result<Adopted, StepsError> {
        let unavailable = || StepsError::Nothing("there is no place for the journal of changes".to_owned());
        let steps = self.steps.as_mut().ok_or_else(unavailable)?;
        steps.adopt(&self.redactor.redact(command).text, incoming, self.has_undo)
    }

    /// Finds the actual changes, and adds a line about them to the outcome. `jobs` shows whether a job still runs.
    pub(in crate::agent) fn after(
        &mut self,
        snapshot: Snapshot,
        jobs: Option<&Jobs>,
        outcome: &mut Outcome,
        sink: &mut dyn FnMut(Event),
    ) {
        let Some(steps) = &mut self.steps else { return };
        // This comes before the snapshot: a job that ends after it has changes that the snapshot doesn't include.
        let has_jobs = jobs.is_some_and(Jobs::are_working);
        let begun = if let Snapshot::Command(open) = &snapshot { Some(open.text().to_owned()) } else { None };
        let is_follow = matches!(snapshot, Snapshot::Job);
        let made = match snapshot {
            Snapshot::Nothing | Snapshot::Job => Ok(StepReport::default()),
            // A failed edit changed nothing: differences belong to another session.
            Snapshot::Edit(before, _held) if !outcome.success => {
                steps.without_edit(before);
                Ok(StepReport::default())
            }
            Snapshot::Command(open) => steps.after(open),
            Snapshot::Edit(before, _held) => steps.after_edit(before),
        };
        let mut watched = self.watched.lock();
        let ended = watched.job.take_if(|_| !has_jobs).map(|job| steps.after_job(job));
        // The model learns of a step when it asks for the job.
        let ended = ended.or_else(|| watched.ended.take_if(|ended| is_follow || ended.is_err()));
        let name = named(self.interrupted.take(), begun, outcome);
        if let Some(text) = name.filter(|_| has_jobs) {
            watched.job = Some(steps.job(&text));
            if !watched.is_watched
                && let Some((jobs, Ok(again))) = jobs.cloned().zip(Some(steps.again()))
            {
                let shared = Arc::clone(&self.watched);
                let thread = thread::Builder::new().name("job-end".into());
                watched.is_watched = thread.spawn(move || watch(again, &shared, &jobs)).is_ok();
            }
        }
        drop(watched);
        for made in [Some(made), ended].into_iter().flatten() {
            match made {
                Ok(made) => note_step(outcome, &made, sink),
                Err(error) => sink(Event::Notice(format!("[undo] its changes can't be undone: {error}"))),
            }
        }
    }
}

impl Drop for Keeper {
    /// The jobs end with the tools, which are gone at this point.
    fn drop(&mut self) {
        let job = self.watched().job.take();
        if let (Some(steps), Some(job)) = (&mut self.steps, job) {
            let _ = steps.after_job(job);
        }
    }
}

/// Returns the name of what still runs after a call: earlier jobs, and the call's own command if it has become one.
fn named(before: Option<String>, begun: Option<String>, outcome: &Outcome) -> Option<String> {
    match (before, begun) {
        (Some(before), Some(begun)) if outcome.metadata.contains_key("job") => Some(format!("{before} · {begun}")),
        (before, begun) => before.or(begun),
    }
}

/// Says in an outcome which step it became.
pub(in crate::agent) fn note_step(outcome: &mut Outcome, made: &StepReport, sink: &mut dyn FnMut(Event)) {
    let StepReport { step: Some(step), files, lost, ref there, pruned } = *made else { return };
    // In a copy, files with such names aren't applied.
    let odd = there.iter().map(|path| path.to_string_lossy()).filter(|path| path.contains(is_odd));
    let odd: Vec<String> = odd.take(NAMES_MAX).map(|path| path.escape_debug().to_string()).collect();
    if !odd.is_empty() {
        let note = format!("[names that hide something were made, with the characters shown here: {}]", odd.join(", "));
        outcome.output.push_str(&format!("\n{note}"));
        sink(Event::Notice(note));
    }
    // The changes of one command may make two steps, since protected files get a step of their own.
    let before = |outcome: &Outcome, name: &str| outcome.metadata.get(name).and_then(serde_json::Value::as_u64);
    let files = before(outcome, "files_changed").unwrap_or(0) + files as u64;
    outcome.metadata.insert("step".into(), step.into());
    outcome.metadata.insert("files_changed".into(), files.into());
    if lost > 0 {
        outcome.metadata.insert("files_not_kept".into(), lost.into());
    }
    if pruned > 0 {
        let steps = counted(pruned, "step");
        sink(Event::Notice(format!("[undo] the oldest {steps} made room (undo.bytes_max)")));
    }
}

/// A line about the call's changes, if there are any; `undo` is the command that reverts them here.
#[must_use]
pub fn changed_line(outcome: &Outcome, undo: &str) -> Option<String> {
    let number = |name: &str| outcome.metadata.get(name).and_then(serde_json::Value::as_u64);
    let files = usize::try_from(number("step").and(number("files_changed"))?).ok()?;
    let lost = number("files_not_kept").and_then(|lost| usize::try_from(lost).ok()).unwrap_or(0);
    Some(changed_words(files, lost, undo))
}

/// Describes how many files changed, and how to revert that.
#[must_use]
pub fn changed_words(files: usize, lost: usize, undo: &str) -> String {
    let what = if files == 0 { "directories only".to_owned() } else { counted(files, "file") };
    let lost = if lost == 0 { String::new() } else { format!(", not for {lost} of them") };
    format!("changed {what} · {undo}{lost}")
}
