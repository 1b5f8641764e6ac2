//! The only way from a model's call to an act: the policy judges it, a person is asked if necessary, and receipts are
//! written before and after. Only this room makes a [`Permit`], and no tool runs without one. It doesn't ask anybody
//! itself: a question is data, and an answer counts only for the call in the question.

mod allowed;
mod ceiling;
mod chain;
mod disk;
mod grant;
mod listed;
mod named;
mod permit;
mod pins;
mod share;
#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::Value;

use crate::base::program::{SearchPath, find_program};
use crate::base::time::utc;
use crate::files::Tree;
use crate::host::now_unix_ms;
use crate::policy::{self, Context, Files, High, Rules};
use crate::proto::action::{Action, Autonomy, Decision, Hold, Need, PolicyVerdict, Reason, Risk};
use crate::proto::tool::{FileChange, Outcome, Question, ToolError};
use crate::receipts::{self, Log};

pub use crate::policy::is_plain_name;
pub use allowed::{Allowed, AllowedError, Rule};
pub use ceiling::Ceiling;
pub use chain::{Blocked, Chain};
use disk::Above;
pub use disk::Disk;
pub use grant::{CallsLeft, Grant, GrantError};
pub use named::{Named, Tracked};
pub use permit::Permit;
use permit::{changed_paths, filled, may_always, served_call};
pub use pins::{PinError, Pins, PinsVersion, definition, pin, whole_pin};
pub use share::{CommandBelow, CommandList, ListedCommand};

/// The tool that runs the check of the user's config.
pub const CHECK_TOOL: &str = "project_check";

/// The tool that runs the checks of a goal.
pub const GOAL_CHECK_TOOL: &str = "goal_check";

/// Characters of a tool's name that a receipt holds.
const TOOL_CHARS_MAX: usize = 100;

/// The tool whose commands may first run read-only.
const LOOKING_TOOL: &str = "shell";

/// A call, planned by its tool without touching anything.
#[derive(Clone, Debug, PartialEq)]
pub struct Call {
    /// The tool's name.
    pub tool: String,
    /// Its arguments, valid against its schema.
    pub arguments: Value,
    /// Its effect, for the policy.
    pub action: Action,
    /// Its changes, for a person to read.
    pub preview: String,
    /// The files that would change, as in the preview.
    pub changes: Arc<[FileChange]>,
    /// The conversation that it belongs to.
    pub conversation: Option<i64>,
    /// Needs beyond its copy of the workspace that an earlier run has shown.
    pub needs: Vec<Need>,
}

impl Call {
    /// The hash of its arguments, as its receipts have it.
    #[must_use]
    pub fn args_hash(&self) -> String {
        receipts::hash(self.arguments.to_string().as_bytes())
    }

    /// Returns whether it is a command that ends: only such a one runs on a copy of the workspace.
    fn may_have_copy(&self) -> bool {
        let in_background = self.arguments.get("background") == Some(&Value::Bool(true));
        matches!(self.action, Action::Shell { .. }) && !in_background
    }
}

/// A call that was judged. It is admitted or refused, once.
#[derive(Debug)]
#[must_use]
pub struct Ticket {
    call: Call,
    verdict: PolicyVerdict,
    digest: String,
    cwd: PathBuf,
    /// The person has allowed exactly this call permanently.
    is_allowed: bool,
    /// True if the person's grant to the run covers it.
    is_granted: bool,
    /// True if its effects are unknown: it first runs read-only.
    is_look: bool,
}

/// The authority that lets a call run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Approver {
    /// The policy, or a rule of the person's, without a question.
    Policy,
    /// The user's own config names this very command, to be run after accepted edits.
    Config,
    /// A person, who was asked about the call with this fingerprint.
    Person {
        /// [`Question::digest`].
        digest: String,
        /// Duration of their yes.
        lasting: Lasting,
        /// The person's name, if they answered elsewhere than at the terminal.
        by: Option<String>,
    },
    /// A person named this very command as a check of the run's goal.
    Check,
}

/// Duration of a person's yes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lasting {
    /// For this call.
    Once,
    /// For the same command from now on, at the same paths.
    Command,
    /// For the changes of every command in the directories of [`Question::filled`].
    Filled,
}

/// The metadata of an outcome that names the files that it changed outside the workspace, for its receipt.
pub const CHANGED_OUTSIDE: &str = "changed_outside";

/// The emergency stop: the reason for it, while it is on.
pub type Stop = Arc<dyn Fn() -> Option<String> + Send + Sync>;

/// The parts of a gate.
pub struct Options {
    /// The user's rules.
    pub rules: Rules,
    /// The highest autonomy for now; it lowers that of the rules and never raises it.
    pub ceiling: Ceiling,
    /// The name of the sandbox, for the receipts, and how it holds a command. Asked only if a program is to be started.
    pub sandbox: Box<dyn Fn() -> (&'static str, Hold) + Send>,
    /// The log of receipts; `None` if the user has switched receipts off.
    pub log: Option<Log>,
    /// The reason for the emergency stop, while it is on.
    pub stop: Stop,
    /// The calls that are allowed permanently in this project.
    pub allowed: Allowed,
    /// The command that the user's config has run after accepted edits.
    pub check: Option<String>,
    /// `PATH`, to find the program of a word.
    pub path: SearchPath,
    /// A file that gets a line for each decision, if the user wants one.
    pub audit_log: Option<PathBuf>,
}

/// The gate.
pub struct Gate {
    options: Options,
    /// Gates of a team in front of the policy.
    chain: Option<Arc<dyn Chain>>,
    /// The person's grant to the present run.
    grant: Option<Grant>,
    /// Links in git's indices, as far as they are known.
    tracked: Arc<Tracked>,
    /// The tree that tools work on in place of the workspace's files.
    tree: Option<Arc<dyn Tree>>,
}

impl Gate {
    /// Makes the gate.
    #[must_use]
    pub fn new(options: Options) -> Self {
        Self { options, chain: None, grant: None, tracked: Arc::default(), tree: None }
    }

    /// Sets the gates that are asked before any call is admitted.
    pub fn set_chain(&mut self, chain: Arc<dyn Chain>) {
        self.chain = Some(chain);
    }

    /// Sets the tree that tools work on in place of the workspace's files: its links determine the targets of paths.
    pub fn set_tree(&mut self, tree: Arc<dyn Tree>) {
        self.tree = Some(tree);
    }

    /// The user's rules; the ceiling may lower their autonomy.
    #[must_use]
    pub fn rules(&self) -> &Rules {
        &self.options.rules
    }

    /// The files of the workspace that other programs run by another name, as they are at the first question.
    #[must_use]
    pub fn named(&self) -> Named {
        let Rules { home, workspace, .. } = &self.options.rules;
        Named::over(Path::new(home), Path::new(workspace), Arc::clone(&self.tracked))
    }

    /// The rules by which it judges now.
    fn rules_now(&self) -> Cow<'_, Rules> {
        let Options { rules, ceiling, .. } = &self.options;
        match ceiling.lowered(rules.autonomy) {
            autonomy if autonomy == rules.autonomy => Cow::Borrowed(rules),
            autonomy => Cow::Owned(Rules { autonomy, ..rules.clone() }),
        }
    }

    /// Returns whether a call runs on a copy of the workspace. It may start programs to find out.
    #[must_use]
    pub fn has_copy(&self, call: &Call) -> bool {
        let hold = (self.options.sandbox)().1;
        // A session's files are copies, regardless of how its commands are confined.
        call.may_have_copy() && (hold == Hold::Copy || hold == Hold::Walls && self.tree.is_some())
    }

    /// Returns whether a person may be asked for the thing that a command was refused: never for a path that no tool
    /// may have.
    #[must_use]
    pub fn may_offer(&self, need: &Need, cwd: &Path) -> bool {
        // The policy's verdict on the simplest command that does no more.
        let quoted = |path: &str| format!("'{}'", path.replace('\'', r"'\''"));
        let command = match need {
            Need::Read { path } | Need::Socket { path } => format!("cat {}", quoted(path)),
            Need::Write { path } => format!("touch {}", quoted(path)),
            Need::Network { .. } | Need::Host { .. } => return true,
        };
        let action = Action::Shell { command };
        let cwd = cwd.to_str().unwrap_or("/");
        let context =
            Context { rules: &self.options.rules, cwd, can_ask: true, hold: Hold::Copy, files: &Disk::default() };
        policy::judge(&action, &context).risk < Risk::Blocked
    }

    /// Returns whether one new file of a directory of the workspace represents all others with plain, unprotected names: nothing
    /// exists there yet, no link leads elsewhere, and only the rules about paths apply.
    #[must_use]
    pub fn judges_alike(&self, disk: &Disk, directory: &Path) -> bool {
        let workspace = Path::new(&self.options.rules.workspace);
        let whole = workspace.join(directory);
        self.grant.is_none()
            && self.chain.is_none()
            && disk.is_new(workspace, directory)
            && whole.to_str().is_some_and(|whole| policy::is_plain_below(&self.options.rules, whole))
    }

    /// The paths outside the workspace that a judged call could write.
    #[must_use]
    pub fn opened_by(&self, ticket: &Ticket) -> Vec<PathBuf> {
        writable(&ticket.verdict, &self.options.rules)
    }

    /// Returns the highest autonomy for now.
    #[must_use]
    pub fn ceiling(&self) -> &Ceiling {
        &self.options.ceiling
    }

    /// Returns the reason for the emergency stop, while it is on.
    #[must_use]
    pub fn stop(&self) -> &Stop {
        &self.options.stop
    }

    /// Binds a person's grant to the run that begins; `None` if there is no run.
    pub fn grant(&mut self, grant: Option<Grant>) {
        self.grant = grant;
    }

    /// Calls that the run that is on may still make, if they are counted.
    #[must_use]
    pub fn calls_left(&self) -> Option<u64> {
        self.grant.as_ref().and_then(Grant::calls_left)
    }

    /// The calls that are allowed permanently in this project.
    pub fn allowed(&mut self) -> &mut Allowed {
        &mut self.options.allowed
    }

    /// Judges a call that would start in `cwd`. Nothing is touched.
    pub fn judge(&self, call: Call, cwd: &Path, can_ask: bool) -> Ticket {
        let mut verdict = self.verdict(&call, cwd, can_ask);
        let is_allowed = verdict.decision != Decision::Run
            && may_always(&call, &verdict)
            && self.program(&call, cwd).is_some_and(|program| {
                command(&call).is_some_and(|command| self.options.allowed.allows(command, cwd, &program))
            });
        let is_allowed = is_allowed
            || verdict.decision == Decision::Ask
                && may_always(&call, &verdict)
                && changed_paths(&call)
                    .is_some_and(|(command, paths)| self.options.allowed.allows_to_keep(command, &paths));
        let is_allowed =
            is_allowed || self.is_granted(&call, &verdict) || self.is_always(&call, &verdict, (cwd, can_ask));
        let autonomy = self.rules_now().autonomy;
        let (workspace, files) = (Path::new(&self.rules().workspace), Disk::over(Arc::clone(&self.tracked)));
        let is_granted = !is_allowed
            && verdict.decision == Decision::Ask
            && autonomy != Autonomy::Readonly
            && self.grant.as_ref().is_some_and(|grant| grant.covers(&call, &verdict, workspace, &files));
        // Paths that a grant protects are asked about, even if something else would let the call run.
        let is_protected = self.grant.as_ref().is_some_and(|grant| grant.protects(&call, workspace, &files));
        if is_protected && verdict.decision == Decision::Run {
            verdict.decision = Decision::Ask;
            let text = "it changes what the checks of the goal depend on".to_owned();
            verdict.reasons.push(Reason { rule: "goal-check", risk: verdict.risk, text });
        }
        let (is_allowed, is_granted) = (is_allowed && !is_protected, is_granted && !is_protected);
        if is_allowed || is_granted {
            verdict.decision = Decision::Run;
        }
        let is_look = self.may_look_first(&call, &verdict);
        if is_look {
            verdict.decision = Decision::Run;
        }
        let digest = fingerprint(&call, cwd);
        Ticket { call, verdict, digest, cwd: cwd.to_owned(), is_allowed, is_granted, is_look }
    }

    /// Returns whether a command first runs read-only. What it was refused is asked about afterwards.
    fn may_look_first(&self, call: &Call, verdict: &PolicyVerdict) -> bool {
        call.needs.is_empty()
            && call.tool == LOOKING_TOOL
            && call.may_have_copy()
            // On a session's bench it could write at its first look, too.
            && self.tree.is_none()
            && policy::looks_first(verdict, (self.options.sandbox)().1)
    }

    /// The confinement that a call would have.
    fn hold_of(&self, call: &Call) -> Hold {
        // Choosing a sandbox takes time, so it is left to the first program.
        let hold = if starts_program(&call.action) { (self.options.sandbox)().1 } else { Hold::Walls };
        // Only a command that ends has a copy; a job and a plugin work on the workspace itself.
        if call.may_have_copy() { hold } else { hold.min(Hold::Walls) }
    }

    fn verdict(&self, call: &Call, cwd: &Path, can_ask: bool) -> PolicyVerdict {
        let cwd = cwd.to_str().unwrap_or("/");
        let hold = self.hold_of(call);
        let rules = self.rules_now();
        let disk = Disk::over(Arc::clone(&self.tracked));
        let above = self.tree.as_deref().map(|tree| Above { disk: &disk, tree });
        let files = above.as_ref().map_or(&disk as &dyn Files, |above| above);
        let context = Context { rules: &rules, cwd, can_ask, hold, files };
        let verdict = policy::judge(&call.action, &context);
        if call.needs.is_empty() {
            return with_opened(verdict, &rules, hold);
        }
        let verdict = verdict.with_needs(&call.needs, |verdict| policy::decide_again(verdict, &context));
        // It has run already: only the refused need is to be decided.
        let reason = |need: &Need| Reason { rule: "refused", risk: verdict.risk, text: need.to_string() };
        let reasons = call.needs.iter().map(reason).collect();
        if verdict.risk == Risk::Blocked {
            return verdict;
        }
        with_opened(PolicyVerdict { reasons, effects: Vec::new(), ..verdict }, &rules, hold)
    }

    /// Lets a judged call run: it is judged once more, and its intent is in the receipts before this returns.
    ///
    /// # Errors
    /// It may not run: the verdict is no, or has changed; a person should have been asked and wasn't; the answer was
    /// for another call; the emergency stop is on; the receipt can't be written. The refusal is in the receipts.
    pub fn admit(&mut self, ticket: Ticket, approver: &Approver) -> Result<Permit, Box<Outcome>> {
        if let Some(Err(blocked)) = self.chain.as_ref().map(|chain| chain.decide(&ticket.call, &ticket.verdict)) {
            return Err(self.block(ticket, &blocked).into());
        }
        if let Some(why) = (self.options.stop)() {
            return Err(self.refuse(ticket, "estop", &why).into());
        }
        if let Some(why) = self.grant.as_ref().and_then(|grant| grant.used_up(&ticket.call, approver)) {
            return Err(self.refuse(ticket, "run-budget", why).into());
        }
        let now = self.judge(ticket.call.clone(), &ticket.cwd, true);
        let has_said = match approver {
            Approver::Policy => false,
            Approver::Check => self.is_goal_check(&ticket.call),
            Approver::Config => {
                let Call { tool, .. } = &ticket.call;
                tool == CHECK_TOOL && command(&ticket.call).is_some_and(|it| self.options.check.as_deref() == Some(it))
            }
            Approver::Person { digest, .. } if *digest == ticket.digest => true,
            Approver::Person { .. } => {
                return Err(self.refuse(ticket, "other-call", "the answer was for another call").into());
            }
        };
        if now.verdict.decision == Decision::Deny && ticket.verdict.decision != Decision::Deny {
            let (code, text) = self.denial(&now.verdict, true);
            return Err(self.refuse(ticket, code, &text).into());
        }
        if ticket.verdict.decision == Decision::Deny {
            let text = reasons(&ticket.verdict);
            return Err(self.refuse(ticket, "policy", &text).into());
        }
        if now.verdict.risk > ticket.verdict.risk || (now.verdict.decision == Decision::Ask && !has_said) {
            return Err(self.refuse(ticket, "not-approved", "it needs the user's consent").into());
        }
        let (word, lasting) = approval(&ticket, approver);
        if let Err(error) = self.keep_rule(&ticket, lasting) {
            return Err(self.refuse(ticket, "allow-rule", &format!("the rule can't be kept: {error}")).into());
        }
        let entry = self.entry(&ticket, Some(&word));
        let opened = match &mut self.options.log {
            None => None,
            Some(log) => match log.intent(&entry) {
                Ok(opened) => Some(opened),
                Err(error) => {
                    let hint = "nothing runs without a receipt; see reedclaw doctor";
                    return Err(Box::new(ToolError::new("no-receipt", error.to_string(), hint).into()));
                }
            },
        };
        self.audit(&ticket, "allowed", &word);
        if let Some(grant) = &mut self.grant {
            grant.count(&ticket.call, approver);
        }
        let is_look = ticket.is_look_by(approver);
        let is_by_words = *approver != Approver::Policy || ticket.is_allowed || ticket.is_granted;
        let has_network = Self::gives_network(&ticket.verdict, self.hold_of(&ticket.call), is_by_words);
        let rules = self.options.rules.clone();
        let Ticket { call, verdict, cwd, digest, .. } = ticket;
        Ok(Permit { call, verdict, cwd, rules, is_look, has_network, is_by_words, digest, opened })
    }

    /// Returns whether a call gets the network of this machine. A program on a copy has a loopback of its own, so words that name
    /// only this machine open nothing there; elsewhere they do if a person has agreed to them.
    fn gives_network(verdict: &PolicyVerdict, hold: Hold, is_agreed: bool) -> bool {
        permit::needs_network(verdict) || permit::speaks(verdict) && is_agreed && hold < Hold::Copy
    }

    /// Adds a rule for what a person never wants to be asked about again, if that is possible.
    fn keep_rule(&mut self, ticket: &Ticket, lasting: Lasting) -> Result<(), AllowedError> {
        if lasting == Lasting::Once || !may_always(&ticket.call, &ticket.verdict) {
            return Ok(());
        }
        if lasting == Lasting::Filled {
            let filled = filled(&ticket.call);
            return if filled.is_empty() { Ok(()) } else { self.options.allowed.add_to_fill(filled) };
        }
        if let Some((line, pin)) = served_call(&ticket.call) {
            return self.options.allowed.add_served(line, pin.to_owned());
        }
        let program = self.program(&ticket.call, &ticket.cwd);
        match (command(&ticket.call), program, changed_paths(&ticket.call)) {
            (Some(command), Some(program), _) => self.options.allowed.add(command, &ticket.cwd, &program),
            (_, _, Some((command, paths))) => self.options.allowed.add_to_keep(command, paths),
            _ => Ok(()),
        }
    }

    /// Reason why a call that is denied may not run: a code and words.
    #[must_use]
    pub fn denial(&self, verdict: &PolicyVerdict, can_ask: bool) -> (&'static str, String) {
        // The model can do something about the needs of a command in the sandbox.
        let needs: Vec<String> = verdict.needs.iter().map(ToString::to_string).collect();
        let why = if needs.is_empty() || verdict.risk == Risk::Blocked { reasons(verdict) } else { needs.join("; ") };
        let Rules { autonomy, high, .. } = &*self.rules_now();
        match (autonomy, verdict.risk) {
            (_, Risk::Blocked) => ("policy", why),
            (Autonomy::Readonly, _) if self.options.rules.autonomy != Autonomy::Readonly => {
                ("config", format!("the session's mode is \"readonly\" ({why})"))
            }
            (Autonomy::Readonly, _) => ("config", format!("security.autonomy is \"readonly\" ({why})")),
            (Autonomy::Supervised, Risk::High) if *high == High::Deny => {
                ("config", format!("security.high is \"deny\" ({why})"))
            }
            _ if !can_ask => ("unasked", format!("it needs the user's consent, and no one can be asked here ({why})")),
            _ => ("policy", why),
        }
    }

    /// Refuses a judged call and records the refusal; returns the outcome for the model.
    pub fn refuse(&mut self, ticket: Ticket, code: &'static str, why: &str) -> Outcome {
        let rule = ticket.verdict.reasons.first().map_or(code, |reason| reason.rule);
        self.refuse_by(&ticket, code, rule, why)
    }

    /// Refuses a judged call because a gate of a team blocks it: its receipt has the gate's name as the rule.
    pub fn block(&mut self, ticket: Ticket, blocked: &Blocked) -> Outcome {
        self.refuse_by(&ticket, blocked.gate, blocked.gate, &blocked.why)
    }

    fn refuse_by(&mut self, ticket: &Ticket, code: &'static str, rule: &'static str, why: &str) -> Outcome {
        let hint = match &ticket.call.action {
            Action::Served { server, tool, .. } if code == "unasked" => format!(
                "do without it, and tell the user that their config can allow it: mcp.servers.{server}.tools = {{ [{tool:?}] = \"run\" }}"
            ),
            _ => hint_of(code).to_owned(),
        };
        let mut outcome: Outcome = ToolError::new("denied", why, hint).into();
        outcome.metadata.insert("risk".into(), ticket.verdict.risk.word().into());
        outcome.metadata.insert("rule".into(), rule.into());
        self.audit(ticket, "denied", code);
        let entry = self.entry(ticket, (code == "no").then_some("person"));
        let entry = receipts::Entry { rule: Some(rule.to_owned()), ..entry };
        if let Some(log) = &mut self.options.log {
            // The call doesn't run in any case; the check of the receipts reports a missing one.
            if let Ok(id) = log.denied(&entry) {
                outcome.receipt_id = Some(id.as_str().to_owned());
            }
        }
        outcome
    }

    /// Records a call that failed before any decision: the tool is unknown, or can't do it. The rule is the kind of
    /// failure.
    pub fn turn_away(&self, tool: &str, arguments: &str, conversation: Option<i64>, outcome: &mut Outcome) {
        let Some(log) = &self.options.log else { return };
        let parsed = serde_json::from_str::<Value>(arguments).map(|value| value.to_string());
        let entry = receipts::Entry {
            conversation_id: conversation.and_then(|id| u64::try_from(id).ok()),
            // The name of an unknown tool is the model's invention.
            tool: tool.chars().take(TOOL_CHARS_MAX).collect(),
            args_hash: receipts::hash(parsed.as_deref().unwrap_or(arguments).as_bytes()),
            rule: outcome.error.as_ref().map(|error| error.code.to_owned()),
            ..receipts::Entry::default()
        };
        outcome.receipt_id = log.denied(&entry).ok().map(|id| id.as_str().to_owned());
    }

    /// Adds a line to the audit log: time, call, decision and author. The receipts are the record; a failure to write
    /// this line stops nothing.
    fn audit(&self, ticket: &Ticket, decision: &str, by: &str) {
        let Some(path) = &self.options.audit_log else { return };
        let Ticket { call, verdict, .. } = ticket;
        let line = serde_json::json!({
            "time": utc(now_unix_ms()),
            "tool": call.tool,
            "decision": decision,
            "by": by,
            "risk": verdict.risk.word(),
            "rules": verdict.reasons.iter().map(|reason| reason.rule).collect::<Vec<_>>(),
        });
        let mut options = std::fs::OpenOptions::new();
        if let Ok(mut file) = options.append(true).create(true).mode(0o600).open(path) {
            let _ = file.write_all(format!("{line}\n").as_bytes());
        }
    }

    /// Records the outcome of a call.
    pub fn settle(&mut self, permit: Permit, outcome: &mut Outcome) {
        let (Some(log), Some(opened)) = (&mut self.options.log, permit.opened) else { return };
        let hash = receipts::hash(outcome.to_value().to_string().as_bytes());
        let result = receipts::Outcome {
            failed: !outcome.success,
            result_hash: Some(hash),
            outside: outcome.metadata.get(CHANGED_OUTSIDE).and_then(Value::as_str).map(str::to_owned),
        };
        match log.settle(opened, &result) {
            Ok(id) => outcome.receipt_id = Some(id.as_str().to_owned()),
            Err(error) => {
                outcome.metadata.insert("receipt".into(), format!("it could not be written: {error}").into());
            }
        }
    }

    fn entry(&self, ticket: &Ticket, approver: Option<&str>) -> receipts::Entry {
        let Ticket { call, verdict, .. } = ticket;
        receipts::Entry {
            conversation_id: call.conversation.and_then(|id| u64::try_from(id).ok()),
            tool: call.tool.clone(),
            args_hash: call.args_hash(),
            risk: verdict.risk.word().to_owned(),
            approver: approver.map(str::to_owned),
            rule: verdict.reasons.first().map(|reason| reason.rule.to_owned()),
            sandbox: starts_program(&call.action).then(|| (self.options.sandbox)().0.to_owned()),
            outside: granted(&verdict.needs),
        }
    }

    /// Returns whether a person has allowed exactly this call of a server's tool permanently. That answers a question, and
    /// nothing that is refused.
    fn is_always(&self, call: &Call, verdict: &PolicyVerdict, (cwd, can_ask): (&Path, bool)) -> bool {
        let asks = |verdict: &PolicyVerdict| verdict.decision == Decision::Ask;
        (asks(verdict) || !can_ask)
            && may_always(call, verdict)
            && served_call(call).is_some_and(|(line, pin)| self.options.allowed.allows_served(&line, pin))
            && (asks(verdict) || asks(&self.verdict(call, cwd, true)))
    }

    /// Returns whether the user's own configuration lets a server's tool run without a question.
    fn is_granted(&self, call: &Call, verdict: &PolicyVerdict) -> bool {
        let is_granted = matches!(call.action, Action::Served { is_granted: true, .. });
        is_granted && verdict.risk < Risk::Blocked && self.rules_now().autonomy != Autonomy::Readonly
    }

    /// Returns whether a call runs a check that a person named for the run's goal.
    fn is_goal_check(&self, call: &Call) -> bool {
        let named = |it| self.grant.as_ref().is_some_and(|grant| grant.is_check(it));
        call.tool == GOAL_CHECK_TOOL && command(call).is_some_and(named)
    }

    fn program(&self, call: &Call, cwd: &Path) -> Option<PathBuf> {
        self.program_of(command(call)?.split_whitespace().next()?, cwd)
    }

    /// The program that a shell in a directory would run for a word.
    #[must_use]
    pub fn program_of(&self, word: &str, cwd: &Path) -> Option<PathBuf> {
        let is_held = (self.options.sandbox)().1 != Hold::Nothing;
        find_program(word, &self.options.path.text(is_held), cwd)
    }

    /// Makes the question about a call.
    #[must_use]
    pub fn question(&self, ticket: &Ticket) -> Question {
        let Ticket { call, verdict, digest, cwd, .. } = ticket;
        let is_known =
            || changed_paths(call).is_some() || served_call(call).is_some() || self.program(call, cwd).is_some();
        let may_always = may_always(call, verdict) && is_known();
        Question {
            digest: digest.clone(),
            tool: call.tool.clone(),
            action: call.action.clone(),
            verdict: verdict.clone(),
            preview: call.preview.clone(),
            changes: Arc::clone(&call.changes),
            cwd: cwd.display().to_string(),
            program: self.program(call, cwd).map(|program| program.display().to_string()),
            only_own_shell: false,
            may_always,
            filled: if may_always { filled(call) } else { Vec::new() },
        }
    }
}

impl Ticket {
    /// Asks the policy for its verdict.
    #[must_use]
    pub fn verdict(&self) -> &PolicyVerdict {
        &self.verdict
    }

    /// The call.
    #[must_use]
    pub fn call(&self) -> &Call {
        &self.call
    }

    /// Returns whether it may only read, if this approver lets it run.
    #[must_use]
    pub fn is_look_by(&self, approver: &Approver) -> bool {
        self.is_look && *approver == Approver::Policy
    }
}

/// The paths outside the workspace that a verdict opens for writing, as far as they can be.
fn writable(verdict: &PolicyVerdict, rules: &Rules) -> Vec<PathBuf> {
    verdict.needs.iter().filter_map(|need| opened(need, rules)).map(|(_, found)| found.to_owned()).collect()
}

/// A path that is to be written, and the one that is opened for it: itself or, if nothing is there yet, its directory.
fn opened<'a>(need: &'a Need, rules: &Rules) -> Option<(&'a Path, &'a Path)> {
    let Need::Write { path } = need else { return None };
    let path = Path::new(path);
    if path == Path::new(&rules.workspace) {
        return None;
    }
    let found = path.ancestors().take(2).find(|path| path.symlink_metadata().is_ok())?;
    (!Path::new(&rules.home).starts_with(found)).then_some((path, found))
}

/// Adds to a verdict the directories that would be open as a whole: a sandbox can't open a file that isn't there yet.
#[must_use]
pub fn with_opened(mut verdict: PolicyVerdict, rules: &Rules, hold: Hold) -> PolicyVerdict {
    if verdict.risk == Risk::Blocked || !matches!(hold, Hold::Copy | Hold::Walls) {
        return verdict;
    }
    let whole = verdict.needs.iter().filter_map(|need| opened(need, rules)).filter(|(path, found)| path != found);
    let reason = |rule, text| Reason { rule, risk: verdict.risk, text };
    let mut reasons: Vec<Reason> = whole
        .map(|(path, found)| {
            let (path, found) = (path.display(), found.display());
            reason("opened", format!("may change everything in {found}, since {path} isn't there yet"))
        })
        .collect();
    let is_made_in_jail = |path: &&Path| hold == Hold::Copy && path.starts_with(&rules.home);
    reasons.extend(unopened(&verdict, rules).filter(|path| !is_made_in_jail(path)).map(|path| {
        reason("unopened", format!("the sandbox can't open {} for it; your own shell can", path.display()))
    }));
    verdict.reasons.extend(reasons);
    verdict
}

/// The paths of a home that a verdict needs for writing and that can't be opened: nothing is there yet, and a home isn't
/// opened as a whole.
fn unopened<'a>(verdict: &'a PolicyVerdict, rules: &'a Rules) -> impl Iterator<Item = &'a Path> {
    verdict.needs.iter().filter_map(|need| match need {
        Need::Write { path } if *path != rules.workspace && opened(need, rules).is_none() => Some(Path::new(path)),
        _ => None,
    })
}

/// Returns the receipt's note about access outside the workspace.
fn granted(needs: &[Need]) -> Option<String> {
    let words: Vec<String> = needs
        .iter()
        .map(|need| match need {
            Need::Network { host } if host.is_empty() => "network".to_owned(),
            Need::Network { host } => format!("network {host}"),
            Need::Read { path } => format!("read {path}"),
            Need::Write { path } => format!("write {path}"),
            Need::Socket { path } => format!("socket {path}"),
            Need::Host { what } => what.clone(),
        })
        .collect();
    (!words.is_empty()).then(|| words.join(", "))
}

/// The reason for a verdict, in one line.
#[must_use]
pub fn reasons(verdict: &PolicyVerdict) -> String {
    let weightiest = verdict.reasons.iter().filter(|reason| reason.risk == verdict.risk);
    let texts: Vec<&str> = weightiest.map(|reason| reason.text.as_str()).take(3).collect();
    format!("{}: {}", verdict.risk, texts.join("; "))
}

fn hint_of(code: &str) -> &'static str {
    match code {
        "estop" => "all tools are stopped; answer in text and say so",
        "no" => "the user said no: don't ask for the same again, do without it or ask what they want",
        "config" => "the user's config doesn't allow it; do without it or say what the user could do",
        "unsaved" => "ask the user to save or discard their changes, then read the file again",
        "unasked" => "no one is there to approve it; do without it or say what the user could run themselves",
        "run-budget" => "the run is over: no tool can be called any more",
        "policy" => "it is never allowed like this; do without it or say what the user could do",
        _ => "do without it",
    }
}

/// Returns the approver's name for receipts, and how long their yes holds.
fn approval(ticket: &Ticket, approver: &Approver) -> (String, Lasting) {
    let word = match approver {
        Approver::Policy if ticket.is_granted => "grant",
        // The user's config lets it run as long as the server's tool is the one that they have seen.
        Approver::Policy
            if ticket.is_allowed && matches!(ticket.call.action, Action::Served { is_granted: true, .. }) =>
        {
            "pinned"
        }
        Approver::Policy if ticket.is_allowed => "allowed",
        Approver::Check => "check",
        Approver::Policy => "policy",
        Approver::Config => "config",
        Approver::Person { lasting, by: Some(name), .. } => return (format!("person:{name}"), *lasting),
        Approver::Person { lasting, by: None, .. } => return ("person".to_owned(), *lasting),
    };
    (word.to_owned(), Lasting::Once)
}

fn command(call: &Call) -> Option<&str> {
    match &call.action {
        Action::Shell { command } => Some(command),
        _ => None,
    }
}

/// The fingerprint of exactly this call.
fn fingerprint(call: &Call, cwd: &Path) -> String {
    let Call { tool, arguments, preview, needs, .. } = call;
    // serde_json's maps are sorted, so equal arguments are equal text. Those of applied changes contain each file's hash; their
    // preview also has the duration of the command.
    let preview = if matches!(call.action, Action::Keep { .. }) { "" } else { preview };
    let needs = if needs.is_empty() { String::new() } else { format!("{needs:?}") };
    let parts = [tool.as_str(), &arguments.to_string(), preview, &cwd.display().to_string(), &needs];
    let framed = |part: &&str| [&(part.len() as u64).to_be_bytes()[..], part.as_bytes()].concat();
    receipts::hash(&parts.iter().flat_map(framed).collect::<Vec<u8>>())
}

fn starts_program(action: &Action) -> bool {
    matches!(action, Action::Shell { .. } | Action::External { .. } | Action::Served { .. })
}
