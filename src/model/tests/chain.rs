//! Retries, fall-backs and choices among models, with scripts in place of servers.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use crate::model::script::{Step, done, response, serve, sse_head, text_event};
use crate::model::*;

/// Records all events and answers every crossing with yes or no.
struct Ear {
    heard: Vec<ChatEvent>,
    crossings: Vec<String>,
    yes: bool,
    cancel: Cancel,
}

impl Ear {
    fn new(yes: bool) -> Self {
        Self { heard: Vec::new(), crossings: Vec::new(), yes, cancel: Cancel::new() }
    }

    fn notices(&self) -> Vec<&str> {
        let notice = |event: &'_ ChatEvent| matches!(event, ChatEvent::Notice(_));
        self.heard
            .iter()
            .filter(|it| notice(it))
            .map(|it| if let ChatEvent::Notice(text) = it { text } else { "" })
            .collect()
    }

    fn text(&self) -> String {
        self.heard.iter().map(|it| if let ChatEvent::Text(text) = it { text.as_str() } else { "" }).collect()
    }
}

impl Sink for Ear {
    fn event(&mut self, event: ChatEvent) {
        self.heard.push(event);
    }

    fn cancel(&self) -> &Cancel {
        &self.cancel
    }

    fn permit(&mut self, _: &crate::model::Sending<'_>) -> Result<Option<u64>, crate::proto::Failure> {
        Ok(None)
    }

    fn consent(&mut self, crossing: &Crossing) -> bool {
        self.crossings.push(format!("{} to {} at {}", crossing.from, crossing.to, crossing.place));
        self.yes
    }
}

fn question(text: &str) -> Request {
    Request { messages: vec![Item::User(text.into())], ..Request::default() }
}

fn mock(name: &str, script: &str) -> Spec {
    Spec::Mock { name: name.into(), script: Ok(script.into()) }
}

fn reliable(of: &[&str], allow_remote: bool) -> Spec {
    Spec::Reliable { name: "r".into(), of: of.iter().map(|it| (*it).to_owned()).collect(), allow_remote }
}

/// A model that must not be reached by accident: a closed port under a name of another machine.
fn far(name: &str) -> Spec {
    Endpoint::new(name, "http://far.invalid:1", "x").into()
}

fn chat(specs: Vec<Spec>, name: &str, request: &Request, ear: &mut Ear) -> Result<Response, Box<ModelError>> {
    Models::new(specs).get(name).expect("the model").chat(request, ear)
}

#[test]
fn a_mock_plays_its_script() {
    let script = r#"
# a comment
{"when": "weather", "steps": [{"text": "sun"}, {"usage": {"in": 3, "out": 1}}, {"stop": "length"}]}
{"steps": [{"thought": "hm"}, {"text": "on"}, {"delay_ms": 1}, {"text": "e"}]}
{"steps": [{"tool_call": {"name": "read", "arguments": {"path": "/x"}}}]}
{"steps": [{"text": "half a wo"}, {"cut": true}]}
"#;
    let models = Models::new(vec![mock("m", script)]);
    let model = models.get("m").expect("the model");
    let mut ear = Ear::new(false);
    let first = model.chat(&question("hello"), &mut ear).expect("an answer");
    assert_eq!((first.text.as_str(), ear.text().as_str(), first.model.as_str()), ("one", "one", "m"));
    assert!(ear.heard.contains(&ChatEvent::Thought("hm".into())));
    let sunny = model.chat(&question("how is the weather?"), &mut ear).expect("an answer");
    assert_eq!(
        (sunny.text.as_str(), sunny.stop.reason, sunny.usage.map(|it| it.total_in())),
        ("sun", StopReason::Length, Some(3))
    );
    let second = model.chat(&question("next"), &mut ear).expect("an answer");
    let call = ToolCall { id: "call-0".into(), name: "read".into(), arguments: r#"{"path":"/x"}"#.into() };
    assert_eq!((second.calls, second.stop.reason), (vec![call], StopReason::ToolCalls));
    for _ in 0..2 {
        let mut ear = Ear::new(false);
        assert_eq!(model.chat(&question("last"), &mut ear).expect_err("a cut").fault, Fault::Cut);
        assert_eq!(ear.text(), "half a wo");
    }
}

#[test]
fn a_broken_script_is_reported_with_its_line() {
    for (script, why) in [
        ("{\"steps\": [{\"text\": 1}]}", "line 1: `text` isn't a string"),
        ("\n{}", "line 2: an answer has a list of `steps`"),
        ("nonsense", "line 1: expected"),
        ("{\"steps\": [{\"sing\": 1}]}", "line 1: there is no step `sing`"),
        ("{\"when\": \"x\", \"steps\": []}", "no answer for this question"),
    ] {
        let error = chat(vec![mock("m", script)], "m", &question("q"), &mut Ear::new(false)).expect_err(script);
        assert!(error.to_string().contains(why), "{error}");
        assert!(error.to_failure().hint.contains("models.m.script"));
    }
    let failure = Mock::unconnected().chat(&question("q"), &mut Ear::new(false)).expect_err("nobody").to_failure();
    assert_eq!(failure.message, "no model is set up");
    assert!(failure.hint.contains(":onboard"), "{}", failure.hint);
}

#[test]
fn the_next_model_is_asked_with_a_notice_if_one_cannot_be_reached() {
    let good = r#"{"steps": [{"text": "good"}]}"#;
    for (fault, falls) in [
        (r#"{"status": 429, "message": "slow"}"#, true),
        (r#"{"status": 503}"#, true),
        (r#"{"status": 529}"#, true),
        (r#"{"status": 401}"#, true),
        (r#"{"message": "refused"}"#, true),
        (r#"{"status": 400, "message": "bad"}"#, false),
        (r#"{"status": 404}"#, true),
        (r#"{"status": 403}"#, true),
        (r#"{"status": 402, "message": "no credit"}"#, true),
        (r#"{"status": 408}"#, true),
        ("cut", true),
    ] {
        let bad = match fault {
            "cut" => r#"{"steps": [{"cut": true}]}"#.to_owned(),
            _ => format!(r#"{{"steps": [{{"error": {fault}}}]}}"#),
        };
        let mut ear = Ear::new(false);
        let end =
            chat(vec![mock("a", &bad), mock("b", good), reliable(&["a", "b"], false)], "r", &question("q"), &mut ear);
        assert_eq!(end.is_ok(), falls, "{fault}: {end:?}");
        assert_eq!(ear.notices().len(), usize::from(falls), "{fault}");
        if let Ok(response) = end {
            assert_eq!((response.text.as_str(), response.model.as_str()), ("good", "b"));
            assert!(ear.notices()[0].starts_with("[model] model a at a script: "), "{:?}", ear.notices());
            assert!(ear.notices()[0].ends_with("; asking b"), "{:?}", ear.notices());
        }
    }
    // The user has already seen the first half.
    let half = r#"{"steps": [{"text": "half"}, {"error": {"status": 503}}]}"#;
    let mut ear = Ear::new(false);
    let specs = vec![mock("a", half), mock("b", good), reliable(&["a", "b"], false)];
    assert!(chat(specs, "r", &question("q"), &mut ear).is_err());
    assert_eq!((ear.text().as_str(), ear.notices().len()), ("half", 0));
}

#[test]
fn a_question_goes_no_farther_than_it_was_meant_without_a_word() {
    let down = r#"{"steps": [{"error": {}}]}"#;
    let good = r#"{"steps": [{"text": "good"}]}"#;
    let specs = || vec![mock("near", down), far("far"), mock("last", good), reliable(&["near", "far", "last"], false)];
    // No: the distant model is skipped with a notice, and the near one after it is asked.
    let mut ear = Ear::new(false);
    let answer = chat(specs(), "r", &question("q"), &mut ear).expect("an answer");
    assert_eq!((answer.model.as_str(), ear.crossings), ("last", vec!["near to far at far.invalid:1".to_owned()]));
    let is_shown = ear.heard.iter().any(|event| {
        matches!(event, ChatEvent::Notice(text) if text.contains("far was not asked: it is on the internet")
            && text.contains("models.r.allow_remote = true"))
    });
    assert!(is_shown, "{:?}", ear.heard);
    // Yes: it is asked, and fails there by its own.
    let mut ear = Ear::new(true);
    chat(specs(), "r", &question("q"), &mut ear).expect("an answer");
    assert_eq!(ear.crossings.len(), 1);
    assert_eq!(ear.notices().len(), 2, "{:?}", ear.notices());
    // With the consent in the config the person isn't asked.
    let mut ear = Ear::new(false);
    let allowed = vec![mock("near", down), far("far"), mock("last", good), reliable(&["near", "far", "last"], true)];
    chat(allowed, "r", &question("q"), &mut ear).expect("an answer");
    assert!(ear.crossings.is_empty() && ear.notices().len() == 2, "{:?}", ear.notices());
    // A question meant for a far model may stay nearer.
    let mut ear = Ear::new(false);
    let homeward = vec![far("far"), mock("near", good), reliable(&["far", "near"], false)];
    assert_eq!(chat(homeward, "r", &question("q"), &mut ear).expect("an answer").model, "near");
    assert!(ear.crossings.is_empty());
}

#[test]
fn a_router_chooses_by_hint_then_by_task() {
    let says = |name: &str| mock(name, &format!(r#"{{"steps": [{{"text": "{name}"}}]}}"#));
    let rules = [("default", "a"), ("code", "b"), ("long", "c"), ("summary", "gone")];
    let rules: BTreeMap<String, String> = rules.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
    let models = Models::new(vec![says("a"), says("b"), says("c"), Spec::Router { name: "w".into(), rules }]);
    let router = models.get("w").expect("the router");
    for (task, hint, expected) in [
        (Task::Chat, None, "a"),
        (Task::Code, None, "b"),
        (Task::Code, Some("long"), "c"),
        (Task::Chat, Some("unheard-of"), "a"),
        (Task::Summary, None, "a"),
    ] {
        let metadata = Metadata { task, hints: hint.into_iter().map(str::to_owned).collect() };
        let request = Request { metadata, ..question("q") };
        assert_eq!(router.chat(&request, &mut Ear::new(false)).expect("an answer").text, expected, "{task:?} {hint:?}");
    }
}

#[test]
fn models_in_a_circle_still_answer() {
    let good = r#"{"steps": [{"text": "good"}]}"#;
    let rules = BTreeMap::from([("default".to_owned(), "r".to_owned())]);
    let specs = vec![mock("a", good), reliable(&["w", "a"], false), Spec::Router { name: "w".into(), rules }];
    for name in ["r", "w"] {
        let end = chat(specs.clone(), name, &question("q"), &mut Ear::new(false));
        assert_eq!(end.expect("an answer").text, "good", "{name}");
    }
}

#[test]
fn a_refused_request_is_sent_again_after_the_wait_that_the_server_wants() {
    let refused = || vec![response("429 Too Many Requests", "retry-after: 0\r\n", "")];
    let server = serve(vec![refused(), refused(), vec![sse_head(), text_event("at last"), done()]]);
    let endpoint = Endpoint { retries: 2, ..Endpoint::new("m", &server.url, "x") };
    let mut ear = Ear::new(false);
    assert_eq!(chat(vec![endpoint.into()], "m", &question("q"), &mut ear).expect("an answer").text, "at last");
    assert_eq!(ear.notices().len(), 2);
    assert!(ear.notices()[1].contains("(2 of 2)"), "{:?}", ear.notices());

    let server = serve(vec![refused(), refused()]);
    let endpoint = Endpoint { retries: 1, ..Endpoint::new("m", &server.url, "x") };
    let error = chat(vec![endpoint.into()], "m", &question("q"), &mut Ear::new(false)).expect_err("refused twice");
    assert!(matches!(error.fault, Fault::RateLimited { .. }));

    // A piece of the answer has been shown, so it isn't requested again, although the fault would allow another try.
    let limited = Step::Send(b"data: {\"error\":{\"code\":\"rate_limit_exceeded\",\"message\":\"slow\"}}\n\n".to_vec());
    let server =
        serve(vec![vec![sse_head(), text_event("half"), limited], vec![sse_head(), text_event("again"), done()]]);
    let endpoint = Endpoint { retries: 2, ..Endpoint::new("m", &server.url, "x") };
    let mut ear = Ear::new(false);
    let fault = chat(vec![endpoint.into()], "m", &question("q"), &mut ear).expect_err("limited").fault;
    assert!(matches!(fault, Fault::RateLimited { .. }), "{fault}");
    assert_eq!(ear.text(), "half");
}

#[test]
fn a_field_that_a_server_refuses_is_left_out_from_then_on() {
    let refusal = || vec![response("400 Bad Request", "", r#"{"error":{"message":"Unknown field: stream_options"}}"#)];
    let answer = || vec![sse_head(), text_event("ok"), done()];
    let server = serve(vec![refusal(), answer(), answer()]);
    let models = Models::new(vec![Endpoint::new("m", &server.url, "x").into()]);
    for _ in 0..2 {
        let answer = models.get("m").expect("the model").chat(&question("q"), &mut Ear::new(false));
        assert_eq!(answer.expect("an answer").text, "ok");
    }
    let asked: Vec<bool> = server.requests.try_iter().map(|it| it.contains("stream_options")).collect();
    assert_eq!(asked, [true, false, false]);
}

#[test]
fn a_stop_ends_every_wait_at_once() {
    // While waiting to try again, for headers, for the first piece, in mid-answer, in a mock's delay.
    let waits = [
        vec![response("429 Too Many Requests", "retry-after: 50\r\n", "")],
        vec![Step::Hold],
        vec![sse_head(), Step::Hold],
        vec![sse_head(), text_event("a"), Step::Hold],
    ];
    let mut specs: Vec<Spec> = Vec::new();
    let mut servers = Vec::new();
    for (at, steps) in waits.into_iter().enumerate() {
        let server = serve(vec![steps]);
        specs.push(Endpoint { retries: 2, ..Endpoint::new(&format!("s{at}"), &server.url, "x") }.into());
        servers.push(server);
    }
    specs.push(mock("slow", r#"{"steps": [{"delay_ms": 600000}, {"text": "never"}]}"#));
    let names: Vec<String> = specs.iter().map(|spec| spec.name().to_owned()).collect();
    let models = Models::new(specs);
    for name in names {
        let mut ear = Ear::new(false);
        let cancel = ear.cancel.clone();
        let model = models.get(&name).expect("the model").clone();
        let (sender, stopped) = std::sync::mpsc::channel();
        let thread = std::thread::spawn(move || {
            let fault = model.chat(&question("q"), &mut ear).expect_err("stopped").fault;
            sender.send((fault, Instant::now())).expect("somebody listens");
        });
        // Long enough to reach the point at which it hangs; a shorter wait would only test an earlier one.
        assert!(stopped.recv_timeout(Duration::from_millis(150)).is_err(), "{name} doesn't hang");
        let begun = Instant::now();
        cancel.cancel();
        let (fault, ended) = stopped.recv().expect("it ends");
        assert_eq!(fault, Fault::Cancelled, "{name}");
        assert!(ended.duration_since(begun) < Duration::from_millis(100), "{name}");
        thread.join().expect("the thread ends");
    }
}

#[test]
fn a_key_is_read_once_and_a_failure_to_read_it_is_the_answer() {
    let server = serve(vec![vec![sse_head(), text_event("ok"), done()], vec![sse_head(), text_event("ok"), done()]]);
    let reads = std::sync::Arc::new(std::sync::atomic::AtomicUsize::new(0));
    let counted = reads.clone();
    let reader = KeyReader::new(move |_| match counted.fetch_add(1, std::sync::atomic::Ordering::SeqCst) {
        0 => Err(crate::proto::Failure::config("the key of m can't be read").hint("see")),
        _ => Ok(Secret::new("sk-late")),
    });
    let models =
        Models::new(vec![Endpoint { key_reader: Some(reader), ..Endpoint::new("m", &server.url, "x") }.into()]);
    let model = models.get("m").expect("the model");
    let failure = model.chat(&question("q"), &mut Ear::new(false)).expect_err("no key").to_failure();
    assert_eq!(failure.message, "the key of m can't be read");
    for _ in 0..2 {
        model.chat(&question("q"), &mut Ear::new(false)).expect("an answer");
    }
    assert_eq!(reads.load(std::sync::atomic::Ordering::SeqCst), 2);
    assert!(server.requests.recv().expect("a request").to_lowercase().contains("bearer sk-late"));
}

#[test]
fn each_protocol_sends_its_own_headers() {
    for (protocol, head) in [
        (Protocol::OpenAi, "authorization: bearer sk-1"),
        (Protocol::Responses, "authorization: bearer sk-1"),
        (Protocol::Anthropic, "x-api-key: sk-1"),
        (Protocol::Anthropic, "anthropic-version: 2023-06-01"),
        (Protocol::Gemini, "x-goog-api-key: sk-1"),
    ] {
        let server = serve(vec![vec![response("401 Unauthorized", "", "bad key sk-1")]]);
        let endpoint = Endpoint { protocol, key: Some(Secret::new("sk-1")), ..Endpoint::new("m", &server.url, "x") };
        let error = chat(vec![endpoint.into()], "m", &question("q"), &mut Ear::new(false)).expect_err("401");
        assert!(!error.to_string().contains("sk-1"), "{error}");
        let request = server.requests.recv().expect("a request").to_ascii_lowercase();
        assert!(request.contains(head), "{request}");
    }
}

#[test]
fn a_server_lists_its_models_in_any_of_the_usual_forms() {
    for body in
        [r#"{"object":"list","data":[{"id":"a"},{"id":"b"}]}"#, r#"{"models":[{"name":"models/a"},{"model":"b"}]}"#]
    {
        let server = serve(vec![vec![response("200 OK", "", body)]]);
        assert_eq!(list_models(&Endpoint::new("m", &server.url, "x")), Ok(vec!["a".to_owned(), "b".to_owned()]));
        assert!(server.requests.recv().expect("a request").starts_with("GET /v1/models "));
    }
    let server = serve(vec![vec![response("200 OK", "", "<html>")]]);
    assert!(matches!(
        list_models(&Endpoint::new("m", &server.url, "x")).expect_err("garbage").fault,
        Fault::Garbage { .. }
    ));
}

/// A whole streamed answer whose connection may be used again.
fn chunked(text: &str) -> Step {
    let json = serde_json::json!({"choices": [{"index": 0, "delta": {"content": text}, "finish_reason": null}]});
    let body = format!("data: {json}\n\ndata: [DONE]\n\n");
    let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n";
    Step::Send(format!("{head}{:x}\r\n{body}\r\n0\r\n\r\n", body.len()).into_bytes())
}

/// Waits until the connection of the last answer may be used again.
fn wait_for_connection(server: &Server) {
    let begun = Instant::now();
    while server.connections.free() == 0 {
        assert!(begun.elapsed() < Duration::from_secs(60), "the connection isn't given back");
        std::thread::yield_now();
    }
}

#[test]
fn the_next_question_goes_out_on_the_same_connection() {
    // The script accepts one connection only.
    let script = serve(vec![vec![chunked("one"), Step::Next, chunked("two"), Step::Next, chunked("three")]]);
    let server = Server::new(Endpoint::new("m", &script.url, "x"));
    for text in ["one", "two", "three"] {
        let answer = server.chat(&question("q"), &mut Ear::new(false)).expect("an answer");
        assert_eq!(answer.text, text);
        wait_for_connection(&server);
    }
}

#[test]
fn a_connection_that_the_server_closes_is_replaced_silently() {
    // The server closes it when the second question is on its way, then before the third one is sent.
    let script = serve(vec![vec![chunked("one"), Step::Next], vec![chunked("two")], vec![chunked("three")]]);
    let mut endpoint = Endpoint::new("m", &script.url, "x");
    endpoint.retries = 0;
    let server = Server::new(endpoint);
    for text in ["one", "two", "three"] {
        let mut ear = Ear::new(false);
        assert_eq!(server.chat(&question("q"), &mut ear).expect("an answer").text, text);
        assert!(ear.notices().is_empty(), "{:?}", ear.notices());
        if text == "one" {
            wait_for_connection(&server);
        }
    }
}

#[test]
fn a_response_that_does_not_end_holds_up_no_question() {
    let script = serve(vec![vec![sse_head(), text_event("one"), done(), Step::Hold], vec![chunked("two")]]);
    let server = Server::new(Endpoint::new("m", &script.url, "x"));
    let mut ear = Ear::new(false);
    assert_eq!(server.chat(&question("q"), &mut ear).expect("an answer").text, "one");
    drop(server);
    script.closed.recv_timeout(Duration::from_secs(120)).expect("the connection is closed");
}
