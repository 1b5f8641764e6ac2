//! Calls of tools: through the gate, around the workspace, into words for the model.

pub(super) mod cut_off;
mod flood;
pub(super) mod guard;
pub(super) mod keep;
pub(super) mod log;
pub(super) mod places;
pub(super) mod repeats;
pub(super) mod result_text;
pub(super) mod revision;
pub(super) mod runner;
pub(super) mod snapshots;
