//! A person's changes to a proposal: the hunks that they accept, or a text of their own.

use std::sync::Arc;

use crate::gate::{Call, Ticket};
use crate::proto::action::{Decision, Risk};
use crate::proto::tool::{FileChange, Outcome};
use crate::tools::changed_by_person;

/// A person's way of changing a proposal.
pub(in crate::agent) enum How {
    /// The person accepted some of its hunks.
    Taken {
        /// Tells the model which.
        note: String,
        /// True if the changes that no hunk shows were accepted.
        has_others: bool,
    },
    /// The person wrote another text, and is asked about it.
    Rewritten,
}

impl How {
    /// A note for the model about it.
    pub(in crate::agent) fn note(self) -> String {
        match self {
            Self::Taken { note, .. } => format!("\n{note}"),
            Self::Rewritten => String::new(),
        }
    }
}

/// A person's changes to a proposal, since the first one.
#[derive(Default)]
pub(super) struct Revision {
    /// The model's proposal.
    proposed: Option<Arc<[FileChange]>>,
    /// Hunks that they have taken: a yes to exactly these files.
    pub(super) chosen: Option<Chosen>,
    notes: String,
}

/// A yes to the resulting files, in answer to a question.
pub(super) struct Chosen {
    files: Vec<FileChange>,
    risk: Risk,
}

impl Chosen {
    /// Returns whether a call does exactly this, with no higher risk; otherwise the person is asked again.
    pub(super) fn is_of(&self, ticket: &Ticket) -> bool {
        ticket.call().changes[..] == self.files[..]
            && ticket.verdict().risk <= self.risk
            && ticket.verdict().decision != Decision::Deny
    }
}

impl Revision {
    pub(super) fn note(&mut self, call: &Call, files: Vec<FileChange>, risk: Risk, how: How) {
        self.proposed.get_or_insert_with(|| Arc::clone(&call.changes));
        if let How::Taken { note, .. } = how {
            self.notes.push_str(&note);
            self.chosen = Some(Chosen { files, risk });
        }
    }

    /// Reports to the model how its proposal was changed.
    pub(super) fn report(self, mut outcome: Outcome, done: &[FileChange]) -> Outcome {
        let Some(proposed) = self.proposed.filter(|_| outcome.success) else { return outcome };
        let changed = changed_by_person(&proposed, done);
        if !changed.is_empty() {
            let report = format!(
                "{}The user changed your proposal before they accepted it. From what you proposed to what is there now:\n{changed}",
                self.notes
            );
            outcome.output = format!("{}\n{report}", outcome.output.trim_end());
            outcome.metadata.insert("changed_by_user".into(), true.into());
        }
        outcome
    }
}

/// The files of a proposal, one of them with another content.
pub(super) fn rewritten(changes: &[FileChange], number: usize, content: Vec<u8>) -> Vec<FileChange> {
    let mut files = changes.to_vec();
    if let Some(file) = files.get_mut(number) {
        file.new = Some(content);
    }
    files.retain(|file| file.old != file.new);
    files
}
