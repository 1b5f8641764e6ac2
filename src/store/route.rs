//! What the router learned from the user: lines that went the other way, and moved weights. It must not know what a weight
//! stands for.

use rusqlite::{Connection, Transaction, params};

use super::{Store, StoreError};

/// Answers that are kept; the oldest leave.
const ANSWERS_MAX: i64 = 1000;
/// How far a weight may be moved in all: a habit, not a new router.
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
    /// Reads what was learned.
    ///
    /// # Errors
    /// The database can't be read.
    pub fn route_memory(&self) -> Result<RouteMemory, StoreError> {
        read(&self.main).map_err(|problem| self.fail("read", &problem))
    }

    /// Remembers where a line was sent, and moves weights by some steps each.
    ///
    /// # Errors
    /// The database can't be written: nothing was remembered.
    pub fn remember_route(
        &mut self,
        line: &str,
        to_shell: bool,
        weights: &[(u16, i8)],
        now: i64,
    ) -> Result<(), StoreError> {
        let mut write = || {
            let transaction = self.main.transaction()?;
            remember(&transaction, line, to_shell, weights, now)?;
            transaction.commit()
        };
        write().map_err(|problem| self.fail("write", &problem))
    }

    /// Forgets all that was learned; returns how many lines that were.
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

fn remember(
    transaction: &Transaction<'_>,
    line: &str,
    to_shell: bool,
    weights: &[(u16, i8)],
    now: i64,
) -> rusqlite::Result<()> {
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
    let mut add = transaction.prepare(
        "INSERT INTO route_weight (weight, steps) VALUES (?1, ?2)
            ON CONFLICT (weight) DO UPDATE SET steps = max(-?3, min(?3, steps + ?2))",
    )?;
    for (weight, steps) in weights {
        add.execute(params![weight, steps, STEPS_MAX])?;
    }
    Ok(())
}

fn read(connection: &Connection) -> rusqlite::Result<RouteMemory> {
    let mut answers = connection.prepare("SELECT line, shell FROM route_answer")?;
    let mut weights = connection.prepare("SELECT weight, steps FROM route_weight")?;
    let answers = answers.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?;
    let weights = weights.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?;
    Ok(RouteMemory { answers: answers.collect::<Result<_, _>>()?, weights: weights.collect::<Result<_, _>>()? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_replaced_a_weight_moves_within_bounds_and_all_is_forgotten() {
        let mut store = Store::in_memory().unwrap();
        for turn in 0..10 {
            store.remember_route("make it so", turn % 2 == 0, &[(7, 1), (9, -1)], turn).unwrap();
        }
        store.remember_route("go on", true, &[], 11).unwrap();
        let mut memory = store.route_memory().unwrap();
        memory.answers.sort();
        assert_eq!(memory.answers, [("go on".to_owned(), true), ("make it so".to_owned(), false)]);
        assert_eq!(memory.weights, [(7, 8), (9, -8)]);
        assert_eq!(store.forget_routes().unwrap(), 2);
        assert_eq!(store.route_memory().unwrap(), RouteMemory::default());
    }

    #[test]
    fn the_oldest_answers_leave() {
        let mut store = Store::in_memory().unwrap();
        for turn in 0..=ANSWERS_MAX {
            store.remember_route(&format!("line {turn}"), true, &[], turn).unwrap();
        }
        let memory = store.route_memory().unwrap();
        assert_eq!(memory.answers.len(), 1000);
        assert!(!memory.answers.iter().any(|(line, _)| line == "line 0"));
    }
}
