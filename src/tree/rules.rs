//! Rules of git about paths: which it ignores, and which it changes by a filter before they become part of a commit. They are
//! those of a draft's own files; nothing is run.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use ignore::gitignore::{Gitignore, GitignoreBuilder};

use super::Draft;

/// Longest file of rules that is read, in bytes.
const BYTES_MAX: u64 = 1024 * 1024;

/// The rules of a draft, each file of them read once.
pub(super) struct Rules<'a> {
    draft: &'a Draft,
    ignored: BTreeMap<PathBuf, Gitignore>,
    filtered: BTreeMap<PathBuf, Gitignore>,
}

impl<'a> Rules<'a> {
    pub(super) fn of(draft: &'a Draft) -> Self {
        Self { draft, ignored: BTreeMap::new(), filtered: BTreeMap::new() }
    }

    /// Whether git would ignore a path that it doesn't know yet.
    pub(super) fn ignores(&mut self, path: &Path) -> bool {
        for directory in path.ancestors().skip(1) {
            let draft = self.draft;
            let rule = self.ignored.entry(directory.to_owned()).or_insert_with(|| {
                let text = text_of(draft, &directory.join(".gitignore"));
                let excludes = draft.excludes();
                let excludes = excludes.iter().filter(|_| directory.as_os_str().is_empty());
                matcher(directory, excludes.map(String::as_str).chain(text.lines()))
            });
            let found = rule.matched_path_or_any_parents(Path::new("/").join(path), false);
            if !found.is_none() {
                return found.is_ignore();
            }
        }
        false
    }

    /// Whether git would run a program on a path's content (`filter=` in gitattributes(5)), as Git LFS and git-crypt have it.
    pub(super) fn filters(&mut self, path: &Path) -> bool {
        for directory in path.ancestors().skip(1) {
            let draft = self.draft;
            let rule = self.filtered.entry(directory.to_owned()).or_insert_with(|| {
                let text = text_of(draft, &directory.join(".gitattributes"));
                let lines: Vec<String> = text.lines().filter_map(filter_line).collect();
                matcher(directory, lines.iter().map(String::as_str))
            });
            let found = rule.matched(Path::new("/").join(path), false);
            if !found.is_none() {
                return found.is_ignore();
            }
        }
        false
    }
}

/// A file of rules; empty if there is none.
fn text_of(draft: &Draft, path: &Path) -> String {
    draft.leaf(path, BYTES_MAX).map(|(_, bytes)| String::from_utf8_lossy(&bytes).into_owned()).unwrap_or_default()
}

fn matcher<'l>(directory: &Path, lines: impl Iterator<Item = &'l str>) -> Gitignore {
    let mut builder = GitignoreBuilder::new(Path::new("/").join(directory));
    for line in lines {
        let _ = builder.add_line(None, line);
    }
    builder.build().unwrap_or_else(|_| Gitignore::empty())
}

/// What a line of attributes says about filters, as a line of an ignore file.
fn filter_line(line: &str) -> Option<String> {
    let line = line.trim_start();
    let (pattern, words) = match line.strip_prefix('"') {
        Some(quoted) => quoted.split_once('"')?,
        None => line.split_once(char::is_whitespace)?,
    };
    // A pattern with a slash at its end matches nothing here (gitattributes(5)).
    if pattern.starts_with(['#', '!', '[']) || pattern.ends_with('/') {
        return None;
    }
    let last = words.split_whitespace().rfind(|word| word.trim_start_matches(['-', '!']).starts_with("filter"))?;
    match last {
        "-filter" | "!filter" => Some(format!("!{pattern}")),
        last => last.starts_with("filter=").then(|| pattern.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::super::{Memory, Mode};
    use super::*;
    use crate::git::empty_tree;

    #[test]
    fn ignore_files_and_filters_count_from_the_deepest_directory_up() {
        let draft = Draft::on(Arc::new(Memory::default()), empty_tree(), Path::new("/project"), None);
        let put = |path: &str, text: &str| {
            draft.put(Path::new(path), Some((Mode::File, text.as_bytes()))).expect("put");
        };
        put(".gitignore", "built/\n*.log\n");
        put("src/.gitignore", "!keep.log\n");
        put(".gitattributes", "# comment\n*.bin filter=lfs -text\n\"a b.*\" filter=x\n*.txt text eol=crlf\n");
        put("src/.gitattributes", "plain.bin -filter\n");
        draft.exclude(vec!["mine".to_owned()]);
        let mut rules = Rules::of(&draft);
        for (path, is_ignored, is_filtered) in [
            ("built/o", true, false),
            ("x.log", true, false),
            ("src/keep.log", false, false),
            ("mine", true, false),
            ("x.bin", false, true),
            ("deep/x.bin", false, true),
            ("src/plain.bin", false, false),
            ("a b.c", false, true),
            ("a.txt", false, false),
        ] {
            let found = (rules.ignores(Path::new(path)), rules.filters(Path::new(path)));
            assert_eq!(found, (is_ignored, is_filtered), "{path}");
        }
    }
}
