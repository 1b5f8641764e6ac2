//! `AGENTS.md`, `CLAUDE.md` and `GEMINI.md`, from the root of a repository down to a directory in it. A link that leads
//! out of the repository or to closed paths, a pipe, and files that aren't text are skipped: they could be any file of
//! the user's.

use std::io::Read;
use std::path::{Path, PathBuf};

use super::closed::Closed;
use super::{clean, is_hidden};
use crate::files::open_plain;

/// The names that the file may have in a directory; the same text under several names is read once.
const NAMES: [&str; 3] = ["AGENTS.md", "CLAUDE.md", "GEMINI.md"];
/// Limit on the bytes read of one file.
const FILE_BYTES_MAX: u64 = 64 * 1024;
/// Limit on the directories between root and working directory that are searched.
const DEPTH_MAX: usize = 32;

/// A file of instructions.
pub(super) struct Instructions {
    /// Its path below the root.
    place: String,
    text: String,
}

/// The directories of such files, the root first.
pub(super) fn places(root: &Path, cwd: &Path) -> Vec<PathBuf> {
    let mut directories: Vec<&Path> = cwd.ancestors().take_while(|directory| directory.starts_with(root)).collect();
    directories.reverse();
    directories.iter().take(DEPTH_MAX).flat_map(|directory| NAMES.map(|name| directory.join(name))).collect()
}

/// Reads the files, the root's first.
pub(super) fn read(root: &Path, cwd: &Path, closed: &Closed) -> Vec<Instructions> {
    let read = |path: PathBuf| {
        let place = path.strip_prefix(root).ok()?.display().to_string();
        Some(Instructions { place: clean(&place), text: text_inside(root, &path, closed)? })
    };
    let mut found: Vec<Instructions> = Vec::new();
    for it in places(root, cwd).into_iter().filter_map(read) {
        // `CLAUDE.md` is often a link to `AGENTS.md`.
        let directory = |it: &Instructions| Path::new(&it.place).parent().map(Path::to_owned);
        if !found.iter().any(|other| other.text == it.text && directory(other) == directory(&it)) {
            found.push(it);
        }
    }
    found
}

/// Reads a text file that lies in the repository and isn't closed, and removes invisible characters.
pub(super) fn text_inside(root: &Path, path: &Path, closed: &Closed) -> Option<String> {
    let real = path.canonicalize().ok().filter(|real| real.starts_with(root))?;
    if closed.holds(path) || closed.holds(&real) {
        return None;
    }
    let mut bytes = Vec::new();
    open_plain(&real).ok()?.take(FILE_BYTES_MAX).read_to_end(&mut bytes).ok()?;
    let text: String = String::from_utf8_lossy(&bytes).chars().filter(|c| !is_hidden(*c)).collect();
    let text = text.trim();
    (!text.is_empty()).then(|| text.to_owned())
}

/// Writes the instructions within `chars_max` characters: each file gets its share, with a mark if it is cut.
pub(super) fn shortened(found: &[Instructions], chars_max: usize) -> String {
    let mut joined = String::new();
    let mut left = chars_max;
    for (at, Instructions { place, text }) in found.iter().enumerate() {
        let head = format!("\n{place}:\n");
        let part = (left / (found.len() - at)).saturating_sub(head.chars().count());
        let length = text.chars().count();
        let body = if length <= part {
            format!("{text}\n")
        } else {
            const GAP: usize = 40;
            let beginning: String = text.chars().take(part.saturating_sub(GAP)).collect();
            format!("{beginning}\n(… {} more characters)\n", length - beginning.chars().count())
        };
        left = left.saturating_sub(head.chars().count() + body.chars().count());
        joined.push_str(&head);
        joined.push_str(&body);
    }
    joined
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn nothing_from_outside_the_repository_is_read() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap().join("repo");
        fs::create_dir_all(root.join("a/b/c")).unwrap();
        fs::write(dir.path().join("secret"), "SECRET").unwrap();
        fs::write(dir.path().join("AGENTS.md"), "ABOVE").unwrap();
        std::os::unix::fs::symlink(dir.path().join("secret"), root.join("AGENTS.md")).unwrap();
        nix::unistd::mkfifo(&root.join("a").join("AGENTS.md"), nix::sys::stat::Mode::S_IRWXU).unwrap();
        fs::write(root.join("rules"), "RULES").unwrap();
        std::os::unix::fs::symlink("../../rules", root.join("a/b").join("AGENTS.md")).unwrap();
        fs::create_dir(root.join("a/b/c").join("AGENTS.md")).unwrap();
        let found = read(&root, &root.join("a/b/c"), &Closed::default());
        let texts: Vec<(&str, &str)> = found.iter().map(|it| (it.place.as_str(), it.text.as_str())).collect();
        assert_eq!(texts, [("a/b/AGENTS.md", "RULES")]);
        let closed = Closed::new(&[root.join("rules")]);
        assert!(read(&root, &root.join("a/b/c"), &closed).is_empty(), "through a link");
    }

    #[test]
    fn the_files_of_other_programs_count_too_and_the_same_text_once() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        fs::create_dir(root.join("a")).unwrap();
        fs::write(root.join("AGENTS.md"), "ALL").unwrap();
        std::os::unix::fs::symlink("AGENTS.md", root.join("CLAUDE.md")).unwrap();
        fs::write(root.join("a/GEMINI.md"), "NEAR").unwrap();
        fs::write(root.join("a/CLAUDE.md"), "ALL").unwrap();
        let found = read(&root, &root.join("a"), &Closed::default());
        let texts: Vec<(&str, &str)> = found.iter().map(|it| (it.place.as_str(), it.text.as_str())).collect();
        assert_eq!(texts, [("AGENTS.md", "ALL"), ("a/CLAUDE.md", "ALL"), ("a/GEMINI.md", "NEAR")]);
    }

    #[test]
    fn long_ones_share_the_room_and_say_that_they_are_cut() {
        let file = |place: &str, length: usize| Instructions { place: place.into(), text: "x".repeat(length) };
        let text = shortened(&[file("AGENTS.md", 10), file("a/AGENTS.md", 5000), file("b/CLAUDE.md", 5000)], 1000);
        assert!(text.starts_with("\nAGENTS.md:\nxxxxxxxxxx\n\na/AGENTS.md:\n"), "{text}");
        assert_eq!(text.matches(" more characters)").count(), 2);
        assert!(text.chars().count() <= 1000, "{}", text.len());
        assert_eq!(shortened(&[], 1000), "");
    }
}
