//! `:estop`: stops every tool of a model, and lets a person start them again.

use super::run::{Flow, Repl};
use crate::app;
use crate::estop::Stopped;
use crate::proto::{Failure, FailureKind};
use crate::render::sanitise;

/// What a person says to the question.
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
        let estop = match app::estop(&self.runtime.env) {
            Ok(estop) => estop,
            Err(failure) => {
                self.console.failure(&failure);
                return Flow::Continue;
            }
        };
        let cannot = |what: &str, error: &std::io::Error| Failure {
            kind: FailureKind::Unavailable,
            message: format!("{} can't be {what}: {error}", estop.path().display()),
            hint: "look at it, and at the permissions of its directory".into(),
        };
        match argument {
            "" => match estop.stop() {
                Ok(()) => {
                    tracing::warn!(event = "estop_triggered", by = "shell", shown = true);
                    let why = estop.check().err().map(|stopped| stopped.why).unwrap_or_default();
                    self.console.notice(&format!("{}; :estop clear lets them run again", sanitise(&why)));
                }
                Err(error) => self.console.failure(&cannot("made", &error)),
            },
            "clear" => {
                let Err(Stopped { why }) = estop.check() else {
                    self.console.notice("tools are not stopped");
                    return Flow::Continue;
                };
                self.console.line(&sanitise(&why));
                self.console.line("let tools run again?");
                match self.put_question("yes [y]  no [Enter, Esc]", choice, false) {
                    Err(flow) => return flow,
                    Ok(false) => self.console.line("no: nothing was changed"),
                    Ok(true) => {
                        self.console.line("yes");
                        match estop.clear().map_err(|error| cannot("removed", &error)) {
                            Err(failure) => self.console.failure(&failure),
                            Ok(()) => match estop.check() {
                                Ok(()) => self.console.notice("tools may run again"),
                                Err(stopped) => self.console.failure(&stopped.into()),
                            },
                        }
                    }
                }
            }
            _ => self.console.failure(&Failure {
                kind: FailureKind::User,
                message: format!(":estop doesn't know {argument}"),
                hint: ":estop stops tools, :estop clear lets them run again".into(),
            }),
        }
        Flow::Continue
    }
}
