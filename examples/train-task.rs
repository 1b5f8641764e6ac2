//! Trains the weights by which the task of a question is recognised: `cargo run --release --example train-task [-- --check]`.
//!
//! Reads `config/task/questions.tsv` (`label<TAB>question`), and writes `config/task/weights.bin` and, with the figures of a
//! cross-validation and of `held-out.tsv`, `config/task/report.md`: the same bytes on each run. `--check` writes nothing.

#![allow(
    clippy::disallowed_methods,
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a training program opens its own files, prints, and stops if it can't go on"
)]

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::Path;

use reedclaw::proto::Task;
use reedclaw::turn::task::{self, BYTES, SLOTS, STEP};

const TASKS: usize = Task::ALL.len();
const FOLDS: usize = 10;
const EPOCHS: usize = 200;
const RATE: f32 = 0.3;
/// How strongly each pass draws the weights to 0: the questions are few.
const DECAY: f32 = 2e-3;

struct Example {
    question: String,
    task: usize,
    features: Vec<u32>,
}

fn main() {
    let check = std::env::args().any(|argument| argument == "--check");
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("config/task");
    let examples = read(&folder.join("questions.tsv"));
    let held_out = read(&folder.join("held-out.tsv"));
    let mut report = String::from(HEADER);
    let mut judged = Vec::new();
    for fold in 0..FOLDS {
        let (seen, unseen): (Vec<_>, Vec<_>) = examples.iter().enumerate().partition(|(at, _)| at % FOLDS != fold);
        let seen: Vec<&Example> = seen.into_iter().map(|(_, example)| example).collect();
        let weights = train(&seen);
        judged.extend(unseen.into_iter().map(|(_, example)| (example, task::by(&weights, &example.question))));
    }
    table(&mut report, &format!("Cross-validation in {FOLDS} folds"), &judged);
    let weights = train(&examples.iter().collect::<Vec<_>>());
    for (title, examples) in
        [("Questions that the training never saw", &held_out), ("The questions of the training", &examples)]
    {
        let judged: Vec<(&Example, Task)> =
            examples.iter().map(|example| (example, task::by(&weights, &example.question))).collect();
        table(&mut report, title, &judged);
    }
    println!("{report}");
    if !check {
        std::fs::write(folder.join("weights.bin"), weights.as_slice()).unwrap();
        std::fs::write(folder.join("report.md"), report).unwrap();
    }
}

const HEADER: &str = "# Training report of the task of a question\n\nMade by `cargo run --release --example train-task`. A \
    router of models chooses by the task. Rows are the tasks\nas labelled, columns as recognised. The features and the \
    bound below which a question counts as chat were\nchosen by the folds: those figures say a little too much.\n";

fn read(path: &Path) -> Vec<Example> {
    let text = std::fs::read_to_string(path).unwrap();
    let example = |row: &str| {
        let (label, question) = row.split_once('\t').unwrap();
        let question = question.replace("\\n", "\n");
        let task = Task::ALL.iter().position(|task| task.word() == label).unwrap();
        let features = task::features(&question);
        Example { question, task, features }
    };
    text.lines().filter(|row| !row.starts_with("# ")).map(example).collect()
}

/// Fits a softmax over the features, each of which owns a slot or weighs nothing.
fn train(examples: &[&Example]) -> Box<[u8; BYTES]> {
    let mut counts: BTreeMap<u32, usize> = BTreeMap::new();
    examples.iter().flat_map(|example| &example.features).for_each(|it| *counts.entry(*it).or_default() += 1);
    let mut by_count: Vec<(usize, u32)> = counts.into_iter().map(|(feature, count)| (count, feature)).collect();
    by_count.sort_unstable_by(|a, b| b.cmp(a));
    let (mut taken, mut owners) = (BTreeSet::new(), BTreeMap::new());
    for (_, feature) in by_count {
        if taken.insert(task::slot(feature).0) {
            owners.insert(feature, owners.len());
        }
    }
    let rows: Vec<(Vec<usize>, usize)> = examples
        .iter()
        .map(|example| (example.features.iter().filter_map(|it| owners.get(it).copied()).collect(), example.task))
        .collect();
    let mut weights = vec![[0.0_f32; TASKS]; owners.len()];
    for epoch in 0..EPOCHS {
        #[allow(clippy::cast_precision_loss, reason = "a few hundred passes")]
        let rate = RATE / (1.0 + epoch as f32 / 20.0);
        for at in 0..rows.len() {
            // A stride that shares no divisor with the length visits each row once, in another order each time.
            let (features, task) = &rows[(at * 7919 + epoch * 31) % rows.len()];
            let mut odds = [0.0_f32; TASKS];
            features.iter().for_each(|it| odds.iter_mut().zip(weights[*it]).for_each(|(sum, weight)| *sum += weight));
            let highest = odds.iter().copied().fold(f32::MIN, f32::max);
            odds.iter_mut().for_each(|it| *it = (*it - highest).exp());
            let all: f32 = odds.iter().sum();
            for (other, odds) in odds.iter().enumerate() {
                let error = f32::from(u8::from(other == *task)) - odds / all;
                for it in features {
                    let weight = &mut weights[*it][other];
                    *weight += rate * (error - DECAY * *weight);
                }
            }
        }
    }
    let mut bytes: Box<[u8; BYTES]> = vec![0; BYTES].try_into().unwrap();
    for (feature, at) in owners {
        let (slot, tag) = task::slot(feature);
        bytes[SLOTS * TASKS + slot] = tag;
        for (task, weight) in weights[at].iter().enumerate() {
            #[allow(clippy::cast_possible_truncation, reason = "within the bounds of a byte")]
            let steps = (weight / STEP).round().clamp(-127.0, 127.0) as i8;
            bytes[task * SLOTS + slot] = steps.cast_unsigned();
        }
    }
    bytes
}

fn table(report: &mut String, title: &str, judged: &[(&Example, Task)]) {
    let right = judged.iter().filter(|(example, task)| Task::ALL[example.task] == *task).count();
    let words: Vec<&str> = Task::ALL.iter().map(|task| task.word()).collect();
    write!(report, "\n## {title}\n\n{right} of {} are right.\n\n| | {} |\n", judged.len(), words.join(" | ")).unwrap();
    writeln!(report, "|---{}|", "|---".repeat(TASKS)).unwrap();
    for (at, word) in words.iter().enumerate() {
        let count = |other: &Task| {
            let is_it = |(example, task): &&(&Example, Task)| example.task == at && task == other;
            judged.iter().filter(is_it).count().to_string()
        };
        let counts: Vec<String> = Task::ALL.iter().map(count).collect();
        writeln!(report, "| {word} | {} |", counts.join(" | ")).unwrap();
    }
    let wrong = judged.iter().filter(|(example, task)| Task::ALL[example.task] != *task);
    for (example, task) in wrong {
        let line = example.question.replace('\n', " ");
        println!("{title}: {} as {}: {line}", words[example.task], task.word());
    }
}
