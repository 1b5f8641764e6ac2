//! The hands of a model: takes each of its calls through the gate, and gives back what came of it.

use std::path::Path;
use std::time::Instant;

use super::person::Person;
use crate::gate::{Approver, Call, Gate, Ticket, reasons};
use crate::host::Root;
use crate::model::{Cancel, Tool, ToolCall};
use crate::proto::Event;
use crate::proto::action::{Action, Decision};
use crate::proto::tool::{Answer, Outcome, Step, ToolError, ToolEvent};
use crate::tools::{Limits, Memory, Place, Registry, Replies, Spill, Work};

/// Commands that a person may put in place of a proposed one, one after the other, before it counts as no.
const EDITS_MAX: usize = 20;
/// Files that an intent names.
const INTENT_PATHS_MAX: usize = 5;

/// What hands are made of.
pub struct HandsOptions {
    /// The tools.
    pub registry: Registry,
    /// The gate.
    pub gate: Gate,
    /// The workspace.
    pub root: Root,
    /// Where whole outputs are kept.
    pub spill: Spill,
    /// How long things may take.
    pub limits: Limits,
    /// Earlier conversations.
    pub memory: Box<dyn Memory + Send>,
}

/// Tools, and the gate in front of them, in one workspace.
pub struct Hands {
    options: HandsOptions,
}

impl Hands {
    /// Puts them together.
    #[must_use]
    pub fn new(options: HandsOptions) -> Self {
        Self { options }
    }

    /// The gate.
    pub fn gate(&mut self) -> &mut Gate {
        &mut self.options.gate
    }

    /// The tools.
    #[must_use]
    pub fn registry(&self) -> &Registry {
        &self.options.registry
    }

    /// The workspace.
    #[must_use]
    pub fn workspace(&self) -> &Path {
        self.options.root.path()
    }

    /// The tools as a model is told of them.
    pub(super) fn tools(&self) -> Vec<Tool> {
        let tool = |spec: &crate::tools::Spec| Tool {
            name: spec.name.clone(),
            description: spec.description.clone(),
            schema: spec.schema.to_string(),
        };
        self.options.registry.specs().map(tool).collect()
    }

    /// Takes a call from wish to result: judged, asked for where it must be, run, and written down. Each step is told.
    pub fn call(
        &mut self,
        wish: &ToolCall,
        conversation: Option<i64>,
        cancel: &Cancel,
        person: &mut dyn Person,
        sink: &mut dyn FnMut(Event),
    ) -> Outcome {
        let started = Instant::now();
        let mut outcome = self.carried_out(wish, conversation, cancel, person, sink);
        if cancel.is_cancelled() && !outcome.success && outcome.error.is_none() {
            outcome.error = Some(ToolError::new("stopped", "the user stopped it", ""));
        }
        let tell = |step| Event::Tool(Box::new(ToolEvent { id: wish.id.clone(), tool: wish.name.clone(), step }));
        sink(tell(Step::Done { outcome: outcome.clone(), duration: started.elapsed() }));
        outcome
    }

    fn carried_out(
        &mut self,
        wish: &ToolCall,
        conversation: Option<i64>,
        cancel: &Cancel,
        person: &mut dyn Person,
        sink: &mut dyn FnMut(Event),
    ) -> Outcome {
        let mut arguments = wish.arguments.clone();
        for _ in 0..EDITS_MAX {
            let place = Place { root: &self.options.root, spill: &self.options.spill };
            let (tool, value, plan) = match self.options.registry.plan(&wish.name, &arguments, place) {
                Ok(planned) => planned,
                Err(error) => return error.into(),
            };
            let tell = |step| Event::Tool(Box::new(ToolEvent { id: wish.id.clone(), tool: tool.clone(), step }));
            sink(tell(Step::Requested { intent: intent(&plan.action) }));
            let call =
                Call { tool: tool.clone(), arguments: value, action: plan.action, preview: plan.preview, conversation };
            let cwd = plan.cwd.unwrap_or_else(|| self.options.root.path().to_owned());
            let ticket = self.options.gate.judge(call, &cwd, person.can_ask());
            if let Some(refusal) = plan.refusal.filter(|_| ticket.verdict().decision != Decision::Deny) {
                return refusal;
            }
            let deny = |step: &str| tell(Step::Denied { why: step.to_owned() });
            let approver = match ticket.verdict().decision {
                Decision::Run => Approver::Policy,
                Decision::Deny => {
                    let why = reasons(ticket.verdict());
                    sink(deny(&why));
                    return self.options.gate.refuse(ticket, "policy", &why);
                }
                Decision::Ask => {
                    let question = self.options.gate.question(&ticket);
                    match person.approve(&question) {
                        Answer::Once => Approver::Person { digest: question.digest, always: false },
                        Answer::Always => Approver::Person { digest: question.digest, always: question.may_always },
                        Answer::InMyShell => {
                            let approver = Approver::Person { digest: question.digest, always: false };
                            return self.hand_over(ticket, &approver, person);
                        }
                        Answer::Edited(command) => match edited(&ticket, &command) {
                            Some(edited) => {
                                arguments = edited;
                                continue;
                            }
                            None => return self.options.gate.refuse(ticket, "no", "the user said no"),
                        },
                        Answer::No(why) => {
                            let said = if why.is_empty() {
                                "the user said no".to_owned()
                            } else {
                                format!("the user said no: {why}")
                            };
                            sink(deny(&said));
                            return self.options.gate.refuse(ticket, "no", &said);
                        }
                    }
                }
            };
            if let Approver::Person { .. } = approver {
                sink(tell(Step::Approved));
            }
            return self.run(ticket, &approver, cancel, person);
        }
        ToolError::new("denied", "the user changed it again and again", "ask the user what they want").into()
    }

    fn run(&mut self, ticket: Ticket, approver: &Approver, cancel: &Cancel, person: &mut dyn Person) -> Outcome {
        let HandsOptions { registry, gate, root, spill, limits, memory } = &mut self.options;
        let permit = match gate.admit(ticket, approver) {
            Ok(permit) => permit,
            Err(outcome) => return *outcome,
        };
        let stop = gate.stop().clone();
        let is_stopped = || cancel.is_cancelled() || stop().is_some();
        let mut work = Work {
            place: Place { root, spill },
            limits,
            is_stopped: &is_stopped,
            person: &mut Asking(person),
            memory: &mut **memory,
        };
        let mut outcome = registry.run(&permit, &mut work);
        gate.settle(permit, &mut outcome);
        outcome
    }

    /// Lets the person's own shell run a command that they were asked about.
    fn hand_over(&mut self, ticket: Ticket, approver: &Approver, person: &mut dyn Person) -> Outcome {
        let Action::Shell { command } = ticket.call().action.clone() else {
            return self.options.gate.refuse(ticket, "no", "only a command can run in the user's shell");
        };
        let permit = match self.options.gate.admit(ticket, approver) {
            Ok(permit) => permit,
            Err(outcome) => return *outcome,
        };
        let mut outcome = person
            .run_in_own_shell(&command)
            .unwrap_or_else(|| ToolError::new("no-shell", "the user's shell can't run it here", "").into());
        self.options.gate.settle(permit, &mut outcome);
        outcome
    }
}

/// The part of a person that a tool sees.
struct Asking<'a>(&'a mut dyn Person);

impl Replies for Asking<'_> {
    fn reply(&mut self, question: &str, choices: &[String]) -> Option<String> {
        self.0.reply(question, choices)
    }
}

/// The arguments with another command; nothing where the call is no command, or the person left it empty.
fn edited(ticket: &Ticket, command: &str) -> Option<String> {
    if command.trim().is_empty() || !matches!(ticket.call().action, Action::Shell { .. }) {
        return None;
    }
    let mut arguments = ticket.call().arguments.clone();
    *arguments.get_mut("command")? = command.into();
    Some(arguments.to_string())
}

/// What a call is about to do, in a line; it quotes the call, so whoever shows it escapes it.
fn intent(action: &Action) -> String {
    match action {
        Action::Shell { command } => format!("Command requested: `{command}`"),
        Action::Read { path } => format!("Reading `{path}`"),
        Action::List { path } => format!("Listing `{path}`"),
        Action::Write { path } => format!("Preparing to write `{path}`"),
        Action::Delete { path } => format!("Preparing to delete `{path}`"),
        Action::Edit { writes, deletes } => {
            let paths: Vec<String> = writes.iter().chain(deletes).map(|path| format!("`{path}`")).collect();
            let (shown, more) = paths.split_at(paths.len().min(INTENT_PATHS_MAX));
            let more = if more.is_empty() { String::new() } else { format!(" and {} more", more.len()) };
            format!("Preparing edits in {}{more}", shown.join(", "))
        }
        Action::Http { method, url } => format!("Requesting {method} {url}"),
        Action::Inert { name } | Action::External { name } => format!("Calling {name}"),
    }
}
