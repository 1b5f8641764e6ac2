//! Models and how they are asked: the providers, their wires, streams, errors, retries and fall-backs. It must not know of
//! a conversation's upkeep, of storage or of the terminal, and never prints.
//!
//! A request to a server runs on a thread of its own; its results come through a bounded channel, so that the caller can stop at
//! once, wherever the other side hangs. [`Provider`] is the only interface for the rest of the program.
//!
//! ```no_run
//! use reedclaw::model::{Cancel, ChatEvent, Crossing, Endpoint, Provider, Request, Sending, Server, Sink};
//! use reedclaw::proto::{Failure, Message, Role};
//!
//! /// Prints the answer while it arrives.
//! struct Printed(Cancel);
//!
//! impl Sink for Printed {
//!     fn event(&mut self, event: ChatEvent) {
//!         if let ChatEvent::Text(text) = event {
//!             print!("{text}");
//!         }
//!     }
//!
//!     fn cancel(&self) -> &Cancel {
//!         &self.0
//!     }
//!
//!     fn permit(&mut self, _: &Sending<'_>) -> Result<Option<u64>, Failure> {
//!         Ok(None)
//!     }
//!
//!     fn consent(&mut self, _: &Crossing) -> bool {
//!         false
//!     }
//! }
//!
//! let server = Server::new(Endpoint::new("local", "http://127.0.0.1:8080", "default"));
//! let request = Request::of(&[Message { role: Role::User, content: "hello".into() }]);
//! let response = server.chat(&request, &mut Printed(Cancel::new()))?;
//! # Ok::<(), Box<reedclaw::model::ModelError>>(())
//! ```

mod cancel;
mod choice;
mod count;
mod endpoint;
mod error;
mod exchange;
mod probe;
mod provider;
mod request;
#[cfg(test)]
pub(crate) mod script;
#[cfg(test)]
mod tests;
mod window;
mod wire;

pub use cancel::{Cancel, Waker};
pub use choice::mock::Mock;
pub use choice::models::{Models, Spec};
pub use choice::reliable::Reliable;
pub use choice::router::Router;
pub use endpoint::{
    CONNECT_TIMEOUT, Endpoint, FIRST_BYTE_TIMEOUT, IDLE_TIMEOUT, KeyReader, Protocol, Secret, Thinking,
};
pub use error::{Fault, ModelError};
pub use exchange::server::Server;
pub use exchange::stream::{Piece, Stream};
pub use probe::list_models;
pub use provider::{Capabilities, ChatEvent, Count, Countable, Crossing, Provider, Reach, Sending, Sink};
pub use request::{
    Image, Item, Metadata, Request, Response, State, Stop, StopReason, Task, Tool, ToolCall, ToolResult, Usage,
};
