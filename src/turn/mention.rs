//! The names after `@` in a question: files, lines of them, definitions, the uncommitted changes. Pure: other code checks whether
//! they exist, and a name that doesn't exist remains text.

use crate::proto::Image;

/// Names of a question that count; a text with more was pasted.
const MENTIONS_MAX: usize = 20;
/// Bytes of one name.
const NAME_BYTES_MAX: usize = 1_000;

/// A name after an `@`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mention {
    /// As it was written, without the `@`.
    pub text: String,
    /// The path or name, without its lines.
    pub name: String,
    /// The lines, from 1, the last one included.
    pub lines: Option<(usize, usize)>,
}

/// Finds the names in a question. An `@` counts at the beginning of a word, not inside a mail address. Code in a block
/// or between backticks names nothing, nor does a line that is a decorator, such as `@Override`.
#[must_use]
pub fn mentions(question: &str) -> Vec<Mention> {
    let mut found: Vec<Mention> = Vec::new();
    let is_long = question.trim().contains('\n');
    let mut fence: Option<&str> = None;
    for line in question.lines() {
        let head = line.trim_start();
        let mark = ["```", "~~~"].into_iter().find(|mark| head.starts_with(mark));
        if let Some(mark) = mark.filter(|mark| fence.is_none_or(|open| open == *mark)) {
            fence = if fence.is_none() { Some(mark) } else { None };
            continue;
        }
        if fence.is_some() || (is_long && is_decorator(head)) {
            continue;
        }
        for mention in of_line(line) {
            if found.len() < MENTIONS_MAX && !found.contains(&mention) {
                found.push(mention);
            }
        }
    }
    found
}

/// Finds the paths of pictures as a terminal pastes them when a file is dropped on it: absolute, quoted, with backslashes
/// before blanks, or as a `file://` URL.
#[must_use]
pub fn pasted_pictures(question: &str) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    for line in question.lines() {
        let mut rest = line;
        while let Some(at) = rest.find(['/', '~']) {
            let before = rest[..at].chars().next_back();
            let quote = before.filter(|c| "'\"".contains(*c));
            let (path, name_bytes) = pasted_path(&rest[at..], quote);
            let begins =
                before.is_none_or(|c| c.is_whitespace() || "'\"(:".contains(c)) || rest[..at].ends_with("file:");
            let path = path.strip_prefix("//").map_or(path.clone(), str::to_owned);
            let is_absolute = path.starts_with('/') || path.starts_with("~/");
            let is_picture = Image::ENDS.iter().any(|end| path.to_ascii_lowercase().ends_with(end));
            if begins && is_absolute && is_picture && path.len() <= NAME_BYTES_MAX && found.len() < MENTIONS_MAX {
                found.push(path);
            }
            rest = &rest[at + name_bytes..];
        }
    }
    found.dedup();
    found
}

/// Reads a path up to its end: the quote before it, else the first blank without a backslash. Returns the bytes that it
/// takes.
fn pasted_path(text: &str, quote: Option<char>) -> (String, usize) {
    let (mut path, mut name_bytes, mut is_escaped) = (String::new(), 0, false);
    for c in text.chars() {
        let ends = quote.map_or(c.is_whitespace() || "'\"".contains(c), |quote| c == quote);
        if ends && !is_escaped {
            break;
        }
        name_bytes += c.len_utf8();
        is_escaped = c == '\\' && quote.is_none() && !is_escaped;
        if !is_escaped {
            path.push(c);
        }
    }
    let length = path.trim_end_matches(['.', ',', ':', ';', '!', '?', ')']).len();
    path.truncate(length);
    (path.replace("%20", " "), name_bytes.max(1))
}

/// Returns whether a line is `@Name` or `@name.of.it(…)` alone, as a decorator is.
fn is_decorator(line: &str) -> bool {
    let Some(name) = line.trim_end().strip_prefix('@') else { return false };
    let end = name.find(|c: char| !c.is_alphanumeric() && c != '_' && c != '.').unwrap_or(name.len());
    let rest = &name[end..];
    name.starts_with(char::is_alphabetic) && (rest.is_empty() || rest.starts_with('('))
}

fn of_line(line: &str) -> Vec<Mention> {
    let mut found = Vec::new();
    let mut ticks = 0;
    let mut before = ' ';
    let mut at = 0;
    while let Some(c) = line[at..].chars().next() {
        let begins = before.is_whitespace() || "([{<\"',;".contains(before);
        let name_bytes = if c == '@' && begins && ticks % 2 == 0 { of_name(&line[at + 1..], &mut found) } else { 0 };
        ticks += usize::from(c == '`');
        before = c;
        at += c.len_utf8() + name_bytes;
        if name_bytes > 0 {
            before = line[..at].chars().next_back().unwrap_or(' ');
        }
    }
    found
}

/// Reads a name; returns the bytes that it takes.
fn of_name(rest: &str, found: &mut Vec<Mention>) -> usize {
    let (text, name_bytes) = match rest.chars().next() {
        Some(quote @ ('"' | '\'')) => match rest[1..].find(quote) {
            Some(end) => {
                let after = &rest[end + 2..];
                let lines = after.find(|c: char| !c.is_ascii_digit() && c != ':' && c != '-').unwrap_or(after.len());
                (format!("{}{}", &rest[1..=end], &after[..lines]), end + 2 + lines)
            }
            None => return 0,
        },
        _ => {
            let end = rest.find(|c: char| c.is_whitespace() || "`\"'<>(){}[],;|".contains(c)).unwrap_or(rest.len());
            let text = rest[..end].trim_end_matches(['.', ':', '!', '?', '…']);
            (text.to_owned(), text.len())
        }
    };
    if text.is_empty() || text.len() > NAME_BYTES_MAX || text.chars().any(|c| c.is_control() || c == '@') {
        return name_bytes;
    }
    let (name, lines) = with_lines(&text);
    found.push(Mention { name: name.to_owned(), lines, text });
    name_bytes
}

/// Takes lines off a name: `:10`, `:10-40`, `:10:5` (a column), `#L10-L40`.
fn with_lines(text: &str) -> (&str, Option<(usize, usize)>) {
    let split = text.split_once("#L").or_else(|| text.split_once(':'));
    let Some((name, lines)) = split.filter(|(name, _)| !name.is_empty()) else { return (text, None) };
    let (first, last) = match lines.split_once('-') {
        Some((first, last)) => (first, last.trim_start_matches('L')),
        None => {
            let line =
                lines.split_once(':').filter(|(_, column)| column.parse::<usize>().is_ok()).map_or(lines, |it| it.0);
            (line, line)
        }
    };
    match (first.parse::<usize>(), last.parse::<usize>()) {
        (Ok(first), Ok(last)) if first >= 1 && last >= first => (name, Some((first, last))),
        // `Type::method` is a name.
        _ => (text, None),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn notices(question: &str) -> Vec<String> {
        let line = |it: &Mention| match it.lines {
            Some((first, last)) => format!("{} {first}-{last}", it.name),
            None => it.name.clone(),
        };
        mentions(question).iter().map(line).collect()
    }

    #[test]
    fn pasted_paths_of_pictures_are_found() {
        for (question, paths) in [
            ("/home/u/a.png what is this", &["/home/u/a.png"][..]),
            ("what is '/home/u/my cat.JPG'?", &["/home/u/my cat.JPG"]),
            ("see /tmp/my\\ cat.webp, please", &["/tmp/my cat.webp"]),
            ("file:///tmp/a%20b.gif and ~/x.jpeg.", &["/tmp/a b.gif", "~/x.jpeg"]),
            ("a/b.png or x/y/z.png and /etc/passwd and https://x.org/a.png", &[]),
            ("@/tmp/a.png", &[]),
        ] {
            assert_eq!(pasted_pictures(question), paths, "{question}");
        }
    }

    #[test]
    fn names_are_found_at_the_start_of_a_word() {
        for (question, names) in [
            ("@src/x.rs what does this do", &["src/x.rs"][..]),
            ("compare @a.rs:10-40 with @b.rs:7, please", &["a.rs 10-40", "b.rs 7-7"]),
            ("why @src/app.rs:12:5?", &["src/app.rs 12-12"]),
            ("see (@x/y.md).", &["x/y.md"]),
            ("@a#L3-L9 and @a#L4", &["a 3-9", "a 4-4"]),
            ("what is wrong in @diff?", &["diff"]),
            ("@Registry::plan and @Foo.go", &["Registry::plan", "Foo.go"]),
            ("@\"my file.txt\":3-4 and @'b c'", &["my file.txt 3-4", "b c"]),
            ("write to a@b.org or git@host:x/y.git", &[]),
            ("@ and @, and @@x", &[]),
            ("`@Override` and `x` @y", &["y"]),
            ("@a.rs:0 @a.rs:9-3", &["a.rs:0", "a.rs:9-3"]),
            ("@a @a", &["a"]),
            ("what does this do?\n@Override\npublic void f() {}\n@app.route(\"/x\")\n@src/a.rs", &["src/a.rs"]),
            ("look\n```\n@a/b.rs\n```\n@c/d.rs", &["c/d.rs"]),
            ("@Override", &["Override"]),
        ] {
            assert_eq!(notices(question), names, "{question}");
        }
        assert_eq!(mentions(&"@a1/b ".repeat(3)).len(), 1);
        let many: String = (0..50).map(|number| format!("@f{number} ")).collect();
        assert_eq!(mentions(&many).len(), MENTIONS_MAX);
    }

    proptest! {
        #[test]
        fn any_text_can_be_read(question in "[ -~\n@é]{0,80}") {
            for it in mentions(&question) {
                prop_assert!(question.contains('@') && !it.name.is_empty());
            }
        }
    }
}
