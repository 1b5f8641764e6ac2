//! The console in a real browser: signing in, answering a question by keys, following a run, a canvas across a lost connection
//! and a gate, and the violations that axe finds on each screen.

use std::time::{Duration, Instant};

use reedclaw::canvas::{State, fold};
use serde_json::{Value, json};

use super::asking::outcome;
use super::browser::Browser;
use super::history::is_long;
use super::{Client, Gateway, allowed, home, home_with, run, token};
use crate::pty::Session;
use crate::server::{Server, Step, answer, end, head, piece};

/// A code with which a browser signs in, as a person reads it at a terminal.
fn code(home: &std::path::Path, role: &str) -> String {
    code_in(home, "local", role)
}

/// The same in a tenant.
pub fn code_in(home: &std::path::Path, tenant: &str, role: &str) -> String {
    let args = ["gateway", "pair", "--user", "mia", "--role", role, "--tenant", tenant];
    let session = Session::spawn(super::spawn(home, &args));
    session.expect_text("once, within five minutes");
    let screen = session.screen_text();
    let line = screen.lines().find(|line| line.contains("once, within")).expect("the line").to_owned();
    session.expect_exit();
    line.split_whitespace().next().expect("the code").to_owned()
}

/// A browser that is signed in.
pub fn signed_in(home: &std::path::Path, gateway: &Gateway, role: &str) -> Option<Browser> {
    let mut browser = Browser::start()?;
    browser.look(1100, 800, "light");
    browser.open(&format!("http://{}/ui/#pair={}", gateway.address, code(home, role)));
    browser.expect("Waiting for you");
    assert_eq!(browser.eval("location.hash + location.search"), "", "the code has left the address");
    Some(browser)
}

pub fn go(browser: &mut Browser, key: &str, title: &str) {
    browser.key("g");
    browser.key(key);
    browser.wait(&format!("document.querySelector('h1')?.innerText.startsWith({})", Value::from(title)));
}

/// A member whose board has one note, and a browser of this role that shows it.
fn one_note<'g>(home: &std::path::Path, gateway: &'g Gateway, role: &str) -> Option<(Client<'g>, Browser)> {
    let anna = gateway.client(&token(home, "anna", "member", &[]));
    let ops = json!([{"op": "create", "atom": {"id": "one", "type": "note", "order": "a", "props": {"text": "one"}}}]);
    let body = json!({"base_rev": 0, "ops": ops, "idempotency_key": "one"});
    assert_eq!(anna.post("/canvas/board/commands", &body).status, 200);
    let mut browser = signed_in(home, gateway, role)?;
    go(&mut browser, "c", "Canvas");
    browser.wait("document.querySelectorAll('.atom').length === 1");
    Some((anna, browser))
}

fn write(path: &str) -> Value {
    json!({"action_name": "file_write", "subject_type": "thread", "subject_id": "t-1",
        "args": {"path": path, "content": "first line\nsecond line\n"}})
}

#[test]
fn a_question_is_answered_in_the_browser_by_keys_and_only_with_the_focus() {
    let home = home();
    let gateway = Gateway::start(home.path());
    let anna = gateway.client(&token(home.path(), "anna", "member", &[]));
    let Some(mut browser) = signed_in(home.path(), &gateway, "approver") else { return };
    go(&mut browser, "i", "Inbox");
    let asked = anna.post("/actions/execute", &write("note.txt"));
    assert_eq!(asked.status, 202, "{asked:?}");
    browser.expect("second line");
    browser.expect("asked by anna");
    let shown = browser.eval("[...document.querySelectorAll('.card .line')].map((it) => it.innerText.trimEnd())");
    assert_eq!(shown, json!(["note.txt", "+ first line", "+ second line"]));
    browser.picture("gateway-inbox.png");
    // Without the focus on the card a letter does nothing.
    browser.eval("document.querySelector('h1').focus()");
    browser.key("o");
    browser.wait("[...document.querySelectorAll('button')].some((it) => it.innerText === 'Yes, once' && !it.disabled)");
    browser.key("j");
    browser.wait("document.activeElement.matches('article.card')");
    browser.key("o");
    browser.expect("✓ yes, mia");
    let done = outcome(&anna, asked.json()["question_id"].as_str().expect("an id"));
    assert_eq!(done["http_status"], 200, "{done}");
    assert_eq!(
        std::fs::read_to_string(home.path().join("ws/note.txt")).expect("the file"),
        "first line\nsecond line\n"
    );
    // A question that is answered elsewhere leaves the inbox, with the name of the person who answered.
    let ben = gateway.client(&token(home.path(), "ben", "approver", &[]));
    anna.post("/actions/execute", &write("other.txt"));
    browser.expect("other.txt");
    let open = ben.get("/questions?state=open").json()["items"][0].clone();
    let no = json!({"digest": open["digest"], "answer": "no", "seen_to_end": true});
    let id = open["question_id"].as_str().expect("an id");
    assert_eq!(ben.post(&format!("/questions/{id}/answer"), &no).status, 200);
    browser.expect("✕ no, ben");
    // A reload keeps the session: the cookie renews it.
    browser.open(&format!("http://{}/ui/#/inbox", gateway.address));
    browser.expect("No question is open.");
    assert_eq!(browser.complaints, Vec::<String>::new());
}

#[test]
fn a_run_is_asked_for_and_followed_in_the_browser() {
    let server = Server::start();
    let home = home_with(&format!(
        "models = {{tiny = {{endpoint = \"{}\"}}}}, memory = {{auto = false}}, context = {{project = false}}",
        server.endpoint()
    ));
    let gateway = Gateway::start(home.path());
    let Some(mut browser) = signed_in(home.path(), &gateway, "admin") else { return };
    go(&mut browser, "r", "Runs");
    browser.eval("document.querySelector('textarea').focus()");
    browser.text("How many \u{202e}moons has Mars?");
    server.reply(vec![head(), piece("Two "), Step::Gate(1), piece("moons: <b>Phobos</b>"), end()]);
    browser.press("Ask");
    browser.expect("Two");
    browser.expect("\\u{202e}");
    browser.wait("document.querySelector('#state').innerText === 'running'");
    // The run goes on while the page is away.
    browser.offline(true);
    browser.wait("document.querySelector('#connection').innerText.includes('offline')");
    server.open(1);
    browser.offline(false);
    browser.expect("Two moons: <b>Phobos</b>");
    browser.wait("document.querySelector('#state').innerText === 'answered'");
    browser.picture("gateway-run.png");
    server.reply(answer("Yes."));
    browser.wait("document.querySelector('textarea')");
    browser.eval("document.querySelector('textarea').focus()");
    browser.text("Is that all?");
    browser.press("Ask");
    browser.expect("Yes.");
    assert_eq!(server.request(2).content(-1), "Is that all?");
    go(&mut browser, "h", "Home");
    browser.expect("Is that all?");
}

#[test]
fn scenario_50_and_52_a_canvas_catches_up_after_a_lost_connection_and_holds_what_a_gate_blocks() {
    let home = home();
    let gateway = Gateway::start(home.path());
    let anna = gateway.client(&token(home.path(), "anna", "admin", &[]));
    let note = |id: &str, x: i64| json!({"op": "create", "atom": {"id": id, "type": "note", "order": "a", "props": {"text": id, "x": x, "y": 16}}});
    let command = |rev: i64, key: &str, ops: Value| {
        let body = json!({"base_rev": rev, "ops": ops, "idempotency_key": key, "merge": "disjoint"});
        anna.post("/canvas/board/commands", &body)
    };
    assert_eq!(command(0, "one", json!([note("one", 16)])).status, 200);
    let Some(mut browser) = signed_in(home.path(), &gateway, "member") else { return };
    go(&mut browser, "c", "Canvas");
    browser.wait("document.querySelectorAll('.atom').length === 1");
    // Keys move an atom, and the gateway stores the move.
    browser.eval("document.querySelector('.atom').focus()");
    browser.key("ArrowRight");
    browser.wait(
        "document.querySelector('#sync').innerText === 'synced' && document.body.innerText.includes('revision 2')",
    );
    assert_eq!(anna.get("/canvas/board/snapshot").json()["atoms"][0]["props"]["x"], 32);
    // Another client's change arrives, and so does one that was made while the connection was lost.
    assert_eq!(command(2, "two", json!([note("two", 200)])).status, 200);
    browser.wait("document.querySelectorAll('.atom').length === 2");
    browser.offline(true);
    browser.wait("document.querySelector('#connection').innerText.includes('offline')");
    browser.picture("gateway-offline.png");
    browser.eval("performance.clearResourceTimings()");
    for number in 0..300 {
        let ops = json!([{"op": "set", "id": "two", "path": "/text", "value": format!("text {number}")}]);
        let answer = allowed(|| command(3 + number, &format!("key-{number}"), ops.clone()));
        assert_eq!(answer.status, 200);
    }
    browser.offline(false);
    browser.expect("revision 303");
    browser.wait("[...document.querySelectorAll('.atom')].some((it) => it.innerText === 'text 299')");
    browser.wait("document.querySelector('#connection').innerText.includes('live')");
    let fetched = browser.eval(
        "performance.getEntriesByType('resource').map((it) => new URL(it.name).pathname).filter((it) => it.startsWith('/canvas/'))",
    );
    assert!(fetched.as_array().map_or(0, Vec::len) <= 1, "what was missed comes by the stream: {fetched}");
    // A lock that isn't approved holds the change; the page names the lock, and once it is approved the change lands.
    let ben = gateway.client(&token(home.path(), "ben", "approver", &[]));
    assert_eq!(run(home.path(), &["gateway", "tenant", "flag", "local", "strategy_locks", "on"]).0, Some(0));
    let lock =
        json!({"scope": "*", "actions": ["canvas_command"], "valid_until": "2030-01-01T00:00:00Z", "reason": "a plan"});
    let lock = allowed(|| anna.post("/strategy-locks", &lock)).json()["lock_id"].as_str().expect("a lock").to_owned();
    browser.press("Add a note");
    browser.expect("Held by the gate strategy_lock");
    browser.expect("An approver who is not its author");
    assert_eq!(ben.post(&format!("/strategy-locks/{lock}/approve"), &json!({})).json()["state"], "approved");
    browser.press("Retry");
    browser.expect("revision 304");
    browser.wait("document.querySelector('#sync').innerText === 'synced'");
    let there = anna.get("/canvas/board/snapshot").json()["atoms"].as_array().map(Vec::len);
    assert_eq!(there, Some(3));
    // A gate blocks: the change is held, with the reason, until it is sent again or discarded.
    assert_eq!(anna.post("/estop", &json!({"scope": "project"})).status, 200);
    browser.press("Add a note");
    browser.expect("Held by the gate kill_switch");
    browser.wait("document.querySelectorAll('.atom.held').length === 1");
    browser.picture("gateway-canvas.png");
    browser.press("Retry");
    browser.expect("Held by the gate kill_switch");
    browser.press("Discard");
    browser.wait("document.querySelectorAll('.atom').length === 3");
}

#[test]
fn a_canvas_is_found_and_its_atoms_are_dragged_linked_and_put_back() {
    let home = home();
    let gateway = Gateway::start(home.path());
    let anna = gateway.client(&token(home.path(), "anna", "member", &[]));
    let note = |id: &str, x: i64| json!({"op": "create", "atom": {"id": id, "type": "note", "order": id, "props": {"text": id, "x": x, "y": 16}}});
    let body = json!({"base_rev": 0, "ops": [note("one", 16), note("two", 300)], "idempotency_key": "one"});
    assert_eq!(anna.post("/canvas/plan/commands", &body).status, 200);
    let Some(mut browser) = signed_in(home.path(), &gateway, "member") else { return };
    go(&mut browser, "c", "Canvas");
    browser.press_link("plan");
    browser.wait("document.querySelectorAll('.atom').length === 2");
    let props = |id: &str| {
        let atoms = anna.get("/canvas/plan/snapshot").json()["atoms"].clone();
        atoms.as_array().expect("atoms").iter().find(|it| it["id"] == *id).map(|it| it["props"].clone())
    };
    let at = |browser: &mut Browser| browser.eval("document.querySelector('[data-atom=one]').style.cssText");
    let before = at(&mut browser);
    // The mouse moves an atom; Ctrl-Z moves it back.
    let place = browser
        .eval("(({x, y}) => [x + 10, y + 10])(document.querySelector('[data-atom=one]').getBoundingClientRect())");
    let (x, y) = (place[0].as_f64().expect("a number"), place[1].as_f64().expect("a number"));
    for (kind, x, y) in
        [("mousePressed", x, y), ("mouseMoved", x + 40.0, y + 100.0), ("mouseReleased", x + 40.0, y + 100.0)]
    {
        browser.mouse(kind, x, y);
    }
    browser.expect("revision 2");
    assert_eq!(props("one"), Some(json!({"text": "one", "x": 56, "y": 116})));
    browser.undo();
    browser.expect("revision 3");
    assert_eq!((at(&mut browser), props("one")), (before, Some(json!({"text": "one", "x": 16, "y": 16}))));
    // Pressing c on one atom and then on another links them. If one is deleted, the link isn't drawn, and undo restores both.
    for id in ["one", "two"] {
        browser.eval(&format!("document.querySelector('[data-atom={id}]').focus()"));
        browser.key("c");
    }
    browser.wait("document.querySelectorAll('.links line').length === 1");
    browser.expect("link one – two");
    browser.eval("document.querySelector('[data-atom=two]').focus()");
    browser.key("Delete");
    browser.wait("document.querySelectorAll('.links line').length === 0");
    browser.undo();
    browser.wait("document.querySelectorAll('.links line').length === 1");
    browser.wait("document.querySelector('#sync').innerText === 'synced'");
    assert_eq!(props("two"), Some(json!({"text": "two", "x": 300, "y": 16})));
    // The list can link them, too. It is filled with names only while it has the focus.
    let select = "document.querySelector('[aria-label=\"Link two with\"]')";
    assert_eq!(browser.eval(&format!("{select}.options.length")), 1);
    browser.eval(&format!("{select}.focus()"));
    browser.wait(&format!("{select}.options.length === 2"));
    browser.eval(&format!("{select}.value = 'one'; {select}.dispatchEvent(new Event('change', {{bubbles: true}}))"));
    browser.wait("document.querySelectorAll('.links line').length === 2");
    browser.wait("document.querySelector('#sync').innerText === 'synced'");
    browser.eval(&format!("{select}.blur()"));
    browser.wait(&format!("{select}.options.length === 1"));
    // A canvas can be opened by its name from any screen.
    go(&mut browser, "h", "Home");
    browser.chord("k");
    browser.wait("document.activeElement.id === 'goto-words'");
    browser.text("canvas plan");
    browser.wait("document.querySelectorAll('#places li').length === 1");
    browser.key("Enter");
    browser.wait("document.querySelector('h1').innerText === 'Canvas plan'");
    assert_eq!(browser.complaints, Vec::<String>::new());
}

#[test]
fn a_viewer_changes_no_canvas() {
    let home = home();
    let gateway = Gateway::start(home.path());
    let Some((anna, mut browser)) = one_note(home.path(), &gateway, "viewer") else { return };
    browser.eval("document.querySelector('.atom').focus()");
    browser.key("ArrowRight");
    browser.wait("[...document.querySelectorAll('main button, main input')].every((it) => it.disabled || it.matches('.atom, form *') || it.innerText === 'Earlier revisions')");
    assert_eq!(browser.eval("document.querySelector('#sync').innerText"), "synced");
    assert_eq!(anna.get("/canvas/board/snapshot").json()["rev"], 1);
}

#[test]
fn the_timeline_leads_from_an_event_to_its_cause_and_to_its_run() {
    let home = home();
    let gateway = Gateway::start(home.path());
    let anna = gateway.client(&token(home.path(), "anna", "member", &[]));
    let append = |event: Value| {
        let made = anna.post("/events/append", &event);
        assert_eq!(made.status, 201, "{made:?}");
    };
    append(json!({"event_id": "cause", "event_type": "x.ask", "source": "agent", "run_id": "run-1", "body": {}}));
    append(json!({"event_type": "x.other", "source": "agent", "run_id": "run-2", "body": {}}));
    append(
        json!({"event_id": "effect", "event_type": "x.done", "source": "agent", "run_id": "run-1", "causation_id": "cause", "body": {}}),
    );
    let Some(mut browser) = signed_in(home.path(), &gateway, "member") else { return };
    go(&mut browser, "t", "Timeline");
    let focus = "[...document.querySelectorAll('[data-entry]')].find((it) => it.innerText.includes('x.done'))";
    browser.wait(&format!("({focus}?.focus(), document.activeElement.innerText.includes('x.done'))"));
    browser.key("c");
    browser
        .wait("document.activeElement.innerText.includes('x.ask') && document.activeElement.ariaExpanded === 'true'");
    browser.key("e");
    browser.wait("document.activeElement.innerText.includes('x.done')");
    // An event that comes while the page is open knows its cause, too.
    append(
        json!({"event_type": "x.later", "source": "agent", "run_id": "run-1", "causation_id": "effect", "body": {}}),
    );
    browser.wait("[...document.querySelectorAll('[data-entry]')].some((it) => it.innerText.includes('x.later'))");
    browser.key("e");
    browser.wait("document.activeElement.innerText.includes('x.later')");
    browser.key("c");
    browser.wait("document.activeElement.innerText.includes('x.done')");
    browser.press("Only this run");
    browser.wait("document.querySelectorAll('[data-entry]').length === 3");
    browser.press("All events");
    browser.expect("x.other");
    assert_eq!(browser.complaints, Vec::<String>::new());
}

#[test]
fn a_canvas_shows_the_pointers_of_others_and_its_files() {
    let home = home();
    let gateway = Gateway::start(home.path());
    let Some((anna, mut browser)) = one_note(home.path(), &gateway, "member") else { return };
    browser.wait("document.querySelector('#connection').innerText.includes('live')");
    assert_eq!(anna.post("/canvas/board/gestures", &json!({"kind": "cursor", "x": 40, "y": 50})).status, 202);
    browser.wait("[...document.querySelectorAll('.cursor')].some((it) => it.innerText.includes('anna') && it.style.left === '40px')");
    browser.wait("document.querySelectorAll('.cursor').length === 0");
    // A file that a person adds is stored with its name and type, and the page offers it as a download.
    browser.eval(
        "(() => { const field = document.querySelector('#file'); const files = new DataTransfer(); \
         files.items.add(new File(['a,b'], 'plan.csv', { type: 'text/csv' })); field.files = files.files; \
         field.dispatchEvent(new Event('change')); })()",
    );
    browser.wait("document.querySelector('#files')?.innerText.includes('plan.csv')");
    browser.press("Note that I reviewed revision 1");
    browser.wait("document.querySelector('.live').innerText.includes('noted')");
    let kinds = anna.get("/events/list?type=audit&stream=canvas/board").json();
    let count =
        |kind: &str| kinds["items"].as_array().expect("items").iter().filter(|it| it["body"]["kind"] == kind).count();
    assert_eq!((count("artifact"), count("review")), (1, 1), "{kinds}");
    go(&mut browser, "e", "Registry");
    browser.expect("exec: a high risk needs a licence");
    assert_eq!(browser.complaints, Vec::<String>::new());
}

#[test]
fn scenario_32_and_68_seven_tabs_share_one_stream_and_a_killed_one_is_replaced() {
    let home = home();
    let gateway = Gateway::start(home.path());
    let anna = gateway.client(&token(home.path(), "anna", "member", &[]));
    let note = |text: &str| json!({"op": "create", "atom": {"id": text, "type": "note", "order": text, "props": {"text": text}}});
    let command = |rev: usize, text: &str| {
        let body = json!({"base_rev": rev, "ops": [note(text)], "idempotency_key": text});
        assert_eq!(anna.post("/canvas/board/commands", &body).status, 200);
    };
    command(0, "first");
    let Some(mut browser) = signed_in(home.path(), &gateway, "member") else { return };
    let page = format!("http://{}/ui/#/canvas/board", gateway.address);
    browser.open(&page);
    let mut tabs = vec![browser.tab()];
    browser.expect("revision 1");
    browser.wait("document.querySelector('#connection').innerText.includes('live')");
    for _ in 1..7 {
        tabs.push(browser.open_tab(&page));
        browser.expect("revision 1");
        browser.wait("document.querySelector('#connection').innerText.includes('live')");
    }
    let streams = || {
        let text = gateway.send("GET", "/metrics", &[], "").text;
        text.lines().find_map(|line| line.strip_prefix("reedclaw_streams ")?.parse::<u32>().ok())
    };
    assert_eq!(streams(), Some(1), "seven tabs, one stream");
    command(1, "second");
    for tab in &tabs {
        browser.turn_to(tab);
        browser.expect("revision 2");
    }
    // The tab that holds the stream crashes; another one continues the stream where it ended, and misses nothing.
    let first = tabs.remove(0);
    browser.close(&first);
    command(2, "third");
    for tab in &tabs {
        browser.turn_to(tab);
        browser.expect("revision 3");
        browser.wait("document.querySelectorAll('.atom').length === 3");
    }
    assert_eq!(streams(), Some(1));
    // So does a tab that is reloaded.
    let again = tabs[0].clone();
    browser.turn_to(&again);
    browser.call("Page.reload", json!({}));
    command(3, "fourth");
    for tab in &tabs {
        browser.turn_to(tab);
        browser.expect("revision 4");
        browser.wait("document.querySelector('#connection').innerText.includes('live')");
    }
}

/// Logs with the hash of the state that each folds to, which no version may change: each line is `{"log", "hash"}`.
const VECTORS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/gateway/canvas.jsonl");

/// The page's code for the hash of a log's state. RFC 8785 is JavaScript's own output with the names sorted.
const PAGE_HASHES: &str = "
    const canonical = (it) => Array.isArray(it) ? `[${it.map(canonical).join()}]` : !it || typeof it !== 'object' ? JSON.stringify(it)
        : `{${Object.keys(it).sort().map((name) => `${JSON.stringify(name)}:${canonical(it[name])}`).join()}}`;
    const hash = async (log, fold) => {
        const atoms = Object.values(log.reduce(fold, {})).sort((a, b) => (a.id < b.id ? -1 : 1));
        const all = atoms.map((it) => ({ ...it, props: it.props ?? {}, parent: it.parent ?? null }));
        const bytes = new TextEncoder().encode(canonical({ atoms: all, rev: log.length }));
        return [...new Uint8Array(await crypto.subtle.digest('SHA-256', bytes))].map((it) => it.toString(16).padStart(2, '0')).join('');
    };";

#[test]
fn scenario_51_logs_fold_to_the_same_hashes_as_ever() {
    if std::env::var_os("REEDCLAW_WRITE_DOCS").is_some() {
        let mut seed = 51_u64;
        let line = |_| {
            let (log, state) = random_log(&mut seed, 6);
            format!("{}\n", json!({"log": log, "hash": state.hash()}))
        };
        std::fs::write(VECTORS, (0..600).map(line).collect::<String>()).expect("the vectors");
    }
    let vectors = vectors();
    assert_eq!(vectors.len(), 600);
    for vector in vectors {
        let commands = vector["log"].as_array().expect("a log");
        let fold_in = |state: State, ops: &Value| fold(&state, ops.as_array().expect("operations")).expect("it fits");
        assert_eq!(commands.iter().fold(State::default(), fold_in).hash(), vector["hash"], "{vector}");
    }
}

fn vectors() -> Vec<Value> {
    let text = std::fs::read_to_string(VECTORS).expect("the vectors");
    text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
}

#[test]
fn scenario_51_the_page_folds_a_log_as_the_gateway_does() {
    let home = home();
    let gateway = Gateway::start(home.path());
    let Some(mut browser) = signed_in(home.path(), &gateway, "viewer") else { return };
    let mut seed = 7_u64;
    let random = (0..1_000).map(|_| {
        let (log, state) = random_log(&mut seed, 20);
        json!({"log": log, "hash": state.hash()})
    });
    let all: Vec<Value> = vectors().into_iter().chain(random).collect();
    for some in all.chunks(100) {
        let logs: Value = some.iter().map(|it| it["log"].clone()).collect();
        let folded = browser.eval(&format!(
            "{{{PAGE_HASHES}; import('/ui/js/canvas/sync.js').then(({{ fold }}) => \
             Promise.all(JSON.parse({}).map((log) => hash(log, fold))))}}",
            Value::from(logs.to_string())
        ));
        assert_eq!(folded.as_array().expect("hashes").len(), some.len());
        for (wanted, hash) in some.iter().zip(folded.as_array().expect("hashes")) {
            assert_eq!(*hash, wanted["hash"], "{wanted}");
        }
    }
}

/// A log of commands that can all be applied, and the state after it. Some names are also properties of JavaScript's objects.
fn random_log(seed: &mut u64, most: usize) -> (Value, State) {
    const NAMES: [&str; 8] = ["a", "b", "c", "constructor", "__proto__", "toString", "ä/~", "0"];
    let mut pick = |below: usize| {
        *seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(*seed >> 33).expect("small") % below
    };
    let (mut state, mut log) = (State::default(), Vec::new());
    for _ in 0..most {
        let id = NAMES[pick(8)];
        let path = ["/x", "/x/y", "/constructor", "/__proto__/z", "/a~1b/~0", "/valueOf"][pick(6)];
        let values = [
            json!(1),
            json!(-0.5),
            json!("ü"),
            json!({"y": {"z": [1]}}),
            json!(null),
            json!([]),
            json!(1e21),
            json!(1e-7),
            json!(0.1 + 0.2),
            json!(-0.0),
            json!(9_007_199_254_740_991_i64),
            json!("\u{2028}\"\\\u{1f600}"),
        ];
        let value = values[pick(values.len())].clone();
        let parent = [None, Some(NAMES[pick(8)])][pick(2)];
        let op = match pick(6) {
            0 | 1 => {
                json!({"op": "create", "atom": {"id": id, "type": "note", "parent": parent, "order": NAMES[pick(8)], "props": {}}})
            }
            2 | 3 => json!({"op": "set", "id": id, "path": path, "value": value}),
            4 => json!({"op": "unset", "id": id, "path": path}),
            _ if pick(3) == 0 => json!({"op": "delete", "id": id}),
            _ => json!({"op": "move", "id": id, "parent": parent, "order": NAMES[pick(8)]}),
        };
        if let Ok(next) = fold(&state, std::slice::from_ref(&op)) {
            state = next;
            log.push(json!([op]));
        }
    }
    (log.into(), state)
}

#[test]
fn scenario_65_two_browsers_and_an_agent_change_one_canvas_through_a_cut_network() {
    let home = home();
    let gateway = Gateway::start(home.path());
    let bot = gateway.client(&token(home.path(), "bot", "member", &["--kind", "agent"]));
    let rev =
        |client: &super::Client<'_>| client.get("/canvas/board/snapshot").json()["rev"].as_i64().unwrap_or_default();
    let add = |id: &str| {
        let op = json!({"op": "create", "atom": {"id": id, "type": "note", "order": id, "props": {"text": id}}});
        loop {
            let body = json!({"base_rev": rev(&bot), "ops": [op], "idempotency_key": id, "merge": "disjoint"});
            let answer = allowed(|| bot.post("/canvas/board/commands", &body));
            if answer.status == 200 {
                return;
            }
            assert_eq!(answer.code(), "conflict");
        }
    };
    add("start");
    let Some(mut one) = signed_in(home.path(), &gateway, "member") else { return };
    let Some(mut two) = signed_in(home.path(), &gateway, "member") else { return };
    for browser in [&mut one, &mut two] {
        go(browser, "c", "Canvas");
        browser.wait("document.querySelectorAll('.atom').length === 1");
        browser.wait("document.querySelector('#connection').innerText.includes('live')");
    }
    let (began, mut round, mut count) = (Instant::now(), 0, 1);
    let least = if is_long() { Duration::from_secs(300) } else { Duration::ZERO };
    while round < 4 || began.elapsed() < least {
        one.press("Add a note");
        add(&format!("bot-{round}"));
        if round % 2 == 0 {
            two.offline(true);
            two.wait("document.querySelector('#connection').innerText.includes('offline')");
            add(&format!("unseen-{round}"));
            two.offline(false);
            two.wait("document.querySelector('#connection').innerText.includes('live')");
        }
        two.press("Add a note");
        // One of each browser, one of the agent, and one of the agent while the network is cut.
        count += if round % 2 == 0 { 4 } else { 3 };
        round += 1;
    }
    for browser in [&mut one, &mut two] {
        browser.wait(&format!("document.querySelectorAll('.atom').length === {count}"));
        browser.wait("document.querySelector('#sync').innerText === 'synced'");
    }
    let atoms = bot.get("/canvas/board/snapshot").json();
    assert_eq!(atoms["atoms"].as_array().map(Vec::len), Some(count), "{atoms}");
    for browser in [&mut one, &mut two] {
        browser.expect(&format!("revision {}", atoms["rev"]));
    }
    // Each earlier revision can be shown.
    one.press("Earlier revisions");
    one.expect(&format!("revision {} of {}", atoms["rev"], atoms["rev"]));
    one.eval("document.querySelector('h1').focus()");
    one.key("[");
    one.expect(&format!("revision {} of", atoms["rev"].as_i64().expect("a number") - 1));
    one.wait(&format!("document.querySelectorAll('#past li').length === {}", count - 1));
    one.key("Escape");
    one.wait(&format!("document.querySelectorAll('.atom').length === {count}"));
}

#[test]
fn scenario_64_every_screen_is_accessible_narrow_wide_light_and_dark() {
    let home = home();
    let gateway = Gateway::start(home.path());
    let anna = gateway.client(&token(home.path(), "anna", "admin", &[]));
    let Some(mut browser) = signed_in(home.path(), &gateway, "admin") else { return };
    let lock =
        json!({"scope": "*", "actions": ["canvas_command"], "valid_until": "2030-01-01T00:00:00Z", "reason": "a plan"});
    assert_eq!(anna.post("/strategy-locks", &lock).status, 201);
    anna.post("/memory", &json!({"scope": "project", "key": "k", "value": {"a": 1}}));
    anna.post("/actions/execute", &write("note.txt"));
    for (key, title) in [
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
    ] {
        go(&mut browser, key, title);
        browser.wait("!document.body.innerText.includes('Loading…')");
        // A width of 640 points is a window of 1,280 at a zoom of 200 %.
        for (width, scheme) in [(1100, "light"), (1100, "dark"), (1100, "forced"), (640, "light"), (320, "light")] {
            browser.look(width, 800, scheme);
            let found = browser.violations();
            assert!(found.is_empty(), "{title} at {width} {scheme}: {found:#?}");
            let wide = browser.eval("document.documentElement.scrollWidth - document.documentElement.clientWidth");
            assert!(wide.as_i64() <= Some(0), "{title} is {wide} too wide at {width}");
        }
        if key == "s" {
            browser.look(390, 800, "dark");
            browser.picture("gateway-narrow.png");
        }
        browser.look(1100, 800, "light");
    }
    // An admin checks the log.
    browser.press("Check the log");
    browser.wait("document.querySelector('#log').innerText.includes('events hold')");
    // Everything can be reached by Tab, beginning with the link that skips the navigation.
    browser.eval("document.body.tabIndex = -1, document.body.focus()");
    browser.key("Tab");
    browser.wait("document.activeElement.className === 'skip'");
    assert_eq!(browser.complaints, Vec::<String>::new(), "the page's policy was kept");
}

#[test]
fn strategy_locks_and_licences_are_made_by_forms_and_flags_go_back_to_their_usual_value() {
    let home = home();
    let gateway = Gateway::start(home.path());
    let anna = gateway.client(&token(home.path(), "anna", "admin", &[]));
    assert_eq!(anna.post("/admin/flags", &json!({"flag": "pii", "on": true})).status, 200);
    let Some(mut browser) = signed_in(home.path(), &gateway, "admin") else { return };
    go(&mut browser, "s", "Safety");
    browser.expect("No strategy locks.");
    let fill = |browser: &mut Browser, id: &str, text: &str| {
        browser.eval(&format!("document.querySelector('#{id}').focus()"));
        browser.text(text);
    };
    browser.press("Ask for a strategy lock…");
    fill(&mut browser, "lock-actions", "shell, canvas.*");
    fill(&mut browser, "lock-reason", "the big move");
    assert!(browser.violations().is_empty(), "{:?}", browser.violations());
    browser.press("Ask for a strategy lock");
    browser.expect("the big move");
    browser.wait("!document.querySelector('#lock-actions')");
    let lock = anna.get("/strategy-locks").json()["items"][0].clone();
    assert_eq!((&lock["actions"], &lock["scope"]), (&json!(["shell", "canvas.*"]), &json!("*")), "{lock}");
    assert_eq!((&lock["state"], &lock["three_wise"]), (&json!("pending"), &json!(false)), "{lock}");
    // Input that the gateway refuses stays in the form, with the reason.
    browser.press("Issue a licence…");
    fill(&mut browser, "licence-name", "anna");
    fill(&mut browser, "licence-reason", "a drill");
    assert!(browser.violations().is_empty(), "{:?}", browser.violations());
    browser.press("Issue a licence");
    browser.expect("a licence names actions, or a class");
    assert_eq!(browser.eval("document.querySelector('#licence-name').value"), "anna");
    fill(&mut browser, "licence-actions", "shell");
    fill(&mut browser, "licence-uses", "2");
    browser.press("Issue a licence");
    browser.wait("!document.querySelector('#licence-name')");
    let licence = anna.get("/firearms/licences").json()["items"][0].clone();
    assert_eq!((&licence["subject"], &licence["actions"]), (&json!("user:anna"), &json!(["shell"])), "{licence}");
    assert_eq!((&licence["uses_max"], &licence["active"]), (&json!(2), &json!(true)), "{licence}");
    go(&mut browser, "a", "Admin");
    browser.press("As usual");
    browser.expect("pii: off, as usual");
    assert_eq!(browser.complaints, Vec::<String>::new(), "the page's policy was kept");
}

#[test]
fn text_typed_into_a_note_survives_changes_by_others() {
    let home = home();
    let gateway = Gateway::start(home.path());
    let anna = gateway.client(&token(home.path(), "anna", "admin", &[]));
    let command = |rev: i64, id: &str| {
        let op = json!({"op": "create", "atom": {"id": id, "type": "note", "order": "a", "props": {"text": id}}});
        let body = json!({"base_rev": rev, "ops": [op], "idempotency_key": id, "merge": "disjoint"});
        assert_eq!(anna.post("/canvas/board/commands", &body).status, 200);
    };
    command(0, "one");
    let Some(mut browser) = signed_in(home.path(), &gateway, "member") else { return };
    go(&mut browser, "c", "Canvas");
    browser.wait("document.querySelector('#text-one')?.value === 'one'");
    browser.eval("document.querySelector('#text-one').select()");
    browser.text("first");
    command(1, "two");
    browser.wait("document.querySelector('#text-two')?.value === 'two'");
    assert_eq!(browser.eval("document.querySelector('#text-one').value"), json!("first"));
    browser.key("Enter");
    browser.wait(
        "document.querySelector('#sync').innerText === 'synced' && document.body.innerText.includes('revision 3')",
    );
    assert_eq!(anna.get("/canvas/board/snapshot").json()["atoms"][0]["props"]["text"], "first");
    assert_eq!(browser.eval("document.querySelector('#text-one').value"), json!("first"));
}

#[test]
fn another_project_is_shown_by_its_name_and_stays_after_a_reload() {
    let home = home();
    let gateway = Gateway::start(home.path());
    let Some(mut browser) = signed_in(home.path(), &gateway, "admin") else { return };
    let anna = gateway.client(&token(home.path(), "anna", "admin", &[])).with("X-Project-Id", "garden");
    let value = json!({"scope": "project", "key": "of-the-garden", "value": 1});
    assert_eq!(anna.post("/memory", &value).status, 201);
    go(&mut browser, "m", "Memory");
    browser.wait("!document.body.innerText.includes('Loading…')");
    assert_eq!(browser.eval("document.body.innerText.includes('of-the-garden')"), json!(false));
    browser.key("p");
    browser.wait("document.activeElement.id === 'project-name'");
    browser.text("garden");
    browser.press("Show");
    browser.expect("of-the-garden");
    browser.expect("Project: garden");
    browser.open("about:blank");
    browser.open(&format!("http://{}/ui/#/memory", gateway.address));
    browser.expect("of-the-garden");
    // An invalid name isn't accepted.
    browser.key("p");
    browser.wait("document.activeElement.id === 'project-name'");
    browser.text("a/b");
    // Each event redraws the page meanwhile: the text that is being typed stays.
    browser.eval(
        "import('/ui/js/store.js').then((store) => store.set({ who: { ...store.get().who } })) \
         .then(() => new Promise(requestAnimationFrame)).then(() => new Promise(requestAnimationFrame)).then(() => true)",
    );
    assert_eq!(browser.eval("document.querySelector('#project-name').value"), json!("a/b"));
    browser.press("Show");
    browser.wait("!document.querySelector('#project-name').checkValidity()");
    browser.key("Escape");
    browser.expect("Project: garden");
    assert_eq!(browser.complaints, Vec::<String>::new());
}

#[test]
fn the_console_serves_a_tenant_of_another_mode() {
    let home = home();
    if !super::is_on_server(home.path()) {
        return;
    }
    assert_eq!(run(home.path(), &["gateway", "tenant", "add", "acme", "--mode", "saas"]).0, Some(0));
    assert_eq!(run(home.path(), &["gateway", "member", "add", "acme", "mia", "--role", "admin"]).0, Some(0));
    let gateway = Gateway::start_mode(home.path(), "saas");
    let Some(mut browser) = Browser::start() else { return };
    browser.open(&format!("http://{}/ui/#pair={}", gateway.address, code_in(home.path(), "acme", "admin")));
    browser.expect("saas · acme");
    browser.expect("No limits are set.");
    browser.expect("● live");
    // Also after a renewal of the token, which a reload needs.
    browser.open("about:blank");
    browser.open(&format!("http://{}/ui/#/admin", gateway.address));
    browser.expect("mia");
    assert_eq!(browser.complaints, Vec::<String>::new());
}
