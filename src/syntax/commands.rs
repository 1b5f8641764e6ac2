//! The end of a command in an answer, found line by line: quotes, substitutions, comments and here-documents of the shell. Not a
//! parser: the shell decides whether the command makes sense.

use std::collections::VecDeque;

/// A here-document whose body has yet to be read.
#[derive(Debug, PartialEq, Eq)]
pub struct Document {
    delimiter: String,
    strips_tabs: bool,
}

impl Document {
    /// Returns whether `line` ends the body.
    #[must_use]
    pub fn ends_at(&self, line: &str) -> bool {
        let line = if self.strips_tabs { line.trim_start_matches('\t') } else { line };
        line == self.delimiter
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Frame {
    Single,
    /// `$'…'`
    Ansi,
    Double,
    Backtick,
    Paren,
    /// `${…}`
    Brace,
    /// `((…))` and `$((…))`, with the depth of brackets inside.
    Arithmetic(u32),
}

/// Reads a command line by line.
#[derive(Debug, Default)]
pub struct Scan {
    stack: Vec<Frame>,
    documents: VecDeque<Document>,
    had_document: bool,
}

impl Scan {
    /// Reads a line outside the bodies of here-documents; `true` if a backslash at its end continues it.
    pub fn line(&mut self, line: &str) -> bool {
        let chars: Vec<char> = line.chars().collect();
        let mut at = 0;
        while at < chars.len() {
            let c = chars[at];
            match self.stack.last().copied() {
                Some(Frame::Single) => {
                    if c == '\'' {
                        self.stack.pop();
                    }
                    at += 1;
                }
                Some(Frame::Ansi) => {
                    if c == '\'' {
                        self.stack.pop();
                    }
                    at += if c == '\\' { 2 } else { 1 };
                }
                _ if c == '\\' => {
                    if at + 1 == chars.len() {
                        return true;
                    }
                    at += 2;
                }
                Some(Frame::Double) => at = self.in_double(&chars, at),
                Some(Frame::Arithmetic(depth)) => at = self.in_arithmetic(&chars, at, depth),
                Some(Frame::Brace) if c == '}' => {
                    self.stack.pop();
                    at += 1;
                }
                Some(Frame::Brace) => at = self.quote_or_substitution(&chars, at).unwrap_or(at + 1),
                _ if c == '#' && begins_word(&chars, at) => break,
                _ => at = self.in_command(&chars, at),
            }
        }
        false
    }

    /// Returns the next here-document whose body follows.
    pub fn next_document(&mut self) -> Option<Document> {
        self.documents.pop_front()
    }

    /// Returns whether the line ends within an open quote: bodies begin only after the quote.
    #[must_use]
    pub fn in_quotes(&self) -> bool {
        matches!(self.stack.last(), Some(Frame::Single | Frame::Ansi | Frame::Double | Frame::Brace))
    }

    /// Returns whether there was a here-document, which makes the command span lines.
    #[must_use]
    pub fn had_document(&self) -> bool {
        self.had_document
    }

    /// Returns whether nothing is open.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        self.stack.is_empty() && self.documents.is_empty()
    }

    fn in_double(&mut self, chars: &[char], at: usize) -> usize {
        if chars[at] == '"' {
            self.stack.pop();
            return at + 1;
        }
        // Single quotes are ordinary characters here.
        if matches!(chars[at], '$' | '`') && chars.get(at + 1) != Some(&'\'') {
            return self.quote_or_substitution(chars, at).unwrap_or(at + 1);
        }
        at + 1
    }

    fn in_arithmetic(&mut self, chars: &[char], at: usize, depth: u32) -> usize {
        let top = self.stack.len() - 1;
        match chars[at] {
            '(' => self.stack[top] = Frame::Arithmetic(depth + 1),
            ')' if depth > 0 => self.stack[top] = Frame::Arithmetic(depth - 1),
            ')' => {
                self.stack.pop();
                // Only one bracket: it was a subshell in a substitution; its outer bracket is still open.
                if chars.get(at + 1) == Some(&')') {
                    return at + 2;
                }
                self.stack.push(Frame::Paren);
            }
            _ => return self.quote_or_substitution(chars, at).unwrap_or(at + 1),
        }
        at + 1
    }

    fn in_command(&mut self, chars: &[char], at: usize) -> usize {
        if let Some(next) = self.quote_or_substitution(chars, at) {
            return next;
        }
        match chars[at] {
            '(' if chars.get(at + 1) == Some(&'(') => {
                self.stack.push(Frame::Arithmetic(0));
                at + 2
            }
            '(' => {
                self.stack.push(Frame::Paren);
                at + 1
            }
            // An unbalanced bracket ends a pattern of `case`.
            ')' => {
                if self.stack.last() == Some(&Frame::Paren) {
                    self.stack.pop();
                }
                at + 1
            }
            '<' if chars[at..].starts_with(&['<', '<', '<']) => at + 3,
            '<' if chars.get(at + 1) == Some(&'<') => self.document(chars, at + 2),
            _ => at + 1,
        }
    }

    /// Opens or closes a quotation or substitution; returns the position after it.
    fn quote_or_substitution(&mut self, chars: &[char], at: usize) -> Option<usize> {
        let (frame, length) = match (chars[at], chars.get(at + 1), chars.get(at + 2)) {
            ('\'', ..) => (Frame::Single, 1),
            ('"', ..) => (Frame::Double, 1),
            ('`', ..) if self.stack.last() == Some(&Frame::Backtick) => {
                self.stack.pop();
                return Some(at + 1);
            }
            ('`', ..) => (Frame::Backtick, 1),
            ('$', Some('\''), _) => (Frame::Ansi, 2),
            ('$', Some('('), Some('(')) => (Frame::Arithmetic(0), 3),
            ('$', Some('('), _) => (Frame::Paren, 2),
            ('$', Some('{'), _) => (Frame::Brace, 2),
            // `$#`, `$$`: these don't begin a comment.
            ('$', Some('#' | '$'), _) => return Some(at + 2),
            _ => return None,
        };
        self.stack.push(frame);
        Some(at + length)
    }

    /// Reads a here-document's delimiter, starting after `<<`.
    fn document(&mut self, chars: &[char], mut at: usize) -> usize {
        let strips_tabs = chars.get(at) == Some(&'-');
        if strips_tabs {
            at += 1;
        }
        while matches!(chars.get(at), Some(' ' | '\t')) {
            at += 1;
        }
        let mut delimiter = String::new();
        let mut quote = None;
        let mut is_word = false;
        while let Some(&c) = chars.get(at) {
            match quote {
                Some(mark) if c == mark => quote = None,
                Some(_) => delimiter.push(c),
                None if matches!(c, '\'' | '"') => {
                    quote = Some(c);
                    is_word = true;
                }
                None if c == '\\' => {
                    at += 1;
                    is_word = true;
                    delimiter.extend(chars.get(at));
                }
                None if c.is_whitespace() || ";&|<>()".contains(c) => break,
                None => {
                    delimiter.push(c);
                    is_word = true;
                }
            }
            at += 1;
        }
        if let Some(mark) = quote {
            // The delimiter itself is not closed on this line: the command is incomplete.
            self.stack.push(if mark == '"' { Frame::Double } else { Frame::Single });
        }
        if is_word {
            self.had_document = true;
            self.documents.push_back(Document { delimiter, strips_tabs });
        }
        at
    }
}

fn begins_word(chars: &[char], at: usize) -> bool {
    at.checked_sub(1).is_none_or(|before| chars[before].is_whitespace() || ";&|()<>".contains(chars[before]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_whole_or_not() {
        let table = [
            ("echo a", true),
            ("echo 'a", false),
            ("echo \"a $(b 'c)' \"d\") e\"", true),
            ("echo \"it's\"", true),
            ("echo $'a\\'b'", true),
            ("( a; (b) )", true),
            ("((1 + (2)))", true),
            ("echo $( (a) )", true),
            ("echo $((a); b)", true),
            ("echo `a", false),
            ("echo ${a:-`b`}", true),
            ("echo \\' \\\" \\(", true),
            ("a # ' \" (", true),
            ("a$# b#'c'", true),
            ("cat << ", true),
            ("cat <<E", false),
        ];
        for (line, whole) in table {
            let mut scan = Scan::default();
            assert!(!scan.line(line), "{line}");
            assert_eq!(scan.is_whole(), whole, "{line}: {scan:?}");
        }
    }

    #[test]
    fn a_continued_line_says_so() {
        for (line, goes_on) in
            [("a \\", true), ("a \\\\", false), ("'a \\", false), ("\"a \\", true), ("# a \\", false)]
        {
            assert_eq!(Scan::default().line(line), goes_on, "{line}");
        }
    }
}
