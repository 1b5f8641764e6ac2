//! The names of a repository's files within a number of characters: whole directories, one per line, the upper ones first, and
//! the number of the others. Files that git ignores or the user's rules close are omitted.

use crate::files::{may_be_walked, walk};
use std::collections::{BTreeMap, VecDeque};
use std::path::Path;

use super::clean;
use super::closed::Closed;

/// Limit on the names that are examined: some 50 ms with a cold disk.
const ENTRIES_MAX: usize = 20_000;
/// Limit on the levels below the root.
const DEPTH_MAX: usize = 24;
/// Limit for the names of one directory.
const NAMES_MAX: usize = 40;

/// A directory with its contents.
#[derive(Debug, Default)]
pub(super) struct Tree {
    directories: BTreeMap<String, Tree>,
    files: Vec<String>,
    /// Number of files in it and below it.
    count: usize,
}

/// The description of the tree.
pub(super) struct Listed {
    pub text: String,
    /// The directories whose names are listed, below the root.
    pub directories: Vec<String>,
}

/// Reads the names.
pub(super) fn read(root: &Path, closed: &Closed) -> Tree {
    let mut walk = walk(root);
    // Only this repository's ignore files count: a file above it is not part of it.
    walk.parents(false).git_global(false).follow_links(false).max_depth(Some(DEPTH_MAX)).require_git(false);
    walk.sort_by_file_name(Ord::cmp);
    let closed = closed.clone();
    walk.filter_entry(move |entry| {
        let path = entry.path();
        may_be_walked(entry) && if entry.path_is_symlink() { !closed.is_reached_by(path) } else { !closed.holds(path) }
    });
    let mut tree = Tree::default();
    for entry in walk.build().filter_map(Result::ok).skip(1).take(ENTRIES_MAX) {
        let Ok(path) = entry.path().strip_prefix(root) else { continue };
        let is_directory = entry.file_type().is_some_and(|kind| kind.is_dir());
        let parts: Vec<String> = path.iter().map(|part| part.to_string_lossy().into_owned()).collect();
        tree.add(&parts, is_directory);
    }
    tree
}

impl Tree {
    fn add(&mut self, parts: &[String], is_directory: bool) {
        self.count += usize::from(!is_directory);
        match parts {
            [] => {}
            [name] if !is_directory => self.files.push(name.clone()),
            [name, rest @ ..] => self.directories.entry(name.clone()).or_default().add(rest, is_directory),
        }
    }
}

/// Writes one line for each directory, the upper ones first, as many as fit.
pub(super) fn listed(tree: &Tree, chars_max: usize) -> Listed {
    let mut text = String::new();
    let mut directories = Vec::new();
    let mut waiting = VecDeque::from([(String::new(), tree)]);
    let mut left_out = 0;
    let mut left = chars_max;
    while let Some((path, tree)) = waiting.pop_front() {
        let line = line(&path, tree);
        let length = line.chars().count();
        if length > left {
            left_out += 1;
            continue;
        }
        left -= length;
        text.push_str(&line);
        let below = |(name, below)| {
            let path = if path.is_empty() { String::clone(name) } else { format!("{path}/{name}") };
            (path, below)
        };
        waiting.extend(tree.directories.iter().filter(|(_, below)| below.count > 0).map(below));
        directories.push(path);
    }
    if left_out > 0 {
        text.push_str(&format!("({left_out} directories are only counted)\n"));
    }
    Listed { text, directories }
}

fn line(path: &str, tree: &Tree) -> String {
    let place = if path.is_empty() { "." } else { path };
    let below = tree.directories.iter().filter(|(_, below)| below.count > 0);
    let below = below.map(|(name, below)| format!("{name}/({})", below.count));
    let names: Vec<String> = tree.files.iter().cloned().chain(below).map(|name| clean(&name)).collect();
    let more = names.len().saturating_sub(NAMES_MAX);
    let mut line = format!("{}: {}", clean(place), names[..names.len() - more].join("  "));
    if more > 0 {
        line.push_str(&format!("  … {more} more"));
    }
    line.push('\n');
    line
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn tree(paths: &[&str]) -> Tree {
        let mut tree = Tree::default();
        for path in paths {
            tree.add(&path.split('/').map(str::to_owned).collect::<Vec<_>>(), false);
        }
        tree
    }

    #[test]
    fn upper_directories_come_first_and_others_are_counted() {
        let tree = tree(&["README.md", "src/a.rs", "src/b.rs", "src/deep/c.rs", "tests/x\n\u{202e}.rs"]);
        let all = listed(&tree, 1000);
        let wanted = ".: README.md  src/(3)  tests/(1)\nsrc: a.rs  b.rs  deep/(1)\ntests: x.rs\nsrc/deep: c.rs\n";
        assert_eq!(all.text, wanted);
        assert_eq!(all.directories, ["", "src", "tests", "src/deep"]);
        let some = listed(&tree, 62);
        assert_eq!(
            some.text,
            ".: README.md  src/(3)  tests/(1)\nsrc: a.rs  b.rs  deep/(1)\n(2 directories are only counted)\n"
        );
        let names: Vec<String> = (0..50).map(|number| format!("f{number:02}")).collect();
        let wide = self::tree(&names.iter().map(String::as_str).collect::<Vec<_>>());
        assert!(listed(&wide, 1000).text.ends_with("f39  … 10 more\n"));
    }

    proptest! {
        #[test]
        fn the_names_stay_within_their_limit(paths in prop::collection::vec("[a-c]{1,2}(/[a-c]{1,3}){0,3}", 0..40), room in 0usize..400) {
            let tree = tree(&paths.iter().map(String::as_str).collect::<Vec<_>>());
            let text = listed(&tree, room).text;
            prop_assert!(text.chars().count() <= room + 40, "{}", text);
        }
    }
}
