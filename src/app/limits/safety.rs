//! The guards of tools: the place of receipts, and the emergency stop. Both belong to the user's state directory.

use crate::config::{self, Env, Settings};
use crate::estop::Estop;
use crate::proto::Failure;
use crate::receipts;

/// The emergency stop of this user.
///
/// # Errors
/// Without a home directory there is no state directory; then no tool may run.
pub fn estop(env: &Env) -> Result<Estop, Failure> {
    config::state_directory(env).map(Estop::new).ok_or_else(no_state)
}

/// The place and the settings of the receipts; `None` if the config switches them off.
///
/// # Errors
/// Without a home directory there is no state directory; then no tool may run.
pub fn receipt_options(settings: &Settings, env: &Env) -> Result<Option<receipts::Options>, Failure> {
    let receipts = &settings.receipts;
    if !receipts.enabled {
        return Ok(None);
    }
    let state = config::state_directory(env).ok_or_else(no_state)?;
    let state = receipts.anchors.clone().unwrap_or(state);
    let path = receipts.path.clone().unwrap_or_else(|| receipts::default_path(&state));
    Ok(Some(receipts::Options { hmac: receipts.hmac, syslog: true, ..receipts::Options::new(path, state) }))
}

/// The calls of earlier sessions with an unknown outcome, one line each; each is reported once.
#[must_use]
pub fn unknown_outcomes(settings: &Settings, env: &Env) -> Vec<String> {
    let Ok(Some(options)) = receipt_options(settings, env) else { return Vec::new() };
    // If the log can't be read, the first call of a tool reports it, and so does doctor.
    let unknown = receipts::take_unknown(&options).unwrap_or_default();
    let line = |open: &receipts::OpenIntent| {
        let (receipt, tool) = (open.id.as_str(), open.tool.as_str());
        tracing::warn!(event = "outcome_unknown", receipt, tool, shown = true);
        format!("unknown outcome: {} at {} was begun and never finished ({})", open.tool, open.timestamp, open.id)
    };
    unknown.iter().map(line).collect()
}

fn no_state() -> Failure {
    Failure::unavailable("no HOME is set, so there is no state directory")
        .hint("set HOME, or XDG_STATE_HOME to an absolute path; without it no tool runs")
}
