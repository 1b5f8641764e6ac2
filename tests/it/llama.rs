//! A real llama.cpp server, if one is named: `REEDCLAW_TEST_LLAMA=http://127.0.0.1:PORT`.

use reedclaw::model::{
    Cancel, ChatEvent, Countable, Crossing, Endpoint, Fault, Item, Models, Request, Sink, StopReason, Tool, ToolResult,
    list_models,
};

use crate::need;
use crate::pty::{Key, Session, Spawn};

#[test]
fn a_real_server_answers_is_stopped_and_answers_again() {
    let Some(endpoint) = need::llama() else { return };
    let config = format!(
        "return {{models = {{real = {{endpoint = \"{endpoint}\", temperature = 0}}}}, system_prompt = \"Be short.\"}}"
    );
    let session = Session::spawn(Spawn::reedclaw().file(".config/reedclaw/config.lua", &config).size(40, 100));
    session.run("echo seen-by-$((1+1))");
    session.expect_prompt();
    session.line("what is a shell?");
    session.expect("an answer or its beginning", |screen| {
        let text = screen.contents();
        let behind = text.split("what is a shell?").nth(1).unwrap_or_default();
        behind.lines().skip(1).any(|line| !line.trim().is_empty())
    });
    session.press(Key::Ctrl('c'));
    // A tiny model may have finished before the key: tests/it/ask.rs tests the stop itself.
    session.expect_prompt();
    assert!(!session.screen_text().contains("reedclaw: "), "{}", session.screen_text());
    session.run("echo on-$((1+1))");
    session.expect_line("on-2");

    session.run("clear");
    let from = session.raw().len();
    session.line("and what is a file?");
    session.expect("an answer or its beginning", |screen| screen.contents().lines().count() > 1);
    session.press(Key::Ctrl('c'));
    session.expect_prompt();
    assert!(memchr::memmem::find(&session.raw()[from..], b"\x1b[?1049h").is_none());
    session.line("exit");
    assert_eq!(session.expect_exit().code(), Some(0));
}

/// Receives an answer.
#[derive(Default)]
struct Ear {
    text: String,
    pieces: usize,
    cancel: Cancel,
}

impl Sink for Ear {
    fn event(&mut self, event: ChatEvent) {
        if let ChatEvent::Text(text) = event {
            self.text.push_str(&text);
            self.pieces += 1;
        }
    }

    fn cancel(&self) -> &Cancel {
        &self.cancel
    }

    fn permit(&mut self, _: &reedclaw::model::Sending<'_>) -> Result<Option<u64>, reedclaw::proto::Failure> {
        Ok(None)
    }

    fn consent(&mut self, _: &Crossing) -> bool {
        false
    }
}

fn weather() -> Tool {
    Tool {
        name: "get_weather".into(),
        description: "Gives the weather of a city".into(),
        schema: r#"{"type":"object","properties":{"city":{"type":"string"}},"required":["city"]}"#.into(),
    }
}

#[test]
fn a_real_server_streams_answers_whole_counts_and_calls_tools() {
    let Some(address) = need::llama() else { return };
    let endpoint = Endpoint { max_output_tokens: Some(2000), ..Endpoint::new("real", &address, "any") };
    assert!(!list_models(&endpoint).expect("a list").is_empty());
    let models = Models::new(vec![endpoint.into()]);
    let model = models.get("real").expect("the model");
    let question = Request { messages: vec![Item::User("what is a shell?".into())], ..Request::default() };
    let mut streamed = Ear::default();
    let response = model.chat(&question, &mut streamed).expect("an answer");
    assert_eq!(response.text, streamed.text);
    let usage = response.usage.expect("stream_options.include_usage gives the usage");
    assert!(usage.total_in() > 0 && usage.total_out() > 0, "{usage:?}");
    let whole = Request { whole: true, ..question.clone() };
    let mut ear = Ear::default();
    let response = model.chat(&whole, &mut ear).expect("an answer");
    assert!(ear.pieces <= 1 && response.text == ear.text && response.usage.is_some());
    // A model with random weights may answer anything, but a call that it finished is complete, and its result is accepted.
    let asked = Request { tools: vec![weather()], ..question };
    let response = model.chat(&asked, &mut Ear::default()).expect("an answer");
    if response.stop.reason != StopReason::ToolCalls {
        assert!(response.calls.is_empty() || response.stop.reason == StopReason::Length, "{response:?}");
        return;
    }
    for call in &response.calls {
        assert_eq!(call.name, "get_weather");
        assert!(serde_json::from_str::<serde_json::Value>(&call.arguments).is_ok(), "{}", call.arguments);
    }
    if let Some(call) = response.calls.first().cloned() {
        let result = ToolResult { id: call.id, name: call.name, content: "sun".into(), is_error: false };
        let answer = Item::Assistant { text: response.text, calls: response.calls, state: response.state };
        let messages = [asked.messages.clone(), vec![answer, Item::Tool(result)]].concat();
        model.chat(&Request { messages, ..asked }, &mut Ear::default()).expect("an answer to the result");
    }
}

/// `/props` identifies llama.cpp, `/tokenize` and `/apply-template` count as the model does.
#[test]
fn a_real_server_counts_as_it_bills() {
    let Some(address) = need::llama() else { return };
    let models = Models::new(vec![Endpoint::new("real", &address, "any").into()]);
    let model = models.get("real").expect("the model");
    let count = model.count(Countable::Text("what is a shell?"), &Cancel::new()).expect("it counts");
    assert!(count.is_exact && count.tokens > 3, "{count:?}");
    let question = Request { messages: vec![Item::User("what is a shell?".into())], ..Request::default() };
    let counted = model.count(Countable::Request(&question), &Cancel::new()).expect("it counts");
    let usage = model.chat(&question, &mut Ear::default()).expect("an answer").usage.expect("its usage");
    assert!(counted.tokens.abs_diff(usage.total_in()) <= 2, "{counted:?} {usage:?}");
}

/// Its window is read from `/props`, once, if the config doesn't set one.
#[test]
fn a_real_server_tells_its_window() {
    let Some(address) = need::llama() else { return };
    let asked = Endpoint { asks_server: true, ..Endpoint::new("real", &address, "any") };
    let models = Models::new(vec![asked.into()]);
    let model = models.get("real").expect("the model");
    assert_eq!(model.capabilities().context_tokens, None);
    model.learn(&Cancel::new());
    assert!(model.capabilities().context_tokens.is_some_and(|tokens| tokens >= 256), "{:?}", model.capabilities());
}

#[test]
fn a_real_server_says_that_a_conversation_is_too_long() {
    let Some(address) = need::llama() else { return };
    let models = Models::new(vec![Endpoint::new("real", &address, "any").into()]);
    let long = Request { messages: vec![Item::User("zq ".repeat(400_000))], ..Request::default() };
    let error = models.get("real").expect("the model").chat(&long, &mut Ear::default()).expect_err("too long");
    assert!(matches!(error.fault, Fault::ContextOverflow { .. }), "{error}");
}
