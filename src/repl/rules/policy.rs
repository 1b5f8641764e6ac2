//! `:policy`: what a model may do and where each rule comes from, and what a command of it would be judged.

use crate::ops::policy::{explain, rules_in, sandbox, verdict_lines};
use crate::proto::Failure;
use crate::render::sanitise;
use crate::repl::hub::Repl;
use crate::repl::rules::tooling;

/// `:policy`, `:policy explain CMD`.
pub(in crate::repl) fn policy(repl: &Repl, argument: &str) {
    let (word, command) = argument.split_once(char::is_whitespace).unwrap_or((argument, ""));
    match (word, command.trim()) {
        ("", _) => show_policy(repl),
        ("explain", command) if !command.is_empty() => {
            let rules = rules_in(&repl.runtime, &tooling::workspace(repl));
            let (_, hold) = sandbox(&repl.runtime);
            for line in verdict_lines(&explain(&rules, hold, command)) {
                repl.console.outside(&format!("{line}\n"));
            }
            repl.console.notice("a model's command would be judged like this; what you type runs as you typed it");
        }
        _ => repl.console.failure(
            &Failure::user(match word {
                "explain" => ":policy explain needs a command".into(),
                _ => format!(":policy doesn't know {}", sanitise(argument)),
            })
            .hint(":policy, or :policy explain CMD"),
        ),
    }
}

fn show_policy(repl: &Repl) {
    let rows = repl.configured.effective.rows();
    let rows = rows.iter().filter(|row| row.key.starts_with("security.") || row.key == "workspace_dir");
    let text: String =
        rows.map(|row| format!("{}\n", sanitise(&format!("{} = {}  -- {}", row.key, row.value, row.origin)))).collect();
    repl.console.write(&text);
    let rules = rules_in(&repl.runtime, &tooling::workspace(repl));
    let own: Vec<String> = rules.own_paths.iter().map(|path| sanitise(path).into_owned()).collect();
    repl.console.paragraph(&format!("never touched by a model: {}", own.join(", ")));
    repl.console.paragraph(&format!("tools work here in: {}", sanitise(&rules.workspace)));
    repl.console.paragraph(&format!("sandbox of its commands: {}", sandbox(&repl.runtime).0));
    repl.console.notice(":policy explain CMD shows how a command would be judged, without running it");
}
