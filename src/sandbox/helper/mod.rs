//! The process that restricts itself and becomes the program.

pub(super) mod enter;
pub(super) mod filter;
pub(super) mod landlock;
pub(super) mod wire;
