//! Asking a person by keys: a question and the key that answers it, approvals with pages and hunks, the choice about an
//! overdue command. It must not know why something is asked, nor how the answer is used.

mod approve;
mod hunks;
mod overdue;
mod pager;
mod question;
mod quiet;

pub use approve::{approve, crossing_question, words};
pub use hunks::rewrite;
pub use overdue::ask_overdue;
pub use pager::{Pager, look};
pub use question::{Asked, Asking, KeyMeaning, ask_yes_or_no, put, put_row, yes_or_no};
pub use quiet::{KeyRow, Listening};
