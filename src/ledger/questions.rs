//! Questions to persons: one row each, which the first answer closes, or which expires. The row and its event change together.

use super::sql::{Connection, OptionalExtension as _, Row, params};
use serde_json::{Value, json};

use super::permits::settling;
use super::stores::note;
use super::{LEFT, Ledger, LedgerError, Mark, Marked, cut, now_ms, rows_of};
use crate::base::time::utc_ms;
use crate::proto::team::Identity;

/// A question to ask.
#[derive(Clone, Debug, PartialEq)]
pub struct Asked {
    /// Its id.
    pub question_id: String,
    /// The stream of the events about it.
    pub stream: String,
    /// The fingerprint of exactly the call that it is about.
    pub digest: String,
    /// The call as persons see it: JSON text.
    pub card: String,
    /// Time for which it can be answered, in milliseconds.
    pub wait_ms: i64,
}

/// An answer as it is stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredAnswer {
    /// `true` if the call may run.
    pub is_yes: bool,
    /// The person.
    pub by: String,
    /// The person's reason.
    pub note: String,
}

const COLUMNS: &str = "question_id, run_id, digest, card, asked_by, state, answer, by, note, asked_ms, deadline_ms, status, \
                       outcome, project, stream";

/// Questions that wait for an answer.
pub struct Questions<'l>(pub(in crate::ledger) &'l Ledger);

impl Questions<'_> {
    /// Asks a question.
    ///
    /// # Errors
    /// The database fails.
    pub fn ask(&self, who: &Identity, asked: &Asked) -> Result<(), LedgerError> {
        self.0.write(&who.tenant, |transaction| {
            let now = now_ms(transaction)?;
            let sql = "INSERT INTO question VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, 'open', NULL, NULL, NULL, ?9, ?10, NULL, NULL, ?11)";
            transaction.execute(
                sql,
                params![
                    who.tenant,
                    asked.question_id,
                    who.project,
                    who.run_id,
                    asked.stream,
                    asked.digest,
                    asked.card,
                    who.user,
                    now,
                    now.saturating_add(asked.wait_ms),
                    transaction.node(),
                ],
            )?;
            let card: Value = serde_json::from_str(&asked.card).unwrap_or_default();
            let body = json!({"question_id": asked.question_id, "digest": asked.digest, "tool": card["tool"],
                "risk": card["risk"], "action": card["action"]});
            note(transaction, who, "question.asked", asked.stream.clone(), body)
        })
    }

    /// Answers a question, if it is open and its time isn't over.
    ///
    /// # Errors
    /// There is no such question in the tenant, it has another digest, it was answered, its time is over, or the database
    /// fails.
    pub fn answer(
        &self,
        who: &Identity,
        question_id: &str,
        digest: &str,
        is_yes: bool,
        note_text: &str,
    ) -> Result<(), LedgerError> {
        self.0.write(&who.tenant, |transaction| {
            let open = open_question(transaction, who, question_id)?;
            if open.digest != digest {
                return Err(LedgerError::OtherCall);
            }
            let word = if is_yes { "once" } else { "no" };
            let sql = "UPDATE question SET state = 'answered', answer = ?3, by = ?4, note = ?5 \
                       WHERE tenant = ?1 AND question_id = ?2";
            transaction.execute(sql, params![who.tenant, question_id, word, who.user, note_text])?;
            let body = json!({"question_id": question_id, "digest": digest, "answer": word, "by": who.user});
            note(transaction, &open.who, "question.answered", open.stream, body)
        })
    }

    /// Extends the time of an open question by `wait_ms`, once; returns the new deadline. A question that was already extended
    /// isn't extended again.
    ///
    /// # Errors
    /// There is no such question in the tenant, it was answered, its time is over, or the database fails.
    pub fn extend(&self, who: &Identity, question_id: &str, wait_ms: i64) -> Result<String, LedgerError> {
        self.0.write(&who.tenant, |transaction| {
            let open = open_question(transaction, who, question_id)?;
            let later = open.asked_ms.saturating_add(wait_ms.saturating_mul(2));
            if open.deadline_ms >= later {
                return Ok(utc_ms(open.deadline_ms));
            }
            let sql = "UPDATE question SET deadline_ms = ?3 WHERE tenant = ?1 AND question_id = ?2";
            transaction.execute(sql, params![who.tenant, question_id, later])?;
            let body = json!({"question_id": question_id, "deadline": utc_ms(later), "by": who.user});
            note(transaction, &open.who, "question.extended", open.stream, body)?;
            Ok(utc_ms(later))
        })
    }

    /// The answer to a question; `None` while it is open. A question whose time is over has none, and is closed here.
    ///
    /// # Errors
    /// There is no such question, its time is over, or the database fails.
    pub fn answer_of(&self, who: &Identity, question_id: &str) -> Result<Option<StoredAnswer>, LedgerError> {
        {
            let connection = self.0.view(&who.tenant)?;
            let sql =
                "SELECT state, answer, by, note, deadline_ms FROM question WHERE tenant = ?1 AND question_id = ?2";
            type Found = (String, Option<String>, Option<String>, Option<String>, i64);
            let found: Option<Found> = connection
                .prepare_cached(sql)?
                .query_row(params![who.tenant, question_id], |row| {
                    Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?, row.get(4)?))
                })
                .optional()?;
            let (state, answer, by, note, deadline) = found.ok_or(LedgerError::NotFound)?;
            if state == "answered" {
                let is_yes = answer.as_deref() == Some("once");
                return Ok(Some(StoredAnswer { is_yes, by: by.unwrap_or_default(), note: note.unwrap_or_default() }));
            }
            if state != "open" {
                return Err(LedgerError::Late);
            }
            if now_ms(&connection)? <= deadline {
                return Ok(None);
            }
        }
        self.close(who, question_id, "its time was over")?;
        Err(LedgerError::Late)
    }

    /// Closes an open question; an answered one doesn't change.
    ///
    /// # Errors
    /// The database fails.
    pub fn close(&self, who: &Identity, question_id: &str, why: &str) -> Result<(), LedgerError> {
        self.0.write(&who.tenant, |transaction| {
            let sql = "UPDATE question SET state = 'expired' WHERE tenant = ?1 AND question_id = ?2 AND state = 'open'";
            if transaction.execute(sql, params![who.tenant, question_id])? == 0 {
                return Ok(());
            }
            let sql = "SELECT stream FROM question WHERE tenant = ?1 AND question_id = ?2";
            let stream = transaction.query_row(sql, params![who.tenant, question_id], |row| row.get(0))?;
            note(transaction, who, "question.expired", stream, json!({"question_id": question_id, "why": why}))
        })
    }

    /// Closes the questions that an earlier process left open: nothing waits for their answers. Returns how many.
    ///
    /// # Errors
    /// The database fails.
    pub fn close_left(&self) -> Result<usize, LedgerError> {
        let mut left: Vec<(Identity, String)> = Vec::new();
        for (tenant, _) in self.0.accounts().tenants()? {
            let connection = self.0.view(&tenant)?;
            let sql = format!(
                "SELECT tenant, question_id, project, asked_by, run_id FROM question \
                 WHERE tenant = ?1 AND state = 'open' AND {LEFT}"
            );
            let mut statement = connection.prepare_cached(&sql)?;
            let rows = statement.query_map(params![tenant, now_ms(&connection)?], |row| {
                let who = settling(row.get(0)?, row.get(2)?, row.get(3)?, row.get(4)?);
                Ok((who, row.get(1)?))
            })?;
            left.extend(rows.collect::<crate::ledger::sql::Result<Vec<_>>>()?);
        }
        for (who, question_id) in &left {
            self.close(who, question_id, "the gateway ended while it was open")?;
        }
        Ok(left.len())
    }

    /// Stores the outcome of the call that a question was about.
    ///
    /// # Errors
    /// The database fails.
    pub fn end(&self, who: &Identity, question_id: &str, status: u16, outcome: &str) -> Result<(), LedgerError> {
        let sql = "UPDATE question SET status = ?3, outcome = ?4 WHERE tenant = ?1 AND question_id = ?2";
        self.0.write(&who.tenant, |transaction| {
            transaction.execute(sql, params![who.tenant, question_id, status, outcome])?;
            Ok(())
        })
    }

    /// The questions of a tenant, or its open ones: a page of those before a mark, with the newest last.
    ///
    /// # Errors
    /// The database fails.
    pub fn list(&self, who: &Identity, only_open: bool, (after, limit): (&Mark, usize)) -> Result<Marked, LedgerError> {
        let connection = self.0.view(&who.tenant)?;
        let now = now_ms(&connection)?;
        let open = if only_open { "AND state = 'open' AND deadline_ms >= ?2" } else { "AND CAST(?2 AS BIGINT) >= 0" };
        let sql = format!(
            "SELECT {COLUMNS} FROM question WHERE tenant = ?1 {open} AND (asked_ms, question_id) < (?3, ?4) \
             ORDER BY asked_ms DESC, question_id DESC LIMIT ?5"
        );
        let mut statement = connection.prepare_cached(&sql)?;
        let values = params![who.tenant, now, after.at_ms, after.id, rows_of(limit)];
        let rows = statement
            .query_map(values, |row| Ok((Mark { at_ms: row.get(9)?, id: row.get(0)? }, question_value(row, now)?)))?;
        let (mut page, next) = cut(rows.collect::<crate::ledger::sql::Result<_>>()?, limit);
        page.reverse();
        Ok((page, next))
    }

    /// Returns a question with its outcome.
    ///
    /// # Errors
    /// The tenant has no such question, or the database fails.
    pub fn get(&self, who: &Identity, question_id: &str) -> Result<Value, LedgerError> {
        let connection = self.0.view(&who.tenant)?;
        let now = now_ms(&connection)?;
        let sql = format!("SELECT {COLUMNS} FROM question WHERE tenant = ?1 AND question_id = ?2");
        let found = connection.query_row(&sql, params![who.tenant, question_id], |row| question_value(row, now));
        found.optional()?.ok_or(LedgerError::NotFound)
    }
}

/// A question that can be answered.
struct OpenQuestion {
    digest: String,
    asked_ms: i64,
    deadline_ms: i64,
    stream: String,
    /// The person who acts on it, in the run that it belongs to.
    who: Identity,
}

/// Finds an open question that hasn't expired.
fn open_question(connection: &Connection, who: &Identity, question_id: &str) -> Result<OpenQuestion, LedgerError> {
    let sql = "SELECT state, by, digest, asked_ms, deadline_ms, stream, run_id FROM question \
               WHERE tenant = ?1 AND question_id = ?2";
    let read = |row: &Row<'_>| -> crate::ledger::sql::Result<(String, Option<String>, OpenQuestion)> {
        let open = OpenQuestion {
            digest: row.get(2)?,
            asked_ms: row.get(3)?,
            deadline_ms: row.get(4)?,
            stream: row.get(5)?,
            who: Identity { run_id: row.get(6)?, ..who.clone() },
        };
        Ok((row.get(0)?, row.get(1)?, open))
    };
    let found = connection.query_row(sql, params![who.tenant, question_id], read).optional()?;
    let (state, by, open) = found.ok_or(LedgerError::NotFound)?;
    match state.as_str() {
        "answered" => Err(LedgerError::AlreadyAnswered(by.unwrap_or_default())),
        "open" if now_ms(connection)? <= open.deadline_ms => Ok(open),
        _ => Err(LedgerError::Late),
    }
}

fn question_value(row: &Row<'_>, now: i64) -> crate::ledger::sql::Result<Value> {
    let card: String = row.get(3)?;
    let (state, deadline): (String, i64) = (row.get(5)?, row.get(10)?);
    let is_over = state == "open" && now > deadline;
    let mut value: Value = serde_json::from_str(&card).unwrap_or_else(|_| json!({}));
    let outcome: Option<String> = row.get(12)?;
    let fields = [
        ("question_id", json!(row.get::<String>(0)?)),
        ("run_id", json!(row.get::<Option<String>>(1)?)),
        ("digest", json!(row.get::<String>(2)?)),
        ("asked_by", json!(row.get::<String>(4)?)),
        ("state", json!(if is_over { "expired".to_owned() } else { state })),
        ("answer", json!(row.get::<Option<String>>(6)?)),
        ("by", json!(row.get::<Option<String>>(7)?)),
        ("note", json!(row.get::<Option<String>>(8)?)),
        ("asked_at", json!(utc_ms(row.get(9)?))),
        ("deadline", json!(utc_ms(deadline))),
        ("http_status", json!(row.get::<Option<u16>>(11)?)),
        ("outcome", outcome.and_then(|text| serde_json::from_str(&text).ok()).unwrap_or(Value::Null)),
        ("project", json!(row.get::<String>(13)?)),
        ("stream", json!(row.get::<String>(14)?)),
    ];
    for (name, field) in fields {
        value[name] = field;
    }
    Ok(value)
}
