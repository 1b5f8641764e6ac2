//! The address of a login, shown to the person and opened in their browser.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};

use super::asked::at_host;
use crate::mcp::{Browser, Visit};
use crate::render::text::escape_visible;
use crate::tools::Replies;

/// The person who logs in.
pub(super) struct AtBrowser<'p> {
    pub(super) server: &'p str,
    pub(super) person: &'p mut dyn Replies,
    pub(super) env: &'p BTreeMap<OsString, OsString>,
}

impl Browser for AtBrowser<'_> {
    fn visit(&mut self, address: &str) -> Visit {
        let question = format!(
            "It wants you to log in {}.\nOpen the address in your browser? If the browser is on another machine, paste the address to \
             which it led.",
            at_host(address)
        );
        self.person.tell(&escape_visible(address));
        match self.person.reply_to(
            &format!("The server {} asks for a login:", self.server),
            &question,
            &["open it".to_owned(), "no".to_owned()],
        ) {
            Some(reply) if reply.starts_with("http://") || reply.starts_with("https://") => Visit::Pasted(reply),
            Some(reply) if matches!(reply.as_str(), "open it" | "y" | "yes" | "open") => {
                if open(self.env, address) {
                    Visit::Opened
                } else {
                    Visit::Declined
                }
            }
            _ => Visit::Declined,
        }
    }
}

/// Starts the user's browser; `false` if there is none.
fn open(env: &BTreeMap<OsString, OsString>, address: &str) -> bool {
    let named = env.get(OsStr::new("BROWSER")).and_then(|name| name.to_str()).unwrap_or_default();
    let candidates = named.split(':').chain(["xdg-open", "open"]).filter(|name| !name.trim().is_empty());
    for candidate in candidates {
        let mut words = shlex::split(candidate).unwrap_or_default();
        if words.is_empty() {
            continue;
        }
        let program = words.remove(0);
        if words.iter().any(|word| word.contains("%s")) {
            words = words.iter().map(|word| word.replace("%s", address)).collect();
        } else {
            words.push(address.to_owned());
        }
        let mut command = Command::new(program);
        command.args(words).env_clear().envs(env).process_group(0);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        if let Ok(mut child) = command.spawn() {
            // It may run for days; this thread reaps it.
            std::thread::spawn(move || child.wait());
            return true;
        }
    }
    false
}
