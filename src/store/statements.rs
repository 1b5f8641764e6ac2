//! Statements and values that both the file and its overlay use. Knows no rows of its own.

pub(super) const INSERT_MESSAGE: &str = "
    INSERT INTO message (conversation, seq, time, role, content, state, model, rewound, indexed)
    VALUES (?1, (SELECT coalesce(max(seq), 0) + 1 FROM message WHERE conversation = ?1), ?2, ?3, ?4, ?5, ?6, ?7, ?8)";
/// An ended message is indexed; one that a search has already indexed stays indexed.
pub(super) const APPEND: &str =
    "UPDATE message SET content = content || ?2, state = ?3, indexed = max(indexed, ?4) WHERE id = ?1";
pub(super) const TOUCH: &str = "UPDATE conversation SET updated = max(updated, ?2) WHERE id = ?1";
pub(super) const INSERT_CALL: &str = "
    INSERT INTO tool_call (conversation, message, seq, time, call_id, tool, arguments, result, success, receipt)
    VALUES (?1, ?2, (SELECT coalesce(max(seq), 0) + 1 FROM tool_call WHERE message = ?2), ?3, ?4, ?5, ?6, ?7, ?8, ?9)";
pub(super) const CALL_COLUMNS: &str = "conversation, message, time, call_id, tool, arguments, result, success, receipt";

/// A duration as SQLite's integer.
pub(super) fn stored_ms(duration_ms: Option<u64>) -> Option<i64> {
    duration_ms.map(|ms| i64::try_from(ms).unwrap_or(i64::MAX))
}
