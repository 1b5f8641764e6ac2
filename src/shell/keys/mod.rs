//! The person's keys: their way to the editor, to the shell, or to a program that has borrowed the terminal.

pub(super) mod editor;
pub(super) mod feed;
pub(super) mod keyboard;
pub(super) mod pressed;
