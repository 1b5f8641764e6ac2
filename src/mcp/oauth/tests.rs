//! Parsing of a server's answers about logins.

use ureq::http::HeaderValue;

use super::discover::origin;
use super::listen::fields;
use super::web::checked;
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
    let found = fields("/callback?code=a%20b&state=x#y").expect("fields");
    assert_eq!(found, [("code".into(), "a b".into()), ("state".into(), "x".into())]);
    assert_eq!(fields("/favicon.ico"), None);
}

/// Texts of servers, bent at random from a fixed seed: nothing panics.
#[test]
fn bent_texts_are_read_or_refused() {
    let seeds = [
        r#"Basic realm="x", Bearer error="insufficient_scope", scope="a b", resource_metadata="https://s/x""#,
        "https://user@login.example.com:8443/token?a=%41&b=é#x",
        "/callback?code=a%20b&state=%c3%a9&iss=https%3A%2F%2Fs",
        "http://[::1]:80/.well-known/oauth-authorization-server",
    ];
    let mut random = 0x9e37_79b9_7f4a_7c15_u64;
    let mut next = |below: usize| {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(random >> 33).unwrap_or(0) % below
    };
    for round in 0..20_000 {
        let mut bytes = seeds[round % seeds.len()].as_bytes().to_vec();
        for _ in 0..=next(6) {
            let at = next(bytes.len());
            match next(4) {
                0 => bytes[at] = u8::try_from(next(256)).unwrap_or(0),
                1 => drop(bytes.remove(at)),
                2 => bytes.insert(at, b"\"\\%=,:/ \xc3"[next(9)]),
                _ => bytes.truncate(at.max(1)),
            }
            if bytes.is_empty() {
                bytes.push(b'x');
            }
        }
        if let Ok(value) = HeaderValue::from_bytes(&bytes) {
            let mut headers = HeaderMap::new();
            headers.insert(header::WWW_AUTHENTICATE, value);
            let _ = Challenge::of(401, &headers).wants_scope();
        }
        let text = String::from_utf8_lossy(&bytes);
        let _ = (fields(&text), origin(&text).is_ok(), is_this_machine(&text));
        let _ = checked(&text, "https://mcp.example.com/mcp");
    }
}
