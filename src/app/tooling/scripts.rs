//! The tools of a session's repository as tools of a model: which of them are allowed, and what they may read.

use std::path::{Path, PathBuf};

use crate::app::limits::guard::policy_rules;
use crate::config::{Env, Settings};
use crate::files::Tree;
use crate::gate::Disk;
use crate::policy::{self, Context};
use crate::proto::Failure;
use crate::proto::action::{Action, Risk};
use crate::tools::script::{FOLDER, Grants, Source, Standing, names};
use crate::tools::{Registry, Script};
use crate::tree::Bench;

/// Returns the decisions for the repository of a bench: the repository's folder is two levels above the bench.
pub(in crate::app) fn grants_of(bench: &Bench) -> Grants {
    let folder = bench.dir().ancestors().nth(2).unwrap_or(bench.dir());
    Grants::at(&folder.join("tools.json"))
}

/// Loads a tool from the text that was read.
pub(in crate::app) fn loaded(
    source: Source,
    settings: &Settings,
    env: &Env,
    config: Option<&Path>,
    at: PathBuf,
) -> Result<Script, String> {
    let rules = policy_rules(settings, env, config);
    let may_read = move |path: &Path| {
        let (path, cwd) = (at.join(path).display().to_string(), at.display().to_string());
        let rules = policy::Rules { workspace: cwd.clone(), ..rules.clone() };
        let context = Context { can_ask: true, files: &Disk::default(), cwd: &cwd, ..Context::new(&rules) };
        policy::judge(&Action::Read { path }, &context).risk < Risk::Blocked
    };
    let journals = crate::files::Journals::new(PathBuf::new());
    Script::load(source, std::sync::Arc::new(may_read), journals, crate::tools::Reads::default())
}

/// Adds the allowed tools of a session's repository; returns the problems of those that can't be used.
pub(in crate::app) fn add_repository_tools(
    registry: &mut Registry,
    bench: &Bench,
    (settings, env, config): (&Settings, &Env, Option<&Path>),
) -> Vec<Failure> {
    let (grants, draft) = (grants_of(bench), bench.draft());
    let mut problems = Vec::new();
    for name in names(&**draft) {
        let Ok(source) = Source::read(&**draft, &name) else { continue };
        if grants.standing(&source) != Standing::Allowed {
            continue;
        }
        let added = loaded(source, settings, env, config, draft.path().to_owned());
        if let Err(why) = added.and_then(|tool| registry.add(Box::new(tool))) {
            problems.push(Failure::config(format!("{FOLDER}/{name}.luau can't be used: {why}")));
        }
    }
    problems
}

/// Returns a text that changes if other tools of the repository are allowed.
pub(in crate::app) fn mark_of(bench: &Bench) -> String {
    let (grants, draft) = (grants_of(bench), bench.draft());
    let sources = names(&**draft).into_iter().filter_map(|name| Source::read(&**draft, &name).ok());
    sources.filter(|it| grants.standing(it) == Standing::Allowed).map(|it| format!(" {}", it.sha256())).collect()
}
