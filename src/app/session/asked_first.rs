//! Facts that a person should know before a session's changes leave it, or when it begins: text that looks like a secret, and files
//! of the checkout that aren't part of it. Must not know how the person is asked.

use std::collections::{BTreeSet, HashMap};
use std::path::PathBuf;
use std::time::Duration;

use crate::agent::Agent;
use crate::git::{Changed, Mode, Oid};
use crate::project::{GitOptions, uncommitted};
use crate::sessions::{Session, Sessions};
use crate::tree::{Content, may_hold_secrets};

/// Places in a turn's record that look like secrets.
const DOUBTS_MAX: usize = 100;
/// Bytes of a file that is searched for secrets, and of all files together.
const SEARCHED_BYTES_MAX: usize = 4 * 1024 * 1024;
const SEARCHED_ALL_BYTES_MAX: usize = 64 * 1024 * 1024;
/// Time limit for git's program to count the uncommitted files of a checkout, if only git can find them.
const GIT_TIME: Duration = Duration::from_millis(1500);

/// A place to check before it becomes part of a branch or a checkout.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Doubt {
    /// The file.
    pub path: PathBuf,
    /// The line in it, from 1; 0 stands for the file as a whole.
    pub line: usize,
    /// The reason, such as `GitHub token`.
    pub why: String,
}

/// Finds new lines that look like secrets, and new files whose names say that they hold some. `text` gives one side of a change.
#[must_use]
pub fn doubts(agent: &Agent, changes: &[Changed], text: &dyn Fn(Option<(Mode, Oid)>) -> Option<String>) -> Vec<Doubt> {
    let (mut all, mut searched) = (Vec::new(), 0);
    for it in changes.iter().filter(|it| it.new.is_some()) {
        let mut doubt = |line: usize, why: &str| all.push(Doubt { path: it.path.clone(), line, why: why.to_owned() });
        if it.old.is_none() && may_hold_secrets(&it.path) {
            doubt(0, "a file of this name may hold secrets");
        }
        let Some(new) = text(it.new) else { continue };
        searched += new.len();
        if new.len() > SEARCHED_BYTES_MAX || searched > SEARCHED_ALL_BYTES_MAX {
            doubt(0, "it is too long to be searched for secrets");
            continue;
        }
        let hidden = agent.redactor().redact(&new).hidden;
        if hidden.is_empty() {
            continue;
        }
        let added = added_lines(&text(it.old).unwrap_or_default(), &new);
        hidden.iter().filter(|it| added.contains(&it.line)).for_each(|it| doubt(it.line, &it.kind));
    }
    all
}

/// Returns the numbers of the new lines, from 1: the old text lacks the line, or has it less often.
fn added_lines(old: &str, new: &str) -> BTreeSet<usize> {
    let mut left: HashMap<&str, usize> = HashMap::new();
    old.lines().for_each(|line| *left.entry(line).or_default() += 1);
    let mut is_new = |line: &str| match left.get_mut(line).filter(|count| **count > 0) {
        Some(count) => {
            *count -= 1;
            false
        }
        None => true,
    };
    (1..).zip(new.lines()).filter(|(_, line)| is_new(line)).map(|(number, _)| number).collect()
}

/// Lists the places that look like secrets in the changes of the running turn, a line each, for its record.
pub(super) fn doubts_of_turn(agent: &Agent, session: &Session) -> Vec<String> {
    let Ok(changes) = session.changes_of_turn() else { return Vec::new() };
    let new: HashMap<Oid, &[u8]> = changes
        .iter()
        .filter_map(|it| match &it.now {
            Some((_, Content::New(bytes, id))) => Some((*id, &bytes[..])),
            _ => None,
        })
        .collect();
    let before = session.before_turn().ok();
    let text = |side: Option<(Mode, Oid)>| match side.and_then(|(_, id)| new.get(&id)) {
        Some(bytes) => std::str::from_utf8(bytes).ok().map(str::to_owned),
        None => session.view().text(side),
    };
    let differ = |it: crate::tree::Changed| Changed {
        old: before.and_then(|at| session.view().leaf_at(at, &it.path)),
        new: it.now.as_ref().map(|(mode, content)| (*mode, content.id())),
        path: it.path,
    };
    let changes: Vec<Changed> = changes.iter().cloned().map(differ).collect();
    let found = doubts(agent, &changes, &text);
    let line = |it: &Doubt| match it.line {
        0 => format!("{}: {}", it.path.display(), it.why),
        line => format!("{}, line {line}: {}", it.path.display(), it.why),
    };
    found.iter().take(DOUBTS_MAX).map(|it| agent.redacted(&line(it))).collect()
}

/// Describes the uncommitted files of the checkout, which aren't part of a session that begins, as far as they are
/// counted within `time`; `None` if there are none.
#[must_use]
pub fn left_behind(options: &GitOptions, sessions: &Sessions, time: Duration) -> Option<String> {
    let checkout = sessions.repo().work_dir()?;
    let counts = match sessions.count_uncommitted(time) {
        Some(counts) if counts.is_whole || !counts.to_string().is_empty() => Some(counts.to_string()),
        Some(_) => None,
        // Only git can read the checkout's index, or apply a filter.
        None => uncommitted(checkout, options, GIT_TIME),
    };
    match counts {
        Some(counts) if counts.is_empty() => None,
        Some(counts) => Some(format!(
            "files of your checkout that aren't committed aren't part of it: {counts} (--with-changes takes them along)"
        )),
        None => Some("files of your checkout that aren't committed, if there are any, aren't part of it".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_new_by_their_numbers_in_the_new_text() {
        assert_eq!(added_lines("a\nb\nc\n", "a\nx\nc\ny\n"), BTreeSet::from([2, 4]));
        assert_eq!(added_lines("", "a\nb"), BTreeSet::from([1, 2]));
        assert_eq!(added_lines("a\nb\n", "b\n"), BTreeSet::new());
    }
}
