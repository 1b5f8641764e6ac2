//! The leases that this gateway has acquired, and the work under each. It must not know the database.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use parking_lot::Mutex;

use crate::host;
use crate::proto::team::Lease;

/// Time after which an idle lease is released, so that consecutive calls write nothing.
const IDLE: Duration = Duration::from_secs(5);

/// The place of a workspace.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Place {
    pub(super) tenant: String,
    pub(super) project: String,
    pub(super) machine: i64,
}

/// A lease that this gateway has acquired, until it releases or loses it.
#[derive(Debug, Default)]
struct Tenure {
    fence: i64,
    /// Number of works under it.
    works: AtomicUsize,
    /// The time of the machine at which the last work ended, in milliseconds.
    idle_since: AtomicU64,
    is_lost: AtomicBool,
}

impl Tenure {
    fn is_idle(&self, now: Duration) -> bool {
        let since = Duration::from_millis(self.idle_since.load(Ordering::Acquire));
        self.works.load(Ordering::Acquire) == 0 && now.saturating_sub(since) >= IDLE
    }

    fn is_lost(&self) -> bool {
        self.is_lost.load(Ordering::Acquire)
    }
}

/// Work under a lease, until it is dropped.
#[derive(Debug)]
pub struct Work(Arc<Tenure>);

impl Work {
    fn new(tenure: &Arc<Tenure>) -> Self {
        tenure.works.fetch_add(1, Ordering::AcqRel);
        Self(Arc::clone(tenure))
    }
}

impl Drop for Work {
    fn drop(&mut self) {
        self.0.idle_since.store(millis(host::boot_time()), Ordering::Release);
        self.0.works.fetch_sub(1, Ordering::AcqRel);
    }
}

/// Called with the tenant, the project and the lease that another gateway may have by now.
pub type OnLost = Box<dyn Fn(&str, &str, Lease) + Send + Sync>;

/// The lease of a workspace; locked while it is acquired or released.
type Slot = Arc<Mutex<Option<Arc<Tenure>>>>;

/// The leases of this gateway.
#[derive(Default)]
pub(in crate::ledger) struct Tenures {
    slots: Mutex<BTreeMap<Place, Slot>>,
    /// The time of the machine's clock until which no other gateway can have acquired one of them, in milliseconds.
    until_ms: AtomicU64,
    /// Locked while the leases are checked after that time.
    confirming: Mutex<()>,
    on_lost: OnceLock<OnLost>,
}

impl Tenures {
    /// Sets the function that is called when a lease is lost; later calls have no effect.
    pub(super) fn on_lost(&self, on_lost: OnLost) {
        let _ = self.on_lost.set(on_lost);
    }

    /// Begins work at a place, under the existing lease or under the one that `take` acquires; others wait for it meanwhile.
    pub(super) fn begin<E>(&self, place: &Place, take: impl FnOnce() -> Result<i64, E>) -> Result<(Lease, Work), E> {
        let slot = Arc::clone(self.slots.lock().entry(place.clone()).or_default());
        let mut slot = slot.lock();
        let tenure = match slot.as_ref().filter(|tenure| !tenure.is_lost()) {
            Some(tenure) => Arc::clone(tenure),
            None => Arc::clone(slot.insert(Arc::new(Tenure { fence: take()?, ..Tenure::default() }))),
        };
        Ok((Lease { machine: place.machine, fence: tenure.fence }, Work::new(&tenure)))
    }

    /// Returns whether another gateway may have acquired a lease of this one by this time of the machine's clock.
    pub(super) fn is_past(&self, now: Duration) -> bool {
        millis(now) >= self.until_ms.load(Ordering::Acquire)
    }

    /// Extends the leases until a time of the machine's clock. If the previous time has passed, every lease that `has` doesn't
    /// confirm is lost before the new time applies.
    pub(super) fn extend<E>(&self, until: Duration, has: impl Fn(&Place, i64) -> Result<bool, E>) -> Result<(), E> {
        let _alone = self.confirming.lock();
        if self.is_past(host::boot_time()) {
            for (place, fence) in self.list() {
                if !has(&place, fence)? {
                    self.lose(&place, fence);
                }
            }
        }
        self.until_ms.fetch_max(millis(until), Ordering::AcqRel);
        Ok(())
    }

    /// Notes that a lease is lost, once.
    pub(super) fn lose(&self, place: &Place, fence: i64) {
        let tenure = self.tenure(place).filter(|tenure| tenure.fence == fence);
        if tenure.is_none_or(|tenure| tenure.is_lost.swap(true, Ordering::AcqRel)) {
            return;
        }
        let Place { tenant, project, machine } = place;
        tracing::warn!(event = "workspace_lost", tenant, project, fence);
        if let Some(on_lost) = self.on_lost.get() {
            on_lost(tenant, project, Lease { machine: *machine, fence });
        }
    }

    /// Returns whether the lease of a place with a number is lost.
    pub(super) fn is_lost(&self, place: &Place, fence: i64) -> bool {
        self.tenure(place).is_none_or(|tenure| tenure.fence != fence || tenure.is_lost())
    }

    /// Ends the leases that were idle for a while, each once `let_go` has released it.
    pub(super) fn end_idle<E>(&self, let_go: impl Fn(&Place, i64) -> Result<(), E>) -> Result<(), E> {
        let now = host::boot_time();
        for (place, slot) in self.slots() {
            // A lease that is just being acquired isn't idle.
            let Some(mut slot) = slot.try_lock() else { continue };
            if let Some(tenure) = slot.as_ref().filter(|tenure| tenure.is_idle(now)) {
                let_go(&place, tenure.fence)?;
                *slot = None;
            }
        }
        // A thread that begins work holds the slot, or finds none here.
        let is_used = |slot: &Slot| Arc::strong_count(slot) > 1 || slot.try_lock().is_none_or(|it| it.is_some());
        self.slots.lock().retain(|_, slot| is_used(slot));
        Ok(())
    }

    /// The places of the leases that aren't lost, and their numbers.
    pub(super) fn list(&self) -> Vec<(Place, i64)> {
        let fence = |slot: Slot| slot.lock().as_ref().filter(|tenure| !tenure.is_lost()).map(|tenure| tenure.fence);
        self.slots().into_iter().filter_map(|(place, slot)| Some((place, fence(slot)?))).collect()
    }

    fn tenure(&self, place: &Place) -> Option<Arc<Tenure>> {
        let slot = self.slots.lock().get(place).map(Arc::clone)?;
        let slot = slot.lock();
        slot.clone()
    }

    fn slots(&self) -> Vec<(Place, Slot)> {
        self.slots.lock().iter().map(|(place, slot)| (place.clone(), Arc::clone(slot))).collect()
    }
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(project: &str) -> Place {
        Place { tenant: "t".into(), project: project.into(), machine: 0 }
    }

    /// Begins work in a project whose next lease has a number.
    fn begin(tenures: &Tenures, project: &str, next: i64) -> (i64, Work) {
        let (lease, work) = tenures.begin(&place(project), || Ok::<_, ()>(next)).expect("a lease");
        (lease.fence, work)
    }

    /// The projects with leases.
    fn projects(tenures: &Tenures) -> Vec<String> {
        tenures.list().into_iter().map(|(place, _)| place.project).collect()
    }

    #[test]
    fn work_shares_a_lease_and_only_the_first_one_takes_it() {
        let tenures = Tenures::default();
        assert_eq!(tenures.begin(&place("p"), || Err("elsewhere")).expect_err("refused"), "elsewhere");
        let (fence, _work) = begin(&tenures, "p", 4);
        let (same, _more) = begin(&tenures, "p", 5);
        assert_eq!((fence, same, tenures.list()), (4, 4, vec![(place("p"), 4)]));
    }

    #[test]
    fn a_lease_is_idle_some_time_after_its_last_work() {
        let tenures = Tenures::default();
        let works = [begin(&tenures, "p", 1).1, begin(&tenures, "p", 1).1];
        let tenure = tenures.tenure(&place("p")).expect("a lease");
        let is_idle_later = || tenure.is_idle(host::boot_time() + IDLE);
        assert!(!is_idle_later(), "two work");
        let [one, two] = works;
        drop(one);
        assert!(!is_idle_later(), "one works");
        drop(two);
        assert!(is_idle_later() && !tenure.is_idle(host::boot_time()));
        let ends_long_after = |result: Result<(), &'static str>| {
            tenure.idle_since.store(0, Ordering::Release);
            tenures.end_idle(|_, _| result)
        };
        let _busy = begin(&tenures, "busy", 1);
        assert_eq!(ends_long_after(Err("away")), Err("away"));
        assert_eq!(projects(&tenures), ["busy", "p"], "one that can't be given back stays");
        assert_eq!(ends_long_after(Ok(())), Ok(()));
        assert_eq!((projects(&tenures), tenures.slots().len()), (vec!["busy".to_owned()], 1), "its place is forgotten");
    }

    #[test]
    fn a_loss_is_reported_once_and_only_of_the_number_that_it_is_about() {
        let (tenures, lost) = (Tenures::default(), Arc::new(Mutex::new(Vec::new())));
        let seen = Arc::clone(&lost);
        tenures.on_lost(Box::new(move |tenant, project, lease| {
            seen.lock().push((tenant.to_owned(), project.to_owned(), lease.fence));
        }));
        let (_, _work) = begin(&tenures, "p", 3);
        tenures.lose(&place("p"), 2);
        tenures.lose(&place("q"), 3);
        assert!(lost.lock().is_empty() && !tenures.is_lost(&place("p"), 3));
        tenures.lose(&place("p"), 3);
        tenures.lose(&place("p"), 3);
        assert_eq!(*lost.lock(), [("t".to_owned(), "p".to_owned(), 3)]);
        assert!(tenures.is_lost(&place("p"), 3) && tenures.list().is_empty());
        // New work needs a new lease, and the old one stays lost.
        let (fence, _next) = begin(&tenures, "p", 5);
        assert_eq!((fence, tenures.is_lost(&place("p"), 3), tenures.is_lost(&place("p"), 5)), (5, true, false));
    }

    #[test]
    fn a_renewal_in_time_asks_nothing_and_a_late_one_looks_at_each_lease() {
        let tenures = Tenures::default();
        let _works = [begin(&tenures, "kept", 1), begin(&tenures, "taken", 1)];
        let soon = host::boot_time() + Duration::from_secs(3_600);
        assert!(tenures.is_past(host::boot_time()), "nothing was renewed yet");
        assert_eq!(tenures.extend(soon, |_, _| Err("away")), Err("away"));
        assert!(tenures.is_past(host::boot_time()), "and who can't look doesn't count on it");
        tenures.extend(soon, |place, _| Ok::<_, ()>(place.project == "kept")).expect("it looks");
        assert_eq!(projects(&tenures), ["kept"]);
        assert!(!tenures.is_past(host::boot_time()) && tenures.is_past(soon));
        // An earlier renewal whose answer arrives late doesn't shorten the time.
        tenures.extend(Duration::ZERO, |_, _| Err("asked")).expect("it asks nothing");
        assert!(!tenures.is_past(host::boot_time()));
    }
}
