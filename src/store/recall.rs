//! Full-text search over the messages of all conversations: words, prefixes, phrases, the best first. Knows nothing of
//! how a hit is shown.

use rusqlite::{Connection, params};

use super::conversation::role_of;
use super::{ConversationId, Store, StoreError};
use crate::proto::Role;

/// Where more messages match, the newest so many are ranked: a word that stands everywhere says little, and to weigh a
/// million messages for it takes longer than a person waits.
const RANKED_MESSAGES_MAX: usize = 4_000;
/// Messages that were cut off by a crash and are put into the index by one search at most.
const CATCH_UP_MESSAGES_MAX: usize = 200;
/// Words of a message around a hit.
const EXCERPT_WORDS: usize = 14;

/// A message that was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hit {
    /// Its conversation.
    pub conversation: ConversationId,
    /// When it was said, Unix milliseconds.
    pub time: i64,
    /// Who said it.
    pub role: Role,
    /// The words around the place that was found, raw.
    pub excerpt: String,
}

impl Store {
    /// Finds messages by `query`: words that must all be there, in any case and with or without their accents; `word*`
    /// for a beginning, `"two words"` for a phrase. The best comes first by BM25, of equals the newest. Rewound messages
    /// are found too, a copy in a fork isn't told a second time.
    ///
    /// # Errors
    /// The database can't be read.
    pub fn recall(&mut self, query: &str, limit: usize) -> Result<Vec<Hit>, StoreError> {
        let Some(expression) = expression(query) else { return Ok(Vec::new()) };
        let mut found = Vec::new();
        for connection in self.readers() {
            catch_up(connection);
            let more = find(connection, &expression, limit).map_err(|problem| self.fail("search", &problem))?;
            found.extend(more);
        }
        found.sort_by(|(one, a), (other, b)| one.total_cmp(other).then(b.time.cmp(&a.time)));
        let mut hits: Vec<Hit> = Vec::new();
        for (_, hit) in found {
            if !hits.iter().any(|known| known.time == hit.time && known.excerpt == hit.excerpt) {
                hits.push(hit);
            }
        }
        hits.truncate(limit);
        Ok(hits)
    }
}

/// Puts into the index what a crash kept out of it. Another session's answer that is still coming may be among it: the
/// index follows it. Where the file can't be written, those few messages aren't found.
fn catch_up(connection: &Connection) {
    let sql = "UPDATE message SET indexed = 1
        WHERE id IN (SELECT id FROM message WHERE indexed = 0 AND content != '' ORDER BY id DESC LIMIT ?1)";
    let missing = "SELECT EXISTS (SELECT 1 FROM message WHERE indexed = 0 AND content != '')";
    if connection.query_row(missing, [], |row| row.get(0)).unwrap_or(false) {
        let _ = connection.execute(sql, [CATCH_UP_MESSAGES_MAX as i64]);
    }
}

fn find(connection: &Connection, expression: &str, limit: usize) -> rusqlite::Result<Vec<(f64, Hit)>> {
    // Copies in forks are dropped later, and must not push others out.
    let limit = i64::try_from(limit.saturating_mul(4)).unwrap_or(i64::MAX);
    let sql = format!(
        "SELECT found.id, score, conversation, time, role FROM (
             SELECT rowid AS id, bm25(message_text) AS score FROM message_text WHERE message_text MATCH ?1
             ORDER BY rowid DESC LIMIT {RANKED_MESSAGES_MAX}
         ) AS found JOIN message ON message.id = found.id ORDER BY score, time DESC LIMIT ?2"
    );
    let mut select = connection.prepare_cached(&sql)?;
    let mut excerpt = connection.prepare_cached(&format!(
        "SELECT snippet(message_text, 0, '', '', '…', {EXCERPT_WORDS}) FROM message_text
         WHERE message_text MATCH ?1 AND rowid = ?2"
    ))?;
    let mut rows = select.query(params![expression, limit])?;
    let mut found = Vec::new();
    while let Some(row) = rows.next()? {
        let id: i64 = row.get(0)?;
        let hit = Hit {
            conversation: ConversationId(row.get(2)?),
            time: row.get(3)?,
            role: role_of(row.get_ref(4)?.as_str()?),
            excerpt: excerpt.query_row(params![expression, id], |row| row.get(0))?,
        };
        found.push((row.get(1)?, hit));
    }
    Ok(found)
}

/// The query in the index's own language, with nothing of that language left to the user; none where it holds no word.
fn expression(query: &str) -> Option<String> {
    let mut terms = Vec::new();
    let mut rest = query;
    loop {
        rest = rest.trim_start();
        let Some(first) = rest.chars().next() else { break };
        let (text, behind) = if first == '"' {
            rest[1..].split_once('"').unwrap_or((&rest[1..], ""))
        } else {
            let end = rest.find(|c: char| c.is_whitespace() || c == '"' || c == '*').unwrap_or(rest.len());
            rest.split_at(end)
        };
        let is_prefix = behind.starts_with('*');
        rest = behind.trim_start_matches('*');
        // Signs alone are no words; the index would find nothing by them.
        if text.chars().any(char::is_alphanumeric) {
            terms.push(format!("\"{}\"{}", text.replace('\0', " "), if is_prefix { "*" } else { "" }));
        }
    }
    (!terms.is_empty()).then(|| terms.join(" AND "))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::store::MessageState;

    fn talk(store: &mut Store, time: i64, question: &str, answer: &str) -> ConversationId {
        let talk = store.begin_conversation(time, "m");
        let mut open = store.ask(talk, time, question, None);
        store.push_piece(&mut open, answer, time);
        store.finish_message(open, MessageState::Complete, time);
        talk
    }

    fn found(store: &mut Store, query: &str) -> Vec<i64> {
        store.recall(query, 10).unwrap().into_iter().map(|hit| hit.time).collect()
    }

    #[test]
    fn words_prefixes_and_phrases_reach_the_index_as_such() {
        let table = [
            ("", None),
            ("  * \" -- ", None),
            ("one", Some("\"one\"")),
            ("one two", Some("\"one\" AND \"two\"")),
            ("conf*", Some("\"conf\"*")),
            ("\"two words\" x", Some("\"two words\" AND \"x\"")),
            ("\"not closed", Some("\"not closed\"")),
            ("\"a phr\"*", Some("\"a phr\"*")),
            ("a AND NOT (b:c)", Some("\"a\" AND \"AND\" AND \"NOT\" AND \"(b:c)\"")),
            ("don't", Some("\"don't\"")),
        ];
        for (query, wanted) in table {
            assert_eq!(expression(query).as_deref(), wanted, "{query:?}");
        }
    }

    #[test]
    fn the_best_comes_first_and_of_equals_the_newest() {
        let mut store = Store::in_memory().unwrap();
        talk(&mut store, 1, "how do I mount a disk?", "Use the mount program.");
        talk(&mut store, 2, "x", "tar unpacks; a long answer that names many things and mount among them, at the end");
        talk(&mut store, 3, "same words here", "y");
        talk(&mut store, 4, "same words here", "z");
        talk(&mut store, 5, "le café à Zürich", "configuration of the router");
        let table: [(&str, &[i64]); 9] = [
            ("mount", &[1, 1, 2]),
            ("same words", &[4, 3]),
            ("\"words same\"", &[]),
            ("\"words here\"", &[4, 3]),
            ("CAFE zurich", &[5]),
            ("conf", &[]),
            ("conf*", &[5]),
            ("\"of the rou\"*", &[5]),
            ("nothing", &[]),
        ];
        for (query, wanted) in table {
            assert_eq!(found(&mut store, query), wanted, "{query:?}");
        }
        let hit = &store.recall("tar", 1).unwrap()[0];
        assert_eq!((hit.role, hit.excerpt.starts_with("tar unpacks")), (Role::Assistant, true));
    }

    #[test]
    fn what_was_cut_off_rewound_or_forked_is_found_once() {
        let mut store = Store::in_memory().unwrap();
        let first = talk(&mut store, 1, "alpha", "beta");
        let mut open = store.ask(first, 2, "gamma", None);
        store.push_piece(&mut open, "delta", 500);
        assert_eq!(found(&mut store, "delta"), [2], "as after a crash");
        store.push_piece(&mut open, " epsilon", 900);
        store.finish_message(open, MessageState::Complete, 901);
        assert_eq!((found(&mut store, "delta"), found(&mut store, "epsilon")), (vec![2], vec![2]));
        let fork = store.fork(first, 1, 10).unwrap();
        store.rewind(first, 1).unwrap();
        assert_eq!(store.messages(fork).unwrap().len(), 2);
        assert_eq!((found(&mut store, "beta"), found(&mut store, "gamma")), (vec![1], vec![2]));
        assert_eq!(store.clear_conversations().unwrap(), 2);
        assert_eq!(found(&mut store, "beta"), Vec::<i64>::new());
        talk(&mut store, 20, "after", "beta");
        assert_eq!(found(&mut store, "beta"), [20]);
        store.main.execute_batch("INSERT INTO message_text(message_text, rank) VALUES ('integrity-check', 1)").unwrap();
    }

    proptest! {
        #[test]
        fn no_query_is_an_error(query in "[ -~\u{0}é\"*()^:+-]{0,24}") {
            let mut store = Store::in_memory().unwrap();
            talk(&mut store, 1, "a", "b");
            prop_assert!(store.recall(&query, 3).is_ok(), "{:?}", query);
        }
    }
}
