//! Cards of tools, procedures, instructions, tasks, providers and models, which only the config and the
//! program change. Each has its source, its type and a hash that changes with it.

use std::collections::{BTreeMap, BTreeSet};

use axum::http::Uri;
use serde_json::{Value, json};

use crate::app::{self, Skills};
use crate::base::canonical::canonical;
use crate::base::hash;
use crate::config::ModelSettings;
use crate::gateway::http::call::{Call, Content, Reply};
use crate::gateway::http::problem::{Answered, Problem};
use crate::ledger::DEPTH_MAX;
use crate::proto::Task;

/// The source of cards that are built in.
const REGISTRY: &str = "registry";
/// Comes from this installation: its config, plugins or skills.
const WORKSPACE: &str = "workspace";

/// A card.
struct Card {
    id: String,
    source: &'static str,
    card: Value,
}

fn hashed(value: &Value) -> Answered<String> {
    let text = canonical(value, DEPTH_MAX).map_err(|error| Problem::new(500, "internal", error.to_string()))?;
    Ok(hash::sha256_hex(text.as_bytes()))
}

fn item(kind: &str, card: Card) -> Answered<Value> {
    let version_hash = hashed(&card.card)?;
    Ok(json!({"id": card.id, "type": kind, "source": card.source, "version_hash": version_hash, "card": card.card}))
}

/// The answer with its hash as `ETag`; 304 if the client has it.
fn answer(call: &Call<'_>, value: Value, version_hash: &str) -> Reply {
    let tag = format!("\"{version_hash}\"");
    let reply = match call.has_version(&tag) {
        true => Reply { status: 304, headers: Vec::new(), content: Content::Empty },
        false => Reply::ok(value),
    };
    reply.header("ETag", tag)
}

fn list(call: &Call<'_>, kind: &str, cards: Vec<Card>) -> Answered<Reply> {
    let items = cards.into_iter().map(|card| item(kind, card)).collect::<Answered<Vec<Value>>>()?;
    let version_hash = hashed(&items.iter().map(|item| item["version_hash"].clone()).collect())?;
    let value = json!({"items": items, "next": null, "version_hash": version_hash});
    Ok(answer(call, value, &version_hash))
}

fn one(call: &Call<'_>, kind: &str, cards: Vec<Card>) -> Answered<Reply> {
    let found = cards.into_iter().find(|card| card.id == call.param("id")).ok_or_else(Problem::not_found)?;
    let item = item(kind, found)?;
    let version_hash = item["version_hash"].as_str().unwrap_or_default().to_owned();
    Ok(answer(call, item, &version_hash))
}

fn tools(call: &Call<'_>) -> Vec<Card> {
    let parts = &call.gateway.parts;
    let registry = super::local::registry(parts);
    let own = app::own_tools();
    let card = |spec: &crate::tools::Spec| Card {
        id: spec.name.clone(),
        source: if own.contains(&spec.name) { REGISTRY } else { WORKSPACE },
        card: super::local::tool_card(parts, spec),
    };
    registry.specs().map(card).collect()
}

/// `GET /registry/nodes`: the tools, those of plugins too.
pub fn nodes(call: &Call<'_>) -> Answered<Reply> {
    list(call, "node", tools(call))
}

/// `GET /registry/nodes/{id}`.
pub fn node(call: &Call<'_>) -> Answered<Reply> {
    one(call, "node", tools(call))
}

fn procedures(call: &Call<'_>) -> Answered<Vec<Card>> {
    let workspace = call.gateway.homes.workspace(call.who()?)?;
    let skills = Skills::around(&call.gateway.parts.env, &workspace);
    let cards = skills.usable().map(|text| {
        let card = json!({"name": text.name, "description": text.description,
            "body_sha256": hash::sha256_hex(text.body.as_bytes())});
        Card { id: text.name.clone(), source: WORKSPACE, card }
    });
    Ok(cards.collect())
}

/// `GET /registry/flows`: the procedures that agents follow, which are the user's skills and those of a trusted project.
pub fn flows(call: &Call<'_>) -> Answered<Reply> {
    list(call, "flow", procedures(call)?)
}

/// `GET /registry/flows/{id}`.
pub fn flow(call: &Call<'_>) -> Answered<Reply> {
    one(call, "flow", procedures(call)?)
}

/// `GET /registry/personas`: instructions that open a conversation: the personas of the config, and the system prompts of models.
pub fn personas(call: &Call<'_>) -> Answered<Reply> {
    let settings = &call.gateway.parts.settings;
    let mut all = BTreeMap::from([("default".to_owned(), &settings.system_prompt)]);
    all.extend(settings.models.iter().map(|(name, model)| (name.clone(), &model.system_prompt)));
    all.retain(|name, text| name == "default" || !text.is_empty());
    // If a persona and a model have the same name, a question uses the persona.
    all.extend(settings.gateway.personas.iter().map(|(name, text)| (name.clone(), text)));
    let card = |(id, text): (String, &String)| {
        let card =
            json!({"name": id, "text_sha256": hash::sha256_hex(text.as_bytes()), "characters": text.chars().count()});
        Card { id, source: WORKSPACE, card }
    };
    list(call, "persona", all.into_iter().map(card).collect())
}

/// `GET /registry/tasks`: the kinds of questions that routers distinguish, and the models for each.
pub fn tasks(call: &Call<'_>) -> Answered<Reply> {
    let models = &call.gateway.parts.settings.models;
    let card = |word: &str| {
        let by_router: BTreeMap<&String, &String> =
            models.iter().filter_map(|(name, model)| Some((name, model.rules.get(word)?))).collect();
        Card { id: word.to_owned(), source: REGISTRY, card: json!({"name": word, "models": by_router}) }
    };
    let words = Task::ALL.map(Task::word).into_iter().chain(Task::OTHER_RULES);
    list(call, "task", words.map(card).collect())
}

/// `GET /registry/providers`: the protocols in use, and where their servers are: on this machine, or elsewhere.
pub fn providers(call: &Call<'_>) -> Answered<Reply> {
    let mut all: BTreeMap<&str, (BTreeSet<&str>, u64)> = BTreeMap::new();
    for model in call.gateway.parts.settings.models.values() {
        let (places, count) = all.entry(&model.kind).or_default();
        places.insert(place(&model.endpoint));
        *count += 1;
    }
    let card = |(kind, (places, count)): (&str, (BTreeSet<&str>, u64))| Card {
        id: kind.to_owned(),
        source: REGISTRY,
        card: json!({"kind": kind, "addresses": places, "models": count}),
    };
    list(call, "provider", all.into_iter().map(card).collect())
}

/// Returns the kind of place of a model's server. The address itself isn't shown, since it may contain a password.
fn place(endpoint: &str) -> &'static str {
    if endpoint.is_empty() {
        return "none";
    }
    let address: Option<Uri> = endpoint.parse().ok();
    let host = address.as_ref().and_then(Uri::host).unwrap_or_default();
    let host = host.trim_start_matches('[').trim_end_matches(']');
    let is_here = host.eq_ignore_ascii_case("localhost")
        || host.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback());
    if is_here { "this machine" } else { "elsewhere" }
}

/// `GET /registry/models`: the models of the config, without keys and addresses.
pub fn models(call: &Call<'_>) -> Answered<Reply> {
    let settings = &call.gateway.parts.settings;
    let card = |(name, model): (&String, &ModelSettings)| Card {
        id: name.clone(),
        source: WORKSPACE,
        card: json!({
            "name": name, "kind": model.kind, "model": model.model, "aliases": model.aliases, "address": place(&model.endpoint),
            "context_tokens": model.context_tokens, "max_output_tokens": model.max_output_tokens, "images": model.images,
            "of": model.of, "rules": model.rules, "default": settings.default_model.as_ref() == Some(name),
        }),
    };
    list(call, "model", settings.models.iter().map(card).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_place_of_a_server_is_known_without_its_address() {
        let of = place;
        assert_eq!(of(""), "none");
        for here in ["http://127.0.0.1:8080/v1", "localhost:11434", "http://u:p@[::1]:80/", "https://LOCALHOST"] {
            assert_eq!(of(here), "this machine", "{here}");
        }
        for there in
            ["https://api.example/v1", "http://127.0.0.1@evil.example/", "http://10.0.0.1", "http://[2001:db8::1]/"]
        {
            assert_eq!(of(there), "elsewhere", "{there}");
        }
    }
}
