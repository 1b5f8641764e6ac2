//! The source of a manual page → its name, its purpose, and its options. It reads the output of man(7), mdoc(7),
//! pod2man and DocBook, and nothing of roff as a language: no registers, conditions or includes. Pure.

/// Limit on the options of one page that are read: the longest pages of compilers have thousands, for which a search is
/// of no use.
const OPTIONS_MAX: usize = 300;
/// Limit on the characters of an option's or a page's description.
const ABOUT_CHARS_MAX: usize = 160;

/// The parts of a page that are used.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Page {
    /// The words to type: `git commit` for the page `git-commit`.
    pub command: String,
    /// Its purpose, in one line.
    pub summary: String,
    /// Options, as they are typed, each with its description.
    pub options: Vec<(String, String)>,
}

/// Reads a page; `None` for one that only names another, or is empty.
pub(super) fn read(name: &str, source: &str) -> Option<Page> {
    if source.starts_with(".so ") {
        return None;
    }
    let mut reader = Reader::default();
    for line in source.lines() {
        reader.line(line);
    }
    reader.end_option();
    let summary = reader.name.split_once(" - ").map_or(reader.name.as_str(), |it| it.1).trim().to_owned();
    let spoken = name.replace(['-', '_'], " ");
    let is_spoken = spoken != name && reader.synopsis.trim_start().starts_with(&spoken);
    let command = if is_spoken || name.contains('_') { spoken } else { name.to_owned() };
    (!summary.is_empty()).then(|| Page { command, summary: cut(&summary), options: reader.options })
}

/// The meaning of the next lines.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Part {
    #[default]
    Other,
    Name,
    Synopsis,
}

#[derive(Default)]
struct Reader {
    part: Part,
    name: String,
    synopsis: String,
    /// The next line is the tag of a paragraph.
    awaits_tag: bool,
    /// The current option, with its description so far.
    option: Option<(String, String)>,
    options: Vec<(String, String)>,
}

impl Reader {
    fn line(&mut self, line: &str) {
        let Some(request) = line.strip_prefix(['.', '\'']) else { return self.text(&plain(line)) };
        let (macro_name, rest) = request.trim_start().split_once(char::is_whitespace).unwrap_or((request.trim(), ""));
        match macro_name {
            "SH" | "Sh" => self.section(&plain(rest).replace('"', "")),
            "SS" | "Ss" => self.end_option(),
            "TP" => {
                self.end_option();
                self.awaits_tag = true;
            }
            "IP" => {
                self.end_option();
                self.tag(&arguments(rest).into_iter().next().unwrap_or_default());
            }
            "It" => {
                self.end_option();
                self.tag(&mdoc(rest));
            }
            // DocBook writes an option as a paragraph of its own.
            "PP" | "P" | "LP" | "sp" | "HP" => {
                self.end_option();
                self.awaits_tag = self.part == Part::Other && macro_name != "sp";
            }
            "Nd" => self.text(&format!(" - {}", mdoc(rest))),
            "Nm" if self.part != Part::Name => {}
            "Fl" | "Ar" | "Nm" | "Pa" | "Cm" | "Xr" | "Ev" | "Dq" | "Sq" | "Em" | "Sy" | "Li" => {
                let text = if macro_name == "Fl" { format!("-{}", mdoc(rest)) } else { mdoc(rest) };
                self.text(&text);
            }
            "B" | "I" | "SM" | "R" => self.text(&arguments(rest).join(" ")),
            "BR" | "RB" | "BI" | "IB" | "RI" | "IR" | "SB" => self.text(&arguments(rest).concat()),
            _ => {}
        }
    }

    fn section(&mut self, title: &str) {
        self.end_option();
        self.awaits_tag = false;
        self.part = match title.trim().to_ascii_uppercase().as_str() {
            "NAME" => Part::Name,
            "SYNOPSIS" => Part::Synopsis,
            _ => Part::Other,
        };
    }

    fn text(&mut self, text: &str) {
        let text = text.trim();
        if text.is_empty() {
            return;
        }
        if std::mem::take(&mut self.awaits_tag) {
            return self.tag(text);
        }
        let (into, most) = match (self.part, &mut self.option) {
            (Part::Name, _) => (&mut self.name, 4 * ABOUT_CHARS_MAX),
            (Part::Synopsis, _) => (&mut self.synopsis, ABOUT_CHARS_MAX),
            (Part::Other, Some((_, about))) => (about, 4 * ABOUT_CHARS_MAX),
            (Part::Other, None) => return,
        };
        if into.len() < most {
            into.push_str(if into.is_empty() { "" } else { " " });
            into.push_str(text);
        }
    }

    fn tag(&mut self, tag: &str) {
        if self.part == Part::Other && tag.starts_with('-') && self.options.len() < OPTIONS_MAX {
            self.option = typed(tag).map(|option| (option, String::new()));
        }
    }

    fn end_option(&mut self) {
        if let Some((option, about)) = self.option.take().filter(|(_, about)| !about.is_empty()) {
            self.options.push((option, cut(&about)));
        }
    }
}

/// The most telling way to type an option: its long name, else the first one.
pub(super) fn typed(tag: &str) -> Option<String> {
    let forms = || tag.split([',', '|']).map(str::trim).filter(|form| form.starts_with('-'));
    let form = forms().find(|form| form.starts_with("--")).or_else(|| forms().next())?;
    let end = form.find(['[', '(', ';', ':']).unwrap_or(form.len());
    let form: Vec<&str> = form[..end].split_whitespace().take(2).collect();
    let form = form.join(" ");
    let is_option = form.trim_start_matches('-').starts_with(|c: char| c.is_ascii_alphanumeric() || c == '?');
    (is_option && form.len() <= 60).then_some(form)
}

/// The first sentence, up to the limit on a description.
pub(super) fn cut(text: &str) -> String {
    let end = text.find(". ").map_or(text.len(), |at| at + 1);
    let sentence = text[..end].trim().trim_end_matches('.');
    sentence.chars().take(ABOUT_CHARS_MAX).collect()
}

/// The arguments of a macro: words, or texts in quotes.
fn arguments(rest: &str) -> Vec<String> {
    let mut arguments = Vec::new();
    let mut rest = rest.trim();
    while !rest.is_empty() {
        let (argument, after) = match rest.strip_prefix('"') {
            Some(quoted) => quoted.split_once('"').unwrap_or((quoted, "")),
            None => {
                // An escaped blank doesn't end a word.
                let bytes = rest.as_bytes();
                let end = (0..bytes.len()).find(|at| bytes[*at] == b' ' && (*at == 0 || bytes[at - 1] != b'\\'));
                rest.split_at(end.unwrap_or(rest.len()))
            }
        };
        arguments.push(plain(argument));
        rest = after.trim_start();
    }
    arguments
}

/// The words of a line of mdoc, with a dash before the names of `Fl`.
fn mdoc(rest: &str) -> String {
    const MACROS: [&str; 16] =
        ["Ar", "Cm", "Ns", "Op", "Oo", "Oc", "Nm", "Pa", "Sy", "Em", "Li", "Ic", "Xo", "Xc", "Dq", "Sq"];
    let mut text = String::new();
    let mut is_flag = false;
    for word in arguments(rest) {
        if word == "Fl" {
            is_flag = true;
        } else if !MACROS.contains(&word.as_str()) {
            let glued = matches!(word.as_str(), "," | "." | ";" | ":" | ")");
            text.push_str(if text.is_empty() || glued { "" } else { " " });
            text.push_str(if std::mem::take(&mut is_flag) { "-" } else { "" });
            text.push_str(&word);
        }
    }
    text
}

/// A text without roff's escapes.
fn plain(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('\\') {
        out.push_str(&rest[..at]);
        rest = &rest[at + 1..];
        let Some(c) = rest.chars().next() else { break };
        rest = &rest[c.len_utf8()..];
        match c {
            '-' => out.push('-'),
            'e' => out.push('\\'),
            ' ' | '~' | '0' => out.push(' '),
            '"' => return out,
            'f' | '*' | 'F' | 'm' => rest = after_name(rest),
            '(' => {
                let name: String = rest.chars().take(2).collect();
                rest = rest.get(name.len()..).unwrap_or_default();
                out.push_str(character(&name));
            }
            '[' => {
                let (name, after) = rest.split_once(']').unwrap_or((rest, ""));
                rest = after;
                out.push_str(character(name));
            }
            's' => rest = rest.trim_start_matches(['+', '-']).trim_start_matches(|c: char| c.is_ascii_digit()),
            '&' | '|' | '^' | '/' | ',' | '%' | ':' | 'c' | 'p' | 'd' | 'u' => {}
            c => out.push(c),
        }
    }
    out.push_str(rest);
    out
}

/// The rest after the name of a font or string: one character, `(` and two, or brackets.
fn after_name(rest: &str) -> &str {
    let length = match rest.chars().next() {
        Some('(') => 3,
        Some('[') => rest.find(']').map_or(rest.len(), |at| at + 1),
        Some(c) => c.len_utf8(),
        None => 0,
    };
    rest.get(length..).unwrap_or_default()
}

fn character(name: &str) -> &'static str {
    match name {
        "aq" | "cq" | "oq" => "'",
        "dq" | "lq" | "rq" => "\"",
        "en" | "em" | "hy" | "mi" => "-",
        "ha" => "^",
        "ti" => "~",
        "rs" => "\\",
        "ga" => "`",
        "bu" => "*",
        _ => "",
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn options(page: &Page) -> Vec<(&str, &str)> {
        page.options.iter().map(|(option, about)| (option.as_str(), about.as_str())).collect()
    }

    #[test]
    fn all_four_kinds_of_source_give_name_summary_and_options() {
        let man = ".TH X 1\n.SH NAME\nxcopy \\- copy things\n.SH OPTIONS\n.TP\n\\fB\\-a\\fR, \\fB\\-\\-all\\fR\nTake all of \
            them. And more.\n.TP\n.BI \\-n \" number\"\nHow many\n.SH FILES\n.TP\n/etc/x\nIt.\n";
        let page = read("xcopy", man).expect("a page");
        assert_eq!((page.command.as_str(), page.summary.as_str()), ("xcopy", "copy things"));
        assert_eq!(options(&page), [("--all", "Take all of them"), ("-n number", "How many")]);

        let mdoc = ".Dd today\n.Sh NAME\n.Nm nc\n.Nd arbitrary connections\n.Sh DESCRIPTION\n.Bl -tag\n.It Fl w Ar timeout\n\
            Connections time out.\n.It Fl z\nOnly scan.\n.El\n";
        let page = read("nc", mdoc).expect("a page");
        assert_eq!(page.summary, "arbitrary connections");
        assert_eq!(options(&page), [("-w timeout", "Connections time out"), ("-z", "Only scan")]);

        let docbook = ".SH \"NAME\"\ngit-commit \\- Record changes\n.SH \"SYNOPSIS\"\n.sp\n.nf\n\\fIgit commit\\fR [\\-a]\n.fi\n\
            .SH \"OPTIONS\"\n.PP\n\\-a, \\-\\-all\n.RS 4\nStage files first\\&.\n.RE\n";
        let page = read("git-commit", docbook).expect("a page");
        assert_eq!(page.command, "git commit");
        assert_eq!(options(&page), [("--all", "Stage files first")]);

        let pod = ".SH \"NAME\"\nopenssl \\- tool\n.SH \"OPTIONS\"\n.IP \"\\fB\\-in\\fR \\fIfile\\fR\" 4\n.IX Item \"x\"\nInput \
            file.\n";
        assert_eq!(options(&read("openssl", pod).expect("a page")), [("-in file", "Input file")]);
    }

    #[test]
    fn a_page_that_only_refers_to_another_is_skipped() {
        assert_eq!(read("x", ".so man1/y.1\n"), None);
        assert_eq!(read("x", "no page at all"), None);
    }

    proptest! {
        #[test]
        fn any_text_can_be_read(text in "(\\.(SH|TP|IP|It|BR|Fl) )?[ -~\né\\\\\"]{0,120}") {
            let _ = read("x", &format!(".SH NAME\nx \\- y\n.SH OPTIONS\n{text}"));
        }
    }
}
