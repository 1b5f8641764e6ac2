//! `:allow`: what the model may run in this project without a question, and `:tools`: what it may call at all.

use super::run::Repl;
use crate::app::{allowed_commands, allowed_rows, tool_rows};
use crate::proto::{Failure, FailureKind};
use crate::render::text::{escape_visible, table};

impl Repl {
    /// Lists what is allowed for good in the project that the person is in, or takes one back.
    pub(super) fn allow(&mut self, argument: &str) {
        let workspace = self.workspace();
        let mut allowed = match allowed_commands(&self.configured.request.env, &workspace) {
            Ok(allowed) => allowed,
            Err(failure) => return self.console.failure(&failure),
        };
        let (word, rest) = argument.split_once(char::is_whitespace).unwrap_or((argument, ""));
        let user = |message: String, hint: &str| Failure { kind: FailureKind::User, message, hint: hint.to_owned() };
        match (word, rest.trim()) {
            ("" | "list", "") if allowed.rules().is_empty() => {
                let place = escape_visible(&workspace.display().to_string());
                self.console.notice(&format!("nothing is allowed for good in {place}"));
            }
            ("" | "list", "") => {
                let escaped = |row: Vec<String>| row.iter().map(|cell| escape_visible(cell)).collect();
                let rows: Vec<Vec<String>> = allowed_rows(allowed.rules()).into_iter().map(escaped).collect();
                self.console.write(&table(&rows, self.console.width_columns()));
                self.console.notice(":allow remove N takes one back");
            }
            ("remove", which) if !which.is_empty() => match allowed.remove(which) {
                Ok(0) => {
                    let message = format!("nothing is allowed by {}", escape_visible(which));
                    self.console.failure(&user(message, ":allow list lists them"));
                }
                Ok(_) => self.console.notice("taken back; it is asked about again"),
                Err(error) => self.console.failure(&Failure {
                    kind: FailureKind::Unavailable,
                    message: error.to_string(),
                    hint: "nothing was changed".into(),
                }),
            },
            _ => {
                let message = format!(":allow doesn't know {}", escape_visible(argument));
                self.console.failure(&user(message, ":allow list, :allow remove N"));
            }
        }
    }

    /// Lists the tools that the model has here.
    pub(super) fn list_tools(&mut self) {
        self.take_hands();
        match self.agent.hands() {
            None => self.console.notice("the model has no tools here"),
            Some(hands) => {
                let escaped = |row: Vec<String>| row.iter().map(|cell| escape_visible(cell)).collect();
                let rows: Vec<Vec<String>> = tool_rows(hands, &self.settings).into_iter().map(escaped).collect();
                let place = escape_visible(&hands.workspace().display().to_string());
                self.console.write(&table(&rows, self.console.width_columns()));
                self.console.notice(&format!("they work in {place}"));
            }
        }
    }
}
