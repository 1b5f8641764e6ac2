//! `/goal`: runs towards goals in an editor. The session works on a run as on a prompt: the tasks are the client's plan, calls
//! are shown as usual, and the person is asked about the plan and about every halt. It must not know how a run works.

use std::path::PathBuf;
use std::sync::Arc;

use serde_json::Value;

use super::{ROWS_MAX, block, fenced};
use crate::acp::wire::plan;
use crate::agent::Cancel;
use crate::agent::goal::{Journal, Watcher};
use crate::app::{
    ChannelKind, Request, RunWatcher, Runtime, StoredJournal, Wanted, effect_line, find_run, go_lines, goal_of,
    run_report, run_rows, steps_of_run, work_on_run,
};
use crate::gate::Ceiling;
use crate::norris::{Effect, End, Event, Goal, Halt, Run, TaskState};
use crate::ops::steps::undo_run;
use crate::proto::action::Autonomy;
use crate::proto::{self, Failure};
use crate::render::text::escape_visible;

/// Lines of a halted call's preview.
const PREVIEW_LINES_MAX: usize = 200;

/// The client and its person, during the prompt in which a run works.
pub(in crate::acp) trait Desk {
    /// Sends an update.
    fn update(&self, update: &Value);

    /// Shows a line beside the answer.
    fn notice(&self, text: &str, severity: &str);

    /// Shows an event of a question.
    fn show(&self, event: proto::Event);

    /// Asks the person; `None` if they answer neither yes nor no.
    fn decides(&self, title: &str, text: &str, yes: &str) -> Option<bool>;

    /// Stops the prompt.
    fn cancel(&self) -> &Cancel;

    /// The workspace of the session.
    fn workspace(&self) -> PathBuf;
}

/// The place of a run's work: a prompt of a session.
pub(in crate::acp) struct Here<'a> {
    pub(in crate::acp) desk: &'a dyn Desk,
    /// The mode of the session.
    pub(in crate::acp) ceiling: &'a Ceiling,
}

/// Begins a run, or carries out the subcommand; returns the answer.
pub(in crate::acp) fn carry_out(runtime: &mut Runtime, words: &str, here: &Here<'_>) -> Result<String, Failure> {
    let (word, rest) = words.split_once(char::is_whitespace).unwrap_or((words, ""));
    let id: Option<i64> = rest.trim().parse().ok();
    // A goal may begin with the same word.
    let is_command = rest.trim().is_empty() || id.is_some();
    let run = |runtime: &Runtime| find_run(runtime.store(), id);
    match word {
        "" => report(runtime, &run(runtime)?),
        "list" if rest.is_empty() => {
            let rows = run_rows(runtime.store(), runtime.env(), ROWS_MAX)?;
            Ok(if rows.is_empty() { "There is no run yet; /goal GOAL begins one.".into() } else { block(&rows) })
        }
        "show" | "report" if is_command => report(runtime, &run(runtime)?),
        "stop" if is_command => stop(runtime, &run(runtime)?),
        "undo" if is_command => undo(runtime, &run(runtime)?),
        "resume" | "answer" if is_command => {
            let journal = run(runtime)?;
            if journal.state()?.end.is_some() {
                let message = format!("run {} has ended", journal.run());
                return Err(Failure::user(message).hint("/goal show"));
            }
            match here.answered(&journal)? {
                Some(wanted) => work(runtime, wanted, here),
                None => report(runtime, &journal),
            }
        }
        _ => {
            let goal = goal_of(runtime.settings(), words, &here.desk.workspace())?;
            let current = runtime.agent().current_model().unwrap_or_default().to_owned();
            let executor = if goal.executor.is_empty() { current } else { goal.executor };
            work(runtime, Wanted::New(Box::new(Goal { asks_go: true, executor, ..goal })), here)
        }
    }
}

/// Works until the run ends, or needs a person who isn't available.
fn work(runtime: &mut Runtime, mut wanted: Wanted, here: &Here<'_>) -> Result<String, Failure> {
    loop {
        let request = Request {
            config: runtime.config().request.explicit.clone(),
            channel: ChannelKind::Acp,
            cwd: Some(runtime.cwd().to_owned()),
            store: Some(Arc::clone(runtime.store())),
            readable: runtime.readable().to_vec(),
            ..Request::default()
        };
        let mut seen = Seen { here, own: None, shown: Vec::new(), doing: String::new() };
        let journal = work_on_run(&request, wanted, &mut seen, here.desk.cancel())?;
        let run = journal.state()?;
        seen.tell_plan(&run, None);
        let next = if run.awaits_go() || run.is_waiting() { here.answered(&journal)? } else { None };
        match next {
            Some(again) => wanted = again,
            None => return report(runtime, &journal),
        }
    }
}

impl Here<'_> {
    /// Asks the person about the cause of a halt; returns the run if it continues.
    fn answered(&self, journal: &StoredJournal) -> Result<Option<Wanted>, Failure> {
        let run = journal.state()?;
        let stopped = || Event::Ended { end: End::Stopped.word().into(), why: String::new() };
        let events = if run.awaits_go() {
            let text = fenced(&go_lines(&run).join("\n"), "");
            match self.desk.decides("Begin to work?", &text, "Begin") {
                Some(true) => vec![Event::Go { checks: run.proposed.clone() }],
                Some(false) => vec![Event::StopAsked, stopped()],
                None => return Ok(None),
            }
        } else if let Some((halt, _)) = run.halt.as_ref().filter(|_| run.is_waiting()) {
            let digest = halt.digest.clone();
            match self.desk.decides(&escape_visible(&halt.intent), &halt_text(halt), "Allow once") {
                Some(true) => vec![Event::Approved { digest }],
                Some(false) => vec![Event::Denied { digest, why: String::new() }],
                None => return Ok(None),
            }
        } else {
            Vec::new()
        };
        let is_end = events.iter().any(|event| matches!(event, Event::Ended { .. }));
        events.iter().try_for_each(|event| journal.add(event))?;
        Ok((!is_end).then(|| Wanted::Stored(journal.run())))
    }
}

/// The call that halted a run, for its person.
fn halt_text(halt: &Halt) -> String {
    let mut lines = vec![format!("{} ({} risk)", halt.intent, halt.risk)];
    lines.extend(halt.reasons.iter().map(|reason| format!("- {reason}")));
    lines.extend(halt.preview.lines().take(PREVIEW_LINES_MAX).map(|line| format!("| {line}")));
    let more = halt.preview.lines().count().saturating_sub(PREVIEW_LINES_MAX);
    lines.extend((more > 0).then(|| format!("| and {more} more lines")));
    fenced(&lines.join("\n"), "")
}

fn report(runtime: &Runtime, journal: &StoredJournal) -> Result<String, Failure> {
    let run = journal.state()?;
    let goal = run.goal.clone().unwrap_or_default();
    let steps = steps_of_run(runtime.settings(), runtime.env(), &goal, journal.run());
    let mut lines = run_report(journal, &steps, runtime.env())?;
    if run.end.is_none() && !run.is_active() {
        lines.push(format!("/goal resume {} continues it", journal.run()));
    }
    Ok(fenced(&lines.join("\n"), ""))
}

fn stop(runtime: &Runtime, journal: &StoredJournal) -> Result<String, Failure> {
    let is_at_rest = !journal.state()?.is_active();
    journal.add(&Event::StopAsked)?;
    if is_at_rest {
        journal.add(&Event::Ended { end: End::Stopped.word().into(), why: String::new() })?;
    }
    report(runtime, journal)
}

fn undo(runtime: &Runtime, journal: &StoredJournal) -> Result<String, Failure> {
    let done = undo_run(runtime, journal, false, "reedclaw ").map_err(|refusal| refusal.failure)?;
    Ok(fenced(&done.join("\n"), ""))
}

/// Shows a run to the client.
struct Seen<'a> {
    here: &'a Here<'a>,
    /// The ceiling of the run, which the session's mode lowers.
    own: Option<Ceiling>,
    /// The plan, as the client has it.
    shown: Vec<(String, &'static str)>,
    doing: String,
}

impl Seen<'_> {
    /// Sends the tasks of a run if they differ from those that the client shows. `at` is the current task.
    fn tell_plan(&mut self, run: &Run, at: Option<usize>) {
        let tasks = tasks_of(run, at);
        if tasks != self.shown {
            self.here.desk.update(&plan(&tasks));
            self.shown = tasks;
        }
    }
}

/// The tasks of a run that count, each with its state.
fn tasks_of(run: &Run, at: Option<usize>) -> Vec<(String, &'static str)> {
    let counts = run.tasks.iter().enumerate().filter(|(_, task)| task.state != TaskState::Dropped);
    let state = |number: usize, state: TaskState| match state {
        TaskState::Open if at == Some(number) => "in_progress",
        TaskState::Open => "pending",
        _ => "completed",
    };
    counts.map(|(number, task)| (escape_visible(&task.text), state(number, task.state))).collect()
}

impl RunWatcher for Seen<'_> {
    fn stored(&mut self, runtime: &Runtime, _: &StoredJournal, problems: Vec<Failure>) {
        self.own = Some(runtime.ceiling().clone());
        problems.into_iter().for_each(|problem| self.here.desk.notice(&problem.message, "warning"));
    }

    fn news(&mut self, line: String) {
        self.here.desk.notice(&line, "warning");
    }
}

impl Watcher for Seen<'_> {
    fn begins(&mut self, run: &Run, effect: &Effect) {
        if let Some(own) = &self.own {
            own.set(self.here.ceiling.lowered(Autonomy::Full));
        }
        let at = if let Effect::Work { task, .. } = effect { Some(*task) } else { None };
        self.tell_plan(run, at);
        if let Some(line) = effect_line(run, effect).filter(|line| *line != self.doing) {
            self.here.desk.notice(&line, "info");
            self.doing = line;
        }
    }

    fn event(&mut self, event: proto::Event) {
        if let Some(own) = &self.own {
            // A mode counts at once; while the run plans, it is lower already.
            own.set(self.here.ceiling.lowered(own.lowered(Autonomy::Full)));
        }
        match event {
            // An executor's words are a claim; the answer is the report.
            proto::Event::Text(text) => self.here.desk.show(proto::Event::Thought(text)),
            proto::Event::Failed { failure, .. } => self.here.desk.notice(&failure.message, "warning"),
            proto::Event::Answered { .. } | proto::Event::Cancelled { .. } => {}
            event => self.here.desk.show(event),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::norris::Task;

    #[test]
    fn a_plan_has_the_tasks_that_count_with_their_states() {
        let task = |text: &str, state| Task { text: text.into(), state, attempts: 0, last_words: String::new() };
        let mut run = Run::of([]);
        run.tasks = vec![
            task("old", TaskState::Dropped),
            task("claimed", TaskState::Claimed),
            task("checked", TaskState::Checked),
            task("now\u{1b}[2J", TaskState::Open),
            task("later", TaskState::Open),
        ];
        let states: Vec<&str> = tasks_of(&run, Some(3)).into_iter().map(|(_, state)| state).collect();
        assert_eq!(states, ["completed", "completed", "in_progress", "pending"]);
        assert_eq!(tasks_of(&run, None)[2].1, "pending", "a run that rests has no task at hand");
        assert!(!tasks_of(&run, None)[2].0.contains('\u{1b}'), "a client may be a terminal");
    }
}
