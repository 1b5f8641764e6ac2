//! The person's keys: their way to the editor, to the shell, or to whom the terminal is lent.

pub(super) mod editor;
pub(super) mod feed;
pub(super) mod keyboard;
pub(super) mod pressed;
