//! The checks before a route's handler: who may call it, and its input.

use std::sync::Arc;
use std::time::Instant;

use axum::http::header;

use super::call::{Call, Reply, Sent};
use super::inputs;
use super::problem::{Answered, Problem};
use super::rates;
use super::rates::Rate;
use super::route::Needs;
use crate::gateway::Gateway;
use crate::gateway::identity;
use crate::ledger::{Caller, Who};
use crate::proto::team::{Identity, TeamRole, TokenKind};

/// The user of this machine, as `reedclaw gateway pair` names them, too.
const OWN_USER: &str = "me";

/// Returns whether a path takes bodies of other types than JSON: files of canvases and frames of shared sessions do.
#[must_use]
pub fn is_raw(path: &str) -> bool {
    let parts: Vec<&str> = path.split('/').collect();
    matches!(parts[..], ["", "canvas", _, "artifacts"] | ["", "shares", _, "frames"])
}

/// Answers a request on a thread of a pool: sender, rights, limits, query, body, handler.
///
/// # Errors
/// Any of these steps refuses the request.
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
    // No name holds U+0000, and PostgreSQL doesn't compare with it.
    if sent.params.as_ref().is_none_or(|params| params.values().any(|value| value.contains('\0'))) {
        return Err(Problem::not_found());
    }
    let query = inputs::query(&sent.query, route.query)?;
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

/// Returns the secret in a request's header.
#[must_use]
pub fn secret(sent: &Sent) -> Option<&str> {
    let mut values = sent.headers.get_all(header::AUTHORIZATION).iter();
    let value = values.next()?.to_str().ok()?;
    let secret = value.strip_prefix("Bearer ").or_else(|| value.strip_prefix("bearer "))?;
    values.next().is_none().then_some(secret)
}

/// Identifies the caller and checks their rights.
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
    // A tenant that doesn't exist and one without this member get the same answer.
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
    // The tenant needs this path to repair its routes.
    if sent.route.path != "/routing/routes" {
        gateway.check_served(&ids.tenant)?;
    }
    let now = Instant::now();
    // The user's limit comes first: a request that it refuses doesn't count for the tenant.
    let limits = gateway.parts.settings.gateway.limits;
    let of_user = Rate::of(limits.user_requests, rates::USER_BURST);
    let of_tenant = Rate::of(limits.tenant_requests, rates::TENANT_BURST);
    for (bucket, rate) in
        [(format!("user {} {}", ids.tenant, holder.user), of_user), (format!("tenant {}", ids.tenant), of_tenant)]
    {
        if !gateway.rates.take(bucket, rate, now) {
            if let Some(secret) = secret(sent) {
                gateway.rates.refuse(secret, rate, now);
            }
            return Err(Problem::rate_limited(rate));
        }
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
        span: ids.span,
        lease: None,
    };
    Ok((Some(holder), Some(identity)))
}

/// Allows this machine, and from other machines a service with a token. A request that a proxy forwarded isn't from this machine.
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

/// Returns whether a process of the gateway's own user asks, by the Unix socket and without a token.
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
        return Ok(Caller { member: Some(holder.role), mode: gateway.ledger.accounts().mode(tenant)?, holder });
    }
    let found = match secret(sent) {
        Some(secret) => gateway.callers.find(secret, tenant)?,
        None => None,
    };
    found.ok_or_else(|| {
        let bucket = rates::wrong_secrets_of(sent.address);
        match gateway.rates.take(bucket, rates::WRONG_SECRETS, Instant::now()) {
            true => Problem::unauthenticated(),
            false => Problem::rate_limited(rates::WRONG_SECRETS),
        }
    })
}
