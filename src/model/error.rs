//! The failures between a question and its answer, each with one line and a hint. Never holds a key; a server's own
//! words are cut to one clean line.

use std::time::Duration;

use super::endpoint::Endpoint;
use crate::base::text::is_invisible;
use crate::host::certificate_problem;
use crate::proto::{Failure, FailureKind, Upstream};

/// Characters of a server's own words that a message repeats: enough for its sentence, short enough for a line.
const SAID_CHARS_MAX: usize = 300;

/// A failed question, with its model, the model's place, and the reason.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("model {model} at {place}: {fault}")]
pub struct ModelError {
    /// The name of the model in the config.
    pub model: String,
    /// Host and port, or the endpoint as written if it can't be parsed.
    pub place: String,
    /// The environment variable that should hold the key, if one is configured.
    pub key_env: Option<String>,
    /// Its word in `models.NAME.kind`.
    pub kind: &'static str,
    /// Reason why it failed.
    pub fault: Fault,
}

/// Reason why a question failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// The endpoint can't be used as it is written.
    #[error("the endpoint can't be used: {why}")]
    BadEndpoint {
        /// The problem with it.
        why: String,
    },
    /// The key contains a character that a header can't carry.
    #[error("the key holds a character that can't be sent")]
    BadKey,
    /// A rule of ours forbids to send it: a budget.
    #[error("{}", .0.message)]
    NotAllowed(
        /// The rule's message.
        Failure,
    ),
    /// The server's port is closed.
    #[error("connection refused")]
    Refused,
    /// The host's name is unknown.
    #[error("the host name can't be resolved")]
    NameNotResolved,
    /// The connection was not made in time.
    #[error("no connection within {}", seconds(.0))]
    ConnectTimeout(
        /// The limit that passed.
        Duration,
    ),
    /// The connection can't be made for another reason.
    #[error("can't connect: {why}")]
    Unreachable {
        /// The system's reason.
        why: String,
    },
    /// The encrypted connection could not be agreed on.
    #[error("no secure connection: {}", certificate_problem(.why).map_or_else(|| why.clone(), |(message, _)| message))]
    Tls {
        /// The library's reason.
        why: String,
    },
    /// 401 or 403.
    #[error("the server refused the key (HTTP {status}){}", tail(.server_text))]
    Unauthorized {
        /// The HTTP status.
        status: u16,
        /// `true` if a key was sent at all.
        had_key: bool,
        /// The server's words.
        server_text: String,
    },
    /// 404: no such model, or no such path.
    #[error("not found (HTTP 404){}", tail(.server_text))]
    NotFound {
        /// The server's words.
        server_text: String,
    },
    /// The conversation is longer than the model's context.
    #[error("the conversation is too long for the model's context{}", tail(.server_text))]
    ContextOverflow {
        /// The server's words.
        server_text: String,
    },
    /// 429.
    #[error("too many requests (HTTP 429){}{}", retry(.retry_after), tail(.server_text))]
    RateLimited {
        /// The server's `retry-after`, as it was sent.
        retry_after: Option<String>,
        /// The server's words.
        server_text: String,
    },
    /// 5xx.
    #[error("the server failed (HTTP {status}){}{}", retry(.retry_after), tail(.server_text))]
    Server {
        /// The HTTP status.
        status: u16,
        /// The server's `retry-after`, as it was sent.
        retry_after: Option<String>,
        /// The server's words.
        server_text: String,
    },
    /// Another status that means a refusal.
    #[error("the server rejected the request (HTTP {status}){}", tail(.server_text))]
    Rejected {
        /// The HTTP status.
        status: u16,
        /// The server's words.
        server_text: String,
    },
    /// A redirect: not followed, because question and key may go only to the address in the config.
    #[error("the server redirects (HTTP {status}){}", tail(.location))]
    Redirected {
        /// The HTTP status.
        status: u16,
        /// The target of the redirect.
        location: String,
    },
    /// Connected, but the answer did not begin in time.
    #[error("no answer began within {}", seconds(.0))]
    NeverStarted(
        /// The limit that passed.
        Duration,
    ),
    /// The answer stopped coming in the middle.
    #[error("the answer stalled: nothing came for {}", seconds(.0))]
    Stalled(
        /// The limit that passed.
        Duration,
    ),
    /// The connection closed before any answer.
    #[error("the server closed the connection without an answer")]
    ClosedEarly,
    /// The connection closed in the middle of the answer.
    #[error("the answer was cut off in the middle: the connection closed")]
    Cut,
    /// The response isn't an answer in the form of the protocol.
    #[error("the answer doesn't follow the server's protocol{}", tail(.sample))]
    Garbage {
        /// The first bytes of the response.
        sample: String,
    },
    /// The server reported an error inside the answer.
    #[error("the server reported an error in its answer{}", tail(.server_text))]
    ErrorInAnswer {
        /// The server's words.
        server_text: String,
    },
    /// The answer passed a limit.
    #[error("the {what} passed the limit of {limit_bytes} bytes and was stopped")]
    TooLong {
        /// The part that was too long.
        what: &'static str,
        /// The limit.
        limit_bytes: usize,
    },
    /// The user stopped it.
    #[error("stopped")]
    Cancelled,
    /// The key can't be read.
    #[error("{}", .0.message)]
    Key(
        /// The failure, ready to be shown.
        Failure,
    ),
    /// A model that asks others has none to ask.
    #[error("models.{model}.{key} names no model")]
    NoneToAsk {
        /// The name of the model that asks others.
        model: String,
        /// The setting that should name them.
        key: &'static str,
    },
    /// No model is connected at all.
    #[error("no model is set up")]
    NotConnected,
    /// The script of a mock can't be used.
    #[error("the script can't be used: {why}")]
    Script {
        /// The problem with it.
        why: String,
    },
    /// An internal error.
    #[error("the request could not be run: {why}")]
    Internal {
        /// The cause.
        why: String,
    },
}

impl Fault {
    /// A word for its kind.
    pub(super) fn word(&self) -> String {
        format!("{self:?}").chars().take_while(|c| c.is_alphanumeric()).collect()
    }

    /// The HTTP status of the failure, if there was one.
    pub(super) fn status(&self) -> Option<u16> {
        match self {
            Self::Unauthorized { status, .. }
            | Self::Server { status, .. }
            | Self::Rejected { status, .. }
            | Self::Redirected { status, .. } => Some(*status),
            Self::NotFound { .. } => Some(404),
            Self::RateLimited { .. } => Some(429),
            _ => None,
        }
    }
}

impl ModelError {
    /// A word for its kind.
    #[must_use]
    pub fn word(&self) -> String {
        self.fault.word()
    }

    /// Makes the error of a server.
    pub(super) fn of(endpoint: &Endpoint, fault: Fault) -> Self {
        Self {
            model: endpoint.name.clone(),
            place: endpoint.place(),
            key_env: endpoint.key_env.clone(),
            kind: endpoint.protocol.word(),
            fault,
        }
    }

    /// Turns it into a failure for a face.
    #[must_use]
    pub fn to_failure(&self) -> Failure {
        let message = match &self.fault {
            Fault::Key(failure) | Fault::NotAllowed(failure) => return failure.clone(),
            fault @ (Fault::NotConnected | Fault::NoneToAsk { .. }) => fault.to_string(),
            _ => self.to_string(),
        };
        let upstream = Upstream { model: self.model.clone(), http_status: self.fault.status() };
        Failure {
            upstream: (self.fault != Fault::NotConnected).then(|| Box::new(upstream)),
            ..Failure::new(self.failure_kind(), clean(&message, usize::MAX)).hint(clean(&self.hint(), usize::MAX))
        }
    }

    fn failure_kind(&self) -> FailureKind {
        match &self.fault {
            Fault::BadEndpoint { .. }
            | Fault::BadKey
            | Fault::Key(_)
            | Fault::Script { .. }
            | Fault::NoneToAsk { .. }
            | Fault::Unauthorized { .. }
            | Fault::NotFound { .. } => FailureKind::Config,
            Fault::NotConnected => FailureKind::NoModel,
            Fault::NotAllowed(failure) => failure.kind,
            Fault::Redirected { .. } => FailureKind::Refused,
            Fault::ContextOverflow { .. } | Fault::Cancelled => FailureKind::User,
            Fault::Internal { .. } => FailureKind::Internal,
            Fault::Refused
            | Fault::NameNotResolved
            | Fault::ConnectTimeout(_)
            | Fault::Unreachable { .. }
            | Fault::Tls { .. } => FailureKind::Unreachable,
            _ => FailureKind::Unavailable,
        }
    }

    fn hint(&self) -> String {
        let name = &self.model;
        match &self.fault {
            Fault::BadEndpoint { .. } => {
                format!("set models.{name}.endpoint to an address such as \"http://127.0.0.1:8080\"")
            }
            Fault::BadKey | Fault::Unauthorized { .. } => self.key_hint(),
            Fault::Refused | Fault::ConnectTimeout(_) | Fault::Unreachable { .. } => {
                format!("start the server, correct models.{name}.endpoint, or switch with :model NAME")
            }
            Fault::NameNotResolved => format!("check the network and the host in models.{name}.endpoint"),
            Fault::Tls { why } => match certificate_problem(why) {
                Some((_, hint)) => hint.to_owned(),
                None => format!("check whether models.{name}.endpoint speaks https at that port"),
            },
            Fault::NotFound { .. } => {
                format!(":models lists the configured models; correct models.{name}.model or models.{name}.endpoint")
            }
            Fault::ContextOverflow { .. } => {
                "ask a shorter question, or start again with :new; models.NAME.context_tokens sets the model's window"
                    .to_owned()
            }
            Fault::RateLimited { .. } | Fault::Server { .. } => {
                "ask again in a while, or switch with :model NAME".to_owned()
            }
            Fault::Rejected { .. } => format!("check models.{name} in the config against the server's own documents"),
            Fault::Redirected { .. } => format!("if you trust that address, write it into models.{name}.endpoint"),
            Fault::NeverStarted(_) | Fault::Stalled(_) => {
                "the server may be busy or hung: look at its log, then ask again".to_owned()
            }
            Fault::ClosedEarly | Fault::Cut | Fault::ErrorInAnswer { .. } => {
                "look at the server's log, then ask again".to_owned()
            }
            Fault::Garbage { .. } => {
                format!("check that models.{name}.endpoint is a model server that speaks {}", self.kind)
            }
            Fault::Cancelled => "ask again".to_owned(),
            Fault::Key(failure) | Fault::NotAllowed(failure) => failure.hint.clone(),
            Fault::NotConnected => {
                ":onboard looks for models on this machine and for API keys in the environment".to_owned()
            }
            Fault::Script { .. } => format!("see models.{name}.script in the config"),
            Fault::NoneToAsk { .. } => "name at least one of your models there".to_owned(),
            Fault::TooLong { .. } => "ask for a shorter answer".to_owned(),
            Fault::Internal { .. } => "ask again; if it fails again, restart reedclaw".to_owned(),
        }
    }

    fn key_hint(&self) -> String {
        let name = &self.model;
        let had_key = !matches!(&self.fault, Fault::Unauthorized { had_key: false, .. });
        match (&self.key_env, had_key) {
            (Some(variable), true) => format!("put a valid key into the environment variable {variable}"),
            (Some(variable), false) => format!("set the environment variable {variable}: it is unset or empty"),
            (None, true) => format!("correct the key that models.{name} has in the config"),
            (None, false) => format!("name the variable that holds the key: models.{name}.key_env"),
        }
    }
}

/// Makes one line of limited length from a stranger's text: no control or direction-changing characters, white space
/// folded.
pub(super) fn one_line(text: &str) -> String {
    clean(text, SAID_CHARS_MAX)
}

fn clean(text: &str, chars_max: usize) -> String {
    let mut line = String::new();
    let mut length = 0;
    let mut gap = false;
    for c in text.chars() {
        if c.is_whitespace() || c.is_control() {
            gap = true;
            continue;
        }
        // Zero-width and direction-changing characters can change how a line is read.
        if is_invisible(c) {
            continue;
        }
        if gap && length > 0 {
            line.push(' ');
            length += 1;
        }
        gap = false;
        if length >= chars_max {
            line.push('…');
            break;
        }
        line.push(c);
        length += 1;
    }
    line
}

fn tail(server_text: &str) -> String {
    if server_text.is_empty() { String::new() } else { format!(": {server_text}") }
}

fn retry(after: &Option<String>) -> String {
    match after {
        Some(seconds) if seconds.bytes().all(|byte| byte.is_ascii_digit()) => format!(", retry after {seconds} s"),
        Some(date) => format!(", retry after {date}"),
        None => String::new(),
    }
}

pub(super) fn seconds(duration: &Duration) -> String {
    if duration.subsec_millis() == 0 {
        format!("{} s", duration.as_secs())
    } else {
        format!("{} ms", duration.as_millis())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_strangers_words_are_one_clean_bounded_line() {
        assert_eq!(one_line("a\n\x1b[31mb\u{202e}\u{3164}c\t\u{9b}d  "), "a [31mbc d");
        let long = one_line(&"é".repeat(1000));
        assert_eq!(long.chars().count(), SAID_CHARS_MAX + 1);
        assert!(long.ends_with('…'));
    }

    #[test]
    fn a_missing_key_and_a_wrong_key_have_their_own_hints() {
        let error = |had_key, key_env: Option<&str>| ModelError {
            model: "m".into(),
            place: "h:1".into(),
            key_env: key_env.map(str::to_owned),
            kind: "openai-compatible",
            fault: Fault::Unauthorized { status: 401, had_key, server_text: String::new() },
        };
        assert!(
            error(true, Some("MY_KEY")).to_failure().hint.contains("valid key into the environment variable MY_KEY")
        );
        assert!(error(false, Some("MY_KEY")).to_failure().hint.contains("unset or empty"));
        assert!(error(false, None).to_failure().hint.contains("models.m.key_env"));
        assert!(error(true, None).to_failure().hint.contains("correct the key"), "its key is in a file");
        assert_eq!(error(true, None).to_failure().message, "model m at h:1: the server refused the key (HTTP 401)");
    }
}
