//! What every room may use: limits, random ids, hexadecimal text and base64. Knows nothing of the rest.

pub mod base64;
pub mod hex;
pub mod limits;
