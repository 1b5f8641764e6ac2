//! The policy's verdict on a command, in words. Nothing is run.

use crate::gate::{Disk, with_opened};
use crate::policy::{Context, Rules, judge, looks_first};
use crate::proto::action::{Action, Decision, Hold, PolicyVerdict};

/// A command as it would begin.
#[derive(Debug)]
pub struct Explained {
    /// The verdict, with the decision of the beginning.
    pub verdict: PolicyVerdict,
    /// Whether it begins with a run that can only look.
    pub is_look: bool,
}

/// Judges a command of a model by the rules, the sandbox in use and the files of the disk.
#[must_use]
pub fn explain(rules: &Rules, hold: Hold, command: &str) -> Explained {
    let explained = explain_in(&Context { files: &Disk::default(), hold, ..Context::new(rules) }, command);
    Explained { verdict: with_opened(explained.verdict, rules, hold), ..explained }
}

/// Judges a command of a model at a place.
#[must_use]
pub fn explain_in(context: &Context<'_>, command: &str) -> Explained {
    let verdict = judge(&Action::Shell { command: command.to_owned() }, context);
    let is_look = looks_first(&verdict, context.hold);
    let decision = if is_look { Decision::Run } else { verdict.decision };
    Explained { verdict: PolicyVerdict { decision, ..verdict }, is_look }
}

/// Writes a verdict for a person, as lines: the decision, the reasons, and the effects.
#[must_use]
pub fn verdict_lines(explained: &Explained) -> Vec<String> {
    let Explained { verdict, is_look } = explained;
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
    if *is_look {
        lines.push("it runs first where it can only look; you are asked if it tries to change something".to_owned());
    }
    // Text quoted from a command may contain line ends, and must not look like lines of ours.
    lines.iter().map(|line| line.replace('\n', "\\n")).collect()
}
