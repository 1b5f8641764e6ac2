//! The choice of the model that answers: all models of a config, their order, their kinds of work.

pub(super) mod mock;
pub(super) mod models;
pub(super) mod reliable;
pub(super) mod router;
