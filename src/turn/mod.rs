//! What a conversation sends to the model and what its answer asks for. Pure: has never heard of SQLite or HTTP.
