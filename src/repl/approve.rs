//! The question whether a model's call may run: what it would do, why it is asked, and a lone key that answers. Whatever
//! isn't plainly yes is no, and a yes is taken only once all of it was shown.

use std::time::{Duration, Instant};

use super::run::{Flow, Repl};
use crate::agent::Cancel;
use crate::proto::action::Action;
use crate::proto::tool::{Answer, Outcome, Question, ToolError};
use crate::proto::{HumanLine, ModelCommand};
use crate::render::{asked_rows, chosen, question_rows};
use crate::turn::plain_text;

/// How long an answer is waited for; none is no.
const WAIT: Duration = Duration::from_secs(120);
/// Rows that are left for what stands around a page.
const ROWS_AROUND: usize = 4;

/// What a key says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Key {
    More,
    Once,
    Always,
    Edit,
    MyShell,
    No,
    NoBecause,
    Stop,
}

/// Reads a lone key; `offered` are those that count here.
fn key(keys: &[u8], offered: &[Key]) -> Option<Key> {
    let key = match keys {
        b" " => Key::More,
        b"y" | b"Y" | b"o" | b"O" => Key::Once,
        b"a" | b"A" => Key::Always,
        b"e" | b"E" => Key::Edit,
        b"s" | b"S" => Key::MyShell,
        b"w" | b"W" => Key::NoBecause,
        b"n" | b"N" | b"\r" | b"\n" | b"\x1b" | b"\x04" => Key::No,
        _ => return None,
    };
    (key == Key::No || offered.contains(&key)).then_some(key)
}

impl Repl {
    /// Asks about a call.
    pub(super) fn approve(&mut self, question: &Question, cancel: &Cancel) -> Result<Answer, Flow> {
        let deadline = Instant::now() + WAIT;
        let (width, color) = (self.console.width_columns(), self.console.options().color);
        let rows = question_rows(question, width, color);
        let page_rows = self.console.height_rows().saturating_sub(ROWS_AROUND).max(4);
        let mut pages = rows.chunks(page_rows).peekable();
        while let Some(page) = pages.next() {
            page.iter().for_each(|row| self.console.line(row));
            if pages.peek().is_some() {
                let left = pages.len();
                let text = format!("more [Space] ({left} more)  no [n, Enter]  ");
                let said = self.key_of(deadline, &text, &[Key::More])?;
                self.console.raw(b"\r\x1b[K");
                if said != Key::More {
                    self.console.line("no");
                    return Ok(self.refused(said, cancel));
                }
            }
        }
        self.choose(question, deadline, cancel)
    }

    fn choose(&mut self, question: &Question, deadline: Instant, cancel: &Cancel) -> Result<Answer, Flow> {
        let mut offered = vec![Key::Once, Key::NoBecause];
        let mut text = "run once [y]  ".to_owned();
        if question.may_always {
            offered.push(Key::Always);
            text.push_str("always, in this project [a]  ");
        }
        let command = match &question.action {
            Action::Shell { command } => Some(command),
            _ => None,
        };
        if command.is_some() {
            offered.extend([Key::Edit, Key::MyShell]);
            text.push_str("edit [e]  in my shell [s]  ");
        }
        text.push_str("no [n, Enter]  no, and say why [w]  ");
        let said = self.key_of(deadline, &text, &offered)?;
        let (word, answer) = match said {
            Key::Once => ("once", Answer::Once),
            Key::Always => ("always", Answer::Always),
            Key::MyShell => ("in your shell", Answer::InMyShell),
            Key::Edit => {
                self.console.line("edit");
                let edited = self.write_line("run instead: ", command.map(String::as_str).unwrap_or_default())?;
                return Ok(edited.map_or(Answer::No(String::new()), Answer::Edited));
            }
            Key::NoBecause => {
                self.console.line("no");
                let why = self.write_line("tell the model: ", "")?;
                return Ok(Answer::No(why.unwrap_or_default()));
            }
            Key::No | Key::More | Key::Stop => ("no", self.refused(said, cancel)),
        };
        self.console.line(word);
        Ok(answer)
    }

    fn refused(&self, said: Key, cancel: &Cancel) -> Answer {
        if said == Key::Stop {
            cancel.cancel();
        }
        Answer::No(String::new())
    }

    fn key_of(&mut self, deadline: Instant, text: &str, offered: &[Key]) -> Result<Key, Flow> {
        self.put_question_until(Some(deadline), text, |keys| key(keys, offered), Key::Stop, Key::No)
    }

    /// Puts a model's question to the person.
    pub(super) fn words(&mut self, question: &str, choices: &[String]) -> Result<Option<String>, Flow> {
        let (width, color) = (self.console.width_columns(), self.console.options().color);
        asked_rows(question, choices, width, color).iter().for_each(|row| self.console.line(row));
        let said = self.write_line("your answer: ", "")?.filter(|said| !said.trim().is_empty());
        Ok(said.map(|said| chosen(said, choices)))
    }

    /// Runs a model's command, which the person has read, in their own shell.
    pub(super) fn run_for_model(&mut self, command: String) -> Result<Option<Outcome>, Flow> {
        self.tooling.last_outcome = None;
        let flow = self.run_command(&HumanLine::adopted(ModelCommand { text: command }), true);
        if flow != Flow::Continue {
            return Err(flow);
        }
        let Some(outcome) = self.tooling.last_outcome.clone() else { return Ok(None) };
        let text = plain_text(&outcome.output);
        let mut came = Outcome::of(text).with("exit_code", outcome.status).with("ran_in", "the user's own shell");
        if outcome.status != 0 {
            came.success = false;
            came.error = Some(ToolError::new("exit", format!("it ended with status {}", outcome.status), ""));
        }
        Ok(Some(came))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_but_an_offered_lone_key_is_more_than_no() {
        let all = [Key::Once, Key::Always, Key::Edit, Key::MyShell, Key::NoBecause];
        for (keys, said) in [
            (&b"y"[..], Some(Key::Once)),
            (b"a", Some(Key::Always)),
            (b"\r", Some(Key::No)),
            (b"\x1b", Some(Key::No)),
            (b"\x04", Some(Key::No)),
            (b"yy", None),
            (b"\x1b[A", None),
            (b"x", None),
            (b" ", None),
        ] {
            assert_eq!(key(keys, &all), said, "{keys:?}");
        }
        assert_eq!(key(b"a", &[Key::Once]), None, "what isn't offered");
        assert_eq!(key(b"y", &[Key::More]), None, "before all of it was shown");
        assert_eq!(key(b" ", &[Key::More]), Some(Key::More));
    }
}
