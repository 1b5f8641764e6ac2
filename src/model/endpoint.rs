//! The address of a model and its key. Knows how an address is written; must not know how it is used.

use std::fmt;
use std::net::IpAddr;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use super::cancel::Cancel;
use super::error::Fault;
use super::provider::Reach;
use crate::base::percent;
use crate::host::Authorities;
use crate::proto::Failure;

/// Longest wait for a name to be resolved, and again for the connection: a server that is there answers in far less.
pub const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// Longest wait for the first piece: a long prompt on a slow processor takes minutes before its first token.
pub const FIRST_BYTE_TIMEOUT: Duration = Duration::from_secs(300);
/// Longest wait for the first piece from a server that reports that it is working: a processor without a GPU reads a full window
/// of 32,000 tokens in about that time.
pub const BUSY_TIMEOUT: Duration = Duration::from_secs(1800);
/// Longest silence in the middle of an answer.
pub const IDLE_TIMEOUT: Duration = Duration::from_secs(60);

/// A key that is never shown: `Debug` and `Display` print stars.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// Wraps a key without the white space around it (the newline of a file).
    #[must_use]
    pub fn new(key: &str) -> Self {
        Self(key.trim().to_owned())
    }

    /// Returns the key itself, for the request alone.
    pub(super) fn reveal(&self) -> &str {
        &self.0
    }

    /// Replaces the key wherever `text` repeats it (servers echo keys in their refusals), even if a shortened text ends
    /// inside the key.
    pub(super) fn redact(&self, text: &str) -> String {
        if self.0.is_empty() {
            return text.to_owned();
        }
        let text = text.replace(&self.0, "***");
        let Some(start) = text.strip_suffix('…') else { return text };
        let parts = self.0.char_indices().rev().map(|(at, _)| &self.0[..at]).filter(|part| !part.is_empty());
        let cut = parts.into_iter().find_map(|part| start.strip_suffix(part));
        cut.map_or_else(|| text.clone(), |start| format!("{start}***…"))
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(***)")
    }
}

impl fmt::Display for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

/// Reads a key when it is needed, and stores it; it checks regularly whether the question was cancelled.
#[derive(Clone)]
pub struct KeyReader {
    read: Arc<ReadKey>,
    key: Arc<OnceLock<Secret>>,
}

type ReadKey = dyn Fn(&Cancel) -> Result<Secret, Failure> + Send + Sync;

impl KeyReader {
    /// Wraps a way to read a key.
    pub fn new(read: impl Fn(&Cancel) -> Result<Secret, Failure> + Send + Sync + 'static) -> Self {
        Self { read: Arc::new(read), key: Arc::default() }
    }

    /// Returns the key. A failure isn't remembered, so the next question tries again.
    pub(super) fn read(&self, cancel: &Cancel) -> Result<Secret, Failure> {
        if let Some(key) = self.key.get() {
            return Ok(key.clone());
        }
        let key = (self.read)(cancel)?;
        Ok(self.key.get_or_init(|| key).clone())
    }
}

impl fmt::Debug for KeyReader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("KeyReader")
    }
}

/// The protocol of a server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Protocol {
    /// OpenAI's chat completions, and all servers that adopted them.
    #[default]
    OpenAi,
    /// OpenAI's Responses.
    Responses,
    /// Anthropic's Messages.
    Anthropic,
    /// Google's Gemini.
    Gemini,
}

impl Protocol {
    /// Every protocol.
    pub const ALL: [Self; 4] = [Self::OpenAi, Self::Responses, Self::Anthropic, Self::Gemini];

    /// Its word in `models.NAME.kind`.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::OpenAi => "openai-compatible",
            Self::Responses => "openai-responses",
            Self::Anthropic => "anthropic",
            Self::Gemini => "gemini",
        }
    }

    /// The protocol of a word.
    #[must_use]
    pub fn of_word(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|protocol| protocol.word() == word)
    }

    /// The address of the protocol's own provider, if there is exactly one.
    #[must_use]
    pub fn usual_endpoint(self) -> Option<&'static str> {
        match self {
            Self::OpenAi => None,
            Self::Responses => Some("https://api.openai.com/v1"),
            Self::Anthropic => Some("https://api.anthropic.com"),
            Self::Gemini => Some("https://generativelanguage.googleapis.com"),
        }
    }

    /// The version that is added to a path without one.
    fn version(self) -> &'static str {
        if self == Self::Gemini { "/v1beta" } else { "/v1" }
    }

    /// The headers of a request, the key's among them.
    pub(super) fn headers(self, key: Option<&Secret>) -> Vec<(&'static str, String)> {
        let mut headers = Vec::new();
        if self == Self::Anthropic {
            headers.push(("anthropic-version", "2023-06-01".to_owned()));
        }
        if let Some(key) = key.map(Secret::reveal).filter(|key| !key.is_empty()) {
            headers.push(match self {
                Self::OpenAi | Self::Responses => ("authorization", format!("Bearer {key}")),
                Self::Anthropic => ("x-api-key", key.to_owned()),
                Self::Gemini => ("x-goog-api-key", key.to_owned()),
            });
        }
        headers
    }
}

/// The effort that a model spends on thinking before it answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Thinking {
    /// Not at all.
    Off,
    /// A little.
    Low,
    /// More.
    Medium,
    /// Most.
    High,
    /// At most this number of tokens.
    Tokens(u64),
}

impl Thinking {
    /// The thinking of a word.
    #[must_use]
    pub fn of_word(word: &str) -> Option<Self> {
        Some(match word {
            "off" => Self::Off,
            "low" => Self::Low,
            "medium" => Self::Medium,
            "high" => Self::High,
            _ => return None,
        })
    }

    /// The nearest named effort, for APIs without token budgets; `None` if thinking is off.
    pub(super) fn effort(self) -> Option<&'static str> {
        Some(match self {
            Self::Off => return None,
            Self::Low | Self::Tokens(..=4096) => "low",
            Self::Medium | Self::Tokens(..=16384) => "medium",
            Self::High | Self::Tokens(_) => "high",
        })
    }

    /// The nearest number of tokens, for APIs without named efforts: the numbers that Google uses (the "OpenAI
    /// compatibility" page of the Gemini API's documentation).
    pub(super) fn tokens(self) -> u64 {
        match self {
            Self::Off => 0,
            Self::Low => 1024,
            Self::Medium => 8192,
            Self::High => 24_576,
            Self::Tokens(tokens) => tokens,
        }
    }
}

/// The options of one model at a server.
#[derive(Clone, Debug)]
pub struct Endpoint {
    /// The user's name for it (`models.NAME`).
    pub name: String,
    /// The protocol of the server.
    pub protocol: Protocol,
    /// The server's address, with or without its version, a trailing slash or the full path.
    pub endpoint: String,
    /// The model's name for the server.
    pub model: String,
    /// The sampling temperature; the server's own where absent.
    pub temperature: Option<f64>,
    /// Most tokens of an answer; the server's own limit where absent.
    pub max_output_tokens: Option<u64>,
    /// The window: limit of a request and its answer together, if the config sets one.
    pub context_tokens: Option<u64>,
    /// `true` if the model takes pictures, if the config says so.
    pub images: Option<bool>,
    /// The server is asked about itself: for its window, unless the config sets one, and whether its model sees tools.
    pub asks_server: bool,
    /// The effort for thinking; `None` leaves it to the server.
    pub thinking: Option<Thinking>,
    /// The key, sent to this endpoint only.
    pub key: Option<Secret>,
    /// Reads a key that isn't known yet, with the first question.
    pub key_reader: Option<KeyReader>,
    /// The environment variable that holds the key, for hints.
    pub key_env: Option<String>,
    /// The authorities that vouch for the server on https.
    pub authorities: Authorities,
    /// Longest wait for the name, and again for the connection.
    pub connect_timeout: Duration,
    /// Longest wait for the answer to begin.
    pub first_byte_timeout: Duration,
    /// Longest wait for that from a server that reports that it is working.
    pub busy_timeout: Duration,
    /// Longest silence once it has begun.
    pub idle_timeout: Duration,
    /// Further tries of a request that was refused before its answer began.
    pub retries: u32,
}

impl Endpoint {
    /// Makes an endpoint without a key and with the default time-outs.
    #[must_use]
    pub fn new(name: &str, endpoint: &str, model: &str) -> Self {
        Self {
            name: name.to_owned(),
            protocol: Protocol::OpenAi,
            endpoint: endpoint.to_owned(),
            model: model.to_owned(),
            temperature: None,
            max_output_tokens: None,
            context_tokens: None,
            images: None,
            asks_server: false,
            thinking: None,
            key: None,
            key_reader: None,
            key_env: None,
            authorities: Authorities::default(),
            connect_timeout: CONNECT_TIMEOUT,
            first_byte_timeout: FIRST_BYTE_TIMEOUT,
            busy_timeout: BUSY_TIMEOUT,
            idle_timeout: IDLE_TIMEOUT,
            retries: 0,
        }
    }

    /// Returns whether the server may be asked if it is still at work before a question is abandoned.
    pub(super) fn may_say_it_works(&self) -> bool {
        self.asks_server && self.protocol == Protocol::OpenAi && self.reach() != Reach::Internet
    }

    /// The key, if it is known already.
    pub(super) fn known_key(&self) -> Option<&Secret> {
        self.key.as_ref().or_else(|| self.key_reader.as_ref()?.key.get())
    }

    /// Returns the full address of a streamed answer.
    ///
    /// # Errors
    /// [`Fault::BadEndpoint`] if the address isn't an `http` or `https` URL, or contains a password.
    pub fn url(&self) -> Result<String, Fault> {
        self.address(Ask::Stream(&self.model)).map(|address| address.url)
    }

    /// Returns the distance of a request to it; an address that can't be parsed counts as far away.
    #[must_use]
    pub fn reach(&self) -> Reach {
        self.address(Ask::Models).map_or(Reach::Internet, |address| address.reach())
    }

    /// Returns host and port, or the address as written if it can't be parsed.
    #[must_use]
    pub fn place(&self) -> String {
        self.address(Ask::Models).map_or_else(|_| self.shown().to_owned(), |address| address.place)
    }

    /// Returns the host alone, in lower case; `None` if the address can't be parsed.
    #[must_use]
    pub fn host(&self) -> String {
        self.address(Ask::Models).map_or_else(|_| String::new(), |address| address.host.to_ascii_lowercase())
    }

    /// Returns the address as it may be shown: without the part before `@`, which may be a password.
    #[must_use]
    pub fn shown(&self) -> &str {
        self.endpoint.rsplit('@').next().unwrap_or_default().trim()
    }

    /// Splits the address into the parts for a request and for a message.
    pub(super) fn address(&self, ask: Ask<'_>) -> Result<Address, Fault> {
        let bad = |why: &str| Fault::BadEndpoint { why: why.to_owned() };
        let text = self.endpoint.trim();
        let text = text.split('#').next().unwrap_or_default();
        if text.contains('@') {
            // Not repeated in the message: it may be a password.
            return Err(bad(
                "a name or password in the address is not taken; put the key in the environment (key_env)",
            ));
        }
        let (base, query) = text.split_once('?').map_or((text, None), |(base, query)| (base, Some(query)));
        let uri: ureq::http::Uri = base.parse().map_err(|_| bad("it is not a URL"))?;
        let scheme = uri.scheme_str().unwrap_or_default().to_ascii_lowercase();
        if scheme != "http" && scheme != "https" {
            return Err(bad("it must begin with http:// or https://"));
        }
        let Some(authority) = uri.authority().filter(|authority| !authority.host().is_empty()) else {
            return Err(bad("it names no host"));
        };
        let mut base = self.base_path(uri.path());
        if matches!(ask, Ask::Root(_)) {
            base.truncate(base.strip_suffix("/v1").map_or(base.len(), str::len));
        }
        let (path, own_query) = self.request_path(ask);
        let query = [query, own_query].into_iter().flatten().collect::<Vec<_>>().join("&");
        let query = if query.is_empty() { query } else { format!("?{query}") };
        let path = format!("{base}{path}");
        Ok(Address {
            url: format!("{scheme}://{authority}{path}{query}"),
            place: authority.to_string(),
            host: authority.host().to_owned(),
        })
    }

    /// The path up to the version: the user's text, without the end of a full path.
    fn base_path(&self, path: &str) -> String {
        let path = path.trim_end_matches('/');
        let end = match self.protocol {
            Protocol::OpenAi => "/chat/completions",
            Protocol::Responses => "/responses",
            Protocol::Anthropic => "/messages",
            Protocol::Gemini => "/models",
        };
        match path.strip_suffix(end) {
            Some(base) => base.to_owned(),
            None if path.split('/').any(is_version) => path.to_owned(),
            None => format!("{path}{}", self.protocol.version()),
        }
    }

    fn request_path(&self, ask: Ask<'_>) -> (String, Option<&'static str>) {
        match (self.protocol, ask) {
            (_, Ask::Models) => ("/models".to_owned(), None),
            (_, Ask::Root(path)) => (path.to_owned(), None),
            (Protocol::OpenAi, _) => ("/chat/completions".to_owned(), None),
            (Protocol::Responses, _) => ("/responses".to_owned(), None),
            (Protocol::Anthropic, _) => ("/messages".to_owned(), None),
            (Protocol::Gemini, Ask::Stream(model)) => {
                (format!("/models/{}:streamGenerateContent", path_name(model)), Some("alt=sse"))
            }
            (Protocol::Gemini, Ask::Whole(model)) => (format!("/models/{}:generateContent", path_name(model)), None),
        }
    }
}

/// The kinds of request to a server; each has its path.
#[derive(Clone, Copy, Debug)]
pub(super) enum Ask<'a> {
    /// An answer in pieces, of this model.
    Stream(&'a str),
    /// An answer in one piece, of this model.
    Whole(&'a str),
    /// The list of models.
    Models,
    /// A path of llama.cpp's own, above the protocol's version.
    Root(&'static str),
}

/// A model's name as a piece of a path.
fn path_name(model: &str) -> String {
    let model = model.strip_prefix("models/").unwrap_or(model);
    percent::encode(model, ":@")
}

/// An endpoint's address, in parts.
pub(super) struct Address {
    /// The whole URL.
    pub url: String,
    /// Host and port, as written.
    pub place: String,
    /// The host alone.
    pub host: String,
}

impl Address {
    /// Returns whether it is this machine itself: then no proxy of the environment may see the conversation.
    pub(super) fn is_loopback(&self) -> bool {
        let host = self.host.trim_start_matches('[').trim_end_matches(']');
        host.eq_ignore_ascii_case("localhost") || host.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback())
    }

    /// The distance to the server: this machine, the private network, or the internet.
    fn reach(&self) -> Reach {
        let host = self.host.trim_start_matches('[').trim_end_matches(']').to_ascii_lowercase();
        let is_private = match host.parse::<IpAddr>() {
            Ok(IpAddr::V4(ip)) => ip.is_private() || ip.is_link_local(),
            Ok(IpAddr::V6(ip)) => ip.is_unique_local() || ip.is_unicast_link_local(),
            // Names that no public name server can have (RFC 6762, RFC 8375, and `internal`, which ICANN has reserved).
            Err(_) => {
                const ENDS: [&str; 3] = [".local", ".home.arpa", ".internal"];
                !host.contains('.') || ENDS.iter().any(|end| host.ends_with(end))
            }
        };
        match is_private {
            _ if self.is_loopback() => Reach::Machine,
            true => Reach::Network,
            false => Reach::Internet,
        }
    }
}

/// A path segment such as `v1`, `v4` or `v1beta`.
fn is_version(segment: &str) -> bool {
    segment.strip_prefix('v').is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_may_end_with_or_without_its_path() {
        let table = [
            ("http://127.0.0.1:8080", "http://127.0.0.1:8080/v1/chat/completions"),
            ("http://127.0.0.1:8080/", "http://127.0.0.1:8080/v1/chat/completions"),
            (" http://h/v1 ", "http://h/v1/chat/completions"),
            ("https://h/v1/", "https://h/v1/chat/completions"),
            ("https://h/api/v1", "https://h/api/v1/chat/completions"),
            ("https://h/api", "https://h/api/v1/chat/completions"),
            ("https://h/v1beta/openai/", "https://h/v1beta/openai/chat/completions"),
            ("https://h/v1/chat/completions/", "https://h/v1/chat/completions"),
            ("https://h/x/chat/completions?api-version=1", "https://h/x/chat/completions?api-version=1"),
            ("HTTP://[::1]:9/#top", "http://[::1]:9/v1/chat/completions"),
        ];
        for (written, url) in table {
            assert_eq!(Endpoint::new("m", written, "x").url().as_deref(), Ok(url), "{written}");
        }
    }

    #[test]
    fn an_invalid_address_is_reported() {
        for written in ["", "127.0.0.1:8080", "localhost", "ftp://h", "http://", "http://h o/", "http://u:secret@h/"] {
            let fault = Endpoint::new("m", written, "x").url().expect_err(written);
            assert!(!fault.to_string().contains("secret"), "{fault}");
        }
    }

    #[test]
    fn a_key_is_never_shown() {
        let mut endpoint = Endpoint::new("m", "http://h", "x");
        endpoint.key = Some(Secret::new("sk-123\n"));
        let key = endpoint.key.clone().unwrap();
        assert!(!format!("{endpoint:?} {key:?} {key}").contains("123"));
        assert_eq!(key.redact("bad key sk-123!"), "bad key ***!");
        assert_eq!(key.redact("bad key sk-1…"), "bad key ***…");
    }

    #[test]
    fn each_protocol_has_its_own_path() {
        let table = [
            (Protocol::Responses, "https://api.openai.com/v1", "https://api.openai.com/v1/responses"),
            (Protocol::Responses, "https://h/v1/responses", "https://h/v1/responses"),
            (Protocol::Anthropic, "https://api.anthropic.com", "https://api.anthropic.com/v1/messages"),
            (Protocol::Anthropic, "http://h:1/v1/messages", "http://h:1/v1/messages"),
            (Protocol::Gemini, "https://h", "https://h/v1beta/models/x%2Fy:streamGenerateContent?alt=sse"),
            (
                Protocol::Gemini,
                "https://h/v1/models/?k=1",
                "https://h/v1/models/x%2Fy:streamGenerateContent?k=1&alt=sse",
            ),
        ];
        for (protocol, written, url) in table {
            let endpoint = Endpoint { protocol, ..Endpoint::new("m", written, "models/x/y") };
            assert_eq!(endpoint.url().as_deref(), Ok(url), "{written}");
        }
    }

    #[test]
    fn an_address_decides_how_far_a_request_goes() {
        for (url, reach) in [
            ("http://127.0.0.1:1", Reach::Machine),
            ("http://192.168.1.4:8080", Reach::Network),
            ("http://[fd00::1]", Reach::Network),
            ("http://box:11434", Reach::Network),
            ("http://box.local", Reach::Network),
            ("https://api.openai.com/v1", Reach::Internet),
            ("http://8.8.8.8", Reach::Internet),
            ("nonsense", Reach::Internet),
        ] {
            assert_eq!(Endpoint::new("m", url, "x").reach(), reach, "{url}");
        }
    }

    #[test]
    fn this_machine_is_known() {
        for (url, yes) in
            [("http://localhost:1", true), ("http://[::1]", true), ("http://127.3.2.1", true), ("http://h", false)]
        {
            let address = Endpoint::new("m", url, "x").address(Ask::Models).unwrap_or_else(|_| panic!("{url}"));
            assert_eq!(address.is_loopback(), yes, "{url}");
        }
    }
}
