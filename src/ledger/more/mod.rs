//! Parts beside the log that only some tenants use: measured figures, files of canvases, routes to back-ends, archives, the
//! removal of what is old; whether writes succeed; and what several gateways of one database need.

pub mod anchor;
pub mod archive;
pub mod artifacts;
pub mod backends;
pub mod boards;
pub mod figures;
pub mod health;
pub mod nodes;
pub mod relay;
pub mod retention;
pub mod shares;
