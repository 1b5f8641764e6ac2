//! Limits of a budget: whose use they bound, the spans of time in which it counts, and whether a call fits in.

use serde_json::{Value, json};

use crate::proto::team::GateOutcome;

const HOUR_MS: i64 = 3_600 * 1_000;
const DAY_MS: i64 = 24 * HOUR_MS;

/// The span of time in which use counts against a limit. Spans begin by the calendar of UTC, so that all nodes agree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Span {
    /// All time.
    Total,
    /// One run, whichever.
    Run,
    /// An hour.
    Hour,
    /// A day.
    Day,
    /// A week, from Monday.
    Week,
    /// A month.
    Month,
}

impl Span {
    /// Every span.
    pub const ALL: [Self; 6] = [Self::Total, Self::Run, Self::Hour, Self::Day, Self::Week, Self::Month];

    /// The word for it.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Total => "total",
            Self::Run => "run",
            Self::Hour => "hour",
            Self::Day => "day",
            Self::Week => "week",
            Self::Month => "month",
        }
    }

    /// The span of a word.
    #[must_use]
    pub fn of(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|span| span.word() == word)
    }

    /// The beginning of the span around a time, and that of the next one if there is a next one; all in Unix milliseconds.
    #[must_use]
    pub fn around(self, now_ms: i64) -> (i64, Option<i64>) {
        let begun = |length: i64, offset: i64| {
            let from = now_ms - (now_ms + offset).rem_euclid(length);
            (from, Some(from + length))
        };
        match self {
            Self::Total | Self::Run => (0, None),
            Self::Hour => begun(HOUR_MS, 0),
            Self::Day => begun(DAY_MS, 0),
            // The first of January 1970 was a Thursday.
            Self::Week => begun(7 * DAY_MS, 3 * DAY_MS),
            Self::Month => {
                let (from, next) = month(now_ms.div_euclid(DAY_MS));
                (from * DAY_MS, Some(next * DAY_MS))
            }
        }
    }
}

/// The first days of the month around a day and of the next one, in days since 1970.
fn month(day: i64) -> (i64, i64) {
    const DAYS: [i64; 12] = [31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
    let is_leap = |year: i64| year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let days = |year: i64, month: usize| DAYS[month] + i64::from(month == 1 && is_leap(year));
    let (mut year, mut from) = (1970, 0);
    while from + 365 + i64::from(is_leap(year)) <= day {
        from += 365 + i64::from(is_leap(year));
        year += 1;
    }
    let mut at = 0;
    while at < 11 && from + days(year, at) <= day {
        from += days(year, at);
        at += 1;
    }
    (from, from + days(year, at))
}

/// A limit and how much of it is used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limit {
    /// The sum that it bounds.
    pub name: String,
    /// The project whose use counts; that of all without one.
    pub project: Option<String>,
    /// The user whose use counts; that of all without one.
    pub actor: Option<String>,
    /// The span of time.
    pub span: Span,
    /// The maximum.
    pub limit: i64,
    /// Used so far in the span.
    pub spent: i64,
    /// Needed for this call.
    pub asked: i64,
    /// The time when the next span begins.
    pub resets_at: Option<String>,
}

impl Limit {
    /// Returns whether the call doesn't fit in.
    #[must_use]
    pub fn is_passed(&self) -> bool {
        self.spent.saturating_add(self.asked) > self.limit
    }

    /// The limit as endpoints return it.
    #[must_use]
    pub fn to_value(&self) -> Value {
        json!({"name": self.name, "project": self.project, "user": self.actor, "per": self.span.word(), "limit": self.limit,
            "spent": self.spent, "resets_at": self.resets_at})
    }

    /// The words about a limit that is used up.
    #[must_use]
    pub fn used_up(&self) -> String {
        let Self { name, project, actor, span, limit, spent, .. } = self;
        let project = project.as_ref().map(|project| format!(" of the project {project}")).unwrap_or_default();
        let actor = actor.as_ref().map(|actor| format!(" of {actor}")).unwrap_or_default();
        let span = if *span == Span::Total { String::new() } else { format!(" for this {}", span.word()) };
        format!("the budget of {name}{project}{actor}{span} is used up: {spent} of {limit}")
    }
}

/// Says whether a call fits into all limits.
pub(super) fn decide(limits: &[Limit]) -> GateOutcome {
    if limits.is_empty() {
        return GateOutcome::NotApplicable;
    }
    let Some(limit) = limits.iter().find(|limit| limit.is_passed()) else { return GateOutcome::Pass };
    let mut context = limit.to_value();
    context["asked"] = limit.asked.into();
    super::block(limit.used_up(), context)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A time, in Unix milliseconds.
    fn at(text: &str) -> i64 {
        text.parse::<jiff::Timestamp>().expect("a time").as_millisecond()
    }

    #[test]
    fn spans_begin_by_the_calendar() {
        let now = at("2026-11-29T07:31:05.250Z");
        for (span, from, next) in [
            (Span::Hour, "2026-11-29T07:00:00Z", "2026-11-29T08:00:00Z"),
            (Span::Day, "2026-11-29T00:00:00Z", "2026-11-30T00:00:00Z"),
            (Span::Week, "2026-11-23T00:00:00Z", "2026-11-30T00:00:00Z"),
            (Span::Month, "2026-11-01T00:00:00Z", "2026-12-01T00:00:00Z"),
        ] {
            assert_eq!(span.around(now), (at(from), Some(at(next))), "{span:?}");
            assert_eq!(span.around(at(from)), (at(from), Some(at(next))), "{span:?} at its beginning");
            assert_eq!(span.around(at(next) - 1), (at(from), Some(at(next))), "{span:?} at its end");
        }
        assert_eq!((Span::Total.around(now), Span::Run.around(now)), ((0, None), (0, None)));
        for (now, from, next) in [
            ("2024-02-29T23:59:59Z", "2024-02-01T00:00:00Z", "2024-03-01T00:00:00Z"),
            ("2100-02-28T12:00:00Z", "2100-02-01T00:00:00Z", "2100-03-01T00:00:00Z"),
            ("2027-12-31T23:00:00Z", "2027-12-01T00:00:00Z", "2028-01-01T00:00:00Z"),
        ] {
            assert_eq!(Span::Month.around(at(now)), (at(from), Some(at(next))), "{now}");
        }
        assert!(Span::ALL.into_iter().all(|span| Span::of(span.word()) == Some(span)));
    }
}
