//! The hands of a run: its checks, the digests of what they depend on, and the state of the files that it has changed.

use std::collections::BTreeMap;
use std::path::Path;

use globset::{GlobBuilder, GlobSet, GlobSetBuilder};
use serde_json::json;

use super::{Share, inputs};
use crate::agent::calls::runner::ToolRunner;
use crate::agent::person::Person;
use crate::base::hash::{Hasher, sha256_hex};
use crate::files::EntryKind;
use crate::gate::{Approver, Call, GOAL_CHECK_TOOL, reasons};
use crate::model::Cancel;
use crate::proto::Event;
use crate::proto::action::Decision;
use crate::proto::tool::{Outcome, Step, ToolEvent};
use crate::tools::{Delegate, Place};

/// Bytes of a file that is compared by its content.
const FILE_BYTES_MAX: u64 = 16 * 1024 * 1024;
/// Files of one directory that protected patterns are looked for in.
const PROTECTED_MAX: usize = 2_000;
/// Directories below the workspace that protected patterns are looked for in, and how deep.
const DEPTH_MAX: usize = 6;

impl ToolRunner {
    /// Runs a check of the goal, which the person named, through the gate and in the sandbox.
    pub(super) fn goal_check(
        &mut self,
        command: &str,
        cancel: &Cancel,
        person: &mut dyn Person,
        sink: &mut dyn FnMut(Event),
    ) -> Outcome {
        let arguments = json!({"command": command});
        let tree = self.workspace().to_owned();
        let planned = {
            let place = Place { tree: self.tree(), spill: &self.options.spill };
            self.options.registry.plan_again(GOAL_CHECK_TOOL, &arguments, place)
        };
        let plan = match planned {
            Ok(plan) => plan,
            Err(error) => return error.into(),
        };
        let (tool, preview, changes) = (GOAL_CHECK_TOOL.to_owned(), plan.preview, plan.changes);
        let call =
            Call { tool, arguments, action: plan.action, preview, changes, conversation: None, needs: Vec::new() };
        let ticket = self.gate().judge(call, &tree, true);
        let outcome = if ticket.verdict().decision == Decision::Deny {
            let why = reasons(ticket.verdict());
            self.gate().refuse(ticket, "policy", &why)
        } else {
            self.run(ticket, &Approver::Check, cancel, person, sink).unwrap_or_else(|refused| *refused)
        };
        if let Some(error) = outcome.error.as_ref().filter(|error| error.code == "denied") {
            let step = Step::Denied { why: error.message.clone() };
            let (id, tool) = (GOAL_CHECK_TOOL.to_owned(), GOAL_CHECK_TOOL.to_owned());
            sink(Event::Tool(Box::new(ToolEvent { id, tool, step })));
        }
        outcome
    }

    /// Digests the files that checks depend on, and those of the protected patterns, by path: files that a command names,
    /// all files below directories that it names, and those that its programs read unnamed. A file that a program works
    /// without is among them if it isn't there, too. Of a pattern of which only the first match is run, that match counts.
    pub(super) fn check_inputs(&self, checks: &[String], protect: &[String]) -> BTreeMap<String, String> {
        let workspace = self.workspace().to_string_lossy();
        let places = inputs::Places { workspace: &workspace, home: &self.options.gate.rules().home };
        let inputs: Vec<_> = checks.iter().map(|check| inputs::of(check, places)).collect();
        let mut names: Vec<String> = inputs.iter().flat_map(|it| it.optional.clone()).collect();
        for word in inputs.iter().flat_map(|it| &it.words) {
            match self.tree().look(word) {
                Ok((_, false)) => names.push(word.clone()),
                // The workspace itself is what the goal is about.
                Ok((found, true)) if !matches!(found.to_str(), Some("" | ".")) => {
                    self.matching(word, DEPTH_MAX, &|_| true, &mut names);
                }
                _ => {}
            }
        }
        let (named, protect) = (set_of(inputs.iter().flat_map(|it| &it.patterns), true), set_of(protect, false));
        // A pattern may match a directory, too, with all that is in it.
        let is_named = |path: &Path| path.ancestors().any(|it| it != Path::new("") && named.is_match(it));
        if !(named.is_empty() && protect.is_empty()) {
            self.matching("", DEPTH_MAX, &|path| protect.is_match(path) || is_named(path), &mut names);
        }
        // A link's target is as good as the link.
        let targets = names.iter().filter_map(|name| self.tree().look(name).ok()).filter(|(_, is_dir)| !is_dir);
        let targets: Vec<String> = targets.map(|(found, _)| found.to_string_lossy().into_owned()).collect();
        let mut digests: BTreeMap<String, String> = BTreeMap::new();
        for pattern in inputs.iter().flat_map(|it| &it.first) {
            let set = set_of([pattern], true);
            let matches = || names.iter().filter(|name| set.is_match(name));
            // The order of a shell's matches depends on the language.
            if let (Some(first), Some(other)) = (matches().min(), matches().min_by_key(|name| name.to_lowercase())) {
                digests.insert(pattern.clone(), format!("{first} {other}"));
            }
        }
        for name in names.into_iter().chain(targets) {
            let content = self.tree().read(&name, FILE_BYTES_MAX);
            let digest = content.map_or_else(|error| error.to_string(), |content| sha256_hex(&content.bytes));
            digests.insert(name, digest);
        }
        digests
    }

    fn matching(&self, below: &str, depth: usize, is_wanted: &dyn Fn(&Path) -> bool, found: &mut Vec<String>) {
        let place = if below.is_empty() { "." } else { below };
        for entry in self.tree().list(place).unwrap_or_default() {
            let name = entry.name.as_str();
            let path = if below.is_empty() { name.to_owned() } else { format!("{below}/{name}") };
            if entry.kind == EntryKind::Directory {
                if depth > 0 && name != ".git" {
                    self.matching(&path, depth - 1, is_wanted, found);
                }
            } else if found.len() < PROTECTED_MAX && is_wanted(Path::new(&path)) {
                found.push(path);
            }
        }
    }

    /// Lets a helper work beside the model, within a share; none from now on without one.
    pub(super) fn lend_helper(&mut self, share: Option<Share>) {
        self.options.registry.lend(Box::new(Delegate), share.is_some());
        self.helper = share;
    }

    /// Says to which run the next steps belong.
    pub(super) fn work_for(&mut self, run: Option<i64>) {
        self.keeper.work_for(run);
    }

    /// Digests the files that steps since a time have changed, or a git session since it began: the same state has the same
    /// digest.
    pub(super) fn state_since(&self, time: i64) -> String {
        let mut state = Hasher::new();
        if let Some(bench) = &self.options.bench {
            state.update(bench.draft().base().to_string().as_bytes());
            for change in bench.draft().changes().unwrap_or_default() {
                state.update(format!("{change:?}").as_bytes());
            }
            return state.finish_hex();
        }
        for path in self.keeper.changed_since(time) {
            let name = path.to_string_lossy().into_owned();
            let bytes = self.options.root.read(&name, FILE_BYTES_MAX).map(|content| content.bytes).unwrap_or_default();
            state.update(name.as_bytes());
            state.update(sha256_hex(&bytes).as_bytes());
        }
        state.finish_hex()
    }
}

/// The patterns that can be understood; with `as_shell` a plain `*` stays within a directory.
fn set_of<'p>(patterns: impl IntoIterator<Item = &'p String>, as_shell: bool) -> GlobSet {
    let mut set = GlobSetBuilder::new();
    for pattern in patterns {
        // `**` inside of a name stands for what isn't known, which may lead through directories.
        let is_open = pattern.split('/').any(|part| part.contains("**") && part != "**");
        if let Ok(glob) = GlobBuilder::new(pattern).literal_separator(as_shell && !is_open).build() {
            set.add(glob);
        }
    }
    set.build().unwrap_or_default()
}
