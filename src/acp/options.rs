//! The choices that a person has in an editor: the model, how hard it thinks, and the mode, which is the autonomy and never above
//! the config's.

use serde_json::{Value, json};

use crate::agent::ModelInfo;
use crate::proto::action::Autonomy;
use crate::render::text::escape_visible;

/// The id of the option for the mode.
pub(super) const MODE: &str = "mode";
/// The id of the option for the model.
pub(super) const MODEL: &str = "model";

/// The id of the option for a model's thinking effort.
pub(super) const THINKING: &str = "thinking";
/// The effort of the config.
pub(super) const CONFIGURED: &str = "configured";

const EFFORTS: [(&str, &str); 5] =
    [(CONFIGURED, "As configured"), ("off", "Off"), ("low", "Low"), ("medium", "Medium"), ("high", "High")];

/// The effort with this name, if it may be chosen.
pub(super) fn effort(word: &str) -> Option<&'static str> {
    EFFORTS.iter().map(|(known, _)| *known).find(|known| *known == word)
}

const MODES: [(Autonomy, &str, &str); 3] = [
    (Autonomy::Readonly, "Read only", "The model looks and changes nothing."),
    (Autonomy::Supervised, "Supervised", "The model looks; you are asked before it changes something."),
    (Autonomy::Full, "Full", "The model works in the workspace; you are asked before it reaches farther."),
];

/// The modes up to the autonomy of the config.
fn modes(most: Autonomy) -> impl Iterator<Item = &'static (Autonomy, &'static str, &'static str)> {
    MODES.iter().filter(move |(autonomy, ..)| *autonomy <= most)
}

/// The autonomy of a mode, if it may be chosen.
pub(super) fn mode(id: &str, most: Autonomy) -> Option<Autonomy> {
    Autonomy::of(id).filter(|autonomy| *autonomy <= most)
}

/// The modes, and the current one.
pub(super) fn mode_state(current: Autonomy, most: Autonomy) -> Value {
    let row = |(autonomy, name, description): &(Autonomy, &str, &str)| json!({"id": autonomy.word(), "name": name, "description": description});
    json!({"currentModeId": current.word(), "availableModes": modes(most).map(row).collect::<Vec<_>>()})
}

/// All options with their values.
pub(super) fn options(current: Autonomy, most: Autonomy, models: &[ModelInfo], thinking: &str) -> Vec<Value> {
    let row = |(autonomy, name, description): &(Autonomy, &str, &str)| json!({"value": autonomy.word(), "name": name, "description": description});
    let mut options = vec![json!({
        "id": MODE, "name": "Mode", "description": "How much the model does without asking", "category": "mode",
        "type": "select", "currentValue": current.word(), "options": modes(most).map(row).collect::<Vec<_>>(),
    })];
    let chosen = models.iter().find(|model| model.is_current);
    if let Some(chosen) = chosen {
        let row = |model: &ModelInfo| {
            let place = escape_visible(&format!("{} at {}", model.model, model.endpoint));
            json!({"value": model.name, "name": escape_visible(&model.name), "description": place})
        };
        options.push(json!({
            "id": MODEL, "name": "Model", "category": "model", "type": "select", "currentValue": chosen.name,
            "options": models.iter().map(row).collect::<Vec<_>>(),
        }));
        let row = |(word, name): &(&str, &str)| json!({"value": word, "name": name});
        options.push(json!({
            "id": THINKING, "name": "Thinking", "description": "How hard the model thinks before it answers, if it can",
            "category": "thought_level", "type": "select", "currentValue": thinking,
            "options": EFFORTS.iter().map(row).collect::<Vec<_>>(),
        }));
    }
    options
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_mode_goes_beyond_the_config() {
        let ids = |most| -> Vec<String> {
            let state = mode_state(Autonomy::Readonly, most);
            let all = state["availableModes"].as_array().expect("modes").iter();
            all.map(|mode| mode["id"].as_str().expect("an id").to_owned()).collect()
        };
        assert_eq!(ids(Autonomy::Readonly), ["readonly"]);
        assert_eq!(ids(Autonomy::Supervised), ["readonly", "supervised"]);
        assert_eq!(ids(Autonomy::Full), ["readonly", "supervised", "full"]);
        assert_eq!(mode("full", Autonomy::Supervised), None);
        assert_eq!(mode("readonly", Autonomy::Supervised), Some(Autonomy::Readonly));
        assert_eq!(mode("yolo", Autonomy::Full), None);
    }
}
