//! Programs that tools run: their start, their terminal, their rights, and what they leave.

pub(super) mod bash;
pub(super) mod copied;
pub(super) mod launcher;
mod moves;
pub(super) mod program;
pub(super) mod records;
pub(super) mod refused;
pub(super) mod spawner;
pub(super) mod terminal;
pub(super) mod worktrees;
