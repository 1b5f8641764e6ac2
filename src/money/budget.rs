//! Budgets: the spending compared with the limits, before a request is sent and afterwards.

use std::fmt;

use super::Price;
use crate::proto::Money;

/// Tokens of an answer below which it isn't worth a request: if a budget leaves fewer, it is used up.
const ANSWER_TOKENS_MIN: u64 = 256;

/// Assumed length of an answer without a limit: every current model may write as much.
pub const ANSWER_TOKENS_MAX: u64 = 16_384;

/// The name of the limit of a run, which has settings of its own.
const PER_RUN: &str = "per_run";

/// The budget; an absent limit means unlimited.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Limit {
    /// In money.
    pub money: Option<Money>,
    /// In tokens, read and written.
    pub tokens: Option<u64>,
}

/// All limits.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Budget {
    /// For one question with all its requests.
    pub per_turn: Limit,
    /// For one conversation.
    pub per_conversation: Limit,
    /// For one day, over all conversations.
    pub per_day: Limit,
    /// For one run towards a goal.
    pub per_run: Limit,
    /// A warning appears at this fraction of the limit.
    pub warn_at: f64,
}

/// The cost of some requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sum {
    /// In money, those with a known price.
    pub money: Money,
    /// In tokens, read and written.
    pub tokens: u64,
}

impl Sum {
    /// Adds a request.
    pub fn add(&mut self, money: Option<Money>, tokens: u64) {
        self.money = self.money.plus(money.unwrap_or_default());
        self.tokens = self.tokens.saturating_add(tokens);
    }
}

/// The sum spent so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Spending {
    /// For this question.
    pub turn: Sum,
    /// In this conversation.
    pub conversation: Sum,
    /// Today.
    pub day: Sum,
    /// In this run towards a goal.
    pub run: Sum,
}

/// A request that is about to be sent.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    /// The model, for messages.
    pub model: &'a str,
    /// The tokens that it reads.
    pub input_tokens: u64,
    /// The request's own limit for the answer.
    pub output_tokens_max: Option<u64>,
    /// The model's price, if it is known.
    pub price: Option<Price>,
    /// The model is on this machine or in the user's network, so that an unknown price needn't be a bill.
    pub is_near: bool,
}

/// The verdict of a budget.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Allowed {
    /// The limit for the answer, if the budget had to reduce it.
    pub output_tokens_max: Option<u64>,
}

/// Reason why a request isn't sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Over {
    /// The limit that would be exceeded, in a sentence.
    pub message: String,
    /// The next step.
    pub hint: String,
}

/// A limit that is nearly used up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Warning {
    /// The setting's name; each limit is reported once.
    pub key: &'static str,
    /// The sentence.
    pub text: String,
}

/// A budget's key in the config, its purpose, its limit and the sum spent.
type Named = (&'static str, &'static str, Limit, Sum);

impl Budget {
    /// Returns whether there is any limit at all.
    #[must_use]
    pub fn is_set(&self) -> bool {
        let limits = [self.per_turn, self.per_conversation, self.per_day, self.per_run];
        limits.iter().any(|it| it.money.is_some() || it.tokens.is_some())
    }

    /// Judges a request by the most that it can cost. A request without a limit for its answer gets one: the rest of
    /// the budget.
    ///
    /// # Errors
    /// A limit that the request could exceed, or a limit in money while the price is unknown.
    pub fn judge(&self, spent: &Spending, request: &Request<'_>) -> Result<Allowed, Over> {
        let mut output_max: Option<u64> = None;
        for (key, what, limit, sum) in self.limits(spent) {
            let left = [
                limit.tokens.map(|tokens| tokens.saturating_sub(sum.tokens).saturating_sub(request.input_tokens)),
                limit.money.map(|money| output_for(request, money.minus(sum.money), key)).transpose()?.flatten(),
            ];
            for (output, is_money) in left.into_iter().zip([false, true]) {
                let Some(output) = output else { continue };
                let wanted = request.output_tokens_max.unwrap_or(ANSWER_TOKENS_MIN);
                if output < wanted {
                    return Err(over(request, (key, what, limit, sum), is_money, wanted));
                }
                if request.output_tokens_max.is_none() {
                    output_max = Some(output.min(output_max.unwrap_or(ANSWER_TOKENS_MAX)));
                }
            }
        }
        Ok(Allowed { output_tokens_max: output_max })
    }

    /// Names the limits whose warning level is reached.
    #[must_use]
    pub fn warnings(&self, spent: &Spending) -> Vec<Warning> {
        let mut warnings = Vec::new();
        for (key, what, limit, sum) in self.limits(spent) {
            let money =
                limit.money.map(|most| (share(sum.money.usd(), most.usd()), format!("{} of {most}", sum.money)));
            #[allow(clippy::cast_precision_loss, reason = "a share is shown as a whole number")]
            let tokens = limit
                .tokens
                .map(|most| (share(sum.tokens as f64, most as f64), format!("{} of {most} tokens", sum.tokens)));
            for (share, text) in [money, tokens].into_iter().flatten().filter(|(share, _)| *share >= self.warn_at) {
                let percent = (share * 100.0).floor();
                let text =
                    format!("[budget] {text} is spent for {what} ({percent} %); {} in the config", setting_of(key));
                warnings.push(Warning { key, text });
            }
        }
        warnings
    }

    fn limits(&self, spent: &Spending) -> [Named; 4] {
        [
            ("per_turn", "this question", self.per_turn, spent.turn),
            ("per_conversation", "this conversation", self.per_conversation, spent.conversation),
            ("per_day", "today", self.per_day, spent.day),
            (PER_RUN, "this run", self.per_run, spent.run),
        ]
    }
}

/// The setting of a limit, for messages.
fn setting_of(key: &str) -> String {
    if key == PER_RUN { "norris.budget".to_owned() } else { format!("budget.{key}") }
}

fn share(part: f64, whole: f64) -> f64 {
    if whole > 0.0 { part / whole } else { 1.0 }
}

/// The number of tokens that a sum pays for; `None` if output costs nothing.
fn output_for(request: &Request<'_>, left: Money, key: &str) -> Result<Option<u64>, Over> {
    match request.price {
        Some(price) if price.most(request.input_tokens, 0) > left => Ok(Some(0)),
        Some(price) => Ok(Some(price.output_for(left, request.input_tokens))),
        None if request.is_near => Ok(None),
        None => Err(Over {
            message: format!(
                "the price of {} isn't known, so {} in money can't be checked",
                request.model,
                setting_of(key)
            ),
            hint: format!(
                "prices = {{[\"{}\"] = {{input = …, output = …}}}} in the config, in dollars for a million tokens; or a \
                 budget in tokens",
                request.model
            ),
        }),
    }
}

fn over(request: &Request<'_>, (key, what, limit, sum): Named, is_money: bool, wanted: u64) -> Over {
    let (could, left) = match (is_money, limit, request.price) {
        (true, Limit { money: Some(money), .. }, Some(price)) => {
            (price.most(request.input_tokens, wanted).to_string(), money.minus(sum.money).to_string())
        }
        (_, limit, _) => {
            let left = limit.tokens.unwrap_or_default().saturating_sub(sum.tokens);
            (format!("{} tokens", request.input_tokens.saturating_add(wanted)), left.to_string())
        }
    };
    let unit = if is_money { "usd" } else { "tokens" };
    let smaller = if request.output_tokens_max.is_some() {
        format!("; a smaller models.{}.max_output_tokens, or :new", request.model)
    } else {
        "; :new starts a shorter conversation".to_owned()
    };
    Over {
        message: format!("a request to {} could cost {could}, and {left} is left for {what}", request.model),
        hint: match key {
            PER_RUN => format!("reedclaw norris budget ID --budget-{unit} N changes this limit"),
            _ => format!("budget.{key}.{unit} in the config sets this limit{smaller}"),
        },
    }
}

impl fmt::Display for Sum {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, {} tokens", self.money, self.tokens)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dollars(money: f64) -> Limit {
        Limit { money: Some(Money::from_usd(money)), tokens: None }
    }

    fn tokens(tokens: u64) -> Limit {
        Limit { money: None, tokens: Some(tokens) }
    }

    fn sum(money: f64, tokens: u64) -> Sum {
        Sum { money: Money::from_usd(money), tokens }
    }

    /// A dollar for a thousand tokens read, two for a thousand written.
    const PRICE: Price = Price { input: 1_000.0, cache_read: None, cache_write: None, output: 2_000.0, long: None };

    /// Budget; spent by now; tokens read, and those that may be written; price; near or not; the limit or the error.
    type Row = (Budget, Sum, u64, Option<u64>, Option<Price>, bool, Result<Option<u64>, &'static str>);

    #[test]
    fn a_request_is_judged_by_its_highest_cost() {
        let budget = |per_turn, per_day| Budget { per_turn, per_day, warn_at: 0.8, ..Budget::default() };
        let none = Limit::default();
        let table: &[Row] = &[
            (Budget::default(), sum(9.0, 9), 1000, None, None, false, Ok(None)),
            // In money: 1 dollar to read, 2 to write.
            (budget(none, dollars(3.0)), sum(0.0, 0), 1000, Some(1000), Some(PRICE), false, Ok(None)),
            (budget(none, dollars(3.0)), sum(0.01, 0), 1000, Some(1000), Some(PRICE), false, Err("$3.00, and $2.99")),
            (budget(none, dollars(2.0)), sum(0.0, 0), 1000, None, Some(PRICE), false, Ok(Some(500))),
            (budget(none, dollars(1.4)), sum(0.0, 0), 1000, None, Some(PRICE), false, Err("$1.51, and $1.40")),
            (
                budget(none, dollars(0.0)),
                sum(0.0, 0),
                10,
                None,
                Some(Price::default()),
                false,
                Ok(Some(ANSWER_TOKENS_MAX)),
            ),
            (budget(none, dollars(5.0)), sum(0.0, 0), 10, Some(1), None, false, Err("price of m isn't known")),
            (budget(none, dollars(5.0)), sum(0.0, 0), 10, Some(1), None, true, Ok(None)),
            // In tokens.
            (budget(tokens(2000), none), sum(0.0, 0), 1000, Some(1000), None, false, Ok(None)),
            (budget(tokens(1999), none), sum(0.0, 0), 1000, Some(1000), None, true, Err("2000 tokens, and 1999")),
            (budget(tokens(2000), none), sum(0.0, 500), 1000, None, None, false, Ok(Some(500))),
            (budget(tokens(100), none), sum(0.0, 0), 1000, None, None, false, Err("1256 tokens, and 100")),
            // The tighter of two.
            (budget(tokens(2000), dollars(2.0)), sum(0.0, 0), 1000, None, Some(PRICE), false, Ok(Some(500))),
        ];
        for (budget, spent, input_tokens, output_tokens_max, price, is_near, expected) in table {
            let spent = Spending { turn: *spent, conversation: *spent, day: *spent, run: *spent };
            let request = Request {
                model: "m",
                input_tokens: *input_tokens,
                output_tokens_max: *output_tokens_max,
                price: *price,
                is_near: *is_near,
            };
            let judged = budget.judge(&spent, &request);
            match (expected, &judged) {
                (Ok(most), Ok(allowed)) => assert_eq!(allowed.output_tokens_max, *most, "{budget:?}"),
                (Err(words), Err(over)) => {
                    assert!(over.message.contains(words), "{over:?}");
                    assert!(!over.hint.is_empty());
                }
                _ => panic!("{budget:?} {request:?}: {judged:?}"),
            }
        }
    }

    #[test]
    fn a_warning_begins_at_the_configured_share() {
        let budget = Budget { per_turn: tokens(100), per_day: dollars(10.0), warn_at: 0.8, ..Budget::default() };
        let at = |money, count| {
            budget.warnings(&Spending { turn: sum(0.0, count), day: sum(money, 0), ..Spending::default() })
        };
        assert_eq!(at(7.99, 79), []);
        let warnings = at(8.5, 100);
        assert_eq!(warnings.iter().map(|it| it.key).collect::<Vec<_>>(), ["per_turn", "per_day"]);
        assert!(warnings[0].text.contains("100 of 100 tokens is spent for this question (100 %)"), "{warnings:?}");
        assert!(warnings[1].text.contains("$8.50 of $10.00 is spent for today (85 %)"), "{warnings:?}");
    }
}
