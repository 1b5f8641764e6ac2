//! Histories: clients of several gateways on one PostgreSQL, while gateways are killed and paused, their clocks are wrong, the
//! network in front of them delays, cuts and swallows, the database crashes, and hints are lost and repeated. The [`checker`]
//! compares what the clients have seen with the final log.
//!
//! `REEDCLAW_TEST_LONG=1` makes the runs as long as the gateway's design has them.

mod checker;
mod client;
mod network;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::sync::{Mutex, RwLock};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use reedclaw::canvas::{self, State};
use reedclaw::ledger::{Filter, Ledger, Target};
use reedclaw::proto::team::Identity;
use serde_json::json;
use tempfile::TempDir;

use super::log::someone;
use super::server::Server;
use super::{Gateway, run, token};
use crate::need;
use checker::{Append, End, History, Row, check};
use client::{Member, Seed, Way, World, mark, stand_still};
use network::{Network, State as Net};

/// Returns whether the runs are as long as the design has them.
pub fn is_long() -> bool {
    std::env::var_os("REEDCLAW_TEST_LONG").is_some_and(|value| value == "1")
}

/// A plan of a history.
struct Plan {
    gateways: usize,
    tenants: usize,
    /// Number of events per append.
    events: u64,
    time: Duration,
    faults: bool,
    seed: u64,
}

/// The members of a plan's tenants: a writer and a reader each, and more writers in the first tenant.
fn members(home: &TempDir, plan: &Plan) -> Vec<Member> {
    let mut members = Vec::new();
    for number in 0..plan.tenants {
        let tenant = if number == 0 { "local".to_owned() } else { format!("tenant-{number}") };
        if number > 0 {
            assert_eq!(run(home.path(), &["gateway", "tenant", "add", &tenant]).0, Some(0));
        }
        for user in 0..if number == 0 { 4 } else { 1 } {
            let secret = token(home.path(), &format!("user-{user}"), "member", &["--tenant", &tenant]);
            members.push(Member { tenant: tenant.clone(), secret });
        }
    }
    members
}

/// Appends until the end: plain events, events with causes, and streams whose version others may have changed.
fn write(world: &World, member: &Member, mut seed: Seed, events: u64) {
    let (mut number, mut cause, mut versions) = (0_u64, None, BTreeMap::<String, i64>::new());
    let own = seed.next(1 << 30);
    while !world.is_over() {
        number += 1;
        let count = 1 + seed.next(events);
        let ids: Vec<String> = (0..count).map(|at| format!("{}{own}-{number}-{at}", mark(&member.tenant))).collect();
        let stream = format!("shared/{}", seed.next(3));
        let expected = (seed.next(3) == 0).then(|| (stream.clone(), versions.get(&stream).copied().unwrap_or(0)));
        let causes: Vec<Option<String>> =
            (0..count).map(|at| cause.clone().filter(|_| at == 0 && number.is_multiple_of(3))).collect();
        let append = Append {
            tenant: member.tenant.clone(),
            ids,
            expected,
            invoked: 0,
            ended: 0,
            end: End::Unknown,
            positions: Vec::new(),
        };
        let done = member.append(world, &mut seed, append, &causes);
        if done.end == End::Done {
            cause = done.ids.first().cloned();
        }
        if let Some((stream, version)) = &done.expected {
            // The guess is sometimes wrong, since others write there, too.
            let grown = if done.end == End::Done { i64::try_from(done.ids.len()).expect("small") } else { 1 };
            versions.insert(stream.clone(), version + grown);
        }
        world.note(|history| history.appends.push(done));
    }
}

/// Gateways that the nemesis ends and restarts, each with the network in front of it.
struct Nodes<'h> {
    home: &'h TempDir,
    running: Mutex<Vec<Option<Gateway>>>,
    networks: Vec<Network>,
    /// The library that changes a program's clock, if it is installed.
    clock: Option<&'static str>,
}

/// Paths of that library.
const CLOCKS: [&str; 3] = [
    "/usr/lib/x86_64-linux-gnu/faketime/libfaketimeMT.so.1",
    "/usr/lib/aarch64-linux-gnu/faketime/libfaketimeMT.so.1",
    "/usr/lib64/faketime/libfaketimeMT.so.1",
];
/// Differences between a gateway's clock and the database's, by the gateway's number and its number of starts.
const SKEWS: [&str; 4] = ["+0", "+1h", "-1h", "+1d"];

impl Nodes<'_> {
    fn start(&self, world: &World, at: usize, times: usize) {
        let skew = SKEWS[(at + times) % SKEWS.len()];
        let gateway = match self.clock {
            Some(library) => Gateway::start_with(
                self.home.path(),
                &[("LD_PRELOAD", library), ("FAKETIME", skew), ("FAKETIME_DONT_FAKE_MONOTONIC", "1")],
            ),
            None => Gateway::start(self.home.path()),
        };
        let network = &self.networks[at];
        network.lead_to(gateway.address);
        world.gateways.write().expect("addresses")[at] = Some(Way { through: network.address, to: gateway.address });
        self.running.lock().expect("gateways")[at] = Some(gateway);
    }

    fn kill(&self, world: &World, at: usize) {
        world.gateways.write().expect("addresses")[at] = None;
        let gateway = self.running.lock().expect("gateways")[at].take();
        if let Some(gateway) = gateway {
            gateway.end(Signal::SIGKILL);
        }
    }

    /// Stops a gateway for a time, like a machine that hangs.
    fn pause(&self, at: usize, time: Duration) {
        let pid = self.running.lock().expect("gateways")[at].as_ref().map(|it| Pid::from_raw(it.pid()));
        let Some(pid) = pid else { return };
        kill(pid, Signal::SIGSTOP).expect("it is there");
        stand_still(time);
        kill(pid, Signal::SIGCONT).expect("it is there");
    }
}

/// Breaks one thing after another until the end.
fn torment(
    world: &World,
    nodes: &Nodes<'_>,
    server: &Server,
    address: &str,
    mut seed: Seed,
) -> BTreeMap<&'static str, u32> {
    let mut done: BTreeMap<&'static str, u32> = BTreeMap::new();
    let count = world.gateways.read().expect("addresses").len();
    let mut number = 0_u64;
    while !world.is_over() {
        stand_still(Duration::from_millis(100 + seed.next(400)));
        let at = usize::try_from(seed.next(u64::try_from(count).expect("small"))).expect("small");
        let what = match number % 8 {
            0 => {
                nodes.kill(world, at);
                nodes.start(world, at, usize::try_from(number).expect("small"));
                "a gateway was killed"
            }
            1 => {
                nodes.pause(at, Duration::from_millis(200 + seed.next(1_500)));
                "a gateway stood still"
            }
            2 => {
                server.crash();
                server.begin();
                "the database crashed"
            }
            3 => {
                // Hints are lost: the listening connections are terminated.
                let sql = "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE query LIKE 'LISTEN%'";
                hinting(address, sql);
                "hints were lost"
            }
            4 => {
                nodes.networks[at].be(Net::Slow(Duration::from_millis(20 + seed.next(300))));
                stand_still(Duration::from_millis(300 + seed.next(700)));
                nodes.networks[at].be(Net::Whole);
                "the network was slow"
            }
            5 => {
                nodes.networks[at].cut();
                "connections were cut"
            }
            6 => {
                nodes.networks[at].be(Net::Silent);
                stand_still(Duration::from_millis(300 + seed.next(1_500)));
                nodes.networks[at].be(Net::Whole);
                nodes.networks[at].cut();
                "the network was silent"
            }
            _ => {
                hinting(address, "SELECT count(pg_notify('reedclaw', n::text)) FROM generate_series(1, 200) n");
                "hints were repeated"
            }
        };
        number += 1;
        *done.entry(what).or_default() += 1;
    }
    done
}

fn hinting(address: &str, sql: &str) {
    if let Ok(mut client) = postgres::Client::connect(address, postgres::NoTls) {
        let _ = client.simple_query(sql);
    }
}

/// Returns the library that changes clocks; without it the gateways use the machine's clock, and the test reports that.
pub fn clock() -> Option<&'static str> {
    let found = CLOCKS.into_iter().find(|path| std::path::Path::new(path).exists());
    if need::require_that(found.is_some(), "libfaketime, which gives gateways other times") { found } else { None }
}

/// Runs a history and returns it with the final logs.
fn happen(plan: &Plan) -> Option<(History, BTreeMap<&'static str, u32>)> {
    let server = Server::start()?;
    let home = server.home();
    let address = fs::read_to_string(home.path().join(super::DATABASE)).expect("its address");
    let members = members(&home, plan);
    let world = World {
        gateways: RwLock::new(vec![None; plan.gateways]),
        tenants: members.iter().map(|member| member.tenant.clone()).collect::<BTreeSet<_>>().into_iter().collect(),
        began: Instant::now(),
        is_over: AtomicBool::new(false),
        history: Mutex::default(),
    };
    let nodes = Nodes {
        home: &home,
        running: Mutex::new((0..plan.gateways).map(|_| None).collect()),
        networks: (0..plan.gateways).map(|_| Network::new()).collect(),
        clock: plan.faults.then(clock).flatten(),
    };
    (0..plan.gateways).for_each(|at| nodes.start(&world, at, 0));
    let heads: BTreeMap<String, AtomicI64> =
        members.iter().map(|member| (member.tenant.clone(), AtomicI64::new(-1))).collect();
    let seed = |number: usize| Seed(plan.seed ^ (u64::try_from(number).expect("small") << 32 | 0x9e37_79b9));
    let broken = std::thread::scope(|scope| {
        let (world, nodes, server, address, heads) = (&world, &nodes, &server, &address, &heads);
        let mut writers = Vec::new();
        for (number, member) in members.iter().enumerate() {
            writers.push(scope.spawn(move || write(world, member, seed(number), plan.events)));
            let is_first = number == 0 || members[number - 1].tenant != member.tenant;
            if is_first && number < 8 {
                scope.spawn(move || {
                    let head =
                        || heads.get(&member.tenant).map(|head| head.load(Ordering::Relaxed)).filter(|head| *head >= 0);
                    member.follow(world, &mut seed(number + 1_000), &head);
                });
            }
        }
        let caller = &members[members.len() - 1];
        writers.push(scope.spawn(move || {
            let mut seed = seed(2_000);
            for number in 0.. {
                if world.is_over() {
                    break;
                }
                caller.call(world, &mut seed, &format!("key-{number}"));
            }
        }));
        for (number, member) in members.iter().take(2).enumerate() {
            writers.push(scope.spawn(move || member.draw(world, seed(number + 5_000))));
        }
        writers.push(scope.spawn(move || stop_in_the_middle(world, caller, plan.time, seed(3_000))));
        let nemesis = plan.faults.then(|| scope.spawn(move || torment(world, nodes, server, address, seed(4_000))));
        stand_still(plan.time);
        world.is_over.store(true, Ordering::Relaxed);
        let broken = nemesis.map(|nemesis| nemesis.join().expect("the nemesis")).unwrap_or_default();
        writers.into_iter().for_each(|writer| writer.join().expect("a client"));
        let ledger = Ledger::open_at(Target::Server(address.clone())).expect("the database");
        for (tenant, head) in heads {
            head.store(ledger.head(&of(tenant)).expect("a head").0, Ordering::Relaxed);
        }
        broken
    });
    let ended = nodes.running.into_inner().expect("gateways").into_iter().flatten();
    ended.for_each(|gateway| _ = gateway.end(Signal::SIGKILL));
    let mut history = world.history.into_inner().expect("the history");
    read_logs(&address, &heads, &mut history);
    Some((history, broken))
}

/// Stops all tools of a tenant after two thirds of the time.
fn stop_in_the_middle(world: &World, caller: &Member, time: Duration, mut seed: Seed) {
    stand_still(time * 2 / 3);
    for _ in 0..200 {
        let stop = json!({"scope": "tenant", "reason": "a test"});
        let answer =
            world.some_gateway(&mut seed).and_then(|to| caller.ask(world, to, "/estop", &stop, Duration::ZERO));
        if answer.is_some_and(|answer| answer.status == 200) {
            let at = world.now();
            return world.note(|history| history.kills.push((caller.tenant.clone(), at)));
        }
        stand_still(Duration::from_millis(50));
    }
    panic!("nobody took the kill switch");
}

fn of(tenant: &str) -> Identity {
    Identity { tenant: tenant.to_owned(), ..someone() }
}

fn read_logs(address: &str, heads: &BTreeMap<String, AtomicI64>, history: &mut History) {
    let ledger = Ledger::open_at(Target::Server(address.to_owned())).expect("the database");
    for tenant in heads.keys() {
        let events = ledger.read(&of(tenant), 0, &Filter::default(), 10_000_000).expect("the log");
        let foreign = events.iter().filter(|event| event.tenant != *tenant);
        history.shown.extend(foreign.map(|event| (tenant.clone(), event.tenant.clone())));
        if history.drawn.iter().any(|(of, ..)| of == tenant) {
            fold_canvas(&ledger, tenant, &events, history);
        }
        let row = |event: reedclaw::ledger::Event| Row {
            position: event.position,
            causation_id: event.id("causation_id").map(str::to_owned),
            event_id: event.event_id,
            stream: event.stream,
            stream_version: event.stream_version,
            event_type: event.event_type,
        };
        history.logs.insert(tenant.clone(), events.into_iter().map(row).collect());
        if let Err(broken) = ledger.verify(tenant).expect("a check") {
            history.broken.push((tenant.clone(), format!("position {}: {}", broken.position, broken.why)));
        }
    }
}

/// Folds the canvas of a tenant, and compares the result with its snapshot, and each acknowledged command with its revision.
fn fold_canvas(ledger: &Ledger, tenant: &str, events: &[reedclaw::ledger::Event], history: &mut History) {
    let (mut state, mut revisions) = (State::default(), BTreeMap::new());
    for event in events.iter().filter(|event| event.event_type == "canvas_commit") {
        let body = event.body();
        state = canvas::fold(&state, body["ops"].as_array().expect("operations")).expect("they were committed");
        revisions.insert(body["idempotency_key"].as_str().expect("a key").to_owned(), state.rev);
    }
    let snapshot = ledger.canvases().canvas(&of(tenant), "board").expect("the canvas");
    history
        .folds
        .push((format!("{} {}", snapshot.state.rev, snapshot.state_hash), format!("{} {}", state.rev, state.hash())));
    let drawn = history.drawn.iter().filter(|(of, ..)| of == tenant);
    let acknowledged = drawn.map(|(_, key, rev)| (format!("{key} {rev}"), format!("{key} {:?}", revisions.get(key))));
    history.folds.extend(acknowledged.map(|(one, other)| (one, other.replace("Some(", "").replace(')', ""))));
}

/// Runs a history, checks it, and reports its size.
#[track_caller]
fn holds(plan: &Plan) {
    let Some((history, broken)) = happen(plan) else { return };
    let found = check(&history);
    let done = history.appends.iter().filter(|append| append.end == End::Done).count();
    let refused = history.appends.iter().filter(|append| append.end == End::Refused).count();
    let events: usize = history.logs.values().map(Vec::len).sum();
    let seen: usize = history.readers.iter().map(|reader| reader.seen.len()).sum();
    let admitted = history.calls.iter().filter(|call| call.was_admitted).count();
    println!(
        "{} appends ({done} done, {refused} refused), {events} events, {} readers saw {seen}, {} calls ({admitted} let through), {broken:?}",
        history.appends.len(),
        history.readers.len(),
        history.calls.len(),
    );
    assert!(found.is_empty(), "seed {}: {:#?}", plan.seed, &found[..found.len().min(20)]);
    let has_drawn = history.drawn.len() > 10 && history.folds.len() > history.drawn.len();
    assert!(done > 10 && admitted > 0 && seen > 10 && has_drawn, "too little has happened");
    assert!(!plan.faults || !broken.is_empty());
}

#[test]
fn scenario_59_a_history_with_failures_of_every_kind_holds() {
    let time = if is_long() { Duration::from_secs(600) } else { Duration::from_secs(12) };
    holds(&Plan { gateways: 3, tenants: 3, events: 4, time, faults: true, seed: 20_261_125 });
}

#[test]
fn scenario_17_many_tenants_write_at_several_gateways_and_each_log_holds() {
    let (time, events) = if is_long() { (Duration::from_secs(180), 100) } else { (Duration::from_secs(6), 40) };
    holds(&Plan { gateways: 3, tenants: if is_long() { 20 } else { 5 }, events, time, faults: false, seed: 17 });
}
