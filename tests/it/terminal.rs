//! The terminal of the model's own bash, on each tier: programs find one, no person uses it, and a program that waits for a
//! person is ended and offered to the person's own shell.

use std::ffi::OsString;
use std::sync::Arc;
use std::time::{Duration, Instant};

use reedclaw::agent::{Cancel, Person, ToolRunner, ToolRunnerOptions};
use reedclaw::base::program::SearchPath;
use reedclaw::files::Root;
use reedclaw::gate::{Allowed, Gate, Options};
use reedclaw::model::ToolCall;
use reedclaw::policy::Rules;
use reedclaw::proto::action::{Autonomy, Hold};
use reedclaw::proto::tool::{Answer, Outcome, Question};
use reedclaw::sandbox::{Grant, Tier};
use reedclaw::tools::{Found, Launcher, Limits, Memory, Registry, Shell, Spill};
use serde_json::json;

use crate::sandbox::{World, on_tiers};

const ALL: [Tier; 4] = [Tier::Overlay, Tier::Bubblewrap, Tier::Landlock, Tier::None];

struct NoMemory;

impl Memory for NoMemory {
    fn search(&mut self, _: &str, _: usize) -> Result<Vec<Found>, String> {
        Ok(Vec::new())
    }
}

/// A person who approves commands and takes over those that need a terminal.
#[derive(Default)]
struct Somebody {
    /// The commands that were offered for the person's own shell.
    taken_over: Vec<String>,
}

impl Person for Somebody {
    fn can_ask(&self) -> bool {
        true
    }

    fn approve(&mut self, question: &Question) -> Answer {
        if question.only_own_shell { Answer::InMyShell } else { Answer::Once }
    }

    fn has_shell(&self) -> bool {
        true
    }

    fn run_in_own_shell(&mut self, command: &str) -> Option<Outcome> {
        self.taken_over.push(command.to_owned());
        Some(Outcome::of("done by the person"))
    }
}

/// A tool runner with only the shell, restricted as this world restricts programs.
fn runner(world: &World, shell: Duration) -> ToolRunner {
    let sandbox = Arc::clone(&world.sandbox);
    let grant = world.grant();
    let hold = if world.sandbox.tier() == Tier::Overlay { Hold::Copy } else { Hold::Walls };
    let (copies, work) = (Arc::clone(&world.sandbox), world.path("work"));
    let launcher = Launcher::new(
        move |program, arguments, terms| {
            let arguments: Vec<OsString> = arguments.iter().map(OsString::from).collect();
            let mut grant = Grant { network: terms.network, view: terms.view.clone(), ..grant.clone() };
            grant.env.extend(terms.variables.iter().map(|(name, value)| (name.into(), value.clone())));
            sandbox.command(program.as_ref(), &arguments, &grant).map_err(|error| error.message)
        },
        move || hold,
        move |_| copies.layer(&work).map_err(|error| error.message),
    );
    let mut registry = Registry::new();
    registry.add(Box::new(Shell::new(launcher, Arc::new(|| false)))).expect("a tool");
    let root = Root::open(&world.path("work"), Some(world.home())).expect("a workspace");
    let text = |path: &std::path::Path| path.display().to_string();
    let rules = Rules { autonomy: Autonomy::Full, ..Rules::new(&text(root.path()), &text(world.home())) };
    let path = SearchPath::new(crate::need::TEST_PATH.to_owned());
    let gate = Gate::new(Options {
        rules,
        ceiling: reedclaw::gate::Ceiling::default(),
        sandbox: Box::new(move || ("test", hold)),
        log: None,
        stop: Arc::new(|| None),
        allowed: Allowed::open(&world.path("state"), root.path()).expect("no rules"),
        path: path.clone(),
        audit_log: None,
        check: None,
    });
    ToolRunner::new(ToolRunnerOptions {
        bench: None,
        servers: None,
        registry,
        steps: None,
        has_undo: false,
        tool_set: reedclaw::tools::ToolSet::default(),
        gate,
        root,
        spill: Spill::new(&world.path("state")),
        limits: Limits { shell, ..Limits::default() },
        memory: Box::new(NoMemory),
        path,
    })
}

fn call(runner: &mut ToolRunner, command: &str, person: &mut dyn Person) -> Outcome {
    let wish = ToolCall { id: "1".into(), name: "shell".into(), arguments: json!({"command": command}).to_string() };
    runner.call(&wish, None, &Cancel::new(), person, &mut |_| {})
}

#[test]
fn programs_find_a_terminal_of_their_own_and_their_outputs_stay_apart() {
    on_tiers(&ALL, |world| {
        let mut runner = runner(world, Duration::from_secs(20));
        let mut run = |command: &str| call(&mut runner, command, &mut Somebody::default());
        let table = [
            ("[ -t 0 ] && [ ! -t 1 ] && [ ! -t 2 ] && echo so", "so"),
            ("stty size", "24 80"),
            ("tty > /dev/null && echo one", "one"),
            ("echo out; echo err >&2", "out\n[stderr]\nerr"),
            ("echo out; printf 'drawn \\e[31mred\\e]0;title\\a' > /dev/tty", "out\n[terminal]\ndrawn red"),
            ("bash -c 'set -m; (exit 3) & wait $!; echo $?' 2> /dev/null", "3"),
            ("bash --norc --noprofile -ic 'echo inner' 2> /dev/null", "inner"),
            ("X=kept; cd /", ""),
            ("echo $X", "kept"),
        ];
        for (command, expected) in table {
            let outcome = run(command);
            assert!(outcome.success, "{:?} {command}: {outcome:?}", world.sandbox.tier());
            assert_eq!(outcome.output.trim_end(), expected, "{:?} {command}", world.sandbox.tier());
        }
    });
}

#[test]
fn a_command_that_waits_for_input_is_ended_and_offered_to_the_users_shell() {
    let table = [
        ("read -rsp 'Password: ' word < /dev/tty 2> /dev/tty", "Password:"),
        ("python3 -c 'import getpass; getpass.getpass(\"Passphrase? \")'", "Passphrase?"),
        ("printf 'Go on? [y/N] ' > /dev/tty; cat > /dev/null", "Go on? [y/N]"),
        ("echo asked by words >&2; head -c 1", "asked by words"),
        ("sh -c 'cat < /dev/tty' | cat", ""),
    ];
    on_tiers(&ALL, |world| {
        // Much longer than needed: a wait that isn't noticed would continue as a job.
        let mut runner = runner(world, Duration::from_secs(60));
        for (command, asked) in table {
            let mut person = Somebody::default();
            let began = Instant::now();
            let outcome = call(&mut runner, command, &mut person);
            let told = format!("{:?} {command}: {outcome:?}", world.sandbox.tier());
            assert_eq!(person.taken_over, [command], "{told}");
            assert_eq!(outcome.output, "done by the person", "{told}");
            assert!(began.elapsed() < Duration::from_secs(30), "{told}");
            let alone = call(&mut runner, command, &mut Nodding);
            let error = alone.error.expect("an error");
            assert!(error.code == "needs-terminal" && error.message.contains(asked), "{error:?}");
        }
        let after = call(&mut runner, "echo $((1+1))", &mut Somebody::default());
        assert_eq!(after.output.trim_end(), "2", "a new bash takes over: {after:?}");
    });
}

#[test]
fn a_program_that_takes_keys_one_by_one_is_noticed_when_it_is_idle() {
    on_tiers(&ALL, |world| {
        let mut runner = runner(world, Duration::from_secs(60));
        // Works for longer than the limit of silence, with the terminal's modes changed, and isn't ended.
        let works = "stty -echo -icanon; for i in 1 2 3 4; do sleep 1; echo $i; done; stty sane; echo over";
        let outcome = call(&mut runner, works, &mut Nodding);
        assert!(outcome.success && outcome.output.contains("over"), "{outcome:?}");
        let waits =
            "python3 -c 'import select, tty; tty.setraw(0); print(\"menu\", flush=True); select.select([0], [], [])'";
        let error = call(&mut runner, waits, &mut Nodding).error.expect("an error");
        assert!(error.code == "needs-terminal" && error.message.contains("menu"), "{error:?}");
    });
}

/// A person who approves commands and has no own shell.
struct Nodding;

impl Person for Nodding {
    fn can_ask(&self) -> bool {
        true
    }

    fn approve(&mut self, _: &Question) -> Answer {
        Answer::Once
    }
}
