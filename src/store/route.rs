//! The router's lessons from the user: lines that the user sent the other way, and moved weights. It must not know a
//! weight's meaning; a fingerprint identifies the set of weights, and moves of other sets are forgotten.

use rusqlite::{Connection, Transaction, params};

use super::{Store, StoreError};

/// Limit for the stored answers; the oldest are removed.
const ANSWERS_MAX: i64 = 1000;
/// Limit for the total movement of a weight: it makes a habit, not a new router.
const STEPS_MAX: i64 = 8;

/// All that was learned.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RouteMemory {
    /// Lines, and whether each was sent to the shell.
    pub answers: Vec<(String, bool)>,
    /// The number of a weight and the steps that it was moved.
    pub weights: Vec<(u16, i8)>,
}

impl Store {
    /// Reads what was learned: all answers, and the moves of the weights with this fingerprint.
    ///
    /// # Errors
    /// The database can't be read.
    pub fn route_memory(&self, fingerprint: i64) -> Result<RouteMemory, StoreError> {
        read(&self.main, fingerprint).map_err(|problem| self.fail("read", &problem))
    }

    /// Remembers where a line was sent, and moves those weights that have this fingerprint by some steps each.
    ///
    /// # Errors
    /// The database can't be written: nothing was remembered.
    pub fn remember_route(
        &mut self,
        line: &str,
        to_shell: bool,
        (fingerprint, weights): (i64, &[(u16, i8)]),
        now: i64,
    ) -> Result<(), StoreError> {
        let mut write = || {
            let transaction = self.main.transaction()?;
            remember(&transaction, line, to_shell, now)?;
            shift(&transaction, fingerprint, weights)?;
            transaction.commit()
        };
        write().map_err(|problem| self.fail("write", &problem))
    }

    /// Forgets all lessons; returns the number of lines.
    ///
    /// # Errors
    /// The database can't be written: all is still there.
    pub fn forget_routes(&mut self) -> Result<usize, StoreError> {
        let mut write = || {
            let transaction = self.main.transaction()?;
            let lines = transaction.execute("DELETE FROM route_answer", [])?;
            transaction.execute("DELETE FROM route_weight", [])?;
            transaction.commit().map(|()| lines)
        };
        write().map_err(|problem| self.fail("write", &problem))
    }
}

fn remember(transaction: &Transaction<'_>, line: &str, to_shell: bool, now: i64) -> rusqlite::Result<()> {
    transaction.execute(
        "INSERT INTO route_answer (line, time, shell) VALUES (?1, ?2, ?3)
            ON CONFLICT (line) DO UPDATE SET time = ?2, shell = ?3",
        params![line, now, to_shell],
    )?;
    transaction.execute(
        "DELETE FROM route_answer WHERE line IN
            (SELECT line FROM route_answer ORDER BY time DESC LIMIT -1 OFFSET ?1)",
        [ANSWERS_MAX],
    )?;
    Ok(())
}

fn shift(transaction: &Transaction<'_>, fingerprint: i64, weights: &[(u16, i8)]) -> rusqlite::Result<()> {
    transaction.execute("DELETE FROM route_weight WHERE fingerprint != ?1", [fingerprint])?;
    let mut add = transaction.prepare(
        "INSERT INTO route_weight (weight, steps, fingerprint) VALUES (?1, ?2, ?4)
            ON CONFLICT (weight) DO UPDATE SET steps = max(-?3, min(?3, steps + ?2))",
    )?;
    for (weight, steps) in weights {
        add.execute(params![weight, steps, STEPS_MAX, fingerprint])?;
    }
    Ok(())
}

fn read(connection: &Connection, fingerprint: i64) -> rusqlite::Result<RouteMemory> {
    let mut answers = connection.prepare("SELECT line, shell FROM route_answer")?;
    let mut weights = connection.prepare("SELECT weight, steps FROM route_weight WHERE fingerprint = ?1")?;
    let answers = answers.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?;
    let weights = weights.query_map([fingerprint], |row| Ok((row.get(0)?, row.get(1)?)))?;
    Ok(RouteMemory { answers: answers.collect::<Result<_, _>>()?, weights: weights.collect::<Result<_, _>>()? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_replaced_a_weight_moves_within_bounds_and_all_is_forgotten() {
        let mut store = Store::in_memory().unwrap();
        for turn in 0..10 {
            store.remember_route("make it so", turn % 2 == 0, (1, &[(7, 1), (9, -1)]), turn).unwrap();
        }
        store.remember_route("go on", true, (1, &[]), 11).unwrap();
        let mut memory = store.route_memory(1).unwrap();
        memory.answers.sort();
        assert_eq!(memory.answers, [("go on".to_owned(), true), ("make it so".to_owned(), false)]);
        assert_eq!(memory.weights, [(7, 8), (9, -8)]);
        assert_eq!(store.forget_routes().unwrap(), 2);
        assert_eq!(store.route_memory(1).unwrap(), RouteMemory::default());
    }

    #[test]
    fn moves_of_other_weights_are_forgotten_and_answers_stay() {
        let mut store = Store::in_memory().unwrap();
        store.remember_route("make it so", true, (1, &[(7, 1), (9, -1)]), 1).unwrap();
        let memory = store.route_memory(2).unwrap();
        assert_eq!((memory.answers.len(), memory.weights.len()), (1, 0));
        store.remember_route("go on", true, (2, &[(7, -1)]), 2).unwrap();
        assert_eq!(store.route_memory(2).unwrap().weights, [(7, -1)]);
        let memory = store.route_memory(1).unwrap();
        assert_eq!((memory.answers.len(), memory.weights.len()), (2, 0));
    }

    #[test]
    fn an_older_file_keeps_its_answers_and_loses_moves_of_unknown_weights() {
        let dir = tempfile::tempdir().unwrap();
        Store::open(dir.path()).unwrap().remember_route("make it so", true, (1, &[(7, 1)]), 1).unwrap();
        let old = Connection::open(dir.path().join(crate::store::FILE_NAME)).unwrap();
        let before =
            "ALTER TABLE route_weight DROP COLUMN fingerprint; DROP TABLE editor_session; PRAGMA user_version = 6";
        old.execute_batch(before).unwrap();
        old.execute_batch(crate::store::tests::WITHOUT_RUNS).unwrap();
        drop(old);
        let memory = Store::open(dir.path()).unwrap().route_memory(0).unwrap();
        assert_eq!((memory.answers.len(), memory.weights.len()), (1, 0));
    }

    #[test]
    fn the_oldest_answers_leave() {
        let mut store = Store::in_memory().unwrap();
        for turn in 0..=ANSWERS_MAX {
            store.remember_route(&format!("line {turn}"), true, (1, &[]), turn).unwrap();
        }
        let memory = store.route_memory(1).unwrap();
        assert_eq!(memory.answers.len(), 1000);
        assert!(!memory.answers.iter().any(|(line, _)| line == "line 0"));
    }
}
