//! HTTP: the listener, the checks in front of routing, the rows of routes, and what requests and answers consist of.

mod answers;
pub mod call;
pub mod front;
pub mod inputs;
pub mod metrics;
pub mod onward;
pub mod openapi;
pub mod problem;
pub mod rates;
pub mod route;
pub mod routes;
