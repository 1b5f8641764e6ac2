//! Whether the words after a command's name read as English rather than as arguments: a few exact rules over counts.
//! It must not know what resolves; the caller says so.

use super::lex::{Token, TokenKind};
use super::words;

/// What was counted in a line after its first word.
#[derive(Debug, Default)]
pub(super) struct Marks {
    /// Words after the first, flags and files included.
    words: usize,
    /// Words of letters only, punctuation at their end apart.
    plain: usize,
    /// English function words among them.
    function: usize,
    /// Flags, files, quotes, expansions: what sentences seldom hold.
    hard: usize,
    flags: usize,
    operators: usize,
    /// `the file`, `all images`: a determiner and a plain word after it.
    noun_phrase: bool,
    article_phrase: bool,
    strong: bool,
    pronoun_or_question: bool,
    conjunction: bool,
    report: bool,
    contraction: bool,
    /// `word, word`.
    comma: bool,
    /// The last word ends with a question mark and is otherwise letters.
    question_mark: bool,
    politeness_last: bool,
    /// `does not`, `do I`, `tell me`: never arguments, even beside flags.
    idiom: bool,
    first: u8,
    first_plain: bool,
    foreign: bool,
}

const IDIOMS: [(&str, &str); 25] = [
    ("do", "i"),
    ("did", "i"),
    ("should", "i"),
    ("can", "i"),
    ("could", "you"),
    ("can", "you"),
    ("does", "not"),
    ("does", "this"),
    ("does", "it"),
    ("does", "that"),
    ("is", "not"),
    ("is", "the"),
    ("what", "is"),
    ("what", "does"),
    ("what", "now"),
    ("tell", "me"),
    ("show", "me"),
    ("what", "did"),
    ("how", "to"),
    ("how", "do"),
    ("does", "nothing"),
    ("vs", ""),
    ("explain", "what"),
    ("explain", "the"),
    ("and", "explain"),
];

impl Marks {
    /// Counts over the tokens after the first word.
    pub(super) fn of(tokens: &[Token<'_>]) -> Self {
        let mut marks = Self::default();
        let mut previous = ("", 0_u8);
        for (index, token) in tokens.iter().enumerate() {
            let TokenKind::Word(traits) = token.kind else {
                marks.operators += usize::from(token.kind != TokenKind::Comment && !is_aside(tokens, index));
                previous = ("", 0);
                continue;
            };
            marks.words += 1;
            let word = token.text.trim_matches(|c: char| matches!(c, ',' | '.' | '?' | '!' | ':' | ';'));
            let class = words::classes(word);
            if marks.words == 1 {
                marks.first = class;
                marks.first_plain = is_plain(word);
            }
            marks.foreign |=
                !token.text.is_ascii() && words::FOREIGN_QUESTIONS.iter().any(|ask| token.text.contains(ask));
            marks.contraction |= traits.contraction;
            let plain = is_plain(word) || traits.contraction;
            if !plain {
                let number = !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_alphanumeric());
                marks.hard += usize::from(!number && word.is_ascii());
                marks.flags += usize::from(is_flag(token.text));
                previous = ("", 0);
                continue;
            }
            marks.count_plain(word, class, previous);
            let last = tokens.get(index + 1).is_none();
            marks.comma |= token.text.ends_with(',') && !last;
            marks.question_mark |= last && token.text.ends_with('?');
            marks.politeness_last = last && matches!(class_text(word), Politeness::Yes);
            previous = (word, class);
        }
        marks
    }

    /// Arguments that the command could not take: `kill the`, `sleep well`, `find big files`.
    fn misfit(&self, head: &str) -> Option<&'static str> {
        if self.flags > 0 || self.operators > 0 || !self.first_plain {
            return None;
        }
        let all_plain = self.plain == self.words && self.words >= 2;
        let misfit = match head {
            "kill" | "sleep" | "exit" | "bind" | "wait" => true,
            "find" => all_plain || self.words >= 3,
            _ => all_plain && words::takes_no_plain(head),
        };
        misfit.then_some("it could not take such arguments")
    }

    fn count_plain(&mut self, word: &str, class: u8, (before, class_before): (&str, u8)) {
        self.plain += 1;
        self.function += usize::from(class & !words::REPORT != 0);
        self.strong |= class & words::STRONG != 0;
        self.report |= class & words::REPORT != 0;
        self.conjunction |= class & words::CONJUNCTION != 0;
        self.pronoun_or_question |= class & (words::PRONOUN | words::QUESTION) != 0;
        if class_before & words::DETERMINER != 0 && class & (words::DETERMINER | words::PREPOSITION) == 0 {
            if before.len() <= 2 {
                self.article_phrase |= word.len() >= 3;
            } else {
                self.noun_phrase |= word.len() >= 2;
            }
        }
        let pair = |(one, two): &(&str, &str)| {
            (before.eq_ignore_ascii_case(one) && word.eq_ignore_ascii_case(two))
                || (two.is_empty() && word.eq_ignore_ascii_case(one))
        };
        self.idiom |= self.function > 0 && IDIOMS.iter().any(pair);
    }

    /// Why a line whose first word resolves is a sentence all the same; none where it is a command.
    pub(super) fn sentence(&self, head: &str) -> Option<&'static str> {
        if self.words == 0 {
            return None;
        }
        let subject =
            self.first & (words::AUXILIARY | words::REPORT) != 0 || (self.first & words::STRONG != 0 && self.words > 2);
        if words::takes_text(head) {
            let about_it = (subject || self.first & words::CONJUNCTION != 0) && self.comma && self.words >= 3;
            return about_it.then_some("it is about the command, not a call of it");
        }
        if matches!((head, self.words, self.first), ("who", 2, words::AUXILIARY))
            && !self.question_mark
            && self.function == 2
        {
            return None;
        }
        if let Some(reason) = self.misfit(head) {
            return Some(reason);
        }
        if self.foreign {
            return Some("it asks something in another language");
        }
        if self.operators == 0 && subject && self.words >= 2 {
            return Some("what follows the first word is a verb");
        }
        if self.operators == 0 && self.first & words::QUESTION != 0 && self.words >= 3 {
            return Some("a question follows the first word");
        }
        if self.idiom && self.plain >= 3 && self.function >= 2 {
            return Some("it holds a phrase that no command holds");
        }
        if self.operators > 0 {
            let prose = self.plain >= 5 && self.function >= 3 && (self.noun_phrase || self.comma);
            return prose.then_some("it is mostly English words");
        }
        self.without_operators(head)
    }

    fn without_operators(&self, head: &str) -> Option<&'static str> {
        let english = words::is_english_command(head);
        if self.contraction {
            return Some("it holds an English contraction");
        }
        if self.question_mark && self.flags == 0 && (self.words >= 2 || self.function > 0) {
            return Some("it ends with a question mark");
        }
        if self.politeness_last && self.words >= 2 {
            return Some("it says please or thanks");
        }
        if self.comma && (self.hard == 0 || self.function > 0) {
            return Some("a comma follows a word");
        }
        if self.hard > 0 {
            let grammar = self.noun_phrase || self.article_phrase || self.pronoun_or_question || self.conjunction;
            let wordy = self.plain >= 4 && self.function >= 2 && grammar;
            return wordy.then_some("it is mostly English words");
        }
        if words::takes_pattern(head) {
            let wordy = self.function >= 2 && self.words >= 3;
            return wordy.then_some("it is mostly English words");
        }
        if self.strong {
            return Some("it holds a word that is no argument");
        }
        if (self.noun_phrase
            && !(head == "make" && self.words == 2 && self.first == words::DETERMINER && self.function == 1))
            || (self.article_phrase && (english || self.words >= 3))
        {
            return Some("a noun with its article follows");
        }
        if self.report && self.words >= 2 {
            return Some("it says what something did");
        }
        if english && self.function > 0 && self.words >= 2 {
            return Some("the first word is also English, and function words follow");
        }
        (self.function >= 2 && self.words >= 3).then_some("it is mostly English words")
    }

    /// Why a line whose first word nobody knows is a command all the same; none where it is a sentence.
    pub(super) fn looks_like_call(&self) -> Option<&'static str> {
        if self.words == 0 || self.foreign || self.contraction || self.comma || self.question_mark {
            return None;
        }
        if self.function >= 2 || self.noun_phrase || self.strong || (self.function == 1 && self.plain >= 3) {
            return None;
        }
        if self.flags > 0 {
            return Some("it has a command's options");
        }
        None
    }

    /// Whether nothing in it is an English function word.
    pub(super) fn is_wordless(&self) -> bool {
        self.function == 0 && !self.contraction && !self.comma && !self.question_mark && !self.foreign
    }

    /// How many words follow the first.
    pub(super) fn len(&self) -> usize {
        self.words
    }

    /// How many operators and redirections there are.
    pub(super) fn operators(&self) -> usize {
        self.operators
    }
}

enum Politeness {
    Yes,
    No,
}

fn class_text(word: &str) -> Politeness {
    let polite = ["please", "pls", "plz", "thanks", "thx", "bitte", "danke"];
    if polite.iter().any(|entry| word.eq_ignore_ascii_case(entry)) { Politeness::Yes } else { Politeness::No }
}

/// `(like this)` between words is an aside of prose, and `;` at the end is punctuation of code; neither is counted.
fn is_aside(tokens: &[Token<'_>], index: usize) -> bool {
    matches!(tokens[index].text, "(" | ")") && tokens.len() > 3 && index > 0
}

fn is_plain(word: &str) -> bool {
    !word.is_empty()
        && word.chars().all(|c| c.is_alphabetic())
        && word.chars().all(|c| c.is_ascii() || c.is_lowercase() || c.is_uppercase())
}

/// `-x` or `--long`.
pub(super) fn is_flag(word: &str) -> bool {
    word.strip_prefix('-').is_some_and(|rest| {
        let rest = rest.strip_prefix('-').unwrap_or(rest);
        rest.starts_with(|c: char| c.is_ascii_alphanumeric())
    })
}
