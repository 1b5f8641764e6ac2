//! The only door out: files, environment, clock.
