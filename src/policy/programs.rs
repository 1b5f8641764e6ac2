//! The effects of programs, as data of `config/policy/programs.tsv`. Must not know the consequences of a risk.

use std::collections::HashMap;
use std::sync::OnceLock;

use super::piece::Text;
use crate::proto::action::Risk;

const WORDS: &str = include_str!("../../config/policy/words.tsv");
const TABLE: &str = include_str!("../../config/policy/programs.tsv");

/// The need of a program beyond a private copy of the workspace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RowNeed {
    Nothing,
    Network,
    Host,
}

#[derive(Debug)]
pub(super) struct Row {
    names: Vec<&'static str>,
    /// The subcommands, each as its words; none in the row for all others.
    subs: Vec<Vec<&'static str>>,
    options: Vec<Opt>,
    /// The roles of the operands; the last role holds for all that follow.
    pub(super) roles: Vec<&'static str>,
    /// The risk and its rule; `None` for a program that only runs others.
    pub(super) risk: Option<(Risk, &'static str)>,
    pub(super) need: RowNeed,
    /// `true` if the words after the first operand are another command's.
    stops_at_operand: bool,
}

#[derive(Debug)]
pub(super) struct Opt {
    pub(super) name: &'static str,
    takes_value: bool,
    /// The role of the value; empty if it doesn't count.
    pub(super) role: &'static str,
    /// The risk of the option, and whether it lowers that of the row.
    pub(super) risk: Option<(Risk, &'static str, bool)>,
    /// A mark for the function that reads the words.
    mark: &'static str,
}

/// A command's words, read by a row.
pub(super) struct Parsed<'a> {
    pub(super) row: &'static Row,
    /// The words after the subcommand.
    pub(super) words: &'a [Text],
    /// The subcommand's words, joined; empty without one.
    pub(super) sub: String,
    /// The options that the table knows, with their values.
    pub(super) options: Vec<(&'static Opt, Option<Text>)>,
    pub(super) operands: Vec<Text>,
    /// The words from the first operand on, options among them.
    pub(super) rest: &'a [Text],
}

impl<'a> Parsed<'a> {
    fn new(row: &'static Row, words: &'a [Text], sub: &[&str]) -> Self {
        Self { row, words, sub: sub.join(" "), options: Vec::new(), operands: Vec::new(), rest: &[] }
    }

    pub(super) fn named<'g>(&'g self, names: &'g [&str]) -> impl Iterator<Item = &'g Text> {
        self.options.iter().filter(|(option, _)| names.contains(&option.name)).filter_map(|(_, value)| value.as_ref())
    }

    /// Returns whether an option of one dash has this letter.
    pub(super) fn has_letter(&self, letter: char) -> bool {
        self.words.iter().any(|word| word.has_letter(letter))
    }

    pub(super) fn has(&self, mark: &str) -> bool {
        self.options.iter().any(|(option, _)| option.mark == mark)
    }

    /// Returns whether this option is present, in the spelling of the table.
    pub(super) fn has_option(&self, name: &str) -> bool {
        self.options.iter().any(|(option, _)| option.name == name)
    }

    pub(super) fn values<'g>(&'g self, role: &'g str) -> impl Iterator<Item = &'g Text> {
        self.options.iter().filter(move |(option, _)| option.role == role).filter_map(|(_, value)| value.as_ref())
    }

    pub(super) fn has_word(&self, wanted: &[&str]) -> bool {
        self.words.iter().any(|word| word.as_str().is_some_and(|word| wanted.contains(&word)))
    }
}

fn risk_of(word: &'static str) -> Option<(Risk, &'static str)> {
    let (risk, rule) = word.split_once(':').unwrap_or((word, "unknown-option"));
    let risk = match risk {
        "low" => Risk::Low,
        "med" => Risk::Medium,
        "high" => Risk::High,
        "block" => Risk::Blocked,
        _ => return None,
    };
    Some((risk, rule))
}

impl Opt {
    fn of(text: &'static str) -> Self {
        let end = text.find(['=', '!', '<']).unwrap_or(text.len());
        let (name, mut rest) = text.split_at(end);
        let mut option = Self { name, takes_value: false, role: "", risk: None, mark: "" };
        if let Some(value) = rest.strip_prefix('=') {
            option.takes_value = true;
            let end = value.find(['!', '<']).unwrap_or(value.len());
            (option.role, rest) = value.split_at(end);
        }
        if let Some(risk) = rest.strip_prefix('<') {
            option.risk = risk_of(risk).map(|(risk, rule)| (risk, rule, true));
        } else if let Some(word) = rest.strip_prefix('!') {
            match risk_of(word) {
                Some((risk, rule)) => option.risk = Some((risk, rule, false)),
                None => option.mark = word,
            }
        }
        option
    }
}

impl Row {
    fn of(line: &'static str) -> Option<Self> {
        let columns: Vec<&'static str> = line.split('\t').collect();
        let [names, subs, options, roles, risk, need] = columns.as_slice() else { return None };
        let subs = subs.split(',').filter(|sub| *sub != "-").map(|sub| sub.split(' ').collect()).collect();
        let roles: Vec<&'static str> = roles.split(',').filter(|role| !role.is_empty()).collect();
        Some(Self {
            names: names.split(',').collect(),
            subs,
            options: options.split(' ').filter(|option| !option.is_empty()).map(Opt::of).collect(),
            stops_at_operand: roles.iter().any(|role| listed("takes-rest").contains(role)),
            roles,
            risk: risk_of(risk),
            need: match *need {
                "net" => RowNeed::Network,
                "host" => RowNeed::Host,
                _ => RowNeed::Nothing,
            },
        })
    }

    /// The option of this name: exact, or a long one of which it is the beginning.
    fn option(&self, name: &str) -> Option<&Opt> {
        let exact = self.options.iter().rfind(|option| option.name == name);
        exact.or_else(|| {
            let is_short = name.len() < 5 || !name.starts_with("--");
            if is_short { None } else { self.options.iter().find(|option| option.name.starts_with(name)) }
        })
    }

    fn read<'a>(&'static self, words: &'a [Text], sub: &[&str]) -> Parsed<'a> {
        let mut parsed = Parsed::new(self, words, sub);
        let mut at = 0;
        while let Some(word) = words.get(at) {
            at += 1;
            let head = word.head();
            if word.as_str() == Some("--") {
                if parsed.operands.is_empty() {
                    parsed.rest = &words[at..];
                }
                parsed.operands.extend(words[at..].iter().cloned());
                break;
            }
            if head.len() < 2 || !head.starts_with('-') {
                if parsed.operands.is_empty() {
                    parsed.rest = &words[at - 1..];
                }
                parsed.operands.push(word.clone());
                if self.stops_at_operand {
                    parsed.operands.extend(words[at..].iter().cloned());
                    break;
                }
                continue;
            }
            at += self.read_option(word, words.get(at), &mut parsed);
        }
        parsed
    }

    /// Reads a word that is an option; returns how many more words belong to it.
    fn read_option(&'static self, word: &Text, next: Option<&Text>, parsed: &mut Parsed<'_>) -> usize {
        let head = word.head();
        let name = head.split('=').next().unwrap_or_default();
        let value = word.split_once('=').map(|(_, value)| value);
        if let Some(option) = self
            .option(name)
            .filter(|option| name.starts_with("--") || name.len() == 2 && value.is_none() || option.name.len() > 2)
        {
            let takes_next = option.takes_value && value.is_none() && option.role != "attached";
            let value = if takes_next { next.cloned() } else { value };
            parsed.options.push((option, value));
            return usize::from(takes_next);
        }
        if head.starts_with("--") {
            return 0;
        }
        // Letters, of which one may take the rest as its value.
        for (at, letter) in name.char_indices().skip(1) {
            let end = at + letter.len_utf8();
            let is_letter = |option: &&Opt| option.name.strip_prefix('-') == Some(&head[at..end]);
            let Some(option) = self.options.iter().rfind(is_letter) else { continue };
            if option.takes_value {
                let rest = word.strip_prefix(&head[..end]).unwrap_or_default();
                let takes_next = rest.is_empty() && option.role != "attached";
                parsed.options.push((option, if takes_next { next.cloned() } else { Some(rest) }));
                return usize::from(takes_next);
            }
            parsed.options.push((option, None));
        }
        0
    }
}

struct Table {
    rows: Vec<Row>,
    by_name: HashMap<&'static str, Vec<usize>>,
}

fn table() -> &'static Table {
    static READ: OnceLock<Table> = OnceLock::new();
    READ.get_or_init(|| {
        let rows: Vec<Row> = TABLE.lines().filter(|line| !line.starts_with('#')).filter_map(Row::of).collect();
        let mut by_name: HashMap<&'static str, Vec<usize>> = HashMap::new();
        for (at, row) in rows.iter().enumerate() {
            row.names.iter().for_each(|name| by_name.entry(name).or_default().push(at));
        }
        Table { rows, by_name }
    })
}

/// A list of words of `config/policy/words.tsv`; empty if there is none of this name.
pub(super) fn listed(name: &str) -> &'static [&'static str] {
    static READ: OnceLock<HashMap<&'static str, Vec<&'static str>>> = OnceLock::new();
    let lists = READ.get_or_init(|| {
        let lines = WORDS.lines().filter(|line| !line.starts_with('#'));
        lines
            .filter_map(|line| line.split_once('\t'))
            .map(|(name, words)| (name, words.split('\t').collect()))
            .collect()
    });
    lists.get(name).map_or(&[], Vec::as_slice)
}

pub(super) fn is_known(name: &str) -> bool {
    table().by_name.contains_key(name)
}

/// The name of the function that reads a program's words, without its `@`; empty if there is none.
pub(super) fn handler_of(name: &str) -> &'static str {
    let rows = table().by_name.get(name);
    let row = rows.and_then(|rows| rows.last()).map(|at| &table().rows[*at]);
    row.and_then(|row| row.roles.iter().find_map(|role| role.strip_prefix('@'))).unwrap_or_default()
}

/// Reads a command by the row that fits it best: the one with the longest subcommand.
pub(super) fn read<'a>(name: &str, words: &'a [Text]) -> Option<Parsed<'a>> {
    let table = table();
    let rows = table.by_name.get(name)?.iter().map(|at| &table.rows[*at]);
    let base = rows.clone().rfind(|row| row.subs.is_empty());
    if rows.clone().all(|row| row.subs.is_empty()) {
        return base.map(|base| base.read(words, &[]));
    }
    // Options in front of the subcommand are the program's own.
    let mut at = 0;
    let mut front = base.map(|base| Parsed::new(base, words, &[]));
    let matching = |at: usize| {
        let fits = |sub: &&Vec<&'static str>| {
            if *sub == &["."] {
                return words.is_empty();
            }
            // Among other words it asks for more than the version.
            let is_alone = !matches!(sub.as_slice(), ["-v" | "-V" | "-version" | "--version" | "version"])
                || words.len() == at + 1;
            is_alone
                && words.len() >= at + sub.len()
                && sub.iter().zip(&words[at..]).all(|(sub, word)| word.as_str() == Some(sub))
        };
        let subs = rows.clone().flat_map(|row| row.subs.iter().filter(fits).map(move |sub| (row, sub)));
        subs.max_by_key(|(_, sub)| sub.len())
    };
    loop {
        if let Some((row, sub)) = matching(at) {
            let sub_words = if sub.as_slice() == ["."] { 0 } else { sub.len() };
            let mut parsed = row.read(&words[at + sub_words..], sub);
            if let Some(front) = front {
                parsed.options.splice(0..0, front.options);
            }
            return Some(parsed);
        }
        let (Some(word), Some(front)) = (words.get(at), front.as_mut()) else { break };
        if word.head().len() < 2 || !word.head().starts_with('-') || word.as_str() == Some("--") {
            break;
        }
        at += 1 + front.row.read_option(word, words.get(at + 1), front);
    }
    base.map(|base| base.read(words, &[]))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(line: &str) -> Vec<Text> {
        line.split(' ').filter(|word| !word.is_empty()).map(Text::from).collect()
    }

    #[test]
    fn every_row_is_read_and_used() {
        let lines: Vec<&str> = TABLE.lines().filter(|line| !line.starts_with('#') && !line.is_empty()).collect();
        assert_eq!(lines.len(), table().rows.len());
        for line in lines {
            let row = Row::of(line).expect("six columns");
            let is_used = row.names.iter().any(|name| match row.subs.first() {
                None => read(name, &texts("zz"))
                    .is_some_and(|parsed| parsed.row.roles == row.roles && parsed.row.risk == row.risk),
                Some(_) => row.subs.iter().any(|sub| {
                    read(name, &texts(&sub.join(" ")))
                        .is_some_and(|parsed| parsed.sub == sub.join(" ") && parsed.row.risk == row.risk)
                }),
            });
            assert!(is_used, "{line}");
            let column = line.split('\t').nth(4).unwrap_or_default();
            assert!(column == "-" || row.risk.is_some(), "{line}");
        }
    }

    #[test]
    fn words_are_read_by_the_row_with_the_longest_subcommand() {
        let words = texts("-C sub stash list -p");
        let parsed = read("git", &words).expect("a row");
        assert!(parsed.values("dir").any(|dir| dir.as_str() == Some("sub")));
        assert_eq!(parsed.sub, "stash list");
        let words = texts("-rf --recurs x -- -y");
        let parsed = read("rm", &words).expect("a row");
        assert!(parsed.has("tree"));
        assert_eq!(parsed.operands, texts("x -y"));
        let words = texts("-n 5 nice x");
        assert_eq!(read("nice", &words).expect("a row").rest.len(), 2);
        assert!(read("no-such-program", &[]).is_none());
    }
}
