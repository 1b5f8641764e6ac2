//! Servers that are reached by an address, played by a few lines of HTTP: sessions, streams, redirects, logins, and attacks.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;

use serde_json::json;

use super::*;
use crate::host::Authorities;
use crate::proto::served::OAuth;

/// A request as it came.
#[derive(Clone, Debug, Default)]
struct Seen {
    line: String,
    headers: String,
    body: Value,
    text: String,
}

impl Seen {
    fn header(&self, name: &str) -> Option<String> {
        self.headers.lines().find_map(|line| {
            let (key, value) = line.split_once(':')?;
            key.eq_ignore_ascii_case(name).then(|| value.trim().to_owned())
        })
    }

    fn method(&self) -> &str {
        self.body["method"].as_str().unwrap_or_default()
    }
}

/// A machine that answers HTTP requests with a function, while the value lives.
struct Site {
    url: String,
    seen: Arc<Mutex<Vec<Seen>>>,
}

impl Site {
    fn new(answer: impl Fn(&Seen, &str) -> String + Send + Sync + 'static) -> Self {
        let socket = TcpListener::bind("127.0.0.1:0").expect("a port");
        let url = format!("http://{}", socket.local_addr().expect("an address"));
        let (seen, own) = (Arc::new(Mutex::new(Vec::new())), url.clone());
        let (list, answer) = (Arc::clone(&seen), Arc::new(answer));
        std::thread::spawn(move || {
            for stream in socket.incoming().flatten() {
                let (list, answer, own) = (Arc::clone(&list), Arc::clone(&answer), own.clone());
                std::thread::spawn(move || {
                    let mut stream = stream;
                    while let Some(request) = received(&mut stream) {
                        list.lock().push(request.clone());
                        let answer = answer(&request, &own);
                        if stream.write_all(answer.as_bytes()).is_err() || answer.contains("Connection: close") {
                            break;
                        }
                    }
                });
            }
        });
        Self { url, seen }
    }

    fn seen(&self) -> Vec<Seen> {
        self.seen.lock().clone()
    }
}

fn received(stream: &mut TcpStream) -> Option<Seen> {
    let mut bytes = Vec::new();
    let mut piece = [0; 4096];
    let end = loop {
        if let Some(at) = bytes.windows(4).position(|end| end == b"\r\n\r\n") {
            break at + 4;
        }
        let count = stream.read(&mut piece).ok().filter(|count| *count > 0)?;
        bytes.extend_from_slice(&piece[..count]);
    };
    let head = String::from_utf8_lossy(&bytes[..end]).into_owned();
    let (line, headers) = head.split_once("\r\n")?;
    let mut request = Seen { line: line.to_owned(), headers: headers.to_owned(), ..Seen::default() };
    let length: usize = request.header("content-length").and_then(|text| text.parse().ok()).unwrap_or(0);
    while bytes.len() < end + length {
        let count = stream.read(&mut piece).ok().filter(|count| *count > 0)?;
        bytes.extend_from_slice(&piece[..count]);
    }
    request.text = String::from_utf8_lossy(&bytes[end..]).into_owned();
    request.body = serde_json::from_str(&request.text).unwrap_or_default();
    Some(request)
}

fn reply(status: &str, headers: &str, body: &str) -> String {
    format!("HTTP/1.1 {status}\r\n{headers}Content-Length: {}\r\n\r\n{body}", body.len())
}

fn in_json(request: &Seen, result: &Value) -> String {
    let body = json!({"jsonrpc": "2.0", "id": request.body["id"], "result": result}).to_string();
    reply("200 OK", "Content-Type: application/json\r\n", &body)
}

fn in_event(request: &Seen, result: &Value) -> String {
    let body = json!({"jsonrpc": "2.0", "id": request.body["id"], "result": result});
    reply("200 OK", "Content-Type: text/event-stream\r\n", &format!(": hello\r\n\r\ndata: {body}\n\n"))
}

/// A server of 2025-11-25 with one tool, which answers in events.
fn old(request: &Seen) -> String {
    match request.method() {
        _ if !request.line.starts_with("POST") => reply("405 Method Not Allowed", "", ""),
        "initialize" => {
            let result = json!({
                "protocolVersion": "2025-11-25", "capabilities": {"tools": {}},
                "serverInfo": {"name": "site", "version": "1"},
            });
            let body = json!({"jsonrpc": "2.0", "id": request.body["id"], "result": result}).to_string();
            reply("200 OK", "Content-Type: application/json\r\nMcp-Session-Id: s-1\r\n", &body)
        }
        "tools/list" => in_json(
            request,
            &json!({"tools": [{"name": "echo", "inputSchema": {"type": "object"}}], "ttlMs": 0, "cacheScope": "private"}),
        ),
        "tools/call" => {
            let text = request.body["params"]["arguments"]["text"].clone();
            in_event(request, &json!({"content": [{"type": "text", "text": text}]}))
        }
        method if method.starts_with("notifications/") => reply("202 Accepted", "", ""),
        _ => reply("400 Bad Request", "", ""),
    }
}

fn client(url: &str, state: Option<&Path>, headers: Vec<(String, String)>) -> Mcp {
    halting_client(url, state, headers, Arc::new(|| None))
}

fn halting_client(url: &str, state: Option<&Path>, headers: Vec<(String, String)>, halted: Halted) -> Mcp {
    let server = Server {
        name: "one".into(),
        place: Place::Url(url.to_owned()),
        era: Era::Auto,
        limits: ServerLimits { call: Duration::from_secs(20), ..ServerLimits::default() },
        oauth: OAuth::default(),
        may_ask: true,
        is_sse: false,
        has_resources: true,
        has_prompts: true,
        is_fetching: false,
    };
    let web = Web {
        authorities: Authorities::default(),
        headers: Arc::new(move |_| Ok(headers.clone())),
        dial: Arc::new(|url, _| http::agent(url, &Authorities::default())),
        secret: Arc::new(|_| Ok(None)),
    };
    Mcp::new(Options {
        servers: vec![server],
        launch: Arc::new(|_| Err("nothing is started".into())),
        end: Arc::new(|_: &[u32], _| true),
        web,
        halted,
        state: state.map(Path::to_owned),
    })
}

fn echo(mcp: &Mcp, text: &str) -> Result<String, McpError> {
    let arguments = json!({"text": text}).as_object().expect("an object").clone();
    let order = Order { server: "one".into(), tool: "echo".into(), arguments, seen: None };
    let reply = mcp.call(&order, &|| false, &mut Unasked)?;
    match &reply.parts[..] {
        [Part::Text(text)] => Ok(text.clone()),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_server_at_an_address_is_called_and_its_session_is_kept() {
    let site = Site::new(|request, _| old(request));
    let mcp = client(&site.url, None, vec![("X-Team".into(), "shell".into())]);
    assert_eq!(echo(&mcp, "hello"), Ok("hello".into()));
    let seen = site.seen();
    let call = seen.iter().find(|request| request.method() == "tools/call").expect("a call");
    assert_eq!(call.header("mcp-session-id").as_deref(), Some("s-1"));
    assert_eq!(call.header("mcp-protocol-version").as_deref(), Some("2025-11-25"));
    assert_eq!(call.header("x-team").as_deref(), Some("shell"));
    assert_eq!(call.header("accept").as_deref(), Some("application/json, text/event-stream"));
    assert!(call.header("authorization").is_none());
    drop(mcp);
    assert!(site.seen().iter().any(|request| request.line.starts_with("DELETE")), "the session is given back");
}

#[test]
fn a_redirect_is_not_followed_and_nothing_is_sent_there() {
    let elsewhere = Site::new(|request, _| old(request));
    let place = elsewhere.url.clone();
    let headers = move || format!("Location: {place}/mcp\r\n");
    let site = Site::new(move |_, _| reply("307 Temporary Redirect", &headers(), ""));
    let key = ("Authorization".to_owned(), "Bearer a-key-of-mine".to_owned());
    let error = echo(&client(&site.url, None, vec![key]), "x").expect_err("refused").to_string();
    assert!(error.contains("sends elsewhere") && !error.contains("a-key-of-mine"), "{error}");
    assert!(elsewhere.seen().is_empty());
    assert_eq!(site.seen()[0].header("authorization").as_deref(), Some("Bearer a-key-of-mine"));
}

#[test]
fn headers_cannot_be_forged() {
    let site = Site::new(|request, _| old(request));
    for (name, value) in [("X-A", "b\r\nX-Evil: 1"), ("X-A\r\nX-Evil", "1"), ("Mcp-Session-Id", "mine"), ("Host", "b")]
    {
        let error = echo(&client(&site.url, None, vec![(name.into(), value.into())]), "x");
        assert!(matches!(error, Err(McpError::Start { .. } | McpError::NotSent(_))), "{name}: {error:?}");
    }
    assert!(site.seen().is_empty(), "{:?}", site.seen());
    // A session's name is sent back in a header: only visible characters are accepted.
    let odd = Site::new(|request, _| match request.method() {
        "initialize" => old(request).replace("s-1", "s 1 \u{e9}"),
        _ => old(request),
    });
    assert!(echo(&client(&odd.url, None, Vec::new()), "x").is_err());
    assert!(odd.seen().iter().all(|request| request.header("mcp-session-id").is_none()));
}

#[test]
fn a_call_waits_for_the_stream_on_which_the_server_may_ask() {
    use std::sync::atomic::{AtomicBool, Ordering};
    let is_open = AtomicBool::new(false);
    let (called, call) = std::sync::mpsc::channel();
    let (called, call) = (Mutex::new(called), Mutex::new(call));
    let site = Site::new(move |request, _| match request.method() {
        _ if request.line.starts_with("GET") => {
            // A call that doesn't wait comes in this time, and finds the stream closed.
            let _ = call.lock().recv_timeout(Duration::from_millis(300));
            is_open.store(true, Ordering::SeqCst);
            old(request)
        }
        "tools/call" if !is_open.load(Ordering::SeqCst) => {
            let _ = called.lock().send(());
            in_event(request, &json!({"content": [{"type": "text", "text": "nobody listens"}]}))
        }
        _ => old(request),
    });
    assert_eq!(echo(&client(&site.url, None, Vec::new()), "asked"), Ok("asked".into()));
}

#[test]
fn a_session_that_the_server_forgot_is_begun_anew() {
    let is_forgotten = Arc::new(std::sync::atomic::AtomicBool::new(false));
    let flag = Arc::clone(&is_forgotten);
    let site = Site::new(move |request, _| match request.method() {
        "tools/call" if flag.swap(false, std::sync::atomic::Ordering::SeqCst) => reply("404 Not Found", "", ""),
        _ => old(request),
    });
    let mcp = client(&site.url, None, Vec::new());
    assert_eq!(echo(&mcp, "a"), Ok("a".into()));
    is_forgotten.store(true, std::sync::atomic::Ordering::SeqCst);
    assert_eq!(echo(&mcp, "b"), Ok("b".into()));
    assert_eq!(site.seen().iter().filter(|request| request.method() == "initialize").count(), 2);
}

#[test]
fn a_server_that_is_not_there_or_talks_nonsense_says_why() {
    let error = echo(&client("http://127.0.0.1:9/mcp", None, Vec::new()), "x").expect_err("nothing").to_string();
    assert!(error.contains("nothing answers at http://127.0.0.1:9/mcp"), "{error}");
    for nonsense in ["<html>", "{\"jsonrpc\": \"2.0\"", "\u{0}\u{1}"] {
        let site = Site::new(move |_, _| reply("200 OK", "Content-Type: application/json\r\n", nonsense));
        assert!(matches!(echo(&client(&site.url, None, Vec::new()), "x"), Err(McpError::Start { .. })), "{nonsense}");
    }
    let flood = Site::new(|request, _| match request.method() {
        "tools/call" => {
            reply("200 OK", "Content-Type: text/event-stream\r\n", &format!("data: {}", "x".repeat(5 << 20)))
        }
        _ => old(request),
    });
    let error = echo(&client(&flood.url, None, Vec::new()), "x").expect_err("too long");
    assert!(!matches!(error, McpError::NotSent(_)), "{error}");
}

/// A server with a login, which issues its tokens itself.
fn guarded(request: &Seen, own: &str, token: &str) -> String {
    let path = request.line.split(' ').nth(1).unwrap_or_default();
    let json = "Content-Type: application/json\r\n";
    match path.split('?').next().unwrap_or_default() {
        "/.well-known/oauth-protected-resource" => {
            reply("200 OK", json, &json!({"resource": own, "authorization_servers": [own]}).to_string())
        }
        "/.well-known/oauth-authorization-server" => reply(
            "200 OK",
            json,
            &json!({
                "issuer": own, "authorization_endpoint": format!("{own}/authorize"), "token_endpoint": format!("{own}/token"),
                "registration_endpoint": format!("{own}/register"), "code_challenge_methods_supported": ["S256"],
                "authorization_response_iss_parameter_supported": true,
            })
            .to_string(),
        ),
        "/register" => reply("201 Created", json, &json!({"client_id": "we"}).to_string()),
        "/token" => {
            let is_good = request.text.contains("code=the-code") || request.text.contains("refresh_token=again");
            let tokens = json!({"access_token": token, "refresh_token": "again", "token_type": "Bearer"});
            let refused = json!({"error": "invalid_grant"});
            if is_good { reply("200 OK", json, &tokens.to_string()) } else { reply("400 Bad Request", json, &refused.to_string()) }
        }
        _ if request.header("authorization").as_deref() == Some(&format!("Bearer {token}")) => old(request),
        _ => reply("401 Unauthorized", "WWW-Authenticate: Bearer scope=\"read\"\r\n", ""),
    }
}

/// A browser whose person agrees: it comes back with these changes to the fields.
struct Agrees(fn(&str) -> String);

impl Browser for Agrees {
    fn visit(&mut self, address: &str) -> Visit {
        let (place, query) = address.split_once("/authorize?").expect("the login");
        let field = |name: &str| {
            let found = query.split('&').find_map(|pair| pair.strip_prefix(&format!("{name}=")));
            found.expect("a field").to_owned()
        };
        assert_eq!((field("response_type").as_str(), field("code_challenge_method").as_str()), ("code", "S256"));
        assert!(query.contains("scope=read"));
        let issuer = place.replace(':', "%3A").replace('/', "%2F");
        Visit::Pasted((self.0)(&format!(
            "http://127.0.0.1:1/callback?code=the-code&state={}&iss={issuer}",
            field("state")
        )))
    }
}

#[test]
fn a_login_gives_a_token_that_is_kept_renewed_and_forgotten() {
    use std::os::unix::fs::MetadataExt;
    let state = tempfile::tempdir().expect("a directory");
    let token = Arc::new(Mutex::new("t-1".to_owned()));
    let now = Arc::clone(&token);
    let site = Site::new(move |request, own| guarded(request, own, &now.lock().clone()));
    let mcp = client(&site.url, Some(state.path()), Vec::new());
    assert_eq!(echo(&mcp, "x"), Err(McpError::NeedsLogin("one".into())));
    assert_eq!(mcp.standings()[0].1, Standing::NeedsLogin);
    mcp.login("one", &mut Agrees(str::to_owned), &|| false).expect("logged in");
    assert_eq!(echo(&mcp, "hello"), Ok("hello".into()));
    let files: Vec<_> = std::fs::read_dir(state.path().join("tokens")).expect("tokens").flatten().collect();
    assert!(files.iter().all(|file| file.metadata().expect("it is there").mode() & 0o077 == 0));
    // The server no longer takes the token: it is renewed without the person, also by another session.
    *token.lock() = "t-2".into();
    assert_eq!(echo(&mcp, "again"), Ok("again".into()));
    assert_eq!(echo(&client(&site.url, Some(state.path()), Vec::new()), "other"), Ok("other".into()));
    let renewed = site.seen().iter().filter(|request| request.text.contains("refresh_token=again")).count();
    assert_eq!(renewed, 1);
    assert!(site.seen().iter().all(|request| !request.line.contains("t-1") && !request.line.contains("t-2")));
    assert_eq!(mcp.logout("one"), Ok(true));
    assert_eq!(echo(&mcp, "x"), Err(McpError::NeedsLogin("one".into())));
}

#[test]
fn sessions_whose_token_is_refused_at_once_have_it_renewed_once() {
    let state = tempfile::tempdir().expect("a directory");
    let token = Arc::new(Mutex::new("t-1".to_owned()));
    let now = Arc::clone(&token);
    let site = Site::new(move |request, own| guarded(request, own, &now.lock().clone()));
    let mcp = client(&site.url, Some(state.path()), Vec::new());
    mcp.login("one", &mut Agrees(str::to_owned), &|| false).expect("logged in");
    let sessions: Vec<Mcp> = (0..4).map(|_| client(&site.url, Some(state.path()), Vec::new())).collect();
    for session in &sessions {
        assert_eq!(echo(session, "before"), Ok("before".into()));
    }
    *token.lock() = "t-2".into();
    std::thread::scope(|scope| {
        let calls: Vec<_> = sessions.iter().map(|session| scope.spawn(|| echo(session, "after"))).collect();
        for call in calls {
            assert_eq!(call.join().expect("no panic"), Ok("after".into()));
        }
    });
    assert_eq!(site.seen().iter().filter(|request| request.text.contains("refresh_token=again")).count(), 1);
}

#[test]
fn no_token_is_asked_for_once_everything_is_halted_during_a_login() {
    let site = Site::new(|request, own| guarded(request, own, "t"));
    let is_halted = Arc::new(std::sync::atomic::AtomicBool::new(false));
    let flag = Arc::clone(&is_halted);
    let halted = move || flag.load(std::sync::atomic::Ordering::SeqCst).then(|| "everything is halted".to_owned());
    let state = tempfile::tempdir().expect("a directory");
    let mcp = halting_client(&site.url, Some(state.path()), Vec::new(), Arc::new(halted));
    /// A browser whose person agrees just when the halt comes.
    struct Halts(Arc<std::sync::atomic::AtomicBool>);
    impl Browser for Halts {
        fn visit(&mut self, address: &str) -> Visit {
            self.0.store(true, std::sync::atomic::Ordering::SeqCst);
            Agrees(str::to_owned).visit(address)
        }
    }
    let failed = mcp.login("one", &mut Halts(Arc::clone(&is_halted)), &|| false);
    assert_eq!(failed, Err(McpError::Login("the login was stopped".into())));
    assert!(site.seen().iter().all(|request| !request.line.starts_with("POST /token")));
    let before = site.seen().len();
    assert_eq!(echo(&mcp, "x"), Err(McpError::Halted("everything is halted".into())));
    assert_eq!(site.seen().len(), before, "nothing is sent any more");
}

#[test]
fn a_document_without_an_end_is_read_only_as_far_as_its_limit() {
    /// Limit on what the test sends, which would otherwise take an hour.
    const SENT_MAX: usize = 64 << 20;
    let socket = TcpListener::bind("127.0.0.1:0").expect("a port");
    let url = format!("http://{}", socket.local_addr().expect("an address"));
    let (sender, sent) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        for stream in socket.incoming().flatten() {
            let sender = sender.clone();
            std::thread::spawn(move || {
                let mut stream = stream;
                while let Some(request) = received(&mut stream) {
                    if !request.line.contains("oauth-protected-resource") {
                        let refused = reply("401 Unauthorized", "WWW-Authenticate: Bearer\r\n", "");
                        if stream.write_all(refused.as_bytes()).is_err() {
                            return;
                        }
                        continue;
                    }
                    let head =
                        "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 1073741824\r\n\r\n";
                    let piece = vec![b' '; 64 << 10];
                    let mut count = 0;
                    if stream.write_all(head.as_bytes()).is_ok() {
                        while count < SENT_MAX && stream.write_all(&piece).is_ok() {
                            count += piece.len();
                        }
                    }
                    let _ = sender.send(count);
                    return;
                }
            });
        }
    });
    let state = tempfile::tempdir().expect("a directory");
    let mcp = client(&url, Some(state.path()), Vec::new());
    let failed = mcp.login("one", &mut Agrees(str::to_owned), &|| false);
    assert!(matches!(failed, Err(McpError::Login(_))), "{failed:?}");
    drop(mcp);
    let count = sent.recv_timeout(Duration::from_secs(60)).expect("the request has ended");
    assert!(count < SENT_MAX, "the whole of it was taken");
}

#[test]
fn a_login_that_is_bent_on_its_way_gives_nothing() {
    let site = Site::new(|request, own| guarded(request, own, "t"));
    let bent: [fn(&str) -> String; 4] = [
        |address| address.replace("state=", "state=x"),
        |address| address.split("&iss=").next().expect("it").to_owned(),
        |address| address.replace("&iss=", "&iss=https%3A%2F%2Fevil.example%2F"),
        |address| address.replace("code=the-code", "error=access_denied"),
    ];
    for change in bent {
        let state = tempfile::tempdir().expect("a directory");
        let mcp = client(&site.url, Some(state.path()), Vec::new());
        let failed = mcp.login("one", &mut Agrees(change), &|| false);
        assert!(matches!(failed, Err(McpError::Login(_))), "{failed:?}");
        assert_eq!(echo(&mcp, "x"), Err(McpError::NeedsLogin("one".into())));
    }
    assert!(site.seen().iter().all(|request| !request.line.starts_with("POST /token")));
}

#[test]
fn a_servers_documents_cannot_lead_a_login_elsewhere() {
    for document in [
        json!({"resource": "https://other.example", "authorization_servers": ["https://other.example"]}),
        json!({"resource": "SELF", "authorization_servers": ["http://169.254.169.254"]}),
        json!({"resource": "SELF", "authorization_servers": ["file:///etc"]}),
        json!({"resource": "SELF"}),
    ] {
        let site = Site::new(move |request, own| {
            if request.line.contains("oauth-protected-resource") {
                let body = document.to_string().replace("SELF", own);
                return reply("200 OK", "Content-Type: application/json\r\n", &body);
            }
            guarded(request, own, "t")
        });
        let state = tempfile::tempdir().expect("a directory");
        let failed =
            client(&site.url, Some(state.path()), Vec::new()).login("one", &mut Agrees(str::to_owned), &|| false);
        assert!(matches!(failed, Err(McpError::Login(_))), "{failed:?}");
        assert!(site.seen().iter().all(|request| !request.line.contains("/register")));
    }
}

#[test]
fn a_key_goes_to_no_other_machine_without_encryption() {
    for (url, is_read) in [
        ("https://tools.example/mcp", false),
        ("HTTPS://tools.example/mcp", false),
        ("http://127.0.0.1:8080/mcp", false),
        ("http://localhost/mcp", false),
        ("http://[::1]:1/", false),
        ("http://tools.example/mcp", true),
        ("HTTP://192.168.0.2/mcp", true),
        ("http://localhost.example/", true),
        ("http://127.0.0.1@tools.example/", true),
    ] {
        assert_eq!(http::is_open(url), is_read, "{url}");
    }
    let key = vec![("Authorization".to_owned(), "Bearer secret".to_owned())];
    let mcp = client("http://tools.example/mcp", None, key);
    let why = mcp.connect("one", &|| false).expect_err("nothing is sent").to_string();
    assert!(why.contains("unencrypted") && !why.contains("secret"), "{why}");
}
