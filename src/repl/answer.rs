//! A question's way: asked, drawn as the answer comes, stopped by Ctrl-C. The model is asked on a thread of its own, and
//! the loop's thread stays with the terminal, so that whatever must be asked of the person meanwhile can be.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;

use super::run::{Flow, Repl};
use super::state;
use super::terminal::Terminal;
use super::tooling::ToolOutput;
use crate::agent::{Agent, Cancel, Crossing, Person, changed_line};
use crate::app::{Approvals, Channel};
use crate::ask::{approve, ask_overdue, ask_yes_or_no, crossing_question, words};
use crate::console::{Console, Waiting};
use crate::gate::CHECK_TOOL;
use crate::proto::action::Action;
use crate::proto::tool::{Answer, Outcome, Overdue, OverdueChoice, Question, Step, ToolEvent};
use crate::proto::{Event, Failure, FailureKind, Spent};
use crate::render::text::escape_visible;
use crate::render::{Markdown, Options};
use crate::shell;
use crate::shell::session::{Handle, KeysTo};
use crate::store::ConversationId;
use crate::turn::Thinking;

/// The result of a question.
#[derive(Default)]
pub(super) struct Reply {
    /// The answer, as far as it came.
    pub text: String,
    /// Whether it is whole, so that its commands may be offered.
    pub whole: bool,
    /// Nobody could be asked, or nobody answered.
    pub is_unanswered: bool,
    /// The model's thoughts before the answer.
    pub thoughts: String,
    /// The cost of its last request.
    pub spent: Option<Spent>,
}

/// A request of the thread that asks the model to the person, with the sender for the answer.
pub(super) enum Wanted {
    /// A yes or a no.
    Consent(String, Sender<bool>),
    /// An approval of a call.
    Approval(Box<Question>, Sender<Answer>),
    /// A reply in words.
    Words(String, String, Vec<String>, Sender<Option<String>>),
    /// The choice about an overdue command; the question is shown until the command has ended.
    OverdueChoice(Overdue, Arc<AtomicBool>, Sender<Option<OverdueChoice>>),
    /// A command in the person's own shell.
    Command(String, Sender<Option<Outcome>>),
}

impl Repl {
    /// Asks the model and draws the answer. Events of the shell that come meanwhile are kept.
    pub(super) fn answer(&mut self, question: &str) -> Result<Reply, Flow> {
        let conversation = self.runtime.agent_mut().begin();
        let waiting = self.await_answer(conversation);
        let channel = self.channel.clone();
        let received = self.runtime.receive(&channel, question);
        let reply = self.with_model(&waiting, |agent, cancel, person| received.answer(agent, &channel, cancel, person));
        match self.runtime.end_turn() {
            Ok(told) => told.iter().for_each(|line| self.console.notice(line)),
            Err(failure) => self.console.failure(&failure),
        }
        match self.runtime.keep_notes() {
            Ok(told) => told.iter().for_each(|line| self.console.notice(line)),
            Err(failure) => self.console.failure(&failure),
        }
        match self.ask_about_tools() {
            Flow::Continue => reply,
            flow => Err(flow),
        }
    }

    /// Lets the agent ask a model for something else than an answer, and draws what it says of that.
    pub(super) fn ask_aside(
        &mut self,
        work: impl FnOnce(&mut Agent, &Cancel, &mut dyn FnMut(Event)) + Send,
    ) -> Result<Reply, Flow> {
        let conversation = self.runtime.agent().conversation();
        let (waiting, channel) = (self.await_answer(conversation), self.channel.clone());
        self.with_model(&waiting, |agent, cancel, _| {
            work(agent, cancel, &mut |event| channel.send(conversation, event))
        })
    }

    /// Lets what is sent in a conversation be drawn, below the sign that it is waited for.
    fn await_answer(&mut self, conversation: Option<ConversationId>) -> Arc<Waiting> {
        let waiting = Arc::<Waiting>::default();
        let first_output = self.tooling.outputs.len() + 1;
        self.channel.draw(conversation, Drawing::new(self.console.clone(), Arc::clone(&waiting), first_output));
        waiting
    }

    /// Lets the agent ask a model; Ctrl-C stops it. Gives what was drawn meanwhile.
    fn with_model(
        &mut self,
        waiting: &Arc<Waiting>,
        work: impl FnOnce(&mut Agent, &Cancel, &mut dyn Person) + Send,
    ) -> Result<Reply, Flow> {
        let Self { runtime, terminal, .. } = self;
        let (agent, mut approvals) = runtime.agent_and_approvals();
        let done = terminal.attended(waiting, &mut approvals, |cancel, person| work(agent, cancel, person));
        // A command of the model may have changed the directory.
        let cwd = state::read(&self.state).cwd.clone();
        self.runtime.stand_in(cwd);
        let (reply, mut outputs) = self.channel.drawn().map(|it| (it.reply, it.outputs)).unwrap_or_default();
        self.tooling.outputs.append(&mut outputs);
        done.map(|()| reply)
    }
}

impl Terminal {
    /// Lets work that may take long go on beside the terminal: Ctrl-C stops it, and it can ask the person, whose yes goes to
    /// `approvals`. Returns its result, or that the session ends.
    pub(super) fn attended<T: Send>(
        &mut self,
        waiting: &Arc<Waiting>,
        approvals: &mut Approvals<'_>,
        work: impl FnOnce(&Cancel, &mut dyn Person) -> T + Send,
    ) -> Result<T, Flow> {
        self.session.keys_to(KeysTo::Cancel);
        let (cancel, pump) = (Cancel::new(), self.session.handle());
        let console = &self.console.clone();
        let is_over = &AtomicBool::new(false);
        let (wants, wanted) = channel();
        let (flow, done) = thread::scope(|scope| {
            scope.spawn(|| waiting.draw(console));
            let cancel_too = cancel.clone();
            let working = scope.spawn(move || {
                let mut person = AtTerminal { wants, pump: pump.clone(), waiting, console };
                let done = work(&cancel_too, &mut person);
                waiting.end(console);
                is_over.store(true, Ordering::Release);
                pump.nudge();
                done
            });
            (self.attend(&wanted, is_over, &cancel, approvals), working.join())
        });
        self.session.keys_to(KeysTo::Hold);
        match flow {
            Flow::Continue => Ok(done.unwrap_or_else(|panic| std::panic::resume_unwind(panic))),
            flow => Err(flow),
        }
    }

    /// Hears what happens in the terminal while a model answers, and asks the person what is wanted of them.
    fn attend(
        &mut self,
        wanted: &Receiver<Wanted>,
        is_over: &AtomicBool,
        cancel: &Cancel,
        approvals: &mut Approvals<'_>,
    ) -> Flow {
        let mut ending = Flow::Continue;
        loop {
            while let Ok(wanted) = wanted.try_recv() {
                let flow = self.ask_person(wanted, cancel, approvals);
                if flow != Flow::Continue {
                    cancel.cancel();
                    ending = flow;
                }
                self.session.keys_to(KeysTo::Cancel);
            }
            match self.session.next_event() {
                // Others nudge too, such as the thread that lists programs.
                shell::Event::Nudged if is_over.load(Ordering::Acquire) => return ending,
                shell::Event::Nudged => {}
                shell::Event::Cancel => cancel.cancel(),
                shell::Event::Keys(keys, _) if keys.contains(&3) => cancel.cancel(),
                shell::Event::Keys(..) => {}
                event => {
                    if matches!(event, shell::Event::Hangup | shell::Event::Ended(_)) {
                        cancel.cancel();
                    }
                    self.deferred.push_back(event);
                }
            }
        }
    }

    /// Shows that something of the session's turn couldn't be committed; the end of the turn commits it all the same.
    fn committed(&self, done: Result<(), Failure>) {
        if let Err(failure) = done {
            self.console.failure(&failure);
        }
    }

    /// Asks what is wanted; Ctrl-C says no and stops the whole question.
    fn ask_person(&mut self, wanted: Wanted, cancel: &Cancel, approvals: &mut Approvals<'_>) -> Flow {
        // A Ctrl-C that came just before says no to this, too: without a reply whoever waits takes it for no.
        if cancel.is_cancelled() {
            return Flow::Continue;
        }
        let flow = match wanted {
            Wanted::Consent(text, to) => ask_yes_or_no(self, &text).map(|said| {
                let yes = said.unwrap_or(false);
                if said.is_none() {
                    cancel.cancel();
                }
                let _ = to.send(yes);
            }),
            Wanted::Approval(question, to) => {
                self.committed(approvals.commit_so_far());
                approve(self, &question, cancel).map(|answer| {
                    if matches!(answer, Answer::Once | Answer::Always | Answer::AlwaysFilled | Answer::InMyShell) {
                        self.committed(approvals.note(&agreed_to(&question)));
                    }
                    let _ = to.send(answer);
                })
            }
            Wanted::Words(heading, question, choices, to) => words(self, &heading, &question, &choices).map(|said| {
                let _ = to.send(said);
            }),
            Wanted::OverdueChoice(command, has_ended, to) => {
                ask_overdue(self, &command, &has_ended, cancel).map(|said| {
                    let _ = to.send(said);
                })
            }
            Wanted::Command(command, to) => self.run_for_model(command).map(|outcome| {
                let _ = to.send(outcome);
            }),
        };
        // If it failed, there is no reply.
        flow.err().unwrap_or(Flow::Continue)
    }
}

/// A call that a person agreed to, in words for a commit.
fn agreed_to(question: &Question) -> String {
    match &question.action {
        Action::Shell { command } => command.clone(),
        Action::Keep { command, .. } => format!("the changes of {command}"),
        Action::Write { path } => format!("write {path}"),
        Action::Delete { path } => format!("delete {path}"),
        Action::Edit { writes, deletes } => {
            let paths: Vec<&str> = writes.iter().chain(deletes).map(String::as_str).collect();
            format!("edit {}", paths.join(", "))
        }
        Action::Http { method, url } => format!("{method} {url}"),
        _ => question.tool.clone(),
    }
}

/// Draws an answer as this terminal shows it.
pub(super) fn drawing(console: &Console) -> Markdown {
    let options = console.options();
    let width_columns = console.width_columns();
    Markdown::new(Options { width_columns, color: options.color, markdown: options.markdown })
}

/// The person at this terminal, for the thread that asks the model.
struct AtTerminal<'a> {
    wants: Sender<Wanted>,
    pump: Handle,
    waiting: &'a Waiting,
    console: &'a Console,
}

impl AtTerminal<'_> {
    /// Asks the person through the loop, and waits; `None` if the terminal has gone.
    fn want<T>(&self, make: impl FnOnce(Sender<T>) -> Wanted) -> Option<T> {
        self.waiting.rest(self.console);
        let (to, from) = channel();
        let sent = self.wants.send(make(to));
        self.pump.nudge();
        let answer = sent.ok().and_then(|()| from.recv().ok());
        self.waiting.go_on();
        answer
    }
}

impl Person for AtTerminal<'_> {
    fn can_ask(&self) -> bool {
        true
    }

    fn consent(&mut self, crossing: &Crossing) -> bool {
        let text = crossing_question(crossing);
        self.want(|answer| Wanted::Consent(text, answer)).unwrap_or(false)
    }

    fn approve(&mut self, question: &Question) -> Answer {
        self.waiting.note_question();
        let question = Box::new(question.clone());
        self.want(|answer| Wanted::Approval(question, answer)).unwrap_or(Answer::No(String::new()))
    }

    fn reply_to(&mut self, heading: &str, question: &str, choices: &[String]) -> Option<String> {
        let (heading, question, choices) = (heading.to_owned(), question.to_owned(), choices.to_vec());
        self.want(|answer| Wanted::Words(heading, question, choices, answer)).flatten()
    }

    fn overdue(&mut self, command: &Overdue, has_ended: &Arc<AtomicBool>) -> Option<OverdueChoice> {
        let (command, has_ended) = (command.clone(), Arc::clone(has_ended));
        self.want(|answer| Wanted::OverdueChoice(command, has_ended, answer)).flatten()
    }

    fn has_shell(&self) -> bool {
        true
    }

    fn run_in_own_shell(&mut self, command: &str) -> Option<Outcome> {
        let command = command.to_owned();
        self.want(|answer| Wanted::Command(command, answer)).flatten()
    }
}

/// Draws an answer as its events come.
pub(super) struct Drawing {
    console: Console,
    waiting: Arc<Waiting>,
    markdown: Markdown,
    thinking: Thinking,
    reply: Reply,
    /// The check that runs, in a line.
    checking: Option<String>,
    /// The command about which the person will be asked, in a line: the question shows it, so it is shown only if there is none.
    unasked: Option<String>,
    /// The whole outputs of tools.
    outputs: Vec<ToolOutput>,
    /// The number of the first of them.
    first_output: usize,
}

impl Drawing {
    /// Draws on a console, below the sign; the first output of a tool has this number.
    pub(super) fn new(console: Console, waiting: Arc<Waiting>, first_output: usize) -> Self {
        Self {
            markdown: drawing(&console),
            console,
            waiting,
            thinking: Thinking::default(),
            reply: Reply::default(),
            checking: None,
            unasked: None,
            outputs: Vec::new(),
            first_output,
        }
    }

    /// Takes what happened.
    pub(super) fn take(&mut self, event: Event) {
        let console = &self.console.clone();
        match event {
            Event::Notice(text) => self.waiting.above(console, || {
                console.write(&self.markdown.finish());
                console.notice(&text);
            }),
            Event::Thought(piece) => {
                if self.thinking.push(&piece, Instant::now()) {
                    self.waiting.say("thinking… ");
                }
            }
            Event::Usage(spent) => self.reply.spent = Some(*spent),
            Event::Tool(event) => self.tool(*event),
            Event::Text(piece) => {
                self.rest();
                console.write(&self.markdown.push(&piece));
            }
            Event::Answered { text } => self.end(text, true),
            Event::Cancelled { text } => {
                let told = stopped(&text);
                self.end(text, false);
                console.notice(told);
            }
            Event::Failed { text, failure } => {
                let is_absent = matches!(failure.kind, FailureKind::NoModel | FailureKind::Unavailable);
                self.reply.is_unanswered = text.is_empty() && is_absent;
                self.end(text, false);
                console.failure(&failure);
            }
        }
    }

    /// Tells what a call is about, and in one line what came of it.
    fn tool(&mut self, ToolEvent { step, tool, .. }: ToolEvent) {
        self.rest();
        self.console.write(&self.markdown.finish());
        match step {
            Step::Requested { intent, .. } if tool == CHECK_TOOL => {
                self.waiting.say("checking… ");
                self.checking = Some(intent);
            }
            Step::Requested { intent, planned } => match planned.action {
                Action::Shell { .. } if planned.is_asked => self.unasked = Some(shown(&intent)),
                _ => self.console.notice(&shown(&intent)),
            },
            Step::Approved => {}
            Step::Denied { why } => {
                self.name_unasked();
                self.console.notice(&format!("  denied: {}", shown(&why)));
            }
            Step::Done { outcome, duration } => {
                self.name_unasked();
                let number = self.first_output + self.outputs.len();
                let line = match self.checking.take() {
                    Some(intent) => Some(checked(&intent, &outcome, duration, number)),
                    None => done(&outcome, duration.as_millis(), number),
                };
                self.outputs.push(whole(&outcome));
                if let Some(line) = line {
                    self.console.notice(&line);
                }
                if let Some(line) = changed_line(&outcome, ":undo") {
                    self.console.notice(&format!("  {line}"));
                }
            }
        }
        self.waiting.go_on();
    }

    /// Shows the command that the person would have been asked about, if no question has shown it.
    fn name_unasked(&mut self) {
        let has_asked = self.waiting.take_question();
        if let Some(intent) = self.unasked.take().filter(|_| !has_asked) {
            self.console.notice(&intent);
        }
    }

    /// Takes the sign away and folds the thoughts that came before.
    fn rest(&mut self) {
        self.waiting.rest(&self.console);
        if let Some(line) = self.thinking.fold(Instant::now()) {
            self.console.write(&self.markdown.finish());
            self.console.notice(&line);
        }
    }

    fn end(&mut self, text: String, whole: bool) {
        self.rest();
        self.waiting.end(&self.console);
        self.console.write(&self.markdown.finish());
        (self.reply.text, self.reply.whole) = (text, whole);
        self.reply.thoughts = self.thinking.text().to_owned();
    }
}

/// A model's words in one line of ours.
fn shown(text: &str) -> String {
    const CHARS_MAX: usize = 300;
    let mut shown: String = escape_visible(text).replace('\n', " ⏎ ").chars().take(CHARS_MAX).collect();
    if text.chars().count() > CHARS_MAX {
        shown.push('…');
    }
    shown
}

/// One line on what came of a call; nothing where it was denied, which was told.
fn done(outcome: &Outcome, ms: u128, number: usize) -> Option<String> {
    let seconds = if ms >= 1000 { format!(", {}.{} s", ms / 1000, ms % 1000 / 100) } else { String::new() };
    match &outcome.error {
        Some(error) if error.code == "denied" => None,
        Some(error) => {
            let is_all = outcome.output.is_empty() && error.headline() == error.message;
            let more = if is_all { String::new() } else { format!(" (:show {number})") };
            let headline = shown(error.headline());
            Some(match error.is_failure() {
                true => format!("  failed: {headline}{seconds}{more}"),
                false => format!("  {headline}{more}"),
            })
        }
        // An edit says itself how much it was.
        None if outcome.metadata.contains_key("stats") => {
            let first = outcome.output.lines().next().unwrap_or_default();
            Some(format!("  {}{seconds} (:show {number})", shown(first)))
        }
        None => {
            let lines = outcome.output.lines().count();
            let status = outcome.metadata.get("exitCode").map(|code| format!("status {code}, ")).unwrap_or_default();
            let noun = if lines == 1 { "line" } else { "lines" };
            let show = if lines > 0 { format!(" (:show {number})") } else { String::new() };
            Some(format!("  {status}{lines} {noun}{seconds}{show}"))
        }
    }
}

/// One line on what came of the project's check.
fn checked(intent: &str, outcome: &Outcome, took: Duration, number: usize) -> String {
    let lines = match outcome.output.lines().count() {
        0 => String::new(),
        1 => format!(" (1 line, :show {number})"),
        count => format!(" ({count} lines, :show {number})"),
    };
    let how = outcome.error.as_ref().map_or("passed".to_owned(), |error| format!("failed: {}", shown(&error.message)));
    format!("{}: {how}, {:.1} s{lines}", shown(intent), took.as_secs_f64())
}

/// Returns the output of a call for `:show`.
fn whole(outcome: &Outcome) -> ToolOutput {
    let text = match &outcome.error {
        Some(error) if outcome.output.is_empty() => format!("{}\n{}", error.message, error.hint),
        _ => outcome.output.clone(),
    };
    let diff = outcome.metadata.get("diff").and_then(Value::as_str).unwrap_or_default().to_owned();
    ToolOutput { text, diff }
}

/// Tells that the person stopped an answer, and whether something of it had come.
#[must_use]
pub fn stopped(text: &str) -> &'static str {
    if text.trim().is_empty() { "Stopped." } else { "Stopped. The partial answer is kept." }
}
