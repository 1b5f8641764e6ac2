//! Sessions: a pairing code becomes a short access token and a cookie that renews it.

use std::time::Instant;

use axum::http::header;
use serde_json::json;

use crate::gateway::http::call::{Call, Reply};
use crate::gateway::http::problem::{Answered, Problem};
use crate::gateway::http::rates;
use crate::ledger::Paired;
use crate::proto::team::TeamRole;

/// The body of `POST /auth/pair`.
pub const PAIR: &str = r#"{"type": "object", "additionalProperties": false, "required": ["code"],
    "properties": {"code": {"type": "string", "minLength": 1, "maxLength": 64}}}"#;
/// The name of the cookie.
const COOKIE: &str = "reedclaw_refresh";

/// `POST /auth/pair`.
pub fn pair(call: &Call<'_>) -> Answered<Reply> {
    let bucket = "wrong codes";
    let now = Instant::now();
    if call.gateway.rates.is_empty(bucket, now) {
        return Err(Problem::rate_limited(rates::WRONG_CODES));
    }
    let code = call.text("code").unwrap_or_default();
    let plain: String = code.chars().filter(char::is_ascii_alphanumeric).map(|it| it.to_ascii_uppercase()).collect();
    let Some(paired) = call.gateway.ledger.accounts().pair(&plain)? else {
        call.gateway.rates.take(bucket.to_owned(), rates::WRONG_CODES, now);
        return Err(Problem::unknown("the code is wrong, was used before, or is older than five minutes"));
    };
    begun(call, &paired)
}

/// `POST /auth/refresh`: the cookie counts only from a page of this gateway, or from a program that sends no `Origin`; the
/// guard has checked that.
pub fn refresh(call: &Call<'_>) -> Answered<Reply> {
    let cookies = call.sent.headers.get_all(header::COOKIE).iter().filter_map(|value| value.to_str().ok());
    let secret = cookies.flat_map(|line| line.split(';')).find_map(|pair| {
        let (name, value) = pair.trim().split_once('=')?;
        (name == COOKIE).then(|| value.to_owned())
    });
    let renewed = match secret {
        Some(secret) => call.gateway.ledger.accounts().refresh(&secret)?,
        None => None,
    };
    let ended = || Problem::unknown("the session is over: sign in with a new code of reedclaw gateway pair");
    begun(call, &renewed.ok_or_else(ended)?)
}

/// `POST /auth/logout`.
pub fn log_out(call: &Call<'_>) -> Answered<Reply> {
    if let Some(holder) = &call.holder {
        call.gateway.ledger.accounts().log_out(holder)?;
    }
    Ok(Reply::empty().header("Set-Cookie", cookie(call, "", 0)))
}

/// `GET /auth/me`.
pub fn me(call: &Call<'_>) -> Answered<Reply> {
    let who = call.who()?;
    let memberships = json!([{"tenant": who.tenant, "role": who.role.word(), "mode": who.mode.word()}]);
    Ok(Reply::ok(json!({"user": who.user, "kind": who.kind.word(), "memberships": memberships})))
}

fn begun(call: &Call<'_>, paired: &Paired) -> Answered<Reply> {
    let accounts = call.gateway.ledger.accounts();
    let mode = accounts.mode(&paired.tenant)?.unwrap_or(call.gateway.mode);
    // A code for a higher role than the member's doesn't raise it, and the page shows the role that applies.
    let member = accounts.member(&paired.tenant, &paired.user)?;
    let role = TeamRole::of(&paired.role).zip(member).map_or(TeamRole::Viewer, |(code, member)| code.min(member));
    let memberships = json!([{"tenant": paired.tenant, "role": role.word(), "mode": mode.word()}]);
    let expires_in = crate::ledger::ACCESS_MS / 1_000;
    let body = json!({"access_token": paired.access_token, "expires_in": expires_in, "user": paired.user,
        "memberships": memberships});
    Ok(Reply::ok(body).header("Set-Cookie", cookie(call, &paired.refresh, crate::ledger::REFRESH_MS / 1_000)))
}

fn cookie(call: &Call<'_>, value: &str, seconds: i64) -> String {
    let secure = if call.is_encrypted() { "; Secure" } else { "" };
    format!("{COOKIE}={value}; HttpOnly; SameSite=Strict; Path=/auth; Max-Age={seconds}{secure}")
}
