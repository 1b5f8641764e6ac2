//! Commands that are allowed for good without a question of a model: the same ones that "always" may be said to, held
//! against the policy and the programs as they are now.

use std::path::{Path, PathBuf};

use serde_json::json;

use super::{AllowedError, Call, Gate, may_always, reasons};
use crate::proto::action::Action;

impl Gate {
    /// Finds the program of a command that may be allowed for good in `cwd`. Nothing is changed.
    ///
    /// # Errors
    /// Why it may not be, in words.
    pub fn may_allow(&self, command: &str, cwd: &Path) -> Result<PathBuf, String> {
        let action = Action::Shell { command: command.to_owned() };
        let arguments = json!({"command": command});
        let call = Call {
            tool: "shell".into(),
            arguments,
            action,
            preview: String::new(),
            changes: [].into(),
            conversation: None,
            needs: Vec::new(),
        };
        let verdict = self.verdict(&call, cwd, true);
        if !may_always(&call, &verdict) {
            return Err(format!("it is asked about each time: {}", reasons(&verdict)));
        }
        self.program(&call, cwd).ok_or_else(|| "there is no such program".to_owned())
    }

    /// Allows a command for good in `cwd`, by the program that it stands for now.
    ///
    /// # Errors
    /// It may not be allowed, or the rule can't be kept.
    pub fn allow(&mut self, command: &str, cwd: &Path) -> Result<(), String> {
        let program = self.may_allow(command, cwd)?;
        self.options.allowed.add(command, cwd, &program).map_err(|error: AllowedError| error.to_string())
    }
}
