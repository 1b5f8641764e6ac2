//! Asks what to do with a timed-out command of a model. The command runs on meanwhile, and if it ends first, the
//! question is withdrawn.

use std::sync::atomic::{AtomicBool, Ordering};

use super::pager::look;
use super::question::{Asked, Asking, KeyMeaning, put};
use super::quiet::{KeyRow, Listening};
use crate::agent::Cancel;
use crate::console::Console;
use crate::proto::tool::{Overdue, OverdueChoice};
use crate::render::overdue_rows;
use crate::shell::session::KeysTo;

/// The answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reply {
    Chosen(OverdueChoice),
    Stop,
    /// No answer, for too long or because the command has ended.
    Nothing,
}

/// The choice of a key, and its words: in the offer, and after the choice.
type Choice = (&'static [u8], OverdueChoice, &'static str, &'static str);
const JOB: Choice = (b"j", OverdueChoice::Job, "continue as a job [j, Enter]", "as a job");
const WAITED: Choice = (b"w", OverdueChoice::Wait, "wait for it [w]", "waiting");
const END: Choice = (b"e", OverdueChoice::End, "end it [e]", "ended");
/// For a command that can't continue as a job.
const END_FIRST: Choice = (b"e", OverdueChoice::End, "end it [e, Enter]", "ended");

/// The offered choices; a key without a choice of its own, such as Enter, means the first.
fn offered(command: &Overdue) -> &'static [Choice] {
    if command.no_job.is_some() { &[END_FIRST, WAITED] } else { &[JOB, WAITED, END] }
}

/// Reads a lone key.
fn key(keys: &[u8], offered: &[Choice]) -> Option<Reply> {
    if matches!(keys, b"\r" | b"\n" | b"\x1b" | b"\x04") {
        return offered.first().map(|first| Reply::Chosen(first.1));
    }
    offered.iter().find(|choice| keys.eq_ignore_ascii_case(choice.0)).map(|choice| Reply::Chosen(choice.1))
}

/// The question on the screen.
struct Standing<'a> {
    command: &'a Overdue,
    has_ended: &'a AtomicBool,
    is_shown: bool,
    row: KeyRow,
}

impl Asked for Standing<'_> {
    type Answer = Reply;

    fn show(&mut self, console: &Console) {
        self.is_shown = true;
        overdue_rows(self.command, look(console)).iter().for_each(|row| console.line(row));
    }

    fn show_keys(&mut self, console: &Console, listening: Listening) {
        let words: Vec<&str> = offered(self.command).iter().map(|choice| choice.2).collect();
        self.row.draw(console, &words.join("  "), "  ", listening);
    }

    fn key(&mut self, keys: &[u8], _: &Console) -> KeyMeaning<Reply> {
        key(keys, offered(self.command)).into()
    }

    fn disturbed(&mut self) {
        self.row.forget();
    }

    fn withdrawn_by(&self) -> Option<&AtomicBool> {
        Some(self.has_ended)
    }
}

/// Asks for the choice about an overdue command, until it `has_ended`; `None` without an answer.
///
/// # Errors
/// The person can't be asked any more.
pub fn ask_overdue<P: Asking>(
    person: &mut P,
    command: &Overdue,
    has_ended: &AtomicBool,
    cancel: &Cancel,
) -> Result<Option<OverdueChoice>, P::Hangup> {
    let mut standing = Standing { command, has_ended, is_shown: false, row: KeyRow::default() };
    let reply = put(person, &mut standing, Reply::Stop, Some(Reply::Nothing))?;
    if reply == Reply::Stop {
        cancel.cancel();
    }
    // The printed answer shows that Ctrl-C works again.
    person.session().keys_to(KeysTo::Cancel);
    if standing.is_shown {
        person.console().line(match reply {
            Reply::Chosen(choice) => {
                offered(command).iter().find(|offer| offer.1 == choice).map_or("", |offer| offer.3)
            }
            Reply::Stop => "stopped",
            Reply::Nothing if has_ended.load(Ordering::Acquire) => "it has ended",
            Reply::Nothing => "no answer",
        });
    }
    Ok(if let Reply::Chosen(choice) = reply { Some(choice) } else { None })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_plain_key_without_a_choice_means_the_first_choice() {
        let command = |no_job| Overdue { command: String::new(), ran_for: Duration::ZERO, last_line: None, no_job };
        for (keys, usual, without_jobs) in [
            (&b"j"[..], Some(OverdueChoice::Job), None),
            (b"\r", Some(OverdueChoice::Job), Some(OverdueChoice::End)),
            (b"\x1b", Some(OverdueChoice::Job), Some(OverdueChoice::End)),
            (b"\x04", Some(OverdueChoice::Job), Some(OverdueChoice::End)),
            (b"w", Some(OverdueChoice::Wait), Some(OverdueChoice::Wait)),
            (b"E", Some(OverdueChoice::End), Some(OverdueChoice::End)),
            (b"ee", None, None),
            (b"\x1b[A", None, None),
            (b"y", None, None),
            (b" ", None, None),
        ] {
            assert_eq!(key(keys, offered(&command(None))), usual.map(Reply::Chosen), "{keys:?}");
            assert_eq!(key(keys, offered(&command(Some("why")))), without_jobs.map(Reply::Chosen), "{keys:?}");
        }
    }
}
