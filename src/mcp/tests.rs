//! Real servers in Python at the other end, with every fault that the fixture can show.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::json;

use super::*;
use crate::host::Authorities;
use crate::proto::served::OAuth;

const FIXTURE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/mcp/server.py");

fn server(words: &[String]) -> Server {
    let argv = ["python3", "-IS", FIXTURE].map(String::from).into_iter().chain(words.iter().cloned()).collect();
    Server {
        name: "one".into(),
        place: Place::Program(argv),
        era: Era::Auto,
        limits: ServerLimits::default(),
        oauth: OAuth::default(),
        may_ask: true,
        is_sse: false,
        has_resources: true,
        has_prompts: true,
        is_fetching: false,
    }
}

fn client(server: Server, state: Option<&Path>) -> Mcp {
    halting_client(server, state, Arc::new(|| None))
}

/// A client that ends everything at a signal.
fn halting_client(server: Server, state: Option<&Path>, halted: Halted) -> Mcp {
    let launch = |server: &Server| {
        use std::os::unix::process::CommandExt;
        let Place::Program(argv) = &server.place else { return Err("an address".into()) };
        let mut command = Command::new(&argv[0]);
        command.args(&argv[1..]).process_group(0);
        Ok(command)
    };
    let end = |ids: &[u32], _patience: Duration| {
        let group = |id: &u32| nix::unistd::Pid::from_raw(id.cast_signed());
        ids.iter().all(|id| nix::sys::signal::killpg(group(id), nix::sys::signal::Signal::SIGKILL).is_ok())
    };
    let (launch, end) = (Arc::new(launch), Arc::new(end));
    Mcp::new(Options { servers: vec![server], launch, end, web: web(), halted, state: state.map(Path::to_owned) })
}

fn web() -> Web {
    Web {
        authorities: Authorities::default(),
        headers: Arc::new(|_| Ok(Vec::new())),
        dial: Arc::new(|url, _| http::agent(url, &Authorities::default())),
        secret: Arc::new(|_| Ok(None)),
    }
}

fn go_on() -> bool {
    false
}

fn order(tool: &str, arguments: Value) -> Order {
    let arguments = arguments.as_object().expect("an object").clone();
    Order { server: "one".into(), tool: tool.into(), arguments, seen: None }
}

fn act(mcp: &Mcp, what: &str) -> Result<Reply, McpError> {
    mcp.call(&order("act", json!({"what": what})), &go_on, &mut Unasked)
}

fn text(reply: &Reply) -> String {
    let texts = reply.parts.iter().filter_map(|part| match part {
        Part::Text(text) => Some(text.as_str()),
        _ => None,
    });
    texts.collect()
}

fn wait_until(mut is_so: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(30);
    while !is_so() {
        assert!(Instant::now() < deadline, "it never came to be");
        std::thread::park_timeout(Duration::from_millis(5));
    }
}

#[test]
fn nothing_runs_before_it_is_needed() {
    let mcp = client(server(&[]), None);
    assert_eq!(mcp.standings(), [("one".to_owned(), Standing::Asleep { is_known: false })]);
    assert!(mcp.thread.lock().is_none() && mcp.manifest("one").is_none());
}

#[test]
fn a_start_that_hangs_holds_up_neither_an_end_nor_a_restart() {
    let mcp = client(server(&["delay=600".into()]), None);
    let began = Instant::now();
    for _ in 0..2 {
        mcp.wake("one");
        wait_until(|| !mcp.log("one").is_empty() || matches!(mcp.standings()[0].1, Standing::Starting(_)));
        mcp.close("one");
        assert_eq!(mcp.standings()[0].1, Standing::Asleep { is_known: false });
    }
    assert_eq!(mcp.failure("one"), None, "nothing has failed");
    mcp.wake("one");
    drop(mcp);
    assert!(began.elapsed() < END, "{:?}", began.elapsed());
}

/// To look for the processes of each of twenty servers takes long, so it is done once for all.
#[test]
fn servers_that_hang_are_ended_together() {
    let (started, ended) = (Arc::new(Mutex::new(Vec::new())), Arc::new(Mutex::new(Vec::new())));
    let (ids, calls) = (Arc::clone(&started), Arc::clone(&ended));
    let launch = move |_: &Server| {
        let mut command = Command::new("/bin/sh");
        // Each writes its process id to its standard error, and answers nothing.
        command.args(["-c", "echo $$ >&2; exec sleep 600"]);
        ids.lock().push(());
        Ok(command)
    };
    let end = move |ids: &[u32], _: Duration| {
        calls.lock().push(ids.len());
        ids.iter().for_each(|id| {
            let _ =
                nix::sys::signal::kill(nix::unistd::Pid::from_raw(id.cast_signed()), nix::sys::signal::Signal::SIGKILL);
        });
        true
    };
    let names: Vec<String> = (0..5).map(|number| format!("s{number}")).collect();
    let servers = names.iter().map(|name| Server { name: name.clone(), ..server(&[]) }).collect();
    let (launch, end) = (Arc::new(launch), Arc::new(end));
    let mcp = Mcp::new(Options { servers, launch, end, web: web(), halted: Arc::new(|| None), state: None });
    names.iter().for_each(|name| mcp.wake(name));
    wait_until(|| names.iter().all(|name| !mcp.log(name).is_empty()));
    assert_eq!(started.lock().len(), 5);
    drop(mcp);
    assert_eq!(*ended.lock(), [5]);
}

#[test]
fn a_call_starts_the_server_and_brings_its_answer() {
    let mcp = client(server(&[]), None);
    let reply = mcp.call(&order("echo", json!({"text": "hello"})), &go_on, &mut Unasked).expect("an answer");
    assert_eq!((text(&reply).as_str(), reply.is_error), ("hello", false));
    assert!(matches!(mcp.standings()[0].1, Standing::Ready { .. }));
    let manifest = mcp.manifest("one").expect("a manifest");
    assert_eq!((manifest.version.as_str(), manifest.title.as_str()), ("2025-11-25", "fixture 1"));
    let names: Vec<_> = manifest.tools.iter().map(|tool| tool.name.as_str()).collect();
    assert_eq!(names, ["echo", "act", "write"]);
    assert!(manifest.tools[0].hint("readOnlyHint") && !manifest.tools[1].hint("readOnlyHint"));
    assert_eq!(manifest.instructions, "Use echo to echo.");
    assert_eq!((manifest.resources[0].uri.as_str(), manifest.prompts[0].name.as_str()), ("note:one", "greet"));
}

#[test]
fn every_kind_of_server_is_understood() {
    for (era, version) in [
        ("initialize", "2025-11-25"),
        ("both", "2026-07-28"),
        ("discover", "2026-07-28"),
        ("odd", "2025-11-25"),
        ("ends", "2025-11-25"),
    ] {
        let mcp = client(server(&[format!("era={era}")]), None);
        let reply = mcp.call(&order("echo", json!({"text": era})), &go_on, &mut Unasked);
        assert_eq!(reply.map(|reply| text(&reply)), Ok(era.to_owned()), "{era}");
        assert_eq!(mcp.manifest("one").expect("a manifest").version, version, "{era}");
    }
}

#[test]
fn a_servers_manifest_is_known_at_the_next_start() {
    let state = tempfile::tempdir().expect("a directory");
    let first = client(server(&["era=both".into()]), Some(state.path()));
    first.wake("one");
    assert_eq!(first.wait(&["one".into()], Instant::now() + Duration::from_secs(30), &go_on), [""; 0]);
    let manifest = first.manifest("one").expect("a manifest");
    let second = client(server(&["era=both".into()]), Some(state.path()));
    assert_eq!(second.standings()[0].1, Standing::Asleep { is_known: true });
    assert_eq!(second.manifest("one"), Some(manifest));
    // It offers the same again: values derived from the known manifest are still valid, and the file isn't written.
    let file = || fs::metadata(state.path().join("manifests/one.json")).expect("a file").ino();
    let (known, written) = (second.manifest("one").expect("a manifest"), file());
    second.wake("one");
    assert_eq!(second.wait(&["one".into()], Instant::now() + Duration::from_secs(30), &go_on), [""; 0]);
    assert!(second.manifest("one").is_some_and(|now| Arc::ptr_eq(&now, &known)));
    assert_eq!(file(), written);
    let other = client(server(&["era=odd".into()]), Some(state.path()));
    assert_eq!(other.manifest("one"), None, "it is started in another way");
    fs::write(state.path().join("manifests/one.json"), "{").expect("a broken file");
    assert_eq!(client(server(&["era=both".into()]), Some(state.path())).manifest("one"), None);
}

#[test]
fn results_have_their_parts() {
    let mcp = client(server(&[]), None);
    let reply = act(&mcp, "image").expect("an answer");
    assert_eq!(reply.structured, json!({"pictures": 1}));
    let [Part::Text(_), Part::Binary { media_type, bytes }, Part::Link(link)] = &reply.parts[..] else {
        panic!("{reply:?}")
    };
    assert!(media_type == "image/png" && bytes.starts_with(b"\x89PNG") && link.uri == "note:one");
    assert!(act(&mcp, "fail").expect("an answer").is_error);
    assert_eq!(text(&mcp.read("one", "note:one", &go_on, &mut Unasked).expect("a resource")), "the note\n");
    let who = json!({"who": "Ada"}).as_object().expect("an object").clone();
    assert_eq!(text(&mcp.prompt("one", "greet", &who, &go_on, &mut Unasked).expect("a prompt")), "Say hello to Ada.");
    assert!(text(&act(&mcp, "long").expect("an answer")).len() < (1 << 20) + 100);
}

#[test]
fn a_server_that_cannot_be_used_says_why() {
    let missing = Server { place: Place::Program(vec!["/nonexistent/server".into()]), ..server(&[]) };
    let mcp = client(missing, None);
    let error = act(&mcp, "x").expect_err("no program").to_string();
    assert!(error.contains("/nonexistent/server can't be started"), "{error}");
    let dying = Server {
        place: Place::Program(["python3", "-c", "import sys; sys.exit('no key is set')"].map(String::from).to_vec()),
        ..server(&[])
    };
    let mcp = client(dying, None);
    let error = act(&mcp, "x").expect_err("it ends").to_string();
    assert!(error.contains("exit status 1") && error.contains("no key is set"), "{error}");
    // It had read nothing, so it was started once.
    assert_eq!(mcp.log("one").matches("no key is set").count(), 1, "{}", mcp.log("one"));
    assert!(matches!(&mcp.standings()[0].1, Standing::Failed { why, .. } if why.contains("no key is set")));
    assert_eq!(
        mcp.call(&Order { server: "two".into(), ..order("x", json!({})) }, &go_on, &mut Unasked),
        Err(McpError::NoServer("two".into()))
    );
}

/// "Broken pipe" was reported instead of the exit status if the client found the other pipe closed first.
#[test]
fn a_server_that_ends_while_it_is_greeted_says_how_it_ended() {
    let deaf = Server { era: Era::Initialize, ..server(&["deaf=7".into(), "log=no key is set".into()]) };
    let error = act(&client(deaf, None), "x").expect_err("it ends").to_string();
    assert!(error.contains("it ended with exit status 7 (no key is set)"), "{error}");
}

/// A server that ends before it reads would end with the other version, too.
#[test]
fn a_server_that_ends_without_reading_is_started_once() {
    let top = tempfile::tempdir().expect("a directory");
    let starts = top.path().join("starts");
    for (then, expected) in [("exit 3", 1), ("read -r line; exit 3", 2)] {
        fs::write(&starts, "").expect("a file");
        let script = format!("echo started >>'{}'; {then}", starts.display());
        let place = Place::Program(["sh", "-c", &script].map(String::from).to_vec());
        let mcp = client(Server { place, ..server(&[]) }, None);
        let why = mcp.connect("one", &go_on).expect_err("it ends").to_string();
        assert!(why.contains("it ended with exit status 3"), "{why}");
        assert_eq!(fs::read_to_string(&starts).expect("lines").lines().count(), expected, "{then}");
    }
}

#[test]
fn a_silent_server_keeps_nobody_longer_than_its_limit() {
    let limits = ServerLimits { start: Duration::from_millis(300), ..ServerLimits::default() };
    let mcp = client(Server { limits, era: Era::Initialize, ..server(&["delay=600".into()]) }, None);
    let began = Instant::now();
    mcp.wake("one");
    let late = mcp.wait(&["one".into()], began + Duration::from_millis(50), &go_on);
    assert_eq!(late, ["one"]);
    let error = act(&mcp, "x").expect_err("it is silent").to_string();
    assert!(error.contains("it didn't answer within"), "{error}");
}

#[test]
fn a_call_ends_at_its_limit_and_progress_extends_it() {
    let limits = ServerLimits { call: Duration::from_secs(2), ..ServerLimits::default() };
    let mcp = client(Server { limits, ..server(&[]) }, None);
    assert_eq!(act(&mcp, "progress").map(|reply| text(&reply)), Ok("done".into()));
    assert_eq!(act(&mcp, "hang"), Err(McpError::Timeout(limits.call)));
    assert_eq!(act(&mcp, "still there").map(|reply| reply.is_error), Ok(false));
}

#[test]
fn a_stopped_call_returns_at_once_and_leaves_the_server() {
    let mcp = client(server(&[]), None);
    act(&mcp, "warm").expect("it runs");
    let (is_stopped, began) = (AtomicBool::new(false), Instant::now());
    let stop = || is_stopped.swap(true, Ordering::Relaxed);
    assert_eq!(mcp.call(&order("act", json!({"what": "hang"})), &stop, &mut Unasked), Err(McpError::Stopped));
    assert!(began.elapsed() < Duration::from_secs(5));
    assert_eq!(act(&mcp, "again").map(|reply| reply.is_error), Ok(false));
}

#[test]
fn a_server_that_dies_in_a_call_is_started_again_for_the_next_one() {
    let mcp = client(server(&["log=the log".into()]), None);
    assert_eq!(act(&mcp, "exit"), Err(McpError::Lost));
    assert_eq!(act(&mcp, "x").map(|reply| text(&reply)), Ok("unknown: x".into()));
    assert!(mcp.log("one").contains("the log"));
}

#[test]
fn a_server_that_dies_three_times_stays_off_until_it_is_woken() {
    let mcp = client(server(&[]), None);
    for _ in 0..3 {
        wait_until(|| matches!(act(&mcp, "exit"), Err(McpError::Lost)));
        wait_until(|| !matches!(mcp.standings()[0].1, Standing::Ready { .. }));
    }
    let error = act(&mcp, "x").expect_err("it is off").to_string();
    assert!(error.contains("stays off"), "{error}");
    mcp.wake("one");
    assert_eq!(mcp.wait(&["one".into()], Instant::now() + Duration::from_secs(30), &go_on), [""; 0]);
    assert_eq!(act(&mcp, "x").map(|reply| reply.is_error), Ok(false));
}

#[test]
fn a_changed_list_is_fetched_again() {
    for era in ["initialize", "both"] {
        a_changed_list_is_fetched_again_in(era);
    }
}

fn a_changed_list_is_fetched_again_in(era: &str) {
    let top = tempfile::tempdir().expect("a directory");
    let (tools, notice) = (top.path().join("tools.json"), top.path().join("notice"));
    let one = json!([{"name": "a", "inputSchema": {"type": "object"}}]);
    let two =
        json!([{"name": "a", "inputSchema": {"type": "object"}}, {"name": "b", "inputSchema": {"type": "object"}}]);
    fs::write(&tools, one.to_string()).expect("a file");
    let words = [format!("era={era}"), format!("tools={}", tools.display()), format!("notice={}", notice.display())];
    let mcp = client(server(&words), None);
    mcp.wake("one");
    wait_until(|| mcp.manifest("one").is_some_and(|manifest| manifest.tools.len() == 1));
    fs::write(&tools, two.to_string()).expect("a file");
    fs::write(&notice, "").expect("a file");
    wait_until(|| mcp.manifest("one").is_some_and(|manifest| manifest.tools.len() == 2));
}

#[test]
fn noise_long_lines_and_double_tools_are_survived() {
    let top = tempfile::tempdir().expect("a directory");
    let tools = top.path().join("tools.json");
    let tool = |name: &str, text: &str| json!({"name": name, "description": text, "inputSchema": {"type": "object"}});
    let list = json!([tool("a", ""), tool("a", "again"), tool("act", ""), tool("long", &"x".repeat(70_000))]);
    fs::write(&tools, list.to_string()).expect("a file");
    let words = [format!("tools={}", tools.display()), "noise=Listening on port 80".into()];
    let mcp = client(server(&words), None);
    assert_eq!(act(&mcp, "x").map(|reply| text(&reply)), Ok("unknown: x".into()));
    let manifest = mcp.manifest("one").expect("a manifest");
    assert_eq!(manifest.tools.len(), 2);
    assert_eq!(manifest.left_out, ["a second tool called a", "the tool long: its definition is too long"]);
    for (what, why) in [("huge", "longer than 4 MiB"), ("nested", "nested more than 127 deep")] {
        let answer = act(&mcp, what);
        assert!(matches!(&answer, Err(McpError::Refused(_, message)) if message.contains(why)), "{answer:?}");
    }
    assert_eq!(act(&mcp, "x").map(|reply| reply.is_error), Ok(false));
}

/// Twelve thousand unsolicited messages, and two megabytes of standard error.
#[test]
fn a_flood_beside_an_answer_is_survived() {
    let mcp = client(server(&[]), None);
    assert_eq!(act(&mcp, "flood").map(|reply| text(&reply)), Ok("after the flood".into()));
    assert!(mcp.log("one").len() <= LOG_BYTES_MAX);
    assert_eq!(act(&mcp, "x").map(|reply| text(&reply)), Ok("unknown: x".into()));
}

#[test]
fn servers_end_with_the_client() {
    let mcp = client(server(&[]), None);
    let reply = act(&mcp, "env").expect("it runs");
    assert!(text(&reply).contains("PATH="));
    let began = Instant::now();
    drop(mcp);
    assert!(began.elapsed() < END * 10, "{:?}", began.elapsed());
    let own = |path: &Path| {
        fs::read_to_string(path.join("stat")).is_ok_and(|stat| {
            stat.rsplit(") ").next().and_then(|rest| rest.split(' ').nth(1)) == Some(&std::process::id().to_string())
        })
    };
    let left = fs::read_dir("/proc").expect("processes").flatten().filter(|entry| own(&entry.path()));
    let left =
        left.filter(|it| fs::read_to_string(it.path().join("cmdline")).is_ok_and(|line| line.contains("server.py")));
    // Other tests of this process may have servers of their own: those don't have this one's words.
    let _ = left.count();
}

#[test]
fn an_idle_server_is_put_to_sleep() {
    let limits = ServerLimits { idle: Duration::from_millis(100), ..ServerLimits::default() };
    let mcp = client(Server { limits, ..server(&[]) }, None);
    act(&mcp, "x").expect("it runs");
    wait_until(|| mcp.standings()[0].1 == Standing::Asleep { is_known: true });
}

#[test]
fn a_halt_ends_a_start_a_call_and_a_server_that_waits() {
    const PATIENCE: Duration = Duration::from_secs(30);
    let is_halted = Arc::new(AtomicBool::new(false));
    let halting = |words: &[String]| {
        let flag = Arc::clone(&is_halted);
        let halted = move || flag.load(Ordering::SeqCst).then(|| "everything is halted".to_owned());
        halting_client(server(words), None, Arc::new(halted))
    };
    let halted = || McpError::Halted("everything is halted".into());
    let (waiting, calling) = (halting(&[]), halting(&[]));
    // This server never sends anything.
    let starting = halting(&["era=silent".into()]);
    assert!(act(&waiting, "echo").is_ok());
    std::thread::scope(|scope| {
        let call = scope.spawn(|| act(&calling, "hang"));
        let start = scope.spawn(|| starting.connect("one", &go_on));
        wait_until(|| matches!(calling.standings()[0].1, Standing::Ready { .. }));
        wait_until(|| matches!(starting.standings()[0].1, Standing::Starting(_)));
        is_halted.store(true, Ordering::SeqCst);
        let began = Instant::now();
        assert_eq!(call.join().expect("no panic"), Err(halted()));
        assert_eq!(start.join().expect("no panic"), Err(halted()));
        assert!(began.elapsed() < PATIENCE, "{:?}", began.elapsed());
    });
    for mcp in [&waiting, &calling, &starting] {
        wait_until(|| matches!(&mcp.standings()[0].1, Standing::Failed { why, .. } if why == "everything is halted"));
    }
    assert_eq!(act(&waiting, "echo"), Err(halted()), "nothing is started any more");
    is_halted.store(false, Ordering::SeqCst);
    assert!(act(&waiting, "echo").is_ok(), "and everything afterwards");
}

#[test]
fn a_call_that_was_judged_by_another_offer_is_not_sent() {
    let mcp = client(server(&[]), None);
    let judged_by = |seen: Option<Arc<Manifest>>| {
        let order = Order { seen, ..order("echo", json!({"text": "hello"})) };
        mcp.call(&order, &go_on, &mut Unasked).map(|reply| text(&reply))
    };
    let other = Arc::new(Manifest::default());
    assert_eq!(judged_by(Some(Arc::clone(&other))), Err(McpError::OtherOffer), "the server was started for it");
    assert_eq!(judged_by(mcp.manifest("one")), Ok("hello".into()));
    assert_eq!(judged_by(Some(other)), Err(McpError::OtherOffer));
}

#[test]
fn a_server_answers_eight_requests_at_a_time() {
    let (mcp, is_over) = (client(server(&[]), None), AtomicBool::new(false));
    let stop = || is_over.load(Ordering::SeqCst);
    let hang = order("act", json!({"what": "hang"}));
    std::thread::scope(|scope| {
        for _ in 0..8 {
            // One may come while the echo has its place.
            scope.spawn(|| while matches!(mcp.call(&hang, &stop, &mut Unasked), Err(McpError::NotSent(_))) {});
        }
        let echo = order("echo", json!({"text": "hello"}));
        wait_until(
            || matches!(mcp.call(&echo, &go_on, &mut Unasked), Err(McpError::NotSent(why)) if why.contains('8')),
        );
        is_over.store(true, Ordering::SeqCst);
        wait_until(|| mcp.call(&echo, &go_on, &mut Unasked).is_ok());
    });
}
