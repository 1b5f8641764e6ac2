//! The recorded responses of each protocol, read whole and cut at every byte; the requests; the counts of tokens.

use std::path::Path;

use serde_json::{Value, json};

use super::*;
use crate::model::endpoint::Thinking;
use crate::model::error::Fault;
use crate::model::exchange::decode::{Decoder, Progress};
use crate::model::request::{Item, Response, ToolCall, ToolResult};

/// Reads a fixture in pieces: the thoughts, and the answer.
fn read(protocol: Protocol, pieces: &[&[u8]]) -> (String, String, Result<Response, Fault>) {
    let mut decoder = Decoder::new(protocol);
    let (mut text, mut thought) = (String::new(), String::new());
    let mut take = |decoder: &mut Decoder| {
        let fresh = decoder.fresh();
        text.push_str(&fresh.text);
        thought.push_str(&fresh.thought);
    };
    let mut end = None;
    for piece in pieces {
        let fed = decoder.feed(piece);
        take(&mut decoder);
        match fed {
            Ok(Progress::More) => {}
            Ok(Progress::Done) => end = Some(Ok(())),
            Err(fault) => end = Some(Err(fault)),
        }
        if end.is_some() {
            break;
        }
    }
    let end = end.unwrap_or_else(|| {
        let end = decoder.finish();
        take(&mut decoder);
        end
    });
    (text, thought, end.map(|()| decoder.response("m")))
}

fn fixture(name: &str) -> Vec<u8> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures").join(name);
    std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn protocol_of(name: &str) -> Protocol {
    match name.split('-').next() {
        Some("openai") => Protocol::OpenAi,
        Some("responses") => Protocol::Responses,
        Some("anthropic") => Protocol::Anthropic,
        Some("gemini") => Protocol::Gemini,
        _ => panic!("whose fixture is {name}?"),
    }
}

/// The expectation for a fixture: name; text; thoughts; calls as id, name, arguments; reason for the end; tokens in the
/// order of `Usage`; number of parts that go back.
type Row = (
    &'static str,
    &'static str,
    &'static str,
    &'static [(&'static str, &'static str, &'static str)],
    (StopReason, &'static str),
    [u64; 5],
    usize,
);

const READ_HOSTS: &str = r#"{"path":"/etc/hosts"}"#;
const FIXTURES: &[Row] = &[
    ("openai-text.sse", "Grüße, \"shell\" 🐚\n", "", &[], (StopReason::Done, "stop"), [86, 1920, 0, 108, 192], 0),
    (
        "openai-tools.sse",
        "",
        "",
        &[
            ("call_a", "read", r#"{"path":"/etc/höst"}"#),
            ("call_b", "list", r#"{"dir":"/tmp"}"#),
            ("call_c", "now", "{}"),
        ],
        (StopReason::ToolCalls, "tool_calls"),
        [50, 0, 0, 20, 0],
        0,
    ),
    ("openai-reasoning.sse", "42", "Let me think.", &[], (StopReason::Length, "length"), [12, 18, 0, 9, 0], 0),
    (
        "openai-tools.json",
        "I look.",
        "",
        &[("call_a", "read", r#"{"path":"/etc/höst"}"#)],
        (StopReason::ToolCalls, "tool_calls"),
        [10, 0, 0, 5, 0],
        0,
    ),
    ("responses-text.sse", "Grüße, 🐚", "", &[], (StopReason::Length, "max_output_tokens"), [20, 16, 0, 23, 64], 1),
    (
        "responses-tools.sse",
        "",
        "Looking it up.",
        &[("call_a", "read", READ_HOSTS), ("call_b", "now", "{}")],
        (StopReason::ToolCalls, "completed"),
        [60, 0, 40, 20, 10],
        3,
    ),
    ("responses-text.json", "Grüße", "", &[], (StopReason::Done, "completed"), [36, 0, 0, 8, 0], 2),
    ("anthropic-text.sse", "Grüße, 🐚\n", "", &[], (StopReason::Done, "end_turn"), [21, 2048, 188, 15, 0], 1),
    (
        "anthropic-tools.sse",
        "",
        "I should \"look\" — é.",
        &[("toolu_1", "read", r#"{"path": "/etc/hosts", "n": 1.50}"#), ("toolu_2", "now", "{}")],
        (StopReason::ToolCalls, "tool_use"),
        [472, 0, 0, 49, 40],
        4,
    ),
    (
        "anthropic-tools.json",
        "I look.",
        "",
        &[("toolu_1", "read", r#"{"path": "/etc/hosts"}"#)],
        (StopReason::ToolCalls, "tool_use"),
        [12, 0, 0, 30, 0],
        2,
    ),
    ("gemini-text.sse", "Grüße, 🐚\n", "**Plan** first.", &[], (StopReason::Done, "STOP"), [36, 64, 0, 5, 20], 2),
    (
        "gemini-tools.sse",
        "",
        "",
        &[("reedclaw-0", "read", r#"{"path":"/etc/hosts","n":1.50}"#), ("fn-7", "now", "{}")],
        (StopReason::ToolCalls, "STOP"),
        [68, 0, 0, 30, 11],
        2,
    ),
    ("gemini-blocked.json", "", "", &[], (StopReason::Filtered, "SAFETY"), [4, 0, 0, 0, 0], 0),
];

#[test]
fn every_fixture_says_the_same_cut_at_every_byte() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures");
    let files = std::fs::read_dir(folder).expect("the fixtures").filter_map(Result::ok);
    let files = files.filter(|file| {
        let name = file.file_name();
        [".sse", ".json"].iter().any(|end| name.to_string_lossy().ends_with(end))
    });
    assert_eq!(files.count(), FIXTURES.len(), "a fixture isn't in the table");
    for (name, text, thought, calls, stop, tokens, parts) in FIXTURES {
        let bytes = fixture(name);
        let protocol = protocol_of(name);
        let whole = read(protocol, &[&bytes]);
        let response = whole.2.as_ref().unwrap_or_else(|fault| panic!("{name}: {fault}"));
        assert_eq!((whole.0.as_str(), response.text.as_str(), whole.1.as_str()), (*text, *text, *thought), "{name}");
        let got: Vec<_> = response.calls.iter().map(|it| (&*it.id, &*it.name, &*it.arguments)).collect();
        assert_eq!(got, *calls, "{name}");
        assert_eq!((response.stop.reason, response.stop.server_text.as_str()), *stop, "{name}");
        let usage = response.usage.as_ref().expect("usage");
        let got = [usage.uncached_in, usage.cache_read, usage.cache_write, usage.visible_out, usage.reasoning_out];
        assert_eq!(got, *tokens, "{name}");
        assert_eq!(response.state.as_ref().map_or(0, |state| state.parts.len()), *parts, "{name}");
        // Data after the end that the server announces isn't read.
        let end = bytes.windows(6).position(|it| it == b"[DONE]").map_or(bytes.len(), |at| at + 6);
        assert!(bytes.starts_with(response.raw.as_bytes()) && response.raw.len() >= end, "{name}");
        for cut in 0..=bytes.len() {
            let (cut_text, cut_thought, cut_end) = read(protocol, &[&bytes[..cut], &bytes[cut..]]);
            let cut_response = cut_end.unwrap_or_else(|fault| panic!("{name} cut at {cut}: {fault}"));
            let same = Response { raw: response.raw.clone(), ..cut_response.clone() };
            assert!(bytes.starts_with(cut_response.raw.as_bytes()));
            assert_eq!((&cut_text, &cut_thought, &same), (&whole.0, &whole.1, response), "{name} cut at {cut}");
        }
        let single: Vec<&[u8]> = bytes.chunks(1).collect();
        assert_eq!(read(protocol, &single).0, whole.0, "{name} byte by byte");
    }
}

#[test]
fn a_stream_that_breaks_off_anywhere_never_counts_as_complete() {
    for (name, ..) in FIXTURES.iter().filter(|row| row.0.ends_with(".sse")) {
        let bytes = fixture(name);
        let protocol = protocol_of(name);
        let whole = read(protocol, &[&bytes]).2.expect("whole").text;
        let text = String::from_utf8(bytes.clone()).expect("text");
        // Once the server has named the reason for the end, nothing of the answer is missing.
        let ends = [
            "finish_reason\":\"",
            "\"stop_reason\":\"",
            "finishReason\":\"",
            "response.completed",
            "response.incomplete",
        ];
        let end = ends.iter().filter_map(|word| text.find(word)).min().expect("an end");
        for cut in 0..end {
            let (text, _, end) = read(protocol, &[&bytes[..cut]]);
            assert!(end.is_err(), "{name} broken off at {cut}");
            assert!(whole.starts_with(&text), "{name} broken off at {cut}: {text}");
        }
    }
}

fn endpoint(protocol: Protocol) -> Endpoint {
    Endpoint { protocol, ..Endpoint::new("m", "http://127.0.0.1:1", "m-1") }
}

fn body_text(request: &Request, protocol: Protocol) -> String {
    String::from_utf8(body(request, &endpoint(protocol), Without::default()).expect("a body")).expect("text")
}

/// A question, the fixture's answer with its calls, and the results.
fn cycle(name: &str) -> (Request, Response) {
    let response = read(protocol_of(name), &[&fixture(name)]).2.expect("an answer");
    let results = response.calls.iter().map(|call| {
        let (id, name) = (call.id.clone(), call.name.clone());
        Item::Tool(ToolResult { id, name, content: "done".into(), is_error: false })
    });
    let answer =
        Item::Assistant { text: response.text.clone(), calls: response.calls.clone(), state: response.state.clone() };
    let messages = [Item::User("q".into()), answer].into_iter().chain(results).collect();
    (Request { system: Some("sys".into()), messages, ..Request::default() }, response)
}

#[test]
fn a_providers_state_returns_unchanged_and_only_to_it() {
    for (name, exact) in [
        (
            "anthropic-tools.sse",
            &[
                r#"{"signature":"EqQBCgIYAhIM1gbcDa9GJwZA2b3h+/==","thinking":"I should \"look\" — é.","type":"thinking"}"#,
                r#"{"type":"redacted_thinking",  "data":"EmwKAhgBEgy3va3pzix/LafPsn4a"}"#,
                r#""input":{"path": "/etc/hosts", "n": 1.50}"#,
            ][..],
        ),
        (
            "responses-tools.sse",
            &[
                r#"{"type":"reasoning","id":"rs_1",  "summary":[{"type":"summary_text","text":"Looking it up."}],"encrypted_content":"gAAAAB+/é\u00e9=="}"#,
            ][..],
        ),
        (
            "gemini-tools.sse",
            &[
                r#"{"functionCall":{"name":"read","args":{"path":"/etc/hosts","n":1.50}},  "thoughtSignature":"CiQB0e2Kb\u002b/=="}"#,
            ][..],
        ),
    ] {
        let (request, response) = cycle(name);
        let own = body_text(&request, protocol_of(name));
        let parts = response.state.as_ref().expect("a state").parts.join(",");
        assert!(own.contains(&parts), "{name}: {own}");
        exact.iter().for_each(|part| assert!(own.contains(part), "{name} lacks {part}: {own}"));
        for other in Protocol::ALL.into_iter().filter(|it| *it != protocol_of(name)) {
            let sent = body_text(&request, other);
            for secret in ["EqQB", "EmwK", "gAAAAB", "CiQB"] {
                assert!(!sent.contains(secret), "{name} to {}: {sent}", other.word());
            }
            assert!(sent.contains("/etc/hosts"), "the call is known to {}: {sent}", other.word());
        }
        // Another model of the same protocol didn't write it either.
        let stranger = Endpoint { name: "other".into(), ..endpoint(protocol_of(name)) };
        let sent = String::from_utf8(body(&request, &stranger, Without::default()).expect("a body")).expect("text");
        assert!(!sent.contains(&parts));
    }
}

/// Arguments that a template takes apart are always valid JSON; a damaged call is reported in its result.
#[test]
fn a_call_that_was_cut_off_goes_back_as_one_without_arguments() {
    let endpoint = endpoint(Protocol::OpenAi);
    for (wrote, sent) in [(r#"{"path": "a"#, "{}"), ("7", "{}"), (r#"{"path": "a"}"#, r#"{\"path\": \"a\"}"#)] {
        let call = ToolCall { id: "1".into(), name: "read".into(), arguments: wrote.into() };
        let messages = vec![Item::Assistant { text: String::new(), calls: vec![call], state: None }];
        let body = body(&Request { messages, ..Request::default() }, &endpoint, Without::default()).expect("a body");
        let body = String::from_utf8(body).expect("text");
        assert!(body.contains(&format!(r#""arguments":"{sent}""#)), "{body}");
    }
}

fn with_tools() -> Request {
    let tool = |name: &str| Tool { name: name.into(), description: "d".into(), schema: r#"{"type":"object"}"#.into() };
    let (request, _) = cycle("openai-tools.json");
    Request { tools: vec![tool("b"), tool("a")], max_output_tokens: Some(9), temperature: Some(0.5), ..request }
}

#[test]
fn each_protocol_gets_the_form_that_its_documents_want() {
    let call = json!({"path": "/etc/höst"});
    let table: [(Protocol, Value); 4] = [
        (
            Protocol::OpenAi,
            json!({"model": "m-1", "stream": true, "stream_options": {"include_usage": true}, "temperature": 0.5,
                "max_tokens": 9, "messages": [{"role": "system", "content": "sys"}, {"role": "user", "content": "q"},
                    {"role": "assistant", "content": "I look.", "tool_calls": [{"id": "call_a", "type": "function",
                        "function": {"name": "read", "arguments": call.to_string()}}]},
                    {"role": "tool", "tool_call_id": "call_a", "content": "done"}],
                "tools": [
                    {"type": "function", "function": {"name": "b", "description": "d", "parameters": {"type": "object"}}},
                    {"type": "function", "function": {"name": "a", "description": "d", "parameters": {"type": "object"}}}]}),
        ),
        (
            Protocol::Responses,
            json!({"model": "m-1", "stream": true, "store": false, "include": ["reasoning.encrypted_content"],
                "temperature": 0.5, "max_output_tokens": 9, "instructions": "sys", "input": [
                    {"role": "user", "content": "q"}, {"role": "assistant", "content": "I look."},
                    {"type": "function_call", "call_id": "call_a", "name": "read", "arguments": call.to_string()},
                    {"type": "function_call_output", "call_id": "call_a", "output": "done"}],
                "tools": [
                    {"type": "function", "name": "b", "description": "d", "parameters": {"type": "object"}, "strict": false},
                    {"type": "function", "name": "a", "description": "d", "parameters": {"type": "object"}, "strict": false}]}),
        ),
        (
            Protocol::Anthropic,
            json!({"model": "m-1", "stream": true, "max_tokens": 9, "temperature": 0.5,
                "system": [{"type": "text", "text": "sys", "cache_control": {"type": "ephemeral"}}],
                "messages": [{"role": "user", "content": [{"type": "text", "text": "q"}]},
                    {"role": "assistant", "content": [{"type": "text", "text": "I look."},
                        {"type": "tool_use", "id": "call_a", "name": "read", "input": call}]},
                    {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "call_a", "content": "done",
                        "is_error": false, "cache_control": {"type": "ephemeral"}}]}],
                "tools": [{"name": "b", "description": "d", "input_schema": {"type": "object"}},
                    {"name": "a", "description": "d", "input_schema": {"type": "object"}}]}),
        ),
        (
            Protocol::Gemini,
            json!({"systemInstruction": {"parts": [{"text": "sys"}]},
                "generationConfig": {"temperature": 0.5, "maxOutputTokens": 9},
                "contents": [{"role": "user", "parts": [{"text": "q"}]},
                    {"role": "model", "parts": [{"text": "I look."}, {"functionCall": {"name": "read", "args": call}}]},
                    {"role": "user", "parts": [{"functionResponse": {"name": "read", "id": "call_a",
                        "response": {"result": "done"}}}]}],
                "tools": [{"functionDeclarations": [
                    {"name": "b", "description": "d", "parametersJsonSchema": {"type": "object"}},
                    {"name": "a", "description": "d", "parametersJsonSchema": {"type": "object"}}]}]}),
        ),
    ];
    let request = with_tools();
    for (protocol, expected) in table {
        let sent: Value = serde_json::from_str(&body_text(&request, protocol)).expect("JSON");
        assert_eq!(sent, expected, "{}", protocol.word());
    }
}

#[test]
fn each_protocol_holds_a_model_to_a_schema_in_its_own_way() {
    let schema = json!({"type": "object", "properties": {"port": {"type": "integer"}}});
    let request = Request {
        answer_schema: Some(schema.to_string()),
        messages: vec![Item::User("q".into())],
        ..Request::default()
    };
    let sent = |request: &Request, protocol, without| -> Value {
        serde_json::from_slice(&body(request, &endpoint(protocol), without).expect("a body")).expect("JSON")
    };
    let of = |protocol| sent(&request, protocol, Without::default());
    assert_eq!(of(Protocol::OpenAi)["response_format"]["json_schema"]["schema"], schema);
    assert_eq!(of(Protocol::Responses)["text"]["format"]["schema"], schema);
    let config = json!({"responseMimeType": "application/json", "responseJsonSchema": schema});
    assert_eq!(of(Protocol::Gemini)["generationConfig"], config);
    let anthropic = of(Protocol::Anthropic);
    assert_eq!(anthropic["tool_choice"], json!({"type": "tool", "name": ANSWER_TOOL}));
    assert_eq!(anthropic["tools"][0]["input_schema"], schema);
    // Such a tool takes an object alone, and a server that refuses a schema gets none.
    let list = Request { answer_schema: Some(r#"{"type":"array"}"#.into()), ..request.clone() };
    assert!(sent(&list, Protocol::Anthropic, Without::default()).get("tool_choice").is_none());
    for protocol in [Protocol::OpenAi, Protocol::Responses, Protocol::Gemini, Protocol::Anthropic] {
        let plain = sent(&request, protocol, Without { answer_schema: true, ..Without::default() });
        assert!(!plain.to_string().contains("port"), "{plain}");
    }
    // The tool's arguments are the answer's text, in pieces and whole; the next request has it as text.
    let events = [
        json!({"type": "message_start", "message": {}}),
        json!({"type": "content_block_start", "index": 0,
            "content_block": {"type": "tool_use", "id": "t", "name": ANSWER_TOOL, "input": {}}}),
        json!({"type": "content_block_delta", "index": 0, "delta": {"type": "input_json_delta", "partial_json": "{\"port\""}}),
        json!({"type": "content_block_delta", "index": 0, "delta": {"type": "input_json_delta", "partial_json": ":22}"}}),
        json!({"type": "message_stop"}),
    ];
    let stream: String = events.iter().map(|event| format!("data: {event}\n\n")).collect();
    let whole = json!({"content": [{"type": "tool_use", "id": "t", "name": ANSWER_TOOL, "input": {"port": 22}}]});
    for answer in [stream, whole.to_string()] {
        let (text, _, end) = read(Protocol::Anthropic, &[answer.as_bytes()]);
        let end = end.expect("an answer");
        assert_eq!((text.as_str(), end.text.as_str(), end.calls.len()), (r#"{"port":22}"#, r#"{"port":22}"#, 0));
        let parts = end.state.expect("its parts").parts;
        assert_eq!(parts, [json!({"type": "text", "text": r#"{"port":22}"#}).to_string()]);
    }
}

#[test]
fn a_provider_that_breaks_off_is_no_good_end() {
    let stream =
        format!("data: {}\n\n", json!({"choices": [{"delta": {"content": "part"}, "finish_reason": "error"}]}));
    assert!(matches!(read(Protocol::OpenAi, &[stream.as_bytes()]).2, Err(Fault::ErrorInAnswer { .. })));
}

#[test]
fn a_longer_conversation_begins_with_the_bytes_of_the_shorter_one() {
    let short = Request { messages: vec![Item::User("q".into())], ..with_tools() };
    let mut messages = short.messages.clone();
    messages.push(Item::Assistant { text: "a".into(), calls: Vec::new(), state: None });
    messages.push(Item::User("r".into()));
    let long = Request { messages, ..short.clone() };
    for (protocol, prefix) in [
        (Protocol::OpenAi, r#"{"content":"q","role":"user"}"#),
        (Protocol::Responses, r#"{"content":"q","role":"user"}"#),
        (Protocol::Anthropic, r#"{"role":"user","content":[{"#),
        (Protocol::Gemini, r#"{"role":"user","parts":[{"text":"q"}]}"#),
    ] {
        let (short, long) = (body_text(&short, protocol), body_text(&long, protocol));
        let at = short.find(prefix).unwrap_or_else(|| panic!("{short}")) + prefix.len();
        assert_eq!(short[..at], long[..at], "{}", protocol.word());
    }
}

/// The containment differences between the providers: the same numbers mean different things.
#[test]
fn tokens_are_counted_as_each_provider_means_them() {
    let chunk = |usage: &str| format!("{{\"choices\":[],\"usage\":{usage}}}");
    let table: Vec<(Protocol, String, [u64; 5])> = vec![
        // Cached tokens are included in the prompt's, thoughts in the completion's.
        (
            Protocol::OpenAi,
            chunk(r#"{"prompt_tokens":100,"completion_tokens":50,"total_tokens":150,"prompt_tokens_details":{"cached_tokens":60,"cache_write_tokens":30},"completion_tokens_details":{"reasoning_tokens":40}}"#),
            [10, 60, 30, 10, 40],
        ),
        // The total of this server shows that thoughts aren't included in the completion's.
        (
            Protocol::OpenAi,
            chunk(r#"{"prompt_tokens":100,"completion_tokens":50,"total_tokens":190,"completion_tokens_details":{"reasoning_tokens":40}}"#),
            [100, 0, 0, 50, 40],
        ),
        // Impossible numbers: no result is below zero.
        (
            Protocol::OpenAi,
            chunk(r#"{"prompt_tokens":5,"completion_tokens":1,"prompt_tokens_details":{"cached_tokens":60},"completion_tokens_details":{"reasoning_tokens":7}}"#),
            [0, 60, 0, 0, 7],
        ),
        (
            Protocol::Responses,
            r#"{"output":[],"status":"completed","usage":{"input_tokens":100,"input_tokens_details":{"cached_tokens":60},"output_tokens":50,"output_tokens_details":{"reasoning_tokens":40}}}"#.into(),
            [40, 60, 0, 10, 40],
        ),
        // Cached tokens beside the input's: subtracting them would bill too little, adding OpenAI's would bill twice.
        (
            Protocol::Anthropic,
            r#"{"content":[],"usage":{"input_tokens":100,"cache_read_input_tokens":60,"cache_creation_input_tokens":30,"output_tokens":50,"output_tokens_details":{"thinking_tokens":40}}}"#.into(),
            [100, 60, 30, 10, 40],
        ),
        // Cached tokens are included in the prompt's, thoughts aren't included in the candidates'.
        (
            Protocol::Gemini,
            r#"{"candidates":[],"usageMetadata":{"promptTokenCount":100,"cachedContentTokenCount":60,"candidatesTokenCount":50,"thoughtsTokenCount":40,"totalTokenCount":190}}"#.into(),
            [40, 60, 0, 50, 40],
        ),
    ];
    for (protocol, body, expected) in table {
        let usage = read(protocol, &[body.as_bytes()]).2.expect("an answer").usage.expect("usage");
        let got = [usage.uncached_in, usage.cache_read, usage.cache_write, usage.visible_out, usage.reasoning_out];
        assert_eq!(got, expected, "{}: {body}", protocol.word());
        assert_eq!((usage.total_in() + usage.total_out()), expected.iter().sum::<u64>());
        assert!(body.contains(&usage.raw) || serde_json::from_str::<Value>(&usage.raw).is_ok());
    }
}

#[test]
fn an_error_in_mid_stream_is_classified_by_its_words() {
    let table = [
        (
            Protocol::Anthropic,
            "event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"overloaded_error\",\"message\":\"Overloaded\"}}\n\n",
            Fault::Server { status: 529, retry_after: None, server_text: "Overloaded".into() },
        ),
        (
            Protocol::Responses,
            "data: {\"type\":\"response.failed\",\"response\":{\"status\":\"failed\",\"error\":{\"code\":\"rate_limit_exceeded\",\"message\":\"slow\"}}}\n\n",
            Fault::RateLimited { retry_after: None, server_text: "slow".into() },
        ),
        (
            Protocol::Responses,
            "event: error\ndata: {\"type\":\"error\",\"code\":\"server_error\",\"message\":\"no\"}\n\n",
            Fault::Server { status: 500, retry_after: None, server_text: "no".into() },
        ),
        (
            Protocol::Gemini,
            "data: {\"error\":{\"code\":429,\"status\":\"RESOURCE_EXHAUSTED\",\"message\":\"quota\",\"details\":[{\"retryDelay\":\"29.5s\"}]}}\n\n",
            Fault::RateLimited { retry_after: Some("30".into()), server_text: "quota".into() },
        ),
        (
            Protocol::Anthropic,
            "{\"type\":\"error\",\"error\":{\"type\":\"invalid_request_error\",\"message\":\"prompt is too long: 9 tokens > 8\"}}",
            Fault::ContextOverflow { server_text: "prompt is too long: 9 tokens > 8".into() },
        ),
    ];
    for (protocol, stream, fault) in table {
        assert_eq!(read(protocol, &[stream.as_bytes()]).2, Err(fault), "{stream}");
    }
}

#[test]
fn unknown_events_and_blocks_are_skipped() {
    let stream = "event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"usage\":{\"input_tokens\":1}}}\n\n\
        event: news\ndata: {\"type\":\"news\",\"x\":[1]}\n\n\
        event: content_block_start\ndata: {\"type\":\"content_block_start\",\"index\":0,\"content_block\":{\"type\":\"novelty\",\"z\":1}}\n\n\
        event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"novelty_delta\"}}\n\n\
        event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n";
    let response = read(Protocol::Anthropic, &[stream.as_bytes()]).2.expect("an answer");
    assert_eq!(response.state.expect("a state").parts, [r#"{"type":"novelty","z":1}"#]);
    let stream = "data: {\"type\":\"response.novelty\"}\n\ndata: {\"type\":\"response.completed\",\"response\":{\"status\":\"completed\",\"output\":[{\"type\":\"message\",\"content\":[{\"type\":\"output_text\",\"text\":\"late\"}]}]}}\n\n";
    assert_eq!(read(Protocol::Responses, &[stream.as_bytes()]).2.expect("an answer").text, "late");
}

/// The fields for thinking in each protocol, by configuration, and after a refusal.
#[test]
fn thinking_has_each_protocols_own_form() {
    let high = Thinking::High;
    let table: Vec<(Protocol, &str, &str, Thinking, ThinkingForm, Value)> = vec![
        (
            Protocol::OpenAi,
            "https://api.openai.com",
            "o4",
            high,
            ThinkingForm::Usual,
            json!({"reasoning_effort": "high"}),
        ),
        (
            Protocol::OpenAi,
            "https://api.openai.com",
            "gpt-5",
            Thinking::Off,
            ThinkingForm::Usual,
            json!({"reasoning_effort": "none"}),
        ),
        (
            Protocol::OpenAi,
            "http://127.0.0.1:1",
            "qwen",
            Thinking::Off,
            ThinkingForm::Usual,
            json!({"reasoning_effort": "none", "chat_template_kwargs": {"enable_thinking": false}}),
        ),
        (
            Protocol::OpenAi,
            "http://127.0.0.1:1",
            "qwen",
            Thinking::Tokens(5000),
            ThinkingForm::Usual,
            json!({"reasoning_effort": "medium",
                "chat_template_kwargs": {"enable_thinking": true, "reasoning_effort": "medium"}}),
        ),
        (Protocol::OpenAi, "http://127.0.0.1:1", "qwen", high, ThinkingForm::Other, json!({})),
        (
            Protocol::Responses,
            "https://h",
            "o4",
            Thinking::Low,
            ThinkingForm::Usual,
            json!({"reasoning": {"effort": "low", "summary": "auto"}}),
        ),
        (
            Protocol::Responses,
            "https://h",
            "o4",
            Thinking::Off,
            ThinkingForm::Usual,
            json!({"reasoning": {"effort": "none"}}),
        ),
        (Protocol::Responses, "https://h", "o4", Thinking::Low, ThinkingForm::Other, json!({})),
        (
            Protocol::Anthropic,
            "https://h",
            "c",
            Thinking::Tokens(4000),
            ThinkingForm::Usual,
            json!({"max_tokens": 12_192, "thinking": {"type": "enabled", "budget_tokens": 4000}}),
        ),
        (
            Protocol::Anthropic,
            "https://h",
            "c",
            high,
            ThinkingForm::Usual,
            json!({"max_tokens": 32_768, "thinking": {"type": "adaptive", "display": "summarized"},
                "output_config": {"effort": "high"}}),
        ),
        (
            Protocol::Anthropic,
            "https://h",
            "c",
            high,
            ThinkingForm::Other,
            json!({"max_tokens": 32_768, "thinking": {"type": "enabled", "budget_tokens": 24_576}}),
        ),
        (
            Protocol::Anthropic,
            "https://h",
            "c",
            Thinking::Off,
            ThinkingForm::Usual,
            json!({"max_tokens": 8192, "thinking": {"type": "disabled"}}),
        ),
        (Protocol::Anthropic, "https://h", "c", high, ThinkingForm::Unsaid, json!({"max_tokens": 8192})),
        (
            Protocol::Gemini,
            "https://h",
            "gemini-2.5-flash",
            Thinking::Medium,
            ThinkingForm::Usual,
            json!({"generationConfig": {"thinkingConfig": {"includeThoughts": true, "thinkingBudget": 8192}}}),
        ),
        (
            Protocol::Gemini,
            "https://h",
            "models/gemini-3.8-flash",
            Thinking::Off,
            ThinkingForm::Usual,
            json!({"generationConfig": {"thinkingConfig": {"includeThoughts": false, "thinkingLevel": "minimal"}}}),
        ),
        (Protocol::Gemini, "https://h", "gemini-3.8-flash", high, ThinkingForm::Other, json!({})),
    ];
    let request = Request { messages: vec![Item::User("q".into())], ..Request::default() };
    for (protocol, address, model, thinking, form, expected) in table {
        let send = |thinking| {
            let endpoint = Endpoint { protocol, thinking, ..Endpoint::new("m", address, model) };
            let without = Without { thinking: form, ..Without::default() };
            serde_json::from_slice::<Value>(&body(&request, &endpoint, without).expect("a body")).expect("JSON")
        };
        let (Value::Object(plain), Value::Object(mut sent)) = (send(None), send(Some(thinking))) else {
            panic!("objects")
        };
        // Only the fields for thinking are compared.
        sent.retain(|key, value| key == "max_tokens" || plain.get(key) != Some(value));
        assert_eq!(Value::Object(sent), expected, "{} {model} {thinking:?} {form:?}", protocol.word());
    }
}

/// An answer needs room beside its thoughts, and a model that thinks takes no temperature.
#[test]
fn thoughts_leave_room_for_the_answer() {
    for (limit, tokens, budget) in
        [(10_000, 4000, Some(4000)), (3000, 4000, Some(1500)), (2048, 9000, Some(1024)), (1024, 2000, None)]
    {
        let endpoint = Endpoint {
            protocol: Protocol::Anthropic,
            thinking: Some(Thinking::Tokens(tokens)),
            max_output_tokens: Some(limit),
            temperature: Some(0.5),
            ..Endpoint::new("m", "https://h", "c")
        };
        let request = Request { messages: vec![Item::User("q".into())], ..Request::default() };
        let sent: Value =
            serde_json::from_slice(&body(&request, &endpoint, Without::default()).expect("a body")).expect("JSON");
        assert_eq!(sent["max_tokens"], limit);
        assert_eq!(sent["thinking"]["budget_tokens"].as_u64(), budget, "{limit} {tokens}");
        assert_eq!(sent["temperature"].is_null(), budget.is_some());
    }
}

#[test]
fn a_picture_goes_with_the_message_that_holds_its_mark() {
    let image = Image::of("a.png", b"\x89PNG\r\n\x1a\n".to_vec()).expect("a picture");
    let first = format!("{}\nwhat is it?", image.mark());
    let answer = Item::Assistant { text: "a cat".into(), calls: Vec::new(), state: None };
    let request = Request {
        messages: vec![Item::User(first.clone()), answer, Item::User("sure?".into())],
        images: vec![std::sync::Arc::new(image)],
        ..Request::default()
    };
    let data = "iVBORw0KGgo=";
    for (protocol, list, picture) in [
        (
            Protocol::OpenAi,
            "/messages/0/content",
            json!({"type": "image_url", "image_url": {"url": format!("data:image/png;base64,{data}")}}),
        ),
        (
            Protocol::Responses,
            "/input/0/content",
            json!({"type": "input_image", "image_url": format!("data:image/png;base64,{data}")}),
        ),
        (
            Protocol::Anthropic,
            "/messages/0/content",
            json!({"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": data}}),
        ),
        (Protocol::Gemini, "/contents/0/parts", json!({"inlineData": {"mimeType": "image/png", "data": data}})),
    ] {
        let body = body_text(&request, protocol);
        let sent: Value = serde_json::from_str(&body).expect("JSON");
        let parts = sent.pointer(list).and_then(Value::as_array).expect("a list of parts");
        assert_eq!((parts.len(), &parts[0], parts[1]["text"].as_str()), (2, &picture, Some(&*first)), "{body}");
        assert_eq!(body.matches(data).count(), 1, "{body}");
    }
}
