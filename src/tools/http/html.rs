//! The text of a page, as it would be read aloud: without scripts and styles, a line for each block, links with their targets.
//! Pure, one pass, and never fails: what it doesn't recognise is text.

/// Elements whose content isn't read.
const SILENT: &[&str] = &["script", "style", "noscript", "template", "svg", "head", "iframe", "object"];
/// Elements that begin and end a line.
const BLOCKS: &[&str] = &[
    "address",
    "article",
    "aside",
    "blockquote",
    "br",
    "dd",
    "details",
    "div",
    "dl",
    "dt",
    "figcaption",
    "figure",
    "footer",
    "form",
    "h1",
    "h2",
    "h3",
    "h4",
    "h5",
    "h6",
    "header",
    "hr",
    "li",
    "main",
    "nav",
    "ol",
    "p",
    "pre",
    "section",
    "summary",
    "table",
    "title",
    "tr",
    "ul",
];
/// Names of the characters that pages use most.
const ENTITIES: &[(&str, &str)] = &[
    ("amp", "&"),
    ("lt", "<"),
    ("gt", ">"),
    ("quot", "\""),
    ("apos", "'"),
    ("nbsp", " "),
    ("ndash", "–"),
    ("mdash", "—"),
    ("lsquo", "‘"),
    ("rsquo", "’"),
    ("ldquo", "“"),
    ("rdquo", "”"),
    ("hellip", "…"),
    ("copy", "©"),
    ("reg", "®"),
    ("trade", "™"),
    ("bull", "•"),
    ("middot", "·"),
    ("laquo", "«"),
    ("raquo", "»"),
    ("times", "×"),
    ("euro", "€"),
    ("pound", "£"),
    ("sect", "§"),
    ("deg", "°"),
    ("rarr", "→"),
    ("larr", "←"),
    ("shy", ""),
    ("auml", "ä"),
    ("ouml", "ö"),
    ("uuml", "ü"),
    ("Auml", "Ä"),
    ("Ouml", "Ö"),
    ("Uuml", "Ü"),
    ("szlig", "ß"),
    ("eacute", "é"),
    ("egrave", "è"),
    ("agrave", "à"),
    ("ccedil", "ç"),
    ("ntilde", "ñ"),
];
/// Longest entity that is looked for.
const ENTITY_BYTES_MAX: usize = 12;

/// Returns the text of a page.
pub(super) fn text(html: &str) -> String {
    let mut page = Page::default();
    let mut rest = html;
    while let Some(at) = rest.find('<') {
        page.words(&rest[..at]);
        rest = page.tag(&rest[at..]);
    }
    page.words(rest);
    page.text.truncate(page.text.trim_end().len());
    page.text
}

#[derive(Default)]
struct Page {
    text: String,
    /// A blank is due before the next word.
    blank: bool,
    /// Depth inside of `pre`, in which blanks count.
    pre: usize,
    /// Target of the link whose text is being read, and the position at which that text began.
    link: Option<(String, usize)>,
}

impl Page {
    fn words(&mut self, text: &str) {
        if self.pre > 0 {
            return self.text.push_str(&decoded(text));
        }
        let text = decoded(text);
        self.blank |= text.starts_with(char::is_whitespace);
        for (count, word) in text.split_whitespace().enumerate() {
            if (self.blank || count > 0) && !self.text.is_empty() && !self.text.ends_with(char::is_whitespace) {
                self.text.push(' ');
            }
            self.text.push_str(word);
            self.blank = false;
        }
        self.blank |= text.ends_with(char::is_whitespace);
    }

    fn line(&mut self) {
        self.text.truncate(self.text.trim_end_matches(' ').len());
        if !self.text.is_empty() && !self.text.ends_with('\n') {
            self.text.push('\n');
        }
        self.blank = false;
    }

    fn paragraph(&mut self) {
        self.line();
        if !self.text.is_empty() && !self.text.ends_with("\n\n") {
            self.text.push('\n');
        }
    }

    /// Reads the tag at the beginning of `rest`; returns what comes after it.
    fn tag<'a>(&mut self, rest: &'a str) -> &'a str {
        if let Some(comment) = rest.strip_prefix("<!--") {
            return comment.find("-->").map_or("", |end| &comment[end + 3..]);
        }
        let inner = &rest[1..];
        if !inner.starts_with(|c: char| c.is_ascii_alphabetic() || matches!(c, '/' | '!' | '?')) {
            self.words("<");
            return inner;
        }
        let Some(end) = tag_end(inner) else { return "" };
        let (tag, after) = (&inner[..end], &inner[end + 1..]);
        let is_end = tag.starts_with('/');
        let name = tag.trim_start_matches('/').split(|c: char| c.is_whitespace() || c == '/').next();
        let name = name.unwrap_or_default().to_ascii_lowercase();
        if !is_end && SILENT.contains(&name.as_str()) && !tag.ends_with('/') {
            // The head's one part that is read.
            if name == "head" {
                let head = &after[..end_of(after, "head")];
                if let Some(at) = find_ignoring_case(head, "<title") {
                    let title = head[at..].split_once('>').map_or("", |(_, title)| title);
                    self.words(title.split('<').next().unwrap_or_default());
                    self.paragraph();
                }
            }
            return &after[end_of(after, &name)..];
        }
        match (name.as_str(), is_end) {
            ("pre", false) => self.pre += 1,
            ("pre", true) => self.pre = self.pre.saturating_sub(1),
            ("a", false) => self.link = attribute(tag, "href").map(|to| (to, self.text.len())),
            ("a", true) => {
                if let Some((to, began)) = self.link.take()
                    && to.contains("://")
                    && self.text.len() > began
                {
                    self.text.push_str(&format!(" ({to})"));
                }
            }
            ("td" | "th", true) => self.blank = true,
            _ => {}
        }
        if BLOCKS.contains(&name.as_str()) {
            self.line();
            match name.as_str() {
                "li" if !is_end => self.text.push_str("- "),
                "p" | "table" | "ul" | "ol" | "blockquote" if is_end => self.paragraph(),
                heading if !is_end && heading.len() == 2 && heading.starts_with('h') => {
                    let level = usize::from(heading.as_bytes()[1].saturating_sub(b'0'));
                    if (1..=6).contains(&level) {
                        self.paragraph();
                        self.text.push_str(&"#".repeat(level));
                        self.blank = true;
                    }
                }
                _ => {}
            }
        }
        after
    }
}

/// Position where a tag ends; a `>` in quotes is a part of it.
fn tag_end(inner: &str) -> Option<usize> {
    let mut quote = None;
    for (at, byte) in inner.bytes().enumerate() {
        match (quote, byte) {
            (None, b'>') => return Some(at),
            (None, b'"' | b'\'') => quote = Some(byte),
            (Some(open), byte) if open == byte => quote = None,
            _ => {}
        }
    }
    // A quote that is never closed isn't one.
    inner.find('>')
}

/// Returns the position after the end tag of an element.
fn end_of(after: &str, name: &str) -> usize {
    let Some(at) = find_ignoring_case(after, &format!("</{name}")) else { return after.len() };
    at + after[at..].find('>').map_or(after.len() - at, |end| end + 1)
}

fn find_ignoring_case(text: &str, wanted: &str) -> Option<usize> {
    let (bytes, wanted) = (text.as_bytes(), wanted.as_bytes());
    memchr::memchr_iter(wanted[0], bytes)
        .find(|at| bytes.get(*at..at + wanted.len()).is_some_and(|part| part.eq_ignore_ascii_case(wanted)))
}

fn attribute(tag: &str, name: &str) -> Option<String> {
    let at = find_ignoring_case(tag, &format!("{name}="))?;
    let value = &tag[at + name.len() + 1..];
    let value = match value.as_bytes().first()? {
        quote @ (b'"' | b'\'') => value[1..].split(char::from(*quote)).next()?,
        _ => value.split(char::is_whitespace).next()?,
    };
    Some(decoded(value))
}

/// Text with its entities as the characters that they stand for.
fn decoded(text: &str) -> String {
    let mut whole = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('&') {
        whole.push_str(&rest[..at]);
        rest = &rest[at + 1..];
        let end = rest.bytes().take(ENTITY_BYTES_MAX).position(|byte| byte == b';');
        match end.and_then(|end| Some((entity(&rest[..end])?, end))) {
            Some((meant, end)) => {
                whole.push_str(&meant);
                rest = &rest[end + 1..];
            }
            None => whole.push('&'),
        }
    }
    whole.push_str(rest);
    whole
}

fn entity(name: &str) -> Option<String> {
    if let Some(number) = name.strip_prefix('#') {
        let code = match number.strip_prefix(['x', 'X']) {
            Some(hex) => u32::from_str_radix(hex, 16).ok()?,
            None => number.parse().ok()?,
        };
        return char::from_u32(code).filter(|c| !c.is_control() || c.is_whitespace()).map(String::from);
    }
    ENTITIES.iter().find(|(known, _)| *known == name).map(|(_, meant)| (*meant).to_owned())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_page_is_read_as_text() {
        for (html, read) in [
            ("plain  words\n here", "plain words here"),
            ("<p>One</p><p>Two <b>bold</b>, it</p>", "One\n\nTwo bold, it"),
            ("<html><head><title>T &amp; U</title><style>p{}</style></head><body>x</body>", "T & U\n\nx"),
            ("<script>if (a < b) { '</p>' }</script>shown", "shown"),
            ("<SCRIPT type=x>no</Script >yes", "yes"),
            ("a<!-- <p>no</p> -->b", "ab"),
            ("<h2>Head</h2>text", "## Head\ntext"),
            ("<ul><li>one<li>two</ul>end", "- one\n- two\n\nend"),
            ("see <a href=\"https://x.example/?a=1&amp;b\">the page</a>.", "see the page (https://x.example/?a=1&b)."),
            ("<a href='#top'>up</a>", "up"),
            ("<pre>a  b\n  c</pre>d", "a  b\n  c\nd"),
            ("<table><tr><td>a</td><td>b</td></tr><tr><td>c</td></tr></table>", "a b\nc"),
            ("1 < 2 &lt; 3 &unknown; &#228;&#xe4; &#0; &", "1 < 2 < 3 &unknown; ää &#0; &"),
            ("<p title=\"a > b\">text", "text"),
            ("cut <p", "cut"),
            ("<script>never closed", ""),
            ("a<br>b<br/>c", "a\nb\nc"),
        ] {
            assert_eq!(text(html), read, "{html}");
        }
    }

    #[test]
    fn a_hostile_page_costs_no_more_than_its_length() {
        for piece in ["<", "<a href=\"", "<!--", "<script", "&#", "<p title='", "</", "<head><head"] {
            let _ = text(&piece.repeat(20_000));
        }
    }

    proptest! {
        #[test]
        fn anything_is_read(html in "(<[a-z/!]{0,4}|>|&[a-z#0-9]{0,4};|[a-zä \"'=]|-->){0,60}") {
            let _ = text(&html);
        }
    }
}
