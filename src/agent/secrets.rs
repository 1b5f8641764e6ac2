//! The secrets of a question and its answer, hidden from the model and from the record, with their places. Knows no
//! rules.

use std::collections::VecDeque;

use crate::model::{Item, Request};
use crate::redact::{Hidden, Redactor};

/// Limit for the list of hidden secrets; the newest stay.
const FINDINGS_MAX: usize = 500;
/// Limit for the secrets of one question that are reported one by one.
const TOLD_MAX: usize = 3;

/// A secret that was hidden.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// Its place, such as `the output of env`.
    pub place: String,
    /// The kind of the secret.
    pub hidden: Hidden,
}

/// Hides secrets and lists the places, never the secrets themselves.
#[derive(Debug, Default)]
pub(super) struct Secrets {
    pub redactor: Redactor,
    /// The values that the redactor knows.
    values: Vec<(String, String)>,
    findings: VecDeque<Finding>,
    /// Secrets to be reported with the next question.
    untold: Vec<Finding>,
}

impl Secrets {
    /// Knows these values from now on; returns whether that changes anything.
    pub fn know(&mut self, values: Vec<(String, String)>) -> bool {
        if values == self.values {
            return false;
        }
        let hides_personal = self.redactor.hides_personal();
        self.redactor = Redactor::new(values.iter().map(|(name, value)| (name, value))).hiding_personal(hides_personal);
        self.values = values;
        true
    }

    /// Returns a text that is to be sent, without its secrets.
    pub fn hide(&mut self, place: &str, text: &str) -> String {
        let redacted = self.redactor.redact(text);
        self.note(redacted.hidden.into_iter().map(|hidden| Finding { place: place.to_owned(), hidden }), true);
        redacted.text.into_owned()
    }

    /// The same for a text that its person sees without them at once.
    pub fn hide_shown(&mut self, place: &str, text: &str) -> String {
        let redacted = self.redactor.redact(text);
        self.note(redacted.hidden.into_iter().map(|hidden| Finding { place: place.to_owned(), hidden }), false);
        redacted.text.into_owned()
    }

    /// Records hidden secrets; they are reported with the next question if the model would have seen them. A known one
    /// isn't recorded again, because each question sends the conversation again.
    pub fn note(&mut self, findings: impl IntoIterator<Item = Finding>, is_told: bool) {
        for finding in findings {
            if self.findings.contains(&finding) {
                continue;
            }
            if is_told {
                self.untold.push(finding.clone());
            }
            self.findings.push_back(finding);
            if self.findings.len() > FINDINGS_MAX {
                self.findings.pop_front();
            }
        }
    }

    /// Hides secrets in all texts of a request, except in data that a provider wants back unchanged, since they came from the
    /// provider.
    pub fn hide_in(&mut self, request: &mut Request) {
        let mut hide = |place: &str, text: &mut String| {
            let redacted = self.redactor.redact(text);
            if redacted.hidden.is_empty() {
                return;
            }
            let (out, hidden) = (redacted.text.into_owned(), redacted.hidden);
            *text = out;
            self.note(hidden.into_iter().map(|hidden| Finding { place: place.to_owned(), hidden }), true);
        };
        if let Some(system) = &mut request.system {
            hide("the instructions", system);
        }
        for item in &mut request.messages {
            match item {
                Item::System(text) => hide("the instructions", text),
                Item::User(text) => hide("an earlier question", text),
                Item::Assistant { text, calls, .. } => {
                    hide("an earlier answer", text);
                    calls.iter_mut().for_each(|call| hide("a call of a tool", &mut call.arguments));
                }
                Item::Tool(result) => hide("the result of a tool", &mut result.content),
            }
        }
    }

    /// The secrets hidden since the last call, in one line.
    pub fn take_notice(&mut self) -> Option<String> {
        let untold = std::mem::take(&mut self.untold);
        if untold.is_empty() {
            return None;
        }
        let one = |Finding { place, hidden }: &Finding| format!("{} in {place}, line {}", hidden.kind, hidden.line);
        let mut parts: Vec<String> = untold.iter().take(TOLD_MAX).map(one).collect();
        if untold.len() > TOLD_MAX {
            parts.push(format!("{} more", untold.len() - TOLD_MAX));
        }
        Some(format!("[redact] hidden from the model: {}", parts.join("; ")))
    }

    /// The hidden secrets, the oldest first.
    pub fn findings(&self) -> impl Iterator<Item = &Finding> {
        self.findings.iter()
    }
}
