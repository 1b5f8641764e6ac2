//! The JSON lines of `reedclaw session`, as `config/schema/sessions.json` describes them. Must not know how the
//! commands get their data.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::app::{Applied, Doubt};
use crate::git::{Changed, Conflict};
use crate::sessions::{Finding, Listed, LogEntry, Sessions, runs_elsewhere};

/// Version of the JSON lines.
pub(super) const VERSION: u32 = 1;

/// A path as text: JSON has no other bytes.
fn shown(path: &Path) -> String {
    path.display().to_string()
}

pub(super) fn listed(sessions: &Sessions, it: &Listed) -> Value {
    let (files, moved) = sessions.progress(it).unwrap_or_default();
    json!({"files": files, "moved": moved, "asks": it.asks, "process": it.holder, "v": VERSION, "kind": "session", "session": it.meta.id, "title": it.meta.title, "turns": it.meta.turns,
        "base": it.meta.base, "branch": it.meta.base_branch, "commit": it.tip.to_string(), "time_s": it.time_s,
        "state": it.state()})
}

/// A commit of a session that changed this number of files.
pub(super) fn entry(id: &str, it: &LogEntry, files: usize) -> Value {
    let [added, removed] = it.lines.map_or([None; 2], |lines| lines.map(Some));
    json!({"v": VERSION, "kind": "turn", "session": id, "turn": it.turn, "act": it.act, "state": it.state,
        "commit": it.id.to_string(), "subject": it.subject, "model": it.model, "time_s": it.time_s,
        "files": files, "added": added, "removed": removed, "cost": Some(&it.cost).filter(|it| !it.is_empty())})
}

/// The facts about a list of changes that its lines carry.
#[derive(Default)]
pub(super) struct About<'a> {
    /// The former names of files that were renamed.
    pub former: BTreeMap<PathBuf, PathBuf>,
    /// The places that look like secrets.
    pub doubts: &'a [Doubt],
    /// Names beside each other that not every file system can hold.
    pub twins: &'a [(PathBuf, PathBuf)],
}

/// A file that changes, or would change.
pub(super) fn change(id: &str, it: &Changed, about: &About<'_>) -> Value {
    let kind = match (&it.old, &it.new) {
        (None, _) => "added",
        (_, None) => "deleted",
        _ => "modified",
    };
    let secrets: Vec<usize> =
        about.doubts.iter().filter(|doubt| doubt.path == it.path).map(|doubt| doubt.line).collect();
    let twin = about.twins.iter().find(|(path, _)| it.old.is_none() && it.path.starts_with(path)).map(|(_, twin)| twin);
    let (from, twin) = (about.former.get(&it.path).map(|it| shown(it)), twin.map(|it| shown(it)));
    json!({"v": VERSION, "kind": "change", "session": id, "path": shown(&it.path), "change": kind,
        "runs": runs_elsewhere(it), "from": from, "secrets": secrets, "twin": twin})
}

pub(super) fn conflict(id: &str, conflict: &Conflict) -> Value {
    json!({"v": VERSION, "kind": "conflict", "session": id, "path": shown(&conflict.path), "conflict": conflict.kind})
}

/// A commit that a session took over from a branch.
pub(super) fn synced(id: &str, from: &str, commit: &str) -> Value {
    json!({"v": VERSION, "kind": "synced", "session": id, "from": from, "commit": commit})
}

pub(super) fn merged(id: &str, into: &str, commit: &str) -> Value {
    json!({"v": VERSION, "kind": "merged", "session": id, "into": into, "commit": commit})
}

pub(super) fn applied(id: &str, it: &Applied) -> Value {
    let left: Vec<String> = it.left.iter().map(|(path, _)| shown(path)).collect();
    json!({"v": VERSION, "kind": "applied", "session": id, "files": it.files, "step": it.step, "left": left})
}

/// An unneeded thing that was removed, in words; with `only_named` it is still there.
pub(super) fn cleared(what: &str, only_named: bool) -> Value {
    json!({"v": VERSION, "kind": "cleared", "what": what, "removed": !only_named})
}

pub(super) fn problem(it: &Finding) -> Value {
    json!({"v": VERSION, "kind": "problem", "session": it.session, "what": it.what, "mended": it.is_mended})
}

/// A name in a directory of a session; that of a directory ends with a slash.
pub(super) fn file(id: &str, name: &str) -> Value {
    json!({"v": VERSION, "kind": "file", "session": id, "name": name})
}

pub(super) fn open_file(id: &str, path: &str, tokens: usize) -> Value {
    json!({"v": VERSION, "kind": "open_file", "session": id, "path": path, "tokens": tokens})
}
