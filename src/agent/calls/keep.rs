//! Decides about the changes that a command made on its copy of the workspace: they are shown, then applied or dropped.
//! Applied changes become a step that undo can revert. If a command was refused the network or a path, the person is
//! offered to run it again with the permission.

use std::collections::HashSet;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use std::time::Instant;

use crate::agent::calls::flood::Flooded;
use crate::agent::calls::guard;
use crate::agent::calls::revision::How;
use crate::agent::calls::runner::{Ruling, ToolRunner};
use crate::agent::person::{Person, yes};
use crate::base::hash::Hasher;
use crate::base::text::{counted, in_sentence, is_odd, spelled_out};
use crate::files::{Layers, holes};
use crate::gate::{Approver, Call, Permit};
use crate::model::Cancel;
use crate::proto::action::{Action, Autonomy, Decision, Need};
use crate::proto::tool::{FileChange, Outcome, PRINTED, Step, ToolError, ToolEvent};
use crate::proto::{Event, known_paths};
use crate::sandbox::{Change, ChangeKind, Changes, CollectError, CollectLimits, collect, collect_whole};
use crate::steps::{Incoming, NewContent, are_alike_indices};
use crate::tools::{Copied, Refusal, clear_worktrees, listed, protection, shown};
use crate::tree::{Bench, Did, Flood};

/// Limit on changed files that one call names; beyond it only their number is reported.
const NAMED_MAX: usize = 10_000;
/// Things that one command is offered, one after the other.
const OFFERS_MAX: usize = 5;
/// The right that a first look lacks.
const CHANGING: &str = "changing the workspace";
/// Changes from which on the disk is set to work before they are applied.
const SYNCED_AHEAD_MIN: usize = 64;
/// Note for the model about what git did in a session.
const GIT_IS_A_VIEW: &str = "[commits, branches and stashes that git makes in this session aren't kept; the files are, and \
                             become a commit when the turn ends]";
/// Data of one file that is hashed.
const HASHED_BYTES_MAX: u64 = 256 * 1024 * 1024;
/// Files that one thread hashes before another is worth its start, and threads at most.
const HASHED_ALONE_MAX: usize = 64;
const HASHING_THREADS_MAX: usize = 8;

/// The person to ask, the sink for events, and the cancel flag.
pub(in crate::agent) struct Around<'a> {
    pub(in crate::agent) cancel: &'a Cancel,
    pub(in crate::agent) person: &'a mut dyn Person,
    pub(in crate::agent) sink: &'a mut dyn FnMut(Event),
}

impl ToolRunner {
    /// Decides about the changes that a command made on its copy; returns the outcome for the model.
    pub(in crate::agent) fn conclude(
        &mut self,
        permit: Permit,
        mut outcome: Outcome,
        copied: &Copied,
        around: &mut Around<'_>,
    ) -> Outcome {
        let call = permit.call().clone();
        let changes = self.changes_of(copied, &mut outcome);
        if let Some(line) = self.options.bench.as_ref().and_then(|bench| bench.take_name()) {
            add(&mut outcome, &line);
        }
        self.options.gate.settle(permit, &mut outcome);
        if let Some(Refusal { line, need: None, .. }) = &copied.refused {
            add(&mut outcome, &format!("[it was refused: {line}]"));
        }
        if let Some(refusal @ Refusal { need: Some(need), is_hidden, .. }) = &copied.refused
            && call.needs.len() < OFFERS_MAX
            && !call.needs.contains(need)
            && self.options.gate.may_offer(need, self.workspace())
        {
            let was_declined = *is_hidden && self.declined.contains(need) && !self.is_own(need);
            let answer = match was_declined {
                true => Err("the user said no before".to_owned()),
                false => self.offer(&call, refusal, need, around),
            };
            match answer {
                Ok(again) => return again,
                Err(why) => {
                    self.declined.insert(need.clone());
                    let what = if self.is_own(need) { CHANGING.to_owned() } else { need_words(need) };
                    add(&mut outcome, &format!("[{what} was refused: {why}]"));
                }
            }
        }
        self.keep_or_fail(copied, &call, changes, &mut outcome, around);
        outcome
    }

    /// Collects what a command changed on its copy.
    pub(super) fn changes_of(&self, copied: &Copied, outcome: &mut Outcome) -> Result<Changes, CollectError> {
        let root = self.options.root.path();
        let limits = CollectLimits { time: self.options.limits.tool, ..CollectLimits::default() };
        let whole = self.options.bench.as_ref().and_then(|bench| bench.in_whole());
        let below = self.layers()?;
        let mut changes = match &whole {
            Some((directory, before)) => collect_whole((&**directory, &**before), &copied.layer, &below, &limits),
            None => collect(&copied.layer, &below, &limits),
        }?;
        changes.items.retain(|change| !is_refreshed_index(change, root));
        let named = self.options.gate.named();
        changes.items.iter_mut().for_each(|it| it.protected = protection(it, root, &named));
        if self.options.bench.is_none() {
            clear_worktrees(&mut changes.items, &below, root, &named);
        } else if without_git(&mut changes.items) {
            add(outcome, GIT_IS_A_VIEW);
        }
        outcome.metadata.insert("changes".into(), changes.items.len().into());
        Ok(changes)
    }

    /// Decides about collected changes; says so if they couldn't be collected.
    pub(super) fn keep_or_fail(
        &mut self,
        copied: &Copied,
        call: &Call,
        changes: Result<Changes, CollectError>,
        outcome: &mut Outcome,
        around: &mut Around<'_>,
    ) {
        match changes {
            Ok(changes) if changes.is_empty() => {}
            Ok(changes) => self.keep(copied, call, changes, outcome, around),
            Err(why) => {
                let error = uncollected(&why);
                add(outcome, &format!("[{}]", error.message));
                fail(outcome, error);
            }
        }
    }

    /// Puts the directory in which the next command starts into an outcome, and says so if the command ended in another one.
    pub(in crate::agent) fn note_directory(&self, call: &Call, outcome: &mut Outcome) {
        let Some(cwd) = outcome.metadata.get("cwd").and_then(Value::as_str) else { return };
        let next = self.cwd_of(&Call { arguments: json!({"command": ":"}), ..call.clone() });
        if next == Path::new(cwd) {
            return;
        }
        let line = format!("[its directory {cwd} isn't kept; the next command starts in {}]", next.display());
        outcome.metadata.insert("cwd".into(), next.display().to_string().into());
        add(outcome, &line);
    }

    /// Offers to run a command again, from its beginning, with the permission that it lacked.
    fn offer(
        &mut self,
        call: &Call,
        refusal: &Refusal,
        need: &Need,
        around: &mut Around<'_>,
    ) -> Result<Outcome, String> {
        let what = need_words(need);
        let is_own = self.is_own(need);
        let lasting = match need {
            Need::Write { .. } if self.keeper.has_undo() && is_own => " Undo covers it.",
            Need::Write { .. } if self.keeper.has_undo() => " Undo covers that path.",
            Need::Write { .. } => " It can't be undone.",
            _ => "",
        };
        // Printed text mustn't look like the words of the question.
        let line = match refusal.is_printed {
            true => format!("; it printed:\n{PRINTED}{}", refusal.line.replace('\n', " ")),
            false => format!(": {}", refusal.line),
        };
        let preview = match is_own {
            true => format!(
                "It ran where it can only look, and changed nothing{line}\nWith yes it runs again from the start and may \
                 change the workspace.{lasting}"
            ),
            false => format!(
                "It was refused {what}{line}\nIts changes so far are dropped; with yes it runs again with \
                 {what}.{lasting}"
            ),
        };
        let needs = call.needs.iter().chain([need]).cloned().collect();
        let again = Call { needs, preview, ..call.clone() };
        let ticket = self.options.gate.judge(again, &self.cwd_of(call), around.person.can_ask());
        match self.decided(&ticket, around.person) {
            Ruling::Run(approver) => {
                self.is_again = true;
                let outcome = self.run(ticket, &approver, around.cancel, around.person, around.sink);
                self.is_again = false;
                Ok(outcome.unwrap_or_else(|refused| *refused))
            }
            Ruling::InMyShell(approver) => {
                let done = self.hand_over(ticket, &approver, around.person, around.sink);
                Ok(done.unwrap_or_else(|refused| *refused))
            }
            Ruling::Refused(code, why) => {
                let _ = self.options.gate.refuse(ticket, code, &why);
                Err(why)
            }
            Ruling::Instead(_) | Ruling::Files(..) => {
                let _ = self.options.gate.refuse(ticket, "no", "the user said no");
                Err("the user said no".to_owned())
            }
        }
    }

    /// Returns whether a need is that of a first look: to change the workspace itself.
    fn is_own(&self, need: &Need) -> bool {
        matches!(need, Need::Write { path } if Path::new(path) == self.workspace())
    }

    /// The directories that a command's copy is one of.
    fn layers(&self) -> Result<Layers, CollectError> {
        let own = || vec![self.options.root.path().to_owned()];
        let shown = self.options.bench.as_ref().map_or_else(own, |bench| bench.layers());
        Layers::open(shown.iter().map(PathBuf::as_path)).map_err(|(path, error)| CollectError::Path { path, error })
    }

    fn keep(&mut self, copied: &Copied, call: &Call, changes: Changes, outcome: &mut Outcome, around: &mut Around<'_>) {
        let Changes { items, left_out } = changes;
        // Only this session writes on the bench of a git session, so its files may be as new as the copy.
        let is_bench = self.options.bench.is_some();
        let (contested, items): (Vec<Change>, Vec<Change>) =
            items.into_iter().partition(|it| it.is_contested && !is_bench);
        if !contested.is_empty() {
            let all: Vec<&Change> = contested.iter().collect();
            let note = format!("[left as they are, since the user changed them meanwhile: {}]", listed(&all));
            tell(note, outcome, around.sink);
        }
        if !left_out.is_empty() {
            let names: Vec<String> = left_out.iter().map(|path| spelled_out(&path.to_string_lossy())).collect();
            tell(format!("[pipes and sockets aren't kept: {}]", names.join(", ")), outcome, around.sink);
        }
        // A name that hides something is refused, and the rest doesn't go with it.
        let is_refused = |it: &Change| it.kind != ChangeKind::Deleted && it.path.to_string_lossy().contains(is_odd);
        let all = items;
        let (odd, items) = divided(all.iter().collect(), &is_refused);
        if left_out.is_empty() && self.keep_flood((copied, call), (&all, &odd), outcome, around) {
            return;
        }
        // The disk writes many new contents while they are hashed, shown and asked about. A bench can be made again, so there is
        // no need to wait for its files.
        if !is_bench && items.len() >= SYNCED_AHEAD_MIN && self.options.gate.rules().autonomy != Autonomy::Readonly {
            self.options.root.begin_sync();
        }
        // Full autonomy never includes files that other programs run, nor the removal of a repository.
        let mut whole = ended_repositories(&items);
        whole.extend(begun_of_git(&items));
        let is_asked = |it: &Change| it.protected.is_some() || whole.iter().any(|git| it.path.starts_with(git));
        let groups = match self.options.gate.rules().autonomy {
            Autonomy::Full => {
                let (protected, plain) = divided(items, &is_asked);
                vec![odd, plain, protected]
            }
            Autonomy::Readonly | Autonomy::Supervised => vec![odd, items],
        };
        for group in groups.into_iter().filter(|group| !group.is_empty()) {
            let keep = self.keep_call(&copied.command, call, &group, outcome);
            self.keep_group(copied, keep, (&group, None), outcome, around);
        }
    }

    /// Keeps all changes of a session's command if a flood of new files is among them and no question is needed; returns whether
    /// it did. Otherwise they are handled in the usual way, which names each file.
    fn keep_flood(
        &mut self,
        (copied, call): (&Copied, &Call),
        (all, odd): (&[Change], &[&Change]),
        outcome: &mut Outcome,
        around: &mut Around<'_>,
    ) -> bool {
        let Some(bench) = self.options.bench.clone() else { return false };
        if self.options.gate.rules().autonomy == Autonomy::Readonly {
            return false;
        }
        let Some(flooded) = Flooded::of(&bench, all, odd) else { return false };
        let mut keep = self.keep_call(&copied.command, call, &flooded.rest, outcome);
        flooded.add_to(&mut keep, &self.options.gate);
        let root = self.workspace().to_owned();
        let ticket = self.options.gate.judge(keep.clone(), &root, around.person.can_ask());
        if ticket.verdict().decision != Decision::Run {
            return false;
        }
        if !odd.is_empty() {
            let refused = self.keep_call(&copied.command, call, odd, outcome);
            self.keep_group(copied, refused, (odd, None), outcome, around);
        }
        self.keep_group(copied, keep, (&flooded.rest, Some(&flooded.flood)), outcome, around);
        true
    }

    /// The call that applies changes: its question, its fingerprint and its receipt.
    fn keep_call(&self, command: &str, call: &Call, group: &[&Change], outcome: &Outcome) -> Call {
        let before = self.layers().ok();
        let mut shown = shown(group, before.as_ref());
        shown.rows.insert(0, how_it_ended(outcome));
        let path = |change: &&&Change| change.path.display().to_string();
        let is_gone = |change: &&&Change| change.kind == ChangeKind::Deleted;
        let is_link = |change: &&&Change| matches!(change.kind, ChangeKind::Link { .. });
        let is_directory = |change: &&&Change| matches!(change.kind, ChangeKind::Directory { .. });
        let is_special = |change: &&&Change| match (&change.kind, change.before) {
            (ChangeKind::Link { .. }, _) => true,
            (ChangeKind::Deleted, _) | (_, None) => false,
            (ChangeKind::Directory { .. }, Some(_)) => true,
            (ChangeKind::File { mode, .. }, Some(before)) => !before.is_file() || before.permissions() != *mode,
        };
        // New directories with something in them go with that, which is named.
        let mut above: HashSet<&Path> = HashSet::new();
        for change in group.iter().filter(|it| !is_gone(it)) {
            // If a directory is known, so are its parents.
            let _ = change.path.ancestors().skip(1).all(|path| above.insert(path));
        }
        let is_alone = |change: &&&Change| change.before.is_some() || !above.contains(change.path.as_path());
        let action = Action::Keep {
            command: command.to_owned(),
            writes: group
                .iter()
                .filter(|it| !is_gone(it) && !is_directory(it) && !is_cleared(it))
                .map(|it| path(&it))
                .collect(),
            deletes: group.iter().filter(|it| is_gone(it) && !is_cleared(it)).map(|it| path(&it)).collect(),
            directories: group.iter().filter(is_directory).filter(is_alone).map(|it| path(&it)).collect(),
            guarded: group
                .iter()
                .filter(|it| is_link(it) || is_directory(it))
                .filter_map(|it| Some((path(&it), it.protected?)))
                .collect(),
            special: group.iter().filter(is_special).map(|it| path(&it)).collect(),
            others: shown.others,
        };
        Call {
            tool: call.tool.clone(),
            arguments: arguments(command, group, outcome),
            action,
            preview: shown.rows.join("\n"),
            changes: shown.files.into(),
            conversation: call.conversation,
            needs: Vec::new(),
        }
    }

    /// Applies a group of changes if that may be, with a flood of further files, which stays on the bench.
    fn keep_group(
        &mut self,
        copied: &Copied,
        keep: Call,
        (group, flood): (&[&Change], Option<&Flood>),
        outcome: &mut Outcome,
        around: &mut Around<'_>,
    ) {
        let tool = keep.tool.clone();
        let root = self.workspace().to_owned();
        let ticket = self.options.gate.judge(keep, &root, around.person.can_ask());
        let ruling = self.decided(&ticket, around.person);
        let (approver, incoming, note) = match ruling {
            Ruling::Run(approver) => (approver, incoming(group, None), String::new()),
            Ruling::Files(files, how) => {
                let digest = self.options.gate.question(&ticket).digest;
                let has_others = matches!(how, How::Taken { has_others: true, .. });
                let wanted = Wanted { files: &files, proposed: &ticket.call().changes, has_others };
                (yes(digest, around.person), incoming(group, Some(wanted)), how.note())
            }
            Ruling::Refused(code, why) => {
                let refused = self.options.gate.refuse(ticket, code, &why);
                return dropped(group, code, &why, refused, outcome);
            }
            Ruling::InMyShell(_) | Ruling::Instead(_) => {
                let why = "the user said no";
                let refused = self.options.gate.refuse(ticket, "no", why);
                return dropped(group, "no", why, refused, outcome);
            }
        };
        if approver != Approver::Policy {
            (around.sink)(Event::Tool(Box::new(ToolEvent { id: String::new(), tool, step: Step::Approved })));
        }
        let permit = match self.options.gate.admit(ticket, &approver) {
            Ok(permit) => permit,
            Err(refused) => {
                let why = refused.error.as_ref().map(ToString::to_string).unwrap_or_default();
                return dropped(group, "no", &why, *refused, outcome);
            }
        };
        if let Some(bench) = self.options.bench.clone() {
            return self.draft((&bench, permit, copied), (group, flood), &incoming, &note, outcome);
        }
        let count = incoming.len();
        let mut result = self.adopt(&copied.command, group, incoming, &note, outcome, around.sink);
        self.options.gate.settle(permit, &mut result);
        tracing::info!(event = "changes_kept", count);
    }

    /// Applies changes as a step that undo can revert, and reports them to the model; returns the result for the receipt.
    fn adopt(
        &mut self,
        command: &str,
        group: &[&Change],
        incoming: Vec<Incoming>,
        note: &str,
        outcome: &mut Outcome,
        sink: &mut dyn FnMut(Event),
    ) -> Outcome {
        let paths: Vec<PathBuf> = incoming.iter().map(|it| it.path.clone()).collect();
        let adopted = self.keeper.adopt(command, incoming);
        self.changed_at = Some(std::time::Instant::now());
        match adopted {
            Ok(adopted) => {
                let is_left = |path: &Path| adopted.left.iter().any(|(left, _)| left == path);
                let made: HashSet<&Path> = paths.iter().map(PathBuf::as_path).filter(|it| !is_left(it)).collect();
                guard::accept(self, made.iter().copied());
                note_changes(outcome, group, &made, is_left, note);
                let name = |path: &Path| spelled_out(&path.to_string_lossy());
                let left = adopted.left.iter().map(|(path, why)| format!("{} ({why})", name(path)));
                let left: Vec<String> = left.collect();
                if !left.is_empty() {
                    tell(format!("[left as they are: {}]", left.join(", ")), outcome, sink);
                }
                crate::agent::calls::snapshots::note_step(outcome, &adopted.report, sink);
                Outcome::of(format!("kept {}", counted(made.len(), "change")))
            }
            Err(error) => {
                add(outcome, &format!("[none of its changes were kept: {error}]"));
                fail(outcome, ToolError::new("changes-failed", error.to_string(), "try again"));
                ToolError::new("changes-failed", error.to_string(), "").into()
            }
        }
    }
}

/// Reports to the model which changes were made, and which weren't because the person accepted only some.
fn note_changes(
    outcome: &mut Outcome,
    group: &[&Change],
    made: &HashSet<&Path>,
    is_left: impl Fn(&Path) -> bool,
    note: &str,
) {
    let (applied, others): (Vec<&Change>, Vec<&Change>) = group.iter().partition(|it| made.contains(it.path.as_path()));
    let names = if applied.is_empty() { "nothing".to_owned() } else { listed(&applied) };
    add(outcome, &format!("[kept: {names}]{note}"));
    let dropped: Vec<&Change> = others.into_iter().filter(|it| !is_left(&it.path)).collect();
    if !dropped.is_empty() {
        add(outcome, &format!("[not kept: {}]", listed(&dropped)));
    }
}

/// Separates some changes from the others. A new directory goes with its contents, or it would be left empty.
fn divided<'a>(items: Vec<&'a Change>, is_apart: &dyn Fn(&Change) -> bool) -> (Vec<&'a Change>, Vec<&'a Change>) {
    if !items.iter().any(|it| is_apart(it)) {
        return (Vec::new(), items);
    }
    let is_new_directory = |it: &Change| matches!(it.kind, ChangeKind::Directory { .. }) && it.before.is_none();
    let (mut above_apart, mut above_others, mut moved) = (HashSet::new(), HashSet::new(), HashSet::new());
    for item in &items {
        let above = match is_apart(item) {
            true => &mut above_apart,
            false if is_new_directory(item) => continue,
            false => &mut above_others,
        };
        // If one is known already, so are those above it.
        for path in item.path.ancestors().skip(1) {
            if !above.insert(path) {
                break;
            }
        }
    }
    // In the order of paths, a directory comes before its contents.
    items.into_iter().partition(|item| {
        let path = item.path.as_path();
        let is_moved = |above: &Path| moved.contains(above);
        let goes_with = above_apart.contains(path) || path.parent().is_some_and(is_moved);
        let is_one = is_apart(item) || is_new_directory(item) && goes_with && !above_others.contains(path);
        if is_one {
            moved.insert(path);
        }
        is_one
    })
}

/// Returns whether a change of a file with a protected name has no effect on what other programs run: a file of git's with only
/// the content that git itself writes, or a part of a whole work tree.
fn is_cleared(change: &Change) -> bool {
    let is_protected = || known_paths::protected(change.path.as_os_str().as_encoded_bytes()).is_some();
    change.is_cleared || change.protected.is_none() && is_protected()
}

/// Returns git's directories that a command has removed or replaced: without its `HEAD` there is no repository and no linked work
/// tree.
fn ended_repositories(items: &[&Change]) -> Vec<PathBuf> {
    let is_head =
        |it: &&&Change| it.kind == ChangeKind::Deleted && it.path.file_name().is_some_and(|name| name == "HEAD");
    let is_cleared = |path: &Path| {
        let found = items.binary_search_by(|it| it.path.as_path().cmp(path));
        found.is_ok_and(|at| items[at].is_cleared)
    };
    let gits = items.iter().filter(is_head).filter_map(|it| it.path.parent());
    let is_one = |it: &&Path| {
        let is_repository = it.file_name().is_some_and(|name| name.eq_ignore_ascii_case(".git"));
        is_repository || is_of_worktree(it) && !is_cleared(&it.join("gitdir"))
    };
    gits.filter(is_one).map(Path::to_owned).collect()
}

/// Returns whether a path is that of git's directory for a linked work tree.
fn is_of_worktree(path: &Path) -> bool {
    path.parent().is_some_and(|above| above.ends_with(".git/worktrees"))
}

/// The new directories of git that hold a protected file: a new repository, a linked work tree, a rebase that has stopped. Half
/// of one is worse than none.
fn begun_of_git(items: &[&Change]) -> HashSet<PathBuf> {
    const NAMES: [&str; 3] = [".git", "rebase-merge", "sequencer"];
    let is_one = |it: &&&Change| {
        let is_named = |name: &std::ffi::OsStr| NAMES.iter().any(|own| name.eq_ignore_ascii_case(own));
        let is_new = matches!(it.kind, ChangeKind::Directory { .. }) && it.before.is_none();
        is_new && (it.path.file_name().is_some_and(is_named) || is_of_worktree(&it.path))
    };
    let new: HashSet<&Path> = items.iter().filter(is_one).map(|it| it.path.as_path()).collect();
    let protected = items.iter().filter(|it| it.protected.is_some() && !new.is_empty());
    protected.flat_map(|it| it.path.ancestors()).filter(|path| new.contains(path)).map(Path::to_owned).collect()
}

/// Removes from the changes everything in the `.git` of a session, which is a view. Returns whether a commit, a branch or a stash
/// was among them.
fn without_git(items: &mut Vec<Change>) -> bool {
    let is_within =
        |it: &Change| it.path.as_os_str().as_encoded_bytes().starts_with(b".git") && it.path.starts_with(".git");
    let is_named = |it: &Change| {
        let is_reference = it.path == Path::new(".git/HEAD") || it.path.starts_with(".git/refs");
        is_reference && !matches!(it.kind, ChangeKind::Directory { .. })
    };
    let has_named = items.iter().any(|it| is_within(it) && is_named(it));
    items.retain(|it| !is_within(it));
    has_named
}

/// Returns whether git has only refreshed its index: such a change isn't stored.
fn is_refreshed_index(change: &Change, root: &Path) -> bool {
    let ChangeKind::File { source, .. } = &change.kind else { return false };
    change.before.is_some()
        && change.path.ends_with(".git/index")
        && are_alike_indices(&root.join(&change.path), source)
}

impl ToolRunner {
    /// Puts changes of a command into the draft of a git session; build products stay on its bench.
    fn draft(
        &mut self,
        (bench, permit, copied): (&Bench, Permit, &Copied),
        (group, flood): (&[&Change], Option<&Flood>),
        incoming: &[Incoming],
        note: &str,
        outcome: &mut Outcome,
    ) {
        let paths: HashSet<&Path> = incoming.iter().map(|it| it.path.as_path()).collect();
        let did = |it: &Incoming| match &it.content {
            NewContent::File { mode, source } => Did::File(source.clone(), *mode),
            NewContent::Bytes { mode, bytes } => Did::Bytes(bytes.clone(), *mode),
            NewContent::Link { target } => Did::Link(target.clone()),
            NewContent::Directory { .. } => Did::Directory,
            NewContent::Nothing => Did::Gone,
        };
        let changes: Vec<(&Path, Did)> = incoming.iter().map(|it| (it.path.as_path(), did(it))).collect();
        // A crash from here on leaves a part of them on the bench.
        let noted = copied.layer.note(&bench.note(&copied.command, Some(&changes)));
        let adopted = noted.map_err(|error| error.to_string()).and_then(|()| bench.adopt_with(&changes, flood));
        let mut result = match adopted {
            Ok(left_out) => {
                if !group.is_empty() || flood.is_none() {
                    note_changes(outcome, group, &paths, |_| false, note);
                }
                if !left_out.is_empty() {
                    add(outcome, &format!("[no commit has these, later commands do: {}]", left_out.join(", ")));
                }
                let flooded = flood.map_or(0, Flood::len);
                Outcome::of(format!("kept {}", counted(incoming.len() + flooded, "change")))
            }
            Err(error) => {
                add(outcome, &format!("[none of its changes were kept: {error}]"));
                fail(outcome, ToolError::new("changes-failed", error.clone(), "try again"));
                ToolError::new("changes-failed", error, "").into()
            }
        };
        self.options.gate.settle(permit, &mut result);
    }
}

/// A need as it is named in a question.
fn need_words(need: &Need) -> String {
    match need {
        Need::Network { .. } => "the network".to_owned(),
        Need::Read { path } => format!("reading {}", in_sentence(path)),
        Need::Write { path } => format!("writing {}", in_sentence(path)),
        Need::Socket { path } => format!("the socket {}", in_sentence(path)),
        Need::Host { what } => what.clone(),
    }
}

/// The first row of the question: how the command ended, and how long it took.
fn how_it_ended(outcome: &Outcome) -> String {
    if outcome.metadata.contains_key("cutOff") {
        return "cut off by a crash, before or after its end".to_owned();
    }
    let number = |name: &str| outcome.metadata.get(name).and_then(Value::as_u64);
    let status = number("exitCode").map_or_else(|| "no exit status".to_owned(), |status| format!("exit {status}"));
    let tenths = number("durationMs").unwrap_or(0) / 100;
    format!("{status}, {}.{} s", tenths / 10, tenths % 10)
}

/// The arguments for the receipt and the fingerprint of the question: the command with its exit status, and each path with its
/// new content.
fn arguments(command: &str, group: &[&Change], outcome: &Outcome) -> Value {
    let mut all = Hasher::new();
    let mut named = Vec::new();
    for (change, hash) in group.iter().zip(hashes(group)) {
        let what = match &change.kind {
            ChangeKind::Deleted => "deleted".to_owned(),
            ChangeKind::Directory { mode } => format!("directory {mode:o}"),
            ChangeKind::Link { target } => format!("link {}", target.display()),
            ChangeKind::File { mode, bytes, .. } => format!("file {mode:o} {bytes} {hash}"),
        };
        let line = format!("{} {what}", change.path.display());
        all.update(line.as_bytes());
        all.update(b"\0");
        if named.len() < NAMED_MAX {
            named.push(line);
        }
    }
    let status = outcome.metadata.get("exitCode").cloned().unwrap_or_default();
    json!({"command": command, "changes": named, "changes_sha256": all.finish_hex(), "status": status})
}

/// The hash of each change's new content, empty if it has none; several threads read them.
fn hashes(group: &[&Change]) -> Vec<String> {
    let hash = |change: &&Change| match &change.kind {
        ChangeKind::File { source, .. } => hash_of(source),
        _ => String::new(),
    };
    let threads = std::thread::available_parallelism().map_or(1, usize::from).min(HASHING_THREADS_MAX);
    let share = group.len().div_ceil(threads).max(HASHED_ALONE_MAX);
    std::thread::scope(|scope| {
        let part = |part: &[&Change]| part.iter().map(hash).collect::<Vec<_>>();
        let mut parts = group.chunks(share);
        let first = parts.next();
        let others: Vec<_> = parts.map(|it| scope.spawn(move || part(it))).collect();
        let first = first.map(part).unwrap_or_default();
        let others = others.into_iter().map(|it| it.join().unwrap_or_default());
        first.into_iter().chain(others.flatten()).collect()
    })
}

/// The hash of a file's data, with the places of the data if the file has holes. For a file with too much data, its
/// metadata instead, since only this program writes there.
fn hash_of(source: &std::path::Path) -> String {
    let mut hasher = Hasher::new();
    let (mut end, mut left) = (0, HASHED_BYTES_MAX);
    let hashed = holes::each_piece_at(source, &mut |at, piece| {
        if at != end {
            hasher.update(format!("\0hole {end} {at}\0").as_bytes());
        }
        hasher.update(piece);
        end = at + piece.len() as u64;
        left = left.saturating_sub(piece.len() as u64);
        left > 0
    });
    match hashed {
        Ok(data) if left == 0 => format!("large {} {} {}", data.ino(), data.ctime(), data.ctime_nsec()),
        Ok(_) => hasher.finish_hex(),
        Err(_) => "unreadable".to_owned(),
    }
}

/// The part of a command's changes that a person wants.
struct Wanted<'a> {
    /// The files whose hunks they accepted, with the resulting contents.
    files: &'a [FileChange],
    /// The files whose hunks they were shown.
    proposed: &'a [FileChange],
    /// True if they accept the changes that no hunk shows.
    has_others: bool,
}

/// Returns the changes to apply: all of them, or only these contents of the files that were shown.
fn incoming(group: &[&Change], wanted: Option<Wanted<'_>>) -> Vec<Incoming> {
    let content = |change: &Change| match &change.kind {
        ChangeKind::Deleted => NewContent::Nothing,
        ChangeKind::Directory { mode } => NewContent::Directory { mode: *mode },
        ChangeKind::Link { target } => NewContent::Link { target: target.clone() },
        ChangeKind::File { mode, source, .. } => NewContent::File { mode: *mode, source: source.clone() },
    };
    let accepted = |change: &Change| {
        let Some(wanted) = &wanted else { return Some(content(change)) };
        let is_it = |file: &&FileChange| change.path.to_str() == Some(file.path.as_str());
        match (wanted.files.iter().find(is_it), &change.kind) {
            (Some(FileChange { new: Some(bytes), .. }), ChangeKind::File { mode, .. }) => {
                Some(NewContent::Bytes { mode: *mode, bytes: bytes.clone() })
            }
            (Some(_), _) => Some(content(change)),
            (None, kind) => {
                let is_above = |file: &FileChange| Path::new(&file.path).starts_with(&change.path);
                let is_directory = matches!(kind, ChangeKind::Directory { .. });
                let is_taken = match wanted.proposed.iter().any(is_above) {
                    // A directory is made together with the applied files in it.
                    true if change.before.is_none() => is_directory && wanted.files.iter().any(is_above),
                    // A row shows its mode.
                    true if is_directory && change.before.is_some_and(|it| it.is_directory()) => wanted.has_others,
                    true => false,
                    false => wanted.has_others,
                };
                is_taken.then(|| content(change))
            }
        }
    };
    let one = |change: &&Change| {
        let content = accepted(change)?;
        Some(Incoming { path: change.path.clone(), expected: change.before, content })
    };
    group.iter().filter_map(one).collect()
}

/// Changes that can't be shown are dropped; the message is for the person, the hint for the model.
fn uncollected(why: &CollectError) -> ToolError {
    let instead = match why {
        CollectError::TooMany(_) | CollectError::Slow(_) => {
            ", and changes that can't be shown aren't made real; let the model work in parts, or run the command yourself"
        }
        CollectError::Path { .. } => "",
    };
    let hint = "change less with one command; a job (background) works on the workspace itself, after a question";
    ToolError::new("changes-failed", format!("its changes were dropped: {why}{instead}"), hint)
}

/// Tells the model that changes were dropped, and why.
fn dropped(group: &[&Change], code: &str, why: &str, refused: Outcome, outcome: &mut Outcome) {
    add(outcome, &format!("[dropped, it would have changed: {}; {why}]", listed(group)));
    let hint = refused.error.map(|error| error.hint).unwrap_or_default();
    let code = if code == "no" { "changes-refused" } else { "changes-dropped" };
    let all = outcome.metadata.get("changes").and_then(Value::as_u64);
    let which = match all.is_some_and(|all| group.len() as u64 != all) {
        true => format!("some of its changes ({}) were dropped", listed(group)),
        false => "its changes were dropped".to_owned(),
    };
    fail(outcome, ToolError::new(code, format!("{which}: {why}"), hint));
}

/// Reports a line to the model and the person.
fn tell(line: String, outcome: &mut Outcome, sink: &mut dyn FnMut(Event)) {
    add(outcome, &line);
    sink(Event::Notice(line));
}

fn add(outcome: &mut Outcome, line: &str) {
    if !outcome.output.is_empty() && !outcome.output.ends_with('\n') {
        outcome.output.push('\n');
    }
    outcome.output.push_str(line);
}

/// Marks an outcome as failed, unless the command itself failed in another way.
fn fail(outcome: &mut Outcome, error: ToolError) {
    outcome.success = false;
    outcome.error.get_or_insert(error);
}

/// Waits until a moment in the near future, unless it has passed.
pub(in crate::agent) fn wait_until(moment: Option<Instant>) {
    while let Some(left) = moment.and_then(|moment| moment.checked_duration_since(Instant::now())) {
        if left.is_zero() {
            return;
        }
        std::thread::park_timeout(left);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Half of a work tree and empty directories stayed when the protected files in them were dropped.
    #[test]
    fn a_new_directory_goes_with_what_is_in_it() {
        let directories = ["a", "a/b", "a/b/empty", "c", "c/d", "e", "e/empty", "old/new"];
        let files = ["a/b/.envrc", "a/b/HEAD", "c/d/.envrc", "c/file", "file", "old/new/.envrc"];
        let change = |(path, is_file): (&str, bool)| Change {
            path: path.into(),
            kind: match is_file {
                true => ChangeKind::File { mode: 0o644, bytes: 0, source: PathBuf::new() },
                false => ChangeKind::Directory { mode: 0o755 },
            },
            before: None,
            is_contested: false,
            other_names: 0,
            has_privilege: false,
            is_cleared: false,
            protected: (path.ends_with(".envrc") || path.ends_with("HEAD")).then_some("why"),
        };
        let all = directories.map(|it| (it, false)).into_iter().chain(files.map(|it| (it, true)));
        let mut all: Vec<Change> = all.map(change).collect();
        all.sort_by(|left, right| left.path.cmp(&right.path));
        let (apart, others) = divided(all.iter().collect(), &|it| it.protected.is_some());
        let names =
            |list: &[&Change]| list.iter().map(|it| it.path.display().to_string()).collect::<Vec<_>>().join(" ");
        assert_eq!(names(&apart), "a a/b a/b/.envrc a/b/HEAD a/b/empty c/d c/d/.envrc old/new old/new/.envrc");
        assert_eq!(names(&others), "c c/file e e/empty file");
    }

    /// A rebase couldn't continue without the one file that was dropped.
    #[test]
    fn changes_of_a_started_git_operation_are_kept_together() {
        let change = |(path, is_new, protected): &(&str, bool, Option<&'static str>)| Change {
            path: path.into(),
            kind: ChangeKind::Directory { mode: 0o755 },
            before: (!is_new).then(|| Layers::open([Path::new("/")]).ok()?.stamp(Path::new("tmp")).ok()?).flatten(),
            is_contested: false,
            other_names: 0,
            has_privilege: false,
            is_cleared: false,
            protected: *protected,
        };
        let all = [
            (".git", false, None),
            (".git/rebase-merge", true, None),
            (".git/rebase-merge/git-rebase-todo", true, Some("why")),
            (".git/sequencer", true, None),
            ("c/.git", true, None),
            ("c/.git/config", true, Some("why")),
        ];
        let all: Vec<Change> = all.iter().map(change).collect();
        let begun = begun_of_git(&all.iter().collect::<Vec<_>>());
        assert_eq!(begun, [".git/rebase-merge", "c/.git"].map(PathBuf::from).into());
    }

    #[test]
    fn a_person_reads_that_too_many_changes_were_dropped_and_what_to_do() {
        let error = uncollected(&CollectError::TooMany(200_000));
        let message = "its changes were dropped: they are more than 200000 files and directories, and changes that can't be shown \
                    aren't made real; let the model work in parts, or run the command yourself";
        assert_eq!((error.message.as_str(), error.headline()), (message, message));
    }
}
