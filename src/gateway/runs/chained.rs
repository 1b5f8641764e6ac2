//! The team's gates for a caller's tool calls and commands on canvases, and the events that record the end of each call: for one
//! action, or for a run with many calls.

use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::canvas::{self, OpError, State};
use crate::chain::{self, Stop, Wish};
use crate::config::GatewaySettings;
use crate::gate::{Blocked, Call as ToolWish, Chain};
use crate::gateway::Gateway;
use crate::gateway::http::problem::{Answered, Problem};
use crate::gateway::identity::is_id;
use crate::gateway::state::PERSONAL;
use crate::gateway::traces::{Kind, Open, names};
use crate::ledger::{Command, Committed, Judged, LedgerError, Record, Subject, uuid_v7};
use crate::proto::action::{Action, Decision, PolicyVerdict, Risk};
use crate::proto::served::Reach;
use crate::proto::team::{EventDraft, Identity};
use crate::proto::tool::{Outcome, ToolError};
use crate::receipts;
use crate::redact;
use crate::tools::{Boards, Canvases};

/// Interval for writing the end of new receipts into the log.
const ANCHOR_EVERY: Duration = Duration::from_millis(receipts::ANCHOR_EVERY_MS.unsigned_abs());
/// The gate that blocks a call whose workspace another gateway may work in.
const WORKSPACE: &str = "workspace_elsewhere";
/// Limit on the operations of a conflict that are shown to a model, in bytes; beyond it, the model must read the canvas again.
const SINCE_BYTES_MAX: usize = 8 * 1024;

/// Describes a call for the gates.
pub fn wish(gateway: &Gateway, who: &Identity, name: &str, verdict: Option<&PolicyVerdict>) -> Wish {
    let risk = verdict.map_or(Risk::Low, |verdict| verdict.risk);
    let named = class_named(&gateway.parts.settings.gateway, name);
    Wish {
        action: name.to_owned(),
        surface_id: who.surface_id.clone(),
        project: who.project.clone(),
        user: who.user.clone(),
        role: who.role.word().to_owned(),
        kind: who.kind.word().to_owned(),
        risk,
        class: named.or_else(|| chain::class(name, risk, verdict.map_or(&[], |verdict| &verdict.effects))),
    }
}

/// The class of an action that the config calls dangerous.
pub fn class_named(settings: &GatewaySettings, name: &str) -> Option<&'static str> {
    let mut named = settings.dangerous.iter().filter_map(|it| it.split_once('='));
    let (_, class) = named.find(|(action, _)| *action == name)?;
    chain::CLASSES.iter().find(|it| **it == class).copied()
}

/// Returns the reason why a tenant that hides personal data may not make a call: it would send some to another server. Its
/// arguments are the requested ones, so nothing can be hidden in them as in a request to a model. A command isn't checked: it
/// isn't known which data it sends, and `git@example.com` in it is no person.
pub fn personal(gateway: &Gateway, who: &Identity, action: &Action, sent: &str) -> Option<Blocked> {
    let goes_out = match action {
        Action::Http { .. } => true,
        Action::Served { reach, .. } => *reach != Reach::Held,
        _ => false,
    };
    let kind = redact::first_personal(sent).filter(|_| goes_out && gateway.hides_personal(&who.tenant))?;
    let why = format!("it would send personal data (a {kind}) elsewhere, which this tenant doesn't allow");
    Some(Blocked { gate: PERSONAL, why })
}

/// The gates in front of a caller's calls, one call after the other.
pub struct TeamChain {
    gateway: Arc<Gateway>,
    /// The caller.
    who: Identity,
    /// The subject of the calls.
    pub subject: Subject,
    /// The step of a run: a request to a model, and the calls that its answer wants.
    step: Mutex<Option<String>>,
    state: Mutex<Under>,
}

/// The state of the current call.
#[derive(Default)]
struct Under {
    /// Events that come before the decision's.
    first: Vec<EventDraft>,
    /// A gate blocked it before its question was asked: it stays blocked, since no person agreed to it.
    blocked: Option<Blocked>,
    judged: Option<Result<Judged, LedgerError>>,
    /// Time when it was let through.
    began: Option<Instant>,
    /// Its span.
    span: Option<Open>,
}

/// End of a call.
pub struct Ended {
    /// The decisions of the gates, if they were asked.
    pub judged: Option<Judged>,
    /// The events about it.
    pub event_ids: Vec<String>,
}

impl TeamChain {
    /// The gates for a caller and a subject.
    pub fn new(gateway: &Arc<Gateway>, who: Identity, subject: Subject) -> Self {
        Self {
            gateway: Arc::clone(gateway),
            step: Mutex::new(who.step_id.clone()),
            who,
            subject,
            state: Mutex::default(),
        }
    }

    /// Returns the caller, in the current step.
    pub fn who(&self) -> Identity {
        Identity { step_id: self.step.lock().clone(), ..self.who.clone() }
    }

    /// Returns the caller for records that are written whether or not the gateway still has the workspace.
    pub fn who_at_end(&self) -> Identity {
        let is_lost = self.gateway.ledger.leases().is_lost(&self.who);
        let who = self.who();
        Identity { lease: who.lease.filter(|_| !is_lost), ..who }
    }

    /// Begins the next step of a run.
    pub fn next_step(&self) {
        *self.step.lock() = Some(uuid_v7());
    }

    fn state(&self) -> parking_lot::MutexGuard<'_, Under> {
        self.state.lock()
    }

    /// The stream of the events about its calls.
    pub fn stream(&self) -> String {
        format!("{}/{}", self.subject.kind, self.subject.id)
    }

    fn draft(&self, kind: &str, body: Value) -> EventDraft {
        EventDraft {
            event_type: kind.to_owned(),
            source: "engine".to_owned(),
            stream: Some(self.stream()),
            body,
            ..EventDraft::default()
        }
    }

    /// Notes that a call is asked for; its event is written with the first decision.
    pub fn requested(&self, name: &str, id: Option<&str>) {
        self.gateway.metrics.tool_calls.fetch_add(1, Ordering::Relaxed);
        let draft = self.draft("action.requested", json!({"action_name": name}));
        let operation = (names::EXECUTE_TOOL, name);
        let (mut span, _) = self.gateway.traces.below(&self.who(), Kind::Internal, operation);
        if let Some(span) = &mut span {
            span.set(names::TOOL, name);
            span.set(names::TOOL_TYPE, "function");
            id.into_iter().for_each(|id| span.set(names::TOOL_CALL, id));
        }
        *self.state() = Under { first: vec![draft], span, ..Under::default() };
    }

    /// Checks whether a call would send personal data; if so, it is blocked from now on.
    pub fn holds_personal(&self, action: &Action, sent: &str) -> Option<Blocked> {
        let blocked = personal(&self.gateway, &self.who, action, sent)?;
        self.gateway.metrics.blocked(blocked.gate);
        self.state().blocked = Some(blocked.clone());
        Some(blocked)
    }

    /// Asks the gates without reserving anything; a block is recorded, and remains in force.
    ///
    /// # Errors
    /// A gate blocks, or the database fails.
    pub fn peek(&self, name: &str, verdict: Option<&PolicyVerdict>) -> Answered<()> {
        let judged = self.ask(name, verdict, Record::Peek);
        let problem = match &judged {
            Ok(judged) => blocked(judged),
            Err(error) => Some(error.clone().into()),
        };
        let mut state = self.state();
        if let (Ok(judged), Some(_)) = (&judged, &problem) {
            state.judged = Some(Ok(judged.clone()));
        }
        match problem {
            None => Ok(()),
            Some(problem) => {
                state.blocked = Some(Blocked { gate: problem.code, why: problem.message.clone() });
                state.span.iter_mut().for_each(|span| span.fail(problem.code));
                Err(problem)
            }
        }
    }

    fn ask(&self, name: &str, verdict: Option<&PolicyVerdict>, record: Record) -> Result<Judged, LedgerError> {
        let first = std::mem::take(&mut self.state().first);
        let who = self.who();
        let wish = wish(&self.gateway, &who, name, verdict);
        gates(&self.gateway, &who, &wish, &self.subject, (record, &first))
    }

    /// Records the end of a call.
    ///
    /// # Errors
    /// It was refused: by a gate, the policy or a person; another gateway works in the workspace now; or the database fails.
    pub fn ended(&self, name: &str, verdict: Option<&PolicyVerdict>, outcome: &Outcome) -> Answered<Ended> {
        let (judged, began, span) = {
            let mut state = self.state();
            (state.judged.take(), state.began.take(), state.span.take())
        };
        if let Some(mut span) = span {
            outcome.receipt_id.iter().for_each(|id| span.set(names::RECEIPT, id.as_str()));
            outcome.error.iter().for_each(|error| span.fail(error.code));
        }
        let reservation = judged.as_ref().and_then(|judged| judged.as_ref().ok()?.reservation.clone());
        let is_denied = outcome.error.as_ref().is_some_and(|error| error.code == "denied");
        if is_denied {
            self.gateway.metrics.tool_denials.fetch_add(1, Ordering::Relaxed);
        }
        let ended = match self.check_lease() {
            Err(problem) => Err(problem),
            Ok(()) if is_denied => Err(self.denied(name, verdict, judged, outcome)),
            Ok(()) => self.settled(name, judged, began, outcome),
        };
        // The database may have noticed the loss only while the end was written.
        if ended.is_err() && self.gateway.ledger.leases().is_lost(&self.who) {
            self.settle_unknown(name, reservation.as_deref());
            self.check_lease()?;
        }
        anchor_receipts(&self.gateway, &self.who_at_end());
        ended
    }

    /// Refuses to continue without the workspace.
    fn check_lease(&self) -> Answered<()> {
        Ok(self.gateway.ledger.leases().check(&self.who)?)
    }

    /// Settles a call in a workspace that another gateway may have by now: its effects are unknown.
    fn settle_unknown(&self, name: &str, reservation: Option<&str>) {
        let why = "another gateway may work in the workspace since it ran";
        let draft = self.draft("action.unknown", json!({"action_name": name, "why": why}));
        let settled = reservation.map(|id| self.gateway.ledger.safety().settle_unknown(&self.who_at_end(), id, &draft));
        if let Some(Err(error)) = settled {
            tracing::error!(event = "action_not_settled", why = error.to_string());
        }
    }

    /// Writes down the end of a call that ran.
    fn settled(
        &self,
        name: &str,
        judged: Option<Result<Judged, LedgerError>>,
        began: Option<Instant>,
        outcome: &Outcome,
    ) -> Answered<Ended> {
        let judged = judged.transpose()?;
        let mut event_ids = judged.as_ref().map(|judged| judged.event_ids.clone()).unwrap_or_default();
        event_ids.extend(self.told_first()?);
        let kind = if outcome.success { "action.completed" } else { "action.failed" };
        let body = json!({"action_name": name, "success": outcome.success, "receipt_id": outcome.receipt_id,
            "error": outcome.error.as_ref().map(|error| error.code),
            "ms": began.map(|began| u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX))});
        let reservation = judged.as_ref().and_then(|judged| judged.reservation.as_deref());
        let draft = self.draft(kind, body);
        event_ids.push(self.gateway.ledger.safety().settle(&self.who(), reservation, false, &draft)?);
        Ok(Ended { judged, event_ids })
    }

    /// Writes the request down, if no decision did.
    fn told_first(&self) -> Answered<Vec<String>> {
        let first = std::mem::take(&mut self.state().first);
        if first.is_empty() {
            return Ok(Vec::new());
        }
        let stored = self.gateway.ledger.append(&self.who(), &first, None)?;
        Ok(stored.into_iter().map(|it| it.event_id).collect())
    }

    /// The error of a call that was refused.
    fn denied(
        &self,
        name: &str,
        verdict: Option<&PolicyVerdict>,
        judged: Option<Result<Judged, LedgerError>>,
        outcome: &Outcome,
    ) -> Problem {
        let why = outcome.error.as_ref().map(|error| error.message.clone()).unwrap_or_default();
        let is_personal = self.state().blocked.as_ref().is_some_and(|blocked| blocked.gate == PERSONAL);
        let code = match verdict.map(|verdict| verdict.decision) {
            _ if is_personal => PERSONAL,
            Some(Decision::Ask) => "approval",
            _ => "policy",
        };
        match judged {
            Some(Err(error)) => return error.into(),
            Some(Ok(judged)) => {
                if let Some(problem) = blocked(&judged) {
                    return problem;
                }
                // The gates admitted it, and it was refused afterwards: it never ran.
                let draft = self.draft(
                    "action.failed",
                    json!({"action_name": name, "success": false, "error": "denied",
                    "receipt_id": outcome.receipt_id}),
                );
                if let Err(error) =
                    self.gateway.ledger.safety().settle(&self.who(), judged.reservation.as_deref(), true, &draft)
                {
                    return error.into();
                }
            }
            None => {}
        }
        let mut context = json!({"receipt_id": outcome.receipt_id, "risk": outcome.metadata.get("risk")});
        if let Ok(judged) = self.ask(name, verdict, Record::Refused(code)) {
            // The emergency stop is checked before any gate.
            if let Some(problem) = blocked(&judged) {
                return problem;
            }
            context["decisions"] = judged.to_value();
            context["event_ids"] = judged.event_ids.into();
        }
        Problem::new(403, code, why).context(context)
    }
}

/// Writes the end of a project's chain of receipts into its tenant's log, as a witness that cannot be altered by changing the
/// chain here. This happens every so many receipts or minutes, at the call that finds it due.
fn anchor_receipts(gateway: &Gateway, who: &Identity) {
    let Ok(Some(home)) = gateway.known_home(who) else { return };
    let Some((seq, hash)) = home.receipts(&gateway.parts).ok().flatten().and_then(|options| receipts::end(&options))
    else {
        return;
    };
    {
        let mut anchored = home.anchored.lock();
        let (at, last) = *anchored.get_or_insert((gateway.started, seq));
        if seq < last + receipts::ANCHOR_EVERY && (seq == last || at.elapsed() < ANCHOR_EVERY) {
            return;
        }
        *anchored = Some((Instant::now(), seq));
    }
    let draft = EventDraft {
        event_type: "receipts.anchor".into(),
        source: "engine".into(),
        stream: Some("dataset:receipts".into()),
        body: json!({"node": gateway.node_id, "seq": seq, "hash": hash}),
        ..EventDraft::default()
    };
    if let Err(error) = gateway.ledger.append(who, &[draft], None) {
        tracing::warn!(event = "anchor_not_stored", why = error.to_string());
    }
}

impl Chain for TeamChain {
    fn decide(&self, call: &ToolWish, verdict: &PolicyVerdict) -> Result<(), Blocked> {
        if let Some(blocked) = self.state().blocked.clone() {
            return Err(blocked);
        }
        if let Err(error) = self.gateway.ledger.leases().check(&self.who) {
            self.gateway.metrics.blocked(WORKSPACE);
            return Err(Blocked { gate: WORKSPACE, why: error.to_string() });
        }
        if let Some(blocked) = self.holds_personal(&call.action, &call.arguments.to_string()) {
            return Err(blocked);
        }
        // A call that is admitted again (its changes are applied, or it runs once more with a right) has its place already.
        let is_held = matches!(&self.state().judged, Some(Ok(before)) if before.reservation.is_some());
        let record = if is_held { Record::Peek } else { Record::Reserve };
        let judged = self.ask(&call.tool, Some(verdict), record);
        let blocked = match &judged {
            Ok(judged) => judged.block().map(|(gate, reason, _)| Blocked { gate: gate.word(), why: reason.to_owned() }),
            Err(error @ LedgerError::LeaseLost { .. }) => Some(Blocked { gate: WORKSPACE, why: error.to_string() }),
            Err(error) => Some(Blocked { gate: "kill_switch", why: error.to_string() }),
        };
        if !is_held {
            self.state().began = Some(Instant::now());
            self.state().judged = Some(judged);
        }
        blocked.map_or(Ok(()), Err)
    }
}

/// Lets the gates decide; the emergency stop of this machine is one of their facts.
pub fn gates(
    gateway: &Gateway,
    who: &Identity,
    wish: &Wish,
    subject: &Subject,
    record: (Record, &[EventDraft]),
) -> Result<Judged, LedgerError> {
    let node = gateway.stopped().map(|why| {
        let (since, by) = gateway.stop_noted().unzip();
        let by = by.map_or_else(|| "this machine".to_owned(), |by| format!("{by} of this machine"));
        Stop { scope: "node".into(), since, by, why: Some(why) }
    });
    let judged = gateway.ledger.safety().gates(who, wish, subject, node.as_ref(), record)?;
    if let Some((gate, ..)) = judged.block() {
        gateway.metrics.blocked(gate.word());
    }
    Ok(judged)
}

/// The error of a gate that blocks.
pub fn blocked(judged: &Judged) -> Option<Problem> {
    let (gate, reason, context) = judged.block()?;
    let mut context = context.clone();
    context["decisions"] = judged.to_value();
    context["event_ids"] = judged.event_ids.clone().into();
    Some(Problem::new(403, gate.word(), reason).context(context))
}

/// Asks the gates about something that isn't a tool, without reserving anything: only a block is recorded.
///
/// # Errors
/// A gate blocks, or the database fails.
pub fn peek(gateway: &Gateway, who: &Identity, name: &str, subject: &Subject) -> Answered<()> {
    let judged = gates(gateway, who, &wish(gateway, who, name, None), subject, (Record::Peek, &[]))?;
    blocked(&judged).map_or(Ok(()), Err)
}

/// Lets the gates decide about something that isn't a tool, such as a command on a canvas.
///
/// # Errors
/// A gate blocks, or the database fails.
pub fn admit(gateway: &Gateway, who: &Identity, name: &str, subject: &Subject) -> Answered<Judged> {
    let judged = gates(gateway, who, &wish(gateway, who, name, None), subject, (Record::Admit, &[]))?;
    blocked(&judged).map_or(Ok(judged), Err)
}

/// Commits a command on a canvas, of a client or of an agent's tool: the gates decide, then the log.
///
/// # Errors
/// The canvas is another project's, a gate blocks, the command can't be applied, or the database fails.
pub fn command(gateway: &Gateway, who: &Identity, id: &str, command: &Command) -> Answered<Value> {
    gateway.ledger.canvases().check_canvas(who, id)?;
    admit(gateway, who, "canvas_command", &Subject { kind: "canvas".into(), id: id.to_owned() })?;
    match gateway.ledger.canvases().command(who, id, command)? {
        Committed::Done(mut answer, is_old) => {
            answer["replayed"] = is_old.into();
            Ok(answer)
        }
        Committed::Conflict { head_rev, recovery_ops } => {
            let problem = Problem::new(409, "conflict", "the canvas has changed since that revision")
                .field("expected_rev", head_rev)
                .beside("head_rev", head_rev)
                .beside("applied_ops", json!([]));
            Err(match recovery_ops {
                Some(ops) => problem.beside("recovery_ops", ops),
                None => problem.beside("recovery_ops", json!([])).field("details", json!({"recovery": "snapshot"})),
            })
        }
        Committed::Ahead(head_rev) => Err(ahead(head_rev)),
        Committed::Invalid(error) => Err(invalid(&error)),
    }
}

fn ahead(head_rev: i64) -> Problem {
    let message = "base_rev is a revision that the canvas doesn't have yet";
    Problem::new(422, "op_invalid", message).field("expected_rev", head_rev)
}

fn invalid(error: &OpError) -> Problem {
    Problem::new(422, "op_invalid", error.to_string()).field("details", json!({"index": error.index}))
}

/// The boards of a caller, for the tools of their call or run.
pub fn boards(gateway: &Arc<Gateway>, who: &Identity) -> Boards {
    Some(Arc::new(CallersBoards { gateway: Arc::clone(gateway), who: who.clone() }))
}

struct CallersBoards {
    gateway: Arc<Gateway>,
    who: Identity,
}

impl CallersBoards {
    fn state(&self, canvas: &str) -> Answered<Arc<State>> {
        let known = is_id(canvas).then(|| self.gateway.ledger.canvases().canvas(&self.who, canvas));
        Ok(known.ok_or_else(Problem::not_found)??.state)
    }
}

impl Canvases for CallersBoards {
    fn read(&self, canvas: &str) -> Result<Value, ToolError> {
        let state = self.state(canvas).map_err(of_problem)?;
        Ok(json!({"canvas_id": canvas, "rev": state.rev, "atoms": state.atoms_value()}))
    }

    fn check(&self, canvas: &str, base_rev: i64, ops: &[Value]) -> Result<(), ToolError> {
        let state = match self.state(canvas) {
            Ok(state) => state,
            // The first command makes the canvas, unless it belongs to another project.
            Err(problem) if problem.code == "not_found" && is_id(canvas) => {
                self.gateway
                    .ledger
                    .canvases()
                    .check_canvas(&self.who, canvas)
                    .map_err(|error| of_problem(error.into()))?;
                Arc::default()
            }
            Err(problem) => return Err(of_problem(problem)),
        };
        match () {
            () if base_rev > state.rev => Err(of_problem(ahead(state.rev))),
            // An older base may be that of a call that was carried out before, so the log decides.
            () if base_rev < state.rev => Ok(()),
            () => canvas::fold(&state, ops).map(drop).map_err(|error| of_problem(invalid(&error))),
        }
    }

    fn commit(&self, canvas: &str, base_rev: i64, ops: &[Value], key: &str) -> Result<Value, ToolError> {
        let wanted = Command { base_rev, ops: ops.to_vec(), key: key.to_owned(), may_merge: true, source: "agent" };
        command(&self.gateway, &self.who, canvas, &wanted).map_err(of_problem)
    }
}

/// Returns a problem as the text for a model; for a conflict it includes the changes.
fn of_problem(problem: Problem) -> ToolError {
    let hint = match problem.code {
        "conflict" if problem.details.beside.contains_key("head_rev") => {
            let beside = &problem.details.beside;
            let since = beside.get("recovery_ops").cloned().unwrap_or_default();
            let rev = beside.get("head_rev").cloned().unwrap_or_default();
            let text = since.to_string();
            match since.as_array().is_some_and(|ops| !ops.is_empty()) && text.len() <= SINCE_BYTES_MAX {
                true => format!("it is at revision {rev}; since base_rev: {text}"),
                false => format!("it is at revision {rev}; read it again with canvas_read"),
            }
        }
        "op_invalid" => match problem.details.fields.get("expected_rev") {
            Some(rev) => format!("it is at revision {rev}"),
            None => "nothing was changed".to_owned(),
        },
        _ => String::new(),
    };
    ToolError::new(problem.code, problem.message, hint)
}
