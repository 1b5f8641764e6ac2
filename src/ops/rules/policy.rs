//! The policy: the effective rules, and its verdict on a command in words. Nothing is run.

use std::path::Path;

use crate::app::{self, Runtime};
use crate::config::{Env, Settings};
use crate::gate::{Disk, with_opened};
use crate::policy::{Context, High, Rules, judge, looks_first};
use crate::proto::action::{Action, Autonomy, Decision, Hold, PolicyVerdict, Risk};

/// A command as it would begin.
#[derive(Debug)]
pub struct Explained {
    /// The verdict, with the decision of the beginning.
    pub verdict: PolicyVerdict,
    /// `true` if it begins with a run that can only look.
    pub is_look: bool,
    /// Its fate, in words for a person.
    pub outcome: String,
}

/// Makes the rules from settings and an environment; `config` is the file that a model never touches.
#[must_use]
pub fn rules(settings: &Settings, env: &Env, config: Option<&Path>) -> Rules {
    app::policy_rules(settings, env, config)
}

/// The effective rules for a model in a workspace.
#[must_use]
pub fn rules_in(runtime: &Runtime, workspace: &Path) -> Rules {
    let rules = rules(runtime.settings(), runtime.env(), runtime.config().path.as_deref());
    Rules { workspace: workspace.display().to_string(), ..rules }
}

/// The name of the sandbox in use, and what it holds.
#[must_use]
pub fn sandbox(runtime: &Runtime) -> (&'static str, Hold) {
    app::sandbox_in_use(runtime.settings(), runtime.env(), runtime.cwd())
}

/// The limits that rules set, as the rows of a table: name and value. `sandbox` is the name of the one in use.
#[must_use]
pub fn limit_rows(rules: &Rules, sandbox: &str) -> Vec<Vec<String>> {
    let row = |name: &str, value: String| vec![name.to_owned(), value];
    let mut rows = vec![
        row("autonomy", rules.autonomy.to_string()),
        row("high risk", if rules.high == High::Deny { "denied".into() } else { "asked about".into() }),
        row("workspace", rules.workspace.clone()),
        row(
            "files outside it",
            if rules.workspace_only { "file tools: refused; commands: asked about" } else { "asked about" }.into(),
        ),
        row("forbidden paths", rules.forbidden_paths.join(" ")),
        row("forbidden commands", rules.forbidden_commands.join(" ")),
        row("sandbox", sandbox.to_owned()),
    ];
    if !rules.allow_domains.is_empty() {
        rows.push(row("allowed domains", rules.allow_domains.join(" ")));
    }
    let paths = rules.own_paths.iter().enumerate();
    rows.extend(paths.map(|(at, path)| row(if at == 0 { "never touched" } else { "" }, path.clone())));
    rows
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
    let verdict = PolicyVerdict { decision, ..verdict };
    let outcome = outcome(&verdict, is_look, context);
    Explained { verdict, is_look, outcome }
}

/// Describes the fate of a command: whether it runs, what confines it, and what happens to its changes.
fn outcome(verdict: &PolicyVerdict, is_look: bool, context: &Context<'_>) -> String {
    const IN_SANDBOX: &str = "runs unasked in the sandbox, without a network";
    let Rules { autonomy, is_draft, .. } = context.rules;
    let changes = match autonomy {
        Autonomy::Readonly => "its changes are dropped",
        _ if *is_draft => "its changes become part of the session's draft",
        Autonomy::Supervised => "you are asked about its changes",
        Autonomy::Full => "its changes are kept, but you are asked about protected files",
    };
    match (verdict.decision, context.hold) {
        (Decision::Ask, _) => "you are asked before it runs".to_owned(),
        (Decision::Deny, _) if verdict.risk == Risk::Blocked => "never runs".to_owned(),
        (Decision::Deny, _) if *autonomy == Autonomy::Readonly => "doesn't run in readonly".to_owned(),
        (Decision::Deny, Hold::Nothing) => "doesn't run without a sandbox".to_owned(),
        (Decision::Deny, _) => "doesn't run, as security.high says".to_owned(),
        (Decision::Run, _) if is_look => {
            format!("{IN_SANDBOX}, where it can only look; you are asked if it tries to change something")
        }
        (Decision::Run, Hold::Copy | Hold::Walls) if verdict.risk == Risk::Low => IN_SANDBOX.to_owned(),
        (Decision::Run, Hold::Copy) => format!("{IN_SANDBOX}, on a copy of the workspace; {changes}"),
        (Decision::Run, Hold::Walls) => format!("{IN_SANDBOX}, and changes the workspace itself"),
        (Decision::Run, Hold::Nothing) => "runs unasked: it is proved harmless".to_owned(),
        (Decision::Run, Hold::Off) => "runs unasked with your rights, since the sandbox is off".to_owned(),
    }
}

/// Describes a verdict for a person, in lines: what happens, the risk with its reasons, and the effects.
#[must_use]
pub fn verdict_lines(explained: &Explained) -> Vec<String> {
    let Explained { verdict, outcome, .. } = explained;
    let mut lines = vec![outcome.clone(), format!("risk by its words: {}", verdict.risk)];
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_outcome_of_a_command_is_explained_for_each_sandbox_and_autonomy() {
        use Autonomy::{Full, Readonly, Supervised};
        const ASKED: &str = "you are asked before it runs";
        const HELD: &str = "runs unasked in the sandbox, without a network";
        const LOOK: &str = ", where it can only look; you are asked if it tries to change something";
        let copy = |changes: &str| format!("{HELD}, on a copy of the workspace; {changes}");
        let asked_after = copy("you are asked about its changes");
        for (hold, autonomy, command, expected) in [
            (Hold::Copy, Supervised, "curl localhost:1", asked_after.as_str()),
            (Hold::Copy, Supervised, "./x", &asked_after),
            (Hold::Copy, Readonly, "rm -r src", &copy("its changes are dropped")),
            (Hold::Copy, Full, "touch a", &copy("its changes are kept, but you are asked about protected files")),
            (Hold::Copy, Readonly, "ls", HELD),
            (Hold::Copy, Full, "curl example.org", ASKED),
            (Hold::Copy, Readonly, "curl example.org", "doesn't run in readonly"),
            (Hold::Walls, Supervised, "touch a", ASKED),
            (Hold::Walls, Supervised, "curl localhost:1", ASKED),
            (Hold::Walls, Full, "touch a", &format!("{HELD}, and changes the workspace itself")),
            (Hold::Walls, Supervised, "./x", &format!("{HELD}{LOOK}")),
            (Hold::Nothing, Supervised, "ls", "runs unasked: it is proved harmless"),
            (Hold::Nothing, Full, "./x", "doesn't run without a sandbox"),
            (Hold::Off, Full, "touch a", "runs unasked with your rights, since the sandbox is off"),
            (Hold::Copy, Full, "rm -rf /", "never runs"),
        ] {
            let rules = Rules { autonomy, ..Rules::new("/home/you/work", "/home/you") };
            let explained = explain_in(&Context { hold, ..Context::new(&rules) }, command);
            assert_eq!(explained.outcome, expected, "{hold:?} {autonomy:?} {command}");
            assert_eq!(verdict_lines(&explained)[0], expected);
        }
    }
}
