//! The dated list of prices in `config/prices.lua`. Knows nothing of their use.

use mlua::{Table, Value};

use super::reading::expand::Env;
use crate::lua::Sandbox;

/// The built-in list.
const PRICES_LUA: &str = include_str!("../../config/prices.lua");

/// A row of the list: dollars for a million tokens.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ListedPrice {
    /// The host to which it applies.
    pub host: String,
    /// The model's name there.
    pub model: String,
    /// The last day on which it applies, `YYYY-MM-DD`.
    pub until_day: Option<String>,
    /// The price.
    pub price: PriceSettings,
    /// The number of input tokens above which a request costs more, and the factors for input and output.
    pub long: Option<(u64, f64, f64)>,
}

/// A price: dollars for a million tokens.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct PriceSettings {
    /// Input tokens.
    pub input: f64,
    /// Input tokens read from the cache.
    pub cache_read: Option<f64>,
    /// Input tokens written to the cache.
    pub cache_write: Option<f64>,
    /// Output tokens.
    pub output: f64,
}

/// Reads the built-in list of prices; an invalid row is omitted, which a test would notice.
#[must_use]
pub fn listed_prices() -> Vec<ListedPrice> {
    let Ok(sandbox) = Sandbox::new(&Env::new()) else { return Vec::new() };
    let Ok(Value::Table(list)) = sandbox.run_trusted(PRICES_LUA) else { return Vec::new() };
    list.sequence_values::<Table>().filter_map(|row| row_of(&row.ok()?)).collect()
}

fn row_of(row: &Table) -> Option<ListedPrice> {
    let text = |key: &str| row.raw_get::<Option<String>>(key).ok().flatten();
    let number = |key: &str| row.raw_get::<Option<f64>>(key).ok().flatten();
    let price = PriceSettings {
        input: number("input")?,
        cache_read: number("cache_read"),
        cache_write: number("cache_write"),
        output: number("output")?,
    };
    let above = row.raw_get::<Option<u64>>("above").ok().flatten();
    let long = above.and_then(|above| Some((above, number("input_factor")?, number("output_factor")?)));
    Some(ListedPrice { host: text("host")?, model: text("model")?, until_day: text("until_day"), price, long })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_of_the_list_is_a_price() {
        let rows = listed_prices();
        assert_eq!(rows.len(), PRICES_LUA.matches("{ model = ").count());
        for ListedPrice { host, model, price, until_day, long } in &rows {
            assert!(host.contains('.') && !model.is_empty(), "{host} {model}");
            assert!(price.input > 0.0 && price.output > price.input, "{model}");
            assert!(price.cache_read.is_none_or(|read| read < price.input), "{model}");
            assert!(price.cache_write.is_none_or(|write| write > price.input), "{model}");
            assert!(until_day.as_ref().is_none_or(|day| day.len() == 10), "{model}");
            assert!(long.is_none_or(|(above, input, output)| above > 0 && input > 1.0 && output > 1.0), "{model}");
            let same = rows.iter().filter(|row| row.host == *host && row.model == *model);
            assert_eq!(same.filter(|row| row.until_day.is_none()).count(), 1, "{model}");
        }
    }
}
