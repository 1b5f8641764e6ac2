//! sed's scripts: which files they write and read, what they run, and what a plain substitution prints.

use super::text::{self, ANY};

/// What a script does beside editing its input.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Script {
    pub(super) writes: Vec<String>,
    pub(super) reads: Vec<String>,
    /// Commands that a shell runs; empty for the input itself.
    pub(super) runs: Vec<String>,
    /// Substitutions of plain text, in order: what, with what, everywhere. Of nothing: what is put in front of a line.
    plain: Vec<(String, String, bool)>,
    /// Whether there is more than plain substitutions.
    is_more: bool,
}

/// Reads a script.
pub(super) fn read(code: &str) -> Script {
    let mut script = Script::default();
    let mut rest = code;
    while !rest.is_empty() {
        rest = rest.trim_start_matches([' ', '\t', '\n', ';', '{', '}', '!']);
        let behind = address(rest);
        // Some lines, not all.
        script.is_more |= behind.len() < rest.len();
        rest = behind;
        let Some(letter) = rest.chars().next() else { break };
        rest = &rest[letter.len_utf8()..];
        let line_end = rest.find('\n').unwrap_or(rest.len());
        match letter {
            's' => rest = substitution(rest, &mut script),
            'y' => {
                let Some((_, _, behind)) = two_parts(rest) else { break };
                script.is_more = true;
                rest = behind;
            }
            'w' | 'W' => {
                script.writes.push(rest[..line_end].trim().to_owned());
                script.is_more = true;
                rest = &rest[line_end..];
            }
            'r' | 'R' => {
                script.reads.push(rest[..line_end].trim().to_owned());
                script.is_more = true;
                rest = &rest[line_end..];
            }
            'e' => {
                script.runs.push(rest[..line_end].trim().to_owned());
                rest = &rest[line_end..];
            }
            'a' | 'i' | 'c' | ':' | 'b' | 't' | 'T' | '#' => {
                script.is_more = true;
                let end = if matches!(letter, 'b' | 't' | 'T') {
                    rest.find(['\n', ';', '}']).unwrap_or(rest.len())
                } else {
                    line_end
                };
                rest = &rest[end..];
            }
            ' ' | '\t' | '\n' | ';' | '{' | '}' | '!' => {}
            _ => script.is_more = true,
        }
    }
    script
}

/// What is behind an address: numbers, `$`, `/…/`, `\c…c`, joined by commas.
fn address(code: &str) -> &str {
    let mut rest = code;
    loop {
        rest = rest.trim_start_matches(|c: char| c.is_ascii_digit() || matches!(c, '$' | ',' | '~' | '+' | ' ' | '!'));
        let delimiter = match rest.chars().next() {
            Some('/') => '/',
            Some('\\') => match rest[1..].chars().next() {
                Some(c) => {
                    rest = &rest[1..];
                    c
                }
                None => return "",
            },
            _ => return rest,
        };
        let Some(length) = end_of(&rest[delimiter.len_utf8()..], delimiter) else { return "" };
        rest = &rest[delimiter.len_utf8() * 2 + length..];
        rest = rest.trim_start_matches(['I', 'M']);
    }
}

fn end_of(text: &str, delimiter: char) -> Option<usize> {
    let mut characters = text.char_indices();
    let mut in_class = false;
    while let Some((at, c)) = characters.next() {
        match c {
            '\\' => _ = characters.next(),
            '[' => in_class = true,
            ']' => in_class = false,
            c if c == delimiter && !in_class => return Some(at),
            _ => {}
        }
    }
    text.find(delimiter)
}

fn two_parts(rest: &str) -> Option<(&str, &str, &str)> {
    let delimiter = rest.chars().next()?;
    let body = &rest[delimiter.len_utf8()..];
    let first = end_of(body, delimiter)?;
    let behind = &body[first + delimiter.len_utf8()..];
    let second = end_of(behind, delimiter)?;
    Some((&body[..first], &behind[..second], &behind[second + delimiter.len_utf8()..]))
}

fn substitution<'a>(rest: &'a str, script: &mut Script) -> &'a str {
    let Some((what, with, behind)) = two_parts(rest) else {
        script.is_more = true;
        return "";
    };
    let mut rest = behind;
    let mut everywhere = false;
    while let Some(flag) = rest.chars().next() {
        match flag {
            'g' => everywhere = true,
            'e' => script.runs.push(made_of_input(with)),
            'w' => {
                let end = rest.find('\n').unwrap_or(rest.len());
                script.writes.push(rest[1..end].trim().to_owned());
                rest = &rest[end..];
                break;
            }
            'p' | 'i' | 'I' | 'm' | 'M' | '0'..='9' => script.is_more = true,
            _ => break,
        }
        rest = &rest[flag.len_utf8()..];
    }
    let special = |text: &str| text.contains(['.', '*', '[', ']', '^', '$', '+', '?', '(', '|']);
    let letters = with.split('\\').skip(1).any(|behind| behind.starts_with(|c: char| c.is_ascii_alphanumeric()));
    if what == "^" && !with.contains('&') && !letters {
        script.plain.push((String::new(), plain(with), false));
    } else if special(what) || with.contains('&') || with.contains("\\1") {
        script.is_more = true;
    } else {
        script.plain.push((plain(what), plain(with), everywhere));
    }
    rest
}

/// What a substitution puts in place: `&` and groups are parts of the input, which may be anything.
fn made_of_input(with: &str) -> String {
    let mut marked = String::new();
    let mut rest = with.chars();
    while let Some(c) = rest.next() {
        match c {
            '&' => marked.push(ANY),
            '\\' => match rest.next() {
                Some('1'..='9') => marked.push(ANY),
                Some('&') => marked.push('&'),
                Some(c) => marked.extend(['\\', c]),
                None => {}
            },
            c => marked.push(c),
        }
    }
    plain(&marked)
}

fn plain(text: &str) -> String {
    let mut made = String::new();
    let mut rest = text.chars();
    while let Some(c) = rest.next() {
        match c {
            '\\' => match rest.next() {
                Some('n') => made.push('\n'),
                Some(c) => made.push(c),
                None => {}
            },
            c => made.push(c),
        }
    }
    made
}

/// Whether it can be told what scripts make of a text. What stands in front of each line is known though a line be a name
/// that isn't.
pub(super) fn follows(scripts: &[Script], text: &str) -> bool {
    let is_prefix = |script: &Script| script.plain.iter().all(|(what, ..)| what.is_empty());
    let is_names = || !text::has_open(text) && !text.contains(text::DECODED_MARK) && scripts.iter().all(is_prefix);
    text.len() <= text::TEXT_BYTES_MAX && (text::is_known(text) || is_names())
}

/// What plain substitutions make of a text; `None` where a script does more.
pub(super) fn apply(scripts: &[Script], text: &str) -> Option<String> {
    if scripts.iter().any(|script| script.is_more || !script.runs.is_empty()) {
        return None;
    }
    let mut made = String::new();
    for line in text.lines() {
        let mut line = line.to_owned();
        for (what, with, everywhere) in scripts.iter().flat_map(|script| &script.plain) {
            line = if *everywhere { line.replace(what, with) } else { line.replacen(what, with, 1) };
        }
        made.push_str(&line);
        made.push('\n');
    }
    Some(made)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_scripts_write_and_run_is_found() {
        assert_eq!(read("1w /etc/x").writes, ["/etc/x"]);
        assert_eq!(read("s/a/b/w out\np").writes, ["out"]);
        assert_eq!(read("s/.*/rm x/e").runs, ["rm x"]);
        assert_eq!(read("/a[/]b/,$ e date").runs, ["date"]);
        assert_eq!(read("/x/e").runs, [""]);
        assert!(read("s/we/us/g; s|e|w|; /w e/d; y/ew/we/").runs.is_empty());
        assert!(read("s/we/us/g;/w/d;$!N").writes.is_empty());
        assert_eq!(read("$r /etc/passwd").reads, ["/etc/passwd"]);
    }

    #[test]
    fn plain_substitutions_are_applied() {
        assert_eq!(apply(&[read("s/x/rm/;s/y/\\//")], "x y\n").as_deref(), Some("rm /\n"));
        assert_eq!(apply(&[read("s/x.*/rm/")], "x y\n"), None);
        assert_eq!(apply(&[read("/q/s/x/y/")], "x\n"), None);
        assert_eq!(apply(&[read("s/x/y/2")], "x\n"), None);
        assert_eq!(apply(&[read("s|^|a/|;s/x/y/")], "x\nxx\n").as_deref(), Some("a/y\na/yx\n"));
        let names = format!("{}\n", text::STAR);
        assert!(follows(&[read("s|^|a/|")], &names) && !follows(&[read("s|^|a/|;s/x/y/")], &names));
        assert!(!follows(&[read("s|^|a/|")], &format!("{}\n", text::OUTPUT)));
    }
}
