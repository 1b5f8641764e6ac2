//! Conversations at the prompt: a new one, the ones before, going on, forking, rewinding, titles; and the history's lines
//! by number. It must not know how they are stored.

use std::path::Path;

use reedline::EditCommand;

use super::answer::drawing;
use super::prompt::ReedPrompt;
use super::run::{Flow, Repl};
use super::state;
use crate::agent::Agent;
use crate::base::text::{age, one_line};
use crate::host;
use crate::ops::sessions::turn_and_half;
use crate::ops::{self, conversations};
use crate::proto::{Failure, FailureKind, LineKind};
use crate::render::sanitise;
use crate::render::text::table;
use crate::store::export::Format;
use crate::store::{ConversationId, Row, StoredTurn};

impl Repl {
    /// Begins a new conversation.
    pub(super) fn new_conversation(&mut self) {
        if let Some(id) = self.runtime.leave_session() {
            self.console.notice(&format!("left session {id}; :session open {id} goes on with it"));
        }
        self.end_conversation(Agent::clear);
        self.console.notice("a new conversation begins; :sessions lists the ones before");
    }

    /// Lists the conversations that were used last.
    pub(super) fn list_sessions(&self) {
        let found = self.store().conversations(conversations::LISTED);
        let current = self.runtime.agent().conversation();
        let found = match found {
            Ok(found) if found.is_empty() => return self.console.notice("no conversation is stored yet"),
            Ok(found) => found,
            Err(problem) => return self.console.failure(&problem.into()),
        };
        let now = host::now_unix_ms();
        let rows: Vec<Vec<String>> = found
            .into_iter()
            .rev()
            .map(|it| {
                let mark = if Some(it.id) == current { "*" } else { " " };
                vec![format!("{mark} {}", it.id.0), age(now - it.updated), turns_told(it.turns), it.title]
            })
            .collect();
        self.console.write(&table(&rows, self.console.width_columns()));
        self.console.notice(":resume ID goes on with one");
    }

    /// Goes on with a conversation: by number, by words, or the one used last beside this.
    pub(super) fn resume(&mut self, wanted: &str) {
        let current = self.runtime.agent().conversation();
        let found = conversations::find(&mut self.store(), current, wanted);
        let found = match found {
            Ok(found) => found,
            Err(failure) => return self.console.failure(&failure),
        };
        if current != Some(found.id) {
            self.note_ended();
            // Another conversation isn't the session's.
            if let Some(id) = self.runtime.leave_session() {
                self.console.notice(&format!("left session {id}; :session open {id} goes on with it"));
            }
        }
        match conversations::go_on(|| self.terminal.store(), self.runtime.agent_mut(), found.id) {
            Err(failure) => self.console.failure(&failure),
            Ok(turns) => {
                if let Some(last) = turns.last() {
                    self.console.notice(&format!("{}: {}, {}", found.id.0, found.title, turns_told(found.turns)));
                    self.show_turn(last);
                }
            }
        }
    }

    /// Copies this conversation, or its first turns, into another one and goes on there.
    pub(super) fn fork(&mut self, argument: &str) {
        let Some((id, turns)) = self.present_turns() else { return };
        let Some(count) = self.turn_number(argument, turns.len()) else { return };
        let count = count.unwrap_or(turns.len());
        if self.session_fork(u64::try_from(count).ok()) {
            return;
        }
        if count == 0 {
            return self.console.notice("a fork at turn 0 would be empty: that is :new");
        }
        match conversations::fork(|| self.terminal.store(), self.runtime.agent_mut(), id, count) {
            Err(failure) => self.console.failure(&failure),
            Ok(fork) => {
                self.console.notice(&format!("this is {} now, forked from {} at turn {count}", fork.0, id.0));
            }
        }
    }

    /// Takes back what was said after a turn; without a number it lists the turns.
    pub(super) fn rewind(&mut self, argument: &str) -> Flow {
        let Some((id, turns)) = self.present_turns() else { return Flow::Continue };
        let (number, half) = turn_and_half(argument);
        let Some(count) = self.turn_number(number, turns.len()) else { return Flow::Continue };
        let Some(count) = count else {
            self.console.write(&table(&rows_of(&turns, 1), self.console.width_columns()));
            self.console.notice(":rewind N drops everything after turn N; 0 drops all; :fork N keeps both");
            return Flow::Continue;
        };
        if let Some(half) = half {
            self.session_rewind_half(count, half);
            return Flow::Continue;
        }
        if self.runtime.on_git().is_some() {
            return self.session_rewind(count, &turns[count..]);
        }
        match conversations::rewind(|| self.terminal.store(), self.runtime.agent_mut(), id, count) {
            Err(failure) => self.console.failure(&failure),
            Ok(()) => {
                let later = turns.len() - count;
                let are = if later == 1 { "later turn is" } else { "later turns are" };
                self.console.notice(&format!("Back at turn {count}; {later} {are} set aside."));
            }
        }
        Flow::Continue
    }

    /// Lists the turns below an empty line, and begins a `:rewind` there: Enter alone changes nothing.
    pub(super) fn choose_turn(&mut self, prompt: &ReedPrompt) -> Flow {
        if !self.terminal.editor.current_buffer_contents().is_empty() {
            return Flow::Continue;
        }
        self.step_below(prompt);
        let flow = self.rewind("");
        if self.runtime.agent().conversation().is_some() {
            self.terminal.editor.run_edit_commands(&[EditCommand::InsertString(":rewind ".to_owned())]);
        }
        flow
    }

    /// Prints the conversation's questions and answers, or the last so many.
    pub(super) fn transcript(&self, argument: &str) {
        let Some((_, turns)) = self.present_turns() else { return };
        let count = match argument.parse::<usize>() {
            _ if argument.is_empty() => turns.len(),
            Ok(count) if count > 0 => count.min(turns.len()),
            _ => {
                let message = format!(":transcript doesn't know {}", sanitise(argument));
                return self.console.failure(&user(message, ":transcript, or :transcript N for the last N turns"));
            }
        };
        turns[turns.len() - count..].iter().for_each(|turn| self.show_turn(turn));
    }

    /// Shows or sets the title.
    pub(super) fn title(&mut self, title: &str) {
        let Some(id) = self.runtime.agent().conversation() else { return self.tell_no_conversation() };
        let done = conversations::title(&mut self.store(), self.runtime.agent(), id, title);
        match done {
            Ok(Some(title)) => self.console.notice(&format!("{}: {title}", id.0)),
            Ok(None) => self.console.notice("this conversation is no longer stored"),
            Err(failure) => self.console.failure(&failure),
        }
    }

    /// Lists, prunes, deletes or exports lines of the history.
    pub(super) fn history_command(&mut self, argument: &str) {
        let (word, rest) = argument.split_once(char::is_whitespace).unwrap_or((argument, ""));
        let rest = rest.trim();
        match (word, rest.parse::<i64>(), Format::of(Path::new(rest))) {
            ("turns", _, _) if rest.is_empty() => self.transcript(""),
            ("prune", _, _) if rest.is_empty() => self.prune_history(),
            ("delete", Ok(number), _) => self.delete_line(number),
            ("export", _, Some(format)) => self.export_history(rest, format),
            _ => self.list_history(argument),
        }
    }

    fn prune_history(&self) {
        let entries_max = u64::try_from(self.runtime.settings().history.entries_max).unwrap_or(u64::MAX);
        match ops::history::prune(|| self.store(), entries_max) {
            Ok(pruned) => {
                let told = format!("{pruned} of the oldest lines removed; history.entries_max is {entries_max}");
                self.console.notice(&told);
            }
            Err(failure) => self.console.failure(&failure),
        }
    }

    fn delete_line(&self, number: i64) {
        let deleted = ops::history::delete(&mut self.store(), number);
        match deleted {
            Ok(line) => self.console.notice(&format!("deleted: {}", one_line(&line))),
            Err(failure) => self.console.failure(&failure),
        }
    }

    fn export_history(&self, file: &str, format: Format) {
        let path = state::read(&self.state).resolve(file).unwrap_or_else(|| file.into());
        match ops::history::export(&self.store(), &path, format) {
            Ok(written) => self.console.notice(&format!("{written} in {}", path.display())),
            Err(failure) => self.console.failure(&failure),
        }
    }

    fn list_history(&self, text: &str) {
        let found = ops::history::list(&mut self.store(), text);
        match found {
            Err(failure) => self.console.failure(&failure),
            Ok(rows) if rows.is_empty() => self.console.notice("nothing in the history"),
            Ok(rows) => {
                let rows: Vec<Vec<String>> = rows.into_iter().map(history_row).collect();
                self.console.write(&table(&rows, self.console.width_columns()));
            }
        }
    }

    /// Reads the number of a turn, and reports one that isn't there.
    fn turn_number(&self, argument: &str, turns: usize) -> Option<Option<usize>> {
        conversations::turn_number(argument, turns).map_err(|failure| self.console.failure(&failure)).ok()
    }

    fn stored_turns(&self, id: ConversationId) -> Option<Vec<StoredTurn>> {
        let turns = self.store().turns(id);
        turns.map_err(|problem| self.console.failure(&problem.into())).ok()
    }

    /// The conversation at hand and its turns; told where there is none.
    pub(super) fn present_turns(&self) -> Option<(ConversationId, Vec<StoredTurn>)> {
        let Some(id) = self.runtime.agent().conversation() else {
            self.tell_no_conversation();
            return None;
        };
        Some((id, self.stored_turns(id)?))
    }

    fn tell_no_conversation(&self) {
        self.console.notice("this conversation holds nothing yet; :resume goes on with an earlier one");
    }

    fn show_turn(&self, turn: &StoredTurn) {
        self.console.outside(&format!("? {}\n", turn.question));
        let mut markdown = drawing(&self.console);
        self.console.write(&markdown.push(&turn.answer));
        self.console.write(&markdown.finish());
    }
}

fn history_row(row: Row) -> Vec<String> {
    let kind = match row.entry.kind {
        LineKind::Command => "",
        LineKind::Question => "question",
        LineKind::ModelCommand => "model's",
        LineKind::Meta => "meta",
    };
    let status = row.entry.status.filter(|status| *status != 0);
    vec![
        row.id.0.to_string(),
        status.map(|status| status.to_string()).unwrap_or_default(),
        kind.to_owned(),
        row.entry.line.replace('\n', " ⏎ "),
    ]
}

fn user(message: String, hint: &str) -> Failure {
    Failure { kind: FailureKind::User, message, hint: hint.to_owned() }
}

fn turns_told(turns: u32) -> String {
    if turns == 1 { "1 turn".to_owned() } else { format!("{turns} turns") }
}

/// Turns as rows of a table: number and question.
pub(super) fn rows_of(turns: &[StoredTurn], first: usize) -> Vec<Vec<String>> {
    (first..).zip(turns).map(|(number, turn)| vec![number.to_string(), one_line(&turn.question)]).collect()
}
