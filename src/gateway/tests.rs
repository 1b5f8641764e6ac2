//! Input of strangers, as no client of ours would send it: it is read or refused, and nothing else happens.

use axum::http::{HeaderMap, HeaderName, HeaderValue};
use proptest::collection::vec;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::http::inputs::query;
use super::identity::{ids, is_id};
use super::stream::cursor;
use crate::base::canonical::canonical;
use crate::canvas::{State, fold};
use crate::proto::team::Mode;

const NAMES: [&str; 11] = [
    "x-mode",
    "x-tenant-id",
    "x-project-id",
    "x-request-id",
    "x-trace-id",
    "x-run-id",
    "x-step-id",
    "x-surface-id",
    "x-app-id",
    "x-user-id",
    "traceparent",
];

/// A value of JSON, not deep.
fn value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        ".{0,12}".prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 12, 4, |inner| {
        prop_oneof![
            vec(inner.clone(), 0..4).prop_map(Value::from),
            vec((".{0,6}", inner), 0..4).prop_map(|pairs| pairs.into_iter().collect()),
        ]
    })
}

/// An operation: often a real one, with fields that may be anything.
fn operation() -> impl Strategy<Value = Value> {
    let id = || prop_oneof![Just(json!("a")), Just(json!("b")), value()];
    let path = prop_oneof![Just(json!("/text")), Just(json!("/a/~0~1/b")), "/.{0,20}".prop_map(Value::from), value()];
    let op = prop_oneof![
        Just(json!("create")),
        Just(json!("set")),
        Just(json!("unset")),
        Just(json!("move")),
        Just(json!("delete")),
        value()
    ];
    (op, id(), id(), path, value()).prop_map(|(op, id, parent, path, value)| match op.as_str() {
        Some("create") => {
            json!({"op": op, "atom": {"id": id, "type": "note", "order": "m", "parent": parent, "props": value}})
        }
        Some("set") => json!({"op": op, "id": id, "path": path, "value": value}),
        Some("unset") => json!({"op": op, "id": id, "path": path}),
        Some("move") => json!({"op": op, "id": id, "parent": parent, "order": "z"}),
        Some("delete") => json!({"op": op, "id": id}),
        _ => json!({"op": op, "id": id, "more": value}),
    })
}

proptest! {
    #[test]
    fn scenario_43_any_headers_are_ids_or_are_refused(lines in vec((0..NAMES.len(), vec(any::<u8>(), 0..200)), 0..14)) {
        let mut headers = HeaderMap::new();
        for (name, bytes) in lines {
            if let Ok(value) = HeaderValue::from_bytes(&bytes) {
                headers.append(HeaderName::from_static(NAMES[name]), value);
            }
        }
        for mode in [Mode::Lab, Mode::Saas] {
            match ids(&headers, mode) {
                Ok(found) => {
                    let optional = [found.run_id, found.step_id, found.surface_id, found.app_id, found.user];
                    let all = [found.tenant, found.project, found.trace_id].into_iter().chain(optional.into_iter().flatten());
                    all.for_each(|id| assert!(is_id(&id), "{id:?}"));
                }
                Err(problem) => prop_assert!([400, 403].contains(&problem.status)),
            }
        }
    }

    #[test]
    fn scenario_43_any_text_is_a_cursor_and_a_query_or_is_refused(text in ".{0,60}", digits in "[0-9-]{0,44}") {
        for text in [&text, &digits] {
            match cursor(text) {
                Ok((epoch, position)) => prop_assert!(epoch >= 0 && position >= 0),
                Err(problem) => prop_assert_eq!(problem.code, "cursor_invalid"),
            }
            if let Err(problem) = query(text, &["a", "limit"]) {
                prop_assert_eq!(problem.status, 400);
            }
        }
    }

    #[test]
    fn scenario_43_any_command_folds_to_a_state_with_one_form_or_is_refused(commands in vec(vec(operation(), 0..5), 0..5)) {
        let mut state = State::default();
        for ops in commands {
            let Ok(next) = fold(&state, &ops) else { continue };
            prop_assert_eq!(next.rev, state.rev + 1);
            let again = fold(&state, &ops).expect("it was folded before");
            prop_assert_eq!(again.hash(), next.hash());
            let read = State::read(next.rev, &next.atoms_value()).expect("what was written");
            prop_assert_eq!(read.hash(), next.hash());
            prop_assert_eq!(next.atoms_text(), canonical(&next.atoms_value(), 64).expect("a text"));
            state = next;
        }
    }
}
