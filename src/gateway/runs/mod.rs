//! The work for requests: threads, running calls and runs, the gates before tools, and questions to persons.

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
