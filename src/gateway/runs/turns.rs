//! Turns of runs: so many go on at once. Of the tenants that wait, the one with the fewest runs comes first, so that one with many
//! doesn't hold up the others.

use parking_lot::{Condvar, Mutex};
use std::collections::BTreeMap;
use std::time::Duration;

use crate::agent::Cancel;

/// Interval at which a run that waits looks whether it was cancelled.
const LOOK: Duration = Duration::from_millis(100);

/// The turns that are taken, and the runs that wait for one.
#[derive(Default)]
pub struct Turns {
    state: Mutex<State>,
    freed: Condvar,
}

#[derive(Default)]
struct State {
    taken: BTreeMap<String, usize>,
    waiting: BTreeMap<String, usize>,
}

impl State {
    fn may_begin(&self, tenant: &str, most: usize) -> bool {
        let taken = |tenant: &str| self.taken.get(tenant).copied().unwrap_or(0);
        let is_behind = |other: &String| taken(other) < taken(tenant);
        self.taken.values().sum::<usize>() < most && !self.waiting.keys().any(is_behind)
    }
}

impl Turns {
    /// Takes one of `most` turns for a tenant's run, or waits for one. False if the run was cancelled meanwhile.
    pub fn take(&self, tenant: &str, most: usize, cancel: &Cancel) -> bool {
        let mut state = self.state.lock();
        add(&mut state.waiting, tenant);
        while !state.may_begin(tenant, most) {
            if cancel.is_cancelled() {
                remove(&mut state.waiting, tenant);
                self.freed.notify_all();
                return false;
            }
            self.freed.wait_for(&mut state, LOOK);
        }
        remove(&mut state.waiting, tenant);
        add(&mut state.taken, tenant);
        // Another tenant may have waited for this one only.
        self.freed.notify_all();
        true
    }

    /// Gives the turn of a tenant's run back.
    pub fn end(&self, tenant: &str) {
        remove(&mut self.state.lock().taken, tenant);
        self.freed.notify_all();
    }
}

fn add(counts: &mut BTreeMap<String, usize>, tenant: &str) {
    *counts.entry(tenant.to_owned()).or_default() += 1;
}

fn remove(counts: &mut BTreeMap<String, usize>, tenant: &str) {
    if let Some(count) = counts.get_mut(tenant) {
        *count -= 1;
        if *count == 0 {
            counts.remove(tenant);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tenant_with_fewer_runs_comes_first_and_one_alone_gets_all_turns() {
        let mut state = State::default();
        for _ in 0..3 {
            assert!(state.may_begin("busy", 4));
            add(&mut state.taken, "busy");
        }
        add(&mut state.waiting, "quiet");
        add(&mut state.waiting, "busy");
        assert!(!state.may_begin("busy", 4), "another tenant waits and has none");
        assert!(state.may_begin("quiet", 4));
        remove(&mut state.waiting, "quiet");
        assert!(state.may_begin("busy", 4));
        add(&mut state.taken, "busy");
        assert!(!state.may_begin("quiet", 4), "all are taken");
    }

    #[test]
    fn a_run_that_is_cancelled_while_it_waits_gets_no_turn() {
        let turns = Turns::default();
        let cancel = Cancel::new();
        assert!(turns.take("a", 1, &cancel));
        cancel.cancel();
        assert!(!turns.take("b", 1, &cancel));
        turns.end("a");
        assert!(turns.take("b", 1, &Cancel::new()));
    }
}
