//! `:mcp`: the servers of tools that the configuration names.

use std::sync::Arc;

use crate::agent::Person;
use crate::app::{
    Approvals, Done, Face, NO_NETWORK, Replies, Servers, ToolCall, allow_tools, mcp_command, servers, words_of,
};
use crate::ask::yes_or_no;
use crate::config::ServerStart;
use crate::console::{Console, Waiting};
use crate::host;
use crate::proto::tool::{Answer, Question};
use crate::render::text::{escape_visible, table, wrap};
use crate::repl::editing::state;
use crate::repl::hub::{Flow, Repl};
use crate::repl::rules::tooling;

/// Carries out a line about servers.
pub(in crate::repl) fn mcp(repl: &mut Repl, argument: &str) -> Flow {
    tooling::refresh_tools(repl);
    let own = repl.runtime.agent_mut().runner().and_then(|runner| runner.servers().cloned());
    if own.is_some() {
        repl.tooling.servers_alone = None;
    }
    let servers = own.or_else(|| servers_alone(repl));
    let words = words_of(argument);
    let needs_none = words.first().is_some_and(|word| ["connect", "import"].contains(&word.as_str()));
    if !repl.runtime.settings().mcp.enabled {
        repl.console.notice("servers of tools are switched off: mcp.enabled");
        return Flow::Continue;
    }
    let Some(servers) = servers.filter(|servers| needs_none || !servers.names().is_empty()) else {
        repl.console.notice(
            "no servers are configured: mcp.servers in the config names them, :mcp import FILE reads another client's, and :mcp \
             connect -- PROGRAM adds one for this session",
        );
        return Flow::Continue;
    };
    let env = repl.runtime.env().clone();
    let state = Arc::clone(&repl.state);
    let read = move |path: &str| host::read_text(&state::read(&state).resolve(path).unwrap_or_else(|| path.into()));
    let (waiting, console) = (Arc::<Waiting>::default(), repl.console.clone());
    let sign = Arc::clone(&waiting);
    // A start, an installation and a login may take minutes.
    let done = repl.terminal.attended(&waiting, &mut Approvals::none(), |cancel, person| {
        let mut replies = TerminalReplies { person, console, sign };
        let stop = || cancel.is_cancelled();
        let mut face = Face { typed: ":mcp", stop: &stop, person: &mut replies, env: &env, read: &read };
        mcp_command(&servers, &words, &mut face)
    });
    let done = match done {
        Ok(done) => done,
        Err(flow) => return flow,
    };
    let done = match done {
        Ok(done) => done,
        Err(failure) => {
            repl.console.failure(&failure);
            return Flow::Continue;
        }
    };
    let columns = repl.console.width_columns();
    let show = |lines: &[String]| lines.iter().for_each(|line| repl.console.line(&wrap(line, columns, "  ")));
    match done {
        Done::Lines(lines) => show(&lines),
        Done::Rows(rows) => repl.console.write(&table(&rows, repl.console.width_columns())),
        Done::Insert(text) => repl.insert_text(&text),
        Done::Tested { lines, .. } => show(&lines),
        Done::Call { name, arguments } => return call_by_hand(repl, &servers, name, arguments),
        Done::Ask { server, tools, lines } => {
            for line in &lines {
                repl.console.line(&wrap(line, repl.console.width_columns(), "              "));
            }
            repl.console.line("let a model call these tools, as they are?");
            let yes = match repl.put_question("yes [y]  no [n, Enter]", yes_or_no, None) {
                Ok(reply) => reply.unwrap_or(false),
                Err(flow) => return flow,
            };
            match yes.then(|| allow_tools(&servers, &server, &tools)) {
                Some(Ok(line)) => repl.console.notice(&line),
                Some(Err(failure)) => repl.console.failure(&failure),
                None => repl.console.notice("nothing was allowed"),
            }
        }
    }
    Flow::Continue
}

/// Returns the servers of a session without a model, which has no tools yet. They go on running from line to line as
/// long as the workspace is the same.
fn servers_alone(repl: &mut Repl) -> Option<Arc<Servers>> {
    let workspace = tooling::workspace(repl);
    let known = repl.tooling.servers_alone.take().filter(|(place, _)| *place == workspace);
    let made =
        || servers(repl.runtime.settings(), repl.runtime.env(), &workspace, true).map(|made| (workspace.clone(), made));
    repl.tooling.servers_alone = known.or_else(made);
    repl.tooling.servers_alone.as_ref().map(|(_, servers)| Arc::clone(servers))
}

/// Starts the servers with the first line, if the config says so.
pub(in crate::repl) fn start_servers(repl: &mut Repl) {
    let mcp = &repl.runtime.settings().mcp;
    if repl.tooling.are_servers_started || mcp.start != ServerStart::Eager || mcp.servers.is_empty() {
        return;
    }
    repl.tooling.are_servers_started = true;
    tooling::refresh_tools(repl);
    if let Some(servers) = repl.runtime.agent_mut().runner().and_then(|runner| runner.servers()) {
        servers.start_early();
    }
}

/// `:call SERVER.TOOL {json}`.
pub(in crate::repl) fn call_tool(repl: &mut Repl, argument: &str) -> Flow {
    mcp(repl, &format!("call {argument}"))
}

/// Calls a tool of a server for the person, who has just typed the call. The server is the one that models use, with its state.
fn call_by_hand(repl: &mut Repl, servers: &Arc<Servers>, name: String, arguments: String) -> Flow {
    let workspace = tooling::workspace(repl);
    let built = repl.runtime.runner_in(&workspace, None);
    let mut runner = match built {
        Ok(built) => built.runner,
        Err(failure) => {
            repl.console.failure(&failure);
            return Flow::Continue;
        }
    };
    runner.take_served(servers, &name).iter().for_each(|why| repl.console.notice(&escape_visible(why)));
    let called = repl.terminal.attended(&Arc::default(), &mut Approvals::none(), |cancel, person| {
        let wish = ToolCall { id: "hand".into(), name, arguments };
        runner.call(&wish, None, cancel, &mut Typed { person }, &mut |_| {})
    });
    let outcome = match called {
        Ok(outcome) => outcome,
        Err(flow) => return flow,
    };
    repl.console.outside(&format!("{}\n", outcome.output.trim_end_matches('\n')));
    if let Some(error) = &outcome.error {
        repl.console.notice(&escape_visible(&error.message));
        if error.code == NO_NETWORK {
            repl.console.notice(&escape_visible(&error.hint));
        }
    }
    Flow::Continue
}

/// The heading of a question without a name of its own.
const SERVERS: &str = "About servers of tools:";

/// The person, as servers ask them.
struct TerminalReplies<'p> {
    person: &'p mut dyn Person,
    console: Console,
    /// The sign that is drawn meanwhile.
    sign: Arc<Waiting>,
}

impl Replies for TerminalReplies<'_> {
    fn reply(&mut self, question: &str, choices: &[String]) -> Option<String> {
        self.reply_to(SERVERS, question, choices)
    }

    fn tell(&mut self, line: &str) {
        self.sign.above(&self.console, || self.console.line(line));
    }

    fn reply_to(&mut self, heading: &str, question: &str, choices: &[String]) -> Option<String> {
        self.person.reply_to(heading, question, choices)
    }
}

/// The person who typed a call: it may run.
struct Typed<'p> {
    person: &'p mut dyn Person,
}

impl Person for Typed<'_> {
    fn can_ask(&self) -> bool {
        true
    }

    fn approve(&mut self, _: &Question) -> Answer {
        Answer::Once
    }

    fn progress(&mut self, text: &str) {
        self.person.progress(text);
    }

    fn reply_to(&mut self, heading: &str, question: &str, choices: &[String]) -> Option<String> {
        self.person.reply_to(heading, question, choices)
    }
}
