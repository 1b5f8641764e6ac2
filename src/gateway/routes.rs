//! The table of routes: the router, the checks before a handler, and the OpenAPI document are made from it.

use std::sync::Arc;
use std::time::Instant;

use axum::http::{Method, header};

use super::call::{self, Call, Reply, Sent};
use super::identity;
use super::problem::{Answered, Problem};
use super::{
    Gateway, actions, admin, auth, canvas, events, hooks, local, pages, questions, rates, runs, safety, stores,
};
use crate::ledger::Who;
use crate::proto::team::{Identity, TeamRole, TokenKind};

/// Bytes of a JSON body.
pub const JSON_BYTES_MAX: usize = 1024 * 1024;

/// Who may call a route.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Needs {
    /// Anybody.
    Nothing,
    /// A token; the role is the least one.
    Role(TeamRole),
    /// A token that is a person's.
    Person(TeamRole),
}

/// A route.
pub struct Route {
    /// The method.
    method: &'static str,
    /// The pattern of the path.
    pub path: &'static str,
    /// Who may call it.
    pub needs: Needs,
    /// The names that its query may have.
    pub query: &'static [&'static str],
    /// The JSON Schema of its body; none if it takes no body.
    pub body: Option<&'static str>,
    /// The statuses of its answers that aren't errors.
    pub statuses: &'static [u16],
    /// Bytes of its body.
    pub bytes_max: usize,
    /// The summary, for the OpenAPI document.
    pub summary: &'static str,
    handler: fn(&Call<'_>) -> Answered<Reply>,
}

impl Route {
    /// The method.
    #[must_use]
    pub fn method(&self) -> Method {
        Method::from_bytes(self.method.as_bytes()).unwrap_or(Method::GET)
    }
}

const fn get(
    path: &'static str,
    needs: Needs,
    query: &'static [&'static str],
    summary: &'static str,
    handler: fn(&Call<'_>) -> Answered<Reply>,
) -> Route {
    let (method, body, statuses, bytes_max) = ("GET", None, &[200_u16] as &[u16], 0);
    Route { method, path, needs, query, body, statuses, bytes_max, summary, handler }
}

const fn write(
    method: &'static str,
    path: &'static str,
    needs: Needs,
    body: &'static str,
    statuses: &'static [u16],
    summary: &'static str,
    handler: fn(&Call<'_>) -> Answered<Reply>,
) -> Route {
    let (query, bytes_max) = (&[] as &[&str], JSON_BYTES_MAX);
    Route { method, path, needs, query, body: Some(body), statuses, bytes_max, summary, handler }
}

const fn delete(
    path: &'static str,
    needs: Needs,
    query: &'static [&'static str],
    summary: &'static str,
    handler: fn(&Call<'_>) -> Answered<Reply>,
) -> Route {
    Route { method: "DELETE", statuses: &[204], ..get(path, needs, query, summary, handler) }
}

const ADMIN: Needs = Needs::Role(TeamRole::Admin);
const ADMIN_ACTS: Needs = Needs::Person(TeamRole::Admin);
const VIEWER: Needs = Needs::Role(TeamRole::Viewer);
const MEMBER: Needs = Needs::Role(TeamRole::Member);
const APPROVER_READS: Needs = Needs::Role(TeamRole::Approver);
const APPROVER: Needs = Needs::Person(TeamRole::Approver);
const OPERATOR: Needs = Needs::Person(TeamRole::Operator);

/// The routes.
pub static ROUTES: &[Route] = &[
    Route { statuses: &[302], ..get("/", Needs::Nothing, &[], "Leads to the console", pages::root) },
    Route { statuses: &[200, 304], ..get("/ui/", Needs::Nothing, &[], "The console", pages::file) },
    Route { statuses: &[200, 304], ..get("/ui/{*path}", Needs::Nothing, &[], "A file of the console", pages::file) },
    get("/health", Needs::Nothing, &[], "Says whether the gateway works, in one word", local::health),
    get("/status", VIEWER, &[], "The state of the gateway", local::status),
    get("/metrics", Needs::Nothing, &[], "Counters for Prometheus", local::metrics),
    get("/tools", VIEWER, &[], "The tools that an action can name", local::tools),
    get("/memory/search", VIEWER, &["q", "limit"], "Searches earlier conversations of this machine", local::search),
    get("/receipts", VIEWER, &["after", "limit", "tool", "status"], "The receipts of this machine", local::receipts),
    write("POST", "/auth/pair", Needs::Nothing, auth::PAIR, &[200], "Begins a session by a pairing code", auth::pair),
    write("POST", "/auth/refresh", Needs::Nothing, NOTHING, &[200], "Renews a session by its cookie", auth::refresh),
    write("POST", "/auth/logout", VIEWER, NOTHING, &[204], "Ends the session of the token", auth::log_out),
    get("/auth/me", VIEWER, &[], "The holder of the token", auth::me),
    write("POST", "/events/append", MEMBER, events::APPEND, &[200, 201], "Appends events to the log", events::append),
    get(
        "/events/list",
        VIEWER,
        &["type", "source", "run_id", "stream", "after", "before", "from", "to", "limit", "cursor"],
        "Events of the log, oldest first",
        events::list,
    ),
    get("/events/replay", VIEWER, &["run_id", "after", "limit", "cursor"], "The events of a run", events::replay),
    get(
        "/realtime/timeline/{stream_id}/list",
        VIEWER,
        &["after", "limit", "cursor"],
        "The events of a stream",
        events::timeline,
    ),
    write(
        "POST",
        "/realtime/timeline/{stream_id}/append",
        MEMBER,
        events::TIMELINE,
        &[200, 201],
        "Appends an event to a stream",
        events::append_to,
    ),
    get("/sse/timeline/{stream_id}", VIEWER, &["last_event_id"], "The events of a stream as they come", events::stream),
    write("POST", "/memory", MEMBER, stores::REMEMBER, &[200, 201], "Remembers a value", stores::remember),
    get("/memory", VIEWER, &["scope", "key", "prefix", "limit"], "Remembered values", stores::memories),
    delete("/memory", MEMBER, &["scope", "key"], "Forgets a value", stores::forget),
    get(
        "/blackboard/{run_id}/entries",
        VIEWER,
        &["prefix", "limit"],
        "The entries of a run's blackboard",
        stores::entries,
    ),
    get("/blackboard/{run_id}/entries/{key}", VIEWER, &[], "An entry of a run's blackboard", stores::entry),
    write(
        "PUT",
        "/blackboard/{run_id}/entries/{key}",
        MEMBER,
        stores::PUT,
        &[200, 201],
        "Puts an entry on a run's blackboard",
        stores::put,
    ),
    write("POST", "/actions/execute", MEMBER, actions::EXECUTE, &[200, 202], "Runs a tool", actions::execute),
    write("POST", "/chat", MEMBER, runs::CHAT, &[200, 202], "Asks the model a question", runs::chat),
    Route {
        bytes_max: hooks::BYTES_MAX,
        ..write(
            "POST",
            "/hooks/{name}",
            Needs::Nothing,
            hooks::ANY,
            &[202],
            "Starts a run by a signed request",
            hooks::receive,
        )
    },
    get("/runs", VIEWER, &["limit"], "Runs of the agent, the newest first", runs::list),
    get("/runs/{run_id}", VIEWER, &[], "A run of the agent", runs::get),
    write("POST", "/runs/{run_id}/cancel", MEMBER, NOTHING, &[200], "Stops a run", runs::cancel),
    get("/sse/runs/{run_id}", VIEWER, &["last_event_id"], "The events of a run as they come", runs::live),
    get("/sse/tenant", VIEWER, &["topics", "last_event_id"], "Several streams in one connection", events::tenant),
    get("/admin/members", ADMIN, &[], "The members of the tenant", admin::members),
    write("POST", "/admin/members", ADMIN_ACTS, admin::MEMBER, &[200], "Gives a user a role", admin::set_member),
    delete("/admin/members", ADMIN_ACTS, &["user"], "Ends a membership", admin::remove_member),
    get("/admin/tokens", ADMIN, &[], "Tokens, without secrets", admin::tokens),
    delete("/admin/tokens", ADMIN_ACTS, &["id"], "Revokes a token", admin::revoke_token),
    get("/questions", APPROVER_READS, &["state", "limit"], "Questions to persons", questions::list),
    get("/questions/{question_id}", VIEWER, &[], "A question and what became of its call", questions::get),
    write(
        "POST",
        "/questions/{question_id}/answer",
        APPROVER,
        questions::ANSWER,
        &[200],
        "Answers a question, once",
        questions::answer,
    ),
    get("/sse/inbox", APPROVER_READS, &["last_event_id"], "Questions as they come", questions::inbox),
    write("POST", "/canvas/{canvas_id}/commands", MEMBER, canvas::COMMAND, &[200], "Changes a canvas", canvas::command),
    get("/canvas/{canvas_id}/snapshot", VIEWER, &[], "A canvas as it is", canvas::snapshot),
    get("/canvas/{canvas_id}/replay", VIEWER, &["after_event_id"], "The commits of a canvas", canvas::replay),
    get(
        "/sse/canvas/{canvas_id}",
        VIEWER,
        &["last_event_id"],
        "A canvas's commits and decisions as they come",
        canvas::live,
    ),
    write("POST", "/firearms/licences", OPERATOR, safety::LICENCE, &[201], "Issues a licence", safety::issue),
    get("/firearms/licences", VIEWER, &["active"], "Licences for dangerous actions", safety::licences),
    write("POST", "/firearms/{id}/revoke", OPERATOR, safety::REASON, &[200], "Revokes a licence", safety::revoke),
    write("POST", "/strategy-locks", MEMBER, safety::LOCK, &[201], "Makes a strategy lock", safety::add_lock),
    get("/strategy-locks", VIEWER, &["state", "surface_id"], "Strategy locks", safety::locks),
    write(
        "PATCH",
        "/strategy-locks/{id}",
        MEMBER,
        safety::LOCK,
        &[200],
        "Changes a strategy lock",
        safety::change_lock,
    ),
    write(
        "POST",
        "/strategy-locks/{id}/approve",
        APPROVER,
        NOTHING,
        &[200],
        "Approves a strategy lock",
        safety::approve,
    ),
    write("POST", "/strategy-locks/{id}/reject", APPROVER, NOTHING, &[200], "Rejects a strategy lock", safety::reject),
    write("POST", "/budget/usage", MEMBER, safety::USAGE, &[200, 201], "Notes what a model's call cost", safety::usage),
    get("/budget", VIEWER, &[], "The limits and how much is used", safety::budget),
    write(
        "POST",
        "/estop",
        MEMBER,
        local::ESTOP,
        &[200],
        "Stops all tools of this machine, a tenant, a project, or one action",
        local::estop,
    ),
];

/// A body with nothing in it.
pub const NOTHING: &str = r#"{"type": "object", "additionalProperties": false}"#;

/// Whether a path takes bodies of other types than JSON; no route does yet.
#[must_use]
pub fn is_raw(_path: &str) -> bool {
    false
}

/// Answers a request on a thread of a pool: sender, rights, limits, query, body, handler.
///
/// # Errors
/// Whatever of these refuses it.
pub fn answer(gateway: &Arc<Gateway>, sent: &Sent) -> Answered<Reply> {
    let route = sent.route;
    let (holder, identity) = match route.needs {
        Needs::Nothing => (None, None),
        Needs::Role(role) => known(gateway, sent, role, false)?,
        Needs::Person(role) => known(gateway, sent, role, true)?,
    };
    let query = call::query(&sent.query, route.query)?;
    let body = match route.body {
        Some(schema) => call::body(&sent.body, schema)?,
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
    let holder = holder(gateway, sent)?;
    let ids = identity::ids(&sent.headers, gateway.mode)?;
    if ids.user.as_ref().is_some_and(|user| *user != holder.user) {
        return Err(actor_mismatch());
    }
    // A tenant that doesn't exist and one of others give the same answer.
    let not_a_member = || Problem::new(403, "not_a_member", "the token's user isn't a member of this tenant");
    if ids.tenant != holder.tenant {
        return Err(not_a_member());
    }
    let role = gateway.ledger.member(&ids.tenant, &holder.user)?.ok_or_else(not_a_member)?.min(holder.role);
    if gateway.ledger.mode(&ids.tenant)? != Some(ids.mode) {
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
    let may_ask = gateway.rates.take(format!("user {} {}", ids.tenant, holder.user), rates::USER, now)
        && gateway.rates.take(format!("tenant {}", ids.tenant), rates::TENANT, now);
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

/// The holder of the request's token. Wrong secrets are counted by address; right ones pass all the same.
fn holder(gateway: &Gateway, sent: &Sent) -> Answered<Who> {
    let found = match secret(sent) {
        Some(secret) => gateway.ledger.authenticate(secret)?,
        None => None,
    };
    let Some(holder) = found else {
        let bucket = format!("wrong {}", sent.address.ip());
        return Err(match gateway.rates.take(bucket, rates::WRONG_SECRETS, Instant::now()) {
            true => Problem::unauthenticated(),
            false => Problem::rate_limited(),
        });
    };
    Ok(holder)
}
