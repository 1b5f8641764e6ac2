//! Answers without a model: `:man QUESTION`, and a question that no model could answer. What is found is shown; a key puts one
//! of the lines into the editor, where it waits for the person's own Enter.

use nu_ansi_term::{Color, Style};

use crate::ask::look;
use crate::manual::{Answer, HITS_MAX, Hit, Known, Source};
use crate::ops;
use crate::render::command_rows;
use crate::render::text::escape_visible;
use crate::repl::editing::state;
use crate::repl::hub::{Flow, Repl};
use crate::shell::session::KeysTo;

/// The person's choice about the suggested lines.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Choice {
    /// The line at this place.
    Take(usize),
    /// None of them.
    None,
    /// The person went on typing: these are the first letters of their own line.
    Typed(String),
}

fn choice(keys: &[u8], count: usize) -> Option<Choice> {
    match keys {
        b"\r" | b"\n" => Some(Choice::Take(0)),
        [digit @ b'1'..=b'9'] => {
            let at = usize::from(digit - b'1');
            (at < count).then_some(Choice::Take(at))
        }
        b"\x1b" | b"\x03" | b"\x04" | b"n" | b"N" => Some(Choice::None),
        // The Enter of a whole line that came at once is left out: the person sees the line in the editor first.
        keys => {
            let text: String = std::str::from_utf8(keys).ok()?.chars().take_while(|c| !c.is_control()).collect();
            (!text.is_empty()).then_some(Choice::Typed(text))
        }
    }
}

/// `:man QUESTION`.
pub(in crate::repl) fn man(repl: &mut Repl, question: &str) -> Flow {
    let answer = ask_manual(repl, question, 1);
    if answer.hits.is_empty() {
        let more = if answer.is_reading { "; the manual pages are still being read, ask again later" } else { "" };
        repl.console.notice(&format!("nothing on this machine answers that{more}"));
        return Flow::Continue;
    }
    offer_lines(repl, &answer, true)
}

/// Answers a question that no model has answered from this machine's manuals, if they have a fitting line.
pub(in crate::repl) fn answer_without_model(repl: &mut Repl, question: &str) -> Flow {
    // One word alone is found in far too many lines.
    let answer = ask_manual(repl, question, 2);
    if answer.hits.is_empty() { Flow::Continue } else { offer_lines(repl, &answer, false) }
}

fn ask_manual(repl: &mut Repl, question: &str, words_min: usize) -> Answer {
    let lines = ops::history::own_lines(&repl.store());
    let state = state::read(&repl.state);
    let has_command = |name: &str| state.names.kind(name).is_some();
    let answer = repl.manual.ask(question, &Known { has_command: &has_command, lines: &lines, words_min });
    drop(state);
    if let Some(problem) = &answer.problem {
        repl.console.notice(&format!("the manual pages aren't searched: {}", escape_visible(problem)));
    }
    answer
}

/// Shows the lines and puts the one that is chosen into the editor.
fn offer_lines(repl: &mut Repl, answer: &Answer, is_asked_for: bool) -> Flow {
    let console = &repl.console;
    console.line(&console.paint(Color::Yellow.bold(), "from this machine, without a model:"));
    for (at, hit) in answer.hits.iter().enumerate() {
        for (row, text) in command_rows(&hit.line, look(console)).into_iter().enumerate() {
            let number = if row == 0 { (at + 1).to_string() } else { " ".to_owned() };
            console.line(&format!("{} {}", console.paint(Style::new().bold(), &number), text.trim_start()));
        }
        console.wrapped(Style::new().dimmed(), &format!("    {}", about(hit)), "    ");
    }
    if answer.is_reading {
        console.notice("the manual pages are still being read; a later question finds more");
    }
    let count = answer.hits.len();
    let keys = match count {
        1 => "into the editor [1, Enter]  none [n, Esc]".to_owned(),
        _ => format!("into the editor [1-{}; Enter: 1]  none [n, Esc]", count.min(HITS_MAX)),
    };
    let choose = |keys: &[u8]| choice(keys, count);
    let reply = match is_asked_for {
        true => repl.put_own_question(&keys, choose, Choice::None),
        false => repl.put_question(&keys, choose, Choice::None),
    };
    match reply {
        Ok(Choice::Take(at)) => {
            // Enter that was typed ahead mustn't run it.
            repl.terminal.session.keys_to(KeysTo::HoldFresh);
            repl.console.line("into the editor");
            repl.edit_next(&answer.hits[at].line);
        }
        Ok(Choice::Typed(text)) => {
            repl.console.line("none");
            repl.insert_text(&text);
        }
        Ok(Choice::None) => repl.console.line("none"),
        Err(flow) => return flow,
    }
    Flow::Continue
}

/// One line on what a line does and where it is from.
fn about(hit: &Hit) -> String {
    let from = match &hit.source {
        Source::Recipe => "recipe".to_owned(),
        Source::Page(page) => format!("man {}", escape_visible(page)),
        Source::Help(program) => format!("{} --help", escape_visible(program)),
        Source::History => "from your history".to_owned(),
    };
    let missing = hit.missing.as_ref().map(|name| format!("; {} isn't installed", escape_visible(name)));
    let about = if hit.about.is_empty() { String::new() } else { format!("{} · ", escape_visible(&hit.about)) };
    format!("{about}{from}{}", missing.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_takes_a_line_and_typing_on_takes_none() {
        assert_eq!(choice(b"\r", 3), Some(Choice::Take(0)));
        assert_eq!(choice(b"3", 3), Some(Choice::Take(2)));
        assert_eq!(choice(b"3", 2), None);
        assert_eq!(choice(b"\x1b", 3), Some(Choice::None));
        assert_eq!(choice(b"l", 3), Some(Choice::Typed("l".into())));
        assert_eq!(choice(b":help undo\r", 3), Some(Choice::Typed(":help undo".into())));
        assert_eq!(choice(b"\x1b[A", 3), None);
    }
}
