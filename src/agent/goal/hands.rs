//! The operations of a run: its checks, the digests of their inputs, and the state of the files that it has changed.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use globset::{GlobBuilder, GlobSet, GlobSetBuilder};
use serde_json::json;

use super::{Share, inputs};
use crate::agent::calls::runner::ToolRunner;
use crate::agent::person::Person;
use crate::base::hash::{Hasher, sha256_hex};
use crate::files::{EntryKind, Tree};
use crate::gate::{Approver, Call, GOAL_CHECK_TOOL, reasons};
use crate::model::Cancel;
use crate::proto::Event;
use crate::proto::action::Decision;
use crate::proto::tool::{Outcome, Step, ToolEvent};
use crate::tools::{Delegate, EARLIER_FILES, EarlierFile, Place};

/// Bytes of a file that is compared by its content.
pub(super) const FILE_BYTES_MAX: u64 = 16 * 1024 * 1024;
/// Files whose content is compared.
const COMPARED_MAX: usize = 2_000;
/// Limit on directory entries that are visited in the search for them.
const WALKED_MAX: usize = 100_000;
/// Scripts of a check that are read, and the bytes of one.
const SCRIPTS_MAX: usize = 64;
const SCRIPT_BYTES_MAX: u64 = 256 * 1024;
/// The directory in which `npx` and the scripts of a `package.json` find programs.
const NODE_TOOLS: &str = "node_modules/.bin";
/// The mark of a directory whose files a program makes itself, such as a `target`.
const CACHE_MARK: &str = "CACHEDIR.TAG";

/// The files that checks depend on, by their digests.
#[derive(Default)]
pub(super) struct CheckInputs {
    /// Files that the commands name or that their programs read: if one changes, the check no longer counts.
    pub(super) named: BTreeMap<String, String>,
    /// Files that only scripts name, and those that may contain tests beside the work: the report names the changed ones.
    pub(super) reached: BTreeMap<String, String>,
    /// Reasons why these aren't all.
    pub(super) unseen: Vec<String>,
}

/// A search for files below the workspace.
struct Search<'s> {
    is_wanted: &'s dyn Fn(&Path) -> bool,
    enters_caches: bool,
    entries_left: usize,
    found: Vec<String>,
    /// True if there may be more.
    is_cut: bool,
}

impl ToolRunner {
    /// Runs a check of the goal, which the person named, through the gate and in the sandbox; on a copy in which these files are
    /// as they were earlier.
    pub(super) fn goal_check(
        &mut self,
        command: &str,
        earlier: &[EarlierFile],
        cancel: &Cancel,
        person: &mut dyn Person,
        sink: &mut dyn FnMut(Event),
    ) -> Outcome {
        let mut arguments = json!({"command": command});
        if !earlier.is_empty() {
            arguments[EARLIER_FILES] = earlier.iter().map(EarlierFile::to_json).collect();
        }
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
    /// The same of the scripts that are among them, one by one.
    pub(super) fn check_inputs(&self, checks: &[String], protect: &[String]) -> CheckInputs {
        let mut inputs = CheckInputs::default();
        let direct: Vec<inputs::Names> = checks.iter().map(|check| self.names_in(check)).collect();
        let names = self.files_of(&direct, protect, &mut inputs.unseen);
        for pattern in direct.iter().flat_map(|it| &it.first) {
            let set = set_of([pattern], true);
            let matches = || names.iter().filter(|name| set.is_match(name));
            // The order of a shell's matches depends on the language.
            if let (Some(first), Some(other)) = (matches().min(), matches().min_by_key(|name| name.to_lowercase())) {
                inputs.named.insert(pattern.clone(), format!("{first} {other}"));
            }
        }
        let of_scripts = self.scripts_among(&names, &mut inputs.unseen);
        let reached = self.files_of(&of_scripts, &[], &mut inputs.unseen);
        let beside = set_of(direct.iter().chain(&of_scripts).flat_map(|it| &it.beside), false);
        let beside = if beside.is_empty() {
            Vec::new()
        } else {
            let mut found = self.search("", &|path| beside.is_match(path), false, &mut inputs.unseen);
            found.retain(|name| self.may_hold_tests(name));
            found
        };
        self.digest(names, &mut inputs.named);
        self.digest(reached.into_iter().chain(beside).collect(), &mut inputs.reached);
        inputs.reached.retain(|name, _| !inputs.named.contains_key(name));
        inputs.unseen.dedup();
        inputs
    }

    fn names_in(&self, command: &str) -> inputs::Names {
        let workspace = self.workspace().to_string_lossy();
        inputs::of(command, inputs::Places { workspace: &workspace, home: &self.options.gate.rules().home })
    }

    /// The names in the scripts among some files, and in the scripts that these name.
    fn scripts_among(&self, files: &[String], unseen: &mut Vec<String>) -> Vec<inputs::Names> {
        let (mut known, mut all) = (BTreeSet::new(), Vec::new());
        let mut open: Vec<String> = files.to_vec();
        while let Some(path) = open.pop() {
            let commands = || {
                let content = self.tree().read(&path, SCRIPT_BYTES_MAX).ok()?;
                inputs::script(&path, &content.bytes)
            };
            if known.contains(&path) {
                continue;
            }
            let Some(commands) = commands() else { continue };
            if known.len() == SCRIPTS_MAX {
                unseen.push(format!("the checks lead to more than {SCRIPTS_MAX} scripts"));
                break;
            }
            let names = self.names_in(&commands);
            open.extend(names.words.iter().filter(|word| !known.contains(*word)).cloned());
            known.insert(path);
            all.push(names);
        }
        all
    }

    /// Returns the files that names refer to.
    fn files_of(&self, names: &[inputs::Names], protect: &[String], unseen: &mut Vec<String>) -> Vec<String> {
        let mut files: Vec<String> = names.iter().flat_map(|it| it.optional.clone()).collect();
        // A link outside may lead back into the workspace.
        let inside = names.iter().flat_map(|it| &it.outside).filter_map(|path| {
            let found = std::fs::canonicalize(path).ok()?;
            Some(found.strip_prefix(self.workspace()).ok()?.to_string_lossy().into_owned())
        });
        let programs = names.iter().flat_map(|it| &it.words).filter_map(|word| self.program_here(word));
        for word in names.iter().flat_map(|it| &it.words).cloned().chain(inside).chain(programs) {
            match self.tree().look(&word) {
                Ok((_, false)) => files.push(word),
                // The workspace itself is the subject of the goal.
                Ok((found, true)) if !matches!(found.to_str(), Some("" | ".")) => {
                    files.extend(self.search(&word, &|_| true, true, unseen));
                }
                _ => {}
            }
        }
        let (named, protect) = (set_of(names.iter().flat_map(|it| &it.patterns), true), set_of(protect, false));
        // A pattern may match a directory, too, with all that is in it.
        let is_named = |path: &Path| path.ancestors().any(|it| it != Path::new("") && named.is_match(it));
        if !(named.is_empty() && protect.is_empty()) {
            let is_wanted = |path: &Path| protect.is_match(path) || is_named(path);
            files.extend(self.search("", &is_wanted, !protect.is_empty(), unseen));
        }
        // A link's target is as good as the link.
        let targets = files.iter().filter_map(|name| self.tree().look(name).ok()).filter(|(_, is_dir)| !is_dir);
        let targets: Vec<String> = targets.map(|(found, _)| found.to_string_lossy().into_owned()).collect();
        files.extend(targets);
        files
    }

    /// The program that a word runs, if it is one of the workspace: a tool of `npm`, or of a virtual environment on `PATH`.
    fn program_here(&self, word: &str) -> Option<String> {
        let name = Path::new(word).file_name()?.to_str()?;
        let tool = format!("{NODE_TOOLS}/{name}");
        if self.tree().look(&tool).is_ok() {
            return Some(tool);
        }
        let found = self.options.gate.program_of(name, self.workspace())?;
        Some(found.strip_prefix(self.workspace()).ok()?.to_string_lossy().into_owned())
    }

    /// Returns whether a source file seems to contain tests, as Rust's attributes show.
    fn may_hold_tests(&self, name: &str) -> bool {
        let has = |content: &[u8], mark: &[u8]| content.windows(mark.len()).any(|part| part == mark);
        let content = self.tree().read(name, FILE_BYTES_MAX).map(|content| content.bytes).unwrap_or_default();
        has(&content, b"test]") || has(&content, b"(test)")
    }

    fn digest(&self, names: Vec<String>, digests: &mut BTreeMap<String, String>) {
        for name in names {
            digests.entry(name).or_insert_with_key(|name| {
                let content = self.tree().read(name, FILE_BYTES_MAX);
                content.map_or_else(|error| error.to_string(), |content| sha256_hex(&content.bytes))
            });
        }
    }

    /// Searches a directory for files, and says if there may be more.
    fn search(
        &self,
        below: &str,
        is_wanted: &dyn Fn(&Path) -> bool,
        enters_caches: bool,
        unseen: &mut Vec<String>,
    ) -> Vec<String> {
        let mut search =
            Search { is_wanted, enters_caches, entries_left: WALKED_MAX, found: Vec::new(), is_cut: false };
        walk(self.tree(), below, &mut search);
        if search.is_cut {
            let place = if below.is_empty() { "the workspace" } else { below };
            unseen.push(format!("there are too many files below {place}"));
        }
        search.found
    }

    /// Lets a helper work beside the model, within a share; without one, no helper may work from now on.
    pub(super) fn lend_helper(&mut self, share: Option<Share>) {
        self.options.registry.lend(Box::new(Delegate), share.is_some());
        self.helper = share;
    }

    /// Says to which run the next steps belong.
    pub(super) fn work_for(&mut self, run: Option<i64>) {
        self.keeper.work_for(run);
    }

    /// The tree that a git session has; empty without one.
    pub(super) fn base(&self) -> String {
        self.options.bench.as_ref().map(|bench| bench.draft().base().to_string()).unwrap_or_default()
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

/// Searches a tree for files.
pub(super) fn search_in(tree: &dyn Tree, is_wanted: &dyn Fn(&Path) -> bool) -> Vec<String> {
    let mut search =
        Search { is_wanted, enters_caches: false, entries_left: WALKED_MAX, found: Vec::new(), is_cut: false };
    walk(tree, "", &mut search);
    search.found
}

fn walk(tree: &dyn Tree, below: &str, search: &mut Search<'_>) {
    let place = if below.is_empty() { "." } else { below };
    let entries = tree.list(place).unwrap_or_default();
    if !search.enters_caches && !below.is_empty() && entries.iter().any(|entry| entry.name == CACHE_MARK) {
        return;
    }
    for entry in entries {
        if search.entries_left == 0 {
            search.is_cut = true;
            return;
        }
        search.entries_left -= 1;
        let name = entry.name.as_str();
        let path = if below.is_empty() { name.to_owned() } else { format!("{below}/{name}") };
        if entry.kind == EntryKind::Directory {
            if name != ".git" {
                walk(tree, &path, search);
            }
        } else if (search.is_wanted)(Path::new(&path)) {
            search.is_cut |= search.found.len() == COMPARED_MAX;
            if !search.is_cut {
                search.found.push(path);
            }
        }
    }
}

/// The patterns that can be understood; with `as_shell` a plain `*` stays within a directory.
fn set_of<'p>(patterns: impl IntoIterator<Item = &'p String>, as_shell: bool) -> GlobSet {
    let mut set = GlobSetBuilder::new();
    for pattern in patterns {
        // `**` inside of a name means something unknown, which may lead through directories.
        let is_open = pattern.split('/').any(|part| part.contains("**") && part != "**");
        if let Ok(glob) = GlobBuilder::new(pattern).literal_separator(as_shell && !is_open).build() {
            set.add(glob);
        }
    }
    set.build().unwrap_or_default()
}
