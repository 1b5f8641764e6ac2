//! Fixed limits of the program, each with its unit, its reason and the effect of reaching it.

/// Longest marker body that the scanner holds back; a longer one is ordinary output. A path of 4,096 bytes in
/// hexadecimal is 8,192.
pub const MARKER_BYTES_MAX: usize = 16 * 1024;
