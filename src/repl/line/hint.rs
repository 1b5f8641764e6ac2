//! The suggestion: the rest of the newest line of the history that begins as the one that is typed. What failed isn't
//! suggested.

use nu_ansi_term::Style;
use reedline::{Hinter, History};

use crate::repl::editing::writer::Writer;
use crate::store::{Search, TextMatch};

/// reedline's hinter over the store.
pub(in crate::repl) struct Suggester {
    writer: Writer,
    style: Style,
    rest: String,
}

impl Suggester {
    /// Makes it; suggestions are drawn in `style`.
    pub(in crate::repl) fn new(writer: Writer, style: Style) -> Self {
        Self { writer, style, rest: String::new() }
    }

    fn rest_of(&self, line: &str) -> Option<String> {
        let search = Search {
            text: TextMatch::Prefix(line.to_owned()),
            plain_only: true,
            not_failed: true,
            limit: Some(1),
            ..Search::default()
        };
        let mut store = self.writer.store();
        let found = store.search(&search).unwrap_or_else(|problem| {
            store.note_read_problem(problem);
            Vec::new()
        });
        found.first().and_then(|row| row.entry.line.get(line.len()..)).map(str::to_owned)
    }
}

impl Hinter for Suggester {
    fn handle(&mut self, line: &str, _: usize, _: &dyn History, color: bool, _: &str) -> String {
        self.rest = if line.is_empty() { String::new() } else { self.rest_of(line).unwrap_or_default() };
        if color && !self.rest.is_empty() { self.style.paint(&self.rest).to_string() } else { self.rest.clone() }
    }

    fn complete_hint(&self) -> String {
        self.rest.clone()
    }

    fn next_hint_token(&self) -> String {
        let word = self.rest.trim_start();
        let blanks = self.rest.len() - word.len();
        let first = word.chars().next().unwrap_or(' ');
        let length = match first.is_alphanumeric() {
            true => word.find(|c: char| !c.is_alphanumeric()).unwrap_or(word.len()),
            false => first.len_utf8().min(word.len()),
        };
        self.rest[..blanks + length].to_owned()
    }
}
