//! Full-text search over the messages of all conversations: words, prefixes, phrases, the best first. Knows nothing of
//! how a hit is shown.

use rusqlite::{Connection, params};

use crate::proto::Role;
use crate::store::conversations::conversation::role_of;
use crate::store::{ConversationId, Store, StoreError};

/// If more messages match, only the newest are ranked: a word that is everywhere distinguishes little, and ranking a
/// million messages takes longer than a person waits.
const RANKED_MESSAGES_MAX: usize = 1_000;
/// The usual parameters of BM25: how soon repetitions of a word stop counting, and the penalty for a long message.
const SATURATION: f64 = 1.2;
const LENGTH_WEIGHT: f64 = 0.75;
/// Limit on the messages cut off by a crash that one search adds to the index.
const CATCH_UP_MESSAGES_MAX: usize = 200;
/// Words of a message around a hit.
const EXCERPT_WORDS: usize = 14;

/// A message that was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hit {
    /// The message's id.
    pub message: i64,
    /// Its fitness, in thousandths: the higher, the better.
    pub score: i64,
    /// Its conversation.
    pub conversation: ConversationId,
    /// Time of the message, Unix milliseconds.
    pub time: i64,
    /// The speaker.
    pub role: Role,
    /// The words around the place that was found, raw.
    pub excerpt: String,
}

impl Store {
    /// Finds messages by `query`: words that must all be there, in any case and with or without their accents; `word*`
    /// for a beginning, `"two words"` for a phrase. The best comes first by BM25, and among equals the newest. Rewound
    /// messages are found too, copies in a fork only once.
    ///
    /// # Errors
    /// The database can't be read.
    pub fn recall(&mut self, query: &str, limit: usize) -> Result<Vec<Hit>, StoreError> {
        let terms = terms(query);
        if terms.is_empty() {
            return Ok(Vec::new());
        }
        let mut found = Vec::new();
        for connection in self.readers() {
            catch_up(connection);
            let more = find(connection, &terms, limit).map_err(|problem| self.fail("search", &problem))?;
            found.extend(more);
        }
        found.sort_by(|(one, a), (other, b)| other.total_cmp(one).then(b.time.cmp(&a.time)));
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

/// Adds the messages that a crash left out of the index. Another session's unfinished answer may be among them: the index follows
/// it. If the file can't be written, those few messages aren't found.
fn catch_up(connection: &Connection) {
    let sql = "UPDATE message SET indexed = 1
        WHERE id IN (SELECT id FROM message WHERE indexed = 0 AND content != '' ORDER BY id DESC LIMIT ?1)";
    let missing = "SELECT EXISTS (SELECT 1 FROM message WHERE indexed = 0 AND content != '')";
    if connection.query_row(missing, [], |row| row.get(0)).unwrap_or(false) {
        let _ = connection.execute(sql, [CATCH_UP_MESSAGES_MAX as i64]);
    }
}

/// A word, a beginning or a phrase of a query.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Term {
    /// Its words, in small letters.
    words: Vec<String>,
    /// The term in the index's own language, with no operators from the user.
    expression: String,
    /// True if the last word is a prefix.
    is_prefix: bool,
}

/// SQLite's own `bm25` first counts all messages of each word: for a common word of a million messages that takes longer than the
/// rest. Here only the newest of them are counted.
fn find(connection: &Connection, terms: &[Term], limit: usize) -> rusqlite::Result<Vec<(f64, Hit)>> {
    let expression = terms.iter().map(|term| term.expression.as_str()).collect::<Vec<_>>().join(" AND ");
    // The weight of a term against the others; a single term needs none.
    let weights = match terms {
        [_] => vec![1.0],
        terms => terms.iter().map(|term| weight(connection, term)).collect::<Result<Vec<f64>, _>>()?,
    };
    let mut select = connection.prepare_cached(
        "SELECT message.id, conversation, time, role, content FROM (
             SELECT rowid AS id FROM message_text WHERE message_text MATCH ?1 ORDER BY rowid DESC LIMIT ?2
         ) AS found JOIN message ON message.id = found.id",
    )?;
    let mut candidates = Vec::new();
    let mut rows = select.query(params![expression, RANKED_MESSAGES_MAX as i64])?;
    while let Some(row) = rows.next()? {
        let (length, counts) = occurrences(row.get_ref(4)?.as_str()?, terms);
        let role = role_of(row.get_ref(3)?.as_str()?);
        let (message, conversation) = (row.get(0)?, ConversationId(row.get(1)?));
        let hit = Hit { message, score: 0, conversation, time: row.get(2)?, role, excerpt: String::new() };
        candidates.push((message, hit, length, counts));
    }
    let mean_length = candidates.iter().map(|(_, _, length, _)| *length as f64).sum::<f64>() / candidates.len() as f64;
    let mut ranked: Vec<(f64, i64, Hit)> = candidates
        .into_iter()
        .map(|(id, hit, length, counts)| {
            let long = 1.0 - LENGTH_WEIGHT + LENGTH_WEIGHT * length as f64 / mean_length.max(1.0);
            let part = |(weight, count): (&f64, usize)| {
                let count = count as f64;
                weight * count * (SATURATION + 1.0) / (count + SATURATION * long)
            };
            (weights.iter().zip(counts).map(part).sum(), id, hit)
        })
        .collect();
    ranked.sort_by(|(one, a, _), (other, b, _)| other.total_cmp(one).then(b.cmp(a)));
    // Copies in forks are dropped later, and must not push others out.
    ranked.truncate(limit.saturating_mul(4));
    let mut excerpt = connection.prepare_cached(&format!(
        "SELECT snippet(message_text, 0, '', '', '…', {EXCERPT_WORDS}) FROM message_text
         WHERE message_text MATCH ?1 AND rowid = ?2"
    ))?;
    let with_excerpt = |(score, id, hit): (f64, i64, Hit)| {
        let excerpt = excerpt.query_row(params![expression, id], |row| row.get(0))?;
        Ok((score, Hit { excerpt, score: (score * 1_000.0).round() as i64, ..hit }))
    };
    ranked.into_iter().map(with_excerpt).collect()
}

/// The weight of a term: the fewer messages contain it, the higher. Their number is estimated from the density of the newest of
/// them.
fn weight(connection: &Connection, term: &Term) -> rusqlite::Result<f64> {
    let total: i64 = connection.query_row("SELECT coalesce(max(id), 0) FROM message", [], |row| row.get(0))?;
    let sql = "SELECT count(*), coalesce(min(rowid), 0) FROM
        (SELECT rowid FROM message_text WHERE message_text MATCH ?1 ORDER BY rowid DESC LIMIT ?2)";
    let (count, oldest): (i64, i64) = connection
        .prepare_cached(sql)?
        .query_row(params![term.expression, RANKED_MESSAGES_MAX as i64], |row| Ok((row.get(0)?, row.get(1)?)))?;
    let is_all = count < RANKED_MESSAGES_MAX as i64;
    let seen = if is_all { total } else { total - oldest + 1 };
    let holding = count as f64 * total as f64 / (seen.max(1) as f64);
    Ok((1.0 + (total as f64 - holding + 0.5).max(0.5) / (holding + 0.5)).ln())
}

/// The words of a message, and how often each term is among them: once at least, for the index has found it, perhaps by
/// a letter without its accent.
fn occurrences(text: &str, terms: &[Term]) -> (usize, Vec<usize>) {
    let lower = text.to_lowercase();
    let words: Vec<&str> = lower.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty()).collect();
    let count = |term: &Term| {
        let fits = |window: &&[&str]| {
            let last = term.words.len() - 1;
            window.iter().zip(&term.words).enumerate().all(|(at, (word, wanted))| {
                if term.is_prefix && at == last { word.starts_with(wanted.as_str()) } else { word == wanted }
            })
        };
        words.windows(term.words.len()).filter(fits).count().max(1)
    };
    (words.len(), terms.iter().map(count).collect())
}

/// Reads a query.
fn terms(query: &str) -> Vec<Term> {
    let mut terms = Vec::new();
    let mut rest = query;
    loop {
        rest = rest.trim_start();
        let Some(first) = rest.chars().next() else { return terms };
        let (text, behind) = if first == '"' {
            rest[1..].split_once('"').unwrap_or((&rest[1..], ""))
        } else {
            let end = rest.find(|c: char| c.is_whitespace() || c == '"' || c == '*').unwrap_or(rest.len());
            rest.split_at(end)
        };
        let is_prefix = behind.starts_with('*');
        rest = behind.trim_start_matches('*');
        let lower = text.to_lowercase();
        let split = lower.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty());
        let words: Vec<String> = split.map(str::to_owned).collect();
        // Signs alone are no words; the index would find nothing by them.
        if !words.is_empty() {
            let expression = format!("\"{}\"{}", text.replace('\0', " "), if is_prefix { "*" } else { "" });
            terms.push(Term { words, expression, is_prefix });
        }
    }
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
            ("", ""),
            ("  * \" -- ", ""),
            ("one", "\"one\""),
            ("one two", "\"one\" & \"two\""),
            ("conf*", "\"conf\"*"),
            ("\"two words\" x", "\"two words\" & \"x\""),
            ("\"not closed", "\"not closed\""),
            ("\"a phr\"*", "\"a phr\"*"),
            ("a AND NOT (b:c)", "\"a\" & \"AND\" & \"NOT\" & \"(b:c)\""),
            ("don't", "\"don't\""),
        ];
        for (query, wanted) in table {
            let expressions: Vec<String> = terms(query).into_iter().map(|term| term.expression).collect();
            assert_eq!(expressions.join(" & "), wanted, "{query:?}");
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
    fn a_rare_word_says_more_than_a_common_one_and_more_of_it_more() {
        let mut store = Store::in_memory().unwrap();
        for time in 0..30 {
            talk(&mut store, time, "common words", "common words of all");
        }
        talk(&mut store, 40, "common rare common common", "x");
        talk(&mut store, 41, "common rare rare rare", "x");
        talk(&mut store, 42, "common rare filler filler", "x");
        assert_eq!(found(&mut store, "rare common"), [41, 40, 42]);
        assert_eq!(found(&mut store, "rar*"), [41, 42, 40]);
        let query = terms("\"a b\" b c*");
        assert_eq!(occurrences("A b, a-b; b c? Cat", &query), (7, vec![2, 3, 2]));
    }

    #[test]
    fn cut_rewound_and_forked_messages_are_found_once() {
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
