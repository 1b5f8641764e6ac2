//! What every room may use: limits, hexadecimal text, base64, times as text. Knows nothing of the rest.

pub mod base64;
pub mod hex;
pub mod limits;
pub mod time;
