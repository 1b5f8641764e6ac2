//! Finds the integration's markers in the shell's output and takes them out. Pure.
//!
//! A marker is `ESC ] 633 ; letter ; nonce [; fields] BEL`. One whose nonce isn't the one in force is ordinary output
//! (a nested shell's, or a file that tries to deceive) and passes untouched. Output is never split around an escape
//! that isn't ours, and at most a proper prefix of a marker is held back.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;

use memchr::memmem;

use crate::base::limits::MARKER_BYTES_MAX;

const PREFIX: &[u8] = b"\x1b]633;";

/// A report of the shell's integration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Mark {
    /// `P`: the hooks are done; the shell waits for the signal to go on.
    Prompt {
        /// The shell's `$?`, if it reports it: the only source if the person has removed the hook of `D`.
        status: Option<i32>,
        /// `true` if the shell prints nothing more before it reads.
        quiet: bool,
        /// The number of rows above the last one of a prompt that the shell draws itself because it can't be ours (`readonly
        /// PS1`).
        own_rows: Option<usize>,
    },
    /// `P` with the previous command's nonce, after the next line was handed over: an interrupted completion has made the shell
    /// run its hooks once more, and it waits for the signal to go on.
    PromptAgain,
    /// `B`: readline has drawn its prompt and reads.
    Reading {
        /// As with `P`, for when both hooks are gone.
        status: Option<i32>,
        /// `true` if the shell prints the lines that it reads (`set -v`).
        verbose: bool,
        /// `true` if it reads without its line editor (bash after `set +o emacs`).
        plain: bool,
    },
    /// `C`: a command is about to run; its output starts here.
    Started {
        /// The newest line of the shell's history, and whether it is new, if a key has made the shell run a line.
        newest: Option<(String, bool)>,
    },
    /// `D`: a command has ended with this status, in this directory.
    Done {
        /// The shell's `$?`.
        status: i32,
        /// The virtual environment that is active in the shell, or an empty text.
        environment: String,
        /// The shell's `$PWD`.
        cwd: Option<PathBuf>,
    },
    /// `F`: the shell wants more lines.
    Incomplete {
        /// `true` if the shell has abandoned the line itself and reads a new one.
        left: bool,
    },
}

/// A piece of the output, in order.
#[derive(Debug, PartialEq, Eq)]
pub enum Piece<'a> {
    /// Ordinary output.
    Bytes(&'a [u8]),
    /// One of our markers.
    Mark(Mark),
}

/// The scanner's state between reads.
#[derive(Debug, Default)]
pub struct Scanner {
    nonce: Vec<u8>,
    /// The previous nonce, which the last `B` may still carry.
    previous: Vec<u8>,
    held: Vec<u8>,
}

impl Scanner {
    /// Sets the nonce in force. The previous one stays valid for `P` and `B` until the next command starts.
    pub fn expect_nonce(&mut self, nonce: &str) {
        self.previous = std::mem::replace(&mut self.nonce, nonce.as_bytes().to_vec());
    }

    /// The nonce in force.
    #[must_use]
    pub fn nonce(&self) -> String {
        String::from_utf8_lossy(&self.nonce).into_owned()
    }

    /// Returns whether bytes are held back because a marker may be starting in them.
    #[must_use]
    pub fn holds(&self) -> bool {
        !self.held.is_empty()
    }

    /// Stops waiting for the rest of a marker: the bytes held back are ordinary output.
    pub fn release(&mut self, sink: &mut dyn FnMut(Piece)) {
        let held = std::mem::take(&mut self.held);
        if !held.is_empty() {
            sink(Piece::Bytes(&held));
        }
    }

    /// Scans more output and hands its pieces to `sink` in order.
    pub fn feed(&mut self, input: &[u8], sink: &mut dyn FnMut(Piece)) {
        if self.held.is_empty() {
            let rest = self.scan(input, sink);
            self.held.extend_from_slice(rest);
        } else {
            let mut joined = std::mem::take(&mut self.held);
            joined.extend_from_slice(input);
            let rest = self.scan(&joined, sink).to_vec();
            self.held = rest;
        }
    }

    /// Handles everything that can be decided; returns the tail that can't be decided yet.
    fn scan<'a>(&mut self, input: &'a [u8], sink: &mut dyn FnMut(Piece)) -> &'a [u8] {
        let mut plain_from = 0;
        let mut search_from = 0;
        while let Some(offset) = memmem::find(&input[search_from..], PREFIX) {
            let at = search_from + offset;
            match self.read_marker(&input[at + PREFIX.len()..]) {
                Parse::Mark(mark, length) => {
                    if at > plain_from {
                        sink(Piece::Bytes(&input[plain_from..at]));
                    }
                    if matches!(mark, Mark::Started { .. }) {
                        self.previous.clear();
                    }
                    sink(Piece::Mark(mark));
                    plain_from = at + PREFIX.len() + length;
                    search_from = plain_from;
                }
                Parse::Ours(length) => {
                    if at > plain_from {
                        sink(Piece::Bytes(&input[plain_from..at]));
                    }
                    plain_from = at + PREFIX.len() + length;
                    search_from = plain_from;
                }
                Parse::Foreign => search_from = at + PREFIX.len(),
                Parse::More => {
                    if at > plain_from {
                        sink(Piece::Bytes(&input[plain_from..at]));
                    }
                    return &input[at..];
                }
            }
        }
        let tail = partial_prefix(&input[search_from.max(plain_from)..]);
        let end = input.len() - tail;
        if end > plain_from {
            sink(Piece::Bytes(&input[plain_from..end]));
        }
        &input[end..]
    }

    fn read_marker(&self, body: &[u8]) -> Parse {
        let window = &body[..body.len().min(MARKER_BYTES_MAX)];
        let stop = window.iter().position(|byte| *byte == 7 || *byte == 0x1b || *byte == b'\n');
        let seen = &window[..stop.unwrap_or(window.len())];
        let (current, previous) = (fits(seen, &self.nonce), fits(seen, &self.previous));
        match stop {
            Some(end) if window[end] == 7 => {
                if current == Fit::Whole {
                    match parse_body(seen, self.nonce.len()) {
                        Some(mark) => Parse::Mark(mark, end + 1),
                        None => Parse::Foreign,
                    }
                } else if previous == Fit::Whole && seen[0] == b'P' {
                    Parse::Mark(Mark::PromptAgain, end + 1)
                } else if previous == Fit::Whole && matches!(seen[0], b'B' | b'D') {
                    Parse::Ours(end + 1)
                } else {
                    Parse::Foreign
                }
            }
            Some(_) => Parse::Foreign,
            None if window.len() == MARKER_BYTES_MAX => Parse::Foreign,
            None if current == Fit::No && previous == Fit::No => Parse::Foreign,
            None => Parse::More,
        }
    }
}

enum Parse {
    Mark(Mark, usize),
    /// One of our markers that has become meaningless; it is removed.
    Ours(usize),
    Foreign,
    More,
}

#[derive(PartialEq, Eq)]
enum Fit {
    Whole,
    SoFar,
    No,
}

/// Returns whether `seen` is, or may become, `letter ; nonce …`.
fn fits(seen: &[u8], nonce: &[u8]) -> Fit {
    if nonce.is_empty() {
        return Fit::No;
    }
    let Some((letter, rest)) = seen.split_first() else { return Fit::SoFar };
    if !b"PBCDF".contains(letter) {
        return Fit::No;
    }
    let Some((semicolon, rest)) = rest.split_first() else { return Fit::SoFar };
    if *semicolon != b';' {
        return Fit::No;
    }
    if rest.len() < nonce.len() {
        return if nonce.starts_with(rest) { Fit::SoFar } else { Fit::No };
    }
    let (head, after) = rest.split_at(nonce.len());
    if head == nonce && (after.is_empty() || after[0] == b';') { Fit::Whole } else { Fit::No }
}

fn parse_body(body: &[u8], nonce_bytes: usize) -> Option<Mark> {
    let number = |field: &[u8]| std::str::from_utf8(field).ok()?.parse().ok();
    let rest = body.get(2 + nonce_bytes + 1..);
    let mut fields = rest.unwrap_or_default().split(|byte| *byte == b';');
    let status = fields.next().and_then(number);
    match body[0] {
        b'P' => {
            let what = fields.next().unwrap_or_default();
            let rows = what.strip_prefix(b"r").and_then(number);
            let own_rows = rows.and_then(|rows| usize::try_from(rows).ok());
            Some(Mark::Prompt { status, quiet: what == b"q", own_rows })
        }
        b'B' => {
            let verbose = fields.next().is_some_and(|flags| flags.contains(&b'v'));
            Some(Mark::Reading { status, verbose, plain: fields.next().is_some() })
        }
        b'C' => {
            let mut fields = rest.unwrap_or_default().splitn(3, |byte| *byte == b';').skip(1);
            let is_new = fields.next().map(|flag| flag == b"1");
            let line = fields.next().and_then(unquote).map(|line| String::from_utf8_lossy(&line).into_owned());
            Some(Mark::Started { newest: line.zip(is_new) })
        }
        b'F' => Some(Mark::Incomplete { left: rest == Some(b"left".as_slice()) }),
        b'D' => {
            let fields = body.get(2 + nonce_bytes + 1..)?;
            let mut fields = fields.splitn(4, |byte| *byte == b';');
            let _id = fields.next()?;
            let status = number(fields.next()?)?;
            let environment = String::from_utf8_lossy(fields.next()?).into_owned();
            let cwd = fields.next().and_then(unquote).filter(|path| path.starts_with(b"/"));
            let cwd = cwd.map(|path| PathBuf::from(OsString::from_vec(path)));
            Some(Mark::Done { status, environment, cwd })
        }
        _ => None,
    }
}

/// Number of bytes at the end of `input` that are a proper prefix of our marker's prefix.
fn partial_prefix(input: &[u8]) -> usize {
    (1..PREFIX.len()).rev().find(|length| input.ends_with(&PREFIX[..*length])).unwrap_or(0)
}

/// Undoes a shell's quoting of one word: bash's `${name@Q}` (`'…'`, `$'…'`) and backslashes as zsh and fish write them.
#[must_use]
pub fn unquote(word: &[u8]) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(word.len());
    let mut rest = word;
    while let Some((first, after)) = rest.split_first() {
        match first {
            b'\'' => {
                let end = after.iter().position(|byte| *byte == b'\'')?;
                bytes.extend_from_slice(&after[..end]);
                rest = &after[end + 1..];
            }
            b'$' if after.first() == Some(&b'\'') => rest = unquote_ansi(&after[1..], &mut bytes)?,
            b'\\' => {
                let (next, after) = after.split_first()?;
                bytes.push(*next);
                rest = after;
            }
            byte => {
                bytes.push(*byte);
                rest = after;
            }
        }
    }
    Some(bytes)
}

/// The inside of `$'…'`, as bash writes it: named escapes and three octal digits.
fn unquote_ansi<'a>(mut rest: &'a [u8], bytes: &mut Vec<u8>) -> Option<&'a [u8]> {
    loop {
        let (first, after) = rest.split_first()?;
        rest = after;
        match first {
            b'\'' => return Some(rest),
            b'\\' => {
                let (escape, after) = rest.split_first()?;
                rest = after;
                if (b'0'..=b'7').contains(escape) {
                    let more = rest.iter().take(2).take_while(|byte| (b'0'..=b'7').contains(byte)).count();
                    let digits =
                        rest[..more].iter().fold(u32::from(escape - b'0'), |sum, d| sum * 8 + u32::from(d - b'0'));
                    bytes.push(u8::try_from(digits & 255).unwrap_or(0));
                    rest = &rest[more..];
                    continue;
                }
                bytes.push(match escape {
                    b'a' => 7,
                    b'b' => 8,
                    b't' => 9,
                    b'n' => 10,
                    b'v' => 11,
                    b'f' => 12,
                    b'r' => 13,
                    b'e' | b'E' => 27,
                    other => *other,
                });
            }
            byte => bytes.push(*byte),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[derive(Debug, PartialEq, Eq)]
    enum Got {
        Text(String),
        Mark(Mark),
    }

    fn run(pieces: &[&[u8]]) -> Vec<Got> {
        let mut scanner = Scanner::default();
        scanner.expect_nonce("old");
        scanner.expect_nonce("abc123");
        let mut got: Vec<Got> = Vec::new();
        let mut sink = |piece: Piece| match piece {
            Piece::Bytes(bytes) => {
                assert!(!bytes.is_empty());
                let text = String::from_utf8_lossy(bytes).into_owned();
                if let Some(Got::Text(last)) = got.last_mut() {
                    last.push_str(&text);
                } else {
                    got.push(Got::Text(text));
                }
            }
            Piece::Mark(mark) => got.push(Got::Mark(mark)),
        };
        for piece in pieces {
            scanner.feed(piece, &mut sink);
        }
        scanner.release(&mut sink);
        got
    }

    const SAMPLE: &[u8] = b"a\x1b]633;C;abc123;7\x07\x1b[1mout\x1b]633;C;wrong;7\x07\x1b]633;B;old\x07\x1b]0;title\x07\
        \x1b]633;D;abc123;7;130;venv;'/tmp/a b'\x07tail\x1b]633;P;abc123;3\x07\x1b]633;B;abc123\x07\x1b]633;";

    fn sample_expected() -> Vec<Got> {
        vec![
            Got::Text("a".into()),
            Got::Mark(Mark::Started { newest: None }),
            // After the command has started, the old nonce is as foreign as any other.
            Got::Text("\x1b[1mout\x1b]633;C;wrong;7\x07\x1b]633;B;old\x07\x1b]0;title\x07".into()),
            Got::Mark(Mark::Done { status: 130, environment: "venv".into(), cwd: Some("/tmp/a b".into()) }),
            Got::Text("tail".into()),
            Got::Mark(Mark::Prompt { status: Some(3), quiet: false, own_rows: None }),
            Got::Mark(Mark::Reading { status: None, verbose: false, plain: false }),
            Got::Text("\x1b]633;".into()),
        ]
    }

    #[test]
    fn start_may_have_the_line_that_a_key_has_run() {
        let of = |fields: &str| run(&[format!("\x1b]633;C;abc123;{fields}\x07").as_bytes()]);
        let started = |newest: Option<(&str, bool)>| {
            vec![Got::Mark(Mark::Started { newest: newest.map(|(line, is_new)| (line.to_owned(), is_new)) })]
        };
        assert_eq!(of("7;1;'ls; pwd'"), started(Some(("ls; pwd", true))));
        assert_eq!(of(r"7;0;$'it\'s\n\\two'"), started(Some(("it's\n\\two", false))));
        for none in ["7", "7;1", "7;1;'open"] {
            assert_eq!(of(none), started(None), "{none}");
        }
    }

    #[test]
    fn markers_are_taken_out_and_the_rest_stays() {
        assert_eq!(run(&[SAMPLE]), sample_expected());
    }

    #[test]
    fn a_prompt_may_say_that_nothing_follows() {
        for (fields, quiet, own_rows) in
            [("3;q", true, None), ("3;", false, None), ("3", false, None), ("3;r1", false, Some(1))]
        {
            let mark = format!("\x1b]633;P;abc123;{fields}\x07");
            let wanted = Got::Mark(Mark::Prompt { status: Some(3), quiet, own_rows });
            assert_eq!(run(&[mark.as_bytes()]), vec![wanted], "{fields}");
        }
    }

    #[test]
    fn the_shells_options_say_how_it_reads() {
        let reading = |verbose, plain| vec![Got::Mark(Mark::Reading { status: Some(0), verbose, plain })];
        for (options, verbose, plain) in
            [("himvBHs", true, false), ("himBHs;plain", false, true), ("himBHs", false, false)]
        {
            let mark = format!("\x1b]633;B;abc123;0;{options}\x07");
            assert_eq!(run(&[mark.as_bytes()]), reading(verbose, plain), "{options}");
        }
    }

    #[test]
    fn cut_at_every_byte_the_result_is_the_same() {
        for cut in 0..SAMPLE.len() {
            assert_eq!(run(&[&SAMPLE[..cut], &SAMPLE[cut..]]), sample_expected(), "cut at {cut}");
        }
        let bytes: Vec<&[u8]> = SAMPLE.chunks(1).collect();
        assert_eq!(run(&bytes), sample_expected());
    }

    #[test]
    fn the_previous_nonce_is_taken_out_before_a_command_starts() {
        assert_eq!(run(&[b"x\x1b]633;B;old\x07y"]), vec![Got::Text("xy".into())]);
        let again = b"x\x1b]633;D;old;1;0;;'/'\x07y\x1b]633;P;old;130\x07";
        assert_eq!(run(&[again]), vec![Got::Text("xy".into()), Got::Mark(Mark::PromptAgain)]);
    }

    #[test]
    fn an_endless_marker_is_let_go() {
        let mut long = b"\x1b]633;D;abc123;".to_vec();
        long.resize(MARKER_BYTES_MAX + 100, b'x');
        let text = String::from_utf8(long.clone()).unwrap();
        assert_eq!(run(&[&long]), vec![Got::Text(text)]);
    }

    #[test]
    fn quoting_is_undone() {
        let table: [(&[u8], &[u8]); 5] = [
            (b"'/a b'", b"/a b"),
            (b"'/it'\\''s'", b"/it's"),
            (b"$'/tab\\there\\n'", b"/tab\there\n"),
            (b"$'/\\303\\251'", "/é".as_bytes()),
            (b"/plain\\ word", b"/plain word"),
        ];
        for (quoted, plain) in table {
            assert_eq!(unquote(quoted).unwrap(), plain, "{}", String::from_utf8_lossy(quoted));
        }
        assert_eq!(unquote(b"'open"), None);
    }

    proptest! {
        #[test]
        fn whatever_comes_only_whole_own_markers_are_missing(parts in proptest::collection::vec(any::<Vec<u8>>(), 0..6)) {
            let mut scanner = Scanner::default();
            scanner.expect_nonce("0123456789abcdef");
            let mut out = Vec::new();
            let mut sink = |piece: Piece| if let Piece::Bytes(bytes) = piece { out.extend_from_slice(bytes) };
            for part in &parts {
                scanner.feed(part, &mut sink);
            }
            scanner.release(&mut sink);
            prop_assert_eq!(out, parts.concat());
        }
    }
}
