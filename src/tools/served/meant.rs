//! Tools of servers that a model names although it isn't offered them: those that it knows from earlier, and those that have changed
//! or are gone.

use super::Servers;
use super::shown::{changed_error, changed_lines};
use crate::proto::served::PinStanding;
use crate::proto::tool::ToolError;

/// A tool that isn't the one any more that a person allowed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Changed {
    /// The server.
    pub server: String,
    /// The server and the tool, as a person sees them.
    pub name: String,
    /// The parts that differ, a line each.
    pub difference: String,
}

impl Changed {
    /// Reasons why a call of it waits for a person.
    #[must_use]
    pub fn reasons(&self) -> Vec<String> {
        let Self { server, name, .. } = self;
        vec![
            format!("{name} has changed since you allowed it"),
            format!("before a yes, reedclaw mcp allow {server} shows the change and asks"),
        ]
    }
}

impl Servers {
    /// The tool that models knew by `name`, if it has changed since a person allowed it.
    #[must_use]
    pub fn changed(&self, name: &str) -> Option<Changed> {
        let mut all = self.names().into_iter().flat_map(|server| self.list(&server));
        let found = all.find(|row| row.name == name && row.standing == PinStanding::Changed && !row.is_left_out)?;
        let allowed = self.allowed_definition(&found.server, &found.tool.name);
        Some(Changed {
            name: format!("{}.{}", found.server, found.tool.name),
            difference: allowed
                .map(|old| changed_lines(&old, &found.tool, &self.others(&found.server)).join("\n"))
                .unwrap_or_default(),
            server: found.server,
        })
    }

    /// Says of a server's tool that can't be called why not, in the place of `unknown`: it has changed, or its server doesn't have it
    /// any more, or the person never allowed it.
    #[must_use]
    pub fn explained(&self, name: &str, unknown: ToolError) -> ToolError {
        if let Some(changed) = self.changed(name) {
            return changed_error(&changed.server, &changed.name);
        }
        let named = self.names().into_iter().find_map(|server| {
            let tool = name.strip_prefix(&format!("{server}__"))?.to_owned();
            Some((server, tool))
        });
        match named {
            Some((server, tool)) => {
                let message = format!("the server {server} offers no tool called {tool} that the user has allowed");
                ToolError { message, ..unknown }
            }
            None => unknown,
        }
    }
}
