//! The catalogue of tools: which of them a model is offered, and how its calls are read.

pub(super) mod fit;
pub(super) mod offer;
pub(super) mod registry;
pub(super) mod schema_text;
pub(super) mod spill;
pub mod stranger;
