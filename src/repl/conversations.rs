//! Conversations at the prompt: a new one, the ones before, going on, forking, rewinding, titles; and the history's lines
//! by number. It must not know how they are stored.

use std::path::Path;

use super::answer::drawing;
use super::run::Repl;
use super::state;
use crate::agent::Agent;
use crate::app::{past_summary, past_turns};
use crate::base::text::{age, one_line};
use crate::host;
use crate::proto::{Failure, FailureKind, LineKind};
use crate::render::sanitise;
use crate::render::text::table;
use crate::store;
use crate::store::export::{self, Format};
use crate::store::{ConversationId, HistoryId, Row, Search, StoreError, StoredConversation, StoredTurn, TextMatch};

/// Lines that `:history` shows.
const HISTORY_LINES: usize = 30;
/// Conversations that `:sessions` shows, and that completion offers.
const SESSIONS: usize = 20;
/// Conversations whose titles `:resume TEXT` looks at before it searches what was said.
const TITLES_SEARCHED: usize = 500;

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
        let found = self.store().conversations(SESSIONS);
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
        match self.find_conversation(wanted) {
            Err(failure) => self.console.failure(&failure),
            Ok(found) => {
                if self.runtime.agent().conversation() != Some(found.id) {
                    self.note_ended();
                    // Another conversation isn't the session's.
                    if let Some(id) = self.runtime.leave_session() {
                        self.console.notice(&format!("left session {id}; :session open {id} goes on with it"));
                    }
                }
                if self.go_on_in(found.id)
                    && let Some(last) = self.stored_turns(found.id).and_then(|mut turns| turns.pop())
                {
                    self.console.notice(&format!("{}: {}, {}", found.id.0, found.title, turns_told(found.turns)));
                    self.show_turn(&last);
                }
            }
        }
    }

    /// Copies this conversation, or its first turns, into one of its own and goes on there.
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
        let forked = self.store().fork(id, u32::try_from(count).unwrap_or(u32::MAX), host::now_unix_ms());
        match forked {
            Err(problem) => self.console.failure(&problem.into()),
            Ok(fork) => {
                self.runtime.agent_mut().branch_into(fork);
                if self.go_on_in(fork) {
                    let told = format!("this is {} now, forked from {} at turn {count}", fork.0, id.0);
                    self.console.notice(&told);
                }
            }
        }
    }

    /// Takes back what was said behind a turn; without a number it lists the turns.
    pub(super) fn rewind(&mut self, argument: &str) {
        let Some((id, turns)) = self.present_turns() else { return };
        let Some(count) = self.turn_number(argument, turns.len()) else { return };
        let Some(count) = count else {
            let rows: Vec<Vec<String>> = (1..)
                .zip(&turns)
                .map(|(number, turn): (u32, _)| vec![format!("{number}"), one_line(&turn.question)])
                .collect();
            self.console.write(&table(&rows, self.console.width_columns()));
            return self.console.notice(":rewind N drops everything after turn N; 0 drops all; :fork N keeps both");
        };
        if self.session_rewind(u64::try_from(count).unwrap_or(u64::MAX)) {
            return;
        }
        let rewound = self.store().rewind(id, u32::try_from(count).unwrap_or(u32::MAX));
        match rewound {
            Err(problem) => self.console.failure(&problem.into()),
            Ok(()) => {
                if self.go_on_in(id) {
                    let later = turns.len() - count;
                    let are = if later == 1 { "later turn is" } else { "later turns are" };
                    self.console.notice(&format!("Back at turn {count}; {later} {are} set aside."));
                }
            }
        }
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
        let title: String = self.runtime.agent().redacted(title).chars().filter(|c| !c.is_control()).collect();
        let done: Result<Option<String>, StoreError> = if title.is_empty() {
            self.store().conversation(id).map(|found| found.map(|found| found.title))
        } else {
            self.store().set_title(id, &title).map(|is_set| is_set.then_some(title))
        };
        match done {
            Ok(Some(title)) => self.console.notice(&format!("{}: {title}", id.0)),
            Ok(None) => self.console.notice("this conversation is no longer stored"),
            Err(problem) => self.console.failure(&problem.into()),
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
        let mut pruned = 0;
        let done = loop {
            match self.store().prune(entries_max) {
                Ok(0) => break Ok(()),
                Ok(more) => pruned += more,
                Err(problem) => break Err(problem),
            }
        };
        match done {
            Ok(()) => {
                let told = format!("{pruned} of the oldest lines removed; history.entries_max is {entries_max}");
                self.console.notice(&told);
            }
            Err(problem) => self.console.failure(&problem.into()),
        }
    }

    fn delete_line(&self, number: i64) {
        let mut store = self.store();
        let line = store.row(HistoryId(number)).ok().flatten().map(|row| row.entry.line).unwrap_or_default();
        let deleted = store.delete(HistoryId(number));
        drop(store);
        match deleted {
            Ok(true) => self.console.notice(&format!("deleted: {}", one_line(&line))),
            Ok(false) => self.console.failure(&user(
                format!("the history has no line {number}"),
                ":history lists the lines with their numbers",
            )),
            Err(problem) => self.console.failure(&problem.into()),
        }
    }

    fn export_history(&self, file: &str, format: Format) {
        let path = state::read(&self.state).resolve(file).unwrap_or_else(|| file.into());
        let told = |count: usize, what: &str| format!("{count} {what}{}", if count == 1 { "" } else { "s" });
        match export::write_all(&self.store(), &path, format) {
            Ok((lines, conversations)) => {
                let (lines, conversations) = (told(lines, "line"), told(conversations, "conversation"));
                self.console.notice(&format!("{lines} and {conversations} in {}", path.display()));
            }
            Err(failure) => self.console.failure(&failure),
        }
    }

    fn list_history(&self, text: &str) {
        let wanted = if text.is_empty() { TextMatch::Any } else { TextMatch::Substring(text.to_owned()) };
        let search = Search { text: wanted, limit: Some(HISTORY_LINES), ..Search::default() };
        let found = self.store().search(&search);
        match found {
            Err(problem) => self.console.failure(&problem.into()),
            Ok(rows) if rows.is_empty() => self.console.notice("nothing in the history"),
            Ok(rows) => {
                let rows: Vec<Vec<String>> = rows.into_iter().rev().map(history_row).collect();
                self.console.write(&table(&rows, self.console.width_columns()));
            }
        }
    }

    /// Lets the agent go on in a conversation as it is stored.
    fn go_on_in(&mut self, id: ConversationId) -> bool {
        let Some(turns) = self.stored_turns(id) else { return false };
        let summary = past_summary(&self.store(), id);
        let summary = summary.unwrap_or_else(|problem| {
            self.console.failure(&problem.into());
            None
        });
        self.runtime.agent_mut().go_on_in(id, past_turns(turns), summary);
        true
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

    /// Reads a turn's number: `None` within where none was given, `None` without where it is no turn, which is told.
    fn turn_number(&self, argument: &str, turns: usize) -> Option<Option<usize>> {
        match argument.parse::<usize>() {
            _ if argument.is_empty() => Some(None),
            Ok(number) if number <= turns => Some(Some(number)),
            _ => {
                let message = format!("{} is no turn of this conversation", sanitise(argument));
                self.console.failure(&user(message, &format!("it has {turns}; :rewind lists them")));
                None
            }
        }
    }

    fn find_conversation(&self, wanted: &str) -> Result<StoredConversation, Failure> {
        let mut store = self.store();
        let current = self.runtime.agent().conversation();
        if let Ok(id) = wanted.parse::<i64>() {
            let missing = || user(format!("no conversation has the number {id}"), ":sessions lists them");
            return store.conversation(ConversationId(id))?.ok_or_else(missing);
        }
        let known = store.conversations(if wanted.is_empty() { 2 } else { TITLES_SEARCHED })?;
        let lower = wanted.to_lowercase();
        let fits = |it: &&StoredConversation| Some(it.id) != current && it.title.to_lowercase().contains(&lower);
        if let Some(found) = known.iter().find(fits) {
            return Ok(found.clone());
        }
        if wanted.is_empty() {
            return Err(user("there is no earlier conversation".into(), "ask something, and it will be kept"));
        }
        for store::Hit { conversation, .. } in store.recall(wanted, 1)? {
            if let Some(found) = store.conversation(conversation)? {
                return Ok(found);
            }
        }
        let message = format!("no conversation has {wanted}");
        Err(user(message, ":sessions lists them; word* finds beginnings, \"two words\" a phrase"))
    }

    fn show_turn(&self, turn: &StoredTurn) {
        self.console.outside(&format!("? {}\n", turn.question));
        let mut markdown = drawing(&self.console);
        self.console.write(&markdown.push(&turn.answer));
        self.console.write(&markdown.finish());
    }
}

/// The conversations that completion offers behind `:resume`: number and title, the last used first.
pub(super) fn recent(store: &store::Store) -> Vec<(String, String)> {
    let found = store.conversations(SESSIONS).unwrap_or_default();
    found.into_iter().map(|it| (it.id.0.to_string(), it.title)).collect()
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
