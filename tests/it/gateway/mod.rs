//! `reedclaw gateway` over HTTP, as clients use it: the real executable, a separate home, plain sockets. Tests are named after
//! the scenarios of the gateway's acceptance list that they cover.

mod asking;
mod browser;
mod canvas;
mod console;
mod console_states;
mod console_truth;
mod contract;
mod costs;
mod databases;
mod door;
mod engine;
mod gates;
mod history;
mod leases;
mod limits;
mod log;
mod nats;
mod onward;
mod proxied;
mod published;
mod retention;
mod runs;
mod server;
mod sharing;
mod stores;
mod streams;
mod tenants;
mod traces;

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use serde_json::Value;
use tempfile::TempDir;

use crate::need::TEST_PATH;
use crate::pty::{Spawn, program};
use crate::wait::{wait_for, wait_for_end};

/// Maximum wait for anything; the machine may be busy.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// A home for gateways whose database is a file, for tests of that case.
pub fn home_with_file() -> TempDir {
    let home = home();
    let _ = fs::remove_file(home.path().join(DATABASE));
    home
}

/// A home for gateways.
pub fn home() -> TempDir {
    home_with("")
}

/// A home for gateways with additional settings.
pub fn home_with(settings: &str) -> TempDir {
    let home = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a home");
    fs::create_dir(home.path().join("ws")).expect("a workspace");
    let config = home.path().join(".config/reedclaw/config.lua");
    fs::create_dir_all(config.parent().expect("a parent")).expect("directories");
    let workspace = home.path().join("ws").display().to_string();
    fs::write(config, format!("return {{workspace_dir = \"{workspace}\", {settings}}}\n")).expect("a config");
    // If a server is configured, all of these tests run on PostgreSQL: `.ci/run` does so in a second run.
    if let Ok(address) = std::env::var("REEDCLAW_TEST_POSTGRES") {
        fs::write(home.path().join(DATABASE), server::new_database(&address)).expect("a database's address");
    }
    home
}

/// The file in a home that contains the address of its database, if that is on a server.
const DATABASE: &str = "database-address";

/// The path of the gateway's database in a home.
pub fn database(home: &Path) -> PathBuf {
    home.join(".local/state/reedclaw/gateway.db")
}

/// Returns a command that runs the executable in a home.
pub fn command(home: &Path, args: &[&str]) -> Command {
    let mut command = Command::new(program());
    command.args(args).env_clear().env("PATH", TEST_PATH).env("HOME", home).env("LANG", "C.UTF-8");
    if let Ok(address) = fs::read_to_string(home.join(DATABASE)) {
        command.env("REEDCLAW_GATEWAY_DATABASE", address);
    }
    command.current_dir(home).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// Runs a command to its end; returns its status and both outputs.
pub fn run(home: &Path, args: &[&str]) -> (Option<i32>, String, String) {
    let output = command(home, args).output().expect("it runs");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (output.status.code(), text(&output.stdout), text(&output.stderr))
}

/// Makes a token; returns its secret.
pub fn token(home: &Path, user: &str, role: &str, more: &[&str]) -> String {
    let mut args = vec!["gateway", "token", "create", "--user", user, "--role", role];
    args.extend(more);
    let (status, out, err) = run(home, &args);
    assert_eq!(status, Some(0), "{err}");
    out.trim().to_owned()
}

/// A running gateway.
pub struct Gateway {
    child: Child,
    pub address: SocketAddr,
}

impl Gateway {
    /// Starts one on a free port and waits until it listens.
    pub fn start(home: &Path) -> Self {
        Self::start_with(home, &[])
    }

    /// Starts one in a mode.
    pub fn start_mode(home: &Path, mode: &str) -> Self {
        Self::begin(command(home, &["gateway", "--listen", "127.0.0.1:0", "--json", "--mode", mode]), &[])
    }

    /// Starts one at a fixed address, such as that of one which has ended.
    pub fn start_at(home: &Path, address: SocketAddr) -> Self {
        Self::begin(command(home, &["gateway", "--listen", &address.to_string(), "--json"]), &[])
    }

    /// Starts one with the address and mode of the config.
    pub fn as_configured(home: &Path) -> Self {
        Self::begin(command(home, &["gateway", "--json"]), &[])
    }

    /// Starts one with additional environment variables.
    pub fn start_with(home: &Path, variables: &[(&str, &str)]) -> Self {
        Self::begin(command(home, &["gateway", "--listen", "127.0.0.1:0", "--json"]), variables)
    }

    /// Starts one whose files can't grow beyond a size in bytes.
    pub fn start_limited(home: &Path, bytes: u64) -> Self {
        let own = command(home, &["gateway", "--listen", "127.0.0.1:0", "--json"]);
        // A write beyond the limit fails, as on a full disk, instead of ending the process.
        let script = format!("trap '' XFSZ; ulimit -S -f {}; exec \"$0\" \"$@\"", bytes / 512);
        let mut limited = Command::new("sh");
        limited.arg("-c").arg(script).arg(own.get_program()).args(own.get_args()).env_clear();
        limited.envs(own.get_envs().filter_map(|(name, value)| Some((name, value?)))).current_dir(home);
        limited.stdin(Stdio::null()).stdout(Stdio::piped());
        Self::begin(limited, &[])
    }

    fn begin(mut command: Command, variables: &[(&str, &str)]) -> Self {
        let mut child = command.envs(variables.iter().copied()).stderr(Stdio::null()).spawn().expect("it starts");
        let mut line = String::new();
        BufReader::new(child.stdout.take().expect("its output")).read_line(&mut line).expect("a line");
        let begun: Value = serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line:?}"));
        let mut address: SocketAddr = begun["address"].as_str().and_then(|it| it.parse().ok()).expect("an address");
        if address.ip().is_unspecified() {
            address.set_ip([127, 0, 0, 1].into());
        }
        Self { child, address }
    }

    pub fn pid(&self) -> i32 {
        i32::try_from(self.child.id()).expect("a process id")
    }

    /// Ends it with a signal and returns its status.
    pub fn end(mut self, signal: nix::sys::signal::Signal) -> Option<i32> {
        nix::sys::signal::kill(nix::unistd::Pid::from_raw(self.pid()), signal).expect("it is there");
        wait_for_end(&mut self.child).code()
    }

    /// Sends a request with exactly these lines and returns the answer.
    pub fn send(&self, method: &str, path: &str, headers: &[(&str, &str)], body: &str) -> Answer {
        let mut socket = self.open(method, path, headers, body);
        let mut bytes = Vec::new();
        socket.read_to_end(&mut bytes).expect("an answer");
        Answer::read(&bytes)
    }

    /// Sends a request and returns the socket, for streams.
    pub fn open(&self, method: &str, path: &str, headers: &[(&str, &str)], body: &str) -> TcpStream {
        let mut socket = TcpStream::connect(self.address).expect("a connection");
        socket.set_read_timeout(Some(PATIENCE)).expect("a deadline");
        let mut text = format!("{method} {path} HTTP/1.1\r\nConnection: close\r\n");
        if !headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("host")) {
            text += &format!("Host: {}\r\n", self.address);
        }
        if !body.is_empty() && !headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("content-type")) {
            text += "Content-Type: application/json\r\n";
        }
        if !headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("content-length")) {
            text += &format!("Content-Length: {}\r\n", body.len());
        }
        for (name, value) in headers {
            text += &format!("{name}: {value}\r\n");
        }
        text += "\r\n";
        socket.write_all(text.as_bytes()).expect("it is sent");
        // The gateway may have closed the socket after it refused the body.
        let _ = socket.write_all(body.as_bytes());
        socket
    }

    /// Sends a request without reading its answer; the connection stays open.
    pub fn open_write(&self, path: &str, client: &Client<'_>, body: &Value) -> TcpStream {
        self.open("POST", path, &client.headers(), &body.to_string())
    }

    /// A client with a token.
    pub fn client<'a>(&'a self, token: &str) -> Client<'a> {
        Client { gateway: self, headers: vec![("Authorization".into(), format!("Bearer {token}"))] }
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// An answer.
#[derive(Clone, Debug)]
pub struct Answer {
    pub status: u16,
    pub headers: BTreeMap<String, String>,
    pub text: String,
}

impl Answer {
    pub fn read(bytes: &[u8]) -> Self {
        let text = String::from_utf8_lossy(bytes).into_owned();
        let (head, text) = text.split_once("\r\n\r\n").unwrap_or_else(|| panic!("no head in {text:?}"));
        let mut lines = head.lines();
        let status = lines.next().and_then(|line| line.split(' ').nth(1)).and_then(|status| status.parse().ok());
        let pair = |line: &str| line.split_once(": ").map(|(name, value)| (name.to_lowercase(), value.to_owned()));
        Self { status: status.expect("a status"), headers: lines.filter_map(pair).collect(), text: text.to_owned() }
    }

    pub fn json(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or_else(|error| panic!("{error}: {:?}", self.text))
    }

    /// The code of an error, whose envelope must be complete.
    #[track_caller]
    pub fn code(&self) -> String {
        let json = self.json();
        let error = &json["error"];
        assert_eq!(error["request_id"].as_str(), self.headers.get("x-request-id").map(String::as_str), "{json}");
        assert!(error["message"].as_str().is_some_and(|message| !message.is_empty()), "{json}");
        error["code"].as_str().expect("a code").to_owned()
    }
}

/// A client with its own headers.
#[derive(Clone)]
pub struct Client<'a> {
    pub gateway: &'a Gateway,
    pub headers: Vec<(String, String)>,
}

impl Client<'_> {
    /// The same client with one more header.
    pub fn with(&self, name: &str, value: &str) -> Self {
        let mut client = self.clone();
        client.headers.push((name.to_owned(), value.to_owned()));
        client
    }

    fn headers(&self) -> Vec<(&str, &str)> {
        self.headers.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect()
    }

    pub fn get(&self, path: &str) -> Answer {
        self.gateway.send("GET", path, &self.headers(), "")
    }

    pub fn write(&self, method: &str, path: &str, body: &Value) -> Answer {
        self.gateway.send(method, path, &self.headers(), &body.to_string())
    }

    pub fn post(&self, path: &str, body: &Value) -> Answer {
        self.write("POST", path, body)
    }

    pub fn delete(&self, path: &str) -> Answer {
        self.gateway.send("DELETE", path, &self.headers(), "")
    }

    pub fn open(&self, path: &str) -> TcpStream {
        self.gateway.open("GET", path, &self.headers(), "")
    }
}

/// Repeats a request until the rate limits let it through.
#[track_caller]
pub fn allowed(ask: impl Fn() -> Answer) -> Answer {
    wait_for("a bucket that fills", || Some(ask()).filter(|answer| answer.status != 429))
}

/// The database file, for tests that look at it or damage it.
pub fn sqlite(home: &Path) -> rusqlite::Connection {
    let connection = rusqlite::Connection::open(database(home)).expect("the database");
    connection.busy_timeout(Duration::from_secs(10)).expect("a deadline");
    connection
}

/// Changes rows of a home's database, on either engine; returns how many.
pub fn change(home: &Path, sql: &str) -> usize {
    match server::client_of(home) {
        Some(mut client) => usize::try_from(client.execute(sql, &[]).expect(sql)).expect("a number of rows"),
        None => sqlite(home).execute(sql, []).expect(sql),
    }
}

/// Reads the first column of a home's database, as text.
pub fn read_rows(home: &Path, sql: &str) -> Vec<String> {
    if let Some(mut client) = server::client_of(home) {
        let rows = client.simple_query(sql).expect(sql);
        return rows.iter().filter_map(server::first_column).collect();
    }
    let connection = sqlite(home);
    let mut statement = connection.prepare(sql).expect(sql);
    let text = |row: &rusqlite::Row<'_>| {
        Ok(match row.get_ref(0)? {
            rusqlite::types::ValueRef::Integer(number) => number.to_string(),
            other => other.as_str().map(str::to_owned).unwrap_or_default(),
        })
    };
    statement.query_map([], text).expect(sql).collect::<Result<_, _>>().expect(sql)
}

/// Returns whether a home's database is on a server.
pub fn is_on_server(home: &Path) -> bool {
    home.join(DATABASE).exists()
}

/// The SQL expression for the database's clock in milliseconds.
pub fn now_ms(home: &Path) -> &'static str {
    match is_on_server(home) {
        true => "CAST(extract(epoch FROM clock_timestamp()) * 1000 AS bigint)",
        false => "CAST(unixepoch('subsec') * 1000 AS INTEGER)",
    }
}

/// Returns the executable for a terminal, with a home's database.
pub fn spawn(home: &Path, args: &[&str]) -> Spawn {
    let spawn = Spawn::new(program()).args(args).home(home);
    match fs::read_to_string(home.join(DATABASE)) {
        Ok(address) => spawn.env("REEDCLAW_GATEWAY_DATABASE", &address),
        Err(_) => spawn,
    }
}

/// The output of `gateway verify` and its status.
pub fn verify(home: &Path) -> (Option<i32>, String) {
    let (status, out, err) = run(home, &["gateway", "verify"]);
    (status, out + &err)
}

#[test]
fn the_list_of_scenarios_names_the_tests_that_there_are() {
    fn sources(directory: &Path, found: &mut String) {
        for entry in fs::read_dir(directory).expect("sources") {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                sources(&path, found);
            } else if path.extension().is_some_and(|it| it == "rs") {
                found.push_str(&fs::read_to_string(path).expect("a source"));
            }
        }
    }
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut code = String::new();
    sources(&root.join("src"), &mut code);
    sources(&root.join("tests/it/gateway"), &mut code);
    let page = fs::read_to_string(root.join("docs/decisions/gateway-acceptance.md")).expect("the page");
    let number = |line: &str| line.strip_prefix("| ")?.split(' ').next()?.parse::<usize>().ok();
    let mut rows: Vec<(usize, &str)> = page.lines().filter_map(|line| Some((number(line)?, line))).collect();
    rows.sort_unstable();
    assert_eq!(rows.iter().map(|row| row.0).collect::<Vec<_>>(), (1..=71).collect::<Vec<_>>());
    for (number, row) in rows {
        let names: Vec<&str> = row.split('`').filter(|it| it.starts_with("scenario_")).collect();
        assert!(!names.is_empty(), "{row}");
        for name in names {
            assert!(code.contains(&format!("fn {name}(")), "{number}: there is no test {name}");
        }
    }
    let tests = code.split("fn scenario_").skip(1).filter_map(|rest| rest.split("()").next());
    for test in tests.filter(|test| !test.contains([' ', '"'])) {
        assert!(page.contains(&format!("`scenario_{test}`")), "scenario_{test} isn't in the list");
    }
}
