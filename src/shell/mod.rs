//! The backing shell: one persistent interactive shell in one PTY for the whole session.
//!
//! A line is handed over by a private key sequence that makes the shell load it from a file (`spawn`, the integration in
//! `config/shell/`); markers in the output, each with a nonce, report what happens (`scan`). One thread (`pump`) carries bytes
//! between the person's terminal, the line editor's own PTY and the shell's; `keyboard` does that for a terminal without a shell.
//! Knows nothing of routes, models or settings.

mod around;
mod bytes;
#[cfg(own_entry)]
mod entry;
mod event;
mod flow;
mod keys;
mod lookup;
mod phase;
mod pump;
mod regain;
pub mod session;
pub mod spawn;
pub mod supervise;
pub mod sys;
pub mod terminal;

pub use lookup::{names, programs, survey};

pub use bytes::{capture, input, modes, scan};

pub use around::takes_sequences;
pub use session::{Asked, Event, Handle, Notify, Options, Session, ShellPrompt, Tap, Wanted};
