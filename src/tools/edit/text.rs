//! One edit of one file's bytes: exact, so that all bytes outside the edited span stay as they are, in any encoding that extends
//! ASCII. If an edit doesn't fit, the error shows what is there instead. Pure.

use std::borrow::Cow;

use memchr::{memchr, memchr_iter, memmem, memrchr};

use crate::proto::tool::ToolError;
use crate::render::patch::all_crlf;

/// Places that are named if a text occurs too often.
const PLACES_MAX: usize = 10;
/// Limit on lines that are shown if a text doesn't occur.
const LINES_SHOWN_MAX: usize = 8;
/// Longest part of a line that is shown, in bytes.
const LINE_BYTES_MAX: usize = 200;
/// Limit on comparisons of lines in the search for the nearest ones.
const COMPARISONS_MAX: usize = 2_000_000;

/// Replaces `old`, which must occur exactly `expected` times, by `new`. Line feeds that the model sends match and become the line
/// endings of the file.
pub(super) fn replaced(
    path: &str,
    content: &[u8],
    old: &str,
    new: &str,
    expected: usize,
) -> Result<Vec<u8>, ToolError> {
    editable(path, content, new)?;
    let found = occurrences(content, old);
    if found.is_empty() {
        return Err(no_match(path, content, old));
    }
    if found.len() != expected {
        return Err(wrong_count(path, content, &found, expected));
    }
    if found.windows(2).any(|two| two[0].at + two[0].bytes > two[1].at) {
        let message = format!("the places where {path} has the text overlap");
        return Err(ToolError::new("overlap", message, "take more of the lines around"));
    }
    let (mut result, mut done) = (Vec::with_capacity(content.len()), 0);
    for Occurrence { at, bytes, is_crlf } in found {
        let is_crlf = is_crlf || (!old.contains('\n') && ends_lines_with_crlf(content, at));
        result.extend_from_slice(&content[done..at]);
        result.extend_from_slice(with_endings(new, is_crlf && !old.contains("\r\n")).as_bytes());
        done = at + bytes;
    }
    result.extend_from_slice(&content[done..]);
    Ok(result)
}

/// Puts whole lines before a line, or after the last if `line` is one more than there are.
pub(super) fn inserted(path: &str, content: &[u8], line: usize, text: &str) -> Result<Vec<u8>, ToolError> {
    editable(path, content, text)?;
    let total = lines_of(content);
    if line == 0 || line > total + 1 {
        let message = format!("{path} has {total} lines; there is no place in front of line {line}");
        return Err(ToolError::new("bad-range", message, format!("give 1 to {}", total + 1)));
    }
    let bom = if content.starts_with(BOM) { BOM.len() } else { 0 };
    let at = match line {
        1 => bom,
        _ => memchr_iter(b'\n', content).nth(line - 2).map_or(content.len(), |at| at + 1),
    };
    let is_crlf = ends_lines_with_crlf(content, at);
    let ending = if is_crlf { "\r\n" } else { "\n" };
    let mut text = with_endings(text, is_crlf).into_owned();
    let is_open = at == content.len() && at > bom && !content.ends_with(b"\n");
    if is_open {
        // The last line has no ending: it gets one, and the new last line has none.
        let bare = text.strip_suffix('\n').map_or(text.as_str(), |text| text.strip_suffix('\r').unwrap_or(text));
        text = format!("{ending}{bare}");
    } else if !text.ends_with('\n') {
        text.push_str(ending);
    }
    Ok([&content[..at], text.as_bytes(), &content[at..]].concat())
}

/// The whole of a file, with the line endings and the byte order mark of the one that it replaces.
pub(super) fn whole(old: Option<&[u8]>, text: &str) -> Vec<u8> {
    let Some(old) = old else { return text.as_bytes().to_vec() };
    let bom = if old.starts_with(BOM) && !text.as_bytes().starts_with(BOM) { BOM } else { b"" };
    [bom, with_endings(text, all_crlf(old) == Some(true)).as_bytes()].concat()
}

/// Returns whether a content isn't text: a NUL occurs in no encoding that extends ASCII.
pub(in crate::tools) fn is_binary(content: &[u8]) -> bool {
    memchr(0, content).is_some()
}

/// Returns a content for a person to read; bytes that aren't UTF-8 become `\xNN`.
pub(in crate::tools) fn shown(content: &[u8]) -> Cow<'_, str> {
    if let Ok(text) = std::str::from_utf8(content) {
        return Cow::Borrowed(text);
    }
    let mut text = String::with_capacity(content.len());
    for chunk in content.utf8_chunks() {
        text.push_str(chunk.valid());
        chunk.invalid().iter().for_each(|byte| text.push_str(&format!("\\x{byte:02x}")));
    }
    Cow::Owned(text)
}

/// Lines, as an editor counts them: a last one without an ending is one.
pub(super) fn lines_of(content: &[u8]) -> usize {
    memchr_iter(b'\n', content).count() + usize::from(!content.is_empty() && !content.ends_with(b"\n"))
}

const BOM: &[u8] = b"\xef\xbb\xbf";

fn editable(path: &str, content: &[u8], new: &str) -> Result<(), ToolError> {
    if is_binary(content) {
        let message = format!("{path} is no text that can be edited: it holds NUL bytes ({} bytes)", content.len());
        return Err(ToolError::new("binary", message, "leave it, or delete it and create it again"));
    }
    if !new.is_ascii() && std::str::from_utf8(content).is_err() {
        let message = format!("{path} is not UTF-8, and the new text is not ASCII: it would mix encodings");
        return Err(ToolError::new("encoding", message, "only ASCII can be put into it"));
    }
    Ok(())
}

/// A place where a text occurs.
#[derive(Clone, Copy)]
struct Occurrence {
    at: usize,
    bytes: usize,
    /// Its lines end with CR and LF there, though the text was sent with LF.
    is_crlf: bool,
}

/// Returns all places in order, including overlapping ones.
fn occurrences(content: &[u8], old: &str) -> Vec<Occurrence> {
    let is_plain = old.contains('\n') && !old.contains("\r\n");
    let mut found = Vec::new();
    // The LF of a CR LF isn't a line feed of its own.
    let is_half = |at: usize| is_plain && old.starts_with('\n') && at > 0 && content[at - 1] == b'\r';
    every(content, old, &mut |at| {
        if !is_half(at) {
            found.push(Occurrence { at, bytes: old.len(), is_crlf: false });
        }
    });
    if is_plain {
        let old = with_endings(old, true);
        every(content, &old, &mut |at| found.push(Occurrence { at, bytes: old.len(), is_crlf: true }));
        found.sort_unstable_by_key(|it| it.at);
    }
    found
}

fn every(content: &[u8], text: &str, take: &mut dyn FnMut(usize)) {
    let finder = memmem::Finder::new(text);
    let mut from = 0;
    while let Some(at) = content.get(from..).and_then(|rest| finder.find(rest)) {
        take(from + at);
        from += at + 1;
    }
}

/// Returns whether the line at a place ends with CR and LF; the one before it, if it has no ending.
fn ends_lines_with_crlf(content: &[u8], at: usize) -> bool {
    let end = memchr(b'\n', &content[at..]).map(|next| at + next).or_else(|| memrchr(b'\n', &content[..at]));
    end.is_some_and(|end| end > 0 && content[end - 1] == b'\r')
}

fn with_endings(text: &str, is_crlf: bool) -> Cow<'_, str> {
    if is_crlf && !text.contains("\r\n") { text.replace('\n', "\r\n").into() } else { text.into() }
}

fn wrong_count(path: &str, content: &[u8], found: &[Occurrence], expected: usize) -> ToolError {
    let line = |it: &Occurrence| (memchr_iter(b'\n', &content[..it.at]).count() + 1).to_string();
    let mut lines: Vec<String> = found.iter().take(PLACES_MAX).map(line).collect();
    if found.len() > PLACES_MAX {
        lines.push(format!("and {} more", found.len() - PLACES_MAX));
    }
    let (times, at) = match found.len() {
        1 => (format!("once, not {expected} times"), "line"),
        count => (format!("{count} times, not {expected}"), "lines"),
    };
    let message = format!("{path} has the text {times}: at {at} {}", lines.join(", "));
    let hint = match found.len() {
        1 => "leave expected_occurrences out".to_owned(),
        count if count < expected => format!("say expected_occurrences: {count}"),
        count => format!("take more lines around the one that is meant, or say expected_occurrences: {count}"),
    };
    ToolError::new("count", message, hint)
}

fn no_match(path: &str, content: &[u8], old: &str) -> ToolError {
    let content = shown(content);
    let lines: Vec<&str> = content.lines().collect();
    let wanted: Vec<&str> = old.lines().collect();
    let Some((from, how)) = nearest(&lines, &wanted) else {
        let message = format!("{path} doesn't have the text, nor anything like it, in its {} lines", lines.len());
        return ToolError::new("no-match", message, format!("read {path} and copy the text from it exactly"));
    };
    let to = (from + wanted.len().clamp(1, LINES_SHOWN_MAX)).min(lines.len());
    let cut = |line: &&str| line[..line.floor_char_boundary(LINE_BYTES_MAX)].to_owned();
    let there: Vec<String> = lines[from..to].iter().map(cut).collect();
    let place = if from + 1 == to { format!("line {to}") } else { format!("lines {} to {to}", from + 1) };
    let message = format!("{path} doesn't have the text; {how} {place}:\n{}", there.join("\n"));
    let hint = format!(
        "file_read {path} with range {}-{}, then copy the text exactly",
        from.saturating_sub(2) + 1,
        (from + wanted.len() + 3).min(lines.len()),
    );
    ToolError::new("no-match", message, hint)
}

/// Returns the line at which the lines most like the wanted ones begin, and in what way they are alike.
fn nearest(lines: &[&str], wanted: &[&str]) -> Option<(usize, &'static str)> {
    let stretch = wanted.len().min(COMPARISONS_MAX / lines.len().max(1)).max(1);
    let wanted = &wanted[..stretch.min(wanted.len())];
    let same = |from: usize, is_same: &dyn Fn(&str, &str) -> bool| {
        wanted
            .iter()
            .zip(&lines[from..])
            .filter(|(wanted, line)| !wanted.trim().is_empty() && is_same(wanted, line))
            .count()
    };
    let best = |is_same: &dyn Fn(&str, &str) -> bool| {
        let scores = (0..lines.len()).map(|from| (same(from, is_same), from));
        scores.filter(|(score, _)| *score > 0).max_by_key(|(score, from)| (*score, usize::MAX - from))
    };
    let trimmed = best(&|wanted, line| squeezed(wanted).eq(squeezed(line)));
    if let Some((score, from)) = trimmed {
        let is_all = score == wanted.iter().filter(|line| !line.trim().is_empty()).count();
        return Some((from, if is_all { "but for white space it is" } else { "the nearest is" }));
    }
    let first = wanted.iter().find(|line| !line.trim().is_empty())?;
    let likeness = lines.iter().enumerate().map(|(at, line)| (alike(first, line), at));
    let (likeness, at) = likeness.max_by_key(|(likeness, at)| (*likeness, usize::MAX - at))?;
    (likeness >= 50).then_some((at, "the nearest is"))
}

fn squeezed(line: &str) -> impl Iterator<Item = char> + '_ {
    line.chars().filter(|c| !c.is_whitespace())
}

/// Likeness of two lines, from 0 to 100: the words of the first that are in the second, and the other way round.
fn alike(left: &str, right: &str) -> usize {
    fn words(line: &str) -> Vec<&str> {
        line.split(|c: char| !c.is_alphanumeric() && c != '_').filter(|word| !word.is_empty()).take(40).collect()
    }
    let (left, right) = (words(left), words(right));
    if left.is_empty() || right.is_empty() {
        return 0;
    }
    let shared = |of: &[&str], other: &[&str]| of.iter().filter(|word| other.contains(word)).count();
    100 * (shared(&left, &right) + shared(&right, &left)) / (left.len() + right.len())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn code<T>(result: Result<T, ToolError>) -> &'static str {
        result.err().expect("it doesn't fit").code
    }

    #[test]
    fn a_replacement_is_exact_and_keeps_line_endings() {
        for (content, old, new, result) in [
            ("a\nb\nc\n", "b\n", "x\ny\n", "a\nx\ny\nc\n"),
            ("a\nb", "b", "", "a\n"),
            ("a\r\nb\r\nc\r\n", "a\nb\n", "x\n", "x\r\nc\r\n"),
            ("a\r\nb\r\n", "b", "x\ny", "a\r\nx\r\ny\r\n"),
            ("a\r\nb\r\n", "\nb", "\nc", "a\r\nc\r\n"),
            ("a\r\nb\r\n", "a\r\nb", "a\nb", "a\nb\r\n"),
            ("a\r\nb\nc\n", "b\nc", "x\ny", "a\r\nx\ny\n"),
            ("a\r\nb\r\nc\nd\n", "a\nb", "x\ny", "x\r\ny\r\nc\nd\n"),
            ("\u{feff}a\n", "a", "b", "\u{feff}b\n"),
            ("äöü", "ö", "o", "äoü"),
        ] {
            let came = replaced("f", content.as_bytes(), old, new, 1).expect(content);
            assert_eq!(String::from_utf8_lossy(&came), result, "{content:?} {old:?}");
        }
        assert_eq!(replaced("f", b"\xe4 a \xff\n", "a", "b", 1).expect("Latin-1"), b"\xe4 b \xff\n");
        assert_eq!(replaced("f", b"x x x", "x", "y", 3).expect("three"), b"y y y");
    }

    #[test]
    fn a_failed_match_reports_the_nearest_lines() {
        let content = b"fn main() {\n    let total = 1;\n    print(total);\n}\n";
        let error =
            replaced("m.rs", content, "  let total = 1;\n  print(total);", "x", 1).expect_err("indented otherwise");
        assert_eq!(error.code, "no-match");
        assert!(error.message.contains("but for white space it is lines 2 to 3:\n    let total = 1;"), "{error}");
        assert!(error.hint.contains("range 1-4"), "{}", error.hint);
        let error = replaced("m.rs", content, "let mut total = 2;", "x", 1).expect_err("another");
        assert!(error.message.contains("the nearest is line 2:"), "{error}");
        assert_eq!(error.headline(), "m.rs doesn't have the text; the nearest is line 2");
        let error = replaced("m.rs", content, "nothing of that sort", "x", 1).expect_err("nothing");
        assert!(error.message.contains("nor anything like it, in its 4 lines"), "{error}");
        let error = replaced("m.rs", content, "total", "x", 1).expect_err("twice");
        assert_eq!(error.message, "m.rs has the text 2 times, not 1: at lines 2, 3");
        let error = replaced("m.rs", content, "total", "x", 3).expect_err("twice");
        assert_eq!(error.hint, "say expected_occurrences: 2");
        let error = replaced("m.rs", content, "main", "x", 2).expect_err("once");
        assert_eq!(error.message, "m.rs has the text once, not 2 times: at line 1");
        assert_eq!(error.hint, "leave expected_occurrences out");
        assert_eq!(code(replaced("f", b"aaa", "aa", "b", 2)), "overlap");
        assert_eq!(code(replaced("f", b"a\0", "a", "b", 1)), "binary");
        assert_eq!(code(replaced("f", b"a\xff", "a", "\u{e4}", 1)), "encoding");
        assert_eq!(code(replaced("f", b"", "a", "b", 1)), "no-match");
    }

    #[test]
    fn lines_are_inserted_whole() {
        for (content, line, text, result) in [
            ("a\nb\n", 1, "x", "x\na\nb\n"),
            ("a\nb\n", 2, "x\n", "a\nx\nb\n"),
            ("a\nb\n", 3, "x", "a\nb\nx\n"),
            ("a\nb", 3, "x\n", "a\nb\nx"),
            ("a\r\nb\r\n", 2, "x\ny", "a\r\nx\r\ny\r\nb\r\n"),
            ("a\r\nb", 3, "x\n", "a\r\nb\r\nx"),
            ("", 1, "x", "x\n"),
            ("\u{feff}a\n", 1, "x", "\u{feff}x\na\n"),
            ("\u{feff}", 1, "x", "\u{feff}x\n"),
        ] {
            let came = inserted("f", content.as_bytes(), line, text).expect(content);
            assert_eq!(String::from_utf8_lossy(&came), result, "{content:?} {line}");
        }
        for (content, line) in [("", 2), ("a\n", 3), ("a\nb", 4), ("a", 0)] {
            assert_eq!(code(inserted("f", content.as_bytes(), line, "x")), "bad-range", "{content:?} {line}");
        }
    }

    #[test]
    fn a_whole_file_keeps_what_the_old_one_had() {
        assert_eq!(whole(None, "a\n"), b"a\n");
        assert_eq!(whole(Some(b"x\r\n"), "a\nb"), b"a\r\nb");
        assert_eq!(whole(Some(b"x\r\ny\n"), "a\nb"), b"a\nb");
        assert_eq!(whole(Some(b"\xef\xbb\xbfx\n"), "a\n"), b"\xef\xbb\xbfa\n");
    }

    proptest! {
        #[test]
        fn outside_the_span_every_byte_survives(
            before in proptest::collection::vec(1_u8..=255, 0..40),
            after in proptest::collection::vec(1_u8..=255, 0..40),
            new in "[ab ]{0,10}",
        ) {
            let content = [&before[..], b"<the very text>", &after[..]].concat();
            let came = replaced("f", &content, "<the very text>", &new, 1).expect("it is there once");
            prop_assert_eq!(came, [&before[..], new.as_bytes(), &after[..]].concat());
        }

        #[test]
        fn a_line_that_is_inserted_is_that_line(content in "[ab\n]{0,20}", at in 0_usize..20) {
            let line = 1 + at % (lines_of(content.as_bytes()) + 1);
            let came = String::from_utf8(inserted("f", content.as_bytes(), line, "new").expect("a line")).expect("text");
            prop_assert_eq!(came.lines().nth(line - 1), Some("new"));
            let others: Vec<&str> = came.lines().enumerate().filter(|(at, _)| at + 1 != line).map(|it| it.1).collect();
            prop_assert_eq!(others, content.lines().collect::<Vec<_>>());
        }
    }
}
