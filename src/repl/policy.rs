//! `:policy`: what a model may do and where each rule comes from, and what a command of it would be judged.

use super::run::Repl;
use crate::app::{policy_rules, sandbox_name};
use crate::ops::policy::{explain, verdict_lines};
use crate::policy::Rules;
use crate::proto::{Failure, FailureKind};
use crate::render::sanitise;

impl Repl {
    /// The rules that hold now.
    fn policy_rules(&self) -> Rules {
        policy_rules(self.runtime.settings(), self.runtime.env(), self.runtime.config().path.as_deref())
    }

    /// `:policy`, `:policy explain CMD`.
    pub(super) fn policy(&self, argument: &str) {
        let (word, command) = argument.split_once(char::is_whitespace).unwrap_or((argument, ""));
        match (word, command.trim()) {
            ("", _) => self.show_policy(),
            ("explain", command) if !command.is_empty() => {
                let workspace = self.workspace().display().to_string();
                let rules = Rules { workspace, ..self.policy_rules() };
                for line in verdict_lines(&explain(&rules, command)) {
                    self.console.outside(&format!("{line}\n"));
                }
                self.console.notice("a command of a model is judged so; what you type runs as you typed it");
            }
            _ => self.console.failure(&Failure {
                kind: FailureKind::User,
                message: format!(":policy {} is nothing", sanitise(argument)),
                hint: ":policy, or :policy explain CMD".into(),
            }),
        }
    }

    fn show_policy(&self) {
        let rows = self.configured.effective.rows();
        let rows = rows.iter().filter(|row| row.key.starts_with("security.") || row.key == "workspace_dir");
        let text: String = rows
            .map(|row| format!("{}\n", sanitise(&format!("{} = {}  -- {}", row.key, row.value, row.origin))))
            .collect();
        self.console.write(&text);
        let own: Vec<String> = self.policy_rules().own_paths.iter().map(|path| sanitise(path).into_owned()).collect();
        self.console.paragraph(&format!("never touched by a model: {}", own.join(", ")));
        let workspace = self.workspace().display().to_string();
        self.console.paragraph(&format!("tools work here in: {}", sanitise(&workspace)));
        self.console.paragraph(&format!(
            "sandbox of its commands: {}",
            sandbox_name(self.runtime.settings(), self.runtime.env(), self.runtime.cwd())
        ));
        self.console.notice(":policy explain CMD says what a command would be judged, and runs nothing");
    }
}
