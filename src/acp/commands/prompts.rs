//! The prompts of servers of tools, as slash commands: `/SERVER.PROMPT`. A prompt is a stranger's text. So its person reads it
//! first, and only their yes makes it the question.

use std::sync::Arc;

use serde_json::Value;

use crate::acp::wire::command;
use crate::agent::Cancel;
use crate::app::{Done, Face, Replies, Runtime, Servers, mcp_command, words_of};
use crate::proto::Failure;
use crate::proto::served::PromptSpec;
use crate::render::text::escape_visible;

/// Prompts that a client is offered.
const PROMPTS_MAX: usize = 100;
/// Characters of a description.
const DESCRIPTION_CHARS_MAX: usize = 200;

/// A prompt that a slash command names.
pub(in crate::acp) struct Named {
    server: String,
    prompt: PromptSpec,
    /// The words after it.
    values: String,
}

/// The servers of tools that a session has, if it has any.
pub(in crate::acp) fn of_session(runtime: &mut Runtime) -> Option<Arc<Servers>> {
    runtime.agent_mut().runner().and_then(|runner| runner.servers().cloned())
}

/// The prompts that can be typed as a word.
fn typed(servers: &Servers) -> impl Iterator<Item = (String, PromptSpec)> + use<> {
    let is_word = |name: &str| !name.contains(char::is_whitespace) && escape_visible(name) == name;
    servers.prompts().into_iter().filter(move |(_, prompt)| is_word(&prompt.name)).take(PROMPTS_MAX)
}

/// The known prompts of the servers as commands.
pub(in crate::acp) fn commands(runtime: &mut Runtime) -> Vec<Value> {
    let Some(servers) = of_session(runtime) else { return Vec::new() };
    let row = |(server, prompt): (String, PromptSpec)| {
        let description: String = match prompt.description.as_str() {
            "" => format!("A prompt of the server {server}"),
            text => escape_visible(&text.chars().take(DESCRIPTION_CHARS_MAX).collect::<String>()),
        };
        let hint = |(name, is_required): &(String, bool)| {
            let hint = escape_visible(&format!("{name}=…"));
            if *is_required { hint } else { format!("[{hint}]") }
        };
        let hints: Vec<String> = prompt.arguments.iter().map(hint).collect();
        command(&format!("{server}.{}", prompt.name), &description, &hints.join(" "))
    };
    typed(&servers).map(row).collect()
}

/// The prompt that a command names.
pub(in crate::acp) fn named(runtime: &mut Runtime, word: &str, values: &str) -> Option<Named> {
    let servers = of_session(runtime)?;
    let mut found = typed(&servers).filter(|(server, prompt)| word == format!("{server}.{}", prompt.name));
    found.next().map(|(server, prompt)| Named { server, prompt, values: values.to_owned() })
}

impl Named {
    /// The values as `NAME=VALUE`. The only argument of a prompt needs no name.
    fn line(&self) -> String {
        let Self { server, prompt, values } = self;
        let values = match &prompt.arguments[..] {
            [(name, _)] if !values.is_empty() && !values.starts_with(&format!("{name}=")) => {
                shlex::try_quote(&format!("{name}={values}")).map_or_else(|_| values.clone(), |it| it.into_owned())
            }
            _ => values.clone(),
        };
        format!("prompt {server} {} {values}", prompt.name)
    }

    /// Fetches the text; returns it with the title of the question whether to send it.
    ///
    /// # Errors
    /// The server can't be reached or refuses.
    pub(in crate::acp) fn text(
        &self,
        runtime: &mut Runtime,
        cancel: &Cancel,
    ) -> Result<Option<(String, String)>, Failure> {
        // Its person may just have refused to start it.
        let Some(servers) = of_session(runtime).filter(|servers| servers.configured(&self.server).is_some()) else {
            return Ok(None);
        };
        let is_stopped = || cancel.is_cancelled();
        let read = |_: &str| Err(String::new());
        let env = runtime.env().clone();
        let mut face = Face { typed: "reedclaw mcp", stop: &is_stopped, person: &mut Silent, env: &env, read: &read };
        let Done::Insert(text) = mcp_command(&servers, &words_of(&self.line()), &mut face)? else { return Ok(None) };
        let title = format!("Send the prompt {} of the server {}", self.prompt.name, self.server);
        Ok(Some((title, text)))
    }
}

/// A person who can't be asked while a server starts.
struct Silent;

impl Replies for Silent {
    fn reply(&mut self, _: &str, _: &[String]) -> Option<String> {
        None
    }
}
