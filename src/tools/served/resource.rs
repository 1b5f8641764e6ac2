//! Resources of servers that a person names: their text, and the addresses that fit what was typed.

use std::path::Path;
use std::time::Instant;

use super::Servers;
use crate::mcp::{Part, resources_known};
use crate::proto::served::Unasked;
use crate::render::strip_controls;
use crate::render::text::escape_visible;

/// Addresses of one list.
const FOUND_MAX: usize = 200;

impl Servers {
    /// Reads the text of a resource, and starts its server if it isn't running.
    ///
    /// # Errors
    /// The reason in words: it has no text, or the server doesn't give it, not by `until` at least.
    pub fn resource(&self, server: &str, uri: &str, until: Instant) -> Result<String, String> {
        let is_late = || Instant::now() >= until;
        let reply = self.mcp.read(server, uri, &is_late, &mut Unasked).map_err(|error| match is_late() {
            true => "its server didn't give it in time".to_owned(),
            false => escape_visible(&error.to_string()),
        })?;
        let text = |part| match part {
            Part::Text(text) => Some(strip_controls(text.as_bytes())),
            Part::Binary { .. } | Part::Link(_) => None,
        };
        let texts: Vec<String> = reply.parts.into_iter().filter_map(text).collect();
        if texts.is_empty() { Err("it is no text".to_owned()) } else { Ok(texts.join("\n")) }
    }
}

/// The addresses and names of a server's resources, as they were at its last run, whose address contains `typed`. Nothing is started;
/// `state` is the directory of the client's files.
#[must_use]
pub fn resources_like(state: &Path, server: &str, typed: &str) -> Vec<(String, String)> {
    // An address with characters that a terminal would obey or hide isn't one to type.
    let is_plain = |uri: &str| !uri.contains(char::is_whitespace) && escape_visible(uri) == uri;
    let found = resources_known(state, server).into_iter();
    let fitting = found.filter(|link| link.uri.contains(typed) && is_plain(&link.uri));
    fitting.take(FOUND_MAX).map(|link| (link.uri, escape_visible(&link.name))).collect()
}
