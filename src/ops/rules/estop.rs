//! The emergency stop: stops every tool of a model, reports whether they are stopped, and lets them run again.

use std::io;

use crate::app;
use crate::config::Env;
use crate::estop::Estop;
use crate::proto::Failure;

/// Stops every tool, and returns the reason that tools report from now on. `face` is the face that stopped them, for the log.
///
/// # Errors
/// There is no state directory, or the stop can't be written there.
pub fn stop(env: &Env, face: &'static str) -> Result<String, Failure> {
    let estop = app::estop(env)?;
    estop.stop().map_err(|error| cannot(&estop, "made", &error))?;
    tracing::warn!(event = "estop_triggered", by = face, shown = true);
    Ok(estop.check().err().map(|stopped| stopped.why).unwrap_or_default())
}

/// Returns the reason why tools are stopped; `None` if they may run.
///
/// # Errors
/// There is no state directory.
pub fn reason(env: &Env) -> Result<Option<String>, Failure> {
    Ok(app::estop(env)?.check().err().map(|stopped| stopped.why))
}

/// Returns whether tools are stopped; they count as stopped if that can't be known.
#[must_use]
pub fn is_on(env: &Env) -> bool {
    reason(env).map_or(true, |reason| reason.is_some())
}

/// The time since when tools are stopped, and the face that stopped them, as far as that is noted.
#[must_use]
pub fn noted(env: &Env) -> Option<(String, String)> {
    app::estop(env).ok()?.noted()
}

/// Lets tools run again. A face calls this only after a person's yes.
///
/// # Errors
/// There is no state directory, or the stop can't be removed.
pub fn clear(env: &Env) -> Result<(), Failure> {
    let estop = app::estop(env)?;
    estop.clear().map_err(|error| cannot(&estop, "removed", &error))
}

/// Describes whether tools may run.
#[must_use]
pub fn status(reason: Option<String>) -> String {
    reason.unwrap_or_else(|| "tools may run: no emergency stop".to_owned())
}

fn cannot(estop: &Estop, what: &str, error: &io::Error) -> Failure {
    Failure::unavailable(format!("{} can't be {what}: {error}", estop.path().display()))
        .hint("look at it, and at the permissions of its directory")
}
