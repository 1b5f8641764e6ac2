//! Takes over the changes that a session's command had made when a crash cut it off, as if it had ended at that moment.

use std::path::Path;
use std::sync::Arc;

use serde_json::json;

use crate::agent::calls::keep::Around;
use crate::agent::calls::runner::ToolRunner;
use crate::agent::person::Person;
use crate::base::text::counted;
use crate::gate::Call;
use crate::model::Cancel;
use crate::proto::action::Action;
use crate::proto::tool::Outcome;
use crate::sandbox::Layer;
use crate::tools::Copied;
use crate::tree::{Bench, CutOff, Did};

/// Name of the tool that runs commands.
const SHELL: &str = "shell";

/// Takes over the changes that the command of a copy on the bench had made: those that were judged already, otherwise those that
/// need no question or that `person` allows. The rest is dropped. `runner` works on the bench. Returns the command and the fate
/// of its changes; `None` if the copy isn't complete.
pub fn take_over_cut_off(
    runner: &mut ToolRunner,
    bench: &Bench,
    (layer, note): (Layer, &[u8]),
    (conversation, person): (Option<i64>, &mut dyn Person),
) -> Option<(String, Outcome)> {
    let CutOff { command, changes } = bench.resume(note)?;
    let mut outcome = Outcome::of(String::new());
    if let Some(changes) = changes {
        let changes: Vec<(&Path, Did)> = changes.iter().map(|(path, did)| (path.as_path(), did.clone())).collect();
        bench.adopt(&changes).ok()?;
        outcome.output = format!("kept: {}", counted(changes.len(), "change"));
        return Some((command, outcome));
    }
    let copied = Copied { command: command.clone(), layer: Arc::new(layer), refused: None };
    let call = Call {
        tool: SHELL.to_owned(),
        arguments: json!({"command": command}),
        action: Action::Shell { command: command.clone() },
        preview: String::new(),
        changes: Vec::new().into(),
        conversation,
        needs: Vec::new(),
    };
    // The question says so instead of an exit status.
    outcome.metadata.insert("cutOff".into(), true.into());
    let changes = runner.changes_of(&copied, &mut outcome);
    let cancel = Cancel::default();
    let mut around = Around { cancel: &cancel, person, sink: &mut |_| {} };
    runner.keep_or_fail(&copied, &call, changes, &mut outcome, &mut around);
    Some((command, outcome))
}
