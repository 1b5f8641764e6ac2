//! A gateway that other machines reach: its public name, the proxy in front of it, and the refusals without one.

use serde_json::json;

use super::{Answer, Gateway, home, home_with, is_on_server, run, spawn, token};
use crate::pty::{Session, status_code};

const SETTINGS: &str = "gateway = {public_url = \"https://team.example\", trusted_proxies = {\"127.0.0.1\"}}";
const HOST: (&str, &str) = ("Host", "team.example");

/// A pairing code, and the address for a browser that is printed with it.
fn pair(home: &std::path::Path) -> (String, String) {
    let session = Session::spawn(spawn(home, &["gateway", "pair"]));
    let (status, bytes) = session.expect_end();
    assert_eq!(status_code(status), 0);
    let text = String::from_utf8_lossy(&bytes).into_owned();
    let mut lines = text.lines().map(str::to_owned);
    let code = lines.next().expect("a code").chars().take(14).collect();
    (code, text)
}

#[test]
fn a_gateway_behind_a_proxy_answers_to_its_public_name() {
    let home = home_with(SETTINGS);
    let gateway = Gateway::start(home.path());
    let get = |path: &str, headers: &[(&str, &str)]| gateway.send("GET", path, headers, "");
    assert_eq!(get("/health", &[HOST]).status, 200);
    assert_eq!(get("/health", &[("Host", "TEAM.example")]).status, 200);
    assert_eq!(get("/health", &[("Host", "team.example:80")]).code(), "misdirected");
    assert_eq!(get("/health", &[HOST, ("Origin", "https://team.example")]).status, 200);
    for origin in ["http://team.example", "https://team.example.evil.example", "null"] {
        assert_eq!(get("/health", &[HOST, ("Origin", origin)]).code(), "origin_refused", "{origin}");
    }
    // Links use the public name, and the terminal's frame loads its scripts from the origin of the page.
    let (code, text) = pair(home.path());
    assert!(text.contains(&format!("https://team.example/ui/#pair={code}")) && text.contains("▀▀▀▀▀"), "{text}");
    let policy =
        |headers: &[(&str, &str)]| get("/ui/terminal/frame.html", headers).headers["content-security-policy"].clone();
    assert!(policy(&[HOST]).contains("script-src https://team.example;"), "{}", policy(&[HOST]));
    assert!(policy(&[]).contains(&format!("script-src http://{};", gateway.address)), "{}", policy(&[]));
    // The cookie is never sent over a network in plain text, and still works on the machine itself.
    let cookie = |headers: &[(&str, &str)]| {
        let body = json!({"code": pair(home.path()).0}).to_string();
        gateway.send("POST", "/auth/pair", headers, &body).headers["set-cookie"].clone()
    };
    assert!(cookie(&[HOST]).ends_with("; Secure"));
    assert!(!cookie(&[]).contains("Secure"));
}

#[test]
fn clients_behind_a_trusted_proxy_are_told_apart_by_their_own_addresses() {
    let guess = |gateway: &Gateway, from: &str| -> Answer {
        let headers = [HOST, ("Authorization", "Bearer rc_person_wrong"), ("X-Forwarded-For", from)];
        gateway.send("GET", "/status", &headers, "")
    };
    let home = home_with(SETTINGS);
    let gateway = Gateway::start(home.path());
    let guesses: Vec<u16> = (0..12).map(|_| guess(&gateway, "203.0.113.7").status).collect();
    assert!(guesses.starts_with(&[401]) && guesses.ends_with(&[429]), "{guesses:?}");
    assert_eq!(guess(&gateway, "203.0.113.7, 203.0.113.8").status, 401, "another client");
    assert_eq!(guess(&gateway, "203.0.113.8, 203.0.113.7").status, 429, "what a client makes up doesn't count");
    // Metrics are for this machine, and for services with a token.
    let metrics = |headers: &[(&str, &str)]| gateway.send("GET", "/metrics", headers, "");
    assert_eq!(metrics(&[]).status, 200);
    assert_eq!(metrics(&[HOST, ("X-Forwarded-For", "203.0.113.9")]).status, 401);
    let with_token = |kind: &str| {
        let bearer = format!("Bearer {}", token(home.path(), "prometheus", "viewer", &["--kind", kind]));
        metrics(&[HOST, ("X-Forwarded-For", "203.0.113.9"), ("Authorization", &bearer)]).status
    };
    assert_eq!((with_token("service"), with_token("person")), (200, 403));
    drop(gateway);
    // Without trust in the proxy all of its clients count as one.
    let home = home_with("gateway = {public_url = \"https://team.example\"}");
    let gateway = Gateway::start(home.path());
    let guesses: Vec<u16> = (0..12).map(|at| guess(&gateway, &format!("203.0.113.{at}")).status).collect();
    assert!(guesses.ends_with(&[429]), "{guesses:?}");
}

#[test]
fn a_gateway_for_other_machines_starts_only_behind_a_proxy_that_encrypts() {
    let home = home();
    let refused = |home: &std::path::Path, args: &[&str]| {
        let (status, out, err) = run(home, &[&["gateway"], args].concat());
        assert_eq!(status, Some(3), "{args:?}: {out}{err}");
        err
    };
    let why = refused(home.path(), &["--listen", "0.0.0.0:0"]);
    for part in ["other machines", "saas or enterprise", "behind_tls_proxy = true", "trusted_proxies"] {
        assert!(why.contains(part), "{part}: {why}");
    }
    let wrong = home_with("gateway = {public_url = \"http://team.example\", trusted_proxies = {\"10.0.0.0/33\"}}");
    let why = refused(wrong.path(), &["--listen", "127.0.0.1:0"]);
    assert!(why.contains("http://team.example") && why.contains("10.0.0.0/33"), "{why}");
    if is_on_server(home.path()) {
        let settings = "gateway = {mode = \"saas\", listen = \"0.0.0.0:0\", behind_tls_proxy = true, \
                        public_url = \"https://team.example\", trusted_proxies = {\"192.0.2.0/24\"}}";
        let home = home_with(settings);
        let gateway = Gateway::as_configured(home.path());
        assert_eq!(gateway.send("GET", "/health", &[HOST], "").status, 200, "from this machine");
    }
}
