//! What databases run and write by their own languages.

use super::run::Run;
use crate::proto::action::WriteKind;

/// Words in front of a file that a database writes, at the start of a line.
const FILES: [&str; 8] = [".output ", ".once ", ".backup ", ".save ", ".log ", "\\o ", "\\g ", "tee "];
/// Signs behind which a line is handed to a shell.
const SHELLS: [&str; 4] = ["\\!", ".shell ", ".system ", "system "];
/// Words in front of a quoted file that a statement makes or opens for writing.
const STATEMENTS: [&str; 3] = ["attach database ", "attach ", "vacuum into "];

/// Programs named by one query that are looked at.
const PROGRAMS_MAX: usize = 16;

impl Run<'_, '_> {
    /// What hands a line to a shell in a database's own language, and what opens files.
    pub(super) fn database_marks(&mut self, code: &str) {
        for line in code.lines() {
            let line = line.trim();
            if line.starts_with("\\copy") {
                self.copied_to(line);
            }
            if let Some(path) = FILES.iter().find_map(|mark| line.strip_prefix(mark)) {
                self.writes(path.trim().trim_matches(['"', '\'']), WriteKind::Write);
            }
            if let Some((_, line)) = SHELLS.iter().find_map(|mark| line.split_once(mark)) {
                self.embedded(line, true);
            }
            // ASCII alone changes, so that places stay the same.
            let lower = line.to_ascii_lowercase();
            for at in STATEMENTS.iter().flat_map(|mark| lower.match_indices(mark).map(|(at, found)| at + found.len())) {
                if let Some(path) = quoted(&line[at..]).filter(|path| !path.starts_with(':')) {
                    self.writes(
                        path.trim_start_matches("file:").split('?').next().unwrap_or_default(),
                        WriteKind::Write,
                    );
                }
            }
        }
        // `copy … to program 'LINE'`, by the server or the client.
        let lower = code.to_ascii_lowercase();
        let programs = lower.match_indices("program").filter_map(|(at, found)| quoted(&code[at + found.len()..]));
        for (number, line) in programs.enumerate() {
            if number == PROGRAMS_MAX {
                return self.block("too-complex", "a query names more programs than are looked at");
            }
            self.embedded(line, true);
        }
    }

    /// `\copy … to FILE`, which the client writes.
    fn copied_to(&mut self, line: &str) {
        let path = line.split_once(" to ").or_else(|| line.split_once(" TO ")).map_or("", |(_, path)| path);
        let path = path.split_whitespace().next().unwrap_or_default().trim_matches('\'');
        if path.starts_with(['/', '~', '.']) {
            self.writes(path, WriteKind::Write);
        }
    }
}

/// The text in quotes that begins here.
fn quoted(text: &str) -> Option<&str> {
    let text = text.trim_start();
    let quote = text.chars().next().filter(|c| matches!(c, '\'' | '"'))?;
    text[1..].split_once(quote).map(|(inner, _)| inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quoted_text_ends_at_its_quote() {
        assert_eq!(quoted(" 'a b' as c"), Some("a b"));
        assert_eq!(quoted("\"x\""), Some("x"));
        assert_eq!(quoted("t set x = 1"), None);
        assert_eq!(quoted("'open"), None);
    }
}
