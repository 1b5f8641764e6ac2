//! Databases that can't be used, and names that don't exist: the command line names them, and creates or changes nothing.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::net::TcpListener;

use postgres::{Client, NoTls};
use serde_json::json;

use super::server::Server;
use super::{Gateway, PATIENCE, home_with, home_with_file, run, token};
use crate::need;
use crate::wait::wait_until;

#[test]
fn a_disk_that_takes_no_more_is_degraded_until_it_does() {
    if !need::require(&["prlimit"]) {
        return;
    }
    let home = home_with_file();
    let secret = token(home.path(), "anna", "member", &[]);
    // Files are limited to a mebibyte, which the write-ahead log soon reaches.
    let gateway = Gateway::start_limited(home.path(), 1024 * 1024);
    let client = gateway.client(&secret);
    assert_eq!(gateway.send("GET", "/health", &[], "").status, 200);
    let append = || {
        let text = "x".repeat(20_000);
        client.post("/events/append", &json!({"event_type": "x.a", "source": "ui", "run_id": "r", "body": text}))
    };
    let until = std::time::Instant::now() + PATIENCE;
    loop {
        let answer = append();
        if answer.status == 503 {
            assert_eq!(answer.code(), "database_unavailable");
            assert!(answer.text.contains("can't be read or written"), "{answer:?}");
            let health = gateway.send("GET", "/health", &[], "");
            if health.status == 503 {
                assert_eq!(health.text, "{\"status\":\"degraded\"}");
                break;
            }
        }
        assert!(std::time::Instant::now() < until, "it takes everything: {answer:?}");
    }
    assert_eq!(client.get("/status").json()["database"]["ok"], false);
    let metrics = gateway.send("GET", "/metrics", &[], "").text;
    assert!(!metrics.contains("reedclaw_db_errors_total 0\n"), "{metrics}");
    // Now there is space again.
    let pid = gateway.pid().to_string();
    let lifted = std::process::Command::new("prlimit").args(["--fsize=unlimited", "--pid", &pid]).status();
    assert!(lifted.expect("it runs").success());
    wait_until(|| gateway.send("GET", "/health", &[], "").status == 200);
    assert_eq!(append().status, 201);
}

#[test]
fn looking_at_a_gateway_that_never_ran_makes_no_database() {
    let home = home_with_file();
    for args in [
        &["status"][..],
        &["token", "list"],
        &["tenant", "list"],
        &["routes"],
        &["verify"],
        &["export", "local", "archive"],
        &["migrate", "--dry-run"],
    ] {
        let (status, out, err) = run(home.path(), &[&["gateway"], args].concat());
        assert_eq!((status, out.as_str()), (Some(1), ""), "{args:?}: {err}");
        assert!(err.contains("there is no database") && err.contains("gateway.db"), "{args:?}: {err}");
        assert!(!home.path().join(".local").exists(), "{args:?}");
    }
    assert!(!home.path().join("archive").exists());
}

#[test]
fn the_database_of_another_program_and_a_damaged_one_stay_as_they_are() {
    let home = home_with_file();
    let (other, damaged) = (home.path().join("other.db"), home.path().join("damaged.db"));
    let made = rusqlite::Connection::open(&other).expect("a database");
    made.execute_batch("CREATE TABLE contact (name TEXT); INSERT INTO contact VALUES ('anna')").expect("a table");
    made.close().expect("closed");
    fs::write(&damaged, "x".repeat(5_000)).expect("a file");
    for (path, code, why) in [(&other, 3, "it belongs to another program"), (&damaged, 1, "file is not a database")] {
        let before = fs::read(path).expect("a file");
        let named = format!("file:{}", path.display());
        for args in
            [&["--listen", "127.0.0.1:0"][..], &["status"], &["migrate"], &["token", "create", "--user", "anna"]]
        {
            let (status, _, err) = run(home.path(), &[&["gateway", "--database", &named], args].concat());
            assert_eq!(status, Some(code), "{args:?}: {err}");
            assert!(err.contains(why) && err.contains(&path.display().to_string()), "{args:?}: {err}");
        }
        assert_eq!(fs::read(path).expect("a file"), before, "{}", path.display());
    }
    let names = fs::read_dir(home.path()).expect("a directory").flatten().map(|it| it.file_name());
    let beside: Vec<_> = names.filter(|name| name.to_string_lossy().contains(".db-")).collect();
    assert!(beside.is_empty(), "{beside:?}");
}

#[test]
fn a_database_that_cannot_be_reached_is_named_with_what_to_do() {
    let home = home_with_file();
    let serve = |named: &str| {
        let (status, _, err) = run(home.path(), &["gateway", "--listen", "127.0.0.1:0", "--database", named]);
        assert_eq!(status, Some(1), "{err}");
        err
    };
    let missing = home.path().join("no/such/x.db");
    let said = serve(&format!("file:{}", missing.display()));
    assert!(said.contains("x.db can't be used") && said.contains("its directory doesn't exist"), "{said}");
    assert!(!home.path().join("no").exists());
    // A port on which nothing listens.
    let port = TcpListener::bind("127.0.0.1:0").and_then(|it| it.local_addr()).expect("a port").port();
    let said = serve(&format!("postgres://anna@127.0.0.1:{port}/team"));
    assert!(said.contains(&format!("the database 127.0.0.1:{port} can't be used")), "{said}");
    assert!(said.contains("is the server running") && !said.contains("anna"), "{said}");
}

#[test]
fn a_tenant_token_or_member_that_does_not_exist_is_named() {
    let home = home_with_file();
    super::token(home.path(), "anna", "member", &[]);
    for (args, named) in [
        (&["verify", "--tenant", "nope"][..], "there is no tenant nope"),
        (&["export", "nope", "archive"], "there is no tenant nope"),
        (&["routes", "--tenant", "nope"], "there is no tenant nope"),
        (&["tenant", "limit", "nope", "calls", "3"], "there is no tenant nope"),
        (&["tenant", "keep", "nope", "30"], "there is no tenant nope"),
        (&["tenant", "flag", "nope", "pii", "on"], "there is no tenant nope"),
        (&["tenant", "kpi", "nope", "error_rate", "at-most", "1"], "there is no tenant nope"),
        (&["member", "add", "nope", "bob"], "there is no tenant nope"),
        (&["token", "create", "--user", "bob", "--tenant", "nope"], "there is no tenant nope"),
        (&["token", "revoke", "nope"], "there is no token nope"),
        (&["member", "remove", "local", "bob"], "bob is no member of local"),
        (&["routes", "--forget", "event_spine"], "event_spine has no route of its own"),
    ] {
        let (status, out, err) = run(home.path(), &[&["gateway"], args].concat());
        assert_eq!((status, out.as_str()), (Some(2), ""), "{args:?}: {err}");
        assert!(err.contains(named), "{args:?}: {err}");
    }
    assert!(!home.path().join("archive").exists());
    let (_, list, _) = run(home.path(), &["gateway", "token", "list"]);
    assert!(list.starts_with("id ") && list.lines().count() == 2, "{list}");
}

#[test]
fn a_port_that_is_taken_is_named_and_a_config_with_a_mistake_is_not_served() {
    let home = home_with_file();
    let taken = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = taken.local_addr().expect("an address").to_string();
    let (status, _, err) = run(home.path(), &["gateway", "--listen", &address]);
    assert_eq!(status, Some(1), "{err}");
    assert!(err.contains(&format!("another program listens at {address}")) && err.contains("--listen"), "{err}");
    let home = home_with("gateway = { four_eye = true }");
    let (status, out, err) = run(home.path(), &["gateway", "--listen", "127.0.0.1:0"]);
    assert_eq!((status, out.as_str()), (Some(3), ""), "{err}");
    assert!(err.contains("did you mean four_eyes?") && err.contains("config that has a mistake"), "{err}");
}

#[test]
fn a_webhook_without_its_secret_is_reported_at_the_start() {
    let hooks = "gateway = { hooks = { build = { secret_env = \"BUILD_SECRET\", question = \"x\" } } }";
    let home = home_with(hooks);
    // Reads the report once the gateway serves: its first line of output comes after the report.
    let start = |secret: Option<&str>| {
        let mut command = super::command(home.path(), &["gateway", "--listen", "127.0.0.1:0", "--json"]);
        let mut child = command.envs(secret.map(|secret| ("BUILD_SECRET", secret))).spawn().expect("it starts");
        BufReader::new(child.stdout.take().expect("its output")).read_line(&mut String::new()).expect("a line");
        child.kill().expect("it is there");
        String::from_utf8_lossy(&child.wait_with_output().expect("it ends").stderr).into_owned()
    };
    let said = start(None);
    assert!(said.contains("the webhook build is refused: its variable BUILD_SECRET isn't set"), "{said}");
    assert!(!start(Some("s")).contains("BUILD_SECRET"));
    // A gateway that can't serve reports the reason and nothing else.
    let taken = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = taken.local_addr().expect("an address").to_string();
    let (status, _, err) = run(home.path(), &["gateway", "--listen", &address]);
    assert!(status == Some(1) && !err.contains("BUILD_SECRET"), "{err}");
}

#[test]
fn a_replica_that_is_behind_answers_only_who_does_not_mind() {
    let Some(server) = Server::start() else { return };
    let first = server.home();
    let address = fs::read_to_string(first.path().join(super::DATABASE)).expect("its address");
    let secret = token(first.path(), "anna", "member", &[]);
    let replica = server.replica();
    let (_, name) = address.rsplit_once('/').expect("a name");
    let at_replica = format!("postgres://postgres@{}/{name}", replica.host());
    let home = home_with(&format!("gateway = {{read_database = \"{at_replica}\"}}"));
    fs::write(home.path().join(super::DATABASE), &address).expect("the same database");
    let gateway = Gateway::start(home.path());
    let client = gateway.client(&secret);
    let eventual = client.with("X-Consistency", "eventual");
    let append = |id: &str| {
        let body = json!({"event_id": id, "event_type": "x.step", "source": "agent", "run_id": "r", "body": {}});
        let answer = client.post("/events/append", &body);
        assert_eq!(answer.status, 201, "{answer:?}");
        answer.json()["last_position"].as_i64().expect("a position")
    };
    let seen = |client: &super::Client<'_>, path: &str| -> Vec<String> {
        let answer = client.get(path);
        assert_eq!(answer.status, 200, "{answer:?}");
        let items = answer.json()["items"].clone();
        items.as_array().expect("items").iter().map(|it| it["event_id"].as_str().expect("an id").to_owned()).collect()
    };
    append("one");
    let (list, replay) = ("/events/list?type=x.step", "/events/replay?run_id=r");
    wait_until(|| seen(&eventual, list) == ["one"]);
    let mut copy = Client::connect(&at_replica, NoTls).expect("the replica");
    copy.simple_query("SELECT pg_wal_replay_pause()").expect("paused");
    wait_until(|| {
        let state = copy.query_one("SELECT pg_get_wal_replay_pause_state()", &[]).expect("its state");
        state.get::<_, String>(0) == "paused"
    });
    let last = append("two");
    for path in [list, replay, "/realtime/timeline/run%2Fr/list"] {
        assert_eq!(seen(&eventual, path), ["one"], "the replica answers {path}");
        assert_eq!(seen(&client, path), ["one", "two"], "the server answers {path}");
    }
    // The server answers a client that has seen more than the replica.
    append("three");
    assert_eq!(seen(&eventual, &format!("{list}&after={last}")), ["three"]);
    let misses = |name: &str| -> u64 {
        let text = client.get("/metrics").text;
        let line = text.lines().find_map(|line| line.strip_prefix(name)).expect("a counter").trim().to_owned();
        line.parse().expect("a number")
    };
    let before = misses("reedclaw_replica_misses_total ");
    assert!(before >= 1 && misses("reedclaw_replica_reads_total ") >= 3);
    // If the replica is away, the server answers every client.
    drop(copy);
    replica.end();
    assert_eq!(seen(&eventual, list), ["one", "two", "three"]);
    assert!(misses("reedclaw_replica_misses_total ") > before);
}
