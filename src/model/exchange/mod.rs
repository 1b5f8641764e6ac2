//! One request to a server and its response: bytes, events, repeats.

pub(super) mod connections;
pub(super) mod decode;
mod halves;
pub(super) mod retry;
pub(super) mod server;
pub(super) mod sse;
pub(super) mod stream;
pub(super) mod worker;
