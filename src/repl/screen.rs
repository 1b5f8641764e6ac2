//! The screen of a session: draws the awaited answer, and holds other lines for the next prompt. It must not know how a
//! question is answered.

use parking_lot::{Mutex, MutexGuard};
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::Value;

use super::terminal::Beside;
use crate::agent::changed_line;
use crate::console::{Console, Waiting};
use crate::gate::CHECK_TOOL;
use crate::proto::action::Action;
use crate::proto::tool::{Outcome, Step, ToolEvent};
use crate::proto::{Event, FailureKind, Shortfall, Spent};
use crate::render::text::escape_visible;
use crate::render::{Markdown, Options};
use crate::repl::rules::sharing::Sharing;
use crate::store::ConversationId;
use crate::turn::Thinking;

/// A handle of the screen.
#[derive(Clone, Default)]
pub(super) struct Screen {
    drawn: Arc<Mutex<Drawn>>,
    beside: Beside,
    sharing: Sharing,
}

/// The conversation in which an answer is awaited, and what draws it.
type Drawn = Option<(Option<ConversationId>, Drawing)>;

impl Screen {
    fn lock(&self) -> MutexGuard<'_, Drawn> {
        self.drawn.lock()
    }

    /// The lines that arrive beside an answer.
    pub(super) fn beside(&self) -> Beside {
        self.beside.clone()
    }

    /// The session as others see it.
    pub(super) fn sharing(&self) -> Sharing {
        self.sharing.clone()
    }

    /// Begins to draw the events of a conversation.
    pub(super) fn draw(&self, conversation: Option<ConversationId>, drawing: Drawing) {
        *self.lock() = Some((conversation, drawing));
    }

    /// Ends the drawing, and returns it.
    pub(super) fn drawn(&self) -> Option<Drawing> {
        self.lock().take().map(|(_, drawing)| drawing)
    }

    /// Draws an event of the awaited answer. Lines beside it wait for the next prompt, since they must not get between a
    /// question and its keys.
    pub(super) fn send(&self, conversation: Option<ConversationId>, message: Event) {
        match &mut *self.lock() {
            Some((awaited, drawing)) if *awaited == conversation => {
                self.sharing.event(&message);
                drawing.take(message);
            }
            _ => match message {
                Event::Notice(text) => self.beside.push(text),
                Event::Failed { failure, .. } => self.beside.push(failure.message),
                // The conversation's record has the other events.
                _ => {}
            },
        }
    }
}

/// The result of a question.
#[derive(Default)]
pub(super) struct Reply {
    /// The answer, as far as it came.
    pub text: String,
    /// True if it came to its end.
    pub whole: bool,
    /// True if a limit or a filter cut it off, so that its commands may be half of what the model meant.
    pub is_cut: bool,
    /// No model could be asked, or none answered.
    pub is_unanswered: bool,
    /// The model's thoughts before the answer.
    pub thoughts: String,
    /// The cost of its last request.
    pub spent: Option<Spent>,
}

/// The output of a tool.
pub(super) struct ToolOutput {
    /// The output as text.
    pub text: String,
    /// The files that it changed, in the unified form.
    pub diff: String,
}

/// Draws an answer as this terminal shows it.
pub(super) fn drawing(console: &Console) -> Markdown {
    let options = console.options();
    let width_columns = console.width_columns();
    Markdown::new(Options { width_columns, color: options.color, markdown: options.markdown })
}

/// Draws an answer as its events come.
pub(super) struct Drawing {
    console: Console,
    waiting: Arc<Waiting>,
    markdown: Markdown,
    thinking: Thinking,
    /// The answer, as far as it came.
    pub(super) reply: Reply,
    /// The check that runs, in a line.
    checking: Option<String>,
    /// The command about which the person will be asked, in a line: the question shows the command, so this is shown
    /// only if there is no question.
    unasked: Option<String>,
    /// The whole outputs of tools.
    pub(super) outputs: Vec<ToolOutput>,
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

    /// Draws an event.
    pub(super) fn take(&mut self, event: Event) {
        let console = &self.console.clone();
        match event {
            Event::Session(event) => event.text().into_iter().for_each(|text| self.take(Event::Notice(text))),
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
            Event::Answered { text, shortfall } => {
                self.reply.is_cut = matches!(shortfall, Some(Shortfall::Length | Shortfall::Filtered));
                self.end(text, true);
            }
            Event::Cancelled { text } => {
                let notice = stopped(&text);
                self.end(text, false);
                console.notice(notice);
            }
            Event::Failed { text, failure } => {
                let is_absent = matches!(failure.kind, FailureKind::NoModel | FailureKind::Unreachable);
                // A request with a cost has reached a model, whatever happened to the next one.
                self.reply.is_unanswered = text.is_empty() && is_absent && self.reply.spent.is_none();
                self.end(text, false);
                console.failure(&failure);
            }
        }
    }

    /// Shows what a call is about, and its result in one line.
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

    /// Removes the sign and folds the thoughts that came before.
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

/// Describes the result of a call in one line; `None` if it was denied, which was printed before.
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
        // An edit's output describes its own size.
        None if outcome.metadata.contains_key("stats") => {
            let first = outcome.output.lines().next().unwrap_or_default();
            Some(format!("  {}{seconds} (:show {number})", shown(first)))
        }
        None => {
            let lines = lines_of(outcome);
            let status = outcome.metadata.get("exitCode").map(|code| format!("status {code}, ")).unwrap_or_default();
            let noun = if lines == 1 { "line" } else { "lines" };
            let show = if outcome.output.is_empty() { String::new() } else { format!(" (:show {number})") };
            Some(format!("  {status}{lines} {noun}{seconds}{show}"))
        }
    }
}

/// The number of lines that a call returned. Those that ReedClaw adds to a command's own for the model don't count.
fn lines_of(outcome: &Outcome) -> usize {
    let printed = |name: &str| Some(outcome.metadata.get(name)?.as_str()?.lines().count());
    printed("stdout").zip(printed("stderr")).map_or_else(|| outcome.output.lines().count(), |(out, err)| out + err)
}

/// Describes the result of the project's check in one line.
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

/// Reports that the person stopped an answer, and whether a part of it had arrived.
#[must_use]
pub fn stopped(text: &str) -> &'static str {
    if text.trim().is_empty() { "Stopped." } else { "Stopped. The partial answer is kept." }
}

#[cfg(test)]
mod tests {
    use std::fs::File;

    use super::*;
    use crate::console;

    #[test]
    fn lines_that_are_added_for_the_model_are_not_counted() {
        let printed = |out: &str, err: &str, output: &str| {
            let outcome = Outcome::of(output.to_owned()).with("exitCode", 0).with("stdout", out).with("stderr", err);
            done(&outcome, 3, 7).unwrap_or_default()
        };
        assert_eq!(printed("", "", ""), "  status 0, 0 lines");
        assert_eq!(printed("", "", "[kept: + f.txt]"), "  status 0, 0 lines (:show 7)");
        assert_eq!(printed("a\n", "b\nc\n", "a\n[stderr]\nb\nc\n[kept: + f.txt]"), "  status 0, 3 lines (:show 7)");
    }

    #[test]
    fn lines_of_no_awaited_answer_wait_for_the_prompt() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("terminal");
        let options = console::Options {
            color: false,
            markdown: false,
            unicode: true,
            accessible: false,
            keyboard_protocol: false,
        };
        let console = Console::on(options, Arc::new(File::create(&path).expect("a file")));
        let screen = Screen::default();
        let drawn = || std::fs::read_to_string(&path).expect("what was drawn");
        let awaited = Some(ConversationId(1));
        screen.draw(awaited, Drawing::new(console, Arc::<Waiting>::default(), 1));
        for (conversation, text) in
            [(None, "left behind"), (awaited, "of the answer"), (Some(ConversationId(2)), "other")]
        {
            screen.send(conversation, Event::Notice(text.to_owned()));
        }
        assert_eq!(drawn(), "of the answer\r\n");
        assert!(screen.drawn().is_some());
        screen.send(awaited, Event::Text("late".into()));
        screen.send(awaited, Event::Notice("later".into()));
        assert_eq!(
            (drawn().as_str(), screen.beside().take().join(", ")),
            ("of the answer\r\n", "left behind, other, later".into())
        );
    }
}
