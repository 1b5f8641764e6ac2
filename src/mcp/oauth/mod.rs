//! Logins at servers that require one (OAuth 2.1 as the Model Context Protocol uses it): the challenge of a server, its tokens,
//! and their renewal. Every address here comes from a server; the client that requests it checks it.

mod discover;
mod listen;
mod login;
mod record;
#[cfg(test)]
mod tests;
mod web;

use parking_lot::Mutex;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use ureq::Agent;
use ureq::http::{HeaderMap, Uri, header};

use crate::base::hash::sha256_hex;
use crate::files::{Locked, lock_file, make_private, replace_private};
use crate::host::now_unix_ms;
use crate::proto::served::OAuth;
use record::{Client, Record};
use web::{Reply, form, request};

pub(super) use login::login;

/// Longest wait for another session that renews the same token.
const LOCK_WAIT: Duration = Duration::from_secs(15);
/// A token that ends so soon is renewed before it is used.
const EARLY_MS: i64 = 30_000;
/// Scopes that one login asks for, in bytes.
const SCOPE_BYTES_MAX: usize = 4096;

/// Makes the client for an address that a server names, from the server's own address and that one. It judges the address, and the
/// machine to which it leads.
pub type Dial = Arc<dyn Fn(&str, &Uri) -> Result<Agent, String> + Send + Sync>;

/// Shows a person the address at which they log in.
pub trait Browser {
    /// Shows the whole address and asks whether to open it.
    fn visit(&mut self, address: &str) -> Visit;
}

/// The person's answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Visit {
    /// Open in a browser, which comes back to this machine.
    Opened,
    /// The address to which it led, on another machine.
    Pasted(String),
    /// The person refuses.
    Declined,
}

/// A server's answer that it requires a login.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Challenge {
    /// The address of the document that names the issuer of tokens.
    metadata: Option<String>,
    scope: Option<String>,
    error: Option<String>,
}

impl Challenge {
    pub(super) fn of(status: u16, headers: &HeaderMap) -> Self {
        let texts = headers.get_all(header::WWW_AUTHENTICATE).iter().filter_map(|value| value.to_str().ok());
        let bearer = texts.into_iter().find_map(bearer_part);
        let Some(text) = bearer else { return Self::default() };
        let get = |name: &str| parameter(text, name).filter(|value| value.len() <= SCOPE_BYTES_MAX);
        let error = get("error").or_else(|| (status == 403 && get("scope").is_some()).then(|| INSUFFICIENT.to_owned()));
        Self { metadata: get("resource_metadata"), scope: get("scope"), error }
    }

    /// Returns whether the token's permissions are insufficient.
    pub(super) fn wants_scope(&self) -> bool {
        self.error.as_deref() == Some(INSUFFICIENT)
    }
}

const INSUFFICIENT: &str = "insufficient_scope";

/// The parameters of a header after the word `Bearer`.
fn bearer_part(text: &str) -> Option<&str> {
    let lower = text.to_ascii_lowercase();
    let at = lower.match_indices("bearer").find(|(at, _)| {
        let before = lower[..*at].trim_end();
        before.is_empty() || before.ends_with(',')
    })?;
    Some(text[at.0 + "bearer".len()..].trim_start())
}

/// The value of a parameter, in quotes or without.
fn parameter(text: &str, name: &str) -> Option<String> {
    let mut rest = text;
    while let Some(equals) = rest.find('=') {
        let key = rest[..equals].rsplit([',', ' ', '\t']).next().unwrap_or_default().trim();
        let after = rest[equals + 1..].trim_start();
        let (value, length) = match after.strip_prefix('"') {
            Some(quoted) => {
                let mut value = String::new();
                let mut is_escaped = false;
                let mut end = quoted.len();
                for (at, c) in quoted.char_indices() {
                    match c {
                        _ if is_escaped => {
                            value.push(c);
                            is_escaped = false;
                        }
                        '\\' => is_escaped = true,
                        '"' => {
                            end = at + 1;
                            break;
                        }
                        _ => value.push(c),
                    }
                }
                (value, 1 + end)
            }
            None => {
                let end = after.find([',', ' ', '\t']).unwrap_or(after.len());
                (after[..end].to_owned(), end)
            }
        };
        if key.eq_ignore_ascii_case(name) {
            return Some(value);
        }
        rest = &after[length.min(after.len())..];
    }
    None
}

/// Returns whether an address is on this machine, so that no one else can listen there.
pub(super) fn is_this_machine(url: &str) -> bool {
    let host = url.parse::<Uri>().ok().and_then(|uri| uri.host().map(str::to_owned)).unwrap_or_default();
    let host = host.trim_start_matches('[').trim_end_matches(']');
    host.eq_ignore_ascii_case("localhost")
        || host.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback())
}

/// Reads a secret, if there is one.
type ReadSecret = Box<dyn Fn() -> Result<Option<String>, String> + Send + Sync>;

/// The tokens of one server.
#[derive(Clone)]
pub(super) struct Tokens(Arc<Inner>);

struct Inner {
    /// The server's address, for which its tokens are made.
    url: String,
    path: Option<PathBuf>,
    dial: Dial,
    settings: OAuth,
    /// Reads the secret of the user's own registration. It isn't copied into the file of tokens.
    secret: ReadSecret,
    challenge: Mutex<Option<Challenge>>,
}

impl Inner {
    /// Makes the client for an address that the server names.
    fn client(&self) -> impl Fn(&Uri) -> Result<Agent, String> {
        |url| (self.dial)(&self.url, url)
    }
}

impl Tokens {
    pub(super) fn new(url: &str, state: Option<PathBuf>, dial: Dial, settings: OAuth, secret: ReadSecret) -> Self {
        let name = format!("{}.json", &sha256_hex(url.as_bytes())[..32]);
        let path = state.map(|state| state.join("tokens").join(name));
        Self(Arc::new(Inner { url: url.to_owned(), path, dial, settings, secret, challenge: Mutex::default() }))
    }

    /// The token to send, if there is one.
    pub(super) fn token(&self) -> Option<String> {
        let record = self.read()?;
        let is_over = record.expires_ms.is_some_and(|at| at - EARLY_MS < now_unix_ms());
        let token = record.access.clone().filter(|token| is_sendable(token));
        if is_over && record.refresh.is_some() { self.refreshed(token.as_deref()).or(token) } else { token }
    }

    /// A token that is newer than `old`: another session's, or a new one from the issuer of tokens.
    pub(super) fn refreshed(&self, old: Option<&str>) -> Option<String> {
        let record = self.read()?;
        if record.access.as_deref() != old {
            return record.access;
        }
        record.refresh.as_ref()?;
        self.changed(|record| {
            if record.access.as_deref() != old {
                return;
            }
            let Some(refresh) = record.refresh.clone() else { return };
            let fields = [("grant_type", "refresh_token"), ("refresh_token", &refresh), ("resource", &record.audience)];
            let client = self.signing(&record.client);
            let order = client.and_then(|client| form(&record.token_endpoint, &fields, &client, &self.0.url));
            let sent = order.and_then(|order| request(&self.0.client(), order));
            match sent {
                Ok(reply) if reply.status == 200 => record.take(&reply, now_unix_ms()),
                Ok(reply) => record.refused(&reply),
                // The issuer of tokens isn't reached now; the old token may still be valid.
                Err(_) => {}
            }
        });
        self.read()?.access.filter(|token| Some(token.as_str()) != old)
    }

    /// A registration with its secret, which is read now for the user's own one.
    ///
    /// # Errors
    /// Why it can't be read.
    fn signing(&self, client: &Client) -> Result<Client, String> {
        let is_own = !client.is_dynamic && client.method != "none";
        let secret = if is_own { (self.0.secret)()? } else { None };
        Ok(Client { secret: secret.or_else(|| client.secret.clone()), ..client.clone() })
    }

    /// Remembers a server's challenge, for the next login.
    pub(super) fn note(&self, challenge: &Challenge) {
        *self.0.challenge.lock() = Some(challenge.clone());
        if let (true, Some(scope)) = (challenge.wants_scope(), &challenge.scope) {
            self.changed(|record| {
                record.wanted = Some(scope.clone());
                record.metadata.clone_from(&challenge.metadata);
            });
        }
    }

    /// The newest demand of the server.
    pub(super) fn challenge(&self) -> Option<Challenge> {
        let known = self.0.challenge.lock().clone();
        // Another session may have met it.
        let recorded = || {
            let record = self.read()?;
            Some(Challenge { metadata: record.metadata, scope: Some(record.wanted?), error: Some(INSUFFICIENT.into()) })
        };
        known.or_else(recorded)
    }

    /// Forgets the newest demand, once it is met.
    pub(super) fn forget_challenge(&self) {
        *self.0.challenge.lock() = None;
    }

    /// Deletes tokens and the registration. Returns whether there were any.
    ///
    /// # Errors
    /// The file can't be removed.
    pub(super) fn forget(&self) -> std::io::Result<bool> {
        let Some(path) = &self.0.path else { return Ok(false) };
        match std::fs::remove_file(path) {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(error),
        }
    }

    fn read(&self) -> Option<Record> {
        let bytes = std::fs::read(self.0.path.as_ref()?).ok()?;
        serde_json::from_slice::<Record>(&bytes).ok().filter(|record| record.resource == self.0.url)
    }

    /// Changes the record under a lock.
    fn changed(&self, change: impl FnOnce(&mut Record)) -> Option<()> {
        let path = self.0.path.as_ref()?;
        make_private(path.parent()?).ok()?;
        let file = lock_file(&path.with_extension("lock")).ok()?;
        let _locked = Locked::take(file, false, LOCK_WAIT).ok()?;
        let mut record = self.read().unwrap_or_else(|| Record::of(&self.0.url));
        change(&mut record);
        replace_private(path, &serde_json::to_vec(&record).ok()?).ok()
    }
}

/// Returns whether a token can be put into a header.
fn is_sendable(token: &str) -> bool {
    !token.is_empty() && token.bytes().all(|byte| byte.is_ascii_graphic())
}
