//! Commands on a canvas: any operations give one next state with one canonical form, or are refused.
#![no_main]

use libfuzzer_sys::fuzz_target;
use reedclaw::canvas::{State, fold, fold_in};
use serde_json::Value;

fuzz_target!(|text: &str| {
    let Ok(Value::Array(commands)) = serde_json::from_str(text) else { return };
    let mut state = State::default();
    for ops in commands.iter().filter_map(Value::as_array) {
        let Ok(next) = fold(&state, ops) else { continue };
        let mut again = state.clone();
        fold_in(&mut again, ops).expect("it was folded before");
        assert_eq!((again.rev, again.hash()), (state.rev + 1, next.hash()));
        let read = State::read(next.rev, &next.atoms_value()).expect("what was written");
        assert_eq!((read.hash(), read.atoms_text()), (next.hash(), next.atoms_text()));
        state = next;
    }
});
