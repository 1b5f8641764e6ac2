//! reedline's slots that also report to the pump: whether an Enter was accepted, and each drawing of the editor.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use reedline::{Highlighter, StyledText, ValidationResult, Validator};

use crate::bash::open_document;
use crate::proto::{Route, RouteVerdict};
use crate::repl::editing::complete::{Candidate, LiveCompletion};
use crate::repl::editing::highlight::{Palette, paint};
use crate::repl::editing::prompt::Heading;
use crate::repl::editing::state::{self, EditorState, SharedState};
use crate::repl::editing::validate::ShellValidator;
use crate::shell::{Asked, Handle};

/// The validator, which also reports to the pump whether an Enter was accepted.
pub struct ToldValidator {
    inner: ShellValidator,
    pump: Handle,
}

impl ToldValidator {
    pub(in crate::repl) fn new(state: SharedState, pump: Handle) -> Self {
        Self { inner: ShellValidator::new(state), pump }
    }
}

impl Validator for ToldValidator {
    fn validate(&self, line: &str) -> ValidationResult {
        let result = self.inner.validate(line);
        match result {
            ValidationResult::Complete => self.pump.editor_accepted(),
            ValidationResult::Incomplete => self.pump.line_continues(),
        }
        result
    }
}

/// The highlighter, which also shows the route of the line, and reports that the editor has drawn itself.
pub struct ToldHighlighter {
    palette: Option<Palette>,
    state: SharedState,
    heading: Heading,
    pump: Handle,
    document: Arc<Mutex<Option<String>>>,
}

impl ToldHighlighter {
    pub(in crate::repl) fn new(
        state: SharedState,
        palette: Option<Palette>,
        heading: Heading,
        pump: Handle,
        document: Arc<Mutex<Option<String>>>,
    ) -> Self {
        Self { palette, state, heading, pump, document }
    }
}

/// Shows the route of a line in the prompt.
pub(in crate::repl) fn tell_heading(heading: &Heading, line: &str, verdict: &RouteVerdict, state: &EditorState) {
    let modal = matches!(verdict.rule, "mode" | "prefixes-decide");
    let natural = modal.then(|| state.natural_verdict(line).route);
    heading.set(line, verdict, natural.filter(|natural| *natural != verdict.route));
}

impl Highlighter for ToldHighlighter {
    fn highlight(&self, line: &str, cursor: usize) -> StyledText {
        self.pump.editor_drawn();
        let state = state::read(&self.state);
        // Glyph and colours share one verdict, since a hook of the user's may take part in it.
        let verdict = state.verdict(line);
        tell_heading(&self.heading, line, &verdict, &state);
        let may_be_open = line.ends_with('\n') && cursor == line.len() && line.contains("<<");
        let open = || open_document(&verdict.text).filter(|_| verdict.route == Route::Shell && !state.other_grammar);
        *self.document.lock() = may_be_open.then(open).flatten();
        if state.asks_about_failure(line) {
            self.pump.nudge();
        }
        let pieces = match &self.palette {
            Some(palette) => paint(line, &verdict, &state, palette),
            None => vec![(nu_ansi_term::Style::new(), line)],
        };
        let mut styled = StyledText::new();
        pieces.into_iter().for_each(|(style, text)| styled.push((style, without_controls(text))));
        styled
    }
}

/// Draws control characters, which a paste may hold, as marks of the same length in bytes: the terminal would obey
/// them, and reedline cuts what is drawn by the line's own byte positions.
fn without_controls(text: &str) -> String {
    let mark = |c: char| match c {
        '\n' | '\r' | '\t' => c,
        _ if c.is_control() && c.len_utf8() == 1 => '?',
        _ if c.is_control() => '¿',
        _ => c,
    };
    text.chars().map(mark).collect()
}

/// The live shell's programmable completion, within a time limit.
pub struct ShellCompletion {
    pub(in crate::repl) pump: Handle,
    /// Flag that the loop checks: the shell is to complete by itself.
    pub(in crate::repl) by_itself: Arc<AtomicBool>,
    pub(in crate::repl) timeout: Duration,
}

impl LiveCompletion for ShellCompletion {
    fn complete(&mut self, line: &str, position_bytes: usize) -> Vec<Candidate> {
        let found = self.pump.ask(Asked::Completion(line.to_owned(), position_bytes), self.timeout);
        found.into_iter().filter_map(|text| candidate(&text)).collect()
    }

    fn value(&mut self, text: &str) -> Option<String> {
        self.pump.ask(Asked::Value(text.to_owned()), self.timeout).into_iter().next()
    }

    fn hand_over(&mut self) {
        self.by_itself.store(true, Ordering::Relaxed);
        self.pump.nudge();
    }

    fn users(&mut self, typed: &str) -> Vec<String> {
        self.pump.ask(Asked::Users(typed.to_owned()), self.timeout)
    }
}

/// Reads a candidate as a shell reports it: the word, and after a tab its description.
fn candidate(text: &str) -> Option<Candidate> {
    let (value, description) = text.split_once('\t').map_or((text, None), |(value, rest)| (value, Some(rest)));
    let value = value.trim_end_matches(' ');
    if value.is_empty() || crate::render::text::has_hidden(value) {
        return None;
    }
    Some(Candidate {
        value: value.to_owned(),
        description: description.map(|text| crate::render::sanitise(text).replace('\n', " ")),
        append_space: !value.ends_with(['/', '=', ':']),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_candidate_has_a_word_and_perhaps_a_description() {
        let got = candidate("checkout\tSwitch branches").unwrap();
        assert_eq!(
            (got.value.as_str(), got.description.as_deref(), got.append_space),
            ("checkout", Some("Switch branches"), true)
        );
        assert!(!candidate("--format=").unwrap().append_space);
        assert!(candidate("\x1b[31mred").is_none());
        assert!(candidate(" ").is_none());
    }
}
