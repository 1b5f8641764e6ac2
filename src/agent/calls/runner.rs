//! Runs the tools of a model: takes each call through the gate and returns its result.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::{Map, Value};

use crate::agent::calls::guard;
use crate::agent::calls::keep::{Around, wait_until};
use crate::agent::calls::log::{Logged, UNKNOWN};
use crate::agent::calls::places::{beneath_root, edited_paths, intent, made_ready, tree_of};
use crate::agent::calls::revision::{How, Revision, rewritten};
use crate::agent::calls::snapshots::{Keeper, Refused, Snapshot};
use crate::agent::goal::Share;
use crate::agent::person::{Asking, Person, Timed, unsaved, yes};
use crate::base::program::SearchPath;
use crate::files::{Root, Tree};
use crate::gate::{Approver, Blocked, CHECK_TOOL, Call, Gate, Lasting, Ticket, reasons};
use crate::model::{Cancel, Tool, ToolCall};
use crate::proto::action::{Action, Decision, Need, PolicyVerdict, Risk};
use crate::proto::tool::{Answer, FileChange, Outcome, PRINTED, Planned, Question, Step, ToolError, ToolEvent};
use crate::proto::{Event, Failure};
use crate::steps::{Guard, Steps};
use crate::tools::served::Servers;
use crate::tools::{Boards, Jobs, Limits, Memory, Place, Registry, Spill, ToolSet, Work, canvas_tools, chosen};
use crate::tree::Bench;

/// Commands that a person may put in place of a proposed one, one after the other, before it counts as no.
const EDITS_MAX: usize = 20;
/// Reason why a call is refused whose changes couldn't be stored.
const NOT_UNDOABLE: &str = "the user said no: it couldn't be undone";
/// Paths that are remembered as in use.
const USED_MAX: usize = 50;
/// The delay between a change of ours and a copy: one within a tick of the file system's clock counts as another program's.
const OWN_CHANGES: Duration = Duration::from_millis(15);
/// The fact that names arguments which were left out.
const LEFT_OUT: &str = "unknown_arguments_ignored";
/// Characters of the arguments that are shown of a call that its tool could not plan.
const INTENT_ARGUMENTS_MAX: usize = 200;

/// The parts of a tool runner.
pub struct ToolRunnerOptions {
    /// The tools.
    pub registry: Registry,
    /// Servers of tools, if there are any.
    pub servers: Option<Arc<Servers>>,
    /// The gate.
    pub gate: Gate,
    /// The workspace; the bench of a git session.
    pub root: Root,
    /// The files of a git session, in place of the workspace's, and where its commands work.
    pub bench: Option<Arc<Bench>>,
    /// The directory for whole outputs.
    pub spill: Spill,
    /// Time limits.
    pub limits: Limits,
    /// Earlier conversations.
    pub memory: Box<dyn Memory + Send>,
    /// Makes changes real, and stores what calls change.
    pub steps: Option<Steps>,
    /// True if what calls change can be undone.
    pub has_undo: bool,
    /// The tools that a model is offered.
    pub tool_set: ToolSet,
    /// The directories in which commands find programs; the gate has the same.
    pub path: SearchPath,
}

/// A workspace that doesn't exist yet, with the function that makes its tool runner: the directory is made only if it
/// is needed.
pub struct Later {
    /// Its future path.
    pub workspace: PathBuf,
    /// Makes the directory, and a tool runner for it.
    pub make: Box<dyn FnMut() -> Result<ToolRunner, Failure> + Send>,
}

/// Tools, and the gate in front of them, in one workspace.
pub struct ToolRunner {
    /// The workspace is made with the first call.
    later: Option<Later>,
    /// The boards of the caller, in a gateway.
    boards: Boards,
    pub(in crate::agent) options: ToolRunnerOptions,
    /// Edits were made since the last check.
    has_edited: bool,
    pub(in crate::agent) keeper: Keeper,
    /// Time when a call last changed the workspace.
    pub(in crate::agent) changed_at: Option<Instant>,
    /// The call that runs was refused something and runs again with it.
    pub(in crate::agent) is_again: bool,
    /// Needs that the user declined: if a command does well without them, it isn't offered again.
    pub(in crate::agent) declined: HashSet<Need>,
    /// Paths that calls were about, the newest last.
    used: Vec<PathBuf>,
    /// Notes for later conversations that calls proposed, until they are taken.
    notes: Vec<String>,
    /// The last call only looked at something.
    has_only_looked: bool,
    /// Protected files as they were before what now works on the workspace itself.
    pub(in crate::agent) guard: Option<Guard>,
    /// No job continued when protected files were last compared.
    pub(in crate::agent) is_guard_over: bool,
    /// The commands that continue after their calls; `None` before the first command.
    jobs: Option<Jobs>,
    /// The share of a run that a helper may use, while a run lets one work.
    pub(in crate::agent) helper: Option<Share>,
}

impl ToolRunner {
    /// Makes a tool runner from its parts.
    #[must_use]
    pub fn new(mut options: ToolRunnerOptions) -> Self {
        let keeper = Keeper::new(options.steps.take(), options.has_undo);
        if let Some(bench) = &options.bench {
            options.gate.set_tree(Arc::clone(bench.draft()) as Arc<dyn Tree>);
        }
        Self {
            later: None,
            boards: None,
            options,
            has_edited: false,
            keeper,
            changed_at: None,
            is_again: false,
            declined: HashSet::new(),
            used: Vec::new(),
            notes: Vec::new(),
            has_only_looked: false,
            guard: None,
            is_guard_over: true,
            jobs: None,
            helper: None,
        }
    }

    /// Lets commands find programs on this `PATH` of the person's live shell, if one is known.
    pub fn follow_path(&self, path: Option<&str>) {
        self.options.path.follow(path);
    }

    /// Takes the notes for later conversations that calls have proposed.
    pub fn take_notes(&mut self) -> Vec<String> {
        std::mem::take(&mut self.notes)
    }

    /// The gate.
    pub fn gate(&mut self) -> &mut Gate {
        let _ = self.arrive();
        &mut self.options.gate
    }

    /// The tools.
    #[must_use]
    pub fn registry(&self) -> &Registry {
        &self.options.registry
    }

    /// The servers of tools.
    #[must_use]
    pub fn servers(&self) -> Option<&Arc<Servers>> {
        self.options.servers.as_ref()
    }

    /// Adopts one tool of running servers, whether a model is offered it or not. Returns the reasons if it can't be used.
    pub fn take_served(&mut self, servers: &Arc<Servers>, name: &str) -> Vec<String> {
        self.options.servers = Some(Arc::clone(servers));
        self.options.registry.set_served(servers.tool(name).into_iter().collect())
    }

    /// Limits the schemas of servers' tools to their share of a model's window, if it is known, and of a request's limit.
    pub(in crate::agent) fn fit_window(&mut self, window: Option<usize>, budget: usize, sink: &mut dyn FnMut(Event)) {
        if let Some(servers) = &self.options.servers {
            servers.fit_window(window, budget);
            self.refresh(sink);
        }
    }

    /// Starts servers of tools that a question could use, if nothing is known of them, and waits for them a moment.
    pub fn prepare(&mut self, cancel: &Cancel, sink: &mut dyn FnMut(Event)) {
        if let Some(servers) = self.options.servers.clone() {
            servers.prepare(&|| cancel.is_cancelled());
            self.refresh(sink);
        }
    }

    /// Adds the tools that servers now offer, and reports new ones to the person.
    pub(in crate::agent) fn refresh(&mut self, sink: &mut dyn FnMut(Event)) {
        let Some(servers) = &self.options.servers else { return };
        let problems = servers.changed_tools().map(|tools| self.options.registry.set_served(tools)).unwrap_or_default();
        let problems = problems.into_iter().map(|problem| format!("[mcp] left out: {problem}"));
        servers.take_notices().into_iter().chain(problems).for_each(|line| sink(Event::Notice(line)));
    }

    /// Offers a server's tool that a model names although it isn't offered it, if a person has allowed it.
    fn meet(&mut self, name: &str, sink: &mut dyn FnMut(Event)) {
        let is_known = self.options.registry.is_tool(name);
        if let Some(servers) = self.options.servers.as_ref().filter(|servers| !is_known && servers.tool(name).is_some())
        {
            servers.offer(name);
            self.refresh(sink);
        }
    }

    /// The failure of a call that can't be planned, with the reason if its tool is a server's that isn't offered.
    fn explained(&self, name: &str, error: ToolError) -> ToolError {
        match &self.options.servers {
            Some(servers) if error.code == "no-such-tool" => servers.explained(name, error),
            _ => error,
        }
    }

    /// The workspace.
    #[must_use]
    pub fn workspace(&self) -> &Path {
        self.later.as_ref().map_or_else(|| self.tree().path(), |later| &later.workspace)
    }

    /// The files that tools work on.
    pub(in crate::agent) fn tree(&self) -> &dyn Tree {
        tree_of(self.options.bench.as_ref(), &self.options.root)
    }

    /// Puts off making the workspace until the first call.
    pub fn wait_for(&mut self, later: Later) {
        self.later = Some(later);
    }

    /// Makes the workspace, if it isn't there yet.
    fn arrive(&mut self) -> Result<(), Failure> {
        if let Some(later) = &mut self.later {
            let made = (later.make)()?;
            made.follow_path(self.options.path.live().as_deref());
            let boards = std::mem::replace(self, made).boards;
            if boards.is_some() {
                self.lend_boards(boards);
            }
        }
        Ok(())
    }

    /// Says which boards the next calls reach.
    pub fn lend_boards(&mut self, boards: Boards) {
        canvas_tools(&boards).into_iter().for_each(|tool| self.options.registry.lend(tool, true));
        self.boards = boards;
    }

    /// Takes the first snapshot in the background.
    pub fn look_ahead(&mut self) {
        self.keeper.look_ahead();
    }

    /// Returns whether jobs that work on the workspace itself are running.
    pub(in crate::agent) fn has_jobs(&self) -> bool {
        self.jobs.as_ref().is_some_and(Jobs::are_working)
    }

    /// Ends all commands that continue after their calls; returns them.
    pub(in crate::agent) fn end_jobs(&mut self) -> Vec<String> {
        let Some(jobs) = self.jobs.clone() else { return Vec::new() };
        let running = jobs.list().into_iter().filter(|job| job.is_running);
        let ended = running.filter(|job| jobs.end(job.number)).map(|job| job.command).collect();
        self.keeper.settle_job();
        ended
    }

    /// The commands that continue after their calls; `None` before the first command.
    #[must_use]
    pub fn jobs(&self) -> Option<&Jobs> {
        self.jobs.as_ref()
    }

    /// Returns whether the last call only looked at something.
    pub(in crate::agent) fn has_only_looked(&self) -> bool {
        self.has_only_looked
    }

    /// Returns whether there are any tools; the config may leave none, or only those of servers, which may still have to be asked
    /// for their list.
    pub fn has_tools(&self) -> bool {
        let ToolRunnerOptions { registry, servers, .. } = &self.options;
        registry.specs().next().is_some()
            || registry.may_have_served() && servers.as_ref().is_some_and(|servers| !servers.names().is_empty())
    }

    /// The tools as they are described to a model.
    pub(in crate::agent) fn tools(&self, is_small: bool, can_reply: bool) -> Vec<Tool> {
        let tool = |(spec, brief): (&crate::tools::Spec, _)| {
            let (description, schema) = spec.words(brief);
            Tool { name: spec.name.clone(), description, schema }
        };
        self.options.registry.offered(self.options.tool_set, is_small, can_reply).map(tool).collect()
    }

    /// Plans and judges a call without running it or writing anything down.
    ///
    /// # Errors
    /// There is no such tool, its arguments don't fit, or there is no workspace.
    pub fn preview(&mut self, wish: &ToolCall, can_ask: bool) -> Result<(Call, PolicyVerdict), ToolError> {
        self.arrive().map_err(|failure| ToolError::new("no-workspace", failure.message, failure.hint))?;
        let Judged { ticket, .. } = self.judged(wish, &Wanted::Model(wish.arguments.clone()), None, can_ask)?;
        Ok((ticket.call().clone(), ticket.verdict().clone()))
    }

    /// Refuses a planned call that a gate of a team blocks before the policy's word counts, with a receipt.
    pub fn block(&mut self, call: Call, blocked: &Blocked) -> Outcome {
        let cwd = self.cwd_of(&call);
        let ticket = self.options.gate.judge(call, &cwd, false);
        self.options.gate.block(ticket, blocked)
    }

    /// Takes a call from request to result: judged, asked about if necessary, run, and recorded. Each step is reported.
    pub fn call(
        &mut self,
        wish: &ToolCall,
        conversation: Option<i64>,
        cancel: &Cancel,
        person: &mut dyn Person,
        sink: &mut dyn FnMut(Event),
    ) -> Outcome {
        self.call_as(wish, Wanted::Model(wish.arguments.clone()), conversation, cancel, person, sink)
    }

    /// The same with these arguments.
    pub(in crate::agent) fn call_as(
        &mut self,
        wish: &ToolCall,
        wanted: Wanted,
        conversation: Option<i64>,
        cancel: &Cancel,
        person: &mut dyn Person,
        sink: &mut dyn FnMut(Event),
    ) -> Outcome {
        let started = Instant::now();
        if let Err(failure) = self.arrive() {
            return ToolError::new("no-workspace", failure.message, failure.hint).into();
        }
        self.meet(&wish.name, sink);
        self.has_only_looked = true;
        let tool = self.options.registry.name_of(&wish.name).unwrap_or(UNKNOWN).to_owned();
        let mut logged = Logged::new(tool, conversation);
        let mut timed = Timed::new(person);
        let mut outcome = self.carried_out(wish, wanted, conversation, cancel, &mut timed, &mut |event| {
            if let Event::Tool(event) = &event {
                logged.step(event);
            }
            sink(event);
        });
        // The time that a person took to answer isn't the tool's.
        let duration = started.elapsed().saturating_sub(timed.waited);
        if cancel.is_cancelled() && !outcome.success && outcome.error.is_none() {
            outcome.error = Some(ToolError::new("stopped", "the user stopped it", ""));
        }
        logged.done(&outcome, duration);
        let tell = |step| Event::Tool(Box::new(ToolEvent { id: wish.id.clone(), tool: wish.name.clone(), step }));
        sink(tell(Step::Done { outcome: outcome.clone(), duration }));
        outcome
    }

    /// Runs the check of the user's config, if there is one and files were edited since the last run; returns the text
    /// for the model. Its steps are reported as those of a call.
    pub fn check(
        &mut self,
        conversation: Option<i64>,
        cancel: &Cancel,
        person: &mut dyn Person,
        sink: &mut dyn FnMut(Event),
    ) -> Option<String> {
        let ToolRunnerOptions { spill, registry, gate, root, bench, .. } = &self.options;
        let tree = tree_of(bench.as_ref(), root);
        if !std::mem::take(&mut self.has_edited) || cancel.is_cancelled() || !registry.has_ours(CHECK_TOOL) {
            return None;
        }
        let started = Instant::now();
        let (tool, arguments) = (CHECK_TOOL.to_owned(), Value::Object(Map::new()));
        let plan = registry.plan_again(CHECK_TOOL, &arguments, Place { tree, spill }).ok()?;
        let Action::Shell { command } = plan.action.clone() else { return None };
        let (action, preview, changes) = (plan.action, plan.preview, plan.changes);
        let call = Call { tool, arguments, action, preview, changes, conversation, needs: Vec::new() };
        let ticket = gate.judge(call, tree.path(), true);
        let tell = |step| {
            let (id, tool) = (CHECK_TOOL.to_owned(), CHECK_TOOL.to_owned());
            Event::Tool(Box::new(ToolEvent { id, tool, step }))
        };
        let intent = plan.intent.unwrap_or_default();
        sink(tell(Step::Requested { intent, planned: planned(&ticket) }));
        let ran = match ticket.verdict().decision {
            Decision::Deny => {
                let why = reasons(ticket.verdict());
                Err(Box::new(self.options.gate.refuse(ticket, "policy", &why)))
            }
            _ => self.run(ticket, &Approver::Config, cancel, person, sink),
        };
        let outcome = ran.unwrap_or_else(|refused| {
            sink(tell(Step::Denied { why: refused.error.as_ref().map(ToString::to_string).unwrap_or_default() }));
            *refused
        });
        let duration = started.elapsed();
        sink(tell(Step::Done { outcome: outcome.clone(), duration }));
        let seconds = duration.as_secs_f64();
        let head = match &outcome.error {
            None => format!("[After your edits the project's check ran: `{command}` passed in {seconds:.1} s]"),
            Some(error) => format!(
                "[After your edits the project's check ran: `{command}` failed: {error} ({seconds:.1} s). Mend what your \
                 edits broke.]\n{}",
                outcome.output
            ),
        };
        Some(head)
    }

    fn carried_out(
        &mut self,
        wish: &ToolCall,
        mut wanted: Wanted,
        conversation: Option<i64>,
        cancel: &Cancel,
        person: &mut dyn Person,
        sink: &mut dyn FnMut(Event),
    ) -> Outcome {
        let mut revision = Revision::default();
        for _ in 0..EDITS_MAX {
            let turned_away = |gate: &Gate, mut outcome: Outcome| {
                gate.turn_away(&wish.name, &wish.arguments, conversation, &mut outcome);
                outcome
            };
            let judged = self.judged(wish, &wanted, conversation, person.can_ask());
            let Judged { ticket, intent, refusal, left_out } = match judged.inspect_err(|_| sink(unplanned(wish))) {
                Ok(judged) => judged,
                Err(error) => return turned_away(&self.options.gate, self.explained(&wish.name, error).into()),
            };
            let (id, tool) = (wish.id.clone(), ticket.call().tool.clone());
            let tell = |step| Event::Tool(Box::new(ToolEvent { id: id.clone(), tool: tool.clone(), step }));
            if revision.chosen.is_none() {
                sink(tell(Step::Requested { intent, planned: planned(&ticket) }));
            }
            if let Some(refusal) = refusal.filter(|_| ticket.verdict().decision != Decision::Deny) {
                return turned_away(&self.options.gate, refusal);
            }
            let call = ticket.call().clone();
            let ruling = match revision.chosen.take().filter(|chosen| chosen.is_of(&ticket)) {
                Some(_) => Ruling::Run(yes(self.options.gate.question(&ticket).digest, person)),
                None => self.decided(&ticket, person),
            };
            let done = match ruling {
                Ruling::Run(approver) => {
                    if approver != Approver::Policy {
                        sink(tell(Step::Approved));
                    }
                    self.run(ticket, &approver, cancel, person, sink)
                }
                Ruling::InMyShell(approver) => self.hand_over(ticket, &approver, person, sink),
                Ruling::Refused(code, why) => Err(Box::new(self.options.gate.refuse(ticket, code, &why))),
                Ruling::Instead(edited) => {
                    wanted = Wanted::Model(edited);
                    continue;
                }
                Ruling::Files(files, how) => {
                    let arguments = self.options.registry.revised(&call.tool, &call.arguments, &files);
                    if let Some(arguments) = arguments.filter(|_| !files.is_empty()) {
                        wanted = Wanted::Person(call.tool.clone(), arguments);
                        revision.note(&call, files, ticket.verdict().risk, how);
                        continue;
                    }
                    Err(Box::new(self.options.gate.refuse(ticket, "no", "the user said no")))
                }
            };
            return match done {
                Ok(outcome) if wants_terminal(&outcome) => self.offer_own_shell(call, outcome, person, sink),
                Ok(outcome) => with_left_out(revision.report(outcome, &call.changes), &left_out),
                Err(refused) => {
                    let why = refused.error.as_ref().map(|it| it.message.clone()).unwrap_or_default();
                    sink(tell(Step::Denied { why }));
                    *refused
                }
            };
        }
        ToolError::new("denied", "the user changed it again and again", "ask the user what they want").into()
    }

    /// Plans a call and has it judged; returns a line about it, too. Changes nothing.
    pub(in crate::agent) fn judged(
        &self,
        wish: &ToolCall,
        wanted: &Wanted,
        conversation: Option<i64>,
        can_ask: bool,
    ) -> Result<Judged, ToolError> {
        let ToolRunnerOptions { spill, registry, gate, root, bench, .. } = &self.options;
        let tree = self.tree();
        let place = Place { tree, spill };
        let (tool, arguments, plan) = match wanted {
            Wanted::Model(arguments) => registry.plan(&wish.name, arguments, place)?,
            Wanted::Person(tool, arguments) => {
                (tool.clone(), arguments.clone(), registry.plan_again(tool, arguments, place)?)
            }
        };
        let intent = plan.intent.unwrap_or_else(|| intent(&plan.action));
        let cwd = plan.cwd.unwrap_or_else(|| tree.path().to_owned());
        // A draft has no other names: its tools take paths below the checkout alone.
        let action = if bench.is_some() { plan.action } else { beneath_root(plan.action, root) };
        let (preview, changes) = (plan.preview, plan.changes);
        let call = Call { tool, arguments, action, preview, changes, conversation, needs: Vec::new() };
        let (refusal, left_out) = (plan.refusal, plan.left_out);
        Ok(Judged { ticket: gate.judge(call, &cwd, can_ask), intent, refusal, left_out })
    }

    /// Turns the verdict into a decision, and asks the person if the verdict requires it. The log records it.
    pub(in crate::agent) fn decided(&self, ticket: &Ticket, person: &mut dyn Person) -> Ruling {
        let ruling = self.decide(ticket, person);
        let call = ticket.call();
        let logged = Logged::new(call.tool.clone(), call.conversation);
        logged.arguments(&call.arguments);
        logged.decided(ticket, &ruling, person.can_ask());
        ruling
    }

    fn decide(&self, ticket: &Ticket, person: &mut dyn Person) -> Ruling {
        let verdict = ticket.verdict();
        let no = |why: &str| Ruling::Refused("no", why.to_owned());
        // A call that can't run in any case needs no question.
        if let Some(why) = (self.options.gate.stop())() {
            return Ruling::Refused("estop", why);
        }
        if verdict.decision != Decision::Deny
            && let Some(why) = unsaved(self.options.root.path(), ticket.call(), person)
        {
            return Ruling::Refused("unsaved", why);
        }
        if verdict.decision == Decision::Deny {
            let (code, why) = self.options.gate.denial(verdict, person.can_ask());
            return Ruling::Refused(code, why);
        }
        if verdict.decision == Decision::Run && verdict.risk < Risk::Medium {
            return Ruling::Run(Approver::Policy);
        }
        let mut question = self.options.gate.question(ticket);
        if verdict.decision == Decision::Run {
            let Some(why) = person.doubt(&question) else { return Ruling::Run(Approver::Policy) };
            question.doubt(why);
        }
        let (may_always, has_filled) = (question.may_always, !question.filled.is_empty());
        let answer = person.approve(&question);
        let by = person.name();
        let approver = |lasting| Approver::Person { digest: question.digest, lasting, by };
        match answer {
            Answer::Always if may_always => Ruling::Run(approver(Lasting::Command)),
            Answer::AlwaysFilled if has_filled => Ruling::Run(approver(Lasting::Filled)),
            Answer::Once | Answer::Always | Answer::AlwaysFilled => Ruling::Run(approver(Lasting::Once)),
            Answer::InMyShell => Ruling::InMyShell(approver(Lasting::Once)),
            Answer::Partly { hunks, has_others } => {
                let (files, note) = chosen(&question.changes, &hunks);
                Ruling::Files(files, How::Taken { note, has_others })
            }
            Answer::Rewritten(number, content) => {
                Ruling::Files(rewritten(&question.changes, number, content), How::Rewritten)
            }
            Answer::Edited(command) => edited(ticket, &command).map_or_else(|| no("the user said no"), Ruling::Instead),
            Answer::No(why) if why.is_empty() => no("the user said no"),
            Answer::No(why) => no(&format!("the user said no: {why}")),
            Answer::Unanswered(why) => Ruling::Refused("unasked", why),
        }
    }

    /// Offers a command that needs a terminal to the person's own shell, if there is one.
    fn offer_own_shell(
        &mut self,
        mut call: Call,
        outcome: Outcome,
        person: &mut dyn Person,
        sink: &mut dyn FnMut(Event),
    ) -> Outcome {
        if !person.has_shell() {
            return outcome;
        }
        let why = outcome.error.as_ref().map(|error| error.message.as_str()).unwrap_or_default();
        // The text after the colon is the command's question at its terminal.
        let why = why.replacen(": ", &format!("\n{PRINTED}"), 1);
        call.preview = format!("{why}\n[s] runs it in your shell; any other key leaves it.");
        let cwd = self.workspace().to_owned();
        let ticket = self.options.gate.judge(call, &cwd, true);
        let question = Question { only_own_shell: true, ..self.options.gate.question(&ticket) };
        if person.approve(&question) != Answer::InMyShell {
            return outcome;
        }
        let approver = yes(question.digest, person);
        self.hand_over(ticket, &approver, person, sink).unwrap_or_else(|refused| *refused)
    }

    pub(in crate::agent) fn run(
        &mut self,
        ticket: Ticket,
        approver: &Approver,
        cancel: &Cancel,
        person: &mut dyn Person,
        sink: &mut dyn FnMut(Event),
    ) -> Result<Outcome, Box<Outcome>> {
        // Changes by jobs don't belong to this call.
        let note = guard::guarded(self, person, sink);
        // Neither a step of a procedure nor a job sets the directory of the next command.
        let leaves_directory =
            |call: &Call| matches!(call.action, Action::Shell { .. }) && call.arguments.get("env").is_none();
        let command = Some(ticket.call()).filter(|call| leaves_directory(call)).cloned();
        let mut ran = self.run_alone(ticket, approver, &mut Around { cancel, person, sink });
        let outcome = match &mut ran {
            Ok(outcome) => outcome,
            Err(outcome) => outcome,
        };
        guard::unguarded(self, note, outcome);
        if let (Some(call), Ok(outcome)) = (&command, &mut ran) {
            self.note_directory(call, outcome);
        }
        ran
    }

    fn run_alone(
        &mut self,
        ticket: Ticket,
        approver: &Approver,
        around: &mut Around<'_>,
    ) -> Result<Outcome, Box<Outcome>> {
        let Around { cancel, person, sink } = around;
        let is_edit = !ticket.call().changes.is_empty();
        self.has_only_looked =
            matches!(ticket.call().action, Action::Read { .. } | Action::Open { .. } | Action::List { .. });
        // The changes of a command with a copy are examined there.
        let has_copy = self.options.gate.has_copy(ticket.call()) || ticket.is_look_by(approver);
        let (ticket, snapshot) =
            if has_copy { (ticket, Snapshot::Nothing) } else { self.take_snapshot(ticket, *person, *sink)? };
        if !has_copy {
            guard::guard(self, &ticket.call().action);
        } else {
            wait_until(self.changed_at.map(|at| at + OWN_CHANGES));
        }
        let outside = self.options.gate.opened_by(&ticket);
        let Ok(mut outside) = self.keeper.before_outside(&ticket.call().action, &outside, *person, *sink) else {
            return Err(Box::new(self.options.gate.refuse(ticket, "no", NOT_UNDOABLE)));
        };
        let ToolRunnerOptions { registry, gate, root, bench, spill, limits, memory, .. } = &mut self.options;
        let tree = tree_of(bench.as_ref(), root);
        let no_helper =
            self.helper.as_ref().and_then(|share| share.refusal(gate.calls_left().map(|left| left.saturating_sub(1))));
        let permit = gate.admit(ticket, approver)?;
        let (edited, stop) = (edited_paths(permit.action()), gate.stop().clone());
        let is_stopped = || cancel.is_cancelled() || stop().is_some();
        let mut work = Work {
            place: Place { tree, spill },
            limits,
            is_stopped: &is_stopped,
            person: &mut Asking(*person),
            memory: &mut **memory,
            notes: &mut self.notes,
            used: &self.used,
            is_again: self.is_again,
            copied: None,
            new_in_home: Vec::new(),
            jobs: self.jobs.clone(),
            no_helper,
        };
        let mut outcome = match made_ready(bench.as_ref(), permit.action()) {
            Ok(()) => registry.run(&permit, &mut work),
            Err(why) => ToolError::new("bench", why, "file tools work on; tell the user").into(),
        };
        self.jobs = work.jobs.take();
        let (copied, made) = (work.copied.take(), std::mem::take(&mut work.new_in_home));
        self.keeper.place_in_home(permit.action(), &made, &mut outside, (&mut outcome, *sink));
        self.keeper.after_outside(outside, &mut outcome, *sink);
        if let Some(path) = permit.arguments().get("path").and_then(Value::as_str).map(PathBuf::from) {
            self.used.retain(|known| *known != path);
            self.used.push(path);
            let most = self.used.len().saturating_sub(USED_MAX);
            self.used.drain(..most);
        }
        if let Some(copied) = copied {
            return Ok(self.conclude(permit, outcome, &copied, around));
        }
        self.changed_at = Some(Instant::now());
        gate.settle(permit, &mut outcome);
        self.has_edited |= is_edit && outcome.success;
        guard::accept(self, edited.iter().map(PathBuf::as_path));
        let note = guard::guarded(self, *person, *sink);
        guard::unguarded(self, note, &mut outcome);
        self.keeper.after(snapshot, self.jobs.as_ref(), &mut outcome, *sink);
        Ok(outcome)
    }

    /// The directory of a call: the one that it names, else the workspace.
    pub(in crate::agent) fn cwd_of(&self, call: &Call) -> PathBuf {
        let ToolRunnerOptions { spill, registry, .. } = &self.options;
        let tree = self.tree();
        let plan = registry.plan_again(&call.tool, &call.arguments, Place { tree, spill });
        plan.ok().and_then(|plan| plan.cwd).unwrap_or_else(|| tree.path().to_owned())
    }

    /// Stores the state that a call may change; if that fails and the person says no, the call is refused.
    fn take_snapshot(
        &mut self,
        ticket: Ticket,
        person: &mut dyn Person,
        sink: &mut dyn FnMut(Event),
    ) -> Result<(Ticket, Snapshot), Box<Outcome>> {
        match self.keeper.before(&ticket.call().action, &self.options.root, person, sink) {
            Ok(snapshot) => Ok((ticket, snapshot)),
            Err(Refused) => Err(Box::new(self.options.gate.refuse(ticket, "no", NOT_UNDOABLE))),
        }
    }

    /// Lets the person's own shell run a command that they were asked about.
    pub(in crate::agent) fn hand_over(
        &mut self,
        ticket: Ticket,
        approver: &Approver,
        person: &mut dyn Person,
        sink: &mut dyn FnMut(Event),
    ) -> Result<Outcome, Box<Outcome>> {
        let Action::Shell { command } = ticket.call().action.clone() else {
            let why = "only a command can run in the user's shell";
            return Err(Box::new(self.options.gate.refuse(ticket, "no", why)));
        };
        self.has_only_looked = false;
        let (ticket, snapshot) = self.take_snapshot(ticket, person, sink)?;
        let permit = self.options.gate.admit(ticket, approver)?;
        let mut outcome = person
            .run_in_own_shell(&command)
            .unwrap_or_else(|| ToolError::new("no-shell", "the user's shell can't run it here", "").into());
        self.options.gate.settle(permit, &mut outcome);
        self.keeper.after(snapshot, self.jobs.as_ref(), &mut outcome, sink);
        Ok(outcome)
    }
}

/// Returns a judged call in the form for the user interface.
fn planned(ticket: &Ticket) -> Arc<Planned> {
    let Call { action, arguments, changes, .. } = ticket.call().clone();
    Arc::new(Planned { action, arguments, changes, is_asked: ticket.verdict().decision == Decision::Ask })
}

/// Returns a call that its tool couldn't plan, for the user interface, which shows it before the reason of the failure.
fn unplanned(wish: &ToolCall) -> Event {
    let ToolCall { id, name, arguments, .. } = wish;
    let shown: String = arguments.chars().take(INTENT_ARGUMENTS_MAX).collect();
    let intent = format!("Calling {name} with {shown}");
    let arguments = serde_json::from_str(arguments).unwrap_or_default();
    let action = Action::Inert { name: name.clone() };
    let planned = Arc::new(Planned { action, arguments, changes: [].into(), is_asked: false });
    let step = Step::Requested { intent, planned };
    Event::Tool(Box::new(ToolEvent { id: id.clone(), tool: name.clone(), step }))
}

/// The author of a call's arguments.
pub(in crate::agent) enum Wanted {
    /// The model's own, or a command that replaces its.
    Model(String),
    /// The person, who changed the files of a call of this tool, or trusts the procedure that makes it.
    Person(String, Value),
}

/// A call that was planned and judged.
pub(in crate::agent) struct Judged {
    pub(in crate::agent) ticket: Ticket,
    /// Its effect, in a line.
    pub(in crate::agent) intent: String,
    /// Reason why it can't be done, for a model that may know.
    refusal: Option<Outcome>,
    /// Arguments that its tool doesn't have.
    left_out: Vec<String>,
}

/// Names the arguments that were left out.
fn with_left_out(outcome: Outcome, names: &[String]) -> Outcome {
    if names.is_empty() { outcome } else { outcome.with(LEFT_OUT, names.join(", ")) }
}

/// The decision about a call, with the person's answer if one was needed.
pub(in crate::agent) enum Ruling {
    Run(Approver),
    InMyShell(Approver),
    /// Reason why not: a code and words.
    Refused(&'static str, String),
    /// These arguments in place of the model's.
    Instead(String),
    /// These files in place of those that were proposed.
    Files(Vec<FileChange>, How),
}

fn wants_terminal(outcome: &Outcome) -> bool {
    outcome.error.as_ref().is_some_and(|error| error.code == "needs-terminal")
}

/// The arguments with another command; `None` if the call is no command, or the person left it empty.
fn edited(ticket: &Ticket, command: &str) -> Option<String> {
    if command.trim().is_empty() || !matches!(ticket.call().action, Action::Shell { .. }) {
        return None;
    }
    let mut arguments = ticket.call().arguments.clone();
    *arguments.get_mut("command")? = command.into();
    Some(arguments.to_string())
}
