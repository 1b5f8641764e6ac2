//! The route that the prompt shows while the user types a word, steadied so that it doesn't flicker with each letter.

use super::words;
use crate::proto::{Route, RouteVerdict};

/// A score beyond this is shown immediately.
const CLEAR: f32 = 3.0;
/// A word with fewer letters is too short to judge.
const WORD_MIN: usize = 3;

/// The destination that the prompt shows for `line`: the one shown for the line `before`, while the last word looks unfinished
/// and the verdict isn't clear; otherwise the verdict.
#[must_use]
pub fn steady(before: Option<(&str, Route)>, line: &str, verdict: &RouteVerdict) -> Route {
    let Some((earlier, shown)) = before else { return verdict.route };
    let grows = line.len() > earlier.len() && line.starts_with(earlier);
    let pair = matches!(
        (shown, verdict.route),
        (Route::Shell | Route::Ask | Route::Confirm, Route::Shell | Route::Ask | Route::Confirm)
    );
    let holds = grows && pair && verdict.score.abs() < CLEAR && is_unfinished(line);
    if holds { shown } else { verdict.route }
}

/// Returns whether the last word, unless it is the first, may get more letters: it is short, or the beginning of a known
/// subcommand.
fn is_unfinished(line: &str) -> bool {
    let Some((_, last)) = line.trim_start().rsplit_once(char::is_whitespace) else { return false };
    let letters = !last.is_empty() && last.bytes().all(|byte| byte.is_ascii_lowercase());
    letters && words::function(last) == 0 && (last.len() < WORD_MIN || words::begins_subcommand(last))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_that_is_being_typed_turns_nothing() {
        let verdict =
            |route, score| RouteVerdict { route, text: String::new(), rule: "", reason: String::new(), score };
        let ask = verdict(Route::Ask, -1.0);
        for (before, line, shown) in [
            (Some(("git", Route::Shell)), "git s", Route::Shell),
            (Some(("git st", Route::Shell)), "git sta", Route::Shell),
            (Some(("git", Route::Shell)), "git is", Route::Ask),
            (Some(("git zebra", Route::Shell)), "git zebras", Route::Ask),
            (Some(("git s", Route::Shell)), "git s ", Route::Ask),
            (Some(("git stx", Route::Shell)), "git st", Route::Ask),
            (Some(("gi", Route::Shell)), "git", Route::Ask),
            (Some((":x", Route::Meta)), ":x a", Route::Ask),
            (None, "git s", Route::Ask),
        ] {
            assert_eq!(steady(before, line, &ask), shown, "{line}");
        }
        assert_eq!(steady(Some(("git", Route::Shell)), "git s", &verdict(Route::Ask, -5.0)), Route::Ask);
    }
}
