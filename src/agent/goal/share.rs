//! The part of a run's limits that a helper may use: a fifth of what is left, and one helper at a time. Pure.

use std::time::{Duration, Instant};

use crate::money::{Limit, Sum};
use crate::proto::Money;

/// A helper gets one part in this number.
const PARTS: u32 = 5;

/// The limits of a run, of which a helper gets its share.
#[derive(Clone, Debug)]
pub(crate) struct Share {
    /// The run.
    pub(crate) run: i64,
    /// The category of its work at the moment, to which costs are charged again afterwards.
    pub(crate) category: &'static str,
    /// The run's limit.
    pub(crate) limit: Limit,
    /// Questions that are left.
    pub(crate) questions_left: Option<u64>,
    /// The end of its time.
    pub(crate) until: Option<Instant>,
}

impl Share {
    /// Reason why no helper can begin; `calls_left` are those of the run.
    pub(crate) fn refusal(&self, calls_left: Option<u64>) -> Option<&'static str> {
        let is_small = |left: Option<u64>| left.is_some_and(|left| left < u64::from(PARTS));
        if is_small(self.questions_left) {
            Some("a helper may use a fifth of the questions that are left to the run, and that is less than one")
        } else if is_small(calls_left) {
            Some("a helper may use a fifth of the calls that are left to the run, and that is less than one")
        } else {
            None
        }
    }

    /// Calls that a helper may make.
    pub(crate) fn calls(calls_left: Option<u64>) -> u64 {
        calls_left.map_or(u64::MAX, |left| left / u64::from(PARTS))
    }

    /// The run's limit while a helper works: what was spent before, and a fifth of the rest.
    pub(crate) fn limit_from(&self, spent: Sum) -> Limit {
        let money = self.limit.money.map(|most| {
            let left = most.minus(spent.money).pico() / u64::from(PARTS);
            spent.money.plus(Money::from_pico(left))
        });
        let parts = u64::from(PARTS);
        let tokens = self.limit.tokens.map(|most| spent.tokens + most.saturating_sub(spent.tokens) / parts);
        Limit { money, tokens }
    }

    /// The time that a helper may take from now on.
    pub(crate) fn time(&self, now: Instant) -> Option<Duration> {
        self.until.map(|until| until.saturating_duration_since(now) / PARTS)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_helper_gets_a_fifth_of_what_is_left_of_every_limit() {
        let now = Instant::now();
        let share = Share {
            run: 1,
            category: "norris-step",
            limit: Limit { money: Some(Money::from_usd(1.0)), tokens: Some(1_000) },
            questions_left: Some(5),
            until: Some(now + Duration::from_secs(100)),
        };
        let limit = share.limit_from(Sum { money: Money::from_usd(0.5), tokens: 500 });
        assert_eq!((limit.money, limit.tokens), (Some(Money::from_usd(0.6)), Some(600)));
        assert_eq!((share.time(now), Share::calls(Some(14))), (Some(Duration::from_secs(20)), 2));
        assert_eq!(share.refusal(Some(5)), None);
        assert!(share.refusal(Some(4)).is_some_and(|why| why.contains("calls")));
        let late = Share { questions_left: Some(4), ..share };
        assert!(late.refusal(None).is_some_and(|why| why.contains("questions")));
        let over = late.limit_from(Sum { money: Money::from_usd(2.0), tokens: 2_000 });
        assert_eq!((over.money, over.tokens), (Some(Money::from_usd(2.0)), Some(2_000)), "nothing is left to share");
    }
}
