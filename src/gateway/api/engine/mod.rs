//! The engine's endpoints: actions, the event log, memory and blackboards, canvases, and what the gates need.

pub mod actions;
pub mod analytics;
pub mod artifacts;
pub mod canvas;
pub mod events;
pub mod routing;
pub mod safety;
pub mod stores;
