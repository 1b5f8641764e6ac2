//! The cost of questions at the prompt: sums, single requests, the right edge; tokens of a text; the last thoughts. It
//! must not know prices, nor how sums are stored.

use crate::agent::Cancel;
use crate::base::text::{age, counted};
use crate::host;
use crate::ops::cost::{cost_words, of_conversation, rows};
use crate::ops::models::is_near;
use crate::proto::{Failure, Spent};
use crate::render::sanitise;
use crate::render::text::table;
use crate::repl::hub::Repl;
use crate::store::{PartOfRun, Period, SpentSum, StoreError, StoredRequest};

/// Requests that `:cost detail` shows.
const REQUESTS: usize = 50;

/// Tells what this conversation, this day and this month have cost; or each request of the conversation.
pub(in crate::repl) fn cost(repl: &Repl, argument: &str) {
    let told = match argument {
        "" => cost_sums(repl),
        "detail" => cost_detail(repl),
        _ => {
            let hint = ":cost, or :cost detail";
            let message = format!(":cost doesn't know {}", crate::render::sanitise(argument));
            return repl.console.failure(&Failure::user(message).hint(hint));
        }
    };
    match told {
        Ok(text) => repl.console.write(&text),
        Err(problem) => repl.console.failure(&problem.into()),
    }
}

fn cost_sums(repl: &Repl) -> Result<String, StoreError> {
    let agent = repl.runtime.agent();
    let costs = of_conversation(&repl.store(), agent.conversation())?;
    Ok(table(&rows(&costs, agent, "conversation"), repl.console.width_columns()))
}

fn cost_detail(repl: &Repl) -> Result<String, StoreError> {
    let requests = match repl.runtime.agent().conversation() {
        Some(id) => repl.store().requests(id)?,
        None => Vec::new(),
    };
    let of_run = cost_of_run(repl)?;
    if requests.is_empty() && !of_run.is_empty() {
        return Ok(of_run);
    }
    if requests.is_empty() {
        return Ok("nothing was asked in this conversation yet\n".to_owned());
    }
    let now = host::now_unix_ms();
    let left_out = requests.len().saturating_sub(REQUESTS);
    let rows: Vec<Vec<String>> = requests.iter().skip(left_out).map(|request| detail_row(repl, request, now)).collect();
    let mut text = table(&rows, repl.console.width_columns());
    if left_out > 0 {
        text.insert_str(0, &format!("the first {left_out} requests are left out\n"));
    }
    Ok(text + &of_run)
}

/// The parts of the newest run of this session.
fn cost_of_run(repl: &Repl) -> Result<String, StoreError> {
    let Some(run) = repl.terminal.goals.last else { return Ok(String::new()) };
    let parts = repl.store().spent_by_category(run)?;
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
    Ok(table(&parts.iter().map(row).collect::<Vec<_>>(), repl.console.width_columns()))
}

fn detail_row(repl: &Repl, StoredRequest { time, spent, .. }: &StoredRequest, now: i64) -> Vec<String> {
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
    let cost = cost_words(&[(spent.model.clone(), sum)], &|model| is_near(repl.runtime.agent(), model));
    vec![age(now - time), spent.model.clone(), read, cached, written, cost, spent.tools.join(", ")]
}

/// Tells how many tokens a text has for the model that answers.
pub(in crate::repl) fn tokens(repl: &mut Repl, text: &str) {
    let count = repl.runtime.agent_mut().count_tokens(text, &Cancel::new());
    let about = if count.is_exact { "" } else { "about " };
    let exact = if count.is_exact { ", exact" } else { "" };
    let unit = if count.tokens == 1 { "token" } else { "tokens" };
    let counted = if count.method.starts_with("estimate") || count.method.starts_with("counted") {
        sanitise(&count.method).into_owned()
    } else {
        format!("counted by {}", count.method)
    };
    repl.console.line(&format!("{about}{} {unit} ({counted}{exact})", count.tokens));
}

/// Shows what the model thought before the last answer.
pub(in crate::repl) fn thoughts(repl: &Repl) {
    match repl.spending.thoughts.trim() {
        "" => repl.console.notice("the model showed no thoughts before the last answer"),
        thoughts => {
            repl.console.outside(thoughts);
            repl.console.write("\n");
        }
    }
}

/// Keeps what an answer came to and what the model thought before it.
pub(in crate::repl) fn keep_spending(repl: &mut Repl, last: Option<&Spent>, thoughts: String) {
    repl.spending.thoughts = thoughts;
    let (Some(conversation), Some(last)) = (repl.runtime.agent().conversation(), last) else { return };
    if !repl.runtime.settings().console.usage {
        return;
    }
    let by_model = repl.store().spent_by_model(Period::Conversation(conversation));
    // What can't be read isn't shown; `:cost` tells why.
    let Ok(by_model) = by_model else { return };
    let held = last.usage.total_in().saturating_add(last.usage.total_out());
    let percent = held.saturating_mul(100) / (repl.runtime.agent_mut().window_tokens() as u64).max(1);
    let cost = cost_words(&by_model, &|model| is_near(repl.runtime.agent(), model));
    repl.spending.edge = Some((conversation, format!("context {percent} %, {cost}")));
}

/// Returns the text at the right edge: how many watch, and the cost until the conversation changes.
pub(in crate::repl) fn edge_text(repl: &Repl, is_unicode: bool) -> Option<String> {
    let edge = repl.spending.edge.as_ref();
    let edge = edge.filter(|(conversation, _)| Some(*conversation) == repl.runtime.agent().conversation());
    let shared = repl.terminal.sharing.mark(is_unicode);
    shared.into_iter().chain(edge.map(|(_, text)| text.clone())).reduce(|all, text| format!("{all}  {text}"))
}
