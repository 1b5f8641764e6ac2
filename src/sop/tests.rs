//! A procedure from its text to its end, without running anything.

use std::collections::BTreeMap;

use serde_json::{Map, json};

use super::*;

const DAILY: &str = r#"
name = "daily-check"
description = "Runs a daily workspace check"

[inputs.day]
default = "today"

[[triggers]]
kind = "cron"
at = "0 7 * * 1-5"
tz = "Europe/Berlin"
catch_up = "once"

[[steps]]
id = "list"
kind = "tool"
tool = "file_list"
args = { path = "." }

[[steps]]
id = "summarize"
kind = "agent"
prompt = "Summarize the file list from the previous step."

[[steps]]
id = "approval"
kind = "approval"
prompt = "Continue to write report?"
covers = ["write"]

[[steps]]
id = "write"
kind = "tool"
tool = "file_write"
args = { path = "daily-check.txt", content_from = "summarize" }
on_failure = "abort"
"#;

fn head(steps: &str) -> String {
    format!("name = \"x\"\n{steps}")
}

fn steps(parts: &[&str]) -> String {
    head(&parts.iter().map(|part| format!("[[steps]]\n{part}\n")).collect::<String>())
}

fn good(text: &str) -> Definition {
    let (definition, problems) = read(text);
    assert_eq!(problems, [], "{text}");
    definition.expect("a definition")
}

#[test]
fn the_example_of_the_format_is_read() {
    let daily = good(DAILY);
    assert_eq!((daily.name.as_str(), daily.mode, daily.budget.usd), ("daily-check", Mode::Supervised, 0.5));
    let kinds: Vec<&str> = daily.steps.iter().map(|step| step.act.word()).collect();
    assert_eq!(kinds, ["tool", "model", "approval", "tool"]);
    assert_eq!(daily.steps[3].line, 32, "the line of the step's first key");
    assert!(daily.steps[0].act.is_literal() && !daily.steps[3].act.is_literal());
    assert_eq!(daily.inputs(&BTreeMap::new()), Ok([("day".to_owned(), "today".to_owned())].into()));
    assert!(daily.inputs(&[("night".to_owned(), String::new())].into()).is_err());
}

#[test]
fn a_check_changes_nothing_and_an_output_has_its_form_and_length() {
    let definition = good(&steps(&[
        "id = \"a\"\nkind = \"check\"\ncommand = \"make test\"",
        "id = \"b\"\nkind = \"model\"\nprompt = \"p\"\nschema = { type = \"object\", required = [\"n\"] }",
        "id = \"c\"\nkind = \"shell\"\ncommand = \"c\"\nkeep_bytes = 10",
    ]));
    assert!(definition.steps[0].is_repeatable && definition.steps[0].act.word() == "check");
    let schema = definition.steps[1].schema.as_ref().expect("a schema");
    assert!(schema.read("{\"n\": 1}").is_ok() && schema.read("{}").is_err());
    assert_eq!(definition.steps[2].keep_bytes, Some(10));
    for (step, part) in [
        ("id = \"a\"\nkind = \"check\"\ncommand = \"c\"\nwrites = [\"x\"]", "no key writes"),
        ("id = \"a\"\nkind = \"wait\"\nseconds = 1\nkeep_bytes = 1", "no key keep_bytes"),
        ("id = \"a\"\nkind = \"shell\"\ncommand = \"c\"\nschema = \"x\"", "schema of step a must be a table"),
        ("id = \"a\"\nkind = \"shell\"\ncommand = \"c\"\nschema = { type = 3 }", "schema of step a:"),
        ("id = \"a\"\nkind = \"shell\"\ncommand = \"c\"\nkeep_bytes = 9000000", "keep_bytes of step a must be"),
    ] {
        let (_, problems) = read(&steps(&[step]));
        assert!(problems.iter().any(|it| it.what.contains(part)), "{part}: {problems:#?}");
    }
}

#[test]
fn all_problems_are_named_in_one_pass_with_their_lines() {
    let text = r#"name = "No Name"
mode = "wild"
colour = "red"
[[triggers]]
kind = "cron"
at = "61 * * * *"
[[triggers]]
kind = "file"
paths = ["../out/*"]
[[steps]]
id = "one"
kind = "tool"
tool = "file_read"
args = { path_from = "two" }
[[steps]]
id = "one"
kind = "dance"
[[steps]]
id = "two"
kind = "shell"
command = "true"
env_from = { PATH = "input.nothing" }
when = "three == 5"
speed = 3
[[steps]]
id = "ask"
kind = "approval"
prompt = "Go?"
covers = ["two"]
[[steps]]
kind = "wait"
"#;
    let (definition, problems) = read(text);
    assert_eq!(definition, None);
    let found: Vec<(usize, &str)> = problems.iter().map(|it| (it.line, it.what.as_str())).collect();
    for (line, part) in [
        (1, "can't be a name"),
        (2, "mode"),
        (3, "no key colour"),
        (6, "is no time: minute"),
        (9, "leads out of the workspace"),
        (14, "isn't an earlier step"),
        (16, "another step one in line 11"),
        (17, "can't be \"dance\""),
        (22, "PATH can't be a variable"),
        (22, "input.nothing"),
        (23, "double quotes"),
        (24, "no key speed"),
        (29, "covers two"),
        (31, "has no id"),
        (31, "has no seconds"),
    ] {
        assert!(found.iter().any(|(at, what)| *at == line && what.contains(part)), "{line} {part}: {found:#?}");
    }
    assert!(problems.iter().all(|it| it.what.len() > 5), "{problems:#?}");
    let (_, problems) = read("name = \"x\nsteps = 3\n");
    assert!(problems.iter().any(|it| it.what.contains("no TOML") && it.line == 1), "{problems:?}");
}

#[test]
fn values_that_could_never_hold_are_problems() {
    let step =
        |rest: &str| format!("name = \"x\"\n[[steps]]\nid = \"a\"\nkind = \"shell\"\ncommand = \"true\"\n{rest}\n");
    let next = |rest: &str| step(&format!("[[steps]]\nid = \"b\"\n{rest}"));
    let trigger = |rest: &str| step(&format!("[[triggers]]\n{rest}"));
    for (text, part) in [
        (next("kind = \"condition\"\ntest = \"a.success && b\""), "\"a.success && b\" is no source"),
        (next("kind = \"wait\"\nseconds = 1\nwhen = \"a.exitCode > 3\""), "\"a.exitCode > 3\" is no source"),
        (next("kind = \"tool\"\ntool = \"x\"\nargs = { path = \"1\", path_from = \"a\" }"), "both path and path_from"),
        (next("kind = \"norris\"\ngoal = \"go\"\nchecks = [\"\"]"), "a check of step b is empty"),
        (next("kind = \"norris\"\ngoal = \"go\"\nwrites = [\"[\"]"), "\"[\" is no pattern"),
        (step("cwd = \"sub/../..\""), "\"sub/../..\" leads out of the workspace"),
        (step("writes = [\"[\"]"), "\"[\" is no pattern"),
        (step("timeout_ms = 1\nnope = 1"), "has no key nope"),
        (trigger("kind = \"file\"\npaths = []"), "has no paths"),
        (trigger("kind = \"file\"\npaths = [\"\"]"), "a path is empty"),
        (trigger("kind = \"webhook\"\nsecret_env = \"a b\""), "can't be the name of a variable"),
        (trigger("kind = \"cron\"\nat = \"*/0 * * * *\""), "minute \"*/0\" has a step that isn't"),
        ("name = 1\nversion = 1\nnope = 1\n".to_owned(), "name of the procedure is an integer"),
    ] {
        let (definition, problems) = read(&text);
        assert!(definition.is_none() && problems.iter().any(|it| it.what.contains(part)), "{part}: {problems:#?}");
        let twice =
            problems.iter().find(|it| it.hint.contains("version, version") || it.hint.contains("notify, notify"));
        assert_eq!(twice, None);
    }
    let good = next("kind = \"condition\"\ntest = \"a.user-name.0 == \\\"x > y\\\"\"");
    assert_eq!(read(&good).1, []);
    // A text with problems is still read, so that all of it can be checked.
    let (definition, problems) = crate::sop::read_partly(&trigger("kind = \"cron\"\nat = \"x\"\ntz = \"Nowhere\""));
    assert!(definition.is_some_and(|it| it.triggers.len() == 1) && problems.len() == 1);
}

/// The events of a run, and a clock that ticks.
#[derive(Clone)]
struct World {
    events: Vec<(i64, Event)>,
    /// The run after its first event. Parsing the procedure in that event takes longer than applying all others.
    begun: Run,
    now: i64,
}

impl World {
    fn new(text: &str, inputs: &[(&str, &str)]) -> Self {
        let named = inputs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        let inputs = good(text).inputs(&named).expect("inputs");
        let trigger = Fired { kind: "manual".into(), ..Fired::default() };
        let (text, sha256, place) = (text.to_owned(), String::new(), String::new());
        Self::beginning_with(Event::Began { text, sha256, place, inputs, trigger, taken: Vec::new(), most: None })
    }

    fn beginning_with(first: Event) -> Self {
        let begun = Run::of(7, [(1_000, &first)]);
        Self { events: vec![(1_000, first)], begun, now: 1_000 }
    }

    fn run(&self) -> Run {
        let mut run = self.begun.clone();
        self.events[1..].iter().for_each(|(time, event)| run.apply(*time, event));
        run
    }

    fn add(&mut self, event: Event) {
        self.now += 10;
        self.events.push((self.now, event));
    }

    fn spent(&self) -> Spent {
        Spent { now: self.now, ..Spent::default() }
    }

    fn enter(&mut self) {
        self.add(Event::Entered { pid: 1, conversation: Some(3) });
    }

    /// Does the next step as a driver does; `act` returns the result of a call or a question. Returns whether the run continues.
    fn advance(&mut self, act: &mut dyn FnMut(&str, &Value) -> Result<String, String>) -> bool {
        let (run, spent) = (self.run(), self.spent());
        let effect = run.next(&spent);
        let decision = effect.decision(&run, &spent);
        let id = |at: usize| run.definition().expect("a definition").steps[at].id.clone();
        match effect {
            Effect::Over(_) | Effect::Rest(_) => return false,
            Effect::Finish(end) => {
                self.add(Event::Finished { decision, end: end.word().into(), why: end.why().into() });
            }
            Effect::Skip(at) => self.add(Event::Skipped { step: id(at), decision }),
            Effect::Conclude { step, error } => {
                let success = error.is_none();
                self.add(Event::Concluded { step: id(step), decision, success, error: error.unwrap_or_default() });
            }
            Effect::Ask { step, prompt, covers } => {
                let covered = |(at, _): &(usize, Value)| Covered {
                    step: id(*at),
                    digest: format!("digest of {}", id(*at)),
                    ..Covered::default()
                };
                let covers = covers.iter().map(covered).collect();
                self.add(Event::Asked { step: id(step), decision, prompt, covers });
            }
            Effect::Examine(at) => self.add(Event::Examined { step: id(at), fate: Fate::Unknown }),
            Effect::Sleep { until, .. } => self.now = until,
            Effect::Begin { step, args } => {
                let (risk, tool, args_hash) = ("medium".into(), "t".into(), "h".into());
                self.add(Event::Begun { step: id(step), decision, risk, tool, args_hash, files: Vec::new() });
                let definition = run.definition().expect("a definition");
                if matches!(definition.steps[step].act, Act::Wait { .. }) {
                    return true;
                }
                let (output, error) = match act(&id(step), &args) {
                    Ok(output) => (output, String::new()),
                    Err(error) => (String::new(), error),
                };
                let success = error.is_empty();
                let ended =
                    Event::Ended { step: id(step), success, is_denied: false, output, metadata: Map::new(), error };
                self.add(ended);
            }
        }
        true
    }

    fn finish(&mut self, act: &mut dyn FnMut(&str, &Value) -> Result<String, String>) -> Run {
        self.enter();
        while self.advance(act) {}
        self.run()
    }
}

fn fine(_: &str, _: &Value) -> Result<String, String> {
    Ok("fine".to_owned())
}

#[test]
fn the_example_stops_at_its_approval_and_ends_after_a_yes() {
    let mut world = World::new(DAILY, &[]);
    let mut done = Vec::new();
    let mut act = |id: &str, args: &Value| {
        done.push((id.to_owned(), args.clone()));
        Ok(if id == "summarize" { "three files".to_owned() } else { "a\nb".to_owned() })
    };
    let run = world.finish(&mut act);
    assert_eq!(run.word(), "waiting");
    let (_, prompt, covers) = run.asked.clone().expect("a question");
    assert_eq!((prompt.as_str(), covers.len()), ("Continue to write report?", 1));
    world.add(Event::Approved { step: "approval".into(), digests: vec![covers[0].digest.clone()] });
    assert_eq!(world.run().approved, [(3, "digest of write".to_owned())], "the yes is for the call of its step");
    let run = world.finish(&mut act);
    assert_eq!(run.end, Some(End::Done));
    assert_eq!(done.last().expect("a call").1, json!({"path": "daily-check.txt", "content": "three files"}));
    assert_eq!(done.len(), 3, "{done:?}");
}

#[test]
fn a_no_refuses_and_on_failure_decides_the_end() {
    let mut world = World::new(DAILY, &[]);
    world.finish(&mut fine);
    world.add(Event::Rejected { step: "approval".into(), why: "not today".into() });
    let run = world.finish(&mut fine);
    assert_eq!(run.end.as_ref().map(End::status), Some(3), "{run:?}");
    let failing = |how: &str| {
        steps(&[
            &format!("id = \"a\"\nkind = \"shell\"\ncommand = \"false\"\n{how}"),
            "id = \"b\"\nkind = \"shell\"\ncommand = \"true\"",
        ])
    };
    for (how, status, attempts) in [
        ("", 1, 1),
        ("on_failure = \"continue\"", 10, 1),
        ("retry = { max = 2, delay_ms = 5000 }", 1, 3),
        ("retry = { max = 2 }\non_failure = \"continue\"", 10, 3),
    ] {
        let mut world = World::new(&failing(how), &[]);
        let mut tries = 0;
        let run = world.finish(&mut |id, _| {
            if id == "a" {
                tries += 1;
                return Err("it broke".to_owned());
            }
            Ok(String::new())
        });
        assert_eq!((run.end.as_ref().map(End::status), tries), (Some(status), attempts), "{how}");
        if how.contains("5000") {
            assert!(world.now > 11_000, "the delays have passed: {}", world.now);
        }
    }
}

#[test]
fn conditions_waits_and_tests_decide_what_is_done() {
    let text = steps(&[
        "id = \"a\"\nkind = \"shell\"\ncommand = \"a\"",
        "id = \"b\"\nkind = \"shell\"\ncommand = \"b\"\nwhen = \"!a.success\"",
        "id = \"w\"\nkind = \"wait\"\nseconds = 60",
        "id = \"c\"\nkind = \"condition\"\ntest = \"a == \\\"go\\\"\"",
        "id = \"d\"\nkind = \"shell\"\ncommand = \"d\"",
    ]);
    for (answer, done) in [("go\n", &["a", "d"][..]), ("stop", &["a"])] {
        let mut world = World::new(&text, &[]);
        let mut seen = Vec::new();
        let run = world.finish(&mut |id, _| {
            seen.push(id.to_owned());
            Ok(answer.to_owned())
        });
        assert_eq!(
            (run.end, &seen[..]),
            (Some(End::Done), &done.iter().map(|it| (*it).to_owned()).collect::<Vec<_>>()[..])
        );
        assert!(world.now >= 61_000);
    }
}

#[test]
fn values_come_by_reference_and_are_never_put_into_a_text() {
    let text = r#"name = "x"
[inputs.day]
[[steps]]
id = "a"
kind = "shell"
command = "echo \"$DAY\" {{input.day}} ${input.day}"
env_from = { DAY = "input.day", RUN = "run.id" }
[[steps]]
id = "b"
kind = "tool"
tool = "t"
args = { text = "{{a}}", deep = { part_from = "a.name.1" }, list = [{ x_from = "a.success" }] }
"#;
    let mut world = World::new(text, &[("day", "\"; rm -rf ~")]);
    let mut calls = Vec::new();
    let run = world.finish(&mut |_, args| {
        calls.push(args.clone());
        Ok(r#"{"name": ["one", "two"]}"#.to_owned())
    });
    assert_eq!(run.end, Some(End::Done), "{run:?}");
    assert_eq!(calls[0]["env"], json!({"DAY": "\"; rm -rf ~", "RUN": "7"}));
    assert_eq!(calls[0]["command"], r#"echo "$DAY" {{input.day}} ${input.day}"#);
    assert_eq!(calls[1], json!({"text": "{{a}}", "deep": {"part": "two"}, "list": [{"x": true}]}));
}

#[test]
fn a_run_begins_at_a_later_step_with_the_results_of_an_earlier_one() {
    let text = steps(&[
        "id = \"a\"\nkind = \"shell\"\ncommand = \"a\"",
        "id = \"b\"\nkind = \"shell\"\ncommand = \"b\"\nwhen = \"!a.success\"",
        "id = \"c\"\nkind = \"shell\"\ncommand = \"c\"\non_failure = \"continue\"",
        "id = \"yes\"\nkind = \"approval\"\nprompt = \"Go?\"",
        "id = \"d\"\nkind = \"tool\"\ntool = \"t\"\nargs = { x_from = \"a\" }",
    ]);
    let mut world = World::new(&text, &[]);
    let act = &mut |id: &str, _: &Value| if id == "c" { Err("broken".to_owned()) } else { Ok(format!("of {id}")) };
    let first = world.finish(act);
    assert_eq!(first.asked.as_ref().map(|(at, ..)| *at), Some(3), "{first:?}");

    // The last step may differ by now; the steps before it must be the same.
    let later = good(&text.replace("tool = \"t\"", "tool = \"u\""));
    let results = first.results_before("d", &later).expect("results");
    let ends: Vec<_> = results.iter().map(|it| (it.step.as_str(), it.end)).collect();
    assert_eq!(ends, [("a", EarlierEnd::Done), ("b", EarlierEnd::Skipped), ("c", EarlierEnd::Failed)]);
    for (step, changed, why) in [
        ("e", "", "x has no step e"),
        ("d", "command = \"a\"", "step a is another one than in run 7"),
        ("d", "id = \"b\"", "run 7 had no step b2"),
    ] {
        let name = if changed.starts_with("id") { "id = \"b2\"" } else { "command = \"other\"" };
        let text = if changed.is_empty() { text.clone() } else { text.replace(changed, name) };
        assert_eq!(first.results_before(step, &good(&text)), Err(why.to_owned()));
    }
    let cut = Run::of(7, world.events[..1].iter().map(|(time, event)| (*time, event)));
    assert_eq!(cut.results_before("d", &later), Err("step a isn't done in run 7".to_owned()));

    let (_, mut first) = World::new(&text, &[]).events.remove(0);
    if let Event::Began { taken: place, .. } = &mut first {
        *place = results;
    }
    let mut world = World::beginning_with(first);
    let mut calls = Vec::new();
    let act = &mut |id: &str, args: &Value| {
        calls.push((id.to_owned(), args.clone()));
        Ok(String::new())
    };
    let run = world.finish(act);
    assert_eq!(run.asked.as_ref().map(|(at, ..)| *at), Some(3), "a yes is given anew: {run:?}");
    world.add(Event::Approved { step: "yes".into(), digests: Vec::new() });
    let run = world.finish(act);
    assert_eq!(run.end, Some(End::Partly("failed and left: c".into())));
    assert_eq!(calls, [("d".to_owned(), json!({"x": "of a"}))]);
    let stored = world.events.iter().enumerate().map(|(seq, (time, event))| (seq as i64, *time, event));
    assert!(Run::replay(7, stored).is_ok_and(|compared| compared > 0));
}

#[test]
fn step_by_step_asks_before_each_step() {
    let text = head(
        "mode = \"step\"\n[[steps]]\nid = \"a\"\nkind = \"shell\"\ncommand = \"a\"\n[[steps]]\nid = \"b\"\nkind = \"model\"\nprompt = \"b\"\n",
    );
    let mut world = World::new(&text, &[]);
    for id in ["a", "b"] {
        let run = world.finish(&mut fine);
        let (at, prompt, _) = run.asked.clone().expect("a question");
        assert!(run.steps[at].attempts == 0 && prompt.contains(&format!("Do step {id}")), "{prompt}");
        world.add(Event::Approved { step: id.into(), digests: Vec::new() });
    }
    assert_eq!(world.finish(&mut fine).end, Some(End::Done));
}

/// Returns a pseudorandom number from a seed.
fn random(seed: &mut u64, below: u64) -> u64 {
    *seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    (*seed >> 33) % below
}

/// The effects that really happened, beside the journal's events.
#[derive(Default)]
struct Effects {
    /// The number of times that each step took effect.
    counts: BTreeMap<String, u32>,
    /// True if the newest call took effect.
    newest: bool,
}

#[test]
fn killed_after_any_event_no_step_is_done_twice_and_a_replay_decides_the_same() {
    let text = steps(&[
        "id = \"a\"\nkind = \"shell\"\ncommand = \"a\"",
        "id = \"b\"\nkind = \"tool\"\ntool = \"t\"\nargs = { x_from = \"run.id\" }",
        "id = \"m\"\nkind = \"model\"\nprompt = \"m\"",
        "id = \"ask\"\nkind = \"approval\"\nprompt = \"go?\"\ncovers = [\"c\"]",
        "id = \"w\"\nkind = \"wait\"\nseconds = 1",
        "id = \"c\"\nkind = \"shell\"\ncommand = \"c\"\nidempotent = true",
        "id = \"d\"\nkind = \"shell\"\ncommand = \"d\"",
    ]);
    let start = World::new(&text, &[]);
    for seed in 0..10_000u64 {
        let (mut dice, mut kills, mut effects) = (seed, 0, Effects::default());
        let mut world = start.clone();
        let run = loop {
            world.enter();
            while advance_or_die(&mut world, &mut dice, &mut kills, &mut effects) {}
            let run = world.run();
            match run.next(&world.spent()) {
                Effect::Over(_) => break run,
                Effect::Rest(Rest::Asked) => {
                    world.add(Event::Approved { step: "ask".into(), digests: vec!["digest of c".into()] });
                }
                Effect::Rest(Rest::Unknown(at)) => {
                    // The person checks whether it happened.
                    let step = run.definition().expect("a definition").steps[at].id.clone();
                    let choice = if effects.newest { Choice::Done } else { Choice::Again };
                    world.add(Event::Decided { step, choice });
                }
                // It was killed: another process continues the run.
                _ => {}
            }
        };
        assert_eq!(run.end, Some(End::Done), "seed {seed}");
        for id in ["a", "b", "d"] {
            assert_eq!(effects.counts.get(id), Some(&1), "seed {seed}: {id} of {:?}", effects.counts);
        }
        let numbered = world.events.iter().zip(1..).map(|((time, event), seq)| (seq, *time, event));
        let compared = Run::replay(7, numbered).unwrap_or_else(|differs| panic!("seed {seed}: {differs:?}"));
        assert!(compared >= 8, "seed {seed}: {compared}");
    }
}

/// Does the next step, or is killed during it: before it took effect, or after that and before its result was written.
fn advance_or_die(world: &mut World, dice: &mut u64, kills: &mut u32, effects: &mut Effects) -> bool {
    let before = world.events.len();
    let is_killed = *kills < 12 && random(dice, 3) == 0;
    let takes_effect = !is_killed || random(dice, 2) == 0;
    let mut called = false;
    let goes_on = world.advance(&mut |id, _| {
        (called, effects.newest) = (true, takes_effect);
        if takes_effect {
            *effects.counts.entry(id.to_owned()).or_default() += 1;
        }
        Ok("out".to_owned())
    });
    if is_killed {
        *kills += 1;
        // Only written events survive. The result of a call wasn't written; any other event may have been.
        if called || (world.events.len() > before && random(dice, 2) == 0) {
            world.events.pop();
        }
    }
    goes_on && !is_killed
}

#[test]
fn run_is_at_its_start_until_a_step_begins() {
    let mut world = World::new(&steps(&["id = \"a\"\nkind = \"shell\"\ncommand = \"a\""]), &[]);
    assert!(world.run().is_at_its_start() && world.run().is_active());
    world.finish(&mut fine);
    assert!(!world.run().is_at_its_start());
}

#[test]
fn a_replay_finds_a_decision_that_would_be_another_one() {
    let mut world = World::new(&steps(&["id = \"a\"\nkind = \"shell\"\ncommand = \"a\""]), &[]);
    world.finish(&mut fine);
    let mut events = world.events.clone();
    if let (_, Event::Began { text, .. }) = &mut events[0] {
        *text = text.replace("command = \"a\"", "command = \"b\"");
    }
    let numbered = events.iter().zip(1..).map(|((time, event), seq)| (seq, *time, event));
    let differs = Run::replay(7, numbered).expect_err("another command");
    assert!(matches!(differs.stored, Event::Begun { .. }), "{differs:?}");
}

#[test]
fn events_are_read_as_they_were_written() {
    let mut world = World::new(DAILY, &[]);
    world.finish(&mut fine);
    for (_, event) in &world.events {
        let text = serde_json::to_string(event).expect("written");
        assert_eq!(serde_json::from_str::<Event>(&text).expect("read"), *event, "{text}");
    }
}
