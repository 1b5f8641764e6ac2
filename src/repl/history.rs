//! reedline's history slot over the store: Up and Down, Ctrl-R and the hinter read our rows.
//!
//! It only reads. The loop knows a line's kind and directory and appends it with `Store::append`, so
//! [`History::save`] and [`History::update`], which reedline calls for each submitted line, write nothing. It must
//! not know what a line means.

use std::sync::MutexGuard;
use std::time::{Duration, SystemTime};

use reedline::{
    CommandLineSearch, History, HistoryItem, HistoryItemId, HistorySessionId, ReedlineError, ReedlineErrorVariants,
    SearchDirection, SearchQuery,
};

use super::writer::Writer;
use crate::store::{HistoryId, Row, Search, Store, TextMatch};

/// Most hits that one search gives: reedline's history menu asks for all of them at each key press.
const HITS_MAX: usize = 1_000;

/// The store as reedline's history.
///
/// A search never fails: an error would end reedline's `read_line`. It finds nothing instead, and the problem waits in
/// the store to be told before the next prompt. Lines with control characters are left out, for reedline would
/// write them to the terminal as they are.
pub struct HistorySlot {
    writer: Writer,
    session: Option<HistorySessionId>,
}

impl HistorySlot {
    /// Makes the slot; with a session, Up, Down and hints show that session's lines only.
    #[must_use]
    pub fn new(writer: Writer, session: Option<i64>) -> Self {
        Self { writer, session: session.map(HistorySessionId::new) }
    }

    fn store(&self) -> MutexGuard<'_, Store> {
        self.writer.store()
    }

    fn rows(&self, query: &SearchQuery) -> Vec<Row> {
        let mut store = self.store();
        let mut search = to_search(query);
        // reedline steps over a line that is the shown one again, but keeps that wish to itself: a step is a search
        // for one line after another.
        if let (Some(after), Some(1)) = (search.after, search.limit) {
            search.other_than = store.row(after).ok().flatten().map(|row| row.entry.line);
        }
        match store.search(&search) {
            Ok(rows) => rows,
            Err(problem) => {
                store.note_read_problem(problem);
                Vec::new()
            }
        }
    }
}

impl History for HistorySlot {
    /// Gives the item back and writes nothing: the loop appends the line itself.
    fn save(&mut self, item: HistoryItem) -> reedline::Result<HistoryItem> {
        Ok(item)
    }

    fn load(&self, id: HistoryItemId) -> reedline::Result<HistoryItem> {
        match self.store().row(HistoryId(id.0)) {
            Ok(Some(row)) => Ok(to_item(row)),
            Ok(None) => Err(ReedlineError(ReedlineErrorVariants::OtherHistoryError("no such line"))),
            Err(problem) => Err(std::io::Error::other(problem).into()),
        }
    }

    fn count(&self, query: SearchQuery) -> reedline::Result<i64> {
        Ok(i64::try_from(self.rows(&query).len()).unwrap_or(i64::MAX))
    }

    fn count_all(&self) -> reedline::Result<i64> {
        let count = self.store().count().map_err(std::io::Error::other)?;
        Ok(i64::try_from(count).unwrap_or(i64::MAX))
    }

    fn search(&self, query: SearchQuery) -> reedline::Result<Vec<HistoryItem>> {
        Ok(self.rows(&query).into_iter().map(to_item).collect())
    }

    /// Writes nothing: the loop notes a line's outcome itself.
    fn update(&mut self, _: HistoryItemId, _: &dyn Fn(HistoryItem) -> HistoryItem) -> reedline::Result<()> {
        Ok(())
    }

    fn clear(&mut self) -> reedline::Result<()> {
        Ok(self.store().clear().map_err(std::io::Error::other)?)
    }

    fn delete(&mut self, id: HistoryItemId) -> reedline::Result<()> {
        self.store().delete(HistoryId(id.0)).map_err(std::io::Error::other)?;
        Ok(())
    }

    fn sync(&mut self) -> std::io::Result<()> {
        Ok(())
    }

    fn session(&self) -> Option<HistorySessionId> {
        self.session
    }
}

fn to_search(query: &SearchQuery) -> Search {
    let filter = &query.filter;
    let oldest_first = query.direction == SearchDirection::Forward;
    // reedline leaves out what lies exactly at the start.
    let step = if oldest_first { 1 } else { -1 };
    let start = query.start_time.map(|time| time.timestamp_millis().saturating_add(step));
    let end = query.end_time.map(|time| time.timestamp_millis());
    let (time_min, time_max) = if oldest_first { (start, end) } else { (end, start) };
    let text = match &filter.command_line {
        None => TextMatch::Any,
        Some(CommandLineSearch::Prefix(text)) => TextMatch::Prefix(text.clone()),
        Some(CommandLineSearch::Substring(text)) => TextMatch::Substring(text.clone()),
        Some(CommandLineSearch::Exact(text)) => TextMatch::Exact(text.clone()),
    };
    let limit = query.limit.map_or(HITS_MAX, |limit| usize::try_from(limit).unwrap_or(0).min(HITS_MAX));
    Search {
        text,
        other_than: None,
        plain_only: true,
        cwd: filter.cwd_exact.clone(),
        cwd_prefix: filter.cwd_prefix.clone(),
        hostname: filter.hostname.clone(),
        session: filter.session.map(i64::from),
        kind: None,
        successful: filter.exit_successful,
        time_min,
        time_max,
        oldest_first,
        after: query.start_id.map(|id| HistoryId(id.0)),
        until: query.end_id.map(|id| HistoryId(id.0)),
        limit: Some(limit),
    }
}

fn to_item(row: Row) -> HistoryItem {
    let entry = row.entry;
    // Later than the year 9999 is a damaged number, and chrono panics where the years end.
    let known = u64::try_from(entry.time).ok().filter(|time| (1..253_402_300_800_000).contains(time));
    let mut item = HistoryItem::from_command_line(entry.line);
    item.id = Some(HistoryItemId(row.id.0));
    item.start_timestamp = known.map(|time| (SystemTime::UNIX_EPOCH + Duration::from_millis(time)).into());
    item.session_id = Some(HistorySessionId::new(entry.session));
    item.hostname = entry.hostname;
    item.cwd = entry.cwd;
    item.duration = entry.duration_ms.map(Duration::from_millis);
    item.exit_status = entry.status.map(i64::from);
    item
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use reedline::SearchFilter;

    use super::*;
    use crate::proto::LineKind;
    use crate::store::Entry;

    fn entry(time: i64, line: &str) -> Entry {
        Entry {
            time,
            session: 1,
            cwd: Some("/a".into()),
            hostname: None,
            line: line.into(),
            kind: LineKind::Command,
            status: Some(0),
            duration_ms: Some(2),
        }
    }

    fn slot(lines: &[&str]) -> (HistorySlot, Arc<Mutex<Store>>) {
        let mut store = Store::in_memory().unwrap();
        for (time, line) in (1_700_000_000_000..).zip(lines) {
            store.append(&entry(time, line));
        }
        let store = Arc::new(Mutex::new(store));
        (HistorySlot::new(Writer::new(Arc::clone(&store)), None), store)
    }

    fn texts(items: Vec<HistoryItem>) -> Vec<String> {
        items.into_iter().map(|item| item.command_line).collect()
    }

    /// The query of reedline's history cursor for one step.
    fn step(text: Option<&str>, from: Option<HistoryItemId>, direction: SearchDirection) -> SearchQuery {
        let filter = match text {
            Some(text) => SearchFilter::from_text_search(CommandLineSearch::Prefix(text.into()), None),
            None => SearchFilter::anything(None),
        };
        SearchQuery { direction, start_id: from, limit: Some(1), ..SearchQuery::last_with_search(filter) }
    }

    #[test]
    fn saving_writes_nothing_for_the_loop_does() {
        let (mut slot, _) = slot(&["ls"]);
        let item = slot.save(HistoryItem::from_command_line("pwd")).unwrap();
        assert_eq!(item.command_line, "pwd");
        slot.update(HistoryItemId(1), &|item| HistoryItem { exit_status: Some(9), ..item }).unwrap();
        assert_eq!(slot.count_all().unwrap(), 1);
        assert_eq!(slot.load(HistoryItemId(1)).unwrap().exit_status, Some(0));
    }

    #[test]
    fn an_item_carries_what_the_row_knows() {
        let (slot, store) = slot(&["ls"]);
        let item = slot.load(HistoryItemId(1)).unwrap();
        assert_eq!(item.start_timestamp.unwrap().timestamp_millis(), 1_700_000_000_000);
        assert_eq!(
            (item.cwd.as_deref(), item.exit_status, item.duration),
            (Some("/a"), Some(0), Some(Duration::from_millis(2)))
        );
        for time in [0, -5, i64::MAX] {
            let id = store.lock().unwrap().append(&entry(time, "odd"));
            assert_eq!(slot.load(HistoryItemId(id.0)).unwrap().start_timestamp, None, "{time}");
        }
        assert!(slot.load(HistoryItemId(99)).is_err());
    }

    #[test]
    fn the_hint_is_the_newest_line_with_that_prefix() {
        let (slot, _) = slot(&["cargo build", "cargo test", "ls"]);
        let hint = |text: &str| texts(slot.search(SearchQuery::last_with_prefix(text.into(), None)).unwrap());
        assert_eq!(hint("car"), ["cargo test"]);
        assert_eq!(hint("cargo b"), ["cargo build"]);
        assert_eq!(hint("argo"), Vec::<String>::new());
        let here = SearchQuery::last_with_prefix_and_cwd("car".into(), "/b".into(), None);
        assert_eq!(slot.search(here).unwrap(), []);
    }

    #[test]
    fn steps_pass_over_the_line_that_is_shown_already() {
        let (slot, _) = slot(&["cd", "ls 1", "ls", "ls", "ls"]);
        let mut at = None;
        let mut seen = Vec::new();
        while let Some(item) = slot.search(step(None, at, SearchDirection::Backward)).unwrap().pop() {
            at = item.id;
            seen.push(item.command_line);
        }
        assert_eq!(seen, ["ls", "ls 1", "cd"]);
        let next = slot.search(step(Some("ls"), at, SearchDirection::Forward)).unwrap();
        assert_eq!(texts(next), ["ls 1"]);
    }

    #[test]
    fn times_bound_a_search_as_reedline_means_it() {
        let (slot, _) = slot(&["a", "b", "c"]);
        let time = |id| slot.load(HistoryItemId(id)).unwrap().start_timestamp;
        let everything = |direction| SearchQuery::everything(direction, None);
        let older = SearchQuery { start_time: time(3), ..everything(SearchDirection::Backward) };
        assert_eq!(texts(slot.search(older).unwrap()), ["b", "a"]);
        let newer = SearchQuery { start_time: time(1), end_time: time(2), ..everything(SearchDirection::Forward) };
        assert_eq!(texts(slot.search(newer).unwrap()), ["b"]);
        let until = SearchQuery { end_id: Some(HistoryItemId(2)), ..everything(SearchDirection::Backward) };
        assert_eq!(texts(slot.search(until).unwrap()), ["c", "b"]);
        assert_eq!(slot.count(SearchQuery::all_that_contain_rev("b".into())).unwrap(), 1);
    }

    #[test]
    fn a_line_that_would_steer_the_terminal_is_not_offered() {
        let (slot, _) = slot(&["echo ok\n\tmore", "echo \u{1b}]0;x\u{7}", "echo \u{9b}2J"]);
        let found = slot.search(SearchQuery::everything(SearchDirection::Backward, None)).unwrap();
        assert_eq!(texts(found), ["echo ok\n\tmore"]);
    }

    #[test]
    fn deleting_and_clearing_reach_the_store() {
        let (mut slot, store) = slot(&["a", "b"]);
        slot.delete(HistoryItemId(1)).unwrap();
        assert_eq!(store.lock().unwrap().count().unwrap(), 1);
        slot.clear().unwrap();
        assert_eq!(slot.count_all().unwrap(), 0);
        slot.sync().unwrap();
    }

    #[test]
    fn a_session_of_its_own_is_what_reedline_asks_for() {
        let slot = HistorySlot::new(Writer::new(Arc::new(Mutex::new(Store::in_memory().unwrap()))), Some(5));
        slot.store().append(&entry(1, "mine in 1"));
        slot.store().append(&Entry { session: 5, ..entry(2, "mine in 5") });
        let found = slot.search(SearchQuery::everything(SearchDirection::Forward, slot.session())).unwrap();
        assert_eq!(texts(found), ["mine in 5"]);
    }

    /// The history menu asks for all lines at every key press.
    #[test]
    fn a_search_without_a_limit_has_one() {
        let (slot, _) = slot(&vec!["x"; HITS_MAX + 5]);
        assert_eq!(slot.search(SearchQuery::all_that_contain_rev(String::new())).unwrap().len(), HITS_MAX);
    }
}
