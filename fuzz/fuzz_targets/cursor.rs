//! The cursor and the query of a request: any text is two plain numbers or is refused, and so is a query.
#![no_main]

use libfuzzer_sys::fuzz_target;
use reedclaw::gateway::{cursor, query};

fuzz_target!(|text: &str| {
    if let Ok((epoch, position)) = cursor(text) {
        assert!(epoch >= 0 && position >= 0);
    }
    if let Ok(fields) = query(text, &["a", "limit"]) {
        assert!(fields.keys().all(|name| name == "a" || name == "limit"));
        assert!(fields.values().all(|value| !value.contains('\0')));
    }
});
