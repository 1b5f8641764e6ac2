//! Pure readers of what a person types and a shell writes.

pub mod capture;
pub(super) mod drawing;
pub mod input;
pub mod modes;
pub mod scan;
pub(super) mod typed;
