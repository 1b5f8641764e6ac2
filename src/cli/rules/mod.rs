//! Subcommands about what may run and where lines go.

pub(super) mod allow;
pub(super) mod estop;
pub(super) mod plugin;
pub(super) mod policy;
pub(super) mod route;
pub(super) mod tool;
