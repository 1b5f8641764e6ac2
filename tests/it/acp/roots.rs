//! Further directories of an editor's session: tools can read there, but not write.

use std::fs;

use serde_json::{Value, json};

use super::client::{Client, chosen};
use super::{FULL, work, write};
use crate::changes::{home, rounds};

/// Calls that read a further directory, and calls that would change it.
fn answers(further: &str) -> [Value; 3] {
    let file = format!("{further}/lib.rs");
    [
        rounds(
            "look",
            &[
                ("file_read", json!({"path": file})),
                ("file_list", json!({"path": further})),
                ("search_text", json!({"query": "further", "path": further})),
                ("shell", json!({"command": format!("cat {file}")})),
            ],
            "seen",
        ),
        rounds("change", &[("file_write", json!({"path": file, "content": "mine"}))], "tried"),
        rounds("make", &[write("a.txt", "one\n")], "made"),
    ]
}

#[test]
fn further_directories_are_read_for_the_session_that_names_them_and_never_written() {
    let elsewhere = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a directory");
    let further = elsewhere.path().canonicalize().expect("a path");
    fs::write(further.join("lib.rs"), "fn further() {}\n").expect("a file");
    let home = home(&answers(&further.display().to_string()), FULL);
    let client = Client::connected(home.path(), json!({}));
    let opened =
        json!({"cwd": work(home.path()), "mcpServers": [], "additionalDirectories": [further, work(home.path())]});
    let opened = client.request("session/new", opened);
    let session = opened["result"]["sessionId"].as_str().unwrap_or_else(|| panic!("{opened}")).to_owned();
    assert_eq!(client.prompt(&session, "look at it")["result"]["stopReason"], "end_turn");
    let results = client.updates("tool_call_update");
    let ended: Vec<&Value> = results.iter().filter(|it| it["status"] != "in_progress").collect();
    assert_eq!(ended.len(), 4, "{ended:#?}");
    for result in ended {
        assert!(
            result["status"] == "completed" && result.to_string().contains("lib.rs")
                || result.to_string().contains("fn further"),
            "{result}"
        );
    }
    assert_eq!(client.requests("session/request_permission"), Vec::<Value>::new(), "reading is never asked about");
    client.prompt(&session, "change it");
    assert_eq!(fs::read_to_string(further.join("lib.rs")).expect("the file"), "fn further() {}\n");

    // The directory counts for this session only, and isn't remembered.
    client.prompt(&session, "make it");
    assert!(client.request("session/close", json!({"sessionId": session})).get("result").is_some());
    let listed = client.request("session/list", json!({}))["result"]["sessions"][0].clone();
    assert_eq!(
        (&listed["sessionId"], &listed["additionalDirectories"]),
        (&json!(session), &json!([further])),
        "{listed}"
    );
    let again = json!({"sessionId": session, "cwd": work(home.path()), "mcpServers": []});
    assert!(client.request("session/resume", again).get("result").is_some());
    client.respond(|_, _| Some(chosen("no")));
    let before = client.updates("tool_call_update").len();
    client.prompt(&session, "look at it");
    let later = client.updates("tool_call_update")[before..].to_vec();
    assert!(!later.iter().any(|it| it.to_string().contains("fn further")), "{later:#?}");
}

#[test]
fn a_further_directory_that_cannot_be_opened_fails_the_session() {
    let home = home(&[], "");
    fs::create_dir_all(home.path().join(".ssh")).expect("a directory");
    let client = Client::connected(home.path(), json!({}));
    let ssh = home.path().join(".ssh");
    let outside = home.path().parent().expect("a directory").to_owned();
    for path in
        [json!("relative"), json!("/no/such/directory"), json!(""), json!(home.path()), json!(ssh), json!(outside)]
    {
        let opened = json!({"cwd": work(home.path()), "mcpServers": [], "additionalDirectories": [path]});
        let opened = client.request("session/new", opened);
        assert_eq!(opened["error"]["code"], -32_602, "{path}: {opened}");
    }
    let many: Vec<Value> = (0..17).map(|_| json!("/usr")).collect();
    let opened = json!({"cwd": work(home.path()), "mcpServers": [], "additionalDirectories": many});
    assert_eq!(client.request("session/new", opened)["error"]["code"], -32_602);
    assert_eq!(client.session(&work(home.path())).split('-').next(), Some("reedclaw"), "the connection goes on");
}
