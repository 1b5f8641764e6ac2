//! Typing: the keys of the line editor, the edits that reedline lacks, the search of the history and the suggestion. It
//! must not know what a line means, nor how a command is run.

mod chords;
mod edits;
mod hint;
mod readline;
mod search;
mod widget;

pub(super) use chords::{ChordMode, Escape, WordKey};
pub(super) use edits::Edit;
pub(super) use hint::Suggester;
pub(super) use readline::{bytes, chords, function};
pub(super) use search::{SearchMenu, Searching};
pub(super) use widget::widgets;

use std::sync::Arc;

use parking_lot::Mutex;

use crate::shell::session::Handle;

/// The state that the keys and the editor's menus share.
#[derive(Clone, Default)]
pub(super) struct Links {
    /// The search of the history.
    pub(super) searching: Searching,
    /// vi's Esc.
    pub(super) escape: Escape,
    /// The delimiter of an open here-document, if the cursor was at the start of its next row when the line was last drawn.
    pub(super) document: Arc<Mutex<Option<String>>>,
    /// The pump of the session.
    pub(super) pump: Option<Handle>,
}
