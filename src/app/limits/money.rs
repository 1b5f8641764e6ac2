//! Settings of prices and budgets into options.

use crate::agent::MoneyOptions;
use crate::config::{self, LimitSettings, ListedPrice, PriceSettings, Settings};
use crate::money::{Budget, Limit, Listed, LongPrice, Price, Prices, day_of};
use crate::proto::Money;

/// Makes the agent's options.
pub(in crate::app) fn money_options(settings: &Settings) -> MoneyOptions {
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

#[cfg(test)]
mod tests {
    use super::*;

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
