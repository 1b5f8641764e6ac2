//! `reedclaw sop`: procedures, trust in them, their runs, and a person's words to the runs.

mod shown;
mod trust;

use std::collections::BTreeMap;
use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use clap::{Arg, ArgAction, ArgMatches, Command};
use serde_json::{Value, json};

use crate::agent::Cancel;
use crate::agent::procedure::{self, Journal, Watcher, Work};
use crate::app::{self, ChannelKind, Procedure, Request, Runtime, SopJournal, SopPlaces, SopStart};
use crate::base::time::{utc, utc_ms};
use crate::cli::answers::agent::{say, tell, watch_interrupts};
use crate::cli::answers::norris::amount;
use crate::cli::exit;
use crate::cli::out::{columns, out, outln};
use crate::cli::services::service;
use crate::host::{now_unix_ms, working_directory};
use crate::norris::Limits;
use crate::proto::{self, Failure};
use crate::render::text::{escape_visible, table};
use crate::sop::{Budget, Choice, Effect, End, Event, Fired, Problem, Rest, Run, Trigger};

use shown::{
    approval, asked, event_json, event_words, foreseen_json, foreseen_line, print_json, print_problems, procedure_json,
    run_json, status_of, trigger_words,
};
use trust::trust;

/// Runs that a list shows.
const LISTED_MAX: usize = 50;
/// Limit on the runs that are searched for those of one procedure.
const SEARCHED_MAX: usize = 1_000;
/// Interval between looks at a run that another process continues.
const LOOK: Duration = Duration::from_millis(200);
/// The form of `--from`.
const FROM_FORM: &str = "write --from RUN:STEP, as in --from 3:report";

/// The subcommand, as clap knows it.
pub fn definition() -> Command {
    let name = |is_required: bool| Arg::new("name").value_name("NAME").required(is_required).help("The procedure");
    let id = |is_required: bool| {
        let help = if is_required { "The run" } else { "The run; the newest one if left out" };
        Arg::new("id").value_name("RUN").required(is_required).value_parser(clap::value_parser!(i64)).help(help)
    };
    let json = || Arg::new("json").long("json").action(ArgAction::SetTrue).help("Prints JSON");
    let text = |name: &'static str, value: &'static str| Arg::new(name).long(name).value_name(value);
    Command::new("sop")
        .about("Runs procedures: steps in a file SOP.toml, which you trust by its content")
        .subcommand_required(true)
        .after_help(exit::run_statuses(true))
        .subcommands([
            Command::new("list").about("Lists the procedures of this workspace and your own").arg(json()),
            Command::new("show")
                .about("Prints a procedure's steps and triggers; runs nothing")
                .args([name(true), json()]),
            Command::new("validate")
                .about("Prints every problem of a procedure, with its line; of all procedures without NAME")
                .args([name(false).help("The procedure, or the path of a SOP.toml"), json()]),
            Command::new("trust")
                .about("Shows a procedure's files and asks whether it may run as it is")
                .arg(name(true)),
            Command::new("untrust").about("Takes the trust in a procedure back").arg(name(true)),
            run_definition(name(true)),
            Command::new("runs")
                .about("Lists the newest runs, of all procedures without NAME")
                .args([name(false), json()]),
            Command::new("status").about("Prints a run; lists the newest runs without RUN").args([id(false), json()]),
            Command::new("approve")
                .about("Says yes to exactly what a run waits for, and continues it")
                .args([id(true), json()]),
            Command::new("reject").about("Says no to what a run waits for, and continues it").args([
                id(true),
                Arg::new("text").value_name("TEXT").num_args(0..).help("The reason"),
                json(),
            ]),
            Command::new("resume").about("Continues a run that was killed, paused or ended by its budget").args([
                id(true),
                text("step", "WHAT")
                    .value_parser(["done", "again", "skip"])
                    .help("A step that may have run: it is done, runs again, or is left out"),
                amount("budget-usd", "DOLLARS").help("The most that it may cost"),
                text("budget-tokens", "N").value_parser(clap::value_parser!(u64)).help("The most tokens"),
                amount("budget-minutes", "N").help("The most minutes of work"),
                json(),
            ]),
            Command::new("cancel").about("Ends a run for good").arg(id(true)),
            Command::new("replay")
                .about("Goes through a run's journal without running anything, and compares each decision with today's")
                .args([
                    id(true),
                    text("to", "STEP").help("Goes only to the end of a step, and prints the run as it was then"),
                    json(),
                ]),
            Command::new("log").about("Prints the events of a run").visible_alias("logs").args([id(false), json()]),
        ])
}

/// `run`, as clap knows it.
fn run_definition(name: Arg) -> Command {
    let flag = |name: &'static str| Arg::new(name).long(name).action(ArgAction::SetTrue);
    Command::new("run").about("Runs a procedure; at a terminal its questions are asked at once").args([
        name,
        Arg::new("input")
            .long("input")
            .value_name("NAME=VALUE")
            .action(ArgAction::Append)
            .help("An input's value; may be given again"),
        flag("no-wait").help("Leaves questions open, for reedclaw sop approve"),
        flag("wait").conflicts_with("no-wait").help("Ends with the run, although someone else answers its questions"),
        Arg::new("from")
            .long("from")
            .value_name("RUN:STEP")
            .conflicts_with_all(["input", "dry-run"])
            .help("Begins at a step; the inputs and the results before it are those of an earlier run"),
        flag("dry-run").help("Prints what the rules would say of each step by now; runs nothing"),
        flag("json").help("Prints JSON"),
    ])
}

/// Carries it out; `config` is the file that `--config` names, `path` the option before the subcommand.
pub fn run(matches: &ArgMatches, config: Option<PathBuf>, path: Option<PathBuf>) -> ExitCode {
    let status = carried_out(matches, config, path).unwrap_or_else(|failure| {
        let known = matches.subcommand().filter(|(word, _)| ["run", "approve", "reject", "resume"].contains(word));
        let is_json = known.is_some_and(|(_, inner)| inner.get_flag("json"));
        let id = known.and_then(|(_, inner)| inner.try_get_one::<i64>("id").ok().flatten().copied());
        exit::run_failed(&failure, id, is_json)
    });
    ExitCode::from(status)
}

/// The parts of a call of the subcommand.
struct SopCall<'m> {
    matches: &'m ArgMatches,
    runtime: Runtime,
    workspace: PathBuf,
    is_json: bool,
}

fn carried_out(matches: &ArgMatches, config: Option<PathBuf>, path: Option<PathBuf>) -> Result<u8, Failure> {
    let Some((word, matches)) = matches.subcommand() else { return Ok(exit::USAGE) };
    let around = path.unwrap_or_else(working_directory);
    let around = around.canonicalize().map_err(|error| Failure::user(format!("{}: {error}", around.display())))?;
    let cwd = Some(around.clone());
    let runtime = Runtime::start(&Request { config, channel: ChannelKind::Agent, cwd, ..Request::default() })?;
    runtime.problems().iter().for_each(tell);
    let workspace = runtime.workspace_around(&around);
    let is_json = matches.try_get_one::<bool>("json").ok().flatten().copied().unwrap_or(false);
    let call = SopCall { matches, runtime, workspace, is_json };
    match word {
        "list" => call.list(),
        "show" => call.show(),
        "validate" => call.validate(),
        "trust" => call.trust(),
        "untrust" => call.untrust(),
        "run" if call.matches.get_flag("dry-run") => call.foresee(),
        "run" => call.begin(),
        "runs" => call.runs(),
        "status" => call.status(),
        "log" => call.log(),
        "replay" => call.replay(),
        "cancel" => call.cancel(),
        _ => call.go_on(word),
    }
}

impl SopCall<'_> {
    fn name(&self) -> &str {
        self.matches.get_one::<String>("name").map_or("", String::as_str)
    }

    fn procedure(&self) -> Result<Procedure, Failure> {
        app::find_procedure(self.places(), &self.workspace, self.name())
    }

    fn places(&self) -> SopPlaces<'_> {
        (&self.runtime.settings().sop.dirs, self.runtime.env())
    }

    fn journal(&self) -> Result<SopJournal, Failure> {
        self.runtime.check_stored()?;
        let id = self.matches.get_one::<i64>("id").copied();
        app::find_sop_run(self.runtime.settings(), self.runtime.env(), self.runtime.store(), id)
    }

    fn list(&self) -> Result<u8, Failure> {
        let found = app::procedures(self.places(), &self.workspace);
        let runs = self.last_runs()?;
        let next = |it: &Procedure| app::next_time(it, now_unix_ms()).map(utc);
        if self.is_json {
            let one = |it: &Procedure| {
                let mut line = procedure_json(it);
                line["next"] = next(it).into();
                line["last"] =
                    runs.get(&it.name).map_or(Value::Null, |run| json!({"run": run.id, "state": run.word()}));
                line
            };
            print_json(&found.iter().map(one).collect());
            return Ok(exit::DONE);
        }
        if found.is_empty() {
            let place = self.workspace.join("sops/NAME/SOP.toml");
            outln!(
                "There is no procedure here. One is a file {}; the documentation's page on procedures has an example.",
                place.display()
            );
        }
        let row = |it: &Procedure| {
            let triggers = it.definition.as_ref().map(|it| it.triggers.as_slice()).unwrap_or_default();
            let triggers: Vec<String> = triggers.iter().map(trigger_words).collect();
            let whose = if it.is_project { "project" } else { "yours" };
            let description = it.definition.as_ref().map_or("", |it| it.description.as_str());
            let next = next(it).map_or_else(String::new, |next| format!("next {next}"));
            let last = runs.get(&it.name).map_or_else(String::new, |run| format!("run {} {}", run.id, run.word()));
            let triggers = triggers.join("; ");
            [it.name.as_str(), whose, it.standing(), &triggers, &next, &last, description].map(escape_visible).to_vec()
        };
        out!("{}", table(&found.iter().map(row).collect::<Vec<_>>(), columns()));
        let waits = |it: &Procedure| {
            let triggers = it.usable().map(|it| it.triggers.as_slice()).unwrap_or_default();
            triggers.iter().any(|trigger| matches!(trigger, Trigger::Cron { .. } | Trigger::File { .. }))
        };
        if found.iter().any(waits) && !service::runs(self.runtime.env()) {
            outln!(
                "The service doesn't run, so times and files begin nothing: reedclaw service install, or service run."
            );
        }
        Ok(exit::DONE)
    }

    /// The newest run of each procedure, by its name.
    fn last_runs(&self) -> Result<BTreeMap<String, Run>, Failure> {
        let mut found = BTreeMap::new();
        for journal in app::sop_runs(self.runtime.settings(), self.runtime.env(), self.runtime.store(), SEARCHED_MAX)? {
            if !found.contains_key(&journal.name) {
                found.insert(journal.name.clone(), journal.state()?);
            }
        }
        Ok(found)
    }

    fn show(mut self) -> Result<u8, Failure> {
        let procedure = self.procedure()?;
        // Without a workspace, or without a value for an input, no step can be judged yet.
        let seen = self.foreseen(&procedure, &BTreeMap::new()).unwrap_or_default();
        if self.is_json {
            let mut line = procedure_json(&procedure);
            for (at, step) in seen.iter().enumerate() {
                line["steps"][at]["outlook"] = step.outlook.word().into();
            }
            print_json(&line);
            return Ok(exit::DONE);
        }
        outln!("{} ({}, {})", escape_visible(&procedure.name), procedure.standing(), procedure.file().display());
        let Some(definition) = &procedure.definition else {
            print_problems(&procedure, &procedure.problems);
            return Ok(exit::FAILED);
        };
        let budget = definition.budget;
        outln!("{}", escape_visible(&definition.description));
        outln!(
            "mode {}; at most ${}, {} tokens, {} min",
            definition.mode.word(),
            budget.usd,
            budget.tokens,
            budget.minutes
        );
        for (name, input) in &definition.inputs {
            let default =
                input.default.as_ref().map_or_else(|| "no default".to_owned(), |it| format!("default {it:?}"));
            outln!("input {name} ({}): {}", escape_visible(&default), escape_visible(&input.description));
        }
        definition.triggers.iter().for_each(|trigger| outln!("trigger {}", escape_visible(&trigger_words(trigger))));
        for (at, step) in definition.steps.iter().enumerate() {
            match seen.get(at) {
                Some(seen) => outln!("{}", escape_visible(&foreseen_line(seen))),
                None => outln!("step {} ({}, line {})", step.id, step.act.word(), step.line),
            }
        }
        Ok(exit::DONE)
    }

    fn validate(&self) -> Result<u8, Failure> {
        let all = app::procedures(self.places(), &self.workspace);
        let found = match self.name() {
            "" => all.clone(),
            name if name.contains('/') || name.ends_with(".toml") => {
                vec![app::procedure_at(self.runtime.env(), &self.runtime.cwd().join(name))?]
            }
            _ => vec![self.procedure()?],
        };
        let tools = app::step_tools(self.runtime.settings(), self.runtime.env());
        let checked: Vec<(Procedure, Vec<Problem>)> = found
            .into_iter()
            .map(|it| {
                let problems = app::procedure_problems(&tools, &it, &all);
                (it, problems)
            })
            .collect();
        let is_good = checked.iter().all(|(_, problems)| problems.is_empty());
        if self.is_json {
            let problem = |it: &Problem| json!({"line": it.line, "message": it.what, "hint": it.hint});
            let one = |(it, problems): &(Procedure, Vec<Problem>)| {
                let problems: Vec<Value> = problems.iter().map(problem).collect();
                json!({"name": it.name, "file": it.file(), "problems": problems})
            };
            print_json(&checked.iter().map(one).collect());
        } else {
            for (procedure, problems) in &checked {
                print_problems(procedure, problems);
                if problems.is_empty() {
                    outln!("{}: no problem", procedure.file().display());
                }
            }
        }
        Ok(if is_good { exit::DONE } else { exit::FAILED })
    }

    fn trust(&self) -> Result<u8, Failure> {
        let procedure = self.procedure()?;
        if procedure.is_trusted {
            outln!("The procedure {} is trusted already.", procedure.name);
            return Ok(exit::DONE);
        }
        trust(&self.runtime, &procedure)
    }

    fn untrust(&self) -> Result<u8, Failure> {
        let procedure = self.procedure()?;
        let was_trusted = app::untrust_procedure(self.runtime.env(), &procedure)?;
        outln!(
            "The procedure {} {}.",
            procedure.name,
            if was_trusted { "isn't trusted any more" } else { "wasn't trusted" }
        );
        Ok(exit::DONE)
    }

    /// Prints the present verdict of the rules on each step.
    fn foresee(mut self) -> Result<u8, Failure> {
        let procedure = self.procedure()?;
        let seen = self.foreseen(&procedure, &inputs(self.matches)?)?;
        if self.is_json {
            print_json(&seen.iter().map(foreseen_json).collect());
            return Ok(exit::DONE);
        }
        if !procedure.is_trusted {
            outln!("The procedure {} isn't trusted, so it wouldn't run.", procedure.name);
        }
        seen.iter().for_each(|step| outln!("{}", escape_visible(&foreseen_line(step))));
        outln!("Nothing has run.");
        Ok(exit::DONE)
    }

    /// Plans and judges the steps of a run that would begin now; nothing runs.
    fn foreseen(
        &mut self,
        procedure: &Procedure,
        inputs: &BTreeMap<String, String>,
    ) -> Result<Vec<procedure::Foreseen>, Failure> {
        let run = app::imagined_run(procedure, inputs)?;
        let workspace = procedure.workspace(self.runtime.env(), &self.workspace)?;
        let app::BuiltRunner { runner, problems } = self.runtime.runner_in(&workspace, Some(ChannelKind::Agent))?;
        problems.iter().for_each(tell);
        self.runtime.agent_mut().replace_tools(Some(runner));
        procedure::foresee(self.runtime.agent_mut(), &run)
    }

    fn begin(mut self) -> Result<u8, Failure> {
        if let Some(failure) = app::closed(self.runtime.settings(), ChannelKind::Agent) {
            return Err(failure);
        }
        let mut procedure = self.procedure()?;
        let asks = is_terminal() && !self.matches.get_flag("no-wait") && !self.is_json;
        if asks && !procedure.is_trusted && procedure.definition.is_some() {
            let status = trust(&self.runtime, &procedure)?;
            if status != exit::DONE {
                return Ok(status);
            }
            // The same files are read again, in case they change during the question.
            procedure = self.procedure()?;
        }
        let tools = app::step_tools(self.runtime.settings(), self.runtime.env());
        let problems = app::procedure_problems(&tools, &procedure, &app::procedures(self.places(), &self.workspace));
        if !problems.is_empty() && procedure.problems.is_empty() {
            if !self.is_json {
                print_problems(&procedure, &problems);
            }
            let hint = format!("reedclaw sop validate {} lists them", procedure.name);
            return Err(Failure::user(format!("the procedure {} has problems", procedure.name)).hint(&hint));
        }
        procedure.usable()?;
        let workspace = procedure.workspace(self.runtime.env(), &self.workspace)?;
        let held = app::hold_workspace(self.runtime.env(), &workspace)?;
        let mut inputs = inputs(self.matches)?;
        let (mut trigger, mut taken) = (Fired::by("manual"), Vec::new());
        if let Some(from) = self.matches.get_one::<String>("from") {
            let (before, step) = self.earlier(from, &procedure)?;
            let results = before.results_before(step, procedure.usable()?);
            taken = results.map_err(|why| {
                Failure::user(format!("--from {from}: {why}")).hint("run the procedure from its beginning")
            })?;
            (trigger.path, trigger.body, inputs) = (before.trigger.path, before.trigger.body, before.inputs);
        }
        let with = SopStart { inputs: &inputs, trigger, slot: None, taken };
        let parts = (self.runtime.settings(), self.runtime.env());
        let begun = app::begin_procedure(parts, self.runtime.store(), &procedure, &workspace, with)?;
        let Some(journal) = begun else { return Ok(exit::FAILED) };
        let status = work(&mut self.runtime, &journal, self.is_json, asks);
        drop(held);
        if self.matches.get_flag("wait") { self.wait(&journal, status) } else { Ok(status) }
    }

    /// Waits for the end of a run that another process answers and continues.
    fn wait(&self, journal: &SopJournal, status: u8) -> Result<u8, Failure> {
        if status != exit::HALTED {
            return Ok(status);
        }
        loop {
            let run = journal.state()?;
            if run.end.is_some() || run.is_estop {
                let status = status_of(&run);
                if self.is_json {
                    exit::run_line(Some(run.id), run.word(), status, run.end.as_ref().map_or("", |end| end.why()));
                } else {
                    app::sop_lines(journal, &run).iter().for_each(|line| outln!("{}", escape_visible(line)));
                }
                return Ok(status);
            }
            std::thread::park_timeout(LOOK);
        }
    }

    /// The run that `--from RUN:STEP` names, and the step.
    fn earlier<'f>(&self, from: &'f str, procedure: &Procedure) -> Result<(Run, &'f str), Failure> {
        let named = from.split_once(':').and_then(|(run, step)| Some((run.parse::<i64>().ok()?, step)));
        let (id, step) =
            named.ok_or_else(|| Failure::user(format!("--from {from}: that is no run with a step")).hint(FROM_FORM))?;
        let (settings, env) = (self.runtime.settings(), self.runtime.env());
        let run = app::find_sop_run(settings, env, self.runtime.store(), Some(id))?.state()?;
        if Path::new(&run.place) != procedure.place {
            let hint = format!("reedclaw sop runs {} lists its runs", procedure.name);
            return Err(Failure::user(format!("run {id} isn't one of the procedure {}", procedure.name)).hint(&hint));
        }
        Ok((run, step))
    }

    /// Adds a person's answer to a run, and continues it.
    fn go_on(mut self, word: &str) -> Result<u8, Failure> {
        let journal = self.journal()?;
        let held = app::hold_workspace(self.runtime.env(), &journal.workspace)?;
        let (journal, run) = if word == "resume" { (journal.clone(), journal.state()?) } else { journal.waiting()? };
        if run.end.is_some() && word != "resume" {
            return Err(ended(&run));
        }
        let step = run.asked.as_ref().map(|(at, ..)| run.definition().map_or("", |it| &it.steps[*at].id).to_owned());
        let waits_not =
            || Failure::user(format!("run {} waits for no answer", journal.run())).hint("reedclaw sop status shows it");
        let asks = is_terminal() && !self.is_json;
        match word {
            "approve" => {
                let step = step.ok_or_else(waits_not)?;
                let covers = run.asked.as_ref().map(|(_, _, covers)| covers.as_slice()).unwrap_or_default();
                // A yes covers only calls that were shown.
                let shows = asks && !covers.is_empty();
                let answer = if shows { asked(&journal, &run) } else { Some(approval(step, covers)) };
                let Some(answer) = answer else { return Ok(exit::HALTED) };
                journal.add(&answer)?;
            }
            "reject" => {
                let words = self.matches.get_many::<String>("text").into_iter().flatten();
                let why = words.map(String::as_str).collect::<Vec<_>>().join(" ");
                journal.add(&Event::Rejected { step: step.ok_or_else(waits_not)?, why })?;
            }
            _ => self.resume(&journal, &run)?,
        }
        let status = work(&mut self.runtime, &journal.outermost()?, self.is_json, asks);
        drop(held);
        Ok(status)
    }

    fn resume(&self, journal: &SopJournal, run: &Run) -> Result<(), Failure> {
        let number = |name: &str| self.matches.get_one::<f64>(name).copied();
        let tokens = self.matches.get_one::<u64>("budget-tokens").copied();
        if run.end.as_ref().is_some_and(|end| !matches!(end, End::Budget(_))) {
            return Err(Failure::user(has_ended(run)).hint("reedclaw sop run begins another one"));
        }
        if number("budget-usd").is_some() || number("budget-minutes").is_some() || tokens.is_some() {
            let Budget { usd, tokens: before, minutes } = run.budget;
            let usd = number("budget-usd").unwrap_or(usd);
            let minutes = number("budget-minutes").unwrap_or(minutes);
            let limits = Limits { usd: Some(usd), minutes: Some(minutes), ..Limits::default() };
            if let Some(problem) = limits.problem() {
                return Err(Failure::user(problem));
            }
            journal.add(&Event::Raised { usd, tokens: tokens.unwrap_or(before), minutes })?;
        } else if run.end.is_some() {
            return Err(Failure::user(has_ended(run))
                .hint("--budget-usd, --budget-tokens or --budget-minutes lets it continue"));
        }
        if run.paused.is_some() {
            journal.add(&Event::Resumed)?;
        }
        let choice = match self.matches.get_one::<String>("step").map(String::as_str) {
            Some("done") => Choice::Done,
            Some("again") => Choice::Again,
            Some(_) => Choice::Skip,
            None => return Ok(()),
        };
        let run = journal.state()?;
        let Effect::Rest(Rest::Unknown(at)) = run.next(&journal.spent(&run)?) else {
            return Err(
                Failure::user(format!("no step of run {} may have run unnoticed", run.id)).hint("leave --step out")
            );
        };
        let step = run.definition().map(|it| it.steps[at].id.clone()).unwrap_or_default();
        journal.add(&Event::Decided { step, choice })
    }

    fn cancel(&self) -> Result<u8, Failure> {
        let journal = self.journal()?;
        let run = journal.state()?;
        if run.end.is_some() {
            return Err(ended(&run));
        }
        // The run of a step ends first, so that none is left without its outer run.
        let mut chain = vec![journal];
        chain.extend(chain[0].awaited()?);
        for journal in chain.iter().rev() {
            journal.add(&Event::CancelAsked)?;
            let run = journal.state()?;
            // No process works on a run that rests, so its end is written here.
            let held = app::hold_workspace(self.runtime.env(), &journal.workspace);
            if held.is_ok() || !run.is_active() {
                let spent = journal.spent(&run)?;
                let effect = run.next(&spent);
                let decision = effect.decision(&run, &spent);
                if let Effect::Finish(end) = effect {
                    journal.add(&Event::Finished { decision, end: end.word().into(), why: end.why().into() })?;
                }
            }
        }
        match chain[0].state()?.end {
            Some(_) => outln!("Run {}: cancelled.", run.id),
            None => outln!("Run {}: it is to end; the process that works on it ends it.", run.id),
        }
        Ok(exit::DONE)
    }

    fn status(&self) -> Result<u8, Failure> {
        if self.matches.get_one::<i64>("id").is_some() {
            let journal = self.journal()?;
            let run = journal.state()?;
            if self.is_json {
                print_json(&self.run_json(&journal, &run));
            } else {
                app::sop_lines(&journal, &run).iter().for_each(|line| outln!("{}", escape_visible(line)));
                if self.is_left(&journal, &run) {
                    outln!("No process works on it: reedclaw sop resume {} or the service continues it", run.id);
                }
            }
            return Ok(exit::DONE);
        }
        self.list_runs("")
    }

    /// Returns whether a run should work, and no process works on it. A process may have ended it since it was read, and be gone.
    fn is_left(&self, journal: &SopJournal, run: &Run) -> bool {
        let is_alone = run.is_active() && !app::is_worked_on(self.runtime.env(), &journal.workspace, run.id);
        is_alone && journal.state().is_ok_and(|now| now.is_active())
    }

    fn run_json(&self, journal: &SopJournal, run: &Run) -> Value {
        run_json(journal, run, self.is_left(journal, run))
    }

    fn runs(&self) -> Result<u8, Failure> {
        self.list_runs(self.name())
    }

    /// Lists the newest runs of a procedure; without a name, those of all procedures.
    fn list_runs(&self, name: &str) -> Result<u8, Failure> {
        self.runtime.check_stored()?;
        let (settings, env) = (self.runtime.settings(), self.runtime.env());
        let most = if name.is_empty() { LISTED_MAX } else { SEARCHED_MAX };
        let mut runs = app::sop_runs(settings, env, self.runtime.store(), most)?;
        runs.retain(|it| name.is_empty() || it.name == name);
        runs.truncate(LISTED_MAX);
        let states = runs.iter().map(|it| Ok((it, it.state()?))).collect::<Result<Vec<_>, Failure>>()?;
        if self.is_json {
            print_json(&states.iter().map(|(journal, run)| self.run_json(journal, run)).collect());
            return Ok(exit::DONE);
        }
        match name {
            "" if states.is_empty() => outln!("No procedure has run yet. reedclaw sop run NAME runs one."),
            name if states.is_empty() => outln!("The procedure {} hasn't run yet.", escape_visible(name)),
            _ => {}
        }
        let rows: Vec<Vec<String>> = states.iter().map(|(journal, run)| app::sop_row(journal, run)).collect();
        out!("{}", table(&rows, columns()));
        Ok(exit::DONE)
    }

    fn log(&self) -> Result<u8, Failure> {
        let journal = self.journal()?;
        for (seq, time, event) in journal.events(0)? {
            let line = event_json(journal.run(), seq, time, &event);
            if self.is_json {
                print_json(&line);
            } else {
                let name = line.get("event").and_then(Value::as_str).unwrap_or_default().to_owned();
                outln!("{} {name}{}", utc_ms(time), escape_visible(&event_words(&event)));
            }
        }
        Ok(exit::DONE)
    }

    fn replay(&self) -> Result<u8, Failure> {
        let journal = self.journal()?;
        let mut events = journal.events(0)?;
        if let Some(to) = self.matches.get_one::<String>("to") {
            let last = events.iter().rposition(|(_, _, event)| event.step() == Some(to.as_str()));
            let none = || {
                Failure::user(format!("run {} did nothing about a step {to}", journal.run()))
                    .hint("sop log lists the steps")
            };
            events.truncate(last.ok_or_else(none)? + 1);
        }
        let replayed = Run::replay(journal.run(), events.iter().map(|(seq, time, event)| (*seq, *time, event)));
        let id = journal.run();
        match (replayed, self.is_json) {
            (Ok(count), true) => print_json(&json!({"run": id, "same": true, "decisions": count})),
            (Ok(count), false) => {
                outln!("Run {id}: all {count} decisions would be the same today.");
                if self.matches.contains_id("to") {
                    let run = Run::of(id, events.iter().map(|(_, time, event)| (*time, event)));
                    app::sop_lines(&journal, &run).iter().for_each(|line| outln!("{}", escape_visible(line)));
                }
            }
            (Err(differs), true) => {
                print_json(&json!({
                    "run": id, "same": false, "seq": differs.seq, "stored": differs.stored,
                    "today": format!("{:?}", differs.today),
                }));
                return Ok(exit::FAILED);
            }
            (Err(differs), false) => {
                outln!("Run {id}: event {} would be another one today.", differs.seq);
                outln!("  stored: {}", escape_visible(&format!("{:?}", differs.stored)));
                outln!("  today:  {}", escape_visible(&format!("{:?}", differs.today)));
                return Ok(exit::FAILED);
            }
        }
        Ok(exit::DONE)
    }
}

/// Works until the run ends or rests; with `asks` its questions are asked at the terminal.
fn work(runtime: &mut Runtime, journal: &SopJournal, is_json: bool, asks: bool) -> u8 {
    let done = worked(runtime, journal, is_json, asks);
    done.unwrap_or_else(|failure| exit::run_failed(&failure, Some(journal.run()), is_json))
}

fn worked(runtime: &mut Runtime, journal: &SopJournal, is_json: bool, asks: bool) -> Result<u8, Failure> {
    runtime.stand_in(journal.workspace.clone());
    let app::BuiltRunner { runner, problems } = runtime.runner_in(&journal.workspace, Some(ChannelKind::Agent))?;
    problems.iter().for_each(tell);
    runtime.agent_mut().replace_tools(Some(runner));
    let cancel = Cancel::new();
    watch_interrupts(&cancel, None);
    let mut seen = SopSeen { is_json };
    seen.line(&format!("run {} of {}", journal.run(), journal.name));
    let run = loop {
        let parts = Work { journal, watcher: &mut seen, cancel: &cancel, stops: &AtomicBool::new(false) };
        let run = procedure::work(runtime.agent_mut(), parts).map_err(|failure| {
            let hint = format!("{}; reedclaw sop resume {} continues", failure.hint, journal.run());
            Failure { hint: hint.trim_start_matches("; ").to_owned(), ..failure }
        })?;
        let (waiting, state) = journal.waiting()?;
        let answer = if asks { asked(&waiting, &state) } else { None };
        let Some(answer) = answer else { break run };
        waiting.add(&answer)?;
        waiting.outermost()?;
    };
    let status = status_of(&run);
    if is_json {
        let why = run.end.as_ref().map(|end| end.why().to_owned()).or_else(|| run.paused.clone()).unwrap_or_default();
        exit::run_line(Some(run.id), run.word(), status, &why);
    } else {
        app::sop_lines(journal, &run).iter().for_each(|line| outln!("{}", escape_visible(line)));
        // A step that may have run needs a person's decision first, which the lines have asked for.
        if run.end.is_none() && run.asked.is_none() && run.word() != "unknown" {
            outln!("reedclaw sop resume {} continues", run.id);
        }
    }
    Ok(status)
}

/// Shows a run on standard error, or as JSON.
struct SopSeen {
    is_json: bool,
}

impl SopSeen {
    fn line(&mut self, text: &str) {
        if !self.is_json {
            say(&escape_visible(text));
        }
    }
}

impl Watcher for SopSeen {
    fn begins(&mut self, run: &Run, effect: &Effect) {
        let Some(definition) = run.definition() else { return };
        let id = |step: usize| definition.steps.get(step).map_or("", |it| it.id.as_str());
        match effect {
            Effect::Begin { step, .. } => {
                self.line(&format!("step {} ({})", id(*step), definition.steps[*step].act.word()))
            }
            Effect::Skip(step) => self.line(&format!("step {} is left out", id(*step))),
            _ => {}
        }
    }

    fn added(&mut self, run: &Run, event: &Event) {
        if self.is_json {
            let mut line = serde_json::to_value(event).unwrap_or_default();
            if let (Some(fields), false) = (line.as_object_mut(), matches!(event, Event::Began { .. })) {
                fields.insert("run".into(), run.id.into());
                print_json(&line);
            }
        }
    }

    fn event(&mut self, event: proto::Event) {
        match event {
            proto::Event::Notice(text) => self.line(&text),
            proto::Event::Tool(tool) => match &tool.step {
                proto::tool::Step::Requested { intent, .. } => self.line(&format!("  {intent}")),
                proto::tool::Step::Denied { why } => self.line(&format!("  denied: {why}")),
                proto::tool::Step::Approved | proto::tool::Step::Done { .. } => {}
            },
            proto::Event::Failed { failure, .. } if !self.is_json => tell(&failure),
            _ => {}
        }
    }
}

fn inputs(matches: &ArgMatches) -> Result<BTreeMap<String, String>, Failure> {
    let words = matches.get_many::<String>("input").into_iter().flatten();
    let mut inputs = BTreeMap::new();
    for text in words {
        let (name, value) = text
            .split_once('=')
            .ok_or_else(|| Failure::user(format!("{text:?} is no input")).hint("--input NAME=VALUE"))?;
        if inputs.insert(name.to_owned(), value.to_owned()).is_some() {
            return Err(Failure::user(format!("the input {name} is named twice")).hint("name each input once"));
        }
    }
    Ok(inputs)
}

fn is_terminal() -> bool {
    std::io::stdin().is_terminal() && std::io::stderr().is_terminal()
}

fn has_ended(run: &Run) -> String {
    format!("run {} has ended: {}", run.id, run.word())
}

/// The failure of an answer to a run that has ended.
fn ended(run: &Run) -> Failure {
    Failure::user(has_ended(run)).hint("reedclaw sop status shows it")
}
