//! The question whether a procedure is trusted: its files as they are, or how they have changed, and a person's yes.

use crate::app::{self, Procedure, Runtime, Shown};
use crate::cli::answers::agent::say;
use crate::cli::exit;
use crate::cli::out::says_yes;
use crate::proto::Failure;
use crate::render::diff::unified;
use crate::render::text::escape_visible;

use super::shown::print_problems;

/// Shows a procedure's files, or how they have changed, and asks whether they are trusted.
pub(super) fn trust(runtime: &Runtime, procedure: &Procedure) -> Result<u8, Failure> {
    if procedure.definition.is_none() {
        print_problems(procedure, &procedure.problems);
        return Ok(exit::USAGE);
    }
    let shown = match &procedure.before {
        Some(before) => unified(&procedure.file().display().to_string(), Some(before), procedure.manifest()),
        None => procedure.manifest().to_owned(),
    };
    say(&escape_visible(&format!("{} (each file's hash, then {}):", procedure.place.display(), crate::sop::FILE_NAME)));
    say_lines(&shown);
    for file in app::untrusted_files(runtime.env(), procedure) {
        let (what, text) = match &file.shown {
            Shown::Text { before: Some(before), now } => ("has changed:", unified(&file.path, Some(before), now)),
            Shown::Text { before: None, now } => ("holds:", now.clone()),
            Shown::Bytes(count) => ("isn't shown:", format!("binary, or long: {count} bytes")),
            Shown::Gone => ("is gone", String::new()),
            Shown::Changing => ("isn't shown:", "it has changed just now".to_owned()),
        };
        say(&escape_visible(&format!("{} {what}", file.path)));
        say_lines(&text);
    }
    if !super::is_terminal() {
        return Err(Failure::refused(format!(
            "only a person at a terminal can trust the procedure {}",
            procedure.name
        ))
        .hint(format!("reedclaw sop trust {} at a terminal", procedure.name)));
    }
    if !says_yes("Trust exactly these files, so that the procedure may run (yes/no)?") {
        say("not trusted");
        return Ok(exit::REFUSED);
    }
    app::trust_procedure(runtime.env(), procedure)?;
    say("trusted");
    Ok(exit::DONE)
}

fn say_lines(text: &str) {
    text.lines().for_each(|line| say(&escape_visible(&format!("  {line}"))));
}
