//! The costs of the gateway: none for a shell without one, little for each stream, and no growth over time. They are measured in
//! bytes, descriptors, threads and rows, since times on a shared machine prove little.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use serde_json::json;

use super::history::is_long;
use super::limits::opened;
use super::streams::Reader;
use super::{Client, Gateway, home_with, is_on_server, read_rows, token, verify};
use crate::pty::Session;
use crate::server::{Server, answer, tool_call};
use crate::wait::{wait_for, wait_until};

/// Limits that are high enough not to slow the tests down.
const WIDE: &str = "gateway = {limits = {connections = 20000, tenant_requests = 100000, user_requests = 100000, \
                    tenant_streams = 20000, user_streams = 20000}}";

/// Kibibytes of memory that a process uses now.
fn memory_kib(pid: i32) -> i64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).expect("its status");
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("its memory");
    line.trim().trim_end_matches(" kB").parse().expect("a number")
}

/// Hundredths of a second of processor time that a process has used.
fn ticks(pid: i32) -> u64 {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).expect("its figures");
    let fields: Vec<&str> = stat.rsplit_once(") ").expect("a name").1.split(' ').collect();
    fields[11..13].iter().map(|field| field.parse::<u64>().expect("ticks")).sum()
}

fn entries(path: &str) -> usize {
    fs::read_dir(path).expect("a directory").count()
}

#[test]
fn scenario_58_an_idle_stream_costs_little_memory_and_hardly_any_processor() {
    let home = home_with(WIDE);
    let gateway = Gateway::start(home.path());
    let client = gateway.client(&token(home.path(), "anna", "member", &[]));
    let count = if is_long() { 10_000 } else { 900 };
    drop(Reader::new(client.open("/sse/timeline/board")).expect("system"));
    let before = memory_kib(gateway.pid());
    let mut streams: Vec<Reader> = Vec::new();
    for number in 0..count {
        streams.push(opened(&client, number));
    }
    for stream in &mut streams {
        while stream.expect("system").2["kind"] != "caught_up" {}
    }
    let each = (memory_kib(gateway.pid()) - before) / count;
    assert!(each <= 40, "{each} KiB for each stream");
    let (began, first) = (Instant::now(), ticks(gateway.pid()));
    while began.elapsed() < Duration::from_secs(4) {
        thread::park_timeout(Duration::from_millis(100));
    }
    let used = ticks(gateway.pid()) - first;
    assert!(used <= 20, "{used} hundredths of a second in 4 seconds");
    // All of them receive each event.
    let event = json!({"event_type": "x.step", "source": "ui", "stream": "board", "run_id": "r", "body": 1});
    assert_eq!(client.post("/events/append", &event).status, 201);
    streams.iter_mut().for_each(|stream| drop(stream.expect("x.step")));
}

#[test]
fn scenario_58_the_console_without_its_terminal_is_small() {
    fn bytes(directory: &Path) -> u64 {
        let of = |path: std::path::PathBuf| match path.file_name().and_then(|name| name.to_str()) {
            // The terminal has a frame of its own, which only the screen of a session loads.
            Some("xterm.js" | "xterm.css" | "terminal") => 0,
            _ if path.is_dir() => bytes(&path),
            _ => path.metadata().expect("a file").len(),
        };
        fs::read_dir(directory).expect("files").map(|entry| of(entry.expect("an entry").path())).sum()
    }
    let all = bytes(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src/web"));
    assert!(all <= 350 * 1024, "{all} bytes");
}

#[test]
fn scenario_62_a_shell_without_a_gateway_has_no_thread_file_or_socket_of_one() {
    let session = Session::spawn(crate::pty::Spawn::reedclaw());
    session.expect_prompt();
    session.run("true");
    let pids: Vec<i32> = session.descendants().iter().map(|it| it.pid).chain([session.pid()]).collect();
    let mut seen = Vec::new();
    for pid in pids {
        for task in fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten() {
            seen.push(fs::read_to_string(task.path().join("comm")).unwrap_or_default());
        }
        for descriptor in fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten() {
            let target = fs::read_link(descriptor.path()).unwrap_or_default();
            seen.push(target.display().to_string());
        }
    }
    assert!(seen.iter().any(|it| it.starts_with("/dev/pts/")), "its terminal is among {seen:?}");
    let of_gateway = |it: &&String| it.starts_with("gw-") || it.contains("gateway") || it.contains("postgres");
    let found: Vec<&String> = seen.iter().filter(of_gateway).collect();
    assert!(found.is_empty(), "{found:?}");
    let state = session.home().join(".local/state/reedclaw");
    let names =
        fs::read_dir(state).expect("the state").map(|it| it.expect("an entry").file_name().display().to_string());
    let names: Vec<String> = names.filter(|name| name.contains("gateway")).collect();
    assert!(names.is_empty(), "{names:?}");
}

/// Kibibytes of private memory of a process.
fn own_kib(pid: i32) -> i64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).expect("its status");
    let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:")).expect("its memory");
    line.trim().trim_end_matches(" kB").parse().expect("a number")
}

/// A home in which a gateway runs, with a tenant whose agents have worked.
fn busy_home() -> (tempfile::TempDir, Gateway) {
    let home = home_with("");
    let gateway = Gateway::start(home.path());
    let client = gateway.client(&token(home.path(), "anna", "member", &[]));
    let action = json!({"action_name": "time", "subject_type": "run", "subject_id": "r", "args": {}});
    for project in ["default", "shop"] {
        assert_eq!(client.with("X-Project-Id", project).post("/actions/execute", &action).status, 200);
    }
    (home, gateway)
}

#[test]
fn scenario_62_a_gateway_that_runs_costs_a_shell_neither_time_nor_memory() {
    let (busy, _gateway) = busy_home();
    let plain = home_with("");
    let start = |home: &Path| {
        let began = Instant::now();
        let done = super::command(home, &["-c", "true"]).status().expect("it runs");
        assert!(done.success());
        began.elapsed()
    };
    // The machine is shared: the shortest of several alternating starts is the cost of a start, and one of ten tries must show
    // it.
    let is_as_fast = || {
        let pairs: Vec<_> = (0..40).map(|_| (start(plain.path()), start(busy.path()))).collect();
        let (without, with) = (pairs.iter().map(|it| it.0).min(), pairs.iter().map(|it| it.1).min());
        with <= without.map(|time| time + Duration::from_micros(100))
    };
    assert!((0..10).any(|_| is_as_fast()), "a gateway slows each start down by more than 0.1 ms");
    let idle = |home: &Path| {
        let session = Session::spawn(crate::pty::Spawn::reedclaw().home(home));
        session.expect_prompt();
        session.run("true");
        session.descendants().iter().map(|it| it.pid).chain([session.pid()]).map(own_kib).sum::<i64>()
    };
    let is_as_small = || idle(busy.path()) <= idle(plain.path()) + 64;
    assert!((0..10).any(|_| is_as_small()), "an idle shell is larger by more than 64 KiB beside a gateway");
}

/// The parts of a load that are the same in each round.
struct Load<'a> {
    client: Client<'a>,
    models: &'a Server,
    rev: i64,
    conversation: serde_json::Value,
}

/// Asks a model in one conversation, with a call of a tool, and briefly shares a session.
fn agents(load: &mut Load<'_>) {
    load.models.reply(tool_call("file_list", "{\"path\": \".\"}"));
    load.models.reply(answer("Listed."));
    let mut question = json!({"message": "What is here?"});
    if load.conversation.is_number() {
        question["conversation_id"] = load.conversation.clone();
    }
    let done = load.client.post("/chat", &question);
    assert_eq!((done.status, &done.json()["text"]), (200, &json!("Listed.")), "{done:?}");
    load.conversation = done.json()["conversation_id"].clone();
    let begun = load.client.post("/shares", &json!({"kind": "shell", "cols": 80, "rows": 24, "watch": ["*"]}));
    assert_eq!(begun.status, 201, "{begun:?}");
    let (id, secret) = (begun.json()["share_id"].clone(), begun.json()["publish_token"].clone());
    let id = id.as_str().expect("an id");
    let mut viewer = Reader::new(load.client.open(&format!("/sse/shares/{id}")));
    viewer.expect("snapshot");
    let bearer = format!("Bearer {}", secret.as_str().expect("a secret"));
    let headers = [("Authorization", bearer.as_str()), ("Content-Type", "application/x-ndjson")];
    let frames: String =
        (1..=20).map(|seq| format!("{}\n", json!({"seq": seq, "at_ms": seq, "k": "o", "d": "aGVsbG8NCg=="}))).collect();
    let taken = load.client.gateway.send("POST", &format!("/shares/{id}/frames"), &headers, &frames);
    assert_eq!(taken.status, 202, "{taken:?}");
    assert_eq!(load.client.delete(&format!("/shares/{id}")).status, 204);
}

/// Sends requests of every kind; each round leaves the same things and a longer log.
fn round(load: &mut Load<'_>) {
    agents(load);
    let Load { client, rev, .. } = load;
    for number in 0..40 {
        let event =
            json!({"event_type": "x.step", "source": "ui", "stream": "board", "run_id": "r", "body": {"n": number}});
        assert_eq!(client.post("/events/append", &event).status, 201);
        let op = json!({"op": "set", "id": "a", "path": "/n", "value": number});
        let command = json!({"base_rev": *rev, "ops": [op], "idempotency_key": format!("rev-{rev}")});
        assert_eq!(client.post("/canvas/board/commands", &command).status, 200);
        *rev += 1;
        let note = json!({"scope": "project", "key": format!("key-{}", number % 10), "value": number, "ttl_s": 3600});
        assert!(matches!(client.post("/memory", &note).status, 200 | 201));
    }
    for number in 0..8 {
        let action = json!({"action_name": "time", "subject_type": "run", "subject_id": "r", "args": {}});
        assert_eq!(client.post("/actions/execute", &action).status, 200);
        let mut stream = Reader::new(client.open("/sse/canvas/board"));
        stream.expect("system");
        for path in ["/canvas/board/snapshot", "/events/list?limit=100", "/status", "/memory?scope=project&prefix="] {
            assert_eq!(client.get(path).status, 200, "{number}: {path}");
        }
    }
}

/// The rows of tables that aren't logs.
fn rows(home: &Path) -> BTreeMap<&'static str, String> {
    let count = |table: &'static str| (table, read_rows(home, &format!("SELECT count(*) FROM {table}")).concat());
    ["memory", "reservation", "heat", "canvas", "question"].map(count).into()
}

/// Kibibytes of waste: on a server the total size of these tables, in a file its free pages.
fn bloat_kib(home: &Path) -> i64 {
    let sql = match is_on_server(home) {
        true => {
            "SELECT CAST(sum(pg_total_relation_size(c.oid)) / 1024 AS bigint) FROM pg_class c WHERE c.relkind = 'r' AND c.relname IN \
             ('memory', 'reservation', 'heat', 'canvas', 'question', 'head', 'node', 'budget_spent')"
        }
        false => "SELECT f.freelist_count * p.page_size / 1024 FROM pragma_freelist_count f, pragma_page_size p",
    };
    read_rows(home, sql).concat().parse().expect("a number")
}

/// The duration of the load, which `REEDCLAW_TEST_HOURS` overrides.
fn load_time() -> Duration {
    let hours = std::env::var("REEDCLAW_TEST_HOURS").ok().and_then(|hours| hours.parse::<u64>().ok());
    Duration::from_secs(hours.map_or(if is_long() { 1_800 } else { 0 }, |hours| hours * 3_600))
}

#[test]
fn scenario_71_under_mixed_load_memory_descriptors_and_tables_stay_flat() {
    let models = Server::start();
    let model = format!("models = {{tiny = {{endpoint = \"{}\"}}}}, memory = {{auto = false}}", models.endpoint());
    let home = home_with(&format!("{WIDE}, {model}, context = {{project = false}}"));
    let gateway = Gateway::start(home.path());
    let client = gateway.client(&token(home.path(), "anna", "member", &[]));
    let atom = json!({"op": "create", "atom": {"id": "a", "type": "note", "order": "m"}});
    let made = json!({"base_rev": 0, "ops": [atom], "idempotency_key": "made"});
    assert_eq!(client.post("/canvas/board/commands", &made).status, 200);
    let mut load = Load { client: client.clone(), models: &models, rev: 1, conversation: serde_json::Value::Null };
    (0..4).for_each(|_| round(&mut load));
    // As many requests at once as there are threads for them, so that every connection to the database is open.
    thread::scope(|scope| {
        for _ in 0..16 {
            scope.spawn(|| (0..20).for_each(|_| assert_eq!(client.get("/events/list?limit=100").status, 200)));
        }
    });
    let place = format!("/proc/{}", gateway.pid());
    // The gateway notices closed streams at its next check.
    let settled = || {
        wait_until(|| gateway.send("GET", "/metrics", &[], "").text.contains("reedclaw_streams 0\n"));
        (entries(&format!("{place}/fd")), entries(&format!("{place}/task")))
    };
    let (first, before, known) = (settled(), memory_kib(gateway.pid()), rows(home.path()));
    let (waste, began, time) = (bloat_kib(home.path()), Instant::now(), load_time());
    let mut rounds = 0;
    while rounds < 6 || began.elapsed() < time {
        round(&mut load);
        rounds += 1;
    }
    // A thread that has done its work may need a moment to end.
    let what = format!("a return to the descriptors and threads from before, {first:?},");
    wait_for(&what, || Some(settled()).filter(|last| last.0 <= first.0 + 2 && last.1 <= first.1));
    let after = memory_kib(gateway.pid());
    assert!(after - before <= 6 * 1024, "{before} KiB of memory became {after} in {rounds} rounds");
    assert_eq!(rows(home.path()), known);
    let wasted = bloat_kib(home.path());
    assert!(wasted <= waste * 2 + 1024, "{waste} KiB of tables that stay the same became {wasted} in {rounds} rounds");
    assert_eq!(verify(home.path()).0, Some(0));
}

#[test]
fn scenario_67_the_build_starts_compilers_and_nothing_of_node() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    for script in ["build.rs", "grammars/build.rs"] {
        let text = fs::read_to_string(root.join(script)).expect("a build script");
        let started = text.split("Command::new(").skip(1).filter_map(|rest| rest.split(')').next());
        for program in started {
            assert!(["&compiler", "\"getconf\"", "variable(\"CARGO\""].contains(&program), "{script} starts {program}");
        }
    }
    let lock = fs::read_to_string(root.join("Cargo.lock")).expect("the lock");
    let lock: toml::Table = lock.parse().expect("TOML");
    let names = lock["package"].as_array().expect("packages").iter().filter_map(|it| it["name"].as_str());
    let node: Vec<&str> = names.filter(|name| name.contains("node") || name.contains("npm")).collect();
    assert!(node.is_empty(), "{node:?}");
}
