//! Measures the work for each key, line or byte, without a terminal: `cargo bench --bench micro [NAME] [--json]`. Under `cargo
//! test --bench micro` it does each thing once and measures nothing. It must not judge the figures.

#![allow(
    clippy::disallowed_methods,
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a bench opens its own files and prints"
)]

mod served;
mod timing;

use std::hint::black_box;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use reedclaw::canvas::{self, State};
use reedclaw::chain::{self, Facts, Limit, Lock, Span, Wish};
use reedclaw::config::{LoadRequest, load};
use reedclaw::files::{Journals, Layers, Root};
use reedclaw::gate::{Allowed, Approver, Call, Gate, Lasting, Options as GateOptions};
use reedclaw::norris::{Event, Goal, Run, Used};
use reedclaw::policy::{self, Rules, judge};
use reedclaw::project;
use reedclaw::proto::action::{Action, Autonomy, Hold, Risk};
use reedclaw::proto::tool::FileChange;
use reedclaw::proto::{LineKind, Names};
use reedclaw::receipts::{Check, Entry as Receipt, Log, Options as LogOptions, Verdict, hash, verify};
use reedclaw::redact::{Redactor, Settling};
use reedclaw::render::diff::unified;
use reedclaw::render::patch::patches;
use reedclaw::render::sheet::{Look, Sheet};
use reedclaw::render::{Markdown, Options};
use reedclaw::route::{Context, decide};
use reedclaw::sandbox::{
    ChangeKind, CollectLimits, Grant, Mode, Place as SandboxPlace, Sandbox, Tier, View, collect, credentials,
};
use reedclaw::shell::scan::Scanner;
use reedclaw::steps::{Incoming, Limits as StepLimits, NewContent, Steps};
use reedclaw::store::{Entry, MessageState, NewRun, Search, Store, TextMatch};
use reedclaw::tools::{Found, Limits, Memory, Place, Registry, Replies, Spill, Work, edit_tools};

use serde_json::{Value, json};
use timing::{percentile, times};

/// The options of a run.
struct Plan {
    /// Only measurements with this text in their names.
    only: Option<String>,
    /// One turn of each, for `cargo test`.
    once: bool,
    json: bool,
}

impl Plan {
    fn read() -> Self {
        let mut plan = Self { only: None, once: true, json: false };
        for word in std::env::args().skip(1) {
            match word.as_str() {
                "--bench" => plan.once = false,
                "--json" => plan.json = true,
                _ if word.starts_with('-') => {}
                _ => plan.only = Some(word),
            }
        }
        plan
    }

    /// Returns whether one of these measurements was requested, so that its data must be prepared.
    fn wants(&self, names: &[&str]) -> bool {
        self.only.as_ref().is_none_or(|only| names.iter().any(|name| name.contains(only.as_str())))
    }

    /// Measures `work` about `turns` times and prints the distribution; `work_bytes` adds a rate.
    fn measure(&self, name: &str, turns: usize, work_bytes: usize, work: impl FnMut(usize)) {
        if self.only.as_ref().is_some_and(|only| !name.contains(only.as_str())) {
            return;
        }
        let turns = if self.once { 1 } else { turns };
        let times = times(turns, work);
        if self.once {
            return;
        }
        let micros = |time: Duration| time.as_secs_f64() * 1e6;
        let mean = times.iter().copied().map(micros).sum::<f64>() / turns as f64;
        let at = |part: usize| micros(percentile(&times, part));
        let (p50, p99) = (at(50), at(99));
        let rate = work_bytes as f64 / p50;
        if self.json {
            println!(
                "{{\"name\":\"{name}\",\"n\":{turns},\"mean_us\":{mean:.2},\"p50_us\":{p50:.2},\"p99_us\":{p99:.2},\
                 \"mb_per_s\":{rate:.0}}}"
            );
        } else {
            let rate = if work_bytes > 0 { format!("{rate:10.0} MB/s") } else { String::new() };
            println!("{name:32} mean {mean:10.2} µs   p50 {p50:10.2}   p99 {p99:10.2}   n {turns:6}{rate}");
        }
    }
}

fn main() {
    let plan = Plan::read();
    route(&plan);
    policy(&plan);
    scanner(&plan);
    markdown(&plan);
    config(&plan);
    history(&plan);
    recall(&plan);
    redact(&plan);
    receipts(&plan);
    norris(&plan);
    sandbox(&plan);
    project(&plan);
    edits(&plan);
    differences(&plan);
    served::measure(&plan);
    undo(&plan);
    team(&plan);
}

/// The six gates over a tenant's facts, and a board with the maximum number of atoms: one more operation, and rebuilding all of
/// it.
fn team(plan: &Plan) {
    let wish = Wish {
        action: "file_write".into(),
        surface_id: Some("board".into()),
        project: "default".into(),
        user: "anna".into(),
        role: "member".into(),
        kind: "person".into(),
        risk: Risk::Medium,
        class: None,
    };
    let lock = |number: usize| Lock {
        id: number.to_string(),
        scope: "*".into(),
        surface_id: None,
        actions: vec![if number == 99 { "*".into() } else { format!("other-{number}.*") }],
        state: "approved".into(),
        is_three_wise_pending: false,
        is_in_time: true,
    };
    let limits = vec![Limit {
        name: "calls".into(),
        project: None,
        actor: None,
        span: Span::Total,
        limit: 1_000,
        spent: 5,
        asked: 1,
        resets_at: None,
    }];
    let facts = Facts { locks: Some((0..100).map(lock).collect()), limits, ..Facts::default() };
    plan.measure("gates: 100 locks, a pass", 5_000, 0, |_| {
        black_box(chain::decide(&facts, &wish));
    });
    if !plan.wants(&["canvas: one operation of 20,000 atoms", "canvas: 20,000 atoms folded and hashed"]) {
        return;
    }
    let create = |number: usize| {
        let props = json!({"text": "a note of some words", "x": number, "y": 16});
        json!({"op": "create", "atom": {"id": format!("n-{number}"), "type": "note", "order": "m", "props": props}})
    };
    let commands: Vec<Vec<Value>> = (0..100).map(|at| (0..200).map(|op| create(at * 200 + op)).collect()).collect();
    let fold = |state: State, ops: &Vec<Value>| canvas::fold(&state, ops).unwrap_or_default();
    let whole = commands.iter().fold(State::default(), fold);
    black_box(whole.hash());
    plan.measure("canvas: one operation of 20,000 atoms", 50, 0, |turn| {
        let ops = [json!({"op": "set", "id": format!("n-{turn}"), "path": "/x", "value": turn})];
        black_box(canvas::fold(&whole, &ops).map(|next| next.hash())).ok();
    });
    plan.measure("canvas: 20,000 atoms folded and hashed", 10, 0, |_| {
        black_box(commands.iter().fold(State::default(), fold).hash());
    });
}

/// Two texts of 10,000 lines, every fiftieth one different: compared, split into hunks and drawn up to a screenful; beside it
/// `git diff`, from its start to its end, and drawn completely.
fn differences(plan: &Plan) {
    let line = |number: usize| format!("    let value_{number} = state_{}(value, {number});\n", number * 7 % 1009);
    let other = |number: usize| match number % 50 {
        7 => format!("    let value_{number} = other_{}(value, {number});\n", number * 7 % 1009),
        23 => format!("    log({number});\n{}", line(number)),
        _ => line(number),
    };
    let (old, new): (String, String) = ((0..10_000).map(line).collect(), (0..10_000).map(other).collect());
    plan.measure("diff: 10,000 lines, unified", 200, 0, |_| {
        black_box(unified("file.rs", Some(&old), &new));
    });
    let (old_bytes, new_bytes) = (Some(old.clone().into_bytes()), Some(new.clone().into_bytes()));
    let changes = [FileChange { path: "file.rs".into(), old: old_bytes, new: new_bytes }];
    let sheet = |color: bool| {
        let look = Look { color, ..Look::plain(120) };
        Sheet::new(look, Vec::new(), patches(&changes), Vec::new())
    };
    plan.measure("diff: 10,000 lines, first screen", 200, 0, |_| {
        black_box(sheet(false).rows(0..50));
    });
    plan.measure("diff: 10,000 lines, screen, colours", 100, 0, |_| {
        black_box(sheet(true).rows(0..50));
    });
    plan.measure("diff: 10,000 lines, all rows", 100, 0, |_| {
        let sheet = sheet(false);
        black_box(sheet.rows(0..sheet.len()));
    });
    let top = std::env::temp_dir().join(format!("reedclaw-diff-{}", std::process::id()));
    let files = (top.join("old.rs"), top.join("new.rs"));
    let written = std::fs::create_dir_all(&top)
        .and_then(|()| std::fs::write(&files.0, &old))
        .and_then(|()| std::fs::write(&files.1, &new));
    if written.is_ok() {
        plan.measure("diff: 10,000 lines, git diff", 100, 0, |_| {
            let mut git = std::process::Command::new("git");
            git.args(["diff", "--no-index", "--no-ext-diff", "--no-color"]).args([&files.0, &files.1]);
            black_box(git.output().is_ok_and(|output| !output.stdout.is_empty()));
        });
    }
    let _ = std::fs::remove_dir_all(top);
}

/// A program that does nothing, started and awaited, on each tier that works here.
fn sandbox(plan: &Plan) {
    let workspace = std::env::temp_dir().join(format!("reedclaw-sandbox-{}", std::process::id()));
    if std::fs::create_dir_all(&workspace).is_err() {
        return;
    }
    let home = std::env::var_os("HOME").map_or_else(|| PathBuf::from("/root"), PathBuf::from);
    let grant = Grant { masked: credentials(&home), ..Grant::new(workspace.clone()) };
    let place = SandboxPlace {
        state: Some(std::env::temp_dir().join(format!("reedclaw-wall-bench-{}", std::process::id()))),
        ..SandboxPlace::default()
    };
    for tier in [Tier::None, Tier::Landlock, Tier::Bubblewrap, Tier::Overlay] {
        let helper = env!("CARGO_BIN_EXE_reedclaw").into();
        let Ok(sandbox) = Sandbox::of_tier(Mode::Prefer, tier, helper, &place) else { continue };
        plan.measure(&format!("sandbox: true, {}", tier.name()), 200, 0, |_| {
            let command = sandbox.command("/bin/true".as_ref(), &[], &grant);
            black_box(command.is_ok_and(|mut command| command.status().is_ok_and(|status| status.success())));
        });
    }
    copies(plan, &workspace, &place);
    let _ = std::fs::remove_dir_all(workspace);
    let _ = std::fs::remove_dir_all(place.state.unwrap_or_default());
    project(plan);
}

/// A command on a copy of its workspace, from its start to the list of its changes, compared with plain bash; and the cost of
/// collecting and applying many changes.
fn copies(plan: &Plan, workspace: &std::path::Path, place: &SandboxPlace) {
    let helper = env!("CARGO_BIN_EXE_reedclaw").into();
    let Ok(sandbox) = Sandbox::of_tier(Mode::Prefer, Tier::Overlay, helper, place) else { return };
    let layers = Layers::open([workspace]).expect("the workspace opens");
    let run = |words: &[&str]| {
        let layer = sandbox.layer(workspace).expect("a layer");
        let path = std::env::var_os("PATH").unwrap_or_default();
        let grant = Grant {
            view: View::Copy(Arc::clone(&layer)),
            env: [("PATH".into(), path)].into(),
            ..Grant::new(workspace.to_owned())
        };
        let arguments: Vec<std::ffi::OsString> = words[1..].iter().map(Into::into).collect();
        let mut command = sandbox.command(words[0].as_ref(), &arguments, &grant).expect("a command");
        assert!(command.status().is_ok_and(|status| status.success()));
        layer
    };
    let bash = |script: &str| ["bash", "--norc", "--noprofile", "-c", script].map(str::to_owned);
    plan.measure("wall: plain bash -c true", 200, 0, |_| {
        let words = bash("true");
        black_box(std::process::Command::new(&words[0]).args(&words[1..]).status().is_ok());
    });
    plan.measure("wall: bash -c true on a copy, collected", 200, 0, |_| {
        let words = bash("true");
        let layer = run(&words.each_ref().map(String::as_str));
        black_box(collect(&layer, &layers, &CollectLimits::default()).is_ok_and(|changes| changes.is_empty()));
    });
    let writes = bash("mkdir new; for ((n = 0; n < 5000; n++)); do printf x >new/$n; done");
    beside_plain(plan, workspace, &writes, &|words| drop(black_box(run(words))));
    for (files, kind) in [(100, ""), (10_000, ""), (10_000, "different ")] {
        let files = if plan.once { 20 } else { files };
        let names = ["collected", "kept"].map(|what| format!("wall: {files} {kind}changed files {what}"));
        if plan.only.as_ref().is_some_and(|only| !names.iter().any(|name| name.contains(only.as_str()))) {
            continue;
        }
        for number in 0..files {
            let path = workspace.join(format!("d{}/f{number}", number / 100));
            let made = path.parent().is_some_and(|parent| std::fs::create_dir_all(parent).is_ok());
            // The contents that differ are as hard to pack as sources.
            let text = match kind {
                "" => vec![b'x'; 4096],
                _ => [format!("{number:06}").as_bytes(), &include_bytes!("micro.rs")[number..][..4090]].concat(),
            };
            assert!(made && std::fs::write(path, text).is_ok());
        }
        // The directory is made again for each number of files.
        let layers = Layers::open([workspace]).expect("the workspace opens");
        let script = bash("for f in d*/f*; do printf y >>\"$f\"; done");
        let layer = run(&script.each_ref().map(String::as_str));
        plan.measure(&names[0], 20, 0, |_| {
            let changes = collect(&layer, &layers, &CollectLimits::default());
            assert!(changes.is_ok_and(|changes| changes.items.len() == files));
        });
        let changes = collect(&layer, &layers, &CollectLimits::default()).expect("changes");
        let limits = StepLimits {
            bytes_max: 1 << 30,
            file_bytes_max: 1 << 24,
            files_max: 100_000,
            look_time: Duration::from_secs(60),
            read_time: Duration::from_secs(60),
            compare_time: Duration::from_secs(60),
        };
        let state = place.state.clone().unwrap_or_default().join("steps");
        let mut steps = Steps::new(&state, workspace, limits, &[]).expect("steps");
        let incoming = |it: &reedclaw::sandbox::Change| {
            let ChangeKind::File { mode, source, .. } = it.kind.clone() else { panic!("a file") };
            Incoming { path: it.path.clone(), expected: it.before, content: NewContent::File { mode, source } }
        };
        plan.measure(&names[1], 1, 0, |_| {
            let incoming = changes.items.iter().map(incoming).collect();
            assert!(steps.adopt("bench", incoming, true).is_ok_and(|adopted| adopted.left.is_empty()));
        });
        let _ = std::fs::remove_dir_all(workspace);
        let _ = std::fs::create_dir_all(workspace);
    }
}

/// A command that writes many files, in plain bash and on a copy.
fn beside_plain(plan: &Plan, workspace: &std::path::Path, words: &[String; 5], on_copy: &dyn Fn(&[&str])) {
    let words = words.each_ref().map(String::as_str);
    plan.measure("wall: plain bash, 5000 new files", 20, 0, |_| {
        let mut plain = std::process::Command::new(words[0]);
        plain.args(&words[1..]).current_dir(workspace);
        assert!(plain.status().is_ok_and(|status| status.success()));
        let _ = std::fs::remove_dir_all(workspace.join("new"));
    });
    plan.measure("wall: 5000 new files on a copy", 20, 0, |_| on_copy(&words));
}

/// The cost of undo around a model's command: in a tree without git and in a repository, with 50 files of 2 KB per directory.
/// When its time is up, the repository's first look trusts git's index, which `compared` doesn't allow.
fn undo(plan: &Plan) {
    for (files, is_tracked) in [(10_000, false), (10_000, true), (100_000, false), (100_000, true)] {
        let kind = if is_tracked { ", in git" } else { "" };
        let names = ["the first look", "around a command", "around one that changes 3 files", "taking back 3 files"];
        let names = names.map(|name| format!("undo: {name}, {files} files{kind}"));
        if plan.only.as_ref().is_some_and(|only| !names.iter().any(|name| name.contains(only.as_str()))) {
            continue;
        }
        let top = std::env::temp_dir().join(format!("reedclaw-undo-bench-{}", std::process::id()));
        let (workspace, state) = (top.join("ws"), top.join("state"));
        let files = if plan.once { 50 } else { files };
        let path = |number: usize| workspace.join(format!("d{}/e{}/f{number}.rs", number / 2500, number / 50 % 50));
        let text = |number: usize| format!("fn f{number}() {{ /* {} */ }}\n", "some words of a line ".repeat(100));
        for number in 0..files {
            let path = path(number);
            let made = path.parent().is_some_and(|parent| std::fs::create_dir_all(parent).is_ok());
            if !made || std::fs::write(path, text(number)).is_err() {
                return;
            }
        }
        if is_tracked && !packed_repository(&workspace) {
            return;
        }
        let limits = StepLimits {
            bytes_max: 4 << 30,
            file_bytes_max: 10 << 20,
            files_max: 200_000,
            look_time: Duration::from_secs(60),
            read_time: Duration::from_secs(60),
            compare_time: Duration::from_millis(150),
        };
        let Ok(mut steps) = Steps::new(&state, &workspace, limits.clone(), &[]) else { return };
        let around = |steps: &mut Steps, work: &dyn Fn()| {
            let open = steps.before("a command").ok();
            work();
            black_box(open.is_some_and(|open| steps.after(open).is_ok()));
        };
        let mut open = None;
        plan.measure(&names[0], 1, 0, |_| open = steps.before("a command").ok());
        black_box(open.is_some_and(|open| steps.after(open).is_ok()));
        plan.measure(&names[1], 30, 0, |_| around(&mut steps, &|| ()));
        let change = |turn: usize| {
            for number in 0..3 {
                let _ = std::fs::write(path(number * 17 % files), text(turn * 10 + number + 1));
            }
        };
        plan.measure(&names[2], 30, 0, |turn| around(&mut steps, &|| change(turn)));
        plan.measure(&names[3], 10, 0, |_| {
            black_box(steps.undo(1, false).is_ok());
        });
        if is_tracked {
            let limits = StepLimits { compare_time: Duration::from_secs(60), ..limits };
            let Ok(mut steps) = Steps::new(&top.join("other"), &workspace, limits, &[]) else { return };
            plan.measure(&format!("{}, compared", names[0]), 1, 0, |_| {
                black_box(steps.before("a command").is_ok());
            });
        }
        let _ = std::fs::remove_dir_all(top);
    }
}

/// Makes a directory a repository, with everything in one pack, and with an index as old as if the files had long been there.
fn packed_repository(workspace: &std::path::Path) -> bool {
    let git = |words: &[&str]| {
        let mut git = std::process::Command::new("git");
        git.args(["-c", "user.name=x", "-c", "user.email=x@y", "-c", "gc.auto=0"]).args(words).current_dir(workspace);
        git.output().is_ok_and(|output| output.status.success())
    };
    let index = || std::fs::File::options().write(true).open(workspace.join(".git/index")).ok();
    let later = std::time::SystemTime::now() + Duration::from_secs(60);
    git(&["init", "-q"])
        && git(&["add", "."])
        && git(&["commit", "-qm", "one"])
        && git(&["repack", "-adq"])
        && index().is_some_and(|index| index.set_modified(later).is_ok())
}

struct Nobody;

impl Replies for Nobody {
    fn reply(&mut self, _: &str, _: &[String]) -> Option<String> {
        None
    }
}

impl Memory for Nobody {
    fn search(&mut self, _: &str, _: usize) -> Result<Vec<Found>, String> {
        Ok(Vec::new())
    }
}

/// A batch of 200 edits in 50 files of 400 lines: parsed and shown as a difference; then, after an approval, checked once more
/// and applied to the disk.
fn edits(plan: &Plan) {
    const FILES: usize = 50;
    let top = std::env::temp_dir().join(format!("reedclaw-edits-{}", std::process::id()));
    let workspace = top.join("ws");
    if std::fs::create_dir_all(&workspace).is_err() {
        return;
    }
    let lines: String = (0..400).map(|line| format!("    let value_{line} = state_0(value, {line});\n")).collect();
    for file in 0..FILES {
        let _ = std::fs::write(workspace.join(format!("file-{file}.rs")), &lines);
    }
    let Ok(root) = Root::open(&workspace, None) else { return };
    let Ok(allowed) = Allowed::open(&top, root.path()) else { return };
    let mut registry = Registry::new();
    for tool in edit_tools(&Journals::new(top.join("edits")), registry.reads()) {
        let _ = registry.add(tool);
    }
    let mut gate = Gate::new(GateOptions {
        rules: Rules::new(&root.path().display().to_string(), "/home/u"),
        ceiling: reedclaw::gate::Ceiling::default(),
        sandbox: Box::new(|| ("none", Hold::Nothing)),
        log: None,
        audit_log: None,
        check: None,
        stop: Arc::new(|| None),
        allowed,
        path: reedclaw::base::program::SearchPath::new(String::new()),
    });
    let spill = Spill::new(&top);
    let place = Place { tree: &root, spill: &spill };
    // From state to state, so that each turn finds the result of the previous one.
    let arguments = |turn: usize| {
        let edit = |number: usize| {
            let (file, line) = (number % FILES, 37 + 90 * (number / FILES));
            let text = |state: usize| format!("value_{line} = state_{state}(");
            serde_json::json!({"toolName": "edit_replace_exact", "args": {
                "path": format!("file-{file}.rs"), "old": text(turn), "new": text(turn + 1)}})
        };
        serde_json::json!({"edits": (0..200).map(edit).collect::<Vec<_>>()}).to_string()
    };
    plan.measure("edits: 200 in 50 files, shown", 50, 0, |_| {
        black_box(registry.plan("edit_apply_batch", &arguments(0), place).is_ok());
    });
    plan.measure("edits: 200 in 50 files, applied", 50, 0, |turn| {
        let planned = registry.plan("edit_apply_batch", &arguments(turn), place).expect("the batch is valid");
        let (tool, arguments, plan) = planned;
        let (action, preview, changes) = (plan.action, plan.preview, plan.changes);
        let call = Call { tool, arguments, action, preview, changes, conversation: None, needs: Vec::new() };
        let ticket = gate.judge(call, root.path(), true);
        let digest = gate.question(&ticket).digest;
        let permit = gate
            .admit(ticket, &Approver::Person { digest, lasting: Lasting::Once, by: None })
            .expect("a yes is enough");
        let mut work = Work {
            place,
            limits: &Limits::default(),
            is_stopped: &|| false,
            person: &mut Nobody,
            memory: &mut Nobody,
            notes: &mut Vec::new(),
            used: &[],
            is_again: false,
            copied: None,
            new_in_home: Vec::new(),
            jobs: None,
            no_helper: None,
        };
        let outcome = registry.run(&permit, &mut work);
        assert!(outcome.success, "{outcome:?}");
    });
    let _ = std::fs::remove_dir_all(top);
}

/// The facts that a question in this very repository carries.
fn project(plan: &Plan) {
    let env = ["PATH", "HOME"].into_iter().filter_map(|name| Some((name.into(), std::env::var_os(name)?))).collect();
    let git = project::GitOptions { env, jail: Arc::new(|command, _| Ok(command)) };
    let wait = Duration::from_secs(60);
    let forbidden = Vec::new();
    let options = project::Options { tokens_max: 2000, wait, state_wait: wait, kept_in: None, forbidden, git };
    // Another, very large repository, if the variable names one.
    let here = std::env::var_os("REEDCLAW_BENCH_TREE").unwrap_or_else(|| env!("CARGO_MANIFEST_DIR").into());
    let here = PathBuf::from(here);
    plan.measure("project: seen for the first time", 50, 0, |_| {
        black_box(project::Surroundings::default().notes(&here, &options));
    });
    let mut surroundings = project::Surroundings::default();
    plan.measure("project: unchanged", 50, 0, |_| {
        black_box(surroundings.notes(&here, &options));
    });
    // Git's state takes as long as git needs: our own share is measured without it.
    let env = vec![("PATH".into(), "/nonexistent".into())];
    let git = project::GitOptions { env, ..options.git.clone() };
    let kept = std::env::temp_dir().join(format!("reedclaw-cards-{}", std::process::id()));
    let options = project::Options { kept_in: Some(kept.clone()), git, ..options };
    black_box(project::Surroundings::default().notes(&here, &options));
    plan.measure("project: kept card, without git", 50, 0, |_| {
        black_box(project::Surroundings::default().notes(&here, &options));
    });
    let mut surroundings = project::Surroundings::default();
    plan.measure("project: unchanged card, without git", 50, 0, |_| {
        black_box(surroundings.notes(&here, &options));
    });
    let _ = std::fs::remove_dir_all(kept);
}

fn redact(plan: &Plan) {
    let redactor = Redactor::new([("key", "a-key-of-forty-characters-0123456789-abcd")]);
    let line =
        "Nov 21 13:00:01 host app[411]: GET https://example.com/a/b?c=d token bucket 17 of 20, user=me took 3 ms\n";
    let log = line.repeat((1 << 20) / line.len());
    plan.measure("redact: 1 MiB of a log", 100, log.len(), |_| {
        black_box(redactor.redact(&log));
    });
    let tokens: Vec<&str> = log.as_bytes().chunks(4).filter_map(|piece| std::str::from_utf8(piece).ok()).collect();
    plan.measure("redact: 5,000 tokens streamed", 100, 0, |_| {
        let mut settling = Settling::default();
        for token in &tokens[..5_000] {
            black_box(settling.push(&redactor, token));
        }
        black_box(settling.finish(&redactor));
    });
}

/// Appends by one process, each after reading the last line again under the lock; an anchor, which also syncs the disk, every 64.
fn receipts(plan: &Plan) {
    let directory = std::env::temp_dir().join(format!("reedclaw-receipts-{}", std::process::id()));
    let options = LogOptions::new(directory.join("receipts.jsonl"), directory.clone());
    let entry = |risk| Receipt { rule: Some("a-rule".into()), ..Receipt::new("file_read", hash(b"{}"), risk) };
    let Ok(log) = Log::open(options.clone()) else { return };
    plan.measure("receipts: one append", 200_000, 0, |_| {
        black_box(log.denied(&entry("low")).is_ok());
    });
    plan.measure("receipts: verify 200,000", 10, 0, |_| {
        black_box(verify(&options, &Check::default()).is_ok_and(|report| report.verdict == Verdict::Whole));
    });
    plan.measure("receipts: an intent on the disk", 2_000, 0, |_| {
        black_box(log.intent(&entry("high")).is_ok());
    });
    drop(log);
    let sealed = LogOptions { hmac: true, path: directory.join("sealed.jsonl"), ..options };
    let Ok(log) = Log::open(sealed) else { return };
    plan.measure("receipts: one append, sealed", 200_000, 0, |_| {
        black_box(log.denied(&entry("low")).is_ok());
    });
    drop(log);
    let _ = std::fs::remove_dir_all(directory);
}

fn norris(plan: &Plan) {
    let directory = std::env::temp_dir().join(format!("reedclaw-norris-{}", std::process::id()));
    let Ok(mut store) = Store::open(&directory) else { return };
    let new = NewRun { kind: "norris", name: "", workspace: "/w", body: "{}", slot: None };
    let Ok(Some(run)) = store.begin_run(0, &new) else { return };
    plan.measure("norris: an event on the disk", 2_000, 0, |_| {
        black_box(store.add_run_event(run, 0, r#"{"event":"called","success":true}"#).is_ok());
    });
    let events = [Event::Began { goal: Goal::default() }, Event::Calling { intent: "Reading `a`".into() }];
    let events: Vec<&Event> = events.iter().chain(std::iter::repeat_n(&events[1], 9_998)).collect();
    plan.measure("norris: 10,000 events folded, and the next step", 200, 0, |_| {
        black_box(Run::of(events.iter().map(|event| (0, *event))).next(&Used::default()));
    });
    let _ = std::fs::remove_dir_all(directory);
}

fn route(plan: &Plan) {
    const LINES: [&str; 12] = [
        "ls -la",
        "git commit -m 'a message'",
        "make me a sandwich",
        "why is the build so slow today?",
        "for f in *.rs; do wc -l \"$f\"; done",
        "find . -name '*.rs' -exec grep -l foo {} + | sort | head -20",
        "cat error.log and tell me what is wrong with it",
        "gti status",
        "export PATH=$HOME/bin:$PATH",
        "test",
        "how do I undo the last commit without losing my changes",
        "docker run --rm -it -v \"$PWD\":/work alpine sh -c 'echo hi'",
    ];
    let programs = (0..4000)
        .map(|n| format!("program-{n}"))
        .chain(["ls", "git", "make", "wc", "find", "grep", "sort", "head", "cat", "docker"].map(str::to_owned));
    let names = Names { programs: Arc::new(programs.collect()), ..Names::default() };
    let context = Context::new(&names);
    plan.measure("route: one line", 120_000, 0, |turn| {
        black_box(decide(LINES[turn % LINES.len()], &context));
    });
    // All kinds of lines, once per turn, as the session's router meets them: it has to fill its caches itself.
    let table = include_str!("../src/route/hard_lines.tsv");
    let lines: Vec<&str> = table.lines().filter_map(|row| row.split('\t').nth(2)).collect();
    plan.measure("route: the hard lines", 100 * lines.len(), 0, |turn| {
        black_box(decide(lines[turn % lines.len()], &context));
    });
    let paste = lines.join("\n");
    plan.measure("route: a paste of 1,700 lines", 2_000, 0, |_| {
        black_box(decide(&paste, &context));
    });
}

/// Judging commands: each line of both tables in turn, and scripts of 4 KiB composed of them.
fn policy(plan: &Plan) {
    let rules = Rules { autonomy: Autonomy::Full, ..Rules::new("/home/u/proj", "/home/u") };
    let context = policy::Context::new(&rules);
    let table = |text: &'static str| {
        let lines = text.lines().filter(|line| !line.starts_with('#') && !line.is_empty());
        // Each line begins with the verdict that it had when the tables were frozen.
        lines.filter_map(|line| line.split_once('\t')).map(|(_, line)| line.replace('␤', "\n")).collect::<Vec<String>>()
    };
    let benign = table(include_str!("../tests/data/policy/benign.txt"));
    let lines: Vec<Action> = table(include_str!("../tests/data/policy/blocked.txt"))
        .into_iter()
        .chain(benign.iter().cloned())
        .map(|command| Action::Shell { command })
        .collect();
    plan.measure("policy: one line", 20 * lines.len(), 0, |turn| {
        black_box(judge(&lines[turn % lines.len()], &context));
    });
    let all = benign.join("\n");
    let mut scripts = Vec::new();
    let mut rest = all.as_str();
    while rest.len() > 4096 {
        let end = rest[..4096].rfind('\n').unwrap_or(4096);
        scripts.push(Action::Shell { command: rest[..end].to_owned() });
        rest = &rest[end..];
    }
    scripts.push(Action::Shell { command: "echo $(ls); ".repeat(340) });
    scripts.push(Action::Shell { command: format!("echo {}", "word ".repeat(800)) });
    plan.measure("policy: 4 KiB", 40 * scripts.len(), 4096, |turn| {
        black_box(judge(&scripts[turn % scripts.len()], &context));
    });
}

fn scanner(plan: &Plan) {
    let plain = b"000000 the quick brown fox jumps over the lazy dog and runs on\r\n".repeat(1024);
    let mut dense = Vec::new();
    for number in 0..8192 {
        dense.extend_from_slice(format!("\x1b[38;5;{}mw{:02}\x1b[0m ", number % 256, number % 100).as_bytes());
    }
    for (name, block) in [("scanner: plain, 64 KiB", &plain[..65_536]), ("scanner: colour, 64 KiB", &dense[..65_536])] {
        let mut scanner = Scanner::default();
        scanner.expect_nonce("0123456789abcdef0123456789abcdef");
        plan.measure(name, 4_000, block.len(), |_| {
            scanner.feed(block, &mut |piece| {
                black_box(&piece);
            });
        });
    }
}

fn markdown(plan: &Plan) {
    const PARAGRAPH: &str = "## A heading\n\nSome **bold** text with `code`, a [link](http://example.org/) and more \
        words that wrap at the edge of the screen.\n\n- one item\n- another *item*\n\n```sh\nls -la | grep foo\n```\n\n\
        | a | b |\n|---|---|\n| 1 | two words |\n\n";
    // A token is about four characters.
    let text: String = PARAGRAPH.repeat(5_000 * 4 / PARAGRAPH.len() + 1);
    let tokens: Vec<&str> = text.as_bytes().chunks(4).filter_map(|piece| std::str::from_utf8(piece).ok()).collect();
    plan.measure("markdown: 5,000 tokens streamed", 200, 0, |_| {
        let mut view = Markdown::new(Options { width_columns: 100, color: true, markdown: true });
        for token in &tokens[..5_000.min(tokens.len())] {
            black_box(view.push(token));
        }
        black_box(view.finish());
    });
}

fn config(plan: &Plan) {
    let directory = std::env::temp_dir().join(format!("reedclaw-micro-{}", std::process::id()));
    if std::fs::create_dir_all(&directory).is_err() {
        return;
    }
    let path = directory.join("config.lua");
    let text =
        "return { models = { local_one = { endpoint = \"http://127.0.0.1:8080\" } }, editor = { mode = \"vi\" } }";
    let env = [("HOME".into(), directory.clone().into_os_string())].into();
    let mut request = LoadRequest { explicit: None, env, cwd: PathBuf::from("/") };
    plan.measure("config: defaults only", 400, 0, |_| drop(black_box(load(&request))));
    if std::fs::write(&path, text).is_ok() {
        request.explicit = Some(path);
        plan.measure("config: with a file", 400, 0, |_| drop(black_box(load(&request))));
    }
    let _ = std::fs::remove_dir_all(directory);
}

/// A history of a million lines in memory; the file would add only the system's page cache.
fn history(plan: &Plan) {
    const ROWS: [&str; 2] = ["history: prefix in 1,000,000 rows", "history: prefix in one session of them"];
    if plan.only.as_ref().is_some_and(|only| !ROWS.iter().any(|name| name.contains(only.as_str()))) {
        return;
    }
    let Ok(mut store) = Store::in_memory() else { return };
    let rows = if plan.once { 10 } else { 1_000_000 };
    for number in 0..rows {
        store.append(&Entry {
            time: 1_700_000_000_000 + number,
            session: number / 500,
            cwd: Some("/home/u/project".into()),
            hostname: None,
            line: format!("command{} --option {number}", number * 7919 % 5000),
            kind: LineKind::Command,
            status: Some(0),
            duration_ms: Some(3),
        });
    }
    plan.measure(ROWS[0], 2_000, 0, |turn| {
        let prefix = format!("command{}", turn * 31 % 5000);
        let search = Search { text: TextMatch::Prefix(prefix), plain_only: true, limit: Some(1), ..Search::default() };
        black_box(store.search(&search).is_ok());
    });
    plan.measure(ROWS[1], 2_000, 0, |turn| {
        let text = TextMatch::Prefix("comm".into());
        let session = Some(1_000_000 + i64::try_from(turn).unwrap_or_default());
        let search = Search { text, session, plain_only: true, limit: Some(1), ..Search::default() };
        black_box(store.search(&search).is_ok());
    });
}

/// Full-text search over a million turns (two million messages) in a file, 44 words per turn; a word's rank decides its
/// frequency, roughly as in a natural language.
fn recall(plan: &Plan) {
    const QUERIES: [(&str, [&str; 3]); 6] = [
        ("recall: one rare word", ["w19000", "w18123", "w15007"]),
        ("recall: two words", ["w900 w2500", "w1200 w700", "w3100 w450"]),
        ("recall: the commonest words", ["w0", "w1", "w2"]),
        ("recall: two of the commonest words", ["w0 w1", "w1 w2", "w0 w3"]),
        ("recall: a prefix", ["w12*", "w15*", "w7*"]),
        ("recall: a phrase", ["\"w0 w1\"", "\"w3 w5\"", "\"w40 w7\""]),
    ];
    if plan.only.as_ref().is_some_and(|only| !QUERIES.iter().any(|(name, _)| name.contains(only.as_str()))) {
        return;
    }
    let directory = std::env::temp_dir().join(format!("reedclaw-recall-{}", std::process::id()));
    let Ok(mut store) = Store::open(&directory) else { return };
    let turns: i64 = if plan.once { 10 } else { 1_000_000 };
    let mut random = 1_u64;
    let mut words = |count: usize| {
        let mut text = String::new();
        for _ in 0..count {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let part = (random >> 40) as f64 / f64::from(1 << 24);
            // 20,000 words; the most frequent one is about every tenth word.
            text.push_str(&format!("w{} ", (20_000_f64.powf(part) - 1.0) as u32));
        }
        text
    };
    let mut talk = store.begin_conversation(0, "bench");
    for turn in 0..turns {
        if turn % 20 == 0 {
            talk = store.begin_conversation(turn, "bench");
        }
        let mut open = store.ask(talk, turn, &words(8), None);
        store.push_piece(&mut open, &words(36), turn);
        store.finish_message(open, MessageState::Complete, turn);
    }
    for (name, queries) in QUERIES {
        plan.measure(&format!("{name} in 1,000,000 turns"), 60, 0, |turn| {
            black_box(store.recall(queries[turn % queries.len()], 20).is_ok_and(|hits| !hits.is_empty()));
        });
    }
    drop(store);
    let _ = std::fs::remove_dir_all(directory);
}
