//! Skills and templates of the user and, once a person has trusted them, of a project: the choice of those that count,
//! their part of a question, and the library that the tool reads.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::app::tooling::workspace::project_top;
use crate::config::{self, Env, Overlay, Trust, TrustVerdict};
use crate::skills::{self, Found, Places, Text};
use crate::tools::Library;

/// The model's introduction to the list.
const HEAD: &str =
    "[skills] Instructions for some kinds of work. Before such work, read the one that fits with the tool skill.";
/// The directory of the records of trust.
const RECORDS: &str = "trust-skills";

/// The skills for a directory.
#[derive(Debug, Default)]
pub struct Skills {
    /// The user's own.
    pub own: Found,
    /// The project's, trusted or not.
    pub project: Found,
    /// `true` if the project's count.
    pub is_trusted: bool,
    /// The project's directory and the contents of its files, to be trusted as a whole; `None` if it has none.
    pub overlay: Option<Overlay>,
}

impl Skills {
    /// Looks for them.
    #[must_use]
    pub fn around(env: &Env, cwd: &Path) -> Self {
        let home = env.get(std::ffi::OsStr::new("HOME")).map(PathBuf::from);
        let own = skills::read(&Places::of_user(config::config_directory(env).as_deref(), home.as_deref()));
        let top = cwd.canonicalize().ok().and_then(|cwd| project_top(env, &cwd));
        // If the home is a repository, its skills are the user's own.
        let top = top.filter(|top| Some(top.as_path()) != home.as_deref());
        let Some(top) = top else { return Self { own, ..Self::default() } };
        let project = skills::read(&Places::of_project(&top));
        let overlay = (!project.is_empty()).then(|| Overlay::of_texts(&top, project.manifest())).and_then(Result::ok);
        let is_trusted = overlay.clone().is_some_and(|it| matches!(trust(env).judge(it), TrustVerdict::Trusted(_)));
        Self { own, project, is_trusted, overlay }
    }

    /// Returns the skills that count: a project's only if the user has none of the same name.
    pub fn usable(&self) -> impl Iterator<Item = &Text> {
        let of_project = self.project.skills.iter().filter(|it| self.is_trusted && self.own_skill(&it.name).is_none());
        self.own.skills.iter().chain(of_project)
    }

    fn own_skill(&self, name: &str) -> Option<&Text> {
        self.own.skills.iter().find(|it| it.name == name)
    }

    /// Templates that count, the user's before a project's.
    pub fn templates(&self) -> impl Iterator<Item = &Text> {
        let of_project = self.project.templates.iter().filter(|_| self.is_trusted);
        self.own.templates.iter().chain(of_project)
    }

    /// The template with a name, if it counts.
    #[must_use]
    pub fn template(&self, name: &str) -> Option<&Text> {
        self.templates().find(|it| it.name == name)
    }

    /// The text for a question: names and descriptions; empty if there are none.
    #[must_use]
    pub fn note(&self) -> String {
        let lines: Vec<String> = self.usable().map(|it| format!("- {}: {}", it.name, it.description)).collect();
        if lines.is_empty() { String::new() } else { format!("{HEAD}\n{}", lines.join("\n")) }
    }

    /// The notice about a project's skills that don't count; `None` if there are none.
    #[must_use]
    pub fn notice(&self) -> Option<String> {
        let count = |count: usize, word: &str| match count {
            0 => None,
            1 => Some(format!("1 {word}")),
            count => Some(format!("{count} {word}s")),
        };
        let counts =
            [count(self.project.skills.len(), "skill"), count(self.project.templates.len(), "prompt template")];
        let what = counts.into_iter().flatten().collect::<Vec<_>>().join(" and ");
        let is_waiting = !self.is_trusted && !what.is_empty();
        is_waiting.then(|| format!("[skills] this project brings {what}, off until you trust them: :skills trust"))
    }
}

/// The records of which projects' skills are trusted.
#[must_use]
pub fn trust(env: &Env) -> Trust {
    Trust::in_directory(env, RECORDS)
}

/// The skills that the tool reads, in a workspace.
#[must_use]
pub(in crate::app) fn library(env: &Env, workspace: &Path) -> Library {
    let (env, workspace) = (env.clone(), workspace.to_owned());
    Arc::new(move |name| {
        let skills = Skills::around(&env, &workspace);
        let names = || skills.usable().map(|it| it.name.as_str()).collect::<Vec<_>>().join(", ");
        match name {
            None => Ok(names()),
            Some(name) => {
                let found = skills.usable().find(|it| it.name == name);
                let text = |it: &Text| {
                    let place = it.path.parent().unwrap_or(&it.path).display().to_string();
                    format!("Skill {} (its files are in {place}):\n{}", it.name, it.body)
                };
                found.map(text).ok_or_else(|| format!("there is no skill {name}; there is {}", names()))
            }
        }
    })
}
