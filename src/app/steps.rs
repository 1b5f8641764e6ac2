//! Settings to steps: their place and limits; finishes the work that a crash interrupted.

use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::config::{Env, Settings, config_directory, data_directory, state_directory};
use crate::files::{Journals, Recovery};
use crate::proto::{Failure, FailureKind};
use crate::sandbox;
use crate::steps::{Limits, Steps, StepsError};

/// Time limit for a look at the workspace; a workspace that is too large for it isn't covered.
const LOOK_TIME: Duration = Duration::from_secs(2);
/// Time limit for reading contents at one look; the next look reads the rest.
const READ_TIME: Duration = Duration::from_secs(2);

/// Time limit for comparing files with git's index while a command waits.
const COMPARE_TIME: Duration = Duration::from_millis(150);

/// The steps of a workspace.
///
/// # Errors
/// There is no state directory, or no such workspace.
pub fn steps(settings: &Settings, env: &Env, workspace: &Path) -> Result<Steps, Failure> {
    let state = state_directory(env)
        .ok_or_else(|| Failure::unavailable("no HOME is set, so steps have no place").hint("set HOME"))?;
    if !workspace.exists() {
        return Err(Failure::user(format!("no step is recorded: there is no directory {}", workspace.display())));
    }
    let undo = &settings.undo;
    let limits = Limits {
        bytes_max: undo.bytes_max,
        file_bytes_max: undo.file_bytes_max,
        files_max: undo.files_max,
        look_time: LOOK_TIME,
        read_time: READ_TIME,
        compare_time: COMPARE_TIME,
    };
    let home = env.get(std::ffi::OsStr::new("HOME")).map(PathBuf::from).unwrap_or_else(|| "/".into());
    let own = [config_directory(env), data_directory(env), state_directory(env)].into_iter().flatten();
    let left_out: Vec<PathBuf> = sandbox::credentials(&home).into_iter().chain(own).collect();
    Steps::new(&state, workspace, limits, &left_out).map_err(|error| steps_failure(&error, "reedclaw "))
}

/// A failure of steps for a person; `prefix` is the text before a command: `:` or `reedclaw `.
#[must_use]
pub fn steps_failure(error: &StepsError, prefix: &str) -> Failure {
    let list = format!("{prefix}steps lists them");
    let (kind, hint) = match error {
        StepsError::Nothing(_) => (FailureKind::User, list.as_str()),
        StepsError::Conflicts(_) => {
            (FailureKind::Refused, "nothing was changed; with --force it is overwritten, and saved as a separate step")
        }
        StepsError::Running(_) | StepsError::Busy => (FailureKind::Unavailable, "try again when it has ended"),
        StepsError::Missing(_) => {
            (FailureKind::Unavailable, "nothing was changed; a step before it may still be whole")
        }
        _ => (FailureKind::Unavailable, "nothing was changed"),
    };
    Failure::new(kind, error.to_string()).hint(hint)
}

/// Finishes the work that interrupted sessions left in `workspace`: accepted edits in any directory, an undo, a command
/// that was cut off. Returns a line for each.
#[must_use]
pub fn recover(settings: &Settings, env: &Env, workspace: &Path) -> Vec<String> {
    let Some(state) = state_directory(env) else { return Vec::new() };
    let mut lines: Vec<String> = edit_journals(&state).recover().iter().filter_map(recovery_line).collect();
    if settings.undo.enabled
        && let Ok(mut steps) = steps(settings, env, workspace)
    {
        lines.append(&mut steps.recover().unwrap_or_default());
    }
    lines
}

/// The notice about a change that a crash interrupted; `None` if it hadn't begun.
fn recovery_line(recovery: &Recovery) -> Option<String> {
    let Recovery { root, finished, left } = recovery;
    let names = |paths: &[PathBuf]| paths.iter().map(|path| path.display().to_string()).collect::<Vec<_>>().join(", ");
    let finish = match &finished[..] {
        [] => String::new(),
        paths => format!("; it is finished now: {}", names(paths)),
    };
    let leave = match &left[..] {
        [] => String::new(),
        paths => format!("; left as they are, for they have changed since: {}", names(paths)),
    };
    let message = format!("a change that you had accepted in {} was cut off{finish}{leave}", root.display());
    (!finished.is_empty() || !left.is_empty()).then_some(message)
}

/// The place of the journals of edits, below the state directory.
pub(super) fn edit_journals(state: &Path) -> Journals {
    Journals::new(state.join("edits"))
}
