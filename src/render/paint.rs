//! Colours of code: which style a part of it has. One palette for blocks of code, files and diffs.

use nu_ansi_term::{Color, Style};

use crate::syntax::Paint;

/// Returns the style of a part of code; the terminal's own sixteen colours, so that its theme applies.
#[must_use]
pub fn code_style(paint: Paint) -> Style {
    match paint {
        Paint::Comment => Style::new().dimmed(),
        Paint::String => Color::Green.normal(),
        Paint::Escape => Color::Green.bold(),
        Paint::Number | Paint::Constant => Color::Yellow.normal(),
        Paint::Keyword => Color::Magenta.normal(),
        Paint::Function => Color::Blue.normal(),
        Paint::Type => Color::Cyan.bold(),
        Paint::Attribute => Color::Yellow.dimmed(),
        Paint::Variable => Color::Cyan.italic(),
    }
}
