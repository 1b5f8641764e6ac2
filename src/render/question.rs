//! What is shown before a call of a model may run, and a model's own question: every byte escaped, every row broken by us.

use nu_ansi_term::{Color, Style};

use super::text::{clusters, escape_visible};
use crate::proto::action::Action;
use crate::proto::tool::Question;

/// Effects that are listed.
const EFFECTS_MAX: usize = 12;
/// Reasons that are given.
const REASONS_MAX: usize = 3;

/// All that is shown about a call: what it is, what would change, what it does, why it is asked.
#[must_use]
pub fn question_rows(question: &Question, width_columns: usize, color: bool) -> Vec<String> {
    let mut rows = Rows { width: width_columns.saturating_sub(4).max(20), color, rows: Vec::new() };
    let head = format!("The model wants to use {} (risk: {})", escape_visible(&question.tool), question.verdict.risk);
    rows.head(&head);
    let what = match &question.action {
        Action::Shell { command } => command.clone(),
        Action::Write { path } => format!("writes {path}"),
        Action::Delete { path } => format!("deletes {path}"),
        Action::Edit { writes, deletes } => {
            let paths: Vec<&str> = writes.iter().chain(deletes).map(String::as_str).collect();
            format!("changes {}", paths.join(", "))
        }
        Action::Read { path } | Action::List { path } => format!("reads {path}"),
        Action::Http { method, url } => format!("{method} {url}"),
        Action::Inert { name } | Action::External { name } => name.clone(),
    };
    rows.put(Color::Cyan.normal(), &what);
    preview(&mut rows, &question.preview);
    let dim = Style::new().dimmed();
    let program = question.program.as_ref().map(|program| format!(", by {program}")).unwrap_or_default();
    rows.put(dim, &format!("in {}{program}", question.cwd));
    for effect in question.verdict.effects.iter().take(EFFECTS_MAX) {
        rows.put(dim, &format!("it {effect}"));
    }
    let more = question.verdict.effects.len().saturating_sub(EFFECTS_MAX);
    if more > 0 {
        rows.put(dim, &format!("and {more} effects more"));
    }
    for reason in question.verdict.reasons.iter().filter(|it| it.risk == question.verdict.risk).take(REASONS_MAX) {
        rows.put(dim, &format!("asked because: {} ({})", reason.text, reason.rule));
    }
    rows.rows
}

/// What would change; the lines of a difference with their numbers, in the new text or, where they go, in the old one.
fn preview(rows: &mut Rows, text: &str) {
    let mut hunk = Hunk::default();
    // A CR at a line's end is shown like any other: a difference may be of nothing else.
    let lines = text.strip_suffix('\n').unwrap_or(text).split('\n').filter(|line| !line.starts_with("# "));
    for line in lines.filter(|_| !text.is_empty()) {
        let mark = line.as_bytes().first();
        let number = hunk.number(line);
        let style = match mark {
            Some(b'@') => Color::Cyan.normal(),
            Some(b'+' | b'-') if number.is_none() => Style::new().bold(),
            Some(b'+') => Color::Green.normal(),
            Some(b'-') => Color::Red.normal(),
            _ => Style::new(),
        };
        match number {
            Some(number) => rows.put(style, &format!("{number:>5} {line}")),
            None => rows.put(style, if line.is_empty() { " " } else { line }),
        }
    }
}

/// Where in the two texts of a difference a line stands.
#[derive(Default)]
struct Hunk {
    old_line: usize,
    new_line: usize,
    old_left: usize,
    new_left: usize,
}

impl Hunk {
    /// The number of the next line, where it is one of a change.
    fn number(&mut self, line: &str) -> Option<usize> {
        if self.old_left == 0 && self.new_left == 0 {
            if let Some(head) = Self::head(line) {
                *self = head;
            }
            return None;
        }
        let (old, new) = match line.as_bytes().first() {
            Some(b'-') => (1, 0),
            Some(b'+') => (0, 1),
            Some(b' ') => (1, 1),
            // That there is no newline at the end.
            _ => return None,
        };
        let number = if new == 0 { self.old_line } else { self.new_line };
        (self.old_line, self.new_line) = (self.old_line + old, self.new_line + new);
        (self.old_left, self.new_left) = (self.old_left.saturating_sub(old), self.new_left.saturating_sub(new));
        Some(number)
    }

    /// Reads `@@ -1,6 +1,7 @@`.
    fn head(line: &str) -> Option<Self> {
        let (old, new) = line.strip_prefix("@@ -")?.strip_suffix(" @@")?.split_once(" +")?;
        let range = |text: &str| {
            let (line, count) = text.split_once(',')?;
            Some((line.parse().ok()?, count.parse().ok()?))
        };
        let ((old_line, old_left), (new_line, new_left)) = (range(old)?, range(new)?);
        Some(Self { old_line, new_line, old_left, new_left })
    }
}

/// A question of the model's, its choices numbered.
#[must_use]
pub fn asked_rows(question: &str, choices: &[String], width_columns: usize, color: bool) -> Vec<String> {
    let mut rows = Rows { width: width_columns.saturating_sub(4).max(20), color, rows: Vec::new() };
    rows.head("The model asks:");
    rows.put(Style::new(), question);
    for (at, choice) in choices.iter().enumerate() {
        rows.put(Style::new(), &format!("{}. {choice}", at + 1));
    }
    rows.rows
}

/// The choice that a reply names by its number, else the reply.
#[must_use]
pub fn chosen(said: String, choices: &[String]) -> String {
    let number = said.trim().parse::<usize>().ok().and_then(|number| number.checked_sub(1));
    number.and_then(|at| choices.get(at).cloned()).unwrap_or(said)
}

struct Rows {
    width: usize,
    color: bool,
    rows: Vec<String>,
}

impl Rows {
    fn head(&mut self, text: &str) {
        let style = Color::Yellow.bold();
        self.rows.push(if self.color { style.paint(text).to_string() } else { text.to_owned() });
    }

    fn put(&mut self, style: Style, text: &str) {
        for line in text.lines() {
            for row in broken(&escape_visible(line), self.width) {
                let row = if self.color { style.paint(row).to_string() } else { row };
                self.rows.push(format!("  {row}"));
            }
        }
    }
}

/// Breaks a line at a width in columns, wherever that is.
fn broken(line: &str, width: usize) -> Vec<String> {
    let (mut rows, mut row, mut columns) = (Vec::new(), String::new(), 0);
    for (cluster, wide) in clusters(line) {
        if columns + wide > width {
            rows.push(std::mem::take(&mut row));
            columns = 0;
        }
        row.push_str(cluster);
        columns += wide;
    }
    rows.push(row);
    rows
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proto::action::{Decision, Reason, Risk, Verdict};

    #[test]
    fn what_could_deceive_is_shown_as_what_it_is() {
        let reasons = vec![Reason { rule: "x", risk: Risk::High, text: "a\u{1b}[2Jb".into() }];
        let question = Question {
            digest: String::new(),
            tool: "shell".into(),
            action: Action::Shell { command: "echo \u{202e}ok\r; \u{1b}[8mrm x\nsecond".into() },
            verdict: Verdict { risk: Risk::High, decision: Decision::Ask, reasons, effects: Vec::new() },
            preview: "# not shown\n+a\u{200b}b\n-c".into(),
            cwd: "/w".into(),
            program: Some("/bin/echo".into()),
            may_always: false,
        };
        let rows = question_rows(&question, 80, false);
        assert_eq!(
            rows,
            [
                "The model wants to use shell (risk: high)",
                "  echo \\u{202e}ok\\r; \\x1b[8mrm x",
                "  second",
                "  +a\\u{200b}b",
                "  -c",
                "  in /w, by /bin/echo",
                "  asked because: a\\x1b[2Jb (x)",
            ]
        );
    }

    #[test]
    fn the_lines_of_a_difference_have_numbers() {
        let old = "a\nb\n-- c\nd\n";
        let text = crate::render::diff::unified("f", Some(old), "a\nb\n++ x\r\nd\n");
        let mut rows = Rows { width: 60, color: false, rows: Vec::new() };
        preview(&mut rows, &format!("# not shown\n1 file\n{text}"));
        let numbered = ["      1  a", "      2  b", "      3 --- c", "      3 +++ x\\r", "      4  d"];
        let head = ["  1 file", "  --- f", "  +++ f", "  @@ -1,4 +1,4 @@"];
        assert_eq!(rows.rows, [&head[..], &numbered[..]].concat());
        let mut rows = Rows { width: 60, color: false, rows: Vec::new() };
        preview(&mut rows, "");
        assert_eq!(rows.rows, [""; 0]);
    }

    #[test]
    fn a_long_line_is_broken_and_loses_nothing() {
        let line = "a日本b".repeat(10);
        let rows = broken(&line, 7);
        assert_eq!(rows.concat(), line);
        assert!(rows.iter().all(|row| crate::render::text::width(row) <= 7), "{rows:?}");
        assert_eq!(broken("", 7), [""]);
    }

    #[test]
    fn a_number_names_a_choice() {
        let choices = ["red".to_owned(), "blue".to_owned()];
        for (said, meant) in [("2", "blue"), (" 1 ", "red"), ("3", "3"), ("0", "0"), ("green", "green")] {
            assert_eq!(chosen(said.to_owned(), &choices), meant);
        }
    }
}
