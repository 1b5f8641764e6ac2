//! What a model changed, step by step: listed, shown, taken back, made again. The person's own act: nobody judges it, and
//! the log keeps that it was done.

use std::path::Path;

use super::run::{Flow, Repl};
use crate::agent::changed_words;
use crate::app::{steps, steps_failure};
use crate::base::text::counted;
use crate::proto::{Failure, FailureKind, HumanLine, ModelCommand};
use crate::render::diff::unified;
use crate::render::patch::parse;
use crate::render::text::{escape_visible, table};
use crate::steps::{Conflict, Kind, Record, State, Steps, StepsError, TakenBack, Why};

/// Steps that a list shows; all are kept until they make room.
const SHOWN_MAX: usize = 30;
/// Paths of one kind that a message names.
const NAMED_MAX: usize = 8;
/// Bytes of a file that is compared line by line.
const COMPARED_BYTES_MAX: usize = 4 * 1024 * 1024;

/// What a line asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Wish {
    /// The last so many steps.
    Last(usize),
    /// One file.
    File(String),
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

/// What was done, line by line; `prefix` is what stands before a command: `:` or `reedclaw `.
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
    if let Some(kept) = done.kept_in {
        lines.push(format!("  what was there is kept as step {kept}: {prefix}undo brings it back"));
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
        let state = if step.is_undone { "taken back" } else { "" };
        let notes: String = step.notes.iter().map(|note| format!(" [{}]", escape_visible(note))).collect();
        vec![step.number.to_string(), when, files, state.to_owned(), format!("{}{notes}", title(step))]
    };
    list.iter().map(row).collect()
}

/// What isn't covered, in lines.
#[must_use]
pub fn cover_lines(steps: &Steps) -> Vec<String> {
    let (bytes, skipped) = steps.cover();
    let mut lines = vec![format!("{} KiB are kept", bytes.div_ceil(1024))];
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

/// What a step changed, file by file, in the unified form.
///
/// # Errors
/// What it held isn't in the store any more.
pub fn step_difference(steps: &Steps, step: &Record) -> Result<String, StepsError> {
    let places = Places::of(steps, std::slice::from_ref(step));
    let changes = step.changes.iter().cloned().chain(steps.changes_outside(step));
    changes.map(|it| places.difference(&it.path, it.before, it.after)).collect()
}

/// What a person changed behind a step, file by file.
///
/// # Errors
/// What the step left isn't in the store any more.
pub fn conflict_difference(steps: &Steps, conflicts: &[Conflict]) -> Result<String, StepsError> {
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

    /// A content that one of them has.
    fn content(&self, state: State) -> Result<Option<Vec<u8>>, StepsError> {
        let Some(id) = state.id() else { return Ok(None) };
        let own = self.own.content(&id);
        own.or_else(|error| self.others.iter().find_map(|it| it.content(&id).ok()).ok_or(error)).map(Some)
    }

    fn difference(&self, path: &Path, old: State, new: State) -> Result<String, StepsError> {
        let name = path.display().to_string();
        let (before, after) = (self.content(old)?, self.content(new)?);
        let is_text =
            |it: &Option<Vec<u8>>| it.as_ref().is_none_or(|it| !it.contains(&0) && it.len() <= COMPARED_BYTES_MAX);
        let mut text = String::new();
        if (old.is_directory() || old == State::Nothing) && (new.is_directory() || new == State::Nothing) {
            return Ok(format!("{name}/: {} → {}\n", words(old), words(new)));
        }
        if words(old) != words(new) {
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

/// What is at a path, in words.
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

/// What a step came from, in a line.
fn title(step: &Record) -> String {
    const CHARS_MAX: usize = 120;
    let text = escape_visible(&step.text).replace('\n', " ⏎ ");
    let cut: String = text.chars().take(CHARS_MAX).collect();
    let more = if text.chars().count() > CHARS_MAX { "…" } else { "" };
    match step.kind {
        Kind::Edit => format!("edited {cut}{more}"),
        Kind::Command | Kind::Undo => format!("{cut}{more}"),
    }
}

/// The path of a file as steps have it: from the workspace.
#[must_use]
pub fn from_workspace(steps: &Steps, cwd: &Path, path: &str) -> std::path::PathBuf {
    let whole = cwd.join(path);
    // The file may be gone; the directory that it was in, more likely not.
    let real = whole.parent().and_then(|parent| Some(parent.canonicalize().ok()?.join(whole.file_name()?)));
    let real = real.unwrap_or(whole);
    real.strip_prefix(steps.workspace()).map(Path::to_owned).unwrap_or_else(|_| path.into())
}

impl Repl {
    fn steps(&self) -> Option<Steps> {
        if !self.runtime.settings.undo.enabled {
            self.console.notice("nothing is kept to be taken back: undo.enabled is false");
            return None;
        }
        match steps(&self.runtime.settings, &self.runtime.env, &self.workspace()) {
            Ok(steps) => Some(steps),
            Err(failure) => {
                self.console.failure(&failure);
                None
            }
        }
    }

    /// Runs a command of a model that the person took over, and keeps what it changes.
    pub(super) fn run_models_command(&mut self, command: ModelCommand) -> Flow {
        let mut kept = None;
        if self.runtime.settings.undo.enabled
            && let Ok(mut steps) = steps(&self.runtime.settings, &self.runtime.env, &self.workspace())
        {
            match steps.before(&self.runtime.agent.redacted(&command.text)) {
                Ok(open) => kept = Some((steps, open)),
                Err(error) => self.console.notice(&format!("what this changes can't be taken back: {error}")),
            }
        }
        let flow = self.run_command(&HumanLine::adopted(command), true);
        if let Some((mut steps, open)) = kept {
            match steps.after(open) {
                Ok(made) if made.step.is_some() => self.console.notice(&changed_words(made.files, made.lost, ":undo")),
                Ok(_) => {}
                Err(error) => self.console.notice(&format!("what this changed can't be taken back: {error}")),
            }
        }
        flow
    }

    /// Takes steps back, or one file.
    pub(super) fn undo(&mut self, argument: &str) {
        self.turn(argument, true);
    }

    /// Makes steps again that were taken back.
    pub(super) fn redo(&mut self, argument: &str) {
        self.turn(argument, false);
    }

    fn turn(&mut self, argument: &str, is_undo: bool) {
        let (wish, by_force) = match wish(argument, is_undo) {
            Ok(wish) => wish,
            Err(message) => {
                let hint = if is_undo { ":undo [N] [--force], or :undo --file PATH" } else { ":redo [N] [--force]" };
                return self.console.failure(&Failure { kind: FailureKind::User, message, hint: hint.into() });
            }
        };
        let nothing = if is_undo { "Nothing to undo." } else { "Nothing to redo." };
        if !self.workspace().is_dir() {
            return self.console.notice(nothing);
        }
        let Some(mut steps) = self.steps() else { return };
        if steps.list().is_empty() {
            return self.console.notice(nothing);
        }
        let cwd = super::state::read(&self.state).cwd.clone();
        let done = match (&wish, is_undo) {
            (Wish::Last(count), true) => steps.undo(*count, by_force),
            (Wish::Last(count), false) => steps.redo(*count, by_force),
            (Wish::File(path), _) => {
                let path = from_workspace(&steps, &cwd, path);
                steps.undo_file(&path, by_force)
            }
        };
        match done {
            Ok(done) => {
                let event = if is_undo { "steps_undone" } else { "steps_redone" };
                tracing::info!(event, steps = done.steps.len(), files = done.files);
                let verb = match (&wish, is_undo) {
                    (Wish::File(_), _) => "Restored one file to before",
                    (_, true) => "Undid",
                    (_, false) => "Redid",
                };
                taken_back_lines(&done, verb, ":").iter().for_each(|line| self.console.notice(line));
            }
            Err(error) => {
                if let StepsError::Conflicts(conflicts) = &error {
                    let text = conflict_difference(&steps, conflicts).unwrap_or_default();
                    self.console.outside(&text);
                }
                let mut failure = steps_failure(&error, ":");
                if let StepsError::Conflicts(_) = error {
                    let word = if is_undo { "undo" } else { "redo" };
                    failure.hint =
                        format!("nothing was changed; :{word} --force does it all the same and keeps this as a step");
                }
                self.console.failure(&failure);
            }
        }
    }

    /// Lists the steps.
    pub(super) fn list_steps(&self) {
        let Some(steps) = self.steps() else { return };
        let list = steps.list();
        if list.is_empty() {
            return self.console.notice("Nothing to undo.");
        }
        let newest = &list[list.len().saturating_sub(SHOWN_MAX)..];
        if newest.len() < list.len() {
            self.console.notice(&format!("{} older steps aren't shown", list.len() - newest.len()));
        }
        self.console.write(&table(&step_rows(newest), self.console.width_columns()));
        cover_lines(&steps).iter().for_each(|line| self.console.notice(line));
        self.console.notice(":diff N shows a step, :undo [N] takes the last N back, :undo --file PATH one file");
    }

    /// Shows what a step changed.
    pub(super) fn show_step(&mut self, argument: &str) -> Flow {
        let Some(steps) = self.steps() else { return Flow::Continue };
        let list = steps.list();
        let found = argument.parse().ok().and_then(|number: u64| list.iter().find(|step| step.number == number));
        let Some(step) = found else {
            let hint = match (list.first(), list.last()) {
                (Some(first), Some(last)) => {
                    format!("there are {} to {}; :steps lists them", first.number, last.number)
                }
                _ => "Nothing to undo.".to_owned(),
            };
            let message = format!("there is no step {argument}");
            self.console.failure(&Failure { kind: FailureKind::User, message, hint });
            return Flow::Continue;
        };
        self.console.notice(&format!("step {}: {}", step.number, title(step)));
        let (mut patches, mut foot) = (Vec::new(), Vec::new());
        let places = Places::of(&steps, std::slice::from_ref(step));
        for change in step.changes.iter().cloned().chain(steps.changes_outside(step)) {
            match places.difference(&change.path, change.before, change.after) {
                Ok(text) => {
                    // What is no text, and what changed beside it, is said in words.
                    let at =
                        if text.starts_with("--- ") { 0 } else { text.find("\n--- ").map_or(text.len(), |at| at + 1) };
                    foot.extend(text[..at].lines().map(escape_visible));
                    patches.extend(parse(&text[at..]));
                }
                Err(error) => {
                    self.console.failure(&steps_failure(&error, ":"));
                    return Flow::Continue;
                }
            }
        }
        self.browse(patches, foot)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_asked_for_is_read() {
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
