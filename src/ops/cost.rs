//! The cost of questions: sums by model for a conversation, a day and a month; single requests; the parts of a run.

use crate::agent::Agent;
use crate::base::text::{age, counted};
use crate::host;
use crate::ops::models::is_near;
use crate::store::{ConversationId, Counted, PartOfRun, Period, SpentSum, Store, StoreError, StoredRequest};

/// A time for which the cost is summed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Span {
    /// This conversation.
    Conversation,
    /// Today.
    Day,
    /// This month.
    Month,
}

/// The cost of a span, by model.
#[derive(Clone, Debug)]
pub struct Cost {
    /// The span.
    pub span: Span,
    /// Each model with its sum.
    pub by_model: Vec<(String, SpentSum)>,
}

/// Sums the cost of today and of this month.
///
/// # Errors
/// The database can't be read.
pub fn of_days(store: &Store) -> Result<Vec<Cost>, StoreError> {
    let now = host::now_unix_ms();
    let spans = [(Span::Day, Period::Day(now)), (Span::Month, Period::Month(now))];
    spans.into_iter().map(|(span, period)| Ok(Cost { span, by_model: store.spent_by_model(period)? })).collect()
}

/// Sums the cost of a conversation, of today and of this month.
///
/// # Errors
/// The database can't be read.
pub fn of_conversation(store: &Store, conversation: Option<ConversationId>) -> Result<Vec<Cost>, StoreError> {
    let by_model = conversation.map(|id| store.spent_by_model(Period::Conversation(id))).transpose()?;
    let own = Cost { span: Span::Conversation, by_model: by_model.unwrap_or_default() };
    Ok(std::iter::once(own).chain(of_days(store)?).collect())
}

/// Everything that the store has counted.
#[derive(Debug)]
pub struct Ever {
    /// Conversations and failures.
    pub counted: Counted,
    /// Each model with its sum.
    pub by_model: Vec<(String, SpentSum)>,
}

/// Sums everything that was ever stored.
///
/// # Errors
/// The database can't be read.
pub fn ever(store: &Store) -> Result<Ever, StoreError> {
    Ok(Ever { counted: store.counted()?, by_model: store.spent_by_model(Period::Ever)? })
}

/// The requests of a conversation as the rows of a table, the oldest first: age, model, tokens read, cached and written,
/// cost, tools.
///
/// # Errors
/// The database can't be read.
pub fn request_rows(
    store: &Store,
    agent: &Agent,
    conversation: Option<ConversationId>,
) -> Result<Vec<Vec<String>>, StoreError> {
    let requests = conversation.map(|id| store.requests(id)).transpose()?.unwrap_or_default();
    let now = host::now_unix_ms();
    Ok(requests.iter().map(|request| request_row(agent, request, now)).collect())
}

fn request_row(agent: &Agent, StoredRequest { time, spent, .. }: &StoredRequest, now: i64) -> Vec<String> {
    let read = spent.usage.total_in();
    let read = match (spent.is_estimate, spent.estimated_in) {
        (true, _) => format!("about {read} tokens in"),
        (false, 0) => format!("{read} tokens in"),
        (false, estimated) => format!("{read} tokens in (estimated {estimated})"),
    };
    let written = match (spent.usage.total_out(), spent.usage.reasoning_out) {
        (all, 0) => format!("{all} out"),
        (all, thoughts) => format!("{all} out, {thoughts} of them thoughts"),
    };
    let cached = match spent.usage.cache_read {
        0 => String::new(),
        cached => format!("{cached} cached"),
    };
    let sum = SpentSum {
        requests: 1,
        unpriced: u64::from(spent.cost.is_none()),
        cost: spent.cost.unwrap_or_default(),
        ..SpentSum::default()
    };
    let cost = cost_words(&[(spent.model.clone(), sum)], &|model| is_near(agent, model));
    vec![age(now - time), spent.model.clone(), read, cached, written, cost, spent.tools.join(", ")]
}

/// The parts of a run towards a goal as the rows of a table: run, part, model, requests, tokens read and written, cost.
///
/// # Errors
/// The database can't be read.
pub fn run_rows(store: &Store, run: i64) -> Result<Vec<Vec<String>>, StoreError> {
    let row = |part: &PartOfRun| {
        vec![
            format!("run {run}"),
            part.category.clone(),
            part.model.clone(),
            counted(usize::try_from(part.requests).unwrap_or(usize::MAX), "request"),
            format!("{} tokens in", part.tokens_in),
            format!("{} out", part.tokens_out),
            part.cost.to_string(),
        ]
    };
    Ok(store.spent_by_category(run)?.iter().map(row).collect())
}

/// The sum of a conversation; `None` if it can't be read.
#[must_use]
pub fn sum_of(store: &Store, conversation: ConversationId) -> Option<SpentSum> {
    store.spent(Period::Conversation(conversation)).ok()
}

/// The cost of a conversation in words; `None` if it can't be read, which `:cost` reports.
#[must_use]
pub fn of_conversation_in_words(store: &Store, agent: &Agent, conversation: ConversationId) -> Option<String> {
    let by_model = store.spent_by_model(Period::Conversation(conversation)).ok()?;
    Some(cost_words(&by_model, &|model| is_near(agent, model)))
}

/// The costs as the rows of a table; `conversation` is the word for the conversation.
#[must_use]
pub fn rows(costs: &[Cost], agent: &Agent, conversation: &str) -> Vec<Vec<String>> {
    let name = |span| match span {
        Span::Conversation => conversation,
        Span::Day => "today",
        Span::Month => "this month",
    };
    costs.iter().flat_map(|it| spent_rows(name(it.span), &it.by_model, &|model| is_near(agent, model))).collect()
}

/// Makes the rows of a table of the cost of some requests: all together under `name`, then by model.
fn spent_rows(name: &str, by_model: &[(String, SpentSum)], is_near: &dyn Fn(&str) -> bool) -> Vec<Vec<String>> {
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
        vec![name, cost_words(models, is_near), requests, read, written]
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

/// Describes the cost of requests to some models: an unknown cost is named as unknown, and a local model needs no price.
fn cost_words(by_model: &[(String, SpentSum)], is_near: &dyn Fn(&str) -> bool) -> String {
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
    use crate::proto::Money;

    #[test]
    fn an_unknown_price_is_never_shown_as_nothing() {
        let sum = |requests, unpriced, dollars| SpentSum {
            requests,
            unpriced,
            cost: Money::from_usd(dollars),
            ..SpentSum::default()
        };
        let near = |model: &str| model == "near";
        for (models, words) in [
            (vec![("near", sum(2, 2, 0.0))], "local"),
            (vec![("far", sum(2, 2, 0.0))], "price unknown"),
            (vec![("near", sum(2, 2, 0.0)), ("far", sum(1, 1, 0.0))], "price unknown"),
            (vec![("near", sum(2, 2, 0.0)), ("far", sum(1, 0, 0.5))], "$0.500"),
            (vec![("far", sum(3, 1, 0.5))], "$0.500 and 1 of unknown price"),
            (vec![("near", sum(2, 0, 0.0))], "$0"),
        ] {
            let models: Vec<(String, SpentSum)> = models.into_iter().map(|(name, sum)| (name.into(), sum)).collect();
            assert_eq!(cost_words(&models, &near), words);
        }
    }
}
