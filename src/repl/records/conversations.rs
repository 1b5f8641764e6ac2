//! Conversations at the prompt: a new one, the ones before, going on, forking, rewinding, titles; and the history's lines
//! by number. It must not know how they are stored.

use std::path::Path;

use reedline::EditCommand;

use crate::agent::Agent;
use crate::base::text::{age, one_line};
use crate::console::Console;
use crate::host;
use crate::ops::sessions::turn_and_half;
use crate::ops::{self, conversations};
use crate::proto::{Failure, LineKind};
use crate::render::sanitise;
use crate::render::text::{escape_visible, table};
use crate::repl::editing::prompt::ReedPrompt;
use crate::repl::editing::state;
use crate::repl::hub::{Flow, Repl};
use crate::repl::records::memory;
use crate::repl::screen::drawing;
use crate::store::export::Format;
use crate::store::{ConversationId, MessageState, Row, StoredTurn};

/// Begins a new conversation.
pub(in crate::repl) fn new_conversation(repl: &mut Repl) {
    if let Some(id) = repl.runtime.leave_session() {
        repl.console.notice(&format!("left session {id}; :session open {id} continues it"));
    }
    memory::end_conversation(repl, Agent::clear_conversation);
    repl.console.notice("a new conversation begins; :sessions lists the ones before");
}

/// Lists the conversations that were used last, after the rows of the repository's sessions.
pub(in crate::repl) fn list_sessions(repl: &Repl, of_sessions: Vec<Vec<String>>) {
    let found = conversations::list(&repl.store(), conversations::LISTED);
    let current = repl.runtime.agent().conversation();
    let found = match found {
        Ok(found) if found.is_empty() && of_sessions.is_empty() => {
            return repl.console.notice("no conversation is stored yet");
        }
        Ok(found) => found,
        Err(failure) => return repl.console.failure(&failure),
    };
    let now = host::now_unix_ms();
    let rows = found.into_iter().rev().map(|it| {
        let mark = if Some(it.id) == current { "*" } else { " " };
        vec![format!("{mark} {}", it.id.0), age(now - it.updated), turns_counted(it.turns), it.title]
    });
    let rows: Vec<Vec<String>> = of_sessions.into_iter().chain(rows).collect();
    repl.console.write(&table(&rows, repl.console.width_columns()));
    repl.console.notice(":resume ID continues one");
}

/// Goes on with a conversation: by number, by words, or the one used last beside this.
pub(in crate::repl) fn resume(repl: &mut Repl, wanted: &str) {
    let current = repl.runtime.agent().conversation();
    let found = conversations::find(&mut repl.store(), current, wanted);
    let found = match found {
        Ok(found) => found,
        Err(failure) => return repl.console.failure(&failure),
    };
    if current != Some(found.id) {
        memory::note_ended(repl);
        // Another conversation isn't the session's.
        if let Some(id) = repl.runtime.leave_session() {
            repl.console.notice(&format!("left session {id}; :session open {id} continues it"));
        }
    }
    match conversations::go_on(|| repl.terminal.store(), repl.runtime.agent_mut(), found.id) {
        Err(failure) => repl.console.failure(&failure),
        Ok(turns) => {
            if let Some(last) = turns.last() {
                repl.console.notice(&format!("{}: {}, {}", found.id.0, found.title, turns_counted(found.turns)));
                show_turn(repl, last);
                let is_elsewhere = repl.runtime.on_git().is_none();
                if let Some(id) = is_elsewhere.then(|| repl.session_of(turns.len(), last)).flatten() {
                    repl.console.notice(&format!(":session open {id} continues with its files, too"));
                }
            }
        }
    }
}

/// Copies this conversation, or its first turns, into another one and goes on there.
pub(in crate::repl) fn fork(repl: &mut Repl, argument: &str) {
    if repl.session_fork(argument) {
        return;
    }
    let Some((id, turns)) = present_turns(repl) else { return };
    let Some(count) = turn_number(repl, argument, turns.len()) else { return };
    let count = count.unwrap_or(turns.len());
    if count == 0 {
        return repl.console.notice("a fork at turn 0 would be empty: that is :new");
    }
    match conversations::fork(|| repl.terminal.store(), repl.runtime.agent_mut(), id, count) {
        Err(failure) => repl.console.failure(&failure),
        Ok(fork) => {
            repl.console.notice(&format!("this is {} now, forked from {} at turn {count}", fork.0, id.0));
        }
    }
}

/// Removes the turns after a turn; without a number it lists the turns.
pub(in crate::repl) fn rewind(repl: &mut Repl, argument: &str) -> Flow {
    let Some((id, turns)) = present_turns(repl) else { return Flow::Continue };
    let (number, half) = turn_and_half(argument);
    let Some(count) = turn_number(repl, number, turns.len()) else { return Flow::Continue };
    let Some(count) = count else {
        repl.console.write(&table(&rows_of(&turns, 1), repl.console.width_columns()));
        repl.console.notice(match repl.runtime.on_git() {
            // A session keeps what a rewind leaves.
            Some(_) => {
                ":rewind N goes back to turn N, files and conversation; :session undo returns; :fork N keeps both"
            }
            None => ":rewind N drops everything after turn N; 0 drops all; :fork N keeps both",
        });
        return Flow::Continue;
    };
    if let Some(half) = half {
        repl.session_rewind_half(count, half);
        return Flow::Continue;
    }
    if repl.runtime.on_git().is_some() {
        return repl.session_rewind(count, &turns[count..]);
    }
    match conversations::rewind(|| repl.terminal.store(), repl.runtime.agent_mut(), id, count) {
        Err(failure) => repl.console.failure(&failure),
        Ok(()) => {
            let later = turns.len() - count;
            let are = if later == 1 { "later turn is" } else { "later turns are" };
            repl.console.notice(&format!("Back at turn {count}; {later} {are} set aside."));
            ask_again(repl, &turns[count..]);
        }
    }
    Flow::Continue
}

/// Puts the first of the removed questions into the line, for the person to change and ask again. Its prefix makes it a
/// question, whatever it looks like.
pub(in crate::repl) fn ask_again(repl: &mut Repl, later: &[StoredTurn]) {
    if let Some(turn) = later.first() {
        repl.insert_text(&format!("? {}", turn.question));
    }
}

/// Lists the turns below an empty line, and begins a `:rewind` there: Enter alone changes nothing.
pub(in crate::repl) fn choose_turn(repl: &mut Repl, prompt: &ReedPrompt) -> Flow {
    if !repl.terminal.editor.current_buffer_contents().is_empty() {
        return Flow::Continue;
    }
    repl.step_below(prompt);
    let flow = rewind(repl, "");
    if repl.runtime.agent().conversation().is_some() {
        repl.terminal.editor.run_edit_commands(&[EditCommand::InsertString(":rewind ".to_owned())]);
    }
    flow
}

/// Prints the conversation's questions and answers, or the last `count` of them.
pub(in crate::repl) fn transcript(repl: &Repl, argument: &str) {
    let Some((_, turns)) = present_turns(repl) else { return };
    let count = match argument.parse::<usize>() {
        _ if argument.is_empty() => turns.len(),
        Ok(count) if count > 0 => count.min(turns.len()),
        _ => {
            let message = format!(":transcript doesn't know {}", sanitise(argument));
            return repl
                .console
                .failure(&Failure::user(message).hint(":transcript, or :transcript N for the last N turns"));
        }
    };
    turns[turns.len() - count..].iter().for_each(|turn| show_turn(repl, turn));
}

/// Shows or sets the title.
pub(in crate::repl) fn title(repl: &mut Repl, title: &str) {
    let has_session = !title.trim().is_empty() && repl.session_title(title);
    let Some(id) = repl.runtime.agent().conversation() else {
        if !has_session {
            tell_no_conversation(repl);
        }
        return;
    };
    let done = conversations::title(&mut repl.store(), repl.runtime.agent(), id, title);
    match done {
        Ok(Some(title)) => repl.console.notice(&format!("{}: {title}", id.0)),
        Ok(None) => repl.console.notice("this conversation is no longer stored"),
        Err(failure) => repl.console.failure(&failure),
    }
}

/// Lists, prunes, deletes or exports lines of the history.
pub(in crate::repl) fn history_command(repl: &mut Repl, argument: &str) {
    let (word, rest) = argument.split_once(char::is_whitespace).unwrap_or((argument, ""));
    let rest = rest.trim();
    match (word, rest.parse::<i64>(), Format::of(Path::new(rest))) {
        ("turns", number, _) if rest.is_empty() || number.is_ok() => transcript(repl, rest),
        ("prune", _, _) if rest.is_empty() => prune_history(repl),
        ("delete", Ok(number), _) => delete_line(repl, number),
        ("export", _, Some(format)) => export_history(repl, rest, format),
        ("export", ..) if !rest.contains(char::is_whitespace) => {
            needs(repl, ":history export needs a file that ends in .jsonl or .md")
        }
        ("delete", ..) if rest.is_empty() => needs(repl, ":history delete needs the number of a line"),
        _ => list_history(repl, argument),
    }
}

fn needs(repl: &Repl, message: &str) {
    let hint = ":history lists the newest lines with their numbers";
    repl.console.failure(&Failure::user(message).hint(hint));
}

fn prune_history(repl: &Repl) {
    let entries_max = u64::try_from(repl.runtime.settings().history.entries_max).unwrap_or(u64::MAX);
    match ops::history::prune(|| repl.store(), entries_max) {
        Ok(pruned) => {
            let line = format!("{pruned} of the oldest lines removed; history.entries_max is {entries_max}");
            repl.console.notice(&line);
        }
        Err(failure) => repl.console.failure(&failure),
    }
}

fn delete_line(repl: &Repl, number: i64) {
    let deleted = ops::history::delete(&mut repl.store(), number);
    match deleted {
        Ok(line) => repl.console.notice(&format!("deleted: {}", one_line(&line))),
        Err(failure) => repl.console.failure(&failure),
    }
}

fn export_history(repl: &Repl, file: &str, format: Format) {
    let path = state::read(&repl.state).resolve(file).unwrap_or_else(|| file.into());
    match ops::history::export(&repl.store(), &path, format) {
        Ok(written) => repl.console.notice(&format!("{written} in {}", path.display())),
        Err(failure) => repl.console.failure(&failure),
    }
}

fn list_history(repl: &Repl, text: &str) {
    let found = ops::history::list(&mut repl.store(), text);
    match found {
        Err(failure) => repl.console.failure(&failure),
        Ok(mut rows) => {
            // The line that searches is no hit.
            rows.retain(|row| text.is_empty() || row.entry.line.trim() != format!(":history {text}"));
            if rows.is_empty() {
                let has = if text.is_empty() { String::new() } else { format!(" has {}", escape_visible(text)) };
                let hint = match text.split_whitespace().next().unwrap_or_default() {
                    "delete" | "remove" | "rm" => "; :history delete N deletes a line",
                    "list" | "ls" => "; :history alone lists the newest lines",
                    "clear" => "; :history delete N deletes a line, :history prune those beyond history.entries_max",
                    _ => "",
                };
                return repl.console.notice(&format!("nothing in the history{has}{hint}"));
            }
            let rows: Vec<Vec<String>> = rows.into_iter().map(history_row).collect();
            repl.console.write(&table(&rows, repl.console.width_columns()));
        }
    }
}

/// Reads the number of a turn, and reports one that isn't there.
fn turn_number(repl: &Repl, argument: &str, turns: usize) -> Option<Option<usize>> {
    conversations::turn_number(argument, turns).map_err(|failure| repl.console.failure(&failure)).ok()
}

/// The conversation at hand and its turns; a notice says if there is none.
pub(in crate::repl) fn present_turns(repl: &Repl) -> Option<(ConversationId, Vec<StoredTurn>)> {
    let Some(id) = repl.runtime.agent().conversation() else {
        tell_no_conversation(repl);
        return None;
    };
    let turns = conversations::turns(&repl.store(), id);
    Some((id, turns.map_err(|failure| repl.console.failure(&failure)).ok()?))
}

fn tell_no_conversation(repl: &Repl) {
    repl.console.notice("this conversation is empty; :resume continues an earlier one");
}

fn show_turn(repl: &Repl, turn: &StoredTurn) {
    repl.console.outside(&format!("? {}\n", turn.question));
    draw_answer(&repl.console, &turn.answer);
    if turn.state != MessageState::Complete {
        let is_silent = turn.answer.trim().is_empty();
        repl.console.notice(if is_silent { "[no answer came]" } else { "[the answer broke off here]" });
    }
}

/// Draws an answer as it was drawn while it came.
pub(in crate::repl) fn draw_answer(console: &Console, answer: &str) {
    let mut markdown = drawing(console);
    console.write(&markdown.push(answer));
    console.write(&markdown.finish());
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
fn turns_counted(turns: u32) -> String {
    if turns == 1 { "1 turn".to_owned() } else { format!("{turns} turns") }
}

/// Turns as rows of a table: number and question.
pub(in crate::repl) fn rows_of(turns: &[StoredTurn], first: usize) -> Vec<Vec<String>> {
    (first..).zip(turns).map(|(number, turn)| vec![number.to_string(), one_line(&turn.question)]).collect()
}
