//! A route: who may call it, what it takes, and the checks in front of its handler.

use std::sync::Arc;
use std::time::Instant;

use axum::http::{Method, header};

use super::call::{self, Call, Reply, Sent};
use super::identity;
use super::problem::{Answered, Problem};
use super::rates::Rate;
use super::{Gateway, rates};
use crate::ledger::{Caller, Who};
use crate::proto::team::{Identity, TeamRole, TokenKind};

/// Bytes of a JSON body.
pub const JSON_BYTES_MAX: usize = 1024 * 1024;

/// The user of this machine, as `reedclaw gateway pair` names them, too.
const OWN_USER: &str = "me";

/// The right that a route needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Needs {
    /// Anybody.
    Nothing,
    /// A service's token, where others than this machine's user could ask.
    Service,
    /// A token; the role is the least one.
    Role(TeamRole),
    /// A token that is a person's.
    Person(TeamRole),
}

/// A route.
pub struct Route {
    /// The method.
    pub(super) method: &'static str,
    /// The pattern of the path.
    pub path: &'static str,
    /// The right that it needs.
    pub needs: Needs,
    /// The names that its query may have.
    pub query: &'static [&'static str],
    /// The JSON Schema of its body; none if it takes no body.
    pub body: Option<&'static str>,
    /// The statuses of its answers that aren't errors.
    pub statuses: &'static [u16],
    /// Bytes of its body.
    pub bytes_max: usize,
    /// The types that its body may have; none for JSON.
    pub raw: &'static [&'static str],
    /// The summary, for the OpenAPI document.
    pub summary: &'static str,
    pub(super) handler: fn(&Call<'_>) -> Answered<Reply>,
}

impl Route {
    /// The method.
    #[must_use]
    pub fn method(&self) -> Method {
        Method::from_bytes(self.method.as_bytes()).unwrap_or(Method::GET)
    }
}

/// A row for reading.
pub(super) const fn get(
    path: &'static str,
    needs: Needs,
    query: &'static [&'static str],
    summary: &'static str,
    handler: fn(&Call<'_>) -> Answered<Reply>,
) -> Route {
    let (method, body, statuses, bytes_max) = ("GET", None, &[200_u16] as &[u16], 0);
    Route { method, path, needs, query, body, statuses, bytes_max, raw: &[], summary, handler }
}

/// A row for a write with a JSON body.
pub(super) const fn write(
    method: &'static str,
    path: &'static str,
    needs: Needs,
    body: &'static str,
    statuses: &'static [u16],
    summary: &'static str,
    handler: fn(&Call<'_>) -> Answered<Reply>,
) -> Route {
    let (query, bytes_max) = (&[] as &[&str], JSON_BYTES_MAX);
    Route { method, path, needs, query, body: Some(body), statuses, bytes_max, raw: &[], summary, handler }
}

/// A row for a removal.
pub(super) const fn delete(
    path: &'static str,
    needs: Needs,
    query: &'static [&'static str],
    summary: &'static str,
    handler: fn(&Call<'_>) -> Answered<Reply>,
) -> Route {
    Route { method: "DELETE", statuses: &[204], ..get(path, needs, query, summary, handler) }
}

/// A body with nothing in it.
pub const NOTHING: &str = r#"{"type": "object", "additionalProperties": false}"#;

/// Whether a path takes bodies of other types than JSON: files of canvases and frames of shared sessions do.
#[must_use]
pub fn is_raw(path: &str) -> bool {
    let parts: Vec<&str> = path.split('/').collect();
    matches!(parts[..], ["", "canvas", _, "artifacts"] | ["", "shares", _, "frames"])
}

/// Answers a request on a thread of a pool: sender, rights, limits, query, body, handler.
///
/// # Errors
/// Whatever of these refuses it.
pub fn answer(gateway: &Arc<Gateway>, sent: &Sent) -> Answered<Reply> {
    let route = sent.route;
    let (holder, identity) = match route.needs {
        Needs::Nothing => (None, None),
        Needs::Service => {
            allow_service(gateway, sent)?;
            (None, None)
        }
        Needs::Role(role) => known(gateway, sent, role, false)?,
        Needs::Person(role) => known(gateway, sent, role, true)?,
    };
    // No name of anything has it, and PostgreSQL doesn't compare with it.
    if sent.params.values().any(|value| value.contains('\0')) {
        return Err(Problem::not_found());
    }
    let query = call::query(&sent.query, route.query)?;
    let body = match route.body {
        Some(schema) => gateway.schemas.body(&sent.body, schema)?,
        None => serde_json::Value::Null,
    };
    if let (Some(actor), Some(identity)) = (body["actor_id"].as_str(), &identity)
        && actor != identity.user
    {
        return Err(actor_mismatch());
    }
    (route.handler)(&Call { gateway, sent, holder, identity, body, query })
}

fn actor_mismatch() -> Problem {
    Problem::new(403, "actor_mismatch", "the actor is the token's user, and the request names another")
}

/// The secret that a request shows.
#[must_use]
pub fn secret(sent: &Sent) -> Option<&str> {
    let mut values = sent.headers.get_all(header::AUTHORIZATION).iter();
    let value = values.next()?.to_str().ok()?;
    let secret = value.strip_prefix("Bearer ").or_else(|| value.strip_prefix("bearer "))?;
    values.next().is_none().then_some(secret)
}

/// Finds out who asks and whether they may.
fn known(
    gateway: &Gateway,
    sent: &Sent,
    least: TeamRole,
    only_person: bool,
) -> Answered<(Option<Who>, Option<Identity>)> {
    let ids = identity::ids(&sent.headers, gateway.mode);
    let tenant = ids.as_ref().map_or("", |ids| ids.tenant.as_str());
    let Caller { holder, member, mode } = caller(gateway, sent, tenant)?;
    let ids = ids?;
    if ids.user.as_ref().is_some_and(|user| *user != holder.user) {
        return Err(actor_mismatch());
    }
    // A tenant that doesn't exist and one of others give the same answer.
    let not_a_member = || Problem::new(403, "not_a_member", "the token's user isn't a member of this tenant");
    if ids.tenant != holder.tenant {
        return Err(not_a_member());
    }
    let role = member.ok_or_else(not_a_member)?.min(holder.role);
    if mode != Some(ids.mode) {
        return Err(Problem::new(403, "mode_mismatch", "the tenant has another mode than X-Mode says"));
    }
    if role < least {
        let message = format!("this needs the role {}; yours is {}", least.word(), role.word());
        return Err(Problem::new(403, "forbidden", message));
    }
    if only_person && holder.kind != TokenKind::Person {
        return Err(Problem::new(403, "forbidden", "only a person's token may do this"));
    }
    let now = Instant::now();
    // The user first: what is refused there takes nothing from others of the tenant.
    let limits = gateway.parts.settings.gateway.limits;
    let of_user = Rate::of(limits.user_requests, rates::USER_BURST);
    let of_tenant = Rate::of(limits.tenant_requests, rates::TENANT_BURST);
    let may_ask = gateway.rates.take(format!("user {} {}", ids.tenant, holder.user), of_user, now)
        && gateway.rates.take(format!("tenant {}", ids.tenant), of_tenant, now);
    if !may_ask {
        return Err(Problem::rate_limited());
    }
    let identity = Identity {
        mode: ids.mode,
        tenant: ids.tenant,
        project: ids.project,
        user: holder.user.clone(),
        role,
        kind: holder.kind,
        request_id: sent.request_id.clone(),
        trace_id: ids.trace_id,
        run_id: ids.run_id,
        step_id: ids.step_id,
        surface_id: ids.surface_id,
        app_id: ids.app_id,
    };
    Ok((Some(holder), Some(identity)))
}

/// Allows this machine, and elsewhere a service with a token. A request that a proxy has passed on isn't this machine's.
fn allow_service(gateway: &Gateway, sent: &Sent) -> Answered<()> {
    let is_passed_on = ["x-forwarded-for", "forwarded", "via"].iter().any(|name| sent.headers.contains_key(*name));
    if sent.address.is_loopback() && !is_passed_on {
        return Ok(());
    }
    let Caller { holder, .. } = caller(gateway, sent, "")?;
    match holder.kind {
        TokenKind::Service => Ok(()),
        _ => Err(Problem::new(403, "forbidden", "only a service's token may do this")),
    }
}

/// Whether a process of the gateway's own user asks, by the Unix socket and without a token.
fn is_own(sent: &Sent) -> bool {
    sent.is_own && !sent.headers.contains_key(header::AUTHORIZATION)
}

/// The holder of the request's token, in the tenant that it names. Wrong secrets are counted by address; right ones pass all the
/// same.
fn caller(gateway: &Gateway, sent: &Sent, tenant: &str) -> Answered<Caller> {
    if is_own(sent) {
        let holder = Who {
            token_id: "socket".into(),
            kind: TokenKind::Person,
            user: OWN_USER.into(),
            tenant: "local".into(),
            role: TeamRole::Member,
        };
        return Ok(Caller { member: Some(holder.role), mode: gateway.ledger.mode(tenant)?, holder });
    }
    let found = match secret(sent) {
        Some(secret) => gateway.callers.find(secret, tenant)?,
        None => None,
    };
    found.ok_or_else(|| {
        let bucket = format!("wrong {}", sent.address);
        match gateway.rates.take(bucket, rates::WRONG_SECRETS, Instant::now()) {
            true => Problem::unauthenticated(),
            false => Problem::rate_limited(),
        }
    })
}
