//! Reads the shell's report of its names. Pure.

use std::collections::HashSet;
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;

use super::keys::{of_fish, of_zsh};
use crate::proto::Names;
use crate::shell::bytes::scan::unquote;

/// The prefix of our own functions and variables in the shell, which stay hidden.
const OWN: &str = "__rc_";

/// Reads a `names` report; returns the names (without programs) and the shell's `PATH`.
#[must_use]
pub fn parse(report: &[u8]) -> (Names, OsString) {
    let mut names = Names::default();
    let mut path = OsString::new();
    let mut section = "";
    let mut widgets = HashSet::new();
    let mut open_alias: Option<(String, Vec<u8>)> = None;
    for line in report.split(|byte| *byte == b'\n') {
        if let Some((name, mut value)) = open_alias.take() {
            // An alias of several lines: its quotes are still open.
            value.push(b'\n');
            value.extend_from_slice(line);
            open_alias = finish_alias(&mut names, name, value);
            continue;
        }
        let text = String::from_utf8_lossy(line);
        match text.as_ref() {
            "[alias]" => section = "alias",
            "[function]" => section = "function",
            "[builtin]" => section = "builtin",
            "[keyword]" => section = "keyword",
            "[variable]" => section = "variable",
            "[path]" => section = "path",
            "[vi]" => names.keys.vi = true,
            "[off]" => names.history.is_off = true,
            "[verify]" => names.history.verifies = true,
            "[autocd]" => names.enters_directories = true,
            "[ignore]" => section = "ignore",
            "[key]" => section = "key",
            "[bind]" => section = "bind",
            "[widget]" => section = "widget",
            "[zsh-key]" => section = "zsh-key",
            "[fish-key]" => section = "fish-key",
            "" => {}
            word if word.starts_with(OWN) => {}
            word => match section {
                "alias" => {
                    let word = word.strip_prefix("alias ").unwrap_or(word);
                    let word = word.strip_prefix("-- ").unwrap_or(word);
                    if let Some((name, value)) = word.split_once('=') {
                        open_alias = finish_alias(&mut names, name.to_owned(), value.as_bytes().to_vec());
                    }
                }
                "function" => drop(names.functions.insert(word.to_owned())),
                "builtin" => drop(names.builtins.insert(word.to_owned())),
                "keyword" => drop(names.keywords.insert(word.to_owned())),
                "variable" => names.variables.push(word.to_owned()),
                "ignore" => names.history.ignored.push_str(word),
                "key" => names.keys.bound.extend(bound_key(word).map(|(key, _)| key)),
                "bind" => names.keys.functions.extend(bound_key(word)),
                "widget" => drop(widgets.insert(word.to_owned())),
                "zsh-key" => of_zsh(word, &widgets, &mut names.keys),
                "fish-key" => of_fish(word, &mut names.keys),
                "path" => path = OsString::from_vec(line.to_vec()),
                _ => {}
            },
        }
    }
    (names, path)
}

/// Reads a line of `bind`: a key in quotes and its action. Keys that only the program types are left out.
fn bound_key(line: &str) -> Option<(String, String)> {
    let rest = line.strip_prefix('"')?;
    let mut escaped = false;
    let end = rest.find(|c: char| {
        let closes = c == '"' && !escaped;
        escaped = c == '\\' && !escaped;
        closes
    })?;
    let (key, does) = (&rest[..end], rest[end + 1..].trim_start_matches(':').trim());
    (!key.starts_with("\\e[999") && !key.is_empty()).then(|| (key.to_owned(), does.to_owned()))
}

/// Stores a complete alias; returns it if its quotes are still open.
fn finish_alias(names: &mut Names, name: String, value: Vec<u8>) -> Option<(String, Vec<u8>)> {
    match unquote(&value) {
        Some(plain) => {
            names.aliases.insert(name, String::from_utf8_lossy(&plain).into_owned());
            None
        }
        None => Some((name, value)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_becomes_names() {
        let report = b"[alias]\nalias ll='ls -l'\nalias q='it'\\''s'\nalias two='a\nb'\n[function]\nmy_fn\n__rc_arm\n\
            [builtin]\ncd\n[keyword]\nif\n[variable]\nHOME\n__rc_n\n[path]\n/usr/bin:/bin\n";
        let (names, path) = parse(report);
        assert_eq!(names.aliases["ll"], "ls -l");
        assert_eq!(names.aliases["q"], "it's");
        assert_eq!(names.aliases["two"], "a\nb");
        assert_eq!(names.functions.len(), 1);
        assert!(names.builtins.contains("cd") && names.keywords.contains("if"));
        assert_eq!(names.variables, ["HOME"]);
        assert_eq!(path, "/usr/bin:/bin");
        assert!(!names.keys.vi);
    }

    #[test]
    fn keys_of_the_shell_are_read_but_for_our_own() {
        let report = b"[vi]\n[key]\n\"\\C-t\": \"fzf-file-widget\"\n\"\\e[9997~\": \"x\"\n\"\\e\\\"\": \" a\"\n\
            [bind]\n\"\\C-p\": history-search-backward\n[path]\n/bin\n";
        let (names, path) = parse(report);
        assert!(names.keys.vi);
        assert_eq!(names.keys.bound, ["\\C-t", "\\e\\\""]);
        assert_eq!(names.keys.functions, [("\\C-p".to_owned(), "history-search-backward".to_owned())]);
        assert_eq!(path, "/bin");
    }
}
