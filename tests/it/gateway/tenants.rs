//! Agents of tenants: each project has its own conversations, runs, receipts and workspace, and none of them is visible
//! elsewhere.

use std::path::Path;

use serde_json::{Value, json};

use super::runs::{home_of, signature};
use super::streams::Reader;
use super::{Client, Gateway, home_with, is_on_server, run, token, verify};
use crate::server::{Server, answer, tool_call};

/// A request about one run.
type Ask<'a> = &'a dyn Fn(&str) -> super::Answer;

/// A tenant in a mode, and a client of its admin.
fn tenant<'a>(home: &Path, gateway: &'a Gateway, name: &str, mode: &str) -> Client<'a> {
    let (status, _, err) = run(home, &["gateway", "tenant", "add", name, "--mode", mode]);
    assert_eq!(status, Some(0), "{err}");
    // Outside the mode `lab` a model must promise that it doesn't train, unless the tenant says otherwise.
    assert_eq!(run(home, &["gateway", "tenant", "flag", name, "train_ok", "on"]).0, Some(0));
    let user = format!("user-of-{name}");
    let client = gateway.client(&token(home, &user, "admin", &["--tenant", name])).with("X-Tenant-Id", name);
    client.with("X-Mode", mode).with("X-Project-Id", "default").with("X-Request-Id", "same")
}

/// The same client in another project.
fn in_project<'a>(client: &Client<'a>, project: &str) -> Client<'a> {
    let mut other = client.clone();
    other.headers.retain(|(name, _)| name != "X-Project-Id");
    other.with("X-Project-Id", project)
}

/// Lets a model read and write in a project; returns the run's answer.
fn worked(server: &Server, client: &Client<'_>, word: &str) -> Value {
    server.reply(tool_call("file_list", "{\"path\": \".\"}"));
    server.reply(answer(&format!("The {word} is here.")));
    let done = client.post("/chat", &json!({"message": format!("Where is the {word}?")}));
    assert_eq!((done.status, &done.json()["text"]), (200, &json!(format!("The {word} is here."))), "{done:?}");
    done.json()
}

/// All that a client can see of the work of agents.
fn seen(client: &Client<'_>) -> String {
    let paths = ["/runs", "/receipts", "/memory/search?q=where", "/events/list?limit=500", "/shares", "/status"];
    paths.map(|path| client.get(path).text).concat()
}

#[test]
fn each_project_has_conversations_runs_receipts_and_a_workspace_of_its_own() {
    let server = Server::start();
    let home = home_of(&server);
    let modes: &[&str] = if is_on_server(home.path()) { &["lab", "saas", "enterprise"] } else { &["lab"] };
    for mode in modes {
        let gateway = Gateway::start_mode(home.path(), mode);
        let (acme, beta) = (format!("acme-{mode}"), format!("beta-{mode}"));
        let ours = tenant(home.path(), &gateway, &acme, mode);
        let theirs = tenant(home.path(), &gateway, &beta, mode);
        let first = worked(&server, &ours, "walrus");
        let second = worked(&server, &theirs, "gazelle");
        let third = worked(&server, &in_project(&ours, "side"), "badger");
        assert_eq!(
            (&first["conversation_id"], &second["conversation_id"], &third["conversation_id"]),
            (&json!(1), &json!(1), &json!(1)),
            "each has its first one"
        );
        for (client, own, others) in [
            (&ours, "walrus", ["gazelle", "badger"]),
            (&theirs, "gazelle", ["walrus", "badger"]),
            (&in_project(&ours, "side"), "badger", ["walrus", "gazelle"]),
        ] {
            let found = client.get(&format!("/memory/search?q={own}")).json();
            assert!(found["items"].as_array().is_some_and(|items| !items.is_empty()), "{found}");
            let receipts = client.get("/receipts").json();
            assert_eq!(receipts["items"].as_array().map(Vec::len), Some(2), "an intent and an outcome: {receipts}");
            assert_eq!(client.get("/status").json()["receipts"], json!({"valid": true, "last_seq": 2}));
            for other in others {
                let path = format!("/memory/search?q={other}");
                assert_eq!(client.get(&path).json()["items"], json!([]), "{own} sees {other}");
                let runs = client.get("/runs").text;
                assert!(!runs.contains(other), "{own} sees {other}: {runs}");
            }
        }
        assert!(!seen(&theirs).contains("walrus") && !seen(&ours).contains("gazelle"));
        // The conversation continues, with only its own text.
        server.reply(answer("As said."));
        let again = ours.post("/chat", &json!({"message": "Again?", "conversation_id": 1}));
        assert_eq!(again.json()["text"], "As said.", "{again:?}");
        let sent = server.request(server.requests()).raw;
        assert!(sent.contains("walrus") && !sent.contains("gazelle") && !sent.contains("badger"), "{sent}");
        // Another tenant's run looks like one that doesn't exist.
        let (id, absent) = (second["run_id"].as_str().expect("an id"), "0192aaaa-0000-7000-8000-000000000000");
        let ways: [(&str, Ask<'_>); 4] = [
            ("get", &|id| ours.get(&format!("/runs/{id}"))),
            ("follow", &|id| ours.get(&format!("/sse/runs/{id}"))),
            ("cancel", &|id| ours.post(&format!("/runs/{id}/cancel"), &json!({}))),
            ("replay", &|id| ours.get(&format!("/events/replay?run_id={id}"))),
        ];
        for (way, ask) in ways {
            let (asked, known) = (ask(id), ask(absent));
            assert_eq!((asked.status, &asked.text), (known.status, &known.text), "{way}");
        }
        let elsewhere = |id: i64| ours.post("/chat", &json!({"message": "?", "conversation_id": id}));
        assert_eq!(elsewhere(2).code(), "not_found", "their conversations have the same numbers, and are others");
        // The machine's own user sees none of it.
        let places: Vec<_> = std::fs::read_dir(home.path().join(".local/state/reedclaw/tenants"))
            .expect("homes")
            .map(|it| it.expect("an entry").path())
            .collect();
        assert_eq!(places.len(), 1, "one database: {places:?}");
        assert!(places[0].join(&acme).join("side/reedclaw.db").exists());
        // They are there after a restart.
        let headers = ours.headers.clone();
        assert_eq!(gateway.end(nix::sys::signal::Signal::SIGTERM), Some(0));
        let gateway = Gateway::start_mode(home.path(), mode);
        let ours = Client { gateway: &gateway, headers };
        server.reply(answer("As before."));
        let again = ours.post("/chat", &json!({"message": "And now?", "conversation_id": 1}));
        assert_eq!(again.json()["text"], "As before.", "{again:?}");
        assert!(server.request(server.requests()).raw.contains("walrus"));
    }
    let (status, out, err) = run(home.path(), &["agent", "--conversation", "1", "-m", "?"]);
    assert_eq!(status, Some(2), "the terminal has no conversation: {out}{err}");
    assert_eq!(verify(home.path()).0, Some(0));
}

#[test]
fn gateways_with_other_databases_share_no_conversations() {
    let server = Server::start();
    let home = home_of(&server);
    let _ = std::fs::remove_file(home.path().join("database-address"));
    let mut workspaces = 0;
    for (file, word) in [("one.db", "walrus"), ("two.db", "gazelle")] {
        let place = home.path().join(file).display().to_string();
        let config = home.path().join(".config/reedclaw/config.lua");
        let text = std::fs::read_to_string(&config).expect("a config");
        let begun = text.find(", gateway = {").unwrap_or(text.len() - 2);
        let settings = format!(", gateway = {{database = \"file:{place}\"}}}}\n");
        std::fs::write(&config, format!("{}{settings}", &text[..begun])).expect("a config");
        let gateway = Gateway::start(home.path());
        let client = tenant(home.path(), &gateway, "acme", "lab");
        let done = worked(&server, &client, word);
        assert_eq!(done["conversation_id"], 1);
        assert_eq!(client.get("/receipts").json()["items"].as_array().map(Vec::len), Some(2));
        workspaces += 1;
        let all = std::fs::read_dir(home.path().join(".local/share/reedclaw-workspaces")).expect("workspaces");
        assert_eq!(all.count(), workspaces);
    }
}

#[test]
fn looking_leaves_no_directories() {
    let home = home_with("");
    let gateway = Gateway::start(home.path());
    let client = tenant(home.path(), &gateway, "acme", "lab");
    for path in ["/status", "/receipts", "/memory/search?q=x", "/runs", "/registry/flows", "/tools"] {
        assert_eq!(client.get(path).status, 200, "{path}");
    }
    let missing = client.post("/chat", &json!({"message": "?", "conversation_id": 1}));
    assert_eq!(missing.code(), "not_found");
    assert!(!home.path().join(".local/state/reedclaw/tenants").exists());
    assert!(!home.path().join(".local/share/reedclaw-workspaces").exists());
}

#[test]
fn a_question_over_http_attaches_no_files() {
    let server = Server::start();
    let home = home_of(&server);
    std::fs::write(home.path().join("ws/plan.txt"), "the secret plan").expect("a file");
    std::fs::write(home.path().join("notes.txt"), "the secret plan").expect("a file");
    let gateway = Gateway::start(home.path());
    let guest = gateway.client(&token(home.path(), "guest", "member", &[]));
    let there = home.path().join("notes.txt").display().to_string();
    server.reply(answer("Nothing."));
    let question = format!("Read @plan.txt @{there} @~/notes.txt @. @diff {there}");
    let done = guest.post("/chat", &json!({"message": question}));
    assert_eq!(done.status, 200, "{done:?}");
    let sent = server.request(1).raw;
    assert!(sent.contains("@plan.txt") && !sent.contains("the secret plan"), "{sent}");
}

#[test]
fn a_webhook_asks_in_its_tenants_project() {
    let server = Server::start();
    let models = format!("models = {{tiny = {{endpoint = \"{}\"}}}}, memory = {{auto = false}}", server.endpoint());
    let row = |tenant: &str| {
        let of = format!("tenant = \"{tenant}\", project = \"shop\", persona = \"builder\"");
        format!("{{secret_env = \"HOOK_SECRET\", question = \"Why?\", {of}}}")
    };
    let personas = "personas = {builder = {system_prompt = \"You build.\"}}";
    let hooks = format!("gateway = {{hooks = {{builds = {}, lost = {}}}, {personas}}}", row("acme"), row("nobody"));
    let home = home_with(&format!("{models}, {hooks}"));
    let gateway = Gateway::start_with(home.path(), &[("HOOK_SECRET", "a long secret of a hook")]);
    let acme = tenant(home.path(), &gateway, "acme", "lab");
    let local = gateway.client(&token(home.path(), "anna", "admin", &[]));
    let body = json!({"build": 7}).to_string();
    let signed = signature("a long secret of a hook", jiff::Timestamp::now().as_second(), &body);
    let send =
        |name: &str| gateway.send("POST", &format!("/hooks/{name}"), &[("X-Reedclaw-Signature", &signed)], &body);
    server.reply(tool_call("file_list", "{\"path\": \".\"}"));
    server.reply(answer("A walrus."));
    let begun = send("builds");
    assert_eq!(begun.status, 202, "{begun:?}");
    let id = begun.json()["run_id"].as_str().expect("an id").to_owned();
    let shop = in_project(&acme, "shop");
    let mut stream = Reader::new(shop.open(&format!("/sse/runs/{id}")));
    assert_eq!(stream.expect("answered").2["text"], "A walrus.");
    assert!(stream.next().is_none());
    assert!(server.request(1).content(0).starts_with("You build."));
    let run_of = shop.get(&format!("/runs/{id}")).json();
    assert_eq!((&run_of["user"], &run_of["project"]), (&json!("hook:builds"), &json!("shop")), "{run_of}");
    assert_eq!(shop.get("/receipts").json()["items"].as_array().map(Vec::len), Some(2));
    for other in [&acme, &local] {
        assert_eq!(other.get(&format!("/runs/{id}")).code(), "not_found");
        assert_eq!(other.get("/receipts").json()["items"], json!([]));
        assert!(!seen(other).contains("walrus"));
    }
    assert_eq!(send("builds").code(), "replayed");
    assert_eq!(send("lost").code(), "backend_unavailable");
}

#[test]
fn an_archive_and_an_erasure_cover_what_agents_have_on_this_machine() {
    let server = Server::start();
    let home = home_of(&server);
    let gateway = Gateway::start(home.path());
    let anna = tenant(home.path(), &gateway, "acme", "lab");
    let secret = token(home.path(), "ben", "member", &["--tenant", "acme"]);
    let ben = gateway.client(&secret).with("X-Tenant-Id", "acme");
    let local = gateway.client(&token(home.path(), "anna", "admin", &[]));
    worked(&server, &anna, "walrus");
    worked(&server, &in_project(&ben, "side"), "badger");
    worked(&server, &local, "gazelle");
    let exported = |name: &str| {
        let file = home.path().join(name).display().to_string();
        assert_eq!(run(home.path(), &["gateway", "export", "acme", &file]).0, Some(0));
        let (status, out, err) = run(home.path(), &["gateway", "verify", "--file", &file]);
        assert_eq!(status, Some(0), "{out}{err}");
        let text = std::fs::read_to_string(&file).expect("an archive");
        let lines = text.lines().filter(|line| line.contains("\"type\":\"conversation\""));
        lines.map(|line| serde_json::from_str(line).expect("JSON")).collect::<Vec<Value>>()
    };
    let all = exported("before.jsonl");
    let projects: Vec<&Value> = all.iter().map(|it| &it["project"]).collect();
    assert_eq!(projects, [&json!("default"), &json!("side")], "{all:?}");
    assert_eq!(
        all[1]["messages"][0],
        json!({"role": "user", "text": "Where is the badger?",
        "at_ms": all[1]["messages"][0]["at_ms"]})
    );
    assert!(!json!(all).to_string().contains("gazelle"), "this machine's user is no tenant");
    let erased = anna.post("/admin/erasures", &json!({"user": "ben", "reason": "a wish"})).json();
    assert_eq!(erased["conversations"], 1, "{erased}");
    let found =
        |client: &Client<'_>, word: &str| client.get(&format!("/memory/search?q={word}")).json()["items"].clone();
    assert_eq!(found(&in_project(&anna, "side"), "badger"), json!([]));
    assert_ne!(found(&anna, "walrus"), json!([]), "what others have asked stays");
    let again = in_project(&ben, "side").post("/chat", &json!({"message": "?", "conversation_id": 1}));
    assert_eq!(again.code(), "not_found", "{again:?}");
    assert_eq!(exported("after.jsonl").len(), 1);
    let again = anna.post("/admin/erasures", &json!({"user": "ben", "reason": "a wish"})).json();
    assert_eq!((&again["erased"], &again["conversations"]), (&json!(0), &json!(0)));
}
