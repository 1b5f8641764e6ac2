//! The tools as a model is offered them, and calls as it writes them.

pub(super) mod fit;
pub(super) mod offer;
pub(super) mod registry;
pub(super) mod schema_text;
pub(super) mod spill;
pub mod stranger;
