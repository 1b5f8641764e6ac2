//! Changes of files as data for drawing: from contents, or read from the unified form that git and ReedClaw write.
//! Pure; must not know how they are drawn.

use std::ops::Range;

use super::diff::{self, Line};
use crate::proto::tool::FileChange;

/// Limit for a text that can be highlighted, in bytes.
const TEXT_BYTES_MAX: usize = 256 * 1024;

/// One file that changes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FilePatch {
    /// Its path, as it will be.
    pub path: String,
    /// Other facts: the file is new, deleted or not text, has another mode or name, or ends without a newline.
    pub notes: Vec<String>,
    /// The changes, in order; empty if the file isn't text.
    pub hunks: Vec<Hunk>,
    /// Number of new lines.
    pub added: usize,
    /// Number of removed lines.
    pub removed: usize,
    /// Lines after the last hunk, if known.
    pub lines_after: Option<usize>,
    /// The new text as a whole, its lines as they are shown, if it is known and not too long to be highlighted.
    pub text: Option<String>,
    /// `true` if its lines are shown without the CR that all of them end with.
    is_crlf: bool,
}

/// A change, with the lines around it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Hunk {
    /// The number of its first line in the old text, from 1.
    pub old_line: usize,
    /// The number of its first line in the new text, from 1.
    pub new_line: usize,
    /// Its lines, without their endings.
    pub lines: Vec<Line<String>>,
}

impl Line<String> {
    /// Its content.
    #[must_use]
    pub fn text(&self) -> &str {
        match self {
            Self::Kept(text) | Self::Gone(text) | Self::New(text) => text,
        }
    }
}

/// Every file of a proposal.
#[must_use]
pub fn patches(changes: &[FileChange]) -> Vec<FilePatch> {
    changes.iter().map(|change| FilePatch::of(change, false)).collect()
}

impl FilePatch {
    /// The changes of a file; `as_whole` adds all unchanged lines.
    #[must_use]
    pub fn of(change: &FileChange, as_whole: bool) -> Self {
        let FileChange { path, old, new } = change;
        let mut patch = Self { path: path.clone(), ..Self::default() };
        match (old, new) {
            (None, _) => patch.notes.push("new file".to_owned()),
            (_, None) => patch.notes.push("deleted".to_owned()),
            _ => {}
        }
        let (old, new) = (old.as_deref().unwrap_or_default(), new.as_deref().unwrap_or_default());
        if is_binary(old) || is_binary(new) {
            patch.notes.push(format!("no text: {} bytes, then {}", old.len(), new.len()));
            return patch;
        }
        let endings = (all_crlf(old), all_crlf(new));
        patch.is_crlf = matches!(endings, (Some(true), Some(true) | None) | (None, Some(true)));
        match endings {
            _ if patch.is_crlf => patch.notes.push("lines end with CR LF".to_owned()),
            (Some(true), Some(false)) => patch.notes.push("lines no longer end with CR LF".to_owned()),
            (Some(false), Some(true)) => patch.notes.push("lines end with CR LF from now on".to_owned()),
            _ => {}
        }
        let is_open = |text: &[u8]| !text.is_empty() && !text.ends_with(b"\n");
        match (is_open(old), is_open(new)) {
            (true, false) if !new.is_empty() => patch.notes.push("ends with a newline from now on".to_owned()),
            (false, true) if old.is_empty() => patch.notes.push("ends without a newline".to_owned()),
            (false, true) => patch.notes.push("ends without a newline from now on".to_owned()),
            _ => {}
        }
        if [old, new].iter().any(|text| std::str::from_utf8(text).is_err()) {
            patch.notes.push("not UTF-8: other bytes are shown as \\xNN".to_owned());
        }
        let lines = diff::diff_bytes(old, new);
        let whole = || std::iter::once(0..lines.len()).filter(|range| !range.is_empty()).collect();
        let ranges = if as_whole { whole() } else { diff::hunks(&lines) };
        patch.cut(&lines, &ranges);
        if new.len() <= TEXT_BYTES_MAX {
            let text = new.split_inclusive(|byte| *byte == b'\n').map(|line| patch.shown(line) + "\n");
            patch.text = Some(text.collect());
        }
        patch
    }

    fn cut(&mut self, lines: &[Line<&[u8]>], ranges: &[Range<usize>]) {
        let (mut old_line, mut new_line, mut done) = (0, 0, 0);
        for range in ranges {
            diff::count(&lines[done..range.start], &mut old_line, &mut new_line);
            let mut hunk = Hunk { old_line: old_line + 1, new_line: new_line + 1, lines: Vec::new() };
            diff::count(&lines[range.clone()], &mut old_line, &mut new_line);
            hunk.lines = lines[range.clone()].iter().map(|line| self.line(line)).collect();
            self.hunks.push(hunk);
            done = range.end;
        }
        self.lines_after = Some(lines.len() - done);
    }

    fn line(&mut self, line: &Line<&[u8]>) -> Line<String> {
        let line = match line {
            Line::Kept(bytes) => Line::Kept(self.shown(bytes)),
            Line::Gone(bytes) => Line::Gone(self.shown(bytes)),
            Line::New(bytes) => Line::New(self.shown(bytes)),
        };
        self.count(&line);
        line
    }

    /// A line without its ending; bytes that aren't UTF-8 as `\xNN`.
    fn shown(&self, line: &[u8]) -> String {
        let line = line.strip_suffix(b"\n").unwrap_or(line);
        let line = if self.is_crlf { line.strip_suffix(b"\r").unwrap_or(line) } else { line };
        let mut text = String::with_capacity(line.len());
        for chunk in line.utf8_chunks() {
            text.push_str(chunk.valid());
            chunk.invalid().iter().for_each(|byte| text.push_str(&format!("\\x{byte:02x}")));
        }
        text
    }

    fn count(&mut self, line: &Line<String>) {
        self.added += usize::from(matches!(line, Line::New(_)));
        self.removed += usize::from(matches!(line, Line::Gone(_)));
    }

    /// Returns the same patch with only one of its hunks; with none if the file isn't text.
    #[must_use]
    pub fn only(&self, hunk: usize) -> Self {
        let hunks = self.hunks.get(hunk).cloned().into_iter().collect();
        let mut only = Self { hunks, lines_after: None, added: 0, removed: 0, ..self.clone() };
        for line in self.hunks.get(hunk).map(|hunk| hunk.lines.as_slice()).unwrap_or_default() {
            only.count(line);
        }
        only
    }

    /// The number of hunks that a person can accept or refuse: a file that isn't text is one.
    #[must_use]
    pub fn choices(&self) -> usize {
        self.hunks.len().max(1)
    }
}

/// Reads the unified form, with git's additions. Unknown lines are ignored, since the result is only drawn.
#[must_use]
pub fn parse(text: &str) -> Vec<FilePatch> {
    let mut reader = Reader::default();
    // A CR is part of a line.
    text.strip_suffix('\n').unwrap_or(text).split('\n').for_each(|line| reader.line(line));
    reader.files.retain(|file| !file.path.is_empty());
    reader.files.iter_mut().for_each(without_cr);
    reader.files
}

/// Reads the unified form line by line.
#[derive(Default)]
struct Reader {
    files: Vec<FilePatch>,
    /// `true` if the last file began with git's own line.
    is_git: bool,
    old_left: usize,
    new_left: usize,
}

impl Reader {
    fn line(&mut self, line: &str) {
        if self.old_left > 0 || self.new_left > 0 {
            return self.content(line);
        }
        if let Some(paths) = line.strip_prefix("diff --git ") {
            self.is_git = true;
            // If both names are the same, the line contains them; if not, later lines do.
            let half = paths.len() / 2;
            let path = paths.get(half + 1..).and_then(|new| unquoted(new).strip_prefix("b/").map(str::to_owned));
            return self.files.push(FilePatch { path: path.unwrap_or_default(), ..FilePatch::default() });
        }
        if let Some(path) = line.strip_prefix("--- ") {
            if !std::mem::take(&mut self.is_git) {
                self.files.push(FilePatch::default());
            }
            let is_new = path == "/dev/null";
            let Some(file) = self.files.last_mut() else { return };
            if is_new && file.notes.is_empty() {
                file.notes.push("new file".to_owned());
            } else if !is_new && file.path.is_empty() {
                file.path = name(path, "a/");
            }
            return;
        }
        let Some(file) = self.files.last_mut() else { return };
        let add_note = |file: &mut FilePatch, text: String| file.notes.push(text);
        if let Some(path) = line.strip_prefix("+++ ") {
            match path {
                "/dev/null" if file.notes.is_empty() => add_note(file, "deleted".to_owned()),
                "/dev/null" => {}
                path => file.path = name(path, "b/"),
            }
        } else if let Some(head) = Head::of(line) {
            (self.old_left, self.new_left) = (head.old.1, head.new.1);
            // A range without lines names the line before it.
            let first = |(line, count): (usize, usize)| if count == 0 { line + 1 } else { line };
            let hunk = Hunk { old_line: first(head.old), new_line: first(head.new), lines: Vec::new() };
            file.hunks.push(hunk);
        } else if let Some(note) = line.strip_prefix("\\ ") {
            let text = "a last line without a newline".to_owned();
            if note.starts_with("No newline") && !file.notes.contains(&text) {
                add_note(file, text);
            }
        } else if let Some(mode) = line.strip_prefix("new file mode ") {
            add_note(file, words_of_new(mode));
        } else if line.starts_with("deleted file mode ") {
            add_note(file, "deleted".to_owned());
        } else if let Some(mode) = line.strip_prefix("old mode ") {
            add_note(file, format!("mode {mode}"));
        } else if let Some(mode) = line.strip_prefix("new mode ") {
            if let Some(note) = file.notes.last_mut() {
                note.push_str(&format!(", then {mode}"));
            }
        } else if let Some(path) = line.strip_prefix("rename from ") {
            add_note(file, format!("was {}", unquoted(path)));
        } else if let Some(path) = line.strip_prefix("copy from ") {
            add_note(file, format!("a copy of {}", unquoted(path)));
        } else if let Some(path) = line.strip_prefix("rename to ").or_else(|| line.strip_prefix("copy to ")) {
            file.path = unquoted(path);
        } else if line.starts_with("Binary file") {
            add_note(file, "no text".to_owned());
        }
    }

    /// A line of a hunk.
    fn content(&mut self, line: &str) {
        let Some(file) = self.files.last_mut() else { return };
        let (old, new, line) = match line.split_at_checked(1) {
            Some(("-", text)) => (1, 0, Line::Gone(text.to_owned())),
            Some(("+", text)) => (0, 1, Line::New(text.to_owned())),
            Some((" ", text)) => (1, 1, Line::Kept(text.to_owned())),
            // Some programs remove the blank of an empty line.
            None => (1, 1, Line::Kept(String::new())),
            // The old text has no newline at its end, between its last line and the new one's.
            Some(("\\", _)) => {
                let text = "a last line without a newline".to_owned();
                if !file.notes.contains(&text) {
                    file.notes.push(text);
                }
                return;
            }
            _ => {
                (self.old_left, self.new_left) = (0, 0);
                return;
            }
        };
        (self.old_left, self.new_left) = (self.old_left.saturating_sub(old), self.new_left.saturating_sub(new));
        file.count(&line);
        if let Some(hunk) = file.hunks.last_mut() {
            hunk.lines.push(line);
        }
    }
}

/// Describes a new file with this mode.
fn words_of_new(mode: &str) -> String {
    match mode {
        "100644" => "new file".to_owned(),
        "100755" => "new file, executable".to_owned(),
        "120000" => "new link".to_owned(),
        mode => format!("new file, mode {mode}"),
    }
}

/// The head of a hunk: where it is in both texts, and how many lines it has of each.
struct Head {
    old: (usize, usize),
    new: (usize, usize),
}

impl Head {
    /// Reads `@@ -1,6 +1,7 @@ fn name()`.
    fn of(line: &str) -> Option<Self> {
        let (old, rest) = line.strip_prefix("@@ -")?.split_once(" +")?;
        let (new, _) = rest.split_once(" @@")?;
        let range = |text: &str| {
            let (line, count) = text.split_once(',').unwrap_or((text, "1"));
            Some((line.parse().ok()?, count.parse().ok()?))
        };
        Some(Self { old: range(old)?, new: range(new)? })
    }
}

/// A path of a head, without git's letter before it and the tab after it.
fn name(path: &str, letter: &str) -> String {
    let path = unquoted(path.strip_suffix('\t').unwrap_or(path));
    path.strip_prefix(letter).map(str::to_owned).unwrap_or(path)
}

/// A path without git's quotes. Its escapes stay: they show what the name holds.
fn unquoted(path: &str) -> String {
    path.strip_prefix('"').and_then(|path| path.strip_suffix('"')).unwrap_or(path).to_owned()
}

/// Removes the CR from all lines if each has one, and notes that.
fn without_cr(file: &mut FilePatch) {
    let mut lines = file.hunks.iter().flat_map(|hunk| &hunk.lines).peekable();
    if lines.peek().is_none() || !lines.all(|line| line.text().ends_with('\r')) {
        return;
    }
    file.notes.push("lines end with CR LF".to_owned());
    for line in file.hunks.iter_mut().flat_map(|hunk| &mut hunk.lines) {
        let (Line::Kept(text) | Line::Gone(text) | Line::New(text)) = line;
        text.pop();
    }
}

fn is_binary(content: &[u8]) -> bool {
    memchr::memchr(0, content).is_some()
}

/// Returns whether all lines end with CR and LF; `None` if no line has an ending.
#[must_use]
pub fn all_crlf(content: &[u8]) -> Option<bool> {
    let mut ends = memchr::memchr_iter(b'\n', content).peekable();
    ends.peek()?;
    Some(ends.all(|at| at > 0 && content[at - 1] == b'\r'))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn change(old: Option<&str>, new: Option<&str>) -> FileChange {
        let bytes = |text: Option<&str>| text.map(|text| text.as_bytes().to_vec());
        FileChange { path: "f".into(), old: bytes(old), new: bytes(new) }
    }

    #[test]
    fn changes_other_than_lines_are_described_in_words() {
        let notes = |old, new| FilePatch::of(&change(old, new), false).notes.join("; ");
        for (old, new, notes_of_change) in [
            (None, Some("a\n"), "new file"),
            (Some("a\n"), None, "deleted"),
            (None, Some("a"), "new file; ends without a newline"),
            (Some("a"), Some("a\n"), "ends with a newline from now on"),
            (Some("a\n"), Some("a"), "ends without a newline from now on"),
            (Some("a\r\n"), Some("b\r\n"), "lines end with CR LF"),
            (Some("a\r\n"), Some("b\n"), "lines no longer end with CR LF"),
            (Some("a\n"), Some("a\r\n"), "lines end with CR LF from now on"),
            (Some("a\0"), Some("b"), "no text: 2 bytes, then 1"),
        ] {
            assert_eq!(notes(old, new), notes_of_change, "{old:?} {new:?}");
        }
        let latin = FileChange { path: "f".into(), old: Some(b"\xfc\n".to_vec()), new: Some(b"\xfc1\n".to_vec()) };
        assert_eq!(FilePatch::of(&latin, false).hunks[0].lines[1].text(), "\\xfc1");
    }

    #[test]
    fn gits_heads_are_read() {
        let text = "diff --git a/src/a b.rs b/src/a b.rs\nold mode 100644\nnew mode 100755\nindex 1..2\n--- a/src/a b.rs\t\n\
            +++ b/src/a b.rs\t\n@@ -3 +3,2 @@ fn x() {\n-a\n+++ b\n+c\n\\ No newline at end of file\n\
            diff --git a/old b/new\nsimilarity index 100%\nrename from old\nrename to new\n\
            diff --git a/x.png b/x.png\nindex 1..2 100644\nBinary files a/x.png and b/x.png differ\n\
            diff --git a/gone b/gone\ndeleted file mode 100644\n--- a/gone\n+++ /dev/null\n@@ -1 +0,0 @@\n-x\r\n";
        let files = parse(text);
        let listed: Vec<String> =
            files.iter().map(|file| format!("{}: {}", file.path, file.notes.join("; "))).collect();
        let expected = [
            "src/a b.rs: mode 100644, then 100755; a last line without a newline",
            "new: was old",
            "x.png: no text",
            "gone: deleted; lines end with CR LF",
        ];
        assert_eq!(listed, expected);
        assert_eq!((files[0].added, files[0].removed, files[0].hunks[0].new_line), (2, 1, 3));
        assert_eq!(files[0].hunks[0].lines[1], Line::New("++ b".to_owned()));
        assert_eq!(parse("nothing\nof the kind\n"), []);
    }

    proptest! {
        #[test]
        fn the_unified_form_reads_back_as_the_same_change(old in "([ab+@ -]{0,3}\n){0,30}", new in "([ab+@ -]{0,3}\n){0,30}") {
            prop_assume!(old != new);
            let made = FilePatch::of(&change(Some(&old), Some(&new)), false);
            let read = parse(&diff::unified("f", Some(&old), &new));
            prop_assert_eq!(read.len(), 1);
            prop_assert_eq!(&read[0].hunks, &made.hunks);
            prop_assert_eq!((read[0].added, read[0].removed), (made.added, made.removed));
        }

        #[test]
        fn no_text_makes_it_stop(text in "(@@ -[0-9]{1,3},[0-9]{1,3} \\+[0-9],[0-9] @@|--- a|\\+\\+\\+ b|diff --git a/x b/x|[-+ ]x|\\\\ No|\n|.){0,30}") {
            let files = parse(&text);
            prop_assert!(files.iter().all(|file| !file.path.is_empty()), "{files:?}");
        }
    }
}
