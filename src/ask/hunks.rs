//! A person's version of a proposal: some of its hunks, taken one by one; a file of it, changed in their editor.

use super::approve::unanswered;
use super::pager::Pager;
use super::question::{Asking, put};
use crate::agent::Cancel;
use crate::host::PrivateCopy;
use crate::proto::tool::{Answer, FileChange, Question};
use crate::render::change_rows;
use crate::render::patch::{FilePatch, patches};
use crate::render::sheet::{Look, Sheet};

/// The answer to a hunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum HunkChoice {
    Take,
    Leave,
    TakeRest,
    LeaveRest,
    None,
    Stop,
    /// No key came in time.
    Late,
}

const KEYS: &str = "take [y]  leave [n, Enter]  take the rest [a]  leave the rest [d]  take none [Esc]";
const MORE: &str = "down [Space, j]  up [b, k]  end [G]  leave [n, Enter]  take none [Esc]";

fn choice(keys: &[u8], is_seen: bool) -> Option<HunkChoice> {
    Some(match keys {
        b"n" | b"N" | b"\r" | b"\n" => HunkChoice::Leave,
        b"\x1b" | b"\x04" | b"q" => HunkChoice::None,
        b"d" | b"D" => HunkChoice::LeaveRest,
        b"y" | b"Y" if is_seen => HunkChoice::Take,
        b"a" | b"A" if is_seen => HunkChoice::TakeRest,
        _ => return None,
    })
}

/// Lets the person take hunks one by one; returns the decision in words, and as an answer.
pub(super) fn choose_hunks<P: Asking>(
    person: &mut P,
    question: &Question,
    cancel: &Cancel,
) -> Result<(String, Answer), P::Hangup> {
    let patches = patches(&question.changes);
    let total: usize = patches.iter().map(FilePatch::choices).sum();
    let mut wanted: Vec<Vec<bool>> = Vec::new();
    let mut rest = None;
    let mut number = 0;
    for patch in &patches {
        let mut of_file = Vec::new();
        for hunk in 0..patch.choices() {
            number += 1;
            if let Some(rest) = rest {
                of_file.push(rest);
                continue;
            }
            // Facts that a difference doesn't show, such as a mode, are in a row of the question.
            let about = |row: &&str| {
                row.get(3..).and_then(|row| row.strip_prefix(&*patch.path)).is_some_and(|it| it.starts_with("  "))
            };
            let head = |look: Look| {
                let rows = change_rows(question.preview.lines().filter(about), look);
                std::iter::once(format!("hunk {number} of {total}")).chain(rows).collect()
            };
            let choice = ask(person, &head, vec![patch.only(hunk)], cancel)?;
            match choice {
                HunkChoice::Take | HunkChoice::Leave => {}
                HunkChoice::TakeRest => rest = Some(true),
                HunkChoice::LeaveRest => rest = Some(false),
                HunkChoice::None | HunkChoice::Stop => return Ok(("no".to_owned(), Answer::No(String::new()))),
                HunkChoice::Late => return Ok(("no answer".to_owned(), unanswered())),
            }
            of_file.push(matches!(choice, HunkChoice::Take | HunkChoice::TakeRest));
        }
        wanted.push(of_file);
    }
    let accepted = wanted.iter().flatten().filter(|is_wanted| **is_wanted).count();
    let others = question.others();
    let has_others = match rest {
        _ if others.is_empty() => accepted == total,
        Some(rest) => rest,
        None => match ask(person, &|look| other_rows(others, look), Vec::new(), cancel)? {
            HunkChoice::Take | HunkChoice::TakeRest => true,
            HunkChoice::Leave | HunkChoice::LeaveRest => false,
            HunkChoice::None | HunkChoice::Stop => return Ok(("no".to_owned(), Answer::No(String::new()))),
            HunkChoice::Late => return Ok(("no answer".to_owned(), unanswered())),
        },
    };
    if accepted == 0 && !has_others {
        return Ok(("no".to_owned(), Answer::No(String::new())));
    }
    if accepted == total && has_others {
        return Ok(("accepted".to_owned(), Answer::Once));
    }
    let also = match (others.is_empty(), has_others) {
        (true, _) => "",
        (false, true) => ", and the other changes",
        (false, false) => ", none of the other changes",
    };
    Ok((format!("{accepted} of {total} hunks accepted{also}"), Answer::Partly { hunks: wanted, has_others }))
}

/// Asks about one part; cancels the answer if the person stops it.
fn ask<P: Asking>(
    person: &mut P,
    head: &dyn Fn(Look) -> Vec<String>,
    patches: Vec<FilePatch>,
    cancel: &Cancel,
) -> Result<HunkChoice, P::Hangup> {
    let console = person.console().clone();
    let make = |look: Look| Sheet::new(look, head(look), patches.clone(), Vec::new());
    let mut pager = Pager::new(&console, &make, [KEYS, MORE], &choice);
    let choice = put(person, &mut pager, HunkChoice::Stop, Some(HunkChoice::Late))?;
    pager.leave(&console);
    if choice == HunkChoice::Stop {
        cancel.cancel();
    }
    Ok(choice)
}

/// The rows of the changes that no hunk shows.
fn other_rows(others: &[String], look: Look) -> Vec<String> {
    let rows = change_rows(others.iter().map(String::as_str), look);
    std::iter::once("the other changes".to_owned()).chain(rows).collect()
}

/// Opens the new content of a file in the person's editor; returns the saved text if it differs.
///
/// # Errors
/// The person has gone.
pub fn rewrite<P: Asking>(person: &mut P, change: &FileChange) -> Result<Option<Vec<u8>>, P::Hangup> {
    let console = person.console().clone();
    let Some(proposed) = change.new.as_ref().filter(|content| std::str::from_utf8(content).is_ok()) else {
        console.notice("this file would be deleted, or isn't UTF-8 text: it can't be changed in an editor");
        return Ok(None);
    };
    let copy = match PrivateCopy::new(&change.path, proposed, person.env()) {
        Ok(copy) => copy,
        Err(error) => {
            console.notice(&format!("no copy can be made for the editor: {error}"));
            return Ok(None);
        }
    };
    let Some(status) = person.open_in_editor(copy.path())? else { return Ok(None) };
    match copy.read() {
        Ok(_) if status != 0 => console.notice(&format!("the editor ended with status {status}: no change")),
        Ok(saved) if saved == *proposed => console.notice("nothing was changed in the editor"),
        Ok(saved) => return Ok(Some(saved)),
        Err(error) => console.notice(&format!("the editor's result can't be read: {error}")),
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hunk_is_accepted_only_by_its_key_after_it_was_seen() {
        for (keys, is_seen, expected) in [
            (&b"y"[..], true, Some(HunkChoice::Take)),
            (b"y", false, None),
            (b"a", false, None),
            (b"\r", false, Some(HunkChoice::Leave)),
            (b"\x1b", true, Some(HunkChoice::None)),
            (b"yy", true, None),
            (b"\x1b[B", true, None),
        ] {
            assert_eq!(choice(keys, is_seen), expected, "{keys:?}");
        }
    }
}
