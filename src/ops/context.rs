//! The content of the next request, and its size; the notes about a repository that a question carries.

use crate::agent::{Agent, ContextReport};
use crate::project::Notes;
use crate::turn::estimate_tokens;

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

/// The notes about a repository, without secrets.
#[derive(Debug)]
pub struct Card {
    /// Its parts, as a question carries them.
    pub parts: Vec<String>,
    /// Their size, estimated.
    pub tokens: usize,
}

/// Makes the card that a question in a repository carries.
#[must_use]
pub fn card(agent: &Agent, notes: &Notes) -> Card {
    let parts = notes.parts();
    let tokens = parts.iter().map(|part| estimate_tokens(part)).sum();
    Card { parts: parts.into_iter().map(|part| agent.redacted(part)).collect(), tokens }
}
