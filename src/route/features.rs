//! The features of a line: keys into the table of weights, each with the word that it comes from. Training and use share it. It
//! must not know the weights.

use super::Context;
use super::head::{Group, Head, Kind, WRAPPED};
use super::line::{Line, Shape, Word};
use super::words::{self, class, command};

/// The first weights of the table belong to options. They are never below zero, so that an option never favours a sentence.
pub const OPTION_WEIGHTS: usize = 32;
/// The bit that is set in the key of any other feature, which is a hash.
const HASHED: u32 = 1 << 31;
/// Limit on the features of a line.
const FEATURES_MAX: usize = 640;
/// The word number of a feature that comes from the whole line.
pub const WHOLE_LINE: u8 = u8::MAX;

/// The features of one line.
pub struct Features {
    list: [(u32, u8); FEATURES_MAX],
    len: usize,
}

impl Features {
    /// The keys into the table of weights, each with the number of the word that it comes from.
    #[must_use]
    pub fn list(&self) -> &[(u32, u8)] {
        &self.list[..self.len]
    }

    fn push(&mut self, key: u32, word: u8) {
        if let Some(slot) = self.list.get_mut(self.len) {
            *slot = (key, word);
            self.len += 1;
        }
    }

    /// Adds a feature: its kind (`id`, a letter or two), and the values that it is made of.
    fn add(&mut self, word: u8, id: u32, values: [u32; 3]) {
        let mut hash = id.wrapping_mul(0x9e37_79b1) ^ 0x49e5_bfec;
        for value in values {
            hash = (hash ^ value).wrapping_mul(0x85eb_ca6b);
            hash ^= hash >> 15;
        }
        self.push(hash | HASHED, word);
    }
}

/// Returns whether the words after the head say little: they are text to print, or arguments of a program of the user's own.
fn takes_any_text(head: &Head<'_>, line: &Line<'_>) -> bool {
    // `please say it again`
    let asked_politely = head.before & WRAPPED != 0 && words::function(line.words()[0].text) & class::STRONG != 0;
    head.resolves() && head.traits & command::TEXT != 0 && !asked_politely || head.kind == Kind::Path
}

/// Represents a missing word.
const NO_WORD: u32 = 99;

/// The little that such words say: whether a verb about the command follows, and how the line ends.
fn of_text(out: &mut Features, head: &Head<'_>, arguments: &[Word<'_>], about: &About) {
    let path = u32::from(head.kind == Kind::Path);
    let (Some(first), Some(last)) = (arguments.first(), arguments.last()) else { return };
    let place = u8::try_from(arguments.len()).unwrap_or(WHOLE_LINE - 1);
    out.add(1, 60, [path, symbol(first), 0]);
    out.add(1, 61, [path, first.class.into(), u32::from(about.commas > 0)]);
    if first.class != 0 {
        out.add(1, 62, [first.hash, path, 0]);
    }
    let second = arguments.get(1).map_or(NO_WORD, symbol);
    out.add(1, 67, [path, symbol(first), second]);
    if first.shape == Shape::Foreign {
        out.add(1, 69, [path, script(first.bare), u32::from(arguments.len() > 2)]);
    }
    if first.shape.is_word() && arguments.len() > 1 {
        out.add(1, 68, [path, first.hash, 0]);
    }
    out.add(place, 63, [path, last.end.into(), about.commas.min(1)]);
    if about.commas > 0 && last.class != 0 {
        out.add(place, 64, [last.hash, 0, 0]);
    }
    out.add(WHOLE_LINE, 65, [path, about.count.min(4), about.function.min(3)]);
    out.add(WHOLE_LINE, 66, [path, about.shell.min(3), about.operators.min(2)]);
}

/// A word's value for the weights: its class if it is a function word, else its shape.
fn symbol(word: &Word<'_>) -> u32 {
    if word.class == 0 {
        return word.shape as u32;
    }
    let strong = u32::from(word.class & class::STRONG != 0);
    64 + 2 * (word.class & !class::STRONG).trailing_zeros() + strong
}

/// The features of a line.
pub(super) fn of(line: &Line<'_>, head: &Head<'_>, context: &Context<'_>) -> Features {
    let mut out = Features { list: [(0, 0); FEATURES_MAX], len: 0 };
    let arguments = line.words().get(head.index + 1..).unwrap_or_default();
    let about = About::of(arguments);
    of_head(&mut out, line, head, &about);
    of_options(&mut out, line, head, arguments);
    if takes_any_text(head, line) {
        of_text(&mut out, head, arguments, &about);
        of_operators(&mut out, line, head, &about, context);
        return out;
    }
    of_arguments(&mut out, head, arguments);
    of_first_argument(&mut out, head, arguments, &about);
    of_end(&mut out, head, arguments, &about);
    of_operators(&mut out, line, head, &about, context);
    out
}

/// Counts over the arguments.
struct About {
    count: u32,
    plain: u32,
    function: u32,
    strong: u32,
    operators: u32,
    shell: u32,
    commas: u32,
}

impl About {
    fn of(arguments: &[Word<'_>]) -> Self {
        let count = |wanted: &dyn Fn(&Word<'_>) -> bool| {
            u32::try_from(arguments.iter().filter(|word| wanted(word)).count()).unwrap_or(u32::MAX)
        };
        Self {
            count: count(&|_| true),
            plain: count(&|word| word.shape.is_word()),
            function: count(&|word| word.class != 0 && word.class != class::SHORT),
            strong: count(&|word| word.class & class::STRONG != 0),
            operators: count(&|word| word.shape.is_operator()),
            shell: count(&|word| {
                matches!(word.shape, Shape::Expansion | Shape::Glob | Shape::Quoted | Shape::Assign | Shape::Path)
            }),
            commas: count(&|word| word.end == b','),
        }
    }
}

fn of_head(out: &mut Features, line: &Line<'_>, head: &Head<'_>, about: &About) {
    let kind = head.kind as u32;
    let english = u32::from(head.traits & command::ENGLISH != 0);
    out.add(0, 1, [kind, english, 0]);
    out.add(0, 2, [kind, about.count.min(6), 0]);
    out.add(0, 3, [super::line::hash_lower(head.name), 0, 0]);
    out.add(0, 4, [u32::from(head.before), head.group as u32, 0]);
    if head.before & WRAPPED != 0 {
        let wrapper = line.words().first().map_or(0, |word| word.hash);
        out.add(0, 12, [wrapper, kind, about.function.min(3)]);
    }
    if takes_any_text(head, line) {
        return;
    }
    out.add(WHOLE_LINE, 5, [head.group as u32, about.function.min(5), 0]);
    out.add(WHOLE_LINE, 6, [head.group as u32, about.strong.min(4), 0]);
    out.add(WHOLE_LINE, 7, [head.group as u32, about.plain * 4 / about.count.max(1), about.count.min(5)]);
    out.add(WHOLE_LINE, 8, [head.group as u32, about.shell.min(3), about.function.min(2)]);
    out.add(WHOLE_LINE, 9, [head.group as u32, about.commas.min(2), about.operators.min(2)]);
    if line.open {
        out.add(WHOLE_LINE, 10, [head.group as u32, 0, 0]);
    }
    if matches!(head.group, Group::Unknown | Group::Tool) {
        let mut window = 0x2000_u32;
        for byte in head.name.bytes().chain([b'$']).take(20) {
            window = (window << 8 | u32::from(byte)) & 0x00ff_ffff;
            out.add(0, 11, [window, 0, 0]);
        }
    }
}

/// Options favour a command, with weights of their own.
fn of_options(out: &mut Features, line: &Line<'_>, head: &Head<'_>, arguments: &[Word<'_>]) {
    let group = head.group as u32;
    for count in 0..line.flags.min(3) as u32 {
        out.push(group * 3 + count, WHOLE_LINE);
    }
    for (at, word) in arguments.iter().enumerate() {
        if word.after_flag && word.class == 0 {
            out.push(16 + group, u8::try_from(at + 1).unwrap_or(WHOLE_LINE));
        }
    }
    if line.flags > 0 && head.traits & command::ENGLISH != 0 {
        out.push(24, WHOLE_LINE);
    }
}

/// Fewest letters of a word whose ending may reveal the kind of word: `slowly`, `running`.
const ENDED_LETTERS_MIN: usize = 5;

fn of_arguments(out: &mut Features, head: &Head<'_>, arguments: &[Word<'_>]) {
    let group = head.group as u32;
    let kind = head.kind as u32;
    let (mut before, mut before_that, mut hash_before, mut class_before) = (200, 201, 1_u32, 0_u16);
    for (at, word) in arguments.iter().enumerate() {
        let place = u8::try_from(at + 1).unwrap_or(WHOLE_LINE - 1);
        let symbol = symbol(word);
        out.add(place, 20, [symbol, group, 0]);
        if at < 2 {
            let at = u32::try_from(at).unwrap_or_default();
            out.add(place, 21, [symbol, at, kind]);
        }
        out.add(place, 22, [before, symbol, u32::from(group >= 3)]);
        out.add(place, 23, [before_that, before, symbol]);
        if word.end != 0 {
            out.add(place, 24, [u32::from(word.end), group, u32::from(at + 1 == arguments.len())]);
        }
        if word.shape.is_word() || word.class != 0 || word.shape == Shape::Equals {
            out.add(place, 25, [word.hash, 0, 0]);
            if word.class != 0 {
                out.add(place, 26, [word.hash, group, 0]);
            }
            if word.class != 0 || class_before != 0 {
                out.add(place, 27, [hash_before, word.hash, 0]);
            }
        }
        if word.shape == Shape::Foreign {
            of_foreign(out, place, word.bare);
            out.add(place, 71, [script(word.bare), group, u32::from(arguments.len() > 1)]);
        }
        if word.shape == Shape::Plain && word.class == 0 && word.bare.len() >= ENDED_LETTERS_MIN {
            let end = super::line::hash_lower(&word.bare[word.bare.len() - 3..]);
            out.add(place, 76, [end, group, u32::from(at > 0)]);
        }
        before_that = before;
        before = symbol;
        hash_before = word.hash;
        class_before = word.class;
    }
}

/// The script of a word and roughly its length: in scripts without spaces, a sentence is a single word.
fn script(word: &str) -> u32 {
    let (mut hiragana, mut ideographs, mut hangul, mut others) = (0, 0_u32, 0, 0);
    for character in word.chars().take(16) {
        match character {
            '\u{3040}'..='\u{309f}' => hiragana += 1,
            '\u{4e00}'..='\u{9fff}' | '\u{30a0}'..='\u{30ff}' => ideographs += 1,
            '\u{ac00}'..='\u{d7af}' => hangul += 1,
            _ => others += 1,
        }
    }
    match () {
        () if hiragana > 0 => 10,
        () if ideographs > 0 => 20 + ideographs.div_ceil(2),
        () if hangul > 0 => 40,
        () => 50 + u32::from(others > 4),
    }
}

/// Pairs of characters, for scripts without spaces between words.
fn of_foreign(out: &mut Features, place: u8, word: &str) {
    let mut before = 0;
    for character in word.chars().take(16) {
        let character = u32::from(character);
        if character > 0x2ff {
            out.add(place, 28, [before, character, 0]);
            before = character;
        }
    }
    out.add(place, 29, [u32::from(before != 0), u32::try_from(word.chars().take(9).count()).unwrap_or(9), 0]);
}

fn of_first_argument(out: &mut Features, head: &Head<'_>, arguments: &[Word<'_>], about: &About) {
    let head_hash = super::line::hash_lower(head.name);
    let Some(first) = arguments.first() else { return };
    out.add(1, 31, [head_hash, symbol(first), 0]);
    out.add(1, 74, [head_hash, first.hash, 0]);
    out.add(1, 77, [first.hash, head.group as u32, u32::from(about.count > 1)]);
    out.add(WHOLE_LINE, 75, [head_hash, about.count.min(4), about.function.min(2)]);
    let subcommand = match words::has_subcommand(head.name, first.text) {
        Some(true) => 7,
        None if words::is_subcommand(first.text) => 1,
        _ if first.class != 0 => 2,
        Some(false) if first.shape == Shape::Plain => 8,
        Some(false) => 9,
        None if first.shape == Shape::Plain && words::slip_of_subcommand(first.text).is_some() => 3,
        None if first.shape == Shape::Plain => 4,
        None if first.shape.is_word() => 5,
        None => 6,
    };
    let takes = u32::from(head.traits & command::SUBCOMMANDS != 0);
    out.add(1, 32, [takes, subcommand, head.group as u32]);
    out.add(1, 33, [takes, subcommand, about.count.min(4)]);
    let second = arguments.get(1).map_or(2, |second| u32::from(words::is_subcommand(second.text)));
    out.add(2, 38, [takes, subcommand, second * 8 + about.function.min(2)]);
    if matches!(head.kind, Kind::Slip | Kind::Near | Kind::Capitalised) {
        out.add(1, 34, [head.kind as u32, subcommand, about.function.min(2)]);
    }
    let kind_of_command = u32::from(head.traits & (command::NAMES | command::PATTERN));
    if kind_of_command != 0 && head.resolves() {
        out.add(WHOLE_LINE, 35, [kind_of_command, about.function.min(4), about.commas.min(1)]);
        out.add(1, 36, [kind_of_command, symbol(first), about.count.min(3)]);
        let plain = about.plain == about.count && about.function == 0;
        out.add(WHOLE_LINE, 37, [kind_of_command, u32::from(plain), about.count.min(5)]);
    }
}

fn of_end(out: &mut Features, head: &Head<'_>, arguments: &[Word<'_>], about: &About) {
    let Some(last) = arguments.last() else { return };
    let place = u8::try_from(arguments.len()).unwrap_or(WHOLE_LINE - 1);
    out.add(place, 40, [symbol(last), head.group as u32, 0]);
    out.add(place, 41, [last.hash, 0, 0]);
    out.add(place, 42, [u32::from(last.end), symbol(last), about.operators.min(1)]);
}

/// Limit on the commands after `|`, `&&` and the like that are looked up.
const LOOKED_UP_MAX: u32 = 4;

/// The kind of text after `|`, `&&` and the like: a command, or prose.
fn of_operators(out: &mut Features, line: &Line<'_>, head: &Head<'_>, about: &About, context: &Context<'_>) {
    let (mut looked_up, mut commands) = (0, 0);
    for (at, pair) in line.words().windows(2).enumerate().skip(head.index) {
        if !pair[0].shape.ends_command() || pair[1].shape.is_operator() {
            continue;
        }
        let next = pair[1];
        let traits = words::command(next.text);
        let known = context.names.kind(next.text).is_some()
            || traits & command::TOOL != 0
            || matches!(next.shape, Shape::Assign | Shape::Expansion);
        let english = traits & command::ENGLISH != 0;
        let what = if known { 1 + u32::from(english) } else { 3 + u32::from(next.class != 0) };
        let place = u8::try_from(at + 1 - head.index).unwrap_or(WHOLE_LINE - 1);
        out.add(place, 50, [pair[0].shape as u32, what, 0]);
        looked_up += 1;
        commands += u32::from(known);
        if looked_up == LOOKED_UP_MAX {
            break;
        }
    }
    if looked_up > 0 {
        let all = u32::from(commands == looked_up);
        out.add(WHOLE_LINE, 51, [all, looked_up.min(3), about.function.min(3)]);
        out.add(WHOLE_LINE, 52, [all, head.group as u32, u32::from(about.strong > 0)]);
    }
}
