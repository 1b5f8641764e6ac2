//! A model's changes of a workspace, step by step: reports about them, undoing them and making them again.

use std::path::{Path, PathBuf};

use crate::agent::goal::Journal;
use crate::app::{self, Runtime, StoredJournal};
use crate::base::text::counted;
use crate::proto::Failure;
use crate::render::diff::unified;
use crate::render::text::escape_visible;
use crate::steps::{Conflict, Kind, Record, State, Steps, StepsError, TakenBack, Why};

/// Paths of one kind that a message names.
const NAMED_MAX: usize = 8;
/// Bytes of a file that is compared line by line.
const COMPARED_BYTES_MAX: usize = 4 * 1024 * 1024;

/// The request of a line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Wish {
    /// This number of steps, the newest.
    Last(usize),
    /// One file.
    File(String),
    /// The steps of a run towards a goal.
    Run(i64),
}

/// The direction of a change by steps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// Steps are undone.
    Undo,
    /// Steps are made again.
    Redo,
}

/// The refusal to revert steps: nothing was changed.
#[derive(Debug)]
pub struct Refusal {
    /// The reason.
    pub failure: Failure,
    /// The changes since the steps, in the unified form; `None` if there is another reason.
    pub conflict: Option<String>,
}

impl From<Failure> for Refusal {
    fn from(failure: Failure) -> Self {
        Self { failure, conflict: None }
    }
}

/// Undoes steps or makes them again; `cwd` is the directory from which a file is named, and `prefix` precedes each
/// command in a hint: `:` or `reedclaw `.
///
/// # Errors
/// Nothing was changed, for the reason in the refusal.
pub fn revert(
    steps: &mut Steps,
    direction: Direction,
    wish: &Wish,
    by_force: bool,
    (cwd, prefix): (&Path, &str),
) -> Result<TakenBack, Refusal> {
    let done = match (wish, direction) {
        (Wish::Last(count), Direction::Undo) => steps.undo(*count, by_force),
        (Wish::Last(count), Direction::Redo) => steps.redo(*count, by_force),
        (Wish::Run(run), _) => steps.undo_run(*run, by_force),
        (Wish::File(path), _) => steps.undo_file(&from_workspace(steps, cwd, path), by_force),
    };
    let done = done.map_err(|error| {
        let conflict = match &error {
            StepsError::Conflicts(conflicts) => Some(conflict_difference(steps, conflicts).unwrap_or_default()),
            _ => None,
        };
        Refusal { failure: app::steps_failure(&error, prefix), conflict }
    })?;
    let event = if direction == Direction::Undo { "steps_undone" } else { "steps_redone" };
    tracing::info!(event, steps = done.steps.len(), files = done.files);
    Ok(done)
}

/// Undoes the steps of a run, or the commits of one on a git session. Returns lines about it; `prefix` precedes each
/// command: `:` or `reedclaw `.
///
/// # Errors
/// The run still works, has changed nothing, or something has changed since. Nothing is changed then.
pub fn undo_run(
    runtime: &Runtime,
    journal: &StoredJournal,
    by_force: bool,
    prefix: &str,
) -> Result<Vec<String>, Refusal> {
    let (id, run) = (journal.run(), journal.state()?);
    let goal = run.goal.clone().unwrap_or_default();
    let workspace = PathBuf::from(&goal.workspace);
    let (settings, env) = (runtime.settings(), runtime.env());
    let _held = app::hold_workspace(env, &workspace).map_err(Failure::from)?;
    if !goal.session.is_empty() {
        return Ok(app::rewind_run_session(runtime, &goal, id, run.began)?);
    }
    let mut steps = app::steps(settings, env, &workspace)?;
    let done = revert(&mut steps, Direction::Undo, &Wish::Run(id), by_force, (&workspace, prefix))?;
    Ok(taken_back_lines(&done, "Undid", prefix))
}

/// Reads `[N] [--force]` and `--file PATH [--force]`; `PATH` goes to the end of the line.
///
/// # Errors
/// It is neither.
pub fn wish(argument: &str, may_name_file: bool) -> Result<(Wish, bool), String> {
    let mut rest = argument.trim();
    let mut by_force = false;
    if let Some(before) = rest.strip_prefix("--force") {
        (rest, by_force) = (before.trim(), true);
    } else if let Some(before) = rest.strip_suffix("--force").filter(|it| it.is_empty() || it.ends_with(' ')) {
        (rest, by_force) = (before.trim(), true);
    }
    if let Some(path) = rest.strip_prefix("--file").filter(|_| may_name_file) {
        let path = path.strip_prefix('=').unwrap_or(path).trim();
        return match path {
            "" => Err("--file needs a path".into()),
            path => Ok((Wish::File(path.to_owned()), by_force)),
        };
    }
    match rest {
        "" => Ok((Wish::Last(1), by_force)),
        number => match number.parse() {
            Ok(number) => Ok((Wish::Last(number), by_force)),
            Err(_) => Err(format!("{number} is no number of steps")),
        },
    }
}

/// Reports an undo, line by line; `prefix` precedes each command: `:` or `reedclaw `.
#[must_use]
pub fn taken_back_lines(done: &TakenBack, verb: &str, prefix: &str) -> Vec<String> {
    let mut lines: Vec<String> =
        done.steps.iter().map(|step| format!("{verb} step {}: {}", step.number, title(step))).collect();
    lines.push(counted(done.files, "file"));
    for (path, why) in done.left.iter().take(NAMED_MAX) {
        lines.push(format!("  left as it is: {} ({why})", escape_visible(&path.display().to_string())));
    }
    if done.left.len() > NAMED_MAX {
        lines.push(format!("  and {} more are left as they are", done.left.len() - NAMED_MAX));
    }
    for line in unseen_lines("not looked into, so what the command did there stays: ", &done.unseen) {
        lines.push(format!("  {line}"));
    }
    if let Some(step) = done.kept_in {
        lines.push(format!("  what was there is saved as step {step}: {prefix}undo brings it back"));
    }
    lines
}

/// The steps as rows of a table, the oldest first: number, when, files, what.
#[must_use]
pub fn step_rows(list: &[Record]) -> Vec<Vec<String>> {
    let row = |step: &Record| {
        let when = jiff::Timestamp::from_millisecond(step.time).unwrap_or_default();
        let when = when.to_zoned(jiff::tz::TimeZone::system()).strftime("%m-%d %H:%M").to_string();
        let lost = step.lost().count();
        let files = match lost {
            0 => counted(step.files(), "file"),
            lost => format!("{}, {lost} for good", counted(step.files(), "file")),
        };
        let state = if step.is_undone { "undone" } else { "" };
        let notes: String = step.notes.iter().map(|note| format!(" [{}]", escape_visible(note))).collect();
        vec![step.number.to_string(), when, files, state.to_owned(), format!("{}{notes}", title(step))]
    };
    list.iter().map(row).collect()
}

/// Lists the paths that aren't covered, in lines.
#[must_use]
pub fn cover_lines(steps: &Steps) -> Vec<String> {
    let (bytes, skipped) = steps.cover();
    let mut lines = vec![format!("{} KiB stored for undo", bytes.div_ceil(1024))];
    lines.extend(unseen_lines("not covered: ", &skipped));
    lines
}

/// Places by the reason, a line for each.
fn unseen_lines(head: &str, skipped: &[(std::path::PathBuf, Why)]) -> Vec<String> {
    let whys: std::collections::BTreeSet<Why> = skipped.iter().map(|(_, why)| *why).collect();
    let mut lines = Vec::new();
    for why in whys {
        let paths: Vec<String> = skipped.iter().filter(|(_, it)| *it == why).map(|(path, _)| shown(path)).collect();
        let more = paths.len().saturating_sub(NAMED_MAX);
        let more = if more == 0 { String::new() } else { format!(" and {more} more") };
        lines.push(format!("{head}{}{more} ({why})", paths[..paths.len().min(NAMED_MAX)].join(", ")));
    }
    lines
}

/// The changes of a step, file by file: what was changed, as text. A part that isn't text, such as a mode, is in front.
/// `prefix` precedes each command in a hint.
///
/// # Errors
/// The former content isn't in the store any more.
pub fn step_parts(steps: &Steps, step: &Record, prefix: &str) -> Result<Vec<String>, Failure> {
    let places = Places::of(steps, std::slice::from_ref(step));
    let changes = step.changes.iter().cloned().chain(steps.changes_outside(step));
    let parts: Result<Vec<String>, StepsError> =
        changes.map(|it| places.difference(&it.path, it.before, it.after)).collect();
    parts.map_err(|error| app::steps_failure(&error, prefix))
}

/// Returns a person's changes after a step, file by file.
fn conflict_difference(steps: &Steps, conflicts: &[Conflict]) -> Result<String, StepsError> {
    let places = Places::of(steps, &steps.list());
    let mut text = String::new();
    for Conflict { path, left, now, why } in conflicts {
        text.push_str(&format!("{} {why}\n", shown(path)));
        text.push_str(&places.difference(path, *left, *now)?);
    }
    Ok(text)
}

/// The steps of the workspace, and of the places outside that some of them name.
struct Places<'a> {
    own: &'a Steps,
    others: Vec<Steps>,
}

impl<'a> Places<'a> {
    fn of(own: &'a Steps, records: &[Record]) -> Self {
        Self { own, others: own.places_of(records) }
    }

    /// Returns a content that one of these workspaces has.
    fn content(&self, state: State) -> Result<Option<Vec<u8>>, StepsError> {
        let Some(id) = state.id() else { return Ok(None) };
        let own = self.own.content(&id);
        own.or_else(|error| self.others.iter().find_map(|it| it.content(&id).ok()).ok_or(error)).map(Some)
    }

    fn difference(&self, path: &Path, old: State, new: State) -> Result<String, StepsError> {
        // A newline in it would begin lines of the difference.
        let name = shown(path);
        let (before, after) = (self.content(old)?, self.content(new)?);
        let is_text =
            |it: &Option<Vec<u8>>| it.as_ref().is_none_or(|it| !it.contains(&0) && it.len() <= COMPARED_BYTES_MAX);
        let mut text = String::new();
        if (old.is_directory() || old == State::Nothing) && (new.is_directory() || new == State::Nothing) {
            return Ok(format!("{name}/: {} → {}\n", words(old), words(new)));
        }
        if words(old) != words(new) && !is_told_by_lines((old, &before), (new, &after)) {
            text.push_str(&format!("{name}: {} → {}\n", words(old), words(new)));
        }
        if before == after {
            return Ok(text);
        }
        if !is_text(&before) || !is_text(&after) {
            let bytes = |it: &Option<Vec<u8>>| it.as_ref().map_or(0, Vec::len);
            return Ok(format!("{text}Binary file {name}: from {} to {} bytes\n", bytes(&before), bytes(&after)));
        }
        let lossy = |it: Vec<u8>| String::from_utf8_lossy(&it).into_owned();
        let (before, is_gone) = (before.map(lossy), after.is_none());
        let mut diff = unified(&name, before.as_deref(), &after.map(lossy).unwrap_or_default());
        if is_gone {
            diff = diff.replacen(&format!("\n+++ {name}\n"), "\n+++ /dev/null\n", 1);
        }
        Ok(text + &diff)
    }
}

/// Returns whether the lines of a difference show that a file is new or gone: there are some, and the mode is an ordinary one.
fn is_told_by_lines(old: (State, &Option<Vec<u8>>), new: (State, &Option<Vec<u8>>)) -> bool {
    let (file, bytes) = match (old, new) {
        ((State::Nothing, _), there) | (there, (State::Nothing, _)) => there,
        _ => return false,
    };
    let has_lines = bytes.as_ref().is_some_and(|it| !it.is_empty());
    has_lines && matches!(file, State::File { mode: 0o644 | 0o664, .. })
}

/// Describes the state of a path.
fn words(state: State) -> String {
    match state {
        State::Nothing => "nothing".to_owned(),
        State::Directory { mode } => format!("directory {mode:03o}"),
        State::File { mode, .. } => format!("file {mode:03o}"),
        State::Link { .. } => "link".to_owned(),
        State::Unknown(why) => format!("not kept ({why})"),
    }
}

fn shown(path: &Path) -> String {
    escape_visible(&path.display().to_string())
}

/// The origin of a step, in a line.
#[must_use]
pub fn title(step: &Record) -> String {
    const CHARS_MAX: usize = 120;
    let text = escape_visible(&step.text).replace('\n', " ⏎ ");
    let cut: String = text.chars().take(CHARS_MAX).collect();
    let more = if text.chars().count() > CHARS_MAX { "…" } else { "" };
    match step.kind {
        Kind::Edit => format!("edited {cut}{more}"),
        Kind::Command | Kind::Undo => format!("{cut}{more}"),
    }
}

/// Returns the path of a file as steps store it: from the workspace.
fn from_workspace(steps: &Steps, cwd: &Path, path: &str) -> std::path::PathBuf {
    let whole = cwd.join(path);
    // The file may be gone, but its directory is more likely still there.
    let real = whole.parent().and_then(|parent| Some(parent.canonicalize().ok()?.join(whole.file_name()?)));
    let real = real.unwrap_or(whole);
    real.strip_prefix(steps.workspace()).map(Path::to_owned).unwrap_or_else(|_| path.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_of_undo_are_parsed() {
        let file = |path: &str| Wish::File(path.to_owned());
        for (argument, read) in [
            ("", (Wish::Last(1), false)),
            ("3", (Wish::Last(3), false)),
            ("--force", (Wish::Last(1), true)),
            ("2 --force", (Wish::Last(2), true)),
            ("--force 2", (Wish::Last(2), true)),
            ("--file src/a b.rs", (file("src/a b.rs"), false)),
            ("--file=a", (file("a"), false)),
            ("--file a --force", (file("a"), true)),
            ("--force --file a", (file("a"), true)),
            ("--file a--force", (file("a--force"), false)),
        ] {
            assert_eq!(wish(argument, true), Ok(read), "{argument}");
        }
        for wrong in ["x", "-1", "--file", "1 2", "--fil a"] {
            assert!(wish(wrong, true).is_err(), "{wrong}");
        }
        assert!(wish("--file a", false).is_err());
    }
}
