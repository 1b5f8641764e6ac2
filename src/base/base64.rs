//! Base64 (RFC 4648, section 4, with padding).

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

/// Encodes bytes.
#[must_use]
pub fn encode(bytes: &[u8]) -> String {
    STANDARD.encode(bytes)
}

/// Decodes a text; `None` if it isn't Base64.
#[must_use]
pub fn decode(text: &str) -> Option<Vec<u8>> {
    STANDARD.decode(text).ok()
}
