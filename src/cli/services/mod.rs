//! Subcommands that serve other programs, or use their tools.

pub(super) mod acp;
pub(super) mod gateway;
pub(super) mod mcp;
pub(super) mod service;
pub(super) mod sop;
