//! The database's file as a whole: faults, export, import.

pub mod doctor;
pub mod export;
pub mod import;
