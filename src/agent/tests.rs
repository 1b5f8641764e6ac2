//! The agent against a scripted server: order of events, the record, the contents of the next question.

use parking_lot::Mutex;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use super::*;
use crate::model::script::{Script, Step, done, response, serve, sse_head, text_event};
use crate::model::{Endpoint, Protocol, Thinking};
use crate::money::{Budget, Limit, Price, Prices};
use crate::proto::{Capture, Money, Spent};

#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<String>>>);

impl Recorder for Log {
    fn question(&mut self, text: &str, _: Option<&str>) -> Result<(), Failure> {
        self.0.lock().push(format!("question {text}"));
        Ok(())
    }

    fn answer_piece(&mut self, text: &str) -> Result<(), Failure> {
        self.0.lock().push(format!("piece {text}"));
        Ok(())
    }

    fn spent(&mut self, spent: &Spent, thoughts: &str) -> Result<(), Failure> {
        let Spent { model, tools, usage, .. } = spent;
        let (read, wrote) = (usage.total_in(), usage.total_out());
        self.0.lock().push(format!("spent {model} {tools:?} {read} {wrote} {thoughts}"));
        Ok(())
    }

    fn summarised(&mut self, summary: Option<SummaryUpTo<'_>>) -> Result<(), Failure> {
        self.0.lock().push(format!("summarised {summary:?}"));
        Ok(())
    }

    fn finished(&mut self, ending: Ending<'_>) -> Result<(), Failure> {
        let ending = match ending {
            Ending::Failed(failure) => format!("failed {:?}", failure.kind),
            other => format!("{other:?}"),
        };
        self.0.lock().push(ending);
        Ok(())
    }
}

struct Full;

impl Recorder for Full {
    fn question(&mut self, _: &str, _: Option<&str>) -> Result<(), Failure> {
        Err(Failure::unavailable("the disk is full"))
    }

    fn answer_piece(&mut self, text: &str) -> Result<(), Failure> {
        self.question(text, None)
    }

    fn finished(&mut self, _: Ending<'_>) -> Result<(), Failure> {
        self.question("", None)
    }
}

fn agent_of(server: &Script, max_turns: usize) -> (Agent, Log) {
    let log = Log::default();
    let options = Options {
        models: vec![Endpoint::new("local", &server.url, "x").into(), Endpoint::new("other", &server.url, "y").into()],
        default_model: Some("local".into()),
        system_prompts: BTreeMap::from([("other".into(), "of other".into())]),
        conversation: turn::Options { system_prompt: "sys".into(), max_turns, ..turn::Options::default() },
        ..Options::default()
    };
    (Agent::new(options, Box::new(log.clone())), log)
}

fn ask(agent: &mut Agent, question: &str) -> Vec<Event> {
    let mut events = Vec::new();
    agent.ask(question, &Cancel::new(), &mut |event| events.push(event));
    events
}

/// The events but for those of usage.
fn without_usage(mut events: Vec<Event>) -> Vec<Event> {
    events.retain(|event| !matches!(event, Event::Usage(_)));
    events
}

/// The messages of the next request, as `role:content`.
fn sent(server: &Script) -> Vec<String> {
    let request = server.requests.recv().expect("a request");
    let body: serde_json::Value =
        serde_json::from_str(request.split_once("\r\n\r\n").expect("a body").1).expect("JSON");
    let text = |value: &serde_json::Value| value.as_str().unwrap_or_default().to_owned();
    body["messages"]
        .as_array()
        .expect("messages")
        .iter()
        .map(|it| format!("{}:{}", text(&it["role"]), text(&it["content"])))
        .collect()
}

#[test]
fn a_question_is_answered_recorded_and_remembered() {
    let answer = || vec![sse_head(), text_event("yes "), Step::Await, text_event("sir"), done()];
    let server = serve(vec![answer(), answer(), answer()]);
    (0..3).for_each(|_| server.go.send(()).expect("the server waits"));
    let (mut agent, log) = agent_of(&server, 2);
    let events = ask(&mut agent, "one?");
    assert_eq!(events.last(), Some(&Event::Answered { text: "yes sir".into(), shortfall: None }));
    let pieces: String =
        events.iter().filter_map(|it| if let Event::Text(text) = it { Some(text.as_str()) } else { None }).collect();
    assert_eq!(pieces, "yes sir");
    let recorded = log.0.lock().clone();
    assert_eq!((recorded[0].as_str(), recorded.last().map(String::as_str)), ("question one?", Some("Answered")));
    let answer: String = recorded.iter().filter_map(|it| it.strip_prefix("piece ")).collect();
    assert_eq!(answer, "yes sir");
    assert_eq!(sent(&server), ["system:sys", "user:one?"]);

    agent.note_outcome(&CommandOutcome {
        command: "ls".into(),
        status: 1,
        duration: Duration::ZERO,
        cwd: None,
        environment: String::new(),
        output: Capture { head: b"\x1b[1mno\x1b[0m\n".to_vec(), ..Capture::default() },
    });
    ask(&mut agent, "two?");
    let block = "[exec output]\n$ ls\n(exit status 1)\nno\n\ntwo?";
    assert_eq!(sent(&server), ["system:sys", "user:one?", "assistant:yes sir", &format!("user:{block}")]);

    let events = ask(&mut agent, "three?");
    assert_eq!(events[0], Event::Notice("[context] oldest 1 turn evicted".into()));
    assert_eq!(sent(&server), ["system:sys", &format!("user:{block}"), "assistant:yes sir", "user:three?"]);
}

#[test]
fn a_failure_leaves_no_message_and_a_cut_answer_stays_marked() {
    let server = serve(vec![
        vec![response("500 No", "", "{\"error\":{\"message\":\"boom\"}}")],
        vec![sse_head(), text_event("half")],
        vec![sse_head(), text_event("ok"), done()],
    ]);
    let (mut agent, log) = agent_of(&server, 40);
    let events = ask(&mut agent, "one?");
    assert!(
        matches!(&events[..], [Event::Failed { text, failure }]
        if text.is_empty() && failure.message.contains("boom")),
        "{events:?}"
    );
    let events = without_usage(ask(&mut agent, "two?"));
    assert!(
        matches!(&events[..], [Event::Text(_), Event::Failed { text, failure }]
        if text == "half" && failure.message.contains("cut off")),
        "{events:?}"
    );
    ask(&mut agent, "three?");
    sent(&server);
    assert_eq!(sent(&server), ["system:sys", "user:two?"]);
    let messages = sent(&server);
    assert_eq!(messages[2], "assistant:half\n[the answer broke off here]");
    assert_eq!(log.0.lock()[1], "failed Unavailable");
}

#[test]
fn a_cancel_from_another_thread_ends_it_wherever_it_hangs() {
    for steps in [vec![Step::Hold], vec![sse_head(), Step::Hold]] {
        let server = serve(vec![steps]);
        let (mut agent, log) = agent_of(&server, 40);
        let Script { requests, closed, .. } = server;
        let cancel = Cancel::new();
        let handle = cancel.clone();
        let stopper = thread::spawn(move || {
            requests.recv().expect("a request");
            handle.cancel();
        });
        let mut events = Vec::new();
        agent.ask("one?", &cancel, &mut |event| events.push(event));
        assert_eq!(events, [Event::Cancelled { text: String::new() }]);
        assert_eq!(log.0.lock().last().map(String::as_str), Some("Cancelled"));
        stopper.join().expect("the stopper ends");
        closed.recv_timeout(Duration::from_secs(60)).expect("the connection is closed");
    }
}

#[test]
fn a_cancelled_answer_keeps_its_first_part() {
    let server =
        serve(vec![vec![sse_head(), text_event("half"), Step::Hold], vec![sse_head(), text_event("ok"), done()]]);
    let (mut agent, _) = agent_of(&server, 40);
    let cancel = Cancel::new();
    let mut events = Vec::new();
    let mut stoppers = Vec::new();
    agent.ask("one?", &cancel, &mut |event| {
        if matches!(event, Event::Text(_)) {
            let handle = cancel.clone();
            stoppers.push(thread::spawn(move || handle.cancel()));
        }
        events.push(event);
    });
    stoppers.into_iter().for_each(|it| it.join().expect("the stopper ends"));
    assert_eq!(without_usage(events.clone()), [Event::Text("half".into()), Event::Cancelled { text: "half".into() }]);

    // Cancelled before it starts: nothing is sent, until the handle is made ready again.
    events.clear();
    agent.ask("never sent?", &cancel, &mut |event| events.push(event));
    assert_eq!(events, [Event::Cancelled { text: String::new() }]);
    cancel.rearm();
    agent.ask("two?", &cancel, &mut |event| events.push(event));
    assert_eq!(events.last(), Some(&Event::Answered { text: "ok".into(), shortfall: None }));
    sent(&server);
    assert_eq!(sent(&server), ["system:sys", "user:one?", "assistant:half\n[stopped by the user]", "user:two?"]);
}

#[test]
fn without_a_model_the_hint_says_how_to_connect_one() {
    let mut agent = Agent::new(Options::default(), Box::new(Forgetful));
    let events = ask(&mut agent, "hello?");
    let [Event::Failed { failure, .. }] = &events[..] else { panic!("{events:?}") };
    assert_eq!(failure.kind, FailureKind::NoModel);
    assert!(failure.hint.contains(":onboard"), "{}", failure.hint);
    assert_eq!(agent.current_model(), None);

    let options = Options {
        models: vec![Endpoint::new("a", "http://h", "x").into()],
        default_model: Some("b".into()),
        ..Options::default()
    };
    let events = ask(&mut Agent::new(options, Box::new(Forgetful)), "hello?");
    let [Event::Failed { failure, .. }] = &events[..] else { panic!("{events:?}") };
    assert_eq!((failure.kind, failure.message.as_str()), (FailureKind::NoModel, "no model is called b"));
}

#[test]
fn models_switch_by_name_and_reset_goes_back() {
    let server = serve(vec![vec![sse_head(), text_event("ok"), done()]]);
    let (mut agent, _) = agent_of(&server, 40);
    assert_eq!(agent.current_model(), Some("local"));
    let failure = agent.use_model("x\u{1b}y").expect_err("no such model");
    assert_eq!((failure.kind, failure.message.as_str()), (FailureKind::User, "no model is called xy"));
    assert!(failure.hint.contains("local, other"));
    agent.use_model("other").expect("it is there");
    assert_eq!(agent.models().iter().map(|it| it.is_current).collect::<Vec<_>>(), [false, true]);
    ask(&mut agent, "one?");
    assert!(server.requests.recv().expect("a request").contains("\"model\":\"y\""));
    agent.reset();
    assert_eq!(agent.current_model(), Some("local"));
}

#[test]
fn a_failing_store_is_reported_once_and_the_answer_goes_on() {
    let server = serve(vec![vec![sse_head(), text_event("a"), Step::Await, text_event("b"), done()]]);
    server.go.send(()).expect("the server waits");
    let options = Options { models: vec![Endpoint::new("m", &server.url, "x").into()], ..Options::default() };
    let events = ask(&mut Agent::new(options, Box::new(Full)), "one?");
    let notices: Vec<_> = events.iter().filter(|it| matches!(it, Event::Notice(_))).collect();
    assert_eq!(notices.len(), 1, "{events:?}");
    assert_eq!(events.last(), Some(&Event::Answered { text: "ab".into(), shortfall: None }));
}

#[test]
fn an_answer_that_lacks_something_says_so() {
    let object = |reason: &str, text: &str| {
        format!(r#"{{"choices":[{{"message":{{"content":"{text}"}},"finish_reason":"{reason}"}}]}}"#)
    };
    let server = serve(vec![
        vec![response("200 OK", "", &object("length", "long"))],
        vec![response("200 OK", "", &object("stop", ""))],
        vec![response("200 OK", "", &object("stop", "yes"))],
        vec![response("200 OK", "", &object("stop", ""))],
        vec![response("200 OK", "", &object("length", ""))],
    ]);
    let (mut agent, _) = agent_of(&server, 40);
    let events = ask(&mut agent, "one?");
    assert!(notices(&events).iter().any(|notice| notice.contains("limit of tokens")), "{events:?}");
    assert!(matches!(events.last(), Some(Event::Answered { .. })));
    sent(&server);
    assert_eq!(ask(&mut agent, "two?").last(), Some(&Event::Answered { text: "yes".into(), shortfall: None }));
    assert_eq!(sent(&server).last().map(String::as_str), Some("user:two?"));
    let again = sent(&server).pop().expect("a message");
    assert!(again.starts_with("user:two?\n\n[") && again.contains("Answer the question in words"), "{again}");
    let events = ask(&mut agent, "three?");
    let Some(Event::Failed { failure, .. }) = events.last() else { panic!("{events:?}") };
    assert!(failure.message.contains("no answer, though it was asked twice"), "{failure:?}");
}

#[test]
fn thoughts_and_tokens_reach_the_faces_and_the_record() {
    let script = r#"{"steps": [{"thought": "hm "}, {"thought": "yes"}, {"text": "a"}, {"tool_call": {"name": "read"}},
        {"usage": {"in": 5, "cache_read": 7, "out": 2, "reasoning": 3}}]}"#;
    let script = Ok(script.replace('\n', " "));
    let log = Log::default();
    let models = vec![Spec::Mock { name: "m".into(), script }];
    let mut agent = Agent::new(Options { models, ..Options::default() }, Box::new(log.clone()));
    let events = ask(&mut agent, "one?");
    let [Event::Thought(one), Event::Thought(two), Event::Text(_), Event::Usage(spent), Event::Answered { .. }] =
        &events[..]
    else {
        panic!("{events:?}")
    };
    assert_eq!((one.as_str(), two.as_str(), spent.usage.reasoning_out), ("hm ", "yes", 3));
    assert_eq!(log.0.lock()[2], "spent m [\"read\"] 12 5 hm yes");
}

/// An agent whose window is so small that some turns of 400 characters fill it.
fn narrow_agent(server: &Script) -> (Agent, Log) {
    let log = Log::default();
    let rules = BTreeMap::from([("chat".to_owned(), "big".to_owned()), ("summary".to_owned(), "small".to_owned())]);
    let options = Options {
        models: vec![
            Endpoint { context_tokens: Some(1000), ..Endpoint::new("big", &server.url, "big") }.into(),
            Endpoint::new("small", &server.url, "small").into(),
            Spec::Router { name: "route".into(), rules },
        ],
        default_model: Some("big".into()),
        conversation: turn::Options { compact_at_percent: 80, ..turn::Options::default() },
        ..Options::default()
    };
    (Agent::new(options, Box::new(log.clone())), log)
}

fn notices(events: &[Event]) -> Vec<&str> {
    events.iter().filter_map(|it| if let Event::Notice(text) = it { Some(text.as_str()) } else { None }).collect()
}

#[test]
fn the_small_model_summarises_the_older_part_and_it_can_be_undone() {
    let long = format!("answer {}", "a".repeat(640));
    let mut answers: Vec<Vec<Step>> = (0..5).map(|_| vec![sse_head(), text_event(&long), done()]).collect();
    answers.push(vec![sse_head(), text_event("the gist; DB_PASSWORD=hunter2"), done()]);
    answers.extend((0..3).map(|_| vec![sse_head(), text_event("ok"), done()]));
    let server = serve(answers);
    let (mut agent, log) = narrow_agent(&server);
    for number in 0..5 {
        assert_eq!(notices(&ask(&mut agent, &format!("question {number}?"))), [""; 0]);
        sent(&server);
    }
    let events = ask(&mut agent, "and now?");
    let lines = notices(&events);
    assert!(lines.len() == 2 && lines[0].contains("small summarises the oldest 4 turns"), "{lines:?}");
    assert!(lines[1].contains("4 turns are a summary"), "{lines:?}");
    let request = server.requests.recv().expect("the summary's request");
    assert!(request.contains("\"model\":\"small\"") && request.contains("question 3?"), "{request}");
    let asked = sent(&server);
    let summary = "the gist; DB_PASSWORD=[redacted: password]";
    let first = format!("user:[summary of the conversation before]\n{summary}\n[end of the summary]\n\nquestion 4?");
    assert_eq!((asked.len(), asked[0].as_str(), asked[2].as_str()), (3, first.as_str(), "user:and now?"));
    let recorded = log.0.lock().iter().find(|it| it.starts_with("summarised")).cloned().expect("it is recorded");
    assert!(recorded.starts_with(&format!("summarised Some((\"{summary}\", Some((\"question 4?\"")), "{recorded}");
    let report = agent.context();
    assert_eq!((report.window_tokens, report.compact_at_tokens), (1000, Some(800)));
    assert_eq!(report.summary, Some((summary.to_owned(), 4)));
    assert_eq!(report.parts[0].name, "summary of the first 4 turns");

    assert_eq!((agent.restore_context(), agent.restore_context()), (Some(4), None));
    assert_eq!(log.0.lock().last().map(String::as_str), Some("summarised None"));
    let events = ask(&mut agent, "whole again?");
    assert!(notices(&events).iter().all(|it| !it.contains("summar")), "{events:?}");
    assert_eq!(sent(&server).len(), 13);
}

#[test]
fn three_failed_summaries_are_enough() {
    let long = format!("answer {}", "a".repeat(640));
    let ok = |text: &str| vec![sse_head(), text_event(text), done()];
    let refusal = || vec![response("500 Oops", "", "{}")];
    let mut answers: Vec<Vec<Step>> = (0..5).map(|_| ok(&long)).collect();
    for _ in 0..3 {
        answers.extend([refusal(), ok("ok")]);
    }
    answers.extend([ok("ok"), ok("at last")]);
    let server = serve(answers);
    let (mut agent, _) = narrow_agent(&server);
    (0..5).for_each(|number| drop(ask(&mut agent, &format!("question {number}?"))));
    for (number, words) in
        [(1, "tried again with the next"), (2, "tried again with the next"), (3, "no more are tried")]
    {
        let events = ask(&mut agent, "next?");
        let lines = notices(&events).join("\n");
        assert!(lines.contains(&format!("no summary ({number} of 3)")) && lines.contains(words), "{lines}");
        assert!(matches!(events.last(), Some(Event::Answered { .. })), "{events:?}");
    }
    assert!(!notices(&ask(&mut agent, "next?")).join("").contains("summar"));
    assert_eq!(agent.context().compact_at_tokens, None);
    let mut events = Vec::new();
    agent.compact_now(&Cancel::new(), &mut |event| events.push(event)).expect("asked for it is tried again");
    assert_eq!(agent.context().summary.map(|(text, _)| text), Some("at last".into()));
}

#[test]
fn a_summary_goes_to_no_farther_model() {
    let rules = BTreeMap::from([("summary".to_owned(), "cloud".to_owned())]);
    let models = Models::new(vec![
        Endpoint::new("near", "http://127.0.0.1:1", "x").into(),
        Endpoint::new("cloud", "https://example.com", "x").into(),
        Spec::Router { name: "route".into(), rules },
    ]);
    let for_task = |name: &str| models.for_task(&**models.get(name).expect("a model"), Task::Summary);
    assert!(for_task("near").is_none() && for_task("cloud").is_none() && for_task("route").is_none());
}

fn in_dollars(budget: Budget, prices: &[(&str, f64, f64)]) -> MoneyOptions {
    let price = |input, output| Price { input, output, ..Price::default() };
    let own = prices.iter().map(|(name, input, output)| ((*name).to_owned(), price(*input, *output))).collect();
    MoneyOptions { prices: Prices::new(own, Vec::new), budget }
}

fn dollars(usd: f64) -> Limit {
    Limit { money: Some(Money::from_usd(usd)), tokens: None }
}

fn spent_of(events: &[Event]) -> Vec<&Spent> {
    events.iter().filter_map(|event| if let Event::Usage(spent) = event { Some(&**spent) } else { None }).collect()
}

/// The same answer has the same cost, regardless of which token counts a provider includes in others.
#[test]
fn equal_tokens_cost_the_same_however_a_provider_counts_them() {
    let price = Price { input: 10.0, cache_read: Some(1.0), cache_write: Some(12.5), output: 50.0, long: None };
    let bodies = [
        (
            Protocol::OpenAi,
            r#"{"choices":[{"message":{"content":"a"},"finish_reason":"stop"}],"usage":{"prompt_tokens":190,"completion_tokens":50,"prompt_tokens_details":{"cached_tokens":60,"cache_write_tokens":30},"completion_tokens_details":{"reasoning_tokens":40}}}"#,
        ),
        (
            Protocol::OpenAi,
            r#"{"choices":[{"message":{"content":"a"},"finish_reason":"stop"}],"usage":{"prompt_tokens":190,"completion_tokens":10,"total_tokens":240,"prompt_tokens_details":{"cached_tokens":60,"cache_write_tokens":30},"completion_tokens_details":{"reasoning_tokens":40}}}"#,
        ),
        (
            Protocol::Responses,
            r#"{"status":"completed","output":[{"type":"message","content":[{"type":"output_text","text":"a"}]}],"usage":{"input_tokens":190,"input_tokens_details":{"cached_tokens":60,"cache_write_tokens":30},"output_tokens":50,"output_tokens_details":{"reasoning_tokens":40}}}"#,
        ),
        (
            Protocol::Anthropic,
            r#"{"content":[{"type":"text","text":"a"}],"stop_reason":"end_turn","usage":{"input_tokens":100,"cache_read_input_tokens":60,"cache_creation_input_tokens":30,"output_tokens":50,"output_tokens_details":{"thinking_tokens":40}}}"#,
        ),
    ];
    // 100 fresh, 60 from the cache, 30 into it, 50 written.
    let expected = Money::from_pico(100 * 10_000_000 + 60 * 1_000_000 + 30 * 12_500_000 + 50 * 50_000_000);
    for (protocol, body) in bodies {
        let server = serve(vec![vec![response("200 OK", "", body)]]);
        let endpoint = Endpoint { protocol, ..Endpoint::new("m", &server.url, "x") };
        let money = MoneyOptions {
            prices: Prices::new(BTreeMap::from([("m".to_owned(), price)]), Vec::new),
            budget: Budget::default(),
        };
        let options = Options { models: vec![endpoint.into()], money, ..Options::default() };
        let events = ask(&mut Agent::new(options, Box::new(Forgetful)), "one?");
        let costs: Vec<_> = spent_of(&events).iter().map(|spent| spent.cost).collect();
        assert_eq!(costs, [Some(expected)], "{}: {events:?}", protocol.word());
    }
    // Gemini writes nothing into a cache.
    let body = r#"{"candidates":[{"content":{"parts":[{"text":"a"}]},"finishReason":"STOP"}],"usageMetadata":{"promptTokenCount":160,"cachedContentTokenCount":60,"candidatesTokenCount":10,"thoughtsTokenCount":40}}"#;
    let server = serve(vec![vec![response("200 OK", "", body)]]);
    let endpoint = Endpoint { protocol: Protocol::Gemini, ..Endpoint::new("m", &server.url, "x") };
    let money = MoneyOptions {
        prices: Prices::new(BTreeMap::from([("m".to_owned(), price)]), Vec::new),
        budget: Budget::default(),
    };
    let options = Options { models: vec![endpoint.into()], money, ..Options::default() };
    let events = ask(&mut Agent::new(options, Box::new(Forgetful)), "one?");
    assert_eq!(spent_of(&events)[0].cost, Some(Money::from_pico(100 * 10_000_000 + 60 * 1_000_000 + 50 * 50_000_000)));
}

/// A fall-back is a request like any other: a dear model isn't asked because a cheap one is down.
#[test]
fn each_model_that_is_asked_is_judged_by_its_own_price() {
    let dear = serve(vec![vec![sse_head(), text_event("never"), done()]]);
    let models = vec![
        Spec::Reliable { name: "both".into(), of: vec!["cheap".into(), "dear".into()], allow_remote: true },
        Endpoint { max_output_tokens: Some(100), ..Endpoint::new("cheap", "http://127.0.0.1:9", "x") }.into(),
        Endpoint { max_output_tokens: Some(100), ..Endpoint::new("dear", &dear.url, "y") }.into(),
    ];
    let budget = Budget { per_turn: dollars(0.01), warn_at: 0.8, ..Budget::default() };
    let money = in_dollars(budget, &[("cheap", 1.0, 1.0), ("dear", 1000.0, 1000.0)]);
    let options = Options { models, default_model: Some("both".into()), money, ..Options::default() };
    let events = ask(&mut Agent::new(options, Box::new(Forgetful)), "one?");
    let Some(Event::Failed { failure, .. }) = events.last() else { panic!("{events:?}") };
    assert_eq!(failure.kind, FailureKind::Budget);
    assert!(failure.message.contains("a request to dear could cost"), "{failure:?}");
    // It may be asked to count; it isn't asked the question.
    dear.requests.try_iter().for_each(|request| assert!(request.starts_with("GET /props "), "{request}"));
    assert_eq!(spent_of(&events), Vec::<&Spent>::new());
}

#[test]
fn an_answer_that_breaks_off_is_counted_by_its_first_part() {
    let server = serve(vec![vec![sse_head(), text_event(&"word ".repeat(80))]]);
    let models = vec![Endpoint::new("m", &server.url, "x").into()];
    let money = in_dollars(Budget::default(), &[("m", 1.0, 1.0)]);
    let mut agent = Agent::new(Options { models, money, ..Options::default() }, Box::new(Forgetful));
    let events = ask(&mut agent, &"why? ".repeat(80));
    let [spent] = spent_of(&events)[..] else { panic!("{events:?}") };
    assert!(spent.is_estimate && spent.usage.uncached_in == 100 && spent.usage.visible_out == 100, "{spent:?}");
    assert_eq!(spent.cost, Some(Money::from_pico(200 * 1_000_000)));
}

#[test]
fn an_estimate_learns_from_the_servers_count() {
    let steps = r#"{"text": "a"}, {"usage": {"in": 300, "out": 1}}"#;
    let script = Ok(format!(r#"{{"steps": [{steps}]}}"#));
    let models = vec![Spec::Mock { name: "m".into(), script }];
    let mut agent = Agent::new(Options { models, ..Options::default() }, Box::new(Forgetful));
    let question = "four".repeat(100);
    let text = "four".repeat(50);
    assert_eq!(agent.count_tokens(&text, &Cancel::new()).tokens, 50);
    let first = ask(&mut agent, &question);
    assert_eq!(spent_of(&first)[0].estimated_in, 100);
    // Three times as many as estimated, so from now on as many are expected.
    let count = agent.count_tokens(&text, &Cancel::new());
    assert_eq!((count.tokens, count.is_exact), (150, false));
    assert!(count.method.contains("1.3 characters per token, as counted in answers of m"), "{count:?}");
    agent.clear_conversation();
    assert_eq!(spent_of(&ask(&mut agent, &question))[0].estimated_in, 300);
}

/// A model of the newer kind refuses a number of tokens for its thoughts; the next request names an effort.
#[test]
fn a_form_of_thinking_that_is_refused_gives_way_to_the_other() {
    let refusal = r#"{"type":"error","error":{"type":"invalid_request_error","message":"\"thinking.type.enabled\" is not supported for this model"}}"#;
    let body = r#"{"content":[{"type":"text","text":"a"}],"stop_reason":"end_turn","usage":{"input_tokens":1,"output_tokens":1}}"#;
    let server = serve(vec![
        vec![response("400 Bad Request", "", refusal)],
        vec![response("200 OK", "", body)],
        vec![response("200 OK", "", body)],
    ]);
    let endpoint = Endpoint {
        protocol: Protocol::Anthropic,
        thinking: Some(Thinking::Tokens(2000)),
        ..Endpoint::new("m", &server.url, "x")
    };
    let mut agent = Agent::new(Options { models: vec![endpoint.into()], ..Options::default() }, Box::new(Forgetful));
    for _ in 0..2 {
        let events = ask(&mut agent, "one?");
        assert!(matches!(events.last(), Some(Event::Answered { .. })), "{events:?}");
    }
    let forms = [r#""type":"enabled""#, r#""type":"adaptive""#, r#""type":"adaptive""#];
    for form in forms {
        let request = server.requests.recv().expect("a request");
        assert!(request.contains(form), "{form}: {request}");
    }
}

#[test]
fn how_far_a_model_is_says_how_far_its_memories_go() {
    let options = Options {
        models: vec![
            Endpoint::new("near", "http://127.0.0.1:1", "x").into(),
            Endpoint::new("house", "http://192.168.1.9:1", "x").into(),
            Endpoint::new("cloud", "https://example.com", "x").into(),
        ],
        default_model: Some("house".into()),
        ..Options::default()
    };
    let mut agent = Agent::new(options, Box::new(Forgetful));
    let reach = [Some("near"), Some("house"), Some("cloud"), Some("gone"), None].map(|name| agent.reach(name));
    assert_eq!(reach, [0, 1, 2, 2, 1]);
    let turn = PastTurn { question: "q".into(), answer: "a".into(), is_whole: true };
    assert!(
        agent.begin_memory(std::slice::from_ref(&turn), "gone", Box::new(Forgetful)).is_none(),
        "no other model has seen it"
    );
    assert!(agent.begin_memory(&[], "near", Box::new(Forgetful)).is_none());
}

/// Remembers calls.
struct Remembering(Vec<(String, Vec<PastCall>)>);

impl Recorder for Remembering {
    fn question(&mut self, _: &str, _: Option<&str>) -> Result<(), Failure> {
        Ok(())
    }

    fn answer_piece(&mut self, _: &str) -> Result<(), Failure> {
        Ok(())
    }

    fn calls(&mut self) -> Result<Vec<(String, Vec<PastCall>)>, Failure> {
        Ok(self.0.clone())
    }

    fn finished(&mut self, _: Ending<'_>) -> Result<(), Failure> {
        Ok(())
    }
}

#[test]
fn a_continued_conversation_has_its_calls_in_their_places() {
    let server = serve(vec![vec![sse_head(), text_event("three"), done()]]);
    let call = |id: &str, arguments: &str| PastCall {
        id: id.into(),
        tool: "file_list".into(),
        arguments: arguments.into(),
        result: format!("of {id}"),
        is_done: true,
        receipt: None,
    };
    // Two of the questions are the same: each has its own calls. Arguments that were cut aren't JSON.
    let calls = vec![
        ("again".to_owned(), vec![call("first", "{}"), call("second", "{\"path\":\"x")]),
        ("again".to_owned(), vec![call("third", "{\"path\":\".\"}")]),
        ("taken back".to_owned(), vec![call("gone", "{}")]),
    ];
    let options = Options {
        models: vec![Endpoint::new("local", &server.url, "x").into()],
        conversation: ConversationOptions::default(),
        ..Options::default()
    };
    let mut agent = Agent::new(options, Box::new(Remembering(calls)));
    let turn =
        |question: &str, answer: &str| PastTurn { question: question.into(), answer: answer.into(), is_whole: true };
    agent.go_on_in(ConversationId(1), vec![turn("again", "one"), turn("and again", "no"), turn("again", "two")], None);
    agent.ask("again", &Cancel::new(), &mut |_| {});
    let request = server.requests.recv().expect("a request");
    let body: serde_json::Value =
        serde_json::from_str(request.split_once("\r\n\r\n").expect("a body").1).expect("JSON");
    let shown = |message: &serde_json::Value| {
        let part = |value: &serde_json::Value| value.as_str().unwrap_or_default().to_owned();
        let call = &message["tool_calls"][0];
        format!("{} {}{}", part(&message["role"]), part(&message["content"]), part(&call["function"]["arguments"]))
    };
    let messages: Vec<String> = body["messages"].as_array().expect("messages").iter().map(shown).collect();
    assert_eq!(
        messages,
        [
            "user again",
            "assistant {}",
            "tool of first",
            "assistant {\"shortened\":\"{\\\"path\\\":\\\"x\"}",
            "tool of second",
            "assistant one",
            "user and again",
            "assistant no",
            "user again",
            "assistant {\"path\":\".\"}",
            "tool of third",
            "assistant two",
            "user again",
        ]
    );
}

#[test]
fn no_way_into_a_request_leaves_a_secret_in_it() {
    let server = serve((0..2).map(|_| vec![sse_head(), text_event("ok"), done()]).collect());
    let key = "late-read-key-77";
    let reader = crate::model::KeyReader::new(move |_| Ok(crate::model::Secret::new(key)));
    let options = Options {
        models: vec![Endpoint { key_reader: Some(reader), ..Endpoint::new("m", &server.url, "x") }.into()],
        conversation: turn::Options { system_prompt: "Use password=hunter2.".into(), ..turn::Options::default() },
        secrets: vec![("$T".into(), "from-the-environment".into())],
        ..Options::default()
    };
    let log = Log::default();
    let mut agent = Agent::new(options, Box::new(log.clone()));
    // A conversation that was stored before anything was redacted.
    let old =
        PastTurn { question: "token=Zx81Zx81Zx81".into(), answer: "it is from-the-environment".into(), is_whole: true };
    agent.go_on_in(ConversationId(1), vec![old], None);
    agent.attach(&[("AGENTS.md", "[project] x\nsecret=Yy82Yy82Yy82".into())]);
    // The key is read with this very question, so only the model's own side can know it.
    let events = ask(&mut agent, &format!("is it {key}?"));
    let request = server.requests.recv().expect("a request");
    let body = request.split_once("\r\n\r\n").expect("a body").1;
    for secret in ["hunter2", "Zx81Zx81Zx81", "from-the-environment", "Yy82Yy82Yy82", key] {
        assert!(!body.contains(secret), "{secret}: {body}");
    }
    assert!(notices(&events).iter().any(|it| it.starts_with("[redact] hidden from the model: ")), "{events:?}");
    let lines = notices(&ask(&mut agent, &format!("and {key} now?"))).join("\n");
    assert!(lines.contains("key of m in your question, line 1") && !lines.contains("hunter2"), "told once: {lines}");
    assert!(!log.0.lock().iter().any(|it| it.contains(&format!("and {key}"))), "by now the record knows it too");
    let places: Vec<&str> = agent.findings().map(|it| it.place.as_str()).collect();
    for place in ["the instructions", "an earlier question", "an earlier answer", "AGENTS.md", "your question"] {
        assert!(places.contains(&place), "{place}: {places:?}");
    }
}
