//! Prices of models: the user's own, and a dated list. A price that isn't known is unknown, not zero.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::OnceLock;

use crate::proto::{Money, Usage};

/// The prices of a model's tokens, in dollars for a million of each kind.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Price {
    /// Read.
    pub input: f64,
    /// Read from the cache; by default the same as other input.
    pub cache_read: Option<f64>,
    /// Written into the cache; by default the same as other input.
    pub cache_write: Option<f64>,
    /// Written, thoughts too.
    pub output: f64,
    /// The prices of a long request.
    pub long: Option<LongPrice>,
}

/// The prices of all tokens of a request that reads many.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct LongPrice {
    /// Holds for requests that read more tokens than this.
    pub above_tokens: u64,
    /// Factor on the price of input, cached or not.
    pub input_factor: f64,
    /// Factor on the price of output.
    pub output_factor: f64,
}

/// A row of the list of prices.
#[derive(Clone, Debug, PartialEq)]
pub struct Listed {
    /// The host whose price it is: elsewhere a model of the same name is another thing.
    pub host: String,
    /// The model's name in the list; a date at the end doesn't matter.
    pub model: String,
    /// The last day on which it holds, as [`day_of`] counts; the next row of the model holds from then on.
    pub until_day: Option<i64>,
    /// The price.
    pub price: Price,
}

impl Price {
    /// The cost of a request.
    #[must_use]
    pub fn cost(&self, usage: &Usage) -> Money {
        let (input_factor, output_factor) = self.factors(usage.total_in());
        let read = of(usage.uncached_in, self.input)
            .plus(of(usage.cache_read, self.cache_read.unwrap_or(self.input)))
            .plus(of(usage.cache_write, self.cache_write.unwrap_or(self.input)));
        scaled(read, input_factor).plus(scaled(of(usage.total_out(), self.output), output_factor))
    }

    /// The most that a request can cost that reads and writes these numbers of tokens.
    #[must_use]
    pub fn most(&self, input_tokens: u64, output_tokens: u64) -> Money {
        let (_, output_factor) = self.factors(input_tokens);
        self.most_in(input_tokens).plus(scaled(of(output_tokens, self.output), output_factor))
    }

    /// The number of tokens that a sum pays for, after a request of this number of tokens.
    #[must_use]
    pub fn output_for(&self, money: Money, input_tokens: u64) -> u64 {
        let (_, output_factor) = self.factors(input_tokens);
        let left = money.minus(self.most_in(input_tokens));
        let each = Money::from_usd(self.output * output_factor / 1e6).pico();
        left.pico().checked_div(each).unwrap_or(u64::MAX)
    }

    /// All that is read may be written into the cache, which costs more at some providers.
    fn most_in(&self, tokens: u64) -> Money {
        let (input_factor, _) = self.factors(tokens);
        scaled(of(tokens, self.input.max(self.cache_write.unwrap_or(0.0))), input_factor)
    }

    fn factors(&self, input_tokens: u64) -> (f64, f64) {
        match self.long {
            Some(long) if input_tokens > long.above_tokens => (long.input_factor, long.output_factor),
            _ => (1.0, 1.0),
        }
    }
}

/// The cost of tokens at a price for a million, exact to the millionth of a millionth.
fn of(tokens: u64, per_million: f64) -> Money {
    Money::from_pico(tokens.saturating_mul(Money::from_usd(per_million / 1e6).pico()))
}

#[allow(clippy::cast_precision_loss, clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "it saturates")]
fn scaled(money: Money, factor: f64) -> Money {
    // Most requests aren't long, and then nothing is rounded.
    if factor == 1.0 { money } else { Money::from_pico((money.pico() as f64 * factor).round() as u64) }
}

type Read = dyn Fn() -> Vec<Listed> + Send + Sync;

/// The price lists.
pub struct Prices {
    own: BTreeMap<String, Price>,
    read: Box<Read>,
    listed: OnceLock<Vec<Listed>>,
}

impl Prices {
    /// Puts the user's own prices, by a model's name in the config or at its server, over a list; the list is read when
    /// it is first needed.
    pub fn new(own: BTreeMap<String, Price>, read: impl Fn() -> Vec<Listed> + Send + Sync + 'static) -> Self {
        Self { own, read: Box::new(read), listed: OnceLock::new() }
    }

    /// Finds the price of a model on a day: the user's own, by the model's name in the config or at the server; else
    /// the listed one, if the list can name the host.
    #[must_use]
    pub fn find(&self, name: &str, host: Option<&str>, served_as: &str, day: i64) -> Option<Price> {
        if let Some(own) = self.own.get(name).or_else(|| self.own.get(served_as)) {
            return Some(*own);
        }
        let host = host?;
        let served_as = served_as.strip_prefix("models/").unwrap_or(served_as);
        let listed = self.listed.get_or_init(|| (self.read)());
        let fits = |row: &&Listed| {
            row.host == host && is_same(served_as, &row.model) && row.until_day.is_none_or(|until| day <= until)
        };
        listed.iter().find(fits).map(|row| row.price)
    }
}

impl Default for Prices {
    fn default() -> Self {
        Self::new(BTreeMap::new(), Vec::new)
    }
}

impl Clone for Prices {
    /// Copies the list, too, after reading it if necessary.
    fn clone(&self) -> Self {
        let listed = self.listed.get_or_init(|| (self.read)()).clone();
        Self::new(self.own.clone(), move || listed.clone())
    }
}

impl fmt::Debug for Prices {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Prices").field("own", &self.own).finish_non_exhaustive()
    }
}

/// Returns whether a row is about this model: the same name, or the name followed by a date or `-latest`.
fn is_same(served_as: &str, row: &str) -> bool {
    match served_as.strip_prefix(row) {
        Some("" | "-latest") => true,
        Some(rest) => {
            let digits = rest.chars().filter(char::is_ascii_digit).count();
            rest.starts_with('-') && digits == 8 && rest.chars().all(|c| c == '-' || c.is_ascii_digit())
        }
        None => false,
    }
}

/// The number of a day, from `YYYY-MM-DD`: days since 1970 (Howard Hinnant, "chrono-Compatible Low-Level Date
/// Algorithms", `days_from_civil`).
#[must_use]
pub fn day_of(date: &str) -> Option<i64> {
    let parts: Vec<i64> = date.split('-').map(|part| part.parse().ok()).collect::<Option<_>>()?;
    let [year, month @ 1..=12, day @ 1..=31] = parts[..] else { return None };
    let year = if month <= 2 { year - 1 } else { year };
    let (era, of_era) = (year.div_euclid(400), year.rem_euclid(400));
    let of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    Some(era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn usage(tokens: [u64; 5]) -> Usage {
        let [uncached_in, cache_read, cache_write, visible_out, reasoning_out] = tokens;
        Usage { uncached_in, cache_read, cache_write, visible_out, reasoning_out, ..Usage::default() }
    }

    const PRICE: Price = Price { input: 5.0, cache_read: Some(0.5), cache_write: Some(6.25), output: 25.0, long: None };

    #[test]
    fn each_kind_of_token_has_its_price() {
        let long = LongPrice { above_tokens: 100, input_factor: 2.0, output_factor: 1.5 };
        let tiered = Price { long: Some(long), ..PRICE };
        let plain = Price { cache_read: None, cache_write: None, ..PRICE };
        for (price, tokens, pico) in [
            (PRICE, [1, 0, 0, 0, 0], 5_000_000),
            (PRICE, [0, 1, 0, 0, 0], 500_000),
            (PRICE, [0, 0, 1, 0, 0], 6_250_000),
            (PRICE, [0, 0, 0, 1, 0], 25_000_000),
            (PRICE, [0, 0, 0, 0, 1], 25_000_000),
            (plain, [0, 1, 1, 0, 0], 10_000_000),
            (Price { input: 0.075, ..PRICE }, [1_000_000, 0, 0, 0, 0], 75_000_000_000),
            (tiered, [50, 50, 0, 1, 0], 300_000_000),
            // One token more, and all of them cost more.
            (tiered, [51, 50, 0, 1, 0], 2 * (51 * 5_000_000 + 25_000_000) + 37_500_000),
        ] {
            assert_eq!(price.cost(&usage(tokens)), Money::from_pico(pico), "{tokens:?}");
        }
    }

    #[test]
    fn the_highest_cost_is_never_below_the_real_one() {
        for tokens in [[1000, 0, 0, 50, 0], [0, 1000, 0, 0, 50], [0, 0, 1000, 25, 25], [300, 300, 400, 50, 0]] {
            assert!(PRICE.most(1000, 50) >= PRICE.cost(&usage(tokens)), "{tokens:?}");
        }
        let money = PRICE.most(1000, 50);
        assert_eq!(PRICE.output_for(money, 1000), 50);
        assert_eq!(PRICE.output_for(Money::default(), 1000), 0);
        assert_eq!(Price::default().output_for(Money::default(), 1000), u64::MAX);
    }

    #[test]
    fn a_price_applies_only_to_its_model_host_and_days() {
        let row = |model: &str, until: Option<&str>, input| Listed {
            host: "api.x".into(),
            model: model.into(),
            until_day: until.map(|date| day_of(date).expect("a date")),
            price: Price { input, ..Price::default() },
        };
        let list = vec![row("big", Some("2026-12-31"), 1.0), row("big", None, 2.0), row("big-mini", None, 3.0)];
        let own = BTreeMap::from([("mine".to_owned(), PRICE), ("served".to_owned(), Price::default())]);
        let prices = Prices::new(own, move || list.clone());
        let input = |name: &str, host: &str, served_as: &str, date: &str| {
            prices.find(name, Some(host), served_as, day_of(date).expect("a date")).map(|price| price.input)
        };
        for (name, host, served_as, date, expected) in [
            ("a", "api.x", "big", "2026-12-31", Some(1.0)),
            ("a", "api.x", "big", "2027-01-01", Some(2.0)),
            ("a", "api.x", "models/big-2026-01-30", "2026-01-01", Some(1.0)),
            ("a", "api.x", "big-20260130", "2026-01-01", Some(1.0)),
            ("a", "api.x", "big-latest", "2026-01-01", Some(1.0)),
            ("a", "api.x", "big-mini", "2026-01-01", Some(3.0)),
            ("a", "api.x", "big-maxi", "2026-01-01", None),
            ("a", "api.x", "bigger", "2026-01-01", None),
            ("a", "127.0.0.1", "big", "2026-01-01", None),
            ("mine", "127.0.0.1", "big", "2026-01-01", Some(5.0)),
            ("a", "127.0.0.1", "served", "2026-01-01", Some(0.0)),
        ] {
            assert_eq!(input(name, host, served_as, date), expected, "{name} {host} {served_as} {date}");
        }
        assert_eq!(prices.find("a", None, "big", 0), None);
        assert_eq!(prices.clone().find("a", Some("api.x"), "big-mini", 0).map(|price| price.input), Some(3.0));
    }

    #[test]
    fn days_are_counted_as_the_calendar_does() {
        for (date, day) in [
            ("1970-01-01", Some(0)),
            ("2000-03-01", Some(11_017)),
            ("2026-11-21", Some(20_778)),
            ("2026-13-01", None),
            ("x", None),
        ] {
            assert_eq!(day_of(date), day, "{date}");
        }
    }
}
