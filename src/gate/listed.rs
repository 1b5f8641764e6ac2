//! Commands that a person allows permanently without a model's question: the same commands for which "always" is a
//! possible answer, checked against the policy and the programs of this moment.

use std::path::{Path, PathBuf};

use serde_json::json;

use super::{AllowedError, Call, Gate, may_always, reasons};
use crate::proto::action::Action;

impl Gate {
    /// Finds the program of a command that may be allowed permanently in `cwd`. Nothing is changed.
    ///
    /// # Errors
    /// The reason against it, in words.
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

    /// Allows commands permanently, each in its directory and with the program that its first word means now: all of them, or none if
    /// there is an error.
    ///
    /// # Errors
    /// One may not be allowed, or the rules can't be written.
    pub fn allow(&mut self, commands: &[(&str, &Path)]) -> Result<(), String> {
        let mut found = Vec::new();
        for (command, cwd) in commands {
            let program = self.may_allow(command, cwd).map_err(|why| format!("{command}: {why}"))?;
            found.push((*command, *cwd, program));
        }
        self.options.allowed.add_all(&found).map_err(|error: AllowedError| error.to_string())
    }
}
