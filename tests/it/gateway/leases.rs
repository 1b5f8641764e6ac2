//! Workspaces that several gateways share: one at a time works in each, the events of its work carry the number of its lease, and
//! a gateway that has lost the lease continues none of that work.

use std::fs;
use std::io::Read as _;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use reedclaw::ledger::{Filter, Ledger, LedgerError, Target};
use reedclaw::proto::team::{EventDraft, Identity};
use serde_json::{Value, json};
use tempfile::TempDir;

use super::log::someone;
use super::published::free_port;
use super::server::Server;
use super::{Answer, Client, Gateway, command, home_with_file, read_rows, token, verify};
use crate::procs::descendants;
use crate::server::{Server as Model, Step, head, tool_call};
use crate::wait::wait_for;

/// Machines with gateways on one database, and a directory with the workspaces that all of them share.
struct Machines {
    _server: Server,
    homes: Vec<TempDir>,
    shared: TempDir,
    model: Model,
}

impl Machines {
    /// Starts them. With `has_address`, the first one has an address at which the others reach it.
    fn start(count: usize, workspaces: &str, has_address: bool) -> Option<Self> {
        let server = Server::start()?;
        let (model, port) = (Model::start(), free_port());
        let models = format!("models = {{tiny = {{endpoint = \"{}\"}}}}", model.endpoint());
        let rest = "memory = {auto = false}, context = {project = false}, security = {autonomy = \"full\"}";
        let settings = |port: u16, url: &str| {
            let gateway = format!("workspaces = \"{workspaces}\", listen = \"127.0.0.1:{port}\", node_url = \"{url}\"");
            format!("{models}, {rest}, gateway = {{{gateway}}}")
        };
        let url = if has_address { format!("http://127.0.0.1:{port}") } else { String::new() };
        let mut homes = vec![server.home_with(&settings(port, &url))];
        for _ in 1..count {
            let home = super::home_with(&settings(free_port(), ""));
            let address = homes[0].path().join(super::DATABASE);
            fs::copy(address, home.path().join(super::DATABASE)).expect("the same database");
            homes.push(home);
        }
        let shared = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a directory");
        Some(Self { _server: server, homes, shared, model })
    }

    fn gateway(&self, at: usize) -> Gateway {
        let data = self.shared.path().display().to_string();
        Gateway::begin(command(self.home(at), &["gateway", "--json"]), &[("XDG_DATA_HOME", &data)])
    }

    /// Starts another gateway on the same machine.
    fn gateway_beside(&self, at: usize) -> Gateway {
        let data = self.shared.path().display().to_string();
        Gateway::start_with(self.home(at), &[("XDG_DATA_HOME", &data)])
    }

    fn home(&self, at: usize) -> &Path {
        self.homes[at].path()
    }

    fn token(&self) -> String {
        token(self.home(0), "anna", "admin", &[])
    }

    /// The names of the files in the only workspace that isn't empty.
    fn files(&self) -> Vec<String> {
        let all = fs::read_dir(self.shared.path().join("reedclaw-workspaces")).expect("workspaces");
        let files = |place: fs::DirEntry| fs::read_dir(place.path()).expect("a workspace");
        let names = all.flatten().flat_map(files).flatten().map(|file| file.file_name().to_string_lossy().into_owned());
        let mut names: Vec<String> = names.filter(|name| !name.starts_with('.')).collect();
        names.sort();
        names
    }

    /// The time of the first event with a lease's number, by the database's clock.
    fn appended(&self, project: &str, fence: i64) -> i64 {
        let at = "CAST(extract(epoch FROM CAST(recorded_at AS timestamptz)) * 1000 AS bigint)";
        self.number(&format!("SELECT min({at}) FROM event WHERE project = '{project}' AND fence = {fence}"))
    }

    /// The time at which the row of a gateway expires.
    fn until(&self, node: &str) -> i64 {
        self.number(&format!("SELECT until_ms FROM node WHERE node_id = '{node}'"))
    }

    fn number(&self, sql: &str) -> i64 {
        read_rows(self.home(0), sql)[0].parse().expect("a number")
    }

    /// The numbers of the leases in the events of a project, in order.
    fn fences(&self, project: &str) -> Vec<i64> {
        let sql =
            format!("SELECT fence FROM event WHERE project = '{project}' AND fence IS NOT NULL ORDER BY position");
        read_rows(self.home(0), &sql).iter().map(|fence| fence.parse().expect("a number")).collect()
    }
}

fn shell(text: &str) -> Value {
    json!({"action_name": "shell", "subject_type": "run", "subject_id": "r", "args": {"command": text}})
}

fn act(client: &Client<'_>, text: &str) -> Answer {
    client.post("/actions/execute", &shell(text))
}

/// Repeats a command until it is done, with a pause as `Retry-After` asks, but a shorter one.
fn do_at_last(client: &Client<'_>, text: &str) {
    wait_for("the workspace", || {
        let answer = act(client, text);
        if answer.status == 200 {
            assert_eq!(answer.json()["status"], "completed", "{answer:?}");
            return Some(());
        }
        // The suspended gateway holds the database's locks, too, until the server ends its connections.
        assert!(answer.status == 503 && answer.headers.contains_key("retry-after"), "{answer:?}");
        std::thread::park_timeout(Duration::from_millis(200));
        None
    });
}

fn in_project<'a>(client: &Client<'a>, project: &str) -> Client<'a> {
    client.with("X-Project-Id", project)
}

#[track_caller]
fn refused_for(answer: &Answer, holder: &Gateway) {
    assert_eq!((answer.status, answer.code().as_str()), (503, "workspace_elsewhere"), "{answer:?}");
    assert_eq!(answer.headers["retry-after"], "5");
    assert_eq!(answer.json()["error"]["context"]["address"], holder.address.to_string(), "{answer:?}");
}

#[test]
fn a_call_in_a_workspace_goes_on_to_the_gateway_that_works_there() {
    let Some(machines) = Machines::start(2, "shared", true) else { return };
    let secret = machines.token();
    let (one, two) = (machines.gateway(0), machines.gateway(1));
    let (here, there) = (one.client(&secret), two.client(&secret));
    // A run at the first gateway, which has an address: requests at the others are carried out there.
    machines.model.reply(vec![head(), Step::Hold]);
    let shop = in_project(&here, "shop");
    let begun = shop.with("Prefer", "respond-async").post("/chat", &json!({"message": "Go on."}));
    assert_eq!(begun.status, 202, "{begun:?}");
    let passed = act(&in_project(&there, "shop").with("X-Request-Id", "mine"), "echo one > made.txt");
    assert_eq!((passed.status, &passed.json()["status"]), (200, &json!("completed")), "{passed:?}");
    assert_eq!((passed.headers["x-request-id"].as_str(), machines.files()), ("mine", vec!["made.txt".to_owned()]));
    let leases = |client: &Client<'_>| client.get("/status").json()["leases"].clone();
    assert_eq!((leases(&here), leases(&there)), (json!([{"project": "shop", "fence": 1}]), json!([])));
    let fences = machines.fences("shop");
    assert!(fences.len() >= 4 && fences.iter().all(|fence| *fence == 1), "the run's and the call's: {fences:?}");
    let shown = here.get("/events/list?type=action.completed").json()["items"][0].clone();
    assert_eq!((&shown["fence"], &shown["request_id"]), (&json!(1), &json!("mine")), "{shown}");
    let figures = one.send("GET", "/metrics", &[], "").text;
    assert!(figures.contains("\nreedclaw_workspace_leases 1\n"), "{figures}");
    let viewer = one.client(&token(machines.home(0), "vera", "viewer", &[]));
    assert_eq!(leases(&viewer), Value::Null, "only an admin sees them");
    let (_, status, _) = super::run(machines.home(0), &["gateway", "status"]);
    assert!(status.lines().any(|line| line.contains("shop") && line.trim_end().ends_with('1')), "{status}");
    // The workspace of a machine's own user isn't shared.
    assert_eq!([&here, &there].map(|client| act(client, "true").status), [200, 200]);
    // The second gateway has no address.
    assert_eq!(act(&in_project(&there, "side"), "true").status, 200);
    refused_for(&act(&in_project(&here, "side"), "true"), &two);
    // A refused request doesn't use up its key, and a lease that no work needs is released.
    let side = in_project(&here, "side").with("Idempotency-Key", "key");
    refused_for(&act(&side, "true"), &two);
    do_at_last(&side, "true");
    assert_eq!(machines.fences("side").last(), Some(&2));
    // A gateway that ends releases all of its leases.
    assert_eq!(act(&in_project(&there, "end"), "true").status, 200);
    drop(there);
    assert_eq!(two.end(Signal::SIGTERM), Some(0));
    assert_eq!(act(&in_project(&here, "end"), "true").status, 200);
    assert_eq!(machines.fences("end").last(), Some(&2));
    assert_eq!(verify(machines.home(0)).0, Some(0));
}

#[test]
fn machines_with_workspaces_of_their_own_work_beside_each_other_and_gateways_of_one_dont() {
    let Some(machines) = Machines::start(2, "node", false) else { return };
    let secret = machines.token();
    let (one, two) = (machines.gateway(0), machines.gateway(1));
    let of = |gateway: &Gateway| act(&in_project(&gateway.client(&secret), "shop"), "true");
    assert_eq!([of(&one).status, of(&two).status], [200, 200]);
    let beside = machines.gateway_beside(0);
    refused_for(&of(&beside), &one);
    assert_eq!(of(&two).status, 200);
}

#[test]
fn a_gateway_that_slept_longer_than_its_lease_goes_on_with_nothing() {
    let Some(machines) = Machines::start(3, "shared", false) else { return };
    let secret = machines.token();
    let (sleeper, killed, other) = (machines.gateway(0), machines.gateway(1), machines.gateway(2));
    let (here, there) = (sleeper.client(&secret), other.client(&secret));
    let (here_shop, there_shop) = (in_project(&here, "shop"), in_project(&there, "shop"));
    // A run whose next call comes later, and a call that is still running.
    let mut steps = tool_call("shell", &json!({"command": "echo late > late.txt"}).to_string());
    steps.insert(1, Step::Gate(1));
    machines.model.reply(steps);
    let begun = here_shop.with("Prefer", "respond-async").post("/chat", &json!({"message": "Go on."}));
    let run = begun.json()["run_id"].as_str().expect("an id").to_owned();
    let long = here_shop.with("Idempotency-Key", "long");
    let mut call = sleeper.open_write("/actions/execute", &long, &shell("sleep 600; echo late > late.txt"));
    wait_for("the call", || descendants(sleeper.pid()).into_iter().find(|it| it.name == "sleep"));
    let side = in_project(&there, "side");
    assert_eq!(act(&in_project(&killed.client(&secret), "side"), "true").status, 200);
    refused_for(&act(&there_shop, "true"), &sleeper);
    let nodes = [&here, &killed.client(&secret)].map(|it| it.get("/status").json()["node_id"].clone());
    let process = Pid::from_raw(sleeper.pid());
    kill(process, Signal::SIGSTOP).expect("it is there");
    killed.end(Signal::SIGKILL);
    let ends = nodes.map(|node| machines.until(node.as_str().expect("an id")));
    // Another gateway continues once the leases have expired, and not before. The delay isn't checked, since machines are busy.
    do_at_last(&there_shop, "echo two > made.txt");
    do_at_last(&side, "true");
    for (project, end) in [("shop", ends[0]), ("side", ends[1])] {
        let took = machines.appended(project, 2) - end;
        assert!(took >= 0, "{project}: {took}");
    }
    assert_eq!([machines.fences("shop").last(), machines.fences("side").last()], [Some(&2), Some(&2)]);
    kill(process, Signal::SIGCONT).expect("it is there");
    machines.model.open(1);
    // The call that was running is refused, and the later one isn't started.
    let mut bytes = Vec::new();
    call.read_to_end(&mut bytes).expect("an answer");
    let refused = Answer::read(&bytes);
    assert_eq!((refused.status, refused.code().as_str()), (409, "conflict"), "{refused:?}");
    assert_eq!(refused.json()["error"]["context"]["fence"], 1, "{refused:?}");
    assert!(refused.text.contains("another one may work in the project shop now"), "{refused:?}");
    let again =
        there_shop.with("Idempotency-Key", "long").post("/actions/execute", &shell("sleep 600; echo late > late.txt"));
    assert_eq!((again.code().as_str(), &again.json()["error"]["context"]["state"]), ("in_progress", &json!("unknown")));
    let ended = wait_for("the run's end", || {
        let run = here_shop.get(&format!("/runs/{run}")).json();
        (run["state"] != "running" && here.get("/status").json()["running"] == 0).then_some(run)
    });
    assert_eq!(ended["state"], "interrupted", "{ended}");
    assert!(ended["failure"].as_str().is_some_and(|why| why.contains("gateway")), "{ended}");
    assert_eq!(machines.files(), ["made.txt"]);
    // In the log the work of the next gateway follows that of the previous one, without mixing.
    let fences = machines.fences("shop");
    assert!(fences.is_sorted() && fences.first() == Some(&1), "{fences:?}");
    let reserved = read_rows(machines.home(0), "SELECT count(*) FROM reservation");
    assert_eq!((reserved, verify(machines.home(0)).0), (vec!["0".to_owned()], Some(0)));
    refused_for(&act(&here_shop, "true"), &other);
}

#[test]
fn a_gateway_on_a_file_has_no_leases() {
    let home = home_with_file();
    let gateway = Gateway::start(home.path());
    let anna = gateway.client(&token(home.path(), "anna", "admin", &[]));
    let anna = in_project(&anna, "shop");
    assert_eq!(act(&anna, "true").status, 200);
    assert_eq!(anna.get("/status").json()["leases"], json!([]));
    let event = anna.get("/events/list?type=action.completed").json()["items"][0].clone();
    assert!(event["run_id"].is_string() && event.get("fence").is_none(), "{event}");
    assert_eq!(read_rows(home.path(), "SELECT count(*) FROM workspace_lease"), ["0"]);
}

/// A member at work in a project, under a lease that the gateway has just got.
fn working(ledger: &Ledger, project: &str) -> Result<(Identity, reedclaw::ledger::Work), LedgerError> {
    let who = Identity { project: project.to_owned(), ..someone() };
    let (lease, work) = ledger.leases().begin(&who, 0)?.expect("a server");
    Ok((Identity { lease: Some(lease), ..who }, work))
}

#[test]
fn an_append_whose_lease_is_lost_is_refused_alone_and_in_its_own_transaction() {
    let Some(server) = Server::start() else { return };
    let address = server.database();
    let open = || Ledger::open_at(Target::Server(address.clone())).expect("a database");
    let (one, two) = (open(), open());
    let lost = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&lost);
    one.leases().on_lost(Box::new(move |_, project, lease| {
        seen.lock().expect("a list").push((project.to_owned(), lease.fence));
    }));
    let step = |event_id: Option<&str>| EventDraft {
        event_id: event_id.map(str::to_owned),
        event_type: "x.step".into(),
        source: "agent".into(),
        body: json!({}),
        ..EventDraft::default()
    };
    let (first, _work) = working(&one, "shop").expect("a lease");
    let (other, _other_work) = working(&one, "side").expect("a lease");
    // Concurrent work has the same number, and adds no event.
    let (again, _) = working(&one, "shop").expect("a lease");
    assert_eq!((first.lease, again.lease.map(|lease| lease.fence)), (again.lease, Some(1)));
    one.append(&first, &[step(Some("early"))], None).expect("it has the lease");
    assert!(matches!(working(&two, "shop"), Err(LedgerError::Elsewhere(_))));
    // Its row expires without its notice, and another gateway acquires one of its workspaces.
    let mut client = postgres::Client::connect(&address, postgres::NoTls).expect("the server");
    let out = format!("UPDATE node SET until_ms = 0 WHERE node_id = '{}'", one.node());
    client.execute(&out, &[]).expect("a change");
    let (next, _next_work) = working(&two, "shop").expect("it is free");
    assert_eq!(next.lease.map(|lease| lease.fence), Some(2));
    let before = one.head(&first).expect("a head");
    for refused in [
        one.append(&first, &[step(None), step(None)], None).map(drop),
        // Repeating a stored append fails, too: the client must learn that its work has ended.
        one.append(&first, &[step(Some("early"))], None).map(drop),
        one.safety().use_budget(&first, &step(None), 1, 1).map(drop),
    ] {
        assert!(matches!(&refused, Err(LedgerError::LeaseLost { project, .. }) if project == "shop"), "{refused:?}");
    }
    assert_eq!(one.head(&first).expect("a head"), before, "nothing is written");
    assert_eq!(*lost.lock().expect("a list"), [("shop".to_owned(), 1)], "and that is reported once");
    assert!(one.leases().is_lost(&first) && !one.leases().is_lost(&other));
    // The other project continues: its lease wasn't lost.
    two.append(&next, &[step(None)], None).expect("its own");
    one.append(&other, &[step(None)], None).expect("its own");
    one.append(&Identity { lease: None, ..first.clone() }, &[step(None)], None).expect("no work in the workspace");
    assert_eq!(
        one.leases().check(&first).expect_err("lost"),
        one.append(&first, &[step(None)], None).expect_err("lost")
    );
    // The gateway that cleans up after a dead one ends its leases, even if the dead one comes back.
    client.execute(&out, &[]).expect("a change");
    two.nodes().live_on().expect("it settles");
    one.nodes().live_on().expect("it lives");
    assert!(matches!(one.append(&other, &[step(None)], None), Err(LedgerError::LeaseLost { .. })));
    let events = one.read(&first, 0, &Filter::default(), 100).expect("a log");
    let fences: Vec<_> = events.iter().map(|event| (event.project.as_str(), event.fence)).collect();
    assert_eq!(fences, [("shop", Some(1)), ("shop", Some(2)), ("side", Some(1)), ("shop", None)]);
    assert!(one.verify("local").expect("a check").is_ok());
}
