//! Paths at the cursor: one directory read, names quoted as bash needs them. It must not know commands.

use std::path::PathBuf;

use super::{Candidate, ENTRIES_MAX, Fit};
use crate::base::program::is_executable;
use crate::repl::editing::state::EditorState;
use crate::route::lex::unquoted;

/// Limit on the entries of a directory that are scanned; beyond it the list is cut, and typing more letters is quicker anyway.
const SCANNED_MAX: usize = 50_000;

/// The kind of entries to list.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Wanted {
    Any,
    Directories,
    /// Directories and executable files.
    Runnable,
}

/// Way in which the word at the cursor is quoted.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Quoting {
    Backslash,
    Single,
    Double,
}

/// The start of a word whose value only the live shell knows, and that value.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Anchor {
    /// As it was typed: `$HOME`, `${HOME}` or `~root`.
    pub(super) head: String,
    /// The directory that it stands for.
    pub(super) directory: PathBuf,
}

/// Returns the beginning of a word that only the live shell can expand: `$NAME`, `${NAME}` or `~USER` before a slash.
pub(super) fn head(raw: &str) -> Option<&str> {
    let text = raw.strip_prefix('"').unwrap_or(raw);
    let head = &text[..text.find('/')?];
    let is_name = |name: &str, more: &[u8]| {
        !name.is_empty()
            && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_' || more.contains(&byte))
    };
    let variable = head.strip_prefix('$');
    let braced = variable.and_then(|name| name.strip_prefix('{')?.strip_suffix('}'));
    let is_known = match (head.strip_prefix('~'), braced.or(variable)) {
        (Some(user), _) => text.len() == raw.len() && is_name(user, b".-+"),
        (None, Some(name)) => is_name(name, b""),
        (None, None) => false,
    };
    is_known.then_some(head)
}

/// Completes the raw word to paths, sorted by name.
pub(super) fn complete(
    raw: &str,
    anchor: Option<&Anchor>,
    state: &EditorState,
    wanted: Wanted,
    fit: Fit,
) -> Vec<Candidate> {
    let quoting = match raw.chars().next() {
        Some('\'') => Quoting::Single,
        Some('"') => Quoting::Double,
        _ => Quoting::Backslash,
    };
    let head = anchor.map_or("", |anchor| anchor.head.as_str());
    let tail = raw.replacen(head, "", usize::from(!head.is_empty()));
    // Only the live shell knows the value of a variable; a backslash at the end has nothing to escape yet.
    if quoting != Quoting::Single && tail.replace("\\$", "").contains(['$', '`']) {
        return Vec::new();
    }
    let word = unquoted(&tail);
    let (typed_directory, prefix) = word.rfind('/').map_or(("", word.as_str()), |slash| word.split_at(slash + 1));
    let tilde = quoting == Quoting::Backslash && typed_directory.starts_with('~') && !raw.starts_with('\\');
    if raw == "~" {
        return vec![Candidate { value: "~/".to_owned(), description: None, append_space: false }];
    }
    let directory = match anchor {
        Some(anchor) => Some(anchor.directory.join(typed_directory.trim_start_matches('/'))),
        None => directory_of(typed_directory, tilde, state),
    };
    let Some(directory) = directory else { return Vec::new() };
    let found = entries(&directory, prefix, wanted, fit);
    let make = |(name, is_directory): (String, bool)| {
        let value = quoted(typed_directory, &name, is_directory, tilde, quoting);
        // The head stays as it was typed, after the quote that may open the word.
        let quote = usize::from(!head.is_empty() && quoting != Quoting::Backslash);
        let value =
            if value.is_char_boundary(quote) { [&value[..quote], head, &value[quote..]].concat() } else { value };
        Candidate { value, description: None, append_space: !is_directory }
    };
    found.into_iter().map(make).collect()
}

/// The names in a directory that fit, sorted, and whether each is a directory.
fn entries(directory: &std::path::Path, prefix: &str, wanted: Wanted, fit: Fit) -> Vec<(String, bool)> {
    let mut found: Vec<(String, bool)> = Vec::new();
    let Ok(entries) = std::fs::read_dir(directory) else { return found };
    for entry in entries.flatten().take(SCANNED_MAX) {
        let Ok(name) = entry.file_name().into_string() else { continue };
        if !fit.fits(&name, prefix) || (name.starts_with('.') && !prefix.starts_with('.')) {
            continue;
        }
        let Ok(kind) = entry.file_type() else { continue };
        // Only a link, or a search for executable files, needs a second look.
        let looked =
            (kind.is_symlink() || wanted == Wanted::Runnable).then(|| std::fs::metadata(entry.path()).ok()).flatten();
        let is_directory = kind.is_dir() || looked.as_ref().is_some_and(std::fs::Metadata::is_dir);
        let runnable = looked.is_some_and(|data| is_executable(&data));
        if wanted == Wanted::Any || is_directory || (wanted == Wanted::Runnable && runnable) {
            found.push((name, is_directory));
        }
    }
    found.sort_unstable();
    found.truncate(ENTRIES_MAX);
    found
}

/// Escapes every character of a word that bash would interpret.
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
        // An interactive bash expands `!` within double quotes, and a backslash that hides it there stays in the text.
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
