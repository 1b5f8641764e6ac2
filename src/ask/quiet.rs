//! Times at which a key answers a question: not right after the question was drawn, and not between other keys, since
//! those were typed for something else. And the row of keys, which shows that. Must not know what is asked.

use std::time::{Duration, Instant};

use nu_ansi_term::Style;

use crate::console::Console;
use crate::render::sanitise;
use crate::render::text::width;

/// A person needs at least this long to read a question; an earlier key was meant for something else.
const AFTER_DRAWN: Duration = Duration::from_millis(500);
/// The longest pause while a person types a line. Key repeat (some 30 ms) is far below it.
const AFTER_KEY: Duration = Duration::from_millis(700);
/// A key that turned a page was meant for the question, so the next one is too. Only keys typed in one go must be
/// separated, because the keys that turn pages are letters of words as well ("by").
const AFTER_PAGING: Duration = Duration::from_millis(300);

/// The hint after a key that was ignored.
const MISSED: &str = "  (too soon: press again)";
/// Beginnings of the choices whose keys count at once: they turn pages.
const PAGING: [&str; 3] = ["down [", "up [", "end ["];

/// The time during which keys don't answer yet.
#[derive(Clone, Copy, Debug)]
pub(super) struct Quiet {
    over_at: Instant,
}

impl Quiet {
    /// Begins when a question was drawn; `last_keys` is the time of the last keys before it.
    pub(super) fn begin(drawn: Instant, last_keys: Option<Instant>) -> Self {
        let typed = last_keys.map_or(drawn, |at| at + AFTER_KEY);
        Self { over_at: typed.max(drawn + AFTER_DRAWN) }
    }

    /// Notes keys that answer nothing, or that came too early.
    pub(super) fn typed(&mut self, at: Instant) {
        self.over_at = self.over_at.max(at + AFTER_KEY);
    }

    /// Notes that a page was turned.
    pub(super) fn paged(&mut self, at: Instant) {
        self.over_at = self.over_at.max(at + AFTER_PAGING);
    }

    /// Returns whether a key that was pressed at this time is an answer.
    pub(super) fn is_over(self, at: Instant) -> bool {
        at >= self.over_at
    }

    /// The remaining time.
    pub(super) fn left(self, now: Instant) -> Duration {
        self.over_at.saturating_duration_since(now)
    }
}

/// `true` if keys answer now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Listening {
    /// Keys count.
    Yes,
    /// Not yet.
    NotYet,
    /// Not yet, and a key was ignored.
    Missed,
}

/// The row of keys below a question: dim and without its keys as long as they don't count. For a screen reader it is
/// written once, when they do.
#[derive(Debug, Default)]
pub struct KeyRow {
    shown: Option<Listening>,
    rows: usize,
    width_columns: usize,
    /// A key was ignored since the row was last written.
    is_missed: bool,
}

impl KeyRow {
    /// The number of rows that it takes now.
    pub(super) fn rows(&self) -> usize {
        self.rows
    }

    /// Forgets the row: it is gone, or other text is below it.
    pub(super) fn forget(&mut self) {
        (self.shown, self.rows) = (None, 0);
    }

    /// Draws the row, over itself if it is on the screen already. `end` follows the last key.
    pub(super) fn draw(&mut self, console: &Console, keys: &str, end: &str, listening: Listening) {
        if console.options().accessible {
            return self.say(console, keys, end, listening);
        }
        if self.shown == Some(listening) {
            return;
        }
        let columns = console.width_columns();
        let mut erase = String::new();
        if self.rows > 0 {
            // In a terminal that has become narrower, the number of rows that the old text takes is unknown.
            erase = match (columns < self.width_columns, self.rows) {
                (true, _) => "\n".to_owned(),
                (false, 1) => "\r\x1b[J".to_owned(),
                (false, rows) => format!("\r\x1b[{}A\x1b[J", rows - 1),
            };
        }
        let hint = if listening == Listening::Missed { MISSED } else { "" };
        let mut rows = rows_of_keys(&format!("{keys}{hint}"), columns.saturating_sub(1));
        self.rows = rows.len();
        let dim = |word: &str| console.paint(Style::new().dimmed(), word);
        if listening != Listening::Yes {
            rows.iter_mut().for_each(|row| *row = without_keys(row, dim));
        }
        let end = if listening == Listening::Yes { end } else { "" };
        let last = rows.last().map_or(0, |row| width(&sanitise(row)));
        console.write_open(&format!("{erase}{}{end}", rows.join("\n")), last + width(end));
        (self.shown, self.width_columns) = (Some(listening), columns);
    }

    fn say(&mut self, console: &Console, keys: &str, end: &str, listening: Listening) {
        self.is_missed |= listening == Listening::Missed;
        let is_new = self.shown.is_none();
        if listening != Listening::Yes || !(is_new || self.is_missed) {
            return;
        }
        let again = if std::mem::take(&mut self.is_missed) { "press again: " } else { "" };
        let start = if is_new { "" } else { "\n" };
        console.write(&format!("{start}{again}{keys}{end}"));
        (self.shown, self.rows) = (Some(listening), 1);
    }
}

/// Breaks a row of keys between the keys.
fn rows_of_keys(keys: &str, columns: usize) -> Vec<String> {
    let mut rows: Vec<String> = Vec::new();
    for key in keys.split("  ") {
        match rows.last_mut() {
            Some(row) if width(row) + 2 + width(key) <= columns => row.push_str(&format!("  {key}")),
            _ => rows.push(key.to_owned()),
        }
    }
    rows
}

/// The row with blanks in place of the keys that don't count yet, so that nothing moves when they do.
fn without_keys(row: &str, dim: impl Fn(&str) -> String) -> String {
    let word = |word: &str| {
        if PAGING.iter().any(|paging| word.starts_with(paging)) {
            return word.to_owned();
        }
        let name = word.split(" [").next().unwrap_or(word);
        dim(name) + &" ".repeat(width(word) - width(name))
    };
    row.split("  ").map(word).collect::<Vec<_>>().join("  ")
}

/// The largest number of rows that a row of keys takes.
pub(super) fn height(keys: &str, columns: usize) -> usize {
    rows_of_keys(&format!("{keys}{MISSED}"), columns.saturating_sub(1)).len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_of_keys_breaks_between_them() {
        assert_eq!(rows_of_keys("run it [y]  no [n, Enter]", 80), ["run it [y]  no [n, Enter]"]);
        assert_eq!(rows_of_keys("run it [y]  no [n, Enter]", 20), ["run it [y]", "no [n, Enter]"]);
        let row = without_keys("down [Space, j]  no [n, Enter]", str::to_owned);
        assert_eq!(row, "down [Space, j]  no           ");
    }

    /// Keys as they come, in milliseconds from the drawing on, and the first one that answers.
    #[test]
    fn a_key_answers_only_after_a_pause() {
        let drawn = Instant::now() + Duration::from_secs(60);
        let at = |ms: i64| match u64::try_from(ms) {
            Ok(ms) => drawn + Duration::from_millis(ms),
            Err(_) => drawn - Duration::from_millis(ms.unsigned_abs()),
        };
        let every = |step: i64, count: i64| (0..count).map(|number| 40 + number * step).collect::<Vec<_>>();
        let typing: Vec<i64> = every(110, 40);
        let repeat: Vec<i64> = every(30, 200);
        let slow: Vec<i64> = every(650, 12);
        for (before, keys, answers) in [
            (None, &[499, 1198][..], None),
            (None, &[500], Some(500)),
            (None, &[499, 1199], Some(1199)),
            (Some(-5), &[600, 1300], Some(1300)),
            (Some(-5), &[695], Some(695)),
            (Some(-5_000), &[500], Some(500)),
            (None, &typing, None),
            (None, &repeat, None),
            (Some(-80), &slow, None),
        ] {
            let mut quiet = Quiet::begin(drawn, before.map(at));
            let answered = keys.iter().find(|key| {
                let is_over = quiet.is_over(at(**key));
                quiet.typed(at(**key));
                is_over
            });
            assert_eq!(answered.copied(), answers, "{before:?} {keys:?}");
        }
    }

    /// The bytes that a row of keys writes on a terminal, for each of these.
    fn written(accessible: bool, steps: &[Listening]) -> String {
        let file = tempfile::NamedTempFile::new().unwrap();
        let options = crate::console::Options {
            color: false,
            markdown: false,
            unicode: true,
            accessible,
            keyboard_protocol: false,
        };
        let console = Console::on(options, std::sync::Arc::new(file.reopen().unwrap()));
        let mut row = KeyRow::default();
        steps.iter().for_each(|step| row.draw(&console, "yes [y]  no [n]", "  ", *step));
        std::fs::read_to_string(file.path()).unwrap()
    }

    #[test]
    fn the_row_shows_whether_keys_count_and_is_spoken_only_when_they_do() {
        use Listening::{Missed, NotYet, Yes};
        assert_eq!(written(false, &[NotYet, NotYet, Yes, Yes]), "yes      no    \r\u{1b}[Jyes [y]  no [n]  ");
        let missed = written(false, &[NotYet, Missed, Missed]);
        assert_eq!(missed, "yes      no    \r\u{1b}[Jyes      no      (too soon: press again)");
        assert_eq!(written(true, &[NotYet, Yes, Yes, NotYet, Yes]), "yes [y]  no [n]  ");
        let spoken = "press again: yes [y]  no [n]  ";
        assert_eq!(written(true, &[NotYet, Missed, Yes]), spoken);
        assert_eq!(written(true, &[Yes, Missed, Missed, Yes, Yes]), format!("yes [y]  no [n]  \r\n{spoken}"));
    }

    #[test]
    fn a_key_that_turns_a_page_delays_an_answer_only_shortly() {
        let drawn = Instant::now();
        let ms = |ms: u64| drawn + Duration::from_millis(ms);
        let mut quiet = Quiet::begin(drawn, None);
        quiet.paged(ms(900));
        assert!(!quiet.is_over(ms(1199)) && quiet.is_over(ms(1200)));
        quiet.typed(ms(1250));
        quiet.paged(ms(1300));
        assert!(!quiet.is_over(ms(1949)) && quiet.is_over(ms(1950)), "a page doesn't shorten the pause");
        assert_eq!(quiet.left(ms(1900)), Duration::from_millis(50));
    }
}
