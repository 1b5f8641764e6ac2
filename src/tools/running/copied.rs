//! A command's changes of its copy of the workspace, in a form for a question to a person: rows for all changes,
//! differences of text files. Nothing is decided here.

use std::collections::HashSet;
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Component, Path};
use std::sync::Arc;

use crate::base::text::{counted, spelled_out};
use crate::files::{Layers, Stamp, end_of, open_plain};
use crate::gate::Named;
use crate::proto::known_paths;
use crate::proto::tool::FileChange;
use crate::sandbox::{Change, ChangeKind, Layer};
use crate::tools::running::moves::Moves;
use crate::tools::running::records;
use crate::tools::running::refused::Refusal;

/// Longest text whose difference is shown.
const TEXT_BYTES_MAX: u64 = 256 * 1024;
/// Files whose differences are shown.
const FILES_MAX: usize = 200;
/// Bytes of all of them.
const ALL_BYTES_MAX: u64 = 4 * 1024 * 1024;
/// Rows of one list.
const ROWS_MAX: usize = 400;
/// Longest list of a rebase's steps.
const TODO_BYTES_MAX: u64 = 1024 * 1024;
/// Longest config of a new repository.
const CONFIG_BYTES_MAX: u64 = 4096;

/// The copy of a command that has ended.
#[derive(Debug)]
pub struct Copied {
    /// The command.
    pub command: String,
    /// The layers that hold what it changed.
    pub layer: Arc<Layer>,
    /// The resource that the jail seems to have refused.
    pub refused: Option<Refusal>,
}

impl Copied {
    /// Returns whether the command was refused something that it could be granted.
    pub(in crate::tools) fn lacks_something(&self) -> bool {
        self.refused.as_ref().is_some_and(|refusal| refusal.need.is_some())
    }
}

/// Changes as they are shown.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Shown {
    /// One row for each path or directory, protected ones first. Text from outside: it must be escaped to be shown.
    pub rows: Vec<String>,
    /// The rows that have no difference on display.
    pub others: Vec<String>,
    /// The differences of text files.
    pub files: Vec<FileChange>,
}

/// Reason why a changed path of a workspace is protected; `None` if it isn't. A new directory by itself runs nothing.
#[must_use]
pub fn protection(change: &Change, workspace: &Path, named: &Named) -> Option<&'static str> {
    if matches!(change.kind, ChangeKind::Directory { .. }) {
        let is_git = |part: Component| part.as_os_str().eq_ignore_ascii_case(".git");
        let is_old = change.before.is_some_and(|it| it.is_directory());
        return (is_old && change.path.components().any(is_git)).then_some("who may change what git runs");
    }
    if is_plain_of_git(change) {
        return None;
    }
    match &change.kind {
        ChangeKind::Link { target } => link_protection(&change.path, target, workspace, named),
        _ => known_paths::protected(change.path.as_os_str().as_bytes()).or_else(|| named.reason_below(&change.path)),
    }
}

/// Returns the same for a link of the workspace, judged by its name and by its target.
#[must_use]
pub fn link_protection(path: &Path, target: &Path, workspace: &Path, named: &Named) -> Option<&'static str> {
    const LEADS_OUT: &str = "leads out of the workspace: what is written to it is written there";
    let of_link =
        |path: &Path| known_paths::protected_link(path.as_os_str().as_bytes()).or_else(|| named.reason_below(path));
    of_link(path).or_else(|| {
        let Ok(root) = std::fs::canonicalize(workspace) else { return Some(LEADS_OUT) };
        if !is_plain(target) {
            return Some(LEADS_OUT);
        }
        // A cycle of links leads nowhere.
        let real = end_of(root.join(path.parent()?), target)?;
        match real.strip_prefix(&root) {
            Ok(below) => of_link(below),
            Err(_) => (!is_harmless_outside(&real)).then_some(LEADS_OUT),
        }
    })
}

/// Returns whether a link's target goes up only at its beginning. A `..` after a name may go up from a link that the same command
/// made, and so lead anywhere.
fn is_plain(target: &Path) -> bool {
    let is_leading = |it: &Component| matches!(it, Component::CurDir | Component::ParentDir);
    target.components().skip_while(is_leading).all(|it| it != Component::ParentDir)
}

/// Returns whether a link to a place outside is harmless: it leads to a compiled program, as the interpreter of a
/// Python environment, or to a file of the system's that this user can neither write nor replace. A directory never is:
/// one that can't be written itself may hold the whole home.
fn is_harmless_outside(real: &Path) -> bool {
    let Ok(data) = std::fs::metadata(real) else { return false };
    let is_compiled = || {
        let mut first = [0; 4];
        open_plain(real).is_ok_and(|mut file| file.read_exact(&mut first).is_ok()) && first == *b"\x7fELF"
    };
    let can_write = |path: &Path| nix::unistd::access(path, nix::unistd::AccessFlags::W_OK).is_ok();
    let is_of_system = || {
        let is_fixed = !can_write(real) && real.parent().is_some_and(|directory| !can_write(directory));
        data.uid() == 0 && is_fixed && !known_paths::is_system_credential(real.as_os_str().as_bytes())
    };
    data.is_file() && (data.mode() & 0o111 != 0 && is_compiled() || is_of_system())
}

/// Returns whether a change is of a file of git's that starts no program: the config of a new repository, or the steps of a
/// rebase.
fn is_plain_of_git(change: &Change) -> bool {
    let is_named = |end: &str| change.path.as_os_str().as_encoded_bytes().ends_with(end.as_bytes());
    is_named("config") && is_plain_config(change) || is_named("todo") && is_plain_todo(change)
}

/// Returns whether a change is the step list of a rebase without a step that runs a command. Without that list the rebase can't
/// go on.
fn is_plain_todo(change: &Change) -> bool {
    const STEPS: [&str; 23] = [
        "pick",
        "p",
        "reword",
        "r",
        "edit",
        "e",
        "squash",
        "s",
        "fixup",
        "f",
        "drop",
        "d",
        "label",
        "l",
        "reset",
        "t",
        "merge",
        "m",
        "break",
        "b",
        "noop",
        "update-ref",
        "u",
    ];
    let ChangeKind::File { bytes, source, .. } = &change.kind else { return false };
    let is_of_git = change.path.components().any(|part| part.as_os_str() == ".git");
    let is_todo = is_of_git && change.path.ends_with("rebase-merge/git-rebase-todo") && *bytes <= TODO_BYTES_MAX;
    let is_step = |line: &str| {
        let word = line.split_whitespace().next().unwrap_or_default();
        word.is_empty() || word.starts_with('#') || STEPS.contains(&word)
    };
    is_todo && std::fs::read_to_string(source).is_ok_and(|text| text.lines().all(is_step))
}

/// Returns whether a change is the config of a new repository with only what git itself writes there, and an author.
fn is_plain_config(change: &Change) -> bool {
    /// Keys of `[core]` and `[extensions]` that git sets on its own in a new repository, and that start no program.
    const KEYS: [&str; 9] = [
        "bare",
        "filemode",
        "ignorecase",
        "logallrefupdates",
        "objectformat",
        "precomposeunicode",
        "refstorage",
        "repositoryformatversion",
        "symlinks",
    ];
    /// Keys of `[user]`: the author of commits, which many set in a new repository. Any text is good.
    const AUTHOR: [&str; 2] = ["email", "name"];
    const VALUES: [&str; 8] = ["true", "false", "0", "1", "sha1", "sha256", "files", "reftable"];
    let ChangeKind::File { bytes, source, mode } = &change.kind else { return false };
    if !change.path.ends_with(".git/config")
        || change.before.is_some()
        || *bytes > CONFIG_BYTES_MAX
        || mode & 0o111 != 0
    {
        return false;
    }
    let Ok(text) = std::fs::read_to_string(source) else { return false };
    let is_one_of = |known: &[&str], key: &str| known.iter().any(|it| it.eq_ignore_ascii_case(key.trim()));
    text.lines().map(str::trim).all(|line| match line.split_once('=') {
        None => matches!(line, "" | "[core]" | "[extensions]" | "[user]"),
        Some((key, value)) if is_one_of(&AUTHOR, key) => {
            !value.contains(|c: char| c.is_control() || matches!(c, '\\' | '"'))
        }
        Some((key, value)) => is_one_of(&KEYS, key) && VALUES.contains(&value.trim()),
    })
}

/// Returns changes as rows and differences. `before` is the workspace before the command; without it there are no differences.
#[must_use]
pub fn shown(changes: &[&Change], before: Option<&Layers>) -> Shown {
    let mut rows = Vec::new();
    let mut files: Vec<FileChange> = Vec::new();
    let mut bytes = 0;
    let mut groups: Vec<Group> = Vec::new();
    let mut written: Vec<Records> = Vec::new();
    let place = |change: &Change| (change.protected.is_none(), leads_out(change), rank(change));
    let mut order: Vec<&&Change> = changes.iter().collect();
    order.sort_by_key(|change| place(change));
    let moves = Moves::of(changes, before);
    for change in order {
        let place = place(change);
        if change.protected.is_none()
            && let Some(directory) = group_of(change, changes)
        {
            match groups.iter_mut().find(|it| it.directory == directory && it.is_deletion == is_deletion(change)) {
                Some(group) => group.add(change),
                None => groups.push(Group::new(directory, change)),
            }
            continue;
        }
        if change.protected.is_none()
            && let Some((git, name)) = records::record_in(change)
        {
            match written.iter_mut().find(|it| it.git == git) {
                Some(of_git) => of_git.add(change, name),
                None => written.push(Records::new(git, change, name)),
            }
            continue;
        }
        if change.protected.is_none()
            && let Some(moved) = records::moved(change, changes, before)
        {
            rows.push(Row::other(place, format!("{}  {}  {moved}", mark(change), change.path.display())));
            continue;
        }
        if moves.has_gone(change) {
            continue;
        }
        if let Some(text) = moves.row(change) {
            rows.push(Row::other(place, text));
            continue;
        }
        let has_room = files.len() < FILES_MAX && bytes < ALL_BYTES_MAX;
        let file = if has_room { difference(change, before) } else { None };
        let size = file.iter().flat_map(|file| [&file.old, &file.new]).flatten().map(|it| it.len() as u64).sum::<u64>();
        bytes += size;
        let file = file.filter(|_| bytes <= ALL_BYTES_MAX);
        // A difference says more than its row, but nothing of modes.
        if file.is_none() || change.protected.is_some() || change.other_names > 0 || has_told_mode(change) {
            let of = (file.is_some() || is_new_directory(change)).then_some(change.path.as_path());
            rows.push(Row { place, text: row(change), of });
        }
        files.extend(file);
    }
    rows.extend(written.iter().filter_map(|it| Some(Row::other((true, true, 1), it.row()?))));
    rows.extend(groups.iter().map(|it| Row::other((true, true, it.rank()), it.row())));
    Shown { rows: limited(&rows), others: limited(&others(&rows, &files)), files }
}

/// A row about one change or several, before it is shown.
#[derive(Clone)]
struct Row<'a> {
    /// Its place among the rows: protected ones first, then links that lead out, then by rank.
    place: (bool, bool, u8),
    text: String,
    /// The path whose difference, or the directory below which a difference, is shown too: the row is decided together with it.
    of: Option<&'a Path>,
}

impl Row<'_> {
    fn other(place: (bool, bool, u8), text: String) -> Self {
        Self { place, text, of: None }
    }
}

/// The rows about changes that go with no file whose difference is shown.
fn others<'a>(rows: &[Row<'a>], files: &[FileChange]) -> Vec<Row<'a>> {
    let above: HashSet<&Path> = files.iter().flat_map(|file| Path::new(&file.path).ancestors()).collect();
    rows.iter().filter(|row| row.of.is_none_or(|path| !above.contains(path))).cloned().collect()
}

/// The rows in their order, with a limit.
fn limited(rows: &[Row<'_>]) -> Vec<String> {
    let mut order: Vec<&Row<'_>> = rows.iter().collect();
    order.sort_by_key(|row| row.place);
    // A name with a line end must not look like one of our rows.
    let mut shown: Vec<String> = order.iter().take(ROWS_MAX).map(|row| row.text.replace('\n', "\\n")).collect();
    let more = rows.len().saturating_sub(ROWS_MAX);
    shown.extend((more > 0).then(|| format!("and {more} more")));
    shown
}

/// Returns whether a changed file has new permission bits, or a new file is executable.
fn has_told_mode(change: &Change) -> bool {
    let ChangeKind::File { mode, .. } = &change.kind else { return false };
    match change.before.filter(Stamp::is_file) {
        Some(before) => before.permissions() != *mode,
        None => mode & 0o111 != 0,
    }
}

fn is_new_directory(change: &Change) -> bool {
    matches!(change.kind, ChangeKind::Directory { .. }) && change.before.is_none()
}

/// The changes in one line, for a model and for notices. Git's objects, which say nothing, are only counted.
#[must_use]
pub fn listed(changes: &[&Change]) -> String {
    const PATHS_MAX: usize = 20;
    let name = |it: &Change| spelled_out(&it.path.to_string_lossy());
    let (objects, others): (Vec<&Change>, Vec<&Change>) =
        changes.iter().partition(|it| !is_deletion(it) && records::objects_above(&it.path).is_some());
    let mut words: Vec<String> =
        others.iter().take(PATHS_MAX).map(|it| format!("{} {}{}", mark(it), name(it), apart(it))).collect();
    let more = others.len().saturating_sub(PATHS_MAX);
    words.extend((more > 0).then(|| format!("and {more} more")));
    let objects = objects.iter().filter(|it| matches!(it.kind, ChangeKind::File { .. })).count();
    words.extend((objects > 0).then(|| format!("+ {} of git", counted(objects, "object"))));
    words.join(", ")
}

/// Records of git's own that are shown as one row.
struct Records<'a> {
    git: &'a Path,
    names: Vec<&'a Path>,
    has_directories: bool,
}

impl<'a> Records<'a> {
    fn new(git: &'a Path, change: &Change, name: &'a Path) -> Self {
        let mut records = Self { git, names: Vec::new(), has_directories: false };
        records.add(change, name);
        records
    }

    fn add(&mut self, change: &Change, name: &'a Path) {
        match change.kind {
            ChangeKind::Directory { .. } => self.has_directories = true,
            _ if self.names.last() == Some(&name) => {}
            _ => self.names.push(name),
        }
    }

    fn row(&self) -> Option<String> {
        const NAMES_MAX: usize = 4;
        if self.names.is_empty() {
            return self
                .has_directories
                .then(|| format!("M  {}/  directories of git's own records", self.git.display()));
        }
        let mut names: Vec<String> = self.names.iter().take(NAMES_MAX).map(|it| it.display().to_string()).collect();
        let more = self.names.len().saturating_sub(NAMES_MAX);
        names.extend((more > 0).then(|| format!("{more} more")));
        Some(format!("M  {}/  git's own records: {}", self.git.display(), names.join(", ")))
    }
}

/// Changes of one directory that are shown as one row.
struct Group<'a> {
    directory: &'a Path,
    is_deletion: bool,
    files: usize,
    bytes: u64,
}

impl<'a> Group<'a> {
    fn new(directory: &'a Path, change: &Change) -> Self {
        let mut group = Self { directory, is_deletion: is_deletion(change), files: 0, bytes: 0 };
        group.add(change);
        group
    }

    fn add(&mut self, change: &Change) {
        let (is_directory, bytes) = match &change.kind {
            ChangeKind::File { bytes, .. } => (false, *bytes),
            ChangeKind::Link { .. } => (false, 0),
            ChangeKind::Directory { .. } => (true, 0),
            ChangeKind::Deleted => {
                (change.before.is_some_and(|it| it.is_directory()), change.before.map_or(0, |it| it.size))
            }
        };
        self.files += usize::from(!is_directory);
        self.bytes += if is_directory { 0 } else { bytes };
    }

    /// Place among the rows: directories that tools fill come last.
    fn rank(&self) -> u8 {
        match (self.is_deletion, known_paths::derived(self.directory).is_some()) {
            (true, _) => 0,
            (false, false) => 2,
            (false, true) => 3,
        }
    }

    fn row(&self) -> String {
        let mark = if self.is_deletion { "D" } else { "+" };
        let derived = if known_paths::derived(self.directory) == Some(self.directory) { ", derived" } else { "" };
        let files = if self.files == 1 { "1 file".to_owned() } else { format!("{} files", self.files) };
        format!("{mark}  {}/  {files}, {}{derived}", self.directory.display(), size(self.bytes))
    }
}

/// The directory under which a change is counted: one that was deleted as a whole, one that tools fill, or git's objects.
fn group_of<'a>(change: &'a Change, all: &[&'a Change]) -> Option<&'a Path> {
    let derived = known_paths::derived(&change.path);
    if derived.is_some() {
        return derived;
    }
    let is_gone = |path: &Path| {
        let found = all.binary_search_by(|it| it.path.as_path().cmp(path)).map(|at| all[at]);
        found.is_ok_and(|it| it.kind == ChangeKind::Deleted && it.before.is_some_and(|it| it.is_directory()))
    };
    let above = change.path.ancestors().filter(|path| !path.as_os_str().is_empty() && is_gone(path));
    let objects = records::objects_above(&change.path);
    let gone = above.last().filter(|_| is_deletion(change));
    // One row for all objects that git has packed, unless all of them are gone.
    gone.filter(|gone| objects.is_none_or(|objects| objects.starts_with(gone))).or(objects)
}

fn is_deletion(change: &Change) -> bool {
    change.kind == ChangeKind::Deleted
}

/// Sorts deletions first, then changes, then new files.
fn rank(change: &Change) -> u8 {
    match (&change.kind, change.before) {
        (ChangeKind::Deleted, _) => 0,
        (_, Some(_)) => 1,
        (_, None) => 2,
    }
}

/// Links that lead out of the workspace come before others.
fn leads_out(change: &Change) -> bool {
    !matches!(&change.kind, ChangeKind::Link { target } if target.is_absolute() || target.starts_with(".."))
}

fn mark(change: &Change) -> &'static str {
    match rank(change) {
        0 => "D",
        1 => "M",
        _ => "+",
    }
}

fn row(change: &Change) -> String {
    let path = change.path.display();
    let old = change.before;
    let what = match &change.kind {
        ChangeKind::Deleted if old.is_some_and(|it| it.is_directory()) => "directory deleted".to_owned(),
        ChangeKind::Deleted => format!("deleted, {}", size(old.map_or(0, |it| it.size))),
        ChangeKind::Directory { mode } => match old.filter(Stamp::is_directory) {
            Some(old) => modes(&old, *mode),
            None => "new directory".to_owned(),
        },
        ChangeKind::Link { target } => format!("-> {}", target.display()),
        ChangeKind::File { mode, bytes, .. } => {
            let executable = if mode & 0o111 != 0 { ", executable" } else { "" };
            match old.filter(Stamp::is_file) {
                None => format!("new, {}{executable}", size(*bytes)),
                Some(old) if old.permissions() != *mode => {
                    format!("{} to {}, {}", size(old.size), size(*bytes), modes(&old, *mode))
                }
                Some(old) => format!("{} to {}{executable}", size(old.size), size(*bytes)),
            }
        }
    };
    let apart = apart(change);
    match change.protected {
        Some(why) => format!("!  {path}  {what}{apart}  PROTECTED: {why}"),
        None => format!("{}  {path}  {what}{apart}", mark(change)),
    }
}

/// Says that other names of a changed file aren't the same file any more.
fn apart(change: &Change) -> String {
    match change.other_names {
        0 => String::new(),
        1 => " (its other name keeps the old content)".to_owned(),
        more => format!(" (its {more} other names keep the old content)"),
    }
}

fn modes(old: &Stamp, mode: u32) -> String {
    format!("mode {:o} to {mode:o}", old.permissions())
}

fn size(bytes: u64) -> String {
    match bytes {
        0..10_000 => format!("{bytes} bytes"),
        10_000..1_000_000 => format!("{} kB", bytes / 1000),
        _ => format!("{}.{} MB", bytes / 1_000_000, bytes / 100_000 % 10),
    }
}

/// Returns the difference of a change to a text file.
fn difference(change: &Change, workspace: Option<&Layers>) -> Option<FileChange> {
    let old = match change.before {
        None => None,
        Some(before) if before.is_file() && before.size <= TEXT_BYTES_MAX => {
            Some(workspace?.held(&change.path, TEXT_BYTES_MAX).ok()?.1)
        }
        Some(_) => return None,
    };
    let new = match &change.kind {
        ChangeKind::File { bytes, source, .. } if *bytes <= TEXT_BYTES_MAX => Some(std::fs::read(source).ok()?),
        ChangeKind::Deleted => None,
        _ => return None,
    };
    let is_text = |bytes: &Option<Vec<u8>>| bytes.as_ref().is_none_or(|it| !it.contains(&0));
    let path = change.path.to_str()?.to_owned();
    // If only the mode changes there is no difference.
    (is_text(&old) && is_text(&new) && old != new).then_some(FileChange { path, old, new })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The link was hidden among git's own records.
    #[test]
    fn a_protected_link_has_a_row_of_its_own() {
        let dir = tempfile::tempdir().expect("a directory");
        let named = Named::new(dir.path(), dir.path());
        let (path, kind) = (".git/COMMIT_EDITMSG".into(), ChangeKind::Link { target: "../../.bashrc".into() });
        let mut change = Change {
            path,
            kind,
            before: None,
            is_contested: false,
            other_names: 0,
            has_privilege: false,
            is_cleared: false,
            protected: None,
        };
        assert!(records::record_in(&change).is_some());
        change.protected = protection(&change, dir.path(), &named);
        let why = "PROTECTED: leads out of the workspace: what is written to it is written there";
        assert_eq!(shown(&[&change], None).rows, [format!("!  .git/COMMIT_EDITMSG  -> ../../.bashrc  {why}")]);
    }

    /// A mode hid the difference, and the difference hid the mode.
    #[test]
    fn a_mode_and_a_difference_do_not_hide_each_other() {
        let dir = tempfile::tempdir().expect("a directory");
        let (work, upper) = (dir.path().join("work"), dir.path().join("upper"));
        for (path, text, mode) in [
            (work.join("both"), "a\n", 0o644),
            (work.join("mode"), "a\n", 0o644),
            (upper.join("both"), "b\n", 0o755),
            (upper.join("mode"), "a\n", 0o600),
            (upper.join("d/new"), "n\n", 0o755),
        ] {
            std::fs::create_dir_all(path.parent().expect("a parent")).expect("a directory");
            std::fs::write(&path, text).expect("a file");
            let mode = std::os::unix::fs::PermissionsExt::from_mode(mode);
            std::fs::set_permissions(&path, mode).expect("its mode");
        }
        let layers = Layers::open([&*work]).expect("the workspace");
        let file = |path: &str| {
            let (source, before) = (upper.join(path), layers.stamp(Path::new(path)).unwrap_or(None));
            let data = std::fs::metadata(&source).expect("a file");
            (path.to_owned(), ChangeKind::File { mode: data.mode() & 0o777, bytes: data.len(), source }, before)
        };
        let directory = |path: &str| (path.to_owned(), ChangeKind::Directory { mode: 0o755 }, None);
        let changes: Vec<Change> = [
            file("both"),
            directory("d"),
            file("d/new"),
            directory("empty"),
            file("mode"),
            ("target/x".to_owned(), ChangeKind::Link { target: "y".into() }, None),
        ]
        .into_iter()
        .map(|(path, kind, before)| Change {
            path: path.into(),
            kind,
            before,
            is_contested: false,
            other_names: 0,
            has_privilege: false,
            is_cleared: false,
            protected: None,
        })
        .collect();
        let shown = shown(&changes.iter().collect::<Vec<_>>(), Some(&layers));
        let files: Vec<&str> = shown.files.iter().map(|file| file.path.as_str()).collect();
        assert_eq!(files, ["both", "d/new"]);
        let rows = [
            "M  both  2 bytes to 2 bytes, mode 644 to 755",
            "M  mode  2 bytes to 2 bytes, mode 644 to 600",
            "+  d  new directory",
            "+  d/new  new, 2 bytes, executable",
            "+  empty  new directory",
            "+  target/  1 file, 0 bytes, derived",
        ];
        assert_eq!(shown.rows, rows);
        assert_eq!(shown.others, [rows[1], rows[4], rows[5]]);
    }

    #[test]
    fn steps_of_a_rebase_that_run_nothing_are_not_protected() {
        let dir = tempfile::tempdir().expect("a directory");
        let named = Named::new(dir.path(), dir.path());
        let source = dir.path().join("todo");
        for (text, is_protected) in [
            ("pick 7ffed8f c3\n\n# Rebase\nupdate-ref refs/heads/x\n", false),
            ("pick 7ffed8f c3\nexec make\n", true),
            ("  x make\n", true),
        ] {
            std::fs::write(&source, text).expect("a file");
            let kind = ChangeKind::File { mode: 0o644, bytes: text.len() as u64, source: source.clone() };
            let change = Change {
                path: ".git/rebase-merge/git-rebase-todo".into(),
                kind,
                before: None,
                is_contested: false,
                other_names: 0,
                has_privilege: false,
                is_cleared: false,
                protected: None,
            };
            assert_eq!(protection(&change, dir.path(), &named).is_some(), is_protected, "{text}");
        }
    }

    #[test]
    fn a_mode_of_a_directory_of_git_is_protected() {
        let dir = tempfile::tempdir().expect("a directory");
        std::fs::create_dir_all(dir.path().join("sub/.git/hooks")).expect("directories");
        let layers = Layers::open([dir.path()]).expect("the workspace");
        let named = Named::new(dir.path(), dir.path());
        for (path, is_protected) in [("sub/.git", true), ("sub/.git/hooks", true), ("sub", false), (".git", false)] {
            let change = Change {
                path: path.into(),
                kind: ChangeKind::Directory { mode: 0o777 },
                before: layers.stamp(Path::new(path)).expect("a stamp"),
                is_contested: false,
                other_names: 0,
                has_privilege: false,
                is_cleared: false,
                protected: None,
            };
            assert_eq!(protection(&change, dir.path(), &named).is_some(), is_protected, "{path}");
        }
    }

    #[test]
    fn links_that_package_managers_and_virtual_environments_make_are_not_protected() {
        let top = tempfile::tempdir().expect("a directory");
        let (dir, program) = (top.path().join("work"), top.path().join("python"));
        std::fs::create_dir_all(dir.join("part")).expect("directories");
        std::fs::copy("/proc/self/exe", &program).expect("a program");
        let script = top.path().join("script");
        std::fs::copy(&program, &script).and_then(|_| std::fs::write(&script, "#!/bin/sh\n")).expect("a script");
        let key = top.path().join("key");
        std::fs::write(&key, "key\n").expect("a key");
        std::fs::set_permissions(&key, std::os::unix::fs::PermissionsExt::from_mode(0o400)).expect("its mode");
        let named = Named::new(&dir, &dir);
        for (at, target) in [("nothing", "part/none"), ("circle", "circle"), ("out", "../none")] {
            std::os::unix::fs::symlink(target, dir.join(at)).expect("a link");
        }
        let is_protected = |path: &str, target: &Path| {
            let kind = ChangeKind::Link { target: target.into() };
            let change = Change {
                path: path.into(),
                kind,
                before: None,
                is_contested: false,
                other_names: 0,
                has_privilege: false,
                is_cleared: false,
                protected: None,
            };
            protection(&change, &dir, &named).is_some()
        };
        // The directories of these links are new.
        for (path, target) in [
            ("node_modules/part", "../part"),
            ("node_modules/.bin/tool", "../tool/cli.js"),
            ("node_modules/@scope/part", "../../part"),
            ("env/lib64", "lib"),
            // Links to links that lead nowhere.
            ("a", "nothing"),
            ("a", "circle"),
            ("part/a", "./../part/a"),
        ] {
            assert!(!is_protected(path, Path::new(target)), "{path} -> {target}");
        }
        assert!(!is_protected("env/bin/python", &program), "a compiled program");
        for (path, target) in [
            ("env/bin/python", &*script),
            ("a/b", Path::new("../../.bashrc")),
            ("part/c", Path::new("../.envrc")),
            ("a", Path::new("out")),
            ("a", Path::new("b/../../none")),
            // An ordinary user can't write these, and their home through them.
            ("r", Path::new("/")),
            ("h", Path::new("/usr")),
            ("key.pem", &*key),
            // In place of directories with protected files.
            (".cargo", Path::new("part")),
            (".git/rebase-merge", Path::new("../part")),
        ] {
            assert!(is_protected(path, target), "{path} -> {}", target.display());
        }
    }
}
