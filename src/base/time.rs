//! Times as text: RFC 3339, in UTC. It has no clock.

use jiff::Timestamp;

/// Returns a time (Unix milliseconds) as `2026-11-21T12:19:44Z`.
#[must_use]
pub fn utc(time_ms: i64) -> String {
    // Whole seconds, rounded down; jiff would round towards 1970.
    let second = Timestamp::from_second(time_ms.div_euclid(1_000)).unwrap_or(Timestamp::MAX);
    format!("{second:.0}")
}

/// Returns a time (Unix milliseconds) as `2026-11-21T12:19:44.250Z`.
#[must_use]
pub fn utc_ms(time_ms: i64) -> String {
    format!("{:.3}", Timestamp::from_millisecond(time_ms).unwrap_or(Timestamp::MAX))
}

/// Returns the time of work in milliseconds: `so_far`, plus the time from `since` until `now`.
#[must_use]
pub fn work_ms(so_far: u64, since: Option<i64>, now: i64) -> u64 {
    so_far + since.map_or(0, |since| u64::try_from(now - since).unwrap_or(0))
}

/// The time that this thread has spent on a processor: other programs on a busy machine don't count.
#[cfg(test)]
pub(crate) fn busy() -> std::time::Duration {
    let figures = std::fs::read_to_string("/proc/thread-self/schedstat").expect("the scheduler's figures");
    let nanoseconds = figures.split_whitespace().next().and_then(|it| it.parse().ok());
    std::time::Duration::from_nanos(nanoseconds.expect("nanoseconds"))
}

#[cfg(test)]
mod tests {
    #[test]
    fn times_are_in_utc() {
        for (time, text) in [
            (0, "1970-01-01T00:00:00.000Z"),
            (951_782_399_999, "2000-02-28T23:59:59.999Z"),
            (951_782_400_000, "2000-02-29T00:00:00.000Z"),
            (1_709_164_799_999, "2024-02-28T23:59:59.999Z"),
            (1_709_251_200_000, "2024-03-01T00:00:00.000Z"),
            (1_795_263_584_250, "2026-11-21T12:19:44.250Z"),
            (-1, "1969-12-31T23:59:59.999Z"),
        ] {
            assert_eq!(super::utc_ms(time), text);
        }
        assert_eq!(super::utc(1_795_263_584_250), "2026-11-21T12:19:44Z");
    }
}
