//! `reedclaw norris`: work towards a goal while nobody watches; its runs, and a person's words to them.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use clap::{Arg, ArgAction, ArgMatches, Command};
use signal_hook::consts::{SIGINT, SIGTERM};

use crate::agent::Cancel;
use crate::agent::goal::{self, Journal, OnHalt, Watcher};
use crate::app::{self, ChannelKind, ReadyRun, Request, RunWatcher, Runtime, StoredJournal, Wanted};
use crate::cli::answers::agent::{say, tell, watch_signals};
use crate::cli::exit;
use crate::cli::out::{columns, has_gone, out, outln, report, shown_json};
use crate::config::Env;
use crate::host::{read_text, working_directory};
use crate::norris::{self, Effect, Event, Goal, Grant, Limits, Run};
use crate::ops::steps::undo_run;
use crate::proto::wire::Line;
use crate::proto::{self, Failure};
use crate::render::text::{escape_visible, table};
use crate::store::export;

/// Runs that a list shows.
const LISTED_MAX: usize = 50;
/// Interval at which `watch` looks for news.
const WATCH_EVERY: Duration = Duration::from_millis(200);

/// The subcommand, as clap knows it.
pub(in crate::cli) fn definition() -> Command {
    let run = |command: Command, is_required: bool| {
        command
            .arg(
                Arg::new("goal").value_name("GOAL").num_args(1..).required(is_required).help("The goal, in your words"),
            )
            .args(run_args())
    };
    let id = || {
        Arg::new("id")
            .value_name("ID")
            .value_parser(clap::value_parser!(i64))
            .help("The run; the newest one if left out")
    };
    let words = |name: &'static str, help: &'static str| {
        [
            Arg::new("id").value_name("ID").required(true).value_parser(clap::value_parser!(i64)).help("The run"),
            Arg::new(name).value_name("TEXT").num_args(0..).help(help),
        ]
    };
    let command = Command::new("norris")
        .about("Works towards a goal unattended: plans, acts, and is done when a check says so")
        .args_conflicts_with_subcommands(true)
        .subcommand_negates_reqs(true)
        .after_help(exit::run_statuses(false));
    let command = run(command, true);
    command.subcommands([
        run(Command::new("run").about("Begins a run, as without this word"), true),
        Command::new("list").about("Lists the runs, the newest first"),
        Command::new("show")
            .about("Prints the report of a run")
            .visible_alias("report")
            .arg(id())
            .arg(Arg::new("json").long("json").action(ArgAction::SetTrue).help("Prints JSON")),
        Command::new("watch").about("Prints what happens in a run, until it ends or waits").arg(id()),
        resume_args(Command::new("resume").about("Continues a run that was paused, killed or approved").arg(id())),
        Command::new("undo")
            .about("Undoes all that a run has changed; what others have changed since stays")
            .arg(id())
            .arg(
                Arg::new("force")
                    .long("force")
                    .action(ArgAction::SetTrue)
                    .help("Overwrites later changes, which become a step of their own"),
            ),
        Command::new("export")
            .about("Prints a run as a trajectory (ATIF 1.7, JSON), with every question, call and check")
            .arg(id())
            .arg(
                text("atif", "FILE")
                    .value_parser(clap::value_parser!(PathBuf))
                    .help("Writes it to FILE instead, which must be new"),
            ),
        Command::new("say").about("Gives the run a note for its next question").args(words("text", "The note")),
        Command::new("pause").about("Pauses a run").arg(id()),
        Command::new("stop").about("Ends a run for good").arg(id()),
        Command::new("approve").about("Allows exactly the call that a run waits for").arg(id()),
        Command::new("deny")
            .about("Refuses the call that a run waits for")
            .args(words("text", "The reason, for the model")),
        Command::new("budget")
            .about("Changes the limits of a run; one that a budget ended can be resumed then")
            .arg(id().required(true).help("The run"))
            .args(budget_args()),
    ])
}

fn text(name: &'static str, value: &'static str) -> Arg {
    Arg::new(name).long(name).value_name(value)
}

/// A number that may have a fraction; a negative one is refused in words, and not as an unknown option.
pub(in crate::cli) fn amount(name: &'static str, value: &'static str) -> Arg {
    text(name, value).value_parser(clap::value_parser!(f64)).allow_negative_numbers(true)
}

fn budget_args() -> [Arg; 5] {
    let whole = |name| text(name, "N").value_parser(clap::value_parser!(u64)).allow_negative_numbers(true);
    [
        amount("budget-usd", "DOLLARS").help("The most that it may cost"),
        whole("budget-tokens").help("The most tokens, read and written"),
        amount("budget-minutes", "N").help("The most minutes of work"),
        whole("budget-steps").help("The most questions to models"),
        whole("budget-calls").help("The most calls of tools"),
    ]
}

fn report_file() -> Arg {
    text("report", "FILE")
        .value_parser(clap::value_parser!(PathBuf))
        .help("Writes the report to FILE, which must be new, when the run rests; as JSON if its name ends with .json")
}

fn resume_args(command: Command) -> Command {
    command
        .arg(report_file())
        .arg(on_halt())
        .arg(Arg::new("json").long("json").action(ArgAction::SetTrue).help("Prints events as JSON, one a line"))
}

fn on_halt() -> Arg {
    text("on-halt", "WHAT").value_parser(["stop", "wait", "deny"]).default_value("stop").help(
        "A call beyond the grant halts the run and ends its process, halts it and waits for your answer, or is denied",
    )
}

/// The options of a run; `reedclaw agent --auto` has them too.
pub(in crate::cli) fn run_args() -> Vec<Arg> {
    let mut args = vec![
        text("check", "CMD")
            .action(ArgAction::Append)
            .allow_hyphen_values(true)
            .help("A command that ends with 0 when the goal is reached; may be given again"),
        text("grant-write", "GLOB")
            .action(ArgAction::Append)
            .help("Paths that may change without a question; else all"),
        text("grant-command", "CMD")
            .action(ArgAction::Append)
            .allow_hyphen_values(true)
            .help("A command line that may run without a question; a removal of a directory is still asked about"),
        text("protect", "GLOB").action(ArgAction::Append).help("Paths that never change without a question"),
        text("planner", "NAME").help("The model that plans"),
        text("executor", "NAME").help("The model that works"),
        text("reviewer", "NAME").help("The model that gives a second opinion on risky calls"),
        Arg::new("allow-check-edits")
            .long("allow-check-edits")
            .action(ArgAction::SetTrue)
            .help("Counts as done though files that the checks depend on have changed"),
    ];
    args.extend(budget_args());
    args.push(on_halt());
    let file = |name, help| text(name, "FILE").value_parser(clap::value_parser!(PathBuf)).help(help);
    args.push(file("plan", "Takes the tasks from FILE, one in each line or after TASK:, and asks no model for a plan"));
    args.push(
        Arg::new("plan-only")
            .long("plan-only")
            .action(ArgAction::SetTrue)
            .conflicts_with("plan")
            .help("Plans, and waits for your approve before anything is done"),
    );
    args.push(report_file());
    args.push(
        text("path", "DIR").value_parser(clap::value_parser!(PathBuf)).help("Works in DIR's repository or project"),
    );
    args.push(text("session", "ID").help(
        "Works on a session on git; `new` begins one: each task becomes a commit, and the checkout stays as it is",
    ));
    args.push(Arg::new("json").long("json").action(ArgAction::SetTrue).help("Prints events as JSON, one a line"));
    args
}

/// Carries it out; `config` is the file that `--config` names, `path` the option before the subcommand.
pub(in crate::cli) fn run(matches: &ArgMatches, config: Option<PathBuf>, path: Option<PathBuf>) -> ExitCode {
    match carried_out(matches, config, path) {
        Ok(status) => ExitCode::from(status),
        Err(failure) => {
            let resumed = matches.subcommand_matches("resume");
            let is_json = resumed.is_some_and(|inner| inner.get_flag("json"));
            let id = resumed.and_then(|inner| inner.get_one::<i64>("id").copied());
            ExitCode::from(exit::run_failed(&failure, id, is_json))
        }
    }
}

fn carried_out(matches: &ArgMatches, config: Option<PathBuf>, path: Option<PathBuf>) -> Result<u8, Failure> {
    let Some((word, inner)) = matches.subcommand() else {
        return Ok(begin(matches, "goal", Begin { config, path, model: None }));
    };
    if word == "run" {
        return Ok(begin(inner, "goal", Begin { config, path, model: None }));
    }
    let request = Request { config, channel: ChannelKind::Agent, finds_home: true, ..Request::default() };
    let runtime = Runtime::start(&request)?;
    runtime.problems().iter().for_each(report);
    runtime.check_stored()?;
    if word == "list" {
        let rows = app::run_rows(runtime.store(), runtime.env(), LISTED_MAX)?;
        if rows.is_empty() {
            outln!("There is no run yet. reedclaw norris GOAL begins one.");
        }
        out!("{}", table(&rows, columns()));
        return Ok(exit::DONE);
    }
    let journal = app::find_run(runtime.store(), inner.get_one::<i64>("id").copied())?;
    let words = || {
        let words = inner.try_get_many::<String>("text").ok().flatten().into_iter().flatten();
        words.map(String::as_str).collect::<Vec<_>>().join(" ")
    };
    match word {
        "show" => show(&runtime, &journal, inner.get_flag("json")),
        "export" => trajectory(&journal, inner.get_one::<PathBuf>("atif").map(PathBuf::as_path)),
        "undo" => undo(&runtime, &journal, inner.get_flag("force")),
        "watch" => watch(&journal, runtime.env()),
        "resume" => {
            drop(runtime);
            resume(request, &journal, inner)
        }
        "say" => say_to(&journal, words()),
        "pause" => add(&journal, &Event::Paused { why: "its person paused it".into() }, "paused"),
        "stop" => stop(&journal, runtime.env()),
        "approve" if journal.state()?.awaits_go() => take_plan(&journal),
        "deny" if journal.state()?.awaits_go() => stop(&journal, runtime.env()),
        "approve" => decide(&journal, |digest| Event::Approved { digest }, "allowed; reedclaw norris resume continues"),
        "deny" => {
            let why = words();
            decide(&journal, |digest| Event::Denied { digest, why }, "refused; reedclaw norris resume continues")
        }
        _ => raise(&journal, inner),
    }
}

/// Begins a run for `reedclaw agent --auto`; `name` is the argument that holds the goal, `model` the one that works.
pub(in crate::cli) fn begun(
    matches: &ArgMatches,
    name: &str,
    config: Option<PathBuf>,
    path: Option<PathBuf>,
    model: Option<String>,
) -> ExitCode {
    let model = matches.get_one::<String>("model").cloned().or(model);
    ExitCode::from(begin(matches, name, Begin { config, path, model }))
}

/// The options of a run that don't belong to its own arguments.
struct Begin {
    config: Option<PathBuf>,
    path: Option<PathBuf>,
    model: Option<String>,
}

fn begin(matches: &ArgMatches, name: &str, options: Begin) -> u8 {
    match begun_run(matches, name, options) {
        Ok(mut ready) => work(&mut ready, matches),
        Err(failure) => exit::run_failed(&failure, None, matches.get_flag("json")),
    }
}

fn begun_run(matches: &ArgMatches, name: &str, options: Begin) -> Result<ReadyRun, Failure> {
    let Begin { config, path, model } = options;
    let words = matches.get_many::<String>(name).into_iter().flatten();
    let text = words.map(String::as_str).collect::<Vec<_>>().join(" ");
    if let Some(path) = matches.try_get_one::<PathBuf>("report").ok().flatten() {
        check_report(path)?;
    }
    let named = matches.get_one::<PathBuf>("path").cloned().or(path);
    let around = named.unwrap_or_else(working_directory);
    let around = around.canonicalize().map_err(|error| Failure::user(format!("{}: {error}", around.display())))?;
    let cwd = Some(around.clone());
    let runtime =
        Runtime::start(&Request { config, channel: ChannelKind::Agent, cwd, finds_home: true, ..Request::default() })?;
    runtime.problems().iter().for_each(tell);
    if let Some(failure) = app::closed(runtime.settings(), ChannelKind::Agent) {
        return Err(failure);
    }
    let workspace = app::workspace_named(runtime.env(), &around)?;
    let goal = goal_of(matches, app::goal_of(runtime.settings(), &text, &workspace)?)?;
    let mut goal = app::goal_within(runtime.settings(), goal);
    if goal.executor.is_empty() {
        goal.executor = model.unwrap_or_default();
    }
    goal.session = matches.get_one::<String>("session").cloned().unwrap_or_default();
    let plan = matches.get_one::<PathBuf>("plan").map(|path| plan_of(path)).transpose()?;
    let ready = app::ready_run(runtime, Wanted::New(Box::new(goal)))?;
    if let Some(text) = plan {
        ready.journal().add(&Event::Planned { text })?;
    }
    Ok(ready)
}

/// The goal of the settings, with the options of the command line.
fn goal_of(matches: &ArgMatches, goal: Goal) -> Result<Goal, Failure> {
    let many = |name: &str, else_: Vec<String>| -> Vec<String> {
        let named: Vec<String> =
            matches.try_get_many::<String>(name).ok().flatten().into_iter().flatten().cloned().collect();
        if named.is_empty() { else_ } else { named }
    };
    let one = |name: &str, else_: String| matches.get_one::<String>(name).cloned().unwrap_or(else_);
    let checks = many("check", goal.checks);
    let goal = Goal {
        checks,
        limits: limits_of(matches, goal.limits),
        grant: Grant {
            writes: many("grant-write", goal.grant.writes),
            commands: many("grant-command", goal.grant.commands),
        },
        protect: many("protect", goal.protect),
        allow_check_edits: matches.get_flag("allow-check-edits"),
        asks_go: matches.get_flag("plan-only"),
        planner: one("planner", goal.planner),
        executor: one("executor", goal.executor),
        reviewer: one("reviewer", goal.reviewer),
        ..goal
    };
    // A wrong goal is refused before a session begins for it.
    goal.problem().map_or(Ok(goal), |problem| Err(Failure::user(problem)))
}

fn limits_of(matches: &ArgMatches, limits: Limits) -> Limits {
    let number = |name: &str| matches.get_one::<u64>(name).copied();
    let amount = |name: &str| matches.get_one::<f64>(name).copied();
    Limits {
        usd: amount("budget-usd").or(limits.usd),
        tokens: number("budget-tokens").or(limits.tokens),
        minutes: amount("budget-minutes").or(limits.minutes),
        steps: number("budget-steps").or(limits.steps),
        calls: number("budget-calls").or(limits.calls),
        ..limits
    }
}

fn resume(request: Request, journal: &StoredJournal, matches: &ArgMatches) -> Result<u8, Failure> {
    let run = journal.state()?;
    if let Some(path) = matches.get_one::<PathBuf>("report") {
        check_report(path)?;
    }
    // Its own project file counts, wherever this command was typed.
    let mut runtime = Runtime::start(&app::request_of_run(request, journal)?)?;
    runtime.problems().iter().for_each(tell);
    if run.end.is_some() {
        let problems = app::report_ended_run(&mut runtime, journal).unwrap_or_else(|failure| vec![failure.message]);
        problems.iter().for_each(|problem| say(&escape_visible(problem)));
        // The run doesn't work any more, and its report says how it ended.
        return finish(&runtime, journal, &run, matches);
    }
    Ok(match app::ready_run(runtime, Wanted::Stored(journal.run())) {
        Ok(mut ready) => work(&mut ready, matches),
        Err(failure) => exit::run_failed(&failure, Some(journal.run()), matches.get_flag("json")),
    })
}

/// Works until the run rests, and reports why it does.
fn work(ready: &mut ReadyRun, matches: &ArgMatches) -> u8 {
    let (id, is_json) = (ready.journal().run(), matches.get_flag("json"));
    let what = matches.get_one::<String>("on-halt").map(String::as_str);
    let on_halt = if what == Some("deny") { OnHalt::Deny } else { OnHalt::Halt };
    let cancel = Cancel::new();
    // `timeout`, CI and services end programs by SIGTERM.
    watch_signals(&cancel, None, &[SIGINT, SIGTERM]);
    let waits = (what == Some("wait")).then(|| cancel.clone());
    let mut seen = Seen { is_json, id, waits, last: String::new() };
    let done = ready.work(&mut seen, on_halt, &cancel).map_err(|failure| {
        if failure.hint == goal::NEEDS_OTHER_CHECK {
            return failure;
        }
        let hint = format!("{}; reedclaw norris resume {id} continues", failure.hint);
        Failure { hint: hint.trim_start_matches("; ").to_owned(), ..failure }
    });
    done.and_then(|run| finish(ready.runtime(), ready.journal(), &run, matches))
        .unwrap_or_else(|failure| exit::run_failed(&failure, Some(id), is_json))
}

/// Reports a run that doesn't work any more, and returns its exit status.
fn finish(runtime: &Runtime, journal: &StoredJournal, run: &Run, matches: &ArgMatches) -> Result<u8, Failure> {
    let (id, status, goal) = (journal.run(), status_of(run), run.goal.clone().unwrap_or_default());
    let steps = app::steps_of_run(runtime.settings(), runtime.env(), &goal, id);
    if let Some(path) = matches.try_get_one::<PathBuf>("report").ok().flatten() {
        write_report(path, journal, &steps, runtime.env())?;
    }
    if matches.get_flag("json") {
        let why = run.end.as_ref().map(|end| end.why().to_owned()).or_else(|| run.paused.clone()).unwrap_or_default();
        exit::run_line(Some(id), run.word(), status, &why);
    } else {
        app::run_report(journal, &steps, runtime.env())?.iter().for_each(|line| outln!("{}", escape_visible(line)));
        if run.awaits_go() {
            outln!("reedclaw norris approve {id} takes the plan, and then reedclaw norris resume {id} works on it");
        } else if run.end.is_none() {
            outln!("reedclaw norris resume {id} continues");
        }
    }
    Ok(status)
}

/// Writes the report of a run: as JSON if the file's name ends with `.json`, else as text.
fn write_report(path: &Path, journal: &StoredJournal, steps: &app::RunSteps, env: &Env) -> Result<(), Failure> {
    let text = match path.extension() {
        Some(extension) if extension == "json" => format!("{:#}\n", app::run_facts(journal, steps, env)?),
        _ => app::run_report(journal, steps, env)?.iter().map(|line| escape_visible(line) + "\n").collect(),
    };
    write_file(path, &text)
}

/// Writes a new file, as every export does.
fn write_file(path: &Path, text: &str) -> Result<(), Failure> {
    let written = export::create(&working_directory().join(path)).and_then(|mut file| file.write_all(text.as_bytes()));
    written.map_err(|error| unwritable(path, &error.to_string()))
}

/// Refuses a report that couldn't be written when the run rests, before anything is spent.
fn check_report(path: &Path) -> Result<(), Failure> {
    let place = working_directory().join(path);
    if place.symlink_metadata().is_ok() {
        return Err(unwritable(path, "it is there already"));
    }
    match place.parent().filter(|directory| directory.is_dir()) {
        Some(_) => Ok(()),
        None => Err(unwritable(path, "its directory isn't there")),
    }
}

fn unwritable(path: &Path, why: &str) -> Failure {
    let message = format!("{} can't be written: {why}", escape_visible(&path.display().to_string()));
    Failure::user(message)
        .hint("name a new file in a directory that is there; reedclaw norris show and export print a stored run")
}

fn trajectory(journal: &StoredJournal, path: Option<&Path>) -> Result<u8, Failure> {
    let text = format!("{:#}\n", app::run_trajectory(journal)?);
    match path {
        Some(path) => write_file(path, &text)?,
        None => out!("{text}"),
    }
    Ok(exit::DONE)
}

/// Reads a plan from a file: its lines `TASK: …`, or each line that isn't empty.
fn plan_of(path: &Path) -> Result<String, Failure> {
    let text = read_text(path)
        .map_err(|error| Failure::user(format!("{}: {error}", path.display())).hint("--plan names a file"))?;
    let lines = || text.lines().map(str::trim).filter(|line| !line.is_empty());
    let plan = match norris::tasks(&text).is_empty() {
        true => lines().map(|line| format!("TASK: {line}")).collect::<Vec<_>>().join("\n"),
        false => text.clone(),
    };
    if plan.is_empty() {
        return Err(Failure::user(format!("{} has no task", path.display())).hint("write one task in each line"));
    }
    let count = norris::task_count(&plan);
    if count > norris::TASKS_MAX {
        let message = format!("{} has {count} tasks, and a plan has at most {}", path.display(), norris::TASKS_MAX);
        return Err(Failure::user(message).hint("begin a run for each part"));
    }
    Ok(plan)
}

/// The exit status of a run that doesn't work any more.
fn status_of(run: &Run) -> u8 {
    match &run.end {
        Some(end) => end.status(),
        None if run.is_waiting() || run.awaits_go() => exit::HALTED,
        None if run.is_estop => exit::ESTOP,
        None if run.has_given_up() => exit::FAILED,
        None => exit::INTERRUPTED,
    }
}

/// Shows a run on standard error, or as JSON.
struct Seen {
    is_json: bool,
    id: i64,
    /// Ends the wait for an answer to a halted call; `None` if the run rests at once.
    waits: Option<Cancel>,
    last: String,
}

impl Seen {
    fn line(&mut self, text: &str) {
        if !self.is_json {
            say(&escape_visible(text));
        }
    }
}

impl RunWatcher for Seen {
    fn stored(&mut self, _: &Runtime, journal: &StoredJournal, problems: Vec<Failure>) {
        problems.iter().for_each(tell);
        let goal = journal.state().ok().and_then(|run| run.goal).unwrap_or_default();
        self.line(&format!("run {}: {}", self.id, goal.text));
        app::granted_lines(&goal).iter().for_each(|line| self.line(line));
    }

    fn news(&mut self, line: String) {
        say(&escape_visible(&line));
    }

    fn is_answered(&mut self, run: &Run, journal: &StoredJournal) -> Result<bool, Failure> {
        let Some(cancel) = self.waits.clone() else { return Ok(false) };
        let id = self.id;
        if let Some((halt, _)) = &run.halt {
            self.line(&format!("  {} ({} risk)", halt.intent, halt.risk));
        }
        self.line(&format!("  reedclaw norris approve {id} allows it, reedclaw norris deny {id} refuses it"));
        let (mut now, mut seen) = (Run::default(), 0);
        let waits = std::sync::mpsc::channel::<()>();
        while !cancel.is_cancelled() {
            for (seq, time, event) in journal.events(seen)? {
                seen = seq;
                now.apply(time, &event);
            }
            if !now.is_waiting() {
                return Ok(now.end.is_none() && now.paused.is_none());
            }
            let _ = waits.1.recv_timeout(WATCH_EVERY);
        }
        Ok(false)
    }
}

impl Watcher for Seen {
    fn begins(&mut self, run: &Run, effect: &Effect) {
        let Some(line) = app::effect_line(run, effect) else { return };
        if self.is_json {
            let step = serde_json::json!({"event": "run_step", "run": self.id, "text": line});
            outln!("{}", shown_json(step.to_string()));
        } else if line != self.last {
            self.line(&line);
        }
        self.last = line;
    }

    fn event(&mut self, event: proto::Event) {
        if self.is_json {
            out!("{}", shown_json(Line::of(&event).to_json()));
            return;
        }
        match event {
            proto::Event::Notice(text) => self.line(&text),
            proto::Event::Tool(tool) => match &tool.step {
                proto::tool::Step::Requested { intent, .. } => self.line(&format!("  {intent}")),
                proto::tool::Step::Denied { why } if why == goal::WAITS => {}
                proto::tool::Step::Denied { why } => self.line(&format!("  denied: {why}")),
                proto::tool::Step::Approved | proto::tool::Step::Done { .. } => {}
            },
            proto::Event::Failed { failure, .. } => tell(&failure),
            _ => {}
        }
    }
}

fn show(runtime: &Runtime, journal: &StoredJournal, is_json: bool) -> Result<u8, Failure> {
    let run = journal.state()?;
    let goal = run.goal.clone().unwrap_or_default();
    let steps = app::steps_of_run(runtime.settings(), runtime.env(), &goal, journal.run());
    if is_json {
        outln!("{:#}", app::run_facts(journal, &steps, runtime.env())?);
        return Ok(exit::DONE);
    }
    app::run_report(journal, &steps, runtime.env())?.iter().for_each(|line| outln!("{}", escape_visible(line)));
    if app::state_word(journal, &run, runtime.env()) == "interrupted" {
        outln!("{}", left_line(journal.run()));
    }
    Ok(exit::DONE)
}

fn left_line(run: i64) -> String {
    format!("No process works on it: reedclaw norris resume {run} continues it")
}

fn undo(runtime: &Runtime, journal: &StoredJournal, by_force: bool) -> Result<u8, Failure> {
    let undone = undo_run(runtime, journal, by_force, "reedclaw ");
    let lines = undone.map_err(|refusal| {
        out!("{}", crate::render::sanitise(&refusal.conflict.unwrap_or_default()));
        refusal.failure
    })?;
    lines.iter().for_each(|line| outln!("{line}"));
    Ok(exit::DONE)
}

/// Prints the events of a run as they come, until it rests or no process works on it.
fn watch(journal: &StoredJournal, env: &Env) -> Result<u8, Failure> {
    let mut seen = 0;
    let mut run = Run::default();
    let waits = std::sync::mpsc::channel::<()>();
    loop {
        // This comes first, so that the events that a process wrote before its end are read below.
        let workspace = run.goal.as_ref().map(|goal| PathBuf::from(&goal.workspace));
        let is_left = workspace.is_some_and(|it| !app::is_worked_on(env, &it, journal.run()));
        for (seq, time, event) in journal.events(seen)? {
            seen = seq;
            run.apply(time, &event);
            app::event_lines(&run, &event).iter().for_each(|line| outln!("{}", escape_visible(line)));
        }
        std::io::stdout().flush().ok();
        if !run.is_active() || has_gone() {
            return Ok(status_of(&run));
        }
        if is_left {
            outln!("{}", left_line(journal.run()));
            return Ok(status_of(&run));
        }
        let _ = waits.1.recv_timeout(WATCH_EVERY);
    }
}

fn say_to(journal: &StoredJournal, text: String) -> Result<u8, Failure> {
    if let Some(problem) = journal.state()?.note_problem(&text) {
        return Err(Failure::user(problem).hint("reedclaw norris say ID TEXT"));
    }
    add(journal, &Event::Said { text }, "noted for its next question")
}

fn stop(journal: &StoredJournal, env: &Env) -> Result<u8, Failure> {
    let run = journal.state()?;
    // If no process works on the run, its end is written here.
    let is_at_rest = !run.is_active() || app::state_word(journal, &run, env) == "interrupted";
    add(journal, &Event::StopAsked, if is_at_rest { "stopped" } else { "stopping" })?;
    if is_at_rest {
        journal.add(&Event::Ended { end: "stopped".into(), why: String::new() })?;
    }
    Ok(exit::DONE)
}

/// Shows the plan of a run, with the checks that the model proposed, and accepts both.
fn take_plan(journal: &StoredJournal) -> Result<u8, Failure> {
    let run = journal.state()?;
    app::plan_lines(&run).iter().for_each(|line| outln!("{}", escape_visible(line)));
    run.proposed.iter().for_each(|check| outln!("  check: {}", escape_visible(check)));
    add(journal, &Event::Go { checks: run.proposed }, "its plan is accepted; reedclaw norris resume continues")
}

fn decide(journal: &StoredJournal, event: impl FnOnce(String) -> Event, done: &str) -> Result<u8, Failure> {
    let run = journal.state()?;
    let Some((halt, _)) = run.halt.as_ref().filter(|_| run.is_waiting()) else {
        return Err(Failure::user(format!("run {} waits for no answer", journal.run())).hint("reedclaw norris show"));
    };
    outln!("{} ({} risk)", escape_visible(&halt.intent), halt.risk);
    halt.preview.lines().for_each(|line| outln!("  | {}", escape_visible(line)));
    add(journal, &event(halt.digest.clone()), done)
}

fn raise(journal: &StoredJournal, matches: &ArgMatches) -> Result<u8, Failure> {
    let run = journal.state()?;
    if run.end.is_some() && !run.may_get_more() {
        return Err(ended(journal, &run));
    }
    if !budget_args().iter().any(|arg| matches.contains_id(arg.get_id().as_str())) {
        return Err(Failure::user("no limit is named").hint("reedclaw norris budget --help lists the options"));
    }
    let limits = limits_of(matches, run.goal.map(|goal| goal.limits).unwrap_or_default());
    if let Some(problem) = limits.problem() {
        return Err(Failure::user(problem));
    }
    add(journal, &Event::Raised { limits }, "its limits are changed")
}

fn add(journal: &StoredJournal, event: &Event, done: &str) -> Result<u8, Failure> {
    let run = journal.state()?;
    if run.end.is_some() && !matches!(event, Event::Raised { .. }) {
        return Err(ended(journal, &run));
    }
    journal.add(event)?;
    outln!("Run {}: {done}.", journal.run());
    Ok(exit::DONE)
}

fn ended(journal: &StoredJournal, run: &Run) -> Failure {
    let message = format!("run {} has ended: {}", journal.run(), run.word());
    Failure::user(message).hint("reedclaw norris show prints its report")
}
