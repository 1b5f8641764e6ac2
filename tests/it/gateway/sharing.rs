//! Shared sessions: the output that viewers see of a real shell, who may answer its questions, which answer counts, and the
//! console's screens for them.

use std::path::Path;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::sys::socket::{setsockopt, sockopt};
use nix::unistd::Pid;
use serde_json::{Value, json};

use super::console::{go, signed_in};
use super::streams::Reader;
use super::{Answer, Client, Gateway, allowed, home, home_with, run, token};
use crate::pty::{Key, Session};
use crate::server::{Server, answer, tool_call};
use crate::wait::wait_for;

/// A shell at a terminal.
fn shell(home: &Path) -> Session {
    let session = Session::spawn(super::spawn(home, &[]).size(30, 100));
    session.expect_prompt();
    session
}

/// Shares a shell; returns the session's id.
fn share(session: &Session, words: &str, me: &Client<'_>) -> String {
    let known = shares(me).len();
    session.run(&format!(":share {words}"));
    let all = shares(me);
    assert_eq!(all.len(), known + 1, "{all:?}\n{}", session.screen_text());
    all[0]["share_id"].as_str().expect("an id").to_owned()
}

pub fn shares(client: &Client<'_>) -> Vec<Value> {
    let answer = client.get("/shares");
    assert_eq!(answer.status, 200, "{answer:?}");
    answer.json()["items"].as_array().expect("items").clone()
}

/// Frames of a session until its programs have printed a text, in one piece or several, or an event contains it.
#[track_caller]
pub fn frames_until(reader: &mut Reader, text: &str) -> Vec<Value> {
    let (mut all, mut output, until) = (Vec::new(), String::new(), Instant::now() + super::PATIENCE);
    while let Some((_, event, data)) = reader.next().filter(|_| Instant::now() < until) {
        let is_frame = event == "frame";
        let is_last = !is_frame && data.to_string().contains(text);
        if is_frame {
            output.push_str(data["d"].as_str().filter(|_| data["k"] == "o").unwrap_or_default());
            all.push(data);
        }
        if is_last || output.contains(text) {
            return all;
        }
    }
    panic!("the stream ended, or went on for too long, without {text}: {all:?}");
}

/// The text that reached the viewers' screens.
pub fn printed(frames: &[Value]) -> String {
    frames.iter().filter_map(|frame| frame["d"].as_str()).collect()
}

#[test]
fn scenario_55_viewers_see_what_ran_and_never_keys_or_secrets() {
    let home = home();
    let gateway = Gateway::start(home.path());
    let me = gateway.client(&token(home.path(), "me", "viewer", &[]));
    let session = shell(home.path());
    session.run("echo early-$((40 + 1))");
    let id = share(&session, "watch", &me);
    assert!(session.screen_text().contains(&format!("/ui/#/sessions/{id}")), "{}", session.screen_text());
    let mut reader = Reader::new(me.open(&format!("/sse/shares/{id}")));
    let snapshot = reader.expect("snapshot").2;
    assert_eq!((&snapshot["cols"], &snapshot["rows"], &snapshot["items"]), (&json!(100), &json!(30), &json!([])));
    session.run("echo shown-$((40 + 2))");
    let secret = format!("ghp_{}", "a1B2".repeat(9));
    session.run(&format!("echo {secret}"));
    session.run("printf 'a\\033]%s;c;aGVsbG8=\\007b\\n' 52");
    session.line("read -rs word; echo read-$((1 + 1))");
    session.type_text("hid-den-word");
    session.press(Key::Enter);
    session.run(" echo a-line-of-my-own");
    session.run("export MY_API_KEY=hunter2hunter2zz");
    session.run("echo $MY_API_KEY");
    session.run("false");
    session.run("echo at-the-end");
    let frames = frames_until(&mut reader, "at-the-end\r\n");
    let screen = printed(&frames);
    for shown in ["shown-42\r\n", &"*".repeat(40), "ab\r\n", "read-2\r\n", "a-line-of-my-own\r\n"] {
        assert!(screen.contains(shown), "{shown:?} in {screen:?}");
    }
    let all = json!(frames).to_string();
    for hidden in ["early-", "hid-den-word", "ghp_a1B2", "]52;", " echo a-line", "hunter2"] {
        assert!(!all.contains(hidden), "{hidden} in {all}");
    }
    assert_eq!(frames[0]["text"], "echo shown-$((40 + 2))", "{all}");
    let ended = |status: i64| frames.iter().any(|frame| frame["k"] == "c" && frame["status"] == status);
    assert!(ended(0) && ended(1), "{all}");
    // A late viewer gets the screen, and the lines with their output.
    let late = Reader::new(me.open(&format!("/sse/shares/{id}"))).expect("snapshot").2;
    assert!(late["screen"].as_str().is_some_and(|screen| screen.contains("shown-42")), "{late}");
    let line = late["items"].as_array().expect("items").iter().find(|item| item["text"] == "echo shown-$((40 + 2))");
    assert_eq!(line.map(|line| line["output"].clone()), Some(json!("shown-42")), "{late}");
    session.run("seq 20000 | tail -n 1");
    session.run(":share off");
    let rest = frames_until(&mut reader, "has ended it");
    assert!(printed(&rest).contains("20000\r\n"), "{rest:?}");
    // The recording is an asciicast, and contains only what was shown.
    let recording = me.get(&format!("/shares/{id}/recording"));
    assert_eq!((recording.status, recording.headers["content-type"].as_str()), (200, "application/x-asciicast"));
    let lines: Vec<Value> = recording.text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    assert_eq!((&lines[0]["version"], &lines[0]["term"]), (&json!(3), &json!({"cols": 100, "rows": 30})));
    assert!(lines.iter().any(|line| line[1] == "m" && line[2] == "echo shown-$((40 + 2))"), "{lines:?}");
    assert!(!recording.text.contains("hid-den") && !recording.text.contains("ghp_"), "{}", recording.text);
    assert_eq!(shares(&me)[0]["state"], "ended");
    // The death of a gateway changes nothing for the shell.
    share(&session, "watch", &me);
    gateway.end(Signal::SIGKILL);
    session.run("echo still-$((40 + 3))");
    session.expect_line("still-43");
    session.line("exit");
    session.expect_exit();
}

/// The shortest time from a line to the next prompt for each of two shells, which take turns: a wait for a viewer would be in
/// each round, a busy machine isn't.
fn round_trips(shells: [&Session; 2]) -> [Duration; 2] {
    let mut times = [Vec::new(), Vec::new()];
    for count in 0..40 {
        // The first shell of a round may find the processor cold.
        let order = if count % 2 == 0 { [0, 1] } else { [1, 0] };
        for at in order {
            let began = Instant::now();
            shells[at].run(":");
            times[at].push(began.elapsed());
        }
    }
    times.map(|all| all.into_iter().min().unwrap_or_default())
}

#[test]
fn a_session_goes_on_at_a_gateway_that_is_started_anew_with_its_question() {
    let server = Server::start();
    let home = home_of(&server);
    let gateway = Gateway::start(home.path());
    let secret = token(home.path(), "anna", "approver", &[]);
    let anna = gateway.client(&secret);
    let session = shell(home.path());
    let id = share(&session, "approve anna", &anna);
    session.run("echo before-$((40 + 1))");
    server.reply(tool_call("file_write", &json!({"path": "first.txt", "content": "x"}).to_string()));
    server.reply(answer("It is written."));
    session.line("?write the first file");
    session.expect_text("also asked: anna");
    let asked = open_question(&anna);
    let mut reader = Reader::new(anna.open(&format!("/sse/shares/{id}")));
    reader.expect("snapshot");
    gateway.end(Signal::SIGTERM);
    // Viewers learn that the gateway ends, and that the session doesn't.
    let mut last = None;
    while let Some((_, event, data)) = reader.next() {
        last = Some((event, data));
    }
    assert_eq!(last, Some(("system".into(), json!({"kind": "shutting_down"}))));
    let gateway = Gateway::start(home.path());
    let anna = gateway.client(&secret);
    let question = open_question(&anna);
    assert_eq!(question["digest"], asked["digest"]);
    assert_ne!(question["question_id"], asked["question_id"]);
    let late = Reader::new(anna.open(&format!("/sse/shares/{id}"))).expect("snapshot").2;
    assert!(late["screen"].as_str().is_some_and(|screen| screen.contains("before-41")), "{late}");
    let line = late["items"].as_array().expect("items").iter().find(|item| item["text"] == "echo before-$((40 + 1))");
    assert_eq!(line.map(|line| line["output"].clone()), Some(json!("before-41")), "{late}");
    let until = Instant::now() + super::PATIENCE;
    // The session receives answers once it has reconnected.
    while said(&anna, &question, "once").status != 200 {
        assert!(Instant::now() < until, "no answer counts");
    }
    session.expect_text("once, by anna");
    session.expect_text("It is written.");
    session.expect_prompt();
    // Its owner ends it, and no gateway revives it.
    session.run(":share off");
    gateway.end(Signal::SIGTERM);
    let gateway = Gateway::start(home.path());
    for (user, code) in [("me", "ended"), ("ben", "not_found")] {
        let client = gateway.client(&token(home.path(), user, "member", &[]));
        let again = client.post("/shares", &json!({"kind": "shell", "cols": 80, "rows": 24, "share_id": id}));
        assert_eq!(again.code(), code, "{again:?}");
    }
    session.line("exit");
    session.expect_exit();
}

#[test]
fn scenario_55_a_shell_waits_for_no_viewer_and_no_gateway() {
    let home = home();
    let gateway = Gateway::start(home.path());
    let me = gateway.client(&token(home.path(), "me", "viewer", &[]));
    let (plain, shared) = (shell(home.path()), shell(home.path()));
    let id = share(&shared, "watch", &me);
    let same = |state: &str| {
        let [alone, watched] = round_trips([&plain, &shared]);
        // A wait for a viewer would be longer: pieces are sent every 33 ms, and a suspended gateway never answers.
        let most = alone + Duration::from_millis(15);
        assert!(watched <= most, "{state}: {watched:?}, and {alone:?} unshared");
    };
    same("nobody watches");
    let stalled = me.open(&format!("/sse/shares/{id}"));
    setsockopt(&stalled, sockopt::RcvBuf, &4096).expect("a small window");
    shared.run("seq 200000 | tail -n 100000 | head -n 60000");
    same("a viewer takes nothing");
    let pid = Pid::from_raw(gateway.pid());
    kill(pid, Signal::SIGSTOP).expect("it is there");
    same("the gateway is stopped");
    kill(pid, Signal::SIGCONT).expect("it is there");
    gateway.end(Signal::SIGKILL);
    same("the gateway is killed");
    for session in [plain, shared] {
        session.line("exit");
        session.expect_exit();
    }
}

pub fn said(client: &Client<'_>, question: &Value, word: &str) -> Answer {
    let id = question["question_id"].as_str().expect("an id");
    let body = json!({"digest": question["digest"], "answer": word, "seen_to_end": true});
    client.post(&format!("/questions/{id}/answer"), &body)
}

/// Waits for the one open question and returns it.
pub fn open_question(client: &Client<'_>) -> Value {
    wait_for("a question", || client.get("/questions?state=open").json()["items"].get(0).cloned())
}

fn home_of(server: &Server) -> tempfile::TempDir {
    let models = format!("models = {{tiny = {{endpoint = \"{}\"}}}}", server.endpoint());
    home_with(&format!("{models}, memory = {{auto = false}}, context = {{project = false}}"))
}

#[test]
fn scenario_54_a_question_of_a_shared_session_is_answered_once_here_or_at_the_terminal() {
    let server = Server::start();
    let home = home_of(&server);
    let gateway = Gateway::start(home.path());
    let me = gateway.client(&token(home.path(), "me", "admin", &[]));
    let anna = gateway.client(&token(home.path(), "anna", "approver", &[]));
    let ben = gateway.client(&token(home.path(), "ben", "approver", &[]));
    let bot = gateway.client(&token(home.path(), "anna", "approver", &["--kind", "agent"]));
    let session = shell(home.path());
    let id = share(&session, "approve anna", &me);
    let write = |path: &str| tool_call("file_write", &json!({"path": path, "content": "x"}).to_string());
    server.reply(write("first.txt"));
    server.reply(answer("It is written."));
    session.line("?write the first file");
    session.expect_text("also asked: anna");
    let question = open_question(&anna);
    assert_eq!((&question["tool"], &question["may_answer"]), (&json!("file_write"), &json!(true)), "{question}");
    assert_eq!(question["changes"][0]["new"], "x", "{question}");
    // Members who aren't named can't see it, and an agent can't answer it.
    assert_eq!(ben.get("/questions?state=open").json()["items"], json!([]));
    assert_eq!(said(&ben, &question, "once").code(), "not_found");
    assert_eq!(ben.get(&format!("/sse/shares/{id}")).code(), "not_found");
    assert_eq!(said(&bot, &question, "once").code(), "forbidden");
    let mut other = question.clone();
    other["digest"] = "0".repeat(64).into();
    assert_eq!(said(&anna, &other, "once").code(), "conflict");
    let path = format!("/questions/{}/answer", question["question_id"].as_str().expect("an id"));
    let unseen = json!({"digest": question["digest"], "answer": "once", "seen_to_end": false});
    assert_eq!(anna.post(&path, &unseen).code(), "body_invalid");
    assert!(!home.path().join("ws/first.txt").exists());
    let yes = said(&anna, &question, "once");
    assert_eq!((yes.status, &yes.json()), (200, &json!({"accepted": true})), "{yes:?}");
    session.expect_text("once, by anna");
    session.expect_text("It is written.");
    assert_eq!(std::fs::read_to_string(home.path().join("ws/first.txt")).expect("the file"), "x");
    let again = said(&anna, &question, "once");
    assert_eq!((again.code().as_str(), &again.json()["error"]["context"]["by"]), ("already_answered", &json!("anna")));
    assert!(me.get("/receipts?tool=file_write").text.contains("person:anna"));
    // The terminal answers first: a late member learns who was first.
    session.expect_prompt();
    server.reply(write("second.txt"));
    server.reply(answer("That one, too."));
    session.line("?write the second file");
    session.expect_text("accept [y]");
    let question = open_question(&anna);
    session.send(b"y");
    session.expect_text("That one, too.");
    let late = said(&anna, &question, "no");
    assert_eq!((late.code().as_str(), &late.json()["error"]["context"]["by"]), ("already_answered", &json!("me")));
    assert!(home.path().join("ws/second.txt").exists());
    // A refusal from elsewhere reaches the model with its reason.
    session.expect_prompt();
    server.reply(write("third.txt"));
    server.reply(answer("Then not."));
    session.line("?write the third file");
    session.expect_text("write the third file");
    let question = open_question(&anna);
    assert_eq!(said(&anna, &question, "no").status, 200);
    session.expect_text("no, by anna");
    session.expect_text("Then not.");
    assert!(!home.path().join("ws/third.txt").exists());
    // The answer counts before its event is written.
    wait_for("the third event", || {
        let log = me.get("/events/list?type=question.answered").json();
        log["items"].as_array().filter(|items| items.len() == 3).map(Vec::len)
    });
    session.run(":share off");
    session.line("exit");
    session.expect_exit();
}

#[test]
fn viewers_see_what_the_model_asks_in_words() {
    let server = Server::start();
    let home = home_of(&server);
    let gateway = Gateway::start(home.path());
    let me = gateway.client(&token(home.path(), "me", "admin", &[]));
    let session = shell(home.path());
    let id = share(&session, "watch", &me);
    let mut reader = Reader::new(me.open(&format!("/sse/shares/{id}")));
    reader.expect("snapshot");
    server.reply(tool_call("ask_user", &json!({"question": "Which animal?", "choices": ["cat", "dog"]}).to_string()));
    server.reply(answer("A cat it is."));
    session.line("?ask me something");
    session.expect_text("your answer: ");
    session.line("1");
    session.expect_text("A cat it is.");
    session.run("echo after-$((40 + 1))");
    let all = json!(frames_until(&mut reader, "after-41\r\n")).to_string();
    assert!(all.contains("Which animal? (cat, dog); this is answered at the terminal"), "{all}");
    // Sharing with other rights is another session, with another address.
    session.run(":share approve nobody");
    session.expect("a word about the address", |screen| {
        let text = screen.contents().split_whitespace().collect::<Vec<_>>().join(" ");
        text.contains("the address before has ended") && text.contains("nobody is no member there")
    });
}

#[test]
fn a_terminal_that_has_gone_answers_no_question() {
    let server = Server::start();
    let home = home_of(&server);
    let gateway = Gateway::start(home.path());
    let me = gateway.client(&token(home.path(), "me", "admin", &[]));
    let anna = gateway.client(&token(home.path(), "anna", "approver", &[]));
    let mut session = shell(home.path());
    share(&session, "approve anna", &me);
    server.reply(tool_call("file_write", &json!({"path": "first.txt", "content": "x"}).to_string()));
    session.line("?write the first file");
    session.expect_text("also asked: anna");
    let id = open_question(&anna)["question_id"].as_str().expect("an id").to_owned();
    session.hang_up();
    let question = session.expect_outside("the question is closed", || {
        Some(allowed(|| anna.get(&format!("/questions/{id}"))).json()).filter(|it| it["state"] != "open")
    });
    assert_eq!((&question["state"], &question["by"]), (&json!("expired"), &Value::Null), "{question}");
    assert_eq!(me.get("/events/list?type=question.answered").json()["items"], json!([]));
}

#[test]
fn only_those_who_are_named_watch_and_only_the_owner_ends_a_session() {
    let home = home();
    let gateway = Gateway::start(home.path());
    let me = gateway.client(&token(home.path(), "me", "member", &[]));
    let anna = gateway.client(&token(home.path(), "anna", "admin", &[]));
    let ben = gateway.client(&token(home.path(), "ben", "admin", &[]));
    let wanted = json!({"kind": "agent", "cols": 80, "rows": 24, "title": "mine", "watch": ["anna", "nan"]});
    let begun = me.post("/shares", &wanted);
    assert_eq!((begun.status, &begun.json()["unknown"]), (201, &json!(["nan"])), "{begun:?}");
    let (id, secret) = (begun.json()["share_id"].clone(), begun.json()["publish_token"].clone());
    let (id, secret) = (id.as_str().expect("an id"), secret.as_str().expect("a secret"));
    assert!(ben.get("/shares").json()["items"] == json!([]) && shares(&anna).len() == 1);
    for path in [format!("/shares/{id}"), format!("/shares/{id}/recording"), format!("/sse/shares/{id}")] {
        assert_eq!(ben.get(&path).code(), "not_found", "{path}");
    }
    let authorization = format!("Bearer {secret}");
    let headers = [("Authorization", authorization.as_str()), ("Content-Type", "application/x-ndjson")];
    let publish = |body: &str| gateway.send("POST", &format!("/shares/{id}/frames"), &headers, body);
    assert_eq!(publish("{\"seq\":1,\"k\":\"l\",\"text\":\"one\"}\n").json(), json!({"accepted_to": 1}));
    // Repeated data changes nothing, and a gap is refused.
    assert_eq!(publish("{\"seq\":1,\"k\":\"l\",\"text\":\"one\"}\n").json(), json!({"accepted_to": 1}));
    let ahead = publish("{\"seq\":3,\"k\":\"l\",\"text\":\"three\"}\n");
    assert_eq!((ahead.code().as_str(), &ahead.json()["error"]["context"]["expected_seq"]), ("conflict", &json!(2)));
    assert_eq!(publish("no frame\n").code(), "body_invalid");
    let wrong = [("Authorization", "Bearer rc_share_x"), ("Content-Type", "application/x-ndjson")];
    assert_eq!(gateway.send("POST", &format!("/shares/{id}/frames"), &wrong, "").code(), "unauthenticated");
    let mut reader = Reader::new(anna.open(&format!("/sse/shares/{id}")));
    let (cursor, _, snapshot) = reader.expect("snapshot");
    assert_eq!(snapshot["items"][0]["text"], "one", "{snapshot}");
    assert_eq!(shares(&me)[0]["viewers"], json!(["anna"]));
    // A viewer that returns continues at its position; after a gap it starts again.
    drop(reader);
    assert_eq!(publish("{\"seq\":2,\"k\":\"l\",\"text\":\"two\"}\n").status, 202);
    let back = anna.with("Last-Event-ID", &cursor.expect("an id"));
    let mut reader = Reader::new(back.open(&format!("/sse/shares/{id}")));
    assert_eq!(reader.expect("frame").2["text"], "two");
    assert_eq!(publish("{\"seq\":3,\"k\":\"g\",\"bytes\":5}\n").status, 202);
    assert_eq!(reader.expect("snapshot").2["items"][1]["text"], "two");
    assert_eq!(anna.delete(&format!("/shares/{id}")).code(), "forbidden");
    assert_eq!(me.delete(&format!("/shares/{id}")).status, 204);
    assert_eq!(reader.expect("ended").2["why"], "its owner has ended it");
    let late = publish("{\"seq\":4,\"k\":\"l\",\"text\":\"four\"}\n");
    assert!(matches!(late.status, 401 | 410), "{late:?}");
    let kinds = anna.get("/events/list?limit=500").text;
    for kind in ["share.started", "share.joined", "share.ended"] {
        assert!(kinds.contains(kind), "{kind}");
    }
    let (status, out, err) = run(home.path(), &["gateway", "verify"]);
    assert_eq!(status, Some(0), "{out}{err}");
}

#[test]
fn a_shell_that_finds_no_gateway_says_how_to_start_one() {
    let home = home();
    let session = shell(home.path());
    session.run(":share watch");
    assert!(session.screen_text().contains("no gateway runs here"), "{}", session.screen_text());
    assert!(session.screen_text().contains("reedclaw gateway --open"), "{}", session.screen_text());
    session.line("exit");
    session.expect_exit();
}

#[test]
fn a_shared_session_is_watched_answered_and_replayed_in_the_browser() {
    let server = Server::start();
    let home = home_of(&server);
    let gateway = Gateway::start(home.path());
    let me = gateway.client(&token(home.path(), "me", "admin", &[]));
    let Some(mut browser) = signed_in(home.path(), &gateway, "approver") else { return };
    go(&mut browser, "l", "Sessions");
    browser.expect("No session is shared with you.");
    let session = shell(home.path());
    session.run("cd ws");
    session.run("echo the plan > plan.txt");
    let id = share(&session, "approve mia", &me);
    session.run("printf '\\033[1;32mgreen\\033[0m and plain\\n'; echo line-$((6 * 7))");
    // The list updates automatically; its entry leads to the session.
    browser.wait("document.querySelector('a[data-entry]')");
    browser.eval("document.querySelector('a[data-entry]').click()");
    browser.wait("document.querySelector('#session-state')?.innerText.includes('live')");
    browser.expect("watched by mia");
    session.resize(30, 90);
    browser.expect("90×30");
    session.run("echo from-$((1 + 1))-on");
    browser.wait("document.querySelector('#lines').innerText.includes('echo from-$((1 + 1))-on')");
    // The screen is in a frame that has no access to this page, its network or its storage.
    assert_eq!(browser.eval("document.querySelector('iframe').contentDocument"), Value::Null);
    assert_eq!(browser.eval("document.querySelector('iframe').getAttribute('sandbox')"), "allow-scripts");
    let page = browser.tab();
    browser.frame();
    browser.wait("document.querySelector('.xterm-rows')?.innerText.includes('green and plain')");
    browser.wait("document.querySelector('.xterm-rows').innerText.includes('from-2-on')");
    // The session's keys still work after a click into the frame.
    browser.eval("window.focus()");
    browser.key("t");
    browser.turn_to(&page);
    browser.wait("document.querySelector('.output')?.innerText.includes('line-42')");
    browser.wait("[...document.querySelectorAll('.output')].some((it) => it.innerText.includes('from-2-on'))");
    browser.key("t");
    // A question is answered here; the terminal learns by whom.
    server.reply(tool_call(
        "file_write",
        &json!({"path": "plan.txt", "content": "the plan\nof two lines\n"}).to_string(),
    ));
    server.reply(answer("The plan is **written**."));
    session.line("?write down the plan");
    session.expect_text("also asked: mia");
    browser.wait("document.querySelector('.card .add')");
    let shown = browser.eval("[...document.querySelectorAll('.card .line')].map((it) => it.innerText.trimEnd())");
    assert_eq!(shown, json!(["plan.txt", "  the plan", "+ of two lines"]));
    browser.look(1280, 1000, "light");
    browser.picture("gateway-session.png");
    browser.look(1100, 800, "light");
    browser.press("Yes, once");
    session.expect_text("once, by mia");
    session.expect_text("written");
    browser.wait("document.querySelector('#lines').innerText.includes('✓ yes, mia')");
    let written = "document.querySelector('#lines .answer strong')?.innerText === 'written'";
    browser.wait(written);
    for (width, scheme) in [(1100, "light"), (1100, "dark"), (640, "light"), (320, "light")] {
        browser.look(width, 800, scheme);
        let found = browser.violations();
        assert!(found.is_empty(), "session at {width} {scheme}: {found:#?}");
        let wide = browser.eval("document.documentElement.scrollWidth - document.documentElement.clientWidth");
        assert!(wide.as_i64() <= Some(0), "the session is {wide} too wide at {width}");
    }
    browser.look(1100, 800, "light");
    // A lost connection is shown, and the missed output follows.
    browser.offline(true);
    session.run("echo while-$((2 + 2))-away");
    browser.wait("document.querySelector('#session-state').innerText.includes('catching up')");
    browser.offline(false);
    browser.wait("document.querySelector('#session-state').innerText.includes('live')");
    browser.wait("document.querySelector('#lines').innerText.includes('echo while-$((2 + 2))-away')");
    session.run(":share off");
    browser.expect("The session has ended");
    browser.press_link("Replay it");
    browser.wait("document.querySelector('h1')?.innerText.startsWith('Replay')");
    browser.wait("document.querySelector('#clock')");
    assert_eq!(browser.eval("document.querySelector('#lines').innerText"), "No line yet.");
    browser.key(".");
    browser.wait("document.querySelector('#lines').innerText.includes('line-$((6 * 7))')");
    browser.eval("document.querySelector('#time').value = document.querySelector('#time').max, document.querySelector('#time').dispatchEvent(new Event('input', {bubbles: true}))");
    browser.wait("document.querySelector('#lines').innerText.includes('while-$((2 + 2))-away')");
    browser.wait(written);
    browser.wait("document.querySelector('#lines').innerText.includes('? write down the plan')");
    let page = browser.tab();
    browser.frame();
    browser.wait("document.querySelector('.xterm-rows')?.innerText.includes('while-4-away')");
    browser.turn_to(&page);
    let found = browser.violations();
    assert!(found.is_empty(), "replay: {found:#?}");
    browser.picture("gateway-replay.png");
    assert_eq!(browser.complaints, Vec::<String>::new(), "the page's policy was kept");
    assert!(me.get(&format!("/shares/{id}")).json()["state"] == "ended");
    session.line("exit");
    session.expect_exit();
}
