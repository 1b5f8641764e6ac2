//! What a request to a model came to, in one form for every provider.

/// Tokens in one normal form: the fields don't contain each other, so their sum is the whole, at every provider.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Read by the model, neither from a cache nor into one.
    pub uncached_in: u64,
    /// Read from the provider's cache.
    pub cache_read: u64,
    /// Written into the provider's cache.
    pub cache_write: u64,
    /// Written as answer and tool calls.
    pub visible_out: u64,
    /// Written as thoughts.
    pub reasoning_out: u64,
    /// What the server said, JSON.
    pub raw: String,
}

impl Usage {
    /// All that was read.
    #[must_use]
    pub fn total_in(&self) -> u64 {
        self.uncached_in.saturating_add(self.cache_read).saturating_add(self.cache_write)
    }

    /// All that was written.
    #[must_use]
    pub fn total_out(&self) -> u64 {
        self.visible_out.saturating_add(self.reasoning_out)
    }
}

/// One request to a model, and what it came to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Spent {
    /// The name in the config of the model that answered.
    pub model: String,
    /// The tools that it asked for, by name, in order.
    pub tools: Vec<String>,
    /// The tokens.
    pub usage: Usage,
}
