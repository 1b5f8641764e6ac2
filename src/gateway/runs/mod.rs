//! The work for requests: threads, calls and runs that go on, the gates in front of tools, and the persons who are asked.

pub mod answering;
pub mod bell;
pub mod chained;
pub mod live;
pub mod person;
pub mod runners;
pub mod running;
mod traced;
pub mod turns;
pub mod work;
