//! Trains the router's weights: `cargo run --release --example train-route -- DATA_DIR [--check] [--errors]`.
//!
//! DATA_DIR holds `dev.tsv` and `hard_dev.tsv` (`label<TAB>source<TAB>line`), `installed.txt` and `session.txt` (the names
//! that resolve there); this project's own hard lines are added. Written are `config/route/weights.bin` and, with the
//! figures of a cross-validation, `config/route/report.md`: the same bytes on each run. `--check` writes nothing;
//! `--errors` lists what the cross-validation got wrong.

#![allow(
    clippy::disallowed_methods,
    clippy::print_stdout,
    clippy::print_stderr,
    clippy::unwrap_used,
    reason = "a training program opens its own files, prints, and stops if it can't go on"
)]

use std::collections::{BTreeMap, HashMap};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use reedclaw::proto::{Names, Route};
use reedclaw::repl::validate::is_incomplete;
use reedclaw::route::{Context, OPTION_WEIGHTS, STEP, WEIGHTS, Weights, decide, features_of, slot};

const FOLDS: u32 = 10;
/// Ways of splitting the lines into folds: one alone says little about a few lines.
const SPLITS: u32 = 4;
const EPOCHS: usize = 30;
/// The same for the first pass, which only says which features matter.
const CHOOSING_EPOCHS: usize = 10;
const CHOOSING_DECAY: f32 = 1e-3;
/// Fits whose mean is taken.
const FITS: u64 = 4;
/// A feature of fewer lines can't be judged.
const LINES_MIN: usize = 2;
const RATE: f32 = 0.15;
/// How strongly an example draws the weights of its features to 0.
const DECAY: f32 = 1e-4;
/// What a hand-written hard line counts, against a collected one.
const HARD_WEIGHT: f32 = 4.0;
/// The same for this project's own.
const OWN_WEIGHT: f32 = 4.0;

/// One line with what is known of it.
struct Example {
    line: String,
    source: String,
    is_shell: bool,
    is_hard: bool,
    is_own: bool,
    resolves: bool,
    /// None where an exact rule decides.
    features: Option<Vec<u32>>,
}

impl Example {
    /// The fold that it belongs to in one of the splits.
    fn fold(&self, split: u32) -> u32 {
        let mixed = hash(&self.line) ^ split.wrapping_mul(0x9e37_79b1);
        ((mixed ^ mixed >> 13).wrapping_mul(0x5bd1_e995) >> 8) % FOLDS
    }
}

fn main() {
    let mut arguments = std::env::args().skip(1);
    let Some(data) = arguments.next().map(PathBuf::from) else {
        eprintln!("train-route DATA_DIR [--check] [--errors]");
        std::process::exit(2);
    };
    let options: Vec<String> = arguments.collect();
    let has = |option: &str| options.iter().any(|given| given == option);
    let (check, show_errors) = (has("--check"), has("--errors"));
    let project = Path::new(env!("CARGO_MANIFEST_DIR"));
    let names = names(&data);
    let mut examples = read(&data.join("dev.tsv"), &names, false, false);
    examples.extend(read(&data.join("hard_dev.tsv"), &names, true, false));
    examples.extend(read(&own_lines(), &names, true, true));
    let mut report = String::from(HEADER);
    let began = Instant::now();
    let mut verdicts = vec![(Route::Empty, ""); examples.len()];
    for split in (0..SPLITS).rev() {
        for fold in 0..FOLDS {
            let weights = train(&examples, |example| example.fold(split) != fold);
            judge(&examples, &names, &weights, |example| example.fold(split) == fold, &mut verdicts);
        }
        write!(report, "\n## Cross-validation, {FOLDS} folds, split {} of {SPLITS}\n\n", SPLITS - split).unwrap();
        table(&mut report, &examples, &verdicts);
    }
    categories(&mut report, &examples, &verdicts);
    let weights = train(&examples, |example| !example.is_hard || example.is_own);
    judge(&examples, &names, &weights, |example| example.is_hard && !example.is_own, &mut verdicts);
    report.push_str("\n## Trained without any of the data's hard lines\n\n");
    table_of(&mut report, "hard", &examples, &verdicts, |example| example.is_hard && !example.is_own);
    left_out(&mut report, &examples, &names, &mut verdicts);
    eprintln!("validated in {:?}", began.elapsed());
    if show_errors {
        errors(&examples, &names);
    }
    let bytes = train_bytes(&examples, |_| true);
    let weights = Weights::from_bytes(&bytes);
    judge(&examples, &names, &weights, |_| true, &mut verdicts);
    report.push_str("\n## The weights as they are, on what they were trained on\n\n");
    table(&mut report, &examples, &verdicts);
    println!("{report}");
    timing(&examples, &names, &weights);
    if !check {
        std::fs::create_dir_all(project.join("config/route")).unwrap();
        std::fs::write(project.join("config/route/weights.bin"), bytes).unwrap();
        std::fs::write(project.join("config/route/report.md"), report).unwrap();
    }
}

const HEADER: &str = "# Training report of the router\n\nMade by `cargo run --release --example train-route -- DATA_DIR`. \
    Shares are of lines; \"strictly\"\ncounts a question (`confirm`) as wrong, \"run\" is the share of sentences whose \
    first word resolves that would run\nunasked.\n\n\
    ## What is noise\n\nOf the collected shell lines whose first word resolves, those that the cross-validation sends to \
    the model are mostly no\ncommands. The data has them as shell since they came from a column of commands, and \
    nothing here was made to fit them:\n\n\
    - notes: `which has been established.`, `let me add sth else here`, `groups //take a look at the groups and \
    see`,\n  `nmap -sn: Probe only (host discovery, not port scan)`, `dd              delete a line`;\n\
    - a piece of markup, of a prompt: `[[back to top](#handy-bash-one-liners)]`, `> || \\`;\n\
    - patterns of use and other languages: `grep [option] \"text string to search” directory-path`, `set pretty print \
    on`;\n\
    - what nobody can tell from a sentence: `yes anything`, `write bar alice`.\n\n\
    They are a dozen of 7975, 0.0015. A line of keys as manuals write them (`<Esc><y><y>`) goes to the shell by a rule: a shell \
    reads\nit as redirections and mostly refuses it, and it is no sentence either.\n\nA line that a shell would wait to be finished counts as run: `reedclaw route` says \
    `incomplete`\nof it, or `shell` where bash runs it as it is when nothing follows (a backslash at its end, a \
    here-document).\nThe features, the thresholds and the rules were chosen by these folds: they say a little too much.\n";

fn own_lines() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("src/route/hard_lines.tsv")
}

fn names(data: &Path) -> Names {
    let text = |name: &str| std::fs::read_to_string(data.join(name)).unwrap();
    let programs = text("installed.txt").lines().map(str::to_owned).collect();
    let mut names = Names { programs: Arc::new(programs), ..Names::default() };
    for line in text("session.txt").lines() {
        match line.split_once(' ') {
            Some(("alias", name)) => _ = names.aliases.insert(name.to_owned(), String::new()),
            Some(("function", name)) => _ = names.functions.insert(name.to_owned()),
            _ => {}
        }
    }
    names
}

fn read(path: &Path, names: &Names, is_hard: bool, is_own: bool) -> Vec<Example> {
    let text = std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let example = |row: &str| {
        let mut columns = row.splitn(if is_own { 4 } else { 3 }, '\t');
        let (label, source, line) = (columns.next()?, columns.next()?, columns.next()?);
        let features = features_of(line, &Context::new(names));
        Some(Example {
            line: line.to_owned(),
            source: if is_own { format!("own:{source}") } else { source.to_owned() },
            is_shell: label == "shell",
            is_hard,
            is_own,
            resolves: resolves(line, names),
            features: features.map(|features| features.list().iter().map(|(index, _)| *index).collect()),
        })
    };
    text.lines().filter(|row| !row.starts_with("# ")).filter_map(example).collect()
}

/// Whether the first word resolves, or is a path or syntax, by a reading of its own.
fn resolves(line: &str, names: &Names) -> bool {
    let first = line.split_whitespace().next().unwrap_or_default();
    let plain = first.trim_start_matches('\\').trim_matches(['"', '\'']);
    let assigns = first.split_once('=').is_some_and(|(name, _)| {
        !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_+[]".contains(&byte))
    });
    names.kind(plain).is_some()
        || assigns
        || first.starts_with(['.', '/', '~', '$', '(', '{', '[', '!', '^', '<', '>', '`'])
        || first.starts_with("2>")
}

fn hash(line: &str) -> u32 {
    let all = line.bytes().fold(0x811c_9dc5_u32, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193));
    (all ^ all >> 15).wrapping_mul(0x2c1b_3c6d) >> 8
}

fn train(examples: &[Example], wanted: impl Fn(&Example) -> bool) -> Weights {
    Weights::from_bytes(&train_bytes(examples, wanted))
}

/// One line as it is fitted: the weights that it sums, whether it is the shell's, and what it counts.
struct Row {
    weights: Vec<u32>,
    label: f32,
    counts: f32,
}

fn rows<'a>(examples: &[&'a Example], place: impl Fn(u32) -> Option<u32>) -> Vec<Row> {
    let row = |example: &&'a Example| Row {
        weights: example.features.iter().flatten().filter_map(|key| place(*key)).collect(),
        label: if example.is_shell { 1.0 } else { 0.0 },
        counts: match () {
            () if example.is_own => OWN_WEIGHT,
            () if example.is_hard => HARD_WEIGHT,
            () => 1.0,
        },
    };
    examples.iter().map(row).collect()
}

/// The bytes of a table. Every feature is fitted once without a limit of weights; the one that matters most of those that
/// share a slot gets it, and the table is fitted again with these alone.
fn train_bytes(examples: &[Example], wanted: impl Fn(&Example) -> bool) -> [u8; 2 * WEIGHTS] {
    let used: Vec<&Example> = examples.iter().filter(|example| example.features.is_some() && wanted(example)).collect();
    let mut lines: BTreeMap<u32, (usize, f32)> = BTreeMap::new();
    for row in rows(&used, Some) {
        let mut keys = row.weights;
        keys.sort_unstable();
        keys.dedup();
        for key in keys {
            let (count, weight) = lines.entry(key).or_default();
            *count += 1;
            *weight += row.counts;
        }
    }
    lines.retain(|key, (count, _)| *key >= OPTION_WEIGHTS as u32 && *count >= LINES_MIN);
    let places: HashMap<u32, u32> = lines.keys().copied().zip(OPTION_WEIGHTS as u32..).collect();
    let everywhere = |key| if key < OPTION_WEIGHTS as u32 { Some(key) } else { places.get(&key).copied() };
    let all = averaged(|seed| {
        fit(rows(&used, everywhere), OPTION_WEIGHTS + lines.len(), CHOOSING_EPOCHS, CHOOSING_DECAY, seed)
    });
    let mut owners = vec![(0.0_f32, None); WEIGHTS];
    for ((key, (_, weight)), fitted) in lines.iter().zip(&all[OPTION_WEIGHTS..]) {
        let (slot, tag) = slot(*key);
        let matters = fitted.abs() * weight.sqrt();
        if matters > owners[slot].0 {
            owners[slot] = (matters, Some(tag));
        }
    }
    let owned = |key| {
        let (slot, tag) = slot(key);
        (slot < OPTION_WEIGHTS || owners[slot].1 == Some(tag)).then_some(slot as u32)
    };
    let fitted = averaged(|seed| fit(rows(&used, owned), WEIGHTS, EPOCHS, DECAY, seed));
    let mut bytes = [0; 2 * WEIGHTS];
    for (at, (weight, (_, tag))) in fitted.iter().zip(&owners).enumerate() {
        bytes[at] = ((weight / STEP).round().clamp(-127.0, 127.0) as i8).cast_unsigned();
        bytes[WEIGHTS + at] = tag.unwrap_or(0);
    }
    bytes
}

/// The mean of some fits in different orders of the lines.
fn averaged(fitted: impl Fn(u64) -> Vec<f32>) -> Vec<f32> {
    let mut mean = fitted(0);
    for seed in 1..FITS {
        mean.iter_mut().zip(fitted(seed)).for_each(|(sum, weight)| *sum += weight);
    }
    mean.iter_mut().for_each(|sum| *sum /= FITS as f32);
    mean
}

/// Logistic regression, by stochastic steps whose length AdaGrad sets, in an order that is the same on each run.
fn fit(mut rows: Vec<Row>, count: usize, epochs: usize, decay: f32, seed: u64) -> Vec<f32> {
    let mut weights = vec![0.0_f32; count];
    let mut squares = vec![1e-1_f32; count];
    let mut sums = vec![0.0_f32; count];
    let mut random = 0x2545_f491_4f6c_dd1d_u64 ^ seed.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    for epoch in 0..epochs {
        for last in (1..rows.len()).rev() {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            rows.swap(last, (random >> 33) as usize % (last + 1));
        }
        let rate = RATE * (1.0 - epoch as f32 / epochs as f32).max(0.05);
        for row in &rows {
            let score: f32 = row.weights.iter().map(|index| weights[*index as usize]).sum();
            let error = row.counts * (row.label - 1.0 / (1.0 + (-score).exp()));
            for index in &row.weights {
                let index = *index as usize;
                let step = error - decay * row.counts * weights[index];
                squares[index] += step * step;
                weights[index] += rate * step / squares[index].sqrt();
                if index < OPTION_WEIGHTS {
                    weights[index] = weights[index].max(0.0);
                }
            }
        }
        // The mean of the later epochs is steadier than the last one.
        if epoch >= epochs / 3 {
            sums.iter_mut().zip(&weights).for_each(|(sum, weight)| *sum += weight);
        }
    }
    let later = (epochs - epochs / 3) as f32;
    sums.into_iter().map(|sum| sum / later).collect()
}

fn context<'a>(names: &'a Names, weights: &'a Weights) -> Context<'a> {
    Context { weights, ..Context::new(names) }
}

fn judge(
    examples: &[Example],
    names: &Names,
    weights: &Weights,
    wanted: impl Fn(&Example) -> bool,
    verdicts: &mut [(Route, &'static str)],
) {
    for (example, verdict) in examples.iter().zip(verdicts).filter(|(example, _)| wanted(example)) {
        let decided = decide(&example.line, &context(names, weights));
        *verdict = (decided.route, decided.rule);
    }
}

fn table(report: &mut String, examples: &[Example], verdicts: &[(Route, &'static str)]) {
    table_of(report, "collected", examples, verdicts, |example| !example.is_hard);
    table_of(report, "hard", examples, verdicts, |example| example.is_hard && !example.is_own);
    table_of(report, "own", examples, verdicts, |example| example.is_own);
}

fn table_of(
    report: &mut String,
    title: &str,
    examples: &[Example],
    verdicts: &[(Route, &'static str)],
    wanted: impl Fn(&Example) -> bool,
) {
    let lines: Vec<_> = examples.iter().zip(verdicts).filter(|(example, _)| wanted(example)).collect();
    let share = |among: &dyn Fn(&Example) -> bool, hit: &dyn Fn(&Example, Route) -> bool| {
        let among: Vec<_> = lines.iter().filter(|(example, _)| among(example)).collect();
        let hits = among.iter().filter(|(example, verdict)| hit(example, verdict.0)).count();
        format!("{:.4} ({hits} of {})", hits as f64 / among.len().max(1) as f64, among.len())
    };
    let shell = |example: &Example| example.is_shell && example.resolves;
    let sentence = |example: &Example| !example.is_shell;
    let rows = [
        ("shell, first word resolves: strictly", share(&shell, &|_, route| route == Route::Shell)),
        ("the same, asked or run", share(&shell, &|_, route| route != Route::Ask)),
        (
            "of those run, the shell would wait for more",
            share(&shell, &|example, route| route == Route::Shell && is_incomplete(&example.line)),
        ),
        ("shell, all: strictly", share(&|example| example.is_shell, &|_, route| route == Route::Shell)),
        ("sentences: strictly", share(&sentence, &|_, route| route == Route::Ask)),
        ("sentences: not run", share(&sentence, &|_, route| route != Route::Shell)),
        (
            "sentences run, first word resolves",
            share(&sentence, &|example, route| example.resolves && route == Route::Shell),
        ),
        ("asked", share(&|_| true, &|_, route| route == Route::Confirm)),
    ];
    writeln!(report, "| {title} | share (lines) |\n|---|---|").unwrap();
    for (name, share) in rows {
        writeln!(report, "| {name} | {share} |").unwrap();
    }
    report.push('\n');
}

fn categories(report: &mut String, examples: &[Example], verdicts: &[(Route, &'static str)]) {
    let mut counts: BTreeMap<(&str, bool), [usize; 4]> = BTreeMap::new();
    for (example, (route, _)) in examples.iter().zip(verdicts) {
        let count = counts.entry((&example.source, example.is_shell)).or_default();
        count[0] += 1;
        count[match route {
            Route::Confirm => 2,
            Route::Shell if example.is_shell => 1,
            Route::Ask if !example.is_shell => 1,
            _ => 3,
        }] += 1;
    }
    writeln!(
        report,
        "| category | label | lines | right | asked | wrong | share right |\n|---|---|---|---|---|---|---|"
    )
    .unwrap();
    for ((source, is_shell), [all, right, asked, wrong]) in counts {
        let label = if is_shell { "shell" } else { "sentence" };
        let share = right as f64 / all as f64;
        writeln!(report, "| {source} | {label} | {all} | {right} | {asked} | {wrong} | {share:.3} |").unwrap();
    }
}

/// Each hard category judged by weights that have seen none of it.
fn left_out(report: &mut String, examples: &[Example], names: &Names, verdicts: &mut [(Route, &'static str)]) {
    let mut categories: Vec<&str> = examples
        .iter()
        .filter(|example| example.is_hard && !example.is_own)
        .map(|example| example.source.trim_start_matches("hard:"))
        .collect();
    categories.sort_unstable();
    categories.dedup();
    report.push_str("\n## Leave-category-out: each hard category judged without any line of it\n\n");
    let of = |example: &Example, category: &str| {
        example.is_hard && example.source.split_once(':').is_some_and(|(_, name)| name == category)
    };
    for category in categories {
        let weights = train(examples, |example| !of(example, category));
        judge(examples, names, &weights, |example| of(example, category) && !example.is_own, verdicts);
    }
    table_of(report, "hard", examples, verdicts, |example| example.is_hard && !example.is_own);
    categories_hard(report, examples, verdicts);
}

fn categories_hard(report: &mut String, examples: &[Example], verdicts: &[(Route, &'static str)]) {
    let mut counts: BTreeMap<&str, [usize; 3]> = BTreeMap::new();
    for (example, (route, _)) in examples.iter().zip(verdicts).filter(|(it, _)| it.is_hard && !it.is_own) {
        let count = counts.entry(&example.source).or_default();
        let right = (*route == Route::Shell) == example.is_shell && *route != Route::Confirm;
        count[0] += 1;
        count[if right { 1 } else { 2 }] += 1;
    }
    let rows: Vec<String> =
        counts.iter().map(|(source, [all, right, _])| format!("{} {right}/{all}", &source[5..])).collect();
    writeln!(report, "{}", rows.join(", ")).unwrap();
}

/// Prints what the cross-validation got wrong: in how many of the splits, and the line.
fn errors(examples: &[Example], names: &Names) {
    let mut wrong: BTreeMap<usize, (u32, String)> = BTreeMap::new();
    for split in 0..SPLITS {
        let mut verdicts = vec![None; examples.len()];
        for fold in 0..FOLDS {
            let weights = train(examples, |example| example.fold(split) != fold);
            for (example, verdict) in examples.iter().zip(&mut verdicts).filter(|(it, _)| it.fold(split) == fold) {
                *verdict = Some(decide(&example.line, &context(names, &weights)));
            }
        }
        for (at, (example, verdict)) in examples.iter().zip(verdicts).enumerate() {
            let Some(verdict) = verdict else { continue };
            let right = if example.is_shell { Route::Shell } else { Route::Ask };
            if verdict.route != right {
                let found = wrong.entry(at).or_default();
                found.0 += 1;
                write!(found.1, " {:?}:{:.2}:{}", verdict.route, verdict.score, verdict.rule).unwrap();
            }
        }
    }
    for (at, (count, how)) in wrong {
        let example = &examples[at];
        let kind = match example {
            _ if example.is_own => "OWN",
            _ if example.is_hard => "HARD",
            _ => "DEV",
        };
        println!("{kind}\t{count}\t{}\t{}\t{}\t{}", example.source, example.resolves, example.line, how.trim());
    }
}

fn timing(examples: &[Example], names: &Names, weights: &Weights) {
    let context = context(names, weights);
    let mut times: Vec<u128> = examples
        .iter()
        .map(|example| {
            let began = Instant::now();
            std::hint::black_box(decide(&example.line, &context));
            began.elapsed().as_nanos()
        })
        .collect();
    times.sort_unstable();
    let mean = times.iter().sum::<u128>() / times.len() as u128;
    eprintln!(
        "time of a line: mean {mean} ns, p50 {} ns, p99 {} ns",
        times[times.len() / 2],
        times[times.len() * 99 / 100]
    );
}
