//! The parts of an answer's text: blocks of code, proposed commands, calls of tools, whole files. Pure.

mod blocks;
mod calls;
mod commands;
mod files;
mod loose;

pub use blocks::{CodeBlock, code_blocks};
pub use calls::{Reading, WrittenCall, may_begin_call, read_calls};
pub use commands::{commands_in, proposals};
pub use files::whole_files;
pub use loose::loose_json;
