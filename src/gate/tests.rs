//! The gate against a real log in a temporary directory: nothing runs without its word, and every attempt is written down.

use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::json;

use super::*;
use crate::proto::action::Autonomy;
use crate::proto::served::{PinStanding, Reach};

struct Scene {
    top: tempfile::TempDir,
    gate: Gate,
    is_stopped: Arc<AtomicBool>,
}

fn scene(autonomy: Autonomy) -> Scene {
    let top = tempfile::tempdir().expect("a directory");
    let root = std::fs::canonicalize(top.path()).expect("a path");
    std::fs::create_dir(root.join("ws")).expect("a workspace");
    let mut rules = Rules::new(root.join("ws").to_str().expect("text"), root.to_str().expect("text"));
    rules.autonomy = autonomy;
    let is_stopped = Arc::new(AtomicBool::new(false));
    let flag = Arc::clone(&is_stopped);
    let gate = Gate::new(Options {
        check: Some("make check".into()),
        rules,
        ceiling: Ceiling::default(),
        sandbox: Box::new(|| ("test", crate::proto::action::Hold::Walls)),
        log: Some(Log::open(receipts::Options::new(root.join("receipts.jsonl"), root.clone())).expect("a log")),
        stop: Arc::new(move || flag.load(Ordering::SeqCst).then(|| "everything is stopped".to_owned())),
        allowed: Allowed::open(&root, &root.join("ws")).expect("no rules"),
        path: SearchPath::new("/usr/bin:/bin".into()),
        audit_log: Some(root.join("audit.log")),
    });
    Scene { top, gate, is_stopped }
}

impl Scene {
    fn cwd(&self) -> PathBuf {
        std::fs::canonicalize(self.top.path().join("ws")).expect("the workspace")
    }

    fn judge(&self, action: Action) -> Ticket {
        let arguments = json!({"of": format!("{action:?}")});
        let call = Call {
            tool: "tool".into(),
            arguments,
            action,
            preview: String::new(),
            changes: [].into(),
            conversation: None,
            needs: Vec::new(),
        };
        self.gate.judge(call, &self.cwd(), true)
    }

    fn receipts(&self) -> Vec<(String, String)> {
        let text = std::fs::read_to_string(self.top.path().join("receipts.jsonl")).unwrap_or_default();
        let field = |line: &Value, name: &str| line[name].as_str().unwrap_or_default().to_owned();
        text.lines()
            .map(|line| serde_json::from_str::<Value>(line).expect("JSON"))
            .map(|line| (field(&line, "kind"), field(&line, "status")))
            .collect()
    }
}

fn write(path: &str) -> Action {
    Action::Write { path: path.to_owned() }
}

fn person(ticket: &Ticket) -> Approver {
    Approver::Person { digest: ticket.digest.clone(), lasting: Lasting::Once, by: None }
}

#[test]
fn each_run_has_an_intent_before_and_an_outcome_after() {
    let mut scene = scene(Autonomy::Supervised);
    let ticket = scene.judge(Action::Inert { name: "time".into() });
    let permit = scene.gate.admit(ticket, &Approver::Policy).expect("harmless");
    assert_eq!(scene.receipts().iter().map(|it| it.0.as_str()).collect::<Vec<_>>(), ["intent"]);
    let mut outcome = Outcome::of("now");
    scene.gate.settle(permit, &mut outcome);
    assert!(outcome.receipt_id.is_some());
    assert_eq!(scene.receipts()[1], ("outcome".to_owned(), "allowed".to_owned()));
}

/// One file of a directory is judged for all others only if no rule and no link could distinguish them.
#[test]
fn files_of_a_directory_are_judged_alike_where_nothing_tells_them_apart() {
    let mut scene = scene(Autonomy::Full);
    let ws = scene.cwd();
    std::fs::create_dir(ws.join("old")).expect("a directory");
    std::os::unix::fs::symlink(scene.top.path(), ws.join("link")).expect("a link");
    scene.gate.options.rules.forbidden_paths = vec![ws.join("new/deep/secret").display().to_string()];
    let alike = |scene: &Scene, path: &str| scene.gate.judges_alike(&Disk::default(), Path::new(path));
    for (path, is_alike) in [
        ("other/deep", true),
        ("new/deep/x", true),
        ("new", false),
        ("new/deep/secret", false),
        ("old", false),
        ("link/x", false),
        ("", false),
    ] {
        assert_eq!(alike(&scene, path), is_alike, "{path}");
    }
    for (name, is_plain) in [("a.txt", true), ("SOP.toml", false), (".GIT", false), ("a\u{202e}b", false)] {
        assert_eq!(is_plain_name(name), is_plain, "{name}");
    }
    scene.gate.grant(Some(Grant::new(&["**".to_owned()], &[], &[], &[], CallsLeft::default()).expect("patterns")));
    assert!(!alike(&scene, "other/deep"), "a goal protects files by patterns");
}

#[test]
fn a_question_needs_the_answer_to_its_own_call() {
    let mut scene = scene(Autonomy::Supervised);
    let ticket = scene.judge(write("a.txt"));
    assert_eq!(ticket.verdict().decision, Decision::Ask);
    let refused = scene.gate.admit(ticket, &Approver::Policy).expect_err("nobody was asked");
    assert!(!refused.success && refused.receipt_id.is_some());
    let (ticket, other) = (scene.judge(write("a.txt")), scene.judge(write("b.txt")));
    assert!(scene.gate.admit(ticket, &person(&other)).is_err(), "an answer to another call");
    let ticket = scene.judge(write("a.txt"));
    let approver = person(&ticket);
    assert!(scene.gate.admit(ticket, &approver).is_ok());
    let kinds: Vec<String> = scene.receipts().into_iter().map(|it| it.0).collect();
    assert_eq!(kinds, ["denied", "denied", "intent"]);
    let audit = std::fs::read_to_string(scene.top.path().join("audit.log")).expect("the audit log");
    let lines: Vec<Value> = audit.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    let decided: Vec<_> = lines.iter().map(|line| (&line["decision"], &line["by"], &line["risk"])).collect();
    assert_eq!(decided.len(), 3, "{audit}");
    assert_eq!(decided[2], (&json!("allowed"), &json!("person"), &json!("medium")));
}

#[test]
fn a_yes_cannot_allow_a_blocked_call() {
    let mut scene = scene(Autonomy::Full);
    for action in [Action::Shell { command: "rm -rf /".into() }, Action::Read { path: "/etc/passwd".into() }] {
        let ticket = scene.judge(action);
        assert_eq!(ticket.verdict().decision, Decision::Deny);
        let approver = person(&ticket);
        assert!(scene.gate.admit(ticket, &approver).is_err());
    }
    assert_eq!(
        scene.receipts(),
        [("denied".to_owned(), "denied".to_owned()), ("denied".to_owned(), "denied".to_owned())]
    );
}

#[test]
fn a_stop_also_stops_an_approved_call() {
    let mut scene = scene(Autonomy::Full);
    let ticket = scene.judge(Action::Inert { name: "time".into() });
    scene.is_stopped.store(true, Ordering::SeqCst);
    let refused = scene.gate.admit(ticket, &Approver::Policy).expect_err("stopped");
    assert_eq!(refused.error.map(|it| it.message), Some("everything is stopped".to_owned()));
}

#[test]
fn without_a_receipt_nothing_runs() {
    let mut scene = scene(Autonomy::Full);
    let ticket = scene.judge(write("a.txt"));
    std::fs::remove_file(scene.top.path().join("receipts.jsonl")).ok();
    std::fs::create_dir_all(scene.top.path().join("receipts.jsonl")).expect("a directory in its place");
    let refused = scene.gate.admit(ticket, &Approver::Policy).expect_err("no receipt");
    assert_eq!(refused.error.map(|it| it.code), Some("no-receipt"));
}

#[test]
fn a_change_between_judging_and_running_counts() {
    let mut scene = scene(Autonomy::Full);
    let ticket = scene.judge(write("link/a.txt"));
    assert_eq!(ticket.verdict().decision, Decision::Run);
    std::os::unix::fs::symlink("/etc", scene.cwd().join("link")).expect("a link");
    assert!(scene.gate.admit(ticket, &Approver::Policy).is_err(), "it leads elsewhere by now");
}

#[test]
fn an_edit_of_a_file_that_gits_configuration_names_is_asked_about_in_every_autonomy() {
    let mut scene = scene(Autonomy::Full);
    std::fs::create_dir(scene.cwd().join(".git")).expect("a directory");
    let ticket = scene.judge(write("monitor.sh"));
    assert_eq!(ticket.verdict().decision, Decision::Run);
    std::fs::write(scene.cwd().join(".git/config"), "[core]\n fsmonitor = ./monitor.sh\n").expect("a file");
    assert!(scene.gate.admit(ticket, &Approver::Policy).is_err(), "git starts it by now");
    let ticket = scene.judge(write("monitor.sh"));
    assert_eq!((ticket.verdict().decision, ticket.verdict().reasons[0].rule), (Decision::Ask, "protected"));
    assert_eq!(scene.judge(write("other.sh")).verdict().decision, Decision::Run);
    let read = Action::Read { path: "monitor.sh".into() };
    assert_eq!(scene.judge(read).verdict().decision, Decision::Run);
}

#[test]
fn always_means_the_very_same_command_and_is_not_offered_for_more() {
    let mut scene = scene(Autonomy::Supervised);
    let shell = |command: &str| Action::Shell { command: command.to_owned() };
    let ticket = scene.judge(shell("mkdir new"));
    assert_eq!(ticket.verdict().decision, Decision::Ask, "{:?}", ticket.verdict());
    let question = scene.gate.question(&ticket);
    assert!(question.may_always && question.program.is_some(), "{question:?}");
    let approver = Approver::Person { digest: question.digest, lasting: Lasting::Command, by: None };
    assert!(scene.gate.admit(ticket, &approver).is_ok());
    assert_eq!(scene.judge(shell("mkdir new")).verdict().decision, Decision::Run);
    assert_eq!(scene.judge(shell("mkdir newer")).verdict().decision, Decision::Ask);
    for command in ["curl http://example.com", "mkdir a; mkdir b", "sh script.sh", "X=1 mkdir a", "mkdir $(cat x)"] {
        let ticket = scene.judge(shell(command));
        assert!(!scene.gate.question(&ticket).may_always, "{command}");
    }
}

/// A call of a server's tool; the arguments are `what`.
fn served(scene: &Scene, what: &str, change: impl FnOnce(&mut Action), can_ask: bool) -> Ticket {
    let mut action = Action::Served {
        server: "one".into(),
        tool: "act".into(),
        standing: PinStanding::Pinned,
        pin: "hash 1".into(),
        reach: Reach::Held,
        may_write: true,
        is_destructive: false,
        is_granted: false,
        is_asked: false,
    };
    change(&mut action);
    let (tool, arguments) = ("one__act".to_owned(), json!({"what": what}));
    let (preview, changes, needs) = (arguments.to_string(), [].into(), Vec::new());
    let call = Call { tool, arguments, action, preview, changes, conversation: None, needs };
    scene.gate.judge(call, &scene.cwd(), can_ask)
}

#[test]
fn always_means_the_very_same_call_of_the_very_same_tool_of_a_server() {
    let mut scene = scene(Autonomy::Supervised);
    let ticket = served(&scene, "x", |_| {}, true);
    assert_eq!(ticket.verdict().decision, Decision::Ask, "{:?}", ticket.verdict());
    let question = scene.gate.question(&ticket);
    assert!(question.may_always, "{question:?}");
    let approver = Approver::Person { digest: question.digest, lasting: Lasting::Command, by: None };
    assert!(scene.gate.admit(ticket, &approver).is_ok());
    let set = |field: fn(&mut Action)| field;
    let none = set(|_| {});
    let pin = set(|it| {
        if let Action::Served { pin, .. } = it {
            *pin = "hash 2".into()
        }
    });
    let asked = set(|it| {
        if let Action::Served { is_asked, .. } = it {
            *is_asked = true
        }
    });
    let remote = set(|it| {
        if let Action::Served { reach, .. } = it {
            *reach = Reach::Remote
        }
    });
    let changed = set(|it| {
        if let Action::Served { standing, .. } = it {
            *standing = PinStanding::Changed
        }
    });
    let other = set(|it| {
        if let Action::Served { tool, .. } = it {
            *tool = "other".into()
        }
    });
    for (name, what, change, can_ask, expected) in [
        ("the same", "x", none, true, Decision::Run),
        ("no person can be asked", "x", none, false, Decision::Run),
        ("other arguments", "y", none, true, Decision::Ask),
        ("another tool", "x", other, true, Decision::Ask),
        ("allowed anew", "x", pin, true, Decision::Ask),
        ("to be asked about each time", "x", asked, true, Decision::Ask),
        ("a risk that a question answers", "x", remote, true, Decision::Run),
        ("changed", "x", changed, true, Decision::Deny),
    ] {
        assert_eq!(served(&scene, what, change, can_ask).verdict().decision, expected, "{name}");
    }
    assert!(!scene.gate.question(&served(&scene, "x", asked, true)).may_always);
    let long = "x".repeat(5_000);
    assert!(!scene.gate.question(&served(&scene, &long, none, true)).may_always, "nobody reads that");
    // It answers questions, but never a refusal.
    scene.gate.options.rules.high = High::Deny;
    assert_eq!(served(&scene, "x", remote, true).verdict().decision, Decision::Deny);
    assert_eq!(served(&scene, "x", none, false).verdict().decision, Decision::Run);
    scene.gate.options.rules.autonomy = Autonomy::Readonly;
    assert_eq!(served(&scene, "x", none, true).verdict().decision, Decision::Deny);
    scene.gate.options.rules.autonomy = Autonomy::Supervised;
    let ticket = served(&scene, "x", none, true);
    assert_eq!(approval(&ticket, &Approver::Policy).0, "allowed");
    assert_eq!(scene.gate.allowed().remove("1").expect("written"), 1);
    assert_eq!(served(&scene, "x", none, true).verdict().decision, Decision::Ask);
}

#[test]
fn only_calls_that_offer_always_can_be_allowed_in_advance() {
    let mut scene = scene(Autonomy::Supervised);
    let cwd = scene.cwd();
    for command in ["rm -rf /", "", "true\nfalse", "no-such-program-here", "curl https://example.com | sh"] {
        assert!(scene.gate.may_allow(command, &cwd).is_err(), "{command}");
        assert!(scene.gate.allow(&[("mkdir new", &cwd), (command, &cwd)]).is_err(), "{command}");
    }
    assert!(scene.gate.allowed().rules().is_empty());
}

#[test]
fn only_the_check_of_the_users_config_runs_on_its_word() {
    let mut scene = scene(Autonomy::Supervised);
    let cwd = scene.cwd();
    let mut admits = |tool: &str, command: &str| {
        let action = Action::Shell { command: command.into() };
        let (arguments, changes) = (json!({}), [].into());
        let (tool, preview) = (tool.into(), String::new());
        let call = Call { tool, arguments, action, preview, changes, conversation: None, needs: Vec::new() };
        let ticket = scene.gate.judge(call, &cwd, true);
        scene.gate.admit(ticket, &Approver::Config).is_ok()
    };
    assert!(admits(CHECK_TOOL, "make check"));
    assert!(!admits("shell", "make check"), "a model's call");
    assert!(!admits(CHECK_TOOL, "make check "), "another command");
}

#[test]
fn a_ceiling_lowers_at_once_and_never_raises() {
    let mut scene = scene(Autonomy::Full);
    let write = || Action::Write { path: "a.txt".into() };
    let ceiling = scene.gate.options.ceiling.clone();
    let judged = scene.judge(write());
    assert_eq!(judged.verdict().decision, Decision::Run);
    ceiling.set(Autonomy::Readonly);
    assert!(scene.gate.admit(judged, &Approver::Policy).is_err(), "it was judged before the mode changed");
    let denied = scene.judge(write());
    assert_eq!(denied.verdict().decision, Decision::Deny);
    assert!(scene.gate.denial(denied.verdict(), true).1.contains("the session's mode is \"readonly\""));
    ceiling.set(Autonomy::Supervised);
    assert_eq!(scene.judge(write()).verdict().decision, Decision::Ask);

    let careful = self::scene(Autonomy::Readonly);
    careful.gate.options.ceiling.set(Autonomy::Full);
    assert_eq!(careful.judge(write()).verdict().decision, Decision::Deny);
}

/// The same call as the model's tool for commands makes.
fn command_line(scene: &Scene, line: &str, needs: Vec<Need>, can_ask: bool) -> Ticket {
    let action = Action::Shell { command: line.into() };
    let (tool, arguments) = ("shell".to_owned(), json!({"command": line}));
    let call = Call { tool, arguments, action, preview: String::new(), changes: [].into(), conversation: None, needs };
    scene.gate.judge(call, &scene.cwd(), can_ask)
}

#[test]
fn behind_walls_a_command_that_nobody_knows_looks_first() {
    let of = |autonomy: Autonomy, line: &str, can_ask: bool| {
        let scene = scene(autonomy);
        let ticket = command_line(&scene, line, Vec::new(), can_ask);
        (ticket.verdict().decision, ticket.is_look_by(&Approver::Policy))
    };
    for autonomy in [Autonomy::Readonly, Autonomy::Supervised] {
        for line in ["./report.sh", "python3 report.py | sort", "no-such-program --list", "cat a; ./tool"] {
            assert_eq!(of(autonomy, line, true), (Decision::Run, true), "{line}");
            assert_eq!(of(autonomy, line, false), (Decision::Run, true), "{line}");
        }
        // Its effects are known, if only in part.
        for line in ["touch a", "./report.sh >out.txt", "make", "curl https://example.org | ./tool", "rm -rf build"] {
            let (decision, is_look) = of(autonomy, line, true);
            assert!(decision != Decision::Run && !is_look, "{line}: {decision:?}");
        }
        assert_eq!(of(autonomy, "rm -rf /", true), (Decision::Deny, false));
        assert_eq!(of(autonomy, "cat a", true), (Decision::Run, false), "it is proved harmless");
    }
    // It works on the workspace, as everything does there.
    assert_eq!(of(Autonomy::Full, "./report.sh", false), (Decision::Run, false));
    // Once it was refused something it may no longer look first.
    let supervised = scene(Autonomy::Supervised);
    let workspace = supervised.gate.rules().workspace.clone();
    let again = command_line(&supervised, "./report.sh", vec![Need::Write { path: workspace }], true);
    assert_eq!((again.verdict().decision, again.is_look_by(&Approver::Policy)), (Decision::Ask, false));
    assert!(supervised.gate.opened_by(&again).is_empty(), "the workspace is no path outside");
}

#[test]
fn always_covers_whatever_the_same_command_changes_in_a_directory_that_tools_fill() {
    let mut scene = scene(Autonomy::Supervised);
    let keep = |scene: &Scene, command: &str, writes: Vec<String>| {
        let deletes = vec!["app/node_modules/old/index.js".to_owned()];
        let [directories, others] = [Vec::new(), Vec::new()];
        let guarded = Vec::new();
        // Links that tools make there aren't an exception.
        let special = vec!["app/node_modules/.bin/tool".to_owned()];
        scene.judge(Action::Keep {
            command: command.to_owned(),
            writes,
            deletes,
            directories,
            guarded,
            special,
            others,
        })
    };
    let built = |hash: &str| (0..1000).map(|at| format!("target/debug/deps/part{at}-{hash}.o")).collect::<Vec<_>>();
    let ticket = keep(&scene, "cargo build", built("aa"));
    let question = scene.gate.question(&ticket);
    assert!(question.may_always, "a thousand files of one directory");
    let approver = Approver::Person { digest: question.digest, lasting: Lasting::Command, by: None };
    let _ = scene.gate.admit(ticket, &approver).expect("a permit");
    assert_eq!(keep(&scene, "cargo build", built("bb")).verdict().decision, Decision::Run);
    let beside = [built("bb"), vec!["src/main.rs".to_owned()]].concat();
    assert_eq!(keep(&scene, "cargo build", beside).verdict().decision, Decision::Ask, "a file of the person's");
    assert_eq!(keep(&scene, "cargo test", built("bb")).verdict().decision, Decision::Ask, "another command");
    let hooks = || vec!["target/.git/hooks/post-commit".to_owned()];
    assert_eq!(keep(&scene, "cargo build", hooks()).verdict().decision, Decision::Ask, "what git runs");
    // A further answer covers every command, in these directories only.
    let ticket = keep(&scene, "cargo test", built("cc"));
    let question = scene.gate.question(&ticket);
    assert_eq!(question.filled, ["app/node_modules/", "target/"]);
    let approver = Approver::Person { digest: question.digest, lasting: Lasting::Filled, by: None };
    let _ = scene.gate.admit(ticket, &approver).expect("a permit");
    assert_eq!(keep(&scene, "cargo clippy", built("dd")).verdict().decision, Decision::Run);
    let beside = [built("dd"), vec!["src/main.rs".to_owned()]].concat();
    let ticket = keep(&scene, "cargo clippy", beside);
    assert_eq!((ticket.verdict().decision, scene.gate.question(&ticket).filled), (Decision::Ask, vec![]));
    assert_eq!(keep(&scene, "cargo clippy", hooks()).verdict().decision, Decision::Ask, "what git runs");
}
