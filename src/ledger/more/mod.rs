//! Stores beside the log that only some tenants use: measured figures, files of canvases, routes to back-ends.

pub mod artifacts;
pub mod backends;
pub mod figures;
