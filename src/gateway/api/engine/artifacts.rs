//! Files of canvases and reports of audits over HTTP. A file is sent as raw bytes, and is only ever returned as a download.

use serde_json::{Value, json};

use super::canvas::canvas_id;
use crate::gateway::http::call::{Call, Content, Reply};
use crate::gateway::http::problem::{Answered, Problem};
use crate::gateway::runs::chained;
use crate::ledger::{Artifact, LedgerError, Subject};

/// Bytes of a file.
pub const BYTES_MAX: usize = 32 * 1024 * 1024;
/// Characters of a file's name.
const NAME_CHARS_MAX: usize = 200;
/// Types that a file may have, each with its first bytes. Types that a browser executes are not allowed.
pub const TYPES: &[(&str, &[u8])] = &[
    ("application/json", b""),
    ("application/octet-stream", b""),
    ("application/pdf", b"%PDF-"),
    ("image/jpeg", b"\xff\xd8\xff"),
    ("image/png", b"\x89PNG\r\n\x1a\n"),
    ("image/webp", b"RIFF"),
    ("text/csv", b""),
    ("text/markdown", b""),
];
/// The names of the types.
pub const NAMES: [&str; TYPES.len()] = {
    let mut names = [""; TYPES.len()];
    let mut at = 0;
    while at < TYPES.len() {
        names[at] = TYPES[at].0;
        at += 1;
    }
    names
};
/// The body of `POST /canvas/{canvas_id}/audits`.
pub const AUDIT: &str = r#"{"type": "object", "additionalProperties": false, "required": ["kind", "report"], "properties": {
    "kind": {"type": "string", "minLength": 1, "maxLength": 128}, "report": {"type": "object"}}}"#;

/// Returns the declared type of a file if its content can have it.
fn kind(call: &Call<'_>) -> Answered<&'static str> {
    let unsupported = |message: String| Problem::new(415, "unsupported_media_type", message);
    let named = call.header("content-type").unwrap_or_default().trim().to_ascii_lowercase();
    let (kind, beginning) = TYPES
        .iter()
        .find(|(kind, _)| *kind == named)
        .ok_or_else(|| unsupported(format!("a file has one of the types {}", NAMES.join(", "))))?;
    if !call.sent.body.starts_with(beginning) {
        return Err(unsupported(format!("the content isn't of the type {kind}")));
    }
    Ok(kind)
}

/// Returns the name of a file: no path, and no character that could end the header in which it is returned.
fn name(call: &Call<'_>) -> Answered<String> {
    let name = call.header("x-artifact-name").unwrap_or("file").to_owned();
    let is_fine = |sign: char| (' '..='~').contains(&sign) && !matches!(sign, '/' | '\\' | '"' | ':' | ';' | '%');
    let is_name = (1..=NAME_CHARS_MAX).contains(&name.len()) && !name.starts_with('.') && name.chars().all(is_fine);
    if is_name && name.trim() == name {
        return Ok(name);
    }
    Err(Problem::body(format!(
        "X-Artifact-Name is a plain file name of {NAME_CHARS_MAX} ASCII characters at most, without a path"
    )))
}

/// `POST /canvas/{canvas_id}/artifacts`.
pub fn add(call: &Call<'_>) -> Answered<Reply> {
    let (who, id) = (call.who()?, canvas_id(call)?);
    call.gateway.ledger.artifacts().list(who, id)?;
    let (kind, name) = (kind(call)?, name(call)?);
    if call.sent.body.is_empty() {
        return Err(Problem::body("the file is empty"));
    }
    let subject = Subject { kind: "canvas".into(), id: id.to_owned() };
    chained::admit(call.gateway, who, "canvas_artifact", &subject)?;
    let added = call.gateway.ledger.artifacts().add(who, id, (&name, kind), &call.sent.body);
    let (artifact, is_new) = added.map_err(|error| match error {
        LedgerError::Invalid(why) => Problem::new(413, "too_large", why),
        other => other.into(),
    })?;
    Ok(Reply::json(if is_new { 201 } else { 200 }, artifact.to_value()))
}

/// `GET /canvas/{canvas_id}/artifacts`.
pub fn list(call: &Call<'_>) -> Answered<Reply> {
    let items = call.gateway.ledger.artifacts().list(call.who()?, canvas_id(call)?)?;
    let items: Vec<Value> = items.iter().map(Artifact::to_value).collect();
    Ok(Reply::ok(json!({"items": items, "next": null})))
}

/// `GET /canvas/{canvas_id}/artifacts/{artifact_id}`.
pub fn get(call: &Call<'_>) -> Answered<Reply> {
    let found = call.gateway.ledger.artifacts().get(call.who()?, canvas_id(call)?, call.param("artifact_id"));
    let (artifact, content) = found?;
    let kind =
        TYPES.iter().find(|(kind, _)| *kind == artifact.kind).map_or("application/octet-stream", |(kind, _)| kind);
    let headers = vec![
        ("Content-Disposition", format!("attachment; filename=\"{}\"", artifact.name)),
        ("Content-Security-Policy", "default-src 'none'; sandbox".to_owned()),
        ("ETag", format!("\"{}\"", artifact.sha256)),
    ];
    Ok(Reply { status: 200, headers, content: Content::Download(kind, content) })
}

/// `POST /canvas/{canvas_id}/audits`.
pub fn audit(call: &Call<'_>) -> Answered<Reply> {
    let (who, id) = (call.who()?, canvas_id(call)?);
    let kind = call.text("kind").unwrap_or_default();
    if !crate::gateway::identity::is_id(&kind) {
        return Err(Problem::body("kind must be one id of 1 to 128 of A–Z a–z 0–9 . _ : -"));
    }
    call.gateway.ledger.artifacts().list(who, id)?;
    let subject = Subject { kind: "canvas".into(), id: id.to_owned() };
    chained::admit(call.gateway, who, "canvas_audit", &subject)?;
    let event_id = call.gateway.ledger.artifacts().audit(who, id, &kind, &call.body["report"])?;
    Ok(Reply::json(201, json!({"event_id": event_id})))
}
