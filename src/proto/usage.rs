//! The cost of a request to a model, in one form for every provider.

use std::fmt;

/// Tokens in one normal form: the fields don't overlap, so their sum is the total, for every provider.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Tokens that the model read, not from a cache nor into one.
    pub uncached_in: u64,
    /// Tokens read from the provider's cache.
    pub cache_read: u64,
    /// Tokens written to the provider's cache.
    pub cache_write: u64,
    /// Tokens of the answer and the tool calls.
    pub visible_out: u64,
    /// Tokens of thoughts.
    pub reasoning_out: u64,
    /// The cost that the server itself reports.
    pub cost: Option<Money>,
    /// The server's own object, as JSON.
    pub raw: String,
}

impl Usage {
    /// All tokens that were read.
    #[must_use]
    pub fn total_in(&self) -> u64 {
        self.uncached_in.saturating_add(self.cache_read).saturating_add(self.cache_write)
    }

    /// All tokens that were written.
    #[must_use]
    pub fn total_out(&self) -> u64 {
        self.visible_out.saturating_add(self.reasoning_out)
    }
}

/// An amount of money in US dollars: a whole number of millionths of a millionth, since a price is a number of millionths
/// for a million tokens.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Money(u64);

impl Money {
    /// Converts a number of dollars; a negative number or NaN becomes zero.
    #[must_use]
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a float's cast saturates")]
    pub fn from_usd(dollars: f64) -> Self {
        Self((dollars * 1e12).round() as u64)
    }

    /// Wraps a number of millionths of a millionth of a dollar.
    #[must_use]
    pub fn from_pico(pico: u64) -> Self {
        Self(pico)
    }

    /// Returns the number of millionths of a millionth of a dollar.
    #[must_use]
    pub fn pico(self) -> u64 {
        self.0
    }

    /// Returns the number of dollars.
    #[must_use]
    #[allow(clippy::cast_precision_loss, reason = "for showing and comparing, where the last digits don't count")]
    pub fn usd(self) -> f64 {
        self.0 as f64 / 1e12
    }

    /// Adds; stops at the maximum.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }

    /// Subtracts; the result is never below zero.
    #[must_use]
    pub fn minus(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }
}

impl fmt::Display for Money {
    /// Writes two decimals for a dollar or more, up to four for less.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let dollars = self.usd();
        match self.0 {
            0 => f.write_str("$0"),
            1..50_000_000 => f.write_str("under $0.0001"),
            // A sum that would round up to a dollar is written as one.
            50_000_000..995_000_000_000 => write!(f, "${dollars:.*}", if dollars < 0.0995 { 4 } else { 3 }),
            _ => write!(f, "${dollars:.2}"),
        }
    }
}

/// One request to a model, and its cost.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Spent {
    /// The name in the config of the model that answered.
    pub model: String,
    /// The server's name for it.
    pub served_as: String,
    /// The server's protocol, in the config's word for it.
    pub kind: String,
    /// The server's host, without its port; empty if there is none.
    pub host: String,
    /// The tools that it asked for, by name, in order.
    pub tools: Vec<String>,
    /// The tokens.
    pub usage: Usage,
    /// `true` if the tokens were counted here: the server reported none, or the answer broke off too early.
    pub is_estimate: bool,
    /// The tokens that were estimated before it was sent.
    pub estimated_in: u64,
    /// Its cost, if the price is known.
    pub cost: Option<Money>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_small_sum_is_never_shown_as_zero() {
        for (dollars, text) in [
            (0.0, "$0"),
            (0.000_001, "under $0.0001"),
            (0.000_05, "$0.0001"),
            (0.0123, "$0.0123"),
            (0.12345, "$0.123"),
            (0.9949, "$0.995"),
            (0.9999, "$1.00"),
            (12.345, "$12.35"),
            (-1.0, "$0"),
            (f64::NAN, "$0"),
        ] {
            assert_eq!(Money::from_usd(dollars).to_string(), text, "{dollars}");
        }
    }
}
