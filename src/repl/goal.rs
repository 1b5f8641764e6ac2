//! `:norris`: runs towards goals at the prompt. A run works on a thread of its own; here it is watched, steered and answered.
//! It must not know how a run works.

use std::sync::Arc;
use std::time::{Duration, Instant};

use nu_ansi_term::Style;

use super::hub::{Flow, Repl};
use crate::agent::goal::Journal;
use crate::app::{
    Background, Progress, Request, StoredJournal, Wanted, find_run, go_lines, goal_of, run_report, run_rows,
    state_word, steps_of_run, workspace_dir, workspace_for,
};
use crate::ask::rewrite;
use crate::norris::{End, Event, Goal, Halt, Limits, NOTE_BYTES_MAX, Run, TaskState, tasks};
use crate::ops::commands::nearest_goal_word;
use crate::ops::steps::undo_run;
use crate::proto::tool::FileChange;
use crate::proto::{Failure, FailureKind};
use crate::render::text::{ellipsis, escape_visible, table, width};
use crate::shell;
use crate::shell::session::KeysTo;

/// Runs that a list shows.
const LISTED_MAX: usize = 20;
/// Interval at which the line of a watched run is drawn again.
const DRAWN_EVERY: Duration = Duration::from_millis(250);
/// The longest wait for the pump to say that keys come here.
const CONFIRMED_WITHIN: Duration = Duration::from_secs(1);
/// Two Ctrl-C within this time end a run.
const TWICE: Duration = Duration::from_secs(2);
/// Lines of a halted call's preview.
const PREVIEW_LINES_MAX: usize = 40;
/// The keys while a run is watched.
const KEYS: &str = "keys: pause [p, Ctrl-C]  say [s]  details [d]  background [b]";

/// Reason why a run isn't watched any more.
enum Watched {
    /// No longer works.
    Rests,
    /// Continues in the background.
    Left,
}

/// The person's answer to a question of a run.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Choice {
    Yes,
    No,
    Later,
    Edit,
}

impl Repl {
    /// Begins a run, or carries out the subcommand.
    pub(super) fn norris(&mut self, argument: &str) -> Flow {
        let argument = argument.trim();
        let (word, rest) = argument.split_once(char::is_whitespace).unwrap_or((argument, ""));
        let rest = rest.trim();
        let id: Option<i64> = rest.parse().ok();
        // A goal may begin with the same word.
        let is_command = rest.is_empty() || id.is_some();
        let meant = nearest_goal_word(word).filter(|_| is_command);
        let done = match word {
            "" => return self.watch_or_show(),
            "list" if rest.is_empty() => self.list_runs(),
            "watch" if rest.is_empty() || id.is_some() && id == self.running_run() => return self.watch_or_show(),
            "show" | "report" | "watch" if is_command => self.show_run(id),
            "say" => self.say_to_run(rest),
            // A goal has more than one word.
            "budget" if rest.contains('=') || !rest.contains(char::is_whitespace) => self.raise_budget(rest),
            "undo" if is_command || rest.ends_with("--force") => self.undo_run(rest),
            "pause" if is_command => self.pause_run(id),
            "stop" if is_command => self.stop_run(id),
            "resume" | "answer" if is_command => match self.stored_run(id) {
                Ok(journal) => return self.go_on_with(&journal),
                Err(failure) => Err(failure),
            },
            // An approval applies to a call that was shown, so the question is put first; a denial needs no look.
            "approve" | "deny" => match (self.waiting_run(rest), word) {
                (Some((journal, _)), "approve") => return self.go_on_with(&journal),
                (Some((journal, why)), _) => return self.refuse(&journal, &why),
                // A number names a run, and an answer that comes too late is no goal.
                (None, _) if is_command || names_run(rest) => {
                    Err(Failure::user(format!("no such run waits: {argument}")).hint(":norris list shows the runs"))
                }
                _ => return self.begin_run(argument),
            },
            _ => match meant {
                Some(meant) => Err(Failure::user(format!("no run was started: {word} looks like a misspelt command"))
                    .hint(format!("did you mean :norris {meant}? If it is a goal, say it in more words"))),
                None => return self.begin_run(argument),
            },
        };
        if let Err(failure) = done {
            self.console.failure(&failure);
        }
        Flow::Continue
    }

    fn begin_run(&mut self, text: &str) -> Flow {
        let cwd = super::editing::state::read(&self.state).cwd.clone();
        let (settings, env) = (self.runtime.settings(), self.runtime.env());
        let workspace = workspace_for(env, &cwd, &workspace_dir(settings, env));
        let goal = goal_of(settings, text, &workspace).map(|goal| {
            let current = self.runtime.agent().current_model().unwrap_or_default().to_owned();
            let executor = if goal.executor.is_empty() { current } else { goal.executor };
            Goal { asks_go: true, executor, ..goal }
        });
        match goal {
            Ok(goal) => {
                if self.runtime.on_git().is_some() {
                    self.console.notice(
                        "the run works on your checkout, not on the session that is on; reedclaw norris --session ID works on a session that is closed",
                    );
                }
                self.work_on(Wanted::New(Box::new(goal)))
            }
            Err(failure) => {
                self.console.failure(&failure);
                Flow::Continue
            }
        }
    }

    /// Lets a run work, and watches it until it ends or its person leaves it.
    fn work_on(&mut self, wanted: Wanted) -> Flow {
        if let Some(running) = self.terminal.goals.running.as_ref().filter(|it| !it.is_over()) {
            let which = running.run().map_or_else(|| "a run".to_owned(), |run| format!("run {run}"));
            let message = format!("{which} works already");
            self.console.failure(&Failure::user(message).hint(":norris watches it, :norris stop ends it"));
            return Flow::Continue;
        }
        let pump = self.terminal.session.handle();
        let request = Request {
            config: self.runtime.config().request.explicit.clone(),
            cwd: Some(super::editing::state::read(&self.state).cwd.clone()),
            store: Some(Arc::clone(self.runtime.store())),
            ..Request::default()
        };
        match Background::start(request, wanted, Box::new(move || pump.nudge())) {
            Ok(running) => {
                self.terminal.goals.running = Some(running);
                self.watch_run()
            }
            Err(failure) => {
                self.console.failure(&failure);
                Flow::Continue
            }
        }
    }

    fn watch_or_show(&mut self) -> Flow {
        if self.terminal.goals.running.is_some() {
            return self.watch_run();
        }
        if let Err(failure) = self.show_run(None) {
            self.console.failure(&failure);
        }
        Flow::Continue
    }

    /// Shows the run's work until it rests, and then asks the question that it waits for.
    fn watch_run(&mut self) -> Flow {
        self.take_keys();
        let watched = self.watch_keys();
        self.terminal.session.keys_to(KeysTo::Hold);
        match watched {
            Ok(Watched::Left) => {
                self.console.notice("it continues in the background; :norris watches it again");
                Flow::Continue
            }
            Ok(Watched::Rests) => self.take_rested(),
            Err(flow) => flow,
        }
    }

    /// Sends keys to the watched run. Once the pump has confirmed that, the run's line may be drawn.
    fn take_keys(&mut self) {
        self.terminal.session.keys_to(KeysTo::Question);
        self.terminal.session.handle().nudge();
        while let Some(event) = self.terminal.session.next_event_within(CONFIRMED_WITHIN) {
            if matches!(event, shell::Event::Nudged) {
                return;
            }
            self.terminal.deferred.push_back(event);
        }
    }

    fn watch_keys(&mut self) -> Result<Watched, Flow> {
        self.terminal.goals.interrupted_at = None;
        let (mut is_drawn, mut has_keys) = (false, false);
        loop {
            let Some(running) = &self.terminal.goals.running else { return Ok(Watched::Rests) };
            let progress = running.progress();
            if progress.run.is_some() && !std::mem::replace(&mut has_keys, true) {
                self.terminal.goals.last = progress.run;
                self.wipe(&mut is_drawn);
                self.console.notice(KEYS);
            }
            self.draw_run(&progress, &mut is_drawn);
            if progress.is_over {
                self.wipe(&mut is_drawn);
                return Ok(Watched::Rests);
            }
            match self.terminal.session.next_event_within(DRAWN_EVERY) {
                None | Some(shell::Event::Nudged) => {}
                Some(shell::Event::Cancel) => self.interrupt_run(),
                Some(shell::Event::Keys(keys, _)) if keys.contains(&3) => self.interrupt_run(),
                Some(shell::Event::Keys(keys, _)) => match keys.as_slice() {
                    b"p" => self.add_to_run(&Event::Paused { why: "its person paused it".into() }),
                    // Before it is stored there is nothing to show.
                    b"d" | b"s" if progress.run.is_none() => {}
                    b"b" => {
                        self.wipe(&mut is_drawn);
                        return Ok(Watched::Left);
                    }
                    b"d" => {
                        self.wipe(&mut is_drawn);
                        if let Err(failure) = self.show_run(progress.run) {
                            self.console.failure(&failure);
                        }
                    }
                    b"s" => {
                        self.wipe(&mut is_drawn);
                        self.say_by_keys()?;
                        self.take_keys();
                    }
                    _ => {}
                },
                Some(event) => {
                    let is_end = matches!(event, shell::Event::Hangup | shell::Event::Ended(_));
                    self.terminal.deferred.push_back(event);
                    if is_end {
                        return Ok(Watched::Left);
                    }
                }
            }
        }
    }

    /// The first Ctrl-C pauses a run, a second one ends it.
    fn interrupt_run(&mut self) {
        if self.is_second_interrupt() {
            self.add_to_run(&Event::StopAsked);
            return;
        }
        self.terminal.goals.interrupted_at = Some(Instant::now());
        if let Some(running) = &self.terminal.goals.running {
            running.interrupt();
        }
    }

    fn is_second_interrupt(&self) -> bool {
        self.terminal.goals.interrupted_at.is_some_and(|at| at.elapsed() < TWICE)
    }

    /// Ends the run that a Ctrl-C paused, if this one at the prompt comes soon after it.
    pub(super) fn interrupted_again(&mut self) {
        if self.is_second_interrupt()
            && self.terminal.goals.running.is_none()
            && let Err(failure) = self.stop_run(None)
        {
            self.console.failure(&failure);
        }
        self.terminal.goals.interrupted_at = None;
    }

    fn say_by_keys(&mut self) -> Result<(), Flow> {
        use crate::ask::Asking;
        if let Some(note) = self.terminal.write_line("say: ", "")?
            && let Err(failure) = self.say_to_run(note.trim())
        {
            self.console.failure(&failure);
        }
        Ok(())
    }

    fn add_to_run(&self, event: &Event) {
        let Some(run) = self.running_run() else { return };
        if let Err(failure) = self.stored_run(Some(run)).and_then(|it| it.add(event)) {
            self.console.failure(&failure);
        }
    }

    /// Writes the news, and below them the line with the present activity.
    fn draw_run(&self, progress: &Progress, is_drawn: &mut bool) {
        if !progress.news.is_empty() {
            self.wipe(is_drawn);
        }
        for line in &progress.news {
            self.console.line(&escape_visible(line));
        }
        let options = self.console.options();
        if options.accessible || progress.is_over {
            return;
        }
        let sign = if options.unicode { "⚡" } else { "*" };
        let now_ms = progress.since.map_or(0, |since| u64::try_from(since.elapsed().as_millis()).unwrap_or(0));
        let seconds = progress.active_ms.saturating_add(now_ms) / 1000;
        let dot = if options.unicode { "·" } else { "-" };
        let used = format!(" {dot} {:02}:{:02} {dot} ${:.3}", seconds / 60, seconds % 60, progress.usd);
        let mut parts = vec![progress.doing.clone(), progress.call.clone()];
        parts.retain(|part| !part.is_empty());
        let doing = format!("{sign} {}", escape_visible(&parts.join(&format!(" {dot} "))));
        let columns = self.console.width_columns().saturating_sub(3);
        // Time and cost stay visible however long the task is.
        let doing = ellipsis(&doing, columns.saturating_sub(width(&used)));
        let text = if options.unicode { doing } else { doing.replace('…', "~") } + &used;
        let painted = self.console.paint(Style::new().dimmed(), &text);
        self.console.raw(format!("\r{painted}\x1b[K").as_bytes());
        *is_drawn = true;
    }

    fn wipe(&self, is_drawn: &mut bool) {
        if std::mem::take(is_drawn) {
            self.console.raw(b"\r\x1b[K");
        }
    }

    /// Handles the end of the run's work: shows the reason, and asks the question that the run waits for.
    fn take_rested(&mut self) -> Flow {
        let Some(mut running) = self.terminal.goals.running.take() else { return Flow::Continue };
        // From here on the person sees that it is paused.
        self.terminal.goals.interrupted_at = self.terminal.goals.interrupted_at.map(|_| Instant::now());
        running.join();
        if let Some(failure) = running.progress().failure {
            self.console.failure(&failure);
        }
        let Some(run) = running.run() else { return Flow::Continue };
        self.terminal.goals.last = Some(run);
        let journal = match self.stored_run(Some(run)) {
            Ok(journal) => journal,
            Err(failure) => {
                self.console.failure(&failure);
                return Flow::Continue;
            }
        };
        drop(running);
        match journal.state() {
            Ok(run) if run.awaits_go() || run.is_waiting() => self.go_on_with(&journal),
            Ok(_) => {
                if let Err(failure) = self.show_run(Some(journal.run())) {
                    self.console.failure(&failure);
                }
                Flow::Continue
            }
            Err(failure) => {
                self.console.failure(&failure);
                Flow::Continue
            }
        }
    }

    /// Lets a run continue, after asking its person the question that it waits for.
    fn go_on_with(&mut self, journal: &StoredJournal) -> Flow {
        if self.running_run() == Some(journal.run()) {
            return self.watch_run();
        }
        let run = match journal.state() {
            Ok(run) => run,
            Err(failure) => {
                self.console.failure(&failure);
                return Flow::Continue;
            }
        };
        if run.end.is_some() {
            let message = format!("run {} has ended: {}", journal.run(), run.word());
            self.console.failure(&Failure::user(message).hint(":norris show prints its report"));
            return Flow::Continue;
        }
        let events = if run.awaits_go() {
            self.ask_about_plan(&run)
        } else if let Some((halt, _)) = run.halt.as_ref().filter(|_| run.is_waiting()) {
            self.ask_about_halt(halt)
        } else {
            Ok(Some(Vec::new()))
        };
        match events {
            Ok(Some(events)) => self.go_on_after(journal, &run, &events),
            Ok(None) => {
                self.console.notice(&format!("run {} waits; :norris answer {0} puts it again", journal.run()));
                Flow::Continue
            }
            Err(flow) => flow,
        }
    }

    /// Refuses the call that a run waits for, and lets the run continue without it.
    fn refuse(&mut self, journal: &StoredJournal, why: &str) -> Flow {
        let run = match journal.state() {
            Ok(_) if why.len() > NOTE_BYTES_MAX => {
                Err(Failure::user(format!("a reason has at most {NOTE_BYTES_MAX} bytes"))
                    .hint(":norris deny [N] [REASON]"))
            }
            state => state,
        };
        match run {
            Ok(run) => {
                let events = match run.halt.as_ref().filter(|_| run.is_waiting()) {
                    Some((halt, _)) => {
                        self.console.notice(&escape_visible(&format!("refused: {}", halt.intent)));
                        vec![Event::Denied { digest: halt.digest.clone(), why: why.to_owned() }]
                    }
                    None => refused_plan(),
                };
                self.go_on_after(journal, &run, &events)
            }
            Err(failure) => {
                self.console.failure(&failure);
                Flow::Continue
            }
        }
    }

    /// Stores a person's decision, and lets the run continue unless the decision ended it.
    fn go_on_after(&mut self, journal: &StoredJournal, run: &Run, events: &[Event]) -> Flow {
        let is_end = events.iter().any(|event| matches!(event, Event::Ended { .. }));
        let is_go = events.iter().any(|event| matches!(event, Event::Go { .. }));
        if let Some(failure) = events.iter().find_map(|event| journal.add(event).err()) {
            self.console.failure(&failure);
            return Flow::Continue;
        }
        if is_end {
            self.console.notice(&format!("run {} is stopped; nothing was changed", journal.run()));
            return Flow::Continue;
        }
        if run.awaits_go() && !is_go {
            // The plan was edited, so it is shown again.
            return self.go_on_with(journal);
        }
        self.work_on(Wanted::Stored(journal.run()))
    }

    /// Shows plan, checks, grant and budget, and asks whether the work may begin.
    fn ask_about_plan(&mut self, run: &Run) -> Result<Option<Vec<Event>>, Flow> {
        let lines = go_lines(run);
        lines.iter().for_each(|line| self.console.line(&escape_visible(line)));
        Ok(match self.choose("go [g]  edit [e]  no [n, Enter]  later [l]", b'g', "go")? {
            Choice::Yes => Some(vec![Event::Go { checks: run.proposed.clone() }]),
            Choice::No => Some(refused_plan()),
            Choice::Later => None,
            Choice::Edit => Some(self.edit_plan(run)?.map(|text| Event::Planned { text }).into_iter().collect()),
        })
    }

    /// Asks by keys, of which `yes_key` means yes, and shows the answer; `e` is an answer only if the question offers
    /// it.
    fn choose(&mut self, offered: &str, yes_key: u8, yes: &str) -> Result<Choice, Flow> {
        let may_edit = offered.contains("[e]");
        let choice = |keys: &[u8]| match keys {
            [key] if key.eq_ignore_ascii_case(&yes_key) => Some(Choice::Yes),
            b"e" | b"E" if may_edit => Some(Choice::Edit),
            b"n" | b"N" | b"\r" | b"\n" | b"\x1b" => Some(Choice::No),
            b"l" | b"L" | b"\x03" => Some(Choice::Later),
            _ => None,
        };
        let choice = self.put_question(offered, choice, Choice::Later)?;
        self.console.line(match choice {
            Choice::Yes => yes,
            Choice::No => "no",
            Choice::Later => "later",
            Choice::Edit => "edit",
        });
        Ok(choice)
    }

    /// Opens the plan in the person's editor; returns the new one if it has a task.
    fn edit_plan(&mut self, run: &Run) -> Result<Option<String>, Flow> {
        let open = run.tasks.iter().filter(|task| task.state == TaskState::Open).map(|task| ("TASK", &task.text));
        let lines = open.chain(run.proposed.iter().map(|check| ("CHECK", check)));
        let text: String = lines.map(|(mark, text)| format!("{mark}: {text}\n")).collect();
        let change = FileChange { path: "plan.txt".into(), old: None, new: Some(text.into_bytes()) };
        let saved = rewrite(&mut self.terminal, &change)?.map(|saved| String::from_utf8_lossy(&saved).into_owned());
        if saved.as_ref().is_some_and(|saved| tasks(saved).is_empty()) {
            self.console.notice("no line begins with `TASK: `: the plan stays as it was");
        }
        Ok(saved.filter(|saved| !tasks(saved).is_empty()))
    }

    /// Asks about the call that halted a run; the answer counts for exactly this call.
    fn ask_about_halt(&mut self, halt: &Halt) -> Result<Option<Vec<Event>>, Flow> {
        self.console.line(&escape_visible(&format!("{} ({} risk)", halt.intent, halt.risk)));
        for reason in &halt.reasons {
            self.console.line(&escape_visible(&format!("  {reason}")));
        }
        let count = halt.preview.lines().count();
        for line in halt.preview.lines().take(PREVIEW_LINES_MAX) {
            self.console.line(&escape_visible(&format!("  | {line}")));
        }
        if count > PREVIEW_LINES_MAX {
            self.console.line(&format!("  | and {} more lines", count - PREVIEW_LINES_MAX));
        }
        let digest = halt.digest.clone();
        Ok(match self.choose("once [y]  no [n, Enter]  later [l]", b'y', "once")? {
            Choice::Yes => Some(vec![Event::Approved { digest }]),
            Choice::No => Some(vec![Event::Denied { digest, why: String::new() }]),
            Choice::Later | Choice::Edit => None,
        })
    }

    fn list_runs(&self) -> Result<(), Failure> {
        let rows = run_rows(self.runtime.store(), self.runtime.env(), LISTED_MAX)?;
        if rows.is_empty() {
            self.console.notice("there is no run yet; :norris GOAL begins one");
        } else {
            self.console.write(&table(&rows, self.console.width_columns()));
        }
        Ok(())
    }

    /// The run that works beside this session, once it is stored.
    fn running_run(&self) -> Option<i64> {
        self.terminal.goals.running.as_ref()?.run()
    }

    /// The run that the first word of `text` names, or the last one if it is no number, if it waits for its person; and the
    /// rest of the text.
    fn waiting_run(&self, text: &str) -> Option<(StoredJournal, String)> {
        let (first, rest) = text.split_once(char::is_whitespace).unwrap_or((text, ""));
        let (id, rest) = first.parse().map_or((None, text), |id| (Some(id), rest.trim()));
        let journal = self.stored_run(id).ok()?;
        let waits = journal.state().is_ok_and(|run| run.is_waiting() || run.awaits_go());
        waits.then(|| (journal, rest.to_owned()))
    }

    /// A stored run: this one, the one of this session, or the newest.
    fn stored_run(&self, id: Option<i64>) -> Result<StoredJournal, Failure> {
        let found = find_run(self.runtime.store(), id.or(self.running_run()).or(self.terminal.goals.last));
        found.map_err(|failure| match (failure.kind, id) {
            (FailureKind::User, Some(_)) => Failure { hint: ":norris list shows the runs".into(), ..failure },
            _ => failure,
        })
    }

    fn show_run(&self, id: Option<i64>) -> Result<(), Failure> {
        let journal = self.stored_run(id)?;
        let run = journal.state()?;
        let goal = run.goal.clone().unwrap_or_default();
        let steps = steps_of_run(self.runtime.settings(), self.runtime.env(), &goal, journal.run());
        for line in run_report(&journal, &steps, self.runtime.env())? {
            self.console.line(&escape_visible(&line));
        }
        if run.end.is_none() && !run.is_active() {
            self.console.notice(&format!(":norris resume {} continues it", journal.run()));
        }
        Ok(())
    }

    /// Undoes the changes of a run.
    fn undo_run(&self, words: &str) -> Result<(), Failure> {
        let by_force = words.ends_with("--force");
        let number = words.trim_end_matches("--force").trim();
        let id = match number {
            "" => None,
            _ => Some(number.parse().map_err(|_| {
                Failure::user(format!("{} is no number of a run", escape_visible(number)))
                    .hint(":norris undo [N] [--force]")
            })?),
        };
        let journal = self.stored_run(id)?;
        let lines = undo_run(&self.runtime, &journal, by_force, ":").map_err(|refusal| {
            self.console.outside(&refusal.conflict.unwrap_or_default());
            refusal.failure
        })?;
        lines.iter().for_each(|line| self.console.notice(line));
        Ok(())
    }

    fn say_to_run(&self, text: &str) -> Result<(), Failure> {
        let journal = self.open_run(None)?;
        if let Some(problem) = journal.state()?.note_problem(text) {
            return Err(Failure::user(problem).hint(":norris say TEXT"));
        }
        journal.add(&Event::Said { text: text.to_owned() })?;
        self.console.notice(&format!("run {} gets it with its next question", journal.run()));
        Ok(())
    }

    fn pause_run(&self, id: Option<i64>) -> Result<(), Failure> {
        let journal = self.open_run(id)?;
        journal.add(&Event::Paused { why: "its person paused it".into() })?;
        self.console.notice(&format!("run {} pauses; :norris resume {0} continues it", journal.run()));
        Ok(())
    }

    fn stop_run(&self, id: Option<i64>) -> Result<(), Failure> {
        let journal = self.open_run(id)?;
        let run = journal.state()?;
        // If no process works on the run, its end is written here.
        let is_left = state_word(&journal, &run, self.runtime.env()) == "interrupted";
        let is_at_rest = !run.is_active() || is_left;
        journal.add(&Event::StopAsked)?;
        if is_at_rest {
            journal.add(&Event::Ended { end: End::Stopped.word().into(), why: String::new() })?;
        }
        self.console.notice(&format!("run {} stops", journal.run()));
        Ok(())
    }

    /// Changes limits; a run that a budget ended continues with `:norris resume`.
    fn raise_budget(&self, words: &str) -> Result<(), Failure> {
        // A mistake is reported even if there is no run.
        set_limits(&mut Limits::default(), words)?;
        let journal = self.stored_run(None)?;
        let run = journal.state()?;
        if run.end.is_some() && !run.may_get_more() {
            return Err(ended(&journal, &run));
        }
        let mut limits = run.goal.map(|goal| goal.limits).unwrap_or_default();
        set_limits(&mut limits, words)?;
        journal.add(&Event::Raised { limits })?;
        let way = if self.running_run() == Some(journal.run()) {
            "they hold at once".to_owned()
        } else {
            format!(":norris resume {} continues it", journal.run())
        };
        self.console.notice(&format!("the limits of run {} are changed; {way}", journal.run()));
        Ok(())
    }

    /// A run that hasn't ended.
    fn open_run(&self, id: Option<i64>) -> Result<StoredJournal, Failure> {
        let journal = self.stored_run(id)?;
        let run = journal.state()?;
        if run.end.is_some() {
            return Err(ended(&journal, &run));
        }
        Ok(journal)
    }

    /// The mark of the run in the prompt.
    pub(super) fn goal_mark(&self, unicode: bool) -> Option<String> {
        let running = self.terminal.goals.running.as_ref().filter(|it| !it.is_over())?;
        let (at, count) = running.at();
        Some(if unicode { format!("⚡{at}/{count}") } else { format!("run {at}/{count}") })
    }

    /// Pauses the run of this session, which ends.
    pub(super) fn leave_goal(&mut self) {
        self.terminal.goals.running = None;
    }
}

/// Returns whether the words begin with the number of a run.
fn names_run(words: &str) -> bool {
    words.split_whitespace().next().is_some_and(|first| first.parse::<i64>().is_ok())
}

/// The events of a run whose person doesn't want its plan.
fn refused_plan() -> Vec<Event> {
    vec![Event::StopAsked, Event::Ended { end: End::Stopped.word().into(), why: String::new() }]
}

fn ended(journal: &StoredJournal, run: &Run) -> Failure {
    Failure::user(format!("run {} has ended: {}", journal.run(), run.word())).hint(":norris show prints its report")
}
/// Changes limits by words such as `tokens=N`.
fn set_limits(limits: &mut Limits, words: &str) -> Result<(), Failure> {
    const USAGE: &str = ":norris budget usd=2 tokens=N minutes=N steps=N calls=N";
    if words.is_empty() {
        return Err(Failure::user("no limit is named").hint(USAGE));
    }
    for word in words.split_whitespace() {
        let wrong = || Failure::user(format!("{} is no limit", escape_visible(word))).hint(USAGE);
        let (name, value) = word.split_once('=').ok_or_else(wrong)?;
        let amount: f64 = value.parse().map_err(|_| wrong())?;
        let whole = || value.parse::<u64>().map_err(|_| wrong());
        match name {
            "usd" => limits.usd = Some(amount),
            "minutes" => limits.minutes = Some(amount),
            "tokens" => limits.tokens = Some(whole()?),
            "steps" => limits.steps = Some(whole()?),
            "calls" => limits.calls = Some(whole()?),
            _ => return Err(wrong()),
        }
    }
    limits.problem().map_or(Ok(()), |problem| Err(Failure::user(problem)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_that_is_no_limit_is_an_error() {
        for (words, wrong) in [
            ("", "no limit is named"),
            ("zz", "zz is no limit"),
            ("usd=2 zz=1", "zz=1 is no limit"),
            ("tokens=1.5", "tokens=1.5 is no limit"),
        ] {
            let mut limits = Limits::default();
            assert_eq!(set_limits(&mut limits, words).expect_err(words).message, wrong);
        }
        let mut limits = Limits::default();
        set_limits(&mut limits, "usd=-1").expect_err("less than nothing");
        set_limits(&mut limits, "usd=2 calls=7").expect("limits");
        assert_eq!((limits.usd, limits.calls), (Some(2.0), Some(7)));
    }
}
