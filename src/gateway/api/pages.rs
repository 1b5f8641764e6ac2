//! The console's files over HTTP, with the policy that blocks foreign scripts.

use crate::gateway::http::call::{Call, Content, Reply};
use crate::gateway::http::problem::{Answered, Problem};
use crate::web;

/// The content security policy of the console.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob:; connect-src 'self'; \
                      frame-src 'self'; form-action 'none'; base-uri 'none'; frame-ancestors 'none'; \
                      require-trusted-types-for 'script'; trusted-types reedclaw";

/// The policy of the frame in which a session's screen is drawn: two scripts of ours, no network. Its styles come from its script.
fn frame_policy(call: &Call<'_>) -> String {
    // It was compared with the names of this gateway.
    let scheme = if call.is_encrypted() { "https" } else { "http" };
    let own = format!("{scheme}://{}", call.header("host").unwrap_or_default());
    format!(
        "default-src 'none'; script-src {own}; style-src {own} 'unsafe-inline'; connect-src 'none'; \
         form-action 'none'; base-uri 'none'; frame-ancestors 'self'"
    )
}

/// `GET /`: leads to the console.
pub fn root(_: &Call<'_>) -> Answered<Reply> {
    Ok(Reply { status: 302, headers: vec![("Location", "/ui/".to_owned())], content: Content::Empty })
}

/// `GET /ui/…`: a file. It contains no user's data, so it needs no token.
pub fn file(call: &Call<'_>) -> Answered<Reply> {
    let file = web::file(call.param("path")).ok_or_else(Problem::not_found)?;
    let tag = format!("\"{}\"", &file.hash()[..32]);
    let is_of_frame = file.path.starts_with("terminal/") || file.path.starts_with("vendor/xterm");
    let policy = if is_of_frame { frame_policy(call) } else { POLICY.to_owned() };
    // The frame has an opaque origin, which counts as another one.
    let resource = if is_of_frame { "cross-origin" } else { "same-origin" };
    let headers = vec![
        ("ETag", tag.clone()),
        // Files have no version in their names: each load asks whether they have changed.
        ("Cache-Control", "no-cache".to_owned()),
        ("Content-Security-Policy", policy),
        ("Referrer-Policy", "no-referrer".to_owned()),
        ("Cross-Origin-Opener-Policy", "same-origin".to_owned()),
        ("Cross-Origin-Resource-Policy", resource.to_owned()),
    ];
    if call.has_version(&tag) {
        return Ok(Reply { status: 304, headers, content: Content::Empty });
    }
    Ok(Reply { status: 200, headers, content: Content::Bytes(file.kind, file.bytes) })
}
