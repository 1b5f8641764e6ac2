//! What is shown before a call of a model may run, and a model's own question: every byte escaped, every row broken by us.

use nu_ansi_term::{Color, Style};

use super::patch::patches;
use super::sheet::{Look, Sheet};
use super::text::{clusters, ellipsis, escape_visible};
use crate::proto::action::{Action, Effect};
use crate::proto::tool::{Overdue, Question};

/// Effects that are listed.
const EFFECTS_MAX: usize = 12;
/// Reasons that are given.
const REASONS_MAX: usize = 3;

/// All that is shown about a call: what it is, what would change, what it does, why it is asked.
#[must_use]
pub fn question_sheet(question: &Question, look: Look) -> Sheet {
    let rows = || Rows { width: look.width_columns.saturating_sub(4).max(20), color: look.color, rows: Vec::new() };
    let mut head = rows();
    head.head(&match &question.action {
        Action::Keep { .. } => "The command ran on a copy. Keep what it changed?".to_owned(),
        _ => format!("The model wants to use {} (risk: {})", escape_visible(&question.tool), question.verdict.risk),
    });
    let what = match &question.action {
        // The difference names them.
        Action::Write { .. } | Action::Edit { .. } if !question.changes.is_empty() => String::new(),
        Action::Shell { command } => command.clone(),
        Action::Write { path } => format!("writes {path}"),
        Action::Delete { path } => format!("deletes {path}"),
        Action::Edit { writes, deletes } => {
            let paths: Vec<&str> = writes.iter().chain(deletes).map(String::as_str).collect();
            format!("changes {}", paths.join(", "))
        }
        Action::Keep { command, .. } => command.clone(),
        Action::Read { path } | Action::List { path } => format!("reads {path}"),
        Action::Http { method, url } => format!("{method} {url}"),
        Action::Inert { name } | Action::External { name } => name.clone(),
    };
    head.put(Color::Cyan.normal(), &what);
    if question.changes.is_empty() || matches!(question.action, Action::Keep { .. }) {
        let text = &question.preview;
        // A CR at a line's end is shown like any other.
        let lines = text.strip_suffix('\n').unwrap_or(text).split('\n').filter(|line| !line.starts_with("# "));
        let lines = lines.filter(|_| !text.is_empty());
        lines.for_each(|line| head.put(Style::new(), if line.is_empty() { " " } else { line }));
    }
    let mut foot = rows();
    let dim = Style::new().dimmed();
    let program = question.program.as_ref().map(|program| format!(", by {program}")).unwrap_or_default();
    foot.put(dim, &format!("in {}{program}", question.cwd));
    let asking = || question.verdict.reasons.iter().filter(|reason| reason.risk == question.verdict.risk);
    // What a command did is shown above; nothing has to be foretold.
    let effects_max = if matches!(question.action, Action::Keep { .. }) { 0 } else { EFFECTS_MAX };
    for effect in question.verdict.effects.iter().take(effects_max) {
        let effect = effect.to_string();
        // What an effect says needs no reason that says it again.
        let rule = asking().find(|reason| reason.text == effect).map(|reason| format!(" (asked by: {})", reason.rule));
        foot.put(dim, &format!("it {effect}{}", rule.unwrap_or_default()));
    }
    let more = question.verdict.effects.len().saturating_sub(EFFECTS_MAX);
    if more > 0 && effects_max > 0 {
        foot.put(dim, &format!("and {more} effects more"));
    }
    let effects: Vec<String> = question.verdict.effects.iter().take(EFFECTS_MAX).map(Effect::to_string).collect();
    for reason in asking().filter(|reason| !effects.contains(&reason.text)).take(REASONS_MAX) {
        foot.put(dim, &format!("asked because: {} ({})", reason.text, reason.rule));
    }
    Sheet::new(look, head.rows, patches(&question.changes), foot.rows)
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

/// A command that still runs after its time.
#[must_use]
pub fn overdue_rows(command: &Overdue, width_columns: usize, color: bool) -> Vec<String> {
    let mut rows = Rows { width: width_columns.saturating_sub(4).max(20), color, rows: Vec::new() };
    rows.head(&format!("The command still runs after {} s", command.ran_for.as_secs()));
    // The person has read it: one row tells which it is.
    let mut put_row = |style, text: &str| rows.put(style, &ellipsis(&escape_visible(text), rows.width));
    put_row(Color::Cyan.normal(), command.command.trim());
    let dim = Style::new().dimmed();
    put_row(
        dim,
        &match &command.last_line {
            Some(line) => format!("its last line: {}", line.replace('\t', " ")),
            None => "it has printed nothing yet".to_owned(),
        },
    );
    match command.no_job {
        Some(why) => rows.put(dim, &format!("it can't go on as a job: {why}")),
        None => rows.put(dim, "a job runs on beside the model's work, and ends with reedclaw at the latest"),
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
        let reason = |rule, risk, text: &str| Reason { rule, risk, text: text.to_owned() };
        let reasons = vec![
            reason("x", Risk::High, "a\u{1b}[2Jb"),
            reason("network", Risk::High, "speaks to a.example"),
            reason("read", Risk::Low, "reads /w/b"),
        ];
        let effects = vec![Effect::Net { host: "a.example".into() }, Effect::Read { path: "/w/b".into() }];
        let question = Question {
            digest: String::new(),
            tool: "shell".into(),
            action: Action::Shell { command: "echo \u{202e}ok\r; \u{1b}[8mrm x\nsecond".into() },
            verdict: Verdict { risk: Risk::High, decision: Decision::Ask, reasons, effects, needs: vec![] },
            changes: [].into(),
            preview: "# not shown\n+a\u{200b}b\n-c".into(),
            cwd: "/w".into(),
            program: Some("/bin/echo".into()),
            may_always: false,
            only_own_shell: false,
        };
        let sheet = question_sheet(&question, Look::plain(80));
        assert_eq!(
            sheet.rows(0..sheet.len()),
            [
                "The model wants to use shell (risk: high)",
                "  echo \\u{202e}ok\\r; \\x1b[8mrm x",
                "  second",
                "  +a\\u{200b}b",
                "  -c",
                "  in /w, by /bin/echo",
                "  it speaks to a.example (asked by: network)",
                "  it reads /w/b",
                "  asked because: a\\x1b[2Jb (x)",
            ]
        );
    }

    #[test]
    fn a_command_that_still_runs_is_told_in_rows_that_fit() {
        let overdue = |command: &str, last_line: Option<&str>, no_job| Overdue {
            command: command.to_owned(),
            ran_for: std::time::Duration::from_millis(15_900),
            last_line: last_line.map(str::to_owned),
            no_job,
        };
        let rows = overdue_rows(&overdue("make\n\u{1b}[2Jtest\n", Some("a\t\u{202e}b"), None), 80, false);
        assert_eq!(
            rows,
            [
                "The command still runs after 15 s",
                "  make\\n\\x1b[2Jtest",
                "  its last line: a \\u{202e}b",
                "  a job runs on beside the model's work, and ends with reedclaw at the latest",
            ]
        );
        let rows = overdue_rows(&overdue(&"日本".repeat(99), None, Some("too many run already")), 60, false);
        assert!(rows[1].ends_with('…') && rows.iter().all(|row| crate::render::text::width(row) <= 60), "{rows:?}");
        assert_eq!(rows[2..], ["  it has printed nothing yet", "  it can't go on as a job: too many run already"]);
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
