//! A project's file over the user's own config: its rights, its trust, the layers in force.

pub(super) mod layers;
pub(super) mod project;
pub(super) mod tighten;
pub(super) mod trust;
