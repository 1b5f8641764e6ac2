//! Questions over HTTP: the open ones, one with its outcome, and the answer, which counts once.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::sync::mpsc;

use super::shares;
use crate::gateway::api::engine::events::follow;
use crate::gateway::http::call::{Call, Progress, Reply, cursor_of};
use crate::gateway::http::problem::{Answered, Problem};
use crate::gateway::shares::{Attempt, may_answer as is_granted};
use crate::ledger::{Filter, LedgerError};
use crate::proto::team::{Mode, TeamRole, TokenKind};

/// The body of `POST /questions/{question_id}/answer`.
pub const ANSWER: &str = r#"{"type": "object", "additionalProperties": false,
    "required": ["digest", "answer", "seen_to_end"], "properties": {
    "digest": {"type": "string", "minLength": 1, "maxLength": 128}, "answer": {"enum": ["once", "no"]},
    "note": {"type": "string", "maxLength": 500}, "seen_to_end": {"type": "boolean"}}}"#;
/// Types of the events that an inbox follows.
pub const INBOX: [&str; 4] = ["question.asked", "question.extended", "question.answered", "question.expired"];

/// `GET /questions`.
pub fn list(call: &Call<'_>) -> Answered<Reply> {
    let only_open = match call.asked("state").as_deref() {
        None | Some("all") => false,
        Some("open") => true,
        Some(_) => return Err(Problem::body("state in the query must be open or all")),
    };
    let page = (&call.mark()?, call.limit()?);
    let (mut items, next) = call.gateway.ledger.questions().list(call.who()?, only_open, page)?;
    let mut hidden = Vec::new();
    for (at, item) in items.iter_mut().enumerate() {
        let why = may_answer(call, item)?.err();
        if why == Some(NOT_SHARED) {
            hidden.push(at);
        }
        item["may_answer"] = why.is_none().into();
        item["why_not"] = why.into();
        if let Some(fields) = item.as_object_mut() {
            fields.remove("outcome");
            fields.remove("http_status");
        }
    }
    // Questions of sessions that aren't shared with the caller are as if they weren't there.
    hidden.into_iter().rev().for_each(|at| drop(items.remove(at)));
    Ok(Reply::ok(json!({"items": items, "next": cursor_of(next)})))
}

/// `GET /questions/{question_id}`: for the one who caused it, and for those who may answer.
pub fn get(call: &Call<'_>) -> Answered<Reply> {
    let who = call.who()?;
    let mut found = call.gateway.ledger.questions().get(who, call.param("question_id"))?;
    if found["asked_by"] != *who.user && who.role < TeamRole::Approver {
        return Err(Problem::not_found());
    }
    let why = may_answer(call, &found)?.err();
    if why == Some(NOT_SHARED) && found["asked_by"] != *who.user {
        return Err(Problem::not_found());
    }
    found["may_answer"] = why.is_none().into();
    found["why_not"] = why.into();
    Ok(Reply::ok(found))
}

/// Returns whether the caller may answer a question, or why not.
fn may_answer(call: &Call<'_>, question: &Value) -> Answered<Result<(), &'static str>> {
    let who = call.who()?;
    if let Some(id) = share_of(question)
        && !shares::watched(call, id).is_ok_and(|row| is_granted(who, &row))
    {
        return Ok(Err(NOT_SHARED));
    }
    let has_four_eyes = who.mode == Mode::Enterprise || call.gateway.parts.settings.gateway.four_eyes;
    Ok(match () {
        () if who.kind != TokenKind::Person => Err("only a person's token may answer"),
        () if who.role < TeamRole::Approver => Err("answering needs the role approver"),
        () if has_four_eyes && question["asked_by"] == *who.user => {
            Err("the person who started it doesn't answer its questions")
        }
        () if question["state"] != "open" => Err("it isn't open any more"),
        () => Ok(()),
    })
}

/// The reason for a caller with whom a session isn't shared.
const NOT_SHARED: &str = "the session isn't shared with you for answering";

/// The shared session that a question belongs to.
fn share_of(question: &Value) -> Option<&str> {
    question["stream"].as_str()?.strip_prefix("share/")
}

/// `POST /questions/{question_id}/answer`.
pub fn answer(call: &Call<'_>) -> Answered<Reply> {
    let (who, id) = (call.who()?, call.param("question_id"));
    if call.body["seen_to_end"] != true {
        return Err(Problem::body("seen_to_end must be true: a question is answered after all of it was seen"));
    }
    let question = call.gateway.ledger.questions().get(who, id)?;
    let may = may_answer(call, &question)?;
    if may == Err(NOT_SHARED) {
        return Err(Problem::not_found());
    }
    if question["state"] == "open"
        && let Err(why) = may
    {
        return Err(Problem::new(403, "forbidden", why));
    }
    if let Some(share_id) = share_of(&question) {
        return answer_shared(call, share_id, &question);
    }
    let is_yes = call.body["answer"] == "once";
    let (digest, note) = (call.text("digest").unwrap_or_default(), call.text("note").unwrap_or_default());
    call.gateway.ledger.questions().answer(who, id, &digest, is_yes, &note)?;
    call.gateway.bell.ring();
    Ok(Reply::ok(json!({"accepted": true})))
}

/// `POST /questions/{question_id}/extend`: for those who may answer it and need more time. The session itself sets the time of
/// its questions.
pub fn extend(call: &Call<'_>) -> Answered<Reply> {
    let (who, id) = (call.who()?, call.param("question_id"));
    let question = call.gateway.ledger.questions().get(who, id)?;
    match may_answer(call, &question)? {
        Err(NOT_SHARED) => return Err(Problem::not_found()),
        Err(why) if question["state"] == "open" => return Err(Problem::new(403, "forbidden", why)),
        _ => {}
    }
    if share_of(&question).is_some() {
        return Err(Problem::new(403, "forbidden", "the session that asks keeps the time itself"));
    }
    let deadline = call.gateway.ledger.questions().extend(who, id, call.gateway.question_timeout_ms())?;
    Ok(Reply::ok(json!({"question_id": id, "deadline": deadline})))
}

/// Carries an answer to the session that asks: only there is it known whether the person at the terminal was first.
fn answer_shared(call: &Call<'_>, share_id: &str, question: &Value) -> Answered<Reply> {
    let who = call.who()?;
    if question["state"] == "answered" {
        return Err(LedgerError::AlreadyAnswered(question["by"].as_str().unwrap_or_default().to_owned()).into());
    }
    if question["state"] != "open" {
        return Err(LedgerError::Late.into());
    }
    let digest = call.text("digest").unwrap_or_default();
    if question["digest"] != *digest {
        return Err(LedgerError::OtherCall.into());
    }
    let share = call.gateway.shares.find(who, share_id).ok_or_else(shares::elsewhere)?;
    let (steps, received) = mpsc::unbounded_channel();
    let report = Box::new(move |done: Answered<()>| {
        let done = done.map(|()| Reply::ok(json!({"accepted": true})));
        let _ = steps.send(Progress::Done(Box::new(done)));
    });
    let attempt = Attempt {
        who: who.clone(),
        is_yes: call.body["answer"] == "once",
        note: call.text("note").unwrap_or_default(),
        digest,
        report,
    };
    share.answer(call.param("question_id"), attempt)?;
    Ok(Reply::later(received, Duration::ZERO))
}

/// `GET /sse/inbox`: questions as they are asked and answered.
pub fn inbox(call: &Call<'_>) -> Answered<Reply> {
    let any_types = INBOX.iter().map(|it| (*it).to_owned()).collect();
    follow(call, Filter { any_types, ..Filter::default() }, None)
}
