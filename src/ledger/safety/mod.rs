//! The facts of the gates, and the transaction in which they decide: the reservation of a decision and the events about it are
//! written together.

pub(super) mod budget;

use super::sql::{Connection, OptionalExtension as _, params};
use serde_json::{Value, json};

use super::more::figures;
use super::permits::settling;
use super::spine::append_in;
use super::stores::note;
use super::{LEFT, Ledger, LedgerError, now_ms, now_text, uuid_v7};
use crate::chain::{self, Facts, Licence, Lock, Stop, Wish};
use crate::proto::team::{EventDraft, GateDecision, GateName, GateOutcome, Identity};

pub use budget::NewLimit;
use budget::Use;

/// The subject of an action.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Subject {
    /// `thread`, `canvas` or `run`.
    pub kind: String,
    /// Its id.
    pub id: String,
}

/// The result of a decision.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Record {
    /// A block is written down; a pass changes nothing.
    Peek,
    /// A pass uses up what the call needs, and both are recorded.
    Admit,
    /// Like `Admit`, for a call that takes time: what it needs is reserved until it is [settled](Ledger::settle).
    Reserve,
    /// The policy, or a missing approval, refuses the call after the gates: written down, nothing reserved.
    Refused(&'static str),
    /// Only the audit records it.
    Dry,
}

/// A decision of the gates.
#[derive(Clone, Debug, PartialEq)]
pub struct Judged {
    /// The decision of each gate.
    pub decisions: Vec<GateDecision>,
    /// The events about it.
    pub event_ids: Vec<String>,
    /// The reservation of the call.
    pub reservation: Option<String>,
}

impl Judged {
    /// The gate that blocks, with its reason and facts.
    #[must_use]
    pub fn block(&self) -> Option<(GateName, &str, &Value)> {
        self.decisions.iter().find_map(|decision| match &decision.outcome {
            GateOutcome::Block { reason, context } => Some((decision.gate, reason.as_str(), context)),
            _ => None,
        })
    }

    /// The decisions as endpoints return them.
    #[must_use]
    pub fn to_value(&self) -> Value {
        decisions_value(&self.decisions)
    }
}

fn decisions_value(decisions: &[GateDecision]) -> Value {
    let item = |decision: &GateDecision| {
        let mut item = json!({"gate": decision.gate.word(), "outcome": decision.outcome.word()});
        if let GateOutcome::Block { reason, context } = &decision.outcome {
            item["reason"] = reason.clone().into();
            item["context"] = context.clone();
        }
        item
    };
    decisions.iter().map(item).collect()
}

/// The gates in front of each action, budgets and the kill switch.
pub struct Safety<'l>(pub(in crate::ledger) &'l Ledger);

impl Safety<'_> {
    /// Lets the gates decide about a call. `node` is the emergency stop of this machine, if it is set; `first` are events
    /// that come before those of the decision, such as the request.
    ///
    /// # Errors
    /// The database fails: then nothing may run.
    pub fn gates(
        &self,
        who: &Identity,
        wish: &Wish,
        subject: &Subject,
        node: Option<&Stop>,
        (record, first): (Record, &[EventDraft]),
    ) -> Result<Judged, LedgerError> {
        self.0.write(&who.tenant, |transaction| {
            let first = append_in(transaction, who, first, None)?;
            let facts = facts(transaction, who, wish, node)?;
            let decisions = chain::decide(&facts, wish);
            let event_ids = first.into_iter().map(|it| it.event_id).collect();
            let mut judged = Judged { decisions, event_ids, reservation: None };
            let is_blocked = judged.block().is_some();
            if record == Record::Peek && !is_blocked {
                return Ok(judged);
            }
            if matches!(record, Record::Admit | Record::Reserve) && !is_blocked {
                reserve(transaction, who, wish, &facts)?;
            }
            if record == Record::Reserve && !is_blocked {
                judged.reservation = Some(hold(transaction, who, wish, subject)?);
            }
            judged.event_ids.extend(tell(transaction, who, wish, subject, &judged, record)?);
            if record != Record::Dry {
                let blocked = judged.block().map(|(gate, ..)| gate);
                figures::decided(transaction, who, &wish.action, blocked, matches!(record, Record::Refused(_)))?;
            }
            Ok(judged)
        })
    }

    /// Ends the reservation of a call with the event about its end. If the call never ran (`is_freed`), its place in the
    /// budget is free again. Returns the event's id.
    ///
    /// # Errors
    /// The database fails.
    pub fn settle(
        &self,
        who: &Identity,
        reservation: Option<&str>,
        is_freed: bool,
        draft: &EventDraft,
    ) -> Result<String, LedgerError> {
        self.0.write(&who.tenant, |transaction| {
            if let Some(id) = reservation {
                release(transaction, who, id, is_freed)?;
            }
            if !is_freed {
                figures::ended(transaction, who, draft)?;
            }
            let stored = append_in(transaction, who, std::slice::from_ref(draft), None)?;
            Ok(stored.into_iter().next().map(|it| it.event_id).unwrap_or_default())
        })
    }

    /// Settles what an earlier process left: each call that it admitted and never settled gets the event `action.unknown`, and
    /// its place in the budget is free again. The use of a licence stays used, since the call may have run. Returns how many.
    ///
    /// # Errors
    /// The database fails.
    pub fn settle_left(&self) -> Result<usize, LedgerError> {
        let sql = format!(
            "SELECT tenant, reservation_id, project, user, run_id, request_id, trace_id, stream, action FROM reservation \
             WHERE tenant = ?1 AND {LEFT}"
        );
        type Left = (Identity, String, String, String);
        let mut left: Vec<Left> = Vec::new();
        for (tenant, _) in self.0.accounts().tenants()? {
            let connection = self.0.view(&tenant)?;
            let mut statement = connection.prepare_cached(&sql)?;
            let rows = statement.query_map(params![tenant, now_ms(&connection)?], |row| {
                let who = settling(row.get(0)?, row.get(2)?, row.get(3)?, row.get(4)?);
                let who = Identity { request_id: row.get(5)?, trace_id: row.get(6)?, ..who };
                Ok((who, row.get(1)?, row.get(7)?, row.get(8)?))
            })?;
            left.extend(rows.collect::<crate::ledger::sql::Result<Vec<_>>>()?);
        }
        for (who, id, stream, action) in &left {
            let draft = EventDraft {
                event_type: "action.unknown".into(),
                source: "engine".into(),
                stream: Some(stream.clone()),
                body: json!({"action_name": action, "why": "the gateway ended while it ran"}),
                ..EventDraft::default()
            };
            self.settle_unknown(who, id, &draft)?;
        }
        Ok(left.len())
    }

    /// Settles a call with an unknown outcome, unless it was already settled.
    ///
    /// # Errors
    /// The database fails.
    pub fn settle_unknown(&self, who: &Identity, id: &str, draft: &EventDraft) -> Result<(), LedgerError> {
        self.0.write(&who.tenant, |transaction| {
            if release(transaction, who, id, true)? {
                append_in(transaction, who, std::slice::from_ref(draft), None)?;
            }
            Ok(())
        })
    }

    /// Sets a kill switch; one that is already set doesn't change. Returns the time since which it is set.
    ///
    /// # Errors
    /// The database fails.
    pub fn kill(&self, who: &Identity, scope: &str, subject: &str, reason: &str) -> Result<String, LedgerError> {
        self.set_kill(who, (scope, subject), reason, false)
    }

    /// Notes who has stopped this machine. If it wasn't stopped before (`is_new`), an earlier row is of a stop that was lifted.
    /// Returns since when.
    ///
    /// # Errors
    /// The database fails.
    pub fn kill_node(&self, who: &Identity, reason: &str, is_new: bool) -> Result<String, LedgerError> {
        self.set_kill(who, ("node", ""), reason, is_new)
    }

    fn set_kill(
        &self,
        who: &Identity,
        (scope, subject): (&str, &str),
        reason: &str,
        is_anew: bool,
    ) -> Result<String, LedgerError> {
        self.0.write(&who.tenant, |transaction| {
            if is_anew {
                let sql = "DELETE FROM kill_switch WHERE tenant = ?1 AND scope = ?2 AND subject = ?3";
                transaction.execute(sql, params![who.tenant, scope, subject])?;
            }
            let now = now_text(transaction)?;
            let sql = "INSERT INTO kill_switch VALUES (?1, ?2, ?3, ?4, ?5, ?6) ON CONFLICT DO NOTHING";
            let is_new = transaction.execute(sql, params![who.tenant, scope, subject, now, who.user, reason])? > 0;
            if is_new {
                let body = json!({"op": "set", "scope": scope, "subject": subject, "reason": reason});
                note(transaction, who, "kill_switch", "kill_switch".into(), body)?;
            }
            let sql = "SELECT since FROM kill_switch WHERE tenant = ?1 AND scope = ?2 AND subject = ?3";
            Ok(transaction.query_row(sql, params![who.tenant, scope, subject], |row| row.get(0))?)
        })
    }

    /// Number of kill switches of the tenant or the project that are set.
    ///
    /// # Errors
    /// The database fails.
    pub fn kill_switches(&self, who: &Identity) -> Result<i64, LedgerError> {
        let sql = "SELECT count(*) FROM kill_switch WHERE tenant = ?1 AND (scope = 'tenant' OR scope = 'project' AND subject = ?2)";
        Ok(self.0.view(&who.tenant)?.query_row(sql, params![who.tenant, who.project], |row| row.get(0))?)
    }

    /// The kill switch that stops an action of a caller: of the tenant, the project or the action.
    ///
    /// # Errors
    /// The database fails.
    pub fn kill_switch(&self, who: &Identity, action: &str) -> Result<Option<Stop>, LedgerError> {
        let connection = self.0.view(&who.tenant)?;
        stop(&connection, who, action)
    }

    /// Lifts all kill switches of a tenant; returns their number. Only a person at a terminal may do this.
    ///
    /// # Errors
    /// The database fails.
    pub fn lift(&self, tenant: &str) -> Result<usize, LedgerError> {
        let who = self.0.permits().operator_at_terminal(tenant)?;
        self.0.write(tenant, |transaction| {
            let lifted = transaction.execute("DELETE FROM kill_switch WHERE tenant = ?1", [tenant])?;
            if lifted > 0 {
                note(transaction, &who, "kill_switch", "kill_switch".into(), json!({"op": "lifted", "count": lifted}))?;
            }
            Ok(lifted)
        })
    }

    /// Sets a flag of a tenant; without an actor, a person at a terminal is recorded.
    ///
    /// # Errors
    /// There is no such tenant, or the database fails.
    pub fn set_flag(&self, tenant: &str, who: Option<&Identity>, flag: &str, is_on: bool) -> Result<(), LedgerError> {
        self.set_flag_value(tenant, who, flag, is_on.into())
    }

    /// Removes a flag of a tenant, so that its default applies again.
    ///
    /// # Errors
    /// There is no such tenant, or the database fails.
    pub fn forget_flag(&self, tenant: &str, who: &Identity, flag: &str) -> Result<(), LedgerError> {
        self.set_flag_value(tenant, Some(who), flag, Value::Null)
    }

    /// Sets a flag that may have other values than on and off; null removes it.
    pub(super) fn set_flag_value(
        &self,
        tenant: &str,
        who: Option<&Identity>,
        flag: &str,
        value: Value,
    ) -> Result<(), LedgerError> {
        let who = who.map_or_else(|| self.0.permits().operator_at_terminal(tenant), |who| Ok(who.clone()))?;
        self.0.write(tenant, |transaction| {
            let mut flags = flags(transaction, tenant)?.ok_or(LedgerError::NotFound)?;
            flags[flag] = value.clone();
            transaction
                .execute("UPDATE tenant SET flags = ?2 WHERE tenant = ?1", params![tenant, flags.to_string()])?;
            let body = json!({"kind": "flag", "flag": flag, "on": value});
            note(transaction, &who, "audit", "dataset:audit".into(), body)
        })
    }

    /// Returns whether a flag of a tenant is on; `None` if it isn't set.
    ///
    /// # Errors
    /// The database fails.
    pub fn flag(&self, tenant: &str, flag: &str) -> Result<Option<bool>, LedgerError> {
        Ok(self.flag_value(tenant, flag)?.and_then(|value| value.as_bool()))
    }

    /// The value of a flag; `None` if there is no such tenant.
    pub(super) fn flag_value(&self, tenant: &str, flag: &str) -> Result<Option<Value>, LedgerError> {
        let connection = self.0.view(tenant)?;
        Ok(flags(&connection, tenant)?.map(|mut flags| flags[flag].take()))
    }

    /// Records the cost of a request to a model.
    ///
    /// # Errors
    /// The event's id was used for another event, or the database fails.
    pub fn use_budget(&self, who: &Identity, draft: &EventDraft, cost: i64, tokens: i64) -> Result<bool, LedgerError> {
        self.0.write(&who.tenant, |transaction| {
            let stored = append_in(transaction, who, std::slice::from_ref(draft), None)?;
            let is_new = stored.iter().any(|it| !it.is_duplicate);
            if is_new {
                budget::add(transaction, who, budget::hour(transaction)?, Use { calls: 0, cost, tokens })?;
            }
            Ok(is_new)
        })
    }
}

fn facts(connection: &Connection, who: &Identity, wish: &Wish, node: Option<&Stop>) -> Result<Facts, LedgerError> {
    let now = now_ms(connection)?;
    let surface = wish.surface_id.clone().unwrap_or_default();
    let heat: Option<(i64, i64)> = connection
        .prepare_cached("SELECT thousandths, at_ms FROM heat WHERE tenant = ?1 AND surface_id = ?2")?
        .query_row(params![who.tenant, surface], |row| Ok((row.get(0)?, row.get(1)?)))
        .optional()?;
    Ok(Facts {
        stop: match node {
            Some(stop) => Some(stop.clone()),
            None => stop(connection, who, &wish.action)?,
        },
        licences: licences(connection, &who.tenant, now)?,
        locks: locks(connection, &who.tenant, now)?,
        limits: budget::limits(connection, who, 1)?,
        rules: figures::rules(connection, &who.tenant, &wish.action)?,
        heat: heat.map_or(0, |(heat, at)| chain::cooled(heat, now - at)),
    })
}

/// The flags of a tenant; `None` if there is no such tenant.
fn flags(connection: &Connection, tenant: &str) -> Result<Option<Value>, LedgerError> {
    let mut statement = connection.prepare_cached("SELECT flags FROM tenant WHERE tenant = ?1")?;
    let text: Option<String> = statement.query_row([tenant], |row| row.get(0)).optional()?;
    Ok(text.map(|text| serde_json::from_str(&text).unwrap_or_else(|_| json!({}))))
}

fn stop(connection: &Connection, who: &Identity, action: &str) -> Result<Option<Stop>, LedgerError> {
    let sql = "SELECT scope, since, by FROM kill_switch WHERE tenant = ?1 AND (scope = 'tenant' \
               OR (scope = 'project' AND subject = ?2) OR (scope = 'action' AND subject = ?3)) LIMIT 1";
    let found = connection.prepare_cached(sql)?.query_row(params![who.tenant, who.project, action], |row| {
        Ok(Stop { scope: row.get(0)?, since: row.get(1)?, by: row.get(2)?, why: None })
    });
    Ok(found.optional()?)
}

fn licences(connection: &Connection, tenant: &str, now: i64) -> Result<Vec<Licence>, LedgerError> {
    let sql = "SELECT licence_id, subject, actions, class, project, surface_id FROM licence WHERE tenant = ?1 \
               AND revoked IS NULL AND valid_until_ms > ?2 AND (uses_max IS NULL OR uses < uses_max)";
    let mut statement = connection.prepare_cached(sql)?;
    let rows = statement.query_map(params![tenant, now], |row| {
        let actions: String = row.get(2)?;
        let actions = serde_json::from_str(&actions).unwrap_or_default();
        let (class, project, surface_id) = (row.get(3)?, row.get(4)?, row.get(5)?);
        Ok(Licence { id: row.get(0)?, subject: row.get(1)?, actions, class, project, surface_id })
    })?;
    Ok(rows.collect::<crate::ledger::sql::Result<_>>()?)
}

fn locks(connection: &Connection, tenant: &str, now: i64) -> Result<Option<Vec<Lock>>, LedgerError> {
    if flags(connection, tenant)?.is_none_or(|flags| flags["strategy_locks"] != true) {
        return Ok(None);
    }
    let sql = "SELECT lock_id, scope, surface_id, actions, state, three_wise, valid_from_ms, valid_until_ms, (SELECT \
               count(*) FROM lock_approval a WHERE a.tenant = l.tenant AND a.lock_id = l.lock_id) \
               FROM strategy_lock l WHERE tenant = ?1";
    let mut statement = connection.prepare_cached(sql)?;
    let rows = statement.query_map([tenant], |row| {
        let actions: String = row.get(3)?;
        let (three_wise, approvals): (bool, i64) = (row.get(5)?, row.get(8)?);
        let (from, until): (i64, i64) = (row.get(6)?, row.get(7)?);
        Ok(Lock {
            id: row.get(0)?,
            scope: row.get(1)?,
            surface_id: row.get(2)?,
            actions: serde_json::from_str(&actions).unwrap_or_default(),
            state: row.get(4)?,
            is_three_wise_pending: three_wise && approvals < 3,
            is_in_time: from <= now && now < until,
        })
    })?;
    Ok(Some(rows.collect::<crate::ledger::sql::Result<_>>()?))
}

/// Takes what an admitted call uses: a call of the budget, a use of its licence, heat.
fn reserve(transaction: &Connection, who: &Identity, wish: &Wish, facts: &Facts) -> Result<(), LedgerError> {
    let one = Use { calls: 1, ..Use::default() };
    budget::add(transaction, who, budget::hour(transaction)?, one)?;
    if let Some(licence) = chain::licence(facts, wish) {
        let sql = "UPDATE licence SET uses = uses + 1 WHERE tenant = ?1 AND licence_id = ?2";
        transaction.execute(sql, params![who.tenant, licence.id])?;
    }
    let heat = facts.heat + chain::heat_of(wish.risk);
    let sql = "INSERT INTO heat VALUES (?1, ?2, ?3, ?4) ON CONFLICT (tenant, surface_id) DO UPDATE SET thousandths = ?3, at_ms = ?4";
    let surface = wish.surface_id.clone().unwrap_or_default();
    transaction.execute(sql, params![who.tenant, surface, heat, now_ms(transaction)?])?;
    Ok(())
}

/// Ends a reservation; returns whether it existed. If its call never ran, its place in the budget is free again.
fn release(transaction: &Connection, who: &Identity, id: &str, is_freed: bool) -> Result<bool, LedgerError> {
    let sql = "SELECT hour FROM reservation WHERE tenant = ?1 AND reservation_id = ?2";
    let found = transaction.query_row(sql, params![who.tenant, id], |row| row.get::<Option<i64>>(0)).optional()?;
    let sql = "DELETE FROM reservation WHERE tenant = ?1 AND reservation_id = ?2";
    let is_there = transaction.execute(sql, params![who.tenant, id])? > 0;
    if is_there && is_freed {
        let place = Use { calls: -1, ..Use::default() };
        budget::add(transaction, who, found.flatten().unwrap_or_default(), place)?;
    }
    Ok(is_there)
}

/// Notes that an admitted call runs; returns the id of its reservation.
fn hold(transaction: &Connection, who: &Identity, wish: &Wish, subject: &Subject) -> Result<String, LedgerError> {
    let id = uuid_v7();
    let sql = "INSERT INTO reservation VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)";
    let stream = format!("{}/{}", subject.kind, subject.id);
    transaction.prepare_cached(sql)?.execute(params![
        who.tenant,
        id,
        who.project,
        who.user,
        who.run_id,
        who.request_id,
        who.trace_id,
        stream,
        wish.action,
        transaction.node(),
        budget::hour(transaction)?,
    ])?;
    Ok(id)
}

/// Writes the events about a decision.
fn tell(
    transaction: &Connection,
    who: &Identity,
    wish: &Wish,
    subject: &Subject,
    judged: &Judged,
    record: Record,
) -> Result<Vec<String>, LedgerError> {
    let gate = match (judged.block(), record) {
        (Some((gate, ..)), _) => Some(gate.word()),
        (None, Record::Refused(by)) => Some(by),
        _ => None,
    };
    let body = json!({
        "kind": "decision", "action_name": wish.action, "subject_type": subject.kind, "subject_id": subject.id,
        "outcome": if gate.is_some() { "block" } else { "pass" }, "gate": gate, "risk": wish.risk.word(),
        "class": wish.class, "dry_run": record == Record::Dry, "decisions": judged.to_value(),
    });
    let draft = |event_type: &str, stream: String| EventDraft {
        event_type: event_type.to_owned(),
        source: "engine".to_owned(),
        stream: Some(stream),
        body: body.clone(),
        ..EventDraft::default()
    };
    let mut drafts = vec![draft("audit", "dataset:audit".to_owned())];
    if record != Record::Dry {
        drafts.insert(0, draft("safety", format!("{}/{}", subject.kind, subject.id)));
    }
    if matches!(record, Record::Admit | Record::Reserve) && gate.is_none() {
        let body = json!({"action_name": wish.action});
        drafts.push(EventDraft { body, ..draft("action.admitted", format!("{}/{}", subject.kind, subject.id)) });
    }
    let stored = append_in(transaction, who, &drafts, None)?;
    Ok(stored.into_iter().map(|it| it.event_id).collect())
}
