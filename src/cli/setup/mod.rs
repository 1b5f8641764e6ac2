//! Subcommands that set ReedClaw up, and check how it is set up.

pub(super) mod checkup;
pub(super) mod completions;
pub(super) mod config;
pub(super) mod doctor;
pub(super) mod init;
pub(super) mod onboard;
pub(super) mod provider;
