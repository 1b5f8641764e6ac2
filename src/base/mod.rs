//! What every room may use: limits, random ids, hexadecimal text. Knows nothing of the rest.

pub mod hex;
pub mod limits;
