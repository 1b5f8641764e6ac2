//! A question from start to end: asked, drawn as the answer arrives, stopped by Ctrl-C, and its commands offered.

use std::sync::Arc;

use super::editing::state;
use super::hub::{Flow, Repl};
use super::screen::{Drawing, Reply};
use crate::agent::{Agent, Cancel, Person};
use crate::app::make_title;
use crate::config::{HookEvent, state_directory};
use crate::console::Waiting;
use crate::proto::{Event, LineKind, Route};
use crate::repl::offer;
use crate::repl::records::cost;
use crate::repl::records::manual;
use crate::repl::records::memory;
use crate::repl::records::repository;
use crate::repl::rules::configure;
use crate::repl::rules::tooling;
use crate::route::ends_with_question;
use crate::serve::Asks;
use crate::store::ConversationId;
use crate::turn;

/// Asks the model, and offers the commands that it proposes; `line` goes into the history.
pub(super) fn ask(repl: &mut Repl, line: Option<&str>, question: &str) -> Flow {
    if let Some(line) = line {
        // The history stores the line as it is sent.
        repl.terminal.remember(&repl.runtime.agent().redacted(line), LineKind::Question);
    }
    repl.terminal.sharing.line(question, Route::Ask, line.is_none());
    repl.proposals.clear();
    tooling::refresh_tools(repl);
    if let Some(runner) = repl.runtime.agent_mut().runner() {
        runner.look_ahead();
    }
    memory::pause_memory(repl);
    if let Flow::End(ending) = configure::look_for_model(repl) {
        return Flow::End(ending);
    }
    let reply = match answer(repl, question) {
        Ok(reply) => reply,
        Err(flow) => return flow,
    };
    cost::keep_spending(repl, reply.spent.as_ref(), reply.thoughts);
    if reply.is_unanswered {
        return manual::answer_without_model(repl, question);
    }
    repl.state.write().model_asked = ends_with_question(&reply.text);
    if reply.whole {
        make_title(repl.runtime.agent(), repl.runtime.store());
        memory::catch_up_memory(repl);
        if !line.is_some_and(|line| repl.hooks.is_private(line)) {
            repl.terminal.tell_hooks(HookEvent::Answer(&reply.text));
        }
        let (mut commands, mut dropped) = turn::proposals(&reply.text);
        if reply.is_cut && !(commands.is_empty() && dropped.is_empty()) {
            commands.clear();
            dropped = vec!["[model] the answer was cut off, so none of its commands is offered".to_owned()];
        }
        dropped.iter().for_each(|notice| repl.console.notice(notice));
        repl.proposals_total = commands.len();
        repl.proposals = commands.into();
    }
    repl.last_answer = reply.text;
    offer::offer_proposals(repl)
}

/// Asks the model and draws the answer. Events of the shell that arrive meanwhile wait.
pub(super) fn answer(repl: &mut Repl, question: &str) -> Result<Reply, Flow> {
    let conversation = repl.runtime.agent_mut().begin();
    let waiting = await_answer(repl, conversation);
    let channel = Arc::clone(&repl.channel);
    let received = repl.runtime.receive(&*channel, question);
    let reply = with_model(repl, &waiting, |agent, cancel, person| received.answer(agent, &*channel, cancel, person));
    match repl.runtime.end_turn() {
        Ok(notices) => notices.iter().for_each(|turn| repl.console.notice(&turn.text)),
        Err(failure) => repl.console.failure(&failure),
    }
    match repl.runtime.keep_notes() {
        Ok(notices) => notices.iter().for_each(|line| repl.console.notice(line)),
        Err(failure) => repl.console.failure(&failure),
    }
    match repository::ask_about_new(repl) {
        Flow::Continue => reply,
        flow => Err(flow),
    }
}

/// Lets the agent ask a model for something other than an answer, and draws its events.
pub(super) fn ask_aside(
    repl: &mut Repl,
    work: impl FnOnce(&mut Agent, &Cancel, &mut dyn FnMut(Event)) + Send,
) -> Result<Reply, Flow> {
    let conversation = repl.runtime.agent().conversation();
    let (waiting, screen) = (await_answer(repl, conversation), repl.screen.clone());
    with_model(repl, &waiting, |agent, cancel, _| work(agent, cancel, &mut |event| screen.send(conversation, event)))
}

/// Draws the events of a conversation from now on, below the sign that shows the wait for an answer.
fn await_answer(repl: &mut Repl, conversation: Option<ConversationId>) -> Arc<Waiting> {
    let waiting = Arc::<Waiting>::default();
    let first_output = repl.tooling.outputs.len() + 1;
    repl.screen.draw(conversation, Drawing::new(repl.console.clone(), Arc::clone(&waiting), first_output));
    waiting
}

/// Lets the agent ask a model; Ctrl-C stops it. Returns what was drawn meanwhile.
fn with_model(
    repl: &mut Repl,
    waiting: &Arc<Waiting>,
    work: impl FnOnce(&mut Agent, &Cancel, &mut dyn Person) + Send,
) -> Result<Reply, Flow> {
    let Repl { runtime, terminal, .. } = repl;
    let asks = state_directory(runtime.env()).map(|state| Asks::at(&state));
    let (agent, mut approvals) = runtime.agent_and_approvals();
    if let Some(asks) = asks {
        approvals.announce_by(move |line| asks.announce(line));
    }
    let done = terminal.attended(waiting, &mut approvals, |cancel, person| work(agent, cancel, person));
    // A command of the model may have changed the directory.
    let cwd = state::read(&repl.state).cwd.clone();
    repl.runtime.stand_in(cwd);
    let (reply, mut outputs) = repl.screen.drawn().map(|it| (it.reply, it.outputs)).unwrap_or_default();
    repl.tooling.outputs.append(&mut outputs);
    done.map(|()| reply)
}
