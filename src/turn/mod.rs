//! The messages that a conversation sends to the model, and the requests in its answer. Pure: it doesn't know SQLite or HTTP, and
//! runs nothing.
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

mod answer;
mod compact;
mod conversation;
mod exec;
mod memory;
mod mention;
mod plain;
pub mod task;
mod thinking;

pub use answer::{
    CodeBlock, Reading, WrittenCall, code_blocks, commands_in, loose_json, may_begin_call, proposals, read_calls,
    whole_files,
};
pub use compact::{Older, Part, PastSummary};
pub use conversation::{CHARS_PER_TOKEN, Conversation, Options, PastTurn, Scale, estimate_tokens};
pub use memory::{Asked, Memory, memory_note, memory_request, relevant, written_memory};
pub use mention::{Mention, mentions, pasted_pictures};
pub use plain::plain_text;
pub use thinking::Thinking;
