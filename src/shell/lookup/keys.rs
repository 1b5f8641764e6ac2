//! The keys of zsh's and fish's line editors as these shells list them, in readline's notation. Pure.

use std::collections::HashSet;

use crate::proto::ShellKeys;

/// Widgets and input functions that step through the lines with the same beginning, whoever wrote them. They depend on the
/// previous step, so the editor performs them itself, under readline's names.
const STEPS: [(&str, &[&str]); 2] = [
    (
        "history-search-backward",
        &[
            "history-beginning-search-backward",
            "history-beginning-search-backward-end",
            "history-prefix-search-backward",
            "history-substring-search-up",
            "up-line-or-beginning-search",
            "up-line-or-search",
            "up-or-search",
        ],
    ),
    (
        "history-search-forward",
        &[
            "history-beginning-search-forward",
            "history-beginning-search-forward-end",
            "history-prefix-search-forward",
            "history-substring-search-down",
            "down-line-or-beginning-search",
            "down-line-or-search",
            "down-or-search",
        ],
    ),
];

/// Reads a line of zsh's `bindkey`: `"^T" a-widget` or `"^Xs" "a text"`. `widgets` has all names; built-in ones also occur with a
/// leading dot.
pub(super) fn of_zsh(line: &str, widgets: &HashSet<String>, keys: &mut ShellKeys) {
    let Some((key, does)) = quoted(line).and_then(|(key, rest)| Some((zsh_bytes(&key)?, rest.strip_prefix(' ')?)))
    else {
        return;
    };
    let is_built_in = widgets.contains(&format!(".{does}"));
    // zsh's own Ctrl-W and Ctrl-X Ctrl-E stay the editor's.
    if !matches!((key.as_slice(), does), (b"\x17", "backward-kill-word") | (b"\x18\x05", "edit-command-line")) {
        add(&key, does, is_built_in, keys);
    }
}

/// Reads a line of fish's `bind --user`: `bind -M insert \ct a-function 'another one'`.
pub(super) fn of_fish(line: &str, keys: &mut ShellKeys) {
    let mut words = fish_words(line).into_iter().skip(1);
    let mut mode = "default".to_owned();
    let mut key = None;
    while let Some(word) = words.next() {
        match word.as_str() {
            "-M" | "--mode" => mode = words.next().unwrap_or_default(),
            "-m" | "--sets-mode" => drop(words.next()),
            // A key named as in the terminal's description.
            "-k" | "--key" => return,
            "--" => key = words.next(),
            option if option.starts_with('-') && option.len() > 1 => {}
            _ => key = Some(word),
        }
        if key.is_some() {
            break;
        }
    }
    let does: Vec<String> = words.collect();
    if let Some(key) = key.and_then(|key| fish_bytes(&key))
        && mode == if keys.vi { "insert" } else { "default" }
    {
        add(&key, &does.join(" "), false, keys);
    }
}

/// Adds a key. A key that types a character, deletes one, completes or enters always stays with the editor.
fn add(key: &[u8], does: &str, is_built_in: bool, keys: &mut ShellKeys) {
    let types = matches!(key, [] | [b' '..=b'~', ..] | [b'\t' | b'\r' | b'\n' | 0x08 | 0x7f]);
    let Some(key) = readline_name(key).filter(|_| !types && !does.starts_with("__rc_")) else { return };
    match STEPS.iter().find(|(_, names)| names.contains(&does)) {
        Some((step, _)) => keys.functions.push((key, (*step).to_owned())),
        None if is_built_in => keys.functions.push((key, does.to_owned())),
        None => keys.bound.push(key),
    }
}

/// The bytes of a key as readline writes them; `None` outside ASCII.
fn readline_name(key: &[u8]) -> Option<String> {
    key.iter()
        .map(|byte| match byte {
            0x1b => Some("\\e".to_owned()),
            0..0x20 => Some(format!(
                "\\C-{}{}",
                if *byte == 0x1c { "\\" } else { "" },
                char::from(byte | 0x40).to_ascii_lowercase()
            )),
            0x7f => Some("\\C-?".to_owned()),
            b'"' | b'\\' => Some(format!("\\{}", char::from(*byte))),
            0x20..0x7f => Some(char::from(*byte).to_string()),
            _ => None,
        })
        .collect()
}

/// A text in double quotes, read as zsh writes one, and the rest.
fn quoted(text: &str) -> Option<(String, &str)> {
    let mut chars = text.strip_prefix('"')?.char_indices();
    let mut out = String::new();
    while let Some((at, c)) = chars.next() {
        match c {
            '"' => return Some((out, &text[at + 2..])),
            '\\' => match chars.next()?.1 {
                c @ ('"' | '\\' | '$' | '`') => out.push(c),
                c => out.extend(['\\', c]),
            },
            c => out.push(c),
        }
    }
    None
}

/// The bytes of a key as zsh writes them.
fn zsh_bytes(key: &str) -> Option<Vec<u8>> {
    let mut bytes = key.bytes();
    let mut out = Vec::new();
    while let Some(byte) = bytes.next() {
        out.push(match byte {
            b'^' => match bytes.next()? {
                b'\\' => bytes.next()? ^ 0x40,
                byte => byte ^ 0x40,
            },
            // `\M-x` is not a key that a terminal sends.
            b'\\' => bytes.next().filter(|byte| *byte != b'M')?,
            byte => byte,
        });
    }
    Some(out)
}

/// The words of a line as fish escapes them. A word outside quotes keeps its backslashes: it may be a key.
fn fish_words(line: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut quote = None;
    let mut chars = line.chars();
    while let Some(c) = chars.next() {
        let word = words.last_mut().expect("never empty");
        match (c, quote) {
            ('\\', None) => word.extend(['\\'].into_iter().chain(chars.next())),
            ('\\', Some(_)) => word.extend(chars.next()),
            ('\'' | '"', None) => quote = Some(c),
            (c, Some(open)) if c == open => quote = None,
            (' ', None) => words.push(String::new()),
            (c, _) => word.push(c),
        }
    }
    words
}

/// The bytes of a key as fish writes them: escaped until fish 3 (`\ct`, `\e\[A`), by name since fish 4 (`ctrl-x,alt-c`).
fn fish_bytes(key: &str) -> Option<Vec<u8>> {
    if key.contains('\\') {
        return escaped(key);
    }
    let named = key.split(',').map(named).collect::<Option<Vec<_>>>()?;
    Some(named.concat())
}

fn escaped(key: &str) -> Option<Vec<u8>> {
    let mut bytes = key.bytes();
    let mut out = Vec::new();
    while let Some(byte) = bytes.next() {
        out.push(match byte {
            b'\\' => match bytes.next()? {
                b'c' => bytes.next()?.to_ascii_uppercase() ^ 0x40,
                b'e' => 0x1b,
                b't' => b'\t',
                b'n' => b'\n',
                b'r' => b'\r',
                b'b' => 0x08,
                b'x' => u8::from_str_radix(&String::from_utf8(vec![bytes.next()?, bytes.next()?]).ok()?, 16).ok()?,
                byte => byte,
            },
            byte => byte,
        });
    }
    Some(out)
}

fn named(key: &str) -> Option<Vec<u8>> {
    if let Some(rest) = key.strip_prefix("alt-") {
        return Some([vec![0x1b], named(rest)?].concat());
    }
    if let Some(rest) = key.strip_prefix("ctrl-") {
        return match rest.as_bytes() {
            [byte @ b'@'..=b'~'] => Some(vec![byte.to_ascii_uppercase() ^ 0x40]),
            _ => None,
        };
    }
    let sent = match key {
        "up" => "\x1b[A",
        "down" => "\x1b[B",
        "right" => "\x1b[C",
        "left" => "\x1b[D",
        "home" => "\x1b[H",
        "end" => "\x1b[F",
        "tab" => "\t",
        "enter" => "\r",
        "backspace" => "\x7f",
        "space" => " ",
        // Source: xterm's ctlseqs, "PC-Style Function Keys".
        _ if key.len() > 1 => {
            let numbers = ["P", "Q", "R", "S", "15", "17", "18", "19", "20", "21", "23", "24"];
            let number: usize = key.strip_prefix('f')?.parse().ok()?;
            let sent = numbers.get(number.checked_sub(1)?)?;
            return Some(if number < 5 { format!("\x1bO{sent}") } else { format!("\x1b[{sent}~") }.into_bytes());
        }
        character => character,
    };
    Some(sent.as_bytes().to_vec())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_of_zsh_are_those_that_run_widgets_of_the_person() {
        let widgets =
            ["kill-whole-line", ".kill-whole-line", ".backward-kill-word", ".undo", "accept-line", ".accept-line"];
        let widgets = widgets.map(str::to_owned).into();
        let mut keys = ShellKeys::default();
        for line in [
            "\"^T\" fzf-file-widget",
            "\"^[c\" fzf-cd-widget",
            "\"^X^R\" mine",
            "\"^Xs\" \"git status^J\"",
            "\"^[[15~\" mine",
            "\"^[\\\"\" mine",
            "\"^\\\\\\\\\" mine",
            "\"^U\" kill-whole-line",
            "\"^[[A\" up-line-or-beginning-search",
            // Not the shell's own, not a key, or a key that types.
            "\"^W\" backward-kill-word",
            "\"^X^E\" edit-command-line",
            "\"^M\" accept-line",
            "\"^I\" fzf-completion",
            "\"(\" autopair-insert",
            "\"^?\" autopair-delete",
            "\"^[[9999~\" __rc_load",
            "\"\\M-C\\M-)\" mine",
            "\" \"-\"~\" self-insert",
        ] {
            of_zsh(line, &widgets, &mut keys);
        }
        assert_eq!(keys.bound, ["\\C-t", "\\ec", "\\C-x\\C-r", "\\C-xs", "\\e[15~", "\\e\\\"", "\\C-\\\\"]);
        let functions = [("\\C-u", "kill-whole-line"), ("\\e[A", "history-search-backward")];
        assert_eq!(keys.functions, functions.map(|(key, name)| (key.to_owned(), name.to_owned())));
    }

    #[test]
    fn keys_of_fish_are_those_of_the_mode_that_types() {
        let lines = [
            "bind \\ct fzf-file-widget",
            "bind -M insert \\cr fzf-history-widget",
            "bind -M insert -m default \\ef 'commandline -f cancel' 'echo \\'a b\\''",
            "bind \\cx\\cg 'echo one' repaint",
            "bind \\e\\[A history-prefix-search-backward",
            "bind ctrl-x,alt-c mine",
            "bind f6 mine",
            "bind -k nul mine",
            "bind x self-insert",
            "bind \\e\\[24\\;8\\~ __rc_load",
        ];
        let read = |vi| {
            let mut keys = ShellKeys { vi, ..ShellKeys::default() };
            lines.iter().for_each(|line| of_fish(line, &mut keys));
            keys
        };
        let keys = read(false);
        assert_eq!(keys.bound, ["\\C-t", "\\C-x\\C-g", "\\C-x\\ec", "\\e[17~"]);
        assert_eq!(keys.functions, [("\\e[A".to_owned(), "history-search-backward".to_owned())]);
        assert_eq!(read(true).bound, ["\\C-r", "\\ef"]);
    }
}
