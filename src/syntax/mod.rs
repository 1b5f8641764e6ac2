//! Ten languages by their tree-sitter grammars: which one a file or a fence is in, colours of a text, definitions in it.
//!
//! Must not know where a text is from or what colours look like. Pure, but for one clock: a parse that takes too long is
//! given up, as is a text that is too long. Nothing is set up before it is asked for.
//! ```
//! use reedclaw::syntax::{Language, Paint, highlight};
//! let rust = Language::of_name("rs").unwrap();
//! let text = "fn main() {} // all";
//! let shown: Vec<(&str, Paint)> = highlight(rust, text).into_iter().map(|(at, paint)| (&text[at], paint)).collect();
//! assert_eq!(shown, [("fn", Paint::Keyword), ("main", Paint::Function), ("// all", Paint::Comment)]);
//! ```

mod definitions;
mod highlight;
mod language;
mod lines;
mod open;
mod parse;

pub use definitions::{Definition, Kind, Outline, outline};
pub use highlight::{Paint, highlight};
pub use language::Language;
pub use lines::{Lines, STREAMED_BYTES_MAX};
pub use parse::{PARSE_MS_MAX, TEXT_BYTES_MAX};
