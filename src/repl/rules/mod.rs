//! `:` commands about what may run, and about the config that says so.

pub(super) mod allow;
pub(super) mod approve;
pub(super) mod configure;
pub(super) mod estop;
pub(super) mod policy;
pub(super) mod project;
pub(super) mod secrets;
pub(super) mod served;
pub(super) mod sharing;
pub(super) mod skills;
pub(super) mod tooling;
