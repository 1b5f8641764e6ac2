//! Measures servers of tools in process: a call over a pipe and over HTTP compared with the server alone, a thousand definitions
//! fetched and compared with the approved ones, and the cost of a call in the gate: policy and receipts, with and without the
//! disk.

use std::hint::black_box;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;

use reedclaw::estop::Estop;
use reedclaw::gate::{Allowed, Approver, Call, Ceiling, Gate, Options as GateOptions, Pins};
use reedclaw::host::Authorities;
use reedclaw::mcp::{Era, Mcp, Options, Order, Place, Server, ServerLimits, Web};
use reedclaw::policy::Rules;
use reedclaw::proto::action::{Action, Hold};
use reedclaw::proto::served::{OAuth, PinStanding, Reach, Unasked};
use reedclaw::proto::tool::Outcome;
use reedclaw::receipts::{Log, Options as LogOptions};
use serde_json::{Value, json};

use crate::Plan;

/// A server of tools that answers as fast as Python can.
const SERVER: &str = include_str!("../timing/server.py");

/// Runs all measurements.
pub fn measure(plan: &Plan) {
    calls(plan);
    calls_over_http(plan);
    definitions(plan);
    gate(plan);
}

/// A call of a server's tool over pipes, compared with the server alone: the same message written to it and its answer read.
fn calls(plan: &Plan) {
    let name = "mcp: a call over a pipe";
    let has_python = Command::new("python3").arg("-c").arg("").status().is_ok_and(|it| it.success());
    if !plan.wants(&["mcp: the server alone", name]) || !has_python {
        return;
    }
    let start = || {
        let mut command = Command::new("python3");
        command.args(["-IS", "-c", SERVER]);
        command
    };
    let mut child = start().stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("a server");
    let (mut input, output) = (child.stdin.take().expect("its input"), child.stdout.take().expect("its output"));
    let mut output = BufReader::new(output);
    let mut line = String::new();
    plan.measure("mcp: the server alone", 2000, 0, |turn| {
        let call = format!(
            "{{\"jsonrpc\":\"2.0\",\"id\":{turn},\"method\":\"tools/call\",\"params\":{{\"name\":\"echo\"}}}}\n"
        );
        input.write_all(call.as_bytes()).expect("it reads");
        line.clear();
        output.read_line(&mut line).expect("it answers");
    });
    drop(input);
    let _ = child.wait();

    let place = Place::Program(vec!["python3".into()]);
    let mcp = client(vec![server("echo", place)], Arc::new(move |_: &Server| Ok(start())), None);
    let order = Order { server: "echo".into(), tool: "echo".into(), arguments: serde_json::Map::new(), seen: None };
    mcp.call(&order, &|| false, &mut Unasked).expect("a first call");
    plan.measure(name, 2000, 0, |_| {
        let reply = mcp.call(&order, &|| false, &mut Unasked);
        black_box(reply.expect("an answer"));
    });
    // The server ends when its input is closed.
    mcp.close("echo");
}

/// A call of a tool over HTTP, compared with the server alone: the same message posted to it and its answer read.
fn calls_over_http(plan: &Plan) {
    let (alone, name) = ("mcp: the server alone, HTTP", "mcp: a call over HTTP");
    if !plan.wants(&[alone, name]) {
        return;
    }
    let Some(port) = serve(list(1)) else { return };
    let Ok(stream) = TcpStream::connect(("127.0.0.1", port)) else { return };
    stream.set_nodelay(true).expect("a connection");
    let mut reader = BufReader::new(&stream);
    plan.measure(alone, 2000, 0, |turn| {
        let call =
            json!({"jsonrpc": "2.0", "id": turn, "method": "tools/call", "params": {"name": "tool_0"}}).to_string();
        let head = format!("POST / HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: {}\r\n\r\n", call.len());
        (&stream).write_all(format!("{head}{call}").as_bytes()).expect("it reads");
        let (_, length) = read_head(&mut reader).expect("it answers");
        let mut body = vec![0; length];
        reader.read_exact(&mut body).expect("its answer");
        black_box(body);
    });
    let place = Place::Url(format!("http://127.0.0.1:{port}/"));
    let mcp = client(vec![server("web", place)], Arc::new(|_: &Server| Err("there is no program".to_owned())), None);
    let order = Order { server: "web".into(), tool: "tool_0".into(), arguments: serde_json::Map::new(), seen: None };
    mcp.call(&order, &|| false, &mut Unasked).expect("a first call");
    plan.measure(name, 2000, 0, |_| {
        black_box(mcp.call(&order, &|| false, &mut Unasked).expect("an answer"));
    });
}

/// Starts a server over HTTP with this list of tools, which runs as long as the program; returns its port.
fn serve(list: String) -> Option<u16> {
    let listener = TcpListener::bind("127.0.0.1:0").ok()?;
    let (port, list) = (listener.local_addr().ok()?.port(), Arc::<str>::from(list));
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let list = Arc::clone(&list);
            std::thread::spawn(move || answer(&stream, &list));
        }
    });
    Some(port)
}

/// A server's list of tools over HTTP: fetched, read, stored for the next start, and compared with a person's approvals, whose
/// file is read again. A list of one tool, for comparison, shows the cost of the connection.
fn definitions(plan: &Plan) {
    const TURNS: usize = 50;
    for (name, count) in [("mcp: one definition", 1), ("mcp: 1,000 definitions", 1000)] {
        if !plan.wants(&[name]) {
            continue;
        }
        let list = list(count);
        let bytes = list.len();
        let Some(port) = serve(list) else { return };
        let top = memory().join(format!("reedclaw-mcp-bench-{}", std::process::id()));
        let place = |_| Place::Url(format!("http://127.0.0.1:{port}/"));
        let servers = (0..=TURNS).map(|turn| server(&format!("s{turn}"), place(turn))).collect();
        let launch = Arc::new(|_: &Server| Err("there is no program".to_owned()));
        let mcp = client(servers, launch, Some(top.join("state")));
        let offered = |turn: usize| {
            let name = format!("s{turn}");
            mcp.connect(&name, &|| false).expect("a connection");
            mcp.manifest(&name).expect("a list")
        };
        let (identity, first) = (json!({"url": "http://127.0.0.1/"}), offered(TURNS));
        let tools: Vec<_> = first.tools.iter().map(Arc::as_ref).collect();
        Pins::at(&top).allow("s", &identity, &tools).expect("they are allowed");
        plan.measure(name, TURNS, bytes, |turn| {
            let standings = Pins::at(&top).standings("s", &identity, &offered(turn).tools);
            assert!(standings.len() == count && standings.iter().all(|it| *it == PinStanding::Pinned));
        });
        let _ = std::fs::remove_dir_all(top);
    }
}

/// Policy and receipts of a call from the model's request to the recorded outcome, without the tool itself. A call of medium risk
/// waits until its receipt is on the disk; with files in memory that costs nothing.
fn gate(plan: &Plan) {
    let action = |is_low: bool| match is_low {
        true => Action::Inert { name: "time".into() },
        false => Action::Served {
            server: "pipe".into(),
            tool: "echo".into(),
            standing: PinStanding::Pinned,
            pin: String::new(),
            reach: Reach::Held,
            may_write: true,
            is_destructive: false,
            is_asked: false,
            is_granted: true,
        },
    };
    for (name, is_low, place) in [
        ("gate: a low call, in memory", true, Some(memory())),
        ("gate: a low call, on the disk", true, Some(std::env::temp_dir())),
        ("gate: a server's call, no receipt", false, None),
        ("gate: a server's call, in memory", false, Some(memory())),
        ("gate: a server's call, on the disk", false, Some(std::env::temp_dir())),
    ] {
        if !plan.wants(&[name]) {
            continue;
        }
        let top = place.clone().unwrap_or_else(memory).join(format!("reedclaw-gate-bench-{}", std::process::id()));
        let workspace = top.join("ws");
        let (Ok(()), Ok(allowed)) = (std::fs::create_dir_all(&workspace), Allowed::open(&top, &workspace)) else {
            return;
        };
        let estop = Estop::new(top.clone());
        let log = place.map(|_| Log::open(LogOptions::new(top.join("receipts.jsonl"), top.clone())).expect("a log"));
        let mut gate = Gate::new(GateOptions {
            rules: Rules::new(&workspace.display().to_string(), "/home/u"),
            ceiling: Ceiling::default(),
            sandbox: Box::new(|| ("overlay", Hold::Copy)),
            log,
            audit_log: None,
            check: None,
            stop: Arc::new(move || estop.check().err().map(|stopped| stopped.why)),
            allowed,
            path: reedclaw::base::program::SearchPath::new("/usr/bin:/bin".into()),
        });
        plan.measure(name, 5000, 0, |turn| {
            let arguments = json!({"text": format!("text {turn}")});
            let (tool, preview) = ("pipe__echo".into(), format!("{arguments:#}"));
            let call = Call {
                tool,
                arguments,
                action: action(is_low),
                preview,
                changes: Arc::new([]),
                conversation: Some(1),
                needs: Vec::new(),
            };
            let ticket = gate.judge(call, &workspace, true);
            let permit = gate.admit(ticket, &Approver::Policy).expect("it may run");
            let mut outcome = Outcome::of("the text of a result, as long as a line is".to_owned());
            gate.settle(permit, &mut outcome);
            black_box(outcome);
        });
        drop(gate);
        let _ = std::fs::remove_dir_all(top);
    }
}

/// A directory with its files in memory, if this machine has one.
fn memory() -> PathBuf {
    let memory = Path::new("/dev/shm");
    if memory.is_dir() { memory.to_owned() } else { std::env::temp_dir() }
}

fn server(name: &str, place: Place) -> Server {
    Server {
        name: name.into(),
        place,
        era: Era::Initialize,
        limits: ServerLimits::default(),
        oauth: OAuth::default(),
        may_ask: false,
        is_sse: false,
        has_resources: false,
        has_prompts: false,
        is_fetching: false,
    }
}

fn client(servers: Vec<Server>, launch: reedclaw::mcp::Launch, state: Option<PathBuf>) -> Mcp {
    let web = Web {
        authorities: Authorities::default(),
        headers: Arc::new(|_| Ok(Vec::new())),
        dial: Arc::new(|_, _| Err("nobody is reached".into())),
        secret: Arc::new(|_| Ok(None)),
    };
    Mcp::new(Options { servers, launch, end: Arc::new(|_: &[u32], _| true), web, halted: Arc::new(|| None), state })
}

/// The JSON of a list of `count` tools, about a kilobyte each, as in `mcp.py`.
fn list(count: usize) -> String {
    let words =
        "Finds the records of a project that fit a query, and returns them as a list with their numbers, titles and owners. "
            .repeat(4);
    let field = json!({"type": "string", "description": words[..120]});
    let schema = json!({"type": "object", "properties": {"query": field, "project": field, "owner": field}});
    let tool = |number: usize| json!({"name": format!("tool_{number}"), "description": format!("Tool {number}. {words}"), "inputSchema": schema});
    Value::from_iter((0..count).map(tool)).to_string()
}

/// Answers the requests of one connection as a server with this list of tools.
fn answer(stream: &TcpStream, list: &str) {
    let _ = stream.set_nodelay(true);
    let mut reader = BufReader::new(stream);
    while let Some((head, length)) = read_head(&mut reader) {
        let mut body = vec![0; length];
        if reader.read_exact(&mut body).is_err() {
            return;
        }
        let message: Value = serde_json::from_slice(&body).unwrap_or_default();
        let result = match message["method"].as_str() {
            Some("initialize") => json!({"protocolVersion": "2025-11-25", "capabilities": {"tools": {}},
                                         "serverInfo": {"name": "a", "version": "1"}})
            .to_string(),
            Some("tools/list") => format!("{{\"tools\":{list}}}"),
            Some("tools/call") => json!({"content": [{"type": "text", "text": "done"}]}).to_string(),
            _ => "{}".to_owned(),
        };
        let body = format!("{{\"jsonrpc\":\"2.0\",\"id\":{},\"result\":{result}}}", message["id"]);
        let (status, body) = match (head.starts_with("POST"), message.get("id")) {
            (true, Some(_)) => ("200 OK\r\nContent-Type: application/json", body),
            (true, None) => ("202 Accepted", String::new()),
            (false, _) => ("405 Method Not Allowed", String::new()),
        };
        let whole = format!("HTTP/1.1 {status}\r\nContent-Length: {}\r\n\r\n{body}", body.len());
        if (&*stream).write_all(whole.as_bytes()).is_err() {
            return;
        }
    }
}

/// Reads the head of a message over HTTP; returns it with the length of the body.
fn read_head(reader: &mut impl BufRead) -> Option<(String, usize)> {
    let (mut head, mut length) = (String::new(), 0);
    loop {
        let mut line = String::new();
        if !matches!(reader.read_line(&mut line), Ok(1..)) {
            return None;
        }
        let lower = line.to_ascii_lowercase();
        if let Some(number) = lower.strip_prefix("content-length:") {
            length = number.trim().parse().unwrap_or(0);
        }
        if line.trim().is_empty() {
            return Some((head, length));
        }
        head.push_str(&line);
    }
}
