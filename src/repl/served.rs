//! `:mcp`: the servers of tools that the configuration names.

use std::sync::Arc;

use super::run::{Flow, Repl};
use crate::agent::Person;
use crate::app::{Approvals, Done, Face, Replies, ToolCall, allow_tools, mcp_command, servers};
use crate::ask::yes_or_no;
use crate::config::ServerStart;
use crate::console::{Console, Waiting};
use crate::proto::tool::{Answer, Question};
use crate::render::text::{escape_visible, table, wrap};

impl Repl {
    /// Carries out a line about servers.
    pub(super) fn mcp(&mut self, argument: &str) -> Flow {
        self.refresh_tools();
        let own = self.runtime.agent_mut().runner().and_then(|runner| runner.servers().cloned());
        // Without a model there are no tools yet; the servers can be looked at all the same.
        let servers = own.or_else(|| servers(self.runtime.settings(), self.runtime.env(), &self.workspace()));
        let Some(servers) = servers else {
            self.console.notice("no servers are configured: mcp.servers in the config names them");
            return Flow::Continue;
        };
        let env = self.runtime.env().clone();
        let read = |path: &str| crate::host::read_text(std::path::Path::new(path));
        let (waiting, console) = (Arc::<Waiting>::default(), self.console.clone());
        let sign = Arc::clone(&waiting);
        // A start, an installation and a login may take minutes.
        let done = self.terminal.attended(&waiting, &mut Approvals::none(), |cancel, person| {
            let mut said = TerminalReplies { person, console, sign };
            let stop = || cancel.is_cancelled();
            let mut face = Face { stop: &stop, person: &mut said, env: &env, read: &read };
            mcp_command(&servers, argument, &mut face)
        });
        let done = match done {
            Ok(done) => done,
            Err(flow) => return flow,
        };
        let done = match done {
            Ok(done) => done,
            Err(failure) => {
                self.console.failure(&failure);
                return Flow::Continue;
            }
        };
        match done {
            Done::Lines(lines) => lines.iter().for_each(|line| self.console.line(line)),
            Done::Rows(rows) => self.console.write(&table(&rows, self.console.width_columns())),
            Done::Insert(text) => self.insert_text(&text),
            Done::Tested { lines, .. } => lines.iter().for_each(|line| self.console.line(line)),
            Done::Call { name, arguments } => return self.call_by_hand(name, arguments),
            Done::Ask { server, tools, lines } => {
                for line in &lines {
                    self.console.line(&wrap(line, self.console.width_columns(), "              "));
                }
                self.console.line("let a model call these tools, as they are?");
                let yes = match self.put_question("yes [y]  no [n, Enter]", yes_or_no, None) {
                    Ok(said) => said.unwrap_or(false),
                    Err(flow) => return flow,
                };
                match yes.then(|| allow_tools(&servers, &server, &tools)) {
                    Some(Ok(line)) => self.console.notice(&line),
                    Some(Err(failure)) => self.console.failure(&failure),
                    None => self.console.notice("nothing was allowed"),
                }
            }
        }
        Flow::Continue
    }
}

impl Repl {
    /// Starts the servers with the first line, if the config says so.
    pub(super) fn start_servers(&mut self) {
        let mcp = &self.runtime.settings().mcp;
        if self.tooling.are_servers_started || mcp.start != ServerStart::Eager || mcp.servers.is_empty() {
            return;
        }
        self.tooling.are_servers_started = true;
        self.refresh_tools();
        if let Some(servers) = self.runtime.agent_mut().runner().and_then(|runner| runner.servers()) {
            servers.start_early();
        }
    }

    /// `:call SERVER.TOOL {json}`.
    pub(super) fn call_tool(&mut self, argument: &str) -> Flow {
        self.mcp(&format!("call {argument}"))
    }

    /// Calls a tool of a server for the person, who has just typed the call.
    fn call_by_hand(&mut self, name: String, arguments: String) -> Flow {
        let workspace = self.workspace();
        let built = self.runtime.runner_in(&workspace, None);
        let mut runner = match built {
            Ok(built) => built.runner,
            Err(failure) => {
                self.console.failure(&failure);
                return Flow::Continue;
            }
        };
        let called = self.terminal.attended(&Arc::default(), &mut Approvals::none(), |cancel, person| {
            if let Some(servers) = runner.servers() {
                servers.offer(&name);
            }
            runner.prepare(cancel, &mut |_| {});
            let wish = ToolCall { id: "hand".into(), name, arguments };
            runner.call(&wish, None, cancel, &mut Typed { person }, &mut |_| {})
        });
        let outcome = match called {
            Ok(outcome) => outcome,
            Err(flow) => return flow,
        };
        self.console.outside(&format!("{}\n", outcome.output.trim_end_matches('\n')));
        if let Some(error) = &outcome.error {
            self.console.notice(&escape_visible(&error.message));
        }
        Flow::Continue
    }
}

/// The heading of a question that nobody puts a name to.
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

    fn reply_to(&mut self, heading: &str, question: &str, choices: &[String]) -> Option<String> {
        self.person.reply_to(heading, question, choices)
    }
}
