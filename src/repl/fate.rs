//! Asks what to do with a timed-out command of a model. It runs on meanwhile, and when it ends by itself the question is
//! withdrawn.

use std::sync::atomic::{AtomicBool, Ordering};

use super::approve::WAIT;
use super::pager::look;
use super::question::{Asked, Asking, Heard, put};
use super::quiet::{KeyRow, Listening};
use crate::agent::Cancel;
use crate::console::Console;
use crate::proto::tool::{Fate, Overdue};
use crate::render::overdue_rows;
use crate::shell::session::KeysTo;

/// What was said.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Said {
    Fate(Fate),
    Stop,
    /// Nothing, for too long or because it has ended.
    Nothing,
}

/// What a key says, and the words for it: as it is offered, and as it is left behind.
type Choice = (&'static [u8], Fate, &'static str, &'static str);
const JOB: Choice = (b"j", Fate::Job, "go on as a job [j, Enter]", "as a job");
const WAITED: Choice = (b"w", Fate::Wait, "wait for it [w]", "waiting");
const END: Choice = (b"e", Fate::End, "end it [e]", "ended");
/// Where it can't go on as a job.
const END_FIRST: Choice = (b"e", Fate::End, "end it [e, Enter]", "ended");

/// What is offered; what is no key of its own but plainly an answer stands for the first.
fn offered(command: &Overdue) -> &'static [Choice] {
    if command.no_job.is_some() { &[END_FIRST, WAITED] } else { &[JOB, WAITED, END] }
}

/// Reads a lone key.
fn key(keys: &[u8], offered: &[Choice]) -> Option<Said> {
    if matches!(keys, b"\r" | b"\n" | b"\x1b" | b"\x04") {
        return offered.first().map(|first| Said::Fate(first.1));
    }
    offered.iter().find(|choice| keys.eq_ignore_ascii_case(choice.0)).map(|choice| Said::Fate(choice.1))
}

/// The question, as it stands.
struct Standing<'a> {
    command: &'a Overdue,
    has_ended: &'a AtomicBool,
    is_shown: bool,
    row: KeyRow,
}

impl Asked for Standing<'_> {
    type Answer = Said;

    fn show(&mut self, console: &Console) {
        self.is_shown = true;
        overdue_rows(self.command, look(console)).iter().for_each(|row| console.line(row));
    }

    fn show_keys(&mut self, console: &Console, listening: Listening) {
        let words: Vec<&str> = offered(self.command).iter().map(|choice| choice.2).collect();
        self.row.draw(console, &words.join("  "), "  ", listening);
    }

    fn key(&mut self, keys: &[u8], _: &Console) -> Heard<Said> {
        key(keys, offered(self.command)).into()
    }

    fn disturbed(&mut self) {
        self.row.forget();
    }

    fn withdrawn_by(&self) -> Option<&AtomicBool> {
        Some(self.has_ended)
    }
}

/// Asks what is to become of a command, until it `has_ended`; nothing where nothing was said.
///
/// # Errors
/// Nobody can be asked any more.
pub fn fate<P: Asking>(
    person: &mut P,
    command: &Overdue,
    has_ended: &AtomicBool,
    cancel: &Cancel,
) -> Result<Option<Fate>, P::Gone> {
    let mut standing = Standing { command, has_ended, is_shown: false, row: KeyRow::default() };
    let said = put(person, Some(WAIT), &mut standing, Said::Stop, Said::Nothing)?;
    if said == Said::Stop {
        cancel.cancel();
    }
    // The word is the sign that Ctrl-C is heard again.
    person.session().keys_to(KeysTo::Cancel);
    if standing.is_shown {
        person.console().line(match said {
            Said::Fate(fate) => offered(command).iter().find(|choice| choice.1 == fate).map_or("", |choice| choice.3),
            Said::Stop => "stopped",
            Said::Nothing if has_ended.load(Ordering::Acquire) => "it has ended",
            Said::Nothing => "no answer",
        });
    }
    Ok(if let Said::Fate(fate) = said { Some(fate) } else { None })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn what_is_plainly_an_answer_is_the_first_that_is_offered() {
        let command = |no_job| Overdue { command: String::new(), ran_for: Duration::ZERO, last_line: None, no_job };
        for (keys, usual, without_jobs) in [
            (&b"j"[..], Some(Fate::Job), None),
            (b"\r", Some(Fate::Job), Some(Fate::End)),
            (b"\x1b", Some(Fate::Job), Some(Fate::End)),
            (b"\x04", Some(Fate::Job), Some(Fate::End)),
            (b"w", Some(Fate::Wait), Some(Fate::Wait)),
            (b"E", Some(Fate::End), Some(Fate::End)),
            (b"ee", None, None),
            (b"\x1b[A", None, None),
            (b"y", None, None),
            (b" ", None, None),
        ] {
            assert_eq!(key(keys, offered(&command(None))), usual.map(Said::Fate), "{keys:?}");
            assert_eq!(key(keys, offered(&command(Some("why")))), without_jobs.map(Said::Fate), "{keys:?}");
        }
    }
}
