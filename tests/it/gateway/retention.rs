//! The end of old events: a log loses its beginning, records that, and stays valid; a beginning that is lost in another way is
//! found. Schemas of older programs are migrated.

use reedclaw::ledger::{Command, Committed, Filter, Ledger, NewLicence, Target, archive};
use reedclaw::proto::team::{EventDraft, Mode};
use serde_json::{Value, json};

use super::log::someone;
use super::server::Server;
use crate::wait::wait_until;

/// Appends some events and changes a canvas.
fn live(ledger: &Ledger, round: i64) {
    let who = someone();
    let draft = |number: i64| EventDraft {
        event_type: "x.step".into(),
        source: "agent".into(),
        stream: Some(format!("stream/{}", number % 3)),
        body: json!({"round": round, "number": number}),
        ..EventDraft::default()
    };
    ledger.append(&who, &(0..20).map(draft).collect::<Vec<_>>(), None).expect("events");
    for number in 0..3 {
        let rev = round * 3 + number;
        let atom = json!({"id": format!("atom-{rev}"), "type": "note", "order": "m"});
        let command = Command {
            base_rev: rev,
            ops: vec![json!({"op": "create", "atom": atom})],
            key: format!("key-{rev}"),
            may_merge: false,
            source: "ui",
        };
        assert!(
            matches!(ledger.canvases().command(&who, "board", &command), Ok(Committed::Done(_, false))),
            "revision {rev}"
        );
    }
}

/// A time after everything that is stored and before everything that will be.
fn now() -> i64 {
    let read = || {
        let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).expect("a clock");
        i64::try_from(since.as_millis()).expect("small")
    };
    let before = read();
    wait_until(|| read() > before + 2);
    read()
}

fn loses_its_beginning(open: &dyn Fn() -> Ledger) {
    let ledger = open();
    assert_eq!(ledger.retention().purge("local", now()), Ok(0), "nothing is there yet");
    live(&ledger, 0);
    let (first, all) = (now(), ledger.positions("local").expect("a number"));
    live(&ledger, 1);
    let state = ledger.canvases().canvas(&someone(), "board").expect("a canvas").state_hash;
    assert_eq!(ledger.retention().before("local", first), Ok(all));
    assert_eq!(ledger.retention().purge("local", first), Ok(all));
    assert_eq!(ledger.retention().purge("local", first), Ok(0), "once");
    let rest = ledger.read(&someone(), 0, &Filter::default(), 1_000).expect("the log");
    assert_eq!(rest.first().map(|event| event.position), Some(all + 1));
    assert_eq!(rest.last().map(|event| event.body()["kind"].clone()), Some("purge".into()));
    assert_eq!(ledger.head(&someone()).expect("a head").2, all, "cursors before it are gone");
    // Another process folds the canvas from the remaining events, and continues.
    let ledger = open();
    assert_eq!(ledger.canvases().canvas(&someone(), "board").expect("a canvas").state_hash, state);
    let verified = ledger.verify("local").expect("a check").expect("it holds");
    live(&ledger, 2);
    let mut lines = Vec::new();
    ledger.archive().export("local", None, &mut lines, &|_| Ok(())).expect("an archive");
    let archived = archive::verify(&mut lines.as_slice()).expect("an archive").expect("it holds");
    // The log has an event about the archive after it.
    assert_eq!(archived.events + 1, ledger.verify("local").expect("a check").expect("it holds").events);
    assert!(archived.events > verified.events);
    // The events that a licence in force needs stay, and so do all after them.
    let licence = NewLicence {
        subject: "user:anna".into(),
        actions: vec!["time".into()],
        class: None,
        project: None,
        surface_id: None,
        valid_until_ms: ledger.now_ms().expect("a time") + 3_600_000,
        uses_max: None,
        reason: "a test".into(),
    };
    let before = ledger.positions("local").expect("a number");
    ledger.permits().issue(&someone(), &licence).expect("a licence");
    live(&ledger, 3);
    assert_eq!(ledger.retention().purge("local", now()), Ok(before - all));
    assert!(ledger.verify("local").expect("a check").is_ok());
    live(&ledger, 4);
    assert!(ledger.verify("local").expect("a check").is_ok());
}

#[test]
fn a_log_loses_its_oldest_events_and_holds_on_both_engines() {
    let home = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a place");
    let path = home.path().join("gateway.db");
    loses_its_beginning(&|| Ledger::open(&path).expect("a database"));
    // A beginning that is removed without an entry in the log is found.
    let ledger = Ledger::open(&path).expect("a database");
    let raw = rusqlite::Connection::open(&path).expect("the database");
    let (position, hash): (i64, String) = raw
        .query_row("SELECT position + 1, hash FROM anchor", [], |row| Ok((row.get(0)?, row.get(1)?)))
        .expect("an anchor");
    raw.execute("UPDATE anchor SET position = ?1", [position]).expect("a forged anchor");
    raw.execute("DELETE FROM event WHERE position <= ?1", [position]).expect("the trigger lets it");
    let found = ledger.verify("local").expect("a check").expect_err("it is found");
    assert!(found.position == position && found.why.contains("doesn't tell"), "{found:?}");
    raw.execute("UPDATE anchor SET position = ?1, hash = ?2", (position - 1, hash)).expect("the anchor again");
    assert_eq!(ledger.verify("local").expect("a check").expect_err("a hole").position, position);
    let Some(server) = Server::start() else { return };
    let address = server.database();
    loses_its_beginning(&|| Ledger::open_at(Target::Server(address.clone())).expect("a database"));
}

#[test]
fn a_tenants_own_time_counts_and_the_mode_gives_the_usual_one() {
    let home = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a place");
    let ledger = Ledger::open(&home.path().join("gateway.db")).expect("a database");
    ledger.accounts().add_tenant("acme", Mode::Saas).expect("a tenant");
    assert_eq!((ledger.retention().days("local"), ledger.retention().days("acme")), (Ok(None), Ok(Some(400))));
    ledger.retention().set_days("acme", Some(90)).expect("days");
    ledger.retention().set_days("local", Some(60)).expect("days");
    assert_eq!((ledger.retention().days("local"), ledger.retention().days("acme")), (Ok(Some(60)), Ok(Some(90))));
    ledger.retention().set_days("acme", None).expect("days");
    assert_eq!(ledger.retention().days("acme"), Ok(Some(400)));
    // Expired data is removed; recent data stays.
    ledger.nodes().renew().expect("a lease");
    live(&ledger, 0);
    let before = ledger.positions("local").expect("a number");
    let place = reedclaw::ledger::Place { scope: "project".into(), scope_id: "default".into() };
    ledger.stores().remember(&someone(), &place, "gone", &json!(1), Some(0), None).expect("a memory");
    ledger.stores().remember(&someone(), &place, "stays", &json!(1), Some(600), None).expect("a memory");
    now();
    ledger.retention().tidy().expect("tidied");
    let raw = rusqlite::Connection::open(home.path().join("gateway.db")).expect("the database");
    let count = |sql: &str| raw.query_row(sql, [], |row| row.get::<_, i64>(0)).expect(sql);
    assert_eq!((count("SELECT count(*) FROM memory"), count("SELECT count(*) FROM anchor")), (1, 0));
    assert!(ledger.positions("local").expect("a number") >= before);
    let value: Value = json!(count("SELECT count(*) FROM idempotency"));
    assert_eq!(value, 3, "answers of a day ago and younger can be had again");
}

#[test]
fn a_schema_of_an_older_program_is_brought_up_to_date() {
    let home = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a place");
    let path = home.path().join("gateway.db");
    assert_eq!(Ledger::migrate(Target::File(path.clone()), true), Ok((0, 12)));
    assert_eq!(Ledger::migrate(Target::File(path.clone()), false), Ok((0, 12)));
    assert_eq!(Ledger::migrate(Target::File(path), false), Ok((12, 12)));
    let Some(server) = Server::start() else { return };
    let address = server.database();
    drop(Ledger::open_at(Target::Server(address.clone())).expect("a database"));
    // A database as the program before this one left it.
    let mut client = postgres::Client::connect(&address, postgres::NoTls).expect("the server");
    client
        .batch_execute(
            "DROP TABLE anchor; DROP TABLE relay; DROP TABLE machine; DROP TABLE workspace_lease; \
             ALTER TABLE event DROP COLUMN fence; ALTER TABLE node DROP COLUMN address, DROP COLUMN started_ms, \
             DROP COLUMN url, DROP COLUMN loopback; \
             ALTER TABLE instance DROP COLUMN timeline; DROP TABLE budget_rule; DROP TABLE budget_spent; \
             ALTER TABLE reservation DROP COLUMN hour; CREATE TABLE budget_limit (tenant TEXT NOT NULL, kind TEXT NOT NULL, \
             limit_value BIGINT NOT NULL, PRIMARY KEY (tenant, kind)); INSERT INTO budget_limit VALUES ('local', 'calls', 7); \
             INSERT INTO budget_use VALUES ('local', 'a', 1, 0, 0), ('local', 'b', 2, 0, 0); UPDATE schema_version SET version = 6",
        )
        .expect("the older schema");
    let refused = Ledger::open_at(Target::Server(address.clone())).err().expect("it is refused").to_string();
    assert!(refused.contains("reedclaw gateway migrate"), "{refused}");
    assert_eq!(Ledger::migrate(Target::Server(address.clone()), true), Ok((6, 12)));
    assert_eq!(Ledger::migrate(Target::Server(address.clone()), false), Ok((6, 12)));
    let ledger = Ledger::open_at(Target::Server(address.clone())).expect("a database");
    live(&ledger, 0);
    let budget = ledger.safety().budget(&someone()).expect("limits");
    let sums: Vec<_> = budget.iter().map(|it| (it.name.as_str(), it.span.word(), it.limit, it.spent)).collect();
    assert_eq!(sums, [("calls", "total", 7, 3)], "limits and what was used are kept");
    drop(ledger);
    client.batch_execute("UPDATE schema_version SET version = 13").expect("a newer program");
    let refused = Ledger::open_at(Target::Server(address)).err().expect("it is refused").to_string();
    assert!(refused.contains("version 13"), "{refused}");
}
