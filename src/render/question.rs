//! The text shown before a model's call may run, and for a model's own question: every byte escaped, every row broken
//! by us. A gutter marks the model's own text, and never ours, so that neither can look like the other.

use nu_ansi_term::{Color, Style};

use super::patch::patches;
use super::sheet::{Look, Sheet, broken, broken_at_words, plain};
use super::text::{ellipsis, escape_visible, width};
use super::visible::{Cell, cells};
use crate::base::text::look_alikes;
use crate::proto::action::{Action, Effect};
use crate::proto::tool::{OWN_HEADING, Overdue, PRINTED, Question};

/// Effects that are listed.
const EFFECTS_MAX: usize = 12;
/// Limit for the reasons shown.
const REASONS_MAX: usize = 3;
/// The warning about a word that mixes scripts.
const MIXED: &str = "beware: a word mixes letters of two scripts; those that only look Latin are shown as \\u{...}";

/// The text about a call: its kind, its changes, its effects, the reason for the question.
#[must_use]
pub fn question_sheet(question: &Question, look: Look) -> Sheet {
    let mut head = Rows::new(look);
    head.head(&match &question.action {
        Action::Keep { .. } => "The command ran on a copy. Keep its changes?".to_owned(),
        _ if question.only_own_shell => "The command waits for a person's input".to_owned(),
        action => {
            let tool = match action {
                // The form in lists, which a person also types.
                Action::Served { server, tool, .. } => &format!("{server}.{tool}"),
                _ => &question.tool,
            };
            format!("The model wants to use {} (risk: {})", escape_visible(tool), question.verdict.risk)
        }
    });
    let cyan = Color::Cyan.normal();
    match &question.action {
        // The difference names the files.
        Action::Write { .. } | Action::Edit { .. } if !question.changes.is_empty() => {}
        Action::Shell { command } => head.theirs(cyan, command),
        Action::Write { path } => head.ours(cyan, &format!("writes {path}")),
        Action::Delete { path } => head.ours(cyan, &format!("deletes {path}")),
        Action::Edit { writes, deletes } => {
            let paths: Vec<&str> = writes.iter().chain(deletes).map(String::as_str).collect();
            head.ours(cyan, &format!("changes {}", paths.join(", ")));
        }
        Action::Keep { command, .. } => head.theirs(cyan, command),
        Action::Read { path } | Action::List { path } => head.ours(cyan, &format!("reads {path}")),
        Action::Open { paths } => head.ours(cyan, &format!("reads {}", paths.join(", "))),
        Action::Http { method, url } => head.ours(cyan, &format!("{method} {url}")),
        Action::Canvas { canvas } => head.ours(cyan, &format!("changes the canvas {canvas}")),
        Action::Inert { name } | Action::External { name } => head.ours(cyan, name),
        Action::Served { server, tool, .. } => head.ours(cyan, &format!("{tool} of the server {server}")),
    }
    let is_keep = matches!(question.action, Action::Keep { .. });
    if (question.changes.is_empty() || is_keep) && !question.preview.is_empty() {
        head.preview(question);
    }
    let mut foot = Rows::new(look);
    let dim = Style::new().dimmed();
    if head.is_mixed {
        foot.ours(Color::Yellow.normal(), MIXED);
    }
    let program = question.program.as_ref().map(|program| format!(", by {program}")).unwrap_or_default();
    foot.ours(dim, &format!("in {}{program}", question.cwd));
    let asking = || question.verdict.reasons.iter().filter(|reason| reason.risk == question.verdict.risk);
    // The results of a command are shown above, so a prediction isn't necessary. The same applies to a command that has
    // run: the rule isn't why it is asked about again.
    let effects_max = if is_keep || question.only_own_shell { 0 } else { EFFECTS_MAX };
    for effect in question.verdict.effects.iter().take(effects_max) {
        let effect = effect.to_string();
        // A reason that only repeats the effect is left out.
        let rule = asking().find(|reason| reason.text == effect).map(|reason| format!(" (rule: {})", reason.rule));
        foot.ours(dim, &format!("it {effect}{}", rule.unwrap_or_default()));
    }
    let more = question.verdict.effects.len().saturating_sub(EFFECTS_MAX);
    if more > 0 && effects_max > 0 {
        foot.ours(dim, &format!("and {more} effects more"));
    }
    let effects: Vec<String> = question.verdict.effects.iter().take(EFFECTS_MAX).map(Effect::to_string).collect();
    let reasons = asking().filter(|_| !question.only_own_shell);
    for reason in reasons.filter(|reason| !effects.contains(&reason.text)).take(REASONS_MAX) {
        foot.ours(dim, &format!("asked because: {} ({})", reason.text, reason.rule));
    }
    Sheet::new(look, head.rows, patches(&question.changes), foot.rows)
}

/// Rows of ours about a command's changes.
#[must_use]
pub fn change_rows<'a>(lines: impl Iterator<Item = &'a str>, look: Look) -> Vec<String> {
    let mut rows = Rows::new(look);
    lines.for_each(|line| rows.ours(Style::new(), line));
    rows.rows
}

/// A command that a model proposes.
#[must_use]
pub fn command_rows(command: &str, look: Look) -> Vec<String> {
    let mut rows = Rows::new(look);
    rows.theirs(Color::Cyan.normal(), command);
    if rows.is_mixed {
        rows.ours(Color::Yellow.normal(), MIXED);
    }
    rows.rows
}

/// A question in words, its choices numbered; the heading names its author.
#[must_use]
pub fn asked_rows(heading: &str, question: &str, choices: &[String], look: Look) -> Vec<String> {
    let mut rows = Rows::new(look);
    rows.head(heading);
    rows.speaker = speaker(heading);
    let mut put = |text: &str| match heading {
        OWN_HEADING => rows.ours(Style::new(), text),
        _ => rows.theirs(Style::new(), text),
    };
    put(question);
    choices.iter().enumerate().for_each(|(at, choice)| put(&format!("{}. {choice}", at + 1)));
    rows.rows
}

/// The author of a question, as its heading names it: "The server odd asks:". Others are ours.
fn speaker(heading: &str) -> String {
    let named = heading.strip_prefix("The ").and_then(|rest| Some(rest.split_once(" asks")?.0));
    named.unwrap_or("reedclaw").to_owned()
}

/// A command that still runs after its time.
#[must_use]
pub fn overdue_rows(command: &Overdue, look: Look) -> Vec<String> {
    let mut rows = Rows::new(look);
    rows.head(&format!("The command still runs after {} s", command.ran_for.as_secs()));
    // The person has read it: one row identifies it.
    let one_row = |text: &str| ellipsis(&escape_visible(text), rows.width());
    let (text, last_line) = (
        one_row(command.command.trim()),
        match &command.last_line {
            Some(line) => one_row(&format!("its last line: {}", line.replace('\t', " "))),
            None => "it has printed nothing yet".to_owned(),
        },
    );
    rows.theirs(Color::Cyan.normal(), &text);
    let dim = Style::new().dimmed();
    rows.ours(dim, &last_line);
    match command.no_job {
        Some(why) => rows.ours(dim, &format!("it can't continue as a job: {why}")),
        None => rows.ours(dim, "a job keeps running in the background until reedclaw exits"),
    }
    rows.rows
}

/// Returns the choice that a reply names by its number, else the reply.
#[must_use]
pub fn chosen(reply: String, choices: &[String]) -> String {
    let number = reply.trim().parse::<usize>().ok().and_then(|number| number.checked_sub(1));
    number.and_then(|at| choices.get(at).cloned()).unwrap_or(reply)
}

struct Rows {
    look: Look,
    rows: Vec<String>,
    /// `true` if a word of the model's text mixes scripts.
    is_mixed: bool,
    /// The author of a text that isn't ours.
    speaker: String,
}

impl Rows {
    fn new(look: Look) -> Self {
        Self { look, rows: Vec::new(), is_mixed: false, speaker: "model".to_owned() }
    }

    fn width(&self) -> usize {
        self.look.width_columns.saturating_sub(4).max(20)
    }

    fn head(&mut self, text: &str) {
        self.put([""; 2], Color::Yellow.bold(), broken_at_words(cells(text, true, false), self.columns("")));
    }

    /// A sentence of ours, broken between words. Line breaks in names are escaped.
    fn ours(&mut self, style: Style, text: &str) {
        // A name with blanks in it can't begin a row that looks like another sentence of ours.
        let gutters = ["  ", "    "];
        let columns = self.columns(gutters[1]);
        self.put(gutters, style, broken_at_words(cells(text, true, false), columns));
    }

    /// Facts about a command and its changes, which are our text except for the command's output; or the arguments of a
    /// tool, which are the model's.
    fn preview(&mut self, question: &Question) {
        let text = &question.preview;
        for line in text.strip_suffix('\n').unwrap_or(text).split('\n') {
            match (&question.action, line.strip_prefix(PRINTED)) {
                (Action::Shell { .. }, Some(printed)) => {
                    let speaker = std::mem::replace(&mut self.speaker, "command".to_owned());
                    self.theirs(Style::new(), printed);
                    self.speaker = speaker;
                }
                (Action::Shell { .. } | Action::Keep { .. }, _) => self.ours(Style::new(), line),
                _ => self.theirs(Style::new(), line),
            }
        }
    }

    /// Text of the model's or another speaker's, line by line with the gutter.
    fn theirs(&mut self, style: Style, text: &str) {
        let speaker = format!("{}: ", self.speaker);
        let gutter = match (self.look.accessible, self.look.unicode) {
            (true, _) => speaker.as_str(),
            (false, true) => "│ ",
            (false, false) => "| ",
        };
        for line in text.strip_suffix('\n').unwrap_or(text).split('\n') {
            self.is_mixed |= !look_alikes(line).is_empty();
            let columns = self.columns(gutter);
            self.put([gutter; 2], style, broken(cells(line, true, false), columns));
        }
    }

    fn columns(&self, gutter: &str) -> usize {
        self.look.width_columns.saturating_sub(2 + width(gutter)).max(20)
    }

    /// Adds a line's rows, with a gutter for the first and one for the others.
    fn put(&mut self, [first, others]: [&str; 2], style: Style, rows: Vec<Vec<Cell<'_>>>) {
        let style_of = |is_escape: bool| if is_escape { Color::Magenta.bold() } else { style };
        for (number, row) in rows.into_iter().enumerate() {
            let gutter = if number == 0 { first } else { others };
            let text = match self.look.color {
                false => plain(&row),
                true => row
                    .chunk_by(|left, right| left.is_escape == right.is_escape)
                    .map(|piece| style_of(piece[0].is_escape).paint(plain(piece)).to_string())
                    .collect(),
            };
            self.rows.push(format!("{gutter}{text}").trim_end().to_owned());
        }
    }
}

/// The first of some names from outside, in one line, with nothing hidden in them.
#[must_use]
pub fn named(names: &[String]) -> String {
    const NAMED_MAX: usize = 3;
    let first: Vec<String> = names.iter().take(NAMED_MAX).map(|name| escape_visible(name)).collect();
    let more = names.len().saturating_sub(NAMED_MAX);
    if more == 0 { first.join(", ") } else { format!("{} and {more} more", first.join(", ")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_line_of_a_question_names_its_author_to_a_screen_reader() {
        let look = Look { accessible: true, ..Look::plain(80) };
        for (heading, gutter) in [
            ("The model asks:", "model: "),
            ("The server odd asks:", "server odd: "),
            ("The server odd asks for a login:", "server odd: "),
            ("A server for this session:", "reedclaw: "),
        ] {
            let rows = asked_rows(heading, "Which one?\nSay.", &["red".into()], look);
            assert_eq!(rows[1..], ["Which one?", "Say.", "1. red"].map(|line| format!("{gutter}{line}")), "{heading}");
        }
    }

    /// A warning that a command changed protected files was drawn as the model's text.
    #[test]
    fn a_question_of_reedclaws_own_is_outside_the_gutter() {
        let text = "It changed .envrc: new. Restore it?";
        let own = asked_rows(OWN_HEADING, text, &["restore".into()], Look::plain(80));
        assert_eq!(own, [OWN_HEADING, &format!("  {text}"), "  1. restore"]);
        let models = asked_rows("The model asks:", &format!("{OWN_HEADING}\n{text}"), &[], Look::plain(80));
        assert_eq!(models, ["The model asks:", &format!("│ {OWN_HEADING}"), &format!("│ {text}")]);
    }

    use crate::proto::action::{Decision, PolicyVerdict, Reason, Risk};

    /// A row that the terminal wraps counted as one, and the earlier drawing wasn't removed completely.
    #[test]
    fn a_heading_is_broken_between_words() {
        let rows = asked_rows("The command ran on a copy. Keep its changes?", "really?", &[], Look::plain(30));
        assert_eq!(rows, ["The command ran on a copy.", "Keep its changes?", "│ really?"]);
    }

    #[test]
    fn deceptive_characters_are_shown_as_escapes() {
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
            verdict: PolicyVerdict { risk: Risk::High, decision: Decision::Ask, reasons, effects, needs: vec![] },
            changes: [].into(),
            preview: "# a comment\n+a\u{200b}b\n│ it reads nothing\n-c".into(),
            cwd: "/w".into(),
            program: Some("/bin/echo".into()),
            may_always: false,
            filled: Vec::new(),
            only_own_shell: false,
        };
        let sheet = question_sheet(&question, Look::plain(80));
        assert_eq!(
            sheet.rows(0..sheet.len()),
            [
                "The model wants to use shell (risk: high)",
                "│ echo \\u{202e}ok\\r; \\x1b[8mrm x",
                "│ second",
                "  # a comment",
                "  +a\\u{200b}b",
                "│ it reads nothing",
                "  -c",
                "  in /w, by /bin/echo",
                "  it speaks to a.example (rule: network)",
                "  it reads /w/b",
                "  asked because: a\\x1b[2Jb (x)",
            ]
        );
        let own = Question { preview: "why".into(), only_own_shell: true, ..question };
        let sheet = question_sheet(&own, Look::plain(80));
        assert_eq!(
            sheet.rows(0..sheet.len()),
            [
                "The command waits for a person's input",
                "│ echo \\u{202e}ok\\r; \\x1b[8mrm x",
                "│ second",
                "  why",
                "  in /w, by /bin/echo",
            ]
        );
    }

    #[test]
    fn an_overdue_commands_question_fits_the_width() {
        let overdue = |command: &str, last_line: Option<&str>, no_job| Overdue {
            command: command.to_owned(),
            ran_for: std::time::Duration::from_millis(15_900),
            last_line: last_line.map(str::to_owned),
            no_job,
        };
        let rows = overdue_rows(&overdue("make\n\u{1b}[2Jtest\n", Some("a\t\u{202e}b"), None), Look::plain(80));
        assert_eq!(
            rows,
            [
                "The command still runs after 15 s",
                "│ make\\n\\x1b[2Jtest",
                "  its last line: a \\u{202e}b",
                "  a job keeps running in the background until reedclaw exits",
            ]
        );
        let rows = overdue_rows(&overdue(&"日本".repeat(99), None, Some("too many run already")), Look::plain(60));
        assert!(rows[1].ends_with('…') && rows.iter().all(|row| crate::render::text::width(row) <= 60), "{rows:?}");
        assert_eq!(rows[2..], ["  it has printed nothing yet", "  it can't continue as a job: too many run already"]);
    }

    /// Without colours a command's second line could look like ours: `  in /tmp, by /bin/x`.
    #[test]
    fn a_commands_lines_cannot_look_like_ours() {
        let command = "true\n  in /tmp, by /bin/true\r\n\n  it reads /w/b\nrun once [y]";
        let ascii = Look { unicode: false, ..Look::plain(80) };
        let expected = ["true", "  in /tmp, by /bin/true\\r", "", "  it reads /w/b", "run once [y]"];
        assert_eq!(command_rows(command, ascii), expected.map(|line| format!("| {line}").trim_end().to_owned()));
        let spoken = command_rows("a\nb", Look { accessible: true, ..Look::plain(80) });
        assert_eq!(spoken, ["model: a", "model: b"]);
        // A path with a line break doesn't become a line of ours.
        let mut rows = Rows::new(ascii);
        rows.ours(Style::new(), "in /w\n  it reads nothing");
        assert_eq!(rows.rows, ["  in /w\\n  it reads nothing"]);
        // A long sentence of ours is broken between words, a name longer than the row inside it.
        let mut rows = Rows::new(Look::plain(30));
        rows.ours(Style::new(), &format!("it reads /home/{} and more", "x".repeat(24)));
        assert_eq!(rows.rows, ["  it reads", "    /home/xxxxxxxxxxxxxxxxxx", "    xxxxxx and more"]);
        // A long line has the gutter in each of its rows, and loses nothing.
        let line = "a日本b".repeat(20);
        let rows = command_rows(&line, Look::plain(30));
        assert!(rows.len() > 3 && rows.iter().all(|row| row.starts_with("│ ")), "{rows:?}");
        assert_eq!(rows.iter().map(|row| row.trim_start_matches("│ ")).collect::<String>(), line);
    }

    #[test]
    fn letters_that_only_look_latin_are_marked_in_a_command_and_a_line_says_so() {
        let rows = command_rows("\u{440}ython3 x.py # \u{43f}\u{440}\u{438}\u{432}\u{435}\u{442}", Look::plain(120));
        assert_eq!(rows[0], "│ \\u{440}ython3 x.py # привет");
        assert!(rows.len() == 2 && rows[1].starts_with("  beware: a word mixes letters"), "{rows:?}");
        assert_eq!(command_rows("echo привет Δx", Look::plain(80)).len(), 1);
        let colored = command_rows("\u{440}ython3", Look { color: true, ..Look::plain(80) });
        assert!(colored[0].contains("\u{1b}[1;35m\\u{440}"), "{colored:?}");
    }

    #[test]
    fn a_number_names_a_choice() {
        let choices = ["red".to_owned(), "blue".to_owned()];
        for (reply, meant) in [("2", "blue"), (" 1 ", "red"), ("3", "3"), ("0", "0"), ("green", "green")] {
            assert_eq!(chosen(reply.to_owned(), &choices), meant);
        }
    }
}
