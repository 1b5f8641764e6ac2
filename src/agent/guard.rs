//! Compares git's own files around a command that worked on the workspace itself. Changes of config and hooks are reported, and
//! put back unless the person wants them: only the person decides what other programs run.

use super::hands::Hands;
use super::person::Person;
use crate::host::Root;
use crate::proto::Event;
use crate::proto::action::Action;
use crate::proto::tool::Outcome;
use crate::steps::GitGuard;

/// The answer that leaves a change of git's own files.
const LEAVE: &str = "leave it";

impl Hands {
    /// Looks at git's own files before a call that may write them.
    pub(super) fn guard(&self, action: &Action) -> Option<GitGuard> {
        let may_write = matches!(action, Action::Shell { .. } | Action::External { .. });
        let limits = self.keeper.limits().filter(|_| may_write)?;
        Some(GitGuard::before(&self.options.root, limits))
    }

    /// Compares them afterwards, tells what changed, and puts it back unless the person says otherwise.
    pub(super) fn guarded(
        root: &Root,
        guard: Option<GitGuard>,
        outcome: &mut Outcome,
        person: &mut dyn Person,
        sink: &mut dyn FnMut(Event),
    ) {
        let Some(guard) = guard else { return };
        let (changed, is_whole) = guard.changed(root);
        if !is_whole {
            sink(Event::Notice("[git] not all of git's config and hooks here could be compared".to_owned()));
        }
        if changed.is_empty() {
            return;
        }
        let names: Vec<String> = changed.iter().map(ToString::to_string).collect();
        let names = names.join(", ");
        sink(Event::Notice(format!("[git] the command changed what git runs: {names}")));
        let choices = ["put it back".to_owned(), LEAVE.to_owned()];
        let question = format!("The command changed what git runs: {names}. Put it back as it was?");
        if person.reply(&question, &choices).as_deref() == Some(LEAVE) {
            return;
        }
        let failed: Vec<String> =
            changed.iter().filter_map(|it| it.put_back(root).err().map(|error| format!("{it} ({error})"))).collect();
        let told = if failed.is_empty() {
            format!("[git's config and hooks were put back as they were: {names}]")
        } else {
            format!("[git's config and hooks could not all be put back: {}]", failed.join(", "))
        };
        sink(Event::Notice(told.clone()));
        outcome.output.push_str(&format!("\n{told}"));
    }
}
