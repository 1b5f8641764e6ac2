//! Where a repository stands, to be told beside a step: undo doesn't cover it. It is read and never touched, and nothing that
//! its config names is run.

use std::path::Path;

/// What HEAD and the stash are.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Standing {
    branch: String,
    commit: String,
    stash: String,
}

impl Standing {
    /// Reads it; nothing where there is no repository, or one that can't be read.
    pub(super) fn read(workspace: &Path) -> Option<Self> {
        workspace.join(".git").symlink_metadata().ok()?;
        let repository = gix::open_opts(workspace, gix::open::Options::isolated()).ok()?;
        let short = |id: gix::Id<'_>| id.detach().to_hex_with_len(9).to_string();
        let head = repository.head().ok()?;
        let branch = head.referent_name().map(|name| name.shorten().to_string()).unwrap_or_default();
        let commit = head.id().map(short).unwrap_or_default();
        let stash = repository.try_find_reference("refs/stash").ok().flatten();
        let stash = stash.and_then(|found| found.try_id().map(short)).unwrap_or_default();
        Some(Self { branch, commit, stash })
    }

    /// What has moved, in words; empty where nothing has.
    pub(super) fn moved(before: Option<&Self>, after: Option<&Self>) -> Vec<String> {
        let (before, after) = match (before, after) {
            (None, None) => return Vec::new(),
            (None, Some(_)) => return vec!["git: a repository was made; undo leaves .git as it is".to_owned()],
            (Some(_), None) => {
                return vec!["git: .git has gone or can't be read; undo doesn't bring it back".to_owned()];
            }
            (Some(before), Some(after)) => (before, after),
        };
        let none = |text: &str| if text.is_empty() { "nothing".to_owned() } else { text.to_owned() };
        let mut moved = Vec::new();
        for (what, old, new) in [
            ("the branch", &before.branch, &after.branch),
            ("HEAD", &before.commit, &after.commit),
            ("the stash", &before.stash, &after.stash),
        ] {
            if old != new {
                moved.push(format!("git: {what} moved from {} to {}; undo leaves it there", none(old), none(new)));
            }
        }
        moved
    }
}
