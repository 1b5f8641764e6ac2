//! The rights of a project's file over a setting: it can tighten what the user's own config grants.

/// The rights of a project's file (`.reedclaw.lua`, `./config.lua`) over a setting: it can only tighten.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Project {
    /// Grants nothing: the project's value applies.
    May,
    /// Grants something, named here in words that follow "a project can't": only the user's own config can grant it.
    Not(&'static str),
    /// A switch that can only be set to this value.
    Only(bool),
    /// A number that can only become smaller.
    Less,
    /// A list that can only grow.
    Adds,
    /// A list that can only lose entries; an absent list means everything.
    Drops,
    /// One of a few strings, from the strictest to the loosest, that can only become stricter.
    Stricter(&'static [&'static str]),
    /// A table of such strings, each of which can only become stricter; for an entry that the user hasn't set, any string but the
    /// loosest is allowed.
    StricterEach(&'static [&'static str]),
    /// The address of a model that the user hasn't defined, on this machine.
    NewLocal,
}
