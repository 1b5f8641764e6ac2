//! The kind of work that a question asks for, by trained weights: a router of models chooses by it. It must not know which
//! models there are.
//!
//! The weights of `config/task/` come from `examples/train-task.rs`; `config/task/report.md` has the figures.

use crate::proto::Task;

/// Slots of the table of weights. Each has one weight for each task, and the tag of the one feature that it belongs to.
pub const SLOTS: usize = 4096;
/// Bytes of the table: the weights of each task, then the tags.
pub const BYTES: usize = SLOTS * (TASKS + 1);
/// The score of one step of a weight, a logarithm of odds.
pub const STEP: f32 = 1.0 / 16.0;
const TASKS: usize = Task::ALL.len();

/// A question is chat unless another task is at least so likely: a model for plain questions answers any other too.
const LIKELY: f32 = 0.5;
/// Limit on the bytes of a question that are read: people write their request before a long paste.
const READ_BYTES: usize = 2_000;
/// Words of it that are read.
const WORDS_MAX: usize = 200;

static WEIGHTS: &[u8; BYTES] = include_bytes!("../../config/task/weights.bin");

/// Recognises the task of a person's question.
#[must_use]
pub fn of_question(question: &str) -> Task {
    by(WEIGHTS, question)
}

/// Recognises the task with the weights of a training run.
#[must_use]
pub fn by(weights: &[u8; BYTES], question: &str) -> Task {
    let mut scores = [0.0_f32; TASKS];
    for feature in features(question) {
        let (slot, tag) = self::slot(feature);
        if weights[SLOTS * TASKS + slot] == tag {
            for (task, score) in scores.iter_mut().enumerate() {
                *score += f32::from(weights[task * SLOTS + slot].cast_signed()) * STEP;
            }
        }
    }
    let highest = scores.iter().copied().fold(f32::MIN, f32::max);
    let odds = scores.map(|score| (score - highest).exp());
    let all: f32 = odds.iter().sum();
    let best = (0..TASKS).max_by(|a, b| odds[*a].total_cmp(&odds[*b])).unwrap_or_default();
    if odds[best] / all < LIKELY { Task::Chat } else { Task::ALL[best] }
}

/// The slot of a feature, and its tag.
#[must_use]
pub fn slot(feature: u32) -> (usize, u8) {
    ((feature >> 8) as usize % SLOTS, feature.to_le_bytes()[0])
}

/// The features of a question, each once: words and pairs of words with their place, and what code looks like.
#[must_use]
pub fn features(question: &str) -> Vec<u32> {
    let text = &question[..question.floor_char_boundary(READ_BYTES)];
    let mut features = vec![hash(&["any"])];
    let lower = text.to_lowercase();
    let words = lower.split(|c: char| !c.is_alphanumeric() && c != '\'' && c != '_');
    let words: Vec<&str> = words.filter(|word| !word.is_empty()).take(WORDS_MAX).collect();
    for (at, word) in words.iter().enumerate() {
        let name = if LANGUAGES.contains(word) { "=language" } else { word };
        features.push(hash(&["word", name]));
        features.push(hash(&["stem", stem(word)]));
        if at == 0 {
            features.push(hash(&["first", name]));
        }
        if let Some(next) = words.get(at + 1) {
            let next = if LANGUAGES.contains(next) { "=language" } else { stem(next) };
            features.push(hash(&[if at == 0 { "first pair" } else { "pair" }, stem(name), next]));
        }
        // Scripts without spaces: pairs of letters take the place of words.
        let letters: Vec<(usize, char)> = word.char_indices().filter(|(_, letter)| *letter > '\u{2e7f}').collect();
        features
            .extend(letters.windows(2).map(|two| hash(&["letters", &word[two[0].0..two[1].0 + two[1].1.len_utf8()]])));
    }
    let length = match words.len() {
        0..=1 => "1",
        2..=3 => "3",
        4..=7 => "7",
        8..=15 => "15",
        _ => "more",
    };
    features.push(hash(&["length", length]));
    features.extend(shapes(text).map(|shape| hash(&["shape", shape])));
    features.sort_unstable();
    features.dedup();
    features
}

/// Names of programming languages; each counts as the same word.
const LANGUAGES: [&str; 34] = [
    "awk",
    "bash",
    "c",
    "clojure",
    "cpp",
    "css",
    "dart",
    "elixir",
    "elm",
    "erlang",
    "fortran",
    "go",
    "golang",
    "haskell",
    "html",
    "java",
    "javascript",
    "js",
    "julia",
    "kotlin",
    "lua",
    "ocaml",
    "perl",
    "php",
    "python",
    "r",
    "ruby",
    "rust",
    "scala",
    "sql",
    "swift",
    "typescript",
    "ts",
    "zig",
];

/// Ends of file names that hold source code.
const SOURCES: [&str; 30] = [
    "c", "cc", "cpp", "cs", "css", "go", "h", "hpp", "hs", "html", "java", "jl", "js", "jsx", "kt", "lua", "ml", "php",
    "pl", "py", "rb", "rs", "scala", "sh", "sql", "swift", "ts", "tsx", "vue", "zig",
];

/// Typical forms of code and of its errors.
fn shapes(text: &str) -> impl Iterator<Item = &'static str> {
    let words = || text.split_whitespace();
    let trimmed = |word: &str| word.trim_matches(|c: char| !c.is_alphanumeric() && c != '_').to_owned();
    let is_source = |word: &str| {
        let word = trimmed(word);
        word.rsplit_once('.').is_some_and(|(name, end)| !name.is_empty() && SOURCES.contains(&end))
    };
    let is_name = |word: &str| {
        let word = trimmed(word);
        let has_hump = word.as_bytes().windows(2).any(|two| two[0].is_ascii_lowercase() && two[1].is_ascii_uppercase());
        has_hump || word.contains('_') && word.chars().all(|c| c.is_alphanumeric() || c == '_')
    };
    let is_error = |word: &str| {
        let word = trimmed(word);
        word.len() > 5 && (word.ends_with("Error") || word.ends_with("Exception"))
    };
    [
        (text.contains("```"), "fence"),
        (text.contains('`') && !text.contains("```"), "backticks"),
        (text.trim().contains('\n'), "lines"),
        (["::", "->", "=>", "==", "();", "&&", "||"].iter().any(|sign| text.contains(sign)), "operators"),
        (words().any(|word| word.contains("()")), "call"),
        (words().any(is_source), "source file"),
        (words().any(is_name), "name"),
        (words().any(is_error), "error"),
        (text.contains('{') && text.contains('}'), "braces"),
        (text.trim_end().ends_with('?'), "question"),
        (text.contains('@'), "mention"),
    ]
    .into_iter()
    .filter_map(|(is_so, name)| is_so.then_some(name))
}

/// The beginning of a word: `summarise`, `summarize` and `summary` have the same.
fn stem(word: &str) -> &str {
    let end = word.char_indices().nth(5).map_or(word.len(), |(at, _)| at);
    &word[..end]
}

fn hash(parts: &[&str]) -> u32 {
    let bytes = parts.iter().flat_map(|part| part.bytes().chain([0]));
    let all = bytes.fold(0x811c_9dc5_u32, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193));
    (all ^ all >> 15).wrapping_mul(0x2c1b_3c6d)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn held_out() -> Vec<(&'static str, String)> {
        let rows = include_str!("../../config/task/held-out.tsv").lines().filter(|row| !row.starts_with("# "));
        rows.map(|row| row.split_once('\t').expect("two columns"))
            .map(|(label, question)| (label, question.replace("\\n", "\n")))
            .collect()
    }

    #[test]
    fn questions_that_no_training_saw_are_recognised() {
        let rows = held_out();
        let wrong: Vec<String> = rows
            .iter()
            .filter(|(label, question)| of_question(question).word() != *label)
            .map(|(label, question)| format!("{label} as {}: {question}", of_question(question).word()))
            .collect();
        assert!(wrong.len() * 10 <= rows.len(), "{} of {}:\n{}", wrong.len(), rows.len(), wrong.join("\n"));
        // A plain question that is mistaken for a commit or a plan gets the answer of a model that is bad at it.
        let stolen = wrong.iter().filter(|line| line.starts_with("chat")).count();
        assert!(stolen <= 3, "{stolen} plain questions went elsewhere:\n{}", wrong.join("\n"));
    }

    #[test]
    fn the_questions_of_the_contract_review_are_code() {
        for question in
            ["write a python function that adds two numbers", "fix this rust code", "implement quicksort in C"]
        {
            assert_eq!(of_question(question), Task::Code, "{question}");
        }
        assert_eq!(of_question(""), Task::Chat);
    }

    #[test]
    fn a_long_paste_is_judged_by_its_beginning() {
        let paste = format!("summarise this\n{}", "é fn main() { let x = 1; }\n".repeat(10_000));
        assert!(features(&paste).len() < 3_000);
        let _ = of_question(&paste);
    }
}
