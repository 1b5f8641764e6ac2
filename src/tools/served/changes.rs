//! Tools and other parts of servers that are new, have changed or are gone: notices for the person, and answers to a model that
//! calls a tool that it isn't offered.

use parking_lot::MutexGuard;
use std::collections::BTreeMap;
use std::sync::Arc;

use super::shown::{changed_error, changed_lines};
use super::{Listed, Offered, Servers};
use crate::base::text::counted;
use crate::mcp::Standing;
use crate::proto::served::{Manifest, PinStanding};
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
    /// Returns the reasons why a call of it needs a person.
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
    /// Returns notices for the person, each once. A server that failed or ended on its own has one, and another only if the
    /// reason differs or it was connected in between. A server that has started has one if it needs a login or has tools that
    /// aren't allowed; a sleeping one, if something that the person allowed is off.
    #[must_use]
    pub fn take_notices(&self) -> Vec<String> {
        let offered = self.offered();
        for (name, standing) in self.mcp.standings() {
            if let Some(fault) = self.mcp.failure(&name) {
                self.notice(self.is_news(&name, &fault).then(|| format!("{name}: {}", fault.why)));
            }
            match standing {
                Standing::Ready { .. } => {
                    let news = self.news_of_tools(&name);
                    let missed = self.news_of_missed(&offered, &name);
                    self.notice(news.or(missed));
                }
                Standing::Asleep { is_known: true } => self.notice(self.news_of_missed(&offered, &name)),
                Standing::NeedsLogin => {
                    let is_news = self.offers().insert(name.clone(), None) != Some(None);
                    self.notice(is_news.then(|| format!("{name}: needs a login; :mcp login {name}")));
                }
                _ => {}
            }
        }
        std::mem::take(&mut *self.notices.lock())
    }

    /// Says how many tools of a server are new or have changed, once for each list of tools.
    fn news_of_tools(&self, server: &str) -> Option<String> {
        let now = self.mcp.manifest(server)?;
        let before = self.offers().insert(server.to_owned(), Some(Arc::clone(&now))).flatten();
        if before.is_some_and(|before| Arc::ptr_eq(&before, &now) || before.tools == now.tools) {
            return None;
        }
        let is_new = |row: &&Listed| !row.is_left_out && row.standing != PinStanding::Pinned;
        let new = self.list(server).iter().filter(is_new).count();
        (new > 0).then(|| {
            let tools = counted(new, "new or changed tool");
            format!("{server}: {tools}; :mcp allow {server} shows {}", if new == 1 { "it" } else { "them" })
        })
    }

    /// Says which parts of a server the person may miss, once for each count of them. A server that sleeps is known by what it
    /// offered at its last run: without this line they would be off in silence, after an update or in another directory.
    fn news_of_missed(&self, offered: &Offered, server: &str) -> Option<String> {
        let missed = offered.missed.get(server).copied().unwrap_or_default();
        let is_news = self.missed.lock().insert(server.to_owned(), missed).unwrap_or_default() != missed;
        let words = missed.in_words().filter(|_| is_news)?;
        self.offers().insert(server.to_owned(), self.mcp.manifest(server));
        Some(format!("{server}: {words}; :mcp allow {server} shows what there is to allow"))
    }

    /// Returns whether a person has allowed anything of a server as it is started now.
    #[must_use]
    pub fn has_allowed_start(&self, server: &str) -> bool {
        self.configured(server).is_some_and(|row| self.pins.knows(server, &row.known_identity()))
    }

    /// Returns whether all parts of a server are known, and each is allowed as it is or left out by the config.
    #[must_use]
    pub fn is_settled(&self, server: &str) -> bool {
        let (Some(row), Some(manifest)) = (self.configured(server), self.mcp.manifest(server)) else { return false };
        let is_settled = |row: &Listed| row.is_left_out || row.standing == PinStanding::Pinned;
        let others = self.other_parts(&row, &manifest);
        self.list(server).iter().all(is_settled) && others.iter().all(|(_, standing)| *standing == PinStanding::Pinned)
    }

    fn offers(&self) -> MutexGuard<'_, BTreeMap<String, Option<Arc<Manifest>>>> {
        self.offers.lock()
    }

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

    /// Says of a server's tool that can't be called why not, in the place of `unknown`: it has changed, or its server doesn't
    /// have it any more, or the person never allowed it.
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
