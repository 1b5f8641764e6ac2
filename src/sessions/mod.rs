//! Sessions on git: a conversation whose every turn is a commit on a branch of its own, with the code and the texts.
//!
//! If rules conflict, the order is: the user's checkout, index and branches are never touched → no message or file is lost →
//! truthful → fast. A turn is written as objects → journal → one compare-and-swap of one reference; a crash at any point leaves
//! the old tip and the draft, or the new tip.
//!
//! | place | holds |
//! |---|---|
//! | `refs/heads/reedclaw/session/ID` | the newest turn; `refs/reedclaw/session/ID` if references are hidden |
//! | `refs/reedclaw/on/ID` | leads to the branch of the user's that a session works on, if it doesn't have its own |
//! | `refs/reedclaw/summaries` | summaries of files by the names of their contents, for all sessions |
//! | `refs/reedclaw/kept/ID/N` | tips that a rewind, an undo or the end of a session left |
//! | `.reedclaw/sessions/ID/` in the tree | `session.json`, `turns/00/0007.json` |
//! | state directory, `sessions/REPOSITORY/ID/` | lock, journal, the draft of the turn that runs, operations |
//!
//! It must not know HTTP, SQLite, the terminal or how a model is asked.

mod base;
mod care;
#[cfg(test)]
mod crash_tests;
mod disk;
mod error;
mod history;
#[cfg(test)]
mod join_tests;
#[cfg(test)]
mod kinds_tests;
#[cfg(test)]
mod meanwhile_tests;
mod merge;
mod names;
#[cfg(test)]
mod rework_tests;
mod start;
mod summaries;
#[cfg(test)]
mod tests;
mod time;
mod turn;
#[cfg(test)]
mod untouched_tests;
pub mod wire;

pub use crate::tree::FILE_BYTES_MAX;
pub use base::{Listed, Options, Session, Sessions};
pub use care::{Finding, clear_up, examine, has_commands_copy};
pub use disk::Left;
pub use error::SessionError;
pub use history::{LogEntry, View};
pub use merge::checkout::start_with_changes;
pub use merge::rework::{Half, amend, replay, rewind_half};
pub use merge::sync::{Synced, ToApply, note_merged, plan_apply, sync, sync_changes};
pub use merge::{How, MergePlan, MergeWish, merge, plan_merge, runs_elsewhere};
pub use names::{BRANCHES, HIDDEN, KEPT, ON, SUMMARIES, label, short_id};
pub use summaries::{Summaries, add_summaries, drop_summaries, has_summaries, summaries};
pub use time::FilesBack;
pub use turn::Committed;
pub use wire::{State, TurnReport};
