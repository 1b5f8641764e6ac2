//! Compares the files that other programs run around a command that works on the workspace itself, and as long as a job goes
//! on there. Changes are reported, and put back unless the person wants them: only the person decides what other programs run.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use crate::agent::calls::runner::ToolRunner;
use crate::agent::person::Person;
use crate::proto::action::Action;
use crate::proto::tool::{OWN_HEADING, Outcome};
use crate::proto::{Event, known_paths};
use crate::steps::Guard;

/// The answer that leaves a change of such a file.
const LEAVE: &str = "leave them";

/// Looks at protected files before a call that may write them directly. A job that still runs has its guard already.
pub(in crate::agent) fn guard(runner: &mut ToolRunner, action: &Action) {
    let may_write =
        matches!(action, Action::Shell { .. } | Action::External { .. } | Action::Served { may_write: true, .. });
    if let Some(limits) = runner.keeper.limits().filter(|_| may_write && runner.guard.is_none()) {
        let named = runner.options.gate.named();
        let is_protected = move |path: &[u8], is_link: bool| {
            let by_name = if is_link { known_paths::protected_link(path) } else { known_paths::protected(path) };
            by_name.is_some() || named.reason_below(Path::new(OsStr::from_bytes(path))).is_some()
        };
        runner.guard = Some(Guard::before(&runner.options.root, limits, Box::new(is_protected)));
    }
}

/// Compares them, if that was begun, reports the changes of protected files, and restores the files unless the
/// person decides otherwise. Returns a line for the model.
pub(in crate::agent) fn guarded(
    runner: &mut ToolRunner,
    person: &mut dyn Person,
    sink: &mut dyn FnMut(Event),
) -> Option<String> {
    // Before the comparison, which doesn't see what a job does after it.
    runner.is_guard_over = !runner.has_jobs();
    let root = &runner.options.root;
    let guard = runner.guard.as_mut()?;
    let (changed, is_whole) = guard.changed(root);
    if !is_whole {
        let notice = "[protected] not all files here that other programs run could be compared";
        sink(Event::Notice(notice.to_owned()));
    }
    if changed.is_empty() {
        return None;
    }
    let names: Vec<String> = changed.iter().map(ToString::to_string).collect();
    let names = names.join(", ");
    sink(Event::Notice(format!("[protected] the command changed files that other programs run: {names}")));
    let choices = ["restore them".to_owned(), LEAVE.to_owned()];
    let question = format!("The command changed files that other programs run: {names}. Restore them?");
    if person.reply_to(OWN_HEADING, &question, &choices).as_deref() == Some(LEAVE) {
        guard.accept(root, changed.iter().map(|it| it.path.as_path()));
        return None;
    }
    let failed: Vec<String> =
        changed.iter().filter_map(|it| it.put_back(root).err().map(|error| format!("{it} ({error})"))).collect();
    let told = if failed.is_empty() {
        format!("[files that other programs run were restored: {names}]")
    } else {
        format!("[files that other programs run could not all be restored: {}]", failed.join(", "))
    };
    sink(Event::Notice(told.clone()));
    Some(told)
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
    told: impl IntoIterator<Item = String>,
    outcome: &mut Outcome,
) {
    if runner.is_guard_over {
        runner.guard = None;
    }
    for line in told {
        outcome.output.push_str(&format!("\n{line}"));
    }
}
