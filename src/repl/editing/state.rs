//! State that the line editor's slots share: the live shell's names, its directory, and the route that the user's key
//! forces. It must not know how the facts were found; the loop writes them, the slots read.

use parking_lot::{RwLock, RwLockReadGuard};
use std::collections::HashMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use crate::base::program::{is_executable, is_program};
use crate::config::RouteMode;
use crate::proto::{Names, Route, RouteVerdict};
use crate::route::{self, Context, Forced, Weights};
use crate::store::RouteMemory;

/// Words of a line that are looked up one by one while the list of programs isn't made yet.
const FIRST_WORDS_MAX: usize = 16;

/// The slots' knowledge of the session.
#[derive(Clone, Debug, Default)]
pub struct EditorState {
    /// The live shell isn't bash: it alone says whether a line is complete.
    pub other_grammar: bool,
    /// The names that the live shell resolves.
    pub names: Arc<Names>,
    /// The live shell's working directory.
    pub cwd: PathBuf,
    /// The directory of `~`.
    pub home: Option<PathBuf>,
    /// Place to which Ctrl-T sends the line.
    pub forced: Option<Route>,
    /// True if the model's last answer ended with a question.
    pub model_asked: bool,
    /// Place where programs are looked for while their list isn't made yet.
    pub first_path: Option<OsString>,
    /// The config's hook that may decide where a line goes.
    pub route_hook: Option<RouteHook>,
    /// The deciding mode: `route.mode`, until `:mode` says otherwise.
    pub mode: RouteMode,
    /// The last command failed, and the model can be asked why.
    pub failed: bool,
    /// The effects of the user's own answers.
    pub learned: Arc<Learned>,
    /// This session's number in the history.
    pub session: i64,
    /// This machine's name.
    pub host: Option<String>,
    /// The shell's own line editor is to complete the line: its completion draws for itself.
    pub shell_completes: Arc<AtomicBool>,
}

/// The effects of the user's own answers: lines that went the other way, and the weights.
#[derive(Clone, Debug)]
pub struct Learned {
    /// Lines, trimmed, and where each was sent.
    pub answers: HashMap<String, Route>,
    /// The built-in weights, moved a little.
    pub weights: Weights,
}

impl Learned {
    /// Makes it from the stored answers and weights.
    #[must_use]
    pub fn of(memory: RouteMemory) -> Self {
        let mut weights = Weights::built_in().clone();
        memory.weights.iter().for_each(|(index, steps)| weights.shift(*index, *steps));
        let way = |to_shell| if to_shell { Route::Shell } else { Route::Ask };
        let answers = memory.answers.into_iter().map(|(line, shell)| (line, way(shell))).collect();
        Self { answers, weights }
    }
}

impl Default for Learned {
    fn default() -> Self {
        Self { answers: HashMap::new(), weights: Weights::built_in().clone() }
    }
}

/// The config's hook that may say where a line goes.
#[derive(Clone)]
pub struct RouteHook(Arc<AskRoute>);

type AskRoute = dyn Fn(&str) -> Option<Route> + Send + Sync;

impl RouteHook {
    /// Wraps the function that calls the hook.
    pub fn new(ask: impl Fn(&str) -> Option<Route> + Send + Sync + 'static) -> Self {
        Self(Arc::new(ask))
    }

    /// Asks the hook, unless a prefix of the user's decides.
    fn ask(&self, line: &str) -> Option<Route> {
        let trimmed = line.trim();
        let is_prefixed = trimmed.is_empty() || trimmed.starts_with([':', '!', '?']) || trimmed.starts_with("$ ");
        if is_prefixed { None } else { (self.0)(line) }
    }
}

impl std::fmt::Debug for RouteHook {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("RouteHook")
    }
}

/// The state as the slots hold it.
pub type SharedState = Arc<RwLock<EditorState>>;

impl EditorState {
    /// Returns where `line` goes, and why.
    #[must_use]
    pub fn verdict(&self, line: &str) -> RouteVerdict {
        self.with_context(line, |context| route::decide(line, context))
    }

    /// Returns where `line` would go if neither a key nor a mode forced it.
    #[must_use]
    pub fn natural_verdict(&self, line: &str) -> RouteVerdict {
        self.with_context(line, |context| route::decide(line, &Context { forced: None, ..*context }))
    }

    /// Returns whether a line of the editor is a question about the last failure: a new line (Alt-Enter) in an empty
    /// one.
    #[must_use]
    pub fn asks_about_failure(&self, line: &str) -> bool {
        self.failed && line == "\n"
    }

    /// Returns whether the settings of bash's own history allow storing a line (`set +o history`, `HISTIGNORE`).
    #[must_use]
    pub fn keeps(&self, line: &str) -> bool {
        let words = &self.names.history;
        let matches = |pattern: &str| globset::Glob::new(pattern).is_ok_and(|it| it.compile_matcher().is_match(line));
        // `&` means the line before, which is stored again each time.
        !words.is_off && !words.ignored.split(':').any(|it| !it.is_empty() && it != "&" && matches(it))
    }

    /// Calls `look` with the context in which `line` is judged.
    pub fn with_context<T>(&self, line: &str, look: impl FnOnce(&Context<'_>) -> T) -> T {
        let names = self.names_for(line);
        let forced = match (self.forced, self.mode) {
            (Some(route), _) => Some(Forced::Key(route)),
            (None, RouteMode::Auto) => self.route_hook.as_ref().and_then(|hook| hook.ask(line)).map(Forced::Hook),
            (None, RouteMode::Shell) => Some(Forced::Mode(Route::Shell)),
            (None, RouteMode::Ask) => Some(Forced::Mode(Route::Ask)),
            (None, RouteMode::Shadow) => Some(Forced::Prefixes),
        };
        look(&Context {
            names: &names,
            is_path: &|word| self.is_runnable(word),
            exists: &|word| self.resolve(word).is_some_and(|path| path.exists()),
            forced,
            model_asked: self.model_asked,
            answered: self.learned.answers.get(line.trim()).copied(),
            ran_before: false,
            weights: &self.learned.weights,
        })
    }

    /// Returns the names. While the list of programs isn't made yet, they include the words of the line that are
    /// programs: a command that is typed at once must not go to a model.
    fn names_for(&self, line: &str) -> Arc<Names> {
        let Some(path) = self.first_path.as_ref().filter(|_| self.names.programs.is_empty()) else {
            return Arc::clone(&self.names);
        };
        let is_program =
            |word: &&str| !word.contains('/') && std::env::split_paths(path).any(|dir| is_program(&dir.join(word)));
        let words = line.split(|c: char| c.is_whitespace() || ";|&()<>!".contains(c)).filter(|word| !word.is_empty());
        let found = words.take(FIRST_WORDS_MAX).filter(is_program).collect();
        Arc::new(Names { programs: Arc::new(found), ..Names::clone(&self.names) })
    }

    /// The path that an unquoted word names, from the shell's working directory; none for `~somebody` or an unknown home.
    #[must_use]
    pub fn resolve(&self, word: &str) -> Option<PathBuf> {
        match word.strip_prefix('~') {
            Some("") => self.home.clone(),
            Some(rest) => Some(self.home.as_ref()?.join(rest.strip_prefix('/')?.trim_start_matches('/'))),
            None => Some(self.cwd.join(Path::new(word))),
        }
    }

    /// Returns whether a word names an executable file or a directory.
    #[must_use]
    pub fn is_runnable(&self, word: &str) -> bool {
        let data = self.resolve(word).and_then(|path| path.metadata().ok());
        data.is_some_and(|data| data.is_dir() || is_executable(&data))
    }
}

/// Reads the state. A writer that panicked left complete values, so its poison is ignored.
pub(in crate::repl) fn read(state: &SharedState) -> RwLockReadGuard<'_, EditorState> {
    state.read()
}

/// Place where the shell's text begins in `line`, after a forcing prefix (`!`, `$ `).
pub(in crate::repl) fn shell_text_start(line: &str, verdict: &RouteVerdict) -> usize {
    if verdict.rule != "forced-shell" {
        return 0;
    }
    // One character, `!` or `$`, and white space around it.
    let prefix = line.trim_start();
    let text = prefix.get(1..).unwrap_or_default().trim_start();
    line.len() - text.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_resolve_from_the_shells_directory_and_home() {
        let state = EditorState { cwd: "/srv".into(), home: Some("/home/u".into()), ..EditorState::default() };
        for (word, path) in
            [("a/b", Some("/srv/a/b")), ("/x", Some("/x")), ("~", Some("/home/u")), ("~/d", Some("/home/u/d"))]
        {
            assert_eq!(state.resolve(word), path.map(PathBuf::from), "{word}");
        }
        assert_eq!(state.resolve("~bob/x"), None);
        assert_eq!(EditorState::default().resolve("~/x"), None);
    }

    #[test]
    fn a_command_typed_before_the_programs_are_known_is_one() {
        let mut state = EditorState::default();
        let resolves = |state: &EditorState| state.verdict("sh | env").rule == "first-word-resolves";
        assert!(!resolves(&state));
        state.first_path = Some("/nonexistent:/bin:/usr/bin".into());
        assert!(resolves(&state));
        assert_eq!(state.verdict("what is that").route, Route::Ask);
        state.names = Arc::new(Names { programs: Arc::new(["ls"].into()), ..Names::default() });
        assert!(!resolves(&state));
    }

    #[test]
    fn the_prefix_is_no_part_of_the_shells_text() {
        let names = Arc::new(Names { programs: Arc::new(["ls"].into()), ..Names::default() });
        let state = EditorState { names, ..EditorState::default() };
        for (line, start) in [
            ("!ls", 1),
            ("!event", 0),
            ("$ ls -l", 2),
            ("  ! x", 0),
            (" !  x", 0),
            (" !x y", 2),
            ("./x", 0),
            ("!é \n", 1),
        ] {
            assert_eq!(shell_text_start(line, &state.verdict(line)), start, "{line:?}");
        }
    }
}
