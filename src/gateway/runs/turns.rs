//! Turns of runs: the number of concurrent runs is limited, in all and for each user. Among waiting tenants, the one with the
//! fewest runs comes first, so that one with many doesn't hold up the others.

use parking_lot::{Condvar, Mutex};
use std::collections::BTreeMap;
use std::time::Duration;

use crate::agent::Cancel;

/// Interval at which a waiting run checks whether it was cancelled.
const LOOK: Duration = Duration::from_millis(100);

/// The turns in use, and the runs that wait for one.
#[derive(Default)]
pub struct Turns {
    state: Mutex<State>,
    freed: Condvar,
}

/// The limits on turns.
#[derive(Clone, Copy, Debug)]
pub struct Most {
    /// Limit on all users together.
    pub all: usize,
    /// Limit on one user.
    pub of_user: usize,
}

/// Counts by tenant and user.
type Counts = BTreeMap<(String, String), usize>;

#[derive(Default)]
struct State {
    running: Counts,
    waiting: Counts,
}

impl State {
    fn may_begin(&self, user: &(String, String), most: Most) -> bool {
        let of_tenant = |tenant: &str| -> usize {
            self.running.iter().filter(|((of, _), _)| of == tenant).map(|(_, count)| count).sum()
        };
        let has_room = |user: &(String, String)| self.running.get(user).copied().unwrap_or(0) < most.of_user;
        // A user who waits for a turn of their own delays no one.
        let is_behind = |other: &(String, String)| has_room(other) && of_tenant(&other.0) < of_tenant(&user.0);
        self.running.values().sum::<usize>() < most.all && has_room(user) && !self.waiting.keys().any(is_behind)
    }
}

impl Turns {
    /// Takes a turn for a run of a tenant's user, or waits for one. Returns false if the run was cancelled meanwhile.
    pub fn take(&self, user: (&str, &str), most: Most, cancel: &Cancel) -> bool {
        let user = named(user);
        let mut state = self.state.lock();
        *state.waiting.entry(user.clone()).or_default() += 1;
        while !state.may_begin(&user, most) {
            if cancel.is_cancelled() {
                remove(&mut state.waiting, &user);
                self.freed.notify_all();
                return false;
            }
            self.freed.wait_for(&mut state, LOOK);
        }
        remove(&mut state.waiting, &user);
        *state.running.entry(user).or_default() += 1;
        // Another tenant may have waited for this one only.
        self.freed.notify_all();
        true
    }

    /// Returns the turn of a run.
    pub fn end(&self, user: (&str, &str)) {
        remove(&mut self.state.lock().running, &named(user));
        self.freed.notify_all();
    }
}

fn named((tenant, user): (&str, &str)) -> (String, String) {
    (tenant.to_owned(), user.to_owned())
}

fn remove(counts: &mut Counts, user: &(String, String)) {
    if let Some(count) = counts.get_mut(user) {
        *count -= 1;
        if *count == 0 {
            counts.remove(user);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FOUR: Most = Most { all: 4, of_user: 4 };

    #[test]
    fn a_tenant_with_fewer_runs_comes_first_and_one_alone_gets_all_turns() {
        let (busy, quiet) = (named(("busy", "anna")), named(("quiet", "ben")));
        let mut state = State::default();
        for _ in 0..3 {
            assert!(state.may_begin(&busy, FOUR));
            *state.running.entry(busy.clone()).or_default() += 1;
        }
        state.waiting.extend([(quiet.clone(), 1), (busy.clone(), 1)]);
        assert!(!state.may_begin(&busy, FOUR), "another tenant waits and has none");
        assert!(state.may_begin(&quiet, FOUR));
        remove(&mut state.waiting, &quiet);
        assert!(state.may_begin(&busy, FOUR));
        *state.running.entry(busy).or_default() += 1;
        assert!(!state.may_begin(&quiet, FOUR), "all are taken");
    }

    #[test]
    fn a_user_has_so_many_turns_and_who_waits_for_one_of_theirs_holds_nobody_up() {
        let (anna, ben, carl) = (named(("acme", "anna")), named(("acme", "ben")), named(("other", "carl")));
        let most = Most { all: 8, of_user: 2 };
        let mut state = State::default();
        state.running.extend([(anna.clone(), 2), (carl.clone(), 2)]);
        state.waiting.insert(carl.clone(), 5);
        assert!(!state.may_begin(&anna, most) && !state.may_begin(&carl, most), "each has two");
        state.running.insert(ben.clone(), 1);
        assert!(state.may_begin(&ben, most), "carl's tenant has fewer, but he can't begin");
    }

    #[test]
    fn a_run_that_is_cancelled_while_it_waits_gets_no_turn() {
        let turns = Turns::default();
        let (cancel, most) = (Cancel::new(), Most { all: 1, of_user: 1 });
        assert!(turns.take(("a", "u"), most, &cancel));
        cancel.cancel();
        assert!(!turns.take(("b", "u"), most, &cancel));
        turns.end(("a", "u"));
        assert!(turns.take(("b", "u"), most, &Cancel::new()));
    }
}
