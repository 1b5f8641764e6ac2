//! Import of other shells' history files: bash, zsh, fish. The parsers take bytes and give lines and problems; they
//! open no files. Formats: the HISTORY section of bash(1), `EXTENDED_HISTORY` in zshoptions(1) with the byte
//! encoding that zsh's own writer uses, and fish's `fish_history`.

use std::collections::HashMap;

use rusqlite::{Connection, TransactionBehavior, params};

use crate::proto::LineKind;
use crate::store::history::insert;
use crate::store::{Entry, Store, StoreError};

/// Limit for the problems that are reported one by one.
const PROBLEMS_MAX: usize = 20;
/// Longest line that is imported; a longer one means that the file isn't a history.
const LINE_BYTES_MAX: usize = 256 * 1024;
/// Rows per transaction: other sessions get the write lock between two.
const BATCH_ROWS: usize = 1_000;
/// zsh writes this byte before one that it reserves for itself, which then has bit 5 flipped.
const ZSH_META: u8 = 0x83;

/// A line of another shell's history.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Imported {
    /// The command, possibly of several lines.
    pub line: String,
    /// The time of its run, Unix milliseconds, if the file has it.
    pub time: Option<i64>,
    /// Its duration, if the file has it.
    pub duration_ms: Option<u64>,
}

/// A line that could not be read exactly; the rest was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The line of the file, from 1; 0 for the file as a whole.
    pub line_number: usize,
    /// Its problem.
    pub message: String,
}

/// The result of an import.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ImportReport {
    /// Lines added.
    pub added: u64,
    /// Lines that were there already.
    pub known: u64,
}

/// Reads bash's history: one command a line, or after `#timestamp` lines commands of any number of lines.
#[must_use]
pub fn bash(text: &[u8]) -> (Vec<Imported>, Vec<Problem>) {
    let mut out = Out::default();
    let mut open: Option<(usize, i64, Vec<u8>)> = None;
    for (number, line) in numbered(text) {
        if let Some(digits) = line.strip_prefix(b"#").filter(|rest| is_number(rest)) {
            if let Some((first, time, body)) = open.take() {
                out.add(first, &body, Some(time), None);
            }
            match millis(digits) {
                Some(time) => open = Some((number, time, Vec::new())),
                None => out.problem(number, "a timestamp out of range; its command is imported without a time"),
            }
        } else if let Some((_, _, body)) = &mut open {
            if !body.is_empty() {
                body.push(b'\n');
            }
            body.extend_from_slice(line);
        } else {
            out.add(number, line, None, None);
        }
    }
    if let Some((first, time, body)) = open {
        out.add(first, &body, Some(time), None);
    }
    out.done()
}

/// Reads zsh's history, plain or extended (`: time:duration;command`); a backslash at a line's end continues it.
#[must_use]
pub fn zsh(text: &[u8]) -> (Vec<Imported>, Vec<Problem>) {
    let mut out = Out::default();
    let plain = unmetafied(text);
    let mut open: Option<(usize, Vec<u8>)> = None;
    for (number, line) in numbered(&plain) {
        let (first, mut body) = open.take().unwrap_or((number, Vec::new()));
        if let Some(start) = line.strip_suffix(b"\\") {
            body.extend_from_slice(start);
            body.push(b'\n');
            open = Some((first, body));
            continue;
        }
        body.extend_from_slice(line);
        zsh_entry(&mut out, first, &body);
    }
    if let Some((first, mut body)) = open {
        out.problem(first, "the file ends in the middle of this command");
        body.pop();
        zsh_entry(&mut out, first, &body);
    }
    out.done()
}

/// Reads fish's history: `- cmd:` with `when:`; paths are left out.
#[must_use]
pub fn fish(text: &[u8]) -> (Vec<Imported>, Vec<Problem>) {
    let mut out = Out::default();
    let mut open: Option<(usize, Vec<u8>, Option<i64>)> = None;
    for (number, line) in numbered(text) {
        if let Some(command) = line.strip_prefix(b"- cmd:") {
            if let Some((first, body, time)) = open.take() {
                out.add(first, &body, time, None);
            }
            open = Some((number, fish_unescaped(command.strip_prefix(b" ").unwrap_or(command)), None));
        } else if let Some(when) = line.strip_prefix(b"  when:") {
            match (&mut open, millis(when.trim_ascii())) {
                (Some((_, _, time)), Some(value)) => *time = Some(value),
                _ => out.problem(number, "`when:` without a command or without a number"),
            }
        } else if !(line.trim_ascii().is_empty() || line.starts_with(b"  paths:") || line.starts_with(b"    - ")) {
            out.problem(number, "neither `- cmd:` nor one of its fields");
        }
    }
    if let Some((first, body, time)) = open {
        out.add(first, &body, time, None);
    }
    out.done()
}

/// Adds imported lines to the history unless they exist already: repeating an import adds nothing.
///
/// A line is there if its text and time are; lines without a time stay in their order, before all others. If the file
/// has the same line at the same time more than once, the history gets as many.
///
/// # Errors
/// The database can't be written; lines added before remain, and a repeated import continues there.
pub fn import_into(store: &mut Store, lines: &[Imported]) -> Result<ImportReport, StoreError> {
    let mut report = ImportReport::default();
    let mut known: HashMap<(&str, i64), i64> = HashMap::new();
    for batch in lines.chunks(BATCH_ROWS) {
        let counts = import_batch(&mut store.main, batch, &mut known);
        let counts = counts.map_err(|problem| StoreError::sqlite("import into", store.path.as_deref(), &problem))?;
        report.added += counts.added;
        report.known += counts.known;
    }
    Ok(report)
}

/// `known` counts, for each line and time seen so far, the rows that were there before and aren't matched yet.
fn import_batch<'a>(
    main: &mut Connection,
    batch: &'a [Imported],
    known: &mut HashMap<(&'a str, i64), i64>,
) -> rusqlite::Result<ImportReport> {
    let mut report = ImportReport::default();
    let transaction = main.transaction_with_behavior(TransactionBehavior::Immediate)?;
    {
        let mut count = transaction.prepare_cached("SELECT count(*) FROM history WHERE line = ?1 AND time = ?2")?;
        for imported in batch {
            let time = imported.time.unwrap_or(0);
            let left = match known.entry((&imported.line, time)) {
                std::collections::hash_map::Entry::Occupied(entry) => entry.into_mut(),
                std::collections::hash_map::Entry::Vacant(entry) => {
                    entry.insert(count.query_row(params![imported.line, time], |row| row.get::<_, i64>(0))?)
                }
            };
            if *left > 0 {
                *left -= 1;
                report.known += 1;
                continue;
            }
            insert(&transaction, &entry(imported, time))?;
            report.added += 1;
        }
    }
    transaction.commit()?;
    Ok(report)
}

fn entry(imported: &Imported, time: i64) -> Entry {
    Entry {
        time,
        session: 0,
        cwd: None,
        hostname: None,
        line: imported.line.clone(),
        kind: LineKind::Command,
        status: None,
        duration_ms: imported.duration_ms,
    }
}

#[derive(Default)]
struct Out {
    lines: Vec<Imported>,
    problems: Vec<Problem>,
    untold: usize,
}

impl Out {
    fn add(&mut self, number: usize, body: &[u8], time: Option<i64>, duration_ms: Option<u64>) {
        if body.len() > LINE_BYTES_MAX {
            return self.problem(number, "a command of more than 256 KiB; left out");
        }
        let line = String::from_utf8_lossy(body);
        if matches!(line, std::borrow::Cow::Owned(_)) {
            self.problem(number, "invalid UTF-8; the bytes were replaced");
        }
        if !line.trim().is_empty() {
            self.lines.push(Imported { line: line.into_owned(), time, duration_ms });
        }
    }

    fn problem(&mut self, line_number: usize, message: &str) {
        if self.problems.len() < PROBLEMS_MAX {
            self.problems.push(Problem { line_number, message: message.to_owned() });
        } else {
            self.untold += 1;
        }
    }

    fn done(mut self) -> (Vec<Imported>, Vec<Problem>) {
        if self.untold > 0 {
            let message = format!("{} more problems of this kind", self.untold);
            self.problems.push(Problem { line_number: 0, message });
        }
        (self.lines, self.problems)
    }
}

/// The lines of a file with their numbers; the end of the last line doesn't begin another.
fn numbered(text: &[u8]) -> impl Iterator<Item = (usize, &[u8])> {
    let body = text.strip_suffix(b"\n").unwrap_or(text);
    let lines = if text.is_empty() { None } else { Some(body.split(|byte| *byte == b'\n')) };
    (1..).zip(lines.into_iter().flatten())
}

fn is_number(text: &[u8]) -> bool {
    !text.is_empty() && text.iter().all(u8::is_ascii_digit)
}

/// Seconds in decimal digits as milliseconds.
fn millis(digits: &[u8]) -> Option<i64> {
    if !is_number(digits) {
        return None;
    }
    std::str::from_utf8(digits).ok()?.parse::<i64>().ok()?.checked_mul(1_000)
}

fn unmetafied(text: &[u8]) -> Vec<u8> {
    let mut plain = Vec::with_capacity(text.len());
    let mut bytes = text.iter().copied();
    while let Some(byte) = bytes.next() {
        match byte {
            ZSH_META => plain.push(bytes.next().map_or(ZSH_META, |masked| masked ^ 32)),
            _ => plain.push(byte),
        }
    }
    plain
}

fn zsh_entry(out: &mut Out, number: usize, body: &[u8]) {
    // zsh puts a space after a command that ends in a backslash, so that it doesn't read as continued.
    let trimmed = body.strip_suffix(b" ").filter(|rest| rest.trim_ascii_end().ends_with(b"\\"));
    let body = trimmed.unwrap_or(body);
    match zsh_extended(body) {
        Some((time, duration_ms, command)) => out.add(number, command, Some(time), Some(duration_ms)),
        None => out.add(number, body, None, None),
    }
}

/// Splits `: time:duration;command`.
fn zsh_extended(body: &[u8]) -> Option<(i64, u64, &[u8])> {
    let rest = body.strip_prefix(b": ")?;
    let semicolon = rest.iter().position(|byte| *byte == b';')?;
    let (fields, command) = (&rest[..semicolon], &rest[semicolon + 1..]);
    let colon = fields.iter().position(|byte| *byte == b':')?;
    let time = millis(fields[..colon].trim_ascii())?;
    let duration_ms = u64::try_from(millis(&fields[colon + 1..])?).ok()?;
    Some((time, duration_ms, command))
}

fn fish_unescaped(text: &[u8]) -> Vec<u8> {
    let mut plain = Vec::with_capacity(text.len());
    let mut bytes = text.iter().copied();
    while let Some(byte) = bytes.next() {
        match byte {
            b'\\' => match bytes.next() {
                Some(b'n') => plain.push(b'\n'),
                Some(b'\\') | None => plain.push(b'\\'),
                Some(other) => plain.extend([b'\\', other]),
            },
            _ => plain.push(byte),
        }
    }
    plain
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::store::{Search, Store};

    type Wanted<'a> = (&'a str, Option<i64>, Option<u64>);

    fn check(parsed: (Vec<Imported>, Vec<Problem>), wanted: &[Wanted<'_>], problem_lines: &[usize]) {
        let lines: Vec<Wanted<'_>> =
            parsed.0.iter().map(|imported| (imported.line.as_str(), imported.time, imported.duration_ms)).collect();
        assert_eq!(lines, wanted);
        let numbers: Vec<usize> = parsed.1.iter().map(|problem| problem.line_number).collect();
        assert_eq!(numbers, problem_lines, "{:?}", parsed.1);
    }

    #[test]
    fn bash_histories() {
        check(bash(b""), &[], &[]);
        check(
            bash(b"ls\n\ncd /tmp\n# a comment\n"),
            &[("ls", None, None), ("cd /tmp", None, None), ("# a comment", None, None)],
            &[],
        );
        check(
            bash(b"ls\n#1700000000\nfor x in 1 2; do\n\n  echo $x\ndone\n#1700000001\n#1700000002\npwd"),
            &[
                ("ls", None, None),
                ("for x in 1 2; do\n\n  echo $x\ndone", Some(1_700_000_000_000), None),
                ("pwd", Some(1_700_000_002_000), None),
            ],
            &[],
        );
        check(
            bash(b"echo \xff\n#99999999999999999999\nls\n"),
            &[("echo \u{fffd}", None, None), ("ls", None, None)],
            &[1, 2],
        );
        check(bash(b"#12x\n#\n"), &[("#12x", None, None), ("#", None, None)], &[]);
    }

    #[test]
    fn zsh_histories() {
        check(
            zsh(b"ls -l\n: 1700000000:12;sleep 12; true\n: no-op\n"),
            &[
                ("ls -l", None, None),
                ("sleep 12; true", Some(1_700_000_000_000), Some(12_000)),
                (": no-op", None, None),
            ],
            &[],
        );
        check(
            zsh(b": 1700000000:0;for x in 1 2\\\ndo echo $x\\\ndone\nls\n"),
            &[("for x in 1 2\ndo echo $x\ndone", Some(1_700_000_000_000), Some(0)), ("ls", None, None)],
            &[],
        );
        // "größe" has no byte that zsh needs for itself; the "à" of the second line ends in one.
        check(zsh("echo größe\n".as_bytes()), &[("echo größe", None, None)], &[]);
        check(zsh(b"echo \xc3\x83\x80\n"), &[("echo \u{e0}", None, None)], &[]);
        check(zsh(b"echo a\\\\ \nls\n"), &[("echo a\\\\", None, None), ("ls", None, None)], &[]);
        check(zsh(b"echo \xff\ncut\\\n"), &[("echo \u{fffd}", None, None), ("cut", None, None)], &[1, 2]);
        check(zsh(b": 99999999999999999999:0;ls\n"), &[(": 99999999999999999999:0;ls", None, None)], &[]);
    }

    #[test]
    fn fish_histories() {
        let text = b"- cmd: echo \"a\\nb\" \\\\n \\t\n  when: 1700000000\n  paths:\n    - a: b\n- cmd: ls\n- cmd: \n  when: 1\n";
        check(fish(text), &[("echo \"a\nb\" \\n \\t", Some(1_700_000_000_000), None), ("ls", None, None)], &[]);
        check(fish(b"  when: 5\nnoise\n- cmd: a\xff\n  when: soon\n"), &[("a\u{fffd}", None, None)], &[1, 2, 4, 3]);
    }

    #[test]
    fn problems_and_lines_are_bounded() {
        let (_, problems) = fish("noise\n".repeat(1_000).as_bytes());
        assert_eq!(problems.len(), PROBLEMS_MAX + 1);
        assert!(problems[PROBLEMS_MAX].message.contains("980"));
        let (lines, problems) = bash(&vec![b'x'; LINE_BYTES_MAX + 1]);
        assert_eq!((lines.len(), problems.len()), (0, 1));
    }

    #[test]
    fn importing_twice_adds_nothing() {
        let mut store = Store::in_memory().unwrap();
        let text = b"ls\nls\n#1700000000\nls\n#1700000000\nls\n#1700000005\nmake\n";
        let (lines, _) = bash(text);
        assert_eq!(import_into(&mut store, &lines).unwrap(), ImportReport { added: 5, known: 0 });
        assert_eq!(import_into(&mut store, &lines).unwrap(), ImportReport { added: 0, known: 5 });
        let (more, _) = bash(b"ls\nls\nls\n#1700000000\nls\n");
        assert_eq!(import_into(&mut store, &more).unwrap(), ImportReport { added: 1, known: 3 });
        let newest = store.search(&Search { limit: Some(1), ..Search::default() }).unwrap();
        assert_eq!(newest[0].entry.line, "make");
    }

    #[test]
    fn the_import_of_a_long_file_is_idempotent_across_batches() {
        let mut store = Store::in_memory().unwrap();
        let text: String = (0..2_500).map(|number| format!("echo {}\n", number % 7)).collect();
        let (lines, _) = bash(text.as_bytes());
        assert_eq!(import_into(&mut store, &lines).unwrap(), ImportReport { added: 2_500, known: 0 });
        assert_eq!(import_into(&mut store, &lines).unwrap(), ImportReport { added: 0, known: 2_500 });
    }

    proptest! {
        #[test]
        fn no_bytes_make_a_parser_panic(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            for parse in [bash, zsh, fish] {
                let (lines, _) = parse(&bytes);
                prop_assert!(lines.iter().all(|imported| !imported.line.trim().is_empty()));
            }
        }

        #[test]
        fn nothing_that_looks_like_a_history_makes_a_parser_panic(
            text in "((#|: |- cmd: |  when: )?[0-9]{0,20}(:[0-9]{1,20};)?[a-z\\\\]{0,5}\n){0,12}",
        ) {
            for parse in [bash, zsh, fish] {
                parse(text.as_bytes());
            }
        }

        #[test]
        fn bash_gives_back_the_commands_that_were_written(
            commands in proptest::collection::vec(("[a-z;|]{1,9}(\n[a-z;|]{1,9}){0,3}", 0i64..4_000_000_000), 0..8),
        ) {
            let text: String = commands.iter().map(|(line, time)| format!("#{time}\n{line}\n")).collect();
            let (lines, problems) = bash(text.as_bytes());
            prop_assert!(problems.is_empty());
            let read: Vec<_> = lines.into_iter().map(|imported| (imported.line, imported.time.unwrap() / 1_000)).collect();
            prop_assert_eq!(read, commands);
        }
    }
}
