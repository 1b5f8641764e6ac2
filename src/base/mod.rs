//! Tools for every room: limits, hashes, hexadecimal text, base64, percent codes, canonical JSON, deceptive characters, names
//! that file systems treat as equal, times as text, a user's directories, programs on `PATH`, the entries of git's index. Knows
//! nothing of the rest.

pub mod base64;
pub mod canonical;
pub mod directories;
pub mod git_index;
pub mod hash;
pub mod hex;
pub mod limits;
pub mod names;
pub mod percent;
pub mod program;
pub mod text;
pub mod time;
