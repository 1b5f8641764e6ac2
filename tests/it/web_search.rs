//! `web_search` against a server of the test: the request, the result, and the message without a service.

use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::thread::JoinHandle;

use serde_json::{Value, json};

use crate::home::{TestHome, command};
use crate::server::{Server, answer};

/// Answers one request with a body; returns the request.
fn serve(body: &'static str) -> (u16, JoinHandle<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("its address").port();
    let served = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().expect("a request");
        let mut request = Vec::new();
        let mut piece = [0; 4096];
        while !request.windows(4).any(|it| it == b"\r\n\r\n") {
            let count = stream.read(&mut piece).expect("a request");
            request.extend_from_slice(&piece[..count]);
        }
        let head =
            format!("HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n", body.len());
        stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(body.as_bytes())).expect("an answer");
        String::from_utf8_lossy(&request).into_owned()
    });
    (port, served)
}

/// The result of a search by the executable, with these settings for tools.
fn search(tools: &str, key: &str) -> Value {
    let call = json!({"tool_call": {"name": "web_search", "arguments": {"query": "lemon & salt"}}});
    let script = json!({"when": "find", "rounds": [[call], [{"text": "done"}]]});
    let rest = format!("tools = {{{tools}}}, security = {{allow_domains = {{\"127.0.0.1\"}}}}");
    let home = TestHome::for_commands().plays_alone(&[script], &rest).done();
    let mut agent = command(home.path(), &["agent", "--json", "-m", "find it"]);
    let out = agent.env("BRAVE_API_KEY", key).output().expect("it runs");
    let text = String::from_utf8_lossy(&out.stdout).into_owned();
    let mut lines = text.lines().map(|line| serde_json::from_str::<Value>(line).expect("JSON"));
    let done = lines.find(|line| matches!(line["event"].as_str(), Some("tool_done" | "tool_denied" | "tool_failed")));
    done.unwrap_or_else(|| panic!("{text}{}", String::from_utf8_lossy(&out.stderr)))
}

#[test]
fn results_come_as_untrusted_text_from_the_chosen_service_alone() {
    let body = r#"{"results": [{"title": "Lemons\u001b[31m\u202e", "url": "https://a.example/x", "content": "<b>sour</b>\u200b"},
        {"title": "bad", "url": "javascript:alert(1)", "content": ""}]}"#;
    let (port, served) = serve(body);
    let done = search(&format!("search = \"searxng\", search_url = \"http://127.0.0.1:{port}\""), "").to_string();
    assert!(served.join().expect("a request").starts_with("GET /search?format=json&q=lemon%20%26%20salt HTTP/1.1"));
    assert!(
        done.contains("strangers' words") && done.contains("https://a.example/x") && done.contains("sour"),
        "{done}"
    );
    assert!(!done.contains("\\u001b") && !done.contains('\u{202e}') && !done.contains("javascript"), "{done}");

    let (port, served) = serve(r#"{"web": {"results": []}}"#);
    let done = search(&format!("search = \"brave\", search_url = \"http://127.0.0.1:{port}/s\""), "bk-1").to_string();
    let request = served.join().expect("a request").to_lowercase();
    assert!(request.starts_with("get /s?count=5&q=") && request.contains("x-subscription-token: bk-1"), "{request}");
    assert!(done.contains("nothing was found") && !done.contains("bk-1"), "{done}");
}

#[test]
fn without_a_service_or_its_key_the_search_reports_it() {
    let done = search("search = \"off\"", "").to_string();
    assert!(done.contains("no web search is set up"), "{done}");
    let done = search("search = \"brave\"", "").to_string();
    assert!(done.contains("BRAVE_API_KEY isn't set"), "{done}");
}

#[test]
fn a_model_on_this_machine_is_offered_the_search_that_was_chosen() {
    let chosen = "tools = {search = \"searxng\", search_url = \"http://127.0.0.1:9\"}";
    for (tools, is_offered) in [(chosen, true), ("tools = {search = \"off\"}", false)] {
        let server = Server::start();
        server.reply(answer("yes"));
        let home = TestHome::for_commands().asks(&server, "m", "", tools).done();
        let out = command(home.path(), &["agent", "-m", "find it"]).output().expect("it runs");
        assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
        assert_eq!(server.request(1).body["tools"].to_string().contains("web_search"), is_offered, "{tools}");
    }
}
