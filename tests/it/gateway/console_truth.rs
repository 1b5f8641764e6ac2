//! The console in cases in which it could mislead: questions that aren't read to their end, another person's session, a lost
//! connection, invisible characters, a long log, and acts that can't be undone.

use nix::sys::signal::Signal;
use reedclaw::base::text::is_invisible;
use serde_json::{Value, json};

use super::browser::Browser;
use super::console::{code_in, go, signed_in};
use super::{Client, Gateway, allowed, home, home_with, token};
use crate::server::{Server, Step, answer, head, piece, tool_call};

fn write(path: &str, content: &str) -> Value {
    json!({"action_name": "file_write", "subject_type": "thread", "subject_id": "t-1",
        "args": {"path": path, "content": content}})
}

/// The questions that are open.
fn open(client: &Client<'_>) -> Vec<Value> {
    client.get("/questions?state=open").json()["items"].as_array().expect("items").clone()
}

/// The button for yes, if it can be pressed.
const YES: &str = "[...document.querySelectorAll('button')].some((it) => it.innerText === 'Yes, once' && !it.disabled)";

/// Waits until the page has drawn twice, so that it has noted everything that it saw meanwhile.
fn drawn(browser: &mut Browser) {
    browser.eval("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => setTimeout(() => done(true), 50))))");
}

#[test]
fn a_question_is_answered_after_its_end_was_seen_and_by_the_letter_alone() {
    let home = home();
    let gateway = Gateway::start(home.path());
    let anna = gateway.client(&token(home.path(), "anna", "member", &[]));
    let ben = gateway.client(&token(home.path(), "ben", "approver", &[]));
    let Some(mut browser) = signed_in(home.path(), &gateway, "approver") else { return };
    go(&mut browser, "i", "Inbox");
    let lines: String = (0..400).map(|number| format!("line {number}\n")).collect();
    assert_eq!(anna.post("/actions/execute", &write("long.txt", &lines)).status, 202);
    browser.expect("line 399");
    browser.key("j");
    browser.wait("document.activeElement.matches('article.card')");
    drawn(&mut browser);
    assert_eq!(browser.eval(YES), json!(false));
    browser.expect("its end was not seen yet");
    browser.key("o");
    drawn(&mut browser);
    assert_eq!(open(&ben).len(), 1, "nobody has read it");
    let hides = "[...document.querySelectorAll('.card.mine pre')].some((it) => it.scrollHeight > it.clientHeight + 1)";
    assert_eq!(browser.eval(hides), json!(false), "no part of it scrolls by itself");
    browser.eval("document.querySelector('.card.mine').scrollIntoView({ block: 'end' })");
    browser.wait(YES);
    browser.chord("o");
    drawn(&mut browser);
    assert_eq!(open(&ben).len(), 1, "a chord is the browser's");
    browser.key("o");
    browser.expect("✓ yes, mia");
    // The focus doesn't move to another question, which a second press would answer.
    assert_eq!(browser.eval("document.activeElement.tagName"), json!("H1"));
    // A person who answers too late reads that it is too late, although the question is gone.
    assert_eq!(anna.post("/actions/execute", &write("short.txt", "x")).status, 202);
    browser.wait(YES);
    browser.eval(
        "(() => { const real = window.fetch; window.fetch = async (path, what) => { if (String(path).endsWith('/answer')) \
         await new Promise((go) => { window.goOn = go; }); return real(path, what); }; })()",
    );
    browser.key("j");
    browser.wait("document.activeElement.matches('article.card')");
    browser.key("o");
    browser.wait("window.goOn");
    let question = open(&ben).remove(0);
    let id = question["question_id"].as_str().expect("an id");
    let no = json!({"digest": question["digest"], "answer": "no", "seen_to_end": true});
    assert_eq!(ben.post(&format!("/questions/{id}/answer"), &no).status, 200);
    browser.expect("✕ no, ben");
    assert_eq!(browser.eval("document.activeElement.tagName"), json!("H1"), "the card went with the focus");
    browser.eval("window.goOn()");
    browser.expect("Your answer to file_write doesn't count: ben has answered it already.");
    assert_eq!(browser.complaints, Vec::<String>::new());
}

#[test]
fn whoever_signs_in_next_sees_nothing_of_the_one_before() {
    let home = home();
    let gateway = Gateway::start(home.path());
    let anna = gateway.client(&token(home.path(), "anna", "member", &[]));
    let Some(mut browser) = signed_in(home.path(), &gateway, "approver") else { return };
    go(&mut browser, "i", "Inbox");
    assert_eq!(anna.post("/actions/execute", &write("secret.txt", "x")).status, 202);
    browser.expect("secret.txt");
    browser.press("Sign out");
    browser.expect("Sign in to ReedClaw");
    browser.wait("document.activeElement.id === 'code'");
    browser.text(&code_in(home.path(), "local", "viewer"));
    browser.press("Sign in");
    browser.expect("mia (viewer)");
    browser.expect("yours is viewer");
    assert_eq!(browser.eval("/secret|file_write|\\(1\\)/.test(document.body.innerText)"), json!(false));
    // A link that is pasted into the open page signs in, and its code leaves the address.
    let link = format!("http://{}/ui/#pair={}", gateway.address, code_in(home.path(), "local", "member"));
    browser.call("Page.navigate", json!({"url": link}));
    browser.expect("mia (member)");
    assert_eq!(browser.eval("location.hash"), json!(""));
    // A code that was used before changes nothing, and the page says so.
    browser.open(&link);
    browser.expect("The link didn't sign you in; your session continues.");
    browser.expect("mia (member)");
    browser.press("Sign out");
    browser.expect("Sign in to ReedClaw");
    browser.open(&link);
    browser.expect("This code is wrong, was used before, or is older than five minutes.");
    browser.text(&code_in(home.path(), "local", "member"));
    browser.press("Sign in");
    browser.expect("mia (member)");
    // An address that can't be decoded, and a run that doesn't exist.
    for (hash, text) in [
        ("#/runs/%", "There is no such run"),
        ("#/canvas/%E0%A4", "Canvas %E0%A4"),
        ("#/runs/none", "There is no such run"),
    ] {
        browser.open(&format!("http://{}/ui/{hash}", gateway.address));
        browser.expect(text);
        assert_eq!(browser.eval("document.querySelector('#state')"), Value::Null, "{hash}");
    }
    assert_eq!(browser.complaints, Vec::<String>::new());
}

#[test]
fn changes_of_a_canvas_wait_for_a_connection_and_for_a_busy_gateway() {
    let home = home();
    let gateway = Gateway::start(home.path());
    let anna = gateway.client(&token(home.path(), "anna", "member", &[]));
    let op =
        json!({"op": "create", "atom": {"id": "one", "type": "note", "order": "a", "props": {"text": "one", "x": 16}}});
    let body = json!({"base_rev": 0, "ops": [op], "idempotency_key": "one"});
    assert_eq!(anna.post("/canvas/board/commands", &body).status, 200);
    let props = || allowed(|| anna.get("/canvas/board/snapshot")).json()["atoms"][0]["props"].clone();
    let Some(mut browser) = signed_in(home.path(), &gateway, "member") else { return };
    let synced = "document.querySelector('#sync')?.innerText === 'synced'";
    go(&mut browser, "c", "Canvas");
    browser.wait("document.querySelectorAll('.atom').length === 1");
    browser.wait("document.querySelector('#connection').innerText.includes('live')");
    browser.offline(true);
    browser.wait("document.querySelector('#connection').innerText.includes('offline')");
    browser.eval("document.querySelector('.atom').focus()");
    browser.key("ArrowRight");
    browser.expect("1 pending");
    // It stays while another screen is shown.
    go(&mut browser, "h", "Home");
    go(&mut browser, "c", "Canvas");
    browser.expect("1 pending");
    browser.offline(false);
    browser.wait(synced);
    assert_eq!(props()["x"], 32);
    for status in [429, 408, 503, 500] {
        browser.eval(&format!(
            "(() => {{ window.real ??= window.fetch; let count = 0; window.fetch = (path, what) => what?.method === 'POST' \
             && String(path).endsWith('/commands') && ++count <= 2 ? Promise.resolve(new Response(JSON.stringify({{ error: {{ \
             code: 'busy', message: 'not now' }} }}), {{ status: {status}, headers: {{ 'Retry-After': '1' }} }})) \
             : window.real(path, what); }})()",
        ));
        browser.eval("document.querySelector('#text-one').select()");
        browser.text(&format!("after {status}"));
        browser.key("Enter");
        browser.expect("1 pending");
        browser.expect("Your changes are kept here");
        browser.wait(synced);
        assert_eq!(props()["text"], format!("after {status}"));
    }
    browser.wait("!document.body.innerText.includes('not now')");
    assert_eq!(browser.complaints, Vec::<String>::new());
}

#[test]
fn a_screen_without_a_connection_calls_nothing_empty() {
    let home = home();
    let gateway = Gateway::start(home.path());
    let Some(mut browser) = signed_in(home.path(), &gateway, "admin") else { return };
    browser.wait("document.querySelector('#connection').innerText.includes('live')");
    let address = gateway.address;
    gateway.end(Signal::SIGTERM);
    browser.wait("document.querySelector('#connection').innerText.includes('offline')");
    let screens = [
        ("h", "Home"),
        ("i", "Inbox"),
        ("r", "Runs"),
        ("l", "Sessions"),
        ("t", "Timeline"),
        ("m", "Memory"),
        ("s", "Safety"),
        ("e", "Registry"),
        ("a", "Admin"),
        ("c", "Canvas"),
    ];
    for (key, title) in screens {
        go(&mut browser, key, title);
        browser.expect("The gateway does not answer.");
        let text = browser.eval("document.querySelector('main').innerText");
        let text = text.as_str().expect("text");
        for lie in
            ["Nothing waits", "No ", "is empty", "Nothing is", "There are none", "synced", "revision 0", "Loading"]
        {
            assert!(!text.contains(lie), "{title} says {lie:?}: {text}");
        }
    }
    browser.expect("not loaded");
    // The page asks for it again once the gateway is back.
    let _gateway = Gateway::start_at(home.path(), address);
    browser.wait("document.querySelector('#sync').innerText === 'synced'");
    browser.expect("The canvas is empty.");
}

#[test]
fn the_console_shows_the_characters_that_show_nothing() {
    let home = home();
    let gateway = Gateway::start(home.path());
    let Some(mut browser) = signed_in(home.path(), &gateway, "viewer") else { return };
    let found = browser.eval(
        "import('/ui/js/ui.js').then(({ visible }) => { const found = []; for (let code = 0; code <= 0x10ffff; code += 1) { \
         if (code >= 0xd800 && code < 0xe000) continue; const text = String.fromCodePoint(code); \
         if (visible(text) !== text) found.push(code); } return found; })",
    );
    let wanted: Vec<u32> = (0..=0x10_ffff)
        .filter_map(char::from_u32)
        .filter(|c| (c.is_control() && !matches!(c, '\n' | '\t')) || is_invisible(*c))
        .map(u32::from)
        .collect();
    assert_eq!(found, json!(wanted));
    // A selector makes an emoji where a model writes for people, and only there.
    let shown = browser
        .eval("import('/ui/js/ui.js').then(({ prose, visible }) => [prose('⚠\\ufe0f a\\ufe0f'), visible('⚠\\ufe0f')])");
    assert_eq!(shown, json!(["⚠\u{fe0f} a\\u{fe0f}", "⚠\\u{fe0f}"]));
}

#[test]
fn the_timeline_shows_the_newest_of_a_type_and_leads_to_older_ones() {
    let home = home();
    let gateway = Gateway::start(home.path());
    let anna = gateway.client(&token(home.path(), "anna", "member", &[]));
    let append = |kind: &str, count: usize| {
        let events: Vec<Value> = (0..count)
            .map(|number| json!({"event_type": kind, "source": "agent", "run_id": "r", "body": {"number": number}}))
            .collect();
        for events in events.chunks(200) {
            assert_eq!(allowed(|| anna.post("/events/append", &json!({"events": events}))).status, 201);
        }
    };
    append("x.first", 1);
    append("cost", 600);
    append("x.other", 150);
    append("x.last", 1);
    let Some(mut browser) = signed_in(home.path(), &gateway, "member") else { return };
    go(&mut browser, "t", "Timeline");
    browser.expect("x.last");
    let count = "document.querySelectorAll('ol.list [data-entry]').length";
    browser.wait(&format!("{count} >= 100 && {count} < 200"));
    browser.press("Older");
    browser.wait(&format!("{count} >= 200"));
    // Older entries load automatically at the end of the list.
    browser.wait(&format!("(scrollTo(0, document.body.scrollHeight), {count} >= 752)"));
    browser.wait("[...document.querySelectorAll('[data-entry]')].at(-1).innerText.startsWith('1 ·')");
    let choose = |browser: &mut Browser, kind: &str| {
        browser.eval(&format!(
            "(() => {{ const field = document.querySelector('#type'); field.value = '{kind}'; \
             field.dispatchEvent(new Event('change', {{ bubbles: true }})); }})()"
        ));
    };
    choose(&mut browser, "cost");
    let body = "document.querySelector('ol.list pre')?.innerText.includes('\"number\": 599')";
    browser.wait("document.querySelector('ol.list [data-entry]')?.innerText.includes('cost')");
    browser.eval("document.querySelector('ol.list [data-entry]').click()");
    browser.wait(body);
    browser.wait(&format!("{count} === 300"));
    browser.press("Older");
    browser.wait(&format!("{count} === 600"));
    choose(&mut browser, "kill_switch");
    browser.expect("No events pass the filter.");
    assert_eq!(browser.complaints, Vec::<String>::new());
}

#[test]
fn a_run_begins_once_its_list_follows_and_a_denied_call_is_called_so() {
    let server = Server::start();
    let home = home_with(&format!(
        "models = {{tiny = {{endpoint = \"{}\"}}}}, memory = {{auto = false}}, context = {{project = false}}",
        server.endpoint()
    ));
    let gateway = Gateway::start(home.path());
    let anna = gateway.client(&token(home.path(), "anna", "admin", &[]));
    let Some(mut browser) = signed_in(home.path(), &gateway, "admin") else { return };
    browser.wait("document.querySelector('#connection').innerText.includes('live')");
    go(&mut browser, "r", "Runs");
    browser.eval("document.querySelector('textarea').focus()");
    browser.text("Write a file.");
    server.reply(tool_call("file_write", "{\"path\": \"run.txt\", \"content\": \"x\"}"));
    server.reply(answer("Then not."));
    let ask = "[...document.querySelectorAll('button')].find((it) => it.innerText === 'Ask')";
    browser.wait(&format!("{ask} && !{ask}.disabled"));
    browser.eval(&format!("(() => {{ const button = {ask}; button.click(); button.click(); }})()"));
    browser.wait(YES);
    browser.press("No");
    browser.expect("Then not.");
    browser.wait("document.querySelector('section.card .badge').innerText === '⊘ denied'");
    go(&mut browser, "r", "Runs");
    browser.expect("Write a file.");
    assert_eq!(anna.get("/runs").json()["items"].as_array().map(Vec::len), Some(1), "asked once");
    // The list follows questions that others ask.
    server.reply(answer("Hello."));
    assert_eq!(anna.post("/chat", &json!({"message": "Say hello."})).status, 200);
    browser.expect("Say hello.");
    browser.wait("[...document.querySelectorAll('main li')].every((it) => it.innerText.includes('answered'))");
    assert_eq!(browser.complaints, Vec::<String>::new());
}

#[test]
fn irreversible_actions_ask_first() {
    let home = home();
    let gateway = Gateway::start(home.path());
    let anna = gateway.client(&token(home.path(), "anna", "admin", &[]));
    assert_eq!(anna.post("/memory", &json!({"scope": "project", "key": "k", "value": 1})).status, 201);
    let Some(mut browser) = signed_in(home.path(), &gateway, "admin") else { return };
    go(&mut browser, "m", "Memory");
    browser.press("Forget…");
    browser.wait("document.activeElement.innerText === 'Keep'");
    browser.press("Keep");
    browser.wait("document.activeElement.innerText === 'Forget…'");
    assert_eq!(anna.get("/memory?scope=project&key=k").status, 200);
    browser.press("Forget…");
    browser.press("Forget k");
    browser.expect("Nothing is remembered in this scope.");
    go(&mut browser, "a", "Admin");
    browser.wait("document.querySelector('#erase')");
    browser.eval("document.querySelector('#erase').focus()");
    browser.text("no one");
    browser.press("Erase…");
    browser.wait("!document.querySelector('#erase').checkValidity()");
    browser.eval("document.querySelector('#erase').select()");
    browser.text("nobody");
    browser.press("Erase…");
    browser.expect("Erase all texts of nobody for good?");
    assert!(!anna.get("/events/list?type=audit").text.contains("erasure"));
    browser.press("Erase them");
    browser.expect("Nothing is erased: the log has no texts of nobody.");
    // The list of keys is scrolled to its top.
    browser.eval("document.activeElement.blur()");
    browser.look(1100, 400, "light");
    browser.key("?");
    browser.wait("document.activeElement.id === 'help'");
    assert_eq!(browser.eval("document.querySelector('dialog').scrollTop"), json!(0));
    assert_eq!(browser.complaints, Vec::<String>::new());
}

#[test]
fn a_run_is_stopped_by_escape_and_s_and_not_by_keys_of_the_browser() {
    let server = Server::start();
    let models = format!("models = {{tiny = {{endpoint = \"{}\"}}}}", server.endpoint());
    let home = home_with(&format!("{models}, memory = {{auto = false}}, context = {{project = false}}"));
    let gateway = Gateway::start(home.path());
    let Some(mut browser) = signed_in(home.path(), &gateway, "member") else { return };
    let anna = gateway.client(&token(home.path(), "anna", "member", &[]));
    server.reply(vec![head(), piece("Long "), Step::Hold]);
    let begun = anna.with("Prefer", "respond-async").post("/chat", &json!({"message": "Go on."})).json();
    let id = begun["run_id"].as_str().expect("an id");
    browser.open(&format!("http://{}/ui/#/runs/{id}", gateway.address));
    browser.expect("Long");
    browser.key("Escape");
    browser.chord("s");
    drawn(&mut browser);
    browser.key("Escape");
    browser.key("s");
    browser.expect("cancelled");
    let stops = "reedclaw_http_requests_total{route=\"/runs/{run_id}/cancel\",status=\"200\"} 1\n";
    let metrics = gateway.send("GET", "/metrics", &[], "").text;
    assert!(metrics.contains(stops), "once: {metrics}");
    assert!(metrics.contains("_bucket{le=\"+Inf\"}"), "{metrics}");
}

#[test]
fn scenario_64_whole_ways_are_walked_by_keys_alone() {
    let server = Server::start();
    let models = format!("models = {{tiny = {{endpoint = \"{}\"}}}}", server.endpoint());
    let home = home_with(&format!("{models}, memory = {{auto = false}}, context = {{project = false}}"));
    let gateway = Gateway::start(home.path());
    let anna = gateway.client(&token(home.path(), "anna", "admin", &[]));
    let atom = json!({"id": "one", "type": "note", "order": "a", "props": {"text": "one", "x": 40, "y": 40}});
    let command = json!({"base_rev": 0, "ops": [{"op": "create", "atom": atom}], "idempotency_key": "one"});
    assert_eq!(anna.post("/canvas/board/commands", &command).status, 200);
    let Some(mut browser) = signed_in(home.path(), &gateway, "admin") else { return };
    let button = |words: &str| format!("it.tagName === 'BUTTON' && it.innerText.trim() === '{words}'");
    // A question, the question about its call, and the answer.
    go(&mut browser, "r", "Runs");
    browser.tab_until("it.id === 'message'");
    browser.text("Write a file.");
    server.reply(tool_call("file_write", "{\"path\": \"run.txt\", \"content\": \"x\"}"));
    server.reply(answer("It is written."));
    browser.tab_until(&button("Ask"));
    browser.key("Enter");
    browser.wait(YES);
    browser.tab_until(&button("Yes, once"));
    browser.key("Enter");
    browser.expect("It is written.");
    assert_eq!(std::fs::read_to_string(home.path().join("ws/run.txt")).expect("the file"), "x");
    // A change of a canvas, and back.
    go(&mut browser, "c", "Canvas");
    browser.tab_until("it.classList.contains('atom')");
    browser.key("ArrowRight");
    browser.wait("document.body.innerText.includes('revision 2')");
    browser.chord("z");
    browser.wait("document.body.innerText.includes('revision 3')");
    let place = anna.get("/canvas/board/snapshot").json()["atoms"][0]["props"]["x"].clone();
    assert_eq!(place, 40, "the change was taken back");
    // A strategy lock from its request to its approval by another person.
    go(&mut browser, "s", "Safety");
    browser.tab_until(&button("Ask for a strategy lock…"));
    browser.key("Enter");
    browser.wait("document.activeElement.id === 'lock-actions'");
    browser.text("shell");
    browser.tab_until("it.id === 'lock-reason'");
    browser.text("the move");
    browser.tab_until(&button("Ask for a strategy lock"));
    browser.key("Enter");
    browser.wait("document.activeElement.innerText === 'Ask for a strategy lock…'");
    let own = anna.get("/strategy-locks").json()["items"][0].clone();
    assert_eq!((&own["state"], &own["author"]), (&json!("pending"), &json!("mia")), "{own}");
    let lock = json!({"scope": "*", "actions": ["*"], "valid_until": "2030-01-01T00:00:00Z", "reason": "a plan"});
    let made = anna.post("/strategy-locks", &lock).json()["lock_id"].clone();
    go(&mut browser, "h", "Home");
    go(&mut browser, "s", "Safety");
    browser.expect("a plan");
    // The lock that anna asked for: people can't approve their own.
    browser.tab_until("it.innerText === 'Approve' && it.closest('li').innerText.includes('a plan')");
    browser.key("Enter");
    browser.wait("[...document.querySelectorAll('.badge')].some((it) => it.innerText === 'approved')");
    let locks = anna.get("/strategy-locks").json()["items"].clone();
    let approved = locks.as_array().expect("locks").iter().find(|it| it["lock_id"] == made).expect("the lock");
    assert_eq!(approved["state"], "approved", "{approved}");
    // A licence from its issue to its end.
    browser.tab_until(&button("Issue a licence…"));
    browser.key("Enter");
    browser.wait("document.activeElement.id === 'licence-kind'");
    for (id, text) in [("licence-name", "anna"), ("licence-actions", "shell"), ("licence-reason", "a drill")] {
        browser.tab_until(&format!("it.id === '{id}'"));
        browser.text(text);
    }
    browser.tab_until(&button("Issue a licence"));
    browser.key("Enter");
    browser.wait("[...document.querySelectorAll('.badge')].some((it) => it.innerText === 'counts')");
    browser.tab_until(&button("Revoke…"));
    browser.key("Enter");
    browser.wait("document.activeElement.innerText === 'Keep'");
    browser.tab_back();
    browser.key("Enter");
    browser.wait("[...document.querySelectorAll('.badge')].some((it) => it.innerText === 'over')");
    assert_eq!(anna.get("/firearms/licences?active=true").json()["items"], json!([]));
    // The registry and the list of events.
    go(&mut browser, "e", "Registry");
    browser.tab_until("it.tagName === 'SUMMARY'");
    browser.key("Enter");
    browser.wait("document.querySelector('details[open] pre').innerText.includes('schema')");
    go(&mut browser, "t", "Timeline");
    browser.wait("document.querySelector('[data-entry]')");
    browser.key("j");
    browser.key("Enter");
    browser.wait("document.querySelector('main pre').innerText.includes('event_id')");
    assert_eq!(browser.complaints, Vec::<String>::new(), "the page's policy was kept");
}
