//! The table of routes: the router, the checks before a handler, and the OpenAPI document are made from it.

mod admin;
mod auth;
mod engine;
mod hooks;
mod local;
mod pages;
mod questions;
mod registry;
mod runs;
mod shares;

use engine::{actions, analytics, artifacts, canvas, events, routing, safety, stores};

use super::http::call::{Call, Reply};
use super::http::problem::Answered;
use super::http::route::{NOTHING, Needs, Route, delete, get, write};
use crate::proto::team::TeamRole;

const ADMIN: Needs = Needs::Role(TeamRole::Admin);
const ADMIN_ACTS: Needs = Needs::Person(TeamRole::Admin);
const VIEWER: Needs = Needs::Role(TeamRole::Viewer);
const MEMBER: Needs = Needs::Role(TeamRole::Member);
const APPROVER_READS: Needs = Needs::Role(TeamRole::Approver);
const APPROVER: Needs = Needs::Person(TeamRole::Approver);
const OPERATOR_READS: Needs = Needs::Role(TeamRole::Operator);
const OPERATOR: Needs = Needs::Person(TeamRole::Operator);

/// A row of the registry: a client may have the newest version already.
const fn card(path: &'static str, summary: &'static str, handler: fn(&Call<'_>) -> Answered<Reply>) -> Route {
    Route { statuses: &[200, 304], ..get(path, VIEWER, &[], summary, handler) }
}

/// The routes.
pub static ROUTES: &[Route] = &[
    Route { statuses: &[302], ..get("/", Needs::Nothing, &[], "Leads to the console", pages::root) },
    Route { statuses: &[200, 304], ..get("/ui/", Needs::Nothing, &[], "The console", pages::file) },
    Route { statuses: &[200, 304], ..get("/ui/{*path}", Needs::Nothing, &[], "A file of the console", pages::file) },
    get("/health", Needs::Nothing, &[], "Says whether the gateway works, in one word", local::health),
    get("/status", VIEWER, &[], "The state of the gateway", local::status),
    get("/metrics", Needs::Service, &[], "Counters for Prometheus", local::metrics),
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
    get("/memory", VIEWER, &["scope", "key", "prefix", "limit", "cursor"], "Remembered values", stores::memories),
    delete("/memory", MEMBER, &["scope", "key"], "Forgets a value", stores::forget),
    get(
        "/blackboard/{run_id}/entries",
        VIEWER,
        &["prefix", "limit", "cursor"],
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
    Route {
        query: &["run_id", "key"],
        ..write(
            "PUT",
            "/blackboard",
            MEMBER,
            stores::PUT,
            &[200, 201],
            "Puts an entry on a run's blackboard, in the second spelling",
            stores::put,
        )
    },
    get("/blackboard", VIEWER, &["run_id", "key"], "An entry, in the second spelling", stores::entry),
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
    get("/runs", VIEWER, &["limit", "cursor"], "Runs of the agent, the newest first", runs::list),
    get("/runs/{run_id}", VIEWER, &[], "A run of the agent", runs::get),
    write("POST", "/runs/{run_id}/cancel", MEMBER, NOTHING, &[200], "Stops a run", runs::cancel),
    get("/sse/runs/{run_id}", VIEWER, &["last_event_id"], "The events of a run as they come", runs::live),
    get("/sse/tenant", VIEWER, &["topics", "last_event_id"], "Several streams in one connection", events::tenant),
    get("/admin/members", ADMIN, &[], "The members of the tenant", admin::members),
    write("POST", "/admin/members", ADMIN_ACTS, admin::MEMBER, &[200], "Gives a user a role", admin::set_member),
    delete("/admin/members", ADMIN_ACTS, &["user"], "Ends a membership", admin::remove_member),
    get("/admin/tokens", ADMIN, &[], "Tokens, without secrets", admin::tokens),
    delete("/admin/tokens", ADMIN_ACTS, &["id"], "Revokes a token", admin::revoke_token),
    get("/admin/flags", ADMIN, &[], "The flags of the tenant", admin::flags),
    write("POST", "/admin/flags", ADMIN_ACTS, admin::FLAG, &[200], "Sets a flag of the tenant", admin::set_flag),
    delete(
        "/admin/flags",
        ADMIN_ACTS,
        &["flag"],
        "Takes a flag of the tenant back to its usual value",
        admin::forget_flag,
    ),
    get("/admin/nodes", ADMIN, &[], "The processes that serve", admin::nodes),
    get("/admin/log", ADMIN, &[], "Checks the log of the tenant", admin::log),
    Route {
        needs: ADMIN_ACTS,
        ..get("/admin/archive", ADMIN, &[], "Everything of the tenant, as lines of JSON", admin::archive)
    },
    write(
        "POST",
        "/admin/erasures",
        ADMIN_ACTS,
        admin::ERASURE,
        &[200],
        "Erases what a person has written",
        admin::erase,
    ),
    get("/questions", APPROVER_READS, &["state", "limit", "cursor"], "Questions to persons", questions::list),
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
    write(
        "POST",
        "/questions/{question_id}/extend",
        APPROVER,
        NOTHING,
        &[200],
        "Gives a question as much time again, once",
        questions::extend,
    ),
    get("/sse/inbox", APPROVER_READS, &["last_event_id"], "Questions as they come", questions::inbox),
    write("POST", "/shares", MEMBER, shares::BEGIN, &[201], "Begins to share a session", shares::begin),
    Route {
        body: None,
        bytes_max: shares::FRAMES_BYTES_MAX,
        raw: &[shares::FRAMES],
        ..write(
            "POST",
            "/shares/{share_id}/frames",
            Needs::Nothing,
            NOTHING,
            &[202],
            "Takes frames of a shared session, with its publisher's secret",
            shares::publish,
        )
    },
    get(
        "/shares/{share_id}/control",
        Needs::Nothing,
        &[],
        "Who watches a shared session and what they answer, for its publisher",
        shares::control,
    ),
    get("/shares", VIEWER, &["limit", "cursor"], "The shared sessions that the caller may watch", shares::list),
    get("/shares/{share_id}", VIEWER, &[], "A shared session", shares::get),
    delete("/shares/{share_id}", MEMBER, &[], "Ends the sharing of a session, by its owner", shares::end),
    get("/sse/shares/{share_id}", VIEWER, &["last_event_id"], "A shared session as it happens", shares::follow),
    get(
        "/shares/{share_id}/recording",
        VIEWER,
        &["from", "to"],
        "The recording of a session as asciicast, between two times in seconds",
        shares::recording,
    ),
    get("/canvas", VIEWER, &["limit", "cursor"], "The canvases of the project by name", canvas::list),
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
    Route {
        bytes_max: canvas::GESTURE_BYTES_MAX,
        ..write(
            "POST",
            "/canvas/{canvas_id}/gestures",
            MEMBER,
            canvas::GESTURE,
            &[202],
            "Shows a movement to those who look at a canvas",
            canvas::gesture,
        )
    },
    Route {
        body: None,
        bytes_max: artifacts::BYTES_MAX,
        raw: &artifacts::NAMES,
        ..write(
            "POST",
            "/canvas/{canvas_id}/artifacts",
            MEMBER,
            NOTHING,
            &[200, 201],
            "Stores a file of a canvas",
            artifacts::add,
        )
    },
    get("/canvas/{canvas_id}/artifacts", VIEWER, &[], "The files of a canvas", artifacts::list),
    get("/canvas/{canvas_id}/artifacts/{artifact_id}", VIEWER, &[], "A file of a canvas", artifacts::get),
    write("POST", "/canvas/{canvas_id}/audits", MEMBER, artifacts::AUDIT, &[201], "Notes a report", artifacts::audit),
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
    write("POST", "/analytics/ingest", MEMBER, analytics::INGEST, &[202], "Takes figures in", analytics::ingest),
    get("/analytics/kpis", VIEWER, &[], "Figures, and the rules that they must keep", analytics::kpis),
    get("/routing/routes", OPERATOR_READS, &[], "Which back-end stores what", routing::list),
    Route {
        query: &["apply"],
        ..write("POST", "/routing/routes", ADMIN_ACTS, routing::ROUTE, &[200], "Sets a route", routing::set)
    },
    card("/registry/nodes", "The tools", registry::nodes),
    card("/registry/nodes/{id}", "A tool", registry::node),
    card("/registry/flows", "The procedures", registry::flows),
    card("/registry/flows/{id}", "A procedure", registry::flow),
    card("/registry/personas", "The instructions of models", registry::personas),
    card("/registry/tasks", "The tasks by which a router chooses", registry::tasks),
    card("/registry/providers", "The protocols in use", registry::providers),
    card("/registry/models", "The models", registry::models),
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
