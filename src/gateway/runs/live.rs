//! Runs that outlive their connection: the events of each, stored for clients that reconnect, and the conversations that are
//! live.

use parking_lot::{Mutex, MutexGuard};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::sync::mpsc::SyncSender;

use serde_json::{Value, json};
use tokio::sync::mpsc::UnboundedSender;
use tokio::sync::watch;

use super::running::Place;
use super::turns::Turns;
use crate::agent::Cancel;
use crate::gateway::http::call::Progress;
use crate::gateway::traces::{Kind, Open, Traces, names};
use crate::ledger::{Work, uuid_v7};
use crate::proto::Failure;
use crate::proto::team::Identity;

/// Limit on the lines of a run in memory for clients that reconnect, and on their bytes. Older ones are replaced by the text so
/// far.
const LINES_MAX: (usize, usize) = (4_000, 2 * 1024 * 1024);
/// The agent, as traces name it.
const AGENT: &str = "reedclaw";
/// Ended runs whose events are still in memory.
const ENDED_MAX: usize = 64;

/// A run as its followers see it.
pub struct LiveRun {
    /// Its id.
    pub run_id: String,
    /// The caller.
    pub who: Identity,
    /// Stops it.
    pub cancel: Cancel,
    shown: Mutex<Shown>,
    /// Its span, until it ends.
    span: Mutex<Option<Open>>,
    /// Changes with each line.
    pub grown: watch::Sender<u64>,
}

/// The events of a run so far, and its current state.
#[derive(Default)]
pub(super) struct Shown {
    pub(super) lines: VecDeque<(u64, String)>,
    pub(super) bytes: usize,
    pub(super) last: u64,
    pub(super) text: String,
    pub(super) is_over: bool,
    pub(super) conversation: Option<i64>,
    pub(super) receipts: Vec<String>,
    pub(super) usage: [u64; 3],
    pub(super) end: Option<(&'static str, Option<Failure>)>,
}

impl LiveRun {
    pub(super) fn new(run_id: String, who: Identity, cancel: Cancel, span: Option<Open>) -> Arc<Self> {
        let (span, grown) = (Mutex::new(span), watch::Sender::new(0));
        Arc::new(Self { run_id, who, cancel, shown: Mutex::default(), span, grown })
    }

    /// Records in its span how it ended.
    pub(super) fn trace_end(&self, state: &str, failure: Option<&Failure>) {
        let Some(mut span) = self.span.lock().take() else { return };
        let ([read, written, _], conversation) = {
            let shown = self.shown();
            (shown.usage, shown.conversation)
        };
        span.set(names::STATE, state);
        span.set(names::INPUT_TOKENS, read);
        span.set(names::OUTPUT_TOKENS, written);
        conversation.iter().for_each(|id| span.set(names::CONVERSATION, id.to_string()));
        failure.iter().for_each(|failure| span.fail(format!("{:?}", failure.kind).to_lowercase()));
    }

    pub(super) fn shown(&self) -> MutexGuard<'_, Shown> {
        self.shown.lock()
    }

    pub(super) fn push(&self, line: &Value) {
        let text = line.to_string();
        {
            let mut shown = self.shown();
            shown.last += 1;
            shown.bytes += text.len();
            let number = shown.last;
            shown.lines.push_back((number, text));
            while shown.lines.len() > LINES_MAX.0 || shown.bytes > LINES_MAX.1 && shown.lines.len() > 1 {
                let gone = shown.lines.pop_front();
                shown.bytes -= gone.map_or(0, |(_, text)| text.len());
            }
        }
        self.grown.send_modify(|count| *count = count.wrapping_add(1));
    }

    /// The lines after a number, with their numbers, and whether the run is over. If some are gone, the text so far comes
    /// first.
    pub fn after(&self, after: u64) -> (Vec<(u64, String)>, bool) {
        let shown = self.shown();
        let mut lines = Vec::new();
        let first = shown.lines.front().map_or(shown.last + 1, |(number, _)| *number);
        if after + 1 < first {
            let line = json!({"event": "text_so_far", "text": shown.text}).to_string();
            lines.push((first - 1, line));
        }
        lines.extend(shown.lines.iter().filter(|(number, _)| *number > after).cloned());
        (lines, shown.is_over)
    }

    pub(super) fn over(&self) {
        drop(self.span.lock().take());
        self.shown().is_over = true;
        self.grown.send_modify(|count| *count = count.wrapping_add(1));
    }
}

/// A question for its conversation's thread.
pub struct Job {
    pub run: Arc<LiveRun>,
    pub message: String,
    pub model: Option<String>,
    /// The system prompt that replaces the model's own.
    pub persona: Option<String>,
    pub schema: Option<String>,
    /// Source of the question.
    pub origin: String,
    /// True if a person may be asked.
    pub can_ask: bool,
    pub steps: UnboundedSender<Progress>,
    /// True if the client only wants to know that it began.
    pub is_async: bool,
    #[expect(dead_code, reason = "the place is free again when the job is dropped")]
    pub place: Place,
    #[expect(dead_code, reason = "the work in the workspace ends when the job is dropped")]
    pub work: Option<Work>,
}

/// Runs, and the conversations that are live.
#[derive(Default)]
pub struct Live {
    runs: Mutex<BTreeMap<String, Arc<LiveRun>>>,
    /// The threads of conversations, by tenant, project and conversation.
    pub(super) threads: Mutex<BTreeMap<(String, String, i64), SyncSender<Job>>>,
    pub(super) turns: Turns,
}

impl Live {
    /// A run in memory.
    pub fn run(&self, who: &Identity, run_id: &str) -> Option<Arc<LiveRun>> {
        let runs = self.runs.lock();
        let found = runs.get(run_id)?;
        (found.who.tenant == who.tenant && found.who.project == who.project).then(|| Arc::clone(found))
    }

    pub(super) fn add(&self, run: &Arc<LiveRun>) {
        let mut runs = self.runs.lock();
        let ended: Vec<String> = runs.iter().filter(|(_, run)| run.shown().is_over).map(|(id, _)| id.clone()).collect();
        // Ids begin with the time, so the first are the oldest.
        for id in ended.iter().take(ended.len().saturating_sub(ENDED_MAX)) {
            runs.remove(id);
        }
        runs.insert(run.run_id.clone(), Arc::clone(run));
    }
}

/// A run that is about to begin.
pub fn new_run(traces: &Traces, who: &Identity, origin: &str, cancel: Cancel) -> Arc<LiveRun> {
    let run_id = uuid_v7();
    let who = Identity { run_id: Some(run_id.clone()), ..who.clone() };
    let (mut span, context) = traces.below(&who, Kind::Internal, (names::INVOKE_AGENT, AGENT));
    if let Some(span) = &mut span {
        span.set(names::AGENT, AGENT);
        span.set(names::ORIGIN, origin);
    }
    let who = Identity { span: context.map(|context| context.to_string()), ..who };
    LiveRun::new(run_id, who, cancel, span)
}
