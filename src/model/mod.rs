//! Model endpoints: request, stream, errors. Owns the OpenAI-compatible wire; must not know of conversations' upkeep, of
//! storage or of the terminal, and never prints.
//!
//! The request runs on a thread of its own; what it hears comes through a bounded channel, so that the caller can turn
//! away at once, wherever the other side hangs.
//!
//! ```no_run
//! use reedclaw::model::{Endpoint, Piece, start};
//! use reedclaw::proto::{Message, Role};
//! use std::time::Duration;
//!
//! let endpoint = Endpoint::new("local", "http://127.0.0.1:8080", "default");
//! let mut stream = start(&endpoint, &[Message { role: Role::User, content: "hello".into() }]);
//! while let Ok(Some(Piece::Text(text))) = stream.recv_timeout(Duration::from_secs(600)) {
//!     // draw `text`
//! }
//! ```

mod decode;
mod endpoint;
mod error;
#[cfg(test)]
pub(crate) mod script;
mod sse;
mod stream;
#[cfg(test)]
mod tests;
mod wire;
mod worker;

pub use endpoint::{CONNECT_TIMEOUT, Endpoint, FIRST_BYTE_TIMEOUT, IDLE_TIMEOUT, Secret};
pub use error::{Fault, ModelError};
pub use stream::{Answer, Finish, Piece, Stream, Waker, complete, start};
