//! Times as text: RFC 3339, in UTC. It has no clock.

/// A time (Unix milliseconds) as `2026-11-21T12:19:44Z`.
#[must_use]
pub fn utc(time_ms: i64) -> String {
    format!("{}Z", seconds(time_ms))
}

/// A time (Unix milliseconds) as `2026-11-21T12:19:44.250Z`.
#[must_use]
pub fn utc_ms(time_ms: i64) -> String {
    format!("{}.{:03}Z", seconds(time_ms), time_ms.rem_euclid(1_000))
}

fn seconds(time_ms: i64) -> String {
    let seconds = time_ms.div_euclid(1_000);
    let (days, second) = (seconds.div_euclid(86_400), seconds.rem_euclid(86_400));
    // Proleptic Gregorian calendar, counted in 400-year eras from 1 March 0000.
    let days = days + 719_468;
    let (era, day_of_era) = (days.div_euclid(146_097), days.rem_euclid(146_097));
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    format!("{year:04}-{month:02}-{day:02}T{:02}:{:02}:{:02}", second / 3_600, second / 60 % 60, second % 60)
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
