//! The policy's verdict on a command, in words. Nothing is run.

use crate::gate::Disk;
use crate::policy::{Context, Rules, judge};
use crate::proto::action::{Action, Decision, PolicyVerdict};

/// Judges a command of a model by the rules and the files of the disk.
#[must_use]
pub fn explain(rules: &Rules, command: &str) -> PolicyVerdict {
    let context = Context { files: &Disk::default(), ..Context::new(rules) };
    judge(&Action::Shell { command: command.to_owned() }, &context)
}

/// Writes a verdict for a person, as lines: the decision, the reasons, and the effects.
#[must_use]
pub fn verdict_lines(verdict: &PolicyVerdict) -> Vec<String> {
    let decision = match verdict.decision {
        Decision::Run => "runs unasked",
        Decision::Ask => "you are asked",
        Decision::Deny => "doesn't run",
    };
    let mut lines = vec![format!("{} risk: {decision}", verdict.risk)];
    lines.extend(verdict.reasons.iter().map(|reason| format!("  {}: {} ({})", reason.risk, reason.text, reason.rule)));
    if !verdict.effects.is_empty() {
        lines.push("what it would do:".to_owned());
        lines.extend(verdict.effects.iter().map(|effect| format!("  {effect}")));
    }
    let mut needs: Vec<&str> = verdict.needs.iter().map(|need| need.word()).collect();
    needs.sort_unstable();
    needs.dedup();
    if !needs.is_empty() {
        lines.push(format!("needs more than a copy of the workspace: {}", needs.join(", ")));
    }
    // Text quoted from a command may contain line ends, and must not look like lines of ours.
    lines.iter().map(|line| line.replace('\n', "\\n")).collect()
}
