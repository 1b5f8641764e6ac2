//! The threads that answer, one for each conversation that is live.

use parking_lot::{Mutex, MutexGuard};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::time::Duration;

use serde_json::json;

use super::chained::{TeamChain, boards};
use super::live::{Job, LiveRun};
use super::person::Remote;
use super::traced::ModelTracer;
use super::turns::Most;
use crate::app::{Channel, ChannelKind, Request, Resume, Runtime, Skills};
use crate::config::Settings;
use crate::gate::Chain;
use crate::gateway::Gateway;
use crate::gateway::http::call::{Progress, Reply};
use crate::gateway::http::problem::{Answered, Problem};
use crate::gateway::identity::log_span;
use crate::ledger::{LedgerError, NewRun, RunEnd, Subject};
use crate::proto::team::{EventDraft, Identity, Mode};
use crate::proto::tool::Step;
use crate::proto::wire::Line;
use crate::proto::{Event, Failure, FailureKind, Shortfall, Spent};
use crate::schema::Schema;
use crate::shell::supervise::Ending;
use crate::store::ConversationId;

/// Time without a question after which a conversation leaves the memory; the next question reads it from the store.
const PARKED: Duration = Duration::from_secs(5 * 60);
/// Conversations that wait there for their next question.
const PARKED_MAX: usize = 64;

/// The state of a run that its gateway couldn't bring to an end.
const INTERRUPTED: &str = "interrupted";
/// The flag of a tenant whose texts may be used to train models.
const TRAINING: &str = "train_ok";

/// Refuses a run if a provider might train on a tenant's texts that doesn't want it. A run may ask any of the models: for its
/// answer, as a fall-back, for a title or a memory. In the mode `lab` the tenant is the user, who has chosen the models.
fn check_training(gateway: &Gateway, who: &Identity) -> Answered<()> {
    let may_train = gateway.ledger.safety().flag(&who.tenant, TRAINING)?.unwrap_or(who.mode == Mode::Lab);
    let models = &gateway.parts.settings.models;
    let Some((name, _)) = models.iter().find(|(_, model)| !may_train && !model.no_training) else { return Ok(()) };
    let message = "a provider might train on what it gets, and this tenant doesn't allow that";
    Err(Problem::new(403, "train_ok", message).context(json!({"model": name})))
}

/// Makes a run and hands it to its conversation's thread.
///
/// # Errors
/// The tenant's texts would train a model, a limit on its costs is reached, the conversation is answering another question, or
/// there are no more threads.
pub fn begin(gateway: &Arc<Gateway>, conversation: Option<i64>, job: Job) -> Answered<()> {
    check_training(gateway, &job.run.who)?;
    // The gates only stop calls of tools. If the budget is used up, no model is asked either.
    if let Some(limit) = gateway.ledger.safety().used_up(&job.run.who)? {
        gateway.metrics.blocked("budget");
        return Err(Problem::new(403, "budget", limit.used_up()).context(limit.to_value()));
    }
    let live = &gateway.live;
    live.add(&job.run);
    let busy = || Problem::new(409, "in_progress", "the conversation answers another question");
    let mut job = job;
    if let Some(id) = conversation {
        let key = (job.run.who.tenant.clone(), job.run.who.project.clone(), id);
        let mut threads = live.threads.lock();
        if let Some(thread) = threads.get(&key) {
            match thread.try_send(job) {
                Ok(()) => return Ok(()),
                Err(TrySendError::Full(_)) => return Err(busy()),
                Err(TrySendError::Disconnected(back)) => job = back,
            }
            threads.remove(&key);
        }
    }
    let (jobs, received) = sync_channel(1);
    let at_work = Arc::clone(gateway);
    let key_jobs = jobs.clone();
    let thread = std::thread::Builder::new().name("gw-run".into());
    let started = thread.spawn(move || serve(&at_work, conversation, job, &key_jobs, &received));
    started.map(drop).map_err(|_| Problem::overloaded())
}

/// Answers the questions of one conversation until none comes for a while.
fn serve(
    gateway: &Arc<Gateway>,
    conversation: Option<i64>,
    first: Job,
    jobs: &SyncSender<Job>,
    received: &Receiver<Job>,
) {
    let who = first.run.who.clone();
    let failed = |failure: Failure| fail(gateway, &first, failure);
    let runtime = match started(gateway, &who, conversation) {
        Ok(runtime) => runtime,
        Err(failure) => return failed(failure),
    };
    let http = Http { gateway: Arc::clone(gateway), now: Mutex::new(None) };
    let mut runtime = runtime;
    let mut next = Some(first);
    let mut key = None;
    while let Some(job) = next.take() {
        let span = log_span(&job.run.who);
        span.in_scope(|| answer(gateway, &http, &mut runtime, job));
        if key.is_none()
            && let Some(id) = runtime.agent().conversation()
        {
            let new = (who.tenant.clone(), who.project.clone(), id.0);
            let mut threads = gateway.live.threads.lock();
            threads.insert(new.clone(), jobs.clone());
            key = Some(new);
        }
        let is_full = gateway.live.threads.lock().len() > PARKED_MAX;
        next = received.recv_timeout(if is_full { Duration::ZERO } else { PARKED }).ok();
        if next.is_none()
            && let Some(key) = &key
        {
            // A later message starts a new thread; what came in between is still answered.
            gateway.live.threads.lock().remove(key);
            next = received.try_recv().ok();
        }
    }
}

/// A runtime for a conversation, as the shell's, in the home of its project.
fn started(gateway: &Gateway, who: &Identity, conversation: Option<i64>) -> Result<Runtime, Failure> {
    let parts = &gateway.parts;
    let home = gateway.home(who).map_err(|problem| Failure::unavailable(problem.message))?;
    let workspace = &home.workspace;
    let mut runtime = Runtime::start(&Request {
        config: parts.config.clone(),
        resume: conversation.map(Resume::Id),
        channel: ChannelKind::Gateway,
        cwd: workspace.exists().then(|| workspace.clone()),
        store: Some(Arc::clone(&home.store)),
        ..Request::default()
    })?;
    if !home.is_machines {
        let settings = runtime.settings().clone();
        runtime.replace_settings(Settings { receipts: home.settings.receipts.clone(), ..settings });
        // The directories around the workspace belong to this machine's user and are no concern of other projects.
        runtime.carry_project(false);
    }
    runtime.take_tools(workspace);
    let _ = Skills::around(runtime.env(), workspace);
    Ok(runtime)
}

/// A run that couldn't begin.
fn fail(gateway: &Gateway, job: &Job, failure: Failure) {
    let new = NewRun { run_id: job.run.run_id.clone(), question: String::new(), origin: job.origin.clone() };
    if gateway.ledger.runs().begin(&job.run.who, &new).is_ok() {
        let event = Event::Failed { text: String::new(), failure };
        show(gateway, &job.run, &event);
    }
    end(gateway, job);
}

/// Answers one question.
fn answer(gateway: &Arc<Gateway>, http: &Http, runtime: &mut Runtime, job: Job) {
    let run = &job.run;
    let user = (run.who.tenant.as_str(), run.who.user.as_str());
    if !gateway.live.turns.take(user, turns_of(gateway, run.who.mode), &run.cancel) {
        let failure = Failure::refused("it was cancelled before it began");
        return fail(gateway, &job, failure);
    }
    runtime.agent_mut().hide_personal(gateway.hides_personal(&run.who.tenant));
    let question = runtime.agent().redacted(&job.message);
    let new = NewRun { run_id: run.run_id.clone(), question, origin: job.origin.clone() };
    if let Err(error) = gateway.ledger.runs().begin(&run.who, &new) {
        gateway.live.turns.end(user);
        let _ = job.steps.send(Progress::Done(Box::new(Err(error.into()))));
        return run.over();
    }
    if job.is_async {
        let _ = job.steps.send(Progress::Asked(json!({"run_id": run.run_id})));
    }
    if let Some(model) = &job.model
        && let Err(failure) = runtime.agent_mut().use_model(model)
    {
        gateway.live.turns.end(user);
        show(gateway, run, &Event::Failed { text: String::new(), failure });
        return end(gateway, &job);
    }
    runtime.agent_mut().speak_as(job.persona.clone());
    runtime.agent_mut().answer_as(job.schema.clone());
    runtime.agent_mut().trace_by(Some(Arc::new(ModelTracer::new(gateway, &run.who))));
    let subject = Subject { kind: "run".into(), id: run.run_id.clone() };
    let chain = Arc::new(TeamChain::new(gateway, run.who.clone(), subject));
    chain.next_step();
    if let Some(runner) = runtime.agent_mut().runner() {
        runner.gate().set_chain(Arc::clone(&chain) as Arc<dyn Chain>);
        runner.lend_boards(boards(gateway, &run.who));
    }
    let following = Arc::clone(run);
    let person = Remote {
        gateway: Arc::clone(gateway),
        chain: Arc::clone(&chain),
        cancel: run.cancel.clone(),
        on_asked: Box::new(move |id| following.push(&json!({"event": "question", "question_id": id}))),
        question_id: None,
        by: None,
    };
    let redact = runtime.agent().redactor().hiding();
    let schema = job.schema.as_ref().and_then(|text| Schema::new(serde_json::from_str(text).ok()?).ok());
    *http.now() = Some(Current { run: Arc::clone(run), chain, schema, redact });
    if runtime.agent().conversation().is_none() {
        gateway.metrics.conversations.fetch_add(1, Ordering::Relaxed);
    }
    let mut person = person;
    if job.can_ask {
        runtime.answer(http, &job.message, &run.cancel, &mut person);
    } else {
        runtime.answer(http, &job.message, &run.cancel, &mut crate::agent::Nobody);
    }
    *http.now() = None;
    run.shown().conversation = runtime.agent().conversation().map(|id| gateway.homes.id_outside(id.0));
    runtime.agent_mut().answer_as(None);
    crate::app::make_title(runtime.agent(), runtime.store());
    gateway.live.turns.end(user);
    end(gateway, &job);
}

/// Returns the limits on turns. In the mode `lab` a user is usually alone, and may use all of them.
fn turns_of(gateway: &Gateway, mode: Mode) -> Most {
    let settings = &gateway.parts.settings.gateway;
    let whole = |number: u64| usize::try_from(number).unwrap_or(1);
    let all = whole(settings.runs_max);
    Most { all, of_user: if mode == Mode::Lab { all } else { whole(settings.limits.user_runs) } }
}

/// Records how a run ended, and answers the callers that wait for it.
fn end(gateway: &Gateway, job: &Job) {
    let run = &job.run;
    let (end, text, usage, receipts, conversation) = {
        let shown = run.shown();
        let [read, written, pico] = shown.usage;
        let usage = json!({"input_tokens": read, "output_tokens": written, "cost_pico_usd": pico});
        (shown.end.clone(), shown.text.clone(), usage, shown.receipts.clone(), shown.conversation)
    };
    let interrupted = Failure::internal("it ended without an answer");
    let (mut state, mut failure) = end.unwrap_or(("failed", Some(interrupted)));
    if *gateway.stopping.borrow() && state == "cancelled" {
        state = INTERRUPTED;
    }
    let message = failure.as_ref().map(|failure| failure.message.clone());
    let row =
        RunEnd { state, text: text.clone(), failure: message, usage: usage.clone(), conversation_id: conversation };
    let lost = store_end(gateway, run, row);
    if let Some(problem) = &lost {
        (state, failure) = (INTERRUPTED, Some(Failure::refused(problem.message.clone())));
    }
    run.trace_end(state, failure.as_ref());
    run.over();
    let value = json!({"run_id": run.run_id, "conversation_id": conversation, "state": state, "text": text,
        "usage": usage, "receipts": receipts});
    let done = match (lost, failure) {
        (Some(problem), _) => Err(problem.context(value)),
        (None, None) => Ok(Reply::ok(value)),
        (None, Some(failure)) => Err(of_failure(&failure).context(value)),
    };
    let _ = job.steps.send(Progress::Done(Box::new(done)));
}

/// Stores the end of a run. If another gateway may already work in its workspace, the run counts as interrupted, which is
/// returned, and its end isn't part of the workspace's work.
fn store_end(gateway: &Gateway, run: &LiveRun, row: RunEnd) -> Option<Problem> {
    let (ledger, who) = (&gateway.ledger, &run.who);
    let ended = ledger.leases().check(who).and_then(|()| ledger.runs().end(who, &run.run_id, &row));
    let (lost, ended) = match ended {
        Err(error @ LedgerError::LeaseLost { .. }) => {
            let row = RunEnd { state: INTERRUPTED, failure: Some(error.to_string()), ..row };
            let who = Identity { lease: None, ..who.clone() };
            (Some(error.into()), ledger.runs().end(&who, &run.run_id, &row))
        }
        ended => (None, ended),
    };
    if let Err(error) = ended {
        tracing::error!(event = "run_end_not_stored", why = error.to_string());
    }
    lost
}

/// The error of a run that failed.
fn of_failure(failure: &Failure) -> Problem {
    let (status, code) = match failure.kind {
        FailureKind::User => (422, "schema_invalid"),
        FailureKind::Refused => (403, "forbidden"),
        FailureKind::Budget => (403, "budget"),
        // A key that the server refuses is the config's fault, and the server's answer. Without a model there is no answer, either.
        FailureKind::Config | FailureKind::Unreachable | FailureKind::Unavailable | FailureKind::NoModel => {
            (502, "upstream")
        }
        FailureKind::Internal => (500, "internal"),
    };
    // A hint that names a command of the shell doesn't help here.
    let is_for_shell = failure.hint.split_whitespace().any(|word| word.len() > 1 && word.starts_with(':'));
    let hint = if failure.hint.is_empty() || is_for_shell { String::new() } else { format!("; {}", failure.hint) };
    let problem = Problem::new(status, code, format!("{}{hint}", failure.message));
    let Some(upstream) = &failure.upstream else { return problem };
    let problem = problem.field("upstream", upstream.model.clone());
    match upstream.http_status {
        Some(status) => problem.field("http_status", status),
        None => problem,
    }
}

/// HTTP as a channel: events of an answer go to those who follow its run.
struct Http {
    gateway: Arc<Gateway>,
    now: Mutex<Option<Current>>,
}

/// The run that is answered.
struct Current {
    run: Arc<LiveRun>,
    chain: Arc<TeamChain>,
    /// The schema that its answer must match.
    schema: Option<Schema>,
    redact: Box<dyn Fn(&str) -> String + Send>,
}

impl Http {
    fn now(&self) -> MutexGuard<'_, Option<Current>> {
        self.now.lock()
    }
}

impl Channel for Http {
    fn name(&self) -> &'static str {
        ChannelKind::Gateway.word()
    }

    fn start(&self, _: Runtime) -> Ending {
        // Questions come one by one, by requests.
        Ending::Exit(0)
    }

    fn send(&self, _: Option<ConversationId>, message: Event) {
        let now = self.now();
        let Some(Current { run, chain, schema, redact }) = &*now else { return };
        let message = match message {
            Event::Text(text) => Event::Text(redact(&text)),
            Event::Thought(text) => Event::Thought(redact(&text)),
            Event::Notice(text) => Event::Notice(redact(&text)),
            Event::Answered { text, shortfall } => held(schema.as_ref(), redact(&text), shortfall),
            Event::Cancelled { text } => match self.gateway.ledger.leases().check(&run.who) {
                Err(error @ LedgerError::LeaseLost { .. }) => {
                    Event::Failed { text: redact(&text), failure: Failure::refused(error.to_string()) }
                }
                _ => Event::Cancelled { text: redact(&text) },
            },
            Event::Failed { text, failure } => Event::Failed { text: redact(&text), failure },
            other => other,
        };
        match &message {
            Event::Tool(event) => match &event.step {
                Step::Requested { .. } => chain.requested(&event.tool, Some(&event.id)),
                Step::Done { outcome, .. } => {
                    // A refusal is written down; the model reads it in the call's result.
                    let _ = chain.ended(&event.tool, None, outcome);
                    run.shown().receipts.extend(outcome.receipt_id.clone());
                }
                Step::Approved | Step::Denied { .. } => {}
            },
            // A model has answered: the calls that it requests belong to the same step.
            Event::Usage(spent) => {
                chain.next_step();
                note_cost(&self.gateway, run, chain, spent);
            }
            _ => {}
        }
        show(&self.gateway, run, &message);
    }

    fn supports_draft_updates(&self) -> bool {
        true
    }
}

/// Returns the event that ends a run with an answer: only the JSON if a schema is set, or a failure if it doesn't match.
fn held(schema: Option<&Schema>, text: String, shortfall: Option<Shortfall>) -> Event {
    let Some(schema) = schema else { return Event::Answered { text, shortfall } };
    let problems = match schema.read(&text) {
        Ok(json) => return Event::Answered { text: json.to_owned(), shortfall },
        Err(problems) => problems.join("; "),
    };
    let message = format!("the answer doesn't match output_schema: {problems}");
    let hint = "ask once more, try another model, or a simpler schema";
    Event::Failed { text, failure: Failure::unavailable(message).hint(hint) }
}

/// Sends an event to the clients that follow the run.
fn show(gateway: &Gateway, run: &LiveRun, event: &Event) {
    {
        let mut shown = run.shown();
        match event {
            Event::Text(text) => shown.text.push_str(text),
            Event::Answered { text, .. } => {
                shown.text.clone_from(text);
                shown.end = Some(("answered", None));
            }
            Event::Cancelled { text } => {
                shown.text.clone_from(text);
                shown.end = Some(("cancelled", None));
            }
            Event::Failed { text, failure } => {
                shown.text.clone_from(text);
                shown.end = Some(("failed", Some(failure.clone())));
                if matches!(failure.kind, FailureKind::Config | FailureKind::Unreachable | FailureKind::Unavailable) {
                    gateway.metrics.provider_errors.fetch_add(1, Ordering::Relaxed);
                }
            }
            _ => {}
        }
    }
    let line = serde_json::from_str(&Line::of(event).to_json()).unwrap_or_default();
    run.push(&line);
}

/// Records the cost of a request to a model.
fn note_cost(gateway: &Gateway, run: &LiveRun, chain: &TeamChain, spent: &Spent) {
    let (read, written) = (spent.usage.total_in(), spent.usage.total_out());
    let pico = spent.cost.map_or(0, |cost| cost.pico());
    {
        let mut shown = run.shown();
        let [all_read, all_written, all_pico] = shown.usage;
        shown.usage = [all_read + read, all_written + written, all_pico + pico];
    }
    let whole = |number: u64| i64::try_from(number).unwrap_or(i64::MAX);
    let tokens = whole(read).saturating_add(whole(written));
    let body = json!({"storage_class": "cost", "provider": spent.served_as, "model": spent.model,
        "usage": {"tokens": tokens, "of": {"in": read, "out": written}}, "cost_pico_usd": pico});
    let draft = EventDraft {
        event_type: "cost".into(),
        source: "agent".into(),
        run_id: Some(run.run_id.clone()),
        body,
        ..EventDraft::default()
    };
    let note = |who: &Identity| gateway.ledger.safety().use_budget(who, &draft, whole(pico), tokens);
    // It costs as much if another gateway has the workspace by now.
    let noted = match note(&chain.who()) {
        Err(LedgerError::LeaseLost { .. }) => note(&chain.who_at_end()),
        noted => noted,
    };
    if let Err(error) = noted {
        tracing::error!(event = "cost_not_stored", why = error.to_string());
    }
}
