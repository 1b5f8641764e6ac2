//! `:redact`: what was hidden from the model, by kind and place; never what it was.

use crate::ops::commands::{self, Op};
use crate::render::text::table;
use crate::repl::hub::Repl;

/// Lists what was hidden in this session.
pub(in crate::repl) fn show_redacted(repl: &Repl) {
    let finding = |found: &crate::agent::Finding| {
        let hidden = &found.hidden;
        let place = format!("{}, line {}", found.place, hidden.line);
        vec![hidden.kind.clone(), format!("{} characters", hidden.length_chars), place]
    };
    let rows: Vec<Vec<String>> = repl.runtime.agent().findings().map(finding).collect();
    if rows.is_empty() {
        return repl.console.notice("nothing was hidden in this session");
    }
    repl.console.write(&table(&rows, repl.console.width_columns()));
}

/// Returns a meta line for the history: without its secrets if its text is sent or stored, else as it is.
pub(in crate::repl) fn kept_meta(repl: &Repl, line: &str, text: &str) -> String {
    match commands::parse(text) {
        Ok((found, _)) if matches!(found.op, Op::Title | Op::Memory) => repl.runtime.agent().redacted(line),
        _ => line.to_owned(),
    }
}
