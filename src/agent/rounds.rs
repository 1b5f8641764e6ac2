//! From a question to an answer in text: asks the model, carries out the calls that it makes, asks again with what came
//! of them. Knows how often and how long; not what a tool does.

use std::collections::BTreeSet;

use super::Limits;
use super::asked::Asked;
use super::compact::estimated;
use super::hands::Hands;
use super::recorder::PastCall;
use super::scribe::{Counted, Shorter};
use crate::model::{Fault, Item, ModelError, Provider, Request, Response, ToolCall, ToolResult};
use crate::proto::tool::{Outcome, ToolError};
use crate::proto::{Event, Failure, FailureKind, Usage};

/// Calls that one answer may make; a model that makes more has lost its way.
const CALLS_MAX: usize = 32;

/// Why a turn ended without a whole answer.
pub(super) enum Broken {
    Cancelled,
    Failed(Failure),
}

/// One question on its way.
pub(super) struct Turn<'t, 'a, 's> {
    pub(super) provider: &'t dyn Provider,
    pub(super) asked: &'t mut Asked<'a>,
    pub(super) shorter: &'t mut Shorter<'s>,
    pub(super) hands: Option<&'t mut Hands>,
    pub(super) limits: &'t Limits,
    /// Models of which it was said that they have no room for tools.
    pub(super) roomless: &'t mut BTreeSet<String>,
    /// What is told a model that has no tools.
    pub(super) command_prompt: &'t str,
    pub(super) tool_prompt: &'t str,
    pub(super) conversation: Option<i64>,
}

/// What a turn left behind.
pub(super) struct Turned {
    pub(super) end: Result<Response, Broken>,
    /// The calls and what came of them, between question and answer.
    pub(super) trail: Vec<Item>,
    /// The model turned out to have no tools.
    pub(super) has_no_tools: bool,
    /// The server's count of the newest request, if it gave one.
    pub(super) counted: Option<Counted>,
}

impl Turn<'_, '_, '_> {
    /// Asks until the answer is text.
    pub(super) fn run(mut self, mut request: Request) -> Turned {
        let mut question_at = request.messages.len();
        let mut counted = None;
        let mut seen: Vec<(String, usize)> = Vec::new();
        let mut rounds = 0;
        let mut has_no_tools = false;
        let end = loop {
            self.make_ready(&mut request, &mut question_at, counted);
            let end = self.provider.chat(&request, self.asked);
            self.asked.settle(&end);
            let response = match end {
                _ if self.asked.is_too_long => break Err(too_long(self.limits)),
                Ok(response) => {
                    let read = response.usage.as_ref().map(Usage::total_in).filter(|tokens| *tokens > 0);
                    counted = read.map(|tokens| Counted { tokens, estimated: estimated(&request) }).or(counted);
                    response
                }
                Err(error)
                    if matches!(error.fault, Fault::ContextOverflow { .. })
                        && let Some(before) =
                            self.shorter.shorten_refused(self.provider, estimated(&request), self.asked) =>
                {
                    question_at = replace_start(&mut request, question_at, before);
                    continue;
                }
                Err(error) if self.lacks_tools(&request, &error) => {
                    has_no_tools = self.go_without_tools(&mut request, &error);
                    continue;
                }
                Err(error) if error.fault == Fault::Cancelled => break Err(Broken::Cancelled),
                Err(error) => break Err(Broken::Failed(error.to_failure())),
            };
            let Response { text, state, .. } = &response;
            let calls = &distinct(&response);
            let Some(hands) = self.hands.as_deref_mut().filter(|_| !calls.is_empty() && !request.tools.is_empty())
            else {
                break Ok(response);
            };
            let called = Item::Assistant { text: text.clone(), calls: calls.clone(), state: state.clone() };
            request.messages.push(called);
            rounds += 1;
            let is_last = rounds >= self.limits.rounds_max;
            for (number, call) in calls.iter().enumerate() {
                let outcome = if number < CALLS_MAX {
                    carry_out(hands, call, self.conversation, self.asked)
                } else {
                    ToolError::new("too-many", format!("more than {CALLS_MAX} calls in one answer"), "").into()
                };
                request.messages.push(result(call, &outcome, is_last));
                note(&mut seen, call, &outcome);
            }
            check(hands, self.conversation, self.asked, &mut request);
            if self.asked.cancel.is_cancelled() {
                break Err(Broken::Cancelled);
            }
            if seen.iter().any(|(_, times)| *times >= self.limits.repeats_max) {
                break Err(repeats(self.limits));
            }
            if is_last {
                let notice =
                    format!("[tools] {rounds} rounds of tools are the limit: the model is asked to answer now");
                (self.asked.sink)(Event::Notice(notice));
                request.tools.clear();
            }
            self.asked.is_between_rounds = true;
        };
        let trail = request.messages.split_off(question_at.min(request.messages.len()));
        Turned { end, trail, has_no_tools, counted }
    }

    /// Hides secrets in a request, and shortens one that is about to be too long for the model.
    fn make_ready(&mut self, request: &mut Request, question_at: &mut usize, counted: Option<Counted>) {
        self.asked.secrets.hide_in(request);
        if let Some(told) = self.asked.secrets.take_told() {
            (self.asked.sink)(Event::Notice(told));
        }
        let tokens = estimated(request);
        if let Some(counted) = counted
            && self.shorter.is_due(counted, tokens)
            && let Some(before) = self.shorter.shorten(self.provider, counted, tokens, self.asked)
        {
            *question_at = replace_start(request, *question_at, before);
        }
    }

    /// Takes the tools out of a request that a server refused because of them; returns whether the model takes none at all.
    fn go_without_tools(&mut self, request: &mut Request, error: &ModelError) -> bool {
        // If only the room is missing, the next question may have it.
        let is_full = matches!(error.fault, Fault::ContextOverflow { .. });
        let why = if is_full { "has no room for tools" } else { "takes no tools" };
        let model = &error.model;
        // A small window has no room with each question: one notice is enough.
        if !is_full || self.roomless.insert(model.clone()) {
            (self.asked.sink)(Event::Notice(proposes_instead(model, why)));
        }
        request.tools.clear();
        swap_prompt(request, self.tool_prompt, self.command_prompt);
        !is_full
    }

    /// Whether a server said no because of the tools that went with the question, or may have: they take room.
    fn lacks_tools(&self, request: &Request, error: &ModelError) -> bool {
        let said = match &error.fault {
            Fault::Server { said, .. } | Fault::Rejected { said, .. } | Fault::NotFound { said } => said.to_lowercase(),
            Fault::ContextOverflow { .. } => "tools".to_owned(),
            _ => return false,
        };
        !request.tools.is_empty() && self.asked.text.is_empty() && (said.contains("tool") || said.contains("function"))
    }
}

/// Puts the shorter conversation in front of the question's calls; gives where those begin now.
fn replace_start(request: &mut Request, question_at: usize, start: Vec<Item>) -> usize {
    let length = start.len();
    request.messages.splice(..question_at, start);
    length
}

/// The calls of an answer, each once: small models say the same twice, and what is inserted twice is wrong. Where a provider
/// wants its own parts back, each call in them needs a result.
fn distinct(response: &Response) -> Vec<ToolCall> {
    let is_first = |(number, call): &(usize, &ToolCall)| {
        let before = &response.calls[..*number];
        response.state.is_some() || !before.iter().any(|it| it.name == call.name && it.arguments == call.arguments)
    };
    response.calls.iter().enumerate().filter(is_first).map(|(_, call)| call.clone()).collect()
}

/// What a person is told of a model without tools.
pub(super) fn proposes_instead(model: &str, why: &str) -> String {
    format!("[model] {model} {why}: it proposes commands for you to run instead")
}

fn carry_out(hands: &mut Hands, call: &ToolCall, conversation: Option<i64>, asked: &mut Asked<'_>) -> Outcome {
    if asked.cancel.is_cancelled() {
        return ToolError::new("stopped", "the user stopped it", "").into();
    }
    let Asked { sink, cancel, person, record, secrets, .. } = asked;
    let outcome = hands.call(call, conversation, cancel, *person, *sink);
    let hide = |text: &str| secrets.redactor.redact(text).text.into_owned();
    let past = PastCall {
        id: call.id.clone(),
        tool: call.name.clone(),
        arguments: hide(&call.arguments),
        result: hide(&outcome.to_value().to_string()),
        is_done: outcome.success,
        receipt: outcome.receipt_id.clone(),
    };
    record.keep(*sink, |it| it.tool(&past));
    outcome
}

/// Runs the project's check, where edits were made, and tells the model with the last result of the round.
fn check(hands: &mut Hands, conversation: Option<i64>, asked: &mut Asked<'_>, request: &mut Request) {
    let Asked { sink, cancel, person, .. } = asked;
    if let Some(told) = hands.check(conversation, cancel, *person, *sink)
        && let Some(Item::Tool(last)) = request.messages.last_mut()
    {
        last.content.push_str(&format!("\n{told}"));
    }
}

/// What the model reads of a call.
fn result(call: &ToolCall, outcome: &Outcome, is_last: bool) -> Item {
    let mut content = match (&outcome.error, outcome.success && outcome.metadata.is_empty()) {
        (None, true) => outcome.output.clone(),
        _ => outcome.to_value().to_string(),
    };
    if is_last {
        content.push_str("\n[No more tools can be called for this question. Answer now with what you have.]");
    }
    Item::Tool(ToolResult { id: call.id.clone(), name: call.name.clone(), content, is_error: !outcome.success })
}

/// Counts how often a call gave the same.
fn note(seen: &mut Vec<(String, usize)>, call: &ToolCall, outcome: &Outcome) {
    let Outcome { success, output, error, .. } = outcome;
    let error = error.as_ref().map(|error| error.message.as_str()).unwrap_or_default();
    let key = format!("{}\0{}\0{success}\0{output}\0{error}", call.name, call.arguments);
    match seen.iter_mut().find(|(known, _)| *known == key) {
        Some((_, times)) => *times += 1,
        None => seen.push((key, 1)),
    }
}

fn swap_prompt(request: &mut Request, from: &str, to: &str) {
    if let Some(system) = &mut request.system {
        *system = system.replace(from, to);
    }
}

fn repeats(limits: &Limits) -> Broken {
    Broken::Failed(Failure {
        kind: FailureKind::Unavailable,
        message: format!("the model made the same call {} times with the same result", limits.repeats_max),
        hint: "ask in another way, or another model".to_owned(),
    })
}

fn too_long(limits: &Limits) -> Broken {
    Broken::Failed(Failure {
        kind: FailureKind::Unavailable,
        message: format!("the answer is longer than {} bytes and was stopped", limits.response_bytes_max),
        hint: "limits.response_bytes in the config sets how long it may be".to_owned(),
    })
}
