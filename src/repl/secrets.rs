//! `:redact`: what was hidden from the model, by kind and place; never what it was.

use super::run::Repl;
use crate::ops::commands::{self, Op};
use crate::render::text::table;

impl Repl {
    /// Lists what was hidden in this session.
    pub(super) fn show_redacted(&self) {
        let finding = |found: &crate::agent::Finding| {
            let hidden = &found.hidden;
            let place = format!("{}, line {}", found.place, hidden.line);
            vec![hidden.kind.clone(), format!("{} characters", hidden.length_chars), place]
        };
        let rows: Vec<Vec<String>> = self.runtime.agent().findings().map(finding).collect();
        if rows.is_empty() {
            return self.console.notice("nothing was hidden in this session");
        }
        self.console.write(&table(&rows, self.console.width_columns()));
    }

    /// A meta line as the history keeps it: one whose text is sent or stored without its secrets, others as they are.
    pub(super) fn kept_meta(&self, line: &str, text: &str) -> String {
        match commands::parse(text) {
            Ok((found, _)) if matches!(found.op, Op::Title | Op::Memory) => self.runtime.agent().redacted(line),
            _ => line.to_owned(),
        }
    }
}
