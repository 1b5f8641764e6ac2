//! Bounds that hold while the gateway works: streams, slow clients, a stop, secrets, and what a sandboxed program reaches.

use std::io::{Read as _, Write as _};
use std::thread;
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use nix::sys::socket::{setsockopt, sockopt};
use serde_json::{Value, json};

use super::asking::outcome;
use super::streams::Reader;
use super::{Client, Gateway, PATIENCE, home, home_with, run, token};
use crate::need;
use crate::server::{Server, answer};

fn shell(command: &str) -> Value {
    json!({"action_name": "shell", "subject_type": "run", "subject_id": "run-1", "args": {"command": command}})
}

/// The value of one of a gateway's metrics.
pub fn gauge(gateway: &Gateway, name: &str) -> u64 {
    let text = gateway.send("GET", "/metrics", &[], "").text;
    let line = text.lines().find(|line| line.strip_prefix(name).is_some_and(|rest| rest.starts_with(' ')));
    line.and_then(|line| line.rsplit(' ').next()?.parse().ok()).unwrap_or_else(|| panic!("{name} in {text}"))
}

#[test]
fn a_user_has_sixteen_streams_and_a_closed_one_makes_room() {
    let home = home();
    let gateway = Gateway::start(home.path());
    let client = gateway.client(&token(home.path(), "anna", "member", &[]));
    let mut streams: Vec<_> = (0..16).map(|_| Reader::new(client.open("/sse/timeline/board"))).collect();
    streams.iter_mut().for_each(|it| drop(it.expect("system")));
    let refused = client.get("/sse/timeline/board");
    assert_eq!((refused.status, refused.code().as_str()), (429, "too_many_streams"));
    assert!(refused.headers.contains_key("retry-after"));
    streams.truncate(10);
    let until = Instant::now() + PATIENCE;
    while gauge(&gateway, "reedclaw_streams") > 10 {
        assert!(Instant::now() < until, "closed streams keep their places");
        thread::park_timeout(Duration::from_millis(50));
    }
    Reader::new(client.open("/sse/timeline/board")).expect("system");
}

/// Opens a stream; an overloaded gateway refuses, and the client tries again.
pub fn opened(client: &Client<'_>, number: impl std::fmt::Display) -> Reader {
    let until = Instant::now() + PATIENCE;
    loop {
        let mut stream = Reader::new(client.open("/sse/timeline/board"));
        if stream.next().is_some() {
            return stream;
        }
        assert!(Instant::now() < until, "stream {number} can't be opened");
        thread::park_timeout(Duration::from_millis(50));
    }
}

#[test]
fn scenario_60_a_thousand_streams_and_a_running_call_end_with_the_gateway() {
    let home = home();
    let gateway = Gateway::start(home.path());
    let secrets: Vec<String> = (0..63).map(|user| token(home.path(), &format!("user-{user}"), "member", &[])).collect();
    let sleeper = gateway.client(&secrets[62]);
    let mut running = gateway.open_write("/actions/execute", &sleeper, &shell("sleep 600"));
    let mut streams: Vec<Reader> = Vec::new();
    for number in 0..990 {
        let client = gateway.client(&secrets[number / 16]);
        streams.push(opened(&client, number));
    }
    let until = Instant::now() + PATIENCE;
    while !sleeper.get("/events/list?type=action.admitted").text.contains("sleep") {
        if sleeper.get("/events/list?type=action.admitted").json()["items"] != json!([]) {
            break;
        }
        assert!(Instant::now() < until, "the call doesn't begin");
        thread::park_timeout(Duration::from_millis(50));
    }
    let began = Instant::now();
    assert_eq!(gateway.end(Signal::SIGTERM), Some(0));
    assert!(began.elapsed() < Duration::from_secs(15), "{:?}", began.elapsed());
    for stream in &mut streams {
        let last = std::iter::from_fn(|| stream.next()).last().expect("a frame");
        assert_eq!(last.2["kind"], "shutting_down");
    }
    let _ = running.read_to_end(&mut Vec::new());
    let sql =
        "SELECT event_type FROM event WHERE event_type IN ('action.failed', 'action.unknown', 'action.completed')";
    assert_eq!(super::read_rows(home.path(), sql), ["action.failed"], "it was cancelled, and its end is in the log");
}

#[test]
fn scenario_34_clients_that_read_slowly_or_never_are_dropped_and_slow_nobody() {
    let home = home();
    let gateway = Gateway::start(home.path());
    let client = gateway.client(&token(home.path(), "anna", "member", &[]));
    let secret = token(home.path(), "slow", "member", &[]);
    let body = "x".repeat(60_000);
    for batch in 0..8 {
        let event = |n: usize| json!({"event_type": "x.large", "source": "ui", "stream": "board", "run_id": "r", "body": [batch, n, body]});
        let events: Vec<Value> = (0..15).map(event).collect();
        assert_eq!(client.post("/events/append", &json!({"events": events})).status, 201);
    }
    let memory = |pid: i32| {
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).expect("its state");
        let line = status.lines().find(|line| line.starts_with("VmRSS")).expect("a line").to_owned();
        line.split_whitespace().nth(1).and_then(|it| it.parse::<u64>().ok()).expect("a number")
    };
    let before = memory(gateway.pid());
    let mut neighbour = Reader::new(client.open("/sse/timeline/quiet"));
    neighbour.expect("system");
    let mut number = 0;
    // The time from an append to the neighbour's frame.
    let mut shown = || {
        let sent = Instant::now();
        let event = json!({"event_type": "x.n", "source": "ui", "stream": "quiet", "run_id": "r", "body": number});
        assert_eq!(client.post("/events/append", &event).status, 201);
        assert_eq!(neighbour.expect("x.n").2["body"], number);
        number += 1;
        sent.elapsed()
    };
    let alone: Vec<Duration> = (0..15).map(|_| shown()).collect();
    let mut slow: Vec<std::net::TcpStream> = (0..6).map(|_| stalled(&gateway, &secret)).collect();
    let began = Instant::now();
    while gauge(&gateway, "reedclaw_streams") < 7 {
        assert!(began.elapsed() < PATIENCE, "the slow clients aren't let in");
        thread::park_timeout(Duration::from_millis(20));
    }
    // A client that sends half of a body is answered after the time limit.
    let held = [("Authorization", format!("Bearer {secret}")), ("Content-Length", "100".to_owned())];
    let held: Vec<(&str, &str)> = held.iter().map(|(name, value)| (*name, value.as_str())).collect();
    let mut half = gateway.open("POST", "/events/append", &held, "{");
    let mut beside = Vec::new();
    while gauge(&gateway, "reedclaw_streams") > 1 {
        assert!(began.elapsed() < PATIENCE, "slow clients stay");
        // Half of them read a byte a second, the others read nothing.
        for socket in slow.iter_mut().take(3) {
            let _ = socket.read(&mut [0]);
        }
        let took = shown();
        beside.push(took);
        thread::park_timeout(Duration::from_secs(1).saturating_sub(took));
    }
    assert!(began.elapsed() > Duration::from_secs(20), "they had their time: {:?}", began.elapsed());
    // A slow client is dropped after 20 s, so a neighbour that waited for one would wait longer than this. The machine is shared,
    // so the test compares medians and not the longest times.
    let middle = |mut times: Vec<Duration>| {
        times.sort_unstable();
        (times[times.len() / 2], times[times.len() - 1])
    };
    let ((alone, _), (usual, longest)) = (middle(alone), middle(beside));
    assert!(longest < Duration::from_secs(15), "a neighbour waited {longest:?}");
    assert!(
        usual <= alone * 2 + Duration::from_millis(100),
        "a neighbour usually waits {usual:?}, and {alone:?} alone"
    );
    let mut late = Vec::new();
    half.read_to_end(&mut late).expect("an answer");
    let late = super::Answer::read(&late);
    assert_eq!((late.status, late.code().as_str()), (408, "timeout"), "{late:?}");
    let grown = memory(gateway.pid()).saturating_sub(before);
    assert!(grown < 96 * 1024, "{grown} KiB for six slow clients");
}

/// A client of the whole stream with a small window, which doesn't read.
fn stalled(gateway: &Gateway, secret: &str) -> std::net::TcpStream {
    let address = gateway.address;
    let mut stream = std::net::TcpStream::connect(address).expect("a connection");
    setsockopt(&stream, sockopt::RcvBuf, &4096).expect("a small window");
    let head = format!(
        "GET /sse/timeline/board?last_event_id=1-0 HTTP/1.1\r\nHost: {address}\r\nAuthorization: Bearer {secret}\r\n\r\n"
    );
    stream.write_all(head.as_bytes()).expect("it is sent");
    stream.set_read_timeout(Some(Duration::from_millis(10))).expect("a deadline");
    stream
}

/// The time from a stop at one gateway to the end of a call on another; `None` if the call was refused, because the gateway
/// hasn't yet seen that the previous stop was lifted.
fn stop_took(runs: &Client<'_>, stops: &Client<'_>, scope: &Value) -> Option<Duration> {
    thread::scope(|scope_of| {
        let call = scope_of.spawn(|| runs.post("/actions/execute", &shell("sleep 600")));
        let until = Instant::now() + PATIENCE;
        let begun = || runs.get("/status").json()["running"].as_u64().unwrap_or_default() > 0;
        while !begun() {
            if call.is_finished() {
                let refused = call.join().expect("an answer");
                assert_eq!(refused.status, 403, "{refused:?}");
                return None;
            }
            assert!(Instant::now() < until, "the call doesn't begin");
            thread::park_timeout(Duration::from_millis(20));
        }
        thread::park_timeout(Duration::from_millis(200));
        let stopped = Instant::now();
        assert_eq!(stops.post("/estop", scope).status, 200);
        let ended = call.join().expect("an answer");
        let is_stopped = ended.json()["status"] == "failed" || ended.status == 403;
        assert!(is_stopped, "{ended:?}");
        Some(stopped.elapsed())
    })
}

#[test]
fn scenario_46_a_stop_ends_a_running_call_and_text_goes_on() {
    let server = Server::start();
    let models = format!("models = {{tiny = {{endpoint = \"{}\"}}}}", server.endpoint());
    let home = home_with(&format!("{models}, memory = {{auto = false}}, context = {{project = false}}"));
    let gateway = Gateway::start(home.path());
    // On a database server another gateway stops it, too.
    let other = super::is_on_server(home.path()).then(|| Gateway::start(home.path()));
    let secret = token(home.path(), "anna", "member", &[]);
    let anna = gateway.client(&secret);
    let there = other.iter().map(|it| (it.client(&secret), json!({"scope": "tenant"}), 1_200));
    let here = ["tenant", "node"].map(|scope| (anna.clone(), json!({"scope": scope}), 200));
    for (stops, scope, most_ms) in here.into_iter().chain(there) {
        let mut all = Vec::new();
        loop {
            all.push(stop_took(&anna, &stops, &scope));
            server.reply(answer("Text goes on."));
            assert_eq!(anna.post("/chat", &json!({"message": "Hello?"})).json()["text"], "Text goes on.", "{scope}");
            super::change(home.path(), "DELETE FROM kill_switch");
            // One fast try is enough: the machine is busy, and a call that isn't stopped takes ten minutes.
            if all.iter().flatten().any(|took| took.as_millis() <= most_ms) {
                break;
            }
            assert!(all.len() < 10, "{scope}, within {most_ms} ms: {all:?}");
        }
    }
}

#[test]
fn scenario_47_counters_move_as_stated_and_no_secret_is_in_metrics_events_or_logs() {
    const SECRET: &str = "sk-ant-api03-AbCdEfGhIjKlMnOpQrStUvWxYz0123456789abcdefgh";
    let server = Server::start();
    let home = home_with(&format!(
        "models = {{tiny = {{endpoint = \"{}\", key_env = \"TINY_KEY\"}}}}, memory = {{auto = false}}, context = {{project = false}}",
        server.endpoint()
    ));
    let variables = [("TINY_KEY", SECRET), ("REEDCLAW_LOG", "json"), ("REEDCLAW_LOG_LEVEL", "debug")];
    let gateway = Gateway::start_with(home.path(), &variables);
    let token = token(home.path(), "anna", "member", &[]);
    let anna = gateway.client(&token);
    server.reply(answer(&format!("The key is {SECRET}.")));
    let said = anna.post("/chat", &json!({"message": format!("Is {SECRET} a key?")}));
    assert_eq!(said.status, 200, "{said:?}");
    assert!(!said.text.contains(SECRET), "{said:?}");
    let event = json!({"action_name": "time", "subject_type": "run", "subject_id": "r", "args": {}});
    assert_eq!(anna.post("/actions/execute", &event).status, 200);
    let batches = || ["count", "sum"].map(|it| gauge(&gateway, &format!("reedclaw_append_batch_events_{it}")));
    let (before, three) =
        (batches(), vec![json!({"event_type": "x.step", "source": "agent", "run_id": "r", "body": {}}); 3]);
    assert_eq!(anna.post("/events/append", &json!({"events": three})).status, 201);
    let grown = [0, 1].map(|at| batches()[at] - before[at]);
    assert!(grown[0] > 0 && grown[1] >= grown[0] + 2, "three events of one commit: {grown:?}");
    assert_eq!(gauge(&gateway, "reedclaw_stream_lag_positions"), 0, "nobody reads");
    assert_eq!(anna.post("/estop", &json!({"scope": "tenant"})).status, 200);
    assert_eq!(anna.post("/actions/execute", &event).status, 403);
    server.reply(crate::server::refusal("401 Unauthorized", "bad key"));
    assert_eq!(anna.post("/chat", &json!({"message": "?"})).status, 502);
    let text = gateway.send("GET", "/metrics", &[], "").text;
    for (name, value) in [
        ("reedclaw_conversations_total", 2),
        ("reedclaw_tool_calls_total", 2),
        ("reedclaw_tool_denials_total", 1),
        ("reedclaw_provider_errors_total", 1),
        ("reedclaw_receipt_chain_valid", 1),
    ] {
        assert_eq!(gauge(&gateway, name), value, "{name} in {text}");
    }
    well_formed(&text);
    if need::find("promtool").is_some() {
        std::fs::write(home.path().join("metrics"), &text).expect("a file");
        let mut promtool = std::process::Command::new("promtool");
        promtool.args(["check", "metrics"]).stdin(std::fs::File::open(home.path().join("metrics")).expect("the file"));
        let said = promtool.output().expect("it runs");
        assert!(said.status.success(), "{}", String::from_utf8_lossy(&said.stderr));
    }
    let events = anna.get("/events/list?limit=500").text;
    let runs = anna.get("/runs").text;
    assert_eq!(gateway.end(Signal::SIGTERM), Some(0));
    let mut written = String::new();
    let mut directories = vec![home.path().join(".local/state/reedclaw")];
    while let Some(path) = directories.pop() {
        if path.is_dir() {
            directories.extend(std::fs::read_dir(path).expect("files").map(|it| it.expect("an entry").path()));
        } else {
            written += &String::from_utf8_lossy(&std::fs::read(&path).expect("a file"));
        }
    }
    assert!(written.contains("\"event\":\"request\"") || written.contains("stream") && written.len() > 1000, "a log");
    for secret in [SECRET, token.as_str()] {
        for (name, text) in [("metrics", &text), ("events", &events), ("runs", &runs), ("files", &written)] {
            assert!(!text.contains(secret), "{name} have {secret}");
        }
    }
}

/// Checks the text format of metrics: help and type before the samples, unique names and labels, and numbers.
fn well_formed(text: &str) {
    let mut seen = std::collections::BTreeSet::new();
    let (mut family, mut kind) = (String::new(), String::new());
    for line in text.lines() {
        if let Some(rest) = line.strip_prefix("# HELP ") {
            rest.split_once(' ').expect("a name and a text").0.clone_into(&mut family);
            assert!(seen.insert(format!("help {family}")), "{family} twice");
        } else if let Some(rest) = line.strip_prefix("# TYPE ") {
            let (name, word) = rest.split_once(' ').expect("a name and a type");
            assert_eq!(name, family);
            word.clone_into(&mut kind);
            assert!(["counter", "gauge", "histogram", "summary"].contains(&word), "{line}");
            assert!(word != "counter" || name.ends_with("_total"), "{line}");
        } else {
            let (sample, value) = line.rsplit_once(' ').expect("a value");
            assert!(value.parse::<f64>().is_ok(), "{line}");
            assert!(sample.starts_with(&family) && seen.insert(sample.to_owned()), "{line}");
            let suffix = sample[family.len()..].split('{').next().unwrap_or_default();
            let is_part = match kind.as_str() {
                "histogram" => ["_sum", "_count", "_bucket"].contains(&suffix),
                "summary" => ["_sum", "_count"].contains(&suffix),
                _ => false,
            };
            assert!(suffix.is_empty() || is_part, "{line}");
        }
    }
    assert!(text.ends_with('\n') && seen.len() > 10);
}

#[test]
fn scenario_69_a_sandboxed_program_reaches_neither_the_gateway_nor_its_files() {
    if !need::require(&["bwrap", "python3"]) {
        return;
    }
    let home = home();
    let gateway = Gateway::start(home.path());
    assert_eq!(run(home.path(), &["gateway", "tenant", "add", "acme"]).0, Some(0));
    let zoe = gateway.client(&token(home.path(), "zoe", "member", &["--tenant", "acme"])).with("X-Tenant-Id", "acme");
    let answer = zoe.post(
        "/actions/execute",
        &json!({"action_name": "file_list", "subject_type": "run",
        "subject_id": "r", "args": {"path": "."}}),
    );
    assert_eq!(answer.status, 200, "their workspace is there: {answer:?}");
    let spaces = home.path().join(".local/share/reedclaw-workspaces");
    let theirs = std::fs::read_dir(&spaces).expect("workspaces").next().expect("one").expect("an entry").path();
    std::fs::write(theirs.join("plan.txt"), "the secret plan").expect("their file");
    let probe = format!(
        "import os, socket\ndef tried(name, act):\n    try:\n        act()\n        print(name, 'REACHED')\n    except OSError as error:\n        print(name, 'refused')\n\
         tried('socket', lambda: socket.create_connection(('127.0.0.1', {}), 3))\n\
         tried('database', lambda: open('{}').read(1))\n\
         tried('workspace', lambda: open('{}').read(1))\n\
         tried('write', lambda: open('{}', 'w'))\n",
        gateway.address.port(),
        super::database(home.path()).display(),
        theirs.join("plan.txt").display(),
        super::database(home.path()).display(),
    );
    std::fs::write(home.path().join("ws/probe.py"), probe).expect("the probe");
    let anna = gateway.client(&token(home.path(), "anna", "member", &[]));
    let olga = gateway.client(&token(home.path(), "olga", "operator", &[]));
    let until = (jiff::Timestamp::now() + jiff::SignedDuration::from_hours(24)).to_string();
    let licence = json!({"subject": {"user": "anna"}, "class": "exec", "valid_until": until, "reason": "a test"});
    assert_eq!(olga.post("/firearms/licences", &licence).status, 201);
    let asked = anna.post("/actions/execute", &shell("python3 probe.py"));
    let done = if asked.status == 202 {
        let id = asked.json()["question_id"].as_str().expect("an id").to_owned();
        let question = olga.get(&format!("/questions/{id}")).json();
        let yes = json!({"digest": question["digest"], "answer": "once", "seen_to_end": true});
        assert_eq!(olga.post(&format!("/questions/{id}/answer"), &yes).status, 200);
        outcome(&anna, &id)["outcome"].clone()
    } else {
        asked.json()
    };
    let said = done["result"]["output"].as_str().unwrap_or_else(|| panic!("{done}")).to_owned();
    for name in ["socket", "database", "workspace", "write"] {
        assert!(said.contains(&format!("{name} refused")), "{said}");
    }
    assert_eq!(super::verify(home.path()).0, Some(0));
}
