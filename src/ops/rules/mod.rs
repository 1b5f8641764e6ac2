//! The rules of a model's actions: allowed commands, the policy, the emergency stop, tools, skills.

pub mod allow;
pub mod estop;
pub mod policy;
pub mod skills;
