//! Discovery of the issuer of tokens for a server, and of its endpoints.

use serde_json::Value;

use super::Challenge;
use super::web::{Dialled, Reply, checked, get, request};

/// An issuer of tokens.
#[derive(Clone, Debug, Default)]
pub(super) struct Giver {
    pub(super) issuer: String,
    pub(super) authorize: String,
    pub(super) token: String,
    pub(super) register: Option<String>,
    /// Names itself when the browser comes back (RFC 9207).
    pub(super) names_itself: bool,
    pub(super) takes_documents: bool,
    /// Ways in which a client may authenticate; empty if the issuer doesn't list any.
    pub(super) methods: Vec<String>,
    pub(super) offers_offline: bool,
    /// The server's address as its own document writes it.
    pub(super) audience: Option<String>,
    /// The permissions that the server names.
    pub(super) scopes: Option<String>,
}

/// Finds the issuer of tokens of a server.
///
/// # Errors
/// There is none, or the documents contradict each other.
pub(super) fn giver(dial: Dialled<'_>, server: &str, challenge: &Challenge) -> Result<Giver, String> {
    let resource = resource(dial, server, challenge)?;
    let (issuer, scopes) = match &resource {
        Some(document) => {
            let named = texts(document, "authorization_servers");
            let issuer = named.first().cloned().ok_or("the server doesn't say who gives tokens for it")?;
            let scopes = document
                .get("scopes_supported")
                .and_then(Value::as_array)
                .map(|_| texts(document, "scopes_supported").join(" "));
            (issuer, scopes.filter(|scopes| !scopes.is_empty()))
        }
        // Servers of 2025-03-26 issue tokens themselves.
        None => (origin(server)?, None),
    };
    for url in places(&issuer)? {
        let Ok(reply) = fetch(dial, &url, server) else { continue };
        if reply.status == 200 && reply.body.is_object() {
            let audience = resource.as_ref().and_then(|document| document.get("resource")?.as_str().map(str::to_owned));
            return Ok(Giver { audience, ..read(&reply.body, &issuer, scopes, resource.is_some())? });
        }
    }
    if resource.is_some() {
        return Err(format!("{issuer} doesn't say how tokens are given"));
    }
    let at = |path: &str| format!("{issuer}{path}");
    let (authorize, token, register) = (at("/authorize"), at("/token"), Some(at("/register")));
    Ok(Giver { issuer, authorize, token, register, ..Giver::default() })
}

/// The server's document about itself (RFC 9728), if it has one.
fn resource(dial: Dialled<'_>, server: &str, challenge: &Challenge) -> Result<Option<Value>, String> {
    let (base, path) = (origin(server)?, path(server));
    let well_known = "/.well-known/oauth-protected-resource";
    let mut places: Vec<String> = challenge.metadata.clone().into_iter().collect();
    if !path.is_empty() {
        places.push(format!("{base}{well_known}{path}"));
    }
    places.push(format!("{base}{well_known}"));
    let mut refused = None;
    for place in places {
        match fetch(dial, &place, server) {
            Ok(reply) if reply.status == 200 && reply.body.is_object() => {
                let named = reply.body.get("resource").and_then(Value::as_str).unwrap_or_default();
                if !covers(named, server) {
                    return Err(format!("its document is about another server ({named})"));
                }
                return Ok(Some(reply.body));
            }
            Ok(_) => {}
            Err(why) => {
                refused.get_or_insert(why);
            }
        }
    }
    // An address that may not be requested is no reason to look elsewhere.
    match (refused, &challenge.metadata) {
        (Some(why), Some(_)) => Err(why),
        _ => Ok(None),
    }
}

fn read(document: &Value, issuer: &str, scopes: Option<String>, is_named: bool) -> Result<Giver, String> {
    let text = |name: &str| document.get(name).and_then(Value::as_str).map(str::to_owned);
    let needed = |name: &str| text(name).ok_or_else(|| format!("{issuer} names no {name}"));
    let own = text("issuer").unwrap_or_default();
    if own != issuer && (is_named || !own.is_empty()) {
        return Err(format!("{issuer} calls itself {own}"));
    }
    if !texts(document, "code_challenge_methods_supported").iter().any(|method| method == "S256") {
        return Err(format!("{issuer} doesn't protect logins on this machine (PKCE with S256)"));
    }
    Ok(Giver {
        issuer: issuer.to_owned(),
        authorize: needed("authorization_endpoint")?,
        token: needed("token_endpoint")?,
        register: text("registration_endpoint"),
        names_itself: document.get("authorization_response_iss_parameter_supported") == Some(&Value::Bool(true)),
        takes_documents: document.get("client_id_metadata_document_supported") == Some(&Value::Bool(true)),
        methods: texts(document, "token_endpoint_auth_methods_supported"),
        offers_offline: texts(document, "scopes_supported").iter().any(|scope| scope == "offline_access"),
        scopes,
        audience: None,
    })
}

fn fetch(dial: Dialled<'_>, url: &str, server: &str) -> Result<Reply, String> {
    request(dial, get(url, server)?)
}

/// The addresses at which an issuer of tokens describes itself (RFC 8414, OpenID Connect Discovery), in order.
fn places(issuer: &str) -> Result<Vec<String>, String> {
    let (base, path) = (origin(issuer)?, path(issuer));
    let (oauth, openid) = ("/.well-known/oauth-authorization-server", "/.well-known/openid-configuration");
    let mut places = vec![format!("{base}{oauth}{path}"), format!("{base}{openid}{path}")];
    if !path.is_empty() {
        places.push(format!("{base}{path}{openid}"));
    }
    Ok(places)
}

/// Returns whether a document about `named` is about the server, too.
fn covers(named: &str, server: &str) -> bool {
    let (Ok(one), Ok(two)) = (origin(named), origin(server)) else { return false };
    let (part, whole) = (path(named), path(server));
    one == two && whole.strip_prefix(&part).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// The scheme, host and port of an address, in small letters.
pub(super) fn origin(url: &str) -> Result<String, String> {
    // The permission to request it is checked later; here it is only parsed.
    let uri = checked(url, url)?;
    let authority = uri.authority().map(|it| it.as_str().to_ascii_lowercase()).unwrap_or_default();
    let scheme = uri.scheme_str().unwrap_or_default();
    let usual = if scheme == "https" { ":443" } else { ":80" };
    Ok(format!("{scheme}://{}", authority.strip_suffix(usual).unwrap_or(&authority)))
}

/// The path of an address without a slash at its end.
fn path(url: &str) -> String {
    let uri = url.parse::<ureq::http::Uri>().ok();
    uri.map(|uri| uri.path().trim_end_matches('/').to_owned()).unwrap_or_default()
}

fn texts(document: &Value, name: &str) -> Vec<String> {
    let items = document.get(name).and_then(Value::as_array).into_iter().flatten();
    items.filter_map(|item| item.as_str().map(str::to_owned)).collect()
}
