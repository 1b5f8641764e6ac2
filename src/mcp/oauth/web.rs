//! Single requests to the addresses that a server names: bounded, without redirects, JSON only.

use std::io::Read;

use serde_json::Value;
use ureq::Agent;
use ureq::http::{Request, Uri, header};

use super::is_this_machine;
use super::record::Client;
use crate::base::{base64, percent};

/// Bytes of an answer.
const BODY_BYTES_MAX: usize = 256 << 10;

/// An answer: its status and its JSON, null if it has none.
#[derive(Clone, Debug)]
pub(super) struct Reply {
    pub(super) status: u16,
    pub(super) body: Value,
}

pub(super) type Order = Request<Vec<u8>>;

/// Makes the client for an address.
pub(super) type Dialled<'d> = &'d dyn Fn(&Uri) -> Result<Agent, String>;

/// A request for a document.
///
/// # Errors
/// The address may not be requested.
pub(super) fn get(url: &str, server: &str) -> Result<Order, String> {
    build(checked(url, server)?, "GET", "", None, Vec::new())
}

/// A request that sends JSON.
///
/// # Errors
/// The address may not be requested.
pub(super) fn json(url: &str, body: &Value, server: &str) -> Result<Order, String> {
    build(checked(url, server)?, "POST", "application/json", None, body.to_string().into_bytes())
}

/// A request for a token, signed as the client is registered.
///
/// # Errors
/// The address may not be requested.
pub(super) fn form(url: &str, fields: &[(&str, &str)], client: &Client, server: &str) -> Result<Order, String> {
    let mut fields = fields.to_vec();
    let secret = client.secret.as_deref().unwrap_or_default();
    let basic = (client.method == "client_secret_basic").then(|| {
        let login = format!("{}:{}", percent::encode(&client.id, ""), percent::encode(secret, ""));
        format!("Basic {}", base64::encode(login.as_bytes()))
    });
    if basic.is_none() {
        fields.push(("client_id", &client.id));
    }
    if client.method == "client_secret_post" {
        fields.push(("client_secret", secret));
    }
    let body = query(&fields);
    build(checked(url, server)?, "POST", "application/x-www-form-urlencoded", basic, body.into_bytes())
}

fn build(uri: Uri, method: &str, kind: &str, signed: Option<String>, body: Vec<u8>) -> Result<Order, String> {
    let mut order = Request::builder().method(method).uri(uri).header(header::ACCEPT, "application/json");
    if !kind.is_empty() {
        order = order.header(header::CONTENT_TYPE, kind);
    }
    if let Some(signed) = signed {
        order = order.header(header::AUTHORIZATION, signed);
    }
    order.body(body).map_err(|error| error.to_string())
}

/// An address that a server named: encrypted, unless the server itself is on this machine, and without a name in it.
///
/// # Errors
/// The reason why it may not be requested.
pub(super) fn checked(url: &str, server: &str) -> Result<Uri, String> {
    let uri: Uri = url.parse().map_err(|_| format!("{url} is no address"))?;
    let is_open = uri.scheme_str() == Some("http") && is_this_machine(server) && is_this_machine(url);
    if uri.scheme_str() != Some("https") && !is_open {
        return Err(format!("{url} isn't encrypted (https)"));
    }
    if uri.authority().is_none_or(|authority| authority.as_str().contains('@')) {
        return Err(format!("{url} names no host, or a user"));
    }
    Ok(uri)
}

/// Sends a request.
///
/// # Errors
/// No answer, a redirect, or one that is too long.
pub(super) fn request(dial: Dialled<'_>, order: Order) -> Result<Reply, String> {
    let url = order.uri().to_string();
    let agent = dial(order.uri())?;
    let response = match order.method().as_str() {
        "GET" => agent.run(order.map(|_| ())),
        _ => agent.run(order),
    };
    let response = response.map_err(|error| format!("{url}: {error}"))?;
    let status = response.status();
    if status.is_redirection() {
        return Err(format!("{url} sends elsewhere, which isn't followed"));
    }
    let mut bytes = Vec::new();
    let reader = response.into_body().into_with_config().limit(u64::MAX).reader();
    let most = BODY_BYTES_MAX as u64 + 1;
    reader.take(most).read_to_end(&mut bytes).map_err(|error| format!("{url}: {error}"))?;
    if bytes.len() > BODY_BYTES_MAX {
        return Err(format!("{url} answers with more than {} KiB", BODY_BYTES_MAX >> 10));
    }
    Ok(Reply { status: status.as_u16(), body: serde_json::from_slice(&bytes).unwrap_or_default() })
}

/// Fields of a form or an address.
pub(super) fn query(fields: &[(&str, &str)]) -> String {
    let pair = |(name, value): &(&str, &str)| format!("{}={}", percent::encode(name, ""), percent::encode(value, ""));
    fields.iter().map(pair).collect::<Vec<_>>().join("&")
}
