//! The grammar of bash: a script's text → its tree, and what expansion of braces, escapes and arithmetic gives. Pure: it knows
//! nothing of variables, files or programs, and runs nothing.
//!
//! ```
//! assert!(reedclaw::bash::is_unfinished("if true; then"));
//! assert!(!reedclaw::bash::is_unfinished("if true; then ls; fi"));
//! ```

mod arithmetic;
mod braces;
mod escape;
mod parse;
mod syntax;
mod tree;
mod word;

pub(crate) use arithmetic::calculate;
pub(crate) use braces::braces;
pub(crate) use escape::{cased, sliced, unescaped};
pub use parse::{is_unfinished, open_document};
pub(crate) use parse::{parse, quoted};
pub(crate) use syntax::{
    Assign, AssignValue, Change, Command, Item, Joint, Kind, Parameter, Part, Pipeline, Redirect, RedirectOp, Script,
    Trouble, Word,
};
pub(crate) use tree::{never_ends, starts_jobs, waits};
pub(crate) use word::unquoted;

/// Longest script that is read, in bytes.
pub const SCRIPT_BYTES_MAX: usize = 64 * 1024;
