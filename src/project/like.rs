//! Paths of a repository that match the letters typed so far.

use crate::files::walk;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Limit on the paths that are shown.
const SHOWN_MAX: usize = 50;
/// Limits on the entries that are examined and on the time: a person waits for the result.
const ENTRIES_MAX: usize = 50_000;
const TIME: Duration = Duration::from_millis(250);

/// Returns the files below a root whose paths resemble the typed text, the best match first; paths are relative to the
/// root, and `here` is the person's directory in it.
#[must_use]
pub fn paths_like(root: &Path, typed: &str, here: &str) -> Vec<PathBuf> {
    let deadline = Instant::now() + TIME;
    let walk = walk(root).parents(false).git_global(false).same_file_system(true).build();
    let mut found: Vec<(u32, usize, PathBuf)> = Vec::new();
    for (at, entry) in walk.filter_map(Result::ok).take(ENTRIES_MAX).enumerate() {
        if at % 256 == 255 && Instant::now() > deadline {
            break;
        }
        if !entry.file_type().is_some_and(|kind| kind.is_file()) {
            continue;
        }
        let Some(path) = entry.path().strip_prefix(root).ok().and_then(Path::to_str) else { continue };
        if path.chars().any(char::is_control) {
            continue;
        }
        let from_here = path.strip_prefix(here).map_or(path, |rest| rest.trim_start_matches('/'));
        let best = likeness(from_here, typed).into_iter().chain(likeness(path, typed)).min();
        if let Some(rank) = best {
            found.push((rank, path.len(), path.into()));
        }
    }
    found.sort_unstable();
    found.into_iter().take(SHOWN_MAX).map(|(_, _, path)| path).collect()
}

/// The distance of a path from the typed text, 0 for the best; `None` if it doesn't match.
fn likeness(path: &str, typed: &str) -> Option<u32> {
    let (path, typed) = (path.to_lowercase(), typed.to_lowercase());
    let name = path.rsplit('/').next().unwrap_or_default();
    if path.starts_with(&typed) {
        Some(0)
    } else if name.starts_with(&typed) {
        Some(1)
    } else if path.contains(&format!("/{typed}")) {
        Some(2)
    } else if name.contains(&typed) {
        Some(3)
    } else {
        // All the letters, in order; with two or fewer letters, nearly every path would match.
        let mut letters = path.chars();
        let is_spread = typed.chars().count() > 2 && typed.chars().all(|c| letters.any(|it| it == c));
        is_spread.then_some(4)
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn the_likeliest_path_comes_first_and_ignored_ones_not_at_all() {
        let dir = tempfile::tempdir().expect("a directory");
        fs::create_dir(dir.path().join(".git")).expect("a directory");
        for path in
            ["src/app/mod.rs", "src/main.rs", "main.txt", "docs/domain.md", "out/main.o", "m/a/i/n", ".gitignore"]
        {
            let path = dir.path().join(path);
            fs::create_dir_all(path.parent().expect("a parent")).expect("directories");
            fs::write(path, "/out\n").expect("a file");
        }
        let like = |typed: &str, here: &str| -> Vec<String> {
            paths_like(dir.path(), typed, here).iter().map(|path| path.display().to_string()).collect()
        };
        assert_eq!(like("main", ""), ["main.txt", "src/main.rs", "docs/domain.md", "m/a/i/n"]);
        assert_eq!(like("mod", "src/app"), ["src/app/mod.rs"]);
        assert_eq!(like("SRC/a", ""), ["src/app/mod.rs", "src/main.rs"]);
        assert_eq!(like("nothing", ""), Vec::<String>::new());
        assert_eq!(like("", "").len(), 5);
    }
}
