//! The screens of the console in their states: empty, filled, while loading, after a failure, offline, blocked by a gate, with an
//! open question, and for a viewer. axe checks each one wide and light, and narrow and dark.

use serde_json::{Value, json};

use super::browser::Browser;
use super::console::{go, signed_in};
use super::{Client, Gateway, home, home_with, run, token};
use crate::server::{Server, Step, answer, head, piece, tool_call};

/// The keys and titles of the screens.
const SCREENS: [(&str, &str); 10] = [
    ("h", "Home"),
    ("i", "Inbox"),
    ("r", "Runs"),
    ("l", "Sessions"),
    ("c", "Canvas"),
    ("t", "Timeline"),
    ("m", "Memory"),
    ("s", "Safety"),
    ("e", "Registry"),
    ("a", "Admin"),
];
const LOADED: &str = "!document.body.innerText.includes('Loading…')";

/// Checks the current page with axe, and that nothing is cut off at the side.
#[track_caller]
fn look(browser: &mut Browser, name: &str) {
    for (width, scheme) in [(1100, "light"), (320, "dark")] {
        browser.look(width, 800, scheme);
        let found = browser.violations();
        assert!(found.is_empty(), "{name} at {width} {scheme}: {found:#?}");
        let wide = browser.eval("document.documentElement.scrollWidth - document.documentElement.clientWidth");
        assert!(wide.as_i64() <= Some(0), "{name} is {wide} too wide at {width}");
    }
    browser.look(1100, 800, "light");
}

/// Looks at each screen once the expression `is_so` is true in the page.
fn look_at_all(browser: &mut Browser, state: &str, is_so: &str) {
    for (key, title) in SCREENS {
        go(browser, key, title);
        browser.wait(is_so);
        look(browser, &format!("{title}, {state}"));
    }
}

/// Replaces the answers to the page's requests; its stream of events stays.
fn answer_all(browser: &mut Browser, with: &str) {
    browser.eval(&format!("globalThis.fetch = {with}; true"));
}

fn act(client: &Client<'_>, path: &str, body: &Value, status: u16) -> Value {
    let done = client.post(path, body);
    assert_eq!(done.status, status, "{path}: {done:?}");
    done.json()
}

fn write(path: &str) -> Value {
    json!({"action_name": "file_write", "subject_type": "thread", "subject_id": "t-1",
        "args": {"path": path, "content": "first line\nsecond line\n"}})
}

/// Returns the operation that creates an atom.
fn atom(id: &str, kind: &str, props: Value) -> Value {
    json!({"op": "create", "atom": {"id": id, "type": kind, "order": id, "props": props}})
}

#[test]
fn scenario_64_empty_screens_and_those_that_load_fail_or_have_no_connection_are_accessible() {
    let home = home();
    let gateway = Gateway::start(home.path());
    let Some(mut browser) = signed_in(home.path(), &gateway, "admin") else { return };
    look_at_all(&mut browser, "empty", LOADED);
    browser.eval("globalThis.asked = globalThis.fetch; true");
    answer_all(&mut browser, "() => new Promise(() => {})");
    look_at_all(
        &mut browser,
        "while it loads",
        "document.body.innerText.includes('Loading…') || document.querySelector('#sync')?.innerText === 'loading'",
    );
    let broken = "{error: {code: 'internal', message: 'the gateway failed at this request'}}";
    answer_all(&mut browser, &format!("async () => new Response(JSON.stringify({broken}), {{status: 500}})"));
    look_at_all(
        &mut browser,
        "after a failure",
        "document.querySelector('.notice.bad')?.innerText.includes('failed at this request')",
    );
    answer_all(&mut browser, "globalThis.asked");
    go(&mut browser, "h", "Home");
    browser.wait(LOADED);
    browser.offline(true);
    browser.wait("document.querySelector('#connection').innerText.includes('offline')");
    look_at_all(&mut browser, "offline", "document.body.innerText.includes('does not answer')");
    browser.offline(false);
    browser.wait("document.querySelector('#connection').innerText.includes('live')");
    browser.press("Sign out");
    browser.expect("Sign in to ReedClaw");
    look(&mut browser, "Sign in");
    browser.eval("document.querySelector('#code').focus()");
    browser.text("AAAA-BBBB-CCCC");
    browser.press("Sign in");
    browser.expect("This code is wrong");
    look(&mut browser, "Sign in, with a wrong code");
    assert_eq!(browser.complaints, Vec::<String>::new(), "the page's policy was kept");
}

/// Fills a project with at least one thing of each kind.
fn fill(anna: &Client<'_>) {
    act(anna, "/memory", &json!({"scope": "project", "key": "port", "value": {"number": 4117}, "ttl_s": 3600}), 201);
    let lock = |reason: &str, three_wise: bool| {
        json!({"scope": "*", "actions": ["canvas_command"], "valid_until": "2030-01-01T00:00:00Z", "reason": reason,
            "three_wise": three_wise})
    };
    act(anna, "/strategy-locks", &lock("one approver", false), 201);
    act(anna, "/strategy-locks", &lock("three approvers", true), 201);
    let until = (jiff::Timestamp::now() + jiff::SignedDuration::from_hours(24)).to_string();
    let licence = json!({"subject": {"user": "anna"}, "actions": ["shell"], "valid_until": until, "uses_max": 3, "reason": "a drill"});
    act(anna, "/firearms/licences", &licence, 201);
    let ops = json!([
        atom("one", "note", json!({"text": "one", "x": 16, "y": 16})),
        atom("two", "note", json!({"text": "two", "x": 300, "y": 90})),
        atom("both", "link", json!({"from": "one", "to": "two"})),
        atom("other", "x.picture", json!({}))
    ]);
    act(anna, "/canvas/board/commands", &json!({"base_rev": 0, "ops": ops, "idempotency_key": "fill"}), 200);
    let file = anna.with("Content-Type", "text/csv").with("X-Artifact-Name", "notes.csv");
    let headers: Vec<(&str, &str)> = file.headers.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
    let stored = anna.gateway.send("POST", "/canvas/board/artifacts", &headers, "a,b\n1,2\n");
    assert_eq!(stored.status, 201, "{stored:?}");
    act(anna, "/admin/flags", &json!({"flag": "pii", "on": true}), 200);
}

#[test]
fn scenario_64_filled_screens_with_runs_and_an_open_question_are_accessible() {
    let server = Server::start();
    let models = format!("models = {{tiny = {{endpoint = \"{}\"}}}}", server.endpoint());
    let home = home_with(&format!("{models}, memory = {{auto = false}}, context = {{project = false}}"));
    let gateway = Gateway::start(home.path());
    let anna = gateway.client(&token(home.path(), "anna", "admin", &[]));
    fill(&anna);
    server.reply(tool_call("file_read", "{\"path\": \"none.txt\"}"));
    server.reply(answer("There is **no** such file."));
    let answered = act(&anna, "/chat", &json!({"message": "What is in none.txt?"}), 200)["run_id"].clone();
    server.reply(answer(""));
    anna.post("/chat", &json!({"message": "Say nothing."}));
    let Some(mut browser) = signed_in(home.path(), &gateway, "admin") else { return };
    look_at_all(&mut browser, "filled", LOADED);
    // Views that open from the screens.
    let open = |browser: &mut Browser, hash: &str, until: &str| {
        browser.eval(&format!("location.hash = '#/{hash}'"));
        browser.wait(until);
    };
    let of_run = |id: &Value| format!("runs/{}", id.as_str().expect("an id"));
    open(&mut browser, &of_run(&answered), "document.querySelector('#state')?.innerText === 'answered'");
    browser.eval("document.querySelectorAll('details').forEach((it) => { it.open = true; })");
    look(&mut browser, "a run that was answered");
    open(&mut browser, "timeline", "document.querySelector('[data-entry]')");
    browser.key("j");
    browser.key("Enter");
    browser.wait("document.querySelector('main pre')?.innerText.includes('event_id')");
    look(&mut browser, "an event");
    go(&mut browser, "e", "Registry");
    browser.wait("document.querySelector('summary')");
    browser.eval("document.querySelector('summary').click()");
    browser.wait("document.querySelector('details[open] pre')");
    look(&mut browser, "a card of the registry");
    go(&mut browser, "c", "Canvas");
    browser.wait("document.querySelectorAll('.atom').length === 3");
    browser.press("Earlier revisions");
    browser.expect("revision 1 of 1");
    look(&mut browser, "an earlier revision");
    browser.key("Escape");
    for (key, words) in [("?", "Keys"), ("p", "Project")] {
        browser.eval("document.activeElement.blur()");
        browser.key(key);
        browser.wait(&format!("document.querySelector('dialog h2')?.innerText === '{words}'"));
        look(&mut browser, &format!("the dialog {words}"));
        browser.key("Escape");
        browser.wait("!document.querySelector('dialog')");
    }
    browser.chord("k");
    browser.wait("document.querySelector('dialog')");
    look(&mut browser, "the dialog to go to something");
    browser.key("Escape");
    browser.wait("!document.querySelector('dialog')");
    // A run continues, then another one waits for a person.
    server.reply(vec![head(), piece("A long "), Step::Gate(1), piece("answer."), Step::Hold]);
    let begun = anna.with("Prefer", "respond-async");
    let running = act(&begun, "/chat", &json!({"message": "Go on."}), 202)["run_id"].clone();
    open(&mut browser, &of_run(&running), "document.querySelector('#answer')");
    look(&mut browser, "a run that goes on");
    browser.press("Stop (Esc, then s)");
    browser.wait("document.querySelector('#state')?.innerText === 'cancelled'");
    look(&mut browser, "a run that was stopped");
    server.reply(tool_call("file_write", "{\"path\": \"new.txt\", \"content\": \"x\"}"));
    let waiting = act(&begun, "/chat", &json!({"message": "Write it."}), 202)["run_id"].clone();
    open(&mut browser, &of_run(&waiting), "document.querySelector('article.card')");
    look(&mut browser, "a run that waits for a person");
    act(&anna, "/actions/execute", &write("note.txt"), 202);
    for (key, title) in [("h", "Home"), ("i", "Inbox")] {
        go(&mut browser, key, title);
        browser.expect("note.txt");
        look(&mut browser, &format!("{title} with open questions"));
    }
    assert_eq!(browser.complaints, Vec::<String>::new(), "the page's policy was kept");
}

#[test]
fn scenario_64_screens_that_a_gate_holds_and_those_of_a_viewer_are_accessible() {
    let home = home();
    let gateway = Gateway::start(home.path());
    let anna = gateway.client(&token(home.path(), "anna", "admin", &[]));
    fill(&anna);
    act(&anna, "/actions/execute", &write("note.txt"), 202);
    let Some(mut browser) = signed_in(home.path(), &gateway, "operator") else { return };
    go(&mut browser, "c", "Canvas");
    browser.wait("document.querySelectorAll('.atom').length === 3");
    act(&anna, "/estop", &json!({"scope": "tenant", "reason": "a drill"}), 200);
    browser.press("Add a note");
    browser.wait("document.querySelector('#held')");
    look(&mut browser, "a canvas that a gate holds");
    look_at_all(&mut browser, "while everything is stopped", LOADED);
    assert_eq!(browser.complaints, Vec::<String>::new(), "the page's policy was kept");
    drop(browser);
    // A code for a role above the member's own role grants no more than the member's role.
    assert_eq!(run(home.path(), &["gateway", "member", "add", "local", "mia", "--role", "viewer"]).0, Some(0));
    let Some(mut viewer) = signed_in(home.path(), &gateway, "admin") else { return };
    viewer.expect("mia (viewer)");
    look_at_all(&mut viewer, "to a viewer", LOADED);
    assert_eq!(viewer.complaints, Vec::<String>::new(), "the page's policy was kept");
}
