//! The agent against a scripted server: order of events, what is recorded, what the next question carries.

use std::cell::RefCell;
use std::rc::Rc;
use std::thread;
use std::time::Duration;

use super::*;
use crate::model::Endpoint;
use crate::model::script::{Script, Step, done, response, said, serve, sse_head};
use crate::proto::Capture;

#[derive(Clone, Default)]
struct Log(Rc<RefCell<Vec<String>>>);

impl Recorder for Log {
    fn question(&mut self, text: &str, _: Option<&str>) -> Result<(), Failure> {
        self.0.borrow_mut().push(format!("question {text}"));
        Ok(())
    }

    fn answer_piece(&mut self, text: &str) -> Result<(), Failure> {
        self.0.borrow_mut().push(format!("piece {text}"));
        Ok(())
    }

    fn spent(&mut self, spent: &Spent, thoughts: &str) -> Result<(), Failure> {
        let Spent { model, tools, usage } = spent;
        let (read, wrote) = (usage.total_in(), usage.total_out());
        self.0.borrow_mut().push(format!("spent {model} {tools:?} {read} {wrote} {thoughts}"));
        Ok(())
    }

    fn finished(&mut self, ending: Ending<'_>) -> Result<(), Failure> {
        let ending = match ending {
            Ending::Failed(failure) => format!("failed {:?}", failure.kind),
            other => format!("{other:?}"),
        };
        self.0.borrow_mut().push(ending);
        Ok(())
    }
}

struct Full;

impl Recorder for Full {
    fn question(&mut self, _: &str, _: Option<&str>) -> Result<(), Failure> {
        Err(Failure { kind: FailureKind::Unavailable, message: "the disk is full".into(), hint: String::new() })
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
    let answer = || vec![sse_head(), said("yes "), Step::Await, said("sir"), done()];
    let server = serve(vec![answer(), answer(), answer()]);
    (0..3).for_each(|_| server.go.send(()).expect("the server waits"));
    let (mut agent, log) = agent_of(&server, 2);
    let events = ask(&mut agent, "one?");
    assert_eq!(events.last(), Some(&Event::Answered { text: "yes sir".into() }));
    let pieces: String =
        events.iter().filter_map(|it| if let Event::Text(text) = it { Some(text.as_str()) } else { None }).collect();
    assert_eq!(pieces, "yes sir");
    let recorded = log.0.borrow().clone();
    assert_eq!((recorded[0].as_str(), recorded.last().map(String::as_str)), ("question one?", Some("Answered")));
    let kept: String = recorded.iter().filter_map(|it| it.strip_prefix("piece ")).collect();
    assert_eq!(kept, "yes sir");
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
    assert_eq!(events[0], Event::Notice("[context] oldest 2 turns evicted".into()));
    assert_eq!(sent(&server), ["system:sys", &format!("user:{block}"), "assistant:yes sir", "user:three?"]);
}

#[test]
fn a_failure_leaves_no_message_and_a_cut_answer_stays_marked() {
    let server = serve(vec![
        vec![response("500 No", "", "{\"error\":{\"message\":\"boom\"}}")],
        vec![sse_head(), said("half")],
        vec![sse_head(), said("ok"), done()],
    ]);
    let (mut agent, log) = agent_of(&server, 40);
    let events = ask(&mut agent, "one?");
    assert!(
        matches!(&events[..], [Event::Failed { text, failure }]
        if text.is_empty() && failure.message.contains("boom")),
        "{events:?}"
    );
    let events = ask(&mut agent, "two?");
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
    assert_eq!(log.0.borrow()[1], "failed Unavailable");
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
        assert_eq!(log.0.borrow().last().map(String::as_str), Some("Cancelled"));
        stopper.join().expect("the stopper ends");
        closed.recv_timeout(Duration::from_secs(60)).expect("the connection is closed");
    }
}

#[test]
fn a_cancel_in_the_middle_keeps_what_came() {
    let server = serve(vec![vec![sse_head(), said("half"), Step::Hold], vec![sse_head(), said("ok"), done()]]);
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
    assert_eq!(events, [Event::Text("half".into()), Event::Cancelled { text: "half".into() }]);

    // Cancelled before it starts: nothing is sent, until the handle is made ready again.
    events.clear();
    agent.ask("never sent?", &cancel, &mut |event| events.push(event));
    assert_eq!(events, [Event::Cancelled { text: String::new() }]);
    cancel.rearm();
    agent.ask("two?", &cancel, &mut |event| events.push(event));
    assert_eq!(events.last(), Some(&Event::Answered { text: "ok".into() }));
    sent(&server);
    assert_eq!(sent(&server), ["system:sys", "user:one?", "assistant:half\n[stopped by the user]", "user:two?"]);
}

#[test]
fn without_a_model_the_hint_says_how_to_connect_one() {
    let mut agent = Agent::new(Options::default(), Box::new(Forgetful));
    let events = ask(&mut agent, "hello?");
    let [Event::Failed { failure, .. }] = &events[..] else { panic!("{events:?}") };
    assert_eq!(failure.kind, FailureKind::NoModel);
    assert!(failure.hint.contains(r#"return {models = {mine = {endpoint = "http://127.0.0.1:8080"}}}"#));
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
    let server = serve(vec![vec![sse_head(), said("ok"), done()]]);
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
fn a_store_that_fails_is_said_once_and_the_answer_goes_on() {
    let server = serve(vec![vec![sse_head(), said("a"), Step::Await, said("b"), done()]]);
    server.go.send(()).expect("the server waits");
    let options = Options { models: vec![Endpoint::new("m", &server.url, "x").into()], ..Options::default() };
    let events = ask(&mut Agent::new(options, Box::new(Full)), "one?");
    let notices: Vec<_> = events.iter().filter(|it| matches!(it, Event::Notice(_))).collect();
    assert_eq!(notices.len(), 1, "{events:?}");
    assert_eq!(events.last(), Some(&Event::Answered { text: "ab".into() }));
}

#[test]
fn an_answer_that_lacks_something_says_so() {
    let object = |reason: &str, text: &str| {
        format!(r#"{{"choices":[{{"message":{{"content":"{text}"}},"finish_reason":"{reason}"}}]}}"#)
    };
    let server = serve(vec![
        vec![response("200 OK", "", &object("length", "long"))],
        vec![response("200 OK", "", &object("stop", ""))],
    ]);
    let (mut agent, _) = agent_of(&server, 40);
    for words in ["limit of tokens", "is empty"] {
        let events = ask(&mut agent, "one?");
        assert!(events.iter().any(|it| matches!(it, Event::Notice(notice) if notice.contains(words))), "{events:?}");
        assert!(matches!(events.last(), Some(Event::Answered { .. })));
    }
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
    assert_eq!(log.0.borrow()[2], "spent m [\"read\"] 12 5 hm yes");
}
