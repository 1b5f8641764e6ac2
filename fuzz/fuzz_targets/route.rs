//! The router over any text: it ends, says the same twice, loses nothing of the line, and an option behind a command
//! never makes it a sentence.
#![no_main]

use std::sync::{Arc, LazyLock};

use libfuzzer_sys::fuzz_target;
use reedclaw::proto::{Names, Route};
use reedclaw::route::{Context, correction, decide, evidence};

static NAMES: LazyLock<Names> = LazyLock::new(|| {
    let names = "ls cat git make rm cp mv find grep test who kill echo sudo time docker npm for while [ cd";
    Names { programs: Arc::new(names.split(' ').collect()), ..Names::default() }
});

fuzz_target!(|line: &str| {
    let context = Context::new(&NAMES);
    let verdict = decide(line, &context);
    assert_eq!(verdict, decide(line, &context));
    assert!(line.contains(verdict.text.trim()));
    assert!(!verdict.reason.is_empty() && verdict.score.is_finite());
    assert_eq!(verdict.route == Route::Empty, line.trim().is_empty());
    let _ = (evidence(line, &context), correction(line, &context));
    // Behind quotes, comments and the like it would be no option.
    let plain = line.bytes().all(|byte| byte.is_ascii_alphanumeric() || b" -./".contains(&byte));
    if plain && verdict.route == Route::Shell && line.split_whitespace().count() < 40 {
        assert_ne!(decide(&format!("{line} --verbose"), &context).route, Route::Ask);
    }
});
