//! The cost of requests: judged before each is sent, reported and recorded after. The caller of a provider calls
//! `permit` from its sink and `settle` at the end.

use std::collections::{BTreeMap, BTreeSet};

use super::Recorder;
use crate::model::{Count, ModelError, Reach, Response, Sending};
use crate::money::{ANSWER_TOKENS_MAX, Budget, Limit, Price, Prices, Request, Spending, Sum};
use crate::proto::{Failure, Spent, Usage};
use crate::turn::estimate_tokens;

/// Prices and budgets.
#[derive(Clone, Debug, Default)]
pub struct MoneyOptions {
    /// Prices of models.
    pub prices: Prices,
    /// The limits for spending.
    pub budget: Budget,
}

/// Characters per token before anything has been learnt.
const CHARS_PER_TOKEN: f64 = 4.0;
/// A shorter request reveals little about a model's way of counting: the tokens around messages weigh too much.
const LEARNT_FROM_TOKENS: f64 = 64.0;
/// The weight of the newest request in the learnt factor.
const NEWEST_WEIGHT: f64 = 0.25;
/// No model counts so much otherwise; beyond it a server's figures are wrong.
const FACTORS: std::ops::RangeInclusive<f64> = 0.1..=10.0;
/// An estimate may be too low; a budget adds this factor.
const ESTIMATE_MARGIN: f64 = 1.25;
/// The same for a count with the model's vocabulary, which doesn't include all tokens around messages.
const COUNT_MARGIN: f64 = 1.05;
/// Tokens around one message, at most.
const AROUND_MESSAGE: u64 = 16;

/// Prices, budget, and the cost of the present question.
#[derive(Debug, Default)]
pub(super) struct Purse {
    options: MoneyOptions,
    turn: Sum,
    /// Limits that were reported as nearly used up.
    warned: BTreeSet<&'static str>,
    factors: BTreeMap<String, f64>,
    sent: Option<Sent>,
    /// A failure to record, until it is reported.
    trouble: Option<Failure>,
}

/// A request that is on its way.
#[derive(Debug)]
struct Sent {
    model: String,
    served_as: String,
    kind: &'static str,
    host: String,
    chars: u64,
    estimated_in: u64,
    /// True if the price may be in the list of its host.
    is_listed: bool,
}

/// The cost of a request, and the reports about it.
pub(super) struct Settled {
    pub(super) spent: Spent,
    pub(super) notices: Vec<String>,
}

impl Purse {
    /// Continues with other prices and budgets.
    pub(super) fn configure(&mut self, options: MoneyOptions) {
        self.options = options;
    }

    /// Limits the current run.
    pub(super) fn limit_run(&mut self, limit: Limit) {
        self.options.budget.per_run = limit;
    }

    /// Prices and budgets.
    pub(super) fn options(&self) -> &MoneyOptions {
        &self.options
    }

    /// A new question begins.
    pub(super) fn begin_turn(&mut self) {
        self.turn = Sum::default();
        self.sent = None;
    }

    /// Judges a request before it is sent; may limit its answer's tokens.
    pub(super) fn permit(
        &mut self,
        sending: &Sending<'_>,
        recorder: &mut dyn Recorder,
    ) -> Result<Option<u64>, Failure> {
        let (chars, bytes) = sending.request.length();
        let factor = self.factor(sending.model, recorder);
        let mut sent = Sent {
            model: sending.model.to_owned(),
            served_as: sending.served_as.to_owned(),
            kind: sending.kind,
            host: sending.host.to_owned(),
            chars,
            estimated_in: whole(chars as f64 / CHARS_PER_TOKEN * factor.unwrap_or(1.0)),
            is_listed: sending.reach == Reach::Internet,
        };
        if !self.options.budget.is_set() {
            // The price can wait until the answer is there.
            self.sent = Some(sent);
            return Ok(None);
        }
        let price = self.price_of(&sent, recorder);
        let spending = Spending { turn: self.turn, ..recorder.spending()? };
        let judge = |input_tokens: u64| {
            let request = Request {
                model: sending.model,
                input_tokens,
                output_tokens_max: sending.output_tokens_max,
                price,
                is_near: sending.reach != Reach::Internet,
            };
            self.options.budget.judge(&spending, &request).map(|allowed| (input_tokens, allowed.output_tokens_max))
        };
        // A token has at least one byte: if even that many tokens fit, there is no need to count.
        let around = AROUND_MESSAGE * (sending.request.messages.len() as u64 + 1);
        let most = bytes.saturating_add(around);
        let fits = judge(most).ok().filter(|(_, output)| output.is_none_or(|output| output == ANSWER_TOKENS_MAX));
        let (input, output) = match fits {
            Some(fits) => fits,
            None => {
                let (tokens, margin) = match (sending.count)() {
                    Some(Count { tokens, is_exact: true, .. }) => (tokens, 1.0),
                    Some(Count { tokens, .. }) => (tokens, COUNT_MARGIN),
                    None => (sent.estimated_in, ESTIMATE_MARGIN),
                };
                sent.estimated_in = tokens;
                let input = whole(tokens as f64 * margin).min(most);
                judge(input).map_err(|over| Failure::budget(over.message).hint(over.hint))?
            }
        };
        let output_most = sending.output_tokens_max.or(output).unwrap_or_default();
        let usage = Usage { uncached_in: input, visible_out: output_most, ..Usage::default() };
        let worst = sent.spent(usage, Vec::new(), true, price);
        // Other sessions count it from now on, and it remains after a crash.
        let reserved = recorder.reserve(&Spent { cost: price.map(|price| price.most(input, output_most)), ..worst });
        self.note(reserved);
        self.sent = Some(sent);
        Ok(output)
    }

    /// Counts a request that is over; `None` if nothing was spent. `text` and `thoughts` are its output. The second
    /// value is a failure to record.
    pub(super) fn settle(
        &mut self,
        end: Result<&Response, &ModelError>,
        (text, thoughts): (&str, &str),
        recorder: &mut dyn Recorder,
    ) -> (Option<Settled>, Option<Failure>) {
        let settled = self.sent.take().and_then(|sent| {
            let (usage, tools) = match end {
                Ok(response) => (response.usage.clone(), response.calls.iter().map(|call| call.name.clone()).collect()),
                // Without output it is unknown whether the server read the request; mostly it didn't.
                Err(_) if text.is_empty() && thoughts.is_empty() => {
                    self.note(recorder.release());
                    return None;
                }
                Err(_) => (None, Vec::new()),
            };
            let is_estimate = usage.is_none();
            let usage = usage.unwrap_or_else(|| Usage {
                uncached_in: sent.estimated_in,
                visible_out: estimate_tokens(text) as u64,
                reasoning_out: estimate_tokens(thoughts) as u64,
                ..Usage::default()
            });
            if !is_estimate {
                self.learn(&sent, usage.total_in(), recorder);
            }
            let spent = sent.spent(usage, tools, is_estimate, self.price_of(&sent, recorder));
            self.turn.add(spent.cost, spent.usage.total_in().saturating_add(spent.usage.total_out()));
            self.note(recorder.spent(&spent, thoughts));
            Some(Settled { spent, notices: self.warnings(recorder) })
        });
        (settled, self.trouble.take())
    }

    fn note(&mut self, result: Result<(), Failure>) {
        if let Err(failure) = result {
            self.trouble.get_or_insert(failure);
        }
    }

    /// Estimates a text's tokens for a model, and says how.
    pub(super) fn estimate(&mut self, text: &str, model: &str, recorder: &mut dyn Recorder) -> Count {
        let factor = self.factor(model, recorder);
        let tokens = whole(text.chars().count() as f64 / CHARS_PER_TOKEN * factor.unwrap_or(1.0));
        let method = match factor {
            Some(factor) => {
                format!(
                    "estimate: {:.1} characters per token, as counted in answers of {model}",
                    CHARS_PER_TOKEN / factor
                )
            }
            None => "estimate: 4 characters per token, because no answer of this model has been counted yet".to_owned(),
        };
        Count { tokens, method, is_exact: false }
    }

    fn warnings(&mut self, recorder: &mut dyn Recorder) -> Vec<String> {
        if !self.options.budget.is_set() {
            return Vec::new();
        }
        // The next request reports an unknown sum, which prevents it from being sent.
        let Ok(spending) = recorder.spending() else { return Vec::new() };
        let warnings = self.options.budget.warnings(&Spending { turn: self.turn, ..spending });
        let keys = warnings.iter().map(|warning| warning.key).collect();
        let new = warnings.into_iter().filter(|warning| !self.warned.contains(warning.key));
        let texts = new.map(|warning| warning.text).collect();
        // A limit that is no longer near, as in a new conversation, is reported again the next time.
        self.warned = keys;
        texts
    }

    fn price_of(&self, sent: &Sent, recorder: &dyn Recorder) -> Option<Price> {
        self.options.prices.find(
            &sent.model,
            sent.is_listed.then_some(sent.host.as_str()),
            &sent.served_as,
            recorder.today(),
        )
    }

    fn factor(&mut self, model: &str, recorder: &mut dyn Recorder) -> Option<f64> {
        if !self.factors.contains_key(model)
            && let Some(factor) = recorder.token_factor(model)
        {
            self.factors.insert(model.to_owned(), factor);
        }
        self.factors.get(model).copied()
    }

    fn learn(&mut self, sent: &Sent, tokens: u64, recorder: &mut dyn Recorder) {
        let base = sent.chars as f64 / CHARS_PER_TOKEN;
        let found = tokens as f64 / base.max(1.0);
        if base < LEARNT_FROM_TOKENS || !FACTORS.contains(&found) {
            return;
        }
        let known = self.factors.get(&sent.model);
        let factor = known.map_or(found, |known| known * (1.0 - NEWEST_WEIGHT) + found * NEWEST_WEIGHT);
        self.factors.insert(sent.model.clone(), factor);
        let learnt = recorder.learn_token_factor(&sent.model, factor);
        self.note(learnt);
    }
}

impl Sent {
    fn spent(&self, usage: Usage, tools: Vec<String>, is_estimate: bool, price: Option<Price>) -> Spent {
        Spent {
            model: self.model.clone(),
            served_as: self.served_as.clone(),
            kind: self.kind.to_owned(),
            host: self.host.clone(),
            tools,
            is_estimate,
            estimated_in: self.estimated_in,
            // A server's own word comes first: it knows its prices.
            cost: usage.cost.or_else(|| price.map(|price| price.cost(&usage))),
            usage,
        }
    }
}

#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a float's cast saturates")]
fn whole(tokens: f64) -> u64 {
    tokens.ceil() as u64
}
