//! The backing shell in its PTY.
