//! Ten languages by their tree-sitter grammars: the language of a file or a fence, the colours of a text, and the definitions in
//! it. Also the end of a command in an answer.
//!
//! Must not know a text's origin or a colour's look. Pure, but for one clock: a parse that takes too long is abandoned,
//! and a text that is too long isn't parsed. Nothing is set up before its first use.
//! ```
//! use reedclaw::syntax::{Language, Paint, highlight};
//! let rust = Language::of_name("rs").unwrap();
//! let text = "fn main() {} // all";
//! let shown: Vec<(&str, Paint)> = highlight(rust, text).into_iter().map(|(at, paint)| (&text[at], paint)).collect();
//! assert_eq!(shown, [("fn", Paint::Keyword), ("main", Paint::Function), ("// all", Paint::Comment)]);
//! ```

mod commands;
mod definitions;
mod highlight;
mod language;
mod lines;
mod open;
mod parse;

pub use commands::{Document, Scan};
pub use definitions::{Definition, Kind, Outline, outline};
pub use highlight::{Paint, highlight};
pub use language::Language;
pub use lines::{Lines, STREAMED_BYTES_MAX};
pub use parse::{PARSE_MS_MAX, TEXT_BYTES_MAX};
