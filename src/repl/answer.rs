//! A question's way: asked, drawn as the answer comes, stopped by Ctrl-C.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::Instant;

use super::question::Reader;
use super::run::Repl;
use crate::agent::{Cancel, Crossing};
use crate::console::{Console, Waiting};
use crate::proto::Event;
use crate::render::{Markdown, Options};
use crate::shell;
use crate::shell::session::{KeysTo, Session};
use crate::turn::Thinking;

/// What came of a question.
pub(super) struct Reply {
    /// The answer, as far as it came.
    pub text: String,
    /// Whether it is whole, so that its commands may be offered.
    pub whole: bool,
}

impl Repl {
    /// Asks the model and draws the answer. Events of the shell that come meanwhile are kept.
    pub(super) fn answer(&mut self, question: &str) -> Reply {
        self.session.keys_to(KeysTo::Cancel);
        let cancel = Cancel::new();
        let pump = self.session.handle();
        let (session, deferred) = (&mut self.session, &mut self.deferred);
        let (agent, console) = (&mut self.agent, &self.console);
        let options = console.options();
        let markdown = Markdown::new(Options {
            width_columns: console.width_columns(),
            color: options.color,
            markdown: options.markdown,
        });
        let waiting = &Waiting::default();
        let reply = Reply { text: String::new(), whole: false };
        let mut drawing = Drawing { console, waiting, markdown, thinking: Thinking::default(), reply };
        let is_over = &AtomicBool::new(false);
        let (questions, asked) = channel();
        let (answers, said) = channel();
        let watcher = Watcher { session, console, cancel: cancel.clone(), is_over, asked, answers };
        thread::scope(|scope| {
            scope.spawn(move || watcher.watch(deferred));
            scope.spawn(|| waiting.draw(console));
            let mut consent = |crossing: &Crossing| {
                let Crossing { from, to, place } = crossing;
                let text =
                    format!("{from} doesn't answer. Send this conversation to {to} ({place})? yes [y]  no [n]  ");
                let mut yes = false;
                waiting.above(console, || {
                    let _ = questions.send(text);
                    pump.nudge();
                    // Nobody answers where the terminal has gone.
                    yes = said.recv().unwrap_or(false);
                });
                yes
            };
            let mut draw = |event| drawing.take(event);
            agent.ask_with(question, &cancel, &mut draw, &mut consent);
            is_over.store(true, Ordering::Release);
            pump.nudge();
        });
        self.session.keys_to(KeysTo::Hold);
        drawing.reply
    }
}

/// Draws an answer as its events come.
struct Drawing<'a> {
    console: &'a Console,
    waiting: &'a Waiting,
    markdown: Markdown,
    thinking: Thinking,
    reply: Reply,
}

impl Drawing<'_> {
    fn take(&mut self, event: Event) {
        let console = self.console;
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
            Event::Usage(_) => {}
            Event::Text(piece) => {
                self.end_wait();
                console.write(&self.markdown.push(&piece));
            }
            Event::Answered { text } => self.end(text, true),
            Event::Cancelled { text } => {
                self.end(text, false);
                console.notice("stopped; what came is kept");
            }
            Event::Failed { text, failure } => {
                self.end(text, false);
                console.failure(&failure);
            }
        }
    }

    /// Takes the sign away and folds the thoughts that came before.
    fn end_wait(&mut self) {
        self.waiting.end(self.console);
        if let Some(line) = self.thinking.fold(Instant::now()) {
            self.console.write(&self.markdown.finish());
            self.console.notice(&line);
        }
    }

    fn end(&mut self, text: String, whole: bool) {
        self.end_wait();
        self.console.write(&self.markdown.finish());
        self.reply = Reply { text, whole };
    }
}

/// Hears what happens in the terminal while a model answers.
struct Watcher<'a> {
    session: &'a mut Session,
    console: &'a Console,
    cancel: Cancel,
    is_over: &'a AtomicBool,
    /// Questions of yes or no to put.
    asked: Receiver<String>,
    /// What the person said to them.
    answers: Sender<bool>,
}

impl Watcher<'_> {
    /// Watches until the question is over; keeps what is for the loop.
    fn watch(self, deferred: &mut VecDeque<shell::Event>) {
        let mut open: Option<OpenQuestion> = None;
        loop {
            if let Some(text) = self.asked.try_iter().last() {
                open = Some(OpenQuestion::new(text, self.session));
            }
            let event = self.session.next_event();
            // Before the answer, so that whoever waits for it sees that everything stops.
            let stops = match &event {
                shell::Event::Keys(keys) => keys.contains(&3),
                event => matches!(event, shell::Event::Cancel),
            };
            if stops {
                self.cancel.cancel();
            }
            if let Some(yes) = open.as_mut().and_then(|question| question.take(&event, self.console)) {
                open = None;
                self.session.keys_to(KeysTo::Cancel);
                let _ = self.answers.send(yes);
            }
            match event {
                // Others nudge too, such as the thread that lists programs.
                shell::Event::Nudged if self.is_over.load(Ordering::Acquire) => return,
                shell::Event::Nudged | shell::Event::Cancel | shell::Event::Keys(_) => {}
                event => {
                    let over = matches!(event, shell::Event::Hangup | shell::Event::Ended(_));
                    deferred.push_back(event);
                    if over {
                        return self.cancel.cancel();
                    }
                }
            }
        }
    }
}

/// A question that is open while the model's answer is waited for.
struct OpenQuestion {
    text: String,
    reader: Reader,
    /// Answers of the pump to wait for before it is put.
    nudges_due: u8,
}

/// One more than who else may have nudged: the one who has the question, and the thread that lists programs.
const NUDGES: u8 = 3;

impl OpenQuestion {
    /// Lends the keys to a question. It is put when the pump has said that keys are answers from now on; an answer to
    /// somebody else's nudge, still on its way, says nothing of that, so several are waited for.
    fn new(text: String, session: &Session) -> Self {
        session.keys_to(KeysTo::Question);
        (0..NUDGES).for_each(|_| session.handle().nudge());
        Self { text, reader: Reader::default(), nudges_due: NUDGES }
    }

    /// Takes an event; gives the answer, once there is one.
    fn take(&mut self, event: &shell::Event, console: &Console) -> Option<bool> {
        match event {
            shell::Event::Nudged if self.nudges_due > 0 => {
                self.nudges_due -= 1;
                if self.nudges_due == 0 {
                    console.raw(b"\x1b[?2004h");
                    console.outside(&self.text);
                }
                None
            }
            shell::Event::Cancel => Some(false),
            shell::Event::Keys(keys) if self.nudges_due == 0 => {
                let yes = self.reader.read(keys, yes_or_no, false)?;
                console.raw(b"\x1b[?2004l");
                console.line(if yes { "yes" } else { "no" });
                Some(yes)
            }
            _ => None,
        }
    }
}

/// A lone key that answers a question of yes or no; everything that isn't plainly yes is no.
fn yes_or_no(keys: &[u8]) -> Option<bool> {
    match keys {
        b"y" | b"Y" => Some(true),
        b"n" | b"N" | b"\r" | b"\n" | b"\x1b" | b"\x03" | b"\x04" => Some(false),
        _ => None,
    }
}
