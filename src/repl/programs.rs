//! Keeps the list of programs on `PATH` fresh on a thread of its own, so that no prompt waits for a directory.

use std::ffi::OsString;
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, PoisonError};

use super::state::SharedState;
use crate::proto::Names;
use crate::shell::Handle;
use crate::shell::programs::Programs;

/// The thread; it ends when this is dropped.
pub(super) struct ProgramsThread {
    requests: Sender<Option<OsString>>,
}

impl ProgramsThread {
    /// Starts it. Where the system has no thread left, the list stays as it is.
    pub(super) fn start(state: SharedState, pump: Handle) -> Self {
        let (requests, incoming) = channel::<Option<OsString>>();
        let work = move || {
            let mut programs = Programs::new();
            let mut path = OsString::new();
            let mut first = true;
            while let Ok(mut request) = incoming.recv() {
                // Only the newest request counts.
                while let Ok(newer) = incoming.try_recv() {
                    request = newer.or(request);
                }
                if let Some(new) = request {
                    path = new;
                }
                let list = programs.refresh(&path);
                let mut state = state.write().unwrap_or_else(PoisonError::into_inner);
                if !Arc::ptr_eq(&state.names.programs, &list) {
                    state.names = Arc::new(Names { programs: list, ..Names::clone(&state.names) });
                    drop(state);
                    if std::mem::take(&mut first) {
                        // The line that is being typed was drawn without the list.
                        pump.nudge();
                    }
                }
            }
        };
        // A thread that can't start drops its receiver; requests then go nowhere.
        let _ = std::thread::Builder::new().name("programs".into()).spawn(work);
        Self { requests }
    }

    /// Asks for a fresh list, of a new `PATH` where one is given.
    pub(super) fn refresh(&self, path: Option<OsString>) {
        let _ = self.requests.send(path);
    }
}

/// The builtins and reserved words of every bash, for the time until the live shell has told its own.
#[must_use]
pub fn first_names() -> Names {
    const BUILTINS: &str = ". : [ alias bg bind break builtin caller cd command compgen complete compopt continue declare \
        dirs disown echo enable eval exec exit export false fc fg getopts hash help history jobs kill let local logout \
        mapfile popd printf pushd pwd read readarray readonly return set shift shopt source suspend test times trap true \
        type typeset ulimit umask unalias unset wait";
    const KEYWORDS: &str = "! [[ ]] case coproc do done elif else esac fi for function if in select then time until while \
        { }";
    let words = |list: &str| list.split_whitespace().map(str::to_owned).collect();
    Names { builtins: words(BUILTINS), keywords: words(KEYWORDS), ..Names::default() }
}
