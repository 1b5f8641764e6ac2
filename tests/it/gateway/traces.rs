//! Traces in a file, in the form that OpenTelemetry's collector reads, and the path of a trace through the gateway.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use nix::sys::signal::Signal;
use serde_json::{Value, json};

use super::runs::traceparent;
use super::server::Server;
use super::{Gateway, home_with, token};
use crate::server::{Server as Model, answer, refusal, tool_call};

const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";
const PARENT: &str = "b7ad6b7169203331";

/// The settings for a model, and for a gateway with additional settings.
fn settings(model: &Model, gateway: &str) -> String {
    let models = format!("models = {{tiny = {{endpoint = \"{}\", model = \"tiny-1\"}}}}", model.endpoint());
    format!("{models}, memory = {{auto = false}}, context = {{project = false}}, gateway = {{{gateway}}}")
}

/// All spans of a file, with their attributes by name.
fn spans(file: &Path) -> Vec<Value> {
    let text = fs::read_to_string(file).expect("the file of spans");
    let mut spans = Vec::new();
    for line in text.lines() {
        let line: Value = serde_json::from_str(line).expect("a line of JSON");
        for span in line["resourceSpans"][0]["scopeSpans"][0]["spans"].as_array().expect("spans") {
            let mut span = span.clone();
            let named = |it: &Value| {
                let value = it["value"].as_object().and_then(|value| value.values().next().cloned());
                (it["key"].as_str().unwrap_or_default().to_owned(), value.unwrap_or_default())
            };
            span["attributes"] = span["attributes"].as_array().expect("attributes").iter().map(named).collect();
            spans.push(span);
        }
    }
    spans
}

/// The spans whose name begins with this.
fn named<'s>(spans: &'s [Value], name: &str) -> Vec<&'s Value> {
    spans.iter().filter(|span| span["name"].as_str().is_some_and(|it| it.starts_with(name))).collect()
}

/// The only one of them.
fn one<'s>(spans: &'s [Value], name: &str) -> &'s Value {
    let [span] = named(spans, name)[..] else { panic!("not one {name} in {spans:?}") };
    span
}

#[test]
fn a_request_its_run_its_models_and_its_tools_are_spans_of_the_clients_trace() {
    let (model, directory) = (Model::start(), tempfile::tempdir().expect("a directory"));
    let file = directory.path().join("spans/gateway.jsonl");
    let home = home_with(&settings(&model, &format!("traces = \"{}\"", file.display())));
    let gateway = Gateway::start(home.path());
    let anna = gateway.client(&token(home.path(), "anna", "member", &[]));
    model.reply(tool_call("file_list", "{\"path\": \".\"}"));
    model.reply(answer("Only pears."));
    let traced = anna.with("traceparent", &format!("00-{TRACE}-{PARENT}-01")).with("X-Request-Id", "ask-1");
    let said = traced.post("/chat", &json!({"message": "What about apples?"}));
    assert_eq!(said.status, 200, "{said:?}");
    // A client that doesn't want a trace gets none, but its header is still passed on.
    model.reply(answer("Nothing."));
    let unwanted = format!("00-{}-{PARENT}-00", TRACE.replace('0', "1"));
    assert_eq!(anna.with("traceparent", &unwanted).post("/chat", &json!({"message": "?"})).status, 200);
    assert!(traceparent(&model.request(3).head).starts_with(&unwanted[..36]));
    assert!(traceparent(&model.request(3).head).ends_with("-00"));
    assert_eq!(anna.get("/runs/none").status, 404);
    assert_eq!(gateway.end(Signal::SIGTERM), Some(0));

    let spans = spans(&file);
    let (request, run, tool) =
        (one(&spans, "POST /chat"), one(&spans, "invoke_agent reedclaw"), one(&spans, "execute_tool file_list"));
    let chats = named(&spans, "chat tiny-1");
    assert_eq!(chats.len(), 2, "{spans:?}");
    for span in [request, run, tool, chats[0], chats[1]] {
        assert_eq!(span["traceId"], TRACE, "{span}");
        let [from, to] = ["startTimeUnixNano", "endTimeUnixNano"].map(|name| span[name].as_str().expect("text"));
        assert!(from.len() == 19 && from <= to, "{span}");
    }
    assert_eq!((&request["parentSpanId"], &request["kind"]), (&json!(PARENT), &json!(2)), "{request}");
    assert_eq!((&run["parentSpanId"], &run["kind"]), (&request["spanId"], &json!(1)), "{run}");
    for (below, kind) in [(tool, 1), (chats[0], 3), (chats[1], 3)] {
        assert_eq!((&below["parentSpanId"], &below["kind"]), (&run["spanId"], &json!(kind)), "{below}");
    }
    for (number, chat) in chats.iter().enumerate() {
        let sent = traceparent(&model.request(number + 1).head);
        assert_eq!(sent, format!("00-{TRACE}-{}-01", chat["spanId"].as_str().expect("an id")), "{chat}");
    }
    let has = |span: &Value, name: &str, value: &str| assert_eq!(span["attributes"][name], value, "{name} of {span}");
    has(request, "http.route", "/chat");
    has(request, "http.response.status_code", "200");
    has(request, "reedclaw.request.id", "ask-1");
    has(run, "gen_ai.operation.name", "invoke_agent");
    has(run, "reedclaw.run.id", said.json()["run_id"].as_str().expect("an id"));
    has(run, "reedclaw.run.state", "answered");
    has(run, "gen_ai.conversation.id", &said.json()["conversation_id"].to_string());
    has(tool, "gen_ai.operation.name", "execute_tool");
    has(tool, "gen_ai.tool.name", "file_list");
    has(chats[0], "gen_ai.provider.name", "openai");
    has(chats[0], "gen_ai.request.model", "tiny-1");
    assert_eq!(chats[0]["attributes"]["gen_ai.response.finish_reasons"]["values"][0]["stringValue"], "tool_calls");
    assert_eq!(chats[1]["attributes"]["gen_ai.response.finish_reasons"]["values"][0]["stringValue"], "stop");
    // A client's mistake isn't a failure of the gateway, and a request without a trace starts its own.
    let missing = one(&spans, "GET /runs/{run_id}");
    assert!(missing["status"].get("code").is_none() && missing.get("parentSpanId").is_none(), "{missing}");
    assert_eq!(spans.len(), 6, "{spans:?}");
    // The file has no content of conversations, and no other user can read it.
    let text = fs::read_to_string(&file).expect("the file");
    assert!(!text.contains("apples") && !text.contains("pears"), "{text}");
    assert_eq!(file.metadata().expect("a file").permissions().mode() & 0o777, 0o600);
}

#[test]
fn what_fails_is_marked_in_its_span_with_its_kind() {
    let (model, directory) = (Model::start(), tempfile::tempdir().expect("a directory"));
    let file = directory.path().join("gateway.jsonl");
    let home = home_with(&settings(&model, &format!("traces = \"{}\"", file.display())));
    let gateway = Gateway::start(home.path());
    let anna = gateway.client(&token(home.path(), "anna", "member", &[]));
    let wanted = json!({"action_name": "file_read", "subject_type": "thread", "subject_id": "t",
        "args": {"path": "there-is-none"}});
    let read = anna.post("/actions/execute", &wanted);
    assert_eq!((read.status, &read.json()["status"]), (200, &json!("failed")), "{read:?}");
    model.reply(refusal("401 Unauthorized", "no such key"));
    assert_eq!(anna.post("/chat", &json!({"message": "?"})).status, 502);
    assert_eq!(gateway.end(Signal::SIGTERM), Some(0));
    let spans = spans(&file);
    let action = one(&spans, "POST /actions/execute");
    let tool = one(&spans, "execute_tool file_read");
    assert_eq!(tool["parentSpanId"], action["spanId"], "{tool}");
    assert!(action["status"].get("code").is_none(), "{action}");
    for (name, kind) in [
        ("execute_tool file_read", read.json()["result"]["error"]["code"].as_str().expect("a code")),
        ("chat tiny-1", "Unauthorized"),
        ("invoke_agent reedclaw", "config"),
        ("POST /chat", "502"),
    ] {
        let span = one(&spans, name);
        assert_eq!((&span["status"]["code"], &span["attributes"]["error.type"]), (&json!(2), &json!(kind)), "{span}");
    }
}

#[test]
fn a_trace_goes_through_the_gateway_that_passes_a_request_on() {
    let Some(server) = Server::start() else { return };
    let (model, directory) = (Model::start(), tempfile::tempdir().expect("a directory"));
    let (first, second) = (directory.path().join("first.jsonl"), directory.path().join("second.jsonl"));
    let port = super::published::free_port();
    let with = |port: u16, url: &str, file: &Path| {
        let reach = format!("listen = \"127.0.0.1:{port}\", node_url = \"{url}\"");
        settings(&model, &format!("{reach}, traces = \"{}\"", file.display()))
    };
    let home = server.home_with(&with(port, &format!("http://127.0.0.1:{port}"), &first));
    let other = home_with(&with(super::published::free_port(), "", &second));
    fs::copy(home.path().join(super::DATABASE), other.path().join(super::DATABASE)).expect("the same database");
    let secret = token(home.path(), "anna", "admin", &[]);
    let (one_of, two) = (Gateway::as_configured(home.path()), Gateway::as_configured(other.path()));
    model.reply(answer("Indeed."));
    let begun = one_of.client(&secret).post("/chat", &json!({"message": "apples"})).json()["conversation_id"].clone();
    model.reply(answer("More."));
    let there = two.client(&secret).with("traceparent", &format!("00-{TRACE}-{PARENT}-01"));
    assert_eq!(there.post("/chat", &json!({"message": "more", "conversation_id": begun})).status, 200);
    drop(there);
    assert_eq!(two.end(Signal::SIGTERM), Some(0));
    assert_eq!(one_of.end(Signal::SIGTERM), Some(0));
    let passing = spans(&second);
    let passing = one(&passing, "POST /chat");
    let doing: Vec<Value> = spans(&first).into_iter().filter(|span| span["traceId"] == TRACE).collect();
    assert_eq!((&passing["traceId"], &passing["parentSpanId"]), (&json!(TRACE), &json!(PARENT)), "{passing}");
    assert_eq!(one(&doing, "POST /chat")["parentSpanId"], passing["spanId"], "{doing:?}");
    assert_eq!(one(&doing, "chat tiny-1")["traceId"], TRACE);
}
