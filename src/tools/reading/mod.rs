//! Tools that read the workspace.

pub(super) mod files;
pub(super) mod pdf;
pub(super) mod reads;
pub(super) mod survey;
pub(super) mod symbols;
