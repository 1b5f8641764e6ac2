//! The cost of questions at the prompt: sums, single requests, the right edge; tokens of a text; the last thoughts. It
//! must not know prices, nor how sums are stored.

use crate::agent::Cancel;
use crate::ops::cost;
use crate::proto::{Failure, Spent};
use crate::render::sanitise;
use crate::render::text::table;
use crate::repl::hub::Repl;
use crate::store::StoreError;

/// Requests that `:cost detail` shows.
const REQUESTS: usize = 50;

/// Shows the cost of this conversation, this day and this month, or of each request of the conversation.
pub(in crate::repl) fn cost(repl: &Repl, argument: &str) {
    let table = match argument {
        "" => cost_sums(repl),
        "detail" => cost_detail(repl),
        _ => {
            let hint = ":cost, or :cost detail";
            let message = format!(":cost doesn't know {}", crate::render::sanitise(argument));
            return repl.console.failure(&Failure::user(message).hint(hint));
        }
    };
    match table {
        Ok(text) => repl.console.write(&text),
        Err(problem) => repl.console.failure(&problem.into()),
    }
}

fn cost_sums(repl: &Repl) -> Result<String, StoreError> {
    let agent = repl.runtime.agent();
    let costs = cost::of_conversation(&repl.store(), agent.conversation())?;
    Ok(table(&cost::rows(&costs, agent, "conversation"), repl.console.width_columns()))
}

fn cost_detail(repl: &Repl) -> Result<String, StoreError> {
    let agent = repl.runtime.agent();
    let rows = cost::request_rows(&repl.store(), agent, agent.conversation())?;
    let columns = repl.console.width_columns();
    let of_run = match repl.terminal.goals.last {
        Some(run) => table(&cost::run_rows(&repl.store(), run)?, columns),
        None => String::new(),
    };
    if rows.is_empty() && !of_run.is_empty() {
        return Ok(of_run);
    }
    if rows.is_empty() {
        return Ok("nothing was asked in this conversation yet\n".to_owned());
    }
    let left_out = rows.len().saturating_sub(REQUESTS);
    let mut text = table(&rows[left_out..], columns);
    if left_out > 0 {
        text.insert_str(0, &format!("the first {left_out} requests are left out\n"));
    }
    Ok(text + &of_run)
}

/// Shows the number of tokens that a text has for the model that answers.
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

/// Stores the cost of an answer and the model's thoughts before it.
pub(in crate::repl) fn keep_spending(repl: &mut Repl, last: Option<&Spent>, thoughts: String) {
    repl.spending.thoughts = thoughts;
    let (Some(conversation), Some(last)) = (repl.runtime.agent().conversation(), last) else { return };
    if !repl.runtime.settings().console.usage {
        return;
    }
    let cost = cost::of_conversation_in_words(&repl.store(), repl.runtime.agent(), conversation);
    let Some(cost) = cost else { return };
    let held = last.usage.total_in().saturating_add(last.usage.total_out());
    let percent = held.saturating_mul(100) / (repl.runtime.agent_mut().window_tokens() as u64).max(1);
    repl.spending.edge = Some((conversation, format!("context {percent} %, {cost}")));
}

/// Returns the text at the right edge: how many watch, and the cost until the conversation changes.
pub(in crate::repl) fn edge_text(repl: &Repl, is_unicode: bool) -> Option<String> {
    let edge = repl.spending.edge.as_ref();
    let edge = edge.filter(|(conversation, _)| Some(*conversation) == repl.runtime.agent().conversation());
    let shared = repl.terminal.sharing.mark(is_unicode);
    shared.into_iter().chain(edge.map(|(_, text)| text.clone())).reduce(|all, text| format!("{all}  {text}"))
}
