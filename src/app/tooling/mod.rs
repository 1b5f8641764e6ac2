//! The tools of a session: which there are, where they work, servers and skills.

pub(super) mod runner;
pub(super) mod scripts;
pub(super) mod servers;
pub(super) mod skills;
pub(super) mod tools;
pub(super) mod toolsets;
pub(super) mod workspace;
