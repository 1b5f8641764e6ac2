//! The files that calls work on: the workspace's, or those of a git session, and the paths that a call names. Must not judge them.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::files::{Root, Tree};
use crate::proto::action::Action;
use crate::tree::Bench;

/// Files that an intent names.
const INTENT_PATHS_MAX: usize = 5;

/// The files that calls work on.
pub(in crate::agent) fn tree_of<'a>(bench: Option<&'a Arc<Bench>>, root: &'a Root) -> &'a dyn Tree {
    bench.map_or(root as &dyn Tree, |bench| &**bench.draft())
}

/// Brings the bench of a git session to its draft before a program runs on it.
pub(in crate::agent) fn made_ready(bench: Option<&Arc<Bench>>, action: &Action) -> Result<(), String> {
    let starts = matches!(action, Action::Shell { .. } | Action::External { .. });
    bench.filter(|_| starts).map_or(Ok(()), |bench| bench.ready())
}

/// The files that an edit changes.
pub(in crate::agent) fn edited_paths(action: &Action) -> Vec<PathBuf> {
    match action {
        Action::Write { path } | Action::Delete { path } => vec![path.into()],
        Action::Edit { writes, deletes } => writes.iter().chain(deletes).map(PathBuf::from).collect(),
        _ => Vec::new(),
    }
}

/// Replaces another name of the workspace in an action's absolute paths by the workspace's own name.
pub(in crate::agent) fn beneath_root(mut action: Action, root: &Root) -> Action {
    let rename = |path: &mut String| {
        let is_other = Path::new(path.as_str()).is_absolute() && !Path::new(path.as_str()).starts_with(root.path());
        if let Some(inside) = root.beneath(path).ok().filter(|_| is_other) {
            *path = root.path().join(inside).display().to_string();
        }
    };
    match &mut action {
        Action::Read { path } | Action::List { path } | Action::Write { path } | Action::Delete { path } => {
            rename(path)
        }
        Action::Open { paths } => paths.iter_mut().for_each(rename),
        Action::Edit { writes, deletes } => writes.iter_mut().chain(deletes).for_each(rename),
        _ => {}
    }
    action
}

/// A call's effect, in a line; it quotes the call, so the caller must escape it before showing it.
pub(super) fn intent(action: &Action) -> String {
    match action {
        Action::Shell { command } => format!("Command requested: `{command}`"),
        Action::Read { path } => format!("Reading `{path}`"),
        Action::Open { paths } => format!("Opening {} files", paths.len()),
        Action::List { path } => format!("Listing `{path}`"),
        Action::Write { path } => format!("Preparing to write `{path}`"),
        Action::Delete { path } => format!("Preparing to delete `{path}`"),
        Action::Edit { writes, deletes } => {
            let paths: Vec<String> = writes.iter().chain(deletes).map(|path| format!("`{path}`")).collect();
            let (shown, more) = paths.split_at(paths.len().min(INTENT_PATHS_MAX));
            let more = if more.is_empty() { String::new() } else { format!(" and {} more", more.len()) };
            format!("Preparing edits in {}{more}", shown.join(", "))
        }
        Action::Keep { command, .. } => format!("Keeping what `{command}` changed"),
        Action::Http { method, url } => format!("Requesting {method} {url}"),
        Action::Canvas { canvas } => format!("Changing the canvas {canvas}"),
        Action::Inert { name } | Action::External { name } => format!("Calling {name}"),
        Action::Served { server, tool, .. } => format!("Calling {server}.{tool}"),
    }
}
