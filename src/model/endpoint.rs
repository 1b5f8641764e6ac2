//! Where a model is reached and with which key. Knows how an address is written; must not know how it is used.

use std::fmt;
use std::net::IpAddr;
use std::time::Duration;

use super::error::Fault;

/// Longest wait for a name to be resolved, and again for the connection: a server that is there answers in far less.
pub const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// Longest wait for the first piece: a long prompt on a slow processor takes minutes before its first token.
pub const FIRST_BYTE_TIMEOUT: Duration = Duration::from_secs(300);
/// Longest silence in the middle of an answer.
pub const IDLE_TIMEOUT: Duration = Duration::from_secs(60);

/// A key that is never shown: `Debug` and `Display` give stars.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// Wraps a key; white space around it (the newline of a file) is no part of it.
    #[must_use]
    pub fn new(key: &str) -> Self {
        Self(key.trim().to_owned())
    }

    /// Gives the key itself, for the request alone.
    pub(super) fn reveal(&self) -> &str {
        &self.0
    }

    /// Replaces the key wherever `text` repeats it (servers echo keys in their refusals), also where a shortened text ends
    /// in the middle of it.
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

/// The options of one model.
#[derive(Clone, Debug)]
pub struct Endpoint {
    /// What the user calls it (`models.NAME`).
    pub name: String,
    /// The server's address, with or without `/v1`, a trailing slash or the full path.
    pub endpoint: String,
    /// The model's name for the server.
    pub model: String,
    /// The sampling temperature; the server's own where absent.
    pub temperature: Option<f64>,
    /// The key, sent as a bearer token to this endpoint only.
    pub key: Option<Secret>,
    /// The environment variable that holds the key, for hints.
    pub key_env: Option<String>,
    /// Longest wait for the name, and again for the connection.
    pub connect_timeout: Duration,
    /// Longest wait for the answer to begin.
    pub first_byte_timeout: Duration,
    /// Longest silence once it has begun.
    pub idle_timeout: Duration,
}

impl Endpoint {
    /// Makes an endpoint without a key and with the default time-outs.
    #[must_use]
    pub fn new(name: &str, endpoint: &str, model: &str) -> Self {
        Self {
            name: name.to_owned(),
            endpoint: endpoint.to_owned(),
            model: model.to_owned(),
            temperature: None,
            key: None,
            key_env: None,
            connect_timeout: CONNECT_TIMEOUT,
            first_byte_timeout: FIRST_BYTE_TIMEOUT,
            idle_timeout: IDLE_TIMEOUT,
        }
    }

    /// Gives the full address of the chat completions.
    ///
    /// # Errors
    /// [`Fault::BadEndpoint`] where the address is no `http` or `https` URL, or carries a password.
    pub fn url(&self) -> Result<String, Fault> {
        self.address().map(|address| address.url)
    }

    /// Gives the address as it may be shown: without what stands before an `@`, which may be a password.
    #[must_use]
    pub fn shown(&self) -> &str {
        self.endpoint.rsplit('@').next().unwrap_or_default().trim()
    }

    /// Splits the address into what a request and a message need.
    pub(super) fn address(&self) -> Result<Address, Fault> {
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
        let path = uri.path().trim_end_matches('/');
        let path = if path.ends_with("/chat/completions") {
            path.to_owned()
        } else if path.split('/').any(is_version) {
            format!("{path}/chat/completions")
        } else {
            format!("{path}/v1/chat/completions")
        };
        let query = query.map(|query| format!("?{query}")).unwrap_or_default();
        Ok(Address {
            url: format!("{scheme}://{authority}{path}{query}"),
            place: authority.to_string(),
            host: authority.host().to_owned(),
        })
    }
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
    /// Whether it is this machine itself: then no proxy of the environment may see the conversation.
    pub(super) fn is_loopback(&self) -> bool {
        let host = self.host.trim_start_matches('[').trim_end_matches(']');
        host.eq_ignore_ascii_case("localhost") || host.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback())
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
    fn an_address_is_taken_however_it_is_written() {
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
    fn what_is_no_address_is_said() {
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
    fn this_machine_is_known() {
        for (url, yes) in
            [("http://localhost:1", true), ("http://[::1]", true), ("http://127.3.2.1", true), ("http://h", false)]
        {
            let address = Endpoint::new("m", url, "x").address().unwrap_or_else(|_| panic!("{url}"));
            assert_eq!(address.is_loopback(), yes, "{url}");
        }
    }
}
