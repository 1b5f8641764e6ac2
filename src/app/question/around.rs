//! The context of a question besides its own words: memories, if it begins a conversation, and the facts about the
//! repository around it. Every face gets it here, so that all questions carry the same.

use std::path::{Path, PathBuf};

use crate::agent::Agent;
use crate::app::{Jails, card_options};
use crate::config::{Env, Settings};
use crate::project::{Notes, Surroundings};
use crate::store::{MemoryOrigin, Store};
use crate::turn::{self, Asked, estimate_tokens, memory_note, relevant};

/// Limit on the newest memories that are considered for a question.
const LOOKED_AT_MAX: usize = 5_000;

/// The memories that go with a question.
#[derive(Debug, Default)]
pub struct Remembered {
    /// Their text; empty if none go.
    pub note: String,
    /// Their numbers.
    pub ids: Vec<i64>,
}

impl Remembered {
    /// Chooses them for a question that begins a conversation; none go with a later one.
    #[must_use]
    pub fn choose(agent: &Agent, settings: &Settings, store: &Store, question: &str, cwd: &Path) -> Self {
        let tokens_max = settings.memory.tokens;
        if !agent.is_new() || tokens_max == 0 {
            return Self::default();
        }
        // A store that can't be read is reported elsewhere; the question does without memories.
        let stored = store.memories(true).unwrap_or_default();
        let all: Vec<turn::Memory<'_>> = stored[stored.len().saturating_sub(LOOKED_AT_MAX)..]
            .iter()
            .map(|it| turn::Memory {
                id: it.id,
                place: it.place.as_deref(),
                reach: it.reach,
                is_own: it.origin == MemoryOrigin::User,
                time: it.time,
                text: &it.text,
            })
            .collect();
        let cwd = cwd.display().to_string();
        let chosen = relevant(&all, Asked { question, cwd: &cwd, reach: agent.reach(None) }, tokens_max);
        Self { note: memory_note(&chosen), ids: chosen.iter().map(|memory| memory.id).collect() }
    }

    /// The notice about them; `None` if none are sent.
    #[must_use]
    pub fn notice(&self) -> Option<String> {
        let count = match self.ids.len() {
            0 => return None,
            1 => "1 memory goes".to_owned(),
            count => format!("{count} memories go"),
        };
        Some(format!("[memory] {count} in front of this conversation"))
    }
}

/// The repository around questions.
#[derive(Debug, Default)]
pub struct Around {
    surroundings: Surroundings,
    /// The repository for which the notice about the carried facts was shown.
    announced: Option<PathBuf>,
    jails: Jails,
}

/// The knowledge about a repository, for one question.
#[derive(Debug)]
pub struct AroundNotes {
    /// Each part with its name, as [`Agent::attach`] takes them.
    pub parts: [(&'static str, String); 3],
    /// Its kind and number of tokens, the first time in a repository.
    pub notice: Option<String>,
}

impl Around {
    /// The sandboxes in which the look at a repository starts programs.
    #[must_use]
    pub fn jails(&self) -> &Jails {
        &self.jails
    }

    /// Looks at the repository around a directory; `None` if there is none.
    pub fn look(&mut self, settings: &Settings, env: &Env, cwd: &Path) -> Option<Notes> {
        self.surroundings.notes(cwd, &card_options(settings, env, &self.jails))
    }

    /// Begins to look at the repository, for a question that comes at once.
    pub fn begin(&mut self, settings: &Settings, env: &Env, cwd: &Path) {
        self.surroundings.begin(cwd, &card_options(settings, env, &self.jails));
    }

    /// Returns the part of the surrounding repository that a question carries; `None` without a repository.
    pub fn notes(&mut self, settings: &Settings, env: &Env, cwd: &Path) -> Option<AroundNotes> {
        let notes = self.look(settings, env, cwd)?;
        let is_known = self.announced.as_ref() == Some(&notes.root);
        let notice = (!is_known).then(|| {
            let files = match notes.instructions {
                0 => String::new(),
                1 => ", 1 file of instructions".to_owned(),
                count => format!(", {count} files of instructions"),
            };
            let names = if notes.about.is_empty() { "" } else { "this repository's card, the names of its files" };
            let carried = format!("{names}{files}{}git's state", if names.is_empty() { "" } else { " and " });
            let tokens = notes.parts().iter().map(|part| estimate_tokens(part)).sum::<usize>();
            format!("[context] questions here also carry {carried}, about {tokens} tokens")
        });
        self.announced = Some(notes.root);
        let names = ("the project's names and AGENTS.md", notes.about);
        Some(AroundNotes { parts: [names, ("the project's card", notes.card), ("git's state", notes.state)], notice })
    }
}
