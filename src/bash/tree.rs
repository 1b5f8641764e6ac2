//! Questions about a script's tree: whether a loop ends, whether jobs pile up.

use super::syntax::{Item, Kind, Part, Script};
use super::word::unquoted;

/// Returns whether a script starts jobs in the background.
pub(crate) fn starts_jobs(script: &Script) -> bool {
    script.items.iter().any(|item| {
        item.background
            || item.first.commands.iter().any(|command| match &command.kind {
                Kind::Group(inner) | Kind::Subshell(inner) => starts_jobs(inner),
                Kind::Coprocess(_) => true,
                _ => false,
            })
    })
}

/// Returns whether a loop's test is always true.
pub(crate) fn never_ends(test: &Script) -> bool {
    let [item] = test.items.as_slice() else { return false };
    let [command] = item.first.commands.as_slice() else { return false };
    match &command.kind {
        Kind::Simple { words, .. } => match words.iter().map(unquoted).collect::<Vec<_>>().as_slice() {
            [name] => matches!(name.as_str(), "true" | ":" | "/bin/true"),
            [name, one] => matches!((name.as_str(), one.as_str()), ("[", _) | ("test", "1")),
            [open, one, _] if open == "[" => matches!(one.as_str(), "1" | "true"),
            _ => false,
        },
        Kind::Arithmetic(word) => matches!(unquoted(word).trim(), "1" | "true"),
        Kind::Test(words) => matches!(words.as_slice(), [one] if matches!(one.parts.as_slice(), [Part::Plain(_)])),
        _ => false,
    }
}

/// Returns whether a script waits somewhere between its jobs.
pub(crate) fn waits(script: &Script) -> bool {
    let stops = ["sleep", "wait", "read", "break", "exit", "return", "inotifywait"];
    let is_stop = |item: &Item| {
        let pipelines = [&item.first].into_iter().chain(item.rest.iter().map(|(_, pipeline)| pipeline));
        pipelines.flat_map(|pipeline| &pipeline.commands).any(|command| match &command.kind {
            Kind::Simple { words, .. } => words.first().is_some_and(|word| stops.contains(&unquoted(word).as_str())),
            _ => false,
        })
    };
    script.items.iter().any(|item| !item.background && is_stop(item))
}
