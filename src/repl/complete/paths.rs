//! Paths at the cursor: one directory read, names quoted as bash needs them. It must not know commands.

use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use super::{Candidate, ENTRIES_MAX};
use crate::repl::state::EditorState;
use crate::route::lex::unquoted;

/// Entries of a directory that are looked at; beyond that the list is cut, and typing more letters is quicker anyway.
const SCANNED_MAX: usize = 50_000;

/// Which entries are wanted.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Wanted {
    Any,
    Directories,
    /// Directories and executable files.
    Runnable,
}

/// How the word at the cursor is quoted.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Quoting {
    Backslash,
    Single,
    Double,
}

/// Completes the raw word to paths, sorted by name.
pub(super) fn complete(raw: &str, state: &EditorState, wanted: Wanted) -> Vec<Candidate> {
    let quoting = match raw.chars().next() {
        Some('\'') => Quoting::Single,
        Some('"') => Quoting::Double,
        _ => Quoting::Backslash,
    };
    // What a variable holds is the live shell's secret; a backslash at the end has nothing to escape yet.
    if quoting != Quoting::Single && raw.replace("\\$", "").contains(['$', '`']) {
        return Vec::new();
    }
    let word = unquoted(raw);
    let (typed_directory, prefix) = word.rfind('/').map_or(("", word.as_str()), |slash| word.split_at(slash + 1));
    let tilde = quoting == Quoting::Backslash && typed_directory.starts_with('~') && !raw.starts_with('\\');
    if word == "~" && quoting == Quoting::Backslash {
        return vec![Candidate { value: "~/".to_owned(), description: None, append_space: false }];
    }
    let Some(directory) = directory_of(typed_directory, tilde, state) else { return Vec::new() };
    let mut found: Vec<(String, bool)> = Vec::new();
    let Ok(entries) = std::fs::read_dir(directory) else { return Vec::new() };
    for entry in entries.flatten().take(SCANNED_MAX) {
        let Ok(name) = entry.file_name().into_string() else { continue };
        if !name.starts_with(prefix) || (name.starts_with('.') && !prefix.starts_with('.')) {
            continue;
        }
        let Ok(kind) = entry.file_type() else { continue };
        // Only a link's target, or a mode that is asked for, costs a second look.
        let looked =
            (kind.is_symlink() || wanted == Wanted::Runnable).then(|| std::fs::metadata(entry.path()).ok()).flatten();
        let is_directory = kind.is_dir() || looked.as_ref().is_some_and(std::fs::Metadata::is_dir);
        let runnable = looked.is_some_and(|data| data.is_file() && data.permissions().mode() & 0o111 != 0);
        if wanted == Wanted::Any || is_directory || (wanted == Wanted::Runnable && runnable) {
            found.push((name, is_directory));
        }
    }
    found.sort_unstable();
    found.truncate(ENTRIES_MAX);
    let make = |(name, is_directory): (String, bool)| Candidate {
        value: quoted(typed_directory, &name, is_directory, tilde, quoting),
        description: None,
        append_space: !is_directory,
    };
    found.into_iter().map(make).collect()
}

/// The word with every character escaped that bash would read as more than a letter.
pub(super) fn escaped(word: &str) -> String {
    if word.chars().any(char::is_control) {
        return dollar_quoted(word);
    }
    let mut out = String::with_capacity(word.len());
    for (index, character) in word.char_indices() {
        let first_only = index == 0 && matches!(character, '~' | '#' | '=');
        if first_only || " '\"\\$`!&|;()<>*?[]{}^".contains(character) {
            out.push('\\');
        }
        out.push(character);
    }
    out
}

fn directory_of(typed: &str, tilde: bool, state: &EditorState) -> Option<PathBuf> {
    match typed {
        "" => Some(state.cwd.clone()),
        _ if tilde => state.resolve(typed),
        _ => Some(state.cwd.join(typed)),
    }
}

fn quoted(directory: &str, name: &str, is_directory: bool, tilde: bool, quoting: Quoting) -> String {
    let slash = if is_directory { "/" } else { "" };
    let whole = format!("{directory}{name}{slash}");
    let close = |quote: &'static str| if is_directory { "" } else { quote };
    match quoting {
        _ if whole.chars().any(char::is_control) => dollar_quoted(&whole),
        Quoting::Backslash if tilde => {
            // The tilde and the user's name must stay bare to be expanded.
            let end = whole.find('/').unwrap_or(whole.len());
            format!("{}{}", &whole[..end], escaped(&whole[end..]))
        }
        Quoting::Backslash => escaped(&whole),
        // An interactive bash expands `!` within double quotes, and no backslash there hides it without staying.
        Quoting::Double if !whole.contains('!') => {
            let mut out = String::from("\"");
            for character in whole.chars() {
                if matches!(character, '"' | '\\' | '$' | '`') {
                    out.push('\\');
                }
                out.push(character);
            }
            out + close("\"")
        }
        Quoting::Single | Quoting::Double => format!("'{}{}", whole.replace('\'', "'\\''"), close("'")),
    }
}

/// `$'…'`, the only form in which bash takes a control character that is harmless to show.
fn dollar_quoted(word: &str) -> String {
    let mut out = String::from("$'");
    for character in word.chars() {
        match character {
            '\'' | '\\' => out.extend(['\\', character]),
            '\n' => out.push_str("\\n"),
            '\t' => out.push_str("\\t"),
            c if c.is_control() => out.push_str(&format!("\\u{:04x}", u32::from(c))),
            c => out.push(c),
        }
    }
    out.push('\'');
    out
}
