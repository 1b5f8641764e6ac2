//! The holders of tokens: who a secret belongs to, and what they are in a tenant. It must not know routes.

use parking_lot::Mutex;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::jwt::{Keys, Terms, is_jwt};
use crate::config::AuthSettings;
use crate::host;
use crate::ledger::{Caller, Ledger, LedgerError, Who};
use crate::proto::Failure;
use crate::proto::team::{TeamRole, TokenKind};

/// Time after which the keys of an external sign-in are read again.
const KEYS_FOR: Duration = Duration::from_secs(10 * 60);
/// The same for a token with an unknown key, since keys change.
const KEYS_ANEW: Duration = Duration::from_secs(10);
/// Bytes of the file with the keys.
const KEYS_BYTES_MAX: u64 = 1024 * 1024;

/// Identifies callers by their secrets.
pub struct Callers {
    ledger: Arc<Ledger>,
    foreign: Option<Foreign>,
}

/// An external sign-in.
struct Foreign {
    terms: Terms,
    file: PathBuf,
    keys: Mutex<(Keys, Instant)>,
}

impl Foreign {
    /// # Errors
    /// The settings aren't whole, or the file has no key.
    fn new(settings: &AuthSettings) -> Result<Self, Failure> {
        let wrong = |message: String| {
            Failure::user(message)
                .hint("gateway.auth needs issuer, audience, and jwks with the whole path of a JWK set")
        };
        let file = PathBuf::from(&settings.jwks);
        if settings.issuer.is_empty() || settings.audience.is_empty() || !file.is_absolute() {
            return Err(wrong("the other sign-in isn't set up".into()));
        }
        let keys = read(&file).ok_or_else(|| wrong(format!("{} can't be read as a JWK set", file.display())))?;
        let terms = Terms { issuer: settings.issuer.clone(), audience: settings.audience.clone() };
        Ok(Self { terms, file, keys: Mutex::new((keys, Instant::now())) })
    }

    fn user_of(&self, token: &str) -> Option<String> {
        let mut keys = self.keys.lock();
        let age = keys.1.elapsed();
        if age >= KEYS_FOR || age >= KEYS_ANEW && !keys.0.know(token) {
            // If the file can't be read now, the known keys stay valid.
            let read = read(&self.file).unwrap_or_else(|| std::mem::take(&mut keys.0));
            *keys = (read, Instant::now());
        }
        keys.0.user_of(token, &self.terms, host::now_unix_ms() / 1_000)
    }
}

fn read(file: &Path) -> Option<Keys> {
    use std::io::Read as _;
    let mut text = String::new();
    std::fs::File::open(file).ok()?.take(KEYS_BYTES_MAX).read_to_string(&mut text).ok()?;
    let keys = Keys::read(&serde_json::from_str(&text).ok()?);
    (keys != Keys::default()).then_some(keys)
}

impl Callers {
    /// Makes a value for the tokens of these stores, and of an external sign-in if one is set up.
    ///
    /// # Errors
    /// The external sign-in can't be used.
    pub fn new(ledger: &Arc<Ledger>, settings: &AuthSettings) -> Result<Self, Failure> {
        let foreign = (!settings.jwks.is_empty()).then(|| Foreign::new(settings)).transpose()?;
        Ok(Self { ledger: Arc::clone(ledger), foreign })
    }

    /// Returns the holder of a secret in a tenant; `None` if it isn't valid, or no longer.
    ///
    /// # Errors
    /// The database fails.
    pub fn find(&self, secret: &str, tenant: &str) -> Result<Option<Caller>, LedgerError> {
        let Some(foreign) = self.foreign.as_ref().filter(|_| is_jwt(secret)) else {
            return self.ledger.accounts().caller(secret, tenant);
        };
        let Some(user) = foreign.user_of(secret) else { return Ok(None) };
        // The members here decide about rights, and nothing in the token does.
        let (member, mode) = (self.ledger.accounts().member(tenant, &user)?, self.ledger.accounts().mode(tenant)?);
        let holder =
            Who { token_id: "jwt".into(), kind: TokenKind::Person, user, tenant: tenant.into(), role: TeamRole::Admin };
        Ok(Some(Caller { holder, member, mode }))
    }

    /// Returns for each secret and tenant whether its holder may still read there.
    ///
    /// # Errors
    /// The database fails.
    pub fn may_read(&self, keys: &[(String, String)]) -> Result<Vec<bool>, LedgerError> {
        let is_member = |(secret, tenant): &(String, String)| {
            let caller = self.find(secret, tenant)?;
            Ok(caller.is_some_and(|caller| caller.holder.tenant == *tenant && caller.member.is_some()))
        };
        keys.iter().map(is_member).collect()
    }
}
