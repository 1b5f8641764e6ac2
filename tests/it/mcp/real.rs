//! Published servers, used by a session with a scripted model: four from npm, three from PyPI, and one for each Python library.
//! `.ci/run` installs them; without them these tests are skipped.

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};
use tempfile::TempDir;

use super::{allow, ask, at, results, run};
use crate::changes::{home, read, rounds};
use crate::need;

/// The programs of published servers.
struct Servers(PathBuf);

impl Servers {
    fn npm(&self, name: &str) -> String {
        self.0.join("node_modules/.bin").join(name).display().to_string()
    }

    fn python(&self, name: &str) -> String {
        self.0.join("python/bin").join(name).display().to_string()
    }
}

fn installed() -> Option<Servers> {
    Some(Servers(need::mcp_servers()?))
}

/// A home with one server, whose tools are allowed and run without a question, and a model that makes these calls.
fn with_server(servers: &Servers, words: &[String], calls: &[(&str, Value)], more: &str) -> TempDir {
    let words: Vec<String> = words.iter().map(|word| format!("{word:?}")).collect();
    let granted: String = calls
        .iter()
        .filter_map(|(name, _)| name.strip_prefix("one__"))
        .map(|name| format!("[{name:?}] = \"run\", "))
        .collect();
    let config = format!(
        "mcp = {{ wait_ms = 30000, servers = {{ one = {{ command = {{ {} }}, readable = {{ \"{}\" }}, start_ms = 120000, \
         tools = {{ {granted} [\"@resources\"] = \"run\" }}, {more} }} }} }}",
        words.join(", "),
        servers.0.display(),
    );
    let home = home(&[rounds("please", calls, "done")], &config);
    fs::write(at(&home).join("work/note.txt"), "a note\n").expect("a file");
    allow(at(&home));
    home
}

/// The results of the model's calls: success and output of each.
fn outputs(home: &Path) -> Vec<(bool, String)> {
    let lines = ask(home, "supervised");
    let found = results(&lines);
    let text = |result: &Value| result["output"].as_str().unwrap_or_default().to_owned();
    found.iter().map(|result| (result["success"] == true, format!("{}{}", text(result), result["error"]))).collect()
}

#[test]
fn filesystem_reads_and_writes_in_the_workspace_and_nowhere_else() {
    let Some(servers) = installed() else { return };
    let calls = [
        ("one__list_allowed_directories", json!({})),
        ("one__read_text_file", json!({"path": "note.txt"})),
        ("one__write_file", json!({"path": "made.txt", "content": "made\n"})),
        // The server would write it; the kernel prevents it.
        ("one__write_file", json!({"path": "/usr/made-by-a-test.txt", "content": "made\n"})),
    ];
    let words = [servers.npm("mcp-server-filesystem"), ".".into(), "/usr".into()];
    let home = with_server(&servers, &words, &calls, "");
    let found = outputs(at(&home));
    assert!(found[0].0 && found[0].1.contains("/work"), "{found:#?}");
    assert!(found[1].0 && found[1].1.contains("a note"), "{found:#?}");
    assert!(found[2].0 && read(at(&home), "made.txt") == "made\n", "{found:#?}");
    assert!(!found[3].0 && found[3].1.contains("EROFS"), "{found:#?}");
    assert!(!Path::new("/usr/made-by-a-test.txt").exists());
}

#[test]
fn everything_gives_every_kind_of_result() {
    let Some(servers) = installed() else { return };
    let calls = [
        ("one__echo", json!({"message": "hello"})),
        ("one__get-sum", json!({"a": 2, "b": 3})),
        ("one__get-tiny-image", json!({})),
        ("one__get-structured-content", json!({"location": "Chicago"})),
        ("one__get-resource-links", json!({"count": 2})),
        ("one__trigger-long-running-operation", json!({"duration": 1, "steps": 4})),
        ("resource_find", json!({"query": "features"})),
        ("resource_read", json!({"server": "one", "uri": "demo://resource/static/document/features.md"})),
    ];
    let home = with_server(&servers, &[servers.npm("mcp-server-everything")], &calls, "");
    let found = outputs(at(&home));
    let wanted = ["hello", "5", "[image/png, ", "conditions", "demo://", "completed", "features.md", "#"];
    for ((is_success, text), wanted) in found.iter().zip(wanted) {
        assert!(*is_success && text.contains(wanted), "{wanted}: {found:#?}");
    }
    assert_eq!(found.len(), wanted.len(), "{found:#?}");
    assert!(!found[2].1.contains("iVBOR"), "no Base64 goes to a model: {}", found[2].1);
    let (code, out, err) = run(at(&home), &["mcp", "prompt", "one", "args-prompt", "city=Paris"]);
    assert!(code == Some(0) && out.contains("Paris"), "{out}{err}");
}

#[test]
fn memory_remembers_and_sequential_thinking_counts() {
    let Some(servers) = installed() else { return };
    let entity = json!({"name": "Ada", "entityType": "person", "observations": ["writes programs"]});
    let calls =
        [("one__create_entities", json!({"entities": [entity]})), ("one__search_nodes", json!({"query": "programs"}))];
    // Its file needs another path: by default it is in the package, which the server can't write.
    let home = with_server(&servers, &[servers.npm("mcp-server-memory")], &calls, "");
    let config = at(&home).join(".config/reedclaw/config.lua");
    let file = at(&home).join("work/memory.jsonl");
    let text = fs::read_to_string(&config).expect("a config");
    let named = format!("env = {{ MEMORY_FILE_PATH = \"{}\" }}, start_ms", file.display());
    fs::write(&config, text.replace("start_ms", &named)).expect("a config");
    allow(at(&home));
    let found = outputs(at(&home));
    assert!(found.iter().all(|(is_success, text)| *is_success && text.contains("Ada")), "{found:#?}");
    assert!(read(at(&home), "memory.jsonl").contains("Ada"));

    let thought = json!({"thought": "first", "thoughtNumber": 1, "totalThoughts": 2, "nextThoughtNeeded": true});
    let calls = [("one__sequentialthinking", thought)];
    let home = with_server(&servers, &[servers.npm("mcp-server-sequential-thinking")], &calls, "");
    let found = outputs(at(&home));
    assert!(found[0].0 && found[0].1.contains("thoughtHistoryLength"), "{found:#?}");
}

#[test]
fn git_time_and_fetch_work_as_far_as_they_may() {
    let Some(servers) = installed() else { return };
    let calls = [("one__git_log", json!({"repo_path": "."}))];
    let home = with_server(&servers, &[servers.python("mcp-server-git")], &calls, "");
    let work = at(&home).join("work");
    let git = |words: &[&str]| {
        let mut command = Command::new("git");
        command.args(["-c", "user.name=Ada", "-c", "user.email=ada@example.com"]).args(words).current_dir(&work);
        let output = command.env("HOME", at(&home)).output().expect("git runs");
        assert!(output.status.success(), "{output:?}");
    };
    git(&["init", "-q"]);
    git(&["commit", "-q", "--allow-empty", "-m", "the first commit"]);
    let found = outputs(at(&home));
    assert!(found[0].0 && found[0].1.contains("the first commit"), "{found:#?}");
    let receipts = fs::read_to_string(at(&home).join(".local/state/reedclaw/receipts.jsonl")).expect("receipts");
    assert!(receipts.contains("\"risk\":\"medium\"") && receipts.contains("\"approver\":\"pinned\""), "{receipts}");

    let calls = [
        ("one__get_current_time", json!({"timezone": "Etc/UTC"})),
        ("one__convert_time", json!({"source_timezone": "Etc/UTC", "time": "12:00", "target_timezone": "Asia/Tokyo"})),
    ];
    let home = with_server(&servers, &[servers.python("mcp-server-time")], &calls, "");
    let found = outputs(at(&home));
    assert!(found[0].0 && found[1].0 && found[1].1.contains("+9"), "{found:#?}");

    let calls = [("one__fetch", json!({"url": "https://example.com/"}))];
    let home = with_server(&servers, &[servers.python("mcp-server-fetch")], &calls, "");
    let found = outputs(at(&home));
    assert!(!found[0].0 && found[0].1.contains("mcp.servers.one.network = true"), "{found:#?}");
    let (_, _, err) = run(at(&home), &["mcp", "call", "one.fetch", r#"{"url": "https://example.com/"}"#]);
    assert!(err.contains("mcp.servers.one.network = true"), "{err}");

    let calls = [("one__fetch", json!({"url": web_page("<h1>Lemons</h1><p>They are sour.</p>")}))];
    let words = [servers.python("mcp-server-fetch"), "--allow-private-ips".into()];
    let home = with_server(&servers, &words, &calls, "network = true");
    let found = outputs(at(&home));
    assert!(found[0].0 && found[0].1.contains("They are sour."), "{found:#?}");
}

/// The address of the only page of a server on this machine.
fn web_page(body: &'static str) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("its address");
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut reader = BufReader::new(stream.expect("a request"));
            let mut lines = reader.by_ref().lines().map_while(Result::ok);
            let first = lines.next().unwrap_or_default();
            lines.take_while(|line| !line.is_empty()).for_each(drop);
            let (status, body) = if first.starts_with("GET /page ") { ("200 OK", body) } else { ("404 Not Found", "") };
            let length = body.len();
            let head = format!("HTTP/1.1 {status}\r\ncontent-type: text/html\r\ncontent-length: {length}");
            let answer = format!("{head}\r\nconnection: close\r\n\r\n{body}");
            reader.get_mut().write_all(answer.as_bytes()).expect("an answer");
        }
    });
    format!("http://{address}/page")
}

const FAST: &str = "
from fastmcp import FastMCP
mcp = FastMCP('fast')
@mcp.tool
def add(a: int, b: int) -> int:
    'Adds two numbers.'
    return a + b
mcp.run(show_banner=False)
";

const OFFICIAL: &str = "
from mcp.server import MCPServer
mcp = MCPServer('official')
@mcp.tool()
def add(a: int, b: int) -> int:
    'Adds two numbers.'
    return a + b
mcp.run()
";

#[test]
fn servers_of_both_python_libraries_add_in_both_versions() {
    let Some(servers) = installed() else { return };
    for text in [FAST, OFFICIAL] {
        let place = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a directory");
        let script = place.path().join("server.py");
        fs::write(&script, text).expect("a script");
        for era in ["2025-11-25", "2026-07-28"] {
            let words = [servers.python("python"), script.display().to_string()];
            let more = format!("era = \"{era}\", writable = {{ \"{}\" }}", place.path().display());
            let home = with_server(&servers, &words, &[("one__add", json!({"a": 2, "b": 3}))], &more);
            let found = outputs(at(&home));
            assert!(found[0].0 && found[0].1.contains('5'), "{era}: {found:#?}");
            let (_, out, _) = run(at(&home), &["mcp", "list"]);
            assert!(out.contains(era), "{out}");
        }
    }
}
