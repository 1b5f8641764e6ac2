//! reedline's history slot over the store: Up and Down walk through our rows, this session's first.
//!
//! It only reads. The loop knows a line's kind and directory and appends it with `Store::append`, so
//! [`History::save`] and [`History::update`], which reedline calls for each submitted line, write nothing. It must
//! not know what a line means.

use parking_lot::MutexGuard;
use std::time::{Duration, SystemTime};

use reedline::{
    CommandLineSearch, History, HistoryItem, HistoryItemId, HistorySessionId, ReedlineError, ReedlineErrorVariants,
    SearchDirection, SearchQuery,
};

use crate::repl::editing::writer::Writer;
use crate::store::{HistoryId, Row, Search, Store, StoreError, TextMatch};

/// Limit on the hits of one search.
const HITS_MAX: usize = 1_000;

/// The store as reedline's history.
///
/// A search never fails: an error would end reedline's `read_line`. It finds nothing instead, and the problem waits in
/// the store to be reported before the next prompt. Lines with control characters are left out, since reedline would
/// write them to the terminal as they are.
pub struct HistorySlot {
    writer: Writer,
    session: i64,
}

impl HistorySlot {
    /// Makes the slot of a session.
    #[must_use]
    pub fn new(writer: Writer, session: i64) -> Self {
        Self { writer, session }
    }

    fn store(&self) -> MutexGuard<'_, Store> {
        self.writer.store()
    }

    fn rows(&self, query: &SearchQuery) -> Vec<Row> {
        let mut store = self.store();
        let search = to_search(query);
        // reedline's history cursor asks for one line after another.
        let found = match search.limit {
            Some(1) => self.step(&store, search),
            _ => store.search(&search),
        };
        found.unwrap_or_else(|problem| {
            store.note_read_problem(problem);
            Vec::new()
        })
    }

    /// One step of Up or Down: through this session's lines, and beyond its oldest through those of the others. Up and
    /// Enter repeat what was typed here, whatever another terminal has run since.
    fn step(&self, store: &Store, search: Search) -> Result<Vec<Row>, StoreError> {
        let shown = search.after.and_then(|after| store.row(after).ok().flatten());
        let in_own = shown.as_ref().is_none_or(|row| row.entry.session == self.session);
        // reedline skips a line that equals the shown one, but its query doesn't ask for that.
        let base = Search { other_than: shown.map(|row| row.entry.line), ..search };
        let own = Search { session: Some(self.session), ..base.clone() };
        let others = Search { other_session: Some(self.session), ..base.clone() };
        let (first, second) = match (in_own, base.oldest_first) {
            (true, false) => (own, Some(others)),
            (true, true) => (own, None),
            (false, true) => (others, Some(own)),
            (false, false) => (others, None),
        };
        let found = store.search(&first)?;
        match second {
            Some(second) if found.is_empty() => store.search(&Search { after: None, ..second }),
            _ => Ok(found),
        }
    }
}

impl History for HistorySlot {
    /// Returns the item and writes nothing: the loop appends the line itself.
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

    /// None: reedline would leave the other sessions' lines out.
    fn session(&self) -> Option<HistorySessionId> {
        None
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
        other_session: None,
        kind: None,
        successful: filter.exit_successful,
        not_failed: false,
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
    // A time after the year 9999 is a damaged number, and chrono panics beyond its last year.
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
    use parking_lot::Mutex;
    use std::sync::Arc;

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
        (HistorySlot::new(Writer::new(Arc::clone(&store)), 1), store)
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
            let id = store.lock().append(&entry(time, "odd"));
            assert_eq!(slot.load(HistoryItemId(id.0)).unwrap().start_timestamp, None, "{time}");
        }
        assert!(slot.load(HistoryItemId(99)).is_err());
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
        assert_eq!(store.lock().count().unwrap(), 1);
        slot.clear().unwrap();
        assert_eq!(slot.count_all().unwrap(), 0);
        slot.sync().unwrap();
    }

    /// Up in one terminal recalled the last command of another: Up and Enter ran it.
    #[test]
    fn steps_go_through_the_sessions_own_lines_before_the_others() {
        let (slot, store) = slot(&["own 1"]);
        for (time, session, line) in
            [(1, 0, "imported"), (1_800_000_000_000, 7, "theirs"), (1_800_000_000_001, 1, "own 2")]
        {
            store.lock().append(&Entry { session, ..entry(time, line) });
        }
        store.lock().append(&Entry { session: 7, ..entry(1_800_000_000_002, "theirs too") });
        let mut at = None;
        let mut seen = Vec::new();
        while let Some(item) = slot.search(step(None, at, SearchDirection::Backward)).unwrap().pop() {
            at = item.id;
            seen.push(item.command_line);
        }
        assert_eq!(seen, ["own 2", "own 1", "theirs too", "theirs", "imported"]);
        while let Some(item) = slot.search(step(None, at, SearchDirection::Forward)).unwrap().pop() {
            at = item.id;
            assert_eq!(Some(item.command_line), seen.iter().rev().nth(1).cloned());
            seen.pop();
        }
        assert_eq!(seen.len(), 1);
        let prefixed = slot.search(step(Some("the"), None, SearchDirection::Backward)).unwrap();
        assert_eq!(texts(prefixed), ["theirs too"]);
    }

    #[test]
    fn a_search_without_a_limit_has_one() {
        let (slot, _) = slot(&vec!["x"; HITS_MAX + 5]);
        assert_eq!(slot.search(SearchQuery::all_that_contain_rev(String::new())).unwrap().len(), HITS_MAX);
    }
}
