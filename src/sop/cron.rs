//! Times of a schedule, in five fields: minute, hour, day of the month, month, day of the week. A local time that is skipped when
//! the clocks change counts at the end of the gap, and one that occurs twice counts once.

use std::fmt;

use jiff::civil::{Date, DateTime, Time};
use jiff::tz::{AmbiguousOffset, TimeZone};
use jiff::{Timestamp, ToSpan};

/// Number of days that are searched for the next time: 29 February is at most eight years away.
const DAYS_MAX: i32 = 9 * 366;
/// Short forms.
const NAMED: [(&str, &str); 6] = [
    ("@hourly", "0 * * * *"),
    ("@daily", "0 0 * * *"),
    ("@midnight", "0 0 * * *"),
    ("@weekly", "0 0 * * 0"),
    ("@monthly", "0 0 1 * *"),
    ("@yearly", "0 0 1 1 *"),
];
const MONTHS: [&str; 12] = ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"];
const DAYS: [&str; 7] = ["sun", "mon", "tue", "wed", "thu", "fri", "sat"];

/// Times of a schedule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Spec {
    text: String,
    minutes: u64,
    hours: u64,
    days: u64,
    months: u64,
    weekdays: u64,
    /// `true` if both kinds of days are named: then either is enough.
    is_either: bool,
}

impl Spec {
    /// Reads a schedule.
    ///
    /// # Errors
    /// The wrong field, or the wrong number of fields.
    pub fn parse(text: &str) -> Result<Self, String> {
        let text = text.trim();
        let long = NAMED.iter().find(|(name, _)| *name == text).map_or(text, |(_, long)| long);
        let fields: Vec<&str> = long.split_whitespace().collect();
        let [minute, hour, day, month, weekday] = fields[..] else {
            return Err(format!("it has {} fields, not five", fields.len()));
        };
        let weekdays = field(weekday, "weekday", 0, 7, &DAYS, 0)?;
        let spec = Self {
            text: text.to_owned(),
            minutes: field(minute, "minute", 0, 59, &[], 0)?,
            hours: field(hour, "hour", 0, 23, &[], 0)?,
            days: field(day, "day", 1, 31, &[], 0)?,
            months: field(month, "month", 1, 12, &MONTHS, 1)?,
            // Sunday is 0 and 7.
            weekdays: (weekdays | weekdays >> 7) & 0x7f,
            is_either: !day.starts_with('*') && !weekday.starts_with('*'),
        };
        let any = Date::constant(2024, 1, 1);
        let has_day = (0..DAYS_MAX).any(|days| any.checked_add(days.days()).is_ok_and(|day| spec.has_day(day)));
        if has_day { Ok(spec) } else { Err("no such day exists".to_owned()) }
    }

    /// Returns the next time after `after` (Unix milliseconds) in a zone, in Unix milliseconds.
    #[must_use]
    pub fn next(&self, zone: &TimeZone, after: i64) -> Option<i64> {
        let from = Timestamp::from_millisecond(after).ok()?;
        let local = zone.to_datetime(from);
        let mut day = local.date();
        for number in 0..DAYS_MAX {
            if self.has_day(day) {
                for time in self.times() {
                    // The clocks may go back by an hour or more: earlier local times can be later moments.
                    if number == 0 && DateTime::from_parts(day, time) < local.checked_sub(3.hours()).unwrap_or(local) {
                        continue;
                    }
                    let moment = moment(DateTime::from_parts(day, time), zone)?;
                    if moment > from {
                        return Some(moment.as_millisecond());
                    }
                }
            }
            day = day.tomorrow().ok()?;
        }
        None
    }

    fn has_day(&self, date: Date) -> bool {
        let has = |set: u64, number: i8| set >> number & 1 == 1;
        let of_month = has(self.days, date.day());
        let of_week = has(self.weekdays, date.weekday().to_sunday_zero_offset());
        has(self.months, date.month()) && if self.is_either { of_month || of_week } else { of_month && of_week }
    }

    fn times(&self) -> impl Iterator<Item = Time> + '_ {
        let hours = (0..24i8).filter(|hour| self.hours >> hour & 1 == 1);
        hours.flat_map(|hour| {
            let minutes = (0..60i8).filter(|minute| self.minutes >> minute & 1 == 1);
            minutes.map(move |minute| Time::constant(hour, minute, 0, 0))
        })
    }
}

impl fmt::Display for Spec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// The moment of a local time.
fn moment(local: DateTime, zone: &TimeZone) -> Option<Timestamp> {
    let ambiguous = zone.to_ambiguous_timestamp(local);
    match ambiguous.offset() {
        // The end of the gap is the moment at which the clocks change.
        AmbiguousOffset::Gap { .. } => {
            let later = ambiguous.later().ok()?;
            let before = later.checked_sub(12.hours()).ok()?;
            zone.following(before).next().map(|change| change.timestamp()).or(Some(later))
        }
        AmbiguousOffset::Fold { .. } | AmbiguousOffset::Unambiguous { .. } => ambiguous.earlier().ok(),
    }
}

/// A field as a set of numbers: `*`, `5`, `1-5`, `*/15`, `1-30/2`, names, and lists of these.
fn field(text: &str, name: &str, least: u8, most: u8, names: &[&str], first: u8) -> Result<u64, String> {
    let wrong = |part: &str| format!("{name} {part:?} isn't between {least} and {most}");
    let number = |part: &str| -> Result<u8, String> {
        let named = names.iter().position(|name| part.eq_ignore_ascii_case(name));
        let value = named
            .and_then(|at| u8::try_from(at).ok())
            .map(|at| at + first)
            .or_else(|| part.bytes().all(|byte| byte.is_ascii_digit()).then(|| part.parse().ok()).flatten());
        value.filter(|value| (least..=most).contains(value)).ok_or_else(|| wrong(part))
    };
    let mut set = 0;
    for part in text.split(',') {
        let (range, step) = part.split_once('/').map_or((part, None), |(range, step)| (range, Some(step)));
        let no_step = || format!("{name} {part:?} has a step that isn't a number from 1 to 255");
        let step = step.map(|step| step.parse().ok().filter(|step| *step > 0).ok_or_else(no_step));
        let step: Option<u8> = step.transpose()?;
        let (from, to) = match range.split_once('-') {
            _ if range == "*" => (least, most),
            Some((from, to)) => (number(from)?, number(to)?),
            None if step.is_some() => (number(range)?, most),
            None => (number(range)?, number(range)?),
        };
        if from > to {
            return Err(wrong(part));
        }
        (from..=to).step_by(usize::from(step.unwrap_or(1))).for_each(|number| set |= 1u64 << number);
    }
    Ok(set)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn zone(name: &str) -> TimeZone {
        TimeZone::get(name).expect("a zone")
    }

    fn at(text: &str) -> i64 {
        text.parse::<Timestamp>().expect("a time").as_millisecond()
    }

    fn times(spec: &str, place: &str, after: &str, count: usize) -> Vec<String> {
        let (spec, zone) = (Spec::parse(spec).expect("a schedule"), zone(place));
        let mut now = at(after);
        let mut next = || {
            now = spec.next(&zone, now)?;
            Some(Timestamp::from_millisecond(now).expect("a time").to_string())
        };
        (0..count).map_while(|_| next()).collect()
    }

    #[test]
    fn a_schedule_has_its_next_times() {
        for (spec, place, after, wanted) in [
            ("0 7 * * 1-5", "UTC", "2026-11-20T07:00:00Z", &["2026-11-23T07:00:00Z", "2026-11-24T07:00:00Z"][..]),
            ("*/20 * * * *", "UTC", "2026-01-01T00:00:01Z", &["2026-01-01T00:20:00Z", "2026-01-01T00:40:00Z"]),
            ("0 0 29 2 *", "UTC", "2026-01-01T00:00:00Z", &["2028-02-29T00:00:00Z", "2032-02-29T00:00:00Z"]),
            ("0 0 29 2 mon", "UTC", "2028-02-21T00:00:00Z", &["2028-02-28T00:00:00Z", "2028-02-29T00:00:00Z"]),
            ("@weekly", "UTC", "2026-11-23T00:00:00Z", &["2026-11-29T00:00:00Z"]),
            ("30 8 * * *", "Europe/Berlin", "2026-07-01T00:00:00Z", &["2026-07-01T06:30:00Z"]),
            ("15 10 13 * 5", "UTC", "2026-11-12T00:00:00Z", &["2026-11-13T10:15:00Z", "2026-11-20T10:15:00Z"]),
        ] {
            assert_eq!(times(spec, place, after, wanted.len()), wanted, "{spec}");
        }
    }

    #[test]
    fn a_skipped_hour_counts_at_its_end_and_a_doubled_one_once() {
        for (spec, place, after, wanted) in [
            ("30 2 * * *", "Europe/Berlin", "2026-03-28T12:00:00Z", &["2026-03-29T01:00:00Z", "2026-03-30T00:30:00Z"]),
            ("30 2 * * *", "Europe/Berlin", "2026-10-24T12:00:00Z", &["2026-10-25T00:30:00Z", "2026-10-26T01:30:00Z"]),
            (
                "30 2 * * *",
                "America/New_York",
                "2026-03-07T12:00:00Z",
                &["2026-03-08T07:00:00Z", "2026-03-09T06:30:00Z"],
            ),
            (
                "30 1 * * *",
                "America/New_York",
                "2026-10-31T12:00:00Z",
                &["2026-11-01T05:30:00Z", "2026-11-02T06:30:00Z"],
            ),
            (
                "15 2 * * *",
                "Australia/Lord_Howe",
                "2026-10-03T00:00:00Z",
                &["2026-10-03T15:30:00Z", "2026-10-04T15:15:00Z"],
            ),
        ] {
            assert_eq!(times(spec, place, after, 2), wanted, "{spec} {place}");
        }
        // Several times in the gap count as one.
        let quarter = times("*/15 2 * * *", "Europe/Berlin", "2026-03-29T00:00:00Z", 2);
        assert_eq!(quarter, ["2026-03-29T01:00:00Z", "2026-03-30T00:00:00Z"]);
        // In the second pass of the repeated hour nothing is due again.
        assert_eq!(times("30 2 * * *", "Europe/Berlin", "2026-10-25T01:10:00Z", 1), ["2026-10-26T01:30:00Z"]);
    }

    #[test]
    fn invalid_schedules_are_refused_with_the_field_at_fault() {
        for (spec, why) in [
            ("0 7 * *", "4 fields"),
            ("60 * * * *", "minute"),
            ("* 24 * * *", "hour"),
            ("* * 0 * *", "day"),
            ("* * * 13 *", "month"),
            ("* * * * 8", "weekday"),
            ("*/0 * * * *", "minute"),
            ("5-1 * * * *", "minute"),
            ("+5 * * * *", "minute"),
            ("0 0 31 2 *", "no such day"),
            ("0 0 L * *", "day"),
        ] {
            let error = Spec::parse(spec).expect_err(spec);
            assert!(error.contains(why), "{spec}: {error}");
        }
    }
}
