//! The names that the live shell knows, as plain data.

mod list;

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

pub use list::NameList;

/// The meaning of a first word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum NameKind {
    /// An alias of the live shell.
    Alias,
    /// A function of the live shell.
    Function,
    /// A builtin of the shell.
    Builtin,
    /// A reserved word of the shell (`if`, `for`, `{`, `[[` …).
    Keyword,
    /// A program found through `PATH`.
    Program,
}

/// A snapshot of the names that the live shell resolves.
#[derive(Clone, Debug, Default)]
pub struct Names {
    /// Aliases and their values.
    pub aliases: BTreeMap<String, String>,
    /// Functions.
    pub functions: HashSet<String>,
    /// Builtins.
    pub builtins: HashSet<String>,
    /// Reserved words.
    pub keywords: HashSet<String>,
    /// Variables, without `$`.
    pub variables: Vec<String>,
    /// Programs on `PATH`, shared because the list is long.
    pub programs: Arc<NameList>,
    /// Words that the config declares to be commands (`shell.known_commands`).
    pub known: HashSet<String>,
    /// The key bindings of the shell's own line editor.
    pub keys: ShellKeys,
    /// The settings of the shell's own history.
    pub history: HistoryWords,
    /// `true` if a directory typed as a command is entered (`shopt -s autocd`).
    pub enters_directories: bool,
}

/// The settings of bash's history that ReedClaw's history follows, too.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HistoryWords {
    /// `true` if no line is recorded (`set +o history`).
    pub is_off: bool,
    /// `true` if the line that a history expansion makes isn't run at once (`shopt -s histverify`).
    pub verifies: bool,
    /// Patterns of lines that aren't recorded, separated by colons (`HISTIGNORE`).
    pub ignored: String,
}

/// The keys of the shell's own line editor that the person has bound.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ShellKeys {
    /// `true` in vi mode.
    pub vi: bool,
    /// Keys that run a shell command or insert other keys, as readline writes them (`\C-t`).
    pub bound: Vec<String>,
    /// Keys and the editor's functions that they are bound to, if there is an `inputrc`.
    pub functions: Vec<(String, String)>,
}

impl Names {
    /// The meaning of `word`, in bash's order: alias, keyword, function, builtin, program.
    #[must_use]
    pub fn kind(&self, word: &str) -> Option<NameKind> {
        if self.aliases.contains_key(word) {
            Some(NameKind::Alias)
        } else if self.keywords.contains(word) {
            Some(NameKind::Keyword)
        } else if self.functions.contains(word) {
            Some(NameKind::Function)
        } else if self.builtins.contains(word) {
            Some(NameKind::Builtin)
        } else if self.programs.contains(word) || self.known.contains(word) {
            Some(NameKind::Program)
        } else {
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_alias_hides_a_program_as_in_bash() {
        let mut names = Names { programs: Arc::new(["ls"].into()), ..Names::default() };
        assert_eq!(names.kind("ls"), Some(NameKind::Program));
        names.aliases.insert("ls".into(), "ls --color".into());
        assert_eq!(names.kind("ls"), Some(NameKind::Alias));
        assert_eq!(names.kind("nope"), None);
    }
}
