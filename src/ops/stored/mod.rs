//! The things in the store: conversations, their names in editors, the history of lines, memories, receipts, lessons of routing.

pub mod conversations;
pub mod editors;
pub mod history;
pub mod memory;
pub mod receipts;
pub mod routes;
