//! Tables and properties of the state machine: its next steps, and the things that can't happen whatever the models answer.

use super::*;

fn goal(checks: usize) -> Goal {
    let limits = Limits { usd: None, tokens: None, minutes: Some(60.0), ..Limits::default() };
    Goal { text: "g".into(), checks: (0..checks).map(|it| format!("check {it}")).collect(), limits, ..Goal::default() }
}

fn begun(goal: Goal) -> Run {
    Run::of([(0, &Event::Began { goal }), (0, &inputs(&[]))])
}

fn checked(check: usize, status: i32, tail: &str) -> Event {
    Event::Checked { check, status: Some(status), tail: tail.into(), took_ms: 1, again: None }
}

/// A check that passes, also with its tests in the state at the start of the run.
fn checked_again(check: usize, status: Option<i32>) -> Event {
    let again = Some(Again { files: vec!["t".into()], status });
    Event::Checked { check, status: Some(0), tail: String::new(), took_ms: 1, again }
}

fn inputs(digests: &[(&str, &str)]) -> Event {
    let digests = digests.iter().map(|(name, digest)| ((*name).to_owned(), (*digest).to_owned())).collect();
    Event::Inputs { digests, base: String::new() }
}

fn worked(tree: &str) -> [Event; 2] {
    let working = Event::Working { task: 0, model: "m".into(), conversation: None };
    [working, Event::Worked { text: "done".into(), tree: tree.into() }]
}

fn apply(run: &mut Run, events: &[Event]) {
    events.iter().for_each(|event| run.apply(0, event));
}

fn next(run: &Run) -> Effect {
    run.next(&Used::default())
}

#[test]
fn a_run_plans_works_checks_and_ends() {
    let mut run = begun(goal(1));
    assert_eq!(next(&run), Effect::Check(0));
    apply(&mut run, &[checked(0, 1, "red")]);
    assert_eq!(next(&run), Effect::Plan);
    apply(&mut run, &[Event::Planned { text: "TASK: a\nTASK: b".into() }]);
    assert_eq!(next(&run), Effect::Work { task: 0, is_escalated: false });
    apply(&mut run, &worked("1"));
    assert_eq!(next(&run), Effect::Work { task: 1, is_escalated: false });
    apply(&mut run, &worked("2"));
    assert_eq!(next(&run), Effect::Check(0));
    apply(&mut run, &[checked(0, 0, "green")]);
    assert_eq!(next(&run), Effect::Finish(End::Verified));
    assert!(run.tasks.iter().all(|task| task.state == TaskState::Checked));
}

#[test]
fn a_failing_check_leads_to_new_attempts_new_plans_and_the_end() {
    let mut run = begun(goal(1));
    apply(&mut run, &[checked(0, 1, ""), Event::Planned { text: String::new() }]);
    assert_eq!(run.tasks[0].text, "g", "a plan without tasks is the goal");
    let (mut plans, mut attempts) = (0, 0);
    let end = loop {
        match next(&run) {
            Effect::Work { .. } => {
                attempts += 1;
                apply(&mut run, &worked("same"));
            }
            Effect::Check(check) => apply(&mut run, &[checked(check, 1, &format!("failed in {attempts} s"))]),
            Effect::Plan => {
                plans += 1;
                apply(&mut run, &[Event::Planned { text: "TASK: again".into() }]);
            }
            Effect::Finish(end) => break end,
            other => panic!("{other:?}"),
        }
    };
    assert!(matches!(end, End::Stuck(_)), "{end:?}");
    assert_eq!((plans, attempts), (2, 9));
}

#[test]
fn a_task_that_failed_twice_is_done_by_the_planners_model() {
    let mut run = begun(Goal { planner: "big".into(), ..goal(1) });
    apply(&mut run, &[checked(0, 1, ""), Event::Planned { text: "TASK: a".into() }]);
    for is_escalated in [false, false, true] {
        assert_eq!(next(&run), Effect::Work { task: 0, is_escalated });
        apply(&mut run, &worked(""));
        apply(&mut run, &[checked(0, 1, "")]);
    }
}

#[test]
fn each_limit_ends_the_run_before_the_next_question() {
    let limits = Limits {
        usd: Some(1.0),
        tokens: Some(100),
        minutes: Some(1.0),
        steps: Some(2),
        calls: Some(1),
        ..Limits::default()
    };
    let at = |events: &[(i64, Event)], used: Used| {
        let mut run = begun(Goal { limits: limits.clone(), ..goal(0) });
        events.iter().for_each(|(time, event)| run.apply(*time, event));
        run.next(&used)
    };
    let planned = (0, Event::Planned { text: "TASK: a\nTASK: b\nTASK: c".into() });
    let asked = |task| (0, Event::Working { task, model: String::new(), conversation: None });
    let used = Used::default();
    let ends = [
        (at(std::slice::from_ref(&planned), Used { usd: 1.0, ..used }), "usd"),
        (at(std::slice::from_ref(&planned), Used { tokens: 100, ..used }), "tokens"),
        (at(std::slice::from_ref(&planned), Used { now: 60_000, ..used }), "minutes"),
        (at(&[planned.clone(), asked(0), asked(0)], used), "steps"),
        (at(&[planned.clone(), (0, Event::Calling { intent: String::new() })], used), "calls"),
    ];
    for (effect, name) in ends {
        assert!(matches!(&effect, Effect::Finish(End::Budget(why)) if why.starts_with(name)), "{name}: {effect:?}");
    }
    let below = Used { usd: 0.99, tokens: 99, now: 59_999 };
    assert_eq!(at(&[planned, asked(0)], below), Effect::Work { task: 0, is_escalated: false });
}

#[test]
fn the_time_of_a_halt_and_between_processes_is_not_work() {
    let mut run = begun(goal(0));
    run.apply(1_000, &Event::Planned { text: "TASK: a".into() });
    run.apply(2_000, &Event::Halted { halt: Halt { digest: "d".into(), ..Halt::default() } });
    run.apply(900_000, &Event::Approved { digest: "d".into() });
    run.apply(900_500, &Event::Entered { pid: 1 });
    run.apply(901_000, &Event::RunsHalted { digest: "d".into() });
    assert_eq!(run.active_ms_at(901_000), 2_500);
    // The sleep of the machine doesn't count either.
    run.apply(9_901_000, &Event::Clocked { active_ms: 3_500 });
    assert_eq!(run.active_ms_at(9_902_000), 4_500);
}

#[test]
fn a_yes_counts_for_its_call_alone_and_once() {
    let halted = |digest: &str| Event::Halted { halt: Halt { digest: digest.into(), ..Halt::default() } };
    let mut run = begun(goal(0));
    apply(
        &mut run,
        &[Event::Planned { text: "TASK: a".into() }, halted("one"), Event::Approved { digest: "two".into() }],
    );
    assert_eq!(next(&run), Effect::Rest(Rest::Halted));
    apply(&mut run, &[Event::Approved { digest: "one".into() }]);
    assert!(matches!(next(&run), Effect::RunHalted(halt) if halt.digest == "one"));
    // If a process ends in the middle of the call, its outcome is unknown; it isn't repeated automatically.
    apply(&mut run, &[Event::RunsHalted { digest: "one".into() }, Event::Entered { pid: 2 }]);
    assert_eq!(next(&run), Effect::Work { task: 0, is_escalated: false });
    assert!(anchor(&run, 0).contains("it may have happened or not"));
    apply(&mut run, &[halted("three"), Event::Denied { digest: "three".into(), why: "too risky".into() }]);
    assert!(anchor(&run, 0).contains("(too risky): do without it"));
}

#[test]
fn a_plan_without_tasks_is_asked_for_once_more_and_then_the_goal_is_the_task() {
    let mut run = begun(goal(0));
    apply(&mut run, &[Event::Planning { model: String::new(), conversation: None }]);
    assert!(!plan_question(&run, true).contains("Your last plan"));
    let again = run.planned("I would look at it first.".into());
    apply(&mut run, &[again]);
    assert_eq!(next(&run), Effect::Plan);
    assert!(plan_question(&run, true).contains("Your last plan had no line"), "{}", plan_question(&run, true));
    apply(&mut run, &[Event::Planning { model: String::new(), conversation: None }]);
    let planned = run.planned("I would still look at it first.".into());
    apply(&mut run, &[planned]);
    assert_eq!(run.tasks.len(), 1);
    assert_eq!(next(&run), Effect::Work { task: 0, is_escalated: false });
    assert!(matches!(run.planned("TASK: a".into()), Event::Planned { .. }));
}

#[test]
fn three_noes_pause_a_run_until_its_person_resumes_it() {
    let mut run = begun(goal(0));
    apply(&mut run, &[Event::Planned { text: "TASK: a".into() }]);
    for digest in ["one", "two", "three"] {
        assert!(matches!(next(&run), Effect::Work { .. }), "{digest}");
        let halt = Halt { digest: digest.into(), ..Halt::default() };
        apply(&mut run, &[Event::Halted { halt }, Event::Denied { digest: digest.into(), why: String::new() }]);
    }
    let Effect::Pause(why) = next(&run) else { panic!("{:?}", next(&run)) };
    assert!(why.contains("3 calls"), "{why}");
    apply(&mut run, &[Event::Paused { why }]);
    assert!(matches!(next(&run), Effect::Rest(Rest::Paused(_))));
    apply(&mut run, &[Event::Resumed]);
    assert!(matches!(next(&run), Effect::Work { .. }));
}

#[test]
fn tasks_beyond_the_limit_of_a_plan_are_counted() {
    let mut run = begun(goal(5));
    apply(&mut run, &[checked(0, 1, ""), Event::Planned { text: "TASK: a\n".repeat(43) }]);
    assert_eq!((run.tasks.len(), run.tasks_left_out), (40, 3));
    apply(&mut run, &[Event::Planned { text: "TASK: a".into() }]);
    assert_eq!(run.tasks_left_out, 0);
}

#[test]
fn a_question_has_the_newest_words_and_leaves_a_small_model_room() {
    let mut run = begun(goal(5));
    (0..5).for_each(|check| apply(&mut run, &[checked(check, 1, &"red ".repeat(1_000))]));
    let plan: String = (0..40).map(|number| format!("TASK: {number} {}\n", "x".repeat(500))).collect();
    apply(&mut run, &[Event::Planned { text: plan }]);
    for number in 0..39 {
        let text = format!("words about {number}: {}", "y".repeat(8_000));
        apply(&mut run, &[Event::Worked { text, tree: String::new() }]);
    }
    let text = anchor(&run, 39);
    let count = text.chars().count();
    assert!(count < 16_000, "some 4,000 tokens: {count}");
    assert!(text.contains("words about 38:") && text.contains("words about 35:"), "{text}");
    assert!(!text.contains("words about 34:"), "{text}");
    assert!(text.ends_with(&format!("TASK 40: 39 {}", "x".repeat(497))), "the task at hand is whole");
}

#[test]
fn a_cut_off_attempt_lists_its_calls_and_keeps_the_notes() {
    let mut run = begun(goal(0));
    let calling = |intent: &str| Event::Calling { intent: intent.into() };
    apply(
        &mut run,
        &[
            Event::Planned { text: "TASK: a".into() },
            Event::Said { text: "use tabs".into() },
            Event::Working { task: 0, model: String::new(), conversation: None },
            calling("first"),
            Event::Called { success: true },
            calling("second"),
            Event::Entered { pid: 2 },
        ],
    );
    let text = anchor(&run, 0);
    for part in ["first (done)", "second (unknown", "The person says: use tabs", "TASK 1: a"] {
        assert!(text.contains(part), "{part}: {text}");
    }
    apply(&mut run, &worked(""));
    assert!(!anchor(&run, 0).contains("use tabs"), "a note is sent once");
    // A note that would be lost is refused.
    assert_eq!(run.note_problem("more"), None);
    (0..NOTES_MAX).for_each(|_| run.apply(0, &Event::Said { text: "more".into() }));
    assert!(run.note_problem("more").is_some() && run.note_problem(" ").is_some());
}

#[test]
fn inputs_of_checks_are_compared_with_the_start() {
    let digests = |digest: &str| inputs(&[("test.py", digest)]);
    for allow_check_edits in [false, true] {
        let mut run = Run::of([(0, &Event::Began { goal: Goal { allow_check_edits, ..goal(1) } })]);
        assert_eq!(next(&run), Effect::Digest);
        apply(&mut run, &[digests("1"), checked(0, 1, ""), Event::Planned { text: "TASK: a".into() }]);
        apply(&mut run, &worked(""));
        apply(&mut run, &[digests("2"), checked(0, 0, "")]);
        let is_verified = next(&run) == Effect::Finish(End::Verified);
        assert_eq!(is_verified, allow_check_edits);
    }
}

#[test]
fn a_check_that_passes_only_with_changed_tests_shows_nothing() {
    for (status, allow_check_edits, is_verified) in
        [(Some(0), false, true), (Some(1), false, false), (None, false, false), (Some(1), true, true)]
    {
        let mut run = begun(Goal { allow_check_edits, ..goal(2) });
        apply(&mut run, &[checked(0, 1, ""), checked(1, 1, ""), Event::Planned { text: "TASK: a".into() }]);
        apply(&mut run, &worked(""));
        apply(&mut run, &[checked_again(0, status), checked(1, 0, "")]);
        assert_eq!(next(&run) == Effect::Finish(End::Verified), is_verified, "{status:?}: {:?}", next(&run));
        assert_eq!(run.tasks[0].state == TaskState::Checked, is_verified, "{status:?}");
        let Effect::Finish(end) = next(&run) else { panic!("{:?}", next(&run)) };
        assert!(is_verified || end.why().contains("`check 0`") && end.status() == 6, "{end:?}");
    }
    // The failure of another check leads to another attempt.
    let mut run = begun(goal(2));
    apply(&mut run, &[checked(0, 1, ""), checked(1, 1, ""), Event::Planned { text: "TASK: a".into() }]);
    apply(&mut run, &worked(""));
    apply(&mut run, &[checked_again(0, Some(1)), checked(1, 1, "")]);
    assert_eq!(next(&run), Effect::Work { task: 0, is_escalated: false });
}

#[test]
fn a_plan_that_its_person_must_see_waits_and_its_checks_count_only_then() {
    let mut run = begun(Goal { asks_go: true, ..goal(0) });
    assert_eq!(next(&run), Effect::Plan);
    apply(&mut run, &[Event::Planned { text: "TASK: a\nCHECK: `make test`".into() }]);
    assert_eq!((next(&run), run.word()), (Effect::Rest(Rest::Planned), "planned"));
    assert!(run.goal.as_ref().is_some_and(|goal| goal.checks.is_empty()), "a proposal is no check");
    // A plan that is changed before the work begins still counts as the first one.
    apply(&mut run, &[Event::Planned { text: "TASK: c\nCHECK: `make test`".into() }]);
    assert_eq!(run.tasks.iter().map(|task| task.text.as_str()).collect::<Vec<_>>(), ["c"]);
    let checks = run.proposed.clone();
    assert_eq!(checks, ["make test"]);
    apply(&mut run, &[Event::Go { checks }]);
    assert_eq!(next(&run), Effect::Digest);
    apply(&mut run, &[inputs(&[])]);
    assert_eq!(next(&run), Effect::Check(0));
    apply(&mut run, &[checked(0, 1, "")]);
    assert_eq!(next(&run), Effect::Work { task: 0, is_escalated: false });
    // A check of the person's own is never replaced, and a later plan waits for no one.
    apply(
        &mut run,
        &[Event::Go { checks: vec!["true".into()] }, Event::Planned { text: "TASK: b\nCHECK: true".into() }],
    );
    assert_eq!(run.goal.as_ref().map(|goal| goal.checks.clone()), Some(vec!["make test".to_owned()]));
    assert_eq!(next(&run), Effect::Work { task: 1, is_escalated: false });
}

/// A generator of numbers: the same seed gives the same run.
struct Random(u64);

impl Random {
    fn below(&mut self, most: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % most
    }
}

/// A simulated run, with counters beside the run's own.
struct Played {
    random: Random,
    run: Run,
    events: Vec<(i64, Event)>,
    used: Used,
    asked: u64,
    calls: u64,
    work_ms: u64,
    halts: u64,
    /// Calls that really ran; a halted one hasn't.
    ran: u64,
}

impl Played {
    fn new(seed: u64) -> Self {
        let mut random = Random(seed);
        let limits = Limits {
            usd: Some(0.1 * (1 + random.below(20)) as f64),
            tokens: Some(1_000 * (1 + random.below(40))),
            minutes: Some((1 + random.below(60)) as f64),
            steps: Some(1 + random.below(20)),
            calls: Some(1 + random.below(30)),
            ..Limits::default()
        };
        let checks = usize::try_from(random.below(3)).expect("small");
        let asks_go = seed.is_multiple_of(3);
        let began = Event::Began { goal: Goal { limits, asks_go, ..goal(checks) } };
        let (run, used) = (Run::default(), Used::default());
        let mut played =
            Self { random, run, events: Vec::new(), used, asked: 0, calls: 0, work_ms: 0, halts: 0, ran: 0 };
        // The event has the limits of this goal; `goal` sets others.
        played.add(began);
        played
    }

    fn limits(&self) -> Limits {
        self.run.goal.as_ref().expect("a goal").limits.clone()
    }

    fn add(&mut self, event: Event) {
        self.run.apply(self.used.now, &event);
        self.events.push((self.used.now, event));
    }

    /// Lets time pass, which counts as work if the run works.
    fn wait(&mut self, counts: bool) {
        let ms = self.random.below(120_000);
        self.used.now += i64::try_from(ms).expect("small");
        self.work_ms += if counts { ms } else { 0 };
    }

    /// Asks within every limit, with a random result.
    fn ask(&mut self, is_plan: bool, seed: u64) {
        let limits = self.limits();
        self.asked += 1;
        assert!(Some(self.asked) <= limits.steps, "seed {seed}: a question beyond the budget");
        assert!(
            Some(self.used.usd) < limits.usd && Some(self.used.tokens) < limits.tokens,
            "seed {seed}: {:?}",
            self.used
        );
        assert!(Some(self.calls) < limits.calls, "seed {seed}: {} calls", self.calls);
        #[allow(clippy::cast_precision_loss, reason = "small numbers")]
        let minutes = self.work_ms as f64 / 60_000.0;
        assert!(limits.minutes.is_none_or(|most| minutes < most), "seed {seed}: {minutes} minutes");
        let (model, conversation) = (String::new(), None);
        self.add(if is_plan {
            Event::Planning { model, conversation }
        } else {
            Event::Working { task: 0, model, conversation }
        });
        for _ in 0..self.random.below(3) {
            // The gate limits the calls of one question; the run limits the next question.
            if self.run.calls_left() != Some(0) {
                self.call();
                self.ran += 1;
                self.wait(true);
                self.add(Event::Called { success: self.calls.is_multiple_of(2) });
            }
        }
        if !is_plan && self.random.below(10) == 0 && Some(self.asked) < limits.steps {
            self.asked += 1;
            self.add(Event::Delegated);
        }
        self.used.usd += 0.01 * self.random.below(10) as f64;
        self.used.tokens += self.random.below(2_000);
        self.wait(true);
        let event = match self.random.below(8) {
            0 => Event::Entered { pid: 1 },
            1 => Event::Broke { why: "b".into(), limit: None, is_loop: self.random.below(2) == 0 },
            2 if !is_plan && self.run.calls_left() != Some(0) => {
                self.call();
                self.halts += 1;
                Event::Halted { halt: Halt { digest: self.halts.to_string(), ..Halt::default() } }
            }
            3 if self.random.below(4) == 0 => Event::Estop,
            4 if self.random.below(4) == 0 => Event::Paused { why: "p".into() },
            _ if is_plan => Event::Planned { text: "TASK: a\nTASK: b".into() },
            _ => Event::Worked { text: "done".into(), tree: self.random.below(3).to_string() },
        };
        // The time until another process takes over isn't work.
        self.add(event);
    }

    fn call(&mut self) {
        self.calls += 1;
        self.add(Event::Calling { intent: "c".into() });
    }

    /// Changes the limit on calls as the person, possibly to less than the number used.
    fn change_calls(&mut self) {
        let limits = Limits { calls: Some(self.random.below(60)), ..self.limits() };
        self.add(Event::Raised { limits });
    }

    fn run_halted(&mut self, halt: Halt, seed: u64) {
        let is = |wanted: Event| self.events.iter().any(|(_, event)| *event == wanted);
        let approved = is(Event::Approved { digest: halt.digest.clone() });
        let ran = is(Event::RunsHalted { digest: halt.digest.clone() });
        assert!(approved && !ran, "seed {seed}: a halted call ran without a yes, or twice");
        // Its request was counted already: it uses nothing of the rest, and runs only within the budget.
        assert!(Some(self.calls) <= self.limits().calls, "seed {seed}: an approved call beyond the budget");
        self.add(Event::RunsHalted { digest: halt.digest });
        assert_ne!(self.run.calls_left(), Some(0), "seed {seed}: the gate would refuse an approved call");
        self.ran += 1;
        assert!(self.ran <= self.calls && self.calls == self.run.calls, "seed {seed}: calls are counted once");
        self.wait(true);
        let is_killed = self.random.below(2) == 0;
        self.add(if is_killed {
            Event::Entered { pid: 2 }
        } else {
            Event::RanHalted { result: "ok".into(), steps: Vec::new() }
        });
        // The time between the last event and the kill doesn't count as work.
        self.work_ms = self.run.active_ms;
    }
}

/// Plays a run with random models, checks, persons and kills.
fn play(seed: u64) -> (Run, Vec<(i64, Event)>) {
    let mut played = Played::new(seed);
    for _ in 0..5_000 {
        played.work_ms = played.run.active_ms_at(played.used.now);
        if played.run.end.is_none() && played.random.below(40) == 0 {
            played.change_calls();
        }
        match played.run.next(&played.used) {
            Effect::Over(End::Budget(why)) if why.starts_with("calls") && played.run.halt.is_some() => {
                // An approval that the limit on calls stopped isn't used up: it applies when the limit is raised.
                let limits = Limits { calls: Some(1_000), minutes: None, ..played.limits() };
                played.add(Event::Raised { limits });
                assert!(matches!(played.run.next(&played.used), Effect::RunHalted(_)), "seed {seed}: a lost yes");
            }
            Effect::Over(_) => break,
            Effect::Finish(end) => played.add(Event::Ended { end: end.word().into(), why: end.why().into() }),
            Effect::Pause(why) => played.add(Event::Paused { why }),
            Effect::Rest(rest) => {
                played.wait(false);
                let digest = played.run.halt.as_ref().map(|(halt, _)| halt.digest.clone()).unwrap_or_default();
                let (is_yes, is_end) = (played.random.below(2) == 0, played.random.below(20) == 0);
                played.add(match rest {
                    Rest::Planned => Event::Go { checks: Vec::new() },
                    Rest::Paused(_) if is_end => Event::StopAsked,
                    Rest::Paused(_) => Event::Resumed,
                    Rest::Halted if is_yes => Event::Approved { digest },
                    Rest::Halted => Event::Denied { digest, why: String::new() },
                });
            }
            Effect::Digest => played.add(inputs(&[("t", "1")])),
            Effect::Check(check) => {
                let digest = if played.random.below(6) == 0 { "2" } else { "1" };
                let is_red = played.random.below(3) > 0;
                played.wait(true);
                played.add(inputs(&[("t", digest)]));
                let is_bent = !is_red && played.random.below(6) == 0;
                let again = || checked_again(check, Some(1));
                played.add(if is_bent { again() } else { checked(check, i32::from(is_red), "x") });
            }
            Effect::Plan => played.ask(true, seed),
            Effect::Work { .. } => played.ask(false, seed),
            Effect::RunHalted(halt) => played.run_halted(halt, seed),
        }
    }
    (played.run, played.events)
}

#[test]
fn ten_thousand_runs_keep_their_budgets_and_claim_nothing() {
    let mut ends = BTreeMap::new();
    for seed in 0..10_000 {
        let (run, events) = play(seed);
        let end = run.end.clone().unwrap_or_else(|| panic!("seed {seed}: it never ends"));
        *ends.entry(end.word()).or_insert(0) += 1;
        if end == End::Verified {
            let count = run.goal.as_ref().map_or(0, |goal| goal.checks.len());
            let seen = events.iter().rev().skip(1).map(|(_, event)| event);
            let seen = seen.filter(|event| !matches!(event, Event::Raised { .. }));
            let last: Vec<&Event> =
                seen.take_while(|it| matches!(it, Event::Checked { .. } | Event::Inputs { .. })).collect();
            let passes = |event: &&&Event| matches!(event, Event::Checked { status: Some(0), again: None, .. });
            let passed = last.iter().filter(passes).count();
            let is_first = |event: &&Event| matches!(event, Event::Inputs { digests, .. } if digests["t"] == "1");
            let newest = last.iter().copied().find(|event| matches!(event, Event::Inputs { .. }));
            assert!(count > 0 && passed >= count, "seed {seed}: verified without its checks");
            assert!(newest.as_ref().is_some_and(is_first), "seed {seed}: verified with a changed check");
        }
        // The same events produce the same run, also through the store.
        let stored: Vec<(i64, String)> =
            events.iter().map(|(time, it)| (*time, serde_json::to_string(it).expect("JSON"))).collect();
        let read: Vec<(i64, Event)> =
            stored.iter().map(|(time, it)| (*time, serde_json::from_str(it).expect("an event"))).collect();
        assert_eq!(Run::of(read.iter().map(|(time, event)| (*time, event))), run, "seed {seed}");
    }
    for word in ["verified", "not-verified", "budget", "stuck", "stopped"] {
        assert!(ends.get(word).is_some_and(|count| *count > 20), "{word} is hardly reached: {ends:?}");
    }
}

#[test]
fn files_that_go_back_and_forth_are_no_progress() {
    let limits = Limits { attempts: 20, replans: 0, ..Limits::default() };
    let mut run = begun(Goal { limits, ..goal(1) });
    apply(&mut run, &[checked(0, 1, ""), Event::Planned { text: "TASK: a".into() }]);
    let mut attempts = 0;
    let end = loop {
        match next(&run) {
            Effect::Work { .. } => {
                attempts += 1;
                apply(&mut run, &worked(if attempts % 2 == 0 { "b" } else { "a" }));
            }
            Effect::Check(check) => apply(&mut run, &[checked(check, 1, "the same failure")]),
            Effect::Finish(end) => break end,
            other => panic!("{other:?}"),
        }
    };
    assert!(matches!(end, End::Stuck(_)), "{end:?}");
    assert_eq!(attempts, 5, "a, b, and three times what was there before");
}

#[test]
fn a_planner_that_is_farther_away_gets_no_outputs() {
    let mut run = begun(goal(1));
    apply(&mut run, &[checked(0, 1, "OUTPUT"), Event::Planned { text: "TASK: a".into() }]);
    let (near, far) = (plan_question(&run, true), plan_question(&run, false));
    assert!(near.contains("OUTPUT") && !far.contains("OUTPUT"), "{far}");
    assert!(far.contains("`check 0` (now: fails with status 1)"), "{far}");
    assert!(anchor(&run, 0).contains("OUTPUT"), "the executor sees them");
}

#[test]
fn a_check_that_runs_nothing_and_a_limit_that_is_no_amount_are_refused() {
    let with = |checks: &[&str]| Goal { checks: checks.iter().map(|it| (*it).to_owned()).collect(), ..Goal::default() };
    assert_eq!(with(&["make test", "# all\nmake lint"]).problem(), None);
    for checks in [&[""][..], &["make test", " \n"], &["# nothing"], &["1", "2", "3", "4", "5", "6"]] {
        assert!(with(checks).problem().is_some(), "{checks:?}");
    }
    for amount in [f64::NAN, f64::INFINITY, -1.0, 1e300] {
        let dollars = Limits { usd: Some(amount), ..Limits::default() };
        let minutes = Limits { minutes: Some(amount), ..Limits::default() };
        assert_eq!(dollars.problem().expect("it is refused"), "a limit in dollars is a number between 0 and 1000000");
        assert!(minutes.problem().is_some_and(|problem| problem.contains("minutes")), "{amount}");
    }
    assert_eq!(Limits { usd: None, minutes: Some(0.0), ..Limits::default() }.problem(), None);
}

#[test]
fn an_approved_call_is_counted_once_and_a_budget_does_not_use_up_its_yes() {
    let limits = |calls| Limits { calls: Some(calls), usd: None, tokens: None, ..Limits::default() };
    let mut run = begun(Goal { limits: limits(1), ..goal(0) });
    let halt = Halt { digest: "d".into(), ..Halt::default() };
    apply(
        &mut run,
        &[
            Event::Planned { text: "TASK: a".into() },
            Event::Calling { intent: "c".into() },
            Event::Halted { halt },
            Event::Approved { digest: "d".into() },
        ],
    );
    assert_eq!((run.calls_left(), run.calls), (Some(1), 1));
    assert!(matches!(next(&run), Effect::RunHalted(_)), "its request was within the budget");
    apply(&mut run, &[Event::Raised { limits: limits(0) }]);
    let Effect::Finish(End::Budget(why)) = next(&run) else { panic!("{:?}", next(&run)) };
    assert_eq!(why, "calls: 1 of 0");
    apply(&mut run, &[Event::Ended { end: "budget".into(), why }, Event::Raised { limits: limits(1) }]);
    assert!(matches!(next(&run), Effect::RunHalted(_)), "the yes holds still");
    apply(
        &mut run,
        &[Event::RunsHalted { digest: "d".into() }, Event::RanHalted { result: String::new(), steps: Vec::new() }],
    );
    assert_eq!((run.calls_left(), run.calls), (Some(0), 1));
}

#[test]
fn files_that_checks_only_reach_are_named_and_the_report_of_an_end_is_noted() {
    let reached =
        |digest: &str| Event::Reached { digests: [("a.sh".into(), digest.into())].into(), unseen: Vec::new() };
    let mut run = begun(goal(1));
    apply(&mut run, &[reached("1"), checked(0, 1, ""), Event::Planned { text: "TASK: a".into() }]);
    apply(&mut run, &worked(""));
    apply(&mut run, &[reached("2"), checked(0, 0, "")]);
    assert_eq!((next(&run), run.reached.clone()), (Effect::Finish(End::Verified), vec!["a.sh".to_owned()]));
    apply(&mut run, &[Event::Ended { end: "verified".into(), why: String::new() }]);
    assert!(!run.is_reported);
    apply(&mut run, &[Event::Reported]);
    assert!(run.is_reported);
}
