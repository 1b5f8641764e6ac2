//! The result of a call as a model reads it: the output as it is, and one line of facts in brackets. Nothing random is in it, so
//! that the same conversation is the same prompt. Machines read `Outcome::to_value`.

use serde_json::Value;

use crate::proto::tool::{Outcome, ToolError};

/// Facts that the output or the error already contains, or that only machines and receipts need.
const UNSAID: [&str; 32] = [
    "bytes",
    "by",
    "canApply",
    "changed_by_user",
    "changes",
    "cwd",
    "definitions",
    "diff",
    "diffsByFile",
    "durationMs",
    "endLine",
    "entries",
    "exitCode",
    "files",
    "files_changed",
    "ignored",
    "is_all",
    "job",
    "lines",
    "path",
    "places",
    "pages",
    "receipt",
    "results",
    "risk",
    "rule",
    "shown",
    "startLine",
    "stats",
    "stderr",
    "stdout",
    "step",
];
/// Further such facts.
const UNSAID_TOO: [&str; 4] = ["unix_ms", "utc", "whole_output", "zone"];

/// Puts a result into words for the model; `workspace` is the directory in which commands start.
pub(in crate::agent) fn worded(outcome: &Outcome, workspace: &str) -> String {
    let mut text = outcome.output.trim_end_matches('\n').to_owned();
    let mut facts = Vec::new();
    match &outcome.error {
        Some(ToolError { code: "exit", .. }) => facts.push(match outcome.metadata.get("exitCode") {
            Some(status) => format!("exit {status}"),
            None => "it ended without an exit status".to_owned(),
        }),
        Some(ToolError { message, hint, .. }) => {
            let hint = if hint.is_empty() { String::new() } else { format!("\nhint: {hint}") };
            let line = if text.is_empty() { "" } else { "\n" };
            text.push_str(&format!("{line}error: {message}{hint}"));
        }
        None if !outcome.success => facts.push("it failed".to_owned()),
        None => {}
    }
    facts.extend(lines_of(outcome));
    let number = |name: &str| outcome.metadata.get(name).and_then(Value::as_u64).unwrap_or(0);
    if let Some(cwd) = outcome.metadata.get("cwd").and_then(Value::as_str).filter(|cwd| *cwd != workspace) {
        let below = cwd.strip_prefix(workspace).and_then(|rest| rest.strip_prefix('/'));
        facts.push(format!("now in {}", below.unwrap_or(cwd)));
    }
    match number("ended_in_background") {
        0 => {}
        1 => facts.push("a process that it left running was ended; start it with background: true".to_owned()),
        more => {
            facts.push(format!("{more} processes that it left running were ended; start them with background: true"));
        }
    }
    let is_shown = |name: &str| !UNSAID.contains(&name) && !UNSAID_TOO.contains(&name) && name != "ended_in_background";
    for (name, value) in outcome.metadata.iter().filter(|(name, _)| is_shown(name)) {
        match value {
            Value::String(value) => facts.push(format!("{}: {value}", name.replace('_', " "))),
            Value::Number(value) if value.as_u64() != Some(0) => {
                facts.push(format!("{} {value}", name.replace('_', " ")))
            }
            Value::Bool(true) => facts.push(name.replace('_', " ")),
            _ => {}
        }
    }
    if text.trim().is_empty() && facts.is_empty() {
        facts.push(if outcome.metadata.contains_key("exitCode") { "exit 0, no output" } else { "done" }.to_owned());
    }
    if !facts.is_empty() {
        let line = if text.is_empty() || text.ends_with('\n') { "" } else { "\n" };
        text.push_str(&format!("{line}[{}]", facts.join("; ")));
    }
    text
}

/// The lines of a file that were read, if it wasn't the whole.
fn lines_of(outcome: &Outcome) -> Option<String> {
    let number = |name: &str| outcome.metadata.get(name).and_then(Value::as_u64);
    let (first, last, all) = (number("startLine")?, number("endLine")?, number("lines")?);
    match all {
        0 => Some("the file is empty".to_owned()),
        _ if first == 1 && last == all => None,
        _ => Some(format!("lines {first}-{last} of {all}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_result_is_its_text_and_one_line_of_facts() {
        let read = |first: u64, last: u64| {
            let outcome = Outcome::of("a\nb\n").with("path", "x").with("startLine", first).with("endLine", last);
            Outcome { receipt_id: Some("receipt-9f".into()), ..outcome.with("lines", 2) }
        };
        let exit = |status: i64, output: &str| {
            let outcome = Outcome::of(output).with("exitCode", status).with("durationMs", 7).with("cwd", "/w/sub");
            let error = (status != 0).then(|| ToolError::new("exit", "it ended with status 1", ""));
            Outcome { success: status == 0, error, ..outcome }
        };
        let missing: Outcome = ToolError::new("not-found", "x: there is nothing", "in the workspace there is y").into();
        for (outcome, text) in [
            (read(1, 2), "a\nb"),
            (read(2, 2), "a\nb\n[lines 2-2 of 2]"),
            (exit(0, ""), "[now in sub]"),
            (exit(1, "no\n"), "no\n[exit 1; now in sub]"),
            (Outcome::of("").with("exitCode", 0), "[exit 0, no output]"),
            (Outcome::of(""), "[done]"),
            (missing, "error: x: there is nothing\nhint: in the workspace there is y"),
            (Outcome::of("hi").with("status", 200).with("redirects", 0), "hi\n[status 200]"),
            (Outcome::of("hi").with("left_out", "note"), "hi\n[left out: note]"),
            (
                Outcome::of("hi").with("ended_in_background", 1),
                "hi\n[a process that it left running was ended; start it with background: true]",
            ),
        ] {
            assert_eq!(worded(&outcome, "/w"), text);
        }
    }
}
