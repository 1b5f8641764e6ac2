//! `:allow`: what the model may run in this project without a question, and `:tools`: what it may call at all.

use std::path::Path;

use super::run::{Flow, Repl};
use super::state;
use crate::ask::yes_or_no;
use crate::base::text::counted;
use crate::ops::allow::{self, ListedHere};
use crate::proto::{Failure, FailureKind};
use crate::render::text::{escape_visible, table, wrap};

impl Repl {
    /// Lists what is allowed for good in the project that the person is in, or takes one back.
    pub(super) fn allow(&mut self, argument: &str) -> Flow {
        let workspace = self.workspace();
        let env = self.runtime.env();
        let (word, rest) = argument.split_once(char::is_whitespace).unwrap_or((argument, ""));
        let resolved = |file: &str| state::read(&self.state).resolve(file).unwrap_or_else(|| file.into());
        let user = |message: String, hint: &str| Failure { kind: FailureKind::User, message, hint: hint.to_owned() };
        let done = match (word, rest.trim()) {
            ("" | "list", "") => allow::list(env, &workspace).map(|rows| self.show_allowed(rows, &workspace)),
            ("remove", which) if !which.is_empty() => allow::withdraw(env, &workspace, which, ":allow list")
                .map(|_| self.console.notice("withdrawn; you will be asked again")),
            ("export" | "import", "") => {
                let message = format!(":allow {word} needs a file");
                Err(user(message, ":allow export FILE, :allow import FILE"))
            }
            ("export", file) => allow::export(env, &workspace, &resolved(file)).map(|count| {
                self.console.notice(&format!("{} in {}", counted(count, "command"), escape_visible(file)));
            }),
            ("import", file) => {
                let path = resolved(file);
                return self.import_allowed(&path);
            }
            _ => {
                let message = format!(":allow doesn't know {}", escape_visible(argument));
                Err(user(message, ":allow list, remove N, export FILE, import FILE"))
            }
        };
        if let Err(failure) = done {
            self.console.failure(&failure);
        }
        Flow::Continue
    }

    fn show_allowed(&self, rows: Vec<Vec<String>>, workspace: &Path) {
        if rows.is_empty() {
            let place = escape_visible(&workspace.display().to_string());
            return self.console.notice(&format!("nothing is allowed for good in {place}"));
        }
        let escaped = |row: Vec<String>| row.iter().map(|cell| escape_visible(cell)).collect();
        let rows: Vec<Vec<String>> = rows.into_iter().map(escaped).collect();
        self.console.write(&table(&rows, self.console.width_columns()));
        self.console.notice(":allow remove N takes one back");
    }

    /// Shows what of a list may be allowed here and what not, asks, and adds the first.
    fn import_allowed(&mut self, path: &Path) -> Flow {
        self.refresh_tools();
        let Some(runner) = self.runtime.agent_mut().runner() else {
            self.console.notice("the model has no tools here, so nothing can be allowed");
            return Flow::Continue;
        };
        let root = runner.workspace().to_owned();
        let listed = match allow::read_list(runner.gate(), &root, path) {
            Ok(listed) => listed,
            Err(failure) => {
                self.console.failure(&failure);
                return Flow::Continue;
            }
        };
        for it in &listed {
            self.console.line(&wrap(&it.line(), self.console.width_columns(), "    "));
        }
        let fits: Vec<&ListedHere> = listed.iter().filter(|it| it.program.is_ok()).collect();
        if fits.is_empty() {
            self.console.notice("nothing of it can be allowed here");
            return Flow::Continue;
        }
        let which = if fits.len() == 1 { "it".to_owned() } else { format!("these {}", fits.len()) };
        self.console.line(&format!("allow {which} for good in this project?"));
        let yes = match self.put_question("yes [y]  no [n, Enter]", yes_or_no, None) {
            Ok(said) => said.unwrap_or(false),
            Err(flow) => return flow,
        };
        self.console.line(if yes { "yes" } else { "no" });
        for ListedHere { command, cwd, .. } in fits.into_iter().filter(|_| yes) {
            if let Some(Err(why)) = self.runtime.agent_mut().runner().map(|runner| runner.gate().allow(command, cwd)) {
                self.console.failure(&Failure {
                    kind: FailureKind::Unavailable,
                    message: format!("{}: {why}", escape_visible(command)),
                    hint: String::new(),
                });
            }
        }
        Flow::Continue
    }

    /// Lists the tools that the model has here.
    pub(super) fn list_tools(&mut self) {
        self.refresh_tools();
        let workspace = self.runtime.agent_mut().runner().map(|runner| runner.workspace().to_owned());
        let Some((rows, workspace)) = self.runtime.tool_rows().zip(workspace) else {
            return self.console.notice("the model has no tools here");
        };
        let escaped = |row: Vec<String>| row.iter().map(|cell| escape_visible(cell)).collect();
        let rows: Vec<Vec<String>> = rows.into_iter().map(escaped).collect();
        self.console.write(&table(&rows, self.console.width_columns()));
        self.console.notice(&format!("they work in {}", escape_visible(&workspace.display().to_string())));
    }
}
