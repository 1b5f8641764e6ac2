//! Command-line arguments: who gets them, and the subcommands.

pub mod backing;
pub mod dispatch;
