//! The files that a question names are read before a small model is asked: by itself it often answers from the names
//! alone, and invents what the files hold. They are read by calls like the model's own, which pass the gate.

use crate::files::Tree;
use crate::model::{Item, Request, ToolCall};
use crate::proto::action::Decision;

use super::calls::runner::ToolRunner;

/// Files that are read for one question.
const FILES_MAX: usize = 3;
/// Bytes of a file that is read; of a longer one a model chooses the lines itself.
const BYTES_MAX: u64 = 8 * 1024;

/// The beginning of the ids of these calls.
const LOOK: &str = "look-";

/// The calls that read the files of a question, as far as nobody need be asked about them. `begun` is the number of items
/// before them.
pub(super) fn reads(question: &str, begun: usize, runner: &mut ToolRunner) -> Vec<ToolCall> {
    if !runner.registry().is_tool("file_read") {
        return Vec::new();
    }
    let names = named(question, runner.tree());
    let call = |(number, name): (usize, &str)| ToolCall {
        id: format!("{LOOK}{begun}-{number}"),
        name: "file_read".to_owned(),
        arguments: serde_json::json!({"path": name}).to_string(),
    };
    let calls: Vec<ToolCall> = names.into_iter().enumerate().map(call).collect();
    let mut is_free =
        |call: &ToolCall| runner.preview(call, false).is_ok_and(|(_, verdict)| verdict.decision == Decision::Run);
    calls.into_iter().filter(|call| is_free(call)).collect()
}

/// Takes these calls and their results out of a request to a model that turns out to take no tools. Nothing is taken out if
/// the model has made calls itself.
pub(super) fn take_back(request: &mut Request, question_at: usize) {
    let is_ours = |item: &Item| match item {
        Item::Assistant { calls, .. } => calls.iter().all(|call| call.id.starts_with(LOOK)),
        Item::Tool(result) => result.id.starts_with(LOOK),
        _ => false,
    };
    if request.messages[question_at.min(request.messages.len())..].iter().all(is_ours) {
        request.messages.truncate(question_at);
    }
}

/// The words of a question that are short text files of the tree, each once.
fn named<'q>(question: &'q str, tree: &dyn Tree) -> Vec<&'q str> {
    let mut names: Vec<&str> = Vec::new();
    for word in question.split(|c: char| c.is_whitespace() || "\"'`,;:!?()[]{}<>".contains(c)) {
        let word = word.trim_end_matches('.');
        let is_path = !word.is_empty() && !word.starts_with(['/', '~', '-', '@']);
        if is_path && !names.contains(&word) && is_short_text(word, tree) {
            names.push(word);
        }
        if names.len() == FILES_MAX {
            break;
        }
    }
    names
}

fn is_short_text(path: &str, tree: &dyn Tree) -> bool {
    tree.read(path, BYTES_MAX).is_ok_and(|content| !content.bytes.contains(&0))
}
