//! Actions and the gates in front of them: one way to a tool, every decision in the log, every attempt in the receipts.

use std::path::Path;
use std::thread;

use serde_json::{Value, json};

use super::asking::outcome;
use super::{Answer, Client, Gateway, allowed, change, home, home_with, run, token, verify};
use crate::pty::{Session, status_code};
use crate::server::{Server, answer, tool_call};

fn action(name: &str, args: Value) -> Value {
    json!({"action_name": name, "subject_type": "run", "subject_id": "run-1", "args": args})
}

fn execute(client: &Client<'_>, body: &Value) -> Answer {
    client.post("/actions/execute", body)
}

fn types(client: &Client<'_>) -> Vec<String> {
    let items = client.get("/events/list?limit=500").json()["items"].clone();
    let name = |item: &Value| item["event_type"].as_str().unwrap_or_default().to_owned();
    items.as_array().expect("items").iter().map(name).collect()
}

fn count(client: &Client<'_>, of: &str) -> usize {
    types(client).iter().filter(|it| *it == of).count()
}

fn tenant(home: &Path, args: &[&str]) {
    let (status, _, err) = run(home, &[&["gateway", "tenant"], args].concat());
    assert_eq!(status, Some(0), "{err}");
}

fn in_days(days: i64) -> String {
    let now = jiff::Timestamp::now();
    (now + jiff::SignedDuration::from_hours(24 * days)).to_string()
}

#[test]
fn scenario_5_and_6_an_action_runs_once_with_its_decisions_events_and_receipt() {
    let home = home();
    let gateway = Gateway::start(home.path());
    let client = gateway.client(&token(home.path(), "anna", "member", &[]));
    let answer = execute(&client, &action("time", json!({})));
    assert_eq!(answer.status, 200, "{answer:?}");
    let done = answer.json();
    assert_eq!((&done["status"], &done["result"]["success"]), (&json!("completed"), &json!(true)), "{done}");
    let gates: Vec<&str> =
        done["decisions"].as_array().expect("decisions").iter().filter_map(|it| it["gate"].as_str()).collect();
    assert_eq!(gates, ["kill_switch", "firearms", "strategy_lock", "budget", "kpi", "temperature"]);
    let told = types(&client);
    for name in ["action.requested", "safety", "audit", "action.admitted", "action.completed"] {
        assert!(told.contains(&name.to_owned()), "{name} in {told:?}");
    }
    let receipts = client.get("/receipts?tool=time").json();
    let items = receipts["items"].as_array().expect("items");
    assert!(items.iter().any(|it| it["id"] == done["result"]["receipt_id"]), "{receipts}");
    assert_eq!(items.iter().filter(|it| it["kind"] == "outcome").count(), 1);
    for name in ["action_name", "subject_type", "subject_id", "args"] {
        let mut body = action("time", json!({}));
        body.as_object_mut().expect("fields").remove(name);
        assert_eq!(execute(&client, &body).code(), "body_invalid", "without {name}");
    }
    let mut other = action("time", json!({}));
    other["surface_id"] = "one".into();
    assert_eq!(execute(&client.with("X-Surface-Id", "two"), &other).code(), "body_invalid");
    let failed = execute(&client, &action("no_such_tool", json!({})));
    assert_eq!((failed.status, &failed.json()["status"]), (200, &json!("failed")), "{failed:?}");
    assert_eq!(verify(home.path()).0, Some(0));
}

#[test]
fn an_action_that_is_asked_for_again_is_answered_and_not_run_again() {
    let home = home();
    let gateway = Gateway::start(home.path());
    let client = gateway.client(&token(home.path(), "anna", "member", &[]));
    let mut body = action("time", json!({}));
    body["idempotency_key"] = "once".into();
    let first = execute(&client, &body);
    let again = execute(&client, &body);
    assert_eq!((first.status, &first.text), (again.status, &again.text));
    assert_eq!(again.headers.get("idempotent-replay").map(String::as_str), Some("true"));
    assert_eq!(count(&client, "action.requested"), 1);
    body["args"] = json!({"zone": "UTC"});
    assert_eq!(execute(&client, &body).code(), "idempotency_mismatch");
}

#[test]
fn scenario_6_a_kill_switch_stops_everything_until_a_person_at_a_terminal_lifts_it() {
    let home = home();
    let gateway = Gateway::start(home.path());
    let client = gateway.client(&token(home.path(), "anna", "member", &[]));
    let stop = json!({"scope": "action", "action": "time", "reason": "a drill"});
    assert_eq!(client.post("/estop", &stop).status, 200);
    let answer = execute(&client, &action("time", json!({})));
    assert_eq!((answer.status, answer.code().as_str()), (403, "kill_switch"));
    assert_eq!(answer.json()["error"]["context"]["scope"], "action");
    let stopped = client.post("/estop", &json!({"scope": "tenant"})).json();
    assert_eq!(client.post("/estop", &json!({"scope": "tenant"})).json(), stopped, "again the same");
    for body in
        [action("time", json!({})), action("no_such_tool", json!({})), action("shell", json!({"command": "true"}))]
    {
        assert_eq!(execute(&client, &body).code(), "kill_switch", "{body}");
    }
    let command = json!({"base_rev": 0, "ops": [{"op": "delete", "id": "a"}], "idempotency_key": "k"});
    assert_eq!(client.post("/canvas/board/commands", &command).code(), "kill_switch");
    assert_eq!((count(&client, "safety"), count(&client, "action.admitted")), (5, 0));
    let audits = client.get("/events/list?type=audit&limit=500").json()["items"].clone();
    let blocks = audits.as_array().expect("items").iter().filter(|it| it["body"]["gate"] == "kill_switch").count();
    assert_eq!(blocks, 5, "each block is in the audit, too: {audits}");
    let denied = client.get("/receipts?tool=time&status=denied").text;
    assert!(denied.contains("kill_switch"), "{denied}");
    // Neither a request nor a program can lift it.
    assert_eq!(client.post("/estop", &json!({"scope": "tenant", "clear": true})).status, 400);
    let (status, _, err) = run(home.path(), &["gateway", "estop", "--clear"]);
    assert_eq!(status, Some(3), "{err}");
    let session = Session::spawn(super::spawn(home.path(), &["gateway", "estop", "--clear"]));
    session.expect_text("Type yes");
    session.line("yes");
    assert_eq!(status_code(session.expect_exit()), 0);
    assert_eq!(execute(&client, &action("time", json!({}))).status, 200);
    // The machine's stop is the file that every session checks.
    assert_eq!(client.post("/estop", &json!({})).json()["stopped"], true);
    assert_eq!(execute(&client, &action("time", json!({}))).code(), "kill_switch");
    assert_eq!(run(home.path(), &["estop", "--status"]).0, Some(1));
    // The file says since when the stop is on: an earlier stop that was lifted doesn't count.
    let file = home.path().join(".local/state/reedclaw/ESTOP");
    std::fs::write(&file, "since 2026-01-01T00:00:00Z, by process 7\n").expect("another stop");
    let since = json!("2026-01-01T00:00:00.000Z");
    assert_eq!(client.post("/estop", &json!({})).json()["since"], since);
    let told = execute(&client, &action("time", json!({}))).json()["error"].clone();
    let context = &told["context"];
    let facts = json!([context["scope"], context["since"], context["by"]]);
    assert_eq!(facts, json!(["node", since, "process 7 of this machine"]), "{told}");
    let message = told["message"].as_str().expect("a message");
    assert!(message.matches("since").count() == 1 && !message.contains("(node)"), "{message}");
    let before = count(&client, "kill_switch");
    std::fs::remove_file(&file).expect("lifted");
    let again = client.post("/estop", &json!({})).json()["since"].clone();
    assert!(again.as_str() > since.as_str(), "{again}");
    assert_eq!(count(&client, "kill_switch"), before + 1, "it is another stop");
}

#[test]
fn scenario_10_of_many_calls_at_once_as_many_pass_as_the_budget_has() {
    let home = home();
    let gateway = Gateway::start(home.path());
    let client = gateway.client(&token(home.path(), "anna", "member", &[]));
    tenant(home.path(), &["limit", "local", "calls", "10"]);
    let answers: Vec<Answer> = thread::scope(|scope| {
        // At most 64 actions run at once, so some of them have to be sent again.
        let send = || loop {
            let answer = allowed(|| execute(&client, &action("time", json!({}))));
            if answer.status != 503 {
                return answer;
            }
        };
        let threads: Vec<_> = (0..100).map(|_| scope.spawn(send)).collect();
        threads.into_iter().map(|thread| thread.join().expect("an answer")).collect()
    });
    let passed = answers.iter().filter(|answer| answer.status == 200).count();
    let blocked = answers.iter().filter(|answer| answer.status == 403 && answer.code() == "budget").count();
    assert_eq!((passed, blocked), (10, 90), "{answers:?}");
    let budget = allowed(|| client.get("/budget")).json();
    let whole = json!({"name": "calls", "project": null, "user": null, "per": "total", "limit": 10, "spent": 10, "resets_at": null});
    assert_eq!(budget["items"], json!([whole]));
    tenant(home.path(), &["limit", "local", "calls", "none"]);
    assert_eq!(allowed(|| execute(&client, &action("time", json!({})))).status, 200);
    let usage = json!({"run_id": "run-1", "storage_class": "cost", "provider": "p", "model": "m",
        "usage": {"in": 3, "out": 4}, "cost_pico_usd": 50, "event_id": "cost-1"});
    assert_eq!(allowed(|| client.post("/budget/usage", &usage)).status, 201);
    assert_eq!(allowed(|| client.post("/budget/usage", &usage)).status, 200, "the same event");
    assert_eq!(
        allowed(|| client.get("/events/replay?run_id=run-1&limit=500")).json()["usage"],
        json!({"tokens": 7, "cost": 50, "calls": 1})
    );
}

#[test]
fn scenario_10_a_limit_may_be_of_a_project_a_user_a_run_and_a_span_of_time() {
    let home = home();
    let gateway = Gateway::start(home.path());
    let anna = gateway.client(&token(home.path(), "anna", "member", &[]));
    let ben = gateway.client(&token(home.path(), "ben", "member", &[]));
    let shop = ben.with("X-Project-Id", "shop");
    let time = |client: &Client<'_>| allowed(|| execute(client, &action("time", json!({}))));
    let limit = |more: &[&str]| tenant(home.path(), &[&["limit", "local", "calls"], more].concat());
    // Each limit bounds only what it names.
    limit(&["1", "--project", "shop", "--per", "day"]);
    assert_eq!((time(&shop).status, time(&anna).status, time(&ben).status), (200, 200, 200));
    let blocked = time(&shop);
    assert_eq!((blocked.status, blocked.code().as_str()), (403, "budget"), "{blocked:?}");
    let context = blocked.json()["error"]["context"].clone();
    assert_eq!((&context["project"], &context["per"], &context["spent"]), (&json!("shop"), &json!("day"), &json!(1)));
    let resets = context["resets_at"].as_str().expect("a time");
    assert!(resets.ends_with("T00:00:00.000Z"), "{resets}");
    assert!(
        blocked.json()["error"]["message"].as_str().is_some_and(|it| it.contains("of the project shop for this day"))
    );
    assert_eq!((time(&anna).status, time(&ben).status), (200, 200));
    limit(&["3", "--user", "anna", "--per", "hour"]);
    assert_eq!((time(&anna).status, time(&anna).code().as_str()), (200, "budget"), "she had two before");
    assert_eq!(time(&ben).status, 200);
    limit(&["none", "--user", "anna", "--per", "hour"]);
    limit(&["2", "--per", "run"]);
    let time_in = |client: &Client<'_>, run: &str| {
        let mut body = action("time", json!({}));
        body["subject_id"] = run.into();
        allowed(|| execute(client, &body))
    };
    assert_eq!((time_in(&anna, "run-8").status, time_in(&ben, "run-8").status), (200, 200));
    assert_eq!(time_in(&anna, "run-8").code(), "budget", "the run has had two");
    assert_eq!(time_in(&anna, "run-9").status, 200, "another run has its own");
    // Spending from an earlier period no longer counts.
    for (span, ago) in [("hour", 3_600_000_i64), ("week", 7 * 86_400_000), ("month", 31 * 86_400_000)] {
        limit(&["none", "--per", "run"]);
        limit(&["none", "--project", "shop", "--per", "day"]);
        limit(&["1", "--project", "shop", "--per", span]);
        assert_eq!(time(&shop).code(), "budget", "{span}");
        let hours = ago / 3_600_000;
        change(home.path(), &format!("UPDATE budget_spent SET hour = hour - {hours} WHERE project = 'shop'"));
        assert_eq!((time(&shop).status, time(&shop).code().as_str()), (200, "budget"), "{span}");
        limit(&["none", "--project", "shop", "--per", span]);
    }
    let listed = allowed(|| shop.get("/budget")).json();
    assert_eq!(listed["items"], json!([]), "{listed}");
    assert_eq!(verify(home.path()).0, Some(0));
}

#[test]
fn scenario_7_and_37_a_high_risk_needs_a_licence_that_is_in_force() {
    let home = home();
    let gateway = Gateway::start(home.path());
    let anna = gateway.client(&token(home.path(), "anna", "member", &[]));
    let olga = gateway.client(&token(home.path(), "olga", "operator", &[]));
    let bot = gateway.client(&token(home.path(), "olga", "operator", &["--kind", "agent"]));
    let body = action("shell", json!({"command": "rm -rf ../elsewhere-that-is-not-there"}));
    let asked = execute(&anna, &body);
    assert_eq!((asked.status, asked.code().as_str()), (403, "firearms"), "{asked:?}");
    let class = asked.json()["error"]["context"]["class"].as_str().expect("a class").to_owned();
    let licence = |more: Value| {
        let mut body =
            json!({"subject": {"user": "anna"}, "class": class, "valid_until": in_days(1), "reason": "a test"});
        more.as_object().expect("fields").iter().for_each(|(name, field)| body[name] = field.clone());
        body
    };
    assert_eq!(anna.post("/firearms/licences", &licence(json!({}))).code(), "forbidden");
    assert_eq!(bot.post("/firearms/licences", &licence(json!({}))).code(), "forbidden", "an agent issues none");
    assert_eq!(olga.post("/firearms/licences", &licence(json!({"valid_until": in_days(91)}))).code(), "body_invalid");
    assert_eq!(olga.post("/firearms/licences", &licence(json!({"project": "other"}))).status, 201);
    assert_eq!(execute(&anna, &body).code(), "firearms", "of another project");
    let issued = olga.post("/firearms/licences", &licence(json!({})));
    assert_eq!(issued.status, 201, "{issued:?}");
    // The gates let it pass now; the policy still asks a person, or refuses.
    let answer = execute(&anna, &body);
    assert!(answer.status == 202 || answer.code() == "policy", "{answer:?}");
    let id = issued.json()["licence_id"].as_str().expect("an id").to_owned();
    for _ in 0..2 {
        let revoked = olga.post(&format!("/firearms/{id}/revoke"), &json!({"reason": "over"}));
        assert_eq!((revoked.status, &revoked.json()["active"]), (200, &json!(false)));
    }
    assert_eq!(execute(&anna, &body).code(), "firearms", "revoked");
    assert_eq!(olga.post("/firearms/none/revoke", &json!({"reason": "over"})).code(), "not_found");
    assert_eq!(olga.get("/firearms/licences?active=true").json()["items"].as_array().map(Vec::len), Some(1));
    assert_eq!(count(&anna, "licence"), 3, "two issued, one revoked once");
}

#[test]
fn an_action_that_the_config_calls_dangerous_needs_a_licence_whatever_the_policy_finds() {
    let home = home_with("gateway = {dangerous = {\"time=money\"}}");
    let gateway = Gateway::start(home.path());
    let anna = gateway.client(&token(home.path(), "anna", "member", &[]));
    let olga = gateway.client(&token(home.path(), "olga", "operator", &[]));
    let tools = anna.get("/tools").json()["items"].clone();
    let time = tools.as_array().expect("tools").iter().find(|it| it["name"] == "time").expect("the tool");
    assert_eq!(time["dangerous_class"], "money");
    let refused = execute(&anna, &action("time", json!({})));
    let class = refused.json()["error"]["context"]["class"].clone();
    assert_eq!((refused.code().as_str(), &class), ("firearms", &json!("money")), "{refused:?}");
    let licence = |class: &str| {
        let body = json!({"subject": {"user": "anna"}, "class": class, "valid_until": in_days(1), "reason": "a test"});
        assert_eq!(olga.post("/firearms/licences", &body).status, 201);
    };
    licence("exec");
    assert_eq!(execute(&anna, &action("time", json!({}))).code(), "firearms", "of another class");
    licence("money");
    assert_eq!(execute(&anna, &action("time", json!({}))).status, 200);
    drop(gateway);
    let config = home.path().join(".config/reedclaw/config.lua");
    let text = std::fs::read_to_string(&config).expect("a config");
    std::fs::write(&config, text.replace("time=money", "time=cash")).expect("a config");
    let (status, _, err) = run(home.path(), &["gateway", "--listen", "127.0.0.1:0"]);
    assert!(status == Some(2) && err.contains("time=cash") && err.contains("money"), "{status:?} {err}");
}

#[test]
fn scenario_7_a_licence_is_used_up_by_its_calls_and_ends_by_the_databases_clock() {
    let home = home_with("gateway = {dangerous = {\"time=money\"}}");
    let gateway = Gateway::start(home.path());
    let anna = gateway.client(&token(home.path(), "anna", "member", &[]));
    let olga = gateway.client(&token(home.path(), "olga", "operator", &[]));
    let time = || execute(&anna, &action("time", json!({})));
    let issue = |uses: Option<i64>| {
        let mut body =
            json!({"subject": {"user": "anna"}, "class": "money", "valid_until": in_days(1), "reason": "a test"});
        if let Some(uses) = uses {
            body["uses_max"] = uses.into();
        }
        assert_eq!(olga.post("/firearms/licences", &body).status, 201);
    };
    issue(Some(2));
    assert_eq!((time().status, time().status), (200, 200));
    assert_eq!(time().code(), "firearms", "it is used up");
    issue(None);
    assert_eq!(time().status, 200);
    let passes = format!("UPDATE licence SET valid_until_ms = {} - 1000", super::now_ms(home.path()));
    change(home.path(), &passes);
    assert_eq!(time().code(), "firearms", "its time is over");
    assert_eq!(olga.get("/firearms/licences?active=true").json()["items"], json!([]));
    assert_eq!(verify(home.path()).0, Some(0));
}

#[test]
fn scenario_9_and_38_a_strategy_lock_is_approved_by_others_and_again_after_a_change() {
    let home = home();
    let gateway = Gateway::start(home.path());
    let client = |user: &str, role: &str| token(home.path(), user, role, &[]);
    let secrets = [
        client("anna", "approver"),
        client("paul", "approver"),
        client("petra", "approver"),
        client("pia", "approver"),
    ];
    let [anna, paul, petra, pia] = [0, 1, 2, 3].map(|at: usize| gateway.client(&secrets[at]));
    tenant(home.path(), &["flag", "local", "strategy_locks", "on"]);
    let time = action("time", json!({}));
    let state = |client: &Client<'_>| {
        let answer = execute(client, &time);
        assert_eq!((answer.status, answer.code().as_str()), (403, "strategy_lock"), "{answer:?}");
        answer.json()["error"]["context"]["state"].as_str().unwrap_or_default().to_owned()
    };
    assert_eq!(state(&anna), "none");
    let wanted = json!({"scope": "*", "actions": ["time"], "valid_until": in_days(1), "reason": "a test"});
    let mut odd = wanted.clone();
    odd["actions"] = json!(["file_*"]);
    assert_eq!(anna.post("/strategy-locks", &odd).code(), "body_invalid", "it would name nothing");
    assert_eq!(anna.get("/strategy-locks?state=zz").code(), "body_invalid");
    let made = anna.post("/strategy-locks", &wanted);
    assert_eq!((made.status, &made.json()["state"]), (201, &json!("pending")), "{made:?}");
    let path = format!("/strategy-locks/{}", made.json()["lock_id"].as_str().expect("an id"));
    assert_eq!(anna.post(&format!("{path}/approve"), &json!({})).code(), "forbidden", "the author");
    assert_eq!(paul.post(&format!("{path}/approve"), &json!({})).json()["state"], "approved");
    assert_eq!(execute(&anna, &time).status, 200);
    let mut change = wanted.clone();
    assert_eq!(anna.write("PATCH", &path, &change).code(), "precondition_required");
    change["three_wise"] = true.into();
    change["expected_version"] = 1.into();
    assert_eq!(paul.write("PATCH", &path, &change).code(), "forbidden", "only its author");
    assert_eq!(anna.write("PATCH", &path, &change).json()["state"], "pending");
    assert_eq!(anna.write("PATCH", &path, &change).code(), "version_conflict");
    for (approver, left) in [(&paul, "pending"), (&paul, "pending"), (&petra, "pending"), (&pia, "approved")] {
        assert_eq!(state(&anna), "three_wise_pending");
        assert_eq!(approver.post(&format!("{path}/approve"), &json!({})).json()["state"], left);
    }
    assert_eq!(execute(&anna, &time).status, 200);
    let passes = format!("UPDATE strategy_lock SET valid_until_ms = {} - 1000", super::now_ms(home.path()));
    super::change(home.path(), &passes);
    assert_eq!(state(&anna), "expired");
    assert_eq!(paul.post(&format!("{path}/reject"), &json!({})).json()["state"], "rejected");
    assert_eq!(state(&anna), "rejected");
    assert_eq!(paul.post("/strategy-locks/none/approve", &json!({})).code(), "not_found");
}

#[test]
fn a_dry_run_says_what_would_happen_and_leaves_an_audit_alone() {
    let home = home();
    let gateway = Gateway::start(home.path());
    let client = gateway.client(&token(home.path(), "anna", "member", &[]));
    let dry = |name: &str, args: Value| {
        let mut body = action(name, args);
        body["dry_run"] = true.into();
        execute(&client, &body)
    };
    assert_eq!(dry("time", json!({})).json()["status"], "would_run");
    let write = dry("file_write", json!({"path": "note.txt", "content": "x"}));
    assert_eq!(write.json()["status"], "would_ask", "{write:?}");
    assert!(!home.path().join("ws/note.txt").exists());
    let command = dry("shell", json!({"command": "touch made"}));
    assert_eq!(command.json()["status"], "would_ask", "its changes are asked about: {command:?}");
    assert_eq!(client.post("/estop", &json!({"scope": "tenant"})).status, 200);
    assert_eq!(dry("time", json!({})).json()["status"], "would_block");
    assert_eq!((count(&client, "safety"), count(&client, "action.requested")), (0, 0));
    assert_eq!(client.get("/receipts").json()["items"], json!([]));
}

#[test]
fn scenario_48_what_nobody_answers_in_time_is_refused_with_a_receipt() {
    let home = home_with("gateway = {question_timeout = 1}");
    let gateway = Gateway::start(home.path());
    let client = gateway.client(&token(home.path(), "bot", "member", &["--kind", "agent"]));
    let mut body = action("file_write", json!({"path": "note.txt", "content": "x"}));
    body["wait_ms"] = 30_000.into();
    let answer = execute(&client, &body);
    assert_eq!((answer.status, answer.code().as_str()), (403, "approval"), "{answer:?}");
    assert!(!home.path().join("ws/note.txt").exists());
    let receipt = answer.json()["error"]["context"]["receipt_id"].as_str().expect("a receipt").to_owned();
    assert!(client.get("/receipts?status=denied").text.contains(&receipt));
    let safety = client.get("/events/list?type=safety").json()["items"][0]["body"].clone();
    assert_eq!((&safety["outcome"], &safety["gate"]), (&json!("block"), &json!("approval")), "{safety}");
    let metrics = gateway.send("GET", "/metrics", &[], "").text;
    assert!(metrics.contains("reedclaw_tool_denials_total 1\n"), "{metrics}");
}

#[test]
fn scenario_12_a_surface_that_is_hot_waits_and_cools_by_the_clock() {
    let home = home();
    let gateway = Gateway::start(home.path());
    let anna = gateway.client(&token(home.path(), "anna", "member", &[])).with("X-Surface-Id", "desk");
    let ben = gateway.client(&token(home.path(), "ben", "approver", &[]));
    let mut write = action("file_write", json!({"path": "note.txt", "content": "x"}));
    let asked = execute(&anna, &write).json();
    let id = asked["question_id"].as_str().unwrap_or_else(|| panic!("{asked}"));
    let question = ben.get(&format!("/questions/{id}")).json();
    let yes = json!({"digest": question["digest"], "answer": "once", "seen_to_end": true});
    assert_eq!(ben.post(&format!("/questions/{id}/answer"), &yes).status, 200);
    assert_eq!(outcome(&anna, id)["http_status"], 200);
    let heat = |sql: &str| super::read_rows(home.path(), sql)[0].parse::<i64>().expect("a number");
    let one = heat("SELECT thousandths FROM heat WHERE tenant = 'local' AND surface_id = 'desk'");
    assert!((990..=1_000).contains(&one), "a medium call adds one degree: {one}");
    write["dry_run"] = true.into();
    let dry = |client: &Client<'_>| execute(client, &write).json();
    let set = |thousandths: i64, before_ms: i64| {
        let now = super::now_ms(home.path());
        super::change(
            home.path(),
            &format!("UPDATE heat SET thousandths = {thousandths}, at_ms = {now} - {before_ms}"),
        );
    };
    set(48_900, 0);
    assert_eq!(dry(&anna)["status"], "would_ask", "the fiftieth");
    set(50_000, 0);
    let hot = dry(&anna);
    assert_eq!(hot["status"], "would_block", "{hot}");
    let gate = hot["decisions"].as_array().expect("decisions").iter().find(|it| it["gate"] == "temperature").cloned();
    let gate = gate.expect("the gate");
    assert!(gate["outcome"] == "block" && gate["context"]["cools_in_s"].as_i64() > Some(0), "{gate}");
    assert_eq!(dry(&anna.with("X-Surface-Id", "other"))["error"]["code"], "identity_invalid", "one surface a request");
    assert_eq!(dry(&ben)["status"], "would_ask", "another surface is cold");
    assert_eq!(execute(&anna, &action("time", json!({}))).status, 200, "a low risk adds nothing");
    set(50_000, 600_000);
    assert_eq!(dry(&anna)["status"], "would_ask", "ten minutes halve it");
    // Another gateway on the same database counts exactly the same heat.
    if super::is_on_server(home.path()) {
        let other = Gateway::start(home.path());
        let there = Client { gateway: &other, ..anna.clone() };
        let heat_seen = |client: &Client<'_>| {
            let decisions = dry(client)["decisions"].as_array().cloned().unwrap_or_default();
            let gate = decisions.into_iter().find(|it| it["gate"] == "temperature").expect("the gate");
            gate["context"]["heat"].as_i64().expect("its heat")
        };
        // Heat with a time in the future doesn't cool, so both gateways must agree on one number.
        set(50_321, -3_600_000);
        assert_eq!((heat_seen(&anna), heat_seen(&there)), (50_321, 50_321));
        set(50_000, 0);
        assert_eq!(
            (dry(&anna)["status"].clone(), dry(&there)["status"].clone()),
            ("would_block".into(), "would_block".into())
        );
    }
}

#[test]
fn scenario_13_the_same_call_has_the_same_verdict_and_receipt_by_every_way() {
    let server = Server::start();
    let models = format!("models = {{tiny = {{endpoint = \"{}\"}}}}", server.endpoint());
    let home = home_with(&format!("{models}, memory = {{auto = false}}, context = {{project = false}}"));
    std::fs::write(home.path().join("ws/a.txt"), "one line\n").expect("a file");
    let args = json!({"path": "a.txt"});
    let gateway = Gateway::start(home.path());
    let anna = gateway.client(&token(home.path(), "anna", "member", &[]));
    assert_eq!(execute(&anna, &action("file_read", args.clone())).status, 200);
    server.reply(tool_call("file_read", &args.to_string()));
    server.reply(answer("Read."));
    assert_eq!(anna.post("/chat", &json!({"message": "Read it."})).status, 200);
    let workspace = home.path().join("ws").display().to_string();
    let by_hand = ["tool", "run", "file_read", "--json", &args.to_string(), "--workspace", &workspace];
    assert_eq!(run(home.path(), &by_hand).0, Some(0));
    server.reply(tool_call("file_read", &args.to_string()));
    server.reply(answer("Read."));
    assert_eq!(run(home.path(), &["agent", "-m", "Read it."]).0, Some(0));
    server.reply(tool_call("file_read", &args.to_string()));
    server.reply(answer("Read in the shell."));
    let session = Session::spawn(super::spawn(home.path(), &[]).cwd(&home.path().join("ws")));
    session.expect_prompt();
    session.line("?Read it.");
    session.expect_text("Read in the shell.");
    session.line("exit");
    session.expect_exit();
    let receipts = anna.get("/receipts?tool=file_read&limit=500").json();
    let outcomes: Vec<Value> = receipts["items"]
        .as_array()
        .expect("items")
        .iter()
        .filter(|it| it["kind"] == "outcome")
        .map(|it| json!([it["tool"], it["args_hash"], it["result_hash"], it["status"], it["risk"]]))
        .collect();
    assert_eq!(outcomes.len(), 5, "each way ran it once: {receipts}");
    assert!(outcomes.iter().all(|it| *it == outcomes[0] && it[1].is_string()), "{outcomes:#?}");
}
