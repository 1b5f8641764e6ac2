//! Settings of prices and budgets into options, and sums into words.

use crate::agent::MoneyOptions;
use crate::config::{self, LimitSettings, ListedPrice, PriceSettings, Settings};
use crate::money::{Budget, Limit, Listed, LongPrice, Price, Prices, day_of};
use crate::proto::Money;
use crate::store::SpentSum;

/// Makes the agent's options.
pub(super) fn money_options(settings: &Settings) -> MoneyOptions {
    let own = settings.prices.iter().map(|(name, price)| (name.clone(), price_of(price))).collect();
    let limit = |limit: LimitSettings| Limit { money: limit.usd.map(Money::from_usd), tokens: limit.tokens };
    let budget = settings.budget;
    MoneyOptions {
        prices: Prices::new(own, || config::listed_prices().into_iter().filter_map(listed).collect()),
        budget: Budget {
            per_turn: limit(budget.per_turn),
            per_conversation: limit(budget.per_conversation),
            per_day: limit(budget.per_day),
            per_run: Limit::default(),
            warn_at: budget.warn_at,
        },
    }
}

fn price_of(price: &PriceSettings) -> Price {
    let PriceSettings { input, cache_read, cache_write, output } = *price;
    Price { input, cache_read, cache_write, output, long: None }
}

fn listed(row: ListedPrice) -> Option<Listed> {
    // An invalid last day would make a price permanent.
    let until_day = row.until_day.map(|day| day_of(&day).ok_or(())).transpose().ok()?;
    let long = row.long.map(|(above_tokens, input_factor, output_factor)| LongPrice {
        above_tokens,
        input_factor,
        output_factor,
    });
    Some(Listed { host: row.host, model: row.model, until_day, price: Price { long, ..price_of(&row.price) } })
}

/// Makes the rows of a table of the cost of some requests: all together under `name`, then by model.
pub fn spent_rows(name: &str, by_model: &[(String, SpentSum)], is_near: &dyn Fn(&str) -> bool) -> Vec<Vec<String>> {
    let row = |name: String, models: &[(String, SpentSum)]| {
        let mut sum = SpentSum::default();
        models.iter().for_each(|(_, of_model)| sum.add(of_model));
        let requests = if sum.requests == 1 { "1 request".to_owned() } else { format!("{} requests", sum.requests) };
        let part = |part: u64, what: &str| match part {
            0 => String::new(),
            part => format!(", {} {what}", short(part)),
        };
        let read = format!("{} read{}", short(sum.total_in()), part(sum.cache_read, "cached"));
        let written = format!("{} written{}", short(sum.total_out()), part(sum.reasoning_out, "thought"));
        vec![name, cost_told(models, is_near), requests, read, written]
    };
    if by_model.is_empty() {
        return vec![vec![name.to_owned(), "nothing".to_owned()]];
    }
    let models = by_model.iter().map(|one| row(format!("  {}", one.0), std::slice::from_ref(one)));
    std::iter::once(row(name.to_owned(), by_model)).chain(models).collect()
}

/// A number of tokens in few characters.
#[allow(clippy::cast_precision_loss, reason = "it is shown with one decimal")]
fn short(tokens: u64) -> String {
    match tokens {
        ..10_000 => tokens.to_string(),
        10_000..999_950 => format!("{:.1}k", tokens as f64 / 1e3),
        _ => format!("{:.1}M", tokens as f64 / 1e6),
    }
}

/// Says what requests to some models cost: what isn't known is said to be so, and a model that is near needs no price.
#[must_use]
pub fn cost_told(by_model: &[(String, SpentSum)], is_near: &dyn Fn(&str) -> bool) -> String {
    let mut all = SpentSum::default();
    by_model.iter().for_each(|(_, sum)| all.add(sum));
    let far = by_model.iter().filter(|(model, _)| !is_near(model));
    let unknown: u64 = far.map(|(_, sum)| sum.unpriced).sum();
    match (all.unpriced == all.requests, unknown) {
        (true, 0) => "local".to_owned(),
        (true, _) => "price unknown".to_owned(),
        (false, 0) => all.cost.to_string(),
        (false, unknown) => format!("{} and {unknown} of unknown price", all.cost),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_price_is_never_shown_as_nothing() {
        let sum = |requests, unpriced, dollars| SpentSum {
            requests,
            unpriced,
            cost: Money::from_usd(dollars),
            ..SpentSum::default()
        };
        let near = |model: &str| model == "near";
        for (models, told) in [
            (vec![("near", sum(2, 2, 0.0))], "local"),
            (vec![("far", sum(2, 2, 0.0))], "price unknown"),
            (vec![("near", sum(2, 2, 0.0)), ("far", sum(1, 1, 0.0))], "price unknown"),
            (vec![("near", sum(2, 2, 0.0)), ("far", sum(1, 0, 0.5))], "$0.500"),
            (vec![("far", sum(3, 1, 0.5))], "$0.500 and 1 of unknown price"),
            (vec![("near", sum(2, 0, 0.0))], "$0"),
        ] {
            let models: Vec<(String, SpentSum)> = models.into_iter().map(|(name, sum)| (name.into(), sum)).collect();
            assert_eq!(cost_told(&models, &near), told);
        }
    }

    #[test]
    fn the_built_in_list_becomes_prices_that_hold() {
        let listed: Vec<Listed> = config::listed_prices().into_iter().filter_map(listed).collect();
        assert_eq!(listed.len(), config::listed_prices().len());
        let prices = Prices::new(Default::default(), move || listed.clone());
        let day = |date| day_of(date).expect("a date");
        let price = |model, date| prices.find("x", Some("generativelanguage.googleapis.com"), model, day(date));
        assert_eq!(price("gemini-3.8-flash", "2026-12-31").map(|price| price.output), Some(3.75));
        assert_eq!(price("models/gemini-3.8-flash", "2027-01-01").map(|price| price.output), Some(7.5));
        assert_eq!(price("gemini-9", "2026-12-31"), None);
    }
}
