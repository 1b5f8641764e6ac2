//! Markdown and other text to styled lines; the sanitiser. Pure: no terminal, no I/O.
//!
//! Text from outside passes [`sanitise`] on its way to the terminal, and [`strip_controls`] on its way to a model.
//! ```
//! use reedclaw::render::{Markdown, Options};
//! let mut answer = Markdown::new(Options { width_columns: 40, color: false, markdown: true });
//! let mut shown = answer.push("* Some **bo");
//! shown += &answer.push("ld** words\x1b[2J\n");
//! shown += &answer.finish();
//! assert_eq!(shown, "• Some bold words\n");
//! ```

mod controls;
pub mod diff;
mod markdown;
mod paint;
pub mod patch;
mod question;
mod sanitise;
mod screen;
pub mod sheet;
pub mod text;
mod visible;
mod words;

pub use controls::strip_controls;
pub use markdown::{Markdown, Options};
pub use paint::code_style;
pub use question::{asked_rows, change_rows, chosen, command_rows, named, overdue_rows, question_sheet};
pub use sanitise::{CSI_CHARS_MAX, STRING_CHARS_MAX, Sanitiser, sanitise};
pub use screen::ScreenFilter;
pub use words::changed_words;
