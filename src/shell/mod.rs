//! The backing shell: one persistent interactive shell in one PTY for the whole session.
//!
//! A line is handed over by a private key sequence that makes the shell load it from a file (`spawn`, the
//! integration in `config/shell/`); markers in the output, each with a nonce, say what happens (`scan`). One thread
//! (`pump`) carries bytes between the person's terminal, the line editor's own PTY and the shell's; `keyboard` is the part
//! of that for a terminal without a shell. Knows nothing of routes, models or settings.

mod around;
pub mod capture;
mod drawing;
mod editor;
mod feed;
mod flow;
pub mod input;
mod keyboard;
pub mod modes;
pub mod names;
pub mod programs;
mod pump;
pub mod scan;
pub mod session;
pub mod spawn;
pub mod supervise;
pub mod survey;
pub mod sys;
pub mod terminal;

pub use around::takes_sequences;
pub use pump::Asked;
pub use session::{Event, Handle, Notify, Options, Session, ShellPrompt, Wanted};
