//! A question's way: asked, drawn as the answer comes, stopped by Ctrl-C.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use super::run::Repl;
use crate::agent::Cancel;
use crate::console::Waiting;
use crate::proto::Event;
use crate::render::{Markdown, Options};
use crate::shell;
use crate::shell::session::KeysTo;

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
        let mut markdown = Markdown::new(Options {
            width_columns: console.width_columns(),
            color: options.color,
            markdown: options.markdown,
        });
        let waiting = &Waiting::default();
        let mut reply = Reply { text: String::new(), whole: false };
        let watcher = cancel.clone();
        let is_over = &AtomicBool::new(false);
        thread::scope(|scope| {
            scope.spawn(move || {
                loop {
                    match session.next_event() {
                        // Others nudge too, such as the thread that lists programs.
                        shell::Event::Nudged if is_over.load(Ordering::Acquire) => break,
                        shell::Event::Nudged => {}
                        shell::Event::Cancel => watcher.cancel(),
                        event => {
                            let over = matches!(event, shell::Event::Hangup | shell::Event::Ended(_));
                            deferred.push_back(event);
                            if over {
                                watcher.cancel();
                                break;
                            }
                        }
                    }
                }
            });
            scope.spawn(|| waiting.draw(console));
            agent.ask(question, &cancel, &mut |event| {
                if !matches!(event, Event::Notice(_)) {
                    waiting.end(console);
                }
                match event {
                    Event::Notice(text) => waiting.above(console, || {
                        console.write(&markdown.finish());
                        console.notice(&text);
                    }),
                    Event::Text(piece) => console.write(&markdown.push(&piece)),
                    Event::Answered { text } => {
                        console.write(&markdown.finish());
                        reply = Reply { text, whole: true };
                    }
                    Event::Cancelled { text } => {
                        console.write(&markdown.finish());
                        console.notice("stopped; what came is kept");
                        reply = Reply { text, whole: false };
                    }
                    Event::Failed { text, failure } => {
                        console.write(&markdown.finish());
                        console.failure(&failure);
                        reply = Reply { text, whole: false };
                    }
                }
            });
            is_over.store(true, Ordering::Release);
            pump.nudge();
        });
        self.session.keys_to(KeysTo::Hold);
        reply
    }
}
