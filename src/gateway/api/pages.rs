//! The console's files over HTTP, with the policy that keeps scripts of others out.

use axum::http::header;

use crate::base::hash;
use crate::gateway::call::{Call, Content, Reply};
use crate::gateway::problem::{Answered, Problem};
use crate::web;

/// The content security policy of the console.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob:; connect-src 'self'; \
                      frame-src 'self'; form-action 'none'; base-uri 'none'; frame-ancestors 'none'; \
                      require-trusted-types-for 'script'; trusted-types reedclaw";

/// `GET /`: leads to the console.
pub fn root(_: &Call<'_>) -> Answered<Reply> {
    Ok(Reply { status: 302, headers: vec![("Location", "/ui/".to_owned())], content: Content::Empty })
}

/// `GET /ui/…`: a file. It holds nothing of anybody's, so it needs no token.
pub fn file(call: &Call<'_>) -> Answered<Reply> {
    let file = web::file(call.param("path")).ok_or_else(Problem::not_found)?;
    let tag = format!("\"{}\"", &hash::sha256_hex(file.bytes)[..32]);
    let headers = vec![
        ("ETag", tag.clone()),
        // Files have no version in their names: each load asks whether they have changed.
        ("Cache-Control", "no-cache".to_owned()),
        ("Content-Security-Policy", POLICY.to_owned()),
        ("Referrer-Policy", "no-referrer".to_owned()),
        ("Cross-Origin-Opener-Policy", "same-origin".to_owned()),
        ("Cross-Origin-Resource-Policy", "same-origin".to_owned()),
    ];
    let is_known = call.sent.headers.get(header::IF_NONE_MATCH).is_some_and(|known| known.as_bytes() == tag.as_bytes());
    if is_known {
        return Ok(Reply { status: 304, headers, content: Content::Empty });
    }
    Ok(Reply { status: 200, headers, content: Content::Bytes(file.kind, file.bytes) })
}
