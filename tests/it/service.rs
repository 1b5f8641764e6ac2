//! The service of procedures, with the executable: the runs that its triggers begin, one at a time, and its end and restart.

use std::fs;
use std::io::{BufRead, BufReader, Lines};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixDatagram;
use std::path::Path;
use std::process::{Child, ChildStderr, Command, Stdio};
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};

use crate::changes::{read, rounds, work};
use crate::sop::{command, json_of, procedure, run, shell_step};

/// A running service.
pub struct Service {
    child: Child,
    lines: Lines<BufReader<ChildStderr>>,
    /// The lines up to the one about its start: runs that were due begin before it.
    pub first: Vec<String>,
}

impl Service {
    pub fn start(home: &Path) -> Self {
        let mut child = command(home, &["--path", ".", "service", "run"]);
        let mut service = Self::of(&mut child);
        service.first = service.until("the service runs");
        service
    }

    pub fn of(command: &mut Command) -> Self {
        let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().expect("it starts");
        let lines = BufReader::new(child.stderr.take().expect("standard error")).lines();
        Self { child, lines, first: Vec::new() }
    }

    /// Reads lines up to the first one that contains this text.
    pub fn until(&mut self, text: &str) -> Vec<String> {
        let mut seen = Vec::new();
        for line in self.lines.by_ref().map_while(Result::ok) {
            let is_it = line.contains(text);
            seen.push(line);
            if is_it {
                return seen;
            }
        }
        panic!("no {text:?} in {seen:#?}");
    }

    /// Reads lines up to the first one that contains this text, and returns it.
    pub fn expect(&mut self, text: &str) -> String {
        self.until(text).pop().unwrap_or_default()
    }

    pub fn signal(&self, signal: Signal) {
        let pid = Pid::from_raw(i32::try_from(self.child.id()).expect("a process"));
        kill(pid, signal).expect("a signal");
    }

    pub fn end(mut self, signal: Signal) -> Option<i32> {
        self.signal(signal);
        self.lines.by_ref().for_each(drop);
        self.child.wait().expect("it ends").code()
    }
}

fn home() -> tempfile::TempDir {
    crate::changes::home(&[], "")
}

const FILE: &str = "mode = \"auto\"\n[[triggers]]\nkind = \"file\"\npaths = [\"inbox/*.csv\"]\nsettle_ms = 100\n";

#[test]
fn a_file_begins_a_run_once_and_only_one_service_runs() {
    let home = home();
    fs::create_dir(work(home.path(), "inbox")).expect("a directory");
    fs::write(work(home.path(), "inbox/old.csv"), "1\n").expect("a file");
    let step =
        shell_step("note", "echo \"$FILE\" >> log", "env_from = { FILE = \"trigger.path\" }\nwrites = [\"log\"]");
    procedure(home.path(), "files", &format!("{FILE}{step}"));
    let mut service = Service::start(home.path());
    let (status, text) = run(home.path(), &["service", "run"]);
    assert!(status == 1 && text.contains("the service runs already"), "{text}");
    let state = json_of(home.path(), &["service", "status", "--json"]);
    assert_eq!(
        (state["alive"].as_bool(), &state["procedures"][0]["name"]),
        (Some(true), &Value::from("files")),
        "{state}"
    );
    fs::write(work(home.path(), "draft"), "1\n").expect("a file");
    fs::rename(work(home.path(), "draft"), work(home.path(), "inbox/new.csv")).expect("it is moved");
    service.expect("run 1 of files begins");
    service.expect("run 1 of files: done");
    assert_eq!(read(home.path(), "log"), "inbox/new.csv\n");
    // A name can't forge a line of the log, and the log names a file for which no run can begin.
    fs::write(work(home.path(), "inbox/x\nrun 9 of f: failed.csv"), "1\n").expect("a file");
    service.expect("inbox/x\\nrun 9 of f: failed.csv");
    let odd = std::os::unix::ffi::OsStrExt::from_bytes(b"bad\xff.csv");
    fs::write(work(home.path(), "inbox").join::<&std::ffi::OsStr>(odd), "1\n").expect("a file");
    service.expect("bad\u{fffd}.csv began no run: its name isn't UTF-8; rename it");
    // A trusted file that has changed begins nothing.
    let place = work(home.path(), "sops/files/SOP.toml");
    let text = fs::read_to_string(&place).expect("a file");
    fs::write(&place, format!("{text}# changed\n")).expect("a change");
    fs::write(work(home.path(), "inbox/third.csv"), "1\n").expect("a file");
    assert_eq!(service.end(Signal::SIGTERM), Some(0));
    assert_eq!(run(home.path(), &["service", "status"]).0, 1);
    assert_eq!(json_of(home.path(), &["sop", "status", "--json"]).as_array().map(Vec::len), Some(2));
}

/// A home with a procedure of two steps, the first of which is this command, and a service that runs it.
fn begun(first: &str) -> (tempfile::TempDir, Service) {
    let home = home();
    let steps =
        shell_step("one", first, "writes = [\"log\"]") + &shell_step("two", "echo two >> log", "writes = [\"log\"]");
    procedure(home.path(), "files", &format!("{FILE}{steps}"));
    fs::create_dir(work(home.path(), "inbox")).expect("a directory");
    let mut service = Service::start(home.path());
    fs::write(work(home.path(), "inbox/a.csv"), "1\n").expect("a file");
    service.expect("run 1 of files begins");
    while !run(home.path(), &["receipt", "list"]).1.contains("intent") {}
    (home, service)
}

#[test]
fn sigterm_ends_after_the_step_at_hand_and_the_next_service_continues() {
    let (home, service) = begun("sleep 3; echo one >> log");
    assert_eq!(service.end(Signal::SIGTERM), Some(0));
    let state = json_of(home.path(), &["sop", "status", "1", "--json"]);
    assert_eq!((read(home.path(), "log"), &state["state"]), ("one\n".into(), &Value::from("paused")), "{state}");
    let mut service = Service::start(home.path());
    service.expect("run 1 of files: done");
    assert_eq!(service.end(Signal::SIGTERM), Some(0));
    assert_eq!(read(home.path(), "log"), "one\ntwo\n");
}

#[test]
fn a_manager_hears_that_the_service_is_ready_lives_and_ends() {
    let home = home();
    let place = home.path().join("notify");
    let manager = UnixDatagram::bind(&place).expect("a socket");
    manager.set_read_timeout(Some(Duration::from_secs(60))).expect("a time limit");
    let mut child = command(home.path(), &["--path", ".", "service", "run"]);
    child.env("NOTIFY_SOCKET", &place).env("WATCHDOG_USEC", "200000");
    let service = Service::of(&mut child);
    let heard = || {
        let mut buffer = [0; 64];
        let length = manager.recv(&mut buffer).expect("a report");
        String::from_utf8_lossy(&buffer[..length]).into_owned()
    };
    assert_eq!([heard(), heard(), heard()], ["READY=1", "WATCHDOG=1", "WATCHDOG=1"]);
    assert_eq!(service.end(Signal::SIGTERM), Some(0));
    while heard() != "STOPPING=1" {}
}

#[test]
fn a_broken_config_leaves_the_service_with_the_one_before_and_says_so() {
    let heard = "service = { notify = { \"sh\", \"-c\", \"cat >> \\\"$HOME/heard\\\"\" } }";
    let home = crate::changes::home(&[], heard);
    procedure(home.path(), "files", &format!("{FILE}{}", shell_step("one", "echo one >> log", "writes = [\"log\"]")));
    fs::create_dir(work(home.path(), "inbox")).expect("a directory");
    let mut service = Service::start(home.path());
    assert_eq!(run(home.path(), &["service", "status"]).0, 0);
    let config = home.path().join(".config/reedclaw/config.lua");
    let good = fs::read_to_string(&config).expect("a config");
    fs::write(&config, "return { service = {").expect("a config");
    service.signal(Signal::SIGHUP);
    service.expect("the settings from before count");
    let is_degraded = || run(home.path(), &["service", "status", "--json"]);
    let (mut status, mut text) = is_degraded();
    while status == 0 {
        (status, text) = is_degraded();
    }
    assert!(status == 3 && text.contains("the config has a mistake"), "{status} {text}");
    fs::write(work(home.path(), "inbox/a.csv"), "1\n").expect("a file");
    service.expect("run 1 of files: done");
    fs::write(&config, &good).expect("a config");
    service.signal(Signal::SIGHUP);
    service.expect("the config was read again");
    while run(home.path(), &["service", "status"]).0 != 0 {}
    fs::write(work(home.path(), "inbox/b.csv"), "1\n").expect("a file");
    service.expect("run 2 of files: done");
    assert_eq!(service.end(Signal::SIGTERM), Some(0));
    let heard =
        fs::read_to_string(home.path().join("heard")).expect("both were told, by the program of the good config");
    let heard: Vec<Value> = heard.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    let told: Vec<_> = heard.iter().map(|it| (it["run"].as_i64(), it["state"].as_str(), it["name"].as_str())).collect();
    assert_eq!(told, [(Some(1), Some("done"), Some("files")), (Some(2), Some("done"), Some("files"))]);
}

#[test]
fn a_killed_services_step_that_may_have_run_waits_for_a_person() {
    let (home, service) = begun("sleep 600; echo one >> log");
    assert_eq!(service.end(Signal::SIGKILL), None);
    let mut service = Service::start(home.path());
    service.expect("run 1 of files: unknown");
    assert_eq!(service.end(Signal::SIGTERM), Some(0));
    let (status, text) = run(home.path(), &["sop", "resume", "1", "--step", "skip"]);
    assert_eq!((status, read(home.path(), "log")), (0, "two\n".into()), "{text}");
}

#[test]
fn a_missed_time_is_made_up_for_once_and_not_during_an_emergency_stop() {
    let home = home();
    let text =
        "mode = \"auto\"\n[[triggers]]\nkind = \"cron\"\nat = \"0 * * * *\"\ntz = \"UTC\"\ncatch_up = \"once\"\n";
    procedure(home.path(), "hourly", &format!("{text}{}", shell_step("a", "true", "")));
    // Its last run began five hours ago.
    assert_eq!(run(home.path(), &["sop", "run", "hourly"]).0, 0);
    let place = fs::canonicalize(work(home.path(), "sops/hourly")).expect("a path").display().to_string();
    let past = jiff::Timestamp::now().as_millisecond() - 5 * 3_600_000;
    let database = rusqlite::Connection::open(home.path().join(".local/share/reedclaw/reedclaw.db")).expect("a store");
    let sql = "INSERT INTO run_fire (place, slot, run, time) VALUES (?1, 'cron:0:past', 1, ?2)";
    database.execute(sql, rusqlite::params![place, past]).expect("a row");
    run(home.path(), &["estop"]);
    let service = Service::start(home.path());
    assert_eq!(run(home.path(), &["service", "status"]).0, 9);
    assert_eq!(service.end(Signal::SIGTERM), Some(0));
    assert_eq!(json_of(home.path(), &["sop", "status", "--json"]).as_array().map(Vec::len), Some(1));
    reedclaw::estop::Estop::new(home.path().join(".local/state/reedclaw")).clear().expect("the stop is cleared");
    let mut service = Service::start(home.path());
    service.expect("run 2 of hourly: done");
    assert_eq!(service.end(Signal::SIGTERM), Some(0));
    let service = Service::start(home.path());
    assert_eq!(service.end(Signal::SIGTERM), Some(0));
    assert_eq!(
        json_of(home.path(), &["sop", "status", "--json"]).as_array().map(Vec::len),
        Some(2),
        "five hours are one run"
    );
}

#[test]
fn in_a_quiet_time_nothing_begins_by_the_clock_and_afterwards_it_does() {
    let at = |hours: i64| {
        let time = jiff::Zoned::now().saturating_add(jiff::SignedDuration::from_hours(hours));
        time.with_time_zone(jiff::tz::TimeZone::UTC).strftime("%H:%M").to_string()
    };
    let home = crate::changes::home(&[], &format!("service = {{ quiet = \"{}-{}\" }}", at(-1), at(1)));
    let text = "mode = \"auto\"\n[[triggers]]\nkind = \"cron\"\nat = \"0 * * * *\"\ncatch_up = \"once\"\n";
    procedure(home.path(), "hourly", &format!("{text}{}", shell_step("a", "true", "")));
    assert_eq!(run(home.path(), &["sop", "run", "hourly"]).0, 0);
    let place = fs::canonicalize(work(home.path(), "sops/hourly")).expect("a path").display().to_string();
    let past = jiff::Timestamp::now().as_millisecond() - 5 * 3_600_000;
    let database = rusqlite::Connection::open(home.path().join(".local/share/reedclaw/reedclaw.db")).expect("a store");
    let sql = "INSERT INTO run_fire (place, slot, run, time) VALUES (?1, 'cron:0:past', 1, ?2)";
    database.execute(sql, rusqlite::params![place, past]).expect("a row");
    let mut child = command(home.path(), &["--path", ".", "service", "run"]);
    let mut service = Service::of(child.env("TZ", "UTC"));
    service.expect("the service runs");
    assert_eq!(json_of(home.path(), &["sop", "status", "--json"]).as_array().map(Vec::len), Some(1));
    let config = home.path().join(".config/reedclaw/config.lua");
    let good = fs::read_to_string(&config).expect("a config").replace("quiet = ", "quiet = \"\" -- ");
    fs::write(&config, good.replace("\" }", "\"\n}")).expect("a config");
    service.signal(Signal::SIGHUP);
    service.expect("run 2 of hourly: done");
    assert_eq!(service.end(Signal::SIGTERM), Some(0));
}

#[test]
fn metrics_are_what_the_sessions_did() {
    let calls = [("shell", json!({"command": "echo hi"})), ("http", json!({"url": "http://127.0.0.1:9/"}))];
    let home = crate::changes::home(&[rounds("please", &calls, "done")], "");
    assert_eq!(run(home.path(), &["metrics"]).0, 0, "before anything was stored");
    let (status, text) = run(home.path(), &["agent", "-m", "please"]);
    assert_eq!(status, 0, "{text}");
    let (status, text) = run(home.path(), &["metrics"]);
    assert_eq!(status, 0, "{text}");
    for line in [
        "reedclaw_conversations_total 1",
        "reedclaw_tool_calls_total 1",
        "reedclaw_tool_denials_total 1",
        "reedclaw_provider_errors_total 0",
        "reedclaw_receipt_chain_valid 1",
        "reedclaw_requests_total{model=\"m\"} 3",
    ] {
        assert!(text.lines().any(|it| it == line), "{line}: {text}");
    }
    let is_named = |line: &str| line.starts_with("# HELP reedclaw_") || line.starts_with("# TYPE reedclaw_");
    assert!(text.lines().all(|line| line.starts_with("reedclaw_") || is_named(line)), "{text}");
}

#[test]
fn the_unit_is_installed_started_and_taken_back_if_that_fails() {
    let home = home();
    let place = home.path().join(".config/systemd/user/reedclaw.service");
    let fake = |status: u8| {
        let path = home.path().join("bin");
        fs::create_dir_all(&path).expect("a directory");
        let text = format!("#!/bin/sh\necho \"$@\" >> {}/calls\nexit {status}\n", home.path().display());
        fs::write(path.join("systemctl"), text).expect("a program");
        fs::set_permissions(path.join("systemctl"), fs::Permissions::from_mode(0o755)).expect("a mode");
    };
    let service = |word: &str| {
        let mut command: Command = command(home.path(), &["service", word]);
        let path = format!("{}:{}", home.path().join("bin").display(), crate::need::TEST_PATH);
        let done = command.env("PATH", path).output().expect("it runs");
        (done.status.code(), String::from_utf8_lossy(&done.stderr).into_owned())
    };
    fake(1);
    let (status, text) = service("install");
    assert!(status == Some(1) && text.contains("reedclaw service run works in the foreground"), "{text}");
    assert!(!place.exists(), "{text}");
    assert_eq!(service("start").0, Some(1));
    fake(0);
    assert_eq!(service("install").0, Some(0));
    let unit = fs::read_to_string(&place).expect("a unit");
    assert!(unit.contains("\"service\" \"run\"") && unit.contains("Restart=on-failure"), "{unit}");
    for word in ["stop", "start", "restart"] {
        assert_eq!(service(word).0, Some(0), "{word}");
    }
    assert_eq!(service("uninstall").0, Some(0));
    assert!(!place.exists());
    let calls = fs::read_to_string(home.path().join("calls")).expect("calls");
    for call in [
        "--user daemon-reload",
        "--user enable reedclaw.service",
        "--user start reedclaw.service",
        "--user stop reedclaw.service",
        "--user restart reedclaw.service",
        "--user disable --now",
    ] {
        assert!(calls.contains(call), "{call}: {calls}");
    }
}
