//! `:mcp`: the servers of tools that the configuration names.

use super::question::yes_or_no;
use super::run::{Flow, Repl};
use crate::app::{Done, allow_tools, mcp_command, servers};
use crate::render::text::{table, wrap};

impl Repl {
    /// Carries out a line about servers.
    pub(super) fn mcp(&mut self, argument: &str) -> Flow {
        self.refresh_tools();
        let own = self.runtime.agent.runner().and_then(|runner| runner.servers().cloned());
        // Without a model there are no tools yet; the servers can be looked at all the same.
        let servers = own.or_else(|| servers(&self.runtime.settings, &self.runtime.env, &self.workspace()));
        let Some(servers) = servers else {
            self.console.notice("no servers are configured: mcp.servers in the config names them");
            return Flow::Continue;
        };
        let done = match mcp_command(&servers, argument, &|| false) {
            Ok(done) => done,
            Err(failure) => {
                self.console.failure(&failure);
                return Flow::Continue;
            }
        };
        match done {
            Done::Lines(lines) => lines.iter().for_each(|line| self.console.line(line)),
            Done::Rows(rows) => self.console.write(&table(&rows, self.console.width_columns())),
            Done::Insert(text) => self.insert(&text),
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
