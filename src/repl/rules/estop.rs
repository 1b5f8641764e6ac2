//! `:estop`: stops every tool of a model, and lets a person start them again.

use crate::estop::Stopped;
use crate::ops::estop;
use crate::proto::Failure;
use crate::render::sanitise;
use crate::repl::hub::{Flow, Repl};

/// Reads the person's answer to the question.
fn choice(keys: &[u8]) -> Option<bool> {
    match keys {
        b"y" | b"Y" => Some(true),
        b"n" | b"N" | b"\r" | b"\n" | b"\x1b" | b"\x03" | b"\x04" => Some(false),
        _ => None,
    }
}

/// Stops tools, or asks whether they may run again.
pub(in crate::repl) fn estop(repl: &mut Repl, argument: &str) -> Flow {
    let env = repl.runtime.env();
    match argument {
        "" => match estop::stop(env, "shell") {
            Ok(why) => repl.console.notice(&format!("{}; :estop clear lets them run again", sanitise(&why))),
            Err(failure) => repl.console.failure(&failure),
        },
        "clear" => match estop::reason(env) {
            Ok(None) => repl.console.notice("tools are not stopped"),
            Ok(Some(why)) => return clear_estop(repl, &why),
            Err(failure) => repl.console.failure(&failure),
        },
        _ => repl.console.failure(
            &Failure::user(format!(":estop doesn't know {argument}"))
                .hint(":estop stops tools, :estop clear lets them run again"),
        ),
    }
    Flow::Continue
}

/// Asks whether tools may run again, and lets them.
fn clear_estop(repl: &mut Repl, why: &str) -> Flow {
    repl.console.line(&sanitise(why));
    repl.console.line("let tools run again?");
    match repl.put_question("yes [y]  no [Enter, Esc]", choice, false) {
        Err(flow) => return flow,
        Ok(false) => repl.console.line("no: nothing was changed"),
        Ok(true) => {
            repl.console.line("yes");
            match estop::clear(repl.runtime.env()).and_then(|()| estop::reason(repl.runtime.env())) {
                Ok(None) => repl.console.notice("tools may run again"),
                Ok(Some(why)) => repl.console.failure(&Stopped { why }.into()),
                Err(failure) => repl.console.failure(&failure),
            }
        }
    }
    Flow::Continue
}
