//! Facts that git has about a repository: read from its files, or obtained by its program.

pub(super) mod changes;
pub(super) mod git;
pub(super) mod heat;
pub(super) mod program;
pub(super) mod status;
