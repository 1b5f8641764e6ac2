//! Measures procedures without a separate process: `cargo bench --bench sop [--json]`. Reading 200 files, one step of the engine,
//! one event on the disk, the next times of 500 schedules. `benches/service.py` measures the executable. Under `cargo test
//! --bench sop` it does each thing once.

#![allow(clippy::disallowed_methods, clippy::print_stdout, reason = "a bench opens its own files and prints")]

mod timing;

use std::collections::BTreeMap;
use std::hint::black_box;
use std::path::Path;

use jiff::tz::TimeZone;
use reedclaw::app::procedures;
use reedclaw::receipts::{Entry, Log, Options, hash, tally};
use reedclaw::sop::{Event, Fired, Run, Spent, cron};
use reedclaw::store::{NewRun, Store};

use timing::{percentile, times};

/// Runs `work` some times and prints the distribution; outside of a bench, it runs it once and prints nothing.
fn measure(name: &str, turns: usize, work: impl FnMut(usize)) {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let has = |word: &str| words.iter().any(|it| it == word);
    let turns = if has("--bench") { turns } else { 1 };
    let times = times(turns, work);
    if !has("--bench") {
        return;
    }
    let at = |part: usize| percentile(&times, part).as_secs_f64() * 1e6;
    let (p50, p99) = (at(50), at(99));
    if has("--json") {
        println!("{{\"name\":\"{name}\",\"n\":{turns},\"p50_us\":{p50:.2},\"p99_us\":{p99:.2}}}");
    } else {
        println!("{name:40} p50 {p50:10.2} µs   p99 {p99:10.2}   n {turns}");
    }
}

/// A procedure with `steps` steps, each of which waits for no time.
fn text(name: &str, steps: usize) -> String {
    let step = |number: usize| format!("[[steps]]\nid = \"s{number}\"\nkind = \"wait\"\nseconds = 0\n");
    let steps: String = (0..steps).map(step).collect();
    format!("name = \"{name}\"\n[[triggers]]\nkind = \"cron\"\nat = \"0 7 * * 1-5\"\ntz = \"Europe/Berlin\"\n{steps}")
}

fn main() {
    let top = std::env::temp_dir().join(format!("reedclaw-sop-{}", std::process::id()));
    for number in 0..200 {
        let place = top.join(format!("work/sops/p{number}"));
        std::fs::create_dir_all(&place).expect("a directory");
        std::fs::write(place.join("SOP.toml"), text(&format!("p{number}"), 6)).expect("a file");
    }
    let env = [("HOME".into(), top.clone().into_os_string())].into();
    let nowhere: &Path = &top.join("work");
    measure("200 files found, read and checked", 50, |_| {
        assert_eq!(black_box(procedures((&[], &env), nowhere)).len(), 200);
    });

    let (text, now) = (text("many", 100), 1_800_000_000_000);
    let (sha256, place) = (String::new(), String::new());
    let (inputs, trigger) = (BTreeMap::new(), Fired::by("manual"));
    let began = Event::Began { text, sha256, place, inputs, trigger, taken: Vec::new(), most: None };
    let mut run = Run::of(1, [(now, &began)]);
    let spent = Spent { now, ..Spent::default() };
    // A step begins and ends alternately.
    measure("an engine's decision, and its event", 200, |turn| {
        let effect = run.next(&spent);
        let decision = effect.decision(&run, &spent);
        let step = format!("s{}", turn / 2);
        let event = if turn % 2 == 0 {
            let (risk, tool, args_hash) = ("low".into(), String::new(), String::new());
            Event::Begun { step, decision, risk, tool, args_hash, files: Vec::new() }
        } else {
            Event::Concluded { step, decision, success: true, error: String::new() }
        };
        run.apply(now, &event);
    });

    let mut store = Store::open(&top).expect("a store");
    let new = NewRun { kind: "sop", name: "many", workspace: "/", body: "{}", slot: None };
    let id = store.begin_run(now, &new).expect("a run").expect("a number");
    measure("an event of a run on the disk", 1_000, |_| {
        store.add_run_event(id, now, &"x".repeat(200)).expect("an event");
    });

    let zones = ["Europe/Berlin", "America/New_York", "UTC"].map(|name| TimeZone::get(name).expect("a zone"));
    let spec =
        |number: usize| cron::Spec::parse(&format!("{} {} * * 1-5", number % 60, number % 24)).expect("a schedule");
    let all: Vec<_> = (0..500).map(|number| (spec(number), &zones[number % 3])).collect();
    measure("the next times of 500 schedules", 200, |_| {
        let next = all.iter().filter_map(|(spec, zone)| spec.next(zone, now)).min();
        assert!(black_box(next).is_some());
    });
    counts(&top);
    let _ = std::fs::remove_dir_all(top);
}

/// The counts for `reedclaw metrics` over a million receipts: their writer updates the counts; without its file all receipts are
/// read.
fn counts(top: &Path) {
    let options = Options::new(top.join("receipts.jsonl"), top.to_owned());
    let log = Log::open(options.clone()).expect("a log");
    let entry = || Entry::new("file_read", hash(b"{}"), "low");
    let write = |count: usize| (0..count).for_each(|_| _ = log.denied(&entry()).expect("a receipt"));
    write(if std::env::args().any(|word| word == "--bench") { 1_000_000 } else { 10 });
    let count = || assert!(tally(&options).is_ok_and(|it| it.broken.is_none()));
    measure("receipts: a first count of a million", 1, |_| count());
    std::fs::remove_file(top.join("receipts-counted.json")).expect("their writer counted");
    measure("receipts: a million that nobody counted", 1, |_| count());
    measure("receipts: ten more, and a count", 100, |_| {
        write(10);
        assert!(tally(&options).is_ok_and(|it| it.broken.is_none()));
    });
}
