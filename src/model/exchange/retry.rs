//! Rules for when a refused request is sent again, and when another model may be asked in its place: pure.

use std::time::Duration;

use crate::model::error::Fault;

/// The first wait; each further one is twice as long.
const FIRST: Duration = Duration::from_millis(500);
/// The longest wait of our own.
const LONGEST: Duration = Duration::from_secs(8);
/// The longest wait that a server may ask for: after more than that a person has long turned to something else.
const SERVER_LONGEST: Duration = Duration::from_secs(60);

/// Returns the wait before the next try, if another try makes sense. `random` spreads the tries of many clients; a
/// server's own wish is respected, plus a little.
pub(in crate::model) fn delay(fault: &Fault, tries: u32, random: u64, now_unix_ms: i64) -> Option<Duration> {
    let wish = match fault {
        Fault::RateLimited { retry_after, .. } | Fault::Server { retry_after, .. } => retry_after.as_deref(),
        // No part of the answer was shown before it broke off; otherwise it isn't requested again.
        Fault::ClosedEarly | Fault::Cut => None,
        _ => return None,
    };
    #[expect(clippy::cast_precision_loss, reason = "a fraction needs no more bits")]
    let fraction = random as f64 / u64::MAX as f64;
    let own = FIRST.saturating_mul(1 << tries.min(16)).min(LONGEST);
    match wish.and_then(|wish| seconds_of(wish, now_unix_ms)) {
        Some(wished) if wished > SERVER_LONGEST => None,
        Some(wished) => Some(wished + FIRST.mul_f64(fraction / 2.0)),
        None => Some(own.mul_f64(0.5 + fraction / 2.0)),
    }
}

/// Returns whether another model may be asked after this fault: no connection, a time-out, a refusal that another
/// server needn't share (401, 402, 403, 404, 408, 429, 5xx), an answer that breaks off or stalls, or one that isn't the
/// protocol. The caller knows whether something of the answer was shown.
pub(in crate::model) fn is_for_another(fault: &Fault) -> bool {
    matches!(
        fault,
        Fault::Refused
            | Fault::NameNotResolved
            | Fault::ConnectTimeout(_)
            | Fault::Unreachable { .. }
            | Fault::Tls { .. }
            | Fault::ClosedEarly
            | Fault::Cut
            | Fault::NeverStarted(_)
            | Fault::Stalled(_)
            | Fault::RateLimited { .. }
            | Fault::Server { .. }
            | Fault::Unauthorized { .. }
            | Fault::Rejected { status: 402 | 408, .. }
            | Fault::NotFound { .. }
            | Fault::Redirected { .. }
            | Fault::Garbage { .. }
            | Fault::ErrorInAnswer { .. }
    )
}

/// Reads `retry-after` (RFC 9110, section 10.2.3): seconds, or a date of the fixed form.
fn seconds_of(wish: &str, now_unix_ms: i64) -> Option<Duration> {
    if let Ok(seconds) = wish.trim().parse::<f64>() {
        return Duration::try_from_secs_f64(seconds).ok();
    }
    let until_ms = unix_seconds(wish)?.checked_mul(1000)?;
    u64::try_from(until_ms.saturating_sub(now_unix_ms).max(0)).ok().map(Duration::from_millis)
}

/// Reads a date such as `Sun, 06 Nov 1994 08:49:37 GMT`.
fn unix_seconds(date: &str) -> Option<i64> {
    const MONTHS: [&str; 12] = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    let mut words = date.split_once(", ")?.1.split(' ');
    let day: i64 = words.next()?.parse().ok().filter(|day| (1..=31).contains(day))?;
    let month_word = words.next()?;
    let month = i64::try_from(MONTHS.iter().position(|month| *month == month_word)?).ok()? + 1;
    let year: i64 = words.next()?.parse().ok().filter(|year| (1970..10_000).contains(year))?;
    let mut clock =
        words.next()?.split(':').map(|part| part.parse::<i64>().ok().filter(|part| (0..=60).contains(part)));
    let (hour, minute, second) = (clock.next()??, clock.next()??, clock.next()??);
    // Days since the epoch, with years that begin in March so that a leap day is their last.
    let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let days = 365 * year + year / 4 - year / 100 + year / 400 + (153 * month + 2) / 5 + day - 1 - 719_468;
    Some(days * 86_400 + hour * 3600 + minute * 60 + second)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limited(wish: Option<&str>) -> Fault {
        Fault::RateLimited { retry_after: wish.map(str::to_owned), server_text: String::new() }
    }

    #[test]
    fn waits_grow_are_spread_and_keep_to_the_servers_wish() {
        let ms = |fault: &Fault, tries, random| delay(fault, tries, random, 784_111_770_000).map(|it| it.as_millis());
        assert_eq!(ms(&limited(None), 0, 0), Some(250));
        assert_eq!(ms(&limited(None), 0, u64::MAX), Some(500));
        assert_eq!(ms(&limited(None), 1, u64::MAX), Some(1000));
        assert_eq!(ms(&limited(None), 30, u64::MAX), Some(8000));
        assert_eq!(ms(&limited(Some("2")), 0, 0), Some(2000));
        assert_eq!(ms(&limited(Some("1.5")), 5, u64::MAX), Some(1750));
        assert_eq!(ms(&limited(Some("Sun, 06 Nov 1994 08:49:37 GMT")), 0, 0), Some(7000));
        assert_eq!(ms(&limited(Some("Sun, 06 Nov 1994 08:00:00 GMT")), 0, 0), Some(0));
        assert_eq!(ms(&limited(Some("3600")), 0, 0), None, "nobody waits for an hour");
        assert_eq!(ms(&limited(Some("soon")), 0, 0), Some(250));
        assert_eq!(ms(&Fault::ClosedEarly, 0, 0), Some(250));
        assert_eq!(ms(&Fault::Refused, 0, 0), None);
        assert_eq!(ms(&Fault::Cut, 0, 0), Some(250));
    }

    #[test]
    fn dates() {
        for (date, seconds) in [
            ("Thu, 01 Jan 1970 00:00:00 GMT", Some(0)),
            ("Tue, 29 Feb 2000 12:00:00 GMT", Some(951_825_600)),
            ("Sat, 21 Nov 2026 11:55:00 GMT", Some(1_795_262_100)),
            ("Sunday, 06-Nov-94 08:49:37 GMT", None),
            ("Sun, 99 Nov 1994 08:49:37 GMT", None),
            ("", None),
        ] {
            assert_eq!(unix_seconds(date), seconds, "{date}");
        }
    }
}
