//! Requests at one gateway for data that another gateway of the same database has.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::time::Instant;

use nix::sys::signal::Signal;
use reedclaw::ledger::{Ledger, Target};
use serde_json::{Value, json};
use tempfile::TempDir;

use super::published::free_port;
use super::server::Server;
use super::streams::Reader;
use super::{Answer, Client, Gateway, token};
use crate::https::Front;
use crate::need;
use crate::server::{Server as Model, Step, answer, head, piece};

/// Homes of two gateways on one database: the first listens on a port, and others reach it at an address.
fn homes(server: &Server, model: &Model, port: u16, url: &str) -> (TempDir, TempDir) {
    let settings = |port: u16, url: &str| {
        let models = format!("models = {{tiny = {{endpoint = \"{}\"}}}}", model.endpoint());
        let reach = format!("listen = \"127.0.0.1:{port}\", node_url = \"{url}\"");
        format!("{models}, memory = {{auto = false}}, gateway = {{{reach}}}")
    };
    let homes = (server.home_with(&settings(port, url)), super::home_with(&settings(free_port(), "")));
    fs::copy(homes.0.path().join(super::DATABASE), homes.1.path().join(super::DATABASE)).expect("the same database");
    homes
}

/// Asks a question that the model answers.
fn ask(model: &Model, client: &Client<'_>, body: Value) -> Answer {
    model.reply(answer("Indeed."));
    client.with("X-Request-Id", "mine").post("/chat", &body)
}

/// The next request at a listener: the part of its head and body that arrives at once, and its connection.
fn request_at(listener: &TcpListener) -> (String, TcpStream) {
    let (mut socket, _) = listener.accept().expect("a connection");
    let mut bytes = [0; 16 * 1024];
    let length = socket.read(&mut bytes).expect("a request");
    (String::from_utf8_lossy(&bytes[..length]).to_ascii_lowercase(), socket)
}

#[test]
fn a_request_about_what_another_gateway_has_goes_on_there_once() {
    let Some(server) = Server::start() else { return };
    let (model, port) = (Model::start(), free_port());
    let (home, other) = homes(&server, &model, port, &format!("http://127.0.0.1:{port}"));
    let secret = token(home.path(), "anna", "admin", &[]);
    let (one, two) = (Gateway::as_configured(home.path()), Gateway::as_configured(other.path()));
    let (here, there) = (one.client(&secret), two.client(&secret));
    let ask = |client: &Client<'_>, body: Value| ask(&model, client, body);
    let begun = ask(&here, json!({"message": "apples"})).json()["conversation_id"].clone();
    let more = ask(&there, json!({"message": "more", "conversation_id": begun}));
    assert_eq!((more.status, &more.json()["conversation_id"]), (200, &begun), "{more:?}");
    assert_eq!(more.headers["x-request-id"], "mine");
    assert!(model.request(2).raw.contains("apples"), "the conversation goes on where it is");
    // A run's events arrive as they are made, and the other gateway can stop the run.
    let run = || {
        model.reply(vec![head(), piece("Long "), Step::Hold]);
        let begun = here.with("Prefer", "respond-async").post("/chat", &json!({"message": "Go on."}));
        begun.json()["run_id"].as_str().expect("an id").to_owned()
    };
    let id = run();
    let (events, cancel) = (format!("/sse/runs/{id}"), format!("/runs/{id}/cancel"));
    let mut stream = Reader::new(there.open(&events));
    assert_eq!(stream.expect("text").2["text"], "Long ");
    // A request is passed on only once, only to the right gateway, and only for clients that may send it.
    let own = there.get("/status").json()["node_id"].as_str().expect("an id").to_owned();
    let again = there.with("X-Reedclaw-Hop", &own).get(&events);
    assert_eq!((again.status, again.code().as_str()), (503, "workspace_elsewhere"), "{again:?}");
    let strange = there.with("X-Reedclaw-Hop", "another").get("/auth/me");
    assert_eq!((strange.status, strange.code().as_str()), (503, "workspace_elsewhere"), "{strange:?}");
    assert_eq!(there.with("X-Project-Id", "elsewhere").post(&cancel, &json!({})).code(), "not_found");
    let viewer = two.client(&token(other.path(), "vera", "viewer", &[]));
    assert_eq!(viewer.post(&cancel, &json!({})).code(), "forbidden");
    assert_eq!(there.post(&cancel, &json!({})).status, 200);
    assert_eq!(stream.expect("cancelled").2["text"], "Long ");
    assert!(stream.next().is_none(), "its end is stored");
    // A stream that was passed on doesn't delay the end of the gateway that passes it on.
    let mut stream = Reader::new(there.open(&format!("/sse/runs/{}", run())));
    stream.expect("text");
    let ended = Instant::now();
    drop(there);
    assert_eq!(two.end(Signal::SIGTERM), Some(0));
    assert!(ended.elapsed().as_secs() < 10 && stream.next().is_none(), "{:?}", ended.elapsed());
    // If the other gateway is down, the answer is the usual refusal.
    let two = Gateway::as_configured(other.path());
    let there = two.client(&secret);
    one.end(Signal::SIGKILL);
    let refused = ask(&there, json!({"message": "?", "conversation_id": begun}));
    assert_eq!((refused.status, refused.code().as_str()), (503, "workspace_elsewhere"), "{refused:?}");
}

#[test]
fn a_request_goes_on_encrypted_to_a_certificate_that_is_trusted() {
    let Some(server) = Server::start() else { return };
    if !need::require(&["openssl", "python3"]) {
        return;
    }
    let (model, port) = (Model::start(), free_port());
    let front = Front::before(&port.to_string(), "good");
    let (home, other) = homes(&server, &model, port, &format!("https://127.0.0.1:{}", front.port));
    let secret = token(home.path(), "anna", "admin", &[]);
    let one = Gateway::as_configured(home.path());
    let begun = ask(&model, &one.client(&secret), json!({"message": "apples"})).json()["conversation_id"].clone();
    let wish = json!({"message": "more", "conversation_id": begun});
    let authority = front.authority().display().to_string();
    let trusting = Gateway::start_with(other.path(), &[("SSL_CERT_FILE", &authority)]);
    let more = ask(&model, &trusting.client(&secret), wish.clone());
    assert_eq!((more.status, &more.json()["conversation_id"]), (200, &begun), "{more:?}");
    drop(trusting);
    // A gateway that doesn't trust the authority sends nothing.
    let asked = model.requests();
    let stranger = Gateway::start_with(other.path(), &[]);
    let refused = stranger.client(&secret).post("/chat", &wish);
    assert_eq!((refused.status, refused.code().as_str()), (503, "workspace_elsewhere"), "{refused:?}");
    assert_eq!(model.requests(), asked);
}

#[test]
fn only_a_gateways_answer_comes_back_and_only_its_own_headers_go_there() {
    let Some(server) = Server::start() else { return };
    let (model, listener) = (Model::start(), TcpListener::bind("127.0.0.1:0").expect("a listener"));
    let url = format!("http://{}", listener.local_addr().expect("an address"));
    let (home, other) = homes(&server, &model, free_port(), &url);
    let secret = token(home.path(), "anna", "admin", &[]);
    let (one, two) = (Gateway::as_configured(home.path()), Gateway::as_configured(other.path()));
    let begun = ask(&model, &one.client(&secret), json!({"message": "apples"})).json()["conversation_id"].clone();
    let wish = json!({"message": "more", "conversation_id": begun});
    let own = one.client(&secret).get("/status").json()["node_id"].as_str().expect("an id").to_owned();
    let there = two.client(&secret).with("Cookie", "theirs=1").with("X-Secret", "theirs").with("X-Run-Id", "r-1");
    // A proxy whose gateway is down answers itself: it is unknown whether the question has begun.
    std::thread::scope(|scope| {
        let asked = scope.spawn(|| there.with("X-Request-Id", "mine").post("/chat", &wish));
        let (request, mut socket) = request_at(&listener);
        socket.write_all(b"HTTP/1.1 502 Bad Gateway\r\nSet-Cookie: a=b\r\nContent-Length: 3\r\n\r\n<a>").expect("sent");
        let refused = asked.join().expect("an answer");
        assert_eq!((refused.status, refused.code().as_str()), (502, "upstream"), "{refused:?}");
        assert!(!refused.text.contains("<a>") && !refused.headers.contains_key("set-cookie"), "{refused:?}");
        for line in
            [&format!("x-reedclaw-hop: {own}"), "x-request-id: mine", "x-run-id: r-1", "authorization: bearer rc_"]
        {
            assert!(request.contains(line), "{line}: {request}");
        }
        assert!(request.starts_with("post /chat http/1.1\r\n") && !request.contains("theirs"), "{request}");
    });
    // The gateway waits for a silent one as long as that one lives.
    std::thread::scope(|scope| {
        let asked = scope.spawn(|| there.post("/chat", &wish));
        let (_, _socket) = request_at(&listener);
        assert_eq!(one.end(Signal::SIGTERM), Some(0));
        let refused = asked.join().expect("an answer");
        assert_eq!((refused.status, refused.code().as_str()), (502, "upstream"), "{refused:?}");
    });
}

#[test]
fn an_address_of_another_machines_own_network_isnt_used_here() {
    let home = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a place");
    let path = home.path().join("gateway.db");
    let ledger = Ledger::open_at(Target::File(path.clone())).expect("a database");
    ledger.nodes().listens("127.0.0.1:1".into(), Some("http://127.0.0.1:1".into())).expect("a row");
    let rows = "INSERT INTO node SELECT 'beside', until_ms, address, started_ms, url, loopback FROM node;
                INSERT INTO node SELECT 'far', until_ms, address, started_ms, url, 'other' FROM node WHERE node_id = 'beside';
                INSERT INTO node SELECT 'named', until_ms, address, started_ms, 'https://x.example', 'other' FROM node
                WHERE node_id = 'beside';";
    rusqlite::Connection::open(path).and_then(|it| it.execute_batch(rows)).expect("rows of others");
    let nodes = ledger.nodes().list().expect("a list");
    let url = |id: &str| nodes.iter().find(|node| node.id == id).expect("a row").url.as_deref();
    assert_eq!(
        [url("beside"), url("far"), url("named")],
        [Some("http://127.0.0.1:1"), None, Some("https://x.example")]
    );
}
