//! Lua configuration to settings, with problems as data.
