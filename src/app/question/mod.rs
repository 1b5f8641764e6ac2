//! A question on its way: the context that it carries, what `@` attaches, how it is recorded, its conversation's title.

mod around;
mod attach;
mod record;
mod resources;
mod title;

pub use around::{Around, AroundNotes, Remembered};
pub use attach::{Attached, Attaching, PIPED};
pub use record::{StoreRecorder, past_summary, past_turns};
pub use resources::served_words;
pub use title::make_title;
