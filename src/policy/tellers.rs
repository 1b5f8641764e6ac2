//! What programs tell that touch nothing: the time, numbers, processes, devices.

use super::exec::output;
use super::options::Options;
use super::run::{Run, Value};
use super::text::{self, NAME};

impl Run<'_, '_> {
    /// What `yes` prints, without an end.
    pub(super) fn yes(&mut self, words: &[String]) -> Value {
        self.flows = true;
        vec![if words.is_empty() { "y".to_owned() } else { words.join(" ") } + "\n"]
    }
}

/// The time in the form that the words ask for: what the form says itself is known.
pub(super) fn date(words: &[String]) -> Value {
    let Some(form) = words.iter().find_map(|word| word.strip_prefix('+')) else {
        return vec![format!("{NAME}\n")];
    };
    let (mut made, mut rest) = (String::new(), form.chars());
    while let Some(c) = rest.next() {
        if c != '%' {
            made.push(c);
            continue;
        }
        let letter = rest.find(|c| !c.is_ascii_digit() && !"-_^#:EO".contains(*c));
        made.extend(match letter {
            Some('%') => Some('%'),
            Some('n') => Some('\n'),
            Some('t') => Some('\t'),
            // Nothing in some languages.
            Some('p' | 'P') => None,
            _ => Some(NAME),
        });
    }
    made.push('\n');
    let may_fail = words.iter().any(|word| word.starts_with('-') && word != "-u");
    [made].into_iter().chain(may_fail.then(String::new)).collect()
}

/// A number, or nothing where it could not be told.
pub(super) fn number() -> Value {
    vec![format!("{NAME}\n"), String::new()]
}

/// What `ps` or `pgrep` prints: the numbers of all processes, where nothing in its words chooses among them.
pub(super) fn processes(name: &str, words: &[String]) -> Value {
    let is_all = if name == "pgrep" {
        let options = Options::read(words, "dFgGPrsStuUO", "delimiter pidfile group parent runstates session terminal");
        options.has("v", "inverse")
            || !options.has("PtsFr", "parent")
                && options.operands.iter().all(|it| it.chars().all(|c| ".*^$".contains(c)))
    } else {
        let every = |word: &String| match word.strip_prefix('-') {
            Some(letters) => !letters.starts_with('-') && letters.contains(['e', 'A', 'a']),
            None => word.contains(['a', 'x']) && word.chars().all(|c| c.is_ascii_lowercase()),
        };
        let first_words = words.iter().take_while(|word| !word.contains('='));
        first_words.clone().any(every) && !words.iter().any(|word| text::listed("-C -p --pid --ppid -t -q", word))
    };
    if is_all { vec![text::PROCESSES.to_string()] } else { output() }
}

/// The names of devices, where a program is asked for these and nothing else.
pub(super) fn devices(name: &str, words: &[String]) -> Value {
    let options = Options::read(
        words,
        match name {
            "lsblk" => "oxIeMT",
            "blkid" => "LUostc",
            "findmnt" => "oStTO",
            _ => "tB",
        },
        "output include exclude label uuid match-tag match-token source types",
    );
    let columns: Vec<&str> = options.values("o", "output").collect();
    let asks = |wanted: &str| columns.iter().any(|column| text::listed(wanted, &column.to_ascii_lowercase()));
    let has_path = match name {
        "lsblk" => asks("path") || options.has("p", "paths") && (columns.is_empty() || asks("name kname")),
        "blkid" => asks("device") || options.has("LU", "label"),
        "findfs" => !options.operands.is_empty(),
        "findmnt" | "df" => asks("source"),
        _ => false,
    };
    if has_path {
        return vec![format!("/dev/{NAME}\n")];
    }
    if name == "lsblk" && asks("name kname") { vec![format!("{NAME}\n")] } else { output() }
}

/// The numbers that `seq` counts.
pub(super) fn seq(words: &[String]) -> Value {
    let options = Options::read(words, "fs", "format separator");
    let form = options.values("f", "format").next();
    // A negative number isn't an option.
    let numbers: Option<Vec<i64>> = match form.is_some() || options.values("s", "separator").next().is_some() {
        true => &options.operands,
        false => words,
    }
    .iter()
    .filter(|word| !word.starts_with("-w") && !word.starts_with("-s"))
    .map(|word| word.parse().ok())
    .collect();
    let (from, step, to) = match numbers.as_deref() {
        Some([to]) => (1, 1, *to),
        Some([from, to]) => (*from, 1, *to),
        Some([from, step, to]) if *step != 0 => (*from, *step, *to),
        _ => return vec![format!("{NAME}\n")],
    };
    if (to.saturating_sub(from) / step).abs() > 16 {
        return vec![format!("{NAME}\n")];
    }
    let mut text = String::new();
    let mut at = from;
    while step > 0 && at <= to || step < 0 && at >= to {
        let number = form.map_or(at.to_string(), |form| in_form(form, at));
        text.push_str(&format!("{number}\n"));
        at += step;
    }
    vec![text]
}

/// A number in a format of `seq`, in which one `%…` stands for it.
fn in_form(form: &str, number: i64) -> String {
    let Some((before, behind)) = form.split_once('%') else { return form.to_owned() };
    let length = behind.find(|c: char| c.is_ascii_alphabetic()).map_or(behind.len(), |at| at + 1);
    let width: usize =
        behind[..length].trim_start_matches('0').trim_end_matches(|c: char| !c.is_ascii_digit()).parse().unwrap_or(0);
    format!(
        "{before}{number:0width$}{}",
        &behind[length..],
        width = if behind.starts_with('0') { width.min(32) } else { 0 }
    )
}
