//! Compares the files that other programs run before and after a command that works on the workspace itself, and while a job runs
//! there. Changes are reported, and reverted unless the person wants them: only the person decides what other programs run.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use crate::agent::calls::runner::ToolRunner;
use crate::agent::person::Person;
use crate::proto::action::Action;
use crate::proto::tool::{OWN_HEADING, Outcome};
use crate::proto::{Event, known_paths};
use crate::steps::{Guard, IsProtected};
use crate::tools::link_protection;

/// The answer that leaves a change of such a file.
const LEAVE: &str = "leave them";
/// Names that are listed.
const NAMES_MAX: usize = 20;
/// A line for the person and for the model.
const NOT_WHOLE: &str = "[protected: there is too much here to compare all files that other programs run; look at what was made before \
                         you start git, an editor or a shell here]";

/// Looks at protected files before a call that may write them directly. A job that still runs has its guard already.
pub(in crate::agent) fn guard(runner: &mut ToolRunner, action: &Action) {
    let may_write =
        matches!(action, Action::Shell { .. } | Action::External { .. } | Action::Served { may_write: true, .. });
    if let Some(limits) = runner.keeper.limits().filter(|_| may_write && runner.guard.is_none()) {
        let (named, of_links) = (runner.options.gate.named(), runner.options.gate.named());
        let by_name = move |path: &[u8], is_link: bool| {
            let by_name = if is_link { known_paths::protected_link(path) } else { known_paths::protected(path) };
            by_name.is_some() || named.reason_below(Path::new(OsStr::from_bytes(path))).is_some()
        };
        let root = runner.options.root.path().to_owned();
        let by_target = move |path: &Path| {
            let target = root.join(path).read_link();
            target.is_ok_and(|target| link_protection(path, &target, &root, &of_links).is_some())
        };
        let is_protected = IsProtected { by_name: Box::new(by_name), by_target: Box::new(by_target) };
        runner.guard = Some(Guard::before(&runner.options.root, limits, is_protected));
    }
}

/// Compares them, if that was begun, reports the changes of protected files, and restores the files unless the
/// person decides otherwise. Returns a line for the model.
pub(in crate::agent) fn guarded(
    runner: &mut ToolRunner,
    person: &mut dyn Person,
    sink: &mut dyn FnMut(Event),
) -> Option<String> {
    // This comes before the comparison, which misses what a job does after it.
    runner.is_guard_over = !runner.has_jobs();
    let root = &runner.options.root;
    let guard = runner.guard.as_mut()?;
    let (changed, is_whole) = guard.changed(root);
    let mut notices = Vec::new();
    if !is_whole {
        notices.push(NOT_WHOLE.to_owned());
        sink(Event::Notice(NOT_WHOLE.to_owned()));
    }
    if changed.is_empty() {
        return notices.pop();
    }
    // Another program may have changed them at that moment, so the note doesn't name a culprit.
    let names = listed(changed.iter().map(ToString::to_string));
    let what = format!("that other programs run changed while commands worked here: {names}");
    sink(Event::Notice(format!("[protected] files {what}")));
    let choices = ["restore them".to_owned(), LEAVE.to_owned()];
    let question = format!("Files {what}. Restore them? What is there now is saved as a step, for undo.");
    if person.reply_to(OWN_HEADING, &question, &choices).as_deref() == Some(LEAVE) {
        guard.accept(root, changed.iter().map(|it| it.path.as_path()));
        return notices.pop();
    }
    let mut failed = Vec::new();
    let paths: Vec<PathBuf> = changed.iter().map(|it| it.path.clone()).collect();
    let set_aside = runner.keeper.set_aside(&paths, &mut || {
        failed =
            changed.iter().filter_map(|it| it.put_back(root).err().map(|error| format!("{it} ({error})"))).collect();
    });
    let undo = match set_aside {
        Ok(()) => "; undo reverts this".to_owned(),
        Err(error) => format!("; what was there couldn't be kept: {error}"),
    };
    let line = match failed.is_empty() {
        true => format!("[files that other programs run were restored: {names}{undo}]"),
        false => {
            let failed = listed(failed.into_iter());
            format!("[files that other programs run could not all be restored: {failed}{undo}]")
        }
    };
    sink(Event::Notice(line.clone()));
    notices.push(line);
    Some(notices.join("\n"))
}

/// Names, with a limit.
fn listed(names: impl ExactSizeIterator<Item = String>) -> String {
    let more = names.len().saturating_sub(NAMES_MAX);
    let more = (more > 0).then(|| format!("and {more} more"));
    names.take(NAMES_MAX).chain(more).collect::<Vec<_>>().join(", ")
}

/// A change that the person has agreed to isn't the work of a job.
pub(in crate::agent) fn accept<'a>(runner: &mut ToolRunner, paths: impl Iterator<Item = &'a Path>) {
    if let Some(guard) = &mut runner.guard {
        let root = &runner.options.root;
        guard.accept(root, paths.map(|path| path.strip_prefix(root.path()).unwrap_or(path)));
    }
}

/// Forgets the previous state, unless jobs continued at the last comparison; appends the reports to an outcome.
pub(in crate::agent) fn unguarded(
    runner: &mut ToolRunner,
    notices: impl IntoIterator<Item = String>,
    outcome: &mut Outcome,
) {
    if runner.is_guard_over {
        runner.guard = None;
    }
    for line in notices {
        outcome.output.push_str(&format!("\n{line}"));
    }
}
