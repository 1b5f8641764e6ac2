//! The hands of a procedure: its calls, planned and run through the gate as a model's are, and what its trusted file allows
//! for one of them.

use globset::escape;
use serde_json::Value;

use crate::agent::Cancel;
use crate::agent::calls::runner::{Judged, ToolRunner, Wanted};
use crate::agent::person::Person;
use crate::base::hash::sha256_hex;
use crate::files::PathError;
use crate::gate::{CallsLeft, Grant, reasons};
use crate::model::ToolCall;
use crate::proto::action::{Decision, Risk};
use crate::proto::tool::{Outcome, Question, ToolError};
use crate::proto::{Event, Failure};
use crate::sop::{Act, Covered, EditedFile, Fate, OUTPUT_BYTES_MAX, Step};

/// Bytes of an edited file that is looked at; edits refuse longer ones.
const EDIT_BYTES_MAX: u64 = 64 * 1024 * 1024;
/// The tool of commands.
const SHELL: &str = "shell";
/// Arguments that name files.
const PATHS: [&str; 6] = ["path", "from", "to", "source", "destination", "target"];
/// Characters of a preview that the journal holds.
const PREVIEW_CHARS_MAX: usize = 16 * 1024;

/// A step's call that is about to run.
pub(super) struct Hands<'a> {
    pub(super) step: &'a Step,
    pub(super) args: &'a Value,
    pub(super) conversation: Option<i64>,
    pub(super) cancel: &'a Cancel,
}

/// A step's call as it was planned and judged.
pub(super) struct PlannedStep {
    question: Question,
    intent: String,
    args_hash: String,
    decision: Decision,
}

impl PlannedStep {
    /// The risk, the tool and the hash of the arguments.
    pub(super) fn facts(&self) -> (String, String, String) {
        (self.question.verdict.risk.word().to_owned(), self.question.tool.clone(), self.args_hash.clone())
    }

    /// The files that it edits.
    pub(super) fn files(&self) -> Vec<EditedFile> {
        let digest = |content: &Option<Vec<u8>>| content.as_ref().map(|it| sha256_hex(it));
        let files = self.question.changes.iter();
        files.map(|it| EditedFile { path: it.path.clone(), before: digest(&it.old), after: digest(&it.new) }).collect()
    }

    /// The word of the rules about it.
    pub(super) fn decision(&self) -> Decision {
        self.decision
    }

    /// The call for the person who is asked about it.
    pub(super) fn covered(self, id: &str) -> Covered {
        let Question { digest, verdict, preview, .. } = self.question;
        let mut why: Vec<String> = verdict.reasons.iter().map(|reason| reason.text.clone()).collect();
        if self.decision == Decision::Deny {
            why = vec![format!("the rules deny it ({})", reasons(&verdict))];
        }
        Covered {
            step: id.to_owned(),
            digest,
            intent: self.intent,
            risk: verdict.risk.word().to_owned(),
            reasons: why,
            preview: preview.chars().take(PREVIEW_CHARS_MAX).collect(),
        }
    }
}

/// Plans and judges the call of a step; nothing is touched.
pub(super) fn plan_step(
    runner: &mut ToolRunner,
    step: &Step,
    args: &Value,
    conversation: Option<i64>,
) -> Result<PlannedStep, ToolError> {
    let (tool, wanted) = wanted(step, args);
    // A tool of a server is known once the server was started.
    if !runner.registry().is_tool(tool) {
        runner.prepare(&Cancel::new(), &mut |_| {});
    }
    let Judged { ticket, intent, .. } = runner.judged(&wish(tool, args), &wanted, conversation, true)?;
    let (args_hash, decision) = (ticket.call().args_hash(), ticket.verdict().decision);
    Ok(PlannedStep { question: runner.gate().question(&ticket), intent, args_hash, decision })
}

/// Returns the call of a step for the person who is asked about it, if its tool differs from the version that they allowed.
pub(super) fn changed_call(runner: &ToolRunner, step: &Step, args: &Value) -> Option<Covered> {
    let Act::Tool { tool, .. } = &step.act else { return None };
    let changed = runner.servers()?.changed(tool)?;
    Some(Covered {
        step: step.id.clone(),
        digest: sha256_hex(format!("{tool} {args}").as_bytes()),
        intent: format!("Calling {}", changed.name),
        risk: Risk::Blocked.word().to_owned(),
        reasons: changed.reasons(),
        preview: changed.difference.chars().take(PREVIEW_CHARS_MAX).collect(),
    })
}

/// Returns the fate of an interrupted edit, as its files show it.
pub(super) fn edit_fate(runner: &ToolRunner, files: &[EditedFile]) -> Fate {
    let is_readable =
        |file: &EditedFile| matches!(runner.tree().read(&file.path, EDIT_BYTES_MAX), Ok(_) | Err(PathError::Missing));
    if !files.iter().all(is_readable) {
        return Fate::Unknown;
    }
    EditedFile::fate(files, |file| {
        runner.tree().read(&file.path, EDIT_BYTES_MAX).ok().map(|content| sha256_hex(&content.bytes))
    })
}

/// Runs the call of a step, as a model's is run: judged, asked about, written down, and in the sandbox.
pub(super) fn do_step(
    runner: &mut ToolRunner,
    hands: &Hands<'_>,
    person: &mut dyn Person,
    sink: &mut dyn FnMut(Event),
) -> Outcome {
    let Hands { step, args, conversation, cancel } = hands;
    let (tool, wanted) = wanted(step, args);
    let before = std::mem::replace(&mut runner.options.limits.output_bytes, OUTPUT_BYTES_MAX);
    let outcome = runner.call_as(&wish(tool, args), wanted, *conversation, cancel, person, sink);
    runner.options.limits.output_bytes = before;
    outcome
}

/// Returns the wish of a step in the form of a tool call.
fn wish(tool: &str, args: &Value) -> ToolCall {
    ToolCall { id: "step".into(), name: tool.to_owned(), arguments: args.to_string() }
}

/// The tool of a step and its arguments. A command has variables, which no model's arguments have.
fn wanted<'s>(step: &'s Step, args: &Value) -> (&'s str, Wanted) {
    match &step.act {
        Act::Tool { tool, .. } => (tool, Wanted::Model(args.to_string())),
        _ => (SHELL, Wanted::Person(SHELL.to_owned(), args.clone())),
    }
}

/// Returns the trusted file's grant for a step: paths that it names for its changes and, if `is_literal`, exactly its
/// call.
pub(super) fn grant_of(step: &Step, is_literal: bool) -> Result<Grant, Failure> {
    let (mut writes, mut commands) = (Vec::new(), Vec::new());
    match &step.act {
        Act::Shell { command, writes: named, .. } => {
            writes.clone_from(named);
            commands.extend(is_literal.then(|| command.trim().to_owned()));
        }
        Act::Tool { args, .. } if is_literal => paths(args, &mut writes),
        _ => {}
    }
    Grant::new(&writes, &[], &commands, &[], CallsLeft::default()).map_err(|error| {
        Failure::user(format!("step {}: a pattern can't be understood: {error}", step.id))
            .hint("patterns are like out/** or *.txt")
    })
}

/// The files that arguments name.
fn paths(args: &Value, found: &mut Vec<String>) {
    match args {
        Value::Object(fields) => {
            for (name, value) in fields {
                match value {
                    Value::String(path) if PATHS.contains(&name.as_str()) => {
                        found.push(escape(path.strip_prefix("./").unwrap_or(path)));
                    }
                    value => paths(value, found),
                }
            }
        }
        Value::Array(items) => items.iter().for_each(|item| paths(item, found)),
        _ => {}
    }
}
