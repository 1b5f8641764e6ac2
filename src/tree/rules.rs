//! Rules about paths: which git ignores, which it changes by a filter before they become part of a commit, and which names may
//! hold secrets. They are read from files of the tree; nothing is run. It must not know trees.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ignore::gitignore::{Gitignore, GitignoreBuilder};

use super::edit::RULES_BYTES_MAX;

/// The names of files that hold secrets, and the beginnings of such names: no commit takes them.
const SECRET: [&str; 3] = [".env", ".netrc", ".pgpass"];
const SECRET_BEGINNINGS: [&str; 4] = [".env.", "id_rsa", "id_ed25519", "id_ecdsa"];
/// The suffixes of files that are examples of such a file, or are meant for others.
const NO_SECRET_ENDS: [&str; 5] = [".example", ".sample", ".template", ".dist", ".pub"];

/// Returns whether a file's name says that it may hold secrets.
#[must_use]
pub fn may_hold_secrets(path: &Path) -> bool {
    let name = path.file_name().map(OsStr::to_string_lossy).unwrap_or_default();
    let begins = SECRET_BEGINNINGS.iter().any(|it| name.starts_with(it));
    SECRET.contains(&&*name) || begins && !NO_SECRET_ENDS.iter().any(|it| name.ends_with(it))
}

/// The text of a file of rules; empty if there is none.
type Read<'a> = Box<dyn Fn(&Path) -> String + Send + 'a>;

/// The rules of a tree, each file of them read once.
pub(super) struct Rules<'a> {
    read: Read<'a>,
    /// Lines of ignore files that lie outside of the tree.
    excludes: Vec<String>,
    ignored: Kind,
    filtered: Kind,
}

/// The rules of one kind, by the directory of their file.
#[derive(Default)]
struct Kind {
    all: BTreeMap<PathBuf, Option<Arc<Gitignore>>>,
    /// The directory of the last path, and the rules that count there, the deepest first: a command makes many files in few
    /// directories, most of which have no rules.
    last: Option<(PathBuf, Vec<Arc<Gitignore>>)>,
}

impl Kind {
    /// The rules that count for the entries of a directory; `read` makes those of one directory.
    fn at(&mut self, directory: &Path, read: impl Fn(&Path) -> Gitignore) -> &[Arc<Gitignore>] {
        let is_last = |(last, _): &(PathBuf, Vec<_>)| last.as_os_str() == directory.as_os_str();
        let found = self.last.take().filter(is_last).unwrap_or_else(|| {
            let mut found = Vec::new();
            for above in directory.ancestors() {
                let rule = self.all.entry(above.to_owned()).or_insert_with(|| {
                    let rule = read(above);
                    (!rule.is_empty()).then(|| Arc::new(rule))
                });
                found.extend(rule.clone());
            }
            (directory.to_owned(), found)
        });
        &self.last.insert(found).1
    }
}

impl<'a> Rules<'a> {
    pub(super) fn new(excludes: Vec<String>, read: Read<'a>) -> Self {
        Self { read, excludes, ignored: Kind::default(), filtered: Kind::default() }
    }

    /// Returns whether git would ignore a path that it doesn't know yet.
    pub(super) fn ignores(&mut self, path: &Path) -> bool {
        self.ignores_entry(path, false)
    }

    /// The same for a path that may be that of a directory.
    pub(super) fn ignores_entry(&mut self, path: &Path, is_directory: bool) -> bool {
        let (read, excludes) = (&self.read, &self.excludes);
        let rules = self.ignored.at(path.parent().unwrap_or(Path::new("")), |directory| {
            let text = read(&directory.join(".gitignore"));
            let excludes = excludes.iter().filter(|_| directory.as_os_str().is_empty());
            matcher(directory, excludes.map(String::as_str).chain(text.lines()))
        });
        let mut found = rules.iter().map(|it| it.matched_path_or_any_parents(Path::new("/").join(path), is_directory));
        found.find(|it| !it.is_none()).is_some_and(|it| it.is_ignore())
    }

    /// Returns whether git would run a program on a path's content (`filter=` in gitattributes(5)), as Git LFS and
    /// git-crypt have it.
    pub(super) fn filters(&mut self, path: &Path) -> bool {
        let read = &self.read;
        let rules = self.filtered.at(path.parent().unwrap_or(Path::new("")), |directory| {
            let text = read(&directory.join(".gitattributes"));
            let lines: Vec<String> = text.lines().filter_map(filter_line).collect();
            matcher(directory, lines.iter().map(String::as_str))
        });
        let mut found = rules.iter().map(|it| it.matched(Path::new("/").join(path), false));
        found.find(|it| !it.is_none()).is_some_and(|it| it.is_ignore())
    }
}

/// Returns whether a path is that of a file of git's rules.
pub(super) fn is_rule_file(path: &Path) -> bool {
    path.file_name().is_some_and(|name| name == ".gitignore" || name == ".gitattributes")
}

/// Reads a file of rules on the disk; `None` if there is none. Git doesn't follow a link in its place either.
pub(super) fn rules_in(path: &Path) -> Option<String> {
    let is_one = path.symlink_metadata().is_ok_and(|it| it.is_file() && it.len() <= RULES_BYTES_MAX);
    let bytes = is_one.then(|| std::fs::read(path).ok())??;
    Some(String::from_utf8_lossy(&bytes).into_owned())
}

fn matcher<'l>(directory: &Path, lines: impl Iterator<Item = &'l str>) -> Gitignore {
    let mut builder = GitignoreBuilder::new(Path::new("/").join(directory));
    for line in lines {
        let _ = builder.add_line(None, line);
    }
    builder.build().unwrap_or_else(|_| Gitignore::empty())
}

/// Turns a line of attributes about filters into a line of an ignore file.
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
    use super::*;

    #[test]
    fn ignore_files_and_filters_count_from_the_deepest_directory_up() {
        let files = [
            (".gitignore", "built/\n*.log\n"),
            ("src/.gitignore", "!keep.log\n"),
            (".gitattributes", "# comment\n*.bin filter=lfs -text\n\"a b.*\" filter=x\n*.txt text eol=crlf\n"),
            ("src/.gitattributes", "plain.bin -filter\n"),
        ];
        let text = |path: &Path| files.iter().find(|(name, _)| path == Path::new(name)).map_or("", |(_, text)| text);
        let mut rules = Rules::new(vec!["mine".to_owned()], Box::new(|path| text(path).to_owned()));
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

    #[test]
    fn names_of_secrets_are_known_and_their_examples_are_none() {
        for (name, may) in [
            (".env", true),
            ("deep/.env.local", true),
            ("id_ed25519", true),
            (".env.example", false),
            (".envrc", false),
            ("id_rsa.pub", false),
            ("environment", false),
        ] {
            assert_eq!(may_hold_secrets(Path::new(name)), may, "{name}");
        }
    }
}
