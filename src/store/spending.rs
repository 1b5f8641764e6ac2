//! The costs of requests to models, one row each: separate from conversations, so that a fork pays nothing twice and
//! clearing a conversation doesn't restore a budget. Knows no prices.

use rusqlite::{Connection, OptionalExtension, Row, named_params, params};

use super::{ConversationId, Store, StoreError};
use crate::proto::{Money, Spent, Usage};

/// The number of a request's row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestId(i64);

/// The selection of requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Period {
    /// Those of a conversation.
    Conversation(ConversationId),
    /// Those of the day of this time, by this machine's local clock; Unix milliseconds.
    Day(i64),
    /// Those of its month.
    Month(i64),
    /// Those of a run towards a goal.
    Run(i64),
    /// All of them.
    Ever,
}

/// Numbers of a store.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counted {
    /// Conversations that ever began, also those that were deleted.
    pub conversations: u64,
    /// Questions that are stored and whose answer failed.
    pub failures: u64,
}

/// Times at which a model was last asked, Unix milliseconds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ModelTimes {
    /// The model.
    pub model: String,
    /// Its last answer.
    pub answered: Option<i64>,
    /// The last question that it failed to answer.
    pub failed: Option<i64>,
}

/// The run that a request is made for, and the part of its work.
pub type Charge = (i64, &'static str);

/// The cost of some requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SpentSum {
    /// The number of requests.
    pub requests: u64,
    /// Those of them whose price wasn't known.
    pub unpriced: u64,
    /// Tokens read, neither from a cache nor into one.
    pub uncached_in: u64,
    /// Tokens read from a cache.
    pub cache_read: u64,
    /// Tokens written into a cache.
    pub cache_write: u64,
    /// Tokens of answers.
    pub visible_out: u64,
    /// Tokens of thoughts.
    pub reasoning_out: u64,
    /// The cost of those with a price.
    pub cost: Money,
}

impl SpentSum {
    /// Adds another sum.
    pub fn add(&mut self, other: &Self) {
        self.requests += other.requests;
        self.unpriced += other.unpriced;
        self.uncached_in += other.uncached_in;
        self.cache_read += other.cache_read;
        self.cache_write += other.cache_write;
        self.visible_out += other.visible_out;
        self.reasoning_out += other.reasoning_out;
        self.cost = self.cost.plus(other.cost);
    }

    /// All tokens that were read.
    #[must_use]
    pub fn total_in(&self) -> u64 {
        self.uncached_in + self.cache_read + self.cache_write
    }

    /// All tokens that were written.
    #[must_use]
    pub fn total_out(&self) -> u64 {
        self.visible_out + self.reasoning_out
    }
}

/// A request, as it is read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredRequest {
    /// Time when it was over, Unix milliseconds.
    pub time: i64,
    /// Its cost.
    pub spent: Spent,
    /// The model's thoughts, raw.
    pub thoughts: String,
}

const COLUMNS: &str = "conversation, time, model, served_as, uncached_in, cache_read, cache_write, visible_out,
    reasoning_out, usage, tools, thoughts, estimated_in, estimate, cost, kind, host";

impl Store {
    /// Stores the cost of a request, which may belong to a run; it never fails, see [`Store::take_problem`].
    pub fn add_request_for(
        &mut self,
        charge: Option<Charge>,
        conversation: Option<ConversationId>,
        now: i64,
        spent: &Spent,
        thoughts: &str,
    ) -> RequestId {
        let sql = format!(
            "INSERT INTO request ({COLUMNS}, run, category)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19)"
        );
        let (run, category) = charge.unzip();
        let usage = &spent.usage;
        let insert = |store: &Self, connection: &Connection| {
            connection.prepare_cached(&sql)?.insert(params![
                conversation.map(|id| store.moved.conversation(id.0)),
                now,
                spent.model,
                spent.served_as,
                stored(usage.uncached_in),
                stored(usage.cache_read),
                stored(usage.cache_write),
                stored(usage.visible_out),
                stored(usage.reasoning_out),
                usage.raw,
                spent.tools.join("\n"),
                thoughts,
                stored(spent.estimated_in),
                spent.is_estimate,
                spent.cost.map(|cost| stored(cost.pico())),
                spent.kind,
                spent.host,
                run,
                category,
            ])
        };
        RequestId(self.write(now, insert).unwrap_or(0))
    }

    /// Deletes a request's row: it was written before the request was sent, and is replaced or obsolete now.
    pub fn drop_request(&mut self, id: RequestId, now: i64) {
        let delete = |store: &Self, connection: &Connection| {
            let id = store.moved.request(id.0);
            connection.prepare_cached("DELETE FROM request WHERE id = ?1")?.execute([id])
        };
        self.write(now, delete);
    }

    /// Sums up by model, the most expensive one first.
    ///
    /// # Errors
    /// The database can't be read.
    pub fn spent_by_model(&self, period: Period) -> Result<Vec<(String, SpentSum)>, StoreError> {
        let mut found: Vec<(String, SpentSum)> = Vec::new();
        for connection in self.readers() {
            let sums = self.sums(connection, period).map_err(|problem| self.fail("read", &problem))?;
            for (model, sum) in sums {
                match found.iter_mut().find(|(name, _)| *name == model) {
                    Some((_, known)) => known.add(&sum),
                    None => found.push((model, sum)),
                }
            }
        }
        found.sort_by_key(|(_, sum)| std::cmp::Reverse((sum.cost, sum.total_in() + sum.total_out())));
        Ok(found)
    }

    /// Counts conversations and failed questions.
    ///
    /// # Errors
    /// The database can't be read.
    pub fn counted(&self) -> Result<Counted, StoreError> {
        let conversations = "SELECT coalesce(max(seq), 0) FROM sqlite_sequence WHERE name = 'conversation'";
        let failures = "SELECT count(*) FROM message WHERE state = 'failed'";
        let read = |sql: &str| self.main.query_row(sql, [], |row| count(row, 0));
        let counted = || Ok(Counted { conversations: read(conversations)?, failures: read(failures)? });
        counted().map_err(|problem| self.fail("read", &problem))
    }

    /// Reads when each model last answered and last failed to.
    ///
    /// # Errors
    /// The database can't be read.
    pub fn model_times(&self) -> Result<Vec<ModelTimes>, StoreError> {
        let sql = "SELECT model, max(answered), max(failed) FROM (
                SELECT model, time AS answered, NULL AS failed FROM request
                UNION ALL
                SELECT conversation.model, NULL, message.time FROM message
                    JOIN conversation ON conversation.id = message.conversation WHERE message.state = 'failed')
            GROUP BY model ORDER BY model";
        let row = |row: &Row<'_>| Ok(ModelTimes { model: row.get(0)?, answered: row.get(1)?, failed: row.get(2)? });
        let read =
            || -> rusqlite::Result<Vec<ModelTimes>> { self.main.prepare_cached(sql)?.query_map([], row)?.collect() };
        read().map_err(|problem| self.fail("read", &problem))
    }

    /// Sums up the requests of a period.
    ///
    /// # Errors
    /// The database can't be read.
    pub fn spent(&self, period: Period) -> Result<SpentSum, StoreError> {
        let mut sum = SpentSum::default();
        self.spent_by_model(period)?.iter().for_each(|(_, of_model)| sum.add(of_model));
        Ok(sum)
    }

    /// Reads a conversation's requests, the oldest first.
    ///
    /// # Errors
    /// The database can't be read.
    pub fn requests(&self, conversation: ConversationId) -> Result<Vec<StoredRequest>, StoreError> {
        let id = self.moved.conversation(conversation.0);
        let sql = format!("SELECT {COLUMNS} FROM request WHERE conversation = ?1 ORDER BY id");
        let read = |connection: &Connection| -> rusqlite::Result<Vec<StoredRequest>> {
            connection.prepare_cached(&sql)?.query_map([id], request_of)?.collect()
        };
        let mut found = Vec::new();
        for connection in self.readers() {
            found.extend(read(connection).map_err(|problem| self.fail("read", &problem))?);
        }
        Ok(found)
    }

    /// Reads the ratio of a model's own count to our estimate, if it was learnt.
    #[must_use]
    pub fn token_factor(&self, model: &str) -> Option<f64> {
        let sql = "SELECT factor FROM token_factor WHERE model = ?1";
        let read =
            |connection: &Connection| connection.prepare_cached(sql)?.query_row([model], |row| row.get(0)).optional();
        // An unreadable ratio counts as not learnt, since the result is an estimate in any case.
        self.readers().filter_map(|connection| read(connection).ok().flatten()).last()
    }

    /// Stores the ratio.
    pub fn learn_token_factor(&mut self, model: &str, factor: f64, now: i64) {
        let sql = "INSERT INTO token_factor (model, factor, count) VALUES (?1, ?2, 1)
            ON CONFLICT (model) DO UPDATE SET factor = excluded.factor, count = count + 1";
        self.write(now, |_, connection| connection.prepare_cached(sql)?.execute(params![model, factor]));
    }

    fn sums(&self, connection: &Connection, period: Period) -> rusqlite::Result<Vec<(String, SpentSum)>> {
        let since = |unit: &str| {
            format!("time >= 1000 * unixepoch(:value / 1000, 'unixepoch', 'localtime', 'start of {unit}', 'utc')")
        };
        let (which, value) = match period {
            Period::Conversation(id) => ("conversation = :value".to_owned(), self.moved.conversation(id.0)),
            Period::Day(now) => (since("day"), now),
            Period::Month(now) => (since("month"), now),
            Period::Run(id) => ("run = :value".to_owned(), id),
            Period::Ever => (":value = 0".to_owned(), 0),
        };
        let sql = format!(
            "SELECT model, count(*), sum(cost IS NULL), total(uncached_in), total(cache_read), total(cache_write),
                total(visible_out), total(reasoning_out), total(cost)
             FROM request WHERE {which} GROUP BY model"
        );
        let mut select = connection.prepare_cached(&sql)?;
        let rows = select.query_map(named_params! {":value": value}, |row| {
            let sum = SpentSum {
                requests: count(row, 1)?,
                unpriced: count(row, 2)?,
                uncached_in: total(row, 3)?,
                cache_read: total(row, 4)?,
                cache_write: total(row, 5)?,
                visible_out: total(row, 6)?,
                reasoning_out: total(row, 7)?,
                cost: Money::from_pico(total(row, 8)?),
            };
            Ok((row.get(0)?, sum))
        })?;
        rows.collect()
    }
}

fn request_of(row: &Row<'_>) -> rusqlite::Result<StoredRequest> {
    let tools: String = row.get(10)?;
    let usage = Usage {
        uncached_in: count(row, 4)?,
        cache_read: count(row, 5)?,
        cache_write: count(row, 6)?,
        visible_out: count(row, 7)?,
        reasoning_out: count(row, 8)?,
        raw: row.get(9)?,
        ..Usage::default()
    };
    let cost: Option<i64> = row.get(14)?;
    let spent = Spent {
        model: row.get(2)?,
        served_as: row.get(3)?,
        kind: row.get(15)?,
        host: row.get(16)?,
        tools: tools.lines().map(str::to_owned).collect(),
        usage,
        is_estimate: row.get(13)?,
        estimated_in: row.get::<_, Option<i64>>(12)?.unwrap_or(0).unsigned_abs(),
        cost: cost.map(|pico| Money::from_pico(pico.unsigned_abs())),
    };
    Ok(StoredRequest { time: row.get(1)?, spent, thoughts: row.get(11)? })
}

pub(super) fn count(row: &Row<'_>, column: usize) -> rusqlite::Result<u64> {
    Ok(row.get::<_, i64>(column)?.unsigned_abs())
}

/// A sum, which is a float so that it can't overflow; exact up to 2^53.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a float's cast saturates")]
pub(super) fn total(row: &Row<'_>, column: usize) -> rusqlite::Result<u64> {
    Ok(row.get::<_, f64>(column)? as u64)
}

/// A number of tokens in the database's range; no real server exceeds it.
fn stored(tokens: u64) -> i64 {
    i64::try_from(tokens).unwrap_or(i64::MAX)
}
