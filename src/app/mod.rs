//! Composition root: settings to options to rooms.
