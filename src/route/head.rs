//! The word of a line that a shell would run, and its kind for the shell. It must not know the consequences.

use super::Context;
use super::line::{Line, Shape, Word};
use super::words::{self, command};
use crate::proto::NameKind;

/// The kind of the first word for the shell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// The line has no such word.
    Nothing,
    /// A program or a builtin.
    Command,
    /// An alias or a function.
    Own,
    /// A reserved word.
    Keyword,
    /// Begins with `./`, `/`, `~/`.
    Path,
    /// Contains a slash.
    PathLike,
    Expansion,
    /// A tool that is known but not installed here.
    Tool,
    /// `Git`: in small letters the word would resolve.
    Capitalised,
    /// A command with a typing error in it.
    Slip,
    /// One letter away from a command.
    Near,
    /// An English function word.
    Function,
    Plain,
    Name,
    Capital,
    Upper,
    Number,
    /// Ends with the punctuation of a sentence.
    Ended,
    /// Ends with a colon.
    Colon,
    Contraction,
    Foreign,
    Flag,
    File,
    Quoted,
    Operator,
    Other,
}

/// Kinds that share their thresholds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Group {
    /// Resolves, and its name is no English word.
    Command,
    /// Resolves, and a request may begin with its name.
    English,
    /// A path, an expansion, a reserved word.
    Syntax,
    /// A known tool or path that doesn't exist here, or a word after `sudo`.
    Tool,
    /// Not known at all.
    Unknown,
}

/// The word that would be run.
#[derive(Clone, Copy, Debug)]
pub(super) struct Head<'a> {
    /// Its position in the line's words; after the last word if there is none.
    pub index: usize,
    /// Its text, quotes and a backslash removed.
    pub name: &'a str,
    pub kind: Kind,
    pub group: Group,
    /// The traits of the command, bits of `words::command`.
    pub traits: u16,
    /// `X=1`, `sudo`, `(` or a redirection before it: one bit each.
    pub before: u8,
    /// The command without the typing error.
    pub meant: Option<&'a str>,
}

/// Bits of [`Head::before`].
pub(super) const ASSIGNED: u8 = 1;
pub(super) const WRAPPED: u8 = 2;
pub(super) const BRACKETED: u8 = 4;
pub(super) const REDIRECTED: u8 = 8;

impl Head<'_> {
    /// Returns whether the shell would find something to run.
    pub(super) fn resolves(&self) -> bool {
        matches!(self.group, Group::Command | Group::English | Group::Syntax)
    }
}

/// Finds the word that would be run: after assignments, an opening bracket, redirections, and `sudo` and the like.
pub(super) fn of<'a>(line: &Line<'a>, context: &Context<'_>) -> Head<'a> {
    let words = line.words();
    let (mut at, mut before) = (0, 0);
    while let Some(word) = words.get(at) {
        match word.shape {
            Shape::Assign => before |= ASSIGNED,
            Shape::Open => before |= BRACKETED,
            Shape::Redirect if words.len() > at + 2 => {
                before |= REDIRECTED;
                at += 1;
            }
            Shape::Newline | Shape::Comment => {}
            // `a=1; echo $a`
            Shape::Semicolon | Shape::AndOr if before & ASSIGNED != 0 => {}
            _ => break,
        }
        at += 1;
    }
    let mut head = single(words.get(at), at, before, context);
    if line.flag_first && at == 0 {
        head.kind = Kind::Flag;
        head.group = Group::Unknown;
    }
    // `sudo make`, `time cargo build`: the next word, if it is a command.
    for _ in 0..2 {
        if head.traits & command::RUNS == 0 || !head.resolves() {
            break;
        }
        let mut at = head.index + 1;
        while words.get(at).is_some_and(|word| matches!(word.shape, Shape::Open | Shape::Assign)) {
            at += 1;
        }
        let next = single(words.get(at), at, head.before | WRAPPED, context);
        let unknown = matches!(next.kind, Kind::Plain | Kind::Name | Kind::Near | Kind::Slip);
        if unknown && head.traits & command::ENGLISH == 0 {
            // `sudo mytool`: a program that doesn't exist for us may exist for root.
            let kind = if next.kind == Kind::Slip { Kind::Slip } else { Kind::Tool };
            head = Head { kind, group: Group::Tool, ..next };
        } else if next.resolves() || next.kind == Kind::Tool {
            head = next;
            continue;
        }
        break;
    }
    head
}

fn single<'a>(word: Option<&Word<'a>>, index: usize, before: u8, context: &Context<'_>) -> Head<'a> {
    let nothing = Head { index, name: "", kind: Kind::Nothing, group: Group::Unknown, traits: 0, before, meant: None };
    let Some(word) = word else { return nothing };
    let name = plain_name(word);
    let traits = words::command(name);
    let (kind, meant) = kind(word, name, traits, context);
    let group = match kind {
        Kind::Command | Kind::Own if traits & command::ENGLISH != 0 => Group::English,
        Kind::Command | Kind::Own => Group::Command,
        Kind::Path | Kind::Expansion | Kind::Keyword => Group::Syntax,
        Kind::Tool | Kind::PathLike => Group::Tool,
        _ => Group::Unknown,
    };
    Head { name, kind, group, traits, meant, ..nothing }
}

/// `\ls`, `"ls"`, `'ls'` are `ls` to the shell, except that aliases don't apply.
fn plain_name<'a>(word: &Word<'a>) -> &'a str {
    let name = word.text.strip_prefix('\\').unwrap_or(word.text);
    if word.bare.len() + 2 == word.text.len() && word.text.starts_with(['"', '\'']) { word.bare } else { name }
}

/// The reserved words of a shell, whatever the list of names contains.
const KEYWORDS: [&str; 19] = [
    "!", "[[", "]]", "case", "coproc", "do", "done", "elif", "else", "esac", "fi", "for", "function", "if", "select",
    "then", "until", "while", "{",
];

fn kind<'a>(word: &Word<'a>, name: &'a str, traits: u16, context: &Context<'_>) -> (Kind, Option<&'a str>) {
    if word.shape.is_operator() {
        return (Kind::Operator, None);
    }
    if KEYWORDS.binary_search(&name).is_ok() {
        return (Kind::Keyword, None);
    }
    match context.names.kind(name) {
        Some(NameKind::Alias | NameKind::Function) => return (Kind::Own, None),
        // A shell lists `in` among its reserved words, but no command begins with it.
        Some(_) if name != "in" => return (Kind::Command, None),
        _ => {}
    }
    if name.contains('\\') && context.names.kind(&super::lex::unquoted(word.text)).is_some() {
        return (Kind::Command, None);
    }
    if word.end == b':' || name.ends_with(':') {
        return (Kind::Colon, None);
    }
    if matches!(word.shape, Shape::Expansion) {
        return (Kind::Expansion, None);
    }
    let explicit = ["./", "../", "/", "~/"].iter().any(|start| name.starts_with(start));
    if explicit && word.end != b',' || matches!(name, "~" | "." | ".." | "...") {
        return (Kind::Path, None);
    }
    if word.shape == Shape::Path {
        let known = name.ends_with('/') || name.starts_with('.') || (context.is_path)(name);
        return match () {
            () if known => (Kind::Path, None),
            () if name.is_ascii() => (Kind::PathLike, None),
            () => (Kind::Foreign, None),
        };
    }
    if traits & command::TOOL != 0 {
        return (Kind::Tool, None);
    }
    if let Some(meant) = name.strip_suffix("..").filter(|meant| context.names.kind(meant).is_some()) {
        return (Kind::Slip, Some(meant));
    }
    if word.end != 0 {
        return (Kind::Ended, None);
    }
    of_shape(word, name, context)
}

fn of_shape<'a>(word: &Word<'a>, name: &'a str, context: &Context<'_>) -> (Kind, Option<&'a str>) {
    match word.shape {
        Shape::Contraction => (Kind::Contraction, None),
        Shape::Foreign => (Kind::Foreign, None),
        Shape::Number => (Kind::Number, None),
        Shape::File => (Kind::File, None),
        Shape::Quoted if name.starts_with("\"$") => (Kind::Expansion, None),
        Shape::Quoted => (Kind::Quoted, None),
        Shape::Capital | Shape::Upper => {
            let mut buffer = [0_u8; 24];
            let resolves = buffer.get_mut(..name.len()).is_some_and(|lower| {
                lower.copy_from_slice(name.as_bytes());
                lower.make_ascii_lowercase();
                std::str::from_utf8(lower).is_ok_and(|lower| {
                    context.names.kind(lower).is_some() || words::command(lower) & command::TOOL != 0
                })
            });
            match word.shape {
                _ if resolves => (Kind::Capitalised, None),
                Shape::Capital => (Kind::Capital, None),
                _ => (Kind::Upper, None),
            }
        }
        Shape::Plain if word.class != 0 => (Kind::Function, None),
        Shape::Plain | Shape::Hyphen | Shape::Ident => {
            let unknown = if word.shape == Shape::Plain { Kind::Plain } else { Kind::Name };
            // `cal`, if it isn't installed, is not a typing error for `cat`.
            if words::command(name) != 0 {
                return (unknown, None);
            }
            if let Some(meant) = words::slip_of_command(name, false) {
                return (Kind::Slip, Some(meant));
            }
            // `cat-n`, `ls-la`: the space before an option was left out.
            if let Some((meant, _)) = name.split_once('-').filter(|(meant, _)| context.names.kind(meant).is_some())
                && word.shape == Shape::Hyphen
                && name.len() <= meant.len() + 3
            {
                return (Kind::Slip, Some(meant));
            }
            match words::slip_of_command(name, true) {
                Some(meant) => (Kind::Near, Some(meant)),
                None => (unknown, None),
            }
        }
        _ => (Kind::Other, None),
    }
}
