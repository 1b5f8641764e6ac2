//! The messages that a conversation sends to the model, and the requests in its answer. Pure: has never heard of SQLite
//! or HTTP, and runs nothing.
//!
//! ```
//! use reedclaw::turn::{Conversation, Options, commands_in};
//!
//! let mut conversation = Conversation::new(Options::default());
//! let (messages, notices) = conversation.messages_for("which files are large?");
//! assert_eq!((messages.len(), notices.len()), (1, 0));
//! conversation.answered("CMD: du -sh *");
//! assert_eq!(commands_in("CMD: du -sh *")[0].text, "du -sh *");
//! ```

mod blocks;
mod calls;
mod commands;
mod compact;
mod conversation;
mod exec;
mod files;
mod loose;
mod memory;
mod mention;
mod plain;
mod scan;
pub mod task;
mod thinking;

pub use blocks::{CodeBlock, code_blocks};
pub use calls::{Reading, WrittenCall, may_begin_call, read_calls};
pub use commands::{commands_in, proposals};
pub use compact::{Older, Part, PastSummary};
pub use conversation::{CHARS_PER_TOKEN, Conversation, Options, PastTurn, Scale, estimate_tokens};
pub use files::whole_files;
pub use loose::loose_json;
pub use memory::{Asked, Memory, memory_note, memory_request, relevant, written_memory};
pub use mention::{Mention, mentions, pasted_pictures};
pub use plain::plain_text;
pub use thinking::Thinking;
