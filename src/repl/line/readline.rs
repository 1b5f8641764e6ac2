//! readline's names of keys and of functions, as the live shell reports them, in the editor's own terms. Pure.

use reedline::{EditCommand, KeyCode, KeyModifiers, ReedlineEvent};

use super::chords::Chord;
use super::edits::Edit;

/// The keys that a sequence stands for, one or two; none if no key of the editor sends it.
pub(in crate::repl) fn chords(sequence: &str) -> Option<Vec<Chord>> {
    let bytes = bytes(sequence)?;
    let split = if bytes.len() > 1 && bytes[0] == 0x18 { 1 } else { 0 };
    let (prefix, rest) = bytes.split_at(split);
    let mut chords: Vec<Chord> = prefix.iter().filter_map(|byte| chord(&[*byte])).collect();
    // After Ctrl-X a character is a key, too.
    chords.push(match rest {
        [c @ 0x21..0x7f] if split == 1 => character(char::from(*c)),
        rest => chord(rest)?,
    });
    Some(chords)
}

/// The bytes that readline waits for.
pub(in crate::repl) fn bytes(sequence: &str) -> Option<Vec<u8>> {
    let mut out = Vec::new();
    let mut rest = sequence;
    while let Some(first) = rest.chars().next() {
        let (next, byte) = if let Some(tail) = rest.strip_prefix("\\C-") {
            let (key, tail) = unescaped(tail)?;
            (tail, if key == b'?' { 0x7f } else { key.to_ascii_uppercase() & 0x1f })
        } else if let Some(tail) = rest.strip_prefix("\\M-") {
            out.push(0x1b);
            (tail, 0)
        } else if first == '\\' {
            let (key, tail) = unescaped(rest)?;
            (tail, key)
        } else {
            (&rest[first.len_utf8()..], u8::try_from(first).ok()?)
        };
        if !rest.starts_with("\\M-") {
            out.push(byte);
        }
        rest = next;
    }
    (!out.is_empty()).then_some(out)
}

/// The first character, which may be written with a backslash, and the rest.
fn unescaped(text: &str) -> Option<(u8, &str)> {
    let escaped = text.strip_prefix('\\');
    let first = escaped.unwrap_or(text).chars().next()?;
    let rest = &escaped.unwrap_or(text)[first.len_utf8()..];
    let byte = match (escaped.is_some(), first) {
        (true, 'e') => 0x1b,
        (true, 't') => b'\t',
        (true, 'n') => b'\n',
        (true, 'r') => b'\r',
        (true, 'd') => 0x7f,
        _ => u8::try_from(first).ok()?,
    };
    Some((byte, rest))
}

/// The key of a character, as crossterm names it.
fn character(c: char) -> Chord {
    (if c.is_ascii_uppercase() { KeyModifiers::SHIFT } else { KeyModifiers::NONE }, KeyCode::Char(c))
}

/// The key that sends these bytes.
fn chord(bytes: &[u8]) -> Option<Chord> {
    let (none, control, alt) = (KeyModifiers::NONE, KeyModifiers::CONTROL, KeyModifiers::ALT);
    let shifted = |c: u8| if c.is_ascii_uppercase() { alt | KeyModifiers::SHIFT } else { alt };
    let found = match bytes {
        // Ctrl-Alt with a bracket, and Alt-O, are keys of their own.
        [0x1b, b'[' | b'O', _, ..] => special(&bytes[2..])?,
        [0x1b, 0x7f] => (alt, KeyCode::Backspace),
        [0x1b, c @ 0x20..0x7f] => (shifted(*c), KeyCode::Char(char::from(c.to_ascii_lowercase()))),
        [b'\t'] => (none, KeyCode::Tab),
        [0] => (control, KeyCode::Char(' ')),
        // Enter, Ctrl-C, Ctrl-D and Esc have meanings that no binding may replace.
        [0x03 | 0x04 | b'\r' | b'\n' | 0x1b] => return None,
        [c @ 1..=26] => (control, KeyCode::Char(char::from(c + b'a' - 1))),
        // As crossterm names them.
        [c @ 0x1c..=0x1f] => (control, KeyCode::Char(char::from(c - 0x1c + b'4'))),
        [0x7f] => (none, KeyCode::Backspace),
        _ => return None,
    };
    Some(found)
}

/// A key that has no character, from what follows its `ESC [` or `ESC O`: numbers, then a letter or a tilde. Source: XTerm
/// Control Sequences, "PC-Style Function Keys".
fn special(sequence: &[u8]) -> Option<Chord> {
    let text = std::str::from_utf8(sequence).ok()?;
    let (numbers, end) = text.split_at(text.len().checked_sub(1)?);
    let (number, modifier) = numbers.split_once(';').unwrap_or((numbers, "1"));
    let number: u8 = if number.is_empty() { 1 } else { number.parse().ok()? };
    let code = match (end, number) {
        ("A", 1) => KeyCode::Up,
        ("B", 1) => KeyCode::Down,
        ("C", 1) => KeyCode::Right,
        ("D", 1) => KeyCode::Left,
        ("H", 1) | ("~", 1 | 7) => KeyCode::Home,
        ("F", 1) | ("~", 4 | 8) => KeyCode::End,
        ("P" | "Q" | "R" | "S", 1) => KeyCode::F(end.as_bytes()[0] - b'P' + 1),
        ("Z", 1) => return Some((KeyModifiers::SHIFT, KeyCode::BackTab)),
        ("~", 2) => KeyCode::Insert,
        ("~", 3) => KeyCode::Delete,
        ("~", 5) => KeyCode::PageUp,
        ("~", 6) => KeyCode::PageDown,
        ("~", 11..=15) => KeyCode::F(number - 10),
        ("~", 17..=21) => KeyCode::F(number - 11),
        ("~", 23 | 24) => KeyCode::F(number - 12),
        _ => return None,
    };
    // One more than the sum of 1 for Shift, 2 for Alt and 4 for Ctrl.
    let held = modifier.parse::<u8>().ok()?.checked_sub(1).filter(|held| *held < 8)?;
    let all = [(1, KeyModifiers::SHIFT), (2, KeyModifiers::ALT), (4, KeyModifiers::CONTROL)];
    let modifiers = all.into_iter().filter(|(bit, _)| held & bit != 0).map(|(_, modifier)| modifier).collect();
    Some((modifiers, code))
}

/// Returns the event for a function of readline; `None` if the editor lacks it, or does it with the same keys anyway.
pub(in crate::repl) fn function(name: &str) -> Option<ReedlineEvent> {
    let command = |command| ReedlineEvent::Edit(vec![command]);
    let edit = |edit: Edit| ReedlineEvent::Menu(edit.menu_name(false));
    let event = match name {
        "history-search-backward" | "history-substring-search-backward" | "previous-history" => {
            ReedlineEvent::UntilFound(vec![ReedlineEvent::MenuUp, ReedlineEvent::Up])
        }
        "history-search-forward" | "history-substring-search-forward" | "next-history" => {
            ReedlineEvent::UntilFound(vec![ReedlineEvent::MenuDown, ReedlineEvent::Down])
        }
        "beginning-of-line" => command(EditCommand::MoveToLineStart { select: false }),
        "end-of-line" => command(EditCommand::MoveToLineEnd { select: false }),
        "forward-word" | "shell-forward-word" => edit(Edit::WordAhead),
        "backward-word" | "shell-backward-word" => edit(Edit::WordBack),
        "forward-char" => ReedlineEvent::UntilFound(vec![ReedlineEvent::HistoryHintComplete, ReedlineEvent::Right]),
        "backward-char" => ReedlineEvent::Left,
        "unix-word-rubout" => edit(Edit::KillBlankWordBack),
        "backward-kill-word" | "shell-backward-kill-word" => edit(Edit::KillWordBack),
        "kill-word" | "shell-kill-word" => edit(Edit::KillWordAhead),
        "unix-line-discard" | "backward-kill-line" => edit(Edit::KillToStart),
        "kill-line" => edit(Edit::KillToEnd),
        "kill-whole-line" => ReedlineEvent::Edit(vec![EditCommand::Clear]),
        "yank" => edit(Edit::Yank),
        "yank-pop" => edit(Edit::YankPop),
        "yank-last-arg" | "insert-last-argument" => edit(Edit::LastArgument),
        "transpose-words" => edit(Edit::TransposeWords),
        "undo" => command(EditCommand::Undo),
        "delete-char" => command(EditCommand::Delete),
        "clear-screen" => ReedlineEvent::ClearScreen,
        _ => return None,
    };
    Some(event)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sequences_are_keys_of_the_editor() {
        let (control, alt) = (KeyModifiers::CONTROL, KeyModifiers::ALT);
        let key = |modifiers, code| Some(vec![(modifiers, code)]);
        let table: [(&str, Option<Vec<Chord>>); 22] = [
            ("\\C-t", Some(vec![(control, KeyCode::Char('t'))])),
            ("\\ec", Some(vec![(alt, KeyCode::Char('c'))])),
            ("\\M-c", Some(vec![(alt, KeyCode::Char('c'))])),
            ("\\e[A", Some(vec![(KeyModifiers::NONE, KeyCode::Up)])),
            ("\\C-x\\C-r", Some(vec![(control, KeyCode::Char('x')), (control, KeyCode::Char('r'))])),
            ("\\C-xg", Some(vec![(control, KeyCode::Char('x')), (KeyModifiers::NONE, KeyCode::Char('g'))])),
            ("\\C-xG", Some(vec![(control, KeyCode::Char('x')), (KeyModifiers::SHIFT, KeyCode::Char('G'))])),
            ("\\C-\\\\", Some(vec![(control, KeyCode::Char('4'))])),
            ("\\e\\\"", Some(vec![(alt, KeyCode::Char('"'))])),
            ("\\e[15~", key(KeyModifiers::NONE, KeyCode::F(5))),
            ("\\e[24~", key(KeyModifiers::NONE, KeyCode::F(12))),
            ("\\e[17;2~", key(KeyModifiers::SHIFT, KeyCode::F(6))),
            ("\\eOP", key(KeyModifiers::NONE, KeyCode::F(1))),
            ("\\e[1;5D", key(control, KeyCode::Left)),
            ("\\e[1;7C", key(control | alt, KeyCode::Right)),
            ("\\e[H", key(KeyModifiers::NONE, KeyCode::Home)),
            ("\\e[4~", key(KeyModifiers::NONE, KeyCode::End)),
            ("\\e[2~", key(KeyModifiers::NONE, KeyCode::Insert)),
            ("\\e[Z", key(KeyModifiers::SHIFT, KeyCode::BackTab)),
            ("\\e[", key(alt, KeyCode::Char('['))),
            ("\\C-m", None),
            ("\\e[0n", None),
        ];
        for (sequence, wanted) in table {
            assert_eq!(chords(sequence), wanted, "{sequence}");
        }
    }
}
