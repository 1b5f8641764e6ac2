//! A call that a person is asked about, as JSON for a page. Pure.

use serde_json::{Value, json};

use crate::base::text::counted;
use crate::proto::action::Action;
use crate::proto::tool::Question;

/// A call as persons see it, as JSON.
#[must_use]
pub fn card(question: &Question) -> Value {
    let verdict = &question.verdict;
    let reasons: Vec<Value> = verdict
        .reasons
        .iter()
        .map(|reason| json!({"rule": reason.rule, "risk": reason.risk.word(), "text": reason.text}))
        .collect();
    let text = |bytes: &Option<Vec<u8>>| bytes.as_ref().map(|bytes| String::from_utf8_lossy(bytes).into_owned());
    let changes: Vec<Value> = question
        .changes
        .iter()
        .map(|it| json!({"path": it.path, "old": text(&it.old), "new": text(&it.new)}))
        .collect();
    json!({
        "tool": question.tool, "action": action_text(&question.action), "risk": verdict.risk.word(), "reasons": reasons,
        "effects": verdict.effects.iter().map(ToString::to_string).collect::<Vec<String>>(),
        "needs": verdict.needs.iter().map(ToString::to_string).collect::<Vec<String>>(),
        "cwd": question.cwd, "program": question.program, "preview": question.preview, "changes": changes,
    })
}

/// An action in a line.
fn action_text(action: &Action) -> String {
    match action {
        Action::Shell { command } => command.clone(),
        Action::Read { path } => format!("read {path}"),
        Action::Open { paths } => format!("read {}", paths.join(", ")),
        Action::List { path } => format!("list {path}"),
        Action::Write { path } => format!("write {path}"),
        Action::Delete { path } => format!("delete {path}"),
        Action::Edit { writes, deletes } => {
            let all =
                writes.iter().map(|it| format!("write {it}")).chain(deletes.iter().map(|it| format!("delete {it}")));
            all.collect::<Vec<String>>().join(", ")
        }
        Action::Keep { command, writes, deletes, directories, .. } => {
            let folders = |number| if number == 1 { "1 directory".to_owned() } else { format!("{number} directories") };
            match (writes.len() + deletes.len(), directories.len()) {
                (files, 0) => format!("keep {} of: {command}", counted(files, "changed file")),
                (0, directories) => format!("keep the changes of {} of: {command}", folders(directories)),
                (files, directories) => {
                    format!("keep {} and {} of: {command}", counted(files, "changed file"), folders(directories))
                }
            }
        }
        Action::Http { method, url } => format!("{method} {url}"),
        Action::Canvas { canvas } => format!("change the canvas {canvas}"),
        Action::Inert { name } | Action::External { name } => name.clone(),
        Action::Served { .. } => "call a tool of a server".to_owned(),
    }
}
