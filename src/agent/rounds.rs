//! From a question to an answer in text: asks the model, carries out its calls, asks again with their results. Knows
//! the limits of rounds and time, but not what a tool does.

use std::collections::BTreeSet;

use super::asked::Asked;
use super::calls::repeats::Repeats;
use super::calls::result_text::worded;
use super::calls::runner::ToolRunner;
use super::goal::helper::helped;
use super::recorder::PastCall;
use super::texts::compact::estimated;
use super::texts::scribe::{Counted, Shorter};
use super::tracer;
use crate::base::text::counted;
use crate::model::{
    Capabilities, Fault, Item, ModelError, Provider, Reach, Request, Response, StopReason, ToolCall, ToolResult,
};
use crate::proto::tool::{Outcome, ToolError};
use crate::proto::{Event, Failure, ModelCommand, Shortfall, Usage};
use crate::tools::DELEGATE_TOOL;
use crate::turn::{Reading, Scale, code_blocks, proposals, read_calls, whole_files};

/// Calls that one answer may make; a model that makes more has lost its way.
const CALLS_MAX: usize = 32;
/// Maximum number of tokens of a small window.
const SMALL_WINDOW: u64 = 16_384;
/// Calls that failed before a model is offered to write whole files as text.
const FAILED_CALLS: usize = 2;

/// The limits of one question.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Times that a model gets results of tools before it must answer.
    pub rounds_max: usize,
    /// Bytes of an answer.
    pub response_bytes_max: usize,
    /// Times that the same call may give the same result.
    pub repeats_max: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { rounds_max: 25, response_bytes_max: 1024 * 1024, repeats_max: 3 }
    }
}

/// The beginning of the failure of a model that repeats itself.
pub(super) const REPEATED: &str = "the model made the same call";

/// Text after the last message if an answer was empty.
const ANSWER: &str = "\n\n[Answer the question, or call a tool.]";
/// The same, for a model that may call none.
const ANSWER_IN_WORDS: &str = "\n\n[No tools can be called now. Answer the question in words.]";
/// Text after the last message if an answer looked like a call.
const UNCLEAR: &str = "\n\n[Your last answer looked like a tool call, but it could not be read. Call the tool with a JSON \
                       object of its arguments, or answer in words.]";
/// Text after the last message if an answer was cut off.
const CUT: &str = "\n\n[Your last answer was cut off at the server's limit of tokens, so what it asked for wasn't done. Answer \
                   again with less: one call, command or file at a time.]";
/// Text after the result of a last call.
const NO_MORE: &str = "\n[No more tools can be called for this question. Answer now with what you have.]";
/// Text in the place of a result that was left out.
const LEFT_OUT: &str = "[left out to make room; call again if you need it]";
/// Text after the result of a call that failed again.
const WHOLE_FILES: &str = "\n[To change a file without a tool call, write its path on a line of its own, and after it the \
                           whole new file in a block of ``` code.]";

/// Reason why a turn ended without a whole answer.
pub(super) enum Broken {
    Cancelled,
    Failed(Failure),
}

/// One question in progress.
pub(super) struct Turn<'t, 'a, 's> {
    pub(super) provider: &'t dyn Provider,
    pub(super) asked: &'t mut Asked<'a>,
    pub(super) shorter: &'t mut Shorter<'s>,
    pub(super) runner: Option<&'t mut ToolRunner>,
    pub(super) limits: &'t Limits,
    /// Models that a notice has already reported to have no room for tools.
    pub(super) roomless: &'t mut BTreeSet<String>,
    /// Instructions for a model without tools.
    pub(super) command_prompt: &'t str,
    pub(super) tool_prompt: &'t str,
    pub(super) conversation: Option<i64>,
    /// True if the model reads little at once, or is on this machine.
    pub(super) is_small: bool,
    /// True if a run towards a goal is on.
    pub(super) is_in_run: bool,
    /// The model has no tools, and the commands in its text are calls.
    pub(super) by_lines: bool,
}

/// The result of a turn.
pub(super) struct Turned {
    pub(super) end: Result<Response, Broken>,
    /// The calls and their results, between question and answer.
    pub(super) trail: Vec<Item>,
    /// The model turned out to have no tools.
    pub(super) has_no_tools: bool,
    /// The server's count of the newest request, if it gave one.
    pub(super) counted: Option<Counted>,
    /// Reason why the answer isn't all that it could have been.
    pub(super) shortfall: Option<Shortfall>,
}

/// The progress of a turn.
#[derive(Default)]
struct Progress {
    rounds: usize,
    repeats: Repeats,
    /// True if the model was asked once more, because an answer was empty.
    was_asked_again: bool,
    failed_calls: usize,
    has_no_tools: bool,
    /// The index of the question's first call.
    question_at: usize,
    counted: Option<Counted>,
    shortfall: Option<Shortfall>,
    /// The newest answer was cut off, so that a call of it that isn't whole JSON may be half of one.
    is_cut: bool,
}

impl Turn<'_, '_, '_> {
    /// Asks until the answer is text.
    pub(super) fn run(mut self, mut request: Request) -> Turned {
        let mut progress = Progress { question_at: request.messages.len(), ..Progress::default() };
        let end = loop {
            self.make_ready(&mut request, &mut progress);
            let tracer = self.asked.tracer.clone();
            let end = tracer::chat(&tracer, self.provider, &mut request, self.asked);
            let wanted = match &end {
                Ok(response) if !self.asked.is_too_long => self.wanted(&request, response, &progress),
                _ => Wanted::Nothing,
            };
            match wanted {
                Wanted::Nothing => self.asked.release(),
                Wanted::Calls(..) | Wanted::Lines(_) | Wanted::Again(_) => self.asked.drop_held(),
            }
            self.asked.settle(&end);
            let response = match end {
                _ if self.asked.is_too_long => {
                    progress.shortfall = Some(Shortfall::Length);
                    break Err(too_long(self.limits));
                }
                Ok(response) => response,
                Err(error) => match self.mended(&error, &mut request, &mut progress) {
                    Ok(()) => continue,
                    Err(broken) => break Err(broken),
                },
            };
            let read = response.usage.as_ref().map(Usage::total_in).filter(|tokens| *tokens > 0);
            let counted = read.map(|tokens| Counted { tokens, estimated: estimated(&request) });
            progress.counted = counted.or(progress.counted);
            progress.is_cut = is_cut(&response);
            match wanted {
                Wanted::Nothing => {
                    progress.shortfall = shortfall(&response).or(progress.shortfall);
                    break Ok(response);
                }
                Wanted::Again(words) if !std::mem::replace(&mut progress.was_asked_again, true) => {
                    append(&mut request, words);
                    self.asked.is_between_rounds = true;
                }
                Wanted::Again(_) => break Err(no_answer(&response)),
                Wanted::Calls(text, calls) => {
                    // Calls that were written as text are in no state that goes back.
                    let state = response.state.filter(|_| !response.calls.is_empty());
                    request.messages.push(Item::Assistant { text, calls: calls.clone(), state });
                    if let Err(broken) = self.carry_out_all(&calls, &mut request, &mut progress) {
                        break Err(broken);
                    }
                }
                Wanted::Lines(calls) => {
                    request.messages.push(Item::Assistant { text: response.text, calls: Vec::new(), state: None });
                    let first = request.messages.len();
                    if let Err(broken) = self.carry_out_all(&calls, &mut request, &mut progress) {
                        break Err(broken);
                    }
                    as_message(&mut request, first, &calls);
                }
            }
        };
        let trail = request.messages.split_off(progress.question_at.min(request.messages.len()));
        let Progress { has_no_tools, counted, shortfall, .. } = progress;
        Turned { end, trail, has_no_tools, counted, shortfall }
    }

    /// Gets a request ready to be sent: without secrets, and short enough.
    fn make_ready(&mut self, request: &mut Request, progress: &mut Progress) {
        let tokens = estimated(request);
        if let Some(counted) = progress.counted
            && self.shorter.is_due(counted, tokens)
            && let Some(before) = self.shorter.shorten(self.provider, counted, tokens, self.asked)
        {
            progress.question_at = replace_start(request, progress.question_at, before);
        }
        // A tenth of the window is for the answer.
        if let Some(window) = self.shorter.conversation.window_tokens() {
            let scale = progress.counted.map(Counted::scale).filter(|scale| super::FACTORS.contains(&scale.factor));
            let scale = scale.unwrap_or(Scale::UNKNOWN);
            self.leave_out(request, progress.question_at, scale.estimated(window * 9 / 10));
        }
        self.asked.secrets.hide_in(request);
        if let Some(notice) = self.asked.secrets.take_notice() {
            (self.asked.sink)(Event::Notice(notice));
        }
        self.asked.holds_calls = !request.tools.is_empty();
    }

    /// Leaves out the question's own results, the oldest first, until the request is estimated at this at most; those of
    /// the newest round stay. Returns whether any was left out.
    fn leave_out(&mut self, request: &mut Request, question_at: usize, tokens_max: usize) -> bool {
        let newest = request.messages.iter().rposition(|item| matches!(item, Item::Assistant { .. })).unwrap_or(0);
        let mut left_out = 0;
        for at in question_at..newest {
            if estimated(request) <= tokens_max {
                break;
            }
            if let Item::Tool(ToolResult { content, .. }) | Item::User(content) = &mut request.messages[at]
                && content.len() > LEFT_OUT.len()
            {
                LEFT_OUT.clone_into(content);
                left_out += 1;
            }
        }
        if left_out > 0 {
            let results = counted(left_out, "older result");
            (self.asked.sink)(Event::Notice(format!("[context] {results} of this question left out to make room")));
        }
        left_out > 0
    }

    /// Changes a request that was refused so that it may be sent again.
    fn mended(&mut self, error: &ModelError, request: &mut Request, progress: &mut Progress) -> Result<(), Broken> {
        if matches!(error.fault, Fault::ContextOverflow { .. })
            && let Some(before) = self.shorter.shorten_refused(self.provider, estimated(request), self.asked)
        {
            progress.question_at = replace_start(request, progress.question_at, before);
            return Ok(());
        }
        if matches!(error.fault, Fault::ContextOverflow { .. }) {
            // The server's limit may not be known: a quarter less is tried, as long as there is something to leave out.
            let refused = estimated(request);
            if self.leave_out(request, progress.question_at, refused * 3 / 4) {
                self.shorter.refused = Some(refused);
                return Ok(());
            }
        }
        if self.lacks_tools(request, error) {
            progress.has_no_tools = self.without_tools(request, error);
            return Ok(());
        }
        Err(match error.fault {
            Fault::Cancelled => Broken::Cancelled,
            _ => Broken::Failed(error.to_failure()),
        })
    }

    /// Continues without tools; returns whether the model has none at all. If only room is missing, the next question
    /// may have it.
    fn without_tools(&mut self, request: &mut Request, error: &ModelError) -> bool {
        let is_full = matches!(error.fault, Fault::ContextOverflow { .. });
        let why = if is_full { "has no room for tools" } else { "takes no tools" };
        // A small window has no room with each question: to say so once is enough.
        if !is_full || self.roomless.insert(error.model.clone()) {
            (self.asked.sink)(Event::Notice(proposes_instead(&error.model, why, self.is_in_run)));
        }
        request.tools.clear();
        self.by_lines = self.is_in_run;
        if !self.by_lines {
            self.runner = None;
        }
        swap_prompt(request, self.tool_prompt, self.command_prompt);
        !is_full
    }

    /// The next step that an answer asks for.
    fn wanted(&self, request: &Request, response: &Response, progress: &Progress) -> Wanted {
        let is_last = progress.rounds >= self.limits.rounds_max;
        // Asking again would have the same result.
        if matches!(response.stop.reason, StopReason::Filtered | StopReason::ContextFull) && response.calls.is_empty() {
            return Wanted::Nothing;
        }
        let Some(runner) = self.runner.as_deref().filter(|_| !is_last) else {
            let is_silent = response.text.trim().is_empty();
            return if is_silent { Wanted::Again(ANSWER_IN_WORDS) } else { Wanted::Nothing };
        };
        if self.by_lines {
            return lines_of(response, request.messages.len());
        }
        let calls = distinct(response);
        if !calls.is_empty() {
            return Wanted::Calls(response.text.clone(), calls);
        }
        let is_cut = is_cut(response);
        match read_calls(&response.text, &|name| runner.registry().is_tool(name)) {
            Reading::Calls(..) | Reading::Unclear if is_cut => Wanted::Again(CUT),
            Reading::Calls(words, written) => {
                let begun = request.messages.len();
                let call = |(number, it): (usize, crate::turn::WrittenCall)| ToolCall {
                    id: format!("text-{begun}-{number}"),
                    name: it.name,
                    arguments: it.arguments,
                };
                Wanted::Calls(words, written.into_iter().enumerate().map(call).collect())
            }
            Reading::Unclear => Wanted::Again(UNCLEAR),
            Reading::Words if response.text.trim().is_empty() => {
                Wanted::Again(if request.tools.is_empty() { ANSWER_IN_WORDS } else { ANSWER })
            }
            Reading::Words if progress.failed_calls < FAILED_CALLS => Wanted::Nothing,
            Reading::Words if is_cut && !code_blocks(&response.text).is_empty() => Wanted::Again(CUT),
            Reading::Words => {
                let begun = request.messages.len();
                let call = |(number, (path, content)): (usize, (String, String))| ToolCall {
                    id: format!("file-{begun}-{number}"),
                    name: "file_write".to_owned(),
                    arguments: serde_json::json!({"path": path, "content": content}).to_string(),
                };
                let files = whole_files(&response.text);
                if files.is_empty() || !runner.registry().is_tool("file_write") {
                    return Wanted::Nothing;
                }
                Wanted::Calls(response.text.clone(), files.into_iter().enumerate().map(call).collect())
            }
        }
    }

    /// Carries out the calls of one answer, and gets the request ready for the next.
    fn carry_out_all(
        &mut self,
        calls: &[ToolCall],
        request: &mut Request,
        progress: &mut Progress,
    ) -> Result<(), Broken> {
        let Some(runner) = self.runner.as_deref_mut() else { return Ok(()) };
        progress.rounds += 1;
        let is_last = progress.rounds >= self.limits.rounds_max;
        let mut is_repeated = true;
        for (number, call) in calls.iter().enumerate() {
            if let Some(earlier) = progress.repeats.known(call) {
                request.messages.push(result(call, earlier, false));
                continue;
            }
            is_repeated = false;
            let outcome = if number >= CALLS_MAX {
                ToolError::new("too-many", format!("more than {CALLS_MAX} calls in one answer"), "").into()
            } else if progress.is_cut && !is_json(&call.arguments) {
                ToolError::new(
                    "cut-off",
                    "the call was cut off at the server's limit of tokens",
                    "ask for less at once",
                )
                .into()
            } else {
                carry_out(runner, call, self.conversation, self.asked, self.provider)
            };
            let mut text = worded(&outcome, &runner.workspace().display().to_string());
            progress.repeats.note(call, &outcome, &text, runner.has_only_looked());
            if outcome.error.as_ref().is_some_and(|error| is_misuse(error.code)) {
                progress.failed_calls += 1;
                if progress.failed_calls == FAILED_CALLS && runner.registry().is_tool("file_write") {
                    text.push_str(WHOLE_FILES);
                }
            }
            request.messages.push(result(call, text, !outcome.success));
        }
        check(runner, self.conversation, self.asked, request);
        if self.asked.cancel.is_cancelled() {
            return Err(Broken::Cancelled);
        }
        let repeats = progress.repeats.most();
        if is_last || repeats > self.limits.repeats_max * 2 {
            progress.shortfall = Some(Shortfall::Rounds);
        }
        if repeats > self.limits.repeats_max * 2 {
            return Err(too_many_repeats(repeats));
        }
        let can_reply = self.asked.person.can_reply();
        runner.refresh(&mut *self.asked.sink);
        request.tools = if self.by_lines { Vec::new() } else { runner.tools(self.is_small, can_reply) };
        if is_last {
            let rounds = progress.rounds;
            let notice = format!("[tools] {rounds} rounds of tools are the limit: the model is asked to answer now");
            (self.asked.sink)(Event::Notice(notice));
        }
        if is_last || is_repeated && repeats >= self.limits.repeats_max {
            request.tools.clear();
            append(request, NO_MORE);
        }
        self.asked.is_between_rounds = true;
        Ok(())
    }

    /// Returns whether a server said no because of the tools that went with the question, or may have: they take room.
    fn lacks_tools(&self, request: &Request, error: &ModelError) -> bool {
        let server_text = match &error.fault {
            Fault::Server { server_text, .. }
            | Fault::Rejected { server_text, .. }
            | Fault::NotFound { server_text } => server_text.to_lowercase(),
            Fault::ContextOverflow { .. } => "tools".to_owned(),
            _ => return false,
        };
        !request.tools.is_empty()
            && self.asked.text.is_empty()
            && (server_text.contains("tool") || server_text.contains("function"))
    }
}

/// Returns whether a model gets short instructions: its window is small, or it runs on this machine.
pub(super) fn is_small(capabilities: &Capabilities) -> bool {
    capabilities.reach == Reach::Machine || capabilities.context_tokens.is_some_and(|tokens| tokens <= SMALL_WINDOW)
}

/// The fault of an answer, according to the server.
fn shortfall(response: &Response) -> Option<Shortfall> {
    match response.stop.reason {
        StopReason::Length | StopReason::ContextFull => Some(Shortfall::Length),
        StopReason::Filtered => Some(Shortfall::Filtered),
        _ => None,
    }
}

/// Returns whether an answer stopped at a limit, wherever it was.
fn is_cut(response: &Response) -> bool {
    shortfall(response) == Some(Shortfall::Length)
}

fn is_json(text: &str) -> bool {
    serde_json::from_str::<serde_json::Value>(text).is_ok()
}

/// Replaces the start of a request by the shorter conversation; returns the new position of the question's calls.
fn replace_start(request: &mut Request, question_at: usize, start: Vec<Item>) -> usize {
    let length = start.len();
    request.messages.splice(..question_at, start);
    length
}

/// The next step that an answer asks for.
enum Wanted {
    /// Nothing more: it is the answer.
    Nothing,
    /// These calls, and the words that came with them.
    Calls(String, Vec<ToolCall>),
    /// These calls, which were commands in the text.
    Lines(Vec<ToolCall>),
    /// Nothing usable; this text is added before the model is asked once more.
    Again(&'static str),
}

/// Returns whether an error's code means that the call was written wrongly.
fn is_misuse(code: &str) -> bool {
    ["bad-arguments", "no-such-tool", "no-match", "bad-range"].contains(&code)
}

/// Adds words to the last message, which has been sent before: an item of their own would have to be a person's.
fn append(request: &mut Request, words: &str) {
    match request.messages.last_mut() {
        Some(Item::Tool(ToolResult { content: text, .. }) | Item::User(text) | Item::System(text)) => {
            text.push_str(words)
        }
        Some(Item::Assistant { .. }) | None => request.messages.push(Item::User(words.trim().to_owned())),
    }
}

/// The calls of an answer without duplicates: small models repeat themselves, and text that is inserted twice is wrong.
/// If a provider wants its own parts back, each call in them needs a result.
fn distinct(response: &Response) -> Vec<ToolCall> {
    let is_first = |(number, call): &(usize, &ToolCall)| {
        let before = &response.calls[..*number];
        response.state.is_some() || !before.iter().any(|it| it.name == call.name && it.arguments == call.arguments)
    };
    response.calls.iter().enumerate().filter(is_first).map(|(_, call)| call.clone()).collect()
}

/// The notice about a model without tools.
pub(super) fn proposes_instead(model: &str, why: &str, is_in_run: bool) -> String {
    let instead = if is_in_run {
        "the commands in its text are its calls"
    } else {
        "it proposes commands for you to run instead"
    };
    format!("[model] {model} {why}: {instead}")
}

/// The commands in the text of a model without tools, as calls. The last line of an answer that was cut off may be half
/// of one.
fn lines_of(response: &Response, begun: usize) -> Wanted {
    let text = response.text.as_str();
    let whole = if is_cut(response) { text.rfind('\n').map_or("", |at| &text[..at]) } else { text };
    let (commands, _) = proposals(whole);
    if commands.is_empty() {
        let is_lost = is_cut(response) && proposals(text) != (Vec::new(), Vec::new());
        return match text.trim() {
            "" => Wanted::Again(ANSWER_IN_WORDS),
            _ if is_lost => Wanted::Again(CUT),
            _ => Wanted::Nothing,
        };
    }
    let call = |(number, command): (usize, ModelCommand)| ToolCall {
        id: format!("line-{begun}-{number}"),
        name: "shell".to_owned(),
        arguments: serde_json::json!({"command": command.text}).to_string(),
    };
    Wanted::Lines(commands.into_iter().enumerate().map(call).collect())
}

/// Puts the results of calls from `first` on into one message of the person's role, so that roles alternate.
fn as_message(request: &mut Request, first: usize, calls: &[ToolCall]) {
    let results = request.messages.split_off(first.min(request.messages.len()));
    let mut text = String::from("Your commands were run. Their results:\n");
    for item in results {
        let Item::Tool(ToolResult { id, content, .. }) = item else { continue };
        let command = calls.iter().find(|call| call.id == id).map_or("", |call| call.arguments.as_str());
        text.push_str(&format!("\n{command}\n{content}\n"));
    }
    text.push_str("\nContinue with `CMD: ` lines, or answer in words without any when the task is done.");
    request.messages.push(Item::User(text));
}

fn carry_out(
    runner: &mut ToolRunner,
    call: &ToolCall,
    conversation: Option<i64>,
    asked: &mut Asked<'_>,
    provider: &dyn Provider,
) -> Outcome {
    if asked.cancel.is_cancelled() {
        return ToolError::new("stopped", "the user stopped it", "").into();
    }
    let mut outcome = runner.call(call, conversation, asked.cancel, &mut *asked.person, &mut *asked.sink);
    if outcome.success && runner.registry().name_of(&call.name) == Some(DELEGATE_TOOL) {
        outcome = helped(provider, runner, asked, call, conversation);
    }
    let Asked { sink, record, secrets, .. } = asked;
    let hide = |text: &str| secrets.redactor.redact(text).text.into_owned();
    let past = PastCall {
        id: call.id.clone(),
        tool: call.name.clone(),
        arguments: hide(&call.arguments),
        result: hide(&worded(&outcome, &runner.workspace().display().to_string())),
        is_done: outcome.success,
        receipt: outcome.receipt_id.clone(),
    };
    record.keep(*sink, |it| it.tool(&past));
    outcome
}

/// Runs the project's check if files were edited, and adds its result to the last result of the round.
fn check(runner: &mut ToolRunner, conversation: Option<i64>, asked: &mut Asked<'_>, request: &mut Request) {
    let Asked { sink, cancel, person, .. } = asked;
    if let Some(report) = runner.check(conversation, cancel, *person, *sink)
        && let Some(Item::Tool(last)) = request.messages.last_mut()
    {
        last.content.push_str(&format!("\n{report}"));
    }
}

/// A call's result, for the model.
fn result(call: &ToolCall, content: String, is_error: bool) -> Item {
    Item::Tool(ToolResult { id: call.id.clone(), name: call.name.clone(), content, is_error })
}

fn swap_prompt(request: &mut Request, from: &str, to: &str) {
    if let Some(system) = &mut request.system {
        *system = system.replace(from, to);
    }
}

fn too_many_repeats(times: usize) -> Broken {
    Broken::Failed(
        Failure::unavailable(format!("{REPEATED} {times} times with the same result"))
            .hint("ask in another way, or another model"),
    )
}

fn no_answer(response: &Response) -> Broken {
    let why = if response.text.trim().is_empty() {
        "the model gave no answer, though it was asked twice"
    } else if is_cut(response) {
        "the answer was cut off at the server's limit of tokens, though the model was asked twice"
    } else {
        "the model wrote a tool call that can't be read, though it was asked twice"
    };
    Broken::Failed(Failure::unavailable(why.to_owned()).hint("ask in another way, or another model"))
}

fn too_long(limits: &Limits) -> Broken {
    Broken::Failed(
        Failure::unavailable(format!("the answer is longer than {} bytes and was stopped", limits.response_bytes_max))
            .hint("limits.response_bytes in the config sets how long it may be"),
    )
}
