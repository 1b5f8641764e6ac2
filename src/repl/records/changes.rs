//! `:diff`: what differs from the last commit of the repository that the person is in.

use crate::ask::{Pager, look, put};
use crate::project::{self, Repository, Trouble};
use crate::proto::Failure;
use crate::render::patch::{FilePatch, parse};
use crate::render::sheet::{Look, Sheet};
use crate::render::text::escape_visible;
use crate::repl::editing::state;
use crate::repl::hub::{Flow, Repl};

/// Limit on the listed files that git doesn't track.
const UNTRACKED_MAX: usize = 20;

/// Shows the uncommitted changes; more than a screen of them page by page.
pub(in crate::repl) fn diff_command(repl: &mut Repl) -> Flow {
    let cwd = state::read(&repl.state).cwd.clone();
    let failed = |message: &str, hint: &str| Failure::unavailable(message.to_owned()).hint(hint);
    let Some(repository) = cwd.canonicalize().ok().and_then(|cwd| Repository::find(&cwd)) else {
        repl.console
            .failure(&failed("there is no git repository here", ":diff shows what differs from its last commit"));
        return Flow::Continue;
    };
    let changes = match project::changes(&repository.root, &repl.runtime.git_options()) {
        Ok(changes) => changes,
        Err(trouble) => {
            let why = match trouble {
                Trouble::Slow => "git takes too long to say what differs",
                Trouble::Unreadable => "git's config here can't be relied on, so it isn't asked what differs",
                _ => "git can't say what differs",
            };
            repl.console.failure(&failed(why, "git diff HEAD says why"));
            return Flow::Continue;
        }
    };
    let mut foot = Vec::new();
    let names = changes.untracked.iter().take(UNTRACKED_MAX);
    foot.extend(names.map(|path| format!("not in git: {}", escape_visible(&path.display().to_string()))));
    if changes.untracked.len() > UNTRACKED_MAX {
        foot.push(format!("and {} more", changes.untracked.len() - UNTRACKED_MAX));
    }
    if !changes.is_whole {
        foot.push("there is more than is shown here".to_owned());
    }
    let patches = parse(&changes.diff);
    if patches.is_empty() && foot.is_empty() {
        repl.console.notice("nothing differs from the last commit");
        return Flow::Continue;
    }
    browse(repl, patches, foot)
}

/// Shows changes of files: all at once if they fit on a screen, else page by page.
pub(in crate::repl) fn browse(repl: &mut Repl, patches: Vec<FilePatch>, foot: Vec<String>) -> Flow {
    const BACK: &str = "down [Space, j]  up [b, k]  end [G]  leave [q, Enter]";
    let make = |look: Look| Sheet::new(look, Vec::new(), patches.clone(), foot.clone());
    let sheet = make(look(&repl.console));
    if sheet.len() < repl.console.height_rows() || repl.console.options().accessible {
        sheet.rows(0..sheet.len()).iter().for_each(|row| repl.console.line(row));
        return Flow::Continue;
    }
    let choice = |keys: &[u8], _: bool| matches!(keys, b"q" | b"\r" | b"\n" | b"\x1b" | b"\x04").then_some(());
    let console = repl.console.clone();
    let mut pager = Pager::new(&console, &make, [BACK, BACK], &choice).browsing();
    if let Err(flow) = put(&mut repl.terminal, &mut pager, (), None) {
        return flow;
    }
    pager.leave(&console);
    // The rows that were visible last stay on the screen.
    pager.sheet().rows(pager.shown()).iter().for_each(|row| repl.console.line(row));
    Flow::Continue
}
