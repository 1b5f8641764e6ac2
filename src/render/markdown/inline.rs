//! Inline markdown of one line, character by character: emphasis, code, links.
//!
//! Owns the moment at which a span is unambiguous: text outside any open span passes at once, text inside is held until
//! the span closes, the line ends or [`HELD_CHARS_MAX`] is reached; then an unclosed span is literal. Must not know
//! columns or colours.
//!
//! Differences from CommonMark, with the reasons: a single `*` between two letters or digits is literal (`2*3*4` must
//! stay a product); nothing opens in a word that has `://`, `$` or a backslash, nor between `\(` `\[` `$$` and their
//! ends (URLs, shell variables, LaTeX); punctuation means ASCII punctuation, so that emphasis works beside CJK marks;
//! `~~` only, as `~5` means "about".

/// Limit on the characters held for one open span; a longer span is shown as it was written.
pub(super) const HELD_CHARS_MAX: usize = 300;
/// Links inside a link's text are read to this depth.
const DEPTH_MAX: usize = 3;

/// The construct that a character is part of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Mark {
    pub(super) strong: bool,
    pub(super) emphasis: bool,
    pub(super) strike: bool,
    pub(super) code: bool,
    pub(super) link: bool,
    pub(super) url: bool,
}

/// The previous character's kind, as far as it decides on markup.
#[derive(Clone, Copy, Debug)]
struct Context {
    before: char,
    /// The number of characters of `://` in the word so far.
    scheme: u8,
    /// The word is a URL, a variable or LaTeX: no span opens in it.
    literal_word: bool,
    math: Option<char>,
}

impl Context {
    fn advance(&mut self, c: char) {
        let escaped = self.before == '\\';
        match (self.math, c) {
            (None, '(' | '[') if escaped => self.math = Some(if c == '(' { ')' } else { ']' }),
            (None, '$') if self.before == '$' => self.math = Some('$'),
            (Some('$'), '$') if self.before == '$' => self.math = None,
            (Some(end), _) if end == c && escaped => self.math = None,
            _ => {}
        }
        self.scheme = match (self.scheme, c) {
            (_, ':') => 1,
            (1, '/') => 2,
            (2, '/') => 3,
            _ => 0,
        };
        self.literal_word = !c.is_whitespace() && (self.literal_word || self.scheme == 3 || matches!(c, '$' | '\\'));
        // The `$` that ends a formula must not begin the next one.
        self.before = if c == '$' && self.math.is_none() && self.before == '$' { ' ' } else { c };
    }
}

/// The reader of one line.
pub(super) struct Inline {
    held: Vec<char>,
    context: Context,
    keep_ticks: bool,
}

impl Inline {
    /// Starts a line; `keep_ticks` leaves the backticks of code visible, for output without colours.
    pub(super) fn new(keep_ticks: bool) -> Self {
        Self {
            held: Vec::new(),
            context: Context { before: '\n', scheme: 0, literal_word: false, math: None },
            keep_ticks,
        }
    }

    /// Takes a character of the line; what can be shown goes to the sink.
    pub(super) fn push(&mut self, c: char, sink: &mut dyn FnMut(char, Mark)) {
        if self.held.is_empty() {
            if self.context.math.is_none() && matches!(c, '*' | '_' | '~' | '`' | '[' | '!' | '\\') {
                self.held.push(c);
            } else {
                self.context.advance(c);
                sink(c, Mark::default());
            }
            return;
        }
        let last = self.held.last().copied().unwrap_or(c);
        self.held.push(c);
        if self.held.len() >= HELD_CHARS_MAX {
            self.release(true, sink);
        } else if last != c && matches!(last, '*' | '_' | '~' | '`' | '[' | ']' | '(' | ')' | '!' | '\\') {
            self.release(false, sink);
        }
    }

    /// Ends the line: the held text is shown, open spans as they were written.
    pub(super) fn finish(&mut self, sink: &mut dyn FnMut(char, Mark)) {
        self.release(true, sink);
        *self = Self::new(self.keep_ticks);
    }

    fn release(&mut self, last: bool, sink: &mut dyn FnMut(char, Mark)) {
        let mut reader = Reader::new(self.context, last, self.keep_ticks, 0);
        reader.read(&self.held);
        if reader.open && !last {
            return;
        }
        self.context = reader.context;
        self.held.clear();
        reader.emit(sink);
    }
}

enum Node {
    Text(String, Mark),
    Run(Run),
}

struct Run {
    mark: char,
    left: usize,
    can_open: bool,
    can_close: bool,
    opens: Vec<usize>,
    closes: Vec<usize>,
}

/// Reads a stretch of a line whole. `open` afterwards: more text could still change the reading.
struct Reader {
    nodes: Vec<Node>,
    openers: Vec<usize>,
    open: bool,
    context: Context,
    last: bool,
    keep_ticks: bool,
    depth: usize,
}

impl Reader {
    fn new(context: Context, last: bool, keep_ticks: bool, depth: usize) -> Self {
        Self { nodes: Vec::new(), openers: Vec::new(), open: false, context, last, keep_ticks, depth }
    }

    fn read(&mut self, chars: &[char]) {
        let mut at = 0;
        while let Some(&c) = chars.get(at) {
            if self.open && !self.last {
                // The reading will be thrown away: a stretch is read often, so it must be cheap.
                return;
            }
            let next = chars.get(at + 1).copied();
            at += match c {
                _ if self.context.math.is_some() => self.literal(c),
                '\\' => self.backslash(next),
                '`' => self.code(&chars[at..]),
                '[' => self.link(chars, at),
                '!' if next == Some('[') => {
                    let length = self.link(chars, at + 1);
                    if length > 1 {
                        length + 1
                    } else {
                        // Not a picture: the mark goes in front of the bracket that was just written.
                        self.nodes.pop();
                        self.text("![", Mark::default());
                        2
                    }
                }
                '!' => {
                    self.open |= next.is_none();
                    self.literal(c)
                }
                '*' | '_' | '~' => self.run(&chars[at..]),
                _ => self.literal(c),
            };
        }
        self.open |= self.openers.iter().any(|&at| matches!(&self.nodes[at], Node::Run(run) if run.left > 0));
        self.open &= !self.last;
    }

    fn literal(&mut self, c: char) -> usize {
        self.context.advance(c);
        match self.nodes.last_mut() {
            Some(Node::Text(text, mark)) if *mark == Mark::default() => text.push(c),
            _ => self.nodes.push(Node::Text(c.to_string(), Mark::default())),
        }
        1
    }

    fn text(&mut self, text: &str, mark: Mark) {
        if let Some(c) = text.chars().next_back() {
            self.context.before = c;
        }
        self.nodes.push(Node::Text(text.to_owned(), mark));
    }

    fn backslash(&mut self, next: Option<char>) -> usize {
        match next {
            // Only what markup needs: `\[`, `\(`, `\\`, `\{`, `\,` belong to LaTeX and to commands.
            Some(c) if "*_`~#|<>+-.".contains(c) && !self.context.literal_word => {
                self.text(&c.to_string(), Mark::default());
                2
            }
            None => {
                self.open = true;
                self.literal('\\')
            }
            Some(_) => self.literal('\\'),
        }
    }

    fn code(&mut self, chars: &[char]) -> usize {
        let ticks = run_length(chars);
        let mut at = ticks;
        while at < chars.len() {
            if chars[at] != '`' {
                at += 1;
                continue;
            }
            let closing = run_length(&chars[at..]);
            if closing != ticks {
                at += closing;
                continue;
            }
            // A run at the very end may still grow.
            self.open |= at + closing == chars.len();
            let mut inner: String = chars[ticks..at].iter().collect();
            if inner.starts_with(' ') && inner.ends_with(' ') && !inner.trim().is_empty() {
                inner = inner[1..inner.len() - 1].to_owned();
            }
            if self.keep_ticks {
                inner = chars[..at + closing].iter().collect();
            }
            self.text(&inner, Mark { code: true, ..Mark::default() });
            return at + closing;
        }
        self.open = true;
        self.text(&"`".repeat(ticks), Mark::default());
        ticks
    }

    /// Reads a link whose bracket is at `at`; returns the number of characters that it took, 1 if it isn't a link.
    fn link(&mut self, chars: &[char], at: usize) -> usize {
        match find_link(chars, at) {
            Link::Found { text_end, url, end } if self.depth < DEPTH_MAX => {
                let mut inner = Reader::new(self.context, true, self.keep_ticks, self.depth + 1);
                inner.read(&chars[at + 1..text_end]);
                let mut shown = String::new();
                let nodes = &mut self.nodes;
                inner.emit(&mut |c, mark| {
                    shown.push(c);
                    let mark = Mark { link: true, ..mark };
                    match nodes.last_mut() {
                        Some(Node::Text(text, before)) if *before == mark => text.push(c),
                        _ => nodes.push(Node::Text(c.to_string(), mark)),
                    }
                });
                let url_mark = Mark { url: true, ..Mark::default() };
                if shown.is_empty() {
                    self.text(&url, url_mark);
                } else if !url.is_empty() && shown != url && url.strip_prefix("mailto:") != Some(&shown) {
                    self.text(&format!(" ({url})"), url_mark);
                }
                self.context.before = ')';
                end - at
            }
            Link::Incomplete => {
                self.open = true;
                self.literal('[')
            }
            _ => self.literal('['),
        }
    }

    fn run(&mut self, chars: &[char]) -> usize {
        let mark = chars[0];
        let count = run_length(chars);
        let after = chars.get(count).copied();
        self.open |= after.is_none();
        let (before, after) = (self.context.before, after.unwrap_or('\n'));
        let open_left = !after.is_whitespace()
            && (!after.is_ascii_punctuation() || before.is_whitespace() || before.is_ascii_punctuation());
        let open_right = !before.is_whitespace()
            && (!before.is_ascii_punctuation() || after.is_whitespace() || after.is_ascii_punctuation());
        let inside_word = before.is_alphanumeric() && after.is_alphanumeric();
        let (mut can_open, can_close) = match mark {
            '_' => (
                open_left && (!open_right || before.is_ascii_punctuation()),
                open_right && (!open_left || after.is_ascii_punctuation()),
            ),
            '~' => (open_left && count == 2, open_right && count == 2),
            _ => (open_left && !(inside_word && count == 1), open_right),
        };
        can_open &= !self.context.literal_word && count <= 3;
        let mut run = Run {
            mark,
            left: count,
            can_open,
            can_close: can_close && count <= 3,
            opens: Vec::new(),
            closes: Vec::new(),
        };
        self.close(&mut run);
        self.context.before = mark;
        self.context.scheme = 0;
        if run.can_open && run.left > 0 && run.closes.is_empty() {
            self.openers.push(self.nodes.len());
        }
        self.nodes.push(Node::Run(run));
        count
    }

    fn close(&mut self, run: &mut Run) {
        while run.can_close && run.left > 0 {
            let nodes = &self.nodes;
            let fits =
                |&&at: &&usize| matches!(&nodes[at], Node::Run(opener) if opener.mark == run.mark && opener.left > 0);
            let Some(found) = self.openers.iter().rposition(|at| fits(&at)) else { return };
            let Node::Run(opener) = &mut self.nodes[self.openers[found]] else { return };
            let used = if opener.left >= 2 && run.left >= 2 { 2 } else { 1 };
            opener.left -= used;
            run.left -= used;
            let kind = if run.mark == '~' { 3 } else { used };
            opener.opens.push(kind);
            run.closes.push(kind);
            // Openers between the two can't match any more; the opener itself stays while it has marks left.
            let keep = if opener.left > 0 { found + 1 } else { found };
            self.openers.truncate(keep);
        }
    }

    fn emit(self, sink: &mut dyn FnMut(char, Mark)) {
        let mut depth = [0usize; 4];
        for node in self.nodes {
            let (text, own) = match node {
                Node::Text(text, mark) => (text, mark),
                Node::Run(run) => {
                    run.closes.iter().for_each(|&kind| depth[kind] = depth[kind].saturating_sub(1));
                    let literal = run.mark.to_string().repeat(run.left);
                    emit_text(&literal, Mark::default(), &depth, sink);
                    run.opens.iter().for_each(|&kind| depth[kind] += 1);
                    continue;
                }
            };
            emit_text(&text, own, &depth, sink);
        }
    }
}

fn emit_text(text: &str, own: Mark, depth: &[usize; 4], sink: &mut dyn FnMut(char, Mark)) {
    let mark = Mark {
        emphasis: own.emphasis || depth[1] > 0,
        strong: own.strong || depth[2] > 0,
        strike: own.strike || depth[3] > 0,
        ..own
    };
    text.chars().for_each(|c| sink(c, mark));
}

fn run_length(chars: &[char]) -> usize {
    chars.iter().take_while(|&&c| c == chars[0]).count()
}

enum Link {
    Found { text_end: usize, url: String, end: usize },
    Incomplete,
    None,
}

fn find_link(chars: &[char], at: usize) -> Link {
    let mut depth = 0usize;
    let mut text_end = at;
    loop {
        match chars.get(text_end) {
            None => return Link::Incomplete,
            Some('\\') => text_end += 1,
            Some('[') => depth += 1,
            Some(']') => depth -= 1,
            Some(_) => {}
        }
        if depth == 0 {
            break;
        }
        text_end += 1;
    }
    match chars.get(text_end + 1) {
        None => return Link::Incomplete,
        Some('(') => {}
        Some(_) => return Link::None,
    }
    let start = text_end + 2;
    let (mut end, mut depth, mut title) = (start, 1usize, None);
    while let Some(&c) = chars.get(end) {
        match c {
            '"' if title.is_some() && chars.get(end + 1) == Some(&')') => depth = 1,
            '"' if title.is_none() && end > start && chars[end - 1] == ' ' => title = Some(end),
            _ if title.is_some() && c != ')' => {}
            '(' => depth += 1,
            ')' if title.is_none() || chars[end - 1] == '"' => depth -= 1,
            ' ' if chars.get(end + 1).is_some_and(|&after| after != '"') => return Link::None,
            _ => {}
        }
        if depth == 0 {
            let url: String = chars[start..title.unwrap_or(end)].iter().collect();
            let url = url.trim();
            let url = url.strip_prefix('<').and_then(|url| url.strip_suffix('>')).unwrap_or(url).to_owned();
            return Link::Found { text_end, url, end: end + 1 };
        }
        end += 1;
    }
    Link::Incomplete
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str, keep_ticks: bool) -> String {
        let mut shown = String::new();
        let mut before = Mark::default();
        let tags = |mark: Mark| {
            [
                (mark.strong, 'B'),
                (mark.emphasis, 'I'),
                (mark.strike, 'S'),
                (mark.code, 'C'),
                (mark.link, 'L'),
                (mark.url, 'U'),
            ]
            .into_iter()
            .filter_map(|(on, tag)| on.then_some(tag))
            .collect::<String>()
        };
        let mut sink = |c: char, mark: Mark| {
            if mark != before {
                shown.push_str(&format!("{{{}}}", tags(mark)));
                before = mark;
            }
            shown.push(c);
        };
        let mut inline = Inline::new(keep_ticks);
        text.chars().for_each(|c| inline.push(c, &mut sink));
        inline.finish(&mut sink);
        shown
    }

    #[test]
    fn spans_are_what_a_reader_expects() {
        let table: &[(&str, &str)] = &[
            ("plain", "plain"),
            ("a **b c** d", "a {B}b c{} d"),
            ("*a* _b_ ~~c~~", "{I}a{} {I}b{} {S}c"),
            ("***both***", "{BI}both"),
            ("**a *b* c**", "{B}a {BI}b{B} c"),
            ("run `ls *.c` now", "run {C}ls *.c{} now"),
            ("``a ` b``", "{C}a ` b"),
            ("**`x`** y", "{BC}x{} y"),
            ("snake_case_name __init__", "snake_case_name {B}init"),
            ("2*3*4 and 2 * 3 * 4", "2*3*4 and 2 * 3 * 4"),
            ("rm *.txt and *.log", "rm *.txt and *.log"),
            ("an *open one", "an *open one"),
            ("an **open `one", "an **open `one"),
            ("\\*not\\* `a\\*`", "*not* {C}a\\*"),
            ("[text](http://x/y)", "{L}text{U} (http://x/y)"),
            ("[http://x](http://x) z", "{L}http://x{} z"),
            ("[a](<b c> \"t\")", "[a](<b c> \"t\")"),
            ("[a](b \"title\") c", "{L}a{U} (b){} c"),
            ("[**b**](u)", "{BL}b{U} (u)"),
            ("**[b](u)**", "{BL}b{BU} (u)"),
            ("![alt](p.png)!", "{L}alt{U} (p.png){}!"),
            ("[a] [b](", "[a] [b]("),
            ("x![y z", "x![y z"),
            ("wiki [W](http://w/A_(b)_c)", "wiki {L}W{U} (http://w/A_(b)_c)"),
            ("http://x/_foo_/*a* b", "http://x/_foo_/*a* b"),
            ("**http://x/y** z", "{B}http://x/y{} z"),
            ("$a*b*c$ and \\(x *y* z\\) *e*", "$a*b*c$ and \\(x *y* z\\) {I}e"),
            ("$$ a *b* $$ *e*", "$$ a *b* $$ {I}e"),
            ("\\frac{a}{b} C:\\x_y_", "\\frac{a}{b} C:\\x_y_"),
            ("**強調。**次", "{B}強調。{}次"),
            ("<b>html</b> a < b", "<b>html</b> a < b"),
            ("Hi! ok~ ~5", "Hi! ok~ ~5"),
            ("****", "****"),
        ];
        for (text, shown) in table {
            // A closing tag at the end isn't written: nothing follows.
            assert_eq!(&read(text, false), shown, "{text:?}");
        }
        assert_eq!(read("a `b` ``c ` d``", true), "a {C}`b`{} {C}``c ` d``");
    }

    #[test]
    fn text_outside_spans_is_not_held() {
        let mut inline = Inline::new(false);
        let mut shown = String::new();
        "a_b, **c** 5*6 ! [x] ".chars().for_each(|c| inline.push(c, &mut |c, _| shown.push(c)));
        assert_eq!(shown, "a_b, c 5*6 ! [x] ");
        let long = format!("*{}", "x".repeat(HELD_CHARS_MAX * 2));
        let mut shown = 0;
        long.chars().for_each(|c| inline.push(c, &mut |_, _| shown += 1));
        assert_eq!(shown, long.len(), "an open span doesn't hold the line for ever");
    }
}
