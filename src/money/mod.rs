//! The price of tokens, and whether a request fits the budget: prices, sums and budgets. Pure: where prices and sums
//! come from, and what day it is, the caller knows.

mod budget;
mod prices;

pub use budget::{ANSWER_TOKENS_MAX, Allowed, Budget, Limit, Over, Request, Spending, Sum, Warning};
pub use prices::{Listed, LongPrice, Price, Prices, day_of};
