//! Parts beside the log that only some tenants use: measured figures, files of canvases, routes to back-ends, archives.

pub mod archive;
pub mod artifacts;
pub mod backends;
pub mod figures;
