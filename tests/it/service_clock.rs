//! The service while its clock jumps: forwards as after a sleep, backwards, and to a wrong date and back.

use std::fs;
use std::path::Path;

use nix::sys::signal::Signal;
use serde_json::Value;

use crate::kills::killer;
use crate::need::require;
use crate::service::Service;
use crate::sop::{command, json_of, procedure, shell_step};

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

/// Sets the service's clock to a time of a day, in days since 1970.
fn set(home: &Path, day: i64, hour: i64, minute: i64) {
    let now = jiff::Timestamp::now().as_second();
    let wanted = day * 86_400 + hour * 3_600 + minute * 60;
    fs::write(home.join("moved.new"), (wanted - now).to_string()).expect("a file");
    fs::rename(home.join("moved.new"), home.join("moved")).expect("it is moved");
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
    // An hour back, and the same time again.
    at(0, 10, 10, None);
    at(0, 11, 5, None);
    at(0, 12, 5, Some((2, "12:00")));
    // Five hours asleep are one run.
    at(0, 17, 5, Some((3, "17:00")));
    at(0, 17, 6, None);
    // A wrong date, and back.
    at(9_000, 12, 30, Some((4, "12:00")));
    at(0, 17, 7, None);
    at(0, 18, 5, Some((5, "18:00")));
    assert_eq!(service.end(Signal::SIGTERM), Some(0));
    let state = json_of(home.path(), &["sop", "status", "--json"]);
    assert_eq!(state.as_array().map(Vec::len), Some(5), "{}", Value::to_string(&state));
}
