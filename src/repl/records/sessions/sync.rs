//! Commits and files that come into a session, from the person's branch and from the checkout.

use crate::app::session_failure;
use crate::git::{Program, short};
use crate::ops::sessions::sync_words;
use crate::proto::Failure;
use crate::render::text::escape_visible;
use crate::repl::hub::Repl;
use crate::sessions::{Synced, replay, sync, sync_changes};

/// Carries out `:session sync`.
pub(super) fn sync_session(repl: &mut Repl, argument: &str, program: &Program) -> Result<(), Failure> {
    let (is_rebase, has_changes, branch) = sync_words(argument)
        .map_err(|message| Failure::user(message).hint(":session sync [--rebase] [BRANCH], or --with-changes"))?;
    let guard = repl.runtime.key_guard();
    let none = || Failure::user("no session is active").hint(":session lists them");
    let session = &mut repl.runtime.on_git_mut().ok_or_else(none)?.session;
    let (what, synced) = match (has_changes, is_rebase) {
        (true, _) => {
            let (synced, left_out) = sync_changes(session, program, &guard).map_err(session_failure)?;
            left_out.iter().for_each(|notice| repl.console.notice(&escape_visible(notice)));
            ("your uncommitted files".to_owned(), Ok(synced))
        }
        (_, true) => (String::new(), replay(session, branch, program)),
        _ => (String::new(), sync(session, branch, program)),
    };
    let synced = synced.map_err(session_failure)?;
    let what = if what.is_empty() { format!("all of {}", short(synced.from)) } else { what };
    repl.console.notice(&format!("the session has {what} now; :session undo reverts it"));
    show_conflicts(repl, &synced);
    Ok(())
}

fn show_conflicts(repl: &Repl, synced: &Synced) {
    if !synced.conflicts.is_empty() {
        let paths: Vec<String> =
            synced.conflicts.iter().map(|it| escape_visible(&it.path.display().to_string())).collect();
        let paths = paths.join(", ");
        repl.console.notice(&format!("both sides changed {paths}: ask the model to solve the conflicts"));
    }
}
