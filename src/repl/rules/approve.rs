//! `:approve`: the calls of other agents (`reedclaw mcp serve`) that wait for a person's yes.

use crate::ask::ask_yes_or_no;
use crate::config::state_directory;
use crate::proto::Failure;
use crate::render::text::{escape_visible, wrap};
use crate::repl::hub::{Flow, Repl};
use crate::serve::Asks;

/// Shows a call that waits and asks whether it may run.
pub(in crate::repl) fn approve_call(repl: &mut Repl, argument: &str) -> Flow {
    let Some(asks) = state_directory(repl.runtime.env()).map(|state| Asks::at(&state)) else {
        repl.console.notice("no HOME is set, so calls of other agents have no place to wait");
        return Flow::Continue;
    };
    let waiting = asks.waiting();
    let wanted: Option<u32> = argument.trim().parse().ok();
    let found = waiting.iter().find(|ask| argument.trim().is_empty() || wanted == Some(ask.number));
    let Some(ask) = found else {
        if waiting.is_empty() {
            repl.console.notice("no call of another agent waits");
        } else {
            let numbers: Vec<String> = waiting.iter().map(|ask| ask.number.to_string()).collect();
            let message = format!("no call {} waits", escape_visible(argument));
            let hint = format!("these wait: {}", numbers.join(", "));
            repl.console.failure(&Failure::user(message).hint(hint));
        }
        return Flow::Continue;
    };
    let name = if ask.client.is_empty() { "an agent without a name" } else { &ask.client };
    repl.console.line(&format!("{} asks ({}):", escape_visible(name), ask.number));
    for line in &ask.lines {
        repl.console.line(&wrap(line, repl.console.width_columns(), "  "));
    }
    let yes = match ask_yes_or_no(&mut repl.terminal, "let it run?") {
        Ok(reply) => reply.unwrap_or(false),
        Err(flow) => return flow,
    };
    match asks.answer(ask, yes) {
        Ok(()) => repl.console.notice(if yes { "it runs" } else { "it doesn't run" }),
        Err(error) => repl.console.notice(&format!("the answer came too late: {error}")),
    }
    Flow::Continue
}
