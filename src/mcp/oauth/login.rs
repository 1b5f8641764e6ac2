//! One login: from the server's challenge to a token.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::rand::{SecureRandom, SystemRandom};
use serde_json::{Value, json};

use super::discover::{Giver, giver};
use super::listen::{Listener, fields};
use super::record::{Client, Record, STEPS_MAX};
use super::web::{Dialled, checked, form, json as json_order, query, request};
use super::{Browser, Challenge, SCOPE_BYTES_MAX, Tokens, Visit};
use crate::host::now_unix_ms;

/// Logs in at the issuer of tokens of a server. `challenge` is the server's current challenge.
///
/// # Errors
/// The reason, in words.
pub(in crate::mcp) fn login(
    tokens: &Tokens,
    challenge: &Challenge,
    browser: &mut dyn Browser,
    stop: &(dyn Fn() -> bool + Sync),
) -> Result<(), String> {
    let inner = &tokens.0;
    let dial = inner.client();
    let giver = giver(&dial, &inner.url, challenge)?;
    let go_on = || if stop() { Err("the login was stopped".to_owned()) } else { Ok(()) };
    let mut record = tokens.read().unwrap_or_else(|| Record::of(&inner.url));
    if record.issuer != giver.issuer {
        // A registration and tokens are of no use, and must not be known, anywhere else.
        record = Record { issuer: giver.issuer.clone(), wanted: record.wanted, ..Record::of(&inner.url) };
    }
    record.token_endpoint.clone_from(&giver.token);
    record.audience = giver.audience.clone().unwrap_or_else(|| inner.url.clone());
    let scope = scope(tokens, &mut record, &giver, challenge)?;
    let last_port = record.client.redirect.rsplit(':').next().and_then(|rest| rest.split('/').next());
    let port = if inner.settings.port > 0 {
        inner.settings.port
    } else {
        last_port.and_then(|it| it.parse().ok()).unwrap_or(0)
    };
    let listener = Listener::on(port).map_err(|error| format!("no port of this machine is free: {error}"))?;
    let mut is_again = false;
    loop {
        go_on()?;
        record.client = client(tokens, &dial, &giver, &record, &listener)?;
        let code = code(&giver, &record, scope.as_deref(), &listener, browser, stop)?;
        let fields = [
            ("grant_type", "authorization_code"),
            ("code", code.code.as_str()),
            ("redirect_uri", record.client.redirect.as_str()),
            ("code_verifier", code.verifier.as_str()),
            ("resource", record.audience.as_str()),
        ];
        go_on()?;
        let reply = request(&dial, form(&giver.token, &fields, &tokens.signing(&record.client)?, &inner.url)?)?;
        let error = reply.body.get("error").and_then(Value::as_str).unwrap_or_default().to_owned();
        if reply.status != 200 {
            if error == "invalid_client" && record.client.is_dynamic && !is_again {
                is_again = true;
                record.client = Client::default();
                continue;
            }
            return Err(format!("{} gave no token (HTTP status {}, {error})", giver.issuer, reply.status));
        }
        (record.access, record.refresh, record.scope) = (None, None, scope.clone());
        record.take(&reply, now_unix_ms());
        if record.access.is_none() {
            return Err(format!("{} gave no token that can be used", giver.issuer));
        }
        (record.wanted, record.metadata) = (None, None);
        let written = tokens.changed(|old| *old = record.clone());
        return written.ok_or_else(|| "the token can't be written to the state directory".to_owned());
    }
}

/// The permissions to ask for.
fn scope(tokens: &Tokens, record: &mut Record, giver: &Giver, challenge: &Challenge) -> Result<Option<String>, String> {
    let settings = &tokens.0.settings;
    let wanted = record.wanted.clone().or_else(|| challenge.wants_scope().then(|| challenge.scope.clone()).flatten());
    let mut scopes: Vec<String> = Vec::new();
    let add = |scopes: &mut Vec<String>, text: &str| {
        for word in text.split_whitespace() {
            if !scopes.iter().any(|known| known == word) {
                scopes.push(word.to_owned());
            }
        }
    };
    if let Some(wanted) = wanted {
        let before = record.scope.clone().unwrap_or_default();
        let is_new = wanted.split_whitespace().any(|word| !before.split_whitespace().any(|known| known == word));
        record.steps = if is_new { 1 } else { record.steps + 1 };
        if record.steps > STEPS_MAX {
            return Err(format!("it asks again for permissions that you have given ({wanted}); nothing was tried"));
        }
        add(&mut scopes, &before);
        add(&mut scopes, &wanted);
    } else if settings.scopes.is_empty() {
        add(&mut scopes, challenge.scope.as_deref().or(giver.scopes.as_deref()).unwrap_or_default());
    } else {
        settings.scopes.iter().for_each(|scope| add(&mut scopes, scope));
    }
    if giver.offers_offline && !scopes.is_empty() {
        add(&mut scopes, "offline_access");
    }
    let text = scopes.join(" ");
    if text.len() > SCOPE_BYTES_MAX {
        return Err("it asks for too many permissions".into());
    }
    Ok((!text.is_empty()).then_some(text))
}

/// Our registration: the user's own, the existing one, a document's, or a new one.
fn client(
    tokens: &Tokens,
    dial: Dialled<'_>,
    giver: &Giver,
    record: &Record,
    listener: &Listener,
) -> Result<Client, String> {
    let (settings, redirect) = (&tokens.0.settings, listener.address.clone());
    let offers = |method: &str| giver.methods.iter().any(|it| it == method);
    if let Some(id) = &settings.client_id {
        let method = match ((tokens.0.secret)()?, offers("client_secret_post") && !offers("client_secret_basic")) {
            (None, _) => "none",
            (Some(_), true) => "client_secret_post",
            (Some(_), false) => "client_secret_basic",
        };
        return Ok(Client { id: id.clone(), secret: None, method: method.into(), redirect, is_dynamic: false });
    }
    if let (Some(id), true) = (&settings.client_id_url, giver.takes_documents) {
        return Ok(Client { id: id.clone(), secret: None, method: "none".into(), redirect, is_dynamic: false });
    }
    if record.client.is_dynamic && record.client.redirect == redirect {
        return Ok(record.client.clone());
    }
    let Some(place) = &giver.register else {
        return Err(format!(
            "{} doesn't register clients automatically; set the server's oauth.client_id",
            giver.issuer
        ));
    };
    let method = match giver.methods.is_empty() || offers("none") {
        true => "none",
        false if offers("client_secret_basic") => "client_secret_basic",
        false => "client_secret_post",
    };
    let body = json!({
        "client_name": "ReedClaw",
        "redirect_uris": [redirect],
        "grant_types": ["authorization_code", "refresh_token"],
        "response_types": ["code"],
        "token_endpoint_auth_method": method,
        "application_type": "native",
    });
    let reply = request(dial, json_order(place, &body, &tokens.0.url)?)?;
    let text = |name: &str| reply.body.get(name).and_then(Value::as_str).map(str::to_owned);
    match (reply.status, text("client_id")) {
        (200 | 201, Some(id)) => {
            let secret = text("client_secret");
            let method = text("token_endpoint_auth_method").unwrap_or_else(|| method.to_owned());
            let method = if secret.is_none() { "none".to_owned() } else { method };
            Ok(Client { id, secret, method, redirect, is_dynamic: true })
        }
        (status, _) => Err(format!("{} doesn't register this program (HTTP status {status})", giver.issuer)),
    }
}

struct Code {
    code: String,
    verifier: String,
}

/// Sends the person's browser to the issuer of tokens, and returns the code with which it comes back.
fn code(
    giver: &Giver,
    record: &Record,
    scope: Option<&str>,
    listener: &Listener,
    browser: &mut dyn Browser,
    stop: &(dyn Fn() -> bool + Sync),
) -> Result<Code, String> {
    let (verifier, state) = (random()?, random()?);
    let digest = crate::base::hash::sha256(verifier.as_bytes());
    let challenge = URL_SAFE_NO_PAD.encode(digest);
    let mut parts = vec![
        ("response_type", "code"),
        ("client_id", &record.client.id),
        ("redirect_uri", &record.client.redirect),
        ("code_challenge", &challenge),
        ("code_challenge_method", "S256"),
        ("state", &state),
        ("resource", &record.audience),
    ];
    if let Some(scope) = scope {
        parts.push(("scope", scope));
        if scope.split(' ').any(|word| word == "offline_access") {
            parts.push(("prompt", "consent"));
        }
    }
    checked(&giver.authorize, &record.resource)?;
    let joint = if giver.authorize.contains('?') { '&' } else { '?' };
    let address = format!("{}{joint}{}", giver.authorize.split('#').next().unwrap_or_default(), query(&parts));
    let found = match browser.visit(&address) {
        Visit::Opened => listener.wait(stop)?,
        Visit::Pasted(text) => fields(text.trim()).ok_or("that isn't the address to which the browser came back")?,
        Visit::Declined => return Err("the login was declined".into()),
    };
    let get = |name: &str| found.iter().find(|(it, _)| it == name).map(|(_, value)| value.as_str());
    if get("state") != Some(&state) {
        return Err("an answer came that belongs to another login; nothing was taken from it".into());
    }
    match get("iss") {
        Some(own) if own != giver.issuer => {
            return Err(format!("the answer comes from {own}, and not from {}", giver.issuer));
        }
        None if giver.names_itself => {
            return Err(format!("the answer doesn't say that it comes from {}", giver.issuer));
        }
        _ => {}
    }
    if let Some(error) = get("error") {
        let more = get("error_description").map(|text| format!(": {text}")).unwrap_or_default();
        return Err(format!("{} refused ({error}{more})", giver.issuer));
    }
    let code = get("code").filter(|code| !code.is_empty()).ok_or("the answer holds no code")?;
    Ok(Code { code: code.to_owned(), verifier })
}

/// 32 random bytes as text.
fn random() -> Result<String, String> {
    let mut bytes = [0; 32];
    SystemRandom::new().fill(&mut bytes).map_err(|_| "this machine gives no random numbers".to_owned())?;
    Ok(URL_SAFE_NO_PAD.encode(bytes))
}
