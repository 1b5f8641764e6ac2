//! `:estop`: stops every tool of a model, and lets a person start them again.

use super::run::{Flow, Repl};
use crate::estop::Stopped;
use crate::ops::estop;
use crate::proto::{Failure, FailureKind};
use crate::render::sanitise;

/// Reads the person's answer to the question.
fn choice(keys: &[u8]) -> Option<bool> {
    match keys {
        b"y" | b"Y" => Some(true),
        b"n" | b"N" | b"\r" | b"\n" | b"\x1b" | b"\x03" | b"\x04" => Some(false),
        _ => None,
    }
}

impl Repl {
    /// Stops tools, or asks whether they may run again.
    pub(super) fn estop(&mut self, argument: &str) -> Flow {
        let env = self.runtime.env();
        match argument {
            "" => match estop::stop(env, "shell") {
                Ok(why) => self.console.notice(&format!("{}; :estop clear lets them run again", sanitise(&why))),
                Err(failure) => self.console.failure(&failure),
            },
            "clear" => match estop::reason(env) {
                Ok(None) => self.console.notice("tools are not stopped"),
                Ok(Some(why)) => return self.clear_estop(&why),
                Err(failure) => self.console.failure(&failure),
            },
            _ => self.console.failure(&Failure {
                kind: FailureKind::User,
                message: format!(":estop doesn't know {argument}"),
                hint: ":estop stops tools, :estop clear lets them run again".into(),
            }),
        }
        Flow::Continue
    }

    /// Asks whether tools may run again, and lets them.
    fn clear_estop(&mut self, why: &str) -> Flow {
        self.console.line(&sanitise(why));
        self.console.line("let tools run again?");
        match self.put_question("yes [y]  no [Enter, Esc]", choice, false) {
            Err(flow) => return flow,
            Ok(false) => self.console.line("no: nothing was changed"),
            Ok(true) => {
                self.console.line("yes");
                match estop::clear(self.runtime.env()).and_then(|()| estop::reason(self.runtime.env())) {
                    Ok(None) => self.console.notice("tools may run again"),
                    Ok(Some(why)) => self.console.failure(&Stopped { why }.into()),
                    Err(failure) => self.console.failure(&failure),
                }
            }
        }
        Flow::Continue
    }
}
