//! A model that plays a script. Tests use it, and it answers, by saying so, if no model is connected. It opens no file
//! and no socket.
//!
//! A script is JSON lines, one answer each: `{"when": "part of the question", "steps": [...]}`. An answer with `when`
//! is for each question that contains the text; the others come in turn, and the last one repeats. In place of `steps`
//! there may be `rounds`, a list of steps for each request of one question: the second is played after the results of
//! the tools that the first called, and so on; the last one repeats. A step is one of `{"text": "…"}`, `{"thought":
//! "…"}`, `{"tool_call": {"name": "…", "arguments": {…}}}`, `{"delay_ms": 50}`, `{"usage": {"in": 1, "cache_read": 0,
//! "cache_write": 0, "out": 1, "reasoning": 0}}`, `{"stop": "length"}`, `{"error": {"status": 429, "retry_after": "1",
//! "message": "…"}}` and `{"cut": true}`. Empty lines and lines that begin with `#` are left out.

use parking_lot::Mutex;
use std::time::Duration;

use serde_json::Value;

use crate::model::error::{Fault, ModelError, one_line};
use crate::model::provider::{Capabilities, ChatEvent, Provider, Reach, Sending, Sink};
use crate::model::request::{Item, Request, Response, Stop, StopReason, ToolCall, Usage};

/// Plays a script.
pub struct Mock {
    name: String,
    script: Option<Result<Vec<Answer>, String>>,
    next: Mutex<usize>,
}

#[derive(Debug, PartialEq)]
struct Answer {
    when: Option<String>,
    /// One list for each request of a question; never empty.
    rounds: Vec<Vec<Step>>,
}

#[derive(Clone, Debug, PartialEq)]
enum Step {
    Text(String),
    Thought(String),
    Call(ToolCall),
    Delay(Duration),
    Usage(Usage),
    Stop(Stop),
    Fail(Fault),
}

impl Mock {
    /// Makes a model that plays `script`, or that fails with why it can't be read.
    #[must_use]
    pub fn new(name: &str, script: Result<String, String>) -> Self {
        let script = script.and_then(|text| parse(&text));
        Self { name: name.to_owned(), script: Some(script), next: Mutex::new(0) }
    }

    /// Makes the model that answers if none is connected: it reports that, and explains how to connect one.
    #[must_use]
    pub fn unconnected() -> Self {
        Self { name: "none".to_owned(), script: None, next: Mutex::new(0) }
    }

    /// The steps for a request that is the `round`th of its question.
    fn steps_for(&self, question: &str, round: usize) -> Result<Vec<Step>, Fault> {
        let answers = match &self.script {
            None => return Err(Fault::NotConnected),
            Some(Err(why)) => return Err(Fault::Script { why: one_line(why) }),
            Some(Ok(answers)) => answers,
        };
        let for_it = |answer: &&Answer| answer.when.as_ref().is_some_and(|part| question.contains(part));
        let in_turn: Vec<&Answer> = answers.iter().filter(|answer| answer.when.is_none()).collect();
        if let Some(answer) = answers.iter().find(for_it)
            && (round < answer.rounds.len() || in_turn.is_empty())
        {
            return Ok(answer.round(round));
        }
        let mut next = self.next.lock();
        let present = next.checked_sub(1).and_then(|at| in_turn.get(at).or(in_turn.last()));
        if let Some(answer) = present.filter(|answer| round > 0 && answer.rounds.len() > 1) {
            return Ok(answer.round(round));
        }
        let answer = in_turn.get(*next).or(in_turn.last());
        *next += 1;
        match answer {
            Some(answer) => Ok(answer.round(0)),
            None => Err(Fault::Script { why: "it has no answer for this question".to_owned() }),
        }
    }

    fn play(&self, request: &Request, sink: &mut dyn Sink) -> Result<Response, Fault> {
        if self.script.is_some() {
            let sending = Sending {
                model: &self.name,
                served_as: "mock",
                kind: "mock",
                host: "",
                reach: Reach::Machine,
                output_tokens_max: request.max_output_tokens,
                request,
                count: &|| None,
            };
            sink.permit(&sending).map_err(Fault::NotAllowed)?;
        }
        let mut response = Response { model: self.name.clone(), ..Response::default() };
        for step in self.steps_for(request.question(), round(request))? {
            if sink.cancel().is_cancelled() {
                return Err(Fault::Cancelled);
            }
            match step {
                Step::Text(text) => {
                    response.text.push_str(&text);
                    if !request.whole {
                        sink.event(ChatEvent::Text(text));
                    }
                }
                Step::Thought(text) if !request.whole => sink.event(ChatEvent::Thought(text)),
                Step::Thought(_) => {}
                Step::Call(mut call) => {
                    if call.id.is_empty() {
                        call.id = format!("call-{}", response.calls.len());
                    }
                    response.calls.push(call);
                }
                Step::Delay(delay) => {
                    if sink.cancel().wait(delay) {
                        return Err(Fault::Cancelled);
                    }
                }
                Step::Usage(usage) => response.usage = Some(usage),
                Step::Stop(stop) => response.stop = stop,
                Step::Fail(fault) => return Err(fault),
            }
        }
        if request.whole && !response.text.is_empty() {
            sink.event(ChatEvent::Text(response.text.clone()));
        }
        if !response.calls.is_empty() && response.stop.reason == StopReason::Done {
            response.stop.reason = StopReason::ToolCalls;
        }
        response.raw.clone_from(&response.text);
        Ok(response)
    }
}

impl Provider for Mock {
    fn name(&self) -> &str {
        &self.name
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities {
            kind: "mock",
            streaming: true,
            tools: true,
            images: Some(true),
            caching: false,
            keeps_state: false,
            context_tokens: None,
            reach: Reach::Machine,
            place: "a script".to_owned(),
        }
    }

    fn chat(&self, request: &Request, sink: &mut dyn Sink) -> Result<Response, Box<ModelError>> {
        self.play(request, sink).map_err(|fault| {
            let (model, place) = (self.name.clone(), "a script".to_owned());
            Box::new(ModelError { model, place, key_env: None, kind: "mock", fault })
        })
    }
}

fn parse(text: &str) -> Result<Vec<Answer>, String> {
    let lines = text.lines().enumerate().map(|(at, line)| (at + 1, line.trim()));
    let mut answers = Vec::new();
    for (number, line) in lines.filter(|(_, line)| !line.is_empty() && !line.starts_with('#')) {
        let answer = serde_json::from_str(line).map_err(|error| error.to_string()).and_then(|it| answer_of(&it));
        answers.push(answer.map_err(|why| format!("line {number}: {why}"))?);
    }
    Ok(answers)
}

fn answer_of(value: &Value) -> Result<Answer, String> {
    let when = match value.get("when") {
        None => None,
        Some(part) => Some(part.as_str().ok_or("`when` isn't a string")?.to_owned()),
    };
    let steps = |value: &Value| -> Result<Vec<Step>, String> {
        value.as_array().ok_or("`steps` isn't a list")?.iter().map(step_of).collect()
    };
    let rounds = match (value.get("steps"), value.get("rounds").and_then(Value::as_array)) {
        (Some(one), None) => vec![steps(one)?],
        (None, Some(rounds)) if !rounds.is_empty() => rounds.iter().map(steps).collect::<Result<_, _>>()?,
        _ => return Err("an answer has a list of `steps`, or one of `rounds`".to_owned()),
    };
    Ok(Answer { when, rounds })
}

impl Answer {
    fn round(&self, number: usize) -> Vec<Step> {
        self.rounds[number.min(self.rounds.len() - 1)].clone()
    }
}

/// The number of answers since the user's last message.
fn round(request: &Request) -> usize {
    request
        .messages
        .iter()
        .rev()
        .take_while(|item| !matches!(item, Item::User(_)))
        .filter(|item| matches!(item, Item::Assistant { .. }))
        .count()
}

fn step_of(value: &Value) -> Result<Step, String> {
    let (key, value) = match value.as_object().map(|object| object.iter().collect::<Vec<_>>()).as_deref() {
        Some([(key, value)]) => (key.as_str(), *value),
        _ => return Err("a step is an object with one key".to_owned()),
    };
    let text = || value.as_str().map(str::to_owned).ok_or(format!("`{key}` isn't a string"));
    let field = |name: &str| value.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
    let number = |name: &str| value.get(name).and_then(Value::as_u64).unwrap_or(0);
    Ok(match key {
        "text" => Step::Text(text()?),
        "thought" => Step::Thought(text()?),
        "delay_ms" => Step::Delay(Duration::from_millis(value.as_u64().ok_or("`delay_ms` isn't a number")?)),
        "tool_call" => Step::Call(ToolCall {
            id: field("id"),
            name: field("name"),
            arguments: value.get("arguments").map_or_else(|| "{}".to_owned(), Value::to_string),
        }),
        "usage" => Step::Usage(Usage {
            uncached_in: number("in"),
            cache_read: number("cache_read"),
            cache_write: number("cache_write"),
            visible_out: number("out"),
            reasoning_out: number("reasoning"),
            raw: value.to_string(),
            ..Usage::default()
        }),
        "stop" => {
            let server_text = text()?;
            let reason = match server_text.as_str() {
                "stop" => StopReason::Done,
                "length" => StopReason::Length,
                "tool_calls" => StopReason::ToolCalls,
                "content_filter" => StopReason::Filtered,
                _ => StopReason::Other,
            };
            Step::Stop(Stop { reason, server_text })
        }
        "cut" => Step::Fail(Fault::Cut),
        "error" => Step::Fail(fault_of(number("status"), field("retry_after"), one_line(&field("message")))),
        other => return Err(format!("there is no step `{}`", one_line(other))),
    })
}

/// The fault that a server's status means; without one it can't be reached.
fn fault_of(status: u64, retry_after: String, server_text: String) -> Fault {
    let retry_after = Some(retry_after).filter(|after| !after.is_empty());
    match u16::try_from(status).unwrap_or(0) {
        0 => Fault::Refused,
        status @ (401 | 403) => Fault::Unauthorized { status, had_key: true, server_text },
        404 => Fault::NotFound { server_text },
        429 => Fault::RateLimited { retry_after, server_text },
        status @ 500..=599 => Fault::Server { status, retry_after, server_text },
        status => Fault::Rejected { status, server_text },
    }
}
