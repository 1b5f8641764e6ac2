//! The relevance of a text to a question: the share of the weight of the question's words that the text contains. The
//! fewer texts contain a word, the higher its weight. A synonym counts less, and so does a text about much else.

use std::collections::{HashMap, HashSet};

use super::pages::{self, Candidate, Pages};
use super::recipes::{self, Recipe};
use super::words::{all_terms, synonyms, terms};
use super::{Hit, Source};

/// Weight of a synonym.
const SAME_MEANING: f32 = 0.7;
/// Weight of a word in a command's heading, against one in the task itself.
const HEADING: f32 = 0.75;
/// Weight of a word that no recipe has.
const UNKNOWN: f32 = 2.0;
/// Texts below this share don't answer.
const SCORE_MIN: f32 = 0.45;
/// Words that a text and a question must have in common, if the question has as many.
const WORDS_IN_COMMON_MIN: usize = 2;
/// Weight of a page, an option and a line of the history, against a recipe with the same words.
const PAGE: f32 = 0.8;
const OPTION: f32 = 0.7;
const LINE: f32 = 0.85;
/// Bonus if the question names the command and the text itself, not only its heading, has the rest of the question's words.
const NAMED: f32 = 0.3;
/// Minimum words, small ones included, of a question with too few words with a meaning: "what time is it" has four.
const VERBATIM_WORDS_MIN: usize = 3;
/// Deduction for each word of a text that the question doesn't have, and the limit for their number.
const EXTRA_WORD: f32 = 0.012;
const EXTRA_WORDS_MAX: usize = 12;
/// Programs whose lines overwrite what a device or a file holds; `dd` does so only to a device.
const OVERWRITING: [&str; 4] = ["fdisk", "mkfs", "mkswap", "shred"];
/// Words of which a question that wants this has at least one. "How do I mount a usb stick" has none.
const OVERWRITING_WORDS: &str = "bootable burn edit erase filesystem flash format image iso overwrite partition securely \
    shred swap wipe write";
/// Factor for a line whose command isn't installed.
pub(super) const MISSING: f32 = 0.85;

/// A hit, with its score.
pub(super) struct Ranked {
    pub score: f32,
    pub command: String,
    pub hit: Hit,
}

impl Ranked {
    fn of(recipe: &Recipe, score: f32) -> Self {
        let (line, about) = (recipe.line.to_owned(), recipe.task.to_owned());
        Self { score, command: command_of(recipe), hit: Hit { line, about, source: Source::Recipe, missing: None } }
    }
}

/// The words of a question.
pub(super) struct Question {
    terms: Vec<String>,
    /// All of its words in order, also those without a meaning.
    all: Vec<String>,
}

impl Question {
    pub(super) fn new(text: &str) -> Self {
        let mut seen = HashSet::new();
        let mut terms = terms(text);
        terms.retain(|term| seen.insert(term.clone()));
        Self { terms, all: all_terms(text) }
    }

    pub(super) fn words(&self) -> usize {
        self.terms.len()
    }

    /// Returns whether a recipe may answer: one that overwrites only if the question is about overwriting, or names the
    /// program.
    fn may_have(&self, recipe: &Recipe, text: &Text) -> bool {
        let overwrites = OVERWRITING.contains(&recipe.command) || recipe.line.contains("of=/dev/");
        let is_wanted = || terms(OVERWRITING_WORDS).iter().any(|term| self.terms.contains(term));
        !overwrites || is_wanted() || self.names(&text.name)
    }

    /// Returns whether the question has all words of a program's name.
    fn names(&self, name: &[String]) -> bool {
        !name.is_empty() && name.iter().all(|term| self.terms.contains(term))
    }

    /// The bonus of a text for the command that the question names, by the share of the question's other words in the
    /// text itself.
    fn named(&self, name: &[String], weights: &HashMap<String, f32>, holds: impl Fn(&str) -> bool) -> f32 {
        let (mut all, mut held) = (0.0, 0.0);
        for term in self.terms.iter().filter(|term| !name.contains(term)) {
            let weight = weights.get(term).copied().unwrap_or(1.0);
            all += weight;
            if holds(term) {
                held += weight;
            } else if synonyms(term).iter().any(|other| holds(other)) {
                held += SAME_MEANING * weight;
            }
        }
        if all > 0.0 { NAMED * held / all } else { NAMED }
    }

    /// The share of the question that a text contains; `holds` returns the weight of a word in it.
    fn share(&self, weights: &HashMap<String, f32>, holds: impl Fn(&str) -> f32) -> f32 {
        let (mut all, mut held, mut words) = (0.0, 0.0, 0);
        for term in &self.terms {
            let weight = weights.get(term).copied().unwrap_or(1.0);
            all += weight;
            let same = synonyms(term).iter().map(|other| SAME_MEANING * holds(other));
            let holds = same.fold(holds(term), f32::max);
            held += weight * holds;
            words += usize::from(holds > 0.0);
        }
        // One common word of many is a coincidence.
        if words < WORDS_IN_COMMON_MIN.min(self.terms.len()) { 0.0 } else { held / all.max(f32::EPSILON) }
    }
}

/// The recipes, split into words.
#[derive(Debug)]
pub(super) struct Recipes {
    all: Vec<(Recipe, Text)>,
    /// The number of recipes that contain a word.
    documents: HashMap<String, i64>,
}

/// The words of the name of a command's program.
fn name_of(command: &str) -> Vec<String> {
    terms(command.split_whitespace().next().unwrap_or_default())
}

/// A text's words: those of its own, those of its heading, and those of its program's name.
#[derive(Debug)]
struct Text {
    own: HashSet<String>,
    heading: HashSet<String>,
    name: Vec<String>,
}

impl Text {
    fn holds(&self, term: &str) -> f32 {
        if self.own.contains(term) {
            1.0
        } else if self.heading.contains(term) {
            HEADING
        } else {
            0.0
        }
    }
}

impl Recipes {
    pub(super) fn read() -> Self {
        let text = |recipe: &Recipe| Text {
            own: terms(&format!("{} {}", recipe.task, recipe.line)).into_iter().collect(),
            heading: terms(&format!("{} {}", recipe.command, recipe.words)).into_iter().collect(),
            name: name_of(recipe.command),
        };
        let all: Vec<(Recipe, Text)> = recipes::all().into_iter().map(|recipe| (recipe, text(&recipe))).collect();
        let mut documents: HashMap<String, i64> = HashMap::new();
        for (_, text) in &all {
            for term in text.own.union(&text.heading) {
                *documents.entry(term.clone()).or_default() += 1;
            }
        }
        Self { all, documents }
    }

    fn knows(&self, term: &str) -> bool {
        synonyms(term).iter().any(|it| self.documents.contains_key(it)) || self.documents.contains_key(term)
    }

    /// The weight of each word of a question among the recipes.
    fn weights(&self, question: &Question) -> HashMap<String, f32> {
        let total = i64::try_from(self.all.len()).unwrap_or(i64::MAX);
        let documents = |term: &String| {
            let same = synonyms(term).iter().chain(std::iter::once(term));
            same.filter_map(|it| self.documents.get(it)).copied().max().unwrap_or(0)
        };
        question.terms.iter().map(|term| (term.clone(), pages::weight(documents(term), total))).collect()
    }

    pub(super) fn rank(&self, question: &Question) -> Vec<Ranked> {
        let mut weights = self.weights(question);
        // A word that no recipe has can't distinguish them: it is a name, or only a way of speaking.
        for (_, weight) in weights.iter_mut().filter(|(term, _)| !self.knows(term)) {
            *weight = UNKNOWN;
        }
        let names: HashSet<&Vec<String>> =
            self.all.iter().map(|(_, text)| &text.name).filter(|name| question.names(name)).collect();
        let rank = |(recipe, text): &(Recipe, Text)| {
            if !question.may_have(recipe, text) {
                return None;
            }
            let share = question.share(&weights, |term| text.holds(term));
            // "kill a process by name" names `kill`, and "kill all processes with a name" is about the same word.
            let name = Some(&text.name)
                .filter(|name| names.contains(name))
                .or_else(|| names.iter().copied().find(|name| name.iter().all(|term| text.own.contains(term))));
            let named = name.map_or(0.0, |name| question.named(name, &weights, |term| text.own.contains(term)));
            let extra = text.own.iter().filter(|term| !question.terms.contains(term)).count();
            let score = share + named - extra_words(extra);
            (share >= SCORE_MIN).then(|| Ranked::of(recipe, score))
        };
        self.all.iter().filter_map(rank).collect()
    }

    /// The recipes for a question whose words mean too little on their own: those whose task contains the whole question.
    pub(super) fn rank_verbatim(&self, question: &Question) -> Vec<Ranked> {
        let in_blanks = |words: &[String]| format!(" {} ", words.join(" "));
        let phrase = in_blanks(&question.all);
        let rank = |(recipe, text): &(Recipe, Text)| {
            let words = all_terms(recipe.task);
            let fits = question.all.len() >= VERBATIM_WORDS_MIN && in_blanks(&words).contains(&phrase);
            (fits && question.may_have(recipe, text))
                .then(|| Ranked::of(recipe, 1.0 - extra_words(words.len() - question.all.len())))
        };
        self.all.iter().filter_map(rank).collect()
    }

    /// The person's own lines: a typed line has few words, so it must contain most of the question.
    pub(super) fn rank_lines(&self, question: &Question, lines: &[String]) -> Vec<Ranked> {
        let weights = self.weights(question);
        let rank = |line: &String| {
            let words: HashSet<String> = terms(line).into_iter().collect();
            let share = question.share(&weights, |term| if words.contains(term) { 1.0 } else { 0.0 });
            let extra = words.iter().filter(|term| !question.terms.contains(term)).count();
            let command = line.split_whitespace().next().unwrap_or_default().to_owned();
            let hit = Hit { line: line.clone(), about: String::new(), source: Source::History, missing: None };
            let score = LINE * share - extra_words(extra);
            (share >= SCORE_MIN && score >= SCORE_MIN).then_some(Ranked { score, command, hit })
        };
        lines.iter().filter_map(rank).collect()
    }
}

/// Manual pages and their options.
pub(super) fn pages(question: &Question, pages: &Pages) -> Vec<Ranked> {
    // An index that can't be read finds nothing; it is rebuilt when the pages change.
    let Ok(found) = pages.find(&question.terms) else { return Vec::new() };
    let weight = |(term, documents): (&String, &i64)| (term.clone(), pages::weight(*documents, found.total));
    let weights: HashMap<String, f32> = found.documents.iter().map(weight).collect();
    let rank = |candidate: Candidate| {
        let command: HashSet<String> = terms(&candidate.command).into_iter().collect();
        let words: HashSet<String> = terms(&format!("{} {}", candidate.option, candidate.about)).into_iter().collect();
        let holds = |term: &str| if words.contains(term) || command.contains(term) { 1.0 } else { 0.0 };
        let share = question.share(&weights, holds);
        let name = name_of(&candidate.command);
        let named =
            if question.names(&name) { question.named(&name, &weights, |term| words.contains(term)) } else { 0.0 };
        let extra = words.iter().filter(|term| !question.terms.contains(term)).count();
        let kind = if candidate.option.is_empty() { PAGE } else { OPTION };
        let score = kind * share + named - extra_words(extra);
        let Candidate { command, section, option, about } = candidate;
        let source = match section.as_str() {
            pages::HELP => Source::Help(command.clone()),
            section => Source::Page(format!("{}({section})", command.replace(' ', "-"))),
        };
        let line = match (option.as_str(), section.as_str()) {
            ("", "5" | "7") => format!("man {section} {command}"),
            ("", _) => command.clone(),
            (option, _) => format!("{command} {option}"),
        };
        let command = if line.starts_with("man ") { "man".to_owned() } else { command };
        let hit = Hit { line, about, source, missing: None };
        (share >= SCORE_MIN).then_some(Ranked { score, command, hit })
    };
    found.candidates.into_iter().filter_map(rank).collect()
}

/// The program that a recipe needs: its line begins with it, or with a program that runs it.
fn command_of(recipe: &Recipe) -> String {
    let own = recipe.line.split_whitespace().find(|word| *word == recipe.command);
    own.unwrap_or_else(|| recipe.line.split_whitespace().next().unwrap_or_default()).to_owned()
}

fn extra_words(count: usize) -> f32 {
    EXTRA_WORD * count.min(EXTRA_WORDS_MAX) as f32
}
