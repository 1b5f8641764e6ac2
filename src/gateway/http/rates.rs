//! Buckets that bound how many requests a tenant and a user make and how many wrong secrets an address sends, and places for
//! streams.

use parking_lot::{Mutex, MutexGuard};
use std::collections::HashMap;
use std::hash::{BuildHasher as _, RandomState};
use std::net::{IpAddr, Ipv6Addr};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Limit on the buckets. A full bucket is like a new one and is forgotten first; after those, the least recently used ones are.
const BUCKETS_MAX: usize = 10_000;
/// Number of buckets that are removed at once, so that not every request has to scan all of them.
const FORGOTTEN_AT_ONCE: usize = BUCKETS_MAX / 10;

/// Time for which a secret is refused at most without another look.
const REFUSED_FOR: Duration = Duration::from_millis(50);
/// Maximum number of secrets that are refused without another look.
const REFUSED_MAX: usize = 1_000;

/// The rate at which a bucket fills, and its size.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rate {
    /// Requests a second.
    pub each_second: f64,
    /// Requests at once.
    pub burst: f64,
}

impl Rate {
    /// Returns a rate of `each_second` requests, with a burst of `times` as many.
    #[must_use]
    pub fn of(each_second: u64, times: u32) -> Self {
        let each_second = f64::from(u32::try_from(each_second).unwrap_or(u32::MAX));
        Self { each_second, burst: each_second * f64::from(times) }
    }
}

impl Rate {
    /// Whole seconds after which an empty bucket has place for a request.
    #[must_use]
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "rates are positive, and waits short")]
    pub fn seconds(self) -> u64 {
        (1.0 / self.each_second).ceil().clamp(1.0, 3_600.0) as u64
    }
}

/// The burst of a tenant's requests, as a multiple of those in a second.
pub const TENANT_BURST: u32 = 2;
/// The burst of a user's requests, as the same multiple.
pub const USER_BURST: u32 = 4;
/// Wrong secrets of an address: ten a minute.
pub const WRONG_SECRETS: Rate = Rate { each_second: 10.0 / 60.0, burst: 10.0 };
/// Gestures of an actor on a canvas.
pub const GESTURE: Rate = Rate { each_second: 20.0, burst: 20.0 };
/// Requests of a webhook: five a second.
pub const HOOK: Rate = Rate { each_second: 5.0, burst: 5.0 };
/// Wrong pairing codes of all addresses: five a minute.
pub const WRONG_CODES: Rate = Rate { each_second: 5.0 / 60.0, burst: 5.0 };

/// Names the bucket of an address's wrong secrets. A network of IPv6 (/64) has one: its holder has all of its addresses.
#[must_use]
pub fn wrong_secrets_of(address: IpAddr) -> String {
    let network = match address.to_canonical() {
        IpAddr::V6(address) => IpAddr::V6(Ipv6Addr::from_bits(address.to_bits() >> 64 << 64)),
        address => address,
    };
    format!("wrong {network}")
}

/// The buckets.
#[derive(Debug, Default)]
pub struct Rates {
    buckets: Mutex<HashMap<String, Bucket>>,
    /// Time until which a secret is refused, by its hash: look-ups for a caller far above its limit must not slow down others.
    refused: Mutex<HashMap<u64, (Instant, Rate)>>,
    hasher: RandomState,
}

#[derive(Debug)]
struct Bucket {
    rate: Rate,
    /// Requests that it held at its last use.
    left: f64,
    used: Instant,
}

impl Bucket {
    fn level(&self, now: Instant) -> f64 {
        let filled = now.saturating_duration_since(self.used).as_secs_f64() * self.rate.each_second;
        (self.left + filled).min(self.rate.burst)
    }
}

fn make_room(buckets: &mut HashMap<String, Bucket>, now: Instant) {
    buckets.retain(|_, bucket| bucket.level(now) < bucket.rate.burst);
    if buckets.len() >= BUCKETS_MAX {
        let mut uses: Vec<Instant> = buckets.values().map(|bucket| bucket.used).collect();
        let (_, &mut last, _) = uses.select_nth_unstable(FORGOTTEN_AT_ONCE);
        buckets.retain(|_, bucket| bucket.used > last);
    }
}

impl Rates {
    /// Takes one request from a bucket; returns false if it is empty.
    pub fn take(&self, name: String, rate: Rate, now: Instant) -> bool {
        let mut buckets = self.buckets.lock();
        if buckets.len() >= BUCKETS_MAX && !buckets.contains_key(&name) {
            make_room(&mut buckets, now);
        }
        let bucket = buckets.entry(name).or_insert(Bucket { rate, left: rate.burst, used: now });
        bucket.rate = rate;
        (bucket.left, bucket.used) = (bucket.level(now), now);
        if bucket.left < 1.0 {
            return false;
        }
        bucket.left -= 1.0;
        true
    }

    /// Refuses the requests of a secret until half of the time has passed in which its bucket gets another one.
    pub fn refuse(&self, secret: &str, rate: Rate, now: Instant) {
        let wait = Duration::try_from_secs_f64(0.5 / rate.each_second).unwrap_or(REFUSED_FOR).min(REFUSED_FOR);
        let mut refused = self.refused.lock();
        if refused.len() >= REFUSED_MAX {
            refused.retain(|_, (until, _)| *until > now);
        }
        if refused.len() < REFUSED_MAX {
            refused.insert(self.hasher.hash_one(secret), (now + wait, rate));
        }
    }

    /// The rate by which a secret is refused now, if it is.
    pub fn refusal(&self, secret: &str, now: Instant) -> Option<Rate> {
        let refused = self.refused.lock();
        refused.get(&self.hasher.hash_one(secret)).filter(|(until, _)| *until > now).map(|(_, rate)| *rate)
    }

    /// Returns whether a bucket is empty, without taking anything.
    pub fn is_empty(&self, name: &str, now: Instant) -> bool {
        let buckets = self.buckets.lock();
        buckets.get(name).is_some_and(|bucket| bucket.level(now) < 1.0)
    }
}

/// The open streams, by tenant and user.
#[derive(Clone, Debug)]
pub struct Streams {
    open: Arc<Mutex<HashMap<(String, String), usize>>>,
    of_user: usize,
    of_tenant: usize,
}

/// The place of an open stream; it is free again when this is dropped.
#[derive(Debug)]
pub struct StreamPlace {
    streams: Streams,
    of: (String, String),
}

impl Streams {
    /// Makes `of_user` slots for each user in a tenant, and `of_tenant` for each tenant.
    #[must_use]
    pub fn new(of_user: usize, of_tenant: usize) -> Self {
        Self { open: Arc::default(), of_user, of_tenant }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<(String, String), usize>> {
        self.open.lock()
    }

    /// Takes a slot; `None` if the user or the tenant has too many streams.
    #[must_use]
    pub fn take(&self, tenant: &str, user: &str) -> Option<StreamPlace> {
        let of = (tenant.to_owned(), user.to_owned());
        let mut open = self.lock();
        let all: usize = open.iter().filter(|((it, _), _)| it == tenant).map(|(_, count)| count).sum();
        if open.get(&of).copied().unwrap_or(0) >= self.of_user || all >= self.of_tenant {
            return None;
        }
        *open.entry(of.clone()).or_default() += 1;
        Some(StreamPlace { streams: self.clone(), of })
    }

    /// Number of open ones.
    #[must_use]
    pub fn count(&self) -> usize {
        self.lock().values().sum()
    }
}

impl Drop for StreamPlace {
    fn drop(&mut self) {
        let mut open = self.streams.lock();
        if let Some(count) = open.get_mut(&self.of) {
            *count -= 1;
            if *count == 0 {
                open.remove(&self.of);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_bucket_gives_its_burst_and_fills_again() {
        let (rates, now) = (Rates::default(), Instant::now());
        let rate = Rate { each_second: 1.0, burst: 3.0 };
        let take = |name: &str, seconds| rates.take(name.into(), rate, now + Duration::from_secs(seconds));
        assert_eq!([take("a", 0), take("a", 0), take("a", 0), take("a", 0)], [true, true, true, false]);
        assert!(take("b", 0), "others aren't affected");
        assert!(rates.is_empty("a", now) && !rates.is_empty("c", now));
        assert_eq!([take("a", 1), take("a", 1)], [true, false]);
    }

    #[test]
    fn a_secret_that_was_refused_is_refused_without_a_look_for_a_moment() {
        let (rates, now) = (Rates::default(), Instant::now());
        let rate = Rate::of(50, 4);
        rates.refuse("one", rate, now);
        assert_eq!(rates.refusal("one", now + Duration::from_millis(9)), Some(rate));
        assert_eq!(rates.refusal("one", now + Duration::from_millis(10)), None, "half of a fiftieth of a second");
        assert_eq!(rates.refusal("two", now), None);
        for secret in 0..2 * REFUSED_MAX {
            rates.refuse(&secret.to_string(), Rate::of(0, 1), now);
        }
        assert_eq!(rates.refused.lock().len(), REFUSED_MAX);
        rates.refuse("last", rate, now + REFUSED_FOR);
        assert_eq!(rates.refused.lock().len(), 1, "those whose time is over make room");
    }

    #[test]
    fn full_buckets_are_forgotten_and_one_in_use_is_not() {
        let (rates, now) = (Rates::default(), Instant::now());
        let take = |name: String, seconds| rates.take(name, WRONG_SECRETS, now + Duration::from_secs(seconds));
        let count = || rates.buckets.lock().len();
        for name in 0..BUCKETS_MAX - 1 {
            take(name.to_string(), 0);
        }
        for _ in 0..8 {
            take("in use".into(), 50);
        }
        assert_eq!((count(), take("new".into(), 60)), (BUCKETS_MAX, true));
        assert_eq!(count(), 2, "the others are full again");
        let left = (0..10).filter(|_| take("in use".into(), 60)).count();
        assert_eq!(left, 3, "it kept its level");
    }

    #[test]
    fn too_many_buckets_in_use_forget_those_that_were_used_long_ago() {
        let (rates, now) = (Rates::default(), Instant::now());
        let count = || rates.buckets.lock().len();
        for name in 0..2 * BUCKETS_MAX {
            let at = now + Duration::from_micros(u64::try_from(name).expect("small"));
            rates.take(name.to_string(), WRONG_SECRETS, at);
            assert!(count() <= BUCKETS_MAX, "{name}");
        }
        let buckets = rates.buckets.lock();
        let newest = 2 * BUCKETS_MAX - (BUCKETS_MAX - FORGOTTEN_AT_ONCE - 1);
        assert!((newest..2 * BUCKETS_MAX).all(|name| buckets.contains_key(&name.to_string())));
    }

    #[test]
    fn addresses_of_one_network_share_a_bucket() {
        let of = |address: &str| wrong_secrets_of(address.parse().expect("an address"));
        assert_eq!(of("2001:db8:1:2:3:4:5:6"), of("2001:db8:1:2::1"));
        assert_eq!(of("::ffff:192.0.2.1"), of("192.0.2.1"));
        for (one, other) in [("2001:db8:1:2::1", "2001:db8:1:3::1"), ("192.0.2.1", "192.0.2.2")] {
            assert_ne!(of(one), of(other));
        }
    }

    #[test]
    fn a_wait_is_that_of_the_rate() {
        assert_eq!([WRONG_CODES, WRONG_SECRETS, HOOK, Rate::of(0, 1)].map(Rate::seconds), [12, 6, 1, 3_600]);
    }

    #[test]
    fn a_user_has_so_many_streams_and_a_closed_one_makes_room() {
        let streams = Streams::new(16, 20);
        let mut open: Vec<_> = (0..16).map(|_| streams.take("t", "anna").expect("a place")).collect();
        assert!(streams.take("t", "anna").is_none());
        assert!(streams.take("t", "ben").is_some() && streams.take("u", "anna").is_some(), "others aren't affected");
        open.pop();
        assert!(streams.take("t", "anna").is_some());
        let others: Vec<_> = (0..10).filter_map(|_| streams.take("t", "ben")).collect();
        assert_eq!(others.len(), 5, "the tenant has no more places");
        drop((open, others));
        assert_eq!(streams.count(), 0);
    }
}
