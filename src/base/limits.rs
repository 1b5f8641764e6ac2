//! Every fixed limit of the program, each with its unit, its reason and what a user sees when it is reached.

/// Default limit for the start of a command's output (`shell.capture_head_bytes`).
pub const CAPTURE_HEAD_BYTES: usize = 128 * 1024;
/// Default limit for the end of a command's output (`shell.capture_tail_bytes`).
pub const CAPTURE_TAIL_BYTES: usize = 1024 * 1024;
/// Longest marker body that the scanner holds back; a longer one is ordinary output. A path of 4,096 bytes in
/// hexadecimal is 8,192.
pub const MARKER_BYTES_MAX: usize = 16 * 1024;
