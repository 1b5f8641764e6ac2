//! Git's own files among a command's changes, in words that a person can judge: a commit is a branch that moves, not a dozen
//! files of objects and logs. What git runs or what leads elsewhere (hooks, config, `rebase-merge`, alternates) isn't among
//! them and is shown like any other file.

use std::path::Path;

use crate::files::Layers;
use crate::sandbox::{Change, ChangeKind};

/// Longest reference that is shown.
const REFERENCE_BYTES_MAX: u64 = 1024;
/// Longest log whose last line is read.
const LOG_BYTES_MAX: u64 = 1024 * 1024;
/// Characters of a log's message that are shown.
const MESSAGE_CHARS_MAX: usize = 100;
/// Characters of an object's name that are shown.
const NAME_CHARS: usize = 7;
/// Files at the top of `.git` that only say what git did last.
const RECORDS: [&str; 6] = ["index", "COMMIT_EDITMSG", "ORIG_HEAD", "FETCH_HEAD", "MERGE_HEAD", "AUTO_MERGE"];

/// The `.git` above a path, and the path in it.
fn in_git(path: &Path) -> Option<(&Path, &Path)> {
    let git = path.ancestors().filter(|it| it.file_name().is_some_and(|name| name == ".git")).last()?;
    Some((git, path.strip_prefix(git).ok()?))
}

/// The directory of objects that a path lies in. Objects are named by their content, so that nothing is changed in one.
pub(super) fn objects_above(path: &Path) -> Option<&Path> {
    let (git, rest) = in_git(path)?;
    let is_object = rest.starts_with("objects") && !rest.starts_with("objects/info");
    path.ancestors().find(|it| is_object && it.parent() == Some(git))
}

/// Returns the `.git` whose index or log a change writes, and that file's name there. A linked work tree's directory counts as
/// one name; its protected files have rows of their own.
pub(super) fn record_in(change: &Change) -> Option<(&Path, &Path)> {
    let (git, rest) = in_git(&change.path)?;
    if rest.starts_with("worktrees") && change.kind != ChangeKind::Deleted {
        return Some((git, rest.ancestors().find(|it| it.components().count() == 2).unwrap_or(rest)));
    }
    let is_record = rest.starts_with("logs") || RECORDS.iter().any(|name| rest == Path::new(name));
    (is_record && change.kind != ChangeKind::Deleted).then_some((git, rest))
}

/// Describes a moved reference: `a8c77d8 to d1cf6f0 (commit: mend the sum)`. The message is from the log, which the command
/// wrote.
pub(super) fn moved(change: &Change, all: &[&Change], before: Option<&Layers>) -> Option<String> {
    let (git, rest) = in_git(&change.path)?;
    if rest != Path::new("HEAD") && !rest.starts_with("refs") {
        return None;
    }
    let new = content(change, REFERENCE_BYTES_MAX).and_then(|text| target(&text))?;
    // The last entry in the log of HEAD is about the branch.
    let log = rest.starts_with("refs").then(|| git.join("logs").join(rest));
    let log = log.and_then(|log| all.binary_search_by(|it| it.path.cmp(&log)).ok()).map(|at| all[at]);
    let message = log.and_then(|log| content(log, LOG_BYTES_MAX)).and_then(|text| message(&text));
    let message = message.map(|message| format!(" ({message})")).unwrap_or_default();
    if change.before.is_none() {
        return Some(format!("new, at {new}{message}"));
    }
    let old = before?.held(&change.path, REFERENCE_BYTES_MAX).ok()?.1;
    let old = target(&String::from_utf8(old).ok()?)?;
    Some(format!("{old} to {new}{message}"))
}

fn content(change: &Change, bytes_max: u64) -> Option<String> {
    match &change.kind {
        ChangeKind::File { bytes, source, .. } if *bytes <= bytes_max => std::fs::read_to_string(source).ok(),
        _ => None,
    }
}

/// The target of a reference, if this is one: the short name of an object, or another reference.
fn target(text: &str) -> Option<String> {
    let line = text.strip_suffix('\n')?;
    if let Some(name) = line.strip_prefix("ref: ") {
        return (!name.contains('\n')).then(|| name.to_owned());
    }
    let is_hash = matches!(line.len(), 40 | 64) && line.bytes().all(|byte| byte.is_ascii_hexdigit());
    is_hash.then(|| line[..NAME_CHARS].to_owned())
}

/// The message of a log's last line.
fn message(log: &str) -> Option<String> {
    let (_, message) = log.lines().last()?.split_once('\t')?;
    Some(message.chars().take(MESSAGE_CHARS_MAX).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_git_never_runs_counts_as_its_own() {
        for (path, objects) in [
            (".git/objects/31/d195", Some(".git/objects")),
            ("sub/.git/objects/pack/pack-1.idx", Some("sub/.git/objects")),
            (".git/objects/info/alternates", None),
            (".git/hooks/objects", None),
            (".git/modules/x/objects/31/d195", None),
            ("objects/31/d195", None),
        ] {
            assert_eq!(objects_above(Path::new(path)), objects.map(Path::new), "{path}");
        }
        for (path, is_record) in [
            (".git/index", true),
            (".git/logs/refs/heads/main", true),
            (".git/COMMIT_EDITMSG", true),
            (".git/worktrees/x/index", true),
            (".git/config", false),
            (".git/rebase-merge/git-rebase-todo", false),
            (".git/hooks/index", false),
            ("index", false),
        ] {
            let kind = ChangeKind::Directory { mode: 0o755 };
            let change = Change {
                path: path.into(),
                kind,
                before: None,
                is_contested: false,
                other_names: 0,
                has_privilege: false,
                is_cleared: false,
                protected: None,
            };
            assert_eq!(record_in(&change).is_some(), is_record, "{path}");
        }
    }

    #[test]
    fn a_reference_leads_to_an_object_or_to_a_name() {
        let hash = "a8c77d81e916a92501f47e81fc4f9d68282f1f32";
        assert_eq!(target(&format!("{hash}\n")).as_deref(), Some("a8c77d8"));
        assert_eq!(target("ref: refs/heads/x\n").as_deref(), Some("refs/heads/x"));
        for text in ["", "x\n", hash, "ref: a\nb\n"] {
            assert_eq!(target(text), None, "{text:?}");
        }
        assert_eq!(message(&format!("{hash} {hash} A <a@b> 1 +0000\tcommit: one\n")).as_deref(), Some("commit: one"));
    }
}
