//! Parts beside the log that only some tenants use: measured figures, files of canvases, routes to back-ends, archives, the
//! removal of old data; the check of writes; and the state that the gateways of one database share.

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
