//! From the text of a config to checked values: its location, its keys, its problems.

pub(super) mod check;
pub(super) mod checked;
pub(super) mod defaults;
pub(super) mod expand;
pub(super) mod find;
pub(super) mod places;
pub(super) mod problem;
pub(super) mod values;
