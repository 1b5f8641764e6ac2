//! The only writer to the terminal.
