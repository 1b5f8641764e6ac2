//! The room against a scripted server that plays every fault on real sockets.

mod chain;

use std::net::TcpListener;
use std::thread;
use std::time::{Duration, Instant};

use super::exchange::connections::Connections;
use super::script::{Script, Step, done, response, serve, sse_head, text_event};
use super::wire::Without;
use super::{
    Cancel, Count, Countable, Endpoint, Fault, Item, ModelError, Piece, Protocol, Provider, Request, Response, Secret,
    Server, Stop, StopReason, Stream,
};
use crate::proto::{FailureKind, Message, Role};

const LONG: Duration = Duration::from_secs(60);

fn question() -> Request {
    Request::of(&[
        Message { role: Role::System, content: "be brief".into() },
        Message { role: Role::User, content: "hé?".into() },
    ])
}

fn start(endpoint: &Endpoint, request: &Request) -> Stream {
    super::exchange::stream::start(endpoint, request, Without::default(), &Connections::default(), None)
}

fn drain(stream: &mut Stream) -> (String, Result<Response, Box<ModelError>>) {
    let mut text = String::new();
    loop {
        match stream.recv_timeout(LONG) {
            Ok(Some(Piece::Text(piece))) => text.push_str(&piece),
            Ok(Some(Piece::Done(response))) => return (text, Ok(*response)),
            Ok(Some(Piece::Thought(_) | Piece::AtWork(_)) | None) => {}
            Err(error) => return (text, Err(error)),
        }
    }
}

fn ask(steps: Vec<Step>) -> (String, Result<Response, Box<ModelError>>) {
    let server = serve(vec![steps]);
    drain(&mut start(&Endpoint::new("m", &server.url, "x"), &question()))
}

fn fault_of(steps: Vec<Step>) -> (String, Fault) {
    let (text, end) = ask(steps);
    (text, end.expect_err("a fault").fault)
}

#[test]
fn an_answer_streams_and_the_request_is_as_the_protocol_says() {
    let server = serve(vec![vec![sse_head(), text_event("hel"), text_event("lo"), done()]]);
    let mut endpoint = Endpoint::new("m", &server.url, "some-model");
    endpoint.temperature = Some(0.5);
    endpoint.key = Some(Secret::new("sk-1"));
    let (text, end) = drain(&mut start(&endpoint, &question()));
    let response = end.expect("an answer");
    assert_eq!((text.as_str(), response.text.as_str(), response.stop), ("hello", "hello", Stop::default()));
    let request = server.requests.recv().expect("a request");
    let (head, body) = request.split_once("\r\n\r\n").expect("a head");
    assert!(head.starts_with("POST /v1/chat/completions HTTP/1.1"), "{head}");
    assert!(head.to_ascii_lowercase().contains("authorization: bearer sk-1"), "{head}");
    let body: serde_json::Value = serde_json::from_str(body).expect("JSON");
    let expected = serde_json::json!({"model": "some-model", "stream": true, "stream_options": {"include_usage": true}, "temperature": 0.5, "messages": [
        {"role": "system", "content": "be brief"}, {"role": "user", "content": "hé?"}]});
    assert_eq!(body, expected);
}

#[test]
fn a_piece_arrives_before_the_next_one_is_sent() {
    let server = serve(vec![vec![sse_head(), text_event("first"), Step::Await, text_event("second"), done()]]);
    let mut stream = start(&Endpoint::new("m", &server.url, "x"), &question());
    assert_eq!(stream.recv_timeout(LONG), Ok(Some(Piece::Text("first".into()))));
    server.go.send(()).expect("the server waits");
    assert_eq!(drain(&mut stream).0, "second");
}

#[test]
fn chunks_and_pieces_may_be_cut_inside_a_character() {
    let event = "data: {\"choices\":[{\"delta\":{\"content\":\"é🦀\"}}]}\n\ndata: [DONE]\n\n";
    let mut steps = vec![Step::Send(
        b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n".to_vec(),
    )];
    for byte in event.bytes() {
        steps.push(Step::Send([b"1\r\n".as_slice(), &[byte], b"\r\n"].concat()));
    }
    steps.push(Step::Send(b"0\r\n\r\n".to_vec()));
    let (text, end) = ask(steps);
    assert_eq!(text, "é🦀");
    assert!(end.is_ok());
}

#[test]
fn an_object_in_place_of_a_stream_is_accepted_and_vice_versa() {
    let object = r#"{"choices":[{"message":{"role":"assistant","content":"whole"},"finish_reason":"length"}]}"#;
    let (text, end) = ask(vec![response("200 OK", "content-type: application/json\r\n", object)]);
    let stop = Stop { reason: StopReason::Length, server_text: "length".into() };
    assert_eq!((text.as_str(), end.expect("an answer").stop), ("whole", stop));

    let server = serve(vec![
        vec![response("200 OK", "", object)],
        vec![sse_head(), text_event("str"), text_event("eamed"), done()],
    ]);
    let endpoint = Endpoint::new("m", &server.url, "x");
    let request = Request { whole: true, ..question() };
    let complete = || drain(&mut start(&endpoint, &request)).1.expect("an answer").text;
    assert_eq!(complete(), "whole");
    assert!(server.requests.recv().expect("a request").contains("\"stream\":false"));
    assert_eq!(complete(), "streamed");
}

#[test]
fn a_closed_port_is_reported_with_its_address() {
    let port = TcpListener::bind("127.0.0.1:0").and_then(|it| it.local_addr()).expect("a port").port();
    let endpoint = Endpoint::new("local", &format!("http://127.0.0.1:{port}"), "x");
    let error = drain(&mut start(&endpoint, &question())).1.expect_err("a fault");
    assert_eq!(error.fault, Fault::Refused);
    let failure = error.to_failure();
    assert_eq!(failure.message, format!("model local at 127.0.0.1:{port}: connection refused"));
    assert_eq!(failure.kind, FailureKind::Unreachable);
    assert!(failure.hint.contains("models.local.endpoint"));
}

#[test]
fn an_unknown_host_name_is_reported() {
    // `.invalid` never resolves (RFC 6761), with or without a network.
    let endpoint = Endpoint::new("m", "http://no-such-host.invalid:1", "x");
    let fault = drain(&mut start(&endpoint, &question())).1.expect_err("a fault").fault;
    assert!(matches!(fault, Fault::NameNotResolved | Fault::ConnectTimeout(_)), "{fault}");
}

#[test]
fn each_refusal_has_its_own_fault_and_words() {
    let json = "content-type: application/json\r\n";
    let table: Vec<(&str, String, &str, Fault)> = vec![
        (
            "401 Unauthorized",
            json.into(),
            r#"{"error":{"message":"bad\nkey \u001b[31msk-1"}}"#,
            Fault::Unauthorized { status: 401, had_key: true, server_text: "bad key [31m***".into() },
        ),
        (
            "403 Forbidden",
            json.into(),
            r#"{"detail":"no"}"#,
            Fault::Unauthorized { status: 403, had_key: true, server_text: "no".into() },
        ),
        (
            "404 Not Found",
            json.into(),
            r#"{"error":{"message":"model 'x' not found"}}"#,
            Fault::NotFound { server_text: "model 'x' not found".into() },
        ),
        (
            "429 Too Many Requests",
            "retry-after: 7\r\n".into(),
            r#"{"error":"slow down"}"#,
            Fault::RateLimited { retry_after: Some("7".into()), server_text: "slow down".into() },
        ),
        (
            "500 Internal Server Error",
            String::new(),
            "oops\n",
            Fault::Server { status: 500, retry_after: None, server_text: "oops".into() },
        ),
        (
            "503 Service Unavailable",
            json.into(),
            r#"{"error":{"code":503,"message":"Loading model"}}"#,
            Fault::Server { status: 503, retry_after: None, server_text: "Loading model".into() },
        ),
        (
            "400 Bad Request",
            json.into(),
            r#"{"error":{"code":400,"message":"the request exceeds it","type":"exceed_context_size_error","n_ctx":64}}"#,
            Fault::ContextOverflow { server_text: "the request exceeds it".into() },
        ),
        (
            "400 Bad Request",
            json.into(),
            r#"{"error":{"message":"bad temperature"}}"#,
            Fault::Rejected { status: 400, server_text: "bad temperature".into() },
        ),
        (
            "307 Temporary Redirect",
            "location: http://elsewhere/\r\n".into(),
            "",
            Fault::Redirected { status: 307, location: "http://elsewhere/".into() },
        ),
    ];
    for (status, headers, body, expected) in table {
        let server = serve(vec![vec![response(status, &headers, body)]]);
        let mut endpoint = Endpoint::new("m", &server.url, "x");
        endpoint.key = Some(Secret::new("sk-1"));
        endpoint.key_env = Some("M_KEY".into());
        let error = drain(&mut start(&endpoint, &question())).1.expect_err(status);
        assert_eq!(error.fault, expected, "{status}");
        let failure = error.to_failure();
        assert!(!failure.message.contains('\n') && !failure.hint.is_empty(), "{failure:?}");
        assert!(!format!("{failure:?}").contains("sk-1"), "{failure:?}");
    }
}

#[test]
fn a_proxys_page_is_reported_by_its_title() {
    let page = "<html><head><title>502\nBad Gateway</title></head><body>nginx</body>";
    let (_, fault) = fault_of(vec![response("502 Bad Gateway", "content-type: text/html\r\n", page)]);
    assert_eq!(fault, Fault::Server { status: 502, retry_after: None, server_text: "502 Bad Gateway".into() });
}

#[test]
fn a_429_says_when_to_come_back() {
    let (_, fault) = fault_of(vec![response("429 Too Many Requests", "retry-after: 7\r\n", "")]);
    assert_eq!(fault.to_string(), "too many requests (HTTP 429), retry after 7 s");
}

#[test]
fn a_cut_answer_keeps_its_first_part() {
    assert_eq!(fault_of(vec![sse_head(), text_event("half of")]), ("half of".into(), Fault::Cut));
    let chunked = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n".to_vec();
    let piece = "data: {\"choices\":[{\"delta\":{\"content\":\"half\"}}]}\n\n";
    let chunk = format!("{:x}\r\n{piece}\r\n40\r\ndata: {{\"cho", piece.len()).into_bytes();
    assert_eq!(fault_of(vec![Step::Send(chunked), Step::Send(chunk)]), ("half".into(), Fault::Cut));
    let head = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 500\r\n\r\n{\"choices\":[{\"mess";
    assert_eq!(fault_of(vec![Step::Send(head.into())]), (String::new(), Fault::Cut));
}

#[test]
fn garbage_and_silence_are_different_faults() {
    assert_eq!(
        fault_of(vec![response("200 OK", "content-type: text/html\r\n", "<html>hello</html>")]).1,
        Fault::Garbage { sample: "<html>hello</html>".into() }
    );
    assert!(matches!(fault_of(vec![Step::Send(b"SSH-2.0-x\r\n\r\n".to_vec())]).1, Fault::Garbage { .. }));
    assert_eq!(fault_of(vec![]).1, Fault::ClosedEarly);
    assert_eq!(fault_of(vec![response("200 OK", "", "")]).1, Fault::ClosedEarly);
}

#[test]
fn an_error_inside_the_stream_ends_it() {
    let error = Step::Send(b"data: {\"error\":{\"message\":\"slot\\u0007 gone\"}}\n\n".to_vec());
    assert_eq!(
        fault_of(vec![sse_head(), text_event("a"), error]),
        ("a".into(), Fault::ErrorInAnswer { server_text: "slot gone".into() })
    );
}

#[test]
fn each_silence_has_its_own_limit() {
    let short = Duration::from_millis(50);
    let table = [
        (vec![Step::Hold], "", Fault::NeverStarted(short)),
        (vec![sse_head(), Step::Hold], "", Fault::NeverStarted(short)),
    ];
    for (steps, text, fault) in table {
        let server = serve(vec![steps]);
        let endpoint = Endpoint { first_byte_timeout: short, ..Endpoint::new("m", &server.url, "x") };
        let (got, end) = drain(&mut start(&endpoint, &question()));
        assert_eq!((got.as_str(), end.expect_err("a fault").fault), (text, fault));
        server.closed.recv_timeout(LONG).expect("the connection is closed, so that the server stops too");
    }
    let server = serve(vec![vec![sse_head(), text_event("a"), Step::Hold]]);
    let endpoint = Endpoint { idle_timeout: short, ..Endpoint::new("m", &server.url, "x") };
    let mut stream = start(&endpoint, &question());
    let (got, end) = drain(&mut stream);
    assert_eq!((got.as_str(), end.expect_err("a fault").fault), ("a", Fault::Stalled(short)));
    assert!(stream.recv_timeout(LONG).is_err(), "the end stays the end");
}

/// A server that sent `: k` every half second blocked a question until Ctrl-C, despite the limits.
#[test]
fn comments_and_blank_lines_do_not_extend_the_limits() {
    let short = Duration::from_millis(200);
    for dripped in [": k\n\n", "\n", ": OPENROUTER PROCESSING\r\n\r\n"] {
        let drip = || Step::Drip(dripped.as_bytes().to_vec());
        let server = serve(vec![vec![sse_head(), drip()], vec![sse_head(), text_event("a"), drip()]]);
        let limits = |first_byte_timeout, idle_timeout| Endpoint {
            first_byte_timeout,
            idle_timeout,
            ..Endpoint::new("m", &server.url, "x")
        };
        let (_, end) = drain(&mut start(&limits(short, LONG), &question()));
        assert_eq!(end.expect_err("a fault").fault, Fault::NeverStarted(short), "{dripped:?}");
        server.closed.recv_timeout(LONG).expect("the connection is closed");
        let (text, end) = drain(&mut start(&limits(LONG, short), &question()));
        assert_eq!((text.as_str(), end.expect_err("a fault").fault), ("a", Fault::Stalled(short)), "{dripped:?}");
    }
}

/// The arguments of a call aren't text, and may take longer than the limit between two pieces of text.
#[test]
fn data_without_text_extends_the_limits() {
    let server = serve(vec![vec![sse_head(), text_event("a"), Step::Drip(b"data: {\"choices\":[]}\n\n".to_vec())]]);
    let endpoint = Endpoint { idle_timeout: Duration::from_secs(1), ..Endpoint::new("m", &server.url, "x") };
    let mut stream = start(&endpoint, &question());
    assert_eq!(stream.recv_timeout(LONG), Ok(Some(Piece::Text("a".into()))));
    assert_eq!(stream.recv_timeout(Duration::from_millis(1500)), Ok(None), "it goes on");
}

#[test]
fn turning_away_is_immediate_and_closes_the_connection() {
    for steps in [vec![Step::Hold], vec![sse_head(), Step::Hold], vec![sse_head(), text_event("a"), Step::Hold]] {
        let server = serve(vec![steps]);
        let mut stream = start(&Endpoint::new("m", &server.url, "x"), &question());
        server.requests.recv_timeout(LONG).expect("the request is there");
        stream.waker().wake();
        while !matches!(stream.recv_timeout(LONG), Ok(None)) {}
        let begun = Instant::now();
        stream.cancel();
        // Far more than it needs, far less than every time-out: only a wait on the server could exceed it.
        assert!(begun.elapsed() < Duration::from_secs(5));
        server.closed.recv_timeout(LONG).expect("the connection is closed");
    }
}

#[test]
fn a_caller_that_drops_a_full_channel_leaves_no_waiting_thread() {
    let mut steps = vec![sse_head()];
    steps.extend((0..2000).map(|_| text_event("word ")));
    steps.push(Step::Hold);
    let server = serve(vec![steps]);
    let mut stream = start(&Endpoint::new("m", &server.url, "x"), &question());
    assert!(matches!(stream.recv_timeout(LONG), Ok(Some(Piece::Text(_)))));
    drop(stream);
    server.closed.recv_timeout(LONG).expect("the connection is closed");
}

#[test]
fn an_endpoint_that_cannot_be_used_is_a_matter_of_the_config() {
    let error = drain(&mut start(&Endpoint::new("m", "localhost:8080", "x"), &question())).1.expect_err("a fault");
    assert_eq!(error.to_failure().kind, FailureKind::Config);
    let endpoint = Endpoint::new("m", "http://me:secret@h", "x");
    let failure = drain(&mut start(&endpoint, &question())).1.expect_err("a fault").to_failure();
    assert!(!format!("{failure:?}").contains("secret"), "{failure:?}");
    let server = serve(vec![vec![]]);
    let endpoint = Endpoint { key: Some(Secret::new("a\nb")), ..Endpoint::new("m", &server.url, "x") };
    assert_eq!(drain(&mut start(&endpoint, &question())).1.expect_err("a fault").fault, Fault::BadKey);
}

/// The server's window counts unless the config sets one, and the server is asked for it only once.
#[test]
fn a_llama_server_tells_its_window() {
    let props = r#"{"default_generation_settings": {"n_ctx": 4096}}"#;
    let learnt = |change: &dyn Fn(&mut Endpoint), served: &str| {
        let server = serve(vec![vec![response("200 OK", "", served)]]);
        let mut endpoint = Endpoint { asks_server: true, ..Endpoint::new("m", &server.url, "x") };
        change(&mut endpoint);
        let provider = Server::new(endpoint);
        provider.learn(&Cancel::new());
        provider.learn(&Cancel::new());
        (provider.capabilities().context_tokens, server.requests.try_iter().count())
    };
    assert_eq!(learnt(&|_| {}, props), (Some(4096), 1));
    assert_eq!(learnt(&|_| {}, "{}"), (None, 1));
    assert_eq!(learnt(&|it| it.asks_server = false, props), (None, 0));
    assert_eq!(learnt(&|it| it.context_tokens = Some(100), props), (Some(100), 1));
    assert_eq!(learnt(&|it| it.protocol = Protocol::Anthropic, props), (None, 0));
}

/// A template without a place for tools silently leaves them out; llama.cpp reports this for its own.
#[test]
fn a_llama_server_whose_template_has_no_tools_gets_none() {
    for (settings, tools) in
        [("{\"supports_tools\": false}", false), ("{\"supports_tools\": true}", true), ("{}", true)]
    {
        let props = format!("{{\"default_generation_settings\": {{}}, \"chat_template_caps\": {settings}}}");
        let server = serve(vec![vec![response("200 OK", "", &props)]]);
        let provider = Server::new(Endpoint { asks_server: true, ..Endpoint::new("m", &server.url, "x") });
        assert!(provider.capabilities().tools, "it wasn't asked");
        provider.learn(&Cancel::new());
        assert_eq!(provider.capabilities().tools, tools, "{settings}");
    }
}

/// A llama.cpp server describes itself once, then counts the tokens that its own template makes of a request.
#[test]
fn a_llama_server_counts_for_itself() {
    let json = |body: &str| vec![response("200 OK", "", body)];
    let server = serve(vec![
        json(r#"{"default_generation_settings": {"n_ctx": 2048}, "chat_template": "x"}"#),
        json(r#"{"tokens": [1, 2, 3]}"#),
        json(r#"{"prompt": "<|user|>hello"}"#),
        json(r#"{"tokens": [1, 2, 3, 4, 5]}"#),
    ]);
    let provider = Server::new(Endpoint::new("m", &format!("{}/v1", server.url), "x"));
    let exact = |tokens| Some(Count { tokens, method: "counted by the server".into(), is_exact: true });
    assert_eq!(provider.capabilities().context_tokens, None, "it wasn't asked");
    assert_eq!(provider.count(Countable::Text("hello"), &Cancel::new()), exact(3));
    assert_eq!(provider.capabilities().context_tokens, Some(2048), "it said so beside");
    let request = Request { messages: vec![Item::User("hello".into())], ..Request::default() };
    assert_eq!(provider.count(Countable::Request(&request), &Cancel::new()), exact(5));
    let asked: Vec<String> = server.requests.try_iter().collect();
    for (request, head, body) in [
        (&asked[0], "GET /props HTTP", ""),
        (&asked[1], "POST /tokenize HTTP", r#""content":"hello""#),
        (&asked[2], "POST /apply-template HTTP", r#""messages":[{"content":"hello","role":"user"}]"#),
        (&asked[3], "POST /tokenize HTTP", r#""content":"<|user|>hello","parse_special":true"#),
    ] {
        assert!(request.starts_with(head) && request.contains(body), "{head}: {request}");
    }
}

#[test]
fn a_server_that_cannot_count_is_asked_once_and_one_that_hangs_is_left() {
    let server = serve(vec![vec![response("404 Not Found", "", "")]]);
    let provider = Server::new(Endpoint::new("m", &server.url, "x"));
    assert_eq!(provider.count(Countable::Text("hello"), &Cancel::new()), None);
    assert_eq!(provider.count(Countable::Text("hello"), &Cancel::new()), None);
    assert_eq!(server.requests.try_iter().count(), 1);
    // A name that OpenAI's models have: counted, but not surely.
    let server = serve(vec![vec![Step::Hold]]);
    let provider = Server::new(Endpoint::new("m", &server.url, "gpt-4o"));
    let cancel = Cancel::new();
    let stopper = cancel.clone();
    let Script { requests, .. } = server;
    let thread = thread::spawn(move || {
        requests.recv().expect("a request");
        stopper.cancel();
    });
    let count = provider.count(Countable::Text("hello world"), &cancel).expect("a count");
    assert_eq!((count.tokens, count.is_exact), (2, false));
    thread.join().expect("it ends");
}
