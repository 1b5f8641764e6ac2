//! The person at an editor: asked by requests to the client. Only an offered answer counts; silence, an unknown answer and a
//! closed connection mean no.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::calls::asked;
use super::channel::Editor;
use super::commands::Desk;
use super::wire::call_text;
use crate::agent::{Cancel, Crossing, Person};
use crate::app::Channel;
use crate::proto::Event;
use crate::proto::tool::{Answer, Overdue, OverdueChoice, Question};
use crate::render::named;
use crate::render::text::escape_visible;
use crate::rpc::Reply;

/// Longest wait for a person: they may be elsewhere, but not for a day.
const WAIT: Duration = Duration::from_secs(60 * 60);
/// Timeout for a client to return a file's text: a model waits meanwhile.
const FILE_WAIT: Duration = Duration::from_secs(5);
/// Interval for checking that the question still matters.
const LOOK: Duration = Duration::from_millis(50);

/// An answer that can be chosen.
struct Choice {
    id: String,
    name: String,
    kind: &'static str,
}

fn choice(id: &str, name: &str, kind: &'static str) -> Choice {
    Choice { id: id.to_owned(), name: name.to_owned(), kind }
}

/// The person at an editor, during one prompt.
pub(super) struct AtEditor<'a> {
    pub(super) editor: &'a Editor,
    pub(super) cancel: &'a Cancel,
}

impl AtEditor<'_> {
    /// Waits for a result while it matters.
    fn wait(&self, id: u64, replies: &Receiver<Reply>, wait: Duration, is_over: &dyn Fn() -> bool) -> Option<Value> {
        self.response(id, replies, wait, is_over)?.ok()
    }

    /// Waits for a response, be it an error, while it matters.
    fn response(
        &self,
        id: u64,
        replies: &Receiver<Reply>,
        wait: Duration,
        is_over: &dyn Fn() -> bool,
    ) -> Option<Reply> {
        let until = Instant::now() + wait;
        loop {
            match replies.recv_timeout(LOOK) {
                Ok(reply) => return Some(reply),
                Err(RecvTimeoutError::Disconnected) => return None,
                Err(RecvTimeoutError::Timeout) => {}
            }
            if self.cancel.is_cancelled() || is_over() || Instant::now() >= until {
                self.editor.peer().forget(id);
                if !self.cancel.is_cancelled() {
                    self.editor.peer().notify("$/cancel_request", &json!({"requestId": id}));
                }
                return None;
            }
        }
    }

    /// Lets the person choose; `None` if they chose none of the offers.
    fn choose<'c>(&self, call: &Value, choices: &'c [Choice], is_over: &dyn Fn() -> bool) -> Option<&'c str> {
        let options: Vec<Value> = choices
            .iter()
            .map(|choice| json!({"optionId": choice.id, "name": choice.name, "kind": choice.kind}))
            .collect();
        let params = json!({"sessionId": self.editor.name(), "toolCall": call, "options": options});
        let (id, replies) = self.editor.peer().request("session/request_permission", &params);
        let reply = self.wait(id, &replies, WAIT, is_over)?;
        let outcome = reply.get("outcome")?;
        let chosen = outcome.get("optionId").and_then(Value::as_str).filter(|_| outcome["outcome"] == "selected")?;
        let found = choices.iter().find(|choice| choice.id == chosen);
        if found.is_none() {
            tracing::warn!(event = "editor_chose_what_was_not_offered");
        }
        found.map(|choice| choice.id.as_str())
    }

    /// Asks about something other than a tool's call; only a plain yes counts.
    pub(super) fn agrees(&self, title: &str, text: &str, yes: &str) -> bool {
        self.decides(title, text, yes) == Some(true)
    }

    /// Lets the person fill in a field; `None` if they don't.
    fn fill_in(&self, message: &str, field: Value) -> Option<String> {
        let schema = json!({"type": "object", "properties": {"answer": field}, "required": ["answer"]});
        let mut params = json!({
            "mode": "form", "sessionId": self.editor.name(), "message": message, "requestedSchema": schema,
        });
        if let Some(call) = self.editor.current_call() {
            params["toolCallId"] = call.into();
        }
        let (id, replies) = self.editor.peer().request("elicitation/create", &params);
        let reply = self.wait(id, &replies, WAIT, &|| false)?;
        let answer =
            reply.pointer("/content/answer").and_then(Value::as_str).filter(|_| reply["action"] == "accept")?;
        Some(answer.to_owned()).filter(|answer| !answer.trim().is_empty())
    }

    /// A question that isn't about a tool's call, in a form that a client can show.
    fn beside(&self, title: &str, text: &str) -> Value {
        let id = self.editor.next_question();
        json!({"toolCallId": id, "title": title, "kind": "other", "status": "pending", "content": [call_text(text)]})
    }
}

impl Desk for AtEditor<'_> {
    fn update(&self, update: &Value) {
        self.editor.update(update);
    }

    fn notice(&self, text: &str, severity: &str) {
        self.editor.notice(text, severity);
    }

    fn show(&self, event: Event) {
        self.editor.send(None, event);
    }

    fn decides(&self, title: &str, text: &str, yes: &str) -> Option<bool> {
        let choices = [choice("yes", yes, "allow_once"), choice("no", "Don't", "reject_once")];
        self.choose(&self.beside(title, text), &choices, &|| false).map(|chosen| chosen == "yes")
    }

    fn cancel(&self) -> &Cancel {
        self.cancel
    }

    fn workspace(&self) -> PathBuf {
        self.editor.workspace()
    }
}

impl Person for AtEditor<'_> {
    fn can_ask(&self) -> bool {
        true
    }

    fn consent(&mut self, Crossing { from, to, place }: &Crossing) -> bool {
        let text = escape_visible(&format!("{from} doesn't answer. Send this conversation to {to} ({place})?"));
        let choices = [choice("yes", "Send it", "allow_once"), choice("no", "Don't", "reject_once")];
        self.choose(&self.beside("Another model", &text), &choices, &|| false) == Some("yes")
    }

    fn approve(&mut self, question: &Question) -> Answer {
        let (id, title, arguments) = self.editor.asked_about();
        let call = asked(&id, question, (&title, &arguments), &self.editor.workspace());
        let mut choices = vec![choice("once", "Allow once", "allow_once")];
        if question.may_always {
            choices.push(choice("always", "Always allow this in this project", "allow_always"));
        }
        if !question.filled.is_empty() {
            let name = format!("Always allow what any command leaves in {}", named(&question.filled));
            choices.push(choice("filled", &name, "allow_always"));
        }
        choices.push(choice("no", "Reject", "reject_once"));
        if self.editor.abilities().has_forms {
            choices.push(choice("why", "Reject, and say why", "reject_once"));
        }
        // Only the person's own shell could run it, and there is none here.
        if question.only_own_shell {
            return Answer::No(String::new());
        }
        match self.choose(&call, &choices, &|| false) {
            Some("once") => Answer::Once,
            Some("always") => Answer::Always,
            Some("filled") => Answer::AlwaysFilled,
            Some("why") => {
                let why = self.fill_in("Tell the model why not.", json!({"type": "string", "title": "Why"}));
                Answer::No(why.unwrap_or_default())
            }
            _ => Answer::No(String::new()),
        }
    }

    fn reply(&mut self, question: &str, choices: &[String]) -> Option<String> {
        self.reply_to("", question, choices)
    }

    fn reply_to(&mut self, heading: &str, question: &str, choices: &[String]) -> Option<String> {
        // Only a form is surely shown with all choices: some clients show one option of each kind.
        if !self.editor.abilities().has_forms {
            return None;
        }
        let mut field = json!({"type": "string", "title": "Your answer"});
        if !choices.is_empty() {
            field["enum"] = json!(choices);
        }
        let message = format!("{heading}\n{question}");
        self.fill_in(&crate::render::sanitise(message.trim_start()), field)
    }

    fn overdue(&mut self, command: &Overdue, has_ended: &Arc<AtomicBool>) -> Option<OverdueChoice> {
        let Overdue { command: line, ran_for, last_line, no_job } = command;
        let mut text = format!("`{}` has run for {} s.", escape_visible(line), ran_for.as_secs());
        if let Some(last) = last_line {
            text.push_str(&format!("\nIts last line: {}", escape_visible(last)));
        }
        let mut choices = vec![choice("wait", "Wait until it ends", "allow_once")];
        match no_job {
            None => choices.push(choice("job", "Let it continue as a job", "allow_always")),
            Some(why) => text.push_str(&format!("\nIt can't continue as a job: {why}.")),
        }
        choices.push(choice("end", "End it", "reject_once"));
        let call = self.beside("A command takes long", &text);
        match self.choose(&call, &choices, &|| has_ended.load(Ordering::SeqCst))? {
            "wait" => Some(OverdueChoice::Wait),
            "job" => Some(OverdueChoice::Job),
            _ => Some(OverdueChoice::End),
        }
    }

    fn progress(&mut self, text: &str) {
        self.editor.progress(text);
    }

    fn unsaved(&mut self, path: &Path, on_disk: Option<&[u8]>) -> Option<&'static str> {
        // For a file that doesn't exist, most clients show an error.
        let on_disk = on_disk.filter(|_| self.editor.abilities().reads_files)?;
        self.editor.spellings(path).iter().filter_map(|path| path.to_str()).find_map(|path| {
            let params = json!({"sessionId": self.editor.name(), "path": path});
            let (id, replies) = self.editor.peer().request("fs/read_text_file", &params);
            match self.response(id, &replies, FILE_WAIT, &|| false) {
                None => Some("may have changes in the user's editor that aren't saved: it doesn't answer"),
                // The client has no such buffer, so it knows of no changes that could be lost.
                Some(Err(_)) => None,
                Some(Ok(reply)) => {
                    let text = reply.get("content").and_then(Value::as_str)?;
                    let is_other = is_other_text(text, &String::from_utf8_lossy(on_disk));
                    is_other.then_some("has changes in the user's editor that aren't saved")
                }
            }
        })
    }
}

/// Returns whether two texts differ in more than the changes that editors make on their own: in line ends, and in the last one.
fn is_other_text(buffer: &str, disk: &str) -> bool {
    let lines = |text: &str| -> Vec<String> {
        text.trim_end_matches(['\r', '\n']).split('\n').map(|line| line.trim_end_matches('\r').to_owned()).collect()
    };
    lines(buffer) != lines(disk)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ends_of_lines_are_no_unsaved_change() {
        for (buffer, disk, is_other) in [
            ("a\nb\n", "a\nb\n", false),
            ("a\nb", "a\r\nb\r\n", false),
            ("a\n\nb\n", "a\nb\n", true),
            ("a\nB\n", "a\nb\n", true),
            ("", "", false),
        ] {
            assert_eq!(is_other_text(buffer, disk), is_other, "{buffer:?} {disk:?}");
        }
    }
}
