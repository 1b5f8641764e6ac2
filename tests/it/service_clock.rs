//! The service and runs while the clock jumps: forwards as after a sleep, backwards, and to a wrong date and back.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Stdio};

use nix::sys::signal::Signal;
use serde_json::{Value, json};

use crate::kills::killer;
use crate::need::require;
use crate::service::Service;
use crate::sop::{command, json_of, procedure, run, shell_step};
use crate::wait::{wait_for_end, wait_until};

/// A library that moves the real time by the seconds in the file that `CLOCK_MOVED` names.
const CLOCK: &str = r#"
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
int clock_gettime(clockid_t id, struct timespec *now) {
    int status = syscall(SYS_clock_gettime, id, now);
    const char *name = getenv("CLOCK_MOVED");
    FILE *file = id == CLOCK_REALTIME && status == 0 && name ? fopen(name, "r") : NULL;
    long moved = 0;
    if (file) {
        if (fscanf(file, "%ld", &moved) == 1) now->tv_sec += moved;
        fclose(file);
    }
    return status;
}
"#;

/// Moves the clock by seconds.
fn moved(home: &Path, seconds: i64) {
    fs::write(home.join("moved.new"), seconds.to_string()).expect("a file");
    fs::rename(home.join("moved.new"), home.join("moved")).expect("it is moved");
}

/// Sets the service's clock to a time of a day, in days since 1970.
fn set(home: &Path, day: i64, hour: i64, minute: i64) {
    let now = jiff::Timestamp::now().as_second();
    let wanted = day * 86_400 + hour * 3_600 + minute * 60;
    moved(home, wanted - now);
}

/// Starts a process whose clock can be moved, and waits for a line of its standard error.
fn started(home: &Path, library: &Path, args: &[&str], text: &str) -> Child {
    let mut child = command(home, args);
    child.env("LD_PRELOAD", library).env("CLOCK_MOVED", home.join("moved"));
    let mut child = child.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().expect("it starts");
    let lines = BufReader::new(child.stderr.take().expect("standard error"));
    let mut lines = lines.lines().map_while(Result::ok);
    assert!(lines.any(|line| line.contains(text)), "{text}");
    std::thread::spawn(move || lines.for_each(drop));
    child
}

/// Waits until the journals of the runs contain this number of events of a kind.
fn noted(home: &Path, kind: &str, count: i64) {
    let database = rusqlite::Connection::open(home.join(".local/share/reedclaw/reedclaw.db")).expect("a store");
    let sql = "SELECT count(*) FROM run_event WHERE body LIKE ?1";
    let pattern = format!("%\"event\":\"{kind}\"%");
    let found = || database.query_row(sql, [&pattern], |row| row.get::<_, i64>(0)).unwrap_or(0);
    wait_until(|| found() >= count);
}

#[test]
fn a_machine_that_sleeps_uses_up_no_minutes_of_a_run() {
    if !require(&["cc"]) {
        return;
    }
    let answers = [
        json!({"when": "Plan the work", "steps": [{"text": "TASK: wait"}]}),
        json!({"when": "TASK 1: wait", "steps": [{"delay_ms": 600_000}, {"text": "I waited"}]}),
    ];
    let home = crate::changes::home(&answers, "");
    let (_place, library) = killer(CLOCK);
    moved(home.path(), 0);
    let args = ["norris", "wait", "--budget-minutes", "30"];
    let mut child = started(home.path(), &library, &args, "1/1 wait");
    // Two hours of sleep, then an hour back.
    moved(home.path(), 7_200);
    noted(home.path(), "clocked", 1);
    moved(home.path(), 3_600);
    noted(home.path(), "clocked", 2);
    assert_eq!(run(home.path(), &["norris", "pause", "1"]).0, 0);
    assert_eq!(child.wait().expect("it ends").code(), Some(130));
    let shown = json_of(home.path(), &["norris", "report", "1", "--json"]);
    let minutes = shown["used"]["minutes"].as_f64().expect("minutes");
    assert!((0.0..5.0).contains(&minutes), "{shown}");
}

#[test]
fn a_wait_takes_no_longer_when_the_clock_is_set_back_and_a_sleep_no_minutes() {
    if !require(&["cc"]) {
        return;
    }
    let home = crate::changes::home(&[], "");
    let (_place, library) = killer(CLOCK);
    moved(home.path(), 0);
    let wait = |seconds: u32| format!("[[steps]]\nid = \"nap\"\nkind = \"wait\"\nseconds = {seconds}\n");
    procedure(home.path(), "naps", &format!("budget = {{ minutes = 5 }}\n{}{}", wait(2), shell_step("a", "true", "")));
    let mut child = started(home.path(), &library, &["sop", "run", "naps"], "nap");
    noted(home.path(), "begun", 1);
    moved(home.path(), -3_600);
    let status = wait_for_end(&mut child);
    assert_eq!(status.code(), Some(0));
    assert_eq!(run(home.path(), &["sop", "replay", "1"]).0, 0);
    // A run that would take a day ends with the sleep of the machine, which doesn't count as work.
    procedure(
        home.path(),
        "sleeps",
        &format!("budget = {{ minutes = 5 }}\n{}{}", wait(3_600), shell_step("a", "true", "")),
    );
    moved(home.path(), 0);
    let mut child = started(home.path(), &library, &["sop", "run", "sleeps"], "nap");
    noted(home.path(), "begun", 3);
    moved(home.path(), 86_400);
    let status = wait_for_end(&mut child);
    assert_eq!(status.code(), Some(0), "{}", run(home.path(), &["sop", "log", "2"]).1);
    assert_eq!(run(home.path(), &["sop", "replay", "2"]).0, 0);
}

#[test]
fn a_clock_that_jumps_begins_each_time_once_and_holds_none_up() {
    if !require(&["cc"]) {
        return;
    }
    let home = crate::changes::home(&[], "");
    let (_place, library) = killer(CLOCK);
    let text =
        "mode = \"auto\"\n[[triggers]]\nkind = \"cron\"\nat = \"0 * * * *\"\ntz = \"UTC\"\ncatch_up = \"once\"\n";
    procedure(home.path(), "hourly", &format!("{text}{}", shell_step("a", "true", "")));
    let today = jiff::Timestamp::now().as_second().div_euclid(86_400);
    set(home.path(), today, 10, 30);
    let mut child = command(home.path(), &["--path", ".", "service", "run"]);
    child.env("LD_PRELOAD", &library).env("CLOCK_MOVED", home.path().join("moved"));
    let mut service = Service::of(&mut child);
    service.expect("the service runs");
    let mut at = |days, hour, minute, run: Option<(u32, &str)>| {
        set(home.path(), today + days, hour, minute);
        service.signal(Signal::SIGHUP);
        let lines = service.until("the config was read again");
        let has = |text: &str| lines.iter().any(|line| line.contains(text));
        match run {
            None => assert!(!has("begins"), "{lines:?}"),
            Some((run, time)) => {
                assert!(
                    lines.iter().any(|it| it.contains(&format!("run {run} of hourly begins")) && it.contains(time)),
                    "{lines:?}"
                );
                let done = format!("run {run} of hourly: done");
                if !has(&done) {
                    service.expect(&done);
                }
            }
        }
    };
    at(0, 11, 10, Some((1, "11:00")));
    // An hour back, and then the same time again.
    at(0, 10, 10, None);
    at(0, 11, 5, None);
    at(0, 12, 5, Some((2, "12:00")));
    // Five hours of sleep lead to one run.
    at(0, 17, 5, Some((3, "17:00")));
    at(0, 17, 6, None);
    // A wrong date, and back again.
    at(9_000, 12, 30, Some((4, "12:00")));
    at(0, 17, 7, None);
    at(0, 18, 5, Some((5, "18:00")));
    assert_eq!(service.end(Signal::SIGTERM), Some(0));
    let state = json_of(home.path(), &["sop", "status", "--json"]);
    assert_eq!(state.as_array().map(Vec::len), Some(5), "{}", Value::to_string(&state));
}
