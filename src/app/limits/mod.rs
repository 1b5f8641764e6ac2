//! Settings of limits: money, rules, secrets, the sandbox.

pub(super) mod guard;
pub(super) mod jail;
pub(super) mod money;
pub(super) mod safety;
pub(super) mod sandbox;
pub(super) mod secrets;
