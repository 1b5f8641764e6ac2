//! Ctrl-R: a menu over the whole history. The line is the query while it is open; Enter puts the chosen line in its place,
//! Esc and Ctrl-G bring back what was there. It must not know what a line means.

use parking_lot::Mutex;
use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};

use nu_ansi_term::{Color, Style};
use reedline::{Completer, Editor, Menu, MenuEvent, MenuSettings, Painter, Suggestion, UndoBehavior};

use super::widget::set;
use crate::host;
use crate::repl::editing::prompt::with_tilde;
use crate::repl::editing::state::{self, SharedState};
use crate::repl::editing::writer::Writer;
use crate::repl::keys::HISTORY_MENU;
use crate::store::{Row, Search, TextMatch};

/// Lines of the history that are shown at once.
const PAGE_LINES: usize = 12;
/// Hits that are read at first: some pages. The others are read when the selection gets there.
const HITS_FIRST: usize = 48;
/// Hits that can be walked through.
const HITS_MAX: usize = 500;
/// The newest rows, in which words are also searched for by their letters alone.
const FUZZY_ROWS: usize = 10_000;
/// Columns below which only the lines are shown.
const DETAILS_COLUMNS_MIN: usize = 50;
/// Limit on the columns of a hit's directory.
const DIRECTORY_COLUMNS_MAX: usize = 24;

/// The lines to search.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Scope {
    Everywhere,
    Session,
    Directory,
    Host,
}

impl Scope {
    const ALL: [Self; 4] = [Self::Everywhere, Self::Session, Self::Directory, Self::Host];

    fn words(self) -> &'static str {
        match self {
            Self::Everywhere => "all history",
            Self::Session => "this session",
            Self::Directory => "this directory",
            Self::Host => "this machine",
        }
    }
}

/// The state of a search that the keys and the menu share.
#[derive(Clone, Default)]
pub(in crate::repl) struct Searching(Arc<Shared>);

#[derive(Default)]
struct Shared {
    open: AtomicBool,
    scope: AtomicU8,
    /// The line before, and its cursor.
    line: Mutex<Option<(String, usize)>>,
}

impl Searching {
    /// Returns whether keys are for the search.
    pub(super) fn is_open(&self) -> bool {
        self.0.open.load(Ordering::Relaxed)
    }

    /// The search is about to open.
    pub(super) fn begin(&self) {
        self.0.scope.store(0, Ordering::Relaxed);
        self.0.open.store(true, Ordering::Relaxed);
    }

    pub(super) fn end(&self) {
        self.0.open.store(false, Ordering::Relaxed);
    }

    pub(super) fn next_scope(&self) {
        self.0.scope.fetch_add(1, Ordering::Relaxed);
    }

    fn scope(&self, more: u8) -> Scope {
        Scope::ALL[usize::from(self.0.scope.load(Ordering::Relaxed).wrapping_add(more)) % Scope::ALL.len()]
    }

    fn keep_line(&self, line: String, cursor: usize) {
        *self.0.line.lock() = Some((line, cursor));
    }

    /// The line from before the search.
    pub(super) fn take_line(&self) -> Option<(String, usize)> {
        self.0.line.lock().take()
    }
}

/// The menu.
pub(in crate::repl) struct SearchMenu {
    searching: Searching,
    writer: Writer,
    state: SharedState,
    unicode: bool,
    settings: MenuSettings,
    active: bool,
    /// The menu hasn't seen the line yet.
    opening: bool,
    /// The query of the hits.
    asked: Option<(String, Scope)>,
    hits: Vec<Row>,
    /// True if the history may have more hits than were read.
    has_more: bool,
    /// The hits as reedline wants them.
    values: Vec<Suggestion>,
    /// The newest rows of a scope.
    newest: RefCell<Option<(Scope, Vec<Row>)>>,
    selected: usize,
    /// The hit in the first row.
    first: usize,
    rows: usize,
    columns: usize,
}

impl SearchMenu {
    /// Makes it.
    pub(in crate::repl) fn new(searching: Searching, writer: Writer, state: SharedState, unicode: bool) -> Self {
        Self {
            searching,
            writer,
            state,
            unicode,
            settings: MenuSettings::default().with_name(HISTORY_MENU).with_marker("history: "),
            active: false,
            opening: false,
            asked: None,
            hits: Vec::new(),
            has_more: false,
            values: Vec::new(),
            newest: RefCell::default(),
            selected: 0,
            first: 0,
            rows: PAGE_LINES,
            columns: 80,
        }
    }

    /// Saves the line, and marks all of it: it is the first query, and the first character typed replaces it.
    fn open(&mut self, editor: &mut Editor) {
        let line = editor.get_buffer().to_owned();
        let end = line.len();
        self.searching.keep_line(line, editor.line_buffer().insertion_point());
        editor.edit_buffer(
            |buffer| {
                buffer.set_insertion_point(0);
                buffer.move_head(end, end > 0);
            },
            UndoBehavior::MoveCursor,
        );
    }

    /// Returns whether the hits are those of a query.
    fn has_asked(&self, query: &str) -> bool {
        self.asked.as_ref().is_some_and(|(asked, of)| asked == query && *of == self.searching.scope(0))
    }

    fn find(&mut self, query: &str) {
        let scope = self.searching.scope(0);
        if self.has_asked(query) {
            return;
        }
        (self.selected, self.first) = (0, 0);
        self.read(query, scope, HITS_FIRST);
        if self.has_more && self.hits.len() < PAGE_LINES {
            self.read(query, scope, HITS_MAX);
        }
        self.asked = Some((query.to_owned(), scope));
    }

    fn read(&mut self, query: &str, scope: Scope, limit: usize) {
        (self.hits, self.has_more) = self.hits_of(query, scope, limit);
        let value = |row: &Row| Suggestion { value: row.entry.line.clone(), ..Suggestion::default() };
        self.values = self.hits.iter().map(value).collect();
    }

    /// The hits of a query, the best first, and whether the history may have more of them.
    fn hits_of(&self, query: &str, scope: Scope, limit: usize) -> (Vec<Row>, bool) {
        let words: Vec<String> = query.to_lowercase().split_whitespace().map(str::to_owned).collect();
        let text = if words.is_empty() { TextMatch::Any } else { TextMatch::Words(words.clone()) };
        let mut rows = self.search(scope, text, limit);
        let has_more = rows.len() >= limit && limit < HITS_MAX;
        if rows.len() < PAGE_LINES && !words.is_empty() {
            rows.extend(self.fuzzy(scope, &words));
        }
        let mut seen = std::collections::HashSet::new();
        rows.retain(|row| !row.entry.line.trim().is_empty() && seen.insert(row.entry.line.trim().to_owned()));
        (rows, has_more)
    }

    /// Reads all hits that can be walked through. The selection stays on its line, whatever has been run meanwhile.
    fn read_more(&mut self) {
        let Some((query, scope)) = self.asked.clone() else { return };
        let shown = self.hits.get(self.selected).map(|row| row.entry.line.clone());
        self.read(&query, scope, HITS_MAX);
        let same = |row: &Row| Some(row.entry.line.trim()) == shown.as_deref().map(str::trim);
        if let Some(at) = self.hits.iter().position(same) {
            self.selected = at;
        }
    }

    fn search(&self, scope: Scope, text: TextMatch, limit: usize) -> Vec<Row> {
        let mut search = Search { text, plain_only: true, limit: Some(limit), ..Search::default() };
        {
            let state = state::read(&self.state);
            match scope {
                Scope::Everywhere => {}
                Scope::Session => search.session = Some(state.session),
                Scope::Directory => search.cwd = Some(state.cwd.display().to_string()),
                Scope::Host => search.hostname.clone_from(&state.host),
            }
        }
        let mut store = self.writer.store();
        store.search(&search).unwrap_or_else(|problem| {
            store.note_read_problem(problem);
            Vec::new()
        })
    }

    /// Lines that hold the letters of each word in their order, the closest together first.
    fn fuzzy(&self, scope: Scope, words: &[String]) -> Vec<Row> {
        let mut newest = self.newest.borrow_mut();
        if newest.as_ref().is_none_or(|(of, _)| *of != scope) {
            *newest = Some((scope, self.search(scope, TextMatch::Any, FUZZY_ROWS)));
        }
        let rows = newest.as_ref().map_or(&[][..], |(_, rows)| rows);
        let mut found: Vec<(usize, &Row)> = rows
            .iter()
            .filter_map(|row| {
                let line = row.entry.line.to_lowercase();
                let spread: Option<usize> = words.iter().map(|word| spread(&line, word)).sum();
                Some((spread?, row))
            })
            .collect();
        found.sort_by_key(|(spread, _)| *spread);
        found.into_iter().take(HITS_MAX).map(|(_, row)| row.clone()).collect()
    }

    fn move_by(&mut self, steps: isize) {
        if self.has_more && self.selected.saturating_add_signed(steps) >= self.hits.len() {
            self.read_more();
        }
        let last = self.hits.len().saturating_sub(1);
        self.selected = self.selected.saturating_add_signed(steps).min(last);
    }

    fn rows_shown(&self) -> usize {
        self.rows.min(self.hits.len().max(1))
    }

    /// One hit: the line, and at the right edge where and when it ran and how it ended.
    fn row(&self, index: usize, row: &Row, color: bool, now: i64) -> String {
        let selected = index == self.selected;
        let mark = match (selected, self.unicode) {
            (false, _) => "  ",
            (true, true) => "▸ ",
            (true, false) => "> ",
        };
        let details = if self.columns < DETAILS_COLUMNS_MIN { String::new() } else { self.details(row, now) };
        let width = crate::render::text::width;
        let room = self.columns.saturating_sub(width(mark) + width(&details) + 2);
        let line = one_row(&row.entry.line, room, self.unicode);
        let gap = " ".repeat(room.saturating_sub(width(&line)) + 1);
        if !color {
            return format!("{mark}{line}{gap}{details}");
        }
        let style = if selected { Style::new().reverse() } else { Style::new() };
        let failed = row.entry.status.is_some_and(|status| status != 0);
        let dim = if failed { Color::Red.normal() } else { Color::DarkGray.normal() };
        format!("{mark}{}{gap}{}", style.paint(line), dim.paint(details))
    }

    fn details(&self, row: &Row, now: i64) -> String {
        let state = state::read(&self.state);
        let cwd = row.entry.cwd.as_deref().map(|cwd| with_tilde(std::path::Path::new(cwd), state.home.as_deref()));
        let directory = cwd.map(|cwd| last_columns(&cwd, DIRECTORY_COLUMNS_MAX, self.unicode)).unwrap_or_default();
        let status = match row.entry.status {
            None | Some(0) => String::new(),
            Some(status) => format!(" {status}"),
        };
        format!("{directory} {:>4}{status:>4}", age(now, row.entry.time))
    }
}

/// Bytes that the characters of `word` span in `line`, in order; `None` if they don't occur in that order.
fn spread(line: &str, word: &str) -> Option<usize> {
    let first = word.chars().next()?;
    let mut best: Option<usize> = None;
    for (start, _) in line.match_indices(first).take(8) {
        let mut rest = line[start..].char_indices();
        let mut end = 0;
        if word.chars().all(|wanted| {
            rest.by_ref().find(|(_, c)| *c == wanted).is_some_and(|(at, _)| {
                end = at;
                true
            })
        }) {
            best = Some(best.map_or(end, |best| best.min(end)));
        }
    }
    best
}

/// Age, in the largest unit.
fn age(now_ms: i64, then_ms: i64) -> String {
    let seconds = (now_ms.saturating_sub(then_ms) / 1000).max(0);
    match seconds {
        _ if then_ms <= 0 => String::new(),
        0..60 => format!("{}s", seconds),
        60..3_600 => format!("{}m", seconds / 60),
        3_600..86_400 => format!("{}h", seconds / 3_600),
        86_400..31_536_000 => format!("{}d", seconds / 86_400),
        _ => format!("{}y", seconds / 31_536_000),
    }
}

/// A line in one row of the screen.
fn one_row(line: &str, columns: usize, unicode: bool) -> String {
    let flat = line.trim_end().replace('\n', if unicode { " ⏎ " } else { " \\n " }).replace('\t', " ");
    match crate::render::text::ellipsis(&flat, columns) {
        cut if !unicode && cut.len() < flat.len() && cut.ends_with('…') => cut.replace('…', "~"),
        row => row,
    }
}

/// The end of a path.
fn last_columns(path: &str, columns: usize, unicode: bool) -> String {
    let count = path.chars().count();
    if count <= columns {
        return path.to_owned();
    }
    let rest: String = path.chars().skip(count - columns + 1).collect();
    format!("{}{rest}", if unicode { "…" } else { "~" })
}

impl Menu for SearchMenu {
    fn settings(&self) -> &MenuSettings {
        &self.settings
    }

    fn is_active(&self) -> bool {
        self.active
    }

    fn set_active(&mut self, active: bool) {
        self.active = active;
    }

    fn clear_input(&mut self) {}

    fn on_activate(&mut self) {
        self.opening = true;
        self.asked = None;
    }

    fn on_deactivate(&mut self) {
        // Thousands of lines would be held in memory without a search.
        (self.hits, self.values, self.newest, self.asked) = (Vec::new(), Vec::new(), RefCell::default(), None);
        self.searching.end();
    }

    fn menu_event(&mut self, event: MenuEvent) {
        let page = isize::try_from(self.rows).unwrap_or(1);
        match event {
            MenuEvent::NextElement | MenuEvent::MoveDown | MenuEvent::MoveRight => self.move_by(1),
            MenuEvent::PreviousElement | MenuEvent::MoveUp | MenuEvent::MoveLeft => self.move_by(-1),
            MenuEvent::NextPage => self.move_by(page),
            MenuEvent::PreviousPage => self.move_by(-page),
            MenuEvent::Edit(_) => {}
            MenuEvent::Deactivate if !self.active => {}
            event => self.handle_menu_event(&event),
        }
    }

    fn can_quick_complete(&self) -> bool {
        false
    }

    fn can_partially_complete(&mut self, _: bool, editor: &mut Editor, _: &mut dyn Completer) -> bool {
        if std::mem::take(&mut self.opening) {
            self.open(editor);
            self.find(editor.get_buffer());
        }
        false
    }

    fn update_values(&mut self, editor: &mut Editor, _: &mut dyn Completer) {
        self.find(editor.get_buffer());
    }

    fn reset_position(&mut self) {}

    fn update_working_details(&mut self, editor: &mut Editor, _: &mut dyn Completer, painter: &Painter) {
        self.find(editor.get_buffer());
        self.columns = usize::from(painter.screen_width());
        self.rows = PAGE_LINES.min(usize::from(painter.screen_height()).saturating_sub(3)).max(1);
        self.first = self.first.clamp(self.selected.saturating_sub(self.rows - 1), self.selected);
    }

    fn replace_in_buffer(&self, editor: &mut Editor) {
        // Of keys that come faster than the hits are shown, the last one may follow a query that wasn't searched for.
        let query = editor.get_buffer();
        let line = if self.has_asked(query) {
            self.hits.get(self.selected).map(|row| row.entry.line.clone())
        } else {
            let (hits, _) = self.hits_of(query, self.searching.scope(0), HITS_FIRST);
            hits.into_iter().next().map(|row| row.entry.line)
        };
        if let Some(line) = line {
            let end = line.len();
            set(editor, line, end);
        }
    }

    fn menu_required_lines(&self, _: u16) -> u16 {
        u16::try_from(self.rows_shown() + 1).unwrap_or(1)
    }

    fn menu_string(&self, available_lines: u16, color: bool) -> String {
        let rows = self.rows_shown().min(usize::from(available_lines).saturating_sub(1));
        let now = host::now_unix_ms();
        let hits = self.hits.iter().enumerate().skip(self.first).take(rows);
        let mut lines: Vec<String> = hits.map(|(index, row)| self.row(index, row, color, now)).collect();
        if self.hits.is_empty() && rows > 0 {
            lines.push("  nothing found".to_owned());
        }
        let (scope, next) = (self.searching.scope(0).words(), self.searching.scope(1).words());
        let foot = one_row(&format!("  {scope}; Alt-S searches {next}"), self.columns.saturating_sub(1), self.unicode);
        lines.push(if color { Color::DarkGray.paint(foot).to_string() } else { foot });
        lines.join("\r\n")
    }

    fn min_rows(&self) -> u16 {
        self.menu_required_lines(0).min(4)
    }

    fn get_values(&self) -> &[Suggestion] {
        &self.values
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proto::LineKind;
    use crate::store::{Entry, Store};

    fn menu(lines: impl Iterator<Item = String>) -> SearchMenu {
        let mut store = Store::in_memory().unwrap();
        for (time, line) in (1..).zip(lines) {
            store.append(&Entry {
                time,
                session: 1,
                cwd: None,
                hostname: None,
                line,
                kind: LineKind::Command,
                status: Some(0),
                duration_ms: None,
            });
        }
        let writer = Writer::new(Arc::new(Mutex::new(store)));
        SearchMenu::new(Searching::default(), writer, SharedState::default(), true)
    }

    fn selected(menu: &SearchMenu) -> &str {
        &menu.hits[menu.selected].entry.line
    }

    #[test]
    fn walking_down_goes_on_beyond_the_hits_that_were_read_first() {
        let mut menu = menu((0..1_000).map(|number| format!("make {number}")));
        for query in ["", "make", "m"] {
            menu.find(query);
            assert_eq!((menu.hits.len(), selected(&menu)), (HITS_FIRST, "make 999"), "{query:?}");
            for step in 1..HITS_MAX {
                menu.move_by(1);
                assert_eq!(selected(&menu), format!("make {}", 999 - step), "{query:?}");
            }
            menu.move_by(1);
            assert_eq!(selected(&menu), "make 500", "{query:?}");
            menu.move_by(-1_000);
            assert_eq!(selected(&menu), "make 999", "{query:?}");
        }
    }

    #[test]
    fn a_line_that_was_run_often_does_not_fill_the_first_page() {
        let others = (0..20).map(|number| format!("ls {number}"));
        let mut menu = menu(others.chain((0..200).map(|_| "ls".to_owned())));
        menu.find("ls");
        assert_eq!(menu.hits.len(), 21);
        menu.move_by(1);
        assert_eq!(selected(&menu), "ls 19");
    }

    #[test]
    fn letters_in_their_order_are_found_and_the_closest_come_first() {
        assert_eq!(spread("git checkout main", "gco"), Some(9));
        assert_eq!(spread("docker run", "xyz"), None);
        assert_eq!(spread("a grep", "grep"), Some(3));
        assert!(spread("git push", "gp") < spread("grab the map", "gm"));
    }

    #[test]
    fn ages_are_short_and_long_lines_are_cut() {
        for (seconds, wanted) in
            [(0, "0s"), (59, "59s"), (60, "1m"), (7_200, "2h"), (200_000, "2d"), (70_000_000, "2y")]
        {
            assert_eq!(age(seconds * 1000 + 1, 1), wanted);
        }
        assert_eq!(one_row("a\nb", 20, true), "a ⏎ b");
        assert_eq!(one_row("abcdefgh", 5, true), "abcd…");
        assert_eq!(one_row("漢字漢字", 5, true), "漢字…");
    }
}
