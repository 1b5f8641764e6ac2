//! Members, tokens, flags and the log of a tenant over HTTP. A token's secret is made at a terminal only: a stolen session can
//! make none.

use serde_json::{Value, json};

use crate::gateway::http::call::{Call, Content, Reply};
use crate::gateway::http::inputs::time_ms;
use crate::gateway::http::problem::{Answered, Problem};
use crate::gateway::identity::is_id;
use crate::ledger::{LedgerError, Node, Put};
use crate::proto::team::{Mode, TeamRole};

/// The body of `POST /admin/members`.
pub const MEMBER: &str = r#"{"type": "object", "additionalProperties": false, "required": ["user", "role"], "properties": {
    "user": {"type": "string", "minLength": 1, "maxLength": 128},
    "role": {"enum": ["viewer", "member", "approver", "operator", "admin"]}}}"#;

/// `GET /admin/members`.
pub fn members(call: &Call<'_>) -> Answered<Reply> {
    let members = call.gateway.ledger.accounts().members(&call.who()?.tenant)?;
    let items: Vec<Value> = members.iter().map(|(user, role)| json!({"user": user, "role": role})).collect();
    Ok(Reply::ok(json!({"items": items, "next": null})))
}

/// `POST /admin/members`.
pub fn set_member(call: &Call<'_>) -> Answered<Reply> {
    let (user, role) = (call.text("user").unwrap_or_default(), call.text("role").unwrap_or_default());
    if !is_id(&user) {
        return Err(Problem::body("user must be one id of 1 to 128 of A–Z a–z 0–9 . _ : -"));
    }
    let who = call.who()?;
    call.gateway.ledger.accounts().set_member(&who.tenant, Some(who), &user, TeamRole::of(&role))?;
    Ok(Reply::ok(json!({"user": user, "role": role})))
}

/// `DELETE /admin/members`: ends a membership, but not the caller's own, so that at least one member remains.
pub fn remove_member(call: &Call<'_>) -> Answered<Reply> {
    let who = call.who()?;
    let user = call.asked("user").ok_or_else(|| Problem::body("user is missing in the query"))?;
    if user == who.user {
        return Err(Problem::new(403, "forbidden", "another admin has to remove you"));
    }
    if call.gateway.ledger.accounts().member(&who.tenant, &user)?.is_none() {
        return Err(Problem::not_found());
    }
    call.gateway.ledger.accounts().set_member(&who.tenant, Some(who), &user, None)?;
    Ok(Reply::empty())
}

/// `GET /admin/tokens`: without their secrets, which aren't stored.
pub fn tokens(call: &Call<'_>) -> Answered<Reply> {
    let tenant = &call.who()?.tenant;
    let all = call.gateway.ledger.accounts().tokens()?;
    let items: Vec<Value> = all
        .iter()
        .filter(|token| token.tenant == *tenant)
        .map(|token| {
            json!({"id": token.id, "kind": token.kind, "user": token.user, "role": token.role, "state": token.state,
                "expires_at": token.expires_at})
        })
        .collect();
    Ok(Reply::ok(json!({"items": items, "next": null})))
}

/// `DELETE /admin/tokens`: revokes a token at once.
pub fn revoke_token(call: &Call<'_>) -> Answered<Reply> {
    let who = call.who()?;
    let id = call.asked("id").ok_or_else(|| Problem::body("id is missing in the query"))?;
    let is_here =
        call.gateway.ledger.accounts().tokens()?.iter().any(|token| token.id == id && token.tenant == who.tenant);
    if !is_here {
        return Err(Problem::not_found());
    }
    call.gateway.ledger.accounts().revoke_token(Some(who), &id)?;
    Ok(Reply::empty())
}

/// Flags of a tenant that an admin may set.
pub const FLAGS: [&str; 4] = ["canvas.gestures", "pii", "strategy_locks", "train_ok"];
/// The body of `POST /admin/flags`.
pub const FLAG: &str = r#"{"type": "object", "additionalProperties": false, "required": ["flag", "on"], "properties": {
    "flag": {"enum": ["canvas.gestures", "pii", "strategy_locks", "train_ok"]}, "on": {"type": "boolean"}}}"#;

/// `GET /admin/flags`.
pub fn flags(call: &Call<'_>) -> Answered<Reply> {
    let (who, ledger) = (call.who()?, &call.gateway.ledger);
    let mut items = Vec::new();
    for flag in FLAGS {
        let usual = flag == "canvas.gestures" || flag == "train_ok" && who.mode == Mode::Lab;
        items.push(json!({"flag": flag, "on": ledger.safety().flag(&who.tenant, flag)?, "usual": usual}));
    }
    Ok(Reply::ok(json!({"items": items, "next": null})))
}

/// `POST /admin/flags`.
pub fn set_flag(call: &Call<'_>) -> Answered<Reply> {
    let (who, flag, is_on) = (call.who()?, call.text("flag").unwrap_or_default(), call.body["on"] == true);
    call.gateway.ledger.safety().set_flag(&who.tenant, Some(who), &flag, is_on)?;
    Ok(Reply::ok(json!({"flag": flag, "on": is_on})))
}

/// `DELETE /admin/flags`: resets a flag of the tenant to its default.
pub fn forget_flag(call: &Call<'_>) -> Answered<Reply> {
    let flag = call.asked("flag").ok_or_else(|| Problem::body("flag is missing in the query"))?;
    let who = call.who()?;
    if !FLAGS.contains(&flag.as_str()) || call.gateway.ledger.safety().flag(&who.tenant, &flag)?.is_none() {
        return Err(Problem::not_found());
    }
    call.gateway.ledger.safety().forget_flag(&who.tenant, who, &flag)?;
    Ok(Reply::empty())
}

/// `GET /admin/nodes`: the processes that serve this database; with SQLite it is one. How busy another one is, only that one knows.
pub fn nodes(call: &Call<'_>) -> Answered<Reply> {
    let gateway = call.gateway;
    let now_ms = gateway.ledger.now_ms()?;
    let item = |node: &Node| {
        let since = node.started_at.as_deref().and_then(|at| time_ms("started_at", at).ok());
        let uptime_s = since.map(|since| (now_ms - since).max(0) / 1_000);
        let mut item = json!({"node_id": node.id, "address": node.address, "started_at": node.started_at,
            "uptime_s": uptime_s, "version": null, "streams": null, "queue": null});
        if node.id == gateway.node_id {
            item["version"] = env!("CARGO_PKG_VERSION").into();
            item["streams"] = gateway.streams.count().into();
            item["queue"] = gateway.work.waiting().into();
        }
        item
    };
    let items: Vec<Value> = gateway.ledger.nodes().list()?.iter().map(item).collect();
    Ok(Reply::ok(json!({"items": items, "next": null})))
}

/// Limit on an archive over HTTP, in bytes; the command has no limit.
const ARCHIVE_BYTES_MAX: usize = 64 * 1024 * 1024;
/// The body of `POST /admin/erasures`.
pub const ERASURE: &str = r#"{"type": "object", "additionalProperties": false, "required": ["user", "reason"], "properties": {
    "user": {"type": "string", "minLength": 1, "maxLength": 128},
    "reason": {"type": "string", "minLength": 1, "maxLength": 500}}}"#;

/// `GET /admin/log`: checks the tenant's log from its beginning.
pub fn log(call: &Call<'_>) -> Answered<Reply> {
    let value = match call.gateway.ledger.verify(&call.who()?.tenant)? {
        Ok(verified) => {
            json!({"whole": true, "events": verified.events, "head": verified.head, "erased": verified.erased,
            "broken": null})
        }
        Err(broken) => json!({"whole": false, "broken": {"position": broken.position, "why": broken.why}}),
    };
    Ok(Reply::ok(value))
}

/// `GET /admin/archive`: everything of the tenant, as lines that `reedclaw gateway verify --file` checks.
pub fn archive(call: &Call<'_>) -> Answered<Reply> {
    let mut bytes = Bounded(Vec::new());
    let who = call.who()?;
    let tenant = &who.tenant;
    let gateway = call.gateway;
    let more = |put: Put<'_>| gateway.homes.export(&gateway.parts, tenant, put);
    gateway.ledger.archive().export(tenant, Some(who), &mut bytes, &more).map_err(|error| match error {
        LedgerError::Invalid(_) => Problem::new(
            413,
            "too_large",
            format!("the archive is too large for HTTP: reedclaw gateway export {tenant} FILE"),
        ),
        other => other.into(),
    })?;
    let headers = vec![("Content-Disposition", format!("attachment; filename=\"{tenant}.ndjson\""))];
    Ok(Reply { status: 200, headers, content: Content::Download("application/x-ndjson", bytes.0) })
}

/// Bytes up to the limit of an archive.
struct Bounded(Vec<u8>);

impl std::io::Write for Bounded {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        if self.0.len() + bytes.len() > ARCHIVE_BYTES_MAX {
            return Err(std::io::ErrorKind::FileTooLarge.into());
        }
        self.0.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// `POST /admin/erasures`: erases everything that a person has written. The chain of the log stays valid.
pub fn erase(call: &Call<'_>) -> Answered<Reply> {
    let user = call.text("user").unwrap_or_default();
    if !is_id(&user) {
        return Err(Problem::body("user must be one id of 1 to 128 of A–Z a–z 0–9 . _ : -"));
    }
    let who = call.who()?;
    let gateway = call.gateway;
    // The questions in the database are needed to find the conversations, so they are erased last.
    let conversations = gateway.homes.erase(&gateway.parts, &gateway.ledger, &who.tenant, &user)?;
    let erased = gateway.ledger.archive().erase(&who.tenant, Some(who), &user)?;
    tracing::info!(event = "texts_erased", erased, conversations, request_id = call.sent.request_id.as_str());
    Ok(Reply::ok(json!({"user": user, "erased": erased, "conversations": conversations})))
}
