//! What a server says about logins, taken apart.

use ureq::http::HeaderValue;

use super::discover::origin;
use super::listen::fields;
use super::web::{checked, decoded, encoded};
use super::*;

fn challenge(text: &str) -> Challenge {
    let mut headers = HeaderMap::new();
    headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_str(text).expect("a header"));
    Challenge::of(401, &headers)
}

#[test]
fn a_challenge_is_read_in_every_form() {
    let whole = challenge(
        r#"Basic realm="x", Bearer error="insufficient_scope", scope="a b", resource_metadata="https://s/x""#,
    );
    assert_eq!(whole.scope.as_deref(), Some("a b"));
    assert_eq!(whole.metadata.as_deref(), Some("https://s/x"));
    assert!(whole.wants_scope());
    assert_eq!(challenge("bearer scope=a,error=x").scope.as_deref(), Some("a"));
    assert_eq!(challenge(r#"Bearer realm="say \"scope=b\"", scope="c""#).scope.as_deref(), Some("c"));
    for empty in ["Basic realm=x", "Bearer", "Bearer scope=\"", "=", "Bearer ="] {
        assert!(!challenge(empty).wants_scope(), "{empty}");
    }
}

#[test]
fn only_encrypted_addresses_are_requested_but_on_this_machine() {
    let (far, near) = ("https://mcp.example.com/mcp", "http://127.0.0.1:8000/mcp");
    assert!(checked("https://login.example.com/token", far).is_ok());
    assert!(checked("http://localhost:9000/token", near).is_ok());
    for (url, server) in [
        ("http://login.example.com/token", far),
        ("http://login.example.com/token", near),
        ("http://127.0.0.1/token", far),
        ("https://user@login.example.com/token", far),
        ("file:///etc/passwd", far),
        ("nonsense", far),
    ] {
        assert!(checked(url, server).is_err(), "{url} for {server}");
    }
    assert_eq!(origin("https://A.example.com:443/x"), Ok("https://a.example.com".into()));
}

#[test]
fn texts_survive_an_address() {
    let text = "a b+c/ü%&=";
    assert_eq!(decoded(&encoded(text)).as_deref(), Some(text));
    assert_eq!(decoded("%zz"), None);
    let found = fields("/callback?code=a%20b&state=x#y").expect("fields");
    assert_eq!(found, [("code".into(), "a b".into()), ("state".into(), "x".into())]);
    assert_eq!(fields("/favicon.ico"), None);
}
