//! The names of a repository's files, stored for the next session: walking a large tree takes longer than checking that
//! none of its directories has changed.

use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use super::closed::Closed;
use super::storage::put;
use super::symbols::index_file;
use super::tree::{self, Listed};
use super::{Stamp, stamp};
use crate::project::repository::git;

/// The first line of the stored file; the number grows with each new format.
const MAGIC: &str = "reednames2";
/// Limit for the stored file.
const KEPT_BYTES_MAX: u64 = 1024 * 1024;
/// A directory that changed so recently may change again without a new time.
const SETTLED: Duration = Duration::from_secs(2);

/// The names below a root within a number of characters, without closed ones, and the times of their directories;
/// `kept_in` is where they are stored.
pub(super) fn names(root: &Path, chars_max: usize, closed: &Closed, kept_in: Option<&Path>) -> (Listed, Vec<Stamp>) {
    let which = format!("{chars_max} {}", closed.line());
    if let Some(cached) = kept_in.and_then(|directory| stored(&file(directory, root), root, &which)) {
        return cached;
    }
    let listed = tree::listed(&tree::read(root, closed), chars_max);
    let stamps = stamps(root, &listed.directories);
    if let Some(directory) = kept_in {
        keep(directory, root, &which, &listed, &stamps);
    }
    (listed, stamps)
}

/// The stamps on which the names depend: a directory's time changes with the names in it.
fn stamps(root: &Path, directories: &[String]) -> Vec<Stamp> {
    let places = directories.iter().map(|directory| root.join(directory));
    places.chain([root.join(".gitignore")]).map(|path| stamp(&path)).collect()
}

fn file(directory: &Path, root: &Path) -> PathBuf {
    index_file(directory, root).with_extension("names")
}

/// A stamp's time and length as text.
fn stamp_text(stamp: &Stamp) -> Option<String> {
    let Some((time, length)) = stamp.1 else { return Some("-".to_owned()) };
    Some(format!("{} {length}", time.duration_since(UNIX_EPOCH).ok()?.as_nanos()))
}

fn stored(file: &Path, root: &Path, which: &str) -> Option<(Listed, Vec<Stamp>)> {
    let text = git::read_bounded(file, KEPT_BYTES_MAX)?;
    let mut lines = text.strip_prefix(MAGIC)?.strip_prefix('\n')?.split('\n');
    let is_same = lines.next()? == root.to_str()? && lines.next()? == which;
    let count: usize = lines.next().filter(|_| is_same)?.parse().ok()?;
    let directories: Vec<String> = lines.by_ref().take(count).map(str::to_owned).collect();
    let stamps = stamps(root, &directories);
    let is_valid = stamps
        .iter()
        .all(|stamp| stamp_text(stamp).is_some_and(|stamp_lines| lines.next() == Some(stamp_lines.as_str())));
    let text = lines.collect::<Vec<_>>().join("\n");
    (is_valid && directories.len() == count).then_some((Listed { text, directories }, stamps))
}

/// Stores the names, if possible.
fn keep(directory: &Path, root: &Path, which: &str, listed: &Listed, stamps: &[Stamp]) {
    let is_line = |text: &str| !text.contains('\n');
    let is_settled = |stamp: &Stamp| {
        stamp.1.is_none_or(|(time, _)| SystemTime::now().duration_since(time).is_ok_and(|age| age > SETTLED))
    };
    let Some(place) = root.to_str().filter(|place| is_line(place)) else { return };
    if !listed.directories.iter().all(|directory| is_line(directory)) || !stamps.iter().all(is_settled) {
        return;
    }
    let Some(stamp_lines) = stamps.iter().map(stamp_text).collect::<Option<Vec<_>>>() else { return };
    let mut text = format!("{MAGIC}\n{place}\n{which}\n{}\n", listed.directories.len());
    for line in listed.directories.iter().chain(&stamp_lines) {
        text.push_str(line);
        text.push('\n');
    }
    text.push_str(&listed.text);
    let _ = put(&file(directory, root), text.as_bytes());
}

#[cfg(test)]
mod tests {
    use std::fs::{self, File};

    use super::*;

    /// Sets the directories' times back, as if they had been unchanged for a while.
    fn settle(root: &Path) {
        for path in [root.to_owned(), root.join("src"), root.join("src/deep")] {
            let time = SystemTime::now() - Duration::from_secs(60);
            File::open(path).and_then(|it| it.set_modified(time)).expect("a time");
        }
    }

    #[test]
    fn stored_names_are_valid_until_a_directory_changes() {
        let (dir, state) = (tempfile::tempdir().expect("a directory"), tempfile::tempdir().expect("a directory"));
        let (root, kept_in) = (dir.path(), Some(state.path()));
        fs::create_dir_all(root.join("src/deep")).expect("directories");
        fs::write(root.join("src/deep/a.rs"), "").expect("a file");
        let names = |closed: &Closed| names(root, 1000, closed, kept_in).0.text;
        let (open, which) = (Closed::default(), "1000 []");
        let is_kept = || file(state.path(), root).exists();
        let first = names(&open);
        assert!(first.contains("a.rs") && !is_kept(), "it may change once more: {first}");
        settle(root);
        assert_eq!(names(&open), first);
        assert!(is_kept());
        let (again, stamps) = stored(&file(state.path(), root), root, which).expect("kept");
        assert_eq!((&again.text, &again.directories[..]), (&first, &["", "src", "src/deep"].map(str::to_owned)[..]));
        assert_eq!(stamps, self::stamps(root, &again.directories));
        assert!(stored(&file(state.path(), root), root, "999 []").is_none(), "another length");
        assert!(!names(&Closed::new(&[root.join("src/deep")])).contains("deep"), "other rules");
        fs::write(root.join("src/deep/b.rs"), "").expect("a file");
        assert!(names(&open).contains("b.rs"));
        settle(root);
        names(&open);
        fs::write(root.join(".gitignore"), "*.rs\n").expect("a file");
        assert!(!names(&open).contains("b.rs"));
        for cut in 0..200 {
            fs::write(file(state.path(), root), &format!("{MAGIC}\n{}\n{which}\n3\n", root.display())[..cut.min(30)])
                .expect("a damaged file");
            assert!(stored(&file(state.path(), root), root, which).is_none());
        }
    }
}
