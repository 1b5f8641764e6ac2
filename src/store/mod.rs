//! SQLite: history and conversations.
