//! The text of a tool that lies in a repository: `tools/NAME.luau` and the modules that it names. Nothing of it is run here.

use std::collections::BTreeMap;

use crate::base::hash::Hasher;
use crate::files::{EntryKind, Tree};
use crate::render::diff::unified;

/// The directory of the tools.
pub const FOLDER: &str = "tools";
/// Extension of tools.
const ENDING: &str = ".luau";
/// Ending of the names of their tests.
const TEST_ENDING: &str = ".test.luau";
/// Tools of one repository.
const TOOLS_MAX: usize = 50;
/// Bytes of one file.
const FILE_BYTES_MAX: u64 = 64 * 1024;
/// Files of one tool.
const FILES_MAX: usize = 20;
/// Characters of a name.
const NAME_CHARS_MAX: usize = 40;

/// The text of a tool and of its modules.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Source {
    name: String,
    /// Texts by path; that of the tool itself is among them.
    files: BTreeMap<String, String>,
}

/// Returns the names of the tools in a tree.
#[must_use]
pub fn names(tree: &dyn Tree) -> Vec<String> {
    let entries = tree.list(FOLDER).unwrap_or_default();
    let files = entries.into_iter().filter(|it| it.kind != EntryKind::Directory && !it.name.ends_with(TEST_ENDING));
    let names = files.filter_map(|it| it.name.strip_suffix(ENDING).map(str::to_owned));
    names.filter(|name| is_name(name)).take(TOOLS_MAX).collect()
}

/// Returns the text of a tool's tests.
///
/// # Errors
/// There is no such file, or it is too long or not text.
pub fn tests_of(tree: &dyn Tree, name: &str) -> Result<String, String> {
    text(tree, &format!("{FOLDER}/{name}{TEST_ENDING}"))
}

fn text(tree: &dyn Tree, path: &str) -> Result<String, String> {
    let content = tree.read(path, FILE_BYTES_MAX).map_err(|error| format!("{path}: {error}"))?;
    String::from_utf8(content.bytes).map_err(|_| format!("{path} is no text"))
}

/// Returns whether a tool may have this name: letters, digits and `_`, a letter first.
fn is_name(name: &str) -> bool {
    name.len() <= NAME_CHARS_MAX
        && name.starts_with(|c: char| c.is_ascii_lowercase())
        && name.bytes().all(|it| it.is_ascii_lowercase() || it.is_ascii_digit() || it == b'_')
}

/// The path of a module that a `require` names; `None` if it lies elsewhere.
fn module_path(name: &str) -> Option<String> {
    let is_part =
        |part: &str| !part.is_empty() && part.bytes().all(|it| it.is_ascii_alphanumeric() || it == b'_' || it == b'-');
    name.split('/').all(is_part).then(|| format!("{FOLDER}/{name}{ENDING}"))
}

/// The names in the calls `require "name"` and `require("name")` of a text.
fn required(text: &str) -> impl Iterator<Item = &str> {
    text.match_indices("require").filter_map(|(at, word)| {
        let rest = text[at + word.len()..].trim_start();
        let rest = rest.strip_prefix('(').map_or(rest, str::trim_start);
        let quote = rest.chars().next().filter(|it| matches!(it, '"' | '\''))?;
        rest[1..].split(quote).next()
    })
}

impl Source {
    /// Reads a tool and the modules that it names.
    ///
    /// # Errors
    /// A file isn't there, is too long or no text, or there are too many.
    pub fn read(tree: &dyn Tree, name: &str) -> Result<Self, String> {
        let (mut files, mut waiting) = (BTreeMap::new(), vec![format!("{FOLDER}/{name}{ENDING}")]);
        while let Some(path) = waiting.pop() {
            if files.contains_key(&path) {
                continue;
            }
            if files.len() == FILES_MAX {
                return Err(format!("it has more than {FILES_MAX} files"));
            }
            let text = text(tree, &path)?;
            waiting.extend(required(&text).filter_map(module_path));
            files.insert(path, text);
        }
        Ok(Self { name: name.to_owned(), files })
    }

    /// Its name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its own text.
    #[must_use]
    pub fn text(&self) -> &str {
        self.files.get(&format!("{FOLDER}/{}{ENDING}", self.name)).map_or("", String::as_str)
    }

    /// The text of one of its modules.
    #[must_use]
    pub fn module(&self, name: &str) -> Option<&str> {
        self.files.get(&module_path(name)?).map(String::as_str)
    }

    /// All its files with their texts.
    #[must_use]
    pub fn files(&self) -> &BTreeMap<String, String> {
        &self.files
    }

    /// The difference from files with these texts, by path.
    #[must_use]
    pub fn difference(&self, old: &BTreeMap<String, String>) -> String {
        let changed = self.files.iter().filter(|(path, new)| old.get(*path) != Some(new));
        changed.map(|(path, new)| unified(path, old.get(path).map(String::as_str), new)).collect()
    }

    /// Hashes the paths and texts of all its files: SHA-256, hexadecimal.
    #[must_use]
    pub fn sha256(&self) -> String {
        let mut hasher = Hasher::new();
        hasher.update(b"reedclaw-tool 1\n");
        for (path, text) in &self.files {
            for part in [path, text] {
                hasher.update(&(part.len() as u64).to_be_bytes());
                hasher.update(part.as_bytes());
            }
        }
        hasher.finish_hex()
    }
}
