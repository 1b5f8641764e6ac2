//! The gateway on PostgreSQL: a server that the test starts on a Unix socket, the contract of the stores on both engines, and two
//! gateways on one database.

use std::fs;
use std::io::Write as _;
use std::os::unix::fs::{PermissionsExt as _, chown};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

use nix::sys::signal::Signal;
use postgres::{Client, NoTls};
use reedclaw::ledger::{Expected, Filter, Ledger, LedgerError, NewLicence, NewLimit, NewLock, Place, Span, Target};
use reedclaw::proto::team::{EventDraft, Identity, Mode, TeamRole};
use serde_json::{Value, json};
use tempfile::TempDir;

use super::log::someone;
use super::streams::Reader;
use super::{Gateway, home, run, token};
use crate::need;
use crate::server::{Server as Model, Step, answer, head, piece};
use crate::wait::wait_until;

/// A server that the test starts, and that ends when the value is dropped.
pub struct Server {
    directory: TempDir,
    programs: PathBuf,
}

impl Server {
    /// Starts one; `None` if PostgreSQL isn't installed.
    pub fn start() -> Option<Self> {
        let versions = fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
        let programs =
            versions.map(|entry| entry.path().join("bin")).filter(|path| path.join("initdb").is_file()).max();
        if !need::require_that(programs.is_some(), "PostgreSQL (Debian package postgresql) is not installed") {
            return None;
        }
        let server = Self { directory: place(), programs: programs? };
        let data = server.data();
        server
            .run("initdb", &["-D", &data, "-N", "-A", "trust", "-U", "postgres", "-E", "UTF8", "--locale", "C.UTF-8"]);
        server.begin();
        Some(server)
    }

    /// Starts a replica that follows this server.
    pub fn replica(&self) -> Self {
        let replica = Self { directory: place(), programs: self.programs.clone() };
        let (from, data) = (self.directory.path().display().to_string(), replica.data());
        replica.run("pg_basebackup", &["-h", &from, "-U", "postgres", "-D", &data, "-R", "-X", "stream", "-c", "fast"]);
        replica.begin();
        replica
    }

    /// Shuts a server down cleanly.
    pub fn end(&self) {
        self.run("pg_ctl", &["-D", &self.data(), "-w", "-m", "fast", "stop"]);
    }

    /// Promotes a replica.
    pub fn promote(&self) {
        self.run("pg_ctl", &["-D", &self.data(), "-w", "promote"]);
    }

    /// The path of its socket, in the form for an address.
    pub fn host(&self) -> String {
        self.directory.path().display().to_string().replace('/', "%2F")
    }

    fn data(&self) -> String {
        self.directory.path().join("data").display().to_string()
    }

    /// Starts the server's processes and waits until they answer.
    pub fn begin(&self) {
        self.begin_with("-c listen_addresses=");
    }

    /// Restarts it on a port of this machine, on which it accepts only encrypted connections with the password `secret`; returns
    /// the port, and the certificate of the authority for `localhost`.
    fn encrypt(&self) -> (u16, PathBuf) {
        let place = self.directory.path();
        let authority = certified(place);
        give_to_server(&place.join("key.pem"));
        let mut client =
            Client::connect(&format!("postgres://postgres@{}/postgres", self.host()), NoTls).expect("it answers");
        client.batch_execute("ALTER USER postgres PASSWORD 'secret'").expect("a password");
        drop(client);
        self.end();
        let rules = "local all all trust\nhostssl all all 127.0.0.1/32 scram-sha-256\n";
        fs::write(place.join("data/pg_hba.conf"), rules).expect("its rules");
        let port = std::net::TcpListener::bind("127.0.0.1:0").and_then(|it| it.local_addr()).expect("a port").port();
        let files = format!("-c ssl_cert_file={0}/cert.pem -c ssl_key_file={0}/key.pem", place.display());
        self.begin_with(&format!("-c listen_addresses=127.0.0.1 -c port={port} -c ssl=on {files}"));
        (port, authority)
    }

    fn begin_with(&self, more: &str) {
        let place = self.directory.path().display();
        let options = format!("{more} -c unix_socket_directories={place} -c max_connections=60 -F");
        self.run("pg_ctl", &["-D", &self.data(), "-w", "-t", "60", "-l", "/dev/null", "-o", &options, "start"]);
    }

    /// Ends them immediately, as a crash does.
    pub fn crash(&self) {
        self.run("pg_ctl", &["-D", &self.data(), "-w", "-m", "immediate", "stop"]);
    }

    fn run(&self, program: &str, args: &[&str]) {
        let program = self.programs.join(program);
        let mut command = if is_root() { Command::new("setpriv") } else { Command::new(&program) };
        if is_root() {
            command.args(["--reuid=postgres", "--regid=postgres", "--clear-groups", "--"]).arg(&program);
        }
        let quiet =
            command.args(args).env_clear().env("PATH", need::TEST_PATH).env("LC_ALL", "C.UTF-8").current_dir("/");
        let status = quiet.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status().expect("it runs");
        assert!(status.success(), "{} {args:?}: {status}", program.display());
    }

    /// The address of a new database.
    pub fn database(&self) -> String {
        new_database(&format!("postgres://postgres@{}/postgres", self.host()))
    }

    /// A home whose gateways use a new database.
    pub fn home(&self) -> TempDir {
        self.home_with("")
    }

    /// The same with more settings.
    pub fn home_with(&self, settings: &str) -> TempDir {
        let home = super::home_with(settings);
        fs::write(home.path().join(super::DATABASE), self.database()).expect("its address");
        home
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if self.directory.path().join("data/postmaster.pid").exists() {
            self.crash();
        }
    }
}

/// A directory for a server.
fn place() -> TempDir {
    let directory = tempfile::Builder::new().prefix("rc-pg").tempdir().expect("a directory");
    give_to_server(directory.path());
    fs::set_permissions(directory.path(), fs::Permissions::from_mode(0o700)).expect("its directory");
    directory
}

/// Makes the user for servers, which refuse to run as root, the owner of a file.
fn give_to_server(path: &Path) {
    if let Some(user) = nix::unistd::User::from_name("postgres").expect("users").filter(|_| is_root()) {
        chown(path, Some(user.uid.as_raw()), Some(user.gid.as_raw())).expect("its owner");
    }
}

/// Creates `cert.pem` and `key.pem` of a server `localhost` in a directory; returns the authority's certificate.
pub fn certified(place: &Path) -> PathBuf {
    const SCRIPT: &str = "set -e; key='-newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes'
        openssl req -x509 $key -keyout ca.key -out ca.pem -days 2 -subj /CN=authority
        openssl req $key -keyout key.pem -out own.csr -subj /CN=server
        printf 'subjectAltName=DNS:localhost,DNS:team.test\\nbasicConstraints=CA:FALSE\\n' > ext
        openssl x509 -req -in own.csr -CA ca.pem -CAkey ca.key -days 2 -extfile ext -out cert.pem
        chmod 600 key.pem";
    let made = Command::new("sh").args(["-c", SCRIPT]).current_dir(place).output().expect("it runs");
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    place.join("ca.pem")
}

fn is_root() -> bool {
    nix::unistd::geteuid().is_root()
}

/// Creates a new database on the server at `address`; returns its address.
pub fn new_database(address: &str) -> String {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let name = format!("t{}_{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
    let mut client = Client::connect(address, NoTls).expect("the server");
    client.batch_execute(&format!("CREATE DATABASE {name}")).expect("a database");
    let (server, _) = address.rsplit_once('/').expect("an address with a name");
    format!("{server}/{name}")
}

/// The database of a home, if it is on a server.
pub fn client_of(home: &std::path::Path) -> Option<Client> {
    let address = fs::read_to_string(home.join(super::DATABASE)).ok()?;
    Some(Client::connect(&address, NoTls).expect("the server"))
}

/// The first column of a row.
pub fn first_column(message: &postgres::SimpleQueryMessage) -> Option<String> {
    match message {
        postgres::SimpleQueryMessage::Row(row) => row.get(0).map(str::to_owned),
        _ => None,
    }
}

fn ledger(address: &str) -> Ledger {
    Ledger::open_at(Target::Server(address.to_owned())).expect("a database")
}

/// The same identity as [`someone`], in another tenant.
fn of(tenant: &str) -> Identity {
    Identity { tenant: tenant.to_owned(), ..someone() }
}

fn draft(kind: &str, body: Value) -> EventDraft {
    EventDraft { event_type: kind.into(), source: "agent".into(), body, ..EventDraft::default() }
}

/// Checks the contract of every engine.
fn holds_the_contract(ledger: &Ledger) {
    let who = someone();
    let one = EventDraft { event_id: Some("one".into()), ..draft("x.step", json!({"n": 1, "text": "ü'\"\\ ?1 $1"})) };
    let first = ledger.append(&who, std::slice::from_ref(&one), None).expect("an event");
    let again = ledger.append(&who, std::slice::from_ref(&one), None).expect("the same");
    assert_eq!((first[0].position, again[0].position, again[0].is_duplicate), (1, 1, true));
    let other = EventDraft { body: json!({}), ..one };
    assert!(matches!(ledger.append(&who, &[other], None), Err(LedgerError::IdempotencyMismatch(_))));
    let in_stream = EventDraft { stream: Some("s".into()), ..draft("x.step", json!({})) };
    let expected = Expected { stream: "s".into(), version: 0 };
    ledger.append(&who, std::slice::from_ref(&in_stream), Some(&expected)).expect("the first of its stream");
    assert!(matches!(
        ledger.append(&who, &[in_stream], Some(&expected)),
        Err(LedgerError::WrongExpectedVersion { actual: 1, .. })
    ));
    assert_eq!(ledger.read(&who, 0, &Filter::default(), 10).expect("the log").len(), 2);

    let place = Place { scope: "project".into(), scope_id: "default".into() };
    ledger.stores().remember(&who, &place, "a/Z", &json!({"x": [1, "two"]}), None, Some(0)).expect("a memory");
    ledger.stores().remember(&who, &place, "a/a", &json!(null), Some(60), None).expect("a memory");
    let keys = ledger.stores().memories(&who, &place, "a/", true, ("", 10)).expect("memories");
    assert_eq!(keys.iter().map(|entry| entry.key.as_str()).collect::<Vec<_>>(), ["a/Z", "a/a"]);
    ledger.stores().forget(&who, &place, "a/Z").expect("forgotten");
    assert_eq!(ledger.stores().put_entry(&who, "run", "k", &json!(1), 0), Ok(1));
    assert!(matches!(
        ledger.stores().put_entry(&who, "run", "k", &json!(2), 0),
        Err(LedgerError::VersionConflict { .. })
    ));

    ledger.safety().set_flag("local", None, "canvas.gestures", true).expect("a flag");
    assert_eq!(ledger.safety().flag("local", "canvas.gestures"), Ok(Some(true)));
    let five = NewLimit { kind: "calls".into(), project: None, actor: None, span: Span::Total, limit: Some(5) };
    ledger.safety().set_limit("local", &five).expect("a limit");
    assert_eq!(ledger.safety().budget(&who).expect("limits")[0].limit, 5);
    ledger.safety().kill(&who, "tenant", "", "a test").expect("a kill switch");
    assert_eq!((ledger.safety().kill_switches(&who), ledger.safety().lift("local")), (Ok(1), Ok(1)));

    let code = ledger.accounts().create_pair_code("local", "anna", TeamRole::Operator).expect("a code");
    let paired = ledger.accounts().pair(&code).expect("an answer").expect("a session");
    assert_eq!(ledger.accounts().pair(&code).expect("an answer").map(|it| it.user), None);
    let holder = ledger.accounts().authenticate(&paired.access_token).expect("an answer").expect("a holder");
    assert_eq!(
        (holder.user.as_str(), ledger.accounts().member("local", "anna")),
        ("anna", Ok(Some(TeamRole::Operator)))
    );
    let renewed = ledger.accounts().refresh(&paired.refresh).expect("an answer").expect("a new session");
    assert!(ledger.accounts().refresh(&paired.refresh).expect("an answer").is_none());
    assert!(
        ledger.accounts().authenticate(&renewed.access_token).expect("an answer").is_none(),
        "a copied secret ends the session"
    );

    ledger.append(&who, &[draft("message.user", json!({"text": "private"}))], None).expect("a text");
    assert_eq!(ledger.archive().erase("local", None, &who.user), Ok(1));
    let mut archive = Vec::new();
    let events = ledger.archive().export("local", None, &mut archive, &|_| Ok(())).expect("an archive");
    let verified = reedclaw::ledger::archive::verify(&mut archive.as_slice()).expect("an archive").expect("it holds");
    assert_eq!((verified.events, verified.erased), (events, 1));
    assert_eq!(
        ledger.verify("local").expect("a check").expect("it holds").events,
        events + 1,
        "the export has an event of its own"
    );
    expiry_follows_the_database_clock(ledger);
}

/// Expiry times are as requested, and are compared with the database's clock.
fn expiry_follows_the_database_clock(ledger: &Ledger) {
    let (who, now) = (someone(), ledger.now_ms().expect("a time"));
    let licence = |valid_until_ms: i64| NewLicence {
        subject: "user:anna".into(),
        actions: vec!["time".into()],
        class: None,
        project: None,
        surface_id: None,
        valid_until_ms,
        uses_max: None,
        reason: "a test".into(),
    };
    let day = 24 * 3_600 * 1_000;
    for wrong in [now - 600_000, now + 91 * day] {
        assert!(matches!(ledger.permits().issue(&who, &licence(wrong)), Err(LedgerError::Time(_))), "{wrong}");
    }
    let until = (now / 1_000 + 3_600) * 1_000;
    let issued = ledger.permits().issue(&who, &licence(until)).expect("a licence");
    assert_eq!(issued["valid_until"], reedclaw::base::time::utc_ms(until));
    let lock = |valid_from_ms: Option<i64>, valid_until_ms: i64| NewLock {
        scope: "*".into(),
        surface_id: None,
        actions: vec!["time".into()],
        is_three_wise: false,
        valid_from_ms,
        valid_until_ms,
        reason: "a test".into(),
    };
    for wrong in [lock(None, now - 600_000), lock(Some(until), until), lock(None, now + 4_000 * day)] {
        assert!(matches!(ledger.permits().add_lock(&who, &wrong), Err(LedgerError::Time(_))), "{wrong:?}");
    }
    let made = ledger.permits().add_lock(&who, &lock(Some(until - 1_000), until)).expect("a lock");
    let times = [until - 1_000, until].map(reedclaw::base::time::utc_ms);
    assert_eq!(json!([made["valid_from"], made["valid_until"]]), json!(times));
}

#[test]
fn both_engines_hold_the_contract_of_the_stores() {
    let home = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a place");
    holds_the_contract(&Ledger::open(&home.path().join("gateway.db")).expect("a database"));
    let Some(server) = Server::start() else { return };
    holds_the_contract(&ledger(&server.database()));
}

#[test]
fn both_engines_have_the_same_tables_and_columns() {
    let home = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a place");
    let path = home.path().join("gateway.db");
    drop(Ledger::open(&path).expect("a database"));
    let file = rusqlite::Connection::open(&path).expect("the file");
    let sql = "SELECT t.name || '.' || c.name || ' ' || c.type || ' ' || (c.\"notnull\" OR c.pk > 0) FROM sqlite_master t \
               JOIN pragma_table_info(t.name) c WHERE t.type = 'table' ORDER BY t.name, c.cid";
    let mut statement = file.prepare(sql).expect("a query");
    let rows = statement.query_map([], |row| row.get::<_, String>(0)).expect("rows");
    let mut here: Vec<String> = rows.collect::<Result<_, _>>().expect("columns");
    let Some(server) = Server::start() else { return };
    let address = server.database();
    drop(ledger(&address));
    let mut client = Client::connect(&address, NoTls).expect("the server");
    let sql = "SELECT table_name || '.' || column_name || ' ' || CASE data_type WHEN 'bigint' THEN 'INTEGER' WHEN 'bytea' THEN \
               'BLOB' ELSE upper(data_type) END || ' ' || CASE is_nullable WHEN 'NO' THEN 1 ELSE 0 END \
               FROM information_schema.columns WHERE table_schema = 'public' AND table_name <> 'schema_version' \
               ORDER BY table_name, ordinal_position";
    let mut there: Vec<String> = client.query(sql, &[]).expect("rows").iter().map(|row| row.get(0)).collect();
    here.sort();
    there.sort();
    assert_eq!(here, there);
}

#[test]
fn scenario_70_a_forgotten_condition_shows_no_row_of_another_tenant() {
    let Some(server) = Server::start() else { return };
    let address = server.database();
    let ledger = ledger(&address);
    for tenant in ["mine", "yours"] {
        ledger.accounts().add_tenant(tenant, Mode::Saas).expect("a tenant");
        ledger.append(&of(tenant), &[draft("x.step", json!({}))], None).expect("an event");
        ledger.stores().put_entry(&of(tenant), "run", "key", &json!(tenant), 0).expect("an entry");
    }
    let mut client = Client::connect(&address, NoTls).expect("the server");
    let sql = "SELECT c.table_name FROM information_schema.columns c WHERE c.table_schema = 'public' AND c.column_name = 'tenant' \
               AND c.table_name NOT IN ('tenant', 'token', 'session', 'pair_code')";
    let tables: Vec<String> = client.query(sql, &[]).expect("tables").iter().map(|row| row.get(0)).collect();
    assert!(tables.len() > 15, "{tables:?}");
    let mut transaction = client.transaction().expect("a transaction");
    transaction.batch_execute("SET LOCAL ROLE reedclaw_app").expect("the role");
    let mut seen = |setting: &str| -> Vec<String> {
        transaction
            .batch_execute(&format!("SELECT set_config('reedclaw.tenants', '{setting}', true)"))
            .expect("a setting");
        let mut seen = Vec::new();
        for table in &tables {
            let rows = transaction.query(&format!("SELECT DISTINCT tenant FROM {table}"), &[]).expect("rows");
            seen.extend(rows.iter().map(|row| format!("{table} {}", row.get::<_, String>(0))));
        }
        seen
    };
    let mine = seen("mine");
    assert!(mine.contains(&"event mine".to_owned()) && mine.contains(&"blackboard mine".to_owned()), "{mine:?}");
    assert!(mine.iter().all(|row| row.ends_with(" mine")), "{mine:?}");
    assert_eq!(seen(""), Vec::<String>::new());
    drop(transaction);
    for (forbidden, why) in [
        ("INSERT INTO head VALUES ('yours', 9, 'x')", "row-level security"),
        ("DELETE FROM event", "permission denied"),
        ("UPDATE event SET actor = 'x'", "permission denied"),
        ("UPDATE event SET body = '{}'", "append-only"),
        ("ALTER TABLE event DISABLE ROW LEVEL SECURITY", "must be owner"),
    ] {
        let sql = format!(
            "BEGIN; SET LOCAL ROLE reedclaw_app; SELECT set_config('reedclaw.tenants', 'mine', true); {forbidden}"
        );
        let error = client.batch_execute(&sql).expect_err(forbidden);
        let message = error.as_db_error().expect("the server's answer").message().to_owned();
        assert!(message.contains(why), "{forbidden}: {message}");
        client.batch_execute("ROLLBACK").expect("back");
    }
}

/// The positions that a stream of a tenant's log shows, up to that of the last of `count` events.
fn positions(gateway: &Gateway, bearer: &str, count: usize) -> Vec<i64> {
    let path = format!("/events/list?type=x.step&limit={count}");
    let answer = gateway.send("GET", &path, &[("Authorization", bearer)], "");
    assert_eq!(answer.status, 200, "{}", answer.text);
    let items = answer.json()["items"].as_array().cloned().unwrap_or_default();
    items.iter().filter_map(|item| item["position"].as_i64()).collect()
}

fn append(gateway: &Gateway, bearer: &str, id: &str) -> (u16, i64) {
    let body =
        json!({"event_id": id, "event_type": "x.step", "source": "agent", "run_id": "r", "body": {}}).to_string();
    let answer = gateway.send("POST", "/events/append", &[("Authorization", bearer)], &body);
    (answer.status, answer.json()["events"][0]["position"].as_i64().unwrap_or_default())
}

#[test]
fn scenario_15_and_31_three_gateways_on_one_database_are_one() {
    let Some(server) = Server::start() else { return };
    let home = server.home();
    let bearer = format!("Bearer {}", token(home.path(), "anna", "member", &[]));
    let (one, two, three) = (Gateway::start(home.path()), Gateway::start(home.path()), Gateway::start(home.path()));
    let all = [&one, &two, &three];
    // A stream on one gateway shows what is appended at the other.
    let mut stream = Reader::new(two.open("GET", "/sse/tenant?topics=run:r", &[("Authorization", &bearer)], ""));
    while stream.expect("system").2["kind"] != "caught_up" {}
    let mut given = Vec::new();
    for number in 0..20 {
        let (status, position) = append(all[number % 3], &bearer, &format!("e{number}"));
        assert_eq!(status, 201);
        given.push(position);
    }
    let shown: Vec<i64> =
        (0..20).map(|_| stream.expect("x.step").2["position"].as_i64().expect("a position")).collect();
    assert_eq!(shown, given, "the stream is complete and in order");
    assert!(given.windows(2).all(|pair| pair[1] == pair[0] + 1), "no gap between the gateways: {given:?}");
    // Many appends at once on all gateways: each id is stored once, with the same position in each answer.
    let answers: Vec<(u16, i64)> = std::thread::scope(|scope| {
        let asked: Vec<_> = (0..100)
            .map(|number| {
                let (at, bearer) = (all[number % 3], &bearer);
                scope.spawn(move || append(at, bearer, "same"))
            })
            .collect();
        asked.into_iter().map(|thread| thread.join().expect("an answer")).collect()
    });
    assert_eq!(answers.iter().filter(|(status, _)| *status == 201).count(), 1, "{answers:?}");
    assert!(answers.iter().all(|(_, position)| *position == answers[0].1), "{answers:?}");
    assert_eq!(positions(&one, &bearer, 100), positions(&two, &bearer, 100));
    assert_eq!(positions(&one, &bearer, 100), positions(&three, &bearer, 100));
    // A killed gateway doesn't hold up the others, and the log stays valid.
    one.end(Signal::SIGKILL);
    assert_eq!(append(&two, &bearer, "after").0, 201);
    two.end(Signal::SIGTERM);
    three.end(Signal::SIGTERM);
    let (status, out, err) = run(home.path(), &["gateway", "verify"]);
    assert_eq!(status, Some(0), "{out}{err}");
}

#[test]
fn a_run_of_another_gateway_is_neither_failed_nor_stopped_here() {
    let Some(server) = Server::start() else { return };
    let model = Model::start();
    let models = format!("models = {{tiny = {{endpoint = \"{}\"}}}}, memory = {{auto = false}}", model.endpoint());
    let home = server.home_with(&models);
    let secret = token(home.path(), "anna", "admin", &[]);
    let (one, two) = (Gateway::start(home.path()), Gateway::start(home.path()));
    let (here, there) = (one.client(&secret), two.client(&secret));
    model.reply(vec![head(), piece("Long "), Step::Hold]);
    let begun = here.with("Prefer", "respond-async").post("/chat", &json!({"message": "Go on."}));
    assert_eq!(begun.status, 202, "{begun:?}");
    let id = begun.json()["run_id"].as_str().expect("an id").to_owned();
    let mut stream = Reader::new(here.open(&format!("/sse/runs/{id}")));
    stream.expect("text");
    let cancel = format!("/runs/{id}/cancel");
    for answer in [there.get(&format!("/sse/runs/{id}")), there.post(&cancel, &json!({}))] {
        assert_eq!((answer.status, answer.code().as_str()), (503, "workspace_elsewhere"), "{answer:?}");
        assert!(answer.headers.contains_key("retry-after"), "{answer:?}");
        let context = answer.json()["error"]["context"].clone();
        assert_eq!(context["address"], one.address.to_string(), "the one that has it is named: {context}");
        assert!(context["node_id"].is_string(), "{context}");
    }
    let nodes = there.get("/admin/nodes").json()["items"].clone();
    let mine: Vec<&Value> = nodes.as_array().expect("nodes").iter().filter(|it| !it["streams"].is_null()).collect();
    assert_eq!((nodes.as_array().map(Vec::len), mine.len()), (Some(2), 1), "{nodes}");
    assert!(mine[0]["uptime_s"].is_i64() && mine[0]["address"] == two.address.to_string(), "{nodes}");
    assert_eq!(here.post(&cancel, &json!({})).status, 200);
    assert_eq!(stream.expect("cancelled").2["text"], "Long ");
    assert!(stream.next().is_none(), "its end is stored");
    let ended = there.get(&format!("/sse/runs/{id}"));
    assert!(ended.status == 200 && ended.text.contains("event: cancelled"), "{ended:?}");
    assert_eq!(there.post(&cancel, &json!({})).json()["state"], "cancelled");
}

#[test]
fn a_conversations_id_never_means_that_of_another_machine() {
    let Some(server) = Server::start() else { return };
    let model = Model::start();
    let models = format!("models = {{tiny = {{endpoint = \"{}\"}}}}, memory = {{auto = false}}", model.endpoint());
    let (home, other) = (server.home_with(&models), super::home_with(&models));
    fs::copy(home.path().join(super::DATABASE), other.path().join(super::DATABASE)).expect("the same database");
    let secret = token(home.path(), "anna", "admin", &[]);
    let (one, two) = (Gateway::start(home.path()), Gateway::start(other.path()));
    let (here, there) = (one.client(&secret), two.client(&secret));
    let ask = |client: &super::Client<'_>, body: Value| {
        model.reply(answer("Indeed."));
        let done = client.post("/chat", &body);
        assert_eq!(done.status, 200, "{done:?}");
        done.json()["conversation_id"].as_i64().expect("an id")
    };
    let (first, second) = (ask(&here, json!({"message": "apples"})), ask(&there, json!({"message": "pears"})));
    assert_eq!((first, second), (1, 1_000_000_001), "both are the first ones of their machines");
    assert_eq!(ask(&there, json!({"message": "more pears", "conversation_id": second})), second);
    let asked = model.request(model.requests()).raw;
    assert!(asked.contains("pears") && !asked.contains("apples"), "{asked}");
    let found = there.get("/memory/search?q=pears").json();
    assert_eq!(found["items"][0]["conversation_id"], second, "{found}");
    for (client, id, address) in [(&there, first, one.address), (&here, second, two.address)] {
        let refused = client.post("/chat", &json!({"message": "?", "conversation_id": id}));
        assert_eq!((refused.status, refused.code().as_str()), (503, "workspace_elsewhere"), "{refused:?}");
        assert_eq!(refused.json()["error"]["context"]["address"], address.to_string(), "{refused:?}");
    }
    let nobodys = here.post("/chat", &json!({"message": "?", "conversation_id": 7_000_000_001_i64}));
    assert_eq!((nobodys.status, nobodys.code().as_str()), (404, "not_found"), "{nobodys:?}");
    // A machine keeps its number, and another gateway there continues.
    drop(there);
    two.end(Signal::SIGTERM);
    let refused = here.post("/chat", &json!({"message": "?", "conversation_id": second}));
    assert_eq!((refused.status, &refused.json()["error"]["context"]["address"]), (503, &Value::Null), "{refused:?}");
    let two = Gateway::start(other.path());
    let there = two.client(&secret);
    assert_eq!(ask(&there, json!({"message": "pears again", "conversation_id": second})), second);
}

#[test]
fn scenario_19_a_server_that_crashes_under_load_loses_nothing_that_was_acknowledged() {
    let Some(server) = Server::start() else { return };
    let home = server.home();
    let bearer = format!("Bearer {}", token(home.path(), "anna", "member", &[]));
    let gateway = Gateway::start(home.path());
    let (is_over, acknowledged) = (std::sync::atomic::AtomicBool::new(false), std::sync::Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        for writer in 0..3 {
            let (gateway, bearer, is_over, acknowledged) = (&gateway, &bearer, &is_over, &acknowledged);
            scope.spawn(move || {
                let mut number = 0;
                while !is_over.load(Ordering::Relaxed) {
                    let id = format!("w{writer}-{number}");
                    let (status, _) = append(gateway, bearer, &id);
                    match status {
                        200 | 201 => {
                            acknowledged.lock().expect("a list").push(id);
                            number += 1;
                        }
                        // The client repeats it with the same id.
                        503 => {}
                        other => panic!("{other}"),
                    }
                }
            });
        }
        let crashes = if super::history::is_long() { 20 } else { 5 };
        for _ in 0..crashes {
            let before = acknowledged.lock().expect("a list").len();
            wait_until(|| acknowledged.lock().expect("a list").len() > before + 5);
            server.crash();
            server.begin();
        }
        let before = acknowledged.lock().expect("a list").len();
        wait_until(|| acknowledged.lock().expect("a list").len() > before + 5);
        is_over.store(true, Ordering::Relaxed);
    });
    gateway.end(Signal::SIGTERM);
    let address = fs::read_to_string(home.path().join(super::DATABASE)).expect("its address");
    let ledger = ledger(&address);
    let log = ledger.read(&someone(), 0, &Filter { event_type: Some("x.step".into()), ..Filter::default() }, 100_000);
    let mut there: Vec<String> = log.expect("the log").into_iter().map(|event| event.event_id).collect();
    there.sort();
    for id in acknowledged.into_inner().expect("a list") {
        assert!(there.binary_search(&id).is_ok(), "{id} was acknowledged and is lost");
    }
    there.dedup();
    let verified = ledger.verify("local").expect("a check").expect("it holds");
    let _ = writeln!(std::io::stdout(), "{} events after all crashes", verified.events);
}

#[test]
fn modes_with_several_tenants_need_a_server_and_identity_without_defaults() {
    let plain = home();
    fs::remove_file(plain.path().join(super::DATABASE)).ok();
    let (status, _, err) = run(plain.path(), &["gateway", "--listen", "127.0.0.1:0", "--mode", "saas"]);
    assert_eq!(status, Some(3), "{err}");
    assert!(err.contains("needs PostgreSQL"), "{err}");
    let (status, _, err) = run(plain.path(), &["gateway", "verify", "--database", "postgres://me:secret@localhost/x"]);
    assert_eq!(status, Some(3), "{err}");
    assert!(err.contains("--database env:NAME") && !err.contains("secret"), "{err}");
    let Some(server) = Server::start() else { return };
    let home = server.home();
    let (status, _, err) = run(home.path(), &["gateway", "tenant", "add", "acme", "--mode", "saas"]);
    assert_eq!(status, Some(0), "{err}");
    let bearer = format!("Bearer {}", token(home.path(), "anna", "member", &["--tenant", "acme"]));
    let gateway = Gateway::start_mode(home.path(), "saas");
    let answer = gateway.send("GET", "/events/list", &[("Authorization", &bearer)], "");
    assert_eq!((answer.status, answer.json()["error"]["code"].as_str()), (400, Some("identity_missing")));
    let all = [
        ("Authorization", bearer.as_str()),
        ("X-Mode", "saas"),
        ("X-Tenant-Id", "acme"),
        ("X-Project-Id", "default"),
        ("X-Request-Id", "r1"),
    ];
    assert_eq!(gateway.send("GET", "/events/list", &all, "").status, 200);
    let body = json!({"event_type": "x.step", "source": "agent", "run_id": "r", "body": {}}).to_string();
    assert_eq!(gateway.send("POST", "/events/append", &all, &body).status, 201);
    let wrong: Vec<(&str, &str)> =
        all.iter().map(|(name, value)| (*name, if *name == "X-Mode" { "enterprise" } else { value })).collect();
    assert_eq!(gateway.send("GET", "/events/list", &wrong, "").json()["error"]["code"], "mode_mismatch");
    // A new tenant has one strategy, which others may replace.
    let locks = gateway.send("GET", "/strategy-locks", &all, "").json()["items"].clone();
    assert_eq!(json!([locks[0]["state"], locks[0]["actions"], locks[1]]), json!(["approved", ["*"], null]), "{locks}");
    let call = json!({"action_name": "time", "subject_type": "run", "subject_id": "r", "args": {}}).to_string();
    let done = gateway.send("POST", "/actions/execute", &all, &call).json();
    let lock = json!({"gate": "strategy_lock", "outcome": "pass"});
    assert!(done["decisions"].as_array().is_some_and(|all| all.contains(&lock)), "{done}");
    super::change(home.path(), "UPDATE strategy_lock SET valid_until_ms = 1");
    assert_eq!(gateway.send("POST", "/actions/execute", &all, &call).code(), "strategy_lock");
    // A tenant can stop itself, but not the machine that others share.
    let node = json!({"scope": "node"}).to_string();
    assert_eq!(gateway.send("POST", "/estop", &all, &node).code(), "forbidden");
    assert_eq!(gateway.send("POST", "/estop", &all, "{}").json()["stopped"], true);
    assert!(!home.path().join(".local/state/reedclaw/ESTOP").exists());
    assert_eq!(gateway.send("POST", "/actions/execute", &all, &call).code(), "kill_switch");
    let local = format!("Bearer {}", token(home.path(), "ben", "member", &[]));
    let mut of_local = all;
    of_local[0].1 = &local;
    of_local[1].1 = "lab";
    of_local[2].1 = "local";
    assert_eq!(gateway.send("POST", "/actions/execute", &of_local, &call).status, 200);
    assert_eq!(gateway.send("POST", "/estop", &of_local, &node).code(), "forbidden");
    gateway.end(Signal::SIGTERM);
}

#[test]
fn scenario_24_in_saas_a_route_to_files_is_refused_at_the_start_and_all_are_listed() {
    let Some(server) = Server::start() else { return };
    let home = server.home();
    assert_eq!(run(home.path(), &["gateway", "tenant", "add", "acme", "--mode", "saas"]).0, Some(0));
    let start = ["gateway", "--listen", "127.0.0.1:0", "--mode", "saas"];
    for (tenant, service) in [("acme", "event_spine"), ("acme", "memory_store"), ("local", "blackboard_store")] {
        super::change(
            home.path(),
            &format!("INSERT INTO route VALUES ('{tenant}', '{service}', 'filesystem', NULL, 1)"),
        );
    }
    let (status, _, err) = run(home.path(), &start);
    assert_eq!(status, Some(3), "{err}");
    for line in
        ["acme, event_spine: filesystem", "acme, memory_store: filesystem", "local, blackboard_store: filesystem"]
    {
        assert!(err.contains(line), "{line} in {err}");
    }
    super::change(home.path(), "DELETE FROM route");
    assert_eq!(Gateway::start_mode(home.path(), "saas").end(Signal::SIGTERM), Some(0));
}

#[test]
fn scenario_61_a_replica_that_lags_takes_over_and_clients_begin_anew() {
    let Some(server) = Server::start() else { return };
    let home = server.home();
    let bearer = format!("Bearer {}", token(home.path(), "anna", "member", &[]));
    let replica = server.replica();
    let address = fs::read_to_string(home.path().join(super::DATABASE)).expect("its address");
    let (_, name) = address.rsplit_once('/').expect("a name");
    let at = |hosts: &str| format!("postgres://postgres@{hosts}/{name}");
    let both = at(&format!("{},{}", server.host(), replica.host())) + "?target_session_attrs=read-write";
    fs::write(home.path().join(super::DATABASE), &both).expect("its address");
    let gateway = Gateway::start(home.path());
    for number in 0..5 {
        assert_eq!(append(&gateway, &bearer, &format!("e{number}")).0, 201);
    }
    let mut copy = Client::connect(&at(&replica.host()), NoTls).expect("the replica");
    let count = "SELECT count(*) FROM event WHERE event_type = 'x.step'";
    wait_until(|| copy.query_one(count, &[]).is_ok_and(|row| row.get::<_, i64>(0) == 5));
    drop(copy);
    // From now on the replica misses acknowledged events.
    replica.end();
    let lost: Vec<i64> = (5..10).map(|number| append(&gateway, &bearer, &format!("e{number}")).1).collect();
    let mut stream = Reader::new(gateway.open(
        "GET",
        &format!("/sse/tenant?topics=run:r&last_event_id=1-{}", lost[4]),
        &[("Authorization", &bearer)],
        "",
    ));
    while stream.expect("system").2["kind"] != "caught_up" {}
    server.crash();
    replica.begin();
    replica.promote();
    wait_until(|| append(&gateway, &bearer, "after").0 == 201);
    // The stream reports that and ends; a client with an old cursor has to begin again.
    let mut kinds = Vec::new();
    while let Some((_, _, data)) = stream.next() {
        kinds.push(data["kind"].as_str().unwrap_or_default().to_owned());
    }
    assert_eq!(kinds.last().map(String::as_str), Some("resync"), "{kinds:?}");
    let old = format!("/sse/tenant?topics=run:r&last_event_id=1-{}", lost[0]);
    let mut stream = Reader::new(gateway.open("GET", &old, &[("Authorization", &bearer)], ""));
    assert_eq!(
        (stream.expect("system").2["kind"].clone(), stream.expect("system").2["kind"].clone()),
        ("hello".into(), "resync".into())
    );
    let mut stream = Reader::new(gateway.open("GET", "/sse/tenant?topics=run:r", &[("Authorization", &bearer)], ""));
    let head = stream.expect("system").2["head"].as_str().expect("a cursor").to_owned();
    assert!(head.starts_with("2-"), "{head}");
    let (_, position) = append(&gateway, &bearer, "e7");
    assert_eq!(stream.expect("x.step").2["position"], position);
    gateway.end(Signal::SIGTERM);
    assert_eq!(run(home.path(), &["gateway", "verify"]).0, Some(0));
}

#[test]
fn a_connection_to_a_server_is_encrypted_and_its_certificate_is_checked() {
    if !need::require(&["openssl"]) {
        return;
    }
    let Some(server) = Server::start() else { return };
    let (port, authority) = server.encrypt();
    let home = home();
    let authority = authority.display();
    let tenants = |host: &str, options: &str, variables: &[(&str, &str)]| {
        let address = format!("postgres://postgres:secret@{host}:{port}/postgres{options}");
        fs::write(home.path().join(super::DATABASE), address).expect("an address");
        let mut command = super::command(home.path(), &["gateway", "tenant", "list"]);
        let output = command.envs(variables.iter().copied()).output().expect("it runs");
        (output.status.code(), String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned())
    };
    let named = format!("?sslmode=verify-full&sslrootcert={authority}");
    let (status, text) = tenants("localhost", &named, &[]);
    assert_eq!((status, text.contains("local")), (Some(0), true), "{text}");
    let trusted = authority.to_string();
    let (status, text) = tenants("localhost", "?sslmode=require", &[("SSL_CERT_FILE", &trusted)]);
    assert_eq!(status, Some(0), "{text}");
    for (host, options, word) in [
        ("localhost", "", "no encryption"),
        ("localhost", "?sslmode=require", "no trusted authority vouches"),
        ("127.0.0.1", named.as_str(), "for another name"),
        ("localhost", "?sslmode=require&sslrootcert=/nowhere.pem", "sslrootcert names /nowhere.pem"),
    ] {
        let (status, text) = tenants(host, options, &[]);
        assert_eq!((status, text.contains(word)), (Some(1), true), "{host}{options}: {text}");
        assert!(!text.contains("secret"), "{text}");
    }
    // A gateway can use it.
    tenants("localhost", &named, &[]);
    let gateway = Gateway::start(home.path());
    let client = gateway.client(&token(home.path(), "anna", "member", &[]));
    assert_eq!(client.get("/status").json()["database"]["kind"], "postgres");
}
