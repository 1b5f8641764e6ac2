//! The cost of questions at the prompt: sums, single requests, the right edge; tokens of a text; the last thoughts. It
//! must not know prices, nor how sums are stored.

use super::run::Repl;
use crate::agent::Cancel;
use crate::base::text::{age, counted};
use crate::host;
use crate::ops::cost::{cost_words, of_conversation, rows};
use crate::ops::models::is_near;
use crate::proto::{Failure, FailureKind, Spent};
use crate::render::sanitise;
use crate::render::text::table;
use crate::store::{ConversationId, PartOfRun, Period, SpentSum, StoreError, StoredRequest};

/// Requests that `:cost detail` shows.
const REQUESTS: usize = 50;

/// The cost and the thoughts of the last answer.
#[derive(Debug, Default)]
pub(super) struct Spending {
    /// The text at the right edge, for this conversation.
    edge: Option<(ConversationId, String)>,
    /// The model's raw thoughts.
    thoughts: String,
}

impl Repl {
    /// Tells what this conversation, this day and this month have cost; or each request of the conversation.
    pub(super) fn cost(&self, argument: &str) {
        let told = match argument {
            "" => self.cost_sums(),
            "detail" => self.cost_detail(),
            _ => {
                let hint = ":cost, or :cost detail".to_owned();
                let message = ":cost knows no such word".to_owned();
                return self.console.failure(&Failure { kind: FailureKind::User, message, hint });
            }
        };
        match told {
            Ok(text) => self.console.write(&text),
            Err(problem) => self.console.failure(&problem.into()),
        }
    }

    fn cost_sums(&self) -> Result<String, StoreError> {
        let agent = self.runtime.agent();
        let costs = of_conversation(&self.store(), agent.conversation())?;
        Ok(table(&rows(&costs, agent, "conversation"), self.console.width_columns()))
    }

    fn cost_detail(&self) -> Result<String, StoreError> {
        let requests = match self.runtime.agent().conversation() {
            Some(id) => self.store().requests(id)?,
            None => Vec::new(),
        };
        let of_run = self.cost_of_run()?;
        if requests.is_empty() && !of_run.is_empty() {
            return Ok(of_run);
        }
        if requests.is_empty() {
            return Ok("nothing was asked in this conversation yet\n".to_owned());
        }
        let now = host::now_unix_ms();
        let left_out = requests.len().saturating_sub(REQUESTS);
        let rows: Vec<Vec<String>> =
            requests.iter().skip(left_out).map(|request| self.detail_row(request, now)).collect();
        let mut text = table(&rows, self.console.width_columns());
        if left_out > 0 {
            text.insert_str(0, &format!("the first {left_out} requests are left out\n"));
        }
        Ok(text + &of_run)
    }

    /// The parts of the newest run of this session.
    fn cost_of_run(&self) -> Result<String, StoreError> {
        let Some(run) = self.terminal.goals.last else { return Ok(String::new()) };
        let parts = self.store().spent_by_category(run)?;
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
        Ok(table(&parts.iter().map(row).collect::<Vec<_>>(), self.console.width_columns()))
    }

    fn detail_row(&self, StoredRequest { time, spent, .. }: &StoredRequest, now: i64) -> Vec<String> {
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
        let cost = cost_words(&[(spent.model.clone(), sum)], &|model| self.is_near(model));
        vec![age(now - time), spent.model.clone(), read, cached, written, cost, spent.tools.join(", ")]
    }

    fn is_near(&self, model: &str) -> bool {
        is_near(self.runtime.agent(), model)
    }

    /// Tells how many tokens a text has for the model that answers.
    pub(super) fn tokens(&mut self, text: &str) {
        let count = self.runtime.agent_mut().count_tokens(text, &Cancel::new());
        let about = if count.is_exact { "" } else { "about " };
        let exact = if count.is_exact { ", exact" } else { "" };
        let unit = if count.tokens == 1 { "token" } else { "tokens" };
        let counted = if count.method.starts_with("estimated") || count.method.starts_with("counted") {
            sanitise(&count.method).into_owned()
        } else {
            format!("counted by {}", count.method)
        };
        self.console.line(&format!("{about}{} {unit} ({counted}{exact})", count.tokens));
    }

    /// Shows what the model thought before the last answer.
    pub(super) fn thoughts(&self) {
        match self.spending.thoughts.trim() {
            "" => self.console.notice("the model told no thoughts before the last answer"),
            thoughts => {
                self.console.outside(thoughts);
                self.console.write("\n");
            }
        }
    }

    /// Keeps what an answer came to and what the model thought before it.
    pub(super) fn keep_spending(&mut self, last: Option<&Spent>, thoughts: String) {
        self.spending.thoughts = thoughts;
        let (Some(conversation), Some(last)) = (self.runtime.agent().conversation(), last) else { return };
        if !self.runtime.settings().console.usage {
            return;
        }
        let by_model = self.store().spent_by_model(Period::Conversation(conversation));
        // What can't be read isn't shown; `:cost` tells why.
        let Ok(by_model) = by_model else { return };
        let held = last.usage.total_in().saturating_add(last.usage.total_out());
        let percent = held.saturating_mul(100) / (self.runtime.agent_mut().window_tokens() as u64).max(1);
        let cost = cost_words(&by_model, &|model| self.is_near(model));
        let context = if self.console.options().accessible { "context " } else { "" };
        self.spending.edge = Some((conversation, format!("{context}{percent} % {cost}")));
    }

    /// Returns the text at the right edge, until the conversation changes.
    pub(super) fn edge_text(&self) -> Option<String> {
        let (conversation, text) = self.spending.edge.as_ref()?;
        (Some(*conversation) == self.runtime.agent().conversation()).then(|| text.clone())
    }
}
