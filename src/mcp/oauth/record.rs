//! The file of a server's tokens and of our registration there.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::Reply;

/// Logins in a row that ask for the same further permissions.
pub(super) const STEPS_MAX: u8 = 2;

/// The file's content.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct Record {
    /// The address for which the tokens are.
    pub(super) resource: String,
    /// The address as the server's own document writes it, for which a token is requested.
    pub(super) audience: String,
    /// The issuer of tokens, exactly as it names itself.
    pub(super) issuer: String,
    pub(super) token_endpoint: String,
    pub(super) client: Client,
    pub(super) access: Option<String>,
    pub(super) refresh: Option<String>,
    pub(super) expires_ms: Option<i64>,
    /// The requested permissions.
    pub(super) scope: Option<String>,
    /// Permissions that the server asks for in addition.
    pub(super) wanted: Option<String>,
    /// The address of the server's document about itself.
    pub(super) metadata: Option<String>,
    /// Logins for permissions that had been asked for before.
    pub(super) steps: u8,
}

/// Our registration at an issuer of tokens.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct Client {
    pub(super) id: String,
    pub(super) secret: Option<String>,
    /// `none`, `client_secret_basic`, or `client_secret_post`.
    pub(super) method: String,
    /// The address to which the browser comes back.
    pub(super) redirect: String,
    /// True if we made it, so that it can be made again.
    pub(super) is_dynamic: bool,
}

impl Record {
    pub(super) fn of(resource: &str) -> Self {
        Self { resource: resource.to_owned(), audience: resource.to_owned(), ..Self::default() }
    }

    /// Takes the tokens of a reply.
    pub(super) fn take(&mut self, reply: &Reply, now_ms: i64) {
        let text = |name: &str| reply.body.get(name).and_then(Value::as_str).map(str::to_owned);
        let is_bearer = text("token_type").is_none_or(|kind| kind.eq_ignore_ascii_case("bearer"));
        let Some(access) = text("access_token").filter(|token| is_bearer && super::is_sendable(token)) else { return };
        self.access = Some(access);
        // A reply without a new one leaves the old one valid.
        self.refresh = text("refresh_token").or(self.refresh.take());
        let seconds = reply.body.get("expires_in").and_then(Value::as_i64).filter(|it| *it > 0);
        self.expires_ms = seconds.and_then(|seconds| now_ms.checked_add(seconds.checked_mul(1000)?));
        self.scope = text("scope").or(self.scope.take());
    }

    /// Deletes the values that the issuer of tokens rejects.
    pub(super) fn refused(&mut self, reply: &Reply) {
        let error = reply.body.get("error").and_then(Value::as_str).unwrap_or_default();
        if matches!(error, "invalid_grant" | "invalid_client" | "unauthorized_client") {
            (self.access, self.refresh, self.expires_ms) = (None, None, None);
        }
        if matches!(error, "invalid_client" | "unauthorized_client") {
            self.client = Client::default();
        }
    }
}
