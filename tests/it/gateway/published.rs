//! Sessions that are published to a team's gateway on another machine: over an encrypted connection through a proxy, in a tenant
//! that trusts no other, by shells that never wait for it.

use std::fs;
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};
use tempfile::TempDir;

use super::browser::Browser;
use super::console::code_in;
use super::server::{Server, certified};
use super::sharing::{frames_until, open_question, printed, said, shares};
use super::streams::Reader;
use super::{Client, Gateway, PATIENCE, allowed, command, home_with, run, token};
use crate::https::{Front, passed_on};
use crate::need;
use crate::pty::{Session, Spawn, program};
use crate::server::{Server as Model, answer, tool_call};
use crate::wait::{wait_for, wait_until};

/// An encrypting proxy, set up as in the documentation.
struct Proxy {
    place: TempDir,
    authority: PathBuf,
    port: u16,
    child: Option<Child>,
}

impl Proxy {
    /// Starts one in front of a port of this machine.
    fn start(port: u16, to: u16) -> Self {
        let place = tempfile::tempdir().expect("a directory");
        let authority = certified(place.path());
        let directory = place.path().display();
        let user = if nix::unistd::geteuid().is_root() { "user root;" } else { "" };
        let own: String = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
            .map(|name| format!("{name}_temp_path {directory}/{name};\n"))
            .concat();
        let config = format!(
            "{user} daemon off; pid {directory}/pid; error_log {directory}/errors;
            events {{}}
            http {{ access_log off; {own}
                server {{
                    listen 127.0.0.1:{port} ssl;
                    ssl_certificate cert.pem;
                    ssl_certificate_key key.pem;
                    client_max_body_size 33m;
                    location / {{
                        proxy_pass http://127.0.0.1:{to};
                        proxy_http_version 1.1;
                        proxy_set_header Host $host:$server_port;
                        proxy_set_header X-Forwarded-For $proxy_add_x_forwarded_for;
                        proxy_buffering off;
                        proxy_read_timeout 1h;
                    }}
                }}
            }}"
        );
        fs::write(place.path().join("nginx.conf"), config).expect("its config");
        let mut proxy = Self { place, authority, port, child: None };
        proxy.begin();
        proxy
    }

    fn begin(&mut self) {
        let mut command = Command::new(need::find("nginx").expect("nginx"));
        command.arg("-p").arg(self.place.path()).arg("-c").arg(self.place.path().join("nginx.conf"));
        command.env_clear().stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        self.child = Some(command.spawn().expect("it starts"));
        wait_until(|| TcpStream::connect(("127.0.0.1", self.port)).is_ok());
    }

    /// Ends it with its connections.
    fn end(&mut self) {
        let Some(mut child) = self.child.take() else { return };
        let pid = Pid::from_raw(i32::try_from(child.id()).expect("a process id"));
        let _ = kill(pid, Signal::SIGTERM);
        let _ = child.wait();
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.end();
    }
}

/// A free port.
pub fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").and_then(|it| it.local_addr()).expect("a port").port()
}

/// A team's gateway: tenants that don't trust each other, a database, a proxy.
struct Team {
    proxy: Proxy,
    home: TempDir,
    server: Server,
}

impl Team {
    /// Starts a team with its gateway; returns `None` if a program isn't installed.
    fn start() -> Option<(Self, Gateway)> {
        Self::start_at("localhost")
    }

    /// Does the same with a gateway of this name.
    fn start_at(name: &str) -> Option<(Self, Gateway)> {
        if !need::require(&["nginx", "openssl"]) {
            return None;
        }
        let server = Server::start()?;
        let (front, port) = (free_port(), free_port());
        let home = server.home_with(&format!(
            "gateway = {{mode = \"saas\", listen = \"127.0.0.1:{port}\", public_url = \"https://{name}:{front}\",
             trusted_proxies = {{\"127.0.0.1\"}}}}"
        ));
        for tenant in ["acme", "other"] {
            assert_eq!(run(home.path(), &["gateway", "tenant", "add", tenant, "--mode", "saas"]).0, Some(0));
        }
        let gateway = Gateway::as_configured(home.path());
        Some((Self { proxy: Proxy::start(front, port), home, server }, gateway))
    }

    fn token(&self, tenant: &str, user: &str, role: &str) -> String {
        token(self.home.path(), user, role, &["--tenant", tenant])
    }

    fn client<'g>(&self, gateway: &'g Gateway, tenant: &str, user: &str, role: &str) -> Client<'g> {
        let client = gateway.client(&self.token(tenant, user, role));
        let client = client.with("X-Mode", "saas").with("X-Tenant-Id", tenant);
        client.with("X-Project-Id", "default").with("X-Request-Id", "r-1")
    }

    /// The home of a member who shares sessions in a tenant.
    fn home_of_member(&self, settings: &str) -> TempDir {
        let url = format!("https://localhost:{}", self.proxy.port);
        home_with(&format!("share = {{gateway = \"{url}\", token_env = \"TEAM\", tenant = \"acme\"}}, {settings}"))
    }

    /// Starts a member's shell.
    fn shell(&self, home: &Path, secret: &str) -> Session {
        let authority = self.proxy.authority.to_str().expect("text");
        let spawn = Spawn::new(program()).home(home).env("TEAM", secret).env("SSL_CERT_FILE", authority);
        let session = Session::spawn(spawn.size(30, 140));
        session.expect_prompt();
        session
    }
}

/// Shares a shell; returns the session's id, from the address that is printed.
fn share(session: &Session, words: &str) -> String {
    session.run(&format!(":share {words}"));
    let screen = session.screen_text();
    let (_, rest) = screen.rsplit_once("/ui/#/sessions/").unwrap_or_else(|| panic!("no address: {screen}"));
    rest.split_whitespace().next().expect("an id").to_owned()
}

/// Waits until the members see that a session has ended.
fn expect_ended(client: &Client<'_>, id: &str) {
    let until = Instant::now() + PATIENCE;
    while client.get(&format!("/shares/{id}")).json()["state"] != "ended" {
        assert!(Instant::now() < until, "{id} goes on");
        std::thread::park_timeout(Duration::from_millis(50));
    }
}

#[test]
fn a_session_is_published_to_a_teams_gateway_and_its_question_is_answered_in_the_browser() {
    let Some((team, gateway)) = Team::start() else { return };
    let model = Model::start();
    let home = team.home_of_member(&format!(
        "models = {{tiny = {{endpoint = \"{}\"}}}}, memory = {{auto = false}}, context = {{project = false}}",
        model.endpoint()
    ));
    let secret = team.token("acme", "me", "member");
    let anna = team.client(&gateway, "acme", "anna", "approver");
    let session = team.shell(home.path(), &secret);
    let id = share(&session, "approve anna mia");
    let url = format!("https://localhost:{}/ui/#/sessions/{id}", team.proxy.port);
    assert!(session.screen_text().contains(&url), "{}", session.screen_text());
    // Another tenant's admin can't see it: the answer is the same as for one that doesn't exist.
    let bob = team.client(&gateway, "other", "bob", "admin");
    assert_eq!(shares(&bob), Vec::<Value>::new());
    for path in ["/shares/ID", "/shares/ID/recording", "/sse/shares/ID"] {
        let (theirs, none) = (bob.get(&path.replace("ID", &id)), bob.get(&path.replace("ID", "AAAAAAAA")));
        assert_eq!((theirs.status, &theirs.text), (404, &none.text), "{path}");
    }
    let elsewhere = bob.gateway.client(bob.headers[0].1.trim_start_matches("Bearer "));
    let elsewhere = elsewhere.with("X-Mode", "saas").with("X-Tenant-Id", "acme").with("X-Project-Id", "default");
    assert_eq!(elsewhere.with("X-Request-Id", "r-1").get(&format!("/shares/{id}")).code(), "not_a_member");
    // A colleague sees what ran, and no secret.
    let mut reader = Reader::new(anna.open(&format!("/sse/shares/{id}")));
    reader.expect("snapshot");
    session.run("echo shown-$((40 + 2)) $TEAM");
    frames_until(&mut reader, &format!("shown-42 {}\r\n", "*".repeat(secret.len())));
    session.run(":share");
    session.expect_text("1 watches");
    // A question there is answered once, by a person who is named; the shell learns by whom.
    let write = |path: &str| tool_call("file_write", &json!({"path": path, "content": "x"}).to_string());
    model.reply(write("first.txt"));
    model.reply(answer("It is written."));
    session.line("?write the first file");
    session.expect_text("also asked: anna, mia");
    let question = open_question(&anna);
    assert_eq!(said(&bob, &question, "once").code(), "not_found");
    assert!(!home.path().join("ws/first.txt").exists());
    assert_eq!(said(&anna, &question, "once").status, 200);
    session.expect_text("once, by anna");
    session.expect_text("It is written.");
    session.expect_prompt();
    if let Some(mut browser) = Browser::start() {
        browser.look(1100, 800, "light");
        let code = code_in(team.home.path(), "acme", "approver");
        browser.open(&format!("http://{}/ui/#pair={code}", gateway.address));
        browser.expect("saas · acme");
        browser.open(&format!("http://{}/ui/#/sessions/{id}", gateway.address));
        browser.wait("document.querySelector('#session-state')?.innerText.includes('live')");
        model.reply(write("second.txt"));
        model.reply(answer("That one, too."));
        session.line("?write the second file");
        session.expect_text("write the second file");
        browser.wait("[...document.querySelectorAll('button')].some((it) => it.innerText.includes('Yes, once'))");
        browser.press("Yes, once");
        session.expect_text("once, by mia");
        session.expect_text("That one, too.");
        assert!(home.path().join("ws/second.txt").exists());
        session.expect_prompt();
    }
    // Without its token the session is no longer shared; colleagues still have its recording.
    let (_, list, _) = run(team.home.path(), &["gateway", "token", "list"]);
    let row = list.lines().find(|line| line.contains(" me ")).unwrap_or_else(|| panic!("{list}"));
    let token_id = row.split_whitespace().next().expect("an id");
    assert_eq!(run(team.home.path(), &["gateway", "token", "revoke", token_id]).0, Some(0));
    session.expect_text("the token of the person who shares it isn't valid any more");
    expect_ended(&anna, &id);
    assert!(anna.get(&format!("/shares/{id}/recording")).text.contains("shown-42"));
    session.run(":share watch");
    session.expect_text("refuses to share it: a valid token is needed");
    session.expect_text("share.token_env");
    session.line("exit");
    session.expect_exit();
}

/// Returns the snapshot of a late viewer as soon as it holds a text.
fn snapshot_with(client: &Client<'_>, id: &str, text: &str) -> Value {
    let until = Instant::now() + PATIENCE;
    loop {
        let mut reader = Reader::new(client.open(&format!("/sse/shares/{id}")));
        if let Some((_, _, found)) = reader.next().filter(|(_, _, found)| found.to_string().contains(text)) {
            return found;
        }
        assert!(Instant::now() < until, "{text} never comes");
        std::thread::park_timeout(Duration::from_millis(100));
    }
}

#[test]
fn a_shell_goes_on_while_the_teams_gateway_is_slow_away_or_killed() {
    let Some((mut team, gateway)) = Team::start() else { return };
    let home = team.home_of_member("");
    let secret = team.token("acme", "me", "member");
    let session = team.shell(home.path(), &secret);
    let anna = team.client(&gateway, "acme", "anna", "viewer");
    let id = share(&session, "watch");
    let mut reader = Reader::new(anna.open(&format!("/sse/shares/{id}")));
    reader.expect("snapshot");
    // A gateway that reads nothing doesn't delay the shell, and gets later what it has missed.
    let stopped = Pid::from_raw(gateway.pid());
    kill(stopped, Signal::SIGSTOP).expect("it is there");
    for count in 1..=3 {
        session.run(&format!("echo slow-$(({count} * 11))"));
    }
    kill(stopped, Signal::SIGCONT).expect("it is there");
    assert!(printed(&frames_until(&mut reader, "slow-33\r\n")).contains("slow-11\r\n"));
    // The connection is lost: the session continues over a new one, and nothing is missing.
    team.proxy.end();
    session.run("echo away-$((2 * 11))");
    session.run("seq 2000 | tail -n 1");
    team.proxy.begin();
    let frames = frames_until(&mut reader, "2000\r\n");
    assert!(printed(&frames).contains("away-22\r\n"), "{frames:?}");
    assert!(frames.iter().all(|frame| frame["k"] != "g"), "{frames:?}");
    // The recording up to now is there for late viewers of the next gateway, too.
    wait_for("the recording", || anna.get(&format!("/shares/{id}/recording")).text.contains("away-22").then_some(()));
    // The gateway is killed: the proxy answers in its place, and the shell reports that it waits.
    gateway.end(Signal::SIGKILL);
    session.run("echo dead-$((3 * 11))");
    session.expect_line("dead-33");
    wait_for("the word about the gateway", || {
        session.run(":share");
        session.screen_text().contains("the gateway doesn't answer now").then_some(())
    });
    // The next gateway continues the session at the same address, with the output from before and meanwhile.
    let gateway = Gateway::as_configured(team.home.path());
    let anna = gateway.client(&team.token("acme", "anna", "viewer")).with("X-Mode", "saas");
    let anna = anna.with("X-Tenant-Id", "acme").with("X-Project-Id", "default").with("X-Request-Id", "r-1");
    let late = snapshot_with(&anna, &id, "echo dead-");
    let screen = late["screen"].as_str().unwrap_or_default();
    for shown in ["away-22", "dead-33"] {
        assert!(screen.contains(shown), "{shown} in {late}");
    }
    session.run(":share off");
    expect_ended(&anna, &id);
    session.line("exit");
    session.expect_exit();
    team.server.end();
}

/// Shares a session through a proxy. `leads` returns its address and the trusted authorities for its port.
fn shared_by_proxy(leads: impl FnOnce(u16) -> (String, String)) {
    let Some((team, gateway)) = Team::start_at("team.test") else { return };
    let (listener, port) = (TcpListener::bind("127.0.0.1:0").expect("a port"), team.proxy.port);
    let (proxy, trusted) = leads(listener.local_addr().expect("an address").port());
    let (asks, asked) = channel();
    std::thread::spawn(move || passed_on(listener, port, &asks));
    let url = format!("https://team.test:{port}");
    let home = home_with(&format!("share = {{gateway = \"{url}\", token_env = \"TEAM\", tenant = \"acme\"}}"));
    let (secret, authority) = (team.token("acme", "me", "member"), home.path().join("authorities.pem"));
    let own = fs::read_to_string(&team.proxy.authority).expect("an authority");
    fs::write(&authority, format!("{own}\n{trusted}")).expect("both authorities");
    let spawn = Spawn::new(program()).home(home.path()).env("TEAM", &secret);
    let spawn = spawn.env("SSL_CERT_FILE", authority.to_str().expect("text")).env("HTTPS_PROXY", &proxy).size(30, 140);
    let session = Session::spawn(spawn);
    session.expect_prompt();
    let id = share(&session, "watch");
    let anna = team.client(&gateway, "acme", "anna", "viewer").with("Host", &format!("team.test:{port}"));
    let mut reader = Reader::new(anna.open(&format!("/sse/shares/{id}")));
    reader.expect("snapshot");
    session.run("echo shown-$((40 + 2))");
    frames_until(&mut reader, "shown-42\r\n");
    let head = asked.recv_timeout(PATIENCE).expect("a connection");
    assert!(head.starts_with(&format!("CONNECT team.test:{port} HTTP/1.1\r\n")), "{head}");
    assert!(head.contains("Proxy-Authorization: Basic YW5uOndvcmQ=\r\n") && !head.contains(&secret), "{head}");
    session.line("exit");
    session.expect_exit();
}

#[test]
fn a_teams_gateway_is_reached_by_the_proxy_that_the_environment_names() {
    shared_by_proxy(|port| (format!("http://ann:word@127.0.0.1:{port}"), String::new()));
}

#[test]
fn a_teams_gateway_is_reached_by_a_proxy_that_encrypts() {
    if !need::require(&["openssl", "python3"]) {
        return;
    }
    let mut front = None;
    shared_by_proxy(|port| {
        let front = front.insert(Front::before(&port.to_string(), "good"));
        let trusted = fs::read_to_string(front.authority()).expect("an authority");
        (format!("https://ann:word@127.0.0.1:{}", front.port), trusted)
    });
}

#[test]
fn one_tenant_cant_take_all_places_of_shared_sessions() {
    let Some((team, gateway)) = Team::start() else { return };
    let anna = team.client(&gateway, "acme", "anna", "member");
    let begin = |who: &Client<'_>| allowed(|| who.post("/shares", &json!({"kind": "agent", "cols": 80, "rows": 24})));
    let first = begin(&anna).json();
    for _ in 1..32 {
        assert_eq!(begin(&anna).status, 201);
    }
    let full = anna.post("/shares", &json!({"kind": "agent", "cols": 80, "rows": 24}));
    assert_eq!((full.status, full.code().as_str()), (429, "rate_limited"), "{full:?}");
    assert_eq!(begin(&team.client(&gateway, "other", "bob", "member")).status, 201);
    // After one has ended, its owner may start another one.
    let path = format!("/shares/{}", first["share_id"].as_str().expect("an id"));
    assert_eq!(anna.delete(&path).status, 204);
    assert_eq!(begin(&anna).status, 201);
}

#[test]
fn a_session_that_a_teams_gateway_cant_share_says_why_and_what_to_do() {
    let Some((team, _gateway)) = Team::start() else { return };
    let (good, front) = (team.token("acme", "me", "member"), team.proxy.port);
    let (viewer, closed) = (team.token("acme", "ben", "viewer"), free_port());
    let authority = team.proxy.authority.to_str().expect("text");
    let localhost = format!("https://localhost:{front}");
    for (gateway, tenant, secret, trusted, words) in [
        (&localhost, "acme", good.as_str(), "", &["no trusted authority vouches", "SSL_CERT_FILE"][..]),
        (&format!("https://127.0.0.1:{front}"), "acme", &good, authority, &["certificate is for another name"]),
        (
            &format!("https://localhost:{closed}"),
            "acme",
            &good,
            authority,
            &["can't be reached", "refused", "share.gateway"],
        ),
        (&localhost, "acme", "rc_person_wrong", authority, &["a valid token is needed", "share.token_env"]),
        (&localhost, "other", &good, authority, &["isn't a member of this tenant", "share.tenant"]),
        (&localhost, "acme", &viewer, authority, &["needs the role member; yours is viewer"]),
        (&localhost, "acme", "", authority, &["the variable TEAM isn't set", "token create"]),
        (&"http://team.example".to_owned(), "acme", &good, authority, &["https://"]),
    ] {
        let settings = format!("share = {{gateway = \"{gateway}\", token_env = \"TEAM\", tenant = \"{tenant}\"}}");
        let home = home_with(&format!("{settings}, models = {{tiny = {{endpoint = \"http://127.0.0.1:{closed}\"}}}}"));
        let mut asked = command(home.path(), &["agent", "--share", "watch", "-m", "a question"]);
        let asked = asked.env("TEAM", secret).env("SSL_CERT_FILE", trusted).output().expect("it runs");
        let told = String::from_utf8_lossy(&asked.stderr).split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(!asked.status.success(), "{words:?}: {told}");
        for word in words {
            assert!(told.contains(word), "{word}: {told}");
        }
        assert!(!told.contains(&good), "no error shows a token: {told}");
    }
}

#[test]
fn a_repository_cant_say_where_sessions_are_published() {
    let home = home_with("");
    let repository = home.path().join("ws");
    fs::write(repository.join(".reedclaw.lua"), "return {share = {gateway = \"https://evil.example\"}}")
        .expect("a file");
    let session = Session::spawn(super::spawn(home.path(), &[]).cwd(&repository).size(30, 120));
    // Not even a trusted project may.
    session.expect_text("a project can't say where your sessions are shown");
    session.expect_text("never [n]");
    session.send(b"t");
    session.expect_prompt();
    session.run(":share watch");
    session.expect_text("no gateway runs here");
    assert!(!session.screen_text().contains("evil.example can't"), "{}", session.screen_text());
    session.line("exit");
    session.expect_exit();
}
