//! Keeps the list of programs on `PATH` fresh on a thread of its own, so that no prompt waits for a directory.

use std::cell::{Cell, OnceCell, RefCell};
use std::ffi::OsString;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::time::Duration;

use crate::proto::Names;
use crate::repl::editing::state::SharedState;
use crate::shell::Handle;
use crate::shell::programs::Programs;

/// Time for which the first look at thousands of files leaves the processors to the first prompt and to the shell's
/// start. The shell's own report, which comes when it is ready, ends it.
const FIRST_PROMPT: Duration = Duration::from_millis(20);

/// The thread. It begins with the first request, and ends when this is dropped.
pub(in crate::repl) struct ProgramsThread {
    state: SharedState,
    pump: Handle,
    requests: OnceCell<Sender<Option<OsString>>>,
    asked: Cell<u64>,
    /// The newest `PATH`.
    path: RefCell<Option<OsString>>,
    progress: Arc<Progress>,
}

/// Progress of the thread.
#[derive(Default)]
struct Progress {
    /// Number of requests that it has answered.
    answered: AtomicU64,
    /// True if the loop waits for an answer.
    awaited: AtomicBool,
}

impl ProgramsThread {
    /// Makes it; the thread begins later.
    pub(in crate::repl) fn new(state: SharedState, pump: Handle) -> Self {
        Self {
            state,
            pump,
            requests: OnceCell::new(),
            asked: Cell::new(0),
            path: RefCell::default(),
            progress: Arc::default(),
        }
    }

    /// Begins the thread. If the system has no thread left, the list stays as it is.
    fn begin(&self) -> Sender<Option<OsString>> {
        let (requests, incoming) = channel::<Option<OsString>>();
        let (state, pump, shared) = (SharedState::clone(&self.state), self.pump.clone(), Arc::clone(&self.progress));
        let work = move || {
            let mut programs = Programs::new();
            let mut path = OsString::new();
            let mut first = true;
            while let Ok(mut request) = incoming.recv() {
                let mut requests = 1;
                if first && let Ok(newer) = incoming.recv_timeout(FIRST_PROMPT) {
                    request = newer.or(request);
                    requests += 1;
                }
                // Only the newest request counts.
                while let Ok(newer) = incoming.try_recv() {
                    request = newer.or(request);
                    requests += 1;
                }
                if let Some(new) = request {
                    path = new;
                }
                let list = programs.refresh(&path);
                let mut state = state.write();
                if !Arc::ptr_eq(&state.names.programs, &list) {
                    state.names = Arc::new(Names { programs: list, ..Names::clone(&state.names) });
                }
                drop(state);
                shared.answered.fetch_add(requests, Ordering::AcqRel);
                // The line that is being typed was drawn without the first list.
                if std::mem::take(&mut first) || shared.awaited.swap(false, Ordering::AcqRel) {
                    pump.nudge();
                }
            }
        };
        if std::thread::Builder::new().name("programs".into()).spawn(work).is_err() {
            // Requests go nowhere; nothing may wait for an answer.
            self.progress.answered.store(u64::MAX, Ordering::Release);
        }
        requests
    }

    /// Asks for a fresh list, of a new `PATH` if there is one.
    pub(in crate::repl) fn refresh(&self, path: Option<OsString>) {
        self.asked.set(self.asked.get() + 1);
        path.iter().for_each(|path| drop(self.path.replace(Some(path.clone()))));
        let _ = self.requests.get_or_init(|| self.begin()).send(path);
    }

    /// Asks for the list of the session's first `PATH`, unless the shell has reported its own already.
    pub(in crate::repl) fn refresh_first(&self, path: Option<OsString>) {
        if self.path().is_none() {
            self.refresh(path);
        }
    }

    /// `PATH` of the live shell, as far as it is known.
    pub(in crate::repl) fn path(&self) -> Option<OsString> {
        self.path.borrow().clone()
    }

    /// Returns whether all requests for a fresh list are answered; if not, the pump is nudged once they are.
    pub(in crate::repl) fn is_fresh(&self) -> bool {
        let fresh = || self.progress.answered.load(Ordering::Acquire) >= self.asked.get();
        if fresh() {
            return true;
        }
        self.progress.awaited.store(true, Ordering::Release);
        // It may have answered just before it could see that it is awaited.
        fresh()
    }
}

/// The builtins and reserved words of every bash, for the time until the live shell has listed its own.
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::repl::editing::state::EditorState;
    use crate::shell::Session;

    /// A quick shell may report before the first prompt is drawn.
    #[test]
    fn first_path_doesnt_replace_the_shells_own() {
        let session = Session::of_events([]).expect("a session");
        let programs = ProgramsThread::new(SharedState::new(EditorState::default().into()), session.handle());
        programs.refresh(Some("/of-the-shell".into()));
        programs.refresh_first(Some("/of-the-start".into()));
        assert_eq!(programs.path(), Some("/of-the-shell".into()));
    }
}
