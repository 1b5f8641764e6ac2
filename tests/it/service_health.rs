//! The state that a service reports, the order of many runs, and the texts that start it with the machine.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use nix::sys::signal::Signal;
use serde_json::{Value, json};

use crate::changes::{rounds, work};
use crate::need::{TEST_PATH, require, require_root};
use crate::pty::program;
use crate::service::Service;
use crate::sop::{command, json_of, procedure, run, shell_step};
use crate::wait::wait_for;

/// Sends SIGHUP, on which a service reloads everything, until `service status` ends with this status.
fn until_status(home: &Path, service: &Service, wanted: i32) -> String {
    wait_for("the status", || {
        service.signal(Signal::SIGHUP);
        let (status, text) = run(home, &["service", "status"]);
        (status == wanted).then_some(text)
    })
}

#[test]
fn the_state_has_all_that_a_monitor_asks_for() {
    let answers = [json!({"when": "Say hi", "steps": [{"text": "hi"}]})];
    let home = crate::changes::home(&answers, "");
    let text = "[[triggers]]\nkind = \"cron\"\nat = \"0 7 * * *\"\ntz = \"UTC\"\n\
        [[steps]]\nid = \"hi\"\nkind = \"model\"\nprompt = \"Say hi\"\n";
    procedure(home.path(), "daily", text);
    assert_eq!(run(home.path(), &["sop", "run", "daily"]).0, 0);
    let state = |home: &Path| {
        let done = command(home, &["--path", ".", "service", "status", "--json"]).output().expect("it runs");
        let state: Value = serde_json::from_slice(&done.stdout).expect("JSON");
        (done.status.code(), state)
    };
    let (status, off) = state(home.path());
    assert_eq!((status, &off["alive"], &off["pid"]), (Some(1), &json!(false), &Value::Null), "{off}");
    let service = Service::start(home.path());
    let (status, on) = state(home.path());
    assert_eq!((status, &on["alive"], &on["degraded"]), (Some(0), &json!(true), &json!([])), "{on}");
    assert!(on["pid"].is_u64() && on["version"].is_string() && on["config_sha256"].is_string(), "{on}");
    assert_eq!(on["estop"], Value::Null);
    assert_eq!(on["store"], json!({"durable": true, "writable": true}));
    assert_eq!(on["receipts"]["valid"], json!(true), "{on}");
    assert_eq!(on["runs"], json!({"active": 0, "waiting": 0, "failed_24h": 0}));
    assert_eq!(on["scheduler"]["next"][0]["name"], "daily", "{on}");
    assert!(on["scheduler"]["next"][0]["at"].as_str().is_some_and(|at| at.contains("T07:00:00")), "{on}");
    assert_eq!(on["models"][0]["name"], "m", "{on}");
    assert!(on["models"][0]["last_ok"].is_string() && on["models"][0]["last_error"].is_null(), "{on}");
    let list = json_of(home.path(), &["sop", "list", "--json"]);
    assert_eq!(list[0]["last"], json!({"run": 1, "state": "done"}), "{list}");
    assert_eq!(list[0]["next"], on["scheduler"]["next"][0]["at"], "{list}");
    assert_eq!(service.end(Signal::SIGTERM), Some(0));
    let (_, text) = run(home.path(), &["sop", "list"]);
    assert!(text.contains("The service doesn't run, so times and files begin nothing"), "{text}");
}

#[test]
fn a_model_whose_key_the_service_lacks_is_named() {
    let models = "models = { far = { endpoint = \"http://127.0.0.1:9\", key_env = \"FAR_KEY\" }, \
        unused = { endpoint = \"http://127.0.0.1:9\", key_env = \"OTHER_KEY\" } }, default_model = \"far\"";
    let home = crate::home::TestHome::for_commands().config(models).directory("work/.git").done();
    procedure(home.path(), "asks", "[[steps]]\nid = \"hi\"\nkind = \"model\"\nprompt = \"Say hi\"\n");
    let service = Service::start(home.path());
    let (status, text) = run(home.path(), &["service", "status"]);
    assert_eq!(status, 3, "{text}");
    assert!(text.contains("the model far has no key") && text.contains("FAR_KEY") && !text.contains("OTHER"), "{text}");
    assert_eq!(service.end(Signal::SIGTERM), Some(0));
}

#[test]
fn a_locked_store_and_a_broken_chain_are_in_the_state() {
    let home = crate::changes::home(&[], "");
    procedure(home.path(), "writes", &format!("mode = \"auto\"\n{}", shell_step("a", "true", "")));
    assert_eq!(run(home.path(), &["sop", "run", "writes"]).0, 0);
    let service = Service::start(home.path());
    assert_eq!(run(home.path(), &["service", "status"]).0, 0);
    let store = home.path().join(".local/share/reedclaw/reedclaw.db");
    let other = rusqlite::Connection::open(store).expect("a store");
    other.execute_batch("BEGIN IMMEDIATE").expect("a lock");
    let text = until_status(home.path(), &service, 3);
    assert!(text.contains("runs can't be stored"), "{text}");
    other.execute_batch("ROLLBACK").expect("the lock is gone");
    until_status(home.path(), &service, 0);
    assert_eq!(service.end(Signal::SIGTERM), Some(0));

    let receipts = home.path().join(".local/state/reedclaw/receipts.jsonl");
    let text = fs::read_to_string(&receipts).expect("receipts");
    let _ = fs::remove_file(home.path().join(".local/state/reedclaw/receipts-counted.json"));
    fs::write(&receipts, text.replacen("\"shell\"", "\"sheII\"", 1)).expect("a change");
    let service = Service::start(home.path());
    let (status, text) = run(home.path(), &["service", "status"]);
    assert!(status == 3 && text.contains("the chain of receipts doesn't hold: receipt 1"), "{status}: {text}");
    let (_, text) = run(home.path(), &["metrics"]);
    assert!(text.contains("reedclaw_receipt_chain_valid 0"), "{text}");
    assert_eq!(service.end(Signal::SIGTERM), Some(0));
}

#[test]
fn a_full_disk_is_in_the_state_and_the_service_goes_on() {
    if !require_root() || !require(&["unshare", "mount", "dd"]) {
        return;
    }
    let home = crate::changes::home(&[], "");
    let steps = shell_step("one", "true", "");
    procedure(
        home.path(),
        "files",
        &format!("mode = \"auto\"\n[[triggers]]\nkind = \"file\"\npaths = [\"in/*\"]\nsettle_ms = 0\n{steps}"),
    );
    let script = r#"
        mkdir -p "$HOME/.local" "$HOME/work"/in
        cp -a "$HOME/.local" "$HOME/kept"
        mount -t tmpfs -o size=16m none "$HOME/.local"
        cp -a "$HOME/kept/." "$HOME/.local/"
        cd "$HOME/work"
        "$PROGRAM" --path . service run 2>"$HOME/said" &
        pid=$!
        until grep -q 'the service runs' "$HOME/said"; do :; done
        "$PROGRAM" service status >/dev/null; echo "status $?"
        dd if=/dev/zero of="$HOME/.local/filler" bs=64k 2>/dev/null
        "$PROGRAM" service status; echo "status $?"
        echo 1 > in/a
        until grep -q 'failed\|full\|can.t' "$HOME/said"; do :; done
        rm "$HOME/.local/filler"
        until grep -q 'of files: done' "$HOME/said"; do kill -HUP $pid; done
        "$PROGRAM" service status >/dev/null; echo "status $?"
        kill $pid; wait $pid; echo "ended $?"
    "#;
    let mut unshare = Command::new("unshare");
    unshare.args(["--mount", "--propagation", "private", "bash", "-c", script]).env_clear();
    unshare.env("PATH", TEST_PATH).env("HOME", home.path()).env("LANG", "C.UTF-8").env("PROGRAM", program());
    let done = unshare.stdin(Stdio::null()).output().expect("it runs");
    let text = String::from_utf8_lossy(&done.stdout).into_owned() + &String::from_utf8_lossy(&done.stderr);
    let said = fs::read_to_string(home.path().join("said")).unwrap_or_default();
    let ends: Vec<&str> = text.lines().filter(|it| it.starts_with("status ") || it.starts_with("ended ")).collect();
    assert_eq!(ends, ["status 0", "status 3", "status 0", "ended 0"], "{text}\n{said}");
    assert!(text.contains("is full"), "{text}");
}

#[test]
fn a_hundred_at_once_begin_in_order_and_work_as_many_at_once_as_is_allowed() {
    let home = crate::changes::home(&[], "service = { parallel = 3 }, sop = { dirs = { \"~/mine\" } }");
    let names: Vec<String> = (0..100).map(|number| format!("p{number:02}")).collect();
    let now = jiff::Zoned::now().with_time_zone(jiff::tz::TimeZone::UTC);
    for (number, name) in names.iter().enumerate() {
        let place = home.path().join("mine").join(name);
        fs::create_dir_all(&place).expect("a directory");
        fs::create_dir_all(home.path().join(format!("w{}", number % 5))).expect("a workspace");
        // Each has its own minute, between three and two hours ago; the first procedure the latest one.
        let time = &now - jiff::SignedDuration::from_mins(120 + i64::try_from(number % 60).expect("small"));
        let (hour, minute) = (time.strftime("%H"), time.strftime("%M"));
        let text = format!(
            "name = \"{name}\"\nworkspace = \"~/w{}\"\n[[triggers]]\nkind = \"cron\"\nat = \"{minute} {hour} * * *\"\ntz = \"UTC\"\n\
             catch_up = \"once\"\n[[steps]]\nid = \"a\"\nkind = \"wait\"\nseconds = 0\n",
            number % 5
        );
        fs::write(place.join("SOP.toml"), text).expect("a procedure");
        let env: BTreeMap<_, _> = [("HOME".into(), home.path().as_os_str().to_owned())].into();
        let dirs = ["~/mine".to_owned()];
        let found = reedclaw::app::find_procedure((&dirs, &env), &home.path().join("work"), name).expect("found");
        assert_eq!(found.problems, [], "{name}");
        reedclaw::app::trust_procedure(&env, &found).expect("trusted");
    }
    // The last run of each began four hours ago.
    assert_eq!(run(home.path(), &["sop", "status"]).0, 0);
    let database = rusqlite::Connection::open(home.path().join(".local/share/reedclaw/reedclaw.db")).expect("a store");
    let past = jiff::Timestamp::now().as_millisecond() - 4 * 3_600_000;
    for name in &names {
        let place = fs::canonicalize(home.path().join("mine").join(name)).expect("a path").display().to_string();
        let sql = "INSERT INTO run_fire (place, slot, run, time) VALUES (?1, 'cron:0:past', 0, ?2)";
        database.execute(sql, rusqlite::params![place, past]).expect("a row");
    }
    let mut service = Service::start(home.path());
    let is_done = |line: &&String| line.contains(": done");
    for _ in service.first.iter().filter(is_done).count()..100 {
        service.expect(": done");
    }
    assert_eq!(service.end(Signal::SIGTERM), Some(0));
    let sql = "SELECT slot FROM run_fire WHERE run > 0 ORDER BY run";
    let mut query = database.prepare(sql).expect("a query");
    let slots: Vec<String> =
        query.query_map([], |row| row.get(0)).expect("rows").map(|it| it.expect("a slot")).collect();
    assert!(slots.len() == 100 && slots.is_sorted(), "{slots:?}");
    // Number of runs that overlap, in total and in one workspace.
    let sql =
        "SELECT run.workspace, min(event.time), max(event.time) FROM run JOIN run_event event ON event.run = run.id
        WHERE event.seq > 1 GROUP BY run.id";
    let mut query = database.prepare(sql).expect("a query");
    let row = |row: &rusqlite::Row<'_>| Ok((row.get::<_, String>(0)?, row.get::<_, i64>(1)?, row.get::<_, i64>(2)?));
    let spans: Vec<(String, i64, i64)> = query.query_map([], row).expect("rows").map(|it| it.expect("a row")).collect();
    for (place, begun, _) in &spans {
        let at_once: Vec<_> = spans.iter().filter(|(_, from, to)| from <= begun && begun < to).collect();
        assert!(at_once.len() <= 3, "{at_once:?}");
        assert!(at_once.iter().filter(|(other, ..)| other == place).count() <= 1, "{at_once:?}");
    }
}

#[test]
fn a_time_is_left_out_while_the_run_before_is_at_work_and_without_triggers_none_begins() {
    let home = crate::changes::home(&[], "service = { triggers = false }");
    let text = "mode = \"auto\"\n[[triggers]]\nkind = \"file\"\npaths = [\"in/*\"]\nsettle_ms = 0\n";
    procedure(home.path(), "files", &format!("{text}{}", shell_step("a", "true", "")));
    fs::create_dir(work(home.path(), "in")).expect("a directory");
    let mut service = Service::start(home.path());
    fs::write(work(home.path(), "in/a"), "1").expect("a file");
    let config = home.path().join(".config/reedclaw/config.lua");
    let text = fs::read_to_string(&config).expect("a config").replace("triggers = false", "triggers = true");
    fs::write(&config, text).expect("a config");
    // The change of the file is noticed without a signal.
    service.expect("the config was read again");
    fs::write(work(home.path(), "in/b"), "1").expect("a file");
    service.expect("run 1 of files: done");
    assert_eq!(service.end(Signal::SIGTERM), Some(0));
    let file = home.path().join(".local/state/reedclaw/reedclaw.log");
    let log = fs::read_to_string(file).expect("a log");
    for event in ["service_started", "trigger_fired", "sop_started", "sop_step", "sop_ended", "service_ended"] {
        assert!(log.contains(&format!("\"event\":\"{event}\"")), "{event}: {log}");
    }
}

/// One sample in Prometheus' text format: its name, labels and value.
fn sample(line: &str) -> Option<(String, String, f64)> {
    let (series, value) = line.rsplit_once(' ')?;
    let (name, labels) = series.split_once('{').map_or((series, ""), |(name, labels)| (name, labels));
    let is_name = |text: &str| {
        text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
            && text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
    };
    if !labels.is_empty() {
        for label in labels.strip_suffix('}')?.split("\",") {
            let (name, value) = label.split_once("=\"")?;
            if !is_name(name) || value.trim_end_matches('"').contains('"') {
                return None;
            }
        }
    }
    is_name(name).then_some((name.to_owned(), labels.to_owned(), value.parse().ok()?))
}

#[test]
fn metrics_after_a_scripted_day_are_right_and_in_the_text_format() {
    let calls = [("shell", json!({"command": "echo hi"})), ("file_read", json!({"path": "note"}))];
    let answers = [
        rounds("please", &calls, "done"),
        rounds("denied", &[("http", json!({"url": "http://127.0.0.1:9/"}))], "so be it"),
        json!({"when": "fails", "steps": [{"error": {"status": 400, "message": "no"}}]}),
    ];
    let home = crate::changes::home(&answers, "");
    fs::write(work(home.path(), "note"), "x\n").expect("a file");
    for (question, status) in [("please", 0), ("denied", 0)] {
        let (ended, text) = run(home.path(), &["agent", "-m", question]);
        assert_eq!(ended, status, "{question}: {text}");
    }
    assert_ne!(run(home.path(), &["agent", "-m", "fails"]).0, 0);
    procedure(home.path(), "daily", &format!("mode = \"auto\"\n{}", shell_step("a", "true", "")));
    assert_eq!(run(home.path(), &["sop", "run", "daily"]).0, 0);
    let (status, text) = run(home.path(), &["metrics"]);
    assert_eq!(status, 0, "{text}");
    let mut found: BTreeMap<String, f64> = BTreeMap::new();
    let mut typed = Vec::new();
    for line in text.lines() {
        if let Some(rest) = line.strip_prefix("# ") {
            typed.extend(rest.strip_prefix("TYPE ").map(|it| it.split(' ').next().unwrap_or_default().to_owned()));
            continue;
        }
        let (name, labels, value) = sample(line).unwrap_or_else(|| panic!("no sample: {line}"));
        assert!(typed.contains(&name), "no type before {line}");
        assert!(found.insert(format!("{name}{{{labels}"), value).is_none(), "twice: {line}");
    }
    for (name, value) in [
        ("reedclaw_conversations_total{", 4.0),
        ("reedclaw_tool_calls_total{", 3.0),
        ("reedclaw_tool_denials_total{", 1.0),
        ("reedclaw_provider_errors_total{", 1.0),
        ("reedclaw_receipt_chain_valid{", 1.0),
    ] {
        assert_eq!(found.get(name), Some(&value), "{name}: {text}");
    }
}

const GOLDEN: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/service");

/// The text for a service manager, with the program's path replaced.
fn printed(kind: &str) -> String {
    let home = crate::changes::home(&[], "");
    let mut command = command(home.path(), &["--config", ".config.lua", "service", "install", "--print", kind]);
    fs::write(work(home.path(), ".config.lua"), "return {}").expect("a config");
    let done = command.output().expect("it runs");
    assert!(done.status.success(), "{done:?}");
    let text = String::from_utf8(done.stdout).expect("UTF-8");
    let place = fs::canonicalize(work(home.path(), "")).expect("a path").display().to_string();
    text.replace(&program().display().to_string(), "/usr/bin/reedclaw").replace(&place, "/home/me/project")
}

#[test]
fn the_texts_of_service_managers_are_as_they_were_and_their_readers_take_them() {
    for (kind, file) in [
        ("systemd", "reedclaw.service"),
        ("launchd", "reedclaw.plist"),
        ("openrc", "reedclaw.sh"),
        ("crontab", "crontab"),
    ] {
        let golden = fs::read_to_string(format!("{GOLDEN}/{file}")).unwrap_or_default();
        assert_eq!(printed(kind), golden, "{kind}");
    }
    if require(&["python3"]) {
        let script = "import plistlib, sys, json; print(json.dumps(plistlib.load(open(sys.argv[1], 'rb'))))";
        let mut python = Command::new("python3");
        let done = python.args(["-c", script, &format!("{GOLDEN}/reedclaw.plist")]).output().expect("it runs");
        let list: Value = serde_json::from_slice(&done.stdout).unwrap_or_else(|_| panic!("{done:?}"));
        assert_eq!(list["Label"], "reedclaw.service");
        assert_eq!(list["ProgramArguments"].as_array().and_then(|it| it.last()), Some(&json!("run")));
        assert_eq!(list["KeepAlive"], json!({"SuccessfulExit": false}));
        assert_eq!((&list["RunAtLoad"], &list["ProcessType"]), (&json!(true), &json!("Background")));
        assert_eq!(list["Umask"], json!(0o077));
    }
    // The variables that OpenRC's shell reads.
    let script =
        format!(". {GOLDEN}/reedclaw.sh; eval \"set -- $command_args\"; printf '%s\\n' \"$command\" \"$@\" \"$retry\"");
    let done = Command::new("sh").args(["-c", &script]).output().expect("it runs");
    let words = String::from_utf8_lossy(&done.stdout).into_owned();
    let words: Vec<&str> = words.lines().collect();
    assert_eq!(
        words,
        ["/usr/bin/reedclaw", "--config", "/home/me/project/.config.lua", "service", "run", "TERM/20/KILL/5"]
    );
    if require(&["systemd-analyze"]) {
        let place = tempfile::tempdir().expect("a directory");
        let unit = place.path().join("reedclaw.service");
        fs::write(&unit, printed("systemd").replace("/usr/bin/reedclaw", "/bin/true")).expect("a unit");
        let mut analyze = Command::new("systemd-analyze");
        let done =
            analyze.args(["verify", "--user", "--man=no"]).arg(&unit).env("XDG_RUNTIME_DIR", place.path()).output();
        let done = done.expect("it runs");
        let said = String::from_utf8_lossy(&done.stderr).into_owned();
        assert!(!said.contains("reedclaw.service:"), "{said}");
    }
}

/// A directory with programs of these names, which write their arguments to `calls` in the home.
fn stand_ins(home: &Path, names: &[&str]) -> String {
    let bin = home.join("bin");
    fs::create_dir_all(&bin).expect("a directory");
    for name in names {
        let text = format!("#!/bin/sh\necho {name} \"$@\" >> {}/calls\n", home.display());
        fs::write(bin.join(name), text).expect("a program");
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        fs::set_permissions(bin.join(name), mode).expect("a mode");
    }
    bin.display().to_string()
}

#[test]
fn launchd_and_openrc_are_called_and_without_any_a_crontab_line_is_printed() {
    let service = |home: &Path, path: &str, word: &str| {
        let done = command(home, &["service", word]).env("PATH", path).output().expect("it runs");
        let text = String::from_utf8_lossy(&done.stdout).into_owned() + &String::from_utf8_lossy(&done.stderr);
        (done.status.code(), text)
    };
    let user = nix::unistd::geteuid();
    let gui = format!("gui/{user}");
    for (names, place, calls) in [
        (
            &["launchctl"][..],
            "Library/LaunchAgents/reedclaw.service.plist",
            vec![
                format!("launchctl bootstrap {gui} HOME/Library/LaunchAgents/reedclaw.service.plist"),
                format!("launchctl kickstart -k {gui}/reedclaw.service"),
                format!("launchctl kill SIGTERM {gui}/reedclaw.service"),
                format!("launchctl bootout {gui}/reedclaw.service"),
            ],
        ),
        (
            &["rc-service", "rc-update"][..],
            ".config/rc/init.d/reedclaw",
            [
                "rc-update --user add reedclaw default",
                "rc-service --user reedclaw start",
                "rc-service --user reedclaw restart",
                "rc-service --user reedclaw stop",
                "rc-service --user reedclaw stop",
                "rc-update --user del reedclaw",
            ]
            .map(str::to_owned)
            .to_vec(),
        ),
    ] {
        let home = crate::changes::home(&[], "");
        let path = stand_ins(home.path(), names);
        for word in ["install", "restart", "stop", "uninstall"] {
            let (status, text) = service(home.path(), &path, word);
            assert_eq!(status, Some(0), "{word}: {text}");
            assert_eq!(home.path().join(place).exists(), word != "uninstall", "{word}: {text}");
        }
        let made = fs::read_to_string(home.path().join("calls")).expect("calls");
        let made = made.replace(&home.path().display().to_string(), "HOME");
        assert_eq!(made.lines().collect::<Vec<_>>(), calls, "{names:?}");
    }
    let home = crate::changes::home(&[], "");
    let (status, text) = service(home.path(), "/nowhere", "install");
    assert!(status == Some(1) && text.contains("@reboot PATH=/nowhere ") && text.contains("In a container"), "{text}");
    assert_eq!(service(home.path(), "/nowhere", "start").0, Some(1));
}
