//! The content of the next request, and its size.

use crate::agent::ContextReport;

/// The parts of the next request as the rows of a table: tokens, share of the window, name; the last row, `total`, is their
/// sum.
#[must_use]
pub fn rows(report: &ContextReport, total: &str) -> Vec<Vec<String>> {
    let window = report.window_tokens.max(1);
    let row = |name: &str, tokens: usize| {
        vec![tokens.to_string(), format!("{} %", (tokens * 100).div_ceil(window)), name.to_owned()]
    };
    let parts = report.parts.iter().map(|part| row(&part.name, part.tokens));
    parts.chain([row(total, report.parts.iter().map(|part| part.tokens).sum())]).collect()
}
