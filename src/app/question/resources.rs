//! `@SERVER:URI` in a question: a resource of a server of tools, read because the person named it.

use std::time::{Duration, Instant};

use super::attach::Attached;
use crate::config::{Env, Settings, state_directory};
use crate::tools::served::{Servers, resources_like, words_after};
use crate::turn::Mention;

/// Time that the resources of one question may take, the starts of their servers included.
const TIME: Duration = Duration::from_secs(5);

/// Takes the mentions that name resources, and attaches these.
pub(super) fn take(servers: &Servers, named: &mut Vec<Mention>, attached: &mut Attached, left: &mut usize) {
    let names = servers.names();
    let until = Instant::now() + TIME;
    named.retain(|mention| {
        let Some((server, uri)) = mention.text.split_once(':') else { return true };
        if uri.is_empty() || !names.iter().any(|name| name == server) {
            return true;
        }
        attached.take_resource(&mention.text, servers.resource(server, uri, until), left);
        false
    });
}

/// Completions after an `@`: servers, and the resources of one, as they were at its last run. Nothing is started.
pub(super) fn candidates(settings: &Settings, env: &Env, typed: &str) -> Vec<(String, String)> {
    if !settings.mcp.enabled {
        return Vec::new();
    }
    let Some((server, uri)) = typed.split_once(':') else {
        let begun = settings.mcp.servers.keys().filter(|name| !typed.is_empty() && name.starts_with(typed));
        return begun.map(|name| (format!("{name}:"), format!("a resource of the server {name}"))).collect();
    };
    let state = state_directory(env).filter(|_| settings.mcp.servers.contains_key(server));
    let found = state.map(|state| resources_like(&state.join("mcp"), server, uri)).unwrap_or_default();
    found.into_iter().map(|(uri, name)| (format!("{server}:{uri}"), name)).collect()
}

/// Completions of `:mcp` and `:call`, as servers were at their last run: words that may come after `words`. Nothing is started.
#[must_use]
pub fn served_words(settings: &Settings, env: &Env, words: &[&str]) -> Vec<(String, String)> {
    let servers: Vec<String> = settings.mcp.servers.keys().cloned().collect();
    let state = state_directory(env).filter(|_| settings.mcp.enabled);
    state.map(|state| words_after(&state.join("mcp"), &servers, words)).unwrap_or_default()
}
