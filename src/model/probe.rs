//! Asks a server which models it has. Small, bounded, for `provider` and `onboard`.

use std::io::Read;

use serde_json::Value;

use super::cancel::Cancel;
use super::endpoint::{Ask, Endpoint};
use super::error::{Fault, ModelError, one_line};
use super::exchange::worker;

/// Bytes of a list that are read: some thousand models.
const LIST_BYTES_MAX: u64 = 4 * 1024 * 1024;
/// Limit for the names that a probe remembers.
const NAMES_MAX: usize = 2000;

/// Returns the names of a server's models, in its order.
pub fn list_models(endpoint: &Endpoint) -> Result<Vec<String>, Box<ModelError>> {
    names(endpoint).map_err(|fault| Box::new(ModelError::of(endpoint, worker::redact(endpoint, fault))))
}

fn names(endpoint: &Endpoint) -> Result<Vec<String>, Fault> {
    let mut endpoint = endpoint.clone();
    if let (None, Some(reader)) = (&endpoint.key, &endpoint.key_reader) {
        endpoint.key = Some(reader.read(&Cancel::new()).map_err(Fault::Key)?);
    }
    let endpoint = &endpoint;
    let address = endpoint.address(Ask::Models)?;
    let agent = worker::agent(endpoint, &address)?;
    let mut request = agent.get(&address.url);
    for (name, value) in endpoint.protocol.headers(endpoint.key.as_ref()) {
        request = request.header(name, value);
    }
    let response = request.call().map_err(|error| worker::before_answer(error, endpoint))?;
    if !response.status().is_success() {
        return Err(worker::refusal(response, endpoint));
    }
    let mut body = Vec::new();
    let read = response.into_body().into_reader().take(LIST_BYTES_MAX).read_to_end(&mut body);
    read.map_err(|_| Fault::Cut)?;
    let garbage = || Fault::Garbage { sample: one_line(&String::from_utf8_lossy(&body[..body.len().min(240)])) };
    let list: Value = serde_json::from_slice(&body).map_err(|_| garbage())?;
    let models = list.get("data").or_else(|| list.get("models")).and_then(Value::as_array).ok_or_else(garbage)?;
    let name = |model: &Value| {
        let name = ["id", "name", "model"].into_iter().find_map(|key| model.get(key)?.as_str())?;
        Some(one_line(name.strip_prefix("models/").unwrap_or(name)))
    };
    Ok(models.iter().filter_map(name).take(NAMES_MAX).collect())
}
